"""What a budget is, what a ledger's entries have spent of it, and the form in which both are entered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import combinations_with_replacement
from operator import index
from typing import NamedTuple, TypeAlias

import synth
from pipelines.ledger.chain import Entry, LedgerError
from pipelines.ledger.terms import Terms, conflict
from pipelines.storage.stored_names import LONGEST_NAME, look_alike, one_form, stored_name
from synth.gaussian.composition import gaussian_epsilon_of

_LONGEST_AMOUNT = 1000
_MOST_YEARS = 1000
_SHOWN = 16  # digits of a debit in the name of a release that refines that of the debit
_MOST = 10**6  # of epsilon and rho: nobody wants such a guarantee, and e^epsilon has as many bits

Amounts: TypeAlias = dict[str, Fraction]
"""Numbers of a cost (`synth.Cost`) by their names: of the accounts that a budget limits, both numbers."""


class PolicyError(LedgerError):
    """The release is made on terms on which its cost does not add up with those of others."""


class OverBudgetError(LedgerError):
    """The budget does not allow a release."""


class Price(NamedTuple):
    """What a ledger is debited for a release."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None  # zCDP of the same neighbours, if the mechanism has one


@dataclass(frozen=True)
class Budget:
    """What releases of one data set may cost together.

    Attributes
    ----------
    epsilon : Fraction or None
        The most that their epsilons may add up to. None: this does not limit them, but `rho` does.
    delta : Fraction
        The most that their deltas may add up to, below 1; of each account that is limited.
    period : str or None
        Label of the period that it is for, such as ``"2026"``. None is for ever: debits of all periods count.
    rho : Fraction or None
        The most that their rhos may add up to. None: this does not limit them.
    years : int or None
        How many years it is for, in place of a period: debits of any so many years, whatever their periods.
    """

    epsilon: Fraction | None
    delta: Fraction
    period: str | None = None
    rho: Fraction | None = None
    years: int | None = None

    def __repr__(self) -> str:
        # Down: nobody may take it for more than it is.
        period = "" if self.label is None else f" for {self.label}"
        words = amounts_in_words(self.limits, synth.decimal_down, 6)
        return f"<Budget: {words}{period}; rounded down, the attributes are exact>"

    def __post_init__(self) -> None:
        if self.epsilon is None and self.rho is None:
            raise LedgerError("the budget limits nothing. Fix: state its epsilon, its rho, or both")
        for name in ("epsilon", "delta", "rho"):
            if (amount := getattr(self, name)) is not None:
                object.__setattr__(self, name, exact_amount(amount, f"the budget's {name}"))
        object.__setattr__(self, "period", period_label(self.period))
        if self.delta >= 1:
            raise LedgerError(
                "the budget's delta is 1 or more, which allows anything. Fix: state a delta below 1"
            )
        if self.years is not None and self.period is not None:
            raise LedgerError("the budget has a period and years. Fix: state two budgets, one for each")
        if self.years is not None and not 1 <= index(self.years) <= _MOST_YEARS:
            raise LedgerError(f"the budget is for {self.years} years. Fix: state 1 to {_MOST_YEARS:,} years")

    @property
    def limits(self) -> Amounts:
        """The most that each number of a cost may be; both of an account, or neither."""
        sums = {} if self.epsilon is None else {"epsilon": self.epsilon, "delta": self.delta}
        return sums | ({} if self.rho is None else {"rho": self.rho, "rho_delta": self.delta})

    @property
    def label(self) -> str | None:
        """What it is for, in words: its period, or its years; None is for ever."""
        return self.period if self.years is None else f"any {self.years} year(s)"

    def since(self, time: str) -> str:
        """Return the first day that it counts with a debit of some time; empty if it counts all."""
        if self.years is None:
            return ""
        return first_day(date.fromisoformat(time[:10]), self.years).isoformat()


@dataclass(frozen=True)
class Account:
    """What has been spent of one budget."""

    data_set: str
    budget: Budget  # as it was last used
    spent: synth.Cost
    debits: int  # releases that were paid from it
    unfinished: int  # those of them that have not finished
    # What the sum is a guarantee of; None without a release, or if that is nothing with a name.
    terms: Terms | None = None
    # The debits, each with what became of its release: "unfinished", "resumed", "failed", "abandoned"
    # or "finished".
    releases: tuple[tuple[Entry, str], ...] = ()

    @property
    def left(self) -> Amounts:
        """What the budget still allows."""
        return _left(self.budget, self.spent)

    @property
    def guarantee(self) -> str:
        """What the sum is a guarantee of, for people; empty without a release."""
        if not self.releases:
            return ""
        return self.terms.words if self.terms else "nothing that has a name: the releases do not add up"


