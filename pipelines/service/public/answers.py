"""Answers with tables: areas and flows in pages or whole, sent while they are read."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import shapely
from anyio import CancelScope, CapacityLimiter, Lock, move_on_after, to_thread
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StringConstraints
from shapely import Polygon
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from pipelines.release.intervals import Estimates
from pipelines.running.process import give_back_memory
from pipelines.service.parameters import separated
from pipelines.service.public.areas import Areas, Shapes, joined
from pipelines.service.public.catalog import OpenVersion
from pipelines.service.public.flow_queries import (
    MOST_ROWS,
    SIDES,
    Flows,
    Selection,
    about_bounds,
    has_bounds,
    no_attribute,
    with_estimates,
)
from pipelines.service.public.formats import Format, Part, Table, Written
from pipelines.service.public.models import SYNTHETIC
from pipelines.service.rates import network
from pipelines.service.refusals import invalid, not_found
from pipelines.service.store import ServiceError
from pipelines.views.release import Release
from pipelines.views.search import find_areas, names_with

_SMALL = 1_000_000  # up to which cost an answer is made at once
_REQUEST = 50_000  # what one request costs; what costs more counts as several
_TURN_SECONDS = 30.0  # for which a large answer waits for another of its address
_AREAS_AT_ONCE = 5_000
_BOUNDED_AT_ONCE = 1_000  # flows whose intervals are found at once; of large regions more
_NUMBER = re.compile("[0-9]{1,10}")


@dataclass(frozen=True)
class Paging:
    """Which rows of a table, in whose order, are sent."""

    request: Request  # Whose address, with another ``after``, is the next page
    limit: int | None = None  # How many at most; None is all
    after: str | None = None  # The last row of the page before, as `next` wrote it: nobody else reads it

    def next(self, *units: int) -> str:
        """Return the address of the page after a row, which the numbers of its areas stand for."""
        url = self.request.url.include_query_params(after=".".join(map(str, units)))
        return f"{url.path}?{url.query}"

    def units(self, *sizes: int) -> tuple[int, ...] | None:
        """Return the numbers that `next` was given, each below a size; None on the first page."""
        if self.after is None:
            return None
        numbers = self.after.split(".")
        if len(numbers) == len(sizes) and all(_NUMBER.fullmatch(number) for number in numbers):
            units = tuple(map(int, numbers))
            if all(unit < size for unit, size in zip(units, sizes, strict=True)):
                return units
        raise invalid("after: this is no row of this table. Take it from `next` of the page before.")


@dataclass(frozen=True)
class Question:
    """What is asked, found and not answered yet."""

    cost: int  # in rows that are added up (`OpenVersion.cost`)
    answer: Callable[[], Written]


@dataclass(frozen=True)
class PageQuestion:
    """What a page asks, found and not answered yet."""

    cost: int  # As of `Question`
    answer: Callable[[], Response]


async def answered_at_once(request: Request, find: Callable[[], PageQuestion]) -> Response:
    """Answer the question of a page, which has few numbers whatever they cost, among the small ones."""
    lanes: Lanes = request.app.state.lanes
    found = await to_thread.run_sync(find, limiter=lanes.small)
    _count(request, found.cost)
    return await to_thread.run_sync(found.answer, limiter=lanes.small)


def _count(request: Request, cost: int) -> str:
    """Count what a question costs in requests, and return the address that asks."""
    address = network(request.client.host if request.client else "")
    request.app.state.limits.add("public", address, cost // _REQUEST)
    return address


async def answered(request: Request, find: Callable[[], Question | Response]) -> Response:
    """Answer a question in a thread: at once if it is small, else in turn, and sent while it is made.

    Few threads are enough: more would only wait for each other. Small questions have theirs, so that they
    do not wait for large answers. Of these each address gets one at a time, a part after the other in turn
    with those of other addresses, and they count as many requests as they cost.
    """
    lanes: Lanes = request.app.state.lanes
    found = await to_thread.run_sync(find, limiter=lanes.small)
    if isinstance(found, Response):
        return found
    address = _count(request, found.cost)
    if found.cost > _SMALL:
        return _LargeAnswer(found.answer, lanes, address)
    made = await to_thread.run_sync(found.answer, limiter=lanes.small)
    content = await to_thread.run_sync(b"".join, made.chunks, limiter=lanes.small)
    return Response(content, headers=dict(made.headers), media_type=made.media_type)


class Lanes:
    """Where answers are made."""

    def __init__(self) -> None:
        processors = os.cpu_count() or 1
        self.small, self.large = CapacityLimiter(max(2, processors)), CapacityLimiter(max(1, processors - 1))
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def turn(self, address: str) -> Lock:
        """Return what one large answer of an address holds at a time."""
        return self._turns.setdefault(address, Lock())


class _LargeAnswer(Response):
    """An answer that is made, while it is sent, when it is the turn of its address."""

    def __init__(self, answer: Callable[[], Written], lanes: Lanes, address: str) -> None:
        super().__init__()
        self._answer, self._lanes, self._turn = answer, lanes, lanes.turn(address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the turn, and send it."""
        with move_on_after(_TURN_SECONDS) as waiting:
            await self._turn.acquire()
        if waiting.cancelled_caught:
            detail = "Another large answer is still on its way to this address; ask again when you have it."
            raise ServiceError(429, "too_many", detail)
        try:
            made = await to_thread.run_sync(self._answer, limiter=self._lanes.large)
            content = iter(()) if scope.get("method_asked") == "HEAD" else self._parts(made.chunks)
            sent = StreamingResponse(content, headers=dict(made.headers), media_type=made.media_type)
            await sent(scope, receive, send)
        finally:
            self._turn.release()
            with CancelScope(shield=True):
                await to_thread.run_sync(give_back_memory, limiter=self._lanes.large)

    async def _parts(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await to_thread.run_sync(next, chunks, None, limiter=self._lanes.large)) is not None:
            yield chunk


