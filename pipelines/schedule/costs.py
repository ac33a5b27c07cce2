"""What the periods of a calendar would cost, what each leaves of its budget, and where that ends.

Told before anything is spent, from configurations, the ledger and plans that are there; nothing confidential
is read. Payments are tried on the entries of the ledger in memory, by the rules that the ledger itself has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import LedgerSettings
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import line_of_text, spent_of
from pipelines.ledger.chain import Entry, LedgerError
from pipelines.running.folder import RunFolder
from pipelines.running.payment import left_in, most_cost_of, read_ledger
from pipelines.running.preflight import PLAN_FOLDER, PLAN_NUMBERS
from pipelines.schedule.calendar import Calendar, Occurrence
from pipelines.schedule.records import Records
from pipelines.storage.errors import shown_message
from synth.rationals import decimal_down, decimal_up, exact

_SHOWN, _SEARCHED = timedelta(days=366), timedelta(days=3660)


@dataclass(frozen=True)
class Cost:
    """What one period would cost."""

    name: str
    due: datetime
    epsilon: Fraction  # what would be debited at most, as it stands in a certificate
    delta: Fraction
    account: str | None  # data set and ledger that pay; None if there is no ledger
    # Epsilon and delta that the budgets still allow afterwards, the smaller of its period's and of that
    # of all periods.
    left: tuple[Fraction, Fraction] | None
    payable: bool  # whether the budget suffices
    text: str  # all this for people, in one line


@dataclass(frozen=True)
class Outlook:
    """What the periods to come would cost."""

    # Of what is due and not finished, and of the coming year, at least one period of each schedule.
    costs: tuple[Cost, ...] = ()
    ends: tuple[str, ...] = ()  # of every budget, the first period that it does not pay, one line each
    problems: tuple[str, ...] = ()  # why a ledger cannot be used, one line each


def period_cost(config: ReleaseConfig, planned: Path) -> tuple[Fraction, Fraction, str]:
    """Return the epsilon and delta that a release would be debited, and where they are from.

    They are "certified" if a plan of this very configuration is in the folder, else "requested": then it
    is the most that the release may cost.
    """
    requested = most_cost_of(config)
    try:
        document = json.loads((planned / PLAN_FOLDER / "plan.json").read_bytes())
        numbers = json.loads((planned / PLAN_NUMBERS).read_bytes())
        certified = exact(numbers["debit"]["epsilon"]), exact(numbers["debit"]["delta"])
        if document["configuration"] != config.public.quoted():
            return *requested, "requested"
    except (OSError, ValueError, TypeError, KeyError):
        return *requested, "requested"
    return *certified, "certified"


def outlook(calendar: Calendar, due: Iterable[Occurrence], now: datetime) -> Outlook:
    """Say what the periods of a calendar would cost, and where the budget ends.

    The end of a budget is looked for in the next ten years.
    """
    books = _Books(Records(calendar.records))
    costs = [books.pay(occurrence) for occurrence in due]
    shown: set[str] = set()
    for occurrence in calendar.coming(now):
        soon, schedule = occurrence.at <= now + _SHOWN, occurrence.schedule.name
        searching = any(first is None for first in books.firsts.values())
        if occurrence.at > now + _SEARCHED or not (soon or searching or len(shown) < len(calendar.schedules)):
            break
        cost = books.pay(occurrence)
        if soon or schedule not in shown:
            costs.append(cost)
        shown.add(schedule)
    until = (now + _SEARCHED).date().isoformat()
    ends = [
        f"{account}: ends before {first.name}, due {first.due.date()}, the first period that it does not pay"
        if first is not None
        else f"{account}: pays every period until {until}"
        for account, first in books.firsts.items()
    ]
    return Outlook(tuple(costs), tuple(ends), tuple(books.problems))


class _Books:
    """The ledgers of a calendar in memory, into which payments are entered to see what would be left."""

    def __init__(self, store: Records) -> None:
        self.store = store
        self.entries: dict[Path, list[Entry]] = {}
        self.unfinished: dict[Path, list[Entry]] = {}
        self.firsts: dict[str, Cost | None] = {}
        self.problems: list[str] = []

    def pay(self, occurrence: Occurrence) -> Cost:
        """Enter a payment, if the budget allows it."""
        try:
            config = occurrence.config()
        except ConfigError as error:
            words = f"unknown: {shown_message(error, one_line=True)}"
            return _cost(occurrence, (Fraction(0), Fraction(0)), None, None, False, words)
        *requested, source = period_cost(config, self.store.plan(occurrence.name))
        cost = requested[0], requested[1]
        words = f"epsilon {_up(cost[0])}, delta {_up(cost[1])} ({source})"
        if (settings := config.ledger) is None:
            return _cost(occurrence, cost, None, None, True, f"{words}; no [ledger] limits it")
        account = f"{settings.data_set} ({settings.file})"
        if (entries := self._read(settings)) is None:
            return _cost(occurrence, cost, account, None, False, f"{words}; the ledger cannot be used")
        left = left_in(entries, settings)
        self.firsts.setdefault(account, None)
        shares = occurrence.schedule.file.shares
        if shares is not None and occurrence.number > shares:
            payable, why = False, f"no share: it is number {occurrence.number} of {shares}"
        elif why := self._paid(config, settings):
            payable, cost = True, (Fraction(0), Fraction(0))
        else:
            payable = cost[0] <= left[0] and cost[1] <= left[1]
            why = words if payable else f"{words}; the budget does not suffice, it would be set aside"
        if payable and any(cost):
            left = left[0] - cost[0], left[1] - cost[1]
            data_set = line_of_text(settings.data_set, "data set")
            total = settings.over_all_periods
            stated = [Entry(0, "", "budget", data_set, None, *total)] if total is not None else []
            debit = Entry(0, "", "debit", data_set, settings.period, *cost)
            self.entries[settings.file] = _summed([*entries, *stated, debit])
        summary = (
            f"{why}; left {'then' if payable else 'are'} epsilon {_down(left[0])}, delta {_down(left[1])}"
        )
        cost_of_period = _cost(occurrence, cost, account, left, payable, summary)
        if not payable and self.firsts[account] is None:
            self.firsts[account] = cost_of_period
        return cost_of_period

    def _read(self, settings: LedgerSettings) -> list[Entry] | None:
        """Return what limits further debits in a ledger: what was spent in each period, and budgets for ever.

        None if it cannot be used.
        """
        if settings.file not in self.entries:
            try:
                entries = read_ledger(settings, dry_run=True)
            except (LedgerError, OSError) as error:
                problem = shown_message(error, one_line=True)
                self.problems += [problem] * (problem not in self.problems)
                return None
            finished = {entry.debit for entry in entries if entry.kind == "finished"}
            debits = [entry for entry in entries if entry.kind == "debit"]
            self.unfinished[settings.file] = [entry for entry in debits if entry.hash not in finished]
            self.entries[settings.file] = _summed(entries)
        return self.entries[settings.file]

    def _paid(self, config: ReleaseConfig, settings: LedgerSettings) -> str:
        """Say that a release is paid for already; empty if nothing shows that it is."""
        out = config.release.out
        if RunFolder(out).checked:
            return f"nothing more: a release is in {out}"
        if not RunFolder.of(out).begun:
            return ""
        data_set = line_of_text(settings.data_set, "data set")
        name = line_of_text(config.release.name, "release")
        for entry in self.unfinished[settings.file]:
            if entry.data_set == data_set and (entry.release or "").startswith(f"{name}, run "):
                return f"nothing more: entry {entry.entry} of the ledger paid for it"
        return ""


def _summed(entries: list[Entry]) -> list[Entry]:
    """Return what limits further debits, in few entries: budgets for ever, and what each period has spent."""
    budgets = {e.data_set: e for e in entries if e.kind == "budget" and e.period is None}
    spent: dict[tuple[str, str | None], list[Entry]] = {}
    for entry in entries:
        if entry.kind == "debit":
            spent.setdefault((entry.data_set or "", entry.period), []).append(entry)
    return [
        *budgets.values(),
        *(Entry(0, "", "debit", *key, *spent_of(debits, *key)) for key, debits in spent.items()),
    ]


def _cost(
    occurrence: Occurrence,
    cost: tuple[Fraction, Fraction],
    account: str | None,
    left: tuple[Fraction, Fraction] | None,
    payable: bool,
    words: str,
) -> Cost:
    text = f"{occurrence.name}, due {occurrence.local}: {words}"
    return Cost(occurrence.name, occurrence.at, *cost, account, left, payable, text)


def _up(value: Fraction) -> str:
    return decimal_up(value, 6)


def _down(value: Fraction) -> str:
    return decimal_down(value, 6)
