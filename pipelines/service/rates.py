"""How often an address may ask: two windows of fixed length, the elder of which fades.

Requests are counted in each process. Attempts to sign in are counted in the database
(`pipelines.service.access.attempts`), for all processes together.
"""

from __future__ import annotations

import ipaddress
import math
import time
from dataclasses import dataclass

from pipelines.service.settings import Limits

_SECONDS = {"second": 1, "minute": 60, "hour": 3600}


@dataclass(frozen=True)
class Rate:
    """So many in so many seconds."""

    number: int
    seconds: int  # Of a window

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read a rate as settings write it, "600/minute"."""
        number, _, unit = text.partition("/")
        return cls(int(number), _SECONDS[unit])

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
        rate, who = self._rates[rule], network(address)
        begun, before, now = self._counts.get(rule, (0, {}, {}))
        if begun != (window := rate.window()):
            begun, before, now = window, now if window - begun == rate.seconds else {}, {}
            self._counts[rule] = begun, before, now
        count = now.get(who, 0)
        wait = rate.wait(before.get(who, 0), count)
        if wait == 0:
            now[who] = count + 1
        return wait


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
