"""The first tables. When a version that has them is published, nothing here changes any more."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "first_3"  # before it is published, another number for other tables
down_revision = None
metadata = sa.MetaData()


def _text(name: str, length: int | None = None, *, nullable: bool = False, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.String(length) if length else sa.Text(), nullable=nullable, **options)


def _number(name: str, *more: Any, **options: Any) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), *more, nullable=False, **options)


sa.Table(
    "tokens",
    metadata,
    _text("id", 16, primary_key=True),
    _text("owner", 200),
    _text("role", 16),
    _text("sha256", 64),
    _text("created", 32),
    _text("expires", 32),
    _text("revoked", 32, nullable=True),
)
sa.Table(
    "runs",
    metadata,
    _number("id", primary_key=True),
    _text("input", 200),
    _text("data_set", 200),
    _text("title", 400),
    _text("name", 400),  # of its folder where it is published, which several titles may have
    _text("version", 100, nullable=True),
    _text("configuration"),
    _text("state", 16, index=True),
    _text("task", 16),
    _text("submitted_by", 200),
    _text("submitted", 32),
    _text("key", 200, nullable=True),
    _text("queued_by", 200, nullable=True),
    _text("changed", 32),
    _text("lease", 64, nullable=True),
    _text("leased_until", 32, nullable=True),
    _number("attempts", default=0),
    _text("plan", nullable=True),
    _text("certificate", nullable=True),
    _text("content", 64, nullable=True),
    _text("error", 100, nullable=True),
    _text("message", nullable=True),
    _text("published_name", 400, nullable=True),
    _text("published_version", 100, nullable=True),
    # JSON: what is varied, how far the task is, what a comparison came to.
    *(_text(name, nullable=True) for name in ("variation", "progress", "comparison")),
    sa.UniqueConstraint("submitted_by", "key"),
    sqlite_autoincrement=True,
)
# Two workers may choose two runs of a data set at the same moment; the second is refused here.
_running = sa.text("state = 'running'")
sa.Index(
    "one_run_at_a_time",
    metadata.tables["runs"].c.data_set,
    unique=True,
    sqlite_where=_running,
    postgresql_where=_running,
)
# A version name stands for one run of a release, unless that came to an end without having been published.
_takes_name = sa.text("state NOT IN ('cancelled', 'closed', 'rejected')")
sa.Index(
    "one_run_of_a_version",
    metadata.tables["runs"].c.name,
    metadata.tables["runs"].c.version,
    unique=True,
    sqlite_where=_takes_name,
    postgresql_where=_takes_name,
)
# A run may be decided about once for each version name; empty where that is of its content.
sa.Table(
    "approvals",
    metadata,
    _number("run", sa.ForeignKey("runs.id"), primary_key=True),
    _text("version", 100, primary_key=True, server_default=""),
    _text("person", 200),
    _text("decision", 16),
    _text("content", 64),
    _text("comment"),
    _text("time", 32),
)
sa.Table(
    "events",
    metadata,
    _number("id", primary_key=True),
    _number("run", sa.ForeignKey("runs.id"), index=True),
    _text("time", 32),
    _text("event", 16),
    _text("text", 200),
    sqlite_autoincrement=True,
)
sa.Table(
    "audit",
    metadata,
    _number("id", primary_key=True),
    _text("time", 32),
    _text("actor", 200),
    _text("credential", 32),
    _text("action", 32),
    _text("subject", 600),
    _text("detail"),
    sqlite_autoincrement=True,
)
# Open sessions of browsers. What else is known of one is in its cookie, which only the server can read.
sa.Table(
    "sessions",
    metadata,
    _text("id", 43, primary_key=True),
    _text("person", 200, index=True),
    _text("begun", 32),
)
# Logins with a provider of identities that came to their end, by the hash of their cookie: each once.
sa.Table("logins", metadata, _text("id", 64, primary_key=True), _text("ended", 32))
# Messages that are not sent yet, one for each way; a row is deleted when it is sent.
sa.Table(
    "outbox",
    metadata,
    _number("id", primary_key=True),
    _number("run", sa.ForeignKey("runs.id")),
    _text("decision", 16),
    _text("way", 16),
    _text("due", 32),
    _number("attempts"),
    sqlite_autoincrement=True,
)
# Attempts to sign in that failed: how many an address, kept as a keyed hash, made in a window of time.
sa.Table(
    "attempts",
    metadata,
    _text("source", 64, primary_key=True),
    sa.Column("begun", sa.BigInteger(), primary_key=True, autoincrement=False),
    _number("number"),
)


def upgrade() -> None:
    """Make the tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    if op.get_bind().dialect.name == "postgresql":
        for table in ("audit", "approvals"):
            op.execute(
                f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
                f"'BEGIN RAISE EXCEPTION ''nothing is changed in {table}''; END'"
            )
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
            )
