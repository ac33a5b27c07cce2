"""Checking a release from its public folder alone: no confidential input, any machine."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import ValidationError

import synth
from geo_data.arguments import PathLike, path_of
from geo_data.external_zones import find_external_zones
from pipelines.config.languages import ENGLISH
from pipelines.config.loading import PublicConfig
from pipelines.drawing.estimating import JobLayout
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.form import check_tables, read_document
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_plan
from pipelines.release.accuracy import ACCURACY_FILE, check_accuracy, read_accuracy
from pipelines.release.byte_check import check_bytes, version_here
from pipelines.release.certificate import (
    SCHEMA_BEFORE,
    VERIFIER_BEFORE,
    Certificate,
    certificate_of_draw,
    certificate_text,
    guarantee_fields,
    knows_commitments,
    parse_certificate,
    randomness_fields,
    reasons_against_release,
    schema_text,
    subject_of,
)
from pipelines.release.commitment import check_timestamp, commitment_sha256, commitment_statement
from pipelines.release.corrections import CORRECTION_FILE, UNCORRECTED, read_corrections
from pipelines.release.csv_tables import NAME_CSV, check_csv_tables
from pipelines.release.data_check import check_data
from pipelines.release.description import VERIFIER, ReleaseDescription
from pipelines.release.intervals import check_intervals, interval_files
from pipelines.release.layout import (
    CORRECTED,
    MANIFEST,
    RefusedError,
    expected_files,
    manifest_text,
    not_public,
    public_files,
    texts_of,
    verifier_bytes,
    with_sizes,
    without_parts,
)
from pipelines.release.measurements import Factors, Measurements, check_measurements, measurement_files
from pipelines.release.names import NAME_FILE, check_names
from pipelines.release.pages import listed
from pipelines.release.polygons import check_polygons
from pipelines.release.readme import describe_plan
from pipelines.release.records import record_texts
from pipelines.release.signing import PUBLIC_KEY, check_signatures
from pipelines.release.witness import check_statements
from pipelines.release.workplaces import check_workplaces, drawn_plan, workplace_files
from pipelines.storage.checksums import CHECKSUMS, checksum_lines, parse_checksums, sha256_of
from pipelines.storage.documents import read_json
from pipelines.storage.durable import private_folder


@dataclass(frozen=True)
class Check:
    """A check that passed: its name, what was found, and whether all of it could be checked here."""

    name: str
    detail: str
    complete: bool = True


@dataclass(frozen=True)
class VerificationReport:
    """A release that passed every check.

    Attributes
    ----------
    folder : Path
    checks : tuple of Check
        In the order in which they were made; iterating over a report gives them too.
    """

    folder: Path
    checks: tuple[Check, ...]

    def __repr__(self) -> str:
        return f"<VerificationReport: {self.folder} passes {len(self.checks)} checks>"

    def __str__(self) -> str:
        return "\n".join(f"{check.name}: {check.detail}" for check in self.checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)


class VerificationError(synth.ShownError, ValueError):
    """A check failed.

    Attributes
    ----------
    check : str
        Name of the check.
    reason : str
        Why it failed.
    """

    def __init__(self, check: str, reason: str) -> None:
        super().__init__(f"{check}: {reason}")
        self.check, self.reason = check, reason


def verify(
    folder: PathLike,
    key: PathLike | None = None,
    *,
    witness: PathLike | None = None,
    authority: PathLike | None = None,
    ledger_head: str | None = None,
    on_check: Callable[[Check], object] | None = None,
) -> VerificationReport:
    """Check a public folder.

    Parameters
    ----------
    folder : str or path
        The public folder of a release.
    key : str or path, optional
        Public key file of the signer who is expected; a release not signed by it fails.
    witness : str or path, optional
        Public key file of the witness who is expected; a release without a statement by it fails.
    authority : str or path, optional
        Certificates (PEM) of the time-stamp authority that is expected; a release that it has not stamped
        fails.
    ledger_head : str, optional
        The debit that the release must follow on, as the certificate of the release before names its own;
        the release's own debit will do, too.
    on_check : callable, optional
        Called with each check as soon as it has passed.

    Returns
    -------
    VerificationReport
        The checks: files, signature, certificate, plan, guarantee, budget, measurements where tables were
        measured, data, accuracy where there is a forecast, corrections where there are any, texts, verifier,
        polygons, names and tables as CSV where there are any, intervals, bytes of the tables, records,
        commitment; then in a line each what is proved, witnessed, and only said; last fitness for release.

    Raises
    ------
    VerificationError
        At the first check that fails; it names the file or the field.

    Examples
    --------
    >>> import pipelines
    >>> report = pipelines.verify("out/demo/public")
    >>> report.checks[-1].name
    'for release'
    """
    folder = path_of(folder, "folder")
    paths = {"key": key, "witness": witness, "authority": authority}
    expected = {name: None if path is None else path_of(path, name) for name, path in paths.items()}
    checks = []
    for check in _PublicFolder(folder, Expected(**expected, ledger_head=ledger_head)).checks():
        checks.append(check)
        if on_check is not None:
            on_check(check)
    return VerificationReport(folder, tuple(checks))


def verify_run(folder: Path, plan: ReleasePlan, guarantee: synth.Guarantee, factors: Factors | None) -> None:
    """Check what a run has just written, by what it has read of the plan's files and computed already.

    The files of the plan must still have the hashes that the certificate goes back to; `factors` are the
    estimates that homes were drawn from, by run and table.
    """
    for _ in _PublicFolder(folder, written=Written(plan, guarantee, factors)).checks():
        pass


class Incomplete(str):
    """What a check found that could not check all here."""


class Written(NamedTuple):
    """What a run knows of the release that it has just written."""

    plan: ReleasePlan
    guarantee: synth.Guarantee
    factors: Factors | None


class Expected(NamedTuple):
    """Whom and what a reader knows from elsewhere, which a release must be by, or follow on."""

    key: Path | None = None
    witness: Path | None = None
    authority: Path | None = None
    ledger_head: str | None = None


class _PublicFolder:
    """A public folder, its checks in order, and what they have read, which later ones need.

    A check returns what it found, or None where there is nothing to check.
    """

    hashes: dict[str, str]
    certificate: Certificate
    planned: ReleasePlan
    plan: ReleasePlan  # by which it was drawn: with the slots that were estimated, where workplaces were
    guarantee: synth.Guarantee
    measured: Measurements | None = None
    accuracy: ExpectedAccuracy | None = None
    corrections = UNCORRECTED
    about: ReleaseDescription
    repeated = False  # by a witness

    def __init__(
        self, folder: Path, expected: Expected | None = None, written: Written | None = None
    ) -> None:
        self.folder, self.expected, self.written = folder, expected or Expected(), written
        self.other_writers: list[str] = []  # files of noisy counts that another pyarrow wrote

    def checks(self) -> Iterator[Check]:
        """Make every check; whatever goes wrong inside one is a failure of it, never a pass."""
        with private_folder(Path(gettempdir()), sweep=False) as self.scratch:
            for name, check in _CHECKS.items():
                try:
                    detail = check(self)
                except synth.ShownError as error:
                    raise VerificationError(name, str(error)) from error
                except Exception as error:
                    raise VerificationError(name, f"cannot be checked: {error}") from error
                if detail is not None:
                    yield Check(name, detail, complete=not isinstance(detail, Incomplete))

    def files(self) -> str:
        """Compare the SHA-256 of every file with what is sealed."""
        if not self.folder.is_dir():
            raise RefusedError(f"{self.folder} is not a folder")
        self.hashes = _check_files(self.folder)
        return f"{len(self.hashes)} files as in {CHECKSUMS} and {MANIFEST}"

    def signature(self) -> str:
        """Check the signatures by the key that is expected, or by the release's own."""
        return check_signatures(self.folder, self.expected.key)

    def form(self) -> str:
        """Read the certificate, which must be as this program writes one."""
        self.certificate = _read_certificate(self.folder)
        return f"{self.certificate.format}, all fields present"

    def plan_of_certificate(self) -> str:
        """Load the plan that the certificate names, and compare the two."""
        plan = _load_plan(self.folder, self.certificate, self.hashes, self.written and self.written.plan)
        self.planned, self.plan = plan, drawn_plan(self.folder, plan)
        return f"sha256 {self.certificate.plan_sha256}; {self.plan.numeric!r}"

    def promised(self) -> str:
        """Compute the guarantee again, and compare it with the certificate."""
        self.guarantee = self.written.guarantee if self.written else self.planned.certify()
        return _check_guarantee(self.planned, self.plan, self.guarantee, self.certificate)

    def budget(self) -> str:
        """Compare what the plan costs with what was requested."""
        if not self.planned.met_by(self.guarantee):
            raise RefusedError("the plan costs more than was requested")
        epsilon, delta = (synth.decimal_up(x) for x in self.plan.requested)
        return (
            f"within the requested epsilon {epsilon} and delta {delta} ({self.plan.numeric.target.guarantee})"
        )

    def measurements(self) -> str | None:
        """Check noisy counts, where there are some, against the noise of the plan."""
        words, slots = "", self.plan.pools.slots
        if not self.plan.measures:
            if self.planned.workplaces:
                words, self.other_writers = check_workplaces(self.folder, self.planned, slots)
            return words or None
        layout = JobLayout(self.plan)
        noisy, self.other_writers = check_measurements(self.folder, self.plan, layout)
        if self.planned.workplaces:
            words, others = check_workplaces(self.folder, self.planned, slots, noisy[0])
            self.other_writers += others
        factors = self.written.factors if self.written else None
        self.measured = Measurements(self.plan, layout, noisy, factors, self.scratch)
        return "; ".join(filter(None, (words, self.measured.words)))

    def data(self) -> str:
        """Compare the data with the plan, and with the noisy counts that homes were estimated from."""
        day = self.certificate.created[:10].replace("-", "")
        return check_data(self.folder, self.plan, day, self.measured)

    def forecast(self) -> str | None:
        """Check the form of the accuracy sheet, where there is one."""
        self.accuracy = read_accuracy(self.folder, self.certificate.plan_sha256)
        return None if self.accuracy is None else check_accuracy(self.accuracy, self.planned)

    def corrected(self) -> str | None:
        """Read the corrections, where there are some: of titles, licences and labels, and of nothing else."""
        if CORRECTION_FILE not in self.hashes:
            return None
        self.corrections = read_corrections(self.folder, self.plan.config)
        made = self.corrections.made
        return f"{len(made)} of what it says of itself, the last of {made[-1].date}"

    def texts(self) -> str:
        """Compare the list of files, and what is said in words, with what the certificate gives."""
        corrections, present = self.corrections, self.hashes.keys()
        plan, certificate = corrections.plan(self.plan), corrections.certificate(self.certificate)
        expected = {*expected_files(plan.config), *itertools.chain(*measurement_files(plan))}
        expected |= {*workplace_files(plan), *interval_files(plan)}
        expected |= {ACCURACY_FILE} if self.accuracy else set()
        expected |= {CORRECTION_FILE} if corrections.made else set()
        expected |= {NAME_CSV} if plan.config.release.csv and NAME_FILE in present else set()
        if more := sorted({*without_parts(present - {MANIFEST, NAME_FILE, PUBLIC_KEY})} ^ expected):
            raise RefusedError(
                f"files are missing, or do not belong to a release of this kind: {', '.join(more)}"
            )
        if not _manifest_is_original(self.folder, self.hashes):
            raise RefusedError(f"{MANIFEST} does not describe this release")
        others = {CORRECTION_FILE: corrections.made, ACCURACY_FILE: self.accuracy}
        sources = listed(["the plan", "certificate.json", *filter(others.get, others)], ENGLISH)
        about = describe_plan(plan, certificate, named=NAME_FILE in present)
        self.about = corrections.description(about)
        texts = texts_of(plan, certificate, self.about, signed=PUBLIC_KEY in present, accuracy=self.accuracy)
        for name, text in texts.items():
            if (self.folder / name).read_bytes() != text.encode():
                raise RefusedError(f"{name} is not the text that {sources} give")
        return f"{', '.join([*texts, MANIFEST])} follow from {sources}"

    def verifier(self) -> str:
        """Check that the program in the release is the project's: somebody might run another."""
        due = hashlib.sha256(verifier_bytes()).hexdigest()
        if not knows_commitments(self.certificate):
            due = VERIFIER_BEFORE
        if self.hashes[VERIFIER] != due:
            version = self.certificate.software.version
            raise RefusedError(
                f"{self.folder / VERIFIER} is not the program that this version puts into releases: it was "
                f"changed, or another version wrote it. Fix: do not run it; verify with version {version}, "
                "which the release says made it"
            )
        if due == VERIFIER_BEFORE:
            return f"{VERIFIER} is that of the last version without commitments"
        return f"{VERIFIER} is that of this version"

    def polygons(self) -> str | None:
        """Check shapes for maps, where there are some."""
        levels = self.plan.config.geography.polygon_levels
        return check_polygons(self.folder, self.plan.geography, levels) if levels else None

    def names(self) -> str | None:
        """Check names for maps, where there are some."""
        return check_names(self.folder, self.plan.geography) if NAME_FILE in self.hashes else None

    def csv_tables(self) -> str | None:
        """Compare tables that are there as CSV with those in Parquet."""
        return check_csv_tables(self.folder) if self.plan.config.release.csv else None

    def intervals(self) -> str | None:
        """Check draws of tables, where there are some, and the intervals that follow from them."""
        return check_intervals(self.plan, self.folder) if interval_files(self.plan) else None

    def encoding(self) -> str:
        """Compare the bytes of tables with what this program writes of their rows."""
        others = check_bytes(
            self.folder, self.planned, self.certificate, self.hashes, just_written=self.written is not None
        )
        if others := [*self.other_writers, *others]:
            return Incomplete(
                f"NOT COMPARED in {len(others)} file(s), which other versions of libraries wrote than those "
                f"here ({', '.join(f'{name} {version_here(name)}' for name in ('pyarrow', 'zlib'))}); their "
                f"rows were checked, not whether something is hidden beside them: {', '.join(others)}"
            )
        return "every table is, byte for byte, what this program writes of its rows in such batches"

    def records(self) -> str:
        """Compare what is said to machines with what the plan, the certificate and the files give."""
        records = record_texts(self.about, with_sizes(self.folder, self.hashes))
        for name, text in records.items():
            if (self.folder / name).read_bytes() != text.encode():
                raise RefusedError(f"{name} is not what the plan, the certificate and the files give")
        return f"{', '.join(records)} follow from the plan, the certificate and the files"

    def commitment(self) -> str:
        """Check the time-stamp of what the run committed to, and that it follows on the debit expected."""
        made, (_, _, authority, head) = self.certificate.commitment, self.expected
        if head is not None and (made is None or made.debit is None):
            raise RefusedError(
                f"its certificate names no debit, so nothing shows whether it follows on {head}. Fix: verify "
                "without --ledger-head"
            )
        if head is not None and made is not None and head not in (made.previous, made.debit):
            raise RefusedError(
                f"the release does not follow on the debit {head}: its ledger was an older copy or another "
                "one, or a debit between the two was not published. Fix: ask its publisher; odsynth ledger "
                "audit compares all releases"
            )
        if made is None:
            if authority is not None:
                raise RefusedError("the run committed to nothing that an authority could have stamped")
            return "none: the certificate carries no commitment"
        if (made.draw is None) != (made.debit is None) or (made.previous and not made.debit):
            raise RefusedError(
                "certificate.json: a debit has a draw of its plan, and without one nothing has"
            )
        created = self.certificate.created
        words = f"sha256 {commitment_sha256(self.certificate)}, of {created} by the certificate"
        if made.draw is not None:
            words += f", for draw {made.draw} of this plan by its ledger"
        if made.timestamp is None:
            if authority is not None:
                raise RefusedError("no authority has stamped it. Fix: verify without --authority")
            return f"{words}; without a time-stamp"
        time = check_timestamp(made.timestamp, commitment_statement(self.certificate), authority)
        by = f"by {authority.name}" if authority else "by whom, was not checked (give --authority)"
        return f"{words}; stamped at {time}, {by}"

    def proved(self) -> str:
        """Say what follows from the public folder alone."""
        run = self.certificate.run
        return (
            f"that a draw by this plan costs at most epsilon {run.epsilon}, delta {run.delta}, and that the "
            "data have the jobs that plan and measurements state"
        )

    def witnessed(self) -> str:
        """Check the statements of witnesses, and say what they answer for."""
        if self.written is not None:
            return "nothing yet"
        changed = CORRECTED if self.corrections.made else frozenset[str]()
        who = check_statements(
            self.folder, self.certificate, self.hashes, changed=changed, pinned=self.expected.witness
        )
        if who is None:
            return "nothing: no witness has repeated the run"
        self.repeated = True
        same = "with the same files"
        if changed:
            same += f", but for words and names in {CORRECTION_FILE}, and files that repeat them"
        return f"that the run was repeated from what it committed to, {same}: by {who}"

    def said(self) -> str:
        """Say what nothing in the public folder shows."""
        drawn = (
            "that the run key was random and chosen once"
            if self.repeated
            else "that the data were drawn by this plan, once, with fresh randomness"
        )
        by = "by the signer" if PUBLIC_KEY in self.hashes else "nobody has signed it"
        return f"{drawn}, and that the input was true: {by}"

    def fitness(self) -> str:
        """Refuse what the certificate does not release."""
        if not self.certificate.for_release:
            raise RefusedError("no: " + "; ".join(self.certificate.not_for_release_because))
        return "yes"


