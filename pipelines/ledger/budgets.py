"""What a budget is, what a ledger's entries have spent of it, and the form in which both are entered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import combinations_with_replacement

import synth
from pipelines.ledger.chain import Entry, LedgerError
from pipelines.ledger.terms import Terms, conflict
from pipelines.storage.stored_names import LONGEST_NAME, look_alike, one_form, stored_name

_LONGEST_AMOUNT = 1000


class PolicyError(LedgerError):
    """The release is made on terms on which its cost does not add up with those of others."""


class OverBudgetError(LedgerError):
    """The budget does not allow a release."""


@dataclass(frozen=True)
class Budget:
    """What releases of one data set may cost together.

    Attributes
    ----------
    epsilon, delta : Fraction
        The most that their epsilons and their deltas may add up to; delta below 1.
    period : str or None
        Label of the period that it is for, such as ``"2026"``. None is for ever: debits of all periods count.
    """

    epsilon: Fraction
    delta: Fraction
    period: str | None = None

    def __repr__(self) -> str:
        # Down: nobody may take it for more than it is.
        epsilon, delta = (synth.decimal_down(x, 6) for x in (self.epsilon, self.delta))
        period = "" if self.period is None else f" for {self.period}"
        return f"<Budget: epsilon {epsilon}, delta {delta}{period}; rounded down, the attributes are exact>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_amount(self.epsilon, "the budget's epsilon"))
        object.__setattr__(self, "delta", exact_amount(self.delta, "the budget's delta"))
        object.__setattr__(self, "period", period_label(self.period))
        if self.delta >= 1:
            raise LedgerError(
                "the budget's delta is 1 or more, which allows anything. Fix: state a delta below 1"
            )


@dataclass(frozen=True)
class Account:
    """What has been spent of one budget."""

    data_set: str
    budget: Budget  # as it was last used
    epsilon: Fraction  # spent
    delta: Fraction
    debits: int  # releases that were paid from it
    unfinished: int  # those of them that have not finished
    # What the sum is a guarantee of; None without a release, or if that is nothing with a name.
    terms: Terms | None = None
    # The debits, each with what became of its release: "unfinished", "resumed", "failed", "abandoned"
    # or "finished".
    releases: tuple[tuple[Entry, str], ...] = ()

    @property
    def guarantee(self) -> str:
        """What the sum is a guarantee of, for people; empty without a release."""
        if not self.releases:
            return ""
        return self.terms.words if self.terms else "nothing that has a name: the releases do not add up"


def accounts_of(entries: list[Entry]) -> list[Account]:
    """Return what was spent of every budget that was entered, by data set and period."""
    states = {entry.debit: entry.kind for entry in entries}  # the last that was entered
    result = []
    for (data_set, period), budget in last_budgets(entries).items():
        paid = debits_of(entries, data_set, period)
        releases = tuple((entry, states.get(entry.hash, "unfinished")) for entry in paid)
        unfinished = sum(state != "finished" for _, state in releases)
        spent = spent_of(entries, data_set, period)
        terms = Terms.of_sum(_terms_of(paid)) if paid else None
        result.append(Account(data_set, budget, *spent, len(paid), unfinished, terms, releases))
    return sorted(result, key=lambda account: (account.data_set, account.budget.period or ""))


def debits_of(entries: list[Entry], data_set: str, period: str | None) -> list[Entry]:
    """Return the debits of a data set, however it is spelled, in a period; for None, in all periods."""
    return [
        entry
        for entry in entries
        if entry.kind == "debit"
        and look_alike(entry.data_set or "", data_set)
        and (period is None or look_alike(entry.period or "", period))
    ]


def spent_of(entries: list[Entry], data_set: str, period: str | None) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of those debits together."""
    costs = [(entry.epsilon, entry.delta) for entry in debits_of(entries, data_set, period)]
    return synth.compose((e, d) for e, d in costs if e is not None and d is not None)


def last_budgets(entries: list[Entry]) -> dict[tuple[str, str | None], Budget]:
    """Return the budget last entered of every data set and period."""
    return {
        (entry.data_set, entry.period): Budget(entry.epsilon, entry.delta, entry.period)
        for entry in entries
        if entry.kind == "budget"
        and entry.data_set is not None
        and entry.epsilon is not None
        and entry.delta is not None
    }


def budgets_of_debit(
    entries: list[Entry], data_set: str, budget: Budget, total: Budget | None
) -> list[Budget]:
    """Return the budgets that limit a debit: that of its period, and the one for ever, if there is one.

    By default the one for ever is that which was last entered.
    """
    if total is not None and (total.period is not None or budget.period is None):
        raise LedgerError(
            "the budget over all periods has a period, or the budget beside it has none. Fix: name a period "
            "for the budget beside it only"
        )
    if total is not None:
        return [budget, total]
    ever = [
        limit
        for (name, period), limit in last_budgets(entries).items()
        if period is None and look_alike(name, data_set)
    ]
    return [budget, *(ever if budget.period is not None else [])]


