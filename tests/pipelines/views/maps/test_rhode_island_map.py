"""The map of a whole state, the real data: its size, and that it answers right.

How soon it answers is measured by benchmarks/map.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipelines
from pipelines.views.release import Release

from .map_reader import Reader, by_code, expected, mean_km

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def state(rhode_island: pipelines.Release) -> Release:
    return pipelines.open_release(rhode_island.public)


@pytest.fixture(scope="module")
def state_map(state: Release, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return state.map(tmp_path_factory.mktemp("state") / "map.html")


def test_size(state_map: Path) -> None:
    assert state_map.stat().st_size <= 15_000_000


def test_it_answers_right(browser: Any, state: Release, state_map: Path) -> None:
    with Reader(browser, state_map) as reader:
        assert reader.number("jobs") == state.certificate.totals.synthetic_workers
        assert reader.page.input_value("#level") == "trct"  # and not at what is near a hundred with 55 zones
        code = next(iter(reader.top()))
        reader.search(code)
        rows = expected(state, work=("trct", code))
        partners = by_code(state, rows, "home", "trct")
        assert reader.number("jobs") == rows["jobs"].sum()
        assert reader.number("mean") == pytest.approx(mean_km(rows), abs=0.051)
        assert list(reader.top().values()) == partners.head(10).tolist()
        assert reader.complaints == []
