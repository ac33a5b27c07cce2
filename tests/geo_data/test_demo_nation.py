"""The generated nation: exactly so many workers, files read as any others, equal seeds, equal bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from geo_data import InputError, MicrodataJobs, read_crosswalk, read_flows, simulate_nation


@pytest.fixture(scope="module")
def nation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate_nation(tmp_path_factory.mktemp("nation"), 30_000).parent


def geography(folder: Path):  # type: ignore[no-untyped-def]
    levels = ("st", "cty", "trct", "bgrp")
    return read_crosswalk(folder / "xwalk.parquet", block="block", levels=levels, centroid=("lat", "lon"))


def test_every_file_is_read_and_counts_agree(nation: Path) -> None:
    places = geography(nation)
    files = sorted((nation / "jobs").iterdir())
    assert len(files) == places.n_units("st") == 2
    jobs = MicrodataJobs(files, places, home="home", work="work")
    records = jobs.records()
    assert len(records) == len(jobs.slots()) == 30_000
    for number, part in enumerate(jobs.parts()):
        assert set(places.unit_of("st", part.work)) == {number}  # a file a state of work
    sides = {"origin": "h", "destination": "w", "flow": "flow"}
    for level, name in (("cty", "county"), ("trct", "tract")):
        flows = read_flows(nation / f"{name}.parquet", places, (level, level), **sides)
        assert flows.dropped["rows"] == 0
        assert flows.flow.sum() > 10_000


@pytest.mark.parametrize(("level", "name"), [("cty", "county"), ("trct", "tract")])
def test_tables_are_like_the_jobs_but_not_from_them(nation: Path, level: str, name: str) -> None:
    places = geography(nation)
    records = MicrodataJobs(sorted((nation / "jobs").iterdir()), places, home="home", work="work").records()
    areas = places.n_units(level)
    work, home = (places.unit_of(level, blocks).astype(np.int64) for blocks in (records.work, records.home))
    true = np.bincount(work * areas + home, minlength=areas**2)
    table = pd.read_parquet(nation / f"{name}.parquet")
    of = [places.unit_number(level, table[side]).astype(np.int64) for side in ("w", "h")]
    told = of[0] * areas + of[1]
    assert (true[told] > 0).mean() > 0.5
    assert not np.array_equal(true[told], table["flow"])
    assert 0.7 < np.corrcoef(true[told], table["flow"])[0, 1] < 0.9999


def test_what_tables_show_is_so(nation: Path) -> None:
    """Jobs of people of the same county are in last year's table, and nearly all homes are near."""
    places = geography(nation)
    records = MicrodataJobs(sorted((nation / "jobs").iterdir()), places, home="home", work="work").records()
    county = [places.unit_of("cty", blocks) for blocks in (records.work, records.home)]
    same = (county[0] == county[1]).sum()
    assert 0.93 < pd.read_parquet(nation / "tract.parquet")["flow"].sum() / same < 1.07
    north, east = places.latitude, places.longitude
    away = np.hypot(north[records.work] - north[records.home], east[records.work] - east[records.home])
    apart = np.hypot(
        north[records.work] - north[records.home[::-1]], east[records.work] - east[records.home[::-1]]
    )
    assert np.median(away) < 0.5 * np.median(apart)


def test_equal_seeds_give_equal_bytes(nation: Path, tmp_path: Path) -> None:
    again = simulate_nation(tmp_path / "again", 30_000).parent
    other = simulate_nation(tmp_path / "other", 30_000, seed=2).parent
    names = sorted(path.relative_to(nation) for path in nation.rglob("*") if path.is_file())
    assert all((nation / name).read_bytes() == (again / name).read_bytes() for name in names)
    assert (nation / "xwalk.parquet").read_bytes() != (other / "xwalk.parquet").read_bytes()


def test_another_nation_in_the_folder_is_neither_mixed_nor_overwritten(nation: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in nation.rglob("*")}
    with pytest.raises(InputError, match=r"the folder is not empty\. Fix: name another"):
        simulate_nation(nation, 1000)
    assert {path: path.stat().st_mtime_ns for path in nation.rglob("*")} == before


def test_too_few_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1,000 workers"):
        simulate_nation(tmp_path / "nation", 999)
    assert not (tmp_path / "nation").exists()
