"""What a run needs, looked at before any home is read: what can be refused is refused before it is paid.

`check_ready` needs the configuration only, and says everything at once. `take_plan` and `load_back` check the
plan, one that was reviewed before or that was just made; `check_space` needs the plan, and
`check_payable` its cost. Nothing that they write stays but the copy of a reviewed plan in the private
folder of the run: what happens to the folder that was given while the run goes on changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import geo_data
from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import OverBudgetError, PolicyError, Price
from pipelines.ledger.ledger import Charge
from pipelines.planning.guards import public_files, refuse_as_public, refuse_open_files, refuse_other_names
from pipelines.planning.public_inputs import slot_source
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.form import plan_tables, read_document
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import check_plan_bytes, load_plan
from pipelines.release.accuracy import ACCURACY_FILE, check_accuracy, parse_expected, write_accuracy
from pipelines.release.commitment import read_certificates
from pipelines.release.description import file_names
from pipelines.release.layout import MANIFEST, expected_files
from pipelines.release.names import NAME_FILE, check_names
from pipelines.release.polygons import POLYGON_FOLDER, check_polygons, polygon_file
from pipelines.release.signing import (
    PUBLIC_KEY,
    UNSEALED,
    check_key_pair,
    key_digits,
    public_key_digits,
    read_private_key,
)
from pipelines.release.verification import contradictions
from pipelines.running.folder import RunFolder, RunState, refuse_existing
from pipelines.running.payment import charge_of, debit, run_name
from pipelines.storage.checksums import CHECKSUMS, sha256_of
from pipelines.storage.documents import read_json
from pipelines.storage.durable import scratch_file
from pipelines.storage.errors import blame, shown_message
from pipelines.storage.parquet_bytes import check_parquet_bytes, rewrite
from synth.errors import ShownError

PLAN_FOLDER, PLAN_NUMBERS = "plan", "forecast.json"  # in the folder that `odsynth plan` writes
_AGAIN = "plan again with odsynth plan"
_NO_PLAN = (
    f"not a folder that odsynth plan wrote: {PLAN_NUMBERS}, {NAME_FILE} or a file of {PLAN_FOLDER} is "
    "missing or damaged"
)
_OTHER_PLAN = f"the plan is not the plan that {PLAN_NUMBERS} describes"


def check_ready(
    config: ReleaseConfig, *, new: bool = False, public: bool = True, confidential: bool = True
) -> None:
    """Check what a run needs, before anybody waits for a plan: files, output folder, signing key and ledger.

    Everything that is wrong is said at once: one problem is raised as what it is, several are a
    ConfigError. No file of the jobs is read, and nothing that is written stays. `new` says that a run
    begins, whose output folder must not be there; `public` and `confidential`, that the public files, and
    those of the jobs, are going to be read.
    """
    problems: list[ShownError] = []
    checks = [_check_out, _check_key, _check_witness, check_ledger]
    if new:
        checks.insert(0, lambda config: refuse_existing(config.release.out))
    if public:
        problems += _missing([path for _, path in public_files(config)])
        checks.append(refuse_as_public)
    if confidential:
        problems += _missing([*config.jobs.files])
        checks.append(refuse_open_files)
    if public or confidential:
        checks.append(refuse_other_names)
    for check in checks:
        try:
            check(config)
        except ShownError as error:
            problems.append(error)
        except OSError as error:  # a path that the system does not take
            problems.append(ConfigError(shown_message(error)))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ConfigError(line for error in problems for line in str(error).splitlines())


def check_ledger(config: ReleaseConfig) -> None:
    """Refuse a ledger that could not be debited whatever the cost; nothing is left in it."""
    with suppress(OverBudgetError, PolicyError):  # which depend on the plan
        check_affordable(config, Price(Fraction(0), Fraction(0)))


def check_affordable(config: ReleaseConfig, price: Price) -> None:
    """Refuse a release at such a price if the ledger would refuse its debit now; nothing is left in it."""
    if (settings := config.ledger) is not None:
        name = run_name(config, "0" * 32)
        charge = Charge(settings.data_set, price.epsilon, price.delta, "0" * 64, name, rho=price.rho)
        debit(settings, charge, rehearse=True)


def check_payable(state: RunState, plan: ReleasePlan) -> None:
    """Refuse a run whose debit the ledger would refuse; nothing is left in it."""
    if (settings := state.config.ledger) is not None:
        debit(settings, charge_of(state, plan, settings), rehearse=True)


def load_back(config: ReleaseConfig, stored: Path, sha256: str) -> ReleasePlan:
    """Read a plan that was just written, and refuse one that does not come back as it was."""
    try:
        content = (stored / "plan.json").read_bytes()
        plan, _, problems = _checked_plan(config, stored, read_document(stored, content))
        if hashlib.sha256(content).hexdigest() != sha256:
            problems.append("plan.json is another")
    except (ValueError, KeyError, ArithmeticError, RecursionError) as error:
        problems = [str(error)]  # a plan is public, so nothing is withheld
    if problems:
        raise ConfigError(
            f"the plan cannot be read back as it was written ({', '.join(problems)}), and nothing was paid. "
            "Fix: rename levels, attributes, categories or codes of areas with unusual characters"
        )
    return plan


def _checked_plan(
    config: ReleaseConfig, stored: Path, document: dict[str, Any]
) -> tuple[ReleasePlan, list[str], list[str]]:
    """Read a plan; return which tables another pyarrow wrote, and what is not as the configuration says."""
    plan = load_plan(stored, document)
    return plan, check_plan_bytes(plan, stored, document["files"]), contradictions(config, plan)


def blame_plan(plan_path: Path, fix: str = _AGAIN) -> AbstractContextManager[None]:
    """Say of whatever goes wrong with a plan that it is this plan, and what to do about it (`blame`)."""
    return blame(ConfigError, f"{plan_path}: the plan cannot be used", fix)


def take_plan(config: ReleaseConfig, folder: Path, stored: Path) -> tuple[ReleasePlan, str]:
    """Copy a plan that was made before, the names of areas and the forecast beside it, and read the copy.

    Returned is the plan, not yet certified, and its hash.
    """
    stored.mkdir()
    public = stored.parent
    try:
        for name in ("plan.json", *plan_tables(config)):
            shutil.copyfile(folder / PLAN_FOLDER / name, stored / name)
        numbers, content = plan_numbers(folder, stored)
        beside: dict[str, str] = numbers["beside"]
        if config.geography.names == {} and not any(table.name for table in config.geography.polygons):
            beside.pop(NAME_FILE, None)  # none are to be published
        shapes = {polygon_file(level) for level in config.geography.polygon_levels}
        for name in (names := beside.keys() & {NAME_FILE}) | shapes:
            (public / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / name, public / name)
    except (FileNotFoundError, NotADirectoryError, shutil.SpecialFileError):
        raise ConfigError(f"{folder}: {_NO_PLAN}. Fix: {_AGAIN}") from None
    if released_beside(public) != beside:  # hashes of the copies, of which the release is made
        raise ConfigError(f"{folder}: {_OTHER_PLAN}. Fix: {_AGAIN}")
    document = read_document(stored, content)
    if others := _differing(document["configuration"], config.public.quoted()):
        rule = "the plan was made for another configuration, or by another version of the program"
        fix = f"{_AGAIN}, or change the configuration back"
        raise ConfigError(f"{folder}: {rule}; they differ in {', '.join(others)}. Fix: {fix}")
    plan, others, problems = _checked_plan(config, stored, document)
    if names:
        check_names(public, plan.geography)
    check_polygons(public, plan.geography, config.geography.polygon_levels)
    others += [
        name for name in beside if not check_parquet_bytes(public / name, partial(rewrite, public / name))
    ]
    if others:
        raise ConfigError(f"{folder}: another version of pyarrow wrote {', '.join(others)}. Fix: {_AGAIN}")
    if problems:
        rule = f"the plan is not what its configuration asks for: {', '.join(problems)}"
        raise ConfigError(f"{folder}: {rule}. Fix: {_AGAIN}")
    if (expected := _forecast(numbers.get("accuracy"), plan)) is not None:
        write_accuracy(expected, numbers["plan_sha256"], stored.parent)
    return plan, numbers["plan_sha256"]


def forecast_of_tier(folder: Path, plan: ReleasePlan) -> ExpectedAccuracy | None:
    """Return the forecast of a weaker tier that is beside a plan that was made before."""
    numbers, _ = plan_numbers(folder)
    with blame_plan(folder):
        return _forecast(numbers.get("tiers", {}).get(plan.config.tier), plan)


def _forecast(accuracy: Any, plan: ReleasePlan) -> ExpectedAccuracy | None:
    """Read what is expected of a plan; a plan that was not tried has nothing."""
    if accuracy is None:
        return None
    expected = parse_expected(accuracy, PLAN_NUMBERS)
    if expected.after_draw:
        raise ValueError(f"{PLAN_NUMBERS}: its accuracy is not that of a plan, but of a release")
    check_accuracy(expected, plan)
    return expected


def released_beside(folder: Path) -> dict[str, str]:
    """Return the hashes of what lies beside a plan and is released as it is: names of areas, and shapes."""
    paths = [folder / NAME_FILE, *folder.glob(f"{POLYGON_FOLDER}/*")]
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in paths if path.is_file()}


def plan_numbers(folder: Path, stored: Path | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the numbers of a plan that was made before, and what its plan.json holds, which they are about.

    Both are in a folder that `odsynth plan` wrote, unless the plan is stored elsewhere.
    """
    try:
        numbers = read_json(folder / PLAN_NUMBERS)
        plan_sha256, _ = numbers["plan_sha256"], dict(numbers["beside"])
        content = ((stored or folder / PLAN_FOLDER) / "plan.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder}: {_NO_PLAN}. Fix: {_AGAIN}") from None
    if plan_sha256 != hashlib.sha256(content).hexdigest():
        raise ConfigError(f"{folder}: {_OTHER_PLAN}. Fix: {_AGAIN}")
    return numbers, content


