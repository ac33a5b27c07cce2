"""The demo region: deterministic files that the ordinary readers take, with a commuting structure."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from geo_data import LodesJobs, read_flows, write_demo_region
from geo_data.distance import distance_km
from geo_data.polygons import read_polygons

SMALL = {"counties": 2, "tracts": 6, "blocks": 120, "jobs": 600}


@pytest.fixture(scope="module")
def region(tmp_path_factory):
    """The region of `odsynth demo`, full size."""
    return write_demo_region(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def geography(region, read_geography):
    return read_geography(region["crosswalk"])


@pytest.fixture(scope="module")
def records(region, geography):
    return LodesJobs(region["od"], geography).records(("SE",))


def flows(region, geography, kind, level, names):
    origin, destination, flow = names
    return read_flows(
        region[kind],
        geography,
        (level, level),
        origin=origin,
        destination=destination,
        flow=flow,
    )


def test_bytes_depend_on_the_seed_only(demo_region, tmp_path):
    again = write_demo_region(tmp_path / "new" / "folder", **SMALL)
    other = write_demo_region(tmp_path, **SMALL, seed=7)
    kinds = ["crosswalk", "od", "aux", "county_flows", "tract_flows", "population", "tracts"]
    assert list(again) == kinds
    for kind, path in again.items():
        assert path.read_bytes() == demo_region[kind].read_bytes()
        assert path.read_bytes() != other[kind].read_bytes()


def test_sizes(region, geography, records):
    assert [geography.n_units(level) for level in ("st", "cty", "trct", "tabblk2010")] == [1, 4, 60, 4000]
    assert len(records) == 60_000
    assert geography.repairs == ()
    assert {len(code) for code in geography.blocks} == {15}
    assert all(code.startswith("03") for code in geography.blocks)


def test_file_formats_are_those_of_real_files(region):
    def header(kind):
        data = region[kind].read_bytes()
        return (gzip.decompress(data) if region[kind].suffix == ".gz" else data).decode().split("\n")[0]

    assert header("crosswalk") == (
        "tabblk2010,st,stusps,stname,cty,ctyname,trct,trctname,bgrp,bgrpname,blklatdd,blklondd,createdate"
    )
    assert header("od") == header("aux")
    assert header("od") == (
        "w_geocode,h_geocode,S000,SA01,SA02,SA03,SE01,SE02,SE03,SI01,SI02,SI03,createdate"
    )
    assert header("county_flows") == "h_county,w_county,flow,moe"
    assert header("tract_flows") == "h_tract,w_tract,jobs"
    assert header("population") == "GEOID,POP10,HU10,INTPTLAT,INTPTLONG"


def test_work_blocks_are_many_and_tiny_with_a_few_large(records):
    sizes = np.bincount(records.work)
    sizes = sizes[sizes > 0]
    assert 1200 < len(sizes) < 1500
    assert np.median(sizes) < 10
    assert 1500 < sizes.max() < 10_000


def test_people_commute_by_gravity(geography, records):
    here = geography.latitude, geography.longitude
    true = distance_km(*(side[records.home] for side in here), *(side[records.work] for side in here))
    shuffled = np.random.default_rng(0).permutation(records.home)
    at_random = distance_km(*(side[shuffled] for side in here), *(side[records.work] for side in here))
    assert 4 < true.mean() < 0.6 * at_random.mean()
    # Better paid jobs draw from further away.
    by_pay = [true[records.attributes["SE"] == code].mean() for code in range(3)]
    assert by_pay[0] < by_pay[1] < by_pay[2]


def test_people_come_from_two_other_states(region, read_geography):
    """Into all counties, nearly always from the nearer coast; the survey has asked some of them."""
    geography = read_geography(region["crosswalk"], external_zones=("07", "14"))
    whole = LodesJobs(region["od"], geography, region["aux"]).records()
    outside = geography.is_external(whole.home)
    assert (len(whole), outside.sum()) == (65_000, 5_000)
    west = whole.home[outside] == geography.external_blocks[0]
    east_of_centre = geography.longitude[whole.work[outside]] > -40
    assert 0.3 < west.mean() < 0.7
    assert west[~east_of_centre].mean() > west[east_of_centre].mean() + 0.2
    survey = flows(region, geography, "county_flows", "cty", ("h_county", "w_county", "flow"))
    assert survey.dropped["rows"] == 0
    asked = np.isin(survey.origin, geography.unit_of("cty", geography.external_blocks))
    assert survey.flow[asked].sum() == pytest.approx(5_000, rel=0.2)


def test_auxiliary_tables_resemble_the_records_and_are_not_made_of_them(region, geography, records):
    county = flows(region, geography, "county_flows", "cty", ("h_county", "w_county", "flow"))
    tract = flows(region, geography, "tract_flows", "trct", ("h_tract", "w_tract", "jobs"))
    elsewhere = pd.read_csv(region["county_flows"], dtype="str")["h_county"].isin(["07001", "14001"])
    assert county.dropped["rows"] == elsewhere.sum() > 0
    assert tract.dropped["rows"] == 0
    # Older: another number of workers; a survey: multiples of ten; tract pairs inside one county only.
    assert county.flow.sum() != tract.flow.sum()
    assert (county.flow % 10 == 0).all()
    first_block = geography.starts("trct")
    of_tract = geography.unit_of("cty", first_block)
    assert (of_tract[tract.origin] == of_tract[tract.destination]).all()

    home, work = (geography.unit_of("trct", side) for side in (records.home, records.work))
    inside = of_tract[home] == of_tract[work]
    truth, survey = np.zeros((2, 60, 60))
    np.add.at(truth, (home[inside], work[inside]), 1)
    survey[tract.origin, tract.destination] = tract.flow
    distance = 0.5 * np.abs(truth / truth.sum() - survey / survey.sum()).sum()
    # Far from equal, far from unrelated.
    assert 0.05 < distance < 0.4
    both = (truth > 20) & (survey > 20)
    assert (truth[both] != survey[both]).mean() > 0.9


def test_auxiliary_tables_do_not_change_with_the_records(tmp_path, monkeypatch):
    """Replace the jobs of the year by others: the auxiliary tables must not notice."""
    from geo_data import demo

    expected = write_demo_region(tmp_path / "a", **SMALL)
    draw = demo.draw_commuters

    def others(rng, region, *, jobs):
        now, before = draw(rng, region, jobs=jobs)
        return demo.Commuters(now.work, now.home[::-1].copy(), now.attributes), before

    monkeypatch.setattr(demo, "draw_commuters", others)
    got = write_demo_region(tmp_path / "b", **SMALL)
    assert got["od"].read_bytes() != expected["od"].read_bytes()
    for kind in ("crosswalk", "county_flows", "tract_flows", "population", "tracts"):
        assert got[kind].read_bytes() == expected[kind].read_bytes()


def test_tracts_cover_the_islands_and_hold_their_blocks(region, geography):
    shapes = read_polygons(region["tracts"], geography, level="trct", code="GEOID").shapes
    metric = shapes.to_crs("EPSG:6933")
    # Neighbours share borders and nothing else; coordinates are rounded to a tenth of a metre.
    assert metric.area.sum() == pytest.approx(metric.union_all().area, rel=1e-4)
    inside = geography.points().sjoin(shapes, predicate="within")
    assert len(inside) == geography.n_blocks
    assert (inside["trct"] == inside["tabblk2010"].str[:11]).all()


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 1, 2, 3), (3, 3, 3, 1), (2, 9, 1200, 50)])
def test_any_size_works(tmp_path, read_geography, sizes):
    paths = write_demo_region(
        tmp_path, **dict(zip(("counties", "tracts", "blocks", "jobs"), sizes, strict=True))
    )
    geography = read_geography(paths["crosswalk"])
    assert geography.n_units("cty") == sizes[0]
    assert geography.n_units("trct") == sizes[1]
    assert geography.n_blocks == sizes[2]
    assert len(LodesJobs(paths["od"], geography).slots()) == sizes[3]
    assert pd.read_csv(paths["aux"])["S000"].sum() == max(1, sizes[3] // 12)
    assert len(flows(paths, geography, "county_flows", "cty", ("h_county", "w_county", "flow"))) > 0
    assert len(flows(paths, geography, "tract_flows", "trct", ("h_tract", "w_tract", "jobs"))) > 0
    tracts = read_polygons(paths["tracts"], geography, level="trct", code="GEOID")
    assert len(tracts.shapes) == sizes[1]
    assert tracts.notes == ()


@pytest.mark.parametrize(
    "sizes", [{"counties": 0}, {"tracts": 3}, {"blocks": 59}, {"jobs": 0}, {"blocks": 10**6}]
)
def test_impossible_sizes(tmp_path, sizes):
    with pytest.raises(ValueError, match=r"sizes must satisfy|ask for more tracts"):
        write_demo_region(tmp_path / "x", **sizes)
    assert not (tmp_path / "x").exists()
