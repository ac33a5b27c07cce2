"""What several tables of a configuration must be together: each rule is a function of the tables it is about.

So a table that is unusable itself hides the rules about it, and no others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

import synth
from geo_data.od_files import LODES_CATEGORIES, od_name
from geo_data.texts import spellings
from pipelines.config.fields import decimal_or_ratio, listed, one_of, shown
from pipelines.config.policies import DistancePolicy, FullPolicy, PartitionPolicy
from pipelines.config.sections import (
    LONGEST_TITLE,
    AcsTable,
    AttributeSettings,
    AuxiliaryTable,
    CtppTable,
    FlowTable,
    HistorySettings,
    JobsSettings,
    LodesJobsSettings,
    LodesTable,
    MicrodataJobsSettings,
    PlanSettings,
    PrivacySettings,
    PublicGeographySettings,
    PublicReleaseSettings,
    WeightsSettings,
    WitnessSettings,
    WorkloadTable,
    WorkplaceSettings,
    tiers_in_ledger,
)

_SPELLINGS = "two categories are spellings of the same category; write each category once"
_Flows = tuple[AuxiliaryTable, ...]
_T = TypeVar("_T")


def problems_across(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems that concern more than one table, a line for each: key, what is wrong, the fix.

    In place of a member of a list that is not usable stands None.
    """
    for rule in _RULES:
        names = inspect.signature(rule).parameters
        if tables.keys() >= names.keys():
            yield from rule(**{name: tables[name] for name in names})


def _numbered(name: str, tables: Iterable[_T | None]) -> Iterator[tuple[str, _T]]:
    """Yield the members of a list of tables that are usable, by what messages call them."""
    for number, table in enumerate(tables, start=1):
        if table is not None:
            yield f"{name} #{number}", table


def _attributes_of(jobs: JobsSettings) -> tuple[str, ...]:
    return jobs.attributes if isinstance(jobs, MicrodataJobsSettings) else tuple(LODES_CATEGORIES)


# --- levels


def _unknown(
    where: str, level: str | None, geography: PublicGeographySettings, *, areas: bool = False
) -> Iterator[str]:
    """Yield that a level is none of the geography, nor of its non-nesting areas where these may be named."""
    allowed = (*geography.levels, geography.block, *(geography.non_nesting_areas if areas else ()))
    if level is not None and level not in allowed:
        yield (
            f"{where}: {shown(level)} is not a level of the geography; use {one_of(allowed)}, or add it to "
            f"geography.levels{' or geography.non_nesting_areas' if areas else ''}"
        )


def _levels_of_flows(geography: PublicGeographySettings, auxiliary: _Flows) -> Iterator[str]:
    for where, table in _numbered("auxiliary", auxiliary):
        named: list[tuple[str, str]] = []
        if isinstance(table, AcsTable):
            named = [("level", table.level)]
        elif isinstance(table, CtppTable):
            named = [(f"levels.{key}", side) for key, sides in table.levels.items() for side in listed(sides)]
        else:
            named = [(key, getattr(table, key)) for key in ("origin_level", "destination_level")]
        for key, level in named:
            yield from _unknown(f"{where}.{key}", level, geography, areas=True)


def _levels_of_weights(geography: PublicGeographySettings, weights: WeightsSettings | None) -> Iterator[str]:
    yield from _unknown("weights.level", None if weights is None else weights.level, geography)


def _levels_of_plan(geography: PublicGeographySettings, plan: PlanSettings) -> Iterator[str]:
    yield from _unknown("plan.pool_level", plan.pool_level, geography)
    yield from _unknown("plan.cell_level", plan.cell_level, geography)


def _levels_of_workload(
    geography: PublicGeographySettings, workload: tuple[WorkloadTable, ...]
) -> Iterator[str]:
    for where, table in _numbered("workload", workload):
        for key, level in (("home", table.home), ("work", table.work)):
            yield from _unknown(f"{where}.{key}", level, geography, areas=True)


# --- the policy


