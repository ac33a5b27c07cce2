"""The file of the ledger: an SQLite database to which entries are added, each chained to the one before.

Nothing here knows what a budget is. Whatever is read is checked first: the file is a ledger, of this version,
with exactly the tables and triggers that it was made with, and every entry has the hash that follows from its
content and from the entry before. The format is described in docs/ledger.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipelines.storage.durable import locks_refused, scratch_file, whole_file
from synth.errors import ShownError

GENESIS = "odsynth ledger 1"
_APPLICATION_ID = 0x6F64736C  # "odsl"
_VERSION = 5
_BUSY_SECONDS = 60.0
_AMOUNTS = {"epsilon", "delta", "rho"}
_RESTORE = (
    "keep this file, put the last good copy back, and compare it with the heads that releases have kept"
)

TABLES = {
    "spends": (
        *("entry", "time", "kind", "data_set", "period", "years", "epsilon", "delta", "rho"),
        *("plan_sha256", "release", "policy"),
    ),
    "releases": ("entry", "time", "kind", "debit", "detail"),
}
"""The columns of each table, besides `hash`. Entries are numbered across both."""

_COLUMNS = {
    "spends": """entry INTEGER PRIMARY KEY, time TEXT NOT NULL,
 kind TEXT NOT NULL CHECK (kind IN ('budget', 'debit')), data_set TEXT NOT NULL, period TEXT,
 years INTEGER, epsilon TEXT, delta TEXT NOT NULL, rho TEXT, plan_sha256 TEXT, release TEXT, policy TEXT,
 hash TEXT NOT NULL, CHECK (epsilon IS NOT NULL OR kind = 'budget' AND rho IS NOT NULL)""",
    "releases": """entry INTEGER PRIMARY KEY, time TEXT NOT NULL,
 kind TEXT NOT NULL CHECK (kind IN ('resumed', 'finished', 'failed', 'abandoned')), debit TEXT NOT NULL,
 detail TEXT, hash TEXT NOT NULL""",
}
# INSERT OR REPLACE deletes without a DELETE trigger, so the number of a new entry is checked too.
_NEXT = (
    "1 + max(coalesce((SELECT max(entry) FROM spends), 0), coalesce((SELECT max(entry) FROM releases), 0))"
)
_SCHEMA = [
    *(f"CREATE TABLE {table} ({columns})" for table, columns in _COLUMNS.items()),
    *(
        f"CREATE TRIGGER {table}_{event} BEFORE {event} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END"
        for table in TABLES
        for event in ("UPDATE", "DELETE")
    ),
    *(
        f"CREATE TRIGGER {table}_INSERT BEFORE INSERT ON {table} WHEN NEW.entry IS NOT {_NEXT} "
        "BEGIN SELECT RAISE(ABORT, 'entries follow one another'); END"
        for table in TABLES
    ),
]


class LedgerError(ShownError, ValueError):
    """The ledger refuses: what rule, how many, the fix. Nothing was written."""


@dataclass(frozen=True)
class Entry:
    """One entry of the ledger. Fields that its kind does not have are None."""

    entry: int  # its number, from 1, without gaps
    time: str  # UTC, as in ``"2026-01-31T23:59:59.123456Z"``; never before the entry before
    kind: str  # "budget" or "debit"; of releases "resumed", "finished", "failed" or "abandoned"
    data_set: str | None = None  # whose budget it is, for "budget" and "debit"; a period of None is for ever
    period: str | None = None
    epsilon: Fraction | None = None  # the budget, or what was debited; a budget may be in rho only
    delta: Fraction | None = None
    rho: Fraction | None = None  # of a debit: the zCDP of Gaussian noise, or of refining
    plan_sha256: str | None = None  # of a debit: the hash of the plan, and the name of the release
    release: str | None = None
    policy: str | None = None  # of a debit: what it is a guarantee of (`pipelines.ledger.terms`)
    debit: str | None = None  # of what became of a release: the hash of its debit
    detail: str | None = None  # further words
    years: int | None = None  # of a budget: of so many years, whichever they are
    hash: str = ""  # SHA-256 over the hash of the entry before and this entry


def fields(entry: Entry) -> dict[str, str | int]:
    """Return what an entry holds as it is hashed: without its hash, without fields that are None."""
    values = {
        name: str(value) if isinstance(value, Fraction) else value
        for name, value in vars(entry).items()
        if value is not None
    }
    del values["hash"]
    return values


def _hash(previous: str, values: Mapping[str, str | int]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256((previous + text).encode("ascii")).hexdigest()


@contextmanager
def reading(path: Path, *, traceless: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a ledger for reading one consistent state of it.

    A traceless reader leaves no file beside a ledger that nobody uses. SQLite then takes no lock: a debit
    at the same moment may make this reader fail, or miss it.
    """
    log = path.with_name(f"{path.name}-wal")  # if it is empty, all entries are in the ledger's own file
    unused = traceless and (not log.exists() or log.stat().st_size == 0)
    with _connection(path, "ro&immutable=1" if unused else "ro") as connection:
        connection.execute("BEGIN")
        _check_kind(connection, path)
        yield connection


