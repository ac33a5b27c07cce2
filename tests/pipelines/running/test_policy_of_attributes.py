"""Releases that protect homes together with attributes: what is drawn, and what nothing else depends on."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from pipelines import ConfigError, PublicReleaseError, Release, plan, run
from pipelines.release.description import file_names
from pipelines.service.public.preparation import Prepared, prepare
from pipelines.service.queue.comparisons import Variation, varied
from pipelines.views.exports.exporting import FORMATS

from .forgeries import AGES
from .helpers import Configs, everything, seeded
from .kinds import KIND, NOISE, config_of, secret

OF_ATTRIBUTES = pytest.mark.parametrize("name", ["secret", "secret by noise", "all secret"])
Released = Callable[[str], Release]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    KIND["secret by noise"].choose(monkeypatch)


def jobs_of(release: Release, below: str = "") -> pd.DataFrame:
    return pd.read_parquet(release.public / below / file_names(release.plan.config)["jobs_parquet"])


def counted(jobs: pd.DataFrame, *by: str) -> pd.Series:
    return jobs.groupby(list(by)).size().sort_index()


@OF_ATTRIBUTES
def test_posterior_draws_have_categories_of_what_is_secret(
    name: str, released: Released, tmp_path: Path
) -> None:
    release = released(name)
    files = release.write_intervals(tmp_path / name, draws=19)
    opened = pipelines.open_release(release.public).draws(files["draws"])
    draws = [str(i + 1) for i in range(19)]
    every = opened.implicates("trct", "tabblk2010", opened.attributes)
    assert set(opened.attributes) >= {"age", "sector"}
    assert set(every["age"]) == set(AGES)
    # What is public of a job is as the release has it; sums over what is secret are those without it.
    public = [one for one in opened.attributes if one not in release.plan.policy.secret]
    totals = every.groupby(["work", *public])[draws].sum()
    jobs = jobs_of(release, release.plan.implicates.folders[0]).rename(columns={"w_geocode": "work"})
    assert (totals.to_numpy() == counted(jobs, "work", *public).to_numpy()[:, np.newaxis]).all(), name
    for by in ((), ("age",), ("sector", "age"), ("age", "sector")):
        found = opened.implicates("trct", "tabblk2010", by).set_index(["home", "work", *by])[draws]
        sums = every.groupby(["home", "work", *by])[draws].sum()
        assert found.sort_index().equals(sums), (name, by)
    with pytest.raises(PublicReleaseError, match="as secret as homes, and a map "):
        release.map(tmp_path / f"{name}.html", intervals=files["draws"])
    prepare(release.public, shown := Prepared(tmp_path / f"{name}-cache", files["draws"]))
    assert shown.figures.is_file(), "a service has a map without them"
    by_age = opened.flows("cty", None, "age")
    assert (by_age["high"] > by_age["low"]).all(), name


@OF_ATTRIBUTES
def test_every_table_is_by_what_is_secret(name: str, released: Released) -> None:
    release = released(name)
    numeric, copies = release.plan.numeric, 6 if name == "all secret" else 3
    n_blocks = release.plan.geography.n_blocks
    for domains in (numeric.domains, *(table.domains for table in numeric.secondary)):
        assert domains.n_blocks == copies * n_blocks
        for own in np.split(domains.cuts, domains.offsets[1:-1]):
            assert {*range(0, copies * n_blocks, n_blocks)} <= {*own.tolist()}, "of one category each"
            assert np.unique(own % n_blocks).size * copies == own.size, "the same in every copy"


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
        text = config_text(microdata_jobs(str(file)), NOISE, secret(age=AGES))
        config = pipelines.parse_config(text, tmp_path / name, "policy.toml")
        found.append(everything(seeded(config).public))
    one, two, again = found
    assert one == again
    differ = {name for name in one if one[name] != two[name]}
    assert one.keys() == two.keys()
    data = {name for name in one if name.startswith(("demo_od", "demo_jobs", "measurements/"))}
    assert data <= differ
    of_noisy_counts, of_checksums = {"accuracy.json", "README.md"}, {"MANIFEST.json", "SHA256SUMS"}
    assert differ - data <= of_noisy_counts | of_checksums | {"datapackage.json", "croissant.json"}


def test_what_reads_a_release_finds_the_drawn_attribute(released: Released, tmp_path: Path) -> None:
    release = released("secret by noise")
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
    of = {kind: lost[f"workload_{kind}", "residents of trct by age"] for kind in ("loss", "no_privacy")}
    assert 0 <= of["no_privacy"] < of["loss"] < 0.5
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
    config = paid_config({"privacy.epsilon": "2"}, jobs, NOISE, secret(age=AGES[:2]))
    assert plan(config).plan.categories["age"] == tuple(AGES[:2]), "planning does not look"
    with pytest.raises(geo_data.InputError, match="rows have another category than the configuration lists"):
        run(config)
    config = paid_config(jobs, secret(age=AGES))
    with pytest.raises(ConfigError, match="an earlier release does not tell which category"):
        pipelines.tune(config, pipelines.Sweep(), proxy_truth=tmp_path / "od.csv")
    assert not book.exists()
    one, other = (paid_config(jobs, secret(age=ages)) for ages in (AGES, AGES[::-1]))
    assert one.public == other.public


def test_what_tune_tries_and_recommends_has_the_same_secret_attributes(released: Released) -> None:
    """In the service a row of a comparison becomes a run: under "full" it would publish them exactly."""
    config = config_of(released("secret by noise"))
    results = pipelines.tune(config, pipelines.Sweep(epsilon=("8.6",), split_threshold=("4",)))
    recommended = tomllib.loads(pipelines.recommend(results, config))["privacy"]["protects"]
    assert recommended == ["home", "age"]
    with pytest.raises(ConfigError, match=r'pool_by: "age" is secret by privacy\.protects'):
        pipelines.Sweep(pool_by=("age",)).configurations(config)
    row = {"number": 0, "epsilon": "2"}
    assert varied(config, Variation(epsilon=("2",)), row).privacy.policy == config.privacy.policy
