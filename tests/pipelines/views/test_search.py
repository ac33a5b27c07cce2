"""Finding areas as people name them, and that pages and maps find the same."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pipelines
from pipelines.release.names import write_names
from pipelines.views.labels import short_name, unit_names
from pipelines.views.maps.payload import make_payload
from pipelines.views.release import Release
from pipelines.views.search import MOST, areas_named, search, within_one_edit

from .maps.layers import add_areas

JS = Path(pipelines.__file__).parent / "views" / "maps" / "js"
TOWNS = {
    "010001": "Saint Mary's town (Shore, RI)",
    "010002": "St. Johns city (Shore, RI)",
    "010003": "Mayagüez zona urbana (Shore, RI)",
    "010004": "Kansas City city, RI",
    "010005": "Providence city (Providence, RI)",
    "010006": "East Providence city (Providence, RI)",
    "010007": "Straße-am-Łódź",
    "999999": "",
}
COUNTIES = ["Providence County, RI", "Shore County, RI"]
NODE = shutil.which("node")
# Asks the map's program; what it needs of a page are its words.
ASK = """
const [, , file] = process.argv;
const { readFileSync } = await import("node:fs");
const { phrases, levels, layers, words, asked, program } = JSON.parse(readFileSync(file));
globalThis.document = { getElementById: () => ({ textContent: JSON.stringify(phrases) }) };
const { search } = await import(program);
const zoned = (all) => all.map(({ zones, layer, ...each }) => {
  return { ...each, externalZones: new Map(zones), areaOf: layer ? [] : undefined };
});
const data = { meta: { search: words }, levels: zoned(levels), layers: zoned(layers) };
const shown = asked.map((text) => {
  const { areas, number, sure, alike } = search(data, text);
  return [areas.map(({ level, unit }) => [level.id, level.codes[unit]]), number, sure, alike];
});
console.log(JSON.stringify(shown));
"""


@pytest.fixture(scope="module")
def named(small_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release with towns across its levels, a county of a town's name, and names in two spellings."""
    public = tmp_path_factory.mktemp("searched") / "public"
    shutil.copytree(small_release.public, public)
    geography = small_release.geography
    inside = {"cty": np.full(geography.n_units("cty"), "", object)}
    beyond = geography.unit_of("cty", geography.external_blocks)
    counties = np.setdiff1d(np.arange(geography.n_units("cty")), beyond)
    inside["cty"][counties] = [*COUNTIES, *("" for _ in counties[2:])]
    write_names(inside, geography, public)
    blocks = [str(code) for code in geography.block_codes]
    codes = pd.Series([[*TOWNS][i % len(TOWNS)] for i in range(len(blocks))], blocks)
    add_areas(public, "ctycsub", codes, {code: name for code, name in TOWNS.items() if name})
    return pipelines.open_release(public)


def found(release: Release, text: str) -> list[str]:
    areas = search(release, text).areas
    return [str(unit_names(release, level, np.array([unit]))[0]) for level, unit in areas]


def test_what_people_type_finds_the_town(named: Release) -> None:
    """Without accents, city, county and state; in either spelling of Saint; with a letter wrong."""
    for typed, name in {
        "st marys": TOWNS["010001"],
        "Saint Mary’s": TOWNS["010001"],
        "saint johns": TOWNS["010002"],
        "St Johns, RI": TOWNS["010002"],
        "MAYAGUEZ": TOWNS["010003"],
        "kansas city": TOWNS["010004"],
        "strasse am lodz": TOWNS["010007"],
        "east providence ri": TOWNS["010006"],
        "east providance": TOWNS["010006"],
        "mayagüze": TOWNS["010003"],
        "010005": TOWNS["010005"],
    }.items():
        assert found(named, typed)[0] == name, typed
    assert found(named, "Providence")[:3] == [COUNTIES[0], TOWNS["010005"], TOWNS["010006"]]
    assert found(named, "providence city")[:2] == [TOWNS["010005"], COUNTIES[0]]
    assert found(named, "providence county")[:2] == [COUNTIES[0], TOWNS["010005"]]


def test_only_what_is_sure_is_chosen(named: Release) -> None:
    """A name of several, or one like what was typed, is never taken for what is meant."""
    for typed, sure in {
        "st marys": True,
        "010005": True,
        TOWNS["010005"]: True,
        "providence": False,
        "providence city": True,
        "east providence town": True,
        "providance": False,
        "shore": True,
        "nowhere at all": False,
        "": False,
        "!": False,
    }.items():
        assert search(named, typed).sure is sure, typed
    assert search(named, "providance").alike
    assert not search(named, "nowhere at all").areas


