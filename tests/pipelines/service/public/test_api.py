"""The public API: its answers are the release's own numbers, and every refusal is clear."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines import Release
from pipelines.service.public import answers, flow_queries
from pipelines.service.public.formats import MEDIA_TYPES
from pipelines.views.labels import unit_names

from ..helpers import NAME

MakeApp = Callable[..., FastAPI]


@pytest.fixture(scope="module")
def release(service_state: Path) -> Release:
    return pipelines.open_release(service_state / "published" / NAME / "v1")


def test_the_list(client: TestClient, release: Release) -> None:
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
        "signed": (release.public / "signing-key.pub").exists(),
        "withdrawn": None,
        "errata": [],
        "sha256": hashlib.sha256((release.public / "SHA256SUMS").read_bytes()).hexdigest(),
    }
    assert entry.items() >= expected.items()
    assert response.headers["Cache-Control"] == "public, no-cache"
    assert client.get(f"/api/v1/releases/{NAME}/v1").json() == entry


def test_the_certificate_is_the_file(client: TestClient, base: str, release: Release) -> None:
    response = client.get(f"{base}/certificate")
    assert response.content == (release.public / "certificate.json").read_bytes()
    assert response.headers["Content-Type"] == "application/json"
    assert "immutable" in response.headers["Cache-Control"]


def test_the_files(client: TestClient, base: str, release: Release) -> None:
    entries = {entry["name"]: entry for entry in client.get(f"{base}/files").json()["files"]}
    present = {p.relative_to(release.public).as_posix(): p for p in release.public.rglob("*") if p.is_file()}
    assert entries.keys() == present.keys()
    for name, path in present.items():
        content = client.get(entries[name]["href"]).content
        assert content == path.read_bytes()
        assert entries[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert entries[name]["size"] == len(content)


def test_the_largest_flows(client: TestClient, base: str, release: Release) -> None:
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
            f"{side}_level": "cty",
            f"{other}_level": "trct",
            "attributes": {"SE03": release.counts["SE03"]},
            "implicate": 1,
            "flows": [
                {side: code, other: codes[row[other]], "SE03": row["SE03"]}
                for _, row in mine.head(2).iterrows()
            ],
            "returned": 2,
            "matched": len(mine),
            "jobs": {"SE03": mine["SE03"].sum()},
        }


def flows_of(release: Release, *counts: str) -> pd.DataFrame:
    """What the release itself says of flows between tracts of work and counties of homes, by code."""
    flows = release.unit_flows("cty", "trct", counts)
    codes = {side: release.geography.codes(level) for side, level in (("work", "trct"), ("home", "cty"))}
    return flows.assign(**{side: codes[side][flows[side]] for side in codes})


def test_every_format_has_the_same_flows(client: TestClient, base: str, release: Release) -> None:
    query = f"{base}/flows?work_level=trct&home_level=cty&attribute=S000,SE03&places=true&format="
    expected = flows_of(release, "S000", "SE03")
    got = {form: client.get(query + form) for form in ("json", "csv", "arrow", "geojson")}
    kinds = {form: answer.headers["Content-Type"].partition(";")[0] for form, answer in got.items()}
    assert kinds == MEDIA_TYPES
    features = got["geojson"].json()["features"]
    tables = {
        "json": pd.DataFrame(got["json"].json()["flows"]),
        "csv": pd.read_csv(BytesIO(got["csv"].content), dtype={"work": str, "home": str}),
        "arrow": pa.ipc.open_stream(got["arrow"].content).read_pandas(),
        "geojson": pd.DataFrame([each["properties"] for each in features]),
    }
    for form, table in tables.items():
        pd.testing.assert_frame_equal(table[list(expected.columns)], expected, check_dtype=False, obj=form)
        assert set(table.columns) == set(tables["csv"].columns)
    places = {level: release.places(level).set_index("code") for level in ("trct", "cty")}
    for feature in features:
        row = feature["properties"]
        ends = [
            places[level].loc[row[side], ["longitude", "latitude"]].to_numpy(float)
            for side, level in (("home", "cty"), ("work", "trct"))
        ]
        assert feature["id"] == f"{row['work']}:{row['home']}"
        if feature["geometry"] is None:
            assert np.isnan(ends).any() or (ends[0] == ends[1]).all()
        else:
            assert feature["geometry"]["type"] == "LineString"
            np.testing.assert_allclose(feature["geometry"]["coordinates"], ends, atol=1e-6)
    assert sum(feature["geometry"] is not None for feature in features) > 5


def test_an_answer_of_any_size_is_sent_while_it_is_read(
    client: TestClient, base: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same content, without a length beforehand; HEAD reads none of it."""
    queries = [f"{base}/flows?work_level=trct&home_level=cty&format={form}" for form in MEDIA_TYPES]
    whole = [client.get(query) for query in queries]
    monkeypatch.setattr(answers, "_WHOLE_BYTES", 10)
    monkeypatch.setattr(flow_queries, "_FIRST_ROWS", 5)
    for query, before in zip(queries, whole, strict=True):
        parts = client.get(query)
        assert "Content-Length" not in parts.headers
        assert parts.headers["ETag"] == before.headers["ETag"]
        if "arrow" in query:
            assert (
                pa.ipc.open_stream(parts.content).read_all() == pa.ipc.open_stream(before.content).read_all()
            )
        else:
            assert parts.content == before.content
        assert client.head(query).content == b""