_CHECKS: dict[str, Callable[[_PublicFolder], str | None]] = {
    "files": _PublicFolder.files,
    "signature": _PublicFolder.signature,
    "certificate": _PublicFolder.form,
    "plan": _PublicFolder.plan_of_certificate,
    "guarantee": _PublicFolder.promised,
    "budget": _PublicFolder.budget,
    "measurements": _PublicFolder.measurements,
    "data": _PublicFolder.data,
    "accuracy": _PublicFolder.forecast,
    "corrections": _PublicFolder.corrected,
    "texts": _PublicFolder.texts,
    "verifier": _PublicFolder.verifier,
    "polygons": _PublicFolder.polygons,
    "names": _PublicFolder.names,
    "CSV": _PublicFolder.csv_tables,
    "intervals": _PublicFolder.intervals,
    "bytes": _PublicFolder.encoding,
    "records": _PublicFolder.records,
    "commitment": _PublicFolder.commitment,
    "proved": _PublicFolder.proved,
    "witnessed": _PublicFolder.witnessed,
    "said": _PublicFolder.said,
    "for release": _PublicFolder.fitness,
}
"""The checks of `verify`, in order."""


def _check_files(folder: Path) -> dict[str, str]:
    """Compute the SHA-256 of every file once, compare them with what is sealed, and return them."""
    missing = [name for name in (CHECKSUMS, MANIFEST) if not (folder / name).is_file()]
    if missing == [CHECKSUMS, MANIFEST]:
        raise RefusedError(not_public(folder, CHECKSUMS))
    if missing:
        raise RefusedError(f"{missing[0]} is missing")
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():  # its target may change, or stay behind when the folder is copied
            raise RefusedError(f"{path.relative_to(folder).as_posix()} is a link, not a file")
    present = public_files(folder)
    actual = {name: sha256_of(folder / name) for name in (*present, MANIFEST)}
    stated = (folder / CHECKSUMS).read_bytes()
    if stated == "".join(checksum_lines(actual)).encode():
        for path in folder.rglob("*"):
            if not path.is_file() and not (path.is_dir() and any(path.iterdir())):
                name = path.relative_to(folder).as_posix()
                raise RefusedError(f"{name} is neither a file nor a folder that holds one")
        return actual
    raise RefusedError(_blame(folder, actual, stated))


