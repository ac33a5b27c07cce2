"""Evaluation of releases of other kinds: external zones, and the real zones of Leeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
import synth
from pipelines.plans.utility import mean_commute

LEEDS = Path(__file__).resolve().parents[4] / "examples" / "leeds.toml"


def only(measures: pd.DataFrame, name: str, level: str, group: str = "all") -> float:
    keys = (measures["measure"] == name) & (measures["level"] == level) & (measures["group"] == group)
    return float(measures.loc[keys, "value"].item())


def test_workers_from_external_zones_are_counted(
    zoned_release: pipelines.Release, zoned_config: Path, tmp_path: Path
) -> None:
    measures = zoned_release.evaluate(zoned_config, tmp_path / "closed")
    geography = zoned_release.plan.geography
    block = geography.block_level
    assert only(measures, "workplace_variation", block) == 0
    assert 0 < only(measures, "residence_variation", "st") < 0.2
    # Means are over those whose home has a place, as in the measure that compares jobs one by one.
    public = pipelines.open_release(zoned_release.public)
    flows = public.unit_flows(block, block)
    homes, work = (np.repeat(flows[side], flows["S000"]).to_numpy() for side in ("home", "work"))
    assert geography.is_external(homes).any()
    expected = mean_commute(geography, work, homes)
    assert only(measures, "mean_commute_release", block) == pytest.approx(expected)
    zoned_release.evaluate_public([zoned_config], tmp_path / "open")
    page = (tmp_path / "open" / "report.html").read_text(encoding="utf-8")
    assert "left out of all measures of commutes" in page
    assert "Distances of all jobs" not in page


def test_one_file_is_not_the_truth_of_two(zoned_release: pipelines.Release, zoned_config: Path) -> None:
    with pytest.raises(geo_data.InputError, match="workers who live in external zones"):
        zoned_release.evaluate(zoned_config.parent / "main.csv.gz")


def test_one_file_of_two_is_not_public(
    zoned_release: pipelines.Release, zoned_config: Path, tmp_path: Path
) -> None:
    """Not even in other bytes: its totals are below those of the release, and nowhere above."""
    jobs = pd.read_csv(zoned_config.parent / "main.csv.gz", dtype={"w_geocode": "str", "h_geocode": "str"})
    jobs.to_csv(tmp_path / "main.csv", index=False)
    with pytest.raises(geo_data.InputError, match="or a part of them"):
        zoned_release.evaluate_public([tmp_path / "main.csv"])
    released = zoned_release.public / "demo_od_main_JT00_2019.csv.gz"
    zoned_release.evaluate_public([released], tmp_path / "open")


@pytest.mark.slow
def test_leeds(shared_data: Path, clean_source: object, tmp_path: Path) -> None:
    # With a seed: now and then the noise of a large cell is seen by many of the queries.
    config = pipelines.load_config(LEEDS).with_out(tmp_path / "release")
    release = pipelines.run(config, key=synth.RunKey.from_seed(1))
    measures = release.evaluate(LEEDS)
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
