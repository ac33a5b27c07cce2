"""Reading the auxiliary tables that a configuration names."""

from __future__ import annotations

from dataclasses import replace

import geo_data
from pipelines.config import ReleaseConfig

__all__ = ["read_auxiliary"]


def read_auxiliary(config: ReleaseConfig, geography: geo_data.Geography) -> list[geo_data.Flows]:
    """Read every auxiliary table of a configuration.

    Parameters
    ----------
    config : ReleaseConfig
    geography : geo_data.Geography

    Returns
    -------
    list of geo_data.Flows

    Raises
    ------
    geo_data.InputError
        If a table is unusable.
    """
    return [
        replace(
            geo_data.read_flows(
                a.file,
                geography,
                origin=a.origin,
                origin_level=a.origin_level,
                destination=a.destination,
                destination_level=a.destination_level,
                flow=a.flow,
            ),
            same_jobs=a.same_jobs,
        )
        for a in config.auxiliary
    ]
