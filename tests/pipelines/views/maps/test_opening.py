"""What stands in the place of the map until it is drawn, or where it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .map_reader import PHONE, WINDOW, Reader

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [WINDOW, PHONE], ids=["window", "phone"])
def test_a_picture_stands_there_until_the_map_is_drawn(
    browser: Any, map_file: Path, size: tuple[int, int]
) -> None:
    """And the page says that it is being opened."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, offline=True)
    context.add_init_script("window.requestAnimationFrame = () => 0")  # no map is ever drawn
    page = context.new_page()
    page.goto(map_file.as_uri())
    page.wait_for_selector("#still path")
    assert page.is_visible("#opening")
    assert "being opened" in page.inner_text("#still")
    assert "not real people" in page.inner_text("#still")
    picture, shown = (page.locator(name).bounding_box() for name in ("#still svg", "main"))
    assert picture is not None
    assert shown is not None
    assert picture["height"] > 0.4 * shown["height"]
    assert picture["y"] + picture["height"] <= shown["y"] + shown["height"]
    context.close()


def test_without_a_program_the_picture_stands_there(browser: Any, map_file: Path) -> None:
    """With the certificate, and without what would do nothing."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(map_file.as_uri())
    assert page.is_visible("#still path >> nth=0")
    assert page.is_visible("#certificate")
    for name in ("opening", "legend", "fold", "search", "summary", "downloads", "print"):
        assert not page.is_visible(f"#{name}"), name
    context.close()


def test_it_gives_way_to_the_map(browser: Any, map_file: Path) -> None:
    with Reader(browser, map_file) as reader:
        assert reader.page.locator("#still").count() == 0
