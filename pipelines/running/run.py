"""A run: plan, certify, sample, write, check, and only then put the release in its place; resuming one."""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import geo_data
import synth
from geo_data.arguments import PathLike, check_type, path_of
from geo_data.errors import ChangedFileError
from geo_data.jobs import Reading
from pipelines.config.fields import absolute, expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.ledger.chain import LedgerError
from pipelines.planning.guards import refuse_as_public
from pipelines.planning.public_inputs import (
    count_job_files,
    job_source,
    read_public_inputs,
)
from pipelines.planning.search import make_plan
from pipelines.planning.simulation import simulate_accuracy
from pipelines.plans.form import plan_hash
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.accuracy import ACCURACY_FILE, write_accuracy
from pipelines.release.certificate import Certificate, certificate_of_draw, make_certificate, time_now
from pipelines.release.intervals import carries_draws
from pipelines.release.layout import describe_and_seal, write_public
from pipelines.release.names import NAME_FILE, write_names
from pipelines.release.polygons import POLYGON_FOLDER, write_polygons
from pipelines.release.signing import PUBLIC_KEY, read_private_key, sign, write_public_key
from pipelines.release.verification import VerificationError, verify_run
from pipelines.running.batches import RunBatches, differences, estimated_factors, keep_homes
from pipelines.running.commitment import commit
from pipelines.running.executor import sample_release, try_workers, trying_on
from pipelines.running.folder import TIERS, Refined, RunFolder, RunState, other_version, refuse_existing
from pipelines.running.history import with_history
from pipelines.running.payment import (
    debit_of,
    is_finished,
    pay,
    record_outcome,
    run_name,
)
from pipelines.running.preflight import (
    blame_plan,
    check_payable,
    check_ready,
    check_space,
    forecast_of_tier,
    load_back,
    refuse_other_slots,
    take_plan,
)
from pipelines.running.steps import OPERATOR_LOG, Step, StepLog, resumed_steps, run_steps
from pipelines.running.tiers import RefinedBatches, WeakerBatches, keep_tiers
from pipelines.running.workplaces import keep_records, measure_workplaces, publish_workplaces
from pipelines.storage.checksums import sha256_of
from pipelines.storage.durable import set_times, sync, sync_tree, write_whole
from pipelines.storage.errors import what_is_at
from pipelines.storage.event_log import EventLog
from pipelines.storage.progress import Progress
from pipelines.views.intervals.carrying import carry_draws
from pipelines.views.release import Release

_log = logging.getLogger(__name__)

# Always the same words: what differs, and that anything does, is confidential.
_PROTECTED_TOTALS = (
    "Workplace totals are those of the public table; how the jobs differ is in confidential/totals.json"
)


def certify(plan: ReleasePlan) -> synth.Guarantee:
    """Certify a plan and refuse one that costs more than was requested."""
    check_type(plan, ReleasePlan, "plan", "make_plan")
    guarantee = plan.certify()
    if not plan.met_by(guarantee):
        raise ValueError("the certified totals exceed what was requested; nothing was drawn")
    return guarantee


def run(
    config: ReleaseConfig,
    *,
    plan: PathLike | None = None,
    key: synth.RunKey | None = None,
    progress: Progress | None = None,
    scheduler: str | None = None,
) -> Release:
    """Make a release.

    Everything is written to a private folder beside the output folder and checked there; one rename puts it
    in place. A run that fails before its first draw leaves nothing; one that is interrupted later can be
    continued with `resume`.

    Parameters
    ----------
    config : ReleaseConfig
    plan : str or path, optional
        Folder that `odsynth plan` wrote for this configuration: its plan is the release's, byte for byte. By
        default the run plans itself.
    key : synth.RunKey, optional
        For tests. By default a new key from the operating system. Destroyed at the end.
    progress : Progress, optional
        Told how many plans were tried, classes calibrated and batches drawn, and how many there are.
    scheduler : str, optional
        Address of a Dask cluster (``tls://...``) to plan and to draw on; by default threads of this process.

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
        If no scheduler answers at the address given, or its cluster is lost.

    Examples
    --------
    >>> import pipelines
    >>> config = pipelines.load_config("examples/demo.toml").with_out("out/mine")
    >>> release = pipelines.run(config)
    >>> release.certificate.release.name
    'Demo region 2019, all jobs'
    >>> sorted(path.name for path in release.out.iterdir())
    ['confidential', 'public']
    """
    check_type(config, ReleaseConfig, "config", "load_config")
    reviewed = None if plan is None else path_of(plan, "plan")
    check_ready(config, new=True, public=reviewed is None)
    write = partial(_write_plan, config, reviewed, scheduler=scheduler)
    return begin(config, write, key, StepLog(progress), scheduler=scheduler, planned=reviewed is not None)


