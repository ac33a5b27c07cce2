"""Decoarsening: a block inside its cell for every synthetic worker, by public weights."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synth.arrays import offsets_of, search_segments
from synth.plan import Domains
from synth.randomness import WordStream, uniform_below


@dataclass(frozen=True, eq=False)
class OriginShares:
    """Public integer shares of origin units, for every destination unit that the plan tells apart.

    A unit is a run of blocks. Units that a row does not list have no share in it.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_units,)
        First block of each unit, rising from 0.
    offsets : ndarray of int64, shape (n_rows + 1,)
        Row r stands at ``offsets[r]:offsets[r + 1]`` of `unit` and `share`.
    unit : ndarray of int32, shape (n_entries,)
        Units listed, rising inside a row.
    share : ndarray of int32, shape (n_entries,)
        Their shares, at least 1.
    row : ndarray of int32, shape (n_domains,)
        Row of each domain.
    """

    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    unit: NDArray[np.int32]
    share: NDArray[np.int32]
    row: NDArray[np.int32]

    def __repr__(self) -> str:
        rows, units = self.offsets.size - 1, self.starts.size
        return f"<OriginShares: {self.unit.size:,} in {rows:,} rows of {units:,} units>"

    def __post_init__(self) -> None:
        if self.starts.size == 0 or self.starts[0] != 0 or np.any(np.diff(self.starts) < 1):
            raise ValueError("units of origin shares must begin at block 0 and increase")
        if self.offsets[0] != 0 or np.any(np.diff(self.offsets) < 0) or self.offsets[-1] != self.unit.size:
            raise ValueError("the rows of origin shares do not match their offsets")
        if self.unit.shape != self.share.shape or (self.share.size and self.share.min() < 1):
            raise ValueError("every origin share must be at least 1")
        if self.unit.size and (self.unit.min() < 0 or self.unit.max() >= self.starts.size):
            raise ValueError("origin shares name an unknown unit")
        rises = np.diff(self.unit) > 0
        between = self.offsets[(self.offsets > 0) & (self.offsets < self.unit.size)]
        rises[between - 1] = True
        if not rises.all():
            raise ValueError("units must increase inside a row of origin shares")
        self._check_rows(self.row)

    @cached_property
    def _cumulative(self) -> NDArray[np.int64]:
        return offsets_of(self.share)

    def for_domains(self, row: NDArray[np.int32]) -> OriginShares:
        """Return the same shares for other domains, each with a row of them.

        They are as large as the plan: neither they nor their running total are there twice, or checked again.

        Parameters
        ----------
        row : ndarray of int32, shape (n_domains,)

        Raises
        ------
        ValueError
            If a domain names a row that there is not.
        """
        self._check_rows(row)
        other = copy(self)
        vars(other).update(row=row, _cumulative=self._cumulative, _units=self._units)
        return other

    def _check_rows(self, row: NDArray[np.int32]) -> None:
        if row.min() < 0 or row.max() >= self.offsets.size - 1:
            raise ValueError("a domain names an unknown row of origin shares")

    @cached_property
    def _units(self) -> NDArray[np.int32]:
        """The unit of each block up to the first one of the last unit."""
        lengths = np.diff(self.starts, append=self.starts[-1] + 1)
        return np.repeat(np.arange(self.starts.size, dtype=np.int32), lengths)

    def _unit_of(self, blocks: NDArray[np.integer]) -> NDArray[np.int32]:
        return self._units.take(blocks, mode="clip")

    def narrow(
        self,
        domain: NDArray[np.int32],
        first: NDArray[np.int64],
        stop: NDArray[np.int64],
        stream: WordStream,
        times: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw a unit of every cell that holds several, by their shares, exactly.

        Parameters
        ----------
        domain : ndarray of int32, shape (n,)
        first, stop : ndarray of int64, shape (n,)
            The blocks of each cell.
        stream : WordStream
        times : ndarray of int64, shape (n,), optional
            How often to draw from each cell, one after the other; by default once.

        Returns
        -------
        first, stop : ndarray of int64, shape (draws,)
            The blocks of the cell that lie in the drawn unit; the whole cell where it lies in one unit, or no
            unit of it has a share.
        """
        ends = np.append(self.starts[1:], np.iinfo(np.int64).max)
        low = self._unit_of(first)
        several = np.flatnonzero(stop > ends.take(low))
        high = self._unit_of(stop.take(several) - 1)
        row = self.row.take(domain.take(several))
        # The last entry before a row may be of any unit, and is not looked at: "none" is before the first.
        stretch = self.offsets.take(row) - 1, self.offsets[1:].take(row)
        before, last = (search_segments(self.unit, end, *stretch) for end in (low.take(several) - 1, high))
        begin = self._cumulative.take(before + 1)
        total = self._cumulative.take(last + 1) - begin
        if times is not None:  # all that is found of a cell is that of its draws
            again = np.repeat(np.arange(several.size), times[several])
            before, last, begin, total = before[again], last[again], begin[again], total[again]
            several = np.flatnonzero(np.repeat(stop > ends[low], times))
            first, stop = np.repeat(first, times), np.repeat(stop, times)
        some = total > 0
        if not some.any():
            return first, stop
        several = several[some]
        place = begin[some] + uniform_below(total[some], stream)
        unit = self.unit.take(search_segments(self._cumulative, place, before[some] + 1, last[some] + 1))
        first, stop = first.copy(), stop.copy()
        first[several] = np.maximum(first[several], self.starts[unit])
        stop[several] = np.minimum(stop[several], ends[unit])
        return first, stop


