"""What is unsafe in how a service is started, said in one sentence each when it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sqlalchemy.engine import make_url

from pipelines.service.access.tokens import list_tokens
from pipelines.service.first_start import PEOPLE
from pipelines.service.settings import ServiceSettings, is_loopback
from pipelines.service.store import Store

_EVERYBODY = ("*", "0.0.0.0/0", "::/0")
_KNOWN_SECRETS = ("admin", "changeme", "example", "odsynth", "password", "postgres", "secret", "test")


def cautions(
    settings: ServiceSettings, store: Store, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return a sentence about everything that is unsafe, with what to do."""
    sentences = []
    here = is_loopback(settings.host)
    if not here and not settings.https:
        sentences.append(
            f"It listens on {settings.host} without encryption, so that who is on the way can read tokens "
            'and cookies: let a proxy encrypt, and set public_url = "https://..." and proxies.'
        )
    if settings.https and not settings.proxies:
        sentences.append(
            "public_url has https and proxies names no proxy, so that all who come through one share one "
            "limit of requests and of attempts to sign in: name its address in proxies."
        )
    if any(address in _EVERYBODY for address in settings.proxies):
        sentences.append(
            "proxies believes everybody about the client's address, so that no limit holds: name only the "
            "address of the proxy."
        )
    if (os.environ if environment is None else environment).get("ODSYNTH_DEBUG"):
        sentences.append(
            "ODSYNTH_DEBUG is set, so that logs of runs get tracebacks, which may quote confidential values: "
            "start it without."
        )
    if not (here and settings.public_url is None):  # else it is a trial
        valid = {token.owner for token in list_tokens(store) if token.active}
        if valid.issuperset(owner for owner, _ in PEOPLE):
            sentences.append(
                "The tokens that serve --init printed, of an operator and of an approver, are both valid, so "
                "that who saw them can approve their own runs: make tokens for your people, and revoke these."
            )
    if _is_known(make_url(settings.database).password, make_url(settings.database).username):
        sentences.append("The password of the database is one that anybody would try: change it.")
    if settings.oidc is not None and _is_known(settings.oidc.client_secret, settings.oidc.client_id):
        sentences.append("oidc.client_secret is one that anybody would try: change it.")
    return sentences


def _is_known(secret: object, name: str | None) -> bool:
    return secret is not None and str(secret).lower() in (*_KNOWN_SECRETS, "", (name or "").lower())
