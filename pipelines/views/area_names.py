"""Areas as those who ask name them: by code, or by name, whole or in part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from heapq import nsmallest

import numpy as np

from pipelines.views.labels import unit_names
from pipelines.views.release import Release

_KEPT = 64  # levels of releases whose names are kept
_LEAST_WORD = 3  # letters
LIKE = 5
"""Areas that an error names."""


@lru_cache(maxsize=_KEPT)
def _names(release: Release, level: str) -> dict[str, list[int]]:
    """Units of each name, without case."""
    by_name: dict[str, list[int]] = {}
    for unit, name in enumerate(unit_names(release, level)):
        if name:
            by_name.setdefault(name.casefold(), []).append(unit)
    return by_name


def areas_named(release: Release, level: str, text: str) -> list[int]:
    """Return the units of a level that have a name, in any case."""
    return _names(release, level).get(text.strip().casefold(), [])


def find_areas(release: Release, level: str, text: str) -> list[int]:
    """Return the unit of a level that has a code, or else those that have a name."""
    unit = release.geography.find_unit(level, text)
    return [unit] if unit >= 0 else areas_named(release, level, text)


def names_with(release: Release, level: str, words: str) -> list[int]:
    """Return the units of a level with some words in their names, in order."""
    words = words.strip().casefold()
    return sorted(unit for name, units in _names(release, level).items() if words in name for unit in units)


def areas_like(release: Release, words: str, kinds: Sequence[str]) -> str:
    """Return, for an error, a few areas of some kinds with these words in their names; "" without any."""
    words = words.strip().casefold()
    if len(words) < _LEAST_WORD:
        return ""
    matches = [
        (not name.startswith(words), rank, unit)
        for rank, level in enumerate(kinds)
        for name, units in _names(release, level).items()
        if words in name
        for unit in units
    ]
    best = []
    for _, rank, unit in nsmallest(LIKE, matches):
        level = kinds[rank]
        (name,) = unit_names(release, level, np.array([unit]))
        best.append(f"{release.geography.codes(level)[unit]} ({name}; {level})")
    return ", ".join(best) + (", and others" if len(matches) > LIKE else "")
