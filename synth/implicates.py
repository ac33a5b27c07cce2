"""Posterior implicates: draws of all homes from what a release published and public numbers, as many as wanted.

A place's jobs have homes with a profile that is Dirichlet around what is expected of it, and each of its
groups one around the place's; of the counts of groups there is evidence (`Evidence`). What is expected is the
public model times **effects** that places, homes and attributes have in common: they are estimated on sums
of the published counts, and drawn anew for each implicate, so that sums over many areas vary as much as
they are uncertain. A group's jobs are then given to its rows (job groups) with odds that vary as the
measured profiles do. It costs no privacy: nothing here sees a confidential number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.conditional import (
    NOISE,
    URN,
    _backward,
    _forward,
    _independent,
    _solve,
    group_evidence,
)
from synth.measured import JobGroups, Layout, MeasuredTable, layouts
from synth.plan import Table
from synth.projection import offsets_of
from synth.randomness import WordStream

__all__ = ["Evidence", "Implicates"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_LEAST = 1e-9  # prior share of a cell of which nobody can be sure that it is empty
_GRID = 2.0 ** np.arange(0, 15)  # concentrations that are tried
_FLOORS = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1)  # shares of jobs that follow no profile
_TOLERANCE = 2.0
_SAMPLE = 200  # groups on which a concentration is measured
_EQUAL = 0.03
_BURN = 40  # draws of effects that are thrown away
_CHAIN = 4  # the same for profiles of places
_MANY = 16.0  # variance of a group's sum beyond which cells are drawn by themselves
_SWEEPS = 4  # exchanges tried for each job that is given to a row
_LARGE = 16.0  # a part has a profile of its own if it has more than one of so many parts of the concentration


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was published of the counts of a table's cells.

    Attributes
    ----------
    kind : int
        `synth.conditional.NOISE` or `URN`.
    seen : ndarray of int64, shape (n_cells,)
        Noisy counts, or draws.
    parameter : ndarray of float64, shape (n_cells,)
        p, or the prior a of the urn.
    keep : ndarray of float64, shape (n_cells,)
        Retention: the probability that a cell without jobs was in the urn.
    """

    kind: int
    seen: Int64
    parameter: Float64
    keep: Float64

    @classmethod
    def noise(cls, table: MeasuredTable, noisy: Int64) -> Evidence:
        """Return that of noisy counts."""
        return cls(NOISE, noisy, np.full(noisy.size, table.ratio), np.ones(noisy.size))

    @classmethod
    def urn(cls, drawn: Int64, prior: Float64, retention: Float64) -> Evidence:
        """Return that of resampled draws, given as counts in the cells of the pools."""
        return cls(URN, drawn, prior, retention)

    def unbiased(self, table: Table) -> tuple[Float64, Float64, Float64]:
        """Return estimates of the counts, their variance where a cell is empty, and what each job adds to it."""
        if self.kind == NOISE:
            p = self.parameter
            return self.seen.astype(np.float64), 2 * p / (1 - p) ** 2, np.zeros(p.size)
        size = np.repeat(table.n, table.k).astype(np.float64)
        total = size + np.repeat(np.add.reduceat(self.parameter * self.keep, table.offsets[:-1]), table.k)
        drawn = np.repeat(np.add.reduceat(self.seen, table.offsets[:-1]), table.k)
        unit = total / drawn * (1 + (drawn - 1) / (total + 1))
        return self.seen * total / drawn - self.parameter, self.parameter * unit, unit


@dataclass(eq=False)
class _Family:
    """Effects that cells have in common: the factor of expected counts, one number for each label."""

    label: Int64  # of every entry, or -1
    size: int
    scale: float = 0.3


