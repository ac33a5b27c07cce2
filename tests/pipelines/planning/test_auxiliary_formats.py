"""Auxiliary tables in each format, from the configuration to the plan: the same numbers, the same model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from helpers import with_values
from pipelines import make_plan
from pipelines.config.loading import check_config
from pipelines.planning.public_inputs import read_public_inputs

Configs = Callable[..., pipelines.ReleaseConfig]
Tables = list[dict[str, object]]
CODES = {"w_geocode": "str", "h_geocode": "str", "createdate": "str"}
TRACTS = {"h_tract": "str", "w_tract": "str"}


@pytest.fixture
def with_tables(config_tables: dict[str, Any], tmp_path: Path) -> Configs:
    """Return the configuration of the small region with other auxiliary tables."""
    return lambda tables, change={}: check_config(
        with_values(config_tables, {"auxiliary": tables}, change), tmp_path, "small.toml"
    )


@pytest.fixture(scope="module")
def counties(small_region: dict[str, Path]) -> pd.DataFrame:
    """The survey of the small region, one margin unknown."""
    frame = pd.read_csv(small_region["county_flows"], dtype={"h_county": "str", "w_county": "str"})
    frame = frame[frame["h_county"].isin(frame["w_county"])]  # without those who live elsewhere
    assert len(frame) > 2
    return frame.assign(moe=[*frame["moe"].astype("str")[:-1], ""])


@pytest.fixture(scope="module")
def tracts(small_region: dict[str, Path]) -> pd.DataFrame:
    return pd.read_csv(small_region["tract_flows"], dtype=TRACTS)


def flows(file: str, level: str, **more: object) -> dict[str, object]:
    """Return a table of flows between areas of one level."""
    ends = {"origin": "h_tract", "origin_level": level, "destination": "w_tract", "destination_level": level}
    return {"format": "flows", "file": file} | ends | more


def flow_tables(folder: Path, counties: pd.DataFrame, tracts: pd.DataFrame) -> Tables:
    """Return tables with state and county codes in columns of their own, and numbers as people read them."""
    table = pd.DataFrame(
        {
            "h_st": counties["h_county"].str[:2],
            "h_cty": counties["h_county"].str[2:],
            "w_st": counties["w_county"].str[:2],
            "w_cty": counties["w_county"].str[2:],
            "workers": counties["flow"].map("{:,}".format),
            "margin": [f"+/-{moe}" if moe else "" for moe in counties["moe"]],
        }
    )
    table.to_csv(folder / "counties.csv", index=False)
    tracts.assign(moe="***").to_csv(folder / "tracts.csv", index=False)
    ends = {"origin": ["h_st", "h_cty"], "destination": ["w_st", "w_cty"]}
    return [
        flows("counties.csv", "cty", **ends, flow="workers", margin="margin"),
        flows("tracts.csv", "trct", flow="jobs", margin="moe"),
    ]


def ctpp_table(folder: Path, counties: pd.DataFrame, tracts: pd.DataFrame) -> Tables:
    rows = [
        *(("C4300US" + r.h_county + r.w_county, f"{r.flow:,}", r.moe) for r in counties.itertuples()),
        *(("C5400US" + r.h_tract + r.w_tract, r.jobs, "***") for r in tracts.itertuples()),
    ]
    table = pd.DataFrame(rows, columns=["GEOID", "EST", "MOE"])
    table = table.assign(TBLID="A302100", LINENO=1, SOURCE="ACS").sample(frac=1, random_state=1)
    more = table.head(3).assign(TBLID="A302103", EST="no number")
    pd.concat([table, more])[["GEOID", "TBLID", "LINENO", "EST", "MOE", "SOURCE"]].to_csv(
        folder / "DM_2012thru2016_A302100.csv", index=False
    )
    file, levels = "DM_2012thru2016_A302100.csv", {"C54": "trct", "C43": "cty"}
    return [{"format": "ctpp", "file": file, "levels": levels, "table": "A302100"}]


def acs_table(folder: Path, counties: pd.DataFrame, tracts: pd.DataFrame) -> Tables:
    """Return the tables of `flow_tables`, that of counties as the Census Bureau publishes it."""
    tables = flow_tables(folder, counties, tracts)
    area = "State FIPS Code,County FIPS Code,State Name,County Name,"
    rows = [
        f'{r.h_county[:2]},{r.h_county[2:]},A,B,0{r.w_county[:2]},{r.w_county[2:]},A,B,"{r.flow:,}",{r.moe}'
        for r in counties.itertuples()
    ]
    lines = ["Table 1", f"{area}{area}Workers in Commuting Flow,Margin of Error", *rows, "Source: ACS", ""]
    (folder / "table1.csv").write_text("\n".join(lines))
    return [{"format": "acs", "file": "table1.csv", "level": "cty"}, tables[1]]


def test_the_same_numbers_make_the_same_plan(
    with_tables: Configs, counties: pd.DataFrame, tracts: pd.DataFrame, tmp_path: Path
) -> None:
    configs = [
        with_tables(write(tmp_path, counties, tracts)) for write in (flow_tables, ctpp_table, acs_table)
    ]  # all with margins, none of the same jobs as the release
    inputs = [read_public_inputs(config) for config in configs]
    models = [each.model for each in inputs]
    everywhere = np.arange(models[0].n_units)
    for each in inputs:
        assert each.model.level == "trct"
        np.testing.assert_array_equal(each.model.shares(everywhere), models[0].shares(everywhere))
        assert each.notes == inputs[0].notes
    errors = models[0].tables[0].standard_error
    assert errors is not None
    np.testing.assert_allclose(errors, [*counties["moe"][:-1].astype(float) / 1.645, np.nan])
    one, other = (make_plan(config) for config in configs[:2])
    assert one.choices == other.choices
    assert one.notes == other.notes


def test_margins_change_the_model(with_tables: Configs, counties: pd.DataFrame, tmp_path: Path) -> None:
    """A survey that knows nothing moves the model less than a count of the same flows."""

    def model(counties: pd.DataFrame) -> geo_data.PublicModel:
        tables = flow_tables(tmp_path, counties, pd.DataFrame({"h_tract": ["x"], "w_tract": "x", "jobs": 1}))
        return read_public_inputs(with_tables(tables[:1])).model

    counted, surveyed, guessed = (model(counties.assign(moe=moe)) for moe in ("", "40", "10000"))
    everywhere = np.arange(counted.n_units)
    far = [np.abs(m.shares(everywhere) - counted.shares(everywhere)).sum() for m in (surveyed, guessed)]
    assert 0 < far[0] < far[1]


LODES = {
    "format": "lodes",
    "file": "od_2018.csv.gz",
    "origin_level": "trct",
    "destination_level": "trct",
}


@pytest.fixture
def earlier(small_region: dict[str, Path], tmp_path: Path) -> pd.DataFrame:
    """An earlier release in LODES form, and the same added up in pandas."""
    jobs = pd.read_csv(small_region["od"], dtype=CODES).sample(frac=0.6, random_state=2)
    jobs.to_csv(tmp_path / "od_2018.csv.gz", index=False)
    added = jobs.assign(h_tract=jobs["h_geocode"].str[:11], w_tract=jobs["w_geocode"].str[:11])
    added = added.groupby(["h_tract", "w_tract"], as_index=False)["S000"].sum()
    added.to_csv(tmp_path / "tracts.csv", index=False)
    return jobs


def test_an_earlier_release_is_the_table_it_adds_up_to(with_tables: Configs, earlier: pd.DataFrame) -> None:
    same = flows("tracts.csv", "trct", flow="S000", same_jobs=True)
    one, other = (read_public_inputs(with_tables([table])).model for table in (LODES, same))
    everywhere = np.arange(one.n_units)
    np.testing.assert_array_equal(one.shares(everywhere), other.shares(everywhere))
    assert one.tables[0].same_jobs
    assert one.tables[0].flow.sum() == earlier["S000"].sum()
    assert one.level == "trct"
    plan = make_plan(with_tables([LODES]))
    assert plan.config.quoted()["auxiliary"] == [
        {
            "format": "lodes",
            "file": "od_2018.csv.gz",
            "aux": None,
            "origin_level": "trct",
            "destination_level": "trct",
            "same_jobs": True,
        }
    ]


def test_same_jobs_may_be_denied(with_tables: Configs, earlier: pd.DataFrame) -> None:
    config = with_tables([LODES | {"same_jobs": False}])
    assert not read_public_inputs(config).model.tables[0].same_jobs


def test_an_earlier_release_with_workers_from_outside(
    with_tables: Configs, earlier: pd.DataFrame, tmp_path: Path
) -> None:
    now, before = (earlier.iloc[rows].copy() for rows in (slice(0, 9), slice(4, 30)))
    for jobs, name in ((now, "aux_2019.csv"), (before, "aux_2018.csv")):
        jobs["h_geocode"] = "25" + jobs["h_geocode"].str[2:]
        jobs.to_csv(tmp_path / name, index=False)
    config = with_tables(
        [LODES | {"aux": "aux_2018.csv"}],
        {"geography.external_zones": ["25"], "jobs.aux": "aux_2019.csv", "jobs.population": None},
    )
    inputs = read_public_inputs(config)
    (table,) = inputs.model.tables
    outside = inputs.geography.unit_of("trct", inputs.geography.external_blocks)
    assert table.flow[table.origin == outside[0]].sum() == before["S000"].sum()
    assert table.dropped["rows"] == 0
    where = np.unique(inputs.geography.unit_of("trct", inputs.geography.number(before["w_geocode"])))
    shares = inputs.model.shares(where)
    assert (shares[:, outside[0]] > 0.01).all()
    make_plan(config)


def test_the_line_is_that_of_the_configuration(with_tables: Configs, tmp_path: Path) -> None:
    rows = [f"C4300US0300103003,A302103,{line},{line * 10},1,ACS" for line in (1, 2, 3)]
    (tmp_path / "t.csv").write_text("\n".join(["GEOID,TBLID,LINENO,EST,MOE,SOURCE", *rows, ""]))
    for line in (1, 3):
        lines = {"format": "ctpp", "file": "t.csv", "levels": {"C43": "cty"}, "line": line}
        (table,) = read_public_inputs(with_tables([lines])).model.tables
        assert table.flow.tolist() == [line * 10]


def test_rows_left_out_are_noted_for_each_part_of_a_file(
    with_tables: Configs, counties: pd.DataFrame, tracts: pd.DataFrame, tmp_path: Path
) -> None:
    tables = ctpp_table(tmp_path, counties, tracts)
    with (tmp_path / "DM_2012thru2016_A302100.csv").open("a") as file:
        file.write("C4300US2500103001,A302100,1,5,5,ACS\nC4300US0300125001,A302100,1,5,5,ACS\n")
    notes = read_public_inputs(with_tables(tables)).notes
    assert (
        "DM_2012thru2016_A302100.csv (C43): 2 rows are outside the geography: left out" in notes
    )  # two are the region's
    assert not any("(C54)" in note for note in notes)


def test_a_table_that_is_wrong_stops_the_plan(
    with_tables: Configs, earlier: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "od_2018.csv.gz"
    moved = earlier["h_geocode"].str[:11] + "9" + earlier["h_geocode"].str[12:]
    earlier.assign(h_geocode=moved).groupby(["w_geocode", "h_geocode"], as_index=False).first().to_csv(
        path, index=False
    )
    with pytest.raises(geo_data.InputError, match="as in a file of another vintage"):
        make_plan(with_tables([LODES]))


def test_weights_of_blocks_do_not_make_the_model_one_of_blocks(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """The work would grow as the blocks squared, and no urn could be shared."""
    blocks = pd.read_csv(small_region["crosswalk"], dtype="str")["tabblk2010"]
    pd.DataFrame({"GEOID": blocks, "POP10": np.arange(1, len(blocks) + 1)}).to_csv(
        tmp_path / "blocks.csv", index=False
    )
    config = small_config({"weights.file": tmp_path / "blocks.csv", "weights.level": "tabblk2010"})
    inputs = read_public_inputs(config)
    assert inputs.model.level == "bgrp"
    assert len(set(inputs.model.weights)) == len(blocks)  # but inside a unit they count
