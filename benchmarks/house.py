"""How large the house is, and how fast, of two commits side by side: lines, names, imports, times.

Usage: python benchmarks/house.py BEFORE AFTER [--times] [--tests] [--page benchmarks/house.md]

Counts lines and files of product and tests by room, public names, words of docstrings, and the modules that
`pipelines.run` and `pipelines.verify` import when they are first asked for. With --times it makes, verifies
and plans releases with both, taking turns; with --tests it also runs `make check` and `make test` of both.
Both use the environment in which this program runs.
"""

from __future__ import annotations

import ast
import os
import statistics
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import click
import report
from checkouts import ROOT, checkout
from processes import completed, measured

COMMAND = "python benchmarks/house.py"
PACKAGES = ("synth", "geo_data", "pipelines")
TURNS = 5
MAKE = f"make -n -o lint BIN={Path(sys.executable).parent}"  # what the Makefile of a commit would do


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--times", is_flag=True, help="Also time the demo, its verification and Rhode Island.")
@click.option("--tests", is_flag=True, help="Also time `make check` and `make test`.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(before: str, after: str, times: bool, tests: bool, page: Path | None) -> None:
    """Count, time, print, and fill the page."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with ExitStack() as stack:
        checkouts = [stack.enter_context(checkout(commit)) for commit in (before, after)]
        sizes = [size(path) for path in checkouts]
        text = table(sizes)
        if times or tests:
            text += "\n\n" + timed(checkouts, tests=tests)
    print(text)
    if page is not None:
        report.fill(page, COMMAND, f"{report.this_machine()}\n\n{text}")


def size(root: Path) -> Counter[str]:
    """Count what a checkout holds: lines and files by room, names, words, modules."""
    counts: Counter[str] = Counter()
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        suffix = path.suffix if path.is_file() and "vendor" not in parts else ""
        if suffix == ".py":
            room = "/".join(parts[:2]) if parts[0] == "pipelines" and len(parts) > 2 else parts[0]
            count(counts, room, path)
            if parts[0] in PACKAGES:
                count(counts, "product", path)
                counts["words of docstrings"] += words_of_docstrings(path)
        elif suffix in {".js", ".html", ".css", ".j2"} and parts[0] in PACKAGES:
            count(counts, "pages: JavaScript, HTML, CSS, templates", path)
        elif suffix == ".md":
            counts["words of docs"] += len(path.read_text(encoding="utf-8").split())
    for package in PACKAGES:
        stub = (root / package / "__init__.pyi").read_text(encoding="utf-8")
        counts["public names"] += sum(line.startswith("from ") for line in stub.splitlines())
    for verb in ("run", "verify"):
        code = (
            f"import sys, pipelines; pipelines.{verb};"
            f"print(sum(name.split('.')[0] in {PACKAGES} for name in sys.modules))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        counts[f"modules that `{verb}` imports"] = int(done.stdout)
    return counts


def count(counts: Counter[str], what: str, path: Path) -> None:
    """Add a file to the lines and files of a room."""
    counts[f"{what}: lines"] += len(path.read_text(encoding="utf-8").splitlines())
    counts[f"{what}: files"] += 1


def words_of_docstrings(path: Path) -> int:
    """Count the words of all docstrings of a module."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (node for node in ast.walk(tree) if isinstance(node, nodes))
    return sum(len((ast.get_docstring(node) or "").split()) for node in documented)


def table(sizes: list[Counter[str]]) -> str:
    """Return both sizes as a Markdown table, a row for a room."""
    rows = []
    for name in sorted({name for counts in sizes for name in counts}):
        old, new = (counts[name] for counts in sizes)
        rows.append([name, f"{old:,}", f"{new:,}", f"{new - old:+,}"])
    return report.table(["", "before", "after", "difference"], rows)


def timed(checkouts: list[Path], *, tests: bool) -> str:
    """Time whole processes of both checkouts, taking turns; return a Markdown table of the medians."""
    odsynth = f"{sys.executable} -m pipelines.cli"
    commands = {
        "odsynth demo": (f"{odsynth} demo --out {{out}}/demo", TURNS),
        "odsynth verify": (f"{odsynth} verify {{out}}/demo/public", TURNS),
        "odsynth plan, Rhode Island": (f"{odsynth} plan {{config}} --out {{out}}/plan", TURNS),
        "odsynth run, Rhode Island": (f"{odsynth} run {{config}} --out {{out}}/run", TURNS),
    }
    if tests:
        commands |= {
            f"tests of make {target}": (f"{MAKE} {target} | grep pytest | sh", 1)
            for target in ("check", "test")
        }
    rows = []
    for name, (command, turns) in commands.items():
        used: list[list[float]] = [[], []]
        for turn in range(turns + (turns > 1)):
            for side, root in enumerate(checkouts):
                out = root / "out" / "house"
                out.mkdir(parents=True, exist_ok=True)
                if not command.endswith("public"):
                    subprocess.run(["rm", "-rf", *map(str, out.glob("*"))], check=True)
                line = command.format(out=out, config=ROOT / "examples" / "rhode_island.toml")
                # Tests of an older commit may fail with the libraries of today.
                run = completed if turns > 1 else measured
                usage = run(["env", f"PYTHONPATH={root}", "sh", "-c", f"cd {root} && {line}"])
                if turn or turns == 1:  # the first may compile
                    used[side].append(usage.processor)
        old, new = map(statistics.median, used)
        rows.append([name, report.seconds(old), report.seconds(new), f"{new / old:.2f}"])
    return report.table(["seconds of processors, medians", "before", "after", "after / before"], rows)


if __name__ == "__main__":
    main()
