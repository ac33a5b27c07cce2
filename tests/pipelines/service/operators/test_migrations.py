"""Databases of other versions: an earlier one's is taken over with its rows, a later one's is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, delete, inspect, text
from sqlalchemy.exc import DBAPIError

from pipelines.service import migrations
from pipelines.service.store import ServiceError, Store, audit, list_audit, record

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


def test_tables_that_no_version_made_are_refused_and_left_alone(database: str) -> None:
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE audit (id INTEGER)"))
    with pytest.raises(ServiceError, match="not those of odsynth"):
        Store.open(database)
    assert inspect(engine).get_table_names() == ["audit"]
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
