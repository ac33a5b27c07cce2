"""Posterior draws that a release carries, and the intervals of counts and sums that are read from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.arguments import check_type
from geo_data.geography import Geography
from geo_data.od_files import count_columns
from pipelines.config.languages import ENGLISH
from pipelines.plans.workload import Table
from pipelines.release.intervals import (
    INTERVALS_FILE,
    N_DRAWS,
    Estimates,
    TableDraws,
    carries_draws,
    estimates,
    interval_tables,
    read_draws,
)
from pipelines.release.pages import phrases as release_phrases
from pipelines.views.flows import with_units
from pipelines.views.folder import WHOLE_COPY, PublicReleaseError, blame_release
from pipelines.views.pages import phrases
from pipelines.views.release import Release

Int64 = NDArray[np.int64]

Areas = str | Mapping[str, str] | pd.Series | Int64
"""A level of the release, a kind of its non-nesting areas, or the area of each unit of one of these, by code;
in place of these the number of the area of each block, -1 for none."""


def coverage_words() -> list[str]:
    """Return what programs say of intervals, in lines; read-mes say it in the language of their release."""
    return list(phrases(ENGLISH).coverage().splitlines())


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells of a table, and their count in every draw, in the order of work, categories and home."""

    home: Int64  # Numbers of their areas: of units of a level, or as in `PosteriorDraws.names_of`
    work: Int64
    categories: tuple[Int64, ...]  # By attribute of the table
    counts: Int64  # (draws, cells)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of areas, and the counts of jobs between them whose estimates are asked for."""

    home: Int64  # Numbers of their areas
    work: Int64
    home_areas: str | Int64  # As for `PosteriorDraws.between_counts`
    work_areas: str | Int64
    counts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Parts:
    """A table of a release whose cells are parts of those that are asked for."""

    table: Table
    home: Int64  # The area that is asked for, of each home area of the table; -1 for none
    work: Int64

    def of(self, homes: Int64 | None, works: Int64 | None) -> Parts:
        """Return what it has of some areas; None is all."""
        home, work = (
            area if some is None else np.where(np.isin(area, some), area, -1)
            for area, some in ((self.home, homes), (self.work, works))
        )
        return Parts(self.table, home, work)

    def codes(self, geography: Geography) -> dict[str, list[str]]:
        """Return the codes of the areas of the table that it has, by side, where these are not all."""
        sides = ("home", self.table.home, self.home), ("work", self.table.work, self.work)
        return {
            side: geography.codes(kind)[area >= 0].tolist()
            for side, kind, area in sides
            if kind is not None and (area < 0).any()
        }


