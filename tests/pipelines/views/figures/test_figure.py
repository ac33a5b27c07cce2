"""Figures: every number and mark of a panel against the released files, files, words, errors, the command."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from pyproj import Geod

from helpers import german_copy
from pipelines import PublicReleaseError, Release, open_release
from pipelines.cli.main import main
from pipelines.release.names import write_names
from pipelines.views.figures.charts import draw_distances, draw_rose
from pipelines.views.figures.maps import _edges, _round_length, _round_sizes, draw_choropleth, draw_flows
from pipelines.views.figures.subject import FigureSubject

SVG = "http://www.w3.org/2000/svg"
NAMESPACES = ("http://www.w3.org/", "http://purl.org/dc/", "http://creativecommons.org/ns#")
DIGITS = {"cty": 5, "trct": 11, "tabblk2010": 15}
GREY = to_rgba("#f4f4f2")
POLAR: dict[Any, dict[str, Any]] = {draw_rose: {"projection": "polar"}}


def of_busiest(release: Release, level: str = "trct", **how: object) -> FigureSubject:
    """The subject of the area with the most jobs."""
    flows = release.unit_flows(level, level)
    unit = int(flows.groupby("work")["S000"].sum().idxmax())
    options: dict = {"of": "workers", "count": "S000"} | how
    return FigureSubject(release, release.find_area(release.geography.codes(level)[unit]), **options)


@pytest.fixture(scope="module")
def busiest(release: Release) -> FigureSubject:
    return of_busiest(release)


@pytest.fixture(scope="module")
def zoned(zoned_release: Release) -> Release:
    return open_release(zoned_release.public)


@pytest.fixture(scope="module")
def jobs(zoned: Release) -> pd.DataFrame:
    """The rows of the released files; km is NaN for those who live in external zones."""
    rows = pd.concat([pd.read_parquet(path) for path in zoned.public.glob("*_od_*.parquet")])
    blocks = pd.read_parquet(zoned.public / "plan" / "blocks.parquet").set_index("tabblk2010")
    ends = [
        blocks[["longitude", "latitude"]].loc[rows[side]].to_numpy().T for side in ("h_geocode", "w_geocode")
    ]
    km = Geod(ellps="WGS84").inv(*ends[0], *ends[1])[2] / 1000
    return rows.assign(km=np.where(rows["h_geocode"].str.endswith("9" * 13), np.nan, km))


def drawn(draw: Callable[[Any, FigureSubject], object], subject: FigureSubject) -> Any:
    """A panel of a subject."""
    axis: Axes = Figure().add_subplot(**POLAR.get(draw, {}))
    draw(axis, subject)
    return axis


def texts(axis: Any) -> str:
    legend = axis.get_legend()
    labels = legend.get_texts() if legend else []
    return " | ".join(text.get_text() for text in [axis._left_title, *axis.texts, *labels])


def percents(words: str, what: str) -> list[float]:
    """The share before these words, if it is there."""
    return [float(number) for number in re.findall(rf"([\d.]+)% {what}", words)]


# --- numbers


@pytest.mark.parametrize("of", ["workers", "residents"])
def test_every_number(zoned: Release, jobs: pd.DataFrame, of: str) -> None:
    near, far = ("w_geocode", "h_geocode") if of == "workers" else ("h_geocode", "w_geocode")
    busy = str(jobs[jobs["km"].notna()].groupby(near)["S000"].sum().idxmax())
    areas = [None, busy[:5], busy[:11], busy, *(["25"] if of == "residents" else [])]
    noticed = set()
    for i, code in enumerate(areas):
        rows = jobs if code is None else jobs[jobs[near].str.startswith(code)]
        area = None if code is None else zoned.find_area(code)
        total, inside = rows["S000"].sum(), rows.dropna(subset="km").sort_values("km")
        for level, digits in DIGITS.items() if i == 0 else [list(DIGITS.items())[i % 3]]:
            subject = FigureSubject(zoned, area, of, "S000", level)  # type: ignore[arg-type]
            panels = (draw_choropleth, draw_flows, draw_rose, draw_distances)
            words = {draw: texts(drawn(draw, subject)) for draw in panels}
            assert f"\n{total:,} synthetic workers: all jobs" in subject.title
            # Flows
            home, work = (rows[side].str[:digits] for side in ("h_geocode", "w_geocode"))
            apart = (home != work) & rows["km"].notna()
            flows = rows["S000"][apart].groupby([home[apart], work[apart]]).sum()
            text = words[draw_flows]
            largest = flows.nlargest(60)
            number = re.match(r"(?:All|The (\d+) largest) flows between", text)
            assert number is not None
            assert number[1] == (None if len(flows) <= 60 else "60")
            assert percents(text, "of the workers") == pytest.approx([100 * largest.sum() / total], abs=0.5)
            stay = 100 * rows["S000"][home == work].sum() / total
            assert percents(text, "live and work in one") == pytest.approx(
                [stay] if stay >= 0.5 else [], abs=0.5
            )
            # Distances
            placed, text = inside["S000"].sum(), words[draw_distances]
            if placed:
                half = inside["km"].iloc[np.searchsorted(inside["S000"].cumsum(), placed / 2)]
                assert f"median {half:.1f} km" in text
                assert f"mean {np.average(inside['km'], weights=inside['S000']):.1f} km" in text
            further = re.search(r"([\d.]+)% of these go further than (\d+\.?\d*) km", text)
            if further is not None:
                share = inside["S000"][inside["km"] > float(further[2])].sum() / placed
                assert float(further[1]) == pytest.approx(100 * share, abs=0.051)
            beyond = 100 * (total - placed) / total
            # Directions
            still = 100 * inside["S000"][inside["km"] == 0].sum() / max(placed, 1)
            stated = percents(words[draw_rose], "have home and work at one point")
            assert stated == pytest.approx([still] if placed and still >= 0.5 else [], abs=0.5)
            for draw in (draw_distances, draw_rose):
                assert percents(words[draw], "who live in the region") == pytest.approx(
                    [100 - beyond] if beyond else [], abs=0.051
                )
                assert ("share of workers" in words[draw]) == (placed == total)
            # Who is off the map
            west, south, east, north = subject.frame
            x, y = subject._metres(zoned.places("tabblk2010")).T
            unit = zoned.geography.number(rows[far])
            visible = (x[unit] > west) & (x[unit] < east) & (y[unit] > south) & (y[unit] < north)
            off = 100 * (1 - rows["S000"].to_numpy()[visible].sum() / total)
            end = "homes" if of == "workers" else "workplaces"
            for draw in (draw_choropleth, draw_flows):
                assert percents(words[draw], f"of the {end} off the map") == pytest.approx(
                    [off] if off >= 0.5 else [], abs=0.5
                )
            noticed |= {name for name, share in (("beyond", beyond), ("still", still), ("off", off)) if share}
    assert "beyond" in noticed


def test_jobs_are_counted_where_the_other_end_is(release: Release, busiest: FigureSubject) -> None:
    residents, flows = of_busiest(release, of="residents"), release.unit_flows("trct", "trct")
    assert busiest.area is not None
    homes = flows[flows["work"] == busiest.area.unit].set_index("home")["S000"]
    works = flows[flows["home"] == busiest.area.unit].set_index("work")["S000"]
    pd.testing.assert_series_equal(busiest.jobs, homes, check_names=False, check_index_type=False)
    pd.testing.assert_series_equal(residents.jobs, works, check_names=False, check_index_type=False)


# --- maps


def test_darker_is_denser(busiest: FigureSubject) -> None:
    axis = drawn(draw_choropleth, busiest)
    assert busiest.shapes is not None
    colours = axis.collections[0].get_facecolor()
    density = busiest.jobs.reindex(busiest.shapes.index, fill_value=0) / busiest.shapes.area * 1e6
    light = np.asarray(colours)[:, :3].sum(axis=1)
    order = np.argsort(density.to_numpy())
    assert (np.diff(light[order][density.to_numpy()[order] > 0]) <= 1e-9).all()
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
    assert (np.isclose(axis.collections[0].get_facecolor(), GREY).all(axis=1) == none).all()


def test_points_are_as_large_as_their_jobs(bare: Release) -> None:
    subject = FigureSubject(bare, None, "workers", "S000", "trct")
    axis = drawn(draw_choropleth, subject)
    sizes = np.asarray(axis.collections[0].get_sizes())
    np.testing.assert_allclose(sizes / sizes.max(), np.sort(subject.jobs)[::-1] / subject.jobs.max())
    assert axis.get_legend().get_title().get_text() == "synthetic workers living in a tract"


def test_a_level_without_shapes_is_drawn_on_those_there_are(release: Release) -> None:
    subject = FigureSubject(release, None, "workers", "S000", "tabblk2010")
    assert subject.shapes is None
    tracts = release.polygons("trct")
    assert tracts is not None
    land = drawn(draw_choropleth, subject).collections[0]
    assert len(land.get_paths()) == len(tracts)
    assert np.isclose(land.get_facecolor(), GREY).all()
    arrows = [patch for patch in drawn(draw_flows, subject).patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 60
    assert {type(arrow.get_arrowstyle()).__name__ for arrow in arrows} == {"CurveFilledB"}  # two ways: arrows


def test_flows_are_as_wide_as_they_are_large(busiest: FigureSubject) -> None:
    axis = drawn(draw_flows, busiest)
    widths = [patch.get_linewidth() for patch in axis.patches if isinstance(patch, FancyArrowPatch)]
    between = busiest.pairs[busiest.pairs["home"] != busiest.pairs["work"]]["jobs"]
    np.testing.assert_allclose(np.sort(widths), np.sort(np.maximum(0.4, 5 * between / between.max())))


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


def test_round_numbers_and_classes() -> None:
    assert [_round_length(x) for x in (1, 1.9, 2, 4.99, 5, 99, 0.3)] == [1, 1, 2, 2, 5, 50, 0.2]
    assert _round_sizes(5765, 1) == [5000, 1000, 200]  # thinner lines cannot be told apart
    assert _round_sizes(1, 1) == [1]
    for values in (np.array([0.03, 900.0]), np.array([7.0]), np.array([1.0, 1.5]), np.geomspace(1, 1e4)):
        edges = _edges(values)
        assert edges[0] == 0
        assert edges[-1] >= values.max()
        assert 2 <= len(edges) <= 9
        assert (np.diff(edges) > 0).all()
    assert _edges(np.array([3.0, 80.0])).tolist() == [0, 2, 5, 10, 20, 50, 100]
    assert _edges(np.array([])).tolist() == [0, 1]


@pytest.mark.quick
def test_the_level_is_the_finest_that_can_be_drawn(release: Release, bare: Release) -> None:
    assert FigureSubject(release, None, "workers", "S000").level == "trct"  # it has polygons
    usual = FigureSubject(bare, None, "workers", "S000")
    assert usual.level == "bgrp"  # 120 points can be told apart, but flows between blocks are noise
    assert "NOISE" not in usual.source
    assert "NOISE" in FigureSubject(bare, None, "workers", "S000", "tabblk2010").source


def test_the_map_is_metric_and_has_nearly_everybody(release: Release, bare: Release) -> None:
    for subject in (of_busiest(release), of_busiest(bare), FigureSubject(release, None, "residents", "S000")):
        west, south, east, north = subject.frame
        assert (east - west) / (north - south) == pytest.approx(1.25)
        assert 3_000 <= east - west < 200_000
        assert 0 <= subject.beyond <= 0.1
        assert subject.crs.axis_info[0].unit_name == "metre"


def test_an_area_has_an_outline_or_a_centre(release: Release, bare: Release) -> None:
    """True to size where shapes make it up."""
    for level in ("st", "cty", "trct"):
        subject = of_busiest(release, level)
        assert subject.outline is not None
        assert subject.area is not None
        polygons = release.polygons("trct")
        assert polygons is not None
        first = release.geography.starts("trct")[polygons["unit"]]
        inside = release.geography.unit_of(level, first) == subject.area.unit
        area = polygons[inside].to_crs("EPSG:6933").area.sum()
        assert subject.outline.area.sum() == pytest.approx(area, rel=1e-4)
    for subject in (of_busiest(release, "tabblk2010"), of_busiest(bare)):
        assert subject.outline is None
        assert subject.centre is not None
        west, south, east, north = subject.frame
        x, y = subject.centre
        assert west < x < east
        assert south < y < north


# --- charts


def test_the_rose_points_where_homes_are(busiest: FigureSubject) -> None:
    axis = drawn(draw_rose, busiest)
    flows = busiest.flows.dropna(subset="to_home")
    heights = sum(bar.get_height() for bar in axis.patches)
    assert heights == pytest.approx(100 * flows["jobs"].sum() / busiest.total)
    # North by hand: within an eighth of a right angle of it.
    north = np.cos(np.radians(flows["to_home"])) > np.cos(np.radians(11.25))
    bars = [bar for bar in axis.patches if abs(bar.get_x() + bar.get_width() / 2) < 1e-9]
    expected = 100 * flows["jobs"][north].sum() / busiest.total
    assert sum(bar.get_height() for bar in bars) == pytest.approx(expected)


def test_distances_are_shares_of_all(busiest: FigureSubject) -> None:
    axis = drawn(draw_distances, busiest)
    km, jobs = busiest.flows["km"].to_numpy(), busiest.flows["jobs"].to_numpy()
    end = axis.get_xlim()[1]
    heights = np.array([bar.get_height() for bar in axis.patches])
    assert heights.sum() == pytest.approx(100 * jobs[km <= end].sum() / jobs.sum())
    width = axis.patches[1].get_x() - axis.patches[0].get_x()
    third = (km >= 2 * width) & (km < 3 * width)
    assert heights[2] == pytest.approx(100 * jobs[third].sum() / jobs.sum())


# --- words


def test_what_a_figure_says_it_shows(release: Release, zoned: Release) -> None:
    subject = of_busiest(release, of="residents", count="SE03")
    assert subject.area is not None
    first, second = subject.title.splitlines()
    name = release.names["trct"][subject.area.unit]
    assert first == f"Where the residents of {name} (tract {subject.area.code}) work"
    assert second == f"{subject.total:,} synthetic workers: earnings of more than 3,333 dollars a month"
    assert "epsilon 8.6, delta 0.0000" in subject.source
    assert "NOT FOR RELEASE" not in subject.source
    unfit = Release(release.public)
    vars(unfit)["certificate"] = release.certificate.model_copy(update={"for_release": False})
    assert FigureSubject(unfit, None, "workers", "S000").source.startswith("NOT FOR RELEASE.")
    for code in ("25", "25999999999", "259999999999999"):
        zone = FigureSubject(zoned, zoned.find_area(code), "residents", "S000")
        assert zone.place("en").startswith("Massachusetts ("), code


def test_a_figure_of_a_german_release_is_german(zoned: Release, tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    open_release(german_copy(zoned.public, tmp_path)).figure(path)
    words = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    assert "Wo die Beschäftigten wohnen: die ganze Region" in words
    said = " ".join(words).replace(zoned.certificate.release.name, "")
    assert not re.findall(r"\b(the|of|and|with|by|in a|jobs|homes|workers|median|mean)\b", said)
    assert re.search(r"Median \d+,\d km", said)


# --- files


def ink(path: Path) -> float:
    """The share of pixels that are not white."""
    return float((matplotlib.image.imread(path)[..., :3] < 0.99).any(axis=2).mean())


def test_one_panel_or_all_are_drawn(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "figure.png"
    for kind in ("all", "rose"):
        release.figure(path, area=release.geography.codes("cty")[0], kind=kind)
        height, width = matplotlib.image.imread(path).shape[:2]
        assert (width, height) == ((2160, 2160) if kind == "all" else (1300, 1320))
        assert 0.03 < ink(path) < 0.9


@pytest.mark.parametrize("suffix", ["png", "svg", "PDF"])
def test_the_same_figure_has_the_same_bytes_and_no_address(
    release: Release, tmp_path: Path, suffix: str
) -> None:
    """Words are text, not outlines; a name is no formula, nor markup."""
    folder = Path(shutil.copytree(release.public, tmp_path / "public"))
    name = '$\\frac$ & <b>"Sure"</b> $x'
    write_names({"cty": np.array([name, ""], object)}, release.geography, folder)
    code = release.geography.codes("cty")[0]
    paths = [tmp_path / f"{number}.{suffix}" for number in range(2)]
    for path in paths:
        open_release(folder).figure(path, area=code, kind="distance")
    content = paths[0].read_bytes()
    assert content == paths[1].read_bytes()
    if suffix == "svg":
        root = ElementTree.fromstring(content)
        words = " ".join(element.text or "" for element in root.iter(f"{{{SVG}}}text"))
        assert f"Where the workers of {name} (county {code}) live" in words
        addresses = re.findall(r"https?://[^\"'\s<>]+", content.decode())
        assert all(url.startswith(NAMESPACES) for url in addresses)
    else:
        assert b"http" not in content
    if suffix == "PDF":
        assert b"/Subject (Synthetic workers, no real person. Release: " in content
        assert b"/Title (Where the workers of" in content
        assert b"/FontFile2" in content, "words are in a font, not outlines"


def test_a_release_without_polygons(british_release: Release, tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    work = british_release.unit_flows("oa", "oa")["work"][0]
    british_release.figure(path, area=british_release.geography.blocks[work], level="oa", kind="flows")
    assert ink(path) > 0.02


def test_workers_who_all_live_in_an_external_zone(zoned: Release, tmp_path: Path) -> None:
    """Nothing is known of their homes but the area; the figure says so."""
    folder = Path(shutil.copytree(zoned.public, tmp_path / "public"))
    rows = folder / "demo_od_main_JT00_2019.parquet"
    aux = pq.read_table(folder / "demo_od_aux_JT00_2019.parquet").to_pandas()
    work, table = aux["w_geocode"].mode()[0], pq.read_table(rows)
    pq.write_table(table.filter(pc.not_equal(table["w_geocode"].cast("string"), work)), rows)
    release = open_release(folder)
    for area, of in ((work, "workers"), ("259999999999999", "residents")):
        path = tmp_path / f"{of}.png"
        release.figure(path, area=area, of=of)  # type: ignore[arg-type]
        assert ink(path) > 0.02


# --- errors and the command


@pytest.mark.quick
def test_what_cannot_be_drawn_is_refused(release: Release, tmp_path: Path) -> None:
    worked_in = release.unit_flows("tabblk2010", "tabblk2010")["work"]
    code = release.geography.blocks[sorted(set(range(120)) - set(worked_in))[0]]
    figure = tmp_path / "figure.png"
    for path, options, words in (
        (tmp_path / "figure.gif", {}, r"figure\.gif: .* let the name end with \.png, \.svg or \.pdf"),
        (figure, {"kind": "pie"}, "there is no kind 'pie'; there are: all, choropleth"),
        (figure, {"area": code}, f"there are no workers of block {code}"),
    ):
        with pytest.raises(PublicReleaseError, match=words):
            release.figure(path, **options)
    for option, value, words in (
        ("--area", "1", "there is no area '1' at any level (st, cty, trct, bgrp, tabblk2010)"),
        ("--level", "tract", "there is no level 'tract'; there are: st, cty"),
        ("--count", "S1", "there is no count 'S1'; there are: S000"),
    ):
        result = CliRunner().invoke(main, ["figure", str(release.public), "--to", str(figure), option, value])
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert words in result.output
        assert len(result.output.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_command_draws(release: Release, tmp_path: Path) -> None:
    path, same = tmp_path / "figure.svg", tmp_path / "same.svg"
    code = release.geography.codes("trct")[0]
    options = ["--area", code, "--of", "residents", "--count", "SA01", "--kind", "rose"]
    result = CliRunner().invoke(main, ["figure", str(release.public), "--to", str(path), *options])
    assert (result.exit_code, result.output) == (0, f"Written {path}\n")
    release.figure(same, area=code, of="residents", count="SA01", kind="rose")
    assert path.read_bytes() == same.read_bytes()
