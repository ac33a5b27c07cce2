"""Ties: what groups of a place have in common beside it, such as a workplace or a category of an attribute.

Those who work at one workplace live elsewhere than those of the other workplaces of its place, whatever they
earn; those who earn most live elsewhere than the others of the place, at whatever workplace. So groups that
agree in one of these, a tie, have a factor in common for each home area. Over what is expected, profiles of
groups vary the less, the more that is; factors of ties vary alike in small areas and in large ones, as was
found on two regions whose homes are known. Each tie has one of several variances, how often which is found
from the counts of the release.

Given the jobs of a group that came from its place (those that were the first ones of a cell, as Polya's urn
has it), their numbers by area are Poisson ones, so a factor is drawn from a gamma distribution, one kind of
ties after another given the others (Gibbs).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.posterior._gamma import gamma as _gamma
from synth.posterior._gamma import log_rising as _log_rising

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

SHAPES = 2.0 ** np.arange(-1, 11, 2)  # one over the variances of factors, whose mean is 1
_FEW = 16  # jobs of a tie that say nothing of its factors
_LEAST = 1e-6  # factor
_TINY = 1e-300


class Ties(NamedTuple):
    """The ties between the groups of a place, and what is known of them so far: draws change it.

    Attributes
    ----------
    of : ndarray of int64, shape (n_kinds, n_groups)
        The tie of each kind that a group is in, or -1.
    kind : ndarray of int64, shape (n_ties,)
        Rising.
    jobs : ndarray of float64, shape (n_ties,)
    shape : ndarray of int64, shape (n_ties,)
        That of the factors of each tie, by position among `SHAPES`.
    factor : ndarray of float64, shape (n_ties, n_areas)
        By home area.
    tables : ndarray of float64, shape (n_ties, n_areas)
        How many jobs of the tie came from its place, in the draw before.
    given : ndarray of float64, shape (n_groups,)
        How many of each group did; all are 0 before there was a draw.
    level : ndarray of float64, shape (n_areas,)
        A factor that all groups have, with which their homes are, together, those of their place.
    """

    of: Int64
    kind: Int64
    jobs: Float64
    shape: Int64
    factor: Float64
    tables: Float64
    given: Float64
    level: Float64


def ties_of(alike: Int64, n: Int64, areas: int, chances: Float64, random: np.random.Generator) -> Ties:
    """Return the ties of a place, as they are before anything is known.

    Parameters
    ----------
    alike : ndarray of int64, shape (n_kinds, n_groups)
        What groups agree in.
    n : ndarray of int64, shape (n_groups,)
        Jobs of each.
    areas : int
        Number of home areas.
    chances : ndarray of float64, shape (n_kinds, n_shapes)
    random : numpy.random.Generator

    Returns
    -------
    Ties
        Of at least two groups each, and of jobs enough to say something. The other groups of the place are
        in one together. Where groups agree in nothing, or all of them do, there are none.
    """
    of, kinds, jobs = np.full(alike.shape, -1), [np.zeros(0, np.int64)], [np.zeros(0)]
    for k, labels in enumerate(alike):
        every, label, times = np.unique(labels, return_inverse=True, return_counts=True)
        held = np.bincount(label, n, every.size)
        some = (times > 1) & (held >= _FEW)
        number = np.where(some, np.cumsum(some) - 1, some.sum())[label]
        held = np.bincount(number, n)
        if held.size > 1 and some.any():
            of[k] = number + sum(one.size for one in jobs)
            kinds.append(np.full(held.size, k))
            jobs.append(held.astype(np.float64))
    kind = np.concatenate(kinds).astype(np.int64)
    u = random.random(kind.size)[:, np.newaxis] if kind.size else np.zeros((0, 1))
    shape = (u >= np.cumsum(chances[kind], axis=1)[:, :-1]).sum(axis=1).astype(np.int64)
    size = kind.size, areas
    number, given = of.astype(np.int64), np.zeros(n.size)
    return Ties(
        number, kind, np.concatenate(jobs), shape, np.ones(size), np.zeros(size), given, np.ones(areas)
    )


@_compiled
def _log_likelihood(shape, tables, exposure):  # type: ignore[no-untyped-def]
    """Return how likely numbers by area are, of factors that are not known, but for what no shape changes."""
    value = 0.0
    for a in range(tables.size):
        if tables[a] > 0.0:
            value += _log_rising(shape, tables[a]) - tables[a] * math.log(shape + exposure[a])
        value -= shape * math.log1p(exposure[a] / shape)
    return value


@_compiled
def vary_factors(ties, n, mass, chances, noted, random):  # type: ignore[no-untyped-def]
    """Draw shapes and factors of all ties, given how many jobs of each came from their place.

    Parameters
    ----------
    ties : Ties
        Shapes, factors and level are changed.
    n : ndarray of int64, shape (n_groups,)
        Jobs of each.
    mass : ndarray of float64, shape (n_groups, n_areas)
        Shares of homes that are expected of each group without its ties; changed.
    chances, noted : ndarray of float64, shape (n_kinds, n_shapes)
        Logarithms of the chances of shapes; to the other the jobs of ties are added that have one.
    random : numpy.random.Generator
    """
    (groups, areas), of, factor = mass.shape, ties.of, ties.factor
    weight, wanted, found = np.empty(groups), np.zeros(areas), np.zeros(areas)
    for g in range(groups):
        wanted += mass[g] * (n[g] / mass[g].sum())
        mass[g] *= ties.level
        for k in range(of.shape[0]):
            if of[k, g] >= 0:
                mass[g] *= factor[of[k, g]]
        # Poisson numbers of this exposure, which is drawn by chance, are multinomial.
        weight[g] = _gamma(ties.given[g], random) / mass[g].sum()
    exposure, ratio = np.zeros(factor.shape), np.ones(factor.shape)
    first = end = 0
    for k in range(of.shape[0]):
        for g in range(groups):
            if of[k, g] >= 0:
                exposure[of[k, g]] += mass[g] * weight[g]
        mean, jobs = np.zeros(areas), 0.0
        while end < ties.kind.size and ties.kind[end] == k:
            exposure[end] /= factor[end]
            shape = _shape(end, ties, exposure, chances[k], random)
            noted[k, ties.shape[end]] += ties.jobs[end]
            for a in range(areas):
                now = _gamma(shape + ties.tables[end, a], random) / (shape + exposure[end, a])
                ratio[end, a] = max(now, _LEAST) / factor[end, a]
            factor[end] *= ratio[end]
            mean += factor[end] * ties.jobs[end]
            jobs += ties.jobs[end]
            end += 1
        # What homes a place has was drawn from the sums of its groups: it is what its ties have in the mean,
        # not what all of them vary around.
        for i in range(first, end):
            factor[i] *= jobs / mean
            ratio[i] *= jobs / mean
        for g in range(groups):
            if of[k, g] >= 0:
                mass[g] *= ratio[of[k, g]]
        first = end
    for g in range(groups):
        found += mass[g] * (n[g] / mass[g].sum())
    ties.level[:] *= wanted / np.maximum(found, _TINY)


@_compiled
def _shape(i, ties, exposure, chances, random):  # type: ignore[no-untyped-def]
    """Draw whether a tie has one of the next shapes; return its shape."""
    j = ties.shape[i]
    other = j + 1 if random.random() < 0.5 else j - 1
    if 0 <= other < SHAPES.size:
        log = chances[other] - chances[j]
        log += _log_likelihood(SHAPES[other], ties.tables[i], exposure[i])
        log -= _log_likelihood(SHAPES[j], ties.tables[i], exposure[i])
        if math.log(1.0 - random.random()) < log:
            ties.shape[i] = other
    return SHAPES[ties.shape[i]]
