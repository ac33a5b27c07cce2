"""Intervals of counts and of their sums, from a public release alone (docs/intervals.md)."""

from pipelines.views.intervals.reading import COVERAGE_WORDS, PosteriorDraws
from pipelines.views.intervals.writing import write_intervals

__all__ = ["COVERAGE_WORDS", "PosteriorDraws", "write_intervals"]
