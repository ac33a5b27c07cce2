"""Every byte of a release is checked: what is changed, put in or added is refused, however it is sealed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geo_data.od_files import GZIP_LEVEL
from pipelines import Release, VerificationError, verify
from pipelines.release.certificate import parse_certificate
from pipelines.release.layout import seal
from pipelines.storage.checksums import CHECKSUMS, sha256_of

from .only_signed import without_only_signed

CSV = "demo_od_main_JT00_2019.csv.gz"


class Target:
    """A copy of a release; an attack changes one file and seals everything again that can be."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        shutil.copytree(source, folder)
        for name in ("signing-key.pub", "certificate.json.sig", "SHA256SUMS.sig"):
            (folder / name).unlink(missing_ok=True)
        self.genuine = parse_certificate((folder / "certificate.json").read_bytes())
        self.kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.names = sorted(path.relative_to(folder).as_posix() for path in self.kept)
        self.accepted: list[str] = []
        self.told: list[str] = []
        self.attacks = 0

    def attack(self, name: str, content: bytes, what: str) -> None:
        """Count an attack, and note it if `verify` lets it pass."""
        path = self.folder / name
        if content == self.kept[path]:
            return
        self.attacks += 1
        path.write_bytes(content)
        try:
            self._seal(name)
            found = list(verify(self.folder))
        except VerificationError:
            pass
        else:
            assert found[-1].name == "for release"
            told = any(check.name == "bytes" and name in check.detail for check in found)
            if told:
                self.told.append(f"{name}: {what}")
            elif not (self._moves_a_place(name, content) or self._is_only_signed(name, content)):
                self.accepted.append(f"{name}: {what}")
        finally:
            for kept, data in self.kept.items():
                kept.write_bytes(data)

    def _moves_a_place(self, name: str, content: bytes) -> bool:
        """Return whether only a coordinate is another: that is another map, which signatures protect."""
        if not name.endswith(".parquet"):
            return False
        new, old = (pq.read_table(io.BytesIO(data)) for data in (content, self.kept[self.folder / name]))
        changed = {column for column in old.column_names if not new[column].equals(old[column])}
        return bool(changed) and changed <= {"latitude", "longitude", "geometry"}

    def _is_only_signed(self, name: str, content: bytes) -> bool:
        """Return whether only values are others that nothing in a release can prove, as words of a note."""
        if not name.endswith(".json"):
            return False
        new, old = (json.loads(data) for data in (content, self.kept[self.folder / name]))
        in_form = json.dumps(new, indent=1, ensure_ascii=False) + "\n" == content.decode()
        return in_form and bool(without_only_signed(new, name) == without_only_signed(old, name))

    def _seal(self, name: str) -> None:
        """Make right again whatever names the file by its hash."""
        if name in (CHECKSUMS, "MANIFEST.json"):
            if name == "MANIFEST.json":
                sums = (self.folder / CHECKSUMS).read_text().splitlines()
                digest = sha256_of(self.folder / name)
                lines = [f"{digest}  {name}" if line.endswith(f"  {name}") else line for line in sums]
                (self.folder / CHECKSUMS).write_text("\n".join(lines) + "\n")
            return
        certificate = self.genuine
        plan, stated = self.folder / "plan/plan.json", self.folder / "certificate.json"
        if name.startswith("plan/"):
            text = plan.read_bytes()
            if name != "plan/plan.json":  # its hash stands there in letters, once
                old = hashlib.sha256(self.kept[self.folder / name]).hexdigest()
                text = text.replace(old.encode(), sha256_of(self.folder / name).encode())
                plan.write_bytes(text)
            digest = sha256_of(plan)
            content = stated.read_bytes().replace(certificate.plan_sha256.encode(), digest.encode())
            stated.write_bytes(content)
            certificate = certificate.model_copy(update={"plan_sha256": digest})
        seal(self.folder, certificate)


def in_a_note(target: Target) -> bytes:
    """Return the plan with a byte less in a note, of which nothing says whether it is true."""
    document = json.loads(target.kept[target.folder / "plan/plan.json"])
    document["notes"] = [note[1:] for note in document["notes"]]
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def anywhere(data: bytes, chance: random.Random, number: int) -> Iterator[tuple[str, bytes]]:
    """Flip a bit, put a byte in, take one out, at random places; and add to the end."""
    for _ in range(number):
        at = chance.randrange(len(data))
        yield f"flip at {at}", data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        yield f"insert at {at}", data[:at] + bytes([chance.randrange(256)]) + data[at:]
        yield f"delete at {at}", data[:at] + data[at + 1 :]
    for more in (b"\n", b" ", b"\0", b"home of worker 7"):
        yield f"append {more!r}", data + more


