"""Posterior draws of a release in a file, and the intervals of any counts and sums that are read from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import synth
from geo_data.arguments import PathLike, check_type, path_of
from geo_data.od_files import count_columns
from pipelines.config.languages import ENGLISH
from pipelines.storage.errors import blame
from pipelines.views.flows import with_units
from pipelines.views.folder import PublicReleaseError
from pipelines.views.pages import phrases
from pipelines.views.release import Release
from synth.posterior.intervals import LEVEL
from synth.posterior.intervals import intervals as of_draws

DRAWS_FILE = "draws.parquet"
DRAWS_FORMAT = "odsynth draws 1.0"
UNPACKED = ".arrow"  # how the name of an unpacked file ends
_HOMES = 250_000  # of a group in it, about: what is read at once

Int64 = NDArray[np.int64]

Areas = str | Mapping[str, str] | pd.Series | Int64
"""A level of the release, a kind of its non-nesting areas, or the area of each unit of a level, by code; in
place of these the number of the area of each block, -1 for none."""


def coverage_words() -> list[str]:
    """Return what programs say of intervals, in lines; read-mes say it in the language of their release."""
    return list(phrases(ENGLISH).coverage().splitlines())


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells of a table, and their count in every draw."""

    home: Int64  # Numbers of their areas: of units of a level, or as in `PosteriorDraws.areas`
    work: Int64
    categories: tuple[Int64, ...]  # By attribute of the table
    counts: Int64


