"""Runs and the ledger: paid before the first draw, once, whatever happens then."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import synth
from helpers import Said
from pipelines import Charge, ConfigError, Ledger, LedgerError, Release, plan, resume, run
from pipelines.cli.summary import budget_line, release_summary
from pipelines.ledger.budgets import Budget, OverBudgetError, Price
from pipelines.release.certificate import EpsilonDelta, RecordLevel, Requested, UserLevel
from pipelines.running import batches as drawing
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder, RunState
from pipelines.running.payment import cost_of, debits_of, left_in, most_cost_of, read_ledger
from pipelines.running.unfinished import unfinished_runs, wipe_run
from synth.concentrated import epsilon_of, rho_within

from .helpers import Configs, everything, failing, interrupted, left_over
from .kinds import GAUSSIAN, NOISE

pytestmark = pytest.mark.quick
NFD, NFC = "Re\u0301gion", "R\u00e9gion"


def test_a_release_is_paid_once_with_what_its_certificate_says(
    paid_config: Configs, book: Path, clean_source: object
) -> None:
    release = run(paid_config())
    account = Ledger(book).accounts()[0]
    assert (account.data_set, account.debits, account.unfinished) == ("jobs", 1, 0)
    assert account.spent.epsilon == synth.exact(str(release.certificate.run.epsilon))
    assert account.spent.delta == synth.exact(str(release.certificate.run.delta))
    debit = next(entry for entry in Ledger(book).entries() if entry.kind == "debit")
    assert debit.plan_sha256 == release.certificate.plan_sha256
    assert debits_of([release.out]) == [debit.hash]
    plan, guarantee = release.plan, releasing.certify(release.plan)
    for epsilon, refused in (("20", False), ("10", True)):  # what `odsynth plan` says of the next one
        settings = paid_config({"ledger.epsilon": epsilon}).ledger
        assert settings is not None
        line, said = budget_line(settings, plan, guarantee)
        left = synth.decimal_down(Fraction(epsilon) - account.spent.epsilon)
        assert line.startswith(f"Budget      jobs: left epsilon {left}, delta ")
        assert ("COSTS MORE" in line) == said == refused
    assert (
        "ledger" not in release.plan.config.quoted()
    )  # where the agency keeps its books is nobody's business
    with pytest.raises(ConfigError, match="the output folder exists"):
        run(paid_config({"release.out": str(release.out)}))


def test_what_is_left_counts_the_budget_without_a_period(paid_config: Configs, book: Path) -> None:
    settings = paid_config().ledger
    assert settings is not None
    settings = settings.model_copy(update={"period": "2026"})
    assert left_in(read_ledger(settings), settings) == {"epsilon": 20, "delta": Fraction("1e-4")}
    assert not book.exists()
    spent = Fraction(1), Fraction("1e-6")
    budget = Budget(Fraction(3), Fraction("1e-2"))
    Ledger(book).debit(Charge("jobs", *spent, plan_sha256="0" * 64, release="one"), budget)
    assert left_in(read_ledger(settings), settings) == {"epsilon": 2, "delta": Fraction("1e-4")}


def test_the_cap_over_all_periods_binds_a_run(
    paid_config: Configs, book: Path, clean_source: object, said: Said
) -> None:
    """Each period allows 20: the second run costs less than that, and is refused before a home is read."""
    total = {"ledger.total_epsilon": "10", "ledger.total_delta": "1e-4"}
    first, second = (total | {"ledger.period": period} for period in ("2025", "2026"))
    run(paid_config(first))
    said.clear()
    with pytest.raises(LedgerError, match="epsilon"):
        run(paid_config(second))
    assert not any("confidential" in step for step in said)
    assert [account.debits for account in Ledger(book).accounts() if account.budget.period is None] == [1]


def test_a_plan_for_one_record_is_paid_with_the_pair_of_one_record(
    paid_config: Configs, book: Path, clean_source: object
) -> None:
    """Probabilistic privacy of its whole run would cost a delta of more than the budget has."""
    config = paid_config({"privacy.guarantee": "dp"})
    forecast = json.loads((plan(config).folder / "forecast.json").read_text(encoding="utf-8"))
    release = run(config)
    assert Fraction(release.certificate.run.delta) > Fraction("1e-4")
    paid = release.certificate.record_level
    assert forecast["debit"] == {"epsilon": paid.epsilon, "delta": paid.delta}
    assert Ledger(book).spent("jobs")[:2] == (Fraction(paid.epsilon), Fraction(paid.delta))
    assert Fraction(paid.epsilon) <= Fraction("8.6")
    assert Fraction(paid.delta) < Fraction("1e-5"), "what was asked for would cost more"


PAIRS = [
    # guarantee, most delta that is asked for, of the run, of one record, of a person, records: what is paid
    ("pdp", "0.01", "4 0.1", "3 0", "9 0.9", 1, "4 0.1"),  # the sum of debits is of the same kind
    ("dp", "0.01", "4 0.1", "5 0.01", "9 0.9", 1, "5 0.01"),  # the run's delta was not asked for
    ("dp", "0.01", "4 0.01", "5 0.01", "9 0.9", 1, "4 0.01"),
    ("dp", "0.01", "5 0", "5 0.001", "9 0.9", 1, "5 0"),
    ("dp", "0.01", "6 0", "5 0.001", "9 0.9", 1, "5 0.001"),
    ("dp", "1", "5 0", "5 0.1", "9 0.9", 1, "5 0"),
    # The user-level pair of the certificate, or that of the run for as many records where it is better.
    ("pdp dp", "0.01", "5 0.01", "5 0.001", "10 0.3", 2, "10 0.3"),
    ("pdp dp", "0.01", "4 0.02", "5 0.001", "10 0.3", 2, "10 0.3"),
    ("pdp dp", "0.01", "4 0", "5 0.001", "10 0.3", 2, "8 0"),
]


@pytest.mark.parametrize(("guarantee", "delta", "run_pair", "record", "person", "records", "paid"), PAIRS)
def test_the_best_pair_that_keeps_what_was_asked_for_is_paid(
    guarantee: str, delta: str, run_pair: str, record: str, person: str, records: int, paid: str
) -> None:
    epsilon, delta_of_person = person.split()
    user = UserLevel(epsilon=epsilon, delta=delta_of_person, records=records, statement="")
    for kind in guarantee.split():
        asked = Requested(guarantee=kind, words="", epsilon="6", delta=delta)  # type: ignore[arg-type]
        assert cost_of(asked, pair(run_pair), level(record), user).price == Price(
            *map(Fraction, paid.split())
        )


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
@pytest.mark.parametrize(("records", "rho"), [(1, Fraction(1, 18)), (3, Fraction(1, 2))])
def test_a_rho_is_paid_for_all_records_of_a_person(guarantee: str, records: int, rho: Fraction) -> None:
    """Beside the pair, which is what it was without."""
    user = UserLevel(epsilon="12", delta="0.3", records=records, statement="")
    asked = Requested(guarantee=guarantee, words="", epsilon="6", delta="0.01")  # type: ignore[arg-type]
    record = level("5 0.001")
    paid = cost_of(asked, pair("4 0.01"), record.model_copy(update={"rho": "1/18"}), user)
    assert paid.price == (*cost_of(asked, pair("4 0.01"), record, user).price[:2], rho)
    assert paid.model_dump() == paid.model_dump(exclude_none=True)  # as the report of the plan has it


def test_a_charge_has_the_rho_of_the_certificate(
    paid_config: Configs, book: Path, clean_source: object
) -> None:
    """A budget in rho then refuses, and pays, by it, before a draw as in the report of the plan."""
    within = rho_within(Fraction("8.6"), Fraction("1e-5"))
    budget = {"ledger.rho": str(within * Fraction(3, 2)), "ledger.epsilon": "1000", "ledger.delta": "0.5"}
    config = paid_config(GAUSSIAN | {"privacy.guarantee": "dp"} | budget)
    planned = plan(config)
    release = run(config, plan=planned.folder)
    rho = Fraction(str(release.certificate.record_level.rho))
    assert Fraction(9, 10) * within < rho <= within
    assert json.loads((planned.folder / "forecast.json").read_text())["debit"]["rho"] == str(rho)
    assert f", rho {synth.decimal_up(rho, 6)} from a ledger" in (planned.folder / "plan.txt").read_text()
    (paid,) = [entry for entry in Ledger(book).entries() if entry.kind == "debit"]
    assert paid.rho == rho
    assert left_in(read_ledger(ledger := config.ledger), ledger)["rho"] == within * Fraction(3, 2) - rho  # type: ignore[arg-type]
    assert budget_line(ledger, planned.plan, planned.guarantee)[1]  # type: ignore[arg-type]
    with pytest.raises(OverBudgetError, match="too little rho is left"):
        run(config.with_out(config.release.out.with_name("again")), plan=planned.folder)
    assert len(Ledger(book).entries()) == 3


def level(text: str) -> RecordLevel:
    return RecordLevel(**pair(text).model_dump(), curve=[], rho=None)


def pair(text: str) -> EpsilonDelta:
    epsilon, delta = text.split()
    return EpsilonDelta(epsilon=epsilon, delta=delta)


def test_pairs_that_are_nearly_equal_or_rounded() -> None:
    """Equal in six digits, but more than was asked for: a calendar counts on the most that is debited."""
    user = UserLevel(epsilon="9", delta="0.9", records=1, statement="")
    sixth = Requested(guarantee="dp", words="", epsilon="2.000005", delta="0.01")
    paid = cost_of(sixth, pair("2.000009 0"), level("2.000005 0.001"), user)
    assert paid.price == Price(Fraction("2.000005"), Fraction("0.001"))
    several = user.model_copy(update={"epsilon": "10", "delta": "0.3", "records": 2})
    better = cost_of(sixth.model_copy(update={"epsilon": "6"}), pair("1 0.01"), level("5 0.001"), several)
    assert better.epsilon == "2"
    assert 0.01 * (1 + math.e) <= float(better.delta) <= 0.0371829


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
def test_the_plan_says_what_a_person_with_two_jobs_is_promised_and_the_ledger_pays_that(
    paid_config: Configs, microdata_jobs: Callable[..., dict[str, Any]], book: Path, guarantee: str
) -> None:
    """What the committee reads before is what the certificate states afterwards, and what is debited."""
    budget = {"ledger.epsilon": "40", "ledger.delta": "0.5", "privacy.delta": "1e-9"}
    asked = {"privacy.epsilon": "5", "privacy.guarantee": guarantee}
    config = paid_config(budget | asked | microdata_jobs("csv", records_per_worker=2))
    planned = plan(config)
    release = run(config, plan=planned.folder)
    user, record = release.certificate.user_level, release.certificate.record_level
    assert user.records == 2
    assert Fraction(user.epsilon) == 2 * Fraction(record.epsilon) <= 10
    forecast = json.loads((planned.folder / "forecast.json").read_text(encoding="utf-8"))
    assert forecast["user_level"] == user.model_dump()
    assert forecast["record_level"] == record.model_dump()
    assert forecast["presence"] is None
    assert forecast["debit"] == {"epsilon": user.epsilon, "delta": user.delta}
    assert Ledger(book).spent("jobs")[:2] == (Fraction(user.epsilon), Fraction(user.delta))
    most = synth.Cost.of(*most_cost_of(config))
    assert all(paid <= limit for paid, limit in zip(Ledger(book).spent("jobs"), most, strict=True))
    said = (planned.folder / "plan.txt").read_text(encoding="utf-8")
    shown = synth.decimal_up(Fraction(user.epsilon), 6), synth.decimal_up(Fraction(user.delta), 4)
    assert f"a record  epsilon {synth.decimal_up(Fraction(record.epsilon), 6)}, delta " in said
    assert f"a person  epsilon {shown[0]}, delta {shown[1]} for one person with at most 2 job records" in said
    assert f"debit     epsilon {shown[0]}, delta {shown[1]} from a ledger" in said
    assert "a run refuses jobs of which a worker has more than 2" in said
    assert f"a person  epsilon {user.epsilon}, delta {user.delta}, with at most 2 job" in release_summary(
        release
    )
    assert config.ledger is not None
    for epsilon, short in ((user.epsilon, False), ("7.9", True)):
        left = config.ledger.model_copy(update={"epsilon": Fraction(epsilon) * 2, "file": book})
        line, _ = budget_line(left, release.plan, release.plan.certify())
        assert ("COSTS MORE" in line) == short


def test_a_plan_of_a_lodes_file_does_not_speak_of_people_with_several_jobs(small_config: Configs) -> None:
    """The file does not tell who has several; what is promised is for those with one."""
    assert " for one person with at most 1 job record, as differential privacy" in plan(small_config()).text()


def test_a_release_that_cost_no_epsilon_was_a_release_before(
    paid_config: Configs, book: Path, said: Said
) -> None:
    config = paid_config()
    assert config.ledger is not None
    budget = Budget(config.ledger.epsilon, config.ledger.delta)
    Ledger(book).debit(Charge("jobs", Fraction(0), Fraction("1e-9"), "0" * 64, "free"), budget)
    run(config)
    assert not [line for line in said if "WARNING" in line]


def test_what_the_budget_does_not_allow_is_not_drawn(
    paid_config: Configs, book: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    first = run(paid_config())
    assert [line for line in said if "has no release of 'jobs' before this" in line]
    assert '"first debit"' in (first.out / "confidential" / "log.jsonl").read_text()
    said.clear()
    second = run(paid_config())
    assert not [line for line in said if "WARNING" in line]
    assert '"first debit"' not in (second.out / "confidential" / "log.jsonl").read_text()
    before = Ledger(book).entries()
    monkeypatch.setattr(releasing, "sample_release", pytest.fail)
    config = paid_config()
    with pytest.raises(LedgerError, match="the budget for ever does not allow this release"):
        run(config)
    assert Ledger(book).entries() == before
    assert left_over(config) == []


def test_the_debit_comes_before_the_first_draw_and_stays(
    paid_config: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = paid_config()
    seen = []

    def fail(*_: object, **__: object) -> None:
        seen.append(Ledger(book).accounts()[0])
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "sample_batch", fail)
        with pytest.raises(OSError, match="No space"):
            run(config)
    assert (seen[0].debits, seen[0].unfinished) == (1, 1)
    assert [entry.kind for entry in Ledger(book).entries()] == ["budget", "debit", "failed"]
    assert [entry.detail for entry in Ledger(book).entries()][-1] == "OSError"
    spent = Ledger(book).spent("jobs")
    release = resume(config.release.out)
    assert Ledger(book).spent("jobs") == spent != (Fraction(0), Fraction(0))
    assert Ledger(book).accounts()[0].unfinished == 0
    Ledger(book).verify(witness=debits_of([release.out]))


@pytest.mark.parametrize("moment", ["debit", "note", "finished", "end"])
def test_a_crash_beside_the_ledger_costs_nothing(
    moment: str, paid_config: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the debit; while it is noted in the run's folder; before and after the ledger has the end.

    The ledger stores names in one form of Unicode, and the run may have another.
    """
    config = paid_config({"release.name": NFD, "ledger.data_set": NFD})
    assert config.release.name == config.ledger.data_set == NFC  # type: ignore[union-attr]
    debit, outcome, save = Ledger.debit, Ledger.outcome, RunFolder.save

    class Killed(BaseException):
        pass

    def killed(self: Ledger, *arguments: object, **named: object) -> None:
        if moment == "debit":
            debit(self, *arguments, **named)  # type: ignore[arg-type]
            if named["rehearse"]:
                return
        if moment == "end":
            outcome(self, *arguments)  # type: ignore[arg-type]
        raise Killed

    def saved(self: RunFolder, state: RunState, key: synth.RunKey | None = None) -> None:
        if state.debit is not None:
            raise Killed
        save(self, state, key)

    with pytest.MonkeyPatch.context() as patch:
        if moment == "note":
            patch.setattr(RunFolder, "save", saved)
        else:
            patch.setattr(Ledger, "debit" if moment == "debit" else "outcome", killed)
        with pytest.raises(Killed):
            run(config)
    release = resume(config.release.out)
    assert release.out.exists()
    account, entries = Ledger(book).accounts()[0], Ledger(book).entries()
    assert (account.data_set, account.debits, account.unfinished) == (NFC, 1, 0)
    assert resume(config.release.out).certificate == release.certificate
    assert Ledger(book).entries() == entries


