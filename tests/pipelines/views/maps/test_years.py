"""A map of several years: its slider, changes between two years, against the releases; what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pipelines
import synth
from helpers import with_values
from pipelines.cli.main import main
from pipelines.config.loading import check_config
from pipelines.service.public.models import ReleaseEntry, ReleaseList
from pipelines.views.folder import PublicReleaseError
from pipelines.views.maps import page as map_page
from pipelines.views.maps.page import build_map, build_site_map
from pipelines.views.maps.payload import make_years
from pipelines.views.release import Release, open_release

from .conftest import of_year, write_tracts
from .map_reader import PHONE, Reader, by_code, expected
from .published_site import LIST, PublishedSite
from .truth import numbers

pytestmark = pytest.mark.slow

YEARS = (2017, 2018, 2019)
PLAN = {
    "coarsening": "units",
    "cell_level": "trct",
    "pool_level": "trct",
    "pool_below": 1000,
    "pool_by": [],
}
# What the map's colours say of each area: the words of the legend.
COLOURS = """(n) => {
    const map = document.getElementById("map").map;
    const swatch = document.createElement("i");
    const plain = (colour) => { swatch.style.backgroundColor = colour; return swatch.style.backgroundColor; };
    const words = Object.fromEntries([...document.querySelectorAll("#legend-classes li")].map((item) =>
        [item.querySelector("i").style.backgroundColor, item.textContent]));
    return Array.from({ length: n }, (_, id) =>
        words[plain(map.getFeatureState({ source: "areas", id }).colour)]);
}"""


@pytest.fixture(scope="module")
def series(
    config_tables: dict[str, Any], clean_source: object, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Release]:
    """Releases of three years, the later two with a history; in the last one half of a tract has moved."""
    folder = tmp_path_factory.mktemp("series")
    source = Path(config_tables["jobs"]["file"])
    codes = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
    jobs, made = pd.read_csv(source, dtype=codes), {}
    tract = jobs["h_geocode"].str[:11]
    largest, *_, smallest = tract.value_counts().index
    for number, year in enumerate(YEARS):
        of_year = jobs[np.arange(len(jobs)) % 10 >= number].copy()
        if year == YEARS[-1]:
            leave = (tract[of_year.index] == largest) & (np.arange(len(of_year)) % 2 == 0)
            homes = jobs["h_geocode"][tract == smallest]
            of_year.loc[leave, "h_geocode"] = np.resize(homes, leave.sum())
            columns = [*of_year.columns]
            of_year = of_year.groupby([*codes], as_index=False).sum()[columns]
        path = folder / source.name.replace("2019", str(year))
        of_year.to_csv(path, index=False)
        path.chmod(0o600)
        tables = with_values(
            config_tables,
            {
                "release.name": f"Small region {year}",
                "release.year": year,
                "release.mechanism": "geometric",
                "release.out": f"release-{year}",
                "jobs.file": path,
                "plan": PLAN,
                "history": {"release": f"release-{year - 1}", "first": YEARS[0]},
            },
        )
        key = synth.RunKey(bytes([number + 1]) * 32, secure=True)
        made[year] = pipelines.run(check_config(tables, folder, "small.toml"), key=key)
        write_tracts(made[year].public)
    return {year: open_release(release.public) for year, release in made.items()}


@pytest.fixture(scope="module")
def file(series: dict[int, Release], library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their map, as the command writes it."""
    target = tmp_path_factory.mktemp("years") / "map.html"
    folders = [str(series[year].public) for year in (2018, 2019, 2017)]
    result = CliRunner().invoke(main, ["map", *folders, "--to", str(target)])
    assert result.exit_code == 0, result.output
    return target


def go_to(reader: Reader, year: int) -> None:
    """Move the slider by keys."""
    slider = reader.page.locator("#year")
    slider.focus()
    while (shown := int(reader.text("year-words")[:4])) != year:
        reader.page.keyboard.press("ArrowRight" if shown < year else "ArrowLeft")
        reader.page.wait_for_selector(f"#year:not([aria-valuetext^='{shown}'])")