def test_pages_together_are_the_whole(client: TestClient, base: str) -> None:
    county = client.get(f"{base}/areas?level=cty").json()["areas"][1]["code"]
    for query, key in (
        ("flows?work_level=trct&home_level=cty", "flows"),
        (f"flows?home={county}&home_level=trct&work_level=cty", "flows"),
        ("areas?level=trct", "areas"),
    ):
        whole = client.get(f"{base}/{query}").json()
        for limit in (1, 3, len(whole[key])):
            rows, address, pages = [], f"{base}/{query}&limit={limit}", 0
            while address:
                page = client.get(address)
                said = page.json()
                rows, pages = rows + said[key], pages + 1
                assert said["returned"] == len(said[key]) <= limit
                address = said.get("next")
                assert page.links.get("next", {}).get("url") == address
            assert rows == whole[key]
            assert pages == -(-len(rows) // limit)


def test_areas_have_names_places_and_shapes(client: TestClient, base: str, release: Release) -> None:
    county = release.geography.codes("cty")[1]
    for level in release.levels:
        query = f"{base}/areas?level={level}"
        areas = pd.DataFrame(client.get(query).json()["areas"])
        places = release.places(level)
        assert list(areas["code"]) == list(places["code"])
        for axis in ("longitude", "latitude"):
            np.testing.assert_allclose(areas[axis], places[axis], atol=1e-6)
        names = unit_names(release, level)
        assert list(areas["name"].fillna("") if "name" in areas else names) == list(names)
        flows, several = release.unit_flows(level, level, ["S000", "SE03"]), f"{query}&attribute=SE03,S000"
        columns = list(pd.read_csv(BytesIO(client.get(f"{several}&format=csv").content)).columns)
        assert columns[-4:] == ["home_SE03", "work_SE03", "home_S000", "work_S000"]
        others = pd.DataFrame(client.get(several).json()["areas"])
        for side in ("home", "work"):
            jobs = flows.groupby(side).sum().reindex(range(len(areas)), fill_value=0)
            assert list(areas[f"{side}_S000"]) == list(jobs["S000"])
            assert list(others[f"{side}_SE03"]) == list(jobs["SE03"])
        assert "home_SE03" not in areas
        named = [area for area in areas.to_dict("records") if "ounty" in str(area.get("name"))]
        assert client.get(f"{query}&name=oUNTY").json()["areas"] == named
        features = client.get(f"{query}&format=geojson").json()["features"]
        assert [feature["id"] for feature in features] == list(areas["code"])
        kinds = {feature["geometry"]["type"] for feature in features if feature["geometry"]}
        (said,) = (each for each in client.get(f"{base}/contents").json()["levels"] if each["level"] == level)
        assert said["areas"] == len(areas)
        assert kinds <= {"Point" if said["shapes"] == "point" else "MultiPolygon"}
        if level not in ("st", "cty"):
            within = [each["code"] for each in client.get(f"{query}&within={county}").json()["areas"]]
            unit = release.geography.unit_of("cty", release.geography.starts(level))
            assert within == list(release.geography.codes(level)[unit == 1])


def test_the_contents(client: TestClient, base: str, release: Release) -> None:
    contents = client.get(f"{base}/contents").json()
    assert [level["level"] for level in contents["levels"]] == list(release.levels)
    assert {each["attribute"]: each["meaning"] for each in contents["attributes"]} == release.counts
    known = {(each["variable"], each["category"]) for each in contents["attributes"] if each["variable"]}
    assert known == {(name, value) for name, values in release.categories.items() for value in values}
    assert (contents["intervals"], contents["interval_level"]) == (False, None)
    for level in contents["levels"]:
        assert level["nests"] is True
        for address in ("href", "tiles", "style"):
            assert client.get(level[address]).status_code == 200


def test_the_latest_version(client: TestClient, base: str, page: str) -> None:
    """Whatever is asked of it is asked of the newest that can be given out."""
    for address in (base, f"{base}/flows?work_level=cty&home_level=cty", f"{page}/files/README.md", page):
        latest = f"/{NAME}/latest".join(address.split(f"/{NAME}/v1"))
        moved = client.get(latest, follow_redirects=False)
        assert (moved.status_code, moved.headers["Location"]) == (307, address)
        assert moved.headers["Cache-Control"] == "public, no-cache"
    for address in ("/api/v1/releases/nothing/latest", f"/api/v1/releases/%64{NAME[1:]}/latest"):
        assert client.get(address, follow_redirects=False).status_code == 404


def test_what_is_sent_compressed(client: TestClient, base: str, page: str) -> None:
    for address in (f"{base}/areas?level=trct", page, f"{base}/tiles/cty"):
        plain = client.get(address, headers={"Accept-Encoding": "identity"})
        packed = client.get(address, headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in plain.headers
        assert packed.content == plain.content
        assert packed.headers["ETag"] == plain.headers["ETag"]
        assert packed.headers["ETag"].startswith("W/")  # the same content in other bytes
        if len(plain.content) > 1_000:
            assert packed.headers["Content-Encoding"] == "gzip"
            assert "Accept-Encoding" in packed.headers["Vary"]
            assert int(packed.headers["Content-Length"]) < len(plain.content)
    file = client.get(f"{page}/files/README.md", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in file.headers  # whose digest is that of the list of files
    assert not file.headers["ETag"].startswith("W/")


def test_the_feed(make_app: MakeApp, new_state: Path) -> None:
    place, atom = new_state / "published", "{http://www.w3.org/2005/Atom}"
    pipelines.erratum(place, NAME, "v1", "A <b>wrong</b>\x01 county.")
    client = TestClient(make_app(new_state, PUBLIC_URL="https://data.example.org/"))
    answer = client.get("/api/v1/releases.atom")
    assert answer.headers["Content-Type"] == "application/atom+xml"
    feed = ElementTree.fromstring(answer.content)
    for part in ("id", "title", "updated", "author"):
        assert feed.find(f"{atom}{part}") is not None
    (entry,) = feed.findall(f"{atom}entry")
    assert entry.find(f"{atom}link").get("href") == f"https://data.example.org/releases/{NAME}/v1"  # type: ignore[union-attr]
    assert "A <b>wrong</b> county." in str(entry.findtext(f"{atom}content"))
    (state,) = pipelines.published(place)
    assert feed.findtext(f"{atom}updated") == entry.findtext(f"{atom}updated") == state.errata[0].date
    held = {"If-None-Match": answer.headers["ETag"]}
    assert client.get("/api/v1/releases.atom", headers=held).status_code == 304


def test_refusals_of_a_question(client: TestClient, base: str, release: Release) -> None:
    tract = release.geography.codes("trct")[0]
    for query, status, word in (
        ("flows?work=", 422, "query.work"),
        ("flows?work=1&top=0", 422, "query.top"),
        ("flows?work=1&top=1001", 422, "query.top"),
        ("flows?work=1&top=many", 422, "query.top"),
        ("flows?work=1&implicate=0", 422, "query.implicate"),
        ("flows?limit=10001", 422, "query.limit"),
        ("flows?format=xml", 422, "query.format"),
        ("flows?top=1&limit=1", 422, "top: "),
        ("flows?top=1&top=2", 422, "top: is there 2 times"),
        ("flows?colour=red", 422, "colour: there is no such parameter here; it has: top, format"),
        (f"flows?{'9' * 101}=1", 422, "A parameter: there is no such parameter here"),
        ("files?x=1", 422, "it has none"),
        ("?x=1", 422, "it has none"),
        ("flows?after=nowhere", 422, "after: "),
        ("flows?after=a,b", 422, "after: "),
        (f"flows?work={','.join(map(str, range(1001)))}", 422, "work: 1,001 codes, and at most 1,000"),
        (f"flows?work={'9' * 20_001}", 422, "query.work"),
        (f"flows?work={tract}&work_level=cty", 422, "work: an area of the level trct"),
        ("flows?work=nowhere", 404, "work: there is no area"),
        ("flows?work=%00", 404, "work: there is no area"),
        ("flows?work=%27%20OR%201=1", 404, "work: there is no area"),
        ("flows?work=%F0%9F%9A%B2", 404, "work: there is no area"),
        ("flows?work_level=nowhere", 404, "work_level: there is no such level"),
        ("flows?attribute=S999", 404, "attribute: there is no such attribute"),
        ("flows?implicate=2", 404, "implicate: there is no such implicate"),
        ("areas", 422, "query.level"),
        ("areas?level=cty&attribute=S999", 404, "attribute: there is no such attribute"),
        ("flows?sum=home&limit=1", 422, "sum: "),
        ("flows?sum=everything", 422, "query.sum"),
        ("areas?level=nowhere", 404, "level: there is no such level"),
        ("areas?level=trct&within=nowhere", 404, "within: no level of st, cty has an area"),
        ("areas?level=trct&after=nowhere", 422, "after: "),
        ("tiles/nowhere", 404, "level: there is no such level"),
        ("tiles/cty/1/2/0.mvt", 404, "There is no such tile"),
        ("tiles/cty/99/0/0.mvt", 422, "path.z"),
    ):
        response = client.get(f"{base}/{query}".replace("/?", "?"))
        assert response.status_code == status, (query, response.text)
        assert response.json().keys() == {"error", "detail"}
        assert word in response.json()["detail"], query
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


ALL = (
    *("{base}", "{base}/certificate", "{base}/files", "{base}/flows?work={code}", "{base}/contents"),
    *("{base}/areas?level=trct", "{base}/tiles/cty", "{base}/ogc", "{page}", "{page}/files/README.md"),
    *("/static/site.css", "/static/operator.js", "/api/v1/openapi.json"),
)


@pytest.fixture
def addresses(base: str, page: str, release: Release) -> list[str]:
    code = release.geography.codes("cty")[0]
    return [address.format(base=base, page=page, code=code) for address in ALL]


def test_what_is_held_is_not_sent_again(client: TestClient, addresses: list[str]) -> None:
    for address in addresses:
        first = client.get(address)
        tag = first.headers["ETag"]
        for held in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            if held == "*" and address.startswith("/static"):
                continue
            again = client.get(address, headers={"If-None-Match": held})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["ETag"] == tag
            assert again.headers["Cache-Control"] == first.headers["Cache-Control"]
        assert client.get(address, headers={"If-None-Match": '"other"'}).content == first.content
        for_good = any(part in address for part in ("/certificate", "/flows?", "/areas?", "/files/"))
        assert ("immutable" in first.headers["Cache-Control"]) == for_good


def test_what_there_is_not_is_held_by_nobody(client: TestClient, base: str) -> None:
    for question in ("work=none", "attribute=none", "implicate=99"):
        assert client.get(f"{base}/flows?{question}", headers={"If-None-Match": "*"}).status_code == 404


def test_tags_differ_where_answers_do(client: TestClient, base: str, release: Release) -> None:
    code = release.geography.codes("cty")[0]
    queries = ["work={}", "home={}", "work={}&top=1", "work={}&attribute=SA01", "work={}&home_level=trct"]
    queries += ["work={}&format=csv", "work={}&places=true", "work={}&limit=1"]
    tags = {client.get(f"{base}/flows?{query.format(code)}").headers["ETag"] for query in queries}
    assert len(tags) == len(queries)


def test_head_is_get_without_content(client: TestClient, addresses: list[str]) -> None:
    for address in addresses:
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
        rmtree(path)
    client = TestClient(make_app(new_state))
    for end in ("flows", "areas?level=cty", "contents", "tiles/cty", "ogc/collections/areas_cty/items"):
        response = client.get(f"{base}/{end}")
        assert (response.status_code, response.json()["error"]) == (503, "preparing")
        assert int(response.headers["Retry-After"]) > 0
    assert client.get(f"{page}/map").status_code == 503
    assert "No map has been drawn yet" in client.get(page).text