def test_a_copy_of_a_run_whose_release_is_finished_draws_nothing(
    paid_config: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a backup of its folder, or a disk that lost the last rename, may bring one back."""
    config = paid_config()
    out, earlier, checked = (config.release.out.with_name(name) for name in ("release", "earlier", "checked"))
    interrupted(config)
    shutil.copytree(RunFolder.of(out).folder, RunFolder.of(earlier).folder)
    with pytest.MonkeyPatch.context() as patch:
        failing(releasing, "_put_in_place", KeyboardInterrupt(), patch)
        with pytest.raises(KeyboardInterrupt):
            resume(out)
    shutil.copytree(RunFolder.of(out).folder, RunFolder.of(checked).folder)
    release = resume(out)
    entries = Ledger(book).entries()
    monkeypatch.setattr(releasing, "sample_release", pytest.fail)
    assert everything(resume(checked).public) == everything(release.public)
    with pytest.raises(ConfigError, match="older copy"):
        resume(earlier)
    shutil.copytree(RunFolder.of(earlier).folder, RunFolder.of(out).folder)  # beside the release itself
    with pytest.raises(ConfigError, match=r"older copy of the release .* then run odsynth resume"):
        resume(out)
    (run_left,) = unfinished_runs(earlier)
    wipe_run(run_left)
    assert not RunFolder.of(earlier).folder.exists()
    assert Ledger(book).entries() == entries


def test_a_run_that_stops_before_its_debit_leaves_nothing(paid_config: Configs, book: Path) -> None:
    run(paid_config())
    before = Ledger(book).entries()
    config = paid_config()
    interrupted(config, releasing, "pay", KeyboardInterrupt())
    assert Ledger(book).entries() == before
    assert left_over(config) == []


def test_a_ledger_that_does_not_know_the_witness_is_not_used(paid_config: Configs, book: Path) -> None:
    config = paid_config({"ledger.witness": ["a" * 64]})
    with pytest.raises(LedgerError, match="there is no such ledger"):
        run(config)
    assert not book.exists()
    assert left_over(config) == []


def test_a_run_without_its_ledger_is_not_resumed(paid_config: Configs, book: Path) -> None:
    config = paid_config()
    interrupted(config)
    book.rename(book.with_suffix(".away"))
    with pytest.raises((LedgerError, OSError)):
        resume(config.release.out)
    assert not config.release.out.exists()


def test_an_unpaid_release_says_so(small_release: Release) -> None:
    assert "Ledger      none: nobody adds up what is spent" in release_summary(small_release)
    with pytest.raises(ConfigError, match="no debit is noted there"):
        debits_of([small_release.out])


def test_no_delta_is_expected_of_a_mechanism_that_costs_none(small_config: Configs) -> None:
    open_choice = {"release.mechanism": None, "plan.retention_min": None, "plan.split_threshold": None}
    asked = small_config().privacy.delta
    assert asked > 0
    assert most_cost_of(small_config())[1] == asked
    assert most_cost_of(small_config(open_choice))[1] == asked
    assert most_cost_of(small_config(NOISE))[1] == 0


@pytest.mark.parametrize(("guarantee", "records"), [("pdp", 1), ("dp", 1), ("dp", 3)])
def test_of_a_mechanism_with_a_rho_the_most_is_what_gives_the_pair(
    small_config: Configs,
    microdata_jobs: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    guarantee: str,
    records: int,
) -> None:
    """Far less than what follows from the pair alone, and no more than just gives it."""
    jobs = microdata_jobs("csv", records_per_worker=records)
    config = small_config(jobs | {"privacy.guarantee": guarantee})
    assert most_cost_of(config).rho is None
    mechanism = synth.MECHANISMS["dirichlet"]
    monkeypatch.setattr(mechanism, "settings", mechanism.settings | {"rho"})
    most, asked = most_cost_of(config), config.privacy
    assert most.rho is not None
    record = most.rho / records**2
    assert asked.epsilon * Fraction(999, 1000) < epsilon_of(record, asked.delta) <= asked.epsilon
    assert most.rho < synth.Cost.of(most.epsilon, most.delta).rho
    open_choice = {"release.mechanism": None, "plan.retention_min": None, "plan.split_threshold": None}
    assert most_cost_of(small_config(jobs | open_choice)).rho is None  # another may be chosen
