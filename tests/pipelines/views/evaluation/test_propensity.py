"""The propensity score: blind to equal tables, sharp where tables differ, and near 1 under chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.views.evaluation.propensity import propensity

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
    ratios = [propensity(truth, again(generator, truth), places, places).ratio for _ in range(40)]
    # Means of about 12 squared normal variables: a standard error of 0.065.
    assert np.mean(ratios) == pytest.approx(1, abs=0.2)
    pairs = [(draw(generator, 3000), draw(generator, 3000)) for _ in range(40)]
    other = [propensity(*pair, places, places).ratio for pair in pairs]
    assert np.mean(other) == pytest.approx(2, abs=0.4)


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
