"""Policies of parts and of distances: what is public by them, what they cost, and how that adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from helpers import alone
from pipelines import Release, plan, run, verify
from pipelines.cli.summary import budget_line, ledger_account
from pipelines.ledger.ledger import Ledger
from pipelines.planning import search
from pipelines.planning.public_inputs import job_source
from pipelines.plans.plan import Choices
from pipelines.release.description import file_names
from synth.geometric.mechanism import noise_loss

from .helpers import Configs
from .kinds import COUNTIES, NOISE, config_of, distance, measured

OF_PARTS = pytest.mark.parametrize("name", ["counties", "counties by noise", "counties and zones"])
SMALL = measured("trct", "age")
TWO_TABLES = Choices("trct", 8, (), cell_level="trct", tables=(SMALL,))


def homes_by_county(jobs: pd.DataFrame, by: list[str]) -> pd.Series:
    return jobs.groupby([*by, jobs["h_geocode"].str[:5]])["S000"].sum().sort_index()


def confidential(config: pipelines.ReleaseConfig, release: Release) -> pd.DataFrame:
    """The jobs as the release counts them: by work block, home block and attributes."""
    geography = release.plan.geography
    source = job_source(config, geography)
    names = tuple(getattr(source, "attributes", ()))
    records = source.records(names)
    categories = release.plan.pools.slots.categories
    columns = {name: np.array(categories[name], object)[records.attributes[name]] for name in names}
    ends = {"w_geocode": geography.blocks[records.work], "h_geocode": geography.blocks[records.home]}
    return pd.DataFrame({**ends, **columns, "S000": 1})


@OF_PARTS
def test_homes_of_each_part_are_as_many_as_in_the_confidential_file(
    name: str, released: Callable[[str], Release]
) -> None:
    release = released(name)
    true = confidential(config_of(release), release)
    names = file_names(release.plan.config)
    by = [column for column in true if column not in ("h_geocode", "S000")]
    for below in release.plan.implicates.folders:
        kinds = [kind for kind in ("jobs_parquet", "od_parquet", "aux_parquet") if kind in names]
        kinds = kinds[:1] if "jobs_parquet" in kinds else kinds
        drawn = pd.concat([pd.read_parquet(release.public / below / names[kind]) for kind in kinds])
        drawn = drawn.assign(S000=drawn.get("S000", 1))
        assert homes_by_county(drawn, by).equals(homes_by_county(true, by)), name
    fine = true.groupby(["w_geocode", "h_geocode"])["S000"].sum()
    assert not fine.equals(drawn.groupby(["w_geocode", "h_geocode"])["S000"].sum())
    counties = {code[:5] for code in true["h_geocode"]}
    assert len(counties) == (
        4 if name == "counties and zones" else 2
    )  # an external zone is a part of its own


def test_full_is_what_is_had_without_a_word(small_config: Configs) -> None:
    assert small_config({"privacy.policy": "full"}).public == small_config().public


def test_a_run_is_debited_on_its_terms(paid_config: Configs, book: Path) -> None:
    """What adds up is tested with the ledger; counties of another geography do not compare with these."""
    config = paid_config({"privacy.epsilon": "2", "plan.retention_min": "1"}, COUNTIES)
    made = run(config)
    other = "parts st:0123456789abcdef/cty:0123456789abcdef"
    (debit,) = (entry.policy for entry in Ledger(book).entries() if entry.kind == "debit")
    assert debit == f"{made.plan.policy.name}; homes {made.plan.homes}; records 1"
    (account,) = Ledger(book).accounts()
    assert account.terms is not None
    assert f"guarantee of: {account.terms.words}" in ledger_account(account)
    settings, numeric = config.ledger, made.plan.numeric
    assert settings is not None
    for policy, composes in (("full", True), (other, False)):
        domains = replace(numeric.domains, policy=replace(numeric.domains.policy, name=policy))
        named = replace(made.plan, numeric=replace(numeric, domains=domains))
        line, refused = budget_line(settings, named, made.plan.certify())
        assert ("DOES NOT ADD UP" in line) is refused is not composes
        assert (f"the sum is a guarantee of: {account.terms.words}" in line) is composes


def test_a_reviewed_plan_is_for_jobs_of_the_same_parts(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    planned = plan(small_config(COUNTIES))
    jobs = pd.read_csv(
        small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str", "createdate": "str"}
    )
    homes = sorted(jobs["h_geocode"].unique())
    row = jobs.index[jobs["h_geocode"] == homes[0]][0]
    there = set(jobs.loc[jobs["w_geocode"] == jobs.loc[row, "w_geocode"], "h_geocode"])
    jobs.loc[row, "h_geocode"] = next(home for home in reversed(homes) if home not in there)
    (tmp_path / "moved").mkdir()
    moved = tmp_path / "moved" / small_region["od"].name  # a plan quotes the names of files
    jobs.to_csv(moved, index=False)
    config = small_config(COUNTIES, {"jobs.file": str(moved)})
    with pytest.raises(geo_data.InputError, match="the number, work block, attribute or part of homes"):
        run(config, plan=planned.folder)


@OF_PARTS
def test_posterior_draws_have_as_many_homes_in_each_part(
    name: str, released: Callable[[str], Release]
) -> None:
    release = released(name)
    jobs = confidential(config_of(release), release)
    opened = pipelines.open_release(release.public).draws()
    drawn = opened.implicates("cty", "tabblk2010")
    drawn = drawn.melt(["home", "work"], var_name="draw", value_name="jobs")
    counted = drawn.groupby(["work", "home", "draw"])["jobs"].sum()
    true = homes_by_county(jobs, ["w_geocode"])
    true = pd.concat({str(i + 1): true for i in range(19)}, names=["draw"])
    true = true.reorder_levels([*range(1, true.index.nlevels), 0]).sort_index()
    counted = counted[counted > 0].sort_index()
    assert counted.index.tolist() == true.index.tolist(), name
    assert (counted.to_numpy() == true.to_numpy()).all(), name
    fine = opened.flows("trct", "tabblk2010")
    assert (fine["high"] > fine["low"]).any(), name


@pytest.mark.parametrize("case", ["another table", "no table", "one record more"])
def test_a_table_that_no_neighbours_change_costs_nothing(
    case: str,
    config_text: Callable[..., str],
    microdata_jobs: Callable[..., Any],
    tmp_path: Path,
    clean_source: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of the parts of homes; and of the whole region, under "full" and where totals are protected."""
    changes, table = microdata_jobs("parquet") | NOISE, SMALL
    if case == "another table":
        changes, table = changes | COUNTIES, replace(SMALL, home="cty")
    else:
        changes, table = changes | {"plan.cell_level": "st"}, replace(SMALL, home="st")
    if case == "one record more":
        jobs = pd.read_parquet(changes["jobs"]["file"]).groupby(["toil", "sector", "age"]).size()
        jobs.reset_index(name="n").to_csv(tmp_path / "workplaces.csv", index=False)
        changes |= {"workplaces": {"file": str(tmp_path / "workplaces.csv"), "count": "n"}}
    chosen = replace(TWO_TABLES, cell_level=changes["plan.cell_level"], tables=(table,))
    monkeypatch.setattr(search, "choose", lambda *_: chosen)
    config = pipelines.parse_config(config_text(changes), tmp_path, "policy.toml")
    release = run(config)
    guarantee, numeric = release.plan.certify(), release.plan.numeric
    assert [row.epsilon > 0 for row in guarantee.classes] == [case == "another table", False]
    nothing = case == "no table"
    assert (
        (guarantee.epsilon == 0)
        if nothing
        else (0 <= numeric.target.epsilon - guarantee.epsilon < Fraction(1, 10**9))
    )
    public = release.public
    assert [check.name for check in verify(public)][-1] == "for release"
    assert alone(public) is None


@pytest.mark.parametrize("name", ["near", "far"])
def test_a_table_that_no_step_changes_costs_nothing_and_leaves_all_of_epsilon_to_others(
    name: str, released: Callable[[str], Release]
) -> None:
    plan = released(name).plan
    guarantee, numeric = plan.certify(), plan.numeric
    blocks, coarse = guarantee.classes
    assert guarantee.epsilon <= numeric.target.epsilon < guarantee.epsilon * (1 + Fraction(1, 10**9))
    assert blocks.epsilon == noise_loss(numeric.parameters.ratio)  # type: ignore[attr-defined]
    assert guarantee.epsilon == blocks.epsilon + coarse.epsilon
    assert (coarse.epsilon > 0) == (name == "far")


@pytest.mark.parametrize("name", ["near", "far", "near zones"])
def test_where_each_part_lies_in_one_tract_flows_between_tracts_are_public(
    name: str, released: Callable[[str], Release]
) -> None:
    flows = pipelines.open_release(released(name).public).draws().flows("trct", "trct")
    assert (flows["high"] > flows["low"]).any() == (name == "far")


def test_equal_distances_are_one_setting(small_config: Configs) -> None:
    assert small_config(distance(16)).public == small_config(distance("16.0")).public
