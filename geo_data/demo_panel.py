"""A generated panel: the workers of the generated region, some of whom move or change jobs every year."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geo_data.demo import draw_rows, empty_folder
from geo_data.demo_places import (
    Places,
    RegionJobs,
    draw_places_and_jobs,
    inside,
    write_jobs,
    write_places,
    write_region_config,
)

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_FIRST = 2010
_PLANT, _ESTATE = 500, 500  # jobs, and workers who move in
_MOST_YEARS = 30
_LIFE = Fraction("8.6"), Fraction("1e-5")  # what all years together may cost

_LEDGER = """
[ledger]
file = "ledger.sqlite"
data_set = "workers of the simulated panel"
epsilon = "8.6"   # of all years together
delta = "1e-5"
"""

_SCHEDULE = """\
# Every February, the release of the year before. Made by `odsynth simulate`.
base = "../panel.toml"
dates = [{dates}]
period = "year"

[set]
"release.year" = "{{year}}"
"release.out" = "release-{{year}}"
"jobs.file" = "jobs-{{year}}.parquet"
"""


@dataclass(frozen=True)
class Change:
    """What changes from year to year."""

    moving: float
    changing: float
    growing: float


def simulate_panel(
    folder: str | os.PathLike[str],
    *,
    years: int = 10,
    moving: float = 0.04,
    changing: float = 0.06,
    growing: float = 0.01,
    seed: int = 1,
) -> Path:
    """Write jobs of the same workers in several years, the first 2010, and a configuration and a calendar.

    The first year is `simulate_region`, with its public tables, which do not change: like a census, they are
    of the first year only. Then, every year:

    - workers move: a new home is drawn from where workers of their workplace live;
    - workers change their workplace: a new one is drawn, by its jobs, from where people of their home work;
    - the pull of every tract, on homes and on jobs, changes by a lognormal factor.

    In the middle year, a plant opens in the tract with fewest jobs, in a block that had none. Its 500 workers
    are new, and live in one tract, which nobody commuted from before or few did. In the year after, an
    estate is built in the tract with fewest residents, in a block where nobody ever lived: 500 workers of
    all workplaces move there.

    Parameters
    ----------
    folder : str or path
        Made if it is not there; must be empty.
    years : int
        From 1 to 30. With fewer than 4 neither plant nor estate is built.
    moving : float
        Share of workers who move in a year. In the United States 11.7 % of people moved in 2012-13 (Census
        Bureau, Current Population Survey), a third of them to another county, which is the default.
    changing : float
        Share of workers who change their workplace in a year. In the United States 24 % of employees had
        been with their employer for a year or less in 2006 (Bureau of Labor Statistics). The default is
        lower: with it and that of `moving`, a tenth of jobs change home or workplace in a year.
    growing : float
        Standard deviation of the logarithm of the yearly factors of tracts. Populations of counties of the
        United States change by about a hundredth a year.
    seed : int
        Equal seeds give equal files.

    Returns
    -------
    Path
        The configuration of the first year, ``panel.toml``. Beside it are ``jobs-YEAR.parquet``, with the
        column ``worker``; the schedule ``calendar/panel.toml``; and ``planted.json``, the truth of what
        changed.

    Raises
    ------
    InputError
        If there is anything in the folder.
    ValueError
        If a rate or the number of years is out of its range.
    """
    if not 1 <= years <= _MOST_YEARS:
        raise ValueError(f"years: {years} is not from 1 to {_MOST_YEARS}")
    for name, rate in {"moving": moving, "changing": changing, "growing": growing}.items():
        if not 0 <= rate <= 1:
            raise ValueError(f"{name}: {rate} is not from 0 to 1")
    folder = empty_folder(folder)
    places, jobs = draw_places_and_jobs(np.random.default_rng(seed))
    write_places(folder, places)
    panel = _Panel(places, jobs, Change(moving, changing, growing), np.random.default_rng([seed, 1]))
    plant_year, estate_year = years // 2, years // 2 + 1
    planted: dict[str, object] = {"seed": seed, "moving": moving, "changing": changing, "growing": growing}
    counts = []
    for year in range(years):
        changed = panel.next_year() if year else {"moved": 0, "changed_workplace": 0}
        if year == plant_year and years >= 4:
            planted["plant"] = {"year": _FIRST + year, **panel.open_plant()}
        if year == estate_year and years >= 4:
            planted["estate"] = {"year": _FIRST + year, **panel.build_estate()}
        path = folder / f"jobs-{_FIRST + year}.parquet"
        write_jobs(path, panel.places, panel.jobs, worker=np.arange(len(panel.jobs.home)))
        counts.append({"year": _FIRST + year, "jobs": len(panel.jobs.home), **changed})
    planted["years"] = counts
    (folder / "planted.json").write_text(json.dumps(planted, indent=2) + "\n", encoding="utf-8")
    dates = ", ".join(f"{_FIRST + year + 1}-02-01" for year in range(years))
    calendar = folder / "calendar"
    calendar.mkdir()
    (calendar / "panel.toml").write_text(_SCHEDULE.format(dates=dates), encoding="utf-8")
    return write_region_config(
        folder / "panel.toml",
        places,
        len(jobs.home),
        _LEDGER,
        epsilon=_share(_LIFE[0], years),
        delta=_share(_LIFE[1], years),
        title=f"A generated region of {len(jobs.home):,} workers, who are followed over {years} year(s).",
        name="Simulated panel",
        state="panel",
        year=_FIRST,
        out=f"release-{_FIRST}",
        jobs=f"jobs-{_FIRST}",
    )


def _share(whole: Fraction, years: int) -> str:
    """Return what one of some years may cost, rounded down to eight digits after the point."""
    return f"{Decimal(int(whole / years * 10**8)).scaleb(-8).normalize():f}"


class _Panel:
    """The workers of a year, and how those of the next one come about."""

    def __init__(self, places: Places, jobs: RegionJobs, change: Change, rng: np.random.Generator) -> None:
        self.places, self.jobs = places, jobs
        self._change, self._rng = change, rng
        self._lived = np.zeros(len(places.region.tract), bool)  # whether anybody ever did, by block
        self._lived[jobs.home] = True
        n = len(places.region.tract_x)
        self._homes, self._workplaces = (
            np.ones(n),
            np.ones(n),
        )  # the pull of tracts, of which 1 is that at first

    def next_year(self) -> dict[str, int]:
        """Let a year pass; return how many workers moved, and changed their workplace."""
        rng, jobs, tract = self._rng, self.jobs, self.places.region.tract
        for pull in (self._homes, self._workplaces):
            pull *= rng.lognormal(0, self._change.growing, pull.size)
        earnings = jobs.attributes["earnings"]
        moves, changes = (
            rng.random(jobs.home.size) < rate for rate in (self._change.moving, self._change.changing)
        )
        size = self.places.size * self._workplaces[tract[self.places.work]]
        for category, shares in enumerate(self.places.shares):
            some = np.flatnonzero(changes & (earnings == category))
            by_home = np.cumsum((shares * size[:, np.newaxis]).T, axis=1)
            jobs.place[some] = draw_rows(rng, by_home, tract[jobs.home[some]])
            some = np.flatnonzero(moves & (earnings == category))
            home_tract = draw_rows(rng, np.cumsum(shares * self._homes, axis=1), jobs.place[some])
            jobs.home[some] = inside(rng, home_tract, self.places.weight, tract)
        self._lived[jobs.home] = True
        return {"moved": int(moves.sum()), "changed_workplace": int(changes.sum())}

    def open_plant(self) -> dict[str, object]:
        """Open a workplace of 500 new workers, who live in one tract."""
        places, jobs, tract = self.places, self.jobs, self.places.region.tract
        n = len(places.region.tract_x)
        work = int(np.argmin(np.bincount(tract[places.work[jobs.place]], minlength=n)))
        block = int(np.setdiff1d(np.flatnonzero(tract == work), places.work)[0])
        flow = np.bincount(tract[jobs.home[tract[places.work[jobs.place]] == work]], minlength=n)
        residents = np.bincount(tract[jobs.home], minlength=n)
        home = int(np.lexsort([-residents, flow])[0])
        self.places = replace(
            places,
            work=np.append(places.work, block),
            size=np.append(places.size, _PLANT),
            shares=tuple(
                np.vstack([shares, flows[work] / flows[work].sum()])
                for shares, flows in zip(places.shares, places.flows, strict=True)
            ),
        )
        like = self._rng.integers(0, jobs.home.size, _PLANT)
        homes = inside(self._rng, np.full(_PLANT, home), places.weight, tract)
        self.jobs = RegionJobs(
            np.append(jobs.place, np.full(_PLANT, places.work.size)),
            np.append(jobs.home, homes),
            {name: np.append(codes, codes[like]) for name, codes in jobs.attributes.items()},
        )
        codes = places.region.crosswalk
        return {
            "jobs": _PLANT,
            "work_block": codes["tabblk2010"].iloc[block],
            "work_tract": codes["trct"].iloc[block],
            "home_tract": codes["trct"][tract == home].iloc[0],
            "flow_before": int(flow[home]),
        }

    def build_estate(self) -> dict[str, object]:
        """Build homes for 500 workers where nobody ever lived."""
        places, jobs, tract = self.places, self.jobs, self.places.region.tract
        residents = np.bincount(tract[jobs.home], minlength=len(places.region.tract_x))
        empty = np.unique(tract[~self._lived])
        home = int(empty[np.argmin(residents[empty])])
        block = int(np.flatnonzero((tract == home) & ~self._lived)[0])
        some = self._rng.choice(jobs.home.size, _ESTATE, replace=False)
        jobs.home[some] = block
        # Who moves later finds it as full as other homes of the tract.
        grown = _ESTATE / max(int(residents[home]), 1)
        weight = places.weight.copy()
        weight[block] = weight[tract == home].sum() * grown
        self.places = replace(places, weight=weight)
        self._homes[home] *= 1 + grown
        self._lived[block] = True
        codes = places.region.crosswalk
        return {
            "workers": _ESTATE,
            "home_block": codes["tabblk2010"].iloc[block],
            "home_tract": codes["trct"].iloc[block],
            "residents_before": int(residents[home]),
        }
