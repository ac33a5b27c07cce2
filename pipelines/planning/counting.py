"""How much of planning is done, and how much there is to do."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class About(int):
    """A number of parts that is expected, and not known."""


class Parts:
    """Counts the parts of a step that are done, by whichever thread.

    Parameters
    ----------
    count : callable, optional
        Told how many are done, and how many there are, or `About` how many.
    of : int
        How many there are, where that is known.
    """

    def __init__(self, count: Callable[[int, int], None] | None = None, of: int = 0) -> None:
        self._count, self._of, self._done, self._lock = count, of or About(0), 0, Lock()
        if of and count is not None:
            count(0, of)  # from now on it takes time

    def __call__(self) -> None:
        """Count one more."""
        with self._lock:
            self._done += 1
            if isinstance(self._of, About):
                self._of = About(max(self._of, self._done + 1))
            if self._count is not None:
                self._count(self._done, self._of)

    def expect(self, more: int) -> None:
        """Say that about so many more will be done."""
        self._of = About(self._done + more)

    def end(self) -> None:
        """Say that there are no more."""
        if self._count is not None and self._done:
            self._count(self._done, self._done)
