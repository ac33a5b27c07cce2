"""The two measures of utility, by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import geo_data
from pipelines.plans.utility import commutes, mean_commute, total_variation

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def places() -> geo_data.Geography:
    return geo_data.Geography(
        block_level="block",
        block_codes=pa.array("abcd"),
        levels=("area",),
        unit_codes=(np.array(["x", "y"], dtype=object),),
        unit_starts=(np.array([0, 2], np.int32),),
        latitude=np.array([0.0, 0.0, 0.0, 1.0]),
        longitude=np.array([0.0, 1.0, 2.0, 2.0]),
    )


def blocks(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def test_total_variation(places: geo_data.Geography) -> None:
    work = blocks(0, 0, 2, 3)
    homes = blocks(0, 1, 2, 3)
    assert total_variation(places, "block", work, homes, homes) == 0
    assert (
        total_variation(places, "block", work, homes, blocks(1, 0, 2, 3)) == 0
    )  # the same jobs in another order
    assert total_variation(places, "block", work, homes, blocks(0, 0, 2, 3)) == 0.25
    assert total_variation(places, "area", work, homes, blocks(0, 0, 3, 2)) == 0  # moved inside an area
    assert total_variation(places, "area", work, homes, blocks(2, 2, 0, 0)) == 1
    # The destination counts: the same homes, swapped between two work areas.
    assert total_variation(places, "area", blocks(0, 2), blocks(0, 2), blocks(2, 0)) == 1


def test_mean_commute(places: geo_data.Geography) -> None:
    degree = 111.3194908  # kilometres of a degree of longitude on the equator of WGS84
    assert mean_commute(places, blocks(0, 0), blocks(0, 1)) == pytest.approx(degree / 2, rel=1e-7)
    assert mean_commute(places, blocks(3), blocks(2)) == pytest.approx(110.5743886, rel=1e-7)
    # More jobs than pairs of places: the distance of every job is the same.
    work, homes = np.divmod(np.arange(16, dtype=np.int32), 4)
    alone = commutes(places, work, homes)
    assert np.array_equal(commutes(places, np.tile(work, 9), np.tile(homes, 9)), np.tile(alone, 9))
