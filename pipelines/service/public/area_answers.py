"""Answers of pages to questions about an area: the number first, then flows, and where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa

from pipelines.service.public.catalog import OpenVersion
from pipelines.service.public.flow_queries import (
    SIDES,
    FlowQuestion,
    Flows,
    LargestFlows,
    Selection,
    Side,
    about_bounds,
    select,
    with_estimates,
)
from pipelines.views.labels import named_area, singular
from pipelines.views.release import Release

NEAR = 5
"""Kilometres around an area, for the link to what is near."""
_TOP = 25
_MOST_IN_ORDER = 1_000  # that the API sorts by size


@dataclass(frozen=True)
class AreaQuestion:
    """What is asked of an area."""

    level: str
    code: str
    side: Side  # work asks where its workers live, home where its residents work
    other_level: str | None  # Of the areas at the other end; None is the same
    attribute: str

    @property
    def other_side(self) -> Side:
        """The other end."""
        return "home" if self.side == "work" else "work"

    def flows(self, *sides: Side, attributes: Sequence[str] = ()) -> FlowQuestion:
        """Return it as a question about flows; with `sides`, about those that begin or end there, or both."""
        # An area need not be made of whole areas of the level at the other end.
        other_level = self.level if sides else self.other_level or self.level
        level = {self.side: self.level, self.other_side: other_level}
        code = {side: (self.code,) if side in (sides or (self.side,)) else () for side in SIDES}
        return FlowQuestion(
            code["work"], code["home"], level["work"], level["home"], (self.attribute, *attributes)
        )


@dataclass(frozen=True)
class AreaSelections:
    """What the answer to a question about an area is made of."""

    question: AreaQuestion
    flows: Selection  # From or to the areas at the other end
    # Each added up to one number: all who work there, in every count, all who live there, and who does both
    sums: dict[str, Selection]

    @classmethod
    def of(cls, release: Release, question: AreaQuestion) -> AreaSelections:
        """Find what a question names."""
        flows = select(release, question.flows())
        counts = [count for count in release.counts if count != question.attribute]
        totals = {
            question.side: question.flows(attributes=counts),
            question.other_side: question.flows(question.other_side),
            "both": question.flows(*SIDES),
        }
        sums = {name: select(release, replace(total, sums=SIDES)) for name, total in totals.items()}
        return cls(question, flows, sums)

    def cost(self, version: OpenVersion) -> int:
        """Return what the answer costs: about as much as the dearest of its questions."""
        return max(version.cost(each, written=False) for each in (self.flows, *self.sums.values()))


@dataclass(frozen=True)
class Number:
    """A number of jobs, with the ends of its interval where it has one."""

    jobs: int
    bounds: tuple[int, int] | None

    @property
    def is_outside(self) -> bool:
        """Whether it lies outside of its interval, which is that of the true number."""
        return self.bounds is not None and not self.bounds[0] <= self.jobs <= self.bounds[1]


@dataclass(frozen=True)
class FlowRow:
    """An area at the other end, and its number."""

    name: str
    code: str
    external: bool
    number: Number


@dataclass(frozen=True)
class AreaAnswer:
    """What a page tells of an area."""

    name: str  # In a sentence
    kind: str  # What areas of its level are called
    code: str
    external: bool
    side: Side
    # Who works there, lives there (by side), does both, comes there to work, and leaves for work elsewhere
    numbers: dict[str, Number]
    n_areas: int  # At the other end
    other_level: str
    other_word: str  # What areas of it are called
    flows: list[FlowRow]  # The largest
    jobs: dict[str, int]  # Of each count
    csv: str  # Address of all flows
    about_intervals: str | None  # What those of flows are, or why there are none
    map: str | None  # Address of the map with this choice; None where no map shows it
    around: str | None  # Of the map with all that is near; None where the area has no place, too

    @property
    def total(self) -> Number:
        """The number that was asked for."""
        return self.numbers[self.side]

    @property
    def bounded(self) -> bool:
        """Whether a number has an interval."""
        numbers = [*self.numbers.values(), *(row.number for row in self.flows)]
        return any(number.bounds is not None for number in numbers)

    @classmethod
    def of(cls, version: OpenVersion, asked: AreaSelections) -> AreaAnswer:
        """Ask, and put together."""
        release, question, selection = version.release, asked.question, asked.flows
        side, other = question.side, question.other_side
        one_each = ((total, 1) for total in asked.sums.values())
        largest, *sums = version.largest_flows((selection, _TOP), *one_each)
        summed = dict(zip(asked.sums, sums, strict=True))
        counts = summed[side].selection.question.attributes
        areas = version.areas(question.level).table
        unit = release.geography.find_unit(question.level, question.code)
        return cls(
            name=named_area(release, question.level, unit, short=True),
            kind=singular(question.level),
            code=question.code,
            external=areas.column("external")[unit].as_py(),
            side=side,
            numbers={name: _number(total) for name, total in summed.items()} | _crossing(version, summed),
            n_areas=largest.number,
            other_level=selection.levels[other],
            other_word=singular(selection.levels[other]),
            flows=_rows(version, largest, other),
            jobs=dict(zip(counts, summed[side].jobs.tolist(), strict=True)),
            about_intervals=about_bounds(selection, version.draws),
            csv=_csv(version, selection, largest.number),
            map=_map(version, question, selection.levels[other], f"{question.level}:{question.code}"),
            around=_map(version, question, selection.levels[other], _circle(areas, unit)),
        )


def _crossing(version: OpenVersion, summed: dict[str, LargestFlows]) -> dict[str, Number]:
    """Return who works there and lives elsewhere, and who lives there and works elsewhere."""
    both = summed["both"]
    numbers = {}
    ends: tuple[tuple[str, Side, Side], ...] = (("come", "work", "home"), ("leave", "home", "work"))
    for name, side, elsewhere in ends:
        selection = both.selection.outside(elsewhere)
        flows = replace(both.flows, counts=(summed[side].jobs[:1] - both.jobs)[np.newaxis])
        (bounded,) = with_estimates([(selection, flows)], version.draws)
        numbers[name] = Number(int(bounded.counts[0, 0]), _bounds(bounded)[0])
    return numbers


def _number(summed: LargestFlows) -> Number:
    return Number(int(summed.jobs[0]), _bounds(summed.flows)[0])


def _bounds(flows: Flows) -> list[tuple[int, int] | None]:
    if flows.estimates is None:
        return [None] * flows.size
    return list(zip(flows.estimates.low.tolist(), flows.estimates.high.tolist(), strict=True))


def _rows(version: OpenVersion, largest: LargestFlows, other: Side) -> list[FlowRow]:
    """The largest flows, with short names."""
    release, level, units = version.release, largest.selection.levels[other], largest.flows.units[other]
    areas = version.areas(level)
    external = areas.column("external", units).to_pylist()
    codes = areas.column("code", units).to_pylist()
    names = [named_area(release, level, unit, short=True) for unit in units.tolist()]
    numbers = map(Number, largest.flows.counts[0].tolist(), _bounds(largest.flows))
    return [FlowRow(*row) for row in zip(names, codes, external, numbers, strict=True)]


def _csv(version: OpenVersion, selection: Selection, number: int) -> str:
    question, levels = selection.question, selection.levels
    asked = {
        **{side: codes[0] for side, codes in (("work", question.work), ("home", question.home)) if codes},
        **{f"{side}_level": levels[side] for side in SIDES},
        "attribute": question.attributes[0],
        **({"top": str(_MOST_IN_ORDER)} if number <= _MOST_IN_ORDER else {}),
    }
    return f"/api/v1{version.page}/flows?{urlencode(asked | {'places': 'true', 'format': 'csv'})}"


def _circle(areas: pa.RecordBatch, unit: int) -> str | None:
    latitude, longitude = (areas.column(axis)[unit].as_py() for axis in ("latitude", "longitude"))
    return None if latitude is None else f"circle:{latitude:.5f},{longitude:.5f} {NEAR}"


def _map(version: OpenVersion, question: AreaQuestion, other_level: str, chosen: str | None) -> str | None:
    """The address that `js/address.js` writes; of areas that cut across levels, the map shows no flows."""
    release = version.release
    if chosen is None or not version.prepared.map.is_file():
        return None
    level = other_level if other_level in release.levels else release.usual_level()
    crossing = question.level in release.geography.non_nesting_areas
    if level not in version.map_levels or not (crossing or question.level in version.map_levels):
        return None
    words = {"level": level, "side": question.side, "count": question.attribute, "unit": "km"}
    return f"{version.page}/map#{urlencode({**words, 'chosen': chosen})}"
