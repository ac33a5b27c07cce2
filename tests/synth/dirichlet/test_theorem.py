"""The certificate against the whole truth of small cases: all histograms, coins and outputs, in fractions.

The grid is complete: every number of cells, slots and draws up to a limit, every multiset of cells from a
palette of strata, at gains where thresholds are met with equality, missed from below and passed.
`grid.examine` compares what `synth` certifies with exact enumeration of the mechanism as steps 1 to 3 of
docs/privacy.md state it. `python benchmarks/tightness.py` runs the grid and prints how tight the
certificates are.
"""

from __future__ import annotations

import itertools
import math
import runpy
import statistics
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import flint
import pytest

from helpers import ROOT
from synth.dirichlet import losses, record
from synth.dirichlet.losses import bad_threshold, failure_bound, shortfall_bound
from synth.tails import Arithmetic, rigorous, tail_bound, upper_fraction

from .. import grid, reference
from ..builders import make_class
from ..grid import (
    BELOW,
    CELLS,
    DRAWS,
    GAINS,
    PALETTE,
    SLOTS,
    Findings,
    Q,
    certify,
    class_of,
    examine,
    examine_pool,
    pools,
)
from ..reference import Urn
from ..truth import Truth

# Largest medians of certified / true that a part (k, n, m) of the grid may have: looser bounds fail.
LIMITS = {
    "loss": 1.7,
    "pure loss": 1.2,
    "run delta": 1.35,
    "small run delta": 2.1,
    "run delta, any loss above epsilon": 1.8,
    "person delta": 2.4,
    "small person delta": 5.6,
}


@pytest.fixture(autouse=True, scope="module")
def _each_tail_once() -> Iterator[None]:
    """Compute a tail that many pools of the grid share once: the same ball for the same arguments."""
    known: dict[tuple[Any, ...], Any] = {}

    def tail(
        draws: int, weight: Fraction, rest: Fraction, threshold: int, numbers: Arithmetic, *share: Any
    ) -> Any:
        # in integers: to find a fraction takes longer than to compute a small tail
        fractions = weight.numerator, weight.denominator, rest.numerator, rest.denominator
        arguments = draws, *fractions, threshold, id(numbers), flint.ctx.prec, *share
        found = known.get(arguments)
        if found is None:
            found = known[arguments] = tail_bound(draws, weight, rest, threshold, numbers, *share)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "tail_bound", tail)
        yield


def test_tails_that_are_kept_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    urns = [urn for n, m in [(1, 3), (4, 2)] for urn in pools(2, n, m)]
    kept = [certify(class_of(urn, gain)) for urn in urns for gain in GAINS]
    monkeypatch.setattr(losses, "tail_bound", tail_bound)
    assert kept == [certify(class_of(urn, gain)) for urn in urns for gain in GAINS]


def part(k: int, n: int, m: int) -> Any:
    """Most of the time goes to many cells: of three the corners are here."""
    corner = n in (min(SLOTS), max(SLOTS)) and m in (min(DRAWS), max(DRAWS))
    # The whole grid of two cells shows the same; `make deep` runs the rest.
    marks = () if k < 3 or (k == 3 and corner) else pytest.mark.deep
    return pytest.param(k, n, m, id=f"k{k}-n{n}-m{m}", marks=marks)


@pytest.mark.parametrize(("k", "n", "m"), [part(*sizes) for sizes in itertools.product(CELLS, SLOTS, DRAWS)])
def test_every_small_case_holds_the_theorem(k: int, n: int, m: int, request: pytest.FixtureRequest) -> None:
    findings = Findings()
    for urn in pools(k, n, m):
        examine_pool(urn, findings)
    # into the report of the run, as `record_property` would (which warns under junit's default family), for
    # benchmarks/tightness.py
    request.node.user_properties += [
        ("ratios", findings.ratios),
        ("true zeros", dict(findings.zeros)),
        ("counts", dict(findings.counts)),
        ("violations", [str(violation) for violation in findings.violations]),
    ]
    assert not findings.violations
    assert findings.counts["pools"] == math.comb(len(PALETTE) + k - 1, k)
    assert findings.counts["cases"] == findings.counts["pools"] * (len(GAINS) + 2)
    for name, ratios in findings.ratios.items():
        if ratios:
            assert min(ratios) >= 1 - 1e-12, name  # the exact comparison is above; this is of floats
            assert statistics.median(ratios) < LIMITS[name], name
    assert k == 1 or all(ratios for name, ratios in findings.ratios.items() if "small" not in name)


def test_the_benchmark_prints_what_the_grid_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "tightness.py"))
    assert list(benchmark["ROWS"]) == grid.COMPARED
    assert benchmark["GRID"].split("::")[1] == test_every_small_case_holds_the_theorem.__name__
    assert float(benchmark["pair_row"](10, Fraction(2))[-1]) >= 1


def test_equality_is_not_bad() -> None:
    for (a, f), x, s in itertools.product(PALETTE, range(max(SLOTS) + 1), DRAWS):
        exact = reference.cell_gain(x, s, a, f)
        for gain in (exact, exact * BELOW, exact / BELOW):
            fine = [t for t in range(2 * max(DRAWS)) if reference.cell_gain(x, t, a, f) <= gain]
            assert bad_threshold(x, a, f, gain) == max(fine) == (s if gain >= exact else s - 1)


