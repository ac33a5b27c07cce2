"""The draws of one place: counts of its groups, homes inside their cells, and which of its rows has which."""

from __future__ import annotations

import math

import numpy as np

from synth._words import compiled as _compiled
from synth.posterior._gamma import gamma as _gamma
from synth.posterior._gamma import log_rising as _log_rising
from synth.posterior.conditional import NOISE, backward, forward, independent, solve
from synth.posterior.ties import vary_factors

ROW, STEERED, GROUP = 0, 1, 2

_LEAST = 1e-9  # prior share of a cell of which nobody can be sure that it is empty
_NEXT = 1e-12  # the same of cells that lie together
_COUNTED = 8.0  # jobs up to which a rising factorial is multiplied out
_HUGE = 1e200  # a product that may be multiplied by one of these
_MANY = 16.0  # variance of a group's sum beyond which cells are drawn by themselves
_WIDEST = 1e3  # relative variance of a factor
_UNITS = 1 << 40  # added to numbers of units, which are no blocks
_SWEEPS = 6  # exchanges tried for each job that is given to a row
# Power of the odds of a steered table. Rows of a workplace are mostly of one kind, so exchanges move counts
# less than odds say: with 1, a sixth of how Rhode Island's residents by industry differ from the model stays.
_FIRM = 2


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
def _scramble(word):  # type: ignore[no-untyped-def]
    """Return a word that follows from this one and looks random (splitmix64; Steele, Lea and Flood 2014)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@_compiled
def _wide(variance):  # type: ignore[no-untyped-def]
    """Return the variance of the logarithm of a lognormal variable of this relative variance."""
    return math.log1p(min(variance, _WIDEST))


@_compiled
def _about_one(wide, key, home, draw):  # type: ignore[no-untyped-def]
    """Return a lognormal variable of mean 1 that follows from a key, some homes and the number of a draw.

    So a part of several places has one profile in all of them, and none is kept.
    """
    if wide <= 0.0:
        return 1.0
    word = _scramble(_scramble(key ^ _scramble(np.uint64(home))) + np.uint64(draw))
    u = (float(word >> np.uint64(11)) + 0.5) * 2.0**-53
    v = float(_scramble(word + np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)) * 2.0**-53
    normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
    return max(math.exp(math.sqrt(wide) * normal - 0.5 * wide), 1e-6)


@_compiled
def _runs(which, maps, use, area, tied):  # type: ignore[no-untyped-def]
    """Return where runs of fine cells begin that no factors of groups tell apart, and the end."""
    fine = area.size
    breaks = np.zeros(fine + 1, np.bool_)
    breaks[0] = breaks[fine] = True
    if tied:
        for f in range(1, fine):
            breaks[f] = area[f] != area[f - 1]
    known = np.zeros(maps.shape[0], np.bool_)
    for j in range(use.size):
        if use[j] == GROUP:
            for r in range(which.shape[1]):
                if not known[which[j, r]]:
                    known[which[j, r]] = True
                    for f in range(1, fine):
                        if maps[which[j, r], f] != maps[which[j, r], f - 1]:
                            breaks[f] = True
    return np.flatnonzero(breaks)


@_compiled
def _concentration(found, share, n, grid, chances, logs, random):  # type: ignore[no-untyped-def]
    """Draw the concentration of a group, by position, given its jobs where it has any, and their shares."""
    for j in range(grid.size):
        logs[j] = chances[j] - _log_rising(grid[j], n)
        product = 1.0
        for i in range(found.size):
            mass = max(grid[j] * share[i], _LEAST)
            if found[i] > _COUNTED:
                logs[j] += _log_rising(mass, found[i])
                continue
            for x in range(int(found[i])):
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
def _below(f, weights):  # type: ignore[no-untyped-def]
    """Return what the fine cells below f weigh for a group, whose factor is the same inside a run."""
    up, run, first, before, boost = weights
    r = run[f]
    return before[r] + boost[r] * (up[f] - up[first[r]])


@_compiled
def _cell_at(weight, begin, stop, weights):  # type: ignore[no-untyped-def]
    """Return that of the fine cells from begin on, below stop, that this weight falls into."""
    low, high = begin, stop - 1
    while low < high:
        middle = (low + high) // 2
        if _below(middle + 1, weights) <= weight:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def _urn(count, gaps, part, scale, weights, random, jobs, at):  # type: ignore[no-untyped-def]
    """Give jobs to the fine cells of some gaps, by a Polya urn; write the fine cell of each.

    Gaps begin and stop at fine cells; each has its part of the weights, which times `scale` are masses.
    """
    total = part.sum() * scale
    for i in range(count):
        u = random.random() * (total + i)
        if u >= total and i > 0:  # one more of a cell that was given one before
            jobs[at + i] = jobs[at + min(int(u - total), i - 1)]
            continue
        u, chosen = u / scale, -1
        for j in range(part.size):
            if part[j] > 0.0:
                chosen = j
                if u < part[j]:
                    break
                u -= part[j]
        begin, stop = gaps[chosen]
        jobs[at + i] = _cell_at(_below(begin, weights) + u, begin, stop, weights)


@_compiled
def _odds(row, f, part, own, start, which, cell, factor, rest, use):  # type: ignore[no-untyped-def]
    value = 1.0
    for q in range(part.shape[0]):
        value *= own[part[q, row], f]
    for k in range(start.shape[0]):
        at = start[k, row] + cell[which[k, row], f]
        if use[k] == STEERED:
            lacking = min(20.0, max(0.05, (factor[at] + 0.05) / (rest[at] + 0.05)))
            value *= lacking**_FIRM
        else:
            value *= factor[at]
    return value


@_compiled
def _exchange(homes, rows, part, own, start, which, cell, factor, rest, use, random):  # type: ignore[no-untyped-def]
    """Exchange the homes of jobs of a group, by the odds of their rows."""
    odds = np.empty(homes.size)
    for i in range(homes.size):
        odds[i] = _odds(rows[i], homes[i], part, own, start, which, cell, factor, rest, use)
    for _ in range(_SWEEPS * homes.size):
        i, j = int(random.random() * homes.size), int(random.random() * homes.size)
        fi, fj, ri, rj = homes[i], homes[j], rows[i], rows[j]
        if fi != fj and ri != rj:
            first = _odds(ri, fj, part, own, start, which, cell, factor, rest, use)
            second = _odds(rj, fi, part, own, start, which, cell, factor, rest, use)
            if random.random() * odds[i] * odds[j] < first * second:
                homes[i], homes[j] = fj, fi
                odds[i], odds[j] = first, second


@_compiled
def draw_place(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, guess, n, cell, cuts, home, shares, n_rows, group, k_place, k_groups, chances,
    area, grid, noted, ties, shapes, noted_ties, k_parts, apart, keys, parts, start, which, maps, factor,
    rest, use, burn, random, jobs,
):  # fmt: skip
    """Draw the home cells of the jobs of a place, again and again; return how many counts could not be drawn.

    Parameters
    ----------
    kind : int
    seen, par, keep : ndarray, shape (n_groups, n_cells)
        As `synth.posterior.evidence.Evidence` has them, of the place's groups.
    guess : ndarray of int64, shape (n_groups, n_cells)
        About what the counts are.
    n : ndarray of int64, shape (n_groups,)
    cell : ndarray of int32, shape (n_fine,)
        The groups' cell of each of the place's cells, which are fine ones.
    cuts : ndarray of int32, shape (n_fine,)
        First block of each fine cell.
    home : ndarray of int64, shape (n_fine,)
        Its home unit, rising.
    shares : ndarray of float64, shape (n_draws, n_fine)
        What is expected in each draw.
    n_rows, group : ndarray of int64, shape (n_rows,)
        Jobs of the rows, and the group of each.
    k_place, k_parts : float
        Concentrations of the place, infinite if it is as expected in each draw, and of parts.
    k_groups : ndarray of float64, shape (n_draws, n_groups)
        Concentrations of the only group around what is expected; of several groups the first ones, from which
        on they are drawn given their jobs.
    chances : ndarray of float64, shape (n_concentrations,)
        Logarithms of the chances of concentrations of groups.
    area : ndarray of int64, shape (n_fine,)
        The home area of each fine cell, rising from 0: groups are as far from the place as their homes by
        area are.
    grid : ndarray of float64, shape (n_concentrations,)
    noted : ndarray of float64, shape (n_concentrations,)
        To these are added the jobs of groups that had a concentration in a draw.
    ties : Ties
        Of the place, by the areas above. Draws go on from them.
    shapes, noted_ties : ndarray of float64, shape (n_kinds, n_shapes)
        Logarithms of the chances of their shapes, and as `noted`.
    apart : ndarray of float64, shape (1 + n_parts,)
        Relative variance, by home unit, of the profile of each part, beside that of its concentration. Number
        0 is for rows that are in no part.
    keys : ndarray of uint64, shape (1 + n_parts,)
        Of each part, in all places that it has rows in.
    parts : ndarray of int64, shape (n_divisions, n_rows)
        The part that each row is in.
    start, which : ndarray, shape (n_crossing, n_rows)
    maps : ndarray of int32, shape (n_maps, n_fine)
        As `synth.geometric.measured.Layout` has them, of the tables that cross places.
    factor : ndarray of float32, shape (n_draws, n_cells of crossing tables)
        Factors of the odds of rows or groups; of a steered table, the jobs that its cells still lack, from
        which those of this place are taken off.
    rest : ndarray of float64, shape (n_cells of crossing tables,)
        Jobs that this place and later ones are expected to give to steered tables.
    use : ndarray of int64, shape (n_crossing,)
        ROW, STEERED or GROUP.
    burn : int
        Draws of the place's profile that are thrown away first.
    random : numpy.random.Generator
    jobs : ndarray of int32, shape (n_draws, n_jobs)
        The result: fine cells, row after row.
    """
    groups, wide = seen.shape
    fine, draws, rows = shares.shape[1], jobs.shape[0], n_rows.size
    largest, total_jobs = n.max(), n.sum()
    out = np.empty(2 * min(largest, 2**15) + 64)
    flat, table = np.empty(64 * wide + 1024), np.empty(64 * wide + 1024)
    lows, starts = np.empty(wide, np.int64), np.empty(wide + 1, np.int64)
    begin, stop, first = np.empty(wide, np.int64), np.empty(wide, np.int64), np.empty(wide, np.int64)
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
    # Of the logarithms of the profiles of parts, by unit and by fine cell.
    wide_part, wide_fine = np.zeros(apart.size), np.zeros(fine)
    for p in range(apart.size):
        wide_part[p] = _wide(apart[p])
    profile = np.ones((apart.size, fine))
    of_rows = np.flatnonzero(use != GROUP)
    row_start, row_which, row_use = start[of_rows], which[of_rows], use[of_rows]
    odd = apart.size > 1 or of_rows.size > 0
    # Fine cells of each cell and area, and runs of fine cells that have the same factors of groups.
    begins = np.searchsorted(cell, np.arange(wide + 1))
    areas = area[fine - 1] + 1
    area_begins = np.searchsorted(area, np.arange(areas + 1))
    kinds = ties.of.shape[0] if ties.kind.size else 0
    run_first = _runs(which, maps, use, area, kinds > 0)
    runs = run_first.size - 1
    run = np.empty(fine + 1, np.int64)
    for r in range(runs):
        run[run_first[r] : run_first[r + 1]] = r
    run[fine] = runs - 1
    boost, before, exposure = np.ones(runs), np.zeros(runs), np.zeros(runs)
    mass = np.empty((groups if kinds else 0, areas))
    # Areas that a group has homes in, and how many it has in all.
    some, of_area = np.empty(areas, np.int64), np.zeros(areas)
    found, share, logs = np.empty(areas), np.empty(areas), np.empty(grid.size)
    theta, up, tables, own = np.empty(fine), np.zeros(fine + 1), np.zeros(fine), np.zeros(fine)
    weights = (up, run, run_first, before, boost)
    # Cells that nothing was drawn of are one: their evidence is the same whatever their counts are. The
    # others of each group, then that one.
    told = np.empty((groups, wide + 1), np.int64)
    sizes = np.zeros(groups, np.int64)
    for g in range(groups):
        for c in range(wide):
            if kind == NOISE or seen[g, c] > 0:
                told[g, sizes[g]] = c
                sizes[g] += 1
    most = sizes.max() + 1
    shape, counts = np.empty(most), np.empty(most, np.int64)
    gaps, gap_part = np.empty((most, 2), np.int64), np.empty(most)
    own_gap, own_part = np.empty((1, 2), np.int64), np.empty(1)
    seen_of, guess_of = np.empty((groups, most), np.int64), np.empty((groups, most), np.int64)
    par_of, keep_of = np.ones((groups, most)), np.ones((groups, most))
    for g in range(groups):
        for i in range(sizes[g]):
            c = told[g, i]
            seen_of[g, i], guess_of[g, i] = seen[g, c], guess[g, c]
            par_of[g, i], keep_of[g, i] = par[g, c], keep[g, c]
        seen_of[g, sizes[g]] = guess_of[g, sizes[g]] = 0
    drawn = np.empty(total_jobs, np.int32)
    tilts, chain, failures = np.zeros(groups), groups > 1, 0
    k_now, known = k_groups[0], not chain or k_place == np.inf
    for f in range(fine):
        theta[f] = max(shares[0, f], _LEAST)
    for d in range(-burn, draws):
        m = max(d, 0)
        at = 0
        if known:
            for f in range(fine):
                theta[f] = max(shares[m, f], _LEAST)
        elif d > -burn:
            total = 0.0
            for f in range(fine):
                theta[f] = _gamma(k_place * max(shares[m, f], _LEAST) + tables[f], random)
                theta[f] /= k_place + exposure[run[f]]
                total += theta[f]
            for f in range(fine):
                theta[f] = max(theta[f] / total, 1e-12)
        for f in range(fine):
            up[f + 1] = up[f] + theta[f]
        if kinds and ties.given.sum() > 0.0:
            mass[:] = 0.0
            for g in range(groups):
                for r in range(runs):
                    value, f = 1.0, run_first[r]
                    for j in range(start.shape[0]):
                        if use[j] == GROUP:
                            member = row_of[slots[g]]
                            value *= factor[m, start[j, member] + maps[which[j, member], f]]
                    mass[g, area[f]] += value * (up[run_first[r + 1]] - up[f])
            vary_factors(ties, n, mass, shapes, noted_ties, random)
        ties.tables[:] = 0.0
        tables[:] = 0.0
        exposure[:] = 0.0
        for f in range(fine if apart.size > 1 else 0):
            wide_fine[f] = _wide(1.0 / (k_parts * theta[f]))
        for p in range(1, apart.size):
            of_unit = 1.0
            for f in range(fine):
                if f == 0 or home[f] != home[f - 1]:
                    of_unit = _about_one(wide_part[p], keys[p], _UNITS + home[f], m)
                profile[p, f] = of_unit * _about_one(wide_fine[f], keys[p], cuts[f], m)
        for g in range(groups):
            kappa, member = k_now[g] if chain else k_groups[m, g], row_of[slots[g]]
            normal, from_place = 0.0, 0.0
            for r in range(runs):
                value, f = 1.0, run_first[r]
                for j in range(start.shape[0]):
                    if use[j] == GROUP:
                        value *= factor[m, start[j, member] + maps[which[j, member], f]]
                if kinds:
                    value *= ties.level[area[f]]
                for j in range(kinds):
                    if ties.of[j, g] >= 0:
                        value *= ties.factor[ties.of[j, g], area[f]]
                boost[r], before[r] = value, normal
                normal += value * (up[run_first[r + 1]] - up[f])
            scale = kappa / normal
            k, end, unseen = sizes[g], 0, 0.0
            for i in range(k):
                c = told[g, i]
                low, high = _below(begins[c], weights), _below(begins[c + 1], weights)
                shape[i] = max((high - low) * scale, _LEAST * kappa)
                # What lies between this cell and the one before.
                gaps[i, 0], gaps[i, 1] = end, begins[c]
                gap_part[i] = max(low - _below(end, weights), _NEXT * normal) if end < begins[c] else 0.0
                unseen += gap_part[i]
                end = begins[c + 1]
            gaps[k, 0], gaps[k, 1] = end, fine
            gap_part[k] = max(normal - _below(end, weights), _NEXT * normal) if end < fine else 0.0
            unseen += gap_part[k]
            if k < wide:
                shape[k] = max(unseen * scale, _LEAST * kappa * (wide - k))
                k += 1
            given = (
                kind, seen_of[g, :k], par_of[g, :k], keep_of[g, :k], shape[:k], n[g] / (n[g] + kappa), n[g],
                guess_of[g, :k],
            )  # fmt: skip
            tilt, mean, spread = 0.0, 0.0, -1.0
            while spread < 0.0:
                tilt, mean, spread = solve(*given, tilts[g], lows[:k], starts[: k + 1], flat, out)
                if spread < 0.0:
                    flat = np.empty(2 * flat.size)
            tilts[g] = tilt
            if spread > _MANY:
                done = independent(lows[:k], starts[: k + 1], flat, n[g], random, counts[:k])
            else:
                while not forward(
                    lows[:k], starts[: k + 1], flat, n[g], mean, spread, begin, stop, first, table
                ):
                    table = np.empty(2 * table.size)
                done = backward(
                    lows[:k], starts[: k + 1], flat, n[g], begin, stop, first, table, random, counts[:k]
                )
            if not done:
                failures += 1
                left = n[g]
                for i in range(k):
                    counts[i] = min(max(guess_of[g, i], 0), left)
                    left -= counts[i]
                counts[k - 1] += left
            slot_begin = at
            for i in range(k):
                if counts[i] == 0:
                    continue
                if i == sizes[g]:
                    _urn(counts[i], gaps[: i + 1], gap_part[: i + 1], scale, weights, random, drawn, at)
                else:
                    c = told[g, i]
                    if begins[c + 1] - begins[c] == 1:
                        drawn[at : at + counts[i]] = begins[c]
                    else:
                        own_gap[0, 0], own_gap[0, 1] = begins[c], begins[c + 1]
                        own_part[0] = _below(begins[c + 1], weights) - _below(begins[c], weights)
                        _urn(counts[i], own_gap, own_part, scale, weights, random, drawn, at)
                at += counts[i]
            if chain:
                size = 0
                for i in range(slot_begin, at):
                    u = area[drawn[i]]
                    if of_area[u] == 0.0:
                        some[size] = u
                        size += 1
                    of_area[u] += 1.0
                for i in range(size):
                    u = some[i]
                    inside = _below(area_begins[u + 1], weights) - _below(area_begins[u], weights)
                    found[i], share[i], of_area[u] = of_area[u], inside / normal, 0.0
                j = _concentration(found[:size], share[:size], float(n[g]), grid, chances, logs, random)
                k_now[g] = grid[j]
                noted[j] += n[g] if d >= 0 else 0.0
            tied = False
            for j in range(kinds):
                tied |= ties.of[j, g] >= 0
            if tied or not known:
                for i in range(slot_begin, at):
                    own[drawn[i]] += 1.0
                for i in range(slot_begin, at):
                    f = drawn[i]
                    if own[f] > 0.0:
                        more = _tables_of(own[f], theta[f] * boost[run[f]] * scale, random)
                        tables[f] += more
                        from_place += more
                        for j in range(kinds):
                            if ties.of[j, g] >= 0:
                                ties.tables[ties.of[j, g], area[f]] += more
                        own[f] = 0.0
                ties.given[g] = from_place
                # What the group's factors explain of its jobs is not the place's profile. Of Poisson numbers
                # of this exposure, drawn by chance, the numbers that came from it are multinomial.
                weight = _gamma(from_place, random) / normal
                for r in range(runs):
                    exposure[r] += weight * boost[r]
            # To rows: in random order, then exchanged by their odds.
            for i in range(at - slot_begin - 1, 0, -1):
                j = int(random.random() * (i + 1))
                drawn[slot_begin + i], drawn[slot_begin + j] = drawn[slot_begin + j], drawn[slot_begin + i]
            if odd and several[g] > 1 and d >= 0:
                _exchange(
                    drawn[slot_begin:at], row_of[slot_begin:at], parts, profile, row_start, row_which, maps,
                    factor[m], rest, row_use, random,
                )  # fmt: skip
        if d >= 0:
            for i in range(total_jobs):
                jobs[m, slot[i]] = drawn[i]
            for k in range(start.shape[0]):
                if use[k] == STEERED:
                    for i in range(total_jobs):
                        r = row_of[i]
                        factor[m, start[k, r] + maps[which[k, r], drawn[i]]] -= 1.0
    return failures
