"""Inputs in several files: the same jobs, the same slots, the same release, byte for byte."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import click.testing
import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from helpers import Said, with_values
from pipelines import ConfigError, run
from pipelines.cli.main import main
from pipelines.config.loading import check_config
from pipelines.config.toml import read_toml

from .helpers import Configs, seeded


@pytest.fixture
def pieces(small_region: dict[str, Path], tmp_path: Path) -> Path:
    """The jobs of the small region in three files: a work block may be in two of them."""
    folder = tmp_path / "pieces"
    folder.mkdir()
    jobs = pd.read_csv(small_region["od"], dtype="str")
    cuts = [0, len(jobs) // 5, len(jobs) // 2 + 1, len(jobs)]
    for number, (a, b) in enumerate(itertools.pairwise(cuts)):
        jobs[a:b].to_csv(folder / f"jobs_{number}.csv.gz", index=False)
    return folder


def data(release: pipelines.Release) -> dict[str, bytes]:
    """Data and plan, without the name of the input."""
    names = [*release.public.glob("*.csv.gz"), *release.public.rglob("*.parquet")]
    return {path.relative_to(release.public).as_posix(): path.read_bytes() for path in names}


def test_lodes_files_are_one_set_of_jobs(
    pieces: Path, small_region: dict[str, Path], small_geography: geo_data.Geography
) -> None:
    whole = geo_data.LodesJobs(small_region["od"], small_geography)
    parts = geo_data.LodesJobs(sorted(pieces.iterdir()), small_geography)
    assert parts.slots().work.tolist() == whole.slots().work.tolist()
    for name, codes in whole.slots().attributes.items():
        assert parts.slots().attributes[name].tolist() == codes.tolist()
    assert parts.records(("SA",)).home.tolist() == whole.records(("SA",)).home.tolist()
    assert [len(part) for part in parts.parts()] == [
        len(geo_data.LodesJobs(path, small_geography).records()) for path in sorted(pieces.iterdir())
    ]


def test_a_release_from_several_files_is_that_from_one(
    pieces: Path, small_config: Configs, frozen_day: None
) -> None:
    several = {"jobs.file": f"{pieces}/jobs_?.csv.gz"}
    one, other = (data(seeded(small_config({"run.batch_jobs": 30}, jobs))) for jobs in ({}, several))
    assert one == other


def test_categories_are_those_of_all_files(tmp_path: Path, small_geography: geo_data.Geography) -> None:
    rng = np.random.default_rng(2)
    blocks = small_geography.blocks
    frame = pd.DataFrame(
        {
            "live": rng.choice(blocks, 90),
            "toil": rng.choice(blocks[:5], 90),
            "mode": np.repeat(["bus", "foot", "car"], 30),
            "who": [f"w{i // 2}" for i in range(90)],
        }
    )
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.parquet"
        frame[30 * number : 30 * number + 30].to_parquet(path)
        paths.append(path)
    whole = tmp_path / "whole.parquet"
    frame.to_parquet(whole)
    options = {"home": "live", "work": "toil", "attributes": ("mode",)}
    jobs = geo_data.MicrodataJobs(paths, small_geography, **options)  # type: ignore[arg-type]
    one = geo_data.MicrodataJobs(whole, small_geography, **options)  # type: ignore[arg-type]
    assert jobs.slots().categories == one.slots().categories == {"mode": ("bus", "car", "foot")}
    assert (
        jobs.records(("mode",)).attributes["mode"].tolist()
        == one.records(("mode",)).attributes["mode"].tolist()
    )
    parts = list(jobs.parts(("mode",), jobs.slots().categories))
    assert [set(part.attributes["mode"]) for part in parts] == [{0}, {2}, {1}]


def test_a_worker_may_not_hide_in_another_file(tmp_path: Path, small_geography: geo_data.Geography) -> None:
    block, other = map(str, small_geography.blocks[:2])
    paths = []
    for number in range(2):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"live,toil,who\n{block},{(block, other)[number]},same\n{block},{block},o{number}\n")
        paths.append(path)
    jobs = geo_data.MicrodataJobs(paths, small_geography, home="live", work="toil", worker="who")
    with pytest.raises(geo_data.InputError, match=r"1 worker has more than 1 row") as caught:
        jobs.records()
    assert str(caught.value).startswith(str(paths[1]))
    twice = geo_data.MicrodataJobs(
        paths, small_geography, home="live", work="toil", worker="who", records_per_worker=2
    )
    assert len(twice.records()) == 4


def test_a_pattern_without_files_names_itself(small_config: Configs) -> None:
    config = small_config({"jobs.file": "nothing/jobs_*.csv.gz"})
    with pytest.raises(geo_data.InputError, match=r"jobs_\*\.csv\.gz: there is no such file"):
        run(config)


def test_a_simulated_nation_is_released(tmp_path: Path, clean_source: object) -> None:
    done = click.testing.CliRunner().invoke(main, ["simulate", str(tmp_path), "--workers", "5000"])
    assert done.exit_code == 0, done.output
    nothing_to_search = {"plan.split_threshold": "1", "plan.pool_below": 8, "plan.pool_by": []}
    tables = with_values(
        read_toml(tmp_path / "nation.toml"), {"release.mechanism": "dirichlet"}, nothing_to_search
    )
    release = run(check_config(tables, tmp_path, "nation.toml"))
    assert release.certificate.totals.records == 5000
    assert [check.name for check in pipelines.verify(release.public)][-1] == "for release"


@pytest.mark.parametrize("kind", ["region", "country"])
def test_other_places_are_simulated_in_one_size(tmp_path: Path, kind: str) -> None:
    runner, folder = click.testing.CliRunner(), tmp_path / kind
    refused = runner.invoke(main, ["simulate", str(folder), "--kind", kind, "--workers", "5000"])
    assert refused.exit_code == 2
    assert "--workers is for a nation" in refused.output
    done = runner.invoke(main, ["simulate", str(folder), "--kind", kind])
    assert done.exit_code == 0, done.output
    assert f"odsynth plan {folder / kind}.toml" in done.output


def test_a_file_given_twice_is_refused(pieces: Path, small_config: Configs) -> None:
    (pieces / "jobs_3.csv.gz").write_bytes((pieces / "jobs_1.csv.gz").read_bytes())
    (pieces / "jobs_3.csv.gz").chmod(0o600)
    config = small_config({"jobs.file": f"{pieces}/jobs_?.csv.gz"})
    with pytest.raises(geo_data.InputError, match="the same jobs may be there twice"):
        run(config)
    assert not config.release.out.exists()


def test_one_file_under_two_names_is_refused(pieces: Path, small_config: Configs) -> None:
    (pieces / "jobs_3.csv.gz").hardlink_to(pieces / "jobs_1.csv.gz")
    with pytest.raises(ConfigError, match=r"jobs_3.*named twice, also as .*jobs_1"):
        run(small_config({"jobs.file": f"{pieces}/jobs_?.csv.gz"}))


def test_a_file_without_jobs_is_remarked_to_the_operator(
    pieces: Path, small_config: Configs, said: Said, request: pytest.FixtureRequest
) -> None:
    jobs = pd.read_csv(pieces / "jobs_1.csv.gz", dtype="str")
    jobs[:0].to_csv(pieces / "jobs_3.csv.gz", index=False)
    (pieces / "jobs_3.csv.gz").chmod(0o600)
    root, others = logging.getLogger(), Said()
    root.addHandler(others.handler)
    request.addfinalizer(lambda: root.removeHandler(others.handler))
    run(small_config({"jobs.file": f"{pieces}/jobs_?.csv.gz"}))
    assert ["jobs_3.csv.gz: the file has no jobs" in line for line in said if "WARNING" in line] == [True]
    assert "Drawing" in "".join(others)
    assert "no jobs" not in "".join(others), "what depends on homes goes to no other log of the process"
