"""The draws of one place: counts of its groups, homes inside their cells, and which of its rows has which."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.posterior._gamma import gamma as _gamma
from synth.posterior._gamma import log_rising as _log_rising
from synth.posterior.conditional import NOISE, Counts, draw_counts, scratch_for
from synth.posterior.ties import draw_factors

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]

# What a table that crosses places has: factors of rows, target counts, or factors of groups.
ROW, STEERED, GROUP = 0, 1, 2

_LEAST = 1e-9  # prior share of a cell of which nobody can be sure that it is empty
_NEXT = 1e-12  # the same of cells that lie together
_COUNTED = 8.0  # jobs up to which a rising factorial is multiplied out
_HUGE = 1e200  # a product that may be multiplied by one of these
_WIDEST = 1e3  # relative variance of a factor
_UNITS = 1 << 40  # added to numbers of units, which are no blocks
_SWEEPS = 6  # exchanges tried for each job that is given to a row
# Power of the odds of a steered table. Rows of a workplace are mostly of one kind, so exchanges move counts
# less than odds say: with 1, a sixth of how Rhode Island's residents by industry differ from the model stays.
_FIRM = 2


class Place(NamedTuple):
    """A place: the evidence of its groups, its cells, and its rows.

    Attributes
    ----------
    kind : int
    seen, parameter, retention : ndarray, shape (n_groups, n_cells)
        As `synth.posterior.evidence.Evidence` has them.
    guess : ndarray of int64, shape (n_groups, n_cells)
        About what the counts are.
    n : ndarray of int64, shape (n_groups,)
        Jobs.
    cell : ndarray of int32, shape (n_fine,)
        The groups' cell that each of the place's fine cells is part of.
    block : ndarray of int32, shape (n_fine,)
        First block of each fine cell.
    unit : ndarray of int64, shape (n_fine,)
        Its home unit, rising.
    area : ndarray of int64, shape (n_fine,)
        Its home area, rising from 0: groups are as far from the place as their homes by area are.
    row_n, row_group : ndarray of int64, shape (n_rows,)
        Jobs of the rows, and the group of each.
    """

    kind: int
    seen: Int64
    parameter: Float64
    retention: Float64
    guess: Int64
    n: Int64
    cell: Int32
    block: Int32
    unit: Int64
    area: Int64
    row_n: Int64
    row_group: Int64


class Concentrations(NamedTuple):
    """Concentrations of Dirichlet distributions.

    Attributes
    ----------
    place : float
        Of the place around what is expected in each draw; infinite if it is as expected.
    part : float
        Of parts around their place.
    group : ndarray of float64, shape (n_draws, n_groups)
        Of the only group around what is expected; of several groups those to begin with, shape (1, n_groups):
        they are changed, and drawn given their jobs.
    grid : ndarray of float64, shape (n_concentrations,)
        Those that a group of several may have.
    log_chance : ndarray of float64, shape (n_concentrations,)
    jobs : ndarray of float64, shape (n_concentrations,)
        To these are added the jobs of groups that had a concentration in a draw.
    """

    place: float
    part: float
    group: Float64
    grid: Float64
    log_chance: Float64
    jobs: Float64


class Parts(NamedTuple):
    """Parts of a place, such as work blocks, whose sums people read.

    Attributes
    ----------
    variance : ndarray of float64, shape (1 + n_parts,)
        Relative variance, by home unit, of the profile of each part, beside that of its concentration. Number
        0 is for rows that are in no part.
    key : ndarray of uint64, shape (1 + n_parts,)
        Of each part, in all places that it has rows in.
    member : ndarray of int64, shape (n_divisions, n_rows)
        The part that each row is in.
    """

    variance: Float64
    key: UInt64
    member: Int64


class Crossing(NamedTuple):
    """Tables whose groups lie in several places.

    Attributes
    ----------
    start, which : ndarray, shape (n_tables, n_rows)
    cell : ndarray of int32, shape (n_maps, n_fine)
        As `synth.geometric.measured.Layout` has them.
    factor : ndarray of float32, shape (n_draws, n_cells of all tables)
        Factors of the odds of rows or groups; of a steered table, the jobs that its cells still lack, from
        which those of this place are taken off.
    expected : ndarray of float64, shape (n_cells of all tables,)
        Jobs that this place and later ones are expected to give to steered tables.
    use : ndarray of int64, shape (n_tables,)
        `ROW`, `STEERED` or `GROUP`.
    """

    start: Int64
    which: Int32
    cell: Int32
    factor: Float32
    expected: Float64
    use: Int64


class _Slots(NamedTuple):
    """Where the jobs of each group stand among those of the place, and the row of each."""

    first: Int64  # of each group, and the end
    slot: Int64
    row: Int64
    rows: Int64  # how many each group has


class _Observed(NamedTuple):
    """The evidence of each group's cells that something was drawn of, and after them that of one more.

    Cells that nothing was drawn of are one: their evidence is the same whatever their counts are.
    """

    size: Int64
    cell: Int64
    seen: Int64
    parameter: Float64
    retention: Float64
    guess: Int64


class _Weights(NamedTuple):
    """What fine cells of a place weigh for a group: their profile times factors, the same inside a run."""

    below: Float64  # sums of the profile
    run: Int64  # of each fine cell, and the last one
    first: Int64  # fine cell of each run, and the end
    factor: Float64
    before: Float64  # what all runs before one weigh


class _Odds(NamedTuple):
    """Of the homes of rows: profiles of their parts, and factors and targets of tables that cross places."""

    member: Int64
    profile: Float64
    start: Int64
    which: Int32
    cell: Int32
    factor: Float32
    expected: Float64
    use: Int64


@_compiled
def _draw_prior_jobs(count, mass, random):  # type: ignore[no-untyped-def]
    """Draw how many of the jobs of a Dirichlet-multinomial cell came from its prior of that mass."""
    if count <= 1.0 or mass > 50.0 * count * count:
        return count
    jobs = 0.0
    for i in range(int(count)):
        if random.random() * (mass + i) < mass:
            jobs += 1.0
    return jobs


@_compiled
def _scramble(word):  # type: ignore[no-untyped-def]
    """Return a word that follows from this one and looks random (splitmix64; Steele, Lea and Flood 2014)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@_compiled