def _parts_are_of_a_level(geography: PublicGeographySettings, privacy: PrivacySettings) -> Iterator[str]:
    if not isinstance(privacy.policy, PartitionPolicy):
        return
    level, levels = privacy.policy.partition, geography.levels
    where = f"privacy.policy.partition: {shown(level)}"
    if level == geography.block:
        yield f"{where} is the level of blocks, so every home would be public; use {one_of(levels)}"
    elif level in geography.non_nesting_areas:
        yield (
            f"{where} is a column of non-nesting areas, and a part of homes is a whole unit of a level; use "
            f"{one_of(levels)}, or name the column in geography.levels if its areas nest"
        )
    else:
        yield from _unknown("privacy.policy.partition", level, geography)


def _policy_and_workplaces(
    privacy: PrivacySettings, workplaces: WorkplaceSettings | None, jobs: JobsSettings
) -> Iterator[str]:
    policy = privacy.policy
    fix = 'write policy = "full", or leave [workplaces] out'
    rule = "the privacy proof does not cover this together with [workplaces]"
    if privacy.secret and isinstance(jobs, LodesJobsSettings):
        yield (
            "privacy.protects: an origin-destination file counts each attribute by itself, not home and "
            'attributes of each job; use job-level microdata, or write protects = "home"'
        )
    elif privacy.secret and not isinstance(policy, FullPolicy):
        fix = 'write policy = "full", or protects = "home"'
        yield f"privacy.policy: attributes are protected only where any home may replace any other; {fix}"
    elif workplaces is None:
        return
    elif privacy.secret:
        yield f'privacy.protects: {rule}; write protects = "record", or leave [workplaces] out'
    elif isinstance(policy, DistancePolicy):
        yield f"privacy.policy: {rule}; {fix}"
    elif isinstance(policy, PartitionPolicy):
        rule = "[workplaces] does not tell in which part the homes of jobs are"
        yield f"privacy.policy: {rule}; {fix}"


def _expected_jobs(
    privacy: PrivacySettings,
    plan: PlanSettings,
    auxiliary: _Flows,
    workplaces: WorkplaceSettings | None,
) -> Iterator[str]:
    if plan.expected_jobs is None:
        if privacy.protects == "record" and not auxiliary and workplaces is None:
            yield (
                "plan.expected_jobs: missing; no public table tells how many jobs to expect, and jobs are "
                "counted only after the debit; write a public number, such as the jobs of the last census"
            )
    elif privacy.protects != "record":
        yield "plan.expected_jobs: the number of jobs is public and read from a file; leave this line out"
    elif workplaces is not None:
        yield "plan.expected_jobs: the number of jobs is read from [workplaces]; leave this line out"


def _one_data_set(release: PublicReleaseSettings, privacy: PrivacySettings) -> Iterator[str]:
    if privacy.protects != "home" and release.implicates > 1:
        yield (
            "privacy.protects: a release that protects more than homes has one synthetic data set; leave "
            'release.implicates out, or write protects = "home"'
        )


def _whole_records(
    privacy: PrivacySettings, jobs: JobsSettings, attribute: tuple[AttributeSettings, ...]
) -> Iterator[str]:
    if privacy.protects != "record":
        return
    where = 'privacy.protects = "record"'
    if isinstance(jobs, LodesJobsSettings):
        yield (
            f"{where}: an origin-destination file counts each attribute by itself, not whole records; use "
            'job-level microdata, or write protects = "home"'
        )
        return
    if not isinstance(privacy.policy, FullPolicy):
        yield f"{where}: a policy of homes cannot protect a whole record; leave privacy.policy out"
    for table in attribute:
        if table is not None and _are_spellings(table.categories or ()):
            yield f"attribute.categories: {shown(table.name)}: {_SPELLINGS}"
    declared = {table.name for table in attribute if table is not None and table.categories}
    for name in jobs.attributes:
        if name not in declared:
            yield from _undeclared(where, name, attribute)


def _are_spellings(categories: Sequence[str]) -> bool:
    """Say whether two categories are spellings of one."""
    distinct: int = pc.count_distinct(spellings(pa.array(categories, pa.large_string()))).as_py()
    return distinct < len(categories)


