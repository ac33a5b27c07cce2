"""Measures of two tables of flows: by hand, against slow loops, and what must hold of any tables."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geo_data
from pipelines.views.evaluation.measures import (
    SHORT_KM,
    add_distance,
    add_up,
    common_part_of_commuters,
    commute_errors,
    count_queries,
    earth_movers_distance,
    errors_by_size,
    group_errors,
    implicate_variance,
    jensen_shannon_divergence,
    jobs_within,
    lost_pairs,
    mean_distance,
    propensity,
    query_errors,
    share_within,
    side_error,
    side_variation,
    top_flows_recall,
    total_variation_distance,
)

# --- pairs and totals

Cells = dict[tuple[int, int], int]
TABLES = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 9), min_size=1, max_size=12
)
DISTANCES = [
    total_variation_distance,
    jensen_shannon_divergence,
    side_variation,
]


def table(cells: Cells) -> pd.DataFrame:
    """Return a table of flows; keys are (work, home)."""
    rows = [(work, home, jobs) for (work, home), jobs in sorted(cells.items())]
    frame = pd.DataFrame(rows, columns=["work", "home", "S000"])
    return frame.astype({"work": np.int32, "home": np.int32, "S000": np.int64})


A = table({(0, 0): 6, (0, 1): 2, (1, 1): 2})
B = table({(0, 0): 4, (0, 1): 4, (2, 1): 2})


def test_by_hand() -> None:
    assert total_variation_distance(A, B) == pytest.approx(0.4)
    assert common_part_of_commuters(A, B) == pytest.approx(0.6)
    assert lost_pairs(A, B) == (pytest.approx(1 / 3), pytest.approx(0.2))
    assert side_variation(A, B) == pytest.approx(0.2)
    assert side_error(A, B) == 2
    assert side_variation(A, B, "work") == pytest.approx(0.2)
    disjoint = table({(3, 3): 10})
    assert total_variation_distance(A, disjoint) == 1
    assert jensen_shannon_divergence(A, disjoint) == pytest.approx(1)
    assert common_part_of_commuters(A, disjoint) == 0
    assert lost_pairs(A, disjoint) == (1, 1)


def test_largest_flows() -> None:
    truth = table({(0, 0): 9, (0, 1): 8, (1, 0): 7, (1, 1): 1})
    release = table({(0, 0): 9, (0, 1): 1, (1, 0): 8, (2, 2): 2})
    assert top_flows_recall(truth, release, 1) == 1
    assert top_flows_recall(truth, release, 2) == 0.5
    assert top_flows_recall(truth, release, 3) == pytest.approx(2 / 3)
    # Two of four equal flows are a half of each, whatever the order of rows.
    equal = table({(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 1})
    assert top_flows_recall(equal, table({(1, 1): 5, (1, 0): 4}), 2) == pytest.approx(0.5)


def test_variance_between_implicates() -> None:
    found = implicate_variance([A, B, table({(0, 0): 5})])
    counts = {(0, 0): [6, 4, 5], (0, 1): [2, 4, 0], (1, 1): [2, 0, 0], (2, 1): [0, 2, 0]}
    assert list(zip(found["work"], found["home"], strict=True)) == sorted(counts)
    for row, values in zip(found.itertuples(), counts.values(), strict=True):
        assert (row.mean, row.variance) == (np.mean(values), pytest.approx(np.var(values, ddof=1)))
    with pytest.raises(ValueError, match="at least two"):
        implicate_variance([A])


def test_add_up() -> None:
    geography = geo_data.Geography(
        block_level="block",
        block_codes=pa.array("abcd"),
        levels=("area",),
        unit_codes=(np.array(["x", "y"], dtype=object),),
        unit_starts=(np.array([0, 3], np.int32),),
        latitude=np.zeros(4),
        longitude=np.zeros(4),
    )
    flows = table({(0, 1): 1, (0, 2): 2, (2, 3): 4, (3, 0): 8})
    both = add_up(flows, geography, ("block", "block"), ("area", "area"))
    assert (
        both.to_numpy().tolist() == table({(0, 0): 3, (0, 1): 4, (1, 0): 8})[both.columns].to_numpy().tolist()
    )
    homes = add_up(flows, geography, ("block", "block"), ("area", "block"))
    expected = table({(0, 0): 3, (2, 1): 4, (3, 0): 8})
    assert homes[["work", "home", "S000"]].to_numpy().tolist() == expected.to_numpy().tolist()


@settings(max_examples=40)
@given(TABLES, TABLES)
def test_pairs_and_totals_against_slow_loops(first_cells: Cells, second_cells: Cells) -> None:
    first, second = table(first_cells), table(second_cells)
    n, m = sum(first_cells.values()), sum(second_cells.values())
    pairs = first_cells.keys() | second_cells.keys()
    p, q = (
        {pair: cells.get(pair, 0) / size for pair in pairs}
        for cells, size in ((first_cells, n), (second_cells, m))
    )
    variation = sum(abs(p[pair] - q[pair]) for pair in pairs) / 2
    assert total_variation_distance(first, second) == pytest.approx(variation)
    divergence = 0.0
    for pair in pairs:
        middle = (p[pair] + q[pair]) / 2
        divergence += sum(x * math.log2(x / middle) / 2 for x in (p[pair], q[pair]) if x)
    assert jensen_shannon_divergence(first, second) == pytest.approx(divergence, abs=1e-9)
    common = 2 * sum(min(first_cells.get(pair, 0), second_cells.get(pair, 0)) for pair in pairs) / (n + m)
    assert common_part_of_commuters(first, second) == pytest.approx(common)
    lost = [pair for pair in first_cells if pair not in second_cells]
    jobs = sum(first_cells[pair] for pair in lost)
    assert lost_pairs(first, second) == pytest.approx((len(lost) / len(first_cells), jobs / n))
    homes: list[Counter[int]] = [Counter(), Counter()]
    for counter, cells in zip(homes, (first_cells, second_cells), strict=True):
        for (_, home), count in cells.items():
            counter[home] += count
    units = homes[0].keys() | homes[1].keys()
    error = sum(abs(homes[0][unit] - homes[1][unit]) for unit in units) / len(units)
    assert side_error(first, second) == pytest.approx(error)


@settings(max_examples=40)
@given(TABLES, TABLES)
def test_properties_of_pairs_and_totals(first_cells: Cells, second_cells: Cells) -> None:
    first, second = table(first_cells), table(second_cells)
    for distance in DISTANCES:
        assert distance(first, first) == pytest.approx(0, abs=1e-12)
        assert distance(first, second) == pytest.approx(distance(second, first))
        assert -1e-12 <= distance(first, second) <= 1 + 1e-12
    assert common_part_of_commuters(first, first) == 1
    assert lost_pairs(first, first) == (0, 0)
    # Adding up cannot make tables differ more.
    assert side_variation(first, second) <= total_variation_distance(first, second) + 1e-12
    for k in (1, 3, 100):
        assert top_flows_recall(first, first, k) == pytest.approx(1)
        assert 0 <= top_flows_recall(first, second, k) <= 1


# --- commutes

FLOWS = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0, 60, width=32), st.integers(1, 9)), min_size=1, max_size=15
)


def flows(rows: list[tuple[int, float, int]]) -> pd.DataFrame:
    """Return flows with distances; rows are (work, km, jobs)."""
    work, km, jobs = zip(*rows, strict=True)
    frame = pd.DataFrame({"work": work, "home": range(len(rows)), "S000": jobs, "km": km})
    return frame.astype({"km": np.float64})


def line_of_places(n: int = 30) -> pd.DataFrame:
    """Return n places: the first 20 are close to each other, the others are not; the last is outside."""
    east = np.append(np.arange(20) / 1000, np.arange(1.0, n - 19))
    east[-1] = np.nan
    return pd.DataFrame({"code": [f"{i}" for i in range(n)], "latitude": east * 0, "longitude": east})


def test_distance_leaves_out_who_lives_outside() -> None:
    table = pd.DataFrame({"work": [0, 0], "home": [20, 29], "S000": [3, 4]})
    found = add_distance(table, line_of_places(), line_of_places())
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
    found = group_errors(truth, release, line_of_places()).set_index("group")
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
    found = group_errors(truth, release, line_of_places()).set_index("group")
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
    found = group_errors(truth, flows([(0, 12, 1), (1, 10, 20)]), line_of_places()).set_index("group")
    assert found.loc["under 10 jobs", ["destinations", "relative"]].tolist() == pytest.approx([1, 0.2])


def test_groups_without_anybody() -> None:
    nobody = flows([(0, 1, 1)])[:0]
    assert len(group_errors(nobody, nobody, line_of_places())) == 0
    found = group_errors(nobody, flows([(0, 1, 1)]), line_of_places())
    assert found["destinations"].eq(0).all()
    assert found["only_release"].eq(1).all()


@settings(max_examples=40)
@given(FLOWS, FLOWS)
def test_commutes_against_slow_loops(one: list, two: list) -> None:
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


@settings(max_examples=40)
@given(FLOWS, FLOWS)
def test_properties_of_commutes(one: list, two: list) -> None:
    first, second = flows(one), flows(two)
    assert earth_movers_distance(first, first) == 0
    forth, back = (
        earth_movers_distance(first, second),
        earth_movers_distance(second, first),
    )
    assert forth == pytest.approx(back)
    assert forth >= abs(mean_distance(first) - mean_distance(second)) - 1e-9
    assert (commute_errors(first, first)["absolute"] == 0).all()


# --- count queries


def random_table(generator: np.random.Generator) -> pd.DataFrame:
    pairs = np.unique(generator.integers(0, [20, 30], (150, 2)), axis=0)
    jobs = generator.integers(1, 9, len(pairs))
    return pd.DataFrame({"work": pairs[:, 0], "home": pairs[:, 1], "S000": jobs})


def test_queries_are_ranges_that_fill_their_space() -> None:
    queries = count_queries(30, 20)
    assert queries.shape == (1000, 4)
    assert np.array_equal(queries, count_queries(30, 20))
    assert (queries[:, 0] <= queries[:, 1]).all()
    assert (queries[:, 2] <= queries[:, 3]).all()
    assert queries.min() == 0
    assert queries[:, 1].max() == 29
    assert queries[:, 3].max() == 19
    assert len(np.unique(queries, axis=0)) > 900
    # Ends of ranges are even: a third of the length lies between two of them, on average.
    assert (queries[:, 1] - queries[:, 0]).mean() == pytest.approx(10, abs=0.5)
    assert np.abs(np.corrcoef(queries.T)[:2, 2:]).max() < 0.1


def test_answers_against_a_slow_loop() -> None:
    generator = np.random.default_rng(4)
    truth, release = random_table(generator), random_table(generator)
    queries = count_queries(30, 20, 50)
    slow = []
    for first, last, low, high in queries:
        counts = [
            sum(jobs for work, home, jobs in rows.to_numpy() if first <= home <= last and low <= work <= high)
            for rows in (truth, release)
        ]
        slow.append(abs(counts[0] - counts[1]))
    assert query_errors(truth, release, queries).tolist() == slow
    assert max(slow) > 0
    assert not query_errors(truth, truth, queries).any()


def test_share_within() -> None:
    errors = np.array([0.0, 5.0, 10.0, 10.1])
    assert share_within(errors, 100, 1) == 0.75
    assert share_within(errors, 100, 0.5) == 0.5
    assert share_within(errors, 100, 0.1) == 0.25
    assert [jobs_within(476_789, rho) for rho in (0.1, 0.5, 1)] == [69, 345, 690]


# --- propensity

N_PLACES = 40


@pytest.fixture
def places() -> pd.DataFrame:
    generator = np.random.default_rng(6)
    north, east = generator.uniform(0, 0.3, (2, N_PLACES))
    return pd.DataFrame({"code": [f"{i}" for i in range(N_PLACES)], "latitude": north, "longitude": east})


def draw(generator: np.random.Generator, jobs: int) -> pd.DataFrame:
    """Return the flows of jobs from an uneven distribution."""
    pairs = np.sort(generator.integers(0, N_PLACES**2, (2, jobs)), axis=0)[0]
    pairs, counts = np.unique(pairs, return_counts=True)
    return pd.DataFrame({"work": pairs // N_PLACES, "home": pairs % N_PLACES, "S000": counts})


def again(generator: np.random.Generator, truth: pd.DataFrame) -> pd.DataFrame:
    """Draw as many jobs from the true ones, with replacement."""
    jobs = generator.multinomial(truth["S000"].sum(), truth["S000"] / truth["S000"].sum())
    return truth.assign(S000=jobs)[jobs > 0]


def test_equal_tables_cannot_be_told_apart(places: pd.DataFrame) -> None:
    truth = draw(np.random.default_rng(1), 2000)
    found = propensity(truth, truth, places, places)
    assert found.pmse == pytest.approx(0, abs=1e-12)
    assert found.ratio == pytest.approx(0, abs=1e-6)


def test_ratio_is_one_under_chance(places: pd.DataFrame) -> None:
    """A redraw of the true jobs has 1 on average; another sample, in which the truth is chance too, 2."""
    generator = np.random.default_rng(2)
    truth = draw(generator, 3000)
    ratios = [propensity(truth, again(generator, truth), places, places).ratio for _ in range(20)]
    # Means of about 12 squared normal variables: a standard error of 0.09.
    assert np.mean(ratios) == pytest.approx(1, abs=0.27)
    pairs = [(draw(generator, 3000), draw(generator, 3000)) for _ in range(20)]
    other = [propensity(*pair, places, places).ratio for pair in pairs]
    assert np.mean(other) == pytest.approx(2, abs=0.54)


def test_other_commutes_are_told_apart(places: pd.DataFrame) -> None:
    truth = draw(np.random.default_rng(1), 2000)
    short = truth.assign(home=truth["work"])
    found = propensity(truth, short, places, places)
    assert found.ratio > 50
    assert 0.1 < found.pmse <= 0.25
    mirrored = propensity(short, truth, places, places)
    assert mirrored.pmse == pytest.approx(found.pmse, rel=1e-3)


def test_who_lives_outside_counts(places: pd.DataFrame) -> None:
    places.loc[N_PLACES - 1, ["latitude", "longitude"]] = np.nan
    truth = draw(np.random.default_rng(1), 2000)
    release = truth.assign(home=np.where(np.arange(len(truth)) % 3 == 0, N_PLACES - 1, truth["home"]))
    assert propensity(truth, release, places, places).ratio > 20


def test_against_a_plain_fit(places: pd.DataFrame) -> None:
    """Jobs one by one, with Newton's method, on the one feature that is left where all live in one place."""
    truth = pd.DataFrame({"work": [0, 1], "home": [0, 0], "S000": [30, 10]})
    release = pd.DataFrame({"work": [0, 1], "home": [0, 0], "S000": [15, 25]})
    found = propensity(truth, release, places, places)
    # The fitted scores are the shares of released jobs at each work place: 15 / 45 and 25 / 35.
    pmse = (45 * (15 / 45 - 0.5) ** 2 + 35 * (25 / 35 - 0.5) ** 2) / 80
    assert found.pmse == pytest.approx(pmse, rel=1e-4)
    assert found.ratio == pytest.approx(pmse / (0.125 / 80), rel=1e-4)
