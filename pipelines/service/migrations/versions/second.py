"""A run may be decided about once for each version name, so that it can be published under another one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pipelines.service.migrations.versions import first

revision = "0002"
down_revision = "0001"


def decided_version(*, primary_key: bool = False) -> sa.Column[str]:
    """Return the new column: empty where the version is named by its content."""
    return sa.Column("version", sa.String(100), primary_key=primary_key, nullable=False, server_default="")


def upgrade() -> None:
    """Add it to the primary key. Version 0.1.0 would not know which of two decisions counts."""
    op.execute("UPDATE odsynth_schema SET version = 2")
    if op.get_bind().dialect.name == "postgresql":
        op.add_column("approvals", decided_version())
        op.drop_constraint("approvals_pkey", "approvals", type_="primary")
        op.create_primary_key("approvals_pkey", "approvals", ["run", "version"])
        return
    tables = sa.MetaData()  # SQLite cannot change a key: the table is copied
    first.metadata.tables["runs"].to_metadata(tables)
    old = first.metadata.tables["approvals"]
    new = old.to_metadata(tables, name="approvals_by_version")
    new.append_column(decided_version(primary_key=True))
    new.create(op.get_bind())
    op.execute(new.insert().from_select(old.c.keys(), old.select()))
    op.drop_table(old.name)
    op.rename_table(new.name, old.name)
