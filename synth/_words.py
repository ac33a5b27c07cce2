"""What compiled samplers share: how they are compiled, and bounded integers from words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba

__all__ = ["bounded", "compiled"]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel, free of the interpreter's lock; the machine code is kept on disk."""
    return cast("Callable[..., Any]", numba.njit(nogil=True, cache=True)(function))


@compiled
def bounded(words, position, bound):  # type: ignore[no-untyped-def]
    """Return an integer uniform on [0, bound) and the next position, or -1 when words run out.

    Lemma 17 of docs/privacy.md.

    Each try is independent of the ones before it, so going on with new words leaves no bias.
    """
    mask = bound - 1
    mask |= mask >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    mask |= mask >> 8
    mask |= mask >> 16
    mask |= mask >> 32
    while position < words.size:
        value = words[position] & mask
        position += 1
        if value < bound:
            return value, position
    return -1, position
