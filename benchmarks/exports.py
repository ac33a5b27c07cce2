"""What each export of a release weighs and takes; prints the table of docs/exports.md.

Usage: python benchmarks/exports.py PUBLIC [FORMAT ...] [--times N]

PUBLIC is the public folder of a release. Every format is exported at the usual levels, in a process of its
own: the time is that of reading the release, adding up its rows and writing, without the start of Python;
memory is the most that the process had. With --times, every row of the release is there N times, which shows
what memory does with a large release.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from pipelines import read_public_release
from pipelines.exports import FORMATS, export
from pipelines.exports.source import usual_level

ONE = "--one"
ROW_GROUP = 100_000


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == [ONE]:
        measure(Path(sys.argv[2]), sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("public", type=Path)
    parser.add_argument("formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        public = given.public if given.times == 1 else repeated(given.public, given.times, Path(folder))
        release = read_public_release(public)
        rows = sum(dataset.count_rows() for dataset in release.rows.values())
        print(f"{release.certificate.release.name}, {rows:,} rows, zones: {usual_level(release)}\n")
        print("| format | what for | tool | files | size | time | memory |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name in given.formats:
            command = [sys.executable, __file__, ONE, str(public), name]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            print(f"| `{name}` | {FORMATS[name].meaning} | {FORMATS[name].tool} | {found} |", flush=True)


def measure(public: Path, name: str) -> None:
    """Export in one format and print number of files, size, time and memory as cells of the table."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        paths = export(public, [name], Path(folder))[name]
        seconds = time.perf_counter() - begin
        sizes = [path.stat().st_size for path in paths if path.name != "README.txt"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"{len(sizes)} | {sum(sizes) / 1e6:.2f} MB | {seconds:.1f} s | {memory / 1e9:.2f} GB")


def repeated(public: Path, times: int, folder: Path) -> Path:
    """Copy a public folder with every row of its Parquet files several times."""
    copy = Path(shutil.copytree(public, folder / "public"))
    for path in copy.glob("*_od_*.parquet"):
        rows = pq.read_table(path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pq.ParquetWriter(path, rows.schema) as writer:
            for _ in range(times):
                writer.write_table(rows, row_group_size=ROW_GROUP)
    return copy


if __name__ == "__main__":
    main()
