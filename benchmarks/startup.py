"""What the command line takes before and around its work: whole processes, beside an empty one.

Usage: python benchmarks/startup.py [--config CONFIG] [--page benchmarks/startup.md]

Times `odsynth --help` and, of the built-in region, `odsynth verify`; with --config, `odsynth run` of a
configuration too, with a plan that was made before and without. Each runs five times, taking turns; the
medians are printed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import click
import report
from processes import Usage, completed

COMMAND = "python benchmarks/startup.py"
ODSYNTH = (sys.executable, "-m", "pipelines.cli")
EMPTY = "python -c pass"
TIMES = 5


@click.command()
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="Also make this release.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(config: Path | None, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    # An installation has bytecode of its modules; sources compiled anew would be a tenth of a verification.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        completed([*ODSYNTH, "demo", "--out", str(out)])  # compiled kernels are kept, as after any first run
        commands: dict[str, list[str]] = {
            EMPTY: [sys.executable, "-c", "pass"],
            "odsynth --help": [*ODSYNTH, "--help"],
            "odsynth verify out/demo/public": [*ODSYNTH, "verify", str(out / "public")],
        }
        if config is not None:
            completed([*ODSYNTH, "plan", str(config), "--out", f"{folder}/plan"])
            run = [*ODSYNTH, "run", str(config), "--out", f"{folder}/run"]
            commands[f"odsynth run {config.name} --plan PLAN"] = [*run, "--plan", f"{folder}/plan"]
            commands[f"odsynth run {config.name}"] = run
        found = {name: list[Usage]() for name in commands}
        for _ in range(TIMES):
            for name, command in commands.items():
                shutil.rmtree(f"{folder}/run", ignore_errors=True)
                found[name].append(completed(command))
    text = table(found)
    print(text)
    if page is not None:
        report.fill(page, COMMAND, f"{report.this_machine()}\n\n{text}")


def table(found: dict[str, list[Usage]]) -> str:
    """Return a Markdown table, a row for each command."""

    def median(name: str, field: str) -> float:
        return statistics.median(getattr(usage, field) for usage in found[name])

    rows = [
        [
            f"`{name}`",
            report.seconds(median(name, "seconds")),
            report.seconds(median(name, "processor")),
            f"{median(name, 'processor') / median(EMPTY, 'processor'):,.1f}",
            f"{median(name, 'gigabytes'):.2f} GB",
        ]
        for name in found
    ]
    header = ["command", "by the clock", "of processors", "times an empty process", "peak memory"]
    return report.table(header, rows)


if __name__ == "__main__":
    main()
