"""Releases under a policy of parts: made, checked both ways, resumed, found out when changed, and paid."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
import pipelines
from helpers import alone, forge, forging, plan_again, refuse_each
from pipelines import ConfigError, Release, plan, resume, run, verify
from pipelines.cli.summary import budget_line, ledger_account
from pipelines.ledger.budgets import Budget, PolicyError
from pipelines.ledger.ledger import Ledger
from pipelines.ledger.terms import Terms
from pipelines.planning import search
from pipelines.planning.public_inputs import job_source
from pipelines.plans.form import plan_hash
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.storage import load_plan
from pipelines.release.certificate import (
    PartitionField,
    certificate_schema,
)
from pipelines.release.layout import file_names
from pipelines.running.report import plan_summary
from pipelines.storage.checksums import sha256_of
from pipelines.views.maps.page import certificate_words

from .helpers import Configs, data_of, interrupted, left_over, seeded

COUNTIES = {"privacy.policy": {"partition": "cty"}}
URNS = {"plan.pool_by": ["age"]}
NOISE = {
    "release.mechanism": "geometric",
    "plan.retention_min": None,
    "plan.split_threshold": None,
    "plan.coarsening": "units",
    "plan.cell_level": "trct",
    "plan.pool_by": [],
}
SMALL = TableChoice(None, ("age",), "trct", Fraction(1, 5))
TWO_TABLES = Choices("trct", 8, (), cell_level="trct", tables=(SMALL,))  # and some blocks share pools


@pytest.fixture(scope="module")
def made(
    config_text: Callable[..., str],
    microdata_jobs: Callable[..., Any],
    zones: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    clean_source: object,
) -> dict[str, tuple[pipelines.ReleaseConfig, Release]]:
    """A release of each mechanism: of single jobs with attributes, and of OD files with external zones."""
    found = {}
    for name, changes in {
        "dirichlet": (microdata_jobs("parquet"), URNS),
        "geometric": (microdata_jobs("parquet"), NOISE),
        "zones": (zones, {"release.implicates": 2}),
    }.items():
        folder = tmp_path_factory.mktemp(name)
        config = pipelines.parse_config(config_text(*changes, COUNTIES), folder, "policy.toml")
        with pytest.MonkeyPatch.context() as patch:
            if name == "geometric":  # which the planner takes its time to find
                patch.setattr(search, "choose", lambda *_: TWO_TABLES)
            found[name] = config, run(config)
    return found


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


def test_homes_of_each_part_are_as_many_as_in_the_confidential_file(
    made: dict[str, tuple[pipelines.ReleaseConfig, Release]],
) -> None:
    for name, (config, release) in made.items():
        true = confidential(config, release)
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
        assert len(counties) == (2 if name != "zones" else 4)  # an external zone is a part of its own


def test_releases_verify_both_ways_and_say_their_policy(
    made: dict[str, tuple[pipelines.ReleaseConfig, Release]],
) -> None:
    for name, (_, release) in made.items():
        assert [check.name for check in verify(release.public)][-1] == "for release"
        assert alone(release.public) is None
        document = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
        schema = json.loads((release.public / "certificate.schema.json").read_text(encoding="utf-8"))
        assert schema == certificate_schema()
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        certificate = release.certificate
        policy = certificate.policy
        assert isinstance(policy, PartitionField)
        assert (policy.partition, policy.parts) == ("cty", release.plan.policy.n_parts)
        assert policy.name == release.plan.policy.name
        definition = certificate.definition
        assert 'had another origin in the same "cty"' in definition.words
        assert 'lie in the same "cty"' in definition.neighbours
        for text in (
            (release.public / "README.md").read_text(encoding="utf-8"),
            certificate_words(certificate, signed=False).replace("&quot;", '"').replace("&#x27;", "'"),
        ):
            one_line = " ".join(text.split())
            assert policy.words in one_line
            assert 'another home in the same "cty"' in one_line
            assert "No confidential home was read" not in one_line
        readme = " ".join((release.public / "README.md").read_text(encoding="utf-8").split())
        assert 'All this is said of homes in one "cty"' in readme
        assert ("nothing else but what is public by policy was computed" in readme) == (name == "geometric")
        assert "nothing else was computed" not in readme
        assert "a division of the blocks of one part of homes into cells" in readme
        assert "all blocks into cells" not in readme
        assert policy.words in plan_summary(release.plan, release.plan.certify())
        if name == "geometric":
            assert len(release.plan.numeric.secondary) == 1, "several tables are measured"


def test_a_policy_that_is_changed_is_refused_both_ways(
    made: dict[str, tuple[pipelines.ReleaseConfig, Release]], tmp_path: Path
) -> None:
    release = made["dirichlet"][1]
    stated = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))

    other = partial(forging, stated)

    def planned(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
        return lambda public: plan_again(public, lambda p: change(p["configuration"]["privacy"]))

    def cut_elsewhere(public: Path) -> None:
        """A domain that begins inside a county, with a plan.json and a certificate that name it."""
        path = public / "plan" / "domains.parquet"
        table = pq.read_table(path)
        cuts = table["cuts"].to_pylist()
        at = next(i for i, own in enumerate(cuts) if own[0] > 0)
        cuts[at][0] += 1
        column = pa.array(cuts, table.schema.field("cuts").type)
        pq.write_table(table.set_column(2, table.schema.field("cuts"), column), path)
        plan_again(public, lambda plan: plan["files"].update({"domains.parquet": sha256_of(path)}))

    def moved_home(public: Path) -> None:
        """One job whose home is in another county."""
        names = file_names(release.plan.config)
        for kind in ("od_parquet", "jobs_parquet"):
            path = public / names[kind]
            table = pd.read_parquet(path)
            homes = table["h_geocode"]
            here = homes.str[:5]
            first = table.index[here == here.min()][0]
            table.loc[first, "h_geocode"] = homes[here == here.max()].iloc[0]
            pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)
        forge(public, stated)

    refuse_each(
        release.public,
        tmp_path,
        [
            (other(lambda d: d["policy"].update(partition="trct")), "guarantee"),
            (other(lambda d: d["policy"].update(name="parts st:0/cty:1")), "guarantee"),
            (other(lambda d: d["policy"].update(parts=3)), "guarantee"),
            (other(lambda d: d["policy"].update(words="Nothing is public.")), "guarantee"),
            (other(lambda d: d["definition"].update(neighbours="Any.")), "guarantee"),
            (other(lambda d: d.update(policy=None)), "guarantee"),
            (
                lambda public: plan_again(public, lambda p: p["configuration"]["privacy"].pop("policy")),
                "plan",
            ),
            (
                lambda public: plan_again(
                    public, lambda p: p["configuration"]["privacy"].update(policy={"partition": "trct"})
                ),
                "plan",
            ),
            (cut_elsewhere, "plan"),
            (moved_home, "data"),
        ],
    )


def test_a_run_that_is_killed_goes_on_to_the_same_release(
    small_config: Configs, frozen_day: object, clean_source: object
) -> None:
    config, whole = small_config(COUNTIES), seeded(small_config(COUNTIES))
    interrupted(config)
    assert data_of(resume(config.release.out)) == data_of(whole)


def test_what_cannot_be_a_policy_is_refused_before_anything_is_paid(
    paid_config: Configs, book: Path, strips: dict[str, Any], small_region: dict[str, Path]
) -> None:
    for policy, changes, words in (
        ("half", {}, '"half" is not a policy; write "full", or { partition = "cty" }'),
        ({"partition": "cty", "distance": "3"}, {}, "is not a policy"),
        ({"partition": 3}, {}, "is not a policy"),
        ({"partition": "ward"}, {}, '"ward" is not a level of the geography; use "st" or "cty"'),
        ({"partition": "tabblk2010"}, {}, "is the block: every home would be public"),
        ({"partition": "stplc"}, strips, "are areas that cut units of levels"),
        ({"partition": "cty"}, {"workplaces": {"file": "w.csv"}}, "does not tell in which part homes are"),
    ):
        with pytest.raises(ConfigError) as caught:
            paid_config(changes, {"privacy.policy": policy})
        assert len(caught.value.problems) == 1
        assert words in str(caught.value)
    config = paid_config({"privacy.policy": {"partition": "st"}})
    for act in (plan, run):
        with pytest.raises(
            geo_data.InputError, match='there is one st only, and one part is policy = "full"'
        ):
            act(config)
    assert left_over(config) == []
    assert not book.exists()


def test_full_is_what_is_had_without_a_word(small_config: Configs) -> None:
    assert small_config({"privacy.policy": "full"}).public == small_config().public


def test_a_ledger_adds_up_what_composes_and_nothing_else(paid_config: Configs, book: Path) -> None:
    """Full, counties and tracts of them; counties of another geography do not compare with these."""
    config = paid_config({"privacy.epsilon": "2", "plan.retention_min": "1"}, COUNTIES)
    budget = Budget(Fraction(20), Fraction("1e-4"))
    given = {"data_set": "jobs", "budget": budget, "plan_sha256": "0" * 64, "release": "r"}
    cost = {"epsilon": Fraction(1), "delta": Fraction(0)}
    Ledger(book).debit(**given, **cost)
    made = run(config)
    name = made.plan.policy.name
    finer, other = f"{name}/trct:0", "parts st:0123456789abcdef/cty:0123456789abcdef"
    entries = Ledger(book).entries()
    records = f"{made.plan.homes}; records 1"
    debits = [entry.policy for entry in entries if entry.kind == "debit"]
    assert debits == [None, f"{name}; homes {records}"]
    for paid, policy in ((True, finer), (False, other), (True, "full"), (False, f"{name}/trct:1")):
        if paid:
            assert Ledger(book).debit(**given, **cost, policy=policy).policy in (policy, None)
            continue
        entries = Ledger(book).entries()
        for pay in (Ledger(book).debit, partial(Ledger(book).debit, rehearse=True)):
            with pytest.raises(PolicyError, match=r"this release and entry \d cost does not add up.* Fix: "):
                pay(**given, **cost, policy=policy)
        assert Ledger(book).entries() == entries
    (account,) = Ledger(book).accounts()
    assert account.terms == Terms(finer)  # the first does not say whose jobs it was about
    assert f"guarantee of: {account.terms.words}" in ledger_account(account)
    settings, numeric = config.ledger, made.plan.numeric
    assert settings is not None
    for policy, composes in ((name, True), (other, False)):
        domains = replace(numeric.domains, policy=replace(numeric.domains.policy, name=policy))
        named = replace(made.plan, numeric=replace(numeric, domains=domains))
        line, refused = budget_line(settings, named, made.plan.certify())
        assert ("DOES NOT ADD UP" in line) is refused is not composes
        assert (f"the sum is a guarantee of: {account.terms.words}" in line) is composes


def test_a_reviewed_plan_is_for_jobs_of_the_same_parts(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    planned = plan(small_config(COUNTIES))
    assert "beyond what the policy makes public" in planned.text()
    assert "without any confidential data" not in planned.text()
    numbers = json.loads((planned.folder / "forecast.json").read_text(encoding="utf-8"))
    assert numbers["policy"]["name"] == planned.plan.policy.name
    assert load_plan(planned.folder / "plan").policy.name == planned.plan.policy.name
    assert plan_hash(planned.folder / "plan") == planned.sha256
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
    with pytest.raises(geo_data.InputError, match="another number, work block, attribute or part of homes"):
        run(config, plan=planned.folder)


def test_posterior_draws_have_as_many_homes_in_each_part(
    made: dict[str, tuple[pipelines.ReleaseConfig, Release]], tmp_path: Path
) -> None:
    for name, (config, release) in made.items():
        files = release.write_intervals(tmp_path / name, draws=19)
        opened, jobs = (
            pipelines.open_release(release.public).draws(files["draws"]),
            confidential(config, release),
        )
        names = [name for name in opened.attributes if name in jobs]
        drawn = opened.implicates("cty", "tabblk2010", names)
        drawn = drawn.melt(["home", "work", *names], var_name="draw", value_name="jobs")
        counted = drawn.groupby(["work", *names, "home", "draw"])["jobs"].sum()
        true = homes_by_county(jobs, ["w_geocode", *names])
        true = pd.concat({str(i + 1): true for i in range(19)}, names=["draw"])
        true = true.reorder_levels([*range(1, true.index.nlevels), 0]).sort_index()
        counted = counted[counted > 0].sort_index()
        assert counted.index.tolist() == true.index.tolist(), name
        assert (counted.to_numpy() == true.to_numpy()).all(), name
        fine = opened.flows("trct", "tabblk2010")
        assert (fine["high"] > fine["low"]).any(), name


def test_what_is_made_of_a_release_knows_its_policy(
    made: dict[str, tuple[pipelines.ReleaseConfig, Release]], tmp_path: Path
) -> None:
    release = made["dirichlet"][1]
    said = pipelines.attackers(release.public, tmp_path / "attackers").text()
    assert 'two homes (in the same "cty")' in " ".join(said.split())
    assert '"cty" of the home; homes are drawn pool by pool' in " ".join(said.split())


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
        else (0 <= numeric.epsilon - guarantee.epsilon < Fraction(1, 10**9))
    )
    public = release.public
    assert [check.name for check in verify(public)][-1] == "for release"
    assert alone(public) is None
