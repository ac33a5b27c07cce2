"""Comparing two releases: tables of differences with intervals, maps, and a read-me."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from geo_data.arguments import PathLike, path_of
from geo_data.relationship import Relationship, read_relationship
from pipelines.config.languages import ENGLISH
from pipelines.plans.measured import table_in_words
from pipelines.release import pages as of_release
from pipelines.release.intervals import N_DRAWS
from pipelines.storage.durable import whole_folder
from pipelines.storage.progress import Progress
from pipelines.views.changes.areas import ComparedAreas, Groups
from pipelines.views.changes.comparable import check_attribute, check_blocks, check_jobs, choose_areas
from pipelines.views.changes.counting import ChangeTable, compare_homes, compare_jobs
from pipelines.views.changes.sides import Side
from pipelines.views.folder import PublicReleaseError, check_target
from pipelines.views.intervals.carrying import without_history
from pipelines.views.labels import unit_names
from pipelines.views.pages import phrases, render
from pipelines.views.release import Release, open_release

_log = logging.getLogger(__name__)
README = "README.txt"


def compare(
    a: PathLike | Release,
    b: PathLike | Release,
    to: PathLike,
    *,
    home: str | None = None,
    work: str | None = None,
    by: str | None = None,
    relationship: PathLike | Relationship | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Compare two releases: what changed from A to B, with intervals, and which differences are beyond noise.

    Nothing but the public folders is read, so it costs no privacy. Residents and flows are compared by the
    draws that the releases carry (`Release.draws`).

    Parameters
    ----------
    a, b : str, path or Release
        Public folders of releases, the folders around them, or addresses, as of `open_release`.
    to : str or path
        A new folder for the files.
    home, work : str, optional
        Kinds of areas, of `Release.kinds_of_areas`; one alone stands for both. By default those of the tables
        that both releases are for, the two coarsest.
    by : str, optional
        An attribute: each table is written by its categories, too.
    relationship : str, path or Relationship, optional
        A public file that relates the blocks, or areas, of A and B, where these changed: as of
        `geo_data.read_relationship`. Areas that share land are compared as one group.
    progress : Progress, optional
        Told how many parts of a step are done, and how many there are.

    Returns
    -------
    dict of str to Path
        The files by what they are: a CSV file for each table, a map for each kind of areas, with a
        relationship the areas of each group, and a read-me.
        A row has the released counts ``A`` and ``B``; ``difference``, of the true counts, B minus A; ``low``
        and ``high`` of its interval of 90 %, both in it; ``beyond_noise``, whether that excludes 0.

    Raises
    ------
    PublicReleaseError
        If the releases are of other kinds of jobs, blocks, areas or categories; a release is damaged, or
        tells nothing of what is asked for; or the folder is there already, or in a public one.
    geo_data.InputError
        If the relationship file is faulty, or not of the blocks of A and B.

    Examples
    --------
    What changed between two years, by tract::

        files = pipelines.compare("out/2019/public", "out/2020/public", "out/change", home="trct")
        flows = pandas.read_csv(files["trct to trct"], dtype={"home": "str", "work": "str"})
        flows[flows["beyond_noise"]]
    """
    to = path_of(to, "to")
    first, second = (each if isinstance(each, Release) else open_release(each) for each in (a, b))
    for release in (first, second):
        check_target(to, release.public, new=True)
    sides = sides_of(first, second, relationship)
    language = first.language if first.language == second.language else ENGLISH
    areas, remarks = _choose(sides, home, work, by, language)
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch, whole_folder(to, mode=None) as folder:
        sides = apart(sides, Path(scratch), progress)
        remarks += [phrases(language).redrawn(side.letter) for side in sides if side.redrawn is not None]
        tables, without = _tables(sides, areas, by, progress)
        say = phrases(language)
        for table in without:
            lacking = [side for side in sides if not side.draws.has(*table)]
            reasons = {side.letter: side.draws.why_none(table[2], language) for side in lacking}
            remarks.append(say.table_left_out(say.table(*table), reasons))
        files = _write(sides, tables, remarks, folder, language)
    beyond, rows = sum(table.beyond for table in tables), sum(len(table.rows) for table in tables)
    words = f"{beyond:,} of {rows:,} rows are beyond noise; {README} says how many may be so by chance"
    _log.info("%s", words)
    return {words: to / name for words, name in files.items()}


def sides_of(
    a: Release, b: Release, relationship: PathLike | Relationship | None = None
) -> tuple[Side, Side]:
    """Return both sides, which can be compared, by the areas that a relationship file groups."""
    areas = ComparedAreas(a.geography, b.geography)
    sides = Side("A", a, areas), Side("B", b, areas)
    check_jobs(*sides)
    check_blocks(*sides, related=relationship is not None)
    if relationship is None:
        return sides
    file = relationship if isinstance(relationship, Relationship) else read_relationship(relationship)
    areas = ComparedAreas(a.geography, b.geography, file.link(a.geography, b.geography))
    return Side("A", a, areas), Side("B", b, areas)


def apart(sides: tuple[Side, Side], scratch: Path, progress: Progress | None = None) -> tuple[Side, Side]:
    """Return the sides with independent noise: the later release without the history that it may share."""
    a, b = sides
    later = b if b.release.plan.config.release.year >= a.release.plan.config.release.year else a
    if later.release.plan.history is None:
        return sides
    _log.info("Drawing %s again, without its history ...", later.letter)
    redrawn = replace(later, redrawn=without_history(later.release, scratch / later.letter, progress))
    return (a, redrawn) if later is b else (redrawn, b)


