"""Small geographies, and the public model and cuts once more: slow, in loops, from the docstrings alone."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import assume, currently_in_test_context
from numpy.typing import NDArray

from geo_data import Flows, Geography, PublicModel, build_model
from geo_data.gravity import Decay

LEVELS = ("region", "area")
EARTH_KM = 6371.0088
TIE = Fraction(1, 10**9)  # closer than this, floats and fractions may decide differently
Point = tuple[float, float, float]
Table = dict[tuple[int, int], float]


def geography(
    areas: Sequence[int],
    regions: Sequence[int],
    latitude: Sequence[float] | None = None,
    longitude: Sequence[float] | None = None,
) -> Geography:
    """Return a geography: `areas` are blocks in each area, `regions` are areas in each region."""
    first_area = np.cumsum([0, *areas])[:-1]
    first_region = first_area[np.cumsum([0, *regions])[:-1]]
    n = sum(areas)
    return Geography(
        block_level="block",
        block_codes=pa.array([f"b{i:04}" for i in range(n)]),
        levels=LEVELS,
        unit_codes=(
            np.array([f"r{i}" for i in range(len(regions))], dtype=object),
            np.array([f"a{i}" for i in range(len(areas))], dtype=object),
        ),
        unit_starts=(first_region.astype(np.int32), first_area.astype(np.int32)),
        latitude=np.zeros(n) if latitude is None else np.array(latitude, float),
        longitude=np.zeros(n) if longitude is None else np.array(longitude, float),
    )


def flows(
    origin_level: str,
    destination_level: str,
    table: Table,
    errors: Table | None = None,
    *,
    same: bool = False,
) -> Flows:
    """Return a table from (origin, destination) pairs, with standard errors if there are any."""
    pairs = sorted(table)
    return Flows(
        origin_level,
        destination_level,
        np.array([o for o, _ in pairs], np.int32),
        np.array([d for _, d in pairs], np.int32),
        np.array([table[pair] for pair in pairs], float),
        {"origin": 0, "destination": 0, "rows": 0},
        "table.csv",
        None if errors is None else np.array([errors[pair] for pair in pairs], float),
        same,
    )


def build(
    places: Geography,
    tables: Sequence[Flows],
    weights: Sequence[int] | None = None,
    jobs: Sequence[int] | None = None,
    level: str = "area",
) -> PublicModel:
    """Fit the public model; by default with a weight and a job for each block."""
    ones = [1] * places.n_blocks
    return build_model(places, tables, np.array(weights or ones), np.array(jobs or ones), level)


def all_shares(model: PublicModel) -> NDArray[np.float64]:
    """Return P(u | d) of all destinations d and origins u."""
    return model.shares(np.arange(model.n_units))


# --- places


def point(latitude: float, longitude: float) -> Point:
    north, east = math.radians(latitude), math.radians(longitude)
    return math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)


def haversine_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Great-circle distance between (latitude, longitude) pairs in degrees."""
    (a, b), (c, d) = ([math.radians(x) for x in place] for place in (one, other))
    square = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * EARTH_KM * math.asin(min(1.0, math.sqrt(square)))


@dataclass(frozen=True)
class Places:
    """Centres (latitude, longitude) of the units of a level, and their spread; None without a place."""

    centre: list[tuple[float, float] | None]
    spread: list[float]

    @classmethod
    def of(cls, places: Geography, level: str, weights: Sequence[int]) -> Places:
        centre: list[tuple[float, float] | None] = []
        spread: list[float] = []
        for blocks in members(places, level):
            if any(math.isnan(places.latitude[b]) for b in blocks):
                centre.append(None)
                spread.append(math.nan)
                continue
            points = [point(places.latitude[b], places.longitude[b]) for b in blocks]
            x, y, z = (sum(weights[b] * p[i] for b, p in zip(blocks, points, strict=True)) for i in range(3))
            middle = (math.degrees(math.atan2(z, math.hypot(x, y))), math.degrees(math.atan2(y, x)))
            square = sum(
                weights[b] * math.dist(p, point(*middle)) ** 2 for b, p in zip(blocks, points, strict=True)
            )
            centre.append(middle)
            spread.append(EARTH_KM * math.sqrt(square / sum(weights[b] for b in blocks)))
        return cls(centre, spread)

    def distances(self, d: int) -> list[float]:
        """Distances from d; a unit without a place is as far as the farthest, and 0 if nothing has one."""
        found: list[float | None] = []
        for u, place in enumerate(self.centre):
            here = self.centre[d]
            if place is None or here is None:
                found.append(None)
            else:
                found.append(self.spread[d] if u == d else haversine_km(here, place))
        far = max((x for x in found if x is not None), default=0.0)
        return [far if x is None else x for x in found]


