"""Writing posterior draws of a release, and the intervals of the tables that it is for."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geo_data.arguments import PathLike, path_of
from geo_data.geography import Geography
from pipelines.plans.measured import table_in_words
from pipelines.plans.workload import Table
from pipelines.release.certificate import secret_in_words
from pipelines.release.pages import phrases
from pipelines.storage.durable import whole_folder
from pipelines.storage.progress import Progress
from pipelines.views.choices import DRAWS, FEWEST
from pipelines.views.folder import PublicReleaseError, check_target
from pipelines.views.intervals.evidence import JobDraws, PlaceDraws
from pipelines.views.intervals.reading import (
    DRAWS_FILE,
    DRAWS_FORMAT,
    PosteriorDraws,
    public_key,
)
from pipelines.views.intervals.workplaces import WorkplaceIntervals
from pipelines.views.pages import render
from pipelines.views.release import Release

_log = logging.getLogger(__name__)
README = "README.txt"
_JOBS, _OF_BLOCKS = 20_000, 2_000  # of a row group, at most, but for a row: of homes by unit, and by block


def write_intervals(
    release: Release,
    to: PathLike | None = None,
    *,
    draws: int = DRAWS,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Write posterior draws of a release, and the intervals of its tables (`Release.write_intervals`)."""
    to = release.out / "intervals" if to is None else path_of(to, "to")
    if draws < FEWEST:
        fix = f"write at least {FEWEST}, which an interval of 90 % needs"
        raise PublicReleaseError(f"{draws} draws are too few. Fix: {fix}")
    check_target(to, release.public, new=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    done = progress or (lambda _, __: None)
    if release.plan.workplaces:
        return _write_workplaces(release, to, done)
    _log.info("Drawing how far homes may be from the public model ...")
    jobs = JobDraws(release, draws, public_key(release), done)
    with whole_folder(to, mode=None) as new_folder:
        _log.info("Drawing homes, workplace by workplace ...")
        write_job_draws(release, jobs, jobs.places(), new_folder / DRAWS_FILE, done)
        _log.info("Writing intervals, table by table ...")
        opened = PosteriorDraws(release, new_folder / DRAWS_FILE)
        tables = {}
        for i, table in enumerate(jobs.tables):
            name = tables[table.name] = file_name(table)
            flows = opened.flows(str(table.home), table.work, table.attributes)
            flows.to_csv(new_folder / name, index=False, lineterminator="\n", compression=_GZIP)
            done(i + 1, len(jobs.tables))
        (new_folder / README).write_text(_readme(release, jobs, draws, tables), encoding="utf-8")
    names = {"draws": DRAWS_FILE} | tables | {"read-me": README}
    return {kind: to / name for kind, name in names.items()}


def write_draws(release: Release, path: Path, progress: Progress | None = None) -> PosteriorDraws:
    """Write posterior draws of a release into a file, and nothing else; return them, opened."""
    done = progress or (lambda _, __: None)
    jobs = JobDraws(release, DRAWS, public_key(release), done)
    write_job_draws(release, jobs, jobs.places(), path, done)
    return PosteriorDraws(release, path)


def _write_workplaces(release: Release, to: Path, done: Progress) -> dict[str, Path]:
    """Write intervals of jobs by workplace, of a release that estimates them."""
    intervals, language = WorkplaceIntervals(release), release.language
    names, written = {}, []
    with whole_folder(to, mode=None) as new_folder:
        for i, (level, by) in enumerate(intervals.tables):
            if (jobs := intervals.jobs(level, by)) is not None:
                name = f"{'_'.join(['jobs', *filter(None, [level]), *(f'by_{each}' for each in by)])}.csv.gz"
                names[table_in_words(None, level, by)] = name
                written.append((level, by, name))
                jobs.to_csv(new_folder / name, index=False, lineterminator="\n", compression=_GZIP)
            done(i + 1, len(intervals.tables))
        text = render(
            "intervals_of_workplaces.txt",
            language,
            certificate=release.certificate,
            reasons=phrases(language).reasons(release.certificate),
            secret=secret_in_words(release.certificate.policy, language),
            tables=written,
        )
        (new_folder / README).write_text(f"{text}\n", encoding="utf-8")
    return {kind: to / name for kind, name in {**names, "read-me": README}.items()}


_GZIP = {"method": "gzip", "compresslevel": 6, "mtime": 0}


def file_name(table: Table) -> str:
    """Return the name of the CSV file of a table of the workload."""
    areas = f"residents_{table.home}" if table.work is None else f"flows_{table.home}_to_{table.work}"
    return f"{areas}{''.join(f'_by_{name}' for name in table.attributes)}.csv.gz"


def write_job_draws(
    release: Release,
    jobs: JobDraws,
    places: Iterator[PlaceDraws],
    path: Path,
    done: Progress,
    content: str | None = None,
) -> None:
    """Write the draws of all jobs into a file, place by place."""
    geography = jobs.plan.geography
    units = geography.n_units(jobs.home_level)
    home = pa.uint16() if units <= 2**16 else pa.int32()
    schema = pa.schema(
        [
            ("work", pa.string()),
            *((name, pa.string()) for name in jobs.attributes),
            ("jobs", pa.int64()),
            ("homes", pa.list_(pa.field("home", home, nullable=False))),
        ],
        metadata={
            "odsynth": json.dumps(_about(release, jobs, content or release.content_sha256), sort_keys=True)
        },
    )
    text = ["work", *jobs.attributes]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=text) as writer:
        most = _OF_BLOCKS if jobs.home_level == geography.block_level else _JOBS
        for part in _gathered(jobs, places, most):
            rows = slice(part[0].rows.start, part[-1].rows.stop)
            columns = [_text(geography, jobs, rows, name) for name in text]
            columns.append(pa.array(jobs.jobs[rows]))
            columns.append(_lists(jobs, part, units, home))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            done(rows.stop, jobs.jobs.size)


