"""The posterior draws of a release as Arrow files, made once, of which a question reads only its own cells.

``NUMBER.arrow`` has the cells of a table of `PosteriorDraws.tables`, in the order of their work areas.

=================  ==========================================================================
``home``           int32: number of the home area
``work``           int32: number of the work area; 0 where the table counts residents
``category_0``...  int32: codes, by attribute of the table
``draw_1``...      int32: jobs in each draw
``by_home``        int32: the rows of the file in the order of their home areas
=================  ==========================================================================

The files are mapped into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geo_data.geography import Geography
from pipelines.plans.workload import Table
from pipelines.release.intervals import DRAWS, TableDraws, read_draws
from pipelines.storage.durable import sync_tree
from pipelines.views.folder import blame_release
from pipelines.views.intervals.reading import Parts, PosteriorDraws
from pipelines.views.release import Release

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class MappedDraws(PosteriorDraws):
    """The draws of a release, read from these files."""

    def __init__(self, release: Release, folder: Path) -> None:
        super().__init__(release)
        self._folder, self._open = folder, lru_cache(_DrawTable)

    def read(self, several: Sequence[Parts]) -> TableDraws:
        """Return the draws of a table that parts of it need."""
        table = several[0].table
        opened = self._open(_path(self._folder, self.tables.index(table)), table, self.release.geography)
        return opened.read(np.unique(np.concatenate([opened.rows(parts) for parts in several])))


class _DrawTable:
    """One of the files, opened."""

    def __init__(self, path: Path, table: Table, geography: Geography) -> None:
        with pa.memory_map(str(path)) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
        self._columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        self._table, levels = table, {"home": table.home, "work": table.work}
        self._starts = {
            side: _starts(self._columns[side], geography.n_units(level))
            for side, level in levels.items()
            if level is not None
        }

    def rows(self, parts: Parts) -> Int64:
        """Return the rows of cells that parts have; found on the side where fewer have their areas."""
        areas = {side: getattr(parts, side) for side in self._starts}
        found = {side: _ranges(self._starts[side], np.flatnonzero(areas[side] >= 0)) for side in areas}
        side = min(found, key=lambda name: found[name].size)
        rows = self._columns["by_home"][found[side]].astype(np.int64) if side == "home" else found[side]
        for other in areas.keys() - {side}:
            rows = rows[areas[other][self._columns[other][rows]] >= 0]
        return rows

    def read(self, rows: Int64) -> TableDraws:
        """Return the draws of some rows."""

        def numbers(name: str) -> Int64:
            return self._columns[name][rows].astype(np.int64)

        return TableDraws(
            self._table,
            numbers("home"),
            None if self._table.work is None else numbers("work"),
            tuple(numbers(f"category_{i}") for i in range(len(self._table.attributes))),
            np.stack([self._columns[name][rows] for name in DRAWS]),
        )


def _starts(units: Int32, n_units: int) -> Int64:
    """Where the cells of each area begin, in the order of areas, and the last ones end."""
    return np.append(0, np.cumsum(np.bincount(units, minlength=n_units)))


def _ranges(starts: Int64, units: Int64) -> Int64:
    """Positions of the cells of some areas."""
    sizes = starts[units + 1] - starts[units]
    first = starts[units] - np.append(0, np.cumsum(sizes))[:-1]
    return np.arange(sizes.sum()) + np.repeat(first, sizes)


def write_draw_tables(release: Release, folder: Path) -> None:
    """Write the draws of a release that has some; an empty folder else."""
    folder.mkdir()
    for number, table in enumerate(release.draws().tables if release.has_draws else ()):
        with blame_release(release.public):
            draws = read_draws(release.plan, table, release.public)
        work = np.zeros_like(draws.home) if draws.work is None else draws.work
        order = np.argsort(work, kind="stable")
        columns = {
            "home": draws.home,
            "work": work,
            **{f"category_{i}": codes for i, codes in enumerate(draws.categories)},
            **dict(zip(DRAWS, draws.counts, strict=True)),
        }
        arrays = {name: pa.array(column[order], pa.int32()) for name, column in columns.items()}
        arrays["by_home"] = pa.array(np.argsort(draws.home[order], kind="stable"), pa.int32())
        batch = pa.RecordBatch.from_pydict(arrays)
        with pa.ipc.new_file(_path(folder, number), batch.schema) as file:
            file.write_batch(batch)
    sync_tree(folder)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number}.arrow"
