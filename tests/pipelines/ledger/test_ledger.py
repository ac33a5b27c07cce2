"""The ledger: what it enters, what it refuses, and that nothing is written when it does."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import stat
import tempfile
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ledger import ledger as ledger_module
from pipelines.ledger.budgets import Budget, OverBudgetError, PolicyError, first_day
from pipelines.ledger.chain import LedgerError
from pipelines.ledger.ledger import Charge, Debit, Ledger
from pipelines.ledger.terms import ANYWHERE, Terms
from pipelines.storage.stored_names import look_alike

pytestmark = pytest.mark.quick

PLAN, OTHER_PLAN = "a" * 64, "b" * 64
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEN = Budget(Fraction(10), Fraction("1e-4"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger that does not exist yet."""
    return Ledger(tmp_path / "ledger.sqlite")


def pay(ledger: Ledger, epsilon: str = "1", delta: str = "1e-6", **change: Any) -> Debit:
    """Pay with any part of the charge, and any argument of the debit, changed."""
    parts = {"data_set": "jobs", "plan_sha256": PLAN, "release": "r"}
    parts |= {name: change.pop(name) for name in ("policy", "rho", *parts) if name in change}
    charge = Charge(epsilon=Fraction(epsilon), delta=Fraction(delta), **parts)
    return ledger.debit(charge, change.pop("budget", TEN), **change)


