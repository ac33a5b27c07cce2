"""Plain tables: aggregated flows and zones as CSV, and the CSV files of flowmap.gl and flowmap.blue."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from pipelines.views.exports.source import DECIMALS, Source, describe_csv


def write_csv(source: Source, folder: Path) -> list[str]:
    """Write flows of the pair of levels with all counts, zones, draws, blocks, names, meanings of columns."""
    path = folder / source.name(source.flows_name, "csv")
    columns = []
    with path.open("wb") as file:
        for number, flows in enumerate(source.flow_tables()):
            _write_rows(source, flows, file, header=number == 0)
    describe_csv(path, flows, source, source.meanings)
    columns += [(path.name, *meaning) for meaning in source.meanings_of(map(str, flows)).items()]
    for level in source.zones:
        path, table = write_zone_table(source, level, folder)
        columns += [(path.name, *meaning) for meaning in source.meanings_of(map(str, table)).items()]
    for name, tables, meanings in source.public_tables("intervals", "blocks", "names"):
        path = folder / source.name(name, "csv")
        with path.open("wb") as file:
            for number, table in enumerate(tables):
                _write_rows(source, table, file, header=number == 0)
        describe_csv(path, table, source, meanings)
        columns += [(path.name, *meaning) for meaning in meanings.items()]
    path, said = folder / source.name("columns", "csv"), source.say.of_columns
    table = pd.DataFrame(columns, columns=[*said])
    with path.open("wb") as file:
        _write_rows(source, table, file, header=True)
    describe_csv(path, table, source, said)
    geography = source.release.geography
    names = geography.external_workplaces
    external = [f"{zone} ({names[zone]})" if zone in names else zone for zone in geography.external_zones]
    remarks = [source.say.external_zones(external)] if external else []
    return [*remarks, *([source.say.decimal_comma] if source.decimal_comma else [])]


def _write_rows(source: Source, table: pd.DataFrame, file: BinaryIO, *, header: bool) -> None:
    """Write rows, or the whole table, with the separators that were asked for."""
    between, decimal = (";", ",") if source.decimal_comma else (",", ".")
    if source.decimal_comma and header:
        file.write(BOM_UTF8)
    table.to_csv(file, sep=between, decimal=decimal, header=header, index=False, lineterminator="\n")


def write_zone_table(source: Source, level: str, folder: Path) -> tuple[Path, pd.DataFrame]:
    """Write the zones of a level as CSV by number: number, code, name, point, totals; return both."""
    points = source.points(level).round({"latitude": DECIMALS, "longitude": DECIMALS})
    totals = source.zones[level].drop(columns=["geometry", *points.columns], errors="ignore")
    table = pd.concat([points, pd.DataFrame(totals)], axis=1)
    table.insert(0, "zone", source.numbers(level))
    table = table.sort_values("zone")
    path = folder / source.name(f"zones_{level}", "csv")
    with path.open("wb") as file:
        _write_rows(source, table, file, header=True)
    describe_csv(path, table, source, source.meanings)
    return path, table


def write_flowmap(source: Source, folder: Path) -> list[str]:
    """Write ``locations.csv``, ``flows.csv`` and ``properties.csv``, without zones that have no place.

    Where homes and workplaces have different levels, the id of a location is its level and its code.
    """
    locations = {}
    for level in dict.fromkeys(source.levels.values()):
        points = source.points(level).assign(longitude=source.release.places(level)["longitude"])
        code = points["code"]
        names = points["name"].where(points["name"] != "", code) if "name" in points else code
        ids = code if source.home_level == source.work_level else f"{level}:" + code
        locations[level] = pd.DataFrame(
            {"id": ids, "name": names, "lat": points["latitude"], "lon": points["longitude"]}
        )
    placed = pd.concat(locations.values()).dropna().round({"lat": DECIMALS, "lon": DECIMALS})
    _write(source, placed, folder / "locations.csv")
    words = [(name, source.about[name]) for name in ("title", "description")]
    origin = source.say.flowmap_source(source.about["version"], source.about["licence"])
    words += [("source.name", origin)]
    _write(source, pd.DataFrame(words, columns=["property", "value"]), folder / "properties.csv")
    ends = {"origin": locations[source.home_level], "dest": locations[source.work_level]}
    left_out = 0
    path = folder / "flows.csv"
    with path.open("wb") as file:
        for number, flows in enumerate(source.flows()):
            homes, works = ends["origin"].iloc[flows["home"]], ends["dest"].iloc[flows["work"]]
            table = pd.DataFrame(
                {"origin": homes["id"].array, "dest": works["id"].array, "count": flows["S000"]}
            )
            placed_ends = homes["lat"].notna().to_numpy() & works["lat"].notna().to_numpy()
            table[placed_ends].to_csv(file, header=number == 0, index=False, lineterminator="\n")
            left_out += int(table["count"][~placed_ends].sum())
    describe_csv(path, table, source, source.say.flowmap)
    return [source.say.not_placed(left_out, source.ends_beyond)] if left_out else []


def _write(source: Source, table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False, lineterminator="\n")
    describe_csv(path, table, source, source.say.flowmap)
