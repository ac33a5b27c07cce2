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
from pipelines.release.pages import number, phrases, render
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


@dataclass(frozen=True)
class _Less:
    """What the page says of people who know less: rows of its tables, and what its notes depend on."""

    pools: list[str]  # of which sizes
    jobs: list[str]
    factors: list[list[str]]
    largest: str
    shares: list[list[str]]
    alike_by: tuple[str, ...]
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
    def language(self) -> str:
        """That of the release."""
        return self.plan.config.release.language

    def text(self) -> str:
        """Return the page for people, as Markdown."""
        say = phrases(self.language)
        return render(
            "attackers.md.j2",
            self.language,
            **promised(self.certificate, self.language),
            name=self.plan.config.release.name,
            plan=self.plan.numeric,
            candidates=[say.candidates(k) for k in _CANDIDATES],
            shares=self._shares(self.factor),
            shares_without=self._shares(Fraction(1)),
            less=self._less() if self.attackers else None,
        )

    def odds(self, groups: Iterable[NDArray[np.bool_]]) -> list[list[Change]]:
        """Return the largest change of odds in groups of pools, for each class of attackers."""
        return changes_of_groups(self.plan.numeric, self.attackers, groups)

    def _less(self) -> _Less:
        say, groups = phrases(self.language), _groups(self.plan.numeric.pools.n)
        changes = self.odds(pools for _, pools, _ in groups)
        jobs = [n for _, _, n in groups]
        largest = jobs.index(max(jobs))
        classes = [
            [
                say.knowing[attacker.knowledge],
                surety_in_words(attacker, self.language) if i else say.surety_of_all,
            ]
            for i, attacker in enumerate(self.attackers)
        ]
        names = [say.pools_of(*sizes) for sizes, _, _ in groups]
        return _Less(
            pools=names,
            jobs=[number(f"{n:,}", self.language) for n in jobs],
            factors=[
                [*words, *(self._mark(change[i]) for change in changes)] for i, words in enumerate(classes)
            ],
            largest=names[largest],
            shares=[
                [*words, *self._shares(change.odds)]
                for words, change in zip(classes, changes[largest], strict=True)
            ],
            alike_by=self.plan.pools.pooling.by,
            coins=set(self.plan.numeric.parameters.to_json()["retention"]) != {"1"},
            some_exact=some_exact(self.plan.numeric, self.attackers),
        )

    def _shares(self, odds: Fraction) -> list[str]:
        """Return the largest probability of each number of candidates, rounded up."""
        shares = (synth.decimal_up(best_share(odds, k), 3) for k in _CANDIDATES)
        return [number(share, self.language) for share in shares]

    def _mark(self, change: Change) -> str:
        """Return a change of odds, rounded up, with a star where it is exact."""
        rounded = number(f"{Decimal(synth.decimal_up(change.odds, 3)):,f}", self.language)
        return rounded + ("*" if change.exact else "")


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
    size, drawn once, and nothing else.
    """
    numeric = plan.numeric
    if (
        numeric.mechanism != "dirichlet"
        or numeric.workplaces
        or numeric.target.record_range is not None
        or plan.implicates.runs > 1
    ):
        return AttackersReport(plan, certificate, ())
    return AttackersReport(plan, certificate, attackers)


def surety_in_words(attackers: Attackers, language: str) -> str:
    """Say how sure attackers are of what they believe about the homes of a pool."""
    say = phrases(language)
    if attackers.stubbornness is None:
        return say.surety_of_noise
    return say.surety(synth.decimal_up(attackers.stubbornness, 6))


def _groups(n: NDArray[np.int64]) -> list[tuple[tuple[int, int | None], NDArray[np.bool_], int]]:
    """Return sizes from and to, pools and jobs of each group of pools by size that is not empty."""
    groups = []
    for low, end in zip(_SIZES, (*_SIZES[1:], None), strict=True):
        pools = (n >= low) & (n < end if end else True)
        if pools.any():
            groups.append(((low, end and end - 1), pools, int(n[pools].sum())))
    return groups
