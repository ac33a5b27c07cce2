"""Leeds 2011: other codes, one level of zones, no earlier flows; planned and run from its configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pipelines
from geo_data.pools import group_records
from pipelines import Release, run, verify
from pipelines.planning.public_inputs import job_source
from pipelines.plans.utility import mean_commute, total_variation

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CONFIG = EXAMPLES / "leeds.toml"


@pytest.fixture(scope="module")
def release(shared_data: Path, clean_source: object, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return run(pipelines.load_config(CONFIG).with_out(tmp_path_factory.mktemp("leeds") / "release"))


def test_every_commute_is_there(release: Release, shared_data: Path) -> None:
    truth = pd.read_csv(shared_data / "leeds_2011" / "leeds_msoa_od_2011.csv")
    od = pd.read_csv(release.public / "leeds_od_main_JT01_2011.csv.gz", dtype={"createdate": "str"})
    assert od["S000"].sum() == truth["all"].sum() == 236_326
    totals = truth.groupby("geo_code2")["all"].sum().astype(int)
    pd.testing.assert_series_equal(
        od.groupby("w_geocode")["S000"].sum(), totals[totals > 0], check_names=False
    )


def test_it_verifies_within_its_budget(release: Release) -> None:
    assert [check.name for check in verify(release.public)][-1] == "for release"
    assert release.plan.geography.levels == ("district", "quarter")
    assert release.plan.geography.n_units("district") == 5
    assert release.plan.geography.n_units("quarter") == 20


def test_it_is_useful(release: Release) -> None:
    """Closer to the truth than what is public is, and not the truth itself."""
    plan, geography = release.plan, release.plan.geography
    work = plan.pools.slots.work
    source = job_source(pipelines.load_config(CONFIG), geography)
    true = group_records(plan.pools, geography, source.records())
    found = synthetic_homes(release)
    zones = total_variation(geography, "geo_code", work, true, found)
    assert 0.01 < zones < 0.12
    assert mean_commute(geography, work, found) == pytest.approx(
        mean_commute(geography, work, true), rel=0.01
    )


def test_every_zone_has_its_shape_and_the_centre_its_figure(release: Release, tmp_path: Path) -> None:
    public = pipelines.open_release(release.public)
    shapes = public.polygons("geo_code")
    assert shapes is not None
    assert shapes["unit"].tolist() == list(range(107))
    places = public.places("geo_code")
    points = type(shapes.geometry).from_xy(places["longitude"], places["latitude"], crs=shapes.crs)
    assert shapes.contains(points).mean() > 0.95  # of centroids of people, not of land
    public.figure(tmp_path / "leeds.svg", area="E02006875")
    text = (tmp_path / "leeds.svg").read_text(encoding="utf-8")
    name = public.names["geo_code"][public.geography.unit_number("geo_code", ["E02006875"])[0]]
    assert name.startswith("Leeds ")
    assert f"Where the workers of {name} (geo code E02006875) live" in text


def synthetic_homes(release: Release) -> np.ndarray:
    """Synthetic homes in the order of the plan's slots, from the released pairs."""
    geography = release.plan.geography
    od = pd.read_csv(release.public / "leeds_od_main_JT01_2011.csv.gz")
    work = np.repeat(geography.number(od["w_geocode"]), od["S000"])
    home = np.repeat(geography.number(od["h_geocode"]), od["S000"])
    order = np.argsort(work, kind="stable")
    result = np.empty_like(home)
    result[np.argsort(release.plan.pools.slots.work, kind="stable")] = home[order]
    return result
