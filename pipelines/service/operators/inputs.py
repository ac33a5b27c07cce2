"""Registered inputs, and the budgets of the ledgers that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import synth
from pipelines.config.loading import ReleaseConfig, load_config
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import Account
from pipelines.ledger.chain import LedgerError
from pipelines.ledger.ledger import Ledger
from pipelines.running.payment import budgets_in
from pipelines.schedule.calendar import read_calendar
from pipelines.service.queue.worker_process import without_paths
from pipelines.service.refusals import conflict, not_found
from pipelines.service.settings import INPUT_NAME, ServiceSettings
from pipelines.service.store import ServiceError
from pipelines.storage.errors import shown_message


@dataclass(frozen=True)
class RegisteredInput:
    """A release configuration that operators may run."""

    name: str  # In the service's settings
    config: ReleaseConfig | None  # None if it cannot be used
    problem: str = ""  # Why not; names files without their folders


@dataclass(frozen=True)
class BudgetLine:
    """A budget of a data set and what is left of it.

    Attributes
    ----------
    data_set : str
    period : str or None
        None is for ever, or for `years`.
    years : int or None
        Of a budget for any so many years.
    label : str or None
        Its period or years, for people.
    epsilon, delta, rho : str or None
        The budget; decimal text. None: it does not limit the sum of epsilons, or of rhos.
    spent_epsilon, spent_delta, spent_rho, spent_rho_delta : str
        Of plain sums and of zCDP, rounded up.
    left_epsilon, left_delta, left_rho, left_rho_delta : str or None
        Rounded down; None as above.
    releases, unfinished : int
        Paid from it; those of them that have not finished.
    guarantee : str
        What the sum of these is a guarantee of; empty of none.
    """

    data_set: str
    period: str | None
    years: int | None
    label: str | None
    epsilon: str | None
    delta: str
    rho: str | None
    spent_epsilon: str
    spent_delta: str
    spent_rho: str
    spent_rho_delta: str
    left_epsilon: str | None
    left_delta: str | None
    left_rho: str | None
    left_rho_delta: str | None
    releases: int
    unfinished: int
    guarantee: str


def registered_inputs(settings: ServiceSettings) -> list[RegisteredInput]:
    """Return the registered inputs, in order of their names, as their files are now."""
    return [_registered(name, path) for name, path in sorted(_input_files(settings).items())]


def usable_config(settings: ServiceSettings, name: str) -> ReleaseConfig:
    """Return the configuration of a registered input, as its file is now; 404 and 409 without one."""
    files = _input_files(settings)
    if name not in files:
        raise not_found("There is no such input; choose one of the list of inputs.")
    registered = _registered(name, files[name])
    if registered.config is None:
        raise conflict("input", f"{name} cannot be used: {registered.problem}")
    return registered.config


def budgets(settings: ServiceSettings) -> list[BudgetLine]:
    """Return the budgets of all ledgers that registered inputs and the calendar name, used or not."""
    lines: dict[tuple[Path, str, str | None, int | None], BudgetLine] = {}
    for config in _configurations(settings):
        if (named := config.ledger) is None:
            continue
        try:
            if named.file.exists():
                for account in Ledger(named.file).accounts():
                    budget = account.budget
                    lines[named.file, account.data_set, budget.period, budget.years] = _line(account)
            planned, _ = budgets_in(named)
        except LedgerError as error:
            raise ServiceError(
                503, "ledger", without_paths(shown_message(error, one_line=True), [str(named.file)])
            ) from error
        unused = _line(Account(named.data_set, planned, synth.Cost.of_all(()), debits=0, unfinished=0))
        lines.setdefault((named.file, named.data_set, named.period, None), unused)
    return sorted(lines.values(), key=lambda line: (line.data_set, line.period or "", line.years or 0))


def _input_files(settings: ServiceSettings) -> dict[str, Path]:
    """Return those of the settings and those in the folder, by name; where both have one, of the settings."""
    files = {path.stem: path for path in settings.inputs_folder.glob("*.toml")}
    return {name: path for name, path in files.items() if re.match(INPUT_NAME, name)} | settings.inputs


def _registered(name: str, path: Path) -> RegisteredInput:
    try:
        config = load_config(path)
    except ConfigError as error:
        problem = without_paths(shown_message(error, one_line=True), [str(path)])
        if (rule := ": not valid TOML") in problem:  # a line is quoted there, of what may be a file of data
            problem = f"{problem.partition(rule)[0]}{rule}. Fix: odsynth plan, on the server, says where"
        return RegisteredInput(name, None, problem)
    if config.ledger is None:
        return RegisteredInput(name, None, "it has no ledger that pays for its releases; add [ledger] to it")
    if config.tiers:
        rule = "it has [tiers], and releases of the service are for one kind of readers"
        return RegisteredInput(name, None, f"{rule}; leave [tiers] out, or use odsynth run on the server")
    return RegisteredInput(name, config)


def _configurations(settings: ServiceSettings) -> Iterator[ReleaseConfig]:
    for registered in registered_inputs(settings):
        if registered.config is not None:
            yield registered.config
    if settings.calendar is not None:
        with suppress(ConfigError):
            for schedule in read_calendar(settings.calendar).schedules:
                for occurrence in schedule.occurrences():
                    yield occurrence.config()
                    break


def _line(account: Account) -> BudgetLine:
    budget, spent, left = account.budget, account.spent, account.left

    def down(amount: Fraction | None) -> str | None:
        return None if amount is None else synth.decimal_down(amount)

    return BudgetLine(
        account.data_set,
        budget.period,
        budget.years,
        budget.label,
        epsilon=down(budget.epsilon),
        delta=synth.decimal_down(budget.delta),
        rho=down(budget.rho),
        spent_epsilon=synth.decimal_up(spent.epsilon),
        spent_delta=synth.decimal_up(spent.delta),
        spent_rho=synth.decimal_up(spent.rho),
        spent_rho_delta=synth.decimal_up(spent.rho_delta),
        left_epsilon=down(left.get("epsilon")),
        left_delta=down(left.get("delta")),
        left_rho=down(left.get("rho")),
        left_rho_delta=down(left.get("rho_delta")),
        releases=account.debits,
        unfinished=account.unfinished,
        guarantee=account.guarantee,
    )
