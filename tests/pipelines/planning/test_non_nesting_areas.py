"""Auxiliary tables between places, which cut tracts: from the configuration to the plan."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
import pipelines
from helpers import edit_json, words_of_release
from pipelines.planning import public_inputs
from pipelines.planning.public_inputs import read_auxiliary, read_public_inputs
from pipelines.plans.form import PLAN_FILES
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.names import check_names, read_names, write_names
from pipelines.running.run import certify
from pipelines.storage.checksums import sha256_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def config(
    small_config: Callable[..., pipelines.ReleaseConfig],
    strips: dict[str, Any],
    tmp_path: Path,
) -> Callable[..., pipelines.ReleaseConfig]:
    """Return the small region with three places, and tables between them."""
    rows = [
        f"C4500US031{i}000031{j}000,A302100,1,{900 if i == j else 30},+/-50"
        for i in (1, 2, 3)
        for j in (1, 2)
    ]
    rows += ["C4500US25070000311000,A302100,1,40,9", "C5000US031200003001,A302100,1,500,***"]
    (tmp_path / "places.csv").write_text("\n".join(["GEOID,TBLID,LINENO,EST,MOE", *rows, ""]))

    places = {
        "format": "ctpp",
        "file": str(tmp_path / "places.csv"),
        "levels": {"C45": "stplc", "C50": ["stplc", "cty"]},
    }
    return lambda with_places=True: small_config(strips, {"auxiliary.2": places} if with_places else {})


def test_a_plan_with_tables_of_places(config: Callable[..., pipelines.ReleaseConfig]) -> None:
    inputs, plain = (read_public_inputs(config(places)) for places in (True, False))
    model, everywhere = inputs.model, np.arange(inputs.model.n_units)
    assert model.level == plain.model.level
    assert [table.origin_level for table in model.tables] == ["cty", "trct", "stplc", "stplc"]
    assert [table.origin_level for table in plain.model.tables] == ["cty", "trct"]
    shares = model.shares(everywhere)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert np.abs(shares - plain.model.shares(everywhere)).max() > 0.01
    assert "places.csv (C45): 1 row is outside the geography: left out" in inputs.notes
    plan = pipelines.make_plan(config(), inputs)
    assert plan.config.geography.non_nesting_areas == ("stplc",)


def test_the_model_is_as_fine_as_the_places(config: Callable[..., pipelines.ReleaseConfig]) -> None:
    """A table of places alone, with weights of counties: two counties cannot tell four areas apart."""
    whole = config()
    assert whole.weights is not None
    alone = whole.model_copy(update={"auxiliary": whole.auxiliary[-1:], "weights": None})
    for weights in (None, whole.weights.model_copy(update={"level": "cty"})):
        geography = public_inputs.read_geography(alone)
        tables = read_auxiliary(alone, geography)
        level = public_inputs._model_level(alone.model_copy(update={"weights": weights}), geography, tables)
        assert level == ("trct" if weights else "bgrp")


def test_without_non_nesting_areas_their_tables_are_left_out(
    config: Callable[..., pipelines.ReleaseConfig],
) -> None:
    whole = config()
    geography = replace(public_inputs.read_geography(whole), non_nesting_areas={})
    assert [table.origin_level for table in read_auxiliary(whole, geography)] == ["cty", "trct"]


def test_a_plan_has_its_areas(
    small_config: Callable[..., pipelines.ReleaseConfig],
    cut_release: pipelines.Release,
    strips: dict[str, Any],
    tmp_path: Path,
) -> None:
    folder, planned = cut_release.public / "plan", cut_release.plan.geography
    plan = load_plan(folder)
    part = plan.geography.non_nesting_areas["stplc"]
    assert np.array_equal(part.area, planned.non_nesting_areas["stplc"].area)
    assert part.codes.tolist() == ["0311000", "0312000", "0313000", "9999999"]
    assert pipelines.open_release(cut_release.public).geography.non_nesting_areas.keys() == {"stplc"}
    readme = " ".join(words_of_release(cut_release.public).split())
    assert "code of its place (city, town or other); such areas cut across the levels; 4 different" in readme
    save_plan(plan, tmp_path / "again")
    for name in PLAN_FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    unnamed = pipelines.make_plan(small_config(strips))  # no table of the workload is by them
    save_plan(unnamed, tmp_path / "unnamed")
    assert load_plan(tmp_path / "unnamed").geography.non_nesting_areas.keys() == {"stplc"}


def test_names_of_areas(cut_release: pipelines.Release, tmp_path: Path, strips: dict[str, Any]) -> None:
    """A column called like theirs with "name" appended: read, kept in a release, checked."""
    table = pd.read_csv(strips["geography.file"], dtype="str")
    name = "Strip " + table["stplc"].str[:4]
    table["stplcname"] = name.mask(table["stplc"] == "9999999")
    table.to_csv(tmp_path / "crosswalk.csv", index=False)
    levels = ("st", "cty", "trct", "bgrp")
    read = partial(geo_data.read_crosswalk, tmp_path / "crosswalk.csv", block="tabblk2010", levels=levels)
    places = {"centroid": ("blklatdd", "blklondd")}
    geography = read(non_nesting_areas=["stplc"], **places)
    assert geography.names["stplc"].tolist() == ["Strip 0311", "Strip 0312", "Strip 0313", ""]
    assert "stplc" not in read(non_nesting_areas=["stplc"], names={}, **places).names
    write_names(geography.names, geography, tmp_path)
    assert read_names(tmp_path, geography)["stplc"].tolist() == geography.names["stplc"].tolist()
    assert "3 of 4 stplc" in check_names(tmp_path, geography)


@pytest.mark.parametrize("change", ["absent", "blank"])
def test_a_plan_without_the_areas_of_its_workload_is_refused(
    change: str, cut_release: pipelines.Release, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(cut_release.public / "plan", tmp_path / "plan"))
    table = pq.read_table(folder / "blocks.parquet")
    at = table.schema.get_field_index("stplc")
    if change == "absent":
        table, said = table.remove_column(at), "columns are not tabblk2010, .*, stplc, latitude"
    else:
        codes = ["", *table["stplc"].to_pylist()[1:]]
        table, said = table.set_column(at, "stplc", pa.array(codes)), "blocks are in no area of stplc"
    pq.write_table(table, folder / "blocks.parquet")
    files = {"blocks.parquet": sha256_of(folder / "blocks.parquet")}
    edit_json(folder / "plan.json", lambda plan: plan["files"].update(files))
    with pytest.raises(ValueError, match=rf"blocks\.parquet: {said}"):
        load_plan(folder)


@pytest.mark.deep
def test_places_bring_the_model_of_rhode_island_nearer_to_the_truth(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What docs/planning.md says, from a table of places that is made of last year's."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    planning = runpy.run_path(str(ROOT / "benchmarks" / "planning.py"))
    text = (ROOT / "examples" / "rhode_island.toml").read_text(encoding="utf-8")
    first, rest = text.split(planning["ALONE"])
    survey = first + rest[rest.index("# Public weights") :]
    loss = planning["model_alone"]
    assert loss("survey", survey) == pytest.approx(0.2865, abs=0.001)
    places = planning["with_areas"](survey, "stplc", tmp_path)
    assert loss("places", places) < 0.27
    assert loss("all", planning["with_areas"](text, "stplc", tmp_path)) < 0.207
    config = pipelines.parse_config(places, ROOT / "examples", "places.toml")
    plan = pipelines.make_plan(config)
    assert certify(plan).epsilon <= config.privacy.epsilon
    assert isinstance(plan.geography, geo_data.Geography)
