"""Sections of a read-me for who has only the folder: columns, first steps, what homes are of, who to ask."""

from __future__ import annotations

import json
import textwrap

from geo_data.geography import Geography
from pipelines.config.implicates import Implicates
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.polygon_tables import polygon_levels
from pipelines.release.description import Column, ReleaseDescription, Table
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import polygon_file

_WIDTH = 110


def terms_of_columns(description: ReleaseDescription, geography: Geography) -> str:
    """Say what jobs and blocks are in a release, and which of its files the tables of columns leave out."""
    words = (
        f"The jobs are of {description.year}. Numbers count jobs: somebody with several in the records is "
        f"counted with each. A **block** is the smallest area of this release, `{geography.block_level}`. "
        "Codes are text, and zeros at their beginning belong to them. Tables in `plan/` other than that "
        "of blocks, and in `measurements/` where it is there, are for who checks the release again."
    )
    return f"{textwrap.fill(words, _WIDTH)}\n"


def columns_in_words(description: ReleaseDescription) -> str:
    """Return tables, in Markdown, that say what every column of every file means; those alike once."""
    alike: dict[tuple[Column, ...], list[Table]] = {}
    for table in description.tables:
        alike.setdefault(table.columns, []).append(table)
    parts = []
    for columns, tables in alike.items():
        files: dict[str, list[str]] = {}
        for one in tables:
            files.setdefault(one.meaning, []).extend(f"`{name}`" for name in one.files)
        rows = "\n".join(f"| `{column.name}` | {_cell(column.words)} |" for column in columns)
        about = " ".join(f"A row of {_files(names)} is {meaning}." for meaning, names in files.items())
        parts.append(f"{textwrap.fill(about, _WIDTH)}\n\n| column | meaning |\n| --- | --- |\n{rows}\n")
    return "\n".join(parts)


def first_steps(plan: ReleasePlan, names: dict[str, str], *, named: bool) -> str:
    """Return lines of Python that count who lives in one area and works in another, with names and shapes.

    Parameters
    ----------
    plan : ReleasePlan
    names : dict of str to str
        Data files by kind (`file_names`).
    named : bool
        Whether there are names of units.
    """
    geography, shapes = plan.geography, polygon_levels(plan.config.geography)
    block = _quoted(geography.block_level)
    level = shapes[-1] if shapes else (geography.levels or (geography.block_level,))[0]
    below = plan.implicates.folders[0]
    files = [f"{below}{names[kind]}" for kind in ("od_parquet", "aux_parquet") if kind in names]
    lines = [
        "import pandas",
        "",
        f"jobs = pandas.concat(map(pandas.read_parquet, {_quoted(files)}))",
        'blocks = pandas.read_parquet("plan/blocks.parquet")',
        f"area = blocks.set_index({block}, drop=False)[{_quoted(level)}].astype(str)",
        'jobs = jobs.assign(home=jobs["h_geocode"].map(area), work=jobs["w_geocode"].map(area))',
        'flows = jobs.groupby(["home", "work"], as_index=False)["S000"].sum()',
    ]
    if named:
        lines += [
            f'names = pandas.read_parquet("{NAME_FILE}")',
            f'names = names[names["level"] == {_quoted(level)}].set_index("code")["name"]',
            'flows = flows.assign(home_name=flows["home"].map(names), work_name=flows["work"].map(names))',
        ]
    lines.append('print(flows.nlargest(5, "S000").to_string(index=False))  # the largest')
    if shapes:
        lines += [
            "",
            "import geopandas  # for maps",
            "",
            f"shapes = geopandas.read_parquet({_quoted(polygon_file(level))}).set_index({_quoted(level)})",
            'shapes["jobs"] = flows.groupby("work")["S000"].sum()',
        ]
    code = "\n".join(lines)
    others = " Other levels are columns of `blocks`." if geography.levels else ""
    return (
        f"How many live in one `{level}` and work in another, with pandas:\n\n```python\n{code}\n```\n\n"
        f"A row of `flows` is a number of synthetic workers; a pair without a row has none.{others}\n"
    )


