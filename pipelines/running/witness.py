"""A witness: a second person makes a release again from its run key and the confidential input, and says so.

What the witness needs of the run is in its folder: plan, certificate, key. Homes are read anew. While the
witness works, a private folder `.NAME.witness.unfinished` beside the run's has homes and draws, as that of a
run has them; it goes on where it stopped, and is removed at the end. Whoever gave the witness the run's
folder may have put one there, of homes and draws of their own: only one that the witness has signed counts.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from geo_data.arguments import PathLike, path_of
from pipelines.config.fields import absolute
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.ledger.ledger import Ledger
from pipelines.plans.form import plan_hash
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_plan
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.certificate import Commitment, make_certificate, parse_certificate
from pipelines.release.commitment import commitment_statement
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import POLYGON_FOLDER
from pipelines.release.signing import (
    PUBLIC_KEY,
    key_digits,
    public_key_digits,
    read_private_key,
)
from pipelines.release.witness import WitnessError, add_statement, check_statements, sign_statement
from pipelines.running.commitment import commit
from pipelines.running.folder import RunFolder, RunState, other_version
from pipelines.running.payment import check_debit
from pipelines.running.preflight import check_ready
from pipelines.running.run import certify, keep_origins, make_public
from pipelines.running.steps import Step, StepLog, resumed_steps
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.storage.durable import sync_tree
from pipelines.storage.event_log import EventLog
from pipelines.storage.progress import Progress

_INPUTS = ("plan", POLYGON_FOLDER, NAME_FILE, ACCURACY_FILE, PUBLIC_KEY)
"""What a run had in its public folder before it drew, and who signs."""

_OPENED = "opened.sig"


def witness(
    out: PathLike,
    key: PathLike,
    *,
    jobs: PathLike | None = None,
    ledger: PathLike | None = None,
    progress: Progress | None = None,
) -> Path:
    """Make a finished release again, and sign a statement that every file came out the same.

    The commitment is opened: plan, program, confidential input and run key must be those that the run
    committed to. Then everything is drawn again from the key.

    Parameters
    ----------
    out : str or path
        Output folder of the run, whose configuration names a witness and which is not sealed.
    key : str or path
        Private key file of the witness.
    jobs : str or path, optional
        Folder of the confidential files, under their names. By default they are where the run read them.
    ledger : str or path, optional
        The ledger, or a copy, in which the debit must name the commitment. By default the configured one, if
        it is there; else the statement says that nobody looked into it.
    progress : Progress, optional
        As for `run`.

    Returns
    -------
    Path
        The file of the statement, in the public folder.

    Raises
    ------
    ConfigError
        If the run cannot be repeated here: its key is gone, or another version made it.
    WitnessError
        If something is not what the run committed to, or a file comes out otherwise.
    """
    out = absolute(Path.cwd(), path_of(out, "out"))
    signer = read_private_key(path_of(key, "key"))
    done = _finished(out)
    state, public = done.load(), done.public
    made = state.certificate.commitment
    if made is None:
        raise ConfigError(f"{out}: this run committed to nothing. Fix: make the release again")
    _check_signer(key_digits(signer.public_key()), made, public)
    config = _config(state, out, None if jobs is None else path_of(jobs, "jobs"))
    staging = RunFolder.of(config.release.out)
    plan, ledger = _check_plan(out, state, public), _ledger(state, ledger)
    if ledger is not None:
        check_debit(Ledger(ledger).peek(()), state.certificate)
    steps = StepLog(progress, (Step.READ_ORIGINS, *resumed_steps(plan)))
    run_key = done.key(state)
    opened_by = signer.sign(commitment_statement(state.certificate))  # Ed25519: the same each time
    try:
        if staging.begun and not _opened(staging, opened_by):
            staging.wipe()
        if not staging.begun:
            check_ready(config, public=False)
            with staging.fresh():
                _copy_inputs(done, staging)
                with steps.step(Step.READ_ORIGINS):
                    keep_origins(config, plan, staging, progress, reviewed=True)
                opened = commit(state.certificate, staging, run_key, None)
                for name in ("program", "input", "key"):
                    if getattr(opened, name) != getattr(made, name):
                        raise WitnessError(
                            f"{out}: the {name} is not what the run committed to. Fix: give the witness the "
                            f"{name} of the run, or publish nothing of it"
                        )
                (staging.confidential / _OPENED).write_bytes(opened_by)
                sync_tree(staging.folder)
                staging.save(replace(state, config=config, debit=None))
        with staging.again():
            make_public(staging, plan, state, run_key, None, steps, None)
            seal = _compare(public, staging.public)
    except WitnessError:
        if staging.begun:
            staging.wipe()
        raise
    finally:
        run_key.destroy()
    certificate = parse_certificate((public / "certificate.json").read_bytes())
    path = add_statement(public, sign_statement(certificate, seal, signer, ledger=ledger is not None))
    EventLog(done.events).write("witnessed")
    staging.wipe()
    return path


def _opened(staging: RunFolder, signature: bytes) -> bool:
    """Return whether a private folder has the witness's signature that the commitment was opened there."""
    path = staging.confidential / _OPENED
    return path.is_file() and path.read_bytes() == signature


