"""What a new service needs before it can be started: a configuration, an input with a ledger, two people."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pipelines.config.toml import ConfigError
from pipelines.running.demo import demo_inputs
from pipelines.service.access.tokens import Role, create_token
from pipelines.service.settings import ServiceSettings, load_settings
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
            raise ConfigError(f"{taken}: it exists. Start it without --init, or name another file")
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
    report(f"Sign in     http://{settings.host}:{settings.port}/operator")
    return settings
