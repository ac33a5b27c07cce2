"""The accuracy sheet of a release: how far its numbers are expected to be from the truth, by table and size.

It is forecast when a release is planned, from homes that are nobody's, before any confidential home is read.
It is not computed again: `check_accuracy` looks at its form only, and it is as true as whoever signed the
release is honest.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.plans.accuracy import ExpectedAccuracy, ExpectedTable, reported_tables
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workload import resolve_workload
from pipelines.release.certificate import Certificate
from pipelines.storage.documents import read_json

ACCURACY_FILE = "accuracy.json"
NOTHING_READ = "No confidential home was read"
_FORMAT = "odsynth accuracy 1.0"
_HOW = (
    "This is a forecast: the plan of this release was tried on {jobs:,} jobs whose homes were drawn at "
    "random from public data. {read} for it, so it is as good as these data. "
    "`odsynth verify` checks its form, not its numbers. `{file}` has all of it. A table A to B counts who "
    "lives in an A and works in a B. Tables that are not listed were not tried: no row is about them."
)
_NOISE = (
    "A table is **noise** where at least half of its jobs are expected to be counted where they are not; or "
    "more than a tenth of them, and public data alone would do as well or nearly as well."
)
_SIZES = (
    "By the size of a released number: before relying on one, look for its table and its size. On average it "
    "is expected to be off by so many jobs, either way."
)
_UNSIZED = "Of these the plan was tried on too few of the jobs to say how far a number is off: {tables}."
SIZE_COLUMNS = (
    "table",
    "a number of",
    "in the trial",
    "off by, on average",
    "nine in ten off by at most",
    "errors, as share of their jobs",
    "nobody in truth",
)


def write_accuracy(expected: ExpectedAccuracy, plan_sha256: str, folder: Path) -> None:
    """Write the sheet of a plan into the public folder."""
    (folder / ACCURACY_FILE).write_text(_text(expected, plan_sha256), encoding="utf-8")


def read_accuracy(folder: Path, plan_sha256: str) -> ExpectedAccuracy | None:
    """Return the sheet of a public folder; None where it has none."""
    path = folder / ACCURACY_FILE
    if not path.exists():
        return None
    document = read_json(path)
    if not isinstance(document, dict) or document.pop("format", None) != _FORMAT:
        raise ValueError(f"{ACCURACY_FILE}: not of {_FORMAT}")
    if document.pop("plan_sha256", None) != plan_sha256:
        raise ValueError(f"{ACCURACY_FILE}: it is about another plan")
    expected = parse_expected(document, ACCURACY_FILE)
    if path.read_bytes() != _text(expected, plan_sha256).encode():
        raise ValueError(f"{ACCURACY_FILE}: it says a thing twice, or is not written as this program does")
    return expected


def parse_expected(document: Any, name: str) -> ExpectedAccuracy:
    """Read what is expected of a plan from a document, which `name` names in errors."""
    try:
        return ExpectedAccuracy.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name}: {where or 'it'}: {first['msg']}") from None


def check_accuracy(expected: ExpectedAccuracy, plan: ReleasePlan) -> str:
    """Check that a sheet is about the tables and the jobs of a plan, and say what was found."""
    slots, secret = plan.pools.slots, plan.policy.secret
    workload = resolve_workload(plan.config.workload, plan.geography, plan.level, slots, secret)
    asked = [(table.name, of_workload) for table, of_workload in reported_tables(workload)]
    if [(table.table, table.workload) for table in expected.tables] != asked:
        raise ValueError(
            f"{ACCURACY_FILE}: its tables are not those that the release is for, then flows at each level"
        )
    if expected.jobs > len(plan.pools.slots):
        raise ValueError(f"{ACCURACY_FILE}: it says more jobs than the plan has")
    for table in expected.tables:
        if sum(size.cells * size.at_least for size in table.sizes) > expected.jobs:
            raise ValueError(f"{ACCURACY_FILE}: {table.table}: its numbers hold more jobs than there are")
    return f"{len(expected.tables)} tables of this plan; a forecast, of which only the form is checked"


def read_in_words(certificate: Certificate) -> str:
    """Say what was read of confidential homes to plan a release and to try its plan."""
    if certificate.policy and certificate.policy.parts > 1:
        return "Of confidential homes only the part, which is public by policy, was read"
    return NOTHING_READ


def accuracy_in_words(expected: ExpectedAccuracy | None, read: str = NOTHING_READ) -> str:
    """Return the section of a read-me, in Markdown, that says how far to trust a number."""
    if expected is None:
        return "There is no forecast of how far the numbers of this release are from the truth."
    tables = "\n".join(
        f"| {one.table} | {_percent(one.loss)} | {_percent(one.public_model)} | {_verdict(one)} |"
        for one in expected.tables
    )
    sizes = "\n".join(
        f"| {one.table} | {size.words} | {size.cells:,} | {size.error:.1f} | {size.error_90:,} | "
        f"{_percent(size.relative_error)} | {_percent(size.empty)} |"
        for one in expected.tables
        for size in one.sizes
    )
    noise = f"\n{textwrap.fill(_NOISE, 110)}\n" if any(one.noise for one in expected.tables) else ""
    how = _HOW.format(jobs=expected.jobs, read=read, file=ACCURACY_FILE)
    unsized = "; ".join(one.table for one in expected.tables if not one.sizes)
    return "\n".join(
        [
            f"{textwrap.fill(how, 110)}\n",
            "| table | jobs counted elsewhere than in truth | by public data alone | |",
            "| --- | --- | --- | --- |",
            f"{tables}\n{noise}",
            *(
                [
                    f"{textwrap.fill(_SIZES, 110)}\n",
                    f"| {' | '.join(SIZE_COLUMNS)} |",
                    "| --- | --- | --- | --- | --- | --- | --- |",
                    sizes,
                ]
                if sizes
                else []
            ),
            *([f"\n{textwrap.fill(_UNSIZED.format(tables=unsized), 110)}"] if unsized else []),
        ]
    )


def _verdict(one: ExpectedTable) -> str:
    if one.noise:
        return "**noise**"
    return "" if one.carried else "public data say nearly as much or more"


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _text(expected: ExpectedAccuracy, plan_sha256: str) -> str:
    document = {"format": _FORMAT, "plan_sha256": plan_sha256, **expected.as_dict()}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
