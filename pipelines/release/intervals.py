"""Posterior draws of the tables of a release, which it carries, and intervals of any sums of them.

A row of ``intervals.parquet`` is a cell of a table: its home area, its work area, unless the table counts
residents wherever they work, and a category of each attribute of the table. Its columns ``draw_1`` to
``draw_19`` are draws of the number of jobs, given what was published. A sum of cells has the sums of their
draws: its estimate is their mean, and its interval of 90 % goes from the lowest to the highest, as a further
draw would be in each of twenty ranks with the same chance. The same holds for a difference of sums. Cells
that are 0 in every draw have no row.

``areas.csv`` and ``flows.csv`` have estimates and intervals of residents, jobs and flows, for units of the
public model's level and of every level above it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workload import Table, workload_of
from pipelines.release.names import Names, read_names
from pipelines.storage.parquet_form import FormError, Kind, check_form, is_text
from synth.arrays import sums_by
from synth.dirichlet.parameters import DirichletParameters

INTERVALS_FILE = "intervals.parquet"
AREAS_FILE, FLOWS_FILE = "areas.csv", "flows.csv"
N_DRAWS = 19
"""Draws that a release carries: the fewest whose lowest and highest are ends of an interval of 90 %."""

DRAWS = tuple(f"draw_{number}" for number in range(1, N_DRAWS + 1))

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
N = TypeVar("N", bound=np.number)


class Estimates(NamedTuple):
    """What draws tell of some numbers; the fields are columns of tables."""

    estimate: NDArray[np.float64]  # mean of the draws, to a tenth of a job
    low: Int64  # ends of the interval of 90 %, both in it
    high: Int64


@dataclass(frozen=True, eq=False)
class TableDraws:
    """Cells of a table that have jobs in any draw.

    Attributes
    ----------
    table : Table
    home : ndarray of int64, shape (n_cells,)
        Numbers of home areas.
    work : ndarray of int64, shape (n_cells,), or None
        Numbers of work areas.
    categories : tuple of ndarray of int64, shape (n_cells,) each
        Codes, by attribute of the table.
    counts : ndarray of int32, shape (n_draws, n_cells)
    """

    table: Table
    home: Int64
    work: Int64 | None
    categories: tuple[Int64, ...]
    counts: Int32


def carries_draws(plan: ReleasePlan) -> bool:
    """Say whether a release of a plan carries draws: of a mechanism of somebody else none."""
    return plan.measures or isinstance(plan.numeric.parameters, DirichletParameters)


def interval_tables(plan: ReleasePlan) -> tuple[Table, ...]:
    """Return the tables that a release carries draws of: flows between units, then those of its workload.

    Those by attributes that nothing published tells homes apart by are left out: draws of them are of the
    public model alone, and their intervals would be far too short.
    """
    flows = Table(plan.level, plan.level, (), Fraction(1))
    others = (table for table in _tables_of_homes(plan) if table.name != flows.name)
    return flows, *(table for table in others if plan.tells_homes_by(table.attributes))


def untold_attributes(plan: ReleasePlan) -> list[tuple[str, ...]]:
    """Return the attributes of the tables of homes that are left out of `interval_tables`."""
    by = dict.fromkeys(table.attributes for table in _tables_of_homes(plan))
    return [names for names in by if not plan.tells_homes_by(names)]


def _tables_of_homes(plan: ReleasePlan) -> list[Table]:
    return [table for table in workload_of(plan).tables if table.home is not None]


def interval_files(plan: ReleasePlan) -> list[str]:
    """Return the names of the files with draws and intervals; none without draws."""
    if not carries_draws(plan):
        return []
    return [INTERVALS_FILE, *([AREAS_FILE, FLOWS_FILE] if plan.config.release.csv else [])]


def write_draws(plan: ReleasePlan, tables: Iterator[TableDraws], folder: Path) -> None:
    """Write draws of tables, in the order of `interval_tables`, into the public folder."""
    with pq.ParquetWriter(folder / INTERVALS_FILE, _schema(plan), compression="zstd") as writer:
        for part in tables:
            writer.write_table(_rows(plan, part), _ROWS)


_ROWS = 2**18  # of a row group


def read_draws(
    plan: ReleasePlan, table: Table, folder: Path, some: Sequence[Mapping[str, Sequence[str]]] = ({},)
) -> TableDraws:
    """Return the draws of a table that a public folder carries.

    Each of `some` names codes of areas by ``home`` and ``work``, and means all areas of a side that it leaves
    out. Cells that none of them means are left out.

    Raises
    ------
    FormError
        If there are codes or categories that the plan does not have.
    """
    cells = [[("table", "==", table.name), *((side, "in", codes[side]) for side in codes)] for codes in some]
    rows = pq.read_table(folder / INTERVALS_FILE, filters=cells)
    geography, categories = plan.geography, plan.pools.slots.categories

    def numbers(column: str, level: str) -> Int64:
        number = geography.unit_number(level, rows[column]).astype(np.int64)
        if number.size and number.min() < 0:
            raise FormError(f"{INTERVALS_FILE}: {table.name}: there are areas that the release does not have")
        return number

    codes = tuple(pd.Index(categories[name]).get_indexer(rows[name].to_pandas()) for name in table.attributes)
    if any(code.size and code.min() < 0 for code in codes):
        raise FormError(
            f"{INTERVALS_FILE}: {table.name}: there are categories that the release does not have"
        )
    return TableDraws(
        table,
        numbers("home", str(table.home)),
        None if table.work is None else numbers("work", table.work),
        tuple(code.astype(np.int64) for code in codes),
        np.stack([rows[name].to_numpy() for name in DRAWS]),
    )


def interval_texts(plan: ReleasePlan, folder: Path) -> dict[str, str]:
    """Return the CSV files of areas and flows that follow from the draws of a public folder, by name."""
    if AREAS_FILE not in interval_files(plan):
        return {}
    return {name: _text(frame) for name, frame in interval_frames(plan, folder).items()}


def interval_frames(plan: ReleasePlan, folder: Path) -> dict[str, pd.DataFrame]:
    """Return the tables of areas and flows that follow from the draws of a public folder, by file."""
    geography, flows = plan.geography, read_draws(plan, interval_tables(plan)[0], folder)
    names, areas, pairs = read_names(folder, geography), [], []
    assert flows.work is not None
    levels = [*geography.levels, geography.block_level]
    for level in levels[: levels.index(plan.level) + 1]:
        of_unit = geography.unit_of(level, geography.starts(plan.level)).astype(np.int64)
        home, work = of_unit[flows.home], of_unit[flows.work]
        for count, area in (("residents", home), ("jobs", work)):
            areas.append(_areas(plan, level, count, _added(area, flows.counts), names[level]))
        key, counts = _added(home * geography.n_units(level) + work, flows.counts)
        pairs.append(_pairs(plan, level, *np.divmod(key, geography.n_units(level)), counts, names[level]))
    return {AREAS_FILE: pd.concat(areas), FLOWS_FILE: pd.concat(pairs)}


def check_intervals(plan: ReleasePlan, folder: Path) -> str:
    """Check that draws have the tables, areas and public numbers of the plan; say what was found."""
    form: dict[str, Kind] = dict.fromkeys(("table", "home", "work", *plan.pools.slots.categories), is_text)
    check_form(folder / INTERVALS_FILE, form | dict.fromkeys(DRAWS, pa.types.is_int32))
    tables = interval_tables(plan)
    present = pq.read_table(folder / INTERVALS_FILE, columns=["table"])["table"].unique().to_pylist()
    if present != [table.name for table in tables if table.name in present]:
        raise FormError(f"{INTERVALS_FILE}: its tables are not those that the release is for, in their order")
    for table in tables:
        draws = read_draws(plan, table, folder)
        if draws.counts.size and (draws.counts.min() < 0 or not draws.counts.any(axis=0).all()):
            raise FormError(f"{INTERVALS_FILE}: {table.name}: draws are negative, or nobody is in a cell")
        if (plan.fills_slots or plan.policy.secret) and not _fills_slots(plan, draws):
            raise FormError(f"{INTERVALS_FILE}: {table.name}: draws do not have the public numbers of jobs")
    for name, text in interval_texts(plan, folder).items():
        if (folder / name).read_bytes() != text.encode():
            raise FormError(f"{name}: it is not what {INTERVALS_FILE} gives")
    return f"{N_DRAWS} draws of {len(tables)} tables, in every area as many jobs as are public"


def _fills_slots(plan: ReleasePlan, draws: TableDraws) -> bool:
    """Say whether every draw has the jobs of the slots, by work area and public categories."""
    slots, times = plan.pools.slots.counted()
    work = draws.table.work
    areas = 1 if work is None else plan.geography.n_units(work)
    of_slot = np.zeros(len(slots), np.int64) if work is None else plan.geography.unit_of(work, slots.work)
    of_cell = np.zeros(draws.home.size, np.int64) if draws.work is None else draws.work
    size = areas
    for name, codes in zip(draws.table.attributes, draws.categories, strict=True):
        if name in plan.policy.secret:
            continue
        wide = len(plan.pools.slots.categories[name])
        of_slot, of_cell, size = of_slot * wide + slots.attributes[name], of_cell * wide + codes, size * wide
    public = np.bincount(of_slot, times, size)
    return all(np.array_equal(np.bincount(of_cell, row, size), public) for row in draws.counts)


def _schema(plan: ReleasePlan) -> pa.Schema:
    text = ["table", "home", "work", *plan.pools.slots.categories]
    return pa.schema([*((name, pa.string()) for name in text), *((name, pa.int32()) for name in DRAWS)])


def _rows(plan: ReleasePlan, part: TableDraws) -> pa.Table:
    geography, table, n = plan.geography, part.table, part.home.size
    columns = {name: pa.nulls(n, pa.string()) for name in ("work", *plan.pools.slots.categories)}
    columns["table"] = pa.array([table.name] * n, pa.string())
    columns["home"] = pa.array(geography.codes(str(table.home))[part.home], pa.string())
    if part.work is not None and table.work is not None:
        columns["work"] = pa.array(geography.codes(table.work)[part.work], pa.string())
    for name, codes in zip(table.attributes, part.categories, strict=True):
        columns[name] = pa.array(np.array(plan.pools.slots.categories[name], object)[codes], pa.string())
    columns |= {name: pa.array(row) for name, row in zip(DRAWS, part.counts, strict=True)}
    schema = _schema(plan)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _added(label: Int64, counts: Int32) -> tuple[Int64, Int64]:
    """Return distinct labels, rising, and the sums of their counts in each draw."""
    distinct, position = np.unique(label, return_inverse=True)
    return distinct, sums_by(position, counts).astype(np.int64)


def _areas(
    plan: ReleasePlan, level: str, count: str, added: tuple[Int64, Int64], names: Names
) -> pd.DataFrame:
    area, counts = added
    codes = plan.geography.codes(level)[area]
    frame = pd.DataFrame({"level": level, "code": codes, "name": names[area], "count": count})
    return frame.assign(**estimates(counts)._asdict())


def _pairs(
    plan: ReleasePlan, level: str, home: Int64, work: Int64, counts: Int64, names: Names
) -> pd.DataFrame:
    codes = plan.geography.codes(level)
    frame = pd.DataFrame({"level": level, "home": codes[home], "home_name": names[home]})
    return frame.assign(work=codes[work], work_name=names[work], **estimates(counts)._asdict())


def interval_ends(numbers: NDArray[N]) -> tuple[NDArray[N], NDArray[N]]:
    """Return the ends of the intervals of numbers in every draw, of shape (draws, ...)."""
    return numbers.min(axis=0), numbers.max(axis=0)


def estimates(counts: Int64) -> Estimates:
    """Return what draws of sums, of shape (draws, ...), tell of them."""
    return Estimates(counts.mean(axis=0).round(1), *interval_ends(counts))


def _text(frame: pd.DataFrame) -> str:
    buffer = io.StringIO()
    frame.to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue()
