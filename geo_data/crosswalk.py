"""Reading a crosswalk: one row per block with the units it lies in and its centroid."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geo_data.arguments import path_of, texts_of
from geo_data.code_index import has_repeats
from geo_data.errors import InputError, counted, first_codes, refuse_any, refuse_repeated
from geo_data.external_zones import CENSUS_DIGITS, fill, find_external_zones
from geo_data.geography import Geography, Partition, check_areas
from geo_data.outliers import check_places
from geo_data.polygons import read_centroids
from geo_data.tables import Kind, TableSchema, read_table
from geo_data.texts import unit_names

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

# A level whose codes are a prefix of the block code in this share of the rows is meant to be one in all.
_PREFIX_SHARE = 0.95


def read_crosswalk(
    path: str | os.PathLike[str],
    *,
    block: str,
    levels: Sequence[str],
    centroid: tuple[str, str] | None = None,
    external_zones: Sequence[str] = (),
    external_workplaces: Mapping[str, str] | None = None,
    uninhabited: Sequence[str] = (),
    without_work: Sequence[str] = (),
    groupings: Mapping[str, int] | None = None,
    non_nesting_areas: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
) -> Geography:
    """Read the public geography from a crosswalk and make its hierarchy nest.

    Parameters
    ----------
    path : str or path
        CSV, csv.gz or Parquet with one row per block, such as a LODES ``<st>_xwalk.csv.gz``.
    block : str
        Column of block codes (``"tabblk2010"``, ``"geo_code"``). Any text; each code once.
    levels : sequence of str
        Columns of the levels above, coarsest first (``["st", "cty", "trct"]``), or names in `groupings`; may
        be empty.
    centroid : (str, str), optional
        Columns of the centroid's latitude and longitude, degrees WGS84. Without them the file has geometry,
        and centroids are those of the polygons (`geo_data.polygons`).
    external_zones : sequence of str
        External zones to add (`geo_data.external_zones`) in which workers may live.
    external_workplaces : mapping of str to str, optional
        The name of each external zone in which they may work; it may be one of the others.
    uninhabited, without_work : sequence of str
        Codes of blocks or of units of any level in which nobody can live, or work.
    groupings : mapping of str to int, optional
        Levels that are no columns: the number of parts into which each unit of the next coarser level (or
        everything) is divided by place (`geo_data.crosswalk`).
    non_nesting_areas : sequence of str
        Columns of areas that need not nest with the levels (``["stplc"]``).
    names : mapping of str to str, optional
        By level, or non-nesting areas, the column of their names; empty for none. By default each one's own
        column with "name" behind it, where there is one: ``trctname`` beside ``trct`` in LODES.

    Returns
    -------
    Geography

    Raises
    ------
    InputError
        A file or column fault (see `read_table`); block codes twice, or that lost leading zeros; a level or
        non-nesting area whose codes lost theirs; units that do not nest; coordinates out of range; an
        external zone that has blocks of the crosswalk, or none that has none; an area without homes or work
        that is in no level, or in several; no block that is left.

    Notes
    -----
    Repair rule. Where the codes of a level have one fixed length and are a prefix of the block code in at
    least 95 % of the rows, as in United States Census geography, and block codes have one length, the level
    is prefix-coded: every row that disagrees is counted in `Geography.repairs` and its code is derived from
    the block code, if another row has that code, or the block is one of the United States Census. LODES
    crosswalks need it: in Rhode Island's, 264 rows disagree, two of them even in the state.
    Levels that are not prefix-coded are taken as they are, and must nest: a unit lies within one unit of
    the next coarser level.

    A unit has the name that most of its rows have, the first in the alphabet if there are several such;
    rows whose code was derived are not asked. How many units had more than one is said in
    `Geography.repairs`. A name that is the unit's code is none.

    Examples
    --------
    >>> import geo_data
    >>> geography = geo_data.read_crosswalk(
    ...     "out/demo-inputs/demo_xwalk.csv.gz",
    ...     block="tabblk2010",
    ...     levels=["st", "cty", "trct"],
    ...     centroid=("blklatdd", "blklondd"),
    ... )
    >>> geography.levels, geography.block_level
    (('st', 'cty', 'trct'), 'tabblk2010')
    """
    path_of(path, "path")
    levels, external_zones = texts_of(levels, "levels"), texts_of(external_zones, "external_zones")
    non_nesting_areas = texts_of(non_nesting_areas, "non_nesting_areas")
    levels = tuple(levels)
    latitude, longitude = centroid or ("latitude", "longitude")
    used = (block, *levels, *non_nesting_areas, latitude, longitude, *(names or {}).values())
    refuse_repeated(path, used)
    groupings = groupings or {}
    written = [level for level in levels if level not in groupings]
    columns: dict[str, Kind] = dict.fromkeys((block, *written, *non_nesting_areas), "code")
    required: dict[str, Kind] = dict.fromkeys((names or {}).values(), "name")
    conventional: dict[str, Kind] = {}
    if names is None:
        coded = (block, *written, *non_nesting_areas)
        names = {level: f"{level}name" for level in coded if f"{level}name" not in used}
        conventional = dict.fromkeys(names.values(), "name")
    if centroid is None:
        frame = read_centroids(path, list(columns), latitude, longitude, list(required), list(conventional))
    else:
        # Of thousands no degree is.
        places: dict[str, Kind] = {latitude: "decimal", longitude: "decimal"}
        frame = read_table(path, TableSchema({**columns, **places, **required}, optional=conventional))
    named = {level: frame.pop(column) for level, column in names.items() if column in frame}
    _check_blocks(path, frame[block], [frame[level] for level in written])
    named_as = [
        ["lat" in name.lower(), bool(re.search("lon|lng", name.lower()))] for name in (latitude, longitude)
    ]
    if named_as == [[False, True], [True, False]]:
        raise InputError(
            path,
            f"by their names, column {latitude} has the longitude and {longitude} the latitude",
            fix="exchange geography.latitude and geography.longitude, or rename the columns",
        )
    # Few people live nearer to a pole (Antarctic stations): where most blocks are, these are longitudes.
    polar = (~frame[latitude].between(-60, 84)).mean() > 0.5
    for column, low, high in ((latitude, -60, 84) if polar else (latitude, -90, 90), (longitude, -180, 180)):
        refuse_any(
            path,
            f"coordinates are outside {low} to {high} degrees",
            ~frame[column].between(low, high),
            column=column,
            fix="write WGS84 degrees, and name latitude and longitude in the right order",
        )
    repairs = []
    for level in written:
        frame[level], repaired = _repair(path, frame[block], frame[level], level)
        if repaired.any():
            repairs.append(
                f"level {level}: {repaired.sum():,} of {len(frame):,} rows disagreed with their block code; "
                f"the {level} code was derived from it"
            )
            if level in named:  # the name is that of the other code
                named[level] = named[level].mask(repaired)
        if note := _merged(frame[block], frame[level], level):
            repairs.append(note)
    parent = np.zeros(len(frame), np.int64)
    for level in levels:
        if level in groupings:
            parent = group_places(
                frame[latitude].to_numpy(), frame[longitude].to_numpy(), parent, groupings[level]
            )
            numbers = pd.Series(parent).astype("str")
            frame[level] = level + numbers.str.zfill(numbers.str.len().max())
        # Each code of many blocks is kept, and from here on compared, once.
        frame[level] = _shared_codes(frame[level])
        parent = frame[level].cat.codes.to_numpy().astype(np.int64)
    for coarse, fine in itertools.pairwise(levels):
        _check_nesting(path, frame, coarse, fine)

    homes, workplaces = find_external_zones(external_zones, frame[block]), {**(external_workplaces or {})}
    areas = tuple(sorted([*homes, *workplaces.keys() - {*homes}]))
    most = int(frame[block].str.len().max())
    if too_long := [area for area in areas if len(area) > most]:
        raise InputError(
            path,
            f"external zones {first_codes(too_long)} are longer than the codes of blocks, which have {most} "
            "characters",
            fix="name shorter codes, and let the codes of jobs there begin with them",
        )
    if covering := _covering(path, frame[block], [frame[level] for level in written], areas):
        repairs.append(
            f"external zones {first_codes(covering)} cover blocks of the crosswalk: any other code that "
            "begins so is taken to lie outside"
        )
    if external_zones and not homes:
        raise InputError(
            path,
            f"no external zone is left: the crosswalk has blocks in all of {', '.join(external_zones)}",
            fix="name an area where the crosswalk has no block, or leave geography.external_zones out",
        )
    longest = max(map(len, areas), default=0)
    shared = {name: _shared(path, frame[block], frame[name], longest) for name in non_nesting_areas}
    if areas:
        frame = _with_external(path, frame, block, levels, areas, shared)
    frame = _sorted(frame, levels, block)
    unit_codes: list[NDArray[np.object_]] = []
    unit_starts: list[NDArray[np.int32]] = []
    for level in levels:
        number = frame[level].cat.codes.to_numpy()
        # Nested and sorted, so a unit begins where the code changes, and never comes back.
        starts = np.flatnonzero(np.r_[True, number[1:] != number[:-1]]).astype(np.int32)
        unit_codes.append(np.asarray(frame[level].cat.categories, object)[number[starts]])
        unit_starts.append(starts)
    blocks = _texts(frame[block])
    unit_name_of = {}
    named_units = dict(zip(levels, zip(unit_codes, unit_starts, strict=True), strict=True))
    if block in named:
        named_units[block] = np.asarray(frame[block], object), np.arange(len(frame), dtype=np.int32)
    for level, (codes, starts) in named_units.items():
        if level in named:
            # In the order of the blocks; an external zone has no row in the file, and no name.
            unit_name_of[level], several = unit_names(named[level].reindex(frame.index), codes, starts)
            if several:
                words = counted(several, "units have several names; most rows decide")
                repairs.append(f"level {level}: {words}")
    parts = {name: Partition.of(frame[name]) for name in non_nesting_areas}
    for name in [name for name in parts if name in named]:
        order = np.argsort(parts[name].area, kind="stable")
        starts = np.searchsorted(parts[name].area[order], np.arange(len(parts[name].codes))).astype(np.int32)
        of_block = named[name].reindex(frame.index).iloc[order]
        unit_name_of[name], several = unit_names(of_block, parts[name].codes, starts)
        if several:
            repairs.append(f"{name}: {counted(several, 'areas have several names; most rows decide')}")
    geography = Geography(
        block_level=block,
        block_codes=blocks.cast(pa.string()),
        levels=levels,
        unit_codes=tuple(unit_codes),
        unit_starts=tuple(unit_starts),
        latitude=frame[latitude].to_numpy(dtype=np.float64),
        longitude=frame[longitude].to_numpy(dtype=np.float64),
        external_homes=homes,
        external_workplaces=workplaces,
        uninhabited=texts_of(uninhabited, "uninhabited"),
        without_work=texts_of(without_work, "without_work"),
        source=os.fspath(path),
        non_nesting_areas=parts,
        names={level: names for level, names in unit_name_of.items() if names.any()},
    )
    try:
        check_areas(geography)
    except ValueError as error:
        fix = "name blocks, or units of a level whose codes no other level has"
        raise InputError(path, str(error), fix=fix) from None
    repairs += check_places(path, geography, written)
    return replace(geography, repairs=tuple(repairs))


def _shared(path: str | os.PathLike[str], blocks: pd.Series, codes: pd.Series, longest: int) -> int:
    """Return how many leading characters, `longest` at most, their codes share with blocks'."""
    length = int(codes.str.len().max())
    codes = codes[~codes.str.fullmatch("9+")]  # as where a block is in no place
    blocks = blocks[codes.index]
    short = codes.str.isdigit() & (codes.str.len() < length)
    padded = codes.str.zfill(length)
    if short.any() and (padded.str[:2] == blocks.str[:2])[short].mean() >= _PREFIX_SHARE:
        raise InputError(
            path,
            "codes lost their leading zeros",
            column=str(codes.name),
            count=int(short.sum()),
            fix="write the codes as text, with leading zeros",
        )
    agree = [(codes.str[:n] == blocks.str[:n]).mean() >= _PREFIX_SHARE for n in range(1, longest + 1)]
    return agree.index(False) if False in agree else longest


