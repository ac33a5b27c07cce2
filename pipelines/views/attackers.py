"""What could somebody learn about you: the page of a plan or a release, with a figure by size of pool."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.plans.storage import load_plan
from pipelines.release.attackers import (
    ATTACKERS_FILE,
    STUBBORNNESS,
    AttackersReport,
    attackers_of,
    describe_attackers,
    surety_in_words,
)
from pipelines.release.certificate import certificate_of_draw, promise
from pipelines.release.corrections import CORRECTION_FILE, read_corrections
from pipelines.release.layout import not_public
from pipelines.release.pages import phrases
from pipelines.release.workplaces import drawn_plan
from pipelines.storage.durable import whole_folder
from pipelines.views.folder import PublicReleaseError, check_target, not_as_released

_FIGURE = "attackers.png"


def attackers(
    folder: PathLike, to: PathLike | None = None, *, stubbornness: Iterable[str] = STUBBORNNESS
) -> AttackersReport:
    """Say what attackers of several classes can gain from a release of a plan; nothing confidential is read.

    Parameters
    ----------
    folder : str or path
        Of a plan: what `odsynth plan` wrote, or the public folder of a release. It is not verified.
    to : str or path, optional
        A new folder for the page and, where classes of attackers are bounded, a figure.
    stubbornness : iterable of str
        Sums of sigma of classes of attackers, exact numbers as text: the weight of their belief, in homes
        seen.

    Returns
    -------
    AttackersReport
        Classes of attackers are bounded for Dirichlet resampling from pools of a public size, drawn once;
        of other plans it has what holds against everybody.

    Raises
    ------
    PublicReleaseError
        If there is no plan; a number is none or not positive; or the new folder is there already or inside
        the other.
    """
    folder = path_of(folder, "folder")
    to = None if to is None else path_of(to, "to")
    if to is not None:
        check_target(to, folder, new=True)
    try:
        classes = attackers_of(stubbornness)
    except ValueError as error:
        raise PublicReleaseError(f"{error}. Fix: write positive numbers, such as 1,10,100") from None
    place = folder / "plan" if (folder / "plan").is_dir() else folder
    if not (place / "plan.json").is_file():
        raise PublicReleaseError(f"{not_public(folder, 'plan.json')}, or a folder that odsynth plan wrote")
    try:
        plan = load_plan(place)
        drawn = plan if place == folder else drawn_plan(folder, plan)
        if (folder / CORRECTION_FILE).is_file():
            drawn = read_corrections(folder, plan.config).plan(drawn)
    except (ValueError, OSError) as error:  # a plan is public: nothing is withheld
        fix = "plan again, or take a whole copy of the release"
        raise not_as_released(f"{folder}: no plan can be read there", error, fix) from error
    certificate = certificate_of_draw(promise(plan, plan.certify()), drawn)
    report = describe_attackers(drawn, certificate, classes)
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(to, mode=None) as new_folder:
            page = report.text()
            if report.attackers:
                page += f"\n![{phrases(report.language).by_size_of_pool}]({_FIGURE})\n"
                _draw(report, new_folder / _FIGURE)
            (new_folder / ATTACKERS_FILE).write_text(page, encoding="utf-8")
    return report


def _draw(report: AttackersReport, path: Path) -> None:
    """Draw the largest change of odds by size of pool."""
    from matplotlib.figure import Figure  # takes its time

    n, say, certificate = report.plan.numeric.pools.n, phrases(report.language), report.certificate
    sizes = np.unique(n)
    changes_by_size = report.odds(n == size for size in sizes)
    fig = Figure(figsize=(8, 4.8), layout="constrained")
    axis = fig.subplots()
    sure = [i for i, attacker in enumerate(report.attackers) if attacker.stubbornness is None]
    public_only = [
        i for i, attacker in enumerate(report.attackers) if attacker.knowledge == "public tables only"
    ]
    for number, i in enumerate(dict.fromkeys([*sure, *public_only])):
        attacker = report.attackers[i]
        surety = surety_in_words(attacker, report.language) if i else None
        axis.plot(
            sizes,
            [float(changes[i].odds) for changes in changes_by_size],
            "o-" if attacker.stubbornness is None else "--",
            color=f"C{number}",
            ms=max(2, 5 - number),  # lines may lie on one another
            lw=1,
            label=say.knows(say.knowing[attacker.knowledge], surety),
        )
    epsilon = synth.decimal_up(synth.exact(certificate.run.epsilon), 6)
    delta = certificate.run.delta if synth.exact(certificate.run.delta) else None
    axis.axhline(float(report.factor), color="0.3", lw=1, ls=":", label=say.everybody(epsilon, delta))
    axis.set(
        xscale="log",
        yscale="log",
        xlabel=say.jobs_in_pool,
        ylabel=say.change_of_odds,
    )
    fig.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    fig.savefig(path, dpi=150)
