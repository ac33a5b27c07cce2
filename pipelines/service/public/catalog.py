"""What is published, as the public side shows it: read from the folder of publications, not from a database.

A version is shown when its publication is complete. What was withdrawn stays visible, with the reason, but
its data are not given out any more; what is damaged on disk is not given out either.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from pipelines.publishing.publishing import Published, published
from pipelines.release.certificate import Certificate, parse_certificate
from pipelines.release.corrections import CORRECTION_FILE
from pipelines.release.signing import UNSEALED
from pipelines.service.public.areas import Areas, Shapes, area_jobs, count_lines, read_areas
from pipelines.service.public.draw_tables import MappedDraws
from pipelines.service.public.flow_queries import (
    Flows,
    FlowTables,
    Int64,
    LargestFlows,
    Selection,
    flow_batches,
    has_bounds,
    largest_flows,
    rows_to_read,
    with_estimates,
)
from pipelines.service.public.preparation import Preparation, Prepared
from pipelines.service.refusals import not_found, preparing
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.views.folder import PublicReleaseError
from pipelines.views.intervals.reading import PosteriorDraws
from pipelines.views.key_figures import KeyFigures
from pipelines.views.maps.backdrop import Backdrop
from pipelines.views.maps.page import levels_of_map
from pipelines.views.release import Release, open_release

_KEPT_SECONDS = 4.0  # a withdrawal is seen that late
_LOOK_SECONDS = 1.0  # after which the thread that prepares looks itself, so that nobody who asks waits for it
_SETTLED_NS = 2_000_000_000
_AGAIN_SECONDS = 0.1  # after which it is looked again for a version that is not known
_OPEN_VERSIONS = 24  # a question about a series opens all of its years
_OPEN_LEVELS = 16  # of each
_WRITTEN, _BOUNDED = 30, 30  # times as long as to add up a row it takes to write it, and to find its interval


@dataclass(frozen=True)
class File:
    """A file of a version."""

    name: str  # Relative to the version's folder, with slashes
    size: int  # Bytes
    # As SHA256SUMS says; of SHA256SUMS and the signatures, which it does not list, what was found
    sha256: str
    path: Path

    @property
    def digest(self) -> str:
        """The hash in base64, as HTTP writes it (RFC 9530)."""
        return base64.b64encode(bytes.fromhex(self.sha256)).decode()


@dataclass(frozen=True)
class Version:
    """A published version."""

    state: Published  # Its name, version, withdrawal and errata
    # Damaged also where `published` does not look: the certificate is not the one that was published
    status: str
    folder: Path
    certificate: Certificate | None  # None if it cannot be read
    files: Mapping[str, File]  # By name; what the folder holds besides is not published

    @property
    def sha256(self) -> str:
        """Hash of all its content."""
        return self.state.sha256

    @property
    def title(self) -> str:
        """What it is called, with its year."""
        return self.certificate.release.title if self.certificate else self.state.name

    @property
    def kind(self) -> tuple[str, str] | None:
        """Of which state, and of which type, the jobs are that it counts; None if that cannot be read."""
        if self.certificate is None:
            return None
        return self.certificate.release.state, self.certificate.release.job_type

    @property
    def page(self) -> str:
        """Where its page is, from the root of the service; below ``/api/v1`` the API has the version."""
        return _page(self.state.name, self.state.version)

    def address(self, file: File) -> str:
        """Return where a file is downloaded, from the root of the service."""
        return f"{self.page}/files/{file.name}"


@dataclass(frozen=True)
class Year:
    """A year of a series: the version that stands for it, and the others, those that can be used first."""

    year: int | None  # None of versions whose certificate cannot be read
    # The newest of those that can be used; of none, the newest
    version: Version
    others: tuple[Version, ...]

    @property
    def versions(self) -> tuple[Version, ...]:
        """All of them."""
        return self.version, *self.others


@dataclass(frozen=True)
class Series:
    """All versions of a release, by year."""

    name: str
    years: tuple[Year, ...]  # newest first; several of one year if they count jobs of several types

    @classmethod
    def of(cls, name: str, versions: Iterable[Version]) -> Series:
        """Put versions of a name in order, which come newest first."""
        groups: dict[tuple[int | None, tuple[str, str] | None], list[Version]] = {}
        for version in versions:
            year = None if version.certificate is None else version.certificate.release.year
            groups.setdefault((year, version.kind), []).append(version)
        years = []
        # Of a year with several kinds, all jobs (JT00) come before others, whichever was corrected last.
        for (year, _), group in sorted(
            groups.items(), key=lambda each: (-(each[0][0] or 0), each[0][1] or ())
        ):
            first, *others = sorted(group, key=lambda version: version.status != "complete")
            years.append(Year(year, first, tuple(others)))
        return cls(name, tuple(years))

    @classmethod
    def every(cls, versions: Iterable[Version]) -> list[Series]:
        """Return all releases: those that can be used first, and then those with the newest version."""
        groups: dict[str, list[Version]] = {}
        for version in versions:
            groups.setdefault(version.state.name, []).append(version)
        every = (cls.of(name, group) for name, group in groups.items())
        return sorted(every, key=lambda series: not series.usable)

    @property
    def usable(self) -> list[Version]:
        """The versions to be used, one for each year that has one."""
        return [each.version for each in self.years if each.version.status == "complete"]

    @property
    def first(self) -> Version:
        """The version to be used of the newest year; if none can be used, that of the newest year."""
        return next(iter(self.usable), self.years[0].version)

    @property
    def alike(self) -> list[Version]:
        """The versions to be used that count the same kind of jobs as the first: of one year each."""
        return [version for version in self.usable if version.kind == self.first.kind]

    @property
    def several_kinds(self) -> bool:
        """Whether its versions count jobs of several kinds."""
        return len({version.kind for version in self.versions} - {None}) > 1

    @property
    def versions(self) -> list[Version]:
        """All of them, year by year."""
        return [version for each in self.years for version in each.versions]

    @property
    def title(self) -> str:
        """What it is called."""
        certificate = self.first.certificate
        return certificate.release.name if certificate else self.name

    @property
    def page(self) -> str:
        """Where its page is, from the root of the service; below ``/api/v1`` the API has it."""
        return f"/releases/{self.name}"

    @property
    def usable_years(self) -> list[int]:
        """The years that have a version to be used, the first first."""
        return sorted({each.year for each in self.years if each.year and each.version.status == "complete"})

    @property
    def span(self) -> str:
        """These years in words, as "2015, 2017 to 2019"."""
        runs: list[list[int]] = []
        for year in self.usable_years:
            if not runs or year > runs[-1][-1] + 1:
                runs.append([])
            runs[-1].append(year)
        return ", ".join(" to ".join(map(str, dict.fromkeys((run[0], run[-1])))) for run in runs)

    def year_of(self, version: Version) -> Year:
        """Return the year of one of its versions."""
        return next(each for each in self.years if version.page in {v.page for v in each.versions})


class OpenVersion:
    """What a usable version holds, opened when it is asked for; its folder does not change."""

    def __init__(self, folder: Path, sha256: str, preparation: Preparation) -> None:
        self.name, self.version = folder.parent.name, folder.name
        self.page = _page(self.name, self.version)
        self.folder, self.sha256 = folder, sha256
        self._preparation = preparation
        self.areas = lru_cache(maxsize=_OPEN_LEVELS)(self._read_areas)
        self.shapes = lru_cache(maxsize=_OPEN_LEVELS)(self._read_shapes)
        self.jobs = lru_cache(maxsize=_OPEN_LEVELS)(self._count_jobs)
        self.number_of_lines = lru_cache(maxsize=_OPEN_LEVELS)(self._count_lines)

    @cached_property
    def release(self) -> Release:
        """The release."""
        try:
            return open_release(self.folder)
        except PublicReleaseError:
            raise _damaged() from None

    @property
    def prepared(self) -> Prepared:
        """Where its map and its tables are, or will be."""
        return self._preparation.of(self.sha256)

    @cached_property
    def _tables(self) -> FlowTables:
        if not self.prepared.flows.is_dir():
            raise preparing("the tables")
        return FlowTables(self.prepared.flows)

    def flows(self, selection: Selection, after: tuple[int, ...] | None = None) -> Iterator[Flows]:
        """Return flows, some at a time, without intervals (`flow_batches`)."""
        return flow_batches(self._tables, selection, after)

    def cost(self, selection: Selection, *, written: bool, limit: int | None = None) -> int:
        """Return what an answer costs: how many rows of the tables are added up in the same time.

        Some answers have all rows `written`, with intervals where there are draws, and others a few.
        """
        rows = rows_to_read(self._tables, selection)
        if limit is not None:
            rows = min(rows, 5 * limit + 4_000)  # as `flow_batches` reads more and more
        return rows * (_WRITTEN * written + _BOUNDED * has_bounds(selection, self.draws) or 1)

    def cost_of_areas(self, level: str) -> int:
        """Return what an answer with all areas of a level costs, in the same measure."""
        return self.release.geography.n_units(level) * _WRITTEN

    def largest_flows(self, *asked: tuple[Selection, int]) -> list[LargestFlows]:
        """Return so many of the largest flows of each of some questions, with their intervals."""
        found = [largest_flows(self._tables, selection, top) for selection, top in asked]
        bounded = with_estimates([(largest.selection, largest.flows) for largest in found], self.draws)
        return [replace(largest, flows=flows) for largest, flows in zip(found, bounded, strict=True)]

    @property
    def draws(self) -> PosteriorDraws | None:
        """Its posterior draws; None where it has none, or they are damaged: then flows have no intervals."""
        return self._draws if self.release.has_draws and self.prepared.draws.is_dir() else None

    @cached_property
    def _draws(self) -> MappedDraws:
        return MappedDraws(self.release, self.prepared.draws)

    @cached_property
    def map_levels(self) -> frozenset[str]:
        """The levels that its map opens; to be asked when there is a map."""
        return levels_of_map(self.prepared.map.read_text(encoding="utf-8"))

    @property
    def key_figures(self) -> KeyFigures | None:
        """The key figures; None until they are made, and where there are none."""
        with suppress(OSError):
            return TypeAdapter(KeyFigures | None).validate_json(self.prepared.figures.read_bytes())
        return None

    def _read_areas(self, level: str) -> Areas:
        return read_areas(self.release, self._tables, level)

    def _read_shapes(self, level: str) -> Shapes:
        return Shapes.of(self.release, self.areas(level))

    def _count_jobs(self, level: str, count: str) -> tuple[Int64, Int64]:
        return area_jobs(self.release, self._tables, level, count)

    def _count_lines(self, level: str) -> int | None:
        return count_lines(self.release, self._tables, self.areas(level))


class Catalog:
    """The published versions."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.place = settings.releases
        files = settings.backdrop
        backdrop = None if files is None else Backdrop(files.attribution, files.water, files.roads)
        self._preparation = Preparation(settings.cache, backdrop)
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], Version] = {}
        self._made: dict[str, bytes] = {}
        self._making = threading.Lock()
        self._wanted, self._read_for, self._looked_at = 1, 0, 0.0
        self._marks: dict[Path, tuple[int, int, int] | None] = {}
        self._newest, self._read_at = 0, 0  # of the clock of files
        self._whole: dict[Path, tuple[int, int, int, str]] = {}
        # Folders of versions do not change, so what was read of them is kept by their content's hash.
        self._describe = lru_cache(maxsize=1024)(_describe)
        self._open = lru_cache(maxsize=_OPEN_VERSIONS)(OpenVersion)

    def start(self, waiting: Callable[[], Iterable[tuple[str, Path]]] = tuple) -> None:
        """Begin to prepare, in the background, maps and tables of all that is or will be published."""

        def versions() -> list[tuple[str, Path]]:
            current = self._current(_LOOK_SECONDS).values()
            return [*((v.sha256, v.folder) for v in current if v.status == "complete"), *waiting()]

        self._preparation.start(versions)

    def stop(self) -> None:
        """End the preparation; what is unfinished is begun again at the next start."""
        self._preparation.stop()
        self._open.cache_clear()

    def refresh(self) -> None:
        """Look again at the next question, as after a publication or a withdrawal."""
        with self._lock:
            self._wanted += 1

    def versions(self) -> list[Version]:
        """Return all versions, newest first, withdrawn and damaged ones too."""
        return sorted(self._current().values(), key=lambda v: (v.state.begun, v.state.name), reverse=True)

    def once(self, name: str, make: Callable[[list[Version]], bytes]) -> bytes:
        """Return what one thread makes of all versions; made again when they have been read again."""
        self._current()
        made = self._made  # before the versions, which are then at least as new
        if name not in made:
            with self._making:
                if name not in made:
                    made[name] = make(self.versions())
        return made[name]

    def version(self, name: str, version: str) -> Version:
        """Return a version."""
        stored = self._current().get((name, version)) or self._current(_AGAIN_SECONDS).get((name, version))
        if stored is None:
            raise not_found("No such release and version was published; /api/v1/releases lists what was.")
        return stored

    def series(self, name: str) -> Series:
        """Return a release with all its versions."""
        versions = [version for version in self.versions() if version.state.name == name]
        if not versions:
            raise not_found("No such release was published; /api/v1/releases lists what was.")
        return Series.of(name, versions)

    def latest(self, name: str) -> Version:
        """Return the version of a release's newest year, of those whose data may be given out."""
        if usable := self.series(name).usable:
            return usable[0]
        raise not_found(
            "No version of this name can be given out; /api/v1/releases lists what was published."
        )

    def find_usable(self, name: str, version: str) -> Version:
        """Return a version whose data may be given out."""
        stored = self.version(name, version)
        if stored.state.withdrawn is not None:
            reason = stored.state.withdrawn.text
            raise ServiceError(
                410, "withdrawn", f"This version was withdrawn; use another version. The reason: {reason}"
            )
        if stored.status != "complete":
            raise _damaged()
        return stored

    def file(self, version: Version, name: str) -> File:
        """Return a file of a usable version, after its content has been compared with SHA256SUMS."""
        if version.status == "damaged":
            raise _damaged()
        file = version.files.get(name)
        if file is None:
            raise not_found("The release has no such file; its page and SHA256SUMS list those it has.")
        try:
            info = file.path.stat()
            mark = (info.st_size, info.st_mtime_ns, info.st_ino, file.sha256)
            if self._whole.get(file.path) != mark:
                if file.path.is_symlink() or sha256_of(file.path) != file.sha256:
                    raise _damaged()
                self._whole[file.path] = mark
        except OSError as error:
            raise _damaged() from error
        return file

    def open(self, name: str, version: str) -> OpenVersion:
        """Return a version whose data may be given out, opened."""
        return self.opened(self.find_usable(name, version))

    def opened(self, version: Version) -> OpenVersion:
        """Return a usable version, opened."""
        return self._open(version.folder, version.sha256, self._preparation)

    def prepared(self, sha256: str) -> Prepared:
        """Return where the map and the tables of a content are, or will be; a version's, with its folder."""
        return self._preparation.of(sha256)

    def _current(self, kept: float | None = None) -> dict[tuple[str, str], Version]:
        # One thread reads; the others go on with what was known, or wait for it after `refresh`.
        kept = _KEPT_SECONDS if kept is None else kept

        def is_late() -> bool:
            return time.monotonic() - self._looked_at > kept

        stale = self._read_for != self._wanted
        if (stale or is_late()) and self._lock.acquire(blocking=stale):
            try:
                wanted, begun = self._wanted, time.monotonic()
                # Asked again: whoever waited here waited for one who has just read.
                if self._read_for != wanted or (is_late() and self._has_changed()):
                    self._read()
                self._read_for, self._looked_at = wanted, begun
            finally:
                self._lock.release()
        return self._versions

    def _has_changed(self) -> bool:
        """Whether the place may hold something else than when it was read; without reading it."""
        # A change within the same tick of the clock as the reading leaves no trace, so that what was new
        # then is read again.
        return self._newest > self._read_at - _SETTLED_NS or _marks(self._marks) != self._marks

    def _read(self) -> None:
        begun = time.time_ns()
        states = published(self.place)
        watched, versions = {self.place}, {}
        for state in states:
            folder = self.place / state.name / state.version
            watched |= {folder.parent, folder}
            if state.status == "incomplete":
                continue
            certificate, files = self._describe(folder, state.sha256)
            watched |= {file.path.parent for file in files.values()}
            watched |= {folder / CHECKSUMS, folder / "certificate.json"}
            # What the home page shows as soon as it is there.
            watched.add(self.prepared(state.sha256).figures)
            status = state.status
            if status == "complete" and (certificate is None or not files):
                status = "damaged"
            versions[state.name, state.version] = Version(state, status, folder, certificate, files)
        self._marks = _marks(watched)
        self._newest = max((mark[0] for mark in self._marks.values() if mark is not None), default=0)
        self._versions, self._made, self._read_at = versions, {}, begun


