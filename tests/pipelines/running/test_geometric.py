"""Two-sided geometric noise: measured, resumed, and found out when noise or counts are changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pipelines
import synth
from helpers import refused
from pipelines import Release, ReleasePlan, resume, run, verify
from pipelines.drawing import estimating
from pipelines.drawing.estimating import JobLayout
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.simulation import simulate_utility
from pipelines.planning.sweep import Sweep, tune
from pipelines.plans import plan as planned
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.description import file_names
from pipelines.release.measurements import Measurements, read_measurements
from pipelines.running import batches as drawing
from pipelines.running import run as runs
from pipelines.storage import cell_file

from .helpers import GEOMETRIC, Configs, everything, seeded

Document = dict[str, Any]


@pytest.fixture
def config(small_config: Configs) -> Configs:
    """The configuration of the small region with this mechanism."""
    return lambda *changes: small_config(GEOMETRIC, *changes)


def test_tune_does_not_try_a_retention_that_the_mechanism_has_not(config: Configs) -> None:
    with pytest.raises(pipelines.ConfigError, match='"geometric" keeps every cell') as caught:
        tune(config(), Sweep(epsilon=("4",), retention_min=("0.5",)))
    assert len(caught.value.problems) == 1
    assert tune(config(), Sweep(epsilon=("8.6",), retention_min=("1.0",)))["certified"].tolist() == [True]


def test_groups_that_are_rounded_as_a_whole_pass_every_check(
    config: Configs, clean_source: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a nation, where there are too many work blocks to round what is expected of each."""
    monkeypatch.setattr(estimating, "_MOST_ROUNDED", 0)
    made = run(config())
    assert JobLayout(made.plan).whole_groups
    assert [check.name for check in verify(made.public)][-1] == "for release"


def of_two_tables(config: pipelines.ReleaseConfig, inputs: PublicInputs, **_: object) -> ReleasePlan:
    """Flows between tracts; and residents by earnings with a fifth of epsilon."""
    table = TableChoice(None, ("SE",), "trct", Fraction(1, 5))
    choices = Choices("trct", 10_000, (), cell_level="trct", tables=(table,))
    return assemble(config, inputs, inputs.slots, choices, config.privacy.delta)


def tables_of(release: Release) -> dict[str, bytes]:
    """The tables of data and measurements, and the accuracy sheet."""
    files = everything(release.public).items()
    tables = {name: content for name, content in files if not name.startswith("plan/") and "parquet" in name}
    return tables | {ACCURACY_FILE: (release.public / ACCURACY_FILE).read_bytes()}


@pytest.mark.deep  # of each kind test_every_kind.py cuts off one
def test_one_key_gives_the_same_bytes_however_it_is_cut_off(
    config: Configs, monkeypatch: pytest.MonkeyPatch, frozen_day: None
) -> None:
    """Cut off while a batch is measured, homes are estimated, a batch is drawn, and errors are.

    Estimates are of several runs of pools, and kept in files, as those of a nation are.
    """
    monkeypatch.setattr(planned, "_BATCH_JOBS", 100)
    monkeypatch.setattr(cell_file, "_IN_MEMORY", 0)
    changes: Document = {"run.batch_jobs": 50, "plan.split_threshold": None, "plan.pool_below": None}
    changes["release.implicates"] = 2
    monkeypatch.setattr(runs, "make_plan", of_two_tables)
    whole, other = (seeded(config(changes), seed) for seed in (1, 2))
    assert len(planned.batches(whole.plan)) > 2
    assert tables_of(whole) != tables_of(other)
    assert len([name for name in tables_of(whole) if name.startswith("measurements/")]) == 4
    assert "its randomness is not secret" in str(refused(whole.public))  # after all other checks
    assert whole.accuracy is not None
    assert whole.accuracy.after_draw
    for function in ("measure", "estimate_factors", "draw_homes", "estimate_risks", "write_measurements"):
        real, calls = getattr(drawing, function), itertools.count()

        def failing(*values: Any, real: Any = real, calls: Any = calls, least: int = 1) -> object:
            if next(calls) >= least:
                raise OSError("no power")
            return real(*values)

        broken = config(changes)
        with monkeypatch.context() as patch:
            patch.setattr(drawing, function, partial(failing, least=function in ("measure", "draw_homes")))
            with pytest.raises(OSError, match="no power"):
                seeded(broken)
        assert tables_of(resume(broken.release.out)) == tables_of(whole)


