"""Reading tables: what is accepted as what, and every way a file can be broken."""

from __future__ import annotations

import gzip
import math
import pickle
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import InputError, tables
from geo_data.code_index import in_one_dictionary
from geo_data.delimited import BLOCK
from geo_data.tables import Kind, TableSchema, read_table

NOT_UTF8 = pa.array([b"\xff\xfe", b"a", None], pa.binary()).view(pa.string())
PARQUET_COLUMNS = {
    "not UTF-8": NOT_UTF8,
    "dictionary, not UTF-8": pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), NOT_UTF8[:2]),
    "dictionary with a null": pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["44", "45"])),
    "view": pa.array(["1", "2", "3"], pa.string_view()),
    "binary": pa.array([b"44", b"45", b"\xff"]),
    "fixed": pa.array([b"44", b"45", b"46"], pa.binary(2)),
    "list": pa.array([["a"], ["b"], []]),
    "struct": pa.array([{"a": 1}] * 3),
    "decimal": pa.array(map(Decimal, ("44.0", "45.0", "1e60")), pa.decimal256(70, 2)),
    "timestamp": pa.array([1, 2, 3], pa.timestamp("us")),
    "duration": pa.array([1, 2, 3], pa.duration("s")),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 3, pa.binary(16))),
    "boolean": pa.array([True, False, None]),
    "nothing": pa.nulls(3),
    "lists of nothing": pa.nulls(3, pa.list_(pa.string())),
    "64 bits": pa.array([2**64 - 1, 0, 1], pa.uint64()),
    "half": pa.array([1, 2, 3], pa.float16()),
    "NaN": pa.array([1.0, math.nan, math.inf]),
}
COLUMNS = {"id": "code", "kind": "label", "n": "count", "x": "number"}
TEXT = 'other,id,kind,n,x\n"a, b",007,red,3,"1,234.5"\n,E02,"x,y",0,-2\n'


def test_kinds_of_columns(write):
    frame = read_table(write(TEXT), COLUMNS)
    assert list(frame.columns) == list(COLUMNS)
    assert frame["id"].tolist() == ["007", "E02"]
    assert frame["kind"].tolist() == ["red", "x,y"]
    assert frame["n"].tolist() == [3, 0]
    assert frame["n"].dtype == np.int64
    assert frame["x"].tolist() == [1234.5, -2.0]
    assert frame["x"].dtype == np.float64
    assert frame["id"].dtype == frame["kind"].dtype == "str"


def test_gzip_bom_and_parquet_give_the_same(write, tmp_path):
    plain = read_table(write(TEXT), COLUMNS)
    pd.testing.assert_frame_equal(plain, read_table(write(TEXT, "t.csv.gz"), COLUMNS))
    pd.testing.assert_frame_equal(plain, read_table(write("\ufeff" + TEXT, "bom.csv"), COLUMNS))
    plain.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(plain, read_table(tmp_path / "t.parquet", COLUMNS))


def test_members_of_a_gzip_are_one_file(tmp_path):
    path = tmp_path / "two.csv.gz"
    path.write_bytes(gzip.compress(b"id\n01\n") + gzip.compress(b"02\n"))
    assert read_table(path, {"id": "code"})["id"].tolist() == ["01", "02"]


def test_parquet_labels_may_be_integers_or_dictionaries(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"worker": [12, 7], "age": pa.array(["b", "a"]).dictionary_encode(), "f": [1, 2]})
    pa.parquet.write_table(table, path)
    frame = read_table(path, {"worker": "label", "age": "label", "f": "number"})
    assert frame["worker"].tolist() == ["12", "7"]
    assert frame["age"].tolist() == ["b", "a"]
    assert frame["f"].tolist() == [1.0, 2.0]


def dictionaries(rows, words):
    """Return texts in two pieces whose dictionaries differ, and have a word that no row has."""
    words = [word for word in words if word is not None]
    half = len(rows) // 2
    pieces = (rows[:half], [*words, "x1"]), (rows[half:], ["x2", *reversed(words)])
    at = [[None if row is None else some.index(row) for row in part] for part, some in pieces]
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), some)
            for numbers, (_, some) in zip(at, pieces, strict=True)
        ]
    )


