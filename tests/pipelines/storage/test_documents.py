"""JSON that somebody sends: nothing in it takes for ever, and every fault is a ValueError."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.storage.documents import parse_json, read_json

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 50_000 + "]" * 50_000, "9" * 5000, "[NaN]", "[1e999]", "", "{", b"\xff"]
)
def test_what_is_no_document(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"^plan\.json: "):
        parse_json(text, "plan.json")


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(ValueError, match="not a file"):
        read_json(tmp_path / "x.json")
    (tmp_path / "y.json").write_text('{"a": [1, 2.5]}')
    assert read_json(tmp_path / "y.json") == {"a": [1, 2.5]}
