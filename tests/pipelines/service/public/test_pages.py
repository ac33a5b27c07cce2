"""The public pages: what they say, what they never load, and that nothing in them is markup of others."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines.service.public import pages

from ..helpers import NAME, Page, at_once

PAGES = (
    "/",
    "/api",
    "{page}",
    "{page}/flows",
    "{page}/flows?area={code}&level=trct",
    "/nothing",
    "{page}/nothing",
)


@pytest.fixture(scope="module")
def code(service_state: Path) -> str:
    release = pipelines.read_public_release(service_state / "published" / NAME / "v1")
    return str(release.geography.codes("cty")[0])


def test_pages_are_sound_and_load_nothing_from_elsewhere(client: TestClient, page: str, code: str) -> None:
    for address in PAGES:
        response = client.get(address.format(page=page, code=code))
        assert response.status_code == (404 if address.endswith("nothing") else 200)
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        read = Page(response.text)
        assert all(
            each.startswith(("/", "#", "data:,")) and not each.startswith("//") for each in read.addresses
        )
        for each in {each for each in read.addresses if each.startswith("/")}:
            assert client.head(each).status_code == 200, each
        assert read.headings[0] == 1
        assert read.headings.count(1) == 1
        for each in (each for each in read.addresses if each.startswith("#")):
            assert each[1:] in read.ids
        for _, identity in read.fields:
            assert f'for="{identity}"' in response.text


def test_the_list(client: TestClient, page: str) -> None:
    text = client.get("/").text
    assert f'<a href="{page}">Demo region 2019, all jobs</a>' in text
    assert "Published" in text


def test_the_list_is_made_once_for_each_change(
    make_app: Callable[..., FastAPI], new_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = [], pages.text
    monkeypatch.setattr(
        pages, "text", lambda *names, **context: made.append(names) or real(*names, **context)
    )
    app = make_app(new_state)
    client = TestClient(app)
    for path in (new_state / "published", *(new_state / "published").rglob("*")):
        os.utime(path, (1_000_000_000, 1_000_000_000))  # what is new may be read twice
    at_once(lambda _: client.get("/"), 8)
    assert len(made) == 1
    pipelines.withdraw(new_state / "published", NAME, "v1", "A mistake.")
    app.state.catalog.refresh()
    assert "withdrawn" in client.get("/").text
    assert len(made) == 2


def test_an_empty_list(make_app: Callable[..., FastAPI], tmp_path: Path) -> None:
    assert "Nothing has been published yet." in TestClient(make_app(tmp_path / "state")).get("/").text


def test_how_far_to_trust_a_number(client: TestClient, page: str, service_state: Path) -> None:
    text = client.get(page).text
    expected = pipelines.read_public_release(service_state / "published" / NAME / "v1").accuracy
    assert expected is not None
    section = text[text.index("How far to trust a number") :]
    summaries = re.findall(r"<summary>(.*?)</summary>", section, re.DOTALL)[: len(expected.tables)]
    rows = re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>', section)
    for said, table in zip(summaries, expected.tables, strict=True):
        assert f": {100 * table.loss:.1f}\u00a0% of the jobs" in said
        assert ("<strong>noise</strong>" in said) is table.noise
        for size in table.sizes:
            assert (size.words, f"{size.cells:,}") in rows


def test_a_release(client: TestClient, page: str, service_state: Path) -> None:
    text = client.get(page).text
    release = pipelines.read_public_release(service_state / "published" / NAME / "v1")
    certificate = release.certificate
    assert certificate.plan_sha256 in text
    for bound in (certificate.run.epsilon, certificate.run.delta):  # rounded up, never down
        shown = next(
            each
            for each in re.findall(r"<dd>([\d.]+)</dd>", text)
            if abs(Decimal(each) / Decimal(bound) - 1) < 0.001
        )
        assert Decimal(shown) >= Decimal(bound)
    assert "times more or less likely" in text  # the promise in words
    assert "odsynth verify ." in text
    for line in (release.folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert digest in text
        assert f'href="{page}/files/{name}"' in text


def test_the_address_that_readers_type(make_app: Callable[..., FastAPI], new_state: Path, page: str) -> None:
    client = TestClient(make_app(new_state, PUBLIC_URL="https://data.example.org"))
    assert "curl --fail -sS https://data.example.org/api/v1" in client.get(page).text


def test_without_it_the_command_for_a_shell_takes_no_word_of_the_request(
    client: TestClient, page: str
) -> None:
    text = client.get(page, headers={"Host": "evil.example"}).text
    assert "curl --fail -sS http://127.0.0.1:8765/api/v1" in text
    assert "evil.example" not in text


def test_the_map(client: TestClient, page: str, service_state: Path) -> None:
    made = next(service_state.glob("cache/*.map.html"), None)
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


def test_an_area_is_asked_about_without_a_script(client: TestClient, page: str, code: str, base: str) -> None:
    said = client.get(f"{base}/flows?home={code}&work_level=trct&attribute=SA02&top=25").json()
    text = client.get(f"{page}/flows?area=%20{code}%20&side=home&level=trct&attribute=SA02").text
    assert re.search(rf"Where those who live in [^<]+ <small>{code}</small> work", text)
    for flow in said["flows"]:
        assert re.search(
            rf"<small>{flow['work']}</small></th><td class=\"number\">{flow['SA02']:,}</td>", text
        )
    assert '<option value="SA02" selected>' in text


def test_every_number_about_an_area(client: TestClient, page: str, service_state: Path) -> None:
    """Against plain pandas on the released file."""
    release = pipelines.read_public_release(service_state / "published" / NAME / "v1")
    jobs = pd.concat([pd.read_parquet(path) for path in release.folder.glob("*_od_*.parquet")])
    facts = client.get(page).text
    assert f"<dt>Synthetic workers</dt><dd>{jobs['S000'].sum():,}</dd>" in facts
    digits = {"cty": 5, "trct": 11, "bgrp": 12, "tabblk2010": 15}
    words = {"cty": "county", "trct": "tract", "bgrp": "block group", "tabblk2010": "block"}
    for (side, near, far), (own, n), (level, m), count in itertools.product(
        (("work", "w_geocode", "h_geocode"), ("home", "h_geocode", "w_geocode")),
        digits.items(),
        digits.items(),
        ("S000", "SE03"),
    ):
        code = jobs.groupby(jobs[near].str[:n])["S000"].sum().idxmax()
        rows = jobs[(jobs[near].str[:n] == code) & (jobs[count] > 0)]
        flows = rows[count].groupby(rows[far].str[:m]).sum().sort_values(ascending=False)
        asked = {"area": code, "side": side, "level": level, "attribute": count}
        text = " ".join(client.get(f"{page}/flows", params=asked).text.split())
        said = re.search(
            r"<p>([\d,]+) synthetic workers, (.*?), (living|working) in ([\d,]+) areas? "
            r"of the level ([a-z ]+)"
            r"(?:; the (\d+) largest flows)?:</p>",
            text,
        )
        assert said is not None, (own, asked)
        assert said.groups() == (
            f"{rows[count].sum():,}",
            release.counts[count],
            "living" if side == "work" else "working",
            f"{len(flows):,}",
            words[level],
            "25" if len(flows) > 25 else None,
        )
        cells = re.findall(
            r'<th scope="row">(?:[^<]*<small>)?(\w+)(?:</small>)?</th><td class="number">([\d,]+)</td> '
            r'<td class="number">([\d.]+) %</td>',
            text,
        )
        assert [int(n.replace(",", "")) for _, n, _ in cells] == flows.head(25).tolist()
        for found, number, share in cells:
            assert flows[found] == int(number.replace(",", ""))
            assert float(share) == pytest.approx(100 * flows[found] / flows.sum(), abs=0.051)
    nobody = client.get(f"{page}/flows", params={"area": quiet_block(release, jobs), "side": "work"}).text
    assert "0 synthetic workers, all jobs, living in 0 areas of the level block." in " ".join(nobody.split())


def quiet_block(release: pipelines.PublicRelease, jobs: pd.DataFrame) -> str:
    """A block where nobody works."""
    return str(next(block for block in release.geography.blocks if block not in set(jobs["w_geocode"])))


def test_an_unknown_area_is_said_and_escaped(client: TestClient, page: str) -> None:
    for area in ("nowhere", "<script>alert(1)</script>", '" onfocus="x', "'\r\nX: y", "\0"):
        response = client.get(f"{page}/flows", params={"area": area})
        assert response.status_code == 200
        assert "there is no area" in response.text
        Page(response.text)


def test_remarks_are_text(make_app: Callable[..., FastAPI], new_state: Path, page: str) -> None:
    place, markup = new_state / "published", "<script>alert(1)</script>{{ 7 * 7 }}"
    pipelines.erratum(place, NAME, "v1", markup)
    client = TestClient(make_app(new_state))
    assert "With errata" in client.get("/").text
    Page(client.get(page).text)
    pipelines.withdraw(place, NAME, "v1", markup)
    client = TestClient(make_app(new_state))
    assert "Withdrawn" in client.get("/").text
    text = client.get(page).text
    Page(text)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 * 7 }}") == 2
    assert "Download" not in text
    assert "times more or less likely" in text  # what was promised stays


def test_a_damaged_release_has_a_page(make_app: Callable[..., FastAPI], new_state: Path, page: str) -> None:
    (new_state / "published" / NAME / "v1" / "certificate.json").unlink()
    client = TestClient(make_app(new_state))
    assert "Damaged on this server" in client.get("/").text
    response = client.get(page)
    assert response.status_code == 200
    assert "none is given out" in response.text
    Page(response.text)


def test_pages_are_kept_until_something_changes(client: TestClient, page: str) -> None:
    first = client.get(page)
    assert first.headers["Cache-Control"] == "public, no-cache"
    again = client.get(page, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "v0.1.0"


def test_releases_of_earlier_formats_are_published_and_shown(
    make_app: Callable[..., FastAPI], tmp_path: Path
) -> None:
    """Each with its own certificate, byte for byte, and with what nobody answers for where nobody signed."""
    state = tmp_path / "state"
    sources = sorted(path.parent for path in GOLDEN.glob("*/certificate.json"))
    for source in sources:
        shutil.copytree(source, tmp_path / source.name / "public")
        pipelines.publish(tmp_path / source.name, state / "published", version="v1")
    (state / "cache").mkdir()
    client = TestClient(make_app(state))
    for source in sources:
        answer = client.get(f"/api/v1/releases/{source.name}/v1/certificate")
        assert answer.content == (source / "certificate.json").read_bytes()
        text = client.get(f"/releases/{source.name}/v1").text
        signed = (source / "signing-key.pub").exists()
        assert client.get(f"/api/v1/releases/{source.name}/v1").json()["signed"] == signed
        assert ("This release is signed." in text) == signed
        assert ("This release is not signed." in text) == (not signed)
    assert len(sources) == 6
