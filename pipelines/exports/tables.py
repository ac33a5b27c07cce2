"""Plain tables: aggregated flows as CSV, and the two CSV files of flowmap.gl and flowmap.blue."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pipelines.exports.source import Source

__all__ = ["write_csv", "write_flowmap"]

_ROWS = 100_000  # formatted at a time


def write_csv(source: Source, folder: Path) -> list[str]:
    """Write the flows of the pair of levels with all counts, as csv.gz.

    Parameters
    ----------
    source : Source
    folder : Path

    Returns
    -------
    list of str
        Remarks for the read-me.
    """
    source.flow_table().to_csv(
        folder / source.name(source.flows_name, "csv.gz"),
        index=False,
        chunksize=_ROWS,
        compression={"method": "gzip", "compresslevel": 6, "mtime": 0},
        lineterminator="\n",
    )
    outside = source.release.geography.outside
    return ["Outside areas are zones; their codes end in 9s."] if outside else []


def write_flowmap(source: Source, folder: Path) -> list[str]:
    """Write ``locations.csv`` and ``flows.csv``; flows inside a zone are among them.

    Parameters
    ----------
    source : Source
    folder : Path

    Returns
    -------
    list of str
        Remarks for the read-me.

    Notes
    -----
    Zones without a place on a map (outside areas) are left out. Where homes and workplaces have different
    levels, the id of a location is its level and its code.
    """
    locations = {}
    for level in dict.fromkeys([source.home_level, source.work_level]):
        places = source.release.places(level)
        ids = places["code"] if source.home_level == source.work_level else f"{level}:" + places["code"]
        locations[level] = pd.DataFrame(
            {"id": ids, "name": places["code"], "lat": places["latitude"], "lon": places["longitude"]}
        )
    flows = pd.DataFrame(
        {
            "origin": locations[source.home_level]["id"].to_numpy()[source.flows["home"]],
            "dest": locations[source.work_level]["id"].to_numpy()[source.flows["work"]],
            "count": source.flows["S000"],
        }
    )
    placed = pd.concat(locations.values()).dropna().round({"lat": 6, "lon": 6})
    shown = flows[flows["origin"].isin(placed["id"]) & flows["dest"].isin(placed["id"])]
    placed.to_csv(folder / "locations.csv", index=False, lineterminator="\n")
    shown.to_csv(folder / "flows.csv", index=False, lineterminator="\n", chunksize=_ROWS)
    missing = int(flows["count"].sum() - shown["count"].sum())
    return (
        [f"{missing:,} workers are left out: they live in areas outside that have no place on a map."]
        if missing
        else []
    )
