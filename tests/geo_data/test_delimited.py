"""Rows are conserved: whatever a byte of a delimited file becomes, every row is found, or an error."""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geo_data import Geography, InputError, LodesJobs, MicrodataJobs, delimited, read_acs
from geo_data.delimited import BLOCK, count_rows
from geo_data.jobs import Reading
from geo_data.lodes import LODES_COLUMNS
from geo_data.tables import read_table

TEXT = 'id,name,n\n007,"Kent, ""K""",3\n008,Bristol,0\n009,"",12\n010,"x",4\n'
COLUMNS = {"id": "code", "n": "count"}
ROWS = [["007", 3], ["008", 0], ["009", 12], ["010", 4]]


def rows_of(path: Path) -> list[list[object]] | None:
    """Read all rows, or None if the file is refused."""
    try:
        return read_table(path, COLUMNS).to_numpy(dtype=object).tolist()
    except InputError:
        return None


def damaged(data: bytes) -> dict[str, list[bytes]]:
    """Each kind of damage at every byte."""
    every = range(len(data) + 1)
    return {
        "quote inserted": [data[:i] + b'"' + data[i:] for i in every],
        "quote replaced": [
            data[:i] + b'"' + data[i + 1 :] for i in every if data[i : i + 1] not in (b"", b'"')
        ],
        "quote lost": [data[:i] + data[i + 1 :] for i in every if data[i : i + 1] == b'"'],
        "return inserted": [data[:i] + b"\r" + data[i:] for i in every],
        "return replaced": [data[:i] + b"\r" + data[i + 1 :] for i in every[:-1]],
        "NUL": [data[:i] + b"\0" + data[i:] for i in every],
        "cut": [data[:i] for i in every[:-1]],
    }


def whole_lines(data: bytes) -> set[bytes]:
    """What a cut at the end of a line leaves: a whole file, as far as anybody can tell."""
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    return {data[:end] for end in ends}


@pytest.mark.parametrize(("end", "packed"), [("\n", True), ("\r\n", False)])
def test_every_row_or_an_error_at_every_byte(tmp_path: Path, end: str, packed: bool) -> None:
    data, path = TEXT.replace("\n", end).encode(), tmp_path / "t.csv"
    path.write_bytes(data)
    assert rows_of(path) == ROWS
    shorter, tried = whole_lines(data), 0
    for kind, cases in damaged(data).items():
        for case in cases:
            path.write_bytes(gzip.compress(case) if packed else case)
            if kind == "cut" and case in shorter:
                continue  # docs/inputs.md says that this cannot be found
            assert rows_of(path) in (None, ROWS), (kind, case)
            tried += 1
    assert tried > 350


def test_a_cut_gzip_is_an_error_at_every_byte(tmp_path: Path) -> None:
    data, path = gzip.compress(TEXT.encode()), tmp_path / "t.csv.gz"
    for end in range(len(data)):
        path.write_bytes(data[:end])
        assert rows_of(path) is None, end


def test_every_byte_of_a_job_file(
    demo_region: dict[str, Path], demo_geography: Geography, tmp_path: Path
) -> None:
    """The issue: a stray quotation mark took a block of rows away, and the rest was released."""
    text = gzip.decompress(demo_region["od"].read_bytes()).split(b"\n")
    data, path = b"\n".join(text[:4]) + b"\n", tmp_path / "od.csv"
    path.write_bytes(data)
    whole = LodesJobs(path, demo_geography).records()
    for kind, cases in damaged(data).items():
        for case in cases[:: 2 if kind.startswith("quote") else 9]:
            path.write_bytes(case)
            try:
                found = LodesJobs(path, demo_geography).records()
            except InputError:
                continue
            if kind == "cut" and case in whole_lines(data):
                continue
            assert np.array_equal(found.home, whole.home), (kind, case)
            assert np.array_equal(found.work, whole.work), (kind, case)


