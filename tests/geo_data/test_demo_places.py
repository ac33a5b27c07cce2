"""Generated places: files read as any others, equal seeds, equal bytes, and homes that deviate as is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pipelines
from geo_data import InputError, simulate_country, simulate_region
from pipelines.planning.public_inputs import read_public_inputs

PLACES = {"region": simulate_region, "country": simulate_country}


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return PLACES[request.param](tmp_path_factory.mktemp("place") / request.param)


def test_a_plan_reads_its_files(place: Path) -> None:
    inputs = read_public_inputs(pipelines.load_config(place))
    jobs = pd.read_parquet(place.parent / "jobs.parquet")
    assert len(inputs.slots) == len(jobs)
    assert inputs.geography.n_blocks == {"region": 6000, "country": 300}[place.stem]
    assert inputs.model.level == {"region": "trct", "country": "zone"}[place.stem]
    assert list(inputs.slots.attributes) == list(jobs.columns[2:])


def test_homes_are_far_from_the_public_model(place: Path) -> None:
    """Flows deviate beyond chance, a few by far, and more live where they work than the model says."""
    config = pipelines.load_config(place)
    inputs = read_public_inputs(config)
    jobs = pd.read_parquet(place.parent / "jobs.parquet")
    model, geography = inputs.model, inputs.geography
    n = model.n_units
    of = [geography.unit_of(model.level, geography.number(jobs[side])) for side in ("work", "home")]
    flows = np.bincount(of[0].astype(np.int64) * n + of[1], minlength=n * n).reshape(n, n)
    expected = flows.sum(axis=1, keepdims=True) * model.shares(np.arange(n))
    off = (flows - expected) / np.sqrt(expected + 1)
    assert (np.abs(off) > 20).any()
    assert 0.1 < np.abs(flows - expected).sum() / 2 / len(jobs) < 0.6


def test_the_country_has_one_large_city_and_few_who_work_in_their_own_zone(tmp_path: Path) -> None:
    jobs = pd.read_parquet(simulate_country(tmp_path / "country", census=False).parent / "jobs.parquet")
    assert jobs["work"].value_counts(normalize=True).iloc[0] == pytest.approx(1 / 3, abs=0.01)
    assert (jobs["home"] == jobs["work"]).mean() == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("simulate", PLACES.values(), ids=PLACES)
def test_equal_seeds_give_equal_bytes(tmp_path: Path, simulate: Callable[..., Path]) -> None:
    files = [
        {path.name: path.read_bytes() for path in simulate(tmp_path / str(i), seed=seed).parent.iterdir()}
        for i, seed in enumerate((3, 3, 4))
    ]
    assert files[0] == files[1]
    assert files[0]["jobs.parquet"] != files[2]["jobs.parquet"]


@pytest.mark.parametrize("simulate", PLACES.values(), ids=PLACES)
def test_nothing_is_written_among_other_files(tmp_path: Path, simulate: Callable[..., Path]) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="not empty"):
        simulate(tmp_path)
