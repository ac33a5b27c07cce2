"""How much attackers who do not know every other record can learn from a release of Dirichlet resampling.

Differential privacy is a promise against somebody who may know every record but one. Here attackers are of
classes, as in epsilon-privacy (Machanavajjhala, Gehrke and Götz, VLDB 2009): they know some of the other
records of a pool, and about the homes of the others they have a belief that can change, a Dirichlet
distribution. What they hold after the release is compared with what they would hold, seeing the same release,
if it had been made without the record. Lemma 34 of docs/privacy.md says how far the two can be apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from synth.losses import PoolClass, Stratum, strata
from synth.parameters import DirichletParameters, check_membership
from synth.plan import Plan
from synth.pruning import pruning_gain
from synth.rationals import decimal_up
from synth.record import pure_gain
from synth.tails import Arithmetic, rigorous, upper_fraction

__all__ = ["KNOWLEDGE", "Attackers", "Change", "best_share", "largest_change", "largest_changes"]

KNOWLEDGE: dict[str, Callable[[int], int]] = {
    "all but one job": lambda others: others,
    "a random half": lambda others: (others + 1) // 2,
    "one co-worker": lambda others: min(others, 1),
    "public tables only": lambda others: 0,
}
"""What may be known of a pool besides public tables: how many homes, of how many other jobs."""

_KNOWN_WHOLE = 2  # pools of more jobs have some that nobody of the other classes knows
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


def largest_changes(plan: Plan, attackers: Sequence[Attackers]) -> list[list[Change]]:
    """Return what attackers can gain in the pools of each class of a plan.

    Parameters
    ----------
    plan : Plan
        Of Dirichlet resampling, with public numbers of records.
    attackers : sequence of Attackers

    Returns
    -------
    list of list of Change
        For each attackers one for each class of the plan; proved, and rounded up.

    Raises
    ------
    ValueError
        If the plan is of another kind, or a pool is outside its class.
    """
    parameters = plan.parameters
    if not isinstance(parameters, DirichletParameters) or plan.record_range is not None:
        raise ValueError("attackers are bounded for resampling from pools whose numbers of jobs are public")
    check_membership(plan, parameters)
    retention, q = parameters.retention, parameters.denominator
    found: list[list[Change]] = [[] for _ in attackers]
    with rigorous() as balls:
        for number, c in enumerate(parameters.classes):
            alike = bool((plan.pools.m[plan.pool_class == number] == c.m_max).all())
            for one, changes in zip(attackers, found, strict=True):
                odds = upper_fraction(largest_change(c, retention, q, one, balls))
                changes.append(Change(odds, alike and _exact(c, retention, one)))
    return found


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
    retention: tuple[Fraction, ...],
    denominator: int,
    attackers: Attackers,
    arithmetic: Arithmetic,
) -> Any:
    """Bound by how much attackers can change the odds between two homes of a job, in any pool of a class.

    Lemma 34 of docs/privacy.md.

    Parameters
    ----------
    pool_class, retention, denominator, arithmetic
        As for `synth.losses.failure_bound`.
    attackers : Attackers

    Returns
    -------
    float or flint.arb
        At least 1. Of those who know all other jobs of a pool it is `synth.record.pure_gain`.
    """
    c = pool_class
    worst = arithmetic.number(1)
    if sum(c.cells) == 1:  # nothing that is drawn depends on the home
        return worst
    if not attackers.unknown(c.n_min):
        worst = pure_gain(c, retention, denominator, arithmetic)
        sizes = range(c.n_min, min(c.n_max, _KNOWN_WHOLE + 1) + 1)
        fewest = next((n for n in sizes if attackers.unknown(n)), None)
        if fewest is None:
            return worst
        c = replace(c, n_min=fewest)
    gain = arithmetic.number(1)
    present = strata(c, retention, denominator)
    for stratum in present:
        gain = arithmetic.larger(gain, _gain(stratum, _Others.of(present, stratum, attackers), arithmetic))
    return arithmetic.larger(worst, gain * _of_coins(c, retention, denominator, arithmetic))


@dataclass(frozen=True)
class _Others:
    """What is suspected of the other jobs of a pool, for the draws from one cell.

    Attributes
    ----------
    unknown : int
        u, the jobs of which nothing is known, at least 1.
    belief : Fraction
        The weight of the belief about other cells, with that of the jobs that are known to be there.
    steep : Fraction
        By how much each draw from another cell adds to it.
    once, ever : Fraction
        What coins add: for each such draw, and together at most.
    draws : int
        m.
    """

    unknown: int
    belief: Fraction
    steep: Fraction
    once: Fraction
    ever: Fraction
    draws: int

    @classmethod
    def of(cls, present: list[Stratum], cell: Stratum, attackers: Attackers) -> _Others:
        c, sure = cell.pool_class, attackers.stubbornness
        if sure is None:
            belief = sum((o.cells * o.prior for o in present), -cell.prior)
            steep = max(1 / o.retention for o in present)
            coins = [o.prior * (1 / o.retention - 1) for o in present]
            ever = sum((o.cells * coin for o, coin in zip(present, coins, strict=True)), Fraction(0))
        else:
            belief = sure
            steep = max(Fraction(1), *(sure / (o.prior * o.retention) for o in present))
            coins = [sure * (1 / o.retention - 1) for o in present]
            ever = max(coins)
        known = attackers.known(c.n_max)
        return cls(attackers.unknown(c.n_min), belief + known, steep, max(coins), ever, c.m_max)

    def weight(self, draws: int) -> Fraction:
        """Return T, where so many of all draws are from the one cell."""
        elsewhere = self.draws - draws
        return self.belief + self.steep * elsewhere + min(self.ever, self.once * elsewhere)


def _gain(cell: Stratum, others: _Others, arithmetic: Arithmetic) -> Any:
    """Bound the mean of g(x) = 1 + s/(x + a), over f for x = 0, for any number s of draws from a cell."""
    c, a, f, u = cell.pool_class, cell.prior, cell.retention, others.unknown
    if max(c.n_max, c.m_max) <= _SMALL:
        least = Fraction(c.n_min < c.n_max)  # of T, so that the smallest pool is the worst
        most = arithmetic.number(1)
        for s in range(1, c.m_max + 1):
            weight = max(others.weight(s), least)
            most = arithmetic.larger(most, _mean(s, u, weight, a, f, arithmetic))
        return most

    def alone(s: int) -> Fraction:  # g(0), which grows with s
        return (1 + s / a) / f

    def among(s: int) -> Fraction:  # the mean is at most this, which does not grow
        weight = others.weight(s)
        return 1 + (weight + s + (1 - f) * a * (weight / u + 1)) / (u + a)

    draws = range(1, c.m_max + 1)
    first = bisect_left(draws, True, key=lambda s: alone(s) > among(s))
    near = [alone(s) for s in draws[:first][-1:]] + [among(s) for s in draws[first : first + 1]]
    return arithmetic.number(max(near))


def _mean(
    draws: int, unknown: int, weight: Fraction, a: Fraction, f: Fraction, arithmetic: Arithmetic
) -> Any:
    """Return the mean of g(x) over x, the unknown jobs in a cell with so many draws, as likely as can be."""
    number = arithmetic.number
    likely = total = number(1)
    factor = mean = number((1 + draws / a) / f)
    for x in range(unknown):
        left = unknown - x
        likely = likely * factor * number(left / (weight + left - 1))
        factor = number(1 + draws / (a + x + 1))
        total, mean = total + likely, mean + likely * factor
    return mean / total


def _of_coins(c: PoolClass, retention: tuple[Fraction, ...], denominator: int, arithmetic: Arithmetic) -> Any:
    """Bound what the coins of cells without workers or draws add to a change of odds."""
    if all(f == 1 for f, k in zip(retention, c.cells, strict=True) if k):
        return arithmetic.number(1)
    pruning = pruning_gain(replace(c, n_min=c.n_min - 1), retention, denominator, arithmetic)
    lightest = c.n_min - 1 + c.kept_mass(denominator, retention, certain=True)
    mass = sum((k * Fraction(a, denominator) for k, a in zip(c.cells, c.prior, strict=True)), Fraction(0))
    return pruning * arithmetic.number((1 + c.m_max / lightest) / (1 + c.m_max / (c.n_max - 1 + mass)))


def _exact(c: PoolClass, retention: tuple[Fraction, ...], attackers: Attackers) -> bool:
    """Say whether the bound of a class, all of whose pools have m_max draws, is approached."""
    present = [f for f, k in zip(retention, c.cells, strict=True) if k]
    if c.n_min != c.n_max or c.cells != c.cells_min or min(present) < 1:
        return False
    cells = sum(c.cells)
    if cells == 1 or not attackers.unknown(c.n_min):
        return True
    return attackers.stubbornness is None and cells > 2 and max(c.n_max, c.m_max) <= _SMALL
