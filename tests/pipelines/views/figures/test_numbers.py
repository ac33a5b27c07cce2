"""Every number that a figure states, against plain pandas on the released files."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from pyproj import Geod

from pipelines import Release, open_release
from pipelines.views.figures.charts import draw_distances, draw_rose
from pipelines.views.figures.maps import draw_choropleth, draw_flows
from pipelines.views.figures.subject import FigureSubject

DIGITS = {"cty": 5, "trct": 11, "tabblk2010": 15}
PANELS: dict[Any, dict[str, Any]] = {
    draw_choropleth: {}, draw_flows: {}, draw_rose: {"projection": "polar"}, draw_distances: {}
}  # fmt: skip


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


def said(draw: Any, subject: FigureSubject, how: dict[str, Any]) -> str:
    axis: Any = Figure().add_subplot(**how)
    draw(axis, subject)
    legend = axis.get_legend()
    labels = [text.get_text() for text in legend.get_texts()] if legend else []
    return " | ".join([axis._left_title.get_text(), *(text.get_text() for text in axis.texts), *labels])


def percents(words: str, what: str) -> list[float]:
    """The share before these words, if it is there."""
    return [float(number) for number in re.findall(rf"([\d.]+)% {what}", words)]


@pytest.mark.parametrize("of", ["workers", "residents"])
def test_every_number(zoned: Release, jobs: pd.DataFrame, of: str) -> None:
    near, far = ("w_geocode", "h_geocode") if of == "workers" else ("h_geocode", "w_geocode")
    busy = str(jobs[jobs["km"].notna()].groupby(near)["S000"].sum().idxmax())
    areas = [None, busy[:5], busy[:11], busy, *(["25", "09"] if of == "residents" else [])]
    seen = set()
    for code in areas:
        rows = jobs if code is None else jobs[jobs[near].str.startswith(code)]
        area = None if code is None else zoned.find_area(code)
        total, inside = rows["S000"].sum(), rows.dropna(subset="km").sort_values("km")
        for level, digits in DIGITS.items():
            subject = FigureSubject(zoned, area, of, "S000", level)  # type: ignore[arg-type]
            words = {draw: said(draw, subject, how) for draw, how in PANELS.items()}
            assert f"\n{total:,} synthetic workers: all jobs" in subject.title
            # Flows
            home, work = (rows[side].str[:digits] for side in ("h_geocode", "w_geocode"))
            apart = (home != work) & rows["km"].notna()
            flows = rows["S000"][apart].groupby([home[apart], work[apart]]).sum()
            text = words[draw_flows]
            drawn = flows.nlargest(60)
            number = re.match(r"(?:All|The (\d+) largest) flows between", text)
            assert number is not None
            assert number[1] == (None if len(flows) <= 60 else "60")
            assert percents(text, "of the workers") == pytest.approx([100 * drawn.sum() / total], abs=0.5)
            stay = 100 * rows["S000"][home == work].sum() / total
            assert percents(text, "live and work in one") == pytest.approx(
                [stay] if stay >= 0.5 else [], abs=0.5
            )
            # Distances
            known, text = inside["S000"].sum(), words[draw_distances]
            if known:
                half = inside["km"].iloc[np.searchsorted(inside["S000"].cumsum(), known / 2)]
                assert f"median {half:.1f} km" in text
                assert f"mean {np.average(inside['km'], weights=inside['S000']):.1f} km" in text
            further = re.search(r"([\d.]+)% of these go further than (\d+\.?\d*) km", text)
            if further is not None:
                share = inside["S000"][inside["km"] > float(further[2])].sum() / known
                assert float(further[1]) == pytest.approx(100 * share, abs=0.051)
            beyond = 100 * (total - known) / total
            # Directions
            still = 100 * inside["S000"][inside["km"] == 0].sum() / max(known, 1)
            shown = percents(words[draw_rose], "have home and work at one point")
            assert shown == pytest.approx([still] if known and still >= 0.5 else [], abs=0.5)
            for draw in (draw_distances, draw_rose):
                assert percents(words[draw], "who live in the region") == pytest.approx(
                    [100 - beyond] if beyond else [], abs=0.051
                )
                assert ("share of workers" in words[draw]) == (known == total)
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
            seen |= {name for name, there in (("beyond", beyond), ("still", still), ("off", off)) if there}
    assert "beyond" in seen


def test_external_zones_have_names(zoned: Release) -> None:
    for level, code in (("st", "25"), ("trct", "25999999999"), ("tabblk2010", "259999999999999")):
        subject = FigureSubject(zoned, zoned.find_area(code), "residents", "S000")
        assert subject.place.startswith("Massachusetts ("), level
