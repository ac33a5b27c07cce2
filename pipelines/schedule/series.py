"""A series: the releases of a calendar over many years, what each costs, and what all cost together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pandas as pd

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.ledger.budgets import amounts_in_words
from pipelines.schedule.calendar import read_calendar
from pipelines.schedule.costs import Cost
from pipelines.schedule.due import look_ahead
from pipelines.schedule.summary import Summary

_NONE = "-"


def series(folder: PathLike, *, years: int = 20, now: datetime | None = None) -> Summary:
    """Say what the releases of a calendar cost over many years; nothing is made, and nothing is paid.

    What is planned already costs what its plan is certified for, the rest what it asks for.

    Parameters
    ----------
    folder : str or path
        The calendar.
    years : int
    now : datetime, optional
        For tests.

    Returns
    -------
    Summary
        `Summary.outlook` has the releases; `series_table` makes a table of them.
    """
    now = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    time = timedelta(days=366 * years)
    return look_ahead(read_calendar(path_of(folder, "folder")), now, time, time)


def series_table(costs: tuple[Cost, ...], delta: Fraction) -> pd.DataFrame:
    """Return a table of releases: what each costs, and what its data set has cost by then at a delta.

    Costs are rounded up, what is left is rounded down.

    Parameters
    ----------
    costs : tuple of Cost
        Of an `Outlook`.
    delta : Fraction

    Returns
    -------
    DataFrame
        Texts. A release that no budget pays is not among those that are counted together.
    """
    return pd.DataFrame([_row(cost, delta) for cost in costs])


def _row(cost: Cost, delta: Fraction) -> dict[str, str]:
    own = {} if cost.cost is None else cost.cost._asdict()
    sums, rho = (None, None) if cost.spent is None else cost.spent.epsilons_at(delta)
    return {
        "release": cost.name,
        "due": cost.due.date().isoformat(),
        "paid": _NONE if cost.account is None else "yes" if cost.payable else "later" if cost.waits else "no",
        "epsilon": _up(own.get("epsilon")),
        "delta": _up(own.get("delta")),
        "rho": _up(own.get("rho")),
        "together, by sums": _up(sums),
        "by zCDP": _up(rho),
        "left": _NONE if cost.left is None else amounts_in_words(cost.left, synth.decimal_down, 4),
    }


def _up(amount: Fraction | None) -> str:
    return _NONE if amount is None else synth.decimal_up(amount, 4)


def draw_series(costs: tuple[Cost, ...], delta: Fraction, path: PathLike) -> None:
    """Draw the epsilon of all releases of each data set together, by both accounts, as a PNG.

    Parameters
    ----------
    costs : tuple of Cost
        Of an `Outlook`.
    delta : Fraction
        At which the epsilons are told.
    path : str or path
    """
    path = path_of(path, "path")
    from matplotlib.figure import Figure  # takes its time
    from matplotlib.ticker import MaxNLocator

    fig = Figure(figsize=(9, 4.4), layout="constrained")
    axis = fig.subplots()
    for account in dict.fromkeys(cost.account for cost in costs if cost.spent is not None):
        paid = [cost for cost in costs if cost.account == account and cost.spent is not None]
        name = (account or "").partition(" (")[0]
        for number, (words, style) in enumerate((("plain sums", "-o"), ("zCDP", "--s"))):
            points = [(_year(cost.due), cost.spent.epsilons_at(delta)[number]) for cost in paid if cost.spent]
            known = [(year, float(epsilon)) for year, epsilon in points if epsilon is not None]
            years, epsilons = zip(*known, strict=True) if known else ((), ())
            axis.plot(years, epsilons, style, ms=4, label=f"{name}, {words}")
    axis.set(
        xlabel="year", ylabel=f"epsilon of all releases, at delta {synth.decimal_up(delta)}", ylim=(0, None)
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.spines[["top", "right"]].set_visible(False)
    if axis.lines:
        axis.legend(frameon=False)
    fig.savefig(path, dpi=110)


def _year(due: datetime) -> float:
    return due.year + due.timetuple().tm_yday / 367
