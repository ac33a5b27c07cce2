"""Tables of a release as CSV beside Parquet, for spreadsheets and base R: blocks, and names of areas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.release.names import NAME_FILE

BLOCK_CSV, NAME_CSV = "blocks.csv", "names.csv"
_COPIES = {BLOCK_CSV: "plan/blocks.parquet", NAME_CSV: NAME_FILE}


def write_csv_tables(folder: Path) -> None:
    """Write the tables of a public folder that it has as Parquet."""
    for name, source in _COPIES.items():
        if (folder / source).is_file():
            with (folder / name).open("wb") as file:
                file.writelines(_text(folder / source))


def check_csv_tables(folder: Path) -> str:
    """Check that each table has the rows of its Parquet file and nothing else, and say which there are."""
    present = [name for name in _COPIES if (folder / name).is_file()]
    for name in present:
        with (folder / name).open("rb") as file:
            same = all(file.read(len(text)) == text for text in _text(folder / _COPIES[name]))
            if not same or file.read(1):
                raise ValueError(f"{name}: its rows are not those of {_COPIES[name]}")
    return f"{' and '.join(present)} have the rows of {' and '.join(_COPIES[name] for name in present)}"


def _text(source: Path) -> Iterator[bytes]:
    """Yield the rows of a Parquet file as CSV, a batch at a time."""
    for number, batch in enumerate(pq.ParquetFile(source).iter_batches()):
        text: str = batch.to_pandas().to_csv(index=False, header=number == 0, lineterminator="\n")
        yield text.encode()
