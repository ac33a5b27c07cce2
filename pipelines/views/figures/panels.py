"""What every panel of a figure has: a title, and remarks below it."""

from __future__ import annotations

from matplotlib.axes import Axes


def title_panel(axis: Axes, title: str, *remarks: str, lift: float = 0.0) -> None:
    """Put a title above a panel, and remarks between the two; `lift` is points, for labels above it."""
    axis.set_title(title, loc="left", fontweight="bold", pad=18 + lift)
    below = axis.annotate(
        "; ".join(remarks),
        (0, 1),
        (0, 5 + lift),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize="small",
        color="0.35",
    )
    below.set_in_layout(False)  # a long one may reach beyond its panel
