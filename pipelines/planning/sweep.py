"""Comparing plans on public proxy truth: the privacy-utility frontier, and the plan that is recommended."""

from __future__ import annotations

import itertools
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from dask.base import compute
from dask.callbacks import Callback
from dask.delayed import delayed
from pydantic import ValidationError

import geo_data
import synth
from geo_data.arguments import PathLike, check_type, path_of
from geo_data.pools import order_records
from pipelines.config.loading import ReleaseConfig
from pipelines.config.problems import describe
from pipelines.config.rules import problems_across
from pipelines.config.sections import PlanSettings, PrivacySettings
from pipelines.config.toml import ConfigError
from pipelines.planning.guards import refuse_as_public
from pipelines.planning.public_inputs import (
    PublicInputs,
    check_pool_by,
    public_inputs_for,
    read_geography,
    read_policy,
    read_public_inputs,
)
from pipelines.planning.search import make_plan
from pipelines.planning.simulation import simulate_utility
from pipelines.plans.accuracy import improves_on_model
from pipelines.storage.progress import Progress

AUTO = "auto"
"""In a sweep: what the planner chooses."""

_NONE = "none"  # of strata: every pool holds all jobs of its place; of levels of cells: cells are no units

PLAN_SETTINGS = ("coarsening", "split_threshold", "pool_by", "pool_level", "pool_below", "retention_min")
"""Settings of [plan] that a sweep varies."""

# Losses are measured on a few draws of proxy truth: where they are less than this apart, relatively, other
# draws may turn the order around.
_TIE = 0.01

_RULE_SETTING = {"distance": "distance_miles", "share": "share", "units": "cell_level"}  # the others have T

_CHOSEN = sorted(name for name, mechanism in synth.MECHANISMS.items() if mechanism.chosen)
_NOT_EVERYWHERE = ("prior", "retention_min")  # settings of [plan] that not every mechanism has

# Colours that the colour-blind tell apart (Okabe and Ito), each with a marker of its own.
_LINES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "marker": marker}
    for colour, marker in zip(
        ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"), "os^vDPX", strict=True
    )
)


@dataclass(frozen=True)
class Sweep:
    """Values to be combined, each a text or a sequence of texts; none keeps what the configuration says.

    Attributes
    ----------
    epsilon, delta : tuple of str
        Exact numbers as text.
    mechanism : tuple of str
        Of `synth.MECHANISMS`, or "auto" for the planner's choice. What the configuration says of a setting
        that one of them does not have is left out for that one.
    coarsening : tuple of str
        Rules of `geo_data.coarsening`, or "auto" for the planner's choice.
    split_threshold, pool_below : tuple of str
        Numbers, or "auto" for the planner's choice.
    pool_by : tuple of str
        Attributes, those of one candidate joined by "+", "none", or "auto".
    pool_level : tuple of str
        Levels, or "auto".
    retention_min : tuple of str
    """

    epsilon: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    mechanism: tuple[str, ...] = ()
    coarsening: tuple[str, ...] = ()
    split_threshold: tuple[str, ...] = ()
    pool_by: tuple[str, ...] = ()
    pool_level: tuple[str, ...] = ()
    pool_below: tuple[str, ...] = ()
    retention_min: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            values = (
                (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
            )
            if not all(isinstance(name, str) for name in values) or (not values and value not in ((), [])):
                raise TypeError(f'{name}: texts are expected, such as ("2", "4"), not {value!r}')
            object.__setattr__(self, name, values)

    def configurations(self, config: ReleaseConfig) -> list[ReleaseConfig]:
        """Return the configuration with every combination of the values.

        Raises
        ------
        ConfigError
            If a value cannot be used.
        """
        names = [name for name, values in vars(self).items() if values]
        configurations = []
        for combination in itertools.product(*(getattr(self, name) for name in names)):
            configurations.append(changed(config, dict(zip(names, combination, strict=True))))
        return configurations


def changed(config: ReleaseConfig, changes: Mapping[str, str]) -> ReleaseConfig:
    """Return the configuration with one combination of a sweep's values, by the names of `Sweep`."""
    privacy: dict[str, Any] = config.privacy.model_dump(mode="json")  # guarantee and policy are kept
    release, plan = config.release, config.plan.model_dump(mode="json")
    if changes.get("mechanism") == AUTO:
        release = release.model_copy(update={"mechanism": None})
    if mechanism := synth.MECHANISMS.get(changes.get("mechanism", "")):
        release = release.model_copy(update={"mechanism": mechanism.name})
        plan = {name: plan[name] for name in plan if name not in {*_NOT_EVERYWHERE} - mechanism.settings}
    if changes.get("coarsening", "units") != "units":
        plan["cell_level"] = None
    for name, value in changes.items():
        if name in privacy:
            privacy[name] = value
        elif name == "mechanism":
            if mechanism is None and value != AUTO:
                raise ConfigError(
                    f"mechanism: {value!r} cannot be tried; write one of "
                    f"{', '.join(sorted(synth.MECHANISMS))}"
                )
        elif name == "pool_by":
            plan[name] = None if value == AUTO else strata_of(value)
        else:
            plan[name] = (
                None if value == AUTO else int(value) if name == "pool_below" and value.isdecimal() else value
            )
    if plan["pool_by"] is not None:
        plan["pool_by"] = tuple(plan["pool_by"])
    try:
        privacy_settings, settings = (
            PrivacySettings.model_validate(privacy),
            PlanSettings.model_validate(plan),
        )
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_url=False):
            if problem["loc"]:
                rule = f"{problem['loc'][-1]}: {problem['input']!r} cannot be tried"
                lines.append(
                    f'{rule}; write a value as in a configuration, or "{AUTO}" for the planner\'s choice'
                )
            else:
                lines += describe({**problem, "loc": ("plan",)}, {})
        raise ConfigError(lines) from None
    result = config.model_copy(update={"release": release, "privacy": privacy_settings, "plan": settings})
    # Not every mechanism takes the settings of a table of workplaces; they are as they were.
    if problems := [line for line in problems_across(dict(result)) if not line.startswith("workplaces.")]:
        raise ConfigError(problems)
    return result


