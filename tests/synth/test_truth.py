"""The fast enumeration against the literal one, and against the definitions of what it sums up."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from . import reference
from .reference import Urn, is_bad
from .truth import Truth

STRATA = [("1/10", "1"), ("1/2", "1/4"), ("1", "9/10"), ("2", "1"), ("5/3", "1/3")]
GAINS = [Fraction(11, 10), Fraction(3), Fraction(16), Fraction(31)]


def urn_of(n: int, m: int, cells: tuple[tuple[str, str], ...]) -> Urn:
    return Urn(n, m, tuple(Fraction(a) for a, _ in cells), tuple(Fraction(f) for _, f in cells))


URNS = [
    urn_of(n, m, cells)
    for k, n, m in [(1, 3, 2), (2, 1, 5), (2, 4, 3), (3, 1, 1), (3, 2, 3), (3, 3, 2), (4, 2, 2)]
    for cells in itertools.combinations_with_replacement(STRATA, k)
] + [urn_of(4, 5, tuple(STRATA[c] for c in cells)) for cells in [(0, 1, 2, 3), (1, 4, 1, 2), (4, 3, 2, 1)]]


def test_the_reference_is_the_dirichlet_multinomial() -> None:
    # Worked by hand: n = 1, h = (1, 0), a = 1, f = 1/2, one draw. Kept: 2/3 and 1/3; pruned: 1 and 0.
    urn = Urn(1, 1, (Fraction(1), Fraction(1)), (Fraction(1, 2), Fraction(1, 2)))
    assert urn.distribution((1, 0)) == {(1, 0): Fraction(5, 6), (0, 1): Fraction(1, 6)}
    # Without pruning the marginal of a cell is beta-binomial.
    urn = Urn(3, 5, (Fraction(1, 2), Fraction(2), Fraction(1, 10)), (Fraction(1),) * 3)
    p = urn.distribution((2, 0, 1))
    for c, (weight, rest) in enumerate([("5/2", "31/10"), ("2", "18/5"), ("11/10", "9/2")]):
        for t in range(-1, 6):
            tail = reference.beta_binomial_tail(5, Fraction(weight), Fraction(rest), t)
            assert sum(v for s, v in p.items() if s[c] > t) == tail


@pytest.mark.parametrize("part", range(4))
def test_the_fast_enumeration_is_the_literal_one(part: int) -> None:
    for urn in URNS[part::4]:
        truth = Truth(urn)
        assert list(truth.inputs) == urn.histograms()
        for h, row in zip(truth.inputs, truth.mass, strict=True):
            fast = {s: Fraction(p, truth.denominator) for s, p in zip(truth.outputs, row, strict=True)}
            assert fast == urn.distribution(h)


@pytest.mark.parametrize("part", range(4))
def test_losses_masses_and_divergences_are_as_defined(part: int) -> None:
    """The definitions, pair by pair and output by output; also at odds that are equal to some loss."""
    for urn in [urn for urn in URNS if urn.k < 4][part::4]:
        truth = Truth(urn)
        p = {h: urn.distribution(h) for h in urn.histograms()}
        pairs = [(p[h], p[g]) for h in p for g in urn.neighbours(h)]
        assert truth.pairs == len(pairs)
        losses = {
            h: {
                s: max((max(p[h][s] / p[g][s], p[g][s] / p[h][s]) for g in urn.neighbours(h)), default=1)
                for s in p[h]
            }
            for h in p
        }
        assert truth.largest_loss() == max(max(row.values()) for row in losses.values())
        for gain in [*GAINS, truth.levels[len(truth.levels) // 2]]:
            bad = {h: {s for s in p[h] if is_bad(urn, h, s, gain)} for h in p}
            assert truth.bad_mass(gain) == max(sum(p[h][s] for s in bad[h]) for h in p)
            fine = [losses[h][s] for h in p for s in p[h] if s not in bad[h]]
            assert truth.largest_loss(gain) == max([Fraction(1), *fine])
        some = sorted({loss for row in losses.values() for loss in row.values() if loss > 1})
        for odds in [*GAINS, *some[:: 1 + len(some) // 5], *some[-2:]]:
            assert truth.excess_mass(odds) == max(
                sum(p[h][s] for s in p[h] if losses[h][s] > odds) for h in p
            )
            assert truth.divergence(odds) == max(
                (sum(max(Fraction(0), one[s] - odds * other[s]) for s in one) for one, other in pairs),
                default=0,
            )