def residents(release: Release, level: str = "trct") -> pd.Series:
    return by_code(release, expected(release), "home", level)


def test_the_slider_shows_each_year(browser: Any, file: Path, series: dict[int, Release]) -> None:
    """By keys: every number is that of the release of the year, and so is what it says of itself."""
    codes = [str(code) for code in series[2019].geography.codes("trct")]
    with Reader(browser, file) as reader:
        page = reader.page
        assert reader.text("year-words") == "2019"
        page.select_option("#level", "trct")
        reader.pick_side("home")
        legends = []
        for year in (2019, 2017, 2018):
            release = series[year]
            go_to(reader, year)
            certificate = release.certificate
            assert page.get_attribute("#year", "aria-valuetext") == str(year)
            assert reader.text("title") == certificate.release.name
            assert page.title().startswith(certificate.release.name)
            assert certificate.plan_sha256 in reader.text("certificate")
            assert reader.number("jobs") == certificate.totals.synthetic_workers
            counts = residents(release)
            assert reader.top() == counts.head(10).to_dict()
            legends.append(page.locator("#legend-classes li").all_inner_texts())
            assert reader.text("legend-title").endswith(f"Residents by tract, {year}")
            for code, words in zip(codes, page.evaluate(COLOURS, len(codes)), strict=True):
                low, _, high = words.replace(",", "").replace("none", "0").partition("–")
                if words.endswith("+"):
                    low, high = low.rstrip("+"), str(10**9)
                assert int(low) <= counts.get(code, 0) <= int(high or low), (year, code, words)
            address = reader.address()
            assert address.get("year") == (None if year == 2019 else [str(year)])
        assert legends[0] == legends[1] == legends[2]
        link = page.url
        page.click("#undo")
        page.wait_for_selector("#year-words:has-text('2017')")
        assert reader.number("jobs") == series[2017].certificate.totals.synthetic_workers
        assert reader.complaints == []
    with Reader(browser, file, link=f"#{link.partition('#')[2]}") as reader:
        reader.page.wait_for_selector("#year-words:has-text('2018')")
        assert reader.top() == residents(series[2018]).head(10).to_dict()
        with reader.page.expect_download() as waiting:
            reader.page.click("#save-csv")
        assert waiting.value.suggested_filename.endswith("_synthetic_map-2018-home-trct.csv")
        saved = pd.read_csv(waiting.value.path(), dtype={"code": str})
        assert set(saved["release"]) == {series[2018].certificate.release.name}
        assert reader.complaints == []


Compared = dict[tuple[int, int], dict[str, pd.DataFrame]]


