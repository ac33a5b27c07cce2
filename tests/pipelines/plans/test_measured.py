"""Secondary measured tables: groups and cells from public slots, against slow loops."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geo_data
import pipelines
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.plans.measured import MeasuredGroups, TableChoice
from pipelines.plans.plan import Choices, ReleasePlan
from pipelines.plans.storage import save_plan

TENTH = Fraction(1, 10)


@pytest.fixture(scope="module")
def inputs(module_config: ReleaseConfig) -> PublicInputs:
    return read_public_inputs(module_config)


@pytest.fixture(scope="module")
def module_config(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> ReleaseConfig:
    return pipelines.parse_config(config_text(), tmp_path_factory.mktemp("measured"), "small.toml")


@pytest.mark.parametrize("work", [None, "cty", "trct", "tabblk2010"])
@pytest.mark.parametrize("by", [(), (0,), (0, 1)])
def test_groups_are_those_of_a_slow_loop(inputs: PublicInputs, work: str | None, by: tuple[int, ...]) -> None:
    slots, geography = inputs.slots, inputs.geography
    names = tuple(list(slots.attributes)[i] for i in by)
    groups = MeasuredGroups(TableChoice(work, names, "trct", TENTH), slots, geography)
    keys = []
    for job in range(len(slots)):
        area = -1 if work is None else int(geography.unit_of(work, slots.work[job : job + 1])[0])
        keys.append((area, *(int(slots.attributes[name][job]) for name in names)))
    counted = Counter(keys)
    assert groups.table.n.tolist() == [counted[key] for key in sorted(counted)]
    number = {key: i for i, key in enumerate(sorted(counted))}
    assert groups.find(slots).tolist() == [number[key] for key in keys]
    assert groups.table.domains.cuts.tolist() == geography.starts("trct").tolist()
    assert groups.table.domains.n_domains == 1
    margins = groups.margins().tolist()
    assert len(margins) == len(by)
    for i, margin in enumerate(margins, start=1):
        kinds = [(key[0], key[i]) for key in sorted(counted)]
        assert list(map(margin.index, margin)) == list(map(kinds.index, kinds))


def test_jobs_that_no_slot_can_be_for_are_in_no_group(inputs: PublicInputs) -> None:
    slots = inputs.slots
    name = next(iter(slots.attributes))
    work = np.array([slots.work[0], -1, slots.work[0]], np.int32)
    codes = np.array([slots.attributes[name][0], 0, len(slots.categories[name])], np.uint8)
    records = geo_data.JobRecords(work, np.zeros(3, np.int32), {name: codes})
    for area in (None, "trct"):
        groups = MeasuredGroups(TableChoice(area, (name,), "cty", TENTH), slots, inputs.geography)
        found = groups.find(records)
        assert found[0] < groups.table.n.size
        assert found[1:].tolist() == [groups.table.n.size] * 2


def test_choices_are_written_and_read() -> None:
    for choice in (
        TableChoice(None, ("a", "b"), "trct", TENTH),
        TableChoice("cty", (), "bgrp", Fraction(2, 7)),
    ):
        assert TableChoice.from_json(choice.to_json()) == choice
    said = TableChoice("cty", (), "bgrp", TENTH).to_json()
    for name, value, error in (("share", 0.1, TypeError), ("by", [1], TypeError), ("share", "x", ValueError)):
        with pytest.raises(error):
            TableChoice.from_json(said | {name: value})
    with pytest.raises(ValueError, match="work, by, home and share"):
        TableChoice.from_json(said | {"more": 1})


def test_what_there_is_not_is_refused(inputs: PublicInputs) -> None:
    for choice in (
        TableChoice("ward", (), "trct", TENTH),
        TableChoice(None, (), "ward", TENTH),
        TableChoice(None, ("colour",), "trct", TENTH),
    ):
        with pytest.raises(ValueError, match=r"ward|colour"):
            MeasuredGroups(choice, inputs.slots, inputs.geography)


TABLES = (TableChoice(None, ("SE",), "trct", TENTH), TableChoice("cty", (), "bgrp", Fraction(1, 5)))


@pytest.fixture(scope="module")
def plan(
    inputs: PublicInputs, config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> ReleasePlan:
    noise = {"release.mechanism": "geometric", "plan.retention_min": "1", "privacy.delta": "0"}
    config = pipelines.parse_config(config_text(noise), tmp_path_factory.mktemp("plan"), "small.toml")
    choices = Choices("trct", 8, (1.0,), tables=TABLES)
    return assemble(config, inputs, inputs.slots, choices, config.privacy.delta)


def test_a_plan_with_several_tables_is_certified_as_their_sum(plan: ReleasePlan) -> None:
    guarantee = plan.certify()
    shares = [1 - sum(table.share for table in TABLES), *(table.share for table in TABLES)]
    assert [row.pools for row in guarantee.classes][1:] == [groups.table.n.size for groups in plan.secondary]
    assert guarantee.epsilon == sum(row.epsilon for row in guarantee.classes)
    assert plan.met_by(guarantee)
    for row, share in zip(guarantee.classes, shares, strict=True):
        assert row.epsilon <= share * plan.numeric.target.epsilon < row.epsilon * (1 + Fraction(1, 10**6))


def test_it_is_stored_and_read_back(plan: ReleasePlan, tmp_path: Path) -> None:
    digest = save_plan(plan, tmp_path / "plan")
    loaded = pipelines.load_plan(tmp_path / "plan")
    assert loaded.choices.tables == TABLES
    assert loaded.certify() == plan.certify()
    for one, other in zip(loaded.secondary, plan.secondary, strict=True):
        assert np.array_equal(one.table.n, other.table.n)
    assert save_plan(loaded, tmp_path / "again") == digest


def test_what_a_stored_plan_says_of_its_tables_must_be_so(plan: ReleasePlan, tmp_path: Path) -> None:
    save_plan(plan, tmp_path / "plan")
    path = tmp_path / "plan" / "plan.json"
    genuine = path.read_text()

    def without_tables(document: dict[str, Any]) -> None:
        del document["choices"]["tables"]

    def without_a_ratio(document: dict[str, Any]) -> None:
        document["parameters"]["secondary"].pop()

    def of_no_level(document: dict[str, Any]) -> None:
        document["choices"]["tables"][0]["home"] = "ward"

    def of_another_mechanism(document: dict[str, Any]) -> None:
        document["mechanism"] = "dirichlet"

    for change in (without_tables, without_a_ratio, of_no_level, of_another_mechanism):
        document = json.loads(genuine)
        change(document)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        with pytest.raises((ValueError, KeyError, TypeError)):
            pipelines.load_plan(tmp_path / "plan").certify()
