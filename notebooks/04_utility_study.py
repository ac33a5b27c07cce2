# %% [markdown]
# # 4. How far to trust a number: a utility study
#
# The study of the paper behind OnTheMap: how well does a release keep the average commute distance to each
# destination? We look at destinations of all sizes, at short and long commutes, and at dense and sparse
# areas.
#
# **What this notebook shows is computed from the true homes. On real data it is confidential:** look at it,
# do not publish it, and do not choose parameters by it (notebook 2 does that on public data). The notebooks
# are kept without outputs for that reason. Here the truth is generated, or, for Rhode Island, public.
#
# **No budget is spent here.** The notebook works on a copy of the configuration without its ledger and its
# signing key, and what it releases is deleted when it is closed.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, PercentFormatter

import pipelines
from pipelines.views.evaluation.comparison import compare_with_truth
from pipelines.views.evaluation.measures import (
    SHORT_KM,
    commute_errors,
    earth_movers_distance,
    errors_by_size,
    group_errors,
    in_dense_area,
)
from pipelines.views.evaluation.measuring import MEASURES
from practice import practice_copy

plt.style.use("paper.mplstyle")
work = tempfile.TemporaryDirectory(prefix="odsynth-")  # removed when the notebook is closed
folder = Path(work.name)
source = practice_copy(folder, counties=3, tracts=30, blocks=1_600, jobs=30_000)
config = pipelines.load_config(source)

# %% [markdown]
# Two releases of the same jobs, at epsilon 8.6 and 4.6, each compared with the truth from block to block.
# Both lie in one table of flows: work block, home block, jobs, and the distance between the two in
# kilometres. Workers who live in external zones, such as other states, have no distance; they are in none of
# the tables of commutes, and in all of those of flows at the end.

# %%
names = ("8.6", "4.6")
comparisons = {}
for name, chosen in zip(names, pipelines.Sweep(epsilon=names).configurations(config), strict=True):
    release = pipelines.run(chosen.with_out(folder / f"release-{name}"))
    opened = pipelines.open_release(release.public)
    comparisons[f"ε = {name}"] = compare_with_truth(opened, source)

truth = comparisons["ε = 8.6"].distances[0]
works = comparisons["ε = 8.6"].works
tables = {name: comparison.distances[1] for name, comparison in comparisons.items()}

# %% [markdown]
# A yardstick: the true workers of each destination, drawn anew with replacement. That has no noise and **no
# privacy at all**; its error is what any method pays that draws as many synthetic workers as there are real
# ones.

# %%
jobs = truth.loc[truth.index.repeat(truth["S000"])].assign(S000=1)
redrawn = jobs.groupby("work").sample(frac=1, replace=True, random_state=0)
tables = {"redrawn, not private": redrawn} | tables

# %% [markdown]
# ## By size of the destination
#
# The relative error of the mean commute to a destination. Sizes double from class to class; solid lines are
# medians over the destinations of a class, and one destination in ten is above the dotted one. On these
# scales an error that falls with the root of the number of jobs is a straight line.

# %%
COLOURS = dict(zip(tables, ("0.5", "C0", "C1"), strict=True))
MARKERS = dict(zip(tables, "^os", strict=True))
whole = FuncFormatter(lambda value, _: f"{value:,.0f}")


def draw(axis, name: str, errors: pd.DataFrame) -> None:
    """Draw the error by size of the destination: the median, and what one destination in ten exceeds."""
    sizes = errors_by_size(errors)
    sizes = sizes[
        sizes[0.5] > 0
    ]  # a single worker, redrawn, is the same one; that has no place on a log scale
    axis.plot(sizes.index, sizes[0.5], color=COLOURS[name], marker=MARKERS[name], label=name)
    axis.plot(sizes.index, sizes[0.9], color=COLOURS[name], ls=":")
    axis.set(xscale="log", yscale="log", xlabel="jobs at the destination", xlim=(1, None))
    axis.xaxis.set_major_formatter(whole)
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


errors = {name: commute_errors(truth, table) for name, table in tables.items()}
figure, axis = plt.subplots(figsize=(5.5, 3.4))
for name, rows in errors.items():
    draw(axis, name, rows)
