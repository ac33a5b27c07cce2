"""The public model: where the workers of a destination are expected to live, from public tables only.

Notation: d is a destination and u an origin, both units of the model's level; w(u) public weight
(population); n_D public number of jobs of a destination unit D of any level.

1. Gravity. P(u | d) is proportional to w(u) (delta(u, d) + delta_0)^-beta (`geo_data.gravity`), the decay
   fitted to the finest table.
2. One table after another, coarse levels first, and of one pair of levels the table of fewest workers first,
   so that the order in which tables are given is nothing. Let o be the table's origin units, D its
   destination units, g the unit that contains o at the next coarser origin level of an earlier table
   (everything, if there is none), F(o, D) the table's flow, and P(o | D) the model so far, averaged over the
   d in D by n_d. A row of flows is as much as m workers asked, m = F^2 / sum of squared standard errors: the
   size of a count that is as uncertain, F itself for a count, whose variance is taken to be its size. What is
   true is taken to be Dirichlet around the model so far, inside every g with concentration kappa, and between
   them with lambda (a Dirichlet tree, Dennis 1991); the table's shares f(o | g, D) are a sample of m(g, D),
   and its shares f(g | D) one of m(D). With C all origins in those g from which D has a flow, the posterior
   means are

       Q(g | D) = P(C | D) ( m(D) f(g | D) + lambda P(g | C, D) ) / ( m(D) + lambda )
       T(o | D) = Q(g | D) ( m(g, D) f(o | g, D) + kappa P(o | g, D) ) / ( m(g, D) + kappa )         in C,

   and P(o | D) elsewhere. So a row is believed as far as it tells more than the model knows already. kappa
   and lambda are measured on the table (empirical Bayes, Good 1965): small where rows are further from the
   model than sampling explains, and large, so that the table moves nothing, where they are not. Each solves
   a moment equation, over all pairs of which the table speaks, p = P(o | g, D), or P(g | C, D) for lambda:

       sum w (m f - m p)^2  =  sum w m p (1 - p) (m + kappa) / (1 + kappa),   w = 1 / (1 + m p).

3. A table that counts the same jobs as the release (an earlier release) also says what it does not
   show: of n_D jobs, those beyond its total F(D) come from where it is silent. The share of C becomes
   (F(D) + kappa P(C | D)) / (n_D + kappa), n_D at least F(D), unless next to nothing (1e-9) is expected
   elsewhere.
4. P(u | d) is changed as little as possible to have P(o | D) = T(o | D): one factor for each (o, D), found
   by iterative proportional fitting (Deming and Stephan 1940), which minimises the relative entropy to the
   model so far.

5. Then come tables with a side whose areas cut the units (`Geography.non_nesting_areas`: places, say), of few
   origin areas first. Let w(G | d) be the part of d's public jobs in the destination area G, and w(g | u) the
   part of u's public weight in the origin area g: so workers of d and residents of u are taken to be spread
   over the areas, whatever else is known of them. In atoms, the parts of one unit in one area, such a table
   nests, and steps 2 to 4 find a factor phi(g, G) for every pair, where the parent of g is the coarser unit
   in which most of its weight lies. Origins without a flow to G share one factor in each parent; an area that
   is no origin in the whole table is one of which it does not speak. Added up over atoms,

       P'(u | d) = sum_G w(G | d) P(u | d) phi(u, G) / sum_v P(v | d) phi(v, G),
       phi(u, G) = sum_g w(g | u) phi(g, G).

   This is one step of alternating minimisation (Csiszar and Tusnady 1984): fitting finds, of all flows
   between atoms that have the targets, those nearest to the model, and adding up the model that is nearest
   to them. So the relative entropy between the model and the flows that have the targets never grows.

The decay and how far single destinations differ from the model (kappa and `deviation`) are those of the
table with the most origins: the last one before step 5, or a finer partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from geo_data._model_tables import AreaTable, ModelTable, Row, moments
from geo_data.auxiliary import Flows
from geo_data.geography import Geography
from geo_data.gravity import Centres, Decay, centres, fit_decay

Float64 = NDArray[np.float64]

_LEAST = 1e-9  # relative variance below which nothing deviates


@dataclass(frozen=True)
class Deviation:
    """How far true shares are from expected ones: a relative variance that falls with the share.

    Of a destination whose workers are expected to live in u with the share p, the true share is taken to be
    p theta / sum(p theta), theta a variable of mean 1 and relative variance

        v(p) = common + 1 / (concentration p).

    With common = 0 and gamma variables that is a Dirichlet distribution. It alone does not do: one that is
    as uneven as real flows where shares are large leaves most small ones without anybody, and one that
    suits small ones is nearly even in large ones. `geo_data.proxy_truth` draws lognormal variables between
    units, as gamma variables of the same variance are 0 too often there, and gamma variables where a work
    block is compared with its unit.
    """

    common: float  # of large shares, >= 0
    concentration: float  # > 0, perhaps infinite

    def shape(self, share: Float64) -> Float64:
        """Return 1 / v(p), the shape of theta, of shares in [0, 1]: 0 where p is 0, and at most 1e9."""
        variance = self.common * share + 1 / self.concentration
        return np.asarray(share / np.maximum(variance, np.maximum(_LEAST * share, np.finfo(float).tiny)))

    def left(self, share: Float64, sampled: Float64, clumps: Float64) -> Float64:
        """Return the relative variance of true shares where a table asked some workers.

        Shares deviate from expected ones by v(p) for good, and in every year, that of the table too, by
        `clumps`, of which another year tells nothing. The table's counts have the variance of chance besides:

            1 / (1 / v + 1 / (1 / asked + clumps)) + clumps.

        `share` is p, and `sampled` counts the workers asked who live there. Infinite where p is 0.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.shape(share) + sampled / (1 + sampled * clumps)) + clumps)

    def halved(self) -> Deviation:
        """Return half of it."""
        return Deviation(self.common / 2, self.concentration * 2)

    @classmethod
    def measured(cls, drawn: Float64, m: Float64, p: Float64) -> Deviation | None:
        """Fit to counts: of m workers asked, `drawn` were found where m p were expected.

        Two moment equations, sum w (drawn - m p)^2 = sum w (m p + (m p)^2 v(p)) with w = 1, in which large
        counts decide, and w = 1 / (1 + m p), in which small ones do.

        None where counts are expected nowhere, so that they tell nothing.
        """
        mean = m * p
        excess = (drawn - mean) ** 2 - mean
        weights = np.stack([np.ones(mean.size), 1 / (1 + mean)])
        sides = weights @ np.stack([mean**2, m * mean], axis=1)
        if not mean.any():
            return None
        common, inverse = _not_negative(sides, np.maximum(weights @ excess, 0.0))
        return cls(round(float(common), 4), round(1 / float(inverse), 1) if inverse > 0 else float("inf"))


