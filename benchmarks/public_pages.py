"""The public pages in a browser: barriers, width, keys, what they load; and pictures for the documentation.

Usage: python benchmarks/public_pages.py OUT [OUT ...] [--images FOLDER]

Each OUT is the folder of a release that is fit for publication. They are published in this order into a
temporary folder; the service is started on it. Every public page is opened on a phone and on a laptop, in
light and in dark. What axe-core finds, what is wider than the screen, what Tab does not reach or does not
show, what is asked of other hosts, and what the browser complains of, is an error; also when the last release
has errata, and when it was withdrawn. With --images, writes public_*.png into FOLDER. npm fetches axe-core;
the browser is a headless chromium.
"""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import click
from browser import fetch_axe, launch, violations
from checkouts import ROOT, environment, odsynth, publish
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import pipelines
from pipelines.service.public.catalog import Catalog, Version
from pipelines.service.settings import load_settings

SIZES = {"phone": {"width": 390, "height": 844}, "laptop": {"width": 1280, "height": 800}}
SCHEMES = ("light", "dark")
TALL, COLOURS, GAP = 1900, 128, 24  # of pictures
SEEN = 6  # seconds after which a service has seen what was published, withdrawn or corrected
CONFIG = """
folder = "state"
port = {port}
workers = 0
log = "service.log"
publisher = "Office of Statistics"
contact = "data@example.org"
public_url = "https://data.example.org"
"""
OPEN = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTROLS = "a[href], button, input, select, summary"
FOCUSED = """() => {
    const { activeElement: element } = document;
    return [element.outerHTML.slice(0, 100), parseFloat(getComputedStyle(element).outlineWidth) >= 2];
}"""


