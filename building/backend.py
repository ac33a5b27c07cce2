"""The build backend: that of setuptools, with the library that draws maps, and the same bytes every time.

A package without the library would have no maps, so the build fails without it; an editable installation does
without, and `make library` fetches it. What setuptools writes depends on the clock and on the modes of files:
both archives are written again with the time of the commit (or SOURCE_DATE_EPOCH) and plain modes.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

sys.path.insert(0, str(Path(__file__).parent))
from library import fetch_library

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent


def build_wheel(wheel_directory: str, *arguments: Any, **named: Any) -> str:
    """Build the wheel (PEP 517)."""
    fetch_library()
    name = build_meta.build_wheel(wheel_directory, *arguments, **named)
    settle_wheel(Path(wheel_directory, name), source_date())
    return name


def build_sdist(sdist_directory: str, *arguments: Any, **named: Any) -> str:
    """Build the source archive (PEP 517); the library is in it, so that a wheel of it needs no npm."""
    fetch_library()
    name = build_meta.build_sdist(sdist_directory, *arguments, **named)
    settle_sdist(Path(sdist_directory, name), source_date())
    return name


def source_date() -> int:
    """Return the time that the archives have: SOURCE_DATE_EPOCH, that of the commit, or of the archive."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if (ROOT / "PKG-INFO").is_file():  # unpacked from a source archive, which has the commit's
        return int((ROOT / "pyproject.toml").stat().st_mtime)
    command = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else 315532800  # the first of zip


def settle_wheel(path: Path, date: int) -> None:
    """Write a wheel again: same files in the same order, one time, plain modes."""
    with zipfile.ZipFile(path) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name, time.gmtime(max(date, 315532800))[:6])
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def settle_sdist(path: Path, date: int) -> None:
    """Write a source archive again: files in the order of names, one time, plain modes, no owner."""
    with tarfile.open(path) as archive:
        files = [(entry, _content(archive, entry)) for entry in archive.getmembers()]
    with (
        path.open("wb") as target,
        gzip.GzipFile("", "wb", 9, target, mtime=date) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry, data in sorted(files, key=lambda file: file[0].name):
            plain = tarfile.TarInfo(entry.name)
            plain.type, plain.size, plain.mtime = entry.type, len(data), date
            plain.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            archive.addfile(plain, io.BytesIO(data))


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return b"" if file is None else file.read()
