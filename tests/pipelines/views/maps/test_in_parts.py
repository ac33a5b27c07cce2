"""A map that opens with its coarser levels, and reads the rest, from itself or a site, when it is wanted."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pipelines import PosteriorDraws
from pipelines.views.maps import payload
from pipelines.views.maps.page import PARTS
from pipelines.views.release import Release

from .conftest import without_draws
from .map_reader import Reader

pytestmark = pytest.mark.slow

SEEN = [
    "chosen",
    "counts-of",
    "jobs",
    "mean",
    "median",
    "commute-of",
    "balance",
    "top",
    "top-count",
    "flow-count",
    "placed",
]
FAILURES = {
    "code": ("refuse", "the site answered 404"),
    "radius": ("cut", r"\d\.\d of \d\.\d MB came"),
}
HASH = "(hash) => { location.hash = hash; }"


def tracts_only(release: Release) -> int:
    """So many bytes that tracts are read at once, and finer levels are not."""
    sizes = [
        len(made.arrays) + len(made.texts)
        for n in (-2, -1)
        for made in [payload._payload(release, release.levels[:n], {})]
    ]
    assert sizes[0] < sizes[1]
    return sizes[0]


@pytest.fixture
def parted(layered: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> Path:
    """The map of the layered release, as if little were read at once."""
    monkeypatch.setattr(payload, "_AT_ONCE", tracts_only(layered))
    return layered.map(tmp_path / "map.html")


class Site(SimpleHTTPRequestHandler):
    """A web server of a folder, which cuts what it sends of parts, or has none of them, if asked to."""

    does = "send"

    def copyfile(self, source: Any, outputfile: Any) -> None:
        if PARTS in Path(self.path).parts and Site.does == "cut":
            outputfile.write(source.read(1000))
        else:
            shutil.copyfileobj(source, outputfile)

    def send_head(self) -> Any:
        if PARTS in Path(self.path).parts and Site.does == "refuse":
            return self.send_error(404)
        return super().send_head()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a server of it."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(Site, "does", "send")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_is_large_lies_beside_the_page_of_a_site(
    parted: Path, layered: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed, under the names of its content; what is small stays inside, and one file has it all."""
    page = layered.map(tmp_path / "at" / "index.html", site=True)
    text, whole = page.read_text(), parted.read_text()
    named = dict(re.findall(rf'data-address="{PARTS}/([^"]+)" data-bytes="(\d+)"></script>', text))
    assert {name.rpartition("-")[0] for name in named} == {"draws", "whole-arrays", "whole-texts"}
    for name, size in named.items():
        part = (page.parent / PARTS / name).read_bytes()
        assert len(part) == int(size)
        assert gzip.decompress(part)
    (one_file,) = re.findall(rf'href="{PARTS}/([^"]+)"', text)
    assert (page.parent / PARTS / one_file).read_text() == whole
    assert {path.name for path in (page.parent / PARTS).iterdir()} == {*named, one_file}
    policies = [re.findall(r'Policy" content="([^"]+)"', each)[0] for each in (whole, text)]
    assert policies[1] == f"{policies[0]}; connect-src 'self'"
    monkeypatch.undo()  # as it is, all of this is small
    small = layered.map(tmp_path / "small" / "map.html", site=True)
    assert small.read_bytes() == layered.map(tmp_path / "one-file.html").read_bytes()
    assert [path.name for path in small.parent.iterdir()] == [small.name]


def failed(reader: Reader, way: str) -> None:
    """Wait until the page says that what is beside it was not opened; then let it try again."""
    reader.page.wait_for_selector("#loading button")
    words = rf"(Blocks|Intervals) were not opened: {FAILURES[way][1]}\. Nothing of them is shown\. Try again"
    assert re.fullmatch(words, reader.text("loading"))
    Site.does = "send"
    reader.page.click("#loading button")


