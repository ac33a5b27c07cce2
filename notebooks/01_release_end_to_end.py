# %% [markdown]
# # 1. A release from end to end
#
# A statistical agency holds one record for each job: the block where the worker lives and the block of the
# workplace. Homes are confidential; how many jobs there are at each workplace is taken to be public. This
# notebook publishes synthetic homes for all jobs of a region, with a certificate of privacy, and looks at
# each step on the way.
#
# The region is generated, so nothing here is anybody's. Set the environment variable `NOTEBOOK_CONFIG` to the
# path of another configuration to use that: `../examples/rhode_island.toml` has public data, or take one of
# your own. **No budget of it is spent:** the notebook works on a copy without its ledger and its signing key,
# pays from a ledger in its temporary folder, and what it releases is deleted when it is closed.

# %%
import tempfile
from pathlib import Path

import pandas as pd
import tomlkit
from IPython.display import Image

import pipelines
from practice import practice_copy

work = tempfile.TemporaryDirectory(prefix="odsynth-")  # removed when the notebook is closed
folder = Path(work.name)
source = practice_copy(folder)

# %% [markdown]
# ## The configuration
#
# One TOML file names the inputs, the privacy that the release may cost, and the ledger that pays for it.
# Numbers that decide about privacy are text, because they are used exactly as written. Everything that can
# be wrong with the file is found before any data is read.
#
# We add a ledger of our own, in the temporary folder: a budget for this set of records, from which every
# release is debited before its first draw. This one pays for one release and a half.

# %%
document = tomlkit.parse(source.read_text(encoding="utf-8"))
asked = pipelines.load_config(source).privacy
document["ledger"] = {
    "file": str(folder / "ledger.sqlite"),
    "data_set": "jobs of the region",
    "epsilon": str(asked.epsilon * 3 / 2),
    "delta": str(asked.delta * 3 / 2),
}
config = pipelines.parse_config(tomlkit.dumps(document), source.parent, source.name)
print(tomlkit.dumps({name: document[name].unwrap() for name in ("release", "privacy")}))

# %% [markdown]
# ## The plan, from public inputs only
#
# For the jobs of each workplace, home blocks are grouped into *cells*: fine where public tables expect many
# of its workers to live, coarse where they expect few. Each cell will get a little noise, so their number
# decides what the release is worth. No home is read here: `PublicInputs` has none to give. What the plan is
# expected to lose is found by running it on *proxy truth*, homes drawn from a model fitted to the public
# tables.

# %%
planned = pipelines.plan(config, folder / "plan")  # refuses a plan that costs more than was requested
plan = planned.plan
print(planned.text())

# %% [markdown]
# The cells of a large, a middling and a small workplace (red star). A dot is a home block; the darker, the
# fewer blocks it shares a cell with.

# %%
Image(planned.folder / "cells.png")

# %% [markdown]
# ## The run
#
# `run` releases exactly this plan. It certifies again, debits the ledger, and only then reads homes: one
# short function sees them next to the random numbers. The result is written to a private folder, checked
# there, and put in place by one rename. (Without `plan` it would plan by itself, as above.)

# %%
release = pipelines.run(config, plan=planned.folder)

# %% [markdown]
# What may be published is in one folder, and nothing else is:

# %%
files = [path for path in sorted(release.public.rglob("*")) if path.is_file()]
pd.DataFrame(
    {"bytes": [path.stat().st_size for path in files]},
    index=pd.Index([path.relative_to(release.public).as_posix() for path in files], name="file"),
)

# %% [markdown]
# ## What it cost
#
# The certificate states the privacy loss of the whole run (of one record in it), and that of one person with
# all of their records. Notebook 3 reads it in full.

# %%
certificate = release.certificate
print(certificate.definition.words)
print(f"\nrun:        epsilon {certificate.run.epsilon}, delta {certificate.run.delta}")
print(f"user-level: epsilon {certificate.user_level.epsilon}, delta {certificate.user_level.delta}")

# %%
settings = config.ledger
budget = pipelines.Budget(settings.epsilon, settings.delta)
left = pipelines.Ledger(settings.file).remaining(settings.data_set, budget)
print(f"left of the budget: epsilon {float(left['epsilon']):.3g}, delta {float(left['delta']):.3g}")

# %% [markdown]
# A second release of the same records at the same price would exceed the budget, and is refused before
# anything is drawn:

# %%
try:
    pipelines.run(config.with_out(folder / "second"), plan=planned.folder)
except pipelines.LedgerError as error:
    print(error)

# %% [markdown]
# ## Anyone can check it
#
# `verify` needs the public folder only. It computes the certificate again from the plan, and compares every
# file with plan and checksums. Its last check asks whether the program was an unmodified, committed
# version; a working copy with changes may release for practice only, and says so.

# %%
try:
    pipelines.verify(release.public, on_check=lambda check: print(f"passed  {check.name}: {check.detail}"))
except pipelines.VerificationError as error:
    if error.check != "for release":
        raise
    print(error)

# %% [markdown]
# ## A look at it
#
# From here on we are readers of the release. Rows are flows from home block to work block, as in LODES;
# here they are added up to the largest flows between tracts. Jobs of people from other states are in files of
# their own (`aux`); each of these states is one area, an *external zone*, whose code ends in 9s.

# %%
opened = pipelines.open_release(release.public)
flows = opened.flows(plan.level, plan.level)
flows.nlargest(8, "S000").set_axis(["work", "home", "jobs"], axis=1)

# %%
zones = opened.geography.external_zones
outside = flows.assign(
    zone=[next((z for z in zones if h == z.ljust(len(h), "9")), "") for h in flows["home"]]
)
outside[outside["zone"] != ""].groupby("zone")["S000"].sum().rename("jobs of people from there").to_frame()

# %%
opened.figure(folder / "commutes.png")
Image(folder / "commutes.png", width=760)

# %% [markdown]
# `odsynth map` writes an interactive map, `odsynth export` other programs' formats, `odsynth publish`
# copies the public folder, and nothing but it, to where readers find it.