def _log_variance(variance):  # type: ignore[no-untyped-def]
    """Return the variance of the logarithm of a lognormal variable of this relative variance."""
    return math.log1p(min(variance, _WIDEST))


@_compiled
def _lognormal(variance, key, home, draw):  # type: ignore[no-untyped-def]
    """Return a lognormal variable of mean 1 that follows from a key, some homes and the number of a draw.

    So a part of several places has one profile in all of them, and none is kept.
    """
    if variance <= 0.0:
        return 1.0
    word = _scramble(_scramble(key ^ _scramble(np.uint64(home))) + np.uint64(draw))
    u = (float(word >> np.uint64(11)) + 0.5) * 2.0**-53
    v = float(_scramble(word + np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)) * 2.0**-53
    normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
    return max(math.exp(math.sqrt(variance) * normal - 0.5 * variance), 1e-6)


@_compiled
def _slots_of(place):  # type: ignore[no-untyped-def]
    rows, groups, jobs = place.row_n.size, place.n.size, place.n.sum()
    first_of_row = np.zeros(rows + 1, np.int64)
    for r in range(rows):
        first_of_row[r + 1] = first_of_row[r] + place.row_n[r]
    slot, row = np.empty(jobs, np.int64), np.empty(jobs, np.int64)
    first, several = np.zeros(groups + 1, np.int64), np.zeros(groups, np.int64)
    end = 0
    for g in range(groups):
        for r in range(rows):
            if place.row_group[r] == g:
                several[g] += 1
                for i in range(first_of_row[r], first_of_row[r + 1]):
                    slot[end] = i
                    row[end] = r
                    end += 1
        first[g + 1] = end
    return _Slots(first, slot, row, several)


@_compiled
def _observed_in(place):  # type: ignore[no-untyped-def]
    groups, wide = place.seen.shape
    size, cell = np.zeros(groups, np.int64), np.empty((groups, wide), np.int64)
    for g in range(groups):
        for c in range(wide):
            if place.kind == NOISE or place.seen[g, c] > 0:
                cell[g, size[g]] = c
                size[g] += 1
    most = size.max() + 1
    seen, guess = np.zeros((groups, most), np.int64), np.zeros((groups, most), np.int64)
    parameter, retention = np.ones((groups, most)), np.ones((groups, most))
    for g in range(groups):
        for i in range(size[g]):
            c = cell[g, i]
            seen[g, i], guess[g, i] = place.seen[g, c], place.guess[g, c]
            parameter[g, i], retention[g, i] = place.parameter[g, c], place.retention[g, c]
    return _Observed(size, cell, seen, parameter, retention, guess)


