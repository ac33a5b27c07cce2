"""The life of a run: states, four eyes, idempotency, and races that exactly one may win."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

import pipelines
from pipelines.service.access.tokens import Principal
from pipelines.service.queue import runs as life
from pipelines.service.queue.claims import claim, fail, finish, give_back, note, renew
from pipelines.service.queue.runs import NewRun
from pipelines.service.store import ServiceError, Store, approvals, list_audit, runs

from ..helpers import ANN, BOB, CONTENT, FIT, PLAN_SHA256, assert_append_only, at_once, claimed, state, words

Configured = Callable[..., pipelines.ReleaseConfig]
Submit = Callable[..., int]
PLAN = json.dumps({"plan_sha256": PLAN_SHA256})
ZOE = Principal("zoe", "operator", "cccccccc")


@pytest.fixture
def submit(store: Store, release_config: Configured) -> Submit:
    """Return what submits a run, and returns its number."""

    def submit(who: Principal = ANN, data_set: str = "jobs", **how: Any) -> int:
        return life.submit(store, who, NewRun(release_config(data_set), "small", **how))[0]

    return submit


def finished(store: Store, submit: Submit) -> int:
    """A run whose release is made, as far as the records know."""
    run = submit(task="release")
    work = claimed(store)
    assert work.id == run
    assert finish(store, work, certificate=FIT, content=CONTENT)
    return run


def queue(store: Store, who: Principal, run: int) -> object:
    return life.queue(store, who, run, PLAN_SHA256)


def expire(store: Store) -> None:
    with store.write() as connection:
        connection.execute(update(runs).values(leased_until="2020-01-01T00:00:00.000000Z"))


def test_from_submission_to_publication(store: Store, submit: Submit) -> None:
    run = submit()
    work = claimed(store)
    assert (work.id, work.task, work.attempts) == (run, "plan", 1)
    assert state(store, run) == "planning"
    note(store, work, "Reading public inputs")
    assert finish(store, work, plan=PLAN)
    assert state(store, run) == "planned"
    assert claim(store, 60) is None  # a person lets it go on
    life.queue(store, ANN, run, PLAN_SHA256)
    work = claimed(store)
    assert (work.task, state(store, run)) == ("release", "running")
    assert finish(store, work, certificate=FIT, content=CONTENT)
    assert claim(store, 60) is None  # another person approves
    life.decide(store, BOB, run, "approved", CONTENT, "seen")
    work = claimed(store)
    assert (work.task, work.content, state(store, run)) == ("publish", CONTENT, "publishing")
    assert finish(store, work, published_name="small", published_version="v")
    assert state(store, run) == "published"
    assert words(store, run) == "submitted begun step planned queued begun finished approved begun published"
    acts = [f"{act.actor} {act.action}" for act in reversed(list_audit(store))]
    assert acts[:3] == ["ann submitted", "service planned", "ann queued"]
    assert acts[3:] == ["service finished", "bob approved", "service published"]
    assert life.counts(store) == {"published": 1}
    decision = life.decision_of(store, run)
    assert decision is not None
    assert (decision.person, decision.decision, decision.comment) == ("bob", "approved", "seen")


def test_only_an_operator_operates(store: Store, submit: Submit) -> None:
    run = submit(ZOE)
    for role in ("viewer", "approver"):
        who = Principal("zoe", role, "cccccccc")  # type: ignore[arg-type]
        for act in (lambda who=who: submit(who), lambda who=who: life.cancel(store, who, run)):
            with pytest.raises(ServiceError, match="needs the role operator"):
                act()


def test_what_is_submitted_is_what_is_run(store: Store, release_config: Configured, submit: Submit) -> None:
    run = submit()
    kept = json.loads(life.get_run(store, run).configuration)
    again = pipelines.ReleaseConfig.model_validate(kept, context={"folder": Path("/")})
    assert again == release_config()
    with pytest.raises(ServiceError, match="no ledger that pays"):
        life.submit(store, ANN, NewRun(release_config().model_copy(update={"ledger": None}), "small"))


def test_the_same_key_is_the_same_submission(store: Store, release_config: Configured) -> None:
    config = release_config()
    first, new = life.submit(store, ANN, NewRun(config, "small", key="k"))
    assert new
    assert life.submit(store, ANN, NewRun(config, "small", key="k")) == (first, False)
    assert life.submit(store, ZOE, NewRun(config, "small", key="k")) != (first, False)  # of another person
    other, _ = life.submit(store, ANN, NewRun(config, "small", key="l", task="release"))
    assert other != first
    finish(store, claimed(store), plan=PLAN)
    life.queue(store, ANN, first, PLAN_SHA256)  # which changes nothing about what was asked for
    assert life.submit(store, ANN, NewRun(config, "small", key="k")) == (first, False)
    for how in ({"version": "v2", "key": "k"}, {"task": "release", "key": "k"}, {"task": "plan", "key": "l"}):
        with pytest.raises(ServiceError, match="stands for another submission") as refused:
            life.submit(store, ANN, NewRun(config, "small", **how))  # type: ignore[arg-type]
        assert refused.value.status == 409
    assert len(life.list_runs(store)) == 3


def test_the_same_key_many_times_at_once(store: Store, release_config: Configured) -> None:
    config = release_config()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: life.submit(store, ANN, NewRun(config, "small", key="k")), range(16)))
    assert len({run for run, _ in made}) == 1
    assert sum(new for _, new in made) == 1
    assert len(life.list_runs(store)) == 1


# --- four eyes


def test_whoever_moved_it_cannot_approve(store: Store, submit: Submit) -> None:
    """Nor whoever retried; by whatever token: one person has one name."""
    run = submit(ZOE)
    assert finish(store, claimed(store), plan=PLAN)
    life.queue(store, ANN, run, PLAN_SHA256)
    for name in ("oz", "al"):
        assert fail(store, claimed(store), "E", "m")
        life.retry(store, Principal(name, "operator", "cccccccc"), run)
    assert finish(store, claimed(store), certificate=FIT, content=CONTENT)
    assert life.movers(store, run) == {"zoe", "ann", "oz", "al"}
    with pytest.raises(ServiceError, match="not the release that was made"):
        life.decide(store, BOB, run, "approved", "d" * 64)
    for role in ("viewer", "operator"):
        with pytest.raises(ServiceError, match="needs the role approver"):
            life.decide(store, Principal("bob", role, "dddddddd"), run, "rejected", CONTENT)  # type: ignore[arg-type]
    for name in ("zoe", "ann", "oz", "al"):
        with pytest.raises(ServiceError, match="ask another approver") as refused:
            life.decide(store, Principal(name, "approver", "dddddddd"), run, "approved", CONTENT)
        assert refused.value.status == 403
    assert state(store, run) == "finished"
    life.decide(store, BOB, run, "approved", CONTENT)
    assert state(store, run) == "approved"


def test_what_may_have_been_paid_for_is_not_cancelled(store: Store, submit: Submit) -> None:
    run = submit(task="release")
    assert not life.release_begun(store, run)
    assert fail(store, claimed(store), "OSError", "m")
    life.retry(store, ANN, run)
    with pytest.raises(ServiceError, match="may have been paid for already") as refused:
        life.cancel(store, ANN, run)
    assert refused.value.status == 409
    assert claimed(store).id == run
    dry = submit()
    assert fail(store, claimed(store), "OSError", "m")
    life.retry(store, ANN, dry)
    assert life.cancel(store, ANN, dry).state == "cancelled"


def test_what_was_reviewed_is_what_is_queued_and_approved(store: Store, submit: Submit) -> None:
    run = submit()
    finish(store, claimed(store), plan=PLAN)
    with pytest.raises(ServiceError, match="not the plan that was made") as refused:
        life.queue(store, ANN, run, "b" * 64)
    assert (refused.value.status, refused.value.error, state(store, run)) == (409, "plan", "planned")
    queue(store, ANN, run)
    assert list_audit(store)[0].detail == PLAN_SHA256
    work = claimed(store)
    assert work.plan == PLAN
    other = json.dumps(json.loads(FIT) | {"plan_sha256": "b" * 64})
    finish(store, work, certificate=other, content=CONTENT)
    with pytest.raises(ServiceError, match="not made with the plan that was reviewed"):
        life.decide(store, BOB, run, "approved", CONTENT)
    assert state(store, run) == "finished"
    life.decide(store, BOB, run, "rejected", CONTENT)


def test_what_is_not_for_release_is_not_approved(store: Store, submit: Submit) -> None:
    run = submit(task="release")
    unfit = json.dumps(json.loads(FIT) | {"for_release": False, "not_for_release_because": ["modified code"]})
    assert finish(store, claimed(store), certificate=unfit, content=CONTENT)
    with pytest.raises(ServiceError, match="not for release: modified code"):
        life.decide(store, BOB, run, "approved", CONTENT)
    life.decide(store, BOB, run, "rejected", CONTENT)


def test_of_concurrent_decisions_exactly_one_counts(store: Store, submit: Submit) -> None:
    run = finished(store, submit)
    start = threading.Barrier(12)
    outcomes: list[str] = []
    refusals: list[tuple[int, str]] = []

    def decide(number: int) -> None:
        decision = "approved" if number % 3 else "rejected"
        start.wait()
        try:
            life.decide(
                store, Principal(f"approver {number}", "approver", f"{number:08}"), run, decision, CONTENT
            )
            outcomes.append(f"approver {number}")
        except ServiceError as error:
            refusals.append((error.status, error.error))

    at_once(decide, 12)
    assert len(outcomes) == 1
    assert refusals == [(409, "state")] * 11
    decision = life.decision_of(store, run)
    assert decision is not None
    assert decision.person == outcomes[0]
    assert state(store, run) == decision.decision
    acts = [act.actor for act in list_audit(store) if act.action in ("approved", "rejected")]
    assert acts == outcomes


def test_a_decision_is_never_changed(store: Store, submit: Submit) -> None:
    run = finished(store, submit)
    life.decide(store, BOB, run, "approved", CONTENT)
    line = {
        "run": run,
        "person": "eve",
        "decision": "rejected",
        "content": CONTENT,
        "comment": "",
        "time": "",
    }
    assert_append_only(store, approvals, **line)
    decision = life.decision_of(store, run)
    assert decision is not None
    assert decision.person == "bob"
    with pytest.raises(ServiceError, match="is approved; this needs finished"):
        life.decide(store, BOB, run, "rejected", CONTENT)


def test_what_cannot_be_done_in_a_state(store: Store, submit: Submit) -> None:
    run = submit(task="release")
    for act in (queue, life.retry):
        with pytest.raises(ServiceError, match="is queued; this needs") as refused:
            act(store, ANN, run)
        assert refused.value.status == 409
    with pytest.raises(ServiceError, match="is queued; this needs finished"):
        life.decide(store, BOB, run, "approved", CONTENT)
    life.cancel(store, ANN, run)
    assert claim(store, 60) is None
    with pytest.raises(ServiceError, match="is cancelled; this needs"):
        life.cancel(store, ANN, run)
    for number in (run + 1, 0, -1):
        with pytest.raises(ServiceError, match="no such run"):
            life.get_run(store, number)


# --- the queue


def test_one_run_at_a_time_for_each_data_set(store: Store, submit: Submit) -> None:
    jobs = [submit(task="release") for _ in range(2)]
    other = submit(ANN, "other jobs", task="release")
    dry = submit()  # reads no home, and need not wait
    first = claimed(store)
    assert first.id == jobs[0]
    assert [claimed(store).id for _ in range(2)] == [other, dry]
    assert claim(store, 60) is None
    assert finish(store, first, certificate=FIT, content=CONTENT)
    assert claimed(store).id == jobs[1]


def test_workers_that_race_share_the_queue(database: str, submit: Submit) -> None:
    """Each run is claimed once; at no moment are two runs of a data set running."""
    stores = [Store.open(database) for _ in range(4)]
    made = [
        submit(data_set=data_set, task="release") for data_set in ("a", "b", "a", "c", "a", "b", "a", "d")
    ]
    taken: list[int] = []
    crowded: list[int] = []

    def work(number: int) -> None:
        store = stores[number]
        while len(taken) < len(made):
            if (mine := claim(store, 60)) is None:
                continue
            taken.append(mine.id)
            with store.read() as connection:
                running = connection.execute(select(runs.c.data_set).where(runs.c.state == "running")).all()
            crowded.append(len(running) - len(set(running)))
            finish(store, mine, certificate=FIT, content=CONTENT)

    at_once(work, 4)
    assert sorted(taken) == made
    assert crowded == [0] * len(made)
    for store in stores:
        store.close()


def test_a_lost_lease_is_claimed_again_and_its_first_worker_has_no_say(store: Store, submit: Submit) -> None:
    run = submit(task="release")
    lost = claimed(store)
    assert claim(store, 60) is None
    assert renew(store, lost, 60)
    expire(store)
    taken = claimed(store)
    assert (taken.id, taken.attempts) == (run, 2)
    assert taken.configuration == lost.configuration
    assert not renew(store, lost, 60)
    assert not finish(store, lost, certificate="{}", content="x")
    assert not fail(store, lost, "E", "m")
    give_back(store, lost, interrupted=True)
    assert state(store, run) == "running"
    assert claim(store, 60) is None
    assert finish(store, taken, certificate=FIT, content=CONTENT)
    assert words(store, run) == "queued begun resumed finished"


def test_an_expired_run_keeps_its_data_set(store: Store, submit: Submit) -> None:
    first, second = (submit(task="release") for _ in range(2))
    assert claimed(store).id == first
    expire(store)
    assert claimed(store).id == first
    assert claim(store, 60) is None
    assert state(store, second) == "queued"


def test_interrupted_too_often_is_failed_and_can_be_tried_again(store: Store, submit: Submit) -> None:
    run = submit(task="release")
    for number in range(1, 6):
        work = claimed(store)
        assert work.attempts == number
        give_back(store, work, interrupted=True)
    assert claim(store, 60) is None
    row = life.get_run(store, run)
    assert (row.state, row.error) == ("failed", "Interrupted")
    life.retry(store, ANN, run)
    assert claimed(store).attempts == 1


def test_an_orderly_end_of_the_service_is_no_interruption(store: Store, submit: Submit) -> None:
    submit(task="release")
    for _ in range(8):
        give_back(store, claimed(store), interrupted=False)
    assert claimed(store).attempts == 1


def test_a_failed_task_is_tried_again_where_it_failed(store: Store, submit: Submit) -> None:
    run = finished(store, submit)
    life.decide(store, BOB, run, "approved", CONTENT)
    assert fail(store, claimed(store), "OSError", "No space left on device")
    row = life.get_run(store, run)
    assert (row.state, row.error, row.message) == ("failed", "OSError", "No space left on device")
    life.retry(store, ANN, run)
    row = life.get_run(store, run)
    assert (row.state, row.error, row.message) == ("approved", None, None)  # not approved anew
    assert claimed(store).task == "publish"