def first_day(last: date, years: int) -> date:
    """Return the first of so many years of days that end with a last one."""
    if last.year <= years:
        return date.min
    leap = (last.month, last.day) == (2, 29)
    return (last - timedelta(days=leap)).replace(year=last.year - years) + timedelta(days=1)


def accounts_of(entries: list[Entry], time: str, since: str = "") -> list[Account]:
    """Return what was spent of every budget that was entered, by data set, period and years.

    Years end at a time. Debits before another do not count.
    """
    states = {entry.debit: entry.kind for entry in entries}  # the last that was entered
    result = []
    for (data_set, period, _), budget in last_budgets(entries).items():
        paid = debits_of(entries, data_set, period, max(since, budget.since(time)))
        releases = tuple((entry, states.get(entry.hash, "unfinished")) for entry in paid)
        unfinished = sum(state != "finished" for _, state in releases)
        terms = Terms.of_sum(_terms_of(paid)) if paid else None
        result.append(Account(data_set, budget, cost_of_debits(paid), len(paid), unfinished, terms, releases))
    return sorted(result, key=lambda a: (a.data_set, a.budget.period or "", a.budget.years or 0))


def debits_of(entries: list[Entry], data_set: str, period: str | None, since: str = "") -> list[Entry]:
    """Return the debits of a data set, however it is spelled, in a period and since a time.

    For None, in all periods. What a debit since then refines counts too, as both paid for it together.
    """
    return [
        entry
        for entry, time in timed_debits(entries)
        if time >= since
        and look_alike(entry.data_set or "", data_set)
        and (period is None or look_alike(entry.period or "", period))
    ]


def timed_debits(entries: list[Entry]) -> list[tuple[Entry, str]]:
    """Return the debits, each with its time, or with that of the last debit that refines it."""
    debits: list[tuple[Entry, str]] = []
    times: dict[str, str] = {}
    for entry in reversed(entries):
        if entry.kind == "debit":
            time = max(entry.time, times.get(entry.hash[:_SHOWN], ""))
            debits.append((entry, time))
            if (refined := refined_by(entry)) is not None:
                times[refined] = time
    return debits[::-1]


def refines_in_ledger(debit_id: str) -> str:
    """Return what the name of a release ends with that refines the one of a debit."""
    return f", refines {debit_id[:_SHOWN]}"


def refined_by(entry: Entry) -> str | None:
    """Return the first digits of the debit of the release that a debit refines; None if it refines none."""
    found = re.search(rf", run [0-9a-f]{{32}}, refines ([0-9a-f]{{{_SHOWN}}})\Z", entry.release or "")
    return None if found is None else found[1]


def check_refined(entries: list[Entry], entry: Entry) -> None:
    """Refuse a debit that refines a release that this ledger did not pay for, or that was refined before."""
    if (refined := refined_by(entry)) is None:
        return
    paid = [one for one in entries if one.kind == "debit" and one.hash.startswith(refined)]
    if not paid or (paid[0].data_set, paid[0].period) != (entry.data_set, entry.period):
        raise LedgerError(
            f"this ledger has no debit {refined} of {entry.data_set!r} in the same period, which paid for "
            "the release that is to be refined. Fix: put back the ledger that has it, or make a new release"
        )
    if again := [one for one in entries if refined_by(one) == refined]:
        raise LedgerError(
            f"entry {again[0].entry} paid for refining this release before, and two draws given the same "
            "counts would tell more than is paid for. Fix: refine the release of that entry, or make another"
        )


def spent_of(entries: list[Entry], data_set: str, period: str | None, since: str = "") -> synth.Cost:
    """Return what the debits of `debits_of` cost together."""
    return cost_of_debits(debits_of(entries, data_set, period, since))


def cost_of_debits(debits: list[Entry]) -> synth.Cost:
    """Return what debits cost together."""
    costs = [(entry.epsilon, entry.delta, entry.rho) for entry in debits]
    return synth.Cost.of_all(
        synth.Cost.of(epsilon, delta, rho)
        for epsilon, delta, rho in costs
        if epsilon is not None and delta is not None
    )


def gaussian_epsilon(rhos: Sequence[Fraction | None], delta: Fraction, times: int = 1) -> Fraction | None:
    """Return the epsilon at a delta of debits that all have discrete Gaussian noise, by their rhos.

    Lemma 56 of docs/privacy.md. None if one has other noise, or the lemma says nothing of them. What
    refines a release has a rho, too, but stands beside this, which has none.
    """
    known = [rho for rho in rhos if rho is not None]
    if len(known) < len(rhos) or delta == 0 or any(rho > 1 for rho in known):
        return None
    return gaussian_epsilon_of(known, delta, times)


