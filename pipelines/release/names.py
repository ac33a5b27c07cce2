"""Names of public units in a release: keeping them, reading them, checking them.

They are words for maps and figures. No worker is drawn by them, so neither the plan nor the configuration
that it quotes speaks of them: a release has them or not, and its checksums cover what was kept. Names are
kept by level, as `Geography` has them, and then those of non-nesting areas; `folder` is the public folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from geo_data.external_zones import STATES
from geo_data.geography import Geography
from geo_data.texts import clean_names
from pipelines.config.languages import ENGLISH
from pipelines.release.pages import phrases
from pipelines.storage.parquet_form import check_form, is_text, read_rows

NAME_FILE = "names.parquet"
_COLUMNS = ("level", "code", "name")

Names = npt.NDArray[np.object_]


def write_names(
    names: Mapping[str, Names], geography: Geography, folder: Path, language: str = ENGLISH
) -> None:
    """Write the names of units into the public folder, and of all external zones; nothing without names."""
    parts = []
    for level in _named_levels(geography):
        if level in names or geography.external_zones:
            all_names = names.get(level, np.full(geography.n_units(level), "", object))
            if level not in geography.non_nesting_areas:
                all_names = _with_external_zones(all_names, geography, level, language)
            named = all_names != ""
            columns = [[level] * int(named.sum()), geography.codes(level)[named], all_names[named]]
            parts.append(pa.table([pa.array(column, pa.string()) for column in columns], names=_COLUMNS))
    if any(part.num_rows for part in parts):
        pq.write_table(pa.concat_tables(parts), folder / NAME_FILE, compression="zstd")


def _with_external_zones(names: Names, geography: Geography, level: str, language: str) -> Names:
    """Name the units of external zones: as the geography does, by their state, or else as outside."""
    names, codes = names.copy(), geography.codes(level)
    of_work = geography.external_workplaces
    states = STATES if "st" in geography.levels else {}
    units = geography.unit_of(level, geography.external_blocks)
    for zone, unit in zip(geography.external_zones, units, strict=True):
        state = states.get(codes[unit]) or states.get(zone)
        outside = phrases(language).outside(min(zone, codes[unit], key=len))  # cut, perhaps with other zones
        alone = of_work.get(zone, "") if np.count_nonzero(units == unit) == 1 else ""
        names[unit] = alone or names[unit] or (state.name if state else outside)
    return names


def _named_levels(geography: Geography) -> tuple[str, ...]:
    return (*geography.levels, geography.block_level, *geography.non_nesting_areas)


def read_names(folder: Path, geography: Geography) -> dict[str, Names]:
    """Return the names of the units of all levels, and of non-nesting areas."""
    levels = _named_levels(geography)
    names = {level: np.full(geography.n_units(level), "", object) for level in levels}
    path = folder / NAME_FILE
    table = read_rows(path).to_pandas() if path.is_file() else pd.DataFrame(columns=_COLUMNS)
    for level in levels:
        part = table[table["level"] == level]
        unit = geography.unit_number(level, part["code"])
        names[level][unit[unit >= 0]] = part["name"].fillna("")[unit >= 0]
    return names


def check_names(folder: Path, geography: Geography) -> str:
    """Check that the names in a release are what maps rely on, and say what was found."""
    check_form(folder / NAME_FILE, dict.fromkeys(_COLUMNS, is_text))
    frame = read_rows(folder / NAME_FILE).to_pandas()
    levels = _named_levels(geography)
    present = [level for level in levels if (frame["level"] == level).any()]
    if frame.empty:
        raise ValueError(f"{NAME_FILE}: it is empty")
    if pd.unique(frame["level"]).tolist() != present:
        raise ValueError(f"{NAME_FILE}: levels are not those of the geography, from the coarsest")
    for level in present:
        unit = geography.unit_number(level, frame["code"][frame["level"] == level])
        if (np.diff(unit, prepend=-1) <= 0).any():
            raise ValueError(f"{NAME_FILE}: codes are not units of {level}, each once and in order")
    clean = clean_names(frame["name"])
    if not ((clean == frame["name"]) & (clean != "")).all():
        raise ValueError(f"{NAME_FILE}: names are missing, blank, not on one line or begin like a formula")
    counts = frame["level"].value_counts()
    return ", ".join(f"{counts[level]:,} of {geography.n_units(level):,} {level}" for level in present)
