"""Gamma variates of small shape, most of them as good as 0, for a uniform number; ratios of Gamma."""

from __future__ import annotations

import math

from synth._words import compiled as _compiled

_DEEP = 40.0  # a variate below exp(-40), 4e-18, is given as 0


@_compiled
def gamma(shape, random):  # type: ignore[no-untyped-def]
    """Draw from a gamma distribution of scale 1; 0 stands for numbers below 4e-18.

    Of a shape below 1 this is the rejection of Ahrens and Dieter, as in NumPy. Where its first number is low,
    nothing further need be known: as (1 - 40 shape)^(1 / shape) < exp(-40), the variate is that small, and it
    would be kept with a probability of 1 less 4e-18.
    """
    if shape >= 1.0:
        return random.standard_gamma(shape)
    u = random.random()
    if u < 1.0 - _DEEP * shape:
        return 0.0
    while True:
        v = random.standard_exponential()
        if u <= 1.0 - shape:
            x = u ** (1.0 / shape)
        else:
            y = -math.log((1.0 - u) / shape)
            x = (1.0 - shape + shape * y) ** (1.0 / shape)
            v += y
        if x <= v:
            return x
        u = random.random()


@_compiled
def log_rising(s, x):  # type: ignore[no-untyped-def]
    """Return the logarithm of Gamma(s + x) / Gamma(s): Stirling's series, six steps further on."""
    y, below, above = s + x, 1.0, 1.0
    for i in range(6):
        below *= s + i
        above *= y + i
    s += 6.0
    y += 6.0
    a, b = 1.0 / (s * s), 1.0 / (y * y)
    rest = (1 / 12 - (1 / 360 - b / 1260) * b) / y - (1 / 12 - (1 / 360 - a / 1260) * a) / s
    return (y - 0.5) * math.log(y) - (s - 0.5) * math.log(s) - x + rest + math.log(below / above)
