"""What could somebody learn about you: what classes of attackers can gain from a release of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.planning.plan import ReleasePlan
from pipelines.planning.storage import load_plan
from pipelines.release.certificate import guarantee_fields
from pipelines.release.reader import PublicReleaseError, check_target
from pipelines.storage.durable import whole_folder
from pipelines.views.choices import STUBBORNNESS

__all__ = ["AttackersReport", "attackers"]

_PAGE, _FIGURE = "attackers.md", "attackers.png"
_SIZES = (1, 2, 10, 100, 1_000)  # jobs of the smallest pool of each group
_CANDIDATES = (2, 10, 100, 1_000)
_KNOWING = {
    "all but one job": "the home of every other job",
    "a random half": "the homes of half of the other jobs",
    "one co-worker": "the home of one other job",
    "public tables only": "public tables only",
}


@dataclass(frozen=True, eq=False)
class AttackersReport:
    """What attackers can gain from a release of a plan, in odds and in correct guesses.

    Attributes
    ----------
    plan : ReleasePlan
    guarantee : synth.Guarantee
        What the plan guarantees against everybody.
    attackers : tuple of synth.Attackers
        The classes of attackers; the first knows all other jobs.
    changes : tuple of list of synth.Change
        Of each class of attackers, the largest change of odds by class of pools.
    """

    plan: ReleasePlan
    guarantee: synth.Guarantee
    attackers: tuple[synth.Attackers, ...]
    changes: tuple[list[synth.Change], ...]

    def __repr__(self) -> str:
        name = self.plan.configuration["release"]["name"]
        return f"<AttackersReport: {name}; {len(self.attackers)} classes of attackers; text() has the page>"

    def text(self) -> str:
        """Return the page for people, as Markdown."""
        numeric, guarantee = self.plan.numeric, self.guarantee
        name = self.plan.configuration["release"]["name"]
        factor = _factor(synth.exp_up(guarantee.epsilon))
        exception = (
            f", except with probability {synth.decimal_up(guarantee.delta)}" if guarantee.delta else ""
        )
        if policy := guarantee_fields(self.plan, guarantee).get("policy"):
            exception += f".\nThis holds for two homes {policy.of_two_homes}. {policy.words[:-1]}"
        groups = _groups(numeric.pools.n)
        most = max(groups, key=lambda group: group[2])
        return f"""# What could somebody learn about you?

{name}: {numeric.pools.n_records:,} jobs in {numeric.pools.n_pools:,} pools.

Somebody wonders where you live, and sees the release. By how much can your own job in it change the odds
between two homes that may be yours? What they hold is compared with what they would hold, seeing the same,
had the release been made without your job. The numbers follow from the public plan alone.

Against somebody who knows the home of every other job, whatever they believe, epsilon is
{_epsilon(guarantee)}: the odds change by a factor of at most {factor}{exception}.
The factors in this table hold without exception, whatever is released.

{self._odds(groups)}

The best share of correct guesses, if without your job all candidates were equally likely; in pools of
{most[0]}, where the most jobs are:

{self._guesses(most[1])}

- *Knows*: of the jobs in the same pool. A pool is {self._pool()};
  homes are drawn pool by pool. Whose homes are known does not matter: the factor is for those that help most.
- *As sure as*: how stubborn the belief about homes in the pool is, before any is known or seen. Its weight
  is that of so many homes seen, whatever it says; or, as *the noise*, in no cell more than that of the noise
  which the plan adds there. Who is surer, or knows more, may gain more, but never more than the first row
  says{self._coins()}.
- {self._exactness()}
- Not counted is what the release teaches about everybody, with your job or without. One job in one release
  of this plan is meant, and a belief about the homes of one pool by itself; for several jobs, or several
  releases, epsilon and delta are what adds up.
