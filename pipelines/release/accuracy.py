"""The accuracy sheet of a release: how far its numbers are expected to be from the truth, by table and size.

It is forecast when a release is planned, from homes that are nobody's, before any confidential home is read;
where tables are measured, their noisy counts correct it after the draw. It is not computed again:
`check_accuracy` looks at its form only, and it is as true as whoever signed the release is honest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.config.languages import ENGLISH
from pipelines.plans.accuracy import ExpectedAccuracy, reported_tables
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workload import workload_of
from pipelines.release.certificate import PolicyField
from pipelines.release.pages import phrases
from pipelines.storage.documents import read_json
from pipelines.storage.durable import write_whole

ACCURACY_FILE = "accuracy.json"
_FORMAT = "odsynth accuracy 1.0"


def write_accuracy(expected: ExpectedAccuracy, plan_sha256: str, folder: Path) -> None:
    """Write the sheet of a plan into the public folder."""
    write_whole(folder / ACCURACY_FILE, _text(expected, plan_sha256))


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
        raise ValueError(f"{ACCURACY_FILE}: it repeats a key, or is not written as this program writes it")
    return expected


def parse_expected(document: Any, name: str) -> ExpectedAccuracy:
    """Read what is expected of a plan from a document, which `name` names in errors."""
    try:
        return ExpectedAccuracy.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name}: {where or 'it'}: {first['msg']}") from error


def check_accuracy(expected: ExpectedAccuracy, plan: ReleasePlan) -> str:
    """Check that a sheet is about the tables and the jobs of a plan, and say what was found."""
    reported = [(table.name, of_workload) for table, of_workload in reported_tables(workload_of(plan))]
    if [(table.table, table.workload) for table in expected.tables] != reported:
        raise ValueError(
            f"{ACCURACY_FILE}: its tables are not those that the release is for, then flows at each level"
        )
    if expected.after_draw and not plan.measures:
        raise ValueError(f"{ACCURACY_FILE}: it uses noisy counts, and the release has none")
    # Where workplaces are measured, a trial has as many jobs as their noisy counts say, however many.
    if not plan.workplaces and expected.jobs > len(plan.pools.slots):
        raise ValueError(f"{ACCURACY_FILE}: it states more jobs than the plan has")
    for table in () if plan.workplaces else expected.tables:
        if sum(size.cells * size.at_least for size in table.sizes) > expected.jobs:
            raise ValueError(f"{ACCURACY_FILE}: {table.table}: its numbers hold more jobs than there are")
    whose = "after the draw, by noisy counts" if expected.after_draw else "a forecast of the plan"
    return f"{len(expected.tables)} tables of this plan; {whose}, of which only the form is checked"


def read_in_words(policy: PolicyField | None, language: str = ENGLISH) -> str:
    """Say what was read of confidential homes to plan a release and to try its plan."""
    return phrases(language).read(policy is not None and policy.parts > 1)


def _text(expected: ExpectedAccuracy, plan_sha256: str) -> str:
    document = {"format": _FORMAT, "plan_sha256": plan_sha256, **expected.as_dict()}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
