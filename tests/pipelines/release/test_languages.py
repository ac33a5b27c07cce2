"""Every language has what English has: the same templates, with the same names, and the same phrases.

Those of a release's folder, and those of what is made of a release: exports, intervals, changes, maps.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from jinja2 import meta, nodes

from pipelines.config.languages import ENGLISH, LANGUAGES, TEMPLATES
from pipelines.plans.measured import table_in_words
from pipelines.release import pages as of_release
from pipelines.release import verify as verify_alone
from pipelines.release.pages import number
from pipelines.views import pages as of_views
from pipelines.views.choices import FORMATS

pytestmark = pytest.mark.quick

PHRASES = "phrases.j2"
OTHERS = [language for language in LANGUAGES if language != ENGLISH]
ROOMS: dict[str, tuple[ModuleType, Path]] = {
    "release": (of_release, TEMPLATES),
    "views": (of_views, of_views.TEMPLATES),
}


# What is beside the folders of languages: code, words of the certificate, pages of no release.
SHARED = {
    "release": {"definition.json.j2", "first_rows.md.j2", "first_steps.md.j2", "policy.json.j2"},
    "views": {"evaluation.html", "series.html"},
}


def test_there_are_others_and_verify_py_knows_all() -> None:
    assert {ENGLISH, "de"} <= {*LANGUAGES} == {*verify_alone.LANGUAGES}


def context_of(template: nodes.Template) -> set[str]:
    """Return the names that a template takes from its context."""
    assigned = {name.name for name in template.find_all(nodes.Name) if name.ctx == "store"}
    return meta.find_undeclared_variables(template) - assigned


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("language", OTHERS)
def test_a_language_has_the_same_templates_with_the_same_names(room: str, language: str) -> None:
    pages, folder = ROOMS[room]
    names, others = (sorted(path.name for path in (folder / each).iterdir()) for each in (ENGLISH, language))
    assert names == others
    for name in names:
        parsed = [
            pages.environment(each).parse((folder / each / name).read_text(encoding="utf-8"))
            for each in (ENGLISH, language)
        ]
        assert context_of(parsed[0]) == context_of(parsed[1]), name
        included, also = ({*meta.find_referenced_templates(each)} - {PHRASES} for each in parsed)
        assert included == also, name


@pytest.mark.parametrize("room", ROOMS)
def test_no_text_for_readers_is_in_one_language_only(room: str) -> None:
    _, folder = ROOMS[room]
    assert {path.name for path in folder.iterdir() if path.is_file()} == SHARED[room]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("language", OTHERS)
def test_a_language_has_the_same_phrases(room: str, language: str) -> None:
    pages, _ = ROOMS[room]
    english, other = vars(pages.phrases(ENGLISH)), vars(pages.phrases(language))
    for name in english.keys() - {"_body_stream", "__name__"}:
        one, translated = english[name], other[name]
        assert type(one) is type(translated), name
        if callable(one):
            assert one.arguments == translated.arguments, name
        elif isinstance(one, dict):
            assert [*one] == [*translated], name
        elif isinstance(one, list | tuple):
            assert len(one) == len(translated), name


def test_numbers_have_the_marks_of_the_language_here_and_in_verify_py() -> None:
    assert number("1,234.5", ENGLISH) == "1,234.5"
    assert number("1,234.5", "de") == "1\u00a0234,5"
    for language in LANGUAGES:
        assert verify_alone.in_marks("1,234.5", language) == number("1,234.5", language)


@pytest.mark.parametrize("by", [(), ("age",), ("age", "sector")])
@pytest.mark.parametrize("work", [None, "trct"])
@pytest.mark.parametrize("home", [None, "cty"])
def test_tables_have_german_names(home: str | None, work: str | None, by: tuple[str, ...]) -> None:
    english, german = table_in_words(home, work, by), of_release.phrases("de").table(home, work, by)
    assert of_views.phrases(ENGLISH).table(home, work, by) == english
    for name in (home, work, *by):
        assert name is None or (name in english and name in german)
    assert not {*english.split()} & {*german.split()} - {home, work, *by}


def test_formats_are_called_alike_in_read_mes_and_by_the_command_line() -> None:
    assert of_views.phrases(ENGLISH).formats == {name: meaning for name, (meaning, _) in FORMATS.items()}
