"""Whether the tables of a release hold anything beside their rows: their bytes are those that are written.

The JSON files and the read-me are compared where they are read. Libraries decide how a table becomes bytes,
pyarrow and zlib before all. Of a file that other versions of these wrote, all that can be read is checked,
and that nothing is beside it, but not every choice of how it is encoded; the check then says so.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from geo_data.od_files import GZIP_LEVEL, od_csv_text
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import check_plan_bytes
from pipelines.release.certificate import Certificate
from pipelines.release.layout import file_names
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import POLYGON_FOLDER, by_geopandas, rewrite_polygons
from pipelines.release.provenance import dependency_versions
from pipelines.storage.gzip_members import GzipFormError, Member, read_members
from pipelines.storage.parquet_bytes import ROW_GROUP, check_parquet_bytes, pyarrow_of, rewrite, row_groups
from synth.errors import ShownError

_OF_NOTES = ("geopandas", "pandas", "pyproj", "shapely")  # what decides the notes of GeoPandas
_GZIP_LEVELS = (GZIP_LEVEL, 6)  # that of CSV files, and of those that earlier versions wrote
_PIECE = 2**22  # bytes of a CSV file that are compared at a time


class BytesError(ShownError, ValueError):
    """A file holds more than its rows, or the same rows otherwise; the message quotes no content."""


def check_bytes(
    folder: Path,
    plan: ReleasePlan,
    certificate: Certificate,
    hashes: dict[str, str],
    others: Sequence[str],
    *,
    own: bool,
) -> str:
    """Compare tables of a public folder with what this program writes of their rows; say what was found.

    Parameters
    ----------
    folder : Path
    plan : ReleasePlan
    certificate : Certificate
    hashes : dict of str to str
        SHA-256 of the files by relative name.
    others : sequence of str
        Of the measurement files, which were checked before, those that another version of pyarrow wrote.
    own : bool
        Of a run that has just written the files: its CSV files are not compressed again, and its plan was
        compared when the run read it back, before its hash went into the certificate.

    Raises
    ------
    ValueError
        Naming the first file that has other bytes.
    """
    made_with = certificate.software.dependencies
    for name in sorted(name for name in hashes if name.endswith(".parquet")):
        if pyarrow_of(folder / name) != made_with.get("pyarrow"):
            raise BytesError(f"{name}: it was not written by the pyarrow that certificate.json names")
    others = [*others]
    if not own:
        tables = {name.removeprefix("plan/"): sha256 for name, sha256 in hashes.items()}
        others += (f"plan/{name}" for name in check_plan_bytes(plan, folder / "plan", tables))
    for name in sorted(name for name in hashes if name == NAME_FILE or name.startswith(f"{POLYGON_FOLDER}/")):
        path = folder / name
        noted = by_geopandas(path)
        as_here = not noted or all(made_with.get(name) == _here(name) for name in _OF_NOTES)
        write = rewrite_polygons if noted and as_here else rewrite
        if not (check_parquet_bytes(path, partial(write, path)) and as_here):
            others.append(name)
    for below in plan.implicates.folders:
        names = {kind: below + name for kind, name in file_names(plan.config).items()}
        for kind, name in names.items():
            if not kind.endswith("_parquet"):
                continue
            if csv := names.get(kind.replace("_parquet", "_csv")):
                levels = (None,) if own else _GZIP_LEVELS
                others += _check_pair(folder, csv, name, levels, made_with.get("zlib"))
            else:
                others += _check_table(folder, name)
    if others:
        return (
            f"nothing is beside the rows. How they are encoded was not compared in {len(others)} files that "
            f"other versions of libraries wrote than those here ({_versions()}): {', '.join(others)}"
        )
    return "every table is, byte for byte, what this program writes of its rows in such batches"


def _here(name: str) -> str:
    """Return the version of a library; asked only where it matters, as all are looked up at once."""
    return dependency_versions()[name]


def _versions() -> str:
    return ", ".join(f"{name} {_here(name)}" for name in ("pyarrow", "zlib", *_OF_NOTES))


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
    folder: Path, csv: str, parquet: str, levels: Sequence[int | None], zlib: str | None
) -> Iterator[str]:
    """Check a Parquet file and the CSV file beside it, and yield those that other libraries wrote.

    The rows are read once for both.

    Parameters
    ----------
    folder : Path
    csv, parquet : str
        Names of the files.
    levels : sequence of int or None
        As for `_check_csv`, that the CSV file may have been compressed with.
    zlib : str or None
        The version that the certificate says compressed it.
    """
    path, found = folder / parquet, list[bool]()

    def write(target: io.RawIOBase) -> None:
        with _writer(path, target) as writer:
            found.append(_check_csv(folder, csv, parquet, _written(path, writer), levels[0]))

    if not check_parquet_bytes(path, write):  # then nothing is written, and the CSV file not compared yet
        yield parquet
    left = levels[len(found) :]
    if not any(found) and not any(_check_csv(folder, csv, parquet, row_groups(path), one) for one in left):
        if zlib == _here("zlib"):
            raise BytesError(f"{csv}: zlib {_here('zlib')} compresses its rows otherwise")
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


def _check_csv(folder: Path, csv: str, parquet: str, groups: Iterator[pa.Table], level: int | None) -> bool:
    """Compare a CSV file with the rows of the Parquet file beside it; say if it is compressed as it is here.

    `groups` are those rows. The file is not compressed again where `level` is None.

    Each batch of a run wrote a member of the one and row groups of the other, full ones but the last. The
    file is unpacked as far as it has these rows, and at most one piece further.
    """
    text = _Text(read_members(folder / csv, level, _PIECE))
    first = True
    ended = False
    for group in groups:
        try:
            rows = od_csv_text(group, header=first)
        except ValueError:
            rows = memoryview(b"")
        if (not rows and group.num_rows) or not text.takes(rows):
            raise BytesError(f"{csv} and {parquet} hold different rows, or the first is written otherwise")
        first, ended = False, text.at_end_of_member()
        if not ended and group.num_rows < ROW_GROUP:
            raise BytesError(f"{csv} and {parquet} are not of the same batches")
    if first or not ended or not text.at_end():
        raise BytesError(f"{csv} and {parquet} hold different rows")
    return text.same


class _Text:
    """The text of a gzip file, taken piece by piece.

    Raises `BytesError` where the file is not of the form that this program gives it.
    """

    def __init__(self, pieces: Iterator[tuple[Member, bytes]]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")
        self.same = True

    def takes(self, text: memoryview) -> bool:
        """Say whether this comes next, in the same member."""
        while text:
            if not self._left and not self._next():
                return False
            size = min(len(text), len(self._left))
            if bytes(text[:size]) != bytes(self._left[:size]):  # views are compared item by item
                return False
            text, self._left = text[size:], self._left[size:]
        return True

    def at_end_of_member(self) -> bool:
        """Say whether the member has nothing left; the next one begins."""
        return not self._left and not self._next()

    def at_end(self) -> bool:
        """Say whether there is no further member."""
        try:
            return next(self._pieces, None) is None
        except GzipFormError:
            return False

    def _next(self) -> bool:
        try:
            member, piece = next(self._pieces, (Member(), b""))
        except GzipFormError:
            return False
        self._left, self.same = memoryview(piece), self.same and member.same
        return bool(piece)
