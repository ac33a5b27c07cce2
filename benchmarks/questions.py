"""Ten questions to releases of generated regions, answered in pandas and in R from the public folder alone.

Usage: python benchmarks/questions.py [RELEASES] [--page benchmarks/questions.md]

Makes so many releases (20 by default) of the demo region, each of jobs of its own. questions/questions.py and
questions/questions.R answer from each public folder; both have to agree. Truths are counted from the
generated job files, without odsynth. Prints the answers of the first release, and how many intervals of all
hold the truth.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
from report import fill, table, this_machine

import pipelines
from pipelines.running.demo import demo_inputs

COMMAND = "python benchmarks/questions.py"
PROGRAMS = Path(__file__).resolve().parent / "questions"
ROUNDED = 0.06  # flows.csv has estimates to a tenth


@click.command()
@click.argument("releases", type=click.IntRange(1), default=20)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(releases: int, page: Path | None) -> None:
    """Make releases, ask, and print."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(releases):
            place = Path(folder) / str(number)
            release = pipelines.run(pipelines.load_config(demo_inputs(place, seed=2019 + number)))
            answers = asked_in_pandas(release.public)
            compare(answers, asked_in_r(release.public, exported_draws(release, place / "csv")))
            answers["truth"] = [*truths(place / "out/demo-inputs", answers)]
            found.append(answers)
    text = f"{this_machine()}\n\n{report(found)}"
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def asked_in_pandas(public: Path) -> pd.DataFrame:
    """Return the answers of the program in pandas."""
    return _answers([sys.executable, str(PROGRAMS / "questions.py"), str(public)])


def asked_in_r(public: Path, draws: Path) -> pd.DataFrame:
    """Return the answers of the program in base R, which has draws as CSV."""
    return _answers(["Rscript", str(PROGRAMS / "questions.R"), str(public), str(draws)])


def exported_draws(release: pipelines.Release, folder: Path) -> Path:
    """Export a release as CSV into a folder, and return the file of draws."""
    (draws,) = (path for path in release.export("csv", folder)["csv"] if path.match("*_intervals_*.csv"))
    return draws


def _answers(command: list[str]) -> pd.DataFrame:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return pd.read_csv(io.BytesIO(done.stdout), dtype={"area": "str"}, keep_default_na=False)


def compare(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """End with an error where two programs answer differently."""
    pd.testing.assert_frame_equal(one, other, check_dtype=False, rtol=0, atol=ROUNDED)


def truths(inputs: Path, answers: pd.DataFrame) -> Iterator[float]:
    """Yield the truth of each answer, counted from the generated job files."""
    codes = {"w_geocode": "str", "h_geocode": "str"}
    files = sorted(inputs.glob("demo_od_*.csv.gz"))
    jobs = pd.concat([pd.read_csv(path, dtype=codes) for path in files], ignore_index=True)
    blocks = pd.read_csv(inputs / "demo_xwalk.csv.gz", dtype="str").set_index("tabblk2010")
    home, work = jobs["h_geocode"].str, jobs["w_geocode"].str
    from_1, from_2 = home.startswith("03003"), home.startswith("03005")
    into_centre, into_1 = work.startswith("03001"), work.startswith("03003")
    town = ("03001000100", "03001000200", "03001000300")
    north = (blocks["blklatdd"].astype(float) - 40) * 111.2
    east = (blocks["blklondd"].astype(float) + 40) * 111.2 * np.cos(np.radians(40))
    near = jobs["w_geocode"].map(np.hypot(north, east) <= 2)
    counted = {
        "Live in Shore County 1 and work in Centre County": from_1 & into_centre,
        "Live and work in the town of three tracts": home.startswith(town) & work.startswith(town),
        "Come in from other states": ~home.startswith("03"),
        "Live and work in the same tract": home[:11] == work[:11],
        "Work within 2 km of the station and live in Shore County 1 or 2": near & (from_1 | from_2),
    }
    true = {question: jobs.loc[rows, "S000"].sum() for question, rows in counted.items()}
    share = jobs.loc[from_1 & into_1, "S000"].sum() / jobs.loc[into_1, "S000"].sum()
    true["Percent of those who work in Shore County 1 who live there"] = round(100 * share, 2)
    true["Residents of Shore County 1 who work in services (SI03)"] = jobs.loc[from_1, "SI03"].sum()
    true["Live in Shore County 1 and work in services (SI03) in Centre County"] = jobs.loc[
        from_1 & into_centre, "SI03"
    ].sum()
    sent_1, sent_2 = (jobs.loc[rows & into_centre, "S000"].sum() for rows in (from_1, from_2))
    true["More into Centre County from Shore County 1 than from Shore County 2"] = sent_1 - sent_2
    for question, area in zip(answers["question"], answers["area"], strict=True):
        yield jobs.loc[home.startswith(area) & into_1, "S000"].sum() if area else true[question]


def report(found: list[pd.DataFrame]) -> str:
    """Return the answers of the first release, and how many intervals of all hold the truth, as Markdown."""
    held = np.stack([one["truth"].between(one["low"], one["high"]) for one in found])
    numbers = ["estimate", "low", "high", "truth"]
    rows = [
        [
            f"{one['question']}: {one['area']}" if one["area"] else one["question"],
            *(f"{one[name]:,.1f}".removesuffix(".0") for name in numbers),
            "yes" if here else "**no**",
            f"{times} of {len(found)}",
        ]
        for here, times, (_, one) in zip(held[0], held.sum(axis=0), found[0].iterrows(), strict=True)
    ]
    total = f"Of all {held.size} intervals, {held.sum()} hold the truth ({held.mean():.0%})."
    return table(["question", *numbers, "held", "held in all releases"], rows) + f"\n\n{total}"


if __name__ == "__main__":
    main()
