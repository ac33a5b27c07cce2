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

import numpy as np

import geo_data
import synth
from pipelines.config.loading import ConfigError
from pipelines.planning.plan import ReleasePlan
from pipelines.planning.simulation import SimulatedUtility, simulate_utility
from pipelines.planning.storage import save_plan
from pipelines.release.names import NAME_FILE, Names, write_names
from pipelines.running.cell_figure import draw_cells
from pipelines.running.reviewed_plan import PLAN_FOLDER, PLAN_NUMBERS
from pipelines.storage.checksums import sha256_of

__all__ = ["PlanReport", "plan_summary", "report_plan", "run_cost", "write_plan_report"]

_REPORT, _FIGURE = "plan.txt", "cells.png"


@dataclass(frozen=True, eq=False)
class PlanReport:
    """A plan with its cost and simulated utility.

    Attributes
    ----------
    plan : ReleasePlan
    guarantee : synth.Guarantee
    utility : SimulatedUtility
        On proxy truth: expected error under the public model.
    run_seconds : float
        Expected processor time of a run that plans itself, on this machine.
    memory_gb : float
        Expected peak memory of a run.
    """

    plan: ReleasePlan
    guarantee: synth.Guarantee
    utility: SimulatedUtility
    run_seconds: float
    memory_gb: float

    def text(self) -> str:
        """Return the report for people."""
        f = self.utility
        level, many = self.plan.level, f.destination_error == f.destination_error
        lines = [
            plan_summary(self.plan, self.guarantee),
            f"Expected    (tried on {f.jobs:,} jobs drawn from the public model; no confidential data)",
            f"  flows     total variation {f.total_variation:.3f} between {level} units, "
            f"{f.block_variation:.3f} from {level} units to work blocks",
            f"  commute   mean off by {f.mean_commute_error:+.1%}"
            + (f"; a large destination's by {f.destination_error:.1%} (median)" if many else ""),
            f"  run       about {self.run_seconds:.0f} s and {self.memory_gb:.1f} GB on this machine, "
            "planning included",
        ]
        return "\n".join(lines)


def report_plan(plan: ReleasePlan, guarantee: synth.Guarantee, model: geo_data.PublicModel) -> PlanReport:
    """Try a plan on proxy truth.

    Parameters
    ----------
    plan : ReleasePlan
    guarantee : synth.Guarantee
        Of the plan.
    model : geo_data.PublicModel
        That the plan was made from.

    Returns
    -------
    PlanReport
    """
    expected = simulate_utility(plan, model)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    cost = run_cost(time.process_time(), kilobytes / 1e6, plan.numeric.pools.n_records)
    return PlanReport(plan, guarantee, expected, *cost)


def plan_summary(plan: ReleasePlan, guarantee: synth.Guarantee) -> str:
    """Describe a plan and its cost.

    Parameters
    ----------
    plan : ReleasePlan
    guarantee : synth.Guarantee
        Of the plan.

    Returns
    -------
    str
        A few lines; bounds are rounded up.
    """
    numeric, up = plan.numeric, synth.decimal_up
    cells = numeric.domains.n_cells[numeric.pools.domain]
    order = np.argsort(cells, kind="stable")
    running = np.cumsum(numeric.pools.n[order])
    tenth, median, ninth = cells[order][np.searchsorted(running, running[-1] * np.array([0.1, 0.5, 0.9]))]
    shared = plan.pools.shared
    added, paid = plan.mechanism.explain(numeric, guarantee)
    lines = [
        f"Plan        {plan.configuration['release']['name']}, mechanism {numeric.mechanism}",
        f"  slots     {numeric.pools.n_records:,} jobs in {numeric.pools.n_pools:,} pools; "
        f"the largest has {numeric.pools.n.max():,}",
        *(
            [
                f"  shared    {numeric.pools.n[shared].sum():,} jobs of work blocks with fewer than "
                f"{plan.choices.pool_below:,} share {shared.sum():,} pools, "
                f"by {plan.pools.pooling.level}"
            ]
            if shared.any()
            else []
        ),
        f"  domains   {numeric.domains.n_domains:,} for {plan.geography.n_blocks:,} blocks; "
        f"a typical job's has {median:,} cells (one in ten {tenth:,} or fewer, one in ten {ninth:,} or more)",
        f"  cells     coarsening {plan.configuration['plan']['coarsening']}; {added}",
        f"  noise     about {plan.mechanism.noise_share(numeric):.1%} of the synthetic workers are noise",
        *([f"Implicates  {plan.implicates.words}"] if plan.implicates.number > 1 else []),
        f"Cost        epsilon {up(guarantee.epsilon, 6)}, delta {up(guarantee.delta, 4)} for the run "
        f"(requested {up(plan.requested[0])} and {up(plan.requested[1])})",
        f"  of which  {paid}",
        f"  a record  delta {up(guarantee.record_delta, 4)} at the same epsilon, as differential privacy",
    ]
    lines += [f"Note        {note}" for note in plan.notes]
    return "\n".join(lines)


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
        digest = save_plan(report.plan, staging / PLAN_FOLDER)
        write_names(names or {}, report.plan.geography, staging)
        (staging / _REPORT).write_text(f"{report.text()}\nPlan hash   {digest}\n", encoding="utf-8")
        numbers = {
            "plan_sha256": digest,
            "names_sha256": sha256_of(named) if (named := staging / NAME_FILE).exists() else None,
            "epsilon": synth.decimal_up(report.guarantee.epsilon),
            "delta": synth.decimal_up(report.guarantee.delta),
            **report.utility.as_dict(),
            "pool_level": report.plan.choices.pool_level,
            "pool_below": report.plan.choices.pool_below,
            "thresholds": report.plan.choices.thresholds,
        }
        (staging / PLAN_NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        draw_cells(report.plan, staging / _FIGURE)
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
