"""Rhode Island 2019 from csv.gz to checked release: time, memory, cost, and distance from the truth.

Usage: python benchmarks/rhode_island.py [--figure FILE.png]

Runs `odsynth run examples/rhode_island.toml` as a process of its own, three times (the first one compiles),
and twice in this process, which has then been warmed up; compares a release with the true jobs. LODES plays
the confidential truth here; it is itself a public, protected file, so that its comparison may be printed.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import geopandas as gpd
import numpy as np

import geo_data
import pipelines
import synth
from pipelines.planning.public_inputs import job_source
from pipelines.release.layout import file_names

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "examples" / "rhode_island.toml"
TRACTS = ROOT.parent / "shared" / "data" / "ri_2019" / "ri_tracts_2010vintage.geojson"
RUNS = 3


@click.command()
@click.option("--figure", type=click.Path(path_type=Path), help="Also draw truth and release, as a PNG.")
def main(figure: Path | None) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        seconds = []
        for i in range(RUNS):
            target = out.with_name(f"release-{i}")
            begin = time.perf_counter()
            odsynth("run", str(CONFIG), "--out", str(target))
            seconds.append(time.perf_counter() - begin)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        print(f"whole process: first {seconds[0]:.1f} s, then median {statistics.median(seconds[1:]):.1f} s")
        print(f"peak memory {memory:.2f} GB")
        print(f"in a process that is running and has made one before: {warm(Path(folder)):.1f} s")
        compare(target / "public", figure)


def warm(folder: Path) -> float:
    """Return the seconds of a second run in this process; nothing that was calibrated is used again."""
    for i in range(2):
        synth.dirichlet._bounds.cache_clear()
        synth.dirichlet._calibrated.cache_clear()
        begin = time.perf_counter()
        pipelines.run(pipelines.load_config(CONFIG).with_out(folder / f"warm-{i}"))
    return time.perf_counter() - begin


def odsynth(*arguments: str) -> None:
    """Run the command line and let its errors be seen."""
    subprocess.run([sys.executable, "-m", "pipelines.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def compare(public: Path, figure: Path | None) -> None:
    """Print what the release costs and how far it is from the truth."""
    config = pipelines.load_config(CONFIG)
    plan = pipelines.load_plan(public / "plan")
    guarantee = pipelines.certify(plan)
    geography, slots = plan.geography, plan.pools.slots
    truth = job_source(config, geography).records(plan.attributes)
    homes = geo_data.group_records(plan.pools, plan.geography, truth)
    names = file_names(plan.configuration)
    released = geo_data.LodesJobs(public / names["od_csv"], geography, public / names["aux_csv"])
    synthetic = geo_data.group_records(plan.pools, plan.geography, released.records())
    print(f"epsilon {float(guarantee.epsilon):.6f}, delta {float(guarantee.delta):.3e}, ", end="")
    print(f"noise share {plan.mechanism.noise_share(plan.numeric):.2%}")
    for level in geography.levels[1:]:
        distance = pipelines.total_variation(geography, level, slots.work, homes, synthetic)
        print(f"total variation of flows, {level} to {level}: {distance:.4f}")
    means = [pipelines.mean_commute(geography, slots.work, h) for h in (homes, synthetic)]
    print(f"mean commute {means[1]:.2f} km, truth {means[0]:.2f} km ({means[1] / means[0] - 1:+.2%})")
    outside = [int(geography.is_external(h).sum()) for h in (homes, synthetic)]
    print(f"jobs of people who live in other states: {outside[1]:,}, truth {outside[0]:,}")
    again = released.slots()
    same = np.array_equal(again.work, slots.work) and all(
        np.array_equal(marginal(again, name), marginal(slots, name)) for name in slots.attributes
    )
    print(f"work-block totals, by every attribute, equal the truth: {same}")
    if figure is not None:
        draw(geography, slots.work, homes, synthetic, float(guarantee.epsilon), figure)


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
        km = geo_data.distance_km(
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
