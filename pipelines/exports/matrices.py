"""OMX matrices, as transport models read them: rows are homes, columns are workplaces."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.exports.source import MOST_ZONES, ExportError, Source

__all__ = ["write_omx"]

_CELLS = 1_000_000  # of a stripe of rows, which is what is in memory, and one chunk of the file


def write_omx(source: Source, folder: Path) -> list[str]:
    """Write one OMX file (HDF5) with a matrix for each count and the zones' codes as lookups.

    Parameters
    ----------
    source : Source
    folder : Path

    Returns
    -------
    list of str
        Remarks for the read-me.

    Raises
    ------
    ExportError
        If a level has more than `MOST_ZONES` zones.

    Notes
    -----
    Layout 0.2 of the OMX specification: matrices in ``/data``, all of one shape, lookups in ``/lookup``.
    """
    import h5py  # only who writes matrices waits for it

    geography = source.release.geography
    levels = (source.home_level, source.work_level)
    shape = tuple(geography.n_units(level) for level in levels)
    for level, zones in zip(levels, shape, strict=True):
        if zones > MOST_ZONES:
            raise ExportError(
                f"omx: {level} has {zones:,} zones, and a matrix at most {MOST_ZONES:,}, because a reader "
                "needs memory for all of its cells. Choose a coarser --home-level and --work-level"
            )
    flows = source.flows.sort_values(["home", "work"])
    rows = max(1, min(shape[0], _CELLS // shape[1]))
    stripes = range(0, shape[0], rows)
    bounds = np.searchsorted(flows["home"], [*stripes, shape[0]])
    with h5py.File(folder / source.name(source.flows_name, "omx"), "w") as file:
        file.attrs["OMX_VERSION"] = np.bytes_("0.2")
        file.attrs["SHAPE"] = np.array(shape, np.int32)
        for key, value in source.about.items():
            file.attrs[key] = np.bytes_(value.encode())
        data = file.create_group("data")
        for name in source.counts:
            matrix = data.create_dataset(
                name, shape, np.int32, chunks=(rows, shape[1]), compression="gzip", shuffle=True, fillvalue=0
            )
            for first, a, b in zip(stripes, bounds[:-1], bounds[1:], strict=True):
                part = flows.iloc[a:b]
                stripe = np.zeros((min(rows, shape[0] - first), shape[1]), np.int32)
                stripe[part["home"] - first, part["work"]] = part[name]
                matrix[first : first + len(stripe)] = stripe
        lookup = file.create_group("lookup")
        for side, level in zip(("home", "work"), levels, strict=True):
            codes = [str(code).encode() for code in geography.codes(level)]
            lookup.create_dataset(side, data=np.array(codes))  # of fixed length, which every reader knows
    return [
        f"Matrices have homes ({levels[0]}) as rows and workplaces ({levels[1]}) as columns; the lookups "
        "home and work have the codes of the zones, as text.",
        *(["Outside areas are zones, too, where nobody works."] if geography.outside else []),
    ]
