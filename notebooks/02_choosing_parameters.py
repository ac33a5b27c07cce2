# %% [markdown]
# # 2. Choosing parameters on public data
#
# Epsilon and delta, the mechanism, the size and rule of the cells, which workplaces share an urn, and
# whether empty cells are pruned must be chosen **without looking at the confidential records**: a choice
# that depends on them would tell something about them that no certificate covers. So candidates are tried
# on *proxy truth*: homes drawn from a model fitted to public tables. The whole pipeline runs on them, and
# since they are nobody's, the loss can be measured.
#
# (An earlier release may take the place of proxy truth: `tune(..., proxy_truth=FILE)`.)
#
# **No budget is spent here.** The notebook works on a copy of the configuration without its ledger and its
# signing key, and releases nothing.

# %%
import tempfile
from fractions import Fraction
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import tomlkit
from IPython.display import Image
from matplotlib.ticker import PercentFormatter

import pipelines
import synth
from pipelines import Sweep
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.simulation import simulate_utility
from practice import practice_copy

plt.style.use("paper.mplstyle")
work = tempfile.TemporaryDirectory(prefix="odsynth-")  # removed when the notebook is closed
folder = Path(work.name)
source = practice_copy(folder, counties=3, tracts=16, blocks=700, jobs=12_000)
config = pipelines.load_config(source)

# %% [markdown]
# Three measures of loss are looked at, all zero for a perfect release:
#
# - the total variation of flows between tracts: the share of jobs whose pair of home and work tract is
#   wrong;
# - the same from home tracts to single work blocks;
# - the relative error of the mean commute to a workplace of at least 100 jobs (median over workplaces).
#
# The *objective* is what the planner minimises: the weighted mean of what is lost in the tables that the
# release is for (`[[workload]]`; docs/choosing.md has the default). It compares plans of all mechanisms.
#
# ## Epsilon and delta
#
# How much privacy costs, with everything else fixed. These two are for those who answer for the data to
# decide; the figure tells them what they decide about. Delta matters little: it enters through its
# logarithm.

# %%
FIXED = {"split_threshold": ("1",), "pool_below": ("10",), "retention_min": ("1",)}
few = ("2", "4.6", "8.6")
privacy = pipelines.tune(config, Sweep(epsilon=few, delta=("1e-5", "1e-9"), **FIXED))
pipelines.draw_frontier(privacy, config.release.name, folder / "privacy.png")
Image(folder / "privacy.png")

# %% [markdown]
# ## Which mechanism
#
# `"dirichlet"` draws all workers anew from noisy urns; `"geometric"` adds noise to the counts of cells and
# draws nothing anew, with delta 0. Each is shown with the shared urns that the planner chooses for it: for
# noise on counts larger ones, which keeps flows between areas better, and those to single work blocks
# worse. So look at the measure that the release is for, at the epsilon that was decided.

# %%
mechanisms = pipelines.tune(
    config, Sweep(epsilon=few, mechanism=("dirichlet", "geometric"), split_threshold=("1",))
)
pipelines.draw_frontier(mechanisms, config.release.name, folder / "mechanisms.png")
Image(folder / "mechanisms.png")

# %% [markdown]
# All that follows is of the mechanism that the configuration names.
#
# ## How large the cells are
#
# A cell is made so that about $T$ workers of a workplace are expected from it. Small cells say exactly
# where workers live, but each costs noise; large ones cost no noise, but homes inside them are spread by
# public weights. The best compromise moves to smaller cells as epsilon grows.

# %%
sizes = ("0.125", "0.5", "2", "8")
cells = pipelines.tune(
    config, Sweep(epsilon=few, split_threshold=sizes, pool_below=("10",), retention_min=("1",))
)
cells["T"] = cells["split_threshold"].map(Fraction).astype(float)

figure, (loss, noise) = plt.subplots(1, 2, figsize=(8, 3.2))
for (epsilon, rows), marker in zip(cells.groupby("epsilon", sort=False), "os^", strict=True):
    loss.plot(rows["T"], rows["objective"], marker=marker, label=f"ε = {epsilon}")
    noise.plot(rows["T"], rows["noise_share"], marker=marker)
    best = rows.loc[rows["objective"].idxmin()]
    loss.plot(best["T"], best["objective"], "o", color="black", ms=11, mfc="none", mew=1)
loss.set(ylabel="objective (mean total variation)", ylim=(0, None), title="Loss; the smallest is circled")
noise.set(ylabel="synthetic workers that are noise", ylim=(0, 1), title="Noise")
noise.yaxis.set_major_formatter(PercentFormatter(1))
for axis in (loss, noise):
    axis.set(xscale="log", xlabel="expected workers of a cell, T")
    axis.set_xticks([float(size) for size in sizes], sizes)
    axis.minorticks_off()
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# ## Which rule makes the cells
#
# `balanced` makes cells from which about equally many workers are expected, `threshold` only splits areas
# that expect enough, `share` keeps the areas of the largest expected flows apart and joins the rest.
# `distance` is what the first release of OnTheMap did: every block within a radius is a cell of its own,
# whoever is expected there.

# %%
rules = pipelines.tune(
    config, Sweep(epsilon=("2", "8.6"), coarsening=("balanced", "threshold", "share", "distance"), **FIXED)
)
pipelines.draw_frontier(rules, config.release.name, folder / "rules.png")
Image(folder / "rules.png")

