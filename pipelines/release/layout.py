"""The public folder of a release: OD files, read-me, manifest, checksums."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import pyarrow.parquet as pq

from pipelines.config.loading import PublicConfig
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.form import plan_tables
from pipelines.plans.plan import ReleasePlan
from pipelines.release.accuracy import read_accuracy
from pipelines.release.attackers import ATTACKERS_FILE, attackers_of, describe_attackers
from pipelines.release.certificate import Certificate, Subject, certificate_text, schema_text
from pipelines.release.corrections import (
    CORRECTION_FILE,
    UNCORRECTED,
    Corrections,
    corrections_text,
)
from pipelines.release.csv_tables import BLOCK_CSV, NAME_CSV, write_csv_tables
from pipelines.release.description import VERIFIER, ReleaseDescription, file_names
from pipelines.release.intervals import AREAS_FILE, FLOWS_FILE, interval_texts
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import polygon_file
from pipelines.release.readme import DETAILS_FILE, describe_plan, release_readme
from pipelines.release.records import RECORDS, record_files, record_texts
from pipelines.release.signing import UNSEALED, is_signed
from pipelines.storage.checksums import CHECKSUMS, checksum_lines, sha256_of
from pipelines.storage.parquet_form import read_rows
from synth.errors import ShownError

MANIFEST = "MANIFEST.json"
_PART_NAME = "part-{:06}.parquet"
_MANIFEST_FORMAT = "odsynth manifest 1.0"


WORDS = frozenset({"README.md", DETAILS_FILE, ATTACKERS_FILE, *RECORDS, CORRECTION_FILE, MANIFEST})
CORRECTED = WORDS | {NAME_FILE, NAME_CSV, AREAS_FILE, FLOWS_FILE}
"""The files that a correction may make anew: of words, and of names of areas."""


class RefusedError(ShownError, ValueError):
    """A check of a release fails; the message quotes no row."""


@dataclass(frozen=True)
class Piece:
    """A part of an OD file, as Parquet and as CSV, which is written only if it is wanted."""

    csv: Path
    parquet: Path

    @classmethod
    def of(cls, folder: Path, stem: str) -> Piece:
        """Return the piece in a folder."""
        return cls(folder / f"{stem}.csv.gz", folder / f"{stem}.parquet")


@dataclass(frozen=True)
class Part:
    """What one batch wrote: its part of the OD files, and of the jobs if asked for."""

    od: Piece
    aux: Piece | None  # If the geography has external zones: the rows of workers who live in them
    jobs: Path | None  # One row a job with its attributes

    @classmethod
    def of(cls, folder: Path, *, aux: bool, jobs: bool) -> Part:
        """Return the part in a folder."""
        return cls(
            Piece.of(folder, "od"),
            Piece.of(folder, "aux") if aux else None,
            folder / "jobs.parquet" if jobs else None,
        )


def write_public(
    plan: ReleasePlan,
    certificate: Certificate,
    parts: Sequence[Sequence[Part]],
    folder: Path,
) -> None:
    """Join the parts, and write the certificate and the program that checks it."""
    names = file_names(plan.config)
    for below, of_implicate in zip(plan.implicates.folders, parts, strict=True):
        (folder / below).mkdir(exist_ok=True)
        _join(of_implicate, names, folder / below)
    (folder / "certificate.json").write_text(certificate_text(certificate), encoding="utf-8")
    (folder / "certificate.schema.json").write_text(schema_text(), encoding="utf-8")
    (folder / VERIFIER).write_bytes(verifier_bytes())


def describe_and_seal(
    plan: ReleasePlan,
    certificate: Certificate,
    folder: Path,
    corrections: Corrections = UNCORRECTED,
) -> None:
    """Write what a release says of itself, with its corrections, and tables as CSV; then seal it.

    One that is going to be signed has the public key in its folder.
    """
    if plan.config.release.csv:
        write_csv_tables(folder)
    for name, text in interval_texts(plan, folder).items():
        (folder / name).write_text(text, encoding="utf-8")
    corrected, titled = corrections.plan(plan), corrections.certificate(certificate)
    about = describe_plan(corrected, titled, named=(folder / NAME_FILE).is_file())
    about = corrections.description(about)
    if corrections.made:
        (folder / CORRECTION_FILE).write_text(corrections_text(corrections), encoding="utf-8")
    accuracy = read_accuracy(folder, certificate.plan_sha256)
    texts = texts_of(corrected, titled, about, signed=is_signed(folder), accuracy=accuracy)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    hashes = {name: sha256_of(folder / name) for name in public_files(folder)}
    for name, text in record_texts(about, with_sizes(folder, hashes)).items():
        (folder / name).write_text(text, encoding="utf-8")
    seal(folder, certificate, hashes)


def texts_of(
    plan: ReleasePlan,
    certificate: Certificate,
    about: ReleaseDescription,
    *,
    signed: bool,
    accuracy: ExpectedAccuracy | None,
) -> dict[str, str]:
    """Return what a release says in words, by file."""
    return {
        ATTACKERS_FILE: describe_attackers(plan, certificate, attackers_of()).text(),
        **release_readme(plan, certificate, about, signed=signed, accuracy=accuracy),
    }


@cache
def verifier_bytes() -> bytes:
    """Return the program that travels with every release, which checks it without this package."""
    return files("pipelines.release").joinpath(VERIFIER).read_bytes()


def with_sizes(folder: Path, hashes: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Return bytes and SHA-256 of files of a folder, as records have them."""
    return {name: ((folder / name).stat().st_size, digest) for name, digest in hashes.items()}