def test_a_class_certifies_every_pool_in_it() -> None:
    for n, m, prior, retention in [
        (n, m, prior, retention)
        for n, m in [(2, 2), (3, 3), (2, 4), (3, 2)]
        for prior in [("1/2", "2"), ("1", "1"), ("1/10", "1")]
        for retention in [("1", "1/4"), ("1/2", "1/2"), ("1/4", "1/2")]
    ]:
        a, f = tuple(map(Fraction, prior)), tuple(map(Fraction, retention))
        findings = Findings()
        for gain in (Fraction(3), Fraction(9)):
            # n from 2 to 3, m up to 4, up to two cells of each stratum
            numerators = (int(a[0] * Q), int(a[1] * Q))
            wide = make_class(2, 3, 4, (2, 2), gain, numerators, cells_min=(0, 0), retention=f)
            certified = certify(wide)
            for cells in [(0, 1), (0, 1, 1), (0, 0, 1), (1, 1), (0, 0)]:
                urn = Urn(n, m, tuple(a[s] for s in cells), tuple(f[s] for s in cells))
                examine(Truth(urn), gain, certified, findings, own_class=False)
            # one or two cells of each stratum, one of each counted on
            wide = make_class(2, 3, 4, (2, 2), gain, numerators, cells_min=(1, 1), kept=(1, 1), retention=f)
            certified = certify(wide)
            for cells in [(0, 1), (0, 1, 1), (0, 0, 1)]:
                urn = Urn(n, m, tuple(a[s] for s in cells), tuple(f[s] for s in cells))
                examine(Truth(urn), gain, certified, findings, own_class=False)
        assert not findings.violations


def test_two_pools_compose_by_the_largest_epsilon_and_the_sum_of_delta() -> None:
    for gains, first in itertools.product(list(itertools.permutations(GAINS[:3], 2)), range(len(PALETTE))):
        strata = (PALETTE * 2)[first : first + 4]
        urns = [Urn(n, 2, *zip(*strata[at : at + 2], strict=True)) for n, at in [(1, 0), (2, 2)]]
        parts = [certify(class_of(urn, gain)) for urn, gain in zip(urns, gains, strict=True)]
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
    # docs/privacy.md, last section: epsilon + ln max(2^noise, 1/f) is no bound for replace-one neighbours.
    urn = Urn(3, 3, (Fraction(2),) * 3, (Fraction(1, 4),) * 3)
    true = Truth(urn).largest_loss()
    block = 1 + Fraction(urn.m, 2)  # e^epsilon of the paper's Theorem 1: 1 + m/a
    tutorial = block * max(Fraction(2) ** 2, 1 / urn.retention[0])
    certified = certify(class_of(urn, block * 4))  # U = ln(1 + m/a) + ln(1/f)
    assert certified.failure == 0
    assert tutorial < true <= certified.odds
    assert round(math.log(true), 4) == 2.8468
    assert round(math.log(tutorial), 4) == 2.3026
    assert round(math.log(certified.odds), 4) == 2.9970
    assert certified.odds < 10 * reference.pruning_gain(urn)  # which takes the urn to hold n + min a at least


def test_shortfall_is_above_the_exact_probability() -> None:
    for f, cells in itertools.product([Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)], [1, 2, 5, 9]):
        for kept in range(cells + 1):
            c = make_class(
                3, 3, 3, (2, cells), Fraction(3), (1, 1), kept=(2, kept), retention=(Fraction(1), f)
            )
            with rigorous() as balls:
                bound = upper_fraction(shortfall_bound(c, balls))
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
    patch.setattr(grid, "pruning_gain", lambda c, balls: balls.number(1))


def threshold_one_too_high(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "bad_threshold", lambda *arguments: bad_threshold(*arguments) + 1)


def retention_forgotten_in_the_loss(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "bad_threshold", lambda x, a, f, gain: bad_threshold(x, a, flint.fmpq(1), gain))


def single_workers_lose_no_retention(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        losses,
        "bad_threshold",
        lambda x, a, f, gain: bad_threshold(x, a, f if x == 0 else flint.fmpq(1), gain),
    )


def gaining_instead_of_losing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "bad_threshold", lambda x, a, f, gain: int((gain - 1) * (x + a)) if x else 10**6)


def heavier_urn(patch: pytest.MonkeyPatch) -> None:
    tail = losses.tail_bound
    patch.setattr(losses, "tail_bound", lambda m, w, rest, t, *others: tail(m, w, 3 * rest + 3, t, *others))


def shortfall_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "shortfall_bound", lambda c, balls: balls.number(0))


def equality_with_a_tolerance(patch: pytest.MonkeyPatch) -> None:
    near = 1 + flint.fmpq(1, 10**6)
    patch.setattr(losses, "bad_threshold", lambda x, a, f, gain: bad_threshold(x, a, f, gain * near))


def only_the_worst_cell_fails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grid, "failure_bound", lambda *arguments: failure_bound(*arguments)[1:] * 2)


def person_loses_nothing_by_pruning(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record, "pruning_gain", lambda c, balls: balls.number(1))


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
        (equality_with_a_tolerance, "failure"),
        (only_the_worst_cell_fails, "failure"),
        (person_loses_nothing_by_pruning, "person"),
    ],
)
def test_a_broken_bound_is_caught(
    broken: Callable[[pytest.MonkeyPatch], None], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    findings = Findings()
    for k, n, m in itertools.product((2, 3), (1, 2, 3), (1, 2, 3)):
        for urn in pools(k, n, m):
            examine_pool(urn, findings, GAINS)
            if sentence in {violation[0] for violation in findings.violations}:
                return
    pytest.fail("nothing was found")
