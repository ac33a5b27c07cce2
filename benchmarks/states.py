"""Twelve states of the map and of the site, as readers see them, and what axe-core finds in each.

Usage: python benchmarks/states.py OLDER NEWER FOLDER [--before REVISION]

OLDER and NEWER are configurations of two releases that are fit for publication, best of one region in two
years. The releases are made and published into a temporary folder, and the service is started on it. Writes a
picture of each state into FOLDER: 1440 and 390 pixels wide and at a zoom of 200 %, in light and in dark, and
the first page of what is printed from both (as PDF, and as PNG where `pdftoppm` is there). What axe-core
finds, and what is wider than the screen, is an error. With --before, the same pictures of that revision of
the program, of the releases that it makes, go into FOLDER/before, those of this one into FOLDER/after. npm
fetches axe-core; the browser is a headless chromium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from browser import IDLE, fetch_axe, launch, violations
from checkouts import ROOT, checkout, odsynth, releases
from playwright.sync_api import Browser, Page, sync_playwright
from public_pages import OPEN, SCHEMES, WIDER, published

import pipelines
from pipelines.views.release import Release

SIZES: dict[str, dict[str, Any]] = {
    "1440": {"viewport": {"width": 1440, "height": 900}},
    "390": {"viewport": {"width": 390, "height": 844}},
    # Half as many pixels of a page, each twice as large.
    "zoom": {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},
}
WITHOUT_PROGRAM = "map-without-program"  # of the page: the state in which it runs none
PATIENCE = 120_000  # milliseconds for a step
DRAWN = "html[data-ready]"


@dataclass(frozen=True)
class State:
    """A page, and what a reader does there."""

    address: str
    does: Callable[[Page], None] = lambda page: None


@click.command()
@click.argument("configs", nargs=2, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--before", metavar="REVISION", help="Also of that revision of the program.")
def main(configs: tuple[Path, Path], folder: Path, before: str | None) -> None:
    """Take the pictures, and print what is wrong with those of this program."""
    with tempfile.TemporaryDirectory() as name:
        ours = releases(ROOT, configs, Path(name))
        newest = pipelines.open_release(ours[1] / "public")  # where the places of the states are
        if before is not None:
            with checkout(before) as program, tempfile.TemporaryDirectory() as of_before:
                theirs = releases(program, configs, Path(of_before))
                print(f"{len(pictures(program, theirs, newest, folder / 'before'))} problems before")
            folder /= "after"
        if problems := pictures(ROOT, ours, newest, folder):
            raise click.ClickException("\n".join(problems))


def pictures(program: Path, outs: Sequence[Path], newest: Release, folder: Path) -> list[str]:
    """Take the pictures of a program with releases that it made, and return what is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as name,
        published(Path(name), outs, program) as (address, catalog),
        sync_playwright() as driver,
    ):
        chromium, axe = launch(driver), fetch_axe(Path(name))
        problems, number = list[str](), 0
        other = Path(name) / "other.html"
        command = odsynth(program, "map", outs[0] / "public", "--to", other)
        subprocess.run(command, cwd=program, check=True, stdout=subprocess.DEVNULL)
        for state, shown in states(newest, catalog.versions()[0].page, other).items():
            for size, context in SIZES.items():
                for scheme in SCHEMES:
                    with opened(chromium, address, state, shown, {**context, "color_scheme": scheme}) as page:
                        page.screenshot(path=folder / f"{state}-{size}-{scheme}.png")
                        number += 1
                        found = [] if state == WITHOUT_PROGRAM else violations(page, axe)
                        if (wider := page.evaluate(WIDER)) > 0:
                            found.append(f"{wider} pixels wider than the screen")
                        problems += [f"{state}, {size}, {scheme}: {each}" for each in found]
                        if size == "1440":
                            print_first_page(page, folder / f"{state}-printed-{scheme}.pdf")
        chromium.close()
    print(f"{number} pictures in {folder}")
    return problems


def states(release: Release, home: str, other: Path) -> dict[str, State]:
    """Name twelve: of the site and the map of a release whose page is `home`; another map is laid beside."""
    map_page, level = f"{home}/map", release.levels[min(2, len(release.levels) - 1)]
    places = release.places(level)
    jobs = release.unit_flows(level, level).groupby("work")["S000"].sum()
    inside = places["latitude"].notna()
    busiest = jobs[inside.reindex(jobs.index)].idxmax()
    code, (x, y) = places["code"][busiest], places.loc[busiest, ["longitude", "latitude"]]
    ring = " ".join(f"{y + dy:.5f},{x + dx:.5f}" for dx, dy in ((-0.06, -0.05), (0.06, -0.05), (0, 0.06)))
    linked = f"{map_page}#level={level}&chosen="
    geography, county = release.geography, release.levels[1]
    around = geography.unit_of(county, geography.starts(level)[[busiest]])[0]
    towns = [
        f"{name}:{part.codes[len(part.codes) // 2]}" for name, part in geography.non_nesting_areas.items()
    ]
    town = next(iter(towns), f"{county}:{geography.codes(county)[around]}")
    zone = next(iter(geography.external_zones), "")
    return {
        "map-region": State(map_page),
        "map-town": State(f"{linked}{town}", zoom),
        "map-radius": State(f"{linked}circle:{y:.5f},{x:.5f}+5&side=both", zoom),
        "map-outline": State(f"{linked}outline:{ring}", zoom),
        "map-residence": State(f"{linked}{level}:{code}&side=home"),
        "map-zone": State(map_page, lambda page: choose_zone(page) if zone else None),
        "map-difference": State(map_page, lambda page: lay_beside(page, other)),
        WITHOUT_PROGRAM: State(map_page),
        "site-home": State("/"),
        "site-release": State(home),
        "site-answer": State(f"{home}/flows?area={code}"),
        "site-no-answer": State(f"{home}/flows?area=nowhere"),
    }


def zoom(page: Page) -> None:
    """Zoom to what is chosen."""
    page.click("#zoom")


def choose_zone(page: Page) -> None:
    """Choose the largest external zone."""
    page.locator("#external-zones-table button").first.click()


def lay_beside(page: Page, other: Path) -> None:
    """Lay another map beside the one that is seen, of where people live."""
    page.locator("input[name=side][value=home]").check(force=True)
    page.set_input_files("#other-file", other)
    page.wait_for_selector("#other", state="visible")


@contextmanager
def opened(
    chromium: Browser, address: str, name: str, state: State, context: dict[str, Any]
) -> Iterator[Page]:
    """A page in a state."""
    runs = name != WITHOUT_PROGRAM
    shown = chromium.new_context(**context, java_script_enabled=runs)
    page = shown.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address + state.address)
    if name.startswith("map-") and runs:
        page.wait_for_selector(DRAWN, state="attached")
        page.locator("#loading", has_not_text=re.compile(".")).wait_for(state="attached")
        state.does(page)
        page.evaluate("() => { scrollTo(0, 0); document.getElementById('panel').scrollTo(0, 0); }")
        page.evaluate(IDLE)
    elif runs:
        page.evaluate(OPEN)
    yield page
    shown.close()


def print_first_page(page: Page, path: Path) -> None:
    """Print a page, and draw the first page of that."""
    page.pdf(path=path, format="A4")
    if drawer := shutil.which("pdftoppm"):
        command = [drawer, "-png", "-r", "80", "-singlefile", str(path), str(path.with_suffix(""))]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
