"""The paper's calibrations reproduced, and what this project's accounting asks for instead.

Usage: python benchmarks/paper.py

Prints Markdown tables of the prior ("fake workers" per cell): of the paper's Theorem 1, of its calibration
for probabilistic differential privacy (pdp), and the smallest that is certified here for the same n, m,
cells, epsilon and delta, as pdp and, a weaker promise, as differential privacy of one record (DP); then the
same comparison for the pools of Rhode Island's example. No pruning there (the paper's calibration has
none). The tutorial's table is printed at the numbers that give it and at those of its caption; and what
pruning costs, by the tutorial's rule and here. Takes less than two minutes.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from report import print_table

import geo_data
import pipelines
import synth
from pipelines.config.sections import PlanSettings
from synth.dirichlet.calibration import Goal, calibrate_class
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.paper import paper_prior, theorem1_prior
from synth.dirichlet.parameters import DirichletParameters
from synth.dirichlet.pruning import pruning_gain
from synth.tails import fraction, rigorous

CONFIG = Path(__file__).parent.parent / "examples" / "rhode_island.toml"
GAINS = (5, 10, 20, 50)
MILLION = 10**6
PRINTED, CAPTION = (10**4, Fraction(1, 10**6)), (8 * MILLION, Fraction(1, 10**5))  # of the tutorial's table
LEAKAGE = 4  # of pruning, as the tutorial prints it
SETTINGS = (PRINTED, CAPTION, (MILLION, Fraction(1, 10**5)))
Q = 10**9
SURE = (Fraction(1),)


def main() -> None:
    """Compute and print."""
    print("Theorem 1 (pure, m = 10^6): a >= m / (e^eps - 1)\n")
    print_table(
        ["e^eps", "a, million"],
        ([str(g), f"{float(theorem1_prior(MILLION, Fraction(g))) / 1e6:.2g}"] for g in GAINS),
    )
    two_settings()
    for cells, delta in SETTINGS:
        begin = time.perf_counter()
        rows = [compared(cells, delta, g) for g in GAINS]
        print(f"\nProbabilistic, n = m = 10^6, k = {cells:,}, delta = {float(delta):g}, no pruning\n")
        header = ["e^eps", "a, paper 2008", "a, certified here", "paper/here", "its delta", "a, only DP"]
        print_table(header, rows)
        print(f"\n({time.perf_counter() - begin:.1f} s)")
    pruning()
    try:
        plan = rhode_island()
    except geo_data.InputError as error:
        print(f"\nRhode Island is left out: {error}")
        return
    print(
        f"\nRhode Island 2019: {plan.pools.n_records:,} jobs in {plan.pools.n_pools:,} pools, "
        "the plan's cells, delta = 1e-05 for the run, a pool of n of N jobs has delta n/N, no pruning.\n"
        "Mean a weighted by jobs; noise share = a k / (n + a k), weighted by jobs.\n"
    )
    begin = time.perf_counter()
    print_table(
        ["e^eps", "mean a, paper", "mean a, here", "paper/here", "noise, paper", "noise, here"],
        (compared_pools(plan, g) for g in GAINS),
    )
    print(f"\n({time.perf_counter() - begin:.1f} s)")


def two_settings() -> None:
    """Print the tutorial's table at the numbers that give it, and at those of its caption."""
    (cells, delta), (most, wide) = PRINTED, CAPTION
    print(
        "\nThe tutorial prints a = 17.5, 5.5, 2.16 and 0.74 under a caption that says 8 million blocks and "
        f"delta = 1e-05. Its formula gives them with k = {cells:,} and delta = {float(delta):g}; with the "
        "numbers of the caption it gives less:\n"
    )
    print_table(
        ["e^eps", f"k = {cells:,}, delta = {float(delta):g}", f"k = {most:,}, delta = {float(wide):g}"],
        (
            [
                str(g),
                *(f"{paper_prior(MILLION, MILLION, k, Fraction(g), d):.3g}" for k, d in (PRINTED, CAPTION)),
            ]
            for g in GAINS
        ),
    )


