"""The steps of a plan and of a run, by name, and what is logged and noted of each as it begins and ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pipelines.storage.event_log import EventLog
from pipelines.storage.progress import Progress

if TYPE_CHECKING:  # an import of a second, which the service does not need
    from pipelines.plans.plan import ReleasePlan

_log = logging.getLogger(__name__)
_SERVICE = "pipelines.service"

# What depends on homes: for handlers of its own, and not for whatever else the process logs to.
OPERATOR_LOG = logging.getLogger("pipelines.operator")
OPERATOR_LOG.propagate = False
OPERATOR_LOG.addHandler(logging.NullHandler())  # else Python would print it


class Step(Enum):
    """A step; its value is its title for people, in the log of a run and on the pages of the service."""

    READ_PUBLIC_INPUTS = "Reading public inputs"
    CHOOSE = "Choosing cells and pools, and planning"
    SIMULATE = "Trying the plan on homes drawn from the public model"

    MAKE_PLAN = "Reading public inputs and planning"
    READ_PLAN = "Reading the plan"
    CERTIFY = "Certifying the plan"
    READ_ORIGINS = "Reading the confidential origins"
    WORKPLACES = "Measuring workplaces, with noise, and sorting homes by what follows"
    MEASURE = "Measuring tables, with noise"
    ESTIMATE = "Estimating homes from what was measured"
    DRAW = "Drawing synthetic workers"
    CORRECT = "Correcting the forecast by what was measured"
    WRITE = "Writing the release"
    DESCRIBE = "Describing the release"
    TIERS = "Making the releases of weaker tiers"
    CHECK = "Checking the release"


PLAN_STEPS = (Step.READ_PUBLIC_INPUTS, Step.CHOOSE, Step.SIMULATE)
_AFTER_DRAWING = (Step.WRITE, Step.DESCRIBE, Step.CHECK)
_AFTER_PLANNING = (Step.CERTIFY, Step.READ_ORIGINS, Step.DRAW, *_AFTER_DRAWING)
RUN_STEPS = (Step.MAKE_PLAN, Step.SIMULATE, *_AFTER_PLANNING)
REVIEWED_RUN_STEPS = (Step.READ_PLAN, *_AFTER_PLANNING)


def run_steps(plan: ReleasePlan, *, reviewed: bool, tiers: bool = False) -> tuple[Step, ...]:
    """Return the steps of a run of a plan, reviewed or its own; `tiers`: it makes weaker ones too."""
    steps = REVIEWED_RUN_STEPS if reviewed else RUN_STEPS
    start = steps.index(Step.DRAW)
    return (*steps[:start], *resumed_steps(plan, tiers=tiers))


def resumed_steps(plan: ReleasePlan, *, tiers: bool = False) -> tuple[Step, ...]:
    """Return the steps of a run from where it draws."""
    first = [Step.WORKPLACES] if plan.workplaces else []
    if not plan.measures:
        return *first, Step.DRAW, *_AFTER_DRAWING
    last = (Step.WRITE, Step.DESCRIBE, Step.TIERS, Step.CHECK) if tiers else _AFTER_DRAWING
    return *first, Step.MEASURE, Step.ESTIMATE, Step.DRAW, Step.CORRECT, *last


class StepBegins(NamedTuple):
    """A step that begins, which number it has, from 1, and of how many, where that is known."""

    step: Step
    number: int
    of: int | None


class StepLog:
    """Logs steps as they begin, notes how long they took, and enters them in `events`.

    Unless all steps are given, in their `order`, it is not known yet how many there will be. An empty order
    is of parts of another step, which have no numbers.
    """

    def __init__(self, progress: Progress | None = None, order: tuple[Step, ...] | None = None) -> None:
        self.progress = progress
        self.order = order
        self.events: EventLog | None = None
        self.seconds: dict[Step, float] = {}

    @contextmanager
    def step(self, step: Step, words: str | None = None) -> Iterator[None]:
        """Enclose a step; it is noted when it succeeds."""
        order = self.order
        begins = None
        if order is None or order:
            number = (len(self.seconds) if order is None else order.index(step)) + 1
            begins = StepBegins(step, number, None if order is None else len(order))
        _log.info("%s ...", words or step.value, extra={"begins": begins})
        begin = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - begin, 3)
        if self.events is not None:
            self.events.write("step", step=step.value, seconds=self.seconds[step])


def step_of(record: logging.LogRecord) -> StepBegins | None:
    """Return the step that a record of the log begins, if it is about one."""
    return getattr(record, "begins", None)


def words_of(record: logging.LogRecord) -> str:
    """Return what a record says to people."""
    return f"{'WARNING: ' if record.levelno == logging.WARNING else ''}{record.getMessage()}"


@contextmanager
def logged_to(handler: logging.Handler) -> Iterator[None]:
    """Give a handler what this thread logs, from steps on; the service has a log of its own."""
    thread = threading.get_ident()
    handler.addFilter(lambda record: record.thread == thread and not record.name.startswith(_SERVICE))
    loggers = [*map(logging.getLogger, ("geo_data", "pipelines")), OPERATOR_LOG]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
