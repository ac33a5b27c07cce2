"""Detached Ed25519 signatures of releases, over the certificate and over the checksums of all files.

The signatures are the 64 raw bytes that Ed25519 gives over the bytes of ``certificate.json`` and of
``SHA256SUMS``, so that any tool can check them (docs/verification.md shows one). The public key travels
with the release; a reader who wants to know *who* signed must have it from elsewhere and pin it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from geo_data.arguments import PathLike, path_of
from pipelines.config.languages import ENGLISH
from pipelines.release.pages import phrases
from pipelines.storage.durable import whole_file, write_whole
from synth.errors import ShownError

PUBLIC_KEY = "signing-key.pub"
_LOOK = "check the path and its permissions"
_COPY = "do not use this copy; take a whole copy from the publisher"
_SIGNED = ("certificate.json", "SHA256SUMS")
SIGNATURES = tuple(f"{name}.sig" for name in _SIGNED)
WITNESS_FILE = "witness.intoto.jsonl"
UNSEALED = (*SIGNATURES, WITNESS_FILE)
"""What SHA256SUMS does not cover: it is made of it."""


class SigningError(ShownError, ValueError):
    """A key or a signature cannot be used."""


def generate_keys(folder: PathLike) -> tuple[Path, Path]:
    """Make a key pair: ``signing-key.pem`` (private, mode 0600) and ``signing-key.pub``, both or none.

    Where the private key is and the public one is not, the public one is derived from it.

    Parameters
    ----------
    folder : str or path
        Made, with mode 0700, if it does not exist.

    Returns
    -------
    (Path, Path)
        Private and public key files, PEM.

    Raises
    ------
    SigningError
        If there is a public key: a key is never overwritten. Or if the private one cannot be used.
    """
    folder = path_of(folder, "folder")
    private, public = folder / "signing-key.pem", folder / PUBLIC_KEY
    if public.exists():
        raise SigningError(f"{public}: there is a signing key already. Fix: choose another folder")
    if private.exists():
        write_whole(public, _pem(read_private_key(private).public_key()), None, new=True)
        return private, public
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    pem = {
        public: _pem(key.public_key()),
        private: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    try:
        # Both are on the disk before either has its name. The private one has it first: a kill between the
        # two leaves the one from which the other follows.
        with whole_file(public, None, new=True) as made_public, whole_file(private, new=True) as made_private:
            made_public.write_bytes(pem[public])
            made_private.write_bytes(pem[private])
    except BaseException as error:
        for path, content in pem.items():  # the public one first, for the same reason
            with suppress(OSError):
                if path.read_bytes() == content:
                    path.unlink()
        if isinstance(error, FileExistsError):
            raise SigningError(
                f"{folder}: there is a signing key already. Fix: choose another folder"
            ) from None
        raise
    return private, public


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, and refuse one that others on the machine can read."""
    try:
        if path.exists() and not path.is_file():  # one that is a pipe would be waited for
            raise SigningError(f"{path}: this is not a file. Fix: name the private key's file")
        content = path.read_bytes()
        if b"PUBLIC KEY" in content:
            raise SigningError(f"{path}: this is a public key. Fix: name the private key of the pair")
        if path.stat().st_mode & 0o077:
            raise SigningError(f"{path}: others can read this private key. Fix: chmod 600")
        key = load_pem_private_key(content, password=None)
    except FileNotFoundError:
        raise SigningError(f"{path}: there is no such key. Fix: odsynth keygen FOLDER makes one") from None
    except OSError as error:
        raise SigningError(f"{path}: the key cannot be read ({error.strerror}). Fix: {_LOOK}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if isinstance(error, SigningError):
            raise
        rule = "this is not a private key in PEM without a pass phrase"
        raise SigningError(f"{path}: {rule}. Fix: odsynth keygen FOLDER makes one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningError(f"{path}: this is not an Ed25519 key. Fix: odsynth keygen FOLDER makes one")
    return key


def read_signer(folder: Path, path: Path | None) -> Ed25519PrivateKey | None:
    """Return the private key that a public folder is signed with, to sign it again; None of an unsigned one.

    `path` is the key that a configuration names, if it names one.
    """
    if path is None:
        if is_signed(folder):
            raise SigningError(
                f"{folder}: this release is signed, and has to be signed again. Fix: name the private key of "
                f"its {PUBLIC_KEY} in [signature] of the configuration"
            )
        return None
    key = read_private_key(path)
    if not is_signed(folder):
        raise SigningError(
            f"{folder}: nobody has signed this release, and who signs answers for its draw. Fix: leave "
            "[signature] out"
        )
    if (folder / PUBLIC_KEY).read_bytes() != _pem(key.public_key()):
        raise SigningError(
            f"{path}: another key has signed {folder}. Fix: name the private key of its {PUBLIC_KEY}"
        )
    return key


def check_key_pair(path: Path, key: Ed25519PrivateKey) -> None:
    """Refuse a private key beside which the public half of another one lies, in a file of the same name.

    Readers are given that file, and would not know the signature.
    """
    beside = path.with_suffix(".pub")
    if beside != path and beside.is_file() and _raw(_read_public_key(beside)) != _raw(key.public_key()):
        raise SigningError(
            f"{beside}: this is not the public key of {path.name}. Fix: put the right public key there"
        )


def public_key_digits(path: Path) -> str:
    """Return the 32 bytes of a public key file, hexadecimal."""
    return key_digits(_read_public_key(path))


def key_digits(key: Ed25519PublicKey) -> str:
    """Return the 32 bytes of a public key, hexadecimal."""
    return _raw(key).hex()


def write_public_key(key: Ed25519PrivateKey, folder: Path) -> None:
    """Write the public half of a key into a folder, which is going to be signed with it."""
    (folder / PUBLIC_KEY).write_bytes(_pem(key.public_key()))


def is_signed(folder: PathLike) -> bool:
    """Return whether a public folder comes with a key, by which `check_signatures` must find it signed."""
    folder = path_of(folder, "folder")
    return (folder / PUBLIC_KEY).is_file()


def sign(key: Ed25519PrivateKey, folder: Path) -> None:
    """Sign the certificate and the checksums of a sealed public folder."""
    for name, signature in zip(_SIGNED, SIGNATURES, strict=True):
        (folder / signature).write_bytes(key.sign((folder / name).read_bytes()))


def signature_in_words(*, signed: bool, language: str = ENGLISH) -> str:
    """Say what the signer of a release answers for; without a signature, what nobody answers for."""
    return phrases(language).signature(signed)


def check_signatures(folder: PathLike, pinned: PathLike | None = None) -> str:
    """Check the signatures of a public folder.

    Parameters
    ----------
    folder : str or path
    pinned : str or path, optional
        The public key file that the signer is known by. Without it, signatures are checked against the key
        that came with the release: they then say that nothing was altered since, not who signed.

    Returns
    -------
    str
        What was found.

    Raises
    ------
    SigningError
        If a signature is wrong or missing, or the key is not the pinned one.
    """
    folder = path_of(folder, "folder")
    pinned = None if pinned is None else path_of(pinned, "pinned")
    parts = (PUBLIC_KEY, *SIGNATURES)
    missing = [name for name in parts if not (folder / name).is_file()]
    if len(missing) == len(parts) and pinned is None:
        return signature_in_words(signed=False)
    if missing:
        raise SigningError(f"{', '.join(missing)} is missing. Fix: {_COPY}")
    key = _read_public_key(folder / PUBLIC_KEY)
    if (folder / PUBLIC_KEY).read_bytes() != _pem(key):
        raise SigningError(f"{PUBLIC_KEY} is not exactly one public key in PEM. Fix: {_COPY}")
    if pinned is not None and _raw(_read_public_key(pinned)) != _raw(key):
        fix = "ask the publisher for the right key, and do not use the release if it differs"
        raise SigningError(f"{PUBLIC_KEY} is not the key {pinned}: somebody else signed. Fix: {fix}")
    for name, signature in zip(_SIGNED, SIGNATURES, strict=True):
        try:
            key.verify((folder / signature).read_bytes(), (folder / name).read_bytes())
        except InvalidSignature as error:
            rule = f"{signature} is not a signature of {name} by {PUBLIC_KEY}"
            raise SigningError(f"{rule}. Fix: {_COPY}") from error
    return (
        "signed by the key given"
        if pinned
        else f"signed by {PUBLIC_KEY} (give --key to say whose it must be)"
    )


def _read_public_key(path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise SigningError(f"{path}: the key cannot be read ({error.strerror}). Fix: {_LOOK}") from None
    except (ValueError, UnsupportedAlgorithm):
        fix = "use the public key that odsynth keygen wrote"
        raise SigningError(f"{path.name}: this is not a public key in PEM. Fix: {fix}") from None
    if not isinstance(key, Ed25519PublicKey):
        fix = "use the public key that odsynth keygen wrote"
        raise SigningError(f"{path.name}: this is not an Ed25519 key. Fix: {fix}")
    return key


def _pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)