def chained(rows: list[dict[str, Any]]) -> list[str]:
    """The hashes that exported rows must have, by the rule in docs/ledger.md."""
    hashes, previous = [], "odsynth ledger 1"
    for row in rows:
        body = {name: value for name, value in row.items() if name != "hash"}
        text = previous + json.dumps(body, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(text.encode()).hexdigest()
        hashes.append(previous)
    return hashes


def story(ledger: Ledger) -> list[Debit]:
    """One entry of each kind, and more than one data set."""
    first = pay(ledger, now=NOON, release="Größe 1")
    second = pay(
        ledger,
        "1/3",
        data_set="wages",
        budget=Budget(Fraction(1, 3), Fraction(0), "2026"),
        delta="0",
        rho=Fraction(1, 18),
        now=NOON,
    )
    ledger.outcome(first.id, "failed", "disk full", now=NOON)
    ledger.resume(first.id, PLAN, now=NOON)
    ledger.outcome(first.id, "finished", now=NOON + timedelta(seconds=1))
    ledger.outcome(second.id, "abandoned", now=NOON + timedelta(seconds=1))
    return [first, second]


def test_a_debit_is_entered(ledger: Ledger) -> None:
    with ledger:
        debit = pay(ledger, "8.6", "9.9e-6", now=NOON.astimezone(timezone(timedelta(hours=-5))))
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    budget, entry = ledger.entries()
    assert (budget.kind, budget.epsilon, budget.delta) == ("budget", 10, Fraction("1e-4"))
    assert (entry.kind, entry.entry, entry.data_set, entry.period) == ("debit", 2, "jobs", None)
    assert entry.time == debit.time == "2026-03-01T12:00:00.000000Z"
    assert debit.id == debit.head == entry.hash == ledger.verify().head
    assert ledger.spent("jobs")[:2] == (Fraction("8.6"), Fraction("9.9e-6"))
    assert ledger.remaining("jobs", TEN) == {"epsilon": Fraction("1.4"), "delta": Fraction("90.1e-6")}
    assert [path.name for path in ledger.path.parent.iterdir() if path.name.startswith(".")] == []


def test_any_path_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20?mode=ro#é"
    folder.mkdir()
    assert pay(Ledger(folder / "file:x?mode=memory")).entry == 2
    assert [path.name for path in folder.iterdir()] == ["file:x?mode=memory"]


def test_one_clock_for_all(ledger: Ledger) -> None:
    before = datetime.now(UTC)
    written = datetime.fromisoformat(pay(ledger).time)
    assert before <= written <= datetime.now(UTC)
    with pytest.raises(ValueError, match="time zone"):
        pay(ledger, now=datetime(2026, 1, 1))


@pytest.mark.parametrize(("amount", "times"), [("1/3", 3), ("0.1", 10)])
def test_sums_are_exact(ledger: Ledger, amount: str, times: int) -> None:
    one = Budget(Fraction(1), Fraction(1, 2))
    for _ in range(times):
        pay(ledger, amount, str(Fraction(amount) / 2), budget=one)
    assert ledger.spent("jobs")[:2] == (1, Fraction(1, 2))
    assert ledger.remaining("jobs", one) == {"epsilon": 0, "delta": 0}
    with pytest.raises(OverBudgetError):
        pay(ledger, "1e-300", "0", budget=one)
    with pytest.raises(OverBudgetError):
        pay(ledger, "0", "1e-300", budget=one)


def test_over_budget_says_everything_and_enters_nothing(ledger: Ledger) -> None:
    pay(ledger, "8.6")
    before = ledger.path.read_bytes()
    with pytest.raises(OverBudgetError) as refusal:
        pay(ledger, "1.5", budget=Budget(Fraction(10), Fraction("1e-5")))
    message = str(refusal.value)
    for part in ("jobs", "spent epsilon 8.6", "remaining epsilon 1.4", "asked epsilon 1.5", "Fix"):
        assert part in message
    with pytest.raises(OverBudgetError, match=r"remaining epsilon 10, delta 0\.0001; asked epsilon 0"):
        pay(ledger, "0", "2e-4", data_set="other")
    assert ledger.path.read_bytes() == before


def test_data_sets_and_periods_are_independent(ledger: Ledger) -> None:
    for data_set in ("jobs", "wages"):
        for period in ("2026", "2027"):
            pay(ledger, "10", data_set=data_set, budget=Budget(Fraction(10), Fraction(1, 2), period))
    assert ledger.spent("jobs", "2026")[:2] == (10, Fraction("1e-6"))
    assert ledger.spent("jobs")[:2] == (20, Fraction("2e-6"))  # for ever is all periods
    assert ledger.spent("nobody")[:2] == (0, 0)
    assert [(a.data_set, a.budget.period) for a in ledger.accounts()] == [
        ("jobs", "2026"),
        ("jobs", "2027"),
        ("wages", "2026"),
        ("wages", "2027"),
    ]


def test_a_budget_for_ever_is_not_escaped_by_naming_a_period(ledger: Ledger) -> None:
    pay(ledger, "9")
    yearly = Budget(Fraction(10), Fraction(1, 2), "2026")
    with pytest.raises(OverBudgetError, match="for ever"):
        pay(ledger, "2", budget=yearly)
    pay(ledger, "1", budget=yearly)
    assert ledger.remaining("jobs", TEN)["epsilon"] == 0


def test_a_change_of_budget_is_entered(ledger: Ledger) -> None:
    pay(ledger)
    pay(ledger)
    pay(ledger, budget=Budget(Fraction(20), Fraction("1e-4")))
    pay(ledger)
    kinds = [(entry.kind, entry.epsilon) for entry in ledger.entries()]
    paid = ("debit", 1)
    assert kinds == [("budget", 10), paid, paid, ("budget", 20), paid, ("budget", 10), paid]
    (account,) = ledger.accounts()
    assert (account.budget, *account.spent[:2]) == (TEN, 4, Fraction("4e-6"))
    assert [state for _, state in account.releases] == ["unfinished"] * account.debits == ["unfinished"] * 4
    assert ledger.remaining("jobs", Budget(Fraction(3), Fraction(0))) == {"epsilon": 0, "delta": 0}


def test_what_became_of_a_release(ledger: Ledger) -> None:
    debit = pay(ledger)
    ledger.outcome(debit.id, "failed", "no space")
    assert ledger.resume(debit.id, PLAN) == debit
    ledger.outcome(debit.id, "abandoned")
    ledger.resume(debit.id, PLAN)
    assert ledger.spent("jobs")[0] == 1  # a failed run keeps its debit, a resumed one costs nothing
    with pytest.raises(LedgerError, match="another plan"):
        ledger.resume(debit.id, OTHER_PLAN)
    assert ledger.accounts()[0].unfinished == 1
    done = ledger.outcome(debit.id, "finished")
    assert done.hash == ledger.verify().head
    assert ledger.accounts()[0].unfinished == 0
    for use in (
        lambda: ledger.resume(debit.id, PLAN),
        lambda: ledger.outcome(debit.id, "finished"),
        lambda: ledger.outcome(debit.id, "failed"),
    ):
        with pytest.raises(LedgerError, match="entry 2 is finished"):
            use()
    with pytest.raises(LedgerError, match="debit is not in the ledger"):
        ledger.resume(done.hash, PLAN)
    with pytest.raises(LedgerError, match="no such outcome"):
        ledger.outcome(debit.id, "resumed")  # type: ignore[arg-type]


def test_the_clock_does_not_go_back(ledger: Ledger) -> None:
    debit = pay(ledger, now=NOON)
    pay(ledger, now=NOON)
    for use in (pay, lambda one, now: one.resume(debit.id, PLAN, now=now)):
        with pytest.raises(LedgerError, match=r"59.999999Z, which is before the last .*Fix: set the clock"):
            use(ledger, now=NOON - timedelta(microseconds=1))
    late = ledger.outcome(debit.id, "finished", now=NOON - timedelta(days=1))
    assert late.time == "2026-03-01T12:00:00.000000Z"


def test_a_debit_is_rehearsed_and_nothing_is_left(ledger: Ledger) -> None:
    """Also where the ledger is not there; what the debit would refuse is refused."""

    def rehearse(epsilon: str, **change: Any) -> None:
        pay(ledger, epsilon, "0", rehearse=True, **change)

    folder = ledger.path.parent
    for before in ([], [ledger.path]):
        content = [path.read_bytes() for path in before]
        rehearse("1")
        for error, epsilon, change in (
            (OverBudgetError, "11", {}),
            (LedgerError, "1", {"data_set": " jobs"}),
            (LedgerError, "1", {"witness": ["a" * 64]}),
        ):
            with pytest.raises(error):
                rehearse(epsilon, **change)
        assert [*folder.iterdir()] == before
        assert [path.read_bytes() for path in before] == content
        if not before:
            pay(ledger, now=NOON)
    pay(ledger, "8", now=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(LedgerError, match="which is before the last entry"):
        rehearse("1")


def test_names_are_only_names(ledger: Ledger) -> None:
    names = ("Pendlerströme 2026", "通勤", "حركة", "x'); DROP TABLE spends; --", '"', "a,b;=1+1", "%s?*")
    for name in names:
        pay(ledger, data_set=name, release=name, budget=Budget(Fraction(1), Fraction(1, 2), name))
        assert ledger.spent(name, name)[:2] == (1, Fraction("1e-6"))
        assert ledger.entries()[-1].release == name
    pay(ledger, data_set="e\u0301", release="r")
    assert ledger.spent("\u00e9")[0] == 1  # the same letter, written in another way
    assert ledger.verify().entries == 2 * len(names) + 2


def test_names_that_are_refused(ledger: Ledger) -> None:
    for name in ("", " jobs", "jobs\n", "a\0b", "a\u202eb", "x" * 201, "\ud800"):
        for field, value in (("data_set", name), ("release", name.replace("x", "xxxxx"))):  # up to 1,000
            with pytest.raises(LedgerError, match="printable"):
                pay(ledger, **{field: value})
        with pytest.raises(LedgerError, match="printable"):
            Budget(Fraction(1), Fraction(0), name)
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    "other",
    [
        "jobs\u3164 2019",
        "jo\u034fbs 2019",
        "jobs\ufe0f 2019",
        "jobs\u2800 2019",
        "\uff4a\uff4f\uff42\uff53 2019",
        "jobs \uff12\uff10\uff11\uff19",
        "j\u043ebs 2019",  # Cyrillic
        "jobs 2O19",
        "jobs  2019",
    ],
)
def test_a_name_that_looks_the_same_gets_no_budget_of_its_own(ledger: Ledger, other: str) -> None:
    for name, change in (
        ("data set", {"data_set": other}),
        ("period", {"budget": Budget(TEN.epsilon, TEN.delta, other)}),
    ):
        pay(ledger, data_set="jobs 2019", budget=Budget(TEN.epsilon, TEN.delta, "jobs 2019"))
        before = ledger.entries()
        with pytest.raises(LedgerError, match=rf"the {name} .* looks like 'jobs 2019', .*Fix: "):
            pay(ledger, **({"data_set": "jobs 2019"} | change))
        assert ledger.entries() == before


def test_names_that_look_different_are_different(ledger: Ledger) -> None:
    names = (
        "jobs",
        "Jobs",
        "job s",
        "jobs 2019",
        "jobs 2020",
        "j\u00f6bs",
        "wages",
        "\u043f\u0440\u0430\u0446\u044f",
        "\u901a\u52e4",
    )
    for name in names:
        pay(ledger, "10", data_set=name, budget=Budget(Fraction(10), Fraction(1, 2), name))
    assert [account.debits for account in ledger.accounts()] == [1] * len(names)


def test_a_ledger_that_has_both_spellings_counts_both(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "check_spelling", lambda *_: None)  # as by another program
        for name in ("jobs", "j\u043ebs"):
            pay(ledger, "2", data_set=name)
    assert ledger.spent("jobs")[0] == ledger.spent("j\u043ebs")[0] == 4
    pay(ledger, "6", data_set="jobs")
    with pytest.raises(OverBudgetError):
        pay(ledger, "1", data_set="jobs")
    with pytest.raises(LedgerError, match="spelled differently"):
        pay(ledger, "0", data_set="j\u043ebs")


def test_a_budget_that_was_entered_in_another_spelling_still_binds(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = partial(Budget, Fraction(3), Fraction(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "check_spelling", lambda *_: None)  # as by another program
        pay(ledger, "1", data_set="jobs", budget=of("2019"))
        pay(ledger, "1", data_set="j\u043ebs", budget=of("\uff12019"), beside=[of()])
    assert ledger.spent("jobs", "2019")[0] == 2
    with pytest.raises(OverBudgetError, match="for 2019"):
        pay(ledger, "2", data_set="jobs", budget=of("2019"))
    with pytest.raises(OverBudgetError, match="for ever"):
        pay(ledger, "2", data_set="jobs", budget=of("2020"))
    pay(ledger, "1", data_set="jobs", budget=of("2020"))


@pytest.mark.parametrize(
    ("one", "other"), [("C\u00f4te d'Or", "C\u00f4te d\u00b4Or"), ("\u0111", "d\u0335"), ("\u00a9", "C")]
)
def test_what_stands_for_a_letter_is_looked_up_too(one: str, other: str) -> None:
    assert look_alike(one, other)


def test_amounts_that_are_refused(ledger: Ledger) -> None:
    for bad in ("-1", "1e-2000", "1e-5000"):
        with pytest.raises(LedgerError, match="Fix"):
            pay(ledger, bad)
    with pytest.raises(LedgerError, match="anything"):
        Budget(Fraction(1), Fraction(1))
    with pytest.raises(TypeError, match="float"):
        Budget(1.0, Fraction(0))  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="SHA-256"):
        pay(ledger, plan_sha256="A" * 64)
    assert not ledger.path.exists()


def test_export_is_the_chain(ledger: Ledger) -> None:
    story(ledger)
    lines = [json.loads(line) for line in ledger.export("jsonl").splitlines()]
    cells = [
        {name: int(cell) if name == "entry" else cell for name, cell in row.items() if cell}
        for row in csv.DictReader(io.StringIO(ledger.export("csv")))
    ]
    assert cells == lines
    assert chained(lines) == [line["hash"] for line in lines] == [e.hash for e in ledger.entries()]
    assert {line["kind"] for line in lines} > {"budget", "debit", "resumed", "finished", "failed"}
    assert (lines[1]["epsilon"], lines[3]["epsilon"], lines[3]["rho"]) == ("1", "1/3", "1/18")
    with pytest.raises(LedgerError, match="jsonl or csv"):
        ledger.export("xml")  # type: ignore[arg-type]


# --- two accounts: plain sums, and zCDP

RHO = Budget(None, Fraction("1e-4"), rho=Fraction(1))


def test_a_budget_in_rho_allows_rhos_that_add_up_to_it(ledger: Ledger) -> None:
    """Epsilons do not limit then; a release without a rho costs what follows from its pair."""
    for _ in range(3):
        pay(ledger, "40", "1e-3", budget=RHO, rho=Fraction(1, 4))
    pay(ledger, "1/10", "1e-5", budget=RHO)
    spent = ledger.spent("jobs")
    assert (spent.epsilon, spent.rho_delta) == (Fraction("120.1"), Fraction("1e-5"))
    assert Fraction(3, 4) < spent.rho < Fraction(3, 4) + Fraction(1, 200)
    left = ledger.remaining("jobs", RHO)
    assert left == {"rho": 1 - spent.rho, "rho_delta": Fraction("9e-5")}
    before = ledger.entries()
    for amounts, rho, short in (
        (("1", "0"), Fraction(1, 4), "rho"),
        (("0", "1e-4"), None, "delta beside rho"),
        (("1", "1"), None, "rho and delta beside rho"),
    ):
        with pytest.raises(OverBudgetError, match=f"too little {short} is left; spent rho 0.7.*; asked rho "):
            pay(ledger, *amounts, budget=RHO, rho=rho)
    assert ledger.entries() == before
    pay(ledger, "40", "1e-3", budget=RHO, rho=left["rho"])
    with pytest.raises(OverBudgetError, match=r"remaining rho 0, delta 0\.00009"):
        pay(ledger, "0", "0", budget=RHO, rho=Fraction(1, 10**300))


def test_a_budget_in_both_limits_both(ledger: Ledger) -> None:
    both = Budget(Fraction(10), Fraction("1e-4"), rho=Fraction(1))
    pay(ledger, "4", budget=both, rho=Fraction(1, 2))
    with pytest.raises(OverBudgetError, match="too little epsilon is left"):
        pay(ledger, "7", budget=both, rho=Fraction(1, 4))
    with pytest.raises(OverBudgetError, match="too little rho is left"):
        pay(ledger, "4", budget=both)
    pay(ledger, "6", budget=both, rho=Fraction(1, 2))
    assert ledger.remaining("jobs", both) == {
        "epsilon": 0, "delta": Fraction("98e-6"), "rho": 0, "rho_delta": Fraction("1e-4")
    }  # fmt: skip


def test_a_total_in_rho_limits_periods_in_epsilon(ledger: Ledger) -> None:
    def year(period: str, total: Budget | None) -> None:
        budget = Budget(Fraction(8), Fraction("1e-5"), period)
        pay(ledger, "8", "1e-6", budget=budget, beside=[total] if total else [], rho=Fraction(1, 2))

    year("2026", RHO)
    year("2027", None)
    with pytest.raises(OverBudgetError, match=r"the budget for ever .* too little rho is left"):
        year("2028", None)
    assert [(e.epsilon, e.rho) for e in ledger.entries() if e.kind == "budget" and e.period is None] == [
        (None, 1)
    ]


def test_debits_of_the_last_years(ledger: Ledger) -> None:
    for year in (2024, 2025, 2026):
        pay(ledger, now=NOON.replace(year=year), budget=TEN)
    since = NOON.replace(year=2025)
    assert ledger.spent("jobs", since=since).epsilon == 2
    assert ledger.spent("jobs", since=since + timedelta(microseconds=1)).epsilon == 1
    (account,) = ledger.accounts(since)
    assert (account.debits, len(account.releases), account.spent.epsilon) == (2, 2, 2)


# --- a window of years

LIFE = Budget(Fraction(100), Fraction(1, 2))
WINDOW = Budget(Fraction(2), Fraction(1, 4), years=5)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 8)), max_size=14), st.integers(1, 4))
def test_no_window_of_years_exceeds_its_budget(asked: list[tuple[int, int]], years: int) -> None:
    """A debit is refused if, and only if, the years that end with its day would have more."""
    window = Budget(Fraction(1), Fraction(1, 4), years=years)
    paid: list[tuple[date, Fraction]] = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        for days, eighths in sorted(asked):
            now, cost = datetime(2023, 12, 30, 23, 59, tzinfo=UTC) + timedelta(days), Fraction(eighths, 8)
            today = now.date()
            # Another way to count: an earlier day is outside if its anniversary is not after today.
            inside = [amount for day, amount in paid if anniversary(day, years) > today]
            try:
                pay(ledger, str(cost), "0", budget=LIFE, beside=[window], now=now)
            except OverBudgetError:
                assert sum(inside) + cost > 1
            else:
                assert sum(inside) + cost <= 1
                paid.append((today, cost))
        for first, _ in paid:
            assert sum(cost for day, cost in paid if first <= day < anniversary(first, years)) <= 1