def area_part(
    areas: Areas,
    shapes: Shapes,
    units: NDArray[np.integer],
    jobs: Mapping[str, NDArray[np.int64]] | None = None,
) -> Part:
    """Return some areas as rows; with further columns, of all areas."""
    table = areas.table.take(pa.array(units))
    if jobs is not None:
        fixed = {name: table.column(name) for name in table.schema.names if not name.endswith("_S000")}
        table = pa.RecordBatch.from_pydict(
            fixed | {name: pa.array(counts[units]) for name, counts in jobs.items()}
        )
    return Part(table, table.column("code").to_pylist, lambda: shapes.shapes[units])


Codes = list[Annotated[str, StringConstraints(min_length=1, max_length=20_000)]]
FORMAT = Field(description="json, csv, geojson, or arrow (a stream of Apache Arrow).")
LIMIT = Field(ge=1, le=10_000, description="Rows of a page; left out, all are sent as they are read.")
AFTER = Field(max_length=300, description="Where a page goes on: as its `next` says.")


class AreaQuestion(BaseModel):
    """A question about areas, as a query says it."""

    level: Annotated[str, Field(min_length=1, max_length=100, description="As in contents, such as trct.")]
    within: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=100,
            description="Only areas that lie wholly in this one, of another level: its code or name.",
        ),
    ] = None
    name: Annotated[
        str | None,
        Field(min_length=1, max_length=100, description="Only areas with these words in their names."),
    ] = None
    attribute: Annotated[
        Codes, Field(description="Which jobs are counted, separated by commas, as for flows.")
    ] = ["S000"]
    format: Annotated[Format, FORMAT] = "json"
    limit: Annotated[int | None, LIMIT] = None
    after: Annotated[str | None, AFTER] = None

    @property
    def counts(self) -> tuple[str, ...]:
        """Which jobs are counted."""
        return separated(self.attribute) or ("S000",)


