"""The draws of one place: counts of its groups, homes inside their cells, and which of its rows has which."""

from __future__ import annotations

import numpy as np

from synth._words import compiled as _compiled
from synth.conditional import NOISE, backward, forward, independent, solve

__all__ = ["GROUP", "ROW", "STEERED", "draw_place"]

ROW, STEERED, GROUP = 0, 1, 2

_LEAST = 1e-9  # prior share of a cell of which nobody can be sure that it is empty
_MANY = 16.0  # variance of a group's sum beyond which cells are drawn by themselves
_SWEEPS = 6  # exchanges tried for each job that is given to a row
_PART = 0.05  # a part of a place has a profile of its own if it has this part of the concentration in jobs


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
def _odds(row, f, part, own, start, which, cell, factor, rest, use):  # type: ignore[no-untyped-def]
    value = 1.0
    for q in range(part.shape[0]):
        value *= own[part[q, row], f]
    for k in range(start.shape[0]):
        at = start[k, row] + cell[which[k, row], f]
        if use[k] == STEERED:
            value *= min(20.0, max(0.05, (factor[at] + 0.05) / (rest[at] + 0.05)))
        elif use[k] == ROW:
            value *= factor[at]
    return value


@_compiled
def draw_place(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, guess, offsets, n, cell, shares, n_rows, group, k_place, k_groups, k_parts, apart,
    parts, start, which, maps, factor, rest, use, burn, random, jobs,
):  # fmt: skip
    """Draw the home cells of the jobs of a place, again and again; return how many counts could not be drawn.

    Parameters
    ----------
    kind, seen, par, keep, offsets
        As in `synth.evidence.Evidence`, of the place's groups, at offsets of shape (n_groups + 1,).
    guess : ndarray of int64, shape (n_cells of the groups,)
        About what the counts are.
    n : ndarray of int64, shape (n_groups,)
    cell : ndarray of int32, shape (n_groups, n_fine)
        The group's cell of each of the place's cells, which are fine ones.
    shares : ndarray of float64, shape (n_draws, n_fine)
        What is expected in each draw.
    n_rows, group : ndarray of int64, shape (n_rows,)
        Jobs of the rows, and the group of each.
    k_place, k_parts : float
        Concentrations of the place and of parts.
    k_groups : ndarray of float64, shape (n_draws, n_groups)
        Concentrations of groups around the place, or of the only group around what is expected.
    apart : ndarray of float64, shape (n_divisions, n_rows)
        Relative variance of the profile of each row's part, beside that of its concentration.
    parts : ndarray of int64, shape (n_divisions, n_rows)
        Parts of rows that have profiles of their own, where they are large.
    start, which : ndarray, shape (n_crossing, n_rows)
    maps : ndarray of int32, shape (n_maps, n_fine)
        As `synth.measured.Layout` has them, of the tables that cross places.
    factor : ndarray of float32, shape (n_draws, n_cells of crossing tables)
        Factors of the odds of rows or groups; of a steered table, the jobs that its cells still lack, from
        which those of this place are taken off.
    rest : ndarray of float64, shape (n_cells of crossing tables,)
        Jobs that this place and later ones are expected to give.
    use : ndarray of int64, shape (n_crossing,)
        ROW, STEERED or GROUP.
    burn : int
        Draws of the place's profile that are thrown away first.
    random : numpy.random.Generator
    jobs : ndarray of int32, shape (n_draws, n_jobs)
        The result: fine cells, row after row.
    """
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
    some_shape, some, cells = np.empty(widest), np.empty(widest, np.int64), np.empty(widest, np.int64)
    theta, mass, own = np.empty(fine), np.empty(fine), np.zeros(fine)
    tables, tilts = np.zeros(fine), np.zeros(groups)
    boost, exposure = np.ones(fine), np.zeros(fine)
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
        jobs_of = np.zeros(parts[q].max() + 1)
        for r in range(rows):
            jobs_of[parts[q, r]] += n_rows[r]
        number = np.zeros(jobs_of.size, np.int64)
        for j in range(jobs_of.size):
            if jobs_of[j] > _PART * k_parts:
                number[j] = at
                at += 1
        for r in range(rows):
            part[q, r] = number[parts[q, r]]
    variance = np.zeros(at)
    for q in range(parts.shape[0]):
        for r in range(rows):
            variance[part[q, r]] = apart[q, r]
    profile = np.ones((at, fine))
    chain = groups > 1
    failures = 0
    odd = start.shape[0] > 0 or at > 1
    for f in range(fine):
        theta[f] = max(shares[0, f], _LEAST)
    for d in range(-burn, draws):
        m = max(d, 0)
        at = 0
        if not chain:
            for f in range(fine):
                theta[f] = max(shares[m, f], _LEAST)
        tables[:] = 0.0
        exposure[:] = k_place
        for p in range(1, profile.shape[0]):
            for f in range(fine):
                size = max(1.0 / (1.0 / (k_parts * theta[f]) + variance[p]), 1e-3)
                profile[p, f] = max(random.standard_gamma(size) / size, 1e-6)
        for g in range(groups):
            a, b, kappa = offsets[g], offsets[g + 1], k_groups[m, g]
            k = b - a
            member = row_of[slots[g]]
            total = 0.0
            for f in range(fine):
                boost[f] = 1.0
                for j in range(start.shape[0]):
                    if use[j] == GROUP:
                        boost[f] *= factor[m, start[j, member] + maps[which[j, member], f]]
                mass[f] = theta[f] * boost[f]
                total += mass[f]
            normal, from_place = total, 0.0
            shape[:k] = 0.0
            for f in range(fine):
                mass[f] *= kappa / total
                shape[cell[g, f]] += mass[f]
            for c in range(k):
                shape[c] = max(shape[c], _LEAST * kappa)
            # Cells that nothing was drawn of are one: their evidence is the same whatever their counts are.
            k = 0
            unseen, merged = 0.0, 0
            for c in range(b - a):
                if kind == NOISE or seen[a + c] > 0:
                    cells[k] = a + c
                    some_shape[k] = shape[c]
                    k += 1
                else:
                    unseen += shape[c]
                    merged = a + c
            if k < b - a:
                cells[k] = merged
                some_shape[k] = unseen
                k += 1
            at_cells = cells[:k]
            given = (
                kind, seen[at_cells], par[at_cells], keep[at_cells], some_shape[:k], n[g] / (n[g] + kappa),
                n[g], guess[at_cells],
            )  # fmt: skip
            tilt, mean, spread = 0.0, 0.0, -1.0
            while spread < 0.0:
                tilt, mean, spread = solve(*given, tilts[g], lows[:k], starts[: k + 1], flat, out)
                if spread < 0.0:
                    flat = np.empty(2 * flat.size)
            tilts[g] = tilt
            done = False
            if spread > _MANY:
                done = independent(lows[:k], starts[: k + 1], flat, n[g], spread, random, some)
            else:
                while not forward(
                    lows[:k], starts[: k + 1], flat, n[g], mean, spread, begin, stop, first, table
                ):
                    table = np.empty(2 * table.size)
                done = backward(
                    lows[:k], starts[: k + 1], flat, n[g], begin, stop, first, table, random, some
                )
            if done:
                counts[: b - a] = 0
                left = 0
                for i in range(k):
                    if unseen > 0.0 and i == k - 1:
                        left = some[i]
                    else:
                        counts[cells[i] - a] = some[i]
                for i in range(left):
                    u = random.random() * (unseen + i)
                    chosen = merged - a
                    for c in range(b - a):
                        if seen[a + c] == 0:
                            u -= shape[c] + counts[c]
                            if u < 0.0:
                                chosen = c
                                break
                    counts[chosen] += 1
            k = b - a
            if not done:
                failures += 1
                left = n[g]
                for c in range(k):
                    counts[c] = min(max(guess[a + c], 0), left)
                    left -= counts[c]
                counts[k - 1] += left
            before = at
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
                    more = _tables_of(own[drawn[i]], mass[drawn[i]], random)
                    tables[drawn[i]] += more
                    from_place += more
                own[drawn[i]] = 0.0
            # What the group's factors explain of its jobs is not the place's profile.
            for f in range(fine):
                exposure[f] += from_place * boost[f] / normal
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
                    now = _odds(ri, fi, part, profile, start, which, maps, factor[m], rest, use)
                    now *= _odds(rj, fj, part, profile, start, which, maps, factor[m], rest, use)
                    new = _odds(ri, fj, part, profile, start, which, maps, factor[m], rest, use)
                    new *= _odds(rj, fi, part, profile, start, which, maps, factor[m], rest, use)
                    if random.random() * now < new:
                        drawn[i], drawn[j] = fj, fi
        if d >= 0:
            for i in range(total_jobs):
                jobs[m, slot[i]] = drawn[i]
            for k in range(start.shape[0]):
                if use[k] == STEERED:
                    for i in range(total_jobs):
                        r = row_of[i]
                        factor[m, start[k, r] + maps[which[k, r], drawn[i]]] -= 1.0
        if chain:
            total = 0.0
            for f in range(fine):
                theta[f] = random.standard_gamma(k_place * max(shares[m, f], _LEAST) + tables[f])
                theta[f] = max(theta[f] / exposure[f], 1e-300)
                total += theta[f]
            for f in range(fine):
                theta[f] = max(theta[f] / total, 1e-12)
    return failures
