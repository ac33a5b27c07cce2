"""How far homes are from what public tables tell of them: of Rhode Island, and of its proxy truth.

Usage: python benchmarks/deviations.py

Counts the homes of Rhode Island (LODES plays the truth), and those that proxy truth has for the same jobs,
and prints how far both are from the public model: flows, areas of a destination, work blocks from their
unit, residents of units and of neighbourhoods, homes inside units, and categories of residents. Variances
are relative ones, beyond chance.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
import numpy as np
from numpy.typing import NDArray
from report import table
from workload import configuration

import geo_data
from geo_data.model import Deviation
from geo_data.proxy_truth import attribute_concentrations, proxy_homes
from pipelines.planning.public_inputs import PublicInputs, job_source, read_public_inputs

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
SIZES = {"1 to 9": (1, 10), "10 to 99": (10, 100), "100 and more": (100, np.inf)}
FEWEST = 20  # expected, from which flows to areas are compared
SMALLEST = 100  # jobs of a work block, or of the others of its unit, from which it is compared
RESIDENTS = 100  # expected, from which units and neighbourhoods are compared
NEIGHBOURS = (4, 16)  # units in a neighbourhood


def relative_variance(drawn: Float64, expected: Float64, some: NDArray[np.bool_]) -> float:
    """Return the relative variance of some counts beside that by chance."""
    drawn, expected = drawn[some], expected[some]
    return float(((drawn - expected) ** 2 - expected).sum() / (expected**2).sum())


def of_flows(flows: Float64, expected: Float64, area: Int64) -> Iterator[tuple[str, str]]:
    """Yield how far flows between units are, and those to areas of the level above."""
    for name, (least, most) in SIZES.items():
        value = relative_variance(flows, expected, (expected >= least) & (expected < most))
        yield f"flows between units, {name} expected: variance", f"{value:.3f}"
    few = (expected >= 1) & (expected < 3)
    yield "pairs of units without anybody where 1 to 3 are expected", f"{(flows[few] == 0).mean():.2f}"
    off = np.abs(flows - expected).sum() / 2 / flows.sum()
    yield "flows between units: jobs that the model has elsewhere", f"{off:.3f}"
    first = np.flatnonzero(np.diff(area, prepend=-1))
    flows, expected = (np.add.reduceat(values, first, axis=1) for values in (flows, expected))
    own = area[:, None] == np.arange(first.size)
    for name, some in (("its own area", own), ("other areas", ~own)):
        value = relative_variance(flows, expected, some & (expected >= FEWEST))
        yield f"flows from a unit of work to {name}: variance", f"{value:.3f}"


def of_work_blocks(own: Float64, flows: Float64, unit: Int64) -> tuple[str, str]:
    """Return how far the shares of work blocks are from those of the rest of their unit."""
    jobs, size = flows.sum(axis=1), own.sum(axis=1)
    chosen = (size >= SMALLEST) & (jobs[unit] - size >= SMALLEST)
    others = jobs[unit[chosen], None] - size[chosen, None]
    shares = (flows[unit[chosen]] - own[chosen]) / others
    size = np.broadcast_to(size[chosen, None], shares.shape)
    some = shares > 0
    # The others are a sample as well: counts vary by chance as if they were 1 + size / others times as large.
    factor = 1 / (1 + size / others)[some]
    found = Deviation.measured(own[chosen][some] * factor, size[some] * factor, shares[some])
    assert found is not None
    value = f"{found.common:.3f} + 1 / ({found.concentration:,.0f} p)"
    return "work blocks, from the rest of their unit: variance at a share of p", value


def of_residents(residents: Float64, expected: Float64, area: Int64) -> Iterator[tuple[str, str]]:
    """Yield how far residents of units are, and of units that follow each other in one area."""
    place = np.arange(area.size) - np.searchsorted(area, area)
    for size in (1, *NEIGHBOURS):
        _, group = np.unique(area * area.size + place // size, return_inverse=True)
        counts, mean = np.bincount(group, residents), np.bincount(group, expected)
        several = np.bincount(group, np.bincount(area)[area] > 1) == size  # a zone outside has no neighbours
        many = (mean >= RESIDENTS) & several
        name = "units" if size == 1 else f"{size} units side by side"
        yield f"residents of {name}: variance", f"{relative_variance(counts, mean, many):.4f}"


def of_homes(inputs: PublicInputs, homes: NDArray[np.int32]) -> Iterator[tuple[str, str]]:
    """Yield how far homes inside units are from the public weights, as concentrations."""
    model, geography = inputs.model, inputs.geography
    every = np.arange(geography.n_blocks, dtype=np.int32)
    lived = np.bincount(homes, minlength=every.size).astype(np.float64)
    weight, parent = model.weights.astype(np.float64), model.units(every)
    part = weight / np.bincount(parent, weight)[parent]
    expected = np.bincount(parent, lived)[parent] * part
    inner = [*geography.levels, geography.block_level]
    finer = geography.unit_of(inner[inner.index(model.level) + 1], every)
    x, e, size = np.bincount(finer, lived), np.bincount(finer, expected), np.bincount(parent, lived)
    total, q = size[parent[np.unique(finer, return_index=True)[1]]], np.bincount(finer, part)
    # The squares of Dirichlet-multinomial counts, as in `attribute_concentrations`.
    between = ((x - e) ** 2 - e * (1 - q)).sum() / (total * (total - 1) * q * (1 - q)).sum()
    yield "homes of units by next finer unit: concentration", f"{1 / between - 1:,.0f}"
    many = (np.bincount(parent)[parent] > 1) & (expected > 0)
    value = relative_variance(lived, expected, many)
    concentration = 1 / value / float(np.average(part[many], weights=expected[many] ** 2))
    yield "homes inside units, from public weights: concentration", f"{concentration:,.0f}"


def of_categories(home: Int64, codes: Int64, expected: Float64, area: Int64) -> Iterator[tuple[str, str]]:
    """Yield the concentrations of the categories of residents around what workers have who are expected.

    Those of a unit are given how many residents it has; those of a unit in its area also, by category, how
    many its area has.

    Parameters
    ----------
    home, codes : ndarray of int64, shape (n,)
        Home unit and category of each job.
    expected : ndarray of float64, shape (categories, units)
    area : ndarray of int64, shape (units,)
    """
    counts = np.bincount(codes * area.size + home, minlength=expected.size).reshape(expected.shape)
    first = np.flatnonzero(np.diff(area, prepend=-1))
    of_area = [np.add.reduceat(values, first, axis=1) for values in (counts, expected)]
    inside = expected * (of_area[0] / np.maximum(of_area[1], 1e-9))[:, area]
    for name, around in (("", expected), (", in their area", inside)):
        size = counts.sum(axis=0)
        some = (size >= RESIDENTS) & (np.bincount(area)[area] > 1)
        share = around[:, some] / around[:, some].sum(axis=0)
        size, spread = size[some], (share * (1 - share)).sum(axis=0)
        square = ((counts[:, some] - size * share) ** 2).sum(axis=0)
        between = ((square - spread * size) / size).sum() / (spread * (size - 1)).sum()
        yield f"residents by %s{name}: concentration", f"{1 / between - 1:,.0f}"


def rows(inputs: PublicInputs, records: geo_data.JobRecords, homes: NDArray[np.int32]) -> dict[str, str]:
    """Return what is compared, and how far these homes of the jobs are."""
    model, n = inputs.model, inputs.model.n_units
    work, home = (model.units(blocks).astype(np.int64) for blocks in (records.work, homes))
    flows = np.bincount(work * n + home, minlength=n * n).reshape(n, n).astype(np.float64)
    shares, jobs = model.shares(np.arange(n)), flows.sum(axis=1, keepdims=True)
    blocks, of = np.unique(records.work, return_inverse=True)
    own = np.bincount(of * n + home, minlength=blocks.size * n).reshape(-1, n).astype(np.float64)
    result = dict(of_flows(flows, jobs * shares, model.areas))
    result |= [of_work_blocks(own, flows, model.units(blocks).astype(np.int64))]
    result |= of_residents(flows.sum(axis=0), (jobs * shares).sum(axis=0), model.areas)
    result |= of_homes(inputs, homes)
    for name, codes in records.attributes.items():
        kinds = codes.astype(np.int64)
        there = np.bincount(kinds * n + work, minlength=(int(kinds.max()) + 1) * n).reshape(-1, n)
        found = of_categories(home, kinds, there @ shares, model.areas)
        result |= {title % name: value for title, value in found}
    return result


@click.command()
def main() -> None:
    """Print the table."""
    inputs = read_public_inputs(configuration())
    model, names = inputs.model, tuple(inputs.slots.attributes)
    records = job_source(configuration(), inputs.geography).records(names)
    known = attribute_concentrations(inputs.geography, model.level, inputs.slots)
    true = rows(inputs, records, records.home)
    proxy = [
        rows(inputs, records, proxy_homes(model, records.work, seed, records.attributes, known))
        for seed in range(2)
    ]
    found = [(name, value, *(one[name] for one in proxy)) for name, value in true.items()]
    click.echo(table(["homes", "Rhode Island", "proxy truth", "another one"], found))


if __name__ == "__main__":
    main()
