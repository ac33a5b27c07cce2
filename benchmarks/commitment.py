"""How long the commitment to a nation's records takes, and how much memory.

Usage: python benchmarks/commitment.py [--records 140000000]

Random homes are kept in batches as a run keeps them, on the disk of temporary files (12 bytes a record); then
their root is computed as a run does before its first draw.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from report import this_machine

import synth
from pipelines.running.commitment import input_root
from pipelines.running.folder import RunFolder

BATCHES, BLOCKS = 1_500, 11_000_000  # the most batches of a run, and the blocks of the United States
POOLS = 2_000  # of a batch


@click.command()
@click.option("--records", default=140_000_000, show_default=True)
def main(records: int) -> None:
    """Keep records in batches, and commit to them."""
    rng, size = np.random.default_rng(1), records // BATCHES
    with tempfile.TemporaryDirectory() as name:
        staging = RunFolder(Path(name))
        staging.homes.mkdir()
        for batch in range(BATCHES):
            pool = rng.integers(batch * POOLS, (batch + 1) * POOLS, size)
            work_and_home = rng.integers(0, BLOCKS, (2, size))
            staging.add_homes(batch, np.vstack([pool, work_and_home]).astype(np.int32))
        begin = time.perf_counter()
        input_root(staging, synth.RunKey.generate())
        seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(this_machine())
    click.echo(f"{BATCHES * size:,} records: {seconds:.1f} seconds; at most {memory:,.0f} MB of memory")


if __name__ == "__main__":
    main()
