"""Count queries: even, the same for everybody, and answered as a slow loop answers them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.views.evaluation.count_queries import count_queries, jobs_within, query_errors, share_within


def table(generator: np.random.Generator) -> pd.DataFrame:
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
    truth, release = table(generator), table(generator)
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