def _blame(folder: Path, actual: dict[str, str], stated: bytes) -> str:
    """Say which file differs from what was sealed: the one that its two records do not agree with."""
    sums = parse_checksums(stated, strict=False)
    try:
        entries = read_json(folder / MANIFEST)["files"]
        manifest = {entry["path"]: entry["sha256"] for entry in entries}
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} has been changed"
    manifest_intact = sums.get(MANIFEST) == actual[MANIFEST]
    if not manifest_intact and all(
        sums.get(name) == value for name, value in actual.items() if name != MANIFEST
    ):
        # Its sum does not agree with it; which of the two is as it was written?
        return f"{CHECKSUMS if _manifest_is_original(folder, actual) else MANIFEST} has been changed"
    for name in sorted(manifest.keys() | actual.keys() - {MANIFEST}):
        if name not in actual:
            return f"{name} is missing"
        if name not in manifest:
            return f"{name} does not belong to the release"
        if actual[name] not in (sums.get(name), manifest[name]):
            return f"{name} has been changed"
    return f"{CHECKSUMS} has been changed"


def _manifest_is_original(folder: Path, hashes: dict[str, str]) -> bool:
    listed = {name: digest for name, digest in hashes.items() if name != MANIFEST}
    try:
        certificate = parse_certificate((folder / "certificate.json").read_bytes())
        return (folder / MANIFEST).read_bytes() == manifest_text(folder, certificate, listed).encode()
    except (OSError, ValueError):
        return False


