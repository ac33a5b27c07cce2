"""Figures of a release for reports."""

from __future__ import annotations

from geo_data.arguments import PathLike, expect, path_of
from pipelines.release.reader import PublicRelease, PublicReleaseError, check_target
from pipelines.views.choices import KINDS
from pipelines.views.commutes import Side, find_area
from pipelines.views.figures.subject import FigureSubject

_SUFFIXES = (".png", ".svg", ".pdf")


def draw_figure(
    release: PublicRelease,
    path: PathLike,
    *,
    area: str | None = None,
    of: Side = "workers",
    level: str | None = None,
    count: str = "S000",
    kind: str = "all",
) -> None:
    """Draw the commutes of an area, as PNG, SVG or PDF.

    Parameters
    ----------
    release : PublicRelease
    path : str or path
        The file; its name ends with .png, .svg or .pdf. Its folder is made if it is not there.
    area : str, optional
        Code of an area or a work block, at any level; by default the whole release.
    of : {"workers", "residents"}
        Those who work in the area (then maps show where they live), or those who live there.
    level : str, optional
        Level of the units on the maps; by default the finest that has polygons, or else the finest with at
        most 500 units, as points; a coarser one where flows at it are noise.
    count : str
        Who is counted, of `PublicRelease.counts`.
    kind : {"all", "choropleth", "flows", "rose", "distance"}
        One panel, or all four.

    Raises
    ------
    PublicReleaseError
        If there is no such area, level, count or kind, nobody is in the area, the name of the file ends
        otherwise, or it lies in the public folder.
    """
    expect(release, PublicRelease, "release", "read_public_release")
    path = path_of(path, "path")
    if kind not in KINDS:
        raise PublicReleaseError(f"there is no kind {kind!r}; there are: {', '.join(KINDS)}")
    if path.suffix.lower() not in _SUFFIXES:
        raise PublicReleaseError(f"{path.name}: the name of a figure ends with .png, .svg or .pdf")
    check_target(path, release.folder)
    subject = FigureSubject(release, None if area is None else find_area(release, area), of, count, level)
    from pipelines.views.figures.composition import write_figure  # matplotlib takes its time

    write_figure(subject, kind, path)
