"""How far apart the commutes of two tables of flows are: by destination, and as distributions.

Distances are those of `commutes.add_travel`, between the places of the two sides; workers who live
in external zones have none and are left out.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from geo_data.distance import unit_vectors
from pipelines.plans.utility import mean_km
from pipelines.views.travel import add_travel

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
    """Compare the mean commute to each destination.

    A row for each destination that has commutes in both, in order: ``work``, ``jobs`` (of the truth),
    ``true_km`` and ``released_km`` (means), ``absolute`` (km, their difference without sign) and ``relative``
    (that as a share of the true mean; NaN where it is 0).
    """
    sums = [
        table.assign(total=table["S000"] * table["km"]).groupby("work")[["S000", "total"]].sum()
        for table in (truth, release)
    ]
    both = sums[0].merge(sums[1], left_index=True, right_index=True, suffixes=("_true", "_released"))
    both = both[(both["S000_true"] > 0) & (both["S000_released"] > 0)]
    true_km = both["total_true"] / both["S000_true"]
    released_km = both["total_released"] / both["S000_released"]
    absolute = (released_km - true_km).abs()
    return pd.DataFrame(
        {
            "jobs": both["S000_true"],
            "true_km": true_km,
            "released_km": released_km,
            "absolute": absolute,
            "relative": (absolute / true_km.where(true_km > 0)),
        }
    ).reset_index()


def errors_by_size(errors: pd.DataFrame, *, least: int = 5) -> pd.DataFrame:
    """Return quantiles of the relative error by size of the destination.

    A row for each class of sizes, which double from class to class; the index is its middle in jobs
    (geometric mean). Columns 0.25, 0.5, 0.75 and 0.9 are quantiles over its destinations.
    """
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

    A row for each group with destinations: ``group``; ``destinations`` with commutes in both tables, and over
    these the medians of the errors (``absolute``, ``relative``) and the 90th percentile of the relative one
    (``worst_tenth``); ``only_reference`` and ``only_release``, destinations with commutes in one of the
    tables only, of which there are no such errors; and ``long_share``, by how much the share of a
    destination's commutes above `SHORT_KM` is off, on average over jobs. Sizes are in jobs of the truth, less
    than one being in the smallest. Dense are those `in_dense_area`. Short and long compare only commutes up
    to, and above, `SHORT_KM`; they have no ``long_share`` (NaN).
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
    both = destinations[first & second]
    off = (both["released_far"] / both["released"] - both["true_far"] / both["true"]).abs()
    return {
        "group": name,
        "destinations": len(errors),
        "only_reference": int((first & ~second).sum()),
        "only_release": int((second & ~first).sum()),
        "absolute": errors["absolute"].median(),
        "relative": errors["relative"].median(),
        "worst_tenth": float(errors["relative"].quantile(0.9)),
        "long_share": float(np.average(off, weights=both["true"])) if len(both) else np.nan,
    }


def _spacing(places: pd.DataFrame, units: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the distance of the tenth nearest other place, on the unit sphere's chord."""
    points = unit_vectors(places["latitude"], places["longitude"])
    placed: NDArray[np.bool_] = np.isfinite(points[:, 0])
    k = min(_NEIGHBOURS + 1, int(placed.sum()))
    spacing = np.full(len(units), np.nan)
    here = placed[units]
    if here.any():
        spacing[here] = cKDTree(points[placed]).query(points[units[here]], [k])[0][:, 0]
    return spacing