def _differing(planned: Any, requested: Any, key: str = "") -> list[str]:
    """Return the keys, as in "privacy.epsilon", under which two canonical configurations differ."""
    if not (isinstance(planned, Mapping) and isinstance(requested, Mapping)):
        # As texts: to Python, 1 and true are equal.
        return [] if _text(planned) == _text(requested) else [key or "all keys"]
    keys: list[str] = []
    for name in dict.fromkeys([*requested, *planned]):
        path = f"{key}.{name}" if key else name
        in_both = name in planned and name in requested
        keys += _differing(planned[name], requested[name], path) if in_both else [path]
    return keys


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def refuse_other_slots(config: ReleaseConfig, plan: ReleasePlan) -> None:
    """Refuse jobs with other attributes than the slots of the plan have; no home is read.

    Without attributes there is nothing to do: `keep_homes` counts the jobs of every work block. With a public
    table of workplaces, that is what is compared with the plan, and nothing of the jobs.
    """
    planned = plan.pools.slots.without(plan.policy.secret)
    if not planned.categories and config.workplaces is None:
        return
    file = config.jobs.file if config.workplaces is None else config.workplaces.file
    current = slot_source(config, plan.geography).slots(plan.policy)
    fix = "plan again, as the plan was made for other jobs"
    for name, categories in planned.categories.items():
        if current.categories.get(name) != categories:
            rule = "the categories differ from the categories of the plan"
            raise geo_data.InputError(file, rule, column=name, fix=fix)
    keys, counts = zip(*(_counted(slots, plan.policy.n_parts) for slots in (planned, current)), strict=True)
    distinct, position = np.unique(np.concatenate(keys), return_inverse=True)
    more = np.bincount(position, np.concatenate([-counts[0], counts[1]]), distinct.size)
    if differ := int(max(more.clip(min=0).sum(), -more.clip(max=0).sum())):
        kinds = (
            "work block or attribute"
            if plan.policy.n_parts == 1
            else "work block, attribute or part of homes"
        )
        rule = f"jobs are not as in the plan: the number, {kinds} differs"
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


