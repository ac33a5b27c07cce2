"""Releases that protect homes together with attributes: what is drawn, and what nothing else depends on."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import geo_data
import pipelines
from pipelines import ConfigError, Release, plan
from pipelines.release.description import file_names
from pipelines.service.queue.comparisons import Variation, varied
from pipelines.views.exports.exporting import FORMATS

from .forgeries import AGES
from .helpers import Configs, everything, seeded
from .kinds import KIND, config_of, secret

OF_ATTRIBUTES = pytest.mark.parametrize("name", ["secret", "all secret"])
Released = Callable[[str], Release]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    KIND["secret"].choose(monkeypatch)


def jobs_of(release: Release, below: str = "") -> pd.DataFrame:
    return pd.read_parquet(release.public / below / file_names(release.plan.config)["jobs_parquet"])


def counted(jobs: pd.DataFrame, *by: str) -> pd.Series:
    return jobs.groupby(list(by)).size().sort_index()


@OF_ATTRIBUTES
def test_intervals_are_of_what_is_estimated(name: str, released: Released, tmp_path: Path) -> None:
    """Jobs by workplace and secret attributes; others are exact, and homes have none yet."""
    release = released(name)
    files = release.write_intervals(tmp_path / name)
    secret = {*release.plan.policy.secret}
    for words, path in files.items():
        if words != "read-me":
            table = pd.read_csv(path)
            assert secret & {*table.columns}, words
            assert (table["high"] > table["low"]).all()
    assert len(files) > 1


@OF_ATTRIBUTES
def test_other_attributes_are_exact_at_workplaces_and_secret_ones_are_drawn(
    name: str, released: Released, microdata: dict[str, Path]
) -> None:
    release = released(name)
    true = pd.read_parquet(microdata["parquet"]).rename(columns={"toil": "w_geocode", "live": "h_geocode"})
    public = [] if name == "all secret" else ["sector"]
    for below in release.plan.implicates.folders:
        jobs = jobs_of(release, below)
        assert list(jobs.columns) == ["w_geocode", "h_geocode", "age", "sector"]
        assert counted(jobs, "w_geocode", *public).equals(counted(true, "w_geocode", *public))
        assert {*jobs["age"]} <= {*AGES}
        for kind in {"age", "sector"} - {*public}:
            assert not counted(jobs, "w_geocode", kind).equals(counted(true, "w_geocode", kind)), name


def test_a_secret_column_changes_the_draw_and_nothing_else(
    config_text: Callable[..., str],
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Any],
    tmp_path: Path,
    frozen_day: object,
    clean_source: object,
    chosen: object,
) -> None:
    """The plan, and all that is said of the release but its accuracy, are made without it, byte for byte."""
    table = pd.read_parquet(microdata["parquet"])
    found: list[dict[str, bytes]] = []
    for name, ages in (("one", table["age"]), ("two", "old"), ("again", table["age"])):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "jobs.parquet"
        table.assign(age=ages).astype("str").to_parquet(file, index=False)
        text = config_text(microdata_jobs(str(file)), secret(age=AGES))
        config = pipelines.parse_config(text, tmp_path / name, "policy.toml")
        found.append(everything(seeded(config).public))
    one, two, again = found
    assert one == again
    differ = {name for name in one if one[name] != two[name]}
    assert one.keys() == two.keys()
    data = {name for name in one if name.startswith(("demo_od", "demo_jobs", "measurements/"))}
    assert data - {"measurements/table-1.parquet"} <= differ, "pools are not by it"
    of_noisy_counts, of_checksums = {"accuracy.json", "README.md"}, {"MANIFEST.json", "SHA256SUMS"}
    assert differ - data <= of_noisy_counts | of_checksums | {"datapackage.json", "croissant.json"}


def test_what_reads_a_release_finds_the_drawn_attribute(released: Released, tmp_path: Path) -> None:
    release = released("secret")
    jobs = jobs_of(release)
    release.export([name for name in FORMATS if name != "pmtiles"], tmp_path / "exports")
    opened = pipelines.open_release(release.public)
    flows = opened.unit_flows("trct", "trct", [f"age_{age}" for age in AGES])
    assert flows[[f"age_{age}" for age in AGES]].sum().tolist() == [
        int((jobs["age"] == a).sum()) for a in AGES
    ]
    out, beside = release.out, release.out.parent
    measures = pipelines.open_release(out).evaluate(beside / "kind.toml", tmp_path / "evaluation")
    lost = measures.set_index(["measure", "level"])["value"]
    assert 0 < lost["workload_loss", "residents of trct by age"] < 0.5
    with pytest.raises(geo_data.InputError, match="is not the truth of this release, whose policy protects"):
        pipelines.open_release(out).evaluate(tmp_path / "od.csv", tmp_path / "other")
    text = (beside / "kind.toml").read_text(encoding="utf-8")
    assert '"young"' in text
    (tmp_path / "other.toml").write_text(text.replace('"young"', '"new"'), encoding="utf-8")
    with pytest.raises(geo_data.InputError, match=r"privacy\.protects has other attributes"):
        pipelines.open_release(out).evaluate(tmp_path / "other.toml", tmp_path / "other")


def test_what_cannot_be_secret_is_refused_before_anything_is_paid(
    paid_config: Configs, book: Path, microdata_jobs: Callable[..., Any], tmp_path: Path, chosen: object
) -> None:
    jobs = microdata_jobs("parquet")
    config = paid_config({"privacy.epsilon": "2"}, jobs, secret(age=AGES[:2]))
    assert plan(config).plan.pools.slots.categories["age"] == tuple(AGES[:2]), "planning does not look"
    config = paid_config(jobs, secret(age=AGES))
    with pytest.raises(ConfigError, match="an earlier release does not tell which category"):
        pipelines.tune(config, pipelines.Sweep(), proxy_truth=tmp_path / "od.csv")
    assert not book.exists()
    one, other = (paid_config(jobs, secret(age=ages)) for ages in (AGES, AGES[::-1]))
    assert one.public == other.public


def test_what_tune_tries_and_recommends_has_the_same_secret_attributes(released: Released) -> None:
    """In the service a row of a comparison becomes a run: under "full" it would publish them exactly."""
    config = config_of(released("secret"))
    results = pipelines.tune(config, pipelines.Sweep(epsilon=("8.6",), split_threshold=("4",)))
    recommended = tomllib.loads(pipelines.recommend(results, config))["privacy"]["protects"]
    assert recommended == ["home", "age"]
    row = {"number": 0, "epsilon": "2"}
    assert varied(config, Variation(epsilon=("2",)), row).privacy.policy == config.privacy.policy
