"""The shipped kernel's source, run through every integer it can draw: equal to the theory, as fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest

from ..enumeration import CircleError, Enumerator, Sequence, Source, replaced, single_urn
from ..reference import Urn, multinomial


@dataclass(frozen=True)
class Case:
    """One or more pools with the same domain, their sizes, and where their workers live."""

    q: int
    prior: list[int]
    stratum: list[int]
    coins: list[tuple[int, int]]
    m: list[int]
    homes: list[list[int]]

    def enumerated(self, edit: Source | None = None, table: int = 32) -> tuple[dict[Sequence, Fraction], int]:
        sizes = [(len(home), m) for home, m in zip(self.homes, self.m, strict=True)]
        urns = single_urn(self.q, self.prior, self.stratum, self.coins, sizes)
        enumerator = Enumerator(urns, [cell for home in self.homes for cell in home], edit, table)
        return enumerator.distribution(), enumerator.grown

    def theory(self) -> dict[Sequence, Fraction]:
        """All coins first, then Dirichlet-multinomial; every order of a histogram equally likely."""
        total: dict[Sequence, Fraction] = {(): Fraction(1)}
        for home, m in zip(self.homes, self.m, strict=True):
            pool = Urn(
                len(home),
                m,
                tuple(Fraction(self.prior[s], self.q) for s in self.stratum),
                tuple(Fraction(*self.coins[s]) for s in self.stratum),
            )
            p = pool.distribution(tuple(home.count(c) for c in range(pool.k)))
            sequences = [()] if m == 0 else [(c,) for c in range(pool.k)]
            for _ in range(m - 1):
                sequences = [(*s, c) for s in sequences for c in range(pool.k)]
            one = {}
            for sequence in sequences:
                histogram = tuple(sequence.count(c) for c in range(pool.k))
                if p[histogram]:
                    one[sequence] = p[histogram] / multinomial(histogram)
            total = {before + s: x * y for before, x in total.items() for s, y in one.items()}
        return total

    def tells(self, mutant: Source) -> bool:
        """Whether an edited kernel draws something else here, reads past its arrays, or never ends."""
        try:
            return self.enumerated(mutant)[0] != self.theory()
        except (IndexError, CircleError, ZeroDivisionError):
            return True


HALF, QUARTER, SURE, THIRDS = (1, 2), (1, 4), (1, 1), (2, 3)

CASES = {
    "no pruning": Case(2, [1], [0, 0, 0], [SURE], [3], [[1, 1]]),
    "one draw": Case(1, [1], [0, 0], [HALF], [1], [[0]]),
    "all cells may be pruned": Case(1, [2], [0, 0, 0], [HALF], [3], [[2]]),
    "mixed strata, out of order": Case(2, [1, 3], [1, 0, 1, 0], [SURE, QUARTER], [2], [[1, 2]]),
    "two kinds of coins": Case(2, [1, 2], [1, 0, 1, 0], [THIRDS, QUARTER], [3], [[3]]),
    "a stratum without cells": Case(1, [1, 5, 2], [2, 0, 2], [SURE, HALF, HALF], [3], [[0]]),
    "more draws than workers": Case(1, [1], [0, 0], [QUARTER], [5], [[1]]),
    "fewer draws than workers": Case(3, [2], [0, 0, 0], [HALF], [2], [[2, 0, 2, 2]]),
    "one cell": Case(2, [3], [0], [HALF], [4], [[0, 0]]),
    "two pools": Case(1, [1, 2], [0, 1, 1], [SURE, HALF], [1, 2], [[2], [1]]),
    "three pools of one worker": Case(1, [1], [0, 0], [HALF], [1, 1, 2], [[0], [1], [0]]),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
def test_the_kernel_draws_the_mechanism(case: Case) -> None:
    enumerated, _ = case.enumerated()
    assert sum(enumerated.values()) == 1
    assert enumerated == case.theory()


@every_case
def test_a_pools_draws_are_exchangeable(case: Case) -> None:
    enumerated, _ = case.enumerated()
    by_histogram: dict[tuple[Sequence, ...], set[Fraction]] = {}
    for sequence, p in enumerated.items():
        parts, start = [], 0
        for m in case.m:
            parts.append(tuple(sorted(sequence[start : start + m])))
            start += m
        by_histogram.setdefault(tuple(parts), set()).add(p)
    assert all(len(values) == 1 for values in by_histogram.values())
    assert len(by_histogram) < len(enumerated) or max(case.m) == 1 or case.stratum == [0]


@every_case
def test_a_table_that_grows_in_the_middle_of_a_pool_changes_nothing(case: Case) -> None:
    # The same kernel with the smallest table it could begin with: it is half full at once.
    edit = replaced(("state[_SIZE] = 32", "state[_SIZE] = 2"), ("< 4 * n:", "< n:"))
    enumerated, grown = case.enumerated(edit, table=1)
    assert enumerated == case.theory()
    assert (grown > 0) == any(coin != SURE for s, coin in enumerate(case.coins) if s in case.stratum)


BOUND = "workers + noise + q * t)"
STRATUM = "while y >= prior[pool, s] * (starts[s + 1] - starts[s]):"
REMEMBER = "                    table[0, place] = cell\n"
WAIT = "if v < 0:\n                        state[_DRAW], state[_PENDING] = t, z\n"
FILL = "if state[_FILLED] == 0:\n                    for i in range(n):"

MUTANTS = {
    "worker range one too long": replaced(("if z < workers:", "if z <= workers:")),
    "worker range one too short": replaced(("if z < workers:", "if z < workers - 1:")),
    "noise range one too long": replaced(("if y >= noise:", "if y > noise:")),
    "urn one too heavy": replaced((BOUND, "workers + noise + q * t + 1)")),
    "urn one too light": replaced((BOUND, "workers + noise + q * t - 1)")),
    "last draw not in the urn": replaced((BOUND, "workers + noise + q * max(t - 1, 0))")),
    "earlier draws shifted": replaced(("(y - noise) // q", "(y - noise + 1) // q")),
    "coin one too kind": replaced(("if v < coin[s, 0]", "if v <= coin[s, 0]")),
    "coin one too hard": replaced(("if v < coin[s, 0]", "if v < coin[s, 0] - 1")),
    "coin of the first stratum": replaced(("state[_WORD], coin[s, 1])", "state[_WORD], coin[0, 1])")),
    "pruning ignored": replaced(("if table[1, place] == _PRUNED:", "if False:")),
    "coin forgotten": replaced(
        (REMEMBER, "                    if v >= coin[s, 0]:\n                        continue\n" + REMEMBER)
    ),
    "draw waiting for its coin is lost": replaced(
        (WAIT, "if v < 0:\n                        state[_DRAW] = t\n")
    ),
    "workers' cells throw coins": replaced((FILL, FILL.replace("range(n)", "range(n - 1)"))),
    "coins of the pool before": replaced(("table[1, : state[_SIZE]] = _EMPTY\n", "pass\n")),
    "stratum one off": replaced((STRATUM, STRATUM.replace(">=", ">"))),
    "cell one off": replaced(("cell = y // prior[pool, s]", "cell = (y + 1) // prior[pool, s]")),
    "cells not looked up": replaced(("cell = cells_by_stratum[starts[s] + cell]", "pass")),
    "workers of the first pool": replaced(("cells[first + z // q]", "cells[z // q]")),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_mutant_of_the_kernel_is_caught(mutant: Source) -> None:
    assert any(case.tells(mutant) for case in CASES.values())