def _not_negative(sides: Float64, moments: Float64) -> Float64:
    """Return the two numbers >= 0 with which sides >= 0, shape (2, 2), come nearest to what is wanted.

    Where both equations say the same, as where every p is alike, the first number is 0.
    """
    solution, _, rank, _ = np.linalg.lstsq(sides, moments, rcond=1e-9)
    if rank == 2 and solution.min() >= 0:
        return np.asarray(solution)
    alone = np.diag(moments @ sides / (sides**2).sum(axis=0))  # one of them is 0
    if rank < 2:
        return np.asarray(alone[1])
    return min(alone, key=lambda candidate: float(np.linalg.norm(sides @ candidate - moments)))


_SAMPLE = 256  # most destinations to which decay and concentration are fitted
_FEWEST = 32  # fewest of them, however many pairs with origins they make
_PAIRS = 4_000_000
_CONCENTRATION = 200.0  # kappa where no table tells; what tracts of Rhode Island give
_DEVIATION = Deviation(
    0.2, 1000.0
)  # where no table tells: about as far as tracts of Rhode Island are from gravity
_LARGEST = 1e6  # kappa where a table has nothing to tell beside the model


@dataclass(frozen=True, eq=False)
class PublicModel:
    """P(origin | destination) under public tables and weights; made by `build_model`.

    Attributes
    ----------
    geography : Geography
    level : str
        Level of origin and destination units.
    weights : ndarray of int64, shape (n_blocks,)
        Public weight of each block: at least 1, and 0 where nobody can live.
    jobs : ndarray of float64, shape (n_units,)
        Public number of jobs of each destination unit.
    decay : Decay
    concentration : float
        kappa: a destination's own shares are as far from the model's as kappa draws from it.
    deviation : Deviation
        How far a destination's own shares in an area of the level above are taken to be from the model's, but
        for what `sampled` tells.
    tables : tuple of Flows
        In the order in which they are applied.
    """

    geography: Geography
    level: str
    weights: NDArray[np.int64]
    jobs: Float64
    decay: Decay
    concentration: float
    deviation: Deviation
    tables: tuple[Flows, ...]
    _centres: Centres
    _weight: Float64
    _stages: tuple[ModelTable | AreaTable, ...]

    def __repr__(self) -> str:
        tables = f"{len(self.tables)} public table{'' if len(self.tables) == 1 else 's'}"
        return f"<PublicModel: {self.n_units:,} units of level {self.level}; {tables}>"

    @property
    def n_units(self) -> int:
        """Number of units of the model's level."""
        return self._weight.size

    def units(self, blocks: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the unit of the model's level in which each block lies."""
        return self.geography.unit_of(self.level, blocks)

    @cached_property
    def areas(self) -> NDArray[np.int64]:
        """Area of the level above of each unit, shape (n_units,): 0 throughout where no level is above."""
        levels, starts = (
            [*self.geography.levels, self.geography.block_level],
            self.geography.starts(self.level),
        )
        if self.level == levels[0]:
            return np.zeros(starts.size, np.int64)
        return self.geography.unit_of(levels[levels.index(self.level) - 1], starts).astype(np.int64)

    def distance_km(self, destinations: NDArray[np.integer]) -> Float64:
        """Return the great-circle distance of every unit from each destination, kilometres, (g, n_units)."""
        return self._centres.distance_km(destinations)

    def shares(self, destinations: NDArray[np.integer]) -> Float64:
        """Return P(u | d) of g destinations, shape (g, n_units).

        Positive, but in units in which nobody can live; rows add to 1.
        """
        if self.n_units**2 <= _PAIRS:  # kept, as the planner asks for them again and again
            return self._every_share[destinations]
        return self._shares(destinations)

    @cached_property
    def _every_share(self) -> Float64:
        return self._shares(np.arange(self.n_units))

    def _shares(self, destinations: NDArray[np.integer]) -> Float64:
        result = self._centres.pull(destinations, self.decay, self._weight)
        for stage in self._stages:
            result = stage.applied(result, destinations, self.jobs)
        return result

    def sampled(self, destinations: NDArray[np.integer]) -> Float64:
        """Return how many workers the finest table asked, of every pair, shape (g, n_units).

        0 throughout if the last table is not between units of the model.
        """
        last = self._stages[-1] if self._stages else None
        if isinstance(last, ModelTable) and last.direct and last.origin_starts.size == self.n_units:
            rows, _, sample = last.flows(destinations)
            return sample[rows]
        return np.zeros((destinations.size, self.n_units))

    def covered(self, destinations: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Say of each destination whether any table has a flow to it; the others follow gravity alone."""
        covered = np.zeros(destinations.size, bool)
        for stage in self._stages:
            covered |= stage.reached(destinations)
        return covered


def build_model(
    geography: Geography,
    tables: Sequence[Flows],
    weights: NDArray[np.int64],
    jobs: NDArray[np.int64],
    level: str,
) -> PublicModel:
    """Fit the public model.

    Parameters
    ----------
    geography : Geography
    tables : sequence of Flows
        Auxiliary flows, any number, at levels not finer than `level` or non-nesting areas of the geography.
    weights : ndarray of int64, shape (n_blocks,)
        Public weights: at least 1, and 0 where nobody can live.
    jobs : ndarray of int64, shape (n_blocks,)
        Public number of jobs in each block.
    level : str
        Level of the model.

    Returns
    -------
    PublicModel

    Raises
    ------
    ValueError
        If there is not one such weight a block, or a table is finer than the level.
    """
    if not geography.are_weights(weights):
        raise ValueError("every block needs a public weight of at least 1, or of 0 where nobody can live")
    nested, cutting = _ordered(geography, tables, level)
    starts = geography.starts(level).astype(np.int64)
    model = PublicModel(
        geography=geography,
        level=level,
        weights=weights,
        jobs=np.add.reduceat(jobs, starts).astype(np.float64),
        decay=Decay(),
        concentration=_CONCENTRATION,
        deviation=_DEVIATION,
        tables=(*nested, *cutting),
        _centres=centres(geography, level, weights),
        _weight=np.add.reduceat(weights, starts).astype(np.float64),
        _stages=(),
    )
    stages = ModelTable.of(nested, geography, level)
    areas = [
        AreaTable.of(table, geography, level, _parent_level(geography, nested, table), weights, jobs)
        for table in cutting
    ]
    candidates: list[ModelTable | AreaTable] = [*stages[-1:], *areas]
    finest = max(candidates, key=lambda stage: stage.flow.shape[1], default=None)
    if finest is not None:
        model = replace(model, decay=_decay(model, finest))
    for stage in stages:
        within, between, deviation = _differences(model, stage)
        measured = replace(stage, concentration=within, between=between)
        if not measured.direct:
            measured = measured.balanced(model.shares, model.jobs)
        model = replace(model, concentration=within, deviation=deviation, _stages=(*model._stages, measured))
    for cut in areas:
        rows = cut.rows(model.shares)
        within, between = _area_concentrations(rows)
        cut_ready = replace(cut, concentration=within, between=between).fitted(rows)
        model = replace(
            model,
            concentration=within if cut is finest else model.concentration,
            _stages=(*model._stages, cut_ready),
        )
    return model


def _ordered(geography: Geography, tables: Sequence[Flows], level: str) -> tuple[list[Flows], list[Flows]]:
    """Return the tables between levels, and those with non-nesting areas, as they are applied."""
    rank, size = [*geography.levels, geography.block_level].index, geography.n_units
    sides = [{t.origin_level, t.destination_level} for t in tables]
    cut = [bool(side & geography.non_nesting_areas.keys()) for side in sides]
    if any(rank(name) > rank(level) for side in sides for name in side - geography.non_nesting_areas.keys()):
        raise ValueError(f"an auxiliary table is finer than the level of the model, {level}")
    return (
        sorted(
            (t for t, cuts in zip(tables, cut, strict=True) if not cuts),
            key=lambda t: (rank(t.origin_level), rank(t.destination_level), t.workers, t.source),
        ),
        sorted(
            (t for t, cuts in zip(tables, cut, strict=True) if cuts),
            key=lambda t: (size(t.origin_level), size(t.destination_level), t.workers, t.source),
        ),
    )


def _parent_level(geography: Geography, nested: Sequence[Flows], table: Flows) -> str | None:
    """Return the finest origin level of earlier tables that is coarser than non-nesting areas."""
    areas = geography.n_units(table.origin_level)
    coarser = [t.origin_level for t in nested if geography.n_units(t.origin_level) < areas]
    return coarser[-1] if coarser else None


def _sample(model: PublicModel, stage: ModelTable | AreaTable) -> NDArray[np.int64]:
    """Return some destinations that a table reaches, spread evenly over their jobs."""
    units = np.arange(model.n_units)
    reached = units[stage.reached(units) & (model.jobs > 0)]
    size = max(_FEWEST, min(_SAMPLE, _PAIRS // model.n_units))
    if reached.size <= size:
        return reached
    cumulative = np.cumsum(model.jobs[reached])
    points = (np.arange(size) + 0.5) / size * cumulative[-1]
    return np.unique(reached[np.searchsorted(cumulative, points)])


def _decay(model: PublicModel, stage: ModelTable | AreaTable) -> Decay:
    chosen = _sample(model, stage)
    if chosen.size == 0:
        return Decay()
    rows, flow, _ = stage.flows(chosen)
    return fit_decay(
        flow,
        stage.inside(flow),
        model._weight,
        model._centres.distance_km(chosen),
        stage.averaging(rows, model.jobs[chosen], flow.shape[0]),
    )


def _differences(model: PublicModel, stage: ModelTable) -> tuple[float, float, Deviation]:
    """Return kappa and lambda of a table, and how far the truth is taken to be from the model with it."""
    chosen = _sample(model, stage)
    if chosen.size == 0:
        return _CONCENTRATION, _CONCENTRATION, model.deviation
    rows, flow, sample = stage.flows(chosen)
    expected = stage.averaging(rows, model.jobs[chosen], flow.shape[0])(model._shares(chosen))
    inside = stage.inside(flow)
    m, share = (stage.spread(stage.by_parent(values)) for values in (sample, expected))
    estimates = sample[inside], m[inside], (expected / share)[inside]
    within, deviation = _solved(*estimates), Deviation.measured(*estimates)
    parts = stage.by_parent(flow) * stage.worth[np.unique(stage.destination[chosen])][:, None]
    covered = parts > 0
    expected = np.where(covered, stage.by_parent(expected), 0.0)
    m, share = (np.repeat(v.sum(axis=1, keepdims=True), v.shape[1], axis=1) for v in (parts, expected))
    between = _solved(parts[covered], m[covered], expected[covered] / share[covered])
    # Table and truth are each off the model so far; together as far as was measured, half of it each.
    return within, between, deviation.halved() if deviation else model.deviation


def _area_concentrations(rows: Sequence[Row]) -> tuple[float, float]:
    """Return kappa and lambda of a table with non-nesting areas."""
    nothing = np.zeros(3)
    return (
        _solution(sum((row.within for row in rows), nothing)),
        _solution(sum((row.between for row in rows), nothing)),
    )


def _solved(drawn: Float64, m: Float64, p: Float64) -> float:
    """Solve the moment equation: of m workers asked, `drawn` were found where m p were expected."""
    return _solution(moments(drawn, m, p))


def _solution(sums: Float64) -> float:
    # The expected sum of squares falls from `most`, where kappa is 0, to `least`, where it is infinite.
    least, most, square = sums.tolist()
    if most - least <= 1e-9:
        return _CONCENTRATION
    if square <= least:
        return _LARGEST
    return round(float(np.clip((most - square) / (square - least), 1.0, _LARGEST)), 1)
