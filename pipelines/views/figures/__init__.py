"""Figures for reports: where the workers or residents of an area live and work, and how far they travel."""

from pipelines.views.figures.figure import KINDS, draw_figure

__all__ = ["KINDS", "draw_figure"]
