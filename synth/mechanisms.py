"""The mechanisms that there are, by name."""

from __future__ import annotations

from synth.dirichlet.mechanism import Dirichlet
from synth.gaussian.mechanism import Gaussian
from synth.geometric.mechanism import Geometric
from synth.mechanism import Mechanism

MECHANISMS: dict[str, Mechanism] = {
    "dirichlet": Dirichlet(),
    "geometric": Geometric(),
    "gaussian": Gaussian(),
}
"""The mechanisms a release configuration can name."""