def _secret_attributes(
    privacy: PrivacySettings, jobs: JobsSettings, attribute: tuple[AttributeSettings, ...]
) -> Iterator[str]:
    if isinstance(jobs, LodesJobsSettings):
        return
    declared = {table.name: table.categories for table in attribute if table is not None}
    for name in privacy.secret:
        if name not in jobs.attributes:
            rule = f"{shown(name)} is not an attribute of the jobs; add it to jobs.attributes"
            yield f"privacy.protects: {rule}"
        elif not (categories := declared.get(name)):
            yield from _undeclared("privacy.protects", name, attribute)
        elif _are_spellings(categories):
            yield f"attribute.categories: {shown(name)}: {_SPELLINGS}"


def _undeclared(where: str, name: str, attribute: tuple[AttributeSettings, ...]) -> Iterator[str]:
    if None not in attribute:  # of one that is unusable this is said already
        yield (
            f"{where}: the categories of {shown(name)} may not be read from the jobs; list all that a "
            f"job may have: [[attribute]] with name = {shown(name)} and categories = [...]"
        )


# --- attributes


def _pools_by_attributes(jobs: JobsSettings, plan: PlanSettings) -> Iterator[str]:
    if isinstance(jobs, MicrodataJobsSettings):
        for name in plan.pool_by or ():
            if name not in jobs.attributes:
                yield f"plan.pool_by: {shown(name)} is not in jobs.attributes; add it there"


def _attributes_of_workload(jobs: JobsSettings, workload: tuple[WorkloadTable, ...]) -> Iterator[str]:
    lodes, attributes = isinstance(jobs, LodesJobsSettings), _attributes_of(jobs)
    for where, table in _numbered("workload", workload):
        if lodes and len({*table.attributes}) > 1:
            rule = "LODES counts each attribute by itself; name one attribute in each table"
            yield f"{where}.attributes: {rule}"
        for name in table.attributes:
            if name not in attributes:
                fix = f"use {one_of(attributes)}" if lodes else "add it to jobs.attributes"
                yield f"{where}.attributes: {shown(name)} is not an attribute of the jobs; {fix}"


def _homes_of_workload(privacy: PrivacySettings, workload: tuple[WorkloadTable, ...]) -> Iterator[str]:
    for where, table in _numbered("workload", workload):
        if table.home is None and privacy.protects == "home":
            yield (
                f"{where}.home: missing; numbers of jobs by workplace are public and released exactly; name "
                "the level of the home areas"
            )


def _workload_is_of_different_tables(workload: tuple[WorkloadTable, ...]) -> Iterator[str]:
    seen: dict[object, str] = {}
    for where, table in _numbered("workload", workload):
        if (first := seen.setdefault((table.home, table.work, *sorted(table.attributes)), where)) != where:
            yield f"{where}: this is the same table as {first}; leave one of the two out"
    if workload and all(table is not None and table.weight == 0 for table in workload):
        yield 'workload: all weights are 0; write weight = "1" in a table that the release is for'


def _meanings(
    jobs: JobsSettings, geography: PublicGeographySettings, attribute: tuple[AttributeSettings, ...]
) -> Iterator[str]:
    """Yield meanings of attributes that the jobs do not have, or have already."""
    seen: dict[str, str] = {}
    for where, table in _numbered("attribute", attribute):
        name = table.name
        if name in geography.columns:
            for key in ("unit", "labels", "categories", "table"):
                if getattr(table, key):
                    yield f"{where}.{key}: {shown(name)} is a kind of area, which has no {key}; leave it out"
        elif isinstance(jobs, LodesJobsSettings):
            yield f"{where}: attributes of LODES jobs have their meanings already; leave this table out"
        elif name not in jobs.attributes:
            yield f"{where}.name: {shown(name)} is not an attribute of the jobs; add it to jobs.attributes"
        if (first := seen.setdefault(name, where)) != where:
            yield f"{where}.name: {first} describes the same attribute; leave one of the two out"


