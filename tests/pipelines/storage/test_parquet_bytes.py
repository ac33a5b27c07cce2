"""Parquet files: compared with what is written of their rows; of another pyarrow's the footer only."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.storage.parquet_bytes import check_parquet_bytes, rewrite
from pipelines.storage.parquet_form import FormError

pytestmark = pytest.mark.quick

VERSION = f"parquet-cpp-arrow version {pa.__version__}".encode()
ANOTHER = VERSION[:-1] + bytes([VERSION[-1] ^ 1])


def checked(path: Path) -> bool:
    return check_parquet_bytes(path, partial(rewrite, path))


def test_a_file_of_another_pyarrow_is_said_not_to_be_compared_and_has_a_whole_footer(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, 2], "b": ["x", "y", "x"]}), path, compression="zstd")
    whole = path.read_bytes()
    assert checked(path)
    path.write_bytes(whole.replace(VERSION, ANOTHER))
    assert not checked(path), "said to be not compared"
    at = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for name in (VERSION, ANOTHER):
        file = whole.replace(VERSION, name)
        more = file[at:-9] + b"\x08\x50\x10home of worker 7\0"
        for changed in (
            file[:at] + b"home" + file[at:],
            file[:at] + more + len(more).to_bytes(4, "little") + b"PAR1",
        ):
            path.write_bytes(changed)
            with pytest.raises((FormError, OSError)):
                checked(path)
    for program in (b"home of worker 7".ljust(len(VERSION)), VERSION[:-2] + b".x"):
        path.write_bytes(whole.replace(VERSION, program))
        with pytest.raises(FormError, match="not pyarrow"):
            checked(path)


def test_groups_without_rows_have_no_page_of_data(tmp_path: Path) -> None:
    """As where no worker of a batch, or of a release, lives in an external zone."""
    rows, path = pa.table({"a": ["x", "y"], "n": [1, 2]}), tmp_path / "x.parquet"

    def write(groups: list[pa.Table], target: object) -> None:
        with pq.ParquetWriter(target, rows.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(group)

    for groups in ([rows[:0]], [rows[:0], rows], [rows, rows[:0]]):
        write(groups, path)
        assert check_parquet_bytes(path, partial(write, groups))
