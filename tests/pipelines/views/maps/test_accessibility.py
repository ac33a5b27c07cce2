"""The map in every state of it, looked at by axe-core; and by keys alone.

npm fetches it, exactly as axe/package-lock.json names it, into pytest's cache.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .map_reader import PHONE, Reader

pytestmark = pytest.mark.slow

SETUP = Path(__file__).parent / "axe"
VIOLATIONS = """async (rules) => {
    const only = rules.length ? { runOnly: rules } : {};
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...only });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""


@pytest.fixture(scope="module")
def axe(pytestconfig: pytest.Config) -> str:
    """The program that looks for barriers."""
    if not shutil.which("npm"):
        pytest.skip("there is no npm, which fetches axe-core")
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("axe")
    program = folder / "node_modules" / "axe-core" / "axe.min.js"
    with (folder / "busy").open("w") as busy:  # tests may run in several processes
        fcntl.flock(busy, fcntl.LOCK_EX)
        lock, fetched = SETUP / "package-lock.json", folder / "package-lock.json"
        if not program.is_file() or fetched.read_bytes() != lock.read_bytes():
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(SETUP / name, folder / name)
            if subprocess.run(["npm", "ping"], cwd=folder, capture_output=True, check=False).returncode:
                pytest.skip("npm reaches no registry, from which it would fetch axe-core")
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return program.read_text(encoding="utf-8")


def check(reader: Reader, axe: str) -> None:
    """Look for every barrier, and for those of colours in the dark."""
    page = reader.page
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe)
    assert page.evaluate(VIOLATIONS, []) == []
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(VIOLATIONS, ["color-contrast"]) == []
    page.emulate_media(color_scheme="light")


def test_no_barrier_in_any_state(
    browser: Any,
    axe: str,
    layered: Any,
    layered_file: Path,
    noisy_file: Path,
    map_file: Path,
    years_file: Path,
) -> None:
    with Reader(browser, layered_file) as reader:
        page = reader.page
        reader.hold()
        check(reader, axe)
        page.click("#several summary")
        reader.type("warwick")  # the list is open
        check(reader, axe)
        page.keyboard.press("Enter")
        page.fill("#search", "02903")
        page.press("#search", "Shift+Enter")
        for side in ("work", "home", "both"):
            reader.pick_side(side)
            check(reader, axe)
        page.click("#keep")
        reader.search(layered.geography.codes("trct")[0])
        page.set_input_files("#other-file", map_file)
        page.wait_for_selector("#other:not([hidden])")
        check(reader, axe)
        page.click("#draw")
        check(reader, axe)
        page.keyboard.press("Escape")
        page.fill("#search", "nowhere")
        page.press("#search", "Enter")
        page.evaluate("document.querySelectorAll('aside details').forEach((part) => (part.open = true))")
        check(reader, axe)
    with Reader(browser, noisy_file) as reader:
        reader.hold()
        reader.search(layered.geography.codes("bgrp")[0])
        reader.page.select_option("#level", "bgrp")
        check(reader, axe)
        reader.page.click("#warning-show")
        check(reader, axe)
    with Reader(browser, layered_file, PHONE) as reader:
        check(reader, axe)
    with Reader(browser, years_file, PHONE) as reader:
        reader.pick_side("home")
        reader.page.select_option("#since", "2016")
        reader.page.wait_for_selector("#change-words:not([hidden])")
        check(reader, axe)


def test_what_has_the_focus_is_not_under_the_map(browser: Any, years_file: Path) -> None:
    """On a phone, where the map stays while the page scrolls."""
    with Reader(browser, years_file, PHONE) as reader:
        page = reader.page
        for name in ("year", "since"):
            page.locator("#save-csv").focus()
            page.locator(f"#{name}").focus()
            box, above = (page.locator(each).bounding_box() for each in (f"#{name}", "main"))
            assert box["y"] >= above["y"] + above["height"]


def test_everything_by_keys(browser: Any, layered_file: Path) -> None:
    """Tab reaches what chooses, adds, takes away, zooms, saves and steps back; in the order of the page."""
    with Reader(browser, layered_file) as reader:
        page = reader.page
        reader.hold()
        page.click("#several summary")
        reader.search("warwick")
        reader.address()  # a step that Undo returns from
        page.fill("#search", "02903")
        page.press("#search", "Shift+Enter")
        reader.address()
        reader.page.locator("#chosen").focus()
        reached = []
        for _ in range(120):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate("document.activeElement.id || document.activeElement.ariaLabel || ''")
            )
            if reached[-1] == "report":
                break
        wanted = [
            "Remove Warwick city (Kent, RI)",
            "keep",
            "zoom",
            "clear",
            "search-add",
            "add",
            "draw",
            "radius",
            "around-chosen",
            "around-place",
            "file",
            "other-file",
        ]
        wanted += [
            "undo",
            "link",
            "level",
            "labels",
        ]
        wanted += ["threshold", "save-csv", "save-flows", "save-geojson", "save-png", "report"]
        assert [name for name in reached if name in wanted] == wanted
        assert reader.complaints == []
