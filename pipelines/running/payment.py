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
from pipelines.ledger.budgets import budgets_of_debit, left_of, line_of_text
from pipelines.ledger.chain import Entry, check_folder
from pipelines.ledger.ledger import Budget, Ledger, LedgerError
from pipelines.running.folder import RunFolder, RunState
from pipelines.storage.event_log import EventLog

__all__ = ["budget_left", "debit_of", "debits_of", "left_in", "pay", "read_ledger", "record_outcome"]


def budget_left(settings: LedgerSettings) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta that a release may still cost; nothing is written.

    Returns
    -------
    tuple of Fraction
        Of the budget of the period and the one over all periods, the smaller.

    Raises
    ------
    LedgerError
        If the ledger cannot be trusted, or its folder is not there.
    """
    return left_in(read_ledger(settings), settings)


def left_in(entries: list[Entry], settings: LedgerSettings) -> tuple[Fraction, Fraction]:
    """Return what `budget_left` does, by the entries of a ledger."""
    data_set = line_of_text(settings.data_set, "data set")
    return left_of(entries, data_set, budgets_of_debit(entries, data_set, *_budgets(settings)))


def read_ledger(settings: LedgerSettings, *, dry_run: bool = False) -> list[Entry]:
    """Return the entries of the ledger, checked; none if its first debit is still to come.

    A dry run leaves no file beside the ledger.

    Raises
    ------
    LedgerError
        If the ledger cannot be trusted, or its folder is not there.
    """
    if not settings.witness and not settings.file.exists():
        check_folder(settings.file)  # the first debit makes the file
        return []
    ledger = Ledger(settings.file)
    if dry_run:
        return ledger.peek(settings.witness)
    ledger.verify(settings.witness)
    return ledger.entries()


def _budgets(settings: LedgerSettings) -> tuple[Budget, Budget | None]:
    """Return the budget that a configuration states, and the one over all periods beside it."""
    total = None if settings.period is None else settings.over_all_periods
    return Budget(settings.epsilon, settings.delta, settings.period), total and Budget(*total)


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
    # A plan for the DP of one record does not keep the pdp of the whole run as small.
    cost = certificate.requested if certificate.requested.guarantee == "dp" else certificate.run
    if not settings.file.exists() or ledger.spent(settings.data_set)[0] == 0:  # made anew, or a mistyped name
        EventLog(staging.events).write("first debit")
        say(
            f"WARNING: {settings.file} has no release of {settings.data_set!r} before this. If there were "
            "any, what they spent is not counted: put their ledger back, or correct data_set (docs/ledger.md)"
        )
    budget, total = _budgets(settings)
    debit = ledger.debit(
        data_set=settings.data_set,
        period=settings.period,
        budget=budget,
        total=total,
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
