"""General synthesizers on a table of commutes: run by comparison.py, in an environment that has them.

Usage: python benchmarks/comparison_tools.py TOOL TABLE.parquet SYNTHETIC.parquet EPSILON DELTA

The table has whole numbers in every column: `home` and `work`, and attributes of the job. It needs pandas,
pyarrow and the tool, and nothing of this project.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd

PAIR = ("work", "home")
ITERATIONS = 5_000


def mbi(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Release the table of flows with Gaussian noise, and fit a graphical model to it (private-pgm).

    As here, workplace totals by attributes are public, and neighbours differ in the home of one job: two
    cells of the flows change by one. The estimator is the one that `mbi` recommends, with more iterations
    than by default, which do not get it near enough; totals weigh like flows, because it is slower otherwise.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi as pgm

    categories = {name: table[name].cat.categories.size for name in table}
    data = {name: table[name].cat.codes.to_numpy() for name in table}
    domain = pgm.Domain(list(categories), list(categories.values()))
    truth = pgm.Dataset(data, domain)
    noise = gaussian(np.sqrt(2), epsilon, delta)
    flows = truth.project(PAIR).datavector()
    flows = flows + np.random.default_rng().normal(0, noise, flows.size)
    totals = tuple(name for name in table if name != "home")
    measurements = [
        pgm.LinearMeasurement(flows, PAIR, stddev=noise),
        pgm.LinearMeasurement(truth.project(totals).datavector(), totals, stddev=noise),
    ]
    model = pgm.estimation.MirrorDescent().estimate(
        domain, measurements, known_total=len(table), iters=ITERATIONS
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


def sdv(table: pd.DataFrame, epsilon: float, delta: float) -> pd.DataFrame:
    """Fit a Gaussian copula, with which SDV recommends to begin. No privacy."""
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    columns = {name: {"sdtype": "categorical"} for name in table}
    metadata = Metadata.load_from_dict({"tables": {"jobs": {"columns": columns}}, "relationships": []})
    model = GaussianCopulaSynthesizer(metadata)
    model.fit({"jobs": table.astype("int64").astype("object")})
    return model.sample(num_rows=len(table))["jobs"]


TOOLS = {"mbi": mbi, "sdv": sdv}


def main(tool: str, source: str, target: str, epsilon: str, delta: str) -> None:
    """Read, fit, draw and write."""
    warnings.filterwarnings("ignore")
    table = pd.read_parquet(source).astype("category")
    drawn = TOOLS[tool](table, float(epsilon), float(delta))
    drawn.astype("int64").to_parquet(target, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
