"""Workplaces that a plan expects, and shares of epsilon for measuring them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from geo_data.geography import Geography
from geo_data.jobs import Slots
from geo_data.proxy_truth import proxy_workplaces
from pipelines.planning.workplaces import (
    FEWEST_TOLD,
    SHARES,
    WorkplaceShares,
    expected_slots,
    listed_slots,
)
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.workload import Table

pytestmark = pytest.mark.quick

CATEGORIES = {"age": ("old", "young"), "mode": ("bus", "car", "foot")}


def flows(geography: Geography, level: str, jobs: list[int]) -> geo_data.Flows:
    """A table of as many jobs in each unit of a level."""
    unit = np.arange(geography.n_units(level), dtype=np.int32)
    return geo_data.Flows(level, level, unit, unit, np.array(jobs, float), {"rows": 0}, "flows")


def in_units(slots: Slots, geography: Geography, level: str) -> list[int]:
    return np.bincount(geography.unit_of(level, slots.work), minlength=geography.n_units(level)).tolist()


def test_as_many_jobs_are_expected_as_flows_have(small_geography: Geography) -> None:
    """The finer table divides those of the coarser one; and nobody works nowhere."""
    counties, tracts = (small_geography.n_units(level) for level in ("cty", "trct"))
    coarse = flows(small_geography, "cty", [6000, 3000][:counties])
    fine = flows(small_geography, "trct", [100 * (i + 1) for i in range(tracts - 1)] + [0])
    slots = expected_slots(small_geography, "trct", CATEGORIES, [coarse, fine], None, {})
    assert in_units(slots, small_geography, "cty") == pytest.approx([6000, 3000], abs=3)
    of_tracts = np.array(in_units(slots, small_geography, "trct"))
    assert of_tracts.min() >= 1
    county = small_geography.unit_of("cty", small_geography.starts("trct").astype(np.int32))
    for number in range(counties):
        inside = (county == number) & (fine.flow > 0)
        share = of_tracts[inside] / of_tracts[inside].sum()
        assert share == pytest.approx(fine.flow[inside] / fine.flow[inside].sum(), abs=0.01)
    assert slots.categories == CATEGORIES
    kinds = np.unique(np.stack([*slots.attributes.values()]), axis=1, return_counts=True)[1]
    assert kinds == pytest.approx(np.full(6, len(slots) / 6), rel=0.2)


def test_a_number_of_jobs_that_is_told_goes_before_that_of_tables(small_geography: Geography) -> None:
    table = flows(small_geography, "cty", [6000, 3000][: small_geography.n_units("cty")])
    for tables in ([], [table]):
        slots = expected_slots(small_geography, "trct", {}, tables, 2500, {})
        assert len(slots) == pytest.approx(2500, abs=small_geography.n_units("trct"))


@pytest.mark.parametrize("given", [(), ("age",), ("mode",), ("age", "mode")], ids=str)
def test_categories_have_the_shares_that_are_given(
    given: tuple[str, ...], small_geography: Geography
) -> None:
    """Of each tract, independent of each other; others are even, and blocks have as many jobs as before."""
    random, tracts = np.random.default_rng(len(given)), small_geography.n_units("trct")
    of_tracts = {name: random.dirichlet(np.ones(len(CATEGORIES[name])), tracts) for name in given}
    of_block = small_geography.units_of_blocks("trct")
    shares = {name: of_tract[of_block] for name, of_tract in of_tracts.items()}
    total = 500 * small_geography.n_blocks
    slots = expected_slots(small_geography, "trct", CATEGORIES, [], total, shares)
    even = expected_slots(small_geography, "trct", CATEGORIES, [], total, {})
    of_blocks = [s.jobs(small_geography.n_blocks) for s in (slots, even)]
    assert np.abs(of_blocks[0] - of_blocks[1]).max() <= 1
    of_all = {
        name: of_tracts.get(name, np.full((tracts, len(c)), 1 / len(c))) for name, c in CATEGORIES.items()
    }
    counts = np.zeros((tracts, 2, 3))
    tract = small_geography.unit_of("trct", slots.work)
    np.add.at(counts, (tract, slots.attributes["age"], slots.attributes["mode"]), 1)
    expected = np.einsum("ta,tm->tam", of_all["age"], of_all["mode"])
    assert counts / counts.sum(axis=(1, 2), keepdims=True) == pytest.approx(expected, abs=0.005)


def test_a_public_table_is_expected_with_all_categories(small_geography: Geography) -> None:
    first = small_geography.starts("trct").astype(np.int32)[:2]
    table = Slots(first, {"age": np.zeros(2, np.uint8)}, {"age": ("old",)})
    listed = listed_slots(table, small_geography, "trct", {"age": ("old", "young")})
    assert listed.categories == {"age": ("old", "young")}
    assert len(listed) == small_geography.n_units("trct")  # one for each unit that the table has not
    with pytest.raises(ValueError, match="age"):
        listed_slots(table, small_geography, "trct", {"age": ("young",)})


@pytest.fixture
def shares(small_geography: Geography) -> WorkplaceShares:
    slots = expected_slots(small_geography, "trct", CATEGORIES, [], 50 * small_geography.n_blocks, {})
    return WorkplaceShares(slots, small_geography, "trct")


def test_shares_are_changed_one_at_a_time(shares: WorkplaceShares) -> None:
    block = shares.geography.block_level
    for tables in shares.near(shares.first):
        changed = [a for a, b in zip(tables, shares.first, strict=True) if a != b]
        assert len(changed) == 1
        assert changed[0].share in SHARES
    assert [(t.work, t.by) for t in shares.first] == [
        (None, ("age", "mode")),
        (block, ()),
        ("trct", ("age", "mode")),
    ]


def test_less_is_lost_where_more_epsilon_is_spent(shares: WorkplaceShares) -> None:
    """Where tables of homes tell next to nothing of jobs at workplaces."""
    block = shares.geography.block_level

    def choices(tables: tuple[TableChoice, ...]) -> Choices:
        others = TableChoice(None, (), "trct", 1 - sum((t.share for t in tables), Fraction(1, 10**6)))
        return Choices("trct", 1, (), cell_level=block, tables=(others,), workplaces=tables)

    of_blocks = Table(None, block, (), Fraction(1))
    of_ages = Table(None, "trct", ("age",), Fraction(1))
    for table, member in ((of_blocks, 1), (of_ages, 2)):
        lost = []
        for tables in (shares.first, *shares.near(shares.first)):
            lost.append((tables[member].share, shares.loss(choices(tables), Fraction(2), table)))
        assert [loss for _, loss in sorted(set(lost))] == sorted({loss for _, loss in lost}, reverse=True)
    assert shares.loss(choices(shares.first), Fraction(2), Table("trct", "trct", (), Fraction(1))) == 0
    nobody_tells = Table(None, block, ("age",), Fraction(1))
    assert shares.loss(choices(shares.first), Fraction(2), nobody_tells) == 1


def test_homes_tell_of_workplaces(shares: WorkplaceShares) -> None:
    """Each pool's homes add up to its jobs: the fewer cells they are counted in, the better."""
    block, first = shares.geography.block_level, shares.first
    cells = {
        level: Choices("trct", 1, (), cell_level=level, workplaces=first, pool_by=("age",))
        for level in (block, "trct", "cty")
    }
    for attributes in ((), ("age",)):
        table = Table(None, block, attributes, Fraction(1))
        lost = [shares.loss(choices, Fraction(2), table) for choices in cells.values()]
        assert 1 > lost[0] > lost[1] > lost[2] > 0, attributes
    by_mode = Table(None, block, ("mode",), Fraction(1))
    assert shares.loss(cells["cty"], Fraction(2), by_mode) == 1


