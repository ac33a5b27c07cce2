"""Comparing the data files of a release with its plan, a run of pools at a time.

Nothing is in memory but the plan and the rows of some destination units; so a nation is checked like a town.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

import synth
from geo_data.geography import Geography
from geo_data.od_files import count_columns, od_table
from pipelines.planning.plan import ReleasePlan, batches
from pipelines.release.layout import file_names
from pipelines.release.measurements import Measurements, Rounded
from pipelines.storage.errors import ShownError
from pipelines.storage.parquet_form import FormError, Kind, check_form, is_count, is_text

__all__ = ["DataError", "check_data"]

_AT_A_TIME = 500_000  # jobs
_ROWS = 262_144  # rows of a file that are read together


class DataError(ShownError, ValueError):
    """The data are not what the plan says; the message quotes no row."""


def check_data(folder: Path, plan: ReleasePlan, createdate: str, measured: Measurements | None = None) -> str:
    """Compare the data files of a public folder with the plan, and say what was found.

    Totals of every work block by every attribute are compared, and the Parquet files with each other
    (`check_bytes` compares CSV files with these). `createdate` is ``YYYYMMDD``, that every row must carry.
    Homes are compared with the noisy counts that they were estimated from, where the release has them.

    Raises
    ------
    DataError
        At the first difference.
    """
    implicates, names = plan.implicates, file_names(plan.configuration)
    seen: dict[bytes, str] = {}
    certain = 64 + np.log2(max(implicates.number * (implicates.number - 1) / 2, 1))
    for number, below in enumerate(implicates.folders):
        rows = _Rows(plan)
        rounded = partial(measured.of, number // implicates.of_run) if measured else None
        own = {kind: below + name for kind, name in names.items()}
        found = _check(folder, own, plan, createdate, rows, rounded)
        other = seen.setdefault(rows.digest.digest(), below)
        if other != below and rows.bits > certain:
            raise DataError(f"{below} and {other} are copies of each other, not two implicates")
    return found if implicates.number == 1 else f"{implicates.number} implicates; the last: {found}"


class _Rows:
    """What is kept of the rows of an implicate: a digest, and how unlikely it is that another one has them.

    The latter in bits, from the public draw of blocks inside cells (Lemma 27 of docs/privacy.md). None where
    pools differ by several attributes, which the counts of a row do not tell apart, and of secret attributes.
    """

    def __init__(self, plan: ReleasePlan) -> None:
        self._plan = plan
        self.digest, self.bits = hashlib.sha256(), 0.0

    def add(
        self,
        od: pd.DataFrame,
        pool: NDArray[np.int64],
        own: slice,
        rounded: Rounded | None,
    ) -> None:
        """Add the rows of some pools; `pool` is that of each of their slots, `own` the plan's.

        `rounded` has the cells that blocks were drawn in, where these are not those of the pools.
        """
        self.digest.update(pd.util.hash_pandas_object(od, index=False).to_numpy().tobytes())
        plan, slots = self._plan, self._plan.pools.slots
        by = () if rounded else plan.pools.pooling.by
        if plan.implicates.number == 1 or len(by) > 1 or plan.policy.secret:
            return
        from scipy.special import gammaln  # takes its time

        columns = count_columns(slots.categories)[by[0]] if by else ("S000",)
        at, home = (plan.geography.number(od[column]) for column in ("w_geocode", "h_geocode"))
        work, part = slots.work[own], slots.home_part[own]
        for code, column in enumerate(columns):
            of = np.full((plan.policy.n_parts, plan.geography.n_blocks), -1, np.int64)
            like = slots.attributes[by[0]][own] == code if by else slice(None)
            of[part[like], work[like]] = pool[like]
            some = np.flatnonzero(od[column].to_numpy() > 0)
            count = od[column].to_numpy()[some]
            if rounded:
                domains, shares = rounded.domains, rounded.shares
                domain = rounded.domain(at[some], home[some])
            else:
                domains, shares = plan.numeric.domains, plan.shares
                domain = plan.numeric.pools.domain[of[plan.policy.part(home[some]), at[some]]]
            first, chance = synth.block_chance(domains, domain, home[some], plan.cumulative_weights, shares)
            self.bits -= float((count * np.log(chance) - gammaln(count + 1)).sum()) / np.log(2)
            groups = pd.Series(count).groupby([at[some], first]).sum().to_numpy()
            self.bits -= float(gammaln(groups + 1).sum()) / np.log(2)


def _check(
    folder: Path,
    names: dict[str, str],
    plan: ReleasePlan,
    createdate: str,
    kept: _Rows,
    rounded: Callable[[slice], Rounded] | None,
) -> str:
    """Compare the files of one implicate with the plan; `kept` is given its rows.

    `rounded` says of some pools what their homes were rounded from, where tables were measured.
    """
    slots, geography = plan.pools.slots, plan.geography
    kinds = [kind for kind in ("od", "aux") if f"{kind}_parquet" in names]
    columns = [name for of in count_columns(plan.categories).values() for name in of]
    _check_forms(folder, names, ["S000", *columns], [*plan.categories])
    files = [_OdRows(folder, names, kind, geography) for kind in kinds]
    jobs = _JobRows(folder, names["jobs_parquet"], plan) if "jobs_parquet" in names else None
    main = names["od_parquet"]
    end = np.concatenate([np.zeros(1, np.int64), np.cumsum(plan.pools.n)])
    pairs = blocks = 0
    counts: list[str] = []
    for pools in batches(plan) if rounded else batches(plan, _AT_A_TIME):  # as homes were estimated
        own = slice(end[pools.start], end[pools.stop])
        work = slots.work[own]
        attributes = {name: codes[own] for name, codes in slots.attributes.items()}
        # By destination and then origin, as each of the two is.
        od = pd.concat([rows.until(int(work.max())) for rows in files], ignore_index=True)
        place = [geography.number(od[column]) for column in ("h_geocode", "w_geocode")]
        order = np.lexsort(place)
        od, place = od.iloc[order].reset_index(drop=True), [blocks[order] for blocks in place]
        # By work block and, where homes have several parts, by part: that of its first block.
        ends, parts = ["w_geocode", "h_geocode"], plan.policy.parts
        first = parts[slots.home_part[own]]
        public = od_table(geography, work, first, attributes, slots.categories).set_index(ends)
        counts = [*public.columns]
        of_part = od.assign(h_geocode=geography.blocks[parts[plan.policy.part(place[0])]])
        found = of_part.groupby(ends, sort=False)[counts].sum()
        if not found.sort_index().equals(public.sort_index().astype(found.dtypes)):
            by = "work block" if parts.size == 1 else "work block and part of homes"
            raise DataError(f"{main}: totals by {by} are not those of the plan's slots")
        if not _possible(of_part, public, plan.categories):
            raise DataError(f"{main} has counts that no jobs can have")
        if (od["createdate"] != createdate).any():
            raise DataError(f"{main}: createdate is not the day that certificate.json states")
        pool = np.repeat(np.arange(pools.start, pools.stop), plan.pools.n[pools])
        at, origins = _origins(plan, od, place)
        if jobs is not None:
            counted, of_jobs = jobs.count(own)
            if not counted.equals(od[[*counted.columns]].astype(counted.dtypes)):
                raise DataError(f"{jobs.name} and the OD files hold different commutes")
            if plan.policy.secret:  # their combinations are in no count of a pair
                at, origins = work, of_jobs
        estimated = rounded and rounded(pools)
        if estimated is not None and not estimated.fits(at, origins):
            raise DataError(f"{main}: the homes cannot have been rounded from the noisy counts")
        kept.add(od, pool, own, estimated)
        pairs, blocks = pairs + len(od), blocks + np.unique(work).size
    for rows in files:
        rows.must_end()
    return (
        f"{pairs:,} pairs; the totals of {blocks:,} work blocks by {len(counts)} counts are the public ones"
    )


def _origins(
    plan: ReleasePlan, od: pd.DataFrame, place: list[NDArray[np.int32]]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the work block and the origin of every job of an OD table, of one secret attribute at most."""
    home, at = place
    codes: dict[str, NDArray[np.integer]] = {}
    counts = [od["S000"]]
    for name in plan.policy.secret:
        counts = [od[column] for column in count_columns(plan.categories)[name]]
        codes[name] = np.repeat(np.arange(len(counts)), [int(count.sum()) for count in counts])
    at, home = (np.concatenate([np.repeat(blocks, count) for count in counts]) for blocks in (at, home))
    if len(codes) > 1:
        codes = {name: np.zeros(home.size, np.int64) for name in codes}  # the file of jobs says which
    return at, plan.policy.origins(home, codes, plan.geography.n_blocks)


