"""The certificate against the whole truth of small cases: all histograms, coins and outputs, in fractions.

`examine` compares what `synth.losses` certifies with exact enumeration of the mechanism as section 2 of
the mechanism document states it. Every comparison is between rational numbers; the certificate enters
with the upper end of its balls, which is what is printed in a certificate.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import pytest

from synth import losses
from synth.losses import PoolClass, bad_threshold, failure_bound, pruning_gain, shortfall_bound
from synth.person import person_delta_bound, pure_gain
from synth.tails import exp_up, rigorous, upper_fraction

from . import reference
from .builders import make_class
from .reference import Distribution, Histogram, Urn, is_bad

Q = 10
THIS = sys.modules[__name__]
PRIORS = [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(1, 10)]
RETENTIONS = [Fraction(1), Fraction(1, 2), Fraction(1, 4)]
STRATA = list(itertools.product(PRIORS, RETENTIONS))
GAINS = [Fraction(3, 2), Fraction(3), Fraction(5), Fraction(11), Fraction(30)]
EPSILONS = [Fraction(1, 4), Fraction(1), Fraction(9, 4)]  # of a person's curve


@dataclass(frozen=True)
class Certified:
    """e^(U* + V), F, the person's delta (and curve), and e^(pure epsilon), upper ends."""

    odds: Fraction
    failure: Fraction
    person: Fraction
    curve: tuple[tuple[Fraction, Fraction], ...]
    pure: Fraction


@dataclass
class Tightness:
    """Ratios of certified to true, where the true value is not zero."""

    epsilon: list[float]
    failure: list[float]
    person: list[float]
    cases: int = 0
    pure: int = 0

    def medians(self) -> tuple[float, float, float]:
        return (
            statistics.median(self.epsilon),
            statistics.median(self.failure),
            statistics.median(self.person),
        )


def no_cell(count: int, f: Fraction) -> int:
    """Count on no cell: the weight is the document's."""
    return 0


def certain_cells(count: int, f: Fraction) -> int:
    """Count on the cells that are never pruned."""
    return count if f == 1 else 0


def likely_cells(count: int, f: Fraction) -> int:
    """Count on as many cells as can be: at small counts the shortfall is then likely, too."""
    return count if f == 1 else max(k for k in range(count + 1) if k == 0 or Fraction(k - 1, count) < f)


def class_of(
    urn: Urn, gain: Fraction, kept: Callable[[int, Fraction], int] = certain_cells
) -> tuple[PoolClass, tuple[Fraction, ...]]:
    """The pool as a class: cells of equal prior and retention are one stratum."""
    strata = sorted(set(zip(urn.prior, urn.retention, strict=True)))
    cells = list(zip(urn.prior, urn.retention, strict=True))
    counts = tuple(cells.count(stratum) for stratum in strata)
    numerators = tuple(int(a * Q) for a, _ in strata)
    retention = tuple(f for _, f in strata)
    numbers = tuple(kept(count, f) for count, f in zip(counts, retention, strict=True))
    return make_class(urn.n, urn.n, urn.m, counts, gain, numerators, kept=numbers), retention


def certify(pool_class: PoolClass, retention: tuple[Fraction, ...]) -> Certified:
    with rigorous() as balls:
        odds = upper_fraction(balls.number(pool_class.gain) * pruning_gain(pool_class, retention, Q, balls))
        failure, person = failure_bound(pool_class, retention, Q, balls)
        curve = tuple(
            (exp_up(e), upper_fraction(person_delta_bound(pool_class, retention, Q, e, balls)))
            for e in EPSILONS
        )
        pure = upper_fraction(pure_gain(pool_class, retention, Q, balls))
        return Certified(odds, upper_fraction(failure), upper_fraction(person), curve, pure)


def true_odds(urn: Urn, truth: dict[Histogram, Distribution]) -> Fraction:
    """e^(largest loss) over all neighbours and outputs; both directions, since both orders are neighbours."""
    return max(p / truth[g][s] for h in truth for g in urn.neighbours(h) for s, p in truth[h].items() if p)


