"""The configuration that a notebook works on, as a copy that no ledger pays for.

What a notebook releases is deleted when it is closed: no agency's budget may be spent on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit

import pipelines

CONFIGURATION = "NOTEBOOK_CONFIG"
"""Environment variable: the path of the configuration to work on; without it, the generated region."""

_LEFT_OUT = ("ledger", "signature")  # a release that nothing has paid for is not signed either


def practice_copy(folder: Path, **size: int) -> Path:
    """Write a copy of a configuration, without its ledger and its signing key, and say so.

    Parameters
    ----------
    folder : Path
        The notebook's own, temporary one. The copy, and releases made with it as it stands, lie there.
    **size : int
        Of `pipelines.demo_inputs`, where the region is generated.

    Returns
    -------
    Path
        The copy. Its paths are absolute, so it names the same inputs.

    Raises
    ------
    pipelines.ConfigError
        If the configuration cannot be used.
    """
    named = os.environ.get(CONFIGURATION)
    source = Path(named) if named else pipelines.demo_inputs(folder, **size)
    config = pipelines.load_config(source)
    document = tomlkit.parse(source.read_text(encoding="utf-8-sig"))
    _make_absolute(document, config.model_dump(exclude_unset=True))
    for table in _LEFT_OUT:
        document.pop(table, None)
    document["release"]["out"] = str(folder / "release")
    copy = folder / "practice.toml"
    copy.write_text(tomlkit.dumps(document), encoding="utf-8")
    print(
        f"This works on a copy of {source.name} without ledger and signing key: no budget but the notebook's "
        "own is debited, and what is released is deleted at the end."
    )
    return copy


def _make_absolute(table: MutableMapping[str, Any], values: Mapping[str, Any]) -> None:
    """Write paths as the program has understood them, in all tables below one."""
    for key, value in values.items():
        if isinstance(value, Path):
            table[key] = str(value)
        elif isinstance(value, Mapping):
            _make_absolute(table[key], value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Mapping):
            for member, its_values in zip(table[key], value, strict=True):
                _make_absolute(member, its_values)