@pytest.fixture(scope="module")
def compared(series: dict[int, Release], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """What `odsynth compare` says of residents of tracts and of flows between them, by years."""
    folder = tmp_path_factory.mktemp("compared")
    tables: Compared = {}
    for year, since in ((2019, 2017), (2018, 2017), (2019, 2018)):
        files = pipelines.compare(series[since], series[year], folder / f"{year}-{since}", home="trct")
        tables[year, since] = {
            name: pd.read_csv(files[name], dtype={"home": "str", "work": "str"})
            for name in ("residents of trct", "trct to trct")
        }
    return tables


def signed(words: str) -> list[float]:
    return numbers(words.replace("−", "-").replace("+", ""))


@pytest.mark.parametrize("size", [(820, 500), PHONE])
def test_the_change_since_a_year(
    browser: Any, file: Path, series: dict[int, Release], compared: Compared, size: tuple[int, int]
) -> None:
    """With the intervals of `odsynth compare`; what is within noise is grey."""
    codes = [str(code) for code in series[2019].geography.codes("trct")]
    sure = set()
    with Reader(browser, file, size) as reader:
        page = reader.page
        page.select_option("#level", "trct")
        reader.pick_side("home")
        for (year, since), tables in compared.items():
            go_to(reader, year)
            page.select_option("#since", str(since))
            page.wait_for_selector(f"#year-words:has-text('{year}, change since {since}')")
            here, there = (residents(series[each]).reindex(codes, fill_value=0) for each in (year, since))
            change = here - there
            ends_of = tables["residents of trct"].set_index("home")[["low", "high"]]
            words = signed(reader.text("change-words"))
            assert words[:5] == [there.sum(), since, here.sum(), year, change.sum()]
            assert words[-2:] == [change.sum()] * 2  # jobs are public totals
            seen = dict(zip(codes, page.evaluate(COLOURS, len(codes)), strict=True))
            for code, (low, high) in ends_of.iterrows():
                side = low > 0 if change[code] > 0 else high < 0 if change[code] else low == high == 0
                assert (seen[code] == "within noise") != side, (year, since, code, seen[code])
                if side and change[code]:
                    sure.add(code)
                    assert seen[code].endswith("more" if change[code] > 0 else "fewer")
            rows = zip(reader.codes("other-table"), reader.table("other-table"), strict=True)
            for code, (_, ours, theirs, less) in rows:
                found = [signed(cell) for cell in (ours, theirs, less)]
                assert [each[0] for each in found] == [here[code], there[code], change[code]]
                assert found[2][1:] == ends_of.loc[code].to_list(), (year, since, code)
            assert "made again without them" in reader.text("other-words")
        assert sure  # half of a tract has moved
        assert reader.address()["since"] == ["2018"]
        go_to(reader, 2018)
        assert "Changes since 2018 are shown of later years" in reader.text("year-notes")
        assert reader.text("year-words") == "2018"
        assert "difference" not in reader.text("legend-title")
        go_to(reader, 2019)
        page.click("#end-other")
        assert page.input_value("#since") == ""
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert reader.complaints == []


def test_the_change_of_a_choice(browser: Any, file: Path, compared: Compared) -> None:
    """Where the workers of a tract live, and where its residents work: as `odsynth compare` says of flows."""
    flows = compared[2019, 2017]["trct to trct"]
    code = str(flows["work"].value_counts().index[0])
    with Reader(browser, file) as reader:
        reader.hold()
        reader.page.select_option("#level", "trct")
        reader.page.select_option("#since", "2017")
        reader.search(code)
        for side, other in (("work", "home"), ("home", "work")):
            reader.pick_side(side)
            rows = flows[flows[side] == code].set_index(other)
            shown = dict(zip(reader.codes("other-table"), reader.table("other-table"), strict=True))
            assert shown
            for area, (_, ours, theirs, less) in shown.items():
                row = rows.loc[area]
                assert [signed(cell)[0] for cell in (ours, theirs)] == [row["B"], row["A"]]
                assert signed(less)[1:] == [row["low"], row["high"]], (side, area)
        assert reader.complaints == []


def test_a_choice_stays_when_the_year_changes(browser: Any, file: Path, series: dict[int, Release]) -> None:
    code = str(residents(series[2018]).index[0])
    with Reader(browser, file) as reader:
        reader.hold()
        reader.search(code)
        for year in (2018, 2017, 2019):
            go_to(reader, year)
            assert reader.chosen().endswith(code)
            assert reader.number("jobs") == expected(series[year], work=("trct", code))["jobs"].sum()
        reader.page.select_option("#since", "2017")
        reader.page.wait_for_selector("#change-words:not([hidden])")
        there, here = (expected(series[year], work=("trct", code))["jobs"].sum() for year in (2017, 2019))
        assert numbers(reader.text("change-words"))[:4:2] == [there, here]
        assert reader.complaints == []


@pytest.mark.parametrize("side", ["work", "home"])
def test_a_change_is_saved(browser: Any, file: Path, series: dict[int, Release], side: str) -> None:
    """Of jobs by workplace, which are public and have no intervals, too."""
    with Reader(browser, file, link=f"#level=trct&side={side}&since=2017") as reader:
        reader.page.wait_for_selector("#legend-title:has-text('change from 2017 to 2019')")
        with reader.page.expect_download() as waiting:
            reader.page.click("#save-csv")
        saved = pd.read_csv(waiting.value.path(), dtype={"code": str}).set_index("code")
        here, there = (by_code(series[year], expected(series[year]), side, "trct") for year in (2019, 2017))
        change = here.sub(there, fill_value=0)
        assert saved["difference"].sort_index().equals(change.reindex(saved.index, fill_value=0).sort_index())
        assert ("difference_low" in saved) == (side == "home")
        assert reader.complaints == []


def test_the_picture_and_paper_have_the_years_in_their_legend(browser: Any, file: Path) -> None:
    link = "#level=trct&side=home&count=S000&unit=km&since=2017"
    with Reader(browser, file, link=link) as reader:
        page = reader.page
        page.wait_for_selector("#legend-title:has-text('change from 2017 to 2019')")
        page.emulate_media(media="print")
        assert page.is_visible("#legend-title")
        assert not page.is_visible("#year")
        assert reader.text("year-words") == "2019, change since 2017"


def test_years_that_are_not_in_the_map(browser: Any, file: Path) -> None:
    with Reader(browser, file, link="#level=trct&side=work&year=1999&since=2017") as reader:
        reader.page.wait_for_selector("#tool-words:has-text('Not in this map: 1999')")
        assert reader.text("year-words") == "2019, change since 2017"
        assert reader.complaints == []


def test_a_name_of_another_year_is_no_markup(
    browser: Any, mapped: Release, library: Path, tmp_path: Path
) -> None:
    name = "</template></title><img src=x onerror=alert(1)><script>alert(1)</script>$finest"
    other = of_year(mapped, tmp_path, 2016, name)
    target = tmp_path / "map.html"
    target.write_text(build_map(mapped, others=[other]), encoding="utf-8")
    with Reader(browser, target) as reader:
        go_to(reader, 2016)
        assert reader.text("title") == f"{name}, 2016"
        assert reader.page.locator("#panel img, #panel script").count() == 0
        assert name in reader.page.title()
        assert reader.complaints == []


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda series, folder: series[2018], "are the same release"),
        (lambda series, folder: of_year(series[2017], folder, 2018), "are both of 2018"),
        (lambda series, folder: _without_a_level(series[2017], folder), "have different blocks"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    series: dict[int, Release], tmp_path: Path, make: Callable[..., Release], rule: str
) -> None:
    """Both are named, and no file is written."""
    other = make(series, tmp_path)
    target = tmp_path / "map.html"
    folders = [str(series[2018].public), str(other.public)]
    result = CliRunner().invoke(main, ["map", *folders, "--to", str(target)])
    assert result.exit_code == 1
    assert rule in result.output
    assert all(folder in result.output.replace("\n", "") for folder in folders)
    assert not target.exists()


