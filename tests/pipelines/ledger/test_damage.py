"""A ledger that is damaged, replaced, out of reach or put back: refused, and nothing written."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines.ledger import chain
from pipelines.ledger.budgets import Budget
from pipelines.ledger.chain import Entry, LedgerError
from pipelines.ledger.ledger import Charge, Debit, Ledger
from pipelines.ledger.terms import Terms

PLAN = "a" * 64
OTHER_KIND = {"budget": "debit", "debit": "budget", "resumed": "failed"}


def pay(
    ledger: Ledger, data_set: str = "jobs", policy: str = str(Terms()), witness: Sequence[str] = ()
) -> Debit:
    charge = Charge(data_set, Fraction(1, 3), Fraction("1e-6"), PLAN, "r", policy, Fraction(1, 7))
    budget = Budget(Fraction(100), Fraction(1, 2), rho=Fraction(50))
    return ledger.debit(charge, budget, witness=witness)


def story(path: Path) -> Ledger:
    """A ledger of eight entries, of every kind."""
    ledger = Ledger(path)
    first, second = pay(ledger), pay(ledger, "wages", policy=str(Terms("parts st:1")))
    ledger.outcome(first.id, "failed", "no space")
    ledger.resume(first.id, PLAN)
    ledger.outcome(first.id, "finished")
    ledger.outcome(second.id, "abandoned")
    return ledger


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of such a ledger, to be copied."""
    return story(tmp_path_factory.mktemp("ledger") / "ledger.sqlite").path


@pytest.fixture
def ledger(whole: Path, tmp_path: Path) -> Ledger:
    return copy_of(whole, tmp_path)


def copy_of(whole: Path, folder: Path) -> Ledger:
    shutil.rmtree(folder)
    folder.mkdir()
    shutil.copy(whole, folder)
    (folder / whole.name).chmod(0o600)
    return Ledger(folder / whole.name)