def _shares_of_attributes(
    privacy: PrivacySettings,
    workplaces: WorkplaceSettings | None,
    geography: PublicGeographySettings,
    attribute: tuple[AttributeSettings, ...],
) -> Iterator[str]:
    for where, attribute_ in _numbered("attribute", attribute):
        if (table := attribute_.table) is None:
            continue
        yield from _unknown(f"{where}.table.level", table.level, geography)
        if privacy.protects != "record" and attribute_.name not in privacy.secret:
            rule = "the attribute is public, so no prior uses this table"
            yield f"{where}.table: {rule}; leave it out, or protect the attribute (privacy.protects)"
        elif workplaces is not None:
            yield (
                f"{where}.table: {table.file.name} and {workplaces.file.name} of [workplaces] both say how "
                f"many jobs each category of {shown(attribute_.name)} has; leave one of the two tables out"
            )


# --- the mechanism


def _columns_of_workplaces(jobs: JobsSettings, workplaces: WorkplaceSettings | None) -> Iterator[str]:
    if workplaces is None:
        return
    if isinstance(jobs, LodesJobsSettings):
        if workplaces.count is not None:
            rule = "a table for LODES jobs has the columns S000, SA01, ..."
            yield f"workplaces.count: {rule}; leave this line out"
    elif workplaces.count is None:
        yield 'workplaces.count: missing; name the column of the number of jobs: count = "jobs"'
    elif workplaces.count in (jobs.work, *jobs.attributes):
        count = shown(workplaces.count)
        yield f"workplaces.count: {count} has another purpose in [jobs]; name the column of the counts"


def settings_missing(
    mechanism: synth.Mechanism,
    release: PublicReleaseSettings,
    privacy: PrivacySettings,
    plan: PlanSettings,
    workplaces: WorkplaceSettings | None,
    geography: PublicGeographySettings,
    tiers: Mapping[str, Fraction],
) -> Iterator[str]:
    """Yield the settings of these tables that a mechanism does not have."""
    name, settings = shown(mechanism.name), mechanism.settings
    if "tables" not in settings and (
        secret := [name for name in plan.pool_by or () if name in privacy.secret]
    ):
        yield (
            f"plan.pool_by: the mechanism {name} needs pools with a public number of jobs; leave "
            f"{', '.join(map(shown, secret))} out, or choose another mechanism"
        )
    for key in ("external_workplaces", "uninhabited") if "tables" not in settings else ():
        if getattr(geography, key):
            yield (
                f"geography.{key}: the mechanism {name} draws homes in every cell, even where nobody can "
                "live; leave this line out, or choose another mechanism"
            )
    if workplaces is not None and "workplaces" not in settings:
        yield (
            f"workplaces: the mechanism {name} needs the exact number of jobs; leave this table out, or "
            "choose another mechanism"
        )
    for key in ("fewest", "most") if workplaces is not None and "record_range" not in settings else ():
        if getattr(workplaces, key) != WorkplaceSettings.model_fields[key].default:
            yield f"workplaces.{key}: the mechanism {name} takes any number of jobs; leave this line out"
    if privacy.protects != "home" and "workplaces" not in settings:
        yield (
            f"privacy.protects: the mechanism {name} has bounds for homes alone; write protects = "
            '"home", or choose another mechanism'
        )
    if privacy.delta == 0 and "pure" not in settings:
        yield (
            f"privacy.delta: the mechanism {name} has no guarantee with a delta of 0; write a small number, "
            'such as delta = "1e-6", or choose another mechanism'
        )
    if plan.prior is not None and "prior" not in settings:
        yield f"plan.prior: the mechanism {name} has no prior; leave this line out"
    if plan.retention_min != 1 and "retention_min" not in settings:
        yield f'plan.retention_min: the mechanism {name} keeps every cell; write retention_min = "1"'
    if release.implicate_source == "one-urn" and "implicate_source" not in settings:
        fix = 'write implicate_source = "independent-runs"'
        yield f"release.implicate_source: the mechanism {name} has no urn; {fix}"
    if tiers and "tiers" not in settings:
        reason = (
            "a sum of two discrete Gaussian variables is none"
            if "tables" in settings
            else "it publishes no noisy counts to which noise could be added"
        )
        yield (
            f"tiers: the mechanism {name} cannot make a weaker release of a stronger one, as {reason}; write "
            'mechanism = "geometric", or leave [tiers] out'
        )


