"""Reading the auxiliary tables that a configuration names."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

import geo_data
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import AcsTable, AuxiliaryTable, CtppTable, LodesTable, Section


def reader_settings(section: Section, *, without: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the keys of a section, which its reader has as arguments, but for the file and some others."""
    return {key: value for key, value in section if key not in {"format", "file", *without}}


def read_auxiliary(config: ReleaseConfig, geography: geo_data.Geography) -> list[geo_data.Flows]:
    """Read every auxiliary table of a configuration, in its order; a CTPP file gives one a summary level.

    Tables of non-nesting areas that the geography does not have are left out.
    """
    absent = set(config.geography.non_nesting_areas) - geography.non_nesting_areas.keys()
    return [flows for table in config.auxiliary for flows in _read(table, geography, absent)]


def _read(table: AuxiliaryTable, geography: geo_data.Geography, absent: Set[str]) -> list[geo_data.Flows]:
    if isinstance(table, CtppTable):
        levels = {
            summary: sides
            for summary, sides in table.levels.items()
            if absent.isdisjoint([sides] if isinstance(sides, str) else sides)
        }
        if not levels:
            return []
        return geo_data.read_ctpp(table.file, geography, levels, table=table.table, line=table.line)
    sides = [table.level] if isinstance(table, AcsTable) else [table.origin_level, table.destination_level]
    if not absent.isdisjoint(sides):
        return []
    if isinstance(table, AcsTable):
        return [geo_data.read_acs(table.file, geography, level=table.level)]
    if isinstance(table, LodesTable):
        flows = geo_data.read_lodes_flows(
            table.file, geography, **reader_settings(table, without={"same_jobs"})
        )
    else:
        flows = geo_data.read_flows(table.file, geography, **reader_settings(table, without={"same_jobs"}))
    return [replace(flows, same_jobs=table.same_jobs)]
