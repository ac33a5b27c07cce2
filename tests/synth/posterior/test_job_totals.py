"""Draws of estimated numbers of jobs: none below 0, and their sums hold the truth as often as they should."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from synth.posterior.job_totals import draws_of_jobs, untold_jobs
from synth.randomness import RunKey

AREAS, KINDS, PARTS = 40, 5, 6  # rows are parts of areas, of one kind each
AREA, KIND, _ = (index.ravel() for index in np.indices((AREAS, KINDS, PARTS)))
SCALES = {"area and kind": AREA * KINDS + KIND, "area": AREA, "kind": KIND}  # from small sums to large


def drawn(
    jobs: NDArray[np.float64], noisy: dict[str, tuple[NDArray[np.float64], float]]
) -> NDArray[np.float64]:
    sums = [(SCALES[name], counts, np.full(counts.size, off**2)) for name, (counts, off) in noisy.items()]
    return draws_of_jobs(jobs, sums, 19, RunKey(bytes(32), secure=False).stream("jobs", 0))


@pytest.mark.parametrize("least", [0.0, 30.0])
def test_sums_hold_the_truth_nine_times_of_ten(least: float) -> None:
    """Also where half of the cells are empty in truth, and estimates are not below 0."""
    random, held = np.random.default_rng(3), []
    for _ in range(20):
        true = random.gamma(0.5, 60, AREAS * KINDS * PARTS) + least
        true[SCALES["area and kind"] % 2 == 0] *= least > 0
        sums = {name: np.bincount(of_row, true) for name, of_row in SCALES.items()}
        noisy = {name: (sums[name] + random.normal(0, off, sums[name].size), off)
                 for name, off in zip(SCALES, (20.0, 30.0, 40.0), strict=True)}  # fmt: skip
        estimate = np.maximum(noisy["area and kind"][0], 1.0)[SCALES["area and kind"]] / PARTS
        draws = drawn(estimate, noisy)
        assert draws.min() >= 0
        for name, of_row in SCALES.items():
            of_sum = np.stack([np.bincount(of_row, row) for row in draws])
            within = (np.rint(of_sum.min(axis=0)) <= sums[name]) & (sums[name] <= of_sum.max(axis=0))
            held.append((name, within))
    for name in SCALES:
        share = np.concatenate([each for of, each in held if of == name]).mean()
        assert 0.85 < share < 0.97, name


def test_sums_without_noise_are_those_that_were_counted() -> None:
    jobs = np.linspace(1, 9, AREAS * KINDS * PARTS)
    counted = np.arange(1.0, AREAS + 1)
    draws = drawn(jobs, {"area": (counted, 0.0)})
    for row in draws:
        np.testing.assert_allclose(np.bincount(SCALES["area"], row), counted)


def test_what_nothing_was_counted_of_stays_as_it_is() -> None:
    jobs = np.full(AREA.size, 50.0)
    draws = drawn(jobs, {"area": (np.zeros(AREAS), np.inf)})
    assert (draws == 50).all()


def test_untold_categories_deviate_and_keep_the_jobs_of_their_area() -> None:
    jobs = np.full((19, AREAS * KINDS), 100.0)
    area, told = np.repeat(np.arange(AREAS), KINDS), np.arange(AREAS * KINDS) < KINDS
    draws = untold_jobs(jobs, area, told, 0.25, RunKey(bytes(32), secure=False).stream("jobs", 0))
    np.testing.assert_allclose(draws[:, told], 100)
    assert 30 < draws[:, ~told].std() < 50
    np.testing.assert_allclose([np.bincount(area, row) for row in draws], 100 * KINDS)
