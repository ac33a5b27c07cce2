"""What compiled samplers share: how they are compiled, and bounded integers from words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class _Kernel:
    """A function that Numba compiles when it is first called: to load Numba takes longer than many a verb.

    Kernels that call it see what it compiles to.
    """

    def __init__(self, function: Callable[..., Any], inline: str = "never") -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = {"inline": inline}  # where Numba looks it up as it compiles what calls this

    @functools.cached_property
    def _compiled(self) -> Any:
        import numba

        return numba.njit(nogil=True, cache=True)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes it for in another kernel."""
        return self._compiled._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self._compiled(*arguments)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel, free of the interpreter's lock; the machine code is kept on disk."""
    return _Kernel(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do what `compiled` does, and put the code into kernels that call it: each array is seven arguments."""
    return _Kernel(function, "always")


@inlined
def mask_below(bound):  # type: ignore[no-untyped-def]
    """Return the bits that integers below a bound of 1 to 2^63 - 1 have, all set."""
    mask = bound - 1
    mask |= mask >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    mask |= mask >> 8
    mask |= mask >> 16
    mask |= mask >> 32
    return mask


@compiled
def bounded(words, position, bound):  # type: ignore[no-untyped-def]
    """Return an integer uniform on [0, bound) and the next position, or -1 when words run out.

    Lemma 17 of docs/privacy.md.

    Each try is independent of the ones before it, so going on with new words leaves no bias.
    """
    mask = mask_below(bound)
    while position < words.size:
        value = words[position] & mask
        position += 1
        if value < bound:
            return value, position
    return -1, position
