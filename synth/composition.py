"""What several releases, several implicates and several records of one person cost together.

The rules are Lemmas 13 to 15, 52 to 54 and 59 of docs/privacy.md. All numbers are exact fractions;
where e^epsilon is needed it is bounded from above.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from synth.concentrated import LARGEST, epsilon_of, rho_of_group, rho_of_pure
from synth.plan import Pools
from synth.rationals import MAX_EPSILON, MAX_RECORDS, decimal_down, exact
from synth.tails import exp_up

_MOST_GROUP = 10**4  # of an epsilon, e^epsilon is computed: beyond it the delta of a group is 1 in earnest
_rho_of_pure = lru_cache(1024)(rho_of_pure)  # the debits of a ledger have the same few epsilons


def compose(costs: Iterable[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of releases of the same records taken together.

    Lemma 13 of docs/privacy.md.

    Each has randomness of its own; its plan, and whether it is made at all, may depend on the releases
    before it. Given those the losses add, and the joint bad set is inside the union of the bad sets. It
    serves probabilistic and ordinary differential privacy alike, and k independent implicates:
    ``compose([cost] * k)``.

    Parameters
    ----------
    costs : iterable of (Fraction, Fraction)
        Epsilon and delta of each release.

    Returns
    -------
    (Fraction, Fraction)
        Sum of the epsilons; sum of the deltas, at most 1.

    Raises
    ------
    TypeError
        If a number is a float.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import synth
    >>> synth.compose([(Fraction("0.1"), Fraction(0))] * 10)
    (Fraction(1, 1), Fraction(0, 1))
    """
    pairs = [(exact(e, "epsilon"), exact(d, "delta")) for e, d in costs]
    epsilon = sum((e for e, _ in pairs), Fraction(0))
    return epsilon, min(sum((d for _, d in pairs), Fraction(0)), Fraction(1))