def _without_a_level(release: Release, folder: Path) -> Release:
    """A release of other years with another block in place of its last."""
    other = of_year(release, folder, 2016)
    path = other.public / "plan" / "blocks.parquet"
    blocks = pd.read_parquet(path)
    column = blocks.columns[[name.startswith("tabblk") for name in blocks.columns]][0]
    blocks[column] = blocks[column].where(np.arange(len(blocks)) < len(blocks) - 1, "999999999999999")
    blocks.to_parquet(path, index=False)
    return open_release(other.public)


def test_years_are_coarser_where_they_have_no_room(
    browser: Any, series: dict[int, Release], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but that with which the page opens; it says so, and what is no level of a year cannot be chosen."""
    little = partial(make_years, limit=3_000)
    monkeypatch.setattr(map_page, "make_years", lambda own, page, others, _: little(own, page, others))
    target = tmp_path / "map.html"
    target.write_text(build_map(series[2019], others=[series[2017], series[2018]]), encoding="utf-8")
    with Reader(browser, target) as reader:
        page = reader.page
        finest = page.locator("#level option").last.get_attribute("value")
        page.select_option("#level", finest)
        if page.is_visible("#warning"):
            page.click("#warning-show")
        go_to(reader, 2018)
        assert "Of 2018 this page has no areas finer than" in reader.text("year-notes")
        assert page.locator("#level option:disabled").count() > 0
        level = page.input_value("#level")
        assert level != finest
        assert reader.number("jobs") == series[2018].certificate.totals.synthetic_workers
        assert (
            reader.top()
            == by_code(series[2018], expected(series[2018]), "work", str(level)).head(10).to_dict()
        )
        assert reader.complaints == []


@pytest.fixture
def site(
    series: dict[int, Release],
    mapped: Release,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Versions of four years on a site, one of them withdrawn, and one of other areas."""
    other = of_year(mapped, tmp_path, 2016)
    of_2018 = build_site_map(series[2018], versions=LIST).page
    pages = {
        ("demo", "2019"): build_site_map(series[2019], versions=LIST).page,
        ("demo", "2018-again"): of_2018,
        ("demo", "2016"): build_site_map(other, versions=LIST).page,
    }
    entries = [
        ReleaseEntry(
            name=name,
            version=version,
            status=status,
            published="",
            sha256="",
            state="ri",
            year=int(version[:4]),
            job_type="JT00",
            withdrawn=None,
            errata=[],
        )
        for name, version, status in (
            ("demo", "2019", "complete"),
            ("demo", "2018-again", "complete"),
            ("demo", "2018", "withdrawn"),
            ("demo", "2017", "withdrawn"),
            ("demo", "2016", "complete"),
            ("another", "2015", "complete"),
        )
    ]
    content = {f"/releases/{name}/{version}/map": page.encode() for (name, version), page in pages.items()}
    content[LIST] = ReleaseList(releases=entries).model_dump_json().encode()
    monkeypatch.setattr(PublishedSite, "pages", content)
    monkeypatch.setattr(PublishedSite, "asked", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), PublishedSite) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_years_of_a_site(browser: Any, site: str, series: dict[int, Release]) -> None:
    """Nothing but the list is fetched until the slider is moved; withdrawn years are named and left out."""
    with Reader(browser, Path(), site=f"{site}/releases/demo/2019/map") as reader:
        page = reader.page
        page.wait_for_selector("#years:not([hidden])")
        assert reader.text("first-year") == "2016"
        assert "Withdrawn, and so left out: 2017." in reader.text("year-notes")
        assert page.locator("#since option").all_inner_texts()[1:] == ["2016", "2018", "2019"]
        assert {path for path in PublishedSite.asked if path.startswith("/releases")} == {
            "/releases/demo/2019/map"
        }
        go_to(reader, 2018)
        assert reader.text("title") == "Small region 2018"
        assert reader.number("jobs") == series[2018].certificate.totals.synthetic_workers
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("#year-status:has-text('2016: it has other kinds of jobs or other areas')")
        assert reader.text("year-words") == "2018"
        assert page.input_value("#year") == "1"
        go_to(reader, 2019)
        page.select_option("#since", "2018")
        page.wait_for_selector("#change-words:not([hidden])")
        assert reader.complaints == []
        hosts = {url.split("/")[2] for url in reader.requests if url.startswith("http")}
        assert hosts == {site.split("/")[2]}


