"""The read-me of a release."""

from __future__ import annotations

import textwrap

from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.polygon_tables import polygon_levels
from pipelines.release.accuracy import ACCURACY_FILE, accuracy_in_words, read_in_words
from pipelines.release.attackers import ATTACKERS_FILE
from pipelines.release.certificate import (
    ATTRIBUTE_FORMAT,
    CERTIFICATE_FORMAT,
    DISTANCE_FORMAT,
    POLICY_FORMAT,
    AttributeCertificate,
    Certificate,
    policy_in_words,
    population_in_words,
)
from pipelines.release.description import (
    MEASUREMENT_FOLDER,
    WHOSE_JOBS,
    ReleaseDescription,
    count_meanings,
    describe_release,
)
from pipelines.release.formats import FIRST_FORMAT
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

LATEST_WORDING = 4
WORDINGS = {FIRST_FORMAT: (1,)} | dict.fromkeys(
    (CERTIFICATE_FORMAT, POLICY_FORMAT, DISTANCE_FORMAT, ATTRIBUTE_FORMAT), (4, 3, 2)
)
"""Wordings of the read-me by format of the certificate. To put something better is to add the next number."""

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


_UNSIGNED_2 = (
    "This release is not signed. Its checks prove that the certificate follows from the plan, and that the "
    "data have the plan's totals and shape. They do not prove that the data were drawn as the plan says: "
    "other data of that shape, the confidential file itself among them, would pass too."
)
"""`UNSIGNED` up to wording 2; it is not true of noisy counts, which data have to fit."""
_UNSIGNED_3 = (
    "This release is not signed. Its checks prove that the certificate follows from the plan, and that the "
    "data have the plan's totals and shape. They do not prove that the data were drawn as the plan says. "
    "Where there are no noisy counts, other data of that shape would pass too, the confidential file itself "
    "among them; where there are, other counts would, with noise or without, and data that fit them."
)
"""`UNSIGNED` of wording 3; it is not true of counts without noise, which are refused where they are many."""
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
    verifier: bool = False,
    attackers: bool = False,
    accuracy: ExpectedAccuracy | None = None,
    wording: int = LATEST_WORDING,
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
    verifier : bool
        Whether it has verify.py.
    attackers : bool
        Whether it has a page about attackers.
    accuracy : ExpectedAccuracy, optional
        Its accuracy sheet, where it has one.
    wording : int
        Which of the wordings that there have been; the text of each stays what it was, so that `verify` can
        compare a release with the words of its time.

    Returns
    -------
    str
        Markdown.
    """
    run, user, first = certificate.run, certificate.user_level, wording == 1
    has = {NAME_FILE: named, ACCURACY_FILE: accuracy is not None, ATTACKERS_FILE: attackers}
    files = _files_in_words(plan, names, has=has, verifier=verifier, wording=wording)
    if first:
        signature = use = trust = terms = ""
        columns = _first_columns(plan)
    else:
        about = describe_plan(plan, certificate, names, named=named)
        unsigned = {2: _UNSIGNED_2, 3: _UNSIGNED_3}.get(wording, UNSIGNED)
        answers = SIGNED if signed else unsigned
        signature = f"\n## Who answers for it\n\n{textwrap.fill(answers, _WIDTH)}\n"
        columns = f"{terms_of_columns(about, plan.geography)}\n{columns_in_words(about)}\n"
        use = f"## First steps\n\n{first_steps(plan, names, named=named, wording=wording)}\n"
        use += f"## Which work blocks share homes\n\n{pools_in_words(plan)}"
        trust = (
            f"\n## How far to trust a number\n\n{accuracy_in_words(accuracy, read_in_words(certificate))}\n"
        )
        terms = f"\n## Licence, contact, citation\n\n{terms_in_words(about)}"
    totals, drawn = "the public number of jobs, by every attribute", "homes"
    if isinstance(certificate, AttributeCertificate):
        secret = certificate.policy.listed
        totals, drawn = f"{totals} but {secret}", f"homes, and {secret} with them,"
    if presence := presence_in_words(certificate):
        totals = "the number of jobs of a public table, by every attribute, whatever the records' own is"
        presence = f"\n{presence}\n"
    residents = population_in_words(certificate.population, protected=certificate.presence is not None)
    population = f"\n{textwrap.fill(residents, _WIDTH)}\n" if residents else ""
    if policy := policy_in_words(certificate):
        population += f"\n{textwrap.fill(policy, _WIDTH)}\n"
    region = "" if first else f"\n{WHOSE_JOBS}"
    return f"""# {certificate.release.name}