def _merged(blocks: pd.Series, codes: pd.Series, level: str) -> str | None:
    """Return a note on codes that are parts of blocks', and do not begin as these do: a tract's, say.

    Nothing is wrong as long as each is in one place.
    """
    length, shortest = codes.str.len().max(), blocks.str.len().min()
    for start in range(1, shortest - length + 1):
        if blocks.iloc[0][start : start + length] != codes.iloc[0]:
            continue
        if (blocks.str[start : start + length] == codes).mean() >= _PREFIX_SHARE:
            places = pd.DataFrame({"code": codes, "place": blocks.str[: start + length]}).drop_duplicates()
            several = places["code"][places["code"].duplicated()].drop_duplicates().to_list()
            # What all rows have may stand anywhere by chance.
            if several and (codes != codes.iloc[0]).any():
                rule = (
                    "units are several places, as codes are only a part of the first "
                    f"{start + length} characters of the codes of blocks: {first_codes(several)}"
                )
                return f"level {level}: {counted(len(several), rule)}"
    return None


def _covering(
    path: str | os.PathLike[str], blocks: pd.Series, levels: Sequence[pd.Series], areas: Sequence[str]
) -> list[str]:
    """Return the external zones that cover codes of blocks, where codes have no hierarchy; else refuse."""
    first = {length: set(blocks.str[:length].unique()) for length in {len(area) for area in areas}}
    covering = [area for area in areas if area in first[len(area)]]
    if covering and (
        blocks.str.fullmatch(f"[0-9]{{{CENSUS_DIGITS}}}").all()
        or any(_prefixes(blocks, codes) for codes in levels)
    ):
        raise InputError(
            path,
            f"external zones {first_codes(covering)} cover blocks of the crosswalk, so an unknown code there "
            "may be wrong, or lie outside",
            fix="name only areas where the crosswalk has no block, such as other counties of its state",
        )
    return covering


