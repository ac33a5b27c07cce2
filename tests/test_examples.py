"""What is commented out in an example, or in a snippet of the documentation, can be uncommented and used."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pipelines
from pipelines.planning.public_inputs import PublicInputs, check_pool_by, read_public_inputs
from pipelines.running.run import certify
from pipelines.schedule.calendar import read_calendar

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
RELEASES = sorted(EXAMPLES.glob("*.toml"))
CALENDAR = sorted((EXAMPLES / "calendar").glob("*.toml"))
SNIPPETS = [
    (path.name, snippet)
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    for snippet in re.findall(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
]

SETTING = re.compile(r"# ([a-z_]+) = .*")
TABLE = re.compile(r"\[+([\w.]+)\]+")


def commented(text: str) -> dict[str, int]:
    """Return the lines of the settings that are commented out, by their keys: "plan.prior"."""
    table, found = "", {}
    for number, line in enumerate(text.splitlines()):
        if heading := TABLE.match(line):
            table = f"{heading[1]}."
        elif setting := SETTING.fullmatch(line):
            found[f"{table}{setting[1]}"] = number
    return found


def combinations(text: str) -> Iterator[tuple[str, ...]]:
    """Yield what to uncomment: each setting, with the one that its comment says it needs; and all of them."""
    lines, where = text.splitlines(), commented(text)
    for key, number in where.items():
        about = [lines[number], *(line for line in lines[max(number - 1, 0) : number] if line[:1] == "#")]
        partners = [other for line in about for other in re.findall(r"together with ([\w.]+)", line)]
        assert set(partners) <= where.keys()
        yield (key, *partners)
    if len(where) > 1:
        yield tuple(where)


def variants(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every combination with the text in which it is uncommented."""
    where = commented(text)
    for keys in combinations(text):
        lines = text.splitlines(keepends=True)
        for key in keys:
            lines[where[key]] = lines[where[key]].removeprefix("# ")
        yield keys, "".join(lines)


def test_comments_are_understood() -> None:
    text = (
        '[a]\n# b = 1  # said\n# Words (together with c.d):\n# e = "f"\n[[c]]\n# d = 2\n# Not = a setting\n'
    )
    assert commented(text) == {"a.b": 1, "a.e": 3, "c.d": 5}
    assert list(combinations(text)) == [("a.b",), ("a.e", "c.d"), ("c.d",), ("a.b", "a.e", "c.d")]
    assert '\ne = "f"\n' in dict(variants(text))["a.e", "c.d"]
    texts = {path.name: path.read_text(encoding="utf-8") for path in RELEASES}
    assert len(commented(texts["rhode_island.toml"])) == 9
    with_comments = [path for path in EXAMPLES.rglob("*.toml") if commented(path.read_text(encoding="utf-8"))]
    assert set(with_comments) <= {*RELEASES, *CALENDAR}  # others would need a test here
    assert any(commented(snippet) for _, snippet in SNIPPETS)


def test_what_an_example_of_a_release_comments_out_can_be_used() -> None:
    """With the example's own data, as far as their headers go."""
    tried = 0
    for path in RELEASES:
        read: dict[str, PublicInputs] = {}
        for keys, text in variants(path.read_text(encoding="utf-8")):
            config = pipelines.parse_config(text, EXAMPLES, f"{path.name} with {', '.join(keys)}")
            settings = tomllib.loads(text)
            del settings["plan"]
            if config.geography.file.exists():
                inputs = read.get(str(settings)) or read_public_inputs(config)
                read[str(settings)] = inputs
                check_pool_by(config, inputs.slots)
                tried += 1
    assert tried >= 6


@pytest.mark.deep
@pytest.mark.slow
def test_what_an_example_of_a_release_comments_out_can_be_planned(shared_data: Path) -> None:
    for path in RELEASES:
        for keys, text in variants(path.read_text(encoding="utf-8")):
            config = pipelines.parse_config(text, EXAMPLES, f"{path.name} with {', '.join(keys)}")
            assert certify(pipelines.make_plan(config)).epsilon <= config.privacy.epsilon


def test_what_an_example_of_a_calendar_comments_out_can_be_used(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples") / "calendar"
    tried = 0
    for path in CALENDAR:
        whole = path.read_text(encoding="utf-8")
        for keys, text in variants(whole):
            (folder / path.name).write_text(text, encoding="utf-8")
            calendar = read_calendar(folder)
            assert not calendar.problems, keys
            assert len(calendar.schedules) == len(CALENDAR) - 1
            tried += 1
        (folder / path.name).write_text(whole, encoding="utf-8")
    assert tried >= 5


def test_what_a_snippet_comments_out_can_be_used(config_text: Callable[..., str], tmp_path: Path) -> None:
    for name, snippet in SNIPPETS:
        for keys, text in variants(snippet):
            tables = tomllib.loads(text)
            config = pipelines.parse_config(config_text(tables), tmp_path, f"{name} with {', '.join(keys)}")
            assert tables.keys() <= config.model_fields_set
