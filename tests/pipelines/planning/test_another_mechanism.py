"""A further mechanism is one class with the methods of `synth.Mechanism`, and a name: randomised response.

Every worker keeps the cell of the home with w chances in w + k - 1, and has each of the k - 1 others with 1.
Nothing of pipelines or geo_data is changed for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pipelines
import synth
from pipelines.release.certificate import certificate_schema
from synth.mechanism import ClassGuarantee
from synth.randomness import WordStream, uniform_below
from synth.tails import rigorous, upper_fraction

pytestmark = pytest.mark.quick

NAME = "randomised-response"


@dataclass(frozen=True)
class Weight:
    """w, a whole number: so the draw is exact."""

    weight: int

    def to_json(self) -> dict[str, Any]:
        return {"weight": self.weight}

    @property
    def loss(self) -> Fraction:
        """Return ln w, rounded up: an output is at most w times as likely from one cell as from another."""
        with rigorous() as balls:
            return upper_fraction(balls.log(balls.number(Fraction(self.weight))))


class RandomisedResponse(synth.Mechanism):
    name = NAME
    settings = frozenset()
    words = "cells of confidential records, of which some were exchanged at random"
    delta_sharing = "There is nothing to share: no pool fails, delta is 0."

    def calibrate(
        self,
        pools: synth.Pools,
        domains: synth.Domains,
        retention: tuple[Fraction, ...],
        target: synth.Target,
        *,
        rough: bool = False,
        count: Callable[[int, int], None] | None = None,
    ) -> synth.Plan:
        weight = Weight(max(1, int(math.exp(target.epsilon))))
        while weight.loss > target.epsilon:
            weight = Weight(weight.weight - 1)
        of_class = np.zeros(pools.n_pools, np.int32)
        return synth.Plan(NAME, target, pools, domains, of_class, weight)

    def parameters_from_json(self, data: dict[str, Any]) -> Weight:
        return Weight(data["weight"])

    def certify(self, plan: synth.Plan, *, as_first: bool = False) -> synth.Guarantee:
        loss, pools, nothing = plan.parameters.loss, plan.pools, Fraction(0)  # type: ignore[attr-defined]
        cells = (int(plan.domains.n_cells[pools.domain].max()),)
        sizes = (int(pools.n.min()), int(pools.n.max()), int(pools.m.max()))
        row = ClassGuarantee(pools.n_pools, *sizes, cells, loss, nothing, nothing)
        return synth.Guarantee.of_classes([row], loss, [(loss, nothing)])

    def noise_share(self, plan: synth.Plan) -> float:
        others = plan.k - 1
        moved = others / (others + plan.parameters.weight)  # type: ignore[attr-defined]
        return float(np.average(moved, weights=plan.pools.n))

    def explain(self, plan: synth.Plan, guarantee: synth.Guarantee) -> tuple[str, str]:
        return "some workers are exchanged", f"answers ln w = {float(guarantee.epsilon):.3f}"

    def sample(
        self,
        plan: synth.Plan,
        pools: slice,
        cells: NDArray[np.int32],
        stream: WordStream,
        sizes: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        weight = plan.parameters.weight  # type: ignore[attr-defined]
        k = np.repeat(plan.domains.n_cells[plan.pools.domain[pools]], plan.pools.n[pools]).astype(np.int64)
        move = np.maximum(uniform_below(weight + k - 1, stream) - weight + 1, 0)
        return ((cells + move) % k).astype(np.int32)


@pytest.fixture
def config(
    small_config: Callable[..., pipelines.ReleaseConfig], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pipelines.ReleaseConfig]:
    """The configuration of the small region with this mechanism."""
    monkeypatch.setitem(synth.MECHANISMS, NAME, RandomisedResponse())
    own = {"release.mechanism": NAME, "plan.retention_min": "1"}
    return lambda change={}: small_config(own | change)


def test_a_release_of_three_implicates(
    config: Callable[..., pipelines.ReleaseConfig], clean_source: object
) -> None:
    release = pipelines.run(config({"release.implicates": 3}))
    assert [check.name for check in pipelines.verify(release.public)][-1] == "for release"
    document = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, certificate_schema(), cls=jsonschema.Draft202012Validator)
    weight = int(math.exp(8.6 / 3))
    assert document["mechanism"] == NAME
    assert float(Fraction(document["run"]["epsilon"])) == pytest.approx(3 * math.log(weight))
    assert document["run"]["delta"] == "0"
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    assert RandomisedResponse.words in " ".join(readme.split())
    tables = [
        pipelines.open_release(release.public, i).unit_flows("tabblk2010", "tabblk2010") for i in (1, 2, 3)
    ]
    totals = [table.groupby("work")["S000"].sum() for table in tables]
    for total in totals[1:]:
        pd.testing.assert_series_equal(total, totals[0])


def test_tuning_compares_it(config: Callable[..., pipelines.ReleaseConfig]) -> None:
    results = pipelines.tune(config(), pipelines.Sweep(mechanism=(NAME, "geometric")))
    assert results["certified"].all()
    assert results["mechanism"].tolist() == [NAME, "geometric"]
    with pytest.raises(pipelines.ConfigError, match="keeps every cell"):
        config({"plan.retention_min": "0.5"})


def test_public_workplaces_are_refused_for_a_mechanism_that_needs_exact_numbers(
    config: Callable[..., pipelines.ReleaseConfig],
) -> None:
    with pytest.raises(pipelines.ConfigError, match="needs the exact number of jobs"):
        config({"workplaces": {"file": "table.csv"}})