{certificate.totals.synthetic_workers:,} **synthetic** workers: where they live and where they work. No row is
a real person. Work blocks have exactly {totals}; the {drawn} were drawn at
random from {plan.mechanism.words}.{region}
{population}
{_status_in_words(certificate, first=first)}

## Files
{files}
`odsynth verify` on this folder repeats every check; it needs no confidential data.
{signature}
## Columns

{columns}{use}{trust}
## What is guaranteed

Epsilon {run.epsilon}, delta {run.delta}.

{odds_in_words(certificate, first=first)}

For one person with at most {user.records} job record(s), the release is (epsilon, delta)-differentially
private with epsilon {user.epsilon} and delta {user.delta}.
{presence}
Not protected: {"; ".join(certificate.definition.not_covered)}.

Assumed to be public already: {"; ".join(certificate.definition.assumed_public)}.
{terms}"""


def _files_in_words(
    plan: ReleasePlan, names: dict[str, str], *, has: dict[str, bool], verifier: bool, wording: int
) -> str:
    """Return the list of files, a line each, below what there is to say of implicates."""
    implicates, levels, first = plan.implicates, polygon_levels(plan.config.geography), wording == 1
    polygons = [polygon_file(level) for level in levels]
    where = "outside, in coarse areas whose codes" if first else "in external zones, whose codes"
    lines = [f"- {_files(names, 'od')}: {_FILES['_od_main_']}"]
    if "aux_parquet" in names:
        lines.append(
            f"- {_files(names, 'aux')}: those of workers who live {where} end in 9s;\n  the totals of a work "
            "block are those of main and aux together"
        )
    if "jobs_parquet" in names:
        both = ";\n  of main and aux together" if "aux_parquet" in names and wording > 3 else ""
        lines.append(f"- `{names['jobs_parquet']}`: {_FILES['_jobs_main_']}{both}")
    if plan.measures and not first:
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
    if verifier:
        lines.append(f"- `{VERIFIER}`: {_FILES[VERIFIER]}:\n  `python {VERIFIER} .` {_NOT_THIS_COPY}")
    if not first:
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
        several += "" if first else f"\n{implicates_in_words(implicates)}"
    return f"{several}\n" + "\n".join(lines) + "\n"


def _first_columns(plan: ReleasePlan) -> str:
    """Return the table of columns of wording 1."""
    columns = {
        "w_geocode": "work block, text",
        "h_geocode": "home block of the synthetic workers, text",
        **count_meanings(plan.categories, plan.config.attribute),
        "createdate": "day of this release, YYYYMMDD",
    }
    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in columns.items())
    return f"| column | meaning |\n| --- | --- |\n{rows}\n"


def _status_in_words(certificate: Certificate, *, first: bool) -> str:
    """Say whether a release is fit for publication, and that this is not about rights."""
    if not certificate.for_release:
        return "**Not for release**: " + "; ".join(certificate.not_for_release_because) + "."
    fit = "Every check of the program passed: this release is **for publication**"
    if first:
        return f"{fit}."
    return (
        f"{fit}, as far as the privacy\nof those whose jobs it was made from goes. What others may do with "
        "it is said under its licence, at the end."
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