def begin(
    config: ReleaseConfig,
    write_plan: Callable[[RunFolder, StepLog], tuple[ReleasePlan, synth.Guarantee, str]],
    key: synth.RunKey | None,
    steps: StepLog,
    *,
    scheduler: str | None,
    planned: bool,
    refines: Refined | None = None,
) -> Release:
    """Make a release as `run` does, by a plan that is written into its private folder.

    `planned` says that it was made before; `refines`, which release it refines.
    """
    out = config.release.out
    signing_key = read_private_key(config.signature.key) if config.signature else None
    key = key or synth.RunKey.generate()
    staging = RunFolder.of(out)
    try:
        with staging.fresh():
            refuse_existing(out)  # now that nobody else makes it
            try_workers(scheduler)
            release_plan, guarantee, plan_sha256 = write_plan(staging, steps)
            certificate = make_certificate(release_plan, guarantee, plan_sha256, secure=key.secure)
            name = run_name(config, secrets.token_hex(16), refines)
            state = RunState(config, certificate, {}, key.secure, name, refines=refines)
            if refines is None:
                state = replace(state, tiers=_certify_tiers(state, staging))
            steps.order = run_steps(release_plan, reviewed=planned, tiers=bool(state.tiers))
            check_payable(state, release_plan)
            check_space(config, release_plan)
            if config.workplaces is not None and not config.protects_records:
                _log.info(_PROTECTED_TOTALS)
            with steps.step(Step.READ_ORIGINS):
                if refines is not None:  # whatever else is wrong with them, these are others
                    files = itertools.chain.from_iterable(map(expand, config.jobs.files))
                    _refuse_other_inputs(config, refines, {str(file): sha256_of(file) for file in files})
                jobs_sha256, rows = keep_origins(
                    config, release_plan, staging, steps.progress, reviewed=planned
                )
            if refines is not None:
                _refuse_other_inputs(config, refines, jobs_sha256)
            made = commit(certificate, staging, key, config.witness)
            created = {"created": time_now()}  # an earlier time would tell how long homes were read
            certificate = certificate.model_copy(update={"commitment": made, **created})
            tiers = {name: tier.model_copy(update=created) for name, tier in state.tiers.items()}
            state = replace(state, certificate=certificate, tiers=tiers, inputs=jobs_sha256, rows=rows)
            try_workers(scheduler)  # others may have come
            staging.save(state, key)
            try:
                state = pay(state, release_plan, staging)
            except BaseException as error:
                if isinstance(error, LedgerError) or debit_of(state) is None:
                    staging.abandon()  # the ledger refused, or was never asked
                raise
            steps.events = EventLog(staging.events)
            steps.events.write("began", version=certificate.software.version, debit=state.debit or "")
            with record_outcome(state, steps.events):
                drawn = make_public(staging, release_plan, state, key, signing_key, steps, scheduler)
                _finish(staging, release_plan, state, guarantee, steps, out)
    finally:
        key.destroy()
    return Release.just_made(out / "public", drawn)


