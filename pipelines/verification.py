"""Checking a release from its public folder alone: no confidential input, any machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pydantic import ValidationError

import geo_data
from pipelines.certificate import Certificate, certificate_schema, guarantee_fields
from pipelines.plan_files import load_plan, plan_hash, sha256_of
from pipelines.planning import ReleasePlan
from pipelines.release_files import CHECKSUMS, MANIFEST, checksum_lines, file_names, public_files

__all__ = ["Check", "VerificationError", "verify"]

T = TypeVar("T")


@dataclass(frozen=True)
class Check:
    """A check that passed: its name, and what was found."""

    name: str
    detail: str


class VerificationError(ValueError):
    """A check failed.

    Attributes
    ----------
    check : str
        Name of the check.
    """

    def __init__(self, check: str, reason: str) -> None:
        super().__init__(f"{check}: {reason}")
        self.check = check


def verify(folder: Path) -> Iterator[Check]:
    """Check a public folder; gives one `Check` after another and stops at the first that fails.

    Parameters
    ----------
    folder : Path
        The public folder of a release.

    Yields
    ------
    Check
        files, certificate form, plan, guarantee, budget, data, and last fitness for release.

    Raises
    ------
    VerificationError
        At the first check that fails; it names the file or the field.
    """
    if not folder.is_dir():
        raise VerificationError("files", f"{folder} is not a folder")
    yield Check("files", _run("files", lambda: _check_files(folder)))
    certificate = _run("certificate", lambda: _read_certificate(folder))
    yield Check("certificate", f"{certificate.format}, all fields present")
    release = _run("plan", lambda: _load_plan(folder, certificate))
    yield Check("plan", f"sha256 {certificate.plan_sha256}; {release.plan!r}")
    yield Check("guarantee", _run("guarantee", lambda: _check_guarantee(release, certificate)))
    yield Check("budget", _run("budget", lambda: _check_budget(release, certificate)))
    yield Check("data", _run("data", lambda: _check_data(folder, release)))
    if not certificate.for_release or certificate.not_for_release_because:
        raise VerificationError("for release", "no: " + "; ".join(certificate.not_for_release_because))
    yield Check("for release", "yes")


def _run(name: str, check: Callable[[], T]) -> T:
    """Whatever goes wrong inside a check is a failure of that check, never a pass."""
    try:
        return check()
    except VerificationError:
        raise
    except Exception as error:
        raise VerificationError(name, f"cannot be checked: {error}") from error


def _fail(check: str, reason: str) -> VerificationError:
    return VerificationError(check, reason)


def _check_files(folder: Path) -> str:
    for name in (CHECKSUMS, MANIFEST):
        if not (folder / name).is_file():
            raise _fail("files", f"{name} is missing")
    present = public_files(folder)
    actual = {name: sha256_of(folder / name) for name in (*present, MANIFEST)}
    stated = (folder / CHECKSUMS).read_bytes()
    if stated == "".join(checksum_lines(actual)).encode():
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        listed = {entry["path"]: entry["sha256"] for entry in manifest["files"]}
        if listed != {name: actual[name] for name in present}:
            raise _fail("files", f"{MANIFEST} and {CHECKSUMS} disagree")
        return f"{len(actual)} files as in {CHECKSUMS} and {MANIFEST}"
    raise _fail("files", _blame(folder, actual, stated))


def _blame(folder: Path, actual: dict[str, str], stated: bytes) -> str:
    """Say which file differs from what was sealed: the one that its two records do not agree with."""
    lines = [line.split(b"  ", 1) for line in stated.splitlines()]
    sums = {
        parts[1].decode("utf-8", "replace"): parts[0].decode("utf-8", "replace")
        for parts in lines
        if len(parts) == 2
    }
    try:
        entries = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        manifest = {entry["path"]: entry["sha256"] for entry in entries}
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} has been changed"
    manifest_intact = sums.get(MANIFEST) == actual[MANIFEST]
    if not manifest_intact and all(
        sums.get(name) == value for name, value in actual.items() if name != MANIFEST
    ):
        return f"{MANIFEST} has been changed"
    for name in sorted(manifest.keys() | actual.keys() - {MANIFEST}):
        if name not in actual:
            return f"{name} is missing"
        if name not in manifest:
            return f"{name} does not belong to the release"
        if actual[name] not in (sums.get(name), manifest[name]):
            return f"{name} has been changed"
    return f"{CHECKSUMS} has been changed"


def _read_certificate(folder: Path) -> Certificate:
    text = (folder / "certificate.json").read_text(encoding="utf-8")
    try:
        certificate = Certificate.model_validate_json(text)
    except ValidationError as error:
        fields = ", ".join(sorted({".".join(map(str, e["loc"])) for e in error.errors()}))
        raise _fail("certificate", f"certificate.json is not of the published form: {fields}") from None
    schema = json.loads((folder / "certificate.schema.json").read_text(encoding="utf-8"))
    if schema != certificate_schema():
        raise _fail("certificate", "certificate.schema.json is not the schema of this version")
    return certificate


def _load_plan(folder: Path, certificate: Certificate) -> ReleasePlan:
    if plan_hash(folder / "plan") != certificate.plan_sha256:
        raise _fail("plan", "plan/plan.json is not the plan that certificate.json names")
    release = load_plan(folder / "plan")
    if release.plan.mechanism != certificate.mechanism:
        raise _fail("plan", "the plan and the certificate name different mechanisms")
    subject = release.configuration["release"]
    if any(subject[name] != value for name, value in certificate.release.model_dump().items()):
        raise _fail("plan", "the plan and the certificate are of different releases")
    return release


def _check_guarantee(release: ReleasePlan, certificate: Certificate) -> str:
    computed = guarantee_fields(release, release.mechanism.certify(release.plan))
    for name, value in computed.items():
        if getattr(certificate, name) != value:
            raise _fail("guarantee", f"certificate.json: {name} is not what the plan gives")
    run = certificate.run
    return f"recomputed from the plan: epsilon {run.epsilon}, delta {run.delta}"


def _check_budget(release: ReleasePlan, certificate: Certificate) -> str:
    synth_run = release.mechanism.certify(release.plan)
    if synth_run.epsilon > release.plan.epsilon or synth_run.delta > release.plan.delta:
        raise _fail("budget", "the plan costs more than was requested")
    requested = certificate.requested
    return f"within the requested epsilon {requested.epsilon} and delta {requested.delta}"


def _check_data(folder: Path, release: ReleasePlan) -> str:
    """Compare the OD files with the plan: totals of every work block by every attribute, and each other."""
    names = file_names(release.configuration)
    slots, geography = release.pools.slots, release.geography
    table = pq.read_table(folder / names["od_parquet"]).to_pandas()
    again = pd.read_csv(
        folder / names["od_csv"], dtype={"w_geocode": str, "h_geocode": str, "createdate": str}
    )
    if list(again.columns) != list(table.columns) or not again.astype(object).equals(table.astype(object)):
        raise _fail("data", f"{names['od_csv']} and {names['od_parquet']} hold different rows")
    work = geography.number(table["w_geocode"])
    home = geography.number(table["h_geocode"])
    if work.min() < 0 or home.min() < 0:
        raise _fail("data", f"{names['od_csv']} has blocks that are not in the geography")
    expected = geo_data.od_table(geography, slots.work, slots.work, slots.attributes, slots.categories)
    counts = [name for name in table.columns if name not in ("w_geocode", "h_geocode", "createdate")]
    found = table.groupby("w_geocode", sort=False)[counts].sum()
    public = expected.set_index("w_geocode")[counts]
    if not found.sort_index().equals(public.sort_index().astype(found.dtypes)):
        raise _fail("data", f"{names['od_csv']}: totals by work block are not those of the plan's slots")
    if np.any(table[counts] < 0) or np.any(table["S000"] < 1):
        raise _fail("data", f"{names['od_csv']} has counts that no jobs can have")
    return (
        f"{len(table):,} pairs; the totals of {len(public):,} work blocks by {len(counts)} counts "
        "are the public ones"
    )