def _read_certificate(folder: Path) -> Certificate:
    content = (folder / "certificate.json").read_bytes()
    try:
        certificate = parse_certificate(content)
    except ValidationError as error:
        fields = ", ".join(sorted({".".join(map(str, e["loc"])) for e in error.errors()}))
        raise RefusedError(f"certificate.json is not of the published form: {fields}") from error
    except ValueError as error:
        raise RefusedError(str(error)) from error
    dependencies = [*certificate.software.dependencies]
    if content != certificate_text(certificate).encode() or dependencies != sorted(dependencies):
        raise RefusedError("certificate.json repeats a key, or is not written as this program writes it")
    due = hashlib.sha256(schema_text().encode()).hexdigest()
    if not knows_commitments(certificate):
        due = SCHEMA_BEFORE
    if sha256_of(folder / "certificate.schema.json") != due:
        raise RefusedError(f"certificate.schema.json is not the schema of {certificate.format}")
    return certificate


def _load_plan(
    folder: Path,
    certificate: Certificate,
    hashes: dict[str, str],
    written: ReleasePlan | None,
) -> ReleasePlan:
    plan_hashes = {
        name.removeprefix("plan/"): digest for name, digest in hashes.items() if name.startswith("plan/")
    }
    if plan_hashes.get("plan.json") != certificate.plan_sha256:
        raise RefusedError("plan/plan.json is not the plan that certificate.json names")
    if written is None:
        plan = load_plan(folder / "plan", hashes=plan_hashes)
    else:  # it was read from files of these hashes
        check_tables(folder / "plan", read_document(folder / "plan"), plan_hashes)
        plan = written
    if not plan.says_whose_jobs:
        raise RefusedError(
            "plan.json: without external zones, and only then, a release is of jobs of residents and says so",
        )
    if others := contradictions(plan.config, plan):
        raise RefusedError(f"plan.json: {', '.join(others)}: not what its configuration asks for")
    return plan


