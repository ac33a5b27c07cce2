"""Intervals of counts and of their sums, from a public release alone (docs/intervals.md)."""

from pipelines.views.intervals.reading import PosteriorDraws, intervals
from pipelines.views.intervals.writing import write_intervals

__all__ = ["PosteriorDraws", "intervals", "write_intervals"]
