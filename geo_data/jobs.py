"""Job slots (public) and job records (confidential): two types, made by different functions."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import NDArray

from geo_data.arguments import paths_of
from geo_data.errors import InputError, refuse_any
from geo_data.external_zones import longest_prefix
from geo_data.geography import Geography
from geo_data.unknown_codes import misspelled, other_vintage
from synth.policy import FULL, Policy

SAME_JOBS = "the same jobs may be there twice, in another order, form or compression"
"""What files mean whose jobs are alike but for homes, which are not looked at: whether a run is refused must
not depend on them."""
FEW_JOBS = 10
"""Of a file, which may be those of another by chance: two employers of one person at one place, say."""

_PARTS = 64  # in which hashes are counted: what is sorted at a time is small beside all

Float64 = NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
AttributeCodes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Reading:
    """What a reading of job files leaves besides the jobs."""

    sha256: dict[str, str] = field(default_factory=dict)  # by path, of the bytes that were read last
    # **Confidential**: what only whoever runs this should look at. It depends on homes, so nothing is refused
    # because of it.
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Slots:
    """The public side of all jobs: one row per job, without any origin.

    Workplace totals, by every attribute, are public: by assumption, or, where they are of a public table of
    their own, because that is published already; the certificate says which.

    Parameters
    ----------
    work : ndarray of int32, shape (S,)
        Block number of the job's destination.
    attributes : dict of str to ndarray of uint8 or uint16, shape (S,) each
        Per attribute, the code of the job's category: a position in `categories`.
    categories : dict of str to tuple of str
        Per attribute, its categories in order.
    home_part : ndarray of int32, shape (S,), optional
        The part that the home of the job is in, where a policy makes it public (`synth.Policy.part`); by
        default 0, that of all blocks.

    Notes
    -----
    Rows are sorted by `work`, then by `home_part` and the attributes in their order, so that the order of a
    file's rows (which may follow the origins) leaves no trace.
    """

    work: Int32
    attributes: dict[str, AttributeCodes]
    categories: dict[str, tuple[str, ...]]
    home_part: Int32 = field(default_factory=lambda: FULL.part(np.zeros(1, np.int32)))

    def __post_init__(self) -> None:
        if self.home_part.size == 1:
            object.__setattr__(self, "home_part", np.broadcast_to(self.home_part[0], self.work.shape))

    @classmethod
    def of_codes(
        cls,
        work: Int32,
        codes: Mapping[str, npt.NDArray[np.integer]],
        categories: Mapping[str, tuple[str, ...]],
    ) -> Slots:
        """Return slots in the order of their rows, with codes of any width."""
        attributes = {name: narrow(codes[name], len(values)) for name, values in categories.items()}
        return cls(work, attributes, dict(categories))

    def __len__(self) -> int:
        return len(self.work)

    def counted(self) -> tuple[Slots, npt.NDArray[np.int64]]:
        """Return one of every run of slots that are alike, and how many it stands for.

        There are far fewer of them than slots.
        """
        first = np.append(len(self) > 0, self.work[1:] != self.work[:-1])
        for codes in (*self.attributes.values(), *([] if self._one_part else [self.home_part])):
            first[1:] |= codes[1:] != codes[:-1]
        first_rows = np.flatnonzero(first)
        return self.take(first_rows), np.diff(first_rows, append=len(self))

    def jobs(self, n_blocks: int, times: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
        """Return how many slots each of so many blocks has, each counted so many `times`, by default once."""
        alike, times = self.counted() if times is None else (self, times)
        return np.bincount(alike.work, times, n_blocks).astype(np.int64)

    def repeat(self, times: npt.NDArray[np.integer]) -> Slots:
        """Return every slot so many times."""
        return Slots(
            np.repeat(self.work, times),
            {name: codes.repeat(times) for name, codes in self.attributes.items()},
            self.categories,
            self.home_part[:1] if self._one_part else np.repeat(self.home_part, times),
        )

    @property
    def _one_part(self) -> bool:
        """Whether the part of all homes is one number, which takes no memory."""
        return self.home_part.strides == (0,)

    def sorted(self) -> Slots:
        """Return the slots in their order, from any other."""
        if self._one_part and not self.attributes:  # numbers alone are sorted ten times as fast
            return replace(self, work=np.sort(self.work))
        return self.take(self.order())

    def order(self) -> npt.NDArray[np.intp]:
        """Return the order that the slots are to have."""
        part = () if self._one_part else (self.home_part,)
        return np.lexsort((*reversed(self.attributes.values()), *part, self.work))

    def take(self, rows: npt.NDArray[Any], names: Sequence[str] | None = None) -> Slots:
        """Return some of the slots, in an order, with some of the attributes; by default all."""
        names = list(self.attributes) if names is None else names
        return Slots(
            self.work[rows],
            {name: self.attributes[name][rows] for name in names},
            {name: self.categories[name] for name in names},
            self.home_part[:1] if self._one_part else self.home_part[rows],
        )

    def without(self, names: Collection[str]) -> Slots:
        """Return the slots without some attributes, in their order."""
        if not names:
            return self
        kept = [name for name in self.attributes if name not in names]
        return self.take(np.arange(len(self)), kept).sorted()

    def part(self, policy: Policy) -> Int32:
        """Return the part of each home; of `JobRecords` it follows from the home."""
        return self.home_part

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name} ({len(values)})" for name, values in self.categories.items())
        return f"<Slots: {len(self):,} jobs; attributes: {kinds or 'none'}>"


@dataclass(frozen=True, eq=False, repr=False)
class JobRecords:
    """The confidential side of all jobs: one row per job with its origin.

    Its repr shows nothing, so that no log line or traceback can.

    Parameters
    ----------
    work, home : ndarray of int32, shape (N,)
        Block numbers of destination and origin.
    attributes : dict of str to ndarray of uint8 or uint16, shape (N,) each
        The requested attributes, coded as in the `Slots` of the same source.
    """

    work: Int32
    home: Int32
    attributes: dict[str, AttributeCodes]

    def __len__(self) -> int:
        return len(self.work)

    def __repr__(self) -> str:
        return "<JobRecords>"

    def part(self, policy: Policy) -> Int32:
        """Return the part of each home, which the policy makes public."""
        return policy.part(self.home)


class JobSource(Protocol):
    """Where jobs come from. `LodesJobs` and `MicrodataJobs` are sources."""

    def slots(self, policy: Policy = FULL) -> Slots:
        """Read the public side.

        The origin column is not parsed, unless the policy makes the part of each home public: then the part
        is all that is kept of it.
        """

    def records(self, by: tuple[str, ...] = ()) -> JobRecords:
        """Read the confidential side with the attributes named in `by`."""

    def parts(
        self,
        by: tuple[str, ...] = (),
        categories: Mapping[str, tuple[str, ...]] | None = None,
        *,
        unmatched: bool = False,
    ) -> Iterator[JobRecords]:
        """Read the confidential side file by file, attributes coded as in the slots' `categories`.

        With `unmatched`, jobs that no slot can be for are there too: of a work block outside the geography,
        which is then -1, or of another category, whose code is then the number of categories.
        """


def files_of(files: Files) -> tuple[str | os.PathLike[str], ...]:
    """Return one file or several as a tuple."""
    paths_of(files, "path")
    return (files,) if isinstance(files, (str, os.PathLike)) else tuple(files)


def refuse_too_many_jobs(path: str | os.PathLike[str], column: str | None, jobs: float) -> None:
    """Raise an `InputError` if there are more jobs than can be numbered."""
    most = np.iinfo(np.int32).max
    if jobs > most:
        rule = f"the numbers of jobs add up to more than {most:,}"
        raise InputError(path, rule, column=column, fix="split the file by state")


def refuse_no_jobs(
    path: str | os.PathLike[str], column: str | None, jobs: int, *, protected: bool = False
) -> None:
    """Raise an `InputError` if there is no job in all files together, or more than can be numbered.

    Where their number is `protected`, that there is none is, too.
    """
    refuse_too_many_jobs(path, column, jobs)
    if not (jobs or protected):
        rule = "there is no job: there are no rows, or all numbers of jobs are 0"
        fix = "name a file and a column that count jobs; if the file was cut off, copy it again"
        raise InputError(path, rule, column=column, fix=fix)


def join_slots(parts: Sequence[tuple[Slots, npt.NDArray[np.integer]]]) -> Slots:
    """Return the slots of several files as one.

    Each part is what `Slots.counted` returns; attributes may have other categories in each, and get the
    categories of all files, sorted as text.
    """
    pieces = [slots for slots, _ in parts]
    categories = {
        name: tuple(sorted({*itertools.chain(*(slots.categories[name] for slots in pieces))}))
        for name in pieces[0].categories
    }
    codes: dict[str, AttributeCodes] = {}
    for name, wide in categories.items():
        positions = [pd.Index(wide).get_indexer(pd.Index(slots.categories[name])) for slots in pieces]
        recoded = [
            position[slots.attributes[name]] for position, slots in zip(positions, pieces, strict=True)
        ]
        codes[name] = narrow(np.concatenate(recoded), len(wide))
    one_part = all(slots._one_part for slots in pieces)
    part = pieces[0].home_part[:1] if one_part else np.concatenate([slots.home_part for slots in pieces])
    alike = Slots(np.concatenate([slots.work for slots in pieces]), codes, categories, part)
    order = alike.order()
    return alike.take(order).repeat(np.concatenate([times for _, times in parts])[order])


def narrow(codes: npt.NDArray[np.integer], categories: int) -> AttributeCodes:
    """Return codes of so many categories in as few bytes as they take."""
    return codes.astype(np.uint8) if categories <= 256 else codes.astype(np.uint16)


def join_records(parts: Sequence[JobRecords], by: Sequence[str]) -> JobRecords:
    """Return the records of several files as one, in order."""
    return JobRecords(
        work=np.concatenate([part.work for part in parts]),
        home=np.concatenate([part.home for part in parts]),
        attributes={name: np.concatenate([part.attributes[name] for part in parts]) for name in by},
    )


def count_repeats(hashes: Sequence[npt.NDArray[np.uint64]]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield how often each hash occurs in sorted arrays together, from a part of all hashes at a time."""
    bounds = np.arange(1, _PARTS, dtype=np.uint64) * (2**64 // _PARTS)
    for part in zip(*(np.split(array, np.searchsorted(array, bounds)) for array in hashes), strict=True):
        yield np.unique(np.concatenate(part), return_counts=True)[1]


def locate_blocks(
    geography: Geography,
    codes: pd.Series,
    *,
    path: str | os.PathLike[str],
    column: str,
    homes: bool = False,
    external: bool = False,
    unmatched: bool = False,
) -> Int32:
    """Return the block number of every code, all of which must be in the geography.

    The index of `codes` are the numbers of the rows of the file, from 0. Codes of `homes` must not decide
    whether a job is there: errors do not advise so. `external` codes may be in external zones instead. If
    codes may be `unmatched`, those of no block of the geography get -1. Refused where codes are spelled
    otherwise, of larger areas, of another block vintage, or not in the geography; with the count of rows
    and no code.
    """
    index, distinct = pd.factorize(codes)
    texts = pd.Series(distinct, dtype="str")
    numbers = geography.locate_unit(geography.block_level, texts)
    unknown = numbers < 0
    if not homes:
        closed = geography.nobody_works[numbers] & ~unknown
        inside = closed & ~geography.is_external(numbers)
        if inside.any() and not unmatched:
            refuse_any(
                path,
                "rows have workplaces in an area of geography.without_work, where nobody works",
                pd.Series(inside[index], codes.index),
                column=column,
                fix="correct the file, or geography.without_work",
            )
        unknown |= closed
    elif geography.external_zones:  # homes where nobody can live stay: whether they are there is confidential
        outside = geography.is_external(numbers)
        unknown |= outside & (geography.nobody_lives[numbers] | (not external))
    if unmatched:
        return np.where(unknown, np.int32(-1), numbers)[index]
    if not unknown.any():
        return numbers[index]

    def rows(which: npt.NDArray[np.bool_]) -> pd.Series:
        return pd.Series(which[index], codes.index)

    for which, rule, fix in misspelled(geography, geography.block_level, texts):
        refuse_any(path, rule, rows(which), column=column, fix=fix)
    lengths = {len(code) for code in geography.blocks}
    other = unknown & ~texts.str.len().isin(lengths).to_numpy()
    if len(lengths) == 1 and other.any():
        blocks = pd.Series(geography.blocks, dtype="str")
        parts = [texts.isin(set(blocks.str[:n])) for n in texts[other].str.len().unique()]
        refuse_any(
            path,
            f"rows have codes of larger areas, such as block groups, instead of {geography.block_level} "
            "codes",
            rows(other & np.any(parts, axis=0)),
            column=column,
            fix="write the codes of blocks",
        )
        refuse_any(
            path,
            f"rows have codes that begin like an external zone, but do not have {max(lengths)} characters",
            rows(other & external & (longest_prefix(texts, geography.external_homes) >= 0)),
            column=column,
            fix="write whole codes with leading zeros, or the code of the zone alone",
        )
    for which, rule, fix in other_vintage(
        geography, geography.block_level, texts, np.bincount(index), ~unknown
    ):
        refuse_any(path, rule, rows(which), column=column, fix=fix)
    refuse_any(
        path,
        "rows are not in the geography",
        rows(unknown),
        column=column,
        fix=_cover_homes(geography, external)
        if homes
        else "use a crosswalk that covers every work block, or a file with jobs at its work blocks only",
    )
    return numbers[index]


def _cover_homes(geography: Geography, external: bool) -> str:
    """Say what to do about homes outside the geography: no job may be missing because of its home.

    Where none are foreseen, the configuration says that jobs of residents are released.
    """
    if not geography.external_homes:
        return (
            "use a crosswalk that covers these homes, or name the zones where these workers live in "
            'geography.external_zones, without population = "residents"; with it, every job of the file must '
            "be a resident's"
        )
    aux = "" if external else " and put their jobs into the aux file"
    return (
        "use a crosswalk that covers these homes, or name further zones where these workers live in "
        f"geography.external_zones{aux}; no job may be missing because of its home"
    )


def inside_share(slots: Slots, attribute: str) -> float:
    """Return the part of the variance of an attribute that is between jobs of one work block.

    In [0, 1]: 0 where all jobs of a block have one category, 1 where blocks differ by chance at most.
    """
    alike, times = slots.counted()
    counts, n, share = count_categories(alike, times, attribute, alike.work)
    several = n > 1
    inside = (n[several] ** 2 - (counts[several] ** 2).sum(axis=1)) / (n[several] - 1)
    of_all = float((share * (1 - share)).sum() * n[several].sum())
    return min(1.0, float(inside.sum()) / of_all) if of_all > 0 else 1.0


def count_categories(
    alike: Slots, times: NDArray[np.int64], attribute: str, place: NDArray[np.int32]
) -> tuple[Float64, Float64, Float64]:
    """Return jobs by place and category, of places with any; jobs by place; the share of each category.

    Of `Slots.counted`, and the place of each of them.
    """
    wide = len(alike.categories[attribute])
    places = int(place.max(initial=-1)) + 1
    cell = place.astype(np.int64) * wide + alike.attributes[attribute]
    counts = np.bincount(cell, times, places * wide).reshape(places, wide)
    table = counts[counts.any(axis=1)].astype(np.float64, copy=False)
    return table, table.sum(axis=1), table.sum(axis=0) / max(1, int(times.sum()))