def _about(release: Release, jobs: JobDraws, content: str) -> dict[str, object]:
    return {
        "format": DRAWS_FORMAT,
        "release": content,
        "plan_sha256": release.certificate.plan_sha256,
        "draws": jobs.draws,
        "home_level": jobs.home_level,
        "homes": [str(code) for code in jobs.plan.geography.codes(jobs.home_level)],
        "attributes": [*jobs.attributes],
    }


def _gathered(jobs: JobDraws, places: Iterator[PlaceDraws], most: int) -> Iterator[list[PlaceDraws]]:
    """Yield consecutive draws of about so many jobs: parts of large places, and small places together."""
    pending: list[PlaceDraws] = []
    for part in itertools.chain.from_iterable(_cut(place, jobs.jobs, most) for place in places):
        if pending and sum(draws.homes.shape[1] for draws in (*pending, part)) > most:
            yield pending
            pending = []
        pending.append(part)
    if pending:
        yield pending


def _cut(place: PlaceDraws, jobs: NDArray[np.int64], most: int) -> Iterator[PlaceDraws]:
    """Cut the rows of a place into runs of at most so many jobs, or of one row."""
    ends = np.append(0, np.cumsum(jobs[place.rows]))
    begin = 0
    while begin < ends.size - 1:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + most, side="right")) - 1)
        rows = slice(place.rows.start + begin, place.rows.start + end)
        yield PlaceDraws(rows, place.homes[:, ends[begin] : ends[end]])
        begin = end


def _text(geography: Geography, jobs: JobDraws, rows: slice, name: str) -> pa.Array:
    if name == "work":
        return geography.block_codes.take(pa.array(jobs.work[rows]))
    categories = pa.array(jobs.plan.pools.slots.categories[name], pa.string())
    return categories.take(pa.array(jobs.attributes[name][rows]))


def _lists(jobs: JobDraws, part: list[PlaceDraws], units: int, kind: pa.DataType) -> pa.ListArray:
    """Return the homes of each row, draw after draw, rising inside a draw: jobs of a row are alike."""
    values, offsets = [], [0]
    for place in part:
        n = jobs.jobs[place.rows]
        key = np.repeat(np.arange(n.size, dtype=np.int64) * units, n) + place.homes
        homes = np.sort(key, axis=1) % units
        ends = np.cumsum(n)
        for begin, end in zip((ends - n).tolist(), ends.tolist(), strict=True):
            values.append(homes[:, begin:end].ravel())
            offsets.append(offsets[-1] + values[-1].size)
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(np.concatenate(values), kind),
        type=pa.list_(pa.field("home", kind, nullable=False)),
    )


def _readme(release: Release, jobs: JobDraws, draws: int, tables: dict[str, str]) -> str:
    language = release.language
    text = render(
        "intervals.txt",
        language,
        certificate=release.certificate,
        reasons=phrases(language).reasons(release.certificate),
        plan=jobs.plan,
        tables=[(table, tables[table.name]) for table in jobs.tables],
        file=DRAWS_FILE,
        draws=draws,
        home_level=jobs.home_level,
    )
    return f"{text}\n"
