"""Batches: never inside a work block, all of them once; and one batch's draws are its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import synth
from geo_data.pools import group_records
from pipelines import ReleasePlan, make_plan, parse_config
from pipelines.drawing.sampling import sample_batch
from pipelines.planning.public_inputs import job_source
from pipelines.plans import plan as module
from pipelines.plans.plan import batches


@pytest.mark.parametrize("below", [1, 8, 1000])
@given(jobs=st.integers(1, 300))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_cover_all_pools_and_split_no_work_block(
    below: int, jobs: int, config_text: Callable[..., str]
) -> None:
    plan = plan_of(config_text, below)
    cut = batches(plan, jobs)
    slots, n = plan.pools.slots, plan.pools.n
    assert [part.start for part in cut] == [0, *(part.stop for part in cut[:-1])]
    assert cut[-1].stop == n.size
    offsets = np.concatenate([[0], np.cumsum(n)])
    unit = plan.geography.unit_of("trct" if below > 1 else "tabblk2010", slots.work)
    for this in cut:
        own = slice(offsets[this.start], offsets[this.stop])
        assert this.start < this.stop
        # No work block is in two batches, and batches follow one another in the order of the blocks.
        if this.stop < n.size:
            assert slots.work[own].max() < slots.work[own.stop :].min()
        # Bounded by what was asked for and the largest unit, so memory is.
        assert n[this].sum() < jobs + np.bincount(unit).max()


def test_batches_are_not_needlessly_many(config_text: Callable[..., str]) -> None:
    assert len(batches(plan_of(config_text, 8), 100_000)) == 1
    assert len(batches(plan_of(config_text, 1), 100)) <= 7


def test_batches_are_never_more_than_a_scheduler_can_hold(
    config_text: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where smaller ones are asked for, and where the jobs are no multiple of the limit."""
    plan = plan_of(config_text, 1)
    for most in (1, 4, 7, 29):
        monkeypatch.setattr(module, "_MOST_BATCHES", most)
        assert len(batches(plan, 1)) <= most
        with monkeypatch.context() as patch:
            patch.setattr(module, "_BATCH_JOBS", 1)
            assert len(batches(plan)) <= most


@cache
def _parsed(text: str) -> ReleasePlan:
    return make_plan(parse_config(text, Path(), "small.toml"))


def plan_of(config_text: Callable[..., str], below: int) -> ReleasePlan:
    return _parsed(config_text({"plan.pool_below": below}))


@pytest.fixture(scope="module")
def planned(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReleasePlan, np.ndarray]:
    config = parse_config(config_text(), tmp_path_factory.mktemp("sampling"), "small.toml")
    plan = make_plan(config)
    records = job_source(config, plan.geography).records()
    return plan, group_records(plan.pools, plan.geography, records)


def test_a_batch_does_not_depend_on_what_other_batches_hold(planned: tuple[ReleasePlan, np.ndarray]) -> None:
    plan, homes = planned
    offsets = np.concatenate([[0], np.cumsum(plan.pools.n)])
    for number, pools in enumerate(batches(plan, 100)):
        own = slice(offsets[pools.start], offsets[pools.stop])
        elsewhere = np.zeros_like(homes)
        elsewhere[own] = homes[own]
        drawn = [
            sample_batch(plan, pools, whole[own], synth.RunKey.from_seed(5), number)[0]
            for whole in (homes, elsewhere)
        ]
        np.testing.assert_array_equal(*drawn)
        assert drawn[0].shape == (plan.pools.n[pools].sum(),)


def test_batches_and_stages_have_streams_of_their_own(planned: tuple[ReleasePlan, np.ndarray]) -> None:
    """The same pools under another batch number are drawn anew: no key stream is used twice."""
    plan, homes = planned
    pools = slice(0, plan.pools.n.size)
    one, same, other = (
        sample_batch(plan, pools, homes, synth.RunKey.from_seed(5), number) for number in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() > 0.1


def test_a_synthetic_home_lies_in_a_cell_that_was_kept_or_filled(
    planned: tuple[ReleasePlan, np.ndarray],
) -> None:
    """With a vanishing prior, synthetic workers come from the cells of real ones, block for cell."""
    plan, homes = planned
    pools = slice(0, plan.pools.n.size)
    drawn = sample_batch(plan, pools, homes, synth.RunKey.from_seed(5), 0)[0]
    assert drawn.min() >= 0
    assert drawn.max() < plan.geography.n_blocks
    domains, pool = plan.numeric.domains, np.repeat(np.arange(plan.pools.n.size), plan.pools.n)
    domain = plan.numeric.pools.domain[pool]
    real = set(zip(pool.tolist(), domains.locate(domain, homes).tolist(), strict=True))
    found = list(zip(pool.tolist(), domains.locate(domain, drawn).tolist(), strict=True))
    copied = np.mean([key in real for key in found])
    assert copied > 1 - 2 * plan.mechanism.noise_share(plan.numeric)
    assert copied > 0.5
    assert (drawn != homes).any()
