"""A run with a plan given: what was planned and reviewed before is what is drawn from, or nothing is.

The plan is copied into the private folder of the run, and the copy is checked and read: what happens to the
folder that was given while the run goes on changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import geo_data
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.planning.public_inputs import slot_source
from pipelines.plans.form import PLAN_FILES, read_document
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import check_plan_bytes, load_plan
from pipelines.release.accuracy import check_accuracy, parse_expected, write_accuracy
from pipelines.release.names import NAME_FILE, check_names
from pipelines.release.verification import contradictions
from pipelines.storage.checksums import sha256_of
from pipelines.storage.documents import read_json
from pipelines.storage.errors import blame
from pipelines.storage.parquet_bytes import check_parquet_bytes, rewrite

PLAN_FOLDER, PLAN_NUMBERS = "plan", "forecast.json"  # in the folder that `odsynth plan` writes
_AGAIN = "Plan again with odsynth plan"
_NO_PLAN = (
    f"not a folder that odsynth plan wrote: {PLAN_NUMBERS}, {NAME_FILE}, or a file in {PLAN_FOLDER}, is not "
    "there or not what it writes"
)
_OTHER_PLAN = f"the plan is not the one that {PLAN_NUMBERS} is about. {_AGAIN}"


def blame_plan(given: Path, fix: str = _AGAIN) -> AbstractContextManager[None]:
    """Say of whatever goes wrong with a plan that it is this plan, and what to do about it (`blame`)."""
    return blame(ConfigError, f"{given}: the plan cannot be used", fix)


def take_plan(config: ReleaseConfig, given: Path, stored: Path) -> tuple[ReleasePlan, str]:
    """Copy a plan that was made before, the names of areas and the forecast beside it, and read the copy.

    Parameters
    ----------
    config : ReleaseConfig
        Of the run.
    given : Path
        Folder that `odsynth plan` wrote.
    stored : Path
        Where the copy of the plan goes; made here. Names and accuracy sheet go beside it.

    Returns
    -------
    tuple of ReleasePlan and str
        The plan, not yet certified, and its hash.

    Raises
    ------
    ConfigError
        If the folder is none that `odsynth plan` wrote, its plan is not the one that its report is about, or
        the plan was made for another configuration or says otherwise than its own.
    ValueError
        If a file is altered or not of its form (`load_plan`, `check_plan_bytes`, `check_names`,
        `check_accuracy`).
    """
    stored.mkdir()
    names = stored.parent / NAME_FILE
    try:
        for name in PLAN_FILES:
            shutil.copyfile(given / PLAN_FOLDER / name, stored / name)
        numbers, content = plan_numbers(given, stored)
        names_sha256 = numbers["names_sha256"]
        if config.geography.names == {} and not any(table.name for table in config.geography.polygons):
            names_sha256 = None  # none are to be published
        if names_sha256 is not None:
            shutil.copyfile(given / NAME_FILE, names)
    except (FileNotFoundError, NotADirectoryError, shutil.SpecialFileError):
        raise ConfigError(f"{given}: {_NO_PLAN}") from None
    if names_sha256 is not None and names_sha256 != sha256_of(names):
        raise ConfigError(f"{given}: {_OTHER_PLAN}")
    document = read_document(stored, content)
    if others := _differing(document["configuration"], config.public.quoted()):
        rule = "the plan was made for another configuration, or by another version of the program"
        fix = f"{_AGAIN}, or change the configuration back"
        raise ConfigError(f"{given}: {rule}; they differ in {', '.join(others)}. {fix}")
    plan = load_plan(stored, document)
    others = check_plan_bytes(plan, stored, document["files"])
    if names_sha256 is not None:
        check_names(names.parent, plan.geography)
        others += [] if check_parquet_bytes(names, partial(rewrite, names)) else [NAME_FILE]
    if others:
        raise ConfigError(f"{given}: another version of pyarrow wrote {', '.join(others)}. {_AGAIN}")
    if others := contradictions(config, plan):
        raise ConfigError(
            f"{given}: the plan is not what its configuration asks for: {', '.join(others)}. {_AGAIN}"
        )
    if (accuracy := numbers.get("accuracy")) is not None:  # a plan that was not tried has none
        expected = parse_expected(accuracy, PLAN_NUMBERS)
        check_accuracy(expected, plan)
        write_accuracy(expected, numbers["plan_sha256"], stored.parent)
    return plan, numbers["plan_sha256"]


def plan_numbers(given: Path, stored: Path | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the numbers of a plan that was made before, and what its plan.json holds, which they are about.

    Parameters
    ----------
    given : Path
        Folder that `odsynth plan` wrote.
    stored : Path, optional
        Where the plan is, if not in there.

    Raises
    ------
    ConfigError
        If the folder is none that `odsynth plan` wrote, or its numbers are about another plan.
    """
    try:
        numbers = read_json(given / PLAN_NUMBERS)
        plan_sha256, _ = numbers["plan_sha256"], numbers["names_sha256"]
        content = ((stored or given / PLAN_FOLDER) / "plan.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{given}: {_NO_PLAN}") from None
    if plan_sha256 != hashlib.sha256(content).hexdigest():
        raise ConfigError(f"{given}: {_OTHER_PLAN}")
    return numbers, content


