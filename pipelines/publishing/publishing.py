"""Publication: the public folder of a finished release, copied to where readers find it, once.

::

    DESTINATION/NAME/VERSION/                      the files of out/public; SHA256SUMS is written last
    DESTINATION/NAME/VERSION.publication.json      which content the version stands for; written first
    DESTINATION/NAME/VERSION.withdrawn.json        why it should not be used any more
    DESTINATION/NAME/VERSION.erratum-001.json      what is wrong with it

Nothing that is published is ever replaced or deleted, and there is no index: what is there is what is listed.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from geo_data.arguments import PathLike, path_of
from pipelines.publishing.destination import Place, PublishError, open_place
from pipelines.release.certificate import parse_certificate
from pipelines.release.layout import version_name
from pipelines.release.signing import UNSEALED, WITNESS_FILE
from pipelines.release.verification import verify
from pipelines.storage.checksums import CHECKSUMS, parse_checksums
from pipelines.storage.durable import set_times

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?<!\.json)", re.ASCII)
_RECORD = re.compile(rf"({_VERSION.pattern})\.(publication|withdrawn|erratum-\d{{3,}})\.json")
_IN_ADDRESSES = ("latest", "years")  # of the service, in the place of a version
_FORMAT = "odsynth publication 1"


@dataclass(frozen=True)
class Remark:
    """A withdrawal or an erratum: when it was made (UTC), and its text."""

    date: str
    text: str


@dataclass(frozen=True)
class Published:
    """A version at a destination."""

    name: str
    version: str
    location: str  # its folder
    # Incomplete: the publication was interrupted, and the same command completes it. Damaged: files are
    # missing, or SHA256SUMS is another (``odsynth verify`` looks into the files too).
    status: str
    begun: str  # when its publication began (UTC)
    sha256: str  # hash of its SHA256SUMS, and so of all its content
    withdrawn: Remark | None
    errata: tuple[Remark, ...]  # oldest first
    new: bool = False  # whether this call of `publish` wrote it; False if it was published already
    # What `publish` could not check, as other versions of libraries wrote the files.
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        errata = f", {len(self.errata)} errata" if self.errata else ""
        return f"<Published: {self.name} {self.version}, {self.status}{errata}; in {self.location}>"


def publish(
    out: PathLike,
    destination: PathLike,
    *,
    version: str | None = None,
    key: PathLike | None = None,
    content: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Published:
    """Verify a release and copy its public folder, and nothing else, to a destination.

    An interrupted publication is completed by the same call. A version that is there already is compared,
    and left as it is.

    Parameters
    ----------
    out : str or path
        Folder of the release, with ``public``.
    destination : str or path
        A folder, or the URL of one that fsspec can write to.
    version : str, optional
        By default year, job type and the first 12 digits of the content's hash: the same content has the same
        name, another content another.
    key : str or path, optional
        Public key file of the signer who is expected.
    content : str, optional
        The SHA-256 of its SHA256SUMS: only this content is published, such as the one that was approved.
    storage_options : dict, optional
        For fsspec: credentials and the like.

    Returns
    -------
    Published

    Raises
    ------
    VerificationError
        If any check fails, fitness for release included.
    PublishError
        If the version is there with another content, was withdrawn, or cannot be written.
    """
    out = path_of(out, "out")
    key = None if key is None else path_of(key, "key")
    public = Path(out) / "public"
    if public.is_symlink():
        raise PublishError(f"{public} is a link. Fix: publish a folder as a run made it")
    if not public.exists() and (Path(out) / "certificate.json").is_file():
        raise PublishError(f"{out} is a public folder. Fix: name the folder of the release, around it")
    sealed = _sealed(public)
    if content is not None and _sha256(sealed.get(CHECKSUMS, b"")) != content:
        raise PublishError(
            "the release was changed after it was approved, and nothing was published. Fix: put its files "
            "back, or make it again"
        )
    notes = tuple(check.detail for check in verify(public, key) if not check.complete)
    certificate = (public / "certificate.json").read_bytes()
    files = parse_checksums(sealed.get(CHECKSUMS, b""))
    if _sealed(public) != sealed or files.get("certificate.json") != _sha256(certificate):
        raise PublishError(
            f"{public} was changed while it was verified, and nothing was published. Fix: publish again when "
            "nothing writes to it"
        )
    files |= {name: _sha256(data) for name, data in sealed.items() if name != CHECKSUMS}
    stated = parse_certificate(certificate)
    sums = _sha256(sealed[CHECKSUMS])
    if version is None:
        version = version_name(stated.release, sums)
    with open_place(destination, storage_options) as place:
        place.keep_apart(Path(out))
        title = _Title(place, stated.release.name, version)
        new = title.begin(sealed[CHECKSUMS])
        if new:
            for name in sorted(files):
                if place.sha256(f"{title.folder}/{name}") != files[name]:
                    place.copy(public / name, f"{title.folder}/{name}", files[name])
        if not new and WITNESS_FILE in files and not place.exists(f"{title.folder}/{WITNESS_FILE}"):
            rule = "was published before a witness signed, and never changes"
            raise PublishError(f"{title.location} {rule}. Fix: choose another version")
        title.compare(files)
        if new:  # the mark of a complete version, after everything else has been read back
            place.copy(public / CHECKSUMS, f"{title.folder}/{CHECKSUMS}", sums)
            title.compare({CHECKSUMS: sums}, extra=files)
            if place.local:
                set_times(Path(title.folder), stated.created)
        return replace(title.state(), new=new, notes=notes)


def withdraw(
    destination: PathLike,
    name: str,
    version: str,
    reason: str,
    *,
    storage_options: dict[str, Any] | None = None,
) -> Published:
    """Record beside a version that it should not be used any more; its files stay where they are.

    A version is withdrawn once, with a reason.
    """
    with open_place(destination, storage_options) as place:
        title = _Title(place, name, version)
        title.must_exist()
        if not place.create(title.beside("withdrawn"), _remark(reason)):
            raise PublishError(f"{title.location} is withdrawn already. Fix: add an erratum to say more")
        return title.state()


def erratum(
    destination: PathLike,
    name: str,
    version: str,
    text: str,
    *,
    storage_options: dict[str, Any] | None = None,
) -> Published:
    """Record beside a version what is wrong with it, as the next of its numbered errata.

    Anything that exists has errata: withdrawn and incomplete versions too.
    """
    with open_place(destination, storage_options) as place:
        title = _Title(place, name, version)
        title.must_exist()
        remark, number = _remark(text), 1
        while not place.create(title.beside(f"erratum-{number:03}"), remark):
            number += 1  # taken, perhaps this moment by somebody else
        return title.state()


def published(
    destination: PathLike, *, storage_options: dict[str, Any] | None = None
) -> tuple[Published, ...]:
    """List what has been published at a destination, in order of name and time."""
    with open_place(destination, storage_options) as place:
        versions: dict[tuple[str, str], set[str]] = {}  # files of a version, and records beside it
        for path in place.files(place.root):
            name, _, below = path.partition("/")
            match, folder = _RECORD.fullmatch(below), below.partition("/")[0]
            versions.setdefault((name, match[1] if match else folder), set()).add(below)
        states = (
            _Title(place, name, version).state(files)
            for (name, version), files in versions.items()
            if name == folder_name(name) and f"{version}.publication.json" in files
        )
        return tuple(sorted(states, key=lambda state: (state.name, state.begun, state.version)))


def check_free(
    destination: str | Path,
    name: str,
    version: str,
    content: str | None = None,
    *,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Refuse a version name that `publish` would refuse; nothing is written.

    A name that stands for the content that is to be published, by the SHA-256 of its SHA256SUMS, may be
    published again.
    """
    with open_place(destination, storage_options) as place:
        _Title(place, name, version).check_free(content)


