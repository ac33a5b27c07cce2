"""Comparisons of plans, progress that is counted, and messages that wait to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pipelines.service.migrations.versions import first

revision = "operators_outbox"
down_revision = "0002"


def run_columns() -> list[sa.Column[str]]:
    """Return the new columns of runs, each JSON or nothing: what is varied, how far it is, what was found."""
    return [sa.Column(name, sa.Text(), nullable=True) for name in ("variation", "progress", "comparison")]


def add_outbox(metadata: sa.MetaData) -> sa.Table:
    """Add the table of messages that are not sent yet, one for each way; a row is deleted when it is sent."""
    return sa.Table(
        "outbox",
        metadata,
        sa.Column("id", sa.Integer(), primary_key=True, nullable=False),
        sa.Column("run", sa.Integer(), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("way", sa.String(16), nullable=False),
        sa.Column("due", sa.String(32), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sqlite_autoincrement=True,
    )


def upgrade() -> None:
    """Add them; what is there stays as it is."""
    for column in run_columns():
        op.add_column("runs", column)
    tables = sa.MetaData()
    first.metadata.tables["runs"].to_metadata(tables)
    add_outbox(tables).create(op.get_bind())
