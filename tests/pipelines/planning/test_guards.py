"""Confidential files are not taken for public ones, whatever they are called."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines import ConfigError, ReleaseConfig, Sweep, read_public_inputs, tune
from pipelines.planning import public_inputs

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
