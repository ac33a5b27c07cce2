"""The budget of a calendar: what periods cost, the cap over all; what cannot be paid or does not come.

Most tests replace planning and running by a debit in the real ledger; one test makes real runs.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

import synth
from helpers import NOW, SCHEDULE, with_values
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import Budget, OverBudgetError, spent_of
from pipelines.ledger.budgets import left_of as budget_left
from pipelines.ledger.chain import Entry, LedgerError
from pipelines.ledger.ledger import Charge, Ledger
from pipelines.running.payment import left_in, most_cost_of, read_ledger
from pipelines.schedule import due as due_module
from pipelines.schedule.calendar import read_calendar
from pipelines.schedule.costs import Cost, _summed
from pipelines.schedule.due import due, look
from pipelines.schedule.records import Records
from pipelines.schedule.summary import EXIT_FAILED, Result, Summary
from synth.rationals import exact

from .conftest import COMMAND
from .helpers import FIT, Office, release, statuses
from .test_shares import MEASURED

CAP = {"file": "x", "data_set": "jobs", "epsilon": "8", "delta": "1e-5"}
BY_YEAR = '"ledger.period" = "{year}"\n'

# --- the budget over all periods


def test_a_total_limits_all_periods_of_a_ledger(tmp_path: Path) -> None:
    """It is entered with the first debit, in its transaction, and stays when a later one leaves it out."""
    ledger, third = Ledger(tmp_path / "ledger.sqlite"), Fraction(1, 3)
    total = Budget(Fraction(1), Fraction("1e-4"))

    def pay(period: str, total: Budget | None = total, epsilon: Fraction = third) -> None:
        budget = Budget(Fraction(10), Fraction("1e-4"), period)
        ledger.debit(Charge("jobs", epsilon, Fraction(0), "0" * 64, period), budget, [total] if total else [])

    with pytest.raises(OverBudgetError, match="for ever"):
        pay("2020", epsilon=Fraction(2))
    assert ledger.entries() == []  # nothing was spent, and nothing was entered
    for period in ("2021", "2022", "2023"):
        pay(period)
    for stated in (total, None):
        with pytest.raises(OverBudgetError, match="for ever"):
            pay("2024", stated, Fraction(1, 10**300))
    assert [entry.kind for entry in ledger.entries()].count("budget") == 4  # three periods, and one for all
    pay("2024", Budget(Fraction(2), Fraction("1e-4")))  # raised
    pay("2025", None)
    with pytest.raises(LedgerError, match="the budget over all periods has a period"):
        pay("2026", Budget(Fraction(9), Fraction(0), "2026"))


def test_a_total_is_both_numbers_and_needs_a_period(small_config: Callable[..., ReleaseConfig]) -> None:
    table = CAP | {"total_epsilon": "20"}
    with pytest.raises(ConfigError) as caught:
        small_config({"ledger": table})
    said = str(caught.value)
    assert "ledger.total_delta: missing beside total_epsilon; name both or neither" in said
    assert "without period, epsilon, delta and rho are the budget over all periods" in said
    for change, wrong in (
        ({"epsilon": None}, "ledger.epsilon: missing; name epsilon, rho, or both"),
        ({"total_delta": "1e-4", "total_epsilon": None}, "ledger.total_epsilon: missing beside total_delta"),
        ({"total_rho": "2", "total_epsilon": None}, "ledger.total_delta: missing beside total_rho"),
    ):
        tried = {key: value for key, value in (table | change).items() if value is not None}
        with pytest.raises(ConfigError) as caught:
            small_config({"ledger": tried | {"period": "2026"}})
        assert wrong in str(caught.value)
    window = {"window_years": 5, "window_delta": "0", "window_rho": "1"}
    needs = "missing; a window needs window_years, window_delta, and window_epsilon"
    for key, named in (("window_years", "years"), ("window_delta", "delta"), ("window_rho", "epsilon")):
        with pytest.raises(ConfigError, match=rf"ledger.window_{named}: {needs}"):
            small_config({"ledger": CAP | {name: value for name, value in window.items() if name != key}})
    for wrong_years in (0, -1, 1001, "5", 2.5):
        with pytest.raises(ConfigError, match=r"ledger\.window_years"):
            small_config({"ledger": CAP | window | {"window_years": wrong_years}})
    settings = small_config({"ledger": table | {"total_delta": "1e-4", "period": "2026"}}).ledger
    assert settings is not None
    Path(settings.file.parent).mkdir(exist_ok=True)
    assert left_in(read_ledger(settings), settings) == {"epsilon": 8, "delta": Fraction("1e-5")}
    small = settings.model_copy(update={"total_epsilon": Fraction(5)})
    assert left_in(read_ledger(small), small) == {"epsilon": 5, "delta": Fraction("1e-5")}


def left_of(cost: Cost) -> tuple[Fraction, Fraction]:
    assert cost.left is not None
    return cost.left["epsilon"], cost.left["delta"]


# --- what cannot be paid


def test_a_period_that_cannot_be_paid_is_set_aside_and_told_once(office: Callable[..., Office]) -> None:
    """2022 is over a budget of its own; 2023 goes on. Before, 2023 was held back for ever."""
    world = office(epsilon="8", period="2021")
    world.write(ri=SCHEDULE + BY_YEAR)
    world.book.debit(  # somebody has spent from 2022
        Charge("jobs", Fraction(1), Fraction(0), "0" * 64, "another"),
        Budget(Fraction(8), Fraction("1e-5"), "2022"),
    )
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2021": "finished", "ri-2022": "skip", "ri-2023": "finished"}
    assert summary.exit_code == EXIT_FAILED
    detail = summary.results[1].detail
    assert "the budget for 2022 does not allow this release" in detail
    assert f"raise the budget, or remove {world.state / 'ri-2022.json'}" in detail
    record = world.record("ri-2022")
    assert (record["status"], record["attempts"], record["epsilon"]) == ("skip", 0, "8")
    assert "remaining epsilon 7" in record["reason"]
    assert [document["text"] for document in world.told()] == [
        "odsynth due calendar: 2 finished (ri-2021, ri-2023), 1 skip (ri-2022)"
    ]
    record = world.record("ri-2022")
    for _ in range(3):  # told once, in the summary too; a dry run says it always
        again = due(world.calendar, now=NOW)
        assert (again.results, again.exit_code, again.text()) == ((), 0, "Nothing is due.")
        before = world.tree()
        assert statuses(due(world.calendar, now=NOW, dry_run=True)) == {"ri-2022": "skip"}
        assert world.tree() == before
    assert world.record("ri-2022") == record
    assert len(world.told()) == 1

    (world.state / "ri-2022.json").unlink()  # tried again, and told again
    assert statuses(due(world.calendar, now=NOW + timedelta(hours=1))) == {"ri-2022": "skip"}
    assert len(world.told()) == 2
    world.budget(epsilon="9")  # raised: taken up again
    assert statuses(due(world.calendar, now=NOW + timedelta(hours=2))) == {"ri-2022": "finished"}
    assert sorted(world.debits()) == [
        "Small region 2021",
        "Small region 2022",
        "Small region 2023",
        "another",
    ]


def test_what_is_told_is_noted_after_it_was_told(office: Callable[..., Office]) -> None:
    """A command that fails is asked again; one that works is not, whatever the webhook does."""
    world = office(epsilon="8")
    world.write(calendar='[notify]\ncommand = ["false"]\n')
    for _ in range(2):
        assert due(world.calendar, now=NOW).notices == ("notify.command: false ended with code 1",)
    world.write(calendar=COMMAND + 'webhook = "http://127.0.0.1:9/"\n')
    for _ in range(3):
        (notice,) = due(world.calendar, now=NOW).notices
        assert notice.startswith("notify.webhook")
    (told,) = world.told()
    assert "2 skip (ri-2022, ri-2023)" in told["text"]
    (world.state / "told").write_text("[")
    world.write(calendar=COMMAND)
    due(world.calendar, now=NOW)
    assert len(world.told()) == 2  # what is not known to be told is told


def test_given_up_is_told_once(office: Callable[..., Office], monkeypatch: pytest.MonkeyPatch) -> None:
    world = office(epsilon="1000", delta="0.5")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(due_module, "make_release", fail)
    for hour in range(8):
        summary = due(world.calendar, now=NOW + timedelta(hours=hour))
        assert summary.exit_code == EXIT_FAILED  # it is in the way until somebody looks
    assert statuses(summary) == {"ri-2021": "given up", "ri-2022": "behind", "ri-2023": "behind"}
    assert [t["occurrences"][0]["status"] for t in world.told()] == ["failed"] * 3 + ["given up"]


def test_a_ledger_that_cannot_be_trusted_sets_nothing_aside(office: Callable[..., Office]) -> None:
    world = office(epsilon="8")
    world.book.path.write_bytes(b"no ledger")
    world.book.path.chmod(0o600)
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2021": "failed", "ri-2022": "behind", "ri-2023": "behind"}
    dry = due(world.calendar, now=NOW, dry_run=True)
    assert any("ledger.sqlite" in problem for problem in dry.problems)
    assert dry.outlook is not None
    assert not any(cost.payable for cost in dry.outlook.costs)


def test_a_record_of_version_0_1_0_is_read(tmp_path: Path) -> None:
    record = {"format": "odsynth occurrence 1", "name": "ri-2021", "due": "2022-02-01T06:00:00+00:00"}
    record |= {"out": "out", "status": "failed", "attempts": 2, "time": "2024-06-01T12:00:00+00:00"}
    record |= {"error": "InputError", "published": None}
    (tmp_path / "ri-2021.json").write_text(json.dumps(record))
    read, damaged = Records(tmp_path).read()
    assert (damaged, read["ri-2021"].attempts) == (set(), 2)
    Records(tmp_path).save(read["ri-2021"])
    assert json.loads((tmp_path / "ri-2021.json").read_text()) == record  # and written as it was


# --- what it will cost


def test_a_dry_run_says_what_periods_cost_and_where_the_budget_ends(office: Callable[..., Office]) -> None:
    world = office(epsilon="30", delta="1e-4")
    (world.folder / "jobs" / "2022.csv.gz").unlink()  # what waits costs too
    before = world.tree()
    summary = due(world.calendar, now=NOW, dry_run=True)
    assert world.tree() == before
    assert summary.outlook is not None
    found = [(c.name, c.cost.epsilon, left_of(c), c.payable) for c in summary.outlook.costs]
    delta = Fraction("1e-5")
    assert found == [
        ("ri-2021", 8, (22, 9 * delta), True),
        ("ri-2022", 8, (14, 8 * delta), True),
        ("ri-2023", 8, (6, 7 * delta), True),
        ("ri-2024", 8, (6, 7 * delta), False),
    ]
    lines = summary.text().splitlines()
    assert (
        "cost      ri-2021, due 2022-02-01 06:00+00:00: epsilon 8, delta 0.00001 (requested); left then "
        "epsilon 22, delta 0.00009" in lines
    )
    assert lines[-1] == (
        f"budget    jobs ({world.book.path}): ends before ri-2024, due 2025-02-01, the first period that it "
        "does not pay"
    )
    assert statuses(due(world.calendar, now=NOW))["ri-2021"] == "finished"
    after = due(world.calendar, now=NOW, dry_run=True).outlook
    assert after is not None
    assert [(c.name, left_of(c)) for c in after.costs] == [
        ("ri-2022", (6, 7 * delta)),  # overdue; 2023 went on without it
        ("ri-2024", (6, 7 * delta)),
    ]
    assert after.ends[0].startswith(f"jobs ({world.book.path}): ends before ri-2024")


def test_the_outlook_is_what_then_happens(office: Callable[..., Office]) -> None:
    """Schedules that share a data set, budgets of periods and a total: as told, so it is paid."""
    world = office(period="x", epsilon="16", delta="2e-5", total_epsilon="33", total_delta="0.5")
    half = SCHEDULE.replace("out/", "out/half").replace("Small", "Half of small")
    half = half.replace("[set]", '[set]\n"privacy.epsilon" = "7/2"')
    world.write(ri=SCHEDULE + BY_YEAR, half=half + BY_YEAR)
    dry = due(world.calendar, now=NOW, dry_run=True).outlook
    assert dry is not None
    told = {cost.name: cost.payable for cost in dry.costs if cost.due <= NOW}
    done = statuses(due(world.calendar, now=NOW))
    assert {name: status == "finished" for name, status in done.items()} == told
    assert len(told) == 6
    assert list(told.values()) == [True] * 5 + [False]  # half of 2023 still fits, the whole does not
    assert world.book.spent("jobs")[0] == 2 * 8 + 3 * Fraction(7, 2)


def test_a_budget_in_rho_is_told_as_it_is_then_paid(office: Callable[..., Office]) -> None:
    """A budget without an epsilon; a period costs what follows from its pair."""
    world = office(rho="20", delta="1e-4")
    tables = tomlkit.parse((world.folder / "base.toml").read_text()).unwrap()
    del tables["ledger"]["epsilon"]
    (world.folder / "base.toml").write_text(tomlkit.dumps(tables))
    dry = due(world.calendar, now=NOW, dry_run=True)
    assert dry.outlook is not None
    assert [cost.payable for cost in dry.outlook.costs] == [True, True, False, False]
    one = synth.Cost.of(Fraction(8), Fraction("1e-5"))
    left = {"rho": 20 - 2 * one.rho, "rho_delta": Fraction("8e-5")}
    assert [cost.left for cost in dry.outlook.costs][1:] == [left] * 3
    assert "epsilon 8, delta 0.00001; rho 7.99464, delta 0.00001 (requested); left then rho" in dry.text()
    done = due(world.calendar, now=NOW)
    assert statuses(done) == {"ri-2021": "finished", "ri-2022": "finished", "ri-2023": "skip"}
    assert "too little rho is left" in done.results[-1].detail
    assert world.book.spent("jobs") == synth.Cost.of_all([one, one])
    world.budget(rho="24")
    assert statuses(due(world.calendar, now=NOW + timedelta(hours=1))) == {"ri-2023": "finished"}


def test_a_window_of_years_holds_a_period_back_until_it_has_passed(office: Callable[..., Office]) -> None:
    """Two releases of 8 fit in any three years: a third is told, set aside, and made when they allow it."""
    world = office(epsilon="100", delta="1e-3", window_years=3, window_epsilon="16", window_delta="1e-4")
    start = datetime(2022, 2, 1, 7, tzinfo=UTC)
    told = due(world.calendar, now=start, dry_run=True).outlook
    assert told is not None
    assert told.ends[0].endswith(
        "does not pay in time ri-2023, due 2024-02-01, the first period that it does not pay; it is made "
        "once the window of years allows it"
    )
    for year, done in ((2022, {"ri-2021": "finished"}), (2023, {"ri-2022": "finished"})):
        assert statuses(paid_then(world, start.replace(year=year))) == done
    third = paid_then(world, start.replace(year=2024))
    assert statuses(third) == {"ri-2023": "skip"}
    assert "the budget for any 3 year(s) does not allow this release" in third.results[0].detail
    world.deliver(2024)
    day_before = paid_then(world, start.replace(year=2025, month=1, day=31))
    assert day_before.results == ()  # told before
    now = paid_then(world, start.replace(year=2025))
    assert statuses(now) == {"ri-2023": "finished", "ri-2024": "skip"}
    assert [account.spent.epsilon for account in world.book.accounts(now=start.replace(year=2025))] == [
        24,
        16,
    ]


def paid_then(world: Office, now: datetime) -> Summary:
    """What a call does whose debits have its time, as those of the clock have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_module, "make_release", lambda *a, **k: release(*a, **k, now=now))
        return due(world.calendar, now=now)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["2025", "2026"]),
            st.fractions(0, 9, max_denominator=9),
            st.fractions(0, Fraction(1, 9), max_denominator=99),
            st.none() | st.fractions(0, 9, max_denominator=9),
        ),
        max_size=9,
    )
)
def test_what_was_spent_is_kept_in_few_entries(
    paid: list[tuple[str, Fraction, Fraction, Fraction | None]],
) -> None:
    debits = [Entry(0, "", "debit", "jobs", *amounts) for amounts in paid]
    few = _summed(_summed(debits, ""), "")
    assert len(few) <= 4
    for period in (None, "2025", "2026"):
        assert spent_of(few, "jobs", period) == spent_of(debits, "jobs", period)


