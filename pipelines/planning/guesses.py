"""How often somebody who knows every home but one guesses the unit of that one right, of simulated homes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.drawing.estimating import PublicModel
from pipelines.drawing.procedures import split_homes
from pipelines.drawing.sampling import measure
from pipelines.planning.simulation import draw_public_model
from pipelines.plans.plan import ReleasePlan, batches, slots_of, spread
from synth.arrays import segment_indices
from synth.dirichlet.parameters import DirichletParameters
from synth.geometric.measured import MeasuredTable, count_cells
from synth.plan import Table
from synth.posterior.guesses import CellOdds, guess_units, noise_odds, urn_odds

_MOST_GUESSES = 50_000  # the standard error of a share is at most 0.0022 then
_PLAN_GUESSES = 5_000  # and at most 0.0071 then
_PLAN_JOBS = 500_000

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Members = Sequence[NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class Guesses:
    """Guesses of the units of homes.

    Attributes
    ----------
    slot : ndarray of int64, shape (n,)
        The jobs of which the home was guessed.
    public, released : ndarray of float64, shape (n,)
        How likely the guess was right: from public data alone, and with a release and all other homes.
    """

    slot: Int64
    public: Float64
    released: Float64


def guess_homes(
    plan: ReleasePlan, parts: Sequence[slice], homes: Int32, key: synth.RunKey, most: int = _MOST_GUESSES
) -> Guesses | None:
    """Draw what a release of some batches would publish, and guess homes from it.

    Attackers know the plan and every other home, and believe of the last home what the public model says. Who
    knows less guesses right no more often. Where empty cells are pruned they also know which ones were. None
    for a mechanism of others that draws homes anew.
    """
    if not plan.measures and not isinstance(plan.numeric.parameters, DirichletParameters):
        return None
    slots, offsets = slots_of(plan, parts), plan.pools.offsets
    chosen = slots[:: -(-slots.size // most)]
    public, released = (np.zeros(chosen.size) for _ in range(2))
    guesser = Guesser(plan)
    rng = np.random.default_rng(key.stream("guesses", 0).words(4))
    for part, of_batch in zip(parts, split_homes(plan, homes, parts), strict=True):
        first = int(offsets[part.start])
        in_batch = np.flatnonzero((chosen >= first) & (chosen < offsets[part.stop]))
        place_of = guesser.places(chosen[in_batch])
        for place in np.unique(place_of).tolist():
            at_place = in_batch[place_of == place]
            jobs = chosen[at_place]
            pool = np.searchsorted(offsets, jobs, side="right") - 1
            if plan.measures:
                evidence = _noisy(plan, pool, jobs, key, place)
            else:
                evidence = _resampled(plan, pool, part, of_batch, rng)
            public[at_place], released[at_place] = guesser.guess(place, *evidence, of_batch[jobs - first])
    return Guesses(chosen, public, released)


@dataclass(frozen=True)
class ExpectedGuess:
    """How often home units are guessed right, where homes are as the public model expects.

    Attributes
    ----------
    public : float
        From public data alone.
    released : float
        By somebody who also sees the release and knows every other home: who knows less, as all but one home
        of a work block, guesses right no more often. Found out in draws.
    alone : float or None
        The same of jobs that are the only one of their work block; None where none of them was tried.
    """

    public: float
    released: float
    alone: float | None

    def as_dict(self) -> dict[str, float | None]:
        """Return it as it stands in the forecast of a plan."""
        return {"public": self.public, "released": self.released, "one_job": self.alone}


def expected_guess(plan: ReleasePlan, seed: int = 0) -> ExpectedGuess | None:
    """Return how often units of homes drawn from the public model are guessed right (`guess_homes`)."""
    parts = spread(batches(plan), _PLAN_JOBS / plan.pools.slots.work.size)
    homes = draw_public_model(plan, seed, slots_of(plan, parts))
    guesses = guess_homes(plan, parts, homes, synth.RunKey.from_seed(seed), _PLAN_GUESSES)
    if guesses is None:
        return None
    slots = plan.pools.slots
    alone = guesses.released[slots.jobs(plan.geography.n_blocks)[slots.work[guesses.slot]] == 1]
    return ExpectedGuess(
        float(guesses.public.mean()),
        float(guesses.released.mean()),
        float(alone.mean()) if alone.size else None,
    )


class Guesser:
    """Guesses the units of homes as a plan's public model and what is published make them likely."""

    def __init__(self, plan: ReleasePlan) -> None:
        self._plan, self._prior, policy = plan, PublicModel(plan), plan.policy
        geography = plan.geography
        domains = synth.Domains.of_parts(geography.n_blocks, geography.starts(plan.level), policy)
        parts = np.arange(policy.n_parts, dtype=np.int32)
        units = Table(np.ones(policy.n_parts, np.int64), parts, domains)
        nothing = np.ones(int(units.offsets[-1]))
        self._units = CellOdds(units, nothing, nothing)  # so that no candidate is in two units

    def places(self, slots: Int64) -> Int64:
        """Return the place of each job: its work unit, and the part that its home is in."""
        jobs, plan = self._plan.pools.slots, self._plan
        unit = plan.geography.unit_of(plan.level, jobs.work[slots]).astype(np.int64)
        return unit * plan.policy.n_parts + jobs.home_part[slots]

    def guess(
        self, place: int, evidence: Sequence[CellOdds], member: Members, homes: Int32
    ) -> tuple[Float64, Float64]:
        """Return how likely homes of jobs of one place are guessed right, without and with evidence.

        `member` has the group of each job in every table of the evidence.
        """
        geography, level, parts = self._plan.geography, self._plan.level, self._plan.policy.n_parts
        groups = np.stack([*member, np.full(homes.size, place % parts)]).astype(np.int32)
        return guess_units(
            [*evidence, self._units],
            groups,
            partial(self._prior, place),
            partial(geography.unit_of, level),
            homes,
        )