def space_needed(plan: ReleasePlan) -> int:
    """Return how many bytes a run takes on disk at most after its plan is written, by a cautious estimate.

    Homes take 12 bytes a job. Data files are there twice while they are joined; of the demo region and of
    Rhode Island a job takes about 8 bytes in all of them, 10 in their parts, and 20, with 1 for each column
    of counts, are reckoned with. A cell of a measured table has a noisy count, kept and published, and a
    factor, 8 bytes each; where several tables are fitted together, three numbers more. A tier takes as much.
    """
    jobs, columns = plan.numeric.pools.n_records, sum(map(len, plan.pools.slots.categories.values()))
    needed = jobs * (12 + 2 * plan.implicates.number * (20 + columns)) + 10_000_000
    if plan.measures:
        cells = int(plan.numeric.k.sum())
        cells += sum(int(groups.table.offsets[-1]) for groups in plan.secondary)
        needed += 8 * cells * (3 * plan.implicates.runs + (3 if plan.secondary else 0))
    return needed * (1 + len(plan.config.weaker_tiers))


def check_space(config: ReleaseConfig, plan: ReleasePlan) -> None:
    """Refuse a run for which there is not enough free space where its output folder goes."""
    needed, free = space_needed(plan), shutil.disk_usage(_anchor(config.release.out)).free
    if free < needed:
        raise ConfigError(
            f"{config.release.out}: the run may take {needed / 1e6:,.0f} MB there, and {free / 1e6:,.0f} MB "
            "are free. Fix: make room, or choose another release.out"
        )


