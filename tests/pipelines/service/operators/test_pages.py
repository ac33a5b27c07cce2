"""The operators' pages: who sees what, what their forms do, and that nothing in them is markup of others."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import pipelines
from pipelines.service import create_app
from pipelines.service.access.tokens import create_token
from pipelines.service.operators import review
from pipelines.service.queue.claims import fail, finish
from pipelines.service.queue.runs import get_run
from pipelines.service.settings import Oidc

from ..helpers import ANN, PLAN, PLAN_SHA256, Page, claimed, desk_of, spend_quarter

PAGES = ("", "/inputs", "/runs", "/compare", "/releases", "/calendar", "/ledger", "/audit", "/tokens")


@dataclass
class Visitor:
    """Somebody with a browser that is signed in."""

    client: TestClient

    def see(self, path: str) -> str:
        """The text of a page, which is sound."""
        answer = self.client.get(f"/operator{path}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["Cache-Control"] == "no-store"
        read = Page(re.sub(r"<script src=.*?</script>", "", answer.text))
        assert read.headings.count(1) == 1
        assert all(each.startswith(("/", "#", "data:,")) for each in read.addresses)
        return answer.text

    @cached_property
    def csrf(self) -> str:
        """The text of the pages of the session."""
        found = re.search('name="csrf" value="([^"]+)"', self.see("/releases"))
        assert found
        return found[1]

    def send(self, path: str, **fields: Any) -> Any:
        """What comes of a form, with the text of the page."""
        return self.client.post(f"/operator{path}", data={"csrf": self.csrf, **fields})


class Visitors(dict[str, Visitor]):
    """A viewer, two operators and an approver, who sign in when they are first asked for."""

    roles: ClassVar = {"vic": "viewer", "ann": "operator", "oz": "operator", "bob": "approver"}

    def __init__(self, app: FastAPI) -> None:
        super().__init__()
        self._app = app

    def __missing__(self, name: str) -> Visitor:
        return self.setdefault(name, signed_in(self._app, name, self.roles[name]))


Release = Callable[[], str]  # puts one in its place


def signed_in(app: FastAPI, name: str, role: str) -> Visitor:
    secret, _ = create_token(app.state.store, name, role)  # type: ignore[arg-type]
    client = TestClient(app, follow_redirects=False)
    answer = client.post("/operator/login", data={"token": f" {secret}\n"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/operator")
    return Visitor(client)


@pytest.fixture
def visitors(app: FastAPI) -> Visitors:
    return Visitors(app)


@pytest.fixture
def release(small_release: pipelines.Release, app: FastAPI) -> Release:
    """Return what puts the small release in the place of one that a worker made of run 1; its content."""

    def place() -> str:
        store, folder = app.state.store, app.state.settings.outs / "run-000001" / "public"
        shutil.copytree(small_release.public, folder)
        content = hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()
        certificate = (folder / "certificate.json").read_text(encoding="utf-8")
        assert finish(store, claimed(store), certificate=certificate, content=content)
        return content

    return place


def submitted(visitor: Visitor, key: str = "k", version: str = "") -> str:
    """Submit a dry run; its address."""
    answer = visitor.send("/runs", input="small", version=version, key=key)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/operator")


def planned(
    app: FastAPI, visitor: Visitor, key: str = "k", loss: float = 0.1, sha256: str = PLAN_SHA256
) -> str:
    address = submitted(visitor, key)
    plan = PLAN | {"total_variation": loss, "plan_sha256": sha256}
    assert finish(app.state.store, claimed(app.state.store), plan=json.dumps(plan))
    return address


LOOKED_AT = dict.fromkeys(("certificate", "accuracy", "map", "name"), "yes")


def queue(visitor: Visitor, address: str, sha256: str = PLAN_SHA256) -> Any:
    return visitor.send(f"{address}/queue", plan_sha256=sha256, seen="yes")


def test_who_is_not_signed_in_is_asked_to_and_comes_back(app: FastAPI) -> None:
    secret, _ = create_token(app.state.store, "vic", "viewer")
    client = TestClient(app, follow_redirects=False)
    for path in PAGES:
        answer = client.get(f"/operator{path}")
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/operator/login?next=/operator{path}"
        assert client.get(answer.headers["location"]).status_code == 200
    answer = client.post(answer.headers["location"], data={"token": secret})
    assert answer.headers["location"] == "/operator/tokens"
    assert client.get("/operator/tokens").status_code == 200


def test_signing_in_leads_to_pages_of_ours_only(app: FastAPI) -> None:
    for next in ("https://example.org", "//example.org", "/\\example.org", "/", "/operator\n/x"):
        secret, _ = create_token(app.state.store, "vic", "viewer")
        client = TestClient(app, follow_redirects=False)
        for answer in (
            client.get("/operator/login", params={"next": next}),
            client.post("/operator/login", params={"next": next}, data={"token": secret}),
        ):
            assert answer.status_code == 422
            assert "set-cookie" not in answer.headers


def test_nobody_is_signed_in_by_a_form_of_another_site(app: FastAPI) -> None:
    secret, _ = create_token(app.state.store, "vic", "viewer")
    headers = {"Sec-Fetch-Site": "cross-site"}
    answer = TestClient(app).post("/operator/login", data={"token": secret}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    # Whose link brings somebody in, without his cookie, may lead on to where the cookie counts.
    asked = TestClient(app).get("/operator/login?next=/operator/runs", headers=headers)
    assert '<a class="button" href="/operator/runs">' in asked.text


def test_pages_are_sound(visitors: Visitors) -> None:
    for name in ("vic", "ann", "bob"):
        for path in PAGES:
            assert f"<b>{name}</b>" in visitors[name].see(path)


def test_forms_are_for_those_who_may(app: FastAPI, visitors: Visitors) -> None:
    address = planned(app, visitors["ann"])
    assert "Plan a release" in visitors["ann"].see("/inputs")
    assert "Queue the release" in visitors["ann"].see(address)
    for name in ("vic", "bob"):
        assert "<button" not in visitors[name].see("/inputs").split("<h1>")[1]
        assert "<button" not in visitors[name].see(address).split("<h1>")[1]


def test_a_form_that_is_sent_twice_submits_one_run(app: FastAPI, visitors: Visitors) -> None:
    key = re.search('name="key" value="([^"]+)"', visitors["ann"].see("/inputs"))
    assert key
    first, second = (submitted(visitors["ann"], key[1], "v1") for _ in range(2))
    assert first == second == "/runs/1"
    assert get_run(app.state.store, 1).version == "v1"
    assert submitted(visitors["ann"], "other") == "/runs/2"


def test_from_the_plan_to_the_queue(app: FastAPI, visitors: Visitors) -> None:
    ann = visitors["ann"]
    address = planned(app, ann)
    page = ann.see(address)
    assert "10.0 %" in page
    assert "All of &lt;it&gt;" in page
    assert 'class="cost" x="0.000" width="8.600"' in page  # of a budget of 100
    assert "enough left" not in page
    assert "Run 1" in ann.see("").partition("At work")[0]
    assert "operator.js" not in page
    assert page.count(f'<code class="hash">{PLAN_SHA256}</code>') == 2  # what is queued, and what is shown
    assert f'name="plan_sha256" value="{PLAN_SHA256}"' in page
    for name, sha256 in PLAN["inputs"].items():
        assert f'<tr><th scope="row">{name}</th><td><code class="hash">{sha256}</code></td></tr>' in page
    assert queue(ann, address, "0" * 64).status_code == 409  # another plan
    assert queue(ann, address, "").status_code == 422
    assert ann.send(f"{address}/queue", plan_sha256=PLAN_SHA256).status_code == 422  # not ticked
    assert "left of the budget: epsilon 91.4, delta 0.4999." in page
    assert queue(ann, address).headers["location"] == f"/operator{address}"
    page = ann.see(address)
    assert "operator.js" in page
    assert "Queue the release" not in page
    assert queue(ann, address).status_code == 409
    assert ann.send(f"{address}/cancel").status_code == 303
    assert "operator.js" not in ann.see(address)
    assert "Run 1" not in ann.see("")


def test_plans_beside_each_other(app: FastAPI, visitors: Visitors, world: Any) -> None:
    """From the form to a dry run with the settings of a row; what is shown says what was tried."""
    ann = visitors["ann"]
    page = ann.see("/inputs/small/comparison")
    assert 'value="4.3, 8.6, 17.2"' in page
    assert "<button" not in visitors["vic"].see("/inputs/small/comparison").split("<h1>")[1]
    fields = {"input": "small", "key": "c", "epsilon": "4, 8.60,4", "delta": "0.00001", "configured": "yes"}
    columns = {"home": ["trct", ""], "work": ["", ""], "attribute": ["SE", ""], "weight": ["2", "1"]}
    for wrong, status, said in (
        ({"epsilon": "1/3"}, 422, "epsilon: cannot be tried"),
        ({"weight": ["much", "1"]}, 422, "workload: cannot be tried"),
        ({"home": ["ward", ""]}, 409, "is not a level of the geography"),
        ({"epsilon": ",".join(map(str, range(1, 21)))}, 409, "40 combinations are more than the 24"),
        ({"epsilon": "0"}, 409, "epsilon"),
    ):
        answer = ann.send("/comparisons", **{**fields, **columns, **wrong})
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert ann.send("/comparisons", **fields, **columns).headers["location"] == "/operator/runs/1"
    store = app.state.store
    work = claimed(store)
    assert work.task == "compare"
    assert json.loads(work.variation) == {
        "epsilon": ["4", "8.60"], "delta": ["0.00001"], "mechanism": [],
        "workload": [[], [{"home": "trct", "work": None, "attributes": ["SE"], "weight": "2"}]],
    }  # fmt: skip
    assert "<progress" in ann.see("/runs/1")
    row = {"delta": "0.00001", "mechanism": "auto", "workload": "as configured", "number": 0}
    tables = [{"table": "trct to trct", "loss": 0.125, "public_model": 0.25}]
    good = {
        "certified": True, "chosen_mechanism": "geometric", "objective": 0.5, "total_variation": 0.125,
        "block_variation": 0.375, "mean_commute_error": None, "tables": tables,
    }  # fmt: skip
    other = {"workload": "residents of trct by SE (weight 2)", "number": 1}
    of_other = {"tables": [{"table": "residents of trct by SE", "loss": 0.5, "public_model": 0.75}]}
    rows = [row | {"epsilon": "4"} | good, row | {"epsilon": "100", "delta": "0.6"} | good]
    rows += [
        row | other | {"epsilon": "8.60", "certified": False},
        row | {"epsilon": "8.6"} | good | other | of_other,
    ]
    assert finish(store, work, comparison=json.dumps({"rows": rows, "recommended": "# <this>"}))
    page = ann.see("/runs/1")
    for said in (
        "residents of trct by SE (weight 2)",
        "cannot be certified",
        "25.0 %",
        "# &lt;this&gt;",
        "not for it",
    ):
        assert said in page
    assert (page.count("suffices"), page.count("too small")) == (2, 1)  # of a delta of 0.5
    assert page.count('type="radio"') == 3
    assert "<button" not in visitors["bob"].see("/runs/1").split("<h1>")[1]
    assert ann.client.get("/operator/runs/1/frontier.png").status_code == 404  # nobody has drawn one
    assert not world.ledger.exists()
    for number, status in (("3", 409), ("5", 404), ("2", 409)):  # not certified, none, too dear
        assert ann.send("/runs/1/plans", row=number, key=number).status_code == status
    assert ann.send("/runs/1/plans", row="1", version="v7", key="p").headers["location"] == "/operator/runs/2"
    made = get_run(store, 2)
    kept = desk_of(store, world.settings, ANN).config_of(made)
    assert (made.version, made.task, kept.privacy.epsilon, kept.workload) == ("v7", "plan", 4, ())
    page = ann.see("/runs/2")
    assert "epsilon <b>4</b>, delta <b>0.00001</b>, workload <b>as configured</b>" in page


def test_a_budget_that_does_not_suffice(app: FastAPI, visitors: Visitors, world: Any) -> None:
    address = planned(app, visitors["ann"])
    assert "do not have enough left" not in visitors["ann"].see(address)
    for _ in range(4):
        spend_quarter(world.ledger, world.input)
    assert "The budgets of jobs do not have enough left" in visitors["ann"].see(address)
    assert "does not allow this release" in queue(visitors["ann"], address).text
    again = visitors["ann"].send("/runs", input="small", key="k2")
    assert (again.status_code, "does not allow this release" in again.text) == (409, True)
    assert get_run(app.state.store, 1).state == "planned"


def test_a_window_of_years_that_does_not_suffice(app: FastAPI, visitors: Visitors, world: Any) -> None:
    """It limits all the same, though the budget for ever would pay."""
    address = planned(app, visitors["ann"])
    charge = pipelines.Charge("jobs", Fraction(1), Fraction(0), "0" * 64, "r")
    life, window = (pipelines.Budget(Fraction(e), Fraction("0.5"), years=y) for e, y in ((100, None), (1, 5)))
    pipelines.Ledger(world.ledger).debit(charge, life, [window])
    assert "The budgets of jobs do not have enough left" in visitors["ann"].see(address)


def test_a_run_that_failed(app: FastAPI, visitors: Visitors) -> None:
    address = planned(app, visitors["ann"])
    assert "This release</th>" in visitors["ann"].see(address)
    queue(visitors["ann"], address)
    work = claimed(app.state.store)
    assert "Budget of jobs" not in visitors["ann"].see(address)
    fail(app.state.store, work, "InputError", "<b>jobs.csv</b>: no such column")
    page = visitors["ann"].see(address)
    assert "&lt;b&gt;jobs.csv&lt;/b&gt;: no such column" in page
    assert visitors["ann"].send(f"{address}/retry").status_code == 303
    assert get_run(app.state.store, 1).state == "queued"
    page = visitors["ann"].see(address)
    assert "Budget of jobs" in page
    assert "This release</th>" not in page  # it may have been paid for
    assert "Cancel the run" not in page
    assert visitors["ann"].send(f"{address}/cancel").status_code == 409


def test_plans_side_by_side(app: FastAPI, visitors: Visitors) -> None:
    ann = visitors["ann"]
    for key, loss in (("a", 0.125), ("b", 0.0625)):
        planned(app, ann, key, loss)
    submitted(ann, "c")
    assert ann.see("/runs").count('type="checkbox"') == 2
    page = ann.see("/compare?run=1&run=2&run=3&run=2")
    assert re.findall('scope="col" class="number"><a href="/operator/runs/(.)"', page) == ["1", "2"]
    (line,) = re.findall("Flows between areas.*?</tr>", page, re.DOTALL)
    assert re.findall("[0-9.]+ %|best", line) == ["12.5 %", "6.2 %", "best"]
    assert page.count(">best<") == 1  # where they are equal, none is better
    assert "Less is better" not in page  # of an error below zero
    assert ann.client.get("/operator/compare?run=9").status_code == 404


def test_another_person_decides_with_certificate_and_map_in_view(
    app: FastAPI, visitors: Visitors, release: Release, small_release: pipelines.Release
) -> None:
    ann, bob, plan = visitors["ann"], visitors["bob"], small_release.certificate.plan_sha256
    address = planned(app, ann, sha256=plan)
    queue(visitors["oz"], address, plan)
    content = release()
    assert "Run 1" not in ann.see("").partition("At work")[0]
    assert "Run 1" in bob.see("").partition("At work")[0]
    assert "Approve" not in ann.see(f"{address}/approval")
    page = bob.see(f"{address}/approval")
    assert "submitted by <b>ann</b>, queued by <b>oz</b>" in page
    assert "differential privacy" in page
    assert f'<code class="hash">{plan}</code>, which was reviewed' in page
    assert "The map is being drawn, or there is none" in page
    assert bob.client.get(f"/operator{address}/map").status_code == 404
    prepared = app.state.catalog.prepared(content).map
    prepared.parent.mkdir(exist_ok=True)
    prepared.write_text("<html>the map</html>")
    page = bob.client.get(f"/operator{address}/approval")
    assert f'<iframe class="map" src="/operator{address}/map"' in page.text
    assert "frame-src 'self'" in page.headers["Content-Security-Policy"]
    drawn = bob.client.get(f"/operator{address}/map")
    assert (drawn.text, drawn.headers["X-Frame-Options"]) == ("<html>the map</html>", "SAMEORIGIN")
    assert bob.client.get(f"/operator{address}/map/draws-0f.bin").status_code == 404
    (prepared.parent / "map").mkdir()
    (prepared.parent / "map" / "draws-0f.bin").write_bytes(b"packed")
    part = bob.client.get(f"/operator{address}/map/draws-0f.bin")
    assert (part.content, part.headers["Cache-Control"]) == (b"packed", "no-store")
    form = {"content_sha256": content, "comment": "Well <done>", **LOOKED_AT}
    for part in LOOKED_AT:
        less = {name: value for name, value in form.items() if name != part}
        assert bob.send(f"{address}/approve", **less).status_code == 422, part
    assert ann.send(f"{address}/approve", **form).status_code == 403
    assert bob.send(f"{address}/approve", **form | {"content_sha256": "0" * 64}).status_code == 409
    assert bob.send(f"{address}/approve", **form).headers["location"] == f"/operator{address}"
    assert "Well &lt;done&gt;" in visitors["vic"].see(address)
    assert "<form" not in bob.see(f"{address}/approval").split("<h1>")[1]
    form = {"content_sha256": content, "seen": "yes"}
    assert bob.send(f"{address}/reject", **form).status_code == 409
    note = {"published_name": "demo", "published_version": "v1", "message": "NOT COMPARED in 2 files"}
    assert finish(app.state.store, claimed(app.state.store), **note)
    assert "Verified, but for this: NOT COMPARED in 2 files." in ann.see(address)


def test_an_approver_sees_what_is_expected_of_it_and_what_differs_from_before(
    app: FastAPI, visitors: Visitors, release: Release, small_release: pipelines.Release
) -> None:
    expected = json.loads((small_release.public / "accuracy.json").read_text())
    queue(visitors["ann"], planned(app, visitors["ann"]))
    release()
    page = visitors["bob"].see("/runs/1/approval")
    assert "No other version of this name is published" in page
    for one in expected["tables"]:
        assert f"{100 * one['loss']:.1f} %" in page
    assert page.count(">noise<") == sum(one["noise"] for one in expected["tables"])
    done = pipelines.publish(small_release.public.parent, app.state.settings.releases, version="v1")
    app.state.catalog.refresh()
    page = visitors["bob"].see("/runs/1/approval")
    assert "Nothing but the draws" in page
    assert "not said" not in page  # the version before has each table
    earlier = app.state.catalog.version(done.name, "v1")
    subject = earlier.certificate.release.model_copy(update={"year": 1999})
    other = replace(earlier, certificate=earlier.certificate.model_copy(update={"release": subject}))
    changes = review._changes(other, earlier.certificate)
    assert changes == (("Year", "1999", str(earlier.certificate.release.year)),)


def test_nobody_is_offered_to_approve_his_own_run(app: FastAPI, visitors: Visitors, release: Release) -> None:
    """Not even with a second token."""
    address = planned(app, visitors["ann"])
    queue(visitors["ann"], address)
    content = release()
    again = signed_in(app, "Ann", "approver")
    page = again.see(f"{address}/approval")
    assert "somebody else must approve it" in page
    assert "Approve and publish" not in page
    assert "Reject" in page
    assert "Run 1" not in again.see("").partition("At work")[0]
    form = {"content_sha256": content}
    assert again.send(f"{address}/approve", **form, **LOOKED_AT).status_code == 403
    assert again.send(f"{address}/reject", **form, comment="my mistake", seen="yes").status_code == 303
    assert get_run(app.state.store, 1).state == "rejected"


def test_maps_are_drawn_of_what_the_runs_wrote_and_of_nothing_else(
    app: FastAPI, visitors: Visitors, release: Release
) -> None:
    address = planned(app, visitors["ann"])
    queue(visitors["ann"], address)
    home = app.state.settings.folder
    assert review.waiting(app.state.store, home) == []
    content = release()
    folder = app.state.settings.outs / "run-000001" / "public"
    assert review.waiting(app.state.store, home) == [(content, folder)]
    moved = folder.parent.rename(home / "elsewhere")
    assert review.waiting(app.state.store, home) == []
    moved.rename(folder.parent)
    review._is_whole.cache_clear()
    (folder / "README.md").write_text("changed")
    assert review.waiting(app.state.store, home) == []


def test_a_calendar_that_cannot_be_read_stops_no_other_page(app: FastAPI, visitors: Visitors) -> None:
    app.state.settings = app.state.settings.model_copy(update={"calendar": Path("none")})
    assert "cannot be read" in visitors["vic"].see("")
    answer = visitors["vic"].client.get("/operator/calendar")
    assert answer.status_code == 503
    assert 'href="/operator"' in answer.text


def test_a_provider_of_identities_is_offered_where_there_is_one(world: Any) -> None:
    oidc = Oidc(issuer="https://id.example.org", client_id="c", client_secret="s")
    made = create_app(world.settings.model_copy(update={"oidc": oidc}))
    client = TestClient(made, follow_redirects=False)
    assert 'href="/operator/login/oidc"' in client.get("/operator/login").text
    assert client.get("/operator/login/oidc/callback").status_code == 401
    made.state.store.close()
    made.state.log.close()
