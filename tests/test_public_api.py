"""What users of Python meet: paths as text, lists as arrays, short names of things, words for wrong types."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
import synth
from geo_data.polygons import Polygons
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.simulation import simulate_utility
from pipelines.planning.sweep import every_mechanism
from pipelines.plans.form import plan_hash
from pipelines.plans.storage import save_plan
from pipelines.plans.utility import mean_commute, total_variation
from pipelines.publishing.publishing import Published
from pipelines.release.signing import generate_keys, is_signed
from pipelines.running.demo import demo_truth
from pipelines.running.payment import debits_of
from pipelines.running.report import PlanReport
from pipelines.running.run import certify
from pipelines.running.unfinished import UnfinishedRun, unfinished_runs, wipe_run
from pipelines.views.flows import add_travel
from synth.auditing import AuditResult
from synth.dirichlet.attackers import Attackers, Change
from synth.dirichlet.parameters import DirichletParameters
from synth.geometric.parameters import GeometricParameters

pytestmark = pytest.mark.quick

THIRD = Fraction(10**40 + 1, 3 * 10**40)  # its fraction fills a line


@pytest.fixture
def public(small_release: pipelines.Release, tmp_path: Path) -> Path:
    """A copy of the public folder of the small release."""
    return Path(shutil.copytree(small_release.public, tmp_path / "release" / "public"))


def test_a_path_may_be_text_or_stand_for_one(
    small_config: Callable[..., pipelines.ReleaseConfig], public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user has it: text, relative or not."""
    monkeypatch.chdir(public.parent)
    config = small_config().with_out("other")
    assert config.release.out == public.parent / "other"
    pipelines.demo_inputs("demo", counties=1, tracts=2, blocks=20, jobs=30)
    assert pipelines.load_config("demo/examples/demo.toml").release.state == "demo"
    assert pipelines.parse_config(
        Path("demo/examples/demo.toml").read_text(), "there", "x"
    ).release.out.is_absolute()
    release = pipelines.open_release("public")
    assert release.public == Path("public")
    assert [one.name for one in pipelines.verify("public")] == [one.name for one in pipelines.verify(public)]
    assert not is_signed("public")
    plan = pipelines.load_plan("public/plan")
    assert save_plan(plan, "plan") == plan_hash("plan") == release.certificate.plan_sha256
    assert [path.parent for path in generate_keys("keys")] == [Path("keys")] * 2
    assert unfinished_runs(".") == []
    made = pipelines.open_release("public").export("csv", "exports")["csv"]
    assert {path.parent for path in made} == {Path("exports/csv")}
    release.figure("homes.png", kind="distance")
    assert Path("homes.png").is_file()
    assert not pipelines.published(os.fspath(public.parent / "web"))


def test_what_is_no_path_is_told_so(small_release: pipelines.Release) -> None:
    calls: list[Callable[[], object]] = [
        lambda: pipelines.open_release(3),
        lambda: pipelines.load_config(3),
        lambda: pipelines.load_plan(b"bytes"),
        lambda: plan_hash(None),
        lambda: list(pipelines.verify(small_release)),
        lambda: debits_of(7),
        lambda: small_release.evaluate_public([3]),
        lambda: pipelines.published(3),
        lambda: small_release.map(3),
        lambda: small_release.export("csv", 3),
        lambda: small_release.figure(None),
        lambda: pipelines.Ledger(3),
        lambda: pipelines.open_release(3),
        lambda: geo_data.read_crosswalk(3, block="zone", levels=["ward"]),
        lambda: geo_data.read_weights(3, None, level="ward", area="ward", weight="people"),
        lambda: geo_data.write_demo_region(3),
        lambda: geo_data.fetch("https://host/file.csv", 3),
        lambda: geo_data.MicrodataJobs(3, small_release.plan.geography, "home", "work").slots(),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"\w+: a path is expected, as text or pathlib\.Path, not "):
            call()
    with pytest.raises(ValueError, match="to: this is a URL; write a path"):
        small_release.export("csv", "s3://bucket/x")


