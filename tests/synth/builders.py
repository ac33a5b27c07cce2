"""Pools for tests, and classes of them, with defaults for what a test is not about."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from synth.dirichlet.losses import PoolClass
from synth.plan import Pools


def pools(*rows: tuple[int, int, int]) -> Pools:
    """Pools of (n, m, domain)."""
    n, m, domain = zip(*rows, strict=True)
    return Pools(np.array(n, np.int64), np.array(m, np.int64), np.array(domain, np.int32))


def make_class(
    n_min: int,
    n_max: int,
    m_max: int,
    cells: tuple[int, ...],
    gain: Fraction,
    prior: tuple[int, ...],
    *,
    cells_min: tuple[int, ...] | None = None,
    kept: tuple[int, ...] | None = None,
    retention: tuple[Fraction, ...] | None = None,
    denominator: int = 10,
) -> PoolClass:
    """A class whose pools all have these cells, none of which is pruned, or counted on to be in the urn."""
    none, ones = (0,) * len(cells), (Fraction(1),) * len(cells)
    sizes = n_min, n_max, m_max, cells, cells_min or cells, kept or none
    return PoolClass(*sizes, gain, prior, retention or ones, denominator)
