"""The browser of the benchmarks: a headless chromium that draws maps without a graphics card."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
# Wait until a map is drawn.
IDLE = """() => new Promise((done) => {
    const { map } = document.getElementById("map");
    map.once("idle", () => done()); // and not with the event, which has the whole map in it
    map.triggerRepaint();
})"""


def launch(driver: Playwright) -> Browser:
    """Start it."""
    return driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