def contradictions(config: PublicConfig, plan: ReleasePlan) -> list[str]:
    """Name what a plan says otherwise than its configuration; what that leaves open, the planner chose."""
    privacy, settings, geography = config.privacy, config.plan, plan.geography
    pooling, thresholds, cells = plan.pools.pooling, plan.choices.thresholds, plan.choices.cell_level
    asked_level = cells if settings.coarsening is None and settings.split_threshold is None else None
    if settings.coarsening == "units":
        asked_level = settings.cell_level or plan.level
    asked_thresholds = (
        () if cells else (float(settings.split_threshold),) if settings.split_threshold else thresholds
    )
    mechanism = plan.numeric.mechanism
    all_jobs = (None, None, tuple(plan.pools.slots.categories)) if config.measures_workplaces else None
    of_work = [(table.work, table.home, table.by) for table in plan.choices.workplaces]
    zones = config.geography.external_zones
    if zones:  # the blocks of a nation are many, and say nothing where no zone is asked for
        inside = pd.Series(np.delete(geography.blocks, geography.external_blocks), dtype="str")
        zones = find_external_zones(zones, inside)
    pairs = {
        "mechanism": (mechanism, mechanism if mechanism in config.mechanisms else None),
        "epsilon and delta": (plan.requested, (privacy.epsilon, privacy.delta)),
        "guarantee": (plan.numeric.target.guarantee, privacy.guarantee),
        "block": (geography.block_level, config.geography.block),
        "levels": (tuple(geography.levels), config.geography.levels),
        "external zones": (geography.external_homes, zones),
        "pooling by": (pooling.by, pooling.by if settings.pool_by is None else settings.pool_by),
        "pooling level": (pooling.level, settings.pool_level or pooling.level),
        "pooling below": (pooling.below, settings.pool_below or pooling.below),
        "level of cells": (cells, asked_level),
        "thresholds": (thresholds, asked_thresholds),
        "tables of workplaces": (next(iter(of_work), None), all_jobs),
        "pooling by secret attributes": (
            not plan.measures and bool({*pooling.by} & {*plan.policy.secret}),
            False,
        ),
        "tiers": (
            not config.tiers or (config.tier is not None and len({*config.tiers.values()}) > 1),
            True,
        ),
        "most pools": (getattr(plan.numeric.parameters, "most_pools", None), plan.most_pools),
    }
    return [name for name, (planned, configured) in pairs.items() if planned != configured]


def _check_guarantee(
    plan: ReleasePlan, drawn: ReleasePlan, guarantee: synth.Guarantee, certificate: Certificate
) -> str:
    """Compare every field of a certificate with what is due, but those of the software and the time."""
    stated = certificate.model_dump(mode="json")
    reasons = reasons_against_release(certificate.software, certificate.randomness)
    due = {
        "release": subject_of(plan),
        "mechanism": plan.numeric.mechanism,
        **guarantee_fields(plan, guarantee),
        "randomness": randomness_fields(certificate.randomness.secure),
        "for_release": not reasons,
        "not_for_release_because": reasons,
    }
    expected = certificate_of_draw(certificate.model_copy(update=due), drawn).model_dump(mode="json")
    for name, value in expected.items():
        if stated[name] != value:
            raise RefusedError(
                f"certificate.json: {name} is not what the plan and its other fields give: it was changed, "
                f"or another version wrote it. Fix: use version {certificate.software.version}, which it "
                "says made it"
            )
    if json.dumps(stated) != json.dumps(expected):
        raise RefusedError("certificate.json: numbers of classes are in another order")
    run = certificate.run
    return f"recomputed from the plan: epsilon {run.epsilon}, delta {run.delta}"