def test_every_byte_of_a_sheet(demo_geography: Geography, tmp_path: Path) -> None:
    names = "State FIPS Code,County FIPS Code,State Name,County Name," * 2
    header = f'Title\n{names}"Workers in\nCommuting Flow","Margin of Error"\n'
    rows = (
        '03,001,D,"C, D",003,001,D,C,"1,234",5\n03,003,D,C,003,001,D,"C",7,5\n03,003,D,C,003,003,D,"C",7,5\n'
    )
    data, path = (header + rows + "Note\n").encode(), tmp_path / "acs.csv"
    path.write_bytes(data)
    assert read_acs(path, demo_geography, level="cty").flow.tolist() == [1234, 7, 7]
    shorter = whole_lines(data)
    for kind, cases in damaged(data).items():
        for case in cases[:: 3 if kind.startswith("quote") else 15]:
            if (kind == "cut" and case in shorter) or kind == "return replaced":
                continue
            path.write_bytes(case)
            try:
                found = read_acs(path, demo_geography, level="cty").flow.tolist()
            except InputError:
                continue
            assert found == [1234, 7, 7], (kind, case)


def test_large_files_are_checked_in_blocks(tmp_path: Path) -> None:
    """Faults on either side of the ends of blocks, and in the middle, with their lines."""
    lines = [f'{i:08},"a, b",{i % 7}' for i in range(60_000)]
    path = tmp_path / "t.csv"

    def write(rows: list[str]) -> None:
        path.write_text("id,x,n\n" + "\n".join(rows) + "\n")

    write(lines)
    assert path.stat().st_size > BLOCK
    assert read_table(path, COLUMNS)["n"].sum() == sum(i % 7 for i in range(60_000))
    faults = ('00"000000,x,1', '"00000000,x,1', "0\r0,x,1", "00,x", "00,x,1,2", "0\0,x,1", "")
    at = {BLOCK // len(lines[0] + "\n") + i: faults[first::2] for i, first in ((-1, 0), (0, 1), (1, 0))}
    at |= {0: faults[:1], 40_000: faults[2:3], 59_999: faults[4:5]}
    for row, some in at.items():
        for bad in some:
            write([*lines[:row], bad, *lines[row + 1 :]])
            with pytest.raises(InputError) as caught:
                read_table(path, COLUMNS)
            assert caught.value.where == f"line {row + 2:,}", bad


def test_blank_lines_at_the_end_are_none(write: Callable[..., Path]) -> None:
    assert len(read_table(write("id,n\n1,2\n\n\n"), COLUMNS)) == 1
    assert len(read_table(write('\ufeff"id",n\r\n1,2\r\n\r\n'), COLUMNS)) == 1


def test_lines_are_named_and_not_in_the_message(write: Callable[..., Path], tmp_path: Path) -> None:
    rows = ["1", "x", "3", "0x1", "-1", "1e3", "7"]
    path = write("id,n\n" + "".join(f"a,{n}\n" for n in rows))
    with pytest.raises(InputError, match="whole numbers") as caught:
        read_table(path, COLUMNS)
    assert caught.value.where == "lines 3, 5, 6 and more"
    assert "5" not in str(caught.value).replace("10^15", "").replace(str(path), "")
    pq.write_table(pa.table({"id": ["a"] * 3, "n": [1, -1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(InputError) as caught:
        read_table(tmp_path / "t.parquet", COLUMNS)
    assert caught.value.where == "row 2"


def test_integers_do_not_wrap_around(tmp_path: Path, demo_geography: Geography) -> None:
    """In 64 bits the three of SA add up to 1."""
    block, path = demo_geography.blocks[0], tmp_path / "od.parquet"
    values = dict.fromkeys(LODES_COLUMNS[2:-1], 0) | {"S000": 1, "SE01": 1, "SI01": 1}
    values |= {"SA01": 2**63 - 1, "SA02": 2**63 - 1, "SA03": 3}
    table = {"w_geocode": [block], "h_geocode": [block], **{k: [v] for k, v in values.items()}}
    pd.DataFrame({**table, "createdate": ["20200101"]}).to_parquet(path)
    with pytest.raises(InputError, match="whole number"):
        LodesJobs(path, demo_geography).slots()
    pq.write_table(pa.table({"id": ["a"], "n": pa.array([2**64 - 1], pa.uint64())}), path)
    with pytest.raises(InputError, match="whole number"):
        read_table(path, COLUMNS)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, rule in {
        pipe: "pipe, socket or device",
        Path(os.devnull): "device",
        tmp_path: "folder",
    }.items():
        with pytest.raises(InputError, match=rule):
            read_table(path, COLUMNS)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a megabyte and 200 times the size of the file, here."""
    monkeypatch.setattr(delimited, "_ANYWAY", 2**20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"id,n\n") + 5 * gzip.compress(b"1,2\n" * 2**18))
    with pytest.raises(InputError, match="unpacks to far more bytes"):
        read_table(path, COLUMNS)
    pq.write_table(pa.table({"id": pa.repeat("a", 10**6).dictionary_encode()}), path)
    with pytest.raises(InputError, match="unpacks to far more bytes"):
        read_table(path, {"id": "code"})


def test_rows_are_counted(write: Callable[..., Path]) -> None:
    path = write(TEXT)
    with count_rows() as rows:
        read_table(path, COLUMNS)
    read_table(path, COLUMNS)
    assert rows == {str(path): 4}


class TestTheSameJobsTwice:
    @pytest.fixture
    def pieces(self, demo_region: dict[str, Path], tmp_path: Path) -> list[Path]:
        """The jobs in two files, that share work blocks but no pair."""
        jobs = pd.read_csv(demo_region["od"], dtype="str")
        for number in range(2):
            jobs[number::2].to_csv(tmp_path / f"{number}.csv", index=False)
        return [tmp_path / "0.csv", tmp_path / "1.csv"]

    @pytest.mark.parametrize("form", ["gzip", "reordered", "parquet"])
    def test_pairs(self, pieces: list[Path], demo_geography: Geography, tmp_path: Path, form: str) -> None:
        jobs, other = pd.read_csv(pieces[0], dtype="str"), tmp_path / "other"
        match form:
            case "gzip":
                other.write_bytes(gzip.compress(pieces[0].read_bytes()))
            case "reordered":
                jobs[::-1].to_csv(other, index=False)
            case "parquet":
                jobs.astype(dict.fromkeys(LODES_COLUMNS[2:-1], "int64")).to_parquet(other)
        assert len(LodesJobs(pieces, demo_geography).records()) == 600  # of work blocks that both have
        with pytest.raises(InputError, match="the same jobs may be there twice") as caught:
            LodesJobs([*pieces, other], demo_geography).records()
        assert caught.value.count == 1

    def microdata(self, geography: Geography, folder: Path, worker: bool) -> pd.DataFrame:
        rng = np.random.default_rng(1)
        frame = pd.DataFrame(
            {"live": rng.choice(geography.blocks, 90), "toil": rng.choice(geography.blocks[:3], 90)}
        )
        return frame.assign(
            **({"who": [f"w{i}" for i in range(90)]} if worker else {}), age=["a", "b", "c"] * 30
        )

    @pytest.mark.parametrize(("form", "worker"), [("gzip", True), ("reordered", False), ("parquet", True)])
    def test_microdata(self, demo_geography: Geography, tmp_path: Path, worker: bool, form: str) -> None:
        frame = self.microdata(demo_geography, tmp_path, worker)
        one, other = tmp_path / "one.csv", tmp_path / "other"
        frame.to_csv(one, index=False)
        match form:
            case "gzip":
                other.write_bytes(gzip.compress(one.read_bytes()))
            case "reordered":
                frame[::-1].to_csv(other, index=False)
            case "parquet":
                frame.to_parquet(other)
        more = {"worker": "who", "records_per_worker": 3} if worker else {}
        for files in itertools.permutations([one, other]):
            jobs = MicrodataJobs(files, demo_geography, home="live", work="toil", attributes=("age",), **more)  # type: ignore[arg-type]
            with pytest.raises(InputError, match="the same jobs may be there twice") as caught:
                jobs.records()
            assert caught.value.count == (90 if worker else 1)

    def test_files_with_the_same_pairs_are_looked_at_again(
        self, demo_geography: Geography, tmp_path: Path
    ) -> None:
        """Jobs that differ in an attribute are others; nor may a file change before it is read again."""
        frame, files = self.microdata(demo_geography, tmp_path, worker=False), []
        for number in range(2):
            files.append(tmp_path / f"{number}.csv")
            frame.assign(age=frame["age"].sort_values(ascending=bool(number)).to_numpy()).to_csv(
                files[-1], index=False
            )
        reading = Reading()
        jobs = MicrodataJobs(
            files, demo_geography, home="live", work="toil", attributes=("age",), reading=reading
        )
        assert sum(len(part.work) for part in jobs.parts()) == 180
        before, parts = dict(reading.sha256), jobs.parts()
        for _ in files:
            next(parts)
        files[0].write_text(files[0].read_text()[:-2] + "b\n")
        with pytest.raises(ValueError, match="a file changed"):
            next(parts)
        assert reading.sha256 == before