def check_terms(entries: list[Entry], data_set: str, budgets: list[Budget], terms: Terms) -> Terms:
    """Refuse a debit whose cost, with those that a budget counts already, adds up to no guarantee.

    Return what the sum that the last of the budgets counts is a guarantee of.
    """
    total = terms
    for limit in budgets:
        paid = debits_of(entries, data_set, limit.period)
        summed = [terms, *_terms_of(paid)]
        if (common := Terms.of_sum(summed)) is not None:
            total = common
            continue
        labels = ["this release", *(f"entry {entry.entry}" for entry in paid)]
        # Two debits on equal terms need not add up either.
        first, last = (dict(zip(summed[::way], labels[::way], strict=True)) for way in (-1, 1))
        pairs = combinations_with_replacement(dict.fromkeys(summed), 2)
        pair = next(pair for pair in pairs if Terms.of_sum(pair) is None)
        raise PolicyError(
            f"{data_set}: the costs of {first[pair[0]]} and {last[pair[1]]} do not add up, as neither "
            f"protects all that the other does: {conflict(*pair)}"
        )
    return total


def _terms_of(debits: list[Entry]) -> list[Terms]:
    return [Terms.of(entry.policy) for entry in debits]


def check_spelling(entries: list[Entry], data_set: str, period: str | None) -> None:
    """Refuse a data set, or a period of it, that looks as one in the ledger does and is spelled otherwise."""
    similar = [entry for entry in entries if look_alike(entry.data_set or "", data_set)]
    for kind, name, entered in (
        ("data set", data_set, [entry.data_set for entry in similar]),
        ("period", period, [entry.period for entry in similar]),
    ):
        first = next(
            (spelling for spelling in entered if spelling and name and look_alike(spelling, name)), None
        )
        if name and first is not None and one_form(first) != name:
            raise LedgerError(
                f"the {kind} {name!a} looks like {first!a}, which is in the ledger, but is spelled "
                f"differently. Fix: copy the {kind} from odsynth ledger show, or, if it is another {kind}, "
                "choose a name that looks different"
            )


def left_of(entries: list[Entry], data_set: str, budgets: list[Budget]) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta that all these budgets still allow, at least 0."""
    left = [
        (limit.epsilon - spent[0], limit.delta - spent[1])
        for limit in budgets
        for spent in [spent_of(entries, data_set, limit.period)]
    ]
    return max(min(e for e, _ in left), Fraction(0)), max(min(d for _, d in left), Fraction(0))


def check_budget(
    data_set: str, budget: Budget, spent: tuple[Fraction, Fraction], cost: tuple[Fraction, Fraction]
) -> None:
    """Refuse a cost that, with what is spent, exceeds the budget in epsilon or in delta."""
    epsilon, delta = synth.compose([spent, cost])
    if epsilon <= budget.epsilon and delta <= budget.delta:
        return
    left = [max(a - b, Fraction(0)) for a, b in zip((budget.epsilon, budget.delta), spent, strict=True)]
    up, down = synth.decimal_up, synth.decimal_down
    when = f"for {budget.period}" if budget.period else "for ever"
    over = {"epsilon": epsilon > budget.epsilon, "delta": delta > budget.delta}
    short = " and ".join(name for name, too_much in over.items() if too_much)
    raise OverBudgetError(
        f"{data_set}: the budget {when} does not allow this release: too little {short} is left; "
        f"spent epsilon {up(spent[0])}, delta {up(spent[1])}; remaining epsilon {down(left[0])}, "
        f"delta {down(left[1])}; asked epsilon {up(cost[0])}, delta {up(cost[1])}. Fix: plan a release that "
        "costs less, or ask for a larger budget"
    )


def exact_amount(value: Fraction, name: str) -> Fraction:
    """Return an epsilon or a delta that can be entered; a float is refused."""
    number = synth.exact(value, name)
    if number < 0:
        raise LedgerError(f"{name} is negative. Fix: state 0 or more")
    try:
        short = len(str(number)) <= _LONGEST_AMOUNT
    except ValueError:  # more digits than Python converts
        short = False
    if not short:
        raise LedgerError(
            f"{name} has more than {_LONGEST_AMOUNT} digits. Fix: round it up, as certificates do"
        )
    return number


def line_of_text(value: str, name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name in one Unicode form, so that two that look alike are not two data sets by accident."""
    try:
        return stored_name(value, longest)
    except ValueError as error:
        raise LedgerError(f"the {name} cannot be entered. Fix: {error}") from None


def period_label(value: str | None) -> str | None:
    """Return a period as it is entered."""
    return None if value is None else line_of_text(value, "period")


def check_hash(value: str) -> None:
    """Refuse what is not a SHA-256."""
    if not re.fullmatch("[0-9a-f]{64}", value):
        raise LedgerError("the plan's hash is not a SHA-256. Fix: write its 64 hexadecimal digits")


def utc_text(now: datetime | None) -> str:
    """Return a time, by default the clock's, as it is entered: texts sort as times do."""
    now = now or datetime.now(UTC)
    if now.tzinfo is None:
        raise ValueError("now must have a time zone")
    return now.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
