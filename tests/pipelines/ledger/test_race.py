"""Many processes, kill -9, and any sequence of debits: the budget is never exceeded, and nothing is lost."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ledger.budgets import Budget, OverBudgetError
from pipelines.ledger.ledger import Charge, Ledger

# Imports once and forks. Every child debits one unit at a time until it is refused (or killed), and tells
# each debit that it was given by one byte through a pipe.
SCRIPT = """
import os, signal, sys, time
from fractions import Fraction
from pipelines.ledger.budgets import Budget, OverBudgetError
from pipelines.ledger.ledger import Charge, Ledger

path, children, account, budget, *delays = sys.argv[1:]
ledger = Ledger(path)
life = Budget(Fraction(10**6), Fraction(1, 2))
if account == "years":
    beside = [Budget(Fraction(budget), Fraction(1, 2), years=5)]
else:
    life, beside = Budget(**{"epsilon": None, "delta": Fraction(1, 2), account: Fraction(budget)}), []

def debit(ledger):
    paid = Charge("jobs", Fraction(1), Fraction(1, 1000), "a" * 64, str(os.getpid()), rho=Fraction(1))
    ledger.debit(paid, life, beside)

debit(Ledger(f"{path}-first"))  # loads what debits need, so that no child has to
ready, go = os.pipe()

def debit_until_refused(said):
    os.close(go)
    os.read(ready, 1)  # until all have started
    while True:
        try:
            debit(ledger)
        except OverBudgetError:
            os._exit(0)
        os.write(said, b".")

for number in range(int(children)):
    said, heard = os.pipe()[::-1]
    child = os.fork()
    if child == 0:
        try:
            debit_until_refused(said)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
    os.close(said)
    if delays:
        os.close(ready), os.close(go)
        told = sum(len(os.read(heard, 1)) for _ in range(number))  # however slow the machine is
        time.sleep(float(delays[number]))
        os.kill(child, signal.SIGKILL)
        print(os.waitpid(child, 0)[1], told + len(os.read(heard, 1 << 20)), flush=True)
        ready, go = os.pipe()
os.close(go)
if not delays:
    for _ in range(int(children)):
        print(os.wait()[1])
"""


def forked(path: Path, children: int, account: str, budget: int, *delays: str) -> list[list[int]]:
    arguments = [str(path), str(children), account, str(budget), *delays]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [[int(number) for number in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("account", ["epsilon", "rho", "years"])
def test_sixteen_processes_get_exactly_the_budget(tmp_path: Path, account: str) -> None:
    path = tmp_path / "ledger.sqlite"  # which they also race to make
    assert forked(path, 16, account, 100) == [[0]] * 16
    ledger = Ledger(path)
    assert ledger.verify().entries == (102 if account == "years" else 101)
    assert ledger.spent("jobs") == (100, Fraction(1, 10), 100, 0)
    assert len({entry.release for entry in ledger.entries()}) > 2  # it was a race
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


@pytest.mark.slow
def test_kill_in_the_middle_of_debits(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    pace = time.perf_counter()  # of the machine: the longest delay is that of a debit
    for _ in range(10):
        debit(Ledger(tmp_path / "pace.sqlite"), 10)
    pace = time.perf_counter() - pace
    result = forked(path, 25, "epsilon", 10**6, *(f"{0.004 * pace * step:.5f}" for step in range(25)))
    assert all(os.WTERMSIG(status) == 9 for status, _ in result)
    ledger = Ledger(path)
    debits = ledger.verify().entries - 1
    told = sum(count for _, count in result)
    assert 24 * 25 / 2 <= told <= debits <= told + 25  # a crash wastes at most the debit it was in
    assert ledger.spent("jobs")[0] == debits


# One child a moment; it dies before or after a statement or a call of its debit.
DYING = """
import itertools, os, signal, sqlite3, sys
from fractions import Fraction
from pipelines.ledger.budgets import Budget
from pipelines.ledger.ledger import Charge, Ledger

def dying(real, when, what, left="0"):
    calls = itertools.count()
    def call(*arguments, **options):
        armed = what in (real.__name__, *(str(argument)[:len(what)] for argument in arguments))
        armed = armed and next(calls) == int(left)
        if armed and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **options)
        if armed:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

def arm(*moment):
    class Connection(sqlite3.Connection):
        execute = dying(sqlite3.Connection.execute, *moment)
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **k: connect(*a, factory=Connection, **k)
    os.link, os.fsync = dying(os.link, *moment), dying(os.fsync, *moment)

