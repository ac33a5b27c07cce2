"""The map of a release: its size, the time to make it, and the time until a browser answers.

Usage: python benchmarks/map.py PUBLIC [--images FOLDER]
       python benchmarks/map.py --jobs 3000000 [--folder FOLDER] [--page benchmarks/map.md]

PUBLIC is the public folder of a release. The browser is a headless chromium that draws without a graphics
card, so that a laptop with one is faster. With --images, writes pictures of the map into FOLDER:
map_NAME_*.png, where NAME is the first part of the release's file names.

With --jobs, simulates a state with so many jobs (`odsynth simulate`, all of it as one state), releases it,
and prints how soon its map is drawn, how soon it answers, and how much memory the browser takes with all that
it starts (what processes share is counted once: PSS). A FOLDER is kept, and a release in it is taken.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import psutil
from browser import IDLE, launch
from playwright.sync_api import Page, sync_playwright
from report import fill, table

from pipelines import open_release

LOADS = 5
OPENINGS = 3  # of the map of a simulated state
LAPTOP, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}
ODSYNTH = [sys.executable, "-m", "pipelines.cli"]
PAUSE = 0.2  # seconds between two looks at the memory
# Choose the area of a row, and wait until it is shown: milliseconds.
ANSWER = """async (row) => {
    const button = document.querySelectorAll("#top button")[row];
    const begin = performance.now();
    button.click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begin;
}"""
# Wait until what comes after the first picture is there: milliseconds after which it is.
COMPLETE = """async () => {
    while (document.getElementById("loading").innerText) await new Promise((done) => setTimeout(done, 5));
    return performance.now();
}"""
# Open a level, though its flows may be noise, and wait until it is drawn: milliseconds.
OPEN = """async (id) => {
    const [level, warning] = ["level", "warning"].map((name) => document.getElementById(name));
    const begin = performance.now();
    level.value = id;
    level.dispatchEvent(new Event("change"));
    while (level.value !== id) {
        if (warning.open) document.getElementById("warning-show").click();
        await new Promise((done) => setTimeout(done, 5));
    }
    await (IDLE)();
    return performance.now() - begin;
}""".replace("IDLE", IDLE)


@click.command()
@click.argument("public", type=click.Path(path_type=Path, exists=True, file_okay=False), required=False)
@click.option("--images", type=click.Path(path_type=Path, file_okay=False), help="Also write pictures there.")
@click.option("--jobs", type=click.IntRange(min=1000), help="Of a simulated state, instead of PUBLIC.")
@click.option("--folder", type=click.Path(path_type=Path), help="For the simulated state; kept.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(
    public: Path | None, images: Path | None, jobs: int | None, folder: Path | None, page: Path | None
) -> None:
    """Measure and print."""
    if (public is None) == (jobs is None):
        raise click.UsageError("give PUBLIC, or --jobs")
    if public is not None:
        measure(public, images)
        return
    with tempfile.TemporaryDirectory() as temporary:
        text = of_a_state(folder or Path(temporary) / "state", jobs or 0)
    print(text)
    if page is not None:
        fill(page, f"python benchmarks/map.py --jobs {jobs}", text)


def of_a_state(folder: Path, jobs: int) -> str:
    """Measure the map of a simulated state."""
    if not (folder / "release").exists():
        run([*ODSYNTH, "simulate", str(folder), "--workers", str(jobs)])
        config = folder / "nation.toml"
        said = config.read_text(encoding="utf-8")
        config.write_text(said.replace('["st", "cty"', '["cty"'), encoding="utf-8")  # all of it is one state
        run([*ODSYNTH, "run", str(config)])
    public = folder / "release" / "public"
    load = os.getloadavg()[0]
    opened = Openings(public, folder / "map.html")
    release = open_release(public)
    sizes = ", ".join(f"{release.geography.n_units(level):,} {level}" for level in release.levels)
    workers = release.certificate.totals.synthetic_workers
    about = meta_of(opened.path)["draws"]
    kinds = {f"{t['home']} to {t['work']}" if t["work"] else t["home"]: None for t in about["tables"]}
    site = open_release(public).map(folder / "site" / "map.html", site=True)
    parts = [int(size) for size in re.findall(r'data-bytes="(\d+)"', site.read_text(encoding="utf-8"))]
    sent = len(gzip.compress(site.read_bytes()))
    rows = [
        ["jobs; areas", f"{workers:,}; {sizes}", ""],
        [
            f"with {about['n']} draws ({', '.join(kinds)}): size of the file; time to make it",
            f"{opened.size}; {opened.took:.0f} s",
            "",
        ],
        *opened.rows(),
        [
            "on a site: sent at first, compressed; when it is opened",
            f"{sent / 1e6:.1f} MB; {sum(parts) / 1e6:.1f} MB",
            "",
        ],
    ]
    head = f"Load average at the start {load:.1f}, on {os.cpu_count()} cores; medians of {OPENINGS} openings."
    return f"{head}\n\n{table(['', 'median', 'largest'], rows)}"


def meta_of(path: Path) -> dict[str, Any]:
    """What a page says of its data."""
    found = re.search(r'<script type="application/json" id="meta">(.*?)</script>', path.read_text("utf-8"))
    assert found is not None
    return json.loads(found[1])


class Openings:
    """A map is made and opened some times, and what that takes."""

    def __init__(self, public: Path, path: Path) -> None:
        begin = time.perf_counter()
        self.path = open_release(public).map(path)
        self.took, self.size = time.perf_counter() - begin, f"{path.stat().st_size / 1e6:.1f} MB"
        self.pictures, self.worked, self.bounds = [], [], []
        self.answers, self.opened, self.later, self.memory = [], [], [], []
        for _ in range(OPENINGS):
            self._open()

    def _open(self) -> None:
        with sync_playwright() as driver, Memory() as peak:
            chromium = launch(driver)
            page = open_map(chromium, self.path)
            self.pictures.append(page.evaluate("Number(document.documentElement.dataset.ready)"))
            self.worked.append(1000 * processor_seconds())
            self.bounds.append(page.evaluate(COMPLETE))
            self.answers += choose_some(page)
            before = peak.most
            levels = [option.get_attribute("value") for option in page.locator("#level option").all()]
            self.finest = levels[-1]
            self.opened.append(page.evaluate(OPEN, self.finest))
            page.evaluate(OPEN, levels[0])
            self.later += choose_some(page)
            chromium.close()
        self.memory.append((before, peak.most))

    def rows(self) -> list[list[str]]:
        """What stands in the table."""
        later = [["intervals are there", *seconds(self.bounds)]] if "draws" in meta_of(self.path) else []
        return [
            ["first picture", *seconds(self.pictures)],
            ["processor time of the browser until then", *seconds(self.worked)],
            *later,
            ["an answer", *both(self.answers)],
            [f"the finest areas ({self.finest}) opened and drawn", *seconds(self.opened)],
            ["an answer after that", *both(self.later)],
            ["memory of the browser: at first; with the finest areas", *gigabytes(self.memory)],
        ]


def seconds(milliseconds: list[float]) -> list[str]:
    """Median and largest."""
    return [f"{f(milliseconds) / 1000:.2f} s" for f in (statistics.median, max)]


def both(values: list[tuple[float, float]]) -> list[str]:
    """Median and largest."""
    pairs = [[f(each) for each in zip(*values, strict=True)] for f in (statistics.median, max)]
    return [f"{wall:.0f} ms; {processor:.0f} ms of processor time" for wall, processor in pairs]


def gigabytes(memory: list[tuple[int, int]]) -> list[str]:
    """Median and largest of both."""
    pairs = [[f(each) / 1e9 for each in zip(*memory, strict=True)] for f in (statistics.median, max)]
    return ["; ".join(f"{value:.2f} GB" for value in pair) for pair in pairs]


def choose_some(page: Page) -> list[tuple[float, float]]:
    """Choose areas one by one: milliseconds until each was shown, and of the browser's processor time."""
    took = []
    for row in range(5):
        page.evaluate("document.getElementById('clear').click()")
        page.evaluate(IDLE)
        before = processor_seconds()
        wall = page.evaluate(ANSWER, row)
        took.append((wall, 1000 * (processor_seconds() - before)))
    return took


