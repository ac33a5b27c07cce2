"""LODES files: slots that know nothing of origins, records that are exact, and every row that is wrong."""

from __future__ import annotations

import gzip
import pickle
import re

import numpy as np
import pandas as pd
import pytest

from geo_data import InputError, LodesJobs, read_crosswalk
from geo_data.jobs import Reading
from geo_data.lodes import LODES_COLUMNS
from geo_data.od_files import LODES_CATEGORIES

pytestmark = pytest.mark.quick

HEADER = ",".join(LODES_COLUMNS) + "\n"
GROUPS = tuple(LODES_CATEGORIES)


def rows_of(path) -> list[list[str]]:
    return [line.split(",") for line in gzip.decompress(path.read_bytes()).decode().splitlines()[1:]]


def text_of(rows) -> str:
    return HEADER + "".join(",".join(row) + "\n" for row in rows)


@pytest.fixture
def rows(demo_region):
    return rows_of(demo_region["od"])


@pytest.fixture
def jobs(demo_region, demo_geography):
    return LodesJobs(demo_region["od"], demo_geography)


def same_slots(one, other) -> bool:
    return (
        np.array_equal(one.work, other.work)
        and list(one.attributes) == list(other.attributes)
        and all(np.array_equal(one.attributes[name], other.attributes[name]) for name in one.attributes)
        and one.categories == other.categories
    )


def test_slots_have_the_totals_of_every_work_block(jobs, rows, demo_geography):
    slots = jobs.slots()
    frame = pd.DataFrame(rows, columns=LODES_COLUMNS).set_index("w_geocode").drop(columns=["h_geocode"])
    truth = frame.astype(int).groupby(level=0).sum()
    blocks = demo_geography.blocks
    totals = pd.Series(blocks[slots.work]).value_counts()
    assert totals.sort_index().to_dict() == truth["S000"].to_dict()
    assert slots.categories == LODES_CATEGORIES
    order = np.lexsort([*(slots.attributes[group] for group in reversed(GROUPS)), slots.work])
    assert order.tolist() == list(range(600))
    for group, names in LODES_CATEGORIES.items():
        assert slots.attributes[group].dtype == np.uint8
        for code, name in enumerate(names):
            mine = pd.Series(blocks[slots.work[slots.attributes[group] == code]]).value_counts()
            assert truth[name].to_dict() == {b: int(mine.get(b, 0)) for b in truth.index}


def test_slots_do_not_parse_the_origin_column(jobs, rows, demo_geography, write):
    junk = ["", "not a place", '"x"', "1.5", "   "]
    replaced = [[row[0], junk[i % len(junk)], *row[2:]] for i, row in enumerate(rows)]
    assert same_slots(jobs.slots(), LodesJobs(write(text_of(replaced)), demo_geography).slots())
    # Bytes that are no text at all: the column is not even decoded.
    raw = text_of(rows).replace(f",{rows[0][1]},", ",\udcff,").encode(errors="surrogateescape")
    assert same_slots(jobs.slots(), LodesJobs(write(raw), demo_geography).slots())


def test_slots_do_not_depend_on_the_grouping_of_rows(jobs, rows, demo_geography, write):
    frame = pd.DataFrame(rows, columns=LODES_COLUMNS)
    counts = [name for name in LODES_COLUMNS if name not in ("w_geocode", "h_geocode", "createdate")]
    frame[counts] = frame[counts].astype(int)
    # Everybody of a work block lives in one place: one row per work block.
    merged = frame.groupby("w_geocode", as_index=False)[counts].sum()
    merged.insert(1, "h_geocode", demo_geography.blocks[0])
    merged["createdate"] = "20211018"
    path = write(merged[list(LODES_COLUMNS)].to_csv(index=False), "merged.csv")
    assert len(merged) < len(frame)
    assert same_slots(jobs.slots(), LodesJobs(path, demo_geography).slots())
    shuffled = frame.sample(frac=1, random_state=1).to_csv(index=False)
    assert same_slots(jobs.slots(), LodesJobs(write(shuffled), demo_geography).slots())