def test_a_link_to_a_year_of_a_site(browser: Any, site: str, series: dict[int, Release]) -> None:
    with Reader(
        browser, Path(), site=f"{site}/releases/demo/2019/map", link="#level=trct&side=work&year=2018"
    ) as reader:
        reader.page.wait_for_selector("#year-words:has-text('2018')")
        assert reader.number("jobs") == series[2018].certificate.totals.synthetic_workers
        assert reader.address()["year"] == ["2018"]
        assert reader.complaints == []


def test_years_lie_beside_the_page_of_a_web_server(
    series: dict[int, Release], library: Path, tmp_path: Path
) -> None:
    """The command's --site: whatever is of another year is a file of its own."""
    page = series[2019].map(tmp_path / "map.html", site=True, others=[series[2017], series[2018]])
    named = re.findall(r'data-address="map/([^"]+)"', page.read_text(encoding="utf-8"))
    assert {name.rpartition("-")[0] for name in named} == {
        f"{year}-{part}" for year in (2017, 2018) for part in ("arrays", "draws")
    }
    assert all((tmp_path / "map" / name).is_file() for name in named)


def test_only_the_public_folders_of_others_are_sealed(series: dict[int, Release], library: Path) -> None:
    with pytest.raises(PublicReleaseError, match="verify fail"):
        series[2019].map(series[2017].public / "map.html", others=[series[2017]])