def _possible(od: pd.DataFrame, public: pd.DataFrame, categories: Mapping[str, tuple[str, ...]]) -> bool:
    """Say whether jobs could give these rows: each attribute adds up, no row has more than its block."""
    counts = od.drop(columns=["w_geocode", "h_geocode", "createdate"])
    jobs, at = od["S000"], 1
    most = public["S000"].reindex(pd.MultiIndex.from_frame(od[["w_geocode", "h_geocode"]])).to_numpy()
    fine = bool(((counts >= 0).all(axis=None)) and (jobs >= 1).all() and (jobs.to_numpy() <= most).all())
    for values in categories.values():
        fine = fine and bool((counts.iloc[:, at : at + len(values)].sum(axis=1) == jobs).all())
        at += len(values)
    return fine


class _OdRows:
    """The rows of an OD file in Parquet or of a folder of them, in order and with homes where they belong."""

    def __init__(self, folder: Path, names: dict[str, str], kind: str, geography: Geography) -> None:
        self._name = names[f"{kind}_parquet"]
        self._aux, self._geography = kind == "aux", geography
        self._rows = _frames(folder / self._name)
        self._table, self._work = pd.DataFrame(), np.zeros(0, np.int64)
        self._last = -1
        self._ended = False

    def until(self, block: int) -> pd.DataFrame:
        """Return the next rows, with work blocks up to this one."""
        tables = []
        while True:
            n = int(np.searchsorted(self._work, block, side="right"))
            tables.append(self._table[:n])
            self._table, self._work = self._table[n:], self._work[n:]
            if self._work.size or self._ended:
                return pd.concat(tables, ignore_index=True)
            self._next()

    def must_end(self) -> None:
        """Raise if there are rows left."""
        while not self._ended and not self._work.size:
            self._next()
        if self._work.size:
            raise DataError(f"{self._name}: totals by work block are not those of the plan's slots")

    def _next(self) -> None:
        table = next(self._rows, None)
        if table is None:
            self._ended = True
            return
        geography, name = self._geography, self._name
        work, home = (geography.number(table[column]) for column in ("w_geocode", "h_geocode"))
        if len(table) and (work.min() < 0 or home.min() < 0):
            raise DataError(f"{name} has blocks that are not in the geography")
        if np.any(geography.is_external(home) != self._aux) or geography.is_external(work).any():
            raise DataError(f"{name} has homes that belong in the other of the main and the aux file")
        key = work.astype(np.int64) * geography.n_blocks + home
        if np.any(np.diff(key, prepend=self._last) <= 0):
            raise DataError(f"{name}: rows are not in order, or a pair comes twice")
        self._last = int(key[-1]) if key.size else self._last
        self._table, self._work = table, work.astype(np.int64)