"""

    def odds(self, pools: NDArray[np.bool_]) -> list[synth.Change]:
        """Return the largest change of odds in some pools, for each class of attackers."""
        classes = np.unique(self.plan.numeric.pool_class[pools]).tolist()
        return [max((changes[c] for c in classes), key=lambda one: one.odds) for changes in self.changes]

    def draw(self, path: Path) -> None:
        """Draw the largest change of odds by size of pool.

        Parameters
        ----------
        path : Path
            The file; its name ends as one of a picture.
        """
        from matplotlib.figure import Figure  # takes its time

        sizes = np.unique(self.plan.numeric.pools.n)
        found = [self.odds(self.plan.numeric.pools.n == size) for size in sizes]
        fig = Figure(figsize=(8, 4.8), layout="constrained")
        axis = fig.subplots()
        shown = [i for i, one in enumerate(self.attackers) if one.stubbornness is None]
        last = [i for i, one in enumerate(self.attackers) if one.knowledge == "public tables only"]
        for number, i in enumerate(dict.fromkeys([*shown, *last])):
            one = self.attackers[i]
            sure = "" if one.knowledge == "all but one job" else f", as sure as {_sure(one)}"
            axis.plot(
                sizes,
                [float(changes[i].odds) for changes in found],
                "o-" if one.stubbornness is None else "--",
                color=f"C{number}",
                ms=max(2, 5 - number),  # lines may lie on one another
                lw=1,
                label=f"knows {_KNOWING[one.knowledge]}{sure}",
            )
        delta = synth.decimal_up(self.guarantee.delta, 3)
        axis.axhline(
            float(synth.exp_up(self.guarantee.epsilon)),
            color="0.3",
            lw=1,
            ls=":",
            label=f"everybody, ε = {_epsilon(self.guarantee)}"
            + (f", except with probability {delta}" if delta != "0" else ""),
        )
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="jobs in the pool",
            ylabel="the odds between two homes change by at most",
        )
        fig.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        fig.savefig(path, dpi=150)

    def _odds(self, groups: Sequence[tuple[str, NDArray[np.bool_], int]]) -> str:
        columns = [self.odds(pools) for _, pools, _ in groups]
        rows = [
            [_KNOWING[one.knowledge], "anything" if i == 0 else _sure(one), *(_mark(c[i]) for c in columns)]
            for i, one in enumerate(self.attackers)
        ]
        rows.append(["jobs in such pools", "", *(f"{jobs:,}" for _, _, jobs in groups)])
        return _table(["knows", "as sure as", *(f"pools of {name}" for name, _, _ in groups)], rows)

    def _guesses(self, pools: NDArray[np.bool_]) -> str:
        rows = [
            [
                _KNOWING[one.knowledge],
                "anything" if i == 0 else _sure(one),
                *(synth.decimal_up(synth.best_share(change.odds, k), 3) for k in _CANDIDATES),
            ]
            for i, (one, change) in enumerate(zip(self.attackers, self.odds(pools), strict=True))
        ]
        guess = [synth.decimal_up(Fraction(1, k), 3) for k in _CANDIDATES]
        heads = [f"{k:,} candidates" for k in _CANDIDATES]
        return _table(["knows", "as sure as", *heads], [*rows, ["sees no release", "", *guess]])

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
        if any(change.exact for changes in self.changes for change in changes):
            return (
                "Factors with a star are exact: some of these attackers come as near to them as one likes. "
                "All others\n  are upper bounds."
            )
        return "All factors are upper bounds."


def attackers(
    folder: PathLike, to: PathLike | None = None, *, stubbornness: Iterable[str] = STUBBORNNESS
) -> AttackersReport:
    """Say what attackers of several classes can gain from a release of a plan; nothing confidential is read.

    Parameters
    ----------
    folder : str or path
        Of a plan: what `odsynth plan` wrote, or the public folder of a release. It is not verified.
    to : str or path, optional
        A new folder for the page and a figure.
    stubbornness : iterable of str
        Sums of sigma of classes of attackers, exact numbers as text: the weight of their belief, in homes
        seen.

    Returns
    -------
    AttackersReport

    Raises
    ------
    PublicReleaseError
        If there is no plan, or it is not one of Dirichlet resampling from pools of a public size, drawn once;
        a number is none or not positive; or the new folder is there already or inside the other.
    """
    folder = path_of(folder, "folder")
    to = None if to is None else path_of(to, "to")
    if to is not None:
        check_target(to, folder)
        if to.exists():
            raise PublicReleaseError(f"{to}: is there already. Remove it, or choose another folder")
    classes = _classes(stubbornness)
    plan = _load(folder)
    report = AttackersReport(
        plan, plan.certify(), classes, tuple(synth.largest_changes(plan.numeric, classes))
    )
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(to, mode=None) as made:
            (made / _PAGE).write_text(report.text() + f"\n![By size of pool]({_FIGURE})\n", encoding="utf-8")
            report.draw(made / _FIGURE)
    return report


def _classes(stubbornness: Iterable[str]) -> tuple[synth.Attackers, ...]:
    try:
        sure = [None, *(synth.exact(value, "stubbornness") for value in stubbornness)]
        first, *others = synth.KNOWLEDGE
        return (
            synth.Attackers(first),
            *(synth.Attackers(knowledge, one) for knowledge in others for one in sure),
        )
    except ValueError as error:
        raise PublicReleaseError(f"{error}. Fix: give positive numbers, as in 1,10,100") from None


def _load(folder: Path) -> ReleasePlan:
    try:
        plan = load_plan(folder / "plan" if (folder / "plan").is_dir() else folder)
    except ValueError as error:  # a plan is public: nothing is withheld
        raise PublicReleaseError(f"{folder}: no plan can be read there: {error}") from None
    if plan.numeric.mechanism != "dirichlet":
        reason = "its mechanism measures tables"
    elif plan.numeric.record_range is not None:
        reason = "its numbers of records are confidential"
    elif plan.implicates.runs > 1:
        reason = "it is drawn from several times, and the bounds are of one"
    else:
        return plan
    raise PublicReleaseError(
        f"{folder}: {reason}. Attackers are bounded for resampling, once, from pools of a public size"
    )


def _groups(n: NDArray[np.int64]) -> list[tuple[str, NDArray[np.bool_], int]]:
    """Return name, pools and jobs of each group of pools by size that is not empty."""
    found = []
    for low, high in zip(_SIZES, (*_SIZES[1:], None), strict=True):
        pools = (n >= low) & (n < high if high else True)
        if pools.any():
            end = f" to {high - 1:,} jobs" if high and high > low + 1 else " job" if high else " jobs or more"
            found.append((f"{low:,}{end}", pools, int(n[pools].sum())))
    return found


def _epsilon(guarantee: synth.Guarantee) -> str:
    return synth.decimal_up(guarantee.epsilon, 6)


def _sure(one: synth.Attackers) -> str:
    if one.stubbornness is None:
        return "the noise"
    return f"{synth.decimal_up(one.stubbornness, 6)} home{'' if one.stubbornness == 1 else 's'} seen"


def _mark(change: synth.Change) -> str:
    return _factor(change.odds) + ("*" if change.exact else "")


def _factor(odds: Fraction) -> str:
    return f"{Decimal(synth.decimal_up(odds, 3)):,f}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown whose columns are as wide as their words."""
    wide = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "| "
        + " | ".join(
            f"{cell:{'<' if i < 2 else '>'}{w}}" for i, (cell, w) in enumerate(zip(row, wide, strict=True))
        )
        + " |"
        for row in (heads, *rows)
    ]
    rule = "|" + "|".join("-" * (w + 1) + ("-" if i < 2 else ":") for i, w in enumerate(wide)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
