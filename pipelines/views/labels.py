"""Names for readers: of the levels and codes of LODES, and of external zones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import geo_data
from geo_data.states import STATES
from pipelines.release.reader import PublicRelease

__all__ = ["external_zone_names", "level_words", "plural", "singular", "unit_names"]

# Singular, plural, and how many characters each level adds to the code of the one above it.
_LODES = {
    "st": ("state", "states", 2),
    "cty": ("county", "counties", 3),
    "trct": ("tract", "tracts", 6),
    "bgrp": ("block group", "block groups", 1),
    "tabblk": ("block", "blocks", 3),
}


def singular(level: str) -> str:
    """Return what one unit of a level is called (`level_words`)."""
    return str(level_words(level)["one"])


def plural(level: str) -> str:
    """Return what several units of a level are called (`level_words`)."""
    return str(level_words(level)["many"])


def level_words(level: str) -> dict[str, str | list[int]]:
    """Return what a page calls the units of a level.

    Parameters
    ----------
    level : str
        Name of a level; those of LODES crosswalks are known, another name stands for itself.

    Returns
    -------
    dict
        ``one`` and ``many``; ``groups``, the lengths of the parts of a code that are set apart from each
        other, empty where that is not known.
    """
    names = list(_LODES)
    known = "tabblk" if level.startswith("tabblk") else level
    if known not in _LODES:
        word = level.replace("_", " ")
        return {"one": word, "many": f"{word} areas", "groups": []}
    one, many, _ = _LODES[known]
    groups = [_LODES[name][2] for name in names[: names.index(known) + 1]]
    return {"one": one, "many": many, "groups": groups}


def unit_names(release: PublicRelease, level: str) -> NDArray[np.object_]:
    """Return the names of the units of a level: those that the release has, and those of states.

    Returns
    -------
    ndarray of str objects, shape (U,)
        "" where there is none.
    """
    names = release.names[level]
    if level != "st":
        return names
    codes = release.geography.codes(level)
    states = np.array([STATES[code].name if code in STATES else "" for code in codes], object)
    return np.where(names == "", states, names)


def external_zone_names(release: PublicRelease) -> dict[int, str]:
    """Return a name for each external zone of a release.

    Returns
    -------
    dict of int to str
        By block number, in order: the state's name where the region has states, else the area's code.
    """
    geography: geo_data.Geography = release.geography
    names = {code: state.name for code, state in STATES.items() if "st" in geography.levels}
    return {
        int(block): names.get(area, area)
        for area, block in zip(geography.external_zones, geography.external_blocks, strict=True)
    }