@_compiled
def _weights_of(place, crossing, tied):  # type: ignore[no-untyped-def]
    """Return weights of the runs of fine cells that no factors of groups tell apart."""
    fine = place.area.size
    breaks = np.zeros(fine + 1, np.bool_)
    breaks[0] = breaks[fine] = True
    if tied:
        for f in range(1, fine):
            breaks[f] = place.area[f] != place.area[f - 1]
    which, cell = crossing.which, crossing.cell
    for k in range(cell.shape[0]):
        divides = False
        for j in range(crossing.use.size):
            divides |= crossing.use[j] == GROUP and (which[j] == k).any()
        for f in range(1, fine if divides else 0):
            if cell[k, f] != cell[k, f - 1]:
                breaks[f] = True
    first = np.flatnonzero(breaks)
    runs = first.size - 1
    run = np.empty(fine + 1, np.int64)
    for r in range(runs):
        run[first[r] : first[r + 1]] = r
    run[fine] = runs - 1
    return _Weights(np.zeros(fine + 1), run, first, np.ones(runs), np.zeros(runs))


@_compiled
def _group_factor(crossing, draw, row, f):  # type: ignore[no-untyped-def]
    """Return the product of the factors that tables have for the group of a row, in a fine cell."""
    value = 1.0
    for j in range(crossing.use.size):
        if crossing.use[j] == GROUP:
            start, cell = crossing.start[j, row], crossing.cell[crossing.which[j, row], f]
            value *= crossing.factor[draw, start + cell]
    return value


@_compiled
def _set_factors(weights, crossing, ties, area, group, row, draw):  # type: ignore[no-untyped-def]
    """Set the factors of runs for a group; return what all fine cells weigh together."""
    below, _, first, factor, before = weights
    total = 0.0
    for r in range(factor.size):
        f = first[r]
        value = _group_factor(crossing, draw, row, f)
        if ties.kind.size:
            value *= ties.level[area[f]]
            for j in range(ties.member.shape[0]):
                if ties.member[j, group] >= 0:
                    value *= ties.factor[ties.member[j, group], area[f]]
        factor[r], before[r] = value, total
        total += value * (below[first[r + 1]] - below[f])
    return total


@_compiled
def _weight_below(f, weights):  # type: ignore[no-untyped-def]
    """Return what the fine cells below f weigh for a group."""
    r = weights.run[f]
    return weights.before[r] + weights.factor[r] * (weights.below[f] - weights.below[weights.first[r]])


@_compiled
def _cell_at(weight, begin, stop, weights):  # type: ignore[no-untyped-def]
    """Return that of the fine cells from begin on, below stop, that this weight falls into."""
    low, high = begin, stop - 1
    while low < high:
        middle = (low + high) // 2
        if _weight_below(middle + 1, weights) <= weight:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def _draw_urn(gaps, gap_weight, scale, weights, random, jobs):  # type: ignore[no-untyped-def]
    """Give jobs to the fine cells of some gaps, by a Polya urn; write the fine cell of each.

    Gaps begin and stop at fine cells; each has its part of the weights, which times `scale` are masses.
    """
    total = gap_weight.sum() * scale
    for i in range(jobs.size):
        u = random.random() * (total + i)
        if u >= total and i > 0:  # one more of a cell that was given one before
            jobs[i] = jobs[min(int(u - total), i - 1)]
            continue
        u, chosen = u / scale, -1
        for j in range(gap_weight.size):
            if gap_weight[j] > 0.0:
                chosen = j
                if u < gap_weight[j]:
                    break
                u -= gap_weight[j]
        begin, stop = gaps[chosen]
        jobs[i] = _cell_at(_weight_below(begin, weights) + u, begin, stop, weights)


