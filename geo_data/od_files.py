"""Writing job arrays as origin-destination tables, in the form that LODES publishes."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from geo_data.geography import Geography

#: The attribute groups of an OD file (age, earnings, industry) and the categories of each.
LODES_CATEGORIES: dict[str, tuple[str, ...]] = {
    group: tuple(f"{group}0{number}" for number in (1, 2, 3)) for group in ("SA", "SE", "SI")
}
#: The columns that every OD file has, beside those that count jobs by category.
OD_COLUMNS = ("w_geocode", "h_geocode", "S000", "createdate")

_SMALL = pa.array([str(number) for number in range(1000)])  # numbers in words, as most counts are

#: Level 5 is twice as fast as level 6 and 3 % larger on a state's file.
GZIP_LEVEL = 5


class OdName(NamedTuple):
    """What the name of an OD file of LODES, or of a release, says: ``ri_od_main_JT00_2019.csv.gz``."""

    state: str
    part: str
    job_type: str
    year: int


def od_name(path: str | os.PathLike[str]) -> OdName | None:
    """Return what the name of a file says of its jobs, None where it is of another form."""
    form = r"([a-z0-9_]+)_od_(main|aux)_(JT[0-9]{2})_([0-9]{4})(?:\..*)?"
    match = re.fullmatch(form, Path(path).name, re.IGNORECASE)
    if match is None:
        return None
    state, part, job_type, year = match.groups()
    return OdName(state.lower(), part.lower(), job_type.upper(), int(year))


def count_columns(categories: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Name the columns that count jobs by category.

    As LODES names its groups (``SA01``), and ``<attribute>_<category>`` for any other.
    """
    return {
        attribute: tuple(
            name if LODES_CATEGORIES.get(attribute) == tuple(names) else f"{attribute}_{name}"
            for name in names
        )
        for attribute, names in categories.items()
    }


