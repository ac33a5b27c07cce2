"""Texts that come many times over: one dictionary for all chunks of a column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from geo_data.code_index import in_one_dictionary

rows = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d"])), max_size=6)


@given(st.data())
def test_whatever_dictionaries_chunks_have_they_get_one(data: st.DataObject) -> None:
    whole = pa.array(["d", "c", "b", "a", "b"])
    chunks = []
    for values in data.draw(st.lists(rows, max_size=5)):
        own = pa.array(values, pa.string()).dictionary_encode()
        if data.draw(st.booleans()):  # a part of the memory that others have, and not the same part
            part = whole.slice(data.draw(st.integers(0, 1)), 4)
            numbers = [
                None if value is None else part.to_pylist().index(value) for value in values if value != "d"
            ]
            own = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), part)
        chunks.append(own)
    column = pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))
    found = in_one_dictionary(column)
    assert found.to_pylist() == column.to_pylist()
    assert all(chunk.dictionary.equals(found.chunk(0).dictionary) for chunk in found.chunks)
    plain = column.cast(pa.string())
    assert in_one_dictionary(plain).to_pylist() == plain.to_pylist()


def test_a_file_of_row_groups_has_a_chunk_for_each_dictionary(tmp_path: Path) -> None:
    texts = [f"{i % 7 + 10 * (i // 200_000)}" for i in range(400_000)]
    pq.write_table(pa.table({"code": texts}), tmp_path / "codes.parquet", row_group_size=200_000)
    column = pq.read_table(tmp_path / "codes.parquet", read_dictionary=["code"])["code"]
    assert column.num_chunks > 2, "pyarrow reads a row group in many chunks"
    found = in_one_dictionary(column)
    assert found.num_chunks == 2
    assert len(found.chunk(0).dictionary) == 14
    assert found.to_pylist() == texts
