"""Places that nobody tuned on: what is forecast before and after the draw, what is reached, what counts give.

Usage: python benchmarks/places.py [--place Leeds ...] [--epsilon 2 ...] [--at FOLDER]
       [--page benchmarks/places.md]

Leeds (`examples/leeds.toml`), a generated region of blocks without a table of flows, an invented country with
one large city, with and without the flows of its last census (`odsynth simulate --kind`), Rhode Island, and
an invented census with modes of transport, whose whole records are protected (`odsynth demo --census`), each
with the mechanism left to the planner. Each is planned and released by the commands, and then the public
folder is read with pandas, not with code of the product, and compared with the true homes, which are public
here. With --at the same is done by the program of another checkout, which gets the same inputs. Flows between
the coarser areas are in no table of the workload: a row of its own has what the noisy counts of the finest
table give of them, added up as they are.

Results are kept in out/benchmarks/places.json, so that a long measurement can be made in parts. What is kept
is not measured again, unless --anew is given; --page puts all that is kept into a page, before beside after.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from report import fill, table
from workload import JOBS

import geo_data
from pipelines.running.demo import CENSUS, demo_inputs

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "out" / "benchmarks" / "places.json"
COMMAND = "python benchmarks/places.py"
EPSILONS = ("8.6", "4.6", "2", "1")
AT_HOME = "lives and works in one"
ADDED_UP = "noisy counts of the finest table added up"
COLUMNS = ("forecast", "after the draw", "likely between", "reached", "counts alone")
# Of each place: the areas in one of which somebody lives and works, and the coarser ones of further flows.
LEVELS = {
    "Leeds": ("geo_code", "district"),
    "region": ("trct", "cty"),
    "country": ("zone", "region"),
    "country, no census": ("zone", "region"),
    "Rhode Island": ("trct", "cty"),
    "census": ("zone", "town"),
}
NEAR = 1.5  # factor between forecast and loss that is aimed at in tables by attributes
UNKNOWN = 2.5  # factor of a range, from which the sheet says that it does not know


@click.command()
@click.option("--place", "places", type=click.Choice([*LEVELS]), multiple=True, default=[*LEVELS])
@click.option("--epsilon", "epsilons", multiple=True, default=EPSILONS, show_default=True)
@click.option("--at", type=click.Path(path_type=Path, exists=True), help="Checkout of an earlier commit.")
@click.option("--anew", is_flag=True, help="Measure also what is kept.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(
    places: tuple[str, ...], epsilons: tuple[str, ...], at: Path | None, anew: bool, page: Path | None
) -> None:
    """Plan, release, compare, keep, and print."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    side = "now" if at is None else "before"
    with tempfile.TemporaryDirectory() as folder:
        for place in places:
            config = inputs_of(place, Path(folder))
            for epsilon in epsilons:
                key = f"{side}; {place}; {epsilon}"
                if anew or key not in kept:
                    kept[key] = compared(place, released(at or ROOT, config, epsilon))
                    RESULTS.parent.mkdir(parents=True, exist_ok=True)
                    RESULTS.write_text(json.dumps(kept, indent=1), encoding="utf-8")
                click.echo(f"{key}\n{shown(kept, place, [epsilon])}\n", err=page is not None)
    if page is not None:
        known = [place for place in LEVELS if any(f"; {place}; " in key for key in kept)]
        parts = [f"**{place}**\n\n{shown(kept, place, EPSILONS)}" for place in known]
        first = f"**Tables by attributes**\n\n{by_attributes(kept, known)}"
        fill(page, COMMAND, "\n\n".join([first, *parts]))


def inputs_of(place: str, folder: Path) -> Path:
    """Return the configuration of a place, with the mechanism left to the planner; make what is generated."""
    if place == "region":
        return geo_data.simulate_region(folder / "region")
    if place.startswith("country"):
        return geo_data.simulate_country(folder / place, census="no" not in place)
    if place == "census":
        path = demo_inputs(folder / place, which=CENSUS)
        text = path.read_text(encoding="utf-8").replace('mechanism = "geometric"\n', "")
        path.write_text(text, encoding="utf-8")
        return path
    text = (ROOT / "examples" / f"{place.lower().replace(' ', '_')}.toml").read_text(encoding="utf-8")
    if place == "Rhode Island":
        begin, end = text.index("[jobs]"), text.index("# The public geography")
        text = text[:begin] + JOBS + text[end:]
    path = folder / f"{place}.toml"
    text = text.replace("../../shared", str(ROOT.parent / "shared"))
    path.write_text(text.replace('mechanism = "dirichlet"\n', ""), encoding="utf-8")
    return path


