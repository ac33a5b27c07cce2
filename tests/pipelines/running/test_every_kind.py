"""Every kind of release goes through the same checks: made, verified, read, resumed, made again, forged."""

from __future__ import annotations

import html
import itertools
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

import geo_data
import pipelines
from helpers import alone, refuse_each, same_key, seal_again, words_of_release
from pipelines import ConfigError, PublicReleaseError, Release, plan, resume, run, verify
from pipelines.config.languages import ENGLISH
from pipelines.config.sections import WitnessSettings
from pipelines.planning.guesses import expected_guess
from pipelines.plans.form import plan_hash
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.certificate import (
    CERTIFICATE_FORMAT,
    certificate_schema,
    population_in_words,
    secret_in_words,
)
from pipelines.release.description import file_names
from pipelines.release.intervals import interval_tables, read_draws
from pipelines.release.pages import phrases
from pipelines.release.signing import generate_keys
from pipelines.running.batches import BatchWork
from pipelines.running.report import guess_words, plan_details, plan_summary
from pipelines.running.witness import witness
from pipelines.service.operators import api as operator_api
from pipelines.service.public import api as public_api
from pipelines.views.maps.page import certificate_words
from pipelines.views.maps.payload import make_payload

from .forgeries import other_words, planned, read_certificate, without_paragraph
from .helpers import Configs, Table, everything, left_over
from .kinds import KINDS, REFUSED, Kind, distance, of_policy


