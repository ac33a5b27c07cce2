"""Planning a release, and what is written of it: the plan, its cost, its loss, and a picture of cells."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.arguments import PathLike, check_type, path_of
from geo_data.distance import distance_km
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import MicrodataJobsSettings
from pipelines.config.toml import ConfigError
from pipelines.planning.guesses import ExpectedGuess, expected_guess
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.planning.simulation import SimulatedUtility, simulate_accuracy, simulate_utility
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.form import plan_hash
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import save_plan
from pipelines.release.certificate import (
    Certificate,
    EpsilonDelta,
    guarantee_fields,
    population_in_words,
    promise,
    randomness_fields,
    reasons_against_release,
    this_software,
)
from pipelines.release.names import NAME_FILE, write_names
from pipelines.release.polygons import POLYGON_FOLDER, write_polygons
from pipelines.release.promises import exact_in_words
from pipelines.running.executor import trying_on
from pipelines.running.history import with_history
from pipelines.running.payment import Debited, cost_of
from pipelines.running.preflight import PLAN_FOLDER, PLAN_NUMBERS, check_ready, load_back, released_beside
from pipelines.running.run import certify
from pipelines.running.steps import PLAN_STEPS, Step, StepLog
from pipelines.storage.durable import whole_folder
from pipelines.storage.progress import Progress
from synth.dirichlet.parameters import DirichletParameters

_REPORT, _FIGURE = "plan.txt", "cells.png"
_WORKPLACES = 3
_DOTS = 100_000  # most blocks that are drawn: millions take minutes and show no more


@dataclass(frozen=True, eq=False)
class PlanReport:
    """A plan with its cost and simulated utility, in a folder to be reviewed and run.

    Attributes
    ----------
    plan : ReleasePlan
    guarantee : synth.Guarantee
    utility : SimulatedUtility
        On proxy truth: expected error under the public model.
    guess : ExpectedGuess or None
        How often somebody guesses homes right; None where that is not computed.
    tiers : mapping of str to ExpectedAccuracy
        What is expected of weaker tiers, by name, the strongest first.
    run_seconds : float
        Expected processor time of a run that plans itself, on this machine.
    memory_gb : float
        Expected peak memory of a run.
    folder : Path
        Where the plan and this report are, for `run`.
    sha256 : str
        Hash of the plan: of its plan.json, hexadecimal.
    rows : mapping of str to int
        Rows that were read of each public file, by path.
    """

    plan: ReleasePlan
    guarantee: synth.Guarantee
    utility: SimulatedUtility
    guess: ExpectedGuess | None
    tiers: Mapping[str, ExpectedAccuracy]
    run_seconds: float
    memory_gb: float
    folder: Path
    sha256: str
    rows: Mapping[str, int]

    def __repr__(self) -> str:
        name = self.plan.config.release.name
        epsilon, delta = (synth.decimal_up(x, 6) for x in (self.guarantee.epsilon, self.guarantee.delta))
        return (
            f"<PlanReport: {name}; epsilon at most {epsilon}, delta at most {delta} for the run; "
            f"expected loss {self.utility.objective:.4f}; in {self.folder}; text() has the whole report>"
        )

    def text(self, *, verbose: bool = True) -> str:
        """Return the report for people: what is exact, protected, paid, expected; `verbose`, details."""
        f = self.utility
        many = f.destination_error == f.destination_error
        lines = [
            plan_summary(self.plan, self.guarantee),
            f"Expected    (tried on {f.jobs:,} jobs drawn from the public model; no confidential data"
            f"{'' if self.plan.policy.n_parts == 1 else ' beyond what the policy makes public'})",
            *_expected_losses(self.plan, f),
            *_other_attributes(self.plan, f),
            *(
                f"  tier {name}, epsilon {synth.decimal_up(self.plan.config.tiers[name])}: "
                + "; ".join(f"{t.table} {t.loss:.3f}" for t in tier.tables if t.workload)
                for name, tier in self.tiers.items()
            ),
            guess_words(self.plan, self.guess),
            f"  commute   mean off by {f.mean_commute_error:+.1%}"
            + (f"; a large destination's by {f.destination_error:.1%} (median)" if many else ""),
            f"  run       about {self.run_seconds:.0f} s and {self.memory_gb:.1f} GB on this machine, "
            "planning included",
        ]
        jobs = self.plan.config.jobs
        if isinstance(jobs, MicrodataJobsSettings) and jobs.worker is not None:
            lines.append(
                f"Not read    column {jobs.worker}: a run refuses jobs of which a worker has more than "
                f"{jobs.records_per_worker:,} (jobs.records_per_worker), before it pays"
            )
        lines += [f"Note        {note}" for note in self.plan.notes]
        against = reasons_against_release(this_software(), randomness_fields(secure=True))
        lines += [f"Warning     not for release if it is run now: {reason}" for reason in against]
        if verbose:
            lines.append(plan_details(self.plan, self.guarantee))
            lines += [f"Read        {Path(path).name}: {rows:,} rows" for path, rows in self.rows.items()]
        return "\n".join(lines)


def _expected_losses(plan: ReleasePlan, utility: SimulatedUtility) -> list[str]:
    """Return a line for each table of the workload, and one for each that the release does not carry."""
    several = plan.policy.n_parts > 1  # which of them each home is in is public
    knows = "with the public part of each home" if several else "without any confidential data"
    wide = max(len(row.table.name) for row in utility.workload)
    first = f"  {'table, share of jobs that it counts elsewhere':{wide}}"
    wide = len(first) - 2
    lines = [f"{first}  this plan  public model alone  no privacy"]
    lines += [
        f"  {row.table.name:{wide}}  {row.loss:9.3f}  {row.public_model:18.3f}  {row.no_privacy:10.3f}"
        for row in utility.workload
    ]
    noisy = f" of its {'tables of homes' if plan.measures else 'pools'}" if plan.workplaces else ""
    lines.append(f"  weighted mean {utility.objective:.4f}; no privacy: this plan without noise{noisy}")
    tables = [table for table in utility.accuracy.tables if table.workload]
    for within in sorted({table.within for table in tables}):
        names = "; ".join(table.table for table in tables if table.within == within)
        lines.append(f"  likely to be reached within a factor of {within:g}: {names}")
    for row in utility.workload:
        if not row.carried:
            others = any(other.table.weight for other in utility.workload if other is not row)
            weight = "it more weight in [[workload]], or " if others else ""
            lines.append(
                f"Warning     the release will not carry the table {row.table.name}: it is expected to lose "
                f"{row.loss:.3f}, and the public model alone, {knows}, "
                f"{row.public_model:.3f}. Give {weight}the release a larger epsilon, or do not publish the "
                "table"
            )
    if levels := utility.accuracy.noisy_levels:
        lines.append(f"Noise       flows between units of {', '.join(levels)}: maps of the release mute them")
    return lines


def _other_attributes(plan: ReleasePlan, utility: SimulatedUtility) -> list[str]:
    """Return a line about attributes that homes are not told apart by, as LODES counts each by itself."""
    read = dict.fromkeys(name for row in utility.workload for name in row.table.attributes)
    others = [name for name in read if name not in plan.attributes]
    if plan.config.jobs.format == "microdata" or not others:
        return []
    by = plan.attributes[0] if plan.attributes else "none"
    return [
        "Attributes  files of flows count each attribute by itself, so homes are told apart by one of them "
        f"at most: here by {by}. By {', '.join(others)} the jobs of a workplace are given to its homes by "
        "chance; files with one row a job can do better"
    ]


def plan(
    config: ReleaseConfig,
    out: PathLike | None = None,
    *,
    progress: Progress | None = None,
    scheduler: str | None = None,
    notes: Iterable[str] = (),
) -> PlanReport:
    """Plan a release, and write the plan with its report; no home is read.

    Parameters
    ----------
    config : ReleaseConfig
    out : str or path, optional
        Folder of the plan and its report; by default the release's with ``-plan``.
    progress : Progress, optional
        Told how many parts of a step are done, and how many there are, where it has parts; an
        `EstimatedTotal` (`pipelines.storage.progress`) while nobody knows.
    scheduler : str, optional
        Address of a Dask cluster (``tls://...``) whose workers try plans; by default threads of this
        process. The plan is the same.
    notes : iterable of str
        What else the plan and its release say, beside the notes about public inputs.

    Returns
    -------
    PlanReport

    Raises
    ------
    ConfigError
        If the folder holds another plan, or anything else, also beside a report; or a public input is a
        confidential file.
    geo_data.InputError
        If an input is unusable.
    synth.BudgetTooSmallError
        If the budget certifies no prior.
    ConfigError, SigningError, LedgerError
        As by `check_ready`: what a run would refuse is refused now.
    ConnectionError
        If no scheduler answers at the address given, or its cluster is lost.
    """
    check_type(config, ReleaseConfig, "config", "load_config")
    out = None if out is None else path_of(out, "out")
    folder = out or config.release.out.with_name(f"{config.release.out.name}-plan")
    # Where numbers of records are protected a plan needs none of the jobs: their file may be elsewhere.
    check_ready(config, confidential=config.record_range is None)
    _refuse_other(folder)
    steps = StepLog(progress, PLAN_STEPS)
    with trying_on(scheduler) as parallel_map:
        with steps.step(Step.READ_PUBLIC_INPUTS):
            inputs = read_public_inputs(config, progress)
            inputs = replace(inputs, notes=(*inputs.notes, *notes))
        with steps.step(Step.CHOOSE):
            made = make_plan(config, inputs, progress=progress, parallel_map=parallel_map)
            guarantee = certify(made)
        with steps.step(Step.SIMULATE):
            utility = simulate_utility(made, inputs.model, parallel_map=parallel_map, progress=progress)
            guess = expected_guess(made)
            tiers = {
                name: simulate_accuracy(weaker, inputs.model, parallel_map, progress)
                for name, weaker in made.weaker()
            }
            made = with_history(config, made)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, 0o755, check=lambda: _refuse_other(folder)) as staging:
        digest = save_plan(made, staging / PLAN_FOLDER)
        _refuse_other(folder, digest)
        names, polygons, rows = inputs.names, inputs.polygons, inputs.rows
        del made, inputs  # two plans, and all that the first was made from, would be in memory
        made = load_back(config, staging / PLAN_FOLDER, digest)
        used = time.process_time(), peak_memory() / 1e9
        noisy = int(made.numeric.k.sum()) if made.measures else 0
        cost = run_cost(*used, made.numeric.pools.n_records, noisy)
        planned = PlanReport(made, guarantee, utility, guess, tiers, *cost, folder, digest, rows)
        write_names(names, made.geography, staging, config.release.language)
        write_polygons(polygons, staging)
        _write(planned, staging)
    return planned


def plan_summary(plan: ReleasePlan, guarantee: synth.Guarantee) -> str:
    """Say what a plan releases exactly, what it protects, and what it costs."""
    certificate, up = promise(plan, guarantee), synth.decimal_up
    lines = [
        f"Exact       {' '.join(exact_in_words(certificate).split())}",
        f"Protects    {_protected(plan)}",
        f"Cost        epsilon {up(guarantee.epsilon, 6)}, delta {up(guarantee.delta, 4)} for the run "
        f"(requested {up(plan.requested[0])} and {up(plan.requested[1])})",
        *_promises(certificate),
        *([f"Implicates  {plan.implicates.words}"] if plan.implicates.number > 1 else []),
    ]
    if residents := population_in_words(plan.population, protected=guarantee.presence is not None):
        lines.append(f"Population  {residents}")
    if certificate.policy:
        lines.append(f"Policy      {certificate.policy.words}")
    return "\n".join(lines)


def _protected(plan: ReleasePlan) -> str:
    """Say what of a job record is protected."""
    if plan.config.protects_records:
        return "every job record: its home, its workplace, its attributes, and that it is there at all"
    also = f", together with its {' and its '.join(plan.policy.secret)}" if plan.policy.secret else ""
    there = ", and that it is there at all" if plan.numeric.target.record_range is not None else ""
    return f"the home of every job record{also}{there}"


def plan_details(plan: ReleasePlan, guarantee: synth.Guarantee) -> str:
    """Say what a plan does: its pools, cells and tables, and what each part of the cost pays for."""
    numeric, cells = plan.numeric, plan.numeric.k
    order = np.argsort(cells, kind="stable")
    running = np.cumsum(numeric.pools.n[order])
    tenth, median, ninth = cells[order][np.searchsorted(running, running[-1] * np.array([0.1, 0.5, 0.9]))]
    shared = plan.pools.shared
    added, paid = plan.mechanism.explain(numeric, guarantee)
    # One step under a distance need not change all tables, whose losses then add up to more than epsilon.
    of_all = "epsilon" if guarantee.rho is None else "rho"
    added_up = "2 ln(1/p)" if guarantee.rho is None else "1/sigma^2"
    together = of_all if plan.policy.reach is None else f"the sum of their {added_up}"
    zones = ", external zones among them" if plan.geography.external_zones else ""
    of_level = f", those of {plan.choices.cell_level}" if plan.choices.cell_level else ""
    lines = [
        f"Plan        {plan.config.release.name}, mechanism {numeric.mechanism}",
        f"  slots     {numeric.pools.n_records:,} jobs in {numeric.pools.n_pools:,} pools; "
        f"the largest has {numeric.pools.n.max():,}",
        *([] if numeric.target.record_range is None and not plan.workplaces else [_totals_line(plan)]),
        *([f"  strata    pools by {' and '.join(plan.choices.pool_by)}"] if plan.choices.pool_by else []),
        *(
            [
                f"  shared    {numeric.pools.n[shared].sum():,} jobs of work blocks with fewer than "
                f"{plan.choices.pool_below:,} share {shared.sum():,} pools, "
                f"by {plan.pools.pooling.level}"
            ]
            if shared.any()
            else []
        ),
        f"  domains   {numeric.domains.n_domains:,} for {plan.geography.n_blocks:,} blocks{zones}; "
        f"a typical job's has {median:,} cells (one in ten {tenth:,} or fewer, one in ten {ninth:,} or more)",
        f"  cells     coarsening {plan.coarsening}{of_level}; {added}",
        *(
            f"  measured  {words}, with {synth.decimal_up(100 * share, 4)} % of {together}"
            for words, share in plan.tables
        ),
        f"  noise     {noise_words(plan.mechanism, plan.mechanism.noise_share(numeric))}",
        f"  cost      {paid}",
    ]
    return "\n".join(lines)


def guess_words(plan: ReleasePlan, guess: ExpectedGuess | None) -> str:
    """Say how often somebody who knows every other home guesses the unit of one right."""
    if guess is None:
        return "Guess       not computed: nothing is known of what draws of this mechanism tell"
    pruned = getattr(plan.numeric.parameters, "retention", ())
    coins = " and which empty cells were kept" if {*pruned} - {1} else ""
    alone = "" if guess.alone is None else f"; in work blocks of one job {guess.alone:.0%}"
    return (
        f"Guess       the {plan.level} of a home is guessed right for {guess.public:.0%} of the jobs from "
        f"public data alone, and for about {guess.released:.0%}{alone} by somebody who sees the release and "
        f"knows all other homes{coins}. Who knows less, such as all but one home of a work block, does so no "
        "more often. Tried on homes as the public model expects them"
    )


def noise_words(mechanism: synth.Mechanism, share: float) -> str:
    """Say of what a share is noise (`synth.Mechanism.noise_share`).

    Where tables are measured it is of the counts of pools: homes are estimated from all tables, and less of
    the workers is noise.
    """
    noisy = (
        "what the noisy counts of pools hold is"
        if "tables" in mechanism.settings
        else "the synthetic workers are"
    )
    return f"about {share:.1%} of {noisy} noise"


def _promises(certificate: Certificate) -> list[str]:
    """Say what one record and one person are promised, and what of it a ledger is debited."""
    user, presence = certificate.user_level, certificate.presence
    # Said also of one: a worker of a LODES file may have several jobs, and the file does not tell.
    several = f" with at most {user.records:,} job record{'s' if user.records > 1 else ''}"

    def shown(pair: EpsilonDelta) -> str:
        epsilon, delta = synth.exact(pair.epsilon), synth.exact(pair.delta)
        return f"epsilon {synth.decimal_up(epsilon, 6)}, delta {synth.decimal_up(delta, 4)}"

    lines = [
        f"  a record  {shown(certificate.record_level)} for one job record, as differential privacy",
        f"  a person  {shown(user)} for one person{several}, as differential privacy",
    ]
    if presence is not None:
        lines += [
            f"  presence  {shown(presence.run)} for one job more or less, at any work block",
            f"            {shown(presence.user_level)} for one person{several} more or less, as differential "
            "privacy",
        ]
    paid = paid_for(vars(certificate))
    rho = f", rho {synth.decimal_up(synth.exact(paid.rho), 6)}" if paid.rho else ""
    return [*lines, f"  debit     {shown(paid)}{rho} from a ledger, whose budgets are about one person"]


def paid_for(fields: Mapping[str, Any]) -> Debited:
    """Return what a ledger is debited for a release, by the `guarantee_fields` of its certificate."""
    return cost_of(fields["requested"], fields["run"], fields["record_level"], fields["user_level"])


def _totals_line(plan: ReleasePlan) -> str:
    """Say whose totals these are; nothing here is of the confidential jobs."""
    if plan.policy.secret:
        return "  totals    public; categories of secret attributes are expected, and estimated later"
    line = "  totals    of a public table of workplaces; those of the confidential jobs are protected"
    if plan.workplaces:
        line = "  totals    expected; those of the release are estimated from noisy counts"
    record_range, parameters = plan.numeric.target.record_range, plan.numeric.parameters
    if record_range is None or not isinstance(parameters, DirichletParameters):
        return line
    smallest, largest = (synth.decimal_up(x, 4) for x in (record_range.fewest, record_range.most))
    room = f"; a pool has room for {parameters.classes[-1].m_max:,} jobs" if plan.workplaces else ""
    return f"{line} (certified for {smallest} to {largest} times as many{room})"


def peak_memory() -> int:
    """Return the most bytes of memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # elsewhere it is in KiB


def run_cost(seconds: float, gigabytes: float, jobs: int, noisy: int = 0) -> tuple[float, float]:
    """Return the expected processor time and peak memory of a run that plans itself.

    Seconds and gigabytes are what this process has used to plan, as a run does again, and to try the
    plan. What reading, sorting, estimating, drawing, writing and checking the jobs take beyond was
    measured on the demo region, on Rhode Island and on a nation of 140 million jobs. Jobs are drawn in
    batches, so memory does not grow with them.
    """
    return seconds + 0.5 + 1.2e-6 * jobs + 1.2e-6 * noisy, gigabytes + 0.1


def _write(report: PlanReport, staging: Path) -> None:
    """Write what stands beside a plan: its report, and the picture of its cells."""
    (staging / _REPORT).write_text(f"{report.text()}\nPlan hash   {report.sha256}\n", encoding="utf-8")
    fields = guarantee_fields(report.plan, report.guarantee)
    presence = fields["presence"]
    numbers = {
        "plan_sha256": report.sha256,
        "beside": released_beside(staging),
        "epsilon": synth.decimal_up(report.guarantee.epsilon),
        "delta": synth.decimal_up(report.guarantee.delta),
        "record_level": fields["record_level"].model_dump(),
        "user_level": fields["user_level"].model_dump(),
        "presence": None if presence is None else presence.model_dump(),
        "debit": paid_for(fields).model_dump(exclude_none=True),
        "population": fields["population"],
        "released_exactly": None if (exact := fields["released_exactly"]) is None else exact.model_dump(),
        **({} if (policy := fields.get("policy")) is None else {"policy": policy.model_dump()}),
        **report.utility.as_dict(),
        "guess": None if report.guess is None else report.guess.as_dict(),
        **({"tiers": {name: tier.as_dict() for name, tier in report.tiers.items()}} if report.tiers else {}),
        "pool_level": report.plan.choices.pool_level,
        "pool_below": report.plan.choices.pool_below,
        "coarsening": report.plan.coarsening,
        "cell_level": report.plan.choices.cell_level,
        "pool_by": report.plan.choices.pool_by,
        "thresholds": report.plan.choices.thresholds,
        "mechanism": report.plan.numeric.mechanism,
        "tables": [{"table": words, "share": str(share)} for words, share in report.plan.tables],
    }
    (staging / PLAN_NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    draw_cells(report.plan, staging / _FIGURE)


def _refuse_other(out: Path, digest: str | None = None) -> None:
    """Refuse a folder that holds anything but a report, or that of another plan: it would be lost."""
    ours = {PLAN_FOLDER, PLAN_NUMBERS, NAME_FILE, POLYGON_FOLDER, _REPORT, _FIGURE}
    try:
        names = {path.name for path in out.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        names = set()
    if PLAN_NUMBERS not in names or names - ours or not (out / PLAN_FOLDER / "plan.json").is_file():
        rule = "the folder exists, and is not an earlier plan or has other files too"
        raise ConfigError(f"{out}: {rule}. Fix: choose another with --out")
    if digest is not None and (existing := plan_hash(out / PLAN_FOLDER)) != digest:
        rule = f"plan {existing[:12]} is there, which may have been reviewed, and this is plan {digest[:12]}"
        raise ConfigError(f"{out}: {rule}. Fix: choose another folder with --out, or remove this folder")


# --- the picture of cells


def draw_cells(plan: ReleasePlan, path: Path) -> None:
    """Draw the cells of the largest pool, of that of a typical job, and of a small one as a PNG.

    A block is a dot at its centroid, coloured by the number of blocks in its cell: blocks that are cells of
    their own are darkest. Of very many blocks, some are drawn, evenly. Nothing but the plan is drawn.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    geography = plan.geography
    placed = np.flatnonzero(np.isfinite(geography.latitude))
    placed = placed[:: -(-placed.size // _DOTS)]
    chosen = _choose(plan)
    fig = Figure(figsize=(4.2 * (len(chosen) + 1), 4.6), layout="constrained")
    axes = fig.subplots(1, len(chosen) + 1, squeeze=False)
    norm = LogNorm(1, max(10, geography.n_blocks))
    shown: Any = None
    for axis, pool in zip(axes[0], chosen, strict=False):
        size, cells = _blocks_per_cell(plan, pool)
        inside = placed[size[placed] > 0]  # of the pool's part, where a policy divides homes
        order = inside[np.argsort(-size[inside], kind="stable")]
        shown = axis.scatter(
            geography.longitude[order],
            geography.latitude[order],
            c=size[order],
            norm=norm,
            cmap="viridis",
            s=max(0.5, min(12, 2e4 / placed.size)),
            linewidths=0,
            rasterized=True,
        )
        block = plan.pools.block[pool]
        axis.plot(
            geography.longitude[block], geography.latitude[block], "*", ms=15, mfc="red", mec="white", mew=1.2
        )
        axis.set_aspect(1 / max(0.1, np.cos(np.radians(np.nanmean(geography.latitude)))))
        axis.set_axis_off()
        subject = "small workplaces of an area" if plan.pools.shared[pool] else "one workplace"
        axis.set_title(f"{plan.pools.n[pool]:,} jobs, {subject}:\n{cells:,} cells", fontsize=11)
        _curve(axes[0][-1], plan, pool, inside, size)
    fig.colorbar(shown, ax=list(axes[0][:-1]), label="blocks in the block's cell", shrink=0.7)
    last = axes[0][-1]
    last.set(
        xlabel="distance of a block from the workplace, km",
        ylabel="blocks in its cell (median)",
        yscale="log",
    )
    last.set_title("Cells by distance from the workplace", fontsize=11)
    last.legend(frameon=False)
    last.spines[["top", "right"]].set_visible(False)
    fig.suptitle(f"{plan.config.release.name}: what the pools tell apart", fontsize=13)
    fig.savefig(path, dpi=110)


def _choose(plan: ReleasePlan) -> list[int]:
    """Return the largest pool, the one that holds the median job, and one at the tenth percentile of jobs."""
    order = np.argsort(plan.pools.n, kind="stable")
    running = np.cumsum(plan.pools.n[order])
    position = np.searchsorted(running, np.array([1.0, 0.5, 0.1]) * running[-1])
    return list(dict.fromkeys(order[np.minimum(position, order.size - 1)].tolist()))[:_WORKPLACES]


def _blocks_per_cell(plan: ReleasePlan, pool: int) -> tuple[NDArray[np.int64], int]:
    """Return how many blocks each block's cell has, 0 outside the pool's part; and the number of cells."""
    domains, domain = plan.numeric.domains, int(plan.numeric.pools.domain[pool])
    cells = np.arange(domains.n_cells[domain], dtype=np.int32)
    first, stop = domains.bounds(np.full(cells.size, domain, np.int32), cells)
    size = np.zeros(plan.geography.n_blocks, np.int64)
    size[first[0] : stop[-1]] = np.repeat(stop - first, stop - first)
    return size, cells.size


def _curve(
    axis: Any, plan: ReleasePlan, pool: int, placed: NDArray[np.intp], size: NDArray[np.int64]
) -> None:
    """Draw the median cell size of blocks in twelve distance classes of equally many blocks."""
    geography, block = plan.geography, plan.pools.block[pool]
    km = distance_km(
        geography.latitude[placed],
        geography.longitude[placed],
        geography.latitude[block],
        geography.longitude[block],
    )
    parts = np.array_split(np.argsort(km, kind="stable"), min(12, placed.size))
    axis.plot(
        [np.median(km[part]) for part in parts],
        [np.median(size[placed[part]]) for part in parts],
        "o-",
        ms=4,
        label=f"{plan.pools.n[pool]:,} jobs",
    )
