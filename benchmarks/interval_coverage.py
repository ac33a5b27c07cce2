"""How often intervals of posterior draws hold the truth, by table, size and attribute.

Usage: python benchmarks/interval_coverage.py [--releases 5] [--epsilon 8.6 ...]
           [--case demo ...] [--without ties ...] [--write]

For each case, mechanism and epsilon releases are made as anybody's would be, all by one plan; each carries
posterior draws of its tables (`Release.draws`). Every count of a table, and of sums
of its areas, has an interval of 90 %. Found is how often it holds the truth: by lot
(`by_lot.held_by_lot`, which is to be 90 % at any size), and as a closed interval of whole numbers. What
intervals are to hold is said of releases, not of the counts of one: these have noise in common. So the share
is that of all counts of all releases, and beside it are the lowest and the highest of single ones.
Tables are, too, those who live and work in one unit or area, and sums of each unit with its neighbours.
Sizes are those of the mean of the draws, rounded; cells that are 0 in every draw and in truth are left out.
With --write a row for each table and size goes into benchmarks/interval_coverage.csv after each plan's
releases, in place of older rows of it, with the commit that was measured; and from that file, as with --page
alone, tables and picture into benchmarks/interval_coverage.md.

With --drawn the truth is the first posterior draw of a release of the case, released in turn: a truth of
which the model of the draws is right. If intervals hold less of it than 90 %, the way they are drawn is
wrong; if they hold less of the real truth than of this one, the model is.

With --without, draws of the same releases are made again without an effect, and printed is what that does to
the share of the intervals that hold the truth, largest changes first, with the standard error that a change
has if counts are independent; and a table of those of a point or more, and of more than two errors.

The code was developed while looking at Rhode Island (LODES plays the truth), at the demo's region and at a
simulated nation; Leeds (a census plays the truth) was looked at when it was done, but for a choice between
ways to treat noise, and another nation only then.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import click
import matplotlib
import numba
import numpy as np
import pandas as pd
from by_lot import held_by_lot
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from report import commit_measured, table
from scipy.stats import binom

import geo_data
import pipelines
from geo_data.gravity import centres
from geo_data.jobs import JobRecords
from pipelines.config.loading import ReleaseConfig, parse_config
from pipelines.planning.public_inputs import job_source
from pipelines.running.demo import demo_inputs
from pipelines.views.intervals import carrying, evidence
from pipelines.views.intervals.carrying import carry_draws
from pipelines.views.intervals.evidence import JobDraws
from synth import RunKey, _words
from synth.posterior import effects, implicates, inside, placing, ties
from synth.posterior.inside import Inside
from synth.posterior.intervals import quantiles
from synth.posterior.placing import Parts
from synth.posterior.recalibration import DrawnFlows
from synth.posterior.ties import ties_of

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks" / "interval_coverage.md"
RESULTS = ROOT / "benchmarks" / "interval_coverage.csv"
PICTURE = ROOT / "docs" / "images" / "interval_coverage.svg"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
CASES = ("demo", "Rhode Island", "nation", "another nation", "Leeds")
SMALL = "small nation"  # for effects: urns have cells of several units
CUT = "Rhode Island by block"  # for tables by home block and by ZIP areas, which cut tracts
POLICIES = {  # of Rhode Island
    "Rhode Island by county": '{ partition = "cty" }',
    "Rhode Island, 16 km": "{ distance_km = 16 }",
}
GENERATED = {"region": geo_data.simulate_region, "country": geo_data.simulate_country}  # nobody tuned on
NATIONS = {"nation": (600_000, 1), "another nation": (600_000, 2), SMALL: (60_000, 1)}  # jobs, seeds
OTHERS = {SMALL, CUT, *POLICIES, *GENERATED}  # cases that are not of the page
MICRODATA = """[jobs]
format = "microdata"
file = "../../shared/data/ri_2019/ri_microdata_2019.csv.gz"
home = "home"
work = "work"
attributes = ["age", "earnings", "industry"]

