"""What is made of a release once, when it is published, so that readers do not wait.

::

    CACHE/SHA256/map.html       the map, in one file (`pipelines.build_map`)
    CACHE/SHA256/flows/         the flows, ready for questions (`pipelines.service.public.flow_tables`)
    CACHE/SHA256/tiles/         areas as vector tiles (`pipelines.service.public.tiles`)
    CACHE/SHA256/picture.svg    the map at a glance (`pipelines.service.public.pictures`)
    CACHE/SHA256/figures*.json  key figures (`pipelines.views.key_figures`), and once more with
                                intervals where posterior draws lie beside the version

The names are of the content, so nothing here is ever out of date, and all of it may be deleted at any time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from pydantic import TypeAdapter

from pipelines.release.reader import PublicRelease, PublicReleaseError, read_public_release
from pipelines.service.public.flow_tables import write_flow_tables
from pipelines.service.public.pictures import write_picture
from pipelines.service.public.tiles import write_tiles
from pipelines.storage.durable import whole_file, write_whole
from pipelines.views.intervals import PosteriorDraws
from pipelines.views.key_figures import KeyFigures, key_figures
from pipelines.views.maps import build_map

__all__ = ["DrawsMark", "Preparation", "Prepared", "draws_file", "draws_mark", "prepare"]

DrawsMark = tuple[int, int]

_LOOK_SECONDS = 3.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """Where what was made of a release lies; a file is there, whole, or not at all.

    Attributes
    ----------
    folder : Path
    """

    folder: Path

    @property
    def map(self) -> Path:
        """The map."""
        return self.folder / "map.html"

    @property
    def flows(self) -> Path:
        """The folder of flow tables."""
        return self.folder / "flows"

    @property
    def tiles(self) -> Path:
        """The folder of vector tiles."""
        return self.folder / "tiles"

    @property
    def picture(self) -> Path:
        """The picture of the map."""
        return self.folder / "picture.svg"

    def figures(self, draws: DrawsMark | None) -> Path:
        """The key figures, with intervals from draws with this mark (`draws_mark`)."""
        return self.folder / ("figures.json" if draws is None else f"figures-{draws[0]}-{draws[1]}.json")

    def complete(self, draws: DrawsMark | None) -> bool:
        """Whether everything has been made."""
        files = (self.map, self.picture, self.figures(None), self.figures(draws))
        return self.flows.is_dir() and self.tiles.is_dir() and all(file.is_file() for file in files)


def draws_file(folder: Path) -> Path:
    """Return where posterior draws of a version lie, if there are any: beside its folder."""
    return folder.with_name(f"{folder.name}.draws.parquet")


def draws_mark(folder: Path) -> DrawsMark | None:
    """Return size and time of the file of draws of a version; None if there is none."""
    try:
        info = draws_file(folder).stat()
    except OSError:
        return None
    return info.st_size, info.st_mtime_ns


def prepare(folder: Path, prepared: Prepared) -> None:
    """Make what is missing.

    Parameters
    ----------
    folder : Path
        The public folder of a release.
    prepared : Prepared
        Where to put it.
    """
    prepared.folder.mkdir(exist_ok=True)
    if not prepared.flows.is_dir():
        with whole_file(prepared.flows, mode=None) as made:
            write_flow_tables(read_public_release(folder), made)
    if not prepared.tiles.is_dir():
        with whole_file(prepared.tiles, mode=None) as made:
            write_tiles(read_public_release(folder), prepared.flows, made)
    if not prepared.map.is_file():
        # Without the library that draws maps there is none, and all else works.
        with suppress(FileNotFoundError):
            write_whole(prepared.map, build_map(folder), mode=None)
    if not prepared.picture.is_file():
        write_picture(read_public_release(folder), prepared.flows, prepared.picture)
    if not prepared.figures(None).is_file():
        _write_figures(read_public_release(folder), prepared, None)
    if not prepared.figures(mark := draws_mark(folder)).is_file():
        _write_figures(read_public_release(folder), prepared, mark)


def _write_figures(release: PublicRelease, prepared: Prepared, mark: DrawsMark | None) -> None:
    found = key_figures(release)
    if mark is not None:
        # Draws of another content, or damaged ones, give no intervals.
        with suppress(PublicReleaseError, OSError):
            found = key_figures(release, PosteriorDraws(release, draws_file(release.folder)))
    write_whole(prepared.figures(mark), TypeAdapter(KeyFigures | None).dump_json(found), mode=None)


class Preparation:
    """Prepares releases in the background, one after the other, in a process that ends with its work.

    A process, so that the seconds that the map of a large release takes are not taken from those who ask.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, sha256: str) -> Prepared:
        """Return where what is made of a content lies."""
        return Prepared(self._cache / sha256)

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
        tried: set[tuple[str, DrawsMark | None]] = (
            set()
        )  # what cannot be prepared is not tried again before the next start
        while not self._end.is_set():
            with suppress(Exception):  # the folder may be on a disk that is away for a while
                for sha256, folder in versions():
                    mark = draws_mark(folder)
                    if (sha256, mark) not in tried and not self.of(sha256).complete(mark):
                        tried.add((sha256, mark))
                        self._prepare(sha256, folder)
                    if self._end.is_set():
                        return
            self._end.wait(_LOOK_SECONDS)

    def _prepare(self, sha256: str, folder: Path) -> None:
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        future = pool.submit(prepare, folder, self.of(sha256))
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
