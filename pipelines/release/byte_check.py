"""Whether the tables of a release hold anything beside their rows: their bytes are those that are written.

The JSON files and the read-me are compared where they are read. pyarrow and zlib decide how a table becomes
bytes: of a file that other versions of these wrote the rows are compared, and the check names it.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from geo_data.od_files import GZIP_LEVEL, od_csv_text
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import check_plan_bytes
from pipelines.release.certificate import Certificate
from pipelines.release.description import file_names
from pipelines.release.intervals import INTERVALS_FILE
from pipelines.release.layout import RefusedError
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import POLYGON_FOLDER
from pipelines.release.provenance import dependency_versions
from pipelines.storage.parquet_bytes import (
    ROW_GROUP,
    Comparison,
    check_parquet_bytes,
    pyarrow_of,
    rewrite,
    row_groups,
)

_GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # as `gzip.GzipFile` writes it without a name and a time
_PIECE = 2**22  # bytes of a CSV file that are compared at a time


def check_bytes(
    folder: Path,
    plan: ReleasePlan,
    certificate: Certificate,
    hashes: dict[str, str],
    *,
    just_written: bool,
) -> list[str]:
    """Compare tables of a public folder with what this program writes of their rows.

    Gives those that other versions of libraries wrote, whose bytes are not compared. Of files that a run has
    just written, CSV files are not compressed again, and the plan was compared before its hash went into the
    certificate.
    """
    made_with = certificate.software.dependencies
    for name in sorted(name for name in hashes if name.endswith(".parquet")):
        if pyarrow_of(folder / name) != made_with.get("pyarrow"):
            raise RefusedError(f"{name}: it was not written by the pyarrow that certificate.json names")
    others: list[str] = []
    if not just_written:
        tables = {name.removeprefix("plan/"): sha256 for name, sha256 in hashes.items()}
        others += (f"plan/{name}" for name in check_plan_bytes(plan, folder / "plan", tables))
    for name in sorted(name for name in hashes if name == NAME_FILE or name.startswith(f"{POLYGON_FOLDER}/")):
        path = folder / name
        if not check_parquet_bytes(path, partial(rewrite, path)):
            others.append(name)
    if INTERVALS_FILE in hashes:
        others += _check_table(folder, INTERVALS_FILE)
    for below in plan.implicates.folders:
        names = {kind: below + name for kind, name in file_names(plan.config).items()}
        for kind, name in names.items():
            if not kind.endswith("_parquet"):
                continue
            if csv := names.get(kind.replace("_parquet", "_csv")):
                others += _check_pair(folder, csv, name, made_with.get("zlib"), just_written=just_written)
            else:
                others += _check_table(folder, name)
    return others


def version_here(name: str) -> str:
    """Return the version of a library; asked only where it matters, as all are looked up at once."""
    return dependency_versions()[name]


def _check_table(folder: Path, name: str) -> Iterator[str]:
    """Check a Parquet file of data or a folder of them, and yield those that another pyarrow wrote."""
    path = folder / name
    parts = sorted(path.iterdir()) if path.is_dir() else [path]
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # pyarrow lets them run side by side
        compared = threads.map(lambda part: check_parquet_bytes(part, partial(_write_groups, part)), parts)
        for part, same in zip(parts, compared, strict=True):
            if not same:
                yield part.relative_to(folder).as_posix()


def _check_pair(
    folder: Path, csv: str, parquet: str, version: str | None, *, just_written: bool
) -> Iterator[str]:
    """Check a Parquet file and the CSV file beside it, and yield those that other libraries wrote.

    The rows are read once for both, and again only where the CSV file has other bytes; `version` of zlib is
    that of the certificate.
    """
    path, same = folder / parquet, list[bool]()
    compare: Callable[[Path, Iterator[pa.Table]], bool] = _has_text if just_written else _has_bytes

    def write(target: io.RawIOBase) -> None:
        with _writer(path, target) as writer:
            same.append(compare(folder / csv, _written(path, writer)))

    if not check_parquet_bytes(path, write):  # then nothing is written, and the CSV file not compared yet
        yield parquet
        same.append(compare(folder / csv, row_groups(path)))
    if not same[0]:
        if just_written or not _has_text(folder / csv, row_groups(path)):
            raise RefusedError(f"{csv} and {parquet} hold different rows, or are written in another way")
        if version == version_here("zlib"):
            raise RefusedError(f"{csv}: zlib {version} compresses its rows differently, in these batches")
        yield csv


def _write_groups(path: Path, target: io.RawIOBase) -> None:
    with _writer(path, target) as writer:
        for _ in _written(path, writer):
            pass


def _writer(path: Path, target: io.RawIOBase) -> pq.ParquetWriter:
    return pq.ParquetWriter(target, pq.read_schema(path), compression="zstd")


def _written(path: Path, writer: pq.ParquetWriter) -> Iterator[pa.Table]:
    """Yield the rows of a file as they are grouped in it, each group when it is written to another."""
    for group in row_groups(path):
        writer.write_table(group)
        yield group


def _has_text(path: Path, groups: Iterator[pa.Table]) -> bool:
    """Whether a CSV file has the text of these rows and nothing behind it; goes through all groups."""
    with gzip.open(path) as file:

        def has(text: memoryview) -> bool:
            pieces = (text[i : i + _PIECE] for i in range(0, len(text), _PIECE))
            return all(file.read(len(piece)) == bytes(piece) for piece in pieces)

        same = True
        for text, _ in _texts(groups):
            try:
                same = same and has(text)
            except (OSError, EOFError, zlib.error):
                same = False
        try:
            return same and not file.read(1)
        except (OSError, EOFError, zlib.error):
            return False


def _has_bytes(path: Path, groups: Iterator[pa.Table]) -> bool:
    """Whether a CSV file has the bytes that a run writes of these rows: a gzip member for each batch."""
    with Comparison(path) as file:
        member: zlib._Compress | None = None
        checksum = size = 0
        for text, full in _texts(groups):
            if not file.same:  # the other groups are still to be written
                continue
            if member is None:
                file.write(_GZIP_HEAD)
                member, checksum, size = zlib.compressobj(GZIP_LEVEL, wbits=-zlib.MAX_WBITS), 0, 0
            checksum, size = zlib.crc32(text, checksum), size + len(text)
            file.write(member.compress(text))
            tail = checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
            end = (member.copy() if full else member).flush() + tail
            # A batch ends with a group that is not full, or has just so many rows.
            if not full or file.has_next(end):
                file.write(end)
                member = None
        return member is None and file.at_end()


def _texts(groups: Iterator[pa.Table]) -> Iterator[tuple[memoryview, bool]]:
    """Yield the text of groups of rows, and whether the group has as many as one can have."""
    for number, group in enumerate(groups):
        try:
            yield od_csv_text(group, header=number == 0), len(group) == ROW_GROUP
        except ValueError as error:
            raise RefusedError("a code in a data file cannot stand in a CSV file") from error
