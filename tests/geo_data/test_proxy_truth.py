"""Proxy truth: drawn from the documented hierarchy, whose moments are compared with exact ones.

With no table and all blocks in one place, every destination has the same shares, P, so that many destinations
are as many independent draws. Frequencies are compared within five standard errors, or by chi-square.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import chisquare

from geo_data import PublicModel, Slots, build_model
from geo_data.jobs import inside_share
from geo_data.model import Deviation
from geo_data.proxy_truth import (
    Assumptions,
    _draw_alike,
    _factors,
    _neighbourhoods,
    attribute_concentrations,
    proxy_homes,
)

from .plain import flows, geography

Int32 = NDArray[np.int32]


NOTHING = Deviation(0.0, 1e12)


def plain(blocks: Deviation) -> Assumptions:
    """Assume that work blocks deviate from their units, and that homes are as the model expects them."""
    return Assumptions(blocks, NOTHING, clumps=0.0, residents=1e-12, homes=1e12, anywhere=0.0)


def flat_model(weights: Sequence[int], per_area: int, deviation: Deviation) -> PublicModel:
    """Return a model in which shares follow the public weights, whatever the destination."""
    n = len(weights)
    places = geography([per_area] * (n // per_area), [n // per_area])
    model = build_model(places, [], np.array(weights), np.ones(n, np.int64), "area")
    return replace(model, deviation=deviation)


def unit_shares(model: PublicModel) -> NDArray[np.float64]:
    return np.asarray(model.shares(np.zeros(1, np.int64))[0])


def agree(hits: NDArray[np.bool_], probability: float) -> bool:
    """Say whether independent hits have a probability, within five standard errors."""
    error = np.sqrt(probability * (1 - probability) / hits.size)
    return bool(abs(hits.mean() - probability) < 5 * error)


def drawn_shares(shares: NDArray[np.float64], deviation: Deviation) -> NDArray[np.float64]:
    """Return shares of 2000 destinations, with lognormal factors of a deviation's variance."""
    rng, spread = np.random.default_rng(8), np.log1p(1 / deviation.shape(shares))
    drawn = shares * rng.lognormal(-spread / 2, np.sqrt(spread), (2000, shares.size))
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


def coincide(shares: NDArray[np.float64], deviation: Deviation) -> float:
    """Return how often two draws coincide from shares with lognormal factors of a deviation's variance."""
    return float((drawn_shares(shares, deviation) ** 2).sum(axis=1).mean())


# 4000 areas of 3 blocks; a few heavy ones make coincidences likely.
KAPPA = 3.0
DIRICHLET = Deviation(0.0, KAPPA)
RNG = np.random.default_rng(11)
WEIGHTS = [400_000 if b in (0, 30, 31, 60) else int(w) for b, w in enumerate(RNG.integers(1, 100, 12_000))]


@pytest.fixture(scope="module")
def many() -> PublicModel:
    return flat_model(WEIGHTS, 3, DIRICHLET)


@pytest.fixture(scope="module")
def homes(many: PublicModel) -> Int32:
    """Return homes, shape (areas, 2 work blocks, 2 jobs)."""
    work = np.arange(12_000, dtype=np.int32).reshape(4000, 3)[:, :2].repeat(2)
    return proxy_homes(many, work, seed=12, assumed=plain(DIRICHLET)).reshape(4000, 2, 2)


def test_every_home_follows_the_model(many: PublicModel, homes: Int32) -> None:
    """As far as shares with independent factors do that are made to add up to 1."""
    unit = many.units(homes)
    shares = drawn_shares(unit_shares(many), DIRICHLET).mean(axis=0)
    assert shares == pytest.approx(unit_shares(many), rel=0.1, abs=0.002)
    heavy = [0, 10, 20]
    for block, job in itertools.product(range(2), range(2)):
        counts = [int((unit[:, block, job] == u).sum()) for u in heavy]
        expected = [4000 * float(shares[u]) for u in heavy]
        result = chisquare([*counts, 4000 - sum(counts)], [*expected, 4000 - sum(expected)])
        assert result.pvalue > 1e-4


