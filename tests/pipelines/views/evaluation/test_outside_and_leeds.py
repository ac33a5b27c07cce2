"""Evaluation of releases of other kinds: workers who live outside, and the real zones of Leeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines

LEEDS = Path(__file__).resolve().parents[4] / "examples" / "leeds.toml"


def only(measures: pd.DataFrame, name: str, level: str, group: str = "all") -> float:
    keys = (measures["measure"] == name) & (measures["level"] == level) & (measures["group"] == group)
    return float(measures.loc[keys, "value"].item())


@pytest.fixture
def with_outside(
    config_text: Callable[..., str], small_region: dict[str, Path], clean_source: object, tmp_path: Path
) -> tuple[pipelines.Release, Path]:
    """A release of the small region, a fifth of whose workers live elsewhere, and its configuration."""
    jobs = pd.read_csv(
        small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str", "createdate": "str"}
    )
    moved = np.arange(len(jobs)) % 5 == 0
    aux = jobs[moved].copy()
    aux["h_geocode"] = np.where(np.arange(len(aux)) % 3, "25", "09") + aux["h_geocode"].str[2:]
    jobs[~moved].to_csv(tmp_path / "main.csv.gz", index=False)
    aux.to_csv(tmp_path / "aux.csv.gz", index=False)
    files = f'file = "{tmp_path / "main.csv.gz"}"\naux = "{tmp_path / "aux.csv.gz"}"\n'
    text = config_text(
        (f'file = "{small_region["od"]}"\n', files),
        ('longitude = "blklondd"\n', 'longitude = "blklondd"\noutside = ["09", "25"]\n'),
    )
    config = tmp_path / "outside.toml"
    config.write_text(text, encoding="utf-8")
    return pipelines.run(pipelines.load_config(config)), config


def test_who_lives_outside_is_counted(with_outside: tuple[pipelines.Release, Path]) -> None:
    release, config = with_outside
    measures = pipelines.evaluate(release.out, config)
    geography = release.plan.geography
    block = geography.block_level
    assert only(measures, "workplace_variation", block) == 0
    assert 0 < only(measures, "residence_variation", "st") < 0.2
    # Means are over those whose home has a place, as in the measure that compares jobs one by one.
    public = pipelines.read_public_release(release.public)
    flows = public.flows(block, block)
    homes, work = (np.repeat(flows[side], flows["S000"]).to_numpy() for side in ("home", "work"))
    assert geography.is_external(homes).any()
    expected = pipelines.mean_commute(geography, work, homes)
    assert only(measures, "mean_commute_release", block) == pytest.approx(expected)
    pipelines.evaluate_public(release.out, [config])


def test_one_file_is_not_the_truth_of_two(with_outside: tuple[pipelines.Release, Path]) -> None:
    release, config = with_outside
    with pytest.raises(geo_data.InputError, match="workers who live outside"):
        pipelines.evaluate(release.out, config.parent / "main.csv.gz")


def test_one_file_of_two_is_not_public(with_outside: tuple[pipelines.Release, Path]) -> None:
    """Not even in other bytes: its totals are below those of the release, and nowhere above."""
    release, config = with_outside
    jobs = pd.read_csv(config.parent / "main.csv.gz", dtype={"w_geocode": "str", "h_geocode": "str"})
    jobs.to_csv(config.parent / "main.csv", index=False)
    with pytest.raises(geo_data.InputError, match="or a part of them"):
        pipelines.evaluate_public(release.out, [config.parent / "main.csv"])
    pipelines.evaluate_public(release.out, [release.public / "demo_od_main_JT00_2019.csv.gz"])


@pytest.mark.slow
def test_leeds(shared_data: Path, clean_source: object, tmp_path: Path) -> None:
    release = pipelines.run(pipelines.load_config(LEEDS).with_out(tmp_path / "release"))
    measures = pipelines.evaluate(release.out, LEEDS)
    zone = "geo_code"
    truth = pd.read_csv(shared_data / "leeds_2011" / "leeds_msoa_od_2011.csv").rename(columns={"all": "true"})
    found = pd.read_parquet(release.public / "leeds_od_main_JT01_2011.parquet", columns=None)
    both = truth.merge(
        found, left_on=["geo_code1", "geo_code2"], right_on=["h_geocode", "w_geocode"], how="outer"
    )
    both = both[["true", "S000"]].fillna(0)
    distance = (both["true"] - both["S000"]).abs().sum() / 2 / both["true"].sum()
    assert only(measures, "total_variation", zone) == pytest.approx(distance)
    assert 0.01 < distance < 0.12
    lost = (both["true"] > 0) & (both["S000"] == 0)
    assert only(measures, "lost_pairs", zone) == pytest.approx(lost.sum() / (both["true"] > 0).sum())
    assert only(measures, "mean_commute_reference", zone) == pytest.approx(5.47, abs=0.01)
    assert only(measures, "earth_movers_distance", zone) < 0.3
    assert only(measures, "query_share", zone, "rho 1") > 0.9
