"""Numbers of noise, for estimates."""

from __future__ import annotations

from fractions import Fraction

import pytest

from synth.geometric.parameters import GeometricParameters

pytestmark = pytest.mark.quick


def test_the_variance_is_that_of_the_noise() -> None:
    """Against the sum of its law, p^|z| (1 - p) / (1 + p)."""
    p = Fraction(1, 3)
    law = [p ** abs(z) * (1 - p) / (1 + p) for z in range(-60, 61)]
    due = float(sum(z * z * chance for z, chance in zip(range(-60, 61), law, strict=True)))
    assert GeometricParameters(1, 3).variance == pytest.approx(due)


@pytest.mark.parametrize("variance", [1e-6, 0.01, 3.0, 1e4, 1e9])
def test_noise_of_a_variance_has_it(variance: float) -> None:
    assert GeometricParameters.of_variance(variance).variance == pytest.approx(variance, rel=1e-3)
