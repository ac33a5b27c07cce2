"""The steps of a plan and of a run, by name, and what is told and noted of each as it begins and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from pipelines.storage.event_log import EventLog

__all__ = ["PLAN_STEPS", "REVIEWED_RUN_STEPS", "RUN_STEPS", "Progress", "Step", "StepBegins"]


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
RUN_STEPS = (Step.MAKE_PLAN, *_AFTER_PLANNING)
REVIEWED_RUN_STEPS = (Step.READ_PLAN, *_AFTER_PLANNING)


class StepBegins(str):
    """What is said when a step begins: words for people, which know the `step` that they are about."""

    step: Step

    def __new__(cls, step: Step, words: str | None = None) -> StepBegins:
        """Return the words; by default the title of the step."""
        text = super().__new__(cls, f"{words or step.value} ...")
        text.step = step
        return text


class Progress:
    """Tells `report` of steps as they begin, notes how long they took, and enters them in `events`."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self.shown = report is not None
        self.say = report or (lambda _: None)
        self.events: EventLog | None = None
        self.seconds: dict[Step, float] = {}

    @contextmanager
    def step(self, step: Step, words: str | None = None) -> Iterator[None]:
        """Enclose a step; it is noted when it succeeds."""
        self.say(StepBegins(step, words))
        begin = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - begin, 3)
        if self.events is not None:
            self.events.write("step", step=step.value, seconds=self.seconds[step])
