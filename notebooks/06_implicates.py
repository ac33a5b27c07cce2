# %% [markdown]
# # 6. Using implicates
#
# One synthetic data set does not say how much of what it shows is the draw. Several of them, *implicates*,
# drawn independently from the same records, do: how far they are apart measures what synthesis adds to an
# analyst's uncertainty. This notebook releases three, combines them, and shows what they cost.
#
# Figures with "truth" in them are computed from the true homes: on real data they are confidential (see
# notebook 4).
#
# **No budget is spent here.** The notebook works on a copy of the configuration without its ledger and its
# signing key, and what it releases is deleted when it is closed.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tomlkit
from matplotlib.ticker import PercentFormatter

import pipelines
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.views.evaluation.comparison import compare_with_truth
from pipelines.views.evaluation.measures import add_distance, implicate_variance
from practice import practice_copy

plt.style.use("paper.mplstyle")
work = tempfile.TemporaryDirectory(prefix="odsynth-")  # removed when the notebook is closed
folder = Path(work.name)
source = practice_copy(folder, counties=3, tracts=30, blocks=1_600, jobs=30_000)

# %% [markdown]
# ## A release of three
#
# Epsilon and delta are of all implicates together. Independent runs of the mechanism share them equally, so
# each has a third. (At a smaller epsilon pruning cannot be afforded, so all cells are kept.)

# %%
document = tomlkit.parse(source.read_text(encoding="utf-8"))
document.setdefault("plan", {})["retention_min"] = "1"


def with_implicates(
    number: int, urns: str = "independent-runs", **plan: str | int
) -> pipelines.ReleaseConfig:
    """Return the configuration with a number of implicates."""
    changed = tomlkit.parse(tomlkit.dumps(document))
    changed["release"].update({"implicates": number, "implicate_source": urns})
    changed["plan"].update(plan)
    return pipelines.parse_config(tomlkit.dumps(changed), source.parent, source.name)


config = with_implicates(3)
release = pipelines.run(config)
certificate = release.certificate
print(f"all together: epsilon {certificate.run.epsilon}, delta {certificate.run.delta}")
print(certificate.implicates.words)

# %% [markdown]
# An analyst opens each by its number, and does the same analysis on each as if it were real data. Here: the
# mean commute to each work tract, and its squared standard error, of those who live in the region (external
# zones have no distance).

# %%
level = release.plan.level
implicates = [
    pipelines.open_release(release.public, number) for number in range(1, certificate.implicates.number + 1)
]
blocks, tracts = implicates[0].levels[-1], implicates[0].places(level)["code"]
places = implicates[0].places(blocks)


def mean_commutes(flows: pd.DataFrame) -> pd.DataFrame:
    """Return jobs, mean commute in km and its variance for every work tract, from flows between blocks."""
    unit = implicates[0].geography.unit_of(level, flows["work"].to_numpy())
    sums = pd.DataFrame(
        {"n": flows["S000"], "x": flows["S000"] * flows["km"], "xx": flows["S000"] * flows["km"] ** 2}
    )
    n, x, xx = sums.groupby(unit).sum().to_numpy().T
    spread = (xx - x**2 / n) / np.maximum(n - 1, 1)
    return pd.DataFrame({"jobs": n, "km": x / n, "variance": spread / n}, index=tracts[np.unique(unit)])


analyses = [mean_commutes(add_distance(one.unit_flows(blocks, blocks), places, places)) for one in implicates]
estimates = pd.concat([each["km"] for each in analyses], axis=1, keys=range(1, 4))
variances = pd.concat([each["variance"] for each in analyses], axis=1, keys=range(1, 4))

# %% [markdown]
# ## Combining
#
# For synthetic homes of the same jobs Reiter's rule holds (*Survey Methodology* 29, 2003): the estimate is
# the mean over implicates, its variance the mean variance plus a third of the variance between implicates.
# For the largest work tract:

# %%
largest = analyses[0]["jobs"].idxmax()
print("estimates, km:", estimates.loc[largest].round(3).tolist())
print("standard errors, km:", np.sqrt(variances.loc[largest]).round(3).tolist())
pipelines.combine(estimates.loc[largest], variances.loc[largest], "partially")