def anniversary(day: date, years: int) -> date:
    """The day on which so many years are over; of the 29th of February, in other years, the next day."""
    try:
        return day.replace(year=day.year + years)
    except ValueError:
        return date(day.year + years, 3, 1)


def test_a_window_limits_later_debits_that_do_not_state_it(ledger: Ledger) -> None:
    """One of another length is another budget; a clock set back leaves none of them."""
    for year in (2026, 2027):
        pay(ledger, "1", now=NOON.replace(year=year), budget=LIFE, beside=[WINDOW])
    before = ledger.entries()
    for beside in ([], [Budget(Fraction(9), Fraction(1, 4), years=6)]):
        with pytest.raises(
            OverBudgetError, match=r"the budget for any 5 year\(s\) .* too little epsilon is left"
        ):
            pay(ledger, "1/10", now=NOON.replace(year=2031, month=2, day=28), budget=LIFE, beside=beside)
    with pytest.raises(LedgerError, match=r"before the last entry .* Fix: set the clock"):
        pay(ledger, "1/10", now=NOON.replace(year=2020), budget=LIFE)
    assert ledger.entries() == before
    assert ledger.remaining("jobs", WINDOW, now=NOON.replace(year=2031))["epsilon"] == 1
    pay(
        ledger, "1", now=NOON.replace(year=2031, hour=0), budget=LIFE
    )  # earlier in the day than five years ago
    life, window = ledger.accounts(now=NOON.replace(year=2031))
    assert (life.spent.epsilon, window.spent.epsilon, window.left["epsilon"]) == (3, 2, 0)
    assert (life.debits, window.debits, window.budget) == (3, 2, WINDOW)
    wider = Budget(Fraction(3), Fraction(1, 4), years=5)
    pay(ledger, "1", now=NOON.replace(year=2031), budget=LIFE, beside=[wider])  # raised
    assert ledger.verify().entries == len(before) + 3