@click.command()
@click.argument(
    "outs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option("--images", type=click.Path(path_type=Path, file_okay=False), help="Also write pictures there.")
def main(outs: tuple[Path, ...], images: Path | None) -> None:
    """Look, and print."""
    with (
        tempfile.TemporaryDirectory() as folder,
        published(Path(folder), outs) as (address, catalog),
        sync_playwright() as driver,
    ):
        chromium = launch(driver)
        look = Look(chromium, address, fetch_axe(Path(folder)))
        newest: Version = catalog.versions()[0]
        pages = addresses(catalog, newest)
        for page in pages:
            look.at(page)
        look.by_keys("/", newest.page, f"{newest.page}/flows")
        for remark in (pipelines.erratum, pipelines.withdraw):
            if images is not None and remark is pipelines.erratum:
                for name, page in (("home", "/"), ("release", newest.page)):
                    take(chromium, f"{address}{page}", images / f"public_{name}.png")
            remark(catalog.place, newest.state.name, newest.state.version, "Block 7 is in the wrong county.")
            time.sleep(SEEN)
            for page in ("/", f"/releases/{newest.state.name}", newest.page):
                look.at(page)
        print(f"{look.number} views of {len(pages)} pages; {len(look.problems)} problems")
        if look.problems:
            raise click.ClickException("\n".join(look.problems))
        chromium.close()


@contextmanager
def published(folder: Path, outs: Sequence[Path], program: Path = ROOT) -> Iterator[tuple[str, Catalog]]:
    """A service of a program, by default this one, with releases that it made: address, and what it has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    (folder / "service.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
    settings = load_settings(folder / "service.toml", {})
    for number, out in enumerate(outs, 1):
        publish(program, out, settings.releases, f"2026.{number}")
        time.sleep(1)  # the order of publications is that of their seconds
    # In a process of its own: here `limits` is another program of this folder, not the library.
    command = odsynth(program, "serve", folder / "service.toml")
    process = subprocess.Popen(command, env=environment(), cwd=program)
    try:
        catalog = Catalog(settings)
        address = f"http://127.0.0.1:{port}"
        for version in catalog.versions():
            while not is_there(f"{address}{version.page}/map"):
                time.sleep(0.5)
        time.sleep(SEEN)
        yield address, catalog
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def is_there(address: str) -> bool:
    """Whether a page is given out; what another program has made ready only that program knows."""
    try:
        with urlopen(address) as response:
            return bool(response.status == 200)
    except OSError:  # not yet
        return False


def addresses(catalog: Catalog, newest: Version) -> list[str]:
    """Every public page: of all series and versions, and of the newest its answers, too."""
    release = catalog.opened(newest).release
    level = release.levels[min(1, len(release.levels) - 1)]
    code = release.geography.codes(level)[-1]
    flows = [f"{newest.page}/flows?{asked}" for asked in (f"area={code}", "area=nowhere", "area=c")]
    pages = [each for version in catalog.versions() for each in (version.page, f"{version.page}/columns")]
    series = dict.fromkeys(f"/releases/{version.state.name}" for version in catalog.versions())
    return ["/", *series, *pages, f"{newest.page}/flows", *flows, "/api", "/nothing"]


class Look:
    """Looks at pages, and keeps what is wrong with them."""

    def __init__(self, chromium: Browser, address: str, axe: str) -> None:
        self._chromium, self._address, self._axe = chromium, address, axe
        self.number, self.problems = 0, list[str]()

    @contextmanager
    def _opened(self, path: str, size: str, scheme: Any) -> Iterator[Page]:
        context = self._chromium.new_context(viewport=SIZES[size], color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        where = f"{path}, {size}, {scheme}"
        hosts: set[str] = set()
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.on("console", lambda said: self._said(where, said.type, said.text))
        page.goto(f"{self._address}{path}")
        yield page
        if elsewhere := hosts - {urlsplit(self._address).netloc, ""}:
            self.problems.append(f"{where}: asks {elsewhere}")
        context.close()

    def _said(self, where: str, kind: str, text: str) -> None:
        # Of pages that are not there, or were withdrawn, the browser says so.
        if kind in ("error", "warning") and "status of 4" not in text:
            self.problems.append(f"{where}: {text}")

    def at(self, path: str) -> None:
        """Look at a page at every size in both schemes."""
        for size in SIZES:
            for scheme in SCHEMES:
                with self._opened(path, size, scheme) as page:
                    self.number += 1
                    where = f"{path}, {size}, {scheme}"
                    page.evaluate(OPEN)
                    self.problems += [f"{where}: {each}" for each in violations(page, self._axe)]
                    if (wider := page.evaluate(WIDER)) > 0:
                        self.problems.append(f"{where}: {wider} pixels wider than the screen")

    def by_keys(self, *paths: str) -> None:
        """Go through pages by Tab, which must reach every control and show where it is."""
        for path in paths:
            with self._opened(path, "laptop", "light") as page:
                controls = page.locator(CONTROLS).all()
                visible = [
                    each.evaluate("(e) => e.outerHTML.slice(0, 100)")
                    for each in controls
                    if each.is_visible()
                ]
                reached = []
                for _ in range(len(controls) + 1):
                    page.keyboard.press("Tab")
                    element, shown = page.evaluate(FOCUSED)
                    reached.append(element)
                    if not shown and not element.startswith("<body"):
                        self.problems.append(f"{path}: nothing shows that this has the focus: {element}")
                # Of radio buttons Tab reaches the chosen one, from which arrows go on.
                missed = {each for each in visible if 'type="radio"' not in each} - set(reached)
                self.problems += [f"{path}: Tab does not reach {each}" for each in missed]


def take(chromium: Browser, address: str, path: Path) -> None:
    """Write a picture of a page: on a laptop in light, and on a phone in dark."""
    shots = []
    for size, scheme in (("laptop", "light"), ("phone", "dark")):
        context = chromium.new_context(viewport=SIZES[size], color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(address)
        shot = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
        shots.append(shot.crop((0, 0, shot.width, min(shot.height, TALL))))
        context.close()
    both = Image.new(
        "RGB", (sum(shot.width for shot in shots) + GAP, max(shot.height for shot in shots)), "#888"
    )
    both.paste(shots[0], (0, 0))
    both.paste(shots[1], (shots[0].width + GAP, 0))
    both.quantize(COLOURS).save(path, optimize=True)
    print(f"  {path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