# %% [markdown]
# ## All work tracts
#
# Intervals from the first implicate alone, taken for real data, and from all three, for tracts with at
# least 30 jobs. An interval is meant for the long-run mean of which the true jobs are one sample, so it
# should hold their own mean (cross) in more than 95 % of tracts. Where it does not, the reason is bias:
# noise pulls all implicates alike towards what public tables expect. (With an epsilon so large that there
# is no noise, 60 say, the combined intervals hold nearly all.) No variance shows that, and combining cannot
# mend it; a larger epsilon, or fewer implicates, can.

# %%
truth = mean_commutes(compare_with_truth(implicates[0], source).distances[0]).reindex(estimates.index)
combined = [
    pipelines.combine(q, u, "partially") for q, u in zip(estimates.values, variances.values, strict=True)
]
half = 1.96 * np.sqrt(variances[1])
intervals = {
    "first implicate alone": pd.DataFrame({"low": estimates[1] - half, "high": estimates[1] + half}),
    "three, combined": pd.DataFrame(
        [c.interval for c in combined], columns=["low", "high"], index=estimates.index
    ),
}
usual = truth["jobs"] >= 30
pd.DataFrame(
    {
        name: {
            "holds the mean of the true jobs": rows["low"]
            .le(truth["km"])
            .mul(rows["high"].ge(truth["km"]))[usual]
            .mean(),
            "median width, km": (rows["high"] - rows["low"])[usual].median(),
        }
        for name, rows in intervals.items()
    }
).round(3)

# %%
shown = truth["jobs"].nlargest(20).index
at = np.arange(shown.size)
figure, axis = plt.subplots(figsize=(6, 4.6))
for offset, marker, (name, rows) in zip((0.17, -0.17), "os", intervals.items(), strict=True):
    low, high = rows.loc[shown, "low"], rows.loc[shown, "high"]
    axis.errorbar((low + high) / 2, at + offset, xerr=(high - low) / 2, fmt=marker, ms=3, lw=1.2, label=name)
axis.plot(truth.loc[shown, "km"], at, "kx", ms=5, label="true jobs")
axis.set_yticks(at, [f"{code} ({truth.loc[code, 'jobs']:,.0f})" for code in shown], fontsize=7)
axis.set(xlabel="mean commute, km, with 95 % intervals", ylabel="work tract (jobs)")
axis.invert_yaxis()
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# ## How much a flow moves
#
# The variance of a flow between tracts from implicate to implicate, against its mean. Independent draws of
# every job would lie on the lower line; an urn that grows with each draw moves up to twice as much. Readers
# may take it for the error of a flow, bias aside.

# %%
moved = implicate_variance([one.flows(level, level) for one in implicates])
classes = np.floor(np.log2(moved["mean"]))
groups = moved.groupby(classes)[["mean", "variance"]].mean()[moved.groupby(classes).size() >= 5]
figure, axis = plt.subplots(figsize=(4.6, 3.4))
axis.plot(groups["mean"], groups["variance"], "o", label="flows, by size")
axis.axline((1, 1), (10, 10), color="0.3", lw=0.8, label="variance = mean")
axis.axline((1, 2), (10, 20), color="0.3", lw=0.8, ls="--", label="variance = twice the mean")
axis.set(xscale="log", yscale="log", xlabel="mean flow, jobs", ylabel="variance between implicates, jobs²")
axis.legend()
plt.show()

# %% [markdown]
# ## What they cost
#
# At the same total price more implicates are noisier, each of them. Cutting all from one urn, where the
# mechanism has urns, is cheaper, but those share what the urn happened to become: they show what the last
# draw does, and must not be combined by the rule. This figure needs no confidential data.

# %%
inputs = read_public_inputs(config)
numbers = (1, 2, 3, 5, 10)
figure, axis = plt.subplots(figsize=(5, 3.2))
sources = [("independent-runs", "independent runs", "o")]
if "implicate_source" in release.plan.mechanism.settings:
    sources.append(("one-urn", "cut from one urn", "s"))
for urns, label, marker in sources:
    plans = [
        pipelines.make_plan(with_implicates(k, urns, split_threshold="1", pool_below=10), inputs)
        for k in numbers
    ]
    axis.plot(
        numbers, [plan.mechanism.noise_share(plan.numeric) for plan in plans], marker=marker, label=label
    )
axis.set(xlabel="implicates", ylabel="synthetic workers that are noise", ylim=(0, 1), xticks=numbers)
axis.yaxis.set_major_formatter(PercentFormatter(1))
axis.legend(title=f"ε = {float(config.privacy.epsilon):g} in all")
plt.show()