def sql(ledger: Ledger, *statements: str, value: object = None, guarded: bool = False) -> list[Any]:
    """Run statements; unless `guarded`, as somebody who takes the triggers off and puts them back."""
    with closing(sqlite3.connect(ledger.path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in () if guarded else triggers:
            connection.execute(f"DROP TRIGGER {name}")
        result: list[Any] = []
        for statement in statements:
            result = connection.execute(statement, [value] if "?" in statement else []).fetchall()
        for _, trigger in () if guarded else triggers:
            connection.execute(trigger)
        connection.commit()
    return result


def refused(ledger: Ledger, match: str) -> None:
    """Every call is refused, and the file is not touched."""
    before = ledger.path.read_bytes()
    for use in (
        Ledger.verify,
        Ledger.entries,
        pay,
        lambda one: one.outcome(PLAN, "failed"),
        lambda one: one.resume(PLAN, PLAN),
    ):
        with pytest.raises(LedgerError, match=match) as error:
            use(ledger)
        assert "Fix: " in str(error.value)
    assert ledger.path.read_bytes() == before


entries = pytest.mark.parametrize(
    ("number", "table"), [(number, "spends" if number <= 4 else "releases") for number in range(1, 9)]
)


@entries
def test_every_column_of_every_row_is_protected(
    ledger: Ledger, whole: Path, tmp_path: Path, number: int, table: str
) -> None:
    for column in (*chain.TABLES[table][1:], "hash"):
        old = sql(Ledger(whole), f"SELECT {column} FROM {table} WHERE entry = {number}", guarded=True)[0][0]
        values = ["1", "1/4", "2099-01-01T00:00:00.000000Z", "0" * 64, b"1", b"\xff", f"{old} ", None]
        if column == "kind":
            values = [OTHER_KIND.get(old, "resumed")]
        elif old is not None:
            values.append(old.encode())  # the same letters, in another type
            if column not in ("period", "plan_sha256", "release", "detail"):
                values.remove(None)  # SQLite itself keeps those out
        for value in values:
            if value != old:
                ledger = copy_of(whole, tmp_path)
                sql(ledger, f"UPDATE {table} SET {column} = ? WHERE entry = {number}", value=value)
                refused(ledger, f"entry {number} of 8 was changed")


@entries
def test_the_order_and_the_number_of_entries_are_protected(
    ledger: Ledger, whole: Path, tmp_path: Path, number: int, table: str
) -> None:
    sql(ledger, f"UPDATE {table} SET entry = 99 WHERE entry = {number}")
    refused(ledger, f"entry {number} is missing")
    ledger = copy_of(whole, tmp_path)
    sql(ledger, f"DELETE FROM {table} WHERE entry = {number}")
    if number < 8:
        refused(ledger, f"entry {number} is missing")
    else:  # the tail: see below
        assert ledger.verify().entries == 7
    ledger = copy_of(whole, tmp_path)
    first = "SELECT time, kind, debit, hash, entry FROM releases LIMIT 1"
    sql(ledger, f"INSERT INTO releases (time, kind, debit, hash, entry) {first.replace('entry', '0')}")
    refused(ledger, "entry 1 of 9 was changed")


def test_entries_cannot_be_changed_by_mistake(ledger: Ledger) -> None:
    columns = "entry, time, kind, debit, detail, hash"
    for statement in (
        "UPDATE spends SET epsilon = '0'",
        "DELETE FROM spends",
        "UPDATE releases SET detail = 'x'",
        "DELETE FROM releases WHERE entry = 8",
        f"REPLACE INTO releases ({columns}) SELECT {columns} FROM releases WHERE entry = 8",
        "INSERT INTO releases VALUES (10, 't', 'failed', 'd', '', 'h')",
        "INSERT INTO releases (time, kind, debit, hash) VALUES ('t', 'failed', 'd', 'h')",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="entries"):
            sql(ledger, statement, guarded=True)
    assert ledger.verify().entries == 8


def test_what_only_a_witness_can_see(whole: Path, tmp_path: Path) -> None:
    """An older copy is a good ledger, as is a new one; the heads that releases have kept tell."""
    ledger = copy_of(whole, tmp_path)
    old = ledger.path.read_bytes()
    known = [entry.hash for entry in ledger.entries()]
    newest = pay(ledger)
    assert ledger.verify([*known, newest.head]).head == newest.head
    for left in (old, None):
        for path in tmp_path.iterdir():
            path.unlink()
        if left:
            ledger.path.write_bytes(left)
            ledger.path.chmod(0o600)
            assert ledger.verify(known).entries == 8
            for use in (
                lambda: ledger.verify([*known, newest.head]),
                lambda: pay(ledger, witness=[newest.head, *known]),
            ):
                with pytest.raises(LedgerError, match="1 of 9 known heads"):
                    use()
            with pytest.raises(LedgerError, match="debit is not in the ledger"):
                ledger.resume(newest.id, PLAN)
        else:
            with pytest.raises(LedgerError, match="no such ledger"):
                pay(ledger, witness=[newest.head])
            assert not ledger.path.exists()
            pay(ledger)
            with pytest.raises(LedgerError, match="9 of 9 known heads"):
                pay(ledger, witness=[newest.head, *known])


def test_a_lost_wal_is_an_older_copy(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM spends").fetchall()  # this reader keeps the WAL from being emptied
        debit = pay(ledger)
        lost = ledger.path.read_bytes()
    ledger.path.write_bytes(lost)
    ledger.path.with_name(f"{ledger.path.name}-wal").unlink(missing_ok=True)
    with pytest.raises(LedgerError, match="known heads"):
        ledger.verify([debit.head])
    assert ledger.verify().entries == 8
    assert pay(ledger).entry == 9


def test_a_wal_without_its_ledger(ledger: Ledger) -> None:
    ledger.path.with_name(f"{ledger.path.name}-wal").write_bytes(b"x")
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="is missing, but"):
        pay(ledger)
    assert not ledger.path.exists()


def test_another_structure(whole: Path, tmp_path: Path) -> None:
    for statement, match in {
        "DROP TABLE spends": "tables or triggers",
        "DROP TABLE releases": "tables or triggers",
        "DROP TRIGGER spends_UPDATE": "tables or triggers",
        "DROP TRIGGER releases_INSERT": "tables or triggers",
        "CREATE TRIGGER t AFTER INSERT ON spends BEGIN DELETE FROM releases; END": "tables or triggers",
        "ALTER TABLE spends ADD COLUMN x": "tables or triggers",
        "PRAGMA user_version = 6": "the ledger's format is 6, and this version reads 5. Fix: use the version",
        "PRAGMA user_version = 4": "the ledger's format is 4, and this version reads 5.* new ledger",
        "PRAGMA application_id = 7": "not a ledger",
    }.items():
        ledger = copy_of(whole, tmp_path)
        sql(ledger, statement, guarded=True)
        refused(ledger, match)


def test_not_a_database(ledger: Ledger) -> None:
    for content in (b"", b"hello", b"SQLite format 3\0", bytes(range(256)) * 40):
        ledger.path.write_bytes(content)
        refused(ledger, "damaged|not a ledger")


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_the_database_of_another_program(tmp_path: Path, mode: str) -> None:
    ledger = Ledger(tmp_path / "other.sqlite")
    sql(ledger, f"PRAGMA journal_mode = {mode}", "CREATE TABLE spends (entry)", guarded=True)
    ledger.path.chmod(0o600)
    refused(ledger, "not a ledger")


def test_a_file_that_was_cut(ledger: Ledger, whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    for size in {*range(1, len(content), 1021), 4096, len(content) - 1}:
        ledger = copy_of(whole, tmp_path)
        ledger.path.write_bytes(content[:size])
        refused(ledger, "damaged|not a ledger|fault|missing|changed")


def read(ledger: Ledger) -> list[Entry] | None:
    """What verification and reading agree on, or None where the ledger is refused."""
    try:
        ledger.verify()
        return ledger.entries()
    except LedgerError:
        return None


@pytest.mark.slow
def test_bytes_that_were_changed(whole: Path, tmp_path: Path) -> None:
    """Every part of the file, one byte at a time: refused, or without effect (SQLite's unused space)."""
    content, good = whole.read_bytes(), Ledger(whole).entries()
    used = caught = 0
    for at in range(0, len(content), 29):
        ledger = copy_of(whole, tmp_path)
        flipped = bytearray(content)
        flipped[at] ^= 1 << (at % 8)
        ledger.path.write_bytes(flipped)
        found = read(ledger)
        assert found in (None, good), f"byte {at}"
        used += content[at] != 0
        caught += found is None
        if found is None:
            with pytest.raises(LedgerError):
                pay(ledger)
            assert ledger.path.read_bytes() == flipped
    assert caught > 0.95 * used


def test_places_where_no_ledger_can_be(tmp_path: Path, ledger: Ledger) -> None:
    for path, match in [
        (tmp_path / "none" / "ledger.sqlite", "folder does not exist"),
        (tmp_path, "not a file"),
        (Path("/dev/null"), "not a file"),
        (tmp_path / ("x" * 300), "cannot be used"),
    ]:
        with pytest.raises(LedgerError, match=match):
            pay(Ledger(path))
    absent = Ledger(tmp_path / "absent.sqlite")
    for use in (Ledger.entries, Ledger.verify, Ledger.accounts, lambda one: one.outcome(PLAN, "failed")):
        with pytest.raises(LedgerError, match="no such ledger"):
            use(absent)
    assert not absent.path.exists()
    os.symlink(absent.path, tmp_path / "link.sqlite")
    with pytest.raises(LedgerError, match="no such ledger"):
        pay(Ledger(tmp_path / "link.sqlite"))


def test_read_only_and_open_to_others(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    ledger.path.chmod(0o400)
    with pytest.raises(LedgerError, match="read-only"):
        pay(ledger)
    assert ledger.verify().entries == 8
    ledger.path.chmod(0o620)
    refused(ledger, "others can write")
    ledger.path.chmod(0o600)
    assert ledger.path.read_bytes() == before


def test_a_held_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process has held the ledger"):
            pay(ledger)
    assert pay(ledger).entry == 9


def test_nothing_is_entered_when_the_disk_is_full(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = real(*arguments, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    done = [8]
    with pytest.raises(LedgerError, match="SQLITE_FULL"):
        done.extend(pay(ledger).entry for _ in range(1000))
    assert ledger.verify().entries == done[-1]


def test_a_backup_is_a_ledger(ledger: Ledger, tmp_path: Path) -> None:
    """As docs/ledger.md says: with sqlite3's own backup, or as a copy of the file when nobody uses it."""
    copies = [tmp_path / "backup.sqlite", tmp_path / "vacuum.sqlite"]
    with closing(sqlite3.connect(ledger.path)) as source, closing(sqlite3.connect(copies[0])) as target:
        source.backup(target)
        source.execute("VACUUM INTO ?", [str(copies[1])])
    for path in copies:
        path.chmod(0o600)
        assert Ledger(path).verify() == ledger.verify()
        assert pay(Ledger(path)).entry == 9
