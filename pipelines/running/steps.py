"""The steps of a plan and of a run, by name, and what is told and noted of each as it begins and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Self

from pipelines.storage.event_log import EventLog


class Step(Enum):
    """A step; its value is its title for people, in the log of a run and on the pages of the service."""

    READ_PUBLIC_INPUTS = "Reading public inputs"
    CHOOSE = "Choosing cells and pools, and planning"
    SIMULATE = "Trying the plan on homes drawn from the public model"

    MAKE_PLAN = "Reading public inputs and planning"
    READ_PLAN = "Reading the plan"
    CERTIFY = "Certifying the plan"
    READ_ORIGINS = "Reading the confidential origins"
    MEASURE = "Measuring tables, with noise"
    ESTIMATE = "Estimating homes from what was measured"
    DRAW = "Drawing synthetic workers"
    WRITE = "Writing the release"
    CHECK = "Checking the release"


PLAN_STEPS = (Step.READ_PUBLIC_INPUTS, Step.CHOOSE, Step.SIMULATE)
_AFTER_PLANNING = (Step.CERTIFY, Step.READ_ORIGINS, Step.DRAW, Step.WRITE, Step.CHECK)
RUN_STEPS = (Step.MAKE_PLAN, Step.SIMULATE, *_AFTER_PLANNING)
REVIEWED_RUN_STEPS = (Step.READ_PLAN, *_AFTER_PLANNING)


def run_steps(*, reviewed: bool, measures: bool) -> tuple[Step, ...]:
    """Return the steps of a run: with a reviewed plan or its own, which measures tables or not."""
    steps = REVIEWED_RUN_STEPS if reviewed else RUN_STEPS
    at = steps.index(Step.DRAW)
    return (*steps[:at], *resumed_steps(measures=measures))


def resumed_steps(*, measures: bool) -> tuple[Step, ...]:
    """Return the steps of a run from where it draws."""
    measured = (Step.MEASURE, Step.ESTIMATE) if measures else ()
    return (*measured, Step.DRAW, Step.WRITE, Step.CHECK)


class StepBegins(str):
    """What is said when a step begins: words for people.

    Attributes
    ----------
    step : Step
        What they are about.
    number : int
        Which it is, from 1.
    of : int or None
        How many there are, where that is known.
    """

    step: Step
    number: int
    of: int | None

    def __new__(cls, step: Step, words: str | None = None, number: int = 1, of: int | None = None) -> Self:
        """Return the words; by default the title of the step."""
        text = super().__new__(cls, f"{words or step.value} ...")
        text.step, text.number, text.of = step, number, of
        return text


class Progress:
    """Tells `report` of steps as they begin, notes how long they took, and enters them in `events`.

    Parameters
    ----------
    report : callable or None
        Told each step as it begins.
    count : callable, optional
        Told how many parts of a step are done, and how many there are, where it has parts; an `About`
        (`pipelines.planning.counting`) while nobody knows.
    steps : tuple of Step, optional
        All that there will be, in order; unless given, it is not known yet how many.
    """

    def __init__(
        self,
        report: Callable[[str], None] | None,
        count: Callable[[int, int], None] | None = None,
        steps: tuple[Step, ...] | None = None,
    ) -> None:
        self.shown = report is not None
        self.say = report or (lambda _: None)
        self.counted = count is not None
        self.count = count or (lambda _, __: None)
        self.steps = steps
        self.events: EventLog | None = None
        self.seconds: dict[Step, float] = {}

    @contextmanager
    def step(self, step: Step, words: str | None = None) -> Iterator[None]:
        """Enclose a step; it is noted when it succeeds."""
        if self.steps is None:
            self.say(StepBegins(step, words, len(self.seconds) + 1))
        else:
            self.say(StepBegins(step, words, self.steps.index(step) + 1, len(self.steps)))
        begin = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - begin, 3)
        if self.events is not None:
            self.events.write("step", step=step.value, seconds=self.seconds[step])
