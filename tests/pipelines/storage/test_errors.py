"""What may be shown of an error: the message of a `ShownError`, the system's reason, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import geo_data
import pipelines
import synth
from pipelines.storage.errors import shown_address, shown_message

pytestmark = pytest.mark.quick


def test_every_error_of_ours_may_be_shown_or_is_private() -> None:
    found = set()
    for package in (synth, geo_data, pipelines):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # Which are run, not imported.
            if not module.name.endswith(("__main__", "migrations.env", "release.verify")):
                members = vars(importlib.import_module(module.name)).values()
                found |= {each for each in members if isinstance(each, type) and issubclass(each, Exception)}
    ours = {each for each in found if each.__module__.split(".")[0] in ("synth", "geo_data", "pipelines")}
    assert len(ours) > 12
    public = {each for each in ours if not each.__name__.startswith("_")}
    assert [each for each in public if not issubclass(each, synth.ShownError)] == []


def test_what_is_shown() -> None:
    two = pipelines.ConfigError(["a.toml: x: missing", "a.toml: y: missing"])
    assert shown_message(two) == "a.toml: x: missing\na.toml: y: missing"
    assert shown_message(two, one_line=True) == "a.toml: x: missing; a.toml: y: missing"
    assert shown_message(OSError(13, "Permission denied", "/x/y")) == "/x/y: Permission denied"
    assert shown_message(OSError(28, "No space left on device")) == "No space left on device"
    assert shown_message(MemoryError("CANARY")).startswith("the memory of the machine")
    assert shown_message(SystemError("CANARY")).startswith("compiled code failed without a reason")
    withheld = "its message could show confidential values and is withheld"
    for error in (ValueError("CANARY"), KeyError("CANARY"), RuntimeError("CANARY"), AssertionError("CANARY")):
        assert shown_message(error) == withheld
    assert all("CANARY" not in shown_message(kind("CANARY")) for kind in (OSError, MemoryError, SystemError))


def test_addresses_are_shown_without_what_may_be_secret() -> None:
    for given, shown in {
        "tcp://user:CANARY/1@127.0.0.1:9": "tcp://127.0.0.1:9",
        "user:CANARY?\n@host:9": "...",
        "s3://id:CANARY@host/place?key=CANARY": "s3://host/place",
        "s3://host/place?key=CANARY@CANARY": "s3://...",
        "user:CANARY://CANARY@host": "host",
        "simplecache::s3://id:CANARY@host/place": "simplecache::s3://host/place",
        "s3://place/of/releases": "s3://place/of/releases",
        "127.0.0.1:9": "127.0.0.1:9",
    }.items():
        assert shown_address(given) == shown
