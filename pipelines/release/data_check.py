"""Comparing the data files of a release with its plan, a run of pools at a time.

Nothing is in memory but the plan and the rows of some destination units; so a nation is checked like a town.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geo_data.geography import Geography
from geo_data.od_files import PairCounts, all_counts, count_columns, count_pairs
from pipelines.plans.plan import ReleasePlan, batches
from pipelines.release.description import file_names
from pipelines.release.layout import RefusedError
from pipelines.release.measurements import Measurements, Rounded
from pipelines.storage.parquet_form import FormError, Kind, check_form, is_count, is_text
from synth.block_sampling import block_chance

_S = TypeVar("_S")
_T = TypeVar("_T")
_AT_A_TIME = 500_000  # jobs
_ROWS = 2**19  # rows of a file that are read together


def check_data(folder: Path, plan: ReleasePlan, createdate: str, measured: Measurements | None = None) -> str:
    """Compare the data files of a public folder with the plan, and say what was found.

    Totals of every work block by every attribute are compared, and the Parquet files with each other
    (`check_bytes` compares CSV files with these). `createdate` is ``YYYYMMDD``, that every row must carry.
    Homes are compared with the noisy counts that they were estimated from, where the release has them.
    """
    implicates, names = plan.implicates, file_names(plan.config)
    seen: dict[bytes, str] = {}
    certain = 64 + np.log2(max(implicates.number * (implicates.number - 1) / 2, 1))
    for number, below in enumerate(implicates.folders):
        rows = _Rows(plan)
        rounded = partial(measured.of, number // implicates.of_run) if measured else None
        paths = {kind: below + name for kind, name in names.items()}
        summary = _check(folder, paths, plan, createdate, rows, rounded)
        other = seen.setdefault(rows.digest.digest(), below)
        if other != below and rows.bits > certain:
            raise RefusedError(f"{below} and {other} are copies of each other, not two implicates")
    return summary if implicates.number == 1 else f"{implicates.number} implicates; the last: {summary}"


class _Rows:
    """What is kept of the rows of an implicate: a digest, and how unlikely it is that another one has them.

    The latter in bits, from the public draw of blocks inside cells (Lemma 27 of docs/privacy.md). None where
    pools differ by several attributes, which the counts of a row do not tell apart.
    """

    def __init__(self, plan: ReleasePlan) -> None:
        self._plan = plan
        self.digest, self.bits = hashlib.sha256(), 0.0

    def add(self, od: PairCounts, pool: NDArray[np.int64], batch: slice, rounded: Rounded | None) -> None:
        """Add the rows of some pools; `pool` is that of each of their slots, `batch` the plan's.

        `rounded` has the cells that blocks were drawn in, where these are not those of the pools.
        """
        plan, slots = self._plan, self._plan.pools.slots
        if plan.implicates.number == 1:
            return
        for values in (od.work, od.home, od.counts):
            self.digest.update(values.tobytes())
        by = () if rounded else plan.pools.pooling.by
        if len(by) > 1:
            return
        from scipy.special import gammaln  # takes its time

        columns = count_columns(slots.categories)[by[0]] if by else ("S000",)
        names = all_counts(slots.categories)
        pair_work, home = od.work, od.home
        work, part = slots.work[batch], slots.home_part[batch]
        for code, column in enumerate(columns):
            pool_at = np.full((plan.policy.n_parts, plan.geography.n_blocks), -1, np.int64)
            like = slots.attributes[by[0]][batch] == code if by else slice(None)
            pool_at[part[like], work[like]] = pool[like]
            jobs = od.counts[:, names.index(column)]
            some = np.flatnonzero(jobs > 0)
            count = jobs[some]
            if rounded:
                domains, shares = rounded.domains, rounded.shares
                domain = rounded.domain(pair_work[some], home[some])
            else:
                domains, shares = plan.numeric.domains, plan.shares
                domain = plan.numeric.pools.domain[pool_at[plan.policy.part(home[some]), pair_work[some]]]
            first, chance = block_chance(domains, domain, home[some], plan.cumulative_weights, shares)
            self.bits -= float((count * np.log(chance) - gammaln(count + 1)).sum()) / np.log(2)
            groups = pd.Series(count).groupby([pair_work[some], first]).sum().to_numpy()
            self.bits -= float(gammaln(groups + 1).sum()) / np.log(2)


def _check(
    folder: Path,
    names: dict[str, str],
    plan: ReleasePlan,
    createdate: str,
    kept: _Rows,
    rounded: Callable[[slice], Rounded | None] | None,
) -> str:
    """Compare the files of one implicate with the plan; `kept` is given its rows.

    `rounded` says of some pools what their homes were rounded from, where tables were measured.
    """
    slots, geography = plan.pools.slots, plan.geography
    kinds = [kind for kind in ("od", "aux") if f"{kind}_parquet" in names]
    counts = all_counts(slots.categories)
    _check_forms(folder, names, counts, [*slots.categories])
    files = [_OdRows(folder, names, kind, geography, counts, createdate, len(slots)) for kind in kinds]
    jobs = _JobRows(folder, names["jobs_parquet"], plan) if "jobs_parquet" in names else None
    main, parts = names["od_parquet"], plan.policy.parts
    end = plan.pools.offsets
    pairs = blocks = 0
    runs = batches(plan) if rounded else batches(plan, _AT_A_TIME)  # as homes were estimated
    for pools, estimated in zip(runs, _ahead(rounded or (lambda pools: None), runs), strict=True):
        batch = slice(end[pools.start], end[pools.stop])
        work = slots.work[batch]
        attributes = {name: codes[batch] for name, codes in slots.attributes.items()}
        read = [rows.until(int(work.max())) for rows in files]
        # By work block and, where homes have several parts, by part: that of its first block.
        first = parts[slots.home_part[batch]]
        public = count_pairs(geography, work, first, attributes, slots.categories)
        of_part = [replace(od, home=parts[plan.policy.part(od.home)]) for od in read]
        totals = _added_up(PairCounts.joined([_added_up(od, geography) for od in of_part]), geography)
        if not totals.equals(public):
            by = "work block" if parts.size == 1 else "work block and part of homes"
            raise RefusedError(f"{main}: totals by {by} are not those of the plan's slots")
        if not all(_possible(od, public, geography, slots.categories) for od in of_part):
            raise RefusedError(f"{main} has counts that no jobs can have")
        pairs, blocks = pairs + sum(od.work.size for od in read), blocks + np.unique(work).size
        if jobs is None and estimated is None and plan.implicates.number == 1:
            continue  # nothing else looks at pairs, and to put those of all files in order takes its time
        od = PairCounts.joined(read)
        if len(files) > 1:  # each is by destination and then origin
            od = od[np.lexsort([od.home, od.work])]
        if jobs is not None:
            counted, homes = jobs.count(batch)
            if not counted.equals(od):
                raise RefusedError(f"{jobs.name} and the OD files hold different commutes")
        if estimated is not None:
            by_slot = True
            if jobs is None:
                homes = _homes(plan, od, batch, estimated.attributes)
                by_slot = len(estimated.attributes) < 2
            if not estimated.fits(homes, by_slot=by_slot):
                raise RefusedError(f"{main}: the homes cannot have been rounded from the noisy counts")
        pool = np.repeat(np.arange(pools.start, pools.stop), plan.pools.n[pools])
        kept.add(od, pool, batch, estimated)
    for rows in files:
        rows.must_end()
    of_counts = f"{blocks:,} work blocks by {len(counts)} counts"
    return f"{pairs:,} pairs; the totals of {of_counts} are those of the slots"


def _ahead(function: Callable[[_S], _T], items: Sequence[_S]) -> Iterator[_T]:
    """Call a function with each item, on all processors, and no further ahead than these have to do."""
    most = os.cpu_count() or 1
    with ThreadPoolExecutor(most) as threads:
        waiting: deque[Future[_T]] = deque()
        for item in items:
            waiting.append(threads.submit(function, item))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _homes(plan: ReleasePlan, od: PairCounts, batch: slice, by: Sequence[str]) -> NDArray[np.int32]:
    """Return a home for each slot from OD files, which know of one attribute of a job at a time.

    It is that of a job of the slot's work block and part; and of its category, where `by` is one attribute.
    """
    slots, names = plan.pools.slots, all_counts(plan.pools.slots.categories)
    told = by if len(by) == 1 else ()
    counted = count_columns(slots.categories)[told[0]] if told else ("S000",)
    counts = od.counts[:, [names.index(column) for column in counted]].T
    code = np.repeat(np.arange(len(counted)), counts.sum(axis=1))
    work, home = (np.concatenate([np.repeat(places, n) for n in counts]) for places in (od.work, od.home))
    attributes = [slots.attributes[name][batch] for name in told]
    result = np.empty(home.size, np.int32)
    order = np.lexsort([*attributes, slots.home_part[batch], slots.work[batch]])
    result[order] = home[np.lexsort((code, plan.policy.part(home), work))]
    return result


def _keys(od: PairCounts, geography: Geography) -> NDArray[np.int64]:
    return od.work.astype(np.int64) * geography.n_blocks + od.home


def _added_up(od: PairCounts, geography: Geography) -> PairCounts:
    """Return rows with each pair once, the counts of equal ones added up."""
    keys = _keys(od, geography)
    if np.any(np.diff(keys) < 0):
        order = np.argsort(keys, kind="stable")
        keys, od = keys[order], od[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return replace(od[first], counts=np.add.reduceat(od.counts, first, axis=0))


def _possible(
    od: PairCounts, public: PairCounts, geography: Geography, categories: Mapping[str, tuple[str, ...]]
) -> bool:
    """Say whether jobs could give these rows: each attribute adds up, no row has more than its block."""
    row = np.searchsorted(_keys(public, geography), _keys(od, geography))
    jobs, column = od.counts[:, 0], 1
    fine = bool((jobs >= 1).all() and (jobs <= public.counts[row, 0]).all())
    for values in categories.values():
        fine = fine and bool((od.counts[:, column : column + len(values)].sum(axis=1) == jobs).all())
        column += len(values)
    return fine


class _OdRows:
    """The rows of an OD file in Parquet or of a folder of them, in order and with homes where they belong."""

    def __init__(
        self,
        folder: Path,
        names: dict[str, str],
        kind: str,
        geography: Geography,
        counts: list[str],
        createdate: str,
        jobs: int,
    ) -> None:
        self._name = names[f"{kind}_parquet"]
        self._aux, self._geography, self._counts = kind == "aux", geography, counts
        self._createdate, self._jobs = createdate, jobs
        self._tables = _tables(folder / self._name)
        nothing = np.zeros(0, np.int32)
        self._rows = [PairCounts(nothing, nothing, np.zeros((0, len(counts)), np.int64))]  # not returned yet
        self._last = -1

    def until(self, block: int) -> PairCounts:
        """Return the next rows, with work blocks up to this one."""
        while self._last < (block + 1) * self._geography.n_blocks and self._next():
            pass
        rows = PairCounts.joined(self._rows)
        n = int(np.searchsorted(rows.work, block, side="right"))
        self._rows = [rows[n:]]
        return rows[:n]

    def must_end(self) -> None:
        """Raise if there are rows left."""
        while self._next():
            pass
        if any(rows.work.size for rows in self._rows):
            raise RefusedError(f"{self._name}: totals by work block are not those of the plan's slots")

    def _next(self) -> bool:
        """Read some rows; say if there were more."""
        table = next(self._tables, None)
        if table is None:
            return False
        geography, name = self._geography, self._name
        work, home = (geography.number(table[column]) for column in ("w_geocode", "h_geocode"))
        if len(table) and (work.min() < 0 or home.min() < 0):
            raise RefusedError(f"{name} has blocks that are not in the geography")
        if np.any(geography.is_external(home) != self._aux):
            raise RefusedError(f"{name} has homes that belong in the other of the main and the aux file")
        if geography.nobody_lives[home].any() or geography.nobody_works[work].any():
            raise RefusedError(f"{name} has homes where nobody can live, or jobs where nobody can work")
        key = work.astype(np.int64) * geography.n_blocks + home
        if np.any(np.diff(key, prepend=self._last) <= 0):
            raise RefusedError(f"{name}: rows are not in order, or a pair is repeated")
        if not pc.all(pc.equal(table["createdate"], self._createdate), skip_nulls=False).as_py():
            raise RefusedError(f"{name}: createdate is not the day that certificate.json states")
        self._last = int(key[-1]) if key.size else self._last
        counts = np.stack([table[column].to_numpy() for column in self._counts]).T  # columns stay columns
        # Sums of these, of no pair twice, are then below 2^62.
        if counts.min(initial=0) < 0 or counts.max(initial=0) > self._jobs:
            raise RefusedError(f"{name} has counts that no jobs can have")
        # Without pieces that are empty: a single one is not copied.
        self._rows = [*(rows for rows in self._rows if rows.work.size), PairCounts(work, home, counts)]
        return True


def _check_forms(folder: Path, names: dict[str, str], counts: list[str], attributes: list[str]) -> None:
    """Refuse files with other columns than a release of these names has, or folders in place of files."""
    text = dict.fromkeys(("w_geocode", "h_geocode"), is_text)
    od: dict[str, Kind] = {**text, **dict.fromkeys(counts, is_count), "createdate": is_text}
    jobs: dict[str, Kind] = {**text, **dict.fromkeys(attributes, is_text)}
    for kind, name in names.items():
        if kind.endswith("_csv"):
            continue
        if (folder / name).is_dir() == ("od_csv" in names):
            raise RefusedError(f"{name}: it is a file instead of a folder of parts, or the reverse")
        for part in _files(folder / name):
            try:
                check_form(part, jobs if kind == "jobs_parquet" else od)
            except FormError as fault:
                raise RefusedError(f"{name.removesuffix(part.name)}{fault}") from fault


def _files(path: Path) -> list[Path]:
    """Return a Parquet file, or those of a folder of them."""
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file, or of a folder of them."""
    for part in _files(path):
        for batch in pq.ParquetFile(part).iter_batches(batch_size=_ROWS):
            yield pa.Table.from_batches([batch])


