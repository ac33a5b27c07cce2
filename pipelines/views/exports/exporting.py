"""Exports of a release for the programs of its readers: which formats there are, and writing them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from geo_data.arguments import PathLike, path_of, texts_of
from pipelines.release.pages import phrases
from pipelines.storage.durable import private_folder, whole_folder
from pipelines.storage.errors import refuse_no_folder, what_is_at
from pipelines.views import choices
from pipelines.views.exports.activitysim import write_activitysim
from pipelines.views.exports.kepler import write_kepler
from pipelines.views.exports.lodes import write_lodes
from pipelines.views.exports.matrices import write_omx
from pipelines.views.exports.matsim import write_matsim
from pipelines.views.exports.source import ExportError, Source
from pipelines.views.exports.spatial import (
    write_flatgeobuf,
    write_geojson,
    write_geopackage,
    write_geoparquet,
    write_pmtiles,
    write_trips,
)
from pipelines.views.exports.tables import write_csv, write_flowmap
from pipelines.views.exports.workers import Workers
from pipelines.views.folder import check_target
from pipelines.views.pages import render
from pipelines.views.release import Release

README = "README.txt"


@dataclass(frozen=True)
class Format:
    """A format in which a release can be exported."""

    meaning: str  # what it is for, in a line
    tool: str  # what opens it
    # Given a `Source` and an empty folder, writes the files into it and returns remarks for their read-me;
    # all functions ``write_...`` are of this kind
    write: Callable[[Source, Path], list[str]]
    blocks: bool = False  # whether it has blocks, and no other level
    intervals: bool = True  # whether it has a place for them
    degrees: bool = True  # whether coordinates, if any, are degrees
    points: bool = False  # whether it has a point of home and of work for each worker
    one_level: bool = False  # whether homes and workplaces have one zone system
    spreadsheet: bool = False  # whether spreadsheets read it, so that decimals can have commas
    count: str | None = None  # what it calls the one count that it has


_WORDS = choices.FORMATS
FORMATS = {
    "lodes": Format(*_WORDS["lodes"], write_lodes, blocks=True, intervals=False),
    "csv": Format(*_WORDS["csv"], write_csv, spreadsheet=True),
    "geoparquet": Format(*_WORDS["geoparquet"], write_geoparquet),
    "geopackage": Format(*_WORDS["geopackage"], write_geopackage),
    "flatgeobuf": Format(*_WORDS["flatgeobuf"], write_flatgeobuf),
    "geojson": Format(*_WORDS["geojson"], write_geojson),
    "pmtiles": Format(*_WORDS["pmtiles"], write_pmtiles, intervals=False, degrees=False),
    "omx": Format(*_WORDS["omx"], write_omx, intervals=False),
    "activitysim": Format(*_WORDS["activitysim"], write_activitysim, intervals=False, one_level=True),
    "matsim": Format(
        *_WORDS["matsim"], write_matsim, blocks=True, intervals=False, degrees=False, points=True
    ),
    "trips": Format(*_WORDS["trips"], write_trips, blocks=True, intervals=False, points=True),
    "flowmap": Format(*_WORDS["flowmap"], write_flowmap, intervals=False, count="count"),
    "kepler": Format(*_WORDS["kepler"], write_kepler),
}
"""The formats by name; a new one is an entry here and in `pipelines.views.choices`, which has its words."""


def export(
    release: Release,
    formats: str | Sequence[str],
    to: PathLike | None = None,
    *,
    home_level: str | None = None,
    work_level: str | None = None,
    seed: int | None = None,
    sample: float = 1.0,
    decimal_comma: bool = False,
) -> dict[str, list[Path]]:
    """Write a release in formats of other programs (`Release.export`), all or none of them."""
    names = texts_of(formats, "formats")
    to = release.out / "exports" if to is None else path_of(to, "to")
    names = tuple(dict.fromkeys(names))
    _check_names(release, names, to)
    if (home_level or work_level) and all(FORMATS[name].blocks for name in names):
        raise ExportError(
            f"{names[0]}: the format has blocks, and no other level. Fix: leave the levels out, or choose csv"
        )
    for_other_programs = [name for name in names if not FORMATS[name].spreadsheet]
    if decimal_comma and for_other_programs:
        having = ", ".join(name for name, form in FORMATS.items() if form.spreadsheet)
        raise ExportError(
            f"{for_other_programs[0]}: decimal commas are for spreadsheets, and the format is for other "
            f"programs. Fix: leave them out, or choose {having} alone"
        )
    if seed is not None or sample != 1:
        _check_points(names, seed, sample)
    home_level = home_level or work_level or release.usual_level()
    work_level = work_level or home_level
    _check_levels(release, (home_level, work_level))
    one_zone_system = [name for name in names if FORMATS[name].one_level]
    if one_zone_system and home_level != work_level:
        raise ExportError(
            f"{one_zone_system[0]}: homes and workplaces have one zone system there. Fix: give one level for "
            "both"
        )
    to.mkdir(parents=True, exist_ok=True)
    with private_folder(to) as scratch, ExitStack() as parts:
        block = release.geography.block_level
        zones = Source(
            release,
            home_level,
            work_level,
            scratch,
            intervals=any(FORMATS[name].intervals for name in names),
            seed=seed,
            sample=float(sample),
            decimal_comma=decimal_comma,
        )
        blocks = replace(zones, home_level=block, work_level=block, intervals=False)
        for name in names:
            source = blocks if FORMATS[name].blocks else zones
            part = parts.enter_context(whole_folder(to / name, mode=None))
            remarks = FORMATS[name].write(source, part)
            (part / README).write_text(_readme(source, name, part, remarks), encoding="utf-8")
    return {name: sorted((to / name).iterdir()) for name in names}


def _check_names(release: Release, names: Sequence[str], to: Path) -> None:
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        wrong = f"there is no format {unknown[0]!r}" if unknown else "no format is named"
        raise ExportError(f"{wrong}; there are: {', '.join(FORMATS)}")
    check_target(to, release.public)
    refuse_no_folder(to, ExportError)
    present = [to / name for name in names if os.path.lexists(to / name)]
    if present:
        raise ExportError(
            f"{present[0]}: {what_is_at(present[0])} is there already. Fix: move it away, or export to "
            "another folder"
        )


def _check_points(names: Sequence[str], seed: int | None, sample: float) -> None:
    with_points = [name for name, form in FORMATS.items() if form.points]
    without = [name for name in names if name not in with_points]
    if without:
        raise ExportError(
            f"{without[0]}: the format has no points of single workers, so that it takes no seed and no "
            f"sample. Fix: leave them out, or choose of those that have them: {', '.join(with_points)}"
        )
    if seed is not None and not 0 <= seed < 2**64:
        raise ExportError(f"seed {seed}: it must be a whole number from 0 to {2**64 - 1}")
    if not 0 < sample <= 1:
        raise ExportError(f"sample {sample}: it must be a share above 0 and at most 1, such as 0.1")


def _check_levels(release: Release, levels: Sequence[str]) -> None:
    if missing := [level for level in levels if level not in release.levels]:
        cut = ", whose areas cut across the levels" if missing[0] in release.kinds_of_areas else ""
        raise ExportError(f"there is no level {missing[0]!r}{cut}; there are: {', '.join(release.levels)}")


def _readme(source: Source, name: str, folder: Path, remarks: list[str]) -> str:
    form, certificate = FORMATS[name], source.release.certificate
    counts = source.release.counts_in(source.language)
    return render(
        "export.txt",
        source.language,
        source=source,
        form=form,
        attributes=Workers(source).meanings if form.points else {},
        meaning=source.say.formats.get(name, form.meaning),  # a format of another program's has no other
        blocks=form.blocks,
        degrees=form.degrees,
        certificate=certificate,
        reasons=phrases(source.language).reasons(certificate),
        remarks=remarks,
        files=sorted(path.name for path in folder.iterdir()),
        counts=counts if form.count is None else {form.count: counts["S000"]},
    )
