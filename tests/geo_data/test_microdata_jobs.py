"""Job-level microdata: the same two sides, any attributes, and a bound on the rows of one worker."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from geo_data import InputError, LodesJobs, MicrodataJobs, microdata, read_crosswalk
from geo_data.jobs import Reading, count_repeats


@pytest.fixture
def frame(demo_geography):
    rng = np.random.default_rng(5)
    blocks = demo_geography.blocks
    return pd.DataFrame(
        {
            "worker": [f"w{n:04d}" for n in rng.permutation(300)],
            "lives": rng.choice(blocks, 300),
            "works": rng.choice(blocks[::7], 300),
            "mode": rng.choice(["walk", "car", "bus"], 300),
            "pay": rng.choice(["1", "10", "2"], 300),
            "unused": ["CANARY"] * 300,
        },
        dtype="str",
    )


def source(path, geography, **options) -> MicrodataJobs:
    return MicrodataJobs(path, geography, **{"home": "lives", "work": "works", **options})


@pytest.fixture
def read(write, demo_geography):
    """Write a frame as CSV and return its source."""

    def reader(frame, **options):
        path = write(frame.to_csv(index=False), "jobs.csv")
        return source(path, demo_geography, worker="worker", attributes=("mode", "pay"), **options)

    return reader


def test_slots(frame, read, demo_geography):
    slots = read(frame).slots()
    assert slots.categories == {"mode": ("bus", "car", "walk"), "pay": ("1", "10", "2")}
    got = pd.DataFrame(
        {
            "works": demo_geography.blocks[slots.work],
            "mode": np.array(slots.categories["mode"])[slots.attributes["mode"]],
            "pay": np.array(slots.categories["pay"])[slots.attributes["pay"]],
        },
        dtype="str",
    )
    # Text order is code order here, so sorted by code is sorted by value: the joint distribution is exact.
    expected = frame[["works", "mode", "pay"]].sort_values(["works", "mode", "pay"], ignore_index=True)
    pd.testing.assert_frame_equal(got, expected)
    assert slots.attributes["mode"].dtype == np.uint8
    assert repr(slots) == "<Slots: 300 jobs; attributes: mode (3), pay (3)>"


def test_slots_ignore_origins_workers_and_order(frame, read):
    one = read(frame).slots()
    other = read(frame.assign(lives="junk", worker="").sample(frac=1, random_state=2)).slots()
    assert one.work.tolist() == other.work.tolist()
    assert all(one.attributes[n].tolist() == other.attributes[n].tolist() for n in ("mode", "pay"))


def test_records(frame, read, demo_geography):
    records = read(frame).records(("pay",))
    assert demo_geography.blocks[records.home].tolist() == frame["lives"].tolist()
    assert demo_geography.blocks[records.work].tolist() == frame["works"].tolist()
    assert list(records.attributes) == ["pay"]
    assert np.array(["1", "10", "2"])[records.attributes["pay"]].tolist() == frame["pay"].tolist()
    assert repr(records) == "<JobRecords>"


def test_large_files_come_in_parts(frame, read, monkeypatch):
    whole = read(frame).records(("pay",))
    monkeypatch.setattr(microdata, "_ROWS", 70)
    parts = list(read(frame).parts(("pay",)))
    assert [part.home.size for part in parts] == [70, 70, 70, 70, 20]
    for column in ("home", "work"):
        joined = np.concatenate([getattr(part, column) for part in parts])
        assert joined.tolist() == getattr(whole, column).tolist()
    pay = np.concatenate([part.attributes["pay"] for part in parts])
    assert pay.tolist() == whole.attributes["pay"].tolist()


def test_agrees_with_lodes_rows_of_one_job(demo_region, demo_geography, write):
    table = pd.read_csv(demo_region["od"], dtype="str").query("S000 == '1'")
    lodes = LodesJobs(write(table.to_csv(index=False), "single.csv"), demo_geography)
    micro = source(write(table.to_csv(index=False)), demo_geography, home="h_geocode", work="w_geocode")
    assert micro.records().home.tolist() == lodes.records().home.tolist()
    assert micro.slots().work.tolist() == lodes.slots().work.tolist()


def test_rows_per_worker_are_bounded(frame, read, refused):
    frame.loc[:4, "worker"] = "CANARY"
    frame.loc[5:6, "worker"] = "CANARY2"
    path = read(frame).path
    with refused(path, "workers have more than 1 row(s)", column="worker", count=2):
        read(frame).records()
    with refused(path, "workers have more than 4 row(s)", column="worker", count=1):
        read(frame, records_per_worker=4).records()
    assert len(read(frame, records_per_worker=5).records()) == 300


@pytest.mark.parametrize("other", ["w1 ", "w1\u00a0", "w\u200b1", "w1\ufeff", "\tw1"])
def test_spellings_of_an_identifier_are_one_worker(frame, read, refused, other):
    frame.loc[:1, "worker"] = ["w1", other]
    jobs = read(frame)
    with refused(jobs.path, "workers have more than 1 row(s)", column="worker", count=1):
        jobs.records()


def test_one_or_a_thousand_jobs(frame, write, demo_geography):
    path = write(frame.assign(jobs="1.000").to_csv(index=False))
    with pytest.raises(InputError, match="may be one or a thousand"):
        source(path, demo_geography, count="jobs").slots()
    assert len(source(path, demo_geography, count="jobs", decimal_point=True).slots()) == len(frame)


def test_rows_are_counted_where_they_stand_for_several_jobs(frame, write, demo_geography, refused):
    frame.loc[3, "lives"] = "9" * 15
    path = write(frame.assign(jobs="4").to_csv(index=False))
    with refused(path, "rows are not in the geography", column="lives", count=1):
        source(path, demo_geography, count="jobs").records()


def test_homes_in_several_spellings_are_one_home(frame, read):
    """To refuse them would tell of homes."""
    found = read(frame).records()
    spelled = read(frame.assign(lives=frame["lives"] + pd.Series(["", " ", "\u200b"] * 100))).records()
    assert spelled.home.tolist() == found.home.tolist()


def test_spellings_of_a_category_in_two_files(frame, write, demo_geography):
    paths = [write("", "a.csv"), write("", "b.csv")]
    for path, pay in zip(paths, ("10", "10.0"), strict=True):
        frame.assign(pay=pay).to_csv(path, index=False)
    with pytest.raises(InputError, match="several spellings"):
        source(paths, demo_geography, attributes=("pay",)).slots()


def test_jobs_find_slots_that_are_spelled_otherwise(frame, write, demo_geography):
    """With a public table of workplaces, whose spellings are its own."""
    slots = source(write(frame.to_csv(index=False)), demo_geography, attributes=("mode", "pay")).slots()
    categories = {"mode": slots.categories["mode"], "pay": ("1.0", "10.0", "2.0")}
    spelled = frame.assign(works=frame["works"] + "\u00a0", mode=frame["mode"] + pd.Series(["", " "] * 150))
    jobs = source(write(spelled.to_csv(index=False)), demo_geography, attributes=("mode", "pay"))
    (found,) = jobs.parts(("mode", "pay"), categories, unmatched=True)
    assert np.array_equal(np.sort(found.work), slots.work)
    for name in ("mode", "pay"):
        assert np.array_equal(np.sort(found.attributes[name]), np.sort(slots.attributes[name]))


def test_rows_of_workers_are_counted_in_parts():
    rng = np.random.default_rng(1)
    top = np.iinfo(np.uint64).max
    files = [rng.integers(0, top, 500, np.uint64), np.array([0, top, top, 2**58], np.uint64)]
    files.append(np.concatenate([files[0][:9], files[1][:2]]))
    parts = [rows.tolist() for rows in count_repeats([np.sort(hashes) for hashes in files])]
    assert len(parts) == 64
    assert max(map(len, parts)) < 30
    assert np.concatenate(parts).tolist() == np.unique(np.concatenate(files), return_counts=True)[1].tolist()
    assert list(count_repeats([])) == []


@pytest.mark.parametrize("column", ["worker", "lives"])
def test_missing_values(frame, read, refused, column):
    frame.loc[7:9, column] = ""
    jobs = read(frame)
    with refused(jobs.path, "values are missing or blank", column=column, count=3):
        jobs.records(("mode",))


@pytest.mark.parametrize("column", ["lives", "works"])
def test_geocodes_outside_the_geography(frame, read, refused, canary, column):
    frame.loc[7:9, column] = canary
    jobs = read(frame)
    with refused(jobs.path, "rows are not in the geography", column=column, count=3):
        jobs.records()


def test_no_job_is_left_out_because_of_its_home(frame, read):
    """Its total would be missed: so what is said of work blocks and of workers is not said of homes."""
    for column, home in (("lives", "9" * 15), ("lives", " "), ("works", "9" * 15), ("worker", " ")):
        changed = frame.copy()
        changed.loc[7:9, column] = home
        with pytest.raises(InputError) as caught:
            read(changed).records()
        others = "leave|remove|drop|only"
        assert bool(re.search(others, caught.value.fix)) == (column != "lives"), caught.value.fix


def test_too_many_categories(demo_geography, write, refused):
    block = demo_geography.blocks[0]
    frame = pd.DataFrame({"lives": block, "works": block, "mode": [f"CANARY{n:04d}" for n in range(1001)]})
    jobs = source(write(frame.to_csv(index=False)), demo_geography, attributes=("mode",))
    with refused(jobs.path, "categories are more than the 1,000", column="mode", count=1001):
        jobs.slots()
    jobs = source(write(frame[1:].to_csv(index=False)), demo_geography, attributes=("mode",))
    assert jobs.slots().attributes["mode"].dtype == np.uint16
    assert jobs.slots().attributes["mode"].tolist() == list(range(1000))


def test_a_secret_that_is_missing_is_not_to_be_removed(frame, read):
    """The public number of the jobs that remain would tell of those without."""
    jobs = read(frame.assign(pay=frame["pay"].mask(frame.index < 3)), secret=("pay",))
    assert len(jobs.slots()) == len(frame)
    assert "pay" not in jobs.slots().attributes
    with pytest.raises(InputError, match="that stands for unknown") as caught:
        jobs.records(("pay",))
    assert "remove" not in str(caught.value)


@pytest.mark.parametrize("column", ["home", "worker"])
def test_planning_finds_a_wrong_name_of_a_column_that_it_does_not_parse(
    frame, write, demo_geography, refused, column
):
    jobs = source(write(frame.to_csv(index=False)), demo_geography, **{column: "nowhere"})
    with refused(jobs.path, "missing columns: nowhere"):
        jobs.slots()


def test_bad_configuration(frame, read, write, demo_geography, refused):
    path = write(frame.to_csv(index=False))
    with refused(path, "one column is named for two purposes: lives"):
        source(path, demo_geography, work="lives")
    with refused(path, "records_per_worker is less than 1"):
        source(path, demo_geography, records_per_worker=0)
    jobs = read(frame)
    with refused(jobs.path, "there is no such attribute; there are: mode, pay"):
        jobs.records(("age",))


@pytest.mark.parametrize("options", [{}, {"worker": "worker", "records_per_worker": 2}])
def test_files_are_compared_without_homes(frame, write, demo_geography, refused, options):
    """A row or a file of the same jobs is found whatever their homes are, and others whatever theirs are."""
    part = frame[:40]
    one = write(part.to_csv(index=False), "one.csv")
    columns = {"attributes": ("mode", "pay"), **options}
    moved = part.assign(lives=demo_geography.blocks[0])
    for again in (moved, *([moved[3:5]] if options else [])):
        path = write(pd.concat([again, frame[40:60][: bool(options) * 20]]).to_csv(index=False), "two.csv.gz")
        with refused(
            one,
            "the same jobs may be there twice",
            column=options.get("worker"),
            count=len(again) if options else 1,
        ):
            source([one, path], demo_geography, **columns).records()
    others = part.assign(pay=part["pay"].to_numpy()[::-1], worker=frame["worker"][40:80].to_numpy())
    for again in (others, others.assign(lives=part["lives"]), part[:0]):
        path = write(again.to_csv(index=False), "two.csv")
        jobs = source([one, path, write(part[:0].to_csv(index=False), "none.csv")], demo_geography, **columns)
        assert len(jobs.records()) == len(jobs.slots()) == 40 + len(again)


def test_small_files_may_be_alike(frame, write, demo_geography):
    """Two employers of one person each: nothing says that they are one."""
    paths = [write(frame[:1].to_csv(index=False), f"{i}.csv") for i in range(2)]
    jobs = source(paths, demo_geography, attributes=("mode",), reading=Reading())
    assert len(jobs.records()) == 2
    assert ["small files" in text for text in jobs.reading.remarks] == [True]


@pytest.fixture
def rows_that_count(write):
    geography = read_crosswalk(
        write("zone,lat,lon\nE001,50,0\nE002,51,0\nE003,52,0\n", "zones.csv"),
        block="zone",
        levels=(),
        centroid=("lat", "lon"),
    )

    def reader(text, **options):
        return MicrodataJobs(write(text, "jobs.csv"), geography, "h", "w", count="n", **options)

    return reader


def test_rows_may_count_jobs(rows_that_count):
    jobs = rows_that_count(
        "h,w,mode,n\nE001,E002,bus,66.0\nE003,E002,foot,0\nE002,E001,bus,2\n", attributes=("mode",)
    )
    slots, records = jobs.slots(), jobs.records(("mode",))
    assert len(records) == slots.work.size == 68
    assert np.bincount(slots.work).tolist() == [2, 66]
    assert np.bincount(records.home).tolist() == [66, 2]
    assert slots.categories == {"mode": ("bus",)}  # nobody walks


def test_what_is_no_count_of_jobs_is_refused(rows_that_count, refused):
    jobs = rows_that_count("h,w,n\nE001,E002,1.5\nE001,E002,-1\nE001,E002,1\n")
    with refused(jobs.path, "numbers of jobs are negative or not whole", column="n", count=2):
        jobs.slots()
    jobs = rows_that_count("h,w,n\nE001,E002,0\n")
    for read in (MicrodataJobs.slots, MicrodataJobs.records):
        with refused(jobs.path, "there is no job", column="n"):
            read(jobs)
    with refused(jobs.path, "rows that count jobs cannot name workers"):
        rows_that_count("h,w,n\n", worker="p")
