"""LODES origin-destination files as a source of jobs."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from geo_data.arguments import check_type
from geo_data.errors import InputError, counted, refuse_any
from geo_data.external_zones import CENSUS_DIGITS
from geo_data.geography import Geography
from geo_data.jobs import (
    FEW_JOBS,
    SAME_JOBS,
    AttributeCodes,
    Files,
    Int32,
    JobRecords,
    Reading,
    Slots,
    count_repeats,
    files_of,
    join_records,
    locate_blocks,
    refuse_no_jobs,
    refuse_too_many_jobs,
)
from geo_data.od_files import LODES_CATEGORIES
from geo_data.tables import Kind, TableSchema, read_table
from synth.policy import FULL, Policy

_COUNTS = ("S000", *(name for names in LODES_CATEGORIES.values() for name in names))
#: The columns of an OD file in order.
LODES_COLUMNS: tuple[str, ...] = ("w_geocode", "h_geocode", *_COUNTS, "createdate")

_FIX_COUNTS = "use the file as published; LODES counts agree in every row"


@dataclass(frozen=True)
class LodesJobs:
    """Jobs of a LODES OD file, such as ``ri_od_main_JT00_2019.csv.gz``.

    Parameters
    ----------
    path : str or path, or sequence of them
        CSV, csv.gz or Parquet with exactly the columns `LODES_COLUMNS`; several files, of a state each, say,
        are one set of jobs.
    geography : Geography
        Must hold every destination, and every origin of the main file.
    aux : str or path, or sequence of them, optional
        Aux files of the same form: jobs of workers who live in external zones of the geography.
    homes : bool
        Whether the file has homes. False for a public table of jobs by workplace, of which only `slots` can
        be read: it has the work block and the counts of an OD file, and may have further columns.
    checked : bool
        Whether `slots` has found nothing wrong with these files already: then `parts` reads no counts but
        those that are asked for, in half of the time.
    reading : Reading, optional
        Filled with what is noted while files are read; without it nothing is.

    Notes
    -----
    An OD row counts the jobs of one (destination, origin) pair in total (S000) and by three attribute
    groups, each of which adds up to S000. Both methods read the file anew and keep nothing of it.
    """

    path: Files
    geography: Geography
    aux: Files | None = None
    homes: bool = True
    checked: bool = False
    reading: Reading | None = None

    def __post_init__(self) -> None:
        check_type(self.geography, Geography, "geography", "read_crosswalk")

    def slots(self, policy: Policy = FULL) -> Slots:
        """Read the job slots: one row per job, from the destination's totals alone.

        Under a policy of parts from the totals of each destination and part of homes. Attributes are
        ``"SA"``, ``"SE"``, ``"SI"``, as LODES has them.

        Origins must not leak into the slots. Unless there are several parts, the origin column is not
        parsed; that is not enough, because rows are grouped by origin: attributes of a row with one job are
        known jointly, those of a larger row are not, and which is which depends on where people live. So
        slots are a function of the totals per work block (and part) by SA, by SE and by SI only, which are
        exact. The three are coupled by a fixed public shuffle within these: SA in order; SE and SI ranked
        by a hash of (block code, position, group). The joint distribution of two groups is therefore not
        that of the file.
        """
        # One sum over all files: which of its jobs are from an aux file depends on where people live.
        several = policy.n_parts > 1
        sums = pd.DataFrame(columns=list(_COUNTS), index=pd.Index([], dtype=np.int64), dtype=np.int64)
        for path, external in self._files:
            frame = self._read(path, "w_geocode", *(("h_geocode",) if several else ()))
            work = locate_blocks(self.geography, frame["w_geocode"], path=path, column="w_geocode")
            key = work.astype(np.int64)
            if several:
                key = key * policy.n_parts + policy.part(self._homes(path, frame, external=external))
            sums = pd.concat([sums, frame[list(_COUNTS)].groupby(key).sum()]).groupby(level=0).sum()
        sums = sums[sums["S000"] > 0]
        totals = sums["S000"].to_numpy()
        refuse_no_jobs(self._files[0][0], "S000", totals.sum())
        group_work, group_part = np.divmod(sums.index.to_numpy(), policy.n_parts)
        slot_work = np.repeat(group_work.astype(np.int32), totals)
        row = np.repeat(np.arange(totals.size, dtype=np.int32), totals)
        codes: dict[str, AttributeCodes] = {}
        for number, (group, categories) in enumerate(LODES_CATEGORIES.items()):
            by_category = sums[list(categories)].to_numpy()
            in_order = np.repeat(
                np.tile(np.arange(len(categories), dtype=np.uint8), totals.size), by_category.ravel()
            )
            shuffled = in_order[self._shuffle(slot_work, row, totals, number)] if number else in_order
            codes[group] = shuffled
        order = np.lexsort((*reversed(codes.values()), row))
        return Slots(
            work=slot_work[order],
            attributes={group: values[order] for group, values in codes.items()},
            categories=dict(LODES_CATEGORIES),
            home_part=group_part.astype(np.int32)[row] if several else policy.part(slot_work),
        )

    def records(self, by: tuple[str, ...] = ()) -> JobRecords:
        """Read the job records with their confidential origins, counts expanded, in the order of the files.

        With no attribute group, or one of ``"SA"``, ``"SE"``, ``"SI"``. Refused are also pairs that come
        twice in a file, and files of a kind that have as many jobs at every work block.
        """
        return join_records(list(self.parts(by)), by)

    def parts(
        self,
        by: tuple[str, ...] = (),
        categories: Mapping[str, tuple[str, ...]] | None = None,
        *,
        unmatched: bool = False,
    ) -> Iterator[JobRecords]:
        """Read the job records file by file, the main files first; else as `records`."""
        by = tuple(by)
        if not set(by) <= set(LODES_CATEGORIES):
            raise InputError(
                self._files[0][0],
                "a LODES file has no such attribute group",
                fix=f"name one of {', '.join(LODES_CATEGORIES)}",
            )
        if len(by) > 1:
            raise InputError(
                self._files[0][0],
                "the OD format counts each attribute group by itself",
                fix="ask for one group, or use job-level microdata",
            )
        total = 0
        for files, external in self._sets:
            seen = np.zeros(self.geography.n_blocks, np.int8)  # in how many files each work block is, to 2
            totals, states, between = Counter[str](), set[int](), False
            for path in files:
                records = self._records(path, by, external=external, unmatched=unmatched)
                inside = records.work[records.work >= 0]
                jobs = np.bincount(inside, minlength=seen.size)
                seen += (jobs > 0) & (seen < 2)
                if inside.size > FEW_JOBS:  # others may be alike by chance
                    blocks = np.flatnonzero(jobs)
                    totals[hashlib.sha256(np.stack([blocks, jobs[blocks]]).tobytes()).hexdigest()] += 1
                total += len(records)
                if not len(records):
                    self._remark(f"{path}: the file has no jobs. Was it cut off?")
                if not external:
                    work, home = (self._states[b[records.work >= 0]] for b in (records.work, records.home))
                    states.update(np.unique(work).tolist())
                    between |= bool((work != home).any())
                yield records
                del records
            refuse_any(
                files[0],
                f"files have as many jobs at every work block as another file: {SAME_JOBS}",
                sum(number - 1 for number in totals.values() if number > 1),
                fix="name each file once (check what * and ? in jobs.file match); if the jobs are different, "
                "put them into one file",
            )
            self._remark_repeats(files, seen > 1)
            if len(states) > 1 and not between:
                self._remark(
                    f"{files[0]}: the main files, of several states, have no job of somebody who lives in "
                    "another of these states. They are in the aux file of the state of the workplace, and go "
                    "into a file of jobs.file, too"
                )
        refuse_no_jobs(self._files[0][0], "S000", total, protected=unmatched)

    def _remark(self, text: str) -> None:
        if self.reading is not None:
            self.reading.remarks.append(text)

    def _remark_repeats(self, files: Sequence[str | os.PathLike[str]], shared: npt.NDArray[np.bool_]) -> None:
        """Remark pairs that are in several files; only work blocks that several files share can have one.

        Files of states share none, and are not read again.
        """
        if self.reading is None or not shared.any():
            return
        seen: list[npt.NDArray[np.uint64]] = []
        for path in files:
            geocodes: dict[str, Kind] = {"w_geocode": "code", "h_geocode": "home"}
            frame = read_table(path, TableSchema(geocodes, confidential=True, any_spelling=geocodes))
            work = self.geography.locate_unit(self.geography.block_level, frame["w_geocode"])
            pairs = frame[(work >= 0) & shared[work]]
            # Homes as they are written: in an external zone there are many.
            seen.append(np.sort(pd.util.hash_pandas_object(pairs, index=False).to_numpy()))
        if repeats := sum(int((rows > 1).sum()) for rows in count_repeats(seen)):
            rule = counted(repeats, "pairs of home and workplace are in several files")
            self._remark(
                f"{files[0]}: {rule}; their jobs are added up. Are these the same jobs twice (see what * and "
                "? in jobs.file match)?"
            )

    @cached_property
    def _states(self) -> Int32:
        """A number for the state of each block; one for all where codes are not of census blocks."""
        blocks = pd.Series(self.geography.blocks, dtype="str")
        states = blocks.str[:2] if (blocks.str.len() == CENSUS_DIGITS).all() else blocks.str[:0]
        return pd.factorize(states)[0].astype(np.int32)

    @property
    def _sets(self) -> list[tuple[tuple[str | os.PathLike[str], ...], bool]]:
        """The main files and the aux files, and whether their workers live outside."""
        main = [(files_of(self.path), False)]
        return main if self.aux is None else [*main, (files_of(self.aux), True)]

    @property
    def _files(self) -> list[tuple[str | os.PathLike[str], bool]]:
        """The files, and whether their workers live outside."""
        return [(path, external) for files, external in self._sets for path in files]

    def _records(
        self, path: str | os.PathLike[str], by: tuple[str, ...], *, external: bool, unmatched: bool
    ) -> JobRecords:
        groups = by if self.checked else LODES_CATEGORIES
        frame = self._read(path, "w_geocode", "h_geocode", groups=groups, unmatched=unmatched)
        work = locate_blocks(
            self.geography, frame["w_geocode"], path=path, column="w_geocode", unmatched=unmatched
        )
        home = self._homes(path, frame, external=external)
        # Codes that are written alike have one number; in an external zone, many codes have.
        pairs = np.sort(work.astype(np.int64) * self.geography.n_blocks + home)
        refuse_any(
            path,
            "rows repeat an origin-destination pair of an earlier row",
            frame.duplicated(["w_geocode", "h_geocode"]) if (pairs[1:] == pairs[:-1]).any() else 0,
            column="h_geocode",
            fix="keep one row per pair: add the counts, or remove the rows that were joined twice",
        )
        names = LODES_CATEGORIES[by[0]] if by else ("S000",)
        counts = frame[list(names)].to_numpy()
        per_row = counts.sum(axis=1)
        codes = np.repeat(np.tile(np.arange(len(names), dtype=np.uint8), len(frame)), counts.ravel())
        return JobRecords(
            work=np.repeat(work, per_row),
            home=np.repeat(home, per_row),
            attributes={by[0]: codes} if by else {},
        )

    def _homes(self, path: str | os.PathLike[str], frame: pd.DataFrame, *, external: bool) -> Int32:
        home = locate_blocks(
            self.geography, frame["h_geocode"], path=path, column="h_geocode", homes=True, external=external
        )
        refuse_any(
            path,
            "rows of the aux file have homes in the geography",
            pd.Series(~self.geography.is_external(home)) if external else 0,
            column="h_geocode",
            fix="name the main file, with homes in the geography, as file and the other file as aux; of "
            "several states, move these rows into a file of jobs.file",
        )
        return home

    def _read(
        self,
        path: str | os.PathLike[str],
        *geocodes: str,
        groups: Iterable[str] = LODES_CATEGORIES,
        unmatched: bool = False,
    ) -> pd.DataFrame:
        """Read geocode columns and the counts of some groups, and check that these agree in every row."""
        kinds: dict[str, Kind] = {"w_geocode": "code", "h_geocode": "home"}
        columns: dict[str, Kind] = {name: kinds[name] for name in geocodes}
        categories = {group: LODES_CATEGORIES[group] for group in groups}
        columns |= dict.fromkeys(("S000", *itertools.chain(*categories.values())), "count")
        schema = TableSchema(columns)
        if self.homes:
            # To refuse two spellings of what is confidential would tell of it; with `unmatched`, work blocks
            # are, too.
            spellings = geocodes if unmatched else ("h_geocode",)
            schema = TableSchema(columns, LODES_COLUMNS, confidential=True, any_spelling=spellings)
        frame = read_table(path, schema, self.reading.sha256 if self.reading else None)
        refuse_too_many_jobs(path, "S000", frame["S000"].astype(np.float64).sum())
        for group, names in categories.items():
            refuse_any(
                path,
                f"rows have counts by {group} ({names[0]} to {names[-1]}) that do not add up to S000",
                sum(frame[name] for name in names) != frame["S000"],
                column=group,
                fix=_FIX_COUNTS,
            )
        return frame

    def _shuffle(
        self, slot_work: Int32, row: Int32, totals: npt.NDArray[np.int64], group: int
    ) -> npt.NDArray[np.intp]:
        """Return a permutation of the slots within their totals that depends on public things only."""
        position = np.arange(len(slot_work)) - np.repeat(np.cumsum(totals) - totals, totals)
        places = pd.util.hash_array((position * len(LODES_CATEGORIES) + group).astype(np.uint64))
        blocks = pd.util.hash_array(self.geography.blocks, categorize=False)
        # Unsigned addition wraps around, which is what mixing two hashes wants.
        mixed = pd.util.hash_array(places + blocks[slot_work])
        bits = np.uint64(int(row.max(initial=0)).bit_length())
        keys = (row.astype(np.uint64) << (64 - bits)) | (mixed >> bits)
        order = np.argsort(keys)
        # Rarely do two hashes of a row begin alike: to sort by both takes three times as long.
        return order if (np.diff(keys[order]) > 0).all() else np.lexsort((mixed, row))