def json_attacks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Documents that say the same to a reader who takes the last of two keys, or does not care for space."""
    document, text = json.loads(data), data.decode()
    yield "compact", json.dumps(document).encode()
    yield "escaped", json.dumps(document, indent=1, ensure_ascii=True).replace("e", "\\u0065").encode()
    yield "sorted otherwise", (json.dumps(dict(reversed(document.items())), indent=1) + "\n").encode()
    yield "other line ends", text.replace("\n", "\r\n").encode()
    yield "mark of order", b"\xef\xbb\xbf" + data
    yield "space", text.replace(": ", ":  ", 1).encode()
    for key in document:
        value = json.dumps(document[key])
        for other in ('{"epsilon": "0.1"}', value):
            yield f"two of {key}", text.replace("{", f'{{\n "{key}": {other},', 1).encode()


def member(text: bytes, level: int = GZIP_LEVEL, **named: Any) -> bytes:
    whole = io.BytesIO()
    options = {"filename": "", "mtime": 0, **named}
    with gzip.GzipFile(mode="wb", compresslevel=level, fileobj=whole, **options) as file:
        file.write(text)
    return whole.getvalue()


def with_head(data: bytes, flag: int, field: bytes) -> bytes:
    """A gzip member whose head has a field of its own."""
    return data[:3] + bytes([flag]) + data[4:10] + field + data[10:]


def csv_attacks(data: bytes) -> Iterator[tuple[str, bytes]]:
    text = gzip.decompress(data)
    lines = text.splitlines(keepends=True)
    fields = lines[1].rstrip(b"\n").split(b",")

    def with_field(at: int, before: bytes, behind: bytes = b"") -> list[bytes]:
        changed = [*fields[:at], before + fields[at] + behind, *fields[at + 1 :]]
        return [lines[0], b",".join(changed) + b"\n", *lines[2:]]

    middle = text.index(b"\n", len(text) // 2) + 1
    yield "comment", with_head(data, 16, b"home of worker 7\0")
    yield "name", with_head(data, 8, b"home of worker 7\0")
    yield "extra", with_head(data, 4, struct.pack("<H", 16) + b"home of worker 7")
    yield (
        "head checksum",
        with_head(data, 2, struct.pack("<H", zlib.crc32(data[:3] + b"\2" + data[4:10]) & 0xFFFF)),
    )
    yield "text flag", data[:3] + b"\1" + data[4:]
    for at in range(4, 10):
        yield f"head byte {at}", data[:at] + b"\7" + data[at + 1 :]
    yield "time", member(text, mtime=7)
    yield "empty member behind", data + member(b"")
    yield "empty member before", member(b"") + data
    yield "two members", member(text[:middle]) + member(text[middle:])
    yield "zeros behind", data + bytes(512)
    yield "another level", member(text, 9)
    yield "stored", member(text, 0)
    for what, changed in {
        "blank line": [*lines, b"\n"],
        "blank line inside": [lines[0], b"\n", *lines[1:]],
        "quotes": with_field(0, b'"', b'"'),
        "quoted number": with_field(2, b'"', b'"'),
        "leading zero": with_field(2, b"0"),
        "sign": with_field(2, b"+"),
        "space": with_field(2, b" "),
        "other line ends": [line.replace(b"\n", b"\r\n") for line in lines],
        "no last line end": [*lines[:-1], lines[-1].rstrip(b"\n")],
        "no header": lines[1:],
        "two headers": [lines[0], *lines],
        "mark of order": [b"\xef\xbb\xbf", *lines],
    }.items():
        yield what, member(b"".join(changed))


def parquet_attacks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The same rows, with something beside them."""
    size = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - size], data[-8 - size : -8]
    end = data[-4:]
    yield "gap before the footer", body + b"home of worker 7" + footer + data[-8:]
    # A field that no reader knows: number 40 of the last structure, before its stop.
    more = footer[:-1] + b"\x08" + bytes([80, 16]) + b"home of worker 7" + b"\0"
    yield "unknown field", body + more + len(more).to_bytes(4, "little") + end
    more = footer + b"home of worker 7"
    yield "behind the footer", body + more + len(more).to_bytes(4, "little") + end
    version = f"parquet-cpp-arrow version {pa.__version__}".encode()
    assert version in footer
    for other in (version[:-1] + b"9", b"home".ljust(len(version), b"!"), version.upper()):
        yield "created_by", body + footer.replace(version, other) + data[-8:]
    table = pq.read_table(io.BytesIO(data))

    def written(table: pa.Table = table, **options: Any) -> bytes:
        whole = io.BytesIO()
        pq.write_table(table, whole, **{"compression": "zstd", **options})
        return whole.getvalue()

    yield "row groups", written(row_group_size=max(1, len(table) // 2))
    yield "no dictionary", written(use_dictionary=False)
    yield "another codec", written(compression="snappy")
    yield "another level", written(compression_level=19)
    yield "page checksums", written(write_page_checksum=True)
    yield "page index", written(write_page_index=True)
    yield "version", written(version="1.0")
    yield "notes", written(table.replace_schema_metadata({**(table.schema.metadata or {}), b"x": b"home"}))


@pytest.mark.slow
@pytest.mark.parametrize("most", [40, pytest.param(None, marks=pytest.mark.deep)])
def test_no_byte_can_be_another(
    most: int | None,
    small_release: Release,
    tmp_path: Path,
    plans_known: None,
) -> None:
    chance, target = random.Random(17), Target(small_release.public, tmp_path / "copy")
    assert [check.name for check in verify(target.folder)][-1] == "for release"
    attacks: list[tuple[str, str, bytes]] = []
    for name in target.names:
        data = target.kept[target.folder / name]
        found = list(anywhere(data, chance, 5))
        if name.endswith(".json"):
            found += json_attacks(data)
        elif name.endswith(".csv.gz"):
            found += csv_attacks(data)
        elif name.endswith(".parquet"):
            found += parquet_attacks(data)
        attacks += [(name, what, content) for what, content in found]
    for name, what, content in attacks if most is None else chance.sample(attacks, most):
        target.attack(name, content, what)
    target.attack("plan/plan.json", in_a_note(target), "another note")
    assert all(each.endswith((": stored", ": another level")) for each in target.told)
    assert target.accepted == []
    assert target.attacks >= (most or 1000) * 0.9
