"""The report in a browser without a network: on a wide and a narrow screen, and on paper."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from .conftest import Evaluation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(closed: Evaluation) -> Path:
    return closed.folder / "report.html"


@pytest.fixture(params=[1200, 390])
def page(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    """The page, which must have asked for nothing but itself and complained of nothing."""
    page = browser.new_page(viewport={"width": request.param, "height": 800})
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(report.as_uri())
    yield page
    page.close()
    assert [url for url in asked if not url.startswith("data:image/svg+xml")] == [report.as_uri()]
    assert said == []


def test_everything_is_shown(page: Page) -> None:
    width = page.viewport_size
    assert width is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= width["width"]
    assert page.locator("figure img").count() == 4
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert "CONFIDENTIAL" in page.title()
    # The banner stays where it is when the page is scrolled.
    page.evaluate("window.scrollTo(0, 2000)")
    assert page.locator(".banner").bounding_box()["y"] == 0  # type: ignore[index]


def test_every_sheet_says_it(page: Page) -> None:
    page.emulate_media(media="print")
    mark = page.locator(".watermark")
    assert mark.is_visible()
    assert mark.inner_text() == "CONFIDENTIAL"
    assert mark.evaluate("node => getComputedStyle(node).position") == "fixed"  # which printing repeats
    margins = page.evaluate(
        "[...document.styleSheets[0].cssRules].filter(r => r.type === CSSRule.PAGE_RULE).map(r => r.cssText)"
    )
    assert 'content: "CONFIDENTIAL"' in margins[0]


def test_every_printed_sheet_says_it(browser: Browser, report: Path, tmp_path: Path) -> None:
    """Not what the style sheet asks for, but what comes out of the printer."""
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("there is no pdftotext (Debian: apt-get install poppler-utils)")
    page = browser.new_page()
    page.goto(report.as_uri())
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    page.close()
    text = subprocess.run(
        [reader, tmp_path / "report.pdf", "-"], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    *sheets, rest = text.split("\f")
    assert len(sheets) > 2
    assert rest == ""
    assert all("CONFIDENTIAL" in sheet for sheet in sheets)
    assert "Share of long ones, difference" in " ".join(text.split())  # the widest table is not cut off
