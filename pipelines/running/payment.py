"""Runs and the ledger: paid before the first draw, once, and the outcome entered, whatever it is."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from fractions import Fraction

import synth
from geo_data.arguments import PathLike, paths_of
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import LedgerSettings, tiers_in_ledger
from pipelines.config.toml import ConfigError
from pipelines.ledger import budgets
from pipelines.ledger.budgets import (
    Amounts,
    Budget,
    Price,
    budgets_of_debit,
    check_spelling,
    check_terms,
    left_of,
    line_of_text,
    period_label,
    utc_text,
)
from pipelines.ledger.chain import GENESIS, Entry, LedgerError, check_folder
from pipelines.ledger.ledger import Charge, Debit, Ledger, OtherDebitError, last_debit
from pipelines.ledger.terms import Terms
from pipelines.plans.plan import ReleasePlan
from pipelines.release.certificate import Certificate, EpsilonDelta, Ratio, RecordLevel, Requested, UserLevel
from pipelines.release.commitment import (
    TimestampError,
    check_timestamp,
    commitment_sha256,
    commitment_statement,
    request_timestamp,
)
from pipelines.running.folder import Refined, RunFolder, RunState
from pipelines.storage.event_log import EventLog
from synth.concentrated import rho_of_group, rho_within
from synth.policy import RECORD

_log = logging.getLogger(__name__)


class Debited(EpsilonDelta):
    """What a ledger is debited for a release."""

    rho: Ratio | None = None  # zCDP of the same neighbours, if the mechanism has one

    @property
    def price(self) -> Price:
        """The same as exact numbers."""
        rho = None if self.rho is None else synth.exact(self.rho)
        return Price(synth.exact(self.epsilon), synth.exact(self.delta), rho)


def left_in(
    entries: list[Entry], settings: LedgerSettings, now: datetime | None = None, *, windows: bool = True
) -> Amounts:
    """Return what a release may still cost, by the entries of a ledger and at a time.

    Of all budgets that limit it, with those of years or without, the smallest.
    """
    data_set = line_of_text(settings.data_set, "data set")
    binding = budgets_of_debit(entries, data_set, *budgets_in(settings))
    binding = [budget for budget in binding if windows or not budget.years]
    return left_of(entries, data_set, binding, utc_text(now))


def terms_with(entries: list[Entry], settings: LedgerSettings, terms: Terms) -> Terms:
    """Return what a release on such terms and those that were debited are a guarantee of together."""
    data_set = line_of_text(settings.data_set, "data set")
    binding = budgets_of_debit(entries, data_set, *budgets_in(settings))
    return check_terms(entries, data_set, binding, terms, utc_text(None))


def terms_of(plan: ReleasePlan) -> Terms:
    """Return what the debit of a release with such a plan is a guarantee of."""
    policy = RECORD if plan.config.protects_records else plan.policy.name
    return Terms(policy, plan.homes, plan.config.jobs.records_per_worker)


def read_ledger(settings: LedgerSettings, *, dry_run: bool = False) -> list[Entry]:
    """Return the entries of the ledger, checked; none if its first debit is still to come.

    A dry run leaves no file beside the ledger.
    """
    if not settings.witness and not settings.file.exists():
        check_folder(settings.file)  # the first debit makes the file
        return []
    ledger = Ledger(settings.file)
    if not dry_run:
        ledger.verify(settings.witness)
    entries = ledger.peek(settings.witness) if dry_run else ledger.entries()
    check_spelling(entries, line_of_text(settings.data_set, "data set"), period_label(settings.period))
    return entries


def budgets_in(settings: LedgerSettings) -> tuple[Budget, list[Budget]]:
    """Return the budget that a configuration states, and those over all periods and in years beside it."""
    budget, beside = Budget(settings.epsilon, settings.delta, settings.period, settings.rho), []
    if settings.period is not None and (total := settings.over_all_periods) is not None:
        epsilon, delta, rho = total
        beside.append(Budget(epsilon, delta, rho=rho))
    if settings.window_years is not None and settings.window_delta is not None:
        amounts = settings.window_epsilon, settings.window_delta
        beside.append(Budget(*amounts, rho=settings.window_rho, years=settings.window_years))
    return budget, beside


def run_name(config: ReleaseConfig, run: str, refines: Refined | None = None) -> str:
    """Return the name of a run in the ledger, with its tiers, or with the debit of what it refines.

    `run` is its own number, of 32 digits that are secret. An entry of the ledger has a time, which tells how
    long a run took. As nobody can guess the number, the hash of a debit, which certificates have, tells
    nothing of it.
    """
    more = tiers_in_ledger(config.tiers) if refines is None else budgets.refines_in_ledger(refines.debit)
    return f"{config.release.name}, run {run}{more}"


def _debit_name(state: RunState) -> str:
    """Return what a debit calls a run: between the release and the number of the run, its commitment."""
    release = state.config.release.name
    if state.certificate.commitment is None:
        return state.name
    committed = f", commitment {commitment_sha256(state.certificate)}"
    return f"{release}{committed}{state.name.removeprefix(release)}"


def charge_of(state: RunState, plan: ReleasePlan, settings: LedgerSettings) -> Charge:
    """Return what a run with such a plan is charged: if it refines a release, what this leaves."""
    certificate = state.certificate
    epsilon, delta, rho = _price_of(certificate)
    if state.refines is not None:
        epsilon, delta, rho, _ = synth.Cost.of_refined(epsilon, _price_of(state.refines.certificate).epsilon)
    about = certificate.plan_sha256, _debit_name(state), str(terms_of(plan))
    made = certificate.commitment
    previous = None if made is None else made.previous or GENESIS
    return Charge(settings.data_set, epsilon, delta, *about, rho, previous)


def _price_of(certificate: Certificate) -> Price:
    """Return what a release with such a certificate costs as one of its own."""
    return cost_of(
        certificate.requested, certificate.run, certificate.record_level, certificate.user_level
    ).price


def debit(settings: LedgerSettings, charge: Charge, *, rehearse: bool = False) -> Debit:
    """Enter a charge in the ledger, or see that it could be entered; then nothing is left in it."""
    budget, beside = budgets_in(settings)
    return Ledger(settings.file).debit(charge, budget, beside, witness=settings.witness, rehearse=rehearse)


def cost_of(
    requested: Requested, run: EpsilonDelta, record_level: RecordLevel, user_level: UserLevel
) -> Debited:
    """Return what is debited for a release with such a certificate: what one person is promised.

    Where a person has one record: of a release that was planned for probabilistic differential privacy, the
    pair of the run; of one that was planned for one record, the record-level pair, or that of the run where
    it costs less epsilon and keeps what was requested. Where a person may have several, the better of the
    two by the same rule, whatever was planned for, for all records of one person (Lemma 14): the user-level
    pair of the certificate, or what the run's comes to. Beside it the rho of the record level, if there is
    one, for all records of one person (Lemma 46).
    """
    records, rho = user_level.records, record_level.rho
    rho = None if rho is None else str(rho_of_group(synth.exact(rho), records))
    if requested.guarantee == "pdp" and records == 1:
        return Debited(epsilon=run.epsilon, delta=run.delta, rho=rho)
    most = Fraction(requested.epsilon), Fraction(requested.delta)
    alone = [
        pair
        for pair in (record_level, run)
        if Fraction(pair.epsilon) <= most[0] and Fraction(pair.delta) <= most[1]
    ]
    # Of epsilons that agree in six digits the one with less delta: a billionth of epsilon is worth none.
    best = min(
        alone, key=lambda pair: (Fraction(synth.decimal_up(Fraction(pair.epsilon), 6)), Fraction(pair.delta))
    )
    if records > 1:
        best = user_level if best is record_level else _of_person(best, records)
    return Debited(epsilon=best.epsilon, delta=best.delta, rho=rho)


def most_cost_of(config: ReleaseConfig) -> Price:
    """Return the most that a release may be debited: what is asked for, for all records of one person.

    Of delta none, where no mechanism that may be chosen costs any; a rho, where each has one.
    """
    settings = [synth.MECHANISMS[name].settings for name in config.mechanisms]
    delta = config.privacy.delta if any("delta" in names for names in settings) else Fraction(0)
    requested = EpsilonDelta(epsilon=synth.decimal_up(config.privacy.epsilon), delta=synth.decimal_up(delta))
    person = _of_person(requested, config.jobs.records_per_worker)
    rho = None
    if delta > 0 and all("rho" in names for names in settings):
        record = rho_within(synth.exact(requested.epsilon), synth.exact(requested.delta))
        rho = rho_of_group(record, config.jobs.records_per_worker)
    return Price(synth.exact(person.epsilon), synth.exact(person.delta), rho)


def _of_person(record: EpsilonDelta, records: int) -> EpsilonDelta:
    """Return what a person with several records loses where one record loses this, rounded up."""
    epsilon, delta = synth.group_privacy(Fraction(record.epsilon), Fraction(record.delta), records)
    return EpsilonDelta(epsilon=synth.decimal_up(epsilon), delta=synth.decimal_up(delta))


def pay(state: RunState, plan: ReleasePlan, staging: RunFolder) -> RunState:
    """Commit to a release and pay for it before its first draw, or see that this has been done.

    Returned is the state with its whole commitment and, where the configuration names a ledger, its debit;
    it is noted in the folder of the run. After a LedgerError nothing has been paid.
    """
    settings, certificate = state.config.ledger, state.certificate
    if settings is None:
        return _noted(_bound(state, []), staging)
    ledger = Ledger(settings.file)
    debit_id = state.debit or debit_of(state)  # perhaps killed before it was noted
    if debit_id is not None:
        paid = _paid(state, debit_id)
        if paid.certificate.commitment is not None:  # an older copy of the folder may commit otherwise
            check_debit(ledger.entries(), paid.certificate)
        ledger.resume(debit_id, certificate.plan_sha256)
        return _noted(paid, staging)
    data_set = line_of_text(settings.data_set, "data set")
    if not settings.file.exists() or not budgets.debits_of(ledger.entries(), data_set, None):
        # made anew, or a mistyped name
        EventLog(staging.events).write("first debit")
        _log.warning(
            "%s has no release of %r before this. If there were any, what they spent is not counted: put "
            "their ledger back, or correct data_set (docs/ledger.md)",
            settings.file,
            settings.data_set,
        )
    while True:
        entries = ledger.entries() if settings.file.exists() else []
        state = _noted(_bound(state, entries), staging)
        with suppress(OtherDebitError):  # another run was faster: this one follows on it
            debit_id = debit(settings, charge_of(state, plan, settings)).id
            return _noted(_paid(state, debit_id), staging)


def _bound(state: RunState, entries: list[Entry]) -> RunState:
    """Return the state with what its commitment says of the ledger, and a time-stamp where one is wanted."""
    plan_sha256, previous = state.certificate.plan_sha256, last_debit(entries)
    draws = sum(entry.kind == "debit" and entry.plan_sha256 == plan_sha256 for entry in entries)
    of_ledger = {
        "previous": None if previous == GENESIS else previous,
        "draw": None if state.config.ledger is None else draws + 1,
    }
    state, witness = _committed(state, **of_ledger), state.config.witness
    made = state.certificate.commitment
    if witness is None or witness.timestamp is None or witness.authority is None or made is None:
        return state
    statement = commitment_statement(state.certificate)
    if made.timestamp is not None:  # of an earlier attempt, perhaps of what was committed to then
        with suppress(TimestampError):
            check_timestamp(made.timestamp, statement, witness.authority)
            return state
    return _committed(state, timestamp=request_timestamp(witness.timestamp, statement, witness.authority))


def _paid(state: RunState, debit_id: str) -> RunState:
    return replace(_committed(state, debit=debit_id), debit=debit_id)


def _committed(state: RunState, **fields: str | int | None) -> RunState:
    """Return the state with other fields of its commitment, if it has one."""
    made = state.certificate.commitment
    if made is None:
        return state
    made = made.model_copy(update=fields)
    return replace(state, certificate=state.certificate.model_copy(update={"commitment": made}))


def _noted(state: RunState, staging: RunFolder) -> RunState:
    staging.save(state)
    return state


def debit_of(state: RunState) -> str | None:
    """Return the debit of a run in its ledger, noted in its folder or not; None if there is none."""
    settings = state.config.ledger
    if settings is None or not settings.file.exists():
        return None
    entries = Ledger(settings.file).entries()
    own = state.name.removeprefix(state.config.release.name)  # no other run has this number
    return next((entry.hash for entry in entries if (entry.release or "").endswith(own)), None)


def check_debit(entries: list[Entry], certificate: Certificate) -> None:
    """Refuse a ledger whose debit of a release is not what its certificate says, or is not there."""
    made = certificate.commitment
    assert made is not None
    before = list(itertools.takewhile(lambda entry: entry.hash != made.debit, entries))
    paid = next((entry for entry in entries if entry.hash == made.debit), None)
    draws = sum(entry.plan_sha256 == certificate.plan_sha256 for entry in before)
    name = f", commitment {commitment_sha256(certificate)}, run "
    if (
        paid is None
        or name not in (paid.release or "")
        or paid.plan_sha256 != certificate.plan_sha256
        or (last_debit(before), draws + 1) != (made.previous or GENESIS, made.draw)
    ):
        raise LedgerError(
            "the ledger has no debit that names this commitment, after the one that it follows on. Fix: name "
            "the ledger of the run, or publish nothing of it"
        )


def is_finished(state: RunState) -> bool:
    """Say whether the ledger has it that the release of a run is finished."""
    settings, debit_id = state.config.ledger, state.debit or debit_of(state)
    if settings is None or debit_id is None:
        return False
    entries = Ledger(settings.file).entries()
    return any(entry.kind == "finished" and entry.debit == debit_id for entry in entries)


def debits_of(outs: PathLike | Iterable[PathLike]) -> list[str]:
    """Return the entries of the ledger that paid for finished or unfinished runs, by their output folders."""
    debits = []
    for out in paths_of(outs, "outs"):
        staging = RunFolder(out) if RunFolder(out).begun else RunFolder.of(out)
        if not staging.begun:
            rule, fix = "no release with its confidential folder is there", "name the output folder of a run"
            raise ConfigError(f"{out}: {rule}. Fix: {fix}")
        if (debit_id := staging.load().debit) is None:
            raise ConfigError(
                f"{out}: no debit is noted there. Fix: name a release that paid; if the run was stopped "
                "while it paid, odsynth resume notes the debit"
            )
        debits.append(debit_id)
    return debits


@contextmanager
def record_outcome(state: RunState, events: EventLog, *, finished: bool = False) -> Iterator[None]:
    """Enter the outcome in the log and in the ledger, which may have it that the release is finished.

    Whatever it is, what was paid stays paid.
    """
    ledger = Ledger(state.config.ledger.file) if state.config.ledger else None
    try:
        yield
    except BaseException as error:
        # Neither may hide the first error, nor keep the other from being written.
        with suppress(OSError):
            events.write("failed", error=type(error).__name__)
        with suppress(LedgerError, OSError):
            if ledger and state.debit:
                ledger.outcome(state.debit, "failed", type(error).__name__)
        raise
    if ledger and state.debit and not finished:
        ledger.outcome(state.debit, "finished")
