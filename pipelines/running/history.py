"""Taking earlier releases of a series into a plan: their noisy counts, which are paid for, are evidence.

What a plan measures, and what it costs, is not changed by its history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.drawing.estimating import JobLayout
from pipelines.plans.history import UNIT, EarlierRelease, History
from pipelines.plans.plan import ReleasePlan
from pipelines.release.measurements import measurement_files, read_measurements
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.views.folder import PublicReleaseError
from pipelines.views.release import Release, open_release
from synth.arrays import find_keys, segment_indices
from synth.geometric.measured import MeasuredTable
from synth.posterior.estimation import Cells
from synth.posterior.history import CarriedCounts

Int64 = NDArray[np.int64]

_WHERE = "history.release"
_PIN = (
    'name the cells and pools in [plan], the same every year: coarsening = "units", cell_level, pool_level, '
    "pool_below and pool_by"
)


def with_history(config: ReleaseConfig, plan: ReleasePlan) -> ReleasePlan:
    """Return a plan with the history that its configuration names, if any.

    Raises
    ------
    ConfigError
        If the earlier release is not there, was changed, is of another series, or measured nothing that
        this plan measures.
    """
    if not config.has_history:
        return plan
    assert config.history is not None
    folder = config.history.release
    try:
        release = open_release(folder)
        earlier, digest = release.plan, _checked(release)
    except (PublicReleaseError, OSError, ValueError) as error:
        cause, year = str(error).partition(". Fix: ")[0].rstrip("."), plan.config.release.year
        fix = "name the output folder of the last release before this one, whole as it was made"
        raise ConfigError(
            [f"{_WHERE}: {cause}; {fix}; or, for the first of the series, write history.first = {year}"]
        ) from None
    _refuse_others(earlier, plan)
    noisy = read_measurements(release.public, earlier, JobLayout(earlier))[0]
    return carried_over(earlier, noisy, digest, plan)


def carried_over(earlier: ReleasePlan, noisy: Sequence[Cells], digest: str, plan: ReleasePlan) -> ReleasePlan:
    """Return a plan with the noisy counts of an earlier one, of a release of this hash, as history."""
    layout, noisy = JobLayout(earlier).with_history(noisy)
    counts = []
    for k, table in enumerate(JobLayout(plan).tables):
        groups = _same_groups(earlier, plan, k)
        if groups is None:
            counts.append(_carried(table, table, np.full(table.n.size, -1), np.zeros(0), np.zeros(0)))
            continue
        position, old = groups
        means = np.asarray(noisy[position][:], np.float64)
        before = layout.tables[position]
        counts.append(_carried(table, before, old, means, before.noise_variances))
    if not counts[0].n.any():
        raise ConfigError(
            [
                f"{_WHERE}: {_named(earlier)} measured homes in other cells or pools than {_named(plan)}; "
                f"{_PIN}"
            ]
        )
    older = earlier.history.releases if earlier.history else ()
    this_year = plan.config.release.year
    this = EarlierRelease(earlier.config.release.name, earlier.config.release.year, digest)
    history = History((this, *older), tuple(counts))
    notes = *_notes(history, this_year), *_notes_of_tier(earlier)
    return replace(plan, history=history, notes=(*plan.notes, *notes))


def _named(plan: ReleasePlan) -> str:
    return f"{plan.config.release.name} ({plan.config.release.year})"


def _checked(release: Release) -> str:
    """Compare the plan and the noisy counts of a release with its checksums; return the hash of these."""
    sums = parse_checksums((release.public / CHECKSUMS).read_bytes())
    plan = release.plan
    names = [name for name in sums if name.startswith("plan/")]
    for name in [*names, *(name for of_run in measurement_files(plan) for name in of_run)]:
        if sums.get(name) != sha256_of(release.public / name):
            raise ValueError(f"{name} is not the file that was released.")
    return sha256_of(release.public / CHECKSUMS)


def _refuse_others(earlier: ReleasePlan, plan: ReleasePlan) -> None:
    """Refuse a release whose counts say nothing of those of a plan."""
    names = f"{_named(earlier)} and {_named(plan)}"
    of, other = earlier.config, plan.config
    fix = "name a release of the same series, or leave [history] out"

    def problems() -> Iterator[str]:
        if (
            not earlier.geography.block_codes.equals(plan.geography.block_codes)
            or earlier.level != plan.level
        ):
            yield f"{names} are of other regions, or of other vintages of a geography; {fix}"
        kind = of.release.state, of.release.job_type, of.jobs.population, of.privacy.protects
        if kind != (
            other.release.state,
            other.release.job_type,
            other.jobs.population,
            other.privacy.protects,
        ):
            yield f"{names} differ in state, job_type, population or what is protected; {fix}"
        if earlier.policy.name != plan.policy.name:
            yield f"{names} have other policies, so other cells; {fix}"
        if of.release.year >= other.release.year:
            yield f"{_named(earlier)} is not before {_named(plan)}; name the release of an earlier year"
        if not (earlier.measures and earlier.fills_slots and of.implicates.number == 1):
            yield f"{_named(earlier)} has no noisy counts of one data set of homes; {fix}"

    if found := [f"{_WHERE}: {problem}" for problem in problems()]:
        raise ConfigError(found)


def _same_groups(earlier: ReleasePlan, plan: ReleasePlan, k: int) -> tuple[int, Int64] | None:
    """Return which measured table of an earlier plan counts the same as one of this, and its groups there.

    -1 where there is no such group; None where there is no such table.
    """
    if k == 0:
        by = plan.pools.pooling.by
        same = earlier.pools.pooling.level == plan.pools.pooling.level and earlier.pools.pooling.by == by
        categories, others = plan.pools.slots.categories, earlier.pools.slots.categories
        if not same or any(categories[name] != others.get(name) for name in by):
            return None
        position, found = find_keys(earlier.pools.keys, plan.pools.keys)
        return 0, np.where(found, position, -1)
    choice = plan.choices.tables[k - 1]
    for number, other in enumerate(earlier.choices.tables):
        if (other.work, other.by, other.home) == (choice.work, choice.by, choice.home):
            here, there = (
                pd.MultiIndex.from_frame(pd.DataFrame(groups.labels()))
                for groups in (plan.secondary[k - 1], earlier.secondary[number])
            )
            return number + 1, there.get_indexer(here).astype(np.int64)
    return None


def _carried(
    table: MeasuredTable,
    before: MeasuredTable,
    old: Int64,
    means: NDArray[np.float64],
    variances: NDArray[np.float64],
) -> CarriedCounts:
    """Return what is carried over to the groups of a table; nothing where cells are others."""
    n = np.zeros(table.n.size, np.int64)
    mean, variance = np.zeros(int(table.offsets[-1])), np.ones(int(table.offsets[-1]))
    for domain in np.unique(table.domain).tolist():
        cuts = _cuts(table, domain)
        some = np.flatnonzero((table.domain == domain) & (old >= 0))
        of_old = before.domain[old[some]]
        same = [other for other in np.unique(of_old).tolist() if np.array_equal(_cuts(before, other), cuts)]
        some = some[np.isin(of_old, same)]
        n[some] = before.n[old[some]]
        cells = segment_indices(table.offsets[some], table.k[some])
        of_before = segment_indices(before.offsets[old[some]], before.k[old[some]])
        mean[cells], variance[cells] = means[of_before], variances[of_before]
    # In hundredths, as they are stored.
    return CarriedCounts(n, np.rint(mean * UNIT) / UNIT, np.maximum(np.rint(variance * UNIT), 1) / UNIT)


def _cuts(table: MeasuredTable, domain: int) -> NDArray[np.int32]:
    domains = table.domains
    return domains.cuts[domains.offsets[domain] : domains.offsets[domain + 1]]


def _notes(history: History, year: int) -> Iterator[str]:
    """Say which releases are the history, and how much of what is measured has one."""
    last, *before = history.releases
    also = f" and, through it, of {len(before)} earlier release(s)" if before else ""
    years = history.years_to(year)
    gap = f"; it lies {years} years before, and change of each is counted" if years > 1 else ""
    yield (
        f"noisy counts of {last.name} ({last.year}, SHA256SUMS {last.sha256[:12]}){also} are evidence of "
        f"this year's homes; forecasts do without it{gap}"
    )
    without = int((history.counts[0].n == 0).sum())
    if without:
        pools = f"{without:,} of {history.counts[0].n.size:,} pools"
        yield f"{pools} have no history, as {last.name} had other pools or cells there"


def _notes_of_tier(earlier: ReleasePlan) -> Iterator[str]:
    """Say that the noisy counts of a tier, or of a refined release, get to the readers of another release."""
    if (tier := earlier.config.tier) is not None:
        epsilon = synth.decimal_up(earlier.config.privacy.epsilon)
        yield (
            f"the history is the tier {tier} of {earlier.config.release.name}, of epsilon {epsilon}: who "
            "reads this release learns what readers of that tier do"
        )