def test_finer_levels_are_read_when_they_are_wanted(
    browser: Any, parted: Path, layered_file: Path, layered: Release, site: tuple[Path, str]
) -> None:
    """By the list, a search, an outline, a link; then all is as in a map that has them at once.

    From the file or, where the server does not send all at once, from a site.
    """
    first = layered.places("tabblk2010").dropna().iloc[0]
    tract = str(layered.geography.codes("trct")[0])
    ring = [f"{first.latitude + y:.5f},{first.longitude + x:.5f}" for x, y in ((-1, -1), (1, -1), (0, 1))]
    link = f"level=trct&side=work&chosen=outline:{' '.join(ring)}"

    def search(page: Any, words: str) -> None:
        page.fill("#search", words)
        page.press("#search", "Enter")

    def around(page: Any) -> None:
        page.evaluate("document.getElementById('several').open = true")
        page.click("#around-chosen")

    ways: dict[str, Callable[[Any], None]] = {
        "level": lambda page: page.select_option("#level", "tabblk2010"),
        "code": lambda page: search(page, str(first.code)),
        "radius": around,
        "link": lambda page: page.evaluate(HASH, link),
    }
    on_site, parted = without_draws(layered.map(site[0] / "map.html", site=True)), without_draws(parted)
    address = f"{site[1]}/map.html"
    with Reader(browser, layered_file) as at_once:
        for way, go in ways.items():
            at_once.reset()
            at_once.hold()
            fails = way in FAILURES
            with Reader(browser, on_site if fails else parted, site=address if fails else "") as reader:
                assert "until blocks are opened" in reader.text("commute-of")
                assert reader.page.is_hidden("#loading")
                pages = (reader.page, at_once.page)
                for page in pages:
                    page.evaluate(HASH, f"level=trct&side=work&chosen=trct:{tract}")
                    page.wait_for_selector("#clear")
                assert "until blocks are opened" in reader.text("commute-of"), way
                Site.does = FAILURES.get(way, ("send",))[0]
                for page in pages:
                    go(page)
                if fails:
                    failed(reader, way)
                reader.page.locator("#commute-of", has_not_text="until").wait_for()
                assert reader.page.is_hidden("#loading")
                for each in (reader, at_once):
                    each.settle()
                seen = [
                    (each.page.input_value("#level"), *map(each.text, SEEN)) for each in (reader, at_once)
                ]
                assert seen[0] == seen[1], way
                options = [each.page.locator("#level option").all_inner_texts() for each in (reader, at_once)]
                assert options[0] == options[1]
                complaints = [each for each in reader.complaints if "Failed to load" not in each]
                assert complaints == at_once.complaints == []


def test_large_draws_are_fetched_when_intervals_are_wanted(
    browser: Any,
    bounded: tuple[PosteriorDraws, Path],
    mapped: Release,
    site: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a file they come after the first picture; then all is as in a map that has them at once."""
    _, at_once = bounded
    monkeypatch.setattr(payload, "_AT_ONCE", 0)
    chosen = f"level=trct&side=home&chosen=trct:{mapped.geography.codes('trct')[0]}"

    def seen(reader: Reader) -> list[str]:
        reader.page.evaluate(HASH, chosen)
        reader.page.wait_for_selector("#clear")
        return [reader.text("jobs-interval"), *map(reader.text, SEEN)]

    with Reader(browser, at_once) as reader:
        wanted = seen(reader)
    assert "True number" in wanted[0]
    page = mapped.map(site[0] / "map.html", site=True)
    with Reader(browser, page, site=f"{site[1]}/map.html") as reader:
        assert seen(reader)[0] == ""
        Site.does = "cut"
        reader.page.click("#open-intervals")
        failed(reader, "radius")
        reader.page.wait_for_selector("#open-intervals", state="hidden")
        assert seen(reader) == wanted
        assert [url for url in reader.requests if not url.startswith((site[1], "blob:", "data:"))] == []
    with Reader(browser, mapped.map(site[0] / "one.html")) as reader:
        reader.page.locator("#loading", has_not_text=re.compile(".")).wait_for(state="attached")
        assert seen(reader) == wanted
