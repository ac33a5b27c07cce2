"""The flows of a release as a DuckDB file, made once, that answers questions about an area quickly.

Table ``flows``: a row for each row of the release's Parquet files, with the unit of both ends at every level
in place of block codes (``w0`` the coarsest of the workplace, ..., ``h0`` that of the home, ...) and the
counts ``c0`` (all jobs), ``c1``, ...; it is sorted by workplace. ``residents`` is the same, sorted by home.
The rows of an area are neighbours in one of the two, and DuckDB reads little else.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from pipelines.release.reader import PublicRelease, PublicReleaseError, read_public_release

__all__ = ["write_flow_tables"]


def write_flow_tables(release: PublicRelease, target: Path) -> None:
    """Write the flows of all implicates of a release into a DuckDB file.

    Parameters
    ----------
    release : PublicRelease
    target : Path
        A file that is not there.

    Raises
    ------
    PublicReleaseError
        If rows have blocks that are not in the geography.
    """
    geography, levels = release.geography, release.levels
    blocks = np.arange(geography.n_blocks)
    units = {"code": geography.block_codes} | {
        f"u{i}": pa.array(geography.unit_of(level, blocks)) for i, level in enumerate(levels)
    }
    ends = [f"{side}.u{i} AS {side}{i}" for side in "wh" for i in range(len(levels))]
    counts = [f'CAST("{name}" AS INTEGER) AS c{i}' for i, name in enumerate(release.counts)]
    with duckdb.connect(str(target)) as connection:
        connection.execute("SET preserve_insertion_order = true")
        connection.register("units", pa.table(units))
        parts, expected = [], 0
        for implicate in range(1, release.implicates + 1):
            opened = read_public_release(release.folder, implicate)
            for data in opened.rows.values():
                files = ", ".join(_quoted(str(path)) for path in data.files)
                parts.append(
                    f"SELECT {implicate}::UTINYINT AS implicate, {', '.join(ends + counts)} "
                    f"FROM read_parquet([{files}]) AS f "
                    "JOIN units AS w ON w.code = f.w_geocode JOIN units AS h ON h.code = f.h_geocode"
                )
                expected += data.count_rows()
        finest = len(levels) - 1
        rows = " UNION ALL ".join(parts)
        connection.execute(f"CREATE TABLE flows AS {rows} ORDER BY implicate, w{finest}, h{finest}")
        connection.execute(f"CREATE TABLE residents AS FROM flows ORDER BY implicate, h{finest}, w{finest}")
        found = connection.execute("SELECT count(*) FROM flows").fetchone()
        if found != (expected,):
            raise PublicReleaseError("the data have blocks that are not in the plan's geography")
        connection.execute("CHECKPOINT")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
