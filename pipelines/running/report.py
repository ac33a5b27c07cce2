"""What `odsynth plan` writes: the plan, what it costs and is expected to lose, and a picture of its cells."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import geo_data
import synth
from pipelines.config.loading import ConfigError
from pipelines.planning.plan import ReleasePlan
from pipelines.planning.simulation import Forecast, forecast
from pipelines.planning.storage import save_plan
from pipelines.release.names import NAME_FILE, Names, write_names
from pipelines.running.cell_figure import draw_cells
from pipelines.running.reviewed_plan import PLAN_FOLDER, PLAN_NUMBERS
from pipelines.running.summary import plan_summary
from pipelines.storage.checksums import sha256_of

__all__ = ["PlanReport", "report_plan", "run_cost", "write_plan_report"]

_REPORT, _FIGURE = "plan.txt", "cells.png"


@dataclass(frozen=True, eq=False)
class PlanReport:
    """A plan with its cost and forecast.

    Attributes
    ----------
    release : ReleasePlan
    guarantee : synth.Guarantee
    forecast : Forecast
        On pseudo-truth: expected error under the public model.
    run_seconds : float
        Expected processor time of a run that plans itself, on this machine.
    memory_gb : float
        Expected peak memory of a run.
    """

    release: ReleasePlan
    guarantee: synth.Guarantee
    forecast: Forecast
    run_seconds: float
    memory_gb: float

    def text(self) -> str:
        """Return the report for people."""
        f = self.forecast
        level, many = self.release.level, f.destination_error == f.destination_error
        lines = [
            plan_summary(self.release, self.guarantee),
            f"Expected    (tried on {f.jobs:,} jobs drawn from the public model; no confidential data)",
            f"  flows     total variation {f.total_variation:.3f} between {level} units, "
            f"{f.block_variation:.3f} from {level} units to work blocks",
            f"  commute   mean off by {f.mean_commute_error:+.1%}"
            + (f"; a large destination's by {f.destination_error:.1%} (median)" if many else ""),
            f"  run       about {self.run_seconds:.0f} s and {self.memory_gb:.1f} GB on this machine, "
            "planning included",
        ]
        return "\n".join(lines)


def report_plan(release: ReleasePlan, guarantee: synth.Guarantee, model: geo_data.PublicModel) -> PlanReport:
    """Try a plan on pseudo-truth.

    Parameters
    ----------
    release : ReleasePlan
    guarantee : synth.Guarantee
        Of the plan.
    model : geo_data.PublicModel
        That the plan was made from.

    Returns
    -------
    PlanReport
    """
    expected = forecast(release, model)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    cost = run_cost(time.process_time(), kilobytes / 1e6, release.plan.pools.n_records)
    return PlanReport(release, guarantee, expected, *cost)


def run_cost(seconds: float, gigabytes: float, jobs: int) -> tuple[float, float]:
    """Return the expected processor time and peak memory of a run that plans itself.

    Parameters
    ----------
    seconds, gigabytes : float
        What this process has used to plan, as a run does again, and to try the plan.
    jobs : int

    Returns
    -------
    tuple of float
        Seconds and gigabytes: with what reading, sorting, drawing, writing and checking the jobs take beyond,
        as measured on Rhode Island and on the demo region. Jobs are drawn in batches, so memory does not grow
        with them.
    """
    return seconds + 1 + 5e-6 * jobs, gigabytes + 0.2


def write_plan_report(report: PlanReport, out: Path, names: Mapping[str, Names] | None = None) -> str:
    """Write the plan, its report and the picture of its cells; return the hash of the plan.

    Parameters
    ----------
    report : PlanReport
    out : Path
        Folder; an earlier report there is replaced, anything else is refused, also beside one.

    names : mapping of str to ndarray of str objects, optional
        Names of the units of levels, for a run with this plan (`PublicInputs.names`).

    Returns
    -------
    str
        SHA-256 of plan.json, hexadecimal; it is in the report too.

    Raises
    ------
    ConfigError
        If the folder exists and is no earlier report.
    """
    if out.exists() and not _is_report(out):
        rule = "the folder exists and is not an earlier plan, or more than that"
        raise ConfigError([f"{out}: {rule}. Choose another with --out"])
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
    try:
        digest = save_plan(report.release, staging / PLAN_FOLDER)
        write_names(names or {}, report.release.geography, staging)
        (staging / _REPORT).write_text(f"{report.text()}\nPlan hash   {digest}\n", encoding="utf-8")
        numbers = {
            "plan_sha256": digest,
            "names_sha256": sha256_of(named) if (named := staging / NAME_FILE).exists() else None,
            "epsilon": synth.decimal_up(report.guarantee.epsilon),
            "delta": synth.decimal_up(report.guarantee.delta),
            **report.forecast.as_dict(),
            "pool_level": report.release.choices.pool_level,
            "pool_below": report.release.choices.pool_below,
            "thresholds": report.release.choices.thresholds,
        }
        (staging / PLAN_NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        draw_cells(report.release, staging / _FIGURE)
        staging.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        staging.rename(out)
        return digest
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _is_report(folder: Path) -> bool:
    """Whether a folder holds a report and nothing else, which would be lost with it."""
    if not (folder / PLAN_NUMBERS).is_file():
        return False
    ours = {PLAN_FOLDER, PLAN_NUMBERS, NAME_FILE, _REPORT, _FIGURE}
    return {path.name for path in folder.iterdir()} <= ours
