"""The ways to make synthetic commutes that the utility study compares, each as a plan that is drawn.

All but the general tool are drawn by the functions that draw a release (`draw_synthetic`),
so that they differ in their plan only: in the numbers of the mechanism, or in cells and pools too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pandas as pd

import geo_data
import pipelines
import synth
from pipelines.config.loading import PlanSettings
from pipelines.planning.public_inputs import PublicInputs, job_source
from pipelines.planning.simulation import draw_synthetic
from synth.losses import PoolClass
from synth.paper import paper_prior
from synth.parameters import DirichletParameters

__all__ = ["METHODS", "Draft", "Method", "Subject", "drafts", "draw", "facts", "flows", "true_homes"]

Q = 10**9
NO_NOISE = Fraction(100)  # at this epsilon a cell gets geometric noise once in 10^18 draws


@dataclass(frozen=True)
class Method:
    """A row of the study: its name, what it promises, and what its cells and pools are."""

    title: str
    promise: str
    plan: str


SAME = "the planner's for (a)"
METHODS = {
    "dirichlet": Method("(a) Dirichlet resampling", "pDP, certified", SAME),
    "paper": Method("(b) the same, calibrated as in the paper", "pDP, by the paper", SAME),
    "onthemap": Method("(c) `onthemap` preset", "pDP, certified", "OnTheMap's: blocks within 100 miles"),
    "unpruned": Method("(c) its cells, without pruning", "pDP, certified", "the same"),
    "geometric_same": Method("(d) geometric noise, plan of (a)", "pure DP, certified", SAME),
    "geometric": Method("(d) geometric noise, own plan", "pure DP, certified", "the planner's for (d)"),
    "geometric_blocks": Method(
        "(d) geometric noise, unshared", "pure DP, certified", "the planner's with `pool_below = 1`"
    ),
    "model": Method("(e) public model alone", "sees no confidential home", "no cells"),
    "resampling": Method("(f) resampling alone", "**none**", SAME),
    "cells": Method("(f) cells alone", "**none**", SAME),
    "mbi": Method("(g) mbi, on tracts", "DP (floating point)", "all pairs of tracts that occur"),
}


@dataclass(frozen=True, eq=False)
class Subject:
    """What is released: a configuration, what is public of it, and the true jobs."""

    config: pipelines.ReleaseConfig
    inputs: PublicInputs
    too_small: list[str] = field(default_factory=list)
    """What is said where the `onthemap` preset cannot be certified, once it is known."""

    @classmethod
    def of(cls, config: pipelines.ReleaseConfig) -> Subject:
        """Read the public inputs of a configuration."""
        return cls(config, pipelines.read_public_inputs(config))

    @cached_property
    def records(self) -> geo_data.JobRecords:
        """The true jobs."""
        return self.records_by(())

    def records_by(self, by: tuple[str, ...]) -> geo_data.JobRecords:
        """Return the true jobs with the attributes by which a plan has pools."""
        return job_source(self.config, self.inputs.geography).records(by)

    def plan(
        self, epsilon: str, settings: PlanSettings, mechanism: str = "dirichlet"
    ) -> pipelines.ReleasePlan:
        """Return the plan that the planner makes at an epsilon."""
        config = self.config
        changed = config.model_copy(
            update={
                "privacy": config.privacy.model_copy(update={"epsilon": Fraction(epsilon)}),
                "release": config.release.model_copy(update={"mechanism": mechanism}),
                "plan": settings,
            }
        )
        return pipelines.make_plan(changed, self.inputs)


@dataclass(frozen=True, eq=False)
class Draft:
    """A plan of the study, or why there is none; and the delta that is certified for it at its epsilon."""

    method: str
    plan: pipelines.ReleasePlan | None
    delta: float = math.nan
    note: str = ""


def drafts(subject: Subject, epsilon: str) -> Iterator[Draft]:
    """Yield the plans of all methods at an epsilon."""
    settings = subject.config.plan
    kept = settings.model_copy(update={"retention_min": Fraction(1)})  # geometric noise prunes nothing
    own = subject.plan(epsilon, settings)
    yield certify("dirichlet", own)
    paper = with_priors(own, paper_priors(own))
    yield Draft("paper", paper, float(paper.certify().delta))
    preset = PlanSettings(preset="onthemap")
    try:
        yield certify("onthemap", subject.plan(epsilon, preset))
    except synth.BudgetTooSmallError as error:
        if not subject.too_small:  # the preset has the same cells at every epsilon; the search takes minutes
            least = "100" if error.smallest is None else synth.decimal_up(error.smallest, 3)
            subject.too_small.append(f"cannot be certified below epsilon {least}")
        yield Draft("onthemap", None, note=subject.too_small[0])
    unpruned = preset.model_copy(update={"retention_min": Fraction(1)})
    yield certify("unpruned", subject.plan(epsilon, unpruned))
    yield certify("geometric_same", with_noise(own, own.numeric.epsilon))
    yield certify("geometric", subject.plan(epsilon, kept, "geometric"))
    unshared = kept.model_copy(update={"pool_below": 1})
    yield certify("geometric_blocks", subject.plan(epsilon, unshared, "geometric"))
    yield Draft("model", without_cells(own))
    yield Draft("resampling", with_priors(own, np.full(own.pools.n.size, 1 / Q)))
    yield Draft("cells", with_noise(own, NO_NOISE))


def draw(plan: pipelines.ReleasePlan, homes: np.ndarray) -> np.ndarray:
    """Return a synthetic home for every true one, pool after pool."""
    return draw_synthetic(plan, homes, synth.RunKey.generate())


def true_homes(subject: Subject, plan: pipelines.ReleasePlan) -> np.ndarray:
    """Return the true homes, pool after pool."""
    return geo_data.group_records(plan.pools, plan.geography, subject.records_by(plan.attributes))


def certify(method: str, plan: pipelines.ReleasePlan) -> Draft:
    """Return the draft of a plan that promises what was asked for."""
    return Draft(method, plan, float(pipelines.certify(plan).delta))


def paper_priors(plan: pipelines.ReleasePlan) -> np.ndarray:
    """Return the paper's prior for every pool; a pool of n of N jobs has delta n / N, as here."""
    numeric, gain = plan.numeric, Fraction(math.exp(plan.numeric.epsilon))
    n, k = numeric.pools.n, numeric.domains.n_cells[numeric.pools.domain]
    sizes, pool = np.unique(np.stack([n, k]), axis=1, return_inverse=True)
    found = [
        paper_prior(slots, slots, cells, gain, numeric.delta * slots / numeric.pools.n_records)
        for slots, cells in sizes.T.tolist()
    ]
    return np.array(found)[pool.ravel()]


