"""Install a wheel in clean environments, on several Pythons, make the demo with its map, and check it alone.

    make dist && python benchmarks/packages.py dist --python python3.11 --python python3.12

Prints a row for each Python. It takes some minutes and a package registry: everything is installed anew,
outside the repository and without what stands around it. The release's verify.py runs where there is only
pyarrow; `--data` names more public folders for it to check there.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(folder: Path, *command: str | Path) -> str:
    """Run a command in a folder, without the variables of this environment that lead Python elsewhere."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=kept, umask=0o027, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def try_out(wheel: Path, sbom: Path, python: str, more: list[Path]) -> str:
    """Install the wheel for a Python, make the demo, and say what came of it."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run(folder, python, "-m", "venv", "environment")
        own = folder / "environment" / "bin"
        run(folder, own / "python", "-m", "pip", "--disable-pip-version-check", "-qq", "install", wheel)
        version = run(
            folder, own / "python", "-c", "import platform; print(platform.python_version())"
        ).strip()
        run(folder, own / "odsynth", "demo")
        out = folder / "out" / "demo"
        drawn = "maplibregl" in (out / "map.html").read_text(encoding="utf-8")
        stated = json.loads((out / "public" / "certificate.json").read_text(encoding="utf-8"))["software"]
        named = stated["sbom_sha256"] == hashlib.sha256(sbom.read_bytes()).hexdigest()
        checks = run(folder, own / "odsynth", "verify", out / "public").strip().splitlines()
        run(folder, python, "-m", "venv", "alone")
        alone = folder / "alone" / "bin" / "python"
        run(folder, alone, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "pyarrow")
        there = run(folder, alone, "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze")
        others = [
            name for name in there.split() if not name.startswith(("pip==", "setuptools==", "pyarrow=="))
        ]
        for public in [out / "public", *more]:  # another status than 0 ends this
            run(folder, alone, out / "public" / "verify.py", public)
        passed = f"passes {1 + len(more)} releases with pyarrow" + "".join(f", {name}" for name in others)
    seconds = time.perf_counter() - begin
    last = checks[-1].strip().replace(f"{out / 'public'} ", "")
    return f"| {version} | {drawn} | {named} | {last} | {passed} | {seconds:.0f} s |"


def main() -> None:
    """Try every Python that is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dist", type=Path, help="the folder that make dist wrote")
    parser.add_argument("--python", action="append", help="a Python to try; this one if none is named")
    parser.add_argument("--data", action="append", type=Path, default=[], help="a public folder to check too")
    given = parser.parse_args()
    more = [path.resolve() for path in given.data]
    (wheel,), (sbom,) = (sorted(given.dist.resolve().glob(end)) for end in ("*.whl", "*.cdx.json"))
    print(
        "| Python | map with library | certificate names the SBOM | `odsynth verify` | `verify.py` | time |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for python in given.python or [sys.executable]:
        print(try_out(wheel, sbom, python, more), flush=True)


if __name__ == "__main__":
    main()