def released(root: Path, config: Path, epsilon: str) -> Release:
    """Plan and release with the program of a checkout; return what is public."""
    lines = config.read_text(encoding="utf-8").splitlines()
    lines = [f'epsilon = "{epsilon}"' if line.startswith("epsilon") else line for line in lines]
    chosen = config.with_name(f"{config.stem}-{epsilon}-{root.name}.toml")
    chosen.write_text("\n".join(lines), encoding="utf-8")
    out = chosen.with_suffix("")
    command = [sys.executable, "-m", "pipelines.cli", "run", str(chosen), "--out", str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return Release(out / "public", jobs_of(chosen))


def jobs_of(config: Path) -> pd.DataFrame:
    """Return the true jobs: columns `home`, `work`, `jobs`, and the attributes."""
    settings = tomllib.loads(config.read_text(encoding="utf-8"))["jobs"]
    path = config.parent / settings["file"]
    rows = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype="str")
    names = settings.get("attributes", [])
    jobs = rows[names].assign(home=rows[settings["home"]], work=rows[settings["work"]])
    jobs["jobs"] = rows[settings["count"]].astype(np.float64) if "count" in settings else 1
    return jobs.groupby([*names, "home", "work"], as_index=False)["jobs"].sum()


@dataclass(frozen=True, eq=False)
class Measured:
    """Groups of jobs that have the same cells: their areas and categories, sizes, and noisy counts."""

    groups: pd.DataFrame
    cuts: NDArray[np.int64]  # first blocks of cells
    size: NDArray[np.int64]  # public numbers of jobs
    noisy: NDArray[np.int64]  # shape (groups, cells)

    def as_they_are(self) -> NDArray[np.float64]:
        """Return the noisy counts."""
        return self.noisy.astype(np.float64)

    def projected(self) -> NDArray[np.float64]:
        """Return them without what is below 0, in proportion, so that they add up to public numbers."""
        counts = self.noisy.clip(0).astype(np.float64)
        total = counts.sum(axis=1, keepdims=True)
        share = np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[1])
        return np.asarray(share * self.size[:, None])


