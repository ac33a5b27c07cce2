"""Signatures: made, checked, pinned; keys never overwritten, never readable by others, never published."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipelines
from helpers import forge, refused, seal_again
from pipelines.release.signing import (
    PUBLIC_KEY,
    SIGNATURES,
    SigningError,
    generate_keys,
    read_private_key,
    sign,
    signature_in_words,
)
from pipelines.release.verification import verify

pytestmark = pytest.mark.quick

SIGNED = (*SIGNATURES, PUBLIC_KEY, "certificate.json", "SHA256SUMS")


def test_a_signed_release_passes_with_and_without_the_pinned_key(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    details = {check.name: check.detail for check in verify(signed, keys[1])}
    assert details["signature"] == "signed by the key given"
    assert details["for release"] == "yes"
    assert "give --key" in {check.name: check.detail for check in verify(signed)}["signature"]


def test_the_private_key_is_not_in_the_release_and_is_not_readable_by_others(
    signed_release: pipelines.Release, keys: tuple[Path, Path]
) -> None:
    secret = b"".join(keys[0].read_bytes().splitlines()[1:-1])
    assert len(secret) > 40
    for path in signed_release.out.rglob("*"):
        assert path.is_dir() or secret not in path.read_bytes()
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600


def test_one_changed_byte_and_a_missing_part_of_anything_signed_are_found(signed: Path) -> None:
    for name in SIGNED:
        whole = (signed / name).read_bytes()
        for place in (0, -1):
            data = bytearray(whole)
            data[place] ^= 1
            (signed / name).write_bytes(data)
            assert name in str(refused(signed))
        (signed / name).unlink()
        if name in (*SIGNATURES, PUBLIC_KEY):
            assert name in str(refused(signed))
        (signed / name).write_bytes(whole)


def test_a_release_resealed_and_signed_by_another_is_found_by_who_pinned(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    private, public = generate_keys(tmp_path / "another")
    shutil.copy(public, signed / PUBLIC_KEY)
    seal_again(signed)
    sign(read_private_key(private), signed)
    assert [check.name for check in verify(signed)][-1] == "for release"  # nobody said who must have signed
    assert "somebody else signed" in str(refused(signed, keys[1]))


def test_an_unsigned_release_fails_who_pinned(
    small_release: pipelines.Release, keys: tuple[Path, Path]
) -> None:
    assert "SHA256SUMS.sig" in str(refused(small_release.public, keys[1]))


def test_a_signature_stripped_and_resealed_fails_who_pinned(signed: Path, keys: tuple[Path, Path]) -> None:
    for name in (*SIGNATURES, PUBLIC_KEY):
        (signed / name).unlink()
    seal_again(signed)
    assert refused(signed).check == "texts", "the read-me still says that it is signed"
    forge(signed, json.loads((signed / "certificate.json").read_text(encoding="utf-8")))
    found = {check.name: check.detail for check in verify(signed)}
    assert found["signature"] == signature_in_words(signed=False)
    assert signature_in_words(signed=False) in " ".join(
        (signed / "README.md").read_text(encoding="utf-8").split()
    )
    assert "is missing" in str(refused(signed, keys[1]))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command on this machine")
def test_another_tool_agrees(signed: Path) -> None:
    for name in ("certificate.json", "SHA256SUMS"):
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", PUBLIC_KEY, "-rawin", "-in", name]
        command += ["-sigfile", f"{name}.sig"]
        assert subprocess.run(command, cwd=signed, check=False, capture_output=True).returncode == 0
        (signed / name).write_bytes((signed / name).read_bytes() + b" ")
        assert subprocess.run(command, cwd=signed, check=False, capture_output=True).returncode != 0


def test_keys_are_never_overwritten(keys: tuple[Path, Path]) -> None:
    before = keys[0].read_bytes()
    with pytest.raises(SigningError, match="already"):
        generate_keys(keys[0].parent)
    assert keys[0].read_bytes() == before


def test_a_key_that_others_can_read_is_refused(keys: tuple[Path, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copy(keys[0], tmp_path / "key.pem"))
    copy.chmod(0o640)
    with pytest.raises(SigningError, match="chmod 600"):
        read_private_key(copy)


def test_the_other_key_of_the_pair_and_a_missing_one_are_named(
    keys: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(SigningError, match="this is a public key"):
        read_private_key(keys[1])
    with pytest.raises(SigningError, match="odsynth keygen FOLDER makes one"):
        read_private_key(tmp_path / "key.pem")


def test_a_file_that_is_no_key_is_refused_before_anything_is_read(
    small_config: Callable[..., pipelines.ReleaseConfig], tmp_path: Path
) -> None:
    path = tmp_path / "key.pem"
    config = small_config({"signature.key": path})
    for content in ("", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        path.write_text(content)
        path.chmod(0o600)
        with pytest.raises(SigningError, match=r"key\.pem: this is not"):
            pipelines.run(config)
        assert not list(config.release.out.parent.iterdir())


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import x25519
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = tmp_path / "key.pem"
    key = x25519.X25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(SigningError, match="not an Ed25519 key"):
        read_private_key(path)


def test_a_key_pair_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full at any step, or a signal, leaves no key; what is left by a kill is completed."""
    folder, real = tmp_path / "keys", os.link
    for step in range(2):
        for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
            calls: list[object] = []

            def fail(
                *names: Any, error: BaseException = error, calls: list = calls, step: int = step
            ) -> None:
                calls.append(names)
                if len(calls) == step + 1:
                    raise error
                real(*names)

            with monkeypatch.context() as patch:
                patch.setattr(os, "link", fail)
                with pytest.raises(type(error)):
                    generate_keys(folder)
            assert [*folder.iterdir()] == []
    private, public = generate_keys(folder)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    whole = {path: path.read_bytes() for path in (private, public)}
    public.unlink()
    assert generate_keys(folder) == (private, public)  # derived from the private one
    assert {path: path.read_bytes() for path in (private, public)} == whole
    for _ in range(2):
        with pytest.raises(SigningError, match="there is a signing key already"):
            generate_keys(folder)
        private.unlink(missing_ok=True)
    assert [*folder.iterdir()] == [public]
    public.unlink()
    private.write_bytes(b"no key")
    private.chmod(0o600)
    with pytest.raises(SigningError, match="not a private key"):
        generate_keys(folder)
    assert [*folder.iterdir()] == [private]
