"""Recommending one of the combinations that were tried: in full, and with the reasons."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import pandas as pd

import synth
from geo_data.arguments import check_type
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.sweep import AUTO, PLAN_SETTINGS, changed, strata_of
from pipelines.plans.accuracy import carries

# Losses are measured on a few draws of proxy truth: where they are less than this apart, relatively, other
# draws may turn the order around.
_TIE = 0.01

_RULE_SETTING = {"distance": "distance_miles", "share": "share", "units": "cell_level"}  # the others have T


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
        yield line + ("." if carries(loss, model) else ". The release will not carry this table.")


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
    asked = {*tried["mechanism"]}
    if missing := [] if AUTO in asked else sorted(synth.MECHANISMS.keys() - asked):
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
