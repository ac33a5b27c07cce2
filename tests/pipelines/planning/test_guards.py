"""Confidential files are not taken for public ones, whatever they are called."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import geo_data
from pipelines import ConfigError, ReleaseConfig, Sweep, tune
from pipelines.planning import public_inputs
from pipelines.planning.guards import refuse_other_names, refuse_other_states
from pipelines.planning.public_inputs import read_public_inputs

pytestmark = pytest.mark.quick

Configs = Callable[..., ReleaseConfig]

RULE = r"is a confidential file of \[jobs\], or a copy of one.*name a table that is public"


@pytest.fixture(params=["itself", "link", "hard link", "copy"])
def disguised(request: pytest.FixtureRequest, small_region: dict[str, Path], tmp_path: Path) -> Path:
    """The jobs of the small region under another name."""
    jobs, other = small_region["od"], tmp_path / "public.csv.gz"
    match request.param:
        case "itself":
            return jobs
        case "link":
            other.symlink_to(jobs)
        case "hard link":
            other.hardlink_to(jobs)
        case "copy":
            shutil.copy(jobs, other)
    return other


def lodes_table(file: Path, **more: str) -> dict[str, object]:
    """Return the change that names a further table, of earlier jobs."""
    levels = {"origin_level": "trct", "destination_level": "trct"}
    return {"auxiliary.2": {"format": "lodes", "file": str(file), **levels, **more}}


def test_a_confidential_file_is_no_public_table(
    disguised: Path, small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before anything is read."""
    monkeypatch.setattr(public_inputs, "read_geography", pytest.fail)
    shapes = {"level": "bgrp", "file": str(disguised), "code": "x"}
    places = {
        "auxiliary #3.file": lodes_table(disguised),
        "weights.file": {"weights.file": disguised},
        "geography.file": {"geography.file": disguised},
        "geography.polygons #2.file": {"geography.polygons.1": shapes},
    }
    for key, change in places.items():
        with pytest.raises(ConfigError, match=f"^{key}: {disguised.name} {RULE}"):
            read_public_inputs(small_config(change))


def test_a_confidential_file_is_no_table_of_an_attribute(
    small_config: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., dict[str, object]],
    tmp_path: Path,
) -> None:
    """Whatever it holds: here one would be refused for a column, too, if it were read."""
    shutil.copy(microdata["csv"], tmp_path / "modes.csv")
    table = {"file": str(tmp_path / "modes.csv"), "category": "age", "count": "none"}
    attribute = [{"name": "age", "categories": ["young", "old"], "table": table}]
    records = {"jobs.attributes": ["age"], "privacy.protects": "record", "attribute": attribute}
    config = small_config(
        microdata_jobs("csv"), records, {"release.mechanism": "geometric", "plan.retention_min": None}
    )
    with pytest.raises(ConfigError, match=f"^attribute #1.table.file: modes.csv {RULE}"):
        read_public_inputs(config)


def test_a_confidential_file_is_no_proxy_truth(disguised: Path, small_config: Configs) -> None:
    with pytest.raises(ConfigError, match=f"^proxy truth: {disguised.name} {RULE}"):
        tune(small_config(), Sweep(), proxy_truth=disguised)


def test_files_of_patterns_and_aux_files_are_compared(small_config: Configs, tmp_path: Path) -> None:
    for name in ("ri_main.csv.gz", "ma_main.csv.gz", "ri_aux.csv.gz"):
        (tmp_path / name).write_text(name)
    aux = tmp_path / "ri_aux.csv.gz"
    config = small_config(
        {"jobs.file": tmp_path / "*_main.csv.gz", "jobs.aux": aux, "jobs.population": None},
        {"geography.external_zones": ["25"]},
        lodes_table(tmp_path / "ri_main.csv.gz", aux=str(aux)),
    )
    with pytest.raises(
        ConfigError, match=f"#3.file: ri_main.csv.gz {RULE}.*\n.*#3.aux: ri_aux.csv.gz {RULE}"
    ):
        read_public_inputs(config)