def browser_processes() -> list[psutil.Process]:
    """Return the processes of the browser, also those that end meanwhile."""
    return [one for one in psutil.Process().children(recursive=True) if "chrom" in name_of(one)]


def name_of(process: psutil.Process) -> str:
    """Return the name of a process, none if it has ended."""
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def processor_seconds() -> float:
    """Return what the browser has worked so far, all its processes."""
    times = [one.cpu_times() for one in browser_processes()]
    return sum(time.user + time.system for time in times)


class Memory:
    """Looks at the memory of the browser that is started meanwhile, all of it; keeps the peak."""

    def __init__(self) -> None:
        self.most = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(PAUSE):
            self.most = max(self.most, sum(map(resident, browser_processes())))


def resident(process: psutil.Process) -> int:
    """Return the memory of a process in bytes, 0 if it has ended."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def run(command: list[str]) -> None:
    """Run a command of the program."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(public: Path, images: Path | None) -> None:
    """Measure the map of a release, and take its pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        begin = time.perf_counter()
        path = open_release(public).map(Path(folder) / "map.html")
        print(f"{path.stat().st_size / 1e6:.2f} MB, made in {time.perf_counter() - begin:.1f} s")
        chromium = launch(driver)
        print(f"chromium {chromium.version}")
        ready, chosen = [], []
        for _ in range(LOADS):
            page = open_map(chromium, path)
            ready.append(page.evaluate("Number(document.documentElement.dataset.ready)"))
            chosen.append(milliseconds(page, "document.querySelector('#top button').click()"))
            page.context.close()
        print(f"answers {statistics.median(ready) / 1000:.2f} s after it is opened (median of {LOADS})")
        print(f"an area is chosen in {statistics.median(chosen):.0f} ms, without drawing")
        page = open_map(chromium, path)
        for level in page.locator("#level option").all():
            value = level.get_attribute("value")
            print(f"level {value}: {page.evaluate(OPEN, value):.0f} ms, drawn")
        page.context.close()
        if images is not None:
            take(chromium, path, images, open_release(public).certificate.release.state)
        chromium.close()


def open_map(chromium: Any, path: Path, **context: Any) -> Page:
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
        page = open_map(chromium, path, **context)
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
        if view not in ("dark", "many"):
            page.locator("#panel").evaluate("(panel) => panel.scrollTo(0, 0)")
        page.evaluate("window.scrollTo(0, 0)")
        page.evaluate(IDLE)
        page.screenshot(path=folder / f"map_{name}_{view}.png")
        page.context.close()


if __name__ == "__main__":
    main()
