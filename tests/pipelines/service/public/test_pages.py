"""The public pages: what they say, what they never load, and that nothing in them is markup of others."""

from __future__ import annotations

import html
import itertools
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from helpers import with_values, words_of_release
from pipelines.config.loading import check_config
from pipelines.publishing.correcting import correct
from pipelines.service.public import area_answers, pages
from pipelines.service.public.area_answers import AreaQuestion
from pipelines.service.public.describing import Licence
from pipelines.service.public.flow_queries import SIDES
from pipelines.views.labels import short_names, unit_names

from ..helpers import NAME, Page, at_once

PAGES = (
    "/",
    "/api",
    "/releases/demo-region-2019-all-jobs",
    "{page}",
    "{page}/columns",
    "{page}/flows",
    "{page}/flows?area={code}&level=trct",
    "/nothing",
    "{page}/nothing",
)


@pytest.fixture(scope="module")
def code(published: pipelines.Release) -> str:
    return str(published.geography.codes("cty")[0])


def test_pages_are_sound_and_load_nothing_from_elsewhere(client: TestClient, page: str, code: str) -> None:
    linked = set[str]()
    for address in PAGES:
        response = client.get(address.format(page=page, code=code))
        assert response.status_code == (404 if address.endswith("nothing") else 200)
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        read = Page(response.text)
        assert all(
            each.startswith(("/", "#", "data:,")) and not each.startswith("//") for each in read.addresses
        )
        linked |= {each for each in read.addresses if each.startswith("/")}
        assert read.headings[0] == 1
        assert read.headings.count(1) == 1
        for each in (each for each in read.addresses if each.startswith("#")):
            assert each[1:] in read.ids
        for _, identity in read.fields:
            assert f'for="{identity}"' in response.text
    for each in linked:
        assert client.head(each).status_code == 200, each


def test_home_shows_the_newest_release(
    client: TestClient, page: str, base: str, published: pipelines.Release
) -> None:
    """Its picture, its key figures as the API gives them, how far flows may be trusted, how to cite it."""
    text = client.get("/").text
    assert f'<a href="{page}">Demo region 2019, all jobs</a>' in text
    picture = client.get(f"{page}/picture.svg")
    assert picture.headers["Content-Type"] == "image/svg+xml"
    drawn = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(picture.text).iter()}
    assert drawn == {"svg", "g", "path"}  # nothing that a policy would have to allow
    assert "nan" not in picture.text
    assert f'src="{page}/picture.svg"' in text
    columns = ["home", "work", "estimate"]
    ends = published.draws().flows("cty", "cty")[columns].to_numpy().tolist()
    crossing = sum(jobs for home, work, jobs in ends if home != work)
    assert f"<dd>{100 * crossing / sum(jobs for *_, jobs in ends):.1f}\u00a0%</dd>" in text
    names = {area["code"]: area for area in client.get(f"{base}/areas?level=cty").json()["areas"]}
    home, work, jobs = max(
        (each for each in ends if each[0] != each[1] and not names[each[0]]["external"]),
        key=lambda each: each[2],
    )
    assert f"live in {names[home]['name']} and work in {names[work]['name']}" in text
    assert f"<dd>{jobs:,.0f}</dd>" in text
    expected = published.accuracy
    assert expected is not None
    for table in expected.tables:
        if table.flows_of == "tabblk2010":
            assert table.noise
            row = text[text.index("Flows between blocks") :].partition("</tr>")[0]
            assert f"{100 * table.loss:.1f}\u00a0%" in row
            assert "Noise" in row
    assert "Version v1 [synthetic data set]. http://127.0.0.1:8765" in text


def counties(client: TestClient, base: str) -> list[dict[str, Any]]:
    return client.get(f"{base}/flows?work_level=cty&home_level=cty").json()["flows"]


