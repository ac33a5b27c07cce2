"""Releases that protect homes together with attributes: what is drawn, and what nothing else depends on."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from helpers import same_key
from pipelines import ConfigError, Release, plan
from pipelines.drawing.workplaces import estimate_again, estimate_slots, slots_fit, slots_fit_again
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.plans.plan import Choices
from pipelines.release.certificate import secret_in_words
from pipelines.release.description import file_names
from pipelines.release.intervals import N_DRAWS
from pipelines.service.queue.comparisons import Variation, varied
from pipelines.views.exports.exporting import FORMATS
from pipelines.views.intervals import job_errors
from pipelines.views.intervals.evidence import JobDraws

from .forgeries import AGES
from .helpers import Configs, but_for_the_input, everything, seeded
from .kinds import KIND, OF_CATEGORIES, config_of, measured, secret
from .test_records import counts_of

OF_ATTRIBUTES = pytest.mark.parametrize("name", ["secret", "all secret", "secret resampled"])
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
    """Jobs by workplace and secret attributes; others are exact."""
    release = released(name)
    files = release.write_intervals(tmp_path / name)
    secret = {*release.plan.policy.secret}
    for words, path in files.items():
        if words != "read-me":
            table = pd.read_csv(path)
            assert secret & {*table.columns}, words
            assert (table["high"] > table["low"]).all()
    assert len(files) > 1
    words = files["read-me"].read_text(encoding="utf-8")
    assert "Whole records" not in words
    assert f"by {secret_in_words(release.certificate.policy)} is protected" in words


def test_draws_have_the_public_jobs_also_where_every_category_is_drawn_0(
    released: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released("secret")
    jobs = JobDraws(release, N_DRAWS, same_key(), lambda *_: None)
    monkeypatch.setattr(job_errors, "draws_of_jobs", lambda n, _, draws, __: np.zeros((draws, n.size)))
    errors = job_errors.JobErrors(release, jobs, same_key())
    assert (errors.factors(release.geography.block_level, ()).of(jobs.work, ()) == 1).all()


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


CHOICES = [
    Choices("trct", 1, (), by, "trct", tables, OF_CATEGORIES)
    for by in ((), ("age",), ("age", "sector"))
    for tables in ((), (measured("trct", "age"),), (measured("cty", "age", "sector"),))
]
CHOICES.append(Choices("bgrp", 3, (), ("age",), "trct", (), OF_CATEGORIES))


@pytest.mark.parametrize("seed", range(36))
def test_categories_add_up_to_public_numbers_and_fill_every_group_whatever_is_counted(
    seed: int, small_config: Configs, microdata_jobs: Callable[..., Any]
) -> None:
    config = small_config(microdata_jobs("parquet"), secret(age=AGES))
    random, inputs = np.random.default_rng(seed), read_public_inputs(config)
    some = np.sort(random.permutation(len(inputs.slots))[: (600, 60, 9)[seed % 3]])
    made = assemble(
        config, inputs, inputs.slots.take(some), CHOICES[seed % len(CHOICES)], config.privacy.delta
    )
    of_work = [
        random.integers(-scale, scale + 1, int(table.offsets[-1]))
        for table, scale in zip(made.numeric.workplaces, ([1, 30, 1000][seed % 3], 1000), strict=True)
    ]
    public = made.pools.slots.without(["age"])
    first = estimate_slots(made, of_work)
    grouped = made.with_slots(first)
    homes = random.integers(0, made.geography.n_blocks, len(first)).astype(np.int32)
    counts = counts_of(grouped, geo_data.JobRecords(first.work, homes, first.attributes))
    noise = [1, 30, 1000][seed // 3 % 3]
    of_homes = [n + random.integers(-noise, noise + 1, n.size) for n in counts[len(of_work) :]]
    again = estimate_again(made, of_work, grouped, of_homes)
    for slots in (first, again):
        for one, other in zip(slots.without(["age"]).counted(), public.counted(), strict=True):
            assert np.array_equal(getattr(one, "work", one), getattr(other, "work", other))
    sized = grouped.with_jobs(again)
    for before, after in zip(
        (grouped.pools, *grouped.secondary), (sized.pools, *sized.secondary), strict=True
    ):
        table, same = (getattr(one, "table", one) for one in (before, after))
        assert table.n.shape == same.n.shape
        assert same.n.min() >= 1
    assert slots_fit(made, of_work, first)
    assert slots_fit_again(made, of_work, grouped, of_homes, again)
    moved = ((again.attributes["age"] + 1) % len(AGES)).astype(np.uint8)
    forged = replace(again, attributes={**again.attributes, "age": moved}).sorted()
    assert not slots_fit_again(made, of_work, grouped, of_homes, forged)


@pytest.mark.parametrize("kind", ["secret", "secret resampled"])
def test_a_secret_column_changes_the_draw_and_nothing_else(
    kind: str,
    config_text: Callable[..., str],
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Any],
    tmp_path: Path,
    frozen_day: object,
    clean_source: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plan and words, but for accuracy and the root of the input, are made without it, byte for byte."""
    KIND[kind].choose(monkeypatch)
    table = pd.read_parquet(microdata["parquet"])
    found: list[dict[str, bytes]] = []
    for name, ages in (("one", table["age"]), ("two", "old"), ("again", table["age"])):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "jobs.parquet"
        table.assign(age=ages).astype("str").to_parquet(file, index=False)
        text = config_text(microdata_jobs(str(file)), KIND[kind].changes)
        config = pipelines.parse_config(text, tmp_path / name, "policy.toml")
        found.append(everything(seeded(config).public))
    one, two, again = found
    assert one == again
    for files in (one, two):
        files["certificate.json"] = but_for_the_input(files["certificate.json"])
    differ = {name for name in one if one[name] != two[name]}
    assert one.keys() == two.keys()
    of_data = ("demo_od", "demo_jobs", "measurements/", "intervals", "areas", "flows")
    data = {name for name in one if name.startswith(of_data)}
    assert data - {"measurements/table-1.parquet"} <= differ, "pools are not by it"
    of_noisy_counts, of_checksums = (
        {"accuracy.json", "README.md", "details.md"},
        {"MANIFEST.json", "SHA256SUMS"},
    )
    of_records = {"datapackage.json", "croissant.json", "dcat-ap.jsonld"}
    assert differ - data <= of_noisy_counts | of_checksums | of_records


