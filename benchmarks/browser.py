"""A headless chromium that draws without a graphics card, and what axe-core finds on a page in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright

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


SETUP = Path(__file__).resolve().parents[1] / "tests" / "pipelines" / "views" / "maps" / "axe"
# Not into frames: the map has tests of its own.
VIOLATIONS = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"], iframes: false });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""


def fetch_axe(folder: Path) -> str:
    """The program, which npm fetches into a folder."""
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(SETUP / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """What is wrong with a page as it is now, in the scheme that it is shown in."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe)
    found: list[str] = page.evaluate(VIOLATIONS)
    return found
