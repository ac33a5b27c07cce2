"""Downloads, against a server on this machine that does what servers do on bad days."""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from geo_data import InputError, _download
from geo_data.fetching import fetch, fetch_lodes
from helpers import PATIENCE, wait_for

PLAIN = hashlib.shake_128(b"table").digest(300_000)  # does not compress, so that half of it is half a file
TABLE = gzip.compress(PLAIN, mtime=0)
FETCH = (
    "import sys, pathlib, geo_data; [geo_data.fetch(url, pathlib.Path(sys.argv[1])) for url in sys.argv[2:]]"
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Reply:
    """How a path is answered. The defaults are a good server."""

    body: bytes = TABLE
    status: int = 200
    kind: str = "application/gzip"
    send: float = 1.0  # share of the body after which the connection breaks
    length: bool = True  # states Content-Length
    chunked: bool = False
    wait: float = 0.0
    drip: float = 0.0  # seconds between one byte and the next
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    """A request that came."""

    path: str
    agent: str


class Server:
    """Answers each path by its replies, one after another; the last one stays."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.asked: list[Asked] = []
        self.pauses: list[float] = []  # of the client, which are not waited for
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(
            target=functools.partial(self.http.serve_forever, poll_interval=0.01), daemon=True
        )
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def serve(self, path: str, *replies: Reply) -> str:
        self.replies[path] = list(replies)
        return self.url + path

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(Asked(handler.path, handler.headers.get("User-Agent", "")))
        assert handler.headers.get("Accept-Encoding") == "identity"
        handler.close_connection = True
        replies = self.replies.get(handler.path)
        if not replies:
            handler.send_error(404)
            return
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        time.sleep(reply.wait)
        handler.send_response(reply.status)
        handler.send_header("Content-Type", reply.kind)
        handler.send_header("Connection", "close")  # said, or a client may ask again on what is closing
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        data = reply.body[: int(len(reply.body) * reply.send)]
        if reply.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
            data = b"%x\r\n%s\r\n" % (len(data), data) + (b"0\r\n\r\n" if reply.send == 1 else b"")
        elif reply.length:
            handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        with suppress(ConnectionError):  # some clients have seen enough
            for byte in data if reply.drip else b"":
                handler.wfile.write(bytes([byte]))
                time.sleep(reply.drip)
            handler.wfile.write(b"" if reply.drip else data)


@pytest.fixture(scope="module")
def started() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()
    server.thread.join()


@pytest.fixture
def server(started: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server of all tests, without replies, and a client that does not wait."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for kept in (started.replies, started.asked, started.pauses):
        kept.clear()
    pauses = SimpleNamespace(sleep=started.pauses.append, monotonic=time.monotonic)
    monkeypatch.setattr(_download, "time", pauses)
    return started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "downloads"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def refused(work: Callable[..., object], *args: Any, **arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        work(*args, **arguments)
    return str(caught.value)


# --- a good server


def test_a_file_comes_is_recorded_and_is_not_asked_for_again(server: Server, folder: Path) -> None:
    url = server.serve("/a/table.csv.gz", Reply())
    path = fetch(url, folder)
    assert path == folder / "table.csv.gz"
    assert path.read_bytes() == TABLE
    assert path.stat().st_mode == (folder / "SHA256SUMS").stat().st_mode, "others may read it, too"
    assert set(files(folder)) == {"table.csv.gz", "SHA256SUMS"}, "nothing else is left"
    text = (folder / "SHA256SUMS").read_text()
    assert re.fullmatch(rf"# fetched \d{{4}}-\d\d-\d\d from {url}\n{sha256(TABLE)}  table\.csv\.gz\n", text)
    assert fetch(url, folder) == path
    assert len(server.asked) == 1
    assert server.asked[0].agent == "odsynth"


def test_sums_that_were_there_stay(server: Server, folder: Path) -> None:
    """In lines as sha256sum writes and checks them."""
    folder.mkdir()
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  mine.csv")
    fetch(server.serve("/a.csv.gz", Reply()), folder)
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    assert lines[::2] == [f"{'0' * 64}  mine.csv", f"{sha256(TABLE)}  a.csv.gz"]


def test_a_query_is_never_shown_or_stored_and_tells_files_apart(server: Server, folder: Path) -> None:
    paths = []
    for table in ("B08301", "B08302"):
        body = table.encode()
        url = server.serve(f"/acs5.csv?get={table}&key=SECRET", Reply(body, kind="text/csv"))
        paths.append(fetch(url, folder))
        assert re.fullmatch(r"acs5-[0-9a-f]{12}\.csv", paths[-1].name)
    assert [path.read_bytes() for path in paths] == [b"B08301", b"B08302"]
    assert "SECRET" not in (folder / "SHA256SUMS").read_text()
    server.replies.clear()
    assert "SECRET" not in refused(fetch, f"{server.url}/x?key=SECRET", folder)


def test_a_known_hash_holds(server: Server, folder: Path) -> None:
    url = server.serve("/table.csv.gz", Reply())
    for there in (False, True):  # of what comes, and of what is there
        message = refused(fetch, url, folder, "ab" * 32)
        assert sha256(TABLE) in message
        assert "ab" * 32 in message
        assert "Fix: " in message
        assert (folder / "table.csv.gz").exists() == there
        assert fetch(url, folder, sha256(TABLE).upper()).exists()
    assert "64 hexadecimal digits" in refused(fetch, url, folder, "ab")


def test_progress_goes_to_standard_error(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fetch(server.serve("/quiet.csv.gz", Reply()), folder)
    assert capfd.readouterr() == ("", "")
    ticks = itertools.count(0, 0.5)
    monkeypatch.setattr(_download, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    fetch(server.serve("/loud.csv.gz", Reply()), folder, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "loud.csv.gz: 0.3 of 0.3 MB\n" in err


# --- a server, or a line, on a bad day


SORRY = b"<html>Sorry</html>"
ANSWERS: list[tuple[list[Reply], str, int]] = [
    # What goes well another time; then what lasts, and what no other try would help.
    *(([Reply(status=status)] * 2 + [Reply()], "", 3) for status in (500, 502, 503, 429)),
    ([Reply(send=0.5), Reply(send=0.8), Reply()], "", 3),
    ([Reply(status=503)], f"could not be fetched in {_download.TRIES} tries: the server answered 503", 5),
    ([Reply(send=0.9)], "the connection broke before all had come", 5),
    ([Reply(send=0.9, chunked=True)], "the connection broke before all had come", 5),
    *(([Reply(status=status)], str(status), 1) for status in (404, 410, 403, 400, 202)),
    ([Reply(length=False)], "", 1),
    ([Reply(send=0.9, length=False)], "not a whole gzip file", 1),
    ([Reply(SORRY, kind="text/html; charset=utf-8")], "a web page", 1),
    ([Reply(SORRY)], "not a whole gzip file", 1),
    ([Reply(TABLE[:-1] + b"\1")], "not a whole gzip file", 1),
    ([Reply(TABLE[:1000] + b"x" + TABLE[1001:])], "not a whole gzip file", 1),
    ([Reply(b"")], "the file is empty", 1),
    ([Reply(headers={"Content-Encoding": "x-gzip"})], "", 1),  # said of .gz files, too: it is the file itself
    ([Reply(status=301, headers={"Location": "/t.csv.gz"}), Reply()], "", 2),
    *(
        ([Reply(status=302, headers={"Location": place})], "redirects to an address without https", 1)
        for place in ("file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x")
    ),
]


@pytest.mark.parametrize(("replies", "words", "asked"), ANSWERS, ids=range(len(ANSWERS)))
def test_answers(server: Server, folder: Path, replies: list[Reply], words: str, asked: int) -> None:
    """The file comes, or one error says why not and nothing stands in its place."""
    url = server.serve("/t.csv.gz", *replies)
    if words:
        message = refused(fetch, url, folder)
        assert words in message
        assert "Sorry" not in message
        assert files(folder) == {}
    else:
        assert fetch(url, folder).read_bytes() == TABLE
    assert len(server.asked) == asked


def test_pauses_grow_and_heed_the_server(server: Server, folder: Path) -> None:
    replies = [Reply(status=500) for _ in range(2)]
    replies += [Reply(status=503, headers={"Retry-After": after}) for after in ("7", "99999")]
    fetch(server.serve("/t.csv.gz", *replies, Reply()), folder)
    assert [pause for pause in server.pauses if pause] == [1, 2, 7, 3, 60, 4]


def test_a_killed_download_leaves_nothing_in_the_place_of_the_file(server: Server, folder: Path) -> None:
    """kill -9 while the file is on its way; the lock dies with the process."""
    url = server.serve("/t.csv.gz", Reply(drip=0.0001))
    process = subprocess.Popen([sys.executable, "-c", FETCH, str(folder), url])
    wait_for(lambda: any(part.stat().st_size for part in folder.glob(".partial/*")))
    process.kill()
    process.wait()
    assert [path.name for path in folder.iterdir() if path.name != ".lock"] == [".partial"]
    server.serve("/t.csv.gz", Reply())
    assert fetch(url, folder).read_bytes() == TABLE
    assert set(files(folder)) == {"t.csv.gz", "SHA256SUMS"}


def test_a_refused_connection_is_one_clear_error(server: Server, folder: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        message = refused(fetch, f"http://127.0.0.1:{closed.getsockname()[1]}/t.csv.gz", folder)
    assert "Connection refused" in message
    assert "try again later" in message


def test_a_slow_server_is_waited_for_but_not_for_ever(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_patient(_: float) -> None:  # between two tries
        monkeypatch.setattr(_download, "TIMEOUT", PATIENCE)

    monkeypatch.setattr(_download, "time", SimpleNamespace(sleep=be_patient, monotonic=time.monotonic))
    monkeypatch.setattr(_download, "TIMEOUT", 1)
    url = server.serve("/t.csv.gz", Reply(wait=6), Reply(wait=0.02))
    assert fetch(url, folder).read_bytes() == TABLE
    assert len(server.asked) == 2
    monkeypatch.setattr(_download, "TIMEOUT", 1)
    monkeypatch.setattr(_download, "TRIES", 1)
    url = server.serve("/never.csv.gz", Reply(wait=6))
    assert "nothing came for 1 seconds" in refused(fetch, url, folder)


def test_a_dripping_server_is_not_waited_for_for_ever(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, 61)  # or a busy machine may send nothing for longer than that
    monkeypatch.setattr(_download, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(_download, "TRIES", 1)
    for work, path in ((lambda url: fetch(url, folder), "/t.csv.gz"), (_download.read_small, "/sums")):
        url = server.serve(path, Reply(drip=0.0003))
        assert "less than 1,000 bytes came in a second" in refused(work, url)


# --- what came is not the file


def test_what_could_be_cut_off_unseen_is_refused_without_a_hash(server: Server, folder: Path) -> None:
    url = server.serve("/t.csv", Reply(PLAIN, kind="text/csv", length=False))
    assert "does not say how long" in refused(fetch, url, folder)
    assert fetch(url, folder, sha256(PLAIN)).read_bytes() == PLAIN
    chunks = server.serve("/chunks.csv", Reply(PLAIN, kind="text/csv", chunked=True))
    assert fetch(chunks, folder).read_bytes() == PLAIN


def test_a_packed_answer_is_refused(server: Server, folder: Path) -> None:
    url = server.serve("/t.csv", Reply(kind="text/csv", headers={"Content-Encoding": "gzip"}))
    assert "compresses the file" in refused(fetch, url, folder)


def test_a_file_that_changed_later_is_found_wherever_it_changed(server: Server, folder: Path) -> None:
    path = fetch(server.serve("/t.csv.gz", Reply()), folder)
    url = f"{server.url}/t.csv.gz"
    path.write_bytes(b"edited")
    message = refused(fetch, url, folder)
    assert sha256(TABLE) in message
    assert sha256(b"edited") in message
    assert path.read_bytes() == b"edited", "nobody's work is replaced"
    path.unlink()
    new = gzip.compress(b"revised", mtime=0)
    server.serve("/t.csv.gz", Reply(new))
    message = refused(fetch, url, folder)
    assert sha256(TABLE) in message
    assert sha256(new) in message
    assert not path.exists()
    (folder / "SHA256SUMS").unlink()  # the fix
    assert fetch(url, folder).read_bytes() == new


def test_a_file_of_unknown_origin_is_not_taken_for_the_download(server: Server, folder: Path) -> None:
    folder.mkdir()
    (folder / "t.csv.gz").write_bytes(TABLE)
    url = server.serve("/t.csv.gz", Reply())
    assert "SHA256SUMS does not list it" in refused(fetch, url, folder)
    assert f"{'ab' * 32} is expected" in refused(fetch, url, folder, "ab" * 32)
    assert fetch(url, folder, sha256(TABLE)).read_bytes() == TABLE
    assert server.asked == []
    assert fetch(url, folder).exists(), "recorded now"


def test_one_name_of_two_addresses_is_not_mixed_up(server: Server, folder: Path) -> None:
    fetch(server.serve("/2018/t.csv.gz", Reply()), folder)
    other = server.serve("/2019/t.csv.gz", Reply(gzip.compress(b"2019", mtime=0)))
    message = refused(fetch, other, folder)
    assert "/2018/t.csv.gz" in message
    assert "/2019/t.csv.gz" in message
    assert "one folder for each" in message
    mirror = server.serve("/mirror/t.csv.gz", Reply())
    assert fetch(mirror, folder, sha256(TABLE)).exists(), "the same by its hash"


# --- addresses


def test_other_addresses_are_refused(folder: Path) -> None:
    for url in (
        "file:///etc/hostname",
        "ftp://127.0.0.1/x",
        "data:,x",
        "/etc/hostname",
        "http://",
        "http://user:SECRET@127.0.0.1/x",
        "http://127.0.0.1:port/x",
        "http://[127.0.0.1/x",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/a\r\nHost: b",
    ):
        message = refused(fetch, url, folder)
        assert "not an address to fetch from" in message
        assert "SECRET" not in message
        assert not folder.exists()


def test_redirects_that_go_in_circles_end(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_download, "TRIES", 1)
    url = server.serve("/t.csv.gz", Reply(status=302, headers={"Location": "/t.csv.gz"}))
    assert "redirects" in refused(fetch, url, folder)


def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    answer = requests.Response()
    answer.url, answer.status_code = "https://a.example/x", 302
    for place, followed in (("http://a.example/x", False), ("https://b.example/x", True), ("/y", True)):
        answer.headers["Location"] = place
        with nullcontext() if followed else pytest.raises(InputError, match="redirects"):
            _download._check_answer(answer.url, answer)


def test_names_stay_in_the_folder_and_are_not_hidden(server: Server, folder: Path) -> None:
    names = {"/..%2Fup.csv": "_up.csv", "/.lock": "lock", "/a/": "file", "/..": "file"}
    names["/SHA256SUMS"] = "SHA256SUMS-*"
    server.serve("/", Reply(b"x", kind="text/csv"))
    for number, (path, name) in enumerate(names.items()):
        url = server.serve(path, Reply(b"x", kind="text/csv"))
        assert fetch(url, folder / str(number)).match(str(folder / str(number) / name))


# --- several at once


def test_processes_at_once_download_once(server: Server, folder: Path) -> None:
    urls = [server.serve(f"/{i}.csv.gz", Reply(wait=0.05)) for i in range(2)]
    command = [sys.executable, "-c", FETCH, str(folder), *urls]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(server.asked) == 2
    assert set(files(folder)) == {"0.csv.gz", "1.csv.gz", "SHA256SUMS"}


# --- LODES


def lodes(server: Server, version: int = 7, sums: bool = True) -> dict[str, bytes]:
    """Serve Rhode Island in the publisher's layout."""
    root, bodies = f"/LODES{version}/ri/", {}
    for place in ("od/ri_od_main_JT00_2019.csv.gz", "od/ri_od_aux_JT00_2019.csv.gz", "ri_xwalk.csv.gz"):
        bodies[place] = gzip.compress(f"{version} {place}".encode(), mtime=0)
        server.serve(root + place, Reply(bodies[place]))
    if sums:
        lines = "".join(f"{sha256(body)}  {name.rsplit('/')[-1]}\n" for name, body in bodies.items())
        server.serve(root + "lodes_ri.sha256sum", Reply(lines.encode(), kind="text/plain"))
    return bodies


def test_lodes_comes_in_the_published_layout(server: Server, folder: Path) -> None:
    for version in (7, 8):
        bodies, to = lodes(server, version), folder / str(version)
        server.asked.clear()
        paths = fetch_lodes("RI", 2019, version, to, base_url=server.url)
        assert list(paths) == ["main", "aux", "crosswalk"]
        assert [path.read_bytes() for path in paths.values()] == list(bodies.values())
        assert [path.name for path in paths.values()] == [name.rsplit("/")[-1] for name in bodies]
        asked = [asked.path for asked in server.asked]
        assert asked.count(f"/LODES{version}/ri/lodes_ri.sha256sum") == 1
        assert fetch_lodes("ri", 2019, version, to, base_url=server.url) == paths
        assert len(server.asked) == len(asked), "a complete folder needs no network"


def test_a_file_that_is_not_as_the_publisher_says_is_refused(server: Server, folder: Path) -> None:
    lodes(server)
    for before in ("  ", " *", "  ./od/"):
        line = f"{'AB' * 32}{before}ri_od_main_JT00_2019.csv.gz\n"
        server.serve("/LODES7/ri/lodes_ri.sha256sum", Reply(line.encode(), kind="text/plain"))
        message = refused(fetch_lodes, "ri", 2019, 7, folder, base_url=server.url)
        assert f"{'ab' * 32} is expected" in message
        assert files(folder) == {}
    # What somebody knew beforehand goes before the publisher's.
    (folder / "SHA256SUMS").write_text(f"{'cd' * 32}  ri_xwalk.csv.gz\n")
    message = refused(fetch_lodes, "ri", 2019, 7, folder, base_url=server.url, parts=())
    assert f"{'cd' * 32} is expected" in message


@pytest.mark.parametrize("reply", [None, Reply(b"<html>404</html>", kind="text/html")], ids=["404", "page"])
def test_without_published_sums_the_first_download_holds(
    reply: Reply | None, server: Server, folder: Path
) -> None:
    lodes(server, sums=False)
    if reply:
        server.serve("/LODES7/ri/lodes_ri.sha256sum", reply)
    paths = fetch_lodes("ri", 2019, 7, folder, base_url=server.url)
    paths["main"].unlink()
    new = gzip.compress(b"revised", mtime=0)
    server.serve("/LODES7/ri/od/ri_od_main_JT00_2019.csv.gz", Reply(new))
    assert sha256(new) in refused(fetch_lodes, "ri", 2019, 7, folder, base_url=server.url)


@pytest.mark.parametrize("sums", [True, False])
def test_versions_of_lodes_are_not_mixed_in_a_folder(sums: bool, server: Server, folder: Path) -> None:
    lodes(server, 7, sums)
    lodes(server, 8, sums)
    fetch_lodes("ri", 2019, 7, folder, base_url=server.url)
    message = refused(fetch_lodes, "ri", 2019, 8, folder, base_url=server.url)
    assert "LODES7" in message
    assert "LODES8" in message


def test_missing_lodes_says_what_and_where_to_look(server: Server, folder: Path) -> None:
    lodes(server)
    message = refused(fetch_lodes, "ri", 2001, 7, folder, base_url=server.url)
    assert "LODES 7 has no main file of JT00 for 2001, state ri (404)" in message
    assert f"{server.url}/LODES7/ri/od/ " in message
    message = refused(fetch_lodes, "zz", 2019, 8, folder, parts=(), base_url=server.url)
    assert "LODES 8 has no crosswalk, state zz (404)" in message


def test_wrong_arguments_are_refused_before_anything_is_asked(server: Server, folder: Path) -> None:
    arguments: dict[str, Any] = {"state": "ri", "year": 2019, "version": 7, "base_url": server.url}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"state": "../x"}, "two letters"),
        ({"year": 19}, "four digits"),
        ({"version": 6}, "7 or 8"),
        ({"job_type": "JT09"}, "JT00 to JT05"),
        ({"parts": ["rac"]}, "main, aux or both"),
    ]
    for change, says in changes:
        assert says in refused(fetch_lodes, folder=folder, **{**arguments, **change})
    assert server.asked == []
