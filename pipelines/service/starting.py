"""The start of a service: what a new one needs, and what is unsafe in how one is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlalchemy.engine import make_url

from pipelines.config.toml import ConfigError
from pipelines.running.demo import demo_inputs
from pipelines.service.access.tokens import Role, create_token, list_tokens
from pipelines.service.settings import ServiceSettings, is_loopback, load_settings
from pipelines.service.store import Store

_SETTINGS = """\
# A service of odsynth: odsynth serve {name}. docs/service.md has all keys; paths are relative to this file.

folder = "odsynth-service"    # state, database and runs, for nobody else to look into
# releases = "published"      # where releases are published; everything in it is public
# public_url = "https://data.example.org"   # what readers type, where a proxy encrypts
# signer = "agency.pub.pem"   # publish only what this key has signed (odsynth keygen)

# Release configurations that may be run: those that are named here, and every NAME.toml in
# odsynth-service/inputs, which can be planned as soon as it is put there. Each needs a [ledger].
[inputs]
demo = "odsynth-service/demo/examples/demo.toml"
"""
_LEDGER = """
# Added by odsynth serve --init: what pays for the releases of these jobs.
[ledger]
file = "../../ledger.sqlite"
data_set = "Demo region 2019"
epsilon = "50"
delta = "1e-4"
"""
PEOPLE: tuple[tuple[str, Role], ...] = (("first operator", "operator"), ("first approver", "approver"))
"""Owners and roles of the first tokens."""


def begin_service(path: Path, report: Callable[[str], None]) -> ServiceSettings:
    """Write a configuration, with the built-in region as the first input, and make tokens for two people.

    Parameters
    ----------
    path : Path
        The configuration file, which must not exist.
    report : callable
        Told what was made, and the tokens, which are not kept.

    Returns
    -------
    ServiceSettings
        With which the service can be started.

    Raises
    ------
    ConfigError
        If the file, or the folder of the service beside it, exists.
    ServiceError
        If the database cannot be made.
    """
    path = path.absolute()
    for taken in (path, path.parent / "odsynth-service"):
        if os.path.lexists(taken):
            fix = "start the service without --init, or name another file"
            raise ConfigError(f"{taken}: it exists already. Fix: {fix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SETTINGS.format(name=path.name), encoding="utf-8")
    settings = load_settings(path)
    settings.make_folders()
    demo = demo_inputs(settings.folder / "demo")
    demo.write_text(demo.read_text(encoding="utf-8") + _LEDGER, encoding="utf-8")
    report(f"Service     {path}")
    report(f"Input       demo, the built-in region; your own configurations go into {settings.inputs_folder}")
    store = Store.open(settings.database)
    try:
        for owner, role in PEOPLE:
            secret, made = create_token(store, owner, role)
            report(f"Token       of {owner}, until {made.expires[:10]}: {secret}")
    finally:
        store.close()
    report("            Each is shown once; `odsynth token create` makes those of your people")
    report(f"Sign in     {settings.address}/operator")
    return settings


_EVERYBODY = ("*", "0.0.0.0/0", "::/0")
_KNOWN_SECRETS = ("admin", "changeme", "example", "odsynth", "password", "postgres", "secret", "test")


def cautions(
    settings: ServiceSettings, store: Store, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return a sentence about everything that is unsafe, with what to do."""
    sentences = []
    loopback = is_loopback(settings.host)
    if not loopback and not settings.https:
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
    if not (loopback and settings.public_url is None):  # else it is a trial
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
