"""The compiled sampler: bounded integers word by word, distribution, and independence of its buffers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.dirichlet import urn
from synth.dirichlet.urn import Urns, sample_cells
from synth.randomness import RunKey, WordStream

from ..enumeration import single_urn
from ..reference import Urn, chi_square_p

pytestmark = pytest.mark.quick


def narrow(urns: Urns) -> Urns:
    """With the types that the sampler is given in a run."""
    return urns._replace(cells_by_stratum=urns.cells_by_stratum.astype(np.int32))


class Words:
    """The same words as a stream, one by one."""

    def __init__(self, stream: WordStream) -> None:
        self._stream = stream
        self.used = 0

    def below(self, bound: int) -> int:
        """Mask and reject, as `synth.randomness.uniform_below` states."""
        mask = (1 << (bound - 1).bit_length()) - 1
        while True:
            self.used += 1
            value = int(self._stream.words(1)[0]) & mask
            if value < bound:
                return value


def slow_sample(urns: Urns, cells: list[int], stream: WordStream) -> list[int]:
    """The process of Lemma 16 (docs/privacy.md) with dictionaries and Python integers."""
    words, drawn = Words(stream), []
    q = urns.denominator
    for p in range(len(urns.domain)):
        homes = cells[urns.offsets[p] : urns.offsets[p + 1]]
        starts = urns.stratum_offsets[urns.domain[p]].tolist()
        noise = []  # (cell, stratum) of every unit would be long: ranges instead
        for s, (a, b) in enumerate(itertools.pairwise(starts)):
            noise.append((s, int(urns.prior[p, s]), urns.cells_by_stratum[a:b].tolist()))
        mass = sum(a * len(of) for _, a, of in noise)
        kept = dict.fromkeys(homes, True)
        here: list[int] = []
        while len(here) < urns.draw_offsets[p + 1] - urns.draw_offsets[p]:
            z = words.below(q * len(homes) + mass + q * len(here))
            if z < q * len(homes):
                here.append(homes[z // q])
                continue
            z -= q * len(homes)
            if z >= mass:
                here.append(here[(z - mass) // q])
                continue
            for s, a, of in noise:
                if z < a * len(of):
                    cell = of[z // a]
                    top, bottom = urns.coin[s].tolist()
                    if cell not in kept:
                        kept[cell] = top == bottom or words.below(bottom) < top
                    if kept[cell]:
                        here.append(cell)
                    break
                z -= a * len(of)
        drawn += here
    return drawn


def many_pools(seed: int, pools: int = 40, cells: int = 300) -> tuple[Urns, NDArray[np.int32]]:
    """Pools of mixed sizes over one domain with coins; some throw more coins than a table begins with."""
    draw = np.random.default_rng(seed)
    sizes = [
        (int(n), int(m))
        for n, m in zip(draw.integers(1, 12, pools), draw.integers(1, 15, pools), strict=True)
    ]
    sizes[3], sizes[7], sizes[11] = (400, 900), (3, 700), (600, 5)
    stratum = draw.integers(0, 3, cells).tolist()
    urns = narrow(single_urn(1000, [700, 2, 900], stratum, [(1, 1), (1, 3), (2, 7)], sizes))
    homes = draw.integers(0, cells, int(urns.offsets[-1])).astype(np.int32)
    return urns, homes


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.integers(1, 20), st.integers(1, 2**63 - 1), st.sampled_from([2**32 - 1, 2**32, 2**32 + 1, 2**62])
    ),
    st.lists(st.integers(0, 2**64 - 1), max_size=12),
    st.integers(0, 4),
)
def test_bounded_takes_the_first_word_that_fits(bound: int, words: list[int], position: int) -> None:
    mask = (1 << (bound - 1).bit_length()) - 1
    script = np.array(words, np.uint64).view(np.int64)
    fits = [(w & mask, i + 1) for i, w in enumerate(words) if i >= position and w & mask < bound]
    expected = fits[0] if fits else (-1, max(position, len(words)))
    assert urn._bounded(script, position, bound) == expected
    assert urn._bounded.py_func(script, position, bound) == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(3))
def test_the_kernel_equals_the_slow_one_word_by_word(seed: int) -> None:
    urns, homes = many_pools(seed)
    fast = sample_cells(urns, homes, RunKey.from_seed(seed).stream("urn", 0))
    assert fast.dtype == np.int32
    assert fast.tolist() == slow_sample(urns, homes.tolist(), RunKey.from_seed(seed).stream("urn", 0))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_kernel_equals_the_slow_one_on_any_small_batch(data: st.DataObject) -> None:
    strata = data.draw(st.integers(1, 3))
    stratum = data.draw(st.lists(st.integers(0, strata - 1), min_size=1, max_size=60))
    coins = data.draw(
        st.lists(st.sampled_from([(1, 1), (1, 2), (3, 7), (1, 10)]), min_size=strata, max_size=strata)
    )
    prior = data.draw(st.lists(st.sampled_from([1, 5, 100, 10**15]), min_size=strata, max_size=strata))
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=6))
    urns = narrow(single_urn(data.draw(st.sampled_from([1, 3, 1000])), prior, stratum, coins, sizes))
    total = int(urns.offsets[-1])
    homes = data.draw(st.lists(st.integers(0, len(stratum) - 1), min_size=total, max_size=total))
    seed = data.draw(st.integers(0, 2**20))
    fast = sample_cells(urns, np.array(homes, np.int32), RunKey.from_seed(seed).stream("urn", 0))
    assert fast.tolist() == slow_sample(urns, homes, RunKey.from_seed(seed).stream("urn", 0))


def with_table(size: int) -> Callable[..., NDArray[np.int32]]:
    """`sample_cells` whose first table has another size."""
    source = inspect.getsource(urn.sample_cells)
    assert source.count("np.zeros((2, 1024), np.int32)") == 1
    space: dict[str, Any] = {name: getattr(urn, name) for name in dir(urn) if not name.startswith("__")}
    exec("from __future__ import annotations\n" + source.replace("(2, 1024)", f"(2, {size})"), space)
    made: Callable[..., NDArray[np.int32]] = space["sample_cells"]
    return made


def test_results_do_not_depend_on_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    urns, homes = many_pools(5)
    key = RunKey.from_seed(9)
    expected = sample_cells(urns, homes, key.stream("urn", 4))
    for words in (1, 2, 3, 7, 64, 1000):
        monkeypatch.setattr(urn, "_MAX_WORDS", words)
        assert np.array_equal(sample_cells(urns, homes, key.stream("urn", 4)), expected)
    monkeypatch.undo()
    grown = 0
    rehash = urn._rehash

    def counted(*arguments: Any) -> None:
        nonlocal grown
        grown += 1
        rehash(*arguments)

    monkeypatch.setattr(urn, "_rehash", counted)
    for size in (1, 2, 32, 33, 128, 2**16):
        grown = 0
        assert np.array_equal(with_table(size)(urns, homes, key.stream("urn", 4)), expected)
        assert (
            grown >= 3 if size <= 128 else grown >= 1
        )  # many coins in one pool: half full in the middle of it
    monkeypatch.setattr(urn, "_MAX_WORDS", 1)
    assert np.array_equal(with_table(1)(urns, homes, key.stream("urn", 4)), expected)


@pytest.mark.parametrize("size", [0, 4, 6])
def test_a_wrong_number_of_workers_is_refused(size: int) -> None:
    urns = narrow(single_urn(1, [1], [0, 0], [(1, 1)], [(2, 2), (3, 3)]))
    with pytest.raises(ValueError, match="number of workers"):
        sample_cells(urns, np.zeros(size, np.int32), RunKey.from_seed(0).stream("urn", 0))


def test_a_domain_of_one_cell_gives_that_cell() -> None:
    urns = narrow(single_urn(3, [5], [0], [(1, 2)], [(1, 1), (4, 9), (1, 3)]))
    assert not sample_cells(urns, np.zeros(6, np.int32), RunKey.from_seed(0).stream("urn", 0)).any()


def test_the_heaviest_urn_does_not_overflow() -> None:
    # q (n + m) + sum of A k = 2^62 exactly: bounds stay below 2^62, and noise is nearly certain.
    q, n, m, k = 10**9, 2, 3, 4
    prior, left = divmod(2**62 - q * (n + m), k)
    assert left == 0
    urns = narrow(single_urn(q, [prior], [0] * k, [(1, 1)], [(n, m)] * 20_000))
    homes = np.zeros(n * 20_000, np.int32)
    drawn = sample_cells(urns, homes, RunKey.from_seed(3).stream("urn", 0))
    assert chi_square_p(np.bincount(drawn, minlength=k), [drawn.size / k] * k) > 1e-4
    few = slice(0, 50)
    small = narrow(single_urn(q, [prior], [0] * k, [(1, 1)], [(n, m)] * 50))
    again = sample_cells(small, homes[:100], RunKey.from_seed(3).stream("urn", 0)).reshape(-1, m)
    assert np.array_equal(again, drawn.reshape(-1, m)[few])


POOLS = {
    "no pruning": (2, [1], [0, 0, 0], [(1, 1)], [2, 0], 3),
    "pruning": (2, [3], [0, 0, 0, 0], [(1, 2)], [1, 1, 0], 4),
    "mixed": (10, [1, 25, 10], [2, 0, 1, 2], [(1, 1), (1, 4), (2, 3)], [3, 0], 5),
    "one worker": (4, [1, 7], [0, 1, 0, 1], [(1, 10), (9, 10)], [1], 4),
}


def chi_square(name: str, pools: int) -> float:
    q, prior, stratum, coins, home, m = POOLS[name]
    exact = Urn(
        len(home),
        m,
        tuple(Fraction(prior[s], q) for s in stratum),
        tuple(Fraction(*coins[s]) for s in stratum),
    )
    theory = exact.distribution(tuple(home.count(c) for c in range(exact.k)))
    urns = narrow(single_urn(q, prior, stratum, coins, [(len(home), m)] * pools))
    homes = np.tile(np.array(home, np.int32), pools)
    drawn = sample_cells(urns, homes, RunKey.from_seed(20240229).stream("urn", m)).reshape(pools, m)
    # the histogram of a pool as one number
    code = (np.int64(m + 1) ** drawn).sum(axis=1)
    values, counts = np.unique(code, return_counts=True)
    observed = dict(zip(values.tolist(), counts.tolist(), strict=True))
    outcomes = {
        sum(s * (m + 1) ** c for c, s in enumerate(h)): float(p) * pools for h, p in theory.items() if p
    }
    assert observed.keys() <= outcomes.keys()
    # outcomes expected fewer than ten times are one class
    rare = [code for code, e in outcomes.items() if e < 10]
    classes = [[code] for code, e in outcomes.items() if e >= 10] + ([rare] if rare else [])
    return chi_square_p(
        [sum(observed.get(c, 0) for c in codes) for codes in classes],
        [sum(outcomes[c] for c in codes) for codes in classes],
    )


@pytest.mark.parametrize("name", POOLS)
def test_pools_are_drawn_from_the_exact_distribution(name: str) -> None:
    assert chi_square(name, 1_000_000 // POOLS[name][-1]) > 1e-4


def test_chi_square_sees_a_slightly_wrong_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chi_square("mixed", 400_000) > 1e-4
    original = urn.sample_cells

    def off(urns: Urns, *arguments: Any) -> NDArray[np.int32]:
        wrong = urns.prior.copy()
        wrong[:, 1] = 27
        return original(urns._replace(prior=wrong), *arguments)

    monkeypatch.setitem(chi_square.__globals__, "sample_cells", off)
    assert chi_square("mixed", 400_000) < 1e-4