def examine(
    urn: Urn,
    truth: dict[Histogram, Distribution],
    gain: Fraction,
    certified: Certified,
    tightness: Tightness,
    *,
    exact_class: bool = True,
) -> None:
    """Assert every sentence of sections 3 and 4 for one pool and one gain."""
    worst_failure = worst_person = Fraction(0)
    for h, p in truth.items():
        assert sum(p.values()) == 1
        bad = {s for s in p if is_bad(urn, h, s, gain)}
        mass = sum((p[s] for s in bad), Fraction(0))
        assert mass <= certified.failure, ("failure", urn, gain, h)
        worst_failure = max(worst_failure, mass)
        for other in urn.neighbours(h):
            p_other = truth[other]
            divergence = Fraction(0)
            for s, here in p.items():
                there = p_other[s]
                assert (here > 0) == (there > 0), ("support", urn, h, other, s)
                if s not in bad:
                    # |loss| <= U* + V, both directions of the ratio
                    assert here <= certified.odds * there, ("loss", urn, gain, h, other, s)
                    assert there <= certified.odds * here, ("loss", urn, gain, h, other, s)
                assert here <= certified.pure * there, ("pure", urn, gain, h, other, s)
                divergence += max(Fraction(0), here - certified.odds * there)
            # every ordered pair is visited, so this is the larger of both directions for each pair
            assert divergence <= certified.person, ("person", urn, gain, h, other)
            worst_person = max(worst_person, divergence)
            for odds, delta in certified.curve:
                past = (max(Fraction(0), here - odds * p_other[s]) for s, here in p.items())
                assert sum(past, Fraction(0)) <= delta, ("curve", urn, gain, h, other)
    tightness.cases += 1
    if exact_class and all(
        bad_threshold(x, a, f, gain) >= urn.m
        for a, f in zip(urn.prior, urn.retention, strict=True)
        for x in (0, 1)
    ):
        assert certified.failure == certified.person == worst_failure == worst_person == 0
        tightness.pure += 1
    if worst_failure:
        tightness.failure.append(float(certified.failure / worst_failure))
    if worst_person:
        tightness.person.append(float(certified.person / worst_person))


def examine_all(urns: Iterable[Urn], gains: int, draw: random.Random, others: int = 1) -> Tightness:
    """Count on the cells that are certain; with `others` of the gains, also on none and on likely ones."""
    tightness = Tightness([], [], [])
    for urn in urns:
        truth = {h: urn.distribution(h) for h in urn.histograms()}
        # The smallest gain with which nothing is bad (equality decides), and some that leave bad outputs.
        pure = max((1 + urn.m / a) / f for a, f in zip(urn.prior, urn.retention, strict=True))
        certified = certify(*class_of(urn, pure))
        examine(urn, truth, pure, certified, tightness)
        assert certified.failure == 0, "pure"
        true = true_odds(urn, truth)
        assert true <= certified.odds
        tightness.epsilon.append(math.log(certified.odds) / math.log(true))
        sampled = draw.sample(GAINS, gains)
        for gain in sampled:
            examine(urn, truth, gain, certify(*class_of(urn, gain)), tightness)
        for gain in sampled[:others]:
            for kept in (no_cell, likely_cells):
                another = Tightness([], [], [])
                examine(urn, truth, gain, certify(*class_of(urn, gain, kept)), another, exact_class=False)
    return tightness


def grid(cells: range, sizes: range, draws: range, each: int, draw: random.Random) -> Iterable[Urn]:
    for k, n, m in itertools.product(cells, sizes, draws):
        for _ in range(each):
            strata = draw.sample(STRATA, draw.randint(1, 3))
            prior, retention = zip(*(draw.choice(strata) for _ in range(k)), strict=True)
            yield Urn(n, m, prior, retention)


def test_the_reference_is_the_dirichlet_multinomial() -> None:
    # Worked by hand: n = 1, h = (1, 0), a = 1, f = 1/2, one draw. Kept: 2/3 and 1/3; pruned: 1 and 0.
    urn = Urn(1, 1, (Fraction(1), Fraction(1)), (Fraction(1, 2), Fraction(1, 2)))
    assert urn.distribution((1, 0)) == {(1, 0): Fraction(5, 6), (0, 1): Fraction(1, 6)}
    # Without pruning the marginal of a cell is beta-binomial.
    urn = Urn(3, 5, (Fraction(1, 2), Fraction(2), Fraction(1, 10)), (Fraction(1),) * 3)
    p = urn.distribution((2, 0, 1))
    for c, (weight, rest) in enumerate([("5/2", "31/10"), ("2", "18/5"), ("11/10", "9/2")]):
        for t in range(-1, 6):
            tail = reference.beta_binomial_tail(5, Fraction(weight), Fraction(rest), t)
            assert sum(v for s, v in p.items() if s[c] > t) == tail