def _choose(
    sides: tuple[Side, Side], home: str | None, work: str | None, by: str | None, language: str
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the kinds of home and work areas to compare, and what readers must know besides."""
    say, remarks = phrases(language), []
    if by and (described := check_attribute(*sides, by, language)):
        remarks.append(say.described_otherwise(*described))
    areas, left_out = choose_areas(*sides, home, work, language)
    remarks += left_out
    for side in sides:
        if home is not None and not side.draws.has(home, None):
            raise PublicReleaseError(
                f"{side.name}: no table has draws of homes by {home}; there are: {side.draws.names}. Fix: "
                "name areas that are made of whole home areas of these"
            )
    return areas, remarks


def _tables(
    sides: tuple[Side, Side],
    areas: list[tuple[str, str]],
    by: str | None,
    progress: Progress | None,
) -> tuple[list[ChangeTable], list[tuple[str, str | None, tuple[str, ...]]]]:
    """Compare residents, jobs and flows of each pair of kinds of areas, in all and by the attribute.

    Returns the tables, and those of which not both releases have draws.
    """
    a, b = sides
    tables: list[ChangeTable] = []
    without: list[tuple[str, str | None, tuple[str, ...]]] = []
    for home, work in areas:
        for names in ((), (by,)) if by else ((),):
            _log.info("Comparing %s ...", table_in_words(home, work, names))
            for of_home, of_work in ((home, None), (None, work), (home, work)):
                if of_home is None:
                    tables.append(compare_jobs(a, b, work, names))
                elif all(side.draws.has(home, of_work, names) for side in sides):
                    tables.append(compare_homes(a, b, home, of_work, names, progress))
                else:
                    without.append((home, of_work, names))
    if not any(len(table.rows) for table in tables):
        raise PublicReleaseError(f"{a.name} and {b.name}: no measured table tells of jobs by {areas[0][1]}")
    return tables, without


def _write(
    sides: tuple[Side, Side], tables: list[ChangeTable], remarks: list[str], folder: Path, language: str
) -> dict[str, str]:
    """Write tables that have rows, maps and the read-me; return the names of the files."""
    say, reasons = phrases(language), of_release.phrases(language).reasons
    unknown = [
        say.rows_left_out(table.unknown, say.table(table.home, table.work, table.by))
        for table in tables
        if table.unknown
    ]
    tables = [table for table in tables if len(table.rows)]
    for table in tables:
        table.rows.to_csv(folder / table.file, index=False, lineterminator="\n")
    groups, joined = _write_groups(sides, tables, folder, language)
    maps = _draw_maps(sides, tables, folder, language)
    text = render(
        "changes.txt",
        language,
        sides=sides,
        reasons={side.letter: reasons(side.release.certificate) for side in sides},
        tables=tables,
        by=dict.fromkeys(name for table in tables for name in table.by),
        draws=N_DRAWS,
        remarks=[*joined, *remarks, *unknown],
        groups=groups,
        maps=maps,
    )
    (folder / README).write_text(f"{text}\n", encoding="utf-8")
    files = {table_in_words(table.home, table.work, table.by): table.file for table in tables}
    files |= {f"groups of {kind}": name for kind, name in groups.items()}
    return {**files, **{f"map of {kind}": name for kind, name in maps.items()}, "read-me": README}


def _write_groups(
    sides: tuple[Side, Side], tables: list[ChangeTable], folder: Path, language: str
) -> tuple[dict[str, str], list[str]]:
    """Write which areas are in which group; return the names of the files by kind, and what was lost."""
    areas, say = sides[0].areas, phrases(language)
    if areas.links is None:
        return {}, []
    links, files, remarks = areas.links, {}, []
    if links.slight:
        remarks.append(say.links_left_out(links.slight, links.slight_share))
    for kind in dict.fromkeys(kind for table in tables for kind in (table.home, table.work) if kind):
        groups = areas.groups(kind)
        rows = [
            pd.DataFrame(
                {
                    "group": groups.codes[groups.of[side.letter]],
                    "release": side.letter,
                    "area": side.release.geography.codes(kind),
                    "name": unit_names(side.release, kind),
                }
            )
            for side in sides
        ]
        files[kind] = f"groups_{kind}.csv"
        pd.concat(rows).sort_values(["group", "release", "area"]).to_csv(
            folder / files[kind], index=False, lineterminator="\n"
        )
        remarks.append(say.areas_joined(kind, groups, files[kind], _inside(kind, groups, tables, say)))
    return files, remarks


def _inside(kind: str, groups: Groups, tables: list[ChangeTable], say: Any) -> list[tuple[str, list[int]]]:
    """Return what tables by a kind of areas have released inside groups of several areas, in A and in B."""
    several = groups.codes[groups.several]
    inside = []
    for table in tables:
        if table.kind == kind:
            rows = table.rows[table.rows["work" if table.home is None else "home"].isin(several)]
            inside.append(
                (say.table(table.home, table.work, ()), [int(rows[letter].sum()) for letter in "AB"])
            )
    return inside


def _draw_maps(
    sides: tuple[Side, Side], tables: list[ChangeTable], folder: Path, language: str
) -> dict[str, str]:
    """Draw a map of each kind of areas that have places, and return the names of their files by kind."""
    from pipelines.views.figures.changes import ChangeMap, draw_changes  # what it needs takes its time

    a, b = sides
    panels: dict[str, list[ChangeTable]] = {}
    for table in tables:
        if table.kind is not None:
            panels.setdefault(table.kind, []).append(table)
    maps = {}
    for kind, of_kind in panels.items():
        name = f"map_{kind}.png"
        about = ChangeMap(kind, sides, language)
        # Polygons are the same places: either release may have them.
        has_polygons = kind in a.release.levels and a.release.polygons(kind) is not None
        if draw_changes(a if has_polygons else b, about, of_kind, folder / name):
            maps[kind] = name
    return maps
