"""Commutes of an area: whose they are, how long, in which direction."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from geo_data.distance import distance_km
from pipelines import PublicRelease, PublicReleaseError
from pipelines.views.commutes import add_travel, area_block_flows, find_area
from pipelines.views.labels import unit_names

pytestmark = pytest.mark.quick

BLOCK = "tabblk2010"


def test_an_area_is_found_at_its_level(release: PublicRelease) -> None:
    for level in release.levels:
        codes = release.geography.codes(level)
        area = find_area(release, codes[-1])
        assert (area.level, area.unit, area.code) == (level, len(codes) - 1, codes[-1])


def test_an_area_that_is_not_there(release: PublicRelease) -> None:
    code = release.geography.codes("trct")[0].lstrip("0")
    with pytest.raises(PublicReleaseError, match=f"there is no area '{code}' at any level .* leading zeros"):
        find_area(release, code)


def test_an_area_is_asked_for_by_name(release: PublicRelease) -> None:
    name, code = unit_names(release, "cty")[0], release.geography.codes("cty")[0]
    with pytest.raises(PublicReleaseError, match=f"not the code of an area. Fix: .*{code}"):
        find_area(release, name)


def test_flows_of_an_area_are_its_part_of_all_flows(release: PublicRelease) -> None:
    every = release.unit_flows(BLOCK, BLOCK, ["SE01"]).rename(columns={"SE01": "jobs"})
    every = every[every["jobs"] > 0]
    ends = (("workers", "work"), ("residents", "home"))
    for level, (of, end) in itertools.product(("st", "cty", "trct", "bgrp", BLOCK), ends):
        busiest = release.geography.unit_of(level, every["work"]).max()
        area = find_area(release, release.geography.codes(level)[busiest])
        flows = area_block_flows(release, area, of, "SE01")  # type: ignore[arg-type]
        own = every[release.geography.unit_of(level, every[end]) == busiest]
        assert len(own) or level == BLOCK
        pd.testing.assert_frame_equal(
            flows.sort_values(["work", "home"], ignore_index=True), own.reset_index(drop=True)
        )


def test_without_an_area_all_are_meant(release: PublicRelease) -> None:
    assert area_block_flows(release, None)["jobs"].sum() == 600


def test_a_count_that_is_not_there(release: PublicRelease) -> None:
    for area in (None, find_area(release, release.geography.codes("st")[0])):
        with pytest.raises(PublicReleaseError, match="there is no count 'S999'; there are: S000"):
            area_block_flows(release, area, count="S999")


def test_distance_and_directions() -> None:
    places = pd.DataFrame({"latitude": [53.8, 53.9, np.nan], "longitude": [-1.5, -1.5, np.nan]})
    flows = pd.DataFrame({"work": [0, 1, 0, 0], "home": [1, 0, 0, 2], "jobs": [4, 3, 2, 1]}, dtype="int32")
    travel = add_travel(flows, places, places)
    assert travel["jobs"].tolist() == [4, 3, 2, 1]
    tenth = distance_km(53.8, -1.5, 53.9, -1.5)
    np.testing.assert_allclose(travel["km"], [tenth, tenth, 0, np.nan])
    np.testing.assert_allclose(travel["to_home"], [0, 180, np.nan, np.nan])
    np.testing.assert_allclose(travel["to_work"], [180, 0, np.nan, np.nan])


def test_homes_and_workplaces_may_be_of_different_levels(release: PublicRelease) -> None:
    flows = release.unit_flows("trct", "cty")
    homes, works = release.places("trct"), release.places("cty")
    travel = add_travel(flows, homes, works)
    row = travel.iloc[-1]
    home, work = homes.iloc[int(row["home"])], works.iloc[int(row["work"])]
    km = distance_km(home["latitude"], home["longitude"], work["latitude"], work["longitude"])
    assert row["km"] == pytest.approx(km)
