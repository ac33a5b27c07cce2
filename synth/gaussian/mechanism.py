"""Discrete Gaussian noise on the counts of cells: a mechanism whose releases add up in zCDP.

Every cell of a measured table, empty or not, gets independent noise: z with a probability proportional to
e^(-z^2/(2 sigma^2)). For one release two-sided geometric noise is smaller; of many releases about the same
records, this is. docs/privacy.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from synth.concentrated import (
    delta_of,
    epsilon_of,
    probabilistic_epsilon_of,
    probabilistic_rho_within,
    rho_within,
)
from synth.gaussian.noise import MOST_VARIANCE
from synth.gaussian.parameters import GaussianClass, GaussianParameters
from synth.geometric.measured import MeasuredTable
from synth.geometric.mechanism import (
    Measuring,
    joint_loss,
    sizes_of,
    summed_in_words,
    too_much_noise,
)
from synth.mechanism import Guarantee
from synth.noise import Noise
from synth.plan import Domains, Plan, Pools, Target
from synth.rationals import decimal_up

CURVE = tuple(Fraction(k, 4) for k in (2, 3, 4, 5, 6))
"""Epsilons at which a record-level delta is stated, as parts of what was asked for."""


class Gaussian(Measuring):
    """Add discrete Gaussian noise to the counts of all cells of measured tables."""

    name = "gaussian"
    settings = frozenset({"tables", "delta", "rho"})
    chosen = False
    delta_sharing = "There is nothing to share: the delta of the run is that of all {records} together."
    noise = GaussianParameters

    def _noises(
        self, target: Target, shares: Sequence[Fraction], pools: Pools, domains: Domains
    ) -> list[Noise]:
        """Return the least sigma^2 of each table with which the run has the guarantee that is asked for."""
        _refuse(target, domains)
        least = 1 / (MOST_VARIANCE * min(shares))
        needed, enough = (least * (1 + Fraction(k, 2**20)) for k in (1, 2))  # numbers are rounded on the way
        if target.guarantee == "dp":
            rho, smallest = rho_within(target.epsilon, target.delta), epsilon_of(enough, target.delta)
        else:
            of_all = neighbours(pools, domains)
            rho = probabilistic_rho_within(target.epsilon, target.delta, of_all)
            smallest = probabilistic_epsilon_of(enough, target.delta, of_all)
        if rho < needed:
            raise too_much_noise(target, smallest)
        return [GaussianParameters.of_rho(rho * share) for share in shares]

    def certify(self, plan: Plan) -> Guarantee:
        """Compute the guarantee of a plan from the plan alone, in ball arithmetic, rounded up.

        Lemma 50 of docs/privacy.md.

        Raises
        ------
        ValueError
            If sigma^2 is not one that the sampler can draw with, a pool is too large for it, or more than
            homes is protected.
        """
        self._check(plan)
        target = plan.target
        _refuse(target, plan.domains)
        of_all = neighbours(plan.pools, plan.domains)
        sets, rows = self._classes(plan, partial(_table_class, target, of_all))
        # A record is in one group of every table, so what those add that it changes together adds up.
        rho = joint_loss(sets, [row.rho for row in rows])
        epsilons = [target.epsilon * part for part in CURVE]
        return Guarantee(
            epsilon=probabilistic_epsilon_of(rho, target.delta, of_all),
            delta=target.delta if rho else Fraction(0),
            record_epsilon=target.epsilon,
            record_delta=delta_of(rho, target.epsilon),
            curve=tuple((epsilon, delta_of(rho, epsilon)) for epsilon in epsilons),
            classes=tuple(rows),
            rho=rho,
        )

    def explain(self, plan: Plan, guarantee: Guarantee) -> tuple[str, str]:
        """Say what is added to the cells, and what epsilon pays for."""
        ratios = self._parameters(plan).ratios
        numbers = " and ".join(f"{float(ratio):.6g}" for ratio in ratios)
        # Below sigma^2 = 1 noise varies less than sigma says.
        sizes = " and ".join(f"{table.law.variance**0.5:.2g}" for table in self.tables(plan))
        per = ", one a table" if len(ratios) > 1 else ""
        rho = decimal_up(guarantee.rho or Fraction(0), 6)
        return (
            f"discrete Gaussian noise, {sizes} workers up or down as a standard deviation{per}; "
            "every cell is kept",
            # Of a release of several runs, which have this noise each.
            f"noise rho = 1/sigma^2{summed_in_words(plan)} with sigma^2 = {numbers}{per}; "
            f"the release is {rho}-zCDP",
        )


def neighbours(pools: Pools, domains: Domains) -> int:
    """Return how many other homes all jobs together can have: as many neighbours an input has at most.

    Lemma 50 of docs/privacy.md.
    """
    return pools.n_records * domains.n_blocks


def _table_class(target: Target, of_all: int, table: MeasuredTable, differ: bool) -> GaussianClass:
    """Return the guarantee of the counts of a table by themselves, in which neighbours may differ or not."""
    ratio = table.parameters.ratio
    rho = 1 / ratio if differ else Fraction(0)
    return GaussianClass(
        **sizes_of(table),
        epsilon=probabilistic_epsilon_of(rho, target.delta, of_all),
        delta=target.delta if rho else Fraction(0),
        record_delta=delta_of(rho, target.epsilon),
        sigma_squared=ratio,
        rho=rho,
    )


def _refuse(target: Target, domains: Domains) -> None:
    """Refuse what discrete Gaussian noise has no bounds for."""
    if target.delta == 0:
        raise ValueError("discrete Gaussian noise has no guarantee with a delta of 0")
    if target.record_range is not None or domains.policy.secret:
        raise ValueError("discrete Gaussian noise has bounds for homes alone")
