"""The draws of one place: counts of its groups, homes inside their cells, and which of its rows has which."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import offsets_of
from synth.posterior._gamma import gamma as _gamma
from synth.posterior._gamma import log_rising as _log_rising
from synth.posterior.evidence import GAUSSIAN, GEOMETRIC, Counts, draw_counts, scratch_for
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
    """A place: the evidence of its groups, its fine cells, and its jobs.

    Attributes
    ----------
    kind : int
    size : ndarray of int64, shape (n_groups,)
        Of how many cells of each group there is evidence of their own: those drawn from; those with a noisy
        count above 0; with noise that is not geometric, all.
    observed : ndarray of int64, shape (n_groups, n_observed)
        These cells, rising.
    seen, parameter, retention : ndarray, shape (n_groups, n_observed)
        Evidence of these (`synth.posterior.evidence.Evidence`). The other cells are one after them, as their
        evidence is about their sum: nothing was drawn of them; or, where a noisy count is 0 or less, each job
        is less likely by the same factor p, and negative binomial counts with the same odds add up to one.
    guess : ndarray of int64, shape (n_groups, n_observed)
        About what the counts are.
    n, rows : ndarray of int64, shape (n_groups,)
        Jobs, and rows that these are of.
    cell : ndarray of int32, shape (n_fine,)
        The groups' cell that each of the place's fine cells is part of.
    block : ndarray of int32, shape (n_fine,)
        First block of each fine cell.
    unit : ndarray of int64, shape (n_fine,)
        Its home unit, rising.
    area : ndarray of int64, shape (n_fine,)
        Its home area, rising from 0: groups are as far from the place as their homes by area are.
    first : ndarray of int64, shape (n_groups + 1,)
        Where the jobs of each group begin, and the end.
    slot, row : ndarray of int64, shape (n_jobs,)
        Of each job: its number among those of all rows, and its row.
    """

    kind: int
    size: Int64
    observed: Int64
    seen: Int64
    parameter: Float64
    retention: Float64
    guess: Int64
    n: Int64
    rows: Int64
    cell: Int32
    block: Int32
    unit: Int64
    area: Int64
    first: Int64
    slot: Int64
    row: Int64


def place_of(
    kind: int,
    evidence: tuple[Int64, Float64, Float64, Int64],
    fine: tuple[Int32, Int32, Int64, Int64],
    row_n: Int64,
    row_group: Int64,
) -> Place:
    """Return a place, given evidence by group and cell, `cell` to `area`, and jobs and group of each row."""
    n = np.bincount(row_group, row_n).astype(np.int64)
    shown = (evidence[0] > 0) | (kind == GAUSSIAN)
    size = shown.sum(axis=1)
    kept = np.arange(size.max() + 1) < size[:, np.newaxis]

    def observed(values: Any, other: float) -> Any:
        result = np.full(kept.shape, other, values.dtype)
        result[kept] = values[shown]
        return result

    cells = np.broadcast_to(np.arange(shown.shape[1]), shown.shape)
    others = 0, (evidence[1][0, 0] if kind == GEOMETRIC else 1), 1, 0
    seen, parameter, retention, guess = map(observed, evidence, others)
    row = np.repeat(np.arange(row_n.size), row_n)
    slot = np.argsort(row_group[row], kind="stable")
    rows = np.bincount(row_group).astype(np.int64)
    return Place(
        kind, size, observed(cells, 0), seen, parameter, retention, guess, n, rows, *fine,
        offsets_of(n), slot, row[slot],
    )  # fmt: skip


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
    """

    place: float
    part: float
    group: Float64
    grid: Float64
    log_chance: Float64


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


class _Profile(NamedTuple):
    """The homes of a place in one draw, and what its fine cells weigh for a group.

    That is their share times factors, which are the same inside a run of fine cells.
    """

    share: Float64
    jobs: Float64  # of each fine cell, that came from the profile
    exposure: Float64  # of these, by run
    below: Float64  # sums of the shares
    run: Int64  # of each fine cell, and the last one
    first: Int64  # fine cell of each run, and the end
    of_tables: Float64  # factors that tables have for the groups of the place, by group and run
    factor: Float64  # of each run
    before: Float64  # what all runs before one weigh


