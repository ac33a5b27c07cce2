"""LODES files: OD (main and aux), residence and workplace area characteristics, as csv.gz."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

import geo_data
from pipelines.views.exports.source import Source

__all__ = ["write_lodes"]

# Columns of the RAC and WAC files that an OD file can fill.
_CHARACTERISTICS = {"S000": "C000"} | {
    name: f"C{name[1:]}" for group in ("SA", "SE") for name in geo_data.LODES_CATEGORIES[group]
}


def write_lodes(source: Source, folder: Path) -> list[str]:
    """Write the OD files batch by batch, and the totals of blocks as RAC and WAC.

    The levels of the source do not matter: LODES has blocks.
    """
    release = source.release
    createdate = release.certificate.created[:10].replace("-", "")
    for kind, rows in release.rows.items():
        _write_od(rows, folder / source.name(f"od_{kind}", "csv.gz"), createdate, source.batch_rows)
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
        geo_data.write_od_csv(table, folder / source.name(f"{file}_S000", "csv.gz"), createdate=createdate)
    return _remarks(source, list(columns.values()))


def _write_od(rows: ds.Dataset, path: Path, createdate: str, batch_rows: int) -> None:
    columns = [name for name in rows.schema.names if name != "createdate"]
    with path.open("wb") as file:
        head = rows.schema.empty_table().select(columns).to_pandas()
        geo_data.write_od_csv(head, file, createdate=createdate)
        for fragment in rows.get_fragments():
            for group in fragment.split_by_row_group():  # one scan of all would keep what it has read
                for batch in group.to_batches(columns=columns, batch_size=batch_rows):
                    geo_data.write_od_csv(batch.to_pandas(), file, createdate=createdate, header=False)


def _remarks(source: Source, columns: list[str]) -> list[str]:
    remarks = [
        f"RAC and WAC have the columns that an OD file can fill: {', '.join(columns)}. Left out are the 20 "
        "sectors (CNS01 to CNS20; an OD file has three groups of them), race, ethnicity, education and sex, "
        "and age and size of the firm.",
        "RAC counts residents who work in the region.",
    ]
    if "aux" in source.release.rows:
        remarks.append(
            "aux has the workers who live in external zones, whose codes end in 9s; they are in WAC."
        )
    if others := [name for name in source.counts if not name.startswith(("S000", "SA", "SE", "SI"))]:
        remarks.append(f"The OD files have counts that LODES does not have: {', '.join(others)}.")
    return remarks
