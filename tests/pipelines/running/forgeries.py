"""What a forger does to a public folder, and makes consistent as far as it can be."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pydantic_core
from numpy.typing import NDArray

from geo_data.od_files import write_od_csv
from helpers import forge, plan_again, seal_again
from pipelines.drawing.estimating import JobLayout
from pipelines.plans.storage import load_plan
from pipelines.release.certificate import guarantee_fields, parse_certificate
from pipelines.release.layout import seal
from pipelines.release.measurements import read_measurements, write_measurements
from pipelines.storage.checksums import sha256_of

Forgery = tuple[Callable[[Path], object], str]
"""What changes the public folder of a release, and the check that then refuses it."""

Counts = NDArray[np.int64]
AGES = ["middle", "old", "young"]
GONE = object()
_IN_NAMES = {"od": "od_main", "jobs": "jobs"}
"""What the names of files have of each kind."""


def put(document: Any, values: Mapping[str, object]) -> None:
    """Change values in place, by their paths: to others, to what a function makes of them, or GONE."""
    for path, value in values.items():
        table = document
        *parents, last = path.split(".")
        for name in parents:
            table = table[int(name)] if isinstance(table, list) else table[name]
        if value is GONE:
            del table[last]
        else:
            table[last] = value(table[last]) if callable(value) else copy.deepcopy(value)


def read_certificate(public: Path) -> Any:
    return json.loads((public / "certificate.json").read_text(encoding="utf-8"))


def stated(check: str, **values: object) -> Forgery:
    """Return a certificate with other values: "__" in a name is the dot of a path."""

    def change(public: Path) -> None:
        document = read_certificate(public)
        put(document, {path.replace("__", "."): value for path, value in values.items()})
        forge(public, document)

    return change, check


def planned(check: str, path: str, value: object) -> Forgery:
    """Return a plan with another value, and a certificate that names it."""
    return lambda public: plan_again(public, lambda document: put(document, {path: value})), check


def policy(check: str, value: object) -> Forgery:
    return planned(check, "configuration.privacy.policy", value)


def rows(check: str, kind: str, change: Callable[[pa.Table], pa.Table]) -> Forgery:
    """Return other rows in every file of a kind, as of an attacker who has this program."""

    def changed(public: Path) -> None:
        for path in sorted(public.rglob(f"*_{_IN_NAMES[kind]}_*.parquet")):
            pq.write_table(change(pq.read_table(path)), path, compression="zstd")
        forge(public, read_certificate(public))

    return changed, check


def moved_to(table: pa.Table, side: str, code: str) -> pa.Table:
    """All jobs of the last pair of home and work are elsewhere."""
    codes = table[side].to_pylist()
    return table.set_column(table.column_names.index(side), side, pa.array([*codes[:-1], code]))


def moved_home(table: pa.Table) -> pa.Table:
    """One job whose home is in another county."""
    homes = table["h_geocode"].to_pandas()
    counties = homes.str[:5]
    homes[homes.index[counties == counties.min()][0]] = homes[counties == counties.max()].iloc[0]
    at = table.column_names.index("h_geocode")
    return table.set_column(at, table.schema.field(at), pa.array(homes, table.schema.field(at).type))


def moved_homes(public: Path) -> None:
    for kind in ("od", "jobs"):
        rows("", kind, moved_home)[0](public)


def other_age(table: pa.Table) -> pa.Table:
    """One job of another category: the OD file and the file of jobs differ."""
    ages = table["age"].to_pylist()
    ages[0] = next(age for age in AGES if age != ages[0])
    at = table.column_names.index("age")
    return table.set_column(at, table.schema.field(at), pa.array(ages, table.schema.field(at).type))


def cut_elsewhere(public: Path) -> None:
    """A domain that begins inside a county, with a plan.json and a certificate that name it."""
    path = public / "plan" / "domains.parquet"
    table = pq.read_table(path)
    cuts = table["cuts"].to_pylist()
    next(blocks for blocks in cuts if blocks[0] > 0)[0] += 1
    column = pa.array(cuts, table.schema.field("cuts").type)
    pq.write_table(table.set_column(2, table.schema.field("cuts"), column), path)
    plan_again(public, lambda plan: plan["files"].update({"domains.parquet": sha256_of(path)}))


def without_paragraph(beginning: str) -> Forgery:
    """Return the read-me without a paragraph, if there is one that begins so."""

    def change(public: Path) -> None:
        readme = (public / "README.md").read_text(encoding="utf-8")
        paragraphs = [part for part in readme.split("\n\n") if not part.startswith(beginning)]
        (public / "README.md").write_text("\n\n".join(paragraphs), encoding="utf-8")
        seal(public, parse_certificate((public / "certificate.json").read_bytes()))

    return change, "texts"


def other_words(name: str, words: str, others: str) -> Forgery:
    """Return a page with other words."""

    def change(public: Path) -> None:
        page = (public / name).read_text(encoding="utf-8")
        assert words in page
        (public / name).write_text(page.replace(words, others), encoding="utf-8")
        seal_again(public)

    return change, "texts"


def not_of_the_plan_either(public: Path) -> None:
    """Neither certificate nor plan says whose jobs are released."""
    stated("", population=None)[0](public)
    planned("", "configuration.jobs.population", "all")[0](public)


def copied(public: Path) -> None:
    for path in (public / "implicate-01").iterdir():
        (public / "implicate-02" / path.name).write_bytes(path.read_bytes())
    seal_again(public)


def more_folders(public: Path) -> None:
    shutil.copytree(public / "implicate-03", public / "implicate-04")
    seal_again(public)


def fewer_lines(lines: list[str]) -> list[str]:
    return [line for line in lines if "inside the geography" not in line]


# --- implicates


def changed_count(number: int) -> Forgery:
    """One job more in an implicate."""

    def changed(public: Path) -> None:
        path = public / f"implicate-{number:02}" / "demo_od_main_JT00_2019.parquet"
        pq.write_table(one_job_more(pq.read_table(path)), path, compression="zstd")
        seal_again(public)

    return changed, "data"


def one_job_more(table: pa.Table) -> pa.Table:
    at = table.column_names.index("S000")
    first = np.arange(len(table)) == 0
    return table.set_column(at, table.schema.field(at), pc.add(table["S000"], pa.array(first.astype(int))))


# --- noise


def less_noise_at_its_price(public: Path) -> None:
    """A certificate that is true of a plan with less noise than was asked for."""
    plan_again(public, lambda document: put(document, {"parameters.numerator": lambda n: n - n // 1000}))
    plan = load_plan(public / "plan")
    fields = guarantee_fields(plan, plan.mechanism.certify(plan.numeric))
    forge(public, read_certificate(public) | pydantic_core.to_jsonable_python(fields))


def noisy(check: str, change: Callable[[Counts, JobLayout], Counts]) -> Forgery:
    """Other noisy counts of the first table."""

    def changed(public: Path) -> None:
        plan = load_plan(public / "plan")
        layout = JobLayout(plan)
        ((counts, *secondary),) = read_measurements(public, plan, layout)
        tables = [change(counts[:], layout), *(values[:] for values in secondary)]
        write_measurements(plan, layout, [tables], public)
        forge(public, read_certificate(public))

    return changed, check


def turned(counts: Counts, layout: JobLayout) -> Counts:
    """They give other estimates, from which the homes cannot have been rounded."""
    return np.concatenate([group[::-1] for group in np.split(counts, layout.tables[0].offsets[1:-1])])


def measured_file(check: str, name: str, change: Callable[[pa.Table], pa.Table]) -> Forgery:
    """Other rows in a file of what was measured."""

    def changed(public: Path) -> None:
        path = public / "measurements" / name
        pq.write_table(change(pq.read_table(path)), path, compression="zstd")
        forge(public, read_certificate(public))

    return changed, check


def with_counts(table: pa.Table, change: Counts) -> pa.Table:
    return table.set_column(table.num_columns - 1, "count", pc.add(table["count"], pa.array(change)))


def fewer_jobs(table: pa.Table) -> pa.Table:
    """One job less where there are several."""
    more = table["count"].to_numpy() > 1
    return with_counts(table, -((np.cumsum(more) == 1) & more).astype(int))


def job_of_another_kind(table: pa.Table) -> pa.Table:
    """One job less where there are several, and one more in the row before."""
    change = fewer_jobs(table)["count"].to_numpy() - table["count"].to_numpy()
    return with_counts(table, change - np.roll(change, -1))


def many_more(table: pa.Table) -> pa.Table:
    """Noisy counts of other workplaces."""
    return table.set_column(table.num_columns - 1, "noisy", pc.add(table["noisy"], 50))


def without_file(name: str) -> Callable[[Path], object]:
    """Return what takes a file out of a folder."""

    def removed(public: Path) -> None:
        (public / name).unlink()
        seal_again(public)

    return removed


def raised(by: int, *cells: int) -> Callable[[Counts, JobLayout], Counts]:
    """Return what adds a number to some of the first cells."""
    return lambda counts, _: counts + np.isin(np.arange(counts.size), cells) * by


def without_noise(counts: Counts, layout: JobLayout) -> Counts:
    """All homes in the first cell."""
    result = np.zeros_like(counts)
    result[layout.tables[0].offsets[:-1]] = layout.tables[0].n
    return result


def table_of_counts(change: Callable[[pa.Table], pa.Table]) -> Forgery:
    """A file of measurements in another form."""

    def changed(public: Path) -> None:
        path = public / "measurements" / "table-1.parquet"
        pq.write_table(change(pq.read_table(path)), path, compression="zstd")
        forge(public, read_certificate(public))

    return changed, "measurements"


def without_counts(table: pa.Table) -> pa.Table:
    lists = table["noisy"].combine_chunks()
    nothing = pa.nulls(len(lists.values), pa.int64())
    changed = pa.LargeListArray.from_arrays(lists.offsets, nothing)
    return table.set_column(1, table.schema.field("noisy"), changed)


def without_measurements(public: Path) -> None:
    (public / "measurements" / "table-1.parquet").unlink()
    forge(public, read_certificate(public))


# --- the files of main and aux


def between(change: Callable[[pa.Table, pa.Table], tuple[pa.Table, pa.Table]]) -> Forgery:
    """Other rows in the OD files of homes inside and outside, in both formats."""

    def changed(public: Path) -> None:
        stems = [public / f"demo_od_{kind}_JT00_2019" for kind in ("main", "aux")]
        tables = [pq.read_table(f"{stem}.parquet") for stem in stems]
        for stem, table, before in zip(stems, change(*tables), tables, strict=True):
            pq.write_table(table, f"{stem}.parquet", compression="zstd")
            date = before["createdate"][0].as_py()
            write_od_csv(table.drop_columns("createdate"), Path(f"{stem}.csv.gz"), createdate=date)
        seal_again(public)

    return changed, "data"


def in_order(*tables: pa.Table) -> pa.Table:
    return pa.concat_tables(tables).sort_by([("w_geocode", "ascending"), ("h_geocode", "ascending")])


def in_a_block(main: pa.Table, aux: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Homes outside in a block of another state."""
    homes = pc.replace_substring(aux["h_geocode"], "259999999999999", "250173000000001")
    at = aux.column_names.index("h_geocode")
    return main, aux.set_column(at, aux.schema.field(at), homes)