def test_homes_inside_a_unit_follow_the_public_weights(many: PublicModel, homes: Int32) -> None:
    """Blocks of one area are independent given the area: of area 10, in proportion to three weights."""
    inside = homes[:, 0, 0][many.units(homes[:, 0, 0]) == 10]
    assert inside.size > 1000
    expected = np.array(WEIGHTS[30:33]) / sum(WEIGHTS[30:33]) * inside.size
    counts = np.bincount(inside - 30, minlength=3)
    assert counts.size == 3
    assert agree(inside == 30, float(expected[0] / inside.size))
    assert counts[2] <= expected[2] + 5 * np.sqrt(expected[2]) + 5


def test_jobs_of_one_block_are_alike_as_two_levels_say(many: PublicModel, homes: Int32) -> None:
    """Two draws of a Dirichlet of concentration kappa coincide by copying, 1 / (1 + kappa), or by chance."""
    unit, square = many.units(homes), float((unit_shares(many) ** 2).sum())
    of_unit = coincide(unit_shares(many), DIRICHLET)
    of_block = (1 + KAPPA * of_unit) / (1 + KAPPA)
    assert of_block - of_unit > 0.08
    assert agree(unit[:, 0, 0] == unit[:, 1, 0], of_unit)
    assert agree(unit[:, 0, 1] == unit[:, 1, 1], of_unit)
    assert agree(unit[:, 0, 0] == unit[:, 0, 1], of_block)
    assert agree(unit[:, 1, 0] == unit[:, 1, 1], of_block)
    # Destinations of different units have nothing in common but the model.
    assert agree(unit[::2, 0, 0] == unit[1::2, 0, 0], square)


def test_jobs_of_a_block_are_alike_as_its_deviation_says() -> None:
    """The homes of three jobs, of three units: all 27 cases against the urn, written down."""
    deviation, size = Deviation(0.8, 4.0), 30_000
    shares = np.tile([0.1, 0.3, 0.6], (1, 1))
    homes = np.empty(3 * size, np.int64)
    begins = np.arange(0, 3 * size, 3)
    args = (0.8, 1 / 4.0, np.random.default_rng(1), homes)
    _draw_alike(shares, np.cumsum(shares, axis=1), np.stack([0 * begins, begins, begins + 3], 1), *args)
    expected = np.zeros((3, 3, 3))
    variance = 1 / deviation.shape(shares[0])
    for case in itertools.product(range(3), repeat=3):
        chance = 1.0
        for i, u in enumerate(case):
            seen = np.bincount(case[:i], minlength=3)
            odds = shares[0] * (1 + variance * seen) / (1 + variance * i * shares[0])
            chance *= odds[u] / odds.sum()
        expected[case] = chance
    counts = np.bincount(homes.reshape(-1, 3) @ [9, 3, 1], minlength=27)
    assert chisquare(counts, expected.ravel() * size).pvalue > 1e-4


def test_shares_of_large_blocks_deviate_as_those_of_small_ones() -> None:
    """Two jobs of a block of 2, and of one of 200, coincide equally often."""
    shares, size = np.array([[0.1, 0.3, 0.6]]), 20_000
    alike = []
    for jobs in (2, 200):
        homes, begins = np.empty(jobs * size, np.int64), np.arange(0, jobs * size, jobs)
        args = (0.3, 1 / 4.0, np.random.default_rng(jobs), homes)
        _draw_alike(
            shares, np.cumsum(shares, axis=1), np.stack([0 * begins, begins, begins + jobs], 1), *args
        )
        pairs = homes.reshape(size, jobs)[:, :2]
        alike.append((pairs[:, 0] == pairs[:, 1]).mean())
        assert np.bincount(pairs[:, 0], minlength=3) / size == pytest.approx(shares[0], abs=0.03)
    assert alike[0] > 0.5  # 0.46 were they independent
    assert alike[1] == pytest.approx(alike[0], abs=0.03)


