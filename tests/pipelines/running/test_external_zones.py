"""Workers from outside the geography: kept in coarse areas, and released in a file of their own."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import geo_data
from geo_data.external_zones import US_STATES
from geo_data.lodes import LODES_COLUMNS
from geo_data.od_files import LODES_CATEGORIES
from helpers import Said, alone
from pipelines import Release, make_plan, run, verify
from pipelines.plans.storage import save_plan
from pipelines.release.description import file_names

from .helpers import Configs, Table

CODES = {"w_geocode": "str", "h_geocode": "str", "createdate": "str"}
FILLED = {"09": "099999999999999", "25": "259999999999999"}
COUNTS = ["S000", *(name for names in LODES_CATEGORIES.values() for name in names)]


@pytest.fixture
def outside_config(small_config: Configs, zones: Table) -> Configs:
    """Return the configuration of a release with main and aux file."""
    return lambda *changes: small_config(zones, *changes)


def read(folder: Path, kind: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"demo_od_{kind}_JT00_2019.csv.gz", dtype=CODES)


def test_every_worker_is_kept(zoned_release: Release, small_region: dict[str, Path]) -> None:
    main, aux = (read(zoned_release.public, kind) for kind in ("main", "aux"))
    assert set(aux["h_geocode"]) == set(FILLED.values())
    assert not set(main["h_geocode"]) & set(FILLED.values())
    truth = pd.read_csv(small_region["od"], dtype=CODES).groupby("w_geocode")[COUNTS].sum()
    found = pd.concat([main, aux]).groupby("w_geocode")[COUNTS].sum()
    pd.testing.assert_frame_equal(found, truth)
    # How many of a block's workers live outside is confidential, so main alone need not have its total.
    assert not main.groupby("w_geocode")["S000"].sum().equals(truth["S000"])


def test_the_release_is_read_back(zoned_release: Release) -> None:
    names = file_names(zoned_release.plan.config)
    main, aux = (zoned_release.public / names[kind] for kind in ("od_csv", "aux_csv"))
    jobs = geo_data.LodesJobs(main, zoned_release.plan.geography, aux)
    assert len(jobs.records()) == zoned_release.plan.pools.slots.work.size
    assert sorted(jobs.slots().work) == sorted(zoned_release.plan.pools.slots.work)
    table = pq.read_table(zoned_release.public / names["aux_parquet"]).to_pandas()
    assert table.astype(str).equals(read(zoned_release.public, "aux").astype(str))


def test_the_plan_does_not_depend_on_homes(outside_config: Configs, zones: Table, tmp_path: Path) -> None:
    """Neither on where people live nor on which of the files they are in."""
    first = tmp_path / "first"
    save_plan(make_plan(outside_config()), first)

    main, aux = (pd.read_csv(zones[f"jobs.{kind}"], dtype=CODES) for kind in ("file", "aux"))
    both = pd.concat([main, aux], ignore_index=True)
    both["h_geocode"] = "CANARY"
    swapped = tmp_path / "swapped"
    swapped.mkdir()
    both.iloc[::2].to_csv(swapped / "main.csv.gz", index=False)
    both.iloc[1::2].to_csv(swapped / "aux.csv.gz", index=False)
    files = {"jobs.file": swapped / "main.csv.gz", "jobs.aux": swapped / "aux.csv.gz"}
    config = outside_config(files)
    second = tmp_path / "second"
    save_plan(make_plan(config), second)
    names = sorted(path.name for path in first.iterdir())
    assert len(names) == 6
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_every_state_may_be_outside(outside_config: Configs) -> None:
    plan = make_plan(outside_config({"geography.external_zones": ["us-states"]}))
    assert len(plan.geography.external_zones) == len(US_STATES)  # the demo region is in none
    assert plan.notes[-1] == (
        "no auxiliary table has flows from 56 of 56 external zones: what is expected from them follows "
        "population and distance alone, unknown for 56 of them"
    )


@pytest.mark.parametrize("empty", ["jobs.aux", "jobs.file"])
def test_where_nobody_lives_is_no_reason_to_refuse(
    empty: str, zones: Table, outside_config: Configs, clean_source: object, tmp_path: Path, said: Said
) -> None:
    """One of the two files has a header only: the run is made, and warns the operator."""
    path = tmp_path / "none.csv"
    pd.read_csv(zones[empty], dtype="str")[:0].to_csv(path, index=False)
    path.chmod(0o600)
    release = run(outside_config({empty: path}))
    assert [check.name for check in verify(release.public)][-1] == "for release"
    assert alone(release.public) is None
    assert ["none.csv: the file has no jobs" in line for line in said if "WARNING" in line] == [True]


def test_the_main_file_in_another_form_is_no_aux_file(
    zones: Table, outside_config: Configs, tmp_path: Path
) -> None:
    path = tmp_path / "again.parquet"
    counts = dict.fromkeys(LODES_COLUMNS[2:-1], "int64")
    pd.read_csv(zones["jobs.file"], dtype="str").astype(counts).to_parquet(path)
    path.chmod(0o600)
    with pytest.raises(geo_data.InputError, match="aux file have homes in the geography"):
        run(outside_config({"jobs.aux": path}))
