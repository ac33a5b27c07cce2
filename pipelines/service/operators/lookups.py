"""What operators look up: runs with what was decided about them, certificates, tokens."""

from __future__ import annotations

from pipelines.service.access.tokens import Principal, Token, list_tokens
from pipelines.service.errors import not_found
from pipelines.service.operators.models import RunEntry
from pipelines.service.queue import runs
from pipelines.service.store import Store


def find_run(store: Store, run: int) -> RunEntry:
    """Return a run, with the decision about it."""
    return RunEntry.of(runs.get_run(store, run), runs.decision_of(store, run))


def find_runs(store: Store, state: str | None, before: int | None = None, limit: int = 50) -> list[RunEntry]:
    """Return the newest runs, of a state if one is given, without the decisions about them."""
    return [RunEntry.of(row) for row in runs.list_runs(store, state=state, before=before, limit=limit)]


def find_certificate(store: Store, run: int) -> str:
    """Return certificate.json of a finished run, as it is."""
    text = runs.get_run(store, run).certificate
    if text is None:
        raise not_found("This run has no certificate yet.")
    return text


def find_tokens(store: Store, who: Principal) -> list[Token]:
    """Return the tokens that somebody may see: an approver all, everybody else their own."""
    return list_tokens(store, None if who.may("approver") else who.person)