[geography]
"""
NEIGHBOURS = 3  # of a unit, whose sums are looked at
MANY = 30  # counts of a size in a release, in the mean, from which a share of them is looked at
SIZES = {"0": (0, 0), "1 to 9": (1, 9), "10 to 99": (10, 99), "100 and more": (100, 2**62)}
COLOURS = dict(zip(SIZES, ("#999999", "#56b4e9", "#0072b2", "#d55e00"), strict=True))
COLUMNS = ("published", "home to work", "size", "releases", "counts", "held", "within", "lowest", "highest")
Ints = NDArray[np.int64]


def configuration(
    name: str, mechanism: str, epsilon: str, folder: Path, jobs: Path | None = None
) -> ReleaseConfig:
    """Return the configuration of a case, with another mechanism and epsilon; cells are never left out.

    Microdata of Rhode Island may be another file of jobs.
    """
    examples = ROOT / "examples"
    if name in ("Rhode Island", *POLICIES):
        before, after = (examples / "rhode_island.toml").read_text(encoding="utf-8").split("[jobs]\n")
        micro = MICRODATA if jobs is None else re.sub(r"(?m)^file = .*", f'file = "{jobs}"', MICRODATA)
        text = before + micro + after.split("[geography]\n")[1]
    elif name == CUT:
        text = (examples / "rhode_island.toml").read_text(encoding="utf-8")
        text = text.replace("[geography]\n", '[geography]\nnon_nesting_areas = ["zcta"]\n')
        for home, work in (("trct", "trct"), ("zcta", "zcta"), ("tabblk2010", "trct")):
            text += f'[[workload]]\nhome = "{home}"\nwork = "{work}"\n'
    elif name == "Leeds":
        text = (examples / "leeds.toml").read_text(encoding="utf-8")
    else:
        path = demo_inputs(folder) if name == "demo" else simulated(name, folder)
        text, examples = path.read_text(encoding="utf-8"), path.parent
    if name in POLICIES:
        text = text.replace("[privacy]\n", f"[privacy]\npolicy = {POLICIES[name]}\n")
    values = {"epsilon": epsilon, "delta": "0" if mechanism == "geometric" else "1e-5"}
    for key, value in values.items():
        text = re.sub(rf'(?m)^{key} = "[^"]*"', f'{key} = "{value}"', text)
    text = re.sub(r"(?m)^(mechanism|retention_min) = .*\n", "", text)
    text = text.replace("[release]\n", f'[release]\nmechanism = "{mechanism}"\n')
    if "[plan]" in text and mechanism == "dirichlet":
        text = text.replace("[plan]\n", '[plan]\nretention_min = "1"\n')
    return parse_config(text, examples, f"{name}.toml").with_out(folder / "release")


def simulated(name: str, folder: Path) -> Path:
    """Write a nation, a region or a country; return its configuration."""
    if name in GENERATED:
        return GENERATED[name](folder / name)
    jobs, seed = NATIONS[name]
    return geo_data.simulate_nation(folder, jobs, seed=seed)


def without_recalibration(flows: DrawnFlows, *_: object) -> NDArray[np.float32]:
    """Return the flows as they were drawn."""
    return flows.counts


def without_ties(labels: Ints, n: Ints, areas: int, random: np.random.Generator) -> Any:
    """Return no ties between the groups of a place."""
    return ties_of(labels[:0], n, areas, random)


def without_parts(draws: implicates.Implicates, member: NDArray[np.int32]) -> Parts:
    """Return rows that are in no part of their place."""
    return Parts(np.zeros(1), np.zeros(1, np.uint64), np.zeros((0, member.shape[1]), np.int64))


def without_inside(inside: Inside, position: int, some: Ints, expected: object) -> NDArray[np.float32]:
    """Return fine cells in proportion to the public model."""
    return np.ones((inside._draws, some.size), np.float32)


def without_group_effects(draws: implicates.Implicates, table: Any, *_: object) -> NDArray[np.float32]:
    """Return factors of 1 of tables whose groups are sums over places."""
    return np.ones((draws.draws, int(table.offsets[-1])), np.float32)


def without_row_factors(variance: object, random: object, result: NDArray[np.float32]) -> None:
    """Set factors of 1 of tables that no published group tells apart."""
    result[:] = 1


def mixture(counted: bool | None = None, **family: bool) -> type:
    """Return mixtures of families with other flags; noise of all, or none, of whose labels counts as jobs."""

    class Mixture(effects._Mixture):
        def __init__(self, sums: Any, labels: effects.Family) -> None:
            before = {name: getattr(labels, name) for name in family}
            vars(labels).update(family)
            super().__init__(sums, labels)
            vars(labels).update(before)
            if counted is not None:
                self._counted = np.full(self._counted.size, counted)

    return Mixture


def with_all_groups(
    draws: implicates.Implicates, sums: effects.Sums, factors: effects.Effects, random: object
) -> None:
    """Measure how near groups are to a profile of their place that was found with their counts, too."""
    mean = sums.times(effects.product(draws.families, factors.last))
    logs = draws._log_likelihoods(mean / sums.n)
    draws._chances = implicates._concentration_chances(logs)
    draws.k_group = implicates._likely(logs.sum(axis=0).tolist())
    if not draws._several:
        draws.k_place, draws._around = draws.k_group, np.split(mean / sums.n, draws._bounds[1:-1])
        return
    draws.k_place = implicates._concentration(sums, mean)
    mean = sums.times(effects.product(draws.families[: draws._shared], factors.last[: draws._shared]))
    by_unit = sums.by(draws._unit, mean)
    draws._place_sums = implicates._PlaceSums(by_unit, draws._unit, draws._bounds)


def one_stratum(outside: NDArray[np.bool_], same: object = True) -> Ints:
    """Return one stratum of all homes."""
    return np.full(outside.size, effects.SAME)


# What is left out: constants and functions, and what takes their place.
EFFECTS: dict[str, list[tuple[object, str, Any]]] = {
    "recalibration": [(carrying, "recalibrated", without_recalibration)],
    "bands": [(evidence._Prior, "learned", lambda prior, _: prior), (evidence._Prior, "bands", None)],
    "ties": [(implicates, "ties_of", without_ties)],
    "parts": [(implicates.Implicates, "_parts_of", without_parts)],
    "inside": [(Inside, "weights", without_inside)],
    "effects of groups": [(implicates.Implicates, "_effects_of_groups", without_group_effects)],
    "factors of rows": [(implicates, "_factors", without_row_factors)],
    "others of a place": [(implicates.Implicates, "_measure_concentrations", with_all_groups)],
    "homes that are cut alike": [(implicates, "_common_homes", lambda starts, stops, first, *_: first)],
    "strata": [(implicates, "strata", one_stratum), (inside, "strata", one_stratum)],
    "factors far from 1": [(effects, "_Mixture", mixture(far=False))],
    "widest kind not of areas": [(effects, "_Mixture", mixture(areas=False))],
    "noise outside is jobs": [(effects, "_Mixture", mixture(counted=False))],
    "noise is background": [(effects, "_Mixture", mixture(counted=True))],
    "_FLOORS": [(implicates, "_FLOORS", (1e-3,))],
    "_SPREAD_JOBS, _ADDED_JOBS": [(implicates, "_SPREAD_JOBS", ()), (implicates, "_ADDED_JOBS", ())],
    "_EQUAL": [(implicates, "_EQUAL", 1e-6)],
    "_TOLERANCE": [(implicates, "_TOLERANCE", 1e-9)],
    "_RARE": [(implicates, "_RARE", 1e-6)],
    "_INFORMATIVE": [(implicates, "_INFORMATIVE", 2**62)],
    "_PART": [(implicates, "_PART", 0.0)],
    "_FEW of effects": [(effects, "_FEW", 0.0)],
    "_SHARED_LABELS": [(effects, "_SHARED_LABELS", 1e6)],
    "_PRIOR_LABELS": [(effects, "_PRIOR_LABELS", np.full(effects._MEANS.size, 0.5))],
    "_FEW of ties": [(ties, "_FEW", 0)],
    "_SURE_DEVIATIONS": [(effects, "_SURE_DEVIATIONS", 1e9)],
    "_INDEPENDENT_STEPS": [(effects, "_INDEPENDENT_STEPS", 0)],
    "_FIRM": [(placing, "_FIRM", 1)],
}


@contextlib.contextmanager
def left_out(effect: str, folder: Path) -> Iterator[None]:
    """Leave an effect out, and compile kernels that it is in anew, into a folder."""
    with contextlib.ExitStack() as stack:
        for patch in EFFECTS.get(effect, ()):
            stack.enter_context(mock.patch.object(*patch))
        kernels = [
            kernel
            for module in (effects, ties, placing)
            for kernel in vars(module).values()
            if isinstance(kernel, _words._Kernel)
        ]
        changed = {attribute for _, attribute, _ in EFFECTS.get(effect, ())}
        affected: list[_words._Kernel] = []
        while more := [
            kernel
            for kernel in kernels
            if kernel not in affected and changed.intersection(kernel.py_func.__code__.co_names)
        ]:
            affected += more
            changed.update(kernel.py_func.__name__ for kernel in more)
        if affected:
            stack.enter_context(mock.patch.object(numba.config, "CACHE_DIR", str(folder / effect)))
        for kernel in affected:
            stack.callback(vars(kernel).update, {"_compiled": kernel._compiled})
            del vars(kernel)["_compiled"]
        try:
            yield
        finally:
            for kernel in affected:
                vars(kernel).pop("_compiled", None)


class Coverage:
    """Counts how often the intervals of a release hold the truth."""

    def __init__(self, draws: pipelines.PosteriorDraws, truth: dict[str | None, JobRecords]) -> None:
        self._draws, self._truth = draws, truth
        self._random = np.random.default_rng(1)

    def rows(
        self, home: str, work: str | None, attribute: str | None = None
    ) -> Iterator[dict[str, str | int | float]]:
        """Yield sizes, how many counts have them, and the shares that hold the truth, by lot and closed."""
        draws, geography = self._draws, self._draws.release.geography
        truth = self._truth[attribute]
        wide = geography.n_units(home)
        names = () if attribute is None else (attribute,)
        key = np.zeros(len(truth), np.int64)
        if work is not None:
            key += geography.unit_of(work, truth.work)
        for each in names:
            key = key * len(draws.release.categories[each]) + truth.attributes[each]
        true, jobs = np.unique(key * wide + geography.unit_of(home, truth.home), return_counts=True)
        tally, missed = _Tally(self._random), true.size
        cells = draws.cells(home, work, names)
        key = cells.work
        for each, codes in zip(names, cells.categories, strict=True):
            key = key * len(draws.release.categories[each]) + codes
        own = _of_keys(true, jobs, key * wide + cells.home)
        missed -= int((own > 0).sum())
        tally.add(own, cells.counts)
        yield from tally.rows(missed)

    def near_rows(self, unit: str, weights: Ints) -> Iterator[dict[str, str | int | float]]:
        """Yield the same, with names of the tables, of who lives and works in one area, and of neighbours.

        A unit's neighbours are the `NEIGHBOURS` whose weighted centres are nearest; what lies outside the
        region has none.
        """
        geography = self._draws.release.geography
        for words, level in (("same unit", unit), ("same area", _area_of(geography, unit))):
            same = np.arange(geography.n_units(level))[:, np.newaxis]
            yield from ({"home to work": words} | row for row in self._sums(level, same, same))
        vectors = centres(geography, unit, weights).vectors
        inside = np.flatnonzero(~np.isnan(vectors[:, 0]))
        order = np.argsort(-(vectors[inside] @ vectors[inside].T), axis=1, kind="stable")
        near = inside[order[:, : 1 + NEIGHBOURS]]
        for words, work in (
            ("unit and neighbours to the same", near),
            ("residents of a unit and neighbours", None),
        ):
            yield from ({"home to work": words} | row for row in self._sums(unit, near, work))

    def _sums(self, level: str, home: Ints, work: Ints | None) -> Iterator[dict[str, str | int | float]]:
        """Yield sizes as `rows` does, of the flows from some units together to some together, by row."""
        geography, truth = self._draws.release.geography, self._truth[None]
        wide, of_work = geography.n_units(level), None if work is None else level
        key = np.zeros(len(truth), np.int64)
        if of_work is not None:
            key += geography.unit_of(of_work, truth.work)
        true, jobs = np.unique(key * wide + geography.unit_of(level, truth.home), return_counts=True)
        cells = self._draws.cells(level, of_work)
        drawn_keys = cells.work * wide + cells.home  # rising
        first = np.zeros((len(home), 1), np.int64) if work is None else work
        pairs = first[:, :, np.newaxis] * wide + home[:, np.newaxis]
        pairs = pairs.reshape(len(home), -1)
        own = _of_keys(true, jobs, pairs).sum(axis=1)
        total = np.stack([_of_keys(drawn_keys, row, pairs).sum(axis=1) for row in cells.counts])
        some = (own > 0) | (total > 0).any(axis=0)
        tally = _Tally(self._random)
        tally.add(own[some], total[:, some])
        yield from tally.rows()


class _Tally:
    """How many counts have which size, and how many of these hold the truth, by lot and closed."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random, self._rows = random, np.zeros((len(SIZES), 3))

    def add(self, truth: Ints, counts: Ints) -> None:
        """Count some cells, of which `counts` has a row for each draw."""
        low, high = quantiles(counts)
        lot = held_by_lot(truth, counts, self._random)
        closed = (low <= truth) & (truth <= high)
        size = np.rint(counts.mean(axis=0))
        for row, (least, most) in zip(self._rows, SIZES.values(), strict=True):
            some = (least <= size) & (size <= most)
            row += [some.sum(), lot[some].sum(), closed[some].sum()]

    def rows(self, missed: int = 0) -> Iterator[dict[str, str | int | float]]:
        """Yield a row for each size; of the smallest are so many true counts that are 0 in every draw."""
        self._rows[0, 0] += missed
        for size, (n, lot, closed) in zip(SIZES, self._rows, strict=True):
            if n:
                held, within = (round(100 * one / n, 1) for one in (lot, closed))
                yield {"size": size, "counts": int(n), "held": held, "within": within}