def _refuse_other_inputs(config: ReleaseConfig, refines: Refined, inputs: Mapping[str, str]) -> None:
    """Refuse to refine a release of other records, by the SHA-256 of the files of both."""
    if sorted(inputs.values()) != sorted(refines.inputs.values()):
        raise geo_data.InputError(
            config.jobs.files[0],
            "the jobs are not those of the release that is to be refined: a file differs in its SHA-256",
            fix="put back the files that the release was made of, or make a new release",
        )


def resume(
    out: PathLike,
    *,
    progress: Progress | None = None,
    scheduler: str | None = None,
) -> Release:
    """Continue an interrupted run, with the result that it would have had, at no further cost.

    Batches that are finished are not drawn again; no input is read. A release that is finished is returned as
    it is.

    Parameters
    ----------
    out : str or path
        Output folder of the run.
    progress, scheduler
        As for `run`.

    Returns
    -------
    Release

    Raises
    ------
    ConfigError
        If there is nothing to continue, another version of the program began it, or it is an older copy of
        the folder of a finished run.
    """
    out = absolute(Path.cwd(), path_of(out, "out"))
    staging, done = RunFolder.of(out), RunFolder(out)
    if not staging.begun and done.checked:
        state = done.load()
        out.chmod(0o755)
        sync(out.parent)
        # Killed after the last rename, perhaps before the ledger was told.
        with record_outcome(state, EventLog(done.events), finished=is_finished(state)):
            return Release(out / "public")
    if staging.begun and done.checked and staging.load().name == done.load().name:
        raise ConfigError(
            f"{staging.folder}: this is an older copy of the release in {out}. Fix: drop this copy with "
            "odsynth runs --wipe, then run odsynth resume"
        )
    refuse_existing(out)
    steps = StepLog(progress)
    with staging.again() as state:
        if not (staging.has_key or staging.checked):
            raise ConfigError(
                f"{staging.folder}: a witness stopped here, or the run key is gone. Fix: call odsynth "
                "witness again, or drop it with odsynth runs --wipe"
            )
        finished_before = is_finished(state)
        if finished_before and not staging.checked:
            raise ConfigError(
                f"{staging.folder}: by the ledger this release is finished, so nothing is drawn again from "
                "this older copy. Fix: keep the release that was made, and drop this copy with odsynth runs "
                "--wipe"
            )
        if not staging.checked:
            try_workers(scheduler, begun=True)
        check_ready(state.config.with_out(out), public=False, confidential=False)
        plan = _begun_plan(staging)
        steps.order = resumed_steps(plan, tiers=bool(state.tiers))
        guarantee = _certify_again(staging, plan, state, state.certificate)
        for name, of_tier in state.tiers.items():
            _certify_again(staging.tier(name), _begun_plan(staging.tier(name)), state, of_tier)
        signature = state.config.signature
        signing_key = read_private_key(signature.key) if signature else None
        if debit_of(state) is None:  # stopped just before it was paid
            check_payable(state, plan)
        if not staging.checked:
            check_space(state.config.with_out(out), plan)
        steps.events = EventLog(staging.events)
        steps.events.write("resumed", version=state.certificate.software.version)
        if not finished_before:  # else a copy of a folder that needs only to be put in place: the same bytes
            state = pay(state, plan, staging)
        with record_outcome(state, steps.events, finished=finished_before):
            if staging.checked:
                _put_in_place(staging, state, out)
                return Release(out / "public")
            key = staging.key(state)
            try:
                drawn = make_public(staging, plan, state, key, signing_key, steps, scheduler)
            finally:
                key.destroy()
            _finish(staging, plan, state, guarantee, steps, out)
    return Release.just_made(out / "public", drawn)


def make_release(
    config: ReleaseConfig,
    *,
    plan: Path | None = None,
    progress: Progress | None = None,
    scheduler: str | None = None,
) -> None:
    """Make a release; or go on with it, or leave it, if it is there already."""
    out = config.release.out
    if (staging := RunFolder.of(out)).begun and staging.load().config.release == config.release:
        resume(out, progress=progress, scheduler=scheduler)
    elif RunFolder(out).checked and (state := RunFolder(out).load()).config.release == config.release:
        if state.debit is not None and not is_finished(state):
            resume(out, progress=progress, scheduler=scheduler)  # killed before the ledger was told
    else:
        run(config, plan=plan, progress=progress, scheduler=scheduler)


