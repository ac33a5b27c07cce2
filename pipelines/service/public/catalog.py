"""What is published, as the public side shows it: read from the folder of publications, not from a database.

A version is shown when its publication is complete. What was withdrawn stays visible, with the reason, but
its data are not given out any more; what is damaged on disk is not given out either.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from pipelines.publishing.publishing import Published, published
from pipelines.release.certificate import Certificate
from pipelines.release.formats import parse_certificate
from pipelines.release.reader import PublicRelease, PublicReleaseError, read_public_release
from pipelines.release.signing import SIGNATURES
from pipelines.service.errors import not_found
from pipelines.service.public.flow_queries import FlowAnswer, FlowQuestion, FlowTables, ask_flows
from pipelines.service.public.preparation import Preparation, Prepared
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.views.intervals import PosteriorDraws

__all__ = ["Catalog", "File", "Version"]

_KEPT_SECONDS = 2.0  # a withdrawal is seen that late
_AGAIN_SECONDS = 0.1  # after which a version that is not known is looked for once more
_OPEN_RELEASES = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class File:
    """A file of a version.

    Attributes
    ----------
    name : str
        Relative to the version's folder, with slashes.
    size : int
        Bytes.
    sha256 : str
        As SHA256SUMS says; of SHA256SUMS and the signatures, which it does not list, what was found.
    path : Path
    """

    name: str
    size: int
    sha256: str
    path: Path

    @property
    def digest(self) -> str:
        """The hash in base64, as HTTP writes it (RFC 9530)."""
        return base64.b64encode(bytes.fromhex(self.sha256)).decode()


@dataclass(frozen=True)
class Version:
    """A published version.

    Attributes
    ----------
    state : Published
        Its name, version, withdrawal and errata.
    status : {"complete", "withdrawn", "damaged"}
        Damaged also where `published` does not look: the certificate is not the one that was published.
    folder : Path
    certificate : Certificate or None
        None if it cannot be read.
    files : mapping of str to File
        By name; what the folder holds besides is not published.
    """

    state: Published
    status: str
    folder: Path
    certificate: Certificate | None
    files: Mapping[str, File]

    @property
    def sha256(self) -> str:
        """Hash of all its content."""
        return self.state.sha256

    def address(self, file: File) -> str:
        """Return where a file is downloaded, from the root of the service."""
        return f"/releases/{self.state.name}/{self.state.version}/files/{file.name}"


class Catalog:
    """The published versions.

    Parameters
    ----------
    settings : ServiceSettings

    Attributes
    ----------
    place : Path
        The folder of publications.
    tables : FlowTables
        Of its releases.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.place, self.tables = settings.releases, FlowTables()
        self._preparation = Preparation(settings.cache)
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], Version] = {}
        self._wanted, self._read_for, self._read_at = 1, 0, 0.0
        self._whole: dict[Path, tuple[int, int, int, str]] = {}
        # Folders of versions do not change, so what was read of them is kept by their content's hash.
        self._describe = lru_cache(maxsize=1024)(_describe)
        self._release = lru_cache(maxsize=_OPEN_RELEASES)(self._read_release)
        self._draws = lru_cache(maxsize=_OPEN_RELEASES)(self._read_draws)

    def start(self, waiting: Callable[[], Iterable[tuple[str, Path]]] = tuple) -> None:
        """Begin to prepare, in the background, maps and tables of all that is or will be published.

        Parameters
        ----------
        waiting : callable
            Says what else should be prepared, whenever it is called: hashes of contents and their folders.
        """
        self._preparation.start(
            lambda: [*((v.sha256, v.folder) for v in self.versions() if v.status == "complete"), *waiting()]
        )

    def stop(self) -> None:
        """End the preparation; what is unfinished is begun again at the next start."""
        self._preparation.stop()
        self.tables.close()

    def refresh(self) -> None:
        """Look again at the next question, as after a publication or a withdrawal."""
        with self._lock:
            self._wanted += 1

    def versions(self) -> list[Version]:
        """Return all versions, newest first, withdrawn and damaged ones too."""
        return sorted(self._current().values(), key=lambda v: (v.state.begun, v.state.name), reverse=True)

    def version(self, name: str, version: str) -> Version:
        """Return a version.

        Raises
        ------
        ServiceError
            404 if nothing was published under these names.
        """
        found = self._current().get((name, version))
        if found is None and time.monotonic() - self._read_at > _AGAIN_SECONDS:
            self.refresh()  # perhaps published just now, by another process
            found = self._current().get((name, version))
        if found is None:
            raise not_found("No such release and version was published; /api/v1/releases lists what was.")
        return found

    def find_usable(self, name: str, version: str) -> Version:
        """Return a version whose data may be given out.

        Raises
        ------
        ServiceError
            404 as `version`; 410 if it was withdrawn, with the reason; 503 if it is damaged.
        """
        found = self.version(name, version)
        if found.state.withdrawn is not None:
            reason = found.state.withdrawn.text
            raise ServiceError(
                410, "withdrawn", f"This version was withdrawn and should not be used: {reason}"
            )
        if found.status != "complete":
            raise _damaged()
        return found

    def file(self, version: Version, name: str) -> File:
        """Return a file of a usable version, after its content has been compared with SHA256SUMS.

        Raises
        ------
        ServiceError
            404 if the version has no such file; 503 if the file is not what was published.
        """
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
        except OSError:
            raise _damaged() from None
        return file

    def release(self, version: Version) -> PublicRelease:
        """Return the release of a usable version, opened.

        Raises
        ------
        ServiceError
            503 if it cannot be read.
        """
        try:
            return self._release(version.folder, version.sha256)
        except PublicReleaseError:
            raise _damaged() from None

    def flows(self, version: Version, ask: FlowQuestion) -> FlowAnswer:
        """Answer a question about a usable version.

        Raises
        ------
        ServiceError
            404 if the release has no such area, level, attribute or implicate; 503 while its tables are made.
        """
        prepared = self.prepared(version.sha256)
        if not prepared.flows.is_file():
            detail = "The tables of this release are being made; ask again in a few seconds."
            raise ServiceError(503, "preparing", detail)
        try:
            with self.tables.cursor(prepared.flows) as cursor:
                return ask_flows(self.release(version), cursor, ask, self.draws(version))
        except PublicReleaseError as error:
            raise ServiceError(404, "not_found", f"{error}.") from None

    def draws(self, version: Version) -> PosteriorDraws | None:
        """Return the posterior draws that lie beside a usable version, as ``VERSION.draws.parquet``.

        Without the file, or where it is of another content, flows have no intervals.
        """
        mark = self.draws_mark(version)
        return None if mark is None else self._draws(version.folder, version.sha256, mark)

    def draws_mark(self, version: Version) -> tuple[int, int] | None:
        """Return size and time of the file of draws of a version; None if there is none."""
        try:
            info = _draws_file(version.folder).stat()
        except OSError:
            return None
        return info.st_size, info.st_mtime_ns

    def prepared(self, sha256: str) -> Prepared:
        """Return where the map and the tables of a content are, or will be."""
        return self._preparation.of(sha256)

    def _current(self) -> dict[tuple[str, str], Version]:
        # One thread reads; the others go on with what was known, or wait for it after `refresh`.
        stale = self._read_for != self._wanted
        late = time.monotonic() - self._read_at > _KEPT_SECONDS
        if (stale or late) and self._lock.acquire(blocking=stale):
            try:
                if self._read_for != self._wanted or late:
                    wanted, begun = self._wanted, time.monotonic()
                    self._versions = self._read()
                    self._read_for, self._read_at = wanted, begun
            finally:
                self._lock.release()
        return self._versions

    def _read(self) -> dict[tuple[str, str], Version]:
        versions = {}
        for state in published(self.place):
            if state.status == "incomplete":
                continue
            folder = self.place / state.name / state.version
            certificate, files = self._describe(folder, state.sha256)
            status = state.status
            if status == "complete" and (certificate is None or not files):
                status = "damaged"
            versions[state.name, state.version] = Version(state, status, folder, certificate, files)
        return versions

    @staticmethod
    def _read_release(folder: Path, _: str) -> PublicRelease:
        return read_public_release(folder)

    def _read_draws(self, folder: Path, sha256: str, _: tuple[int, int]) -> PosteriorDraws | None:
        try:
            return PosteriorDraws(self._release(folder, sha256), _draws_file(folder))
        except (PublicReleaseError, OSError) as error:
            _log.warning("%s is not used: %s", _draws_file(folder).name, type(error).__name__)
            return None


def _draws_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.draws.parquet")


def _describe(folder: Path, sums: str) -> tuple[Certificate | None, dict[str, File]]:
    """Read the certificate and the list of files of a version whose SHA256SUMS has this hash."""
    try:
        seal = (folder / CHECKSUMS).read_bytes()
        if hashlib.sha256(seal).hexdigest() != sums:
            return None, {}
        digests = parse_checksums(seal) | {CHECKSUMS: sums}
        digests |= {name: sha256_of(folder / name) for name in SIGNATURES if (folder / name).is_file()}
        root = folder.resolve()
        files = {
            name: File(name, (folder / name).stat().st_size, digest, folder / name)
            for name, digest in sorted(digests.items())
            if (folder / name).resolve().is_relative_to(root)
        }
        content = (folder / "certificate.json").read_bytes()
        if hashlib.sha256(content).hexdigest() != digests["certificate.json"]:
            return None, {}
        return parse_certificate(content), files
    except (OSError, ValueError, KeyError, ValidationError):
        return None, {}


def _damaged() -> ServiceError:
    detail = "This version is damaged on this server, so it is not given out. The publisher should be told."
    return ServiceError(503, "damaged", detail)
