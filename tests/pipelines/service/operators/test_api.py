"""The operators' API: what it does, and what it refuses to whom."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import update

import pipelines
from pipelines.release.signing import WITNESS_FILE, generate_keys, public_key_digits
from pipelines.running.folder import RunFolder
from pipelines.service import create_app
from pipelines.service.operators.models import PlanEntry
from pipelines.service.queue.claims import fail, finish, note
from pipelines.service.queue.runs import get_run
from pipelines.service.store import runs
from pipelines.storage.checksums import sha256_of

from ..helpers import (
    CONTENT,
    FIT,
    NAME,
    PLAN,
    PLAN_SHA256,
    World,
    claimed,
    client_of,
    spend_quarter,
    state,
)

API = "/api/v1/operator"
QUEUE = {"plan_sha256": PLAN_SHA256}
People = dict[str, TestClient]
Release = pipelines.Release


def test_a_plan_costs_what_the_ledger_will_be_debited() -> None:
    numbers = dict.fromkeys(
        ("total_variation", "block_variation", "mean_commute_error", "destination_error", "noise_share")
    )
    stored = numbers | {"plan_sha256": "0" * 64, "epsilon": "4", "delta": "0.01", "jobs": 9, "report": ""}
    of_person = {"epsilon": "8", "delta": "0.56"}
    user = of_person | {"records": 2, "statement": ""}
    plan = PlanEntry.model_validate_json(json.dumps(stored | {"debit": of_person, "user_level": user}))
    assert plan.paid.price == (8, Fraction("0.56"), None)
    before = PlanEntry.model_validate_json(json.dumps(stored))  # stored by an earlier version
    assert before.paid.epsilon == "4"


def test_registered_inputs_are_described_without_their_paths(people: People, world: Any) -> None:
    (found,) = people["vic"].get(f"{API}/inputs").json()["inputs"]
    assert found == {
        "name": "small", "usable": True, "problem": "", "title": "Demo region 2019, all jobs", "year": 2019,
        "job_type": "JT00", "data_set": "jobs", "period": None, "epsilon": "8.6", "delta": found["delta"],
        "most_debit": {"epsilon": "8.6", "delta": "0.00001"},
    }  # fmt: skip
    assert float(found["delta"]) == 1e-5
    text = world.input.read_text()
    world.input.write_text(text.replace('epsilon = "8.6"', 'epsilom = "8.6"'))
    (found,) = people["vic"].get(f"{API}/inputs").json()["inputs"]
    assert not found["usable"]
    assert found["problem"].startswith("small.toml: ")
    assert "epsilom" in found["problem"]
    assert people["ann"].post(f"{API}/runs", json={"input": "small"}).status_code == 409
    world.input.write_text(text[: text.index("[ledger]")])
    assert "has no ledger" in people["vic"].get(f"{API}/inputs").text
    assert "no ledger" in people["ann"].post(f"{API}/runs", json={"input": "small"}).json()["detail"]
    geometric = text.replace('mechanism = "dirichlet"', 'mechanism = "geometric"')
    geometric = geometric.replace("retention_min", "# retention_min")
    world.input.write_text(f'{geometric}\n[tiers]\npublic = "1"\nsecure = "8.6"\n')
    (found,) = people["vic"].get(f"{API}/inputs").json()["inputs"]
    assert "it has [tiers]" in found["problem"]
    assert people["ann"].post(f"{API}/runs", json={"input": "small"}).status_code == 409
    world.input.unlink()
    (found,) = people["vic"].get(f"{API}/inputs").json()["inputs"]
    assert "there is no such file" in found["problem"]
    assert "CANARY" not in found["problem"]


def test_what_a_run_would_refuse_is_refused_when_it_is_submitted(people: People, world: Any) -> None:
    text = world.input.read_text()
    world.input.write_text(text + '\n[signature]\nkey = "CANARYfolder/none.pem"\n')
    answer = people["ann"].post(f"{API}/runs", json={"input": "small"})
    assert (answer.status_code, answer.json()["error"]) == (409, "input")
    assert "small cannot be run now: none.pem: there is no such key" in answer.json()["detail"]
    assert "CANARY" not in answer.text
    assert people["vic"].get(f"{API}/runs").json()["runs"] == []


def test_a_version_name_that_is_taken_is_refused_while_nothing_is_paid(
    app: FastAPI, people: People, small_release: pipelines.Release
) -> None:
    """Published, or asked for by another run: when it is submitted, queued, and approved."""
    ann, store = people["ann"], app.state.store

    def submit(version: str) -> Any:
        return ann.post(f"{API}/runs", json={"input": "small", "version": version})

    def refused(answer: Any, words: str) -> None:
        assert (answer.status_code, answer.json()["error"]) == (409, "version")
        assert words in answer.json()["detail"]
        assert "CANARY" not in answer.text

    publish = partial(pipelines.publish, small_release.public.parent, app.state.settings.releases)
    publish(version="v1")
    refused(submit("v1"), "v1 stands for another content. Fix: ")
    refused(submit("latest"), "has a meaning in addresses of a service. Fix: ")
    for version in ("../v1", "v1.json", "v\x00"):
        assert submit(version).status_code == 422
    assert submit("v2").status_code == 201
    refused(submit("v2"), "Run 1 has the version name v2. Fix: ")
    finish(store, claimed(store), plan=json.dumps(PLAN))
    publish(version="v2")
    refused(ann.post(f"{API}/runs/1/queue", json=QUEUE), "v2 stands for another content")
    pipelines.withdraw(app.state.settings.releases, NAME, "v1", "wrong")
    refused(submit("v1"), "v1 was withdrawn")
    assert submit("v3").status_code == 201
    finish(store, claimed(store), plan=json.dumps(PLAN))
    ann.post(f"{API}/runs/2/queue", json=QUEUE)
    finish(store, claimed(store), certificate=FIT, content=CONTENT)
    publish(version="v3")
    verdict = {"content_sha256": CONTENT, "version": "v3"}
    refused(people["bob"].post(f"{API}/runs/2/approve", json=verdict), "v3 stands for another content")
    refused(ann.post(f"{API}/runs/2/rename", json={"version": "v2"}), "v2 stands for another content")
    assert ann.post(f"{API}/runs/2/rename", json={"version": "v4"}).json()["version"] == "v4"
    for sent in (verdict, {"content_sha256": CONTENT}):
        refused(people["bob"].post(f"{API}/runs/2/approve", json=sent), "is not the version name under which")
    verdict = {"content_sha256": CONTENT, "version": "v4"}
    assert people["bob"].post(f"{API}/runs/2/approve", json=verdict).json()["state"] == "approved"


def test_what_was_approved_and_could_not_be_published_is_decided_about_again(
    app: FastAPI, people: People
) -> None:
    ann, bob, store = people["ann"], people["bob"], app.state.store
    assert (
        ann.post(f"{API}/runs", json={"input": "small", "version": "v1", "dry_run": False}).status_code == 201
    )
    finish(store, claimed(store), certificate=FIT, content=CONTENT)
    verdict = {"content_sha256": CONTENT, "version": "v1"}
    assert bob.post(f"{API}/runs/1/approve", json=verdict).json()["decision"]["decision"] == "approved"
    assert ann.post(f"{API}/runs/1/rename", json={"version": "v2"}).json()["error"] == "state"
    fail(store, claimed(store), "PublishError", "v1 stands for another content")
    run = ann.post(f"{API}/runs/1/rename", json={"version": "v2"}).json()
    assert (run["state"], run["version"], run["error"], run["decision"]) == ("finished", "v2", None, None)
    assert (
        ann.post(f"{API}/runs/1/rename", json={"version": "v1"}).json()["error"] == "version"
    )  # decided about
    assert bob.post(f"{API}/runs/1/approve", json=verdict).json()["error"] == "version"
    run = bob.post(f"{API}/runs/1/approve", json=verdict | {"version": "v2"}).json()
    assert (run["state"], run["decision"]["decision"]) == ("approved", "approved")
    assert claimed(store).version == "v2"
    acts = [act["action"] for act in people["vic"].get(f"{API}/audit").json()["acts"]]
    assert [act for act in acts if act in ("approved", "renamed")] == ["approved", "renamed", "approved"]


def test_closing_a_run_removes_its_homes_and_keeps_what_it_spent(
    app: FastAPI, people: People, world: World
) -> None:
    ann, store = people["ann"], app.state.store
    world.hold("debit")
    ann.post(f"{API}/runs", json={"input": "small", "dry_run": False})
    assert ann.post(f"{API}/runs/1/close").json()["error"] == "state"
    with world.at_work(store, lease=1, look=0.1, grace=0):
        os.kill(world.held(), signal.SIGKILL)
        world.release_hold()
    row = claimed(store) if state(store, 1) == "queued" else get_run(store, 1)
    fail(store, row, "OSError", "m")
    left = list(app.state.settings.outs.glob(".run-000001.unfinished/confidential/*"))
    assert left
    assert ann.post(f"{API}/runs/1/close").json()["state"] == "closed"
    assert not list(app.state.settings.outs.glob(".run-000001*"))
    (budget,) = people["vic"].get(f"{API}/ledger").json()["budgets"]
    assert budget["spent_epsilon"] != "0"
    with sqlite3.connect(world.ledger) as ledger:
        assert ledger.execute("SELECT count(*) FROM releases WHERE kind = 'abandoned'").fetchone() == (1,)
    assert ann.post(f"{API}/runs/1/retry").json()["error"] == "state"
    assert ann.post(f"{API}/runs/1/close").json()["state"] == "closed"  # again, where the disk had a fault


def test_submission_queue_and_cancellation(people: People) -> None:
    ann = people["ann"]
    key = {"Idempotency-Key": "2026-11"}
    made, again = (
        ann.post(f"{API}/runs", json={"input": "small", "version": "v1"}, headers=key) for _ in range(2)
    )
    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json() == again.json()
    run = made.json()
    assert (run["id"], run["state"], run["task"], run["submitted_by"], run["version"]) == (
        1, "submitted", "plan", "ann", "v1",
    )  # fmt: skip
    assert ann.get(f"{API}/runs/1").json() == run
    assert ann.post(f"{API}/runs/1/queue", json=QUEUE).json()["error"] == "state"
    assert ann.post(f"{API}/runs/1/cancel").json()["state"] == "cancelled"
    assert ann.post(f"{API}/runs", json={"input": "small", "dry_run": False}).json()["state"] == "queued"
    listed = people["vic"].get(f"{API}/runs").json()["runs"]
    assert [each["id"] for each in listed] == [2, 1]
    assert [each["id"] for each in ann.get(f"{API}/runs?state=queued").json()["runs"]] == [2]
    assert [each["id"] for each in ann.get(f"{API}/runs?before=2&limit=1").json()["runs"]] == [1]
    assert ann.get(f"{API}/runs/1/certificate").status_code == 404
    assert ann.post(f"{API}/runs", json={"input": "other"}).status_code == 404


def test_remarks_are_plain_texts(people: People) -> None:
    for text in ("", " ", "a\x00b", "\x1b[31m", "x" * 2001, "\ud800"):
        content = json.dumps({"text": text})
        headers = {"Content-Type": "application/json"}
        for act in ("withdraw", "errata"):
            answer = people["bob"].post(f"{API}/releases/a/b/{act}", content=content, headers=headers)
            assert answer.status_code in (400, 422)


def finished(app: FastAPI, ann: TestClient, release: pipelines.Release) -> int:
    """A run whose release is there, as a worker would have left it."""
    run: int = ann.post(f"{API}/runs", json={"input": "small", "dry_run": False}).json()["id"]
    work = claimed(app.state.store)
    note(app.state.store, work, "Drawing synthetic workers")
    certificate = (release.public / "certificate.json").read_text()
    assert finish(app.state.store, work, certificate=certificate, content="c" * 64)
    return run


def test_where_releases_are_signed_a_run_without_a_key_is_refused(world: World, tmp_path: Path) -> None:
    settings = world.settings.model_copy(update={"signer": tmp_path / "agency.pub"})
    made = create_app(settings)
    answer = client_of(made, "ann", "operator").post(f"{API}/runs", json={"input": "small"})
    assert (answer.status_code, answer.json()["error"]) == (409, "not_signed")
    assert "[signature]" in answer.json()["detail"]
    made.state.store.close()
    made.state.log.close()


def test_four_eyes(app: FastAPI, people: People, small_release: Release) -> None:
    run = finished(app, people["ann"], small_release)
    body = {"content_sha256": "c" * 64, "comment": " Looked at the map. "}
    seen = people["bob"].get(f"{API}/runs/{run}").json()
    assert (seen["state"], seen["content_sha256"], seen["for_release"]) == ("finished", "c" * 64, True)
    assert seen["workers"] == small_release.certificate.totals.synthetic_workers
    certificate = people["bob"].get(f"{API}/runs/{run}/certificate").json()
    assert certificate == json.loads((small_release.public / "certificate.json").read_text())
    anns_other = client_of(app, " ANN", "approver")  # the submitter, with another token
    refused = anns_other.post(f"{API}/runs/{run}/approve", json=body)
    assert (refused.status_code, refused.json()["error"]) == (403, "four_eyes")
    approved = people["bob"].post(f"{API}/runs/{run}/approve", json=body)
    assert approved.status_code == 200
    assert approved.json()["state"] == "approved"
    assert approved.json()["decision"]["person"] == "bob"
    assert approved.json()["decision"]["comment"] == "Looked at the map."
    assert people["vic"].get(f"{API}/runs/{run}").json() == approved.json()
    again = people["bob"].post(f"{API}/runs/{run}/approve", json=body)
    assert (again.status_code, again.json()["error"]) == (409, "state")
    events = people["vic"].get(f"{API}/runs/{run}/events").json()
    assert [each["event"] for each in events["events"]] == ["queued", "begun", "step", "finished", "approved"]
    last = events["events"][2]["id"]
    assert len(people["vic"].get(f"{API}/runs/{run}/events?after={last}").json()["events"]) == 2
    log = people["vic"].get(f"{API}/runs/{run}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert "step Drawing synthetic workers\n" in log.text


def test_a_run_that_requires_a_witness_is_approved_with_the_statement_and_then_sealed(
    app: FastAPI, people: People, world: World, small_config: Any, tmp_path: Path, clean_source: object
) -> None:
    private, public = generate_keys(tmp_path / "keys")
    made = pipelines.run(small_config({"witness": {"key": str(public), "required": True}}))
    run = finished(app, people["ann"], made)
    out = world.settings.outs / f"run-{run:06}"
    shutil.copytree(made.out, out)
    content = sha256_of(out / "public" / "SHA256SUMS")
    with app.state.store.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(content=content))
    pipelines.witness(made.out, private)
    statement = {"statement": (made.public / WITNESS_FILE).read_text()}
    body = {"content_sha256": content}
    will, anns_other = client_of(app, "will", "witness"), client_of(app, "ann", "witness")
    for who, act, sent, status, error in (
        (people["bob"], "approve", body, 409, "witness"),
        (people["bob"], "witness", statement, 403, "forbidden"),
        (will, "approve", body, 403, "forbidden"),
        (anns_other, "witness", statement, 403, "four_eyes"),
        (will, "witness", {"statement": "{}"}, 409, "witness"),
    ):
        answer = who.post(f"{API}/runs/{run}/{act}", json=sent)
        assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
        assert not (out / "public" / WITNESS_FILE).exists()
    page = will.get(f"/operator/runs/{run}/approval").text
    assert "without the statement of the witness" in page
    assert will.post(f"{API}/runs/{run}/witness", json=statement).status_code == 200
    assert (out / "public" / WITNESS_FILE).read_text() == statement["statement"]
    page = people["bob"].get(f"/operator/runs/{run}/approval").text
    assert public_key_digits(public) in page
    assert RunFolder(out).has_key
    assert people["bob"].post(f"{API}/runs/{run}/approve", json=body).status_code == 200
    assert not RunFolder(out).has_key
    again = will.post(f"{API}/runs/{run}/witness", json=statement)
    assert (again.status_code, again.json()["error"]) == (409, "state")
    acts = [act["action"] for act in people["vic"].get(f"{API}/audit").json()["acts"]]
    assert "witnessed" in acts


def test_budgets(people: People, world: Any, small_release: pipelines.Release) -> None:
    (line,) = people["vic"].get(f"{API}/ledger").json()["budgets"]
    assert (line["data_set"], line["left_epsilon"], line["releases"]) == ("jobs", "100", 0)
    spend_quarter(world.ledger, world.input)
    (line,) = people["vic"].get(f"{API}/ledger").json()["budgets"]
    assert (line["spent_epsilon"], line["left_epsilon"], line["left_delta"]) == ("25", "75", "0.375")
    assert (line["releases"], line["unfinished"]) == (1, 1)
    assert line["guarantee"].startswith("homes ")
    assert (line["rho"], line["left_rho"], line["spent_rho"][:3]) == (None, None, "24.")
    world.input.write_text(world.input.read_text().replace('epsilon = "100"', 'rho = "40"'))
    charge = pipelines.Charge("jobs", Fraction(0), Fraction(0), "0" * 64, "r")
    pipelines.Ledger(world.ledger).debit(charge, pipelines.Budget(None, Fraction("0.5"), rho=Fraction(40)))
    (line,) = people["vic"].get(f"{API}/ledger").json()["budgets"]
    assert (line["epsilon"], line["rho"], line["delta"], line["left_epsilon"]) == (None, "40", "0.5", None)
    assert (line["left_rho"][:3], line["left_rho_delta"]) == ("15.", "0.375")
    page = people["vic"].get("/operator/ledger").text
    assert "&rho;" in page
    assert "&epsilon;" not in page
    window = pipelines.Budget(None, Fraction("0.5"), rho=Fraction(30), years=5)
    pipelines.Ledger(world.ledger).debit(
        charge, pipelines.Budget(None, Fraction("0.5"), rho=Fraction(40)), [window]
    )
    _, line = people["vic"].get(f"{API}/ledger").json()["budgets"]
    assert (line["years"], line["label"], line["left_rho"][:2]) == (5, "any 5 year(s)", "5.")
    assert "jobs, any 5 year(s)" in people["vic"].get("/operator/ledger").text
    world.ledger.write_bytes(b"damaged")
    answer = people["vic"].get(f"{API}/ledger")
    assert (answer.status_code, answer.json()["error"]) == (503, "ledger")
    assert "CANARY" not in answer.text


def test_tokens_are_seen_by_their_owners_and_by_approvers(people: People) -> None:
    everybody = people["bob"].get(f"{API}/tokens").json()["tokens"]
    assert [(each["owner"], each["role"], each["active"]) for each in everybody] == [
        ("vic", "viewer", True), ("ann", "operator", True), ("bob", "approver", True),
    ]  # fmt: skip
    assert "sha256" not in everybody[0]
    (own,) = people["vic"].get(f"{API}/tokens").json()["tokens"]
    assert own["owner"] == "vic"
    anns = next(each["id"] for each in everybody if each["owner"] == "ann")
    assert people["vic"].post(f"{API}/tokens/{anns}/revoke").status_code == 404
    assert people["ann"].get(f"{API}/whoami").status_code == 200
    assert people["bob"].post(f"{API}/tokens/{anns}/revoke").json()["revoked"]
    assert people["ann"].get(f"{API}/whoami").status_code == 401


def test_errata_and_withdrawal(app: FastAPI, people: People, small_release: Release) -> None:
    """In the catalogue, in the audit trail, and of the run that made it."""
    place, bob = app.state.settings.releases, people["bob"]
    done = pipelines.publish(small_release.out, place, version="v1")
    run, address = finished(app, people["ann"], small_release), f"{API}/releases/{done.name}/v1"
    with app.state.store.write() as connection:
        values = {"published_name": done.name, "published_version": "v1", "state": "published"}
        connection.execute(update(runs).values(values))
    noted = bob.post(f"{address}/errata", json={"text": "Block 7 is in the wrong county."})
    assert [each["text"] for each in noted.json()["errata"]] == ["Block 7 is in the wrong county."]
    gone = bob.post(f"{address}/withdraw", json={"text": "The wrong year."})
    assert (gone.json()["status"], gone.json()["withdrawn"]["text"]) == ("withdrawn", "The wrong year.")
    again = bob.post(f"{address}/withdraw", json={"text": "Once more."})
    assert again.status_code == 409
    assert str(place) not in again.text
    assert bob.post(f"{API}/releases/no/such/withdraw", json={"text": "x"}).status_code == 404
    acts = bob.get(f"{API}/audit?limit=4").json()["acts"]  # what was refused was not done
    assert [act["action"] for act in acts] == ["withdrawn", "erratum", "finished", "submitted"]
    older = bob.get(f"{API}/audit?before={acts[-1]['id']}").json()["acts"]
    assert {act["action"] for act in older} == {"token created"}
    (state,) = pipelines.published(place)
    assert state.withdrawn is not None
    assert people["vic"].get(f"{API}/runs/{run}").json()["state"] == "withdrawn"
