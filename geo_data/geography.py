"""Public geography: blocks as one sorted array, and the levels above them as contiguous ranges of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from geo_data.arguments import PathLike, check_type, path_of
from geo_data.code_index import CodeIndex, has_repeats, in_one_dictionary
from geo_data.external_zones import ExternalFacts, external_facts, fill, longest_prefix

if TYPE_CHECKING:
    import geopandas as gpd

Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]
Codes = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Another way to divide the blocks, whose areas need not nest with the levels: places, say."""

    codes: Codes  # codes of the areas, sorted; shape (A,)
    # The area of each block. External zones that codes of such areas cannot tell have the code ""; shape (B,)
    area: Int32

    @classmethod
    def of(cls, codes: pd.Series) -> Partition:
        """Make a partition from the code of each block's area."""
        area, names = pd.factorize(codes, sort=True)
        return cls(np.asarray(names, dtype=object), area.astype(np.int32))


@dataclass(frozen=True, eq=False, repr=False)
class Geography:
    """All blocks of a region in one order, such that every unit of every level is a range of blocks.

    Blocks are sorted by (coarsest level, ..., finest level, block). A block number is a position in that
    order; unit ``u`` of a level holds the blocks ``starts[u]`` up to ``starts[u + 1]`` (the last one ends
    at B). Made by `read_crosswalk`, immutable, public.

    Parameters
    ----------
    block_level : str
        Name of the block level: the crosswalk's column, so ``"tabblk2010"`` tells the vintage.
    block_codes : pyarrow.Array of str, length B
        Block codes in order, each once; B >= 1. Not Python's texts (`blocks`), as those of a nation take four
        times the memory.
    levels : tuple of str
        Names of the levels above the block, coarsest first; may be empty.
    unit_codes : tuple of ndarray of str objects, shape (U,) each
        Per level, the codes of its units in block order.
    unit_starts : tuple of ndarray of int32, shape (U,) each
        Per level, the first block of each unit; starts at 0, strictly increasing.
    latitude, longitude : ndarray of float64, shape (B,)
        Block centroids in degrees, WGS84; NaN for external zones.
    external_homes : tuple of str
        External zones (`geo_data.external_zones`) in which workers may live: prefixes of geocodes.
    external_workplaces : mapping of str to str
        The name of each external zone in which they may work: abroad, say, or no fixed place.
    uninhabited, without_work : tuple of str
        Codes of blocks or of units of any level in which nobody can live, or work.
    repairs : tuple of str
        Report lines: what was repaired while reading, with counts.
    source : str
        The file it was read from.
    non_nesting_areas : mapping of str to Partition
        Further divisions of the blocks, in which auxiliary tables and tables of the workload may be.
    names : mapping of str to ndarray of str objects, shape (U,) each
        By level, or non-nesting areas, where they have names: the name of each, "" where it has none.

    Notes
    -----
    ``level`` arguments accept a name of `levels` or `block_level` itself, where unit and block are the same;
    non-nesting areas too, whose areas are its units, but for `starts`.
    """

    block_level: str
    block_codes: pa.Array
    levels: tuple[str, ...]
    unit_codes: tuple[Codes, ...]
    unit_starts: tuple[Int32, ...]
    latitude: Float64
    longitude: Float64
    external_homes: tuple[str, ...] = ()
    external_workplaces: Mapping[str, str] = field(default_factory=dict)
    uninhabited: tuple[str, ...] = ()
    without_work: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    source: str | os.PathLike[str] = field(default="")
    non_nesting_areas: Mapping[str, Partition] = field(default_factory=dict)
    names: Mapping[str, Codes] = field(default_factory=dict)

    @property
    def n_blocks(self) -> int:
        """Number of blocks B."""
        return len(self.block_codes)

    @property
    def blocks(self) -> Codes:
        """Block codes in order, ndarray of str objects of shape (B,), made anew each time."""
        return self.block_codes.to_numpy(zero_copy_only=False)

    @cached_property
    def _indexes(self) -> dict[int, CodeIndex]:
        """Per level that was asked for, an index of its codes."""
        return {}

    @cached_property
    def _units(self) -> dict[int, Int32]:
        """Per level that was asked for, the unit of each block: five times as fast as searching."""
        return {}

    @property
    def _codes(self) -> tuple[Codes | pa.Array, ...]:
        return (*self.unit_codes, self.block_codes, *(part.codes for part in self.non_nesting_areas.values()))

    def __getstate__(self) -> dict[str, object]:
        # The hash indexes are rebuilt where they are needed rather than sent to every Dask worker.
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_indexes", "_units", "external_blocks", "nobody_lives", "nobody_works")
        }

    def __repr__(self) -> str:
        counts = [f"{self.n_units(level):,} {level}" for level in (*self.levels, self.block_level)]
        beyond = f"; {len(self.external_zones)} external zones" if self.external_zones else ""
        return f"<Geography: {' > '.join(counts)}{beyond}>"

    def _index(self, level: str) -> CodeIndex:
        position = self._position(level)
        if position not in self._indexes:
            self._indexes[position] = CodeIndex(self._codes[position])
        return self._indexes[position]

    def codes(self, level: str) -> Codes:
        """Return the codes of the units of `level` in block order, shape (U,)."""
        return self.blocks if level == self.block_level else self._codes[self._position(level)]

    def starts(self, level: str) -> Int32:
        """Return the first block of each unit of `level`, not of non-nesting areas, int32 of shape (U,)."""
        position = self._position(level)
        if level in self.non_nesting_areas:
            raise ValueError(f"the blocks of each area of {level} must follow each other")
        if position == len(self.levels):
            return np.arange(self.n_blocks, dtype=np.int32)
        return self.unit_starts[position]

    def n_units(self, level: str) -> int:
        """Return the number of units of `level`."""
        return len(self._codes[self._position(level)])

    def longest(self, level: str) -> int:
        """Return how many characters the longest code of `level` has."""
        return self._index(level).longest

    def number(self, codes: npt.ArrayLike | pd.Series | pa.ChunkedArray) -> Int32:
        """Return the block numbers of block codes: -1 where one is not in the geography."""
        return self.unit_number(self.block_level, codes)

    def unit_number(self, level: str, codes: npt.ArrayLike | pd.Series | pa.ChunkedArray) -> Int32:
        """Return the unit numbers of unit codes of `level`; as `number` does for blocks."""
        return self._index(level).find(codes)

    def find_unit(self, level: str, code: str) -> int:
        """Return the unit number of one code, or -1: for few, in a hundredth of the time."""
        return self._index(level).find_one(code)

    def unit_of(self, level: str, block_numbers: npt.ArrayLike) -> Int32:
        """Return the unit of `level` that each block lies in, in their shape; -1 stays -1.

        A ValueError if a block number is out of range.
        """
        position = self._position(level)
        numbers = np.asarray(block_numbers)
        if numbers.size and (numbers.min() < -1 or numbers.max() >= self.n_blocks):
            raise ValueError(f"block numbers must lie in [-1, {self.n_blocks})")
        if position == len(self.levels):
            return numbers.astype(np.int32)
        units: Int32 = self._every_unit(level).take(numbers)  # planning asks very often: faster than indexing
        return units

    def units_of_blocks(self, level: str) -> Int32:
        """Return the unit of `level` that every block lies in, int32 of shape (B,), read-only.

        Kept, as a nation has millions of blocks and planning asks for each candidate.
        """
        return self._every_unit(level)[:-1]

    def _every_unit(self, level: str) -> Int32:
        """Return the unit of every block, and last -1, which is what -1 finds."""
        position = self._position(level)
        if position not in self._units:
            if level in self.non_nesting_areas:
                of_block = self.non_nesting_areas[level].area
            else:
                starts = self.starts(level)
                of_block = np.repeat(
                    np.arange(starts.size, dtype=np.int32), np.diff(np.append(starts, self.n_blocks))
                )
            units = np.append(of_block, np.int32(-1))
            units.flags.writeable = False
            self._units[position] = units
        return self._units[position]

    def lie_within(self, level: str, areas: str) -> bool:
        """Say whether every unit of a level lies in one unit of another, or in one non-nesting area."""
        nested = [*self.levels, self.block_level]
        if areas in nested:
            return nested.index(areas) <= nested.index(level)
        first = self.starts(level)[self.units_of_blocks(level)]
        return np.array_equal(self.units_of_blocks(areas), self.unit_of(areas, first))

    @property
    def external_zones(self) -> tuple[str, ...]:
        """Every external zone, sorted. Each is one block."""
        return tuple(sorted({*self.external_homes, *self.external_workplaces}))

    @cached_property
    def nobody_lives(self) -> npt.NDArray[np.bool_]:
        """Say of each block whether nobody can live there, bool of shape (B,)."""
        return self._closed(self.uninhabited, self.external_homes)

    @cached_property
    def nobody_works(self) -> npt.NDArray[np.bool_]:
        """Say of each block whether nobody can work there, bool of shape (B,)."""
        return self._closed(self.without_work, self.external_workplaces)

    def are_weights(self, weights: npt.NDArray[np.int64]) -> bool:
        """Say whether public weights of blocks are at least 1, and 0 where nobody can live."""
        return weights.shape == (self.n_blocks,) and np.array_equal(
            np.minimum(weights, 1), ~self.nobody_lives
        )

    def _closed(self, areas: Sequence[str], open_zones: Collection[str]) -> npt.NDArray[np.bool_]:
        """Say which blocks are in areas, or in an external zone that is not open."""
        closed = np.zeros(self.n_blocks, np.bool_)
        closed[self.external_blocks] = [zone not in open_zones for zone in self.external_zones]
        for level in (*self.levels, self.block_level) if areas else ():
            units = self.unit_number(level, areas)
            closed |= np.isin(self.units_of_blocks(level), units[units >= 0])
        return closed

    @cached_property
    def external_blocks(self) -> Int32:
        """Block number of each external zone, int32 of shape (len(external_zones),)."""
        if not self.external_zones:  # without making the index
            return np.zeros(0, np.int32)
        length = self.longest(self.block_level)
        return self.number([fill(area, length) for area in self.external_zones])

    @cached_property
    def external_facts(self) -> ExternalFacts:
        """What is publicly known of each external zone."""
        inside = self.blocks[~self.is_external(np.arange(self.n_blocks))] if self.external_zones else ()
        return external_facts(self.external_zones, inside)

    def unbroken(self, longitude: Float64) -> Float64:
        """Return longitudes without the jump from 180 to -180: within 180 degrees of the middle.

        In the far west of Alaska 173 becomes -187, so that means and lines stay in Alaska.
        """
        angle = np.radians(self.longitude[np.isfinite(self.longitude)])
        middle = float(np.degrees(np.arctan2(np.sin(angle).sum(), np.cos(angle).sum())))
        return longitude - 360 * np.floor((longitude - middle + 180) / 360)

    def is_external(self, block_numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Say of each block whether it is an external zone."""
        return np.isin(block_numbers, self.external_blocks)

    def locate_unit(self, level: str, codes: npt.ArrayLike | pd.Series) -> Int32:
        """Return the unit numbers of codes of `level`; beyond the geography those of external zones.

        -1 where a code is in neither. Of several external zones it is in the one with the longest name.
        Codes that are shorter or longer than those of the level are in none, except for the zones' own; nor
        are those of non-nesting areas in a zone that the block codes tell by more characters.
        """
        numbers = self.unit_number(level, codes)
        texts = pd.Series(codes, dtype="str")
        # A code that lost its leading zero would begin like that of another area.
        length = self.longest(level)
        whole = ((texts.str.len() == length) | texts.isin(self.external_zones)).to_numpy()
        beyond = np.flatnonzero((numbers < 0) & whole)
        part = self.non_nesting_areas.get(level)
        distinct_zones = [
            i for i, b in enumerate(self.external_blocks) if part is None or part.codes[part.area[b]]
        ]
        if distinct_zones and beyond.size:
            area = longest_prefix(texts.iloc[beyond], [self.external_zones[i] for i in distinct_zones])
            blocks = self.external_blocks[distinct_zones]
            numbers[beyond[area >= 0]] = self.unit_of(level, blocks[area[area >= 0]])
        return numbers

    def points(self) -> gpd.GeoDataFrame:
        """Return the block centroids, one row per block in order, column `block_level`, EPSG:4326.

        Those of external zones are empty points.
        """
        import geopandas as gpd
        import shapely

        geometry = np.asarray(gpd.points_from_xy(self.longitude, self.latitude))
        geometry[self.external_blocks] = shapely.Point()
        return gpd.GeoDataFrame(
            {self.block_level: self.blocks},
            geometry=geometry,
            crs="EPSG:4326",
        )

    def _position(self, level: str) -> int:
        names = (*self.levels, self.block_level, *self.non_nesting_areas)
        if level not in names:
            raise ValueError(f"there is no level {level!r}; the geography has: {', '.join(names)}")
        return names.index(level)


def check_table(path: PathLike, geography: Geography) -> None:
    """Refuse what is no path, and what is no geography, where a table of its units is to be read."""
    path_of(path, "path")
    check_type(geography, Geography, "geography", "read_crosswalk")


def check_areas(geography: Geography) -> None:
    """Refuse an area without homes or work that is none, or is several; and that no block is left.

    A ValueError.
    """
    levels = (*geography.levels, geography.block_level)
    for key, areas, closed in (
        ("uninhabited", geography.uninhabited, geography.nobody_lives),
        ("without_work", geography.without_work, geography.nobody_works),
    ):
        for area in areas:
            units = {level: geography.find_unit(level, area) for level in levels}
            extents = {
                tuple(np.append(geography.starts(level), geography.n_blocks)[unit : unit + 2].tolist()): level
                for level, unit in units.items()
                if unit >= 0
            }
            if not extents:
                raise ValueError(f"geography.{key}: {area} is not a code of any level")
            if len(extents) > 1:
                several = " and of ".join(extents.values())
                raise ValueError(f"geography.{key}: {area} is a code of {several}, with other blocks")
        if closed.all():
            raise ValueError(f"geography.{key} names every block")


def ordered_geography(
    block_level: str,
    blocks: pa.ChunkedArray,
    units: Mapping[str, pa.ChunkedArray],
    latitude: Float64,
    longitude: Float64,
    non_nesting_areas: Mapping[str, pa.ChunkedArray] | None = None,
    **of_geography: Any,
) -> Geography:
    """Make a geography of blocks that are in its order already, as a stored plan has them.

    `units` has per level, coarsest first, the unit of each block, dictionary-encoded; further arguments are
    those of `Geography`. A ValueError if a block comes twice or has no code, a unit is not one run of blocks,
    units do not nest, a place is not on earth, an external zone is not there, a block of no external zone is
    in no area, or as of `check_areas`; nothing is repaired.
    """
    block_codes = blocks.combine_chunks().cast(pa.string())
    if len(blocks) == 0 or blocks.null_count or has_repeats(block_codes):
        raise ValueError("there are no blocks, or a block is repeated or has no code")
    codes: list[Codes] = []
    starts: list[Int32] = []
    for level, column in units.items():
        column = in_one_dictionary(column).combine_chunks()
        place = column.indices.to_numpy()
        first = np.flatnonzero(np.append(True, np.diff(place) != 0)).astype(np.int32)
        if np.unique(place[first]).size < first.size:
            raise ValueError(f"the blocks of each unit of {level} must follow each other")
        names = column.dictionary
        if column.null_count or names.null_count or pc.any(pc.equal(names, "")).as_py():
            raise ValueError(f"units of {level} have no code")
        if pc.count_distinct(names).as_py() < len(names):
            raise ValueError(f"two units of {level} have the same code")
        if starts and not np.isin(starts[-1], first).all():
            raise ValueError(f"units of {level} do not lie within those of the level above")
        starts.append(first)
        codes.append(column.dictionary.to_numpy(zero_copy_only=False)[place[first]])
    geography = Geography(
        block_level=block_level,
        block_codes=block_codes,
        levels=tuple(units),
        unit_codes=tuple(codes),
        unit_starts=tuple(starts),
        latitude=latitude,
        longitude=longitude,
        non_nesting_areas={
            name: Partition.of(pd.Series(column.to_pandas(), dtype="str"))
            for name, column in (non_nesting_areas or {}).items()
        },
        **of_geography,
    )
    if np.any(geography.external_blocks < 0):
        raise ValueError("an external zone is not among the blocks")
    beyond = geography.is_external(np.arange(geography.n_blocks))
    on_earth = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 180)
    if not np.array_equal(on_earth, ~beyond) or not np.isnan([*latitude[beyond], *longitude[beyond]]).all():
        raise ValueError("latitudes and longitudes are not degrees, or an external zone has them")
    check_areas(geography)
    for name, part in geography.non_nesting_areas.items():
        if part.area.min() < 0 or np.any((part.codes[part.area] == "") & ~beyond):
            raise ValueError(f"blocks are in no area of {name}")
    return geography