def with_priors(plan: pipelines.ReleasePlan, prior: np.ndarray) -> pipelines.ReleasePlan:
    """Return a Dirichlet plan with another prior in each pool, and without pruning."""
    numeric = plan.numeric
    cells = numeric.domains.strata_counts[numeric.pools.domain]
    numerator = np.maximum(1, np.ceil(prior * Q)).astype(np.int64)
    rows, pool_class = np.unique(
        np.column_stack([numeric.pools.n, numerator, cells]), axis=0, return_inverse=True
    )
    gain = Fraction(math.exp(numeric.epsilon))
    classes = tuple(
        PoolClass(n, n, n, tuple(k), tuple(k), tuple(k), gain, (a,) * len(k)) for n, a, *k in rows.tolist()
    )
    parameters = DirichletParameters(Q, (Fraction(1),) * cells.shape[1], classes)
    return replace(
        plan, numeric=replace(numeric, pool_class=pool_class.ravel().astype(np.int32), parameters=parameters)
    )


def with_noise(plan: pipelines.ReleasePlan, epsilon: Fraction) -> pipelines.ReleasePlan:
    """Return a plan with the same pools and cells for geometric noise."""
    numeric = plan.numeric
    sure = (Fraction(1),) * numeric.domains.strata_counts.shape[1]
    noisy = synth.MECHANISMS["geometric"].calibrate(
        numeric.pools, numeric.domains, sure, epsilon, numeric.delta
    )
    return replace(plan, numeric=noisy)


def without_cells(plan: pipelines.ReleasePlan) -> pipelines.ReleasePlan:
    """Return a plan with one cell in every domain: homes are drawn from the public model."""
    numeric = plan.numeric
    domains = synth.Domains(
        numeric.domains.n_blocks,
        np.arange(numeric.domains.n_domains + 1),
        np.zeros(numeric.domains.n_domains, np.int32),
        np.zeros(numeric.domains.n_domains, np.uint8),
    )
    return with_noise(replace(plan, numeric=replace(numeric, domains=domains)), NO_NOISE)


def facts(plan: pipelines.ReleasePlan) -> dict[str, float]:
    """Return what a plan is like: pools, cells of the domain of a job, share of noise."""
    numeric = plan.numeric
    return {
        "pools": numeric.pools.n_pools,
        "cells": float(np.average(numeric.domains.n_cells[numeric.pools.domain], weights=numeric.pools.n)),
        "noise": plan.mechanism.noise_share(numeric),
    }


def flows(geography: geo_data.Geography, work: np.ndarray, homes: np.ndarray) -> pd.DataFrame:
    """Return jobs counted by pair of blocks, as a table of flows."""
    pair, jobs = np.unique(work.astype(np.int64) * geography.n_blocks + homes, return_counts=True)
    return pd.DataFrame(
        {
            "work": (pair // geography.n_blocks).astype(np.int32),
            "home": (pair % geography.n_blocks).astype(np.int32),
            "S000": jobs.astype(np.int64),
        }
    )