def _begun_plan(staging: RunFolder) -> ReleasePlan:
    """Read the plan of a run, or of a weaker tier of it, that is continued."""
    with blame_plan(staging.public, "put back a copy of it, or give the run up with odsynth runs --wipe"):
        return load_plan(staging.public / "plan")


def _certify_again(
    staging: RunFolder, plan: ReleasePlan, state: RunState, certificate: Certificate
) -> synth.Guarantee:
    """Certify the plan of a run, or of a weaker tier, that is continued; refuse one that began otherwise."""
    guarantee = certify(plan)
    now = make_certificate(plan, guarantee, certificate.plan_sha256, secure=state.secure)
    of_run = {name: getattr(certificate, name) for name in ("created", "commitment")}
    if now.model_copy(update=of_run) != certificate:
        raise other_version(staging.folder, certificate.software)
    if plan_hash(staging.public / "plan") != certificate.plan_sha256:
        rule, fix = "the plan is not the plan that the run began with", "put back a copy of that plan"
        raise ConfigError(
            f"{staging.folder}: {rule}. Fix: {fix}, or give the run up with odsynth runs --wipe"
        )
    return guarantee


def _certify_tiers(state: RunState, staging: RunFolder) -> dict[str, Certificate]:
    """Certify the plans of weaker tiers, and return the certificates of their releases, by name."""
    certificates = {}
    for name, config in state.config.weaker_tiers.items():
        stored = staging.tier(name).public / "plan"
        sha256 = plan_hash(stored)
        plan = load_back(config, stored, sha256)
        certificate = make_certificate(plan, certify(plan), sha256, secure=state.secure)
        certificates[name] = certificate.model_copy(update={"created": state.certificate.created})
    return certificates


def _write_plan(
    config: ReleaseConfig, reviewed: Path | None, staging: RunFolder, steps: StepLog, *, scheduler: str | None
) -> tuple[ReleasePlan, synth.Guarantee, str]:
    """Make the plan of a run, or take the reviewed one; write it and what is beside it; return its hash.

    Plans of weaker tiers are written too.
    """
    public = staging.public
    stored = public / "plan"
    if reviewed is None:
        with trying_on(scheduler) as parallel_map:
            with steps.step(Step.MAKE_PLAN):
                inputs = read_public_inputs(config, steps.progress)
                plan = make_plan(config, inputs, progress=steps.progress, parallel_map=parallel_map)
                write_names(inputs.names, plan.geography, public, config.release.language)
                write_polygons(inputs.polygons, public)
                plan_sha256 = save_plan(with_history(config, plan), stored)
            with steps.step(Step.SIMULATE):
                forecast = partial(
                    simulate_accuracy,
                    model=inputs.model,
                    parallel_map=parallel_map,
                    progress=steps.progress,
                )
                write_accuracy(forecast(plan), plan_sha256, public)
                keep_tiers(plan, staging, forecast)
        del inputs, plan, forecast  # they are large: nothing needs the public model any more, or two plans
        with steps.step(Step.CERTIFY):
            plan = load_back(config, stored, plan_sha256)
            guarantee = certify(plan)
    else:
        with blame_plan(reviewed):
            with steps.step(Step.READ_PLAN):
                plan, plan_sha256 = take_plan(config, reviewed, stored)
            with steps.step(Step.CERTIFY):
                guarantee = certify(plan)
        keep_tiers(plan, staging, partial(forecast_of_tier, reviewed))
        refuse_as_public(config)
    return plan, guarantee, plan_sha256


