"""How much attackers who do not know every other record can learn from a release of Dirichlet resampling.

Differential privacy is a promise against somebody who may know every record but one. Here attackers are of
classes, as in epsilon-privacy (Machanavajjhala, Gehrke and Götz, VLDB 2009): they know some of the other
records of a pool, and about the homes of the others they have a belief that can change, a Dirichlet
distribution. What they hold after the release is compared with what they would hold, seeing the same release,
if it had been made without the record. Lemma 34 of docs/privacy.md says how far the two can be apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from synth.dirichlet.calibration import alike_classes
from synth.dirichlet.losses import PoolClass, Stratum, strata
from synth.dirichlet.parameters import DirichletParameters, check_membership
from synth.dirichlet.pruning import pruning_gain, quick_pruning_gain
from synth.dirichlet.record import pure_gain
from synth.plan import Plan
from synth.rationals import decimal_up
from synth.tails import Arithmetic, rational, rigorous, upper_fraction

KNOWLEDGE: dict[str, Callable[[int], int]] = {
    "all but one job": lambda others: others,
    "a random half": lambda others: (others + 1) // 2,
    "one co-worker": lambda others: min(others, 1),
    "public tables only": lambda others: 0,
}
"""What may be known of a pool besides public tables: how many homes, of how many other jobs."""

_KNOWN_WHOLE = 2  # pools of more jobs have some that nobody of the other classes knows
_ONE = Fraction(1)
_SMALL = 32  # in pools of at most so many slots and draws means are summed, for every number of draws


@dataclass(frozen=True)
class Attackers:
    """A class of attackers.

    Attributes
    ----------
    knowledge : str
        A key of `KNOWLEDGE`. Which jobs these are does not matter: the bound is for the worst.
    stubbornness : Fraction, optional
        The sum of sigma: the weight of their belief about the homes of a pool before they know any, as that
        of so many homes seen; its shape may be any. Without it, beliefs with at most the weight of the plan's
        own prior in each cell.
    """

    knowledge: str
    stubbornness: Fraction | None = None

    def __post_init__(self) -> None:
        if self.knowledge not in KNOWLEDGE:
            raise ValueError(f"what is known is one of {', '.join(KNOWLEDGE)}, not {self.knowledge!r}")
        if self.stubbornness is not None and self.stubbornness <= 0:
            raise ValueError("stubbornness must be positive")

    def __repr__(self) -> str:
        belief = "beliefs of no more weight than the plan's prior"
        if self.stubbornness is not None:
            belief = f"stubbornness {decimal_up(self.stubbornness, 6)}"
        return f"<Attackers: who know {self.knowledge}, {belief}>"

    def known(self, size: int) -> int:
        """Return how many of the other jobs of a pool of some size they know."""
        return KNOWLEDGE[self.knowledge](size - 1)

    def unknown(self, size: int) -> int:
        """Return how many of the other jobs of a pool of some size they do not know."""
        return size - 1 - self.known(size)


@dataclass(frozen=True)
class Change:
    """The most that a class of attackers can gain.

    Attributes
    ----------
    odds : Fraction
        By which factor a release may change the odds between two homes of one job, at most.
    exact : bool
        Whether some of these attackers come as near to it as one likes; otherwise it is a bound.
    """

    odds: Fraction
    exact: bool

    def __repr__(self) -> str:
        near = ", to which some attackers come as near as they like" if self.exact else ""
        return f"<Change: odds by a factor of at most {decimal_up(self.odds, 6)}{near}>"


def largest_changes(
    plan: Plan, attackers: Sequence[Attackers], pools: NDArray[np.bool_] | None = None
) -> list[Change]:
    """Return the most that attackers can gain in some pools of a plan.

    Parameters
    ----------
    plan : Plan
        Of Dirichlet resampling, with public numbers of records.
    attackers : sequence of Attackers
    pools : ndarray of bool, shape (n_pools,), optional
        Which pools; by default all.

    Returns
    -------
    list of Change
        For each attackers one; proved, and rounded up.

    Raises
    ------
    ValueError
        If the plan is of another kind, or a pool is outside its class.
    """
    [changes] = changes_of_groups(
        plan, attackers, [np.ones(plan.pools.n.size, bool) if pools is None else pools]
    )
    return changes


def changes_of_groups(
    plan: Plan, attackers: Sequence[Attackers], groups: Iterable[NDArray[np.bool_]]
) -> list[list[Change]]:
    """Return `largest_changes` of groups of pools; whether all are inside their classes is checked once."""
    parameters = _parameters(plan)
    alike = alike_classes(plan.pool_class, plan.pools.m, parameters.classes)
    changes = []
    for pools in groups:
        numbers = np.unique(plan.pool_class[pools]).tolist()
        classes = tuple(parameters.classes[number] for number in numbers)
        largest = _largest(classes, tuple(attackers))
        changes.append(
            [
                Change(
                    odds,
                    alike[numbers[position]] and _exact(classes[position], attacker),
                )
                for attacker, (odds, position) in zip(attackers, largest, strict=True)
            ]
        )
    return changes


def some_exact(plan: Plan, attackers: Sequence[Attackers]) -> bool:
    """Say whether in pools of any class what any of the attackers can gain is known exactly."""
    parameters = _parameters(plan)
    alike = alike_classes(plan.pool_class, plan.pools.m, parameters.classes)
    return any(
        identical and _exact(c, attacker)
        for c, identical in zip(parameters.classes, alike, strict=True)
        for attacker in attackers
    )


def _parameters(plan: Plan) -> DirichletParameters:
    parameters = plan.parameters
    if not isinstance(parameters, DirichletParameters) or plan.target.record_range is not None:
        raise ValueError("attackers are bounded for resampling from pools whose numbers of jobs are public")
    check_membership(plan, parameters)
    return parameters


@lru_cache(maxsize=128)  # a run says this of its plan, and then checks what it wrote
def _largest(
    classes: tuple[PoolClass, ...],
    attackers: tuple[Attackers, ...],
) -> list[tuple[Fraction, int]]:
    """Return for each attackers the largest change of odds in any of some classes, and the place of one."""
    # Classes go from small pools to large ones, and one of the two ends is often the worst, or nearly: then
    # the others take less time.
    places = dict.fromkeys([0, len(classes) - 1, *range(len(classes))])
    cells = [_cells_of(c) for c in classes]
    largest = []
    with rigorous() as balls:
        for attacker in attackers:
            most, worst, position = _ONE, balls.number(1), 0
            for place in places:
                change = _change(classes[place], cells[place], attacker, balls, worst)
                if change is not worst and (odds := upper_fraction(change)) > most:
                    most, worst, position = odds, balls.number(odds), place
            largest.append((most, position))
    return largest


def best_share(odds: Fraction, candidates: int) -> Fraction:
    """Return the largest probability of one of some homes, equally likely but for a change of odds.

    Parameters
    ----------
    odds : Fraction
        By which factor the odds between any two homes may change, at least 1.
    candidates : int
        Homes that may be it, at least 1.

    Returns
    -------
    Fraction
        The best share of correct guesses.
    """
    return odds / (odds + candidates - 1)


def largest_change(
    pool_class: PoolClass,
    attackers: Attackers,
    arithmetic: Arithmetic,
    most: Fraction = _ONE,
) -> Any:
    """Bound by how much attackers can change the odds between two homes of a job, in any pool of a class.

    Lemma 34 of docs/privacy.md.

    Parameters
    ----------
    pool_class, arithmetic
        As for `synth.dirichlet.losses.failure_bound`.
    attackers : Attackers
    most : Fraction
        What they can change in other pools, at least 1: a class where it is no more takes less time.

    Returns
    -------
    float or flint.arb
        At least `most`. Of those who know all other jobs of a pool it is `synth.dirichlet.record.pure_gain`.
    """
    cells = _cells_of(pool_class)
    worst = arithmetic.number(most)
    return _change(pool_class, cells, attackers, arithmetic, worst)


def _change(
    c: PoolClass,
    cells: tuple[_Present, list[_Cells]],
    attackers: Attackers,
    arithmetic: Arithmetic,
    worst: Any,
) -> Any:
    """Return `largest_change`, given what `_cells_of` says of the class, the same for all attackers.

    It is `worst`, the same object, where they can change no more.
    """
    if sum(c.cells) == 1:  # nothing that is drawn depends on the home
        return worst
    if not attackers.unknown(c.n_min):
        pure = pure_gain(c, arithmetic)
        worst = worst if pure <= worst else arithmetic.larger(worst, pure)
        sizes = range(c.n_min, min(c.n_max, _KNOWN_WHOLE + 1) + 1)
        fewest = next((n for n in sizes if attackers.unknown(n)), None)
        if fewest is None:
            return worst
        c = replace(c, n_min=fewest)
    present, candidates = cells
    beliefs = [_Others.of(c, present, cell, attackers) for cell in candidates]

    def with_coins(coins: Any) -> Any:
        before = gain = worst / coins
        for cell, belief in zip(candidates, beliefs, strict=True):
            gain = _gain(c, cell, belief, gain, arithmetic)
        return worst if gain is before else arithmetic.larger(worst, gain * coins)

    if c.keeps_all:
        return with_coins(1)
    if with_coins(_of_coins(c, arithmetic, quick_pruning_gain, flint.ctx.prec)) is worst:  # as nearly always
        return worst
    return with_coins(_of_coins(c, arithmetic, pruning_gain, flint.ctx.prec))


@dataclass(frozen=True)
class _Cells:
    """Cells of one prior and one retention, of which a pool has so many, as numbers whose sums are quick."""

    number: int
    prior: flint.fmpq
    retention: flint.fmpq

    @classmethod
    def of(cls, stratum: Stratum) -> _Cells:
        return cls(stratum.cells, stratum.prior, stratum.retention)


@dataclass(frozen=True)
class _Present:
    """All cells of the pools of a class: what the beliefs of all attackers are bounded by.

    Attributes
    ----------
    prior : fmpq
        Of all cells together.
    rarest : fmpq
        The smallest retention of any.
    lightest : fmpq
        The smallest product of prior and retention.
    coin, coins : fmpq
        a (1/f - 1): the largest, and the sum of all.
    """

    prior: flint.fmpq
    rarest: flint.fmpq
    lightest: flint.fmpq
    coin: flint.fmpq
    coins: flint.fmpq

    @classmethod
    def of(cls, cells: Sequence[_Cells]) -> _Present:
        coins = [o.prior * (1 / o.retention - 1) for o in cells]
        return cls(
            sum((o.number * o.prior for o in cells), flint.fmpq(0)),
            min(o.retention for o in cells),
            min(o.prior * o.retention for o in cells),
            max(coins),
            sum((o.number * coin for o, coin in zip(cells, coins, strict=True)), flint.fmpq(0)),
        )


def _cells_of(c: PoolClass) -> tuple[_Present, list[_Cells]]:
    """Return what is said of all cells of a class, and those of which one may have the largest mean."""
    all_strata = strata(c)
    # Both bounds of the mean fall as the prior of a cell that is kept for sure grows.
    small = max(c.n_max, c.m_max) <= _SMALL
    worst_of = all_strata if small else strata(c, lightest=True)
    return _Present.of([*map(_Cells.of, all_strata)]), [*map(_Cells.of, worst_of)]


@dataclass(frozen=True)
class _Others:
    """What is suspected of the other jobs of a pool, for the draws from one cell.

    Attributes
    ----------
    unknown : int
        u, the jobs of which nothing is known, at least 1.
    belief : fmpq
        The weight of the belief about other cells, with that of the jobs that are known to be there.
    steep : fmpq
        By how much each draw from another cell adds to it.
    once, ever : fmpq
        What coins add: for each such draw, and together at most.
    draws : int
        m.
    """

    unknown: int
    belief: flint.fmpq
    steep: flint.fmpq
    once: flint.fmpq
    ever: flint.fmpq
    draws: int

    @classmethod
    def of(cls, c: PoolClass, present: _Present, cell: _Cells, attackers: Attackers) -> _Others:
        if attackers.stubbornness is None:
            belief, steep = present.prior - cell.prior, 1 / present.rarest
            once, ever = present.coin, present.coins
        else:
            belief = rational(attackers.stubbornness)
            steep = max(flint.fmpq(1), belief / present.lightest)
            once = ever = belief * (1 / present.rarest - 1)
        known_jobs = attackers.known(c.n_max)
        return cls(attackers.unknown(c.n_min), belief + known_jobs, steep, once, ever, c.m_max)

    def weight(self, draws: int) -> flint.fmpq:
        """Return T, where so many of all draws are from the one cell."""
        elsewhere = self.draws - draws
        return self.belief + self.steep * elsewhere + min(self.ever, self.once * elsewhere)


def _gain(c: PoolClass, cell: _Cells, others: _Others, most: Any, arithmetic: Arithmetic) -> Any:
    """Bound the mean of g(x) = 1 + s/(x + a), over f for x = 0, for any number s of draws from a cell.

    It is `most`, the same object, where no mean is larger.
    """
    a, f, u = cell.prior, cell.retention, others.unknown
    small = max(c.n_max, c.m_max) <= _SMALL
    least = flint.fmpq(int(small and c.n_min < c.n_max))  # of T, so that the smallest pool is the worst

    def alone(s: int) -> flint.fmpq:  # g(0), which grows with s
        return (1 + s / a) / f

    def among(s: int) -> flint.fmpq:  # the mean is at most this, which does not grow
        weight = max(others.weight(s), least)
        return 1 + (weight + s + (1 - f) * a * (weight / u + 1)) / (u + a)

    draws = range(1, c.m_max + 1)
    few = max(int(arithmetic.lower((most * arithmetic.number(f) - 1) * arithmetic.number(a))), 0)
    # With so many or fewer g(0) is not above `most`, and with more no mean is if it is not with one more.
    if few >= c.m_max or arithmetic.number(among(few + 1)) <= most:
        return most
    first = bisect_left(draws, True, key=lambda s: alone(s) > among(s))
    for bound, nearest_first in ((alone, draws[:first][::-1]), (among, draws[first:])):
        for s in nearest_first:
            if (largest := arithmetic.number(bound(s))) <= most:
                break
            if not small:
                most = largest
                break
            weight = max(others.weight(s), least)
            mean = _mean(s, u, weight, a, f, arithmetic)
            most = most if mean <= most else arithmetic.larger(most, mean)
    return most


def _mean(
    draws: int, unknown: int, weight: flint.fmpq, a: flint.fmpq, f: flint.fmpq, arithmetic: Arithmetic
) -> Any:
    """Return the mean of g(x) over x, the unknown jobs in a cell with so many draws, as likely as can be."""
    likely = total = arithmetic.number(1)
    factor = mean = arithmetic.number((1 + draws / a) / f)
    prior, heavier = arithmetic.number(a), arithmetic.number(weight)
    for x in range(unknown):
        left = unknown - x
        likely = likely * factor * left / (heavier + (left - 1))
        factor = 1 + draws / (prior + (x + 1))
        total, mean = total + likely, mean + likely * factor
    return mean / total


@lru_cache(maxsize=8192)  # all attackers ask it of each class
def _of_coins(
    c: PoolClass,
    arithmetic: Arithmetic,
    pruning: Callable[..., Any],
    _precision: int,
) -> Any:
    """Bound what the coins of cells without workers or draws add to a change of odds."""
    gain = pruning(replace(c, n_min=c.n_min - 1), arithmetic)
    lightest = c.n_min - 1 + c.certain_mass
    mass = sum((k * Fraction(a, c.denominator) for k, a in zip(c.cells, c.prior, strict=True)), Fraction(0))
    return gain * arithmetic.number((1 + c.m_max / lightest) / (1 + c.m_max / (c.n_max - 1 + mass)))


def _exact(c: PoolClass, attackers: Attackers) -> bool:
    """Say whether the bound of a class, all of whose pools have m_max draws, is approached."""
    present = [f for f, k in zip(c.retention, c.cells, strict=True) if k]
    if c.n_min != c.n_max or c.cells != c.cells_min or min(present) < 1:
        return False
    cells = sum(c.cells)
    if cells == 1 or not attackers.unknown(c.n_min):
        return True
    return attackers.stubbornness is None and cells > 2 and max(c.n_max, c.m_max) <= _SMALL
