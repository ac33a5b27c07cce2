"""Fetch the library that draws maps, MapLibre GL JS, with npm: `make library`, and every build of a package.

Exactly the version and the contents that package-lock.json names. It comes with the licences of all that it
consists of, because a package hands it on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

MAPS = Path(__file__).resolve().parent.parent / "pipelines" / "views" / "maps"
VENDOR = MAPS / "vendor"
LICENCES = "LICENSES-bundled.txt"
FILES = ("maplibre-gl.js", "maplibre-gl.css", "LICENSE.txt", LICENCES)
NO_NPM = (
    "the library that draws maps is not here, and without npm it cannot be fetched. Fix: install Node.js "
    "with npm, then run: make library"
)
FAILED = 'npm could not fetch the library that draws maps. Fix: run "make library" again, with the network'


def fetch_library() -> None:
    """Put the library into pipelines/views/maps/vendor, unless it is there in the version that is asked for.

    Raises
    ------
    RuntimeError
        If it is not, and cannot be fetched.
    """
    if _is_there():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(NO_NPM)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    if subprocess.run([npm, "ci", "--prefix", MAPS, *quiet], check=False).returncode:
        raise RuntimeError(FAILED)
    modules = MAPS / "node_modules"
    VENDOR.mkdir(exist_ok=True)
    (VENDOR / LICENCES).write_text(_licences(modules), encoding="utf-8")
    for name in ("LICENSE.txt", "dist/maplibre-gl.css", "dist/maplibre-gl.js"):
        shutil.copyfile(modules / "maplibre-gl" / name, VENDOR / Path(name).name)
    shutil.rmtree(modules)


def _is_there() -> bool:
    wanted = _lock()["packages"]["node_modules/maplibre-gl"]["version"]
    if not all((VENDOR / name).is_file() for name in FILES):
        return False
    with (VENDOR / "maplibre-gl.js").open(encoding="utf-8") as script:
        return f"/v{wanted}/" in script.read(500)


def _lock() -> dict[str, Any]:
    return dict(json.loads((MAPS / "package-lock.json").read_text(encoding="utf-8")))


def _licences(modules: Path) -> str:
    """Return the licences of the packages that the library consists of, one after another."""
    parts = []
    for path, package in _lock()["packages"].items():
        name = path.rpartition("node_modules/")[2]
        if name in ("", "maplibre-gl"):
            continue
        folder = modules.parent / path
        texts = [
            file.read_text(encoding="utf-8").strip()
            for file in sorted(folder.iterdir())
            if file.name.lower().startswith(("license", "licence", "copying"))
        ]
        says = package.get("license", "not named")
        parts.append("\n\n".join([f"{name} {package['version']}, licence: {says}", *texts]))
    return f"\n\n{'-' * 80}\n\n".join(parts) + "\n"


if __name__ == "__main__":
    try:
        fetch_library()
    except RuntimeError as error:  # of the whole program only maps need it: set-up goes on without
        print(f"No maps: {error}", file=sys.stderr)
