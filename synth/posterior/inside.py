"""Factors inside cells: draws of what homes there have in common, of which sums of cells tell nothing.

A place may have cells of which several fine ones are part: of several units, or of parts of a unit. How its
jobs divide among these nothing says but the public model, from which they are as far as those that sums tell
apart: by home, by larger area of workplaces and home, by the unit that a place is part of, and by place.
What is drawn for several places together is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.posterior.effects import OTHER, OUTSIDE, SAME, Family

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Homes:
    """The fine cells of all places, and what they are part of.

    Attributes
    ----------
    first : ndarray of int32, shape (n,)
        First block of each, rising.
    unit, area : ndarray of int64, shape (n,)
        Unit, and larger area, of each, rising.
    outside : ndarray of bool, shape (n,)
        Whether it is a zone outside the region.
    unit_width, area_width : int
        Larger than numbers of units, and of areas, in families: a label of these is the number of a group of
        places times this, and that of a unit or an area.
    """

    first: Int32
    unit: Int64
    area: Int64
    outside: NDArray[np.bool_]
    unit_width: int
    area_width: int

    def strata(self, some: Int64, work_area: int | None = None) -> Int64:
        """Return the strata of some of them, by larger area of the workplace, or of any."""
        return strata(self.outside[some], work_area is None or self.area[some] == work_area)


class Together(NamedTuple):
    """Places that have factors in common.

    Attributes
    ----------
    group : ndarray of int64, shape (n_places,)
        Rising. Places of a group have the same ones.
    of_areas : sequence of Family
        Of the group by larger area of homes.
    of_units : sequence of Family
        Of the group by unit.
    of_cells : sequence of Family
        Those by which fine cells of a unit differ, too, as cells of as many jobs do.
    near : bool
        Whether homes in the larger area of the workplace are told apart: all places of a group are in one.
    """

    group: Int64
    of_areas: Sequence[Family]
    of_units: Sequence[Family]
    of_cells: Sequence[Family]
    near: bool = True


class Inside:
    """Draws of factors of fine cells, which begin at `cuts` in each place; places lie in larger areas."""

    def __init__(
        self,
        homes: Homes,
        cuts: Sequence[Int32],
        work_area: Int64,
        together: Sequence[Together],
        seed: int,
        draws: int,
    ) -> None:
        self._homes, self._cuts, self._work_area = homes, cuts, work_area
        self._together, self._seed, self._draws = together, seed, draws
        self._last: dict[int, tuple[int, Int64, Float32]] = {}

    def units(self, position: int) -> Int64:
        """Return the home unit of each fine cell of a place, rising."""
        return self._homes.unit[np.searchsorted(self._homes.first, self._cuts[position])]

    def weights(self, position: int, some: Int64, expected: Callable[[int], Float64]) -> Float32:
        """Return what homes of some fine cells of a place are in proportion to, beside the public model.

        Shape (n_draws, n_some). `expected` gives the jobs of the model in each fine cell of a place. Places
        mostly come in order: what those of a group have in common is kept until the next one.
        """
        number = np.searchsorted(self._homes.first, self._cuts[position][some])
        weight = np.ones((self._draws, number.size), np.float32)
        for i, level in enumerate(self._together):
            group = int(level.group[position])
            if i not in self._last or self._last[i][0] != group:
                self._last[i] = group, *self._draw(i, group, expected)
            _, cells, factor = self._last[i]
            _multiply(weight, factor, np.searchsorted(cells, number))
        return weight

    def _draw(self, i: int, group: int, jobs_of: Callable[[int], Float64]) -> tuple[Int64, Float32]:
        """Draw the factors that the places of a group have in common; return their fine cells and these."""
        homes, level = self._homes, self._together[i]
        places = range(*np.searchsorted(level.group, [group, group + 1]).tolist())
        cells, jobs = np.searchsorted(homes.first, self._cuts[places[0]]), jobs_of(places[0])
        if len(places) > 1:
            expected, used = np.zeros(homes.first.size), np.zeros(homes.first.size, np.bool_)
            for place in places:
                number = np.searchsorted(homes.first, self._cuts[place])
                expected[number] += jobs_of(place)
                used[number] = True
            cells = np.flatnonzero(used)
            jobs = expected[cells]
        stratum = homes.strata(cells, int(self._work_area[places[0]]) if level.near else None)
        random = np.random.default_rng([self._seed, i + 1, group])  # a word of 0 would change nothing
        factor = np.ones((self._draws, cells.size), np.float32)

        def multiply(families: Sequence[Family], label: Int64, width: int) -> Int64:
            first = np.flatnonzero(np.append(True, np.diff(label) > 0))
            times = np.diff(np.append(first, label.size))
            labels = group * width + label[first], np.add.reduceat(jobs, first), stratum[first], random
            for family in families:
                _multiply(factor, family.factors_of(*labels), np.repeat(np.arange(first.size), times))
            return np.repeat(times, times)

        multiply(level.of_areas, homes.area[cells], homes.area_width)
        finer = np.flatnonzero(multiply(level.of_units, homes.unit[cells], homes.unit_width) > 1)
        for family in level.of_cells:
            factor[:, finer] *= family.unknown(jobs[finer], stratum[finer], random)
        return cells, factor


def strata(outside: NDArray[np.bool_], same: NDArray[np.bool_] | bool = True) -> Int64:
    """Return the strata of homes: outside the region, in the larger area of their workplace, or neither."""
    return np.where(outside, OUTSIDE, np.where(same, SAME, OTHER))


@_compiled
def _multiply(values, factor, number):  # type: ignore[no-untyped-def]
    """Multiply values by factors, by draw and number."""
    for d in range(values.shape[0]):
        for i in range(values.shape[1]):
            values[d, i] *= factor[d, number[i]]
