"""One record more or less, exactly: every histogram of every size, coin, lot and output of small pools.

The number of records of a pool is confidential: it lies in a range or, before lots, anywhere. What is
certified for the range is compared with enumerations in rational arithmetic, for both kinds of neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from synth import MECHANISMS
from synth.dirichlet import record
from synth.dirichlet.losses import PoolClass, failure_bound
from synth.dirichlet.mechanism import Dirichlet
from synth.dirichlet.pruning import pruning_gain
from synth.dirichlet.record import pure_gain
from synth.geometric.mechanism import Geometric, presence_loss
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Plan, Pools, RecordRange, Target
from synth.randomness import RunKey, leave_out
from synth.tails import exp_up, rigorous, upper_fraction

from .grid import EPSILONS, class_of
from .noise_reference import neighbours as moved
from .noise_reference import noise_distribution
from .reference import Histogram, Urn, chi_square_p, histograms, is_bad

PALETTE = [(Fraction(a), Fraction(f)) for a, f in [("1/10", "1/2"), ("1/2", "1"), ("2", "1"), ("1", "1/4")]]
RANGES = [(1, 2), (2, 3), (1, 3)]
GAINS = [Fraction(3, 2), Fraction(3), Fraction(12)]
Distribution = dict[Histogram, Fraction]


def more_or_fewer(h: Histogram) -> Iterator[Histogram]:
    """All histograms with one record more or less."""
    for c, x in enumerate(h):
        yield (*h[:c], x + 1, *h[c + 1 :])
        if x:
            yield (*h[:c], x - 1, *h[c + 1 :])


def stay(h: Histogram, most: int) -> Iterator[tuple[Histogram, Fraction]]:
    """Every outcome of leaving records out by lot: all subsets of equal size are equally likely."""
    for kept in histograms(min(sum(h), most), len(h)):
        ways = math.prod(math.comb(x, s) for x, s in zip(h, kept, strict=True))
        if ways:
            yield kept, Fraction(ways, math.comb(sum(h), sum(kept)))


def filled(h: Histogram, least: int, model: tuple[Fraction, ...]) -> Iterator[tuple[Histogram, Fraction]]:
    """Every outcome of filling up from the public model."""
    for more in histograms(max(least - sum(h), 0), len(h)):
        share = math.factorial(sum(more)) * math.prod(
            p**x / math.factorial(x) for p, x in zip(model, more, strict=True)
        )
        yield tuple(x + y for x, y in zip(h, more, strict=True)), Fraction(share)


@dataclass
class Ranged:
    """A pool of between `least` and `most` records, and of any number before lots."""

    urn: Urn
    least: int
    most: int
    memory: dict[Histogram, Distribution] = field(default_factory=dict)

    def of_class(self, gain: Fraction) -> PoolClass:
        return replace(class_of(self.urn, gain), n_min=self.least, n_max=self.most)

    def inside(self, h: Histogram) -> Distribution:
        if h not in self.memory:
            self.memory[h] = self.urn.distribution(h)
        return self.memory[h]

    @cached_property
    def model(self) -> tuple[Fraction, ...]:
        k = self.urn.k
        return tuple(Fraction(2 * c + 1, k * k) for c in range(k))

    def whole(self, h: Histogram) -> Distribution:
        """The distribution of what is released, lots and filling included."""
        total: Distribution = {}
        for kept, share in stay(h, self.most):
            for given, part in filled(kept, self.least, self.model):
                for s, p in self.inside(given).items():
                    total[s] = total.get(s, Fraction(0)) + share * part * p
        assert sum(total.values()) == 1
        return total


def whole_numbers(distributions: dict[Histogram, Distribution]) -> tuple[dict[Histogram, list[int]], int]:
    """Return them, outputs in one order, times a common denominator; and this: fractions are slow."""
    common = math.lcm(*(p.denominator for each in distributions.values() for p in each.values()))
    outputs = list(next(iter(distributions.values())))
    return {
        h: [each[s].numerator * (common // each[s].denominator) for s in outputs]
        for h, each in distributions.items()
    }, common


def whole_divergence(one: list[int], other: list[int], odds: Fraction) -> int:
    """The same of whole numbers, times the denominator of the odds."""
    up, down = odds.numerator, odds.denominator
    return sum(max(0, down * p - up * q) for p, q in zip(one, other, strict=True))


def examine(pool: Ranged, violations: list[str], counts: Counter[str], gains: list[Fraction] = GAINS) -> None:
    """Hold what is certified for the range against every case."""
    urn, k = pool.urn, pool.urn.k
    sizes = range(pool.least, pool.most + 1)
    inputs = [h for n in sizes for h in histograms(n, k)]
    given, denominator = whole_numbers({h: pool.inside(h) for h in inputs})
    outputs = list(pool.inside(inputs[0]))
    for gain in gains:
        pool_class = pool.of_class(gain)
        with rigorous() as balls:
            odds = upper_fraction(balls.number(gain) * pruning_gain(pool_class, balls))
            failure = upper_fraction(failure_bound(pool_class, balls)[0])
        up, down = odds.numerator, odds.denominator
        for h in inputs:
            own = given[h]
            good = [place for place, s in enumerate(outputs) if not is_bad(urn, h, s, gain)]
            counts["outputs"] += len(own)
            if not 1 - Fraction(sum(own[s] for s in good), denominator) <= failure:
                violations.append("failure")
            for other in (*more_or_fewer(h), *moved(h)):
                if sum(other) not in sizes:
                    continue
                theirs = given[other]
                counts["neighbours"] += 1
                if not all(down * own[s] <= up * theirs[s] and down * theirs[s] <= up * own[s] for s in good):
                    violations.append("loss")
    everything = [h for n in range(pool.most + 3) for h in histograms(n, k)]
    pool_class = pool.of_class(Fraction(3))
    with rigorous() as balls:
        pure = upper_fraction(pure_gain(pool_class, balls))
        curve = [
            (exp_up(e), upper_fraction(record.presence_delta_bound(pool_class, e, balls)))
            for e in (*EPSILONS, Fraction(5, 2))
        ]
    released_from, denominator = whole_numbers({h: pool.whole(h) for h in everything})
    for h in everything:
        for other in (*more_or_fewer(h), *moved(h)):
            if other not in released_from:
                continue
            counts["neighbours with lots"] += 1
            one, two = released_from[h], released_from[other]
            if any(pure.denominator * p > pure.numerator * q for p, q in zip(one, two, strict=True)):
                violations.append("pure")
            if any(
                whole_divergence(one, two, odds) > delta * (odds.denominator * denominator)
                for odds, delta in curve
            ):
                violations.append("curve")


def some_pools(k: int, ranges: list[tuple[int, int]] = RANGES) -> Iterator[Ranged]:
    for cells in itertools.combinations_with_replacement(PALETTE, k):
        prior, retention = zip(*cells, strict=True)
        for (least, most), m in itertools.product(ranges, (1, 2, 3) if k < 3 else (2,)):
            yield Ranged(Urn(most, m, prior, retention), least, most)


@pytest.mark.parametrize("k", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_small_case_holds_for_both_kinds_of_neighbours(k: int) -> None:
    violations, counts = list[str](), Counter[str]()
    for pool in some_pools(k):
        examine(pool, violations, counts)
        assert not violations, pool
    assert min(counts["outputs"], counts["neighbours"], counts["neighbours with lots"]) > 100


def no_pruning_loss(patch: pytest.MonkeyPatch) -> str:
    patch.setitem(globals(), "pruning_gain", lambda c, balls: balls.number(1))
    return "loss"


def bounds_of_the_public_total_alone(patch: pytest.MonkeyPatch) -> str:
    of_class = Ranged.of_class

    patch.setattr(Ranged, "of_class", lambda self, gain: replace(of_class(self, gain), n_min=self.most))
    return "failure"


def no_lots(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(Ranged, "whole", Ranged.inside)
    return "curve"


def more_than_the_most(patch: pytest.MonkeyPatch) -> str:
    of_class = Ranged.of_class

    patch.setattr(Ranged, "of_class", lambda self, gain: replace(of_class(self, gain), n_max=self.least))
    return "failure"


def filled_with_copies(patch: pytest.MonkeyPatch) -> str:
    """A pool is filled up to the fewest with copies of who is there: not independent of homes."""

    def copied(h: Histogram, least: int, _: object) -> Iterator[tuple[Histogram, Fraction]]:
        missing = max(least - sum(h), 0)
        first = next((c for c, x in enumerate(h) if x), 0)
        yield tuple(x + missing * (c == first) for c, x in enumerate(h)), Fraction(1)

    patch.setitem(globals(), "filled", copied)
    return "curve"


FAULTS = [no_pruning_loss, bounds_of_the_public_total_alone, more_than_the_most, no_lots, filled_with_copies]


@pytest.mark.parametrize("broken", FAULTS)
def test_a_fault_is_caught(
    broken: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = broken(monkeypatch)
    violations, counts = list[str](), Counter[str]()
    for pool in itertools.chain(some_pools(2), some_pools(3)):
        examine(pool, violations, counts)
        if sentence in violations:
            return
    pytest.fail("nothing was found")


# --- plans


def plan_of(mechanism: str, n: list[int], k: int, record_range: RecordRange | None, **more: str) -> Plan:
    domains = Domains(k, np.array([0, k]), np.arange(k, dtype=np.int32), (np.arange(k) % 2).astype(np.uint8))
    retention = (Fraction(1), Fraction(1, 2)) if mechanism == "dirichlet" else (Fraction(1), Fraction(1))
    pools = Pools(np.array(n), np.array(n), np.zeros(len(n), np.int32))
    target = Target(more.get("epsilon", "4"), "1e-4", more.get("guarantee", "pdp"), record_range)  # type: ignore[arg-type]
    return MECHANISMS[mechanism].calibrate(pools, domains, retention, target)


def test_presence_is_not_stated_above_the_pure_epsilon() -> None:
    """Pure epsilon is for one record more or less too, so what it tightens is tightened alike."""
    sharper = 0
    for n, epsilon in itertools.product(([1, 2], [2, 6], [25]), ("6", "12", "30")):
        plan = plan_of("dirichlet", n, 3, RecordRange(Fraction(4, 5), Fraction(5, 4)), epsilon=epsilon)
        total = Dirichlet().certify(plan)
        tight = total.tightened()
        assert tight.presence is not None
        for name in ("epsilon", "delta", "record_epsilon", "record_delta"):
            assert getattr(tight.presence, name) == getattr(tight, name)
        sharper += (tight.epsilon, tight.delta) != (total.epsilon, total.delta)
    assert sharper


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
def test_a_plan_for_a_range_is_certified_for_all_of_it(guarantee: str) -> None:
    found, wider = (RecordRange(fewest, Fraction(5, 4)) for fewest in (Fraction(4, 5), Fraction(1, 2)))
    n = [1, 2, 7, 40, 300]
    plan = plan_of("dirichlet", n, 30, found, guarantee=guarantee, epsilon="6")
    least, most = found.limits(np.array(n))
    assert least.tolist() == [1, 1, 5, 32, 240]
    assert most.tolist() == [2, 3, 9, 50, 375]
    mechanism = Dirichlet()
    total = mechanism.certify(plan)
    assert total.meets(plan)
    assert total.presence is not None
    for name in ("epsilon", "delta", "record_epsilon", "record_delta"):
        assert getattr(total.presence, name) == getattr(total, name)
    # What is certified for exact numbers is not enough, and costs less noise.
    exact = plan_of("dirichlet", n, 30, None, guarantee=guarantee, epsilon="6")
    assert mechanism.noise_share(exact) < mechanism.noise_share(plan)
    with pytest.raises(ValueError, match="outside the limits of their class"):
        mechanism.certify(replace(exact, target=plan.target))
    with pytest.raises(ValueError, match="outside the limits of their class"):
        mechanism.certify(replace(plan, target=replace(plan.target, record_range=wider)))
    assert mechanism.certify(exact).presence is None
    assert not mechanism.certify(exact).meets(plan)
    assert total.repeated(3).presence == replace(
        total.presence,
        epsilon=3 * total.epsilon,
        delta=3 * total.delta,
        record_epsilon=3 * total.record_epsilon,
        record_delta=3 * total.record_delta,
    )


def test_a_range_is_checked() -> None:
    for fewest, most in [("0", "1"), ("1.01", "2"), ("0.5", "0.99"), ("-1", "1")]:
        with pytest.raises(ValueError, match="0 < fewest <= 1 <= most"):
            RecordRange(Fraction(fewest), Fraction(most))
    with pytest.raises(TypeError):
        RecordRange(0.5, Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        RecordRange(Fraction(1), Fraction(10**30)).limits(np.array([1]))


def test_a_sampler_takes_another_number_of_workers_only_with_a_range() -> None:
    cells, sizes = np.zeros(9, np.int32), np.array([4, 5])
    stream = RunKey.from_seed(1).stream("urn", 0)
    plan = plan_of("dirichlet", [4, 4], 3, None)
    with pytest.raises(ValueError, match="no range of records"):
        Dirichlet().sample(plan, slice(0, 2), cells, stream, sizes)
    plan = plan_of("dirichlet", [4, 4], 3, RecordRange(Fraction(1), Fraction(5, 4)))
    assert Dirichlet().sample(plan, slice(0, 2), cells, stream, sizes).shape == (8,)
    with pytest.raises(ValueError, match="number of workers"):
        Dirichlet().sample(plan, slice(0, 2), cells[1:], stream, sizes)


def test_urns_of_other_sizes_have_the_exact_distribution() -> None:
    runs, h, m = 60_000, (3, 0, 1), 3
    plan = plan_of("dirichlet", [m] * runs, 3, RecordRange(Fraction(1), Fraction(3, 2)), epsilon="2.5")
    cells = np.tile(np.repeat(np.arange(3, dtype=np.int32), h), runs)
    stream, sizes = RunKey.from_seed(5).stream("urn", 0), np.full(runs, sum(h))
    drawn = Dirichlet().sample(plan, slice(0, runs), cells, stream, sizes)
    counts = (drawn.reshape(runs, m, 1) == np.arange(3)).sum(axis=1)
    parameters = plan.parameters
    prior = [Fraction(a, parameters.denominator) for a in parameters.classes[0].prior]  # type: ignore[attr-defined]
    of_cell = plan.domains.stratum.tolist()
    urn = Urn(
        sum(h), m, tuple(prior[s] for s in of_cell), tuple((Fraction(1), Fraction(1, 2))[s] for s in of_cell)
    )
    exact = urn.distribution(h)
    observed = [int((counts == s).all(axis=1).sum()) for s in exact]
    expected = [float(runs * share) for share in exact.values()]
    assert sum(observed) == runs
    assert min(expected) > 10
    assert chi_square_p(observed, expected) > 1e-4


# --- lots


def test_every_subset_is_equally_likely() -> None:
    runs, stream = 40_000, RunKey.from_seed(9).stream("lots", 0)
    sizes, most = np.tile([5, 2, 0, 3], runs), np.tile([2, 3, 1, 1], runs)
    position = leave_out(sizes, most, stream).reshape(runs, 2 + 2 + 0 + 1) % 10
    assert (position[:, 2:4] == [5, 6]).all()  # of a pool that has few enough all stay, in order
    pairs = np.sort(position[:, :2], axis=1)
    for found, classes in ((pairs[:, 0] * 5 + pairs[:, 1], 10), (position[:, 4], 3)):
        observed = np.unique(found, return_counts=True)[1]
        assert observed.size == classes
        assert chi_square_p(observed, [runs / classes] * classes) > 1e-4


def test_lots_of_no_pool_too_large_ask_for_no_random_number() -> None:
    stream = RunKey.from_seed(9).stream("lots", 0)
    assert leave_out(np.array([2, 0, 1]), np.array([2, 1, 1]), stream).tolist() == [0, 1, 2]
    assert stream._given == 0


# --- geometric noise


def test_noisy_counts_of_one_more_differ_by_half_of_epsilon_at_most() -> None:
    """With the probabilities that the sampler's own source has; the factor is reached."""
    for p in (Fraction(1, 4), Fraction(1, 2), Fraction(2, 3)):
        noise = noise_distribution(p.numerator, p.denominator, 12)
        ratios = [noise[y - x] / noise[y - x - 1] for x in range(4) for y in range(-6, 9)]
        assert max(max(r, 1 / r) for r in ratios) == 1 / p
        plan = replace(
            plan_of("geometric", [3], 3, RecordRange(Fraction(4, 5), Fraction(5, 4))),
            parameters=GeometricParameters(p.numerator, p.denominator),
        )
        presence = Geometric().certify(plan).presence
        assert presence is not None
        assert presence.epsilon == presence.record_epsilon == presence_loss(p)
        assert 1 / p <= exp_up(presence.epsilon) < 1 / p + Fraction(1, 10**9)
        assert presence.delta == presence.record_delta == 0
