"""What the pages of maps run: MapLibre GL JS, fetched with npm, and the modules of js/ in one file.

`make library` and every build of a package do this. Versions and contents are those that package-lock.json
names. The library comes with the licences of all that it consists of, because a package hands it on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

MAPS = Path(__file__).resolve().parent.parent / "pipelines" / "views" / "maps"
MODULES = MAPS / "node_modules"
VENDOR = MAPS / "vendor"
PROGRAM = VENDOR / "map.js"
LICENCES = "LICENSES-bundled.txt"
FILES = ("maplibre-gl.js", "maplibre-gl.css", "LICENSE.txt", LICENCES)
NO_NPM = (
    "the library that draws maps is not here, and without npm it cannot be fetched. Fix: install Node.js "
    "with npm, then run: make library"
)
FAILED = 'npm could not fetch or build what maps run. Fix: run "make library" again, with the network'


def fetch_library() -> None:
    """Put the library and the program of maps into pipelines/views/maps/vendor, unless they are there.

    Raises
    ------
    RuntimeError
        If they are not, and cannot be fetched or built.
    """
    if not _is_there():
        _npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        VENDOR.mkdir(exist_ok=True)
        (VENDOR / LICENCES).write_text(_licences(MODULES), encoding="utf-8")
        for name in ("LICENSE.txt", "dist/maplibre-gl.css", "dist/maplibre-gl.js"):
            shutil.copyfile(MODULES / "maplibre-gl" / name, VENDOR / Path(name).name)
    if not _is_built():
        if not MODULES.is_dir():
            _npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        target = ["--bundle", "--format=esm", "--charset=utf8", "--log-level=warning", f"--outfile={PROGRAM}"]
        _npm("exec", "--offline", "--", "esbuild", str(MAPS / "js" / "main.js"), *target)


def _npm(*arguments: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(NO_NPM)
    if subprocess.run([npm, "--prefix", MAPS, *arguments], check=False).returncode:
        raise RuntimeError(FAILED)


def _is_there() -> bool:
    wanted = _lock()["packages"]["node_modules/maplibre-gl"]["version"]
    if not all((VENDOR / name).is_file() for name in FILES):
        return False
    with (VENDOR / "maplibre-gl.js").open(encoding="utf-8") as script:
        return f"/v{wanted}/" in script.read(500)


def _is_built() -> bool:
    newest = max(path.stat().st_mtime for path in (MAPS / "js").glob("*.js"))
    return PROGRAM.is_file() and PROGRAM.stat().st_mtime >= newest


def _lock() -> dict[str, Any]:
    return dict(json.loads((MAPS / "package-lock.json").read_text(encoding="utf-8")))


def _licences(modules: Path) -> str:
    """Return the licences of the packages that the library consists of, one after another."""
    parts = []
    for path, package in _lock()["packages"].items():
        name = path.rpartition("node_modules/")[2]
        if name in ("", "maplibre-gl") or package.get("dev"):
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
