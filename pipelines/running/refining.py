"""Refining a release: later, a stronger one of the same draw, which costs the difference."""

from __future__ import annotations

import shutil
from fractions import Fraction
from functools import partial
from pathlib import Path

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.config.fields import absolute
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.certificate import Certificate, parse_certificate
from pipelines.release.verification import VerificationError, verify
from pipelines.running.folder import Refined, RunFolder, RunState
from pipelines.running.preflight import blame_plan, check_ready, load_back
from pipelines.running.run import begin, certify, refined_tier
from pipelines.running.steps import Step, StepLog
from pipelines.running.tiers import copy_beside, refuse_same_noise
from pipelines.storage.progress import Progress
from pipelines.views.release import Release
from synth.rationals import MAX_EPSILON

_AGAIN = "make a new release with odsynth run"
_OF_DRAW = "plan_sha256", "created", "commitment"  # of a certificate: no other draw has the same


def refine(
    release: PathLike,
    epsilon: str | int | Fraction,
    out: PathLike | None = None,
    *,
    key: synth.RunKey | None = None,
    progress: Progress | None = None,
    scheduler: str | None = None,
) -> Release:
    """Make a stronger release of the draw of an earlier one; the ledger is debited the difference.

    The confidential files are read anew. Noisy counts are drawn given those of the earlier release, so that
    both together tell no more than the stronger one. A run that is interrupted can be continued with
    `resume`.

    Parameters
    ----------
    release : str or path
        Output folder of the earlier release, with its confidential folder. It is not changed.
    epsilon : str, int or Fraction
        Of the stronger release; an exact number.
    out : str or path, optional
        Output folder of the stronger release; by default the earlier one's with ``-refined``.
    key, progress, scheduler
        As for `run`.

    Returns
    -------
    Release

    Raises
    ------
    ConfigError
        If the release has no noisy counts that can be refined, paid from no ledger, or is strong enough.
    geo_data.InputError
        If the confidential files are not those of the earlier release.
    VerificationError
        If the earlier release is damaged.
    LedgerError
        If the budget does not allow the difference, or the release was refined before.
    """
    folder = absolute(Path.cwd(), path_of(release, "release"))
    done = RunFolder(folder)
    if not done.checked:
        fix = "name the output folder of a run that is finished"
        raise ConfigError(f"{folder}: there is no finished release with its confidential folder. Fix: {fix}")
    first = done.load()
    with blame_plan(done.public, "put back a copy of the release"):
        weaker = load_plan(done.public / "plan")
    refines = _refinable(folder, first, weaker)
    to = folder.with_name(f"{folder.name}-refined") if out is None else path_of(out, "out")
    config = _refined_config(first.config, synth.exact(epsilon, "epsilon")).with_out(to)
    check_ready(config, new=True, public=False)
    _check_earlier(done.public, first.certificate)
    write = partial(_write_plan, config, weaker, done.public)
    return begin(config, write, key, StepLog(progress), scheduler=scheduler, planned=True, refines=refines)


def _refinable(folder: Path, first: RunState, plan: ReleasePlan) -> Refined:
    """Return what a run must know of the release that it refines; refuse one that cannot be refined."""
    if "tiers" not in plan.mechanism.settings:
        rule = f"a release of the mechanism {plan.numeric.mechanism} has no noise that could be refined"
        raise ConfigError(f"{folder}: {rule}. Fix: {_AGAIN}")
    if plan.workplaces:
        rule = "only noisy counts of homes can be refined, and this release measured workplaces, too"
        raise ConfigError(f"{folder}: {rule}. Fix: {_AGAIN}")
    if first.config.witness is not None and first.config.witness.key is not None:
        rule = "no witness could repeat what refines the release, and its configuration names one"
        raise ConfigError(f"{folder}: {rule}. Fix: {_AGAIN}")
    if first.config.history is not None:
        rule = "a release with a [history] is one of a run without tiers, and cannot become a tier"
        raise ConfigError(f"{folder}: {rule}. Fix: {_AGAIN}")
    if first.debit is None:
        rule = "the release paid from no ledger, so nobody knows that it was not refined before"
        raise ConfigError(f"{folder}: {rule}. Fix: {_AGAIN}")
    return Refined(first.debit, first.certificate, first.inputs)


def _refined_config(config: ReleaseConfig, epsilon: Fraction) -> ReleaseConfig:
    """Return the configuration of the stronger release: that of a strongest tier above all there are."""
    if not config.privacy.epsilon < epsilon <= MAX_EPSILON:
        now = synth.decimal_up(config.privacy.epsilon)
        raise ConfigError(
            f"epsilon {synth.decimal_up(epsilon)}: the release has epsilon {now}. Fix: name a larger one, at "
            f"most {MAX_EPSILON}"
        )
    tiers = config.tiers or {"first": config.privacy.epsilon}
    names = ("refined", *(f"refined_{number}" for number in range(2, len(tiers) + 2)))
    name = next(name for name in names if name not in tiers)
    privacy = config.privacy.model_copy(update={"epsilon": epsilon})
    return config.model_copy(update={"privacy": privacy, "tiers": {**tiers, name: epsilon}})


def _check_earlier(public: Path, certificate: Certificate) -> None:
    """Refuse an earlier release that is damaged, or is not that of its run."""
    try:
        verify(public)
    except VerificationError as error:
        if error.check != "for release" or certificate.for_release:
            raise
    stated = parse_certificate((public / "certificate.json").read_bytes())
    if any(getattr(stated, name) != getattr(certificate, name) for name in _OF_DRAW):
        # Another draw by the same plan has other noise, and its refinement would be noted of this one.
        rule = "this is not the release of the run in the confidential folder"
        raise ConfigError(f"{public}: {rule}. Fix: put back a copy of the release")


def _write_plan(
    config: ReleaseConfig, weaker: ReleasePlan, earlier: Path, staging: RunFolder, steps: StepLog
) -> tuple[ReleasePlan, synth.Guarantee, str]:
    """Write the plan of the stronger release, and a copy of the earlier one, of which it is made."""
    stored = staging.public / "plan"
    with steps.step(Step.READ_PLAN):
        plan = weaker.of_tier(config.public)
        refuse_same_noise(plan, weaker)
        sha256 = save_plan(plan, stored)
        copy_beside(earlier, staging.public)
        shutil.copytree(earlier, staging.tier(refined_tier(config)).public)
    with steps.step(Step.CERTIFY):
        plan = load_back(config, stored, sha256)
        return plan, certify(plan), sha256