def test_budgets_of_a_life_a_period_and_years_all_limit(ledger: Ledger) -> None:
    def year(number: int, epsilon: str) -> None:
        budget = Budget(Fraction(2), Fraction(1, 9), str(number))
        life = Budget(Fraction(5), Fraction(1, 2))
        pay(ledger, epsilon, budget=budget, beside=[life, window], now=NOON.replace(year=number))

    window = Budget(Fraction(3), Fraction(1, 4), years=2)
    year(2026, "2")
    for number, epsilon, refused in ((2026, "1/9", "for 2026"), (2027, "3/2", r"for any 2 year\(s\)")):
        with pytest.raises(OverBudgetError, match=f"the budget {refused} does not allow"):
            year(number, epsilon)
    for number in (2027, 2029):
        year(number, "1")
    with pytest.raises(OverBudgetError, match="the budget for ever does not allow"):
        year(2031, "3/2")
    assert [account.budget.label for account in ledger.accounts()] == [
        None, "any 2 year(s)", "2026", "2027", "2029"
    ]  # fmt: skip


def test_what_is_no_window() -> None:
    for years in (0, -1, 1001):
        with pytest.raises(LedgerError, match=r"Fix: state 1 to 1,000 years"):
            Budget(Fraction(1), Fraction(0), years=years)
    with pytest.raises(TypeError):
        Budget(Fraction(1), Fraction(0), years=2.5)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="a period and years"):
        Budget(Fraction(1), Fraction(0), "2026", years=5)
    for last, first in (
        ("2028-02-29", "2023-03-01"),
        ("2028-02-28", "2023-03-01"),
        ("2029-02-28", "2024-02-29"),
    ):
        assert first_day(date.fromisoformat(last), 5).isoformat() == first
    assert first_day(date(5, 1, 1), 5) == date.min


