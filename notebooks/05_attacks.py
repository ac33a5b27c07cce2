# %% [markdown]
# # 5. Attacks
#
# What goes wrong without noise, and what an auditor sees who knows nothing of a sampler but what it draws.
#
# **No budget is spent here.** The notebook works on a copy of the configuration without its ledger and its
# signing key, and what it releases is deleted when it is closed.

# %%
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import pipelines
import synth
from pipelines.views.evaluation.comparison import compare_with_truth
from pipelines.views.evaluation.measures import lost_pairs
from practice import practice_copy
from synth.auditing import Sampler, audit
from synth.dirichlet.attackers import KNOWLEDGE, Attackers, largest_changes
from synth.dirichlet.urn import Urns, sample_cells
from synth.randomness import WordStream

plt.style.use("paper.mplstyle")
work = tempfile.TemporaryDirectory(prefix="odsynth-")  # removed when the notebook is closed
folder = Path(work.name)
source = practice_copy(folder, counties=3, tracts=16, blocks=700, jobs=12_000)
config = pipelines.load_config(source)

# %% [markdown]
# ## Resampling alone is no protection
#
# It is tempting to publish, for each workplace, as many workers as there are, drawn with replacement from
# the true ones. Every published pair of blocks is then a true one: whoever finds a single synthetic worker
# from a far block knows that somebody really commutes from there. In a release with noise most pairs of
# blocks are inventions, so that a pair proves nothing.

# %%
release = pipelines.run(config)
comparison = compare_with_truth(pipelines.open_release(release.public), source)
truth = comparison.reference
jobs = truth.loc[truth.index.repeat(truth["S000"])].assign(S000=1)
redrawn = jobs.groupby("work").sample(frac=1, replace=True, random_state=0)
redrawn = redrawn.groupby(["work", "home"], as_index=False).sum()
invented = {  # pairs of the one that the other has not
    "resampling alone": lost_pairs(redrawn, truth)[0],
    f"release, ε = {float(config.privacy.epsilon):g}": lost_pairs(comparison.release, truth)[0],
}
pd.Series(invented, name="published pairs of blocks that are not true").map("{:.1%}".format)

# %% [markdown]
# ## One worker from a far block
#
# The same in the small, where every probability can be seen. A workplace has twenty workers; the attacker
# knows nineteen of them, all from cells 0 and 1, and wonders whether the twentieth lives there, too, or in
# the far cell 7. We draw the synthetic workers many times under either hypothesis, with the certified
# sampler and with one that adds noise only to cells where somebody lives.


# %%
def plan_of_one_pool(n: int, cells: int, epsilon: str, delta: str = "0") -> synth.Plan:
    """Calibrate a plan of one pool with as many draws as workers."""
    domains = synth.Domains(
        cells, np.array([0, cells]), np.arange(cells, dtype=np.int32), np.zeros(cells, np.uint8)
    )
    pools = synth.Pools(np.array([n]), np.array([n]), np.zeros(1, np.int32))
    return synth.MECHANISMS["dirichlet"].calibrate(
        pools, domains, (Fraction(1),), synth.Target(Fraction(epsilon), Fraction(delta))
    )


def one_pool(n: int, cells: int, epsilon: str, delta: str = "0") -> tuple[Urns, synth.Guarantee]:
    """Certify such a plan, too; return its urn."""
    plan, mechanism = plan_of_one_pool(n, cells, epsilon, delta), synth.MECHANISMS["dirichlet"]
    return mechanism.urns(plan, slice(0, 1)), mechanism.certify(plan)


def cells(*homes: int) -> np.ndarray:
    """Return the cells of workers."""
    return np.array(homes, np.int32)


def changed(change: Callable[[Urns], Urns]) -> Sampler:
    """Return the sampler that ships, given other urns than the plan's."""
    return lambda urns, cells, stream: sample_cells(change(urns), cells, stream)


urns, guarantee = one_pool(20, 8, "3", "1e-4")
there, not_there = cells(*[0] * 10, *[1] * 9, 7), cells(*[0] * 10, *[1] * 10)
no_noise_where_nobody_lives = changed(lambda urns: urns._replace(coin=np.array([[0, 1]])))

# %%
RUNS = 100_000


def far_draws(sampler: Sampler, workers: np.ndarray) -> np.ndarray:
    """Return the share of runs with 0, 1, 2, ... synthetic workers from the far cell."""
    n = workers.size
    many = urns._replace(
        offsets=np.arange(RUNS + 1) * n,
        draw_offsets=np.arange(RUNS + 1) * n,
        prior=np.repeat(urns.prior, RUNS, axis=0),
        domain=np.repeat(urns.domain, RUNS),
    )
    drawn = sampler(many, np.tile(workers, RUNS), synth.RunKey.generate().stream("notebook", 0))
    return np.bincount((drawn.reshape(RUNS, n) == 7).sum(axis=1), minlength=n + 1)[:9] / RUNS


figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
samplers = {
    "certified: ε = 3, δ = 0.0001": sample_cells,
    "noise only where somebody lives": no_noise_where_nobody_lives,
}
for axis, (title, sampler) in zip(axes, samplers.items(), strict=True):
    for offset, (label, workers) in zip(
        (-0.2, 0.2), {"lives there": there, "does not": not_there}.items(), strict=True
    ):
        axis.bar(np.arange(9) + offset, far_draws(sampler, workers), 0.4, label=label)
    axis.set(xlabel="synthetic workers from the far cell", yscale="log", ylim=(1e-5, 1), title=title)
axes[0].set_ylabel("share of runs")
axes[1].legend(title="the twentieth worker")
plt.show()

# %% [markdown]
# Left, whatever is drawn may come from either hypothesis: no bar stands alone by more than a factor of $e^3
# \approx 20$, but for outcomes of probability δ. Right, a single synthetic worker from the far cell is
# proof.
#
# ## The auditor
#
# `audit` looks for the event that gives a sampler away on one half of the runs, counts it on the
# other, and states a lower bound on epsilon at a confidence of $1 - 10^{-6}$. A bound above the promise
# convicts the sampler; one below acquits nobody.

# %%
CONFIDENCE = 1 - Fraction(1, 10**6)
urns, guarantee = one_pool(1, 3, "1.6")  # one worker, three cells
cases = {
    "as certified": sample_cells,
    "a tenth of the prior": changed(lambda urns: urns._replace(prior=urns.prior // 10)),
    "noise only where somebody lives": no_noise_where_nobody_lives,
}
promised, delta = guarantee.record_epsilon, guarantee.record_delta
rows = []
for name, sampler in cases.items():
    for runs in (1_000, 10_000, 200_000):
        found = audit(
            urns, cells(0), cells(1), runs=runs, delta=delta, confidence=CONFIDENCE, sampler=sampler
        )
        rows.append(
            {"sampler": name, "runs": runs, "lower bound": float(found.epsilon), "event": found.event}
        )
audits = pd.DataFrame(rows)

figure, axis = plt.subplots(figsize=(5.5, 3.4))
for (name, part), marker in zip(audits.groupby("sampler", sort=False), "os^", strict=True):
    axis.plot(part["runs"], part["lower bound"], marker=marker, label=name)
axis.axhline(float(promised), color="0.3", ls="--", lw=1, label=f"promised: {float(promised):g}")
axis.set(xscale="log", xlabel="runs on each input", ylabel="lower bound on ε", ylim=(0, None))
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %% [markdown]
# The bound for the certified sampler comes close to its promise from below. Where the true loss is
# unlimited, the bound is what the number of runs can show. What gave each sampler away, as the auditor puts
# it:

# %%
last = audits[audits["runs"] == audits["runs"].max()]
last.assign(verdict=np.where(last["lower bound"] > float(promised), "convicted", "nothing proved"))

# %% [markdown]
# In larger pools the worst events are rarer, and the bound stays far below the promise. That says nothing
# about how tight the certificate is; exact enumeration of small pools does (docs/limitations.md).
#
# ## Two releases of the same records
#
# Costs add. Somebody who releases twice and states the price of one release is convicted; the price of both
# is not exceeded.


# %%
def twice(urns: Urns, cells: np.ndarray, stream: WordStream) -> np.ndarray:
    """Release the same records twice."""
    return np.stack([sample_cells(urns, cells, stream) for _ in range(2)], axis=1)


once, both = (promised, delta), synth.compose([(promised, delta)] * 2)
result = audit(urns, cells(0), cells(1), runs=200_000, delta=both[1], confidence=CONFIDENCE, sampler=twice)
pd.Series(
    {"price of one release": once[0], "audited, two releases": result.epsilon, "price of both": both[0]},
    name="epsilon",
).astype(float).round(3)

# %% [markdown]
# ## Attackers who know less
#
# The attacker of the twentieth worker knew the other nineteen. Who knows half of them, one, or public tables
# only cannot tell the homes that they do not know from the one that they look for. Lemma 34 of
# docs/privacy.md bounds how much this one's own being in the input can change the odds between two homes,
# whatever is released. It depends on how stubborn the attacker's belief about homes is, as the weight of so
# many homes seen: who cannot be taught that others live in a far cell takes every synthetic worker from there
# for the one.

# %%
plan = plan_of_one_pool(200, 60, "2", "1e-4")
stubbornness = [10**power for power in range(6)]
figure, axis = plt.subplots(figsize=(5.5, 3.6))
for knowledge, marker in zip(KNOWLEDGE, "os^v", strict=True):
    classes = [Attackers(knowledge, Fraction(sure)) for sure in stubbornness]
    odds = [float(change.odds) for change in largest_changes(plan, classes)]
    axis.plot(stubbornness, odds, marker=marker, label=f"knows {knowledge}")
axis.axhline(np.exp(2), color="0.3", ls="--", lw=1, label="ε = 2, but for δ")
axis.set(xscale="log", yscale="log", xlabel="stubbornness, in homes seen", ylabel="odds change by at most")
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %% [markdown]
# These factors hold without exception; that of ε = 2 holds whatever the attacker knows and believes, but for
# outcomes of probability δ. `odsynth attackers` says the same of a plan or a release, for the people whom it
# is about:

# %%
print(pipelines.attackers(release.public, stubbornness=["1", "10"]).text())

# %% [markdown]
# docs/attacks.md has the whole list, with faults that no audit can find and the tests that do find them.