@contextmanager
def writing(path: Path, *, create: bool = False, keep: bool = True) -> Iterator[sqlite3.Connection]:
    """Hold the one right to write, in a transaction that is on the disk when the block ends.

    If the block raises, nothing is written. `create` makes the file where there is none; without `keep`
    it is tried whether it can be written: everything is done, and taken back in the end.
    """
    if create and not os.path.lexists(path):
        if not keep:
            with _clear_errors(path), _made(path) as made, _transaction(made, keep=False) as connection:
                yield connection
            return
        with _clear_errors(path), suppress(FileExistsError), _made(path, keep=True):
            pass  # where another process was faster, its ledger counts
    with reading(path):
        pass  # another program's file is refused before anything opens it for writing
    if not path.stat().st_mode & stat.S_IWUSR:
        raise LedgerError(f"{path}: the ledger is read-only. Fix: chmod 600")
    with _transaction(path, keep=keep) as connection:
        yield connection


@contextmanager
def _transaction(path: Path, *, keep: bool) -> Iterator[sqlite3.Connection]:
    with _connection(path, "rw") as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _check_kind(connection, path)
            check_integrity(connection, path)
            yield connection
            if keep:
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        with suppress(sqlite3.Error):  # so that the ledger file holds everything; others may be reading it
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def read_entries(connection: sqlite3.Connection, path: Path) -> list[Entry]:
    """Return all entries in order, having checked the whole chain."""
    rows = []
    for table, columns in TABLES.items():
        stored = connection.execute(f"SELECT {', '.join(columns)}, hash FROM {table}")
        rows += [dict(zip((*columns, "hash"), row, strict=True)) for row in stored]
    rows.sort(key=lambda row: row["entry"])
    entries: list[Entry] = []
    previous, time = GENESIS, ""
    for number, row in enumerate(rows, 1):
        if row["entry"] > number:
            raise LedgerError(f"{path}: entry {number} is missing. Fix: {_RESTORE}")
        entry = _entry(row, previous)
        if entry is None or entry.entry != number or entry.time < time:
            raise LedgerError(
                f"{path}: entry {number} of {len(rows)} was changed after it was written. Fix: {_RESTORE}"
            )
        entries.append(entry)
        previous, time = entry.hash, entry.time
    return entries


def _entry(row: dict[str, str | int | None], previous: str) -> Entry | None:
    """Return the entry of a row, or None if it is not the one that was chained to the one before."""
    values = {name: value for name, value in row.items() if value is not None}
    stored_hash = values.pop("hash", None)
    try:
        if _hash(previous, values) != stored_hash:
            return None
        amounts = {name: Fraction(str(values[name])) for name in _AMOUNTS & values.keys()}
    except (TypeError, ValueError, ZeroDivisionError):  # a type that is not ours, a number that is none
        return None
    typed: dict[str, Any] = {**values, **amounts, "hash": stored_hash}
    entry = Entry(**typed)
    return entry if fields(entry) == values else None