def _noisy(
    plan: ReleasePlan, pool: Int64, slots: Int64, key: synth.RunKey, place: int
) -> tuple[list[CellOdds], Members]:
    """Return evidence of noisy counts, whose factors depend on their noise alone."""
    jobs = plan.pools.slots.take(slots)
    evidence: list[CellOdds] = []
    member: list[NDArray[np.integer]] = []
    every: tuple[NDArray[np.integer], ...] = (pool, *(table.find(jobs) for table in plan.secondary))
    for k, (table, groups) in enumerate(zip(plan.mechanism.tables(plan.numeric), every, strict=True)):
        present, row = np.unique(groups, return_inverse=True)
        measured = MeasuredTable(table.n[present], table.domain[present], table.domains, table.parameters)
        nobody = np.zeros(int(measured.offsets[-1]), np.int64)
        for run in range(plan.implicates.runs):
            noise = measure(nobody, measured, key, k, place, run)
            evidence.append(CellOdds(measured, *noise_odds(noise, measured.law)))
            member.append(row)
    return evidence, member


def _resampled(
    plan: ReleasePlan, pool: Int64, part: slice, homes: Int32, rng: np.random.Generator
) -> tuple[list[CellOdds], Members]:
    """Return evidence of draws from urns, and of which empty cells the coins kept: more than is published."""
    numeric, parameters, offsets = plan.numeric, plan.numeric.parameters, plan.pools.offsets
    assert isinstance(parameters, DirichletParameters)
    present, row = np.unique(pool, return_inverse=True)
    urns = Table(numeric.pools.n[present], numeric.pools.domain[present], numeric.domains)
    slots = segment_indices(offsets[present] - offsets[part.start], urns.n)
    jobs = count_cells(urns, np.repeat(np.arange(present.size, dtype=np.int32), urns.n), homes[slots])
    stratum = numeric.domains.stratum[segment_indices(numeric.domains.offsets[urns.domain], urns.k)]
    numerator = parameters.prior[np.repeat(numeric.pool_class[present], urns.k), stratum]
    prior = numerator / parameters.denominator
    retention = np.array([float(f) for f in parameters.retention])[stratum]
    evidence = []
    for _ in range(plan.implicates.runs):
        kept = (jobs > 0) | (rng.random(jobs.size) < retention)
        share = rng.standard_gamma(np.where(kept, jobs + prior, 0.0))
        drawn = np.concatenate(
            [
                rng.multinomial(m, cells / cells.sum())
                for m, cells in zip(
                    numeric.pools.m[present].tolist(), np.split(share, urns.offsets[1:-1]), strict=True
                )
            ]
        )
        evidence.append(CellOdds(urns, *urn_odds(jobs, prior, drawn, kept, retention)))
    return evidence, [row] * len(evidence)
