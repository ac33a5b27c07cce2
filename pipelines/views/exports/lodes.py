"""LODES files: OD (main and aux), residence and workplace area characteristics, as csv.gz."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as ds

from geo_data.external_zones import fill
from geo_data.od_files import LODES_CATEGORIES, write_od_csv
from pipelines.release.description import kinds_of_work
from pipelines.views.exports.source import Source, describe_csv
from pipelines.views.labels import singular, unit_names

# Columns of the RAC and WAC files that an OD file can fill.
_CHARACTERISTICS = {"S000": "C000"} | {
    name: f"C{name[1:]}" for group in ("SA", "SE") for name in LODES_CATEGORIES[group]
}


def write_lodes(source: Source, folder: Path) -> list[str]:
    """Write the OD files batch by batch, the totals of blocks as RAC and WAC, and the crosswalk."""
    release = source.release
    createdate = release.certificate.created[:10].replace("-", "")
    for kind, rows in release.rows.items():
        path = folder / source.name(f"od_{kind}", "csv.gz")
        head = _write_od(rows, path, createdate, source.batch_rows)
        describe_csv(path, head, source, source.meanings | source.say.lodes)
    columns = {name: column for name, column in _CHARACTERISTICS.items() if name in release.counts}
    block, coarsest = release.geography.block_level, release.levels[0]
    for file, side, levels, kinds in [
        # A resident's block is known of homes inside only; a workplace has workers from everywhere.
        ("rac", "home", (block, coarsest), ("main",)),
        ("wac", "work", (coarsest, block), tuple(release.rows)),
    ]:
        totals = release.unit_flows(*levels, list(columns), kinds).groupby(side)[list(columns)].sum()
        table = totals.rename(columns=columns).reset_index(drop=True)
        table.insert(0, f"{side[0]}_geocode", release.geography.blocks[totals.index])
        path = folder / source.name(f"{file}_S000", "csv.gz")
        write_od_csv(table, path, createdate=createdate)
        counted = {column: source.meanings[name] for name, column in columns.items()}
        meanings = source.say.lodes | counted
        describe_csv(path, table.assign(createdate=""), source, meanings, _absent(source, columns))
    _write_crosswalk(source, folder / f"{release.certificate.release.state}_xwalk.csv.gz", createdate)
    return _remarks(source, columns)


def _write_crosswalk(source: Source, path: Path, createdate: str) -> None:
    """Write the areas that each block belongs to, with their names, in the manner of LODES."""
    geography = source.release.geography
    inside = np.flatnonzero(~geography.is_external(np.arange(geography.n_blocks)))
    columns: dict[str, np.ndarray] = {geography.block_level: geography.blocks[inside]}
    say = source.say
    meanings = dict(say.lodes)
    for level in geography.levels:
        unit = geography.unit_of(level, inside)
        columns[level] = geography.codes(level)[unit]
        names = unit_names(source.release, level)[unit]
        if (names != "").any():
            columns[f"{level}name"] = names
    for level in source.release.levels:
        one = singular(level, source.language)
        meanings |= {level: say.lodes_code(one), f"{level}name": say.lodes_name(one)}
    columns |= {"blklatdd": geography.latitude[inside], "blklondd": geography.longitude[inside]}
    table = pd.DataFrame(columns).assign(createdate=createdate)
    # As `write_od_csv`, no time and no name in it: the same content has the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        table.to_csv(packed, index=False, lineterminator="\n")
    describe_csv(path, table, source, meanings)


def _write_od(rows: ds.Dataset, path: Path, createdate: str, batch_rows: int) -> pd.DataFrame:
    """Write the rows; return none of them, with all columns."""
    columns = [name for name in rows.schema.names if name != "createdate"]
    with path.open("wb") as file:
        head = rows.schema.empty_table().select(columns).to_pandas()
        write_od_csv(head, file, createdate=createdate)
        for fragment in rows.get_fragments():
            for group in fragment.split_by_row_group():  # one scan of all would keep what it has read
                for batch in group.to_batches(columns=columns, batch_size=batch_rows):
                    write_od_csv(batch.to_pandas(), file, createdate=createdate, header=False)
    return head.assign(createdate=pd.Series(dtype="str"))


def _absent(source: Source, columns: Mapping[str, str]) -> str:
    lacking = [column for name, column in _CHARACTERISTICS.items() if name not in columns]
    return str(source.say.lodes_absent(lacking))


def _remarks(source: Source, columns: Mapping[str, str]) -> list[str]:
    geography, say = source.release.geography, source.say
    elsewhere = kinds_of_work(geography)
    remarks = [
        say.lodes_present([*columns.values()]),
        _absent(source, columns),
        say.lodes_residents(elsewhere),
    ]
    if elsewhere:
        length = geography.longest(geography.block_level)
        codes = [(fill(zone, length), name) for zone, name in geography.external_workplaces.items()]
        remarks.append(say.lodes_elsewhere(codes))
    if "aux" in source.release.rows:
        blocks = geography.external_blocks
        names = unit_names(source.release, geography.block_level, blocks)
        zones = zip(geography.external_zones, geography.blocks[blocks], names, strict=True)
        named = [(code, name) for zone, code, name in zones if name and zone in geography.external_homes]
        remarks.append(say.lodes_aux(named))
    standard = {"S000", *itertools.chain(*LODES_CATEGORIES.values())}
    if nonstandard := [name for name in source.counts if name not in standard]:
        remarks.append(say.lodes_others(nonstandard))
    return remarks
