"""Real public files: the figures that data/README.md states, and the traps it lists."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pandas as pd
import pytest

from geo_data import (
    LodesJobs,
    read_crosswalk,
    read_flows,
    read_weights,
)
from geo_data.distance import distance_km
from geo_data.od_files import LODES_CATEGORIES, od_rows, write_od_csv

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ri(shared_data):
    return shared_data / "ri_2019"


@pytest.fixture(scope="module")
def geography(ri, read_geography):
    return read_geography(ri / "ri_xwalk.csv.gz")


@pytest.fixture(scope="module")
def jobs(ri, geography):
    return LodesJobs(ri / "ri_od_main_JT00_2019.csv.gz", geography)


def test_crosswalk_is_repaired_by_the_documented_rule(geography, ri):
    frame = pd.read_csv(ri / "ri_xwalk.csv.gz", dtype="str")
    wrong = {
        level: int((frame["tabblk2010"].str[:length] != frame[level]).sum())
        for level, length in (("st", 2), ("cty", 5), ("trct", 11), ("bgrp", 12))
    }
    assert wrong == {"st": 2, "cty": 7, "trct": 240, "bgrp": 264}
    assert [line.split(" of")[0] for line in geography.repairs] == [
        f"level {level}: {count}" for level, count in wrong.items()
    ]
    assert geography.n_blocks == 25_181
    assert [geography.n_units(level) for level in geography.levels] == [1, 5, 244, 815]
    assert geography.codes("st").tolist() == ["44"]
    assert geography.blocks.tolist() == sorted(frame["tabblk2010"])


def test_jobs_of_rhode_island(jobs, geography):
    records = jobs.records()
    assert len(records) == 406_052
    at_work = np.bincount(records.work, minlength=geography.n_blocks)
    assert (at_work > 0).sum() == 8_358
    assert np.median(at_work[at_work > 0]) == 8
    assert at_work.max() == 5_765
    assert len(np.unique(records.home)) == 17_127
    tracts = geography.unit_of("trct", records.home).astype(int) * 244 + geography.unit_of(
        "trct", records.work
    )
    assert len(np.unique(tracts)) == 41_649
    here = geography.latitude, geography.longitude
    km = distance_km(*(side[records.home] for side in here), *(side[records.work] for side in here))
    assert km.mean() == pytest.approx(13.08, abs=0.005)


def test_slots_have_the_attribute_totals_of_every_work_block(jobs, geography, ri):
    slots = jobs.slots()
    frame = pd.read_csv(ri / "ri_od_main_JT00_2019.csv.gz", dtype={"w_geocode": "str", "h_geocode": "str"})
    truth = frame.drop(columns=["h_geocode", "createdate"]).groupby("w_geocode").sum()
    work = geography.number(truth.index)
    for group, names in LODES_CATEGORIES.items():
        counts = np.bincount(slots.work * 3 + slots.attributes[group], minlength=3 * geography.n_blocks)
        np.testing.assert_array_equal(counts.reshape(-1, 3)[work], truth[list(names)])
    assert len(slots) == truth["S000"].sum()


def test_whole_published_file_comes_back_from_its_three_groups(jobs, geography, ri):
    """Rows with several jobs too: marginals of a row do not need the joint attributes."""
    parts = {group: jobs.records((group,)) for group in LODES_CATEGORIES}
    attributes = {group: part.attributes[group] for group, part in parts.items()}
    table = od_rows(geography, parts["SE"].work, parts["SE"].home, attributes, LODES_CATEGORIES)
    buffer = io.BytesIO()
    write_od_csv(table, buffer, createdate="20211018")
    assert gzip.decompress(buffer.getvalue()) == gzip.decompress(
        (ri / "ri_od_main_JT00_2019.csv.gz").read_bytes()
    )


def test_auxiliary_tables(geography, ri):
    county = read_flows(
        ri / "ri_acs2011_2015_county_flows.csv",
        geography,
        ("cty", "cty"),
        origin="h_county",
        destination="w_county",
        flow="flow",
    )
    assert len(county) == 25
    assert county.dropped["rows"] == 530
    tract = read_flows(
        ri / "ri_lodes2018_within_county_tract_flows.csv",
        geography,
        ("trct", "trct"),
        origin="h_tract",
        destination="w_tract",
        flow="jobs",
    )
    assert len(tract) == 18_441
    assert tract.dropped["rows"] == 0


def test_population(geography, ri):
    weights = read_weights(
        ri / "ri_tract_gazetteer_2010.csv", geography, level="trct", area="GEOID", weight="POP10"
    )
    assert weights.report == ()
    assert weights.weights.sum() == pytest.approx(1_052_567e6, rel=1e-6)  # Rhode Island, census 2010
    assert weights.weights.min() >= 1


def test_leeds_has_other_codes_and_no_levels(shared_data):
    leeds = shared_data / "leeds_2011"
    geography = read_crosswalk(
        leeds / "leeds_msoa_centroids.csv", block="geo_code", levels=(), centroid=("lat", "lon")
    )
    assert geography.n_blocks == 107
    flows = read_flows(
        leeds / "leeds_msoa_od_2011.csv",
        geography,
        ("geo_code", "geo_code"),
        origin="geo_code1",
        destination="geo_code2",
        flow="all",
    )
    assert len(flows) == 10_536
    assert flows.flow.sum() == 236_326
    assert flows.dropped["rows"] == 0