def test_an_object_of_another_kind_is_told_what_was_expected(
    small_config: Callable[..., pipelines.ReleaseConfig], small_release: pipelines.Release
) -> None:
    config, plan = small_config(), small_release.plan
    cases: list[tuple[Callable[[], object], str]] = [
        (
            lambda: pipelines.plan("demo.toml"),
            "config: ReleaseConfig is expected, as load_config",
        ),
        (lambda: pipelines.run(plan), "config: ReleaseConfig is expected"),
        (lambda: pipelines.make_plan(plan), "config: ReleaseConfig is expected"),
        (
            lambda: pipelines.make_plan(config, plan),
            "inputs: PublicInputs is expected, as read_public_inputs",
        ),
        (lambda: mean_commute(plan, [0], [0]), "geography: Geography is expected"),
        (lambda: total_variation(None, "st", [0], [0], [0]), "geography: Geography is expected"),
        (lambda: demo_truth(plan), "release: Release is expected, as demo"),
        (lambda: pipelines.run(config, plan=plan), "plan: a path is expected"),
        (lambda: read_public_inputs({}), "config: ReleaseConfig is expected"),
        (lambda: pipelines.tune(config, {}), "sweep: Sweep is expected"),
        (lambda: certify(config), "plan: ReleasePlan is expected"),
        (lambda: simulate_utility(plan, None), "PublicModel is expected, .* not None"),
        (lambda: pipelines.Sweep(epsilon=4.0), r'epsilon: texts are expected, such as \("2", "4"\)'),
        (lambda: every_mechanism({}), "config: ReleaseConfig is expected"),
        (lambda: pipelines.recommend({}, config), "results: DataFrame is expected, as tune"),
        (lambda: wipe_run("out"), "run: UnfinishedRun is expected"),
        (lambda: pipelines.parse_config(3, ".", "x"), "text: text is expected"),
        (lambda: geo_data.LodesJobs("od.csv", None), "geography: Geography is expected, as read_crosswalk"),
        (lambda: geo_data.read_crosswalk("x.csv", block="b", levels=[3]), "levels: text is expected"),
        (lambda: synth.Pools([2.5], [1], [0]), "n: whole numbers are expected"),
    ]
    for call, words in cases:
        with pytest.raises(TypeError, match=words):
            call()


def test_lists_stand_for_arrays(small_release: pipelines.Release) -> None:
    pools = synth.Pools([3, 4], [3, 4], (0, 0))
    domains = synth.Domains(5, [0, 2], [0, 3], np.zeros(2, np.int64))
    assert (pools.n.dtype, pools.domain.dtype, domains.cuts.dtype) == (np.int64, np.int32, np.int32)
    assert synth.Pools(pools.n, pools.m, pools.domain).n is pools.n, "an array that fits is not copied"
    with pytest.raises(ValueError, match="stratum: numbers from 0 to 255"):
        synth.Domains(5, [0, 1], [0], [256])
    geography = small_release.plan.geography
    assert mean_commute(geography, [0, 1], [1, 0]) > 0
    assert total_variation(geography, geography.block_level, [0, 1], [1, 0], (0, 0)) == 0.5
    assert pipelines.Sweep(epsilon="8.6", delta=["0", "1e-5"]).epsilon == ("8.6",)


def test_a_text_stands_for_a_sequence_of_one(small_region: dict[str, Path]) -> None:
    at = {"block": "tabblk2010", "centroid": ("blklatdd", "blklondd")}
    for levels in ("cty", ["cty"]):
        made = geo_data.read_crosswalk(small_region["crosswalk"], levels=levels, **at)
        assert made.levels == ("cty",)
    jobs = geo_data.MicrodataJobs("jobs.csv", made, "home", "work", attributes="sector")
    assert jobs.attributes == ("sector",)