def _prefixes(blocks: pd.Series, codes: pd.Series) -> bool:
    """Say whether the blocks' codes begin with those of a level, which may be of several lengths."""
    codes = codes.astype("str")
    by_length = codes.groupby(codes.str.len())
    agree = sum((blocks[of_length.index].str[:length] == of_length).sum() for length, of_length in by_length)
    return bool(agree >= _PREFIX_SHARE * len(blocks))


def _with_external(
    path: str | os.PathLike[str],
    frame: pd.DataFrame,
    block: str,
    levels: tuple[str, ...],
    areas: tuple[str, ...],
    shared: Mapping[str, int],
) -> pd.DataFrame:
    """Add a row for every external zone; places stay NaN."""
    plain = frame.astype(dict.fromkeys(levels, "str"))
    lengths = {name: int(plain[name].str.len().max()) for name in (*levels, *shared, block)}
    added = pd.DataFrame(
        {name: [fill(area, n) for area in areas] for name, n in lengths.items()}, dtype="str"
    )
    for name, n in shared.items():  # what their codes do not tell has none, that no table can name it
        added[name] = added[name].where(np.array([len(area) <= n for area in areas]), "")
    finest = levels[-1] if levels else block
    refuse_any(
        path,
        f"external zones have the code of an area of the crosswalk, or of another zone, at level {finest}",
        int(added[finest].isin(plain[finest].unique()).sum()) + int(added[finest].duplicated().sum()),
        fix="name only areas where the crosswalk has no block, each once",
    )
    result = pd.concat([plain, added], ignore_index=True)
    return result.assign(**{level: _shared_codes(result[level]) for level in levels})


