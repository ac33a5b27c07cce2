"""Factors of bands and of units, found again in noisy counts that were drawn with them."""

from __future__ import annotations

import numpy as np
import pytest

from synth.geometric.measured import MeasuredTable
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains
from synth.posterior.learning import Counted, Factors, Pieces, learn_factors, learn_margins

PLACES, UNITS, BANDS = 80, 80, 5
TRUE = np.array([4.0, 1.5, 0.7, 0.3, 25.0])  # the last one of homes in the place itself
RATIO = np.exp(-1.0)  # epsilon 2


def counted(jobs: int, seed: int, taught: Factors | None, *, halves: bool = False) -> list[Counted]:
    """Noisy counts of places that have so many jobs each; in cells of two units each, if `halves`."""
    generator = np.random.default_rng(seed)
    result = []
    for place in range(PLACES):
        unit = np.arange(UNITS)
        band = np.minimum(abs(unit - place) // 12, BANDS - 2)
        band[place] = BANDS - 1
        share = generator.dirichlet(np.full(UNITS, 3.0))
        mean = share if taught is None else share * taught.band[band] * taught.unit
        counts = generator.multinomial(jobs, generator.dirichlet(1e-3 + 200 * mean / mean.sum()))
        cell = unit // 2 if halves else unit
        counts = np.bincount(cell, counts).astype(np.int64)
        noise = generator.geometric(1 - RATIO, counts.size) - generator.geometric(1 - RATIO, counts.size)
        result.append(Counted(Pieces(cell, share, unit, band), counts + noise, jobs))
    return result


@pytest.mark.parametrize("halves", [False, True], ids=["units are cells", "cells of several units"])
def test_bands_and_the_own_unit_are_found_again(halves: bool) -> None:
    unit = np.exp(np.random.default_rng(1).normal(0, 0.5, UNITS))
    found = learn_factors(counted(2000, 2, Factors(TRUE, unit), halves=halves), BANDS, UNITS)
    assert found.band / found.band[1] == pytest.approx(TRUE / TRUE[1], rel=0.3)
    assert np.corrcoef(np.log(found.unit), np.log(unit))[0, 1] > (0.6 if halves else 0.9)


def test_nothing_is_learned_where_there_is_nothing_to_learn() -> None:
    """Neither from counts that are as the model has them, nor from noise alone."""
    right = learn_factors(counted(2000, 3, None), BANDS, UNITS)
    assert right.band[:-1] == pytest.approx(np.ones(BANDS - 1), abs=0.1)
    assert right.band[-1] == pytest.approx(1, abs=0.25)  # of 80 cells that deviate each by itself
    assert right.unit == pytest.approx(np.ones(UNITS), abs=0.15)
    few = learn_factors(counted(1, 4, Factors(TRUE, np.ones(UNITS))), BANDS, UNITS)
    assert np.ptp(few.unit) < 0.5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("jobs", [1, 3])
def test_factors_are_positive_whatever_the_noise(jobs: int, seed: int) -> None:
    for one in (counted(jobs, seed, None), counted(jobs, seed, None)[:1]):
        lost = [Counted(each.pieces, -each.noisy - 20, each.n) for each in one]
        for counts in (one, lost):
            found = learn_factors(counts, BANDS, UNITS)
            for factor in (found.band, found.unit):
                assert np.isfinite(factor).all()
                assert factor.min() > 0


def test_a_band_without_pieces_keeps_its_factor() -> None:
    found = learn_factors(counted(100, 5, None), BANDS + 2, UNITS + 3)
    assert found.band[BANDS:].tolist() == [1, 1]
    assert found.unit[UNITS:].tolist() == [1, 1, 1]


@pytest.mark.parametrize("differ", [True, False], ids=["homes differ by one attribute", "no homes differ"])
def test_sums_by_one_attribute_teach_what_is_expected_of_all_cells(differ: bool) -> None:
    """Where noise hides single cells; and where there is nothing to learn, next to nothing is learned."""
    generator, parts, cells = np.random.default_rng(6), (3, 4, 2), 60
    margins = np.indices(parts).reshape(len(parts), -1)
    n = generator.integers(800, 1600, margins.shape[1])
    share = generator.dirichlet(np.full(cells, 5.0))
    odds = np.exp(generator.normal(0, 0.6, (parts[1], cells))) if differ else np.ones((parts[1], cells))
    mean = share * odds[margins[1]]
    counts = np.array([generator.multinomial(n[g], mean[g] / mean[g].sum()) for g in range(n.size)])
    domains = Domains(
        cells, np.array([0, cells]), np.arange(cells, dtype=np.int32), np.zeros(cells, np.uint8)
    )
    table = MeasuredTable(n, np.zeros(n.size, np.int32), domains, GeometricParameters(1, 20))
    noise = generator.geometric(1 - table.law.first, (2, *counts.shape))
    model = n[:, np.newaxis] * share
    learned = learn_margins(table, (counts + noise[0] - noise[1]).ravel(), model.ravel(), margins)
    learned = learned.reshape(counts.shape)
    assert learned.sum(axis=1) == pytest.approx(n)

    def off(expected: np.ndarray, attribute: int) -> float:
        by = np.eye(parts[attribute])[margins[attribute]].T
        return float(np.abs(by @ (expected - counts)).sum())

    for attribute in range(len(parts)):
        most = 0.5 if differ and attribute == 1 else 1.1
        assert off(learned, attribute) < most * off(model, attribute)