class _Room(NamedTuple):
    """Where cells begin, and room for what is drawn of those of a group."""

    begins: Int64  # among fine cells, and the end
    shape: Float64
    counts: Int64
    gaps: Int64  # begin and stop of the fine cells between those that were seen
    gap_weight: Float64


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
def _profile_of(place, crossing, tied):  # type: ignore[no-untyped-def]
    """Return room for a profile, and the runs of fine cells that no factors of groups tell apart."""
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
    return _Profile(
        np.empty(fine), np.zeros(fine), np.zeros(runs), np.zeros(fine + 1), run, first,
        np.ones((place.n.size, runs)), np.ones(runs), np.zeros(runs),
    )  # fmt: skip


@_compiled
def _set_factors_of_tables(profile, place, crossing, draw):  # type: ignore[no-untyped-def]
    """Set the products of the factors that tables have for the groups of a place in a draw."""
    profile.of_tables[:] = 1.0
    for g in range(place.n.size):
        row = place.row[place.first[g]]
        for j in range(crossing.use.size):
            if crossing.use[j] == GROUP:
                start, which = crossing.start[j, row], crossing.which[j, row]
                for r in range(profile.factor.size):
                    cell = crossing.cell[which, profile.first[r]]
                    profile.of_tables[g, r] *= crossing.factor[draw, start + cell]


@_compiled
def _set_factors(profile, ties, area, group):  # type: ignore[no-untyped-def]
    """Set the factors of runs for a group; return what all fine cells weigh together."""
    below, first, factor = profile.below, profile.first, profile.factor
    total = 0.0
    for r in range(factor.size):
        f = first[r]
        value = profile.of_tables[group, r]
        if ties.kind.size:
            value *= ties.level[area[f]]
            for j in range(ties.member.shape[0]):
                if ties.member[j, group] >= 0:
                    value *= ties.factor[ties.member[j, group], area[f]]
        factor[r], profile.before[r] = value, total
        total += value * (below[first[r + 1]] - below[f])
    return total


@_compiled
def _weight_below(f, profile):  # type: ignore[no-untyped-def]
    """Return what the fine cells below f weigh for a group."""
    r = profile.run[f]
    return profile.before[r] + profile.factor[r] * (profile.below[f] - profile.below[profile.first[r]])


@_compiled
def _cell_at(weight, begin, stop, profile):  # type: ignore[no-untyped-def]
    """Return that of the fine cells from begin on, below stop, that this weight falls into."""
    low, high = begin, stop - 1
    while low < high:
        middle = (low + high) // 2
        if _weight_below(middle + 1, profile) <= weight:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def _draw_urn(gaps, gap_weight, scale, profile, random, jobs):  # type: ignore[no-untyped-def]
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
        jobs[i] = _cell_at(_weight_below(begin, profile) + u, begin, stop, profile)


@_compiled
def _draw_concentration(count, share, n, concentrations, random):  # type: ignore[no-untyped-def]
    """Draw the concentration of a group, given its jobs where it has any, and their shares."""
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
    return grid[j]


@_compiled
def _odds_of(parts, profiles, crossing, draw, row, f):  # type: ignore[no-untyped-def]
    """Return the odds of a fine cell for a row."""
    value = 1.0
    for q in range(parts.member.shape[0]):
        value *= profiles[parts.member[q, row], f]
    for k in range(crossing.use.size):
        if crossing.use[k] != GROUP:
            i = crossing.start[k, row] + crossing.cell[crossing.which[k, row], f]
            factor = crossing.factor[draw, i]
            if crossing.use[k] == STEERED:
                lacking = min(20.0, max(0.05, (factor + 0.05) / (crossing.expected[i] + 0.05)))
                value *= lacking**_FIRM
            else:
                value *= factor
    return value


@_compiled
def _exchange(homes, rows, parts, profiles, crossing, draw, random):  # type: ignore[no-untyped-def]
    """Exchange the homes of jobs of a group, by the odds of their rows (Metropolis steps)."""
    current = np.empty(homes.size)
    for i in range(homes.size):
        current[i] = _odds_of(parts, profiles, crossing, draw, rows[i], homes[i])
    for _ in range(_SWEEPS * homes.size):
        i, j = int(random.random() * homes.size), int(random.random() * homes.size)
        fi, fj, ri, rj = homes[i], homes[j], rows[i], rows[j]
        if fi != fj and ri != rj:
            first = _odds_of(parts, profiles, crossing, draw, ri, fj)
            second = _odds_of(parts, profiles, crossing, draw, rj, fi)
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
def _draw_profile(profile, expected, concentration, random):  # type: ignore[no-untyped-def]
    """Draw the profile of a place around what is expected, given the jobs that came from it."""
    share, total = profile.share, 0.0
    for f in range(share.size):
        share[f] = _gamma(concentration * max(expected[f], _LEAST) + profile.jobs[f], random)
        share[f] /= concentration + profile.exposure[profile.run[f]]
        total += share[f]
    for f in range(share.size):
        share[f] = max(share[f] / total, 1e-12)


