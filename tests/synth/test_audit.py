"""The auditor: its intervals against exact binomial sums, its bound against samplers of known epsilon."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.auditing import Sampler, audit, proportion_bounds
from synth.dirichlet.urn import Urns
from synth.randomness import RunKey, WordStream, uniform_below

from .enumeration import single_urn

SURE = 1 - Fraction(1, 10**6)
ZERO, ONE = np.zeros(1, np.int32), np.ones(1, np.int32)
URN = single_urn(1, [1], [0, 0, 0], [(1, 1)], [(1, 1)])._replace(
    cells_by_stratum=np.arange(3, dtype=np.int32)
)


def at_least(runs: int, hits: int, p: Fraction) -> Fraction:
    return sum(
        (math.comb(runs, x) * p**x * (1 - p) ** (runs - x) for x in range(hits, runs + 1)), Fraction(0)
    )


@settings(max_examples=100)
@given(st.integers(1, 40), st.data(), st.sampled_from([Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**7)]))
def test_the_interval_is_clopper_and_pearsons(runs: int, data: st.DataObject, error: Fraction) -> None:
    hits = data.draw(st.integers(0, runs))
    lower, upper = proportion_bounds(runs, hits, error)
    near = Fraction(1, 2**18)
    if hits == 0:
        assert lower == 0
    else:
        assert at_least(runs, hits, lower) <= error < at_least(runs, hits, lower * (1 + near))
    if hits == runs:
        assert upper == 1
    else:
        assert 1 - at_least(runs, hits + 1, upper) <= error < 1 - at_least(runs, hits + 1, upper * (1 - near))


@pytest.mark.parametrize(("runs", "hits"), [(10**6, 0), (10**6, 10**6), (10**7, 3), (10**7, 4 * 10**6)])
def test_intervals_of_many_runs(runs: int, hits: int) -> None:
    error = Fraction(1, 10**6)
    lower, upper = map(float, proportion_bounds(runs, hits, error))
    assert lower <= hits / runs <= upper
    deviation = math.sqrt((hits / runs) * (1 - hits / runs) / runs)
    assert upper - lower < 2 * 5 * deviation + 40 / runs
    if hits == 0:
        assert upper == pytest.approx(1 - 1e-6 ** (1 / runs), rel=1e-5)


@pytest.mark.parametrize(
    ("runs", "hits", "error"),
    [(0, 0, SURE), (5, 6, SURE), (5, -1, SURE), (5, 1, Fraction(0)), (5, 1, Fraction(1))],
)
def test_an_impossible_interval_is_refused(runs: int, hits: int, error: Fraction) -> None:
    with pytest.raises(ValueError, match="hits"):
        proportion_bounds(runs, hits, error)


def response(odds: int) -> Sampler:
    """Randomised response of one worker over three cells: epsilon is ln odds exactly."""

    def sampler(urns: Urns, cells: NDArray[np.int32], stream: WordStream) -> NDArray[np.int32]:
        z = uniform_below(np.full(cells.size, odds + 2), stream)
        return np.where(z < odds, cells, (cells + np.where(z == odds, 1, 2)) % 3).astype(np.int32)

    return sampler


@pytest.mark.parametrize("odds", [1, 2, 30])
def test_the_bound_is_just_below_the_truth(odds: int) -> None:
    result = audit(
        URN, ZERO, ONE, runs=400_000, delta=Fraction(0), confidence=SURE, sampler=response(odds),
        key=RunKey.from_seed(odds),
    )  # fmt: skip
    assert result.runs == 200_000
    assert result.epsilon <= math.log(odds)
    assert result.epsilon > math.log(odds) - 0.1


def test_delta_is_allowed_for() -> None:
    arguments = {"runs": 100_000, "confidence": SURE, "sampler": response(3), "key": RunKey.from_seed(4)}
    free = audit(URN, ZERO, ONE, delta=Fraction(0), **arguments)
    some = audit(URN, ZERO, ONE, delta=Fraction(1, 4), **arguments)
    most = audit(URN, ZERO, ONE, delta=Fraction(1, 2), **arguments)
    # Randomised response with odds 3: the event has 3/5 and 1/5.
    assert math.log(3) > free.epsilon > some.epsilon
    assert math.log((3 / 5 - 1 / 4) / (1 / 5)) > some.epsilon > 0
    assert most.epsilon == 0


@pytest.mark.slow
@pytest.mark.deep
def test_the_stated_confidence_is_kept_where_the_bound_is_tight() -> None:
    """100 audits at confidence 3/4: hardly more than a quarter may exceed the truth."""
    wrong = sum(
        audit(
            URN, ZERO, ONE, runs=400, delta=Fraction(0), confidence=Fraction(3, 4), sampler=response(2),
            key=RunKey.from_seed(seed),
        ).epsilon
        > Fraction(math.log(2))
        for seed in range(100)
    )  # fmt: skip
    assert wrong <= 35


def secret_in(position: int) -> Sampler:
    """Leaks the parity of the cell in the parity of one draw; counts of single cells hardly move."""

    def sampler(urns: Urns, cells: NDArray[np.int32], stream: WordStream) -> NDArray[np.int32]:
        m = int(urns.draw_offsets[1])
        drawn = uniform_below(np.full(int(urns.draw_offsets[-1]), 16), stream).astype(np.int32)
        drawn[position::m] = drawn[position::m] // 2 * 2 + cells % 2
        return drawn

    return sampler


def test_a_leak_in_the_order_of_the_draws_is_found() -> None:
    urns = single_urn(1, [1], [0] * 16, [(1, 1)], [(1, 2)])._replace(
        cells_by_stratum=np.arange(16, dtype=np.int32)
    )
    result = audit(
        urns, ZERO, ONE, runs=50_000, delta=Fraction(0), confidence=SURE, sampler=secret_in(1),
        key=RunKey.from_seed(1),
    )  # fmt: skip
    assert result.unlikely == 0
    assert result.epsilon > 6
    assert "order" in result.event


def test_a_generated_key_is_used_once_and_the_bound_changes_little() -> None:
    one, two = (
        audit(URN, ZERO, ONE, runs=50_000, delta=Fraction(0), confidence=SURE, sampler=response(5))
        for _ in range(2)
    )
    assert (one.likely, one.unlikely) != (two.likely, two.unlikely)
    assert abs(one.epsilon - two.epsilon) < Fraction(1, 4)


@pytest.mark.parametrize(
    "after",
    [ZERO, np.zeros(2, np.int32), np.zeros((1, 1), np.int32), np.zeros(0, np.int32)],
    ids=["equal", "longer", "two dimensions", "empty"],
)
def test_inputs_that_are_not_neighbours_are_refused(after: NDArray[np.int32]) -> None:
    with pytest.raises(ValueError, match="neighbours"):
        audit(URN, ZERO, after, runs=10, delta=Fraction(0), confidence=SURE)


def test_numbers_outside_their_domain_are_refused() -> None:
    good = {"runs": 10, "delta": Fraction(0), "confidence": SURE}
    for bad in ({"runs": 1}, {"delta": Fraction(1)}, {"delta": Fraction(-1)}, {"confidence": Fraction(1)}):
        with pytest.raises(ValueError, match="runs must be"):
            audit(URN, ZERO, ONE, **{**good, **bad})  # type: ignore[arg-type]
    for name in ("delta", "confidence"):
        with pytest.raises(TypeError, match=f"{name} must be an exact number"):
            audit(URN, ZERO, ONE, **{**good, name: 0.5})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one pool"):
        audit(
            single_urn(1, [1], [0, 0], [(1, 1)], [(1, 1)] * 2),
            np.zeros(2, np.int32), np.array([0, 1], np.int32), **good,
        )  # type: ignore[arg-type]  # fmt: skip