@pytest.mark.parametrize(("refines", "left"), [("", 2), (f", refines {'a' * 16}", 1)])
def test_what_is_left_of_a_window_is_what_the_ledger_says(refines: str, left: int) -> None:
    """A release of ten years ago counts no more, unless one of last year refines it: then as long as that."""
    old = Entry(0, "2016-03-01T12", "debit", "jobs", None, Fraction(1), Fraction(0), hash="a" * 64)
    name = f"again, run {'0' * 32}{refines}"
    new = Entry(0, "2025-03-01T12", "debit", "jobs", None, Fraction(3), Fraction(0), release=name)
    window = Budget(Fraction(5), Fraction(0), years=5)
    stated = Entry(0, old.time, "budget", "jobs", epsilon=Fraction(5), delta=Fraction(0), years=5)
    entries = [stated, old, new]
    few = _summed(_summed(entries, "2026-01-01"), "2026-01-01")
    for time, remaining in (("2026-01-01", left), ("2030-02-28", left), ("2030-03-01", 5)):
        for told in (entries, few):
            assert budget_left(told, "jobs", [window], time)["epsilon"] == remaining


def test_a_schedule_without_a_ledger_has_a_cost_and_no_limit(office: Callable[..., Office]) -> None:
    world = office()
    path = world.folder / "base.toml"
    tables = tomlkit.parse(path.read_text()).unwrap()
    del tables["ledger"]
    path.write_text(tomlkit.dumps(tables))
    text = due(world.calendar, now=NOW, dry_run=True).text()
    assert (
        "ri-2021, due 2022-02-01 06:00+00:00: epsilon 8, delta 0.00001 (requested); no [ledger] limits it"
        in text
    )
    assert "budget " not in text