def _begin_batches(
    staging: RunFolder, planned: ReleasePlan, state: RunState, key: synth.RunKey, steps: StepLog
) -> RunBatches:
    """Return the batches of a run, once workplaces are measured, where they are."""
    plan = planned
    if planned.workplaces:
        with steps.step(Step.WORKPLACES):
            plan = measure_workplaces(staging, planned, key, state.config.run.batch_jobs)
    batches = RunBatches.of(staging, planned, plan, state, key)
    if state.refines is None:
        return batches
    public = staging.tier(refined_tier(state.config)).public
    return RefinedBatches.of_release(batches, load_plan(public / "plan"), public)


def refined_tier(config: ReleaseConfig) -> str:
    """Return the name of the tier that a refined release is made of."""
    return next(iter(config.weaker_tiers))


def _draw_and_write(
    batches: RunBatches,
    certificate: Certificate,
    signing_key: Ed25519PrivateKey | None,
    steps: StepLog,
    scheduler: str | None,
) -> None:
    """Draw what is not drawn yet, and write the public folder."""
    staging = batches.staging
    parts = sample_release(batches, steps=steps, scheduler=scheduler)
    plan = batches.plan
    if plan.measures:
        with steps.step(Step.CORRECT):
            batches.correct_accuracy(certificate.plan_sha256)
    with steps.step(Step.WRITE):
        for path in staging.public.iterdir():  # what an interrupted attempt wrote
            if path.is_dir() and path.name not in ("plan", POLYGON_FOLDER):
                shutil.rmtree(path)
            elif path.is_file() and path.name not in (NAME_FILE, ACCURACY_FILE, PUBLIC_KEY):
                path.unlink()
        batches.publish_counts()
        publish_workplaces(staging, plan)
        certificate = certificate_of_draw(certificate, plan)
        write_public(plan, certificate, parts, staging.public)
    drawn = carries_draws(plan)
    with steps.step(Step.DESCRIBE, _DRAWS_AND_WORDS if drawn else None):
        if drawn:
            carry_draws(Release.just_made(staging.public, plan), staging.parts, steps.progress)
        if signing_key is not None:
            write_public_key(signing_key, staging.public)
        describe_and_seal(plan, certificate, staging.public)
        if signing_key is not None:
            sign(signing_key, staging.public)


def make_public(
    staging: RunFolder,
    planned: ReleasePlan,
    state: RunState,
    key: synth.RunKey,
    signing_key: Ed25519PrivateKey | None,
    steps: StepLog,
    scheduler: str | None,
) -> ReleasePlan:
    """Make the public folder of a run, and those of weaker tiers; return the plan by which it was drawn.

    The plan is there, with what belongs to it. Without `signing_key`, a public key that is there says that
    the folder is going to be signed.
    """
    strongest = batches = _begin_batches(staging, planned, state, key, steps)
    _draw_and_write(strongest, state.certificate, signing_key, steps, scheduler)
    if state.tiers:
        with steps.step(Step.TIERS):
            for name, certificate in state.tiers.items():
                _log.info("Tier %s, epsilon %s ...", name, certificate.requested.epsilon)
                tier, tier_key = staging.tier(name), key.derive(f"tier {name}")
                plan, stronger = load_plan(tier.public / "plan"), batches
                begun = RunBatches.of(tier, plan, plan, state, tier_key)
                batches = WeakerBatches.of_release(begun, stronger.plan, stronger.staging.public)
                try:
                    _draw_and_write(batches, certificate, signing_key, StepLog(steps.progress, ()), scheduler)
                finally:
                    tier_key.destroy()
                _check(tier, plan, certificate, certify(plan))
    return strongest.plan


_DRAWS_AND_WORDS = "Drawing how sure its numbers are, from what is published, and describing it"