@_compiled
def _mass_by_area(place, profile):  # type: ignore[no-untyped-def]
    """Return the shares of homes by area that are expected of each group without its ties."""
    mass, first, below = np.zeros((place.n.size, place.area[-1] + 1)), profile.first, profile.below
    for g in range(place.n.size):
        for r in range(profile.factor.size):
            value = profile.of_tables[g, r]
            mass[g, place.area[first[r]]] += value * (below[first[r + 1]] - below[first[r]])
    return mass


@_compiled
def _set_shapes(place, g, profile, normal, kappa, room):  # type: ignore[no-untyped-def]
    """Set shapes of the cells that were seen of a group; what lies between them is one more.

    Returns how many these are.
    """
    begins, gaps, weight = room.begins, room.gaps, room.gap_weight
    fine, wide, scale = place.cell.size, begins.size - 1, kappa / normal
    k, before, unseen = place.size[g], 0, 0.0
    for i in range(k):
        c = place.observed[g, i]
        low, high = _weight_below(begins[c], profile), _weight_below(begins[c + 1], profile)
        room.shape[i] = max((high - low) * scale, _LEAST * kappa)
        gaps[i, 0], gaps[i, 1], weight[i] = before, begins[c], 0.0
        if before < begins[c]:
            weight[i] = max(low - _weight_below(before, profile), _NEXT * normal)
        unseen += weight[i]
        before = begins[c + 1]
    gaps[k, 0], gaps[k, 1], weight[k] = before, fine, 0.0
    if before < fine:
        weight[k] = max(normal - _weight_below(before, profile), _NEXT * normal)
    unseen += weight[k]
    if k < wide:
        room.shape[k] = max(unseen * scale, _LEAST * kappa * (wide - k))
        k += 1
    return k


@_compiled
def _draw_homes(place, g, counted, profile, scale, room, random, homes):  # type: ignore[no-untyped-def]
    """Draw the fine cells of the jobs that were counted in the cells of a group."""
    begins, stop = room.begins, 0
    gap, weight = np.empty((1, 2), np.int64), np.empty(1)
    for i in range(counted):
        count = room.counts[i]
        if count == 0:
            continue
        jobs = homes[stop : stop + count]
        stop += count
        if i == place.size[g]:
            _draw_urn(room.gaps[: i + 1], room.gap_weight[: i + 1], scale, profile, random, jobs)
            continue
        c = place.observed[g, i]
        gap[0, 0], gap[0, 1] = begins[c], begins[c + 1]
        if begins[c + 1] - begins[c] == 1:
            jobs[:] = begins[c]
        else:
            weight[0] = _weight_below(begins[c + 1], profile) - _weight_below(begins[c], profile)
            _draw_urn(gap, weight, scale, profile, random, jobs)


@_compiled
def _draw_group_concentration(  # type: ignore[no-untyped-def]
    area, area_begins, homes, profile, normal, concentrations, random
):
    """Draw the concentration of a group, given its homes by area."""
    size, some = 0, np.empty(homes.size, np.int64)
    jobs = np.zeros(area_begins.size - 1)
    for f in homes:
        if jobs[area[f]] == 0.0:
            some[size] = area[f]
            size += 1
        jobs[area[f]] += 1.0
    count, share = np.empty(size), np.empty(size)
    for i in range(size):
        a = some[i]
        low = _weight_below(area_begins[a], profile)
        share[i] = (_weight_below(area_begins[a + 1], profile) - low) / normal
        count[i] = jobs[a]
    return _draw_concentration(count, share, float(homes.size), concentrations, random)


@_compiled
def _note_jobs(g, ties, area, profile, scale, normal, homes, random):  # type: ignore[no-untyped-def]
    """Add to the profile, and to the ties of a group, the jobs that came from them."""
    of_cell, total = np.zeros(area.size), 0.0
    for f in homes:
        of_cell[f] += 1.0
    for f in homes:
        if of_cell[f] > 0.0:
            mass = profile.share[f] * profile.factor[profile.run[f]] * scale
            more = _draw_prior_jobs(of_cell[f], mass, random)
            profile.jobs[f] += more
            total += more
            for j in range(ties.member.shape[0]):
                if ties.member[j, g] >= 0:
                    ties.tie_jobs[ties.member[j, g], area[f]] += more
            of_cell[f] = 0.0
    ties.group_jobs[g] = total
    # What the group's factors explain of its jobs is not the place's profile. Of Poisson numbers of this
    # exposure, drawn by chance, the numbers that came from it are multinomial.
    weight = _gamma(total, random) / normal
    for r in range(profile.factor.size):
        profile.exposure[r] += weight * profile.factor[r]