def area_table(
    version: OpenVersion, question: AreaQuestion, paging: Paging, box: Polygon | None = None
) -> Table:
    """Return the areas of a level."""
    release, level, counts = version.release, question.level, question.counts
    areas, shapes = version.areas(level), version.shapes(level)
    units = np.arange(len(areas.codes)) if box is None else shapes.within(box)
    if any(count not in release.counts for count in counts):
        raise no_attribute(release)
    jobs: dict[str, NDArray[np.int64]] | None = None
    if counts != ("S000",):
        jobs = {}
        for count in counts:
            jobs[f"home_{count}"], jobs[f"work_{count}"] = version.jobs(level, count)
    if question.name is not None:
        units = units[np.isin(units, names_with(release, level, question.name))]
    if question.within is not None:
        units = units[np.isin(units, _units_in(release, level, question.within))]
    matched, further = len(units), None
    if (after := paging.units(len(areas.codes))) is not None:
        units = units[units > after[0]]
    if paging.limit is not None and len(units) > paging.limit:
        units = units[: paging.limit]
        further = paging.next(int(units[-1]))
    split = np.split(units, range(_AREAS_AT_ONCE, len(units), _AREAS_AT_ONCE))
    parts = (area_part(areas, shapes, some, jobs) for some in split)
    schema = area_part(areas, shapes, units[:0], jobs).table.schema
    tail = {"returned": len(units), "matched": matched}
    head = {"note": SYNTHETIC, "name": version.name, "version": version.version, "level": level}
    return Table(schema, parts, "areas", head, tail, further)


def flow_table(
    version: OpenVersion,
    selection: Selection,
    paging: Paging,
    *,
    top: int | None = None,
    places: bool = False,
    box: Polygon | None = None,
) -> Table:
    """Return the flows of a question."""
    paged = paging.limit is not None or paging.after is not None
    if top is not None and paged:
        raise invalid("top: the largest flows have no further pages. Leave out limit and after, or top.")
    if selection.question.sums and paged:
        raise invalid("sum: sums have no further pages. Leave out limit and after, or sum.")
    rows = _FlowRows(version, selection, places)
    table = Table(rows.schema, (), "flows", rows.head)
    if top is not None:
        (largest,) = version.largest_flows((selection, top))
        jobs = dict(zip(selection.question.attributes, largest.jobs.tolist(), strict=True))
        table.parts = [rows.part(largest.flows)]
        table.tail = {"returned": largest.flows.size, "matched": largest.number, "jobs": jobs}
        return table
    ends = selection.major, selection.minor
    after = paging.units(*(selection.release.geography.n_units(selection.levels[side]) for side in ends))
    batches = version.flows(selection, after)
    if box is not None:
        batches = (flows.take(np.flatnonzero(rows.crosses(flows, box))) for flows in batches)
    if paging.limit is not None:
        flows, more = _page(batches, paging.limit)
        table.parts = [rows.part(rows.bounded(batch)) for batch in flows]
        table.tail = {"returned": sum(batch.size for batch in flows)}
        table.next = paging.next(*(int(flows[-1].units[side][-1]) for side in ends)) if more else None
        return table
    table.parts = _all(batches, rows, table.tail, selection.question.attributes)
    return table


def _all(
    batches: Iterator[Flows], rows: _FlowRows, tail: dict[str, Any], attributes: tuple[str, ...]
) -> Iterator[Part]:
    number, jobs = 0, np.zeros(len(attributes), np.int64)
    for flows in batches:
        number += flows.size
        jobs += flows.counts.sum(axis=1)
        for begin in range(0, flows.size, rows.at_once):
            yield rows.part(rows.bounded(flows.take(slice(begin, begin + rows.at_once))))
    tail.update(returned=number, matched=number, jobs=dict(zip(attributes, jobs.tolist(), strict=True)))


def _page(batches: Iterator[Flows], limit: int) -> tuple[list[Flows], bool]:
    """The first flows, and whether there are more."""
    page: list[Flows] = []
    left = limit
    for flows in batches:
        if flows.size > left or (flows.size and not left):
            return [*page, *([flows.take(slice(left))] if left else [])], True
        if flows.size:
            page.append(flows)
        left -= flows.size
    return page, False


