"""One number in every year of a series: what is asked of a version, asked of the other years too."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from geo_data.od_files import count_columns
from pipelines.service.public.catalog import Catalog, OpenVersion, Version
from pipelines.service.public.flow_queries import (
    SIDES,
    Estimate,
    FlowQuestion,
    Selection,
    Side,
    about_bounds,
    estimated,
    select,
)
from pipelines.service.public.formats import Part, Table
from pipelines.service.public.models import SYNTHETIC
from pipelines.service.store import ServiceError
from pipelines.views.folder import PublicReleaseError
from pipelines.views.release import Release

ABOUT_CHANGES = (
    "Do not subtract two years to find a change: both numbers have errors, and the difference may be noise. "
    "Where two releases can be compared, odsynth compare gives each difference with an interval of its own."
)
"""What pages and answers with several years say."""
_DAMAGED = "It is damaged on this server."


@dataclass(frozen=True)
class AskedYear:
    """What is asked of a year."""

    year: int
    version: Version
    note: str | None  # Why nothing is asked, or what is wrong with the version
    question: tuple[OpenVersion, Selection] | None  # None if nothing is


@dataclass(frozen=True)
class YearNumber:
    """The number of a year."""

    asked: AskedYear
    jobs: tuple[int, ...] = ()  # Synthetic workers, of each count that was asked for; none if nothing was
    estimate: Estimate | None = None  # Of the first of them, where there are draws of it


@dataclass(frozen=True)
class YearlyQuestion:
    """A question about one number, as each year of a series understands it."""

    version: OpenVersion  # Of which it is asked first
    selection: Selection  # As this version understands it
    years: tuple[AskedYear, ...]  # the first year first

    @classmethod
    def find(cls, catalog: Catalog, version: OpenVersion, question: FlowQuestion) -> YearlyQuestion:
        """Find what a question names in a version, and in all years of its series."""
        selection = select(version.release, replace(question, sums=SIDES))
        work, home = (selection.levels[side] for side in SIDES)
        in_full = replace(selection.question, work_level=work, home_level=home)
        selection = replace(selection, question=in_full)
        years = (
            AskedYear(each.year, each.version, *_asked(catalog, each.version, selection))
            for each in reversed(catalog.series(version.name).years)
            if each.year is not None
        )
        return cls(version, selection, tuple(years))

    @property
    def cost(self) -> int:
        """What the answer costs: as much as the questions to all years (`OpenVersion.cost`)."""
        asked = (each.question for each in self.years if each.question is not None)
        return sum(version.cost(selection, written=False) for version, selection in asked)

    def numbers(self) -> list[YearNumber]:
        """Ask."""
        numbers = []
        for each in self.years:
            if each.question is None:
                numbers.append(YearNumber(each))
                continue
            version, selection = each.question
            (total,) = version.flows(selection)
            jobs = tuple(total.counts[:, 0].tolist())
            numbers.append(YearNumber(each, jobs, estimated(selection, version.draws)))
        return numbers

    def table(self) -> Table:
        """Return the numbers as rows."""
        counts = self.selection.question.attributes
        columns = {
            "year": pa.int64(),
            "version": pa.string(),
            **dict.fromkeys(counts, pa.int64()),
            **{"estimate": pa.float64(), "low": pa.int64(), "high": pa.int64(), "note": pa.string()},
        }
        rows = [
            {
                "year": number.asked.year,
                "version": number.asked.version.state.version,
                **dict(zip(counts, number.jobs or [None] * len(counts), strict=True)),
                **(asdict(number.estimate) if number.estimate else {}),
                "note": number.asked.note,
            }
            for number in self.numbers()
        ]
        schema = pa.schema(list(columns.items()))
        about = about_bounds(self.selection, self.version.draws)
        head = {
            "note": SYNTHETIC,
            "name": self.version.name,
            "work_level": self.selection.levels["work"],
            "home_level": self.selection.levels["home"],
            "attributes": {count: self.version.release.counts[count] for count in counts},
            **({"about_intervals": about} if about else {}),
            "about_changes": ABOUT_CHANGES,
        }
        return Table(schema, [_part(pa.RecordBatch.from_pylist(rows, schema))], "years", head)


def _part(rows: pa.RecordBatch) -> Part:
    """Rows without a place."""
    return Part(rows, list, lambda: np.full(rows.num_rows, None, object))


def _asked(
    catalog: Catalog, version: Version, same: Selection
) -> tuple[str | None, tuple[OpenVersion, Selection] | None]:
    """The note of a year, and its question, if its number is of the same jobs in the same areas.

    Whatever is wrong with a year, the others are told.
    """
    if version.state.withdrawn is not None:
        return f"Withdrawn: {version.state.withdrawn.text}", None
    if version.status == "damaged":
        return _DAMAGED, None
    opened = catalog.opened(version)
    if not opened.prepared.flows.is_dir():
        return "Its tables are not made yet: ask again in a minute.", None
    try:
        found = _understood(opened.release, same)
    except (ServiceError, PublicReleaseError):
        return _DAMAGED, None
    if isinstance(found, str):
        return found, None
    errata = " ".join(f"Erratum: {remark.text}" for remark in version.state.errata)
    return errata or None, (opened, found)


def _understood(release: Release, same: Selection) -> Selection | str:
    """A question as a release understands it; or why that is not the same question."""
    if _jobs(release) != _jobs(same.release):
        return "It is of another region, or counts other jobs."
    try:
        selection = select(release, same.question)
    except ServiceError:
        return "It has no such area, level or attribute."
    if _categories(selection) != _categories(same):
        return f"Its jobs have other categories than those of {same.release.year}."
    if not all(_same_blocks(selection, same, side) for side in SIDES):
        return f"Its geography there is another than that of {same.release.year}."
    return selection


def _jobs(release: Release) -> tuple[str, ...]:
    """Which jobs of which region a release counts."""
    released = release.certificate.release
    return released.state, released.job_type, release.config.jobs.population


def _categories(selection: Selection) -> list[tuple[str, ...]]:
    """The categories of the attributes whose jobs are counted."""
    categories, counts = selection.release.categories, {*selection.question.attributes}
    return [categories[name] for name, of in count_columns(categories).items() if counts & {*of}]


def _same_blocks(one: Selection, other: Selection, side: Side) -> bool:
    """Whether two questions are about the same blocks on a side."""
    if one.release.geography.block_level != other.release.geography.block_level:
        return False
    codes, others = (_blocks(selection, side) for selection in (one, other))
    # Mostly they have the same order, and a state has hundreds of thousands.
    return codes.equals(others) or (
        len(codes) == len(others) and {*codes.to_pylist()} == {*others.to_pylist()}
    )


def _blocks(selection: Selection, side: Side) -> pa.Array:
    """The blocks that are asked for on a side; of all of them, the areas of the coarsest level."""
    geography = selection.release.geography
    if selection.units[side] is None:  # one block that was split is the same region still
        return pa.array(geography.codes(selection.release.levels[0]), pa.string())
    inside = np.flatnonzero(selection.areas(side) >= 0)
    return geography.block_codes.take(pa.array(inside))
