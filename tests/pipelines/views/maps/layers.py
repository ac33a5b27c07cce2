"""Areas that cut across the levels, put into a release that was made without them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from helpers import edit_json
from pipelines.release.names import NAME_FILE
from pipelines.storage.checksums import sha256_of


def add_areas(public: Path, kind: str, codes: pd.Series, names: dict[str, str]) -> None:
    """Give the blocks of a release an area each, as `geography.non_nesting_areas` does; codes by block."""
    path = public / "plan" / "blocks.parquet"
    table = pq.read_table(path)
    column = pa.array(codes.reindex(table.column(table.column_names[0]).to_pylist()).fillna(""))
    before = table.column_names.index("latitude")
    pq.write_table(table.add_column(before, kind, column.dictionary_encode()), path)

    def say(document: dict) -> None:
        geography = document["configuration"]["geography"]
        geography["non_nesting_areas"] = [*geography.get("non_nesting_areas", []), kind]
        document["files"][path.name] = sha256_of(path)

    edit_json(public / "plan" / "plan.json", say)
    known = pq.read_table(public / NAME_FILE).to_pandas()
    more = pd.DataFrame({"level": kind, "code": [*names], "name": [*names.values()]})
    both = pd.concat([known, more], ignore_index=True).astype("str")
    pq.write_table(pa.Table.from_pandas(both, preserve_index=False), public / NAME_FILE)
