"""What the posterior draws of a release cost, beside what they cost with an earlier version of the program.

Usage: python benchmarks/interval_cost.py PUBLIC BEFORE [--draws 100]

PUBLIC is the public folder of a release, BEFORE a commit of this repository that can read it. `odsynth
intervals` runs once with the code as it is, after a run that compiles it, and once with that of the commit.
Prints the ratios of processor time and peak memory; benchmarks/interval_coverage.md has those of Rhode
Island.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from processes import Usage, completed

ROOT = Path(__file__).parent.parent
RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pipelines.cli import main; main()"


def cost(code: Path, public: Path, to: Path, draws: int) -> Usage:
    """Return what a command with the code in a folder took."""
    options = ["intervals", str(public), "--to", str(to), "--draws", str(draws)]
    return completed([sys.executable, "-P", "-c", RUN, str(code), *options])


@click.command()
@click.argument("public", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("before")
@click.option("--draws", type=click.IntRange(min=19), default=100, show_default=True)
def main(public: Path, before: str, draws: int) -> None:
    """Measure both, and print how they compare."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        archive = subprocess.run(["git", "archive", before], cwd=ROOT, check=True, capture_output=True)
        (folder / "before").mkdir()
        subprocess.run(["tar", "x"], cwd=folder / "before", input=archive.stdout, check=True)
        found = {}
        for name, code in (("before", folder / "before"), ("now", ROOT)):
            cost(code, public, folder / f"compiled-{name}", 19)
            found[name] = cost(code, public, folder / f"draws-{name}", draws)
            size = (folder / f"draws-{name}" / "draws.parquet").stat().st_size / 1e6
            click.echo(
                f"{name}: {found[name].processor:.0f} s of processor time, {found[name].gigabytes:.2f} GB, "
                f"draws of {size:.1f} MB"
            )
        now, then = found["now"], found["before"]
        click.echo(
            f"now / before: {now.processor / then.processor:.2f} of the processor time, "
            f"{now.gigabytes / then.gigabytes:.2f} of the memory"
        )


if __name__ == "__main__":
    main()
