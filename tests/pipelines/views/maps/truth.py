"""What the numbers of a map should be, from posterior draws and the released files, by plain sums."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pyproj import Geod

from geo_data.od_files import count_columns
from pipelines import PosteriorDraws
from synth.posterior.intervals import quantiles

# A unit's code begins the codes of its blocks, and so does an external zone's.
DIGITS = {"st": 2, "cty": 5, "trct": 11, "bgrp": 12, "tabblk2010": 15}
EDGES = (5, 10, 20, 50)
SAME_PLACE, ONE_CENTROID = 8, 9  # instead of the number of a direction


def numbers(words: str) -> list[float]:
    """All numbers in a text, a sign before them with them where it is a hyphen."""
    return [
        float(n.replace(",", "")) for n in re.findall(r"(?<![\w\d])-?\d[\d,]*\.?\d*|\d[\d,]*\.?\d*", words)
    ]


def share(part: float, whole: float) -> float:
    """As a page rounds it: below a tenth of a percent it says so."""
    percent = 100 * part / whole if whole else 0.0
    return 0.1 if 0 < percent < 0.1 else percent


def with_distances(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Rows of released files with zones of homes beyond the region, and places and distances of others."""
    blocks = pd.read_parquet(folder / "plan" / "blocks.parquet").set_index("tabblk2010")
    ends = [
        blocks[axis].reindex(rows[side]).to_numpy()
        for side in ("h_geocode", "w_geocode")
        for axis in ("longitude", "latitude")
    ]
    zone = rows["h_geocode"].str[:2].where(rows["h_geocode"].str.endswith("9" * 13), "")
    known = (zone == "").to_numpy()
    km = np.full(len(rows), np.nan)
    km[known] = Geod(ellps="WGS84").inv(*(axis[known] for axis in ends))[2] / 1000
    names = ["home_longitude", "home_latitude", "work_longitude", "work_latitude"]
    return rows.assign(zone=zone, km=km, **dict(zip(names, ends, strict=True)))


