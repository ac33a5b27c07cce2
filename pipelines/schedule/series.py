"""A series: the releases of a calendar over many years, what each costs and loses, and what all cost."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import Amounts, amounts_in_words, gaussian_epsilon
from pipelines.schedule.calendar import read_calendar
from pipelines.schedule.costs import Cost, Outlook
from pipelines.schedule.due import look_ahead
from pipelines.schedule.forecasts import Forecast, forecasts
from pipelines.schedule.records import Records
from pipelines.schedule.shares import noise_in_words
from pipelines.views.pages import render
from synth.tails import exp_up

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NONE = "-"
_MOST = 100  # of an epsilon that is told in words: with more nothing is promised that a person could tell


@dataclass(frozen=True)
class Series:
    """The releases of a calendar over many years.

    Attributes
    ----------
    name : str
        Of the calendar's folder.
    delta : Fraction
        At which the epsilon of all releases is told.
    outlook : Outlook
        What each release costs, and where budgets end.
    problems : tuple of str
        What is wrong with files of the calendar, or a ledger, one line each.
    forecasts : dict of str to Forecast
        The expected error of releases, by name, where a plan tells it.
    noises : tuple of str
        For each schedule, which noise loses less, one line each.
    """

    name: str
    delta: Fraction
    outlook: Outlook
    problems: tuple[str, ...] = ()
    forecasts: dict[str, Forecast] = field(default_factory=dict)
    noises: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Return a table of releases: what each costs and loses, and what its data set has cost by then.

        Texts. Costs are rounded up, what is left is rounded down. A release that no budget pays is not among
        those that are counted together. Of the tables that a release is for: the share of jobs that it is
        expected to count elsewhere.
        """
        rows = [_row(cost, self.delta) for cost in self.outlook.costs]
        for row, cost in zip(rows, self.outlook.costs, strict=True):
            tables = self.forecasts[cost.name].tables if cost.name in self.forecasts else ()
            row |= {f"loss: {table.table}": f"{table.loss:.3f}" for table in tables}
        return pd.DataFrame(rows).fillna(_NONE)

    def _table_of_costs(self) -> pd.DataFrame:
        """Return the table without losses, and with the release whose plan says what is expected."""
        rows = [_row(cost, self.delta) for cost in self.outlook.costs]
        for row, cost in zip(rows, self.outlook.costs, strict=True):
            row["errors as for"] = self.forecasts[cost.name].planned if cost.name in self.forecasts else _NONE
        return pd.DataFrame(rows)

    def draw(self, path: PathLike) -> None:
        """Draw the epsilon of all releases of each data set together, by each account, as a PNG."""
        self._figure().savefig(path_of(path, "path"), dpi=110)

    def write_page(self, path: PathLike) -> None:
        """Write a page for those who decide, in one HTML file without paths of this machine."""
        if not (costs := self.outlook.costs):
            raise ConfigError(f"{self.name}: no release is to come, so there is no page; add later times")
        picture = io.BytesIO()
        self._figure().savefig(picture, format="png", dpi=110)
        context: dict[str, Any] = {
            "name": self.name,
            "first": costs[0].due.date(),
            "last": costs[-1].due.date(),
            "paid": sum(cost.payable for cost in costs),
            "delta": synth.decimal_up(self.delta),
            "table": self._table_of_costs(),
            "picture": base64.b64encode(picture.getvalue()).decode(),
            "totals": self._totals(),
            "ends": [_without_folder(end) for end in self.outlook.ends],
            "gaps": self.outlook.gaps,
            "windows": any(cost.waits for cost in costs),
            "forecasts": self.plans,
            "noises": self.noises,
            "problems": len(self.problems),
        }
        path_of(path, "path").write_text(render("series.html", **context), encoding="utf-8")

    @property
    def plans(self) -> dict[str, Forecast]:
        """Each forecast once, by the release whose plan says so."""
        return {forecast.planned: forecast for forecast in self.forecasts.values()}

    def _totals(self) -> list[tuple[str, str, str, str]]:
        """Return of each account its name, the epsilon of all releases, e to its power, and what is left.

        Without an epsilon that can be told, two texts are empty.
        """
        rows = []
        for account in dict.fromkeys(cost.account for cost in self.outlook.costs if cost.account):
            last = [cost for cost in self.outlook.costs if cost.account == account][-1]
            if last.left is None:
                continue
            known = [epsilon for epsilon in _epsilons(last, self.delta).values() if epsilon is not None]
            told = ("", "")
            if known and (epsilon := min(known)) <= _MOST:
                told = synth.decimal_up(epsilon, 4), synth.decimal_up(exp_up(epsilon), 3)
            rows.append((_without_folder(account), *told, _left_in_words(last.left)))
        return rows

    def _figure(self) -> Figure:
        from matplotlib.figure import Figure  # takes its time
        from matplotlib.ticker import MaxNLocator

        fig, costs = Figure(figsize=(9, 4.4), layout="constrained"), self.outlook.costs
        axis = fig.subplots()
        for account in dict.fromkeys(cost.account for cost in costs if cost.spent is not None):
            paid = [cost for cost in costs if cost.account == account and cost.spent is not None]
            name = (account or "").rpartition(" (")[0]
            told = [(_year(cost.due), _epsilons(cost, self.delta)) for cost in paid]
            for words, style in (("plain sums", "-o"), ("zCDP", "--s"), ("Gaussian noise", ":^")):
                known = [(year, float(each)) for year, by in told if (each := by[words]) is not None]
                axis.plot(
                    *(zip(*known, strict=True) if known else ((), ())), style, ms=4, label=f"{name}, {words}"
                )
        axis.set(
            xlabel="year",
            ylabel=f"epsilon of all releases, at delta {synth.decimal_up(self.delta)}",
            ylim=(0, None),
        )
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.spines[["top", "right"]].set_visible(False)
        if axis.lines:
            axis.legend(frameon=False)
        return fig