class _FlowRows:
    """Flows as rows, with codes instead of numbers."""

    def __init__(self, version: OpenVersion, selection: Selection, places: bool) -> None:
        question, release = selection.question, selection.release
        self._selection, self._places = selection, places
        self._areas = {side: version.areas(selection.levels[side]) for side in SIDES}
        self._draws = version.draws
        self._bounded = has_bounds(selection, self._draws)
        # The intervals of some flows take as long as looking at all blocks, and the draws of their areas.
        self.at_once = max(_BOUNDED_AT_ONCE, release.geography.n_blocks // 25) if self._bounded else MOST_ROWS
        self._sides = [side for side in SIDES if side not in question.sums]  # a sum has no code, and no place
        columns = dict.fromkeys(map(str, self._sides), pa.string())
        if places:
            columns |= {f"{side}_name": pa.string() for side in self._sides}
            columns |= {
                f"{side}_{axis}": pa.float64() for side in self._sides for axis in ("longitude", "latitude")
            }
        columns |= dict.fromkeys(question.attributes, pa.int64())
        if self._bounded:
            columns |= {"estimate": pa.float64(), "low": pa.int64(), "high": pa.int64()}
        self.schema = pa.schema(list(columns.items()))
        self.head = {
            "note": SYNTHETIC,
            "name": version.name,
            "version": version.version,
            "work_level": selection.levels["work"],
            "home_level": selection.levels["home"],
            "attributes": {name: release.counts[name] for name in question.attributes},
            "implicate": question.implicate,
            **({"sums": list(question.sums)} if question.sums else {}),
            **({"about_intervals": about} if (about := about_bounds(selection, self._draws)) else {}),
        }

    def part(self, flows: Flows) -> Part:
        """Return flows as rows."""
        columns: dict[str, Any] = {
            side: self._areas[side].column("code", flows.units[side]) for side in self._sides
        }
        if self._places:
            for side in self._sides:
                for name in ("name", "longitude", "latitude"):
                    columns[f"{side}_{name}"] = self._areas[side].column(name, flows.units[side])
        columns |= dict(zip(self._selection.question.attributes, map(pa.array, flows.counts), strict=True))
        if self._bounded:
            # Nothing where the file of draws is damaged, which is seen when it is read.
            columns |= (
                {name: pa.nulls(flows.size, self.schema.field(name).type) for name in Estimates._fields}
                if flows.estimates is None
                else dict(zip(Estimates._fields, map(pa.array, flows.estimates), strict=True))
            )
        table = pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

        def ids() -> list[str]:
            codes = [
                table.column(side).to_pylist() if side in self._sides else [""] * flows.size for side in SIDES
            ]
            return list(map(flow_id, *codes))

        return Part(table, ids, lambda: self.lines(flows))

    def bounded(self, flows: Flows) -> Flows:
        """Return flows with their estimates."""
        return with_estimates([(self._selection, flows)], self._draws)[0]

    def lines(self, flows: Flows) -> NDArray[np.object_]:
        """Return lines from home to work; None where an end has no place, or both are the same."""
        lines = np.full(flows.size, None, object)
        if len(self._sides) < len(SIDES):
            return lines
        home, work = (self._areas[side].points(flows.units[side]) for side in ("home", "work"))
        drawn = joined(home, work)
        lines[drawn] = shapely.linestrings(np.stack([home[drawn], work[drawn]], axis=1))
        return lines

    def crosses(self, flows: Flows, box: Polygon) -> NDArray[np.bool_]:
        """Say which lines have a point in common with a box."""
        shapely.prepare(box)
        return np.asarray(shapely.intersects(self.lines(flows), box), bool)


def flow_id(work: str, home: str) -> str:
    """Return the id of a flow: codes may hold what stands between them."""
    return ":".join(code.replace("%", "%25").replace(":", "%3A") for code in (work, home))


def flow_ends(identity: str) -> list[str]:
    """Return the codes of the work and the home area that an id was made of."""
    return [part.replace("%3A", ":").replace("%25", "%") for part in identity.split(":")]


def _units_in(release: Release, level: str, within: str) -> NDArray[np.integer]:
    """Units of a level that lie in an area of another."""
    geography, levels = release.geography, release.levels
    coarser = levels[: levels.index(level)] if level in levels else levels[:-1]
    others = [*coarser, *(kind for kind in geography.non_nesting_areas if kind != level)]
    areas = [(kind, unit) for kind in others for unit in find_areas(release, kind, within)]
    if not areas:
        detail = f"within: no level of {', '.join(others) or 'none'} has an area of this code or name."
        raise not_found(detail)
    kind, area = areas[0]
    blocks = np.arange(geography.n_blocks)
    unit, inside = geography.unit_of(level, blocks), geography.unit_of(kind, blocks) == area
    return np.setdiff1d(unit[inside], unit[~inside])
