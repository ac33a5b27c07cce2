"""How far flows go, and in which direction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from geo_data.distance import distance_km
from pipelines import Release
from pipelines.views.travel import add_travel

pytestmark = pytest.mark.quick


def test_distance_and_directions() -> None:
    places = pd.DataFrame({"latitude": [53.8, 53.9, np.nan], "longitude": [-1.5, -1.5, np.nan]})
    flows = pd.DataFrame({"work": [0, 1, 0, 0], "home": [1, 0, 0, 2], "jobs": [4, 3, 2, 1]}, dtype="int32")
    travel = add_travel(flows, places, places)
    assert travel["jobs"].tolist() == [4, 3, 2, 1]
    tenth = distance_km(53.8, -1.5, 53.9, -1.5)
    np.testing.assert_allclose(travel["km"], [tenth, tenth, 0, np.nan])
    np.testing.assert_allclose(travel["to_home"], [0, 180, np.nan, np.nan])
    np.testing.assert_allclose(travel["to_work"], [180, 0, np.nan, np.nan])


def test_homes_and_workplaces_may_be_of_different_levels(release: Release) -> None:
    flows = release.unit_flows("trct", "cty")
    homes, works = release.places("trct"), release.places("cty")
    travel = add_travel(flows, homes, works)
    row = travel.iloc[-1]
    home, work = homes.iloc[int(row["home"])], works.iloc[int(row["work"])]
    km = distance_km(home["latitude"], home["longitude"], work["latitude"], work["longitude"])
    assert row["km"] == pytest.approx(km)
