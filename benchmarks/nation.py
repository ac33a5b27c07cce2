"""Planning a nation: time and memory of the public plan of 140 million jobs.

Usage: python benchmarks/nation.py [--workers 140000000]

Simulates a country of the size of the United States (`odsynth simulate`): 51 states, 3,142 counties, 73,000
tracts, 7.7 million blocks, 2.3 million work blocks, 140 million jobs, a county table and a tract table of an
earlier release. Then the plan is made and certified as for any release.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

import geo_data
import pipelines
from pipelines.choosing import choose
from pipelines.planning import assemble


@click.command()
@click.option("--workers", default=140_000_000)
def main(workers: int) -> None:
    """Simulate, plan, certify and print."""
    with tempfile.TemporaryDirectory() as name:
        with step("simulating (not part of planning)"):
            path = geo_data.simulate_nation(name, workers)
        begin = time.perf_counter()
        config = pipelines.load_config(path)
        with step("reading geography, work blocks, weights and tables, fitting the public model"):
            inputs = pipelines.read_public_inputs(config)
        print(f"  {inputs.model.geography!r}, {len(inputs.slots):,} jobs, decay {inputs.model.decay}")
        with step("choosing cells and pools"):
            choices = choose(config, inputs)
        print(f"  {choices}")
        with step("making the plan"):
            release = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
        print(f"  {release.plan!r}, {release.shares.unit.size:,} shares")
        with step("certifying"):
            guarantee = pipelines.certified(release)
        print(f"  epsilon {float(guarantee.epsilon):.6f}, delta {float(guarantee.delta):.3e}")
        print(f"planning took {(time.perf_counter() - begin) / 60:.1f} minutes in all")


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the time of a step, and the peak memory so far."""
    begin = time.perf_counter()
    yield
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what}: {time.perf_counter() - begin:.1f} s; peak memory so far {memory:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