def test_coupling_is_pinned(demo_geography, write):
    """The slots of a release are public and must not move with a version of a library."""
    block = demo_geography.blocks[0]
    assert block == "030010001001001"
    path = write(text_of([[block, block, "6", *["2"] * 9, "20211018"]]))
    slots = LodesJobs(path, demo_geography).slots()
    assert slots.attributes["SA"].tolist() == [0, 0, 1, 1, 2, 2]
    assert slots.attributes["SE"].tolist() == [2, 2, 0, 1, 0, 1]
    assert slots.attributes["SI"].tolist() == [1, 2, 2, 0, 1, 0]


def test_hashes_that_begin_alike_are_told_apart_by_their_ends(demo_geography, write, monkeypatch):
    row = [demo_geography.blocks[0], demo_geography.blocks[1], "4", *"220", *"220", *"220", "20200101"]
    other = [demo_geography.blocks[2], *row[1:]]

    def ends(values, **_):
        return np.arange(len(values), 0, -1, np.uint64) % np.uint64(4)

    monkeypatch.setattr(pd.util, "hash_array", ends)
    found = LodesJobs(write(text_of([row, other])), demo_geography).slots()
    assert found.work.tolist() == [0] * 4 + [2] * 4
    # Hashes are 0, 3, 2, 1 at both work blocks: categories 0, 0, 1, 1 go to jobs as 0, 1, 1, 0.
    assert [codes.tolist() for codes in found.attributes.values()] == [
        [0, 0, 1, 1] * 2,
        [0, 1, 0, 1] * 2,
        [0, 1, 0, 1] * 2,
    ]


def test_groups_and_blocks_are_shuffled_differently(demo_geography, write):
    one, two = demo_geography.blocks[:2]
    counts = ["90", *["30"] * 9, "20211018"]
    slots = LodesJobs(write(text_of([[one, one, *counts], [two, one, *counts]])), demo_geography).slots()
    first, second = (np.column_stack([slots.attributes[g][slots.work == b] for g in GROUPS]) for b in (0, 1))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first[:, 1], first[:, 2])


def test_records_are_the_file(jobs, rows, demo_geography):
    records = jobs.records()
    n = [int(row[2]) for row in rows]
    assert records.work.dtype == records.home.dtype == np.int32
    assert demo_geography.blocks[records.work].tolist() == [
        r[0] for r, k in zip(rows, n, strict=True) for _ in range(k)
    ]
    assert demo_geography.blocks[records.home].tolist() == [
        r[1] for r, k in zip(rows, n, strict=True) for _ in range(k)
    ]
    assert records.attributes == {}
    assert len(records) == 600


def test_records_by_one_group(jobs):
    group = "SE"
    records, slots, plain = jobs.records((group,)), jobs.slots(), jobs.records()
    assert list(records.attributes) == [group]
    assert records.work.tolist() == plain.work.tolist()
    assert records.home.tolist() == plain.home.tolist()
    # Records and slots agree: the same jobs by work block and category.
    mine = np.sort(records.work * 3 + records.attributes[group].astype(int))
    assert mine.tolist() == np.sort(slots.work * 3 + slots.attributes[group].astype(int)).tolist()


def test_records_by_several_or_unknown_groups_are_refused(jobs, demo_region, refused):
    with refused(demo_region["od"], "counts each attribute group by itself"):
        jobs.records(("SA", "SE"))
    with refused(demo_region["od"], "name one of SA, SE, SI"):
        jobs.records(("S0",))


def test_records_show_nothing(jobs):
    records = jobs.records(("SE",))
    assert repr(records) == str(records) == f"{records}" == "<JobRecords>"
    assert len(pickle.loads(pickle.dumps(records))) == 600
    assert repr(jobs.slots()) == "<Slots: 600 jobs; attributes: SA (3), SE (3), SI (3)>"


def test_parquet_gives_the_same(jobs, rows, demo_geography, tmp_path):
    frame = pd.DataFrame(rows, columns=LODES_COLUMNS)
    frame[list(LODES_COLUMNS[2:12])] = frame[list(LODES_COLUMNS[2:12])].astype("int32")
    frame.to_parquet(tmp_path / "od.parquet")
    again = LodesJobs(tmp_path / "od.parquet", demo_geography)
    assert same_slots(jobs.slots(), again.slots())
    assert jobs.records(("SI",)).home.tolist() == again.records(("SI",)).home.tolist()


