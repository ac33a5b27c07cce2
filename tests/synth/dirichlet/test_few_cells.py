"""The bounds for pools of few cells: against enumeration and slow sums in fractions, and where they apply."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import synth
from synth.dirichlet import few_cells
from synth.dirichlet.calibration import Goal, alike_classes, calibrate_class, group_pools
from synth.dirichlet.few_cells import FEW, loss_bound, summable
from synth.dirichlet.losses import PoolClass, failure_bound
from synth.dirichlet.pairs import Pair, pair_delta
from synth.dirichlet.record import record_delta_bound
from synth.plan import Pools
from synth.tails import FLOAT, Arithmetic, exp_up, rigorous, upper_fraction

from ..builders import make_class
from ..grid import GAINS, PALETTE, class_of, pools
from ..reference import Histogram, Urn, beta_binomial_tail, rising
from ..truth import Truth

ONE = (Fraction(1),)
CLOSE = 1 + Fraction(1, 2**100)


def few_cells_bound(*arguments: Any) -> Any:
    return few_cells.few_cells_bound(*arguments)


def largest_pair_delta(*arguments: Any, **options: Any) -> Any:
    return synth.dirichlet.pairs.largest_pair_delta(*arguments, **options)


def bound_of(urn: Urn, gain: Fraction) -> Fraction:
    pool_class = class_of(urn, gain)
    with rigorous() as balls:
        return upper_fraction(few_cells_bound(pool_class, balls))


def leaving(urn: Urn, c: int, x: int, s: int) -> Fraction:
    """l_c(s) of Lemma 32, of a cell with x workers."""
    loss = 1 + s / (x - 1 + urn.prior[c])
    return loss / urn.retention[c] if x == 1 and s else loss


def arriving(urn: Urn, c: int, x: int, s: int) -> Fraction:
    """r_c(s) of Lemma 32, of a cell with x workers."""
    loss = 1 + s / (x + urn.prior[c])
    return loss / urn.retention[c] if x == 0 and s else loss


class Literal:
    """The probability of Lemma 32's outputs, and their sum over the cells that are bad, output by output.

    Losses are kept as numerators and denominators, which are compared as integers.
    """

    def __init__(self, urn: Urn) -> None:
        self.urn = urn
        self.distributions = {h: urn.distribution(h) for h in urn.histograms()}
        cells, draws = range(urn.k), range(urn.m + 1)
        self.arriving = {
            (c, x, s): arriving(urn, c, x, s) for c in cells for x in range(urn.n + 1) for s in draws
        }
        self.leaving = {
            (c, x, s): leaving(urn, c, x, s) for c in cells for x in range(1, urn.n + 1) for s in draws
        }

    def sums(self, gain: Fraction) -> list[tuple[Fraction, Fraction]]:
        """Of each histogram."""
        come, go = ({key: _pair(loss) for key, loss in of.items()} for of in (self.arriving, self.leaving))
        come_more, go_more = (
            {key: _pair(gain * loss) for key, loss in of.items()} for of in (self.arriving, self.leaving)
        )

        def is_bad(h: Histogram, s: Histogram, c: int, d: int) -> bool:
            """Whether what c loses by a worker who moves between the two exceeds what d makes of it."""
            if h[c]:
                (a, b), (x, y) = go[c, h[c], s[c]], come_more[d, h[d], s[d]]
            elif h[d]:
                (a, b), (x, y) = come[c, h[c], s[c]], go_more[d, h[d], s[d]]
            else:
                return False
            return a * y > x * b

        pairs, found = list(itertools.permutations(range(self.urn.k), 2)), []
        for h, distribution in self.distributions.items():
            once = often = Fraction(0)
            for s, p in distribution.items():
                bad = {c for c, d in pairs if is_bad(h, s, c, d)}
                if bad:
                    once += p
                    often += p * len(bad)
            found.append((once, often))
        return found


def _pair(value: Fraction) -> tuple[int, int]:
    return value.numerator, value.denominator


def test_every_small_case_is_between_the_literal_event_and_its_sum_over_pairs() -> None:
    """Never below the truth; with two cells never above the sum over bad cells."""
    found: Counter[str] = Counter()
    for k, n, m in [(2, 1, 2), (2, 2, 3), (2, 3, 2), (2, 4, 3), (3, 2, 3), (3, 3, 2)]:
        for urn in pools(k, n, m):
            truth, literal = Truth(urn), Literal(urn)
            for gain in GAINS:
                bound = bound_of(urn, gain)
                sums = literal.sums(gain)
                assert bound >= max(once for once, _ in sums)
                if k == 2:
                    assert bound <= max(often for _, often in sums) * CLOSE
                    found["equal"] += bound <= max(once for once, _ in sums) * CLOSE
                if all(f == 1 for f in urn.retention):
                    assert max(once for once, _ in sums) == truth.excess_mass(gain)
                found["cases"] += 1
    assert found["cases"] == 4 * (4 * 28 + 2 * 84)
    assert found["equal"] > 300


def two_cells(n: int, m: int, a: Fraction, gain: Fraction) -> Fraction:
    """The probability of a loss above ln gain with two cells of prior a: every histogram and output."""
    total, worst = rising(n + 2 * a, m), Fraction(0)
    for x in range(n + 1):
        likely = Fraction(0)
        for s in range(m + 1):
            h, draws = (x, n - x), (s, m - s)
            ratios = []
            for i, j in ((0, 1), (1, 0)):
                if h[i]:
                    g = (1 + draws[i] / (h[i] - 1 + a)) / (1 + draws[j] / (h[j] + a))
                    ratios += [g, 1 / g]
            if max(ratios) > gain:
                likely += math.comb(m, s) * rising(x + a, s) * rising(n - x + a, m - s) / total
        worst = max(worst, likely)
    return worst


def test_with_two_cells_calibrated_plans_state_the_truth() -> None:
    for n, epsilon, delta in [(17, "1", "1e-4"), (24, "4", "1e-6"), (40, "0.5", "1e-3"), (60, "8.6", "1e-7")]:
        asked, allowance = Fraction(epsilon), Fraction(delta)
        one = PoolClass(n, n, n, (2,), (2,), (2,), Fraction(1), (0,), ONE, 10**9)
        before, after = (calibrate_class(one, Goal(asked, allowance, alike=x)) for x in (False, True))
        assert before is not None
        assert after is not None
        assert after.prior < before.prior
        with rigorous() as balls:
            stated = upper_fraction(loss_bound(after, balls, alike=True)[0])
            loose = upper_fraction(failure_bound(after, balls)[0])
        true = two_cells(n, n, Fraction(after.prior[0], 10**9), after.gain)
        assert true <= stated <= true * CLOSE
        assert stated <= allowance < loose


def test_floats_and_balls_agree() -> None:
    gain = Fraction(4)
    for n, m, cells, f in [
        (30, 60, (1, 1), ("1", "1")),
        (20, 20, (1, 2), ("1", "1/2")),
        (9, 9, (5,), ("1/4",)),
    ]:
        retention = tuple(map(Fraction, f))
        c = make_class(n, n, m, cells, gain, (4, 11)[: len(cells)], retention=retention)
        with rigorous() as balls:
            exact = float(few_cells_bound(c, balls))
        assert few_cells_bound(c, FLOAT) == pytest.approx(exact, rel=1e-9)


def test_many_draws_at_a_small_epsilon_fit_floats() -> None:
    c = make_class(400, 400, 400, (2,), Fraction(1001, 1000), (300_000 * 10**6,), denominator=10**6)
    assert 0 < few_cells_bound(c, FLOAT) < 1
    assert 0 < largest_pair_delta(c, Fraction(1, 1000), FLOAT, alike=True) < 1


def test_where_it_does_not_apply() -> None:
    with rigorous() as balls:
        for n, m, cells in [(4, 4, (FEW + 1,)), (4, 401, (2,)), (200, 200, (4,)), (4, 4, (1,))]:
            c = make_class(n, n, m, cells, Fraction(4), (10,))
            assert few_cells_bound(c, balls) is None
            both = loss_bound(c, balls, alike=True)[0], failure_bound(c, balls)[0]
            assert upper_fraction(both[0]) == upper_fraction(both[1])
        assert summable(make_class(4, 4, 4, (2,), Fraction(4), (10,)))
        c = make_class(30, 30, 30, (2,), Fraction(4), (10,))
        assert loss_bound(c, balls, alike=False)[0] > loss_bound(c, balls, alike=True)[0]


def test_fewer_draws_can_be_worse() -> None:
    """Why every pool of the class must have the same draws."""
    a, gain = Fraction(1, 10), Fraction(10)
    assert two_cells(2, 1, a, gain) > two_cells(2, 2, a, gain)


def test_classes_whose_pools_are_alike() -> None:
    n = np.array([3, 3, 20, 20, 70, 71, 90])
    m = np.array([3, 3, 20, 19, 70, 71, 90])
    cells = np.array([[3], [4], [2], [2], [2], [2], [2]])
    pool_class, classes = group_pools(Pools(n, m, np.zeros(n.size, np.int32)), cells, ONE)
    same = np.array(alike_classes(pool_class, m, classes))[pool_class]
    assert same.tolist() == [True, True, False, False, False, False, True]


def test_a_certificate_states_it_only_where_pools_are_alike() -> None:
    certified = synth.MECHANISMS["dirichlet"].certify
    domains = synth.Domains(2, np.array([0, 2]), np.array([0, 1], np.int32), np.zeros(2, np.uint8))
    domain = np.zeros(3, np.int32)
    twenty = np.full(3, 20)
    pools = synth.Pools(twenty, twenty, domain)
    target = synth.Target(Fraction(2), Fraction(1, 10**4))
    plan = synth.MECHANISMS["dirichlet"].calibrate(pools, domains, ONE, target)
    # one pool with fewer draws, in the same class: the bounds for any number of cells
    fewer = replace(plan, pools=synth.Pools(twenty, np.array([20, 20, 19]), domain))
    now, many = certified(plan), certified(fewer)
    assert now.delta <= plan.target.delta < many.delta / 10
    assert now.record_delta < many.record_delta
    assert now.epsilon == many.epsilon
    exactly = replace(target, record_range=synth.RecordRange(Fraction(1), Fraction(1)))
    ranged = synth.MECHANISMS["dirichlet"].calibrate(pools, domains, ONE, exactly)
    assert certified(replace(ranged, target=target)).delta < certified(ranged).delta


def all_pairs(c: PoolClass, epsilon: Fraction, balls: Arithmetic) -> Fraction:
    """The largest divergence of any pair of a pool of equal cells: no lemma about h_j."""
    a, k, n = Fraction(c.prior[0], 10), c.cells[0], c.n_max
    worst = Fraction(0)
    for x in range(1, n + 1):
        for y in range(n - x + 1):
            if k > 2 or x + y == n:
                rest = n - x - y + (k - 2) * a
                worst = max(
                    worst, upper_fraction(pair_delta(Pair(x, y, a, a, rest, c.m_max), epsilon, balls))
                )
    return worst


def test_the_largest_pair_has_an_empty_cell_that_gains() -> None:
    for n, m, k, a in itertools.product((5, 9), (4, 9), (2, 3, 5), (1, 10, 30)):
        c = make_class(n, n, m, (k,), Fraction(2), (a,), kept=(k,))
        for epsilon in (Fraction(1, 2), Fraction(2)):
            with rigorous() as balls:
                found = upper_fraction(largest_pair_delta(c, epsilon, balls, alike=True))
                true = all_pairs(c, epsilon, balls)
                bound = upper_fraction(record_delta_bound(c, epsilon, balls))
            assert true <= found * CLOSE
            assert found <= true * CLOSE
            assert found <= bound * CLOSE


def test_pairs_of_larger_pools_are_those_of_a_plain_sum() -> None:
    """With two cells: sums of masses and tails in fractions."""
    n, a, epsilon = 30, Fraction(3, 10), Fraction(2)
    odds = exp_up(epsilon)
    c = make_class(n, n, n, (2,), Fraction(2), (3,), kept=(2,))
    worst = Fraction(0)
    for x in range(1, n + 1):
        total = Fraction(0)
        for s in range(n + 1):
            g = (1 + s / (x - 1 + a)) / (1 + (n - s) / (n - x + a))
            if g > odds:
                mass = beta_binomial_tail(n, x + a, n - x + a, s - 1) - beta_binomial_tail(
                    n, x + a, n - x + a, s
                )
                total += mass * (1 - odds / g)
        worst = max(worst, total)
    with rigorous() as balls:
        found = upper_fraction(largest_pair_delta(c, epsilon, balls, alike=True))
    assert float(found) == pytest.approx(float(worst), rel=1e-12)
    assert largest_pair_delta(c, epsilon, FLOAT, alike=True) == pytest.approx(float(worst), rel=1e-9)
    assert largest_pair_delta(c, epsilon, FLOAT) is None


def pruned_cells_change_nothing(patch: pytest.MonkeyPatch) -> None:
    real = few_cells._Sums._with_others
    patch.setattr(
        few_cells._Sums,
        "bound",
        lambda self, urns, *, pairs: sum(
            self._arithmetic.number(chance)
            * sum(sum(real(self, self._without(out), c, inside)) * k for c, k in inside.items())
            / self._ways(self._without(out))[self._class.m_max]
            for chance, out, inside in urns
        ),
    )


def gaining_cells_have_one_worker_less(patch: pytest.MonkeyPatch) -> None:
    real = few_cells._Sums._of
    patch.setattr(few_cells._Sums, "_of", lambda self, cell, *, gains: real(self, cell, gains=not cell[1]))


def only_the_evenest_histogram(patch: pytest.MonkeyPatch) -> None:
    real = few_cells._histograms
    patch.setattr(few_cells, "_histograms", lambda n, cells: real(n, cells)[-1:])


def coins_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = few_cells._urns
    patch.setattr(few_cells, "_urns", lambda *arguments: list(real(*arguments))[-1:])


@pytest.mark.parametrize(
    "broken",
    [
        pruned_cells_change_nothing,
        gaining_cells_have_one_worker_less,
        only_the_evenest_histogram,
        coins_are_forgotten,
    ],
)
def test_a_broken_bound_is_below_the_truth_somewhere(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)  # type: ignore[operator]
    # Cases that are kept would be those of the bound that is not broken.
    monkeypatch.setattr(few_cells, "_cases", few_cells._cases.__wrapped__)
    for urn in itertools.chain(pools(2, 1, 3), pools(2, 2, 3)):
        for gain in GAINS:
            if bound_of(urn, gain) < max(once for once, _ in Literal(urn).sums(gain)):
                return
    pytest.fail(f"nothing was found among {len(PALETTE)} kinds of cells")
