"""Figures for reports: where the workers or residents of an area live and work, and how far they travel."""

from pipelines.views.figures.figure import draw_figure

__all__ = ["draw_figure"]
