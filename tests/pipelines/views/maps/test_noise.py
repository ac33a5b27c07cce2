"""Levels that the accuracy sheet says are noise: marked, warned of before they are opened, and muted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.views.release import Release

from .map_reader import Reader

NOISE = ("bgrp", "tabblk2010")


@pytest.fixture
def reader(browser: Any, noisy_file: Path) -> Iterator[Reader]:
    with Reader(browser, noisy_file) as reader:
        yield reader
        assert reader.complaints == []


def paint(reader: Reader) -> tuple[str, str, float]:
    """Colour of flows and of arrows, and how opaque these are."""
    values = ("flow', 'line-color", "arrow', 'icon-color", "arrow', 'icon-opacity")
    calls = [f"document.getElementById('map').map.getPaintProperty('{value}')" for value in values]
    line, arrow, opacity = (reader.page.evaluate(call) for call in calls)
    return line, arrow, opacity[-1]  # a factor of each flow's own


def colour(reader: Reader, name: str) -> str:
    style = f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"
    return str(reader.page.evaluate(style))


@pytest.mark.slow
def test_a_level_of_noise_is_marked_warned_of_and_muted(reader: Reader) -> None:
    page = reader.page
    options = page.locator("#level option").all()
    marked = {o.get_attribute("value") for o in options if (o.text_content() or "").endswith(" (noise)")}
    assert marked == {*NOISE}
    first = page.input_value("#level")
    assert first not in NOISE
    sound = paint(reader)
    assert sound == (colour(reader, "flow"), colour(reader, "flow"), 1)
    flows = reader.features("flows")
    assert not page.is_visible("#noise")
    assert not page.is_visible("#legend-noise")

    page.select_option("#level", "tabblk2010")
    assert page.is_visible("#warning")
    assert "71 in 100 are expected to be counted where they are not" in reader.text("warning-words")
    assert "by public data alone it would be about 84 in 100" in reader.text("warning-words")
    assert "not noise: states, counties, tracts." in reader.text("warning-words")
    assert (page.input_value("#level"), reader.features("flows")) == (first, flows)
    page.click("#warning-back")
    assert not page.is_visible("#warning")
    assert (page.input_value("#level"), reader.features("flows")) == (first, flows)
    page.select_option("#level", "tabblk2010")
    page.keyboard.press("Escape")
    assert (page.is_visible("#warning"), page.input_value("#level")) == (False, first)

    page.select_option("#level", "tabblk2010")
    page.click("#warning-show")
    assert (page.is_visible("#warning"), page.input_value("#level")) == (False, "tabblk2010")
    assert reader.features("flows") != flows
    muted = paint(reader)
    assert muted[:2] == (colour(reader, "noise"),) * 2 != sound[:2]
    assert muted[2] < 0.5
    assert reader.text("noise").startswith("Flows between blocks are noise.")
    assert page.is_visible("#legend-noise")
    colours = "(q) => getComputedStyle(document.querySelector(q)).backgroundColor"
    assert page.evaluate(colours, "#legend-flows i") == page.evaluate(colours, "#legend-noise i")

    page.select_option("#level", "trct")  # nothing to warn of
    assert not page.is_visible("#warning")
    assert not page.is_visible("#noise")
    assert paint(reader) == sound
    page.select_option("#level", "tabblk2010")  # the reader knows
    assert (page.is_visible("#warning"), page.input_value("#level")) == (False, "tabblk2010")
    assert paint(reader) == muted
    page.select_option("#level", "bgrp")  # and of this one not yet
    assert page.is_visible("#warning")


@pytest.mark.slow
def test_the_panel_says_how_far_to_trust_a_number(reader: Reader, noisy: Release) -> None:
    assert noisy.accuracy is not None
    parts = reader.page.locator("#accuracy details")
    assert parts.count() == len(noisy.accuracy.tables)
    for part, table in zip(parts.all(), noisy.accuracy.tables, strict=True):
        summary = part.locator("summary").inner_text().replace("\xa0", " ")
        assert f": {100 * table.loss:.1f} % of the jobs counted elsewhere" in summary
        assert ("(noise)" in summary) is table.noise
        rows = part.locator("tbody tr").all()
        assert [int(row.locator("td").all()[0].text_content().replace(",", "")) for row in rows] == [
            size.cells for size in table.sizes
        ]