def test_a_file_of_equal_size_may_be_public(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """What counts is the content."""
    jobs = bytearray(small_region["od"].read_bytes())
    jobs[4:8] = b"\x01\x02\x03\x04"  # the time of the gzip member
    (tmp_path / "earlier.csv.gz").write_bytes(jobs)
    assert read_public_inputs(small_config(lodes_table(tmp_path / "earlier.csv.gz"))).model.tables


LODES = {"release.state": "ri", "jobs.population": None}
ZONES = {"geography.external_zones": ["25"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"jobs.file": "ri_od_main_JT05_2018.csv.gz"},
            ["jobs.file: ri_od_main_JT05_2018.csv.gz .* job type JT05, not JT00, year 2018, not 2019;"],
        ),
        ({"jobs.file": "ct_od_main_JT00_2019.parquet"}, ["jobs.file: .* of state ct, not ri;"]),
        (
            {"jobs.file": "ri_od_aux_JT00_2019.csv", "jobs.aux": "RI_OD_MAIN_JT00_2019.csv"},
            ["jobs.file: .* of part aux, not main;", "jobs.aux: .* of part main, not aux;"],
        ),
        (lodes_table(Path("ri_od_aux_JT00_2018.csv")), ["auxiliary #3.file: .* of part aux, not main;"]),
        (
            lodes_table(Path("ri_od_main_JT00_2018.csv"), aux="ri_od_aux_JT01_2017.csv"),
            ["auxiliary #3.aux: .* of job type JT01, not JT00, year 2017, not 2018;"],
        ),
        (
            lodes_table(Path("ri_od_main_JT01_2018.csv")) | {"auxiliary.2.same_jobs": True},
            ["auxiliary #3.same_jobs: .* of job type JT01, not JT00, and counts other jobs; write same_jobs"],
        ),
    ],
)
def test_names_of_files_do_not_contradict_the_configuration(
    small_config: Configs, change: dict[str, object], said: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_other_names(small_config(LODES, ZONES, {"jobs.aux": "others.csv"}, change))
    assert len(caught.value.problems) == len(said)
    for line, pattern in zip(caught.value.problems, said, strict=True):
        assert re.match(pattern, line.removeprefix("small.toml: "))


def test_names_may_differ_on_purpose(small_config: Configs) -> None:
    """Files of several states, an earlier year as a public table, and names of no form."""
    table = lodes_table(Path("ri_od_main_JT00_2018.csv"), aux="ri_od_aux_JT00_2018.csv")
    refuse_other_names(small_config(LODES, ZONES, {"jobs.aux": "ri_od_aux_JT00_2019.csv.gz"}, table))
    refuse_other_names(small_config({"jobs.file": "ct_od_main_JT00_2019.csv"}))  # of the state "demo"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["main_JT00_2018"], "by their names, the files are of part main, and the jobs of aux and main"),
        (
            ["main_JT00_2018", "aux_JT00_2017"],
            "main_JT00_2018.csv is by its name of year 2018, not 2017",
        ),
        (["main_JT00_2018", "aux_JT00_2018"], None),
    ],
    ids=["main alone", "two years", "whole"],
)
def test_a_table_of_workplaces_is_of_all_jobs_of_a_year(
    small_config: Configs, tmp_path: Path, names: list[str], said: str | None
) -> None:
    for name in names:
        (tmp_path / f"ri_od_{name}.csv").touch()
    table = {"workplaces": {"file": str(tmp_path / "ri*.csv")}, "jobs.aux": "others.csv"}
    config = small_config(LODES, ZONES, table, {"release.mechanism": "geometric", "plan.retention_min": "1"})
    with pytest.raises(ConfigError, match=said) if said else nullcontext():
        refuse_other_names(config)


def test_one_pattern_is_not_of_all_years(small_config: Configs, tmp_path: Path) -> None:
    """Nor of all job types: most jobs would be counted several times."""
    for name in ("JT00_2019", "JT00_2018", "JT01_2019"):
        (tmp_path / f"ri_od_main_{name}.csv").touch()
    with pytest.raises(ConfigError, match=r"main_JT00_2018.csv is by its name of year .* \(1 more files"):
        refuse_other_names(small_config(LODES, ZONES, {"jobs.file": tmp_path / "ri*.csv", "jobs.aux": "x"}))


@pytest.mark.parametrize(
    ("job_type", "same"), [("JT00", True), ("JT01", False)], ids=["of this type", "of another"]
)
def test_a_table_of_another_job_type_does_not_count_the_same_jobs(
    small_config: Configs, job_type: str, same: bool
) -> None:
    config = small_config(lodes_table(Path(f"ri_od_main_{job_type}_2018.csv")))
    assert config.auxiliary[2].same_jobs is same


def test_a_state_has_blocks_in_the_crosswalk(small_config: Configs, tmp_path: Path) -> None:
    crosswalk = tmp_path / "ma_xwalk.csv"
    crosswalk.write_text("block,lat,lon\n440010301001000,41.7,-71.3\n440010301001001,41.8,-71.3\n")
    geography = geo_data.read_crosswalk(
        crosswalk, block="block", levels=(), centroid=("lat", "lon"), external_zones=("25",)
    )
    with pytest.raises(
        ConfigError, match=r"release.state: ct is Connecticut.* of Rhode Island;.*\n.*file: ma is Massach"
    ):
        refuse_other_states(small_config({"release.state": "ct", "geography.file": crosswalk}), geography)
    for state in ("ri", "new_england"):
        refuse_other_states(small_config({"release.state": state}), geography)


def test_sectors_of_brazil_are_no_census_blocks(small_config: Configs, tmp_path: Path) -> None:
    """Those of Par\u00e1 (PA, 15) have as many digits, and begin as those of Hawaii do."""
    crosswalk = tmp_path / "pa_xwalk.csv"
    crosswalk.write_text("block,lat,lon\n150140205000001,-1.45,-48.49\n150140205000002,-1.46,-48.5\n")
    geography = geo_data.read_crosswalk(crosswalk, block="block", levels=(), centroid=("lat", "lon"))
    refuse_other_states(small_config({"release.state": "pa", "geography.file": crosswalk}), geography)