@pytest.mark.parametrize("kind", ["secret", "secret resampled"])
def test_a_category_that_is_not_listed_is_counted_in_public_numbers_alone(
    kind: str, small_config: Configs, microdata_jobs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has it: the jobs of each work block and public category are those of all records."""
    KIND[kind].choose(monkeypatch)
    config = small_config(microdata_jobs("parquet"), KIND[kind].changes | secret({}, age=AGES[:2]))
    release = pipelines.run(config)
    assert release.certificate.totals.records == sum(release.plan.pools.n)
    assert {*jobs_of(release)["age"]} <= {*AGES[:2]}


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
    with pytest.raises(geo_data.InputError, match="cannot be the truth of a release that protects"):
        pipelines.open_release(out).evaluate(tmp_path / "od.csv", tmp_path / "other")
    text = (beside / "kind.toml").read_text(encoding="utf-8")
    assert '"young"' in text
    (tmp_path / "other.toml").write_text(text.replace('"young"', '"new"'), encoding="utf-8")
    with pytest.raises(geo_data.InputError, match=r"privacy\.protects names other attributes"):
        pipelines.open_release(out).evaluate(tmp_path / "other.toml", tmp_path / "other")


def test_what_cannot_be_secret_is_refused_before_anything_is_paid(
    paid_config: Configs, book: Path, microdata_jobs: Callable[..., Any], tmp_path: Path, chosen: object
) -> None:
    jobs = microdata_jobs("parquet")
    config = paid_config({"privacy.epsilon": "2"}, jobs, secret(age=AGES[:2]))
    assert plan(config).plan.pools.slots.categories["age"] == tuple(AGES[:2]), "planning does not look"
    config = paid_config(jobs, secret(age=AGES))
    with pytest.raises(ConfigError, match="an earlier release does not tell the home and"):
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
