"""JSON that somebody sends, where every fault is a ValueError; SHA256SUMS, as sha256sum reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pipelines.storage.checksums import CHECKSUMS, checksum_lines, parse_checksums, sha256_of
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


def test_written_as_sha256sum_reads_it(tmp_path: Path) -> None:
    names = ["b  two spaces.txt", "a.txt", "ä.bin"]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes([number]) * 1000)
    hashes = {name: sha256_of(tmp_path / name) for name in names}
    text = "".join(checksum_lines(hashes))
    assert parse_checksums(text.encode()) == hashes
    assert list(parse_checksums(text.encode())) == sorted(names)
    if shutil.which("sha256sum"):
        (tmp_path / CHECKSUMS).write_text(text, encoding="utf-8")
        subprocess.run(["sha256sum", "--check", "--strict", CHECKSUMS], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("seal", "lines"),
    [(b"0123", {}), (b"\xff  name\n", {"name": "\ufffd"}), (b"0123 name\n12  b\n", {"b": "12"})],
)
def test_what_is_none_is_a_value_error_or_passed_over(seal: bytes, lines: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of them
        parse_checksums(seal)
    assert parse_checksums(seal, strict=False) == lines