class _JobRows:
    """The jobs of a release, one row each, which must be the plan's slots in their order."""

    def __init__(self, folder: Path, name: str, plan: ReleasePlan) -> None:
        self.name, path = name, folder / name
        self._slots, self._geography, self._policy = plan.pools.slots, plan.geography, plan.policy
        self._categories = plan.pools.slots.categories
        if sum(pq.read_metadata(part).num_rows for part in _files(path)) != len(self._slots):
            raise RefusedError(f"{name}: rows are not those of the plan's slots")
        self._tables = _tables(path)
        self._left: list[pa.Table] = []

    def count(self, batch: slice) -> tuple[PairCounts, NDArray[np.int32]]:
        """Compare the next jobs with slots of the plan; count them by pair, and return their homes."""
        slots = self._slots
        work, attributes = slots.work[batch], {name: codes[batch] for name, codes in slots.attributes.items()}
        while sum(map(len, self._left)) < work.size:
            self._left.append(next(self._tables))
        whole = pa.concat_tables(self._left)
        jobs, self._left = whole[: work.size], [whole[work.size :]]
        geography, categories = self._geography, self._categories
        same = np.array_equal(geography.number(jobs["w_geocode"]), work)
        for name, codes in attributes.items():
            due = pa.array(categories[name], jobs.schema.field(name).type).take(pa.array(codes))
            same = same and jobs[name].equals(pa.chunked_array([due]))
        if not same:
            raise RefusedError(f"{self.name}: the jobs are not the plan's slots")
        home = geography.number(jobs["h_geocode"])
        if home.min() < 0:
            raise RefusedError(f"{self.name} has blocks that are not in the geography")
        if not np.array_equal(self._policy.part(home), slots.home_part[batch]):
            raise RefusedError(f"{self.name}: homes are in other parts than those of the plan's slots")
        return count_pairs(geography, work, home, attributes, categories), home