def test_a_list_that_is_cut_says_how_many_there_are(named: Release) -> None:
    every = search(named, "0")
    assert len(every.areas) == MOST < every.number


def test_whole_names_are_found_in_other_spellings(named: Release) -> None:
    assert len(areas_named(named, "ctycsub", "St Marys Town (Shore RI)")) == 1
    assert areas_named(named, "ctycsub", "St Marys") == []  # a part is no name
    assert areas_named(named, "ctycsub", "!") == []
    assert short_name("Bristol town (Bristol, RI)") == "Bristol town"
    assert short_name("(so)") == "(so)"


def test_one_letter() -> None:
    letters = "abc"
    words = ["", *letters, *(a + b for a in letters for b in letters)]
    words += [a + b + c for a in letters for b in letters for c in letters]

    def edits(word: str) -> set[str]:
        splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
        missing = {a + b[1:] for a, b in splits if b}
        wrong = {a + c + b[1:] for a, b in splits if b for c in letters}
        more = {a + c + b for a, b in splits for c in letters}
        exchanged = {a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1}
        return {word} | missing | wrong | more | exchanged

    for a in words:
        assert {b for b in words if within_one_edit(a, b)} == edits(a) & set(words)


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_maps_find_the_same(named: Release, tmp_path: Path) -> None:
    """Names, codes, parts of them, words in any order, wrong letters, and what is no word at all."""
    payload = make_payload(named, 10**8)
    texts = json.loads(gzip.decompress(payload.texts))
    geography, meta = named.geography, payload.meta
    zones = {
        each["unit"]: [each["unit"], {"name": each["name"], "code": each["code"]}]
        for each in meta["external_zones"]
    }
    finest = meta["levels"][-1]["id"]
    blocks = geography.external_blocks

    def level(each: dict[str, Any], layer: bool) -> dict[str, Any]:
        of_level: dict[int, list[dict[str, str]]] = {}
        for block in blocks if not layer else ():
            zone = zones[int(geography.unit_of(finest, [block])[0])][1]
            of_level.setdefault(int(geography.unit_of(each["id"], [block])[0]), []).append(zone)
        merged = [
            [unit, {what: ", ".join(zone[what] for zone in those) for what in ("name", "code")}]
            for unit, those in of_level.items()
        ]
        texts_of = {"codes": texts["codes"][each["id"]], "names": texts["names"].get(each["id"], [])}
        return {**each, **texts_of, "zones": merged, "layer": layer}

    asked = _questions(named)
    file = tmp_path / "asked.json"
    file.write_text(
        json.dumps(
            {
                "phrases": {"locale": "en-US", "external_zone": "external zone"},
                "levels": [level(each, False) for each in meta["levels"]],
                "layers": [level(each, True) for each in meta["layers"]],
                "words": meta["search"],
                "asked": asked,
                "program": (JS / "search.js").as_uri(),
            }
        )
    )
    script = tmp_path / "ask.mjs"
    script.write_text(ASK)
    said = subprocess.run([str(NODE), script, file], capture_output=True, text=True, check=True)
    for text, of_map in zip(asked, json.loads(said.stdout), strict=True):
        here = search(named, text)
        areas = [[level, str(geography.codes(level)[unit])] for level, unit in here.areas]
        assert of_map == [areas, here.number, here.sure, here.alike], text


def _questions(release: Release) -> list[str]:
    random.seed(58)
    names = [name for level in release.kinds_of_areas for name in unit_names(release, level).tolist() if name]
    codes = [str(code) for level in release.kinds_of_areas for code in release.geography.codes(level)[:5]]
    whole = [*dict.fromkeys(names), *codes, *(f"tract {code}" for code in codes)]
    asked = [
        *whole,
        "",
        " ",
        "!",
        "constructor",
        "__proto__",
        "county",
        "the town",
        "zone",
        "\u0130stanbul",
        "½",
    ]
    for text in whole:
        cut, at = random.randint(1, len(text)), random.randrange(len(text))
        words = text.split()
        random.shuffle(words)
        asked += [
            text[:cut],
            text[cut:],
            text[:at] + text[at + 1 :],
            text[:at] + "q" + text[at:],
            " ".join(words),
        ]
    return asked