def _settings_of_mechanism(
    release: PublicReleaseSettings,
    privacy: PrivacySettings,
    plan: PlanSettings,
    workplaces: WorkplaceSettings | None,
    geography: PublicGeographySettings,
    tiers: Mapping[str, Fraction],
) -> Iterator[str]:
    if release.mechanism is not None:
        mechanism = synth.MECHANISMS[release.mechanism]
        yield from settings_missing(mechanism, release, privacy, plan, workplaces, geography, tiers)


# --- workers who live outside, and jobs of other kinds


def _external_zones(geography: PublicGeographySettings, jobs: JobsSettings) -> Iterator[str]:
    """Yield what is missing for workers who live outside, or a word that none are released."""
    zones, lodes = bool(geography.external_zones), isinstance(jobs, LodesJobsSettings)
    outside = isinstance(jobs, LodesJobsSettings) and jobs.aux is not None
    if jobs.population == "residents":
        if zones or outside:
            others = "jobs.aux" if outside else "geography.external_zones"
            rule = f"residents live in the geography, and {others} is for workers who do not"
            yield f"jobs.population: {rule}; leave one of the two out"
    elif outside and not zones:
        yield f"jobs.aux: {_NEEDS_ZONES}"
    elif lodes and zones and not outside:
        rule = "the LODES main file has no workers who live in these zones; add the aux file as jobs.aux"
        yield f"geography.external_zones: {rule}"
    elif not zones:
        missing = "jobs.aux" if lodes else "geography.external_zones"
        fix = f"add the aux file and geography.{_ZONES}" if lodes else f"name zones, such as {_ZONES}"
        yield (
            f"{missing}: missing; the home decides whether a job is in the file, so totals by work block are "
            f'not public; {fix}, or write population = "residents" in [jobs] if everybody may know that all '
            "workers live in the geography"
        )


_ZONES = 'external_zones = ["us-states"]'
_NEEDS_ZONES = f"the aux file has workers who live outside the geography; add geography.{_ZONES}"


def _closed_areas(
    privacy: PrivacySettings, jobs: JobsSettings, geography: PublicGeographySettings
) -> Iterator[str]:
    if geography.external_workplaces and isinstance(jobs, LodesJobsSettings):
        yield (
            "geography.external_workplaces: LODES has no jobs outside the crosswalk; use job-level "
            "microdata, or leave this line out"
        )
    if geography.uninhabited and not isinstance(privacy.policy, FullPolicy):
        yield (
            "geography.uninhabited: a policy keeps every home in its part, even where nobody can live; write "
            'policy = "full", or leave this line out'
        )


def _aux_of_flows(geography: PublicGeographySettings, auxiliary: _Flows) -> Iterator[str]:
    for where, table in _numbered("auxiliary", auxiliary):
        if isinstance(table, LodesTable) and table.aux is not None and not geography.external_zones:
            yield f"{where}.aux: {_NEEDS_ZONES}"


def _same_jobs(release: PublicReleaseSettings, auxiliary: _Flows) -> Iterator[str]:
    for where, table in _numbered("auxiliary", auxiliary):
        if not isinstance(table, FlowTable | LodesTable) or not table.same_jobs:
            continue
        if (name := od_name(table.file)) and name.job_type != release.job_type:
            yield (
                f"{where}.same_jobs: {table.file.name} is by its name of job type {name.job_type}, not "
                f"{release.job_type}, and counts other jobs; write same_jobs = false"
            )


# --- several kinds of readers


def _witness_of_tiers(witness: WitnessSettings | None, tiers: Mapping[str, Fraction]) -> Iterator[str]:
    if witness is not None and witness.key is not None and tiers:
        yield "witness.key: no witness can repeat a run of several tiers; leave this line or [tiers] out"


