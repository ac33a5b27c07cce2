"""How far the numbers of a release are expected to be from the truth: for every table, by size of a number.

A plan is tried on homes drawn from the public model (`simulate_utility`): what that says is as good as the
model. After a draw, noisy counts tell more of the tables that were measured (`pipelines.drawing.risk`,
`after_draw`). What a reader can do with a table is judged here, in one place, by two rules:
`improves_on_model` and `is_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.plans.measured import table_in_words
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.utility import cell_counts
from pipelines.plans.workload import CountedJobs, Table, Workload

SIZES: tuple[tuple[int, int | None], ...] = ((1, 9), (10, 99), (100, 999), (1000, None))
"""Classes of released numbers: from so many jobs to so many."""

_CLASSES = [(external, *size) for external in (False, True) for size in SIZES]
_LEAST_GAIN = 0.1
_MOSTLY_WRONG = 0.5
_HARMLESS = 0.1
_DIGITS = 4  # of shares, and of jobs after the point: more would be chance
_OF_SQUARES = 8  # digits of sums of squares, which small shares follow from
# Factors by which what is reached may differ from a forecast, rounded up from the largest that
# benchmarks/places.md has of default workloads: of tables that gather jobs of several units, or are flows by
# attributes that only residents are measured by, and of all others; and of tables by attributes that nothing
# tells homes apart by, of which public data say nothing, or of areas above units.
_GATHERED, _OTHERS, _UNKNOWN = 2.0, 1.25, 3.0
_KNOWN = 1.5  # the largest of these factors with which a loss is called known
_OF_SHAPE = 1.1  # the same of absolute errors, where squared ones are known
_DIFFERS = 0.2  # of a forecast: a difference that is said

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(ge=0)]


def improves_on_model(loss: float, public_model: float) -> bool:
    """Say whether a release carries a table: it loses at least a tenth less than the public model alone."""
    return loss <= (1 - _LEAST_GAIN) * public_model


def is_noise(loss: float, public_model: float) -> bool:
    """Say whether a reader is better off without a table.

    It is noise if at least half of its jobs are expected to be counted in cells where they are not: most of
    what is seen is not there. It is noise, too, if more than one job in ten is counted in a wrong cell and
    the release does not carry the table, so that public data alone would say as much. Below one in ten a
    reader is not misled, whoever's merit that is.
    """
    return loss >= _MOSTLY_WRONG or (loss > _HARMLESS and not improves_on_model(loss, public_model))


class Risk(NamedTuple):
    """Sum of squared errors of all numbers of a table, per job, and the standard error of what says so."""

    squares: float
    deviation: float


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SizeClass(_Part):
    """What is expected of the numbers of a size, of the released jobs of one table.

    Attributes
    ----------
    external : bool
        Whether they are numbers of external zones; otherwise all of their areas lie inside.
    at_least, at_most : int, int or None
        Released jobs.
    cells : int
        How many numbers of this size the trial released.
    error : float
        Mean absolute error of one, in jobs.
    error_90 : int
        Nine in ten are off by no more jobs.
    relative_error : float
        All their errors together, as a share of the jobs in them.
    empty : float
        Share of them that count nobody in truth.
    """

    external: bool
    at_least: Count
    at_most: Count | None
    cells: Annotated[int, Field(ge=1)]
    error: Positive
    error_90: Count
    relative_error: Positive
    empty: Share

    def holds(self, jobs: int) -> bool:
        """Say whether a released number of areas inside, or of external zones, is one of these."""
        return self.at_least <= jobs and (self.at_most is None or jobs <= self.at_most)

    @property
    def words(self) -> str:
        """Say which numbers these are."""
        return f"{self.at_least:,} {'or more' if self.at_most is None else f'to {self.at_most:,}'}"


class ExpectedTable(_Part):
    """What is expected of one table of a release.

    Attributes
    ----------
    table : str
        Its name (`table_in_words`).
    home, work, attributes
        As of a `Table`.
    workload : bool
        Whether it is one of those that the release is for; else it has the flows between units of a level.
    loss, public_model : float
        Of the release, and of homes drawn from the public model alone: share of jobs counted elsewhere.
    within : float
        What is reached is expected to be at most so many times the loss, and at least the loss divided by it.
    squares : float
        Squared errors of all numbers of the release together, per job.
    planned : float, optional
        The loss that the plan forecast, where the loss is computed from noisy counts; None where the loss is
        that forecast.
    carried, noise : bool
        As `improves_on_model` and `is_noise` say.
    sizes : list of SizeClass
        One for each of `SIZES` of which the trial released any, of areas inside and then of external zones;
        none where the plan was tried on a part of
        the jobs, whose numbers are not those of the whole.
    """

    table: str
    home: str | None
    work: str | None
    attributes: list[str]
    workload: bool
    loss: Share
    public_model: Share
    within: Annotated[float, Field(ge=1)]
    squares: Positive
    planned: Share | None
    carried: bool
    noise: bool
    sizes: list[SizeClass]

    @property
    def flows_of(self) -> str | None:
        """The level whose units the flows are between, where the table has nothing else."""
        return self.home if self.home == self.work and not self.attributes else None

    @property
    def range(self) -> tuple[float, float]:
        """From where to where the loss is expected to be."""
        return self.loss / self.within, min(1.0, self.loss * self.within)

    @property
    def uncertain(self) -> bool:
        """Whether nothing tells the loss within a factor of 1.5."""
        return self.within > _KNOWN

    @property
    def differs(self) -> bool:
        """Whether noisy counts tell another loss than the plan forecast, by more than a fifth of that."""
        return self.planned is not None and abs(self.loss - self.planned) > _DIFFERS * self.planned

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.table != table_in_words(self.home, self.work, self.attributes):
            raise ValueError("the name of a table is not that of its areas and attributes")
        losses = (self.loss, self.public_model)
        if (self.carried, self.noise) != (improves_on_model(*losses), is_noise(*losses)):
            raise ValueError(f"{self.table}: carried and noise are not what its losses give")
        stated = [(size.external, size.at_least, size.at_most) for size in self.sizes]
        if stated != [size for size in _CLASSES if size in stated]:
            raise ValueError(f"{self.table}: sizes are not those of this program")
        return self


class ExpectedAccuracy(_Part):
    """What is expected of a release, table by table.

    Attributes
    ----------
    jobs : int
        Jobs that the plan was tried on.
    tables : list of ExpectedTable
        Those of the workload in its order, then the flows between units of each other level, coarsest first.
    """

    jobs: Annotated[int, Field(ge=1)]
    tables: list[ExpectedTable]

    def __repr__(self) -> str:
        losses = "; ".join(f"{table.table} {table.loss:.3f}" for table in self.tables)
        return f"<ExpectedAccuracy: share of jobs counted elsewhere: {losses}; tried on {self.jobs:,} jobs>"

    __str__ = __repr__

    @property
    def after_draw(self) -> bool:
        """Whether any loss is computed from noisy counts."""
        return any(table.planned is not None for table in self.tables)

    @property
    def noisy_levels(self) -> list[str]:
        """Levels between whose units flows are noise."""
        return [table.flows_of for table in self.tables if table.noise and table.flows_of is not None]

    def as_dict(self) -> dict[str, Any]:
        """Return it as it stands in files."""
        return self.model_dump(mode="json")


def reported_tables(workload: Workload) -> list[tuple[Table, bool]]:
    """Return the tables that are reported, and whether each is of the workload.

    Beside the workload these are flows between units of each level, as maps and exports offer them.
    """
    geography, tables = workload.geography, workload.tables
    in_workload = {(table.home, table.work, table.attributes) for table in tables}
    flows = (Table(x, x, (), Fraction(0)) for x in (*geography.levels, geography.block_level))
    others = [table for table in flows if (table.home, table.work, ()) not in in_workload]
    return [*((table, True) for table in tables), *((table, False) for table in others)]


def expected_accuracy(
    workload: Workload,
    jobs: int,
    errors: NDArray[np.float64],
    sizes: Sequence[list[SizeClass]],
    plan: ReleasePlan,
) -> ExpectedAccuracy:
    """Say what a trial of so many jobs did to every reported table.

    `errors` has a row of the losses of the release, one of the public model's, and one of squared errors of
    the release; `sizes` are those of its numbers.
    """
    tables = []
    losses = np.clip(errors[:2], 0.0, 1.0).round(_DIGITS).T.tolist()
    squares = errors[2].round(_OF_SQUARES).tolist()
    of_tables = zip(reported_tables(workload), losses, squares, sizes, strict=True)
    for (table, is_of_workload), (loss, public_model), of_release, size_classes in of_tables:
        tables.append(
            ExpectedTable(
                table=table.name,
                home=table.home,
                work=table.work,
                attributes=list(table.attributes),
                workload=is_of_workload,
                loss=loss,
                public_model=public_model,
                within=_within(workload, table, plan),
                squares=of_release,
                planned=None,
                carried=improves_on_model(loss, public_model),
                noise=is_noise(loss, public_model),
                sizes=size_classes,
            )
        )
    return ExpectedAccuracy(jobs=jobs, tables=tables)


def _within(workload: Workload, table: Table, plan: ReleasePlan) -> float:
    """Return the factor by which what is reached may differ from the forecast of a table."""
    levels, by = [*workload.geography.levels, workload.geography.block_level], table.attributes
    told = {*by} <= {*plan.attributes} if table.home is None else plan.tells_homes_by(by)
    if table.home in levels[: levels.index(workload.level)] or not told:
        return _UNKNOWN
    by_work = table.home is None or plan.tells_homes_by(by, flows=True)
    return _OTHERS if by_work and not workload.gathers(table) else _GATHERED


def after_draw(forecast: ExpectedAccuracy, risks: Sequence[Risk | None]) -> ExpectedAccuracy:
    """Say what noisy counts tell beside the forecast of a plan, by table; of None they tell nothing."""
    pairs = zip(forecast.tables, risks, strict=True)
    tables = [table if risk is None else _after_draw(table, risk) for table, risk in pairs]
    return forecast.model_copy(update={"tables": tables})


def _after_draw(table: ExpectedTable, risk: Risk) -> ExpectedTable:
    """Change a table whose squared errors were estimated: both say something, weighted by precision.

    Absolute errors change as those of a two-sided geometric variable do with squared ones: as the roots of
    these where they are large, and in proportion where they are of one job. With q, the mean of the absolute
    over that of the squared ones, that is as their power (1 + q^2) / 2.
    """
    if table.squares == 0:  # nothing was ever off, and nothing can be scaled
        return table
    # What is forecast is taken to be two deviations from the upper end of its range.
    least, most = table.squares / table.within**2, table.squares * table.within**2
    of_plan, of_counts = ((most - table.squares) / 2) ** 2, risk.deviation**2  # variances
    deviation = math.sqrt(of_plan * of_counts / (of_plan + of_counts))
    squares = (of_plan * risk.squares + of_counts * table.squares) / (of_plan + of_counts)
    squares = max(squares, min(deviation, least))
    power = (1 + min(1.0, 2 * table.loss / table.squares) ** 2) / 2
    ratio = (squares / table.squares) ** power
    loss = round(min(1.0, ratio * table.loss), _DIGITS)
    sizes = [
        size.model_copy(
            update={
                "error": round(ratio * size.error, _DIGITS),
                "error_90": round(ratio * size.error_90),
                "relative_error": round(ratio * size.relative_error, _DIGITS),
            }
        )
        for size in table.sizes
    ]
    return table.model_copy(
        update={
            "loss": loss,
            "within": round(_OF_SHAPE * (1 + 2 * deviation / squares) ** power, 2),
            "squares": round(squares, _OF_SQUARES),
            "planned": table.loss,
            "carried": improves_on_model(loss, table.public_model),
            "noise": is_noise(loss, table.public_model),
            "sizes": sizes,
        }
    )


def expected_sizes(
    workload: Workload,
    table: Table,
    cells: Sequence[NDArray[np.int64]],
    jobs_of: Sequence[CountedJobs],
    share: float,
) -> list[SizeClass]:
    """Sum up the errors of the numbers of each size, of areas inside and of external zones.

    The first two of `cells` are those of true and released jobs, of which there are as many in `jobs_of`.
    """
    if share < 1 and workload.gathers(table):
        return []  # of jobs of some units the numbers of larger areas would be too small
    outside = [workload.is_external(table, jobs) for jobs in jobs_of]
    classes = []
    for external in (False, True):
        of_true, of_released = (
            cell[is_outside == external] for cell, is_outside in zip(cells[:2], outside, strict=True)
        )
        if not of_released.size:
            continue
        true, released = cell_counts(of_true, of_released)
        for least, most in SIZES:
            of_size = np.flatnonzero((released >= least) & (released <= (most or released.max())))
            if of_size.size:
                classes.append(_size_class(external, (least, most), true[of_size], released[of_size]))
    return classes


def _size_class(
    external: bool, size: tuple[int, int | None], true: NDArray[np.int64], released: NDArray[np.int64]
) -> SizeClass:
    """Sum up the errors of numbers of a size."""
    error, n = np.abs(released - true), released.size
    return SizeClass(
        external=external,
        at_least=size[0],
        at_most=size[1],
        cells=n,
        error=round(float(error.mean()), _DIGITS),
        error_90=int(np.argmax(10 * np.cumsum(np.bincount(error)) >= 9 * n)),
        relative_error=round(float(error.sum() / released.sum()), _DIGITS),
        empty=round(float((true == 0).mean()), _DIGITS),
    )