def cumulative_weights(weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the running total of weights before each block, and after the last.

    Parameters
    ----------
    weights : ndarray of int64, shape (n_blocks,)
        At least 1; their sum is below 2^63.

    Returns
    -------
    ndarray of int64, shape (n_blocks + 1,)
    """
    return offsets_of(weights)


def draw_blocks(
    domains: Domains,
    domain: NDArray[np.int32],
    cells: NDArray[np.int32],
    cumulative: NDArray[np.int64],
    shares: OriginShares,
    stream: WordStream,
    times: NDArray[np.int64] | None = None,
) -> NDArray[np.int32]:
    """Draw a block of each cell: first a unit of it by public shares, then a block of that by public weights.

    Lemma 18 of docs/privacy.md.

    It looks at drawn cells and public numbers only, so it costs no privacy.

    Parameters
    ----------
    domains : Domains
    domain, cells : ndarray of int32, shape (n,)
        Domain and cell (inside it) of each synthetic worker.
    cumulative : ndarray of int64, shape (n_blocks + 1,)
        Of the public weights (`cumulative_weights`), once for all calls.
    shares : OriginShares
    stream : WordStream
    times : ndarray of int64, shape (n,), optional
        How often to draw from each cell, one after the other; by default once. What is drawn is the same as
        if domains and cells came so often, in less time.

    Returns
    -------
    ndarray of int32, shape (draws,)
        Block numbers.
    """
    first, stop = shares.narrow(domain, *domains.bounds(domain, cells), stream, times)
    before = cumulative.take(first)
    place = before + uniform_below(cumulative.take(stop) - before, stream)
    return search_segments(cumulative, place, first, stop).astype(np.int32)


def block_chance(
    domains: Domains,
    domain: NDArray[np.int32],
    blocks: NDArray[np.int32],
    cumulative: NDArray[np.int64],
    shares: OriginShares,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the chance of a block among those of its cell and unit, from which `draw_blocks` draws last.

    Lemma 27 of docs/privacy.md.

    Parameters
    ----------
    domains : Domains
    domain, blocks : ndarray of int32, shape (n,)
        Domain and block of each synthetic worker.
    cumulative : ndarray of int64, shape (n_blocks + 1,)
        As for `draw_blocks`.
    shares : OriginShares

    Returns
    -------
    first : ndarray of int64, shape (n,)
        First block of the cell and unit: workers of one domain with the same are of one group.
    chance : ndarray of float64, shape (n,)
        In (0, 1].
    """
    first, stop = domains.bounds(domain, domains.locate(domain, blocks))
    unit = shares._unit_of(blocks)
    ends = np.append(shares.starts[1:], domains.n_blocks)
    first, stop = np.maximum(first, shares.starts[unit]), np.minimum(stop, ends[unit])
    weight = cumulative[blocks + 1] - cumulative[blocks]
    return first, weight / (cumulative[stop] - cumulative[first])