def pruning() -> None:
    """Print what pruning costs by the tutorial's rule and here, for f_min of OnTheMap's first release."""
    kept = PlanSettings(preset="onthemap").retention_min
    least = math.log(1 / kept)
    # The noise at which V makes up the difference, were 2^a its exact size (docs/privacy.md, Lemma 2).
    odds = (math.exp(LEAKAGE - least) - float(kept)) / (1 - float(kept))
    print(
        f"\nWhat pruning costs: f_min = {float(kept):g}, n = m = 10^6, two cells. The tutorial says "
        f"{LEAKAGE}; ln(1/f_min) is {least:.2f}.\n"
    )
    print_table(
        ["noise a of a cell", "the tutorial's rule, ln max(2^a, 1/f)", "here, ln(1/f) + V", "ln(2^a / f)"],
        (
            [
                f"{a:.3g}",
                f"{max(a * math.log(2), least):.2f}",
                f"{least + pruning_loss(a, kept):.2f}",
                f"{least + a * math.log(2):.2f}",
            ]
            for a in (0.5, 1.0, math.log2(odds), 2.0, LEAKAGE / math.log(2))
        ),
    )


def pruning_loss(prior: float, kept: Fraction) -> float:
    """Return V of a pool of two cells with a coin each, n = m = 10^6."""
    cells = (2,)
    one = PoolClass(
        MILLION, MILLION, MILLION, cells, cells, (0,), Fraction(2), (round(prior * Q),), (kept,), Q
    )
    with rigorous() as balls:
        return float(synth.tails.upper_fraction(balls.log(pruning_gain(one, balls))))


def epsilon_of(gain: int) -> Fraction:
    """Return ln(gain), rounded down to 15 digits."""
    with rigorous() as balls:
        return Fraction(synth.decimal_down(fraction(balls.lower(balls.log(balls.number(gain)))), 15))


def compared(cells: int, delta: Fraction, gain: int) -> list[str]:
    """Return a row: the paper's prior and ours for n = m = 10^6."""
    paper = paper_prior(MILLION, MILLION, cells, Fraction(gain), delta)
    ours, reached = certified_prior(MILLION, cells, epsilon_of(gain), delta)
    person, _ = certified_prior(MILLION, cells, epsilon_of(gain), delta, "dp")
    figures = [paper, float(ours), paper / float(ours), float(reached), float(person)]
    return [str(gain), *(f"{x:.4g}" for x in figures)]


def certified_prior(
    n: int, cells: int, epsilon: Fraction, delta: Fraction, guarantee: synth.plan.GuaranteeName = "pdp"
) -> tuple[Fraction, Fraction]:
    """Return the smallest certified prior of one pool with n draws, and its delta as pdp."""
    one = PoolClass(n, n, n, (cells,), (cells,), (0,), Fraction(1), (0,), SURE, Q)
    found = calibrate_class(one, Goal(epsilon, delta, guarantee=guarantee))
    if found is None:
        raise SystemExit("no prior is certified; this is a fault of the calibration")
    with rigorous() as balls:
        reached = synth.tails.upper_fraction(synth.dirichlet.losses.failure_bound(found, balls)[0])
    return Fraction(found.prior[0], Q), reached


def rhode_island() -> synth.Plan:
    """Return the plan of the example."""
    return pipelines.make_plan(pipelines.load_config(CONFIG)).numeric


def compared_pools(plan: synth.Plan, gain: int) -> list[str]:
    """Return a row: both calibrations for every pool of a plan, retention 1."""
    pools, cells = plan.pools, plan.k
    delta, records = plan.target.delta, plan.pools.n_records
    sizes, pool_of = np.unique(np.stack([pools.n, cells]), axis=1, return_inverse=True)
    paper = np.array(
        [paper_prior(n, n, k, Fraction(gain), delta * n / records) for n, k in sizes.T.tolist()]
    )[pool_of.ravel()]
    sure = (Fraction(1),) * plan.domains.strata_counts.shape[1]
    mechanism = synth.MECHANISMS["dirichlet"]
    ours_plan = mechanism.calibrate(pools, plan.domains, sure, synth.Target(epsilon_of(gain), delta))
    if not mechanism.certify(ours_plan).meets(ours_plan):
        raise SystemExit("the plan does not certify; this is a fault of the calibration")
    assert isinstance(ours_plan.parameters, DirichletParameters)
    largest = np.array([max(c.prior) for c in ours_plan.parameters.classes]) / Q
    ours = largest[ours_plan.pool_class]
    means = [float(np.average(a, weights=pools.n)) for a in (paper, ours)]
    return [
        str(gain),
        f"{means[0]:.4g}",
        f"{means[1]:.4g}",
        f"{means[0] / means[1]:.3f}",
        f"{noise_share(paper, cells, pools.n):.2%}",
        f"{noise_share(ours, cells, pools.n):.2%}",
    ]


def noise_share(prior: NDArray[np.float64], cells: NDArray[np.int64], n: NDArray[np.int64]) -> float:
    """Return the expected share of synthetic workers drawn as noise."""
    mass = prior * cells
    return float(np.average(mass / (mass + n), weights=n))


if __name__ == "__main__":
    main()
