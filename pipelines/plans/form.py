"""What the files of a plan are and may hold: the JSON file, and the columns and types of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.config.loading import PUBLIC, PublicConfig
from pipelines.storage.checksums import sha256_of
from pipelines.storage.documents import check_format, parse_json, read_json
from pipelines.storage.parquet_form import Kind, check_form, is_count, is_text

PLAN_FORMAT = "odsynth plan 1.0"
PLAN_TABLES = ("blocks.parquet", "domains.parquet", "shares.parquet", "pools.parquet", "slots.parquet")
PLAN_FILES = ("plan.json", *PLAN_TABLES)
HISTORY_TABLE = "history.parquet"
_KEYS = {
    *("format", "mechanism", "epsilon", "delta", "guarantee", "geography", "model_level", "pooling"),
    *("choices", "attributes", "parameters", "configuration", "notes", "files", "history"),
}


def quoted_config(document: Mapping[str, Any]) -> PublicConfig:
    """Read the configuration that a plan quotes: as this program quotes one, and nothing more."""
    try:
        config = PUBLIC.validate_python(document["configuration"])
    except ValidationError as error:
        key = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise ValueError(f"plan.json: the configuration is not one of this program: {key}") from error
    # As texts: to Python, 1 and true are equal.
    if _in_order(config.quoted()) != _in_order(document["configuration"]):
        raise ValueError("plan.json: the configuration is not one of this program")
    return config


def _in_order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def plan_hash(folder: PathLike) -> str:
    """Return the hash of a stored plan: the SHA-256 of its plan.json, hexadecimal."""
    folder = path_of(folder, "folder")
    return sha256_of(folder / "plan.json")


def read_document(folder: Path, content: bytes | None = None) -> dict[str, Any]:
    """Read plan.json, or what it holds if that has been read."""
    try:
        document = read_json(folder / "plan.json") if content is None else parse_json(content, "plan.json")
    except OSError as error:
        raise ValueError("plan.json: the file is not there, or cannot be read") from error
    check_format(document, "plan.json", PLAN_FORMAT)
    if document.keys() != _KEYS:
        raise ValueError("plan.json: keys are missing or unknown")
    quoted_config(document)
    if document["mechanism"] not in synth.MECHANISMS:
        raise ValueError(f"plan.json: the mechanism is not one of {', '.join(sorted(synth.MECHANISMS))}")
    return document


def document_text(document: dict[str, Any]) -> str:
    """Return the text of plan.json."""
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def check_tables(folder: Path, document: dict[str, Any], hashes: Mapping[str, str] | None) -> None:
    """Refuse tables that are not those of the document, or have other columns or types.

    Types are as the arrays of a plan have them, so that what is certified is what is drawn from.
    """
    for name, columns in _columns(document).items():
        path = folder / name
        digest = hashes.get(name) if hashes is not None else sha256_of(path) if path.is_file() else None
        if digest is None or digest != document["files"].get(name):
            raise ValueError(f"{name}: the file is not the one that plan.json names")
        check_form(path, columns)


def plan_tables(config: PublicConfig) -> tuple[str, ...]:
    """Return the names of the tables of a plan: one more where it has a history."""
    return (*PLAN_TABLES, HISTORY_TABLE) if config.has_history else PLAN_TABLES


def _columns(document: dict[str, Any]) -> dict[str, dict[str, Kind]]:
    """Return the columns of each table, and what they hold."""
    geography, by, attributes = document["geography"], document["pooling"]["by"], document["attributes"]
    degrees = dict.fromkeys(("latitude", "longitude"), pa.types.is_float64)
    units = {"unit": _lists_of(pa.int32()), "share": _lists_of(pa.int32())}
    of_cells = dict.fromkeys(("mean", "variance"), _lists_of(pa.int64()))
    history = {"table": pa.types.is_int32, "n": is_count, **of_cells}
    cells = {"cuts": _lists_of(pa.int32()), "stratum": _lists_of(pa.uint8())}
    areas = quoted_config(document).geography.non_nesting_areas
    codes = dict.fromkeys((geography["block"], *geography["levels"], *areas), _is_code)
    numbers = {"n": is_count, "m": is_count, "domain": pa.types.is_int32, "class": pa.types.is_int32}
    return {
        "blocks.parquet": {**codes, **degrees, "weight": is_count},
        "domains.parquet": {"destination": _is_code, "size": is_count, **cells},
        "shares.parquet": {"destination": _is_code, **units},
        "pools.parquet": {
            "place": _is_code,
            "shared": pa.types.is_boolean,
            **dict.fromkeys(by, _is_code),
            **numbers,
        },
        "slots.parquet": {
            "pool": pa.types.is_int32,
            "work": _is_code,
            **dict.fromkeys(attributes, _is_code),
            "count": is_count,
        },
        **({HISTORY_TABLE: history} if quoted_config(document).has_history else {}),
    }


def _is_code(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _lists_of(element: pa.DataType) -> Kind:
    def kind(data_type: pa.DataType) -> bool:
        return pa.types.is_large_list(data_type) and data_type.value_type == element

    return kind
