"""OMX matrices, as transport models read them: rows are homes, columns are workplaces."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipelines.views.exports.source import Source
from pipelines.views.exports.tables import write_zone_table

if TYPE_CHECKING:
    import h5py

__all__ = ["write_omx"]

_SIDE = 128  # of a tile, one chunk of the file: 64 kB, of which few flows leave little when packed


def write_omx(source: Source, folder: Path, side: int = _SIDE) -> list[str]:
    """Write one OMX file (HDF5) with a matrix for each count and the zones' numbers as lookups.

    `side` is that of a tile, in cells.

    Notes
    -----
    Layout 0.2 of the OMX specification: matrices in ``/data``, all of one shape, lookups in ``/lookup``. A
    lookup has whole numbers, because ActivitySim takes no text, nor two lookups that differ. Codes and
    names are in ``/zones``, of which the specification knows nothing, and its readers neither.

    Matrices consist of tiles, and only those with flows are in the file: of the others HDF5 knows that they
    are 0. Columns of tiles are written one after another, as the flows come in the order of work zones.
    """
    import h5py  # only who writes matrices waits for it

    geography = source.release.geography
    shape = tuple(geography.n_units(level) for level in source.levels.values())
    tile = tuple(min(side, zones) for zones in shape)
    with h5py.File(folder / source.name(source.flows_name, "omx"), "w") as file:
        file.attrs["OMX_VERSION"] = np.bytes_("0.2")
        file.attrs["SHAPE"] = np.array(shape, np.int32)
        _describe(file, source.about)
        data = file.create_group("data")
        matrices = [
            data.create_dataset(name, shape, np.int32, chunks=tile, compression="gzip", fillvalue=0)
            for name in source.counts
        ]
        for matrix, meaning in zip(matrices, source.of(source.counts).values(), strict=True):
            _describe(matrix, {"description": f"{meaning}; rows are homes, columns are workplaces"})
        for strip in _strips(source, tile[1]):
            column = strip["work"].iloc[0] // tile[1] * tile[1]
            strip = strip.sort_values("home")
            home, work = strip["home"].to_numpy(), strip["work"].to_numpy() - column
            rows, begin = np.unique(home // tile[0] * tile[0], return_index=True)
            counts = strip[source.counts].to_numpy(np.int32)
            for row, a, b in zip(rows, begin, [*begin[1:], len(home)], strict=True):
                for matrix, jobs in zip(matrices, counts[a:b].T, strict=True):
                    if jobs.any():
                        values = np.zeros(tile, np.int32)
                        values[home[a:b] - row, work[a:b]] = jobs
                        # Packed here: HDF5 would take several times as long for tiles that are nearly empty.
                        packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
                        packed = packer.compress(values.data) + packer.flush()
                        matrix.id.write_direct_chunk((row, column), packed)
        one = source.home_level == source.work_level
        lookups = {"zone": source.home_level} if one else source.levels
        for name, level in lookups.items():
            numbers = np.arange(1, geography.n_units(level) + 1, dtype=np.int32)
            lookup = file.create_dataset(f"lookup/{name}", data=numbers)
            _describe(lookup, {"description": f"{source.meanings['zone']} (zones/{name})"})
            for column in source.points(level).columns.intersection(["code", "name"]):
                # Of fixed length, which every reader knows.
                words = np.char.encode(source.points(level)[column].to_numpy(str), "utf-8")
                _describe(
                    file.create_dataset(f"zones/{name}/{column}", data=words, compression="gzip"),
                    {"description": source.meanings[column]},
                )
    for level in dict.fromkeys(source.levels.values()):
        write_zone_table(source, level, folder)
    size = 4 * shape[0] * shape[1] / 1e9  # GB
    outside = bool(geography.external_zones)
    return [
        f"Rows are homes ({source.home_level}), columns are workplaces ({source.work_level}).",
        (
            "Homes and workplaces have one zone system: row and column i are the same zone. The lookup zone "
            "has its number, from 1; codes and names by number are in the CSV file beside, and in the group "
            "zones of the matrices' own file."
            if one
            else "Homes and workplaces have different zones, so matrices are not square. ActivitySim does "
            "not take them, and AequilibraE takes the zones of homes for all: give one level for both. The "
            "lookups home and work have the numbers of the zones, from 1; codes and names by number are in "
            "the CSV files beside, and in the group zones of the matrices' own file."
        ),
        *(
            [
                f"A program that loads a whole matrix needs {size:,.0f} GB of memory for it. Read parts: the "
                f"file has tiles of {tile[0]} x {tile[1]} cells."
            ]
            if size >= 1
            else []
        ),
        *(["External zones are zones, too, where nobody works."] if outside else []),
    ]


def _describe(item: h5py.HLObject, words: Mapping[str, str]) -> None:
    for name, text in words.items():
        item.attrs[name] = np.bytes_(text.encode())


def _strips(source: Source, width: int) -> Iterator[pd.DataFrame]:
    """Yield the flows of each strip of so many columns that has any."""
    held: list[pd.DataFrame] = []
    for flows in source.flows():
        for strip, part in flows.groupby(flows["work"] // width):
            if held and held[0]["work"].iloc[0] // width != strip:
                yield pd.concat(held)
                held = []
            held.append(part)
    if held:
        yield pd.concat(held)
