"""Runs and the ledger: paid before the first draw, once, and the outcome entered, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import synth
from pipelines.config.loading import ConfigError
from pipelines.config.sections import LedgerSettings
from pipelines.ledger.budgets import line_of_text
from pipelines.ledger.chain import check_folder
from pipelines.ledger.ledger import Budget, Ledger, LedgerError
from pipelines.release.certificate import EpsilonDelta, Requested
from pipelines.running.folder import RunFolder, RunState
from pipelines.storage.event_log import EventLog

__all__ = ["budget_left", "cost_of", "debit_of", "debits_of", "pay", "record_outcome"]


def budget_left(settings: LedgerSettings) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta that a release may still cost; nothing is written.

    Returns
    -------
    tuple of Fraction
        Of the budget of the period and the one without a period, the smaller.

    Raises
    ------
    LedgerError
        If the ledger cannot be trusted, or its folder is not there.
    """
    ledger, budgets = Ledger(settings.file), [Budget(settings.epsilon, settings.delta, settings.period)]
    if not settings.witness and not settings.file.exists():
        check_folder(settings.file)  # the first debit makes the file
        return settings.epsilon, settings.delta
    ledger.verify(settings.witness)
    if settings.period is not None:
        name = line_of_text(settings.data_set, "data set")
        of_all = (account for account in ledger.accounts() if account.data_set == name)
        budgets += [account.budget for account in of_all if account.budget.period is None]
    epsilons, deltas = zip(*(ledger.remaining(settings.data_set, each) for each in budgets), strict=True)
    return min(epsilons), min(deltas)


def cost_of(requested: Requested, run: EpsilonDelta, record_level: EpsilonDelta) -> EpsilonDelta:
    """Return what is debited for a release with such a certificate: the best pair inside what was asked for.

    Of a release that was planned for probabilistic differential privacy, that of the run. Of one that was
    planned for one record, the record-level pair, or that of the run where it costs less epsilon and keeps
    the requested delta.
    """
    if requested.guarantee == "pdp":
        return run
    pairs = [pair for pair in (run, record_level) if Fraction(pair.delta) <= Fraction(requested.delta)]
    best = min(pairs, key=lambda pair: (Fraction(pair.epsilon), Fraction(pair.delta)))
    return EpsilonDelta(epsilon=best.epsilon, delta=best.delta)


def pay(state: RunState, staging: RunFolder, say: Callable[[str], None]) -> RunState:
    """Pay for a release before its first draw, or see that it has been paid for.

    Parameters
    ----------
    state : RunState
    staging : RunFolder
        Where the debit is noted.
    say : callable
        Told of a debit that is the first of its data set in the ledger.

    Returns
    -------
    RunState
        With its debit, where the configuration names a ledger.

    Raises
    ------
    LedgerError
        If the budget does not allow the release, or the ledger cannot be trusted. Nothing has been paid.
    """
    settings, certificate = state.config.ledger, state.certificate
    if settings is None:
        return state
    ledger = Ledger(settings.file)
    state = replace(state, debit=state.debit or debit_of(state))  # perhaps killed before it was noted
    if state.debit is not None:
        ledger.resume(state.debit, certificate.plan_sha256)
        staging.save(state)
        return state
    cost = cost_of(certificate.requested, certificate.run, certificate.record_level)
    if not settings.file.exists() or ledger.spent(settings.data_set)[0] == 0:  # made anew, or a mistyped name
        EventLog(staging.events).write("first debit")
        say(
            f"WARNING: {settings.file} has no release of {settings.data_set!r} before this. If there were "
            "any, what they spent is not counted: put their ledger back, or correct data_set (docs/ledger.md)"
        )
    debit = ledger.debit(
        data_set=settings.data_set,
        period=settings.period,
        budget=Budget(settings.epsilon, settings.delta, settings.period),
        epsilon=synth.exact(cost.epsilon),
        delta=synth.exact(cost.delta),
        plan_sha256=certificate.plan_sha256,
        release=state.name,
        witness=settings.witness,
    )
    state = replace(state, debit=debit.id)
    staging.save(state)
    return state


def debit_of(state: RunState) -> str | None:
    """Return the debit of a run in its ledger, noted in its folder or not; None if there is none.

    Raises
    ------
    LedgerError
        If the ledger cannot be trusted.
    """
    settings = state.config.ledger
    if settings is None or not settings.file.exists():
        return None
    return next(
        (entry.hash for entry in Ledger(settings.file).entries() if entry.release == state.name), None
    )


def debits_of(outs: Iterable[Path]) -> list[str]:
    """Return the entries of the ledger that paid for finished or unfinished runs, by their output folders.

    Raises
    ------
    ConfigError
        If there is no run in a folder, or nothing paid for it.
    """
    debits = []
    for out in outs:
        staging = RunFolder(out) if RunFolder(out).begun else RunFolder.of(out)
        if not staging.begun:
            raise ConfigError(f"{out}: no release with its confidential folder is there")
        if (debit := staging.load().debit) is None:
            raise ConfigError(
                f"{out}: no debit is noted there: nothing paid for this release, or it was stopped just "
                "then (odsynth resume notes it)"
            )
        debits.append(debit)
    return debits


@contextmanager
def record_outcome(state: RunState, events: EventLog) -> Iterator[None]:
    """Enter the outcome in the log and in the ledger; whatever it is, what was paid stays paid."""
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
    if ledger and state.debit:
        ledger.outcome(state.debit, "finished")
