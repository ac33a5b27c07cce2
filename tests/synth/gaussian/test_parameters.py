"""The numbers of discrete Gaussian noise: what they are in floats, and as they are stored."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synth.gaussian.parameters import GaussianParameters
from synth.geometric.parameters import GeometricParameters
from synth.noise import Noise

pytestmark = pytest.mark.quick

SOME: list[Noise] = [GaussianParameters(1, 3), GaussianParameters(5, 2), GeometricParameters(3, 4)]


@pytest.mark.parametrize("number", SOME, ids=repr)
def test_a_law_has_the_moments_and_odds_of_its_probabilities(number: Noise) -> None:
    """Of plain sums over the definition."""
    far = range(-400, 401)
    gaussian = isinstance(number, GaussianParameters)
    exponents = [
        -z * z / 2 / float(number.ratio) if gaussian else abs(z) * math.log(number.ratio) for z in far
    ]
    odds = [math.exp(exponent) for exponent in exponents]
    chance = {z: each / math.fsum(odds) for z, each in zip(far, odds, strict=True)}
    law = number.law
    assert law.chances()[:5] == pytest.approx([chance[z] for z in range(5)])
    second, fourth = (math.fsum(z**k * p for z, p in chance.items()) for k in (2, 4))
    assert law.cumulants == pytest.approx((second, fourth - 3 * second**2), abs=1e-12)
    assert number.variance == pytest.approx(second)
    assert law.mean_above == pytest.approx(math.fsum(z * p for z, p in chance.items() if z > 0))
    some = np.arange(-4, 5)
    assert law.likelier(some) == pytest.approx([chance[z - 1] / chance[z] for z in some.tolist()])
    least = law.beyond(3.0)
    assert odds[400 + least] <= math.exp(-3) < odds[400 + least - 1]


@pytest.mark.parametrize("variance", [0.5, 3.0, 700.0])
def test_noise_of_a_variance_has_it(variance: float) -> None:
    assert float(GaussianParameters.of_variance(variance).ratio) == pytest.approx(variance, rel=1e-6)


def test_numbers_are_stored_as_integers() -> None:
    numbers = GaussianParameters(5, 2, (GaussianParameters(7, 1),))
    assert GaussianParameters.from_json(numbers.to_json()) == numbers
    with pytest.raises(TypeError):
        GaussianParameters.from_json({"numerator": 2.5, "denominator": 1})
    with pytest.raises(ValueError, match="cannot have secondary tables"):
        GaussianParameters.from_json({"numerator": 1, "denominator": 1, "secondary": [numbers.to_json()]})
