"""Tables as JSON, CSV, GeoJSON and Arrow, a part at a time: one way for areas and flows, however many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import shapely
from numpy.typing import NDArray
from pydantic_core import to_json

Format = Literal["json", "csv", "geojson", "arrow"]

MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "csv": "text/csv",
    "geojson": "application/geo+json",
    "arrow": "application/vnd.apache.arrow.stream",
}
"""Of each format; CSV is UTF-8 with a line of names."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows."""

    table: pa.RecordBatch  # Of the same columns in all parts of a table
    ids: Callable[[], list[str]]  # Returns an id for each row; called for GeoJSON only, as the next
    shapes: Callable[[], NDArray[np.object_]]  # Returns a shape for each row, or None


@dataclass(frozen=True)
class Document:
    """What stands around the rows in JSON and GeoJSON."""

    rows: str  # Name of the list of rows
    head: Mapping[str, Any]  # What is said before them
    tail: Callable[[], Mapping[str, Any]]  # Returns what is said after them: what is known only then


def written(form: Format, schema: pa.Schema, parts: Iterable[Part], document: Document) -> Iterator[bytes]:
    """Yield a table in a format, in pieces of a part each."""
    match form:
        case "json":
            rows = (_json_rows(part.table) for part in parts)
            yield from _json(document.rows, document.head, rows, document.tail)
        case "geojson":
            head = {"type": "FeatureCollection", **document.head}
            yield from _json("features", head, (_features(part) for part in parts), document.tail)
        case "csv":
            yield _csv(pa.RecordBatch.from_pylist([], schema), True)
            yield from (_csv(part.table, False) for part in parts)
        case "arrow":
            yield from _arrow(schema, parts)


def _json(
    name: str,
    head: Mapping[str, Any],
    pieces: Iterable[bytes],
    tail: Callable[[], Mapping[str, Any]],
) -> Iterator[bytes]:
    """An object with a list in it whose members come in pieces, each without its brackets."""
    begin = to_json(dict(head))[:-1]
    yield begin + (b"," if head else b"") + to_json(name) + b":["
    between = b""
    for piece in pieces:
        if piece:
            yield between + piece
            between = b","
    end = to_json(dict(tail()))
    yield b"]" + (b"," if len(end) > 2 else b"") + end[1:]


def _rows(table: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = [column.to_pylist() for column in table.columns]
    return (dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True))


def _json_rows(table: pa.RecordBatch) -> bytes:
    return to_json(list(_rows(table)), exclude_none=True)[1:-1]


def _features(part: Part) -> bytes:
    texts = shapely.to_geojson(part.shapes())
    return b",".join(
        b'{"type":"Feature","id":%s,"geometry":%s,"properties":%s}'
        % (to_json(identity), b"null" if text is None else text.encode(), to_json(row))
        for identity, text, row in zip(part.ids(), texts, _rows(part.table), strict=True)
    )


def one_feature(part: Part, links: list[dict[str, Any]]) -> bytes:
    """Return the only row of a part as a feature of GeoJSON, with links."""
    return _features(part)[:-1] + b',"links":' + to_json(links) + b"}"


def _csv(table: pa.RecordBatch, names: bool) -> bytes:
    sink = BytesIO()
    how = pa.csv.WriteOptions(include_header=names, quoting_style="needed", quoting_header="needed")
    pa.csv.write_csv(table, sink, how)
    return sink.getvalue()


def _arrow(schema: pa.Schema, parts: Iterable[Part]) -> Iterator[bytes]:
    sink = BytesIO()

    def taken() -> bytes:
        content = sink.getvalue()
        sink.seek(0)
        sink.truncate()
        return content

    with pa.ipc.new_stream(sink, schema) as stream:
        yield taken()
        for part in parts:
            stream.write_batch(part.table)
            yield taken()
    yield taken()
