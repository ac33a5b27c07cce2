"""From noisy counts to slots: how many jobs a release has of each work block and combination of categories.

All of it is post-processing of noisy counts, which may be published, and of public numbers. It is the same
whoever does it: where lots decide between whole numbers, they are always those of one public key.

Coarse numbers come first: all jobs by combination of categories, then these in units of the public model,
then the jobs of each block of a unit. Each is estimated from noisy counts and what is expected, and adds up
to the one before. Of the combinations of a block only sums are known; they are as public data let expect,
brought to these sums.

That is done twice. From tables of workplaces come the slots that pools, and the groups of other tables of
homes, are made of. When homes are measured, the noisy counts of each group add up to a noisy number of its
jobs, and slots are estimated again from all. Then every slot is of a group of each table, and every group has
one at least.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from geo_data.jobs import Slots
from pipelines.drawing.category_fit import CategoryFit
from pipelines.drawing.job_counts import JobCounts, counted_homes, counted_workplaces, largest_slots
from pipelines.drawing.workplace_fit import NO_GROUPS, Kept, WorkplaceFit
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import combination_of
from synth.posterior.estimation import Cells

Int64 = NDArray[np.int64]


def estimate_slots(plan: ReleasePlan, noisy: Sequence[Int64]) -> Slots:
    """Estimate the jobs of each work block and combination of categories, in whole numbers.

    Parameters
    ----------
    plan : ReleasePlan
        With tables of workplaces, the first of them of all jobs by all attributes, wherever they are.
    noisy : sequence of ndarray of int64
        The noisy counts of each.

    Returns
    -------
    Slots
        At least one. Those of a combination in a unit of the public model, of a block, and of a combination
        in a block are within one of what is expected of them.
    """
    return _fit(plan, counted_workplaces(plan, noisy)).rounded("workplaces")


def slots_fit(plan: ReleasePlan, noisy: Sequence[Int64], slots: Slots) -> bool:
    """Say whether `estimate_slots` could have returned these slots, if floats added up otherwise."""
    return _fit(plan, counted_workplaces(plan, noisy)).allow(slots)


def estimate_again(
    plan: ReleasePlan, noisy: Sequence[Int64], grouped: ReleasePlan, of_homes: Sequence[Cells]
) -> Slots:
    """Estimate slots from noisy counts of homes, too.

    Parameters
    ----------
    plan, noisy
        As for `estimate_slots`.
    grouped : ReleasePlan
        The plan with the slots of `estimate_slots`.
    of_homes : sequence of Cells
        The noisy counts of its tables of homes, that of the pools first.

    Returns
    -------
    Slots
        Of every pool and group of `grouped`, and of no other; else as of `estimate_slots`.
    """
    return _again(plan, noisy, grouped, of_homes).rounded("workplaces again")


def slots_fit_again(
    plan: ReleasePlan, noisy: Sequence[Int64], grouped: ReleasePlan, of_homes: Sequence[Cells], slots: Slots
) -> bool:
    """Say whether `estimate_again` could have returned these slots, if floats added up otherwise."""
    return _again(plan, noisy, grouped, of_homes).allow(slots)


def _again(
    plan: ReleasePlan, noisy: Sequence[Int64], grouped: ReleasePlan, of_homes: Sequence[Cells]
) -> WorkplaceFit:
    groups = counted_homes(grouped, of_homes)
    slots = grouped.pools.slots
    present = np.unique(combination_of(slots, slots.categories)[0])
    kept = Kept(groups, *largest_slots(slots, groups), present)
    return _fit(plan, counted_workplaces(plan, noisy), kept)


def _fit(plan: ReleasePlan, of_work: Sequence[JobCounts], kept: Kept = NO_GROUPS) -> WorkplaceFit:
    """Fit workplaces, or where these are public categories of secret attributes."""
    return (CategoryFit if plan.policy.secret else WorkplaceFit)(plan, of_work, kept)
