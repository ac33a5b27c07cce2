"""How far a task is: percent of what is counted, and a time that is left only where it was measured."""

from __future__ import annotations

import pytest

from pipelines.service.queue import progress
from pipelines.service.queue.progress import Progress


def at(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"


COUNTED = Progress(
    step="Drawing", number=4, of=6, done=10, total=20, first=5, since=at(0), at=at(50)
)  # ten seconds each


def test_a_time_is_left_only_where_it_was_measured() -> None:
    assert COUNTED.percent == 50
    assert COUNTED.seconds_left(at(50)) == 100
    assert COUNTED.seconds_left(at(70)) == 80
    for changes, now in (
        ({"done": 8}, 50),  # three parts say little
        ({"done": 20}, 50),
        ({"total": 0}, 50),  # of a step without parts
        ({}, 150),  # the next one takes longer than all that were measured let expect
    ):
        assert COUNTED.model_copy(update=changes).seconds_left(at(now)) is None


def test_the_rate_is_that_of_the_worker_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on after an interruption begins with parts that others have done."""
    times = iter((at(0), at(8)))
    monkeypatch.setattr(progress, "utc_now", lambda: next(times))
    counted = Progress(step="Drawing", number=1, of=3).counted(12, 20).counted(16, 20)
    assert (counted.percent, counted.seconds_left(at(8))) == (80, 8)
