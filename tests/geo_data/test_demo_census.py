"""The generated census: equal seeds, equal bytes; shares as they are said; nobody where nobody can be."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from geo_data import demo_census, read_crosswalk, read_weights, write_demo_census
from geo_data.distance import distance_km
from geo_data.polygons import read_polygons

CONFIG = tomllib.loads((Path(__file__).resolve().parents[2] / "examples" / "census_demo.toml").read_text())
ELSEWHERE = CONFIG["geography"]["external_workplaces"]
PUBLIC = ("zones", "population", "flows", "shapes")


@pytest.fixture(scope="module")
def census(tmp_path_factory):
    """The census of `odsynth demo --census`, full size."""
    return write_demo_census(tmp_path_factory.mktemp("census"))


@pytest.fixture(scope="module")
def persons(census):
    return pd.read_csv(census["persons"], dtype="str", keep_default_na=False)


@pytest.fixture(scope="module")
def zones(census):
    return read_crosswalk(census["zones"], block="zone", levels=("town",), centroid=("latitude", "longitude"))


def test_bytes_depend_on_the_seed_only(tmp_path):
    files, again, other = (
        write_demo_census(tmp_path / str(i), persons=2000, seed=seed) for i, seed in enumerate((1, 1, 2))
    )
    for kind, path in files.items():
        assert path.read_bytes() == again[kind].read_bytes()
        assert path.read_bytes() != other[kind].read_bytes()


def test_public_files_do_not_change_with_the_persons(tmp_path, monkeypatch):
    files = write_demo_census(tmp_path / "a", persons=2000)
    draw = demo_census._draw_persons
    monkeypatch.setattr(demo_census, "_draw_persons", lambda *args: draw(*args)[::-1])
    others = write_demo_census(tmp_path / "b", persons=2000)
    assert files["persons"].read_bytes() != others["persons"].read_bytes()
    for kind in PUBLIC:
        assert files[kind].read_bytes() == others[kind].read_bytes()


def test_every_file_is_read(census, zones):
    assert (zones.n_blocks, zones.n_units("town"), zones.repairs) == (100, 12, ())
    weights = read_weights(census["population"], zones, level="zone", area="zone", weight="population")
    assert weights.weights.max() > 1
    shapes = read_polygons(census["shapes"], zones, level="zone", code="GEOID")
    assert shapes.notes == ()
    assert len(zones.points().sjoin(shapes.shapes, predicate="within")) == 100


def test_nobody_is_where_the_configuration_says_that_nobody_can_be(census, persons):
    """And somebody is everywhere else; of these the population is 0."""
    codes = set(pd.read_csv(census["zones"])["zone"])
    assert codes - set(persons["home"]) == set(CONFIG["geography"]["uninhabited"])
    assert codes - set(persons["work"]) == set(CONFIG["geography"]["without_work"])
    assert set(persons["work"]) - codes == set(ELSEWHERE)
    population = pd.read_csv(census["population"], index_col="zone")["population"]
    assert set(population.index[population == 0]) == set(CONFIG["geography"]["uninhabited"])


def test_kinds_of_work_and_categories(persons):
    assert len(persons) == 200_000
    shares = persons["work"].value_counts(normalize=True)
    for code, share in {"W-HOME": 0.08, "W-NONE": 0.04, "W-ABRD": 0.015}.items():
        assert shares[code] == pytest.approx(share, rel=0.1)
    for attribute in CONFIG["attribute"]:
        assert set(persons[attribute["name"]]) == set(attribute["categories"])
    assert ((persons["work"] == "W-HOME") == (persons["mode"] == "none")).all()


def test_people_commute_by_gravity_and_by_what_suits_the_distance(persons, zones):
    inside = persons[~persons["work"].isin(ELSEWHERE)]
    home, work = zones.number(inside["home"]), zones.number(inside["work"])
    here = zones.latitude, zones.longitude
    km = distance_km(*(side[home] for side in here), *(side[work] for side in here))
    shuffled = np.random.default_rng(0).permutation(home)
    at_random = distance_km(*(side[shuffled] for side in here), *(side[work] for side in here))
    assert 5 < km.mean() < 0.5 * at_random.mean()
    mean = pd.Series(km).groupby(inside["mode"].to_numpy()).mean()
    assert mean["foot"] < mean["bicycle"] < mean["car"] < mean["train or bus"]
    city = zones.unit_of("town", work) == 0
    train = (inside["mode"] == "train or bus").to_numpy()
    assert train[city].mean() > 2 * train[~city].mean()
    abroad = persons["home"][persons["work"] == "W-ABRD"]
    assert (zones.longitude[zones.number(abroad)] > -39.8).mean() > 0.8


def test_occupations_differ_between_places(persons):
    crafts = persons["occupation"] == "crafts"
    assert (
        crafts[persons["work"] == "W-HOME"].mean() < 0.05 < 0.2 < crafts[persons["work"] == "W-NONE"].mean()
    )
    for side in ("home", "work"):
        share = crafts.groupby(persons[side]).mean()
        assert share.std() > 0.02


def test_flows_of_the_census_before_are_a_tenth_different(census, persons):
    town = pd.read_csv(census["zones"], index_col="zone")["town"]
    destination = persons["work"].map(town).fillna(persons["work"])
    pairs = {"origin": persons["home"].map(town), "destination": destination}
    now = pd.DataFrame(pairs).value_counts(normalize=True)
    before = pd.read_csv(census["flows"]).set_index([*pairs])["flow"]
    assert set(ELSEWHERE) < set(before.index.get_level_values("destination"))
    assert now.sub(before / before.sum(), fill_value=0).abs().sum() / 2 == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize("persons", [1, 50])
def test_few_persons(tmp_path, persons):
    assert len(pd.read_csv(write_demo_census(tmp_path, persons=persons)["persons"])) == persons


def test_a_census_of_nobody_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one person"):
        write_demo_census(tmp_path / "x", persons=0)
    assert not (tmp_path / "x").exists()
