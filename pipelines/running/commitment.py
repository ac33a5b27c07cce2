"""What a run commits to before its first draw, computed from its private folder and its key.

All secrets follow from the run key. So whoever has the key can open the commitment, and nobody can when it
is destroyed, nor try out what the input was.
"""

from __future__ import annotations

import hashlib
import hmac
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import synth
from pipelines.config.sections import WitnessSettings
from pipelines.release.certificate import Certificate, Commitment
from pipelines.release.commitment import program_sha256
from pipelines.release.signing import public_key_digits
from pipelines.running.folder import RunFolder


def commit(
    certificate: Certificate, staging: RunFolder, key: synth.RunKey, witness: WitnessSettings | None
) -> Commitment:
    """Return the commitment of a run that has kept its homes; the ledger's part is still to come."""
    required = witness.key if witness is not None and witness.required else None
    return Commitment(
        program=program_sha256(certificate.software),
        input=input_root(staging, key),
        key=hashlib.sha256(key.derive("commitment/key").secret()).hexdigest(),
        previous=None,
        draw=None,
        witness=None if required is None else public_key_digits(required),
        debit=None,
        timestamp=None,
    )


def input_root(staging: RunFolder, key: synth.RunKey) -> str:
    """Return the root of a tree of hashes over the confidential input as the mechanism takes it.

    A leaf is HMAC-SHA256, under a secret of the run, of a file of the private folder's homes: its name, a
    zero byte, its content. That of a batch is put in order first, so that its leaf does not depend on the
    order of records in the input. The root is the same of all leaves, in the order of names.
    """
    secret = key.derive("commitment/input").secret()

    def leaf(path: Path) -> bytes:
        digest = hmac.new(secret, path.name.encode() + b"\0", "sha256")
        if path.stem.isdecimal():
            digest.update(_in_order(staging.read_homes(int(path.stem))))
        else:
            with path.open("rb") as file:
                while chunk := file.read(io.DEFAULT_BUFFER_SIZE * 128):
                    digest.update(chunk)
        return digest.digest()

    with ThreadPoolExecutor() as pool:
        leaves = b"".join(pool.map(leaf, sorted(staging.homes.iterdir())))
    return hmac.new(secret, b"root\0" + leaves, "sha256").hexdigest()


def _in_order(homes: np.ndarray[tuple[int, int], np.dtype[np.int32]]) -> bytes:
    """Return homes of a batch, each with pool and work block, in one order: by work in pool, then by home.

    First every pair of pool and work block, once; then, for each record, the place of its pair and its
    home. Sorting one number a record is ten times as fast as sorting three.
    """
    pool, work, home = homes.view(np.uint32).astype(np.uint64)
    pairs, place = np.unique(pool << np.uint64(32) | work, return_inverse=True)
    records = np.sort(place.astype(np.uint64) << np.uint64(32) | home)
    return pairs.astype("<u8").tobytes() + records.astype("<u8").tobytes()