@pytest.mark.parametrize("whole", [False, True])
def test_homes_exchanged_among_jobs_are_found(
    whole: bool,
    config: Configs,
    microdata_jobs: Callable[..., Any],
    clean_source: object,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Totals of work blocks are as they were; only jobs that no table tells apart may change homes."""
    if whole:
        monkeypatch.setattr(estimating, "_MOST_ROUNDED", 0)
    tables = [{"home": "trct", "work": "trct"}, {"home": "trct", "attributes": ["age"]}]
    released = run(config(microdata_jobs("csv"), {"workload": tables, "privacy.epsilon": "40"}))
    plan, slots = released.plan, released.plan.pools.slots
    assert plan.secondary
    layout = JobLayout(plan)
    assert layout.whole_groups == whole
    noisy = read_measurements(released.public, plan, layout)
    rounded = Measurements(plan, layout, noisy, scratch=tmp_path).of(0, slice(0, plan.pools.n.size))
    jobs = pq.read_table(released.public / file_names(plan.config)["jobs_parquet"])
    homes = plan.geography.number(jobs["h_geocode"])

    def fits(by: list[Any], *, by_slot: bool = True) -> bool:
        order = np.lexsort(by[::-1])
        changed = homes.copy()
        changed[order] = changed[np.lexsort([np.arange(homes.size)[::-1], *by[::-1]])]
        return rounded.fits(changed, by_slot=by_slot)

    told_apart = [slots.work, *(slots.attributes[name] for name in layout.attributes)]
    assert fits([*told_apart])
    assert not fits([plan.geography.unit_of(plan.level, slots.work)])
    assert not fits([slots.work])
    assert fits([slots.work], by_slot=False)


def test_settings_that_change_nothing_are_not(config: Configs) -> None:
    for more in ({}, {"plan.preset": "onthemap"}):
        assert config({"plan.retention_min": "1"}, more).plan.retention_min == 1


@pytest.mark.deep
def test_the_planner_plans_for_the_mechanism(small_config: Configs, config: Configs) -> None:
    """With cells chosen for it, this mechanism loses less than the other, and than with other cells."""
    chosen = {"plan.split_threshold": None, "plan.pool_below": None}
    ours, theirs = config(chosen), small_config(chosen, {"plan.retention_min": None})
    inputs = read_public_inputs(ours)
    coarse = config({"plan.split_threshold": "200"})
    losses = []
    for asked in (ours, theirs, coarse):
        plan = pipelines.make_plan(asked, inputs)
        tried = [simulate_utility(plan, inputs.model, seed=seed).objective for seed in range(5)]
        losses.append(np.mean(tried))
    assert losses[0] < min(losses[1:])


def test_a_forecast_counts_the_noise(config: Configs) -> None:
    inputs = read_public_inputs(config())
    shares = []
    for epsilon in ("8.6", "1"):
        plan = pipelines.make_plan(config({"privacy.epsilon": epsilon}), inputs)
        shares.append(simulate_utility(plan, inputs.model).noise_share)
        assert plan.numeric.target.epsilon == Fraction(epsilon)
    assert 0 < shares[0] < shares[1] < 1


def test_an_epsilon_that_is_too_small_says_which_is_not(config: Configs) -> None:
    tiny = config({"privacy.epsilon": "1e-6"})
    with pytest.raises(synth.BudgetTooSmallError, match=r"smallest epsilon that would do is 0\.001"):
        pipelines.make_plan(tiny)


def test_rows_of_a_certificate_take_numbers_only(released: Callable[[str], Release]) -> None:
    release = released("geometric")
    row = release.certificate.classes[0]
    for bad in ("x", ["0.5"], 1, None):
        with pytest.raises(ValueError, match="ratio"):
            type(row).model_validate({**row.model_dump(), "ratio": bad})
