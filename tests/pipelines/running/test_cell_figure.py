"""The picture of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes

from pipelines import Release
from pipelines.running import cell_figure


def test_of_very_many_blocks_some_are_drawn(
    small_release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 7.7 million blocks of a nation took six minutes."""
    scatter = Axes.scatter
    drawn: list[int] = []
    monkeypatch.setattr(
        Axes, "scatter", lambda axis, x, *a, **k: (drawn.append(len(x)), scatter(axis, x, *a, **k))[1]
    )
    for most, dots in ((120, 120), (119, 60), (50, 40)):
        monkeypatch.setattr(cell_figure, "_DOTS", most)
        cell_figure.draw_cells(small_release.plan, tmp_path / "cells.png")
        assert drawn == [dots] * 3
        assert (tmp_path / "cells.png").stat().st_size > 10_000
        drawn.clear()
