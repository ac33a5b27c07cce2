"""The documentation: links lead somewhere, pages have all verbs and objects, tutorial and examples run."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import itertools
import re
import shlex
import shutil
import tomllib
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click.testing
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import pipelines
from pipelines.cli.main import main
from pipelines.release.provenance import SourceState

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "site"
LIBRARY = ROOT / "pipelines" / "views" / "maps" / "vendor" / "maplibre-gl.js"
PACKAGES = ("pipelines", "geo_data", "synth")
TEXTS = [ROOT, ROOT / "docs", ROOT / "notebooks"]
PAGES = sorted(path for folder in [*TEXTS, SITE, SITE / "reference"] for path in folder.glob("*.md"))


def tokens(text: str) -> list[Token]:
    """Every block of a page, and every part of its lines, in order."""
    parsed = MarkdownIt().parse(text)
    return [one for token in parsed for one in (token, *(token.children or []))]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as the checkout's host and the site make them."""
    found: set[str] = set()
    times: Counter[str] = Counter()
    blocks = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for before, line in itertools.pairwise(blocks):
        if before.type == "heading_open":
            words = "".join(one.content for one in line.children or [])
            slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            found.add(f"{slug}-{times[slug]}" if times[slug] else slug)
            times[slug] += 1
    return found


def links(page: Path) -> list[str]:
    """Where a page's links and pictures lead, outside of the network."""
    text = page.read_text(encoding="utf-8")
    found = [str(token.attrs.get("href") or token.attrs.get("src") or "") for token in tokens(text)]
    found += re.findall(r'<img src="([^"]+)"', text)
    return [link for link in found if link and not urlsplit(link).scheme]


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken, tried = [], 0
    for page in PAGES:
        for link in links(page):
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
            tried += 1
    assert not broken
    assert tried > 200


