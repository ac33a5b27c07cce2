"""What the command line says about releases and budgets."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

import geo_data
import synth
from pipelines.config.sections import LedgerSettings
from pipelines.ledger.budgets import Account, PolicyError, amounts_in_words, excess, gaussian_epsilon
from pipelines.ledger.terms import Terms
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.utility import cell_variation, mean_commute
from pipelines.release.certificate import Certificate, guarantee_fields
from pipelines.running.folder import RunFolder
from pipelines.running.payment import left_in, read_ledger, terms_of, terms_with
from pipelines.running.report import PlanReport, noise_words, paid_for
from pipelines.running.unfinished import UnfinishedRun
from pipelines.views.release import Release


def planned_summary(
    planned: PlanReport, settings: LedgerSettings | None, config: Path, *, verbose: bool
) -> str:
    """Describe a plan: what it would release, at what cost, what is left of the budget, where it is.

    And how it is run, unless the ledger would refuse that.
    """
    lines, refused = [planned.text(verbose=verbose), f"Plan hash   {planned.sha256}"], False
    if settings is not None:
        line, refused = budget_line(settings, planned.plan, planned.guarantee)
        lines.append(line)
    written = ", ".join(sorted(path.name for path in planned.folder.iterdir()))
    lines.append(f"Written     {planned.folder}: {written}")
    if not refused:
        lines.append(f"Run it with: odsynth run {config} --plan {planned.folder}")
    return "\n".join(lines)


def release_summary(release: Release) -> str:
    """Describe a finished release: what, at what cost, where."""
    certificate, plan, run = release.certificate, release.plan, release.certificate.run
    domains = certificate.totals.domains
    lines = [
        "",
        f"Released    {certificate.totals.synthetic_workers:,} synthetic workers: {release.title}",
        *([f"Implicates  {certificate.implicates.words}"] if certificate.implicates.number > 1 else []),
        f"Cost        epsilon {run.epsilon}, delta {run.delta} "
        f"(requested {certificate.requested.epsilon} and {certificate.requested.delta})",
        *_of_person(certificate),
        f"Plan        {certificate.totals.pools:,} pools, {domains:,} domain{'s' * (domains != 1)}, "
        f"{noise_words(plan.mechanism, plan.mechanism.noise_share(plan.numeric))}",
        f"Plan hash   {certificate.plan_sha256}",
        *(f"Note        {note}" for note in plan.notes),
        f"Public      {release.public}",
        "            begin with README.md",
        *_tiers(release),
        f"Private     {release.out / 'confidential'} (never publish)",
    ]
    lines.append(_paid(release))
    if not certificate.for_release:
        lines.append("Not for release: " + "; ".join(certificate.not_for_release_because))
    lines.append(f"Check it with: odsynth verify {release.public}")
    return "\n".join(lines)


def _tiers(release: Release) -> list[str]:
    """Return a line for each weaker tier, with the folder of its release."""
    tiers = RunFolder(release.out).load().tiers
    return [
        f"Tier        {name}, epsilon {tier.requested.epsilon}: {RunFolder(release.out).tier(name).public}"
        for name, tier in tiers.items()
    ]


def _of_person(certificate: Certificate) -> list[str]:
    user = certificate.user_level
    if user.records == 1:
        return []
    return [
        f"  a person  epsilon {user.epsilon}, delta {user.delta}, with at most {user.records:,} job records"
    ]


def _paid(release: Release) -> str:
    debit = RunFolder(release.out).load().debit
    return f"Ledger      debit {debit}" if debit else "Ledger      none: nobody adds up what is spent"


def ledger_account(account: Account, delta: Fraction | None = None, records: int = 1, since: str = "") -> str:
    """Describe what has been spent of a budget, and a line for each release; spent up, left down.

    `since` says of which time only, in words; what is left is then not said, as a budget is for all time.
    """
    budget, up, down = account.budget, synth.decimal_up, synth.decimal_down
    period = f", {budget.label}" if budget.label else ""
    spent = amounts_in_words(account.spent._asdict(), up)
    left = f"; left {amounts_in_words(account.left, down)} of {amounts_in_words(budget.limits, down)}"
    lines = [
        f"{account.data_set}{period}{since}: {account.debits} release(s), {account.unfinished} unfinished; "
        f"spent {spent}{'' if since else left}"
    ]
    if budget.years:
        lines.append(
            f"  in the {budget.years} year(s) up to today; in more years releases may cost more together"
        )
    if account.releases:
        lines.append(f"  the sum is a guarantee of: {account.guarantee}")
    if account.terms is not None:
        lines.append(
            f"  {_together(account, account.terms, budget.delta if delta is None else delta, records)}"
        )
    for entry, state in account.releases:
        period = f", {entry.period}" if entry.period else ""
        amounts = {"epsilon": entry.epsilon, "delta": entry.delta, "rho": entry.rho}
        paid = {name: amount for name, amount in amounts.items() if amount is not None}
        lines.append(
            f"  {entry.time[:19]}Z  {entry.release}{period}: {amounts_in_words(paid, up)}; "
            f"{Terms.of(entry.policy).words}; {state}"
        )
    return "\n".join(lines)


def _together(account: Account, terms: Terms, delta: Fraction, records: int) -> str:
    """Say what epsilon the releases have together at a delta, by each account, and which is better."""
    records = max(records, terms.records)
    times = -(-records // terms.records)
    sums, rho = account.spent.epsilons_at(delta, times)
    noise = gaussian_epsilon([entry.rho for entry, _ in account.releases], delta, times)
    named = {"plain sums": sums, "zCDP": rho, "Gaussian noise": noise}
    known = {name: epsilon for name, epsilon in named.items() if epsilon is not None}
    by = [f"epsilon {synth.decimal_up(epsilon, 6)} by {name}" for name, epsilon in known.items()]
    if len({*known.values()}) > 1:
        best = min(known, key=lambda name: known[name])
        by.append("the sums are better" if best == "plain sums" else f"{best} is better")
    about = f"a person with at most {records:,} job record(s), at delta {synth.decimal_up(delta)}"
    return f"together, for {about}: {'; '.join(by) or 'no epsilon that can be proved; choose a larger delta'}"


def budget_line(settings: LedgerSettings, plan: ReleasePlan, guarantee: synth.Guarantee) -> tuple[str, bool]:
    """Describe what is left of the budget of a plan; also say whether a run would be refused for it."""
    entries = read_ledger(settings)
    left = left_in(entries, settings)
    cost = paid_for(guarantee_fields(plan, guarantee))
    fits = not excess(synth.Cost.of(*cost.price), left)
    terms, together = terms_of(plan), ""
    try:
        total = terms_with(entries, settings, terms)
    except PolicyError as error:
        total, together = None, f"THIS RELEASE DOES NOT ADD UP, and run will refuse it: {error}"
    if total is not None and total != terms:  # less than this release alone
        together = f"with this release the sum is a guarantee of: {total.words}"
    period = f", {settings.period}" if settings.period else ""
    words = [
        f"Budget      {settings.data_set}{period}: left {amounts_in_words(left, synth.decimal_down)}",
        *([] if fits else ["THIS RELEASE COSTS MORE, and run will refuse it"]),
        *([together] if together else []),
    ]
    return "; ".join(words), not fits or total is None


def comparison(release: Release, truth: geo_data.JobRecords) -> str:
    """Compare a release with its generated truth, at the second finest level above the block.

    What this prints is computed from the true homes, outside the mechanism and outside the guarantee.
    """
    geography = release.geography
    block = geography.block_level
    level = geography.levels[-2] if len(geography.levels) > 1 else block
    flows = release.unit_flows(block, block)
    released = (np.repeat(flows[side].to_numpy(), flows["S000"]) for side in ("work", "home"))
    cells, km = [], []
    for work, home in ((truth.work, truth.home), released):
        unit = geography.unit_of(level, work).astype(np.int64)
        cells.append(unit * geography.n_units(level) + geography.unit_of(level, home))
        km.append(mean_commute(geography, work, home))
    return (
        f"Compared    with the generated truth: flows between {level} units differ by "
        f"{cell_variation(*cells):.1%} (total variation); mean commute {km[1]:.2f} km, truth {km[0]:.2f} km"
    )


def unfinished_summary(run: UnfinishedRun) -> str:
    """Describe what a run that is not finished left, and how to go on with it."""
    if run.at_work:
        state = "at work"
    elif run.at_work is None:
        state = "perhaps at work"
    elif run.begun:
        state = f"stopped. Continue with: odsynth resume {run.out}"
    else:
        state = "stopped before it was paid for; the next run of this output removes it"
    lines = [
        f"{run.folder}: {state}",
        f"  since     {run.since:%Y-%m-%d %H:%M} UTC{f', by {run.software}' if run.software else ''}",
        f"  holds     {', '.join(run.holds) or 'nothing'}",
        f"  paid      {run.paid or 'nothing: no ledger was debited'}",
        *([f"  but       {run.problem}"] if run.problem else []),
    ]
    return "\n".join(lines)
