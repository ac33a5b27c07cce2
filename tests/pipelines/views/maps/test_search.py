"""Finding an area by its name, in a real browser: what is found, in which order, keys, hostile names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipelines
from pipelines.release.names import write_names
from pipelines.views.release import Release

from .map_reader import LAPTOP, PHONE, Reader, by_code, expected, mean_km

pytestmark = pytest.mark.slow

HOSTILE = '</script><img src=x onerror="document.title=`hit`">, "&" \'s $x$'
LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch" * 4
TRACTS = ["Twin Town", "Twin Town", "Mayagüez, St. Mary's (Å)", "New Bristol", HOSTILE, LONG]
COUNTIES = ["Bristol County", "Shore County"]
GROUPS = ["Bristol", "", "", "", "", "Old Bristol"]


@pytest.fixture(scope="module")
def named(mapped: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The small release with other names."""
    public = tmp_path_factory.mktemp("named") / "public"
    shutil.copytree(mapped.public, public)
    geography, inside = mapped.geography, {}
    for level, names in {"cty": COUNTIES, "trct": TRACTS, "bgrp": GROUPS}.items():
        beyond = geography.unit_of(level, geography.external_blocks)
        inside[level] = np.full(geography.n_units(level), "", object)
        inside[level][np.delete(np.arange(geography.n_units(level)), beyond)] = names
    write_names(inside, geography, public)
    return pipelines.open_release(public)


@pytest.fixture(scope="module")
def named_map(named: Release, library: Path) -> Path:
    return named.map()


@pytest.fixture(scope="module")
def opened(browser: Any, named_map: Path) -> Iterator[Reader]:
    with Reader(browser, named_map) as reader:
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    opened.reset()
    opened.hold()
    opened.complaints.clear()
    yield opened
    assert opened.complaints == []


def code_of(release: Release, level: str, name: str) -> str:
    """Code of the first unit of a name."""
    return str(release.geography.codes(level)[release.names[level].tolist().index(name)])


def test_a_part_of_a_name(reader: Reader, named: Release) -> None:
    """Without accents, capitals and punctuation; what is chosen has the right numbers."""
    code = code_of(named, "trct", TRACTS[2])
    rows = expected(named, work=("trct", code))
    reader.page.select_option("#level", "trct")
    for typed in ("mayaguez", "MAYAGÜEZ,  st marys", "guez", "mary (a", "tract mayaguez"):
        assert reader.type(typed) == [[TRACTS[2], f"Tract {code[:2]} {code[2:5]} {code[5:]}"]]
        reader.page.keyboard.press("Enter")
        assert reader.text("chosen") == TRACTS[2]
        assert reader.chosen().endswith(f"Tract{code}")
        assert reader.page.input_value("#search") == ""
        assert not reader.page.locator("#found").is_visible()
        reader.page.click("#clear")
    reader.search("guez")
    assert reader.number("jobs") == rows["jobs"].sum()
    assert reader.number("mean") == pytest.approx(mean_km(rows), abs=0.051)
    assert list(reader.top().values()) == by_code(named, rows, "home", "trct").head(10).tolist()


def test_the_order_of_what_is_found(reader: Reader) -> None:
    """The name itself, then what begins with it, then what contains it; each from the coarsest level."""
    names = [lines[0] for lines in reader.type("bristol")]
    assert names == ["Bristol", "Bristol County", "New Bristol", "Old Bristol"]
    assert [lines[1].split()[0] for lines in reader.type("bristol")] == ["Block", "County", "Tract", "Block"]
    assert [lines[0] for lines in reader.type("county")] == ["Bristol County", "Shore County"]
    assert [lines[0] for lines in reader.type("old county bristol")] == []
    assert [lines[0] for lines in reader.type("block group old")] == ["Old Bristol"]


def test_punctuation_alone_finds_nothing(reader: Reader) -> None:
    assert [reader.type(typed) for typed in ("!", "(", " ", ". ,")] == [[]] * 4


