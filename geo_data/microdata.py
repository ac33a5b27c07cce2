"""Job-level microdata as a source of jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from geo_data.arguments import check_type, texts_of
from geo_data.errors import ChangedFileError, InputError, refuse_any, refuse_repeated
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
    join_slots,
    locate_blocks,
    narrow,
    refuse_no_jobs,
    refuse_too_many_jobs,
)
from geo_data.tables import Kind, TableSchema, read_table
from geo_data.texts import refuse_spellings, spellings
from synth.policy import FULL, Policy

_MAX_CATEGORIES = 1000
_ROWS = 4_000_000  # of a file at a time


@dataclass(frozen=True)
class MicrodataJobs:
    """Jobs of a table with one row per job, or per number of equal jobs.

    Parameters
    ----------
    path : str or path, or sequence of them
        CSV, csv.gz or Parquet; several files are one set of jobs.
    geography : Geography
        Must hold every origin and destination of the file.
    home : str, optional
        Column of the origin's block code, text; None for a public table of jobs by workplace, of which only
        `slots` can be read.
    work : str
        Column of the destination's block code, text.
    worker : str, optional
        Column that identifies the worker, so that `records_per_worker` can be held.
    count : str, optional
        Column with the number of jobs of each row, whole and not negative ("66" or "66.0"); without it a row
        is one job. Rows that count jobs cannot name workers.
    attributes : tuple of str
        Public attribute columns; text categories, at most 1,000 each, none missing. Sorted: a plan and the
        release have them in this order, however they were listed.
    records_per_worker : int
        The most rows that one worker may have; the unit of the guarantee rests on it. At least 1.
    secret : tuple of str
        Attributes that are no attributes of slots, and are read with homes, as confidential.
    decimal_point : bool
        A point in the number of jobs is a decimal mark, also where it may be one of thousands (1.000).
    reading : Reading, optional
        As for `LodesJobs`.

    Raises
    ------
    InputError
        If a column is named for two purposes, `records_per_worker` is less than 1, or both `worker` and
        `count` are named.
    """

    path: Files
    geography: Geography
    home: str | None
    work: str
    worker: str | None = None
    count: str | None = None
    attributes: tuple[str, ...] = ()
    records_per_worker: int = 1
    secret: tuple[str, ...] = ()
    decimal_point: bool = False
    reading: Reading | None = None

    def __post_init__(self) -> None:
        check_type(self.geography, Geography, "geography", "read_crosswalk")
        object.__setattr__(self, "attributes", tuple(sorted(texts_of(self.attributes, "attributes"))))
        path = files_of(self.path)[0]
        names = [self.work, *self.attributes]
        names += [name for name in (self.home, self.worker, self.count) if name is not None]
        refuse_repeated(path, names)
        if self.records_per_worker < 1:
            raise InputError(path, "records_per_worker is less than 1", fix="write 1 or more")
        if self.worker is not None and self.count is not None:
            raise InputError(
                path,
                "rows that count jobs cannot name workers",
                fix="leave worker or count out",
            )

    def slots(self, policy: Policy = FULL) -> Slots:
        """Read the job slots; columns of origins, workers and secrets must be there, and are not parsed.

        Of origins the part is kept that the policy makes public, if it has several. Categories are sorted
        as text.
        """
        parts = []
        several = policy.n_parts > 1
        for path in files_of(self.path):  # of which one is in memory, and what is left of those before
            frame = self._read(path, self._public, origins=several)
            work = locate_blocks(self.geography, frame[self.work], path=path, column=self.work)
            homes = policy.part(self._homes(frame[self.home], path)) if several else policy.part(work[:1])
            coded = {name: pd.factorize(frame[name]) for name in self._public}
            slots = Slots(
                work=work,
                attributes={name: narrow(codes, len(values)) for name, (codes, values) in coded.items()},
                categories={name: tuple(map(str, values)) for name, (_, values) in coded.items()},
                home_part=homes,
            )
            parts.append(slots.sorted().counted())
        slots = join_slots(parts)
        refuse_no_jobs(files_of(self.path)[0], self.count, len(slots))
        for name, categories in slots.categories.items():
            self._refuse_many(name, categories)
            # Of several files: each has one spelling, but may have another one than the others.
            public = self.home is None
            refuse_spellings(
                files_of(self.path)[0], name, pa.array(categories, pa.large_string()), shown=public
            )
        return slots

    def records(self, by: tuple[str, ...] = ()) -> JobRecords:
        """Read the job records with their confidential origins, in the order of the file.

        With any attributes. Refused are also worker identifiers that are missing, and
        more rows of one worker than `records_per_worker`.
        """
        by = tuple(by)
        categories = {} if len(files_of(self.path)) == 1 or not by else self.slots().categories
        return join_records(list(self.parts(by, categories)), by)

    def parts(
        self,
        by: tuple[str, ...] = (),
        categories: Mapping[str, tuple[str, ...]] | None = None,
        *,
        unmatched: bool = False,
    ) -> Iterator[JobRecords]:
        """Read the job records file by file, some million rows at a time; else as `records`.

        Rows of a worker are counted after the last. Without `categories` of the slots, those of the file
        are taken.
        """
        by = tuple(by)
        if self.home is None:
            raise ValueError("a table of jobs by workplace has no homes")
        if not set(by) <= set(self.attributes):
            raise InputError(
                files_of(self.path)[0],
                f"there is no such attribute; there are: {', '.join(self.attributes) or 'none'}",
                fix="name the column under attributes",
            )
        workers = () if self.worker is None else (self.worker,)
        files = files_of(self.path)
        seen: list[npt.NDArray[np.uint64]] = []
        row_hashes: list[npt.NDArray[np.uint64]] = []  # rows of each file, without homes and secrets
        total = 0
        works: list[tuple[int, int]] = []  # of each file, how many, and a hash of all, in any order
        for path in files:
            # Of several files, every attribute: rows of a worker may differ in one only.
            compared = self._public if workers and len(files) > 1 else ()
            labels = tuple(dict.fromkeys((*by, *compared, *workers)))
            frame = self._read(path, labels, origins=True, unmatched=unmatched)
            if frame.empty and self.reading is not None:
                self.reading.remarks.append(f"{path}: the file has no jobs. Was it cut off?")
            for worker in workers:
                seen.append(np.sort(pd.util.hash_array(frame[worker].to_numpy(dtype=object))))
                if len(files) > 1:
                    row_hashes.append(np.unique(_hash_rows(frame[[self.work, *compared, worker]])))
            coded = {name: self._coded(frame[name], (categories or {}).get(name)) for name in by}
            work = locate_blocks(
                self.geography, frame[self.work], path=path, column=self.work, unmatched=unmatched
            )
            home = self._homes(frame[self.home], path)
            del frame
            total += work.size
            if len(files) > 1 and not workers:
                works.append((work.size, int(pd.util.hash_array(work).sum(dtype=np.uint64))))
            for start in range(0, len(work), _ROWS):
                rows = slice(start, start + _ROWS)
                yield JobRecords(
                    work=work[rows],
                    home=home[rows],
                    attributes={name: column[rows] for name, column in coded.items()},
                )

        refuse_no_jobs(files[0], self.count, total, protected=unmatched)
        refuse_any(
            path,
            f"workers have more than {self.records_per_worker} row(s)"
            + " in all files together" * (len(seen) > 1),
            sum(int((rows > self.records_per_worker).sum()) for rows in count_repeats(seen)),
            column=self.worker,
            fix="keep one job per worker, or raise records_per_worker, which protects a person less",
        )
        # Rows of different jobs may be equal, but not all of a file; few have the workplaces of another.
        alike = [
            (path, fingerprint[0])
            for path, fingerprint in zip(files, works, strict=False)
            if works.count(fingerprint) > 1
        ]
        row_hashes += [self._digest(path, unmatched) for path, jobs in alike if jobs > FEW_JOBS]
        if self.reading is not None and any(0 < jobs <= FEW_JOBS for _, jobs in alike):
            remark = f"{files[0]}: small files have jobs at the same workplaces: {SAME_JOBS}"
            self.reading.remarks.append(remark)
        refuse_any(
            files[0],
            f"{'rows' if workers else 'tables'} are in several files, if homes are left out: {SAME_JOBS}",
            sum(int((times > 1).sum()) for times in count_repeats(row_hashes)),
            column=self.worker,
            fix="name each file once (check what * and ? in jobs.file match); if the jobs are different, put "
            "them into one file",
        )

    def _digest(self, path: str | os.PathLike[str], unmatched: bool) -> npt.NDArray[np.uint64]:
        """Return one hash of what is public of a file that was read before, the same in whatever order."""
        again = Reading()
        rows = _hash_rows(replace(self, reading=again)._read(path, self._public, unmatched=unmatched))
        if self.reading is not None and self.reading.sha256[str(path)] != again.sha256[str(path)]:
            raise ChangedFileError("a file changed while it was read")
        return pd.util.hash_array(np.array([rows.sum(dtype=np.uint64)]))

    def _homes(self, codes: pd.Series, path: str | os.PathLike[str]) -> Int32:
        column = str(codes.name)
        return locate_blocks(self.geography, codes, path=path, column=column, homes=True, external=True)

    @property
    def _public(self) -> tuple[str, ...]:
        """The attributes of slots."""
        return tuple(name for name in self.attributes if name not in self.secret)

    def _coded(self, values: pd.Series, categories: tuple[str, ...] | None) -> AttributeCodes:
        if categories is None:
            return self._code(values)
        index, target = (
            pd.Index(spellings(pa.array(texts, pa.large_string())).to_pandas())
            for texts in (categories, values.cat.categories)
        )
        place = index.get_indexer(target)
        return narrow(np.where(place < 0, len(categories), place)[values.cat.codes], len(categories) + 1)

    def _read(
        self,
        path: str | os.PathLike[str],
        labels: tuple[str, ...],
        *,
        origins: bool = False,
        unmatched: bool = False,
    ) -> pd.DataFrame:
        """Read the columns, one row per job."""
        columns: dict[str, Kind] = {self.work: "code"}
        if origins and self.home is not None:
            columns[self.home] = "home"
        # A wrong name of the columns that planning does not parse is found by planning.
        present = [name for name in (self.home, self.worker, *self.secret) if name is not None]
        columns.update({name: "secret" if name in self.secret else "label" for name in labels})
        if self.count is not None:
            columns[self.count] = "decimal" if self.decimal_point else "number"
        schema = TableSchema(
            columns,
            present=present,
            shared=columns.keys() - {self.worker, self.count},  # workers come once each, or nearly so
            confidential=self.home is not None,
            # To refuse two spellings of what is confidential would tell of it; `unmatched`, everything is.
            any_spelling=()
            if self.home is None
            else columns.keys() - ([] if unmatched else [self.work, *self._public]),
        )
        frame = read_table(path, schema, self.reading.sha256 if self.reading else None)
        if self.count is None:
            return frame
        count = frame.pop(self.count)
        refuse_any(
            path,
            "numbers of jobs are negative or not whole",
            (count < 0) | (count % 1 != 0),
            column=self.count,
            fix="name a column that counts jobs",
        )
        refuse_too_many_jobs(path, self.count, count.sum())
        return frame.loc[frame.index.repeat(count.astype(np.int64))]  # the index stays the number of the row

    def _code(self, values: pd.Series) -> AttributeCodes:
        values = values.cat.remove_unused_categories()
        place, categories = pd.factorize(values.cat.categories, sort=True)
        codes = place[values.cat.codes]
        self._refuse_many(str(values.name), categories)
        return narrow(codes, len(categories))

    def _refuse_many(self, attribute: str, categories: Sequence[str] | pd.Index) -> None:
        if len(categories) > _MAX_CATEGORIES:
            raise InputError(
                files_of(self.path)[0],
                f"categories are more than the {_MAX_CATEGORIES:,} that a column may have",
                column=attribute,
                count=len(categories),
                fix="group the categories, or leave this column out, as it may identify people",
            )


def _hash_rows(frame: pd.DataFrame) -> npt.NDArray[np.uint64]:
    hashed = pd.util.hash_pandas_object(frame[sorted(frame.columns.astype(str))], index=False)
    return np.asarray(hashed, np.uint64)
