"""The checksums of a folder: SHA256SUMS, as sha256sum writes and checks it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

CHECKSUMS = "SHA256SUMS"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_lines(hashes: Mapping[str, str]) -> list[str]:
    """Return the lines of SHA256SUMS, in the order of the names, each with its line feed."""
    return [f"{hashes[name]}  {name}\n" for name in sorted(hashes)]


def parse_checksums(seal: bytes, *, strict: bool = True) -> dict[str, str]:
    """Return the SHA-256 of each file by its name, from the content of SHA256SUMS.

    A line that is none is an error, or, unless `strict`, passed over.
    """
    text = seal.decode(errors="strict" if strict else "replace")
    lines = [line for line in text.splitlines() if strict or "  " in line]
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