def test_the_site_has_every_page_once() -> None:
    trees = re.findall(
        r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", (SITE / "index.md").read_text(), re.DOTALL
    )
    names = [re.sub(r".*<(.*)>", r"\1", line) for line in "".join(trees).splitlines()]
    listed = [(SITE / name).resolve() for name in names]
    notebooks = (path.with_suffix("") for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
    pages = (path.with_suffix("") for path in PAGES if path != SITE / "index.md")
    assert sorted(listed) == sorted([*pages, *notebooks]), (
        "docs/site/index.md has not every page, or one twice"
    )


def test_the_reference_has_every_public_object_once() -> None:
    for name in PACKAGES:
        listed = re.findall(r"^   (\w+)$", (SITE / "reference" / f"{name}.md").read_text(), re.MULTILINE)
        public = set(importlib.import_module(name).__all__)
        assert Counter(listed) == Counter(public), f"docs/site/reference/{name}.md"


def test_what_the_site_and_packages_need_is_locked_apart_from_what_tests_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locks = {"": "requirements.lock", "docs": "requirements-docs.lock", "dist": "requirements-dist.lock"}
    locked = {
        extra: set(re.findall(r"(?m)^([a-z0-9.-]+)==", (ROOT / name).read_text(encoding="utf-8")))
        for extra, name in locks.items()
    }
    tests = locked.pop("")
    for extra, names in locked.items():
        needed = {re.split(r"[\[<>=]", one)[0] for one in extras["optional-dependencies"][extra]}
        assert needed <= names | tests
        assert not names & tests


# What users call first has an example.
WITH_EXAMPLE = {
    *("load_config", "load_plan", "run", "verify", "open_release", "Release.flows"),
    *("combine", "exact", "decimal_up", "compose", "Guarantee"),
    "read_crosswalk",
}


def test_examples_in_docstrings_run(
    small_release: pipelines.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all public objects, each by itself, in a folder with a small demo region and its release."""
    pipelines.demo_inputs(tmp_path, counties=2, tracts=6, blocks=120, jobs=600)
    shutil.copytree(small_release.out, tmp_path / "out" / "demo")
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    tried = set()
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            made = getattr(package, name)
            if not callable(made) or not getattr(made, "__module__", "").startswith(package.__name__):
                continue
            for test in finder.find(made, name, globs={}):
                if test.examples:
                    tried.add(test.name)
                    runner.run(test, out=said.append)
    assert not said, "".join(said)
    assert tried >= WITH_EXAMPLE


# The page of verbs, and that of messages.


def verbs_of(command: click.Command, name: str = "") -> dict[str, click.Command]:
    """Every command that does something, by its words."""
    if not isinstance(command, click.Group):
        return {name: command}
    below = (verbs_of(one, f"{name} {word}".strip()) for word, one in command.commands.items())
    return {words: verb for one in below for words, verb in one.items()}


def test_every_verb_is_on_its_page_once_with_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example is not run, but what it names is there, and the verb takes it."""
    monkeypatch.chdir(tmp_path)
    for folder in ("office/release/public", "office/release-plan", "office/keys", "office/web", "calendar"):
        Path(folder).mkdir(parents=True)
    for file in ("office/town.toml", "office/ledger.sqlite", "office/keys/signing-key.pub", "service.toml"):
        Path(file).touch()
    text = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `([^`]+)` \| ([^|]+\.) \| `odsynth ([^`]+)` \|$", text)
    assert len(rows) == len(re.findall(r"(?m)^\| `", text)), "a row is not: verb, sentence, example"
    verbs = verbs_of(main)
    assert Counter(verb for verb, _, _ in rows) == Counter(list(verbs))
    for verb, _, example in rows:
        words = shlex.split(example)
        begin = len(verb.split())
        assert " ".join(words[:begin]) == verb
        # Refuses what the verb does not take. A verb keeps the names of help of its first context.
        verbs[verb].make_context(verb, words[begin:], parent=click.Context(main, **main.context_settings))


def said_by_the_program() -> str:
    """Every text in the code, a line each, and the Makefile."""
    paths = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    texts = [
        str(node.value)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join([*texts, (ROOT / "Makefile").read_text(encoding="utf-8")])


def test_messages_that_a_page_explains_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"\*\*`([^`]+)`\*\*", text)
    parts = {part.strip(" ;:,()") for message in messages for part in message.split("...")} - {""}
    said = said_by_the_program()
    assert not sorted(part for part in parts if part not in said)
    assert len(messages) >= 20


# The tutorial.

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SAVED = re.compile(r"[Ss]ave this as `([^`]+)`")


def said_by(line: str, runner: click.testing.CliRunner) -> str:
    """Run a line of the shell in this folder, and return what it prints."""
    program, *arguments = shlex.split(line)
    if program == "python":
        return said_by_python(Path(arguments[0]).read_text(encoding="utf-8"), {})
    assert program == "odsynth"
    if arguments[0] == "map" and not LIBRARY.exists():
        return ""  # `make library` fetches it
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


def said_by_python(text: str, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(text, "tutorial", "exec"), names)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.usefixtures("each_candidate_on_every_draw")
def test_the_tutorial_prints_what_it_says(
    clean_source: SourceState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = click.testing.CliRunner(env={"ODSYNTH_DEBUG": ""})
    target, printed, steps = None, None, 0
    for token in MarkdownIt().parse(TUTORIAL):
        if token.type == "inline" and (named := SAVED.search(token.content)):
            target = Path(named[1])
        if token.type != "fence":
            continue
        if target is not None:
            target.parent.mkdir(exist_ok=True)
            target.write_text(token.content, encoding="utf-8")
            target = None
        elif token.info == "bash":
            printed = "".join(said_by(line, runner) for line in token.content.splitlines())
        elif token.info == "python":
            printed = said_by_python(token.content, {})
        else:
            assert token.info == "text"
            assert printed is not None, "output of nothing"
            texts = token.content.strip(), printed.strip()
            assert doctest.OutputChecker().check_output(*texts, doctest.ELLIPSIS), "\n--\n".join(texts)
            printed = None
            steps += 1
    assert steps > 5


def test_the_tutorials_prose_has_no_other_figures() -> None:
    """Those of its text are in what it saves, runs or prints, which the test above compares."""
    blocks = list(MarkdownIt().parse(TUTORIAL))
    shown = " ".join(token.content for token in blocks if token.type == "fence")
    prose = " ".join(token.content for token in blocks if token.type == "inline")
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|\be\^\d+|^\d\. |steps? \d( and \d)?", "", prose)
    assert {figure for figure in re.findall(r"\d[\d.,]*\d|\d", prose) if figure not in shown} <= set()
