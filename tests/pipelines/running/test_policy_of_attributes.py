"""Releases that protect homes together with attributes: made, checked both ways, found out when changed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
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
from pipelines import ConfigError, PublicReleaseError, Release, load_config, plan, run, verify
from pipelines.ledger.budgets import Budget, PolicyError
from pipelines.ledger.ledger import Ledger
from pipelines.ledger.terms import Terms
from pipelines.planning import search
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.release.certificate import AttributeField, certificate_schema
from pipelines.release.layout import file_names
from pipelines.running.report import plan_summary
from pipelines.service.public.preparation import Prepared, prepare
from pipelines.service.queue.comparisons import Variation, varied
from pipelines.views.exports.exporting import FORMATS
from pipelines.views.maps.page import certificate_words

from .helpers import Configs, everything, seeded
from .test_policy import NOISE

AGES = ["middle", "old", "young"]
SECTORS = ["field", "office"]
SMALL = TableChoice(None, ("sector",), "trct", Fraction(1, 5))
CHOSEN = {  # which the planner takes its time to find
    "dirichlet": Choices("trct", 8, (1.0,), ("sector",)),
    "geometric": Choices("trct", 8, (), cell_level="trct", tables=(SMALL,)),
    "several": Choices("trct", 8, (), cell_level="trct"),
}
Made = dict[str, tuple[pipelines.ReleaseConfig, Release]]


def secret(**attributes: list[str]) -> dict[str, Any]:
    return {"privacy.policy": {"attribute": attributes}}


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "choose", lambda *_: CHOSEN["geometric"])


@pytest.fixture(scope="module")
def made(
    config_text: Callable[..., str],
    microdata_jobs: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
    clean_source: object,
) -> Made:
    """A release of each mechanism, and one of two implicates with no public attribute."""
    found = {}
    two = {"release.implicates": 2} | secret(sector=SECTORS, age=AGES)
    for name, changes in {
        "dirichlet": {"plan.pool_by": ["sector"]} | secret(age=AGES),
        "geometric": NOISE | secret(age=AGES),
        "several": NOISE | two,
    }.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "policy.toml").write_text(config_text(microdata_jobs("parquet"), changes), encoding="utf-8")
        config = load_config(folder / "policy.toml")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search, "choose", lambda *_, chosen=CHOSEN[name]: chosen)
            found[name] = config, run(config)
    return found


def released(release: Release, below: str = "") -> pd.DataFrame:
    return pd.read_parquet(release.public / below / file_names(release.plan.config)["jobs_parquet"])


def counted(jobs: pd.DataFrame, *by: str) -> pd.Series:
    return jobs.groupby(list(by)).size().sort_index()


def test_releases_verify_both_ways_and_say_their_policy(made: Made, tmp_path: Path) -> None:
    for name, (_, release) in made.items():
        checks = {check.name: check.detail for check in verify(release.public)}
        assert [*checks][-1] == "for release"
        public = 1 + sum(map(len, release.plan.pools.slots.categories.values()))
        assert f" by {public} counts are the public ones" in checks["data"]
        assert alone(release.public) is None, name
        document = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
        schema = json.loads((release.public / "certificate.schema.json").read_text(encoding="utf-8"))
        assert schema == certificate_schema()
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        certificate = release.certificate
        policy, definition = certificate.policy, certificate.definition
        assert isinstance(policy, AttributeField)
        listed = '"age" and "sector"' if name == "several" else '"age"'
        assert policy.name == release.plan.policy.name
        assert f"or another {listed}, or both" in definition.words
        assert f"with their attributes but {listed}" in definition.assumed_public[0]
        assert f"the attributes of jobs but {listed}" in " ".join(definition.not_covered)
        readme = (release.public / "README.md").read_text(encoding="utf-8")
        page = certificate_words(certificate, signed=False).replace("&quot;", '"').replace("&#x27;", "'")
        for text in (readme, page):
            one_line = " ".join(text.split())
            assert policy.words in one_line
            assert f"another home inside the geography or another {listed}, or both" in one_line
        assert f"by every attribute but {listed}; the homes, and {listed} with them" in " ".join(
            readme.split()
        )
        assert policy.words in plan_summary(release.plan, release.plan.certify())
    measured = made["geometric"][1].plan
    assert "residents of trct by sector and age" in plan_summary(measured, measured.certify())


def test_posterior_draws_have_categories_of_what_is_secret(made: Made, tmp_path: Path) -> None:
    for name, (_, release) in made.items():
        files = release.write_intervals(tmp_path / name, draws=19)
        opened = pipelines.open_release(release.public).draws(files["draws"])
        draws = [str(i + 1) for i in range(19)]
        every = opened.implicates("trct", "tabblk2010", opened.attributes)
        assert set(opened.attributes) >= {"age", "sector"}
        assert set(every["age"]) == set(AGES)
        # What is public of a job is as the release has it; sums over what is secret are those without it.
        public = [one for one in opened.attributes if one not in release.plan.policy.secret]
        totals = every.groupby(["work", *public])[draws].sum()
        jobs = released(release, release.plan.implicates.folders[0]).rename(columns={"w_geocode": "work"})
        assert (totals.to_numpy() == counted(jobs, "work", *public).to_numpy()[:, np.newaxis]).all(), name
        for by in ((), ("age",), ("sector", "age"), ("age", "sector")):
            found = opened.implicates("trct", "tabblk2010", by).set_index(["home", "work", *by])[draws]
            sums = every.groupby(["home", "work", *by])[draws].sum()
            assert found.sort_index().equals(sums), (name, by)
        with pytest.raises(PublicReleaseError, match="as secret as homes, and a map "):
            release.map(tmp_path / f"{name}.html", intervals=files["draws"])
        prepare(release.public, shown := Prepared(tmp_path / f"{name}-cache", files["draws"]))
        assert shown.figures.is_file(), "a service has a map without them"
        by_age = opened.flows("cty", None, "age")
        assert (by_age["high"] > by_age["low"]).all(), name


def test_every_table_is_by_what_is_secret(made: Made) -> None:
    for name, (_, release) in made.items():
        numeric, copies = release.plan.numeric, 6 if name == "several" else 3
        n_blocks = release.plan.geography.n_blocks
        for domains in (numeric.domains, *(table.domains for table in numeric.secondary)):
            assert domains.n_blocks == copies * n_blocks
            for own in np.split(domains.cuts, domains.offsets[1:-1]):
                assert {*range(0, copies * n_blocks, n_blocks)} <= {*own.tolist()}, "of one category each"
                assert np.unique(own % n_blocks).size * copies == own.size, "the same in every copy"


def test_other_attributes_are_exact_at_workplaces_and_secret_ones_are_drawn(
    made: Made, microdata: dict[str, Path]
) -> None:
    true = pd.read_parquet(microdata["parquet"]).rename(columns={"toil": "w_geocode", "live": "h_geocode"})
    for name, (_, release) in made.items():
        public = [] if name == "several" else ["sector"]
        for below in release.plan.implicates.folders:
            jobs = released(release, below)
            assert list(jobs.columns) == ["w_geocode", "h_geocode", "age", "sector"]
            assert counted(jobs, "w_geocode", *public).equals(counted(true, "w_geocode", *public))
            assert {*jobs["age"]} <= {*AGES}
            for kind in {"age", "sector"} - {*public}:
                assert not counted(jobs, "w_geocode", kind).equals(counted(true, "w_geocode", kind)), name


def test_a_secret_column_changes_the_draw_and_nothing_else(
    config_text: Callable[..., str],
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Any],
    tmp_path: Path,
    frozen_day: object,
    clean_source: object,
    chosen: object,
) -> None:
    """The plan and all that is said of the release are made without it, byte for byte."""
    table = pd.read_parquet(microdata["parquet"])
    found: list[dict[str, bytes]] = []
    for name, ages in (("one", table["age"]), ("two", "old"), ("again", table["age"])):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "jobs.parquet"
        table.assign(age=ages).astype("str").to_parquet(file, index=False)
        text = config_text(microdata_jobs(str(file)), NOISE, secret(age=AGES))
        config = pipelines.parse_config(text, tmp_path / name, "policy.toml")
        found.append(everything(seeded(config).public))
    one, two, again = found
    assert one == again
    differ = {name for name in one if one[name] != two[name]}
    assert one.keys() == two.keys()
    data = {name for name in one if name.startswith(("demo_od", "demo_jobs", "measurements/"))}
    assert data <= differ
    assert differ - data <= {"MANIFEST.json", "SHA256SUMS", "datapackage.json", "croissant.json"}, (
        "of checksums"
    )


def test_what_reads_a_release_finds_the_drawn_attribute(made: Made, tmp_path: Path) -> None:
    config, release = made["geometric"]
    jobs = released(release)
    release.export([name for name in FORMATS if name != "pmtiles"], tmp_path / "exports")
    opened = pipelines.open_release(release.public)
    flows = opened.unit_flows("trct", "trct", [f"age_{age}" for age in AGES])
    assert flows[[f"age_{age}" for age in AGES]].sum().tolist() == [
        int((jobs["age"] == a).sum()) for a in AGES
    ]
    out = config.release.out
    measures = pipelines.open_release(out).evaluate(out.parent / "policy.toml", tmp_path / "evaluation")
    lost = measures.set_index(["measure", "level"])["value"]
    of = {kind: lost[f"workload_{kind}", "residents of trct by age"] for kind in ("loss", "no_privacy")}
    assert 0 <= of["no_privacy"] < of["loss"] < 0.5
    with pytest.raises(geo_data.InputError, match="is not the truth of this release, whose policy protects"):
        pipelines.open_release(out).evaluate(tmp_path / "od.csv", tmp_path / "other")
    text = (out.parent / "policy.toml").read_text(encoding="utf-8")
    assert '"young"' in text
    (out.parent / "other.toml").write_text(text.replace('"young"', '"new"'), encoding="utf-8")
    with pytest.raises(geo_data.InputError, match="makes other attributes secret"):
        pipelines.open_release(out).evaluate(out.parent / "other.toml", tmp_path / "other")


def test_a_policy_that_is_changed_is_refused_both_ways(made: Made, tmp_path: Path) -> None:
    release = made["geometric"][1]
    stated = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))

    other = partial(forging, stated)

    def planned(policy: object) -> Callable[[Path], object]:
        def change(document: dict[str, Any]) -> None:
            document["configuration"]["privacy"]["policy"] = policy

        return lambda public: plan_again(public, change)

    def other_category(public: Path) -> None:
        """One job of another category: the OD file and the file of jobs differ."""
        path = public / file_names(release.plan.config)["jobs_parquet"]
        table = pd.read_parquet(path)
        table.loc[0, "age"] = next(age for age in AGES if age != table.loc[0, "age"])
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)
        forge(public, stated)

    def fewer(document: dict[str, Any]) -> None:
        document["policy"].update(attributes={"age": AGES[:2]})

    def swapped(document: dict[str, Any]) -> None:
        words = document["policy"]["words"].replace("is protected too", "is public")
        document["policy"].update(words=words)

    partition = {
        "kind": "partition",
        "name": "parts st:0",
        "partition": "trct",
        "parts": 6,
        "words": "",
        "symbols": "",
    }
    refuse_each(
        release.public,
        tmp_path,
        [
            (other(lambda d: d["policy"].update(name="attribute age:0")), "guarantee"),
            (other(fewer), "guarantee"),
            (other(swapped), "guarantee"),
            (other(lambda d: d["definition"].update(neighbours="Any.")), "guarantee"),
            (other(lambda d: d["run"].update(epsilon="4")), "guarantee"),
            (other(lambda d: d.update(policy=None)), "guarantee"),
            (other(lambda d: d.update(policy=partition)), "guarantee"),
            (planned({"attribute": {"age": AGES[:2]}}), "plan"),
            (planned({"attribute": {"age": AGES[::-1]}}), "plan"),
            (planned({"attribute": {"sector": SECTORS}}), "plan"),
            (planned({"attribute": {"age": AGES, "sector": SECTORS}}), "plan"),
            (planned({"partition": "cty"}), "plan"),
            (planned("full"), "plan"),
            (other_category, "data"),
        ],
    )


def test_what_cannot_be_secret_is_refused_before_anything_is_paid(
    paid_config: Configs, book: Path, microdata_jobs: Callable[..., Any], tmp_path: Path, chosen: object
) -> None:
    jobs = microdata_jobs("parquet")
    public = {"workplaces": {"file": "w.csv", "count": "n"}}
    for policy, changes, words in (
        (secret(age=AGES), {}, "an origin-destination file counts each attribute by itself"),
        (secret(pay=["low", "high"]), jobs, '"pay" is not an attribute of the jobs'),
        (secret(age=AGES), jobs | public, "numbers of records that are protected too"),
        (secret(age=AGES), jobs | {"plan.pool_by": ["age"]}, '"age" is secret by privacy.policy'),
        (secret(age=["old"]), jobs, "list all that a job may have, two or more different texts"),
        (secret(age=["old", "old"]), jobs, "two or more different texts"),
        (secret(age=["old", "old "]), jobs, "two categories are spellings of one"),
        (secret(age=["old", "\n"]), jobs, "is not allowed; write one line of text"),
        (secret(), jobs, "is not a policy; write"),
        ({"privacy.policy": {"attribute": "age"}}, jobs, "is not a policy; write"),
        ({"privacy.policy": {"attribute": {"age": AGES}, "partition": "cty"}}, jobs, "is not a policy"),
    ):
        with pytest.raises(ConfigError) as caught:
            paid_config(changes, policy)
        assert len(caught.value.problems) == 1, caught.value
        assert words in str(caught.value)
    config = paid_config({"privacy.epsilon": "2"}, jobs, NOISE, secret(age=AGES[:2]))
    assert plan(config).plan.categories["age"] == tuple(AGES[:2]), "planning does not look"
    with pytest.raises(geo_data.InputError, match="rows have another category than the policy lists"):
        run(config)
    config = paid_config(jobs, secret(age=AGES))
    with pytest.raises(ConfigError, match="an earlier release does not tell which category"):
        pipelines.tune(config, pipelines.Sweep(), proxy_truth=tmp_path / "od.csv")
    assert not book.exists()
    one, other = (paid_config(jobs, secret(age=ages)) for ages in (AGES, AGES[::-1]))
    assert one.public == other.public


def test_what_tune_tries_and_recommends_has_the_same_secret_attributes(made: Made) -> None:
    """In the service a row of a comparison becomes a run: under "full" it would publish them exactly."""
    config, _ = made["geometric"]
    results = pipelines.tune(config, pipelines.Sweep(epsilon=("8.6",), split_threshold=("4",)))
    assert tomllib.loads(pipelines.recommend(results, config))["privacy"]["policy"] == config.privacy.policy
    with pytest.raises(ConfigError, match=r'pool_by: "age" is secret by privacy\.policy'):
        pipelines.Sweep(pool_by=("age",)).configurations(config)
    row = {"number": 0, "epsilon": "2"}
    assert varied(config, Variation(epsilon=("2",)), row).privacy.policy == config.privacy.policy


def test_a_ledger_adds_up_what_composes_and_nothing_else(made: Made, tmp_path: Path) -> None:
    """After full and counties, secret attributes add up: as homes by county. Other attributes do not."""
    book, age = Ledger(tmp_path / "ledger.sqlite"), made["geometric"][1].plan.policy.name
    both, county = made["several"][1].plan.policy.name, "parts st:0/cty:0"
    given: dict[str, Any] = {
        "data_set": "jobs",
        "budget": Budget(Fraction(20), Fraction("1e-4")),
        "plan_sha256": "0" * 64,
        "release": "r",
        "epsilon": Fraction(1),
        "delta": Fraction(0),
    }
    for policy, sum_of in ((both, both), (age, age), ("full", "full"), (county, county), (both, county)):
        book.debit(**given, policy=policy)
        (account,) = book.accounts()
        assert account.terms == Terms(sum_of)
    book = Ledger(tmp_path / "other.sqlite")
    book.debit(**given, policy=age)
    for pay in (book.debit, partial(book.debit, rehearse=True)):
        with pytest.raises(PolicyError, match="neither protects all that the other does"):
            pay(**given, policy=both.split("/")[1].join(["attribute ", ""]))
    assert len(book.entries()) == len(Ledger(tmp_path / "other.sqlite").entries())