@_compiled
def _shuffle(homes, random):  # type: ignore[no-untyped-def]
    for i in range(homes.size - 1, 0, -1):
        j = int(random.random() * (i + 1))
        homes[i], homes[j] = homes[j], homes[i]


@_compiled
def _take_off(place, crossing, draw, homes):  # type: ignore[no-untyped-def]
    """Take the jobs of a place off what steered tables lack."""
    for k in range(crossing.use.size):
        if crossing.use[k] == STEERED:
            for i in range(homes.size):
                row = place.row[i]
                cell = crossing.cell[crossing.which[k, row], homes[i]]
                crossing.factor[draw, crossing.start[k, row] + cell] -= 1.0


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
    n, area, (draws, fine), most = place.n, place.area, shares.shape, place.seen.shape[1]
    wide, several, tied = int(place.cell[-1]) + 1, n.size > 1, ties.kind.size > 0
    begins = np.searchsorted(place.cell, np.arange(wide + 1))
    room = _Room(
        begins, np.empty(most), np.empty(most, np.int64), np.empty((most, 2), np.int64), np.empty(most)
    )
    area_begins = np.searchsorted(area, np.arange(area[-1] + 2))
    profile, profiles = _profile_of(place, crossing, tied), np.ones((parts.key.size, fine))
    told_apart = parts.key.size > 1 or (crossing.use != GROUP).any()
    scratch, tilts, failures = scratch_for(wide, n.max()), np.zeros(n.size), 0
    homes, jobs = np.empty(place.slot.size, np.int32), np.empty((draws, place.slot.size), np.int32)
    kappas = concentrations.group[0]
    as_expected = not several or concentrations.place == np.inf
    profile.share[:] = np.maximum(shares[0], _LEAST)
    for d in range(-burn, draws):
        m = max(d, 0)
        if as_expected:
            profile.share[:] = np.maximum(shares[m], _LEAST)
        elif d > -burn:
            _draw_profile(profile, shares[m], concentrations.place, random)
        for f in range(fine):
            profile.below[f + 1] = profile.below[f] + profile.share[f]
        if d == -burn or d > 0:
            _set_factors_of_tables(profile, place, crossing, m)
        if tied and ties.group_jobs.sum() > 0.0:
            draw_factors(ties, n, _mass_by_area(place, profile), random)
        ties.tie_jobs[:] = 0.0
        profile.jobs[:] = 0.0
        profile.exposure[:] = 0.0
        if parts.key.size > 1:
            _set_part_profiles(profiles, place, parts, profile.share, concentrations.part, m)
        for g in range(n.size):
            begin, end = place.first[g], place.first[g + 1]
            of_group = homes[begin:end]
            kappa = kappas[g] if several else concentrations.group[m, g]
            normal = _set_factors(profile, ties, area, g)
            scale = kappa / normal
            k = _set_shapes(place, g, profile, normal, kappa, room)
            cells = Counts(
                place.kind, place.seen[g, :k], place.parameter[g, :k], place.retention[g, :k],
                room.shape[:k], place.guess[g, :k],
            )  # fmt: skip
            done, tilts[g], scratch = draw_counts(
                cells, n[g] / (n[g] + kappa), n[g], tilts[g], scratch, random, room.counts[:k]
            )
            if not done:
                failures += 1
                _set_guess(cells.guess, n[g], room.counts[:k])
            _draw_homes(place, g, k, profile, scale, room, random, of_group)
            if several:
                kappas[g] = _draw_group_concentration(
                    area, area_begins, of_group, profile, normal, concentrations, random
                )
            if not as_expected or (ties.member[:, g] >= 0).any():
                _note_jobs(g, ties, area, profile, scale, normal, of_group, random)
            # To rows: in random order, then exchanged by their odds.
            _shuffle(of_group, random)
            if place.rows[g] > 1 and d >= 0 and told_apart:
                _exchange(of_group, place.row[begin:end], parts, profiles, crossing, m, random)
        if d >= 0:
            for i in range(homes.size):
                jobs[m, place.slot[i]] = homes[i]
            _take_off(place, crossing, m, homes)
    return jobs, failures