# --- what a calendar does not hold


def test_a_budget_that_is_overspent_is_told(office: Callable[..., Office]) -> None:
    """The budget was lowered below what was spent: nothing is paid from it, and a dry run says why."""
    world = office(epsilon="24", delta="1e-4")
    world.deliver(2024)
    due(world.calendar, now=NOW.replace(year=2023))
    world.budget(epsilon="10")
    dry = due(world.calendar, now=NOW, dry_run=True)
    (problem,) = dry.problems
    assert problem.startswith(
        f"{world.book.path}: jobs: the budget for ever is overspent: spent epsilon 16, "
    )
    assert "of epsilon 10, delta 0.0001; no release is paid from it until it is raised" in problem
    assert dry.exit_code == EXIT_FAILED
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "skip"}
    assert world.book.spent("jobs").epsilon == 16


def test_the_same_jobs_under_two_accounts_are_refused(office: Callable[..., Office]) -> None:
    """As one file, also in a dry run; as two of the same content, before anything is paid."""
    world = office(epsilon="1000", delta="0.5")
    other = SCHEDULE.replace("out/", "out/other").replace("Small", "Other")
    world.write(other=other + '"ledger.data_set" = "workers"\n')
    assert {result.error for result in due(world.calendar, now=NOW, dry_run=True).results} == {
        "ConfigError",
        None,
    }
    world.write(other=other.replace("jobs/{", "other/{") + '"ledger.data_set" = "workers"\n')
    (world.folder / "other").mkdir()
    for year in (2021, 2022, 2023):
        world.deliver(year, content=f"jobs of {year}".encode())
        shutil.copyfile(world.folder / "jobs" / f"{year}.csv.gz", world.folder / "other" / f"{year}.csv.gz")
    failed = due(world.calendar, now=NOW).results[0]
    assert (failed.name, failed.status) == ("other-2021", "failed")
    assert "2021.csv.gz has the jobs of ri-2021, and their costs are not added up together" in failed.detail
    assert world.debits() == []
    (world.folder / "other" / "2021.csv.gz").write_bytes(b"jobs of others")
    assert statuses(due(world.calendar, now=NOW))["other-2021"] == "finished"


