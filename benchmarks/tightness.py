"""How tight the certificates are: against the whole truth of small pools, and of one pair in larger ones.

Usage: python benchmarks/tightness.py

Runs the complete grid of tests/synth/dirichlet/test_theorem.py (k cells, n slots, m draws, every multiset of
cells from a palette of priors and retentions, several gains e^U*), in which every histogram, coin and output
is enumerated in rational arithmetic. Prints the size of the grid, the violations (there must be none), and a
Markdown table of what is certified over what is true; "true 0" counts the cases in which something positive
is certified and the truth is 0. Then calibrated plans of pools of few cells without pruning, at all
combinations of some epsilons and deltas, against sums over every histogram and output in floating point;
beside what is certified, what the bounds for any number of cells say of the same plans, and the prior over
the one that is calibrated with these. Then, for larger pools, the delta that is certified for one person over
the exact one of the neighbours in which a lone worker moves to an empty cell. Takes some minutes.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report import print_table
from scipy.special import gammaln

import synth
from synth.dirichlet.calibration import Goal, calibrate_class
from synth.dirichlet.few_cells import loss_bound
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.pairs import Pair, pair_delta
from synth.dirichlet.record import record_delta_bound
from synth.plan import GuaranteeName
from synth.tails import rigorous, upper_fraction

ROOT = Path(__file__).resolve().parent.parent
GRID = "tests/synth/dirichlet/test_theorem.py::test_every_small_case_holds_the_theorem"
WORKERS = 2
SIZES = (10, 30, 100)
EPSILONS = ("2", "4.6", "8.6")
CELLS = 20
DELTA = Fraction(1, 10**5)
Q = 10**9
SURE = (Fraction(1),)

# Pools of few cells: cells, and slots. Every histogram and output is summed up, up to the order of cells.
REGIMES = [
    (2, (5, 10, 16)),
    (2, (17, 24, 32, 40, 50, 60)),
    (2, (100,)),
    (3, (5, 10, 16)),
    (3, (17, 24, 32, 40)),
]
REGIMES += [(5, (5, 10, 17))]
FEW_EPSILONS = ("0.5", "1", "2", "4", "8.6")
FEW_DELTAS = ("1e-2", "1e-4", "1e-6", "1e-8")

# The names of the test's ratios, and what they are.
ROWS = {
    "loss": "epsilon, U + V / largest loss outside the bad set",
    "pure loss": "epsilon, pure / largest loss of all outputs",
    "run delta": "delta of Lemma 7 / probability of the bad set",
    "small run delta": "the same, where the truth is below 0.1",
    "run delta, any loss above epsilon": "run's delta / probability of a loss above epsilon",
    "person delta": "person's delta / largest hockey-stick divergence",
    "small person delta": "the same, where the truth is below 0.1",
}


class Collector:
    """A pytest plugin that adds up what the parts of the grid report."""

    def __init__(self) -> None:
        self.ratios: dict[str, list[float]] = {}
        self.counts: Counter[str] = Counter()
        self.zeros: Counter[str] = Counter()
        self.violations: list[str] = []
        self.failed: list[str] = []
        self.parts = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when != "call":
            return
        self.parts += 1
        found: dict[str, Any] = dict(report.user_properties)
        for name, ratios in found.get("ratios", {}).items():
            self.ratios.setdefault(name, []).extend(ratios)
        self.counts.update(found.get("counts", {}))
        self.zeros.update(found.get("true zeros", {}))
        self.violations += found.get("violations", [])


def main() -> None:
    """Run the grid, compute the pairs, and print."""
    begin = time.perf_counter()
    collector, log, status = Collector(), io.StringIO(), -1
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "-q", "-n", str(WORKERS)]
    options += ["-m", ""]  # the deep parts too
    with contextlib.redirect_stdout(log):
        status = int(pytest.main([*options, str(ROOT / GRID)], plugins=[collector]))
    print(f"Small pools: the complete grid, {collector.parts} parts ({time.perf_counter() - begin:.0f} s)\n")
    if set(collector.ratios) != set(ROWS):
        raise SystemExit(f"The grid did not run as expected:\n{log.getvalue()}")
    for name, count in collector.counts.items():
        print(f"- {name}: {count:,}")
    print(f"- violations: {len(collector.violations)}\n")
    print_table(
        ["certified / true", "compared", "minimum", "median", "90th percentile", "maximum", "true 0"],
        (
            [label, *summary(collector.ratios[name]), f"{collector.zeros[name]:,}"]
            for name, label in ROWS.items()
        ),
    )
    begin = time.perf_counter()
    print("\nPools of few cells, n = m, no pruning: calibrated plans, certified / true\n")
    print_table(
        [
            *["cells", "jobs", "delta of", "plans", "median", "90th percentile", "maximum"],
            *[
                "by bounds for any cells: median",
                "90th percentile",
                "maximum",
                "prior over that by them: median",
                "least",
            ],
        ],
        (row for k, sizes in REGIMES for row in regime_rows(k, sizes)),
    )
    print(f"\n({time.perf_counter() - begin:.0f} s)")
    begin = time.perf_counter()
    print(
        f"\nLarger pools, n = m, {CELLS} cells, no pruning, prior calibrated for one person's delta = 1e-05; "
        "x_i = 1, x_j = 0\n"
    )
    print_table(
        ["n", "epsilon", "prior", "delta certified", "delta of the pair", "certified / pair"],
        (pair_row(n, synth.exact(epsilon)) for n in SIZES for epsilon in EPSILONS),
    )
    print(f"\n({time.perf_counter() - begin:.1f} s)")
    if status or collector.violations or collector.failed:
        print(log.getvalue(), *collector.violations, sep="\n", file=sys.stderr)
        raise SystemExit("The grid did not pass.")


def summary(ratios: Sequence[float]) -> list[str]:
    """Return how many ratios there are, and their spread."""
    deciles = statistics.quantiles(ratios, n=10, method="inclusive")
    figures = [statistics.median(ratios), deciles[-1], max(ratios)]
    return [f"{len(ratios):,}", f"{min(ratios):.6f}", *(f"{x:.4g}" for x in figures)]


def regime_rows(k: int, all_n: Sequence[int]) -> Iterable[list[str]]:
    """Return two rows: of the run's delta, and of one record's, in calibrated plans of pools of k cells."""
    jobs = f"{min(all_n)} to {max(all_n)}" if len(all_n) > 1 else str(all_n[0])
    of: dict[GuaranteeName, str] = {"pdp": "the run", "dp": "one record"}
    for guarantee, words in of.items():
        tight, loose, priors, nothing = [], [], [], 0
        for n, epsilon, delta in itertools.product(
            all_n, map(Fraction, FEW_EPSILONS), map(Fraction, FEW_DELTAS)
        ):
            one = PoolClass(n, n, n, (k,), (k,), (k,), Fraction(1), (0,), SURE, Q)
            before, after = (
                calibrate_class(one, Goal(epsilon, delta, guarantee=guarantee, alike=alike))
                for alike in (False, True)
            )
            if before is None or after is None:
                raise SystemExit("no prior is certified; this is a fault of the calibration")
            priors.append(after.prior[0] / before.prior[0])
            at_gain, at_epsilon = truth(n, k, after.prior[0] / Q, float(after.gain), float(epsilon))
            true = at_gain if guarantee == "pdp" else at_epsilon
            few, any_cells = (certified_delta(after, epsilon, guarantee, alike) for alike in (True, False))
            if true == 0:
                nothing += 1
                if few:
                    raise SystemExit("something is certified where the truth is 0")
                continue
            if few < true * (1 - 1e-6):
                raise SystemExit(f"violation: n {n}, k {k}, epsilon {epsilon}, delta {delta}")
            tight.append(few / true)
            loose.append(any_cells / true)
        figures = [
            *summary(tight)[2:],
            *summary(loose)[2:],
            f"{statistics.median(priors):.3f}",
            f"{min(priors):.3f}",
        ]
        yield [
            str(k),
            jobs,
            words,
            f"{len(tight)}" + (f" (and {nothing} with 0)" if nothing else ""),
            *figures,
        ]


def certified_delta(found: PoolClass, epsilon: Fraction, guarantee: GuaranteeName, alike: bool) -> float:
    """Return what a certificate states, with the bounds for few cells or for any number."""
    with rigorous() as balls:
        if guarantee == "pdp":
            return float(upper_fraction(loss_bound(found, balls, alike)[0]))
        return float(upper_fraction(record_delta_bound(found, epsilon, balls, alike)))


def truth(n: int, k: int, prior: float, gain: float, epsilon: float) -> tuple[float, float]:
    """Return the largest P(loss above ln gain), and the largest hockey-stick divergence at epsilon.

    All cells have the same prior, so histograms are taken by falling counts.
    """
    draws = np.array(list(compositions(n, k)))
    orders = gammaln(n + 1) - gammaln(draws + 1).sum(axis=1)
    bad = divergence = 0.0
    for h in (np.array(x) for x in compositions(n, k) if list(x) == sorted(x, reverse=True)):
        w = h + prior
        logs = (gammaln(w + draws) - gammaln(w)).sum(axis=1) + gammaln(w.sum()) - gammaln(w.sum() + n)
        mass = np.exp(orders + logs)
        worst = np.ones(len(draws))
        for i, j in itertools.permutations(range(k), 2):
            if h[i]:
                odds = (1 + draws[:, i] / (w[i] - 1)) / (1 + draws[:, j] / w[j])
                worst = np.maximum(worst, np.maximum(odds, 1 / odds))
                divergence = max(divergence, (mass * np.maximum(0, 1 - np.exp(epsilon) / odds)).sum())
        bad = max(bad, mass[worst > gain * (1 + 1e-12)].sum())
    return bad, divergence


def compositions(total: int, parts: int) -> Iterable[tuple[int, ...]]:
    """Yield all ways to write a number as a sum of so many, in order."""
    if parts == 1:
        yield (total,)
        return
    for x in range(total + 1):
        for others in compositions(total - x, parts - 1):
            yield (x, *others)


def pair_row(n: int, epsilon: Fraction) -> list[str]:
    """Return a row: the certified delta of a person and the exact delta of a pair."""
    one = PoolClass(n, n, n, (CELLS,), (CELLS,), (CELLS,), Fraction(1), (0,), SURE, Q)
    found = calibrate_class(one, Goal(epsilon, DELTA, guarantee="dp"))
    if found is None:
        raise SystemExit("no prior is certified; this is a fault of the calibration")
    prior = Fraction(found.prior[0], Q)
    pair = Pair(1, 0, prior, prior, n - 1 + (CELLS - 2) * prior, n)
    with rigorous() as balls:
        certified = upper_fraction(record_delta_bound(found, epsilon, balls))
        exact = upper_fraction(pair_delta(pair, epsilon, balls))  # the same in either direction
    figures = [f"{float(x):.4g}" for x in (prior, certified, exact)]
    return [str(n), f"{float(epsilon):g}", *figures, f"{float(certified / exact):.4g}" if exact else "-"]


if __name__ == "__main__":
    main()
