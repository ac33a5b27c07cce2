"""Figures of a release for reports."""

from __future__ import annotations

from geo_data.arguments import PathLike, path_of
from pipelines.views.choices import KINDS
from pipelines.views.figures.subject import FigureSubject, Side
from pipelines.views.release import PublicReleaseError, Release, check_target

_SUFFIXES = (".png", ".svg", ".pdf")


def draw_figure(
    release: Release,
    path: PathLike,
    *,
    area: str | None = None,
    of: Side = "workers",
    level: str | None = None,
    count: str = "S000",
    kind: str = "all",
) -> None:
    """Draw the commutes of an area (`Release.figure`)."""
    path = path_of(path, "path")
    if kind not in KINDS:
        raise PublicReleaseError(f"there is no kind {kind!r}; there are: {', '.join(KINDS)}")
    if path.suffix.lower() not in _SUFFIXES:
        raise PublicReleaseError(f"{path.name}: the name of a figure ends with .png, .svg or .pdf")
    check_target(path, release.public)
    subject = FigureSubject(release, None if area is None else release.find_area(area), of, count, level)
    from pipelines.views.figures.composition import write_figure  # matplotlib takes its time

    write_figure(subject, kind, path)