def test_jobs_without_a_ledger_are_refused_but_keep_nobody_waiting(office: Callable[..., Office]) -> None:
    """Until a release of them was made: then the ledger no longer says what the jobs cost."""
    world = office(epsilon="1000", delta="0.5")
    tables = tomlkit.parse((world.folder / "base.toml").read_text()).unwrap()
    del tables["ledger"]
    (world.folder / "free.toml").write_text(tomlkit.dumps(tables))
    world.write(free=SCHEDULE.replace("base.toml", "free.toml").replace("out/", "out/free"))
    made, now = world.out / "free2021", NOW.replace(year=2022)
    (made / "confidential").mkdir(parents=True)
    (made / "confidential" / "run.json").touch()
    assert statuses(due(world.calendar, now=now)) == {"free-2021": "finished", "ri-2021": "failed"}
    shutil.rmtree(made)  # its record is still there
    assert statuses(due(world.calendar, now=now)) == {"ri-2021": "failed"}
    assert world.debits() == []
    (world.state / "free-2021.json").unlink()
    assert statuses(due(world.calendar, now=now)) == {"free-2021": "failed", "ri-2021": "finished"}


def test_a_year_without_a_time_is_told(office: Callable[..., Office]) -> None:
    world = office(epsilon="1000", delta="0.5")
    dates = "dates = [2022-02-01, 2025-02-01, 2026-02-01]"
    world.write(ri=SCHEDULE.replace('cron = "0 6 1 2 *"', dates))
    text = due(world.calendar, now=NOW, dry_run=True).text()
    assert [line for line in text.splitlines() if line.startswith("gap")] == [
        "gap       ri: has no time for 2022 to 2023: not released"
    ]


