"""Guesses of one home by somebody who knows all others, against what can be computed by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

import synth
from synth.noise import Law
from synth.policy import FULL
from synth.posterior.guesses import CellOdds, guess_units, noise_odds, urn_odds

BELIEF = np.array([0.4, 0.3, 0.2, 0.1])


def table(groups: int, *starts: int) -> synth.Table:
    """A table of groups of one job, of homes in four blocks."""
    domains = synth.Domains.of_cells(4, [np.array(starts, np.int32)], FULL)
    return synth.Table(np.ones(groups, np.int64), np.zeros(groups, np.int32), domains)


def belief_of(cuts: NDArray[np.int32]) -> NDArray[np.float64]:
    return np.add.reduceat(BELIEF, cuts)


def guess(
    evidence: Sequence[CellOdds], units: Sequence[int], homes: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Guess homes that are each counted in a group of their own."""
    member = np.tile(np.arange(homes.size, dtype=np.int32), (len(evidence), 1))
    return guess_units(evidence, member, belief_of, partial(np.take, np.array(units)), homes)


@pytest.mark.parametrize("ratio", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_noisy_counts_are_guessed_as_often_as_their_signs_allow(ratio: float) -> None:
    """A cell says by the sign of its noise alone whether the home is there."""
    every, rng = 40_000, np.random.default_rng(1)
    homes = rng.choice(4, every, p=BELIEF).astype(np.int32)
    noise = rng.geometric(1 - ratio, every * 4) - rng.geometric(1 - ratio, every * 4)
    told = CellOdds(table(every, 0, 1, 2, 3), *noise_odds(noise, Law(ratio)))
    public, released = guess([told], range(4), homes)
    assert public.mean() == pytest.approx(BELIEF[0], abs=0.01)
    kept = 1 / (1 + ratio)
    expected = 0.0
    for signs in itertools.product((True, False), repeat=4):
        likely = [
            BELIEF[home]
            * np.prod([kept if sign == (cell == home) else 1 - kept for cell, sign in enumerate(signs)])
            for home in range(4)
        ]
        expected += max(likely)
    assert released.mean() == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("retention", [1.0, 0.3])
def test_the_only_job_of_an_urn_is_guessed_as_often_as_its_cells_and_draw_say(retention: float) -> None:
    every, prior, rng = 40_000, np.array([0.1, 0.2, 0.1, 0.3]), np.random.default_rng(2)
    homes = rng.choice(4, every, p=BELIEF).astype(np.int32)
    jobs = np.zeros((every, 4), np.int64)
    jobs[np.arange(every), homes] = 1
    kept = (jobs > 0) | (rng.random(jobs.shape) < retention)
    weight = np.where(kept, jobs + prior, 0.0)
    at = rng.random(every) * weight.sum(axis=1)
    drawn = np.zeros_like(jobs)
    drawn[np.arange(every), (np.cumsum(weight, axis=1) <= at[:, np.newaxis]).sum(axis=1)] = 1
    every_prior, every_retention = np.tile(prior, every), np.full(4 * every, retention)
    odds = urn_odds(jobs.ravel(), every_prior, drawn.ravel(), kept.ravel(), every_retention)
    _, released = guess([CellOdds(table(every, 0, 1, 2, 3), *odds)], range(4), homes)
    expected = 0.0
    for cells in itertools.product((True, False), repeat=4):
        urn = np.where(cells, np.eye(4) + prior, 0.0)  # by home; what is drawn
        coins = np.where(cells, retention, 1 - retention)
        chance = BELIEF * np.prod(np.where(np.eye(4), cells, coins), axis=1)
        expected += (
            (chance[:, np.newaxis] * urn / urn.sum(axis=1, keepdims=True).clip(1e-9)).max(axis=0).sum()
        )
    assert released.mean() == pytest.approx(expected, abs=0.01)


def test_cells_of_a_unit_are_added_up_and_units_of_a_cell_are_told_apart_by_belief_alone() -> None:
    homes, nothing = np.array([0, 1, 2, 3], np.int32), np.ones(16)
    fine = CellOdds(table(4, 0, 1, 2, 3), nothing, nothing)
    public, released = guess([fine], [0, 1, 1, 2], homes)  # blocks 1 and 2 are one unit, the likeliest
    assert public.tolist() == released.tolist() == [False, True, True, False]
    there = np.tile([1e-3, 1.0], 4)
    coarse = CellOdds(
        table(4, 0, 2), there, there
    )  # all homes are in blocks 2 and 3, by what is said of them
    _, released = guess([coarse, fine], [0, 1, 2, 3], homes)
    assert released.tolist() == [False, False, True, False]


def test_evidence_of_several_tables_is_multiplied() -> None:
    homes = np.array([3], np.int32)
    weak = CellOdds(table(1, 0, 1, 2, 3), np.ones(4), np.full(4, 2.5))
    for tables, right in ((1, False), (2, True)):
        _, released = guess([weak] * tables, range(4), homes)
        assert released.tolist() == [right]


@pytest.mark.parametrize(
    ("units", "share"), [([0, 1, 2, 3], [0.25] * 4), ([0, 0, 1, 1], [0.5] * 4), ([0, 1, 1, 2], [0, 1, 1, 0])]
)
def test_of_equal_units_any_is_taken(units: list[int], share: list[float]) -> None:
    """Else a belief that holds all units for equal would seem to guess every home."""
    homes, nothing = np.arange(4, dtype=np.int32), np.ones(16)
    told = [CellOdds(table(4, 0, 1, 2, 3), nothing, nothing)]
    member = homes[np.newaxis]
    alike = np.full(4, 0.25)
    found = guess_units(
        told, member, partial(np.add.reduceat, alike), partial(np.take, np.array(units)), homes
    )
    for shares in found:
        assert shares == pytest.approx(share)
