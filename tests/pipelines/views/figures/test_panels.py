"""The panels of a figure: what is drawn is what the release has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from pipelines import Release
from pipelines.views.figures.charts import draw_distances, draw_rose
from pipelines.views.figures.maps import _edges, _round_length, _round_sizes, draw_choropleth, draw_flows
from pipelines.views.figures.subject import FigureSubject


@pytest.fixture(scope="module")
def busiest(release: Release) -> FigureSubject:
    unit = int(release.unit_flows("trct", "trct").groupby("work")["S000"].sum().idxmax())
    return FigureSubject(release, release.find_area(release.geography.codes("trct")[unit]), "workers", "S000")


def drawn(draw: Callable[[Axes, FigureSubject], object], subject: FigureSubject, **how: object) -> Axes:
    """A panel of a subject."""
    axis = Figure().add_subplot(**how)
    draw(axis, subject)
    return axis


def texts(axis: Axes) -> str:
    return " ".join(text.get_text() for text in [*axis.texts, axis.title, axis._left_title])  # type: ignore[attr-defined]


# --- maps


def test_darker_is_denser(busiest: FigureSubject) -> None:
    axis = drawn(draw_choropleth, busiest)
    assert busiest.shapes is not None
    colours = axis.collections[0].get_facecolor()
    density = busiest.jobs.reindex(busiest.shapes.index, fill_value=0) / busiest.shapes.area * 1e6
    assert len(colours) == len(density)
    light = np.asarray(colours)[:, :3].sum(axis=1)
    order = np.argsort(density.to_numpy())
    some = density.to_numpy()[order] > 0
    assert (np.diff(light[order][some]) <= 1e-9).all()
    (bar,) = axis.child_axes
    assert "per km²" in bar.get_xlabel()
    assert bar.get_xticklabels()


def test_units_without_workers_are_grey(release: Release) -> None:
    flows = release.unit_flows("tabblk2010", "tabblk2010")
    work = int(flows.groupby("work")["home"].nunique().idxmin())  # few homes
    subject = FigureSubject(release, release.find_area(release.geography.blocks[work]), "workers", "S000")
    axis = drawn(draw_choropleth, subject)
    assert subject.shapes is not None
    none = ~subject.shapes.index.isin(subject.jobs.index)
    assert none.any()
    colours = np.asarray(axis.collections[0].get_facecolor())
    assert (np.isclose(colours, to_rgba("#f4f4f2")).all(axis=1) == none).all()


def test_points_are_as_large_as_their_jobs(bare: Release) -> None:
    subject = FigureSubject(bare, None, "workers", "S000", "trct")
    axis = drawn(draw_choropleth, subject)
    sizes = np.asarray(axis.collections[0].get_sizes())
    np.testing.assert_allclose(sizes / sizes.max(), np.sort(subject.jobs)[::-1] / subject.jobs.max())
    assert axis.get_legend() is not None
    assert axis.get_legend().get_title().get_text() == "synthetic workers living in a tract"


def test_a_level_without_shapes_is_drawn_on_those_there_are(release: Release) -> None:
    subject = FigureSubject(release, None, "workers", "S000", "tabblk2010")
    assert subject.shapes is None
    for draw in (draw_choropleth, draw_flows):
        axis = drawn(draw, subject)
        land, tracts = axis.collections[0], release.polygons("trct")
        assert tracts is not None
        assert len(land.get_paths()) == len(tracts)
        assert np.isclose(land.get_facecolor(), to_rgba("#f4f4f2")).all()


def test_what_rounds_to_nothing_is_not_said(release: Release) -> None:
    subject = FigureSubject(release, None, "workers", "S000", "trct")
    apart = subject.pairs[subject.pairs["home"] != subject.pairs["work"]]
    subject.__dict__["pairs"] = apart  # as if nobody stayed
    axis = drawn(draw_flows, subject)
    assert "live and work in one" not in texts(axis)


def test_flows_are_as_wide_as_they_are_large(busiest: FigureSubject) -> None:
    axis = drawn(draw_flows, busiest)
    widths = [patch.get_linewidth() for patch in axis.patches if isinstance(patch, FancyArrowPatch)]
    between = busiest.pairs[busiest.pairs["home"] != busiest.pairs["work"]]["jobs"]
    np.testing.assert_allclose(np.sort(widths), np.sort(np.maximum(0.4, 5 * between / between.max())))
    within = 1 - between.sum() / busiest.total
    if within >= 0.005:
        assert f"{within:.0%} live and work in one tract" in texts(axis)
    assert "All flows between tracts" in texts(axis)


def test_only_the_largest_flows_of_a_region_are_drawn(release: Release) -> None:
    subject = FigureSubject(release, None, "workers", "S000", "tabblk2010")
    axis = drawn(draw_flows, subject)
    arrows = [patch for patch in axis.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 60
    assert {type(arrow.get_arrowstyle()).__name__ for arrow in arrows} == {"CurveFilledB"}  # two ways: arrows


def test_maps_have_scale_north_and_frame(busiest: FigureSubject) -> None:
    west, south, east, north = busiest.frame
    for draw in (draw_choropleth, draw_flows):
        axis = drawn(draw, busiest)
        assert axis.get_xlim() == pytest.approx((west, east))
        assert axis.get_ylim() == pytest.approx((south, north))
        assert axis.get_aspect() == 1
        assert "N" in [text.get_text() for text in axis.texts]
        (bar,) = (artist for artist in axis.artists if hasattr(artist, "size_bar"))
        assert bar.txt_label.get_text().endswith(" km")


def test_round_numbers() -> None:
    assert [_round_length(x) for x in (1, 1.9, 2, 4.99, 5, 99, 0.3)] == [1, 1, 2, 2, 5, 50, 0.2]
    assert _round_sizes(5765, 1) == [5000, 1000, 200]  # thinner lines cannot be told apart
    assert _round_sizes(1, 1) == [1]


def test_classes_hold_every_value_and_are_few() -> None:
    for values in (np.array([0.03, 900.0]), np.array([7.0]), np.array([1.0, 1.5]), np.geomspace(1, 1e4)):
        edges = _edges(values)
        assert edges[0] == 0
        assert edges[-1] >= values.max()
        assert 2 <= len(edges) <= 9
        assert (np.diff(edges) > 0).all()
    assert _edges(np.array([3.0, 80.0])).tolist() == [0, 2, 5, 10, 20, 50, 100]
    assert _edges(np.array([])).tolist() == [0, 1]


# --- charts


def test_the_rose_has_everybody_who_moves(busiest: FigureSubject) -> None:
    axis = drawn(draw_rose, busiest, projection="polar")
    heights = sum(bar.get_height() for bar in axis.patches)
    moving = busiest.flows.dropna(subset="to_home")["jobs"].sum()
    assert heights == pytest.approx(100 * moving / busiest.total)
    assert "Direction of homes, seen from work" in texts(axis)


def test_the_rose_points_where_homes_are(busiest: FigureSubject) -> None:
    axis = drawn(draw_rose, busiest, projection="polar")
    flows = busiest.flows.dropna(subset="to_home")
    # North by hand: within an eighth of a right angle of it.
    north = np.cos(np.radians(flows["to_home"])) > np.cos(np.radians(11.25))
    bars = [bar for bar in axis.patches if abs(bar.get_x() + bar.get_width() / 2) < 1e-9]
    assert sum(bar.get_height() for bar in bars) == pytest.approx(
        100 * flows["jobs"][north].sum() / busiest.total
    )


def test_residents_look_towards_work(release: Release, busiest: FigureSubject) -> None:
    axis = drawn(draw_rose, FigureSubject(release, busiest.area, "residents", "S000"), projection="polar")
    assert "Direction of work, seen from home" in texts(axis)


def test_distances_are_shares_of_all(busiest: FigureSubject) -> None:
    axis = drawn(draw_distances, busiest)
    km, jobs = busiest.flows["km"].to_numpy(), busiest.flows["jobs"].to_numpy()
    end = axis.get_xlim()[1]
    heights = np.array([bar.get_height() for bar in axis.patches])
    assert heights.sum() == pytest.approx(100 * jobs[km <= end].sum() / jobs.sum())
    width = axis.patches[1].get_x() - axis.patches[0].get_x()
    third = (km >= 2 * width) & (km < 3 * width)
    assert heights[2] == pytest.approx(100 * jobs[third].sum() / jobs.sum())
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    ordered = np.repeat(km, jobs)
    assert f"mean {ordered.mean():.1f} km" in labels
    assert f"median {np.sort(ordered)[(len(ordered) - 1) // 2]:.1f} km" in labels
