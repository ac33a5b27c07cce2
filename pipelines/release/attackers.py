"""What could somebody learn about you: the page of a release, from its plan alone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.plans.plan import ReleasePlan
from pipelines.release.certificate import (
    AttributeField,
    Certificate,
    policy_in_words,
    population_in_words,
)
from pipelines.release.promises import odds_in_words, presence_in_words
from synth.dirichlet.attackers import Change, best_share, changes_of_groups, some_exact
from synth.tails import exp_up

ATTACKERS_FILE = "attackers.md"
STUBBORNNESS = ("1", "10", "100")
"""How many homes seen the belief of attackers weighs as much as, where nothing else is asked for."""

_WIDTH = 110
_SIZES = (1, 2, 10, 100, 1_000)  # jobs of the smallest pool of each group
_CANDIDATES = (2, 10, 100, 1_000)
KNOWING = {
    "all but one job": "the home of every other job",
    "a random half": "the homes of half of the other jobs",
    "one co-worker": "the home of one other job",
    "public tables only": "public tables only",
}
"""What somebody knows, in words, by `synth.KNOWLEDGE`."""


@dataclass(frozen=True, eq=False)
class AttackersReport:
    """What attackers can gain from a release of a plan, in odds and in correct guesses.

    Attributes
    ----------
    plan : ReleasePlan
    certificate : Certificate
        Of the plan, with what it promises against everybody.
    attackers : tuple of synth.Attackers
        The classes of attackers; the first knows all other jobs. None where such are not bounded.
    """

    plan: ReleasePlan
    certificate: Certificate
    attackers: tuple[synth.Attackers, ...]

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
        certificate = self.certificate
        name = self.plan.config.release.name
        promised = [
            odds_in_words(certificate),
            presence_in_words(certificate),
            population_in_words(certificate.population, protected=certificate.presence is not None),
            policy_in_words(certificate),
        ]
        paragraphs = [
            "# What could somebody learn about you?",
            f"{name}: {certificate.totals.synthetic_workers:,} synthetic workers.",
            _fill(
                "Somebody wonders where you live, and sees the release. By how much can your own job in it "
                "change the odds between two homes that may be yours? That depends on what they know "
                "already. All numbers here follow from the public plan alone; `odsynth attackers` on the "
                "folder computes them again."
            ),
            "## Somebody who knows everything else",
            *(_fill(words) for words in promised if words),
            _fill(self._of_candidates()),
            self._everybody(),
            "## Somebody who knows less",
            self._less() if self.attackers else _fill(self._why_not()),
            _fill(
                "Not counted is what the release teaches about everybody, with your job or without. Where "
                "nothing else is said, one job in one release of this plan is meant; for several releases, "
                "epsilon and delta are what adds up."
            ),
        ]
        return "\n\n".join(paragraphs) + "\n"

    def odds(self, groups: Iterable[NDArray[np.bool_]]) -> list[list[Change]]:
        """Return the largest change of odds in groups of pools, for each class of attackers."""
        return changes_of_groups(self.plan.numeric, self.attackers, groups)

    def _of_candidates(self) -> str:
        certificate, where = self.certificate, []
        if certificate.policy:
            where.append(certificate.policy.of_two_homes)
        if certificate.population:
            where.append("inside the geography")
        these = f" ({', '.join(where)})" if where else ""
        delta = self.certificate.run.delta
        more = f", and {delta} more" if Fraction(delta) else ""
        return (
            f"Where homes{these} are equally likely for a job, somebody who knows everything else and "
            f"guesses which it is, is right with at most this probability{more}:"
        )

    def _everybody(self) -> str:
        shares = [best_share(self.factor, k) for k in _CANDIDATES]
        return _table(
            ["", *_heads_of_candidates()],
            [
                ["sees the release", *(synth.decimal_up(share, 3) for share in shares)],
                ["sees no release", *_guesses_without()],
            ],
            words=1,
        )

    def _why_not(self) -> str:
        numeric = self.plan.numeric
        if numeric.mechanism != "dirichlet":
            reason = "whose homes are estimated from noisy tables"
        elif numeric.record_range is not None:
            reason = "whose numbers of records are confidential"
        else:
            reason = "that is drawn several times"
        return (
            f"For a release {reason}, nothing smaller is computed for people who know less. They guess right "
            "no more often than the table above says, where what they believe about your home does not "
            "depend on the homes of others."
        )

    def _less(self) -> str:
        groups = _groups(self.plan.numeric.pools.n)
        changes = self.odds(pools for _, pools, _ in groups)
        most = max(range(len(groups)), key=lambda i: groups[i][2])
        notes = [
            f"*Knows*: of the jobs in the same pool. A pool is {self._pool()}; homes are drawn pool by pool. "
            "Whose homes are known does not matter: the factor is for those that help most.",
            "*As sure as*: how stubborn the belief about homes in the pool is, before any is known or seen. "
            "Its weight is that of so many homes seen, whatever it says; or, as *the noise*, in no cell more "
            "than that of the noise which the plan adds there. Who is surer, or knows more, may gain more, "
            f"but never more than the first row says{self._coins()}. A belief about the homes of one pool by "
            "itself is meant.",
            self._exactness(),
        ]
        policy = self.certificate.policy
        if isinstance(policy, AttributeField):
            notes.append(f"A home is here one together with some {policy.listed}.")
        compared = (
            "Hardly anybody knows every other job. What they hold is compared with what they would hold, "
            "seeing the same, had the release been made without your job. The odds change by a factor of at "
            "most these, without exception, whatever is released:"
        )
        guessed = (
            f"In pools of {groups[most][0]}, where the most jobs are, the likeliest of homes that would be "
            "equally likely without your job has at most this probability:"
        )
        return "\n\n".join(
            [
                _fill(compared),
                self._odds(groups, changes),
                _fill(guessed),
                self._guesses(changes[most]),
                "\n".join(textwrap.fill(f"- {note}", _WIDTH, subsequent_indent="  ") for note in notes),
            ]
        )

    def _odds(
        self, groups: Sequence[tuple[str, NDArray[np.bool_], int]], changes: Sequence[list[Change]]
    ) -> str:
        rows = [
            [KNOWING[one.knowledge], _sure(i, one), *(_mark(change[i]) for change in changes)]
            for i, one in enumerate(self.attackers)
        ]
        rows.append(["jobs in such pools", "", *(f"{jobs:,}" for _, _, jobs in groups)])
        return _table(["knows", "as sure as", *(f"pools of {name}" for name, _, _ in groups)], rows, words=2)

    def _guesses(self, changes: Sequence[Change]) -> str:
        rows = [
            [
                KNOWING[one.knowledge],
                _sure(i, one),
                *(synth.decimal_up(best_share(change.odds, k), 3) for k in _CANDIDATES),
            ]
            for i, (one, change) in enumerate(zip(self.attackers, changes, strict=True))
        ]
        rows.append(["sees no release", "", *_guesses_without()])
        return _table(["knows", "as sure as", *_heads_of_candidates()], rows, words=2)

    def _pool(self) -> str:
        by = [*self.plan.pools.pooling.by]
        if self.plan.policy.n_parts > 1:
            by.append(f"{self.plan.part_in_words} of the home")
        alike = f", with the same {' and '.join(by)}" if by else ""
        return f"the jobs of a work block, or of several that share an urn{alike}"

    def _coins(self) -> str:
        if set(self.plan.numeric.parameters.to_json()["retention"]) == {"1"}:
            return ""
        return ", but for what coins of empty cells may add, which the other rows count"

    def _exactness(self) -> str:
        if some_exact(self.plan.numeric, self.attackers):
            return (
                "Factors with a star are exact: some of these attackers come as near to them as one likes. "
                "All others are upper bounds."
            )
        return "All factors are upper bounds."


def attackers_of(stubbornness: Iterable[str] = STUBBORNNESS) -> tuple[synth.Attackers, ...]:
    """Return the classes of attackers of a page: who knows everything, then others by what they believe.

    Parameters
    ----------
    stubbornness : iterable of str
        Sums of sigma of classes of attackers, exact numbers as text: the weight of their belief, in homes
        seen.

    Raises
    ------
    ValueError
        If one is no number, or not positive.
    """
    sure = [None, *(synth.exact(value, "stubbornness") for value in stubbornness)]
    first, *others = synth.KNOWLEDGE
    return (
        synth.Attackers(first),
        *(synth.Attackers(knowledge, one) for knowledge in others for one in sure),
    )


def describe_attackers(
    plan: ReleasePlan, certificate: Certificate, attackers: tuple[synth.Attackers, ...]
) -> AttackersReport:
    """Return what attackers can gain from a release of a plan.

    Parameters
    ----------
    plan : ReleasePlan
    certificate : Certificate
        Of it, or what it will promise (`pipelines.release.certificate.promise`).
    attackers : tuple of synth.Attackers
        As of `attackers_of`.

    Returns
    -------
    AttackersReport
        Without classes of attackers where the plan is another than Dirichlet resampling from pools of a
        public size, drawn once.
    """
    numeric = plan.numeric
    if numeric.mechanism != "dirichlet" or numeric.record_range is not None or plan.implicates.runs > 1:
        return AttackersReport(plan, certificate, ())
    return AttackersReport(plan, certificate, attackers)


def surety_in_words(one: synth.Attackers) -> str:
    """Say how sure attackers are of what they believe about the homes of a pool."""
    if one.stubbornness is None:
        return "the noise"
    return f"{synth.decimal_up(one.stubbornness, 6)} home{'' if one.stubbornness == 1 else 's'} seen"


def _sure(number: int, one: synth.Attackers) -> str:
    return "anything" if number == 0 else surety_in_words(one)


def _groups(n: NDArray[np.int64]) -> list[tuple[str, NDArray[np.bool_], int]]:
    """Return name, pools and jobs of each group of pools by size that is not empty."""
    found = []
    for low, high in zip(_SIZES, (*_SIZES[1:], None), strict=True):
        pools = (n >= low) & (n < high if high else True)
        if pools.any():
            end = f" to {high - 1:,} jobs" if high and high > low + 1 else " job" if high else " jobs or more"
            found.append((f"{low:,}{end}", pools, int(n[pools].sum())))
    return found


def _heads_of_candidates() -> list[str]:
    return [f"{k:,} candidates" for k in _CANDIDATES]


def _guesses_without() -> list[str]:
    return [synth.decimal_up(Fraction(1, k), 3) for k in _CANDIDATES]


def _mark(change: Change) -> str:
    return f"{Decimal(synth.decimal_up(change.odds, 3)):,f}" + ("*" if change.exact else "")


def _fill(words: str) -> str:
    return textwrap.fill(words, _WIDTH, break_on_hyphens=False)


def _table(heads: list[str], rows: list[list[str]], *, words: int) -> str:
    """Return a table of Markdown whose columns are as wide as their words; the first so many are words."""
    wide = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "| "
        + " | ".join(
            f"{cell:{'<' if i < words else '>'}{w}}"
            for i, (cell, w) in enumerate(zip(row, wide, strict=True))
        )
        + " |"
        for row in (heads, *rows)
    ]
    rule = "|" + "|".join("-" * (w + 1) + ("-" if i < words else ":") for i, w in enumerate(wide)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
