"""Areas and flows of several years in one table each: a tidy export of the releases of a series."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from geo_data.arguments import PathLike, path_of
from pipelines.config.languages import ENGLISH
from pipelines.release import pages as of_release
from pipelines.release.intervals import INTERVALS_FILE, interval_frames
from pipelines.storage.durable import whole_folder
from pipelines.views.changes.comparable import check_years
from pipelines.views.exports.source import ExportError
from pipelines.views.folder import blame_release, check_target
from pipelines.views.pages import render
from pipelines.views.release import Release, open_release

README = "README.txt"
_NUMBERS = ("year", "low", "high")


def export_years(sources: Iterable[PathLike | Release], to: PathLike) -> dict[str, Path]:
    """Write areas and flows of several years in one table each, with estimates and intervals.

    Nothing but the public folders is read, so it costs no privacy.

    Parameters
    ----------
    sources : iterable of str, path or Release
        Releases of a series, each of another year, in any order: as of `open_release`.
    to : str or path
        A new folder for the files.

    Returns
    -------
    dict of str to Path
        ``areas.csv``, ``areas.parquet``, ``flows.csv``, ``flows.parquet`` and a read-me, by name. A row is of
        a ``year`` and its ``version``; the other columns are those of areas.csv and flows.csv of a release.

    Raises
    ------
    ExportError
        If there are fewer than two releases.
    PublicReleaseError
        If the releases are of one year, or of other jobs, blocks or areas; one has no draws, or is damaged;
        or the folder is there already, or in a public one.

    Examples
    --------
    Residents of tracts over the years::

        files = pipelines.export_years(["out/2018/public", "out/2019/public"], "out/years")
        areas = pandas.read_parquet(files["areas.parquet"])
        residents = areas[(areas["level"] == "trct") & (areas["count"] == "residents")]
        residents.pivot(index="code", columns="year", values="estimate")
    """
    to = path_of(to, "to")
    opened = [each if isinstance(each, Release) else open_release(each) for each in sources]
    releases = sorted(opened, key=lambda release: release.year)
    _check(releases, to)
    to.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(to, mode=None) as folder:
        for i, release in enumerate(releases):
            with blame_release(release.public / INTERVALS_FILE):
                frames = interval_frames(release.plan, release.public)
            for name, frame in frames.items():
                frame.insert(0, "year", release.year)
                frame.insert(1, "version", release.version)
                mode: Literal["w", "a"] = "a" if i else "w"
                frame.to_csv(folder / name, mode=mode, header=not i, index=False, lineterminator="\n")
        for name in frames:
            _write_parquet(folder / name)
        (folder / README).write_text(f"{_readme(releases)}\n", encoding="utf-8")
    return {path.name: path for path in sorted(to.iterdir())}


def _check(releases: list[Release], to: Path) -> None:
    """Refuse releases that make no series."""
    for release in releases:
        check_target(to, release.public, new=True)
        release.draws()
    if len(releases) < 2:
        raise ExportError(
            f"{len(releases)} release makes no series. Fix: name two or more, of different years"
        )
    check_years(releases)


def _write_parquet(path: Path) -> None:
    """Write the rows of a CSV file as Parquet beside it, a part at a time."""
    types = dict.fromkeys(_NUMBERS, pa.int64()) | {"estimate": pa.float64()}
    names = pa.csv.open_csv(path).schema.names
    convert = pa.csv.ConvertOptions(
        column_types={name: types.get(name, pa.string()) for name in names}, strings_can_be_null=False
    )
    with (
        pa.csv.open_csv(path, convert_options=convert) as rows,
        pq.ParquetWriter(path.with_suffix(".parquet"), rows.schema, compression="zstd") as file,
    ):
        for batch in rows:
            file.write_batch(batch)


def _readme(releases: list[Release]) -> str:
    languages = {release.language for release in releases}
    language = languages.pop() if len(languages) == 1 else ENGLISH
    return render("years.txt", language, releases=releases, columns=of_release.phrases(language))
