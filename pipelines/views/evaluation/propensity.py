"""Propensity score: how well a model can tell released commutes from true ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pipelines.views.travel import add_travel


@dataclass(frozen=True)
class Propensity:
    """How well released commutes can be told from true ones."""

    # Mean squared difference of the propensity score from the share of released jobs: 0 where the model sees
    # no difference, at most a quarter
    pmse: float
    # The same divided by what is expected of a redraw of the true jobs, with replacement: 1 is as close as
    # that, 2 as close as another sample
    ratio: float


def propensity(
    truth: pd.DataFrame, release: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame
) -> Propensity:
    """Fit a logistic regression that tells released jobs from true ones, and return its mean squared error.

    pMSE = mean of (p_i - c)^2 over all jobs of both tables, c the share of released ones (Woo et al. 2009).
    Its expectation for jobs redrawn from the true ones is (k - 1) (1 - c)^2 c / N with k parameters and N
    jobs (Snoke et al. 2018). An urn without noise has twice that: it draws shares before it draws jobs.

    The model sees the commute as a planner would: distance (its logarithm, and the square of that), whether
    home and work are one place, whether home is an external zone, and where home and work are (linear and
    quadratic). A regression, not a tree, because its expectation under chance is known, and needs no further
    library.
    """
    jobs = np.concatenate([table["S000"].to_numpy(np.float64) for table in (truth, release)])
    label = np.repeat([0.0, 1.0], [len(truth), len(release)])
    columns = _features(pd.concat([truth, release], ignore_index=True), homes, works)
    total = jobs.sum()
    share = float(jobs @ label / total)
    mean = jobs @ columns / total
    spread = np.sqrt(jobs @ (columns - mean) ** 2 / total)
    kept = spread > 1e-9
    design = np.column_stack([np.ones(len(label)), (columns[:, kept] - mean[kept]) / spread[kept]])
    parameters = int(np.linalg.matrix_rank((design * (jobs / total)[:, None]).T @ design))

    def loss(beta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        score = design @ beta
        value = jobs @ (np.logaddexp(0, score) - label * score) / total
        return float(value), (jobs * (expit(score) - label)) @ design / total

    def curvature(beta: NDArray[np.float64]) -> NDArray[np.float64]:
        score = expit(design @ beta)
        return (design.T * (jobs * score * (1 - score) / total)) @ design

    start = np.zeros(design.shape[1])
    fit = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options={"maxiter": 100})
    pmse = float(jobs @ (expit(design @ fit.x) - share) ** 2 / total)
    expected = (parameters - 1) * (1 - share) ** 2 * share / total
    return Propensity(pmse, pmse / expected if expected else float("nan"))


def _features(flows: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame) -> NDArray[np.float64]:
    flows = flows[["work", "home"]]
    travel = add_travel(flows, homes, works)
    far = np.log1p(travel["km"])
    columns = [far, far**2, travel["km"].isna(), travel["km"] == 0]
    for side, places in (("home", homes), ("work", works)):
        north, east = (
            places[name].to_numpy()[flows[side]] - places[name].mean() for name in ("latitude", "longitude")
        )
        columns += [north, east, north**2, east**2, north * east]
    # Workers who live in external zones are told apart by one column; in the others they are average.
    table = pd.DataFrame(dict(enumerate(columns))).astype(np.float64)
    return table.fillna(table.mean()).to_numpy()
