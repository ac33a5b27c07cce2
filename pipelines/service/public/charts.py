"""Charts of numbers over years: coordinates of an SVG that pages hold, without a script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.service.public.year_numbers import YearNumber

WIDTH, HEIGHT = 360, 200  # a phone shows letters as large as those of the page
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 18, 12, 26  # room for the numbers, and for the years
_TOPS = (2, 4, 6, 8, 10)  # times a power of ten: the scale's end, whose half is a whole number too
_MOST_YEARS = 8  # that have room below


@dataclass(frozen=True)
class Chart:
    """Estimates with their intervals; the scale begins at 0, so that noise does not look like change."""

    lines: list[str]  # Points of each line, which ends where a year of the series has no number
    bands: list[str]  # Points of the intervals around each
    ranges: list[tuple[float, float, float]]  # Of each year: x, and y of the ends of its interval
    dots: list[tuple[float, float]]
    numbers: list[tuple[float, int]]  # Beside the lines of the scale
    years: list[tuple[float, int]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT

    @classmethod
    def of(cls, numbers: Sequence[YearNumber]) -> Chart | None:
        """Draw the numbers that have intervals, if there are two or more."""
        shown = [number for number in numbers if number.estimate]
        if len(shown) < 2:
            return None
        first, last = shown[0].asked.year, shown[-1].asked.year
        top = _end_of_scale(max(number.estimate.high for number in shown if number.estimate))

        def x(year: int) -> float:
            share = (year - first) / max(last - first, 1)
            return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

        def y(jobs: float) -> float:
            return round(HEIGHT - _BOTTOM - jobs / top * (HEIGHT - _TOP - _BOTTOM), 1)

        lines, bands, ranges, dots = [], [], [], []
        for run in _runs(numbers):
            points = [(x(number.asked.year), number.estimate) for number in run if number.estimate]
            lines.append(_points((at, y(each.estimate)) for at, each in points))
            upper = [(at, y(each.high)) for at, each in points]
            lower = [(at, y(each.low)) for at, each in points]
            bands.append(_points([*upper, *reversed(lower)]))
            ranges += [(at, y(each.low), y(each.high)) for at, each in points]
            dots += [(at, y(each.estimate)) for at, each in points]
        every = range(first, last + 1, math.ceil((last - first + 1) / _MOST_YEARS))
        scale = [(y(jobs), jobs) for jobs in (0, top // 2, top)]
        return cls(lines, bands, ranges, dots, scale, [(x(year), year) for year in every])


def _runs(numbers: Sequence[YearNumber]) -> Iterator[list[YearNumber]]:
    for has_estimate, run in itertools.groupby(numbers, lambda number: number.estimate is not None):
        if has_estimate:
            yield list(run)


def _points(points: Iterator[tuple[float, float]] | list[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _end_of_scale(largest: int) -> int:
    power = 10 ** max(0, len(str(largest)) - 1)
    return next(top * power for top in _TOPS if top * power >= largest)