class Release:
    """A public folder and the true jobs, counted in the same way."""

    def __init__(self, folder: Path, true: pd.DataFrame) -> None:
        self.folder = folder
        self.plan = json.loads((folder / "plan" / "plan.json").read_text(encoding="utf-8"))
        self.accuracy = json.loads((folder / "accuracy.json").read_text(encoding="utf-8"))["tables"]
        block = self.plan["geography"]["block"]
        self.levels = [*self.plan["geography"]["levels"], block]
        self.blocks = pd.read_parquet(folder / "plan" / "blocks.parquet")
        self.row = pd.Series(np.arange(len(self.blocks)), index=self.blocks[block])
        rows = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*_od_*.parquet"))])
        self.released = rows.rename(columns={"h_geocode": "home", "w_geocode": "work", "S000": "jobs"})
        # Who lives elsewhere lives in a zone, whose code is that of a state filled up with 9s.
        zones = {code[:2]: code for code in self.row.index if {*code[2:]} == {"9"}}
        outside = ~true["home"].isin(self.row.index)
        self.true = true.assign(home=true["home"].mask(outside, true["home"].str[:2].map(zones)))

    def count(self, side: str, home: str, work: str | None, attribute: str | None) -> pd.Series:
        """Count true or released jobs by areas and category."""
        jobs = self.true if side == "true" else self.released
        if attribute is not None and side == "true":
            jobs = jobs.assign(category=jobs[attribute])
        elif attribute is not None:
            columns = {f"{attribute}_{kind}": kind for kind in self.plan["attributes"][attribute]}
            jobs = jobs.drop(columns="jobs").melt(["home", "work"], [*columns], "category", "jobs")
            jobs["category"] = jobs["category"].map(columns)
        keys = [] if work is None else [self.areas(jobs["work"], work)]
        keys += [] if attribute is None else [jobs["category"].to_numpy()]
        keys.append(self.areas(jobs["home"], home))
        return jobs["jobs"].groupby(keys).sum()

    def areas(self, blocks: pd.Series, level: str) -> NDArray[np.object_]:
        """Return the areas of a level that blocks lie in."""
        return self.blocks[level].to_numpy(dtype=object)[self.row[blocks].to_numpy()]

    @cached_property
    def measured(self) -> list[list[Measured]]:
        """Noisy counts: a list for each measured table, of groups that have the same cells."""
        tables: list[list[Measured]] = []
        if (self.folder / "measurements" / "slots.parquet").exists():
            return tables  # of whole records: no number of jobs is public
        for path in sorted((self.folder / "measurements").glob("table-*.parquet")):
            noisy = pd.read_parquet(path)["noisy"]
            tables.append(
                [
                    Measured(groups, cuts, size.to_numpy(), np.stack(noisy[groups.index].to_numpy()))
                    for groups, size, cuts in (self._further(path) if tables else self._pools())
                ]
            )
        return tables

    def _pools(self) -> Iterator[tuple[pd.DataFrame, pd.Series, NDArray[np.int64]]]:
        pools = pd.read_parquet(self.folder / "plan" / "pools.parquet")
        domains = pd.read_parquet(self.folder / "plan" / "domains.parquet")["cuts"]
        pooling = self.plan["pooling"]
        groups = pools[pooling["by"]].copy()
        for i, level in enumerate(self.levels):
            known = ~pools["shared"] | (i <= self.levels.index(pooling["level"]))
            groups[level] = np.where(known, self.areas(pools["place"], level), None)
        for domain, alike in groups.groupby(pools["domain"]):
            yield alike, pools["n"][alike.index], domains[domain]

    def _further(self, path: Path) -> Iterator[tuple[pd.DataFrame, pd.Series, NDArray[np.int64]]]:
        choice = self.plan["choices"]["tables"][int(path.stem.removeprefix("table-")) - 2]
        groups = pd.read_parquet(path, columns=[*choice["by"], "work"])
        slots = pd.read_parquet(self.folder / "plan" / "slots.parquet")
        slots["area"] = "" if choice["work"] is None else self.areas(slots["work"], choice["work"])
        slots = slots.groupby(["area", *choice["by"]], as_index=False)["count"].sum()
        size = groups.merge(slots, left_on=["work", *choice["by"]], right_on=["area", *choice["by"]])["count"]
        if choice["work"] is not None:
            coarser = self.levels[: self.levels.index(choice["work"]) + 1]
            of_area = self.blocks[coarser].drop_duplicates().set_index(choice["work"], drop=False)
            groups[coarser] = of_area.loc[groups["work"]].to_numpy()
        units = self.blocks[choice["home"]].to_numpy()
        yield groups, size, np.flatnonzero(np.append(True, units[1:] != units[:-1]))

    def projected(self, home: str, work: str | None, attribute: str | None) -> Iterator[pd.Series]:
        """Yield the counts of a table that each measured one gives by itself, if it has them."""
        sums = (self._sums(parts, Measured.projected, home, work, attribute) for parts in self.measured)
        return filter(lambda counts: counts is not None, sums)

    def added_up(self, level: str) -> pd.Series | None:
        """Return flows between areas that are sums of noisy counts of the finest table, if it has them."""
        finest = self.measured[:1]  # that of the pools
        return self._sums(finest[0], Measured.as_they_are, level, level, None) if finest else None

    def _sums(
        self,
        parts: list[Measured],
        counted: Callable[[Measured], NDArray[np.float64]],
        home: str,
        work: str | None,
        attribute: str | None,
    ) -> pd.Series | None:
        units = self.blocks[home].to_numpy()
        keys = [name for name in (work, attribute) if name is not None]
        sums = []
        for part in parts:
            groups, cuts = part.groups, part.cuts
            first, last = units[cuts], units[np.append(cuts[1:], len(units)) - 1]
            if (first != last).any() or not {*keys} <= {*groups} or groups[keys].isna().any(axis=None):
                return None
            of_homes = pd.DataFrame(counted(part).T).groupby(first).sum().T
            of_groups = of_homes.groupby([groups[name].to_numpy() for name in keys]).sum()
            sums.append(of_groups.T.unstack())  # noqa: PD010
        total = pd.concat(sums)
        return total.groupby(level=[*range(total.index.nlevels)]).sum()