def seal(
    folder: Path, certificate: Certificate, known_hashes: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write MANIFEST.json and, over it and all other files, SHA256SUMS; hashes of some may be known."""
    hashes = {name: known_hashes.get(name) or sha256_of(folder / name) for name in public_files(folder)}
    (folder / MANIFEST).write_text(manifest_text(folder, certificate, hashes), encoding="utf-8")
    hashes[MANIFEST] = sha256_of(folder / MANIFEST)
    (folder / CHECKSUMS).write_text("".join(checksum_lines(hashes)), encoding="utf-8")


def manifest_text(folder: Path, certificate: Certificate, hashes: Mapping[str, str]) -> str:
    """Return the text of MANIFEST.json; `hashes` are the SHA-256 of all `public_files`, by relative name."""
    manifest = {
        "format": _MANIFEST_FORMAT,
        "release": certificate.release.model_dump(),
        "plan_sha256": certificate.plan_sha256,
        "created": certificate.created,
        "files": [
            {"path": name, "bytes": (folder / name).stat().st_size, "sha256": digest}
            for name, digest in sorted(hashes.items())
        ],
    }
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def expected_files(config: PublicConfig) -> list[str]:
    """Return the relative names of the files that every unsigned release has, but manifest and checksums."""
    texts = (
        "README.md",
        DETAILS_FILE,
        "certificate.json",
        "certificate.schema.json",
        ATTACKERS_FILE,
        VERIFIER,
    )
    records = record_files(config.release)
    plan = (f"plan/{name}" for name in ("plan.json", *plan_tables(config)))
    shapes = (polygon_file(level) for level in config.geography.polygon_levels)
    names, folders = file_names(config).values(), config.implicates.folders
    data = (f"{folder}{name}" for folder in folders for name in names)
    tables = [BLOCK_CSV] if config.release.csv else []
    return sorted([*texts, *records, *plan, *shapes, *data, *tables])


def version_name(subject: Subject, sums: str) -> str:
    """Return the name of a version, unless its publisher gives it another: it changes with the content."""
    return f"{subject.year}-{subject.job_type}-{sums[:12]}"


def public_files(folder: Path) -> list[str]:
    """Return the relative names of the files that the manifest lists: all but itself and what covers it."""
    names = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() or p.is_symlink())
    return sorted(name for name in names if name not in (MANIFEST, CHECKSUMS, *UNSEALED))


def not_public(folder: Path, name: str) -> str:
    """Return what is said of a folder that is not the public one of a release, as this file is not there."""
    return f"{folder}: there is no {name}. Fix: name the public folder of a release (OUT/public)"


def without_parts(names: Iterable[str]) -> list[str]:
    """Return names of files with those of each folder of parts replaced by the folder's, sorted.

    Only where the parts are numbered from 0 without a gap, as they are written.
    """
    folders: dict[str, list[str]] = {}
    result = []
    for name in sorted(names):
        folder, _, part = name.rpartition("/")
        if folder.endswith(".parquet"):
            folders.setdefault(folder, []).append(part)
        else:
            result.append(name)
    for folder, parts in folders.items():
        complete = parts == [_PART_NAME.format(number) for number in range(len(parts))]
        result += [folder] if complete else [f"{folder}/{part}" for part in parts]
    return sorted(result)


def _join(parts: Sequence[Part], names: dict[str, str], folder: Path) -> None:
    """Join the parts of an implicate."""
    for kind, pieces in {
        "od": [part.od for part in parts],
        "aux": [part.aux for part in parts if part.aux is not None],
    }.items():
        if f"{kind}_csv" in names:
            _join_csv([piece.csv for piece in pieces], folder / names[f"{kind}_csv"])
            _join_parquet([piece.parquet for piece in pieces], folder / names[f"{kind}_parquet"])
        elif pieces:
            _gather([piece.parquet for piece in pieces], folder / names[f"{kind}_parquet"])
    jobs = [part.jobs for part in parts if part.jobs is not None]
    if jobs:
        (_join_parquet if "od_csv" in names else _gather)(jobs, folder / names["jobs_parquet"])


def _join_csv(parts: Sequence[Path], target: Path) -> None:
    with target.open("wb") as whole:
        for part in parts:  # gzip members, one after another, are one gzip file
            with part.open("rb") as source:
                shutil.copyfileobj(source, whole)


def _gather(parts: Sequence[Path], folder: Path) -> None:
    """Put parts into a folder; as links where the disk has them: the run still needs its own."""
    folder.mkdir()
    for number, part in enumerate(parts):
        target = folder / _PART_NAME.format(number)
        try:
            target.hardlink_to(part)
        except OSError:
            shutil.copyfile(part, target)


def _join_parquet(parts: Sequence[Path], target: Path) -> None:
    schema = pq.read_schema(parts[0])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(read_rows(part))
