"""How far to trust the numbers of a release, as pages say it."""

from __future__ import annotations

from functools import partial

from pipelines.config.languages import ENGLISH
from pipelines.plans.accuracy import ExpectedAccuracy, ExpectedTable
from pipelines.release.accuracy import read_in_words
from pipelines.release.certificate import PolicyField
from pipelines.release.pages import number
from pipelines.views.labels import plural, singular
from pipelines.views.pages import phrases, render
from pipelines.views.release import Release


def accuracy_words(
    expected: ExpectedAccuracy | None, policy: PolicyField | None = None, language: str = ENGLISH
) -> str:
    """Return what is expected of a release, a table for each of its tables, with sizes of numbers as rows."""
    return render(
        "accuracy.html",
        language,
        expected=expected,
        read=read_in_words(policy, language),
        title=partial(table_title, language=language),
        percent=partial(percent, language=language),
        zip=zip,
    )


def noise_warning(release: Release, home_level: str, work_level: str) -> str:
    """Say which tables of homes and workplaces at these levels the release calls noise; "" where none is."""
    say = phrases(release.language)
    noisy = [
        (
            say.table(table.home, table.work, table.attributes),
            f"{100 * table.loss:.0f}",
            f"{100 * table.public_model:.0f}",
        )
        for table in release.expected_tables
        if table.noise and table.home == home_level and table.work in (work_level, None)
    ]
    return str(say.noise(noisy)) if noisy else ""


def trusted_level(release: Release) -> str:
    """Say at which level the numbers of an export of single workers, or of fine zones, may be trusted."""
    tried = {table.flows_of for table in release.expected_tables if table.flows_of is not None}
    sound = [level for level in release.levels if level in tried and level not in release.noisy_levels]
    finest = f"{plural(sound[-1], release.language)} ({sound[-1]})" if sound else None
    return str(phrases(release.language).trusted(finest, bool(tried)))


def percent(share: float, language: str = ENGLISH) -> str:
    """Return a share as pages have it."""
    return number(f"{100 * share:.1f}\u00a0%", language)


def table_title(table: ExpectedTable, language: str = ENGLISH) -> str:
    """Return what pages call a table: with words for its levels."""
    work = None if table.work is None else singular(table.work, language)
    home = None if table.home is None else singular(table.home, language)
    words = str(phrases(language).table(home, work, table.attributes))
    return words[:1].upper() + words[1:]