def test_small_cases_hold_the_theorem(request: pytest.FixtureRequest) -> None:
    draw = random.Random(20080407)
    tightness = examine_all(grid(range(2, 4), range(1, 4), range(1, 5), 12, draw), 2, draw)
    assert tightness.cases == 24 * 12 * 3
    report(tightness, request)


@pytest.mark.slow
def test_larger_small_cases_hold_the_theorem(request: pytest.FixtureRequest) -> None:
    draw = random.Random(19980114)
    tightness = examine_all(grid(range(2, 5), range(1, 5), range(1, 6), 8, draw), 3, draw)
    assert tightness.cases == 60 * 8 * 4
    report(tightness, request)


def report(tightness: Tightness, request: pytest.FixtureRequest) -> None:
    """Certified over true, the median over cases: a bound that became loose fails here."""
    epsilon, failure, person = tightness.medians()
    # into the report of the run, as `record_property` would (which warns under junit's default family)
    request.node.user_properties += [
        ("cases", tightness.cases),
        ("epsilon certified / true", f"{epsilon:.4f} (largest {max(tightness.epsilon):.2f})"),
        ("run delta certified / true", f"{failure:.3f} (largest {max(tightness.failure):.1f})"),
        ("person delta certified / true", f"{person:.3f} (largest {max(tightness.person):.1f})"),
    ]
    assert min(tightness.epsilon) >= 1 - 1e-12
    assert min(tightness.failure) >= 1 - 1e-12
    assert min(tightness.person) >= 1 - 1e-12
    assert tightness.pure >= tightness.cases / 4
    assert min(len(tightness.failure), len(tightness.person)) >= tightness.cases / 5
    assert epsilon < 1.03
    assert failure < 2.7
    assert person < 2.7


@pytest.mark.parametrize(
    ("n", "m", "prior", "retention"),
    [
        (n, m, prior, retention)
        for n, m in [(2, 2), (3, 3), (2, 4), (3, 2)]
        for prior in [("1/2", "2"), ("1", "1"), ("1/10", "1")]
        for retention in [("1", "1/4"), ("1/2", "1/2"), ("1/4", "1/2")]
    ],
)
def test_a_class_certifies_every_pool_in_it(
    n: int, m: int, prior: tuple[str, str], retention: tuple[str, str]
) -> None:
    a, f = tuple(map(Fraction, prior)), tuple(map(Fraction, retention))
    for gain in (Fraction(3), Fraction(9)):
        # n from 2 to 3, m up to 4, up to two cells of each stratum
        numerators = (int(a[0] * Q), int(a[1] * Q))
        wide = make_class(2, 3, 4, (2, 2), gain, numerators, cells_min=(0, 0))
        certified = certify(wide, f)
        for cells in [(0, 1), (0, 1, 1), (0, 0, 1), (1, 1), (0, 0)]:
            urn = Urn(n, m, tuple(a[s] for s in cells), tuple(f[s] for s in cells))
            truth = {h: urn.distribution(h) for h in urn.histograms()}
            examine(urn, truth, gain, certified, Tightness([], [], []), exact_class=False)
        # one or two cells of each stratum, one of each counted on
        wide = make_class(2, 3, 4, (2, 2), gain, numerators, cells_min=(1, 1), kept=(1, 1))
        certified = certify(wide, f)
        for cells in [(0, 1), (0, 1, 1), (0, 0, 1)]:
            urn = Urn(n, m, tuple(a[s] for s in cells), tuple(f[s] for s in cells))
            truth = {h: urn.distribution(h) for h in urn.histograms()}
            examine(urn, truth, gain, certified, Tightness([], [], []), exact_class=False)


@pytest.mark.parametrize("seed", range(4))
def test_two_pools_compose_by_the_largest_epsilon_and_the_sum_of_delta(seed: int) -> None:
    draw = random.Random(seed)
    urns = list(itertools.islice(grid(range(2, 3), range(1, 3), range(2, 3), 1, draw), 2))
    gains = draw.sample(GAINS[:3], 2)
    parts = [certify(*class_of(urn, gain)) for urn, gain in zip(urns, gains, strict=True)]
    odds, delta = max(p.odds for p in parts), sum(p.failure for p in parts)
    truth = [{h: urn.distribution(h) for h in urn.histograms()} for urn in urns]
    for h in itertools.product(*truth):
        # A record's slot, and so its pool, is public: a neighbour differs in one pool only.
        mass = Fraction(0)
        for s in itertools.product(*(truth[p][h[p]] for p in (0, 1))):
            here = [truth[p][h[p]][s[p]] for p in (0, 1)]
            ratios = [
                (here[p], truth[p][g][s[p]]) for p in (0, 1) for g in urns[p].neighbours(h[p]) if here[p]
            ]
            if any(one > odds * other or other > odds * one for one, other in ratios):
                mass += here[0] * here[1]
        assert mass <= delta


