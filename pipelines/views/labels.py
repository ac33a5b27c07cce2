"""Names for readers: of the levels and codes of LODES, and of external zones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import geo_data
from pipelines.release.reader import PublicRelease

__all__ = ["STATE_NAMES", "external_zone_names", "level_words", "plural", "singular", "unit_names"]

# Singular, plural, and how many characters each level adds to the code of the one above it.
_LODES = {
    "st": ("state", "states", 2),
    "cty": ("county", "counties", 3),
    "trct": ("tract", "tracts", 6),
    "bgrp": ("block group", "block groups", 1),
    "tabblk": ("block", "blocks", 3),
}

STATE_NAMES = {
    "01": "Alabama",
    "02": "Alaska",
    "04": "Arizona",
    "05": "Arkansas",
    "06": "California",
    "08": "Colorado",
    "09": "Connecticut",
    "10": "Delaware",
    "11": "District of Columbia",
    "12": "Florida",
    "13": "Georgia",
    "15": "Hawaii",
    "16": "Idaho",
    "17": "Illinois",
    "18": "Indiana",
    "19": "Iowa",
    "20": "Kansas",
    "21": "Kentucky",
    "22": "Louisiana",
    "23": "Maine",
    "24": "Maryland",
    "25": "Massachusetts",
    "26": "Michigan",
    "27": "Minnesota",
    "28": "Mississippi",
    "29": "Missouri",
    "30": "Montana",
    "31": "Nebraska",
    "32": "Nevada",
    "33": "New Hampshire",
    "34": "New Jersey",
    "35": "New Mexico",
    "36": "New York",
    "37": "North Carolina",
    "38": "North Dakota",
    "39": "Ohio",
    "40": "Oklahoma",
    "41": "Oregon",
    "42": "Pennsylvania",
    "44": "Rhode Island",
    "45": "South Carolina",
    "46": "South Dakota",
    "47": "Tennessee",
    "48": "Texas",
    "49": "Utah",
    "50": "Vermont",
    "51": "Virginia",
    "53": "Washington",
    "54": "West Virginia",
    "55": "Wisconsin",
    "56": "Wyoming",
    "60": "American Samoa",
    "66": "Guam",
    "69": "Northern Mariana Islands",
    "72": "Puerto Rico",
    "78": "Virgin Islands",
}
"""Names of the states and territories of the United States by FIPS code."""


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

    Parameters
    ----------
    release : PublicRelease
    level : str

    Returns
    -------
    ndarray of str objects, shape (U,)
        "" where there is none.
    """
    names = release.names[level]
    if level != "st":
        return names
    states = np.array([STATE_NAMES.get(code, "") for code in release.geography.codes(level)], object)
    return np.where(names == "", states, names)


def external_zone_names(release: PublicRelease) -> dict[int, str]:
    """Return a name for each external zone of a release.

    Parameters
    ----------
    release : PublicRelease

    Returns
    -------
    dict of int to str
        By block number, in order: the state's name where the region has states, else the area's code.
    """
    geography: geo_data.Geography = release.geography
    names = STATE_NAMES if "st" in geography.levels else {}
    return {
        int(block): names.get(area, area)
        for area, block in zip(geography.external_zones, geography.external_blocks, strict=True)
    }
