"""The stored plan and the page that describes it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines import Release
from pipelines.plan_files import PLAN_FILES, read_document
from synth.geometric import GeometricParameters

PAGE = (Path(__file__).parents[2] / "docs" / "plan-format.md").read_text(encoding="utf-8")


def names(text: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([\w.]+)`", text))


def rows(heading: str) -> dict[str, str]:
    """The rows of the table under a heading: by the names in the first cell, the other cells."""
    section = re.split(r"^## ", PAGE, flags=re.M)[1:]
    table = next(text for text in section if text.startswith(heading))
    cells = (line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| `"))
    return {name: rest for first, rest in cells for name in names(first)}


def parameters(mechanism: str) -> set[str]:
    """The names in the paragraph about a mechanism's parameters."""
    start = f"`parameters` of `{mechanism}`: "
    return names(next(p for p in PAGE.split("\n\n") if p.startswith(start)).removeprefix(start))


def test_the_page_has_every_key_of_the_plan(small_release: Release) -> None:
    document = read_document(small_release.public / "plan")
    assert rows("`plan.json`").keys() == document.keys()
    assert document["mechanism"] == "dirichlet"
    dirichlet = document["parameters"]
    assert parameters("dirichlet") == dirichlet.keys() | dirichlet["classes"][0].keys()
    assert parameters("geometric") == GeometricParameters(1, 2).to_json().keys()


@pytest.mark.parametrize("name", PLAN_FILES[1:])
def test_the_page_has_every_column_of_the_tables(name: str, small_release: Release) -> None:
    folder = small_release.public / "plan"
    document = read_document(folder)
    geography = document["geography"]
    own = {geography["block"], *geography["levels"], *document["attributes"]}  # of this release
    assert rows("Tables").keys() == set(PLAN_FILES[1:])
    assert set(pq.read_schema(folder / name).names) - own <= names(rows("Tables")[name])
