"""How far a step is: told to whoever shows it, and never of confidential numbers."""

from __future__ import annotations

from threading import Lock
from typing import Protocol


class Progress(Protocol):
    """Is told how many parts of a step are done and how many there are, where it has parts."""

    def __call__(self, done: int, total: int, /) -> None:
        """Show it; the total may be an `EstimatedTotal`."""


class EstimatedTotal(int):
    """A number of parts that is expected, and not known."""


class ProgressCounter:
    """Counts the parts of a step that are done, by whichever thread; the total is estimated unless given."""

    def __init__(self, progress: Progress | None = None, total: int = 0) -> None:
        self._progress, self._total, self._done, self._lock = progress, total or EstimatedTotal(0), 0, Lock()
        if total and progress is not None:
            progress(0, total)  # from now on it takes time

    def __call__(self) -> None:
        """Count one more."""
        with self._lock:
            self._done += 1
            if isinstance(self._total, EstimatedTotal):
                self._total = EstimatedTotal(max(self._total, self._done + 1))
            if self._progress is not None:
                self._progress(self._done, self._total)

    def expect(self, more: int) -> None:
        """Estimate that so many more will be done."""
        self._total = EstimatedTotal(self._done + more)

    def end(self) -> None:
        """Tell that there are no more."""
        if self._progress is not None and self._done:
            self._progress(self._done, self._done)
