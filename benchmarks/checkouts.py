"""An earlier revision of the program, in a folder of its own, with the map of that revision."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAPS = Path("pipelines", "views", "maps")


@contextmanager
def checkout(revision: str | None) -> Iterator[Path | None]:
    """The folder of the program at a revision; None for this one."""
    if revision is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        folder, git = Path(name) / "program", ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
        try:
            # The library that draws maps is what is here; their program is built from that revision.
            shutil.copytree(
                ROOT / MAPS / "vendor", folder / MAPS / "vendor", ignore=shutil.ignore_patterns("map.js")
            )
            (folder / MAPS / "node_modules").symlink_to(ROOT / MAPS / "node_modules")
            subprocess.run([sys.executable, str(folder / "building" / "library.py")], check=True)
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)