def members(places: Geography, level: str) -> list[range]:
    """Return the blocks of each unit."""
    bounds = [*places.starts(level).tolist(), places.n_blocks]
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


# --- the public model


def gravity(places: Geography, level: str, weights: Sequence[int], decay: Decay) -> list[list[float]]:
    """Step 1: P(u | d) of every d."""
    where, result = Places.of(places, level, weights), []
    total = [sum(weights[b] for b in blocks) for blocks in members(places, level)]
    for d in range(len(total)):
        pull = [
            w * (x + decay.offset) ** -decay.exponent for w, x in zip(total, where.distances(d), strict=True)
        ]
        result.append([x / sum(pull) for x in pull])
    return result


def model_shares(
    places: Geography,
    level: str,
    tables: Sequence[Flows],
    jobs: Sequence[int],
    start: list[list[float]],
    kappas: Sequence[tuple[float, float]],
    rounds: int = 300,
) -> list[list[float]]:
    """Steps 2 to 4: P(u | d), from that of gravity, tables in the order in which they are applied.

    `kappas` are the concentrations measured on the tables, kappa and lambda.
    """
    unit_blocks = members(places, level)
    first = [blocks[0] for blocks in unit_blocks]
    n = [float(sum(jobs[b] for b in blocks)) for blocks in unit_blocks]
    shares = list(start)
    for i, table in enumerate(tables):
        origin = places.unit_of(table.origin_level, first).tolist()
        dest = places.unit_of(table.destination_level, first).tolist()
        coarser = [t.origin_level for t in tables[:i] if t.origin_level != table.origin_level]
        parent_of = places.unit_of(coarser[-1], first).tolist() if coarser else [0] * len(first)
        parent = dict(zip(origin, parent_of, strict=True))
        for D in sorted(set(table.destination.tolist())):
            inside = [d for d, other in enumerate(dest) if other == D]
            weight = [max(n[d], 1e-9) for d in inside]
            prior = dict.fromkeys(parent, 0.0)
            for d, w in zip(inside, weight, strict=True):
                for u, p in enumerate(shares[d]):
                    prior[origin[u]] += w * p / sum(weight)
            goal = target(table, D, prior, parent, sum(n[d] for d in inside), kappas[i])
            fitted = fit([shares[d] for d in inside], weight, origin, goal, rounds)
            for d, row in zip(inside, fitted, strict=True):
                shares[d] = row
    return shares


