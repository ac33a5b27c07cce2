"""Downloads: whole, in ranges, held already; and nothing that was not published."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ..helpers import NAME

NOT_LISTED = """
    %2e%2e/v1.publication.json ..%2fv1.publication.json %2e%2e%2f%2e%2e%2f%2e%2e%2fservice.sqlite
    plan/%2e%2e/README.md %2e/README.md plan//plan.json /etc/passwd %2fetc%2fpasswd ..%5c..%5cservice.sqlite
    README.md%00 README.md/ readme.md plan plan/ ~root/.bashrc C:%5cboot.ini
"""


@pytest.fixture(scope="module")
def folder(service_state: Path) -> Path:
    return service_state / "published" / NAME / "v1"


@pytest.fixture(scope="module")
def parquet(folder: Path) -> str:
    return next(folder.glob("*_od_*.parquet")).name


def test_a_file_arrives_whole(client: TestClient, page: str, folder: Path) -> None:
    for name, kind in (
        ("README.md", "text/markdown; charset=utf-8"),
        ("certificate.json", "application/json"),
        ("SHA256SUMS", "application/octet-stream"),
        ("plan/plan.json", "application/json"),
        ("plan/blocks.parquet", "application/vnd.apache.parquet"),
        (next(folder.glob("*.csv.gz")).name, "application/gzip"),
    ):
        response, content = client.get(f"{page}/files/{name}"), (folder / name).read_bytes()
        assert response.content == content
        headers = response.headers
        assert headers["Content-Type"] == kind
        assert headers["Content-Length"] == str(len(content))
        assert headers["ETag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        assert headers["Content-Disposition"] == f'attachment; filename="{name.rpartition("/")[2]}"'
        assert headers["Accept-Ranges"] == "bytes"
        assert "immutable" in headers["Cache-Control"]
        assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert "Content-Encoding" not in headers


def test_a_range(client: TestClient, page: str, folder: Path, parquet: str) -> None:
    for asked, part in (
        ("0-99", slice(0, 100)),
        ("100-", slice(100, None)),
        ("-50", slice(-50, None)),
        ("0-99999999", slice(None)),
    ):
        content = (folder / parquet).read_bytes()
        response = client.get(f"{page}/files/{parquet}", headers={"Range": f"bytes={asked}"})
        assert response.status_code == 206
        assert response.content == content[part]
        first, last, _ = *range(*part.indices(len(content)))[:: len(content[part]) - 1], None
        assert response.headers["Content-Range"] == f"bytes {first}-{last}/{len(content)}"
        head = client.head(f"{page}/files/{parquet}", headers={"Range": f"bytes={asked}"})
        assert (head.status_code, head.content) == (206, b"")
        assert head.headers["Content-Length"] == str(len(content[part]))


def test_several_ranges(client: TestClient, page: str, folder: Path, parquet: str) -> None:
    content = (folder / parquet).read_bytes()
    response = client.get(f"{page}/files/{parquet}", headers={"Range": "bytes=0-9,100-109"})
    assert response.status_code == 206
    assert response.headers["Content-Type"].startswith("multipart/byteranges; boundary=")
    assert content[:10] in response.content
    assert content[100:110] in response.content
    assert len(response.content) == int(response.headers["Content-Length"])


def test_ranges_that_are_none(client: TestClient, page: str, parquet: str) -> None:
    for asked, status in (
        ("bytes=99999999-", 416),
        ("bytes=9-3", 400),
        ("lines=0-9", 400),
        ("bytes", 400),
        ("bytes=a-b", 400),
        ("bytes=" + ",".join(f"{i}-{i}" for i in range(0, 2000, 2)), 200),
    ):  # the last are more than a program needs
        response = client.get(f"{page}/files/{parquet}", headers={"Range": asked})
        assert response.status_code == status
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_range_of_what_was_held_before(client: TestClient, page: str, folder: Path) -> None:
    address, content = f"{page}/files/README.md", (folder / "README.md").read_bytes()
    tag = client.get(address).headers["ETag"]
    for held, status in ((tag, 206), ('"other"', 200)):
        response = client.get(address, headers={"Range": "bytes=0-9", "If-Range": held})
        assert response.status_code == status
        assert response.content == (content[:10] if status == 206 else content)


def test_only_listed_files_are_there(client: TestClient, page: str) -> None:
    # Dots are written as %2e: as dots, the client would tidy them away. The application sees dots.
    for path in ("", "README.md%0d%0aX-Injected:%20yes", "a" * 299, *NOT_LISTED.split()):
        response = client.get(f"{page}/files/{path}")
        assert response.status_code == 404
        assert "X-Injected" not in response.headers
        assert "root:" not in response.text
    record = "/%2e%2e/v1.publication.json"
    for end in (f"/files/%2e%2e{record}", record, ".publication.json"):
        assert client.get(page + end).status_code == 404
    assert client.get(f"{page}/files/{'a' * 301}").status_code == 422