class Implicates:
    """Posterior draws of the homes of every job, place by place.

    Parameters
    ----------
    tables : sequence of Table
        As for `synth.estimation.estimate`: measured ones first, of which the groups of the first lie in one
        place each; then kept ones, which name the sums that people will read.
    evidence : sequence of Evidence
        Of the measured tables. Those after the first are noisy counts.
    groups : JobGroups
    prior : callable
        `synth.estimation.Prior`.
    work_area : ndarray of int64, shape (n_places,)
        A larger area (a county) of each place, numbered from 0.
    home_area : ndarray of int32
        First block of every larger home area, rising from 0.
    draws : int
    stream : WordStream
    """

    def __init__(
        self,
        tables: Sequence[Table],
        evidence: Sequence[Evidence],
        groups: JobGroups,
        prior: Callable[[int, Int32], Float64],
        work_area: Int64,
        home_area: Int32,
        draws: int,
        stream: WordStream,
    ) -> None:
        self.tables, self.evidence, self.groups, self.draws = tables, evidence, groups, draws
        self.layouts: list[Layout] = layouts(tables, groups)
        seeds = stream.words(groups.n_places + 1)
        self._seeds = [int(word) for word in seeds]
        random = np.random.default_rng(self._seeds[-1])
        places = groups.place[groups.starts[:-1]].tolist()
        self._shares = [prior(p, one.cuts) for p, one in zip(places, self.layouts, strict=True)]
        self._shares = [share / share.sum() for share in self._shares]
        self._sizes = np.add.reduceat(groups.n, groups.starts[:-1]).astype(np.float64)
        self._own = [np.unique(groups.member[0, groups.rows(i)]) for i in range(groups.n_places)]
        first = tables[0]
        self._domain = [layout.cell[layout.which[0, 0]] for layout in self.layouts]
        self.chain = max(own.size for own in self._own) > 1
        # Sums of the first table by place, at its cells.
        flat, base, spread, extra, name = [], [], [], [], []
        value, variance, rise = evidence[0].unbiased(first)
        for share, cell, own in zip(self._shares, self._domain, self._own, strict=True):
            k = int(cell[-1]) + 1
            total, noise, each = np.zeros(k), np.zeros(k), np.zeros(k)
            for g in own[first.k[own] == k]:
                part = slice(first.offsets[g], first.offsets[g] + k)
                total += value[part]
                noise += variance[part]
                each += rise[part] * first.n[g]
            flat.append(total)
            spread.append(noise)
            extra.append(each / first.n[own].sum())
            base.append(np.bincount(cell, share, k))
        starts = [one.cuts[np.searchsorted(cell, np.arange(cell[-1] + 1))] for one, cell in zip(self.layouts, self._domain, strict=True)]
        self._bounds = offsets_of(np.array([one.size for one in flat]))
        y, noise, rise = np.concatenate(flat), np.concatenate(spread), np.concatenate(extra)
        place = np.repeat(np.arange(groups.n_places), np.diff(self._bounds))
        cuts = np.concatenate(starts)
        cells, home = np.unique(cuts, return_inverse=True)
        area = np.searchsorted(home_area, cuts, side="right") - 1
        n = self._sizes[place]
        share = np.concatenate(base)
        # What jobs that follow no profile follow: homes of all places together, and a part in equal shares.
        common = np.bincount(home, n * share, cells.size)
        common = (common / common.sum() + _EQUAL / cells.size)[home]
        self._common = common / np.bincount(place, common)[place]
        self._floor, k_public = self._measure_floor(share)
        share = (1 - self._floor) * share + self._floor * self._common
        width, wide = cells.size, home_area.size
        families = [
            _Family(home, width),
            _Family(work_area[place] * wide + area, (int(work_area.max()) + 1) * wide),
            _Family(work_area[place] * width + home, (int(work_area.max()) + 1) * width),
            _Family(place * wide + area, groups.n_places * wide),
        ]
        self._home, self._area, self._place = home, area, place
        effects, mean = _effects(y, noise, rise, n * share, n, place, k_public, families, draws, random)
        self._effects, self._families = effects, families
        self._scale = families[0].scale
        self.k_public = k_public
        self._expected = n * share
        self._measure_concentrations(y, noise, rise, mean, n, random)
        self._set_crossing(mean / n, random)

    # -- concentrations -------------------------------------------------------------------------------------

    def _log_likelihood(self, profiles: Callable[[int], Float64], concentration: float, sample: Int64) -> float:
        table, seen = self.tables[0], self.evidence[0]
        total = 0.0
        for i in sample.tolist():
            own = self._own[i]
            g = own[int(np.searchsorted(np.cumsum(table.n[own]), table.n[own].sum() / 2))]
            part = slice(table.offsets[g], table.offsets[g + 1])
            profile = profiles(i)
            if profile.size != table.k[g]:
                continue
            scale = table.n[g] / max(1, seen.seen[part].sum())
            total += group_evidence(
                seen.kind, seen.seen[part], seen.parameter[part], seen.keep[part], profile * table.n[g],
                int(table.n[g]), concentration, scale,
            )  # fmt: skip
        return total

    def _sample(self) -> Int64:
        at = (np.arange(_SAMPLE) + 0.5) / _SAMPLE * self._sizes.sum()
        return np.unique(np.searchsorted(np.cumsum(self._sizes), at, side="right"))

    def _measure_floor(self, share: Float64) -> tuple[float, float]:
        """Find how many jobs follow no profile, and the concentration around the public model."""
        parts, common = (np.split(one, self._bounds[1:-1]) for one in (share, self._common))
        best = (-np.inf, _FLOORS[0], 1.0)
        for floor in _FLOORS:
            for concentration in _GRID[4:].tolist():
                found = self._log_likelihood(
                    lambda i, f=floor: (1 - f) * parts[i] + f * common[i], concentration, self._sample()
                )
                best = max(best, (found, floor, concentration))
        return best[1], best[2]

    def _measure_concentrations(self, y: Float64, noise: Float64, rise: Float64, mean: Float64, n: Float64, random: np.random.Generator) -> None:
        """Find the concentrations of places around what is expected, and of groups around their place."""
        # Around a draw of the effects, not their mean, which has been fitted to the same counts.
        mean = _scaled(mean * 0 + self._expected, self._families, [e[-1].astype(np.float64) for e in self._effects], n, self._place)
        if not self.chain:
            parts = np.split(mean / n, self._bounds[1:-1])
            self.k_place = self.k_group = _likely([self._log_likelihood(lambda i: parts[i], c, self._sample()) for c in _GRID.tolist()])
            return
        found = []
        for c in _GRID.tolist():
            spread = _spread(mean, n, c) + noise + rise * mean
            found.append(float(-0.5 * (np.log(spread) + (y - mean) ** 2 / spread).sum()))
        self.k_place = _likely(found)
        tau = _spread(mean, n, self.k_place)
        noise = noise + rise * mean
        best = mean + tau / (tau + noise) * (y - mean)
        best += np.sqrt(tau * noise / (tau + noise)) * random.standard_normal(best.size)
        best = np.maximum(best, 1e-2 * mean)
        parts = [one / one.sum() for one in np.split(best, self._bounds[1:-1])]
        self.k_group = _likely([self._log_likelihood(lambda i: parts[i], c, self._sample()) for c in _GRID.tolist()])

    # -- tables that cross places ---------------------------------------------------------------------------

    def _set_crossing(self, profile: Float64, random: np.random.Generator) -> None:
        """Prepare factors of the odds of rows, for every table whose groups lie in several places."""
        groups, tables = self.groups, self.tables
        measured = [k for k in range(1, len(self.evidence))]
        crossing, self._parts = [], []
        for k in range(1, len(tables)):
            if not _is_function(groups.member[k], groups.place):
                if k in measured or not any(_is_function(groups.member[k], groups.member[j]) for j in measured):
                    crossing.append(k)
            elif not _is_function(groups.member[0], groups.member[k]) and not _is_function(groups.place, groups.member[k]):
                self._parts.append(k)
        # Parts that are the same rows are one.
        self._crossing = crossing
        sizes = [int(tables[k].offsets[-1]) for k in crossing]
        self._begin = offsets_of(np.array(sizes, np.int64))
        self._rest = np.zeros(int(self._begin[-1]))
        for i in range(groups.n_places):
            self._expect(i, profile, self._rest, 1.0)
        self._profile = profile
        self._factor = np.ones((self.draws, self._rest.size), np.float32)
        self._steered = np.zeros(len(crossing), np.int64)
        for j, k in enumerate(crossing):
            part = slice(int(self._begin[j]), int(self._begin[j + 1]))
            expected = self._rest[part]
            table = tables[k]
            n = np.repeat(table.n, table.k).astype(np.float64)
            if k in measured:
                self._steered[j] = 1
                p = self.evidence[k].parameter
                y, noise = self.evidence[k].seen.astype(np.float64), 2 * p / (1 - p) ** 2
                family = _Family(np.arange(y.size), y.size)
                own = np.repeat(np.arange(table.n.size), table.k)
                effects, _ = _effects(
                    y, noise, np.zeros(y.size), expected, n, own, 1e9, [family], self.draws, random
                )
                chance = np.maximum(expected * (1 - expected / n), 1e-9)
                for m in range(self.draws):
                    about = expected * effects[0][m]
                    middle = (y * chance + about * noise) / (chance + noise)
                    x = middle + np.sqrt(chance * noise / (chance + noise)) * random.standard_normal(y.size)
                    x = np.maximum(x, 0.02 * expected)
                    self._factor[m, part] = x * (table.n / np.add.reduceat(x, table.offsets[:-1])).repeat(table.k)
            else:
                shape = 1 / self._scale**2
                self._factor[:, part] = random.gamma(shape, 1 / shape, (self.draws, y_size(part)))

    def _expect(self, i: int, profile: Float64, total: Float64, sign: float) -> None:
        """Add what is expected of the rows of a place to the cells of crossing tables."""
        layout, rows = self.layouts[i], self.groups.rows(i)
        own = profile[self._bounds[i] : self._bounds[i + 1]]
        share = self._shares[i] + 1e-12
        cell = self._domain[i]
        share = share * (own / np.bincount(cell, share))[cell]
        for j, k in enumerate(self._crossing):
            starts = layout.start[k] + self._begin[j]
            for start, which in {(int(s), int(w)) for s, w in zip(starts, layout.which[k], strict=True)}:
                n = self.groups.n[rows][starts == start].sum()
                np.add.at(total, start + layout.cell[which], sign * n * share)

    # -- draws ----------------------------------------------------------------------------------------------

    def place(self, i: int) -> Int32:
        """Return the home cells of the jobs of a place in every draw; places come in order, each once.

        Returns
        -------
        ndarray of int32, shape (n_draws, jobs of the place)
            Cells of the place's layout, row after row, in random order inside each.
        """
        layout, own, table, seen = self.layouts[i], self._own[i], self.tables[0], self.evidence[0]
        rows = self.groups.rows(i)
        random = np.random.default_rng(self._seeds[i])
        n = self.groups.n[rows]
        group = np.searchsorted(own, self.groups.member[0, rows])
        shares = self._drawn_shares(i, random)
        offsets = offsets_of(table.k[own])
        at = np.concatenate([np.arange(table.offsets[g], table.offsets[g + 1]) for g in own])
        cell = np.stack([layout.cell[layout.which[0, int(np.argmax(group == g))]] for g in range(own.size)])
        seen_of_group = np.add.reduceat(seen.seen[at], offsets[:-1])
        scale = np.ones(own.size) if seen.kind == NOISE else table.n[own] / np.maximum(1, seen_of_group)
        guess = np.rint(seen.seen[at] * np.repeat(scale, np.diff(offsets))).astype(np.int64)
        parts = []
        for k in self._parts:
            label = np.unique(self.groups.member[k, rows], return_inverse=True)[1]
            if label.max() and not any(np.array_equal(label, one) for one in parts):
                parts.append(label)
        jobs = np.empty((self.draws, int(n.sum())), np.int32)
        crossing = np.array(self._crossing, np.int64)
        self.failures = _draw_place(
            seen.kind, seen.seen[at], seen.parameter[at], seen.keep[at], guess, offsets, table.n[own], cell,
            shares, n, group.astype(np.int64), self.k_place, self.k_group, self.k_public,
            np.array(parts, np.int64).reshape(len(parts), n.size),
            layout.start[crossing] + self._begin[:-1, np.newaxis], layout.which[crossing], layout.cell,
            self._factor, self._rest, self._steered, _CHAIN if own.size > 1 else 0, random, jobs,
        )  # fmt: skip
        self._expect(i, self._profile, self._rest, -1.0)
        return jobs

    def _drawn_shares(self, i: int, random: np.random.Generator) -> Float64:
        """Return what is expected of a place in every draw, shape (n_draws, n_cells of the layout)."""
        cell, share = self._domain[i], self._shares[i]
        part = slice(self._bounds[i], self._bounds[i + 1])
        k = int(cell[-1]) + 1
        coarse = np.bincount(cell, share, k)
        inside = np.divide(share, coarse[cell], out=1 / np.bincount(cell)[cell], where=coarse[cell] > 0)
        coarse = (1 - self._floor) * coarse + self._floor * self._common[part]
        drawn = np.ones((self.draws, k))
        for family, effect in zip(self._families, self._effects, strict=True):
            drawn *= effect[:, family.label[part]]
        drawn *= coarse
        drawn /= drawn.sum(axis=1, keepdims=True)
        if cell.size > k:
            # Homes inside a cell: nobody measured them, and what they have in common is as uncertain as cells are.
            fine = self._fine(self.layouts[i].cuts)
            weighted = inside * fine
            total = np.stack([np.bincount(cell, one, k) for one in weighted])
            return drawn[:, cell] * weighted / total[:, cell]
        return drawn[:, cell]

    def _fine(self, cuts: Int32) -> Float64:
        """Return effects of fine cells that all places have in common, from the number of their first block."""
        if not hasattr(self, "_of_block"):
            every = np.unique(np.concatenate([layout.cuts for layout in self.layouts]))
            shape = 1 / self._scale**2
            random = np.random.default_rng([self._seeds[-1], 1])
            self._of_block = every, random.gamma(shape, 1 / shape, (self.draws, every.size))
        every, effect = self._of_block
        return effect[:, np.searchsorted(every, cuts)]


