"""Cryptographic randomness: run keys, derived keys, words, unbiased bounded integers, events, lots.

One key per run comes from the operating system; every (stage, batch) derives its own key from it with
HKDF-SHA256 and reads words of the ChaCha20 key stream (both from the `cryptography` package). The same
batch key gives the same words, so a task that runs twice gives identical bytes.
"""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth._words import mask_below as _mask_below
from synth.arrays import segment_indices

_KEY_BYTES = 32
_MAX_STREAM_BYTES = 2**36  # well inside ChaCha20's counter; a batch reads a few megabytes


class RunKey:
    """The secret of one run. Never printed, never pickled, overwritten by `destroy`.

    A task that draws on another machine gets its bytes over TLS (`pipelines.running.executor`).

    Make one with `RunKey.generate()`. A key made with `RunKey.from_seed` is for tests: `secure` is
    False, and a release drawn with it is marked "not for release".
    """

    def __init__(self, key: bytes, *, secure: bool) -> None:
        if len(key) != _KEY_BYTES:
            raise ValueError(f"a run key must have {_KEY_BYTES} bytes")
        self._key = bytearray(key)
        self._secure = secure

    @classmethod
    def generate(cls) -> RunKey:
        """Return a new key from the operating system's generator."""
        return cls(secrets.token_bytes(_KEY_BYTES), secure=True)

    @classmethod
    def from_seed(cls, seed: int) -> RunKey:
        """Return a reproducible key for tests; it is not secure and says so."""
        return cls(seed.to_bytes(_KEY_BYTES, "big"), secure=False)

    @property
    def secure(self) -> bool:
        """Whether the key came from the operating system."""
        return self._secure

    def stream(self, stage: str, batch: int) -> WordStream:
        """Return the words of one stage of one batch; independent of all others.

        Raises
        ------
        RuntimeError
            If the key has been destroyed.
        """
        return WordStream(self._derived(f"{stage}/{batch}"))

    def derive(self, name: str) -> RunKey:
        """Return a further key for one purpose, such as a release of the same run.

        It is independent of the streams of this one, and of the keys for other purposes (Lemma 60 of
        docs/privacy.md).

        Raises
        ------
        RuntimeError
            If the key has been destroyed.
        """
        return RunKey(self._derived(f"key/{name}"), secure=self._secure)

    def _derived(self, info: str) -> bytes:
        return HKDF(SHA256(), _KEY_BYTES, salt=None, info=f"odsynth/1/{info}".encode()).derive(self.secret())

    def secret(self) -> bytes:
        """Return the bytes of the key, to be kept where only the curator reads, until the release is final.

        Raises
        ------
        RuntimeError
            If the key has been destroyed.
        """
        if not self._key:
            raise RuntimeError("the run key has been destroyed")
        return bytes(self._key)

    def destroy(self) -> None:
        """Overwrite the key; no further stream can be derived."""
        for i in range(len(self._key)):
            self._key[i] = 0
        self._key.clear()

    def __repr__(self) -> str:
        return f"RunKey(secure={self._secure})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run key is never pickled")


