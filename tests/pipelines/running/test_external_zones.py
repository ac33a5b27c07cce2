"""Workers from outside the geography: kept in coarse areas, released in a file of their own, and checked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
from geo_data.external_zones import US_STATES
from geo_data.lodes import LODES_COLUMNS
from geo_data.od_files import write_od_csv
from helpers import Said, alone, refused, seal_again
from pipelines import ConfigError, Release, make_plan, run, verify
from pipelines.plans.form import plan_hash
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.layout import file_names
from pipelines.running.report import plan_summary

from .helpers import Configs, Table

CODES = {"w_geocode": "str", "h_geocode": "str", "createdate": "str"}
FILLED = {"09": "099999999999999", "25": "259999999999999"}
COUNTS = ["S000", *(name for names in geo_data.LODES_CATEGORIES.values() for name in names)]


@pytest.fixture
def outside_config(small_config: Configs, zones: Table) -> Configs:
    """Return the configuration of a release with main and aux file."""
    return lambda *changes: small_config(zones, *changes)


@pytest.fixture
def release(zoned_release: Release) -> Release:
    return zoned_release


def read(folder: Path, kind: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"demo_od_{kind}_JT00_2019.csv.gz", dtype=CODES)


def test_every_worker_is_kept(release: Release, small_region: dict[str, Path]) -> None:
    main, aux = (read(release.public, kind) for kind in ("main", "aux"))
    assert set(aux["h_geocode"]) == set(FILLED.values())
    assert not set(main["h_geocode"]) & set(FILLED.values())
    truth = pd.read_csv(small_region["od"], dtype=CODES).groupby("w_geocode")[COUNTS].sum()
    found = pd.concat([main, aux]).groupby("w_geocode")[COUNTS].sum()
    pd.testing.assert_frame_equal(found, truth)
    # How many of a block's workers live outside is confidential, so main alone need not have its total.
    assert not main.groupby("w_geocode")["S000"].sum().equals(truth["S000"])


def test_the_release_verifies_and_names_its_files(release: Release) -> None:
    assert [check.name for check in verify(release.public)][-1] == "for release"
    names = file_names(release.plan.config)
    assert sorted(names) == ["aux_csv", "aux_parquet", "od_csv", "od_parquet"]
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    assert names["aux_csv"] in readme
    of_aux = "is a pair of work block and external zone, where workers live, with its jobs."
    assert of_aux in " ".join(readme.split())
    assert "workers, or of the external zone where they live |" in readme
    blocks = f"{release.plan.geography.n_blocks:,} blocks, external zones among them;"
    assert blocks in plan_summary(release.plan, release.plan.certify())
    assert names["aux_parquet"] in readme


def test_the_release_is_read_back(release: Release) -> None:
    names = file_names(release.plan.config)
    main, aux = (release.public / names[kind] for kind in ("od_csv", "aux_csv"))
    jobs = geo_data.LodesJobs(main, release.plan.geography, aux)
    assert len(jobs.records()) == release.plan.pools.slots.work.size
    assert sorted(jobs.slots().work) == sorted(release.plan.pools.slots.work)
    table = pq.read_table(release.public / names["aux_parquet"]).to_pandas()
    assert table.astype(str).equals(read(release.public, "aux").astype(str))


def test_the_plan_is_stored_and_read_back(release: Release, tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    loaded = load_plan(release.public / "plan")
    assert loaded.geography.external_zones == ("09", "25")
    assert save_plan(loaded, folder) == plan_hash(release.public / "plan")
    blocks = pq.read_table(folder / "blocks.parquet").to_pandas()
    assert blocks["tabblk2010"].tolist() == loaded.geography.blocks.tolist()
    known = blocks.notna()
    assert known.drop(columns=["latitude", "longitude"]).all(axis=None)
    assert blocks["st"][~known["latitude"]].tolist() == ["09", "25"]


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


def test_outside_and_aux_need_each_other(outside_config: Configs) -> None:
    for changes, words in (
        ({"jobs.aux": None}, r"geography\.external_zones: the LODES main file has no such workers"),
        ({"geography.external_zones": None}, r"jobs\.aux: the aux file needs zones to live in"),
        ({"geography.external_zones": ["25", "25"]}, 'geography: "25" is named 2 times'),
        ({"geography.external_zones": "everywhere"}, r"geography\.external_zones: .* should be a list"),
    ):
        with pytest.raises(ConfigError, match=words):
            outside_config(changes)


def test_every_state_may_be_outside(outside_config: Configs) -> None:
    plan = make_plan(outside_config({"geography.external_zones": ["us-states"]}))
    assert len(plan.geography.external_zones) == len(US_STATES)  # the demo region is in none
    assert plan.notes[-1] == (
        "no auxiliary table has flows from 56 of 56 external zones: what is expected from them follows "
        "population and distance alone, unknown for 56 of them"
    )


# --- tampering, sealed anew


def moved_to(
    folder: Path, edit: Callable[[pd.DataFrame, pd.DataFrame], tuple[pd.DataFrame, pd.DataFrame]]
) -> None:
    tables = [pq.read_table(folder / f"demo_od_{kind}_JT00_2019.parquet") for kind in ("main", "aux")]
    edited = edit(*(table.to_pandas() for table in tables))
    for kind, table, old in zip(("main", "aux"), edited, tables, strict=True):
        stem = folder / f"demo_od_{kind}_JT00_2019"
        changed = pa.Table.from_pandas(table, schema=old.schema, preserve_index=False)
        pq.write_table(changed.replace_schema_metadata(), f"{stem}.parquet", compression="zstd")
        write_od_csv(
            table.drop(columns="createdate"), f"{stem}.csv.gz", createdate=old["createdate"][0].as_py()
        )
    seal_again(folder)


def in_order(*tables: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(tables).sort_values(["w_geocode", "h_geocode"])


def a_block_of_another_state(main: pd.DataFrame, aux: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return main, aux.assign(h_geocode=aux["h_geocode"].replace(FILLED["25"], "250173000000001"))


def test_tampering_with_the_two_files_is_found(release: Release, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(release.public, tmp_path / "public"))
    moved_to(folder, lambda main, aux: (main, aux))
    assert [check.name for check in verify(folder)][-1] == "for release"
    for edit, words in (
        (lambda main, aux: (in_order(main, aux), aux[:0]), "homes that belong in the other"),
        (lambda main, aux: (main[1:], in_order(main[:1], aux)), "homes that belong in the other"),
        (lambda main, aux: (main, aux[:0]), "totals"),
        (lambda main, aux: (main, aux[::-1]), "rows are not in order"),
        (a_block_of_another_state, "blocks that are not in the geography"),
    ):
        shutil.copytree(release.public, folder, dirs_exist_ok=True)
        moved_to(folder, edit)
        error = refused(folder)
        assert error.check == "data"
        assert words in str(error)


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
