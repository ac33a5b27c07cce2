"""The read-me of a release."""

from __future__ import annotations

import textwrap

from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.polygon_tables import polygon_levels
from pipelines.release.accuracy import ACCURACY_FILE, accuracy_in_words, read_in_words
from pipelines.release.attackers import ATTACKERS_FILE
from pipelines.release.certificate import (
    AttributeField,
    Certificate,
    policy_in_words,
    population_in_words,
)
from pipelines.release.description import (
    MEASUREMENT_FOLDER,
    WHOSE_JOBS,
    ReleaseDescription,
    describe_release,
)
from pipelines.release.guide import (
    columns_in_words,
    first_steps,
    implicates_in_words,
    pools_in_words,
    terms_in_words,
    terms_of_columns,
)
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import POLYGON_FOLDER, polygon_file
from pipelines.release.promises import odds_in_words, presence_in_words
from pipelines.release.records import RECORDS, record_files
from pipelines.release.signing import SIGNED, UNSIGNED
from pipelines.release.verifier import VERIFIER

_WIDTH = 110
_MEASURED = f"{MEASUREMENT_FOLDER}/"
# Of files by what is in their names, the first that fits.
_FILES = {
    "_od_main_": "jobs counted by work block and home block, in the layout of LODES",
    "_od_aux_": "those of workers who live in external zones, whose codes end in 9s",
    "_jobs_main_": "one row a synthetic worker, with the attributes of the job",
    _MEASURED: "the noisy counts that homes were estimated from",
    ACCURACY_FILE: "how far numbers are expected to be from the truth",
    ATTACKERS_FILE: "what somebody could learn about a person, by what they know already",
    NAME_FILE: "names of public units, for maps",
    f"{POLYGON_FOLDER}/": "shapes of public units, for maps",
    VERIFIER: "a program of one file that checks the release without odsynth, with Python and pyarrow",
    "README.md": "what is in the release, in words",
    **dict.fromkeys(RECORDS, "what is in the release, for machines: files, columns, licence, citation"),
    "certificate.json.sig": "a signature of the certificate",
    "certificate.json": "the privacy certificate",
    "certificate.schema.json": "the fields of the certificate, described",
    "plan/": "the public plan from which the certificate can be computed again",
    "MANIFEST.json": "sizes and checksums, with what the release is",
    "SHA256SUMS.sig": "a signature of the checksums",
    "SHA256SUMS": "checksums of all files",
    "signing-key.pub": "the public key that signatures are checked with",
}


_NOT_THIS_COPY = (
    "in this folder. Whoever can change the data can change this copy too:\n  take the file from the project "
    "instead"
)

FILE_MEANINGS = tuple(dict.fromkeys((*_FILES.values(), "another file")))
"""What files of a release can be, data first."""


def file_meaning(name: str) -> str:
    """Say what a file of a release is: one of `FILE_MEANINGS`."""
    return next((meaning for part, meaning in _FILES.items() if part in name), FILE_MEANINGS[-1])


def release_readme(
    plan: ReleasePlan,
    certificate: Certificate,
    names: dict[str, str],
    *,
    named: bool,
    signed: bool,
    accuracy: ExpectedAccuracy | None = None,
) -> str:
    """Return the text of a release's README.md.

    Parameters
    ----------
    plan : ReleasePlan
    certificate : Certificate
    names : dict of str to str
        Data files by kind (`file_names`).
    named : bool
        Whether it has names of units.
    signed : bool
        Whether it is signed.
    accuracy : ExpectedAccuracy, optional
        Its accuracy sheet, where it has one.

    Returns
    -------
    str
        Markdown.
    """
    run, user = certificate.run, certificate.user_level
    has = {NAME_FILE: named, ACCURACY_FILE: accuracy is not None, ATTACKERS_FILE: True}
    files = _files_in_words(plan, names, has)
    about = describe_plan(plan, certificate, names, named=named)
    signature = f"\n## Who answers for it\n\n{textwrap.fill(SIGNED if signed else UNSIGNED, _WIDTH)}\n"
    columns = f"{terms_of_columns(about, plan.geography)}\n{columns_in_words(about)}\n"
    use = f"## First steps\n\n{first_steps(plan, names, named=named)}\n"
    use += f"## Which work blocks share homes\n\n{pools_in_words(plan)}"
    trust = f"\n## How far to trust a number\n\n{accuracy_in_words(accuracy, read_in_words(certificate))}\n"
    terms = f"\n## Licence, contact, citation\n\n{terms_in_words(about)}"
    totals, drawn = "the public number of jobs, by every attribute", "homes"
    if isinstance(certificate.policy, AttributeField):
        secret = certificate.policy.listed
        totals, drawn = f"{totals} but {secret}", f"homes, and {secret} with them,"
    if presence := presence_in_words(certificate):
        totals = "the number of jobs of a public table, by every attribute, whatever the records' own is"
        presence = f"\n{presence}\n"
    residents = population_in_words(certificate.population, protected=certificate.presence is not None)
    population = f"\n{textwrap.fill(residents, _WIDTH)}\n" if residents else ""
    if policy := policy_in_words(certificate):
        population += f"\n{textwrap.fill(policy, _WIDTH)}\n"
    return f"""# {certificate.release.name}

{certificate.totals.synthetic_workers:,} **synthetic** workers: where they live and where they work. No row is
a real person. Work blocks have exactly {totals}; the {drawn} were drawn at
random from {plan.mechanism.words}.
{WHOSE_JOBS}
{population}
{_status_in_words(certificate)}

## Files
{files}
`odsynth verify` on this folder repeats every check; it needs no confidential data.
{signature}
## Columns

{columns}{use}{trust}
## What is guaranteed

Epsilon {run.epsilon}, delta {run.delta}.

{odds_in_words(certificate)}

For one person with at most {user.records} job record(s), the release is (epsilon, delta)-differentially
private with epsilon {user.epsilon} and delta {user.delta}.
{presence}
Not protected: {"; ".join(certificate.definition.not_covered)}.

Assumed to be public already: {"; ".join(certificate.definition.assumed_public)}.
{terms}"""


