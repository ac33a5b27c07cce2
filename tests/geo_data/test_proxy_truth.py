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
from scipy.stats import chisquare

from geo_data import (
    PublicModel,
    Slots,
    attribute_concentrations,
    build_model,
    inside_share,
    proxy_homes,
)

from .plain import flows, geography

Int32 = NDArray[np.int32]


def flat_model(weights: Sequence[int], per_area: int, concentration: float) -> PublicModel:
    """Return a model in which shares follow the public weights, whatever the destination."""
    n = len(weights)
    places = geography([per_area] * (n // per_area), [n // per_area])
    model = build_model(places, [], np.array(weights), np.ones(n, np.int64), "area")
    return replace(model, concentration=concentration)


def unit_shares(model: PublicModel) -> NDArray[np.float64]:
    return np.asarray(model.shares(np.zeros(1, np.int64))[0])


def agree(hits: NDArray[np.bool_], probability: float) -> bool:
    """Say whether independent hits have a probability, within five standard errors."""
    error = np.sqrt(probability * (1 - probability) / hits.size)
    return bool(abs(hits.mean() - probability) < 5 * error)


# 4000 areas of 3 blocks; a few heavy ones make coincidences likely.
KAPPA = 3.0
RNG = np.random.default_rng(11)
WEIGHTS = [400_000 if b in (0, 30, 31, 60) else int(w) for b, w in enumerate(RNG.integers(1, 100, 12_000))]


@pytest.fixture(scope="module")
def many() -> PublicModel:
    return flat_model(WEIGHTS, 3, KAPPA)


@pytest.fixture(scope="module")
def homes(many: PublicModel) -> Int32:
    """Return homes, shape (areas, 2 work blocks, 2 jobs)."""
    work = np.arange(12_000, dtype=np.int32).reshape(4000, 3)[:, :2].repeat(2)
    return proxy_homes(many, work, seed=12).reshape(4000, 2, 2)


def test_every_home_follows_the_model(many: PublicModel, homes: Int32) -> None:
    """The mean of both Dirichlet distributions is P: the first home of each area is a draw from it."""
    unit = many.units(homes)
    shares = unit_shares(many)
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


def test_jobs_of_one_block_are_alike_as_two_levels_of_dirichlet_say(many: PublicModel, homes: Int32) -> None:
    """Two draws of a Dirichlet of concentration kappa coincide by copying, 1 / (1 + kappa), or by chance."""
    unit, square = many.units(homes), float((unit_shares(many) ** 2).sum())
    of_unit = (1 + KAPPA * square) / (1 + KAPPA)
    of_block = (1 + KAPPA * of_unit) / (1 + KAPPA)
    assert of_block - of_unit > 0.08
    assert agree(unit[:, 0, 0] == unit[:, 1, 0], of_unit)
    assert agree(unit[:, 0, 1] == unit[:, 1, 1], of_unit)
    assert agree(unit[:, 0, 0] == unit[:, 0, 1], of_block)
    assert agree(unit[:, 1, 0] == unit[:, 1, 1], of_block)
    # Destinations of different units have nothing in common but the model.
    assert agree(unit[::2, 0, 0] == unit[1::2, 0, 0], square)


def test_later_jobs_of_a_block_are_alike_as_earlier_ones() -> None:
    """Polya's scheme is exchangeable: any two of five jobs coincide equally often."""
    weights = [1] * 3000
    model = flat_model(weights, 1, 2.0)
    unit = proxy_homes(model, np.arange(3000, dtype=np.int32).repeat(5), seed=5).reshape(3000, 5)
    of_unit = (1 + 2 / 3000) / 3
    for i, j in itertools.combinations(range(5), 2):
        assert agree(unit[:, i] == unit[:, j], (1 + 2 * of_unit) / 3)


def test_a_large_concentration_is_the_model_itself() -> None:
    model = flat_model([1, 2, 3, 4], 1, 1e12)
    homes = proxy_homes(model, np.zeros(40_000, np.int32), seed=1)
    assert chisquare(np.bincount(homes, minlength=4), [4000, 8000, 12_000, 16_000]).pvalue > 1e-4


def test_a_small_concentration_is_one_origin() -> None:
    """Gammas of such shapes underflow; homes are still places of the geography."""
    homes = proxy_homes(flat_model([1, 2, 3, 4], 1, 1e-12), np.zeros(100, np.int32), seed=1)
    assert np.unique(homes).size == 1
    assert 0 <= homes[0] < 4


def test_shares_of_a_destination_are_its_own() -> None:
    """By the table nobody lives where he works, and half in either other area."""
    table = {(o, d): 1e9 for o in range(3) for d in range(3) if o != d}
    places = geography([1] * 3, [3])
    tables = [flows("area", "area", table, dict.fromkeys(table, 1e-3))]
    model = build_model(places, tables, np.ones(3, np.int64), np.ones(3, np.int64), "area")
    work = np.tile(np.arange(3, dtype=np.int32), 200)
    homes = proxy_homes(replace(model, concentration=1e9), work, seed=3)
    assert (homes != work).all()
    assert np.unique(work * 3 + homes).size == 6


def test_only_origins_of_positive_share_are_drawn() -> None:
    model = flat_model([1] * 6, 1, 5.0)

    def shares(destinations: NDArray[np.integer]) -> NDArray[np.float64]:
        return np.tile([0.0, 0.5, 0.0, 0.25, 0.25, 0.0], (destinations.size, 1))

    object.__setattr__(model, "shares", shares)
    homes = proxy_homes(model, np.arange(6, dtype=np.int32).repeat(2000), seed=2)
    assert set(homes.tolist()) == {1, 3, 4}


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_reproducible_whatever_the_order_of_jobs(work: list[int], seed: int, draw: object) -> None:
    model = flat_model([3, 1, 4, 1, 5, 9], 2, 1.5)
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


def test_another_seed_gives_other_homes(many: PublicModel) -> None:
    work = np.arange(1000, dtype=np.int32)
    assert (proxy_homes(many, work, 1) != proxy_homes(many, work, 2)).mean() > 0.3


def slots_of(work: Int32, **codes: NDArray[np.integer]) -> Slots:
    return Slots(
        work,
        {name: values.astype(np.uint8) for name, values in codes.items()},
        {name: tuple("xyz"[: int(values.max()) + 1]) for name, values in codes.items()},
    )


def test_concentrations_are_those_that_units_were_drawn_with() -> None:
    """Of 2000 areas with three blocks, whose shares are Dirichlet; the blocks of an area are alike."""
    model, rng = flat_model([1] * 6000, 3, 3.0), np.random.default_rng(6)
    shares = np.cumsum(rng.dirichlet(20 * np.array([0.2, 0.3, 0.5]), 2000), axis=1)
    work = np.arange(6000, dtype=np.int32).repeat(10)
    drawn = (rng.random(work.size)[:, None] > shares[work // 3]).sum(axis=1).clip(max=2)
    alike = rng.integers(0, 2, work.size)
    slots = slots_of(work, pay=drawn, age=alike, industry=work // 3 % 2)
    assert inside_share(slots, "pay") == pytest.approx(20 / 21, rel=0.01)
    assert inside_share(slots, "age") == pytest.approx(1, abs=0.01)
    assert inside_share(slots, "industry") == 0  # of whole blocks, so homes need not differ
    found = attribute_concentrations(model, slots)
    between = (20 / 21) ** 2 / 21
    assert found["pay"] == pytest.approx(1 / between - 1, rel=0.1)
    assert found["age"] > 500
    assert found["industry"] == pytest.approx(1e6, rel=0.01)


def test_jobs_of_a_block_exchange_homes_and_nothing_else_changes() -> None:
    model, rng = flat_model([1] * 40, 4, 5.0), np.random.default_rng(7)
    work = np.sort(rng.integers(0, 40, 20_000)).astype(np.int32)
    pay = rng.integers(0, 2, work.size).astype(np.uint8)
    plain = proxy_homes(model, work, 3)
    assert np.array_equal(plain, proxy_homes(model, work, 3, {}, {}))
    spread = []
    for concentration in (1e6, 10.0):
        homes = proxy_homes(model, work, 3, {"pay": pay}, {"pay": concentration})
        order = [np.lexsort((h, work)) for h in (plain, homes)]
        assert np.array_equal(plain[order[0]], homes[order[1]])  # every block has the homes that it had
        counts = np.bincount(model.units(homes) * 2 + pay, minlength=20).reshape(-1, 2)
        spread.append(float(np.var(counts[:, 0] / counts.sum(axis=1))))
    assert spread[0] < 0.001 < 0.005 < spread[1]
