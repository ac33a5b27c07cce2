"""The public model: where the workers of a destination are expected to live, from public tables only.

Notation: d is a destination and u an origin, both units of the model's level; w(u) public weight
(population); n_D public number of jobs of a destination unit D of any level.

1. Gravity. P(u | d) is proportional to w(u) (delta(u, d) + delta_0)^-beta (`geo_data.gravity`), the decay
   fitted to the finest table.
2. One table after another, coarse origin levels first. Let o be the table's origin units, D its
   destination units, g the unit that contains o at the next coarser origin level of an earlier table
   (everything, if there is none), F(o, D) the table's flow, and P(o | D) the model so far, averaged over the
   d in D by n_d. Then

       T(o | D) = P(g | D) ( F(o, D) + s P(o | g, D) ) / ( F(g, D) + s )          where F(g, D) > 0,

   and P(o | D) elsewhere. So a coarse table gives totals and a finer one the shares inside them. The number
   of pseudo-workers is s = F(g, D) / sqrt(m), m = F(g, D)^2 / sum of the squared standard errors of F(o, D)
   over the o in g, at least 1: the size of a count that is as uncertain as the row. It is F(g, D) itself
   for a count, whose variance is taken to be its size. sqrt(m)
   pseudo-observations are minimax for shares of m draws under squared error (Steinhaus 1957): large rows are
   believed, small ones smoothed.
3. A table that counts the same jobs as the release (an earlier release) also says what it does not
   show: of n_D jobs, those beyond its total F(D) come from where it is silent. The share of the covered
   origins becomes (F(D) + s P(covered | D)) / (n_D + s), s = sqrt(n_D), n_D at least F(D).
4. P(u | d) is changed as little as possible to have P(o | D) = T(o | D): one factor for each (o, D), found
   by iterative proportional fitting (Deming and Stephan 1940), which minimises the relative entropy to the
   model so far.

How far destinations differ from the model is measured on the finest table too: given the model before that
table, rows are taken as Dirichlet-multinomial, and the concentration kappa solves the moment equation

    sum (F(u, d) - F(g, d) p)^2  =  sum F(g, d) (1 - sum p^2) (F(g, d) + kappa) / (1 + kappa).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from geo_data._model_tables import ModelTable
from geo_data.auxiliary import Flows
from geo_data.geography import Geography
from geo_data.gravity import Centres, Decay, centres, fit_decay

__all__ = ["PublicModel", "build_model"]

Float64 = NDArray[np.float64]

_SAMPLE = 256  # destinations to which decay and concentration are fitted, at most; and at least
_FEWEST = 32  # so many, however many pairs with origins they make
_PAIRS = 4_000_000
_CONCENTRATION = 200.0  # kappa where no table tells; what tracts of Rhode Island give


@dataclass(frozen=True, eq=False)
class PublicModel:
    """P(origin | destination) under public tables and weights; made by `build_model`.

    Attributes
    ----------
    geography : Geography
    level : str
        Level of origin and destination units.
    weights : ndarray of int64, shape (n_blocks,)
        Public weight of each block, at least 1.
    jobs : ndarray of float64, shape (n_units,)
        Public number of jobs of each destination unit.
    decay : Decay
    concentration : float
        kappa: a destination's own shares are as far from the model's as kappa draws from it.
    tables : tuple of Flows
        In the order in which they are applied.
    """

    geography: Geography
    level: str
    weights: NDArray[np.int64]
    jobs: Float64
    decay: Decay
    concentration: float
    tables: tuple[Flows, ...]
    _centres: Centres
    _weight: Float64
    _stages: tuple[ModelTable, ...]

    @property
    def n_units(self) -> int:
        """Number of units of the model's level."""
        return self._weight.size

    def units(self, blocks: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the unit of the model's level in which each block lies."""
        return self.geography.unit_of(self.level, blocks)

    def distance_km(self, destinations: NDArray[np.integer]) -> Float64:
        """Return the great-circle distance of every unit from each destination, kilometres, (g, n_units)."""
        return self._centres.distance_km(destinations)

    def shares(self, destinations: NDArray[np.integer]) -> Float64:
        """Return P(u | d).

        Parameters
        ----------
        destinations : ndarray of int, shape (g,)
            Units of the model's level.

        Returns
        -------
        ndarray of float64, shape (g, n_units)
            Positive; rows add to 1.
        """
        result = self._centres.pull(destinations, self.decay, self._weight)
        for stage in self._stages:
            result = stage.applied(result, destinations, self.jobs)
        return result

    def covered(self, destinations: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Say of each destination whether any table has a flow to it; the others follow gravity alone."""
        found = np.zeros(destinations.size, bool)
        for stage in self._stages:
            found |= stage.reached(destinations)
        return found


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
        Auxiliary flows, any number, at levels not finer than `level`.
    weights : ndarray of int64, shape (n_blocks,)
        Public weights, at least 1.
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
        If there is not one positive weight a block, or a table is finer than the level.
    """
    if weights.shape != (geography.n_blocks,) or weights.min() < 1:
        raise ValueError("every block needs a public weight of at least 1")
    rank = [*geography.levels, geography.block_level].index
    ordered = sorted(tables, key=lambda t: (rank(t.origin_level), rank(t.destination_level)))
    if any(max(rank(t.origin_level), rank(t.destination_level)) > rank(level) for t in ordered):
        raise ValueError(f"an auxiliary table is finer than the level of the model, {level}")
    starts = geography.starts(level).astype(np.int64)
    model = PublicModel(
        geography=geography,
        level=level,
        weights=weights,
        jobs=np.add.reduceat(jobs, starts).astype(np.float64),
        decay=Decay(),
        concentration=_CONCENTRATION,
        tables=tuple(ordered),
        _centres=centres(geography, level, weights),
        _weight=np.add.reduceat(weights, starts).astype(np.float64),
        _stages=(),
    )
    stages = ModelTable.of(ordered, geography, level)
    if stages:
        model = replace(model, decay=_decay(model, stages[-1]))
    for stage in stages:
        if stage is stages[-1]:
            model = replace(model, concentration=_concentration(model, stage))
        ready = stage if stage.direct else stage.balanced(model.shares, model.jobs)
        model = replace(model, _stages=(*model._stages, ready))
    return model


def _sample(model: PublicModel, stage: ModelTable) -> NDArray[np.int64]:
    """Return some destinations that a table reaches, spread evenly over their jobs."""
    every = np.arange(model.n_units)
    reached = every[stage.reached(every) & (model.jobs > 0)]
    size = max(_FEWEST, min(_SAMPLE, _PAIRS // model.n_units))
    if reached.size <= size:
        return reached
    cumulative = np.cumsum(model.jobs[reached])
    at = (np.arange(size) + 0.5) / size * cumulative[-1]
    return np.unique(reached[np.searchsorted(cumulative, at)])


def _decay(model: PublicModel, stage: ModelTable) -> Decay:
    chosen = _sample(model, stage)
    if chosen.size == 0:
        return Decay()
    rows, flow = stage.flows(chosen)
    return fit_decay(
        flow,
        stage.inside(flow),
        model._weight,
        model._centres.distance_km(chosen),
        lambda expected: stage.average(expected, rows, model.jobs[chosen], flow.shape[0]),
    )


def _concentration(model: PublicModel, stage: ModelTable) -> float:
    chosen = _sample(model, stage)
    if chosen.size == 0:
        return _CONCENTRATION
    rows, flow = stage.flows(chosen)
    expected = stage.average(model.shares(chosen), rows, model.jobs[chosen], flow.shape[0])
    total, within = stage.conditional(flow, expected)
    inside = stage.inside(flow)
    square = float(((flow - total * within)[inside] ** 2).sum())
    counts, spread = stage.by_parent(flow), 1.0 - stage.by_parent(within**2)
    here = (counts > 0) & (spread > 1e-9)
    if not here.any():
        return _CONCENTRATION

    def excess(log_kappa: float) -> float:
        kappa = float(np.exp(log_kappa))
        return float((counts * spread * (counts + kappa) / (1 + kappa))[here].sum()) - square

    low, high = np.log(1.0), np.log(1e6)
    if excess(low) <= 0 or excess(high) >= 0:
        return float(np.exp(low if excess(low) <= 0 else high))
    return round(float(np.exp(brentq(excess, low, high))), 1)
