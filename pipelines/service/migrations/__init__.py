"""From the tables of one version of the service to those of the next, by alembic.

`versions` has a module for each step, with ``revision``, ``down_revision`` and ``upgrade`` as the first.
`pipelines.service.store` takes the tables that the program uses from the first and adds what later ones
changed; a test compares them with where the last one leads. There is no way back but a backup.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from pipelines.service.migrations.versions import first
from synth import ShownError


class ForeignDatabaseError(ShownError):
    """A database that neither this version of the program nor an earlier one made."""


def is_current(connection: Connection) -> bool:
    """Whether a database has the tables of this version."""
    return _revision(connection) == _scripts().get_current_head()


def migrate(connection: Connection) -> None:
    """Give a database the tables of this version.

    Parameters
    ----------
    connection : Connection
        Everything is done in its transaction.

    Raises
    ------
    ForeignDatabaseError
        If its tables are those of a later version, or somebody else's.
    """
    if is_current(connection):
        return
    revision = _revision(connection)
    if revision is None and _tables(connection).keys() & first.metadata.tables.keys():
        _check_first(connection)  # version 0.1.0 did not write down a revision
        command.stamp(_config(connection), first.revision)
    elif revision not in (None, *(step.revision for step in _scripts().walk_revisions())):
        raise ForeignDatabaseError("was made by another version of odsynth; start that one")
    command.upgrade(_config(connection), "head")


def _check_first(connection: Connection) -> None:
    found = _tables(connection)
    if any(found.get(name) != set(table.c.keys()) for name, table in first.metadata.tables.items()):
        raise ForeignDatabaseError("has tables that are not those of odsynth; name an empty one")
    if connection.execute(text("SELECT version FROM odsynth_schema")).scalars().all() != [1]:
        raise ForeignDatabaseError("was made by another version of odsynth; start that one")


def _tables(connection: Connection) -> dict[str, set[str]]:
    """The columns of every table."""
    inspector = inspect(connection)
    names = inspector.get_table_names()
    return {name: {column["name"] for column in inspector.get_columns(name)} for name in names}


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", _scripts().dir.replace("%", "%%"))
    return config
