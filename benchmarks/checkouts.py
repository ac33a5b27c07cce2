"""An earlier revision of the program, in a folder of its own, and what it makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAPS = Path("pipelines", "views", "maps")
VERSION = Path("pipelines", "_version.py")


@contextmanager
def checkout(revision: str | None) -> Iterator[Path]:
    """The program at a revision, in a folder that has what git has not and releases need; None: this one."""
    if revision is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as name:
        folder, git = Path(name) / "program", ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
        try:
            shutil.copyfile(ROOT / VERSION, folder / VERSION)
            # The library that draws maps is what is here; their program is built from that revision.
            shutil.copytree(
                ROOT / MAPS / "vendor", folder / MAPS / "vendor", ignore=shutil.ignore_patterns("map.js")
            )
            modules = folder / MAPS / "node_modules"
            modules.symlink_to(ROOT / MAPS / "node_modules")
            subprocess.run([sys.executable, str(folder / "building" / "library.py")], check=True)
            modules.unlink()  # what is not in git makes the program another than that of its commit
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def odsynth(program: Path, *arguments: str | Path) -> list[str]:
    """Return a command of the program in a folder, which need not be what is installed."""
    return ["env", f"PYTHONPATH={program}", sys.executable, "-m", "pipelines.cli", *map(str, arguments)]


def releases(program: Path, configs: Sequence[Path], folder: Path) -> list[Path]:
    """Make releases with the program in a folder, into another: a revision may not read those of another."""
    outs = [folder / f"out{number}" for number in range(len(configs))]
    for config, out in zip(configs, outs, strict=True):
        command = odsynth(program, "run", config.resolve(), "--out", out)
        subprocess.run(command, cwd=program, check=True, stdout=subprocess.DEVNULL)
    return outs


def publish(program: Path, out: Path, place: Path, version: str) -> None:
    """Publish a release with the program that made it."""
    command = odsynth(program, "publish", out, place, "--version", version)
    subprocess.run(command, cwd=program, check=True, stdout=subprocess.DEVNULL)


def environment() -> dict[str, str]:
    """Return what a service of a benchmark sees of the environment: no settings of another service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ODSYNTH_")}
