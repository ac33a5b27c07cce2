"""The commitment of a run as an in-toto statement, and the time-stamp (RFC 3161) of that statement.

A time-stamp authority signs the SHA-256 of the statement with the time. Readers check this without a
network, by the authority's certificate that they have from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from cryptography import x509

from pipelines.release.certificate import Certificate, Software
from pipelines.release.provenance import code_sha256
from synth.errors import ShownError

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:odsynth:commitment:1"
_SECONDS = 30  # for a time-stamp authority to answer


class TimestampError(ShownError, ValueError):
    """A time-stamp cannot be had, or is not of the commitment."""


def statement_text(predicate_type: str, digests: Mapping[str, str], predicate: dict[str, Any]) -> str:
    """Return an in-toto statement about digests (SHA-256, by name) in its one form."""
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def commitment_statement(certificate: Certificate) -> bytes:
    """Return the statement by which a run was bound, from its certificate; its SHA-256 is in the ledger."""
    made = certificate.commitment
    assert made is not None
    digests = {
        "plan": certificate.plan_sha256,
        "program": made.program,
        "input": made.input,
        "key": made.key,
        **({} if made.previous is None else {"ledger": made.previous}),
    }
    predicate = {"created": certificate.created, "draw": made.draw, "witness": made.witness}
    return statement_text(PREDICATE_TYPE, digests, predicate).encode()


def commitment_sha256(certificate: Certificate) -> str:
    """Return the SHA-256 by which the ledger names the commitment of a run."""
    return hashlib.sha256(commitment_statement(certificate)).hexdigest()


def program_sha256(software: Software) -> str:
    """Return the SHA-256 of the running program: its code, and what a certificate says of it."""
    document = {"code": code_sha256(), **software.model_dump(mode="json")}
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def request_timestamp(address: str, statement: bytes, authority: Path) -> str:
    """Ask an authority for the time-stamp of a statement, and return it, checked, as certificates have it."""
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    request = TimestampRequestBuilder(statement, HashAlgorithm.SHA256).build()
    try:
        answer = requests.post(
            address,
            data=request.as_bytes(),
            headers={"Content-Type": "application/timestamp-query"},
            timeout=_SECONDS,
        )
        answer.raise_for_status()
    except requests.RequestException as error:
        raise TimestampError(
            f"{address}: the time-stamp authority does not answer ({type(error).__name__}), and nothing was "
            "paid. Fix: check timestamp in [witness], or leave it out"
        ) from None
    timestamp = base64.b64encode(answer.content).decode()
    try:
        check_timestamp(timestamp, statement, authority)
    except TimestampError as error:
        raise TimestampError(f"{address}: {error}; nothing was paid") from None
    return timestamp


def check_timestamp(timestamp: str, statement: bytes, authority: Path | None = None) -> str:
    """Check that a time-stamp is of a statement, and return its time.

    `authority` has the certificates (PEM) of who must have signed it. Without it, nobody's signature is
    checked.
    """
    from rfc3161_client import PKIStatus, VerificationError, VerifierBuilder, decode_timestamp_response

    try:
        response = decode_timestamp_response(base64.b64decode(timestamp, validate=True))
        granted = response.status == PKIStatus.GRANTED
        imprint = response.tst_info.message_imprint.message if granted else b""
    except ValueError:
        granted, imprint = False, b""
    if not granted:
        raise TimestampError(
            "there is no time-stamp by RFC 3161 that was granted. Fix: ask another authority"
        )
    if imprint != hashlib.sha256(statement).digest():
        raise TimestampError("the time-stamp is not of this commitment. Fix: do not use this release")
    if authority is not None:
        try:
            VerifierBuilder(roots=read_certificates(authority)).build().verify_message(response, statement)
        except VerificationError:
            rule = f"the time-stamp is not signed by the authority of {authority.name}"
            raise TimestampError(f"{rule}. Fix: name the certificates of who signed it") from None
    return f"{response.tst_info.gen_time:%Y-%m-%dT%H:%M:%SZ}"


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read the certificates of a time-stamp authority (PEM)."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        rule, fix = f"the certificates cannot be read ({error.strerror})", "check the path"
    except ValueError:
        rule, fix = "these are no certificates in PEM", "name those of the time-stamp authority"
    raise TimestampError(f"{path}: {rule}. Fix: {fix}")