def test_what_is_no_budget_and_no_amount(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"limits nothing\. Fix: state its epsilon, its rho, or both"):
        Budget(None, Fraction(0))
    for bad in (Fraction(-1), Fraction(10**6 + 1)):
        with pytest.raises(LedgerError, match=r"rho is (negative|above 1,000,000).*Fix"):
            pay(ledger, rho=bad)
    with pytest.raises(TypeError, match="rho must be an exact number"):
        Budget(None, Fraction(0), rho=0.5)  # type: ignore[arg-type]
    assert not ledger.path.exists()


# --- what costs are a guarantee of

HERE, THERE = "inside " + "a" * 16, "inside " + "b" * 16


@pytest.mark.parametrize(
    ("paid", "total"),
    [
        ([Terms("full", ANYWHERE, 2), Terms("full", HERE, 3)], Terms("full", HERE, 2)),
        ([Terms("full", HERE), Terms("parts st:1", ANYWHERE)], Terms("parts st:1", HERE)),
        ([Terms("full", HERE), Terms("full", THERE)], "geography, with jobs.population"),
        ([Terms("ward st:1"), Terms("full")], r"privacy\.policy: the policies are"),
        ([Terms("parts st:1/cty:2"), Terms("parts st:1/cty:3/trct:1")], "geography: the units of 'cty'"),
        ([Terms("parts st:1/cty:2"), Terms("parts st:1/ward:2")], r"privacy\.policy: the policies are"),
        ([Terms("parts st:1/cty:2"), Terms("parts st:1/cty:2/trct:3")], Terms("parts st:1/cty:2/trct:3")),
        ([Terms("attribute age:1/pay:2"), Terms("attribute age:1")], Terms("attribute age:1")),
        (
            [Terms("attribute age:1"), Terms("full"), Terms("parts st:1"), Terms("attribute age:1/pay:2")],
            Terms("parts st:1"),
        ),
        ([Terms("distance 4:a"), Terms("distance 4:b")], "geography: the blocks"),
        ([Terms("distance 4:a"), Terms("parts st:1")], r"privacy\.policy: the policies are"),
        (
            [Terms("attribute a%20b:1/c:2"), Terms("attribute a%20b:3/c:2")],
            r"privacy\.protects: a b has ",
        ),
        ([Terms("attribute age:1"), Terms("attribute pay:1")], r"privacy\.protects: age has "),
        ([Terms("attribute age:1"), Terms("full"), Terms("attribute age:2")], Terms()),
        ([Terms("attribute age:1"), Terms("attribute age:2")], r"privacy\.protects: age has "),
    ],
)
def test_costs_are_added_up_only_where_they_are_a_guarantee(
    ledger: Ledger, paid: list[Terms], total: Terms | str
) -> None:
    for terms in paid[: None if isinstance(total, Terms) else -1]:
        assert Terms.of(pay(ledger, policy=str(terms)).policy) == terms
    if isinstance(total, str):
        before = ledger.entries()
        for rehearse in (True, False):
            with pytest.raises(PolicyError, match=rf"do not add up, .*: {total}.*Fix: "):
                pay(ledger, policy=str(paid[-1]), rehearse=rehearse)
        assert ledger.entries() == before
        return
    (account,) = ledger.accounts()
    assert account.terms == total