def _texts(column: pd.Series) -> pa.Array:
    """Return a column of texts as one Arrow array."""
    return pa.chunked_array(pa.array(column)).combine_chunks()


def _shared_codes(codes: pd.Series) -> pd.Series:
    """Return codes as a categorical, whose categories are sorted."""
    encoded = _texts(codes).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    sorted_codes = pd.Index(encoded.dictionary.take(order), dtype="str")
    numbers = place[encoded.indices.to_numpy()]
    return pd.Series(pd.Categorical.from_codes(numbers, sorted_codes), codes.index)


def _sorted(frame: pd.DataFrame, levels: Sequence[str], block: str) -> pd.DataFrame:
    """Return the rows by units of each level, coarsest first, and blocks."""
    codes = [frame[level].cat.codes.to_numpy() for level in levels]
    order = pc.sort_indices(_texts(frame[block])).to_numpy()
    for numbers in reversed(codes):
        order = order[np.argsort(numbers[order], kind="stable")]
    return frame.iloc[order]


def _check_blocks(path: str | os.PathLike[str], blocks: pd.Series, levels: Sequence[pd.Series]) -> None:
    refuse_any(
        path,
        "rows repeat a block of an earlier row",
        blocks.duplicated() if has_repeats(_texts(blocks)) else 0,
        column=str(blocks.name),
        fix="keep one row per block",
    )
    lengths = blocks.str.len()
    if (lengths == lengths.max()).all():
        return
    numeric = blocks.str.isdigit()
    if not numeric.any():
        return
    numbers, others = lengths[numeric], lengths[~numeric]
    longest = numbers.max()
    refuse_any(
        path,
        "codes differ from another code in leading zeros only",
        blocks[numeric].str.lstrip("0").duplicated(),
        column=str(blocks.name),
        fix="keep one row per block; if they are different blocks, write the codes as text of one length",
    )
    # Zones that are counted from 1 have numbers of any length. Others lost zeros if some still have them,
    # codes with letters have one length, it is that of census blocks, or levels begin as blocks would.
    if (
        blocks[numeric].str.match("0.").any()
        or (others.min() == others.max() == longest and numbers.min() > 1)
        or longest == CENSUS_DIGITS
        or any(_padded_length(blocks.str.zfill(longest), codes) for codes in levels)
    ):
        refuse_any(
            path,
            "numeric codes are shorter than the others and lost leading zeros",
            (numbers < longest).sum(),
            column=str(blocks.name),
            fix="write the codes as text of one length, with leading zeros",
        )


