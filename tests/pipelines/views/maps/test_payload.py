"""The data inside a map: they are the release, and fit."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from geo_data.external_zones import STATES, US_STATES
from pipelines.views.labels import level_words
from pipelines.views.maps.draws import draw_tables
from pipelines.views.maps.payload import Payload, make_payload
from pipelines.views.release import Release

pytestmark = pytest.mark.quick

LARGE = 10_000_000


def arrays_of(payload: Payload) -> dict[str, np.ndarray]:
    packed = gzip.decompress(payload.arrays)
    return {
        name: np.frombuffer(packed, np.dtype(kind).newbyteorder("<"), length, offset)
        for name, (kind, offset, length) in payload.meta["arrays"].items()
    }


def texts_of(payload: Payload) -> dict[str, Any]:
    return json.loads(gzip.decompress(payload.texts))


@pytest.fixture(scope="module")
def payload(mapped: Release) -> Payload:
    return make_payload(mapped, LARGE)


def test_the_flows_are_those_of_the_release(payload: Payload, mapped: Release) -> None:
    arrays = arrays_of(payload)
    block = mapped.levels[-1]
    n_rows = arrays["rows_of_work"]
    found = pd.DataFrame(
        {
            "work": np.repeat(np.arange(len(n_rows)), n_rows),
            "home": arrays["home"],
            **{name: arrays[f"count:{name}"] for name in mapped.counts},
        }
    )
    pd.testing.assert_frame_equal(
        found, mapped.unit_flows(block, block, list(mapped.counts)), check_dtype=False
    )


def test_places_codes_and_ranges(payload: Payload, mapped: Release) -> None:
    arrays, texts = arrays_of(payload), texts_of(payload)
    for level in mapped.levels:
        places = mapped.places(level)
        assert texts["codes"][level] == places["code"].tolist()
        inside = places["latitude"].notna()
        for name in ("latitude", "longitude"):
            degrees = arrays[f"{name}:{level}"] / payload.meta["degree"]
            assert np.abs(degrees - places[name])[inside].max() < 1e-6
        assert (arrays[f"starts:{level}"] == mapped.geography.starts(level)).all()


def test_areas_of_shapes(payload: Payload, mapped: Release, shapeless: Release) -> None:
    shapes = mapped.polygons("trct")
    assert shapes is not None
    arrays = arrays_of(payload)
    truth = shapes.to_crs("EPSG:6933").area.to_numpy() / 1e6
    assert arrays["area:trct"][shapes["unit"]] / 1000 == pytest.approx(truth, rel=0.01)
    assert "area:tabblk2010" not in arrays
    # Cells around centroids have no area that means anything.
    assert not [name for name in arrays_of(make_payload(shapeless, LARGE)) if name.startswith("area")]


def test_external_zones_have_places(payload: Payload, mapped: Release) -> None:
    """The same at every level, beyond all that is in the region."""
    arrays, geography = arrays_of(payload), mapped.geography
    found = {}
    for level in mapped.levels:
        units = geography.unit_of(level, geography.external_blocks)
        found[level] = [arrays[f"{axis}:{level}"][units].tolist() for axis in ("longitude", "latitude")]
    assert len({str(places) for places in found.values()}) == 1
    west, south, east, north = mapped.polygons("trct").total_bounds * payload.meta["degree"]
    for x, y in zip(*found["st"], strict=True):
        assert not (west <= x <= east and south <= y <= north)


def test_names(payload: Payload, mapped: Release) -> None:
    names = texts_of(payload)["names"]
    known = mapped.names["trct"].copy()
    known[mapped.geography.unit_of("trct", mapped.geography.external_blocks)] = ""  # once for all levels
    assert [name or "" for name in names["trct"]] == known.tolist()
    assert "Centre County, DM" in names["cty"]
    assert "tabblk2010" not in names


def test_a_release_without_names(payload: Payload, nameless: Release) -> None:
    texts = texts_of(make_payload(nameless, LARGE))
    assert texts["names"] == {}
    assert {**texts, "names": {}} == {**texts_of(payload), "names": {}}


def test_what_does_not_fit_is_left_out(payload: Payload, mapped: Release) -> None:
    smaller = make_payload(mapped, replace(payload, draws=b"").size - 1)
    kept = len(smaller.meta["levels"])
    assert 0 < kept < len(mapped.levels)
    assert smaller.size < payload.size
    assert len(smaller.meta["left_out"]) == len(mapped.levels) - kept
    finest = mapped.levels[kept - 1]
    assert smaller.meta["levels"][-1]["id"] == finest
    # Nobody is lost: the rest are sums of it.
    assert arrays_of(smaller)["count:S000"].sum() == mapped.certificate.totals.synthetic_workers
    assert len(texts_of(smaller)["codes"][finest]) == mapped.geography.n_units(finest)
    external = {
        texts_of(smaller)["codes"][finest][zone["unit"]][:2] for zone in smaller.meta["external_zones"]
    }
    assert external == set(mapped.geography.external_zones)


def test_the_coarsest_level_always_stays(mapped: Release) -> None:
    assert [level["id"] for level in make_payload(mapped, 1).meta["levels"]] == [mapped.levels[0]]


def test_shapes_or_cells(payload: Payload, mapped: Release, shapeless: Release) -> None:
    assert not payload.meta["drawn_around_centroids"]
    assert sorted(texts_of(payload)["shapes"]) == ["cty", "st", "trct"]
    around = make_payload(shapeless, LARGE)
    assert around.meta["drawn_around_centroids"]
    assert sorted(texts_of(around)["shapes"]) == sorted(mapped.levels)


def test_draws_take_the_room_there_is(mapped: Release) -> None:
    """All of them where they fit; with less room they are of coarser levels, and then of residents only."""
    draws, levels = mapped.draws(), mapped.levels
    whole = draw_tables(draws, levels, LARGE)
    of_all = [table for table in whole if table.column == "S000"]
    assert [(t.home, t.work) for t in of_all] == [("trct", None), ("trct", "trct"), ("bgrp", "bgrp")]
    for table in of_all:
        rows = table.arrays["rows"]
        cells = np.stack([np.repeat(np.arange(len(rows)), rows), table.arrays["home"]])
        counts = table.arrays["counts"].reshape(-1, draws.draws)
        expected = draws.cells(table.home, table.work)
        order = np.lexsort([expected.home, expected.work])
        assert np.array_equal(cells, np.stack([expected.work, expected.home])[:, order])
        assert np.array_equal(counts, expected.counts.T[order])
    for limit in (sum(table.size for table in whole) - 1, whole[0].size, 0):
        tables = draw_tables(draws, levels, limit)
        assert sum(table.size for table in tables) <= limit
        pairs = zip(whole, tables, strict=False)
        coarser = [levels.index(fine.home) - levels.index(table.home) for fine, table in pairs]
        assert min(coarser, default=0) >= 0
        assert len(tables) < len(whole) or max(coarser) > 0


def test_levels_of_lodes() -> None:
    for level, one, length in (
        ("st", "state", 2),
        ("cty", "county", 5),
        ("trct", "tract", 11),
        ("bgrp", "block group", 12),
        ("tabblk2020", "block", 15),
    ):
        words = level_words(level)
        assert words["one"] == one
        assert sum(words["groups"]) == length


def test_every_state_has_a_name() -> None:
    assert tuple(STATES) == US_STATES
    assert all(state.name for state in STATES.values())


def test_the_data_of_a_map_name_levels_of_noise(noisy: Release, mapped: Release) -> None:
    levels = {level["id"]: level.get("noise") for level in make_payload(noisy, 10**7).meta["levels"]}
    noise = {"loss": 0.7139, "public_model": 0.8422}
    assert levels == {level: noise if level in ("bgrp", "tabblk2010") else None for level in noisy.levels}
    assert not any("noise" in level for level in make_payload(mapped, 10**7).meta["levels"])
