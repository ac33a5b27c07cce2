"""Posterior draws of the homes of a place's jobs."""

from __future__ import annotations

import math

import numpy as np

from synth._words import compiled as _compiled
from synth.conditional import _all_weights, _backward, _forward, _solve

_LEAST = 1e-9


@_compiled
def _tables_of(count, mass, random):  # type: ignore[no-untyped-def]
    """Draw how many of `count` jobs of a Dirichlet-multinomial cell of that prior mass came from the prior."""
    if count <= 1:
        return count
    if mass > 50.0 * count * count:
        return count
    tables = 0
    for i in range(count):
        if random.random() * (mass + i) < mass:
            tables += 1
    return tables


@_compiled
def _split(count, mass, first, stop, of_coarse, random, own, jobs, at):  # type: ignore[no-untyped-def]
    """Give the jobs of a coarse cell to its fine ones, by a Polya urn; write the fine cell of each."""
    total = 0.0
    for i in range(first, stop):
        total += mass[of_coarse[i]] + own[of_coarse[i]]
    for _ in range(count):
        u = random.random() * total
        chosen = of_coarse[stop - 1]
        for i in range(first, stop):
            u -= mass[of_coarse[i]] + own[of_coarse[i]]
            if u < 0.0:
                chosen = of_coarse[i]
                break
        own[chosen] += 1.0
        total += 1.0
        jobs[at] = chosen
        at += 1
    return at


@_compiled
def draw_place(kind, seen, par, keep, offsets, n, cell, share, start, k_place, k_group, burn, random, jobs, tilts):  # type: ignore[no-untyped-def]
    """Draw the homes of the groups of a place.

    Parameters
    ----------
    kind : int
    seen, par, keep : ndarray of the cells of all groups
    offsets : ndarray of int64, shape (n_groups + 1,)
    n : ndarray of int64, shape (n_groups,)
    cell : ndarray of int32, shape (n_groups, n_fine)
        The group's cell of each fine one: rising.
    share : ndarray of float64, shape (n_fine,)
        Prior profile.
    start : ndarray of float64, shape (n_fine,)
        Expected jobs, where the chain begins.
    k_place, k_group : float
    burn : int
    jobs : ndarray of int32, shape (n_draws, sum of n)
    """
    groups, fine, draws = n.size, share.size, jobs.shape[0]
    widest = 0
    largest = 0
    total_jobs = 0
    for g in range(groups):
        widest = max(widest, offsets[g + 1] - offsets[g])
        largest = max(largest, n[g])
        total_jobs += n[g]
    out = np.empty(2 * min(largest, 2**15) + 8)
    flat = np.empty(64 * widest + 1024)
    table = np.empty(64 * widest + 1024)
    lows, starts = np.empty(widest, np.int64), np.empty(widest + 1, np.int64)
    begin, stop, first = np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64)
    guess, shape = np.empty(widest, np.int64), np.empty(widest)
    counts = np.empty(widest, np.int64)
    theta, mass, own = np.empty(fine), np.empty(fine), np.zeros(fine)
    of_coarse = np.arange(fine)
    tables = np.zeros(fine)
    chain = groups > 1
    total = 0.0
    for f in range(fine):
        theta[f] = max(share[f], _LEAST)
        if chain:
            theta[f] = k_place * theta[f] + start[f]
        total += theta[f]
    for f in range(fine):
        theta[f] /= total
    failures = 0
    kappa = k_group if chain else k_place
    for d in range(-burn if chain else 0, draws):
        tables[:] = 0.0
        at = 0
        for g in range(groups):
            k = offsets[g + 1] - offsets[g]
            a, b = offsets[g], offsets[g + 1]
            if chain or d == 0:
                shape[:k] = 0.0
                for f in range(fine):
                    shape[cell[g, f]] += kappa * theta[f]
                for c in range(k):
                    shape[c] = max(shape[c], _LEAST * kappa)
                    guess[c] = seen[a + c]
                odds = n[g] / (n[g] + kappa)
                while True:
                    tilt, mean, spread = _solve(
                        kind, seen[a:b], par[a:b], keep[a:b], shape[:k], odds, n[g], guess[:k], tilts[g],
                        lows[:k], starts[: k + 1], flat, out,
                    )  # fmt: skip
                    if spread >= 0.0:
                        break
                    flat = np.empty(2 * flat.size)
                tilts[g] = tilt
                while not _forward(
                    lows[:k], starts[: k + 1], flat, n[g], mean, spread, begin, stop, first, table
                ):
                    table = np.empty(2 * table.size)
            ok = _backward(lows[:k], starts[: k + 1], flat, n[g], begin, stop, first, table, random, counts)
            if not ok:
                failures += 1
                left = n[g]
                for c in range(k):
                    counts[c] = min(lows[c], left)
                    left -= counts[c]
                counts[k - 1] += left
            for f in range(fine):
                mass[f] = kappa * theta[f]
            f = 0
            row = jobs[max(d, 0)]
            before = at
            for c in range(k):
                g_first = f
                while f < fine and cell[g, f] == c:
                    f += 1
                if counts[c] == 0:
                    continue
                if f - g_first == 1:
                    for _ in range(counts[c]):
                        row[at] = g_first
                        at += 1
                    own[g_first] = counts[c]
                else:
                    at = _split(counts[c], mass, g_first, f, of_coarse, random, own, row, at)
            if chain:
                for i in range(before, at):
                    f2 = row[i]
                    if own[f2] > 0.0:
                        tables[f2] += _tables_of(int(own[f2]), mass[f2], random)
                        own[f2] = 0.0
            else:
                for i in range(before, at):
                    own[row[i]] = 0.0
        if chain:
            total = 0.0
            for f in range(fine):
                theta[f] = max(random.standard_gamma(k_place * max(share[f], _LEAST) + tables[f]), 1e-300)
                total += theta[f]
            for f in range(fine):
                theta[f] = max(theta[f] / total, 1e-12)
    return failures
