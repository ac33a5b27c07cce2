"""The mechanisms that there are, by name."""

from __future__ import annotations

from synth.dirichlet import Dirichlet
from synth.geometric import Geometric
from synth.mechanism import Mechanism

__all__ = ["MECHANISMS"]

MECHANISMS: dict[str, Mechanism] = {"dirichlet": Dirichlet(), "geometric": Geometric()}
"""The mechanisms a release configuration can name."""
