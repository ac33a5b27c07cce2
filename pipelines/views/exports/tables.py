"""Plain tables: aggregated flows as CSV, and the two CSV files of flowmap.gl and flowmap.blue."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd

from pipelines.views.exports.source import Source

__all__ = ["write_csv", "write_flowmap"]


def write_csv(source: Source, folder: Path) -> list[str]:
    """Write the flows of the pair of levels with all counts, as csv.gz."""
    path = folder / source.name(source.flows_name, "csv.gz")
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for number, flows in enumerate(source.flow_tables()):
            flows.to_csv(packed, header=number == 0, index=False, lineterminator="\n")
    external = source.release.geography.external_zones
    return (
        [f"External zones are zones, too: {', '.join(external)}, each filled up with 9s or cut."]
        if external
        else []
    )


def write_flowmap(source: Source, folder: Path) -> list[str]:
    """Write ``locations.csv`` and ``flows.csv``; flows inside a zone are among them.

    Notes
    -----
    Zones without a place on a map (external zones) are left out. Where homes and workplaces have different
    levels, the id of a location is its level and its code.
    """
    locations = {}
    for level in dict.fromkeys(source.levels.values()):
        places = source.release.places(level)
        ids = places["code"] if source.home_level == source.work_level else f"{level}:" + places["code"]
        locations[level] = pd.DataFrame(
            {"id": ids, "name": places["code"], "lat": places["latitude"], "lon": places["longitude"]}
        )
    placed = pd.concat(locations.values()).dropna().round({"lat": 6, "lon": 6})
    placed.to_csv(folder / "locations.csv", index=False, lineterminator="\n")
    ends = {"origin": locations[source.home_level], "dest": locations[source.work_level]}
    missing = 0
    with (folder / "flows.csv").open("wb") as file:
        for number, flows in enumerate(source.flows()):
            homes, works = ends["origin"].iloc[flows["home"]], ends["dest"].iloc[flows["work"]]
            table = pd.DataFrame(
                {"origin": homes["id"].array, "dest": works["id"].array, "count": flows["S000"]}
            )
            shown = homes["lat"].notna().to_numpy() & works["lat"].notna().to_numpy()
            table[shown].to_csv(file, header=number == 0, index=False, lineterminator="\n")
            missing += int(table["count"][~shown].sum())
    return (
        [f"{missing:,} workers are left out: they live in external zones, which have no place on a map."]
        if missing
        else []
    )
