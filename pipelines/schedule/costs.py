"""What the periods of a calendar would cost, what each leaves of its budget, and where that ends.

Told before anything is spent, from configurations, the ledger and plans that are there; nothing confidential
is read. Payments are tried on the entries of the ledger in memory, by the rules that the ledger itself has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import Any

import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import LedgerSettings
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import (
    Amounts,
    Price,
    amounts_in_words,
    budgets_of_debit,
    cost_of_debits,
    counted,
    excess,
    last_budgets,
    line_of_text,
    spent_of,
    timed_debits,
    utc_text,
)
from pipelines.ledger.chain import Entry, LedgerError
from pipelines.plans.form import plan_hash
from pipelines.running.folder import RunFolder
from pipelines.running.payment import Debited, budgets_in, left_in, most_cost_of, read_ledger
from pipelines.running.preflight import PLAN_FOLDER, PLAN_NUMBERS
from pipelines.schedule.calendar import Calendar, Occurrence, Period
from pipelines.schedule.records import Records
from pipelines.storage.errors import shown_message
from synth.rationals import decimal_down, decimal_up

_SHOWN, _SEARCHED = timedelta(days=366), timedelta(days=3660)


@dataclass(frozen=True)
class Cost:
    """What one period would cost."""

    name: str
    due: datetime
    cost: synth.Cost | None  # what would be debited at most; None if its configuration cannot be used
    account: str | None  # data set and ledger that pay; None if there is no ledger
    # What the budgets still allow afterwards, the smaller of its period's and of that of all periods.
    left: Amounts | None
    spent: synth.Cost | None  # of the data set, in all periods, with this one if it is paid
    payable: bool  # whether the budget suffices
    text: str  # all this for people, in one line
    # Of the debits that `spent` has, the rho of each, where the ledger has one.
    rhos: tuple[Fraction | None, ...] = ()
    waits: bool = False  # whether it would suffice but for a window of years, which passes


@dataclass(frozen=True)
class Outlook:
    """What the periods to come would cost."""

    # Of what is due and not finished, and of the coming time, at least one period of each schedule.
    costs: tuple[Cost, ...] = ()
    ends: tuple[str, ...] = ()  # of every budget, the first period that it does not pay, one line each
    problems: tuple[str, ...] = ()  # why a ledger cannot be used, or what is overspent, one line each
    gaps: tuple[str, ...] = ()  # of every schedule, the periods between two others that it has no time for


def period_price(config: ReleaseConfig, planned: Path) -> tuple[Price, str]:
    """Return what a release would be debited, and where that is from.

    It is "certified" if a plan of this very configuration is in the folder, else "requested": then it is the
    most that the release may cost.
    """
    if (numbers := numbers_of_plan(config, planned)) is None:
        other = (
            "; the plan on record is of another configuration, and is not used" if planned.exists() else ""
        )
        return most_cost_of(config), f"requested{other}"
    return Debited.model_validate(numbers["debit"]).price, "certified"


def numbers_of_plan(config: ReleaseConfig, planned: Path) -> dict[str, Any] | None:
    """Return the numbers beside a plan; None if no plan of this very configuration is in the folder."""
    try:
        document = json.loads((planned / PLAN_FOLDER / "plan.json").read_bytes())
        numbers: dict[str, Any] = json.loads((planned / PLAN_NUMBERS).read_bytes())
        Debited.model_validate(numbers["debit"])
        if document["configuration"] == config.public.quoted():
            return numbers
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return None


def outlook(
    calendar: Calendar,
    due: Iterable[Occurrence],
    now: datetime,
    shown_time: timedelta = _SHOWN,
    searched_time: timedelta = _SEARCHED,
) -> Outlook:
    """Say what the periods of a calendar would cost, and where the budget ends.

    By default those of the next year; the end of a budget is looked for in the next ten years.
    """
    books = _Books(Records(calendar.records), now)
    costs = [books.pay(occurrence) for occurrence in due]
    shown: set[str] = set()
    for occurrence in calendar.coming(now):
        soon, schedule = occurrence.at <= now + shown_time, occurrence.schedule.name
        searching = any(first is None for first in books.firsts.values())
        if occurrence.at > now + searched_time or not (
            soon or searching or len(shown) < len(calendar.schedules)
        ):
            break
        cost = books.pay(occurrence)
        if soon or schedule not in shown:
            costs.append(cost)
        shown.add(schedule)
    until = (now + searched_time).date().isoformat()
    ends = [f"{account}: {_end(first, until)}" for account, first in books.firsts.items()]
    coming = takewhile(lambda occurrence: occurrence.at <= now + shown_time, calendar.coming(now))
    return Outlook(
        tuple(costs), tuple(ends), tuple(books.problems), tuple(_gaps([*calendar.due(now), *coming]))
    )


def _gaps(occurrences: Iterable[Occurrence]) -> Iterator[str]:
    """Say which periods a schedule leaves out between two others."""
    last: dict[str, Period] = {}
    for occurrence in occurrences:
        period, schedule = occurrence.period, occurrence.schedule.name
        if schedule in last and (missing := period.number - last[schedule].number - 1) > 0:
            labels = dict.fromkeys(period.earlier(by).label for by in (missing, 1))
            yield f"{schedule}: has no time for {' to '.join(labels)}: not released"
        last[schedule] = period


def _end(first: Cost | None, until: str) -> str:
    """Say where a budget ends, by the first period that it does not pay."""
    if first is None:
        return f"pays every period until {until}"
    words = f"{first.name}, due {first.due.date()}, the first period that it does not pay"
    if first.waits:
        return f"does not pay in time {words}; it is made once the window of years allows it"
    return f"ends before {words}"


class _Books:
    """The ledgers of a calendar in memory, into which payments are entered to see what would be left."""

    def __init__(self, store: Records, now: datetime) -> None:
        self.store, self.now = store, now
        self.entries: dict[Path, list[Entry]] = {}
        self.unfinished: dict[Path, list[Entry]] = {}
        self.rhos: dict[tuple[Path, str], list[Fraction | None]] = {}
        self.firsts: dict[str, Cost | None] = {}
        self.problems: list[str] = []

    def pay(self, occurrence: Occurrence) -> Cost:
        """Enter a payment, if the budget allows it."""
        name, due = occurrence.name, occurrence.at

        def told(words: str) -> str:
            return f"{name}, due {occurrence.local}: {words}"

        try:
            config = occurrence.config()
        except ConfigError as error:
            words = f"unknown: {shown_message(error, one_line=True)}"
            return Cost(name, due, None, None, None, None, False, told(words))
        price, source = period_price(config, self.store.plan(occurrence.name))
        cost = synth.Cost.of(*price)
        words = f"{_words(cost)} ({source})"
        if (settings := config.ledger) is None:
            return Cost(name, due, cost, None, None, None, True, told(f"{words}; no [ledger] limits it"))
        account = f"{settings.data_set} ({settings.file})"
        if (entries := self._read(settings)) is None:
            words = f"{words}; the ledger cannot be used"
            return Cost(name, due, cost, account, None, None, False, told(words))
        time = max(self.now, due)
        self._tell_overspent(entries, settings, utc_text(time))
        left = left_in(entries, settings, time)
        words = f"{_words(cost, left)} ({source})"
        self.firsts.setdefault(account, None)
        shares, waits = occurrence.schedule.file.shares, False
        if shares is not None and occurrence.number > shares:
            payable, why = False, f"no share: it is number {occurrence.number} of {shares}"
        elif why := self._paid(config, settings):
            payable, cost = True, synth.Cost.of_all(())
        else:
            payable = not excess(cost, left)
            waits = not payable and not excess(cost, left_in(entries, settings, time, windows=False))
            short = "the budget of years does not suffice yet" if waits else "the budget does not suffice"
            why = words if payable else f"{words}; {short}, it would be set aside"
        data_set = line_of_text(settings.data_set, "data set")
        rhos = self.rhos.setdefault((settings.file, data_set), [])
        if payable and any(cost):
            left = {key: amount - getattr(cost, key) for key, amount in left.items()}
            stated = [
                Entry(0, "", "budget", data_set, b.period, b.epsilon, b.delta, b.rho, years=b.years)
                for b in (budgets_in(settings)[0], *budgets_in(settings)[1])
            ]
            debit = Entry(0, utc_text(time), "debit", data_set, settings.period, *price)
            self.entries[settings.file] = _summed([*entries, *stated, debit], utc_text(time))
            rhos.append(price.rho)
        words = amounts_in_words(left, decimal_down, 6)
        summary = f"{why}; left {'then' if payable else 'are'} {words}"
        spent = spent_of(self.entries[settings.file], data_set, None)
        cost_of_period = Cost(
            name, due, cost, account, left, spent, payable, told(summary), tuple(rhos), waits
        )
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
            self.entries[settings.file] = _summed(entries, utc_text(self.now))
            for debit in debits:
                self.rhos.setdefault((settings.file, debit.data_set or ""), []).append(debit.rho)
        return self.entries[settings.file]

    def _tell_overspent(self, entries: list[Entry], settings: LedgerSettings, time: str) -> None:
        """Note the budgets of which more is spent than they allow, as where one was lowered."""
        data_set = line_of_text(settings.data_set, "data set")
        for budget in budgets_of_debit(entries, data_set, *budgets_in(settings)):
            spent = cost_of_debits(counted(entries, data_set, budget, time))
            if not excess(spent, budget.limits):
                continue
            amounts = {name: getattr(spent, name) for name in budget.limits}
            problem = (
                f"{settings.file}: {data_set}: the budget for {budget.label or 'ever'} is overspent: spent "
                f"{amounts_in_words(amounts, decimal_up, 6)} of "
                f"{amounts_in_words(budget.limits, decimal_down, 6)}; no release is paid from it until it is "
                "raised, or until its years have passed"
            )
            self.problems += [problem] * (problem not in self.problems)

    def _paid(self, config: ReleaseConfig, settings: LedgerSettings) -> str:
        """Say that a release is paid for already; empty if nothing shows that it is."""
        out = config.release.out
        if RunFolder(out).checked:
            return f"nothing more: a release is in {out}"
        if not (staging := RunFolder.of(out)).begun:
            return ""
        data_set = line_of_text(settings.data_set, "data set")
        try:
            planned = plan_hash(staging.public / "plan")
        except OSError:
            return ""
        for entry in self.unfinished[settings.file]:
            if (entry.data_set, entry.plan_sha256) == (data_set, planned):
                return f"nothing more: entry {entry.entry} of the ledger paid for it"
        return ""


def _summed(entries: list[Entry], time: str) -> list[Entry]:
    """Return what limits debits from a time on, in few entries.

    Budgets for ever and of years, and what each period has spent: by day, as far back as years count.
    """
    budgets = {(e.data_set, e.years): e for e in entries if e.kind == "budget" and e.period is None}
    windows = [budget.since(time) for budget in last_budgets([*budgets.values()]).values() if budget.years]
    spent: dict[tuple[str, str | None, str], list[Entry]] = {}
    for entry, last in timed_debits(entries):
        day = last[:10] if windows and last >= min(windows) else ""
        spent.setdefault((entry.data_set or "", entry.period, day), []).append(entry)
    result = [*budgets.values()]
    for (data_set, period, day), debits in spent.items():
        cost, key = cost_of_debits(debits), (0, day, "debit", data_set, period)
        # Two debits that cost as much by both accounts: one with a rho, and the deltas beside rho.
        result.append(Entry(*key, cost.epsilon, cost.delta - cost.rho_delta, cost.rho))
        result.append(Entry(*key, Fraction(0), cost.rho_delta))
    return result


def _words(cost: synth.Cost, limited: Iterable[str] = ()) -> str:
    """Say what a release costs in epsilon and delta, and in rho where that is limited."""
    names = ("epsilon", "delta", *(name for name in limited if name.startswith("rho")))
    return amounts_in_words({name: getattr(cost, name) for name in names}, decimal_up, 6)
