"""A map speaks the language of its release: all of its words are phrases of one table, which the page has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import pytest

from helpers import german_copy
from pipelines import open_release
from pipelines.config.languages import ENGLISH, LANGUAGES
from pipelines.release.pages import number
from pipelines.views.maps import page as map_page
from pipelines.views.pages import map_phrases
from pipelines.views.release import Release

from .conftest import of_year
from .map_reader import Reader

MAPS = Path(map_page.__file__).parent
SECTIONS = ("page", "program")

# What a reader sees or hears: words, and attributes that are read out.
SEEN = """() => {
    const names = ["aria-label", "aria-valuetext", "title", "placeholder", "label"];
    const all = [...document.querySelectorAll("body *:not(script):not(style)")];
    const said = all.flatMap((each) => names.map((name) => each.getAttribute(name)));
    const words = all.flatMap((each) => [...each.childNodes]).filter(({ nodeType }) => nodeType === 3);
    const texts = [document.title, ...said, ...words.map(({ textContent }) => textContent)];
    return [...new Set(texts.map((text) => (text ?? "").replace(/\\s+/g, " ").trim()))];
}"""


def forms(phrase: Any) -> Iterator[str]:
    """Yield the texts of a phrase: one, or one for each of its forms."""
    yield from phrase.values() if isinstance(phrase, dict) else [phrase]


def all_texts(language: str) -> set[str]:
    words = map_phrases(language)
    return {text for section in SECTIONS for phrase in words[section].values() for text in forms(phrase)}


def shape(phrase: Any) -> Any:
    """Return what a translation has in common with a phrase: its forms, and the values and marks in it."""
    if isinstance(phrase, dict):
        return {form: shape(text) for form, text in phrase.items()}
    return sorted(re.findall(r"\{\w+\}|</?\w+[^>]*>", phrase))


@pytest.mark.quick
@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != ENGLISH])
def test_a_language_has_the_same_phrases_with_the_same_values(language: str) -> None:
    english, other = map_phrases(ENGLISH), map_phrases(language)
    for section in (*SECTIONS, "data"):
        assert {name: shape(phrase) for name, phrase in english[section].items()} == {
            name: shape(phrase) for name, phrase in other[section].items()
        }
    assert all(forms(phrase) for phrase in other["program"].values())


@pytest.mark.quick
def test_every_phrase_is_said_and_what_is_said_is_a_phrase() -> None:
    script = "".join(path.read_text(encoding="utf-8") for path in (MAPS / "js").glob("*.js"))
    said = set(re.findall(r'\bsay\(\s*"(\w+)"', script))
    in_page = set(Template((MAPS / "page.html").read_text(encoding="utf-8")).get_identifiers())
    words, code = map_phrases(ENGLISH), (MAPS / "page.py").read_text(encoding="utf-8")
    assert said <= words["program"].keys() <= said | in_page
    assert not words["program"].keys() & words["page"].keys()
    assert all(name in in_page or f'"{name}"' in code for name in words["page"])


@pytest.fixture(scope="module")
def german(noisy: Release, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of a German release with noise, external zones and intervals."""
    folder = tmp_path_factory.mktemp("german")
    release = open_release(german_copy(noisy.public, folder))
    return release.map(folder / "map.html", others=[of_year(release, folder, 2016)])


def used(reader: Reader) -> Iterator[None]:
    """Use a map, and stop wherever there is something else to read."""
    page = reader.page
    yield
    page.locator("#several").evaluate("(several) => (several.open = true)")
    page.select_option("#level", "bgrp")  # of noise
    yield
    page.click("#warning-show")
    yield
    page.select_option("#level", "trct")
    page.locator("#top button").first.click()
    for side in ("work", "home", "both"):
        reader.pick_side(side)
        yield
    page.click("#keep")
    page.check("#add")
    page.locator("#top button").first.click()
    yield
    page.click("#draw")
    page.click("#draw")
    yield
    page.click("#around-chosen")
    page.uncheck("#add")
    reader.search("zzz")
    yield
    page.locator("#external-zones-table button").first.click()
    yield
    page.set_input_files("#other-file", reader.file)
    page.wait_for_selector("#other", state="visible")
    yield
    for side in ("work", "home"):
        reader.pick_side(side)
        page.select_option("#since", "2016")
        page.wait_for_selector("#change-words:not([hidden])")
        yield
    page.press("#year", "Home")
    page.wait_for_selector("#year-notes:not(:empty)")
    yield


def test_a_german_map_shows_no_english_phrase(german: Path, browser: object) -> None:
    own = all_texts("de")
    english = all_texts(ENGLISH) - own
    # Of a longer phrase every piece between its values.
    pieces = {
        piece
        for text in english
        for piece in map(str.strip, re.split(r"\{\w+\}|<[^>]*>|\s*\n\s*", text))
        if len(piece.split()) > 2 and not any(piece in text for text in own)
    }
    with Reader(browser, german) as reader:
        assert reader.page.locator("html").get_attribute("lang") == "de"
        for _ in used(reader):
            seen = reader.page.evaluate(SEEN)
            assert len(seen) > 100
            assert not english & set(seen)
            assert not [piece for piece in pieces if any(piece in text for text in seen)]
        assert not reader.complaints


def test_numbers_of_a_map_have_the_marks_of_the_pages_of_its_release(german: Path, browser: object) -> None:
    with Reader(browser, german) as reader:
        for language in LANGUAGES:
            written = reader.page.evaluate(
                "(locale) => new Intl.NumberFormat(locale).format(1234567.8)", map_phrases(language)["locale"]
            )
            assert written == number("1,234,567.8", language)


def test_a_map_has_the_phrases_of_its_language_only(german: Path, map_file: Path) -> None:
    for file, own, other in ((german, "de", ENGLISH), (map_file, ENGLISH, "de")):
        page = file.read_text(encoding="utf-8")
        found = re.search(r'<script type="application/json" id="phrases">(.*?)</script>', page)
        assert found
        assert json.loads(found[1]) == {
            "locale": map_phrases(own)["locale"],
            **map_phrases(own)["program"],
        }
        assert map_phrases(other)["program"]["hint"]["work"] not in page
