"""OMX matrices, as transport models read them: rows are homes, columns are workplaces."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.views.exports.source import Source
from pipelines.views.exports.tables import write_zone_table
from pipelines.views.labels import ends_beyond

if TYPE_CHECKING:
    import h5py

_SIDE = 128  # of a tile, one chunk of the file: 64 kB, of which few flows leave little when packed


def write_omx(source: Source, folder: Path, side: int = _SIDE) -> list[str]:
    """Write one OMX file (HDF5, layout 0.2) with a matrix for each count and the zones' numbers as lookups.

    A lookup has whole numbers, because ActivitySim takes no text. Codes and names are in ``/zones``, of which
    the specification knows nothing. Matrices consist of tiles of `side` by `side` cells, of which only those
    with flows are in the file; columns of tiles are written one after another, as the flows come.
    """
    import h5py  # only who writes matrices waits for it

    order = {level: np.argsort(source.numbers(level)) for level in source.levels.values()}
    shape = tuple(len(order[level]) for level in source.levels.values())
    tile = tuple(min(side, zones) for zones in shape)
    with h5py.File(folder / source.name(source.flows_name, "omx"), "w") as file:
        file.attrs["OMX_VERSION"] = np.bytes_("0.2")
        file.attrs["SHAPE"] = np.array(shape, np.int32)
        _describe(file, source.about)
        data = file.create_group("data")
        matrices = [
            data.create_dataset(_name(count), shape, np.int32, chunks=tile, compression="gzip", fillvalue=0)
            for count in source.counts
        ]
        for matrix, meaning in zip(matrices, source.meanings_of(source.counts).values(), strict=True):
            _describe(matrix, {"description": source.say.matrix(meaning)})
        flows = source.flows()
        if any((np.diff(units) < 0).any() for units in order.values()):  # not as flows come
            flows = iter([_by_number(pd.concat(flows), source.levels, order)])
        for strip in _strips(flows, tile[1]):
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
        square = source.home_level == source.work_level
        lookups = {"zone": source.home_level} if square else source.levels
        for name, level in lookups.items():
            points = source.points(level).iloc[order[level]]
            lookup = file.create_dataset(f"lookup/{name}", data=source.numbers(level)[order[level]])
            _describe(lookup, {"description": f"{source.meanings['zone']} (zones/{name})"})
            for column in points.columns.intersection(["code", "name"]):
                # Of fixed length, which every reader knows.
                words = np.char.encode(points[column].to_numpy(str), "utf-8")
                _describe(
                    file.create_dataset(f"zones/{name}/{column}", data=words, compression="gzip"),
                    {"description": source.meanings[column]},
                )
    for level in dict.fromkeys(source.levels.values()):
        write_zone_table(source, level, folder)
    size = 4 * shape[0] * shape[1] / 1e9  # GB
    say, ends = source.say, ends_beyond(source.release.geography)
    escaped = [(count, _name(count)) for count in source.counts if _name(count) != count]
    return [
        say.matrix_sides(source.home_level, source.work_level),
        say.matrix_zones(square),
        *([say.matrix_size(f"{size:,.0f}", tile)] if size >= 1 else []),
        *([say.matrix_external(ends)] if ends else []),
        *([say.matrix_names(escaped)] if escaped else []),
    ]


def _name(count: str) -> str:
    """Return the name of the matrix of a count: what HDF5 or PyTables would not take for one is escaped."""
    return re.sub(r"^_(?=[ip]_)|/|\.$|%(?=2[5EF]|5F)", lambda mark: f"%{ord(mark[0]):02X}", count)


def _by_number(
    flows: pd.DataFrame, levels: Mapping[str, str], order: Mapping[str, NDArray[np.int64]]
) -> pd.DataFrame:
    """Return flows between places in an order of the units of each level, sorted by place of work."""
    places = {side: np.argsort(order[level])[flows[side]] for side, level in levels.items()}
    return flows.assign(**places).sort_values("work")


def _describe(item: h5py.HLObject, words: Mapping[str, str]) -> None:
    for name, text in words.items():
        item.attrs[name] = np.bytes_(text.encode())


def _strips(batches: Iterator[pd.DataFrame], width: int) -> Iterator[pd.DataFrame]:
    """Yield the flows of each strip of so many columns that has any."""
    strip_parts: list[pd.DataFrame] = []
    for flows in batches:
        for strip, part in flows.groupby(flows["work"] // width):
            if strip_parts and strip_parts[0]["work"].iloc[0] // width != strip:
                yield pd.concat(strip_parts)
                strip_parts = []
            strip_parts.append(part)
    if strip_parts:
        yield pd.concat(strip_parts)
