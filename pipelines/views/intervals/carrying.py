"""The draws that a release carries: made from what it publishes, recalibrated, and written while it is made.

Posterior draws of the home of every job go through a file of their own, job group by job group. They are
added up to flows between units, which are recalibrated, and to the tables of the release, whose cells are
weighed by what recalibration made of the flow that they are a part of and, where jobs by workplace are
estimates, by how far these may be off (`JobErrors`). Weighed counts are rounded so that sums along the cells
of a work area are off by less than one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.crosswalk import group_places
from geo_data.geography import Geography
from pipelines.plans.workload import Table
from pipelines.release.description import file_names
from pipelines.release.intervals import INTERVALS_FILE, N_DRAWS, TableDraws, interval_tables, write_draws
from pipelines.release.measurements import measurement_files
from pipelines.storage.checksums import sha256_of
from pipelines.storage.progress import Progress
from pipelines.views.intervals.evidence import JobDraws, PlaceDraws
from pipelines.views.intervals.job_errors import JobErrors
from pipelines.views.intervals.job_file import JobFile
from pipelines.views.release import Release
from synth.arrays import find_keys, scale_to_sums, sums_by
from synth.posterior.recalibration import Blocks, DrawnFlows, recalibrated
from synth.randomness import WordStream

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_NEAR = 3  # units of a small block, and small blocks of a larger one: sums of neighbours are what people ask


def carry_draws(release: Release, scratch: Path, progress: Progress | None = None) -> None:
    """Write the draws that a release carries into its public folder.

    Parameters
    ----------
    release : Release
        Whose data and certificate are written.
    scratch : Path
        A folder for the draws of single jobs.
    progress : callable, optional
    """
    plan, done = release.plan, progress or (lambda _, __: None)
    key = synth.RunKey(_digest(release), secure=False)
    jobs = JobDraws(release, N_DRAWS, key, done)
    flows = _Flows(jobs)
    file = JobFile(jobs, scratch / "draws.parquet")
    file.write(flows.noted(jobs.places()), done)
    errors = JobErrors(release, jobs, key) if plan.workplaces else None
    drawn = flows.drawn()
    if errors is not None:
        factor = errors.factors(jobs.work_level, ()).of(drawn.work, ()).astype(np.float32)
        drawn = replace(drawn, counts=drawn.counts * factor)
    weights = _Weights(jobs, drawn)
    stream = key.stream("rounding of draws", 0)
    tables = (_table(file, weights, errors, table, stream) for table in interval_tables(plan))
    write_draws(plan, tables, release.public)
    file.path.unlink()


def without_history(release: Release, folder: Path, progress: Progress | None = None) -> Release:
    """Return a copy of a release, with draws that use noisy counts of no earlier release of its series.

    `folder` is new, and has links to the files of the release while the copy is used.
    """
    public = folder / release.public.name
    public.mkdir(parents=True)
    for path in release.public.resolve().iterdir():
        if path.name != INTERVALS_FILE:
            (public / path.name).symlink_to(path)
    copy = Release.just_made(public, replace(release.plan, history=None))
    carry_draws(copy, folder, progress)
    return copy


def _digest(release: Release) -> bytes:
    """Return a digest of what draws are made from.

    Nothing of them has to be secret: with a key of public files everybody can make them again.
    """
    plan, names = release.plan, file_names(release.plan.config)
    if plan.measures:
        evidence, *_ = measurement_files(plan)
    else:
        first = plan.implicates.folders[0]
        evidence = [first + names[kind] for kind in ("od_parquet", "aux_parquet") if kind in names]
    digest = hashlib.sha256()
    for path in (release.public / name for name in evidence):
        for part in sorted(path.iterdir()) if path.is_dir() else [path]:
            digest.update(sha256_of(part).encode())
    return digest.digest()


class _Flows:
    """Draws of flows between units, added up while the draws of jobs go by."""

    def __init__(self, jobs: JobDraws) -> None:
        plan, geography = jobs.plan, jobs.plan.geography
        self._n_homes = geography.n_units(plan.level)
        self._home = geography.unit_of(plan.level, geography.starts(jobs.home_level)).astype(np.int64)
        self._work = geography.unit_of(jobs.work_level, jobs.work).astype(np.int64)
        self._jobs = jobs.jobs
        self._pairs: list[Int64] = []
        self._counts: list[Float32] = []

    def noted(self, places: Iterator[PlaceDraws]) -> Iterator[PlaceDraws]:
        """Yield the draws of places, and note their flows."""
        for place in places:
            work, row = np.unique(self._work[place.rows], return_inverse=True)
            of_job = np.repeat(row, self._jobs[place.rows]) * self._n_homes
            size = work.size * self._n_homes
            counts = np.stack(
                [np.bincount(of_job + self._home[homes], minlength=size) for homes in place.homes]
            )
            some = np.flatnonzero(counts.any(axis=0))
            self._pairs.append(work[some // self._n_homes] * self._n_homes + some % self._n_homes)
            self._counts.append(counts[:, some].astype(np.float32))
            yield place

    def drawn(self) -> DrawnFlows:
        """Return the flows of all places."""
        pair, position = np.unique(np.concatenate(self._pairs), return_inverse=True)
        counts = np.concatenate(self._counts, axis=1)
        added = sums_by(position, counts).astype(np.float32)
        work, home = np.divmod(pair, self._n_homes)
        return DrawnFlows(home, work, added)


class _Weights:
    """By what recalibration multiplied each flow between units, in each draw."""

    def __init__(self, jobs: JobDraws, flows: DrawnFlows) -> None:
        plan, geography = jobs.plan, jobs.plan.geography
        scales = _scales(geography, plan.level, jobs.work_level)
        counts = recalibrated(flows, jobs.measured, scales)
        # Where secret attributes alone are estimated, jobs by all others are public.
        self.exact = jobs.measured.exact or bool(plan.policy.secret)
        self.work_level = jobs.work_level
        self._n_homes = geography.n_units(plan.level)
        self._pairs = flows.work * self._n_homes + flows.home
        self._factor = np.divide(counts, flows.counts, out=np.ones_like(counts), where=flows.counts > 0)

    def of(self, home: Int64, work: Int64) -> Float32:
        """Return the weights of cells in units of homes and of work, shape (n_draws, n_cells)."""
        position, present = find_keys(self._pairs, work * self._n_homes + home)
        assert present.all()
        return self._factor[:, position]


def _scales(geography: Geography, home_level: str, work_level: str) -> list[Blocks]:
    """Return blocks of few neighbouring units, of more, of both over all workplaces, and of larger areas."""
    of_home, of_work = (_areas_of(geography, level) for level in (home_level, work_level))
    everywhere = np.zeros(geography.n_units(work_level), np.int64)
    (small, middle, large), (small_work, middle_work, large_work) = of_home, of_work
    return [
        Blocks(small, small_work),
        Blocks(middle, middle_work),
        Blocks(small, everywhere),
        Blocks(middle, everywhere),
        Blocks(large, large_work),
    ]


def _areas_of(geography: Geography, level: str) -> tuple[Int64, Int64, Int64]:
    """Return areas of the units of a level: of a few neighbours, of several of these, of the level above.

    External zones are areas of their own.
    """
    starts, position = geography.starts(level), geography.levels.index(level)
    inside = ~geography.is_external(starts)
    above = np.zeros(starts.size, np.int64)
    if position > 0:
        above = geography.unit_of(geography.levels[position - 1], starts).astype(np.int64)
    blocks = geography.units_of_blocks(level)
    some = np.isfinite(geography.latitude) & np.isfinite(geography.longitude)
    times = np.maximum(np.bincount(blocks[some], minlength=starts.size), 1)
    latitude, longitude = (
        np.bincount(blocks[some], degrees[some], starts.size) / times
        for degrees in (geography.latitude, geography.unbroken(geography.longitude))
    )
    areas = []
    for size in (_NEAR, _NEAR**2):
        area = starts.size + np.arange(starts.size)
        first = 0
        for parent in np.unique(above[inside]).tolist():
            units = np.flatnonzero(inside & (above == parent))
            parts = max(1, round(units.size / size))
            none = np.zeros(units.size, np.int64)
            area[units] = first + group_places(latitude[units], longitude[units], none, parts)
            first += parts
        areas.append(np.unique(area, return_inverse=True)[1].astype(np.int64))
    return areas[0], areas[1], np.unique(above, return_inverse=True)[1].astype(np.int64)


def _table(
    file: JobFile, weights: _Weights, errors: JobErrors | None, table: Table, stream: WordStream
) -> TableDraws:
    """Return the recalibrated draws of a table."""
    plan, geography = file.jobs.plan, file.jobs.plan.geography
    levels = [*geography.levels, geography.block_level]
    home = _finer(levels, str(table.home), plan.level, file.jobs.home_level)
    work = _finer(levels, table.work, weights.work_level, geography.block_level)
    home_unit, home_area = (
        geography.unit_of(level, geography.starts(home)).astype(np.int64)
        for level in (plan.level, str(table.home))
    )
    work_unit = geography.unit_of(weights.work_level, geography.starts(work)).astype(np.int64)
    work_area = np.zeros(work_unit.size, np.int64)
    if table.work is not None:
        work_area = geography.unit_of(table.work, geography.starts(work)).astype(np.int64)
    widths = [len(plan.pools.slots.categories[name]) for name in table.attributes]
    shape = (int(work_area.max()) + 1, *widths, int(home_area.max()) + 1)
    factors = None if errors is None else errors.factors(work, table.attributes)
    secret = [name in plan.policy.secret for name in table.attributes]
    public = [*secret, True].index(True)
    keys, counts = [], []
    for cells in file.cells(home, work, table.attributes):
        weighed = np.asarray(
            cells.counts * weights.of(home_unit[cells.home], work_unit[cells.work]), np.float64
        )
        if factors is not None:
            weighed *= factors.of(cells.work, cells.categories)
        group = _groups(cells.work, *cells.categories[:public])
        whole = _rounded(weighed, cells.counts, group, stream, exact=weights.exact)
        key = np.ravel_multi_index((work_area[cells.work], *cells.categories, home_area[cells.home]), shape)
        distinct, of_cell = np.unique(key, return_inverse=True)
        keys.append(distinct)
        counts.append(sums_by(of_cell, whole).astype(np.int32))
    key, of_part = np.unique(np.concatenate(keys), return_inverse=True)
    joined = np.concatenate(counts, axis=1)
    total = sums_by(of_part, joined).astype(np.int32)
    some = total.any(axis=0)
    of_work, *codes, of_home = np.unravel_index(key[some], shape)
    return TableDraws(table, of_home, None if table.work is None else of_work, tuple(codes), total[:, some])


def _finer(levels: list[str], level: str | None, unit: str, finest: str) -> str:
    """Return a level of which units of `unit` and areas of `level` are made."""
    if level is None:
        return unit
    return max(level, unit, key=levels.index) if level in levels else finest


def _groups(*codes: Int64) -> Int64:
    """Return the number of the run of equal codes that each cell is in."""
    changed = np.any([np.diff(code) != 0 for code in codes], axis=0)
    return np.append(0, np.cumsum(changed))[: codes[0].size]


def _rounded(weighed: Float64, counts: Int64, group: Int64, stream: WordStream, *, exact: bool) -> Int64:
    """Round the cells of work areas and categories in every draw, along their homes.

    If `exact`, the cells of a group keep their number of jobs; they are not weighed if all weights are 0.
    """
    if exact:
        scale_to_sums(weighed, group, counts)
    up_to = np.cumsum(weighed, axis=1)
    if exact:  # whole where groups begin and end, whatever floats add up to
        last = np.flatnonzero(np.append(np.diff(group) != 0, True))
        bounds = np.pad(np.cumsum(counts, axis=1)[:, last], ((0, 0), (1, 0)))
        up_to = np.clip(up_to, bounds[:, group], bounds[:, group + 1])
        up_to[:, last] = bounds[:, 1:]
    begin = stream.words(weighed.shape[0])[:, np.newaxis] / 2.0**64
    whole = np.floor(up_to + begin).astype(np.int64)
    return np.asarray(np.diff(whole, axis=1, prepend=0), np.int64)
