"""Tables of workplaces that are measured before homes are drawn by another mechanism.

Slots follow from their noisy counts, and homes are drawn for these slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from synth.dirichlet.calibration import BudgetTooSmallError
from synth.geometric.measured import MeasuredTable
from synth.geometric.mechanism import (
    SMALLEST_EPSILON,
    calibrated_noise,
    noise_loss,
    table_class,
)
from synth.geometric.noise import check_ratio
from synth.mechanism import Guarantee
from synth.plan import Plan, Table, Target
from synth.rationals import decimal_up, exact


def calibrated_workplaces(
    workplaces: Sequence[tuple[Table, Fraction]], epsilon: Fraction
) -> tuple[MeasuredTable, ...]:
    """Give each table the smallest noise whose loss, rounded up, is at most its exact share of epsilon.

    Raises
    ------
    ValueError
        If the shares leave nothing of epsilon.
    BudgetTooSmallError
        If a table needs more noise than the sampler is made for.
    """
    shares = [exact(share, "the share of a table") for _, share in workplaces]
    if not shares:
        return ()
    if min(shares) <= 0 or sum(shares) >= 1:
        raise ValueError("every table of workplaces has a share of epsilon above 0, together below 1")
    if epsilon * min(shares) < SMALLEST_EPSILON:
        raise BudgetTooSmallError(
            f"epsilon {decimal_up(epsilon)} needs more noise in workplaces than the sampler is made for",
            lambda: SMALLEST_EPSILON / min(shares),
        )
    return tuple(
        MeasuredTable(table.n, table.domain, table.domains, calibrated_noise(epsilon * share))
        for (table, _), share in zip(workplaces, shares, strict=True)
    )


def epsilon_of_homes(target: Target, tables: Sequence[MeasuredTable]) -> Fraction:
    """Return what tables of workplaces leave of epsilon for one pool of homes.

    Lemma 44 of docs/privacy.md.
    """
    noise = sum(noise_loss(table.parameters.ratio) for table in tables)
    return (target.epsilon - noise) / target.changed_pools


def with_workplaces(homes: Guarantee, plan: Plan) -> Guarantee:
    """Return the guarantee of a plan's tables of workplaces together with that of homes drawn for its slots.

    Lemma 44 of docs/privacy.md.

    Parameters
    ----------
    homes : Guarantee
        For neighbours that differ in one pool.
    plan : Plan

    Raises
    ------
    ValueError
        If a ratio of noise is not one that the sampler can draw with.
    """
    ratios = [table.parameters.ratio for table in plan.workplaces]
    for ratio in ratios:
        check_ratio(ratio.numerator, ratio.denominator)
    measured, changed = sum(map(noise_loss, ratios), Fraction(0)), plan.target.changed_pools

    def together(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
        return measured + changed * epsilon, min(changed * delta, Fraction(1))

    record_epsilon, record_delta = together(homes.record_epsilon, homes.record_delta)
    presence = homes.presence
    if presence is not None:
        presence = replace(
            presence,
            epsilon=measured / 2 + presence.epsilon,
            record_epsilon=measured / 2 + presence.record_epsilon,
        )
    return Guarantee(
        epsilon=together(homes.epsilon, homes.delta)[0],
        delta=homes.delta,  # the same set of outputs serves neighbours that differ in several pools
        record_epsilon=record_epsilon,
        record_delta=record_delta,
        curve=tuple(together(*point) for point in homes.curve),
        classes=(*homes.classes, *(table_class(t) for t in plan.workplaces)),
        presence=presence,
    )
