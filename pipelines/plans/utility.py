"""How close a release is to the truth: total variation and mean commute, for plans and evaluations alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from geo_data.arguments import check_type
from geo_data.distance import distance_km
from geo_data.geography import Geography
from synth.geometric.measured import l1_distance

_FEW_TIMES = 8  # tables with so many cells for each job are counted whole; in larger ones jobs are sorted
_FEW_TO_KEEP = 2  # the same where both counts of each cell are kept, which takes four times the memory
_LARGE = 100  # jobs from which a destination's mean commute is worth comparing


def count_variation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the total variation distance of two tables of counts, each as shares of its total.

    It is half the L1 distance of the shares, in [0, 1]: 0 when equal, 1 when disjoint. Counts are of the same
    cells, in the same order, and neither total is 0.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    # Scaled to one total, not to shares: differences of whole numbers are exact.
    return float(np.abs(a - b * (a.sum() / b.sum())).sum() / (2 * a.sum()))


def mean_km(km: npt.ArrayLike, jobs: npt.ArrayLike = 1) -> float:
    """Return the mean of distances over the jobs that have one, NaN where no job has.

    A distance is NaN where a home or a workplace has no place, as external zones have none.
    """
    km = np.asarray(km, np.float64)
    weight = np.where(np.isfinite(km), jobs, 0)
    total = weight.sum()
    return float(np.nansum(km * weight) / total) if total else float("nan")


def total_variation(
    geography: Geography,
    level: str,
    work: npt.ArrayLike,
    homes: npt.ArrayLike,
    other_homes: npt.ArrayLike,
    *,
    destination_level: str | None = None,
) -> float:
    """Return the total variation distance of two tables of flows between units of a level.

    Parameters
    ----------
    geography : Geography
    level : str
    work : array_like of int, shape (n,)
        Work block of each job.
    homes, other_homes : array_like of int, shape (n,)
        Home blocks in the two tables.
    destination_level : str, optional
        Level of the destinations where it is another one.

    Returns
    -------
    float
        In [0, 1].
    """
    work, homes, other_homes = (np.asarray(blocks) for blocks in (work, homes, other_homes))
    check_type(geography, Geography, "geography", "geo_data.read_crosswalk")
    destination = geography.unit_of(destination_level or level, work).astype(np.int64) * geography.n_units(
        level
    )
    return cell_variation(*(destination + geography.unit_of(level, h) for h in (homes, other_homes)))


def cell_variation(cells: NDArray[np.int64], other_cells: NDArray[np.int64]) -> float:
    """Return the total variation distance of two tables, of which the cell of every job is given."""
    most = 1 + int(max(cells.max(), other_cells.max()))
    if cells.size == other_cells.size and most <= _FEW_TIMES * 2 * cells.size:
        return l1_distance(cells, other_cells, most) / (2 * cells.size)
    return count_variation(*cell_counts(cells, other_cells))


def squared_error(cells: NDArray[np.int64], other_cells: NDArray[np.int64]) -> float:
    """Return the sum of squared differences of the counts of two tables, per job of the first.

    Parameters are as of `cell_variation`.
    """
    first, second = cell_counts(cells, other_cells)
    return float(np.square(first - second, dtype=np.float64).sum()) / cells.size


def cell_counts(
    cells: NDArray[np.int64], other_cells: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the jobs of both tables in each cell that either has; parameters are as of `cell_variation`."""
    most = 1 + int(max(cells.max(initial=0), other_cells.max(initial=0)))
    if most <= _FEW_TO_KEEP * (cells.size + other_cells.size):
        counts = [np.bincount(values, minlength=most) for values in (cells, other_cells)]
        either = np.flatnonzero((counts[0] | counts[1]) != 0)
        return counts[0].take(either), counts[1].take(either)
    # Sorting is much faster than finding the inverse of numpy.unique, and that of narrow numbers the fastest.
    tagged: NDArray[Any] = np.concatenate([cells, other_cells]).astype("i4" if most < 2**30 else "i8") * 2
    tagged[cells.size :] += 1
    tagged.sort()
    cell = tagged >> 1
    first = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
    others = np.add.reduceat(tagged & 1, first, dtype=np.int64)
    return np.diff(np.append(first, tagged.size)) - others, others


def mean_commute(geography: Geography, work: npt.ArrayLike, homes: npt.ArrayLike) -> float:
    """Return the mean distance between home and work block centroids, in kilometres on the ellipsoid.

    Of workers who live in the geography: external zones have no place.
    """
    check_type(geography, Geography, "geography", "geo_data.read_crosswalk")
    return mean_km(commutes(geography, np.asarray(work), np.asarray(homes)))


def destination_commute_error(
    work: NDArray[np.int32],
    km: NDArray[np.float64],
    other_work: NDArray[np.int32],
    other_km: NDArray[np.float64],
) -> float:
    """Return the median over large destinations of the relative error of their mean commute.

    That is of |released mean / true mean - 1| over work blocks with at least 100 jobs; NaN without any. Means
    are over workers who live in the geography. The distances are those of `commutes`, the true jobs first.
    """
    blocks = 1 + int(max(work.max(initial=0), other_work.max(initial=0)))
    means = []
    for places, distances in ((work, km), (other_work, other_km)):
        placed = np.isfinite(distances)
        inside = np.bincount(places[placed], minlength=blocks)
        means.append(np.bincount(places[placed], distances[placed], blocks) / np.maximum(inside, 1))
    large = (np.bincount(work, minlength=blocks) >= _LARGE) & (means[0] > 0)
    return float(np.median(np.abs(means[1][large] / means[0][large] - 1))) if large.any() else float("nan")


def commutes(geography: Geography, work: NDArray[np.int32], homes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the kilometres between home and work of each job, block to block; NaN from external zones."""
    north, east = geography.latitude, geography.longitude
    if north.size**2 < work.size:  # every pair once, not every job
        pairs = distance_km(north[:, None], east[:, None], north, east)
        return pairs[homes, work]
    return distance_km(north[homes], east[homes], north[work], east[work])
