"""The public API: its answers are the release's own numbers, and every refusal is clear."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines import PublicRelease

from ..helpers import NAME

MakeApp = Callable[..., FastAPI]


@pytest.fixture(scope="module")
def release(service_state: Path) -> PublicRelease:
    return pipelines.read_public_release(service_state / "published" / NAME / "v1")


def test_the_list(client: TestClient, release: PublicRelease) -> None:
    response = client.get("/api/v1/releases")
    assert response.status_code == 200
    [entry] = response.json()["releases"]
    certificate = release.certificate
    expected = {
        "name": NAME,
        "version": "v1",
        "status": "complete",
        "title": certificate.release.name,
        "year": 2019,
        "epsilon": certificate.run.epsilon,
        "delta": certificate.run.delta,
        "workers": 600,
        "plan_sha256": certificate.plan_sha256,
        "signed": (release.folder / "signing-key.pub").exists(),
        "withdrawn": None,
        "errata": [],
        "sha256": hashlib.sha256((release.folder / "SHA256SUMS").read_bytes()).hexdigest(),
    }
    assert entry.items() >= expected.items()
    assert response.headers["Cache-Control"] == "public, no-cache"
    assert client.get(f"/api/v1/releases/{NAME}/v1").json() == entry


def test_the_certificate_is_the_file(client: TestClient, base: str, release: PublicRelease) -> None:
    response = client.get(f"{base}/certificate")
    assert response.content == (release.folder / "certificate.json").read_bytes()
    assert response.headers["Content-Type"] == "application/json"
    assert "immutable" in response.headers["Cache-Control"]


def test_the_files(client: TestClient, base: str, release: PublicRelease) -> None:
    entries = {entry["name"]: entry for entry in client.get(f"{base}/files").json()["files"]}
    present = {p.relative_to(release.folder).as_posix(): p for p in release.folder.rglob("*") if p.is_file()}
    assert entries.keys() == present.keys()
    for name, path in present.items():
        content = client.get(entries[name]["href"]).content
        assert content == path.read_bytes()
        assert entries[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert entries[name]["size"] == len(content)


def test_flows(client: TestClient, base: str, release: PublicRelease) -> None:
    for side in ("work", "home"):
        other = "home" if side == "work" else "work"
        flows = release.unit_flows(**{f"{side}_level": "cty", f"{other}_level": "trct"}, counts=["SE03"])
        mine = flows[(flows[side] == 1) & (flows["SE03"] > 0)].sort_values(
            ["SE03", other], ascending=[False, True]
        )
        code = release.geography.codes("cty")[1]
        query = {side: code, f"{other}_level": "trct", "attribute": "SE03", "top": 2}
        said = client.get(f"{base}/flows", params=query).json()
        assert said.pop("note").startswith("Synthetic workers")
        codes = release.geography.codes("trct")
        assert said == {
            "name": NAME,
            "version": "v1",
            "side": side,
            "area": code,
            "level": "cty",
            "other_level": "trct",
            "attribute": "SE03",
            "meaning": release.counts["SE03"],
            "implicate": 1,
            "jobs": mine["SE03"].sum(),
            "areas": len(mine),
            "flows": [
                {"code": codes[row[other]], "jobs": row["SE03"], "external": False}
                for _, row in mine.head(2).iterrows()
            ],
        }


def test_refusals_of_a_question(client: TestClient, base: str, release: PublicRelease) -> None:
    for query, status, word in (
        ("", 422, "Give one area"),
        ("work=01&home=01", 422, "Give one area"),
        ("work=", 422, "query.work"),
        ("work=1&top=0", 422, "query.top"),
        ("work=1&top=1001", 422, "query.top"),
        ("work=1&top=many", 422, "query.top"),
        ("work=1&implicate=0", 422, "query.implicate"),
        (f"work={'9' * 101}", 422, "query.work"),
        ("work=nowhere", 404, "there is no area 'nowhere'"),
        ("work=%00", 404, "there is no area"),
        ("work=%27%20OR%201=1", 404, "there is no area"),
        ("work=%F0%9F%9A%B2", 404, "there is no area"),
        ("home={code}&work_level=nowhere", 404, "there is no such level"),
        ("home={code}&attribute=S999", 404, "there is no such attribute"),
        ("home={code}&implicate=2", 404, "there is no such implicate"),
    ):
        response = client.get(f"{base}/flows?{query.format(code=release.geography.codes('st')[0])}")
        assert response.status_code == status
        assert response.json().keys() == {"error", "detail"}
        assert word in response.json()["detail"]
        assert "9" * 50 not in response.text  # what was sent is not repeated at length


def test_what_was_not_published(client: TestClient) -> None:
    for end in ("", "/certificate", "/files", "/flows?work=1", "/nothing"):
        for which in (
            "nothing/v1",
            f"{NAME}/v2",
            f"{NAME}/%2e%2e",
            f"%2e%2e%2F{NAME}/v1",
            f"{NAME}/v1%00",
            "%0d%0aX:/v1",
        ):
            response = client.get(f"/api/v1/releases/{which}{end}")
            assert response.status_code == 404
            assert response.json()["error"] == "not_found"


ALL = ("", "/certificate", "/files", "/flows?work={code}")


def test_what_is_held_is_not_sent_again(client: TestClient, base: str, release: PublicRelease) -> None:
    for end in ALL:
        address = base + end.format(code=release.geography.codes("cty")[0])
        first = client.get(address)
        tag = first.headers["ETag"]
        for held in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = client.get(address, headers={"If-None-Match": held})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["ETag"] == tag
            assert again.headers["Cache-Control"] == first.headers["Cache-Control"]
        assert client.get(address, headers={"If-None-Match": '"other"'}).content == first.content


def test_what_there_is_not_is_held_by_nobody(client: TestClient, base: str) -> None:
    for question in ("work=none", "work=01&attribute=none", "work=01&implicate=99"):
        assert client.get(f"{base}/flows?{question}", headers={"If-None-Match": "*"}).status_code == 404


def test_what_only_a_new_version_changes_is_kept_and_asked_for_again(client: TestClient) -> None:
    for address in ("/static/site.css", "/static/operator.js", "/api/v1/openapi.json"):
        first = client.get(address)
        assert (first.status_code, first.headers["Cache-Control"]) == (200, "public, no-cache")
        again = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["Cache-Control"] == "public, no-cache"


def test_tags_differ_where_answers_do(client: TestClient, base: str, release: PublicRelease) -> None:
    code = release.geography.codes("cty")[0]
    queries = ["work={}", "home={}", "work={}&top=1", "work={}&attribute=SA01", "work={}&home_level=trct"]
    tags = {client.get(f"{base}/flows?{query.format(code)}").headers["ETag"] for query in queries}
    assert len(tags) == len(queries)


def test_head_is_get_without_content(client: TestClient, base: str, release: PublicRelease) -> None:
    for end in ALL:
        address = base + end.format(code=release.geography.codes("cty")[0])
        full, head = client.get(address), client.head(address)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("Content-Length", "Content-Type", "ETag"):
            assert head.headers[name] == full.headers[name]


def test_scripts_of_other_sites_may_read(client: TestClient, base: str) -> None:
    origin = {"Origin": "https://elsewhere.example"}
    response = client.get(base, headers=origin)
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert "ETag" in response.headers["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Credentials" not in response.headers
    asked = origin | {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "Range"}
    assert client.options(base, headers=asked).status_code == 200
    for change in (
        {"Access-Control-Request-Method": "DELETE"},
        {"Access-Control-Request-Headers": "Authorization"},
    ):
        assert client.options(base, headers=asked | change).status_code == 400


def test_they_may_read_nothing_else(client: TestClient) -> None:
    for path in ("/api/v1/operator/whoami", "/health", "/metrics", "/"):
        response = client.get(path, headers={"Origin": "https://elsewhere.example"})
        assert "Access-Control-Allow-Origin" not in response.headers


def test_sites_can_be_named(make_app: MakeApp, tmp_path: Path) -> None:
    client = TestClient(make_app(tmp_path / "state", CORS_ORIGINS="https://a.example"))
    for origin, allowed in (("https://a.example", "https://a.example"), ("https://b.example", None)):
        response = client.get("/api/v1/releases", headers={"Origin": origin})
        assert response.headers.get("Access-Control-Allow-Origin") == allowed


def test_withdrawn_with_errata(make_app: MakeApp, new_state: Path, base: str, page: str) -> None:
    place = new_state / "published"
    pipelines.erratum(place, NAME, "v1", "Second county:\r\nX-Injected: yes <b>wrong</b>.")
    client = TestClient(make_app(new_state))
    assert client.get(base).json()["status"] == "complete"
    assert "<b>wrong</b>" in client.get(base).json()["errata"][0]["text"]
    pipelines.withdraw(place, NAME, "v1", "A mistake in the plan.")
    client = TestClient(make_app(new_state))
    entry = client.get("/api/v1/releases").json()["releases"][0]
    assert (entry["status"], entry["withdrawn"]["text"]) == ("withdrawn", "A mistake in the plan.")
    assert client.get(base).json() == entry
    assert client.get(f"{base}/certificate").status_code == 200
    for address in (f"{base}/files", f"{base}/flows?work=01"):
        response = client.get(address, headers={"If-None-Match": "*"})
        assert response.status_code == 410
        assert response.json()["error"] == "withdrawn"
        assert "A mistake in the plan." in response.json()["detail"]
        assert response.headers["Cache-Control"] == "no-store"
    for address in (f"{page}/files/README.md", f"{page}/map", f"{page}/flows"):
        response = client.get(address)
        assert response.status_code == 410
        assert "A mistake in the plan." in response.text


def test_damaged(make_app: MakeApp, new_state: Path, base: str, page: str) -> None:
    (new_state / "published" / NAME / "v1" / "README.md").unlink()
    client = TestClient(make_app(new_state))
    assert client.get(base).json()["status"] == "damaged"
    for address in (f"{base}/certificate", f"{base}/files", f"{base}/flows?work=01"):
        response = client.get(address)
        assert (response.status_code, response.json()["error"]) == (503, "damaged")
        assert str(new_state) not in response.text
    for address in (f"{page}/files/certificate.json", f"{page}/map", f"{page}/flows"):
        assert client.get(address).status_code == 503


def test_what_is_not_prepared_yet(make_app: MakeApp, new_state: Path, base: str, page: str) -> None:
    for path in (new_state / "cache").iterdir():
        path.unlink()
    client = TestClient(make_app(new_state))
    response = client.get(f"{base}/flows?work=01")
    assert (response.status_code, response.json()["error"]) == (503, "preparing")
    assert int(response.headers["Retry-After"]) > 0
    assert client.get(f"{page}/map").status_code == 503
    assert "No map has been drawn yet" in client.get(page).text


def test_the_document_describes_every_answer(client: TestClient, base: str) -> None:
    """Whatever the API answers has the schema that the OpenAPI document gives it."""
    import jsonschema

    document = client.get("/api/v1/openapi.json").json()
    for end in ("", "/certificate", "/files", "/flows?work=01&work_level=st"):
        path = "/api/v1/releases/{name}/{version}" + end.partition("?")[0]
        for address in (base + end, base.replace("v1", "v9", 2).replace("v9", "v1", 1) + end):
            response = client.get(address)
            described = document["paths"][path]["get"]["responses"][str(response.status_code)]
            schema = described["content"]["application/json"]["schema"]
            jsonschema.validate(json.loads(response.content), schema | {"components": document["components"]})
    for path, methods in document["paths"].items():
        if path.startswith("/api/v1/releases"):
            assert set(methods) == {"get"}
            assert methods["get"]["responses"].keys() >= {"200", "404", "422", "429"}