@pytest.mark.parametrize("listed", [False, True])
def test_jobs_as_they_might_be_are_about_as_many(listed: bool, shares: WorkplaceShares) -> None:
    slots, geography = shares.slots, shares.geography
    unit = np.asarray(geography.units_of_blocks("trct"))
    drawn = [proxy_workplaces(slots, unit, seed, listed=listed) for seed in range(5)]
    assert np.mean([len(jobs) for jobs in drawn]) == pytest.approx(len(slots), rel=0.15)
    assert all(np.isin(jobs.work, slots.work).all() for jobs in drawn)
    expected = np.array(in_units(slots, geography, "trct"))
    off = [np.abs(in_units(jobs, geography, "trct") / expected - 1) for jobs in drawn]
    assert (np.mean(off) > 0.05) == (not listed)


SMALL = """
[release]
name = "Small"
state = "sm"
year = 2020
job_type = "JT00"
out = "out"
mechanism = "geometric"
[privacy]
protects = "record"
epsilon = "2"
delta = "0"
[jobs]
format = "microdata"
file = "jobs.csv"
home = "live"
work = "toil"
population = "residents"
attributes = ["age"]
[[attribute]]
name = "age"
categories = ["young", "mid", "old"]
[plan]
expected_jobs = 300
[geography]
file = "x.csv"
block = "blk"
levels = ["cty", "trct"]
latitude = "lat"
longitude = "lon"
[[workload]]
home = "trct"
attributes = ["age"]
"""


def _configured(tmp_path: Path, text: str) -> pipelines.ReleaseConfig:
    """A configuration of two counties, of three tracts of six blocks each."""
    places = [
        (
            f"{'AB'[i]}{'xyz'[j]}{k}",
            "AB"[i],
            f"{'AB'[i]}{'xyz'[j]}",
            50 + 0.3 * i + 0.01 * k,
            1 + 0.1 * j + 0.005 * k,
        )
        for i, j, k in itertools.product(range(2), range(3), range(6))
    ]
    table = pd.DataFrame(places, columns=["blk", "cty", "trct", "lat", "lon"])
    table.to_csv(tmp_path / "x.csv", index=False)
    return pipelines.parse_config(text, tmp_path, "small.toml")


@pytest.mark.usefixtures("each_candidate_on_every_draw")
def test_shares_leave_some_of_epsilon_for_flows(tmp_path: Path) -> None:
    """A table of residents tells most of what is asked here, and workplaces would have all the rest."""
    choices = pipelines.make_plan(_configured(tmp_path, SMALL)).choices
    assert 0.5 < sum(table.share for table in (*choices.workplaces, *choices.tables)) < 1


def test_blocks_in_which_noise_may_hide_jobs_share_pools(tmp_path: Path) -> None:
    """Unless a public table lists them, or the configuration says otherwise."""
    (tmp_path / "listed.csv").write_text("toil,age,jobs\nAx0,old,5\nBz1,mid,300\n", encoding="utf-8")
    listed = SMALL.replace("expected_jobs = 300", "") + '[workplaces]\nfile = "listed.csv"\ncount = "jobs"\n'
    for text, rule, least in (
        (SMALL, "", FEWEST_TOLD),
        (SMALL, "pool_below = 1", 1),
        (listed, "", 1),
    ):
        cells = f'[plan]\ncoarsening = "distance"\ndistance_miles = "40"\n{rule}'
        config = _configured(tmp_path, text.replace("[plan]", cells))
        assert pipelines.make_plan(config).choices.pool_below == least
