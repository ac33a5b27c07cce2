"""Reading the auxiliary tables that a configuration names."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import geo_data
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import AcsTable, CtppTable, FlowTable, LodesTable


def read_auxiliary(config: ReleaseConfig, geography: geo_data.Geography) -> list[geo_data.Flows]:
    """Read every auxiliary table of a configuration.

    Parameters
    ----------
    config : ReleaseConfig
    geography : geo_data.Geography
        That of the configuration, or one without its non-nesting areas: their tables are left out.

    Returns
    -------
    list of geo_data.Flows
        In the order of the configuration; a CTPP file gives one for each summary level.

    Raises
    ------
    geo_data.InputError
        If a table is unusable.
    """
    absent = set(config.geography.non_nesting_areas) - geography.non_nesting_areas.keys()
    return [flows for table in config.auxiliary for flows in _read(table, geography, absent)]


def _read(
    table: FlowTable | CtppTable | AcsTable | LodesTable, geography: geo_data.Geography, absent: Set[str]
) -> list[geo_data.Flows]:
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
            table.file,
            geography,
            origin_level=table.origin_level,
            destination_level=table.destination_level,
            aux=table.aux,
        )
    else:
        flows = geo_data.read_flows(
            table.file,
            geography,
            origin=table.origin,
            origin_level=table.origin_level,
            destination=table.destination,
            destination_level=table.destination_level,
            flow=table.flow,
            margin=table.margin,
            decimal_point=table.decimal_point,
        )
    return [replace(flows, same_jobs=table.same_jobs)]