def _check_forms(folder: Path, names: dict[str, str], counts: list[str], attributes: list[str]) -> None:
    """Refuse files with other columns than a release of these names has, or folders in place of files."""
    text = dict.fromkeys(("w_geocode", "h_geocode"), is_text)
    od: dict[str, Kind] = {**text, **dict.fromkeys(counts, is_count), "createdate": is_text}
    jobs: dict[str, Kind] = {**text, **dict.fromkeys(attributes, is_text)}
    for kind, name in names.items():
        if kind.endswith("_csv"):
            continue
        if (folder / name).is_dir() == ("od_csv" in names):
            raise DataError(f"{name}: a file where a folder of parts is due, or the other way round")
        for part in _files(folder / name):
            try:
                check_form(part, jobs if kind == "jobs_parquet" else od)
            except FormError as fault:
                raise DataError(f"{name.removesuffix(part.name)}{fault}") from None


def _files(path: Path) -> list[Path]:
    """Return a Parquet file, or those of a folder of them."""
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _frames(path: Path) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file, or of a folder of them."""
    for part in _files(path):
        for batch in pq.ParquetFile(part).iter_batches(batch_size=_ROWS):
            yield batch.to_pandas(ignore_metadata=True)


class _JobRows:
    """The jobs of a release, one row each, which must be the plan's slots in their order."""

    def __init__(self, folder: Path, name: str, plan: ReleasePlan) -> None:
        self.name, path = name, folder / name
        self._slots, self._geography, self._policy = plan.pools.slots, plan.geography, plan.policy
        self._categories = plan.categories
        if sum(pq.read_metadata(part).num_rows for part in _files(path)) != len(self._slots):
            raise DataError(f"{name}: rows are not those of the plan's slots")
        self._frames = _frames(path)
        self._left: list[pd.DataFrame] = []

    def count(self, own: slice) -> tuple[pd.DataFrame, NDArray[np.int32]]:
        """Compare the next jobs with slots of the plan; return them as an OD table, and their origins."""
        slots = self._slots
        work, attributes = slots.work[own], {name: codes[own] for name, codes in slots.attributes.items()}
        while sum(map(len, self._left)) < work.size:
            self._left.append(next(self._frames))
        whole = pd.concat(self._left, ignore_index=True)
        jobs, self._left = whole[: work.size], [whole[work.size :]]
        geography, categories = self._geography, self._categories
        same = np.array_equal(geography.number(jobs["w_geocode"]), work)
        for name, codes in attributes.items():
            values = np.array(categories[name], object)[codes]
            same = same and bool((jobs[name].to_numpy(dtype=object) == values).all())
        if not same:
            raise DataError(f"{self.name}: the jobs are not the plan's slots")
        home = geography.number(jobs["h_geocode"])
        if home.min() < 0:
            raise DataError(f"{self.name} has blocks that are not in the geography")
        if not np.array_equal(self._policy.part(home), slots.home_part[own]):
            raise DataError(f"{self.name}: homes are in other parts than those of the plan's slots")
        secret = {
            name: pd.Index(values, dtype="str").get_indexer(pd.Index(jobs[name]))
            for name, values in self._policy.secret.items()
        }
        if any((codes < 0).any() for codes in secret.values()):
            raise DataError(f"{self.name} has categories that the policy does not list")
        origins = self._policy.origins(home, secret, geography.n_blocks)
        return od_table(geography, work, home, {**attributes, **secret}, categories), origins
