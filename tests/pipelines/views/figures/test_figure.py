"""Figures as files, from Python and from the command line."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import pipelines
from pipelines import PublicReleaseError, Release, open_release
from pipelines.cli.main import main
from pipelines.release.names import write_names
from pipelines.views.choices import KINDS

SVG = "http://www.w3.org/2000/svg"
NAMESPACES = ("http://www.w3.org/", "http://purl.org/dc/", "http://creativecommons.org/ns#")


def ink(path: Path) -> float:
    """The share of pixels that are not white."""
    return float((matplotlib.image.imread(path)[..., :3] < 0.99).any(axis=2).mean())


def test_every_kind_is_drawn(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "figure.png"
    for kind in KINDS:
        release.figure(path, area=release.geography.codes("cty")[0], kind=kind)
        height, width = matplotlib.image.imread(path).shape[:2]
        assert (width, height) == ((2160, 2160) if kind == "all" else (1300, 1320))
        assert 0.03 < ink(path) < 0.9


def test_svg_holds_its_words_and_no_address(release: Release, tmp_path: Path) -> None:
    for of, kind in (("workers", "all"), ("residents", "distance")):
        path, again = tmp_path / "figure.svg", tmp_path / "again.svg"
        release.figure(path, of=of, kind=kind)  # type: ignore[arg-type]
        release.figure(again, of=of, kind=kind)  # type: ignore[arg-type]
        text = path.read_text(encoding="utf-8")
        assert text == again.read_text(encoding="utf-8")
        words = [element.text or "" for element in ElementTree.fromstring(text).iter(f"{{{SVG}}}text")]
        assert any(f"Where the {of} of the whole region" in line for line in words)
        assert all(url.startswith(NAMESPACES) for url in re.findall(r"https?://[^\"'\s<>]+", text))


def test_a_name_is_no_formula(release: Release, tmp_path: Path) -> None:
    """Nor markup: what matplotlib would typeset, and XML would read, stands there as it is."""
    folder = Path(shutil.copytree(release.public, tmp_path / "public"))
    name = '$\\frac$ & <b>"Sure"</b> $x'
    names = {"cty": np.array([name, ""], object)}
    write_names(names, release.geography, folder)
    path = tmp_path / "figure.svg"
    code = release.geography.codes("cty")[0]
    open_release(folder).figure(path, area=code, kind="distance")
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    words = " ".join(element.text or "" for element in root.iter(f"{{{SVG}}}text"))
    assert f"Where the workers of {name} (county {code}) live" in words


def test_png_and_pdf_name_no_address_and_are_equal(release: Release, tmp_path: Path) -> None:
    for suffix in ("png", "pdf"):
        path, again = tmp_path / f"figure.{suffix}", tmp_path / f"again.{suffix}"
        for target in (path, again):
            release.figure(target, kind="distance")
        assert b"http" not in path.read_bytes()
        assert path.read_bytes() == again.read_bytes()


def test_pdf_says_what_it_is(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "figure.PDF"
    release.figure(path, kind="choropleth")
    content = path.read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/Subject (Synthetic workers, no real person. Release: " in content
    assert b"/Title (Where the workers of the whole region" in content
    assert b"/FontFile2" in content, "words are in a font, not outlines"


def test_every_level_of_area_and_of_map(release: Release, tmp_path: Path) -> None:
    block = int(release.unit_flows("tabblk2010", "tabblk2010")["work"].mode()[0])
    for level, shown in zip(release.levels, itertools.cycle(["trct", "tabblk2010", "st"]), strict=False):
        code = release.geography.codes(level)[release.geography.unit_of(level, [block])[0]]
        path = tmp_path / f"{level}-{shown}.png"
        release.figure(path, area=code, level=shown, kind="flows")
        assert path.stat().st_size > 10_000


def test_a_release_with_one_level_and_no_polygons(british: object, tmp_path: Path) -> None:
    config = british((), tables=False)  # type: ignore[operator]
    made = open_release(pipelines.run(config).public)
    path = tmp_path / "figure.png"
    made.figure(path, area=made.geography.blocks[made.unit_flows("oa", "oa")["work"][0]])
    assert ink(path) > 0.03
    assert "Other levels" not in (made.public / "README.md").read_text(encoding="utf-8")


def test_workers_who_all_live_in_an_external_zone(
    small_config: object, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Nothing is known of their homes but the area; the figure says so."""
    jobs = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    work = jobs["w_geocode"].mode()[0]
    away = jobs["w_geocode"] == work
    aux = jobs[away].assign(h_geocode="250000000000000")
    aux = aux.groupby(["w_geocode", "h_geocode", "createdate"], as_index=False).sum()[jobs.columns]
    jobs[~away].to_csv(tmp_path / "main.csv", index=False)
    aux.to_csv(tmp_path / "aux.csv", index=False)
    files = {"jobs.file": tmp_path / "main.csv", "jobs.aux": tmp_path / "aux.csv", "jobs.population": None}
    config = small_config(  # type: ignore[operator]
        files, {"geography.external_zones": ["25"], "privacy.epsilon": "40"}
    )
    made = open_release(pipelines.run(config).public)
    for area, of in ((work, "workers"), ("25", "residents"), (None, "workers")):
        code = "259999999999999" if area == "25" else area
        path = tmp_path / f"{of}-{area}.png"
        made.figure(path, area=code, of=of)  # type: ignore[arg-type]
        assert ink(path) > 0.02


# --- errors


def test_names_of_files_and_kinds(release: Release, tmp_path: Path) -> None:
    with pytest.raises(
        PublicReleaseError, match=r"figure\.gif: the name of a figure ends with \.png, \.svg or \.pdf"
    ):
        release.figure(tmp_path / "figure.gif")
    with pytest.raises(PublicReleaseError, match="there is no kind 'pie'; there are: all, choropleth"):
        release.figure(tmp_path / "figure.png", kind="pie")
    assert not list(tmp_path.iterdir())


# --- command line


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["figure", *map(str, arguments)])


def test_the_command_draws(small_release: Release, release: Release, tmp_path: Path) -> None:
    path, same = tmp_path / "figure.svg", tmp_path / "same.svg"
    code = release.geography.codes("trct")[0]
    options = ["--area", code, "--of", "residents", "--count", "SA01", "--kind", "rose"]
    result = call(small_release.public, "--to", path, *options)
    assert result.exit_code == 0, result.output
    assert result.output == f"Written {path}\n"
    release.figure(same, area=code, of="residents", count="SA01", kind="rose")
    assert path.read_bytes() == same.read_bytes()


def test_the_command_says_what_is_wrong(small_release: Release, tmp_path: Path) -> None:
    for option, value, words in (
        ("--area", "1", "there is no area '1' at any level (st, cty, trct, bgrp, tabblk2010)"),
        ("--level", "tract", "there is no level 'tract'; there are: st, cty"),
        ("--count", "S1", "there is no count 'S1'; there are: S000"),
    ):
        result = call(small_release.public, "--to", tmp_path / "figure.png", option, value)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert words in result.output
        assert len(result.output.splitlines()) == 1
        assert not list(tmp_path.iterdir())
