"""The read-me of a release, and its page of details: what their templates are filled with."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pipelines.config.languages import ENGLISH
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.plan import ReleasePlan
from pipelines.release.accuracy import ACCURACY_FILE, read_in_words
from pipelines.release.attackers import ATTACKERS_FILE
from pipelines.release.certificate import Certificate
from pipelines.release.corrections import CORRECTION_FILE
from pipelines.release.csv_tables import BLOCK_CSV, NAME_CSV
from pipelines.release.description import (
    VERIFIER,
    Column,
    ReleaseDescription,
    Table,
    describe_release,
    file_names,
    whose_jobs,
)
from pipelines.release.intervals import (
    AREAS_FILE,
    FLOWS_FILE,
    INTERVALS_FILE,
    N_DRAWS,
    carries_draws,
    interval_files,
    interval_tables,
    untold_attributes,
)
from pipelines.release.names import NAME_FILE
from pipelines.release.pages import phrases, render
from pipelines.release.polygons import polygon_file
from pipelines.release.promises import promised
from pipelines.release.records import record_files
from pipelines.release.signing import signature_in_words

DETAILS_FILE = "details.md"


def file_meaning(name: str, language: str = ENGLISH) -> str:
    """Say what a file of a release is: one of `file_meanings`."""
    return next(meaning for part, meaning in phrases(language).files.items() if part in name)


def file_meanings(language: str = ENGLISH) -> tuple[str, ...]:
    """Return what files of a release can be, data first."""
    return tuple(dict.fromkeys(phrases(language).files.values()))


def release_readme(
    plan: ReleasePlan,
    certificate: Certificate,
    about: ReleaseDescription,
    *,
    signed: bool,
    accuracy: ExpectedAccuracy | None = None,
) -> dict[str, str]:
    """Return README.md of a release, and the page with all details, by name."""
    geography, pools, names = plan.geography, plan.pools, file_names(plan.config)
    language = plan.config.release.language
    named = any(NAME_FILE in table.files for table in about.tables)
    shapes = plan.config.geography.polygon_levels
    levels = (*geography.levels, geography.block_level)
    other_files = {
        CORRECTION_FILE: bool(about.corrections),
        **dict.fromkeys(interval_files(plan), True),
        BLOCK_CSV: plan.config.release.csv,
        NAME_CSV: plan.config.release.csv and named,
        NAME_FILE: named,
        ACCURACY_FILE: accuracy is not None,
        ATTACKERS_FILE: True,
    }
    context: dict[str, Any] = dict(
        **promised(certificate, language),
        plan=plan,
        about=about,
        names=names,
        named=named,
        whose_jobs=whose_jobs(plan.geography, language),
        implicates=plan.implicates,
        meaning=partial(file_meaning, language=language),
        polygons=[polygon_file(level) for level in shapes],
        polygon_file=polygon_file,
        other_files=[name for name, present in other_files.items() if present],
        verifier=VERIFIER,
        record_files=record_files(plan.config.release),
        signature=signature_in_words(signed=signed, language=language),
        block_level=geography.block_level,
        level=shapes[-1] if shapes else (geography.levels or (geography.block_level,))[0],
        columns_alike=_alike(about.tables),
        name_file=NAME_FILE,
        intervals_file=INTERVALS_FILE,
        areas_file=AREAS_FILE,
        flows_file=FLOWS_FILE,
        flow_table=interval_tables(plan)[0].name,
        unit_level=plan.level,
        # Shapes of finer areas are put together; from coarser ones no map of the units can be made.
        shape_level=next((level for level in levels[levels.index(plan.level) :] if level in shapes), None),
        draws=N_DRAWS if carries_draws(plan) else 0,
        untold=untold_attributes(plan),
        other_levels=bool(geography.levels),
        first_files=[
            f"{plan.implicates.folders[0]}{names[kind]}"
            for kind in ("od_parquet", "aux_parquet")
            if kind in names
        ],
        csv=plan.config.release.csv,
        pooling=pools.pooling,
        pools=pools.n.size,
        shared=int(pools.shared.sum()),
        # By which homes are measured, or resampled, in no pool or table of their own.
        other_attributes=set(pools.slots.categories) > set(plan.attributes_of_homes),
        accuracy=accuracy,
        read=read_in_words(certificate.policy, language),
        details_file=DETAILS_FILE,
        correction_file=CORRECTION_FILE,
        corrections=[
            (one.date[:10], [phrases(language).corrected(part) for part in one.changed], one.reason)
            for one in about.corrections
        ],
    )
    return {name: render(f"{name}.j2", language, **context) for name in ("README.md", DETAILS_FILE)}


def describe_plan(plan: ReleasePlan, certificate: Certificate, *, named: bool) -> ReleaseDescription:
    """Return the description of a release in its language; `named`: it has names of units."""
    return describe_release(
        certificate,
        plan.config,
        plan.pools.slots.categories,
        plan.geography,
        named=named,
        drawn=carries_draws(plan),
        pooled_by=plan.pools.pooling.by,
        workplaces=[table.to_json() for table in plan.choices.workplaces],
        homes=[table.to_json() for table in plan.choices.tables] if plan.measures else None,
        language=plan.config.release.language,
    )


def _alike(tables: Iterable[Table]) -> dict[tuple[Column, ...], dict[str, list[str]]]:
    """Return, by columns, the files of tables that have them, by what a row is."""
    alike: dict[tuple[Column, ...], dict[str, list[str]]] = {}
    for table in tables:
        alike.setdefault(table.columns, {}).setdefault(table.meaning, []).extend(table.files)
    return alike