def target(
    table: Flows,
    D: int,
    prior: dict[int, float],
    parent: dict[int, int],
    jobs: float,
    kappa: tuple[float, float],
) -> dict[int, float]:
    """Steps 2 and 3: T(o | D)."""
    error = table.standard_error
    flow = dict.fromkeys(prior, 0.0)
    variance = dict.fromkeys(prior, 0.0)
    for row in np.flatnonzero(table.destination == D).tolist():
        o, f = int(table.origin[row]), float(table.flow[row])
        known = error is not None and not math.isnan(error[row])
        flow[o], variance[o] = f, float(error[row]) ** 2 if error is not None and known else f
    result = dict(prior)
    inside: set[int] = set()
    groups = [[o for o in prior if parent[o] == g] for g in set(parent.values())]
    groups = [group for group in groups if sum(flow[o] for o in group) > 0]
    C, whole = sum(prior[o] for group in groups for o in group), sum(flow.values())
    M = whole**2 / sum(variance.values()) if any(variance.values()) else whole
    for group in groups:
        F, P = sum(flow[o] for o in group), sum(prior[o] for o in group)
        inside |= set(group)
        squares = sum(variance[o] for o in group)
        m = F**2 / squares if squares > 0 else F
        Q = C * (M * F / whole + kappa[1] * P / C) / (M + kappa[1])
        for o in group:
            result[o] = Q * (m * flow[o] / F + kappa[0] * prior[o] / P) / (m + kappa[0])
    covered, elsewhere = (sum(p for o, p in prior.items() if (o in inside) == side) for side in (True, False))
    F = sum(flow.values())
    if table.same_jobs and F > 0 and elsewhere > 1e-9:
        n = max(jobs, F)
        share = (F + kappa[0] * covered) / (n + kappa[0])
        rest = (n - F + kappa[0] * elsewhere) / (n + kappa[0])
        for o in prior:
            result[o] *= share / covered if o in inside else rest / elsewhere
    return result


def fit(
    rows: list[list[float]], weight: list[float], origin: list[int], goal: dict[int, float], rounds: int
) -> list[list[float]]:
    """Step 4: iterative proportional fitting, until nothing moves."""
    for _ in range(rounds):
        now = dict.fromkeys(goal, 0.0)
        for row, w in zip(rows, weight, strict=True):
            for u, p in enumerate(row):
                now[origin[u]] += w * p / sum(weight)
        rows = [[p * goal[o] / now[o] for p, o in zip(row, origin, strict=True)] for row in rows]
        rows = [[p / sum(row) for p in row] for row in rows]
        if all(abs(now[o] / goal[o] - 1) < 1e-13 for o in goal):
            break
    return rows


# --- cuts


def block_measure(
    places: Geography, level: str, measure: Sequence[float], weights: Sequence[int]
) -> list[Fraction]:
    """The measure of each block: inside a unit it follows the public weights."""
    result: list[Fraction] = []
    for blocks, mass in zip(members(places, level), measure, strict=True):
        total = sum(weights[b] for b in blocks)
        result += [Fraction(mass) * weights[b] / total for b in blocks]
    return result


def decided(clear: bool) -> None:
    """Leave a drawn case out that hangs on a rounding; a written one must not."""
    if currently_in_test_context():
        assume(clear)
    assert clear


def cut(
    places: Geography, measure: Sequence[Fraction], least: Fraction, run: Fraction | float, deepest: int
) -> list[int]:
    """The first block of every cell, by recursion."""
    names = [*places.levels, places.block_level]

    def split(siblings: list[range], depth: int) -> Iterator[int]:
        ends: list[tuple[range, Fraction]] = []
        for node in siblings:
            mass = sum((measure[b] for b in node), Fraction(0))
            decided(abs(mass / least - 1) > TIE)
            if mass < least:
                ends.append((node, mass))
                continue
            yield from join(ends, run)
            ends = []
            if depth == deepest:
                yield node[0]
            else:
                yield from split([c for c in members(places, names[depth]) if c[0] in node], depth + 1)
        yield from join(ends, run)

    return list(split([range(places.n_blocks)], 0))


def join(ends: list[tuple[range, Fraction]], run: Fraction | float) -> Iterator[int]:
    """First blocks of the cells of a stretch of siblings: equal parts of it, as many as fit best."""
    total = sum((mass for _, mass in ends), Fraction(0))
    pieces = 1
    if 0 < run < math.inf:
        decided(abs((total / Fraction(run)) % 1 - Fraction(1, 2)) > TIE)
        pieces = max(1, round(total / Fraction(run)))
    before, filled = Fraction(0), defaultdict[int, list[int]](list)
    for i, (node, mass) in enumerate(ends):
        middle = (before + mass / 2) / total * pieces if total else Fraction(0)
        decided(not 1 <= round(middle) < pieces or abs(middle - round(middle)) > TIE)
        filled[i if run == 0 else min(int(middle), pieces - 1)].append(node[0])
        before += mass
    yield from (blocks[0] for blocks in filled.values())
