"""Key figures of a release: how many cross a border to work, and the largest commute, with intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from pipelines.release.description import kinds_of_work
from pipelines.release.intervals import interval_ends
from pipelines.views.labels import named_area, unit_names
from pipelines.views.release import Release

Int64 = NDArray[np.int64]


class Figure(BaseModel):
    """An estimate and its interval, of all draws of the release; without draws what its rows give."""

    number: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, numbers: NDArray[np.number]) -> Figure:
        """Return that of a number in every draw, or of the only one, of rows."""
        if numbers.size == 1:
            return cls(number=float(numbers[0]))
        low, high = interval_ends(numbers)
        return cls(number=float(numbers.mean()), low=float(low), high=float(high))


class LargestCommute(BaseModel):
    """The largest flow between two areas: what they are called, and how many jobs it has."""

    home: str
    work: str
    jobs: Figure


class KeyFigures(BaseModel):
    """Key figures."""

    level: str  # Of the areas: the coarsest that has several with names, unless flows between them are noise
    crossing: Figure  # The share with home and workplace in different areas
    beyond: float  # The share with work in external zones, and so in none of the areas
    kinds_of_work: str  # What these zones are called
    largest: LargestCommute | None  # Between areas of the region; None if there is no commute


def key_figures(release: Release) -> KeyFigures | None:
    """Compute the key figures; None where no level has several areas, or nobody has a job."""
    level = _level(release)
    if level is None:
        return None
    home, work, counts = _flows(release, level)
    external = release.geography.is_external(release.geography.starts(level))
    jobs = counts.sum(axis=1)
    if not jobs.all():
        return None
    crosses = home != work
    among = np.flatnonzero(crosses & ~external[home] & ~external[work])
    largest = None
    if among.size:
        flow = among[counts[:, among].sum(axis=0).argmax()]
        ends = (named_area(release, level, int(side[flow])) for side in (home, work))
        names = dict(zip(("home", "work"), ends, strict=True))
        largest = LargestCommute(jobs=Figure.of(counts[:, flow]), **names)
    return KeyFigures(
        level=level,
        crossing=Figure.of(counts[:, crosses & ~external[work]].sum(axis=1) / jobs),
        beyond=float((counts[:, external[work]].sum(axis=1) / jobs).mean()),
        kinds_of_work=kinds_of_work(release.geography),
        largest=largest,
    )


def _flows(release: Release, level: str) -> tuple[Int64, Int64, Int64]:
    """Homes, workplaces and jobs, by draw, of flows between areas; of rows where there are no draws."""
    if release.has_draws and (draws := release.draws()).has(level, level):
        cells = draws.cells(level, level)
        return cells.home, cells.work, cells.counts
    flows = release.unit_flows(level, level)
    home, work, jobs = (flows[name].to_numpy() for name in ("home", "work", "S000"))
    return home, work, jobs[np.newaxis]


def _level(release: Release) -> str | None:
    """The coarsest level with several areas, all with names; if there is none, the coarsest with several."""
    geography, noisy = release.geography, release.noisy_levels
    several: list[tuple[bool, int, str]] = []
    for level in release.levels:
        inside = np.flatnonzero(~geography.is_external(geography.starts(level)))
        if inside.size > 1 and level not in noisy:
            several.append((not (unit_names(release, level, inside) != "").all(), len(several), level))
    return min(several)[2] if several else None
