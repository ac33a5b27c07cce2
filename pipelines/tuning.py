"""Comparing plans on public pseudo-truth: the privacy-utility frontier, and a recommendation."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dask.base import compute
from dask.delayed import delayed
from dask.diagnostics.progress import ProgressBar
from numpy.typing import NDArray
from pydantic import ValidationError

import geo_data
import synth
from pipelines._config_problems import problems_across
from pipelines.config import ConfigError, PlanSettings, Privacy, ReleaseConfig
from pipelines.forecast import forecast
from pipelines.planning import make_plan
from pipelines.public_inputs import PublicInputs, public_inputs_for, read_geography, read_public_inputs

__all__ = ["Sweep", "draw_frontier", "recommend", "tune"]

AUTO = "auto"
"""In a sweep: what the planner chooses."""

_PLAN = ("coarsening", "split_threshold", "pool_below", "retention_min")

# Colours that the colour-blind tell apart (Okabe and Ito), each with a marker of its own.
_LINES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "marker": marker}
    for colour, marker in zip(
        ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"), "os^vDPX", strict=True
    )
)


@dataclass(frozen=True)
class Sweep:
    """Values to be combined; an empty tuple keeps what the configuration says.

    Attributes
    ----------
    epsilon, delta : tuple of str
        Exact numbers as text.
    coarsening : tuple of str
        Rules of `geo_data.coarsening`.
    split_threshold, pool_below : tuple of str
        Numbers, or "auto" for the planner's choice.
    retention_min : tuple of str
    """

    epsilon: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    coarsening: tuple[str, ...] = ()
    split_threshold: tuple[str, ...] = ()
    pool_below: tuple[str, ...] = ()
    retention_min: tuple[str, ...] = ()

    def configurations(self, config: ReleaseConfig) -> list[ReleaseConfig]:
        """Return the configuration with every combination of the values.

        Raises
        ------
        ConfigError
            If a value cannot be used.
        """
        names = [name for name, values in vars(self).items() if values]
        found = []
        for combination in itertools.product(*(getattr(self, name) for name in names)):
            changes: dict[str, Any] = dict(zip(names, combination, strict=True))
            found.append(_changed(config, changes))
        return found


def _changed(config: ReleaseConfig, changes: dict[str, Any]) -> ReleaseConfig:
    privacy = {"epsilon": str(config.privacy.epsilon), "delta": str(config.privacy.delta)}
    privacy["guarantee"] = config.privacy.guarantee
    plan = config.plan.model_dump(mode="json")
    for name, value in changes.items():
        if name in privacy:
            privacy[name] = value
        else:
            plan[name] = (
                None if value == AUTO else int(value) if name == "pool_below" and value.isdigit() else value
            )
    plan["pool_by"] = tuple(plan["pool_by"])
    try:
        asked, settings = Privacy.model_validate(privacy), PlanSettings.model_validate(plan)
    except ValidationError as errors:
        raise ConfigError(
            f"{error['loc'][-1]}: {error['input']!r} cannot be tried; write a value as in a configuration, "
            f'or "{AUTO}" for the planner\'s choice'
            for error in errors.errors(include_url=False)
        ) from None
    chosen = settings.model_dump(mode="json", exclude_none=True)
    if problems := [*problems_across({"release": {"mechanism": config.release.mechanism}, "plan": chosen})]:
        raise ConfigError(problems)
    return config.model_copy(update={"privacy": asked, "plan": settings})


def tune(
    config: ReleaseConfig,
    sweep: Sweep,
    *,
    pseudo_truth: Path | None = None,
    seeds: Sequence[int] = (0,),
    progress: bool = False,
) -> pd.DataFrame:
    """Try every combination of a sweep on public homes.

    Parameters
    ----------
    config : ReleaseConfig
    sweep : Sweep
    pseudo_truth : Path, optional
        OD file of an earlier release in the LODES form: its jobs are planned for and its homes tried,
        instead of slots of this release and homes drawn from the public model.
    seeds : sequence of int
        Trials of each combination; measures are their means.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    DataFrame
        One row a combination: its settings, what was chosen, pools, cells, and the measures of `Forecast`.
        Combinations that the budget cannot pay have no measures.

    Raises
    ------
    ConfigError
        If a value of the sweep cannot be used.
    geo_data.InputError
        If a public input is unusable.
    """
    candidates = sweep.configurations(config)
    if pseudo_truth is None:
        inputs, records = read_public_inputs(config), None
    else:
        geography = read_geography(config)
        earlier = geo_data.LodesJobs(pseudo_truth, geography)
        inputs, records = public_inputs_for(config, geography, earlier.slots()), earlier.records()
    task = delayed(_try, pure=False, traverse=False)
    with ProgressBar(out=sys.stderr) if progress else nullcontext():
        rows = compute(
            *(task(candidate, inputs, records, seeds) for candidate in candidates), scheduler="threads"
        )
    return pd.DataFrame(list(rows))


def _try(
    config: ReleaseConfig,
    inputs: PublicInputs,
    records: geo_data.JobRecords | None,
    seeds: Sequence[int],
) -> dict[str, Any]:
    plan, privacy = config.plan, config.privacy
    row: dict[str, Any] = {
        "epsilon": synth.decimal_up(privacy.epsilon),
        "delta": synth.decimal_up(privacy.delta),
        "coarsening": plan.coarsening,
        "split_threshold": AUTO if plan.split_threshold is None else str(plan.split_threshold),
        "pool_below": AUTO if plan.pool_below is None else str(plan.pool_below),
        "retention_min": synth.decimal_up(plan.retention_min),
    }
    try:
        release = make_plan(config, inputs)
    except synth.BudgetTooSmallError:
        return row | {"certified": False}
    homes: NDArray[np.int32] | None = None
    if records is not None:
        homes = geo_data.group_records(release.pools, release.geography, records)
    trials = pd.DataFrame([forecast(release, inputs.model, homes, seed=seed).as_dict() for seed in seeds])
    return row | {
        "certified": True,
        "chosen_pool_level": release.choices.pool_level,
        "chosen_pool_below": release.choices.pool_below,
        "pools": release.pools.n.size,
        "cells_of_a_job": float(
            np.average(release.plan.domains.n_cells[release.plan.pools.domain], weights=release.pools.n)
        ),
        **{str(name): value for name, value in trials.mean().items()},
    }


def recommend(results: pd.DataFrame, config: ReleaseConfig) -> str:
    """Return the [plan] table of the combination with the smallest objective at the requested privacy.

    Parameters
    ----------
    results : DataFrame
        From `tune`.
    config : ReleaseConfig

    Returns
    -------
    str
        TOML, which takes the place of the whole table: what was not varied stands in it as configured. A
        comment where no combination has the requested epsilon and delta.
    """
    asked = results[results["certified"]]
    for name in ("epsilon", "delta"):
        asked = asked[asked[name] == synth.decimal_up(getattr(config.privacy, name))]
    if asked.empty:
        return "# no combination was certified at the epsilon and delta of the configuration"
    best: dict[Any, Any] = asked.sort_values("objective").iloc[0].to_dict()
    plan = _changed(config, {name: best[name] for name in _PLAN}).plan
    table = plan.model_dump(mode="json", exclude_defaults=True, exclude={"preset"})
    # Texts, whole numbers and lists of texts are written alike in JSON and TOML.
    return "\n".join(["[plan]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())])


def draw_frontier(results: pd.DataFrame, title: str, path: Path) -> None:
    """Draw utility against epsilon, a line for every other setting, as a PNG.

    Parameters
    ----------
    results : DataFrame
        From `tune`.
    title : str
    path : Path
    """
    from matplotlib.figure import Figure  # takes its time

    done = results[results["certified"]].copy()
    done["x"] = [float(Fraction(value)) for value in done["epsilon"]]
    varied = [name for name in ("delta", *_PLAN) if len(set(results[name])) > 1]
    panels = {
        "total_variation": "total variation of flows",
        "block_variation": "the same, to work blocks",
        "destination_error": "error of a large destination's\nmean commute (median)",
    }
    fig = Figure(figsize=(13, 4.4), layout="constrained")
    axes = fig.subplots(1, len(panels))
    groups = done.groupby(varied, sort=False) if varied else [((), done)]
    for (key, group), style in zip(groups, itertools.cycle(_LINES)):
        label = (
            ", ".join(f"{name} {value}" for name, value in zip(varied, key, strict=True)) or "as configured"
        )
        group = group.sort_values("x")
        for axis, name in zip(axes, panels, strict=True):
            axis.plot(group["x"], group[name], **style, ms=5, lw=1.5, label=label)
    for axis, text in zip(axes, panels.values(), strict=True):
        axis.set(xlabel="epsilon", ylabel=text, ylim=(0, None))
        ticks = sorted(set(done["x"]))
        if len(ticks) > 1:
            axis.set_xscale("log")
            axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
            axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    if len(done):
        lines, labels = axes[0].get_legend_handles_labels()
        fig.legend(lines, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    fig.suptitle(f"{title}: tried on public homes, no confidential data", fontsize=12)
    fig.savefig(path, dpi=110)
