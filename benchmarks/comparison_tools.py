"""Other tools on a table of commutes: run by comparison.py and utility_study.py.

Usage: python benchmarks/comparison_tools.py TOOL TABLE SYNTHETIC EPSILON DELTA [HOMES]

The three files are Parquet. The table has whole numbers in every column: `home` and `work`, and attributes of
the job. HOMES has a column `home` with every home that there may be; without it, those of the table are taken
for all. As in odsynth, totals of work places are public, and neighbours differ in the home of one job: two
counts change by one. So what is drawn for each work place by itself, at the whole epsilon, is private for all
together. How far a tool has got goes to standard error, a line a step. It needs an environment with pandas,
pyarrow and the tool, and nothing of this project.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

PAIR = ("work", "home")
ITERATIONS = 5_000
RESIDENTS = 0.1


def numpy_resampling(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Draw shares of homes from a Dirichlet distribution, and from them as many jobs as there are.

    The prior of each home is the smallest with which as many draws as jobs are epsilon-DP (Machanavajjhala et
    al. 2008): jobs / (e^epsilon - 1).
    """
    rng = np.random.default_rng()

    def draw(counts: np.ndarray) -> np.ndarray:
        jobs = counts.sum()
        weight = rng.standard_gamma(counts + jobs / np.expm1(epsilon))
        return rng.multinomial(jobs, weight / weight.sum())

    return by_work(table, draw)