def test_a_name_of_several(reader: Reader, named: Release) -> None:
    """Enter alone chooses none of them; the arrows say which."""
    assert len(reader.type("twin town")) == 2
    reader.page.keyboard.press("Enter")
    assert "Several areas have this in their name" in reader.text("not-found")
    assert reader.text("chosen") == "The whole region"
    assert reader.page.locator("#found").is_visible()
    codes = named.geography.codes("trct")[named.names["trct"] == "Twin Town"]
    for keys, code in ((["ArrowDown", "ArrowDown"], codes[1]), (["ArrowUp", "ArrowUp"], codes[0])):
        reader.type("Twin Town")
        for key in keys:
            reader.page.keyboard.press(key)
        marked = reader.page.get_attribute("#search", "aria-activedescendant")
        assert reader.page.get_attribute(f"#{marked}", "aria-selected") == "true"
        reader.page.keyboard.press("Enter")
        assert reader.chosen().endswith(code)


def test_the_mouse_chooses(reader: Reader) -> None:
    reader.type("bristol")
    reader.page.locator("#found li").nth(1).click()
    assert reader.text("chosen") == "Bristol County"
    reader.type("twin town")
    reader.page.locator("#search-form button").first.click()  # which takes the focus, and gives it back
    assert reader.page.locator("#found li").count() == 2


def test_escape_closes_the_list_first(reader: Reader) -> None:
    reader.search("new bristol")
    reader.type("bristol")
    reader.page.keyboard.press("Escape")
    assert not reader.page.locator("#found").is_visible()
    assert reader.text("chosen") == "New Bristol"
    reader.page.keyboard.press("Escape")
    assert reader.text("chosen") == "The whole region"


def test_the_list_closes_behind_the_reader(reader: Reader) -> None:
    reader.type("bristol")
    reader.page.keyboard.press("Tab")
    assert not reader.page.locator("#found").is_visible()
    assert reader.page.get_attribute("#search", "aria-expanded") == "false"


def test_a_name_is_no_markup(reader: Reader, named_map: Path) -> None:
    assert HOSTILE.encode() not in named_map.read_bytes()
    assert [lines[0] for lines in reader.type("</script>")] == [HOSTILE]
    reader.page.keyboard.press("Enter")
    assert reader.text("chosen") == HOSTILE
    reader.page.select_option("#level", "trct")
    assert HOSTILE in [row[0].splitlines()[0] for row in reader.table("top")]
    assert reader.page.locator("aside img, #map img").count() == 0
    assert reader.page.title() != "hit"


OVERFLOWING = """() => [...document.querySelectorAll("aside, aside *, .maplibregl-popup-content")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
    .filter((e) => !e.matches(".scroll, .hidden, input, svg *"))
    .map((e) => e.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_long_names_fit(browser: Any, named: Release, named_map: Path, size: tuple[int, int]) -> None:
    with Reader(browser, named_map, size) as reader:
        page = reader.page
        page.select_option("#level", "trct")
        reader.type("t")
        assert page.locator("#found").is_visible()
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        reader.search("llanfair")
        assert reader.text("chosen") == LONG
        assert LONG in page.inner_text("#top")
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        if size == LAPTOP:  # which has a pointer, and is about as wide as paper
            place = named.places("trct").iloc[named.names["trct"].tolist().index(LONG)]
            reader.still()
            pixel = reader.pixel_of((place["longitude"], place["latitude"]))
            page.mouse.move(pixel["x"], pixel["y"])
            assert LONG in page.inner_text(".maplibregl-popup-content")
            assert page.evaluate(OVERFLOWING) == []
            page.emulate_media(media="print")
            assert page.locator("#chosen").is_visible()
            assert page.locator("#chosen-code").is_visible()
            assert page.evaluate(OVERFLOWING) == []
        assert reader.complaints == []


def test_a_list_that_is_cut_and_names_like_it(reader: Reader) -> None:
    """The list says of how many it shows the first; a name like what was typed is offered, and not chosen."""
    assert len(reader.type("0")) == 20
    assert reader.text("not-found").startswith("Only the first 20 of ")
    assert [lines[0] for lines in reader.type("new bristl")] == ["New Bristol"]
    assert "Perhaps one of these is meant" in reader.text("not-found")
    reader.page.keyboard.press("Enter")
    assert reader.text("chosen") == "The whole region"
    assert "Perhaps one of these is meant" in reader.text("not-found")
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    assert reader.text("chosen") == "New Bristol"
