"""Relationship files: which areas of one geography share land with which of another, after codes changed.

The Census Bureau, NHGIS and the ONS publish such files. Nothing is apportioned by them: they say which areas
are the same place, or parts of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from geo_data.arguments import path_of, texts_of
from geo_data.errors import InputError, refuse_any, refuse_repeated
from geo_data.geography import Geography
from geo_data.tables import Kind, TableSchema, read_header, read_table
from geo_data.unknown_codes import misspelled

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

LEAST = 0.25
"""Share of the land of one of two areas from which on they are linked. Less may be a boundary that was drawn
better: corrections by metres would link neighbour after neighbour."""

_CENSUS = {"STATE": 2, "COUNTY": 3, "TRACT": 6, "BLK": 4}  # columns of a code, before the year; their digits
_CODES = "blk[0-9]{4}ge|(OA|LSOA|MSOA)[0-9]{2}CD"  # columns of codes of NHGIS and of the ONS
_GISJOIN = "G[0-9]{7}[0-9]*"
_NAME_COLUMNS = "name its columns: that of A, that of B, and that of what they share, if there is one"


@dataclass(frozen=True, eq=False)
class Links:
    """Areas of A and B that are the same place, or parts of it.

    Attributes
    ----------
    levels : (str, str)
        Of the areas, in A and in B.
    units : (ndarray of int64, ndarray of int64), shape (n_links,) each
        Pairs of their numbers; each area, and each external zone, is in one at least.
    slight : int
        Pairs of the file that are no links: they share less than `LEAST` of the land of either, or none.
    slight_share : float
        What these share, of all that areas share.
    """

    geographies: tuple[Geography, Geography]
    levels: tuple[str, str]
    units: tuple[Int64, Int64]
    slight: int
    slight_share: float

    def groups(self, kind: str) -> tuple[Int64, Int64] | None:
        """Return the group of each area of a kind, in A and in B; None where it is not made of whole units.

        A group is as small as can be: areas that are linked, by others or not, are in one. Groups are
        numbered in the order of the areas of A.
        """
        sides = [*zip(self.geographies, self.levels, self.units, strict=True)]
        if not all(geography.lie_within(level, kind) for geography, level, _ in sides):
            return None
        a, b = (
            geography.unit_of(kind, geography.starts(level)[units]).astype(np.int64)
            for geography, level, units in sides
        )
        n, both = (geography.n_units(kind) for geography in self.geographies), a.size
        n_a, n_b = n
        graph = coo_array((np.ones(both, np.int8), (a, n_a + b)), shape=(n_a + n_b, n_a + n_b))
        label = connected_components(graph, directed=False)[1]
        _, first = np.unique(label[:n_a], return_index=True)
        number = np.argsort(np.argsort(first)).astype(np.int64)
        return number[label[:n_a]], number[label[n_a:]]


@dataclass(frozen=True, eq=False)
class Relationship:
    """Pairs of areas that share land, as a public file has them; made by `read_relationship`.

    Attributes
    ----------
    path : Path
    columns : (str, str)
        What errors call the columns of codes.
    codes : (Series of str, Series of str)
    shared : ndarray of float64
        What the two areas of a row share: land, or a weight; infinite where the file does not say.
    water : ndarray of float64
        Water that they share, by which areas without land are linked.
    of_a_first : bool
        Whether the first codes are known to be those of A.
    """

    path: Path
    columns: tuple[str, str]
    codes: tuple[pd.Series, pd.Series]
    shared: Float64
    water: Float64
    of_a_first: bool

    def link(self, a: Geography, b: Geography) -> Links:
        """Return which areas of two geographies are linked: those that share land.

        Which codes are of A, and of which level, is found by the codes, unless columns were named. Areas are
        linked if they share at least `LEAST` of the land of one of them, and every area with that with which
        it shares most.

        Raises
        ------
        InputError
            If areas of A or B are in no pair, or codes may be of A and of B.
        """
        readings = [_Reading(self, (a, b), (0, 1)), _Reading(self, (a, b), (1, 0))]
        asked = readings[:1] if self.of_a_first else readings
        whole = [reading for reading in asked if not any(reading.missing)]
        if not whole:
            self._refuse(max(asked, key=lambda reading: reading.share), readings)
        if len(whole) == 2 and not np.array_equal(whole[0].pairs, whole[1].pairs):
            raise InputError(
                self.path,
                f"columns {' and '.join(self.columns)} both have all codes of A and of B",
                fix="name the columns of codes, that of A first",
            )
        return whole[0].links()

    def _refuse(self, reading: _Reading, readings: Sequence[_Reading]) -> None:
        """Refuse a file that lacks areas: because codes are written otherwise, exchanged, or of others."""
        for _, column, geography, level, texts in reading.sides():
            if texts.str.fullmatch(_GISJOIN).all():
                fix = "name the columns of GEOIDs, or use the file that has them"
                raise InputError(self.path, "codes are GISJOIN identifiers", column=column, fix=fix)
            distinct = pd.Series(texts.unique(), dtype="str")
            for which, rule, fix in misspelled(geography, level, distinct):
                refuse_any(self.path, rule, texts.isin(distinct[which]), column=column, fix=fix)
        if self.of_a_first and not any(readings[1].missing):
            rule = "the codes of A are in the second column that is named, and those of B in the first"
            raise InputError(self.path, rule, fix="name the column of A first")
        for (letter, column, _, level, _), missing in zip(reading.sides(), reading.missing, strict=True):
            refuse_any(
                self.path,
                f"areas of {letter} ({level}) are in no row with an area of the other release",
                missing,
                column=column,
                fix="use the whole file of the state, and of the years of the blocks, of A and B",
            )


class _Reading:
    """One way to read a file: which of its codes are those of A."""

    def __init__(
        self, file: Relationship, geographies: tuple[Geography, Geography], order: tuple[int, int]
    ) -> None:
        self._file, self._geographies, self._order = file, geographies, order
        found = [_located(g, file.codes[i]) for g, i in zip(geographies, order, strict=True)]
        self.levels = found[0][0], found[1][0]
        self._known = (found[0][1] >= 0) & (found[1][1] >= 0)
        self._units = found[0][1][self._known], found[1][1][self._known]
        inside = [
            np.flatnonzero(~g.is_external(g.starts(level)))
            for g, level in zip(geographies, self.levels, strict=True)
        ]
        self.missing = [
            int(np.setdiff1d(some, units).size) for some, units in zip(inside, self._units, strict=True)
        ]
        self.share = 1 - sum(self.missing) / sum(some.size for some in inside)

    def sides(self) -> list[tuple[str, str, Geography, str, pd.Series]]:
        """Return letter, column, geography, level and codes of A and B."""
        return [
            (letter, self._file.columns[i], geography, level, self._file.codes[i])
            for letter, i, geography, level in zip(
                "AB", self._order, self._geographies, self.levels, strict=True
            )
        ]

    @property
    def pairs(self) -> Int64:
        """Number of each pair, rising."""
        return np.unique(self._units[0] * self._geographies[1].n_blocks + self._units[1])

    def links(self) -> Links:
        """Return the pairs that are links, and one for each external zone."""
        shared, water = (values[self._known] for values in (self._file.shared, self._file.water))
        joined, small = np.zeros(shared.size, np.bool_), np.ones(shared.size, np.bool_)
        for units in self._units:
            small &= shared < LEAST * np.bincount(units, shared)[units]
            order = np.lexsort((water, shared, units))
            joined[order[np.append(np.diff(units[order]) != 0, True)]] = True
        joined |= (shared > 0) & ~small
        a, b = (
            np.concatenate([units[joined], geography.unit_of(level, geography.external_blocks)])
            for units, geography, level in zip(self._units, self._geographies, self.levels, strict=True)
        )
        every = float(shared.sum())
        slight_share = float(shared[~joined].sum()) / every if every else 0.0
        return Links(self._geographies, self.levels, (a, b), int((~joined).sum()), slight_share)


def _located(geography: Geography, codes: pd.Series) -> tuple[str, Int64]:
    """Return the level of which codes have the largest part, and the number of each code there; -1: none."""
    index, distinct = pd.factorize(codes)
    best: tuple[float, str, Int64] | None = None
    for level in (geography.block_level, *reversed(geography.levels)):
        numbers = geography.unit_number(level, distinct).astype(np.int64)
        share = np.unique(numbers[numbers >= 0]).size / geography.n_units(level)
        if best is None or share > best[0]:
            best = share, level, numbers
    assert best is not None
    return best[1], best[2][index]


def read_relationship(
    path: str | os.PathLike[str],
    columns: tuple[str, str] | None = None,
    shared: str | None = None,
) -> Relationship:
    """Read a public relationship file between the areas of two geographies.

    Parameters
    ----------
    path : str or path
        CSV, csv.gz, Parquet, or text with bars between fields, with a row for each pair of areas that have
        anything in common; further columns are ignored.
    columns : (str, str), optional
        The columns of codes: of the earlier release that is compared (A), and of the other one (B). Left out
        for a block relationship file of the Census Bureau (``STATE_2010`` to ``BLK_2010``, and those of 2020;
        land by ``AREALAND_INT``), of NHGIS (``blk2010ge``, ``blk2020ge``, ``weight``), and a lookup of the
        ONS (``OA11CD``, ``OA21CD``; or LSOA, MSOA); which codes are of A is then found by the codes.
    shared : str, optional
        With `columns`, that of what the two areas of a row share: land, say, or a weight. Without it, all
        rows are links.

    Returns
    -------
    Relationship

    Raises
    ------
    InputError
        A file fault; columns of no known form; codes that lost leading zeros; a pair twice; negative land.
    """
    path = path_of(path, "path")
    header = read_header(path)
    delimiter = "|" if len(header) == 1 and "|" in header[0] else ","
    header = header[0].split("|") if delimiter == "|" else header
    water = None
    if columns is None:
        sides, shared, water = _form(path, header)
    else:
        sides = [(column,) for column in texts_of(columns, "columns")]
        if len(sides) != 2:
            raise ValueError(f"columns: {len(sides)} are named, and there are two, that of A and that of B")
    numbers = [name for name in (shared, water) if name is not None]
    names = [*sides[0], *sides[1]]
    refuse_repeated(path, [*names, *numbers])
    kinds: dict[str, Kind] = {**dict.fromkeys(names, "code"), **dict.fromkeys(numbers, "decimal")}
    frame = read_table(path, TableSchema(kinds, delimiter=delimiter))
    for name in names:
        digits = _CENSUS.get(name[:-5], 0) if len(sides[0]) > 1 else 0
        refuse_any(
            path,
            "rows have codes that lost their leading zeros",
            frame[name].str.len() < digits,
            column=name,
            fix="keep geocodes as text in the program that wrote the file",
        )
    for name in numbers:
        refuse_any(path, "values are negative", frame[name] < 0, column=name, fix="correct the file")
    one, other = (reduce(add, (frame[name] for name in side)) for side in sides)
    refuse_any(
        path,
        "rows repeat a pair of areas of an earlier row",
        pd.DataFrame({"one": one, "other": other}).duplicated(),
        fix="keep one row per pair",
    )
    return Relationship(
        path,
        (_called(sides[0]), _called(sides[1])),
        (one, other),
        # Where nothing says how much is shared, nothing is little.
        frame[shared].to_numpy(np.float64) if shared else np.full(len(frame), np.inf),
        frame[water].to_numpy(np.float64) if water else np.zeros(len(frame)),
        columns is not None,
    )


def _form(path: Path, header: Sequence[str]) -> tuple[list[tuple[str, ...]], str | None, str | None]:
    """Return the columns of codes, on each side, and those of what they share of land and water."""
    years = [name[6:] for name in header if re.fullmatch("STATE_[0-9]{4}", name)]
    if len(years) == 2:
        sides = [tuple(f"{part}_{year}" for part in _CENSUS) for year in years]
        return sides, "AREALAND_INT", "AREAWATER_INT"
    codes = [name for name in header if re.fullmatch(_CODES, name)]
    if len(codes) == 2:
        return [(codes[0],), (codes[1],)], "weight" if "weight" in header else None, None
    rule = "it has not the columns of a block relationship file of the Census Bureau, NHGIS or the ONS"
    raise InputError(path, rule, fix=_NAME_COLUMNS)


def _called(side: Sequence[str]) -> str:
    return side[0] if len(side) == 1 else f"{side[0]} to {side[-1]}"
