"""The stored plan and the page that describes it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers import edit_json
from pipelines import Release
from pipelines.plans.form import HISTORY_TABLE, PLAN_FILES, read_document
from pipelines.plans.storage import load_plan
from pipelines.storage.checksums import sha256_of
from synth.gaussian.parameters import GaussianParameters
from synth.geometric.parameters import GeometricParameters

pytestmark = pytest.mark.quick

PAGE = (Path(__file__).parents[3] / "docs" / "plan-format.md").read_text(encoding="utf-8")


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
    """The names in the paragraph about a mechanism's parameters, and in the list that follows it."""
    start = f"`parameters` of `{mechanism}` "
    first, *others = PAGE[PAGE.index(start) + len(start) :].split("\n\n")
    following = others[0] if others[0].startswith("- ") else ""
    return names(f"{first} {following}")


def test_the_page_has_every_key_of_the_plan(small_release: Release) -> None:
    document = read_document(small_release.public / "plan")
    assert rows("`plan.json`").keys() == document.keys()
    assert document["mechanism"] == "dirichlet"
    dirichlet = document["parameters"]
    assert parameters("dirichlet") == dirichlet.keys() | dirichlet["classes"][0].keys()
    assert parameters("geometric") == GeometricParameters(1, 2).to_json().keys()
    assert parameters("gaussian") == GaussianParameters(1, 2).to_json().keys()


@pytest.mark.parametrize("name", PLAN_FILES[1:])
def test_the_page_has_every_column_of_the_tables(name: str, small_release: Release) -> None:
    folder = small_release.public / "plan"
    document = read_document(folder)
    geography = document["geography"]
    own = {geography["block"], *geography["levels"], *document["attributes"]}  # of this release
    assert rows("Tables").keys() == {*PLAN_FILES[1:], HISTORY_TABLE}
    assert set(pq.read_schema(folder / name).names) - own <= names(rows("Tables")[name])


@pytest.mark.parametrize(("name", "column"), [("slots.parquet", "work"), ("pools.parquet", "place")])
def test_block_codes_are_plain_text_and_may_be_a_dictionary(
    name: str, column: str, small_release: Release, tmp_path: Path
) -> None:
    """A dictionary of all blocks in every row group is slow to read; plans from before have one."""
    folder = Path(shutil.copytree(small_release.public / "plan", tmp_path / "plan"))
    table = pq.read_table(folder / name)
    assert table.schema.field(column).type == pa.string()
    blocks = pq.read_table(folder / "blocks.parquet")["tabblk2010"].combine_chunks()
    codes = pa.array([blocks.to_pylist().index(code) for code in table[column].to_pylist()], pa.int32())
    whole = pa.DictionaryArray.from_arrays(codes, blocks)
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, column, whole), folder / name, row_group_size=7)
    edit_json(folder / "plan.json", lambda plan: plan["files"].update({name: sha256_of(folder / name)}))
    loaded = load_plan(folder)
    assert np.array_equal(loaded.pools.slots.work, small_release.plan.pools.slots.work)
    assert np.array_equal(loaded.pools.place, small_release.plan.pools.place)


def test_a_category_of_another_name_is_an_error_of_the_plan(small_release: Release, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_release.public / "plan", tmp_path / "plan"))
    (name, values), *_ = read_document(folder)["attributes"].items()
    edit_json(folder / "plan.json", lambda plan: plan["attributes"].update({name: ["other", *values[1:]]}))
    with pytest.raises(ValueError, match=f"plan.json: {name}, or a category of it, is not as in the tables"):
        load_plan(folder)
