"""docs/configuration.md has every key of a configuration, and says what the program says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import pipelines
from pipelines.config.reference import configuration_reference

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = configuration_reference()


def keys_of(table: str) -> set[str]:
    """Return the keys that the reference has for a table, in any format."""
    sections = re.findall(rf"^## `{re.escape(table)}`.*\n([^#]*)", REFERENCE, re.MULTILINE)
    assert sections, table
    return {key for section in sections for key in re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)}


def test_the_page_is_that_of_the_program() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == REFERENCE, 'say "make reference"'


def test_every_table_is_there() -> None:
    names = re.findall(r"^## `\[+([a-z]+)", REFERENCE, re.MULTILINE)
    assert set(names) == set(pipelines.ReleaseConfig.model_fields)


def test_every_key_of_the_examples_is_there() -> None:
    examples = sorted((ROOT / "examples").glob("*.toml"))
    assert len(examples) > 3
    for path in examples:
        for table, content in tomllib.loads(path.read_text()).items():
            listed = content if isinstance(content, list) else [content]
            name = f"[[{table}]]" if isinstance(content, list) else f"[{table}]"
            for each in listed:
                assert each.keys() - {"format", "polygons"} <= keys_of(name), (path.name, table)


def test_what_a_key_is_like() -> None:
    assert "| `epsilon` | exact number | required | Largest privacy loss, above 0 and" in REFERENCE
    assert '| `share` | exact number | `"0.9"` |' in REFERENCE
    assert "| `records_per_worker` | whole number | `1` |" in REFERENCE
    rules = " or ".join(f'`"{rule}"`' for rule in ("balanced", "threshold", "distance", "share", "units"))
    assert f"| `coarsening` | {rules} | none | Rule" in REFERENCE