def series(
    folder: PathLike,
    *,
    years: int = 20,
    delta: Fraction = Fraction(1, 10**5),
    plan: bool = False,
    now: datetime | None = None,
) -> Series:
    """Say what the releases of a calendar cost and lose over many years; nothing is made or paid.

    What is planned already costs what its plan is certified for, the rest what it asks for. The expected
    error of a release is that of its plan, or of the last plan of its schedule that asks for the same.

    Parameters
    ----------
    folder : str or path
        The calendar.
    years : int
    delta : Fraction
        At which the epsilon of all releases is told.
    plan : bool
        Where there is no such plan, plan a release to learn its expected error. No home is read, and the plan
        is not kept.
    now : datetime, optional
        For tests.

    Returns
    -------
    Series
    """
    now = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    time, calendar = timedelta(days=366 * years), read_calendar(path_of(folder, "folder"))
    summary = look_ahead(calendar, now, time, time)
    outlook = summary.outlook or Outlook()
    coming = takewhile(lambda occurrence: occurrence.at <= now + time, calendar.coming(now))
    occurrences = [*calendar.due(now), *coming]
    named = {occurrence.name: occurrence for occurrence in occurrences}
    known = forecasts(occurrences, Records(calendar.records), plan=plan)
    told = {
        cost.name: known[cost.name] for cost in outlook.costs if cost.name in known
    }  # not of what is made
    noises = []
    for schedule in calendar.schedules:
        own = [named[cost.name] for cost in outlook.costs if cost.cost and cost.name in named]
        own = [occurrence for occurrence in own if occurrence.schedule is schedule]
        if own and (words := noise_in_words(own[0].config(), schedule.file.shares or len(own), delta)):
            noises.append(f"{schedule.name}: {words}")
    return Series(calendar.folder.name, delta, outlook, summary.problems, told, tuple(noises))


def _row(cost: Cost, delta: Fraction) -> dict[str, str]:
    own = {} if cost.cost is None else cost.cost._asdict()
    sums, rho, noise = _epsilons(cost, delta).values()
    return {
        "release": cost.name,
        "due": cost.due.date().isoformat(),
        "paid": _NONE if cost.account is None else "yes" if cost.payable else "later" if cost.waits else "no",
        "epsilon": _up(own.get("epsilon")),
        "delta": _up(own.get("delta")),
        "rho": _up(own.get("rho")),
        "together, by sums": _up(sums),
        "by zCDP": _up(rho),
        "by Gaussian noise": _up(noise),
        "left": _NONE if cost.left is None else _left_in_words(cost.left),
    }


def _epsilons(cost: Cost, delta: Fraction) -> dict[str, Fraction | None]:
    """Return the epsilon of all releases by then, by each way to add them up."""
    if cost.spent is None:
        return dict.fromkeys(("plain sums", "zCDP", "Gaussian noise"))
    sums, rho = cost.spent.epsilons_at(delta)
    noise = gaussian_epsilon(cost.rhos, delta) if cost.rhos else None
    return {"plain sums": sums, "zCDP": rho, "Gaussian noise": noise}


def _left_in_words(left: Amounts) -> str:
    """Say what is left, rounded down; a millionth of epsilon or rho pays for nothing."""
    parts = {
        name: amount if "delta" in name else Fraction(amount * 10**6 // 1, 10**6)
        for name, amount in left.items()
    }
    return amounts_in_words(parts, synth.decimal_down, 4)


def _up(amount: Fraction | None) -> str:
    return _NONE if amount is None else synth.decimal_up(amount, 4)


def _without_folder(account: str) -> str:
    """Return a text that begins with an account, with the name of the ledger's file in place of its path."""
    data_set, opened, rest = account.rpartition(" (")
    path, closed, words = rest.partition(")")
    return f"{data_set}{opened}{Path(path).name}{closed}{words}"


def _year(due: datetime) -> float:
    return due.year + due.timetuple().tm_yday / 367