def strata_of(value: str) -> list[str]:
    """Return the attributes that a value of `Sweep.pool_by` names."""
    return [] if value == _NONE else value.split("+")


def every_mechanism(config: ReleaseConfig) -> Sweep:
    """Return a sweep over the mechanisms that a planner may choose, each with strata and without.

    Without strata, and with those that the planner chooses; only the latter where `plan.pool_by` is set. A
    mechanism that cannot be had with the other settings is not tried.
    """
    check_type(config, ReleaseConfig, "config", "load_config")
    usable = []
    for name in _CHOSEN:
        with suppress(ConfigError):
            changed(config, {"mechanism": name})
            usable.append(name)
    has = config.jobs.format == "lodes" or config.jobs.attributes
    return Sweep(
        mechanism=tuple(usable), pool_by=(_NONE, AUTO) if has and config.plan.pool_by is None else ()
    )


def tune(
    config: ReleaseConfig,
    sweep: Sweep,
    *,
    proxy_truth: PathLike | None = None,
    seeds: Sequence[int] = (0,),
    progress: Progress | None = None,
    out: PathLike | None = None,
) -> pd.DataFrame:
    """Try every combination of a sweep on public homes.

    Parameters
    ----------
    config : ReleaseConfig
    sweep : Sweep
    proxy_truth : str or path, optional
        OD file of an earlier release in the LODES form: its jobs are planned for and its homes tried,
        instead of slots of this release and homes drawn from the public model.
    seeds : sequence of int
        Trials of each combination; measures are their means.
    progress : Progress, optional
        Told how many combinations were tried, and how many there are.
    out : str or path, optional
        Folder, made if need be, for the measures (tune.parquet) and the figure (frontier.png).

    Returns
    -------
    DataFrame
        One row a combination: its settings, what was chosen, pools, cells, and the measures of
        `SimulatedUtility.columns`. Combinations that the budget cannot pay have no measures.

    Raises
    ------
    ConfigError
        If a value of the sweep cannot be used, or a public input or the proxy truth is a confidential file;
        if there is proxy truth, and the policy makes attributes secret.
    geo_data.InputError
        If a public input is unusable.
    """
    check_type(config, ReleaseConfig, "config", "load_config")
    check_type(sweep, Sweep, "sweep", "Sweep(...) or every_mechanism")
    proxy_truth = None if proxy_truth is None else path_of(proxy_truth, "proxy_truth")
    out = None if out is None else path_of(out, "out")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # before hours are spent
    candidates = sweep.configurations(config)
    if proxy_truth is not None and config.secret:
        raise ConfigError(
            "privacy.protects: an earlier release does not tell the home and the attributes of the same job; "
            "leave the proxy truth out"
        )
    if proxy_truth is not None and config.protects_records:
        raise ConfigError(
            'privacy.protects = "record": an earlier release tells the homes of its own jobs, not of the '
            "jobs "
            "that are expected; leave the proxy truth out"
        )
    refuse_as_public(config, proxy_truth)
    if proxy_truth is None:
        inputs, earlier = read_public_inputs(config), None
    else:
        geography = read_geography(config)
        earlier = geo_data.LodesJobs(proxy_truth, geography)
        inputs = public_inputs_for(config, geography, earlier.slots(read_policy(config, geography)))
    for candidate in candidates:
        check_pool_by(candidate, inputs.slots)
    records = with_every_attribute(earlier, [*inputs.slots.attributes]) if earlier else None
    task = delayed(_try, pure=False, traverse=False)
    numbers = itertools.count(1)
    tried = Callback(posttask=lambda *_: progress(next(numbers), len(candidates)) if progress else None)
    with tried:
        rows = compute(
            *(task(candidate, inputs, records, seeds) for candidate in candidates),
            scheduler="threads",
        )
    results = pd.DataFrame(list(rows))
    if out is not None:
        results.to_parquet(out / "tune.parquet", index=False)
        draw_frontier(results, config.release.name, out / "frontier.png")
    return results


