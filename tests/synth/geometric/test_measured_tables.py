"""Several measured tables in one plan: shares of epsilon, their sum, and the whole truth of small cases."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from synth.dirichlet.calibration import BudgetTooSmallError
from synth.geometric.mechanism import Geometric, noise_loss, presence_loss
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.tails import exp_up

from ..noise_reference import noise_distribution

MECHANISM = Geometric()
ONE, NOTHING = (Fraction(1),), Fraction(0)
SHARES = [(Fraction(1, 10),), (Fraction(1, 3), Fraction(1, 3)), (Fraction(3, 10), Fraction(1, 7))]


def cells(*k: int) -> Domains:
    """Domains of k cells of one block each, in front of the rest."""
    offsets = np.cumsum([0, *k], dtype=np.int64)
    cuts = np.concatenate([np.arange(number, dtype=np.int32) for number in k])
    return Domains(max(k) + 2, offsets, cuts, np.zeros(cuts.size, np.uint8))


def table(n: list[int], *k: int) -> Table:
    return Table(np.array(n, np.int64), np.arange(len(n), dtype=np.int32) % len(k), cells(*k))


def plan_of(
    shares: tuple[Fraction, ...], epsilon: str = "2", record_range: RecordRange | None = None
) -> Plan:
    """Eight slots: two pools in the first table, one group or three in the others."""
    first = Pools(np.array([5, 3]), np.array([5, 3]), np.array([0, 1], np.int32))
    others = (table([8], 4), table([2, 2, 4], 3, 2, 6))
    return MECHANISM.calibrate(
        first,
        cells(4, 9),
        ONE,
        Target(Fraction(epsilon), NOTHING, record_range=record_range),
        secondary=list(zip(others, shares, strict=False)),
    )


def test_each_table_has_its_share_and_the_sum_is_certified() -> None:
    for shares, epsilon in itertools.product(SHARES, ("1/2", "2", "8.6")):
        plan = plan_of(shares, epsilon)
        guarantee = MECHANISM.certify(plan)
        every = (1 - sum(shares), *shares)
        assert guarantee.epsilon == sum(row.epsilon for row in guarantee.classes) <= Fraction(epsilon)
        assert guarantee.record_epsilon == guarantee.curve[-1][0] == guarantee.epsilon
        assert guarantee.delta == guarantee.record_delta == guarantee.curve[-1][1] == 0
        assert [row.pools for row in guarantee.classes] == [2, 1, 3][: len(every)]
        numbers = (plan.parameters, *plan.parameters.secondary)  # type: ignore[attr-defined]
        for row, share, own in zip(guarantee.classes, every, numbers, strict=True):
            assert row.epsilon == noise_loss(own.ratio) <= share * Fraction(epsilon)
            less = Fraction(own.numerator - 1, own.denominator + 1)
            assert noise_loss(less) > share * Fraction(epsilon), "no smaller noise has this share"


def test_no_output_of_all_tables_tells_neighbours_further_apart_than_the_sum() -> None:
    """Two jobs of one pool, who are in two groups of the second table: every noisy count of both tables.

    The factor of the noise that the sampler's own source has; it is reached, so that less is not true.
    """
    ratios = [(Fraction(1, 2), Fraction(1, 3)), (Fraction(2, 3), Fraction(1, 4))]
    for p, q in ratios:
        reach = 4
        noises = [noise_distribution(x.numerator, x.denominator, reach + 2) for x in (p, q)]
        largest = Fraction(0)
        # Homes of the two jobs, and another home for the second.
        for a, b, c in itertools.product(range(3), repeat=3):
            if b == c:
                continue
            inputs = []
            for homes in ((a, b), (a, c)):
                together = np.bincount(homes, minlength=3)  # the first table: both jobs, by home
                apart = np.bincount([homes[1] // 2], minlength=2)  # the second: of the second job, coarser
                inputs.append((together, apart))
            factor = Fraction(1)
            for noise, one, other in zip(noises, *inputs, strict=True):
                of_cells = [
                    max(noise[y - x] / noise[y - z] for y in range(-reach + 2, reach - 1))
                    for x, z in zip(one.tolist(), other.tolist(), strict=True)
                ]
                for each in of_cells:
                    factor *= each
            largest = max(largest, factor)
        assert largest == (1 / p**2) * (1 / q**2)
        plan = plan_of((Fraction(1, 2),))
        numbers = GeometricParameters(
            p.numerator, p.denominator, (GeometricParameters(*q.as_integer_ratio()),)
        )
        guarantee = MECHANISM.certify(replace(plan, parameters=numbers))
        assert largest <= exp_up(guarantee.epsilon)
        assert exp_up(guarantee.epsilon * (1 - Fraction(1, 10**9))) < largest


def test_presence_adds_up_too() -> None:
    plan = plan_of(SHARES[1], record_range=RecordRange(Fraction(1), Fraction(1)))
    presence = MECHANISM.certify(plan).presence
    assert presence is not None
    every = plan.parameters.ratios  # type: ignore[attr-defined]
    assert presence.epsilon == sum(map(presence_loss, every))
    assert len(every) == 3


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(9, 10)])
def test_of_a_table_with_one_cell_only_one_record_more_is_protected(share: Fraction) -> None:
    """It tells nothing of homes, and shares only what the number of records costs."""
    one = table([2, 2, 4], 1)
    pools = Pools(np.array([5, 3]), np.array([5, 3]), np.array([0, 1], np.int32))
    for domains, of_homes in ((cells(4, 9), True), (cells(1, 1), False)):
        secondary = [(one, share)]
        plan = MECHANISM.calibrate(pools, domains, ONE, Target(Fraction(2), NOTHING), secondary=secondary)
        guarantee = MECHANISM.certify(plan)
        assert [row.epsilon > 0 for row in guarantee.classes] == [of_homes, False]
        assert guarantee.meets(plan)
        assert (guarantee.epsilon > 2 - Fraction(1, 10**6)) == of_homes
        assert (guarantee.epsilon > 0) == of_homes
        everybody = RecordRange(Fraction(1), Fraction(1))
        plan = MECHANISM.calibrate(
            pools, domains, ONE, Target(Fraction(2), NOTHING, record_range=everybody), secondary=secondary
        )
        guarantee = MECHANISM.certify(plan)
        assert guarantee.presence is not None
        ratios = plan.parameters.ratios  # type: ignore[attr-defined]
        assert guarantee.presence.epsilon == sum(map(presence_loss, ratios)) <= guarantee.epsilon
        assert guarantee.meets(plan)
        assert guarantee.epsilon > 2 - Fraction(1, 10**6)


def test_numbers_of_several_tables_are_written_and_read() -> None:
    for shares in ((), *SHARES):
        numbers = plan_of(shares).parameters
        assert isinstance(numbers, GeometricParameters)
        said = numbers.to_json()
        assert ("secondary" in said) == bool(shares)
        assert GeometricParameters.from_json(said) == numbers
    with pytest.raises(TypeError):
        GeometricParameters.from_json(
            {"numerator": 1, "denominator": 2, "secondary": [{"numerator": 1.0, "denominator": 2}]}
        )
    with pytest.raises(ValueError, match="cannot have secondary tables"):
        GeometricParameters.from_json({"numerator": 1, "denominator": 2, "secondary": [numbers.to_json()]})


def test_what_is_no_plan_is_refused() -> None:
    for shares in ((Fraction(1),), (Fraction(0),), (Fraction(-1, 2),), (Fraction(2, 3), Fraction(1, 3))):
        with pytest.raises(ValueError, match="a share of epsilon above 0, and"):
            plan_of(shares)
    with pytest.raises(TypeError):
        plan_of((0.5,))  # type: ignore[arg-type]
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_of((Fraction(1, 10),), "1/200")
    assert caught.value.smallest == Fraction(1, 100)
    plan = plan_of(SHARES[0])
    with pytest.raises(ValueError, match="every table must have all slots"):
        replace(plan, secondary=(table([7], 4),))
    with pytest.raises(ValueError, match="needs its own noise"):
        MECHANISM.certify(replace(plan, secondary=()))
    with pytest.raises(ValueError, match="at least one job, and a domain"):
        table([2, 0], 3)
