"""Rhode Island 2019 from csv.gz to checked release: time, memory, cost, and distance from the truth.

Usage: python benchmarks/rhode_island.py [--figure FILE.png] [--page benchmarks/rhode_island.md]

Runs `odsynth run examples/rhode_island.toml` as a process of its own four times, taking turns with an empty
one (the first may compile, and is not counted), and twice in this process, which has then been warmed up;
compares a release with the true jobs. LODES plays the confidential truth here; it is itself a public,
protected file, so that its comparison may be printed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import click
import geopandas as gpd
import numpy as np
import report
from processes import Usage, completed

import geo_data
import pipelines
import synth
from geo_data.distance import distance_km
from geo_data.pools import group_records
from pipelines.planning.public_inputs import job_source
from pipelines.plans.utility import mean_commute, total_variation
from pipelines.release.description import file_names
from pipelines.running.run import certify
from synth.dirichlet import calibration, mechanism

ROOT = Path(__file__).parent.parent
COMMAND = "python benchmarks/rhode_island.py"
CONFIG = ROOT / "examples" / "rhode_island.toml"
TRACTS = ROOT.parent / "shared" / "data" / "ri_2019" / "ri_tracts_2010vintage.geojson"
RUNS = 4


@click.command()
@click.option("--figure", type=click.Path(path_type=Path), help="Also draw truth and release, as a PNG.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(figure: Path | None, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    with tempfile.TemporaryDirectory() as folder:
        runs, empty = [], []
        for i in range(RUNS):
            target = Path(folder) / f"release-{i}"
            empty.append(completed([sys.executable, "-c", "pass"]))
            runs.append(
                completed([sys.executable, "-m", "pipelines.cli", "run", str(CONFIG), "--out", str(target)])
            )
        rows = [
            ["from csv.gz to a checked release, whole process", usage(runs[1:], empty[1:])],
            ["the same in a process that is running and has made one before", warm(Path(folder))],
            *compare(target / "public", figure),
        ]
    text = report.table(["", f"of {RUNS - 1} runs the median"], rows)
    print(text)
    if page is not None:
        report.fill(page, COMMAND, f"{report.this_machine()}\n\n{text}")


def usage(runs: list[Usage], empty: list[Usage]) -> str:
    """Say what runs took, beside empty processes of the same minutes."""

    def median(found: list[Usage], field: str) -> float:
        return statistics.median(getattr(one, field) for one in found)

    processor = median(runs, "processor")
    return (
        f"{report.seconds(processor)} of processors ({processor / median(empty, 'processor'):,.0f} times "
        f"`python -c pass`), {report.seconds(median(runs, 'seconds'))} by the clock, "
        f"{median(runs, 'gigabytes'):.2f} GB"
    )


def warm(folder: Path) -> str:
    """Say what a second run in this process takes; nothing that was calibrated is used again."""
    for i in range(2):
        calibration.proved_loss.cache_clear()
        mechanism._bounds.cache_clear()
        mechanism._calibrated.cache_clear()
        clock, processor = time.perf_counter(), time.process_time()
        pipelines.run(pipelines.load_config(CONFIG).with_out(folder / f"warm-{i}"))
    processor, clock = time.process_time() - processor, time.perf_counter() - clock
    return f"{report.seconds(processor)} of processors, {report.seconds(clock)} by the clock"


def compare(public: Path, figure: Path | None) -> list[list[str]]:
    """Return rows of what the release costs and how far it is from the truth."""
    config = pipelines.load_config(CONFIG)
    plan = pipelines.load_plan(public / "plan")
    guarantee = certify(plan)
    geography, slots = plan.geography, plan.pools.slots
    truth = job_source(config, geography).records(plan.attributes)
    homes = group_records(plan.pools, plan.geography, truth)
    names = file_names(plan.config)
    released = geo_data.LodesJobs(public / names["od_csv"], geography, public / names["aux_csv"])
    synthetic = group_records(plan.pools, plan.geography, released.records(plan.attributes))
    share = plan.mechanism.noise_share(plan.numeric)
    rows = [
        ["epsilon; delta", f"{synth.decimal_up(guarantee.epsilon)}; {synth.decimal_up(guarantee.delta)}"],
        ["expected share of noise", f"{share:.2%}"],
    ]
    for level in geography.levels[1:]:
        distance = total_variation(geography, level, slots.work, homes, synthetic)
        rows.append([f"total variation of flows, {level} to {level}", f"{distance:.4f}"])
    means = [mean_commute(geography, slots.work, h) for h in (homes, synthetic)]
    rows.append(
        [
            "mean commute of those who live in the state",
            f"{means[1]:.2f} km (truth {means[0]:.2f} km, {means[1] / means[0] - 1:+.2%})",
        ]
    )
    outside = [int(geography.is_external(h).sum()) for h in (homes, synthetic)]
    rows.append(["jobs of people who live in other states", f"{outside[1]:,} (truth {outside[0]:,})"])
    again = released.slots()
    same = np.array_equal(again.work, slots.work) and all(
        np.array_equal(marginal(again, name), marginal(slots, name)) for name in slots.attributes
    )
    rows.append(
        [
            "work-block totals by every attribute, main and aux together",
            "equal to the truth" if same else "not those of the truth",
        ]
    )
    if figure is not None:
        draw(geography, slots.work, homes, synthetic, float(guarantee.epsilon), figure)
    return rows


def marginal(slots: geo_data.Slots, name: str) -> np.ndarray:
    """Return the jobs of each work block in each category of an attribute."""
    categories = len(slots.categories[name])
    return np.bincount(slots.work.astype(np.int64) * categories + slots.attributes[name])


def draw(
    geography: geo_data.Geography,
    work: np.ndarray,
    homes: np.ndarray,
    synthetic: np.ndarray,
    epsilon: float,
    figure: Path,
) -> None:
    """Draw where the workers of the busiest tract live, true and synthetic, and how far people commute."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    level = "trct"
    tract_of_job = geography.unit_of(level, work)
    busiest = np.bincount(tract_of_job).argmax()
    here = tract_of_job == busiest
    external = geography.is_external(np.arange(geography.n_blocks))
    tracts = gpd.read_file(TRACTS).to_crs(3438)
    tracts["unit"] = geography.unit_number(level, tracts["GEOID"])
    place = tracts[tracts["unit"] == busiest].representative_point()
    fig, axes = plt.subplots(1, 3, figsize=(12.5, 5), width_ratios=(1, 1, 1.25), layout="constrained")
    for ax, h, title in zip(axes, (homes, synthetic), ("true", "synthetic"), strict=False):
        tracts["workers"] = np.bincount(
            geography.unit_of(level, h[here]), minlength=geography.n_units(level)
        )[tracts["unit"]]
        tracts.plot(
            "workers",
            ax=ax,
            cmap="viridis",
            norm=LogNorm(1, 400),
            missing_kwds={"color": "lightgrey"},
            linewidth=0.1,
            edgecolor="white",
            legend=title == "synthetic",
            legend_kwds={"label": "workers living in tract", "shrink": 0.6},
        )
        place.plot(ax=ax, color="red", marker="*", markersize=90, edgecolor="white", zorder=3)
        ax.set_axis_off()
        outside = external[h[here]].sum()
        ax.set_title(
            f"Homes of the {here.sum():,} workers\nof the busiest tract (star): {title};\n"
            f"{outside:,} live in other states"
        )
    bins = np.arange(0, 71, 2)
    for h, label, style in ((homes, "true", "-"), (synthetic, "synthetic", "--")):
        km = distance_km(
            geography.latitude[h], geography.longitude[h], geography.latitude[work], geography.longitude[work]
        )
        label += f" ({external[h].sum():,} from other states left out)"
        axes[2].stairs(np.histogram(km, bins)[0] / 1e3, bins, label=label, linestyle=style, linewidth=1.8)
    axes[2].set(xlabel="commute, km", ylabel="thousand workers", xlim=(0, 70))
    axes[2].set_title(f"All {work.size:,} jobs of Rhode Island 2019\nepsilon {epsilon:.2f}, delta 0.00001")
    axes[2].legend(frameon=False)
    axes[2].spines[["top", "right"]].set_visible(False)
    figure.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(figure, dpi=110)


if __name__ == "__main__":
    main()