for number, moment in enumerate(sys.argv[2:]):
    child = os.fork()
    if child == 0:
        arm(*moment.split(":"))
        Ledger(f"{sys.argv[1]}/{number}/ledger.sqlite").debit(
            Charge("jobs", Fraction(1), Fraction(0), "a" * 64, "r"), Budget(Fraction(5), Fraction(0)))
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""
# Entries left by a child that dies at that moment: in a new ledger (None: no file), and in one that had two.
NEW: dict[str, int | None] = {
    "before:CREATE TABLE releases": None,
    "before:PRAGMA user_version =": None,
    "before:link": None,
    "after:link": 0,
    "after:fsync": None,  # of the content
    "before:fsync:1": 0,  # of the name
    "after:fsync:1": 0,
}
OLD = {
    "before:BEGIN IMMEDIATE": 2,
    "after:PRAGMA integrity_check": 2,
    "before:INSERT": 2,
    "after:INSERT": 2,
    "before:COMMIT": 2,
    "after:COMMIT": 3,
    "after:PRAGMA wal_checkpoint": 3,
}


@pytest.mark.slow
def test_kill_at_every_step_of_a_debit(tmp_path: Path) -> None:
    moments = [*NEW.items(), *OLD.items()]
    for number, (moment, _) in enumerate(moments):
        (tmp_path / str(number)).mkdir()
        if moment in OLD:
            debit(Ledger(tmp_path / str(number) / "ledger.sqlite"))
    script = [sys.executable, "-c", DYING, str(tmp_path), *dict(moments)]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9"] * len(moments), done.stderr
    for number, (_, left) in enumerate(moments):
        ledger = Ledger(tmp_path / str(number) / "ledger.sqlite")
        assert ledger.path.exists() == (left is not None)
        if left is not None:
            assert ledger.verify().entries == left
        assert debit(ledger) == max(left or 0, 1) + 1  # and the next run goes on


def debit(ledger: Ledger, most: int = 5) -> int:
    budget = Budget(Fraction(most), Fraction(0))
    return ledger.debit(Charge("jobs", Fraction(1), Fraction(0), "a" * 64, "r"), budget).entry


amounts = st.fractions(min_value=0, max_value=3, max_denominator=12)
rhos = st.none() | amounts
accounts = st.sampled_from([("a", None), ("a", "1"), ("a", "2"), ("b", None), ("b", "1"), ("b", "2")])
Asked = tuple[tuple[str, str | None], Fraction, Fraction, Fraction | None]


def total(paid: list[Asked], data_set: str, period: str | None) -> list[Fraction]:
    """The model: what was paid from a budget, by both accounts; for ever is every period."""
    lines = [line for line in paid if line[0][0] == data_set and period in (None, line[0][1])]
    rest = [(epsilon, delta) for _, epsilon, delta, rho in lines if rho is None]
    sums = [[line[1] for line in lines], [line[2] for line in lines]]
    # All debits without rho: rounded up far below the steps of these amounts.
    concentrated = [line[3] for line in lines if line[3] is not None]
    concentrated += [Fraction(float(e) * math.tanh(float(e) / 2)) for e, _ in rest]
    return [sum(numbers, Fraction(0)) for numbers in (*sums, concentrated, [d for _, d in rest])]


def fits(spent: list[Fraction], limits: tuple[Fraction | None, Fraction, Fraction | None]) -> bool:
    epsilon, delta, rho = limits
    by_sums = epsilon is None or (spent[0] <= epsilon and spent[1] <= delta)
    return by_sums and (rho is None or (spent[2] <= rho and spent[3] <= delta))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(amounts, amounts, rhos) | st.tuples(st.none(), amounts, amounts),
    st.lists(st.tuples(accounts, amounts, amounts, rhos), max_size=12),
)
def test_no_sequence_of_debits_exceeds_a_budget(
    stated: tuple[Fraction | None, Fraction, Fraction | None], asked: list[Asked]
) -> None:
    """A debit is refused if, and only if, it would exceed its own budget or one for ever that was entered."""
    epsilon, part, rho = stated
    # No sum of tanh hits such a limit by chance, so that floats of the model decide as the ledger does.
    limits = epsilon, part / 4, None if rho is None else rho + Fraction(1, 10**9 + 7)
    paid: list[Asked] = []
    entered = set()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        for (name, period), cost, share, its_rho in asked:
            after = [*paid, ((name, period), cost, share / 12, its_rho)]
            binding = {period} | ({None} if (name, None) in entered else set())
            allowed = all(fits(total(after, name, one), limits) for one in binding)
            try:
                charge = Charge(name, cost, share / 12, "a" * 64, "r", rho=its_rho)
                ledger.debit(charge, Budget(limits[0], limits[1], period, limits[2]))
            except OverBudgetError:
                assert not allowed
            else:
                assert allowed
                paid = after
                entered.add((name, period))
        if paid:
            debits = [entry for entry in ledger.entries() if entry.kind == "debit"]
            assert [((e.data_set, e.period), e.epsilon, e.delta, e.rho) for e in debits] == paid
            for account in ledger.accounts():
                key = account.data_set, account.budget.period
                spent = total(paid, *key)
                assert key in entered
                assert [account.spent.epsilon, account.spent.delta] == spent[:2]
                assert account.spent.rho_delta == spent[3]
                assert float(account.spent.rho) == pytest.approx(float(spent[2]), rel=1e-12)
            ledger.verify()
