"""The other two questions to a mechanism: the smallest epsilon, or the smallest delta, for a given prior.

`Mechanism.calibrate` answers the first one, the smallest prior for an epsilon and a delta.
"""

from __future__ import annotations

from fractions import Fraction

from synth.calibration import BudgetTooSmallError
from synth.mechanism import Mechanism
from synth.plan import Domains, GuaranteeName, Plan, Pools
from synth.rationals import decimal_up

__all__ = ["smallest_delta_plan", "smallest_epsilon_plan"]

_TINY = Fraction(1, 10**6)
_STEP = Fraction(101, 100)  # delta is found within one percent


def smallest_epsilon_plan(
    mechanism: Mechanism,
    pools: Pools,
    domains: Domains,
    retention: tuple[Fraction, ...],
    delta: Fraction,
    prior: Fraction,
    guarantee: GuaranteeName = "pdp",
) -> Plan:
    """Return the plan with this prior and delta whose epsilon is the smallest, to three digits, rounded up.

    Parameters are those of `Mechanism.calibrate`.

    Raises
    ------
    BudgetTooSmallError
        If no epsilon up to 100 is certified.
    """
    try:
        return mechanism.calibrate(pools, domains, retention, _TINY, delta, prior, guarantee)
    except BudgetTooSmallError as error:
        if error.smallest is None:
            raise
        return mechanism.calibrate(pools, domains, retention, error.smallest, delta, prior, guarantee)


def smallest_delta_plan(
    mechanism: Mechanism,
    pools: Pools,
    domains: Domains,
    retention: tuple[Fraction, ...],
    epsilon: Fraction,
    prior: Fraction,
    guarantee: GuaranteeName = "pdp",
) -> Plan:
    """Return the plan with this prior and epsilon whose delta is the smallest, within one percent.

    Parameters are those of `Mechanism.calibrate`.

    Returns
    -------
    Plan
        Its delta is 0 where the prior gives pure differential privacy; the certificate may state less
        than its delta, which every pool shares by its size.

    Raises
    ------
    BudgetTooSmallError
        If no delta below 1 is certified.
    """

    def plan(delta: Fraction) -> Plan | None:
        try:
            return mechanism.calibrate(pools, domains, retention, epsilon, delta, prior, guarantee)
        except BudgetTooSmallError:
            return None

    pure = plan(Fraction(0))
    if pure is not None:
        return pure
    low, high = Fraction(0), Fraction(999, 1000)
    best = plan(high)
    if best is None:
        raise BudgetTooSmallError(f"the prior {prior} certifies no delta below 1 at this epsilon")
    exponent = 1
    while low == 0 or high > low * _STEP:
        # First by squaring the smallness, to find its order; then by halves.
        middle = Fraction(1, 10**exponent) if low == 0 else (low + high) / 2
        middle = Fraction(decimal_up(middle, 4))
        found = plan(middle)
        if found is None:
            low = middle
        else:
            best, high, exponent = found, middle, 2 * exponent
    return best