def _finish(
    staging: RunFolder,
    plan: ReleasePlan,
    state: RunState,
    guarantee: synth.Guarantee,
    steps: StepLog,
    out: Path,
) -> None:
    """Check the release, and put it in its place."""
    with steps.step(Step.CHECK):
        _check(staging, plan, state.certificate, guarantee)
    for public in (staging.public, *(staging.tier(name).public for name in state.tiers)):
        for path in (public, *public.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        set_times(public, state.certificate.created)  # when each was written tells how long homes took
        sync_tree(public)  # what it could be drawn from again is about to be destroyed
    for path in (*staging.folder.glob(TIERS), *staging.folder.glob(f"{TIERS}/*")):
        path.chmod(0o755)
    _write_summary(staging, state, steps)
    if steps.events is not None:
        steps.events.write("finished")
    _put_in_place(staging, state, out)


def _put_in_place(staging: RunFolder, state: RunState, out: Path) -> None:
    """Remove what a checked release does not need, and rename it."""
    witness = state.config.witness
    staging.tidy(keep_key=witness is not None and witness.key is not None)
    if os.path.lexists(out):
        raise ConfigError(
            f"{out}: the output folder appeared during the run; it is {what_is_at(out)}, and nothing was "
            "replaced. Fix: move it away, then run odsynth resume"
        )
    staging.folder.rename(out)
    out.chmod(0o755)
    sync(out.parent)  # before the ledger says that it is finished


def keep_origins(
    config: ReleaseConfig,
    plan: ReleasePlan,
    staging: RunFolder,
    progress: Progress | None,
    *,
    reviewed: bool,
) -> tuple[dict[str, str], dict[str, int]]:
    """Read the confidential homes, file by file, and keep those of each batch in files of their own.

    Return the SHA-256 of each file, by path, of the bytes that the homes were read from, and its rows.
    """
    when = "since" if reviewed else "during the run"
    if reviewed and not plan.workplaces:
        refuse_other_slots(config, plan)
    protected_totals = plan.numeric.target.record_range is not None
    reading = Reading()
    # Slots have been read of the same files, unless they are those of a public table.
    source = job_source(config, plan.geography, reading, checked=config.record_range is None)
    try:
        with count_job_files(config.jobs.files, progress) as rows:
            parts = source.parts(plan.attributes, plan.pools.slots.categories, unmatched=protected_totals)
            if plan.workplaces:
                keep_records(staging, plan, parts)
            else:
                pool_sizes = keep_homes(staging, plan, parts, config.run.batch_jobs)
    except ChangedFileError:
        raise geo_data.InputError(
            config.jobs.files[0],
            f"the jobs are not those that the plan was made for: a file changed {when}",
            fix="plan again" if reviewed else "run again when nothing writes to the files",
        ) from None
    # For the operator: nothing is refused because of these, as they depend on homes. Of whole records, whose
    # number is protected, totals.json alone tells.
    for remark in () if plan.workplaces else reading.remarks:
        OPERATOR_LOG.warning(remark)
    if protected_totals and not plan.workplaces:
        tables = [pool_sizes[:-1], *(staging.read_counts(k) for k in range(1, len(plan.secondary) + 1))]
        if not all(jobs.any() for jobs in tables):
            raise geo_data.InputError(
                config.jobs.files[0],
                "no job has a work block and category of the public table of workplaces",
                fix="write work blocks and categories in the same way in both files",
            )
        staging.note_differences(differences(plan, pool_sizes))
    return reading.sha256, rows


def _check(
    staging: RunFolder, plan: ReleasePlan, certificate: Certificate, guarantee: synth.Guarantee
) -> None:
    """Verify the staged release. One that is not for release is written too, and says so everywhere."""
    try:
        verify_run(staging.public, plan, guarantee, estimated_factors(staging))
    except VerificationError as error:
        if error.check != "for release" or certificate.for_release:
            raise


def _write_summary(staging: RunFolder, state: RunState, steps: StepLog) -> None:
    """Keep what an auditor inside the agency needs: which input it was, and how long each step took.

    It is written when the release has passed its checks, and says that.
    """
    seconds = {step.value: seconds for step, seconds in steps.seconds.items()}
    log = {
        "inputs_sha256": state.inputs,
        "rows_read": state.rows,
        "rows_refused": 0,  # one that is refused ends a run before it is paid for
        "seconds": seconds,
        "process": os.getpid(),
    }
    write_whole(staging.summary, json.dumps(log, indent=1) + "\n")
