"""One download over HTTP: retried within bounds, continued where it stopped, checked when it is whole."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pooch  # type: ignore[import-untyped]

from geo_data.errors import InputError

__all__ = ["Download", "NotFoundError", "check_address", "compare", "read_small", "shown"]

T = TypeVar("T")

TRIES = 5
PAUSE = 1.0  # seconds before the second try; doubled before each further one
LONGEST_PAUSE = 60.0  # whatever a server asks for
TIMEOUT = 60.0  # seconds without a byte, and over which a speed is measured
SLOWEST = 1000  # bytes a second
_URL = re.compile(r"https?://([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[!-~]*)?", re.ASCII)


class NotFoundError(InputError):
    """The server has no such file."""


class _RetryError(Exception):
    """Something went wrong that may go well another time."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class Download:
    """A downloader for pooch that keeps what has come, and continues there.

    Beside the unfinished file stands a note of its address, length and validator (ETag or date). The rest is
    asked for *if* the validator still holds; otherwise the server sends all, and all is taken.

    Parameters
    ----------
    url : str
    path : Path
        Where the file will be; the unfinished one stands beside it, and only one process may write it.
    expected : str or None
        SHA-256 that the file must have.
    progress : bool
        Write to standard error how much has come.
    """

    def __init__(self, url: str, path: Path, expected: str | None, progress: bool) -> None:
        self.url, self.name, self.expected, self.progress = url, path.name, expected, progress
        self.part = path.with_name(f".{path.name}.part")
        self.note = path.with_name(f".{path.name}.part.json")

    def __call__(self, _url: str, output: str, _pooch: object) -> None:
        """Write the whole, checked file to `output`."""
        for last in (not self._begun()[0], True):
            _retrying(self.url, self._transfer)
            try:
                self._check()
                break
            except InputError:
                self._forget()
                if last:
                    raise  # otherwise it was continued, perhaps a file of another day: all again, once
        os.replace(self.part, output)
        self.note.unlink(missing_ok=True)

    def _transfer(self) -> None:
        have, note = self._begun()
        if have and have == note["size"]:
            return  # all had come, but was not yet put in its place
        headers = {"Range": f"bytes={have}-", "If-Range": note["validator"]} if have else {}
        try:
            response = _open(self.url, headers)
        except _RetryError as error:
            if have and str(error) == "416":
                self._forget()
            raise
        with response:
            size = self._announced(response)
            if response.status == 206:
                size = note.get("size")
                span = re.escape(f"bytes {have}-") + r"\d+/" + (r"(\d+|\*)" if size is None else str(size))
                if not have or not re.fullmatch(span, response.headers.get("Content-Range", "")):
                    self._forget()
                    raise _RetryError("it continued in another place than was asked for")
            elif response.status != 200:
                raise InputError(shown(self.url), f"the server answered {response.status}")
            else:
                have = 0
                self.part.write_bytes(b"")  # emptied before the note is about another file
                self._write_note(response, size)
            with self.part.open("ab") as file:
                have += self._receive(response, file, have, size)
        if size is not None and have != size:
            raise _RetryError(f"only {have:,} of {size:,} bytes came")

    def _announced(self, response: Any) -> int | None:
        """Length that the server states; an error if what follows cannot be the file or be checked."""
        headers = response.headers
        if headers.get_content_type() == "text/html" and not self.name.endswith((".html", ".htm")):
            raise InputError(
                shown(self.url),
                "the server sent a web page in place of the file",
                fix="open the address in a browser and read what the page says",
            )
        if headers.get("Content-Encoding", "identity") != "identity" and not self.name.endswith(".gz"):
            raise InputError(shown(self.url), "the server packs the file on the way, though asked not to")
        length = headers.get("Content-Length", "")
        if length.isdecimal():
            return int(length)
        # Chunks end with a mark and gzip with a sum; anything else could be cut off without a trace.
        if not response.chunked and self.expected is None and not self.name.endswith(".gz"):
            raise InputError(
                shown(self.url),
                "the server does not say how long the file is, so that a part could pass for the whole",
                fix="give the file's sha256",
            )
        return None

    def _receive(self, response: Any, file: Any, begin: int, size: int | None) -> int:
        got, told = 0, time.monotonic()
        for chunk in _chunks(self.url, response):
            file.write(chunk)
            got += len(chunk)
            if self.progress and time.monotonic() - told > 1:
                told = time.monotonic()
                of = f" of {size / 1e6:,.1f}" if size else ""
                print(f"{self.name}: {(begin + got) / 1e6:,.1f}{of} MB", file=sys.stderr)
        return got

    def _check(self) -> None:
        if self.part.stat().st_size == 0:
            raise InputError(shown(self.url), "the server sent an empty file")
        if self.expected is not None:
            compare(shown(self.url), self.part, self.expected)
        if self.name.endswith(".gz"):
            try:
                with gzip.open(self.part) as file:
                    while file.read(1 << 20):
                        pass
            except (EOFError, gzip.BadGzipFile, zlib.error):
                raise InputError(shown(self.url), "what the server sent is not a whole gzip file") from None

    def _begun(self) -> tuple[int, dict[str, Any]]:
        """Bytes that can be continued, and the note about them."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            if note["url"] == _digest(self.url) and note["validator"] and "size" in note:
                return self.part.stat().st_size, note
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, {}

    def _write_note(self, response: Any, size: int | None) -> None:
        tag = response.headers.get("ETag", "")
        # A weak tag promises the same meaning, not the same bytes.
        validator = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
        note = {"url": _digest(self.url), "validator": validator, "size": size}
        self.note.write_text(json.dumps(note), encoding="utf-8")

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def read_small(url: str, limit: int = 1 << 24) -> bytes:
    """Return what an address holds, up to a limit."""

    def read() -> bytes:
        body = b""
        with _open(url, {}) as response:
            for chunk in _chunks(url, response):
                body += chunk
                if len(body) >= limit:
                    break
        return body[:limit]

    return _retrying(url, read)


def compare(what: str | Path, path: Path, expected: str) -> None:
    """Raise an error that names both hashes if a file has not the one that it must have."""
    actual = str(pooch.file_hash(str(path)))
    if actual != expected:
        raise InputError(
            what,
            f"the file has changed or is damaged: its sha256 is {actual}, and must be {expected}",
            fix="if it should be as it was, remove it and fetch again; if its publisher replaced it on "
            "purpose, remove the line of the old one from SHA256SUMS too, and give the new hash where you "
            "give one",
        )


def shown(url: str) -> str:
    """Return an address as it may be shown and stored: without the parts that may hold a key or password."""
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url)[0])


def check_address(url: str) -> None:
    """Raise an error if this is not an address to fetch from."""
    if not _URL.fullmatch(url):
        fix = "an address begins with http:// or https:// and has no password, space or accent"
        raise InputError(shown(url), "this is not an address to fetch from", fix=fix)


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def _retrying(url: str, work: Callable[[], T]) -> T:
    reason = ""
    for attempt in range(TRIES):
        try:
            return work()
        except _RetryError as error:
            reason = f"the server answered {error}" if str(error).isdecimal() else str(error)
            if attempt < TRIES - 1:
                time.sleep(max(PAUSE * 2**attempt, min(error.pause, LONGEST_PAUSE)))
    raise InputError(
        shown(url),
        f"the file did not come in {TRIES} tries; at last, {reason}",
        fix="try again later; what has come is kept, and continued where the server can do so",
    )


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only, and none from https to http."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            return None  # and urllib raises the answer, a 3xx, as an error
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str]) -> Any:
    """Open an address; whatever may pass is a `_RetryError`, whatever will not an `InputError`."""
    # "identity": the bytes of the file as they are, so that lengths and ranges are those of the file.
    headers = {"User-Agent": "odsynth", "Accept-Encoding": "identity", **headers}
    opener = urllib.request.build_opener(_WebOnly)
    request = urllib.request.Request(url, headers=headers)
    try:
        return _from_network(url, lambda: opener.open(request, timeout=TIMEOUT))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            fix = "compare the address with the publisher's list of files"
            raise NotFoundError(shown(url), f"the server has no such file ({error.code})", fix=fix) from None
        if 300 <= error.code < 400:
            raise InputError(shown(url), "the server redirects to where this program does not go") from None
        if error.code in (408, 416, 425, 429) or error.code >= 500:
            after = error.headers.get("Retry-After") or ""
            raise _RetryError(str(error.code), float(after) if after.isdecimal() else 0.0) from None
        raise InputError(shown(url), f"the server answered {error.code}") from None


def _chunks(url: str, response: Any) -> Iterator[bytes]:
    """Yield what comes, but not for ever from a server that sends next to nothing."""
    since, came = time.monotonic(), 0
    while chunk := _from_network(url, lambda: response.read1(1 << 18)):
        yield chunk
        came += len(chunk)
        passed = time.monotonic() - since
        if passed > TIMEOUT:
            if came < SLOWEST * passed:
                raise _RetryError(f"less than {SLOWEST:,} bytes came in a second")
            since, came = time.monotonic(), 0


def _from_network(url: str, work: Callable[[], T]) -> T:
    """Do what needs the network, and nothing that needs the disk: its errors are worth another try."""
    try:
        return work()
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            rule = f"the certificate of the server is not trusted: {cause.verify_message}"
            raise InputError(shown(url), rule) from None
        if isinstance(cause, TimeoutError):
            raise _RetryError(f"nothing came for {TIMEOUT:g} seconds") from None
        reason = getattr(cause, "strerror", None) or type(cause).__name__
        raise _RetryError(f"the connection failed ({reason})") from None
