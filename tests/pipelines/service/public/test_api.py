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
from pipelines.service.public import answers, catalog, flow_queries
from pipelines.service.public.formats import MEDIA_TYPES
from pipelines.service.public.models import SYNTHETIC
from pipelines.service.security import _HEADERS
from pipelines.views.labels import unit_names

from ..helpers import NAME, Page

MakeApp = Callable[..., FastAPI]


def test_the_list(client: TestClient, published: Release) -> None:
    response = client.get("/api/v1/releases")
    assert response.status_code == 200
    [entry] = response.json()["releases"]
    certificate = published.certificate
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
        "signed": (published.public / "signing-key.pub").exists(),
        "withdrawn": None,
        "errata": [],
        "sha256": hashlib.sha256((published.public / "SHA256SUMS").read_bytes()).hexdigest(),
    }
    assert entry.items() >= expected.items()
    assert response.headers["Cache-Control"] == "public, no-cache"
    assert client.get(f"/api/v1/releases/{NAME}/v1").json() == entry


def test_the_files(client: TestClient, base: str, published: Release) -> None:
    certificate = client.get(f"{base}/certificate")
    assert certificate.content == (published.public / "certificate.json").read_bytes()
    assert certificate.headers["Content-Type"] == "application/json"
    entries = {entry["name"]: entry for entry in client.get(f"{base}/files").json()["files"]}
    present = {
        p.relative_to(published.public).as_posix(): p for p in published.public.rglob("*") if p.is_file()
    }
    assert entries.keys() == present.keys()
    for name, path in present.items():
        content = client.get(entries[name]["href"]).content
        assert content == path.read_bytes()
        assert entries[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert entries[name]["size"] == len(content)


def test_the_largest_flows(client: TestClient, base: str, published: Release) -> None:
    for side in ("work", "home"):
        other = "home" if side == "work" else "work"
        flows = published.unit_flows(**{f"{side}_level": "cty", f"{other}_level": "trct"}, counts=["SE03"])
        mine = flows[(flows[side] == 1) & (flows["SE03"] > 0)].sort_values(
            ["SE03", other], ascending=[False, True]
        )
        code = published.geography.codes("cty")[1]
        query = {side: code, f"{other}_level": "trct", "attribute": "SE03", "top": 2}
        said = client.get(f"{base}/flows", params=query).json()
        assert said.pop("note").startswith("Synthetic workers")
        assert "tells homes apart" in said.pop("about_intervals")
        codes = published.geography.codes("trct")
        assert said == {
            "name": NAME,
            "version": "v1",
            f"{side}_level": "cty",
            f"{other}_level": "trct",
            "attributes": {"SE03": published.counts["SE03"]},
            "implicate": 1,
            "flows": [
                {side: code, other: codes[row[other]], "SE03": row["SE03"]}
                for _, row in mine.head(2).iterrows()
            ],
            "returned": 2,
            "matched": len(mine),
            "jobs": {"SE03": mine["SE03"].sum()},
        }


def flows_of(published: Release, *counts: str) -> pd.DataFrame:
    """What the release itself says of flows between tracts of work and counties of homes, by code."""
    flows = published.unit_flows("cty", "trct", counts)
    codes = {side: published.geography.codes(level) for side, level in (("work", "trct"), ("home", "cty"))}
    return flows.assign(**{side: codes[side][flows[side]] for side in codes})


def test_every_format_has_the_same_flows(client: TestClient, base: str, published: Release) -> None:
    query = f"{base}/flows?work_level=trct&home_level=cty&attribute=S000,SE03&places=true&format="
    expected = flows_of(published, "S000", "SE03")
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
    places = {level: published.places(level).set_index("code") for level in ("trct", "cty")}
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
    client: TestClient, base: str, published: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same content, without a length beforehand; HEAD reads none of it."""
    queries = [f"{base}/flows?work_level=trct&home_level=cty&format={form}" for form in MEDIA_TYPES]
    whole = [client.get(query) for query in queries]
    monkeypatch.setattr(answers, "_SMALL", 0)
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


def test_a_large_answer_waits_for_another_of_its_address_and_for_nobody_else(
    service_state: Path, make_app: MakeApp, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small questions wait for neither; and what is large counts as several requests."""
    monkeypatch.setattr(catalog, "_BOUNDED", 0)  # rows alone count
    monkeypatch.setattr(answers, "_SMALL", 1_000)
    monkeypatch.setattr(answers, "_REQUEST", 1_000)
    monkeypatch.setattr(answers, "_TURN_SECONDS", 0.1)
    app = make_app(service_state, LIMITS__PUBLIC="100/hour")
    large, small = f"{base}/flows?work_level=trct", f"{base}/flows?work_level=cty&top=3"
    with TestClient(app) as client, TestClient(app, client=("198.51.100.7", 1)) as other:
        whole = client.get(large)
        assert whole.status_code == 200
        assert "Content-Length" not in whole.headers
        turn = app.state.lanes.turn("testclient")
        assert client.portal is not None
        client.portal.call(turn.acquire)
        assert client.get(large).json()["detail"].startswith("Another large answer is still on its way to")
        refused = client.get(large)
        assert (refused.status_code, refused.json()["error"]) == (429, "too_many")
        assert client.get(small).status_code == 200
        assert other.get(large).content == whole.content
        app.state.lanes = answers.Lanes()
        for _ in range(20):
            if (last := client.get(large)).status_code == 429:
                break
        assert last.json()["detail"].startswith("Too many requests from this address")
        assert other.get(small).status_code == 200


def test_an_answer_page_counts_as_many_requests_as_it_costs(
    service_state: Path, make_app: MakeApp, page: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is made at once: it waits for no large answer of its address."""
    monkeypatch.setattr(answers, "_SMALL", 0)
    with TestClient(make_app(service_state, LIMITS__PUBLIC="100/hour")) as client:
        code = client.get(f"{base}/areas?level=cty").json()["areas"][0]["code"]
        assert client.portal is not None
        client.portal.call(client.app.state.lanes.turn("testclient").acquire)  # type: ignore[attr-defined]
        assert client.get(f"{page}/flows?area={code}").status_code == 200
        monkeypatch.setattr(answers, "_REQUEST", 1)
        assert client.get(f"{page}/flows?area=nowhere").status_code == 200
        assert client.get(f"{page}/flows?area={code}").status_code == 200
        assert client.get(f"{page}/flows?area=nowhere").status_code == 429


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


def test_areas_have_names_places_and_shapes(client: TestClient, base: str, published: Release) -> None:
    county = published.geography.codes("cty")[1]
    for level in published.levels:
        query = f"{base}/areas?level={level}"
        areas = pd.DataFrame(client.get(query).json()["areas"])
        places = published.places(level)
        assert list(areas["code"]) == list(places["code"])
        for axis in ("longitude", "latitude"):
            np.testing.assert_allclose(areas[axis], places[axis], atol=1e-6)
        names = unit_names(published, level)
        assert list(areas["name"].fillna("") if "name" in areas else names) == list(names)
        flows, several = published.unit_flows(level, level, ["S000", "SE03"]), f"{query}&attribute=SE03,S000"
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
            unit = published.geography.unit_of("cty", published.geography.starts(level))
            assert within == list(published.geography.codes(level)[unit == 1])


def test_the_contents(client: TestClient, base: str, published: Release) -> None:
    contents = client.get(f"{base}/contents").json()
    assert [level["level"] for level in contents["levels"]] == list(published.levels)
    assert {each["attribute"]: each["meaning"] for each in contents["attributes"]} == published.counts
    known = {(each["variable"], each["category"]) for each in contents["attributes"] if each["variable"]}
    assert known == {(name, value) for name, values in published.categories.items() for value in values}
    assert contents["intervals"] == [table.name for table in published.draws().tables]
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
    for accepted, packed in (
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("deflate, *;q=0", False),
        ("GZIP;q=0.1", True),
        ("br, *;q=0.5", True),
    ):
        for address in (page, f"{page}/map"):
            answer = client.get(address, headers={"Accept-Encoding": accepted})
            assert (answer.headers.get("Content-Encoding") == "gzip") == packed, (accepted, address)
    file = client.get(f"{page}/files/README.md", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in file.headers  # whose digest is that of the list of files
    assert not file.headers["ETag"].startswith("W/")


def test_refusals_of_a_question(client: TestClient, base: str, published: Release) -> None:
    tract = published.geography.codes("trct")[0]
    for query, status, word in (
        ("flows?work=", 422, "query.work"),
        ("flows?work=1&top=0", 422, "query.top"),
        ("flows?work=1&top=1001", 422, "query.top"),
        ("flows?work=1&top=many", 422, "query.top"),
        ("flows?work=1&implicate=0", 422, "query.implicate"),
        ("flows?limit=10001", 422, "query.limit"),
        ("flows?format=xml", 422, "query.format"),
        ("flows?top=1&limit=1", 422, "top: "),
        ("flows?top=1&top=2", 422, "top: the parameter is there 2 times"),
        ("flows?colour=red", 422, "colour: there is no such parameter here; it has: work, home, work_level"),
        (f"flows?{'9' * 101}=1", 422, "A parameter: there is no such parameter here"),
        ("files?x=1", 422, "it has none"),
        ("?x=1", 422, "it has none"),
        ("flows?after=nowhere", 422, "after: "),
        ("flows?after=a,b", 422, "after: "),
        (f"flows?work={','.join(map(str, range(1001)))}", 422, "work: 1,001 codes are more than the 1,000"),
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


ALL = (
    *("{base}", "{base}/certificate", "{base}/files", "{base}/flows?work={code}", "{base}/contents"),
    *("{base}/areas?level=trct", "{base}/tiles/cty", "{base}/ogc", "{page}", "{page}/files/README.md"),
    *("/static/site.css", "/static/operator.js", "/api/v1/openapi.json"),
)


@pytest.fixture
def addresses(base: str, page: str, published: Release) -> list[str]:
    code = published.geography.codes("cty")[0]
    return [address.format(base=base, page=page, code=code) for address in ALL]


def test_what_is_held_is_not_sent_again(client: TestClient, addresses: list[str]) -> None:
    """And HEAD is GET without content."""
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
        head = client.head(address)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("Content-Length", "Content-Type", "ETag"):
            assert head.headers[name] == first.headers[name]
        for_good = any(part in address for part in ("/certificate", "/flows?", "/areas?", "/files/"))
        assert ("immutable" in first.headers["Cache-Control"]) == for_good


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


def test_tags_differ_where_answers_do(client: TestClient, base: str, published: Release) -> None:
    code = published.geography.codes("cty")[0]
    queries = ["work={}", "home={}", "work={}&top=1", "work={}&attribute=SA01", "work={}&home_level=trct"]
    queries += ["work={}&format=csv", "work={}&places=true", "work={}&limit=1"]
    tags = {client.get(f"{base}/flows?{query.format(code)}").headers["ETag"] for query in queries}
    assert len(tags) == len(queries)
    for question in ("work=none", "attribute=none", "implicate=99"):  # what there is not is held by nobody
        assert client.get(f"{base}/flows?{question}", headers={"If-None-Match": "*"}).status_code == 404


def test_scripts_of_other_sites_may_read_what_is_public(
    client: TestClient, base: str, page: str, make_app: MakeApp, tmp_path: Path
) -> None:
    origin = {"Origin": "https://a.example"}
    response = client.get(base, headers=origin)
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    exposed = set(response.headers["Access-Control-Expose-Headers"].split(", "))
    always = {"Cache-Control", "Content-Language", "Content-Length", "Content-Type", "Last-Modified"}
    never = {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary", *_HEADERS}
    for path in (
        f"{base}/flows?work_level=trct&limit=1",
        f"{base}/areas?level=trct&limit=1",
        f"{base}/ogc/collections/areas_trct/items?limit=1",
        f"{page}/files/README.md",
        f"{base}/nothing",
    ):
        sent = {name.title() for name in client.get(path, headers=origin).headers}
        missing = sent - {name.title() for name in exposed | always | never}
        assert missing <= {"Accept-Ranges", "Content-Encoding"}, path
    assert "Access-Control-Allow-Credentials" not in response.headers
    asked = origin | {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "Range"}
    assert client.options(base, headers=asked).status_code == 200
    for change in (
        {"Access-Control-Request-Method": "DELETE"},
        {"Access-Control-Request-Headers": "Authorization"},
    ):
        assert client.options(base, headers=asked | change).status_code == 400
    for path in ("/api/v1/operator/whoami", "/health", "/metrics", "/"):
        assert "Access-Control-Allow-Origin" not in client.get(path, headers=origin).headers
    named = TestClient(make_app(tmp_path / "state", CORS_ORIGINS="https://a.example"))
    for site, allowed in (("https://a.example", "https://a.example"), ("https://b.example", None)):
        response = named.get("/api/v1/releases", headers={"Origin": site})
        assert response.headers.get("Access-Control-Allow-Origin") == allowed


def test_withdrawn_with_errata(make_app: MakeApp, new_state: Path, base: str, page: str) -> None:
    """Remarks are texts, in JSON, in the feed and on pages; data of what is withdrawn are not given out."""
    place, markup = new_state / "published", "<script>alert(1)</script>\x01{{ 7 * 7 }}\r\nX-Injected: yes"
    pipelines.erratum(place, NAME, "v1", markup)
    app = make_app(new_state, PUBLIC_URL="https://data.example.org/")
    client = TestClient(app)
    assert client.get(base).json()["errata"][0]["text"] == markup
    assert "With errata" in client.get("/").text
    Page(client.get(page).text)
    feed = client.get("/api/v1/releases.atom")
    check_feed(ElementTree.fromstring(feed.content), *pipelines.published(place))
    assert feed.headers["Content-Type"] == "application/atom+xml"
    held = {"If-None-Match": feed.headers["ETag"]}
    assert client.get("/api/v1/releases.atom", headers=held).status_code == 304
    pipelines.withdraw(place, NAME, "v1", markup)
    app.state.catalog.refresh()
    entry = client.get("/api/v1/releases").json()["releases"][0]
    assert (entry["status"], entry["withdrawn"]["text"]) == ("withdrawn", markup)
    assert client.get(base).json() == entry
    assert client.get(f"{base}/certificate").status_code == 200
    for address in (f"{base}/files", f"{base}/flows?work=01", f"{page}/files/README.md", f"{page}/flows"):
        response = client.get(address, headers={"If-None-Match": "*"})
        assert response.status_code == 410
        assert "{{ 7 * 7 }}" in response.text
        assert response.headers["Cache-Control"] == "no-store"
    assert "Withdrawn" in client.get("/").text
    text = client.get(page).text
    Page(text)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;\x01{{ 7 * 7 }}") == 2
    assert "Download" not in text
    assert "times more or less likely" in text  # what was promised stays


def check_feed(feed: ElementTree.Element, state: pipelines.Published) -> None:
    atom = "{http://www.w3.org/2005/Atom}"
    for part in ("id", "title", "updated", "author"):
        assert feed.find(f"{atom}{part}") is not None
    (entry,) = feed.findall(f"{atom}entry")
    assert entry.find(f"{atom}link").get("href") == f"https://data.example.org/releases/{NAME}/v1"  # type: ignore[union-attr]
    assert "<script>alert(1)</script>{{ 7 * 7 }}" in str(entry.findtext(f"{atom}content"))
    assert feed.findtext(f"{atom}updated") == entry.findtext(f"{atom}updated") == state.errata[0].date


def test_damaged(make_app: MakeApp, new_state: Path, base: str, page: str) -> None:
    """Of any file; without its certificate it still has a page."""
    (new_state / "published" / NAME / "v1" / "certificate.json").unlink()
    client = TestClient(make_app(new_state))
    assert client.get(base).json()["status"] == "damaged"
    for address in (f"{base}/certificate", f"{base}/files", f"{base}/flows?work=01"):
        response = client.get(address)
        assert (response.status_code, response.json()["error"]) == (503, "damaged")
        assert str(new_state) not in response.text
    for address in (f"{page}/files/certificate.json", f"{page}/map", f"{page}/flows"):
        assert client.get(address).status_code == 503
    assert "Damaged on this server" in client.get("/").text
    response = client.get(page)
    assert (response.status_code, "none is given out" in response.text) == (200, True)
    Page(response.text)


NOT_LISTED = """
    %2e%2e/v1.publication.json ..%2fv1.publication.json %2e%2e%2f%2e%2e%2f%2e%2e%2fservice.sqlite
    plan/%2e%2e/README.md %2e/README.md plan//plan.json /etc/passwd %2fetc%2fpasswd ..%5c..%5cservice.sqlite
    README.md%00 README.md/ readme.md plan plan/ ~root/.bashrc C:%5cboot.ini
"""


@pytest.fixture(scope="module")
def folder(published: pipelines.Release) -> Path:
    return published.public


@pytest.fixture(scope="module")
def parquet(folder: Path) -> str:
    return next(folder.glob("*_od_*.parquet")).name


def test_a_file_arrives_whole(client: TestClient, page: str, folder: Path) -> None:
    for name, kind in (
        ("README.md", "text/markdown; charset=utf-8"),
        ("certificate.json", "application/json"),
        ("SHA256SUMS", "application/octet-stream"),
        ("plan/plan.json", "application/json"),
        ("plan/blocks.parquet", "application/vnd.apache.parquet"),
        (next(folder.glob("*.csv.gz")).name, "application/gzip"),
    ):
        response, content = client.get(f"{page}/files/{name}"), (folder / name).read_bytes()
        assert response.content == content
        headers = response.headers
        assert headers["Content-Type"] == kind
        assert headers["Content-Length"] == str(len(content))
        assert headers["ETag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        kept = f"{NAME}_v1_synthetic_{name.rpartition('/')[2]}"
        assert headers["Content-Disposition"] == f'attachment; filename="{kept}"'
        assert headers["Accept-Ranges"] == "bytes"
        assert "immutable" in headers["Cache-Control"]
        assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert "Content-Encoding" not in headers


def test_what_is_kept_says_what_it_is(client: TestClient, base: str) -> None:
    """By its name the release, and that it is synthetic; also inside where the format has a place for it."""
    for asked, name in (
        ("areas?level=cty", "areas_cty"),
        ("flows?work_level=trct&home_level=cty", "flows_trct_cty"),
    ):
        for form, ending in (("csv", "csv"), ("geojson", "geojson"), ("arrow", "arrows")):
            answer = client.get(f"{base}/{asked}&format={form}")
            kept = f"{NAME}_v1_synthetic_{name}.{ending}"
            assert answer.headers["Content-Disposition"] == f'attachment; filename="{kept}"'
            if form == "geojson":
                assert (answer.json()["note"], answer.json()["name"]) == (SYNTHETIC, NAME)
            if form == "arrow":
                said = pa.ipc.open_stream(answer.content).schema.metadata
                assert (said[b"note"], said[b"name"]) == (SYNTHETIC.encode(), NAME.encode())
        shown = client.get(f"{base}/{asked}")
        assert "Content-Disposition" not in shown.headers
        assert shown.json()["note"] == SYNTHETIC


def test_a_range(client: TestClient, page: str, folder: Path, parquet: str) -> None:
    for asked, part in (
        ("0-99", slice(0, 100)),
        ("100-", slice(100, None)),
        ("-50", slice(-50, None)),
        ("0-99999999", slice(None)),
    ):
        content = (folder / parquet).read_bytes()
        response = client.get(f"{page}/files/{parquet}", headers={"Range": f"bytes={asked}"})
        assert response.status_code == 206
        assert response.content == content[part]
        first, last, _ = *range(*part.indices(len(content)))[:: len(content[part]) - 1], None
        assert response.headers["Content-Range"] == f"bytes {first}-{last}/{len(content)}"
        head = client.head(f"{page}/files/{parquet}", headers={"Range": f"bytes={asked}"})
        assert (head.status_code, head.content) == (206, b"")
        assert head.headers["Content-Length"] == str(len(content[part]))

    response = client.get(f"{page}/files/{parquet}", headers={"Range": "bytes=0-9,100-109"})
    assert response.status_code == 206
    assert response.headers["Content-Type"].startswith("multipart/byteranges; boundary=")
    assert content[:10] in response.content
    assert content[100:110] in response.content
    assert len(response.content) == int(response.headers["Content-Length"])


def test_ranges_that_are_none(client: TestClient, page: str, parquet: str) -> None:
    for asked, status in (
        ("bytes=99999999-", 416),
        ("bytes=9-3", 400),
        ("lines=0-9", 400),
        ("bytes", 400),
        ("bytes=a-b", 400),
        ("bytes=" + ",".join(f"{i}-{i}" for i in range(0, 2000, 2)), 200),
    ):  # the last are more than a program needs
        response = client.get(f"{page}/files/{parquet}", headers={"Range": asked})
        assert response.status_code == status
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_range_of_what_was_held_before(client: TestClient, page: str, folder: Path) -> None:
    address, content = f"{page}/files/README.md", (folder / "README.md").read_bytes()
    tag = client.get(address).headers["ETag"]
    for held, status in ((tag, 206), ('"other"', 200)):
        response = client.get(address, headers={"Range": "bytes=0-9", "If-Range": held})
        assert response.status_code == status
        assert response.content == (content[:10] if status == 206 else content)


def test_only_listed_files_are_there(client: TestClient, page: str) -> None:
    # Dots are written as %2e: as dots, the client would tidy them away. The application sees dots.
    for path in ("", "README.md%0d%0aX-Injected:%20yes", "a" * 299, *NOT_LISTED.split()):
        response = client.get(f"{page}/files/{path}")
        assert response.status_code == 404
        assert "X-Injected" not in response.headers
        assert "root:" not in response.text
    record = "/%2e%2e/v1.publication.json"
    for end in (f"/files/%2e%2e{record}", record, ".publication.json"):
        assert client.get(page + end).status_code == 404
    assert client.get(f"{page}/files/{'a' * 301}").status_code == 422