def seal(out: PathLike) -> None:
    """Destroy the key of a finished run, which was kept for a witness: nobody can draw from it again.

    Raises WitnessError where a witness is required, and has not signed.
    """
    out = absolute(Path.cwd(), path_of(out, "out"))
    done = _finished(out)
    certificate = parse_certificate((done.public / "certificate.json").read_bytes())
    check_statements(done.public, certificate, parse_checksums((done.public / CHECKSUMS).read_bytes()))
    done.forget_key()
    EventLog(done.events).write("sealed")


def _finished(out: Path) -> RunFolder:
    done = RunFolder(out)
    if not done.checked:
        fix = "name the output folder of a run that has finished"
        raise ConfigError(f"{out}: no finished run is there. Fix: {fix}")
    if not done.has_key:
        rule = "the run key is not there: the run is sealed, or its configuration named no witness"
        raise ConfigError(f"{out}: {rule}. Fix: name key in [witness] of the next run")
    return done


def _check_signer(digits: str, made: Commitment, public: Path) -> None:
    if (public / PUBLIC_KEY).is_file() and public_key_digits(public / PUBLIC_KEY) == digits:
        raise WitnessError("this key has signed the release itself. Fix: another person has to witness it")
    if made.witness not in (None, digits):
        raise WitnessError("the run requires another witness. Fix: use the private key that it names")


def _ledger(state: RunState, named: PathLike | None) -> Path | None:
    """Return the ledger to look into: the one that is named, or that of the run, if it is here."""
    if named is not None:
        return path_of(named, "ledger")
    settings = state.config.ledger
    return settings.file if settings is not None and settings.file.exists() else None


def _config(state: RunState, out: Path, jobs: Path | None) -> ReleaseConfig:
    """Return the configuration of a run for who repeats it: without its ledger and its keys."""
    config = state.config.model_copy(update={"ledger": None, "signature": None, "witness": None})
    if jobs is not None:
        moved = {
            name: absolute(Path.cwd(), jobs) / path.name
            for name in ("file", "aux")
            if (path := getattr(config.jobs, name, None)) is not None
        }
        config = config.model_copy(update={"jobs": config.jobs.model_copy(update=moved)})
    return config.with_out(out.with_name(f"{out.name}.witness"))


def _check_plan(out: Path, state: RunState, public: Path) -> ReleasePlan:
    """Load the plan of a run, which must be the one that it committed to, and this program the same."""
    certificate, plan = state.certificate, load_plan(public / "plan")
    if plan_hash(public / "plan") != certificate.plan_sha256:
        raise WitnessError(f"{out}: the plan is not what the run committed to. Fix: publish nothing of it")
    now = make_certificate(plan, certify(plan), certificate.plan_sha256, secure=state.secure)
    of_run = {name: getattr(certificate, name) for name in ("created", "commitment")}
    if now.model_copy(update=of_run) != certificate:
        raise other_version(out, certificate.software, "publish nothing of it")
    return plan


def _copy_inputs(done: RunFolder, staging: RunFolder) -> None:
    for name in _INPUTS:
        if (source := done.public / name).is_dir():
            shutil.copytree(source, staging.public / name)
        elif source.is_file():
            shutil.copyfile(source, staging.public / name)
    if done.forecast.is_file():  # as it was before noisy counts corrected it
        shutil.copyfile(done.forecast, staging.public / ACCURACY_FILE)


def _compare(public: Path, again: Path) -> bytes:
    """Compare every file of a release with the same that was made again; return their SHA256SUMS."""
    seal = (again / CHECKSUMS).read_bytes()
    files = parse_checksums(seal)
    stated = parse_checksums((public / CHECKSUMS).read_bytes())
    others = [
        name
        for name in sorted({*files, *stated})
        if not (public / name).is_file() or sha256_of(public / name) != files.get(name)
    ]
    if stated != files:
        others.append(CHECKSUMS)
    if others:
        raise WitnessError(
            f"{public}: {len(others)} of {len(files) + 1} files are not what plan, input and run key give, "
            f"{', '.join(others[:3])} first. Fix: if this is another kind of processor, which may round "
            "otherwise, take one of the same kind; else publish nothing of this run"
        )
    return seal