def read_both(path, geography) -> None:
    """Read slots and let it raise; a fault on the public side must fail records in the same way."""
    source = LodesJobs(path, geography)
    with pytest.raises(InputError) as caught:
        source.records()
    with pytest.raises(InputError, match=f"^{re.escape(str(caught.value))}$"):
        source.slots()
    source.slots()


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["66.0"], "S000"),
        (["1", "-1", "2"], "SA01"),
    ],
)
def test_counts_that_are_no_counts(rows, demo_geography, write, refused, values, column):
    rows[3][2 : 2 + len(values)] = values
    path = write(text_of(rows))
    with refused(path, "values are not whole numbers from 0 to", column=column, count=1):
        read_both(path, demo_geography)


@pytest.mark.parametrize(("position", "group"), [(3, "SA"), (7, "SE"), (11, "SI")])
def test_counts_that_do_not_add_up(rows, demo_geography, write, refused, position, group):
    rows[3][position] = str(int(rows[3][position]) + 4711)
    path = write(text_of(rows))
    with refused(path, "do not add up to S000", column=group, count=1):
        read_both(path, demo_geography)


def test_what_slots_have_checked_is_not_read_again(rows, demo_geography, write, refused):
    path = write(text_of(rows))
    whole, again = LodesJobs(path, demo_geography), LodesJobs(path, demo_geography, checked=True)
    for by in ((), ("SE",)):
        one, other = whole.records(by), again.records(by)
        assert np.array_equal(one.work, other.work)
        assert np.array_equal(one.home, other.home)
        assert all(np.array_equal(one.attributes[name], other.attributes[name]) for name in by)
    rows[3][7] = "CANARY"  # of SE
    source = LodesJobs(write(text_of(rows)), demo_geography, checked=True)
    assert np.array_equal(source.records().home, one.home)
    with refused(source.path, "values are not whole numbers from 0 to", column=LODES_COLUMNS[7], count=1):
        source.records(("SE",))


def test_more_jobs_than_can_be_numbered(rows, demo_geography, write, refused):
    rows[3][2] = "2147483648"
    path = write(text_of(rows))
    with refused(path, "add up to more than 2,147,483,647", column="S000"):
        read_both(path, demo_geography)