def test_the_tutorials_bound_is_violated_and_ours_is_not() -> None:
    # Mechanism document, section 3: epsilon + ln max(2^noise, 1/f) is no bound for replace-one neighbours.
    urn = Urn(3, 3, (Fraction(2),) * 3, (Fraction(1, 4),) * 3)
    truth = {h: urn.distribution(h) for h in urn.histograms()}
    true = true_odds(urn, truth)
    block = 1 + Fraction(urn.m, 2)  # e^epsilon of the paper's Theorem 1: 1 + m/a
    tutorial = block * max(Fraction(2) ** 2, 1 / urn.retention[0])
    certified = certify(*class_of(urn, block * 4))  # U = ln(1 + m/a) + ln(1/f)
    assert certified.failure == 0
    assert tutorial < true <= certified.odds
    assert round(math.log(true), 4) == 2.8468
    assert round(math.log(tutorial), 4) == 2.3026
    assert round(math.log(certified.odds), 4) == 3.0204
    assert certified.odds - 10 * reference.pruning_gain(urn) < Fraction(1, 2**150)


@pytest.mark.parametrize("f", [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)], ids=str)
@pytest.mark.parametrize("cells", [1, 2, 5, 9])
def test_shortfall_is_above_the_exact_probability(cells: int, f: Fraction) -> None:
    for kept in range(cells + 1):
        c = make_class(3, 3, 3, (2, cells), Fraction(3), (1, 1), kept=(2, kept))
        with rigorous() as balls:
            bound = upper_fraction(shortfall_bound(c, (Fraction(1), f), balls))
        # with o occupied cells, which are in the urn for sure, fewer are left to coins
        for occupied in range(min(cells, 3) + 1):
            free = cells - occupied
            exact = sum(
                (
                    math.comb(free, k) * f**k * (1 - f) ** (free - k)
                    for k in range(free + 1)
                    if occupied + k < kept
                ),
                Fraction(0),
            )
            assert exact <= bound
        assert (bound == 0) == (kept == 0)


def no_pruning_loss(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(THIS, "pruning_gain", lambda c, f, q, balls: balls.number(1))


def threshold_one_too_high(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "bad_threshold", lambda *arguments: bad_threshold(*arguments) + 1)


def retention_forgotten_in_the_loss(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "bad_threshold", lambda x, a, f, gain: bad_threshold(x, a, Fraction(1), gain))


def single_workers_lose_no_retention(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        losses, "bad_threshold", lambda x, a, f, gain: bad_threshold(x, a, f if x == 0 else Fraction(1), gain)
    )


def gaining_instead_of_losing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "bad_threshold", lambda x, a, f, gain: int((gain - 1) * (x + a)) if x else 10**6)


def heavier_urn(patch: pytest.MonkeyPatch) -> None:
    tail = losses.tail_bound
    patch.setattr(losses, "tail_bound", lambda m, w, rest, t, *others: tail(m, w, 3 * rest + 3, t, *others))


def shortfall_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "shortfall_bound", lambda c, f, balls: balls.number(0))


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (no_pruning_loss, "loss"),
        (threshold_one_too_high, "failure"),
        (retention_forgotten_in_the_loss, "failure"),
        (single_workers_lose_no_retention, "failure"),
        (gaining_instead_of_losing, "failure"),
        (heavier_urn, "failure"),
        (shortfall_forgotten, "failure"),
    ],
)
def test_a_broken_bound_is_caught(
    broken: Callable[[pytest.MonkeyPatch], None], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(7)
    urns = list(grid(range(2, 4), range(1, 4), range(1, 5), 2, draw))
    monkeypatch.setattr(THIS, "EPSILONS", [])  # it is the run's guarantee that must catch it
    broken(monkeypatch)
    with pytest.raises(AssertionError, match=f"'{sentence}'"):
        examine_all(urns, len(GAINS), draw, len(GAINS))
