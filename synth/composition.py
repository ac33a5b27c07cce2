"""What several releases, several implicates and several records of one person cost together.

The rules are Lemmas 13 to 15 of docs/privacy.md. All numbers are exact fractions; where e^epsilon is needed
it is bounded from above.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from synth.plan import Pools
from synth.rationals import MAX_EPSILON, MAX_RECORDS, decimal_down, exact
from synth.tails import exp_up


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
