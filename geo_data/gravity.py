"""The gravity term of the public model: how the pull of a place falls with distance.

A worker of destination d is expected to live in unit u in proportion to

    w(u) (delta(u, d) + delta_0)^-beta,

w the public weight (population) and delta the great-circle distance between the centres of the two. The
decay beta and the offset delta_0 are fitted to an auxiliary table by maximum likelihood: nothing but public
tables enters. It is the oldest model of commuting (Zipf 1946; Wilson 1971); it speaks where no table does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from geo_data import _kernels
from geo_data.distance import EARTH_RADIUS_KM, unit_vectors
from geo_data.geography import Geography

Float64 = NDArray[np.float64]

_TINY = 1e-300  # what a share, or the table's expected flow, is at least
_PRECISION = 1e-13  # of the loss of a worker, to which a decay is fitted
_NEAR_ZERO = 0.01  # the least exponent from which the decay is sought
_STEPS = 200  # of the search, at most; it takes ten


@dataclass(frozen=True)
class Decay:
    """Parameters of the pull (delta + offset)^-exponent."""

    exponent: float = 0.0  # beta >= 0; 0 is no decay: public weights alone
    offset: float = 1.0  # delta_0 in kilometres, > 0

    def pull(self, distance: Float64) -> Float64:
        """Return (delta + delta_0)^-beta of distances in kilometres, of their shape."""
        return np.asarray((distance + self.offset) ** -self.exponent)


@dataclass(frozen=True, eq=False)
class Centres:
    """Where the units of a level are, as points for fast distances."""

    # unit vectors from the centre of the earth; NaN for units without a place (external zones); shape
    # (n_units, 3)
    vectors: Float64
    # weighted root mean square distance, in kilometres, of a unit's blocks from its centre: what stands for
    # the distance of a unit to itself; shape (n_units,)
    spread: Float64

    def pull(self, units: NDArray[np.integer], decay: Decay, weight: Float64) -> Float64:
        """Return the gravity model P(u | d), shape (g, n_units), rows adding to 1.

        Row i is of the destination ``units[i]``; `weight` is the public weight of each origin, not negative.
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

        Kilometres, shape (g, n_units); the largest finite one of the row where a unit has no place.
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
    """Return the weighted centre and spread of every unit of a level."""
    starts = geography.starts(level).astype(np.int64)
    blocks = unit_vectors(geography.latitude, geography.longitude)
    weight = np.maximum(weights, 1).astype(np.float64)  # also where nobody lives, but may work
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

    `flow` has public flows to g destinations from o origins, and `inside` says about which pairs the table
    speaks: the likelihood is conditional on being one of them. `weight` is of n origin units, and `distance`,
    shape (d, n), in kilometres; `aggregate` turns expected flows, shape (d, n) with rows that add to 1, into
    the shape (g, o) of the table. beta lies in [0, 6] and delta_0 in [0.05, 100] km; there is no decay where
    the table has nothing to tell.
    """
    compared = inside & (inside.sum(axis=1, keepdims=True) > 1)
    if not (flow[compared].sum() > 0 and np.ptp(distance[np.isfinite(distance)]) > 0):
        return Decay()

    seen = np.flatnonzero(inside & (flow > 0))
    row = seen // flow.shape[1]
    counted = flow.take(seen) / flow.take(seen).sum()
    row_weight = np.bincount(row, counted, flow.shape[0])[:, None]

    def expected_at(point: Float64) -> tuple[Float64, Float64, Float64, float]:
        """Return what is expected between units and in the table, the sums of its rows, and the loss."""
        expected = Decay(float(point[0]), float(np.exp(point[1]))).pull(distance)
        expected *= weight
        expected /= expected.sum(axis=1, keepdims=True)
        table = aggregate(expected) * inside
        total = np.maximum(table.sum(axis=1, keepdims=True), _TINY)
        share = np.maximum(table.take(seen) / total.take(row), _TINY)
        return expected, table, total, -float((counted * np.log(share)).sum())

    def look(point: Float64) -> tuple[float, Float64, Float64]:
        """Return the loss, its slopes by exponent and log offset, and how these are expected to change."""
        expected, table, total, loss = expected_at(point)
        far, share, scores = distance + np.exp(point[1]), table / total, []
        for slope in (-np.log(far), point[0] * np.exp(point[1]) / -far):
            change = expected * (slope - (expected * slope).sum(axis=1, keepdims=True))
            score = aggregate(change) * inside / np.maximum(table, _TINY)
            scores.append(score - (share * score).sum(axis=1, keepdims=True))
        slopes = np.array([-(counted * score.take(seen)).sum() for score in scores])
        weighted = [row_weight * share * score for score in scores]
        return loss, slopes, np.array([[(a * b).sum() for a in weighted] for b in scores])

    low, high = np.array([0.0, np.log(0.05)]), np.array([6.0, np.log(100.0)])
    # From the best of a coarse grid, and from the best of its slightest decays: the likelihood of a small
    # table may have several humps. Not from 0, where all offsets are alike, and a way down that begins at one
    # of them may not be seen; but nothing may be better than no decay.
    exponents, offsets = np.linspace(low, high, 7).T
    grid = [*map(np.array, itertools.product(np.maximum(exponents, _NEAR_ZERO), offsets))]
    losses = [expected_at(point)[-1] for point in grid]
    starts = {int(np.argmin(losses)), int(np.argmin(losses[: offsets.size]))}
    ends = [low, *(_lowest(look, grid[start], low, high) for start in sorted(starts))]
    exponent, log_offset = min(ends, key=lambda point: expected_at(point)[-1]).tolist()
    return Decay(round(exponent, 4), round(math.exp(log_offset), 4))


def _lowest(
    look: Callable[[Float64], tuple[float, Float64, Float64]], point: Float64, low: Float64, high: Float64
) -> Float64:
    """Return where a function of two variables is least between bounds, downhill from a point.

    `look` returns its value, its slopes and the curvature expected there. Flows are not as the model expects:
    the curvature is corrected by how the slopes change (Broyden, Fletcher, Goldfarb and Shanno 1970), and the
    search ends where neither that one nor, in case it went wrong, the one expected there leads further down.
    """
    value, slopes, expected = look(point)
    curvature = expected
    for _ in range(_STEPS):
        step = _best_step(slopes, curvature, low - point, high - point)
        promised = -slopes @ step
        while promised > _PRECISION:
            trial = look(point + step)
            if trial[0] < value:
                break
            step, promised = step / 2, promised / 2
        else:
            if curvature is expected:
                break
            curvature = expected
            continue
        change = trial[1] - slopes
        if change @ step > 0:
            pushed = curvature @ step
            curvature = curvature + np.outer(change, change) / (change @ step)
            curvature -= np.outer(pushed, pushed) / (step @ pushed)
        point, (value, slopes, expected) = point + step, trial
    return point


def _best_step(slopes: Float64, curvature: Float64, low: Float64, high: Float64) -> Float64:
    """Return the step between bounds that is best for these slopes and curvature: inside, or on an edge."""
    steps = [-np.linalg.pinv(curvature, hermitian=True) @ slopes]
    if (steps[0] < low).any() or (steps[0] > high).any():
        steps = []
    for fixed, bound in itertools.product((0, 1), (low, high)):
        free_axis, step = 1 - fixed, bound.copy()
        free = -(slopes[free_axis] + curvature[free_axis, fixed] * step[fixed]) / max(
            curvature[free_axis, free_axis], _TINY
        )
        step[free_axis] = np.clip(free, low[free_axis], high[free_axis])
        steps.append(step)
    return min(steps, key=lambda step: float(slopes @ step + step @ curvature @ step / 2))
