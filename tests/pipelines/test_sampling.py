"""Batches: never inside a work block, all of them once; and one batch's draws are its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geo_data
import synth
from pipelines import ReleaseConfig, ReleasePlan, make_plan
from pipelines.planning import job_source
from pipelines.sampling import batches, sample_batch


def table(work: list[int], n: list[int]) -> geo_data.PoolTable:
    slots = geo_data.Slots(np.repeat(np.array(work, np.int32), n), {}, {})
    return geo_data.PoolTable(np.array(work, np.int32), {}, np.array(n, np.int64), slots)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40)), min_size=1, max_size=40),
    st.integers(1, 200),
)
def test_batches_cover_all_pools_and_split_no_work_block(pools: list[tuple[int, int]], jobs: int) -> None:
    pools = sorted(pools)
    work, n = (list(column) for column in zip(*pools, strict=True))
    cut = batches(table(work, n), jobs)
    assert cut[0].start == 0
    assert cut[-1].stop == len(pools)
    size = {block: sum(k for w, k in pools if w == block) for block in work}
    for this, following in zip(cut, [*cut[1:], None], strict=True):
        assert this.start < this.stop
        if following is not None:
            assert this.stop == following.start
            assert work[this.stop - 1] != work[this.stop]
        # Bounded by what was asked for and the largest work block, so memory is.
        assert sum(n[this]) < jobs + max(size.values())


def test_batches_are_not_needlessly_many() -> None:
    assert batches(table([0, 1, 2], [5, 5, 5]), 1000) == [slice(0, 3)]
    assert len(batches(table(list(range(1000)), [1] * 1000), 100)) == 10


@pytest.fixture(scope="module")
def planned(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReleasePlan, np.ndarray]:
    import pipelines

    config: ReleaseConfig = pipelines.parse_config(
        config_text(), tmp_path_factory.mktemp("sampling"), "small.toml"
    )
    release = make_plan(config)
    records = job_source(config, release.geography).records()
    return release, geo_data.group_records(release.pools, records)


def test_a_batch_does_not_depend_on_what_other_batches_hold(planned: tuple[ReleasePlan, np.ndarray]) -> None:
    release, homes = planned
    offsets = np.concatenate([[0], np.cumsum(release.pools.n)])
    for number, pools in enumerate(batches(release.pools, 100)):
        own = slice(offsets[pools.start], offsets[pools.stop])
        elsewhere = np.zeros_like(homes)
        elsewhere[own] = homes[own]
        drawn = [
            sample_batch(release, pools, whole[own], synth.RunKey.from_seed(5), number)
            for whole in (homes, elsewhere)
        ]
        np.testing.assert_array_equal(*drawn)
        assert drawn[0].shape == (release.pools.n[pools].sum(),)


def test_batches_and_stages_have_streams_of_their_own(planned: tuple[ReleasePlan, np.ndarray]) -> None:
    """The same pools under another batch number are drawn anew: no key stream is used twice."""
    release, homes = planned
    pools = slice(0, release.pools.n.size)
    one, same, other = (
        sample_batch(release, pools, homes, synth.RunKey.from_seed(5), number) for number in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() > 0.1


def test_a_synthetic_home_lies_in_a_cell_that_was_kept_or_filled(
    planned: tuple[ReleasePlan, np.ndarray],
) -> None:
    """With a vanishing prior, synthetic workers come from the cells of real ones, block for cell."""
    release, homes = planned
    pools = slice(0, release.pools.n.size)
    drawn = sample_batch(release, pools, homes, synth.RunKey.from_seed(5), 0)
    assert drawn.min() >= 0
    assert drawn.max() < release.geography.n_blocks
    domains, pool = release.plan.domains, np.repeat(np.arange(release.pools.n.size), release.pools.n)
    domain = release.plan.pools.domain[pool]
    real = set(zip(pool.tolist(), domains.locate(domain, homes).tolist(), strict=True))
    found = list(zip(pool.tolist(), domains.locate(domain, drawn).tolist(), strict=True))
    copied = np.mean([key in real for key in found])
    assert copied > 1 - 2 * release.mechanism.noise_share(release.plan)
    assert copied > 0.5
    assert (drawn != homes).any()
