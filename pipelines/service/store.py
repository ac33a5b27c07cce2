"""The service's own records in SQLite or PostgreSQL: tokens, runs, approvals, progress and the audit trail.

What was spent of a privacy budget is not among them: that is the ledger's. Rules that must hold however many
servers and workers use one database are constraints of the database: one running release for each data set,
one run for each version name and each idempotency key, one decision for each run and version name; nothing
is changed in the audit trail, unless by who owns the database, and may take its triggers away.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, Table, create_engine, event, insert, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from pipelines.service.migrations import ForeignDatabaseError, is_current, migrate
from pipelines.service.migrations.versions.first import metadata
from synth.errors import ShownError

_PATIENCE = 30  # seconds for which SQLite waits for others
_LOCK = 0x6F6473796E7468  # "odsynth": PostgreSQL's advisory lock while tables are made or changed
tokens, runs, approvals, events, audit, sessions, logins, outbox, attempts = (
    metadata.tables[name]
    for name in ("tokens", "runs", "approvals", "events", "audit", "sessions", "logins", "outbox", "attempts")
)


def _same_key(table: Table) -> str:
    return " AND ".join(f"{column.name} = NEW.{column.name}" for column in table.primary_key)


# Nothing is changed in these tables. In PostgreSQL the first revision says so.
_SQLITE_TRIGGERS = tuple(
    f"CREATE TRIGGER IF NOT EXISTS {table.name}_no_{verb.lower()} BEFORE {verb} ON {table.name} "
    f"{when}BEGIN SELECT RAISE(ABORT, 'nothing is changed in {table.name}'); END"
    for table in (audit, approvals)
    for verb, when in (
        ("UPDATE", ""),
        ("DELETE", ""),
        # INSERT OR REPLACE deletes the old line without a word to the trigger of DELETE.
        ("INSERT", f"WHEN EXISTS (SELECT 1 FROM {table.name} WHERE {_same_key(table)}) "),
    )
)


class ServiceError(ShownError):
    """The service refuses something.

    Attributes
    ----------
    status : int
        HTTP status.
    error : str
        What kind of refusal, one word for programs.
    detail : str
        For people: the rule and the fix. Names nothing confidential and no path of the server.
    retry_after : int
        Seconds after which the same may be answered otherwise, for 429 and 503.
    """

    def __init__(self, status: int, error: str, detail: str, *, retry_after: int = 5) -> None:
        self.status, self.error, self.detail, self.retry_after = status, error, detail, retry_after
        super().__init__(detail)


class Store:
    """The database; made by `open`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(odsynth_read_only=True)

    @classmethod
    def open(cls, url: str) -> Store:
        """Connect, and make the tables, or bring those of an earlier version up to date.

        Parameters
        ----------
        url : str
            ``sqlite:////folder/file`` or ``postgresql+psycopg://...``. An SQLite file is made with mode 0600.

        Raises
        ------
        ServiceError
            If the database cannot be used, or was made by a later version of the program. The URL, which
            may hold a password, is not quoted.
        """
        try:
            address = make_url(url)
        except ArgumentError:
            raise _unusable(
                "is not a URL; write sqlite:////folder/file or postgresql+psycopg://..."
            ) from None
        kind = address.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise _unusable("is neither SQLite nor PostgreSQL; name one of the two")
        try:
            store = cls(_sqlite(address) if kind == "sqlite" else _postgresql(address))
            try:
                store._bring_up_to_date()
            except BaseException:
                store.close()
                raise
        except ForeignDatabaseError as error:
            raise _unusable(str(error)) from None
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise _unusable("needs a driver that is not installed: pip install 'psycopg[binary]'") from error
        except (SQLAlchemyError, OSError) as error:
            raise _unusable(
                f"cannot be used ({type(error).__name__}); check that it runs and accepts the service"
            ) from None
        return store

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection whose transaction is for reading."""
        with self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose transaction is committed at the end, and undone by an error.

        On SQLite it has the only right to write from the beginning, so what it reads stays true.
        """
        with self._engine.begin() as connection:
            yield connection

    def alive(self) -> bool:
        """Whether the database answers."""
        try:
            with self.read() as connection:
                return is_current(connection)
        except SQLAlchemyError:
            return False

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _bring_up_to_date(self) -> None:
        with self.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            migrate(connection)
            if connection.dialect.name == "sqlite":
                # At every start: a step that changes a table here copies it, without its triggers.
                for trigger in _SQLITE_TRIGGERS:
                    connection.exec_driver_sql(trigger)
        if self._engine.dialect.name == "sqlite":
            with closing(self._engine.raw_connection()) as raw:
                _keep_log(raw)


def record(
    connection: Connection, actor: str, credential: str, action: str, subject: str, detail: str = ""
) -> None:
    """Add to the audit trail, in the transaction of what is done."""
    line: dict[str, Any] = {"actor": actor, "credential": credential, "action": action, "subject": subject}
    connection.execute(insert(audit).values(time=utc_now(), detail=detail, **line))


def list_audit(store: Store, *, before: int | None = None, limit: int = 100) -> Sequence[Row[Any]]:
    """Return the newest lines of the audit trail, with numbers below `before`."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    with store.read() as connection:
        return connection.execute(query if before is None else query.where(audit.c.id < before)).all()


def utc_now() -> str:
    """Return the time as it is kept: ISO, UTC, microseconds, so that texts sort as times do."""
    return after(0)


def after(seconds: float) -> str:
    """Return the time that many seconds from now, as it is kept."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _sqlite(address: URL) -> Engine:
    if address.database in (None, "", ":memory:"):
        raise _unusable("names no file, but what it holds must outlive the service; name a file")
    with suppress(FileExistsError):  # whose it is, and what is in it, is looked at before it is changed
        Path(str(address.database)).touch(mode=0o600, exist_ok=False)
    # Autocommit in the driver: it would begin a transaction only at the first change, too late for a claim.
    engine = create_engine(address, connect_args={"timeout": _PATIENCE, "isolation_level": None})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _postgresql(address: URL) -> Engine:
    # A server that does not answer any more is given up after seconds, not after the hours of TCP.
    patience = {"connect_timeout": 5, "tcp_user_timeout": 10_000}
    options = {name: value for name, value in patience.items() if name not in address.query}
    return create_engine(address, pool_pre_ping=True, pool_timeout=10, connect_args=options)


def _prepare(connection: Any, _: Any) -> None:
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _keep_log(connection: Any) -> None:
    # While a new file becomes one with a log, nobody else may look at it, and SQLite does not wait for that.
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    reading = connection.get_execution_options().get("odsynth_read_only", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _unusable(problem: str) -> ServiceError:
    return ServiceError(503, "database", f"The database {problem}.")