class _Rows:
    """The rows of a file of draws, in groups: of Parquet, or as `unpack` writes it, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self._path, self._groups = path, list[pa.RecordBatch]()
        if path.suffix == UNPACKED:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            self.schema, self._groups = table.schema, table.to_batches()
            sizes = [group.num_rows for group in self._groups]
        else:
            with pq.ParquetFile(path) as file:
                self.schema = file.schema_arrow
                sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        self.begins = np.append(0, np.cumsum(sizes)).astype(np.int64)
        """Where the rows of each group begin, and the last ones end."""

    def read(self, number: int, columns: list[str]) -> pa.Table:
        """Read a group."""
        if self._groups:
            return pa.Table.from_batches([self._groups[number].select(columns)])
        with pq.ParquetFile(self._path) as file:
            return file.read_row_group(number, columns=columns)


def unpack(path: Path, unpacked: Path) -> None:
    """Write a file of draws as one of which a part is read without the rest, for many small questions."""
    rows = _Rows(path)
    with pa.ipc.new_file(unpacked, rows.schema) as file:
        for number in range(rows.begins.size - 1):
            group = rows.read(number, rows.schema.names)
            homes = pc.sum(pc.list_value_length(group["homes"])).as_py() or 0
            file.write_table(group, max_chunksize=max(1, group.num_rows * _HOMES // max(homes, 1)))


class PosteriorDraws:
    """Posterior draws of where the jobs of a release have their homes, opened; rows are read when asked for.

    Made by `pipelines.write_intervals`, and opened by `Release.draws`.

    Attributes
    ----------
    release : Release
    path : Path
    home_level : str
        Level of the homes; coarser ones, and any areas that gather its units, can be asked for.
    draws : int
    attributes : tuple of str
        By whose categories jobs can be counted.
    """

    def __init__(self, release: Release, path: PathLike, content: str | None = None) -> None:
        check_type(release, Release, "release", "open_release")
        path = path_of(path, "path")
        self.release, self.path = release, path
        with _blame(path):
            self._file = _Rows(path)
            document = json.loads((self._file.schema.metadata or {}).get(b"odsynth", b"{}"))
            if document.get("format") != DRAWS_FORMAT:
                raise ValueError(f"the format is not {DRAWS_FORMAT!r}")
        if document["release"] != (content or release.content_sha256):
            raise PublicReleaseError(
                f"{path}: the draws are of another release. Fix: write the draws of this release with "
                "odsynth intervals"
            )
        self.home_level, self.draws = str(document["home_level"]), int(document["draws"])
        self.attributes = tuple(name for name in release.categories if name in document["attributes"])
        if self.home_level not in release.levels:
            fix = "write the draws again with odsynth intervals"
            raise PublicReleaseError(f"{path}: the release has no level {self.home_level!r}. Fix: {fix}")

    def __repr__(self) -> str:
        words = f"{self.draws:,} of homes by {self.home_level}, in {self.path}"
        return f"<PosteriorDraws: {words}; {self.release!r}>"

    def flows(
        self,
        home: Areas,
        work: Areas | None,
        attributes: str | Sequence[str] = (),
        *,
        level: Fraction = LEVEL,
    ) -> pd.DataFrame:
        """Return the intervals of a table of jobs by home area, work area and attributes.

        Parameters
        ----------
        home : str, mapping or Series
            A level of the release, `home_level` or coarser; a kind of non-nesting areas of which units of
            `home_level` are parts, as those of the workload; or the area of each unit of one such level, by
            code: towns, regions. Units that it does not name are left out.
        work : str, mapping, Series or None
            The same of workplaces, down to the block. None counts jobs wherever they are.
        attributes : str or sequence of str
            By whose categories jobs are counted.
        level : Fraction
            In (0, 1): the part of posterior draws that an interval is to hold. docs/intervals.md says of
            which counts it holds the truth as often.

        Returns
        -------
        DataFrame
            A row for each cell whose interval is not 0 to 0: ``work`` and ``home`` (text: codes, or names of
            areas; ``work`` unless it is None), the attributes (text), ``S000`` (the middle draw), ``low`` and
            ``high`` (int64, both in the interval), in the order of work areas, categories and homes.

        Raises
        ------
        PublicReleaseError
            If there is no such level, area or attribute, draws are too few, or the file is damaged.
        """
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        self._check_draws(level)
        parts = []
        for cells in self.cells(home, work, names):
            low, high = of_draws(cells.counts, level)
            middle = np.partition(cells.counts, self.draws // 2, axis=0)[self.draws // 2]
            nonzero = high > 0
            parts.append(
                self._labels(home, work, names, cells)
                .assign(S000=middle, low=low, high=high)[nonzero]
                .reset_index(drop=True)
            )
        return pd.concat(parts, ignore_index=True)

    def implicates(
        self, home: Areas, work: Areas | None, attributes: str | Sequence[str] = ()
    ) -> pd.DataFrame:
        """Return a table of jobs in every draw: posterior implicates, for analyses that `combine` joins.

        Parameters
        ----------
        home, work, attributes
            As for `flows`.

        Returns
        -------
        DataFrame
            A row for each cell that has jobs in any draw: columns as of `flows` that say which cell it is,
            and ``1``, ``2``, ... (int64), the jobs in each draw.
        """
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        parts = []
        for cells in self.cells(home, work, names):
            counts = pd.DataFrame(cells.counts.T, columns=[str(i + 1) for i in range(self.draws)])
            parts.append(pd.concat([self._labels(home, work, names, cells), counts], axis=1))
        return pd.concat(parts, ignore_index=True)

    def has(self, home_level: str, count: str = "S000") -> bool:
        """Say whether there are intervals of homes of a level, and of a count of the release."""
        levels = self.release.levels
        return self.tells_apart(count) and levels.index(home_level) <= levels.index(self.home_level)

    def tells_apart(self, count: str) -> bool:
        """Say whether the draws tell the jobs of a count of the release from others."""
        attribute = self._attribute(count)
        return attribute is None or attribute[0] in self.attributes

    @property
    def between_draws(self) -> tuple[int, int]:
        """Which of the draws of a number, in their order, are the ends of its interval.

        Raises
        ------
        PublicReleaseError
            If draws are too few.
        """
        self._check_draws(LEVEL)
        low, high = of_draws(np.arange(self.draws))
        return int(low), int(high)

    def between(
        self, pairs: pd.DataFrame, home: str | Int64, work: str | Int64, count: str = "S000"
    ) -> tuple[Int64, Int64]:
        """Return the intervals of the flows between pairs of areas.

        Parameters
        ----------
        pairs : DataFrame
            ``work`` and ``home``: codes of areas of the levels, or the numbers of `Release.unit_flows`;
            where areas are given by block, their numbers.
        home, work : str or ndarray
            A level, as for `flows`, or the number of the area of each block, -1 for none.
        count : str
            Of ``release.counts``: which jobs.

        Returns
        -------
        low, high : ndarray of int64, shape (n_pairs,)

        Raises
        ------
        PublicReleaseError
            As `flows`.
        """
        return self.between_counts(pairs, home, work, (count,))[count]

    def between_counts(
        self, pairs: pd.DataFrame, home: str | Int64, work: str | Int64, counts: Sequence[str]
    ) -> dict[str, tuple[Int64, Int64]]:
        """Return the intervals of several counts of pairs of areas, each as `between` does.

        Draws are read once for all categories of an attribute.
        """
        geography = self.release.geography
        if isinstance(home, str) and isinstance(work, str):
            pairs = with_units(pairs, geography, home, work)
        wide = int(np.append(self._area(home, self.home_level, "homes"), pairs["home"]).max()) + 1
        key = pairs["work"].to_numpy().astype(np.int64) * wide + pairs["home"].to_numpy()
        order = np.argsort(key)
        work_area = self._area(work, geography.block_level, "workplaces")
        blocks = np.flatnonzero(np.isin(work_area, pairs["work"].unique()))
        self._check_draws(LEVEL)
        ends = {count: (np.zeros(key.size, np.int64), np.zeros(key.size, np.int64)) for count in counts}
        tables: dict[tuple[str, ...], dict[str, int | None]] = {}
        for count in counts:
            name, code = self._attribute(count) or (None, None)
            tables.setdefault(() if name is None else (name,), {})[count] = code
        for names, categories in tables.items():
            for cells in self.cells(home, work, names, blocks, pairs):
                cell = cells.work * wide + cells.home
                row = order[np.minimum(np.searchsorted(key, cell, sorter=order), max(key.size - 1, 0))]
                same = key[row] == cell
                for count, code in categories.items():
                    of_count = same if code is None else same & (cells.categories[0] == code)
                    low, high = ends[count]
                    low[row[of_count]], high[row[of_count]] = of_draws(cells.counts[:, of_count])
        return ends

    def cells(
        self,
        home: Areas,
        work: Areas | None,
        attributes: Sequence[str] = (),
        only: Int64 | None = None,
        pairs: pd.DataFrame | None = None,
    ) -> Iterator[Cells]:
        """Yield the cells of a table that have jobs in any draw, all of a work area together.

        Parameters
        ----------
        home, work, attributes
            As for `flows`.
        only : ndarray of int64, optional
            Work blocks to look at, rising; others are not read.
        pairs : DataFrame, optional
            ``work`` and ``home``: numbers of the areas between which jobs are counted; others have none.

        Yields
        ------
        Cells
            At least one.
        """
        geography = self.release.geography
        home_area = self._area(home, self.home_level, "homes")
        if pairs is not None:
            home_area = np.where(np.isin(home_area, pairs["home"].unique()), home_area, -1)
        work_area = np.zeros(geography.n_blocks, np.int64)
        if work is not None:
            work_area = self._area(work, geography.block_level, "workplaces")
        if unknown := [name for name in attributes if name not in self.attributes]:
            raise PublicReleaseError(
                f"{self.path}: the draws have no attribute {unknown[0]}; there are: "
                f"{', '.join(self.attributes) or 'none'}"
            )
        if only is not None:
            work_area = np.where(np.isin(np.arange(work_area.size), only), work_area, -1)
        widths = [len(self.release.categories[name]) for name in attributes]
        shape = (int(work_area.max(initial=0)) + 1, *widths, int(home_area.max(initial=0)) + 1)
        wanted = None
        if pairs is not None:
            works, homes = (pairs[side].to_numpy().astype(np.int64) for side in ("work", "home"))
            wanted = np.append(np.unique(works * shape[-1] + homes), np.iinfo(np.int64).max)  # and an end
        group, area = self._rows(work_area)
        last = np.zeros(shape[0], np.int64)  # the row group in which each work area ends
        np.maximum.at(last, area, group)
        empty = np.zeros((self.draws, 0), np.int64)
        pending, pending_counts = np.zeros(0, np.int64), empty
        yielded = False
        for number in np.unique(group).tolist():
            cell, counts = self._count(number, home_area, work_area, attributes, shape, wanted)
            if pending.size:
                joined = np.union1d(pending, cell)
                total = np.zeros((self.draws, joined.size), np.int64)
                total[:, np.searchsorted(joined, pending)] += pending_counts
                total[:, np.searchsorted(joined, cell)] += counts
                cell, counts = joined, total
            done = last[cell // math.prod(shape[1:])] <= number
            pending, pending_counts = cell[~done], counts[:, ~done]
            if done.any():
                yielded = True
                yield _cells(cell[done], counts[:, done], shape)
        if not yielded:
            yield _cells(np.zeros(0, np.int64), empty, shape)

    def names_of(self, areas: Areas) -> NDArray[np.object_]:
        """Return the code or name of each area, by its number."""
        if isinstance(areas, str):
            return np.asarray(self.release.geography.codes(areas), object)
        return np.asarray(sorted(pd.Series(areas, dtype="str").unique()), object)

    def _attribute(self, count: str) -> tuple[str, int] | None:
        """Return the attribute and the category that a count of the release is of; None of all jobs."""
        for name, columns in count_columns(self.release.categories).items():
            if count in columns:
                return name, columns.index(count)
        return None

    def _check_draws(self, level: Fraction) -> None:
        if self.draws < (least := -(-2 // (1 - level)) - 1):
            raise PublicReleaseError(
                f"{self.path}: {self.draws} draws are too few. Fix: write at least {least} with --draws"
            )

    def _labels(
        self, home: Areas, work: Areas | None, attributes: Sequence[str], cells: Cells
    ) -> pd.DataFrame:
        columns = {} if work is None else {"work": self.names_of(work)[cells.work]}
        columns["home"] = self.names_of(home)[cells.home]
        for name, codes in zip(attributes, cells.categories, strict=True):
            columns[name] = np.asarray(self.release.categories[name], object)[codes]
        return pd.DataFrame(columns).astype("str")

    def _area(self, areas: Areas, finest: str, side: str) -> Int64:
        """Return the number of the area of each unit of the finest level that there is; -1 for none."""
        if areas is None:
            raise PublicReleaseError(
                f'{side}: give a level or areas. Fix: dict.fromkeys(units, "all") for all of some units'
            )
        geography, levels = self.release.geography, self.release.levels
        nested = levels[: levels.index(finest) + 1]
        starts = geography.starts(finest)
        if isinstance(areas, np.ndarray):
            of_unit = np.asarray(areas, np.int64)[starts]
            if not np.array_equal(of_unit[geography.units_of_blocks(finest)], areas):
                rule, fix = f"the areas of {side} cut units of {finest}", "name areas of whole units"
                raise PublicReleaseError(f"{rule}; {fix}")
            return of_unit
        if isinstance(areas, str):
            gathered = [kind for kind in geography.non_nesting_areas if geography.lie_within(finest, kind)]
            if areas not in (*nested, *gathered):
                present = ", ".join((*nested, *gathered))
                raise PublicReleaseError(f"there are no {side} by {areas!r}; there are: {present}")
            return geography.unit_of(areas, starts).astype(np.int64)
        named = pd.Series(areas, dtype="str")
        index = named.index.astype("str")
        for level in nested:
            unit = geography.unit_number(level, index)
            if len(unit) and (unit >= 0).all():
                area = np.full(geography.n_units(level), -1, np.int64)
                area[unit] = np.searchsorted(self.names_of(named), named.to_numpy(object))
                return area[geography.unit_of(level, starts)]
        raise PublicReleaseError(
            f"the codes of the areas of {side} are not units of one level; there are: {', '.join(nested)}"
        )

    @cached_property
    def _works(self) -> NDArray[np.int32]:
        """The work block of every row."""
        with _blame(self.path):
            groups = [self._file.read(i, ["work"]) for i in range(self._file.begins.size - 1)]
            work = _numbers(self.release, pa.concat_tables(groups)["work"])
            if work.size and work.min() < 0:
                raise ValueError("there are work blocks that the release does not have")
        return work

    def _rows(self, work_area: Int64) -> tuple[Int64, Int64]:
        """Return the row group, and the area, of all rows that are asked for."""
        area, begins = work_area[self._works], self._file.begins
        group = np.repeat(np.arange(begins.size - 1), np.diff(begins))
        return group[area >= 0], area[area >= 0]

    def _count(
        self,
        number: int,
        home_area: Int64,
        work_area: Int64,
        attributes: Sequence[str],
        shape: tuple[int, ...],
        wanted: Int64 | None,
    ) -> tuple[Int64, Int64]:
        """Count the jobs of a row group: cells of a table, rising, and their counts in each draw.

        Of all cells, or of those between wanted pairs of areas: far fewer than those that have a job in some
        draw.
        """
        work = self._works[slice(*self._file.begins[number : number + 2])]
        with _blame(self.path):
            table = self._file.read(number, ["jobs", "homes", *attributes]).combine_chunks()
            jobs = table["jobs"].to_numpy()
            lists = table["homes"].combine_chunks()
            if (jobs < 1).any() or not np.array_equal(lists.value_lengths().to_numpy(), jobs * self.draws):
                raise ValueError("a row does not have one home for each of its jobs in each draw")
            row_cell = work_area[work]
            keep = row_cell >= 0
            jobs, lists = jobs[keep], lists if keep.all() else lists.filter(pa.array(keep))
            homes = lists.flatten().to_numpy()
            if homes.size and int(homes.max()) >= home_area.size:
                raise ValueError("there are homes that the release does not have")
            for name, width in zip(attributes, shape[1:-1], strict=True):
                values = pa.array(self.release.categories[name], pa.string())
                code = pc.index_in(table[name].cast(pa.string()), value_set=values)
                if code.null_count:
                    raise ValueError(f"there are categories of {name} that the release does not have")
                row_cell = row_cell * width + code.to_numpy()
        first, of_row = np.unique(row_cell[keep], return_inverse=True)
        counted, areas = np.flatnonzero((home_area >= 0)[homes]), shape[-1]
        row = np.repeat(np.arange(jobs.size, dtype=np.int32), jobs * self.draws)[counted]
        each = np.tile(np.arange(self.draws, dtype=np.int32), jobs.size)
        draw = np.repeat(each, np.repeat(jobs, self.draws))[counted]
        cell = of_row[row] * areas + home_area[homes[counted]]
        position, occurring = pd.factorize(cell, sort=True)  # of few that occur: not of all there may be
        if wanted is not None:
            pair = first[occurring // areas] // math.prod(shape[1:-1]) * areas + occurring % areas
            kept = wanted[np.searchsorted(wanted, pair)] == pair
            place = np.cumsum(kept) - 1
            occurring, draw, position = occurring[kept], draw[kept[position]], place[position[kept[position]]]
        flat = draw * occurring.size + position
        counts = np.bincount(flat, minlength=self.draws * occurring.size).reshape(self.draws, occurring.size)
        return first[occurring // areas] * areas + occurring % areas, counts


def public_key(release: Release) -> synth.RunKey:
    """Return the key of the draws of a release, which everybody can compute.

    Draws are post-processing of public files, so nothing has to be secret: with the same key all readers get
    the same intervals.
    """
    text = f"{DRAWS_FORMAT} {release.content_sha256}"
    return synth.RunKey(hashlib.sha256(text.encode()).digest(), secure=False)


def _cells(cell: Int64, counts: Int64, shape: tuple[int, ...]) -> Cells:
    work, *codes, home = np.unravel_index(cell, shape)
    return Cells(home, work, tuple(codes), counts)


def _numbers(release: Release, column: pa.ChunkedArray) -> NDArray[np.int32]:
    codes = column.cast(pa.string())
    numbers = pc.index_in(codes, value_set=release.geography.block_codes).fill_null(-1)
    return numbers.to_numpy().astype(np.int32)


def _blame(path: Path) -> AbstractContextManager[None]:
    fix = "write it again with odsynth intervals"
    return blame(PublicReleaseError, f"{path}: damaged, or not a file of draws", fix)
