"""How far to trust the numbers of a release, as pages say it."""

from __future__ import annotations

from pipelines.plans.accuracy import ExpectedAccuracy, ExpectedTable
from pipelines.plans.measured import table_in_words
from pipelines.release.accuracy import read_in_words
from pipelines.release.certificate import PolicyField
from pipelines.views.labels import plural, singular
from pipelines.views.pages import render
from pipelines.views.release import Release


def accuracy_words(expected: ExpectedAccuracy | None, policy: PolicyField | None = None) -> str:
    """Return what is expected of a release, a table for each of its tables, with sizes of numbers as rows."""
    read = read_in_words(policy)
    return render("accuracy.html", expected=expected, read=read, title=table_title, percent=percent, zip=zip)


def noise_warning(release: Release, home_level: str, work_level: str) -> str:
    """Say which tables of homes and workplaces at these levels the release calls noise; "" where none is."""
    noisy = [
        f"{table.table} ({table.loss:.0%} of jobs are expected to be counted where they are not, and "
        f"{table.public_model:.0%} by public data alone)"
        for table in release.expected_tables
        if table.noise and table.home == home_level and table.work in (work_level, None)
    ]
    if not noisy:
        return ""
    return f"NOISE, as the release itself says: {'; '.join(noisy)}. Draw no conclusions from these tables."


def trusted_level(release: Release) -> str:
    """Say at which level the numbers of an export of single workers, or of fine zones, may be trusted."""
    tried = {table.flows_of for table in release.expected_tables if table.flows_of is not None}
    sound = [level for level in release.levels if level in tried and level not in release.noisy_levels]
    if sound:
        return (
            f"Trust: {plural(sound[-1])} ({sound[-1]}) are the finest areas between which the release does "
            "not call flows noise. Add up to them, or to larger areas, before you use a number."
        )
    if tried:
        return "Trust: the release calls flows noise at every level that was tried. Use no number of them."
    return "Trust: the release does not say at which level flows can be trusted."


def percent(share: float) -> str:
    """Return a share as pages have it."""
    return f"{100 * share:.1f}\u00a0%"


def table_title(table: ExpectedTable) -> str:
    """Return what pages call a table: with words for its levels."""
    work = None if table.work is None else singular(table.work)
    home = None if table.home is None else singular(table.home)
    words = table_in_words(home, work, table.attributes)
    return words[:1].upper() + words[1:]
