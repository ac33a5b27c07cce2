"""Proxy truth: homes drawn from the public model, on which a plan can be tried without confidential data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from geo_data.category_counts import count_categories, inside_share
from geo_data.jobs import AttributeCodes, Slots
from geo_data.model import PublicModel

__all__ = ["attribute_concentrations", "proxy_homes"]

Float64 = NDArray[np.float64]

_AT_A_TIME = 64  # destinations whose shares are held at once
_ROUNDS = 10  # of exchanges of homes; more change no table by more than another seed does
_LARGEST = 1e6  # concentration where units differ no more than chance makes them


def proxy_homes(
    model: PublicModel,
    work: NDArray[np.int32],
    seed: int,
    attributes: Mapping[str, AttributeCodes] | None = None,
    concentrations: Mapping[str, float] | None = None,
) -> NDArray[np.int32]:
    """Draw a home for every job under the public model, as far from it as destinations are.

    The shares of each destination unit are Dirichlet(kappa P(. | d)), and those of each of its work blocks
    Dirichlet(kappa times the unit's): blocks differ from their unit as units differ from the model. Homes are
    draws from the block's shares; inside a unit they follow the public weights.

    The public model knows nothing of attributes. So that a plan is not tried on homes that have nothing to do
    with them, the jobs of a work block then exchange homes: who lives in unit u and works in unit d has
    category c with odds in proportion to a profile of the pair, drawn from a Dirichlet around one of u, which
    is drawn around the shares of all jobs. The tables of homes and work blocks stay as they are.

    Parameters
    ----------
    model : PublicModel
    work : ndarray of int32, shape (n,)
        Public work block of each job.
    seed : int
        Nothing confidential is drawn, so the generator is an ordinary one.
    attributes : mapping of str to ndarray of int, shape (n,) each, optional
        Public category of each job; without it homes are exchanged for none.
    concentrations : mapping of str to float, optional
        Of the profiles, for each attribute (`attribute_concentrations`).

    Returns
    -------
    ndarray of int32, shape (n,)
        Home blocks.
    """
    generator = np.random.default_rng(seed)
    order = np.argsort(work, kind="stable")
    unit_of_job = model.units(work[order])
    units, first = np.unique(unit_of_job, return_index=True)
    last = np.append(first[1:], work.size)
    # A block's jobs, one after another: the i-th copies an earlier one with probability i / (kappa + i), and
    # is new otherwise. That is the block's Dirichlet, its shares not written down (Blackwell, MacQueen 1973).
    begins = np.flatnonzero(np.append(True, np.diff(work[order]) != 0))
    begin = np.repeat(begins, np.diff(np.append(begins, work.size)))
    place = np.arange(work.size) - begin
    new = generator.random(work.size) * (model.concentration + place) < model.concentration
    source = np.where(
        new, np.arange(work.size), begin + (generator.random(work.size) * place).astype(np.int64)
    )
    while np.any(source[source] != source):
        source = source[source]
    home_units = np.empty(work.size, np.int64)
    for at in range(0, units.size, _AT_A_TIME):
        batch = slice(at, at + _AT_A_TIME)
        for shares, low, high in zip(model.shares(units[batch]), first[batch], last[batch], strict=True):
            own = _dirichlet(generator, model.concentration * shares)
            home_units[low:high] = _draw(generator, own, high - low)
    homes = np.empty(work.size, np.int32)
    homes[order] = _blocks(model, home_units[source], generator)
    if attributes and concentrations:
        _exchange(model, work, homes, attributes, concentrations, np.random.default_rng([seed, 1]))
    return homes


def attribute_concentrations(model: PublicModel, slots: Slots) -> dict[str, float]:
    """Say how much the categories of residents are taken to differ between units, from public slots.

    As much as those of jobs differ between work units, but for what is a matter of the workplace: where all
    jobs of a work block are of one industry, units differ by industry because their work blocks do, which
    says little of where workers live. So deviations count by the part that varies inside work blocks
    (`inside_share`). Of a unit's jobs, those of a category are taken to be drawn from shares that are
    Dirichlet around the shares of all jobs.

    Parameters
    ----------
    model : PublicModel
    slots : Slots
        All of them.

    Returns
    -------
    dict of str to float
        The concentration of each attribute: the larger, the more alike units are.
    """
    unit = model.units(slots.work)
    found = {}
    for name in slots.categories:
        counts, n, share = count_categories(slots, name, unit)
        spread = float((share * (1 - share)).sum())
        # Squares of Dirichlet-multinomial counts are sum n p (1 - p) (n + c) / (1 + c), c the concentration.
        square = float(((counts - n[:, None] * share) ** 2).sum())
        least, most = spread * n.sum(), spread * (n**2).sum()
        between = max(0.0, (square - least) / (most - least)) if most > least else 0.0  # 1 / (1 + c)
        between *= inside_share(slots, name) ** 2
        found[name] = float(np.clip(1 / max(between, 1 / _LARGEST) - 1, 0.1, _LARGEST))
    return found


def _exchange(
    model: PublicModel,
    work: NDArray[np.int32],
    homes: NDArray[np.int32],
    attributes: Mapping[str, AttributeCodes],
    concentrations: Mapping[str, float],
    generator: np.random.Generator,
) -> None:
    """Let pairs of jobs of a work block exchange homes, until homes are as likely as profiles make them.

    Each exchange has the odds of its outcome (Barker 1965), so the homes of a block come to be a draw of all
    ways to give them to its jobs, each as likely as the product of their odds.
    """
    home_unit = model.units(homes).astype(np.int64)
    pairs, unit = np.unique(model.units(work) * np.int64(model.n_units) + home_unit, return_inverse=True)
    odds = []
    for name, codes in attributes.items():
        share = np.maximum(np.bincount(codes) / max(1, codes.size), 1e-9)
        whole = np.broadcast_to(share, (model.n_units, share.size))
        profile = _profiles(generator, concentrations[name], whole)
        profile = _profiles(generator, concentrations[name], profile[pairs % model.n_units])
        odds.append((np.log(profile / share), codes))
    for _ in range(_ROUNDS):
        order = np.argsort(work + generator.random(work.size), kind="stable")
        of = work[order]
        begin = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
        place = np.arange(of.size) - np.repeat(begin, np.diff(np.append(begin, of.size)))
        first = np.flatnonzero((place[:-1] % 2 == 0) & (of[1:] == of[:-1]))
        i, j = order[first], order[first + 1]
        gain = np.zeros(i.size)
        for table, codes in odds:
            gain += table[unit[j], codes[i]] + table[unit[i], codes[j]]
            gain -= table[unit[i], codes[i]] + table[unit[j], codes[j]]
        taken = generator.random(i.size) * (1 + np.exp(-gain.clip(-500, 500))) < 1
        i, j = i[taken], j[taken]
        homes[i], homes[j] = homes[j], homes[i]
        unit[i], unit[j] = unit[j], unit[i]


def _profiles(generator: np.random.Generator, concentration: float, around: Float64) -> Float64:
    """Draw shares from a Dirichlet around the shares of each row; none is 0."""
    drawn = np.maximum(generator.standard_gamma(concentration * around), 1e-12)
    shares: Float64 = drawn / drawn.sum(axis=1, keepdims=True)
    return shares


def _blocks(
    model: PublicModel, home_units: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a block of each unit by public weight."""
    starts = model.geography.starts(model.level).astype(np.int64)
    running = np.append(0, np.cumsum(model.weights))
    ends = np.append(starts[1:], model.geography.n_blocks)
    before, after = running[starts[home_units]], running[ends[home_units]]
    weight = before + generator.integers(0, after - before)
    return (np.searchsorted(running, weight, side="right") - 1).astype(np.int32)


def _draw(generator: np.random.Generator, shares: Float64, size: int) -> NDArray[np.int64]:
    own = np.cumsum(shares)
    drawn = np.searchsorted(own, generator.random(size) * own[-1], side="right")
    return np.minimum(drawn, shares.size - 1)


def _dirichlet(generator: np.random.Generator, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    gamma = generator.standard_gamma(alpha)
    total = gamma.sum()
    # Gammas of tiny shapes may all underflow; the mean is then as good as any.
    return gamma / total if total > 0 else alpha / alpha.sum()
