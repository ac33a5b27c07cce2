"""The error that users see."""

from __future__ import annotations

import pickle
from pathlib import Path

from geo_data import InputError


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


def test_parts_may_be_absent():
    assert (
        str(InputError(Path("a") / "b.csv", "the file is empty"))
        == str(Path("a/b.csv")) + ": the file is empty."
    )


def test_is_a_value_error():
    assert issubclass(InputError, ValueError)


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
