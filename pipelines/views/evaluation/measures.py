"""How much two tables of flows differ: pairs, totals, commutes, answers to queries, a model's eye.

A table of flows has columns ``work``, ``home`` (unit numbers) and ``S000`` (jobs), a row a pair, as
`Release.unit_flows` gives it. Where one of two tables is the truth, it is the first. Measures of two tables
that have jobs are shares, in [0, 1], unless their function says otherwise; a side is "home" or "work".
Distances are those of `add_travel`, between the places of the two sides; workers who live or
work in external zones have none and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import expit, rel_entr

import geo_data
from geo_data.distance import unit_vectors
from pipelines.plans.utility import count_variation, mean_km
from pipelines.views.flows import PAIR, add_travel

SHORT_KM = 16.0
"""Commutes up to about ten miles are short."""

SIZES = {
    "under 10 jobs": 1,
    "10 to 99 jobs": 10,
    "100 to 999 jobs": 100,
    "1,000 jobs or more": 1000,
}
"""Sizes of destinations, by the jobs from which each begins."""

_NEIGHBOURS = 10  # a place is in a dense area where this many others are near


# --- pairs and totals


def pair_flows(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs of two tables, ``first`` and ``second``, for each pair with jobs in either, sorted."""
    tables = [table[table["S000"] > 0] for table in (first, second)]
    work, home, jobs = (np.concatenate([table[name] for table in tables]) for name in (*PAIR, "S000"))
    width = home.max(initial=0) + 1
    pairs, row = np.unique(work.astype(np.int64) * width + home, return_inverse=True)
    rows = np.split(np.arange(len(jobs)), [len(tables[0])])
    counts = [np.bincount(row[counted], jobs[counted], pairs.size) for counted in rows]
    sides = {"work": (pairs // width).astype(work.dtype), "home": (pairs % width).astype(home.dtype)}
    return pd.DataFrame({**sides, "first": counts[0], "second": counts[1]})


def add_up(
    flows: pd.DataFrame,
    geography: geo_data.Geography,
    levels: tuple[str, str],
    to: tuple[str, str],
) -> pd.DataFrame:
    """Add up flows to coarser levels."""
    sides = {
        side: geography.unit_of(coarse, geography.starts(fine)[flows[side]])
        for side, fine, coarse in zip(("home", "work"), levels, to, strict=True)
    }
    return flows[["S000"]].assign(**sides).groupby(PAIR, as_index=False).sum()


def total_variation_distance(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the share of jobs that would have to move to another pair to make two tables equal."""
    pairs = pair_flows(first, second)
    return count_variation(pairs["first"], pairs["second"])


def jensen_shannon_divergence(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the Jensen-Shannon divergence of two tables as shares, in bits (Lin 1991)."""
    pairs = pair_flows(first, second)
    p, q = (pairs[name].to_numpy() / pairs[name].sum() for name in ("first", "second"))
    middle = (p + q) / 2
    nats = (rel_entr(p, middle) + rel_entr(q, middle)).sum() / 2
    return max(0.0, float(nats / np.log(2)))  # of equal tables it may come out just below 0


def common_part_of_commuters(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the part of commuters in common: 2 sum min(a, b) / (sum a + sum b) (Lenormand et al. 2012)."""
    pairs = pair_flows(first, second)
    a, b = pairs["first"], pairs["second"]
    return float(2 * np.minimum(a, b).sum() / (a.sum() + b.sum()))


def top_flows_recall(truth: pd.DataFrame, release: pd.DataFrame, k: int) -> float:
    """Return the share of the truth's k largest flows that are among the release's k largest.

    Of flows that are equal where the k-th is, each counts by the share of places left for them.
    """
    pairs = pair_flows(truth, release)
    chosen = [_top(pairs[name].to_numpy(), k) for name in ("first", "second")]
    return float(np.minimum(*chosen).sum() / chosen[0].sum())


def lost_pairs(truth: pd.DataFrame, release: pd.DataFrame) -> tuple[float, float]:
    """Return which shares of the truth's pairs, and of its jobs, are of pairs that the release lacks."""
    pairs = pair_flows(truth, release)
    present = pairs["first"] > 0
    lost = present & (pairs["second"] == 0)
    return float(lost.sum() / present.sum()), float(pairs["first"][lost].sum() / pairs["first"].sum())


def side_variation(first: pd.DataFrame, second: pd.DataFrame, side: str = "home") -> float:
    """Return the total variation distance of the totals by home, or by work place."""
    return count_variation(*_sides(first, second, side))


def side_error(first: pd.DataFrame, second: pd.DataFrame, side: str = "home") -> float:
    """Return the mean absolute difference of the totals by home, or by work place."""
    a, b = _sides(first, second, side)
    return float(np.abs(a - b).mean())


def implicate_variance(implicates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return mean and variance (over m - 1, the B of `combine`) of each flow between implicates."""
    m = len(implicates)
    if m < 2:
        raise ValueError("a variance between implicates needs at least two")
    counts = [table[[*PAIR, "S000"]].astype({"S000": np.float64}) for table in implicates]
    stacked = pd.concat(counts, ignore_index=True)
    mean = stacked.groupby(PAIR)["S000"].sum() / m
    # An implicate without the pair has 0 jobs there; it adds the square of the mean.
    deviation = stacked["S000"] - mean.reindex(pd.MultiIndex.from_frame(stacked[PAIR])).to_numpy()
    groups = stacked.assign(square=deviation**2).groupby(PAIR)["square"]
    squares = groups.sum() + (m - groups.size()) * mean**2
    return pd.DataFrame({"mean": mean, "variance": squares / (m - 1)}).reset_index()


def _sides(first: pd.DataFrame, second: pd.DataFrame, side: str) -> tuple[np.ndarray, np.ndarray]:
    totals = [table[table["S000"] > 0].groupby(side)["S000"].sum() for table in (first, second)]
    joined = pd.concat(totals, axis=1).fillna(0).to_numpy(np.float64)
    return joined[:, 0], joined[:, 1]


def _top(jobs: np.ndarray, k: int) -> np.ndarray:
    """Return how much of each flow is among the k largest: 1, 0, or a share where flows are equal."""
    k = min(k, int((jobs > 0).sum()))
    least = np.partition(jobs, jobs.size - k)[jobs.size - k]
    above, equal = jobs > least, jobs == least
    return above + equal * ((k - above.sum()) / equal.sum())


# --- commutes


def add_distance(flows: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame) -> pd.DataFrame:
    """Return the flows whose two places are known, with their distance."""
    travel = add_travel(flows[["work", "home", "S000"]], homes, works)
    return travel.loc[travel["km"].notna(), ["work", "home", "S000", "km"]]


def mean_distance(flows: pd.DataFrame) -> float:
    """Return the mean commute in kilometres of flows with ``km``; NaN without any."""
    return mean_km(flows["km"], flows["S000"])


def earth_movers_distance(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the earth mover's (Wasserstein-1) distance of the distributions of commute distances."""
    from scipy.stats import wasserstein_distance  # takes its time

    if not (first["S000"].sum() and second["S000"].sum()):
        return float("nan")
    return float(wasserstein_distance(first["km"], second["km"], first["S000"], second["S000"]))


def commute_errors(truth: pd.DataFrame, release: pd.DataFrame) -> pd.DataFrame:
    """Compare the mean commute to each destination that has commutes in both tables.

    Columns: ``work``, ``jobs`` (of the truth), ``true_km``, ``released_km``, ``absolute``, ``relative``.
    """
    sums = [
        table.assign(total=table["S000"] * table["km"]).groupby("work")[["S000", "total"]].sum()
        for table in (truth, release)
    ]
    joined = sums[0].merge(sums[1], left_index=True, right_index=True, suffixes=("_true", "_released"))
    joined = joined[(joined["S000_true"] > 0) & (joined["S000_released"] > 0)]
    true_km = joined["total_true"] / joined["S000_true"]
    released_km = joined["total_released"] / joined["S000_released"]
    absolute = (released_km - true_km).abs()
    return pd.DataFrame(
        {
            "jobs": joined["S000_true"],
            "true_km": true_km,
            "released_km": released_km,
            "absolute": absolute,
            "relative": (absolute / true_km.where(true_km > 0)),
        }
    ).reset_index()


def errors_by_size(errors: pd.DataFrame, *, least: int = 5) -> pd.DataFrame:
    """Return quantiles of the relative error by size of the destination, in classes that double."""
    errors = errors[errors["relative"].notna()]
    middle = 2 ** (np.floor(np.log2(np.maximum(errors["jobs"], 1))) + 0.5)
    groups = errors["relative"].groupby(middle)
    quantiles = pd.DataFrame({share: groups.quantile(share) for share in (0.25, 0.5, 0.75, 0.9)})
    return quantiles[groups.size() >= least]


def in_dense_area(places: pd.DataFrame, units: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Say of each of some units whether the tenth nearest other place is closer than their median has it."""
    spacing = _spacing(places, units)
    middle = np.nanmedian(spacing) if np.isfinite(spacing).any() else 0.0
    return spacing < middle


def group_errors(truth: pd.DataFrame, release: pd.DataFrame, works: pd.DataFrame) -> pd.DataFrame:
    """Summarise `commute_errors` by size and surroundings of the destination, short and long commutes apart.

    For each group: how many destinations there are in both tables and in one only; medians of the errors, and
    the 90th percentile of the relative one (``worst_tenth``); and by how much the share of commutes above
    `SHORT_KM` is off, on average over jobs (``long_share``; NaN of short and long commutes).
    """
    errors, destinations = commute_errors(truth, release), _destinations(truth, release)
    size = np.clip(np.searchsorted(list(SIZES.values()), destinations["true"], side="right") - 1, 0, None)
    dense = in_dense_area(works, destinations.index.to_numpy())
    members = {
        "all": np.ones(len(destinations), np.bool_),
        **{name: size == i for i, name in enumerate(SIZES)},
        "dense areas": dense,
        "sparse areas": ~dense,
    }
    rows = [
        _summary(name, errors[errors["work"].isin(destinations.index[member])], destinations[member])
        for name, member in members.items()
    ]
    for name, short in (
        (f"commutes up to {SHORT_KM:g} km", True),
        (f"commutes above {SHORT_KM:g} km", False),
    ):
        tables = [t[(t["km"] <= SHORT_KM) == short] for t in (truth, release)]
        rows.append(_summary(name, commute_errors(*tables), _destinations(*tables)) | {"long_share": np.nan})
    table = pd.DataFrame(rows)
    return table[table[["destinations", "only_reference", "only_release"]].any(axis=1)].reset_index(drop=True)


def _destinations(truth: pd.DataFrame, release: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs of every destination of either table, and how many of them are far from home."""
    jobs = {}
    for name, table in (("true", truth), ("released", release)):
        jobs[name] = table.groupby("work")["S000"].sum()
        jobs[f"{name}_far"] = table[table["km"] > SHORT_KM].groupby("work")["S000"].sum()
    return pd.concat(jobs, axis=1).fillna(0.0).sort_index()


def _summary(name: str, errors: pd.DataFrame, destinations: pd.DataFrame) -> dict[str, str | float]:
    first, second = destinations["true"] > 0, destinations["released"] > 0
    shared = destinations[first & second]
    difference = (shared["released_far"] / shared["released"] - shared["true_far"] / shared["true"]).abs()
    return {
        "group": name,
        "destinations": len(errors),
        "only_reference": int((first & ~second).sum()),
        "only_release": int((second & ~first).sum()),
        "absolute": errors["absolute"].median(),
        "relative": errors["relative"].median(),
        "worst_tenth": float(errors["relative"].quantile(0.9)),
        "long_share": float(np.average(difference, weights=shared["true"])) if len(shared) else np.nan,
    }


def _spacing(places: pd.DataFrame, units: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the distance of the tenth nearest other place, on the unit sphere's chord."""
    points = unit_vectors(places["latitude"], places["longitude"])
    placed: NDArray[np.bool_] = np.isfinite(points[:, 0])
    k = min(_NEIGHBOURS + 1, int(placed.sum()))
    spacing = np.full(len(units), np.nan)
    located = placed[units]
    if located.any():
        spacing[located] = cKDTree(points[placed]).query(points[units[located]], [k])[0][:, 0]
    return spacing


# --- count queries


def count_queries(n_homes: int, n_works: int, queries: int = 1000) -> NDArray[np.int64]:
    """Choose count queries: first and last home unit, first and last work unit of each.

    The ends follow the Halton sequence, which fills their space evenly and is the same for everybody. Units
    next to each other in a geography lie in the same larger area, so that ranges are regions.
    """
    from scipy.stats import qmc  # takes its time

    sequence = qmc.Halton(4, scramble=False)
    sequence.fast_forward(1)  # the first point is the origin
    ends = np.floor(sequence.random(queries) * [n_homes, n_homes, n_works, n_works]).astype(np.int64)
    return np.hstack([np.sort(ends[:, :2]), np.sort(ends[:, 2:])])


def query_errors(
    truth: pd.DataFrame, release: pd.DataFrame, queries: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return by how many jobs the answers to `count_queries` are wrong, of tables sorted by work."""
    return np.abs(_answers(release, queries) - _answers(truth, queries))


def share_within(errors: NDArray[np.float64], jobs: float, rho: float) -> float:
    """Return the share of queries whose error is at most `jobs_within` of the number of jobs."""
    return float((errors <= jobs_within(jobs, rho)).mean())


def jobs_within(jobs: float, rho: float) -> int:
    """Return rho times the root of the number of jobs, in whole jobs (Chen et al. 2009)."""
    return math.floor(rho * math.sqrt(jobs))


def _answers(flows: pd.DataFrame, queries: NDArray[np.int64]) -> NDArray[np.float64]:
    work, home, jobs = (flows[name].to_numpy() for name in ("work", "home", "S000"))
    low = np.searchsorted(work, queries[:, 2], side="left")
    high = np.searchsorted(work, queries[:, 3], side="right")
    answers = np.empty(len(queries))
    for i, (first, last) in enumerate(queries[:, :2]):
        homes = home[low[i] : high[i]]
        answers[i] = jobs[low[i] : high[i]][(homes >= first) & (homes <= last)].sum()
    return answers


# --- a model's eye


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
    jobs (Snoke et al. 2018). docs/evaluation.md says what the model sees.
    """
    jobs = np.concatenate([table["S000"].to_numpy(np.float64) for table in (truth, release)])
    label = np.repeat([0.0, 1.0], [len(truth), len(release)])
    columns = _commute_features(pd.concat([truth, release], ignore_index=True), homes, works)
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


def _commute_features(flows: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame) -> NDArray[np.float64]:
    flows = flows[["work", "home"]]
    travel = add_travel(flows, homes, works)
    far = np.log1p(travel["km"])
    columns = [far, far**2, travel["km"].isna(), travel["km"] == 0]
    for side, places in (("home", homes), ("work", works)):
        north, east = (
            places[name].to_numpy()[flows[side]] - places[name].mean() for name in ("latitude", "longitude")
        )
        columns += [north, east, north**2, east**2, north * east]
    # Workers who live or work in external zones are told apart by one column; in the others they are average.
    table = pd.DataFrame(dict(enumerate(columns))).astype(np.float64)
    return table.fillna(table.mean()).to_numpy()