def numpy_geometric(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Add noise to every count: the difference of two geometric variables."""
    rng = np.random.default_rng()
    stop = -np.expm1(-epsilon / 2)

    def draw(counts: np.ndarray) -> np.ndarray:
        noise = rng.geometric(stop, counts.size) - rng.geometric(stop, counts.size)
        return fitted(counts + noise, counts.sum())

    return by_work(table, draw)


def opendp(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Add the same noise by OpenDP, which samples it exactly."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    scale = dp.binary_search(
        lambda scale: dp.m.make_laplace(*space, scale=scale).check(2, epsilon), bounds=(1e-3, 1e6)
    )
    noisy = dp.m.make_laplace(*space, scale=scale)
    return by_work(table, lambda counts: fitted(np.array(noisy(counts)), counts.sum()))


def inftda(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release homes from the top down (InfTDA), for flows alone: it has no attributes.

    Homes have one level: with levels above, such as counties, it loses more, as each takes a part of the
    budget.
    """
    from InfTDA import inf_tda

    index = pd.MultiIndex.from_arrays([range(table["home"].cat.categories.size)], names=["home"])

    def draw(counts: np.ndarray) -> np.ndarray:
        found = inf_tda(pd.Series(counts, index), (epsilon, delta), contribution=1, distinct_tuples=True)
        drawn = np.zeros_like(counts)
        drawn[found.index.get_level_values(0)] = found.to_numpy()
        return drawn

    return by_work(table, draw)


def mbi_flows(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release the table of flows with Gaussian noise, and fit a graphical model to it (private-pgm).

    With the iterations of `mbi`, it loses half as much again.
    """
    noise = gaussian(np.sqrt(2), epsilon, delta)
    return fit(table, {PAIR: noise}, noise, 4 * ITERATIONS)


def mbi(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release flows, and residents by each attribute, with Gaussian noise, and fit a graphical model to them.

    Public totals of work places are told without attributes: with them the model has a number for every home,
    work place and category, and an iteration takes some twenty times as long. Residents take a tenth of the
    squared sensitivity, in equal parts: as in odsynth a small share, because their counts are large.
    """
    names = [name for name in table if name not in PAIR]
    noise = gaussian(np.sqrt(2), epsilon, delta)
    measured = {PAIR: noise / np.sqrt(1 - RESIDENTS)}
    measured |= {("home", name): noise / np.sqrt(RESIDENTS / len(names)) for name in names}
    return fit(table, measured, noise, ITERATIONS)


def by_work(table: pd.DataFrame, draw: Callable[[np.ndarray], np.ndarray]) -> pd.DataFrame:
    """Draw the homes of each work place by itself, given how many jobs there have each home.

    Returns a row a job.
    """
    homes, works = (table[name].cat.categories.to_numpy() for name in ("home", "work"))
    order = np.argsort(table["work"].cat.codes.to_numpy(), kind="stable")
    sizes = table["work"].value_counts(sort=False).to_numpy()
    parts = []
    for codes in np.split(table["home"].cat.codes.to_numpy()[order], np.cumsum(sizes)[:-1]):
        progress(len(parts), works.size, "work places")
        parts.append(np.repeat(homes, draw(np.bincount(codes, minlength=homes.size))))
    jobs = [part.size for part in parts]
    return pd.DataFrame({"home": np.concatenate(parts), "work": np.repeat(works, jobs)})


def fitted(noisy: np.ndarray, jobs: int) -> np.ndarray:
    """Return counts that are not negative and add up to the public number: clipped, scaled and rounded."""
    kept = np.maximum(noisy, 0)
    exact = kept * (jobs / max(1, kept.sum()))
    whole = np.floor(exact).astype(np.int64)
    missing = jobs - whole.sum()
    whole[np.argsort(whole - exact)[:missing]] += 1
    return whole


def fit(
    table: pd.DataFrame, measured: dict[tuple[str, ...], float], weight: float, iterations: int
) -> pd.DataFrame:
    """Measure tables with noise of given deviations, fit a model to them and to public totals, and draw.

    The estimator is the one that `mbi` recommends, with more iterations than its 1,000, which do not get it
    near enough; totals of work places weigh like flows, because it is slower otherwise.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi as pgm

    done = 0

    def finished(state: object) -> None:
        # Iterations are ordered, and computed later: only those whose result is there have been done.
        nonlocal done
        jax.block_until_ready(state)
        done += pgm.estimation.CALLBACK_EVERY
        progress(done, iterations, "iterations")

    progress(done, iterations, "iterations")
    categories = {name: table[name].cat.categories.size for name in table}
    data = {name: table[name].cat.codes.to_numpy() for name in table}
    domain = pgm.Domain(list(categories), list(categories.values()))
    truth = pgm.Dataset(data, domain)
    rng = np.random.default_rng()
    measurements = []
    for names, deviation in measured.items():
        counts = truth.project(names).datavector()
        noisy = counts + rng.normal(0, deviation, counts.size)
        measurements.append(pgm.LinearMeasurement(noisy, names, stddev=deviation))
    totals = truth.project(("work",)).datavector()
    measurements.append(pgm.LinearMeasurement(totals, ("work",), stddev=weight))
    model = pgm.estimation.MirrorDescent().estimate(
        domain,
        measurements,
        known_total=len(table),
        iters=iterations,
        callback_fn=finished,
    )
    drawn = model.synthetic_data(rows=len(table)).to_dict()
    return pd.DataFrame({name: table[name].cat.categories.to_numpy()[drawn[name]] for name in table})


def gaussian(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation for (epsilon, delta)-DP (Balle and Wang 2018)."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(deviation: float) -> float:
        a, b = sensitivity / (2 * deviation), epsilon * deviation / sensitivity
        return float(norm.cdf(a - b) - np.exp(epsilon + norm.logcdf(-a - b)) - delta)

    return float(brentq(excess, 1e-3, 1e6))


def progress(done: int, whole: int, what: str) -> None:
    """Say how far the tool has got."""
    print(f"{done:,} of {whole:,} {what}", file=sys.stderr, flush=True)


TOOLS = {
    "numpy_resampling": numpy_resampling,
    "numpy_geometric": numpy_geometric,
    "opendp": opendp,
    "inftda": inftda,
    "mbi_flows": mbi_flows,
    "mbi": mbi,
}


def main(tool: str, source: str, target: str, epsilon: str, delta: str, homes: str | None = None) -> None:
    """Read, fit, draw and write."""
    warnings.filterwarnings("ignore")
    table = pd.read_parquet(source).astype("category")
    if homes is not None:
        table["home"] = table["home"].cat.set_categories(pd.read_parquet(homes)["home"])
    drawn = TOOLS[tool](table, float(epsilon), float(delta))
    drawn.astype("int64").to_parquet(target, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