def with_every_attribute(jobs: geo_data.LodesJobs, names: Sequence[str]) -> geo_data.JobRecords:
    """Return the jobs with all attributes, of which the file counts each by itself for a pair of blocks.

    Which of the jobs of a pair has which combination is arbitrary, and counts in no table of the workload.
    """
    attributes = {}
    read = jobs.records()
    order = np.lexsort((read.home, read.work))
    work, home = read.work[order], read.home[order]
    for name in names:
        read = jobs.records((name,))
        attributes[name] = read.attributes[name][np.lexsort((read.home, read.work))]
    return geo_data.JobRecords(work, home, attributes)


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
        "mechanism": config.release.mechanism or AUTO,
        "coarsening": plan.coarsening or AUTO,
        "split_threshold": AUTO if plan.split_threshold is None else str(plan.split_threshold),
        "pool_by": AUTO if plan.pool_by is None else "+".join(plan.pool_by) or _NONE,
        "pool_level": plan.pool_level or AUTO,
        "pool_below": AUTO if plan.pool_below is None else str(plan.pool_below),
        "retention_min": plan.model_dump(mode="json")["retention_min"],  # exact: "1/3" is no decimal
    }
    try:
        made = make_plan(config, inputs)
    except synth.BudgetTooSmallError:
        return row | {"certified": False}
    homes, attributes = None, None
    if records is not None:
        order = order_records(made.pools, made.geography, records)
        homes = records.home[order]
        attributes = {name: codes[order] for name, codes in records.attributes.items()}
    trials = pd.DataFrame(
        [
            simulate_utility(made, inputs.model, homes, attributes=attributes, seed=seed).columns()
            for seed in seeds
        ]
    )
    return row | {
        "certified": True,
        "chosen_mechanism": made.numeric.mechanism,
        "chosen_tables": "; ".join(f"{words}: {share}" for words, share in made.tables),
        "chosen_coarsening": made.coarsening,
        "chosen_cell_level": made.choices.cell_level or _NONE,
        "chosen_pool_level": made.choices.pool_level,
        "chosen_pool_below": made.choices.pool_below,
        "chosen_pool_by": "+".join(made.choices.pool_by) or _NONE,
        "pools": made.pools.n.size,
        "cells_of_a_job": float(np.average(made.numeric.k, weights=made.pools.n)),
        **{str(name): value for name, value in trials.mean().items()},
    }