class Cost(NamedTuple):
    """What releases cost one person together, by two accounts that hold at the same time.

    Attributes
    ----------
    epsilon, delta : Fraction
        Of the plain sums: (epsilon, delta)-differential privacy.
    rho, rho_delta : Fraction
        Of zCDP: `rho_delta`-approximately `rho`-zCDP.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    rho_delta: Fraction

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, rho: Fraction | None = None) -> Cost:
        """Return the cost of one release.

        Lemma 52 of docs/privacy.md.

        Parameters
        ----------
        epsilon, delta : Fraction
            Its differential privacy.
        rho : Fraction or None
            Its zCDP, if its mechanism has one. By default what follows from epsilon and delta.

        Returns
        -------
        Cost

        Raises
        ------
        TypeError
            If a number is a float.
        ValueError
            If a number is negative, or epsilon or rho is above 10^6.
        """
        epsilon, delta = exact(epsilon, "epsilon"), exact(delta, "delta")
        if rho is not None:
            return cls(epsilon, delta, exact(rho, "rho"), Fraction(0))
        return cls(epsilon, delta, _rho_of_pure(epsilon), delta)

    @classmethod
    def of_refined(cls, epsilon: Fraction, before: Fraction) -> Cost:
        """Return the cost of refining a release of pure differential privacy to a larger epsilon.

        Lemma 59 of docs/privacy.md.

        Parameters
        ----------
        epsilon, before : Fraction
            Of the refined release as one of its own, and of the release that is refined.

        Returns
        -------
        Cost

        Raises
        ------
        ValueError
            If the epsilon is not larger than before.
        """
        epsilon, before = exact(epsilon, "epsilon"), exact(before, "epsilon")
        if epsilon <= before:
            raise ValueError("a release is refined to a larger epsilon than it has")
        return cls(epsilon - before, Fraction(0), _rho_of_pure(epsilon + before), Fraction(0))

    @classmethod
    def of_all(cls, costs: Iterable[Cost]) -> Cost:
        """Return the cost of several releases together: the sum by each account.

        Lemma 53 of docs/privacy.md.
        """
        listed = list(costs)
        sums = compose((cost.epsilon, cost.delta) for cost in listed)
        return cls(*sums, *compose((cost.rho, cost.rho_delta) for cost in listed))

    def epsilons_at(self, delta: Fraction, times: int = 1) -> tuple[Fraction | None, Fraction | None]:
        """Return the epsilons that go with a delta: by the plain sums, and by zCDP, rounded up.

        Lemma 54 of docs/privacy.md.

        Parameters
        ----------
        delta : Fraction
            Chosen for the question; both hold for every delta.
        times : int
            For a person with so many times the records that the cost is about, 1 to 1,000.

        Returns
        -------
        (Fraction or None, Fraction or None)
            None where an account has no epsilon with this delta.
        """
        return self._by_sums(delta, times), self._by_rho(delta, times)

    def _by_sums(self, delta: Fraction, times: int) -> Fraction | None:
        epsilon = times * self.epsilon
        if self.delta == 0:
            return epsilon
        if times > 1 and epsilon > _MOST_GROUP:
            return None
        return epsilon if group_privacy(self.epsilon, self.delta, times)[1] <= delta else None

    def _by_rho(self, delta: Fraction, times: int) -> Fraction | None:
        if self.rho > LARGEST or (times > 1 and self.rho_delta > 0):
            return None
        rho, rest = rho_of_group(self.rho, times), delta - self.rho_delta
        if rho > LARGEST or rest < 0 or (rest == 0 and rho > 0):
            return None
        return epsilon_of(rho, rest)


def group_privacy(epsilon: Fraction, delta: Fraction, records: int) -> tuple[Fraction, Fraction]:
    """Return the (epsilon, delta)-differential privacy of a person with several records.

    Lemma 14 of docs/privacy.md.

    Parameters
    ----------
    epsilon, delta : Fraction
        Differential privacy of one record; or probabilistic differential privacy, of which this is the
        bound for two given inputs.
    records : int
        c, from 1 to 1,000.

    Returns
    -------
    (Fraction, Fraction)
        c epsilon, and delta (1 + e^epsilon + ... + e^((c - 1) epsilon)) rounded up, at most 1.

    Raises
    ------
    TypeError
        If epsilon or delta is a float.
    ValueError
        If `records` is below 1 or above 1,000.
    """
    epsilon, delta = _of_records(epsilon, delta, records)
    return records * epsilon, min(delta * _group_factor(epsilon, records), Fraction(1))


def record_share(epsilon: Fraction, delta: Fraction, records: int) -> tuple[Fraction, Fraction]:
    """Return what one record may cost so that a person with several costs no more than is given.

    Lemma 14 of docs/privacy.md.

    Parameters
    ----------
    epsilon, delta : Fraction
        What the person may cost.
    records : int
        c, from 1 to 1,000.

    Returns
    -------
    (Fraction, Fraction)
        epsilon/c rounded down to twelve significant digits, at most 100, and the delta that goes with it,
        rounded down too: `group_privacy` of them is at most (epsilon, delta).

    Raises
    ------
    TypeError
        If epsilon or delta is a float.
    ValueError
        If `records` is below 1 or above 1,000.
    """
    epsilon, delta = _of_records(epsilon, delta, records)
    share = min(exact(decimal_down(epsilon / records)), Fraction(MAX_EPSILON))
    return share, exact(decimal_down(delta / _group_factor(share, records)))


def _of_records(epsilon: Fraction, delta: Fraction, records: int) -> tuple[Fraction, Fraction]:
    """Return epsilon and delta as exact numbers; refuse floats, and no or too many records."""
    numbers = exact(epsilon, "epsilon"), exact(delta, "delta")
    if not 1 <= records <= MAX_RECORDS:
        raise ValueError(f"a person must have at least one record, and at most {MAX_RECORDS:,}")
    return numbers


def _group_factor(epsilon: Fraction, records: int) -> Fraction:
    """Return 1 + e^epsilon + ... + e^((c - 1) epsilon), rounded up."""
    return sum((exp_up(i * epsilon) for i in range(1, records)), Fraction(1))


def one_urn_implicates(pools: Pools, implicates: int) -> Pools:
    """Return the pools whose urns are drawn from k times as often, to be cut into k implicates.

    Lemma 15 of docs/privacy.md.

    The k implicates are then one release with m' = k m, certified as such. It costs less epsilon than k
    independent urns, whose epsilons add, at the price of implicates that are not independent.

    Parameters
    ----------
    pools : Pools
    implicates : int
        k, at least 1.
    """
    if implicates < 1:
        raise ValueError("there must be at least one implicate")
    return replace(pools, m=pools.m * implicates)
