"""Public tables of attributes of a census: what they are worth, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import geo_data
import pipelines
import synth
from geo_data.jobs import Slots
from helpers import same_key
from pipelines.drawing.sampling import measure
from pipelines.drawing.workplaces import estimate_slots
from pipelines.planning import search
from pipelines.planning.public_inputs import job_source, read_public_inputs
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices, ReleasePlan
from pipelines.running.demo import demo_inputs

pytestmark = pytest.mark.quick

NAMES = ("mode", "occupation")
OF_WORKPLACES = (
    TableChoice(None, NAMES, None, Fraction(1, 100)),
    TableChoice("zone", (), None, Fraction(1, 10)),
    TableChoice("town", NAMES, None, Fraction(1, 10)),
)
CENSUS, PERSONS = "census_demo.toml", 10_000
Census = Callable[[str], pipelines.ReleaseConfig]


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Census:
    """Return the configuration of a census at a small epsilon, with tables of attributes or without.

    Their numbers are off by up to a fifth. Kinds are "town", "all", and "" for none.
    """
    folder = tmp_path_factory.mktemp("census")
    path = demo_inputs(folder, which=CENSUS, persons=PERSONS)
    text = path.read_text(encoding="utf-8").replace("210_000", str(PERSONS)).replace('"2"', '"0.4"')
    inputs = folder / "out" / "census-demo-inputs"
    persons = pd.read_csv(inputs / "census_persons.csv.gz", dtype="str")
    towns = pd.read_csv(inputs / "census_zones.csv", dtype="str").set_index("zone")["town"]
    persons["town"] = persons["work"].map(towns).fillna(persons["work"])
    random = np.random.default_rng(1)
    for name in NAMES:
        for kind, by in (("town", ["town", name]), ("all", [name])):
            table = persons.groupby(by, as_index=False).size()
            table["size"] = (table["size"] * random.uniform(0.8, 1.2, len(table))).round(1)
            table.to_csv(inputs / f"{name}_{kind}.csv", index=False)

    def config(kind: str) -> pipelines.ReleaseConfig:
        changed, areas = text, 'level = "town"\narea = "town"\n' * (kind == "town")
        for name in NAMES if kind else ():
            table = (
                f'file = "../out/census-demo-inputs/{name}_{kind}.csv"\ncategory = "{name}"\ncount = "size"\n'
            )
            head = f'name = "{name}"\n'
            end = changed.index("]\n", changed.index(head)) + 2
            changed = f"{changed[:end]}[attribute.table]\n{table}{areas}{changed[end:]}"
        return pipelines.parse_config(changed, folder / "examples", CENSUS)

    return config


def planned(config: pipelines.ReleaseConfig) -> ReleasePlan:
    with pytest.MonkeyPatch.context() as patch:
        chosen = Choices("town", 8, (), cell_level="town", workplaces=OF_WORKPLACES)
        patch.setattr(search, "choose", lambda *_: chosen)
        return search.make_plan(config, read_public_inputs(config))


def off(plan: ReleasePlan, slots: Slots, true: geo_data.JobRecords) -> dict[str, float]:
    """How far shares of categories in towns of work are from the truth: total variation, mean of all jobs."""

    def counts(jobs: Slots | geo_data.JobRecords, name: str) -> NDArray[np.float64]:
        shape = plan.geography.n_units("town"), len(plan.pools.slots.categories[name])
        result = np.zeros(shape)
        np.add.at(result, (plan.geography.unit_of("town", jobs.work), jobs.attributes[name]), 1)
        return result

    variation = {}
    for name in NAMES:
        estimated, real = counts(slots, name), counts(true, name)
        jobs = real.sum(axis=1)
        estimated, real = (x / np.maximum(x.sum(axis=1, keepdims=True), 1) for x in (estimated, real))
        variation[name] = float(np.average(np.abs(estimated - real).sum(axis=1) / 2, weights=jobs))
    return variation


def test_shares_of_work_areas_are_nearer_to_the_truth(census: Census) -> None:
    """At a small epsilon, mean of four seeds: with tables of towns, and of the whole region, than without."""
    lost: dict[str, dict[str, float]] = {}
    for kind in ("", "all", "town"):
        config = census(kind)
        plan = planned(config)
        source = job_source(config, plan.geography)
        (true,) = source.parts(NAMES, plan.pools.slots.categories)
        drawn = []
        for seed in range(4):
            key, tables = (
                synth.RunKey.from_seed(seed),
                zip(plan.workplaces, plan.numeric.workplaces, strict=True),
            )
            noisy = [measure(cells.count(true), table, key, k) for k, (cells, table) in enumerate(tables)]
            drawn.append(off(plan, estimate_slots(plan, noisy), true))
        lost[kind] = {name: float(np.mean([of[name] for of in drawn])) for name in NAMES}
    for name in NAMES:
        assert lost["all"][name] < lost[""][name], lost
        assert lost["town"][name] < 0.4 * lost[""][name], lost


def test_a_release_is_made_with_them_and_verified(
    census: Census, clean_source: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Choices("town", 8, (), cell_level="town", workplaces=OF_WORKPLACES)
    monkeypatch.setattr(search, "choose", lambda *_: chosen)
    release = pipelines.run(census("town").with_out(tmp_path / "out"), key=same_key())
    assert [check.name for check in pipelines.verify(release.public)][-1] == "for release"
    quoted = release.plan.config.attribute[0].table
    assert quoted is not None
    assert str(quoted.file) == "mode_town.csv"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.assign(mode="rocket"), "mode_town.csv: column mode: .* a category that"),
        (lambda table: table.assign(town="Atlantis"), "mode_town.csv: column town: .* is no town|no town of"),
        (lambda table: table.assign(size=-1), "mode_town.csv: column size: .* negative"),
        (lambda table: table.assign(size=0), "mode_town.csv: column size: all numbers are 0"),
        (lambda table: table.drop(columns="size"), "mode_town.csv: missing columns: size"),
    ],
)
def test_tables_that_say_something_else_are_refused_before_anything_is_read(
    change: Callable[[pd.DataFrame], pd.DataFrame], words: str, census: Census
) -> None:
    """And whatever the jobs are: these are not there."""
    config = census("town")
    path = config.attribute[0].table.file
    jobs, table = config.jobs.file, path.read_text(encoding="utf-8")
    change(pd.read_csv(path, dtype="str")).to_csv(path, index=False)
    away = jobs.rename(jobs.with_suffix(".away"))
    try:
        with pytest.raises(geo_data.InputError) as caught:
            pipelines.plan(config)
    finally:
        away.rename(jobs)
        path.write_text(table, encoding="utf-8")
    assert re.search(words, str(caught.value))
