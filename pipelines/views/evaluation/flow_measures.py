"""How much two tables of flows differ: distances, agreement of large flows, pairs and totals.

A table of flows has columns ``work``, ``home`` (unit numbers) and ``S000`` (jobs), a row a pair, as
`Release.flows` gives it. Where one of two tables is the truth, it is the first. Measures of two tables
that have jobs are shares, in [0, 1], unless their function says otherwise; a side is "home" or "work".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import rel_entr

import geo_data
from pipelines.plans.utility import count_variation

_PAIR = ["work", "home"]


def pair_flows(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Put two tables of flows side by side.

    A row for each pair with jobs in either, sorted: ``work``, ``home``, and the jobs of the two tables,
    ``first`` and ``second`` (float64, 0 where a table has no such pair).
    """
    tables = [table[table["S000"] > 0] for table in (first, second)]
    work, home, jobs = (np.concatenate([table[name] for table in tables]) for name in (*_PAIR, "S000"))
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
    """Add up flows to coarser levels.

    A table of flows, sorted by work and then home.
    """
    sides = {
        side: geography.unit_of(coarse, geography.starts(fine)[flows[side]])
        for side, fine, coarse in zip(("home", "work"), levels, to, strict=True)
    }
    return flows[["S000"]].assign(**sides).groupby(_PAIR, as_index=False).sum()


def total_variation_distance(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the share of jobs that would have to move to another pair to make two tables equal.

    That is `pipelines.plans.utility.count_variation` of the pairs.
    """
    both = pair_flows(first, second)
    return count_variation(both["first"], both["second"])


def jensen_shannon_divergence(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the Jensen-Shannon divergence of two tables as shares, in bits (Lin 1991)."""
    both = pair_flows(first, second)
    p, q = (both[name].to_numpy() / both[name].sum() for name in ("first", "second"))
    middle = (p + q) / 2
    nats = (rel_entr(p, middle) + rel_entr(q, middle)).sum() / 2
    return max(0.0, float(nats / np.log(2)))  # of equal tables it may come out just below 0


def common_part_of_commuters(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the part of commuters that two tables have in common: 2 sum min(a, b) / (sum a + sum b).

    Of tables with equally many jobs it is 1 minus the total variation distance (Lenormand et al. 2012).
    """
    both = pair_flows(first, second)
    a, b = both["first"], both["second"]
    return float(2 * np.minimum(a, b).sum() / (a.sum() + b.sum()))


def top_flows_recall(truth: pd.DataFrame, release: pd.DataFrame, k: int) -> float:
    """Return the share of the truth's k largest flows that are among the release's k largest.

    Of flows that are equal where the k-th is (k at least 1), each counts by the share of places left for
    them, so that the order of rows decides nothing.
    """
    both = pair_flows(truth, release)
    chosen = [_top(both[name].to_numpy(), k) for name in ("first", "second")]
    return float(np.minimum(*chosen).sum() / chosen[0].sum())


def lost_pairs(truth: pd.DataFrame, release: pd.DataFrame) -> tuple[float, float]:
    """Return what of the truth the release has no trace of. With the tables exchanged: what is spurious.

    Share of the truth's pairs that have no job in the release, and the share of its jobs in them.
    """
    both = pair_flows(truth, release)
    present = both["first"] > 0
    lost = present & (both["second"] == 0)
    return float(lost.sum() / present.sum()), float(both["first"][lost].sum() / both["first"].sum())


def side_variation(first: pd.DataFrame, second: pd.DataFrame, side: str = "home") -> float:
    """Return the total variation distance of the totals by home, or by work place."""
    return count_variation(*_sides(first, second, side))


def side_error(first: pd.DataFrame, second: pd.DataFrame, side: str = "home") -> float:
    """Return the mean absolute difference of the totals by home, or by work place."""
    a, b = _sides(first, second, side)
    return float(np.abs(a - b).mean())


def implicate_variance(implicates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return how much the flows of several implicates of a release vary between them.

    A row for each pair with jobs in any, sorted: ``work``, ``home``, ``mean`` and ``variance`` (over m - 1;
    the B of `combine`), float64.
    """
    m = len(implicates)
    if m < 2:
        raise ValueError("a variance between implicates needs at least two")
    counts = [table[[*_PAIR, "S000"]].astype({"S000": np.float64}) for table in implicates]
    stacked = pd.concat(counts, ignore_index=True)
    mean = stacked.groupby(_PAIR)["S000"].sum() / m
    # An implicate without the pair has 0 jobs there; it adds the square of the mean.
    deviation = stacked["S000"] - mean.reindex(pd.MultiIndex.from_frame(stacked[_PAIR])).to_numpy()
    groups = stacked.assign(square=deviation**2).groupby(_PAIR)["square"]
    squares = groups.sum() + (m - groups.size()) * mean**2
    return pd.DataFrame({"mean": mean, "variance": squares / (m - 1)}).reset_index()


def _sides(first: pd.DataFrame, second: pd.DataFrame, side: str) -> tuple[np.ndarray, np.ndarray]:
    totals = [table[table["S000"] > 0].groupby(side)["S000"].sum() for table in (first, second)]
    both = pd.concat(totals, axis=1).fillna(0).to_numpy(np.float64)
    return both[:, 0], both[:, 1]


def _top(jobs: np.ndarray, k: int) -> np.ndarray:
    """Return how much of each flow is among the k largest: 1, 0, or a share where flows are equal."""
    k = min(k, int((jobs > 0).sum()))
    least = np.partition(jobs, jobs.size - k)[jobs.size - k]
    above, equal = jobs > least, jobs == least
    return above + equal * ((k - above.sum()) / equal.sum())
