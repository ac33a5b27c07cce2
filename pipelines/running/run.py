"""A run: plan, certify, sample, write, check, and only then put the release in its place; resuming one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import geo_data
import synth
from pipelines.config.loading import ConfigError, ReleaseConfig
from pipelines.ledger.ledger import LedgerError
from pipelines.planning.form import plan_hash
from pipelines.planning.guards import refuse_as_public, refuse_copies, refuse_open_files
from pipelines.planning.plan import ReleasePlan
from pipelines.planning.polygon_tables import read_polygon_tables
from pipelines.planning.public_inputs import job_source, read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.planning.storage import load_plan, save_plan
from pipelines.release.certificate import Certificate, make_certificate
from pipelines.release.layout import write_public
from pipelines.release.names import NAME_FILE, write_names
from pipelines.release.polygons import POLYGON_FOLDER, write_polygons
from pipelines.release.signing import read_private_key
from pipelines.release.verification import VerificationError, verify
from pipelines.running.batches import keep_homes
from pipelines.running.executor import connect, sample_release
from pipelines.running.folder import RunState, Staging
from pipelines.running.payment import budget_left, debit_of, pay, record_outcome
from pipelines.running.reviewed_plan import refuse_other_slots, take_plan, usable
from pipelines.storage.checksums import sha256_of
from pipelines.storage.durable import sync, sync_tree, write_whole
from pipelines.storage.event_log import Journal

__all__ = ["Release", "certify", "check_ready", "resume", "run"]


@dataclass(frozen=True)
class Release:
    """A finished release.

    Attributes
    ----------
    out : Path
        Its folder, with ``public`` and ``confidential``.
    certificate : Certificate
    noise_share : float
        Expected share of synthetic workers drawn as noise.
    notes : tuple of str
        Of the plan.
    """

    out: Path
    certificate: Certificate
    noise_share: float
    notes: tuple[str, ...]

    @classmethod
    def of(cls, out: Path, certificate: Certificate, plan: ReleasePlan) -> Release:
        """Return a release without its plan, which may be large."""
        return cls(out, certificate, plan.mechanism.noise_share(plan.numeric), plan.notes)

    @cached_property
    def plan(self) -> ReleasePlan:
        """Its plan, read from the public folder."""
        return load_plan(self.public / "plan")

    @property
    def public(self) -> Path:
        """The folder that may be published."""
        return self.out / "public"


def certify(plan: ReleasePlan) -> synth.Guarantee:
    """Certify a plan and refuse one that costs more than was requested.

    Raises
    ------
    ValueError
        If the certified totals exceed the requested ones.
    """
    guarantee = plan.certify()
    if not plan.met_by(guarantee):
        raise ValueError("the certified totals exceed what was requested; nothing was drawn")
    return guarantee


def check_ready(config: ReleaseConfig) -> None:
    """Check what a run needs besides its inputs, before anybody waits for a plan.

    Raises
    ------
    SigningError
        If the signing key cannot be used.
    LedgerError
        If the ledger cannot be trusted, or its folder is not there.
    """
    if config.signature is not None:
        read_private_key(config.signature.key)
    if config.ledger is not None:
        budget_left(config.ledger)


def run(
    config: ReleaseConfig,
    *,
    plan: Path | None = None,
    key: synth.RunKey | None = None,
    report: Callable[[str], None] | None = None,
    scheduler: str | None = None,
) -> Release:
    """Make a release.

    Everything is written to a private folder beside the output folder and checked there; one rename puts it
    in place. A run that fails before its first draw leaves nothing; one that is interrupted later can be
    continued with `resume`.

    Parameters
    ----------
    config : ReleaseConfig
    plan : Path, optional
        Folder that `odsynth plan` wrote for this configuration: its plan is the release's, byte for byte. By
        default the run plans itself.
    key : synth.RunKey, optional
        For tests. By default a new key from the operating system. Destroyed at the end.
    report : callable, optional
        Told each step as it begins; progress is shown too when given.
    scheduler : str, optional
        Address of a Dask cluster (``tcp://...``) to draw on; by default threads of this process.

    Returns
    -------
    Release

    Raises
    ------
    ConfigError
        If the output folder exists, or an unfinished run does; or the plan given is damaged, of another
        configuration, or costs more than was requested.
    geo_data.InputError
        If an input is unusable, or the jobs are not those of the plan given.
    synth.BudgetTooSmallError
        If the budget certifies no prior.
    SigningError
        If the signing key cannot be used.
    LedgerError
        If the budget does not allow the release, or the ledger cannot be trusted.
    ConnectionError
        If no scheduler answers at the address given.
    """
    out = config.release.out
    _refuse_existing(out)
    refuse_open_files(config)
    _refuse_unreachable(scheduler)
    clock = _Clock(report)
    signing_key = read_private_key(config.signature.key) if config.signature else None
    key = key or synth.RunKey.generate()
    staging = Staging.of(out)
    try:
        with staging.fresh():
            _refuse_existing(out)  # now that nobody else makes it
            release, guarantee, plan_sha256 = _planned(config, plan, staging.public, clock)
            certificate = make_certificate(release, guarantee, plan_sha256, secure=key.secure)
            with clock.step("Reading the confidential origins"):
                jobs_sha256 = {str(path): sha256_of(path) for path in config.jobs.files}
                refuse_copies(jobs_sha256)
                _keep_homes(config, release, staging, given=plan is not None)
            name = f"{config.release.name}, run {secrets.token_hex(8)}"
            state = RunState(config, certificate, jobs_sha256, key.secure, name)
            staging.save(state, key)
            try:
                state = pay(state, staging, clock.say)
            except BaseException as error:
                if isinstance(error, LedgerError) or debit_of(state) is None:
                    staging.abandon()  # the ledger refused, or was never asked
                raise
            clock.journal = Journal(staging.journal)
            clock.journal.write("began", version=certificate.software.version, debit=state.debit or "")
            with record_outcome(state, clock.journal):
                _write(staging, release, state, key, signing_key, clock, scheduler)
                finished = Release.of(out, certificate, release)
                del release, guarantee  # checking reads the plan again, and two would be in memory
                _finish(staging, state, clock, out)
    finally:
        key.destroy()
    return finished


def resume(
    out: Path, *, report: Callable[[str], None] | None = None, scheduler: str | None = None
) -> Release:
    """Continue an interrupted run, with the result that it would have had, at no further cost.

    Batches that are finished are not drawn again; no input is read.

    Parameters
    ----------
    out : Path
        Output folder of the run.
    report, scheduler
        As for `run`.

    Returns
    -------
    Release

    Raises
    ------
    ConfigError
        If there is nothing to continue, or another version of the program began it.
    """
    staging = Staging.of(out)
    if not staging.begun and Staging(out).checked and (done := Staging(out).load()).debit is not None:
        out.chmod(0o755)
        sync(out.parent)
        with record_outcome(
            done, Journal(Staging(out).journal)
        ):  # killed between the last rename and the ledger
            return Release.of(out, done.certificate, load_plan(out / "public" / "plan"))
    _refuse_existing(out)
    _refuse_unreachable(scheduler)
    clock = _Clock(report)
    with staging.again() as state:
        release = load_plan(staging.public / "plan")
        certificate = state.certificate
        finished = Release.of(out, certificate, release)
        now = make_certificate(release, certify(release), certificate.plan_sha256, secure=state.secure)
        if now.model_copy(update={"created": certificate.created}) != certificate:
            raise ConfigError(
                [f"{staging.folder}: begun by another version of the program; resume with that one"]
            )
        if plan_hash(staging.public / "plan") != certificate.plan_sha256:
            raise ConfigError([f"{staging.folder}: the plan is not the one that the run began with"])
        signature = state.config.signature
        signing_key = read_private_key(signature.key) if signature else None
        clock.journal = Journal(staging.journal)
        clock.journal.write("resumed", version=certificate.software.version)
        with record_outcome(pay(state, staging, clock.say), clock.journal):
            if staging.checked:
                _put_in_place(staging, out)
                return finished
            key = staging.key(state)
            try:
                _write(staging, release, state, key, signing_key, clock, scheduler)
            finally:
                key.destroy()
            del release  # as in `run`
            _finish(staging, state, clock, out)
    return finished


def _refuse_existing(out: Path) -> None:
    if out.exists() or out.is_symlink():
        raise ConfigError([f"{out}: the output folder exists. Remove it, or choose another with --out"])


def _refuse_unreachable(scheduler: str | None) -> None:
    if scheduler is not None:
        connect(scheduler).close()  # now, since nothing has been read or paid


def _planned(
    config: ReleaseConfig, given: Path | None, public: Path, clock: _Clock
) -> tuple[ReleasePlan, synth.Guarantee, str]:
    """Make the plan of a run, or take the one given; write it, polygons and names; return its hash too."""
    stored = public / "plan"
    if given is None:
        with clock.step("Reading public inputs and planning"):
            inputs = read_public_inputs(config)
            release, polygons = make_plan(config, inputs), inputs.polygons
            write_names(inputs.names, release.geography, public)
            del inputs  # the public model is large, and nothing needs it any more
        with clock.step("Certifying the plan"):
            guarantee = certify(release)
        save_plan(release, stored)
    else:
        with usable(given):
            with clock.step("Reading the plan"):
                release = take_plan(config, given, stored)
            with clock.step("Certifying the plan"):
                guarantee = certify(release)
        refuse_as_public(config)
        tables = read_polygon_tables(config, release.geography)
        polygons = {level: table.shapes for level, table in tables.items()}
    write_polygons(polygons, public)
    return release, guarantee, plan_hash(stored)


def _write(
    staging: Staging,
    plan: ReleasePlan,
    state: RunState,
    key: synth.RunKey,
    signing_key: Ed25519PrivateKey | None,
    clock: _Clock,
    scheduler: str | None,
) -> None:
    """Draw what is not drawn yet, and write the public folder."""
    with clock.step(f"Drawing {plan.numeric.pools.n_records:,} synthetic workers"):
        parts = sample_release(
            staging,
            plan,
            state,
            key,
            scheduler=scheduler,
            say=clock.say,
            progress=clock.shown and sys.stderr.isatty(),
        )
    with clock.step("Writing the release"):
        for path in staging.public.iterdir():  # what an interrupted attempt wrote
            if path.is_dir() and path.name not in ("plan", POLYGON_FOLDER):
                shutil.rmtree(path)
            elif path.is_file() and path.name != NAME_FILE:
                path.unlink()
        write_public(plan, state.certificate, parts, staging.public, signing_key)


def _finish(staging: Staging, state: RunState, clock: _Clock, out: Path) -> None:
    """Check the release, and put it in its place."""
    with clock.step("Checking the release"):
        _check(staging.public, state.certificate)
    for path in (staging.public, *staging.public.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    sync_tree(staging.public)  # what it could be drawn from again is about to be destroyed
    _log(staging, state, clock)
    if clock.journal is not None:
        clock.journal.write("finished")
    _put_in_place(staging, out)


def _put_in_place(staging: Staging, out: Path) -> None:
    """Remove what a checked release does not need, and rename it."""
    staging.tidy()
    if out.exists():
        raise ConfigError([f"{out}: the output folder appeared during the run; nothing was replaced"])
    staging.folder.rename(out)
    out.chmod(0o755)
    sync(out.parent)  # before the ledger says that it is finished


def _keep_homes(config: ReleaseConfig, plan: ReleasePlan, staging: Staging, *, given: bool) -> None:
    """Read the confidential homes, file by file, and keep those of each batch in files of their own."""
    when = "since" if given else "during the run"
    if given:
        refuse_other_slots(config, plan)
    parts = job_source(config, plan.geography).parts(config.plan.pool_by, plan.pools.slots.categories)
    try:
        keep_homes(staging, plan, parts, config.run.batch_jobs)
    except geo_data.InputError:
        raise
    except ValueError:
        raise geo_data.InputError(
            config.jobs.files[0],
            f"the jobs are not those that the plan was made for: a file changed {when}",
            fix="plan again" if given else "run again when nothing writes to the files",
        ) from None


def _check(public: Path, certificate: Certificate) -> None:
    """Verify the staged release. One that is not for release is written too, and says so everywhere."""
    try:
        for _ in verify(public):
            pass
    except VerificationError as error:
        if error.check != "for release" or certificate.for_release:
            raise


class _Clock:
    def __init__(self, report: Callable[[str], None] | None) -> None:
        self.shown = report is not None
        self.journal: Journal | None = None
        self.say = report or (lambda _: None)
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        self.say(f"{what} ...")
        begin = time.monotonic()
        yield
        self.seconds[what] = round(time.monotonic() - begin, 3)
        if self.journal is not None:
            self.journal.write("step", step=what, seconds=self.seconds[what])


def _log(staging: Staging, state: RunState, clock: _Clock) -> None:
    """Keep what an auditor inside the agency needs: which input it was, and how long each step took.

    It is written when the release has passed its checks, and says that.
    """
    log = {"inputs_sha256": state.inputs, "seconds": clock.seconds, "process": os.getpid()}
    write_whole(staging.log, json.dumps(log, indent=1) + "\n")
