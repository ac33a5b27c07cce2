"""The gravity term of the public model: how the pull of a place falls with distance.

A worker of destination d is expected to live in unit u in proportion to

    w(u) (delta(u, d) + delta_0)^-beta,

w the public weight (population) and delta the great-circle distance between the centres of the two. The
decay beta and the offset delta_0 are fitted to an auxiliary table by maximum likelihood: nothing but public
tables enters. It is the oldest model of commuting (Zipf 1946; Wilson 1971); it speaks where no table does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from geo_data import _kernels
from geo_data.distance import EARTH_RADIUS_KM, unit_vectors
from geo_data.geography import Geography

__all__ = ["Centres", "Decay", "centres", "fit_decay"]

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Decay:
    """Parameters of the pull (delta + offset)^-exponent.

    Attributes
    ----------
    exponent : float
        beta >= 0; 0 is no decay: public weights alone.
    offset : float
        delta_0 in kilometres, > 0.
    """

    exponent: float = 0.0
    offset: float = 1.0

    def pull(self, distance: Float64) -> Float64:
        """Return (delta + delta_0)^-beta of distances in kilometres, of their shape."""
        return np.asarray((distance + self.offset) ** -self.exponent)


@dataclass(frozen=True, eq=False)
class Centres:
    """Where the units of a level are, as points for fast distances.

    Attributes
    ----------
    vectors : ndarray of float64, shape (n_units, 3)
        Unit vectors from the centre of the earth; NaN for units without a place (external zones).
    spread : ndarray of float64, shape (n_units,)
        Weighted root mean square distance, in kilometres, of a unit's blocks from its centre: what stands
        for the distance of a unit to itself.
    """

    vectors: Float64
    spread: Float64

    def pull(self, units: NDArray[np.integer], decay: Decay, weight: Float64) -> Float64:
        """Return the gravity model P(u | d), shape (g, n_units), rows adding to 1.

        Parameters
        ----------
        units : ndarray of int, shape (g,)
            Destinations d.
        decay : Decay
        weight : ndarray of float64, shape (n_units,)
            Public weight of each origin u, > 0.
        """
        x, y, z = self._axes
        return np.asarray(
            _kernels.pull(
                x,
                y,
                z,
                decay.pull(self.spread[units]),
                units.astype(np.int64),
                weight,
                _by_chord(decay),
            )
        )

    @cached_property
    def _axes(self) -> tuple[Float64, ...]:
        return tuple(np.ascontiguousarray(axis) for axis in self.vectors.T)

    def distance_km(self, units: NDArray[np.integer]) -> Float64:
        """Return the great-circle distance from every unit to each of `units`.

        Parameters
        ----------
        units : ndarray of int, shape (g,)

        Returns
        -------
        ndarray of float64, shape (g, n_units)
            Kilometres; the largest finite one of the row where a unit has no place.
        """
        # |a - b|^2 = 2 - 2 a.b loses about 0.1 m to rounding: nothing beside the size of a block.
        square = np.maximum(2.0 - 2.0 * (self.vectors[units] @ self.vectors.T), 0.0)
        distance = 2.0 * EARTH_RADIUS_KM * np.arcsin(np.minimum(np.sqrt(square) / 2.0, 1.0))
        distance[np.arange(units.size), units] = self.spread[units]
        missing = np.isnan(distance)
        if missing.any():
            far = np.where(missing, 0.0, distance).max(axis=1, initial=0.0, keepdims=True)
            distance = np.where(missing, far, distance)
        return np.asarray(distance)


@lru_cache(maxsize=2)
def _by_chord(decay: Decay) -> Float64:
    return _kernels.by_chord(EARTH_RADIUS_KM, decay.exponent, decay.offset)


def centres(geography: Geography, level: str, weights: NDArray[np.int64]) -> Centres:
    """Return the weighted centre and spread of every unit of a level.

    Parameters
    ----------
    geography : Geography
    level : str
    weights : ndarray of int64, shape (n_blocks,)
        Public weights, at least 1.
    """
    starts = geography.starts(level).astype(np.int64)
    blocks = unit_vectors(geography.latitude, geography.longitude)
    weight = weights.astype(np.float64)
    total = np.add.reduceat(weight, starts)
    mean = np.add.reduceat(blocks * weight[:, None], starts, axis=0) / total[:, None]
    # The mean of points on a sphere lies inside it, by half their mean square distance from the centre.
    length = np.linalg.norm(mean, axis=1)
    spread = EARTH_RADIUS_KM * np.sqrt(np.maximum(2.0 - 2.0 * length, 0.0))
    return Centres(mean / length[:, None], spread)


def fit_decay(
    flow: Float64,
    inside: NDArray[np.bool_],
    weight: Float64,
    distance: Float64,
    aggregate: Callable[[Float64], Float64] = np.asarray,
) -> Decay:
    """Fit the decay to a table by conditional maximum likelihood.

    Parameters
    ----------
    flow : ndarray of float64, shape (g, o)
        Public flows to g destinations from o origins.
    inside : ndarray of bool, shape (g, o)
        Pairs about which the table speaks; the likelihood is conditional on being one of them.
    weight : ndarray of float64, shape (n,)
        Public weight of each origin unit.
    distance : ndarray of float64, shape (d, n)
        Kilometres.
    aggregate : callable, optional
        Turns expected flows, shape (d, n) with rows that add to 1, into the shape (g, o) of the table.

    Returns
    -------
    Decay
        beta in [0, 6] and delta_0 in [0.05, 100] km; no decay where the table has nothing to tell.
    """
    from scipy.optimize import minimize  # takes its time

    compared = inside & (inside.sum(axis=1, keepdims=True) > 1)
    if not (flow[compared].sum() > 0 and np.ptp(distance[np.isfinite(distance)]) > 0):
        return Decay()

    seen = inside & (flow > 0)
    row, counted = np.nonzero(seen)[0], flow[seen]

    def loss(point: Float64) -> float:
        expected = weight * Decay(float(point[0]), float(np.exp(point[1]))).pull(distance)
        expected /= expected.sum(axis=1, keepdims=True)
        table = aggregate(expected) * inside
        share = table[seen] / np.maximum(table.sum(axis=1), 1e-300)[row]
        return -float((counted * np.log(np.maximum(share, 1e-300))).sum()) / float(counted.sum())

    bounds = [(0.0, 6.0), (np.log(0.05), np.log(100.0))]
    # From the best of a coarse grid: the likelihood of a small table may have several humps.
    grid = itertools.product(np.linspace(*bounds[0], 7), np.linspace(*bounds[1], 7))
    start = min(grid, key=lambda point: loss(np.array(point)))
    # Downhill along the gradient, then, because exponent and offset lie on a narrow ridge, without one.
    near = minimize(loss, np.array(start), method="L-BFGS-B", bounds=bounds).x
    step = np.where(near < [3.0, 2.0], 0.2, -0.2)
    options = {
        "initial_simplex": near + np.array([[0, 0], [1, 0], [0, 1]]) * step,
        "xatol": 1e-5,
        "fatol": 1e-12,
    }
    found = minimize(loss, near, method="Nelder-Mead", bounds=bounds, options=options)
    return Decay(round(float(found.x[0]), 4), round(float(np.exp(found.x[1])), 4))