@pytest.fixture(scope="module", params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def release(kind: Kind, released: Callable[[str], Release]) -> Release:
    return released(kind.name)


def test_it_verifies_both_ways_and_its_plan_is_stored_without_loss(release: Release, tmp_path: Path) -> None:
    assert [check.name for check in verify(release.public)][-1] == "for release"
    assert alone(release.public) is None
    stored = load_plan(release.public / "plan")
    assert stored.numeric.parameters == release.plan.numeric.parameters
    assert stored.numeric.target.record_range == release.plan.numeric.target.record_range
    assert stored.policy.name == release.plan.policy.name
    assert stored.geography.external_zones == release.plan.geography.external_zones
    digest = save_plan(stored, tmp_path / "plan")
    assert digest == plan_hash(release.public / "plan") == release.certificate.plan_sha256


def at(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document[name]
    return document


def one_line(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_certificate_and_readme_say_what_is_so(kind: Kind, release: Release) -> None:
    document = read_certificate(release.public)
    schema = json.loads((release.public / "certificate.schema.json").read_text(encoding="utf-8"))
    assert schema == certificate_schema()  # a schema, by test_certificate.py
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["format"] == CERTIFICATE_FORMAT
    assert {path: at(document, path) for path in kind.certificate} == kind.certificate
    certificate, made = release.certificate, release.plan
    definition, policy, presence = certificate.definition, certificate.policy, certificate.presence
    assert certificate.mechanism == made.config.release.mechanism
    assert certificate.implicates.number == made.config.release.implicates
    assert (presence is None) == (made.config.record_range is None)
    assert (policy is None) == (made.policy.name == "full")
    readme = one_line(words_of_release(release.public))
    page = one_line(certificate_words(certificate, signed=False))
    summary = one_line("\n".join(say(made, made.certify()) for say in (plan_summary, plan_details)))
    population = population_in_words(certificate.population, protected=presence is not None)
    for text in (readme, page, definition.words):
        assert population in text
        if presence is not None or certificate.population is None:
            assert "to be public and is not protected" not in text
    if certificate.population is None:
        assert "inside the geography" not in readme + page + definition.words
    if presence is not None:
        assert "one job record more" in definition.neighbours
        assert not any("reproduced" in line for line in definition.not_covered)
        assert "the public number of jobs" not in readme
    if policy is not None:
        secret = secret_in_words(policy)
        assert policy.name == made.policy.name
        assert all(policy.words in text for text in (readme, page, summary))
        if policy.kind == "attribute":
            assert all(f"or another {secret}, or both" in text for text in (readme, page, definition.words))
            assert f"with their attributes but {secret}" in definition.assumed_public[0]
            assert f"the same slots but for {secret};" in definition.neighbours
            assert "tables of categories, where there are any" in " ".join(definition.assumed_public)
            assert "categories of secret attributes are expected" in summary
            assert f"the attributes of jobs but {secret}" in " ".join(definition.not_covered)
        else:
            assert f"lie {phrases(ENGLISH).pair(policy, secret)}." in definition.neighbours
            assert all(
                f"another home {phrases(ENGLISH).neighbour(policy, secret)}" in text
                for text in (readme, page)
            )
            assert (policy.parts > 1) == ("by policy" in " ".join(definition.assumed_public))
    if certificate.mechanism == "geometric":
        stated = json.dumps(document)
        for text in (readme, summary, stated):
            assert not re.search(r"prior|pruning|retention|\burn\b|Dirichlet", text)
        assert "except with probability" not in readme
    for name in file_names(made.config).values():
        assert name in readme


GERMAN = planned("", "configuration.release.language", "de")[0]
ENGLISH_WORDS = re.compile(r"\b(the|of|and|is|are|with|by|jobs|homes|workers)\b", re.IGNORECASE)


def prose(text: str, title: str) -> str:
    """Return a page without its title, code, names in quotes and the version."""
    return re.sub(
        r'```.*?```|`[^`\n]*`|"[^"\n]*"|odsynth \d\S*', "", text.replace(title, ""), flags=re.DOTALL
    )


def test_it_passes_in_german_without_a_word_of_english(release: Release, tmp_path: Path) -> None:
    public = Path(shutil.copytree(release.public, tmp_path / "german"))
    GERMAN(public)
    assert [check.name for check in verify(public)][-1] == "for release"
    assert alone(public) is None
    for name in ("README.md", "details.md", "attackers.md"):
        pages = [(folder / name).read_text(encoding="utf-8") for folder in (public, release.public)]
        german, english = (prose(page, release.certificate.release.name) for page in pages)
        assert not ENGLISH_WORDS.findall(german), name
        assert not re.findall(r"\d[.]\d", german), name
        lines = {line for line in german.splitlines() if re.search("[a-z]{2}", line) and line[0] != "|"}
        assert not lines & {*english.splitlines()}, name


@pytest.mark.parametrize("name", ["residents", "counties", "near zones", "secret"])
def test_german_that_was_changed_is_refused(
    name: str, released: Callable[[str], Release], plans_known: None, tmp_path: Path
) -> None:
    release = released(name)
    public, certificate = Path(shutil.copytree(release.public, tmp_path / "german")), release.certificate
    GERMAN(public)
    epsilon = certificate.run.epsilon.replace(".", ",")
    both = [
        other_words("README.md", f"Epsilon {epsilon}, Delta", "Epsilon 0,1, Delta"),
        other_words("README.md", "**synthetische** Erwerbstätige", "Erwerbstätige"),
        other_words("README.md", "**freigegeben**", "**geprüft**"),
        *([without_paragraph("Die veröffentlichte Grundgesamtheit")] if certificate.population else []),
        *([without_paragraph("Die Schutzregel")] if certificate.policy else []),
    ]
    refuse_each(public, tmp_path / "both", both)
    pages = {"README.md": "Erste Schritte", "details.md": "Spalten", "attackers.md": "Jemand"}
    one = [other_words(page, words, "etwas") for page, words in pages.items()]
    refuse_each(public, tmp_path / "one", one, alone_too=False)
    english = Path(shutil.copytree(public, tmp_path / "english"))
    for page in pages:
        shutil.copy(release.public / page, english / page)
    refuse_each(english, tmp_path / "other", [(seal_again, "texts")])


def test_totals_are_the_public_ones_and_implicates_differ(release: Release) -> None:
    block, slots = release.plan.geography.block_level, release.plan.pools.slots
    homes = []
    for number in range(1, release.certificate.implicates.number + 1):
        opened = pipelines.open_release(release.public, number)
        flows = opened.unit_flows(block, block)
        homes.append(flows.set_index(["work", "home"])["S000"].to_dict())
        jobs = flows.groupby("work")["S000"].sum().to_dict()
        assert jobs == pd.Series(slots.work).value_counts().to_dict()
        with_jobs = file_names(release.plan.config).get("jobs_parquet")
        if with_jobs is not None:
            below = release.plan.implicates.folders[number - 1]
            drawn = pd.read_parquet(release.public / below / with_jobs)
            names = [*slots.attributes]
            public = pd.DataFrame({name: slots.attributes[name] for name in names})
            for name in names:
                public[name] = np.array(slots.categories[name], object)[public[name]]
            public["w_geocode"] = release.plan.geography.blocks[slots.work]
            by = ["w_geocode", *names]
            assert drawn.groupby(by).size().to_dict() == public.groupby(by).size().to_dict()
    assert all(one != other for one, other in itertools.pairwise(homes))
    with pytest.raises(PublicReleaseError, match="there is no implicate"):
        pipelines.open_release(release.public, len(homes) + 1)


def test_readers_take_it(release: Release, tmp_path: Path) -> None:
    opened = pipelines.open_release(release.public)
    page = (release.public / "attackers.md").read_text(encoding="utf-8")
    assert pipelines.attackers(release.public).text() == page
    flows, *_ = interval_tables(release.plan)
    draws = read_draws(release.plan, flows, release.public)
    assert draws.work is not None
    geography, jobs = opened.geography, release.plan.pools.slots.work
    of_unit = np.bincount(geography.unit_of(str(flows.work), jobs))
    if release.plan.fills_slots:
        for row in draws.counts:
            assert np.bincount(draws.work, row, of_unit.size).tolist() == of_unit.tolist()
    closed = np.logical_and.reduceat(geography.nobody_lives, geography.starts(str(flows.home)))
    assert not closed[draws.home].any()
    if release.plan.workplaces:
        files = opened.write_intervals(tmp_path / "intervals")
        attribute = next(iter(release.plan.policy.secret), None)
        words = "all jobs" if attribute is None else f"all jobs by {attribute}"
        assert pd.read_csv(files[words])["S000"].sum() == len(release.plan.pools.slots)
    document = read_certificate(release.public)
    for answer in (public_api, operator_api):  # the service shows all of it
        route = next(r for r in answer.router.routes if r.path.endswith("/certificate"))  # type: ignore[attr-defined]
        shown = TypeAdapter(route.response_model).dump_json(release.certificate)  # type: ignore[attr-defined]
        assert json.loads(shown) == document


def test_homes_are_guessed_at_least_from_public_data_and_no_more_often_than_epsilon_allows(
    release: Release,
) -> None:
    plan, guess = release.plan, expected_guess(release.plan)
    assert guess is not None
    assert f"{guess.public:.0%}" in guess_words(plan, guess)
    chance = 3 * (0.25 / len(plan.pools.slots)) ** 0.5  # three standard errors, of jobs that are all tried
    assert 1 / plan.geography.n_units(plan.level) < guess.public <= guess.released + chance <= 1 + chance
    keeps_all = {*getattr(plan.numeric.parameters, "retention", ())} <= {1}
    if keeps_all and plan.policy.reach is None:  # epsilon is of what is published, and of near homes there
        most = math.exp(plan.requested[0]) * guess.public + float(plan.requested[1])
        assert guess.released <= most + chance


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.other_files], ids=str)
def test_exports_and_maps_take_it(kind: Kind, released: Callable[[str], Release], tmp_path: Path) -> None:
    opened = pipelines.open_release(released(kind.name).public)
    assert opened.export(["csv", "lodes"], tmp_path / "exports").keys() == {"csv", "lodes"}
    assert make_payload(opened, 10_000_000, compared=True).size > 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.other_files], ids=str)