def _repair(
    path: str | os.PathLike[str], blocks: pd.Series, codes: pd.Series, level: str
) -> tuple[pd.Series, pd.Series]:
    """Return the codes of a level after the repair rule, and which rows changed."""
    lengths = codes.str.len()
    longest = int(lengths.max())
    if (lengths == longest).all():
        prefix = blocks.str[:longest]
        wrong = prefix != codes
        if not wrong.any():
            return codes, wrong
        # Codes of several lengths lost something, or are no prefixes.
        of_blocks = blocks.str.len()
        if 1 - wrong.mean() >= _PREFIX_SHARE and (of_blocks == of_blocks.max()).all():
            # What no other row has is no unit: the block is one that is nowhere. Census blocks never are, and
            # their tract may have no other row where the crosswalk is of some tracts.
            if not (blocks.str.isdigit() & (of_blocks == CENSUS_DIGITS)).all():
                wrong[wrong] = prefix[wrong].isin(codes[~wrong].unique())
            return codes.mask(wrong, prefix), wrong
    length = _padded_length(blocks, codes)
    if length and (lengths < length).any():
        raise InputError(
            path,
            "codes lost their leading zeros",
            column=level,
            count=int((lengths < length).sum()),
            fix="write the codes as text, with leading zeros",
        )
    return codes, pd.Series(False, codes.index)


def _padded_length(blocks: pd.Series, codes: pd.Series) -> int | None:
    """Return the length at which codes, filled with zeros, are a prefix of blocks'; None where at none."""
    longest = int(codes.str.len().max())
    for length in (longest, longest + 1):  # the second where all lost one, as a spreadsheet drops them
        if (blocks.str[:length] == codes.str.zfill(length)).mean() >= _PREFIX_SHARE:
            return length
    return None


def _check_nesting(path: str | os.PathLike[str], frame: pd.DataFrame, coarse: str, fine: str) -> None:
    inside, units = (frame[level].cat.codes.to_numpy(np.int64) for level in (coarse, fine))
    pairs = np.unique(units * len(frame[coarse].cat.categories) + inside)
    of_unit = np.bincount(pairs // len(frame[coarse].cat.categories))
    several = frame[fine].cat.categories[of_unit > 1].to_list()
    refuse_any(
        path,
        f"units lie in more than one unit of {coarse}: {first_codes(several)}",
        len(several),
        column=fine,
        fix="list only levels that nest, from the coarsest to the finest; where several places share a code "
        f"or name, write the code of {coarse} in front of it",
    )


def group_places(latitude: Float64, longitude: Float64, parent: Int64, parts: int) -> Int64:
    """Divide every parent's places into parts, neighbours together.

    Places are in degrees; `parent` is the number of the unit of the coarser level that a place is in. A
    parent with fewer places than `parts` has as many parts as places. Returned is the number of the part,
    from 0: part after part, parent after parent.

    A set of places is cut in two across its longer side, in kilometres, so that the numbers of places are as
    the numbers of parts, and so on (a k-d tree). Places with equal coordinates stay in their order.
    """
    group = np.empty(parent.size, np.int64)
    n_groups = 0
    by_parent = np.argsort(parent, kind="stable")
    stack = [
        (places, min(parts, places.size))
        for places in reversed(np.split(by_parent, np.flatnonzero(np.diff(parent[by_parent])) + 1))
    ]
    while stack:
        places, pieces = stack.pop()
        if pieces == 1:
            group[places] = n_groups
            n_groups += 1
            continue
        north, east = latitude[places], longitude[places] * np.cos(np.radians(latitude[places].mean()))
        longer = north if np.ptp(north) >= np.ptp(east) else east
        order = places[np.argsort(longer, kind="stable")]
        first = pieces // 2
        cut = round(order.size * first / pieces)
        stack += [(order[cut:], pieces - first), (order[:cut], first)]
    return group
