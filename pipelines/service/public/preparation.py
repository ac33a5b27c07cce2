"""What is made of a release once, when it is published, so that readers do not wait.

::

    CACHE/SHA256/map*.html      the page of the map (`pipelines.views.maps.build_site_map`), and compressed
    CACHE/SHA256/map/           what that fetches when it is opened: large parts, and one file of all
    CACHE/SHA256/flows/         the flows, ready for questions (`pipelines.service.public.flow_tables`)
    CACHE/SHA256/draws/         the draws, ready for questions (`pipelines.service.public.draw_tables`)
    CACHE/SHA256/tiles/         areas as vector tiles (`pipelines.service.public.tiles`)
    CACHE/SHA256/picture.svg    the map at a glance (`pipelines.views.maps.picture`)
    CACHE/SHA256/key_figures.json  key figures (`pipelines.views.key_figures`)

The names are of the content, those of parts of maps of theirs; those of pages are of the water and roads too
that went into them. So nothing here is out of date but by another version of the program (docs/deployment.md,
*Upgrade*), and all of it may be deleted at any time.
"""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

from pydantic import TypeAdapter

from geo_data.errors import InputError
from pipelines.release.intervals import INTERVALS_FILE
from pipelines.service.public.draw_tables import write_draw_tables
from pipelines.service.public.flow_tables import write_flow_tables
from pipelines.service.public.tiles import write_tiles
from pipelines.storage.durable import whole_file, write_whole
from pipelines.views.folder import PublicReleaseError
from pipelines.views.key_figures import KeyFigures, key_figures
from pipelines.views.maps.backdrop import Backdrop
from pipelines.views.maps.page import PARTS, SiteMap, build_site_map, write_parts
from pipelines.views.maps.picture import draw_picture
from pipelines.views.release import Release, open_release

_LOOK_SECONDS = 3.0
_VERSIONS = "/api/v1/releases"  # which a map offers to lay beside itself
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """Where what was made of a release lies; a file is there, whole, or not at all."""

    folder: Path
    backdrop: Backdrop | None = None  # Water and roads of the map

    @cached_property  # the name is of the files before they are read
    def map(self) -> Path:
        """The page of the map; another file when water or roads are others."""
        if self.backdrop is None:
            return self.folder / "map.html"
        files = map(_mark, (self.backdrop.water, self.backdrop.roads))
        state = repr([self.backdrop.attribution, *files])
        return self.folder / f"map-{sha256(state.encode()).hexdigest()[:16]}.html"

    @property
    def compressed_map(self) -> Path:
        """The same page with gzip."""
        return self.map.with_suffix(".html.gz")

    def map_part(self, name: str) -> Path | None:
        """Return a file that a page of the map fetches; None if there is none of this name."""
        # A name that was asked for is looked up, never joined to a path.
        return next((path for path in self.folder.glob(f"{PARTS}/*") if path.name == name), None)

    @property
    def figures(self) -> Path:
        """The key figures."""
        return self.folder / "key_figures.json"

    @property
    def picture(self) -> Path:
        """The picture of the map."""
        return self.folder / "picture.svg"

    @property
    def flows(self) -> Path:
        """The folder of flow tables."""
        return self.folder / "flows"

    @property
    def draws(self) -> Path:
        """The folder of draws; not there where the release's file is damaged."""
        return self.folder / "draws"

    @property
    def tiles(self) -> Path:
        """The folder of vector tiles."""
        return self.folder / "tiles"

    @property
    def complete(self) -> bool:
        """Whether everything has been made."""
        folders, files = (self.draws, self.flows, self.tiles), (self.map, self.picture, self.figures)
        return all(folder.is_dir() for folder in folders) and all(file.is_file() for file in files)


