"""How far a task is: its step, and how many of the parts of that are done, as its worker last said."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from pipelines.service.store import utc_now

_ENOUGH = 4  # parts that must be done before their rate says something: as many are worked on at once


class Progress(BaseModel):
    """What is kept with a run while a worker has it.

    Attributes
    ----------
    step : str
        A name of the program's.
    number : int
        Which step it is.
    of : int or None
        How many there are, where that is known.
    done, total : int
        Parts of this step; of a step without parts, and before it has said so, none of none.
    first : int
        How many were done when this worker began with them; since what time, and when it last counted.
    since, at : str
    """

    step: str
    number: int
    of: int | None
    done: int = 0
    total: int = 0
    first: int = 0
    since: str = ""
    at: str = ""

    def counted(self, done: int, total: int) -> Progress:
        """Return it with what the worker says of the parts of this step."""
        now = utc_now()
        begins = {} if self.total else {"first": done, "since": now}
        return self.model_copy(update={"done": done, "total": total, "at": now, **begins})

    @property
    def percent(self) -> int | None:
        """How much of the step is done; None where it has no parts."""
        return 100 * self.done // self.total if self.total else None

    def seconds_left(self, now: str | None = None) -> float | None:
        """Return how long the rest of the step takes at the rate of what this worker has done of it.

        None where nothing was measured: the step has no parts, few of them are done, or the next one takes
        longer than the earlier ones have let expect.
        """
        new = self.done - self.first
        if new < _ENOUGH or self.done >= self.total:
            return None
        measured = _seconds(self.since, self.at) / new
        left = measured * (self.total - self.done) - _seconds(self.at, now or utc_now())
        return left if left > 0 else None

    @property
    def words(self) -> str:
        """It in words: of a time that is left only what was measured."""
        words = f"Step {self.number}{f' of {self.of}' if self.of else ''}: {self.step}"
        if self.percent is not None:
            words += f", {self.percent} % ({self.done:,} of {self.total:,})"
        if (left := self.seconds_left()) is not None:
            words += f", {_time(left)} left of this step"
        return words


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 90:
        return f"about {minutes} minute{'s'[: minutes > 1]}"
    return f"about {round(minutes / 60)} hours"