def test_neighbours_have_residents_in_common() -> None:
    """Areas of 1, 5 and 16 units: an eighth of the variance is of each half, and the rest of the area."""
    rng, area = np.random.default_rng(1), np.repeat([0, 1, 2], [1, 5, 16])
    drawn = np.log([_neighbourhoods(area, 0.01, rng) for _ in range(4000)])
    eighths = np.cov(drawn.T) / np.log(1.01) * 8
    assert np.diag(eighths) == pytest.approx(np.full(22, 8.0), rel=0.1)
    alike = [8, 7, *[6] * 2, *[5] * 4, *[4] * 8]  # 4 of the area, and a half of it, of a half, ... of a unit
    assert eighths[6, 6:] == pytest.approx(np.array(alike), abs=0.6)
    assert eighths[1, 1:6] == pytest.approx(np.array([8, 7, 6, 5, 5]), abs=0.6)
    assert eighths[0, 1:] == pytest.approx(np.zeros(21), abs=0.6)
    assert eighths[1, 6:] == pytest.approx(np.zeros(16), abs=0.6)


def test_areas_of_a_destination_deviate_and_the_rest_of_it_does_not() -> None:
    """Twenty regions of ten areas: each destination has factors of its own, of regions only."""
    places = geography([1] * 200, [10] * 20)
    model = build_model(places, [], np.ones(200, np.int64), np.ones(200, np.int64), "area")
    model = replace(model, deviation=NOTHING)
    assumed = replace(plain(NOTHING), areas=Deviation(0.02, 2000.0))
    work = np.arange(200, dtype=np.int32).repeat(4000)
    homes = proxy_homes(model, work, seed=4, assumed=assumed)
    counts = np.bincount(work.astype(np.int64) * 200 + homes, minlength=200 * 200).reshape(200, 20, 10)
    regions = counts.sum(axis=2) / 200
    # Less than that of independent factors, as all of a destination add up to 1.
    assert regions.var() == pytest.approx((0.02 + 20 / 2000 + 1 / 200) * 19 / 20, rel=0.1)
    inside = counts / np.maximum(counts.mean(axis=2, keepdims=True), 1)
    assert np.average(inside.var(axis=2), weights=regions) == pytest.approx(0.9 / 20, rel=0.05)  # chance


def test_what_a_year_has_by_itself_falls_with_the_jobs_and_with_what_blocks_have() -> None:
    """Of units alike: 0.55 e^-3/4 where e workers are expected; nothing where all jobs are of one block."""
    n, found = 100, []
    for jobs, blocks in ((1600, 1), (25_600, 1), (1600, 50)):
        places = geography([blocks] * n, [n])
        every = np.ones(n * blocks, np.int64)
        model = replace(build_model(places, [], every, every * jobs, "area"), deviation=NOTHING)
        work = np.arange(0, n * blocks, blocks, dtype=np.int32).repeat(4000)
        assumed = replace(plain(NOTHING if blocks == 1 else Deviation(1.0, 1e12)), clumps=0.55)
        homes = model.units(proxy_homes(model, work, seed=4, assumed=assumed)).astype(np.int64)
        drawn = np.bincount(model.units(work) * np.int64(n) + homes, minlength=n * n) / 40
        found.append(drawn.var() - 1 / 40)
    assert found[0] == pytest.approx(0.55 * 16**-0.75, rel=0.1)
    assert found[1] == pytest.approx(0.55 * 256**-0.75, rel=0.1)
    assert found[2] == pytest.approx(1.0, rel=0.1)  # of the only block, not of both


def test_without_a_table_homes_are_near_and_no_more_of_them_where_jobs_are() -> None:
    """Of thirty areas in a row, 3 km from each other, the first ten of which have nearly all jobs."""
    east = (np.arange(30) * 3 / 111.2).tolist()
    places = geography([1] * 30, [30], [0.0] * 30, east)
    jobs = np.where(np.arange(30) < 10, 9000, 100)
    work = np.arange(30, dtype=np.int32).repeat(jobs)
    model = build_model(places, [], np.ones(30, np.int64), jobs, "area")
    homes = proxy_homes(model, work, seed=4)
    near = np.abs(homes - work) < 5
    assert near.mean() > 0.35  # with weights alone, a quarter
    assert (homes == work).mean() > 0.1  # one in thirty
    assert np.bincount(homes, minlength=30).std() < 0.5 * work.size / 30
    known = flows("area", "area", {(o, d): 900.0 for o in range(30) for d in range(30)})
    model = build_model(places, [known], np.ones(30, np.int64), jobs, "area")
    homes = proxy_homes(model, work, seed=4)
    assert (homes == work).mean() < 0.06