def prepare(folder: Path, prepared: Prepared) -> None:
    """Make what is missing."""
    prepared.folder.mkdir(exist_ok=True)
    release = open_release(folder)
    if not prepared.draws.is_dir():  # before flows, which wait for them to be shown with intervals
        try:
            with whole_file(prepared.draws, mode=None) as made:
                write_draw_tables(release, made)
        except PublicReleaseError:  # no reason to show nothing of the release
            _log.warning("%s is not used: it is damaged", INTERVALS_FILE)
    if not prepared.flows.is_dir():
        with whole_file(prepared.flows, mode=None) as made:
            write_flow_tables(release, made)
    if not prepared.tiles.is_dir():
        with whole_file(prepared.tiles, mode=None) as made:
            write_tiles(release, prepared.flows, made)
    if not prepared.picture.is_file():
        write_whole(prepared.picture, draw_picture(release), mode=None)
    if prepared.complete:
        return
    if not prepared.map.is_file():
        # Without the library that draws maps there is none, and all else works.
        with suppress(FileNotFoundError):
            site_map = _map(release, prepared.backdrop)
            if site_map.parts:
                write_parts(site_map, prepared.folder / PARTS)
            compressed = gzip.compress(site_map.page.encode(), mtime=0)
            write_whole(prepared.compressed_map, compressed, mode=None)
            write_whole(prepared.map, site_map.page, mode=None)  # last: with it the map is complete
    if not prepared.figures.is_file():
        figures = key_figures(release)
        write_whole(prepared.figures, TypeAdapter(KeyFigures | None).dump_json(figures), mode=None)


def _map(release: Release, backdrop: Backdrop | None) -> SiteMap:
    """Return the map, without a backdrop that cannot be used."""
    try:
        return build_site_map(release, backdrop, versions=_VERSIONS)
    except InputError as error:
        _log.warning("water and roads are not used: %s", type(error).__name__)
        return build_site_map(release, versions=_VERSIONS)


def _mark(path: Path | None) -> tuple[str, int, int] | None:
    try:
        info = None if path is None else path.stat()
    except OSError:
        return None
    return info and (str(path), info.st_size, info.st_mtime_ns)


class Preparation:
    """Prepares releases in the background, one after the other, in a process that ends with its work.

    A process, so that the seconds that the map of a large release takes are not taken from those who ask.
    """

    def __init__(self, cache: Path, backdrop: Backdrop | None = None) -> None:
        self._cache, self._backdrop = cache, backdrop
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, content: str) -> Prepared:
        """Return where what is made of a content lies."""
        return Prepared(self._cache / content, self._backdrop)

    def start(self, versions: Callable[[], Iterable[tuple[str, Path]]]) -> None:
        """Begin; `versions` gives, whenever it is called, hashes and public folders of what to prepare."""
        self._end.clear()
        self._thread = threading.Thread(target=self._work, args=(versions,), daemon=True, name="preparation")
        self._thread.start()

    def stop(self) -> None:
        """End, at once."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self, versions: Callable[[], Iterable[tuple[str, Path]]]) -> None:
        tried: set[Path] = set()  # what cannot be prepared is not tried again before the next start
        while not self._end.is_set():
            with suppress(Exception):  # the folder may be on a disk that is away for a while
                for sha256, folder in versions():
                    prepared = self.of(sha256)
                    if prepared.map not in tried and not prepared.complete:
                        tried.add(prepared.map)
                        self._prepare(sha256, folder, prepared)
                    if self._end.is_set():
                        return
            self._end.wait(_LOOK_SECONDS)

    def _prepare(self, sha256: str, folder: Path, prepared: Prepared) -> None:
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        future = pool.submit(prepare, folder, prepared)
        try:
            while not future.done():
                if self._end.wait(0.1):
                    for process in list(pool._processes.values()):
                        process.terminate()
                    return
            future.result()
        except BrokenProcessPool:
            _log.error("preparing %s failed: its process was ended", sha256)
        except Exception as error:
            _log.error("preparing %s failed: %s", sha256, type(error).__name__)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
