"""Auxiliary tables between places, which cut tracts: from the configuration to the plan."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from pipelines.planning import public_inputs
from pipelines.planning.auxiliary_tables import read_auxiliary

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def config(
    small_config: Callable[..., pipelines.ReleaseConfig],
    small_region: dict[str, Path],
    tmp_path: Path,
) -> Callable[..., pipelines.ReleaseConfig]:
    """Return the small region with three places, strips that cut tracts and end before the blocks do."""
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    north = crosswalk["blklatdd"].astype(float)
    strip = pd.cut(north.rank(pct=True), [0, 0.2, 0.5, 0.8, 1], labels=False)
    crosswalk["stplc"] = np.array(["0311000", "0312000", "0313000", "9999999"])[strip]
    assert len(crosswalk[["trct", "stplc"]].drop_duplicates()) > len(crosswalk["trct"].unique()) + 3
    crosswalk.to_csv(tmp_path / "xwalk.csv", index=False)
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
    own = {"geography.file": tmp_path / "xwalk.csv", "geography.non_nesting_areas": ["stplc"]}
    return lambda with_places=True: small_config(own, {"auxiliary.2": places} if with_places else {})


def test_a_plan_with_tables_of_places(config: Callable[..., pipelines.ReleaseConfig]) -> None:
    inputs, plain = (pipelines.read_public_inputs(config(places)) for places in (True, False))
    model, everywhere = inputs.model, np.arange(inputs.model.n_units)
    assert model.level == plain.model.level
    assert [table.origin_level for table in model.tables] == ["cty", "trct", "stplc", "stplc"]
    assert [table.origin_level for table in plain.model.tables] == ["cty", "trct"]
    shares = model.shares(everywhere)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert np.abs(shares - plain.model.shares(everywhere)).max() > 0.01
    assert "places.csv (C45): 1 rows outside the geography left out" in inputs.notes
    plan = pipelines.make_plan(config(), inputs)
    assert plan.configuration["geography"]["non_nesting_areas"] == ["stplc"]


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


def test_a_plan_keeps_no_non_nesting_areas(config: Callable[..., pipelines.ReleaseConfig]) -> None:
    """So its tables are compared with those between levels alone."""
    whole = config()
    geography = replace(public_inputs.read_geography(whole), non_nesting_areas={})
    assert [table.origin_level for table in read_auxiliary(whole, geography)] == ["cty", "trct"]


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
    assert pipelines.certify(plan).epsilon <= config.privacy.epsilon
    assert isinstance(plan.geography, geo_data.Geography)
