"""From the tables of one version of the service to those of the next, by alembic.

`versions` has a module for each step, with ``revision``, ``down_revision`` and ``upgrade`` as the first. The
tables of the first are those that `pipelines.service.store` uses. There is no way back but a backup.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from synth import ShownError


class ForeignDatabaseError(ShownError):
    """A database that neither this version of the program nor an earlier one made."""


def is_current(connection: Connection) -> bool:
    """Whether a database has the tables of this version."""
    return _revision(connection) == _scripts().get_current_head()


def migrate(connection: Connection) -> None:
    """Give a database the tables of this version, in the transaction of the connection."""
    if is_current(connection):
        return
    revision = _revision(connection)
    if revision not in (None, *(step.revision for step in _scripts().walk_revisions())):
        raise ForeignDatabaseError("was made by another version of odsynth; start that version")
    if revision is None and inspect(connection).get_table_names():
        raise ForeignDatabaseError("has tables of another program; name an empty database")
    command.upgrade(_config(connection), "head")


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", _scripts().dir.replace("%", "%%"))
    return config