def test_results_name_areas_by_code(public: Path) -> None:
    release = pipelines.open_release(public)
    for levels in (("trct", "trct"), ("cty", "tabblk2010")):
        flows, numbered = release.flows(*levels, "S000"), release.unit_flows(*levels)
        for side, level in zip(("home", "work"), levels, strict=True):
            assert flows[side].dtype == "str"
            codes = np.asarray(release.geography.codes(level), object)
            assert flows[side].to_list() == codes[numbered[side]].tolist()
        pd.testing.assert_series_equal(flows["S000"], numbered["S000"])
    places = release.places("trct")
    flows, numbered = release.flows("trct", "trct"), release.unit_flows("trct", "trct")
    km = add_travel(flows, places, places)["km"]
    pd.testing.assert_series_equal(km, add_travel(numbered, places, places)["km"])
    with pytest.raises(pipelines.PublicReleaseError, match="no place of the area 'moon'"):
        add_travel(flows.assign(home="moon"), places, places)


def test_what_is_printed_of_an_object_is_short(
    small_config: Callable[..., pipelines.ReleaseConfig], small_release: pipelines.Release
) -> None:
    plan, config = small_release.plan, small_config()
    inputs = read_public_inputs(config)
    utility = simulate_utility(plan, inputs.model)
    guarantee = replace(plan.certify(), epsilon=THIRD, delta=THIRD / 10**9)
    presence = synth.Presence(THIRD, THIRD, THIRD, THIRD)
    release = pipelines.open_release(small_release.public)
    numeric = plan.numeric
    report = PlanReport(plan, guarantee, utility, None, {}, 1, 1, small_release.out, "0" * 64, {})
    shown: list[object] = [
        *(
            config,
            plan,
            guarantee,
            replace(guarantee, presence=presence),
            presence,
            *guarantee.classes,
            *(utility, utility.accuracy),
        ),
        *(utility.workload[0], report, small_release, release, release.certificate, inputs, inputs.model),
        *(numeric, numeric.pools, numeric.domains, numeric.parameters, plan.pools, plan.shares),
        synth.Table(numeric.pools.n, numeric.pools.domain, numeric.domains),
        GeometricParameters(2, 3, (GeometricParameters(10**17, 10**18 + 1),)),
        AuditResult(THIRD, THIRD, THIRD, "cell 1", 9, 5, 4),
        pipelines.Budget(THIRD, THIRD, "2026"),
        *(Change(1 + THIRD, exact) for exact in (True, False)),
        *(Attackers("one co-worker", belief) for belief in (None, THIRD)),
        synth.RecordRange(THIRD, 1 + THIRD),
        pipelines.combine(np.array([3.0, 4.0]), np.array([1.0, 2.0]), "partially"),
        Published("ri", "v1", "/data/ri/v1", "complete", "2026", "0" * 64, None, ()),
        UnfinishedRun(
            *(small_release.out, Path("/x"), None, True, ("plan",), False, "", "", datetime.now(UTC), "")
        ),
        Polygons(pd.DataFrame(), ("one is missing",)),
        *(numeric.parameters.classes if isinstance(numeric.parameters, DirichletParameters) else ()),
    ]
    for one in shown:
        for text in (repr(one), str(one)):
            assert len(text) < 600, text
            assert "\n" not in text
            assert not re.search(r"Fraction\(|array\(|\d{25}(?!\d*;)|PosixPath", text), text
            assert type(one).__name__ in text


def test_rounding_is_on_the_safe_side(small_release: pipelines.Release) -> None:
    guarantee = replace(small_release.plan.certify(), epsilon=THIRD, delta=THIRD / 10**9)
    assert "epsilon at most 0.333334, delta at most 0.000000000333334 for the run" in repr(guarantee)
    assert "epsilon 0.333333, delta 0.333333" in repr(pipelines.Budget(THIRD, THIRD))
    assert "epsilon at least 0.333333" in repr(AuditResult(THIRD, THIRD, THIRD, "cell 1", 9, 5, 4))
    assert "0.333333" in repr(GeometricParameters(10**17, 3 * 10**17 - 1))
