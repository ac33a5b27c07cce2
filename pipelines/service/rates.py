"""How often an address may ask, and guess: two windows of fixed length, the elder of which fades.

Requests are counted in each process. Guesses are attempts to sign in that failed, in the form of the page as
well as with a bearer token: they are counted in the database, for all processes that use it together, and
outlive a restart. Of an address only a hash is kept there, which nobody can make without the service's key,
and for two windows of time.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import time
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from pipelines.service.access.tokens import Principal, authenticate
from pipelines.service.settings import Limits
from pipelines.service.store import ServiceError, Store, attempts

_UNITS = {"second": 1, "minute": 60, "hour": 3600}


@dataclass(frozen=True)
class Rate:
    """So many in so many seconds."""

    number: int
    seconds: int  # Of a window

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read a rate as settings write it, "600/minute"."""
        number, _, unit = text.partition("/")
        return cls(int(number), _UNITS[unit])

    def window(self) -> int:
        """Return when the present window began, in seconds of the clock."""
        return int(time.time() // self.seconds) * self.seconds

    def wait(self, before: int, now: int) -> int:
        """Return the seconds until one more is allowed, at least 1; 0 if it is allowed now."""
        gone = time.time() % self.seconds
        if int(before * (1 - gone / self.seconds)) + now < self.number:
            return 0
        if now < self.number:
            allowed = self.seconds * (1 - (self.number - now) / before)
        else:
            allowed = self.seconds * (2 - self.number / now)
        return max(1, math.ceil(allowed - gone))


class RateLimits:
    """Counts of the requests of every address, in one thread of this process."""

    def __init__(self, limits: Limits) -> None:
        self._rates = {rule: Rate.parse(getattr(limits, rule)) for rule in ("public", "operator")}
        # The present window of a rule, the counts of the one before, and its own.
        self._counts: dict[str, tuple[int, dict[str, int], dict[str, int]]] = {}

    def wait(self, rule: str, address: str) -> int:
        """Count a request, and return the seconds after which another is allowed; 0 if this one is."""
        source, (before, now) = network(address), self._windows(rule)
        wait = self._rates[rule].wait(before.get(source, 0), now.get(source, 0))
        if wait == 0:
            self.add(rule, address, 1)
        return wait

    def add(self, rule: str, address: str, number: int) -> None:
        """Count so many requests, of one that is answered at the cost of several."""
        source, (_, now) = network(address), self._windows(rule)
        now[source] = now.get(source, 0) + number

    def _windows(self, rule: str) -> tuple[dict[str, int], dict[str, int]]:
        """The counts of the window before, and of the present one."""
        rate = self._rates[rule]
        begun, before, now = self._counts.get(rule, (0, {}, {}))
        if begun != (window := rate.window()):
            begun, before, now = window, now if window - begun == rate.seconds else {}, {}
            self._counts[rule] = begun, before, now
        return before, now


def network(address: str) -> str:
    """Return what counts of an address: of IPv6 the network, which is what one client has."""
    if ":" not in address:
        return address
    try:
        host = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    # Where the service listens on both, an IPv4 client has an address like ::ffff:192.0.2.1.
    return str(host.ipv4_mapped or ipaddress.IPv6Network((host, 64), strict=False))


def authenticated(request: Request, secret: str, key: bytes) -> Principal | None:
    """Return whose token this is, or None if it opens nothing, which is counted and logged."""
    state = request.app.state
    address = network(request.client.host if request.client else "")
    source = hmac.new(key, b"attempts:" + address.encode(), hashlib.sha256).hexdigest()
    rate = Rate.parse(state.settings.limits.login)
    _refuse(_wait(state.store, rate, source))
    principal = authenticate(state.store, secret)
    if principal is None:
        state.metrics.count_guess()
        state.log.write("guess", id=request.scope["request_id"], route=request.scope["route"].path)
        _refuse(_count(state.store, rate, source))
    return principal


def _refuse(wait: int) -> None:
    if wait:
        detail = f"Too many attempts to sign in from this address; try again in {wait} seconds."
        raise ServiceError(429, "too_many", detail, retry_after=wait)


def _wait(store: Store, rate: Rate, source: str) -> int:
    """Seconds until this address may try again; 0 if it may now."""
    begun = rate.window()
    condition = (attempts.c.source == source) & attempts.c.begun.in_((begun - rate.seconds, begun))
    with store.read() as connection:
        numbers = {row.begun: row.number for row in connection.execute(select(attempts).where(condition))}
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