def last_budgets(entries: list[Entry]) -> dict[tuple[str, str | None, int | None], Budget]:
    """Return the budget last entered of every data set, and period or years."""
    return {
        (entry.data_set, entry.period, entry.years): Budget(
            entry.epsilon, entry.delta, entry.period, entry.rho, entry.years
        )
        for entry in entries
        if entry.kind == "budget" and entry.data_set is not None and entry.delta is not None
    }


def budgets_of_debit(
    entries: list[Entry], data_set: str, budget: Budget, beside: Iterable[Budget] = ()
) -> list[Budget]:
    """Return the budgets that limit a debit: that of its period, and those for ever and of years.

    Of the latter those that are stated, and those that were last entered and are not stated anew. Those of
    years come first.
    """
    stated = [budget, *beside]
    spans = [(limit.period, limit.years) for limit in stated]
    if any(limit.period is not None for limit in stated[1:]) or len({*spans}) < len(spans):
        raise LedgerError(
            "the budget over all periods has a period, or is stated twice. Fix: name a period for the first "
            "budget only, and state each of the others once"
        )
    entered = [
        limit
        for (name, period, years), limit in last_budgets(entries).items()
        if period is None and (None, years) not in spans and look_alike(name, data_set)
    ]
    return sorted([*stated, *entered], key=lambda limit: limit.years is None)


def counted(entries: list[Entry], data_set: str, budget: Budget, time: str) -> list[Entry]:
    """Return the debits that a budget counts with one of some time."""
    return debits_of(entries, data_set, budget.period, budget.since(time))


def check_terms(entries: list[Entry], data_set: str, budgets: list[Budget], terms: Terms, time: str) -> Terms:
    """Refuse a debit whose cost, with those that a budget counts already, adds up to no guarantee.

    Return what the sum that the last of the budgets counts is a guarantee of.
    """
    total = terms
    for limit in budgets:
        paid = counted(entries, data_set, limit, time)
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


def left_of(entries: list[Entry], data_set: str, budgets: list[Budget], time: str) -> Amounts:
    """Return what all these budgets still allow at a time.

    Of an account that none of them limits, nothing is said.
    """
    left: Amounts = {}
    for limit in budgets:
        for name, amount in _left(limit, cost_of_debits(counted(entries, data_set, limit, time))).items():
            left[name] = min(left.get(name, amount), amount)
    return left


def _left(budget: Budget, spent: synth.Cost) -> Amounts:
    return {name: max(limit - getattr(spent, name), Fraction(0)) for name, limit in budget.limits.items()}


def excess(cost: synth.Cost, left: Mapping[str, Fraction]) -> list[str]:
    """Return the numbers of a cost that are more than what is left; none, if it can be paid."""
    return [name for name, amount in left.items() if getattr(cost, name) > amount]


def amounts_in_words(amounts: Mapping[str, Fraction], rounded: Callable[..., str], digits: int = 12) -> str:
    """Return numbers of a cost for people, as in "epsilon 8, delta 0; rho 2, delta 0"."""
    texts = {name: rounded(amount, digits) for name, amount in amounts.items()}
    accounts = (("epsilon", "delta"), ("rho", "rho_delta"))
    return "; ".join(
        f"{first} {texts[first]}" + (f", delta {texts[delta]}" if delta in texts else "")
        for first, delta in accounts
        if first in texts
    )


def check_budget(data_set: str, budget: Budget, spent: synth.Cost, cost: synth.Cost) -> None:
    """Refuse a cost that, with what is spent, exceeds the budget in one of its numbers."""
    if not (over := excess(synth.Cost.of_all([spent, cost]), budget.limits)):
        return
    when = f"for {budget.label or 'ever'}"
    short = " and ".join("delta beside rho" if name == "rho_delta" else name for name in over)
    words = [
        amounts_in_words({name: amounts[name] for name in budget.limits}, rounded)
        for amounts, rounded in (
            (spent._asdict(), synth.decimal_up),
            (_left(budget, spent), synth.decimal_down),
            (cost._asdict(), synth.decimal_up),
        )
    ]
    raise OverBudgetError(
        f"{data_set}: the budget {when} does not allow this release: too little {short} is left; "
        f"spent {words[0]}; remaining {words[1]}; asked {words[2]}. Fix: plan a release that "
        "costs less, or ask for a larger budget"
    )


def exact_amount(value: Fraction, name: str) -> Fraction:
    """Return an epsilon, a delta or a rho that can be entered; a float is refused."""
    number = synth.exact(value, name)
    if number < 0:
        raise LedgerError(f"{name} is negative. Fix: state 0 or more")
    if number > _MOST:
        raise LedgerError(
            f"{name} is above {_MOST:,}, which promises nothing. Fix: state less; of "
            "a release, lower privacy.epsilon or jobs.records_per_worker"
        )
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
