"""OMX matrices, as transport models read them: rows are homes, columns are workplaces."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.views.exports.source import Source

__all__ = ["write_omx"]

_SIDE = 128  # of a tile, one chunk of the file: 64 kB, of which few flows leave little when packed


def write_omx(source: Source, folder: Path, side: int = _SIDE) -> list[str]:
    """Write one OMX file (HDF5) with a matrix for each count and the zones' codes as lookups.

    `side` is that of a tile, in cells.

    Notes
    -----
    Layout 0.2 of the OMX specification: matrices in ``/data``, all of one shape, lookups in ``/lookup``.

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
        for key, value in source.about.items():
            file.attrs[key] = np.bytes_(value.encode())
        data = file.create_group("data")
        matrices = [
            data.create_dataset(name, shape, np.int32, chunks=tile, compression="gzip", fillvalue=0)
            for name in source.counts
        ]
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
        lookup = file.create_group("lookup")
        for end, level in source.levels.items():
            codes = [str(code).encode() for code in geography.codes(level)]
            lookup.create_dataset(end, data=np.array(codes))  # of fixed length, which every reader knows
    size = 4 * shape[0] * shape[1] / 1e9  # GB
    return [
        f"Matrices have homes ({source.home_level}) as rows and workplaces ({source.work_level}) as columns; "
        "the lookups home and work have the codes of the zones, as text.",
        *(
            [
                f"A program that loads a whole matrix needs {size:,.0f} GB of memory for it. Read parts: the "
                f"file has tiles of {tile[0]} x {tile[1]} cells."
            ]
            if size >= 1
            else []
        ),
        *(["External zones are zones, too, where nobody works."] if geography.external_zones else []),
    ]


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
