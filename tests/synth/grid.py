"""A complete grid of small pools, and the examination of what `synth` certifies for them.

Every comparison is between rational numbers; a certificate enters with the upper end of its balls, which is
what is printed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import synth
from synth.dirichlet.few_cells import few_cells_bound
from synth.dirichlet.losses import PoolClass, failure_bound
from synth.dirichlet.pruning import pruning_gain
from synth.dirichlet.record import pure_gain, record_delta_bound
from synth.tails import exp_up, rigorous, upper_fraction

from .builders import make_class
from .reference import Urn
from .truth import Truth

Q = 10
Stratum = tuple[Fraction, Fraction]
PALETTE: list[Stratum] = [
    (Fraction(prior), Fraction(retention))
    for prior, retention in [
        *[("1/10", "1/2"), ("1/2", "1"), ("1/2", "1/4")],  # below 1
        *[("1", "1"), ("1", "1/2")],
        *[("2", "1"), ("2", "1/4")],  # above 1
    ]
]
CELLS, SLOTS, DRAWS = range(1, 5), range(1, 5), range(1, 6)
# Each is exactly some block loss for some strata of the palette, and lies between block losses for others.
GAINS = [Fraction(3, 2), Fraction(3), Fraction(5), Fraction(12)]
BELOW = 1 - Fraction(1, 10**9)  # just misses equality
EPSILONS = [Fraction(1, 4), Fraction(1)]  # more points of a person's curve
# What is compared: certified over true.
COMPARED = [
    "loss",
    "pure loss",
    "run delta",
    "small run delta",
    "run delta, any loss above epsilon",
    "person delta",
    "small person delta",
]
SMALL = Fraction(1, 10)  # a delta that says something


@dataclass(frozen=True)
class Certified:
    """What is certified at one gain, upper ends.

    `union` is the bound of Lemma 7 and `failure` the run's delta, with Lemma 32 where that is smaller;
    `person` is the delta of the certificate, valid at `epsilon`, which is the logarithm of `odds` =
        e^(U* + V) rounded up; `tail` the coarser one of Lemma 7, at the odds themselves.
    """

    odds: Fraction
    union: Fraction
    failure: Fraction
    tail: Fraction
    epsilon: Fraction
    person: Fraction


@dataclass
class Findings:
    """What the examination of some pools found.

    Attributes
    ----------
    violations : list of tuple
        A violated sentence and where.
    ratios : dict of list of float
        Certified over true, where the true value is not zero.
    zeros : Counter
        How often something positive was certified and the truth was zero.
    counts : Counter
        Size of the grid.
    """

    violations: list[tuple[object, ...]] = field(default_factory=list)
    ratios: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COMPARED})
    zeros: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def hold(self, sentence: str, certified: Fraction, true: Fraction, *where: object) -> None:
        """Note a violation if what is certified is below the truth."""
        if not true <= certified:
            self.violations.append((sentence, *where))

    def compare(self, name: str, certified: float | Fraction, true: float | Fraction) -> None:
        if true:
            self.ratios[name].append(float(certified / true))
        elif certified:
            self.zeros[name] += 1
        if f"small {name}" in COMPARED and true < SMALL:
            self.compare(f"small {name}", certified, true)


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
    urn: Urn, gain: Fraction, kept: Callable[[int, Fraction], int] = certain_cells, denominator: int = Q
) -> PoolClass:
    """The pool as a class: cells of equal prior and retention are one stratum."""
    strata, counts = list(urn.strata), tuple(urn.strata.values())
    numerators = tuple(int(a * denominator) for a, _ in strata)
    retention = tuple(f for _, f in strata)
    numbers = tuple(kept(count, f) for count, f in zip(counts, retention, strict=True))
    sizes = urn.n, urn.n, urn.m
    return make_class(
        *sizes, counts, gain, numerators, kept=numbers, retention=retention, denominator=denominator
    )


def certify(pool_class: PoolClass) -> Certified:
    """What `synth.dirichlet.mechanism.Dirichlet.certify` computes for a class."""
    alike = pool_class.n_min == pool_class.n_max and pool_class.cells_min == pool_class.cells
    with rigorous() as balls:
        odds = balls.number(pool_class.gain) * pruning_gain(pool_class, balls)
        union, tail = map(upper_fraction, failure_bound(pool_class, balls))
        few = few_cells_bound(pool_class, balls) if alike else None
        failure = union if few is None else min(union, upper_fraction(few))
        epsilon = Fraction(synth.decimal_up(upper_fraction(balls.log(odds))))
        delta = upper_fraction(record_delta_bound(pool_class, epsilon, balls, alike))
        return Certified(upper_fraction(odds), union, failure, tail, epsilon, min(tail, delta))


def examine(
    truth: Truth, gain: Fraction, certified: Certified, findings: Findings, *, own_class: bool = True
) -> None:
    """Hold every sentence of sections 3 and 4 that depends on the gain against one pool."""
    where = truth.urn, str(gain)
    loss, bad = truth.largest_loss(gain), truth.bad_mass(gain)
    excess = truth.excess_mass(certified.odds)
    divergence = truth.divergence(exp_up(certified.epsilon))
    findings.hold("loss", certified.odds, loss, *where)
    findings.hold("failure", certified.union, bad, *where)
    findings.hold("failure", certified.failure, excess, *where)
    findings.hold("tail", certified.tail, truth.divergence(certified.odds), *where)
    findings.hold("person", certified.person, divergence, *where)
    if own_class:
        findings.counts["cases"] += 1
        findings.compare("run delta", min(certified.union, Fraction(1)), bad)
        if truth.pairs:
            findings.compare("run delta, any loss above epsilon", min(certified.failure, Fraction(1)), excess)
            findings.compare("loss", math.log(certified.odds), math.log(loss))
            findings.compare("person delta", certified.person, divergence)
        findings.counts["cases in which a block loss is equal to U*"] += gain in truth.levels


def examine_pool(urn: Urn, findings: Findings, other_gains: Iterable[Fraction] = GAINS[1:2]) -> None:
    """Examine one pool at all gains; with `other_gains`, counting on other cells of the urn, too."""
    truth = Truth(urn)
    # The smallest gain at which nothing is bad: the last threshold is met with equality. And just below it.
    pure = max((1 + urn.m / a) / f for a, f in zip(urn.prior, urn.retention, strict=True))
    for gain in (*GAINS, pure * BELOW, pure):
        examine(truth, gain, certified := certify(class_of(urn, gain)), findings)
        if gain == pure and (certified.failure, certified.tail, certified.person) != (0, 0, 0):
            findings.violations.append(("nothing is bad", urn))
    with rigorous() as balls:
        pool_class = class_of(urn, pure)
        odds = upper_fraction(pure_gain(pool_class, balls))
        curve = [(e, record_delta_bound(pool_class, e, balls, alike=True)) for e in EPSILONS]
    findings.hold("pure", odds, truth.largest_loss(), urn)
    if truth.pairs:
        findings.compare("pure loss", math.log(odds), math.log(truth.largest_loss()))
    for epsilon, delta in curve:
        findings.hold("curve", upper_fraction(delta), truth.divergence(exp_up(epsilon)), urn, str(epsilon))
    for gain in other_gains:
        usual = class_of(urn, gain)
        for kept in (no_cell, likely_cells):
            if (another := class_of(urn, gain, kept)) != usual:
                examine(truth, gain, certify(another), findings, own_class=False)
    findings.counts += Counter(
        {
            "pools": 1,
            "histograms": len(truth.inputs),
            "histograms with an output": len(truth.inputs) * len(truth.outputs),
            "ordered pairs of neighbours": truth.pairs,
            "ordered pairs of neighbours with an output": truth.pairs * len(truth.outputs),
        }
    )


def pools(k: int, n: int, m: int) -> Iterator[Urn]:
    """Every multiset of k cells from the palette."""
    for cells in itertools.combinations_with_replacement(PALETTE, k):
        prior, retention = zip(*cells, strict=True)
        yield Urn(n, m, prior, retention)
