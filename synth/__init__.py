"""The mechanism and its mathematics: arrays in, arrays out; no files, no geography, no Dask."""

from synth.attackers import KNOWLEDGE, Attackers, Change, best_share, largest_changes
from synth.auditing import AuditResult, audit
from synth.calibration import BudgetTooSmallError
from synth.composition import compose, compose_curves, group_privacy, one_urn_implicates, record_share
from synth.decoarsening import OriginShares, block_chance, cumulative_weights, draw_blocks
from synth.dirichlet import Dirichlet
from synth.errors import ShownError
from synth.exact import decimal_down, decimal_up, exact
from synth.geometric import Geometric, GeometricClass, GeometricParameters
from synth.losses import PoolClass
from synth.lots import leave_out
from synth.mechanism import ClassGuarantee, Guarantee, Mechanism, Presence, SamplingMechanism
from synth.paper import paper_prior, theorem1_prior
from synth.parameters import DirichletClass, DirichletParameters
from synth.plan import Domains, GuaranteeName, Plan, Pools, RecordRange, Table
from synth.randomness import RunKey, WordStream, uniform_below
from synth.solving import smallest_delta_plan, smallest_epsilon_plan
from synth.tails import PRECISION_BITS, exp_up

__all__ = [
    "KNOWLEDGE",
    "MECHANISMS",
    "PRECISION_BITS",
    "Attackers",
    "AuditResult",
    "BudgetTooSmallError",
    "Change",
    "ClassGuarantee",
    "Dirichlet",
    "DirichletClass",
    "DirichletParameters",
    "Domains",
    "Geometric",
    "GeometricClass",
    "GeometricParameters",
    "Guarantee",
    "GuaranteeName",
    "Mechanism",
    "OriginShares",
    "Plan",
    "PoolClass",
    "Pools",
    "Presence",
    "RecordRange",
    "RunKey",
    "SamplingMechanism",
    "ShownError",
    "Table",
    "WordStream",
    "audit",
    "best_share",
    "block_chance",
    "compose",
    "compose_curves",
    "cumulative_weights",
    "decimal_down",
    "decimal_up",
    "draw_blocks",
    "exact",
    "exp_up",
    "group_privacy",
    "largest_changes",
    "leave_out",
    "one_urn_implicates",
    "paper_prior",
    "record_share",
    "smallest_delta_plan",
    "smallest_epsilon_plan",
    "theorem1_prior",
    "uniform_below",
]

MECHANISMS: dict[str, Mechanism] = {"dirichlet": Dirichlet(), "geometric": Geometric()}
"""The mechanisms a release configuration can name."""