def pools_in_words(plan: ReleasePlan) -> str:
    """Say which work blocks share homes, and what the attributes of a job say of its home."""
    pools, pooling = plan.pools, plan.pools.pooling
    shared, by = int(pools.shared.sum()), _listed([f"`{name}`" for name in pooling.by])
    some = (
        f"Work blocks with fewer than {pooling.below:,} jobs share the pool of their {pooling.level}: "
        f"{shared:,} of the {pools.n.size:,} pools are shared."
    )
    others = set(pools.slots.categories) > set(plan.attributes)  # that homes are not told apart by
    parts = [some if shared else "Every work block has pools of its own: no two share one."]
    if plan.measures:
        tables = "; ".join(words for words, _ in plan.tables)
        apart = [
            *(["the work blocks of a shared pool"] if shared else []),
            *(["other attributes"] if others else []),
        ]
        such = f", such as {' or '.join(apart)}," if apart else ""
        parts.append(
            f"Homes were drawn from an estimate that was made of these measured tables: {tables}. What none "
            f"of them tells apart{such} differs in homes by chance and by public data only."
        )
    else:
        alike = [
            *(["between the work blocks of a shared pool"] if shared else []),
            *(["between jobs of a pool with other attributes"] if others else []),
        ]
        parts.append("Homes were drawn for a pool, and which of its jobs has which of them is chance.")
        if alike:
            parts.append(f"So {', and '.join(alike)}, homes differ by chance only.")
        if by:
            each = "combination of categories" if len(pooling.by) > 1 else "category"
            parts.append(f"Each {each} of {by} has pools of its own.")
    if plan.policy.secret:
        secret = _listed([f"`{name}`" for name in plan.policy.secret])
        parts.append(f"Every home was drawn together with {secret} of the job.")
    if plan.policy.n_parts > 1:
        part = plan.part_in_words
        parts.append(
            f"All this is said of homes in one {part}: in which {part} its home lies is known of each job by "
            f"policy, and each {part} of homes has pools of its own."
        )
    place = "the work block or the first block of a shared pool; `shared`" if shared else "the work block"
    parts.append(
        f"`plan/pools.parquet` has the pools (`place`, {place}; `n`, jobs), and `plan/slots.parquet` the "
        "work blocks of each."
    )
    return textwrap.fill(" ".join(parts), _WIDTH) + "\n"


def implicates_in_words(implicates: Implicates) -> str:
    """Say how results of several implicates are combined, with the formula; nothing of one data set."""
    if implicates.number == 1:
        return ""
    k = implicates.number
    formula = (
        f"Do an analysis on each implicate as if it were real data. That gives estimates q_1 to q_{k} and "
        f"their squared standard errors u_1 to u_{k}. The combined estimate is their mean, with the variance "
        f"T = u + B / {k}, where u is the mean of the squared errors and B the variance of the estimates "
        f"(divided by {k - 1}). An interval is that of a t distribution with {k - 1} (1 + u / (B / {k}))^2 "
        "degrees of freedom (Reiter 2003, partially synthetic data; `pipelines.combine` computes it)."
    )
    warning = (
        "These implicates are cut from one urn and share what it became: B is too small, and such an "
        "interval is too narrow."
        if implicates.source == "one-urn"
        else "What the mechanism changes in all implicates alike, such as a pull toward public data, is in "
        "no variance between them: such an interval holds the truth less often than it says."
    )
    return f"{textwrap.fill(f'{formula} {warning}', _WIDTH)}\n"


def terms_in_words(description: ReleaseDescription) -> str:
    """Say under which licence the release may be used, who answers for it, and how to cite it."""
    unsaid = "not stated in this release: ask whoever gave it to you"
    rows = {
        "Licence": description.licence or f"{unsaid}, before you pass it on or build on it",
        "Publisher": description.publisher or unsaid,
        "Contact": description.contact or unsaid,
        "Cite as": description.citation,
    }
    return "\n".join(f"- {name}: {value}" for name, value in rows.items()) + "\n"


def _quoted(value: str | list[str]) -> str:
    """Return a text, or several, as Python writes them."""
    return json.dumps(value, ensure_ascii=False)


def _files(names: list[str]) -> str:
    return _listed(names if len(names) <= 4 else [*names[:2], f"{len(names) - 2} more of the same kind"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)
