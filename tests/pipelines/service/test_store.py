"""The service's records: the same rules in SQLite and PostgreSQL, however many open it."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, delete, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError

from pipelines.service import migrations
from pipelines.service.store import ServiceError, Store, _keep_log, audit, list_audit, record, runs

from .helpers import assert_append_only, at_once

pytestmark = pytest.mark.quick


def test_several_may_make_the_tables_at_once(database: str) -> None:
    opened: list[Store] = []
    at_once(lambda _: opened.append(Store.open(database)), 6)
    assert len(opened) == 6
    assert all(store.alive() for store in opened)
    for store in opened:
        store.close()


def test_a_new_file_that_others_look_at_is_waited_for() -> None:
    """SQLite refuses at once to keep a log beside a file that others have open."""

    class Busy:
        left, said = 3, list[str]()

        def cursor(self) -> Busy:
            return self

        def execute(self, statement: str) -> None:
            if "journal_mode" in statement and self.left:
                self.left -= 1
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            self.said.append(statement)

    connection = Busy()
    _keep_log(connection)
    assert connection.said == ["PRAGMA journal_mode = WAL"]
    assert connection.left == 0


def test_the_audit_trail_is_only_added_to(store: Store) -> None:
    with store.write() as connection:
        for number in range(5):
            record(connection, "ann", "aaaaaaaa", "queued", f"run {number}", "Zoë\n✓")
    line = dict.fromkeys(("time", "actor", "credential", "action", "subject", "detail"), "eve")
    assert_append_only(store, audit, id=3, **line)
    acts = list_audit(store)
    assert [(act.actor, act.subject, act.detail) for act in acts] == [
        ("ann", f"run {number}", "Zoë\n✓") for number in (4, 3, 2, 1, 0)
    ]
    assert [act.subject for act in list_audit(store, before=acts[1].id, limit=2)] == ["run 2", "run 1"]


def test_two_runs_of_a_data_set_cannot_run_at_once_whatever_the_program_does(store: Store) -> None:
    row = {
        "input": "a",
        "title": "A",
        "name": "a",
        "configuration": "{}",
        "task": "release",
        "submitted_by": "ann",
    }
    times = {"submitted": "2026", "changed": "2026"}
    with store.write() as connection:
        for data_set, state in (("jobs", "running"), ("jobs", "queued"), ("others", "running")):
            connection.execute(insert(runs).values(**row, **times, data_set=data_set, state=state))
    with pytest.raises(DBAPIError), store.write() as connection:
        connection.execute(update(runs).where(runs.c.state == "queued").values(state="running"))
    with store.read() as connection:
        assert connection.execute(select(runs.c.state)).scalars().all().count("running") == 2


def test_another_version_of_the_program_is_named(store: Store, database: str) -> None:
    with store.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '99'")
    assert not store.alive()
    with pytest.raises(ServiceError, match="made by another version of odsynth"):
        Store.open(database)


def test_a_database_that_cannot_be_used_is_named_without_its_password() -> None:
    for url, said in (
        ("nonsense", "is not a URL"),
        ("mysql://u:SECRETword@h/d", "neither SQLite nor PostgreSQL"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////no/such/SECRETword/file.sqlite", "cannot be used"),
        ("postgresql+psycopg://u:SECRETword@/d?host=/no/such/folder", "cannot be used"),
        ("postgresql+asyncpgx://u:SECRETword@h/d", "needs a driver"),
    ):
        with pytest.raises(ServiceError, match=said) as refused:
            Store.open(url)
        assert refused.value.status == 503
        assert "SECRETword" not in str(refused.value)


def test_the_file_is_for_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    store = Store.open(f"sqlite:///{path}")
    with store.write() as connection:
        record(connection, "ann", "aaaaaaaa", "queued", "run 1")
        modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == {0o600}
    store.close()


def test_what_is_read_before_a_change_stays_true(database: str) -> None:
    """A claim reads and then writes: the counter of a hundred such transactions is a hundred."""
    stores = [Store.open(database) for _ in range(4)]
    with stores[0].write() as connection:
        record(connection, "0", "", "", "")
        connection.execute(insert(runs).values(**_counter()))

    def count(number: int) -> None:
        for _ in range(25):
            with stores[number].write() as connection:
                row = connection.execute(select(runs).with_for_update()).one()
                connection.execute(update(runs).values(attempts=row.attempts + 1))

    at_once(count, 4)
    with stores[0].read() as connection:
        assert connection.execute(select(runs.c.attempts)).scalar_one() == 100
    for store in stores:
        store.close()


def _counter() -> dict[str, object]:
    names = (
        "input",
        "data_set",
        "title",
        "name",
        "configuration",
        "state",
        "task",
        "submitted_by",
        "submitted",
    )
    return dict.fromkeys(names, "x") | {"changed": "x", "attempts": 0}


LATER = """
from alembic import op
from sqlalchemy import Column, Text
revision, down_revision = "later", "HEAD"
def upgrade():
    with op.batch_alter_table("audit", recreate="auto", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.add_column(Column("reason", Text(), nullable=True))
        table.alter_column("detail", nullable=True)
"""


@pytest.fixture
def old(database: str) -> str:
    """URL of a database of this version, with a line of the audit trail."""
    store = Store.open(database)
    with store.write() as connection:
        record(connection, "ann", "aaaaaaaa", "queued", "run 1", "Zoë")
    store.close()
    return database


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make the program one that has a further revision, until the function is called."""
    folder = tmp_path / "a 50% later version"
    shutil.copytree(migrations._scripts().dir, folder, ignore=shutil.ignore_patterns("__pycache__"))
    head = migrations._scripts().get_current_head()
    assert head is not None
    (folder / "versions" / "later.py").write_text(LATER.replace("HEAD", head))
    monkeypatch.setattr(migrations, "_scripts", lambda: ScriptDirectory(str(folder)))
    return monkeypatch.undo


def rows(url: str) -> list[Any]:
    """The whole audit trail, with whatever columns there are."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(text("SELECT * FROM audit"))]
    engine.dispose()
    return found


def test_a_later_version_takes_it_further_and_the_earlier_leaves_that_alone(
    old: str, later: Callable[[], None]
) -> None:
    before = rows(old)
    store = Store.open(old)
    assert store.alive()
    with pytest.raises(DBAPIError, match="nothing is changed in audit"), store.write() as connection:
        connection.execute(delete(audit))  # though SQLite's table of the trail is another now
    store.close()
    after = rows(old)
    assert after == [(*row, None) for row in before]
    later()
    with pytest.raises(ServiceError, match="made by another version of odsynth") as refused:
        Store.open(old)
    assert refused.value.status == 503
    assert rows(old) == after


@pytest.mark.parametrize("table", ["audit", "of_something_else"])
def test_tables_that_no_version_made_are_refused_and_left_alone(database: str, table: str) -> None:
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {table} (id INTEGER)"))
    file = Path(str(engine.url.database))
    before = (file.read_bytes(), file.stat().st_mtime_ns) if file.is_file() else None
    with pytest.raises(ServiceError, match="tables of another program"):
        Store.open(database)
    assert inspect(engine).get_table_names() == [table]
    assert before is None or before == (file.read_bytes(), file.stat().st_mtime_ns)  # not a byte
    engine.dispose()


def test_a_step_that_fails_changes_nothing(old: str, later: Callable[[], None]) -> None:
    step = Path(migrations._scripts().dir) / "versions" / "later.py"
    step.write_text(step.read_text() + '    op.execute("SELECT * FROM nothing")\n')
    before = rows(old)
    with pytest.raises(ServiceError, match="cannot be used"):
        Store.open(old)
    assert rows(old) == before
    later()
    store = Store.open(old)
    assert [act.detail for act in list_audit(store)] == ["Zoë"]
    store.close()