def test_some_live_anywhere() -> None:
    """Where a table has nobody: a share of all workers, by public weight."""
    pairs = {(o, d): 1e6 if o == d else 0.0 for o in range(20) for d in range(20)}
    places = geography([1] * 20, [20])
    model = build_model(
        places, [flows("area", "area", pairs)], np.ones(20, np.int64), np.ones(20, np.int64), "area"
    )
    model = replace(model, deviation=NOTHING)
    work = np.arange(20, dtype=np.int32).repeat(5000)
    homes = proxy_homes(model, work, seed=4, assumed=replace(plain(NOTHING), anywhere=0.1))
    assert (homes != work).mean() == pytest.approx(0.1 * 19 / 20, rel=0.1)


def test_homes_deviate_from_the_public_weights() -> None:
    """Those of the blocks of 400 units: Dirichlet(2, ..., 2) has this variance of a share."""
    model = flat_model([1] * 4000, 10, NOTHING)
    assumed = replace(plain(NOTHING), homes=20.0)
    homes = proxy_homes(model, np.arange(4000, dtype=np.int32).repeat(200), seed=4, assumed=assumed)
    of_unit = np.bincount(model.units(homes), minlength=400)
    shares = np.bincount(homes, minlength=4000).reshape(400, 10) / of_unit[:, None]
    assert shares.var() == pytest.approx(0.1 * 0.9 / 21, rel=0.15)


def test_homes_differ_most_between_finer_units() -> None:
    """Of 400 units of 2 areas of 10 blocks: an area's share of its unit, and a block's share of its area."""
    places = geography([10] * 800, [2] * 400)
    model = build_model(places, [], np.ones(8000, np.int64), np.ones(8000, np.int64), "region")
    model = replace(model, deviation=NOTHING)
    assumed = replace(plain(NOTHING), homes=1e6, finer=4.0)
    homes = proxy_homes(model, np.arange(8000, dtype=np.int32).repeat(100), seed=4, assumed=assumed)
    blocks = np.bincount(homes, minlength=8000).reshape(400, 2, 10)
    areas = blocks.sum(axis=2)
    # Dirichlet(2, 2): variance of a share.
    assert (areas[:, 0] / areas.sum(axis=1)).var() == pytest.approx(0.5 * 0.5 / 5, rel=0.2)
    inside = blocks / areas[:, :, None]
    assert inside[areas > 500].var() < 0.0005


def test_factors_have_the_mean_and_the_variance_that_are_asked_for() -> None:
    """And, as lognormal ones, the median: gammas of that variance would leave more pairs without anybody."""
    for variance in (0.05, 1.0, 3.0):
        drawn = _factors(np.random.default_rng(3), np.full(1_000_000, 1 / variance))
        assert drawn.mean() == pytest.approx(1, rel=0.01)
        assert drawn.var() == pytest.approx(variance, rel=0.15)
        assert np.median(drawn) == pytest.approx((1 + variance) ** -0.5, rel=0.01)
    assert (_factors(np.random.default_rng(3), np.zeros(3)) == 0).all()


def test_deviations_are_found_again() -> None:
    rng = np.random.default_rng(2)
    p = np.repeat(10 ** rng.uniform(-4, -1, 40_000), 1)
    m = np.full(p.size, 3000.0)
    for true in (Deviation(0.2, 500.0), Deviation(0.0, 100.0), Deviation(0.3, float("inf"))):
        variance = 1 / true.shape(p)
        drawn = rng.poisson(m * p * rng.gamma(1 / variance, variance)).astype(np.float64)
        found = Deviation.measured(drawn, m, p)
        assert found is not None
        assert found.common == pytest.approx(true.common, rel=0.15, abs=0.01)
        assert 1 / found.concentration == pytest.approx(1 / true.concentration, rel=0.15, abs=1e-4)
    assert Deviation.measured(np.zeros(2), np.zeros(2), np.ones(2)) is None
    exact = Deviation.measured(m * p, m, p)
    assert exact == Deviation(0.0, float("inf"))
    assert exact.halved() == exact
    assert Deviation(0.5, 10.0).halved() == Deviation(0.25, 20.0)
    # Where every p is alike both numbers say the same, whatever rounding makes of it.
    for i in range(1, 30):
        alike = Deviation.measured(drawn[:100], m[:100] / i, np.full(100, i / 31))
        assert alike is not None
        assert alike.common == 0


