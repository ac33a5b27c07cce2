"""Statements of witnesses: that a second person has made every file of a release again, byte for byte.

Each line of the file is an in-toto statement in a DSSE envelope, signed by the witness (Ed25519).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict

from pipelines.release.certificate import Certificate, Sha256, Time, time_now
from pipelines.release.commitment import commitment_sha256, statement_text
from pipelines.release.signing import PUBLIC_KEY, WITNESS_FILE, key_digits, public_key_digits
from pipelines.storage.checksums import parse_checksums
from pipelines.storage.durable import write_whole
from synth.errors import ShownError

if TYPE_CHECKING:  # loaded by who needs it: it takes its time
    from securesystemslib.dsse import Envelope

PREDICATE_TYPE = "urn:odsynth:witness:1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_SAME_COPY = "do not use this copy; take a whole copy from the publisher"


class Predicate(BaseModel):
    """Fields of fixed form: a witness has seen homes, and shall have no room for prose."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    commitment: Sha256
    debit: Sha256 | None
    key: Sha256
    ledger: bool
    program: Sha256
    time: Time


class WitnessError(ShownError, ValueError):
    """A release cannot be witnessed, or a statement is not about it."""


@dataclass(frozen=True)
class Statement:
    """What a witness has signed: which files were made again, what was opened, when, and by which key."""

    files: Mapping[str, str]
    predicate: Predicate

    def __str__(self) -> str:
        key, with_or_without = self.predicate.key, "with" if self.predicate.ledger else "without"
        return f"key {key} at {self.predicate.time}, {with_or_without} the ledger"