class Truth:
    """What intervals should be, by plain sums of the draws: jobs by draw, home and work."""

    def __init__(self, draws: PosteriorDraws) -> None:
        self.draws, geography = draws, draws.release.geography
        self.level = "bgrp"
        self.codes = geography.codes(self.level).astype(str)
        self.jobs = self._flows(self.level)
        self.tracts = geography.codes("trct").astype(str), self._flows("trct")

    def _flows(self, level: str) -> np.ndarray:
        n, cells = self.draws.release.geography.n_units(level), self.draws.cells(level, level)
        jobs = np.zeros((self.draws.draws, n, n), np.int64)
        jobs[:, cells.home, cells.work] = cells.counts
        return jobs

    def of(self, home: str | list[str] | None, work: str | list[str] | None) -> np.ndarray:
        """Jobs in each draw of those whose codes begin so; by the table of tracts, if these do."""
        begins = [
            ("",) if begin is None else (begin,) if isinstance(begin, str) else tuple(begin)
            for begin in (home, work)
        ]
        fine = any(len(code) > DIGITS["trct"] for begin in begins for code in begin if code[2:] != "9" * 13)
        codes, jobs = (self.codes, self.jobs) if fine else self.tracts
        own = [np.array([code.startswith(begin) for code in codes]) for begin in begins]
        return jobs[:, own[0]][:, :, own[1]].sum(axis=(1, 2))

    def residents(self, column: str, home: list[str]) -> np.ndarray:
        """Jobs in each draw of residents who are counted in a column."""
        (name,) = (
            name
            for name, columns in count_columns(self.draws.release.categories).items()
            if column in columns
        )
        cells = self.draws.cells("trct", None, (name,))
        category = count_columns(self.draws.release.categories)[name].index(column)
        inside = [code.startswith(tuple(home)) for code in self.tracts[0][cells.home]]
        own = np.array(inside) & (cells.categories[0] == category)
        return cells.counts[:, own].sum(axis=1)

    def commutes(self, jobs: pd.DataFrame, side: str, choice: list[str]) -> Commutes | None:
        """Of a choice, or of all, in each draw; None where a draw has nobody.

        Jobs between two units are as the released ones or, without any, as from centroid to centroid.
        """
        places, digits = self.draws.release.places(self.level).set_index("code"), DIGITS[self.level]
        inside = jobs[jobs["zone"] == ""]
        cells = pd.DataFrame({"h": inside["h_geocode"].str[:digits], "w": inside["w_geocode"].str[:digits]})
        parts = inside.assign(**cells).rename(columns={"S000": "n"})
        parts["n"] /= parts.groupby(["h", "w"])["n"].transform("sum")
        parts["one"] = parts["h_geocode"] == parts["w_geocode"]
        known = self.codes[np.isfinite(places["latitude"].to_numpy())]
        drawn = self.jobs.any(axis=0)
        released = set(zip(parts["h"], parts["w"], strict=True))
        at = {code: i for i, code in enumerate(self.codes)}
        lacking = [(h, w) for h in known for w in known if drawn[at[h], at[w]] and (h, w) not in released]
        ends_of = [places.loc[[pair[end] for pair in lacking]] for end in (0, 1)]
        more = pd.DataFrame(lacking, columns=["h", "w"], dtype=object).assign(n=1.0)
        more["one"] = more["h"] == more["w"]
        for end, rows in zip(("home", "work"), ends_of, strict=True):
            for axis in ("longitude", "latitude"):
                more[f"{end}_{axis}"] = rows[axis].to_numpy()
        axes = [more[f"{end}_{axis}"] for end in ("home", "work") for axis in ("longitude", "latitude")]
        more["km"] = Geod(ellps="WGS84").inv(*axes)[2] / 1000
        rows = pd.concat([parts, more], ignore_index=True)

        own = {end: rows[end].str.startswith(tuple(choice)).to_numpy() for end in ("h", "w")}
        counted = {"work": own["w"], "home": own["h"], "both": own["h"] | own["w"]}[side]
        at_work = own["w"] if side == "both" else np.full(len(rows), side == "work")
        rows, at_work = rows[counted], at_work[counted]
        weights = self.jobs[:, [at[h] for h in rows["h"]], [at[w] for w in rows["w"]]] * rows["n"].to_numpy()
        if not weights.sum(axis=1).all():
            return None
        near, far = (np.where(at_work, *pair) for pair in (("work", "home"), ("home", "work")))
        place = [
            np.radians([rows[f"{end}_{axis}"].iloc[i] for i, end in enumerate(which)])
            for which in (near, far)
            for axis in ("longitude", "latitude")
        ]
        km = rows["km"].to_numpy()
        direction = np.where(rows["one"], SAME_PLACE, ONE_CENTROID)
        direction = np.where(km > 0, compass(*place), direction)
        return Commutes(weights, km, direction)


def compass(x1: np.ndarray, y1: np.ndarray, x2: np.ndarray, y2: np.ndarray) -> np.ndarray:
    """Number of the direction, from north by east, in which a great circle to place 2 begins."""
    east = np.sin(x2 - x1) * np.cos(y2)
    north = np.cos(y1) * np.sin(y2) - np.sin(y1) * np.cos(y2) * np.cos(x2 - x1)
    return np.floor(np.degrees(np.arctan2(east, north)) / 45 + 0.5).astype(int) % 8


@dataclass(frozen=True, eq=False)
class Commutes:
    """Jobs in each draw by row, and how far, in which direction their other ends are."""

    weights: np.ndarray
    km: np.ndarray
    direction: np.ndarray

    @property
    def jobs(self) -> np.ndarray:
        return self.weights.sum(axis=1)

    @property
    def mean(self) -> np.ndarray:
        return self.weights @ self.km / self.jobs

    @property
    def median(self) -> np.ndarray:
        order = np.argsort(self.km)
        below = np.cumsum(self.weights[:, order], axis=1)
        return self.km[order][(below >= self.jobs[:, None] / 2 - 1e-6).argmax(axis=1)]

    def counted(self, direction: int | None = None, distance: int | None = None) -> np.ndarray:
        """Jobs of a direction, of a class of distances, or of both."""
        own = np.ones(len(self.km), bool)
        if direction is not None:
            own &= self.direction == direction
        if distance is not None:
            own &= np.searchsorted(EDGES, self.km, side="right") == distance
        return self.weights[:, own].sum(axis=1)


def ends(values: np.ndarray) -> list[float]:
    return [float(end) for end in quantiles(values)]
