"""Releases under a policy of distances: what they say and cost, checked both ways, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import geo_data
import pipelines
from helpers import alone, forging, plan_again, refuse_each
from pipelines import ConfigError, Release, plan, run, verify
from pipelines.planning import search
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.storage import load_plan
from pipelines.release.certificate import DistanceField, certificate_schema
from pipelines.running.report import plan_summary
from pipelines.views.maps.page import certificate_words
from synth.geometric.mechanism import noise_loss

from .helpers import Configs, left_over
from .test_policy import NOISE

BLOCKS = NOISE | {"plan.cell_level": "tabblk2010"}
COUNTY = TableChoice(None, ("age",), "cty", Fraction(1, 5))
TRACT = TableChoice(None, ("age",), "trct", Fraction(1, 5))


def distance(km: object) -> dict[str, Any]:
    return {"privacy.policy": {"distance_km": km}}


@pytest.fixture(scope="module")
def made(
    config_text: Callable[..., str],
    microdata_jobs: Callable[..., Any],
    zones: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    clean_source: object,
) -> dict[str, Release]:
    """Of single jobs, measured in blocks and a coarse table, near and far; and of OD files with zones."""
    found = {}
    for name, km, changes, table in (
        ("coarse", "2", microdata_jobs("parquet") | BLOCKS, COUNTY),
        ("nested", 20, microdata_jobs("parquet") | BLOCKS, TRACT),
        ("zones", "1.5", zones, None),
    ):
        config = pipelines.parse_config(
            config_text(changes, distance(km)), tmp_path_factory.mktemp(name), "policy.toml"
        )
        with pytest.MonkeyPatch.context() as patch:
            if table is not None:
                chosen = Choices("trct", 8, (), cell_level="tabblk2010", tables=(table,))
                patch.setattr(search, "choose", lambda *_, chosen=chosen: chosen)
            found[name] = run(config)
    return found


def test_releases_say_their_distance_and_verify_both_ways(made: dict[str, Release], tmp_path: Path) -> None:
    for name, release in made.items():
        assert [check.name for check in verify(release.public)][-1] == "for release"
        assert alone(release.public) is None
        document = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
        schema = json.loads((release.public / "certificate.schema.json").read_text(encoding="utf-8"))
        assert schema == certificate_schema()
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        certificate, policy = release.certificate, release.plan.policy
        said = certificate.policy
        assert isinstance(said, DistanceField)
        assert (said.name, said.parts, said.most_steps) == (policy.name, policy.n_parts, policy.steps)
        assert load_plan(release.public / "plan").policy.name == policy.name
        near = f"within {said.distance_km} km of"
        assert f"another origin {near} its own" in certificate.definition.words
        several = policy.n_parts > 1
        assert several == (name != "nested")
        for text in (
            (release.public / "README.md").read_text(encoding="utf-8"),
            certificate_words(certificate, signed=False).replace("&quot;", '"').replace("&#x27;", "'"),
        ):
            one_line = " ".join(text.split())
            assert said.words in one_line
            assert f"another home {near} its own" in one_line
            assert f"two homes ({near} each other)" in one_line
        assert several == ("is public by policy" in said.words)
        assert several == any("by policy" in one for one in certificate.definition.assumed_public)
        assert said.words in plan_summary(release.plan, release.plan.certify())
        files = release.write_intervals(tmp_path / f"{name}-intervals", draws=19)
        fine = pipelines.open_release(release.public).draws(files["draws"]).flows("trct", "trct")
        # Where each part lies in one tract, flows between tracts are public.
        assert (fine["high"] > fine["low"]).any() == (name == "nested")
    report = pipelines.attackers(made["zones"].public, tmp_path / "attackers").text()
    assert "two homes (within 1.5 km of each other)" in " ".join(report.split())


def test_a_table_that_no_step_changes_costs_nothing_and_leaves_all_of_epsilon_to_others(
    made: dict[str, Release],
) -> None:
    for name, release in made.items():
        if name == "zones":
            continue
        guarantee, numeric = release.plan.certify(), release.plan.numeric
        blocks, coarse = guarantee.classes
        assert guarantee.epsilon <= numeric.epsilon < guarantee.epsilon * (1 + Fraction(1, 10**9))
        alone_ = noise_loss(numeric.parameters.ratio)  # type: ignore[attr-defined]
        assert blocks.epsilon == alone_
        if name == "coarse":
            assert (coarse.epsilon, guarantee.epsilon) == (0, alone_)
        else:
            assert coarse.epsilon > 0
            assert guarantee.epsilon == alone_ + coarse.epsilon


def test_a_distance_that_is_changed_is_refused_both_ways(made: dict[str, Release], tmp_path: Path) -> None:
    release = made["coarse"]
    stated = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
    words = stated["policy"]["words"]

    other = partial(forging, stated)

    def worded(old: str, new: str) -> Callable[[Path], object]:
        assert old in words
        return other(lambda d: d["policy"].update(words=words.replace(old, new)))

    def planned(policy: object) -> Callable[[Path], object]:
        return lambda public: plan_again(
            public, lambda p: p["configuration"]["privacy"].update(policy=policy)
        )

    by_tract = {
        "kind": "partition",
        "name": "parts st:0",
        "partition": "trct",
        "parts": 6,
        "words": "",
        "symbols": "",
    }

    def smaller(document: dict[str, Any]) -> None:
        document["run"]["epsilon"] = "4"

    refuse_each(
        release.public,
        tmp_path,
        [
            (other(lambda d: d["policy"].update(distance_km="3")), "guarantee"),
            (other(lambda d: d["policy"].update(name="distance 2:0")), "guarantee"),
            (other(lambda d: d["policy"].update(parts=1)), "guarantee"),
            (other(lambda d: d["policy"].update(most_steps=2)), "guarantee"),
            (worded("most 4 steps", "most 1 steps"), "guarantee"),
            (worded("2 km", "20 km"), "guarantee"),
            (other(lambda d: d["definition"].update(neighbours="Any.")), "guarantee"),
            (other(smaller), "guarantee"),
            (other(lambda d: d.update(policy=by_tract)), "guarantee"),
            (planned({"distance_km": "3"}), "guarantee"),
            (planned({"distance_km": "2.0"}), "plan"),
            (planned({"partition": "trct"}), "guarantee"),
        ],
    )


def test_what_cannot_be_a_distance_is_refused_before_anything_is_paid(
    paid_config: Configs, book: Path
) -> None:
    for km, changes, words in (
        ("0", {}, '"0" is not above 0; write a number above 0'),
        (-3, {}, '"-3" is not above 0'),
        (1.5, {}, '1.5 is a float; write it as text: "1.5"'),
        (True, {}, "is not a number written as text"),
        ("far", {}, '"far" is not a number'),
        (3, {"workplaces": {"file": "w.csv"}}, "under a distance, numbers of records that are protected too"),
    ):
        with pytest.raises(ConfigError) as caught:
            paid_config(changes, distance(km))
        assert len(caught.value.problems) == 1
        assert words in str(caught.value)
    for km, words in (
        ("1e-9", "no block lies within 0.000000001 km of another, so nothing would be protected"),
        (1000, 'all blocks lie within 1000 km of each other, which is policy = "full"'),
    ):
        config = paid_config(distance(km))
        for act in (plan, run):
            with pytest.raises(geo_data.InputError, match=words):
                act(config)
        assert left_over(config) == []
    assert not book.exists()
    assert paid_config(distance(16)).public == paid_config(distance("16.0")).public