def compared(place: str, release: Release) -> list[list[Any]]:
    """Return rows: a table, and what `COLUMNS` names, None where there is nothing."""
    unit, coarse = LEVELS[place]
    rows: list[list[Any]] = []
    weights = []
    for expected in release.accuracy:
        home, work, attributes = expected["home"], expected["work"], expected["attributes"]
        if home is None or (not expected["workload"] and not home == work in (unit, coarse)):
            continue
        of_table = home, work, next(iter(attributes), None)
        true = release.count("true", *of_table)
        losses = [lost_by(true, counts) for counts in release.projected(*of_table)]
        reached = lost_by(true, release.count("released", *of_table))
        said, planned, within = expected["loss"], expected.get("planned"), expected.get("within")
        between = within and f"{said / within:.4f} to {min(1, said * within):.4f}"
        plan, after = (said, None) if planned is None else (planned, said)
        rows.append([expected["table"], plan, after, between, reached, min(losses, default=None)])
        weights.append(
            0.0 if not expected["workload"] else 1.0 if work else 1 / max(1, len(release.plan["attributes"]))
        )
    said = [row[1] if row[2] is None else row[2] for row in rows]
    plan, after, reached = (
        np.average(values, weights=weights)
        for values in ([row[1] for row in rows], said, [row[4] for row in rows])
    )
    rows.insert(np.count_nonzero(weights), ["weighted mean", plan, after, None, reached, None])
    at_home = []
    for jobs in (release.true, release.released):
        same = release.areas(jobs["home"], unit) == release.areas(jobs["work"], unit)
        at_home.append(int(jobs["jobs"][same].sum()))
    rows.append([f"who {AT_HOME} {unit}", None, None, None, at_home[1] / at_home[0] - 1, None])
    added_up = release.added_up(coarse)
    if added_up is not None:
        lost = lost_by(release.count("true", coarse, coarse, None), added_up)
        rows.append([f"{coarse} to {coarse}, {ADDED_UP}", None, None, None, None, lost])
    return rows


def lost_by(true: pd.Series, released: pd.Series) -> float:
    """Return the share of jobs that a table counts elsewhere."""
    both = pd.concat([true, released], axis=1).fillna(0.0)
    return float((both.iloc[:, 0] - both.iloc[:, 1]).abs().sum() / 2 / true.sum())


def by_attributes(kept: dict[str, list[list[Any]]], places: Sequence[str]) -> str:
    """Return how near forecasts of tables by attributes are to what is reached, of all epsilons, by place.

    Apart are tables of which the sheet says by its range that it does not know.
    """
    rows = []
    for place in places:
        factors: dict[bool, list[list[float]]] = {False: [], True: []}
        for key, found in kept.items():
            for name, plan, after, between, reached, _ in found:
                if key.startswith(f"now; {place}; ") and " by " in name:
                    low, high = map(float, between.split(" to "))
                    said = [plan, plan if after is None else after]
                    factors[high / low > UNKNOWN**2].append([max(x / reached, reached / x) for x in said])
        cells = [place]
        for of_tables in factors.values():
            near = (np.array(of_tables).reshape(-1, 2) <= NEAR).sum(axis=0)
            most = f"{max(now for _, now in of_tables):.2f}" if of_tables else ""
            cells += [str(len(of_tables)), *map(str, near), most] if of_tables else ["0", "", "", ""]
        rows.append(cells)
    head = ["tables", f"forecast within {NEAR}", "the same after the draw", "largest factor then"]
    return table(["place", *head, *(f"not known: {words}" for words in head)], rows)


def shown(kept: dict[str, list[list[Any]]], place: str, epsilons: Sequence[str]) -> str:
    """Return a table of what is kept of a place, what another commit does beside what this one does."""
    sides = [side for side in ("before", "now") if any(f"{side}; {place}; {e}" in kept for e in epsilons)]
    head = ["epsilon", "table", *(f"{side}: {column}" for side in sides for column in COLUMNS)]
    rows = []
    for epsilon in epsilons:
        of_sides = [
            {row[0]: row[1:] for row in kept.get(f"{side}; {place}; {epsilon}", [])} for side in sides
        ]
        for name in dict.fromkeys(name for of_side in of_sides for name in of_side):
            form = "{:+.1%}".format if AT_HOME in name else "{:.4f}".format
            cells = [cell for of_side in of_sides for cell in of_side.get(name, [None] * len(COLUMNS))]
            words = ["" if cell is None else cell if isinstance(cell, str) else form(cell) for cell in cells]
            rows.append([epsilon, name, *words])
    some = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return table([head[i] for i in some], [[row[i] for i in some] for row in rows])


if __name__ == "__main__":
    main()