def _likely(logs: list[float]) -> float:
    """Return the smallest concentration of the grid that is not much less likely than the best."""
    best = max(logs)
    return float(_GRID[next(i for i, one in enumerate(logs) if one > best - _TOLERANCE)])


def y_size(part: slice) -> int:
    return part.stop - part.start


def _is_function(label: Int32, of: Int32) -> bool:
    """Say whether rows that agree in `of` agree in `label`."""
    pairs = np.unique(np.stack([of, label]), axis=1).shape[1]
    return bool(pairs == np.unique(of).size)


def _spread(mean: Float64, n: Float64, concentration: float) -> Float64:
    """Return the variance of Dirichlet-multinomial counts."""
    mean = np.maximum(mean, 1e-9)
    return mean * np.maximum(1 - mean / n, 1e-3) * (n + concentration) / (1 + concentration)


def _effects(
    y: Float64, noise: Float64, rise: Float64, expected: Float64, n: Float64, owner: Int64, concentration: float,
    families: list[_Family], draws: int, random: np.random.Generator,
) -> tuple[list[Float32], Float64]:  # fmt: skip
    """Draw effects from their posterior given sums with about normal errors, family after family (Gibbs).

    Returns
    -------
    effects : list of ndarray of float32, shape (n_draws, family size)
    mean : ndarray of float64, shape (n_entries,)
        Expected counts, with effects, in the mean of the draws; they add up to n for each owner.
    """
    values = [np.ones(family.size) for family in families]
    result = [np.empty((draws, family.size), np.float32) for family in families]
    mean = np.zeros(y.size)
    for turn in range(-_BURN, draws):
        for family, value in zip(families, values, strict=True):
            now = _scaled(expected, families, values, n, owner)
            spread = _spread(now, n, concentration) + noise + rise * now
            base = now / value[family.label]
            known = np.bincount(family.label, base * base / spread, family.size)
            wanted = np.bincount(family.label, base * y / spread, family.size)
            total = np.bincount(family.label, base, family.size)
            prior = 1 / (family.scale**2 + 1 / np.maximum(total, 1.0))
            # Gamma of the same mean and variance: a normal one that is cut off at 0 would be too large in the mean.
            middle = np.maximum((wanted + prior) / (known + prior), 0.02)
            shape = middle**2 * (known + prior)
            value[:] = np.maximum(random.standard_gamma(shape) * middle / shape, 1e-3)
            if turn < 0:
                weight = known / (known + 1 / family.scale**2)
                found = (weight * (value - 1) ** 2).sum() / max(weight.sum(), 1e-9)
                family.scale = float(np.sqrt(min(4.0, max(1e-4, found))))
        if turn >= 0:
            for kept, value in zip(result, values, strict=True):
                kept[turn] = value
            mean += _scaled(expected, families, values, n, owner)
    return result, mean / draws