@_compiled
def _draw_concentration(count, share, n, concentrations, random):  # type: ignore[no-untyped-def]
    """Draw the concentration of a group, by position, given its jobs where it has any, and their shares."""
    grid, logs = concentrations.grid, np.empty(concentrations.grid.size)
    for j in range(grid.size):
        logs[j] = concentrations.log_chance[j] - _log_rising(grid[j], n)
        product = 1.0
        for i in range(count.size):
            mass = max(grid[j] * share[i], _LEAST)
            if count[i] > _COUNTED:
                logs[j] += _log_rising(mass, count[i])
                continue
            for x in range(int(count[i])):
                product *= mass + x
            if not 1.0 / _HUGE < product < _HUGE:
                logs[j] += math.log(product)
                product = 1.0
        logs[j] += math.log(product)
    best, total = logs.max(), 0.0
    for j in range(grid.size):
        logs[j] = math.exp(logs[j] - best)
        total += logs[j]
    u, j = random.random() * total, 0
    while j < grid.size - 1 and u >= logs[j]:
        u -= logs[j]
        j += 1
    return j


@_compiled
def _odds_of(odds, row, f):  # type: ignore[no-untyped-def]
    """Return the odds of a fine cell for a row."""
    value = 1.0
    for q in range(odds.member.shape[0]):
        value *= odds.profile[odds.member[q, row], f]
    for k in range(odds.start.shape[0]):
        i = odds.start[k, row] + odds.cell[odds.which[k, row], f]
        if odds.use[k] == STEERED:
            lacking = min(20.0, max(0.05, (odds.factor[i] + 0.05) / (odds.expected[i] + 0.05)))
            value *= lacking**_FIRM
        else:
            value *= odds.factor[i]
    return value


@_compiled
def _exchange(homes, rows, odds, random):  # type: ignore[no-untyped-def]
    """Exchange the homes of jobs of a group, by the odds of their rows (Metropolis steps)."""
    current = np.empty(homes.size)
    for i in range(homes.size):
        current[i] = _odds_of(odds, rows[i], homes[i])
    for _ in range(_SWEEPS * homes.size):
        i, j = int(random.random() * homes.size), int(random.random() * homes.size)
        fi, fj, ri, rj = homes[i], homes[j], rows[i], rows[j]
        if fi != fj and ri != rj:
            first = _odds_of(odds, ri, fj)
            second = _odds_of(odds, rj, fi)
            if random.random() * current[i] * current[j] < first * second:
                homes[i], homes[j] = fj, fi
                current[i], current[j] = first, second


@_compiled
def _set_part_profiles(profile, place, parts, share, concentration, draw):  # type: ignore[no-untyped-def]
    """Draw the profiles of parts, around the place's, by home unit and fine cell."""
    fine = share.size
    of_fine = np.zeros(fine)
    for f in range(fine):
        of_fine[f] = _log_variance(1.0 / (concentration * share[f]))
    for p in range(1, parts.key.size):
        of_part, of_unit = _log_variance(parts.variance[p]), 1.0
        for f in range(fine):
            if f == 0 or place.unit[f] != place.unit[f - 1]:
                of_unit = _lognormal(of_part, parts.key[p], _UNITS + place.unit[f], draw)
            profile[p, f] = of_unit * _lognormal(of_fine[f], parts.key[p], place.block[f], draw)


@_compiled
def _set_guess(guess, n, counts):  # type: ignore[no-untyped-def]
    """Set counts near to the guess: windows left none to draw."""
    left = n
    for i in range(counts.size):
        counts[i] = min(max(guess[i], 0), left)
        left -= counts[i]
    counts[-1] += left


