"""Choosing the mechanism's numbers: the smallest prior whose certificate meets the request.

One integer steers a class of pools: t, the largest number of draws from an empty cell that is not
bad. The prior of a cell with retention f is then a = t / (f G - 1), the smallest with that threshold,
where G = e^U* and U* + V = eps, or a multiple of it. Searches use floats; what they find is accepted only
after the same bounds were computed in ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth.dirichlet.few_cells import FEW, loss_bound
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.pruning import pruning_gain, quick_pruning_gain
from synth.dirichlet.record import presence_delta_bound, record_delta_bound
from synth.errors import ShownError
from synth.plan import GuaranteeName, Pools, RecordRange
from synth.rationals import decimal_up
from synth.tails import FLOAT, Arithmetic, rigorous, upper_fraction

DENOMINATOR = 10**9
"""q: priors are multiples of a billionth."""

MAX_WEIGHT = 2**62
"""Largest total integer weight of an urn (q n + sum of A + q m) that the sampler is given."""

_MAX_GAIN = 1e15  # a larger gain buys nothing: the prior is then a unit in the last place
_EXACT_SIZES = 64  # pools of up to this size are classed by their exact size
_GROWTH = 1.03  # ratio of neighbouring size limits above that
_ROUGH_GROWTH = 1.2  # the same for a trial: priors are some thousandths larger
_WIDE_GROWTH = 1.1  # the same for classes of all sizes
_ROOM = 4  # times the largest pool that is expected: there are classes for at least so many slots
_MOST_ROOM = 2**20  # and for as many as that, where a prior is certified for them


class BudgetTooSmallError(ShownError, ValueError):
    """No prior certifies the requested (epsilon, delta) for some pools.

    Parameters
    ----------
    message : str
    find : callable, optional
        Finds `smallest`. That takes seconds, so it is done when somebody asks for it, or reads the message.
    """

    def __init__(self, message: str, find: Callable[[], Fraction | None] | None = None) -> None:
        super().__init__(message)
        self._find = find

    @cached_property
    def smallest(self) -> Fraction | None:
        """The smallest epsilon (rounded up) that can be certified with everything else unchanged, if any."""
        return self._find() if self._find else None

    def __str__(self) -> str:
        message = super().__str__()
        if self._find is None:
            return message
        if self.smallest is None:
            return f"{message}, and no epsilon up to 100 would do"
        return f"{message}; the smallest epsilon that would do is {decimal_up(self.smallest, 4)}"


def group_pools(
    pools: Pools,
    cells: NDArray[np.int64],
    retention: tuple[Fraction, ...],
    limits: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    multiple: tuple[int, ...] | None = None,
    rough: bool = False,
) -> tuple[NDArray[np.int32], list[PoolClass]]:
    """Group pools into classes of similar size and number of cells.

    Parameters
    ----------
    pools : Pools
    cells : ndarray of int64, shape (n_pools, n_strata)
        Cells of each pool's domain in each retention stratum.
    retention : tuple of Fraction
        Of each stratum.
    limits : tuple of two ndarray of int64, shape (n_pools,), optional
        The fewest and the most records of each pool, where that is not its slots.
    multiple : tuple of int, optional
        How many times the smallest prior the cells of each stratum have; by default 1.
    rough : bool
        Whether fewer classes suffice, for a trial.

    Returns
    -------
    pool_class : ndarray of int32, shape (n_pools,)
    classes : list of PoolClass
        With the extremes of their members, gain 1 and prior 0: not calibrated yet.
    """
    n, steps = pools.n, [_EXACT_SIZES + 1]
    while steps[-1] <= int(n.max()):
        steps.append(math.ceil(steps[-1] * (_ROUGH_GROWTH if rough else _GROWTH)))
    size = np.where(n <= _EXACT_SIZES, n, _EXACT_SIZES + np.searchsorted(np.array(steps), n, side="right"))
    # Cells matter through the weight they give the urn: within a factor of 2 is close. Few are counted, for
    # the bounds of pools that are alike.
    times = (1,) * cells.shape[1] if multiple is None else multiple
    whole, larger = cells.sum(axis=1), max(times) > 1
    alone = larger and times.count(1) == 1  # nearly all cells are then of the first stratum
    width = np.ceil(np.log2(np.stack([whole, cells[:, 0] + 1]))).astype(np.int64)
    width[0] = np.where(whole <= FEW, whole, FEW + width[0])
    key = (size * 128 + width[0]) * 128 + (0 if alone else width[1])
    if larger:
        few = whole <= FEW
        code = key[few]
        for column in cells[few].T:
            _, code = np.unique(code * (FEW + 1) + column, return_inverse=True)
        key[few] = -1 - code
    _, pool_class = np.unique(key, return_inverse=True)
    count = int(pool_class.max()) + 1
    n_min = np.full(count, np.iinfo(np.int64).max)
    n_max, m_max = np.zeros(count, np.int64), np.zeros(count, np.int64)
    most = np.zeros((count, cells.shape[1]), np.int64)
    least = np.full_like(most, np.iinfo(np.int64).max)
    fewest, largest = limits or (n, n)
    np.minimum.at(n_min, pool_class, fewest)
    np.maximum.at(n_max, pool_class, largest)
    np.maximum.at(m_max, pool_class, pools.m)
    np.maximum.at(most, pool_class, cells)
    np.minimum.at(least, pool_class, cells)
    none = (0,) * len(retention)
    classes = [
        PoolClass(low, high, draws, tuple(k), tuple(j), none, Fraction(1), none, retention, DENOMINATOR)
        for low, high, draws, k, j in zip(
            n_min.tolist(), n_max.tolist(), m_max.tolist(), most.tolist(), least.tolist(), strict=True
        )
    ]
    return pool_class.astype(np.int32), classes


def classes_of_all_sizes(
    largest: int, cells: NDArray[np.int64], retention: tuple[Fraction, ...], record_range: RecordRange
) -> tuple[list[PoolClass], int]:
    """Return classes for pools of every size that there may be, of any of some domains.

    Lemma 44 of docs/privacy.md.

    Parameters
    ----------
    largest : int
        Slots of the largest pool that is expected.
    cells : ndarray of int64, shape (n_domains, n_strata)
        Cells of each domain in each retention stratum.
    retention : tuple of Fraction
        Of each stratum.
    record_range : RecordRange
        How many records a pool may have.

    Returns
    -------
    list of PoolClass
        By rising size, with gain 1 and prior 0: not calibrated yet.
    int
        How many of these a plan needs: those for up to some times as many slots as are expected.
    """
    last = [*range(1, _EXACT_SIZES + 1)]
    while last[-1] < max(_MOST_ROOM, _ROOM * largest):
        last.append(math.floor(last[-1] * _WIDE_GROWTH))
    sizes = np.array(last, np.int64)
    fewest, _ = record_range.limits(np.append(0, sizes[:-1]) + 1)
    _, most = record_range.limits(sizes)
    of_any, of_all, none = cells.max(axis=0), cells.min(axis=0), (0,) * len(retention)
    classes = [
        PoolClass(
            low, high, draws, tuple(of_any.tolist()), tuple(of_all.tolist()), none, Fraction(1), none,
            retention, DENOMINATOR,
        )
        for low, high, draws in zip(fewest.tolist(), most.tolist(), last, strict=True)
    ]  # fmt: skip
    return classes, int(np.searchsorted(sizes, _ROOM * largest)) + 1


def alike_classes(
    pool_class: NDArray[np.int32], m: NDArray[np.int64], classes: Sequence[PoolClass]
) -> list[bool]:
    """Say of each class whether its pools have the same slots, draws and cells.

    Parameters
    ----------
    pool_class : ndarray of int32, shape (n_pools,)
    m : ndarray of int64, shape (n_pools,)
        Draws of each pool.
    classes : sequence of PoolClass
        Every pool is inside the limits of its class.
    """
    fewest = np.full(len(classes), np.iinfo(np.int64).max)
    np.minimum.at(fewest, pool_class, m)
    return [
        c.n_min == c.n_max and draws == c.m_max and c.cells_min == c.cells
        for c, draws in zip(classes, fewest.tolist(), strict=True)
    ]


class Goal(NamedTuple):
    """What the numbers of a class are to meet, and how they are sought.

    Attributes
    ----------
    epsilon : Fraction
        U* + V must not exceed it.
    allowance : Fraction
        The delta of each pool of the class must not exceed it.
    prior : Fraction, optional
        Use this prior for every cell instead of searching.
    guarantee : {"pdp", "dp"}
        Which delta the allowance is for: `loss_bound`, or `record_delta_bound` at epsilon.
    presence : bool
        Whether the delta is for one record more or less too (`presence_delta_bound`).
    alike : bool
        Whether every pool of the class has exactly n_max slots, m_max draws and these cells, and a number of
        records that is public (`alike_classes`).
    rough : bool
        Whether floats suffice, for a trial: nothing is proved then, and no release may be made from it.
    multiple : tuple of int, optional
        How many times the smallest prior that is certified the cells of each stratum have; by default 1.
    """

    epsilon: Fraction
    allowance: Fraction
    prior: Fraction | None = None
    guarantee: GuaranteeName = "pdp"
    presence: bool = False
    alike: bool = False
    rough: bool = False
    multiple: tuple[int, ...] | None = None


def calibrate_class(
    pool_class: PoolClass,
    goal: Goal,
    near: int = 1,
) -> PoolClass | None:
    """Give a class the smallest certified prior and the largest gain for it.

    Parameters
    ----------
    pool_class : PoolClass
        Sizes and cells; gain and prior are replaced.
    goal : Goal
    near : int
        Where the search for t begins: the t of a similar class makes it short.

    Returns
    -------
    PoolClass or None
        None where no prior is certified: the pruning loss leaves no room, or the weights would not
        fit the sampler.
    """
    epsilon, allowance, rough = goal.epsilon, goal.allowance, goal.rough
    kept = _kept(pool_class.cells_min, pool_class.retention, allowance / pool_class.n_max)
    pool_class = replace(pool_class, kept=kept)

    largest_odds = min(math.exp(float(min(epsilon, Fraction(700)))), _MAX_GAIN)
    within = float(allowance)

    def person(calibrated: PoolClass, arithmetic: Arithmetic) -> Any:
        if goal.presence:
            return presence_delta_bound(calibrated, epsilon, arithmetic)
        return record_delta_bound(calibrated, epsilon, arithmetic, goal.alike)

    def delta(calibrated: PoolClass) -> float:
        if goal.guarantee == "pdp":
            # Sums over the histograms of few cells take their time: a trial has the larger bound.
            alike = goal.alike and not rough
            return float(loss_bound(calibrated, FLOAT, alike, within, lightest=True)[0])
        return float(person(calibrated, FLOAT))

    def holds(calibrated: PoolClass) -> bool:
        if rough:
            return True
        proved = proved_loss(calibrated, goal.alike)
        if proved.loss > epsilon:
            return False
        if goal.guarantee == "pdp":
            return proved.failure <= allowance
        with rigorous() as balls:
            return upper_fraction(person(calibrated, balls)) <= allowance

    if goal.prior is not None:
        numerator = math.ceil(pool_class.denominator * goal.prior)
        fixed = _with_gain(pool_class, largest_odds, lambda *_: numerator, None, rough)
        return fixed if fixed and holds(fixed) else None

    @cache
    def candidate(threshold: int) -> PoolClass | None:
        def prior_of(top: int, bottom: int) -> int:  # q t / (odds - 1), rounded up
            return -(-pool_class.denominator * threshold * bottom // (top - bottom))

        return _with_gain(pool_class, largest_odds, prior_of, goal.multiple, rough)

    def enough(calibrated: PoolClass | None) -> bool:
        # Without a candidate a larger threshold has none either, so the search must turn back.
        return calibrated is None or delta(calibrated) <= within

    # A bracket low < t <= high around the start, widened in doubling steps; 0 is never enough.
    high, step = min(max(near, 1), pool_class.m_max), 1
    low = high - 1
    if within == 0:
        # Pure epsilon: no draw may be bad. Tails of floats are 0 long before t = m and cannot decide it.
        low, high = pool_class.m_max - 1, pool_class.m_max
    elif enough(candidate(high)):
        while low > 0 and enough(candidate(low)):
            low, high, step = max(0, low - step), low, 2 * step
    else:
        low = high
        while low == high or (high < pool_class.m_max and not enough(candidate(high))):
            low, high, step = high, min(high + step, pool_class.m_max), 2 * step
            if low == pool_class.m_max:
                return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(candidate(middle)) else (middle, high)
    # t = m is what is left where floats were too far off (an allowance near their smallest number).
    for threshold in sorted({*range(high, min(high + 3, pool_class.m_max) + 1), pool_class.m_max}):
        calibrated = candidate(threshold)
        if calibrated is not None and holds(calibrated):
            return calibrated
    return None


class ProvedLoss(NamedTuple):
    """What is proved of the loss of a class, upper ends.

    Attributes
    ----------
    loss, block_loss, pruning_loss : Fraction
        U* + V, U* and V.
    failure, tail : Fraction
        The probability of a larger loss, and the delta of one person at that loss (`loss_bound`).
    """

    loss: Fraction
    block_loss: Fraction
    pruning_loss: Fraction
    failure: Fraction
    tail: Fraction


@lru_cache(maxsize=8192)  # a run certifies the classes that it has calibrated
def proved_loss(pool_class: PoolClass, alike: bool) -> ProvedLoss:
    """Prove what the loss of a class is, in ball arithmetic."""
    with rigorous() as balls:
        gain, pruning = balls.number(pool_class.gain), pruning_gain(pool_class, balls)
        failure, tail = map(upper_fraction, loss_bound(pool_class, balls, alike))
        loss, block, coins = (upper_fraction(balls.log(odds)) for odds in (gain * pruning, gain, pruning))
        return ProvedLoss(loss, block, coins, min(failure, Fraction(1)), tail)


def _kept(cells: tuple[int, ...], retention: tuple[Fraction, ...], allowance: Fraction) -> tuple[int, ...]:
    """Return how many cells of each stratum may be taken to be in the urn, at little cost in delta.

    The cost, `shortfall_bound`, is at most a 64th of the allowance, here that of one record, so that it
    is small beside the tail of one person's cell too.
    """
    kept = []
    # Logarithms of integers: an allowance may be below the smallest float.
    nats = math.inf
    if allowance:
        nats = math.log(64 * len(cells) * allowance.denominator) - math.log(allowance.numerator)
    for f, k in zip(retention, cells, strict=True):
        if f == 1 or nats == math.inf:
            kept.append(k if f == 1 else 0)
            continue
        # Hoeffding gives a start at or below the answer, and Chernoff allows a little more.
        most = max(0, math.floor(k * float(f) - math.sqrt(k * nats / 2)))
        while most + 1 < k * f and k * _entropy(most / k, float(f)) >= nats:
            most += 1
        kept.append(most)
    return tuple(kept)


def _entropy(p: float, f: float) -> float:
    """Return the relative entropy of coins, in nats, 0 <= p < f < 1."""
    rest = (1 - p) * math.log((1 - p) / (1 - f))
    return rest + (p * math.log(p / f) if p > 0 else 0.0)


def _with_gain(
    pool_class: PoolClass,
    goal: float,
    prior_of: Callable[[int, int], int],
    multiple: tuple[int, ...] | None,
    rough: bool,
) -> PoolClass | None:
    """Solve U* + V = eps for the gain, where the prior (and with it V) depends on the gain; `goal` is e^eps.

    `prior_of` gives the numerator A_s of a prior for f_s G, which is above 1: its numerator and denominator.
    In integers, because fractions would take much of the time of a search.

    Starts from V = 0 and only ever lowers the gain, so it ends at the largest solution if there is one.
    """
    odds, sure = goal, pool_class.keeps_all
    pruned = quick_pruning_gain if rough else pruning_gain
    # Logarithms of a density that is a power n + m: that many roundings.
    margin = max(1e-8, 1e-15 * (pool_class.n_max + pool_class.m_max))
    for _ in range(200):
        gain = _short(odds * (1 - margin))  # below what the floats found
        calibrated = _priors(pool_class, gain, prior_of, multiple)
        if calibrated is None or sure:  # where nothing is pruned V is 0
            return calibrated
        following = goal / pruned(calibrated, FLOAT)
        if following >= odds * (1 - (1e-4 if rough else 1e-9)):
            return calibrated
        odds = following
    return None


@lru_cache(maxsize=64)  # without pruning it is the same every time
def _short(value: float) -> Fraction:
    return Fraction(f"{value:.9e}")


def _priors(
    pool_class: PoolClass,
    gain: Fraction,
    prior_of: Callable[[int, int], int],
    multiple: tuple[int, ...] | None,
) -> PoolClass | None:
    c, prior, q = pool_class, [], pool_class.denominator
    weight = q * (c.n_max + c.m_max)
    g, h = gain.as_integer_ratio()
    for f, cells, times in zip(c.retention, c.cells, multiple or (1,) * len(c.cells), strict=True):
        if cells == 0:
            prior.append(0)
            continue
        top, bottom = f.numerator * g, f.denominator * h
        if top <= bottom:
            return None
        prior.append(times * max(1, prior_of(top, bottom)))
        weight += prior[-1] * cells
    if weight > MAX_WEIGHT:
        return None
    # By its names `dataclasses.replace` takes three times as long.
    return PoolClass(
        c.n_min, c.n_max, c.m_max, c.cells, c.cells_min, c.kept, gain, tuple(prior), c.retention, q
    )


def smallest_epsilon(certifies: Callable[[Fraction], bool], epsilon: Fraction) -> Fraction | None:
    """Return the smallest epsilon, to three digits and rounded up, that `certifies` accepts.

    Parameters
    ----------
    certifies : callable
        Says whether an epsilon can be certified; true above some value.
    epsilon : Fraction
        One that cannot.

    Returns
    -------
    Fraction or None
        None if nothing up to 100 is certified.
    """
    low, high = epsilon, max(2 * epsilon, Fraction(1, 1000))
    while not certifies(high):
        low, high = high, 2 * high
        if high > 100:
            return None
    while high - low > high / 2000:
        middle = (low + high) / 2
        low, high = (low, middle) if certifies(middle) else (middle, high)
    rounded = Fraction(decimal_up(high, 3))
    return rounded if certifies(rounded) else high
