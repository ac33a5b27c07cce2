"""A map that opens with its coarser levels, and reads the finer ones when they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.release.reader import PublicRelease
from pipelines.views.maps import payload, write_map

from .map_reader import Reader

pytestmark = pytest.mark.slow

SEEN = [
    "chosen",
    "counts-of",
    "jobs",
    "mean",
    "median",
    "commute-of",
    "balance",
    "top",
    "top-count",
    "flow-count",
    "placed",
]
HASH = "(hash) => { location.hash = hash; }"
READ = "() => !document.getElementById('commute-of').innerText.includes('until')"


@pytest.fixture
def parted(layered: PublicRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> Path:
    """The map of the layered release, as if there were few rows that are read at once."""
    rows = [len(layered.unit_flows(level, level)) for level in ("trct", "bgrp")]
    monkeypatch.setattr(payload, "_AT_ONCE", (rows[0] + rows[1]) // 2 if rows[1] > rows[0] else rows[0])
    return write_map(layered.folder, tmp_path / "map.html")


def test_finer_levels_are_read_when_they_are_wanted(
    browser: Any, parted: Path, layered_file: Path, layered: PublicRelease
) -> None:
    """By the list, a search, an outline, a link; then all is as in a map that has them at once."""
    first = layered.places("tabblk2010").dropna().iloc[0]
    tract = str(layered.geography.codes("trct")[0])
    ring = [f"{first.latitude + y:.5f},{first.longitude + x:.5f}" for x, y in ((-1, -1), (1, -1), (0, 1))]
    link = f"level=trct&side=work&chosen=outline:{' '.join(ring)}"

    def search(page: Any, words: str) -> None:
        page.fill("#search", words)
        page.press("#search", "Enter")

    def around(page: Any) -> None:
        page.evaluate("document.getElementById('several').open = true")
        page.click("#around-chosen")

    ways: dict[str, Callable[[Any], None]] = {
        "level": lambda page: page.select_option("#level", "tabblk2010"),
        "code": lambda page: search(page, str(first.code)),
        "radius": around,
        "link": lambda page: page.evaluate(HASH, link),
    }
    with Reader(browser, layered_file) as at_once:
        for way, go in ways.items():
            at_once.reset()
            with Reader(browser, parted) as reader:
                assert "until blocks are opened" in reader.text("commute-of")
                assert reader.page.is_hidden("#loading")
                pages = (reader.page, at_once.page)
                for page in pages:
                    page.evaluate(HASH, f"level=trct&side=work&chosen=trct:{tract}")
                    page.wait_for_selector("#clear")
                assert "until blocks are opened" in reader.text("commute-of"), way
                for page in pages:
                    go(page)
                reader.page.wait_for_function(READ)
                assert reader.page.is_hidden("#loading")
                for page in pages:
                    page.wait_for_timeout(300)
                seen = [
                    (each.page.input_value("#level"), *map(each.text, SEEN)) for each in (reader, at_once)
                ]
                assert seen[0] == seen[1], way
                options = [each.page.locator("#level option").all_inner_texts() for each in (reader, at_once)]
                assert options[0] == options[1]
                assert reader.complaints == at_once.complaints == []