# --- folders of Parquet files


def parts_of(public: Path, kind: str = "od") -> list[Path]:
    return sorted(public.glob(f"*_{_IN_NAMES[kind]}_*.parquet/*"))


def parts(check: str, change: Callable[[Path], object]) -> Forgery:
    """Other parts of a table that is a folder of files."""

    def changed(public: Path) -> None:
        change(public)
        seal_again(public)

    return changed, check


def missing(kind: str, number: int) -> Callable[[Path], object]:
    return lambda public: parts_of(public, kind)[number].unlink()


def in_another_order(kind: str) -> Callable[[Path], object]:
    def changed(public: Path) -> None:
        first, second, *_ = parts_of(public, kind)
        swap = first.with_name("swap")
        first.rename(swap)
        second.rename(first)
        swap.rename(second)

    return changed


def twice(public: Path) -> None:
    last = parts_of(public)[-1]
    shutil.copy(last, last.with_name(f"part-{len(parts_of(public)):06}.parquet"))


def in_one_file(public: Path) -> None:
    folder = parts_of(public)[0].parent
    whole = pq.read_table(folder)
    shutil.rmtree(folder)
    pq.write_table(whole.replace_schema_metadata(), folder)


def changed_part(public: Path) -> None:
    part = parts_of(public)[1]
    pq.write_table(one_job_more(pq.read_table(part)), part)


def no_part(public: Path) -> None:
    (parts_of(public)[0].parent / "more.parquet").write_bytes(b"PAR1")
