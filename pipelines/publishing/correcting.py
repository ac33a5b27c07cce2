"""Correcting what a published release says of itself: a new public folder of the same data, at no cost.

Titles, licences, labels and names of areas decide neither a draw nor a promise. So nothing is drawn again,
the ledger is not asked, and no confidential file is read.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

import geo_data
from geo_data.arguments import PathLike, check_type, path_of
from pipelines.config.fields import Line
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.public_inputs import names_of, read_geography, read_polygon_tables
from pipelines.plans.form import quoted_config
from pipelines.plans.storage import load_plan
from pipelines.release.certificate import parse_certificate
from pipelines.release.corrections import (
    Corrections,
    apart,
    correct_further,
)
from pipelines.release.description import Correction
from pipelines.release.layout import CORRECTED, WORDS, describe_and_seal
from pipelines.release.names import NAME_FILE, Names, write_names
from pipelines.release.signing import WITNESS_FILE, read_signer, sign, write_public_key
from pipelines.release.verification import verify
from pipelines.release.workplaces import drawn_plan
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.storage.durable import set_times, whole_folder
from pipelines.views.folder import PublicReleaseError, check_target
from pipelines.views.release import Release


def correct(public: PathLike, config: ReleaseConfig, reason: str, *, names: bool = False) -> Release:
    """Correct what a release says of itself: title, licence, publisher, contact, citation, labels, names.

    The release is verified, and copied with the words of the configuration to the output folder of that. Its
    data, its plan and its certificate stay as they are, byte for byte; its read-me and ``corrections.json``
    say what was corrected, when and why. Neither a confidential file nor a ledger is opened.

    Parameters
    ----------
    public : str or path
        The public folder of the release.
    config : ReleaseConfig
        The configuration of the release with the right words: `name`, `licence`, `publisher`, `contact` and
        `citation` of `[release]`, `meaning`, `unit` and `labels` of `[[attribute]]`. Where the release is
        signed, `[signature]` names the private key of the same signer.
    reason : str
        One line for readers.
    names : bool
        Take the names of areas anew, too, from the public files of `[geography]`.

    Returns
    -------
    Release
        The corrected one, in ``public`` of the output folder.

    Raises
    ------
    VerificationError
        If the release does not pass.
    PublicReleaseError
        If nothing differs; if something else differs than can be corrected, which is named; or if the output
        folder exists.
    SigningError
        If the release is signed and the key is missing or another, or is not signed and there is a key.
    """
    public = path_of(public, "public")
    check_type(config, ReleaseConfig, "config", "load_config")
    out, reason = config.release.out, _line(reason)
    check_target(out, public, new=True)
    key = read_signer(public, config.signature.key if config.signature else None)
    verify(public)
    release, seal = Release(public), (public / CHECKSUMS).read_bytes()
    before = release.corrections
    planned = quoted_config(release.plan_document)
    asked = config.weaker_tiers.get(planned.tier or "", config)  # the configuration is that of the strongest
    of_release, of_attribute, others = apart(planned, asked.public)
    if others:
        raise PublicReleaseError(
            f"{public}: the configuration differs in {', '.join(others)}, on which data or promises depend. "
            "Fix: put back what the release was made with; what must change needs a new release"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out, 0o755) as made:
        folder = made / "public"
        folder.mkdir()
        if names:
            write_names(_read_names(config, release.geography), release.geography, folder, release.language)
        renamed = names and _content(folder / NAME_FILE) != _content(public / NAME_FILE)
        changed = correct_further(before, of_release, of_attribute, names=renamed)
        if not changed:
            more = "" if names else ", or ask for the names of areas too"
            raise PublicReleaseError(
                f"{public}: the configuration says nothing else than the release does. Fix: write the right "
                f"words into the configuration{more}"
            )
        _copy(
            public,
            folder,
            seal,
            without=CORRECTED if names else WORDS,
        )
        date = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        one = Correction(date, reason, changed, hashlib.sha256(seal).hexdigest())
        corrections = Corrections(of_release, of_attribute, (*before.made, one))
        certificate = parse_certificate((folder / "certificate.json").read_bytes())
        plan = drawn_plan(folder, load_plan(folder / "plan"))
        if key is not None:
            write_public_key(key, folder)
        describe_and_seal(plan, certificate, folder, corrections)
        if key is not None:
            sign(key, folder)
        if (statement := _content(public / WITNESS_FILE)) is not None:
            (folder / WITNESS_FILE).write_bytes(statement)
        verify(folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        set_times(folder, date)
    return Release(out / "public")


def _line(reason: str) -> str:
    try:
        return TypeAdapter(Line).validate_python(reason)
    except ValidationError:
        raise PublicReleaseError(
            "the reason is empty, or not on one line. Fix: write in one line what readers should know"
        ) from None


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _copy(public: Path, folder: Path, seal: bytes, *, without: Set[str]) -> None:
    """Copy the files of a release that are sealed so, but for some."""
    for name, digest in parse_checksums(seal).items():
        if name not in without:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(public / name, folder / name)
            if sha256_of(folder / name) != digest:
                raise PublicReleaseError(
                    f"{public / name} was changed meanwhile. Fix: correct it again when "
                    "nothing writes to the folder"
                )


def _read_names(config: ReleaseConfig, geography: geo_data.Geography) -> Mapping[str, Names]:
    """Read the names of areas from the files of a configuration, which must have the areas of a release."""
    read = read_geography(config)
    kinds = (*geography.levels, geography.block_level, *geography.non_nesting_areas)
    if [*read.non_nesting_areas] != [*geography.non_nesting_areas] or not all(
        np.array_equal(read.codes(kind), geography.codes(kind))
        and np.array_equal(read.units_of_blocks(kind), geography.units_of_blocks(kind))
        for kind in kinds
    ):
        raise PublicReleaseError(
            f"{config.geography.file}: blocks and areas are not those of the release. Fix: name the file "
            "that the release was made with, with the right names in it"
        )
    return names_of(read, read_polygon_tables(config, read))