def draw_frontier(results: pd.DataFrame, title: str, path: PathLike) -> None:
    """Draw utility against epsilon, a line for every other setting, as a PNG.

    Parameters
    ----------
    results : DataFrame
        From `tune`; several of them with a column ``workload`` each, which tells them apart.
    title : str
    path : str or path
    """
    path = path_of(path, "path")
    from matplotlib.figure import Figure  # takes its time

    done = results[results["certified"]].copy()
    done["x"] = [float(Fraction(value)) for value in done["epsilon"]]
    settings = [name for name in ("delta", "mechanism", "workload", *PLAN_SETTINGS) if name in results]
    varied = [name for name in settings if len(set(results[name])) > 1]
    panels = {
        "total_variation": "total variation of flows",
        "block_variation": "the same, to work blocks",
        "destination_error": "error of a large destination's\nmean commute (median)",
    }
    fig = Figure(figsize=(13, 4.4), layout="constrained")
    axes = fig.subplots(1, len(panels))
    # One group where nothing varies, none where nothing is certified: the last key is the same for all.
    groups = done.groupby([*varied, "certified"], sort=False)
    for (key, group), style in zip(groups, itertools.cycle(_LINES)):
        label = (
            ", ".join(f"{name} {value}" for name, value in zip(varied, key, strict=False)) or "as configured"
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


def recommend(results: pd.DataFrame, config: ReleaseConfig) -> str:
    """Return the combination that loses least at the requested privacy, of all mechanisms that were tried.

    The loss is what the planner minimises: the weighted mean over the tables of the workload.

    Parameters
    ----------
    results : DataFrame
        From `tune`.
    config : ReleaseConfig
        That the combinations are variations of.

    Returns
    -------
    str
        TOML: the mechanism for [release]; [privacy] and [plan], each to take the place of the whole table.
        With the rest of the configuration it gives the plan that was tried. Nothing is left to a default but
        what the planner has to choose, which a comment names. Comments above say why. Only a comment where
        no combination has the requested epsilon and delta.
    """
    check_type(results, pd.DataFrame, "results", "tune")
    check_type(config, ReleaseConfig, "config", "load_config")
    price = f"epsilon {synth.decimal_up(config.privacy.epsilon)} and delta "
    price += synth.decimal_up(config.privacy.delta)
    tried = results
    for name in ("epsilon", "delta"):
        tried = tried[tried[name] == synth.decimal_up(getattr(config.privacy, name))]
    if tried.empty:
        return f"# nothing was tried at {price}, which the configuration has: add them to the values"
    done = tried[tried["certified"]]
    if done.empty:
        return f"# no combination was certified at {price}, which the configuration has"
    done = done.assign(loss=done["objective"]).sort_values("loss", kind="stable")
    words = [f"Recommended at {price}: {_name(done.iloc[0], tried)}.", *_reasons(done, tried)]
    if tables := done.iloc[0]["chosen_tables"]:
        words.append(f"Measured, each with its share of epsilon: {tables}.")
    words += [*_tables_lost(done.iloc[0]), *_not_compared(results, tried)]
    comment = "\n".join(_comment(line) for line in words)
    return f"{comment}\n\n{_tables(done.iloc[0], config)}"


def _reasons(done: pd.DataFrame, tried: pd.DataFrame) -> Iterator[str]:
    best, others = done.iloc[0], done.iloc[1:]
    yield "The loss of each is the weighted mean over the tables of the workload, on proxy truth."
    firsts = done.drop_duplicates("chosen_mechanism")  # the best of each, as the losses rise
    if len(firsts) > 1:
        for _, row in firsts.iterrows():
            loss = f"Loss {row['loss']:.4f}{_behind(row, best)}"
            yield f"{loss}: {_name(row, tried)}, the best of its mechanism."
        for table in _named(done):
            measure = f"loss: {table}"
            for _, row in firsts.iloc[1:].iterrows():
                if row[measure] < best[measure] * (1 - _TIE):
                    yield (
                        f"But for {table} {row['chosen_mechanism']} loses less there: {row[measure]:.4f}, "
                        f"against {best[measure]:.4f}."
                    )
        yield "Mechanisms differ in what they promise, too: docs/choosing.md."
    elif others.empty:
        yield f"Its loss is {best['loss']:.4f}. Nothing else was certified at this price."
    else:
        yield f"Its loss is {best['loss']:.4f}. Next: {_name(others.iloc[0], tried)}, loss " + (
            f"{others.iloc[0]['loss']:.4f}{_behind(others.iloc[0], best)}."
        )
    ties = [row for _, row in others.iterrows() if _ties(row, best)]
    for row in ties:
        yield (
            f"A tie, as other draws of proxy truth may order these anew: {_name(row, tried)}, loss "
            f"{row['loss']:.4f}."
        )


def _named(results: pd.DataFrame) -> list[str]:
    """Return the tables of the workload."""
    return [str(name).removeprefix("loss: ") for name in results if str(name).startswith("loss: ")]


def _tables_lost(best: pd.Series) -> Iterator[str]:
    """Say what the recommended combination loses in each table, beside the baselines."""
    for table in _named(best.to_frame().T):
        loss, model, none = (best[f"{kind}: {table}"] for kind in ("loss", "public model", "no privacy"))
        line = f"{table}: {loss:.4f}; public model alone {model:.4f}, no privacy {none:.4f}"
        yield line + ("." if improves_on_model(loss, model) else ". The release will not carry this table.")


def _ties(row: Any, best: Any) -> bool:
    return bool(row["loss"] <= best["loss"] * (1 + _TIE))


def _behind(row: Any, best: Any) -> str:
    if row.name == best.name:
        return ""
    if f"{row['loss']:.4f}" == f"{best['loss']:.4f}":
        return ", as much as the recommended one"
    if best["loss"] == 0:
        return ", where the recommended one loses nothing"
    more = row["loss"] / best["loss"] - 1
    return f", {'less than 0.1%' if more < 0.001 else f'{more:.1%}'} more than the recommended one"


def _not_compared(results: pd.DataFrame, tried: pd.DataFrame) -> Iterator[str]:
    refused = tried[~tried["certified"].astype(bool)]
    for _, row in refused.iterrows():
        yield f"Not compared, as it cannot be certified at this price: {_name(row, tried)}."
    mechanisms = {*tried["mechanism"]}
    if missing := [] if AUTO in mechanisms else sorted({*_CHOSEN} - mechanisms):
        yield f"Not compared, as not tried at this price: mechanism {', '.join(missing)}."
    if elsewhere := len(results) - len(tried):
        yield f"Not compared, as at another epsilon or delta: {elsewhere} combination{'s'[: elsewhere > 1]}."
    if fixed := [name for name in PLAN_SETTINGS if len(set(tried[name])) == 1]:
        yield f"Not varied: {', '.join(fixed)}."


def _name(row: Any, tried: pd.DataFrame) -> str:
    """Return what tells a combination from the others."""
    varied = [name for name in PLAN_SETTINGS if len(set(tried[name])) > 1]
    mechanism = row["chosen_mechanism"] if row["certified"] else row["mechanism"]
    return ", ".join([f"mechanism {mechanism}", *(f"{name} {row[name]}" for name in varied)])


def _comment(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def _tables(best: Any, config: ReleaseConfig) -> str:
    """Write the mechanism, the price and the plan, with nothing left to a default that can be named."""
    mechanism = synth.MECHANISMS[best["chosen_mechanism"]]
    chosen = changed(config, {"mechanism": mechanism.name, **{name: best[name] for name in PLAN_SETTINGS}})
    plan = chosen.plan.model_dump(mode="json")
    # What the planner chose of these can be written down; T, chosen for every size of pools, cannot.
    plan |= {"pool_level": best["chosen_pool_level"], "pool_below": int(best["chosen_pool_below"])}
    plan |= {"coarsening": best["chosen_coarsening"], "cell_level": best["chosen_cell_level"]}
    plan["pool_by"] = strata_of(best["chosen_pool_by"])
    rule = plan["coarsening"]
    keys = ["coarsening", _RULE_SETTING.get(rule, "split_threshold")]
    keys += ["pool_by", "pool_level", "pool_below", "retention_min"]
    keys += ["prior"] if "prior" in mechanism.settings else []
    left_out = {
        "split_threshold": "chosen by the planner for each size of pools",
        "prior": "the smallest that epsilon and delta allow",
    }
    lines = [
        "[release]  # this line, beside the others there",
        f"mechanism = {json.dumps(mechanism.name)}",
        "",
        "[privacy]  # in place of the whole table",
        *_lines(chosen.privacy.model_dump(mode="json")),
        "",
        "[plan]  # in place of the whole table",
    ]
    for key in keys:
        # Texts, whole numbers and lists of texts are written alike in JSON and TOML.
        if plan[key] is None:
            lines.append(f"# {key}: left out, {left_out[key]}")
        else:
            lines += _lines({key: plan[key]})
    return "\n".join(lines)


def _lines(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items()]


def _toml(value: Any) -> str:
    """Return a value in TOML: a table in one line, all else as in JSON."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inside = (f"{json.dumps(key, ensure_ascii=False)} = {_toml(of)}" for key, of in value.items())
    return f"{{ {', '.join(inside)} }}"
