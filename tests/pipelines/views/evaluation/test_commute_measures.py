"""Commutes: by hand on a line of places, and against slow references."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.views.evaluation.commute_measures import (
    SHORT_KM,
    add_distance,
    commute_errors,
    earth_movers_distance,
    errors_by_size,
    group_errors,
    mean_distance,
)

FLOWS = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0, 60, width=32), st.integers(1, 9)), min_size=1, max_size=15
)


def flows(rows: list[tuple[int, float, int]]) -> pd.DataFrame:
    """Return flows with distances; rows are (work, km, jobs)."""
    work, km, jobs = zip(*rows, strict=True)
    frame = pd.DataFrame({"work": work, "home": range(len(rows)), "S000": jobs, "km": km})
    return frame.astype({"km": np.float64})


def places(n: int = 30) -> pd.DataFrame:
    """Return n places: the first 20 are close to each other, the others are not; the last is outside."""
    east = np.append(np.arange(20) / 1000, np.arange(1.0, n - 19))
    east[-1] = np.nan
    return pd.DataFrame({"code": [f"{i}" for i in range(n)], "latitude": east * 0, "longitude": east})


def test_distance_leaves_out_who_lives_outside() -> None:
    table = pd.DataFrame({"work": [0, 0], "home": [20, 29], "S000": [3, 4]})
    found = add_distance(table, places(), places())
    assert found["S000"].tolist() == [3]
    assert found["km"].iloc[0] == pytest.approx(111.3194908, rel=1e-7)


def test_mean_and_distribution() -> None:
    first, second = flows([(0, 0, 1), (0, 10, 3)]), flows([(0, 4, 2), (1, 10, 2)])
    assert mean_distance(first) == 7.5
    # A quarter of the jobs 4 km longer, a quarter 6 km shorter.
    assert earth_movers_distance(first, second) == pytest.approx(2.5)
    nobody = first[:0]
    assert np.isnan(mean_distance(nobody))
    assert np.isnan(earth_movers_distance(first, nobody))


def test_errors_by_destination() -> None:
    truth = flows([(0, 10, 1), (0, 20, 3), (1, 0, 5), (2, 8, 1)])
    release = flows([(0, 14, 4), (1, 1, 2), (1, 3, 2), (3, 8, 1)])
    found = commute_errors(truth, release)
    assert found["work"].tolist() == [0, 1]  # the others are in one table only
    assert found["jobs"].tolist() == [4, 5]
    assert found["true_km"].tolist() == [17.5, 0]
    assert found["absolute"].tolist() == [3.5, 2]
    assert found["relative"][0] == pytest.approx(0.2)
    assert np.isnan(found["relative"][1])  # of a mean of 0 there is no share


def test_errors_by_size() -> None:
    errors = pd.DataFrame({"jobs": [1, 2, 3, 3, 4, 7, 5], "relative": [0.9, 0.1, 0.2, 0.6, 0.5, 0.7, np.nan]})
    found = errors_by_size(errors, least=2)
    assert found.index.tolist() == pytest.approx([2 * 2**0.5, 4 * 2**0.5])  # only one has a single job
    assert found[0.5].tolist() == pytest.approx([0.2, 0.6])
    assert found.loc[:, [0.25, 0.75, 0.9]].iloc[0].tolist() == pytest.approx([0.15, 0.4, 0.52])
    assert errors_by_size(errors).empty
    assert errors_by_size(errors[:0]).empty


def test_groups() -> None:
    truth = flows([(0, 10, 9), (1, 10, 10), (19, 30, 99), (25, 10, 1000)])
    release = flows([(0, 11, 9), (1, 12, 10), (19, 36, 99), (25, 5, 1000)])
    found = group_errors(truth, release, places()).set_index("group")
    expected = {
        "all": (4, 0.2),
        "under 10 jobs": (1, 0.1),
        "10 to 99 jobs": (2, 0.2),
        "1,000 jobs or more": (1, 0.5),
        # Only 1 lies inside the cluster; 0 and 19 are its ends, and equally far from their tenth neighbour.
        "dense areas": (1, 0.2),
        "sparse areas": (3, 0.2),
        f"commutes up to {SHORT_KM:g} km": (3, 0.2),
        f"commutes above {SHORT_KM:g} km": (1, 0.2),
    }
    assert "100 to 999 jobs" not in found.index
    assert found.loc["all", "worst_tenth"] == pytest.approx(np.quantile([0.1, 0.2, 0.2, 0.5], 0.9))
    for group, (count, relative) in expected.items():
        assert found.loc[group, "destinations"] == count, group
        assert found.loc[group, "relative"] == pytest.approx(relative), group


def test_what_has_no_mean_to_compare_is_counted() -> None:
    """Half the workers of two of three destinations are moved far away: every mean that exists is right."""
    truth = flows([(0, 4, 10), (1, 4, 10), (2, 4, 5), (2, 100, 5), (3, 4, 10)])
    release = flows([(0, 4, 5), (0, 100, 5), (1, 4, 5), (1, 100, 5), (2, 4, 5), (2, 100, 5), (4, 100, 1)])
    found = group_errors(truth, release, places()).set_index("group")
    long = found.loc[f"commutes above {SHORT_KM:g} km"]
    assert long[["destinations", "relative", "only_reference", "only_release"]].tolist() == [1, 0, 0, 3]
    assert np.isnan(long["long_share"])
    whole = found.loc["all", ["destinations", "only_reference", "only_release"]]
    assert whole.tolist() == [3, 1, 1]
    assert found.loc["all", "long_share"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found.loc["10 to 99 jobs", "only_reference"] == 1


def test_a_share_of_a_job_is_in_the_smallest_group() -> None:
    """A public table is scaled to the jobs of the release."""
    truth = flows([(0, 10, 1), (1, 10, 20)]).assign(S000=[0.4, 20])
    found = group_errors(truth, flows([(0, 12, 1), (1, 10, 20)]), places()).set_index("group")
    assert found.loc["under 10 jobs", ["destinations", "relative"]].tolist() == pytest.approx([1, 0.2])


def test_groups_without_anybody() -> None:
    nobody = flows([(0, 1, 1)])[:0]
    assert len(group_errors(nobody, nobody, places())) == 0
    found = group_errors(nobody, flows([(0, 1, 1)]), places())
    assert found["destinations"].eq(0).all()
    assert found["only_release"].eq(1).all()


@given(FLOWS, FLOWS)
def test_against_slow_loops(one: list, two: list) -> None:
    first, second = flows(one), flows(two)
    spread = [np.sort(np.repeat(table["km"], table["S000"])) for table in (first, second)]
    # Both repeated to equally many jobs, the distance is the mean difference in order.
    equal = [np.repeat(spread[0], len(spread[1])), np.repeat(spread[1], len(spread[0]))]
    slow = np.abs(equal[0] - equal[1]).mean()
    assert earth_movers_distance(first, second) == pytest.approx(slow, abs=1e-9)
    means = [
        {w: np.mean([km for work, km, jobs in rows for _ in range(jobs) if work == w]) for w, _, _ in rows}
        for rows in (one, two)
    ]
    found = commute_errors(first, second).set_index("work")
    assert set(found.index) == means[0].keys() & means[1].keys()
    for work, row in found.iterrows():
        assert row["absolute"] == pytest.approx(abs(means[0][work] - means[1][work]), abs=1e-6)


@given(FLOWS, FLOWS)
def test_properties(one: list, two: list) -> None:
    first, second = flows(one), flows(two)
    assert earth_movers_distance(first, first) == 0
    forth, back = (
        earth_movers_distance(first, second),
        earth_movers_distance(second, first),
    )
    assert forth == pytest.approx(back)
    assert forth >= abs(mean_distance(first) - mean_distance(second)) - 1e-9
    assert (commute_errors(first, first)["absolute"] == 0).all()
