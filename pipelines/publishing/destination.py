"""Where releases are published: a folder here or at any storage that fsspec knows, written with care.

On a local disk a file comes into its place in one step, whole, and a record takes its name or fails. Object
stores do so by themselves; a storage that cannot create exclusively is asked first whether the name is free.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from geo_data.arguments import PathLike, text_of
from pipelines.storage.documents import parse_json
from pipelines.storage.durable import sync, whole_file, write_whole
from pipelines.storage.errors import refuse_no_folder, shown_address, shown_message
from synth.errors import ShownError

_CHUNK = 1 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # what such disks say


class PublishError(ShownError, ValueError):
    """A release cannot be published, or a remark not be made; nothing published has been changed."""


@contextmanager
def open_place(destination: PathLike, storage_options: dict[str, Any] | None) -> Iterator[Place]:
    """Open a destination; whatever its storage says no with becomes one `PublishError`."""
    url = text_of(destination, "destination")
    name = shown_address(url) if "://" in url or "::" in url else url  # a folder's name may have an @
    try:
        if not url or "::" in url:
            raise PublishError(f"{name!r} is not a destination. Fix: name one folder or one URL")
        fs, root = fsspec.url_to_fs(url, **(storage_options or {}))
        yield Place(fs, root)
    except PublishError:
        raise
    except Exception as error:  # each storage has errors of its own
        raise PublishError(f"{name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Say why a storage says no; texts of errors may hold the address, and in it a password."""
    if isinstance(error, OSError) and error.filename:  # of this system
        return shown_message(error)
    rule = f"the storage cannot be used ({type(error).__name__})"
    fix = "check the address and its credentials, and that the storage answers"
    if isinstance(error, ImportError):
        rule, fix = (
            f"a package is missing ({error})",
            "install it, as s3fs for s3://",
        )
    return f"{rule}. Fix: {fix}"


class Place:
    """A destination: a file system and a folder of it. Paths begin with `root`."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs, self.root, self.local = fs, root.rstrip("/"), isinstance(fs, LocalFileSystem)

    def keep_apart(self, out: Path) -> None:
        """Refuse a place in or around a release: its confidential folder would lie among what is public."""
        if self.local:
            release, destination = out.resolve(), Path(self.root or "/").resolve()
            if release.is_relative_to(destination) or destination.is_relative_to(release):
                raise PublishError(
                    f"{destination} lies inside the release {release}, or around it. Fix: choose another "
                    "place"
                )

    def shown(self, path: str) -> str:
        """Return a path as people may see it."""
        return path if self.local else shown_address(self.fs.unstrip_protocol(path))

    def exists(self, path: str) -> bool:
        """Return whether a file is there."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(path))

    def files(self, folder: str) -> set[str]:
        """Return the names of all files below a folder, relative to it."""
        self.fs.invalidate_cache()
        return {path.removeprefix(f"{folder}/") for path in self.fs.find(folder)}

    def content(self, path: str) -> bytes:
        """Return a small file."""
        return bytes(self.fs.cat_file(path))

    def record(self, path: str) -> dict[str, str]:
        """Return a record; one that is not there, or was damaged, says nothing."""
        with suppress(FileNotFoundError, ValueError):
            record = parse_json(self.content(path))
            if isinstance(record, dict):
                return {name: str(value) for name, value in record.items()}
        return {}

    def sha256(self, path: str) -> str | None:
        """Read a file back and return its hash; None if it is not there."""
        self.fs.invalidate_cache()
        digest = hashlib.sha256()
        try:
            with self.fs.open(path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except FileNotFoundError:
            return None
        return digest.hexdigest()

    def create(self, path: str, record: dict[str, str]) -> bool:
        """Write a record under a name that nobody has taken; return False if somebody has."""
        data = _written(record)
        self._make_folder(path)
        try:
            if self.local:
                self._create_here(path, data)
            else:
                with self.fs.open(path, "xb") as file:
                    file.write(data)
        except FileExistsError:
            return False
        except (NotImplementedError, ValueError):  # no exclusive creation in this storage
            if self.exists(path):
                return False
            self.fs.pipe_file(path, data)
        return True

    def _create_here(self, path: str, data: bytes) -> None:
        # The name is taken before any file comes, also after a power cut.
        try:
            write_whole(Path(path), data, 0o644, new=True, folder=self._room(path))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with Path(path).open("xb") as file:
                file.write(data)
            sync(Path(path))
            sync(Path(path).parent)

    def replace(self, path: str, record: dict[str, str]) -> None:
        """Write a record in the place of one that says nothing."""
        if self.local:
            write_whole(Path(path), _written(record), 0o644, folder=self._room(path))
        else:
            self.fs.pipe_file(path, _written(record))

    def copy(self, source: Path, path: str, expected: str) -> None:
        """Copy a file of a known hash; what turns out to be another file does not stay."""
        self._make_folder(path)
        if self.local:
            whole = whole_file(Path(path), 0o644, folder=self._room(path))  # for everybody
            with whole as made, made.open("wb") as target:
                _pour(source, target, expected)
            return
        try:
            with self.fs.open(path, "wb") as target:
                _pour(source, target, expected)
        except Exception:
            with suppress(Exception):
                self.fs.rm_file(path)
            raise

    def _room(self, path: str) -> Path:
        """Where files are made: on the same disk, outside the version's folder, as a kill may leave some."""
        return Path(self.root, path.removeprefix(f"{self.root}/").partition("/")[0])

    def _make_folder(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        if not self.local:
            self.fs.makedirs(folder, exist_ok=True)
            return
        refuse_no_folder(Path(folder), PublishError)
        for directory in (*reversed(Path(folder).parents), Path(folder)):
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                directory.chmod(stat.S_IMODE(directory.stat().st_mode) | 0o055)


def _written(record: dict[str, str]) -> bytes:
    return (json.dumps(record, indent=1) + "\n").encode()


def _pour(source: Path, target: Any, expected: str) -> None:
    digest = hashlib.sha256()
    handle = os.open(source, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
    if digest.hexdigest() != expected:
        raise PublishError(
            f"{source.name} was changed while it was published, and the version is not complete. Fix: put "
            "the file back, and publish again"
        )
