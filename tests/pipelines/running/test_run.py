"""Runs: exact totals, equal bytes for equal keys, all or nothing, and nothing confidential in public."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
import pipelines
import synth
from geo_data.errors import ChangedFileError
from geo_data.od_files import LODES_CATEGORIES
from helpers import Said, freeze, released_files, same_key, words_of_release
from pipelines import ConfigError, Release, resume, run, verify
from pipelines.plans import storage
from pipelines.plans.plan import batches
from pipelines.release import layout
from pipelines.release.description import file_names
from pipelines.release.layout import MANIFEST, public_files
from pipelines.running import batches as drawing
from pipelines.running import folder
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.running.steps import RUN_STEPS, Step
from pipelines.storage.event_log import EventLog
from synth import randomness
from synth.dirichlet.mechanism import Dirichlet
from synth.randomness import WordStream

from .helpers import (
    FULL,
    GEOMETRIC,
    Configs,
    data_of,
    everything,
    failing,
    interrupted,
    left_over,
    mode,
    seeded,
)

MANY = {"run.batch_jobs": 50}
COUNTS = ["S000", *(name for names in LODES_CATEGORIES.values() for name in names)]


def read_od(release: Release) -> pd.DataFrame:
    path = release.public / file_names(release.plan.config)["od_csv"]
    return pd.read_csv(path, dtype={"w_geocode": "str", "h_geocode": "str", "createdate": "str"})


@pytest.fixture(scope="module")
def micro_releases(
    config_text: Callable[..., str],
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., object],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Release]:
    """Releases of the microdata by age and sector, from CSV and from Parquet, by the same key."""
    releases = {}
    for form, path in microdata.items():
        text = config_text(microdata_jobs(path), {"plan.pool_by": ["age", "sector"]})
        config = pipelines.parse_config(text, tmp_path_factory.mktemp(f"micro-{form}"), "micro.toml")
        with pytest.MonkeyPatch.context() as patch:
            freeze(patch)
            releases[form] = run(config, key=same_key())
    return releases


# --- what comes out


def test_lodes_release_has_the_public_totals(small_release: Release, small_region: dict[str, Path]) -> None:
    truth = pd.read_csv(small_region["od"], dtype={"w_geocode": "str"})
    found = read_od(small_release).groupby("w_geocode")[COUNTS].sum()
    pd.testing.assert_frame_equal(found, truth.groupby("w_geocode")[COUNTS].sum())
    assert small_release.certificate.for_release
    assert [check.name for check in verify(small_release.public)][-1] == "for release"


def test_homes_are_not_simply_copied(small_release: Release, small_region: dict[str, Path]) -> None:
    truth = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    keys = ["w_geocode", "h_geocode"]
    both = truth.merge(read_od(small_release), on=keys, how="outer", suffixes=("", "_synthetic")).fillna(
        {"S000": 0}
    )
    assert (both["S000"] != both["S000_synthetic"].fillna(0)).mean() > 0.1


def test_every_pool_gets_as_many_homes_as_slots_by_stratum(
    small_config: Configs, small_region: dict[str, Path]
) -> None:
    """Pooled by earnings, the urn of each earnings class is its own."""
    release = seeded(small_config({"plan.pool_by": ["SE"]}), 3)
    truth = pd.read_csv(small_region["od"], dtype={"w_geocode": "str"}).groupby("w_geocode")[COUNTS].sum()
    pd.testing.assert_frame_equal(read_od(release).groupby("w_geocode")[COUNTS].sum(), truth)
    assert release.plan.pools.n.sum() == 600
    assert release.plan.pools.n.size > truth.shape[0]


def test_microdata_release_has_the_public_totals(
    micro_releases: dict[str, Release], microdata: dict[str, Path]
) -> None:
    truth = pd.read_csv(microdata["csv"], dtype="str").rename(columns={"toil": "w_geocode"})
    keys, pair = ["w_geocode", "age", "sector"], ["w_geocode", "h_geocode"]
    for release in micro_releases.values():
        names = file_names(release.plan.config)
        jobs = pq.read_table(release.public / names["jobs_parquet"]).to_pandas()
        assert list(jobs.columns) == ["w_geocode", "h_geocode", "age", "sector"]
        assert jobs.groupby(keys).size().to_dict() == truth.groupby(keys).size().to_dict()
        od = read_od(release)
        counts = [name for name in od.columns if name.startswith(("S000", "age_", "sector_"))]
        assert counts == ["S000", "age_middle", "age_old", "age_young", "sector_field", "sector_office"]
        expected = jobs[pair].assign(S000=1)
        for attribute, value in (name.split("_") for name in counts[1:]):
            expected[f"{attribute}_{value}"] = (jobs[attribute] == value).astype(int)
        pd.testing.assert_frame_equal(od.set_index(pair)[counts], expected.groupby(pair).sum())
        assert list(verify(release.public))


def test_microdata_csv_and_parquet_give_the_same_release(micro_releases: dict[str, Release]) -> None:
    one, other = map(data_of, micro_releases.values())
    assert one == other
    assert len(one) == 3


def test_british_codes_go_through(british: Configs, clean_source: object) -> None:
    release = run(british())
    assert list(verify(release.public))
    od = read_od(release)
    truth = pd.read_csv(release.out.parent / "jobs.csv")
    assert od.groupby("w_geocode")["S000"].sum().to_dict() == truth.groupby("toil").size().to_dict()
    assert list(od.columns) == ["w_geocode", "h_geocode", "S000", "createdate"]


@pytest.mark.quick
def test_inputs_of_the_demo_have_their_configuration(tmp_path: Path) -> None:
    path = pipelines.demo_inputs(tmp_path / "new")
    config = pipelines.load_config(path)
    assert config.release.out == tmp_path / "new" / "out" / "demo"
    assert not config.release.out.exists()
    assert [path.name.split("_")[2] for path in config.jobs.files] == ["main", "aux"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in config.jobs.files)
    public = [config.geography.file, config.weights.file, *(table.file for table in config.auxiliary)]
    before = {file: file.read_bytes() for file in (path, *config.jobs.files, *public)}
    assert pipelines.demo_inputs(tmp_path / "new") == path
    assert {file: file.read_bytes() for file in before} == before


# --- the form of the files


def test_csv_is_exactly_lodes(small_release: Release, tmp_path: Path) -> None:
    path = small_release.public / "demo_od_main_JT00_2019.csv.gz"
    raw = gzip.decompress(path.read_bytes())
    zcat = subprocess.run(["gzip", "-dc", str(path)], check=True, capture_output=True).stdout
    assert zcat == raw
    assert subprocess.run(["gzip", "--test", str(path)], check=False).returncode == 0
    assert b'"' not in raw
    assert b"\r" not in raw
    assert raw.endswith(b"\n")
    lines = raw.decode("ascii").splitlines()
    assert lines[0] == ("w_geocode,h_geocode,S000,SA01,SA02,SA03,SE01,SE02,SE03,SI01,SI02,SI03,createdate")
    rows = [line.split(",") for line in lines[1:]]
    day = small_release.certificate.created[:10].replace("-", "")
    assert {len(row) for row in rows} == {13}
    assert {row[12] for row in rows} == {day}
    assert {len(row[0]) for row in rows} | {len(row[1]) for row in rows} == {15}
    pairs = [(row[0], row[1]) for row in rows]
    assert pairs == sorted(set(pairs))
    for row in rows:
        total, *parts = map(int, row[2:12])
        assert total >= 1
        assert [sum(parts[i : i + 3]) for i in (0, 3, 6)] == [total] * 3


def test_parquet_equals_csv(small_release: Release, micro_releases: dict[str, Release]) -> None:
    for release in (small_release, *micro_releases.values()):
        parquet = pq.read_table(release.public / file_names(release.plan.config)["od_parquet"]).to_pandas()
        csv = read_od(release)
        assert list(parquet.columns) == list(csv.columns)
        pd.testing.assert_frame_equal(parquet.astype("str"), csv.astype("str"), check_dtype=False)


def test_folder_holds_what_is_promised(small_release: Release, micro_releases: dict[str, Release]) -> None:
    for release in (small_release, micro_releases["csv"]):
        assert sorted(path.name for path in release.out.iterdir()) == ["confidential", "public"]
        assert public_files(release.public) == released_files(release.public)
        sums = subprocess.run(
            ["sha256sum", "--strict", "-c", "SHA256SUMS"],
            cwd=release.public,
            check=False,
            capture_output=True,
            text=True,
        )
        assert sums.returncode == 0, sums.stderr
        assert sums.stdout.count(": OK") == len(public_files(release.public)) + 1
        manifest = json.loads((release.public / MANIFEST).read_text())
        assert manifest["release"]["state"] == "demo"
        for entry in manifest["files"]:
            assert (release.public / entry["path"]).stat().st_size == entry["bytes"]


def test_readme_names_every_file_and_column(
    small_release: Release, micro_releases: dict[str, Release]
) -> None:
    for release in (small_release, micro_releases["parquet"]):
        text = words_of_release(release.public)
        for name in file_names(release.plan.config).values():
            assert f"`{name}`" in text
        for column in read_od(release).columns:
            assert f"| `{column}` |" in text
        assert f"Epsilon {release.certificate.run.epsilon}, delta {release.certificate.run.delta}" in text
        assert "for publication" in text


def test_a_release_is_german_where_its_configuration_says_so(small_config: Configs) -> None:
    release = seeded(small_config({"release.language": "de"}))
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    assert "**synthetische** Erwerbstätige" in readme
    record = json.loads((release.public / "croissant.json").read_text(encoding="utf-8"))
    assert record["@context"]["@language"] == "de"
    assert "synthetische Erwerbstätige" in record["description"]
    citation = pipelines.open_release(release.public).citation
    assert f"- Zitierweise: {citation}\n" in readme


# --- equal keys, equal bytes


def test_another_key_gives_other_bytes(small_config: Configs, whole: Release, frozen_day: None) -> None:
    one, other = data_of(whole), data_of(seeded(small_config(), 2))
    assert all(one[name] != other[name] for name in one)


@pytest.fixture(scope="module")
def of_many_batches(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release with the key of seed 1, drawn by one thread."""
    config = pipelines.parse_config(config_text(MANY), tmp_path_factory.mktemp("many"), "small.toml")
    with pytest.MonkeyPatch.context() as patch, dask.config.set(num_workers=1):
        freeze(patch)
        return seeded(config)