def test_a_plan_of_another_series_is_told_and_not_used(office: Callable[..., Office]) -> None:
    world = office()
    (world.state / "ri-2021.plan").mkdir(parents=True)
    assert (
        "the plan on record is of another configuration, and is not used"
        in due(world.calendar, now=NOW, dry_run=True).text()
    )


def test_calendars_that_race_never_overspend(office: Callable[..., Office], tmp_path: Path) -> None:
    """Eight calendars in a process each, of one ledger that pays for five of their 24 releases."""
    world = office(epsilon="40", delta="0.5", window_years=2, window_epsilon="40", window_delta="0.5")
    calendars = [world.calendar]
    for number in range(1, 8):
        copy = shutil.copytree(world.calendar, world.folder / f"calendar{number}")
        schedule = SCHEDULE.replace("out/{", f"out{number}/{{").replace("Small", f"Small {number}")
        (copy / "ri.toml").write_text(schedule)
        calendars.append(copy)
    context = multiprocessing.get_context("fork")
    start = context.Barrier(len(calendars))

    def call(calendar: Path) -> None:
        start.wait()
        due(calendar, now=NOW)

    children = [context.Process(target=call, args=(calendar,)) for calendar in calendars]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(calendars)
    assert len(world.debits()) == 5
    assert world.book.spent("jobs").epsilon == 40
    assert world.book.verify().entries == 2 + 2 * 5


# --- shares


def test_the_budget_is_shared_equally(office: Callable[..., Office]) -> None:
    """Thirds of a budget are paid three times, to the last digit; there is no fourth."""
    world = office(epsilon="10", delta="1e-4")
    world.write(ri="shares = 3\n" + SCHEDULE.replace("2022-01-01", "2021-01-01"))
    world.deliver(2020)
    dry = due(world.calendar, now=NOW, dry_run=True)
    assert statuses(dry) == {"ri-2020": "due", "ri-2021": "due", "ri-2022": "due", "ri-2023": "skip"}
    summary = due(world.calendar, now=NOW)
    assert statuses(summary)["ri-2023"] == "skip"
    assert Counter(statuses(summary).values()) == {"finished": 3, "skip": 1}
    assert "shared by the first 3 periods, and this is number 4" in summary.results[-1].detail
    left = world.book.remaining("jobs", Budget(Fraction(10), Fraction("1e-4")))
    assert 0 <= left["epsilon"] <= Fraction(10, 10**11)
    assert due(world.calendar, now=NOW).results == ()
    world.write(ri="shares = 4\n" + SCHEDULE.replace("2022-01-01", "2021-01-01"))
    later = NOW + timedelta(hours=1)
    assert statuses(due(world.calendar, now=later)) == {"ri-2023": "skip"}  # nothing is left all the same
    world.budget(epsilon="40", delta="4e-4")
    assert statuses(due(world.calendar, now=later)) == {"ri-2023": "finished"}


