"""The ways to make synthetic commutes that the utility study compares, each as a plan that is drawn.

All but the general tools are drawn by the functions that draw a release (`pipelines.planning.simulation`),
so that they differ in their plan only: in the numbers of the mechanism, or in tables, cells and pools too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import geo_data
import pipelines
import synth
from geo_data.pools import order_records
from pipelines.config.sections import PlanSettings, WorkloadTable
from pipelines.drawing.procedures import procedure_of
from pipelines.planning.public_inputs import PublicInputs, job_source, read_public_inputs
from pipelines.planning.simulation import draw_public_model, draw_without_noise
from pipelines.planning.sweep import changed
from pipelines.plans.plan import batches
from pipelines.plans.workload import CountedJobs, Workload, resolve_workload
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.paper import paper_prior
from synth.dirichlet.parameters import DirichletParameters

Q = 10**9
Int32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Subject:
    """What is released: a configuration, what is public of it, and the true jobs."""

    config: pipelines.ReleaseConfig
    inputs: PublicInputs
    _plans: dict[str, pipelines.ReleasePlan] = field(default_factory=dict)

    @classmethod
    def of(cls, config: pipelines.ReleaseConfig) -> Subject:
        """Read the public inputs of a configuration."""
        return cls(config, read_public_inputs(config))

    @cached_property
    def records(self) -> geo_data.JobRecords:
        """The true jobs with all their attributes."""
        names = tuple(self.inputs.slots.attributes)
        return job_source(self.config, self.inputs.geography).records(names)

    @cached_property
    def workload(self) -> Workload:
        """The tables in which losses are measured."""
        model = self.inputs.model
        secret = self.inputs.policy.secret
        return resolve_workload(self.config.workload, model.geography, model.level, self.inputs.slots, secret)

    def plan(
        self,
        epsilon: str,
        mechanism: str,
        tables: Sequence[WorkloadTable] = (),
        *,
        preset: PlanSettings | None = None,
        **settings: str,
    ) -> pipelines.ReleasePlan:
        """Return the plan that the planner makes, for other tables or with other settings if any are given.

        It is made once for all that use it. Settings are those of a sweep
        (`pipelines.planning.sweep.changed`).
        """
        key = repr((epsilon, mechanism, tables, preset, settings))
        if key in self._plans:
            return self._plans[key]
        config = changed(self.config, {"epsilon": epsilon, "mechanism": mechanism, **settings})
        update = {"workload": tuple(tables) or config.workload, "plan": preset or config.plan}
        config = config.model_copy(update=update)
        self._plans[key] = pipelines.make_plan(config, self.inputs)
        return self._plans[key]

    def tables(self, *kinds: str) -> list[WorkloadTable]:
        """Return tables by short names: T1, BG, T2 and R, as in the page."""
        geography, unit = self.inputs.geography, self.inputs.model.level
        levels, names = [*geography.levels, geography.block_level], self.inputs.slots.attributes
        finer = levels[levels.index(unit) + 1]
        known = {
            "T1": [WorkloadTable(home=unit, work=unit)],
            "BG": [WorkloadTable(home=finer, work=finer)],
            "T2": [WorkloadTable(home=unit, work=levels[-1])],
            "R": [WorkloadTable(home=unit, attributes=(name,)) for name in names],
        }
        return [table for kind in kinds for table in known[kind]]

    def true_jobs(self, plan: pipelines.ReleasePlan) -> CountedJobs:
        """Return the true jobs, slot after slot of a plan."""
        records = self.records
        order = order_records(plan.pools, plan.geography, records)
        attributes = {name: codes[order] for name, codes in records.attributes.items()}
        return CountedJobs(records.work[order], records.home[order], attributes)


def draw(plan: pipelines.ReleasePlan, homes: Int32, seed: int = 0) -> Int32:
    """Return a synthetic home for every true one, slot after slot: as for a release, whatever the seed."""
    return procedure_of(plan).draw(batches(plan), homes, synth.RunKey.generate())[0]


def _from_model(plan: pipelines.ReleasePlan, homes: Int32, seed: int) -> Int32:
    return draw_public_model(plan, seed)


@dataclass(frozen=True, eq=False)
class Draft:
    """A plan of the study and how homes are drawn with it, or why there is none."""

    plan: pipelines.ReleasePlan | None
    draw: Callable[[pipelines.ReleasePlan, Int32, int], Int32] = draw
    note: str = ""
    """Why there is none."""


def _before(subject: Subject, epsilon: str, mechanism: str) -> Draft:
    """Return the default of before there were workloads: for flows alone, in balanced cells."""
    measures = "tables" in synth.MECHANISMS[mechanism].settings
    tables = subject.tables("T1") if measures else subject.tables("T1", "T2")
    plan = subject.plan(epsilon, mechanism, tables, coarsening="balanced", pool_by="none")
    return Draft(plan if measures else _with_even_priors(plan))


def _with_even_priors(plan: pipelines.ReleasePlan) -> pipelines.ReleasePlan:
    """Return a Dirichlet plan with the same prior in all cells of a pool."""
    own = plan.numeric
    domains = replace(own.domains, stratum=np.zeros_like(own.domains.stratum))
    even = synth.MECHANISMS["dirichlet"].calibrate(own.pools, domains, (Fraction(1),), own.target)
    return replace(plan, numeric=even)


def _paper(subject: Subject, epsilon: str) -> Draft:
    own = subject.plan(epsilon, "dirichlet")
    return Draft(with_priors(own, paper_priors(own)))


def _onthemap(subject: Subject, epsilon: str) -> Draft:
    try:
        return Draft(subject.plan(epsilon, "dirichlet", preset=PlanSettings(preset="onthemap")))
    except synth.BudgetTooSmallError:
        return Draft(None, note="cannot be certified")


@dataclass(frozen=True)
class Method:
    """A row of the study: its name, what it promises, what its plan is, and how that is made.

    `make` is None where the method is a tool of its own (comparison_tools.py).
    """

    title: str
    promise: str
    plan: str
    make: Callable[[Subject, str], Draft] | None = None
    line: str = ""
    """Colour, marker and line in figures; none where it would lie on another one."""


METHODS = {
    "geometric": Method(
        "(a) measured tables",
        "pure DP, certified",
        "the planner's for the workload",
        lambda subject, epsilon: Draft(subject.plan(epsilon, "geometric")),
        "#d62728 s-",
    ),
    "dirichlet": Method(
        "(b) resampling",
        "pDP, certified",
        "the planner's for the workload",
        lambda subject, epsilon: Draft(subject.plan(epsilon, "dirichlet")),
        "#1f77b4 o-",
    ),
    "geometric_before": Method(
        "(c) one measured table",
        "pure DP, certified",
        "as before workloads: for flows between tracts, in balanced cells, without attributes",
        lambda subject, epsilon: _before(subject, epsilon, "geometric"),
        "#ff7f0e v--",
    ),
    "dirichlet_before": Method(
        "(d) resampling without strata",
        "pDP, certified",
        "as before workloads: for flows to tracts and work blocks, in balanced cells of one prior, without "
        "attributes",
        lambda subject, epsilon: _before(subject, epsilon, "dirichlet"),
        "#17becf D--",
    ),
    "paper": Method("(e) resampling, calibrated as in the paper", "pDP, by the paper", "that of (b)", _paper),
    "onthemap": Method(
        "(f) `onthemap` preset",
        "pDP, certified",
        "OnTheMap's: blocks within 100 miles",
        _onthemap,
        "#9467bd P-",
    ),
    "mbi": Method(
        "(g) mbi",
        "DP (floating point)",
        "flows between tracts, and residents by each attribute; a graphical model",
        line="#2ca02c ^-",
    ),
    "inftda": Method(
        "(h) InfTDA", "DP", "flows between tracts, for each work tract by itself", line="#8c564b X-"
    ),
    "model": Method(
        "(i) public model alone",
        "sees no confidential home",
        "none",
        lambda subject, epsilon: Draft(subject.plan(epsilon, "geometric"), _from_model),
        "#444444 :",
    ),
    "tables": Method(
        "(j) measured tables, no privacy",
        "**none**",
        "that of (a)",
        lambda subject, epsilon: Draft(subject.plan(epsilon, "geometric"), draw_without_noise),
        "#d62728 :",
    ),
    "resampling": Method(
        "(k) resampling, no privacy",
        "**none**",
        "that of (b)",
        lambda subject, epsilon: Draft(subject.plan(epsilon, "dirichlet"), draw_without_noise),
        "#1f77b4 :",
    ),
}


@dataclass(frozen=True)
class Goal:
    """A workload for which measured tables are planned, and the losses that were aimed at.

    Attributes
    ----------
    kinds : tuple of str
        Short names of its tables (`Subject.tables`).
    aims : mapping of str to tuple of float
        By short name, at epsilon 8.6, 4.6, 2 and 1; of R, for each of its tables.
    """

    kinds: tuple[str, ...]
    aims: Mapping[str, tuple[float, float, float, float]]

    @property
    def name(self) -> str:
        """What results call it."""
        return f"for {', '.join(self.kinds)}"

    def draft(self, subject: Subject, epsilon: str) -> Draft:
        """Return the plan for the workload."""
        return Draft(subject.plan(epsilon, "geometric", subject.tables(*self.kinds)))


GOALS = {
    goal.name: goal
    for goal in (
        Goal(("T1",), {"T1": (0.003, 0.016, 0.054, 0.094)}),
        Goal(("T1", "R"), {"T1": (0.010, 0.031, 0.078, 0.132), "R": (0.004, 0.008, 0.018, 0.033)}),
        Goal(("T1", "T2"), {"T1": (0.032, 0.080, 0.130, 0.168), "T2": (0.043, 0.158, 0.300, 0.372)}),
        Goal(
            ("T1", "BG", "T2"),
            {
                "T1": (0.055, 0.105, 0.160, 0.195),
                "BG": (0.088, 0.215, 0.325, 0.375),
                "T2": (0.090, 0.240, 0.360, 0.410),
            },
        ),
    )
}


def paper_priors(plan: pipelines.ReleasePlan) -> NDArray[np.float64]:
    """Return the paper's prior for every pool; a pool of n of N jobs has delta n / N, as here."""
    numeric, gain = plan.numeric, Fraction(math.exp(plan.numeric.target.epsilon))
    n, k = numeric.pools.n, numeric.k
    sizes, pool = np.unique(np.stack([n, k]), axis=1, return_inverse=True)
    found = [
        paper_prior(slots, slots, cells, gain, numeric.target.delta * slots / numeric.pools.n_records)
        for slots, cells in sizes.T.tolist()
    ]
    return np.array(found)[pool.ravel()]


