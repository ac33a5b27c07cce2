"""General synthesizers on a table of commutes: run by comparison.py and utility_study.py.

Usage: python benchmarks/comparison_tools.py TOOL TABLE.parquet SYNTHETIC.parquet EPSILON DELTA

The table has whole numbers in every column: `home` and `work`, and attributes of the job. It needs an
environment with pandas, pyarrow and the tool, and nothing of this project.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd

PAIR = ("work", "home")
ITERATIONS = 5_000
RESIDENTS = 0.1


def mbi_flows(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release the table of flows with Gaussian noise, and fit a graphical model to it (private-pgm).

    As here, workplace totals by attributes are public, and neighbours differ in the home of one job: two
    cells of the flows change by one. The estimator is the one that `mbi` recommends, with more iterations
    than by default, which do not get it near enough; totals weigh like flows, because it is slower otherwise.
    """
    totals = tuple(name for name in table if name != "home")
    noise = gaussian(np.sqrt(2), epsilon, delta)
    return fit(table, {PAIR: noise}, [totals], noise)


def mbi(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release flows, and residents by each attribute, with Gaussian noise, and fit a graphical model to them.

    As `mbi_flows`, but without public totals by attribute: with them the model has a number for every home,
    work place and category, and an iteration takes some twenty times as long. Residents take a tenth of the
    squared sensitivity, in equal parts: as in odsynth a small share, because their counts are large.
    """
    names = [name for name in table if name not in PAIR]
    noise = gaussian(np.sqrt(2), epsilon, delta)
    measured = {PAIR: noise / np.sqrt(1 - RESIDENTS)}
    measured |= {("home", name): noise / np.sqrt(RESIDENTS / len(names)) for name in names}
    return fit(table, measured, [("work",)], noise)


def fit(
    table: pd.DataFrame,
    measured: dict[tuple[str, ...], float],
    public: list[tuple[str, ...]],
    weight: float,
) -> pd.DataFrame:
    """Measure tables with noise of given deviations, fit a model to them and to public totals, and draw."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi as pgm

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
    for names in public:
        measurements.append(pgm.LinearMeasurement(truth.project(names).datavector(), names, stddev=weight))
    model = pgm.estimation.MirrorDescent().estimate(
        domain, measurements, known_total=len(table), iters=ITERATIONS
    )
    drawn = model.synthetic_data(rows=len(table)).to_dict()
    return pd.DataFrame({name: table[name].cat.categories.to_numpy()[drawn[name]] for name in table})


def inftda(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release the homes of each work place from the top down (InfTDA), for flows alone: it has no attributes.

    Totals of work places are public here, and neighbours differ in the home of one job. So the tool runs for
    every work place by itself, at the whole epsilon, on all homes that occur. Homes have one level: with
    levels above, such as counties, it loses more, as each takes a part of the budget.
    """
    from InfTDA import inf_tda

    homes = table["home"].cat.categories
    index = pd.MultiIndex.from_arrays([homes], names=["home"])
    parts = []
    for work, rows in table.groupby("work", observed=True):
        counts = pd.Series(rows["home"].value_counts().reindex(homes).to_numpy(np.int64), index)
        drawn = inf_tda(counts, (epsilon, delta), contribution=1, distinct_tuples=True)
        kept = drawn[drawn > 0]
        home = np.repeat([own[0] for own in kept.index], kept.to_numpy())
        parts.append(pd.DataFrame({"home": home, "work": work}))
    return pd.concat(parts, ignore_index=True)


def gaussian(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation for (epsilon, delta)-DP (Balle and Wang 2018)."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(deviation: float) -> float:
        a, b = sensitivity / (2 * deviation), epsilon * deviation / sensitivity
        return float(norm.cdf(a - b) - np.exp(epsilon + norm.logcdf(-a - b)) - delta)

    return float(brentq(excess, 1e-3, 1e6))


def sdv(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Fit a Gaussian copula, with which SDV recommends to begin. No privacy."""
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    columns = {name: {"sdtype": "categorical"} for name in table}
    metadata = Metadata.load_from_dict({"tables": {"jobs": {"columns": columns}}, "relationships": []})
    model = GaussianCopulaSynthesizer(metadata)
    model.fit({"jobs": table.astype("int64").astype("object")})
    return model.sample(num_rows=len(table))["jobs"]


TOOLS = {"mbi_flows": mbi_flows, "mbi": mbi, "inftda": inftda, "sdv": sdv}


def main(tool: str, source: str, target: str, epsilon: str, delta: str) -> None:
    """Read, fit, draw and write."""
    warnings.filterwarnings("ignore")
    table = pd.read_parquet(source).astype("category")
    drawn = TOOLS[tool](table, float(epsilon), float(delta))
    drawn.astype("int64").to_parquet(target, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