class PosteriorDraws:
    """Posterior draws of tables of a release, which lie in its public folder; read when asked for.

    Opened by `Release.draws`. A table that is asked for is added up from one that the release carries, whose
    areas are the same or parts of those asked for: the first in the order of the file.

    Attributes
    ----------
    release : Release
    path : Path
    tables : tuple of Table
        Of which there are draws.
    draws : int
    """

    draws = N_DRAWS

    def __init__(self, release: Release) -> None:
        check_type(release, Release, "release", "open_release")
        self.release, self.path = release, release.public / INTERVALS_FILE
        if not carries_draws(release.plan):
            rule = "its mechanism neither measures tables nor is Dirichlet resampling, so it carries no draws"
            raise PublicReleaseError(f"{release.public}: {rule}. Fix: use its counts alone")
        if not release.has_draws:
            raise PublicReleaseError(f"{self.path}: there is no such file. Fix: {WHOLE_COPY}")
        self.tables = interval_tables(release.plan)

    def __repr__(self) -> str:
        return f"<PosteriorDraws: {self.draws} of {self.names}; {self.release!r}>"

    def flows(self, home: Areas, work: Areas | None, attributes: str | Sequence[str] = ()) -> pd.DataFrame:
        """Return the intervals of a table of jobs by home area, work area and attributes.

        Parameters
        ----------
        home : str, mapping or Series
            A level of the release; a kind of its non-nesting areas; or the area of each unit of one of these,
            by code: towns, regions. Units that it does not name are left out.
        work : str, mapping, Series or None
            The same of workplaces. None counts jobs wherever they are.
        attributes : str or sequence of str
            By whose categories jobs are counted.

        Returns
        -------
        DataFrame
            A row for each cell that has jobs in any draw: ``work`` and ``home`` (text: codes, or names of
            areas; ``work`` unless it is None), the attributes (text), ``estimate`` (the mean of the draws, to
            a tenth of a job), ``low`` and ``high`` (int64, the ends of the interval of 90 %, both in it), in
            the order of work areas, categories and homes.

        Raises
        ------
        PublicReleaseError
            If there is no such level, area or attribute, no table of the release has parts of what is asked
            for, nothing published tells homes apart by the attributes, or the file is damaged.
        """
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        cells = self.cells(home, work, names)
        return self._labels(home, work, names, cells).assign(**estimates(cells.counts)._asdict())

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
        cells = self.cells(home, work, names)
        counts = pd.DataFrame(cells.counts.T, columns=[str(i + 1) for i in range(self.draws)])
        return pd.concat([self._labels(home, work, names, cells), counts], axis=1)

    def has(self, home: Areas, work: Areas | None, attributes: Sequence[str] = ()) -> bool:
        """Say whether the release carries draws of a table, or of parts of its cells."""
        sides = self._of_blocks(home, "homes"), self._of_blocks(work, "workplaces")
        return self._parts(*sides, attributes, needs_work=work is not None) is not None

    def why_none(self, attributes: Sequence[str] = (), language: str = ENGLISH) -> str:
        """Say in a sentence why a table of homes by attributes has no draws, where `has` says so."""
        say = release_phrases(language)
        told = self.release.plan.tells_homes_by(attributes)
        return str(say.without_table if told else say.untold([(*attributes,)]))

    def attributes_of(self, count: str) -> tuple[str, ...]:
        """Return the attribute by whose categories a count of the release is made; none of all jobs."""
        return tuple(name for name, columns in self._columns.items() if count in columns)

    def between_counts(
        self, pairs: pd.DataFrame, home: str | Int64, work: str | Int64, counts: Iterable[str] = ("S000",)
    ) -> dict[str, Estimates]:
        """Return estimates and intervals of the flows between pairs of areas.

        Parameters
        ----------
        pairs : DataFrame
            ``work`` and ``home``: codes of areas of the levels, or the numbers of `Release.unit_flows`;
            where areas are given by block, their numbers.
        home, work : str or ndarray
            A level, as for `flows`, or the number of the area of each block, -1 for none.
        counts : iterable of str
            Of ``release.counts``: which jobs.

        Returns
        -------
        dict of str to Estimates
            By count: ``estimate`` (float64), ``low`` and ``high`` (int64), each of shape (n_pairs,), as of
            `flows`.

        Raises
        ------
        PublicReleaseError
            As `flows`.
        """
        if isinstance(home, str) and isinstance(work, str):
            pairs = with_units(pairs, self.release.geography, home, work)
        homes, works = (pairs[side].to_numpy().astype(np.int64) for side in ("home", "work"))
        return self.between_each([Pairs(homes, works, home, work, tuple(counts))])[0]

    def between_each(self, asked: Sequence[Pairs]) -> list[dict[str, Estimates]]:
        """Return the estimates of the counts of each of several questions; draws of a table are read once.

        To read them takes far longer than to add them up.
        """
        sought: dict[Table, list[tuple[int, tuple[str, ...], Parts]]] = {}
        for number, pairs in enumerate(asked):
            homes, works = np.unique(pairs.home), np.unique(pairs.work)
            for names in dict.fromkeys(map(self.attributes_of, pairs.counts)):
                parts = self._sought(pairs.home_areas, pairs.work_areas, names).of(homes, works)
                sought.setdefault(parts.table, []).append((number, names, parts))
        told: list[dict[str, Estimates]] = [{} for _ in asked]
        for several in sought.values():
            read = self.read([parts for *_, parts in several])
            for number, names, parts in several:
                told[number] |= self._of_pairs(asked[number], names, self._added_up(read, parts, names))
        return [{count: told[i][count] for count in pairs.counts} for i, pairs in enumerate(asked)]

    def _of_pairs(self, pairs: Pairs, names: tuple[str, ...], cells: Cells) -> dict[str, Estimates]:
        """Return the estimates of the counts by attributes, from cells with all that pairs have of these."""
        wide = int(np.append(cells.home, pairs.home).max(initial=0)) + 1
        key, cell = pairs.work * wide + pairs.home, cells.work * wide + cells.home
        order = np.argsort(key)
        row = order[np.minimum(np.searchsorted(key, cell, sorter=order), max(key.size - 1, 0))]
        same = key[row] == cell
        told = {}
        for count in pairs.counts:
            if self.attributes_of(count) != names:
                continue
            code = self._columns[names[0]].index(count) if names else None
            of_count = same if code is None else same & (cells.categories[0] == code)
            told[count] = Estimates(np.zeros(key.size), *np.zeros((2, key.size), np.int64))
            for numbers, of_cells in zip(told[count], estimates(cells.counts[:, of_count]), strict=True):
                numbers[row[of_count]] = of_cells
        return told

    def cells(
        self,
        home: Areas,
        work: Areas | None,
        attributes: Sequence[str] = (),
        *,
        homes: Int64 | None = None,
        works: Int64 | None = None,
    ) -> Cells:
        """Return the cells of a table that have jobs in any draw.

        Parameters
        ----------
        home, work, attributes
            As for `flows`.
        homes, works : ndarray of int64, optional
            Numbers of the areas to count; others are left out.

        Returns
        -------
        Cells
        """
        parts = self._sought(home, work, attributes).of(homes, works)
        return self._added_up(self.read([parts]), parts, attributes)

    def _sought(self, home: Areas, work: Areas | None, attributes: Sequence[str]) -> Parts:
        """Return the first table with parts of what is asked for, which there must be."""
        categories = self.release.categories
        if unknown := [name for name in attributes if name not in categories]:
            present = ", ".join(categories) or "none"
            raise PublicReleaseError(f"the release has no attribute {unknown[0]}; it has: {present}")
        sides = self._of_blocks(home, "homes"), self._of_blocks(work, "workplaces")
        parts = self._parts(*sides, attributes, needs_work=work is not None)
        if parts is None:
            fix = f"ask for areas made of whole areas of these tables: {self.names}"
            if not self.release.plan.tells_homes_by(attributes):
                fix = "count rows of synthetic workers (Release.flows), which have no intervals"
            raise PublicReleaseError(f"{self.path}: {self.why_none(attributes)} Fix: {fix}")
        return parts

    def read(self, several: Sequence[Parts]) -> TableDraws:
        """Return the draws of a table that parts of it need."""
        some = [parts.codes(self.release.geography) for parts in several]
        with blame_release(self.path):
            return read_draws(self.release.plan, several[0].table, self.release.public, some)

    def _added_up(self, read: TableDraws, parts: Parts, attributes: Sequence[str]) -> Cells:
        """Add up draws of parts to the cells that are asked for."""
        widths = [len(self.release.categories[name]) for name in attributes]
        shape = [int(parts.work.max(initial=0)) + 1, *widths, int(parts.home.max(initial=0)) + 1]
        key = parts.work[np.zeros_like(read.home) if read.work is None else read.work]
        kept = (key >= 0) & (parts.home[read.home] >= 0)
        for name, width in zip(attributes, widths, strict=True):
            key = key * width + read.categories[read.table.attributes.index(name)]
        key = (key * shape[-1] + parts.home[read.home])[kept]
        order = np.argsort(key, kind="stable")
        distinct, first = np.unique(key[order], return_index=True)
        counts = np.zeros((self.draws, 0), np.int64)
        if distinct.size:
            counts = np.add.reduceat(read.counts[:, kept][:, order], first, axis=1, dtype=np.int64)
        of_cell, *of_category, of_area = np.unravel_index(distinct, shape)
        return Cells(of_area, of_cell, tuple(of_category), counts)

    def names_of(self, areas: Areas) -> NDArray[np.object_]:
        """Return the code or name of each area, by its number."""
        if isinstance(areas, str):
            return np.asarray(self.release.geography.codes(areas), object)
        return np.asarray(sorted(pd.Series(areas, dtype="str").unique()), object)

    @property
    def names(self) -> str:
        """What errors call the tables."""
        return "; ".join(table.name for table in self.tables)

    @property
    def _columns(self) -> dict[str, list[str]]:
        return {name: list(columns) for name, columns in count_columns(self.release.categories).items()}

    def _labels(
        self, home: Areas, work: Areas | None, attributes: Sequence[str], cells: Cells
    ) -> pd.DataFrame:
        columns = {} if work is None else {"work": self.names_of(work)[cells.work]}
        columns["home"] = self.names_of(home)[cells.home]
        for name, codes in zip(attributes, cells.categories, strict=True):
            columns[name] = np.asarray(self.release.categories[name], object)[codes]
        return pd.DataFrame(columns).astype("str")

    def _parts(
        self, home: Int64, work: Int64, attributes: Sequence[str], *, needs_work: bool
    ) -> Parts | None:
        """Return the first table with parts of areas that are given by block."""
        for table in self.tables:
            if {*attributes} <= {*table.attributes} and not (needs_work and table.work is None):
                of_home = self._gathered(home, table.home)
                of_work = np.zeros(1, np.int64) if table.work is None else self._gathered(work, table.work)
                if of_home is not None and of_work is not None:
                    return Parts(table, of_home, of_work)
        return None

    def _gathered(self, area: Int64, kind: str | None) -> Int64 | None:
        """Return the area of each unit of a kind; None where areas cut units."""
        geography = self.release.geography
        unit = geography.units_of_blocks(str(kind))
        of_unit = np.full(geography.n_units(str(kind)), -1, np.int64)
        of_unit[unit] = area
        return of_unit if np.array_equal(of_unit[unit], area) else None

    def _of_blocks(self, areas: Areas | None, side: str) -> Int64:
        """Return the number of the area of each block; -1 for none. Workplaces may be all one area."""
        geography, kinds = self.release.geography, self.release.kinds_of_areas
        if areas is None and side == "homes":
            raise PublicReleaseError(
                'homes: give a level or areas. Fix: dict.fromkeys(units, "all") for all of some units'
            )
        if areas is None:
            return np.zeros(geography.n_blocks, np.int64)
        if isinstance(areas, np.ndarray):
            return np.asarray(areas, np.int64)
        if isinstance(areas, str):
            if areas not in kinds:
                raise PublicReleaseError(f"there are no {side} by {areas!r}; there are: {', '.join(kinds)}")
            return geography.units_of_blocks(areas).astype(np.int64)
        named = pd.Series(areas, dtype="str")
        index = named.index.astype("str")
        for kind in kinds:
            unit = geography.unit_number(kind, index)
            if len(unit) and (unit >= 0).all():
                area = np.full(geography.n_units(kind), -1, np.int64)
                area[unit] = np.searchsorted(self.names_of(named), named.to_numpy(object))
                return area[geography.units_of_blocks(kind)]
        raise PublicReleaseError(
            f"the codes of the areas of {side} are not units of one level; there are: {', '.join(kinds)}"
        )
