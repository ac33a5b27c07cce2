"""Assembling a plan: pools, cells and calibrated numbers for the choices made, from public inputs only."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import geo_data
import synth
from geo_data.coarsening import Rule, balanced, by_distance, by_share, by_threshold, by_units, coarsen
from geo_data.pools import Pooling, build_pools
from pipelines.config.implicates import Implicates
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import PlanSettings
from pipelines.config.toml import ConfigError
from pipelines.planning.public_inputs import PublicInputs
from pipelines.plans.measured import group_jobs
from pipelines.plans.plan import Choices, ReleasePlan
from pipelines.plans.workplaces import measured_workplaces
from pipelines.storage.progress import Progress
from synth.block_sampling import OriginShares
from synth.composition import one_urn_implicates

_KM_PER_MILE = Fraction("1.609344")


def assemble(
    config: ReleaseConfig,
    inputs: PublicInputs,
    slots: geo_data.Slots,
    choices: Choices,
    delta: Fraction,
    rough: bool = False,
    progress: Progress | None = None,
) -> ReleasePlan:
    """Make the plan of some slots with given choices."""
    geography, model, settings = inputs.geography, inputs.model, config.plan
    pooling = Pooling(choices.pool_level, choices.pool_below, choices.pool_by)
    policy = inputs.policy
    pools = build_pools(slots, geography, pooling, policy)
    rule = _rule(settings, model, choices)
    mechanism = synth.MECHANISMS[config.release.mechanism or str(choices.mechanism)]
    if "tables" in mechanism.settings or config.protects_records:
        _refuse_coarse_pools(choices.pool_level, model)
    coarse = coarsen(
        model,
        pools.block,
        pools.n,
        rule,
        settings.retention_min,
        policy,
        pools.part,
        larger_priors="prior" in mechanism.settings and settings.prior is None,
    )
    implicates = config.implicates
    once = synth.Pools(pools.n, pools.n, coarse.domain)
    secondary = group_jobs(choices.tables, slots, geography, policy)
    measured = [(groups.table, table.share) for groups, table in zip(secondary, choices.tables, strict=True)]
    workplaces = measured_workplaces(choices.workplaces, slots, geography)
    most = pooling.most_pools(geography, slots.categories)
    of_work = [(one.table, one.choice.share) for one in workplaces]
    numeric = _calibrated(
        config,
        mechanism,
        implicates,
        one_urn_implicates(once, implicates.of_run),
        synth.Domains(geography.n_blocks, coarse.offsets, coarse.cuts, coarse.stratum, policy),
        coarse.retention,
        delta,
        {"rough": rough}
        # Only a mechanism that measures tables takes secondary ones, and one that has priors a prior.
        | ({"secondary": measured} if measured else {})
        | ({"workplaces": of_work} if of_work else {})
        | ({"multiple": coarse.multiple, "prior": settings.prior} if "prior" in mechanism.settings else {})
        | ({"most_pools": most} if config.protects_records and "prior" in mechanism.settings else {})
        | ({"count": progress} if progress else {}),
    )
    starts = geography.starts(model.level).astype(np.int64)
    shares = OriginShares(starts, coarse.share_offsets, coarse.share_unit, coarse.share, coarse.row)
    plan = ReleasePlan(
        config=config.public,
        geography=geography,
        weights=inputs.weights.weights,
        shares=shares,
        pools=pools,
        level=model.level,
        domain_unit=coarse.unit,
        domain_size=coarse.size,
        numeric=numeric,
        choices=choices,
        notes=inputs.notes,
        secondary=secondary,
        workplaces=workplaces,
    )
    vars(plan).update(cumulative_weights=inputs.cumulative_weights)  # the same for every candidate
    return plan


def _refuse_coarse_pools(level: str, model: geo_data.PublicModel) -> None:
    """Refuse pools of several units of the model's level, as estimates look for the one that a pool is in.

    So do whole records that are resampled: which units have pools then follows from noisy counts.
    """
    if not model.geography.lie_within(level, model.level):
        raise ConfigError(
            [
                f'plan.pool_level = "{level}": pools that are measured, or follow from noisy counts, lie in '
                f'one unit of the public model each; write "{model.level}" or a finer level'
            ]
        )


def _calibrated(
    config: ReleaseConfig,
    mechanism: synth.Mechanism,
    implicates: Implicates,
    pools: synth.Pools,
    domains: synth.Domains,
    retention: tuple[Fraction, ...],
    delta: Fraction,
    more: dict[str, Any],
) -> synth.Plan:
    """Calibrate one run of the mechanism to its part of the budget."""
    privacy, runs = config.privacy, implicates.runs
    epsilon = privacy.epsilon
    target = synth.Target(
        epsilon / runs, delta / runs, privacy.guarantee, config.record_range, config.protected
    )
    try:
        return mechanism.calibrate(pools, domains, retention, target, **more)
    except synth.BudgetTooSmallError as error:
        if runs == 1:
            raise
        alone = error

        def smallest() -> Fraction | None:
            return None if alone.smallest is None else runs * alone.smallest

        rule = f"epsilon {synth.decimal_up(epsilon)} is not enough for {runs} independent implicates"
        raise synth.BudgetTooSmallError(rule, smallest) from None


def _rule(settings: PlanSettings, model: geo_data.PublicModel, choices: Choices) -> Rule:
    if choices.cell_level is not None:
        return by_units(model.geography, choices.cell_level)
    match settings.coarsening:
        case "threshold":
            return by_threshold(choices.threshold)
        case "distance":
            return by_distance(model, float(settings.distance_miles * _KM_PER_MILE))
        case "share":
            return by_share(float(settings.share))
        case _:
            return balanced(choices.threshold)