def opened_version(request: Request, name: str, version: str) -> OpenVersion:
    """Return a version whose data may be given out to who asks, opened."""
    catalog: Catalog = request.app.state.catalog
    return catalog.open(name, version)


def _marks(paths: Iterable[Path]) -> dict[Path, tuple[int, int, int] | None]:
    """Return what changes when names in a folder, or the content of a file, do; None where nothing is."""
    marks: dict[Path, tuple[int, int, int] | None] = {}
    for path in paths:
        try:
            info = path.stat()
        except OSError:
            marks[path] = None
        else:
            marks[path] = info.st_mtime_ns, info.st_size, info.st_ino
    return marks


def _describe(folder: Path, sums: str) -> tuple[Certificate | None, dict[str, File]]:
    """Read the certificate and the list of files of a version whose SHA256SUMS has this hash."""
    try:
        seal = (folder / CHECKSUMS).read_bytes()
        if hashlib.sha256(seal).hexdigest() != sums:
            return None, {}
        digests = parse_checksums(seal) | {CHECKSUMS: sums}
        digests |= {name: sha256_of(folder / name) for name in UNSEALED if (folder / name).is_file()}
        root = folder.resolve()
        files = {
            name: File(name, (folder / name).stat().st_size, digest, folder / name)
            for name, digest in sorted(digests.items())
            if (folder / name).resolve().is_relative_to(root)
        }
        content = (folder / "certificate.json").read_bytes()
        if hashlib.sha256(content).hexdigest() != digests["certificate.json"]:
            return None, {}
        certificate = parse_certificate(content)
        return (Release(folder).certificate if CORRECTION_FILE in digests else certificate), files
    except (OSError, ValueError, KeyError, ValidationError):
        return None, {}


def _page(name: str, version: str) -> str:
    return f"/releases/{name}/{version}"


def _damaged() -> ServiceError:
    detail = "This version is damaged on this server, so it is not given out. Tell the publisher."
    return ServiceError(503, "damaged", detail)