@given(st.integers(0, 10**6))
def test_a_measured_deviation_has_no_negative_part(seed: int) -> None:
    """Found as scipy finds it, also where counts are nearer to the model than chance, or one has no part."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 40))
    m, p = rng.uniform(1, 3000, size), np.minimum(np.exp(rng.normal(-3, 2, size)), 1)
    drawn = rng.poisson(m * p * rng.gamma(0.5, 2, size)).astype(np.float64) if seed % 3 else np.round(m * p)
    weights = np.stack([np.ones(size), 1 / (1 + m * p)])
    excess = weights @ ((drawn - m * p) ** 2 - m * p)
    (common, inverse), _ = nnls(weights @ np.stack([(m * p) ** 2, m * m * p], axis=1), np.maximum(excess, 0))
    found = Deviation.measured(drawn, m, p)
    assert found is not None
    assert found.common == pytest.approx(common, abs=1e-4)
    assert 1 / found.concentration == pytest.approx(inverse, rel=0.1, abs=1e-9)


def test_what_is_left_of_a_deviation_where_a_table_asked() -> None:
    """Nothing asked leaves all; very many leave what either year has by itself, or nothing without that."""
    deviation, share = Deviation(0.2, 50.0), np.array([0.1, 0.1, 0.1, 0.1, 0.0])
    asked = np.array([0.0, 5.0, 1e12, 1e12, 0.0])
    clumps = np.array([0.3, 0.3, 0.3, 0.0, 0.3])
    v = 0.2 + 1 / 5
    expected = [v + 0.3, 1 / (1 / v + 1 / (1 / 5 + 0.3)) + 0.3, 1 / (1 / v + 1 / 0.3) + 0.3, 0, np.inf]
    assert deviation.left(share, asked, clumps) == pytest.approx(np.array(expected), abs=1e-9)


def test_what_a_table_asked_is_certain() -> None:
    """A table of a million workers a pair leaves nothing to deviate; one of five leaves much."""
    table = {(o, d): 1.0 * (1 + (o + d) % 3) for o in range(3) for d in range(3)}
    places, work = geography([1] * 3, [3]), np.arange(3, dtype=np.int32).repeat(3000)
    far = []
    for scale in (1e6, 1.0):
        scaled = {pair: flow * scale for pair, flow in table.items()}
        model = build_model(
            places, [flows("area", "area", scaled)], np.ones(3, np.int64), np.ones(3, np.int64), "area"
        )
        assert model.sampled(np.arange(3)).sum() == pytest.approx(18 * scale, rel=1e-6)
        model = replace(model, deviation=Deviation(0.5, 1e9))
        homes = proxy_homes(model, work, 5, assumed=plain(Deviation(0.0, 1e9)))
        found = np.bincount(work * 3 + homes, minlength=9).reshape(3, 3) / 3000
        far.append(float(np.abs(found - model.shares(np.arange(3))).max()))
    assert far[0] < 0.05 < 0.1 < far[1]


def test_a_small_concentration_is_one_origin() -> None:
    """Factors of such shapes are next to 0 but for one; homes are still places of the geography."""
    model = flat_model([1, 2, 3, 4], 1, Deviation(0.0, 1e-12))
    homes = proxy_homes(model, np.zeros(100, np.int32), seed=1, assumed=plain(model.deviation))
    assert np.unique(homes).size == 1
    assert 0 <= homes[0] < 4


def test_only_origins_of_positive_share_are_drawn() -> None:
    model = flat_model([1] * 6, 1, Deviation(0.0, 5.0))

    def shares(destinations: NDArray[np.integer]) -> NDArray[np.float64]:
        return np.tile([0.0, 0.5, 0.0, 0.25, 0.25, 0.0], (destinations.size, 1))

    object.__setattr__(model, "shares", shares)
    work = np.arange(6, dtype=np.int32).repeat(2000)
    homes = proxy_homes(model, work, seed=2, assumed=Assumptions(anywhere=0.0))
    assert set(homes.tolist()) == {1, 3, 4}


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_reproducible_whatever_the_order_of_jobs(work: list[int], seed: int, draw: object) -> None:
    model = flat_model([3, 1, 4, 1, 5, 9], 2, Deviation(0.1, 1.5))
    jobs = np.array(work, np.int32)
    homes = proxy_homes(model, jobs, seed)
    assert homes.dtype == np.int32
    assert homes.shape == jobs.shape
    assert ((homes >= 0) & (homes < 6)).all()
    np.testing.assert_array_equal(homes, proxy_homes(model, jobs, seed))
    # The jobs of a block get the same homes wherever they stand.
    order = list(range(len(work)))
    draw.shuffle(order)  # type: ignore[attr-defined]
    moved = proxy_homes(model, jobs[order], seed)
    assert sorted(zip(jobs[order].tolist(), moved.tolist(), strict=True)) == sorted(
        zip(work, homes.tolist(), strict=True)
    )


def slots_of(work: Int32, **codes: NDArray[np.integer]) -> Slots:
    return Slots(
        work,
        {name: values.astype(np.uint8) for name, values in codes.items()},
        {name: tuple("xyz"[: int(values.max()) + 1]) for name, values in codes.items()},
    )


def test_concentrations_are_those_that_units_were_drawn_with() -> None:
    """Of 2000 areas with three blocks, whose shares are Dirichlet; the blocks of an area are alike."""
    model, rng = flat_model([1] * 6000, 3, DIRICHLET), np.random.default_rng(6)
    shares = np.cumsum(rng.dirichlet(20 * np.array([0.2, 0.3, 0.5]), 2000), axis=1)
    work = np.arange(6000, dtype=np.int32).repeat(10)
    drawn = (rng.random(work.size)[:, None] > shares[work // 3]).sum(axis=1).clip(max=2)
    alike = rng.integers(0, 2, work.size)
    slots = slots_of(work, pay=drawn, age=alike, industry=work // 3 % 2)
    assert inside_share(slots, "pay") == pytest.approx(20 / 21, rel=0.01)
    assert inside_share(slots, "age") == pytest.approx(1, abs=0.01)
    assert inside_share(slots, "industry") == 0  # of whole blocks, so homes need not differ
    found = attribute_concentrations(model.geography, model.level, slots)
    between = 1.1 * (20 / 21) ** 3.6 / 21
    assert found["pay"] == pytest.approx(1 / between - 1, rel=0.1)
    # Homes are taken to differ a little, too, by what says nothing of work places.
    assert (found["age"], found["industry"]) == pytest.approx((400, 400), rel=0.01)


def test_jobs_of_a_block_exchange_homes_and_nothing_else_changes() -> None:
    model, rng = flat_model([1] * 40, 4, Deviation(0.0, 5.0)), np.random.default_rng(7)
    work = np.sort(rng.integers(0, 40, 20_000)).astype(np.int32)
    pay = rng.integers(0, 2, work.size).astype(np.uint8)
    before = proxy_homes(model, work, 3)
    assert np.array_equal(before, proxy_homes(model, work, 3, {}, {}))
    spread = []
    for concentration in (1e6, 10.0):
        homes = proxy_homes(model, work, 3, {"pay": pay}, {"pay": concentration})
        order = [np.lexsort((h, work)) for h in (before, homes)]
        assert np.array_equal(before[order[0]], homes[order[1]])  # every block has the homes that it had
        counts = np.bincount(model.units(homes) * 2 + pay, minlength=20).reshape(-1, 2)
        spread.append(float(np.var(counts[:, 0] / counts.sum(axis=1))))
    assert spread[0] < 0.001 < 0.005 < spread[1]
