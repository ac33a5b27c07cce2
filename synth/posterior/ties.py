"""Ties: what groups of a place have in common beside it, such as a workplace or a category of an attribute.

Those who work at one workplace live elsewhere than those of the other workplaces of its place, whatever they
earn; those who earn most live elsewhere than the others of the place, at whatever workplace. So groups that
agree in one of these, a tie, have a factor in common for each home area. Over what is expected, profiles of
groups vary the less, the more that is; factors of ties vary alike in small areas and in large ones, as was
found on two regions whose homes are known. Each tie has one of several variances, as likely beforehand.

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
    member : ndarray of int64, shape (n_kinds, n_groups)
        The tie of each kind that a group is in, or -1.
    kind : ndarray of int64, shape (n_ties,)
        Rising.
    jobs : ndarray of float64, shape (n_ties,)
    shape : ndarray of int64, shape (n_ties,)
        That of the factors of each tie, by position among `SHAPES`.
    factor : ndarray of float64, shape (n_ties, n_areas)
        By home area.
    tie_jobs : ndarray of float64, shape (n_ties, n_areas)
        How many jobs of the tie came from its place, in the draw before.
    group_jobs : ndarray of float64, shape (n_groups,)
        How many of each group did; all are 0 before there was a draw.
    level : ndarray of float64, shape (n_areas,)
        A factor that all groups have, with which their homes are, together, those of their place.
    """

    member: Int64
    kind: Int64
    jobs: Float64
    shape: Int64
    factor: Float64
    tie_jobs: Float64
    group_jobs: Float64
    level: Float64


def ties_of(labels: Int64, n: Int64, areas: int, random: np.random.Generator) -> Ties:
    """Return the ties of a place, as they are before anything is known.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_kinds, n_groups)
        What groups agree in.
    n : ndarray of int64, shape (n_groups,)
        Jobs of each.
    areas : int
        Number of home areas.
    random : numpy.random.Generator

    Returns
    -------
    Ties
        Of at least two groups each, and of jobs enough to say something. The other groups of the place are
        in one together. Where groups agree in nothing, or all of them do, there are none.
    """
    member, kinds, jobs = np.full(labels.shape, -1), [np.zeros(0, np.int64)], [np.zeros(0)]
    for k, of_kind in enumerate(labels):
        distinct, label, times = np.unique(of_kind, return_inverse=True, return_counts=True)
        label_jobs = np.bincount(label, n, distinct.size)
        some = (times > 1) & (label_jobs >= _FEW)
        number = np.where(some, np.cumsum(some) - 1, some.sum())[label]
        tie_jobs = np.bincount(number, n)
        if tie_jobs.size > 1 and some.any():
            member[k] = number + sum(before.size for before in jobs)
            kinds.append(np.full(tie_jobs.size, k))
            jobs.append(tie_jobs.astype(np.float64))
    kind = np.concatenate(kinds).astype(np.int64)
    shape, size = random.integers(SHAPES.size, size=kind.size), (kind.size, areas)
    return Ties(
        member.astype(np.int64), kind, np.concatenate(jobs), shape, np.ones(size), np.zeros(size),
        np.zeros(n.size), np.ones(areas),
    )  # fmt: skip


@_compiled
def _log_likelihood(shape, jobs, exposure):  # type: ignore[no-untyped-def]
    """Return how likely numbers by area are, of factors that are not known, but for what no shape changes."""
    value = 0.0
    for a in range(jobs.size):
        if jobs[a] > 0.0:
            value += _log_rising(shape, jobs[a]) - jobs[a] * math.log(shape + exposure[a])
        value -= shape * math.log1p(exposure[a] / shape)
    return value


@_compiled
def draw_factors(ties, n, mass, random):  # type: ignore[no-untyped-def]
    """Draw shapes and factors of all ties, given how many jobs of each came from their place.

    Parameters
    ----------
    ties : Ties
        Shapes, factors and level are changed.
    n : ndarray of int64, shape (n_groups,)
        Jobs of each.
    mass : ndarray of float64, shape (n_groups, n_areas)
        Shares of homes that are expected of each group without its ties; changed.
    random : numpy.random.Generator
    """
    (groups, areas), member, factor = mass.shape, ties.member, ties.factor
    weight, target, total = np.empty(groups), np.zeros(areas), np.zeros(areas)
    for g in range(groups):
        target += mass[g] * (n[g] / mass[g].sum())
        mass[g] *= ties.level
        for k in range(member.shape[0]):
            if member[k, g] >= 0:
                mass[g] *= factor[member[k, g]]
        # Poisson numbers of this exposure, which is drawn by chance, are multinomial.
        weight[g] = _gamma(ties.group_jobs[g], random) / mass[g].sum()
    exposure, ratio = np.zeros(factor.shape), np.ones(factor.shape)
    first = end = 0
    for k in range(member.shape[0]):
        for g in range(groups):
            if member[k, g] >= 0:
                exposure[member[k, g]] += mass[g] * weight[g]
        mean, jobs = np.zeros(areas), 0.0
        while end < ties.kind.size and ties.kind[end] == k:
            exposure[end] /= factor[end]
            shape = _draw_shape(end, ties, exposure, random)
            for a in range(areas):
                drawn = _gamma(shape + ties.tie_jobs[end, a], random) / (shape + exposure[end, a])
                ratio[end, a] = max(drawn, _LEAST) / factor[end, a]
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
            if member[k, g] >= 0:
                mass[g] *= ratio[member[k, g]]
        first = end
    for g in range(groups):
        total += mass[g] * (n[g] / mass[g].sum())
    ties.level[:] *= target / np.maximum(total, _TINY)


@_compiled
def _draw_shape(i, ties, exposure, random):  # type: ignore[no-untyped-def]
    """Draw whether a tie has one of the next shapes (a Metropolis step); return its shape."""
    j = ties.shape[i]
    other = j + 1 if random.random() < 0.5 else j - 1
    if 0 <= other < SHAPES.size:
        log = _log_likelihood(SHAPES[other], ties.tie_jobs[i], exposure[i])
        log -= _log_likelihood(SHAPES[j], ties.tie_jobs[i], exposure[i])
        if math.log(1.0 - random.random()) < log:
            ties.shape[i] = other
    return SHAPES[ties.shape[i]]