@pytest.mark.parametrize("policy", ["", "full", "partition st:1", "full; homes 7; records 1"])
def test_a_debit_says_its_terms_in_full(policy: str, ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"are not the terms of a debit\. Fix: "):
        pay(ledger, policy=policy)


def test_a_budget_for_ever_finds_periods_that_do_not_add_up(ledger: Ledger) -> None:
    """Each of them compares with the new release; together they are a guarantee of nothing."""
    for period in ("2026", "2027"):
        pay(
            ledger,
            budget=Budget(Fraction(10), Fraction(1, 2), period),
            policy=str(Terms(f"parts st:{period}")),
        )
    pay(ledger, budget=Budget(Fraction(10), Fraction(1, 2), "2028"))
    with pytest.raises(PolicyError, match="the costs of entry 2 and entry 4 do not add up"):
        pay(ledger)


def refined(ledger: Ledger, first: Debit, epsilon: str, **change: Any) -> Debit:
    """Pay for a release that refines the one of a debit."""
    name = f"jobs again, run {'0' * 32}, refines {first.id[:16]}"
    return pay(ledger, epsilon, "0", release=name, **change)


def test_a_window_counts_what_a_debit_in_it_refines(ledger: Ledger) -> None:
    later, window = NOON.replace(year=2036), Budget(Fraction(4), Fraction(1, 4), years=5)
    first = pay(ledger, "1", "0", now=NOON, budget=LIFE, beside=[window])
    with pytest.raises(OverBudgetError):
        refined(ledger, first, "3.5", now=later, budget=LIFE)
    refined(ledger, first, "2.5", now=later, budget=LIFE)
    with pytest.raises(OverBudgetError):
        pay(ledger, "0.75", "0", now=later, budget=LIFE, beside=[window])
    pay(ledger, "0.5", "0", now=later, budget=LIFE, beside=[window])
    assert ledger.spent("jobs", since=later).epsilon == 4


