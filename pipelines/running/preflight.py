"""What a run needs, looked at before any home is read: what can be refused is refused before it is paid.

`check_ready` needs the configuration only, and says everything at once. `load_back` and `check_space` need
the plan, and `payment.check_payable` its cost. Nothing that they write stays.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import geo_data
from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.planning.guards import public_files, refuse_as_public, refuse_open_files, refuse_other_names
from pipelines.plans.form import read_document
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import check_plan_bytes, load_plan
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.layout import MANIFEST, expected_files, file_names
from pipelines.release.names import NAME_FILE
from pipelines.release.signing import PUBLIC_KEY, SIGNATURES, check_key_pair, read_private_key
from pipelines.release.verification import contradictions
from pipelines.running.folder import RunFolder, refuse_existing
from pipelines.running.payment import check_ledger
from pipelines.storage.checksums import CHECKSUMS
from pipelines.storage.durable import scratch_file
from pipelines.storage.errors import shown_message
from synth.errors import ShownError


def check_ready(
    config: ReleaseConfig, *, new: bool = False, public: bool = True, confidential: bool = True
) -> None:
    """Check what a run needs, before anybody waits for a plan: files, output folder, signing key and ledger.

    Everything that is wrong is said at once. No file of the jobs is read, and nothing that is written stays.

    Parameters
    ----------
    config : ReleaseConfig
    new : bool
        Whether a run begins, whose output folder must not be there.
    public, confidential : bool
        Whether the public files, and those of the jobs, are going to be read.

    Raises
    ------
    ConfigError
        If several things are wrong, with a line for each; or if it is about the configuration, the output
        folder, or who can read the confidential files.
    geo_data.InputError
        If only an input file is missing.
    SigningError
        If only the signing key cannot be used.
    LedgerError
        If only the ledger refuses: it cannot be trusted or written to, or its folder is not there.
    """
    found: list[ShownError] = []
    checks = [_check_out, _check_key, check_ledger]
    if new:
        checks.insert(0, lambda config: refuse_existing(config.release.out))
    if public:
        found += _missing([path for _, path in public_files(config)])
        checks.append(refuse_as_public)
    if confidential:
        found += _missing([*config.jobs.files])
        checks.append(refuse_open_files)
    if public or confidential:
        checks.append(refuse_other_names)
    for check in checks:
        try:
            check(config)
        except ShownError as error:
            found.append(error)
        except OSError as error:  # a path that the system does not take
            found.append(ConfigError(shown_message(error)))
    if len(found) == 1:
        raise found[0]
    if found:
        raise ConfigError(line for error in found for line in str(error).splitlines())


def load_back(config: ReleaseConfig, stored: Path, sha256: str) -> ReleasePlan:
    """Read a plan that was just written, and refuse one that does not come back as it was.

    Parameters
    ----------
    config : ReleaseConfig
        That it was made for.
    stored : Path
        Where `save_plan` wrote it.
    sha256 : str
        Its hash.

    Returns
    -------
    ReleasePlan
        As it is read by whoever verifies the release.

    Raises
    ------
    ConfigError
        If it cannot be read, says otherwise than the configuration, or would be written otherwise.
    """
    try:
        content = (stored / "plan.json").read_bytes()
        document = read_document(stored, content)
        plan = load_plan(stored, document)
        problems = contradictions(config, plan)
        if hashlib.sha256(content).hexdigest() != sha256:
            problems.append("plan.json is another")
        check_plan_bytes(plan, stored, document["files"])
    except (ValueError, KeyError, ArithmeticError, RecursionError) as error:
        problems = [str(error)]  # a plan is public, so nothing is withheld
    if problems:
        raise ConfigError(
            f"the plan cannot be read back as it was written ({', '.join(problems)}); nothing was paid. "
            "Rename levels, attributes, categories or codes of areas that are out of the ordinary"
        )
    return plan


def space_needed(plan: ReleasePlan) -> int:
    """Return how many bytes a run takes on disk at most after its plan is written, by a cautious estimate.

    Homes take 12 bytes a job. Data files are there twice while they are joined; of the demo region and of
    Rhode Island a job takes about 8 bytes in all of them, 10 in their parts, and 20, with 1 for each column
    of counts, are reckoned with. A cell of a measured table has a noisy count, kept and published, and a
    factor, 8 bytes each; where several tables are fitted together, three numbers more.
    """
    jobs, columns = plan.numeric.pools.n_records, sum(map(len, plan.categories.values()))
    needed = jobs * (12 + 2 * plan.implicates.number * (20 + columns)) + 10_000_000
    if plan.measures:
        cells = int(plan.numeric.k.sum())
        cells += sum(int(groups.table.offsets[-1]) for groups in plan.secondary)
        needed += 8 * cells * (3 * plan.implicates.runs + (3 if plan.secondary else 0))
    return needed


def check_space(config: ReleaseConfig, plan: ReleasePlan) -> None:
    """Refuse a run for which there is not enough free space where its output folder goes.

    Raises
    ------
    ConfigError
    """
    needed, free = space_needed(plan), shutil.disk_usage(_anchor(config.release.out)).free
    if free < needed:
        raise ConfigError(
            f"{config.release.out}: the run may take {needed / 1e6:,.0f} MB there, and {free / 1e6:,.0f} MB "
            "are free. Make room, or choose another release.out"
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


def _anchor(out: Path) -> Path:
    """Return the nearest folder above that is there."""
    return next(folder for folder in out.parents if os.path.lexists(folder))


def _check_out(config: ReleaseConfig) -> None:
    """Make every file of the release, empty, beside its place, rename their folder, and remove it."""
    out, anchor = config.release.out, _anchor(config.release.out)
    staging = RunFolder.of(out)
    if config.ledger is not None and {out, staging.folder} & {*_of_ledger(config.ledger.file)}:
        raise ConfigError(
            f"{out}: the ledger has this path. Choose another release.out, or another ledger.file"
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
        what = name if len(name) <= 60 else f"{name[:57]}..., {len(os.fsencode(name))} bytes"
        raise ConfigError(
            f"{out}: the output folder, or a file in it, cannot be made: {error.strerror} ({what}). Choose "
            "another release.out, or other names where the names of files come from: release.state, levels"
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
    yield from (PUBLIC_KEY, *SIGNATURES)