def _scaled(
    expected: Float64, families: list[_Family], values: list[Float64], n: Float64, owner: Int64
) -> Float64:
    now = expected.copy()
    for family, value in zip(families, values, strict=True):
        now *= value[family.label]
    total = np.bincount(owner, now)
    return now * (n / total[owner])


@_compiled
def _tables_of(count, mass, random):  # type: ignore[no-untyped-def]
    """Draw how many of the jobs of a Dirichlet-multinomial cell came from its prior of that mass."""
    if count <= 1.0 or mass > 50.0 * count * count:
        return count
    tables = 0.0
    for i in range(int(count)):
        if random.random() * (mass + i) < mass:
            tables += 1.0
    return tables


@_compiled
def _split(count, mass, first, stop, random, own, jobs, at):  # type: ignore[no-untyped-def]
    """Give the jobs of a coarse cell to its fine ones, by a Polya urn; write the fine cell of each."""
    total = 0.0
    for f in range(first, stop):
        total += mass[f] + own[f]
    for _ in range(count):
        u = random.random() * total
        chosen = stop - 1
        for f in range(first, stop):
            u -= mass[f] + own[f]
            if u < 0.0:
                chosen = f
                break
        own[chosen] += 1.0
        total += 1.0
        jobs[at] = chosen
        at += 1
    return at


