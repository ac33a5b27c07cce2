"""The integer process of the sampler, run through all of its values in exact arithmetic.

The kernel's own Python source is run one bounded integer at a time: it is told one value, then that words
have run out, so that everything it knows is in its state, its table and what it has drawn. These are the
nodes of a Markov chain whose steps are the values below each bound, all equally likely. A rejected draw that
teaches the kernel nothing leads back to the same node and is conditioned away exactly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from synth.dirichlet import urn
from synth.dirichlet.urn import Urns

Source = Callable[[str], str]
Sequence = tuple[int, ...]
Node = tuple[bytes, bytes, bytes, int]


def kernel_source() -> str:
    source = inspect.getsource(urn._draw.py_func)  # type: ignore[attr-defined]
    assert source.startswith("@_compiled\ndef _draw(")
    return source.removeprefix("@_compiled\n")


def replaced(*pairs: tuple[str, str]) -> Source:
    """An edit of the kernel's source; each piece of text must be there exactly once."""

    def edit(source: str) -> str:
        for old, new in pairs:
            if source.count(old) != 1:
                raise LookupError(f"not there exactly once: {old!r}")
            source = source.replace(old, new)
        return source

    return edit


class CircleError(Exception):
    """The kernel went back to a state that it had left."""


class Enumerator:
    """Exact distribution of the sequences that the kernel draws."""

    def __init__(self, urns: Urns, cells: list[int], edit: Source | None = None, table: int = 32) -> None:
        self.urns, self.cells = urns, np.array(cells, np.int64)
        self.table = table
        self.script: list[int] = []
        self.bound = 0
        self.grown = 0
        source = kernel_source()
        space = {name: getattr(urn, name) for name in dir(urn) if not name.startswith("__")}
        space |= {"_bounded": self._bounded, "_slot": urn._slot.py_func}  # type: ignore[attr-defined]
        exec(compile(edit(source) if edit else source, "kernel", "exec"), space)
        self._kernel: Callable[..., int] = space["_draw"]

    def _bounded(self, words: object, position: int, bound: int) -> tuple[int, int]:
        self.bound = int(bound)
        return (self.script.pop(0), position) if self.script else (-1, position)

    def _step(self, node: Node | None, values: list[int]) -> tuple[int, Node]:
        """Go on from a node with the given values and then none."""
        size = int(self.urns.draw_offsets[-1])
        if node is None:
            state, table, drawn = (
                np.zeros(6, np.int64),
                np.zeros((2, self.table), np.int64),
                np.full(size, -1),
            )
            state[urn._PENDING] = -1
        else:
            state = np.frombuffer(node[0], np.int64).copy()
            table = np.frombuffer(node[1], np.int64).reshape(2, node[3]).copy()
            drawn = np.frombuffer(node[2], np.int64).copy()
        self.script = values
        while True:
            status = self._kernel(self.urns, self.cells, None, state, table, drawn)
            if status != urn._NEED_TABLE:
                break
            # what `sample_cells` does
            size = int(state[urn._SIZE])
            larger = np.zeros((2, max(2 * size, table.shape[1])), np.int64)
            urn._rehash.py_func(table, size, larger, 2 * size)  # type: ignore[attr-defined]
            table, state[urn._SIZE] = larger, 2 * size
            self.grown += 1
        assert not self.script
        state[urn._WORD] = 0
        # Places and keys that are free say nothing.
        table[0][table[1] == urn._EMPTY] = 0
        return int(status), (state.tobytes(), table.tobytes(), drawn.tobytes(), table.shape[1])

    @staticmethod
    def _order(node: Node) -> tuple[int, ...]:
        state = np.frombuffer(node[0], np.int64)
        return (
            *state[[urn._POOL, urn._DRAW, urn._FILLED, urn._SIZE]].tolist(),
            int(state[urn._PENDING] >= 0),
        )

    def distribution(self) -> dict[Sequence, Fraction]:
        """P(sequence of drawn cells), of all pools one after the other."""
        _, start = self._step(None, [])
        waiting: dict[tuple[int, ...], dict[Node, Fraction]] = {self._order(start): {start: Fraction(1)}}
        total: dict[Sequence, Fraction] = {}
        while waiting:
            order = min(waiting)
            for node, p in waiting.pop(order).items():
                self._step(node, [])
                bound, steps, back = self.bound, dict[tuple[int, Node], int](), 0
                for value in range(bound):
                    step = self._step(node, [value])
                    if step[1] == node:
                        back += 1
                    else:
                        steps[step] = steps.get(step, 0) + 1
                if back == bound:
                    raise CircleError
                for (status, following), ways in steps.items():
                    share = p * Fraction(ways, bound - back)
                    if status == urn._DONE:
                        sequence = tuple(np.frombuffer(following[2], np.int64).tolist())
                        total[sequence] = total.get(sequence, Fraction(0)) + share
                    else:
                        # Every step goes forward, so a node is complete when its turn comes.
                        if self._order(following) <= order:
                            raise CircleError
                        level = waiting.setdefault(self._order(following), {})
                        level[following] = level.get(following, Fraction(0)) + share
        return total


def single_urn(
    q: int, prior: list[int], stratum: list[int], coins: list[tuple[int, int]], sizes: list[tuple[int, int]]
) -> Urns:
    """Pools of one domain: prior numerator and coin per stratum, (n, m) per pool."""
    strata = len(coins)
    order = sorted(range(len(stratum)), key=lambda c: (stratum[c], c))
    starts = np.cumsum([0, *(stratum.count(s) for s in range(strata))])
    data: dict[str, Any] = {
        "denominator": q,
        "offsets": np.cumsum([0, *(n for n, _ in sizes)]),
        "draw_offsets": np.cumsum([0, *(m for _, m in sizes)]),
        "prior": np.array([prior] * len(sizes), np.int64),
        "coin": np.array(coins, np.int64),
        "domain": np.zeros(len(sizes), np.int32),
        "cells_by_stratum": np.array(order, np.int64),
        "stratum_offsets": starts[None, :],
    }
    return Urns(**data)
