"""Names for readers, of levels, areas and external zones."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import geo_data
from geo_data.external_zones import STATES
from pipelines.config.languages import ENGLISH
from pipelines.views.pages import phrases

if TYPE_CHECKING:
    from pipelines.views.release import Release

# How many characters each level of LODES adds to the code of the one above it.
_LODES = {"st": 2, "cty": 3, "trct": 6, "bgrp": 1, "tabblk": 3}
_JOB_TYPES = {
    "JT00": "all jobs",
    "JT01": "primary jobs",
    "JT02": "all private jobs",
    "JT03": "private primary jobs",
    "JT04": "all federal jobs",
    "JT05": "federal primary jobs",
}
_AFTER_HEAD = re.compile(r"[(,].*", re.DOTALL)
_KEPT = 64  # levels of releases
# The end of names of LODES: "(Providence, RI)", "(Tract 118, Providence, RI)".
_IN_BRACKETS = re.compile(r"(?:\(|, )(?P<county>[^(), ][^(),]*)(?P<state>, [A-Z]{2})\)$")


def singular(level: str, language: str = ENGLISH) -> str:
    """Return what one unit of a level is called (`level_words`)."""
    return str(level_words(level, language)["one"])


def plural(level: str, language: str = ENGLISH) -> str:
    """Return what several units of a level are called (`level_words`)."""
    return str(level_words(level, language)["many"])


def job_type_words(job_type: str) -> str:
    """Return what a LODES job type is called."""
    return _JOB_TYPES[job_type]


def named_area(release: Release, level: str, unit: int, *, short: bool = False) -> str:
    """Return what a sentence calls an area: its name, or else its code, with the level before a number."""
    name = short_names(release, level)[unit] if short else unit_names(release, level, np.array([unit]))[0]
    if name and not name[0].isdigit():
        return str(name)
    return f"{singular(level)} {name or release.geography.codes(level)[unit]}"


def short_name(name: str) -> str:
    """Return a name without what stands in brackets, or after a comma, behind it."""
    return _AFTER_HEAD.sub("", name).strip() or name


@lru_cache(maxsize=_KEPT)
def short_names(release: Release, level: str) -> list[str]:
    """Return the names of the units of a level, short where that tells them apart; "" where there is none."""
    names = unit_names(release, level).tolist()
    short = [name and short_name(name) for name in names]
    times = Counter(short)
    return [head if times[head] == 1 else name for head, name in zip(short, names, strict=True)]


def level_words(level: str, language: str = ENGLISH) -> dict[str, str | list[int]]:
    """Return what a page calls one unit of a level and many, and the lengths of the parts of its codes.

    `between` are many after this word, which is another form in some languages.
    """
    say, names = phrases(language), list(_LODES)
    base = "tabblk" if level.startswith("tabblk") else level
    word = level.replace("_", " ")
    others = say.one_other(word), say.other_level(word), say.between_others(word)
    one, many, between = say.levels.get(base, others)
    groups = [_LODES[name] for name in names[: names.index(base) + 1]] if base in _LODES else []
    return {"one": one, "many": many, "between": between, "groups": groups}


def unit_names(release: Release, level: str, units: NDArray[np.integer] | None = None) -> NDArray[np.object_]:
    """Return the names of units of a level, states and external zones among them; "" where there is none.

    Names that say in brackets which county a unit is in, as those of LODES do, have the whole name of it:
    "118 (Providence, RI)" is not in the city, but somewhere in the county.
    """
    geography = release.geography
    units = np.arange(geography.n_units(level)) if units is None else units
    names = release.names[level][units]
    if level in geography.non_nesting_areas:
        return _names_across(release, level, units, names)
    if level == "st":
        states = [STATES[code].name if code in STATES else "" for code in geography.codes(level)[units]]
        names = np.where(names == "", np.array(states, object), names)
    elif "cty" in geography.levels[: release.levels.index(level)] and names.any():
        counties = release.names["cty"][geography.unit_of("cty", geography.starts(level)[units])]
        for i in np.flatnonzero((names != "") & (counties != "")):
            names[i] = _with_whole_county(names[i], counties[i])
    zones = zones_of_units(release, level)
    for i in np.flatnonzero(np.isin(units, list(zones))):
        of_unit = zones[int(units[i])]
        if any(zone.name != zone.code for zone in of_unit):
            names[i] = ", ".join(zone.name for zone in of_unit)
    return names


def zones_of_units(release: Release, level: str) -> dict[int, list[ExternalZone]]:
    """Return the external zones of each unit of a level that has any: several where codes are cut."""
    zones = external_zones(release)
    of_unit: dict[int, list[ExternalZone]] = {}
    units = release.geography.unit_of(level, np.array(list(zones), int))
    for unit, zone in zip(units.tolist(), zones.values(), strict=True):
        of_unit.setdefault(unit, []).append(zone)
    return of_unit


def _names_across(
    release: Release, level: str, units: NDArray[np.integer], names: NDArray[np.object_]
) -> NDArray[np.object_]:
    """Names of areas that cut across the levels, with those of external zones and of what is in no area."""
    zones = external_zones(release)
    units_of_zones = release.geography.unit_of(level, np.array(list(zones), int))
    of_zone = dict(zip(units_of_zones.tolist(), zones.values(), strict=True))
    codes = release.geography.codes(level)[units]
    names = names.copy()
    for i in np.flatnonzero(names == ""):
        if codes[i] == "":  # which codes of this kind do not tell apart
            names[i] = phrases(release.language).outside
        elif (zone := of_zone.get(int(units[i]))) is not None:
            names[i] = zone.name if zone.name != zone.code else ""
        elif not codes[i].strip("9"):
            names[i] = phrases(release.language).in_none(singular(level, release.language))
    return names


def _with_whole_county(name: str, county: str) -> str:
    """Return "118 (Providence County, RI)" of "118 (Providence, RI)" in "Providence County, RI"."""
    short = _IN_BRACKETS.search(name)
    if short is None or not county.startswith(f"{short['county']} ") or not county.endswith(short["state"]):
        return name
    return f"{name[: short.start('county')]}{county})"


@dataclass(frozen=True)
class ExternalZone:
    """An external zone, as readers know it."""

    name: str  # As the configuration has it; or the state's, where the region has states; else the code
    code: str  # As the configuration has it


def external_zones(release: Release) -> dict[int, ExternalZone]:
    """Return the external zones of a release by block number, in the order of their codes."""
    geography: geo_data.Geography = release.geography
    names = {code: state.name for code, state in STATES.items() if "st" in geography.levels}
    names |= geography.external_workplaces
    return {
        int(block): ExternalZone(names.get(area, area), area)
        for area, block in zip(geography.external_zones, geography.external_blocks, strict=True)
    }


def ends_beyond(geography: geo_data.Geography) -> str:
    """Return what workers do in external zones: "live", "work" or "live or work"; "" without any."""
    ends = {"live": geography.external_homes, "work": geography.external_workplaces}
    return " or ".join(verb for verb, zones in ends.items() if zones)