def test_refining_does_not_bring_an_older_larger_budget_back(ledger: Ledger) -> None:
    """The configuration of a refined release is that of the earlier one, whatever was decided since."""
    old = {
        "budget": Budget(Fraction(20), Fraction(1, 2)),
        "beside": [Budget(None, Fraction(0), None, Fraction(50), 5)],
    }
    first = pay(ledger, "1", "0", **old)
    lowered = Budget(Fraction(3), Fraction(1, 2)), Budget(None, Fraction(0), None, Fraction(10), 5)
    pay(ledger, "1", "0", budget=lowered[0], beside=[lowered[1]])
    before = ledger.entries()
    for rehearse in (True, False):
        with pytest.raises(OverBudgetError, match=r"remaining epsilon 1, delta 0\.5; asked epsilon 1\.5"):
            refined(ledger, first, "1.5", rehearse=rehearse, **old)
    assert ledger.entries() == before
    refined(ledger, first, "1", **old)
    assert {account.budget for account in ledger.accounts()} == {*lowered}


def test_a_release_is_refined_once_and_from_the_budget_that_paid_for_it(ledger: Ledger) -> None:
    first, head = pay(ledger), ledger.verify().head
    year = Budget(Fraction(10), Fraction(1, 10), "2026")
    for change, said in (
        ({"data_set": "other"}, "no debit .* of 'other' in the same period"),
        ({"budget": year}, "no debit .* of 'jobs' in the same period"),
    ):
        with pytest.raises(LedgerError, match=said):
            refined(ledger, first, "1", **change)
    assert ledger.verify().head == head
    refined(ledger, first, "1", rehearse=True)
    second = refined(ledger, first, "1")
    with pytest.raises(
        LedgerError, match=r"entry 3 paid for refining .*Fix: refine the release of that entry"
    ):
        refined(ledger, first, "2")
    refined(ledger, second, "1")
    assert ledger.spent("jobs").epsilon == 3