def test_versions_are_grouped(
    make_app: Callable[..., FastAPI], small_release: pipelines.Release, new_state: Path, page: str
) -> None:
    """The newest that can be used first; the others below it, and where to go from them."""
    place = new_state / "published"
    pipelines.publish(small_release.public.parent, place, version="v2")
    app = make_app(new_state)
    client = TestClient(app)
    newer, older = page.replace("v1", "v2"), page
    text = client.get("/").text
    assert f'<h3><a href="{newer}">' in text
    assert f'<a href="/releases/{NAME}">All years and versions' in text
    assert f'<a href="{older}">Version v1</a>' in client.get(f"/releases/{NAME}").text
    assert f'newer version: <a href="{newer}">' in client.get(older).text
    assert "There is a" not in client.get(newer).text
    pipelines.withdraw(place, NAME, "v2", "A mistake.")
    app.state.catalog.refresh()
    assert f'<h3><a href="{older}">' in client.get("/").text
    assert f'to use in its place: <a href="{older}">' in client.get(newer).text
    assert "There is a" not in client.get(older).text


def test_publisher_and_contact_of_the_release_and_of_the_site(
    make_app: Callable[..., FastAPI],
    new_state: Path,
    page: str,
    small_release: pipelines.Release,
    config_tables: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Who made a release answers for it and is cited, and not who runs the site, which is named apart."""
    site = {"PUBLISHER": 'Portal {of} <Data> & "Co"', "PUBLIC_URL": "https://data.example.org"}
    for contact, link in (
        ("data@example.org", "mailto:data@example.org"),
        ("https://a.example/x", "https://a.example/x"),
    ):
        client = TestClient(make_app(new_state, CONTACT=contact, **site))
        read = Page(client.get(page).text)
        assert link in read.addresses
        assert read.described["publisher"]["name"] == site["PUBLISHER"]
        assert contact in read.described["publisher"]["contactPoint"].values()
        text = html.unescape(client.get(page).text)
        assert "curl --fail -sS https://data.example.org/api/v1" in text
        assert "The release names none. Who runs this site:" in text
        assert f"This site is run by {site['PUBLISHER']}." in text
        assert site["PUBLISHER"] not in cited(text)
    words = {"publisher": "Office & <Co>", "contact": "commuting@office.example"}
    release = {f"release.{name}": value for name, value in words.items()}
    tables = with_values(config_tables, release, {"release.out": str(tmp_path / "named")})
    named = correct(small_release.public, check_config(tables, tmp_path, "small.toml"), "Names were missing.")
    pipelines.publish(named.public.parent, new_state / "published", version="v2")
    client = TestClient(make_app(new_state, CONTACT="data@example.org", **site))
    text = html.unescape(client.get(page.replace("v1", "v2")).text)
    assert cited(text).startswith("Office & <Co>: Demo region 2019, all jobs.")
    assert r"author = {{Office \& <Co>}}" in text
    assert '<dd>Office & <Co>, <a href="mailto:commuting@office.example">' in text
    assert "Who runs this site" not in text


def cited(text: str) -> str:
    return text.partition('<dt>Citation</dt><dd><p class="copy">')[2].partition("</dd>")[0]


def test_examples_of_the_api_answer(client: TestClient, page: str, published: pipelines.Release) -> None:
    """Every address on its page, with what it names of the newest release."""
    text = html.unescape(client.get("/api").text)
    found = re.findall(r'"(?:OAPIF:)?http://127\.0\.0\.1:8765(/api[^"]*)"', text)
    assert {address.removeprefix(f"/api/v1{page}/").partition("?")[0] for address in found} == {
        "areas",
        "flows",
        "ogc",
    }
    for address in found:
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.text)
    sums = {address.partition("sum=")[2].partition("&")[0] for address in found if "sum=" in address}
    assert sums == {"home,work", "work"}
    assert all(f"<code>{level}</code>" in text for level in published.kinds_of_areas)
    described = client.get(f"/api/v1{page}/tiles/{published.usual_level()}").json()
    assert f"zoom levels {described['minzoom']} to {described['maxzoom']}" in text


def test_search_engines_read_what_it_is(client: TestClient, page: str, published: pipelines.Release) -> None:
    described = Page(client.get(page).text).described
    assert (described["@context"], described["@type"]) == ("https://schema.org/", "Dataset")
    assert {"name", "description", "url", "version", "datePublished"} <= described.keys()
    assert 50 <= len(described["description"]) <= 5000
    assert described["temporalCoverage"] == "2019"
    for each in described["variableMeasured"]:
        assert {"@type", "name", "description"} <= each.keys()
    formats = set()
    for each in described["distribution"]:
        answer = client.get(each["contentUrl"].removeprefix("http://127.0.0.1:8765"))
        assert answer.status_code == 200, each
        assert answer.headers["Content-Type"].partition(";")[0] == each["encodingFormat"]
        formats.add(each["encodingFormat"])
    assert {
        "text/csv",
        "application/geo+json",
        "application/gzip",
        "application/vnd.apache.parquet",
    } <= formats
    about = published.description
    assert described["spatialCoverage"]["geo"]["box"] == about.box
    assert described["keywords"] == list(about.keywords)
    catalog = Page(client.get("/").text).described
    assert catalog["@type"] == "DataCatalog"
    assert [each["url"] for each in catalog["dataset"]] == [described["url"]]


def test_licences() -> None:
    for words, licence in {
        "CC-BY-4.0": Licence("CC-BY-4.0", "https://spdx.org/licenses/CC-BY-4.0.html"),
        "https://a.example/terms": Licence("https://a.example/terms", "https://a.example/terms"),
        "MIT OR CC0-1.0": Licence("MIT OR CC0-1.0", None),
        "Free for <all>": Licence("Free for <all>", None),
        None: None,
    }.items():
        assert Licence.of(words) == licence


def test_every_column_has_a_meaning(
    client: TestClient, page: str, base: str, published: pipelines.Release
) -> None:
    text = client.get(f"{page}/columns").text
    meanings = dict(re.findall(r"<code>([^<]+)</code></th><td role=\"cell\">([^<]+)</td>", text))
    folder = published.public
    every = ",".join(published.counts)
    asked = [
        f"{base}/areas?level=cty",
        f"{base}/flows?work_level=cty&home_level=cty&places=true&attribute={every}",
    ]
    heads = [client.get(f"{address}&format=csv").text.splitlines()[0] for address in asked]
    columns = {name.strip('"') for head in heads for name in head.split(",")}
    columns |= set(pq.read_schema(next(folder.glob("*_od_main_*.parquet"))).names)
    assert columns <= set(meanings)
    for count, meaning in published.counts.items():
        assert meaning[1:] in meanings[count]
    readme = words_of_release(folder)
    for name in ("w_geocode", "createdate"):
        assert f"| `{name}` | {meanings[name][0].lower()}{meanings[name][1:]} |" in readme


def test_the_list_is_made_once_for_each_change(
    make_app: Callable[..., FastAPI], new_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = [], pages.text
    monkeypatch.setattr(
        pages, "text", lambda *names, **context: made.append(names) or real(*names, **context)
    )
    app = make_app(new_state)
    client = TestClient(app)
    for path in (new_state / "published").rglob("*"):
        os.utime(path)  # what is new is read again, but not by those who waited for the reading
    at_once(lambda _: client.get("/"), 8)
    assert len(made) == 1
    pipelines.withdraw(new_state / "published", NAME, "v1", "A mistake.")
    app.state.catalog.refresh()
    assert "Withdrawn" in client.get("/").text
    assert len(made) == 2


def test_how_far_to_trust_a_number(client: TestClient, page: str, published: pipelines.Release) -> None:
    text = client.get(page).text
    expected = published.accuracy
    assert expected is not None
    section = text[text.index('id="accuracy"') :]
    summaries = re.findall(r"<summary>(.*?)</summary>", section, re.DOTALL)[: len(expected.tables)]
    rows = re.findall(r'role="rowheader">([^<]*)</th><td[^>]*>([^<]*)</td>', section)
    for said, table in zip(summaries, expected.tables, strict=True):
        assert f": {100 * table.loss:.1f}\u00a0% of the jobs" in said
        assert ("<strong>noise</strong>" in said) is table.noise
        for size in table.sizes:
            assert (size.words, f"{size.cells:,}") in rows


def test_a_release(client: TestClient, page: str, published: pipelines.Release) -> None:
    text = client.get(page).text
    certificate = published.certificate
    assert certificate.plan_sha256 in text
    shown = re.search(r"<dd>([\d.]+)</dd>\n<dd class=\"aside\">with &delta; ([\d.]+);", text)
    assert shown is not None
    for number, bound in zip(shown.groups(), (certificate.run.epsilon, certificate.run.delta), strict=True):
        assert 0 <= Decimal(number) / Decimal(bound) - 1 < 0.001  # rounded up, never down
    assert "times more or less likely" in text  # the promise in words
    assert "odsynth verify ." in text
    # A command for a shell takes no word of the request.
    evil = client.get(page, headers={"Host": "evil.example"}).text
    assert "curl --fail -sS http://127.0.0.1:8765/api/v1" in evil
    assert "evil.example" not in evil
    for line in (published.public / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert digest in text
        assert f'href="{page}/files/{name}"' in text


def test_the_map(client: TestClient, page: str, service_state: Path) -> None:
    made = next(service_state.glob("cache/*/map.html"), None)
    if made is None:
        pytest.skip('the library that draws maps is not set up ("make library", which needs npm)')
    assert f'href="{page}/map"' in client.get(page).text
    response = client.get(f"{page}/map")
    assert response.content == made.read_bytes()
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Content-Disposition" not in response.headers
    # The orders of the page itself allow its scripts by their hashes; the header must not forbid them.
    assert response.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    again = client.get(f"{page}/map", headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304
    compressed = made.with_suffix(".html.gz")
    for accepted, sent in (("br, gzip", compressed), ("br", made)):  # compressed once, when it was made
        response = client.get(f"{page}/map", headers={"Accept-Encoding": accepted})
        assert response.content == made.read_bytes()
        assert int(response.headers["Content-Length"]) == sent.stat().st_size
        assert "Accept-Encoding" in response.headers["Vary"]


def test_parts_of_a_map_go_out_as_they_are(
    make_app: Callable[..., FastAPI], new_state: Path, page: str
) -> None:
    """Never compressed again, to be kept for good, and only those that a map has."""
    (folder,) = (new_state / "cache").iterdir()
    parts = {"draws-0f.bin": "application/gzip", "one-file-1e.html": "text/html; charset=utf-8"}
    (folder / "map").mkdir(exist_ok=True)
    client = TestClient(make_app(new_state))
    for name, kind in parts.items():
        (folder / "map" / name).write_bytes(b"packed " * 1000)
        response = client.get(f"{page}/map/{name}", headers={"Accept-Encoding": "gzip"})
        assert (response.content, response.headers["Content-Type"]) == (b"packed " * 1000, kind)
        assert response.headers["Content-Length"] == "7000"
        assert "immutable" in response.headers["Cache-Control"]
        assert ("attachment" in response.headers.get("Content-Disposition", "")) == name.endswith("html")
        held = {"If-None-Match": response.headers["ETag"]}
        assert client.get(f"{page}/map/{name}", headers=held).status_code == 304
    for name in ("draws-1f.bin", "%2e%2e", "%2e%2e%2fpicture.svg", "*"):
        assert client.get(f"{page}/map/{name}").status_code == 404, name


def test_every_number_about_an_area(client: TestClient, page: str, base: str, code: str) -> None:
    """As the API has it, which is compared with the release; without a script."""
    contents = client.get(f"{base}/contents").json()
    meanings = {each["attribute"]: each["meaning"] for each in contents["attributes"]}
    for side, level, count in itertools.product(SIDES, ("cty", "trct", "tabblk2010"), ("S000", "SA02")):
        (other,) = set(SIDES) - {side}
        query = {side: code, f"{other}_level": level, "attribute": count, "top": 25}
        answer = client.get(f"{base}/flows", params=query).json()
        asked = {"area": f" {code} ", "side": side, "level": level, "attribute": count}
        text = " ".join(client.get(f"{page}/flows", params=asked).text.split())
        total = answer["jobs"][count]
        assert (
            f"<p><strong>{total:,}</strong> synthetic workers {'work' if side == 'work' else 'live'} in "
            in text
        )
        assert (f": {meanings[count]}</p>" in text) is (count != "S000")
        (whole,) = client.get(f"{base}/flows", params=query | {"sum": "work,home"}).json()["flows"]
        ends = {f"{whole[end]:,}" for end in ("low", "high") if end in whole}
        said = text.partition("Interval of the true number: ")[2].partition(".")[0]
        assert set(re.findall("[0-9,]*[0-9]", said)) == ends
        cells = re.findall(
            r'scope="row">[^<]*<small>(\w+)</small>[^<]*</th><td [^>]*>([\d,]+)</td> '
            r"<td [^>]*>([\d.]+) %</td>",
            text,
        )
        assert [(area, number) for area, number, _ in cells] == [
            (flow[other], f"{flow[count]:,}") for flow in answer["flows"]
        ]
        for (*_, share), flow in zip(cells, answer["flows"], strict=True):
            assert float(share) == pytest.approx(100 * flow[count] / total, abs=0.051)
        assert f'<option value="{count}" selected>' in text
        both = client.get(f"{base}/flows", params={"work": code, "home": code, "attribute": count}).json()
        areas = client.get(f"{base}/areas?level=cty").json()["areas"]
        elsewhere = ",".join(area["code"] for area in areas if area["code"] != code)
        for words, ends in (
            ("come here to work", {"work": code, "home": elsewhere}),
            ("leave to work elsewhere", {"home": code, "work": elsewhere}),
        ):
            asked = ends | {"attribute": count, "sum": "work,home"}
            (crossing,) = client.get(f"{base}/flows", params=asked).json()["flows"]
            said = re.search(rf'scope="row">{words}</th>(.*?)</tr>', text, re.DOTALL)
            assert said is not None
            numbers = [f"{crossing[name]:,}" for name in (count, "low", "high") if name in crossing]
            assert re.findall("[0-9,]*[0-9]", re.sub("<[^>]*>", " ", said[1])) == numbers
        for words, number in (
            ("do both", both["jobs"][count]),
            ("work here" if side == "work" else "live here", total),
        ):
            assert re.search(rf'scope="row">{words}</th><td [^>]*>{number:,}</td>', text)


def test_an_answer_leads_on(client: TestClient, page: str, base: str, code: str) -> None:
    """To the same question as a table, to the map with this choice, to the other side."""
    text = html.unescape(client.get(f"{page}/flows?area={code}&level=trct&attribute=SA02&side=home").text)
    table = re.search(r'href="(/api/[^"]*)">All [0-9,]+ numbers, CSV<', text)
    assert table is not None
    asked = {"home": code, "home_level": "cty", "work_level": "trct", "attribute": "SA02", "top": 1000}
    rows = client.get(table[1]).text
    assert rows == client.get(f"{base}/flows", params=asked | {"places": "true", "format": "csv"}).text
    of_map = re.search(rf'href="{page}/map#([^"]*)"', text)
    assert of_map is not None
    assert dict(parse_qsl(of_map[1])) == {
        **{"level": "trct", "side": "home", "count": "SA02", "unit": "km"},
        "chosen": f"cty:{code}",
    }
    near = re.search(rf'href="{page}/map#([^"]*)">homes within 5 km', text)
    assert near is not None
    assert re.fullmatch(r"circle:-?\d+\.\d{5},-?\d+\.\d{5} 5", dict(parse_qsl(near[1]))["chosen"])
    other = re.search(r'href="([^"]*)">Where its workers live<', text)
    assert other is not None
    assert "Where those who work in " in client.get(other[1]).text


def test_who_comes_and_leaves_is_asked_of_the_area_itself() -> None:
    """Which need not be made of whole areas of the level at the other end, as towns are not of tracts."""
    question = AreaQuestion("ctycsub", "4400759000", "home", "trct", "S000")
    assert (question.flows().home_level, question.flows().work_level) == ("ctycsub", "trct")
    for sides in (("work",), ("home", "work")):
        asked = question.flows(*sides)  # type: ignore[arg-type]
        assert (asked.home_level, asked.work_level) == ("ctycsub", "ctycsub")
        assert [side for side in SIDES if getattr(asked, side)] == sorted(sides, reverse=True)


def test_a_number_outside_of_its_interval_is_said_to_be(
    client: TestClient, page: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = int(answer_number(client.get(f"{page}/flows?area={code}").text))
    for low, high in ((jobs, jobs), (jobs - 2, jobs - 1), (jobs + 1, jobs + 2)):
        monkeypatch.setattr(area_answers, "_bounds", lambda flows, ends=(low, high): [ends] * flows.size)
        text = client.get(f"{page}/flows?area={code}").text
        assert ("The synthetic number lies outside: rely on the interval." in text) == (low != jobs)


def answer_number(text: str) -> str:
    found = re.search(r'<section class="answer".*?<strong>([0-9,]+)</strong>', text, re.DOTALL)
    assert found is not None
    return found[1].replace(",", "")


def test_names_are_short_where_that_tells_them_apart(published: pipelines.Release) -> None:
    counties, whole = short_names(published, "cty"), unit_names(published, "cty").tolist()
    assert [f"{name}, DM" for name in counties] == whole
    groups = short_names(published, "bgrp")  # "1" is the first group of every tract
    assert groups == unit_names(published, "bgrp").tolist()


def test_an_area_is_found_by_its_name(client: TestClient, page: str, base: str) -> None:
    areas = client.get(f"{base}/areas?level=cty").json()["areas"]
    area = next(area for area in areas if area["name"] and not area["external"])
    by_code = client.get(f"{page}/flows", params={"area": area["code"]}).text
    for name in (area["name"], area["name"].upper()):
        assert answer_of(client.get(f"{page}/flows", params={"area": name}).text) == answer_of(by_code)
    text = client.get(f"{page}/flows", params={"area": "county", "attribute": "SA02"}).text
    assert "Which one is meant?" in text
    assert f"area={area['code']}" in text
    assert "attribute=SA02" in text
    cut = client.get(f"{page}/flows", params={"area": "001"}).text
    assert re.search("The first 20 of [0-9,]+ with “001” in their code or name", cut)
    wrong = client.get(f"{page}/flows", params={"area": area["name"].split()[0].replace("t", "x", 1)}).text
    assert "No area has " in wrong
    assert f"area={area['code']}" in wrong


def test_a_code_of_two_kinds_of_areas_is_that_of_the_kind(client: TestClient, page: str, code: str) -> None:
    text = client.get(f"{page}/flows", params={"area": code, "kind": "cty"}).text
    assert answer_of(text) == answer_of(client.get(f"{page}/flows", params={"area": code}).text)
    assert "kind=cty" in text


def answer_of(text: str) -> str:
    return text[text.index('<section class="answer"') :]


def test_an_unknown_area_is_said_and_escaped(client: TestClient, page: str) -> None:
    for area in ("nowhere", "<script>alert(1)</script>", '" onfocus="x', "'\r\nX: y", "\0"):
        response = client.get(f"{page}/flows", params={"area": area})
        assert response.status_code == 200
        assert "There is no area" in response.text
        Page(response.text)