def sign_statement(certificate: Certificate, seal: bytes, key: Ed25519PrivateKey, *, ledger: bool) -> str:
    """Return the line that says that the files of `seal` were made again by this program.

    `ledger`: the witness has found the debit in the ledger, with this commitment.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    digits = key_digits(key.public_key())
    predicate = Predicate(**_due(certificate), key=digits, ledger=ledger, time=time_now())
    envelope = Envelope(_payload(parse_checksums(seal), predicate), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(key))
    return f"{_line(envelope)}\n"


def _payload(files: Mapping[str, str], predicate: Predicate) -> bytes:
    return statement_text(PREDICATE_TYPE, files, predicate.model_dump()).encode()


def _line(envelope: Envelope) -> str:
    return json.dumps(envelope.to_dict(), sort_keys=True)


def _due(certificate: Certificate) -> dict[str, Any]:
    """Return what a statement says of the run whose files were made again."""
    made = certificate.commitment
    assert made is not None
    return {"commitment": commitment_sha256(certificate), "debit": made.debit, "program": made.program}


def awaits_statement(certificate: Certificate, statements: Sequence[Statement]) -> bool:
    """Return whether the statement that a certificate demands is not among these."""
    wanted = certificate.commitment and certificate.commitment.witness
    return wanted is not None and wanted not in _keys(statements)


def _keys(statements: Sequence[Statement]) -> list[str]:
    return [statement.predicate.key for statement in statements]


def statements_in(folder: Path) -> list[Statement]:
    """Read the statements of a public folder, if there are any."""
    return read_statements(_lines(folder))


def add_statement(folder: Path, line: str) -> Path:
    """Add a statement to those of a public folder, in place of one by its key, and return their file."""
    path, (added,) = folder / WITNESS_FILE, read_statements(line)
    before = _lines(folder)
    others = [
        other
        for other, statement in zip(before.splitlines(keepends=True), read_statements(before), strict=True)
        if statement.predicate.key != added.predicate.key
    ]
    write_whole(path, "".join([*others, line]), 0o644)
    return path


def _lines(folder: Path) -> str:
    path = folder / WITNESS_FILE
    return path.read_bytes().decode() if path.is_file() else ""


def read_statements(lines: str) -> list[Statement]:
    """Read statements, each signed by the key that it names, each with its line feed."""
    *whole, rest = lines.split("\n")
    if rest:
        raise WitnessError(f"{WITNESS_FILE}: the last line is cut off. Fix: {_SAME_COPY}")
    return [_read(line, number) for number, line in enumerate(whole, 1)]


def _read(line: str, number: int) -> Statement:
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import FormatError, VerificationError
    from securesystemslib.signer import SSlibKey

    try:
        envelope = Envelope.from_dict(json.loads(line))
        document = json.loads(envelope.payload)
        files = {subject["name"]: subject["digest"]["sha256"] for subject in document["subject"]}
        predicate = Predicate.model_validate(document["predicate"])
        signer = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(bytes.fromhex(predicate.key)))
        due = Envelope(_payload(files, predicate), PAYLOAD_TYPE, {})
        due.signatures = {signer.keyid: envelope.signatures[signer.keyid]}
        if line != _line(due):
            raise ValueError("another form")
        envelope.verify([signer], 1)
    except VerificationError:
        rule = f"{WITNESS_FILE}, line {number}: the key that it names has not signed it"
        raise WitnessError(f"{rule}. Fix: {_SAME_COPY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, FormatError):
        rule = f"{WITNESS_FILE}, line {number}: this is no statement of a witness"
        raise WitnessError(f"{rule}. Fix: {_SAME_COPY}") from None
    return Statement(files, predicate)


def check_statements(
    folder: Path,
    certificate: Certificate,
    hashes: Mapping[str, str],
    *,
    changed: Set[str] = frozenset(),
    pinned: Path | None = None,
    more: str = "",
) -> str | None:
    """Check that the statements of a public folder are about it; return who witnessed it, and when.

    `hashes` are the SHA-256 of its files, of which those `changed` were made anew by a correction. `pinned`
    is the public key file of a witness who is expected; `more` are lines that are to be added. None where
    nobody has witnessed it.
    """
    statements = read_statements(_lines(folder) + more)
    made = certificate.commitment
    if statements and made is None:
        raise WitnessError(f"{WITNESS_FILE} is about a commitment, and there is none. Fix: {_SAME_COPY}")
    for number, statement in enumerate(statements, 1):
        _check(statement, f"{WITNESS_FILE}, line {number}", certificate, hashes, changed)
    keys = _keys(statements)
    if len({*keys}) < len(keys):
        raise WitnessError(f"{WITNESS_FILE}: a witness has signed twice. Fix: keep one of the lines")
    if (folder / PUBLIC_KEY).is_file() and public_key_digits(folder / PUBLIC_KEY) in keys:
        raise WitnessError(
            f"{WITNESS_FILE}: the signer of the release is no witness of it. Fix: ask another person"
        )
    lacking = {
        "the certificate": awaits_statement(certificate, statements),
        "--witness": pinned is not None and public_key_digits(pinned) not in keys,
    }
    for who, lacks in lacking.items():
        if lacks:
            raise WitnessError(
                f"{len(keys)} statement(s) of witnesses, none by the key that {who} names. Fix: do not use "
                "the release; its publisher has to add the statement (odsynth witness)"
            )
    if not statements:
        return None
    whose = "" if pinned else "; whose key that is, was not checked (give --witness)"
    return ", ".join(map(str, statements)) + whose


def _check(
    statement: Statement,
    name: str,
    certificate: Certificate,
    hashes: Mapping[str, str],
    changed: Set[str],
) -> None:
    for field, value in _due(certificate).items():
        if getattr(statement.predicate, field) != value:
            raise WitnessError(f"{name}: its {field} is that of another run. Fix: {_SAME_COPY}")
    names = sorted({*statement.files, *hashes} - changed)
    if others := [file for file in names if statement.files.get(file) != hashes.get(file)]:
        raise WitnessError(
            f"{name}: {len(others)} file(s) are not those that were made again, {others[0]} first. Fix: "
            f"{_SAME_COPY}"
        )
