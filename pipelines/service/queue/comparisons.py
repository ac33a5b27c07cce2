"""Plans beside each other, as `odsynth tune` tries them: from public inputs, at no price.

What is varied is kept with the run as a `Variation`, what was found as a document with a row for each
combination. A row names its settings in full, so that its plan can be asked for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipelines.config.loading import ReleaseConfig
from pipelines.config.rules import problems_across
from pipelines.config.sections import WorkloadTable
from pipelines.config.toml import ConfigError
from pipelines.planning.sweep import Sweep, changed, draw_frontier, recommend, tune
from pipelines.plans.measured import table_in_words
from pipelines.storage.progress import Progress

FRONTIER = "frontier.png"
MOST = 24
"""Combinations of a comparison; each takes about as long as a plan."""

_MEASURES = (
    "total_variation",
    "block_variation",
    "mean_commute_error",
    "destination_error",
    "noise_share",
    "objective",
)
_CHOSEN = ("mechanism", "tables", "coarsening", "pool_level", "pool_by")


_Name = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]


class VariedTable(BaseModel):
    """A table that a release is for: as a `[[workload]]` of a configuration."""

    model_config = ConfigDict(extra="forbid")

    home: _Name
    work: _Name | None = None
    attributes: Annotated[tuple[_Name, ...], Field(max_length=20)] = ()
    weight: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")] = "1"


class Variation(BaseModel):
    """What is varied; of what is left empty, each combination has what the configuration says.

    Attributes
    ----------
    epsilon, delta : tuple of str
        Exact numbers as text.
    mechanism : tuple of str
        Names, or "auto" for the planner's choice.
    workload : tuple of tuple of VariedTable
        Tables that a release may be for; empty for those of the configuration.
    """

    epsilon: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    mechanism: tuple[str, ...] = ()
    workload: tuple[tuple[VariedTable, ...], ...] = ()

    @property
    def workloads(self) -> tuple[tuple[VariedTable, ...], ...]:
        """Those that are tried, the configuration's first."""
        return self.workload or ((),)

    @property
    def sweep(self) -> Sweep:
        """The rest, as `tune` takes it."""
        return Sweep(epsilon=self.epsilon, delta=self.delta, mechanism=self.mechanism)

    def configurations(self, config: ReleaseConfig) -> list[ReleaseConfig]:
        """Return the configuration with every combination."""
        swept = (self.sweep.configurations(with_workload(config, tables)) for tables in self.workloads)
        return [combination for combinations in swept for combination in combinations]


def comparison_folder(outs: Path, run: int) -> Path:
    """Return where the picture of a comparison lies."""
    return outs / f"run-{run:06}-comparison"


def with_workload(config: ReleaseConfig, tables: Sequence[VariedTable]) -> ReleaseConfig:
    """Return the configuration with other tables that the release is for; as it is if there are none."""
    if not tables:
        return config
    try:
        workload = tuple(WorkloadTable.model_validate(table.model_dump(mode="json")) for table in tables)
    except ValidationError as error:
        raise ConfigError(f"workload: {problem['msg']}" for problem in error.errors()) from None
    result = config.model_copy(update={"workload": workload})
    if problems := [*problems_across(dict(result))]:
        raise ConfigError(problems)
    return result


def compare(
    config: ReleaseConfig, varied_values: Mapping[str, Any], folder: Path, progress: Progress
) -> dict[str, Any]:
    """Try every combination, and draw the frontier."""
    variation = Variation.model_validate(varied_values)
    total, frames = len(variation.configurations(config)), []
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    progress(0, total)
    per_workload = total // len(variation.workloads)
    for number, tables in enumerate(variation.workloads):
        tried = partial(_of_all, progress, number * per_workload, total)
        frame = tune(with_workload(config, tables), variation.sweep, progress=tried)
        frames.append(frame.assign(workload=workload_words(tables), number=number))
    results = pd.concat(frames, ignore_index=True)
    draw_frontier(results, config.release.name, folder / FRONTIER)
    configured = [frame for frame, tables in zip(frames, variation.workloads, strict=True) if not tables]
    recommended = (
        recommend(configured[0].drop(columns=["workload", "number"]), config) if configured else None
    )
    rows = [_row({str(name): value for name, value in row.items()}) for row in results.to_dict("records")]
    return {"rows": rows, "recommended": recommended}


def _of_all(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def workload_words(tables: Sequence[VariedTable]) -> str:
    """Return what a workload is called."""
    names = (
        table_in_words(table.home, table.work, table.attributes)
        + (f" (weight {table.weight})" if table.weight != "1" else "")
        for table in tables
    )
    return "; ".join(names) or "as configured"


def varied(config: ReleaseConfig, variation: Variation, row: Mapping[str, Any]) -> ReleaseConfig:
    """Return the configuration with the settings of a row of a comparison."""
    changed_workload = with_workload(config, variation.workloads[row["number"]])
    # What was not varied stays as it is written, which a row may quote with fewer digits.
    names = (name for name in ("epsilon", "delta", "mechanism") if getattr(variation, name))
    return changed(changed_workload, {name: row[name] for name in names})


def _row(tried: Mapping[str, Any]) -> dict[str, Any]:
    """Return a combination as it is kept: numbers that are none are None."""
    certified = bool(tried["certified"])
    row = {name: tried[name] for name in ("epsilon", "delta", "mechanism", "workload", "number")}
    row["certified"] = certified
    if not certified:
        return row
    row |= {f"chosen_{name}": str(tried[f"chosen_{name}"]) for name in _CHOSEN}
    row |= {name: _number(tried[name]) for name in _MEASURES}
    names = [str(name).removeprefix("loss: ") for name in tried if str(name).startswith("loss: ")]
    losses = [
        (name, _number(tried[f"loss: {name}"]), _number(tried[f"public model: {name}"])) for name in names
    ]
    row["tables"] = [
        {"table": name, "loss": loss, "public_model": model}
        for name, loss, model in losses
        if loss is not None
    ]
    return json.loads(json.dumps(row))


def _number(value: Any) -> float | None:
    return None if value != value else float(value)
