"""A series as its readers ask for it: which years it has, which version of each to use, numbers over years.

Of it, 2016 has other blocks, 2017 was withdrawn, 2018 has an erratum and, published last, a correction.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import rdflib
from fastapi import FastAPI
from starlette.testclient import TestClient

import geo_data
import pipelines
from helpers import PATIENCE, same_key, with_values
from pipelines.config.loading import check_config
from pipelines.publishing.correcting import correct
from pipelines.service import create_app
from pipelines.service.public import answers
from pipelines.service.public.catalog import Catalog, Series, Version
from pipelines.service.public.charts import Chart
from pipelines.service.public.flow_queries import Estimate, FlowQuestion
from pipelines.service.public.preparation import Prepared, prepare
from pipelines.service.public.year_numbers import AskedYear, YearlyQuestion, YearNumber
from pipelines.service.rendering import text

from ..helpers import Page, copy_state, serving, settings_of

NAME, PAGE = "small-region", "/releases/small-region"
YEARS = f"/api/v1{PAGE}/years"
VERSIONS = ("2019", "2018.1", "2017", "2016")  # that stand for their years
REASON, ERRATUM = "The wrong <jobs>.", "The licence was missing."


@dataclass(frozen=True)
class Office:
    """What an office has published, and its ledger before and after it did more than publish."""

    state: Path
    releases: dict[str, pipelines.Release]
    ledgers: list[bytes]


@pytest.fixture(scope="module")
def office(
    config_tables: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, clean_source: object
) -> Office:
    folder = tmp_path_factory.mktemp("series")
    place, cache = folder / "state" / "published", folder / "state" / "cache"
    cache.mkdir(parents=True)
    (folder / "other").mkdir()
    geo_data.write_demo_region(folder / "other", counties=2, tracts=6, blocks=126, jobs=600)
    region = Path(config_tables["jobs"]["file"]).parent

    def configured(year: int, **more: object) -> pipelines.ReleaseConfig:
        source = Path(config_tables["jobs"]["file"])
        jobs = folder / source.name.replace("2019", str(year))
        shutil.copyfile(folder / "other" / source.name if year == 2016 else source, jobs)
        jobs.chmod(0o600)
        named = {"name": "Small region", "year": year, "out": f"release-{year}", **more}
        data_set = "other jobs" if year == 2016 else "jobs"
        ledger = {"file": "ledger.sqlite", "data_set": data_set, "epsilon": "100", "delta": "0.5"}
        change = {f"release.{key}": value for key, value in named.items()} | {"plan.pool_by": ["SI"]}
        text = json.dumps(with_values(config_tables, change, {"ledger": ledger, "jobs.file": str(jobs)}))
        if year == 2016:
            text = text.replace(str(region), str(folder / "other"))
        return check_config(json.loads(text), folder, "small.toml")

    def publish(release: pipelines.Release, version: str) -> None:
        done = pipelines.publish(release.out, place, version=version)
        prepare(Path(done.location), Prepared(cache / done.sha256))

    releases = {}
    for year in (2016, 2017, 2018, 2019):
        releases[str(year)] = pipelines.run(configured(year), key=same_key())
        publish(releases[str(year)], str(year))
    ledger = folder / "ledger.sqlite"
    before = ledger.read_bytes()
    pipelines.withdraw(place, NAME, "2017", REASON)
    pipelines.erratum(place, NAME, "2018", ERRATUM)
    licensed = configured(2018, licence="CC-BY-4.0").with_out(folder / "corrected")
    releases["2018.1"] = correct(releases["2018"].public, licensed, ERRATUM)
    publish(releases["2018.1"], "2018.1")
    return Office(folder / "state", releases, [before, ledger.read_bytes()])


@pytest.fixture(scope="module")
def app(office: Office) -> Iterator[FastAPI]:
    app = create_app(settings_of(FOLDER=office.state, LOG=office.state / "service.log", WORKERS=0))
    yield app
    app.state.catalog.stop()
    app.state.store.close()
    app.state.log.close()


@pytest.fixture(scope="module")
def client(app: FastAPI) -> TestClient:
    return TestClient(app)


def rows_of(text: str) -> dict[str, dict[str, str]]:
    return {row["year"]: row for row in csv.DictReader(io.StringIO(text))}


@pytest.mark.parametrize("count", ["S000", "SI02"])
@pytest.mark.parametrize("query", ["home=03001", "work=03001", "home=03001&work=03003"])
def test_a_number_in_every_year(client: TestClient, office: Office, query: str, count: str) -> None:
    """It is what the version says by itself, and the mean of its draws; who has no number says why."""
    found = client.get(f"{YEARS}?{query}&attribute={count}").json()
    years = {row["year"]: row for row in found["years"]}
    assert [*years] == [2016, 2017, 2018, 2019]
    assert years[2016]["note"] == "Its geography there is another than that of 2019."
    assert years[2017]["note"] == f"Withdrawn: {REASON}"
    for year in (2016, 2017):
        assert [years[year][name] for name in (count, "estimate", "low", "high")] == [None] * 4
    for year, version in ((2018, "2018.1"), (2019, "2019")):
        row = years[year]
        assert (row["version"], row["note"]) == (version, None)
        of_version = client.get(
            f"/api/v1{PAGE}/{version}/flows?{query}&sum=home,work&attribute={count}"
        ).json()
        (total,) = of_version["flows"]
        assert {name: row[name] for name in (count, "low", "high")} == {
            name: total[name] for name in (count, "low", "high")
        }
        draws = office.releases[version].draws()
        cells = draws.implicates("cty", "cty", () if count == "S000" else "SI")
        for side in ("home", "work"):
            if f"{side}=" in query:
                code = query.partition(f"{side}=")[2][:5]
                cells = cells[cells[side] == code]
        if count != "S000":
            cells = cells[cells["SI"] == count]
        assert row["estimate"] == pytest.approx(cells[list(map(str, range(1, 20)))].sum().mean(), abs=0.051)
    written = client.get(f"{YEARS}?{query}&attribute={count}&format=csv")
    assert "about_intervals" in found
    for year, row in rows_of(written.text).items():
        same = years[int(year)]
        assert [row[name] for name in (count, "low", "note")] == [
            "" if same[name] is None else str(same[name]) for name in (count, "low", "note")
        ]


def test_years_without_draws_of_a_count_have_it_without_interval(client: TestClient) -> None:
    found = client.get(f"{YEARS}?home=03001&attribute=SE03").json()
    assert [row["estimate"] for row in found["years"]] == [None] * 4
    assert found["years"][3]["SE03"] > 0
    assert "An interval goes from" not in found["about_intervals"]


def test_the_whole_region_is_the_same_with_other_blocks(client: TestClient) -> None:
    years = {row["year"]: row["S000"] for row in client.get(YEARS).json()["years"]}
    assert years == {2016: 600, 2017: None, 2018: 600, 2019: 600}


def test_a_year_whose_tables_are_not_made_leaves_the_others(app: FastAPI, client: TestClient) -> None:
    """As just after its publication; caches ask again when it has its number."""
    before = client.get(YEARS)
    tables = app.state.catalog.prepared(app.state.catalog.version(NAME, "2018.1").sha256).flows
    tables.rename(tables.with_name("away"))
    try:
        meanwhile = client.get(YEARS)
        page = client.get(f"{PAGE}/2019/flows?area=03001&kind=cty&side=home")
    finally:
        tables.with_name("away").rename(tables)
    years = {row["year"]: row for row in meanwhile.json()["years"]}
    assert years[2018]["S000"] is None
    assert years[2018]["note"] == "Its tables are not made yet: ask again in a minute."
    assert years[2019]["S000"] == 600
    assert page.status_code == 200
    assert "Its tables are not made yet: ask again in a minute." in page.text
    assert meanwhile.headers["ETag"] != before.headers["ETag"] == client.get(YEARS).headers["ETag"]


def test_a_damaged_year_leaves_the_others(office: Office) -> None:
    """Also where the list of versions does not know it yet: the content of a file is another."""
    catalog = Catalog(settings_of(FOLDER=office.state, LOG=office.state / "service.log", WORKERS=0))
    plan = catalog.version(NAME, "2018.1").folder / "plan" / "plan.json"
    whole, mode = plan.read_bytes(), plan.stat().st_mode
    plan.chmod(0o600)
    plan.write_bytes(whole[:-9])
    try:
        found = YearlyQuestion.find(catalog, catalog.open(NAME, "2019"), FlowQuestion())
        numbers = {number.asked.year: number for number in found.numbers()}
    finally:
        plan.write_bytes(whole)
        plan.chmod(mode)
    assert (numbers[2018].jobs, numbers[2018].asked.note) == ((), "It is damaged on this server.")
    assert numbers[2019].jobs == (600,)


def test_a_question_about_years_is_refused_as_one_about_a_version(client: TestClient) -> None:
    for query, status, word in (
        ("?home=nowhere", 404, "home: there is no area"),
        ("?attribute=SX", 404, "attribute: there is no such attribute"),
        ("?sum=home", 422, "sum: there is no such parameter here"),
        ("?format=geojson", 422, "query.format"),
    ):
        refused = client.get(f"{YEARS}{query}")
        assert refused.status_code == status
        assert word in refused.json()["detail"]
    assert client.get("/api/v1/releases/nothing/years").status_code == 404


def test_a_question_about_years_costs_as_much_as_those_to_every_year(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(app.state.limits, "add", lambda _, __, number: counted.append(number))
    monkeypatch.setattr(answers, "_REQUEST", 1)
    for version in ("2018.1", "2019"):
        client.get(f"/api/v1{PAGE}/{version}/flows?home=03001&sum=home,work")
    single = [number for number in counted if number > 1]
    counted.clear()
    client.get(f"{YEARS}?home=03001")
    assert sum(single) == max(counted) > max(single)


def test_a_correction_stands_for_its_year_and_no_other(client: TestClient, office: Office) -> None:
    """Both versions are kept, and the newest year stays the latest, though it was published before."""
    latest = client.get(f"{PAGE}/latest", follow_redirects=False)
    assert latest.headers["Location"] == f"{PAGE}/2019"
    assert f'<h2 id="newest"><a href="{PAGE}/2019">Small region, 2019</a>' in client.get("/").text
    assert f'newer version: <a href="{PAGE}/2018.1">' in client.get(f"{PAGE}/2018").text
    for version in ("2018.1", "2019"):
        assert "There is a" not in client.get(f"{PAGE}/{version}").text
    files = [client.get(f"{PAGE}/{version}/files/plan/plan.json") for version in ("2018", "2018.1")]
    assert [file.status_code for file in files] == [200, 200]
    assert files[0].content == files[1].content
    assert (
        client.get(f"{PAGE}/2018/files/SHA256SUMS").content
        != client.get(f"{PAGE}/2018.1/files/SHA256SUMS").content
    )


def test_a_version_says_its_year_where_the_name_of_the_series_does_not(client: TestClient) -> None:
    assert "\n# Small region, 2019\n" in f"\n{client.get(f'{PAGE}/2019/files/README.md').text}"
    text = client.get(f"{PAGE}/2019").text
    assert "<h1>Small region, 2019</h1>" in text
    assert "Small region, 2019. Synthetic data made with" in text


def test_remarks_and_corrections_leave_the_ledger_as_it_is(office: Office) -> None:
    before, after = office.ledgers
    assert before == after


def test_the_page_of_a_series(client: TestClient) -> None:
    """Years, newest first, what became of each, how to cite all, and what search engines read."""
    text = client.get(PAGE).text
    page = Page(text)
    order = [text.index(f'scope="row"><a href="{PAGE}/{version}"') for version in VERSIONS]
    assert order == sorted(order)
    assert "The wrong &lt;jobs&gt;." in text
    assert f'<a href="{PAGE}/2018">Version 2018</a>' in text
    assert "Synthetic data sets of 2016, 2018 to 2019. http://127.0.0.1:8765/releases/small-region" in text
    assert page.described["temporalCoverage"] == "2016/2019"
    where = f"http://127.0.0.1:8765{PAGE}"
    assert page.described["url"] == where
    parts = [part["url"] for part in page.described["hasPart"]]
    assert parts == [f"{where}/{version}" for version in VERSIONS if version != "2017"]
    of_year = Page(client.get(f"{PAGE}/2018.1").text).described
    assert of_year["isPartOf"]["@id"] == where
    assert of_year["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
    catalog = Page(client.get("/").text).described
    assert [each["url"] for each in catalog["dataset"]] == [where]
    assert client.get("/releases/nothing").status_code == 404


def test_a_name_with_jobs_of_several_types(client: TestClient, app: FastAPI) -> None:
    """Years are told apart, and the command on the page compares what can be compared."""
    all_jobs = [app.state.catalog.version(NAME, version) for version in ("2019", "2018.1")]
    private = []
    for version in all_jobs:
        released = version.certificate.release.model_copy(update={"job_type": "JT02"})
        certificate = version.certificate.model_copy(update={"release": released})
        state = replace(version.state, version=f"{version.state.version}-private")
        private.append(replace(version, state=state, certificate=certificate))

    def page_of(*versions: Version) -> str:
        series = Series.of(NAME, versions)
        words = {"shown": None, "figures": {}, "described": None, "about_changes": ""}
        return text("series.html", series=series, settings=app.state.settings, **words)

    page = page_of(private[0], all_jobs[0], private[1])
    assert "odsynth compare" not in page  # of all jobs there is one year
    assert page.count("<small>all jobs, ") == 1
    assert page.count("<small>all private jobs, ") == 2
    for versions in ([*private, *all_jobs], [*all_jobs, *private]):  # whichever was published last
        assert Series.of(NAME, versions).first == all_jobs[0]
        page = page_of(*versions)
        command = page[page.index("odsynth compare") :].partition("</code>")[0]
        assert f"{PAGE}/2018.1 \\\n" in command
        assert f"{PAGE}/2019 --to" in command
    assert "<small>" not in client.get(PAGE).text.partition('id="years"')[2].partition("</section>")[0]


def test_an_answer_has_the_numbers_of_all_years(client: TestClient) -> None:
    text = client.get(f"{PAGE}/2019/flows?area=03001&kind=cty&side=home").text
    Page(text)
    section = text[text.index('id="years"') :].partition("</section>")[0]
    for row in client.get(f"{YEARS}?home=03001").json()["years"]:
        shown = section[section.index(f'">{row["year"]}</a>') :].partition("</tr>")[0]
        if row["S000"] is None:
            assert "No number" in shown
            assert row["note"].replace("<jobs>", "&lt;jobs&gt;") in shown
        else:
            assert f">{row['S000']}</td>" in shown
            assert f">{row['estimate']:.1f}</td>" in shown
            assert f">{row['low']} to {row['high']}</td>" in shown
    assert section.count("<circle") == 2
    assert "Do not subtract two years" in section
    assert "in place of this one" not in section
    replaced = client.get(f"{PAGE}/2018/flows?area=03001&kind=cty&side=home").text
    assert f'Of 2018 the table has <a href="{PAGE}/2018.1">' in replaced


def test_no_chart_draws_a_line_over_a_year_without_a_number() -> None:
    def number(year: int, jobs: int | None) -> YearNumber:
        told = None if jobs is None else Estimate(jobs, jobs - 5, jobs + 5)
        return YearNumber(AskedYear(year, None, None, None), () if jobs is None else (jobs,), told)  # type: ignore[arg-type]

    chart = Chart.of([number(2015, 90), number(2016, 95), number(2017, None), number(2018, 100)])
    assert chart is not None
    assert [len(points.split()) for points in chart.lines] == [2, 1]
    assert [jobs for _, jobs in chart.numbers] == [0, 100, 200]
    assert Chart.of([number(2015, 90), number(2016, None)]) is None


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")  # in rdflib itself
def test_data_portals_read_one_series(client: TestClient) -> None:
    """What DCAT-AP 3 demands of catalogue, series and data sets; files are where they are said to be."""
    answered = client.get("/api/v1/releases.jsonld")
    assert answered.headers["Content-Type"] == "application/ld+json"
    graph = rdflib.Graph().parse(data=answered.text, format="json-ld")
    where, dct = f"http://127.0.0.1:8765{PAGE}", rdflib.DCTERMS
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")  # of version 3, which rdflib does not know
    (site,) = graph.subjects(rdflib.RDF.type, dcat.Catalog)
    for demanded in (dct.title, dct.description, dct.publisher):
        assert graph.value(site, demanded)
    (series,) = graph.subjects(rdflib.RDF.type, dcat.DatasetSeries)
    assert str(series) == where
    usable = [rdflib.URIRef(f"{where}/{version}") for version in VERSIONS if version != "2017"]
    assert {*graph.subjects(rdflib.RDF.type, dcat.Dataset)} == {*usable}
    assert {*graph.objects(site, dcat.dataset)} == {series, *usable}
    period = graph.value(series, dct.temporal)
    assert str(graph.value(period, dcat.startDate)) == "2016-01-01"
    assert str(graph.value(period, dcat.endDate)) == "2019-12-31"
    assert graph.value(series, dcat.last) == usable[0]
    assert [graph.value(each, dcat.prev) for each in usable] == [*usable[1:], None]
    previous = [graph.value(each, dcat.previousVersion) for each in usable]
    assert previous == [None, rdflib.URIRef(f"{where}/2018"), None]
    for each, year in zip(usable, ("2019", "2018", "2016"), strict=True):
        assert graph.value(each, dcat.inSeries) == series
        assert str(graph.value(each, dct.title)) == f"Small region, {year}"
        assert str(each).endswith(f"/{graph.value(each, dcat.version)}")
        for part in graph.objects(each, dcat.distribution):
            file = str(graph.value(part, dcat.downloadURL)).removeprefix("http://127.0.0.1:8765")
            assert client.head(file).status_code == 200


@pytest.mark.slow
def test_the_map_of_a_year_has_a_slider_over_the_others(
    office: Office, library: Path, browser: Any, tmp_path: Path
) -> None:
    """Of each year the version that stands for it; nothing of these is fetched before the slider is moved."""
    state = copy_state(office.state, tmp_path)
    app = create_app(settings_of(FOLDER=state, LOG=tmp_path / "service.log", WORKERS=0))
    with serving(app) as address:
        page, asked = browser.new_page(), list[str]()
        page.on("request", lambda request: asked.append(request.url.removeprefix(address)))
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"{address}{PAGE}/2019/map")
        page.wait_for_selector("#years:not([hidden])")
        assert page.inner_text("#first-year") == "2016"
        assert "Withdrawn, and so left out: 2017." in page.inner_text("#year-notes")
        assert [url for url in asked if url.endswith("/map")] == [f"{PAGE}/2019/map"]
        page.press("#year", "ArrowLeft")
        page.wait_for_selector("#year-words:has-text('2018')")
        assert page.inner_text("#title") == "Small region, 2018"
        assert asked[-1] == f"{PAGE}/2018.1/map"
        page.press("#year", "ArrowLeft")
        page.wait_for_selector("#year-status:has-text('2016: it has other kinds of jobs or other areas')")
        assert page.input_value("#year") == "1"
        page.close()
