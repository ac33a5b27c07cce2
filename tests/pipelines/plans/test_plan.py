"""The plan: a function of public inputs alone, stored and read back to the same bytes."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
from geo_data.geography import ordered_geography
from helpers import edit_json
from pipelines import ConfigError, ReleaseConfig, ReleasePlan, load_plan, make_plan
from pipelines.planning.public_inputs import job_source
from pipelines.plans import plan
from pipelines.plans.form import PLAN_FORMAT, plan_hash
from pipelines.plans.plan import partition_name
from pipelines.plans.storage import save_plan
from pipelines.release.certificate import make_certificate
from pipelines.release.readme import describe_plan, release_readme
from pipelines.release.verification import contradictions
from pipelines.storage.checksums import sha256_of
from synth.policy import implies

Configs = Callable[..., ReleaseConfig]
Jobs = Callable[..., dict[str, object]]
PLAN_FILES = [
    "blocks.parquet",
    "domains.parquet",
    "plan.json",
    "pools.parquet",
    "shares.parquet",
    "slots.parquet",
]


def stored(release: ReleasePlan, folder: Path) -> dict[str, bytes]:
    """The files of a plan by name."""
    digest = save_plan(release, folder)
    assert digest == plan_hash(folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# --- the plan cannot depend on where people live


def other_homes(table: pd.DataFrame, kind: str, blocks: np.ndarray) -> pd.DataFrame:
    """Replace the confidential column, and nothing else."""
    rng = np.random.default_rng(4)
    home = "h_geocode" if "h_geocode" in table else "live"
    match kind:
        case "other homes":
            values = blocks[rng.integers(0, len(blocks), len(table))]
        case "one home":
            values = [blocks[0]] * len(table)
        case "junk":
            values = [f"nowhere {i}" for i in range(len(table))]
        case _:  # as if the column were not there
            values = [""] * len(table)
    return table.assign(**{home: values})


@pytest.mark.parametrize("kind", ["other homes", "one home", "junk", "blank"])
def test_lodes_plan_does_not_depend_on_homes(
    kind: str,
    small_config: Configs,
    small_region: dict[str, Path],
    small_geography: geo_data.Geography,
    tmp_path: Path,
) -> None:
    table = pd.read_csv(small_region["od"], dtype="str")
    replaced = tmp_path / "elsewhere" / small_region["od"].name
    replaced.parent.mkdir()
    other_homes(table, kind, small_geography.blocks).to_csv(replaced, index=False)
    for number, change in enumerate([{}, {"plan.pool_by": ["SE"]}]):
        truth = stored(make_plan(small_config(change)), tmp_path / f"truth{number}")
        assert stored(make_plan(small_config(change, jobs=replaced)), tmp_path / f"other{number}") == truth
        assert sorted(truth) == PLAN_FILES


def test_lodes_plan_does_not_depend_on_how_homes_group_the_rows(
    small_config: Configs, small_region: dict[str, Path], small_geography: geo_data.Geography, tmp_path: Path
) -> None:
    """The rows of an OD file follow the homes: which jobs share a row is confidential."""
    table = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    counts = list(table.columns[2:-1])
    merged = table.groupby("w_geocode", as_index=False)[counts].sum()
    merged = merged.assign(h_geocode=small_geography.blocks[0], createdate="20211018")[table.columns]
    assert len(merged) < len(table) / 2
    single = []  # as many rows as jobs: the k-th of a work block takes its k-th age, earnings and industry
    for row in merged.to_dict("records"):
        groups = [
            [name for name in counts if name.startswith(g) for _ in range(row[name])]
            for g in ("SA", "SE", "SI")
        ]
        for k, names in enumerate(zip(*groups, strict=True)):
            single.append(
                {
                    "w_geocode": row["w_geocode"],
                    "h_geocode": small_geography.blocks[k % 120],
                    **{name: int(name == "S000" or name in names) for name in counts},
                    "createdate": "20211018",
                }
            )
    expected = stored(make_plan(small_config()), tmp_path / "truth")
    variants = [merged, pd.DataFrame(single), table.sample(frac=1, random_state=1), table.iloc[::-1]]
    for number, variant in enumerate(variants):
        path = tmp_path / str(number) / small_region["od"].name
        path.parent.mkdir()
        variant.to_csv(path, index=False)
        assert stored(make_plan(small_config(jobs=path)), tmp_path / f"plan{number}") == expected


@pytest.mark.parametrize("kind", ["other homes", "junk", "blank", "permuted", "other workers"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_microdata_plan_does_not_depend_on_homes(
    kind: str,
    form: str,
    small_config: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Jobs,
    small_geography: geo_data.Geography,
    tmp_path: Path,
) -> None:
    table = pd.read_csv(microdata["csv"], dtype="str")
    if kind == "permuted":
        table = table.sample(frac=1, random_state=2)
    elif kind == "other workers":
        table = table.assign(person="one and the same", note="")
    else:
        table = other_homes(table, kind, small_geography.blocks)
    path = tmp_path / microdata[form].name
    if form == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)
    # Without pools by attribute, the order of the jobs inside a work block must not be the file's either.
    for number, change in enumerate([{}, {"plan.pool_by": ["age", "sector"]}]):
        truth = make_plan(small_config(microdata_jobs(microdata[form]), change))
        other = make_plan(small_config(microdata_jobs(path), change))
        assert len(truth.pools.strata) == 2 * number
        assert stored(other, tmp_path / f"other{number}") == stored(truth, tmp_path / f"truth{number}")
        each = "Each combination of categories of `age` and `sector` has pools of its own."
        certificate = make_certificate(truth, truth.certify(), "0" * 64, secure=True)
        about = describe_plan(truth, certificate, named=False)
        words = " ".join("".join(release_readme(truth, certificate, about, signed=False).values()).split())
        assert (each in words, "other attributes" in words) == (bool(number), not number)


def test_planning_never_asks_for_records(small_config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("planning read the confidential side")

    monkeypatch.setattr(geo_data.LodesJobs, "records", refuse)
    monkeypatch.setattr(geo_data.LodesJobs, "parts", refuse)
    make_plan(small_config())


# --- stored and read back

DEEP = {"plan.retention_min": "3/100", "plan.split_threshold": "1/8"}
FLAT = {"levels": (), "tables": False, "split_threshold": "1/7"}
UNITS = {"plan.coarsening": "units", "plan.split_threshold": None, "plan.retention_min": "1"}
VARIANTS: dict[str, dict[str, object]] = {
    "lodes": {},
    "pool by one": {"plan.pool_by": ["SE"]},
    "pool by two": {"plan.pool_by": ["sector", "age"]},
    "deep pruning": DEEP,
    "given prior": {"plan.retention_min": "1", "plan.prior": "1/3"},
    "units": UNITS,
    "units of a coarse level": UNITS | {"plan.cell_level": "cty"},
    "units of a fine level, pruned": UNITS | {"plan.cell_level": "bgrp", "plan.retention_min": "1/4"},
    "british": {},
    "british, no tables": {"tables": False, "retention_min": "0.3"},
    "british, no levels": FLAT,
}


@pytest.mark.parametrize("name", VARIANTS)
def test_save_load_save_gives_the_same_bytes(
    name: str, small_config: Configs, british: Configs, microdata_jobs: Jobs, tmp_path: Path
) -> None:
    if name.startswith("british"):
        config = british(**VARIANTS[name])
    else:
        jobs = microdata_jobs("parquet") if name == "pool by two" else {}
        config = small_config(jobs, VARIANTS[name])
    release = make_plan(config)
    once = stored(release, tmp_path / "once")
    loaded = load_plan(tmp_path / "once")
    assert stored(loaded, tmp_path / "twice") == once
    assert stored(make_plan(config), tmp_path / "again") == once

    # Equal bytes could hide what neither stores: compare what the draw needs.
    for field in ("weights", "domain_unit", "domain_size"):
        np.testing.assert_array_equal(getattr(loaded, field), getattr(release, field))
    for field in ("place", "block", "shared", "n"):
        np.testing.assert_array_equal(getattr(loaded.pools, field), getattr(release.pools, field))
    assert loaded.pools.pooling == release.pools.pooling
    np.testing.assert_array_equal(loaded.pools.slots.work, release.pools.slots.work)
    for field in ("starts", "offsets", "unit", "share", "row"):
        np.testing.assert_array_equal(getattr(loaded.shares, field), getattr(release.shares, field))
    assert (loaded.level, loaded.choices) == (release.level, release.choices)
    for attribute, codes in release.pools.slots.attributes.items():
        np.testing.assert_array_equal(loaded.pools.slots.attributes[attribute], codes)
    for attribute, codes in release.pools.strata.items():
        np.testing.assert_array_equal(loaded.pools.strata[attribute], codes)
    for field in ("offsets", "cuts", "stratum"):
        np.testing.assert_array_equal(
            getattr(loaded.numeric.domains, field), getattr(release.numeric.domains, field)
        )
    assert loaded.numeric.parameters == release.numeric.parameters
    assert list(loaded.pools.slots.categories.items()) == list(release.pools.slots.categories.items())
    assert loaded.geography.blocks.tolist() == release.geography.blocks.tolist()
    assert (loaded.notes, loaded.config) == (release.notes, release.config)
    assert (loaded.numeric.target.epsilon, loaded.numeric.target.delta) == (
        release.numeric.target.epsilon,
        release.numeric.target.delta,
    )
    assert loaded.mechanism.certify(loaded.numeric) == release.mechanism.certify(release.numeric)


def test_the_variants_are_what_they_are_called(small_config: Configs, british: Configs) -> None:
    deep = make_plan(small_config(DEEP))
    assert deep.numeric.domains.strata_counts.shape[1] > 2
    flat = make_plan(british(**FLAT))
    assert flat.geography.levels == ()
    assert flat.level == "oa"
    tree = make_plan(british())
    codes = tree.geography.codes("msoa")
    assert not any(str(block).startswith(tuple(codes)) for block in tree.geography.blocks)
    assert tree.numeric.domains.n_domains > 1


def test_units_are_stored_once_and_are_the_units(small_config: Configs, tmp_path: Path) -> None:
    """One domain for all pools where no shares are needed; a plan that has other cells is refused."""
    counts = {}
    for level in ("st", "cty", "trct", "bgrp", "tabblk2010"):
        config = small_config(UNITS, {"plan.cell_level": level})
        release, folder = make_plan(config), tmp_path / level
        save_plan(release, folder)
        said = json.loads((folder / "plan.json").read_bytes())["choices"]
        assert said == {"cell_level": level, "tables": [], "thresholds": [], "workplaces": []}
        assert contradictions(config, release) == []
        assert contradictions(small_config(UNITS, {"plan.cell_level": "trct"}), release) == (
            [] if level == "trct" else ["level of cells"]
        )
        starts = release.geography.starts(level).tolist()
        domains = release.numeric.domains
        assert domains.cuts.tolist() == starts * domains.n_domains
        counts[level] = domains.n_domains
        other = "cty" if level != "cty" else "trct"
        edit_json(folder / "plan.json", lambda plan, other=other: plan["choices"].update(cell_level=other))
        with pytest.raises(ValueError, match=rf"domains.parquet: the cells are not the units of {other}"):
            load_plan(folder)
        edit_json(folder / "plan.json", lambda plan: plan["choices"].update(cell_level="ward"))
        with pytest.raises(ValueError, match=r"plan.json: the cells are of a level that .* does not have"):
            load_plan(folder)
    destinations = release.destinations.size
    assert counts == {"st": destinations, "cty": destinations, "trct": 1, "bgrp": 1, "tabblk2010": 1}
    assert len(pq.read_table(folder / "shares.parquet")) == destinations > 1
    by_size = make_plan(small_config({"plan.retention_min": "1"}))
    assert contradictions(small_config(UNITS), by_size) == ["level of cells"]


def test_altered_plan_files_are_refused_by_name(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    folder, other, fewer = tmp_path / "plan", tmp_path / "other", tmp_path / "fewer.csv"
    save_plan(make_plan(small_config()), folder)
    pd.read_csv(small_region["od"], dtype="str")[40:].to_csv(fewer, index=False)
    change = {"plan.split_threshold": "2", "weights.weight": "HU10"}
    save_plan(make_plan(small_config(change, jobs=fewer)), other)
    for name in PLAN_FILES:
        target, foreign = folder / name, (other / name).read_bytes()
        data = target.read_bytes()
        assert foreign != data
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 0xFF  # not UTF-8 in plan.json
        for content in (None, b"", bytes(flipped), foreign):
            if content is None:
                target.unlink()
            else:
                target.write_bytes(content)
            # The plan.json of another plan: the file that disagrees with it is named.
            words = "parquet" if name == "plan.json" and content == foreign else name
            with pytest.raises(ValueError, match=re.escape(words)):
                load_plan(folder)
        target.write_bytes(data)


def test_a_plan_of_another_format_is_refused(small_config: Configs, tmp_path: Path) -> None:
    save_plan(make_plan(small_config()), tmp_path / "plan")
    path = tmp_path / "plan" / "plan.json"
    edit_json(path, lambda document: document.update(format="another plan 7"))
    with pytest.raises(
        ValueError, match=r"plan\.json: its format is none of odsynth, and this version reads"
    ):
        load_plan(tmp_path / "plan")
    edit_json(path, lambda document: document.update(format=PLAN_FORMAT, mechanism="magic"))
    with pytest.raises(ValueError, match=r"plan\.json: the mechanism is not one of dirichlet, gaussian"):
        load_plan(tmp_path / "plan")


def test_a_destination_that_is_none_is_refused(small_config: Configs, tmp_path: Path) -> None:
    """It would be taken for the last one."""
    for name in ("domains.parquet", "shares.parquet"):
        folder = tmp_path / name
        save_plan(make_plan(small_config()), folder)
        path = folder / name
        table = pq.read_table(path)
        codes = ["nowhere", *table["destination"].to_pylist()[1:]]
        pq.write_table(table.set_column(0, "destination", pa.array(codes).dictionary_encode()), path)
        files = {name: sha256_of(path)}
        edit_json(folder / "plan.json", lambda plan, files=files: plan["files"].update(files))
        with pytest.raises(ValueError, match=rf"{name}: 1 destinations are not units of"):
            load_plan(folder)


# --- what planning says and refuses


def test_notes_name_files_but_no_folders(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Notes are published; a folder name may be confidential."""
    folder = tmp_path / "secret-survey-folder"
    folder.mkdir()
    weights, flows = folder / "weights.csv", folder / "flows.csv"
    table = pd.read_csv(small_region["population"], dtype="str")
    pd.concat([table[1:], table[:1].assign(GEOID="99999999999")]).to_csv(weights, index=False)
    rows = pd.read_csv(small_region["tract_flows"], dtype="str")
    pd.concat([rows, rows[:1].assign(h_tract="99999999999")]).to_csv(flows, index=False)
    release = make_plan(small_config({"weights.file": weights, "auxiliary.1.file": flows}))
    text = " ".join(release.notes)
    assert "weights.csv" in text
    assert "flows.csv: 1 row is outside the geography: left out" in text
    assert "secret-survey-folder" not in text
    assert "secret-survey-folder" not in json.dumps(release.config.quoted())