def test_number_of_threads_does_not_matter(
    small_config: Configs, of_many_batches: Release, frozen_day: None
) -> None:
    with dask.config.set(num_workers=4):
        release = seeded(small_config(MANY))
    assert len(batches(release.plan, 50)) > 4
    assert data_of(release) == data_of(of_many_batches)


@pytest.mark.parametrize("changes", [{}, GEOMETRIC | {"release.implicates": 2}])
def test_no_key_stream_is_used_twice(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    """Two batches, or two stages, on one stream would be correlated, outside the guarantee."""
    stream = synth.RunKey.stream
    used: list[tuple[str, int]] = []

    def noted(key: synth.RunKey, stage: str, batch: int) -> WordStream:
        if key.secure:  # not one of the planner's trials
            used.append((stage, batch))
        return stream(key, stage, batch)

    monkeypatch.setattr(synth.RunKey, "stream", noted)
    release = run(small_config(MANY, changes))
    number = len(batches(release.plan, 50))
    # Noise, rounding and blocks of two runs, and the noise of further tables.
    stages = 2 * number if not changes else 2 * (3 * number + len(release.plan.choices.tables))
    assert len(used) == stages > 3
    assert len(set(used)) == len(used)


# --- all or nothing


def test_an_existing_output_is_refused_and_not_touched(
    small_config: Configs, small_release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "make_plan", pytest.fail)  # refused before anything is read
    kinds = {
        "folder": "a folder that holds no release of odsynth. Fix: move it away",
        "empty folder": "a folder that holds no release",
        "file": "a file. Fix: move it away",
        "link": "a symbolic link to ",
        "dangling link": "a symbolic link to ",
        "release": "a release of odsynth. Fix: keep it",
    }
    for kind, named in kinds.items():
        config = small_config()
        out = config.release.out
        target = out.parent / "elsewhere"
        target.mkdir()
        if kind == "release":
            shutil.copytree(small_release.out, out)
        if "folder" in kind:
            out.mkdir()
        if kind in ("folder", "file"):
            (out / "mine.txt" if kind == "folder" else out).write_text("mine")
        if "link" in kind:
            out.symlink_to(target if kind == "link" else out.parent / "nothing")
        before = left_over(config)
        with pytest.raises(ConfigError, match="the output folder exists") as caught:
            run(config)
        assert f"{out}: " in str(caught.value)
        assert named in str(caught.value)
        assert "--out" in str(caught.value)
        assert left_over(config) == before
        if kind == "folder":
            assert everything(out) == {"mine.txt": b"mine"}


# Everything that run() calls before the first draw, and what those call that writes; and from then on.
BEFORE: list[tuple[object, str]] = [
    *((releasing, name) for name in ("make_plan", "certify", "save_plan", "make_certificate", "job_source")),
    (releasing, "keep_homes"),
    (drawing, "PoolFinder"),
    (storage.pq, "write_table"),
    (folder.np, "save"),
    (folder.json, "dumps"),
]
AFTER: list[tuple[object, str]] = [
    *((releasing, name) for name in ("sample_release", "write_public", "verify_run", "_write_summary")),
    (drawing, "sample_batch"),
    (drawing, "write_od_csv"),
    (drawing, "whole_folder"),
    (layout, "release_readme"),
    (layout, "seal"),
    (layout.shutil, "copyfileobj"),
    (RunFolder, "tidy"),
    (Path, "rename"),
    *((releasing, name) for name in ("_put_in_place", "sync_tree")),
]


def with_faults(steps: list[tuple[object, str]]) -> pytest.MarkDecorator:
    """Each step with one fault; `make deep` has it with the others too."""
    faults = (FULL, KeyboardInterrupt(), MemoryError())
    params = [
        pytest.param(
            step,
            fault,
            id=f"{step[1]}-{type(fault).__name__}",
            marks=[] if j == i % len(faults) else [pytest.mark.deep],
        )
        for i, step in enumerate(steps)
        for j, fault in enumerate(faults)
    ]
    return pytest.mark.parametrize(("step", "fault"), params)


@with_faults(BEFORE)
def test_a_failure_before_the_first_draw_leaves_nothing(
    step: tuple[object, str], fault: BaseException, small_config: Configs
) -> None:
    config = small_config({"release.out": "new/folder/release"})
    interrupted(config, *step, fault)
    top = config.release.out.parent.parent.parent
    assert list(top.iterdir()) == [], "not even the folders made for the output"
    with pytest.raises(ConfigError, match="there is no unfinished run here"):
        resume(config.release.out)


def test_homes_that_cannot_be_removed_are_told_beside_the_first_error(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = small_config()
    with monkeypatch.context() as patch:

        def stop(*_: object) -> None:
            failing(folder.shutil, "rmtree", OSError(errno.EACCES, "Permission denied"), patch)
            pytest.fail("stop here")

        patch.setattr(RunFolder, "save", stop)
        with pytest.raises(pytest.fail.Exception, match="stop here"):
            seeded(config)
    (said,) = caplog.messages
    assert str(RunFolder.of(config.release.out).folder) in said
    assert "may hold confidential homes, cannot be removed (Permission denied)" in said
    assert len([*RunFolder.of(config.release.out).homes.iterdir()]) > 0


@pytest.mark.parametrize("changed", [True, False])
def test_only_a_file_that_changed_is_called_so(
    changed: bool, small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ChangedFileError("x") if changed else ValueError("another fault")
    failing(releasing, "keep_homes", error, monkeypatch)
    with pytest.raises(ValueError, match="a file changed during the run" if changed else "another fault"):
        run(small_config())


@with_faults(AFTER)
def test_a_failure_from_the_first_draw_on_can_be_resumed(
    step: tuple[object, str],
    fault: BaseException,
    small_config: Configs,
    drawn_with_seed_one: dict[str, bytes],
    frozen_day: None,
) -> None:
    config = small_config()
    interrupted(config, *step, fault)
    assert left_over(config) == [".release.unfinished"]
    assert mode(RunFolder.of(config.release.out).folder) == 0o700
    with pytest.raises(ConfigError, match="an unfinished run of this release is there"):
        run(config)
    release = resume(config.release.out)
    assert everything(release.public) == drawn_with_seed_one
    assert left_over(config) == ["release"]
    assert sorted(path.name for path in release.out.iterdir()) == ["confidential", "public"]
    names = sorted(path.name for path in (release.out / "confidential").iterdir())
    assert names == ["lock", "log.jsonl", "run.json", "state.json"]  # and no key


@pytest.fixture
def drawn_with_seed_one(whole: Release) -> dict[str, bytes]:
    """The public folder of an uninterrupted run with the key of seed 1."""
    return everything(whole.public)


def test_a_finished_batch_is_not_drawn_again(
    small_config: Configs, of_many_batches: Release, frozen_day: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, config = drawing.sample_batch, small_config(MANY)
    drawn: list[int] = []
    most = 3

    def sample(*arguments: object) -> object:
        if len(drawn) == most:
            raise OSError(5, "Input/output error")
        drawn.append(int(arguments[4]))  # type: ignore[call-overload]
        return draw(*arguments)  # type: ignore[arg-type]

    with dask.config.set(num_workers=1):
        monkeypatch.setattr(drawing, "sample_batch", sample)
        with pytest.raises(OSError, match="Input/output"):
            seeded(config)
        assert len(drawn) == 3
        most = 1000  # no more faults
        release = resume(config.release.out)
    assert sorted(drawn) == list(range(len(batches(release.plan, 50))))
    assert everything(release.public) == everything(of_many_batches.public)


def test_a_run_that_was_moved_ends_where_it_is_and_draws_what_was_cut_off(
    small_config: Configs, drawn_with_seed_one: dict[str, bytes], frozen_day: None, tmp_path: Path
) -> None:
    config = small_config()
    interrupted(config)
    for path in RunFolder.of(config.release.out).parts.rglob("od.*"):
        os.truncate(path, 10)
    out = tmp_path / "larger" / "disk"
    out.parent.mkdir()
    shutil.move(RunFolder.of(config.release.out).folder, RunFolder.of(out).folder)
    assert everything(resume(out).public) == drawn_with_seed_one
    assert left_over(config) == []
    assert [path.name for path in out.parent.iterdir()] == ["disk"]


def test_what_a_power_cut_must_not_take_is_on_the_disk(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan and homes before drawing, parts before they get their names, the release before its key goes."""
    config = small_config()
    staging = RunFolder.of(config.release.out)
    synced: set[int] = set()
    moments: list[str] = []

    def looking(moment: str, folder: Path) -> None:
        moments.append(moment)
        for path in folder.rglob("*"):
            if path.is_file() and path.name not in ("lock", "log.jsonl"):
                assert path.stat().st_ino in synced, (moment, path.name)

    fsync, rename, draw, forget = os.fsync, os.rename, releasing.sample_release, RunFolder.forget_key
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.add(os.fstat(fd).st_ino), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda a, b: (looking("name", Path(a)), rename(a, b)))
    monkeypatch.setattr(
        releasing, "sample_release", lambda *a, **k: (looking("draw", staging.folder), draw(*a, **k))[1]
    )
    monkeypatch.setattr(RunFolder, "forget_key", lambda s: (looking("forget", s.public), forget(s)))
    run(config)
    assert moments == ["draw", "name", "forget", "name"]  # of the one part, of the release


def test_two_processes_do_not_work_in_one_folder(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config()
    seen: list[str] = []
    real = releasing.sample_release

    def meanwhile(*arguments: object, **named: object) -> object:
        for other in (lambda: run(config), lambda: resume(config.release.out)):
            with pytest.raises(ConfigError, match="another process is making this release"):
                other()
            seen.append("refused")
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(releasing, "sample_release", meanwhile)
    run(config)
    assert seen == ["refused", "refused"]


def test_a_folder_that_somebody_else_prepared_is_refused(small_config: Configs, tmp_path: Path) -> None:
    config = small_config()
    staging = RunFolder.of(config.release.out)
    for target in (staging.folder, staging.confidential):
        staging.folder.mkdir(mode=0o700)
        staging.confidential.mkdir(mode=0o700)
        target.chmod(0o777)
        with pytest.raises(ConfigError, match="must be a folder of yours that nobody else can use"):
            run(config)
        shutil.rmtree(staging.folder)
    (tmp_path / "victim").write_text("mine")
    staging.folder.symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError, match=r"a symbolic link to .*victim is where a folder must be"):
        run(config)
    staging.folder.unlink()
    staging.folder.mkdir(mode=0o700)
    staging.confidential.mkdir(mode=0o700)
    (staging.confidential / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):  # noqa: PT011 - a link is not followed
        run(config)
    assert (tmp_path / "victim").read_text() == "mine"


def test_what_an_abandoned_run_left_is_thrown_away(small_config: Configs) -> None:
    """Killed before its first draw: nothing was spent, so the next run begins anew."""
    config = small_config()
    folder = RunFolder.of(config.release.out).folder
    folder.mkdir(mode=0o700)
    (folder / "homes").mkdir()
    (folder / "homes" / "000000.npy").write_bytes(b"old")
    (folder / "confidential").mkdir(mode=0o700)
    (folder / "confidential" / "run.key").write_bytes(b"old")
    release = run(config)
    assert left_over(config) == ["release"]
    assert not list(release.out.rglob("run.key"))


def test_a_release_that_fails_its_own_check_is_not_put_in_place(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampler that loses a job (here: moves one to another work block) must not get out."""
    rows = drawing.od_rows

    def wrong(geography: geo_data.Geography, work: np.ndarray, *rest: object) -> pa.Table:
        moved = work.copy()
        moved[0] = moved[-1]
        return rows(geography, moved, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(drawing, "od_rows", wrong)  # where it is drawn; the check has the right one
    config = small_config()
    with pytest.raises(pipelines.PublicReleaseError, match="the data do not have the jobs of the plan"):
        run(config)
    assert left_over(config) == [".release.unfinished"]


def test_files_of_a_plan_that_change_while_it_is_drawn_fail_the_check(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check takes the plan that was read before: of files with the hashes of those that are published."""
    write = layout.write_public
    for name in ("plan.json", "pools.parquet"):

        def changed(*arguments: Any, name: str = name) -> None:
            path = arguments[3] / "plan" / name
            path.write_bytes(path.read_bytes() + b" ")
            write(*arguments)

        monkeypatch.setattr(releasing, "write_public", changed)
        config = small_config()
        with pytest.raises(pipelines.VerificationError, match="plan: "):
            run(config)
        assert left_over(config) == [".release.unfinished"]


def test_a_plan_that_costs_more_than_requested_is_not_drawn(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify = Dirichlet.certify

    def dear(self: Dirichlet, plan: synth.Plan) -> synth.Guarantee:
        return replace(certify(self, plan), epsilon=plan.target.epsilon + 1)

    monkeypatch.setattr(Dirichlet, "certify", dear)
    monkeypatch.setattr(releasing, "job_source", pytest.fail)
    config = small_config()
    with pytest.raises(ValueError, match="exceed what was requested"):
        run(config)
    assert left_over(config) == []


def test_the_certificate_is_made_before_origins_are_read(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("make_plan", "certify", "save_plan", "make_certificate", "sample_release"):
        real = getattr(releasing, name)
        monkeypatch.setattr(
            releasing, name, lambda *a, _name=name, _real=real, **k: (order.append(_name), _real(*a, **k))[1]
        )
    records = geo_data.LodesJobs._records
    monkeypatch.setattr(
        geo_data.LodesJobs, "_records", lambda *a, **k: (order.append("records"), records(*a, **k))[1]
    )
    run(small_config())
    assert order == ["make_plan", "save_plan", "certify", "make_certificate", "records", "sample_release"]


def test_a_release_put_in_place_at_the_same_moment_is_not_replaced(
    small_config: Configs, small_release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs into one folder: both saw that it was free; the later one gets an error, the first stays."""
    config = small_config()
    rename = Path.rename

    def late(staging: Path, out: Path) -> Path:
        shutil.copytree(small_release.out, out)
        return rename(staging, out)

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises(OSError, match="not empty") as caught:
        run(config)
    assert caught.value.filename or caught.value.filename2
    assert left_over(config) == [".release.unfinished", "release"]
    assert everything(config.release.out) == everything(small_release.out)


def test_a_folder_that_appears_during_the_run_is_not_replaced(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config()
    write = releasing._write_summary

    def meanwhile(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        config.release.out.mkdir()
        (config.release.out / "mine.txt").write_text("mine")

    monkeypatch.setattr(releasing, "_write_summary", meanwhile)
    with pytest.raises(ConfigError, match="appeared during the run"):
        run(config)
    assert left_over(config) == [".release.unfinished", "release"]
    assert everything(config.release.out) == {"mine.txt": b"mine"}
    shutil.rmtree(config.release.out)
    assert [check.name for check in verify(resume(config.release.out).public)]


# --- who can read what


def test_permissions(small_release: Release) -> None:
    assert mode(small_release.out / "confidential") == 0o700
    assert mode(small_release.out / "confidential" / "run.json") == 0o600
    assert {mode(path) for path in (small_release.public, small_release.public / "plan")} == {0o755}
    assert {mode(path) for path in small_release.public.rglob("*") if path.is_file()} == {0o644}


def test_no_time_of_a_public_file_tells_how_long_homes_took(
    small_release: Release, micro_releases: dict[str, Release]
) -> None:
    for release in (small_release, micro_releases["csv"]):
        found = {path.stat().st_mtime for path in (release.public, *release.public.rglob("*"))}
        assert found == {datetime.fromisoformat(release.certificate.created).timestamp()}


def test_staging_is_never_open_to_others(small_config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config()
    seen: list[int] = []

    def look() -> None:
        folders = [path for path in config.release.out.parent.iterdir() if path.name.startswith(".")]
        seen.extend(mode(folder) for folder in folders)

    for step in ("save_plan", "sample_release", "write_public", "verify_run", "_write_summary"):
        real = getattr(releasing, step)
        monkeypatch.setattr(releasing, step, lambda *a, _real=real, **k: (look(), _real(*a, **k))[1])
    before = os.umask(0)
    try:
        release = run(config)
    finally:
        os.umask(before)
    assert len(seen) == 5
    assert set(seen) == {0o700}
    assert mode(release.out / "confidential") == 0o700


def hidden_in(folder: Path, secrets: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the files that hold one of the secrets, also when unpacked."""
    for name, data in everything(folder).items():
        texts = [data]
        if name.endswith(".gz"):
            texts.append(gzip.decompress(data))
        if name.endswith(".parquet"):
            table = pq.read_table(folder / name)
            texts.append(table.to_pandas().to_csv().encode() + str(table.schema.metadata).encode())
        yield from ((name, secret) for secret in secrets if any(secret in text for text in texts))


def test_no_public_file_holds_a_canary(
    micro_releases: dict[str, Release], canary: str, microdata: dict[str, Path]
) -> None:
    for form, release in micro_releases.items():
        log = json.loads((release.out / "confidential" / "run.json").read_text())
        jobs = hashlib.sha256(microdata[form].read_bytes()).hexdigest()
        assert log["inputs_sha256"] == {str(microdata[form]): jobs}
        secrets = [canary.encode(), jobs.encode(), str(microdata[form].parent).encode()]
        assert list(hidden_in(release.public, secrets)) == []
        assert list(hidden_in(release.out / "confidential", [canary.encode()])) == []


def test_files_that_everybody_can_read_are_refused(
    small_config: Configs, small_region: dict[str, Path]
) -> None:
    od = small_region["od"]
    before = mode(od)
    od.chmod(0o604)
    try:
        config = small_config()
        with pytest.raises(
            ConfigError, match="everybody on this machine can read the confidential jobs"
        ) as error:
            run(config)
        assert str(od) in str(error.value)
        assert left_over(config) == []
        for read in (pipelines.make_plan, lambda config: pipelines.tune(config, pipelines.Sweep())):
            with pytest.raises(ConfigError, match="everybody on this machine can read"):
                read(small_config())
        run(small_config({"run.world_readable": True}))
    finally:
        od.chmod(before)


def test_the_log_says_what_happened_and_nothing_else(small_config: Configs, canary: str) -> None:
    config = small_config()

    interrupted(config, fault=OSError(28, f"No space left for {canary}", canary))
    release = resume(config.release.out)
    path = release.out / "confidential" / "log.jsonl"
    assert mode(path) == 0o600
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    events = [line["event"] for line in lines]
    assert [event for event in events if event != "step"] == ["began", "failed", "resumed", "finished"]
    assert lines[events.index("failed")]["error"] == "OSError"
    assert canary not in path.read_text(encoding="utf-8")
    log = EventLog(path)
    for event, fields in (("home", {}), ("step", {"home": "1"}), ("step", {"seconds": "440070001001000"})):
        with pytest.raises(ValueError, match="log"):
            log.write(event, **fields)  # type: ignore[arg-type]


def test_the_search_for_canaries_finds_them(microdata: dict[str, Path], canary: str) -> None:
    found = {name for name, _ in hidden_in(microdata["csv"].parent, [canary.encode()])}
    assert found == {"jobs.csv", "jobs.parquet"}


def test_no_public_file_names_a_folder_of_this_machine(small_release: Release) -> None:
    secrets = [str(small_release.out.parent).encode(), str(Path.home()).encode() + b"/", b"/tmp/"]
    assert list(hidden_in(small_release.public, secrets)) == []


def test_the_run_key_is_in_no_file_and_is_destroyed(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = bytes(range(100, 132))
    monkeypatch.setattr(randomness.secrets, "token_bytes", lambda n: raw[:n])
    keys: list[synth.RunKey] = []
    generate = synth.RunKey.generate
    monkeypatch.setattr(synth.RunKey, "generate", lambda: keys.append(generate()) or keys[-1])
    release = run(small_config())
    assert len(keys) == 1
    assert keys[0].secure
    secrets = [raw, raw.hex().encode(), str(list(raw)).encode()]
    assert list(hidden_in(release.out, secrets)) == []
    with pytest.raises(RuntimeError, match="destroyed"):
        keys[0].stream("urn", 0)


def test_the_key_is_destroyed_after_a_failure_too(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = synth.RunKey.from_seed(1)
    failing(releasing, "write_public", FULL, monkeypatch)
    with pytest.raises(OSError, match="No space"):
        run(small_config(), key=key)
    with pytest.raises(RuntimeError, match="destroyed"):
        key.stream("urn", 0)


def test_every_step_is_reported_and_noted_by_its_name(small_config: Configs, said: Said) -> None:
    counted: list[tuple[int, int]] = []
    config = small_config({"run.batch_jobs": 100})
    release = run(config, progress=lambda *parts: counted.append(parts))
    begun = said.steps
    assert [each.step for each in begun] == list(RUN_STEPS)
    assert [each.number for each in begun] == list(range(1, 9))
    assert [each.of for each in begun] == [None] * 3 + [8] * 5  # the plan says how many there are
    parts = len(batches(release.plan, 100))
    assert parts > 1
    drawn = [(done, parts) for done in range(parts + 1)]
    begin = next(i for i in range(len(counted)) if counted[i : i + len(drawn)] == drawn)
    planned, described = counted[:begin], counted[begin + len(drawn) :]
    assert described[-1][0] == described[-1][1], "draws of the true numbers are counted too"
    begin = planned.index((0, planned[-1][1]))
    classes, tried = planned[:begin], planned[begin:]  # that were calibrated; and the plan, in parts
    assert classes == [(done, len(classes)) for done in range(1, len(classes) + 1)]
    assert tried == [(done, len(tried) - 1) for done in range(len(tried))]
    assert len(said) == len(RUN_STEPS) == 8
    assert all(line.endswith(" ...") for line in said)
    assert "Drawing 600 synthetic workers ..." in said
    confidential = release.out / "confidential"
    summary = json.loads((confidential / "run.json").read_text())
    assert [Step(name) for name in summary["seconds"]] == list(RUN_STEPS)
    lines = map(json.loads, (confidential / "log.jsonl").read_text().splitlines())
    noted = [Step(line["step"]) for line in lines if line["event"] == "step"]
    assert noted == [
        Step.DRAW,
        Step.WRITE,
        Step.DESCRIBE,
        Step.CHECK,
    ]  # the log begins when the run has been paid for
