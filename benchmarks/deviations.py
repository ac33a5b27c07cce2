"""How far homes are from what public tables tell of them: what proxy truth is to be like.

Usage: python benchmarks/deviations.py

Counts the homes of Rhode Island (LODES plays the truth) and prints, beside what proxy truth assumes,
how far they are from the public model: flows, work blocks from their unit, residents of units, homes inside
units, and categories of residents. The share of pairs without anybody is that of proxy truth itself.
"""

from __future__ import annotations

import click
import numpy as np
from numpy.typing import NDArray
from report import table
from workload import configuration

import geo_data
from pipelines.planning.public_inputs import job_source, read_public_inputs

Float64 = NDArray[np.float64]
SMALLEST = 100  # jobs of a work block, or of the others of its unit, from which it is compared
RESIDENTS = 100  # expected, from which a unit is compared


def relative_variance(drawn: Float64, expected: Float64, chance: Float64) -> float:
    """Return the relative variance of counts beside that by chance."""
    return float(((drawn - expected) ** 2 - chance).sum() / (expected**2).sum())


def described(deviation: geo_data.Deviation | None) -> str:
    """Return a deviation in words."""
    assert deviation is not None
    return f"{deviation.common:.3f} + 1 / ({deviation.concentration:,.0f} p)"


def rows() -> list[tuple[str, str, str]]:
    """Return what is compared, what Rhode Island has, and what is assumed."""
    inputs = read_public_inputs(configuration())
    model, geography, names = inputs.model, inputs.geography, tuple(inputs.slots.attributes)
    records = job_source(configuration(), geography).records(names)
    assumed, n = geo_data.Assumptions(), model.n_units
    work, home = (model.units(blocks).astype(np.int64) for blocks in (records.work, records.home))
    flows = np.bincount(work * n + home, minlength=n * n).reshape(n, n).astype(np.float64)
    shares, jobs = model.shares(np.arange(n)), flows.sum(axis=1, keepdims=True)
    large = np.broadcast_to(jobs > 0, shares.shape)
    found = geo_data.Deviation.measured(
        flows[large], np.broadcast_to(jobs, shares.shape)[large], shares[large]
    )
    result = [("flows between units, from the model", described(found), described(model.deviation))]
    few = (jobs * shares >= 1) & (jobs * shares < 3)
    proxy = model.units(geo_data.proxy_homes(model, records.work, seed=1))
    drawn = np.bincount(work * n + proxy, minlength=n * n).reshape(n, n)
    empty = [f"{(counts[few] == 0).mean():.2f}" for counts in (flows, drawn)]
    result.append(("pairs of units without anybody where 1 to 3 are expected", empty[0], empty[1]))

    blocks, of = np.unique(records.work, return_inverse=True)
    own = np.bincount(of * n + home, minlength=blocks.size * n).reshape(-1, n).astype(np.float64)
    size, unit = own.sum(axis=1), model.units(blocks)
    chosen = (size >= SMALLEST) & (jobs[unit, 0] - size >= SMALLEST)
    others = jobs[unit[chosen]] - size[chosen, None]
    shares = (flows[unit[chosen]] - own[chosen]) / others
    size = np.broadcast_to(size[chosen, None], shares.shape)
    some = shares > 0
    # The others are a sample as well: counts vary by chance as if they were 1 + size / others times as large.
    factor = 1 / (1 + size / others)[some]
    found = geo_data.Deviation.measured(own[chosen][some] * factor, size[some] * factor, shares[some])
    result.append(("work blocks, from the rest of their unit", described(found), described(assumed.blocks)))

    residents, expected = flows.sum(axis=0), (jobs * model.shares(np.arange(n))).sum(axis=0)
    many = expected >= RESIDENTS
    value = relative_variance(residents[many], expected[many], expected[many])
    result.append(("residents of units, from the model", f"{value:.3f}", f"{assumed.residents:.3f}"))

    every = np.arange(geography.n_blocks, dtype=np.int32)
    lived = np.bincount(records.home, minlength=every.size).astype(np.float64)
    weight, parent = model.weights.astype(np.float64), model.units(every)
    part = weight / np.bincount(parent, weight)[parent]
    expected = np.bincount(parent, lived)[parent] * part
    inner = [*geography.levels, geography.block_level]
    finer = geography.unit_of(inner[inner.index(model.level) + 1], every)
    x, e, size = np.bincount(finer, lived), np.bincount(finer, expected), np.bincount(parent, lived)
    total, q = size[parent[np.unique(finer, return_index=True)[1]]], np.bincount(finer, part)
    # The squares of Dirichlet-multinomial counts, as in `geo_data.attribute_concentrations`.
    between = ((x - e) ** 2 - e * (1 - q)).sum() / (total * (total - 1) * q * (1 - q)).sum()
    result.append(("homes of units by next finer unit", f"{1 / between - 1:,.0f}", f"{assumed.finer:,.0f}"))
    many = (np.bincount(parent)[parent] > 1) & (expected > 0)
    value = relative_variance(lived[many], expected[many], expected[many])
    concentration = 1 / value / float(np.average(part[many], weights=expected[many] ** 2))
    result.append(
        ("homes inside units, from public weights", f"{concentration:,.0f}", f"{assumed.homes:,.0f}")
    )

    taken = geo_data.attribute_concentrations(model.geography, model.level, inputs.slots)
    for name in names:
        codes = records.attributes[name].astype(np.int64)
        wide = int(codes.max()) + 1
        inside = np.bincount(of * wide + codes, minlength=blocks.size * wide).reshape(-1, wide)
        inside = inside / inside.sum(axis=1, keepdims=True)
        counts = np.bincount(home * wide + codes, minlength=n * wide).reshape(n, wide)
        expected, chance = (
            np.stack([np.bincount(home, values[of, k], minlength=n) for k in range(wide)], axis=1)
            for values in (inside, inside * (1 - inside))
        )
        share = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1)
        # A profile moves what varies inside blocks: it has the odds of those who could exchange homes.
        free = chance**2 / np.maximum(share * (1 - share), 1e-9)
        concentration = float(free.sum() / ((counts - expected) ** 2 - chance).sum())
        result.append(
            (f"residents by {name}, from their work blocks", f"{concentration:,.0f}", f"{taken[name]:,.0f}")
        )
    return result


@click.command()
def main() -> None:
    """Print the table."""
    click.echo(table(["homes", "Rhode Island", "assumed"], rows()))


if __name__ == "__main__":
    main()