class _Title:
    """A name and a version at a place."""

    def __init__(self, place: Place, name: str, version: str) -> None:
        if not _VERSION.fullmatch(version):
            fix = (
                "write letters, digits, dots, dashes and underscores; a letter or digit first, .json not last"
            )
            raise PublishError(f"{version!r} cannot be a version. Fix: {fix}")
        self.place, self.name, self.version = place, folder_name(name), version
        self.folder = f"{place.root}/{self.name}/{version}"
        self.location = place.shown(self.folder)

    def beside(self, suffix: str) -> str:
        return f"{self.folder}.{suffix}.json"

    def must_exist(self) -> None:
        if not self.place.exists(self.beside("publication")):
            raise PublishError(f"{self.location}: no such version was published. Fix: check name and version")

    def check_free(self, content: str | None) -> None:
        """Refuse a version that was withdrawn, stands for another content, or could not be asked for."""
        if self.version.casefold() in _IN_ADDRESSES:
            fix = "choose another version, or leave it out"
            raise PublishError(f"{self.version!r} has a meaning in addresses of a service. Fix: {fix}")
        path = self.beside("publication")
        if self.place.exists(self.beside("withdrawn")):
            fix = "choose another version, or leave it out"
            raise PublishError(f"{self.location} was withdrawn and is not published again. Fix: {fix}")
        if not self.place.exists(path):
            if self.place.files(self.folder):
                rule = "is there, but was not published by this program"
                raise PublishError(
                    f"{self.location} {rule}. Fix: choose another version, or remove the folder"
                )
        elif not self._is_cut_off() and (content is None or self.place.record(path).get("sha256") != content):
            fix = "choose another version, or leave it out, as a version never changes"
            raise PublishError(f"{self.location} stands for another content. Fix: {fix}")

    def _is_cut_off(self) -> bool:
        """Whether the writing of its record was cut off, before any file of the version."""
        return not self.place.record(self.beside("publication")) and not self.place.files(self.folder)

    def begin(self, seal: bytes) -> bool:
        """Take the version name for a content; False if that is there, completely."""
        path, mark = self.beside("publication"), f"{self.folder}/{CHECKSUMS}"
        self.check_free(_sha256(seal))
        record = {"format": _FORMAT, "sha256": _sha256(seal), "date": _now()}
        exists = not self.place.create(path, record)
        if exists and self._is_cut_off():
            self.place.replace(path, record)
        self.check_free(_sha256(seal))  # perhaps it was taken this moment
        present = self.place.content(mark) if self.place.exists(mark) else b""
        if not seal.startswith(present):  # a beginning of it may be left by a storage that writes in place
            fix = "put the file of the release back there"
            raise PublishError(f"{self.location}/{CHECKSUMS} is not what was published. Fix: {fix}")
        return present != seal

    def compare(self, files: dict[str, str], extra: Collection[str] = (CHECKSUMS,)) -> None:
        """Read files back, and see that there are no others but `extra`."""
        strangers = sorted(self.place.files(self.folder) - {*files, *extra})
        if strangers:
            rule = f"{', '.join(strangers[:5])} does not belong to the release"
            raise PublishError(f"{self.location}: {rule}. Fix: move it away, and publish again")
        for name, digest in files.items():
            if self.place.sha256(f"{self.folder}/{name}") != digest:
                rule = "is not what was published, or did not arrive"
                fix = "publish again, or put the file of the release back there"
                raise PublishError(f"{self.location}/{name} {rule}. Fix: {fix}")

    def state(self, around: set[str] | None = None) -> Published:
        """What the place says about the version; `around` are its files and records, if they are known."""
        record = self.place.record(self.beside("publication"))
        if around is None:
            around = self.place.files(self.folder.rpartition("/")[0])
        inside = f"{self.version}/"
        present = {path.removeprefix(inside) for path in around if path.startswith(inside)}
        records = {m[2]: m[0] for p in around if (m := _RECORD.fullmatch(p)) and m[1] == self.version}
        numbered = sorted((kind for kind in records if kind.startswith("erratum")), key=lambda k: (len(k), k))
        remarks = [self._remark_of(records[kind]) for kind in numbered]
        status = "incomplete"
        if "withdrawn" in records:
            status = "withdrawn"
        elif CHECKSUMS in present:
            seal = self.place.content(f"{self.folder}/{CHECKSUMS}")
            listed = parse_checksums(seal, strict=False).keys()
            whole = _sha256(seal) == record.get("sha256") and listed <= present
            status = "complete" if whole else "damaged"
        begun, sums = record.get("date", ""), record.get("sha256", "")
        reason = self._remark_of(records["withdrawn"]) if "withdrawn" in records else None
        return Published(self.name, self.version, self.location, status, begun, sums, reason, tuple(remarks))

    def _remark_of(self, name: str) -> Remark:
        record = self.place.record(f"{self.folder.rpartition('/')[0]}/{name}")
        return Remark(record.get("date", ""), record.get("text", "(this record cannot be read)"))


def _sealed(public: Path) -> dict[str, bytes]:
    """SHA256SUMS and what it does not cover: signatures and statements of witnesses."""
    paths = {name: public / name for name in (CHECKSUMS, *UNSEALED)}
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


def folder_name(name: str) -> str:
    """Return the name of a release in folders and URLs."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or f"release-{_sha256(name.encode())[:8]}"


def _remark(text: str) -> dict[str, str]:
    if not text.strip():
        raise PublishError("the text is empty. Fix: write what readers should know")
    return {"format": _FORMAT, "date": _now(), "text": text.strip()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
