"""Forecasts: the error that each release of a calendar is expected to have, by its plan or by one like it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.planning.simulation import simulate_utility
from pipelines.plans.accuracy import ExpectedAccuracy, ExpectedTable
from pipelines.release.accuracy import parse_expected
from pipelines.running.preflight import PLAN_NUMBERS
from pipelines.schedule.calendar import Occurrence
from pipelines.schedule.costs import numbers_of_plan
from pipelines.schedule.due import absent_files
from pipelines.schedule.records import Records


class Forecast(NamedTuple):
    """What is expected of a release."""

    planned: str  # the period whose plan says so: its own, or one that asks for the same
    accuracy: ExpectedAccuracy

    @property
    def tables(self) -> list[ExpectedTable]:
        """The tables that the release is for."""
        return [table for table in self.accuracy.tables if table.workload]

    @property
    def example(self) -> str:
        """What to expect of a number, in words, where the plan was tried on all jobs."""
        sized = [(table, size) for table in self.tables for size in table.sizes if not size.external]
        if not sized:
            return ""
        table, size = next((pair for pair in sized if pair[1].holds(10)), sized[0])
        return (
            f"Of the table {table.table}, a number of {size.words} jobs is off by {size.error:.1f} jobs on "
            f"average, and nine in ten by at most {size.error_90:,}."
        )


def forecasts(
    occurrences: Iterable[Occurrence], store: Records, *, plan: bool = False
) -> dict[str, Forecast]:
    """Return what is expected of releases, by name: by plans on record, the last for what is asked for.

    With `plan`, the first release that no plan on record is like is planned, if its public files, and the
    jobs that a plan may need, are there. No home is read, nothing is written.
    """
    configs: dict[str, tuple[Any, ReleaseConfig]] = {}
    known: list[tuple[Any, Forecast]] = []
    found: dict[str, Forecast] = {}
    for occurrence in occurrences:
        try:
            config = occurrence.config()
        except ConfigError:  # told where costs are
            continue
        asked = occurrence.schedule.name, config.privacy, config.release.mechanism, config.workload
        configs[occurrence.name] = asked, config
        numbers = numbers_of_plan(config, store.plan(occurrence.name)) or {}
        if (accuracy := numbers.get("accuracy")) is not None:  # a plan that was not tried has none
            found[occurrence.name] = Forecast(occurrence.name, parse_expected(accuracy, PLAN_NUMBERS))
            known.append((asked, found[occurrence.name]))
    for name, (asked, config) in configs.items():
        like = [forecast for other, forecast in known if other == asked]
        if not like and plan and not absent_files(config):
            inputs = read_public_inputs(config)
            accuracy = simulate_utility(make_plan(config, inputs), inputs.model).accuracy
            like = [Forecast(name, accuracy)]
            known.append((asked, like[0]))
        if like:
            found.setdefault(name, like[-1])
    return found