# %% [markdown]
# ## Which workplaces share an urn
#
# Small workplaces may share the urn of their area. Then fewer cells share the noise, and flows between
# areas are better kept; but the workers of one workplace are a random part of its area's, so that its own
# mean commute is lost. Which matters more depends on what the release is for.

# %%
limits = ("1", "30", "1000")
pooling = pipelines.tune(
    config, Sweep(epsilon=("2", "8.6"), split_threshold=("1",), pool_below=limits, retention_min=("1",))
)
panels = {
    "total_variation": "flows between tracts",
    "block_variation": "flows from tracts to work blocks",
    "destination_error": "mean commute to a workplace",
}
figure, axes = plt.subplots(1, 3, figsize=(9, 2.9))
for axis, (name, title) in zip(axes, panels.items(), strict=True):
    for (epsilon, rows), marker in zip(pooling.groupby("epsilon", sort=False), "os", strict=True):
        axis.plot(rows["pool_below"].astype(int), rows[name], marker=marker, label=f"ε = {epsilon}")
    axis.set(xscale="log", xlabel="limit of sharing, jobs", ylim=(0, None), title=title)
axes[0].set_ylabel("total variation")
axes[2].set_ylabel("relative error (median)")
axes[2].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
axes[0].legend()
plt.show()

# %% [markdown]
# ## Pruning
#
# A cell without workers can be dropped with probability $1 - f$ before anything is drawn, which makes the
# release sparser. It is not free: that a cell was kept says something about it, and costs up to $\ln(1/f)$
# of epsilon. At small epsilon nothing can be certified any more (no bar). Geometric noise keeps every cell.

# %%
prunes = "retention_min" in synth.MECHANISMS[config.release.mechanism].settings
retentions = ("1", "0.5", "0.1") if prunes else ("1",)
pruning = pipelines.tune(
    config, Sweep(epsilon=few, split_threshold=("1",), pool_below=("10",), retention_min=retentions)
)
table = pruning.pivot_table(index="epsilon", columns="retention_min", values="objective", sort=False)
axis = table.reindex(index=few, columns=retentions).plot.bar(rot=0, width=0.75, figsize=(5.5, 2.9))
axis.set(xlabel="ε", ylabel="objective (mean total variation)")
axis.legend(title="smallest retention f", ncols=3)
plt.show()

# %% [markdown]
# ## A recommendation
#
# Suppose that epsilon 4.6 and delta $10^{-5}$ were decided. We let candidates compete at that price, among
# them the planner's own choice (`auto`: every size class of workplaces gets its own $T$). Several seeds:
# measures are means over draws of proxy truth.

# %%
document = tomlkit.parse(source.read_text(encoding="utf-8"))
document["privacy"].update({"epsilon": "4.6", "delta": "1e-5"})
decided = pipelines.parse_config(tomlkit.dumps(document), source.parent, source.name)
results = pipelines.tune(
    decided,
    Sweep(split_threshold=("auto", "0.5", "2"), pool_below=("1", "30"), retention_min=("1",)),
    seeds=(1, 2),
)
measures = ["total_variation", "block_variation", "destination_error", "noise_share", "objective"]
results.sort_values("objective")[["split_threshold", "pool_below", *measures]].round(3)

# %% [markdown]
# The best one, with the reasons, written into the configuration: the mechanism, [privacy] and [plan];
# everything else in the file stays as it is.

# %%
recommended = pipelines.recommend(results, decided)
tables = tomlkit.parse(recommended)
document["release"]["mechanism"] = tables["release"]["mechanism"]
document["privacy"], document["plan"] = tables["privacy"], tables["plan"]
(folder / "recommended.toml").write_text(tomlkit.dumps(document), encoding="utf-8")
print(recommended)

# %% [markdown]
# ## The recommendation, used
#
# The file is loaded like any other (paths in it are relative to where the first one lay), planned,
# certified, and tried on new proxy truth, which took no part in the choice, beside the fixed settings from
# above at the same price. The spread between draws of proxy truth says which differences are more than
# chance.

# %%
loaded = pipelines.parse_config(
    (folder / "recommended.toml").read_text(encoding="utf-8"), source.parent, "recommended.toml"
)
inputs = read_public_inputs(loaded)
(fixed,) = Sweep(**FIXED).configurations(decided)
plans = {
    "fixed, T = 1": pipelines.make_plan(fixed, inputs),
    "recommended": pipelines.make_plan(loaded, inputs),
}
trials = pd.DataFrame(
    [
        {"plan": name, **simulate_utility(plan, inputs.model, seed=seed).as_dict()}
        for name, plan in plans.items()
        for seed in (10, 11, 12)
    ]
)
guarantee = plans["recommended"].certify()
print(f"certified: epsilon {float(guarantee.epsilon):.6g}, delta {float(guarantee.delta):.2g}")
trials.groupby("plan")[["total_variation", "block_variation", "destination_error"]].agg(
    ["mean", "std"]
).round(4)

# %% [markdown]
# docs/utility-study.md compares both mechanisms with others, on real homes that are public. `odsynth tune`
# does from the command line what `tune` does here.
