"""The ledger of privacy: what has been spent on which data set, debited before anything is drawn.

A release is paid for in one transaction that checks the file, the clock and the budget and then adds a debit.
Entries are never changed; a run that fails keeps its debit. What the ledger can and cannot notice is in
docs/ledger.md.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Literal, get_args

import synth
from geo_data.arguments import path_of
from pipelines.ledger.budgets import (
    Account,
    Amounts,
    Budget,
    accounts_of,
    budgets_of_debit,
    check_budget,
    check_hash,
    check_refined,
    check_spelling,
    check_terms,
    cost_of_debits,
    counted,
    exact_amount,
    last_budgets,
    left_of,
    line_of_text,
    period_label,
    refined_by,
    spent_of,
    utc_text,
)
from pipelines.ledger.chain import (
    GENESIS,
    TABLES,
    Entry,
    LedgerError,
    append,
    check_integrity,
    fields,
    read_entries,
    reading,
    writing,
)
from pipelines.ledger.terms import Terms

Outcome = Literal["finished", "failed", "abandoned"]
_LONGEST_DETAIL = 1000


class OtherDebitError(LedgerError):
    """The last debit is another one than a release has committed to follow on."""


@dataclass(frozen=True)
class Charge:
    """What a release costs.

    Attributes
    ----------
    data_set : str
        Public name of the confidential records. Releases of the same records must give the same name.
    epsilon, delta : Fraction
        Of the differential privacy that it promises one person.
    plan_sha256 : str
        Hash of its plan.
    release : str
        Its name.
    policy : str
        The text of its terms (`Terms`): what it is a guarantee of.
    rho : Fraction or None
        Its zCDP for the same neighbours, if it has discrete Gaussian noise (Lemma 50), or refines a release
        (Lemma 59); otherwise None.
    previous : str or None
        The debit on which it must follow (`last_debit`), because the release has committed to that.
    """

    data_set: str
    epsilon: Fraction
    delta: Fraction
    plan_sha256: str
    release: str
    policy: str = str(Terms())
    rho: Fraction | None = None
    previous: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_set", line_of_text(self.data_set, "data set"))
        object.__setattr__(self, "release", line_of_text(self.release, "release", _LONGEST_DETAIL))
        for name in ("epsilon", "delta", "rho"):
            if (amount := getattr(self, name)) is not None:
                object.__setattr__(self, name, exact_amount(amount, name))
        check_hash(self.plan_sha256)


@dataclass(frozen=True)
class Debit:
    """What was debited for one release."""

    # The hash of its entry: names the debit in later calls. It was the head of the chain at that
    # moment, so a release keeps it as a witness too.
    id: str
    entry: int  # number of its entry
    time: str
    data_set: str
    period: str | None
    epsilon: Fraction
    delta: Fraction
    plan_sha256: str
    release: str
    policy: str  # the text of its terms (`Terms`)
    rho: Fraction | None  # its zCDP, if its mechanism has one

    @property
    def head(self) -> str:
        """The head of the chain when it was written: `id`."""
        return self.id


@dataclass(frozen=True)
class Chain:
    """A chain that was found whole: its number of entries and the hash of the last (`head`)."""

    entries: int
    head: str


class Ledger:
    """The ledger in one file.

    No connection is held between calls, so one object may be used by any thread or process; ``with`` is
    allowed and changes nothing. Every call checks the whole chain before it uses or adds anything.

    Parameters
    ----------
    path : path
        The file. The first debit makes it, mode 0600; its folder must exist, on a disk of this machine.

    Raises
    ------
    LedgerError
        From every method, when the file is missing, damaged, of another program or from a newer version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_of(path, "path").absolute()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def debit(
        self,
        charge: Charge,
        budget: Budget,
        beside: Iterable[Budget] = (),
        *,
        witness: Iterable[str] = (),
        now: datetime | None = None,
        rehearse: bool = False,
    ) -> Debit:
        """Pay for a release, before its first draw.

        Parameters
        ----------
        charge : Charge
        budget : Budget
            What the configuration allows in the release's period. One that differs from the last is entered
            too. Where a release is refined, the budgets that were last entered count in place of these.
        beside : iterable of Budget
            What the configuration allows over all periods, where `budget` is for one, and in years. One that
            differs from the last is entered too.
        witness : iterable of str
            Heads that releases have kept; all must be in the chain. Where there are any, the ledger must
            exist: a new one would not know them.
        now : datetime, optional
            For tests. By default the clock, read when it is this process's turn.
        rehearse : bool
            Take it all back: what would be refused is refused, and nothing is paid. A ledger that is not
            there is made in a folder of its own beside its place, and removed.

        Returns
        -------
        Debit

        Raises
        ------
        PolicyError
            If its cost and those of earlier releases add up to no guarantee.
        OverBudgetError
            If what is spent and this exceed `budget`, or one beside it. Where none is stated for ever, or
            for so many years, the one of the same data set that was last entered stands in its place.
        OtherDebitError
            If the last debit is not `Charge.previous`.
        LedgerError
            If the clock is behind the last entry, the ledger cannot be trusted, or a release that its name
            says it refines was not paid for here, or was refined before. Nothing is written.
        """
        data_set, policy, price = charge.data_set, charge.policy, (charge.epsilon, charge.delta, charge.rho)
        cost, terms = synth.Cost.of(*price), Terms.of(policy)
        witness = set(witness)
        with writing(self.path, create=not witness, keep=not rehearse) as connection:
            entries = read_entries(connection, self.path)
            self._check_witness(entries, witness)
            check_spelling(entries, data_set, budget.period)
            if charge.previous not in (None, last_debit(entries)):
                raise OtherDebitError(f"{self.path}: another release was debited. Fix: commit to it, and pay")
            time = self._time(entries, now)
            entered = last_budgets(entries)
            under = line_of_text(policy, "policy", _LONGEST_DETAIL)
            about = charge.plan_sha256, charge.release, under
            entry = Entry(0, time, "debit", data_set, budget.period, *price, *about)
            check_refined(entries, entry)
            if refined_by(entry) is not None:  # its configuration is as old as the release that it refines
                budget, beside = entered[data_set, budget.period, None], ()
            binding = budgets_of_debit(entries, data_set, budget, beside)
            check_terms(entries, data_set, binding, terms, time)
            for limit in binding:
                *others, _ = counted([*entries, entry], data_set, limit, time)  # with what it refines
                check_budget(data_set, limit, cost_of_debits(others), cost)
            for limit in binding:
                if entered.get((data_set, limit.period, limit.years)) != limit:
                    allowed = limit.period, limit.epsilon, limit.delta, limit.rho
                    stated = Entry(0, time, "budget", data_set, *allowed, years=limit.years)
                    append(connection, entries, stated)
            paid = append(connection, entries, entry)
        return _debit(paid)

    def outcome(
        self, debit_id: str, outcome: Outcome, detail: str = "", *, now: datetime | None = None
    ) -> Entry:
        """Enter what became of a release. Its debit stays, whatever it was.

        A clock that went back does not keep the truth out: the entry then has the time of the last one.

        Parameters
        ----------
        debit_id : str
            `Debit.id`.
        outcome : {"finished", "failed", "abandoned"}
            "finished" is final; after the others the release may be resumed.
        detail : str
            One line, without confidential values.
        now : datetime, optional
            For tests.

        Returns
        -------
        Entry
            Its `hash` is the new head.

        Raises
        ------
        LedgerError
            If there is no such debit or its release is finished.
        """
        if outcome not in get_args(Outcome):
            fix = f"write one of {', '.join(get_args(Outcome))}"
            raise LedgerError(f"there is no such outcome. Fix: {fix}")
        words = line_of_text(detail, "detail", _LONGEST_DETAIL) if detail else None
        with writing(self.path) as connection:
            entries = read_entries(connection, self.path)
            self._unfinished(entries, debit_id)
            time = max(utc_text(now), entries[-1].time)
            return append(connection, entries, Entry(0, time, outcome, debit=debit_id, detail=words))

    def resume(self, debit_id: str, plan_sha256: str, *, now: datetime | None = None) -> Debit:
        """Allow a release that is paid for and not finished to go on, at no further cost.

        Parameters
        ----------
        debit_id : str
            `Debit.id`.
        plan_sha256 : str
            Hash of the plan that is about to be carried out.
        now : datetime, optional
            For tests.

        Returns
        -------
        Debit
            The one that paid for it.

        Raises
        ------
        LedgerError
            If there is no such debit, the plan is another one, or the release is finished.
        """
        check_hash(plan_sha256)
        with writing(self.path) as connection:
            entries = read_entries(connection, self.path)
            paid = self._unfinished(entries, debit_id)
            if paid.plan_sha256 != plan_sha256:
                raise LedgerError(
                    f"{self.path}: entry {paid.entry} paid for another plan. Fix: resume with the plan that "
                    "was debited, or begin a new run, which is debited again"
                )
            append(connection, entries, Entry(0, self._time(entries, now), "resumed", debit=debit_id))
        return _debit(paid)

    def spent(self, data_set: str, period: str | None = None, since: datetime | None = None) -> synth.Cost:
        """Return what was spent on a data set.

        Parameters
        ----------
        data_set : str
        period : str or None
            Debits of other periods do not count; None is for all periods.
        since : datetime or None
            Debits before this time do not count, as for "the last five years".

        Returns
        -------
        synth.Cost
            The sums of both accounts; `synth.Cost.epsilons_at` gives their epsilons at a delta.
        """
        first = "" if since is None else utc_text(since)
        return spent_of(self.entries(), line_of_text(data_set, "data set"), period_label(period), first)

    def remaining(self, data_set: str, budget: Budget, *, now: datetime | None = None) -> Amounts:
        """Return what is left of a budget, at least 0, by what was spent in its period or years.

        Parameters
        ----------
        data_set : str
        budget : Budget
        now : datetime, optional
            The end of its years; for tests.

        Returns
        -------
        dict of str to Fraction
            ``epsilon`` and ``delta``, ``rho`` and ``rho_delta``, or all four, as the budget limits them.
        """
        return left_of(self.entries(), line_of_text(data_set, "data set"), [budget], utc_text(now))

    def accounts(self, since: datetime | None = None, *, now: datetime | None = None) -> list[Account]:
        """Return what was spent of every budget that was ever used, by data set, period and years.

        Parameters
        ----------
        since : datetime or None
            As for `spent`.
        now : datetime, optional
            The end of the years of budgets; for tests.

        Returns
        -------
        list of Account
        """
        return accounts_of(self.entries(), utc_text(now), "" if since is None else utc_text(since))

    def entries(self) -> list[Entry]:
        """Return all entries, in order, having checked the whole chain."""
        with reading(self.path) as connection:
            return read_entries(connection, self.path)

    def peek(self, witness: Iterable[str]) -> list[Entry]:
        """Return all entries, and leave no file beside the ledger: for a dry run, which makes no debit.

        Parameters
        ----------
        witness : iterable of str
            As for `verify`.

        Returns
        -------
        list of Entry
        """
        with reading(self.path, traceless=True) as connection:
            entries = read_entries(connection, self.path)
        self._check_witness(entries, witness)
        return entries

    def verify(self, witness: Iterable[str] = ()) -> Chain:
        """Check the file, the whole chain, and that it still holds what releases have seen of it.

        Parameters
        ----------
        witness : iterable of str
            `Debit.id` of known releases.

        Returns
        -------
        Chain

        Raises
        ------
        LedgerError
            Names the first damaged entry; or how many witnesses are not in the chain, as when an older copy
            of the file was put back.
        """
        with reading(self.path) as connection:
            entries = read_entries(connection, self.path)
            check_integrity(connection, self.path)
        self._check_witness(entries, witness)
        return Chain(len(entries), entries[-1].hash if entries else GENESIS)

    def export(self, format: Literal["jsonl", "csv"]) -> str:
        """Return all entries as text.

        Parameters
        ----------
        format : {"jsonl", "csv"}
            One JSON object a line, in the form that is hashed, and `hash`; or CSV with a header, in which an
            empty cell is a field that the entry does not have.

        Returns
        -------
        str
        """
        rows = [fields(entry) | {"hash": entry.hash} for entry in self.entries()]
        if format == "jsonl":
            return "".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows)
        if format != "csv":
            raise LedgerError("there is no such format. Fix: write jsonl or csv")
        columns = dict.fromkeys(name for names in TABLES.values() for name in names)
        text = io.StringIO()
        writer = csv.DictWriter(text, [*columns, "hash"], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _check_witness(self, entries: list[Entry], witness: Iterable[str]) -> None:
        wanted = set(witness)
        missing = wanted - {GENESIS, *(entry.hash for entry in entries)}
        if missing:
            raise LedgerError(
                f"{self.path}: {len(missing)} of {len(wanted)} known heads are not in the ledger: it is an "
                "older copy, or another ledger. Fix: put the newest copy back"
            )

    def _time(self, entries: list[Entry], now: datetime | None) -> str:
        time = utc_text(now)
        if entries and time < entries[-1].time:
            raise LedgerError(
                f"{self.path}: the clock says {time}, which is before the last entry ({entries[-1].time}). "
                "Fix: set the clock"
            )
        return time

    def _unfinished(self, entries: list[Entry], debit_id: str) -> Entry:
        """Return the entry of a debit whose release is not finished."""
        for paid in entries:
            if paid.hash == debit_id and paid.kind == "debit":
                break
        else:
            raise LedgerError(
                f"{self.path}: the debit is not in the ledger: it is an older copy, or another ledger. "
                "Fix: put the newest copy back"
            )
        if any(entry.debit == debit_id and entry.kind == "finished" for entry in entries):
            raise LedgerError(
                f"{self.path}: the release of entry {paid.entry} is finished. Fix: for another "
                "release, begin a new run, which is debited again"
            )
        return paid


def last_debit(entries: list[Entry]) -> str:
    """Return the hash of the last debit; what begins the chain where there is none."""
    return next((entry.hash for entry in reversed(entries) if entry.kind == "debit"), GENESIS)


def _debit(entry: Entry) -> Debit:
    values = {name: value for name, value in vars(entry).items() if name in Debit.__dataclass_fields__}
    return Debit(id=entry.hash, **values)