def append(connection: sqlite3.Connection, entries: list[Entry], entry: Entry) -> Entry:
    """Add an entry to the file and to the list of all entries.

    All entries are those of `read_entries` in the same transaction; number and hash of the new one are
    given here.
    """
    values = fields(entry) | {"entry": len(entries) + 1}
    values["hash"] = _hash(entries[-1].hash if entries else GENESIS, values)
    table = next(name for name, columns in TABLES.items() if set(values) <= {*columns, "hash"})
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", [*values.values()])
    added = Entry(**{**vars(entry), "entry": values["entry"], "hash": values["hash"]})
    entries.append(added)
    return added


def check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Let SQLite check the structure of its file."""
    faults = [row[0] for row in connection.execute("PRAGMA integrity_check(1000)")]
    if faults != ["ok"]:
        raise LedgerError(f"{path}: SQLite finds {len(faults)} fault(s) in the file. Fix: {_RESTORE}")


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger of this version, table by table and trigger by trigger."""
    identity, version = (
        connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in ("application_id", "user_version")
    )
    if identity != _APPLICATION_ID:
        raise LedgerError(f"{path}: this is not a ledger. Fix: name the ledger's file")
    if version != _VERSION:
        raise LedgerError(
            f"{path}: the ledger's format is {version}, and this version reads {_VERSION}. Fix: use the "
            "version that wrote it, or carry over what was spent to a new ledger (docs/ledger.md)"
        )
    statements = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master")]
    if sorted(map(str, statements)) != sorted(_SCHEMA):
        raise LedgerError(f"{path}: the ledger's tables or triggers were changed. Fix: {_RESTORE}")


@contextmanager
def _connection(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open an existing file, and say in one clear error what the system or SQLite has against it."""
    with _clear_errors(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{path}: this is not a file. Fix: name the ledger's file")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise LedgerError(f"{path}: others can write to the ledger. Fix: chmod 600")
        uri = f"{path.as_uri()}?mode={mode}"
        with closing(
            sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA synchronous = FULL")
            yield connection


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        fix = "check the path, or put the ledger back"
        raise LedgerError(f"{path}: there is no such ledger. Fix: {fix}") from None
    except OSError as error:
        rule, fix = f"the ledger cannot be used ({error.strerror})", "check the path and its permissions"
        raise LedgerError(f"{path}: {rule}. Fix: {fix}") from error
    except sqlite3.ProgrammingError:
        raise
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite's message may quote the damage
        name = getattr(error, "sqlite_errorname", "text is not UTF-8")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
            if (refusal := locks_refused(path.parent)) is not None:  # SQLite says "busy" of that too
                raise LedgerError(f"{path}: {refusal}") from error
            rule = f"another process has held the ledger for more than {_BUSY_SECONDS:.0f} s"
            fix = "wait, or end that process, and run again"
        elif name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_FULL", "SQLITE_IOERR")):
            rule = f"the ledger's file or folder cannot be used ({name})"
            fix = "check the permissions and free space of its folder"
        else:
            rule, fix = f"the ledger's file is damaged ({name})", _RESTORE
        raise LedgerError(f"{path}: {rule}. Fix: {fix}") from None


def check_folder(path: Path) -> None:
    """Refuse a ledger whose folder is not there."""
    if not path.parent.is_dir():
        fix = "make the folder with mode 0700"
        raise LedgerError(f"{path.parent}: the ledger's folder does not exist. Fix: {fix}")


@contextmanager
def _made(path: Path, *, keep: bool = False) -> Iterator[Path]:
    """Make an empty ledger, mode 0600, which appears whole, under its name, or not at all.

    Unless it is kept, it never appears: it is there only for the block, in a folder of its own.
    """
    check_folder(path)
    journals = [
        name for name in (f"{path.name}-wal", f"{path.name}-journal") if (path.parent / name).exists()
    ]
    if journals and not os.path.lexists(path):
        raise LedgerError(
            f"{path}: the ledger is missing, but {journals[0]} is there. Fix: put the ledger back beside it"
        )
    with whole_file(path, new=True) if keep else scratch_file(path) as file:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")
        file.chmod(0o600)
        yield file