def test_a_reviewed_plan_is_run_and_goes_on_after_a_kill_to_the_same_bytes(
    kind: Kind,
    released: Callable[[str], Release],
    kind_config: Callable[..., pipelines.ReleaseConfig],
    monkeypatch: pytest.MonkeyPatch,
    frozen_day: None,
    clean_source: object,
) -> None:
    config, release = kind_config(kind), released(kind.name)
    kind.choose(monkeypatch)
    planned = plan(config)
    assert planned.sha256 == release.certificate.plan_sha256
    forecast = json.loads((planned.folder / "forecast.json").read_text(encoding="utf-8"))
    document = read_certificate(release.public)
    for name in ("population", "policy", "presence", "record_level", "user_level"):
        assert forecast.get(name) == document[name], name
    write, calls = BatchWork._write, itertools.count()

    def failing(*arguments: Any) -> None:
        if next(calls) == 1:
            raise OSError(5, "Input/output error")
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(BatchWork, "_write", failing)
        with pytest.raises(OSError, match="Input/output"):
            run(config, plan=planned.folder, key=same_key())
    assert everything(resume(config.release.out).public) == everything(release.public)


@pytest.mark.quick
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "tiers" not in kind.changes], ids=str)
def test_a_witness_can_make_it_again(
    kind: Kind,
    kind_config: Callable[..., pipelines.ReleaseConfig],
    monkeypatch: pytest.MonkeyPatch,
    clean_source: object,
    tmp_path: Path,
) -> None:
    """Tested here, where the bounds of its plan are known to both verifiers, which takes them most time."""
    private, public = generate_keys(tmp_path / "officer")
    kind.choose(monkeypatch)
    settings = WitnessSettings.model_construct(key=public)
    made = run(kind_config(kind).model_copy(update={"witness": settings}))
    witness(made.out, private)
    details = {check.name: check.detail for check in verify(made.public)}
    assert "the run was repeated" in details["witnessed"]
    assert alone(made.public) is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.forgeries], ids=str)
def test_forgeries_are_refused_by_both_verifiers(
    kind: Kind, released: Callable[[str], Release], plans_known: None, tmp_path: Path
) -> None:
    refuse_each(released(kind.name).public, tmp_path / "both", kind.forgeries)
    refuse_each(released(kind.name).public, tmp_path / "one", kind.not_for_verify_py, alone_too=False)


@pytest.mark.parametrize(("name", "changes", "words"), REFUSED)
def test_bad_settings_are_one_problem_each(
    name: str, changes: Table, words: str, inputs: dict[str, Table], small_config: Configs
) -> None:
    with pytest.raises(ConfigError) as caught:
        small_config(inputs[name], changes)
    (problem,) = caught.value.problems
    assert words in problem


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (of_policy({"partition": "st"}), 'there is one st only, so one part; write policy = "full"'),
        (distance("1e-9"), "no block lies within 0.000000001 km of another, so nothing would be protected"),
        (distance(1000), 'all blocks lie within 1000 km of each other; write policy = "full"'),
    ],
)
def test_policies_that_the_geography_cannot_have_are_refused_before_anything_is_paid(
    policy: Table, words: str, paid_config: Configs, book: Path
) -> None:
    config = paid_config(policy)
    for act in (plan, run):
        with pytest.raises(geo_data.InputError, match=words):
            act(config)
    assert left_over(config) == []
    assert not book.exists()