@pytest.mark.parametrize("form", ["csv", "csv.gz", "text", "dictionary"])
@pytest.mark.parametrize(
    ("words", "kind", "rule"),
    [
        (["01", "02", "10"], "code", None),
        (["b", "a", "c d"], "label", None),
        (["01", "02", " "], "code", "values are missing or blank"),
        (["01", "02", None], "home", "values are missing or blank"),
        (["01", "02", "1e+2"], "code", "decimal numbers"),
    ],
)
def test_what_is_shared_is_the_same_and_refused_alike(tmp_path, form, words, kind, rule):
    rows = [words[i % 3] for i in range(20)]
    path = tmp_path / f"t.{form}"
    if form.startswith("csv"):
        pd.DataFrame({"id": rows, "n": 1}).to_csv(path, index=False)
    else:
        column = dictionaries(rows, words) if form == "dictionary" else pa.array(rows)
        pa.parquet.write_table(pa.table({"id": column}), path, row_group_size=7)
    found = []
    for shared in ((), ("id",)):
        try:
            frame = read_table(path, TableSchema({"id": kind}, shared=shared))
        except InputError as error:
            found.append(str(error))
        else:
            assert isinstance(frame["id"].dtype, pd.CategoricalDtype) == bool(shared)
            found.append(frame["id"].astype("str").tolist())
    assert found[0] == found[1]
    assert (rule in found[0]) if rule else (found[0] == rows)


JOINED = "\u0645\u06cc\u200c\u0631\u0648\u062f"  # Persian, of "to go"
SPELLED = [
    ("high", "high "),
    ("high", "high\u00a0"),
    ("high", "\ufeffhigh"),
    ("high", "hi\u200bgh"),
    ("so much", "so \tmuch"),
    ("caf\u00e9", "cafe\u0301"),
]


@pytest.mark.parametrize("form", ["csv", "dictionary"])
@pytest.mark.parametrize("shared", [(), ("a",)])
@pytest.mark.parametrize(("plain", "other"), [*SPELLED, ("1", "1.0"), (JOINED.replace("\u200c", ""), JOINED)])
def test_two_spellings_of_a_text(tmp_path, form, shared, plain, other):
    """Public files name both, confidential ones none; where a refusal would tell of data, both are one."""
    path, rows = tmp_path / f"t.{form}", [other, "low", plain, other]
    if form == "csv":
        pd.DataFrame({"a": rows}).to_csv(path, index=False)
    else:
        pa.parquet.write_table(pa.table({"a": dictionaries(rows, [other, "low", plain])}), path)
    with pytest.raises(InputError, match="1 text has several spellings") as caught:
        read_table(path, TableSchema({"a": "label"}, shared=shared))
    assert ascii(plain) in str(caught.value)
    assert ascii(other) in str(caught.value)
    with pytest.raises(InputError, match="1 text has several spellings") as caught:
        read_table(path, TableSchema({"a": "label"}, shared=shared, confidential=True))
    assert ascii(other) not in str(caught.value)
    frame = read_table(path, TableSchema({"a": "label"}, shared=shared, any_spelling=("a",)))
    assert frame["a"].tolist() == [plain, "low", plain, plain]


@pytest.mark.parametrize(("plain", "other"), SPELLED)
def test_one_spelling_of_a_text_is_read_plain(write, plain, other):
    assert read_table(write(f"a\n{other}\n"), {"a": "code"})["a"].tolist() == [plain]


@pytest.mark.parametrize(
    "word", [JOINED, "\u0dc1\u0dca\u200d\u0dbb\u0dd3", "\u0915\u094d\u200d\u0937\u200d\u092f"]
)
def test_joiners_that_are_seen_stay(write, word):
    assert read_table(write(f"a\n{word}\u200d\n"), {"a": "label"})["a"].tolist() == [word]


def test_spellings_of_no_row_and_numbers_with_fractions_are_no_fault(tmp_path):
    path, words = tmp_path / "t.parquet", pa.array(["a", "a ", "1.5", "1", "01"])
    pa.parquet.write_table(pa.table({"a": pa.DictionaryArray.from_arrays([0, 2, 3, 4], words)}), path)
    for shared in ((), ("a",)):
        frame = read_table(path, TableSchema({"a": "label"}, shared=shared))
        assert frame["a"].tolist() == ["a", "1.5", "1", "01"]


def test_absent_file(tmp_path, refused):
    path = tmp_path / "nothing.csv"
    with refused(path, "there is no such file"):
        read_table(path, COLUMNS)


