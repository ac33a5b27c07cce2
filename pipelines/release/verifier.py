"""The program that travels with every release: `verify.py`, which checks it without this package."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from synth.errors import ShownError

VERIFIER = "verify.py"

_EARLIER: dict[str, str] = {}
"""Versions by the SHA-256 of their verify.py; a version that changes the file adds that of the one before."""


class VerifierError(ShownError, ValueError):
    """A release carries a program that no version of this one wrote."""


@cache
def verifier_bytes() -> bytes:
    """Return the content of verify.py as this version writes it into releases."""
    return files("pipelines.release").joinpath(VERIFIER).read_bytes()


def check_verifier(folder: Path, sha256: str, version: str) -> str:
    """Say whose verify.py a release carries."""
    if sha256 == hashlib.sha256(verifier_bytes()).hexdigest():
        return f"{VERIFIER} is that of this version"
    if sha256 in _EARLIER:
        return f"{VERIFIER} is that of version {_EARLIER[sha256]}"
    raise VerifierError(
        f"{folder / VERIFIER} is not the program that this version puts into releases, nor an earlier one: it"
        f" was changed, or another version wrote it. Fix: do not run it; verify with version {version}, "
        "which the release says made it"
    )
