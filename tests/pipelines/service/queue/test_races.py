"""Acts of many at the same moment, in three processes, on both databases: each counts once."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

import pytest
from fastapi import Response

from helpers import PATIENCE
from pipelines.service.operators import api
from pipelines.service.operators.models import NewVersion, Submission
from pipelines.service.queue import runs as life
from pipelines.service.queue.claims import claim, finish
from pipelines.service.store import ServiceError, Store

from ..helpers import ANN, BOB, CONTENT, FIT, World, at_once, claimed, desk_of, settings_of

PROCESSES, THREADS = 3, 4
ALL = PROCESSES * THREADS
Act = Callable[["Here", int], object]
AllAtOnce = Callable[[Act], Counter[Any]]


class Here:
    """A service in one of the processes."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings_of(**settings)
        self.store = Store.open(self.settings.database)
        self.desk = desk_of(self.store, self.settings, ANN)

    def submit(self, key: str | None = None, **how: Any) -> tuple[int, int]:
        """Submit a release; its number, and the status of the answer."""
        response = Response()
        entry = api.submit_run(response, Submission(input="small", dry_run=False, **how), self.desk, key)
        return entry.id, response.status_code


_start: Barrier


def _begin(start: Barrier) -> None:
    global _start
    _start = start


def _several(settings: dict[str, str], act: Act, first: int) -> list[Any]:
    """What one process does: its threads act when those of all are ready."""
    here, outcomes = Here(settings), list[Any]()

    def one(number: int) -> None:
        _start.wait(PATIENCE)
        try:
            outcomes.append(act(here, first + number))
        except ServiceError as error:
            outcomes.append((error.status, error.error))

    at_once(one, THREADS)
    here.store.close()
    return outcomes


@pytest.fixture
def services(world: World, database: str) -> dict[str, str]:
    """The settings of services that share folder and database."""
    return {
        "FOLDER": str(world.settings.folder),
        "INPUTS__SMALL": str(world.input),
        "DATABASE": database,
    }


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Three processes, which take longer to start than all that they do."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(ALL)
    with ProcessPoolExecutor(PROCESSES, context, _begin, (start,)) as pool:
        yield pool


@pytest.fixture
def all_at_once(services: dict[str, str], pool: ProcessPoolExecutor) -> AllAtOnce:
    """Return what has twelve threads of three processes act at the same moment; how often each outcome is."""

    def call(act: Act) -> Counter[Any]:
        waiting = [pool.submit(_several, services, act, THREADS * process) for process in range(PROCESSES)]
        return Counter(outcome for each in waiting for outcome in each.result(PATIENCE))

    return call


@pytest.fixture
def here(services: dict[str, str]) -> Iterator[Here]:
    made = Here(services)
    yield made
    made.store.close()


def _submit_version(here: Here, number: int) -> object:
    return here.submit(version="v1")[1]


def _submit_key(here: Here, number: int) -> object:
    return here.submit("one-key", version="v1")


def _rename(here: Here, number: int) -> object:
    return api.rename_run(number + 1, NewVersion(version="v1"), here.desk).version


def _claim(here: Here, number: int) -> object:
    found = claim(here.store, 60)
    return None if found is None else found.data_set


def _decide(here: Here, number: int) -> object:
    approver = life.Principal(f"approver {number}", "approver", f"{number:08}")
    return life.decide(here.store, approver, 1, "approved" if number % 2 else "rejected", CONTENT).id


def test_one_version_name_is_one_run(here: Here, all_at_once: AllAtOnce) -> None:
    """So that it is paid for once. What is cancelled, closed or rejected leaves its name to another."""
    assert all_at_once(_submit_version) == {201: 1, (409, "version"): ALL - 1}
    (run,) = life.list_runs(here.store)
    life.cancel(here.store, ANN, run.id)
    again, _ = here.submit(version="v1")
    finish(here.store, claimed(here.store), certificate=FIT, content=CONTENT)
    with pytest.raises(ServiceError, match=f"Run {again} has the version name v1"):
        here.submit(version="v1")
    life.close(here.store, ANN, again)
    again, _ = here.submit(version="v1")
    finish(here.store, claimed(here.store), certificate=FIT, content=CONTENT)
    life.decide(here.store, BOB, again, "rejected", CONTENT)
    assert here.submit(version="v1")[1] == 201


def test_the_same_key_at_once_is_the_first_run(here: Here, all_at_once: AllAtOnce) -> None:
    assert all_at_once(_submit_key) == {(1, 201): 1, (1, 200): ALL - 1}


def test_one_of_many_renames_gets_the_name(here: Here, all_at_once: AllAtOnce) -> None:
    for _ in range(ALL):
        here.submit()
        finish(here.store, claimed(here.store), certificate=FIT, content=CONTENT)
    assert all_at_once(_rename) == {"v1": 1, (409, "version"): ALL - 1}
    assert [run.version for run in life.list_runs(here.store)].count("v1") == 1


def test_one_of_many_decisions_counts(here: Here, all_at_once: AllAtOnce) -> None:
    here.submit()
    finish(here.store, claimed(here.store), certificate=FIT, content=CONTENT)
    assert all_at_once(_decide) == {1: 1, (409, "state"): ALL - 1}


def test_one_run_of_a_data_set_is_claimed(here: Here, all_at_once: AllAtOnce) -> None:
    for _ in range(PROCESSES):
        here.submit()
    assert all_at_once(_claim) == {"jobs": 1, None: ALL - 1}
