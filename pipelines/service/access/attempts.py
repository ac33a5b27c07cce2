"""Guesses: attempts to sign in that failed, in the form of the page as well as with a bearer token.

They are counted in the database, for all processes that use it together, and outlive a restart. Of an address
only a hash is kept, which nobody can make without the service's key, and for two windows of time.
"""

from __future__ import annotations

import hashlib
import hmac

from fastapi import Request
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from pipelines.service.access.tokens import Principal, authenticate
from pipelines.service.rates import Rate, network
from pipelines.service.store import ServiceError, Store, attempts


def authenticated(request: Request, secret: str, key: bytes) -> Principal | None:
    """Return whose token this is, or None if it opens nothing, which is counted and logged."""
    state = request.app.state
    address = network(request.client.host if request.client else "")
    source = hmac.new(key, b"attempts:" + address.encode(), hashlib.sha256).hexdigest()
    rate = Rate.parse(state.settings.limits.login)
    _refuse(_wait(state.store, rate, source))
    who = authenticate(state.store, secret)
    if who is None:
        state.metrics.count_guess()
        state.log.write("guess", id=request.scope["request_id"], route=request.scope["route"].path)
        _refuse(_count(state.store, rate, source))
    return who


def _refuse(wait: int) -> None:
    if wait:
        detail = f"Too many attempts to sign in from this address; try again in {wait} seconds."
        raise ServiceError(429, "too_many", detail, retry_after=wait)


def _wait(store: Store, rate: Rate, source: str) -> int:
    """Seconds until this address may try again; 0 if it may now."""
    begun = rate.window()
    both = (attempts.c.source == source) & attempts.c.begun.in_((begun - rate.seconds, begun))
    with store.read() as connection:
        numbers = {row.begun: row.number for row in connection.execute(select(attempts).where(both))}
    return rate.wait(numbers.get(begun - rate.seconds, 0), numbers.get(begun, 0))


def _count(store: Store, rate: Rate, source: str) -> int:
    """Count an attempt; the seconds to wait if meanwhile there were too many."""
    begun = rate.window()
    with store.write() as connection:
        insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
        first = insert(attempts).values(source=source, begun=begun, number=1)
        first = first.on_conflict_do_update(
            index_elements=("source", "begun"), set_={"number": attempts.c.number + 1}
        )
        number = connection.execute(first.returning(attempts.c.number)).scalar_one()
        connection.execute(delete(attempts).where(attempts.c.begun < begun - rate.seconds))
    return rate.wait(0, number - 1)