def test_a_share_is_what_a_person_with_several_records_may_cost(
    config_tables: dict[str, Any], microdata_jobs: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Each record asks for so much less; what is shown and what would be taken up again count the person."""
    jobs = microdata_jobs("csv", records_per_worker=2)
    world = Office(tmp_path / "office", with_values(config_tables, jobs), epsilon="24", delta="3e-5")
    text = SCHEDULE.replace('"jobs.file" = "jobs/{year}.csv.gz"\n', "")
    world.write(ri="shares = 3\n" + text)
    (schedule,) = read_calendar(world.calendar).schedules
    config = next(schedule.occurrences()).config()
    assert config.privacy.epsilon == 4
    assert Fraction("1e-5") / 57 < config.privacy.delta < Fraction("1e-5") / 55
    assert most_cost_of(config)[0] == 8
    assert Fraction("9.99999999e-6") < most_cost_of(config)[1] <= Fraction("1e-5")
    dry = due(world.calendar, now=NOW, dry_run=True).outlook
    assert dry is not None
    assert {cost.cost.epsilon for cost in dry.costs} == {8}
    assert [cost.payable for cost in dry.costs] == [True, True, True, False]  # the last has no share
    world.write(ri=text)  # epsilon 8 of one record
    dry = due(world.calendar, now=NOW, dry_run=True).outlook
    assert dry is not None
    assert {cost.cost.epsilon for cost in dry.costs} == {16}
    assert not any(cost.payable for cost in dry.costs)  # each costs a person more delta than there is


def test_a_calendar_has_no_tiers(office: Callable[..., Office]) -> None:
    world = office()
    world.edit_base('mechanism = "dirichlet"', 'mechanism = "geometric"')
    world.edit_base("retention_min", "# retention_min")
    path = world.folder / "base.toml"
    path.write_text(f'{path.read_text()}\n[tiers]\npublic = "1"\nsecure = "8"\n')
    (problem,) = read_calendar(world.calendar).problems
    assert "tiers: a calendar publishes one release of each period" in problem


def test_shares_need_a_budget_over_all_periods(office: Callable[..., Office]) -> None:
    world = office(period="2021")
    world.write(ri="shares = 3\n" + SCHEDULE)
    (problem,) = read_calendar(world.calendar).problems
    assert "shares: there is no budget over all periods to share; add [ledger] with epsilon" in problem
    world.budget(total_epsilon="24", total_delta="1e-5")
    (schedule,) = read_calendar(world.calendar).schedules
    assert next(schedule.occurrences()).config().privacy.epsilon == 8
    world.write(ri="shares = 3\n" + SCHEDULE + '"privacy.epsilon" = "1"\n')
    (problem,) = read_calendar(world.calendar).problems
    assert 'set."privacy.epsilon": with shares' in problem


# --- inputs that do not come


def test_an_input_that_is_overdue_is_told_once_and_holds_nothing_back(office: Callable[..., Office]) -> None:
    world = office(epsilon="1000", delta="0.5")
    (world.folder / "jobs" / "2022.csv.gz").unlink()
    at = datetime(2023, 2, 1, 6, tzinfo=UTC)
    assert statuses(due(world.calendar, now=at)) == {"ri-2021": "finished", "ri-2022": "waiting"}
    assert statuses(due(world.calendar, now=at + timedelta(days=30))) == {"ri-2022": "waiting"}
    assert world.told() == []
    summary = due(world.calendar, now=at + timedelta(days=30, seconds=1))
    assert (statuses(summary), summary.exit_code) == ({"ri-2022": "overdue"}, EXIT_FAILED)
    assert "more than 30 days after its time" in summary.text()
    for days in (31, 100):
        summary = due(world.calendar, now=at + timedelta(days=days))
        assert (summary.results, summary.exit_code) == ((), 0)
    assert [t["text"] for t in world.told()] == ["odsynth due calendar: 1 overdue (ri-2022)"]
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}  # not behind
    world.deliver(2022)  # late, and not lost
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2022": "finished"}


def test_a_year_without_its_history_waits_for_somebody_and_no_attempt_is_counted(
    config_tables: dict[str, Any], tmp_path: Path, paid_only: None
) -> None:
    """It goes on when the year that was passed over is made, or another release is named."""
    series = MEASURED | {"release.mechanism": "geometric", "history": {"first": 2021}}
    world = Office(tmp_path, with_values(config_tables, series), epsilon="1000", delta="0.5")
    (world.folder / "jobs" / "2022.csv.gz").unlink()
    schedule = SCHEDULE + '"history.release" = "out/{previous_year}"\n'
    world.write(ri=schedule)
    due(world.calendar, now=datetime(2022, 6, 1, tzinfo=UTC))
    for dry_run in (True, False):
        summary = due(world.calendar, now=NOW, dry_run=dry_run)
        assert statuses(summary) == {"ri-2022": "overdue", "ri-2023": "failed"}
        assert "history.release: there is no" in summary.text()
    assert [*Records(world.state).read()[0]] == ["ri-2021"]
    world.deliver(2022)
    assert statuses(due(world.calendar, now=NOW, dry_run=True)) == {"ri-2022": "due", "ri-2023": "due"}
    world.write(ri=schedule.replace("{previous_year}", "2021"))
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2022": "finished", "ri-2023": "finished"}


def test_a_wrong_folder_is_an_error_at_the_first_call(office: Callable[..., Office]) -> None:
    """A folder that is called after the period may come with the file; another must be there."""
    early = datetime(2022, 1, 15, tzinfo=UTC)  # nothing is due
    cases = {
        '"jobs/{year}.csv.gz"': False,
        '"jobs/all.csv.gz"': False,
        '"job/{year}.csv.gz"': True,
        '"jobs/2021.csv.gz/{year}"': True,
        '"jobs/{year}/of {previous_year}/jobs.csv.gz"': False,
        '"job/{year}/jobs.csv.gz"': True,
    }
    world = office(epsilon="1000", delta="0.5")
    (world.folder / "jobs" / "2022.csv.gz").unlink()
    for path, wrong in cases.items():
        world.write(ri=SCHEDULE.replace('"jobs/{year}.csv.gz"', path))
        for dry in (True, False):
            summary = due(world.calendar, now=early, dry_run=dry)
            assert bool(summary.problems) == wrong, path
            assert summary.exit_code == wrong
            if wrong:
                assert "is not there, so " in summary.problems[0]
    summary = due(world.calendar, now=NOW)
    assert (statuses(summary)["ri-2021"], summary.problems) == ("failed", ())
    assert not list(world.state.glob("*.json"))  # no attempt


# --- real runs


def test_a_real_run_that_cannot_be_paid_is_set_aside(config_tables: dict[str, Any], tmp_path: Path) -> None:
    """No home is left behind, nothing is debited; its cost is what its plan is certified for."""
    world = Office(tmp_path / "office", config_tables, epsilon="1")
    world.write(ri=SCHEDULE.replace("2022-01-01", "2024-01-01"))
    jobs = Path(config_tables["jobs"]["file"])
    (world.folder / "jobs" / "2023.csv.gz").write_bytes(jobs.read_bytes())
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "skip"}
    record = world.record("ri-2023")
    assert 1 < exact(record["epsilon"]) <= 8
    assert world.debits() == []
    assert not world.out.exists() or not list(world.out.iterdir())
    dry = due(world.calendar, now=NOW, dry_run=True).outlook
    assert dry is not None
    forecast = json.loads((world.state / "ri-2023.plan" / "forecast.json").read_text())
    assert (dry.costs[0].cost.epsilon, dry.costs[0].payable) == (exact(forecast["epsilon"]), False)
    assert "(certified)" in dry.costs[0].text
    world.budget(epsilon=record["epsilon"])
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}
    assert world.book.spent("jobs")[0] == exact(record["epsilon"])


# --- an adversary's walks


NEWS = ("name", "status", "error", "attempts")


class Killed(BaseException):
    """What a kill looks like from inside: nothing further is done."""


def news(result: Result) -> tuple[Any, ...]:
    return tuple(getattr(result, key) for key in NEWS)


class Walk:
    """A random calendar, and random calls of it: what must hold is asked after each of them."""

    def __init__(self, seed: int, folder: Path, tables: dict[str, Any], counts: Counter[str]) -> None:
        self.any, self.counts = random.Random(seed), counts
        self.left: int | None = None  # moments until a kill
        self.killed = False
        self.quiet = seed % 2 == 0  # nobody kills, raises a budget or removes a record
        self.told: list[tuple[Any, ...]] = []  # what notifications said
        self.total = Fraction(self.any.choice([0, 9, 20, 45, 200]))
        ledger = {"epsilon": str(self.any.choice([8, 16, 100])), "delta": "0.9"}
        if by_period := self.any.random() < 0.6:
            ledger |= {"period": "x", "total_epsilon": str(self.total or 300), "total_delta": "0.9"}
        else:
            ledger["epsilon"] = str(self.total or 300)
        self.total = self.total or Fraction(300)
        self.by_period = Fraction(ledger["epsilon"])
        self.world = Office(folder, tables, **ledger)
        (self.world.calendar / "ri.toml").unlink()
        attempts = self.any.choice([2, 1000])
        settings = f'[calendar]\nattempts = {attempts}\n[notify]\ncommand = ["true"]\n'
        self.world.write(calendar=settings, **dict(map(self._schedule, "abc"[: self.any.randint(1, 3)])))
        if by_period:
            for path in self.world.calendar.glob("[abc].toml"):
                path.write_text(path.read_text() + BY_YEAR)
        self.now = datetime(2022, 1, 1, tzinfo=UTC)
        self.undelivered = set(range(2021, 2030))
        for path in (self.world.folder / "jobs").iterdir():
            path.unlink()

    def _schedule(self, name: str) -> tuple[str, str]:
        text = SCHEDULE.replace("out/", f"out/{name}").replace("Small", f"{name}: small")
        lines = [f"wait_days = {self.any.choice([0, 30, 400])}"]
        period, cron, label = self.any.choice(
            [
                ("year", "0 6 1 2 *", ""),
                ("quarter", "0 6 5 */3 *", " {quarter}"),
                ("month", "0 6 2 * *", " {month}"),
            ]
        )
        text = text.replace("0 6 1 2 *", cron).replace('"year"\n', f'"{period}"\n')
        text = text.replace("region {year}", "region {year}" + label).replace(
            f"out/{name}{{year}}", f"out/{name}{{year}}" + label
        )
        if self.any.random() < 0.4:
            lines.append(f"shares = {self.any.choice([2, 5, 30])}")
        else:
            text += f'"privacy.epsilon" = "{self.any.choice(["1/3", "2", "8"])}"\n'
        return name, "\n".join([*lines, text])

    def moment(self, _: str = "") -> None:
        """Pass a place at which a kill may come."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.killed = True
                raise Killed

    def call(self) -> None:
        """One call, and perhaps something that a person does before it."""
        act, world = self.any.random(), self.world
        self.now += timedelta(days=self.any.choice([0, 1, 20, 40, 200]), seconds=self.any.randint(1, 9))
        records = sorted(world.state.glob("*.json"))
        back = bool(records) and self.any.random() < 0.05
        if act < 0.30 and self.undelivered:
            year = self.any.choice(sorted(self.undelivered)[:3])
            self.undelivered.remove(year)
            world.deliver(year)
        elif act < 0.35 and records and not self.quiet:
            self.any.choice(records).unlink()
            self.counts["records removed"] += 1
        elif act < 0.45 and not self.quiet:
            self.total *= 2
            key = (
                "total_epsilon" if "total_epsilon" in (world.folder / "base.toml").read_text() else "epsilon"
            )
            world.budget(**{key: str(self.total)})
            self.counts["budgets raised"] += 1
        now = self.now - timedelta(days=300) if back else self.now
        if self.any.random() < 0.1:
            before = world.tree()
            assert due(world.calendar, now=now, dry_run=True).outlook is not None
            assert world.tree() == before
        self.left = self.any.randint(0, 10) if self.any.random() < 0.6 and not self.quiet else None
        try:
            summary = due(world.calendar, now=now)
        except Killed:
            self.counts["kills"] += 1
        else:
            self.counts["clocks that went back"] += bool(summary.problems)
            self._check(summary, now)
        self.left = None
        self.counts["calls"] += 1
        self._check_ledger()

    def _check(self, summary: Summary, now: datetime) -> None:
        if summary.problems:
            return
        after = look(read_calendar(self.world.calendar), now)
        held = {r.name: r.status for r in after.results}
        for result in summary.results:
            self.counts[result.status] += 1
            if result.status == "behind":
                assert held.get(result.detail.removeprefix("after ")) not in ("skip", "overdue")
        for result in after.results:  # what is not finished is said to somebody
            assert result.status != "due"  # what can be made was made
            if result.status in ("skip", "overdue", "given up", "failed"):
                assert news(result) in self.told
        if self.quiet:
            assert max(Counter(self.told).values(), default=1) == 1

    def _check_ledger(self) -> None:
        if not self.world.book.path.exists():
            return
        debits = self.world.debits()
        assert len(debits) == len(set(debits))  # no period twice
        assert self.world.book.spent("jobs")[0] <= self.total
        for account in self.world.book.accounts():
            if account.budget.period is not None:
                assert account.spent.epsilon <= self.by_period
        self.world.book.verify()

    def end(self) -> None:
        """Everything comes, and nothing kills: whatever was due is finished, or set aside and told."""
        self.world.deliver(*self.undelivered)
        for _ in range(2):
            self.now += timedelta(days=1)
            due(self.world.calendar, now=self.now)
        rest = {r.name: r for r in look(read_calendar(self.world.calendar), self.now).results}
        stopped = {r.name.partition("-")[0] for r in rest.values() if r.status == "given up"}
        made = {path.name for path in self.world.out.iterdir() if not path.name.startswith(".")}
        paid = self.world.debits()
        for occurrence in read_calendar(self.world.calendar).due(self.now):
            config = occurrence.config()
            if (result := rest.get(occurrence.name)) is None:
                self.counts["periods finished"] += 1
                assert config.release.out.name in made
                assert paid.count(config.release.name) == 1
            elif result.status == "skip":
                self.counts["periods set aside"] += 1
                assert news(result) in self.told
                assert config.release.name not in paid
            else:
                self.counts["periods behind what was given up"] += 1
                assert result.status in ("given up", "behind")
                assert occurrence.schedule.name in stopped


@pytest.mark.parametrize(
    ("walks", "calls"),
    [(4, 6), pytest.param(60, 15, marks=pytest.mark.deep)],
)
def test_walks_over_calendars(
    walks: int,
    calls: int,
    config_tables: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Budgets that end in the middle, late inputs, kills, clocks: never overspent, none twice, none lost."""
    counts: Counter[str] = Counter()
    for seed in range(walks):
        with pytest.MonkeyPatch.context() as patch:
            walk = Walk(seed, tmp_path / str(seed), config_tables, counts)

            def around(real: Callable[..., Any], walk: Walk = walk) -> Callable[..., Any]:
                def passed(*args: Any, **more: Any) -> Any:
                    walk.moment()
                    result = real(*args, **more)
                    walk.moment()
                    return result

                return passed

            def notify(_: object, document: Any, __: object, walk: Walk = walk) -> tuple[str, ...]:
                said = (tuple(o[key] for key in NEWS) for o in document["occurrences"])
                walk.told += [each for each in said if each[1] in ("skip", "overdue", "given up", "failed")]
                return ()

            patch.setattr(due_module, "make_release", lambda *a, **k: release(*a, **k, moment=walk.moment))  # noqa: B023
            patch.setattr(due_module, "plan", lambda *_, **__: None)
            patch.setattr(due_module, "notify", around(notify))
            for name in ("save", "save_told"):
                patch.setattr(Records, name, around(getattr(Records, name)))
            patch.setattr(due_module.RunFolder, "load", lambda _: FIT)
            for _ in range(calls):
                walk.call()
            walk.end()
        shutil.rmtree(tmp_path / str(seed))
    with capsys.disabled():
        print(f"\n{walks} calendars: " + ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
    wanted = ("kills", "skip", "overdue", "finished", "given up", "periods set aside")
    assert walks < 60 or min(counts[each] for each in wanted) > 0
