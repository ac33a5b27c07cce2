"""Key figures of a release: how many cross a border to work, and the largest commute, with intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from pipelines.release.description import kinds_of_work
from pipelines.release.intervals import interval_ends
from pipelines.views.intervals.reading import PosteriorDraws
from pipelines.views.labels import named_area, unit_names
from pipelines.views.release import Release

Bounds = tuple[int | None, int | None]


class Counted(BaseModel):
    """A number of synthetic workers; the interval of the true one, where there are draws."""

    jobs: int
    low: int | None = None
    high: int | None = None


class LargestCommute(Counted):
    """Between two areas: what they are called."""

    home: str
    work: str


class KeyFigures(BaseModel):
    """Key figures."""

    level: str  # Of the areas: the coarsest that has several with names, unless flows between them are noise
    jobs: int  # All
    crossing: Counted  # Those with home and workplace in different areas
    beyond: int = 0  # Those who work in external zones, and so in none of the areas
    kinds_of_work: str = ""  # What these zones are called
    largest: LargestCommute | None  # The largest flow between two areas of the region; None if there is none


def key_figures(release: Release) -> KeyFigures | None:
    """Compute the key figures."""
    level = _level(release)
    if level is None:
        return None
    flows = release.unit_flows(level, level)
    home, work, jobs = (flows[name].to_numpy() for name in ("home", "work", "S000"))
    external = release.geography.is_external(release.geography.starts(level))
    among = np.flatnonzero((home != work) & ~external[home] & ~external[work])
    largest_flow = among[jobs[among].argmax()] if among.size else None
    pair = None if largest_flow is None else (int(home[largest_flow]), int(work[largest_flow]))
    bounds: list[Bounds] = [(None, None), (None, None)]
    if release.has_draws and (draws := release.draws()).has(level, level):
        bounds = _bounds(draws, level, pair, external)
    (low, high), (least, most) = bounds
    largest = None
    if pair is not None:
        ends = (named_area(release, level, unit) for unit in pair)
        names = dict(zip(("home", "work"), ends, strict=True))
        largest = LargestCommute(jobs=int(jobs[largest_flow]), low=least, high=most, **names)
    crossing = Counted(jobs=int(jobs[(home != work) & ~external[work]].sum()), low=low, high=high)
    return KeyFigures(
        level=level,
        jobs=int(jobs.sum()),
        crossing=crossing,
        beyond=int(jobs[external[work]].sum()),
        kinds_of_work=kinds_of_work(release.geography),
        largest=largest,
    )


def _level(release: Release) -> str | None:
    """The coarsest level with several areas, all with names; if there is none, the coarsest with several."""
    geography, noisy = release.geography, release.noisy_levels
    several: list[tuple[bool, int, str]] = []
    for level in release.levels:
        inside = np.flatnonzero(~geography.is_external(geography.starts(level)))
        if inside.size > 1 and level not in noisy:
            several.append((not (unit_names(release, level, inside) != "").all(), len(several), level))
    return min(several)[2] if several else None


def _bounds(
    draws: PosteriorDraws, level: str, pair: tuple[int, int] | None, external: NDArray[np.bool_]
) -> list[Bounds]:
    """Intervals of all who cross a border, and of a pair of home and work area."""
    cells = draws.cells(level, level)
    counted = [(cells.home != cells.work) & ~external[cells.work]]
    if pair is not None:
        counted.append((cells.home == pair[0]) & (cells.work == pair[1]))
    ends = [interval_ends(cells.counts[:, some].sum(axis=1)) for some in counted]
    bounds: list[Bounds] = [(int(low), int(high)) for low, high in ends]
    return [*bounds, (None, None)][:2]
