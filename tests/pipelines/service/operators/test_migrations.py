"""Databases of other versions: an earlier one's is taken over with its rows, a later one's is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, delete, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError

from pipelines.service import migrations
from pipelines.service.migrations.versions import first
from pipelines.service.store import ServiceError, Store, audit, list_audit, metadata, record, runs

LATER = """
from alembic import op
from sqlalchemy import Column, Text
revision, down_revision = "later", "HEAD"
def upgrade():
    op.execute("UPDATE odsynth_schema SET version = 3")
    with op.batch_alter_table("audit", recreate="auto", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.add_column(Column("reason", Text(), nullable=True))
        table.alter_column("detail", nullable=True)
"""


@pytest.fixture
def old(database: str) -> str:
    """URL of a database that version 0.1.0 made, with a run and a line of the audit trail."""
    engine = create_engine(database)
    if engine.dialect.name == "sqlite":
        with engine.begin() as connection:
            made: Any = connection.connection.dbapi_connection
            made.executescript(Path(__file__).with_name("version_0_1_0.sql").read_text())
    else:  # the first revision without alembic's table
        with engine.begin() as connection:
            command.upgrade(migrations._config(connection), first.revision)
            connection.execute(text("DROP TABLE alembic_version"))
    row = dict.fromkeys(("input", "data_set", "title", "configuration", "state", "task", "submitted_by"), "x")
    with engine.begin() as connection:
        connection.execute(insert(runs).values(**row, submitted="2026", changed="2026"))
        record(connection, "ann", "aaaaaaaa", "queued", "run 1", "Zoë")
    engine.dispose()
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


def rows(url: str) -> tuple[list[Any], list[Any]]:
    """What there is of runs in the columns of version 0.1.0, and the whole audit trail."""
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = select(first.metadata.tables["runs"]), text("SELECT * FROM audit")
        found = tuple([tuple(row) for row in connection.execute(table)] for table in tables)
    engine.dispose()
    return found  # type: ignore[return-value]


def assert_append_only(store: Store) -> None:
    with pytest.raises(DBAPIError, match="nothing is changed in audit"), store.write() as connection:
        connection.execute(delete(audit))


def test_the_revisions_make_the_tables_that_the_program_uses(store: Store) -> None:
    with store.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_database_of_version_0_1_0_is_taken_over(old: str) -> None:
    before = rows(old)
    for _ in range(2):
        store = Store.open(old)
        assert store.alive()
        assert [(act.actor, act.detail) for act in list_audit(store)] == [("ann", "Zoë")]
        assert_append_only(store)
        store.close()
    assert rows(old) == before


def test_a_later_version_takes_it_further_and_the_earlier_leaves_that_alone(
    old: str, later: Callable[[], None]
) -> None:
    before = rows(old)
    store = Store.open(old)
    assert store.alive()
    assert_append_only(store)  # though SQLite's table of the trail is another now
    store.close()
    after = rows(old)
    assert after == (before[0], [(*row, None) for row in before[1]])
    later()
    with pytest.raises(ServiceError, match="made by another version of odsynth") as refused:
        Store.open(old)
    assert refused.value.status == 503
    assert rows(old) == after


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE tokens ADD COLUMN more TEXT", "not those of odsynth"),
        ("DROP TABLE events", "not those of odsynth"),
        ("UPDATE odsynth_schema SET version = 2", "made by another version of odsynth"),
    ],
)
def test_tables_that_no_version_made_are_refused_and_left_alone(old: str, change: str, said: str) -> None:
    engine = create_engine(old)
    with engine.begin() as connection:
        connection.execute(text(change))
    before = rows(old)
    with pytest.raises(ServiceError, match=said):
        Store.open(old)
    assert rows(old) == before
    assert "alembic_version" not in inspect(engine).get_table_names()
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
    with store.read() as connection:
        assert connection.execute(select(runs.c.id)).scalars().all() == [1]
    store.close()
