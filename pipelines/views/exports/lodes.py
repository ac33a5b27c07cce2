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

# What else LODES has in them; its OD files, which a release is like, have nothing of the kind.
_OTHERS = (
    "CNS01 to CNS20 (sectors), CR01 to CR07 (race), CT01 and CT02 (ethnicity), CD01 to CD04 (education), "
    "CS01 and CS02 (sex), CFA01 to CFA05 (age of the firm), CFS01 to CFS05 (size of the firm)"
)


def write_lodes(source: Source, folder: Path) -> list[str]:
    """Write the OD files batch by batch, the totals of blocks as RAC and WAC, and the crosswalk."""
    release = source.release
    createdate = release.certificate.created[:10].replace("-", "")
    for kind, rows in release.rows.items():
        path = folder / source.name(f"od_{kind}", "csv.gz")
        head = _write_od(rows, path, createdate, source.batch_rows)
        describe_csv(path, head, source.about, source.meanings | _MEANINGS)
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
        describe_csv(path, table.assign(createdate=""), source.about, _MEANINGS | counted, _absent(columns))
    _write_crosswalk(source, folder / f"{release.certificate.release.state}_xwalk.csv.gz", createdate)
    return _remarks(source, columns)


_MEANINGS = {
    "w_geocode": "work block, text",
    "h_geocode": "home block, text",
    "createdate": "day of the release, YYYYMMDD",
    "blklatdd": "latitude of the block's centroid; degrees, WGS84",
    "blklondd": "longitude of the block's centroid; degrees, WGS84",
}


def _write_crosswalk(source: Source, path: Path, createdate: str) -> None:
    """Write the areas that each block belongs to, with their names, in the manner of LODES."""
    geography = source.release.geography
    inside = np.flatnonzero(~geography.is_external(np.arange(geography.n_blocks)))
    columns: dict[str, np.ndarray] = {geography.block_level: geography.blocks[inside]}
    meanings = dict(_MEANINGS)
    for level in geography.levels:
        unit = geography.unit_of(level, inside)
        columns[level] = geography.codes(level)[unit]
        names = unit_names(source.release, level)[unit]
        if (names != "").any():
            columns[f"{level}name"] = names
    for level in source.release.levels:
        meanings |= {level: f"{singular(level)}, code, text", f"{level}name": f"{singular(level)}, name"}
    columns |= {"blklatdd": geography.latitude[inside], "blklondd": geography.longitude[inside]}
    table = pd.DataFrame(columns).assign(createdate=createdate)
    # As `write_od_csv`, no time and no name in it: the same content has the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        table.to_csv(packed, index=False, lineterminator="\n")
    describe_csv(path, table, source.about, meanings)


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


def _absent(columns: Mapping[str, str]) -> str:
    lacking = [column for name, column in _CHARACTERISTICS.items() if name not in columns]
    return (
        f"RAC and WAC lack these columns of LODES: {', '.join([*lacking, _OTHERS])}. They are left out, not "
        "empty, because programs that add up areas take empty for 0."
    )


def _remarks(source: Source, columns: Mapping[str, str]) -> list[str]:
    geography = source.release.geography
    elsewhere = kinds_of_work(geography)
    remarks = [
        f"RAC and WAC have the columns that the release can fill: {', '.join(columns.values())}.",
        _absent(columns),
        f"RAC counts residents who work in the region{f', or elsewhere ({elsewhere})' if elsewhere else ''}.",
    ]
    if elsewhere:
        length = geography.longest(geography.block_level)
        codes = [f"{fill(zone, length)} is {name}" for zone, name in geography.external_workplaces.items()]
        remarks.append(
            "OD and WAC have work in external zones, too, which are no blocks of the crosswalk: "
            f"{', '.join(codes)}."
        )
    if "aux" in source.release.rows:
        remarks.append(
            "aux has the workers who live in external zones, whose codes end in 9s; they are in WAC."
        )
    standard = {"S000", *itertools.chain(*LODES_CATEGORIES.values())}
    if nonstandard := [name for name in source.counts if name not in standard]:
        remarks.append(f"The OD files have counts that LODES does not have: {', '.join(nonstandard)}.")
    return remarks
