"""Two-sided geometric noise on the counts of cells: the second mechanism, pure differential privacy.

Every cell of a measured table, empty or not, gets independent noise: z with a probability proportional to
p^|z|. Noisy counts are all that is ever computed from confidential ones. `synth.posterior.estimation` and
`synth.posterior.rounding` make synthetic workers of them. What is the same for noise of another law is in
`Measuring`. docs/privacy.md has the proofs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from synth.dirichlet.calibration import BudgetTooSmallError
from synth.geometric.measured import MeasuredTable
from synth.geometric.parameters import GeometricClass, GeometricParameters
from synth.geometric.projection import MAX_MASS
from synth.mechanism import ClassGuarantee, Guarantee, Mechanism, Presence
from synth.noise import Noise
from synth.plan import Domains, Plan, Pools, Table, Target
from synth.rationals import decimal_up, exact
from synth.tails import rigorous, upper_fraction

_TOTAL = 2**62  # P + Q: one word then decides, without rejection, whether and where noise begins
SMALLEST_EPSILON = Fraction(1, 1000)
"""Of a table: below, the noise of one cell takes more than 2,000 words of the sampler."""

Sets = frozenset[tuple[bool, ...]]
"""Sets of measured tables: of each, whether each table is in it."""

Class = TypeVar("Class", bound=ClassGuarantee)


class Measuring(Mechanism):
    """Add noise to the counts of all cells of measured tables: what mechanisms that do have in common.

    Attributes
    ----------
    noise : type of Noise
        The numbers of the noise.
    """

    noise: type[Noise]
    words = "counts of confidential records in cells, to each of which random noise was added"

    def calibrate(
        self,
        pools: Pools,
        domains: Domains,
        retention: tuple[Fraction, ...],
        target: Target,
        *,
        rough: bool = False,
        count: Callable[[int, int], None] | None = None,
        secondary: Sequence[tuple[Table, Fraction]] = (),
        workplaces: Sequence[tuple[Table, Fraction]] = (),
    ) -> Plan:
        """Choose for each measured table the least noise whose certified loss is at most its share.

        Shares are of epsilon, or of the rho that gives it. Where no neighbours differ in all tables, they are
        of the sum of all losses, which is then larger (`joint_loss`).

        Parameters
        ----------
        pools, domains, retention, target, rough, count
            As for `Mechanism.calibrate`, whose errors are raised. The retention is 1 for every stratum: no
            cell is pruned. Any number of records is fine: of a range nothing is used but that there is one.
            Every plan is exact, also a rough one, and nothing is counted: it takes no time.
        secondary : sequence of (Table, Fraction)
            Secondary tables of the same records that are measured, each with its exact share, in (0, 1). The
            first table, of pools and domains, has what they leave.
        workplaces : sequence of (Table, Fraction)
            Tables of workplaces, likewise (`Plan.workplaces`).
        """
        if any(exact(f, "retention") != 1 for f in retention):
            raise ValueError("noise on counts keeps every cell: every retention must be 1")
        shares = [exact(share, "the share of a table") for _, share in (*secondary, *workplaces)]
        shares.insert(0, 1 - sum(shares, Fraction(0)))
        tables = tuple(table for table, _ in secondary)
        if min(shares) <= 0:
            raise ValueError(
                "every measured table must have a share of epsilon above 0, and the shares must add up to 1"
            )
        if target.protects == "record" or domains.policy.secret:  # neighbours differ in every table
            changed = Fraction(1)
        else:
            changed = joint_loss(changed_tables([domains, *(table.domains for table in tables)]), shares)
        if target.record_range is not None:  # one record more changes every table, at half of the loss
            changed = max(changed, Fraction(1, 2))
        noises = self._noises(target, [share / (changed or 1) for share in shares], pools, domains)
        parameters = replace(noises[0], secondary=tuple(noises[1 : 1 + len(tables)]))
        measured = tuple(
            MeasuredTable(table.n, table.domain, table.domains, noises[i])
            for i, (table, _) in enumerate(workplaces, start=1 + len(tables))
        )
        pool_class = np.zeros(pools.n_pools, np.int32)
        plan = Plan(self.name, target, pools, domains, pool_class, parameters, tables, measured)
        self._check(plan)
        return plan

    @abstractmethod
    def _noises(
        self, target: Target, shares: Sequence[Fraction], pools: Pools, domains: Domains
    ) -> list[Noise]:
        """Return the least noise of each table, by its share; if it is too much for the sampler, raise.

        Shares add up to 1 or more: the tables that neighbours can differ in together have 1.
        """

    def parameters_from_json(self, data: dict[str, Any]) -> Noise:
        """Read the parameters of a stored plan."""
        return self.noise.from_json(data)

    def as_of_all(self, plan: Plan, share: float) -> Plan:
        """Return the plan of a sample with less noise in secondary tables."""
        parameters = self._parameters(plan)
        # The standard deviation is that part of what it was; in floats.
        less = (self.noise.of_variance(table.variance * share**2) for table in parameters.secondary)
        secondary = tuple(less) if share < 1 else ()
        return replace(plan, parameters=replace(parameters, secondary=secondary)) if secondary else plan

    def tables(self, plan: Plan) -> tuple[MeasuredTable, ...]:
        """Return the table of the pools and the secondary ones, each with its noise."""
        parameters = self._parameters(plan)
        numbers: list[Noise] = [replace(parameters, secondary=()), *parameters.secondary]
        return tuple(
            MeasuredTable(table.n, table.domain, table.domains, noise)
            for table, noise in zip(tables_of_homes(plan), numbers, strict=True)
        )

    def noise_share(self, plan: Plan) -> float:
        """Return the expected share of noise among the workers that noisy counts hold (not a bound).

        Per pool, the positive noise that its cells expect over that and its slots, weighted by draws.
        """
        mass = plan.k * self._parameters(plan).law.mean_above
        return float(np.average(mass / (mass + plan.pools.n), weights=plan.pools.m))

    def _classes(
        self, plan: Plan, class_of: Callable[[MeasuredTable, bool], Class]
    ) -> tuple[Sets, list[Class]]:
        """Return the sets of tables that neighbours change together, and the guarantee of each table.

        `class_of` returns that of a table by itself, in which some neighbours differ or none.
        """
        tables = (*self.tables(plan), *plan.workplaces)
        if plan.changes_workplaces:
            sets = frozenset([(True,) * len(tables)])
        else:
            sets = changed_tables([table.domains for table in tables])
        differ = map(any, zip(*sets, strict=True))
        first, *others = (class_of(*of_table) for of_table in zip(tables, differ, strict=True))
        return sets, [replace(first, m_max=int(plan.pools.m.max())), *others]

    def _parameters(self, plan: Plan) -> Noise:
        if not isinstance(plan.parameters, self.noise):
            raise TypeError(f"the plan is not one of the mechanism {self.name}")
        return plan.parameters

    def _check(self, plan: Plan) -> None:
        """Check that the sampler can draw with every number, and hold every pool."""
        parameters = self._parameters(plan)
        numbers: list[Noise] = [parameters, *parameters.secondary]
        for number in (*numbers, *(table.parameters for table in plan.workplaces)):
            number.check()
        if len(parameters.secondary) != len(plan.secondary):
            raise ValueError("every measured table of the plan needs its own noise")
        if plan.pool_class.any():
            raise ValueError("a pool names an unknown class")
        for table in (*tables_of_homes(plan), *plan.workplaces):
            sizes = zip(table.k.tolist(), table.n.tolist(), strict=True)
            if any(cells * jobs > MAX_MASS for cells, jobs in sizes):
                raise ValueError("the cells and slots of a pool do not fit the sampler's 61 bits")


class Geometric(Measuring):
    """Add two-sided geometric noise to the counts of all cells of measured tables."""

    name = "geometric"
    settings = frozenset({"workplaces", "tables", "pure", "tiers"})
    delta_sharing = "There is nothing to share: no pool fails, delta is 0."
    noise = GeometricParameters

    def _noises(
        self, target: Target, shares: Sequence[Fraction], pools: Pools, domains: Domains
    ) -> list[Noise]:
        """Return the smallest p of each table; of delta nothing is used, and both guarantees are met.

        The epsilon of each table is at least 1/1000, because of the sampler.
        """
        if target.epsilon * min(shares) < SMALLEST_EPSILON:
            raise too_much_noise(target, SMALLEST_EPSILON / min(shares))
        return [calibrated_noise(target.epsilon * share) for share in shares]

    def certify(self, plan: Plan) -> Guarantee:
        """Compute the guarantee of a plan from the plan alone, in ball arithmetic, rounded up.

        Lemma 33 of docs/privacy.md; of secret attributes, Lemma 41; of whole records, Lemma 43.

        Raises
        ------
        ValueError
            If p is not a ratio that the sampler can draw with, or a pool is too large for it.
        """
        self._check(plan)
        zero, (sets, rows) = Fraction(0), self._classes(plan, table_class)
        # A record is in one group of every table, so what those lose that it changes together adds up.
        loss = joint_loss(sets, [row.epsilon for row in rows])
        presence = None
        if (
            plan.target.record_range is not None
        ):  # a release costs no less than what it tells of one record more
            alone = sum((presence_loss(row.ratio) for row in rows), zero)
            loss, presence = max(loss, alone), Presence(alone, zero, alone, zero)
        return Guarantee(loss, zero, loss, zero, ((loss, zero),), tuple(rows), presence)

    def explain(self, plan: Plan, guarantee: Guarantee) -> tuple[str, str]:
        """Say what is added to the cells, and what epsilon pays for."""
        of_workplaces = [table.parameters.ratio for table in plan.workplaces]
        ratios = [float(ratio) for ratio in (*of_workplaces, *self._parameters(plan).ratios)]
        sizes = " and ".join(f"{2 * p / (1 - p * p):.2g}" for p in ratios)
        numbers = " and ".join(f"{p:.6g}" for p in ratios)
        per = ", one a table" if len(ratios) > 1 else ""
        return (
            f"two-sided geometric noise, {sizes} workers up or down in the mean{per}; every cell is kept",
            f"noise 2 ln(1/p){summed_in_words(plan)} with p = {numbers}{per}; nothing fails",
        )


def too_much_noise(target: Target, smallest: Fraction) -> BudgetTooSmallError:
    """Return the error that an epsilon is below the smallest for which the sampler is made."""
    rule = f"epsilon {decimal_up(target.epsilon)} needs more noise than the sampler is made for"
    return BudgetTooSmallError(rule, lambda: smallest)


def tables_of_homes(plan: Plan) -> tuple[Table, ...]:
    """Return the table of the pools and the secondary ones."""
    return (Table(plan.pools.n, plan.pools.domain, plan.domains), *plan.secondary)


def summed_in_words(plan: Plan) -> str:
    """Say over which tables losses are added up; nothing where there is one."""
    if not any(map(all, changed_tables([table.domains for table in tables_of_homes(plan)]))):
        return ", added up over tables that neighbours can differ in together,"
    return ", added up" if plan.secondary or plan.workplaces else ""


def changed_tables(tables: Sequence[Domains]) -> Sets:
    """Return the sets of measured tables that some edge of the policy changes together.

    Lemma 40 of docs/privacy.md.

    Parameters
    ----------
    tables : sequence of Domains
        Cells of every measured table, all under one policy. An edge is taken to change a table if it does in
        some domain of it.

    Returns
    -------
    frozenset of tuple of bool
        For each set, whether each table is in it: every set that is in no other, and some that are.
    """
    policy = tables[0].policy
    changed = np.empty((policy.n_parts if policy.reach is None else policy.reach.size, len(tables)), np.bool_)
    for number, domains in enumerate(tables):
        if policy.reach is None:  # the edge between the ends of a part changes all that others in it change
            changed[:, number] = np.bincount(domains.part, domains.n_cells > 1, policy.n_parts) > 0
            continue
        # Of the edges from a block to later ones, that to the last changes all that the others change.
        cuts, blocks = np.unique(domains.cuts), np.arange(policy.reach.size)
        before, after = (np.searchsorted(cuts, ends, side="right") for ends in (blocks, policy.reach))
        changed[:, number] = before < after
    return frozenset(map(tuple, np.unique(changed, axis=0).tolist()))


def joint_loss(sets: Sets, losses: Sequence[Fraction]) -> Fraction:
    """Return the most that the losses of tables that are changed together add up to.

    Lemma 40 of docs/privacy.md.

    Parameters
    ----------
    sets : frozenset of tuple of bool
        Of `changed_tables`.
    losses : sequence of Fraction
        Of every table, where it is changed.
    """
    added = (
        sum((x for x, is_changed in zip(losses, members, strict=True) if is_changed), Fraction(0))
        for members in sets
    )
    return max(added)


def sizes_of(table: Table) -> dict[str, Any]:
    """Return the sizes of a table as its guarantee (`ClassGuarantee`) names them."""
    least, most = int(table.n.min()), int(table.n.max())
    cells = (int(table.k.max()),)
    return {"pools": table.n.size, "n_min": least, "n_max": most, "m_max": most, "cells": cells}


def table_class(table: MeasuredTable, differ: bool = True) -> GeometricClass:
    """Return the guarantee of the counts of a table by themselves, in which neighbours may differ or not."""
    ratio = table.parameters.ratio
    return GeometricClass(
        **sizes_of(table),
        epsilon=noise_loss(ratio) if differ else Fraction(0),
        delta=Fraction(0),
        record_delta=Fraction(0),
        ratio=ratio,
    )


def noise_loss(ratio: Fraction) -> Fraction:
    """Return 2 ln(1/p), the largest loss of noisy counts, rounded up by ball arithmetic.

    Lemma 20 of docs/privacy.md.
    """
    with rigorous() as balls:
        return upper_fraction(2 * balls.log(balls.number(1 / ratio)))


def presence_loss(ratio: Fraction) -> Fraction:
    """Return ln(1/p), the largest loss of noisy counts for one record more or less, rounded up.

    Lemma 28 of docs/privacy.md; of whole records, Lemma 43.
    """
    with rigorous() as balls:
        return upper_fraction(balls.log(balls.number(1 / ratio)))


def calibrated_noise(epsilon: Fraction) -> GeometricParameters:
    """Return the smallest p = P/Q with P + Q = 2^62 whose loss, rounded up, is at most epsilon."""
    with rigorous() as balls:
        p = balls.exp(balls.number(-epsilon / 2))
        numerator = max(1, int(balls.lower(_TOTAL * p / (1 + p))))
    while numerator < _TOTAL // 2 and noise_loss(Fraction(numerator, _TOTAL - numerator)) > epsilon:
        numerator += 1
    return GeometricParameters(numerator, _TOTAL - numerator)