CANARY = b"987654321098765"  # as a fixture: a code that no error shows
BAD_FILES: list[tuple[bytes, str, int | None]] = [
    (b"", "the file is empty", None),
    *((b"id,n" + end, "the file has a header and no rows", None) for end in (b"\n", b"\r\n\r\n")),
    (b"id,kind\n1,2\n", "missing columns: n; the file has: id, kind", None),
    (CANARY + b",CANARY\n1,2\n", "missing columns: id, n; the file has: 2 columns, none of these", None),
    (b"id,n,n\n1,2,3\n", "columns have the same name: n", None),
    (b"id,n\n1,2\n%b,3,CANARY\n%b\n" % (CANARY, CANARY), "rows do not have as many fields as the header", 2),
    *((text, "not UTF-8", None) for text in (b"id,n\nS\xe3o,1\n", b"S\xe3o,id,n\n1,1,1\n")),
    *((text, "semicolons, tabs or bars", None) for text in (b"id;n\n1;2\n", b'"id"\t"n"\n"1"\t"2"\n')),
    (b"PK\x03\x04 CANARY", "a workbook (xlsx) or a zip archive", None),
    (b"<!DOCTYPE html>\nCANARY\n", "a web page", None),
    (b'id,n\n="44",CANARY\n', "a formula of a spreadsheet", None),
    (b'id,n\na,"CANARY" ; b\n', "a quotation mark stands inside a field", None),
    (b'id,n\n1,"2\n3",4\n', "not closed in its line", None),
    (b"id,n\n1,2\r\n3,4\n", "does not end like the first line", None),
    (b"id,n\r\n1,2\n3,4\r\n", "does not end like the first line", None),
    (b"id,n\n\n1,2\n", "blank lines between rows", None),
    (b"id,n\n1,2\n3,4", "no line break at its end", None),
    ("id,n\n1,2\n".encode("utf-16"), "NUL byte", None),
    *((b"id,n\n1," + b"2" * times * BLOCK + b"\n", "a line is longer", None) for times in (1, 2)),
]


@pytest.mark.parametrize(("data", "rule", "count"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_bad_files(write, refused, data, rule, count):
    for name in ("t.csv",) if data[:1] in (b"P", b"<") else ("t.csv", "t.csv.gz"):
        path = write(data, name)
        with refused(path, rule, count=count):
            read_table(path, {"id": "code", "n": "count"})


def test_columns_that_are_not_read_may_be_in_any_encoding(write):
    assert read_table(write(b"name,id\nS\xe3o,01\n"), {"id": "code"})["id"].tolist() == ["01"]


@pytest.mark.parametrize("end", [-1, -9, 12])
def test_truncated_gzip(tmp_path, refused, canary, end):
    rng = np.random.default_rng(0)
    whole = gzip.compress(("id\n" + "\n".join(canary + str(n) for n in rng.integers(0, 9**9, 5000))).encode())
    path = tmp_path / "t.csv.gz"
    path.write_bytes(whole[:end])
    with refused(path, "truncated or corrupt"):
        read_table(path, {"id": "code"})


def test_truncated_parquet(tmp_path, refused):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"id": ["01"]}), path)
    path.write_bytes(path.read_bytes()[:-5])
    with refused(path, "truncated or corrupt"):
        read_table(path, {"id": "code"})


def test_a_parquet_page_with_a_flipped_byte(tmp_path, refused, canary):
    path = tmp_path / "t.parquet"
    table = pa.table({"id": [f"{canary}{n}" for n in range(1000)]})
    pa.parquet.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(bytes(data))
    with refused(path, "truncated or corrupt"):
        read_table(path, {"id": "code"})


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("column", PARQUET_COLUMNS.values(), ids=PARQUET_COLUMNS)
def test_parquet_of_any_type_is_read_or_refused(tmp_path, kind, column):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"id": column, "n": [1, 2, 3]}), path)
    for shared in ([], ["id"]):
        with suppress(InputError):
            assert len(read_table(path, TableSchema({"id": kind, "n": "count"}, shared=shared))) == 3


@pytest.mark.parametrize("kind", ["code", "label", "count", "margin", "text", "name"])
def test_parquet_text_that_is_not_utf8(tmp_path, refused, kind):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"id": NOT_UTF8}), path)
    with refused(path, "the text is not UTF-8", column="id"):
        read_table(path, {"id": kind})


def test_more_columns_than_a_table_has(write, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MOST_COLUMNS", 10)
    names = ["id", *map(str, range(10))]
    row = dict.fromkeys(names, "1")
    pa.parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "t.parquet")
    for path in (tmp_path / "t.parquet", write(",".join(names) + "\n" + ",".join(row.values()) + "\n")):
        with refused(path, "the file has 11 columns"):
            read_table(path, {"id": "code"})


def test_unknown_columns_of_a_closed_schema(write, refused):
    path = write("id,surprise\n1,2\n")
    with refused(path, "unknown columns: surprise; the format has: id"):
        read_table(path, TableSchema({"id": "code"}, only=["id"]))