def test_repairs_and_fall_backs_are_noted_with_counts(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    crosswalk, flows = tmp_path / "xwalk.csv", tmp_path / "flows.csv"
    table = pd.read_csv(small_region["crosswalk"], dtype="str")
    table.loc[3, "trct"] = "25000000000"
    table.to_csv(crosswalk, index=False)
    rows = pd.read_csv(small_region["county_flows"], dtype="str")
    rows[rows["w_county"] == "03001"].to_csv(flows, index=False)
    tracts = tmp_path / "tracts.csv"
    inside = pd.read_csv(small_region["tract_flows"], dtype="str")
    inside[inside["w_tract"].str.startswith("03001")].to_csv(tracts, index=False)
    files = {"geography.file": crosswalk, "auxiliary.0.file": flows, "auxiliary.1.file": tracts}
    release = make_plan(small_config(files))
    geography, work = release.geography, np.unique(release.pools.slots.work)
    places = np.unique(geography.unit_of("trct", work))
    without = np.unique(geography.unit_of("trct", work[geography.unit_of("cty", work) == 1])).size
    assert 0 < without < places.size
    assert (
        f"{without:,} of {places.size:,} trct units with jobs have no flow in any auxiliary table: "
        in " ".join(release.notes)
    )
    assert "level trct: 1 of 120 rows disagreed with their block code" in " ".join(release.notes)


def test_lodes_pools_by_two_attributes_are_refused(small_config: Configs) -> None:
    config = small_config({"plan.pool_by": ["SA", "SE"]})
    with pytest.raises(geo_data.InputError, match="by several attributes") as caught:
        make_plan(config)
    assert "name one attribute in plan.pool_by" in str(caught.value)


def test_an_unknown_attribute_to_pool_by_is_refused_with_those_there_are(small_config: Configs) -> None:
    with pytest.raises(geo_data.InputError, match=r"pool_by names wage.* name attributes .*\(SA, SE, SI\)"):
        make_plan(small_config({"plan.pool_by": ["wage"]}))


@pytest.fixture
def refused_jobs(
    small_config: Configs, microdata: dict[str, Path], microdata_jobs: Jobs, tmp_path: Path
) -> Callable[..., geo_data.InputError]:
    """Return the error of a plan for microdata whose columns and categories have other names."""

    def refused(columns: dict[str, str], categories: dict[str, dict[str, str]], words: str, **plan: object):  # type: ignore[no-untyped-def]
        path = tmp_path / "jobs.parquet"
        table = pd.read_csv(microdata["csv"], dtype="str").rename(columns=columns)
        table.replace(categories).to_parquet(path, index=False)
        attributes = [columns.get(name, name) for name in ("sector", "age")]
        config = small_config(
            microdata_jobs(path, attributes=attributes), {f"plan.{k}": v for k, v in plan.items()}
        )
        with pytest.raises(geo_data.InputError, match=words) as caught:
            make_plan(config)
        return caught.value

    return refused


def test_attributes_named_like_our_own_columns_do_no_harm(
    small_config: Configs, microdata_jobs: Jobs
) -> None:
    """Class of worker is a common attribute: it must not overwrite the plan's column of that name."""
    for name in (
        "class",
        "n",
        "m",
        "work",
        "domain",
        "count",
        "pool",
        "place",
        "shared",
        "h_geocode",
        "Class",
    ):
        words = f'jobs.attributes: "{name}" is the name of a column of the release; rename'
        with pytest.raises(ConfigError, match=words):
            small_config(microdata_jobs("csv", attributes=[name]))


def test_categories_that_cannot_be_columns_are_refused_before_any_draw(
    refused_jobs: Callable[..., Any],
) -> None:
    for mark in (",", '"'):
        error = refused_jobs({}, {"sector": {"field": f"trade{mark} transport"}}, "categories")
        assert (error.column, error.count) == ("sector", 1)
        assert error.fix
        assert "transport" not in str(error)
    columns, categories = {"age": "a", "sector": "a_b"}, {"a": {"old": "b_c"}, "a_b": {"field": "c"}}
    assert refused_jobs(columns, categories, "the same column of the OD file").count == 1
    words = r"one of its columns .*h_geocode"  # it would take the place of the homes
    assert refused_jobs({"age": "h"}, {"h": {"old": "geocode"}}, words).count == 1


def test_a_level_named_like_our_own_columns_is_refused(small_config: Configs) -> None:
    for name in ("weight", "latitude", "Geometry"):
        with pytest.raises(ConfigError, match=f'"{name}" is the name of a column .*; rename the column'):
            small_config({"geography.levels": [name, "cty", "trct", "bgrp"]})


def test_job_source_reads_nothing_yet(small_config: Configs, small_geography: geo_data.Geography) -> None:
    job_source(small_config(jobs=Path("/nowhere/jobs.csv")), small_geography)


# --- the name of a partition


def partition(blocks: str, **units: str) -> str:
    """The name of the partition by the last of some levels; a block and a unit have a letter each."""
    places = np.zeros(len(blocks))
    columns = {level: pa.chunked_array([[*codes]]).dictionary_encode() for level, codes in units.items()}
    geography = ordered_geography("block", pa.chunked_array([[*blocks]]), columns, places, places)
    return partition_name([*units][-1], geography)


def test_the_name_of_a_partition_covers_every_block_with_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    county, ward = partition("abcde", cty="AABBB"), partition("abcde", cty="AABBB", ward="PPQQR")
    assert implies(county, ward)
    assert not implies(ward, county)
    others = [
        partition("abcde", cty="AABBB", ward="PPQRR"),  # d moved
        partition("abcde", cty="AAABB", ward="PPPQR"),
        partition("abcdf", cty="AABBB", ward="PPQQR"),  # another block
        partition("abcde", cty="AABBB", ward="PPQQS"),  # coded anew
    ]
    assert len({ward, *others}) == 5
    assert not any(implies(one, other) for one, other in itertools.permutations([ward, *others], 2))
    # A name of before, of codes alone, is one that nothing is known of.
    assert not any(implies(*pair) for pair in [("partition a", "partition a"), ("full", "partition a")])
    # Blocks are in the order of their codes, whatever order other levels give them.
    assert partition("abdce", cty="AABBB") == county
    monkeypatch.setattr(plan, "_HASHED_BLOCKS", 2)
    assert partition("abcde", cty="AABBB", ward="PPQQR") == ward


def test_the_name_of_a_partition_covers_how_much_an_external_zone_is(tmp_path: Path) -> None:
    """The code of its block is c19 in each, and a home in c11 is in its part, or in that of c."""
    path, places = tmp_path / "crosswalk.csv", {"centroid": ("y", "x")}
    path.write_text("cty,block,y,x\na1,a11,1,1\na9,a91,1,1.1\n")
    names = set()
    for zones in (["c", "c1"], ["c", "c19"], ["c", "c1"][::-1]):
        geography = geo_data.read_crosswalk(
            path, levels=["cty"], block="block", external_zones=zones, **places
        )
        assert list(geography.blocks) == ["a11", "a91", "c19", "c99"]
        names.add(partition_name("cty", geography))
    assert len(names) == 2
