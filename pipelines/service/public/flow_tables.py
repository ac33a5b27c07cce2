"""The flows of a release as Arrow files, made once, in which the flows of an area are neighbours.

``work_LEVEL.arrow`` has a row for each pair of a work area of the level and a home block, in the order of the
areas, and ``home_LEVEL.arrow`` the same of home areas and work blocks. So a question about an area, however
large, reads as many rows as it has blocks at the other end, and at most the jobs that it has.

=========  ==========================================================================================
``key``    int64: number of the area, plus the number of areas for each implicate before; only read when
           the file is opened
``other``  int32: number of the block at the other end
``c0``...  counts: all jobs, then the others; of unsigned integers as narrow as the largest is, at the
           level of blocks, else of 32 bits
=========  ==========================================================================================

The files are mapped into memory.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.storage.durable import sync_tree
from pipelines.views.folder import WHOLE_COPY, PublicReleaseError
from pipelines.views.release import Release, open_release

_BATCH_ROWS = 1_000_000
_WIDTHS = {"UTINYINT": 2**8, "USMALLINT": 2**16, "UINTEGER": 2**32}
_SIDES = ("work", "home")


class FlowTable:
    """One of the files, opened."""

    def __init__(self, folder: Path, side: str, level: str, n_units: int, implicates: int) -> None:
        with pa.memory_map(str(folder / f"{side}_{level}.arrow")) as file:
            self._table = pa.ipc.open_file(file).read_all()
        self._n_units, self.n_rows = n_units, self._table.num_rows
        rows = np.zeros(n_units * implicates, np.int64)
        for chunk in self._table.column("key").chunks:
            rows += np.bincount(chunk.to_numpy(), minlength=rows.size)
        self._starts = np.concatenate([[0], np.cumsum(rows)])

    def rows(self, implicate: int, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row of each of these units in an implicate, and the one after its last."""
        keys = units + (implicate - 1) * self._n_units
        return self._starts[keys], self._starts[keys + 1]

    def column(self, name: str, begin: int, end: int) -> NDArray:
        """Return a column of some rows; where it can be, it is the file itself."""
        chunks = [chunk.to_numpy() for chunk in self._table.column(name).slice(begin, end - begin).chunks]
        return chunks[0] if len(chunks) == 1 else np.concatenate(chunks or [np.zeros(0, np.int32)])


def write_flow_tables(release: Release, folder: Path) -> None:
    """Write the flows of all implicates of a release."""
    geography, levels = release.geography, release.levels
    blocks = np.arange(geography.n_blocks)
    units = {"code": geography.block_codes} | {
        f"u{i}": pa.array(geography.unit_of(level, blocks), pa.int32()) for i, level in enumerate(levels)
    }
    ends = ", ".join(f"{side[0]}.u{i} AS {side}{i}" for side in _SIDES for i in range(len(levels)))
    counts = ", ".join(f'CAST("{name}" AS UINTEGER) AS c{i}' for i, name in enumerate(release.counts))
    parts, expected = [], 0
    for implicate in range(1, release.implicates + 1):
        opened = open_release(release.public, implicate)
        for data in opened.rows.values():
            files = ", ".join(_quoted(str(path)) for path in data.files)
            parts.append(
                f"SELECT {implicate - 1}::BIGINT AS before, {ends}, {counts} "
                f"FROM read_parquet([{files}]) AS f "
                "JOIN units AS w ON w.code = f.w_geocode JOIN units AS h ON h.code = f.h_geocode"
            )
            expected += data.count_rows()
    folder.mkdir()
    finest, numbers = len(levels) - 1, range(len(release.counts))
    with duckdb.connect(config={"temp_directory": str(folder / "sorting")}) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("units", pa.table(units))
        connection.execute(f"CREATE TEMP TABLE flows AS {' UNION ALL '.join(parts)}")
        n_rows, largest = connection.execute("SELECT count(*), coalesce(max(c0), 0) FROM flows").fetchall()[0]
        if n_rows != expected:
            rule, fix = "the data have blocks that are not in the plan's geography", WHOLE_COPY
            raise PublicReleaseError(f"{rule}. Fix: {fix}")
        narrow = next(name for name, beyond in _WIDTHS.items() if largest < beyond)
        for major, minor in (_SIDES, _SIDES[::-1]):
            for i, level in enumerate(levels):
                width = narrow if i == finest else "UINTEGER"
                sums = ", ".join(f"sum(c{number})::{width} AS c{number}" for number in numbers)
                rows = connection.sql(
                    f"SELECT {major}{i} + before * {geography.n_units(level)} AS key, "
                    f"{minor}{finest} AS other, {sums} FROM flows GROUP BY key, other ORDER BY key, other"
                ).to_arrow_reader(_BATCH_ROWS)
                with pa.ipc.new_file(folder / f"{major}_{level}.arrow", rows.schema) as file:
                    for batch in rows:
                        file.write_batch(batch)
    sync_tree(folder)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