@pytest.mark.parametrize("kind", ["code", "label", "count", "number"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_missing_values(write, refused, kind, blank):
    path = write(f"a,b\n1,1\n{blank},2\n{blank},3\n")
    with refused(path, "values are missing or blank", column="a", count=2):
        read_table(path, {"a": kind, "b": "code"})


@pytest.mark.parametrize(
    "bad", ["-1", "66.0", "1e3", "CANARY", "nan", "1,000", "9" * 17, "+1", "0x1", "1_000", " 1", "1 ", "١"]
)
def test_counts_that_are_none(write, refused, bad):
    path = write(f'a,b\n1,1\n"{bad}",2\n2,3\n')
    with refused(path, "values are not whole numbers", column="a", count=1):
        read_table(path, {"a": "count"})


@pytest.mark.parametrize(
    "bad", ["CANARY", "1,5", "12,34", "nan", "inf", "1;2", "0x1", "1_000", "١", "1e999", "1e1000"]
)
def test_numbers_that_are_none(write, refused, bad):
    path = write(f'a,b\n1,1\n"{bad}",2\n')
    with refused(path, "values are not finite numbers", column="a", count=1):
        read_table(path, {"a": "number"})


@pytest.mark.parametrize("values", [["1.000", "350"], ["1.000", " 66.532 "], ["-1.000", "12.345"]])
def test_a_point_that_may_be_one_of_thousands(write, refused, values):
    path = write("a\n" + "\n".join(values) + "\n")
    with refused(path, "a point before three digits", column="a", count=sum("." in x for x in values)):
        read_table(path, {"a": "number"})
    assert read_table(path, {"a": "decimal"})["a"].tolist() == [float(x) for x in values]


@pytest.mark.parametrize("other", ["0.125", "2.5", "1234.125", '"1,234.125"', ".125", "7."])
def test_a_point_of_decimals_says_nothing(write, other):
    path = write(f"a\n1.000\n{other}\n12.345\n")
    assert read_table(path, {"a": "number"})["a"].tolist()[::2] == [1, 12.345]


@pytest.mark.parametrize("code", ['"=""CANARY"""', "'CANARY"])
def test_codes_that_came_as_formulas(write, refused, code):
    path = write(f"a\n{code}\n44\n")
    with refused(path, "written as a formula", column="a", count=1):
        read_table(path, {"a": "code"})


@pytest.mark.parametrize("unknown", ["", "NA", "N/A", "***"])
def test_margins_that_are_unknown(write, unknown):
    frame = read_table(write(f"a,b\n+/-5,1\n{unknown},2\n"), {"a": "margin"})
    assert np.array_equal(frame["a"], [5, np.nan], equal_nan=True)


@pytest.mark.parametrize("code", ["440070001.0", "4.4007e+14", "44007000101.", "4.4E14", '"4,4007E+14"'])
def test_codes_that_came_as_floats(write, refused, code):
    path = write(f"a\n{code}\n440070001\n")
    with refused(path, "geocodes are written as decimal numbers", column="a", count=1):
        read_table(path, {"a": "code"})


def test_codes_with_a_dot_or_an_e_are_codes(write):
    codes = ["E02002330", "1.02", "5E02", "a.0"]
    assert read_table(write("a\n" + "\n".join(codes) + "\n"), {"a": "code"})["a"].tolist() == codes


@pytest.mark.parametrize("values", [[987654321098765], [987654321098765.0]])
def test_parquet_geocodes_that_are_numbers(tmp_path, refused, values):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"a": values}), path)
    with refused(path, "not as text", column="a"):
        read_table(path, {"a": "code"})


def test_parquet_counts_that_are_floats_or_negative(tmp_path, refused):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"a": [1.0]}), path)
    with refused(path, "a count cannot be stored as double", column="a"):
        read_table(path, {"a": "count"})
    pa.parquet.write_table(pa.table({"a": [1, -1]}), path)
    with refused(path, "values are not whole numbers", column="a", count=1):
        read_table(path, {"a": "count"})
    pa.parquet.write_table(pa.table({"a": [1, None]}), path)
    with refused(path, "values are missing", column="a", count=1):
        read_table(path, {"a": "count"})
    pa.parquet.write_table(pa.table({"a": [float("inf")]}), path)
    with refused(path, "values are not finite", column="a", count=1):
        read_table(path, {"a": "number"})


some_texts = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d"])), max_size=6)


@given(st.data())
def test_whatever_dictionaries_chunks_have_they_get_one(data: st.DataObject) -> None:
    whole = pa.array(["d", "c", "b", "a", "b"])
    chunks = []
    for values in data.draw(st.lists(some_texts, max_size=5)):
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


def test_message_reads_as_one_sentence_and_a_cure():
    error = InputError(
        "ri_od.csv.gz", "rows are not in the geography", column="h", count=1200, fix="look again"
    )
    assert str(error) == "ri_od.csv.gz: column h: 1,200 rows are not in the geography. Fix: look again."


def test_one_is_in_the_singular():
    assert str(InputError("f", "values are missing", count=1)) == "f: 1 value is missing."
    assert (
        str(InputError("f", "values are not finite numbers", count=1)) == "f: 1 value is not a finite number."
    )


def test_survives_the_way_back_from_a_worker():
    error = InputError("f.csv", "rows are bad", column="c", count=3, fix="mend")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InputError
    assert str(again) == str(error)
    assert (again.file, again.rule, again.column, again.count, again.fix) == (
        "f.csv",
        "rows are bad",
        "c",
        3,
        "mend",
    )