def _of_keys(keys: Ints, values: Ints, wanted: Ints) -> Ints:
    """Return the values of some keys, which are rising; 0 of those that there are not."""
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.asarray(np.where(keys[at] == wanted, values[at], 0))


def _area_of(geography: geo_data.Geography, unit: str) -> str:
    """Return the level of the larger areas that units are parts of."""
    levels = [*geography.levels, geography.block_level]
    return levels[max(0, levels.index(unit) - 1)]


def tables(draws: pipelines.PosteriorDraws, unit: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield the tables that are looked at, of which there are draws: name, home, work, attribute."""
    for words, home, work, attribute in _asked(draws, unit):
        if draws.has(home, work, () if attribute is None else (attribute,)):
            yield words, home, work, attribute


def _asked(draws: pipelines.PosteriorDraws, unit: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield the tables that would be looked at."""
    levels, area = draws.release.levels, _area_of(draws.release.geography, unit)
    yield "unit to unit", unit, unit, None
    yield "unit to work block", unit, levels[-1], None
    yield "home block to unit", levels[-1], unit, None
    if (finer := levels[min(levels.index(unit) + 1, len(levels) - 1)]) != unit:
        yield "finer unit to finer unit", finer, finer, None
    for kind in draws.release.geography.non_nesting_areas:
        yield f"{kind} to {kind}", kind, kind, None
        yield f"{kind} to unit", kind, unit, None
        yield f"unit to {kind}", unit, kind, None
        yield f"residents of {kind}", kind, None, None
    for name in draws.release.categories:
        yield f"residents of a unit by {name}", unit, None, name
    for name in draws.release.categories:
        yield f"unit to unit by {name}", unit, unit, name
    yield "residents of a unit", unit, None, None
    yield "unit to area", unit, area, None
    yield "area to unit", area, unit, None
    yield "area to area", area, area, None


def write_drawn(release: pipelines.Release, path: Path) -> None:
    """Write jobs of a posterior draw as microdata; blocks of a home unit have equal chances."""
    geography = release.geography
    jobs = JobDraws(release, 1, RunKey(bytes(32), secure=False), lambda *_: None)
    unit = np.concatenate([place.homes[0] for place in jobs.places()]).astype(np.int64)
    starts = geography.starts(jobs.home_level)
    wide = np.diff(np.append(starts, geography.n_blocks))[unit]
    block = starts[unit] + np.random.default_rng(1).integers(wide)
    row = np.repeat(np.arange(jobs.jobs.size), jobs.jobs)
    frame = pd.DataFrame({"work": geography.blocks[jobs.work[row]]})
    for name, codes in jobs.attributes.items():
        frame[name] = np.array(release.categories[name], object)[codes[row]]
    frame["home"] = geography.blocks[block]
    frame.to_csv(path, index=False)


def measure_coverage(
    name: str,
    mechanism: str,
    epsilon: str,
    releases: int,
    drawn: bool = False,
    without: tuple[str, ...] = (),
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Make releases of one plan, and their draws; yield a row for each table and size.

    With each effect that is left out of the draws: first "", which is none.
    """
    with tempfile.TemporaryDirectory() as scratch:
        config = configuration(name, mechanism, epsilon, Path(scratch))
        if drawn:
            path = Path(scratch) / "drawn.csv.gz"
            write_drawn(pipelines.run(config), path)
            config = configuration(name, mechanism, epsilon, Path(scratch) / "again", path)
        of = {"case": name, "mechanism": mechanism, "epsilon": epsilon}
        planned = Path(scratch) / "plan"
        pipelines.plan(config, planned)
        made = [
            pipelines.run(config.with_out(Path(scratch) / f"release-{i}"), plan=planned)
            for i in range(releases)
        ]
        for effect in ("", *without):
            with left_out(effect, Path(scratch)):
                if effect:
                    for release in made:
                        carry_draws(release, Path(scratch))
                rows = [held_of(release, config) for release in made]
            yield effect, pooled(rows).assign(**of)[[*of, *COLUMNS]]


def held_of(release: pipelines.Release, config: ReleaseConfig) -> pd.DataFrame:
    """Return a row for each table and size of a release."""
    opened, plan = pipelines.open_release(release.public).draws(), release.plan
    source = job_source(config, plan.geography)
    truth: dict[str | None, JobRecords] = {
        each: source.records(() if each is None else (each,)) for each in (None, *release.categories)
    }
    what = "; ".join(f"{words} ({float(share):.0%})" for words, share in plan.tables) or (
        f"{plan.numeric.pools.n_pools:,} urns"
        + (f" by {' and '.join(plan.pools.pooling.by)}" if plan.pools.pooling.by else "")
    )
    coverage = Coverage(opened, truth)
    rows: Iterator[dict[str, str | int | float]] = (
        {"home to work": words} | row
        for words, *cells in tables(opened, plan.level)
        for row in coverage.rows(*cells)
    )
    every = itertools.chain(rows, coverage.near_rows(plan.level, plan.weights))
    return pd.DataFrame({"published": what} | row for row in every)


def pooled(found: list[pd.DataFrame]) -> pd.DataFrame:
    """Put the counts of several releases together, with the lowest and the highest share of one."""
    every = pd.concat(found)
    weighted = every.assign(
        releases=len(found),
        lowest=every["held"],
        highest=every["held"],
        **{each: every[each] * every["counts"] for each in ("held", "within")},
    )
    how = {"counts": "sum", "held": "sum", "within": "sum", "lowest": "min", "highest": "max"}
    rows = weighted.groupby(["published", "home to work", "size", "releases"], sort=False).agg(how)
    for each in ("held", "within"):
        rows[each] = (rows[each] / rows["counts"]).round(1)
    order = {name: i for i, name in enumerate(every["home to work"].drop_duplicates())}
    rank = {name: i for i, name in enumerate(SIZES)}
    return rows.reset_index().sort_values(
        ["home to work", "size"], key=lambda one: one.map(order if one.name == "home to work" else rank)
    )


def expected_inside(counts: pd.Series) -> float:
    """Return how many of some sizes would be in 87 to 93 % if each count had a chance of 90 %."""
    n = counts.to_numpy()
    ends = (np.ceil(n * end) - 1 for end in (0.8695, 0.9295))  # shares are rounded to a tenth of a percent
    low, high = (binom.cdf(end, n, 0.9) for end in ends)
    return float((high - low).sum())


def with_many(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of sizes that are looked at."""
    return found[found["counts"] >= MANY * found["releases"]].copy()


def in_words(found: pd.DataFrame) -> str:
    """Say how many sizes of tables are held as often as they should be, and how many chance alone allows."""
    many = with_many(found)
    inside = int(many["held"].between(87, 93, inclusive="left").sum())
    below = int((many["held"] < 85).sum())
    alone = expected_inside(many["counts"] // many["releases"])
    return (
        f"{len(many)} sizes of {MANY} counts and more: {inside} in 87 to 93 %, {below} in less than 85 %; by "
        f"chance alone {alone:.0f} would be in 87 to 93 % in one release"
    )


def with_sums(found: pd.DataFrame) -> pd.DataFrame:
    """Return tables and sizes, and beside them the counts of a size in all tables, and of a table in all."""
    rows = found[["home to work", "size", "counts", "held"]].assign(held=found["held"] * found["counts"])
    size = rows.groupby("size", as_index=False, sort=False)[["counts", "held"]].sum()
    of_table = rows.groupby("home to work", as_index=False, sort=False)[["counts", "held"]].sum()
    sums = [rows, size.assign(**{"home to work": "all tables"}), of_table.assign(size="all sizes")]
    every = pd.concat(sums)
    return every.assign(held=every["held"] / every["counts"])


def changed(whole: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the tables and sizes of which the share changed most, where an effect is left out."""
    cells = ["home to work", "size"]
    both = with_sums(whole).merge(with_sums(found), on=cells, suffixes=("", " without"))
    both = both[both["counts"] >= MANY * whole["releases"].max()]
    both["change"] = both["held without"] - both["held"]
    both["error"] = sum(
        both[held] * (100 - both[held]) / both[n]
        for held, n in (("held", "counts"), ("held without", "counts without"))
    )
    both["error"] = np.sqrt(both["error"])
    order = both["change"].abs().sort_values(ascending=False).index
    return both.loc[order, [*cells, "counts", "held", "held without", "change", "error"]].round(1)


def most_changed(effect: str, change: pd.DataFrame) -> tuple[str, str, str]:
    """Say how many sizes an effect changes by a point or more, beyond two errors, and which one most."""
    by = change["change"].abs()
    sure = change[(by >= 1) & (by > 2 * change["error"])]
    words = [
        f"{row['home to work']}, {row['size']}: {row['held']:.1f} to {row['held without']:.1f} %"
        for _, row in sure.head(1).iterrows()
    ]
    return effect, f"{len(sure)} of {len(change)}", "".join(words)


def replace_rows(found: pd.DataFrame) -> None:
    """Put the rows of a release into the file of results, in place of those that it has of it."""
    code = Path(pipelines.__file__).parents[1]  # which is measured, and need not be the checkout of this file
    found = found.assign(commit=commit_measured(code))
    kept = pd.read_csv(RESULTS, dtype=str)
    of = ["case", "mechanism", "epsilon"]
    same = kept.set_index(of).index.isin(found.set_index(of).index)
    every = pd.concat([kept[~same], found.astype(str)])
    rank = [[*CASES].index(case) for case in every["case"]]
    order = np.lexsort([-every["epsilon"].astype(float), every["mechanism"] == "dirichlet", rank])
    every.iloc[order].to_csv(RESULTS, index=False, lineterminator="\n")


def described(results: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the page: of each case, the lowest and highest shares of all its plans."""
    many = with_many(results)
    many["kind"] = many["home to work"].str.replace(r" by \w+$", " by an attribute", regex=True)
    yield f"How many sizes of {MANY} counts or more in a release have intervals that hold the truth"
    yield ""
    rows = []
    for case, found in many.groupby("case", sort=False):
        held = found["held"]
        bounds = ((87, 93), (85, 95), (0, 85))
        shares = [f"{100 * held.between(*ends, inclusive='left').mean():.0f} %" for ends in bounds]
        plans = found[["mechanism", "epsilon", "commit", "releases"]].drop_duplicates()
        releases = plans.groupby("commit", sort=False)["releases"].sum()
        code = f"{len(plans)}; " + ", ".join(f"{n} of {commit}" for commit, n in releases.items())
        exact = f"{100 * expected_inside(found['counts'] // found['releases']) / len(held):.0f} %"
        rows.append((case, code, f"{len(held):,}", shares[0], exact, *shares[1:]))
    head = ["", "plans; releases, and the commit of the code", "tables and sizes", "in 87 to 93 %"]
    yield table([*head, "by chance alone, in one release", "in 85 to 95 %", "in less than 85 %"], rows)
    yield ""
    of_several = many[many["releases"] > 1]
    apart = of_several["highest"] - of_several["lowest"]
    wide = apart.groupby(
        pd.cut(of_several["counts"] / of_several["releases"], [MANY, 100, 1000, np.inf], right=False)
    )
    few, some, most = wide.mean()
    yield (
        "Between the releases of a plan, the highest and the lowest share of a size are, in the mean, "
        f"{few:.0f} points apart where a release has {MANY} to 99 counts of it, {some:.0f} where it has up "
        f"to 999, and {most:.0f} beyond."
    )
    yield ""
    yield "Of the releases of a plan, the counts of a size in all tables, and those of a table in all sizes"
    yield ""
    rows = [
        (case, *(words for by in ("size", "home to work") for words in together(found, by)))
        for case, found in results.groupby("case", sort=False)
    ]
    ends = "lowest and highest"
    yield table(["", "sizes in 87 to 93 %", ends, "tables in 87 to 93 %", ends], rows)
    yield ""
    yield "Lowest and highest of all plans of a case:"
    for case, found in many.groupby("case", sort=False):
        yield f"\n### {case}\n"
        ends = found.groupby(["kind", "size"])["held"].agg(["min", "max"])
        rows = [
            (kind, *(words_of(ends, kind, size) for size in SIZES))
            for kind in found["kind"].drop_duplicates()
        ]
        yield table(["home to work", *SIZES], rows)
    yield ""


def together(found: pd.DataFrame, by: str) -> tuple[str, str]:
    """Say how many sizes, or tables, of the plans of a case are held as often as they should be."""
    held = (found["held"] * found["counts"]).groupby([found[name] for name in ("mechanism", "epsilon", by)])
    counts = found.groupby(["mechanism", "epsilon", by])["counts"].sum()
    releases = found.groupby(["mechanism", "epsilon", by])["releases"].first()
    shares = (held.sum() / counts)[counts >= MANY * releases]
    inside = int(shares.round(1).between(87, 93, inclusive="left").sum())
    return f"{inside} of {shares.size}", f"{shares.min():.0f} to {shares.max():.0f} %"


def words_of(ends: pd.DataFrame, kind: str, size: str) -> str:
    """Return the lowest and the highest share of a kind of table at a size."""
    if (kind, size) not in ends.index:
        return ""
    low, high = ends.loc[(kind, size)].round().astype(int)
    return f"{low} to {high}" if low < high else str(low)


def draw_picture(results: pd.DataFrame) -> None:
    """Draw a point for each plan, table and size."""
    matplotlib.rcParams["svg.hashsalt"] = "odsynth"
    many = with_many(results)
    cases = many["case"].drop_duplicates().tolist()
    kinds = many["home to work"].str.replace(r" by \w+$", " by an attribute", regex=True)
    order = kinds.drop_duplicates().tolist()[::-1]
    figure, axes = plt.subplots(1, len(cases), figsize=(3 * len(cases), 4), sharey=True, layout="constrained")
    for axis, case in zip(np.atleast_1d(axes), cases, strict=True):
        axis.axvspan(87, 93, color="#dddddd", zorder=0)
        for i, (size, colour) in enumerate(COLOURS.items()):
            some = (many["case"] == case) & (many["size"] == size)
            at = [order.index(kind) + 0.24 - 0.16 * i for kind in kinds[some]]
            axis.scatter(many["held"][some], at, s=9, color=colour, label=size, linewidths=0)
        axis.set(title=case, xlabel="% of intervals that hold the truth", xlim=(0, 101))
    np.atleast_1d(axes)[0].set_yticks(range(len(order)), order)
    figure.legend(
        *np.atleast_1d(axes)[0].get_legend_handles_labels(), title="jobs", loc="outside lower center", ncols=4
    )
    figure.savefig(PICTURE, metadata={"Date": None})


@click.command()
@click.option("--releases", type=click.IntRange(min=1), default=5, show_default=True, help="Of each plan.")
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--case", "cases", multiple=True, type=click.Choice([*CASES, *sorted(OTHERS)]), default=CASES)
@click.option("--mechanism", multiple=True, default=("geometric", "dirichlet"), show_default=True)
@click.option("--without", multiple=True, type=click.Choice([*EFFECTS]), help="An effect of the draws.")
@click.option("--drawn", is_flag=True, help="The truth is a posterior draw; of Rhode Island only.")
@click.option("--write", is_flag=True, help=f"Write {RESULTS.name}, and the page.")
@click.option("--page", is_flag=True, help=f"Write the page from {RESULTS.name}; nothing is measured.")
def main(
    releases: int,
    epsilon: tuple[str, ...],
    cases: tuple[str, ...],
    mechanism: tuple[str, ...],
    without: tuple[str, ...],
    drawn: bool,
    write: bool,
    page: bool,
) -> None:
    """Measure and print, a table for each case, mechanism and epsilon."""
    if write and (others := OTHERS.intersection(cases)):
        raise click.UsageError(f"rows of {' and '.join(sorted(others))} are not of the page")
    if drawn and (write or cases != ("Rhode Island",)):
        raise click.UsageError('--drawn goes with --case "Rhode Island", and writes nothing')
    if not page:
        for name in cases:
            for one in epsilon:
                for which in mechanism:
                    results = measure_coverage(name, which, one, releases, drawn, without)
                    _, found = next(results)
                    click.echo(found.to_string(index=False))
                    rows = []
                    for effect, other in results:
                        change = changed(found, other)
                        click.echo(f"without {effect}\n{change.to_string(index=False)}")
                        rows.append(most_changed(effect, change))
                    if rows:
                        click.echo(table(["left out", "changed by a point or more", "most"], rows))
                    click.echo(f"{name}, {which}, {one}: {in_words(found)}")
                    if write:
                        replace_rows(found)
    if write or page:
        results = pd.read_csv(RESULTS, dtype={"epsilon": str, "commit": str})
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        lines = "\n".join(described(results))
        PAGE.write_text(f"{before}{BEGIN}\n{lines}\n{END}{rest.split(END)[1]}", encoding="utf-8")
        draw_picture(results)


if __name__ == "__main__":
    main()
