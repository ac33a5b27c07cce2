"""Randomness: key schedule, streams that equal their standards, and bounded integers without bias."""

from __future__ import annotations

import copy
import hashlib
import hmac
import itertools
import pickle
import struct
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth import randomness
from synth.randomness import RunKey, WordStream, events, uniform_below

from .reference import chi_square_p


class Scripted(WordStream):
    """A stream that gives the words it is told, and says how many were asked for."""

    def __init__(self, words: Iterable[int]) -> None:
        self._script = iter(words)
        self.given = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.given += count
        return np.array(list(itertools.islice(self._script, count)), np.uint64)


def chacha20_block(key: bytes, counter: int) -> bytes:
    """RFC 8439, section 2.3, nonce zero."""

    def rotate(x: int, by: int) -> int:
        return (x << by | x >> (32 - by)) & 0xFFFFFFFF

    def quarter(x: list[int], a: int, b: int, c: int, d: int) -> None:
        for one, two, three, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[one] = (x[one] + x[two]) & 0xFFFFFFFF
            x[three] = rotate(x[three] ^ x[one], by)

    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter, 0, 0, 0]
    state = start.copy()
    for _ in range(10):
        for i in range(4):
            quarter(state, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(state, start, strict=True)))


def hkdf(key: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt, one block of output."""
    extracted = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def test_the_reference_block_is_that_of_the_rfc() -> None:
    # RFC 8439, appendix A.1, test vectors 1 and 2: the zero key and nonce, blocks 0 and 1.
    assert (
        chacha20_block(bytes(32), 0)
        .hex()
        .startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc")
    )
    assert (
        chacha20_block(bytes(32), 1)
        .hex()
        .startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e")
    )


def test_words_are_the_chacha20_key_stream() -> None:
    key = bytes(range(32))
    expected = np.frombuffer(b"".join(chacha20_block(key, i) for i in range(5)), "<u8")
    stream = WordStream(key)
    # Read in pieces that cut through blocks of eight words.
    pieces = [stream.words(count) for count in (1, 0, 6, 9, 24)]
    assert np.array_equal(np.concatenate(pieces), expected)


def test_batch_keys_are_hkdf_of_the_run_key() -> None:
    key = hkdf((77).to_bytes(32, "big"), b"odsynth/1/urn/12")
    assert np.array_equal(
        RunKey.from_seed(77).stream("urn", 12).words(8), np.frombuffer(chacha20_block(key, 0), "<u8")
    )


def test_same_batch_same_bytes_and_otherwise_different_ones() -> None:
    key = RunKey.generate()
    names = [(stage, batch) for stage in ("urn", "blocks", "urn/1") for batch in (0, 1, 10, 11)]
    streams = {name: key.stream(*name).words(16).tobytes() for name in names}
    assert all(key.stream(*name).words(16).tobytes() == drawn for name, drawn in streams.items())
    assert len(set(streams.values())) == len(names)
    assert RunKey.generate().stream("urn", 0).words(16).tobytes() != streams["urn", 0]


def test_only_a_generated_key_is_secure() -> None:
    assert RunKey.generate().secure
    assert not RunKey.from_seed(1).secure
    with pytest.raises(AttributeError):
        RunKey.from_seed(1).secure = True  # type: ignore[misc]


def test_a_key_of_another_length_is_refused() -> None:
    for length in [0, 16, 31, 33]:
        with pytest.raises(ValueError, match="32 bytes"):
            RunKey(bytes(length), secure=True)


def test_keys_and_streams_are_never_pickled_or_copied() -> None:
    key = RunKey.generate()
    for secret in (key, key.stream("urn", 0), {"nested": [key]}):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="never pickled"):
                pickle.dumps(secret, protocol)
        with pytest.raises(TypeError, match="never pickled"):
            copy.deepcopy(secret)


def test_a_key_is_not_printed() -> None:
    secret = bytes(range(100, 132))
    key = RunKey(secret, secure=True)
    for text in (repr(key), str(key), f"{key}", repr([key])):
        assert "RunKey(secure=True)" in text
        assert secret.hex() not in text
        assert "100" not in text
        assert "defg" not in text


def test_a_destroyed_key_is_overwritten_and_gives_nothing() -> None:
    key = RunKey.generate()
    stream = key.stream("urn", 0)
    buffer = key._key
    seen: list[bytes] = []

    class Watched(bytearray):
        def clear(self) -> None:
            seen.append(bytes(self))
            super().clear()

    key._key = Watched(buffer)
    key.destroy()
    assert seen == [bytes(32)]
    with pytest.raises(RuntimeError, match="destroyed"):
        key.stream("urn", 1)
    key.destroy()
    assert stream.words(1).size == 1  # a stream that was derived before goes on


def test_a_stream_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "_MAX_STREAM_BYTES", 80)
    stream = WordStream(bytes(32))
    assert stream.words(10).size == 10
    with pytest.raises(OverflowError, match="smaller batches"):
        stream.words(1)


def test_every_value_comes_from_equally_many_words() -> None:
    for bound in [*range(1, 18), 31, 32, 33, 100, 127, 128, 129, 1000]:
        # All values of the bits that the bound needs, each once: accepted ones are 0 .. bound - 1, each once.
        width = 1 << (bound - 1).bit_length()
        high = 0xABCDEF << 40  # bits above the mask do not matter
        accepted = []
        for word in range(width):
            stream = Scripted([high | word, high | 0])
            value = int(uniform_below(np.array([bound], np.int64), stream)[0])
            if stream.given == 1:
                accepted.append(value)
            else:
                assert word >= bound
                assert value == 0
        assert accepted == list(range(bound))
        assert width < 2 * bound


EDGES = [1, 2, 2**32 - 1, 2**32, 2**32 + 1, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1]


def test_large_bounds_reject_the_first_value_that_is_too_large() -> None:
    for bound in EDGES:
        width = 1 << (bound - 1).bit_length()
        top = 2**64 - width if width < 2**64 else 0
        rejected = [top | bound] if bound < width else []
        stream = Scripted([*rejected, top | (bound - 1), 5])
        assert uniform_below(np.array([bound], np.int64), stream).tolist() == [bound - 1]
        assert stream.given == 1 + len(rejected)


@settings(max_examples=30)
@given(
    st.lists(st.one_of(st.integers(1, 2**63 - 1), st.integers(1, 70), st.sampled_from(EDGES)), max_size=20),
    st.integers(0, 2**30),
)
def test_values_are_below_their_bounds_and_repeatable(bounds: list[int], seed: int) -> None:
    wanted = np.array(bounds, np.int64)
    drawn = uniform_below(wanted, RunKey.from_seed(seed).stream("test", 0))
    assert drawn.dtype == np.int64
    assert np.all((drawn >= 0) & (drawn < wanted))
    assert np.array_equal(drawn, uniform_below(wanted, RunKey.from_seed(seed).stream("test", 0)))


def test_rejected_values_are_drawn_again_at_their_own_place() -> None:
    # Bounds 3, 4, 3: words 3, 1, 2 reject the first; then 3 again, then 0.
    stream = Scripted([3, 1, 2, 3, 0])
    assert uniform_below(np.array([3, 4, 3], np.int64), stream).tolist() == [0, 1, 2]
    assert stream.given == 5


def test_a_bound_below_one_is_refused() -> None:
    for bounds in [[0], [5, 0, 3], [-1], [-(2**63)]]:
        with pytest.raises(ValueError, match="at least 1"):
            uniform_below(np.array(bounds, np.int64), Scripted([]))


@pytest.mark.parametrize("bound", [2**32 + 1, 2**62 + 2**61 + 1])
def test_large_values_are_uniform(bound: int) -> None:
    draws, bins = 400_000, 64
    values = uniform_below(np.full(draws, bound, np.int64), RunKey.from_seed(1).stream("test", bound))
    edges = [-(-bound * i // bins) for i in range(bins + 1)]
    bins_of = np.searchsorted(np.array(edges[1:-1], np.int64), values, side="right")
    observed = np.bincount(bins_of, minlength=bins)
    assert chi_square_p(observed, [draws * (b - a) / bound for a, b in itertools.pairwise(edges)]) > 1e-4


@pytest.mark.parametrize(
    "chance", [Fraction(1, 3), Fraction(5, 7), Fraction(1, 2), Fraction(1, 2**70), Fraction(0)]
)
def test_an_event_happens_if_a_uniform_number_is_below_its_probability(chance: Fraction) -> None:
    """For words near the first two digits of the probability, the interval that they leave decides."""
    first, rest = divmod(chance * 2**64, 1)
    second = int(rest * 2**64)
    for word, further in itertools.product((-1, 0, 1), repeat=2):
        words = int(first) + word, second + further
        if not all(0 <= w < 2**64 for w in words):
            continue
        low = Fraction(words[0], 2**64) + Fraction(words[1], 2**128)
        if low < chance < low + Fraction(1, 2**128):
            continue  # a third word decides
        assert events(chance, 1, Scripted([*words, 0])).tolist() == [low < chance]


def test_only_undecided_events_ask_for_more_words() -> None:
    digit = 2**64 // 3
    stream = Scripted([digit - 1, digit, digit + 1, digit, digit - 1, digit + 1])
    assert events(Fraction(1, 3), 4, stream).tolist() == [True, True, False, False]
    assert stream.given == 6


@pytest.mark.parametrize("chance", [Fraction(1), Fraction(-1, 2)])
def test_a_probability_that_is_none_is_refused(chance: Fraction) -> None:
    with pytest.raises(ValueError, match="probability"):
        events(chance, 1, RunKey.from_seed(1).stream("events", 0))


def test_a_derived_key_has_streams_of_its_own() -> None:
    key = RunKey.from_seed(1)
    secrets = {k.secret() for k in (key, key.derive("a"), key.derive("b"), key.derive("a").derive("a"))}
    assert len(secrets) == 4
    assert key.derive("a").secret() == RunKey.from_seed(1).derive("a").secret()
    assert not key.derive("a").secure
    streams = {key.stream("a", 0).words(1)[0], key.derive("a").stream("a", 0).words(1)[0]}
    assert len(streams) == 2
