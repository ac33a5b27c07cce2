"""Planning in parallel: the same calls by threads of this process, or by a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

_S = TypeVar("_S")
_T = TypeVar("_T")
_THREADS = 2  # more would take memory, and much of a call is Python


class ParallelMap(Protocol):
    """Calls a function with each of some items, as `map` does; only public data are in either."""

    def __call__(self, function: Callable[[_S], _T], items: Sequence[_S], /) -> Iterable[_T]:
        """Return the results, in the order of the items."""


def thread_map(function: Callable[[_S], _T], items: Sequence[_S], /) -> Iterator[_T]:
    """Call the function by threads of this process."""
    with ThreadPoolExecutor(_THREADS) as threads:
        yield from threads.map(function, items)