@_compiled
def _odds(row, f, part, own, start, which, cell, factor, rest, steered):  # type: ignore[no-untyped-def]
    value = 1.0
    for q in range(part.shape[0]):
        value *= own[part[q, row], f]
    for k in range(start.shape[0]):
        at = start[k, row] + cell[which[k, row], f]
        if steered[k]:
            value *= min(20.0, max(0.05, (factor[at] + 0.05) / (rest[at] + 0.05)))
        else:
            value *= factor[at]
    return value


@_compiled
def _draw_place(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, guess, offsets, n, cell, shares, n_rows, group, k_place, k_group, k_public, parts,
    start, which, maps, factor, rest, steered, burn, random, jobs,
):  # fmt: skip
    groups, fine, draws, rows = n.size, shares.shape[1], jobs.shape[0], n_rows.size
    widest, largest, total_jobs = 0, 0, 0
    for g in range(groups):
        widest = max(widest, offsets[g + 1] - offsets[g])
        largest = max(largest, n[g])
        total_jobs += n[g]
    out = np.empty(2 * min(largest, 2**15) + 64)
    flat, table = np.empty(64 * widest + 1024), np.empty(64 * widest + 1024)
    lows, starts = np.empty(widest, np.int64), np.empty(widest + 1, np.int64)
    begin, stop, first = np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64)
    shape, counts = np.empty(widest), np.empty(widest, np.int64)
    theta, mass, own = np.empty(fine), np.empty(fine), np.zeros(fine)
    tables, tilts = np.zeros(fine), np.zeros(groups)
    drawn = np.empty(total_jobs, np.int32)
    # Where the jobs of each row stand, and the slots of each group.
    first_slot = np.zeros(rows + 1, np.int64)
    for r in range(rows):
        first_slot[r + 1] = first_slot[r] + n_rows[r]
    row_of = np.empty(total_jobs, np.int64)
    slot, slots = np.empty(total_jobs, np.int64), np.zeros(groups + 1, np.int64)
    several = np.zeros(groups, np.int64)
    at = 0
    for g in range(groups):
        for r in range(rows):
            if group[r] == g:
                several[g] += 1
                for i in range(first_slot[r], first_slot[r + 1]):
                    slot[at] = i
                    row_of[at] = r
                    at += 1
        slots[g + 1] = at
    # Parts of the place with profiles of their own: number 0 has none.
    part, at = np.zeros(parts.shape, np.int64), 1
    for q in range(parts.shape[0]):
        size = np.zeros(parts[q].max() + 1)
        for r in range(rows):
            size[parts[q, r]] += n_rows[r]
        number = np.zeros(size.size, np.int64)
        for j in range(size.size):
            if size[j] * _LARGE > k_public:
                number[j] = at
                at += 1
        for r in range(rows):
            part[q, r] = number[parts[q, r]]
    profile = np.ones((at, fine))
    chain = groups > 1
    kappa = k_group if chain else k_place
    failures = 0
    odd = start.shape[0] > 0 or at > 1
    group_odds = np.ones(fine)
    for f in range(fine):
        theta[f] = max(shares[0, f], _LEAST)
    if chain:
        # The first profile: what is expected, and the counts that were seen.
        total = 0.0
        for g in range(groups):
            for f in range(fine):
                c = offsets[g] + cell[g, f]
                inside = 0.0
                if seen[c] > 0:
                    inside = min(guess[c], n[g]) * 0.5
                tables[f] += inside * shares[0, f]
        for f in range(fine):
            theta[f] = k_place * max(shares[0, f], _LEAST)
            total += theta[f]
        for f in range(fine):
            theta[f] /= total
        tables[:] = 0.0
    for d in range(-burn, draws):
        m = max(d, 0)
        at = 0
        if not chain:
            for f in range(fine):
                theta[f] = max(shares[m, f], _LEAST)
        tables[:] = 0.0
        for p in range(1, profile.shape[0]):
            for f in range(fine):
                mean = max(k_public * theta[f], 1e-3)
                profile[p, f] = max(random.standard_gamma(mean) / mean, 1e-6)
        for g in range(groups):
            a, b = offsets[g], offsets[g + 1]
            k = b - a
            shape[:k] = 0.0
            for f in range(fine):
                shape[cell[g, f]] += kappa * theta[f]
            for c in range(k):
                shape[c] = max(shape[c], _LEAST * kappa)
            odds = n[g] / (n[g] + kappa)
            tilt, mean, spread = 0.0, 0.0, -1.0
            while spread < 0.0:
                tilt, mean, spread = _solve(
                    kind, seen[a:b], par[a:b], keep[a:b], shape[:k], odds, n[g], guess[a:b], tilts[g],
                    lows[:k], starts[: k + 1], flat, out,
                )  # fmt: skip
                if spread < 0.0:
                    flat = np.empty(2 * flat.size)
            tilts[g] = tilt
            done = False
            if spread > _MANY:
                done = _independent(lows[:k], starts[: k + 1], flat, n[g], spread, random, counts)
            else:
                while not _forward(
                    lows[:k], starts[: k + 1], flat, n[g], mean, spread, begin, stop, first, table
                ):
                    table = np.empty(2 * table.size)
                done = _backward(
                    lows[:k], starts[: k + 1], flat, n[g], begin, stop, first, table, random, counts
                )
            if not done:
                failures += 1
                left = n[g]
                for c in range(k):
                    counts[c] = min(max(guess[a + c], 0), left)
                    left -= counts[c]
                counts[k - 1] += left
            f, before = 0, at
            for f in range(fine):
                mass[f] = kappa * theta[f]
            f = 0
            for c in range(k):
                f_first = f
                while f < fine and cell[g, f] == c:
                    f += 1
                if counts[c] == 0:
                    continue
                if f - f_first == 1:
                    for _ in range(counts[c]):
                        drawn[at] = f_first
                        at += 1
                    own[f_first] = counts[c]
                else:
                    at = _split(counts[c], mass, f_first, f, random, own, drawn, at)
            for i in range(before, at):
                if chain and own[drawn[i]] > 0.0:
                    tables[drawn[i]] += _tables_of(own[drawn[i]], mass[drawn[i]], random)
                own[drawn[i]] = 0.0
            # To rows: in random order, then exchanged by their odds.
            size = at - before
            for i in range(size - 1, 0, -1):
                j = int(random.random() * (i + 1))
                drawn[before + i], drawn[before + j] = drawn[before + j], drawn[before + i]
            if odd and several[g] > 1 and d >= 0:
                for _ in range(_SWEEPS * size):
                    i = before + int(random.random() * size)
                    j = before + int(random.random() * size)
                    fi, fj, ri, rj = drawn[i], drawn[j], row_of[i], row_of[j]
                    if fi == fj or ri == rj:
                        continue
                    now = _odds(ri, fi, part, profile, start, which, maps, factor[m], rest, steered)
                    now *= _odds(rj, fj, part, profile, start, which, maps, factor[m], rest, steered)
                    new = _odds(ri, fj, part, profile, start, which, maps, factor[m], rest, steered)
                    new *= _odds(rj, fi, part, profile, start, which, maps, factor[m], rest, steered)
                    if random.random() * now < new:
                        drawn[i], drawn[j] = fj, fi
        if d >= 0:
            for i in range(total_jobs):
                jobs[m, slot[i]] = drawn[i]
            for k in range(start.shape[0]):
                if steered[k]:
                    for i in range(total_jobs):
                        r = row_of[i]
                        factor[m, start[k, r] + maps[which[k, r], drawn[i]]] -= 1.0
        if chain:
            total = 0.0
            for f in range(fine):
                theta[f] = max(random.standard_gamma(k_place * max(shares[m, f], _LEAST) + tables[f]), 1e-300)
                total += theta[f]
            for f in range(fine):
                theta[f] = max(theta[f] / total, 1e-12)
    return failures
