"""What is made of a release in the background."""

from __future__ import annotations

import gzip
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import geopandas as gpd
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from helpers import wait_for
from pipelines.service.public import preparation
from pipelines.service.public.preparation import Preparation, Prepared, prepare
from pipelines.views.maps.backdrop import Backdrop

from ..helpers import NAME


@pytest.mark.slow
def test_a_service_prepares_what_it_finds(
    make_app: Callable[..., FastAPI], new_state: Path, service_state: Path, page: str, base: str
) -> None:
    """In a process of its own; queries are answered as soon as it has ended."""
    (made,) = (path.name for path in (service_state / "cache").iterdir())
    rmtree(new_state / "cache" / made)
    with TestClient(make_app(new_state)) as client:
        wait_for(lambda: Prepared(new_state / "cache" / made).complete)
        assert client.get(f"{base}/flows?work=01&work_level=st").status_code in (200, 404)
        assert "No map has been drawn yet" not in client.get(page).text


def test_the_end_does_not_wait(new_state: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The process is ended, and leaves no half-made file behind."""

    work = Preparation(new_state / "cache")
    work.start(lambda: [("0" * 64, new_state / "published" / NAME / "v1")])
    time.sleep(0.3)
    begun = time.monotonic()
    work.stop()
    assert time.monotonic() - begun < 10
    assert not work.of("0" * 64).complete


def test_what_cannot_be_prepared_is_logged_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(preparation, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(preparation, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    looked = []

    def versions() -> list[tuple[str, Path]]:
        looked.append(1)
        return [("1" * 64, tmp_path / "CANARY")]

    work = Preparation(tmp_path)
    with caplog.at_level(logging.ERROR):
        work.start(versions)
        wait_for(lambda: len(looked) > 5)
        work.stop()
    assert [record.getMessage() for record in caplog.records] == [
        f"preparing {'1' * 64} failed: PublicReleaseError"
    ]


def test_what_is_there_is_not_made_again(service_state: Path, tmp_path: Path) -> None:
    there = Prepared(tmp_path)
    files = (there.map, there.picture, there.figures)
    for file in files:
        assert not there.complete
        file.write_text("made before")
    folders = (there.draws, there.flows, there.tiles)
    for folder in folders:
        assert not there.complete
        folder.mkdir()
    assert there.complete
    prepare(service_state / "published" / NAME / "v1", there)
    assert {file.read_text() for file in files} == {"made before"}
    assert {*tmp_path.rglob("*")} == {*files, *folders}


def test_a_map_has_intervals_and_water_of_the_service(
    new_state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is another map when water and roads are others, and is made without those that cannot be used."""
    folder = new_state / "published" / NAME / "v1"
    (content,) = (path.name for path in (new_state / "cache").iterdir())
    points = pipelines.open_release(folder).geography.points().geometry
    lake, broken = tmp_path / "lake.geojson", tmp_path / "roads.gpkg"
    broken.write_bytes(b"broken")
    gpd.GeoSeries([points[~points.is_empty].union_all().envelope], crs="EPSG:4326").to_file(lake)
    names = [Preparation(new_state / "cache").of(content).map]
    for roads in (None, broken):
        backdrop = Backdrop("Lakes, Inc.", lake, roads)
        prepared = Preparation(new_state / "cache", backdrop).of(content)
        prepare(folder, prepared)
        page = prepared.map.read_text()
        assert gzip.decompress(prepared.compressed_map.read_bytes()).decode() == page
        assert '"draws":{"n":19,' in page
        assert ("Lakes, Inc." in page) == (roads is None)
        names.append(prepared.map)
    assert len({*names}) == len(names)
    assert [record.getMessage() for record in caplog.records] == [
        "water and roads are not used: InputError",
    ]