def _differing(planned: Any, asked: Any, key: str = "") -> list[str]:
    """Return the keys, as in "privacy.epsilon", under which two canonical configurations differ."""
    if not (isinstance(planned, Mapping) and isinstance(asked, Mapping)):
        # As texts: to Python, 1 and true are equal.
        return [] if _text(planned) == _text(asked) else [key or "all keys"]
    found: list[str] = []
    for name in dict.fromkeys([*asked, *planned]):
        path = f"{key}.{name}" if key else name
        both = name in planned and name in asked
        found += _differing(planned[name], asked[name], path) if both else [path]
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def refuse_other_slots(config: ReleaseConfig, plan: ReleasePlan) -> None:
    """Refuse jobs with other attributes than the slots of the plan have; no home is read.

    Without attributes there is nothing to do: `keep_homes` counts the jobs of every work block. With a public
    table of workplaces, that is what is compared with the plan, and nothing of the jobs.

    Raises
    ------
    InputError
        With the number of jobs that differ.
    """
    planned = plan.pools.slots
    if not planned.categories and config.workplaces is None:
        return
    file = config.jobs.file if config.workplaces is None else config.workplaces.file
    found = slot_source(config, plan.geography).slots(plan.policy)
    fix = "plan again: the plan was made for other jobs"
    for name, categories in planned.categories.items():
        if found.categories.get(name) != categories:
            rule = "the categories are not those of the plan"
            raise geo_data.InputError(file, rule, column=name, fix=fix)
    keys, counts = zip(*(_counted(slots, plan.policy.n_parts) for slots in (planned, found)), strict=True)
    both, position = np.unique(np.concatenate(keys), return_inverse=True)
    more = np.bincount(position, np.concatenate([-counts[0], counts[1]]), both.size)
    if differ := int(max(more.clip(min=0).sum(), -more.clip(max=0).sum())):
        kinds = (
            "work block or attribute"
            if plan.policy.n_parts == 1
            else "work block, attribute or part of homes"
        )
        rule = f"jobs are not as in the plan: another number, {kinds}"
        raise geo_data.InputError(file, rule, count=differ, fix=fix)


def _counted(slots: geo_data.Slots, parts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each work block, part of homes and combination of attributes, and its slots.

    Slots that are alike stand together, so none is sorted. A number may come twice.
    """
    key = slots.work.astype(np.int64) * parts + slots.home_part
    for name in sorted(slots.categories):
        key *= len(slots.categories[name])
        key += slots.attributes[name]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return key[first], np.diff(np.append(first, key.size))