class WordStream:
    """The 64-bit words of one ChaCha20 key stream, in order.

    Parameters
    ----------
    key : bytes
        32 bytes, used for this stream only (so the nonce is zero).
    """

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
        self._given = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words.

        Raises
        ------
        OverflowError
            If more than 2^36 bytes are read from one stream.
        """
        self._given += 8 * count
        if self._given > _MAX_STREAM_BYTES:
            raise OverflowError("one key stream is read too far; use smaller batches")
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype="<u8")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key stream is never pickled")


def uniform_below(bounds: NDArray[np.int64], stream: WordStream) -> NDArray[np.int64]:
    """Draw one integer uniform on [0, bound) for each bound, without bias.

    Lemma 17 of docs/privacy.md.

    A word is cut to the bits of bound - 1 and drawn again while it is not below the bound.

    Parameters
    ----------
    bounds : ndarray of int64, shape (n,)
        1 <= bound < 2^63.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    ValueError
        If a bound is below 1.
    """
    if bounds.size and bounds.min() < 1:
        raise ValueError("a bound must be at least 1")
    values, left = np.empty(bounds.shape, np.int64), np.arange(bounds.size)
    while left.size:
        words = stream.words(left.size).view(np.int64)
        left = left[: _keep_below(bounds, words, left, values)]
    return values


@_compiled
def _keep_below(bounds, words, left, values):  # type: ignore[no-untyped-def]
    # A word for each entry that is left. Returns how many are left still, which come to stand first.
    kept = 0
    for i in range(left.size):
        entry = left[i]
        values[entry] = words[i] & _mask_below(bounds[entry])
        left[kept] = entry  # which is at i or before: without a branch that nobody can foresee
        kept += values[entry] >= bounds[entry]
    return kept


def events(chance: Fraction, size: int, stream: WordStream) -> NDArray[np.bool_]:
    """Say of each of independent events of a rational probability whether it happens, exactly.

    Lemma 57 of docs/privacy.md.

    Parameters
    ----------
    chance : Fraction
        Probability of each, in [0, 1).
    size : int
        How many.
    stream : WordStream

    Returns
    -------
    ndarray of bool, shape (size,)

    Raises
    ------
    ValueError
        If the probability is outside its range.
    """
    if not 0 <= chance < 1:
        raise ValueError("the probability of an event must be at least 0 and below 1")
    digit, rest = divmod(chance.numerator << 64, chance.denominator)
    words = stream.words(size)
    happens = words < np.uint64(digit)
    if rest:  # a word that is the first digit itself leaves it to the next: once in 2^64 events
        undecided = words == np.uint64(digit)
        if undecided.any():
            chance_left = Fraction(rest, chance.denominator)
            happens[undecided] = events(chance_left, int(undecided.sum()), stream)
    return happens


def geometric_up_to(chance: Fraction, most: NDArray[np.int64], stream: WordStream) -> NDArray[np.int64]:
    """Count how many events of a probability happen before the first that does not, each up to a most.

    Lemma 58 of docs/privacy.md.

    Parameters
    ----------
    chance : Fraction
        Probability of each event, in [0, 1).
    most : ndarray of int64, shape (n,)
        Where counting stops, at least 0.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    counts = np.zeros(most.size, np.int64)
    left = np.flatnonzero(most > 0)
    while left.size:
        left = left[events(chance, left.size, stream)]
        counts[left] += 1
        left = left[counts[left] < most[left]]
    return counts


def leave_out(sizes: NDArray[np.int64], most: NDArray[np.int64], stream: WordStream) -> NDArray[np.int64]:
    """Choose the records that stay: all of a pool that has few enough, else a uniformly random subset.

    Lemma 31 of docs/privacy.md.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_pools,)
        **Confidential**: records of each pool; they stand pool after pool.
    most : ndarray of int64, shape (n_pools,)
        The most that may stay of each pool, at least 0.
    stream : WordStream
        Key stream of this batch's "lots" stage.

    Returns
    -------
    ndarray of int64
        **Confidential**: positions of the records that stay, pool after pool; ``min(sizes, most)`` of each.

    Notes
    -----
    Without replacement, by exchanging (Fisher and Yates): the t-th that stays is uniform among those that are
    left. Of a pool that nothing is left out of, no random number is asked for.
    """
    stay = np.minimum(sizes, most)
    ends = np.cumsum(sizes)
    begin = ends - sizes
    crowded = np.flatnonzero(sizes > most)
    position = np.arange(int(sizes.sum()))
    first = np.repeat(begin[crowded], stay[crowded])
    place = np.arange(first.size) - np.repeat(np.cumsum(stay[crowded]) - stay[crowded], stay[crowded])
    left = np.repeat(sizes[crowded], stay[crowded]) - place
    exchange(position, first + place, first + place + uniform_below(left, stream))
    return position[segment_indices(begin, stay)]


@_compiled
def exchange(values, first, second):  # type: ignore[no-untyped-def]
    """Exchange values at pairs of places, one pair after the other."""
    for t in range(first.size):
        values[first[t]], values[second[t]] = values[second[t]], values[first[t]]
