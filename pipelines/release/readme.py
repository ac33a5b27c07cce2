"""The read-me of a release, and its page of details: what their templates are filled with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.plan import ReleasePlan
from pipelines.release.accuracy import ACCURACY_FILE, read_in_words
from pipelines.release.attackers import ATTACKERS_FILE
from pipelines.release.certificate import Certificate
from pipelines.release.description import (
    MEASUREMENT_FOLDER,
    VERIFIER,
    Column,
    ReleaseDescription,
    Table,
    describe_release,
    file_names,
    whose_jobs,
)
from pipelines.release.names import NAME_FILE
from pipelines.release.pages import render
from pipelines.release.polygons import POLYGON_FOLDER, polygon_file
from pipelines.release.promises import promised
from pipelines.release.records import RECORDS, record_files
from pipelines.release.signing import SIGNED, UNSIGNED

DETAILS_FILE = "details.md"
# Of files by what is in their names, the first that fits.
_FILES = {
    "_od_main_": "jobs counted by work block and home block, in the layout of LODES",
    "_od_aux_": "those of workers who live in external zones, whose codes end in 9s",
    "_jobs_main_": "one row a synthetic worker, with the attributes of the job",
    f"{MEASUREMENT_FOLDER}/": "the noisy counts that synthetic workers were estimated from",
    ACCURACY_FILE: "how far numbers are expected to be from the truth",
    ATTACKERS_FILE: "what somebody could learn about a person, by what they know already",
    NAME_FILE: "names of public units, for maps",
    f"{POLYGON_FOLDER}/": "shapes of public units, for maps",
    VERIFIER: "a program of one file that checks the release without odsynth, with Python and pyarrow",
    "README.md": "what the release is, how far to trust it, and how to use it",
    DETAILS_FILE: "what every file and column is, and how far numbers of each size are off",
    **dict.fromkeys(RECORDS, "what is in the release, for machines: files, columns, licence, citation"),
    "certificate.json.sig": "a signature of the certificate",
    "certificate.json": "the privacy certificate",
    "certificate.schema.json": "the fields of the certificate, described",
    "plan/": "the public plan from which the certificate can be computed again",
    "MANIFEST.json": "sizes and checksums, with what the release is",
    "SHA256SUMS.sig": "a signature of the checksums",
    "SHA256SUMS": "checksums of all files",
    "signing-key.pub": "the public key that signatures are checked with",
}

FILE_MEANINGS = tuple(dict.fromkeys((*_FILES.values(), "another file")))
"""What files of a release can be, data first."""


def file_meaning(name: str) -> str:
    """Say what a file of a release is: one of `FILE_MEANINGS`."""
    return next((meaning for part, meaning in _FILES.items() if part in name), FILE_MEANINGS[-1])


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
    named = any(NAME_FILE in table.files for table in about.tables)
    shapes = plan.config.geography.polygon_levels
    other_files = {NAME_FILE: named, ACCURACY_FILE: accuracy is not None, ATTACKERS_FILE: True}
    context: dict[str, Any] = dict(
        **promised(certificate),
        plan=plan,
        about=about,
        names=names,
        named=named,
        whose_jobs=whose_jobs(plan.geography),
        implicates=plan.implicates,
        meaning=file_meaning,
        polygons=[polygon_file(level) for level in shapes],
        other_files=[name for name, present in other_files.items() if present],
        verifier=VERIFIER,
        record_files=record_files(plan.config.release),
        signature=SIGNED if signed else UNSIGNED,
        block_level=geography.block_level,
        other_levels=bool(geography.levels),
        level=shapes[-1] if shapes else (geography.levels or (geography.block_level,))[0],
        columns_alike=_alike(about.tables),
        first_files=[
            f"{plan.implicates.folders[0]}{names[kind]}"
            for kind in ("od_parquet", "aux_parquet")
            if kind in names
        ],
        name_file=NAME_FILE,
        pooling=pools.pooling,
        pools=pools.n.size,
        shared=int(pools.shared.sum()),
        # That homes are not told apart by.
        other_attributes=set(pools.slots.categories) > set(plan.attributes),
        accuracy=accuracy,
        read=read_in_words(certificate),
        details_file=DETAILS_FILE,
    )
    return {name: render(f"{name}.j2", **context) for name in ("README.md", DETAILS_FILE)}


def describe_plan(plan: ReleasePlan, certificate: Certificate, *, named: bool) -> ReleaseDescription:
    """Return the description of a release; `named`: it has names of units."""
    return describe_release(
        certificate,
        plan.config,
        plan.pools.slots.categories,
        plan.geography,
        named=named,
        pooled_by=plan.pools.pooling.by,
        workplaces=[table.to_json() for table in plan.choices.workplaces],
        homes=[table.to_json() for table in plan.choices.tables] if plan.measures else None,
    )


def _alike(tables: Iterable[Table]) -> dict[tuple[Column, ...], dict[str, list[str]]]:
    """Return, by columns, the files of tables that have them, by what a row is."""
    alike: dict[tuple[Column, ...], dict[str, list[str]]] = {}
    for table in tables:
        alike.setdefault(table.columns, {}).setdefault(table.meaning, []).extend(table.files)
    return alike
