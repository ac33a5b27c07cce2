"""What could somebody learn about you: the page of a release, from its plan alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.plans.plan import ReleasePlan
from pipelines.release.certificate import Certificate
from pipelines.release.pages import render
from pipelines.release.promises import promised
from synth.dirichlet.attackers import (
    KNOWLEDGE,
    Attackers,
    Change,
    best_share,
    changes_of_groups,
    some_exact,
)
from synth.tails import exp_up

ATTACKERS_FILE = "attackers.md"
STUBBORNNESS = ("1", "10", "100")
"""How many homes seen the belief of attackers weighs as much as, where nothing else is asked for."""

_SIZES = (1, 2, 10, 100, 1_000)  # jobs of the smallest pool of each group
_CANDIDATES = (2, 10, 100, 1_000)
KNOWING = {
    "all but one job": "the home of every other job",
    "a random half": "the homes of half of the other jobs",
    "one co-worker": "the home of one other job",
    "public tables only": "public tables only",
}
"""What somebody knows, in words, by `synth.dirichlet.attackers.KNOWLEDGE`."""


@dataclass(frozen=True)
class _Less:
    """What the page says of people who know less: rows of its tables, and what its notes depend on."""

    pools: list[str]  # of which sizes
    jobs: list[str]
    factors: list[list[str]]
    largest: str
    shares: list[list[str]]
    alike_by: list[str]
    coins: bool
    some_exact: bool


@dataclass(frozen=True, eq=False)
class AttackersReport:
    """What attackers can gain from a release of a plan, in odds and in correct guesses.

    The first class of attackers knows all other jobs; there are none where attackers are not bounded.
    """

    plan: ReleasePlan
    certificate: Certificate
    attackers: tuple[Attackers, ...]

    def __repr__(self) -> str:
        name = self.plan.config.release.name
        return f"<AttackersReport: {name}; {len(self.attackers)} classes of attackers; text() has the page>"

    @property
    def factor(self) -> Fraction:
        """By which the odds between two homes change at most, whoever looks, but for delta; rounded up."""
        return exp_up(Fraction(self.certificate.run.epsilon))

    @property
    def exception(self) -> str:
        """What is said of delta after something that holds but for it; nothing where it is 0."""
        delta = self.certificate.run.delta
        return f", except with probability {delta}" if Fraction(delta) else ""

    def text(self) -> str:
        """Return the page for people, as Markdown."""
        return render(
            "attackers.md.j2",
            **promised(self.certificate),
            name=self.plan.config.release.name,
            plan=self.plan.numeric,
            candidates=[f"{k:,} candidates" for k in _CANDIDATES],
            shares=_shares(self.factor),
            shares_without=_shares(Fraction(1)),
            less=self._less() if self.attackers else None,
        )

    def odds(self, groups: Iterable[NDArray[np.bool_]]) -> list[list[Change]]:
        """Return the largest change of odds in groups of pools, for each class of attackers."""
        return changes_of_groups(self.plan.numeric, self.attackers, groups)

    def _less(self) -> _Less:
        groups = _groups(self.plan.numeric.pools.n)
        changes = self.odds(pools for _, pools, _ in groups)
        jobs = [n for _, _, n in groups]
        largest = jobs.index(max(jobs))
        classes = [
            [KNOWING[attacker.knowledge], surety_in_words(attacker) if i else "anything"]
            for i, attacker in enumerate(self.attackers)
        ]
        alike_by = [*self.plan.pools.pooling.by]
        if self.plan.policy.n_parts > 1:
            alike_by.append(f"{self.plan.part_in_words} of the home")
        return _Less(
            pools=[name for name, _, _ in groups],
            jobs=[f"{n:,}" for n in jobs],
            factors=[[*words, *(_mark(change[i]) for change in changes)] for i, words in enumerate(classes)],
            largest=groups[largest][0],
            shares=[
                [*words, *_shares(change.odds)]
                for words, change in zip(classes, changes[largest], strict=True)
            ],
            alike_by=alike_by,
            coins=set(self.plan.numeric.parameters.to_json()["retention"]) != {"1"},
            some_exact=some_exact(self.plan.numeric, self.attackers),
        )


def attackers_of(stubbornness: Iterable[str] = STUBBORNNESS) -> tuple[Attackers, ...]:
    """Return who knows everything, then classes of attackers by what they believe.

    `stubbornness` are sums of sigma, exact numbers as text: the weight of their belief, in homes seen. Raises
    ValueError if one is no number, or not positive.
    """
    sure = [None, *(synth.exact(value, "stubbornness") for value in stubbornness)]
    first, *others = KNOWLEDGE
    return (
        Attackers(first),
        *(Attackers(knowledge, belief) for knowledge in others for belief in sure),
    )


def describe_attackers(
    plan: ReleasePlan, certificate: Certificate, attackers: tuple[Attackers, ...]
) -> AttackersReport:
    """Return what attackers can gain from a release of a plan with this certificate, or such a promise.

    Without classes of attackers where the plan is another than Dirichlet resampling from pools of a public
    size, drawn once.
    """
    numeric = plan.numeric
    if (
        numeric.mechanism != "dirichlet"
        or numeric.target.record_range is not None
        or plan.implicates.runs > 1
    ):
        return AttackersReport(plan, certificate, ())
    return AttackersReport(plan, certificate, attackers)


def surety_in_words(attackers: Attackers) -> str:
    """Say how sure attackers are of what they believe about the homes of a pool."""
    if attackers.stubbornness is None:
        return "the noise"
    return (
        f"{synth.decimal_up(attackers.stubbornness, 6)} home{'' if attackers.stubbornness == 1 else 's'} seen"
    )


def _groups(n: NDArray[np.int64]) -> list[tuple[str, NDArray[np.bool_], int]]:
    """Return name, pools and jobs of each group of pools by size that is not empty."""
    groups = []
    for low, high in zip(_SIZES, (*_SIZES[1:], None), strict=True):
        pools = (n >= low) & (n < high if high else True)
        if pools.any():
            end = f" to {high - 1:,} jobs" if high and high > low + 1 else " job" if high else " jobs or more"
            groups.append((f"pools of {low:,}{end}", pools, int(n[pools].sum())))
    return groups


def _shares(odds: Fraction) -> list[str]:
    """Return the largest probability of each number of candidates, rounded up."""
    return [synth.decimal_up(best_share(odds, k), 3) for k in _CANDIDATES]


def _mark(change: Change) -> str:
    return f"{Decimal(synth.decimal_up(change.odds, 3)):,f}" + ("*" if change.exact else "")