def _different_tiers(tiers: Mapping[str, Fraction]) -> Iterator[str]:
    if len(tiers) == 1:
        rule = "one tier is a release as any other"
        yield f"tiers: {rule}; name another with a smaller epsilon, or leave [tiers] out"
    seen: dict[Fraction, str] = {}
    for name, epsilon in tiers.items():
        if (first := seen.setdefault(epsilon, name)) != name:
            yield (
                f"tiers.{name}: the epsilon of tiers.{first}, so both would tell the same; leave one of the "
                "two out, or write another epsilon"
            )


def _strongest_tier(privacy: PrivacySettings, tiers: Mapping[str, Fraction]) -> Iterator[str]:
    if not tiers:
        return
    paid = decimal_or_ratio(privacy.epsilon)
    for name, epsilon in tiers.items():
        if epsilon > privacy.epsilon:
            yield (
                f"tiers.{name}: {decimal_or_ratio(epsilon)} is above privacy.epsilon, {paid}, which is all "
                f"that is debited; write at most {paid}, or a larger privacy.epsilon"
            )
    if max(tiers.values()) < privacy.epsilon:
        strongest = decimal_or_ratio(max(tiers.values()))
        yield (
            f"tiers: no reader gets the epsilon of {paid} that is debited; write privacy.epsilon = "
            f'"{strongest}", or name the tier that gets it'
        )
    if privacy.protects != "home":
        yield (
            "tiers: a weaker tier gets more noise on counts of homes, not of workplaces; write "
            'privacy.protects = "home", or leave [tiers] out'
        )


def _name_with_tiers(release: PublicReleaseSettings, tiers: Mapping[str, Fraction]) -> Iterator[str]:
    longest = LONGEST_TITLE - len(tiers_in_ledger(tiers))
    if len(release.name) > longest:
        yield (
            f"release.name: a ledger keeps the title together with the names of the tiers; write at most "
            f"{longest} characters, or shorten the names in [tiers]"
        )


# --- a series


def _history(
    release: PublicReleaseSettings,
    privacy: PrivacySettings,
    workplaces: WorkplaceSettings | None,
    tiers: Mapping[str, Fraction],
    history: HistorySettings | None,
) -> Iterator[str]:
    if history is None:
        return
    if tiers:
        yield "history: it is for one release of a run; leave [tiers] out, or [history]"
    if history.first is not None and history.first > release.year:
        yield (
            f"history.first: the series begins in {history.first}, after release.year {release.year}; "
            "correct one of the two"
        )
    if release.mechanism is None or "tables" not in synth.MECHANISMS[release.mechanism].settings:
        measuring = one_of(name for name, m in sorted(synth.MECHANISMS.items()) if "tables" in m.settings)
        yield f"history: noisy counts of tables are needed; write release.mechanism = {measuring}"
    if privacy.protects != "home" or workplaces is not None:
        yield (
            'history: it needs public numbers of jobs; write privacy.protects = "home" and leave '
            "[workplaces] out, or leave [history] out"
        )
    if release.implicates > 1:
        yield "history: it is for one synthetic data set; leave release.implicates out, or [history]"


_RULES: tuple[Callable[..., Iterator[str]], ...] = (
    _levels_of_flows,
    _levels_of_weights,
    _levels_of_plan,
    _levels_of_workload,
    _parts_are_of_a_level,
    _policy_and_workplaces,
    _expected_jobs,
    _one_data_set,
    _whole_records,
    _secret_attributes,
    _pools_by_attributes,
    _attributes_of_workload,
    _homes_of_workload,
    _workload_is_of_different_tables,
    _meanings,
    _shares_of_attributes,
    _columns_of_workplaces,
    _settings_of_mechanism,
    _external_zones,
    _closed_areas,
    _aux_of_flows,
    _same_jobs,
    _witness_of_tiers,
    _different_tiers,
    _strongest_tier,
    _name_with_tiers,
    _history,
)