def _missing(paths: list[Path]) -> Iterator[ShownError]:
    for path in dict.fromkeys(part for named in paths for part in expand(named)):
        if not os.path.exists(path):  # unlike that of pathlib, it takes a name that is too long
            fix = "check the path in the configuration"
            yield geo_data.InputError(path, "there is no such file", fix=fix)
        elif not os.access(path, os.R_OK):
            yield geo_data.InputError(path, "the file cannot be read", fix="check its permissions")


def _check_key(config: ReleaseConfig) -> None:
    if config.signature is not None:
        check_key_pair(config.signature.key, read_private_key(config.signature.key))


def _check_witness(config: ReleaseConfig) -> None:
    """Refuse files of witness and time-stamp authority that cannot be used, and one who signs for both."""
    if (witness := config.witness) is None:
        return
    if witness.authority is not None:
        read_certificates(witness.authority)
    if witness.key is not None:
        digits = public_key_digits(witness.key)
        if config.signature and digits == key_digits(read_private_key(config.signature.key).public_key()):
            raise ConfigError(
                f"{witness.key}: this key signs the release itself. Fix: name that of another person"
            )


def _anchor(out: Path) -> Path:
    """Return the nearest folder above that is there."""
    return next(folder for folder in out.parents if os.path.lexists(folder))


def _check_out(config: ReleaseConfig) -> None:
    """Make every file of the release, empty, beside its place, rename their folder, and remove it."""
    out, anchor = config.release.out, _anchor(config.release.out)
    staging = RunFolder.of(out)
    if config.ledger is not None and {out, staging.folder} & {*_of_ledger(config.ledger.file)}:
        raise ConfigError(
            f"{out}: the ledger has this path. Fix: choose another release.out, or another ledger.file"
        )
    try:
        with scratch_file(anchor / out.relative_to(anchor).parts[0]) as first:
            target = first.joinpath(*out.relative_to(anchor).parts[1:])
            trial = RunFolder.of(target)
            for name in _written(config):
                path = trial.public / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(exist_ok=False)
            trial.folder.replace(target)
    except OSError as error:
        name = anchor.name if not anchor.is_dir() else Path(error.filename or out).name
        text = name if len(name) <= 60 else f"{name[:57]}..., {len(os.fsencode(name))} bytes"
        raise ConfigError(
            f"{out}: the output folder, or a file in it, cannot be made: {error.strerror} ({text}). Fix: "
            "choose another release.out, or another release.state or level, as files are named after them"
        ) from None


def _of_ledger(path: Path) -> Iterator[Path]:
    """Yield the files of a ledger."""
    return (path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm", "-journal"))


def _written(config: ReleaseConfig) -> Iterator[str]:
    """Yield the names of all files that a public folder may have."""
    folders = () if config.release.csv else tuple(file_names(config).values())
    for name in expected_files(config):
        yield f"{name}/part-000000.parquet" if name.endswith(folders) else name
    yield from (MANIFEST, CHECKSUMS, ACCURACY_FILE, NAME_FILE)
    yield from (PUBLIC_KEY, *UNSEALED)