@pytest.mark.parametrize(("position", "column"), [(0, "w_geocode"), (1, "h_geocode")])
class TestGeocodes:
    def read(self, position, path, geography):
        source = LodesJobs(path, geography)
        if position == 1:
            source.slots()  # origins are none of its business
            source.records()
        else:
            read_both(path, geography)

    def test_unknown(self, rows, demo_geography, write, refused, canary, position, column):
        rows[3][position] = rows[9][position] = canary
        path = write(text_of(rows))
        with refused(path, "rows are not in the geography", column=column, count=2):
            self.read(position, path, demo_geography)

    @pytest.mark.parametrize(
        ("spell", "match"),
        [
            (lambda code: code.lstrip("0"), "lost their leading zeros"),
            (lambda code: "1000000US" + code, "begin with a summary level"),
            (
                lambda code: code[:12],
                "codes of larger areas, such as block groups, instead of tabblk2010 codes",
            ),
            (
                lambda code: code[:14],
                "codes of larger areas, such as block groups, instead of tabblk2010 codes",
            ),
        ],
    )
    def test_spelled_otherwise(self, rows, demo_geography, write, refused, position, column, spell, match):
        for row in rows:
            row[position] = spell(row[position])
        path = write(text_of(rows))
        with refused(path, match, column=column, count=len(rows)):
            self.read(position, path, demo_geography)

    def test_other_vintage(self, rows, demo_geography, write, refused, position, column):
        changed = rows[: len(rows) // 10]
        for number, row in enumerate(changed):
            row[position] = row[position][:11] + f"9{number:03d}"
        path = write(text_of(rows))
        with refused(path, "as in a file of another vintage", column=column, count=len(changed)):
            self.read(position, path, demo_geography)

    def test_a_few_unknown_blocks_are_no_vintage(
        self, rows, demo_geography, write, refused, position, column
    ):
        rows[3][position] = rows[3][position][:5] + "9999000001"
        path = write(text_of(rows))
        with refused(path, "rows are not in the geography", column=column, count=1):
            self.read(position, path, demo_geography)


def test_main_files_of_several_states_lack_the_jobs_between_them(rows, write, refused):
    """Each is of workers who live where they work; those who cross the border are in the aux files."""
    blocks = [f"{state}001000100100{n}" for state in ("25", "44") for n in range(3)]
    crosswalk = ["block,lat,lon", *(f"{code},{40 + i / 9},-71" for i, code in enumerate(blocks))]
    geography = read_crosswalk(
        write("\n".join([*crosswalk, ""]), "xwalk.csv"),
        block="block",
        levels=(),
        centroid=("lat", "lon"),
    )

    def remarks(*pairs):
        chosen = [[work, home, *row[2:]] for (work, home), row in zip(pairs, rows, strict=False)]
        jobs = LodesJobs(write(text_of(chosen)), geography, reading=Reading())
        assert len(jobs.records()) > 0, "whether a run is refused does not depend on homes"
        return jobs.reading.remarks

    one, other = (blocks[0], blocks[1]), (blocks[3], blocks[4])
    assert remarks(one, one[::-1]) == remarks(one, other, (blocks[0], blocks[5])) == []
    assert ["have no job of somebody who lives in another" in text for text in remarks(one, other)] == [True]


def test_files_of_jobs_may_have_no_rows(rows, demo_geography, write, tmp_path):
    """Nobody lives there: if that were refused, it would tell of homes."""
    whole = write(text_of(rows), "whole.csv")
    pd.DataFrame(columns=LODES_COLUMNS).to_parquet(none := tmp_path / "none.parquet")
    zeros = write(text_of([*row[:2], *["0"] * 10, row[12]] for row in rows[:3]), "zeros.csv")
    one = LodesJobs(whole, demo_geography)
    for empty in (write(HEADER, "none.csv"), none, zeros):
        for path, aux in (((whole, empty, empty), None if empty == zeros else empty), ((empty, whole), None)):
            jobs = LodesJobs(path, demo_geography, aux, reading=Reading())
            assert same_slots(jobs.slots(), one.slots())
            assert jobs.records(("SE",)).home.tolist() == one.records(("SE",)).home.tolist()
            assert {text.split(":")[0] for text in jobs.reading.remarks} == {str(empty)}


def test_files_are_compared_without_homes(rows, demo_geography, write, refused):
    """Files that are alike but for homes are refused as copies are; what depends on homes is remarked."""
    other = demo_geography.blocks[-1]
    moved = [[row[0], other, *row[2:]] for row in rows[::40]]
    one = write(text_of(rows[::40]), "one.csv")
    with refused(one, "the same jobs may be there twice", count=1):
        LodesJobs((one, write(text_of(moved), "two.csv.gz")), demo_geography).records()
    for home in (rows[0][1], other):
        part = [[rows[0][0], home, *rows[0][2:]]]
        jobs = LodesJobs((one, write(text_of(part), "two.csv")), demo_geography, reading=Reading())
        assert len(jobs.records()) == len(LodesJobs(one, demo_geography).records()) + int(rows[0][2])
        repeats = home == rows[0][1]
        assert ["1 pair of home" in text for text in jobs.reading.remarks] == [True] * repeats


def test_a_file_is_of_lodes_and_has_jobs(rows, demo_geography, write, refused):
    path = write(HEADER)
    with refused(path, "there is no job", column="S000"):
        read_both(path, demo_geography)
    path = write(text_of(rows).replace(",createdate", ",createdate,extra").replace("20211018", "20211018,1"))
    with refused(path, "unknown columns: extra"):
        read_both(path, demo_geography)


def test_duplicate_pairs(rows, demo_geography, write, refused):
    path = write(text_of([*rows, rows[0], rows[1]]))
    LodesJobs(path, demo_geography).slots()  # cannot know: pairs are confidential
    with refused(path, "rows repeat an origin-destination pair", column="h_geocode", count=2):
        LodesJobs(path, demo_geography).records()
