"""The map of a release: its size, the time to make it, and the time until a browser answers.

Usage: python benchmarks/map.py PUBLIC [--images FOLDER]

PUBLIC is the public folder of a release. The browser is a headless chromium that draws without a graphics
card, so that a laptop with one is faster. With --images, writes pictures of the map into FOLDER:
map_NAME_*.png, where NAME is the first part of the release's file names.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from playwright.sync_api import Page, sync_playwright

from pipelines import read_public_release
from pipelines.views.maps import write_map

LOADS = 5
LAPTOP, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
IDLE = """() => new Promise((done) => {
    const { map } = document.getElementById("map");
    map.once("idle", done);
    map.triggerRepaint();
})"""


@click.command()
@click.argument("public", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--images", type=click.Path(path_type=Path, file_okay=False), help="Also write pictures there.")
def main(public: Path, images: Path | None) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        begin = time.perf_counter()
        path = write_map(public, Path(folder) / "map.html")
        print(f"{path.stat().st_size / 1e6:.2f} MB, made in {time.perf_counter() - begin:.1f} s")
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        print(f"chromium {chromium.version}")
        ready, chosen = [], []
        for _ in range(LOADS):
            page = opened(chromium, path)
            ready.append(page.evaluate("Number(document.documentElement.dataset.ready)"))
            chosen.append(milliseconds(page, "document.querySelector('#top button').click()"))
            page.context.close()
        print(f"answers {statistics.median(ready) / 1000:.2f} s after it is opened (median of {LOADS})")
        print(f"an area is chosen in {statistics.median(chosen):.0f} ms, without drawing")
        page = opened(chromium, path)
        for level in page.locator("#level option").all():
            value = level.get_attribute("value")
            script = (
                f"((level) => {{ level.value = '{value}'; level.dispatchEvent(new Event('change')); }})"
                "(document.getElementById('level'));"
                "if (document.getElementById('warning').open) document.getElementById('warning-show').click()"
            )
            print(f"level {value}: {milliseconds(page, script):.0f} ms")
        page.context.close()
        if images is not None:
            take(chromium, path, images, read_public_release(public).certificate.release.state)
        chromium.close()


def opened(chromium: Any, path: Path, **context: Any) -> Page:
    """Open the map without a network, and wait until it answers."""
    page = chromium.new_context(**{"offline": True, "viewport": LAPTOP, **context}).new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def milliseconds(page: Page, script: str) -> float:
    """Run a script in the page and return how long it took there."""
    return page.evaluate(
        f"() => {{ const begin = performance.now(); {script}; return performance.now() - begin; }}"
    )


def take(chromium: Any, path: Path, folder: Path, name: str) -> None:
    """Take the pictures of the documentation."""
    for view, context in {
        "region": {},
        "workplace": {},
        "zone": {},
        "dark": {"color_scheme": "dark"},
        "phone": {"viewport": PHONE},
        "radius": {},
        "many": {},
    }.items():
        page = opened(chromium, path, **context)
        level = page.input_value("#level")
        if view == "zone":
            page.locator("#external-zones-table button").first.click()
        elif view == "radius":
            page.locator("#top button").first.click()
            page.click("#several summary")
            page.click("#around-chosen")
            page.click("#several summary")
            page.locator("input[value=both]").check(force=True)
            page.click("#zoom")
            page.locator("#chosen").evaluate("(title) => title.scrollIntoView()")
        elif view == "many":
            page.fill("#threshold", "0")
            page.locator("#flows-title").evaluate("(title) => title.scrollIntoView()")
        elif view != "region":
            page.select_option("#level", "cty")
            page.locator("#top button").first.click()
            if view != "dark":
                page.select_option("#level", level)
        if view == "dark":
            page.locator("input[value=home]").check(force=True)
            page.locator("#top-title").evaluate("(title) => title.scrollIntoView()")
            page.locator("#panel").evaluate("(panel) => panel.scrollBy(0, -70)")
        page.evaluate("window.scrollTo(0, 0)")
        page.evaluate(IDLE)
        page.screenshot(path=folder / f"map_{name}_{view}.png")
        page.context.close()


if __name__ == "__main__":
    main()
