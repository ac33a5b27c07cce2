"""The privacy loss of Dirichlet resampling with pruning, and the probability that it is exceeded.

Section 3 and 4 of the mechanism document. A class of pools shares the prior numerators A_s (over one
denominator q), the retentions f_s and the gain G = e^U*, a rational number, so that every threshold
of the bad event is decided in exact arithmetic and a logarithm is taken only at the very end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from synth.tails import Arithmetic, chernoff_bound, tail_bound

__all__ = ["PoolClass", "bad_threshold", "failure_bound", "pruning_gain"]

_MAX_COUNTS = 2000  # counts x evaluated one by one before the bound gives up (and says 1)


@dataclass(frozen=True)
class PoolClass:
    """Pools that share one bound: what is true of all of them, and the numbers they use.

    Attributes
    ----------
    n_min, n_max : int
        Every pool of the class has n_min <= n <= n_max slots.
    m_max : int
        Every pool of the class has at most this many draws.
    cells : tuple of int
        Per retention stratum, the largest number of cells of any pool of the class.
    gain : Fraction
        G = e^U*, the largest block loss that is not bad, as odds; > 1.
    prior : tuple of int
        Per retention stratum, the numerator A_s of the prior a_s = A_s / q; >= 1.
    """

    n_min: int
    n_max: int
    m_max: int
    cells: tuple[int, ...]
    gain: Fraction
    prior: tuple[int, ...]


def bad_threshold(count: int, prior: Fraction, retention: Fraction, gain: Fraction) -> int:
    """Return the largest number of draws s from a cell that is not bad.

    Parameters
    ----------
    count : int
        x, the workers in the cell.
    prior, retention : Fraction
        a_c > 0 and f_c in (0, 1] of the cell.
    gain : Fraction
        G = e^U*.

    Returns
    -------
    int
        Draws s > this (and s > 0) are bad. Equality is not bad: the loss is then exactly U*.

    Notes
    -----
    x >= 2: ln(1 + s/(x - 1 + a)) <= U*; x in {0, 1}: ln(1 + s/a) + ln(1/f) <= U*
    (the document's section 4).
    """
    bound = (gain - 1) * (count - 1 + prior) if count >= 2 else (retention * gain - 1) * prior
    return max(0, bound.numerator // bound.denominator)


def pruning_gain(
    pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int, arithmetic: Arithmetic
) -> Any:
    """Return e^V, V the pruning loss, for the worst pool of the class.

    V = max_c ln(f_c + (1 - f_c) rho_c), rho_c = rising(W0 + a_c, m) / rising(W0, m),
    W0 = n + min a. It grows with m and falls with n, so (n_min, m_max) is the worst corner.

    Returns
    -------
    float or flint.arb
        1 where every retention is 1.
    """
    number, lgamma = arithmetic.number, arithmetic.lgamma
    smallest = Fraction(
        min(a for a, k in zip(pool_class.prior, pool_class.cells, strict=True) if k), denominator
    )
    base = number(pool_class.n_min + smallest)
    draws = pool_class.m_max
    worst = number(1)
    for prior, f, cells in zip(pool_class.prior, retention, pool_class.cells, strict=True):
        if f == 1 or cells == 0:
            continue
        a = number(Fraction(prior, denominator))
        rho = arithmetic.exp(
            lgamma(base + a + draws) + lgamma(base) - lgamma(base + a) - lgamma(base + draws)
        )
        gain = number(f) + number(1 - f) * rho
        worst = _larger(worst, gain)
    return worst


def _larger(left: Any, right: Any) -> Any:
    """Return an enclosure of the larger: for balls, `max` of the ball type, not a comparison."""
    return left.max(right) if hasattr(left, "max") else max(left, right)


def failure_bound(
    pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int, arithmetic: Arithmetic
) -> tuple[Any, Any]:
    """Bound the probability of the bad event for any pool of the class and any histogram.

    Parameters
    ----------
    pool_class : PoolClass
    retention : tuple of Fraction
        f_s per stratum.
    denominator : int
        q.
    arithmetic : Arithmetic
        `FLOAT` for a search, `BALL` for a certificate.

    Returns
    -------
    failure, person : float or flint.arb
        F = n max_{c, 1 <= x <= n} T_c(x)/x + sum_c f_c T_c(0), the pool's delta; and
        max_{c, x >= 1} T_c(x), the delta of one person's (eps, delta)-DP.

    Notes
    -----
    T_c(x) is the tail beyond `bad_threshold` at the smallest weight the urn can have: max(n_min, x)
    real workers, the cell's own prior, and, when another worker must exist (x < n_min), the smallest
    prior. Counts x are evaluated upwards; the loop ends when the threshold passes m_max (no draw can
    be bad from there on), when x passes n_max, or when one Chernoff bound for all further x is below
    the maximum found.
    """
    present = [s for s, k in enumerate(pool_class.cells) if k]
    priors = {s: Fraction(pool_class.prior[s], denominator) for s in present}
    smallest = min(priors.values())
    number = arithmetic.number
    zero_cells, per_worker, person = number(0), number(0), number(0)
    for s in present:
        a, f = priors[s], retention[s]
        tail = tail_bound(
            pool_class.m_max,
            a,
            pool_class.n_min + smallest,
            bad_threshold(0, a, f, pool_class.gain),
            arithmetic,
        )
        zero_cells = zero_cells + number(f * pool_class.cells[s]) * tail
        ratio, largest = _occupied_cells(pool_class, a, f, smallest, arithmetic)
        per_worker, person = _larger(per_worker, ratio), _larger(person, largest)
    return number(pool_class.n_max) * per_worker + zero_cells, person


def _occupied_cells(
    pool_class: PoolClass, prior: Fraction, retention: Fraction, smallest: Fraction, arithmetic: Arithmetic
) -> tuple[Any, Any]:
    """Return bounds of max_x T(x)/x and max_x T(x) over 1 <= x <= n_max for cells of one stratum."""
    number = arithmetic.number
    gain, draws = pool_class.gain, pool_class.m_max
    per_worker, largest = number(0), number(0)
    for x in range(1, pool_class.n_max + 1):
        threshold = bad_threshold(x, prior, retention, gain)
        if x >= 2:
            if threshold >= draws:
                return per_worker, largest
            beyond = chernoff_bound(
                (gain - 1) * (x - 1 + prior),
                x + prior,
                Fraction(draws) / (pool_class.n_min + prior),
                gain - 1,
                arithmetic,
            )
            # `largest` never exceeds what is charged: every further T is below `beyond` itself.
            if beyond is not None and beyond / x < per_worker and beyond < largest:
                return per_worker, largest
        if x > _MAX_COUNTS:
            return _larger(per_worker, number(1) / x), number(1)
        others = max(pool_class.n_min - x, 0)
        rest = others + smallest if others else Fraction(0)
        tail = tail_bound(draws, x + prior, rest, threshold, arithmetic)
        per_worker, largest = _larger(per_worker, tail / x), _larger(largest, tail)
    return per_worker, largest
