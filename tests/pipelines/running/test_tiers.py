"""Tiers: releases of several epsilons from one draw, each whole, paid for once; and what is refused."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipelines
import synth
from helpers import alone, edit_json, plan_again, refused, seal_again
from pipelines import ConfigError, Release, resume, verify
from pipelines.cli.summary import release_summary
from pipelines.drawing.estimating import JobLayout
from pipelines.ledger.ledger import Ledger
from pipelines.release.measurements import read_measurements
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.views.folder import PublicReleaseError
from synth.geometric.noise import unchanged_chance

from .helpers import GEOMETRIC, Configs, but_for_the_debit, everything, interrupted, left_over, seeded
from .test_geometric import of_two_tables

TIERS: dict[str, Any] = {"tiers": {"public": "1", "registered": "4", "secure": "8.6"}}


@pytest.fixture
def tiered(paid_config: Configs) -> Configs:
    """The configuration of three tiers of the small region, which a budget pays for."""
    return lambda *changes: paid_config(GEOMETRIC, TIERS, *changes)


def folders(release: Release) -> dict[str, Path]:
    """The public folder of each tier."""
    return {
        "secure": release.public,
        **{name: RunFolder(release.out).tier(name).public for name in ("registered", "public")},
    }


def noisy(public: Path) -> list[np.ndarray[Any, Any]]:
    """The noisy counts of every run and table."""
    plan = Release(public).plan
    runs = read_measurements(public, plan, JobLayout(plan))
    return [table[:] for of_run in runs for table in of_run]


def test_every_tier_is_a_whole_release_and_one_debit_pays_for_all(
    tiered: Configs, book: Path, clean_source: object
) -> None:
    config = tiered()
    release = pipelines.run(config)
    found = folders(release)
    assert sorted(path.name for path in release.out.iterdir()) == ["confidential", "public", "tiers"]
    for name, public in found.items():
        assert verify(public).checks[-1].name == "for release"
        assert alone(public) is None
        certificate, epsilon = Release(public).certificate, TIERS["tiers"][name]
        assert certificate.requested.epsilon == epsilon
        assert 0 <= Fraction(epsilon) - Fraction(certificate.run.epsilon) < Fraction(1, 10**10)
        assert certificate.tier is not None
        assert certificate.tier.name == name
        assert certificate.tier.epsilons == TIERS["tiers"]
        assert [*certificate.tier.epsilons] == ["public", "registered", "secure"]
        assert (certificate.tier.coalition.epsilon, certificate.tier.coalition.delta) == ("8.6", "0")
        assert f"**{name}**" in (public / "README.md").read_text()
        assert Release(public).accuracy is not None
    assert [*(release.out / "tiers").glob("*/*")] == [*(release.out / "tiers").glob("*/public")]
    for name in ("registered", "public"):
        assert f"Tier        {name}, epsilon {TIERS['tiers'][name]}: {found[name]}" in release_summary(
            release
        )
    debits = [entry for entry in Ledger(book).entries() if entry.kind == "debit"]
    assert [entry.epsilon for entry in debits] == [Fraction(release.certificate.run.epsilon)]
    assert (debits[0].release or "").endswith(", tiers public, registered, secure")


def test_a_weaker_tier_has_the_counts_of_the_next_stronger_one_with_the_noise_that_is_missing(
    tiered: Configs,
) -> None:
    found = folders(seeded(tiered()))
    for strong, weak in (("secure", "registered"), ("registered", "public")):
        (before,), (after,) = noisy(found[strong]), noisy(found[weak])
        p, q = (Release(found[name]).plan.numeric.parameters.ratio for name in (strong, weak))
        added, unchanged = after - before, unchanged_chance(p, q)
        zeros = float(unchanged + (1 - unchanged) * (1 - q) / (1 + q))
        variance = float(2 * q / (1 - q) ** 2 - 2 * p / (1 - p) ** 2)
        assert abs((added == 0).sum() - zeros * added.size) < 5 * math.sqrt(added.size * zeros * (1 - zeros))
        assert np.var(added) == pytest.approx(variance, rel=12 / math.sqrt(added.size))


def test_the_strongest_tier_is_the_release_that_there_would_be_without_tiers(
    tiered: Configs, small_config: Configs, frozen_day: object
) -> None:
    with_tiers, without = seeded(tiered()), seeded(small_config(GEOMETRIC, {"release.out": "without"}))
    files = everything(with_tiers.public)
    same = {name for name, content in everything(without.public).items() if files.get(name) == content}
    assert {name for name in files if name.endswith(".parquet")} <= same | {"plan/plan.json"}


def test_a_run_that_is_cut_off_goes_on_with_the_same_bytes(
    tiered: Configs, frozen_day: object, tmp_path: Path
) -> None:
    whole = seeded(tiered({"release.out": str(tmp_path / "whole")}))
    config = tiered({"release.out": str(tmp_path / "cut")})
    interrupted(config, releasing.WeakerBatches, "publish_counts")
    assert [path.name for path in (tmp_path / ".cut.unfinished" / "tiers").iterdir()]
    release = resume(config.release.out)
    for one, other in zip(folders(whole).values(), folders(release).values(), strict=True):
        assert but_for_the_debit(one) == but_for_the_debit(other)
    assert not [path for path in everything(release.out) if "parts" in path or path.endswith("run.key")]


def test_a_plan_of_a_tier_that_was_changed_is_not_gone_on_with(tiered: Configs) -> None:
    config = tiered()
    interrupted(config, releasing.WeakerBatches, "publish_counts")
    plan = RunFolder.of(config.release.out).tier("public").public / "plan" / "plan.json"
    edit_json(plan, lambda document: document["notes"].append("another note"))
    with pytest.raises(ConfigError, match="tiers/public"):
        resume(config.release.out)


def test_several_tables_and_implicates(
    tiered: Configs, monkeypatch: pytest.MonkeyPatch, clean_source: object
) -> None:
    monkeypatch.setattr(releasing, "make_plan", of_two_tables)
    changes = {
        "release.implicates": 2,
        "plan.split_threshold": None,
        "plan.pool_below": None,
        "run.batch_jobs": 50,
    }
    release = pipelines.run(tiered(changes))
    for public in folders(release).values():
        assert verify(public).checks[-1].name == "for release"
        assert len(noisy(public)) == 4
    strong, weak = (Release(folders(release)[name]).plan for name in ("secure", "public"))
    assert weak.tables == strong.tables
    assert weak.numeric.target.epsilon == Fraction(1, 2)


def test_numbers_of_jobs_may_be_those_of_a_public_table(
    tiered: Configs, blurred: Path, clean_source: object
) -> None:
    release = pipelines.run(tiered({"workplaces": {"file": str(blurred)}}))
    refined = pipelines.refine(release.out, "10")
    for public in (*folders(release).values(), refined.public):
        assert verify(public).checks[-1].name == "for release"
        assert alone(public) is None
    presence = Release(folders(release)["public"]).certificate.presence
    assert presence is not None
    assert presence.run.epsilon == "0.5"


def test_a_reviewed_plan_makes_all_tiers(tiered: Configs, clean_source: object) -> None:
    config = tiered()
    planned = pipelines.plan(config)
    assert re.search(r"tier public, epsilon 1: trct to trct 0\.\d{3}\n", planned.text())
    release = pipelines.run(config, plan=planned.folder)
    assert release.certificate.plan_sha256 == planned.sha256
    for public in folders(release).values():
        assert Release(public).accuracy is not None
        assert verify(public).checks[-1].name == "for release"


def test_tiers_of_one_draw_are_not_compared(tiered: Configs, clean_source: object, tmp_path: Path) -> None:
    found = folders(pipelines.run(tiered()))
    with pytest.raises(PublicReleaseError, match="same title, year and tiers"):
        pipelines.compare(found["public"], found["secure"], tmp_path / "change")


def test_a_tier_is_corrected_with_the_configuration_of_its_run(
    tiered: Configs, clean_source: object, tmp_path: Path
) -> None:
    public = folders(pipelines.run(tiered()))["public"]
    config = tiered({"release.licence": "CC-BY-4.0"}).with_out(tmp_path / "corrected")
    corrected = pipelines.correct(public, config, "The licence was missing.")
    assert corrected.certificate.tier is not None
    assert corrected.certificate.tier.name == "public"


def test_a_certificate_that_names_another_tier_is_found_out(tiered: Configs, clean_source: object) -> None:
    public = folders(pipelines.run(tiered()))["public"]

    def other_tier(document: dict[str, Any]) -> None:
        document["tier"]["name"] = "secure"

    edit_json(public / "certificate.json", other_tier)
    seal_again(public)
    assert "tier" in str(refused(public))
    assert "tier" in (alone(public) or "")


@pytest.mark.parametrize(
    ("tiers", "more", "said"),
    [
        ({"public": "1", "secure": "9"}, {}, "tiers.secure: 9 is above privacy.epsilon, 8.6"),
        ({"public": "1", "secure": "4"}, {}, "no reader gets the epsilon of 8.6"),
        ({"public": "8.6", "secure": "8.6"}, {}, "tiers.secure: the epsilon of tiers.public"),
        ({"secure": "8.6"}, {}, "one tier is a release as any other"),
        ({"../x": "1", "secure": "8.6"}, {}, "lower-case letters"),
        ({"public": 1.5, "secure": "8.6"}, {}, "tiers.public: 1.5 is a float"),
        ({"public": "1", "secure": "8.6"}, {"release.mechanism": "dirichlet"}, "publishes no noisy counts"),
        ({"public": "1", "secure": "8.6"}, {"release.mechanism": "gaussian"}, "sum of two discrete Gaussian"),
        ({"public": "1", "secure": "8.6"}, {"release.name": "x" * 160}, "release.name: a ledger keeps"),
    ],
)
def test_tiers_that_cannot_be_are_refused_with_the_fix(
    tiered: Configs, book: Path, tiers: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        tiered({"tiers": tiers}, more)
    (problem,) = [line for line in caught.value.problems if said in line]
    assert "; " in problem
    assert not book.exists()


def test_tiers_that_are_too_close_or_too_weak_are_refused_before_anything_is_paid(
    tiered: Configs, book: Path
) -> None:
    near = tiered({"tiers": {"near": f"8.{'5' + '9' * 40}", "secure": "8.6"}})
    weak = tiered({"tiers": {"weak": "0.0001", "secure": "8.6"}})
    for config, error, said in (
        (near, ConfigError, "tiers.near"),
        (weak, synth.BudgetTooSmallError, "more noise"),
    ):
        with pytest.raises(error, match=said):
            pipelines.run(config)
        assert not book.exists()
        assert left_over(config) == []


def test_without_a_mechanism_the_planner_takes_one_that_has_tiers(tiered: Configs) -> None:
    assert tiered({"release.mechanism": None}).mechanisms == ("geometric",)


def test_both_verifiers_refuse_a_plan_whose_epsilon_is_of_no_tier(
    tiered: Configs, clean_source: object
) -> None:
    public = folders(pipelines.run(tiered()))["public"]
    plan_again(public, lambda document: document["configuration"]["tiers"].update(public="2"))
    assert "tiers" in str(refused(public))
    assert "tiers" in (alone(public) or "")
