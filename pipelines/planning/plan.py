"""From public inputs to a public plan. No function here can be handed a confidential array."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.config.implicates import Implicates
from pipelines.config.loading import PlanSettings, ReleaseConfig
from pipelines.planning.public_inputs import PublicInputs

__all__ = ["Choices", "ReleasePlan", "assemble"]

_KM_PER_MILE = Fraction("1.609344")


@dataclass(frozen=True)
class Choices:
    """What the planner chose, from public inputs.

    Attributes
    ----------
    pool_level : str
        Level whose units gather their small blocks.
    pool_below : int
        Blocks with fewer jobs share the urn of their unit.
    thresholds : tuple of float
        Expected workers of a cell, for pools of 1, 2-3, 4-7, ... slots; the last one serves all larger.
    """

    pool_level: str
    pool_below: int
    thresholds: tuple[float, ...]

    def threshold(self, size: float) -> float:
        """Return the expected workers of a cell in a pool of `size` slots."""
        return self.thresholds[min(int(np.log2(size)), len(self.thresholds) - 1)]


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """Everything that is public about a release before it is drawn, and all that the draw needs.

    Attributes
    ----------
    configuration : dict
        The canonical configuration (`ReleaseConfig.canonical`).
    geography : geo_data.Geography
    weights : ndarray of int64, shape (n_blocks,)
        Public weights by which a cell is shared among its blocks.
    shares : synth.OriginShares
        Public shares by which a cell is shared among the units in it.
    pools : geo_data.PoolTable
        Place, stratum and slots of every pool.
    level : str
        Level of the units of the public model.
    domain_unit, domain_size : ndarray, shape (n_domains,)
        Destination unit, and pool size, for which each domain was made.
    plan : synth.Plan
        The numbers of one run of the mechanism; independent implicates are several.
    choices : Choices
    notes : tuple of str
        What reading and planning had to report: repairs, rows left out, fall-backs.
    """

    configuration: dict[str, Any]
    geography: geo_data.Geography
    weights: NDArray[np.int64]
    shares: synth.OriginShares
    pools: geo_data.PoolTable
    level: str
    domain_unit: NDArray[np.int32]
    domain_size: NDArray[np.int64]
    plan: synth.Plan
    choices: Choices
    notes: tuple[str, ...]

    @cached_property
    def cumulative_weights(self) -> NDArray[np.int64]:
        """Running total of `weights`, from which blocks are drawn."""
        return synth.cumulative_weights(self.weights)

    @property
    def mechanism(self) -> synth.Mechanism:
        """The mechanism that the plan names."""
        return synth.MECHANISMS[self.plan.mechanism]

    @property
    def implicates(self) -> Implicates:
        """The synthetic data sets of the release."""
        return Implicates.of(self.configuration)

    @property
    def requested(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that were asked for, for all implicates together."""
        return synth.compose([(self.plan.epsilon, self.plan.delta)] * self.implicates.runs)

    def certify(self) -> synth.Guarantee:
        """Compute the guarantee of the release, all implicates together, from the plan alone."""
        return self.mechanism.certify(self.plan).repeated(self.implicates.runs)

    def met_by(self, guarantee: synth.Guarantee) -> bool:
        """Say whether a guarantee is the one that was asked for, or better."""
        return guarantee.meets(self.plan, self.implicates.runs)


def assemble(
    config: ReleaseConfig, inputs: PublicInputs, slots: geo_data.Slots, choices: Choices, delta: Fraction
) -> ReleasePlan:
    """Make the plan of some slots with given choices.

    Parameters
    ----------
    config : ReleaseConfig
    inputs : PublicInputs
    slots : geo_data.Slots
        All slots, or the sample on which choices are tried.
    choices : Choices
    delta : Fraction
        For these slots.

    Returns
    -------
    ReleasePlan
    """
    geography, model, settings = inputs.geography, inputs.model, config.plan
    pooling = geo_data.Pooling(choices.pool_level, choices.pool_below, settings.pool_by)
    pools = geo_data.build_pools(slots, geography, pooling)
    coarse = geo_data.coarsen(
        model, pools.block, pools.n, _rule(settings, model, choices), settings.retention_min
    )
    implicates = Implicates(config.release.implicates, config.release.implicate_source)
    once = synth.Pools(pools.n, pools.n, coarse.domain)
    plan = _calibrated(
        config,
        implicates,
        synth.one_urn_implicates(once, implicates.of_run),
        synth.Domains(geography.n_blocks, coarse.offsets, coarse.cuts, coarse.stratum),
        coarse.retention,
        delta,
    )
    starts = geography.starts(model.level).astype(np.int64)
    shares = synth.OriginShares(starts, coarse.share_offsets, coarse.share_unit, coarse.share, coarse.row)
    return ReleasePlan(
        configuration=config.canonical(),
        geography=geography,
        weights=inputs.weights.weights,
        shares=shares,
        pools=pools,
        level=model.level,
        domain_unit=coarse.unit,
        domain_size=coarse.size,
        plan=plan,
        choices=choices,
        notes=inputs.notes,
    )


def _calibrated(
    config: ReleaseConfig,
    implicates: Implicates,
    pools: synth.Pools,
    domains: synth.Domains,
    retention: tuple[Fraction, ...],
    delta: Fraction,
) -> synth.Plan:
    """Calibrate one run of the mechanism to its part of the budget."""
    epsilon, runs = config.privacy.epsilon, implicates.runs
    calibrate = synth.MECHANISMS[config.release.mechanism].calibrate
    try:
        return calibrate(
            pools,
            domains,
            retention,
            epsilon / runs,
            delta / runs,
            config.plan.prior,
            config.privacy.guarantee,
        )
    except synth.BudgetTooSmallError as error:
        if runs == 1:
            raise
        alone = error

        def smallest() -> Fraction | None:
            return None if alone.smallest is None else runs * alone.smallest

        what = f"epsilon {synth.decimal_up(epsilon)} is not enough for {runs} independent implicates"
        raise synth.BudgetTooSmallError(what, smallest) from None


def _rule(settings: PlanSettings, model: geo_data.PublicModel, choices: Choices) -> geo_data.Rule:
    match settings.coarsening:
        case "balanced":
            return geo_data.balanced(choices.threshold)
        case "threshold":
            return geo_data.by_threshold(choices.threshold)
        case "distance":
            return geo_data.by_distance(model, float(settings.distance_miles * _KM_PER_MILE))
        case "share":
            return geo_data.by_share(float(settings.share))