def all_counts(categories: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names of all columns of counts: of jobs in total, and by category of each attribute."""
    return ["S000", *itertools.chain(*count_columns(categories).values())]


def od_rows(
    geography: Geography,
    work: npt.NDArray[np.integer],
    home: npt.NDArray[np.integer],
    attributes: Mapping[str, npt.NDArray[np.integer]],
    categories: Mapping[str, tuple[str, ...]],
) -> pa.Table:
    """Count jobs by (destination, origin) pair, in total and by category of each attribute.

    Of jobs with block numbers and codes of categories. One row per pair that has a job, by destination and
    then origin in the order of the geography (that of the codes where levels are prefixes of them, as LODES
    sorts): ``w_geocode``, ``h_geocode``, ``S000`` and one count per category, named by `count_columns`. A
    ValueError if arrays differ in length, a number is out of range, or two columns have one name.
    """
    pairs = count_pairs(geography, work, home, attributes, categories)
    codes = geography.block_codes
    if pairs.work.size > len(codes):  # of a batch there are fewer, and each has a code
        codes = codes.cast(pa.large_string())
    columns = {
        name: codes.take(pa.array(blocks)).cast(pa.large_string())
        for name, blocks in (("w_geocode", pairs.work), ("h_geocode", pairs.home))
    }
    columns |= zip(all_counts(categories), map(pa.array, pairs.counts.T), strict=True)
    return pa.table(columns)


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Jobs by (destination, origin) pair, each pair once, by destination and then origin."""

    # block numbers; shape (n,)
    work: npt.NDArray[np.int32]
    home: npt.NDArray[np.int32]
    # jobs in total, and by category of each attribute; shape (n, 1 + number of all categories)
    counts: npt.NDArray[np.int64]

    @classmethod
    def joined(cls, pieces: Sequence[PairCounts]) -> PairCounts:
        """Return the rows of several tables, one after another."""
        if len(pieces) == 1:
            return pieces[0]
        return cls(
            np.concatenate([piece.work for piece in pieces]),
            np.concatenate([piece.home for piece in pieces]),
            np.concatenate([piece.counts for piece in pieces]),
        )

    def __getitem__(self, rows: slice | npt.NDArray[np.integer]) -> PairCounts:
        return PairCounts(self.work[rows], self.home[rows], self.counts[rows])

    def equals(self, other: PairCounts) -> bool:
        """Say whether another table has the same rows."""
        return all(np.array_equal(column, vars(other)[name]) for name, column in vars(self).items())


def count_pairs(
    geography: Geography,
    work: npt.NDArray[np.integer],
    home: npt.NDArray[np.integer],
    attributes: Mapping[str, npt.NDArray[np.integer]],
    categories: Mapping[str, tuple[str, ...]],
) -> PairCounts:
    """Count jobs as `od_rows` does, and return numbers of blocks."""
    n_jobs, n_blocks = len(work), geography.n_blocks
    if set(attributes) != set(categories):
        raise ValueError("attributes and categories name different attributes")
    if any(len(values) != n_jobs for values in (home, *attributes.values())):
        raise ValueError("work, home and attributes differ in length")
    if n_jobs and (min(work.min(), home.min()) < 0 or max(work.max(), home.max()) >= n_blocks):
        raise ValueError(f"block numbers must lie in [0, {n_blocks})")
    columns_of = count_columns(categories)
    all_names = [*OD_COLUMNS, *itertools.chain(*columns_of.values())]
    if len(set(all_names)) < len(all_names):
        raise ValueError("two columns of the table have the same name")
    key = work.astype(np.int64) * n_blocks + home
    if attributes:
        pairs, pair_of_job, totals = np.unique(key, return_inverse=True, return_counts=True)
    else:  # numbers alone are sorted ten times as fast
        pairs, totals = np.unique(key, return_counts=True)
    counts = [totals.astype(np.int64)[None]]
    for attribute, names in columns_of.items():
        codes, n_names = attributes[attribute], len(names)
        if n_jobs and (codes.min() < 0 or codes.max() >= n_names):
            raise ValueError(f"codes of {attribute} must lie in [0, {n_names})")
        of_category = np.bincount(np.int64(len(pairs)) * codes + pair_of_job, minlength=n_names * len(pairs))
        counts.append(of_category.reshape(n_names, len(pairs)))
    works, homes = np.divmod(pairs, n_blocks)
    return PairCounts(works.astype(np.int32), homes.astype(np.int32), np.concatenate(counts).T)


def write_od_csv(
    table: pd.DataFrame | pa.Table,
    target: str | os.PathLike[str] | BinaryIO,
    *,
    createdate: str,
    header: bool = True,
) -> None:
    """Write an OD table as one gzip member, byte for byte as LODES writes its rows.

    A file object is left open: several calls, `header` true in the first only, give one valid ``.csv.gz``,
    as gzip members can be concatenated. The member has no time and no file name, so equal tables give equal
    bytes. A ValueError if `createdate` is not ``YYYYMMDD``, or a code or column name would need quotes.
    """
    if not re.fullmatch(r"\d{8}", createdate):
        raise ValueError(f"createdate must be eight digits, YYYYMMDD, not {createdate!r}")
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    text = od_csv_text(arrow.append_column("createdate", pa.repeat(createdate, len(table))), header=header)
    with contextlib.ExitStack() as stack:
        if isinstance(target, (str, os.PathLike)):
            target = stack.enter_context(Path(target).open("wb"))
        member = stack.enter_context(
            gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=target, mtime=0)
        )
        member.write(text)


def od_csv_text(table: pa.Table, *, header: bool) -> memoryview:
    r"""Return the text of the rows of an OD file, as `write_od_csv` compresses it.

    A ValueError if a code or column name would need quotes.
    """
    if any(re.search(r'[",\r\n]', name) for name in table.column_names):
        raise ValueError("a column name contains a comma, a quote or a line break")
    for i, kind in enumerate(table.schema.types):
        if pa.types.is_integer(kind):  # Arrow would put each into words anew, in twice the time
            with contextlib.suppress(IndexError):  # there is a larger one, or one below 0
                table = table.set_column(i, table.column_names[i], _SMALL.take(table.column(i)))
    table = table.combine_chunks()  # before rows that follow an empty chunk, Arrow writes memory of before
    text = io.BytesIO()
    if header:
        text.write((",".join(table.column_names) + "\n").encode())
    fault = False
    try:
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=65536)
        pyarrow.csv.write_csv(table, text, options)
    except pa.ArrowInvalid:
        fault = True  # raised below, unchained: the error quotes the value
    if fault:
        raise ValueError("a code contains a comma, a quote or a line break")
    return text.getbuffer()
