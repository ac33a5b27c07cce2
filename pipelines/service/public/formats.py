"""Tables as JSON, CSV, GeoJSON and Arrow, a part at a time: one way for areas and flows, however many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
ENDINGS: dict[Format, str] = {"json": "json", "csv": "csv", "geojson": "geojson", "arrow": "arrows"}
"""Of the names of files."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows."""

    table: pa.RecordBatch  # Of the same columns in all parts of a table
    ids: Callable[[], list[str]]  # Returns an id for each row; called for GeoJSON only, as the next
    shapes: Callable[[], NDArray[np.object_]]  # Returns a shape for each row, or None


@dataclass(frozen=True)
class Written:
    """An answer that is being made."""

    chunks: Iterator[bytes]
    headers: Mapping[str, str]
    media_type: str


@dataclass
class Table:
    """Rows, and what is said around them in JSON and GeoJSON."""

    schema: pa.Schema
    parts: Iterable[Part]
    rows: str  # what JSON calls them
    head: dict[str, Any]  # what is said before them
    tail: dict[str, Any] = field(default_factory=dict)  # and after them; whole when all parts were taken
    next: str | None = None  # address of the next page

    def written(self, form: Format, headers: Mapping[str, str]) -> Written:
        """Return it in a format."""
        link = {} if self.next is None else {"Link": f'<{self.next}>; rel="next"'}
        return Written(self._chunks(form), {**headers, **link}, MEDIA_TYPES[form])

    def _chunks(self, form: Format) -> Iterator[bytes]:
        """Yield it in a format, in pieces of a part each."""
        match form:
            case "json":
                yield from self._json(self.rows, self.head, (_json_rows(part.table) for part in self.parts))
            case "geojson":
                head = {"type": "FeatureCollection", **self.head}
                yield from self._json("features", head, map(_features, self.parts))
            case "csv":
                yield _csv(pa.RecordBatch.from_pylist([], self.schema), True)
                yield from (_csv(part.table, False) for part in self.parts)
            case "arrow":
                said = {name: words for name, words in self.head.items() if isinstance(words, str)}
                yield from _arrow(self.schema.with_metadata(said), self.parts)

    def _json(self, name: str, head: Mapping[str, Any], pieces: Iterable[bytes]) -> Iterator[bytes]:
        """An object with a list in it whose members come in pieces, each without its brackets."""
        begin = to_json(dict(head))[:-1]
        yield begin + (b"," if head else b"") + to_json(name) + b":["
        between = b""
        for piece in pieces:
            if piece:
                yield between + piece
                between = b","
        end = to_json(self.tail | ({} if self.next is None else {"next": self.next}))
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