@_compiled
def draw_place(  # type: ignore[no-untyped-def]
    place, shares, concentrations, ties, parts, crossing, burn, random
):  # fmt: skip
    """Draw the home cells of the jobs of a place, again and again.

    Parameters
    ----------
    place : Place
    shares : ndarray of float64, shape (n_draws, n_fine)
        What is expected in each draw.
    concentrations : Concentrations
    ties : Ties
        Of the place, by its home areas. Draws go on from them.
    parts : Parts
    crossing : Crossing
    burn : int
        Draws of the place's profile that are thrown away first.
    random : numpy.random.Generator

    Returns
    -------
    jobs : ndarray of int32, shape (n_draws, n_jobs)
        Fine cells, row after row.
    failures : int
        Counts that could not be drawn.
    """
    (groups, wide), (draws, fine), n = place.seen.shape, shares.shape, place.n
    slots, observed = _slots_of(place), _observed_in(place)
    kinds = ties.member.shape[0] if ties.kind.size else 0
    weights = _weights_of(place, crossing, kinds > 0)
    below, run, run_first, factor = weights.below, weights.run, weights.first, weights.factor
    runs, total_jobs = factor.size, slots.slot.size
    profile = np.ones((parts.key.size, fine))
    of_rows = np.flatnonzero(crossing.use != GROUP)
    row_start, row_which = crossing.start[of_rows], crossing.which[of_rows]
    row_use = crossing.use[of_rows]
    begins = np.searchsorted(place.cell, np.arange(wide + 1))
    areas = place.area[fine - 1] + 1
    area_begins = np.searchsorted(place.area, np.arange(areas + 1))
    exposure, mass = np.zeros(runs), np.empty((groups if kinds else 0, areas))
    # Areas that a group has homes in, and how many it has in all.
    some, of_area = np.empty(areas, np.int64), np.zeros(areas)
    count, share = np.empty(areas), np.empty(areas)
    theta, from_prior, group_jobs = np.empty(fine), np.zeros(fine), np.zeros(fine)
    most = observed.seen.shape[1]
    scratch = scratch_for(wide, n.max())
    shape, counts = np.empty(most), np.empty(most, np.int64)
    gaps, gap_weight = np.empty((most, 2), np.int64), np.empty(most)
    one_gap, one_weight = np.empty((1, 2), np.int64), np.empty(1)
    homes, jobs = np.empty(total_jobs, np.int32), np.empty((draws, total_jobs), np.int32)
    tilts, several, failures = np.zeros(groups), groups > 1, 0
    kappas = concentrations.group[0]
    as_expected = not several or concentrations.place == np.inf
    for f in range(fine):
        theta[f] = max(shares[0, f], _LEAST)
    for d in range(-burn, draws):
        m = max(d, 0)
        if as_expected:
            for f in range(fine):
                theta[f] = max(shares[m, f], _LEAST)
        elif d > -burn:
            total = 0.0
            for f in range(fine):
                theta[f] = _gamma(concentrations.place * max(shares[m, f], _LEAST) + from_prior[f], random)
                theta[f] /= concentrations.place + exposure[run[f]]
                total += theta[f]
            for f in range(fine):
                theta[f] = max(theta[f] / total, 1e-12)
        for f in range(fine):
            below[f + 1] = below[f] + theta[f]
        if kinds and ties.group_jobs.sum() > 0.0:
            mass[:] = 0.0
            for g in range(groups):
                row = slots.row[slots.first[g]]
                for r in range(runs):
                    f = run_first[r]
                    value = _group_factor(crossing, m, row, f)
                    mass[g, place.area[f]] += value * (below[run_first[r + 1]] - below[f])
            draw_factors(ties, n, mass, random)
        ties.tie_jobs[:] = 0.0
        from_prior[:] = 0.0
        exposure[:] = 0.0
        if parts.key.size > 1:
            _set_part_profiles(profile, place, parts, theta, concentrations.part, m)
        for g in range(groups):
            begin, end = slots.first[g], slots.first[g + 1]
            kappa = kappas[g] if several else concentrations.group[m, g]
            normal = _set_factors(weights, crossing, ties, place.area, g, slots.row[begin], m)
            scale = kappa / normal
            # Shapes of the cells that were seen; what lies between them is one more.
            k, before_cell, unseen = observed.size[g], 0, 0.0
            for i in range(k):
                c = observed.cell[g, i]
                low, high = _weight_below(begins[c], weights), _weight_below(begins[c + 1], weights)
                shape[i] = max((high - low) * scale, _LEAST * kappa)
                gaps[i, 0], gaps[i, 1] = before_cell, begins[c]
                gap_weight[i] = 0.0
                if before_cell < begins[c]:
                    gap_weight[i] = max(low - _weight_below(before_cell, weights), _NEXT * normal)
                unseen += gap_weight[i]
                before_cell = begins[c + 1]
            gaps[k, 0], gaps[k, 1], gap_weight[k] = before_cell, fine, 0.0
            if before_cell < fine:
                gap_weight[k] = max(normal - _weight_below(before_cell, weights), _NEXT * normal)
            unseen += gap_weight[k]
            if k < wide:
                shape[k] = max(unseen * scale, _LEAST * kappa * (wide - k))
                k += 1
            cells = Counts(
                place.kind, observed.seen[g, :k], observed.parameter[g, :k], observed.retention[g, :k],
                shape[:k], observed.guess[g, :k],
            )  # fmt: skip
            done, tilts[g], scratch = draw_counts(
                cells, n[g] / (n[g] + kappa), n[g], tilts[g], scratch, random, counts[:k]
            )
            if not done:
                failures += 1
                _set_guess(cells.guess, n[g], counts[:k])
            stop = begin
            for i in range(k):
                if counts[i] == 0:
                    continue
                into = homes[stop : stop + counts[i]]
                stop += counts[i]
                if i == observed.size[g]:
                    _draw_urn(gaps[: i + 1], gap_weight[: i + 1], scale, weights, random, into)
                    continue
                c = observed.cell[g, i]
                if begins[c + 1] - begins[c] == 1:
                    into[:] = begins[c]
                else:
                    one_gap[0, 0], one_gap[0, 1] = begins[c], begins[c + 1]
                    one_weight[0] = _weight_below(begins[c + 1], weights) - _weight_below(begins[c], weights)
                    _draw_urn(one_gap, one_weight, scale, weights, random, into)
            if several:
                size = 0
                for i in range(begin, end):
                    a = place.area[homes[i]]
                    if of_area[a] == 0.0:
                        some[size] = a
                        size += 1
                    of_area[a] += 1.0
                for i in range(size):
                    a = some[i]
                    low = _weight_below(area_begins[a], weights)
                    share[i] = (_weight_below(area_begins[a + 1], weights) - low) / normal
                    count[i], of_area[a] = of_area[a], 0.0
                j = _draw_concentration(count[:size], share[:size], float(n[g]), concentrations, random)
                kappas[g] = concentrations.grid[j]
                concentrations.jobs[j] += n[g] if d >= 0 else 0.0
            tied = False
            for j in range(kinds):
                tied |= ties.member[j, g] >= 0
            if tied or not as_expected:
                of_group = 0.0
                for i in range(begin, end):
                    group_jobs[homes[i]] += 1.0
                for i in range(begin, end):
                    f = homes[i]
                    if group_jobs[f] > 0.0:
                        more = _draw_prior_jobs(group_jobs[f], theta[f] * factor[run[f]] * scale, random)
                        from_prior[f] += more
                        of_group += more
                        for j in range(kinds):
                            if ties.member[j, g] >= 0:
                                ties.tie_jobs[ties.member[j, g], place.area[f]] += more
                        group_jobs[f] = 0.0
                ties.group_jobs[g] = of_group
                # What the group's factors explain of its jobs is not the place's profile. Of Poisson numbers
                # of this exposure, drawn by chance, the numbers that came from it are multinomial.
                weight = _gamma(of_group, random) / normal
                for r in range(runs):
                    exposure[r] += weight * factor[r]
            # To rows: in random order, then exchanged by their odds.
            for i in range(end - begin - 1, 0, -1):
                j = int(random.random() * (i + 1))
                homes[begin + i], homes[begin + j] = homes[begin + j], homes[begin + i]
            if slots.rows[g] > 1 and d >= 0 and (parts.key.size > 1 or of_rows.size > 0):
                odds = _Odds(
                    parts.member, profile, row_start, row_which, crossing.cell, crossing.factor[m],
                    crossing.expected, row_use,
                )  # fmt: skip
                _exchange(homes[begin:end], slots.row[begin:end], odds, random)
        if d >= 0:
            for i in range(total_jobs):
                jobs[m, slots.slot[i]] = homes[i]
            for k in range(crossing.use.size):
                if crossing.use[k] == STEERED:
                    for i in range(total_jobs):
                        row = slots.row[i]
                        cell = crossing.cell[crossing.which[k, row], homes[i]]
                        crossing.factor[m, crossing.start[k, row] + cell] -= 1.0
    return jobs, failures