def _files_in_words(plan: ReleasePlan, names: dict[str, str], has: dict[str, bool]) -> str:
    """Return the list of files, a line each, below what there is to say of implicates."""
    implicates, levels = plan.implicates, polygon_levels(plan.config.geography)
    polygons = [polygon_file(level) for level in levels]
    lines = [f"- {_files(names, 'od')}: {_FILES['_od_main_']}"]
    if "aux_parquet" in names:
        lines.append(
            f"- {_files(names, 'aux')}: {_FILES['_od_aux_']};\n  the totals of a "
            "work block are those of main and aux together"
        )
    if "jobs_parquet" in names:
        both = ";\n  of main and aux together" if "aux_parquet" in names else ""
        lines.append(f"- `{names['jobs_parquet']}`: {_FILES['_jobs_main_']}{both}")
    if plan.measures:
        by_policy = " but what is public by policy" if plan.policy.n_parts > 1 else ""
        lines.append(
            f"- `{_MEASURED}`: {_FILES[_MEASURED]}; nothing else{by_policy} was\n"
            "  computed from confidential homes"
        )
    lines += [
        f"- `certificate.json`: {_FILES['certificate.json']}; `certificate.schema.json` describes its fields",
        f"- `plan/`: {_FILES['plan/']}",
    ]
    if polygons:
        lines.append(f"- {', '.join(f'`{name}`' for name in polygons)}: {file_meaning(polygons[0])}")
    lines += [f"- `{name}`: {_FILES[name]}" for name, there in has.items() if there]
    lines.append(f"- `{VERIFIER}`: {_FILES[VERIFIER]}:\n  `python {VERIFIER} .` {_NOT_THIS_COPY}")
    listed = ", ".join(f"`{name}`" for name in record_files(plan.config.release))
    lines.append(f"- {listed}: {_FILES[RECORDS[0]]}")
    lines.append("- `MANIFEST.json`, `SHA256SUMS`: sizes and checksums (`sha256sum -c SHA256SUMS`)")
    several = ""
    if implicates.number > 1:
        several = (
            f"\n{implicates.number} **implicates**, synthetic data sets of the same jobs, are in the folders "
            f"`{implicates.folders[0]}` to\n`{implicates.folders[-1]}`, each with the data files below. An "
            "analysis is done on each, and the results are\ncombined (`pipelines.combine`). The guarantee is "
            "of all of them together.\n"
        )
        several += f"\n{implicates_in_words(implicates)}"
    return f"{several}\n" + "\n".join(lines) + "\n"


def _status_in_words(certificate: Certificate) -> str:
    """Say whether a release is fit for publication, and that this is not about rights."""
    if not certificate.for_release:
        return "**Not for release**: " + "; ".join(certificate.not_for_release_because) + "."
    return (
        "Every check of the program passed: this release is **for publication**, as far as the privacy\n"
        "of those whose jobs it was made from goes. What others may do with it is said under its licence, at "
        "the end."
    )


def describe_plan(
    plan: ReleasePlan, certificate: Certificate, names: dict[str, str], *, named: bool
) -> ReleaseDescription:
    """Return the description of a release that is being written or checked (`describe_release`)."""
    return describe_release(
        certificate,
        plan.config,
        plan.categories,
        plan.geography,
        names,
        named=named,
        pooled_by=plan.pools.pooling.by,
        measured=[table.to_json() for table in plan.choices.tables] if plan.measures else None,
    )


def _files(names: dict[str, str], kind: str) -> str:
    parquet = names[f"{kind}_parquet"]
    if f"{kind}_csv" in names:
        return f"`{names[f'{kind}_csv']}`, and as Parquet `{parquet}`"
    return f"`{parquet}`, a folder of Parquet files"
