"""The panel: the same workers, changes at the rates that are asked for, and what is planted is there."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import pipelines
from geo_data import InputError, simulate_panel
from pipelines.planning.public_inputs import read_public_inputs


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate_panel(tmp_path_factory.mktemp("panel") / "panel", years=4).parent


def _jobs(panel: Path, year: int) -> pd.DataFrame:
    return pd.read_parquet(panel / f"jobs-{year}.parquet")


def test_a_plan_reads_its_first_year(panel: Path) -> None:
    inputs = read_public_inputs(pipelines.load_config(panel / "panel.toml"))
    assert len(inputs.slots) == len(_jobs(panel, 2010)) == 120_000


def test_the_calendar_names_every_file(panel: Path) -> None:
    planned = pipelines.due(panel / "calendar", dry_run=True)
    found = [result.status for result in planned.results]
    assert found == ["due"] * 4
    assert not planned.problems


def test_as_many_workers_change_as_is_asked_for(panel: Path) -> None:
    first, second = _jobs(panel, 2010), _jobs(panel, 2011)
    assert first["worker"].tolist() == second["worker"].tolist()
    other = (first[["home", "work"]] != second[["home", "work"]]).any(axis=1).mean()
    # Of 0.04 and 0.06, together 0.0976, some are drawn where they were.
    assert 0.085 < other < 0.098


def test_what_is_planted_is_there(panel: Path) -> None:
    truth = json.loads((panel / "planted.json").read_text())
    before, after, built = _jobs(panel, 2011), _jobs(panel, 2012), _jobs(panel, 2013)
    plant, estate = truth["plant"], truth["estate"]
    assert (plant["year"], estate["year"]) == (2012, 2013)
    assert (before["work"] == plant["work_block"]).sum() == 0
    hired = after[after["work"] == plant["work_block"]]
    assert len(hired) == 500
    assert set(hired["home"].str[:11]) == {plant["home_tract"]}
    assert not set(hired["worker"]) & set(before["worker"])
    assert (
        sum((year["home"] == estate["home_block"]).sum() for year in (_jobs(panel, 2010), before, after)) == 0
    )
    assert (built["home"] == estate["home_block"]).sum() == 500


def test_equal_seeds_give_equal_bytes(tmp_path: Path) -> None:
    folders = [
        simulate_panel(tmp_path / str(i), years=2, seed=seed).parent for i, seed in enumerate((3, 3, 4))
    ]
    files = [
        {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} for folder in folders
    ]
    assert files[0] == files[1]
    assert files[0]["jobs-2011.parquet"] != files[2]["jobs-2011.parquet"]


def test_a_rate_beyond_one_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="moving: 4 is not from 0 to 1"):
        simulate_panel(tmp_path / "panel", moving=4)
    assert not (tmp_path / "panel").exists()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="not empty"):
        simulate_panel(tmp_path)
