"""One download, over HTTP or from a store: retried within bounds, checked when it is whole."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin, urlsplit

import requests

from geo_data.errors import InputError

TRIES = 5
TIMEOUT = 60.0  # seconds without a byte, and after which a speed is measured
SLOWEST = 1000  # bytes a second
_CHUNK = 1024  # bytes that are received at a time
_LONGEST_PAUSE = 60  # seconds, whatever a server asks for
_URL = re.compile(r"https?://([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[!-~]*)?", re.ASCII)


class NotFoundError(InputError):
    """The server has no such file."""


class _PassingError(requests.RequestException):
    """Something went wrong that may go well another time."""


def download(
    url: str, path: Path, expected: str | None, *, private: bool = False, progress: bool = False
) -> None:
    """Download a table to a path at which nothing is; only one process may do so in a folder.

    With `private` only the owner may read the file, at no moment anybody else.
    """
    if is_of_a_store(url):
        coming = stored(url, shown(url), path.parent)
    else:
        coming = _downloaded(url, path.parent, path.name, expected, is_table=True, progress=progress)
    with coming as file:
        if file.stat().st_size == 0:
            fix = "compare the address with the publisher's list of files, or try again later"
            raise InputError(shown(url), "the file is empty", fix=fix)
        if expected is not None:
            compare(shown(url), file, expected)
        if path.suffix == ".gz":
            try:
                with gzip.open(file) as packed:
                    while packed.read(1 << 20):
                        pass
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                fix = "try again later, or compare the address with the publisher's list of files"
                raise InputError(shown(url), "the file is not a whole gzip file", fix=fix) from error
        if private:
            file.chmod(0o600)
        os.replace(file, path)


def read_small(url: str) -> bytes:
    """Return what an address holds."""
    with TemporaryDirectory() as folder, _downloaded(url, Path(folder), "small", is_table=False) as file:
        return file.read_bytes()


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare(subject: str | Path, path: Path, expected: str) -> None:
    """Raise an error that names both hashes if a file has not the one that it must have."""
    actual = sha256_of(path)
    if actual != expected:
        raise InputError(
            subject,
            f"the file was changed or damaged: its sha256 is {actual}, and {expected} is expected",
            fix="remove the file and fetch it again; if its publisher replaced it, remove its line from "
            "SHA256SUMS too, and give the new hash",
        )


def shown(url: str) -> str:
    """Return an address as it may be shown and stored: without the parts that may hold a key or password."""
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url)[0])


def check_address(url: str) -> None:
    """Raise an error if this is not an address to fetch from."""
    if not _URL.fullmatch(url) and not is_of_a_store(url):
        stores = ", ".join(f"{store}://" for store in STORES)
        fix = f"write an address that begins with http://, https:// or, for a file in a store, {stores}, "
        fix += "and has no password, space or accent"
        raise InputError(shown(url), "this is not an address to fetch from", fix=fix)


@contextmanager
def _downloaded(
    url: str, folder: Path, name: str, expected: str | None = None, *, is_table: bool, progress: bool = False
) -> Iterator[Path]:
    """Download into a folder of its own, in which a killed download leaves what it had."""
    partial = folder.resolve() / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    path = partial / name

    def check(response: requests.Response, **_: object) -> None:
        _check_answer(url, response)
        if is_table and not response.is_redirect:
            _check_table(url, name, expected, response)

    try:
        for tries in range(1, TRIES + 1):
            try:
                _receive(url, path, check, progress)
                break
            except requests.RequestException as error:
                reason = _reason(error)
            if tries < TRIES:
                time.sleep(tries)
        else:
            rule = f"the file could not be fetched in {TRIES} tries: {reason}"
            raise InputError(shown(url), rule, fix="check the address and the network, or try again later")
        yield path
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _receive(url: str, path: Path, check: Callable[..., None], progress: bool) -> None:
    """Write what an address gives; an end is put to a server that sends next to nothing."""
    # "identity": the bytes of the file as they are, so that its length is that of the file.
    headers = {"User-Agent": "odsynth", "Accept-Encoding": "identity"}
    verify = os.environ.get("SSL_CERT_FILE", True)
    begun = told = time.monotonic()
    with ExitStack() as open_answers, path.open("wb") as file:

        def checked(response: requests.Response, **_: object) -> None:
            open_answers.callback(response.close)  # also of those that are refused
            check(response)

        answer = requests.get(
            url, stream=True, timeout=TIMEOUT, headers=headers, hooks={"response": checked}, verify=verify
        )
        for chunk in answer.iter_content(_CHUNK):
            file.write(chunk)
            moment = time.monotonic()
            if moment - begun > TIMEOUT and file.tell() < SLOWEST * (moment - begun):
                raise _PassingError(f"less than {SLOWEST:,} bytes came in a second")
            if progress and moment - told > 1:
                told = moment
                total = int(answer.headers.get("Content-Length", 0))
                total_text = f" of {total / 1e6:,.1f}" if total else ""
                print(f"{path.name}: {file.tell() / 1e6:,.1f}{total_text} MB", file=sys.stderr)


def _check_answer(url: str, response: requests.Response) -> None:
    """Judge an answer by its status, before what follows is read; each redirect is one, too."""
    status = response.status_code
    if response.is_redirect:
        new = urlsplit(urljoin(response.url, response.headers["Location"])).scheme
        if new != "https" and (new != "http" or response.url.startswith("https:")):
            rule = "the server redirects to an address without https, which this program does not follow"
            raise InputError(shown(url), rule, fix="ask the publisher for an address with https")
    elif status in (404, 410):
        fix = "compare the address with the publisher's list of files"
        raise NotFoundError(shown(url), f"the server has no such file ({status})", fix=fix)
    elif status in (408, 425, 429) or status >= 500:
        after = response.headers.get("Retry-After", "")
        time.sleep(min(int(after), _LONGEST_PAUSE) if after.isdecimal() else 0)
        raise _PassingError(f"the server answered {status}")
    elif status != 200:
        fix = "open the address in a browser and read what the page says; this program cannot log in"
        raise InputError(shown(url), f"the server refused the file ({status})", fix=fix)


def _check_table(url: str, name: str, expected: str | None, response: requests.Response) -> None:
    """Refuse an answer that cannot be the table, or be checked, by what is said of it."""
    headers, rule, fix = response.headers, "", ""
    page = headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/html"
    if page and not name.endswith((".html", ".htm")):
        rule = "the server sent a web page in place of the file"
        fix = "open the address in a browser and read what the page says"
    elif name.endswith(".gz"):
        # Some servers say that a .gz file is packed on the way; it is the file itself, to be kept as it is.
        response.raw.headers.pop("Content-Encoding", None)
    elif headers.get("Content-Encoding", "identity") != "identity":
        rule = "the server compresses the file on the way, though it was asked not to"
        fix = "download the file with a browser"
    # Chunks end with a mark and gzip with a sum; anything else could be cut off without a trace.
    elif expected is None and "Content-Length" not in headers and not response.raw.chunked:
        rule = "the server does not say how long the file is, so a part could pass for the whole file"
        fix = "give the file's sha256"
    if rule:
        raise InputError(shown(url), rule, fix=fix)


def _reason(error: BaseException) -> str:
    """What went wrong on the network, without the address, whose query may hold a key."""
    if isinstance(error, _PassingError):
        return str(error)
    if isinstance(error, requests.TooManyRedirects):
        return "the server redirects without end"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke before all had come"
    while inner := error.__cause__ or next((a for a in error.args if isinstance(a, Exception)), None):
        error = inner
    if isinstance(error, TimeoutError):
        return f"nothing came for {TIMEOUT:g} seconds"
    return f"the connection failed ({getattr(error, 'strerror', None) or type(error).__name__})"


STORES = ("s3", "gs", "abfs", "sftp")
"""How addresses of stores begin; others, as ``file``, would read what nobody means to fetch."""

_ADDRESS = re.compile(rf"(?:{'|'.join(STORES)})://[\w.-]+(:\d{{1,5}})?/[\w.,=+~/-]+", re.ASCII)


def is_of_a_store(url: str) -> bool:
    """Say whether this is the address of one file in a store, without a password, a query or a pattern."""
    return _ADDRESS.fullmatch(url) is not None


@contextmanager
def stored(url: str, shown: str, folder: Path) -> Iterator[Path]:
    """Copy a file into a folder of its own, which only its owner can look into; it is removed at the end.

    `shown` is the address as errors may show it. Only one process may do so in `folder` at a time.
    """
    import fsspec  # type: ignore[import-untyped]

    partial = folder / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    path, rule, fix = partial / "file", "", ""
    try:
        try:
            store, name = fsspec.url_to_fs(url)
            size = store.info(name)["size"]
            store.get_file(name, str(path))
        except FileNotFoundError:
            rule, fix = "the store has no such file", "compare the address with what is in the store"
        except PermissionError:
            rule, fix = (
                "the store refuses access",
                "check the credentials of the package that reads the store",
            )
        except ImportError as error:
            rule, fix = (
                f"a package is missing ({error})",
                "install it, as s3fs for s3://",
            )
        except Exception as error:  # each store has errors of its own, whose texts may hold what is secret
            rule, fix = f"the store cannot be read ({type(error).__name__})", "try again later"
        else:
            if path.stat().st_size != size:
                rule, fix = "the file was cut off on the way, or replaced meanwhile", "try again"
        if rule:
            raise InputError(shown, rule, fix=fix)
        yield path
    finally:
        shutil.rmtree(partial, ignore_errors=True)