axis.set_ylabel("relative error of the mean commute")
axis.legend()
plt.show()

# %% [markdown]
# ## Short and long commutes
#
# Up to sixteen kilometres (ten miles), and above. Long commutes are rarer, so that fewer workers carry each
# mean; but a kilometre off is less of a long way. Destinations that have such commutes in one of the tables
# only have no error here; the table further down counts them, and says by how much shares of long commutes
# are off.

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
for axis, short in zip(axes, (True, False), strict=True):
    for name, table in tables.items():
        pair = [t[(t["km"] <= SHORT_KM) == short] for t in (truth, table)]
        draw(axis, name, commute_errors(*pair))
    axis.set_title(f"commutes {'up to' if short else 'above'} {SHORT_KM:g} km")
axes[0].set_ylabel("relative error of the mean commute")
axes[0].legend()
plt.show()

# %% [markdown]
# ## Dense and sparse areas
#
# A destination is in a dense area where the tenth nearest other block is closer than the median destination
# has it.

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
for axis, wanted in zip(axes, (True, False), strict=True):
    for name, rows in errors.items():
        dense = in_dense_area(works, rows["work"].to_numpy())
        draw(axis, name, rows[dense == wanted])
    axis.set_title("dense areas" if wanted else "sparse areas")
axes[0].set_ylabel("relative error of the mean commute")
axes[0].legend()
plt.show()

# %% [markdown]
# The same as a table, for the release at epsilon 8.6:

# %%
group_errors(truth, tables["ε = 8.6"], works).round(3)

# %% [markdown]
# ## Bias
#
# Errors above have no sign. Noise spreads workers over the region, and would make commutes too long: dots
# above the line. The planner keeps cells coarse where nobody is expected, so that there is little of it.

# %%
figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.7), sharex=True, sharey=True)
for axis, name in zip(axes, comparisons, strict=True):
    rows = errors[name]
    size = np.clip(np.sqrt(rows["jobs"]), 1, 30)
    axis.scatter(rows["true_km"], rows["released_km"], s=size, color=COLOURS[name], alpha=0.4, lw=0)
    top = rows["true_km"].quantile(0.995)
    axis.axline((0, 0), slope=1, color="0.3", lw=0.8)
    axis.set(xlim=(0, top), ylim=(0, top), aspect="equal", xlabel="true mean commute, km")
    axis.set_title(f"{name} (a dot: a destination; area: √jobs)")
axes[0].set_ylabel("released mean commute, km")
plt.show()

# %% [markdown]
# ## The whole distribution
#
# The earth mover's distance says by how many kilometres commutes must be stretched or cut, on average, to
# turn one distribution into the other.

# %%
bins = np.arange(0, 60.1, 2)
figure, axis = plt.subplots(figsize=(5.5, 3.2))
for name, table, colour in [("truth", truth, "black"), *((n, t, COLOURS[n]) for n, t in tables.items())]:
    counts = np.histogram(table["km"], bins, weights=table["S000"])[0] / table["S000"].sum()
    mover = earth_movers_distance(truth, table)
    label = name if name == "truth" else f"{name}: {mover:.2f} km away"
    axis.stairs(counts, bins, color=colour, ls="--" if name == "truth" else "-", label=label)
axis.set(xlabel="distance from home to work, km", ylabel="share of jobs per 2 km", xlim=(0, bins[-1]))
axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
axis.legend()
plt.show()

# %% [markdown]
# ## Flows
#
# At which level to use a release. Total variation is the share of jobs whose pair of home and work area is
# wrong. Tables of larger areas are good; block to block no synthetic data can be, where nearly all flows
# are of one job.

# %%
measures = pipelines.open_release(folder / "release-8.6").evaluate(source)
by_level = measures[measures["measure"].isin(["total_variation", "lost_jobs", "residence_variation"])]
table = by_level.pivot_table("value", "measure", "level", sort=False).round(3)
table.rename(index={name: meaning.title for name, meaning in MEASURES.items()})

# %% [markdown]
# `evaluate` has also written all measures, with figures, as one confidential page; docs/evaluation.md
# defines them.
