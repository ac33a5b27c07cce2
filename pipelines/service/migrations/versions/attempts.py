"""Attempts to sign in that failed, which all processes of a service count together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "attempts"
down_revision = "operators_outbox"


def attempts(metadata: sa.MetaData) -> sa.Table:
    """Return the new table: how many an address, which is kept as a keyed hash, made in a window of time."""
    return sa.Table(
        "attempts",
        metadata,
        sa.Column("source", sa.String(64), primary_key=True),
        sa.Column("begun", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), nullable=False),
    )


def upgrade() -> None:
    """Make it."""
    attempts(sa.MetaData()).create(op.get_bind())