def with_priors(plan: pipelines.ReleasePlan, prior: NDArray[np.float64]) -> pipelines.ReleasePlan:
    """Return a Dirichlet plan with another prior in each pool, and without pruning."""
    numeric = plan.numeric
    cells = numeric.domains.strata_counts[numeric.pools.domain]
    numerator = np.maximum(1, np.ceil(prior * Q)).astype(np.int64)
    rows, pool_class = np.unique(
        np.column_stack([numeric.pools.n, numerator, cells]), axis=0, return_inverse=True
    )
    gain = Fraction(math.exp(numeric.target.epsilon))
    classes = tuple(
        PoolClass(n, n, n, *[tuple(k)] * 3, gain, (a,) * len(k), (Fraction(1),) * len(k), Q)
        for n, a, *k in rows.tolist()
    )
    parameters = DirichletParameters(classes)
    return replace(
        plan, numeric=replace(numeric, pool_class=pool_class.ravel().astype(np.int32), parameters=parameters)
    )


def plan_in_words(plan: pipelines.ReleasePlan) -> str:
    """Return what the planner chose."""
    chosen = plan.choices
    by = f"by {' and '.join(chosen.pool_by)}" if chosen.pool_by else "not by attributes"
    if plan.tables:
        return "; ".join(f"{words}, {float(share):.0%} of epsilon" for words, share in plan.tables)
    return f"pools {by}, shared below {chosen.pool_below:,} jobs in a unit of {chosen.pool_level}"
