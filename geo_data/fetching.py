"""Downloads of tables: checked, and never replaced unseen.

A file is in its place only when it is whole. Its SHA-256 is written to ``SHA256SUMS`` beside it when it first
comes, and holds from then on. A name in a folder belongs to one address, as LODES 7 and LODES 8 give other
files the same name.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from geo_data._download import (
    NotFoundError,
    check_address,
    compare,
    download,
    is_of_a_store,
    read_small,
    sha256_of,
    shown,
)
from geo_data.arguments import path_of
from geo_data.errors import InputError

LODES_URL = "https://lehd.ces.census.gov/data/lodes"
_SUMS = "SHA256SUMS"
_SUM_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(\S.*)")


def fetch_lodes(
    state: str,
    year: int,
    version: int,
    folder: str | os.PathLike[str],
    *,
    job_type: str = "JT00",
    parts: Sequence[str] = ("main", "aux"),
    base_url: str = LODES_URL,
    progress: bool = False,
) -> dict[str, Path]:
    """Download the origin-destination files and the crosswalk of one state.

    What the folder has already is checked and not asked for again, so a complete folder needs no network.
    Hashes that stand in its ``SHA256SUMS`` hold; else the publisher's own (``lodes_ri.sha256sum``), and where
    it has none, those of the first download.

    Parameters
    ----------
    state : str
        Postal code, such as ``"ri"``.
    year : int
    version : {7, 8}
        LODES version: 7 has the blocks of 2010, 8 those of 2020.
    folder : str or path
        Made if it does not exist. One for each version, as their files have the same names.
    job_type : str
        ``"JT00"`` (all jobs) to ``"JT05"``.
    parts : sequence of {"main", "aux"}
        Workers who live in the state, and those who live outside.
    base_url : str
        Where the folders LODES7 and LODES8 are.
    progress : bool
        Write to standard error how much has come.

    Returns
    -------
    dict of str to Path
        Files by part, and ``"crosswalk"``.

    Raises
    ------
    InputError
        As `fetch`; a file that does not exist is named by state, year and version.
    """
    folder = path_of(folder, "folder")
    state, job_type = state.lower(), job_type.upper()
    for good, rule, fix in (
        (re.fullmatch("[a-z]{2}", state), "the state is not two letters", "write it as ri"),
        (1990 <= year <= 2100, "the year is not four digits", "write it as 2019"),
        (version in (7, 8), "there is no such version", "write 7 or 8"),
        (re.fullmatch("JT0[0-5]", job_type), "there is no such job type", "write one of JT00 to JT05"),
        (set(parts) <= {"main", "aux"}, "there is no such part", "write main, aux or both"),
    ):
        if not good:
            raise InputError("LODES", rule, fix=fix)
    root = f"{base_url.rstrip('/')}/LODES{version}/{state}/"
    addresses = {part: f"{root}od/{state}_od_{part}_{job_type}_{year}.csv.gz" for part in parts}
    addresses["crosswalk"] = f"{root}{state}_xwalk.csv.gz"
    sums = functools.cache(lambda: _published_sums(f"{root}lodes_{state}.sha256sum"))
    files = {}
    for part, url in addresses.items():
        name = _file_name(url)
        stated = functools.partial(lambda name: sums().get(name), name)
        try:
            files[part] = _obtain(url, folder, None, stated, progress)
        except NotFoundError as error:
            missing = "crosswalk" if part == "crosswalk" else f"{part} file of {job_type} for {year}"
            raise InputError(
                shown(url),
                f"LODES {version} has no {missing}, state {state} (404)",
                fix=f"see {shown(urljoin(url, '.'))} for the files that exist; years differ between states "
                "and versions",
            ) from error
    return files


def fetch(
    url: str,
    folder: str | os.PathLike[str],
    sha256: str | None = None,
    *,
    confidential: bool = False,
    progress: bool = False,
) -> Path:
    """Download a table, or return it from the folder.

    Parameters
    ----------
    url : str
        An http or https address, whose query (``?...``) may hold a key and is never shown or stored; or that
        of a file in a store that fsspec reads (``s3://`` with s3fs, ``gs://``, ``abfs://``, ``sftp://``),
        whose package finds credentials by itself.
    folder : str or path
        Made if it does not exist. ``sha256sum -c SHA256SUMS`` checks everything that was fetched into it.
    sha256 : str, optional
        What the file must have. Without it, the hash of the first download holds.
    confidential : bool
        The file is one of jobs: it must come from a store, into a folder that nobody else can look into, and
        only its owner can read it.
    progress : bool
        Write to standard error how much has come.

    Returns
    -------
    Path
        The file, under the last name in the address; with a query, a hash of it is part of the name.

    Raises
    ------
    InputError
        If the file does not exist, does not come after some tries, is cut off, not what it is named after, or
        has another hash than it must have.
    """
    folder = path_of(folder, "folder")
    if confidential:
        check_address(url)
        if not is_of_a_store(url):
            fix = "fetch the file from a store with a login, such as s3://"
            raise InputError(shown(url), "a confidential file is not fetched from the web", fix=fix)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            fix = "name another folder, or close this folder: chmod 700"
            raise InputError(folder, "others can look into the folder", fix=fix)
    return _obtain(url, folder, _checked_hash(sha256), lambda: None, progress, private=confidential)


def _obtain(
    url: str,
    folder: Path,
    required: str | None,
    stated: Callable[[], str | None],
    progress: bool,
    *,
    private: bool = False,
) -> Path:
    name = _file_name(url)
    path = folder / name
    if _is_cached(path, url, required, stated):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    # One download at a time into one folder, whoever runs it: they share SHA256SUMS and unfinished files, and
    # the publisher's server is spared. The lock is the system's, so a killed process leaves none behind.
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_cached(path, url, required, stated):
            return path
        recorded, _ = _records(folder).get(name, (None, ""))
        expected = recorded or required or stated()
        if path.exists():  # and is not in SHA256SUMS
            if expected is None:
                fix = f"remove the file, or add its SHA-256 to {_SUMS} if you know that the file is right"
                raise InputError(path, f"the file is there, but {_SUMS} does not list it", fix=fix)
            compare(path, path, expected)
        else:
            download(url, path, expected, private=private, progress=progress)
        if recorded is None:
            _record(path, url)
    return path


def _is_cached(path: Path, url: str, required: str | None, stated: Callable[[], str | None]) -> bool:
    """Whether the file is there as SHA256SUMS has it; an error if either differs from what is asked for."""
    recorded, source = _records(path.parent).get(path.name, (None, ""))
    if recorded is None:
        return False
    fix = f"if the new hash is right, remove the file and its line in {_SUMS}, and fetch again"
    if required is not None and required != recorded:
        rule = f"{_SUMS} has the sha256 {recorded}, and {required} is asked for"
        raise InputError(path, rule, fix=fix)
    if source not in ("", shown(url)) and (required or stated()) != recorded:
        fix = "use one folder for each source"
        raise InputError(path, f"the file came from {source}, not from {shown(url)}", fix=fix)
    if not path.exists():
        return False
    compare(path, path, recorded)
    return True


def _records(folder: Path) -> dict[str, tuple[str, str]]:
    """Hash and source of each file in SHA256SUMS: a comment with the source stands above each line."""
    records, source = {}, ""
    sums = folder / _SUMS
    for line in sums.read_text(encoding="utf-8").splitlines() if sums.exists() else ():
        if line.startswith("#"):
            source = line.split()[-1] if line.startswith("# fetched ") else ""
        elif match := _SUM_LINE.fullmatch(line):
            records[match[2]] = (match[1].lower(), source)
            source = ""
    return records


def _record(path: Path, url: str) -> None:
    """Add a file to SHA256SUMS, which is replaced as a whole: nobody ever reads half of it."""
    sums = path.with_name(_SUMS)
    text = sums.read_text(encoding="utf-8") if sums.exists() else ""
    text += "" if text.endswith("\n") or not text else "\n"
    text += f"# fetched {datetime.now(UTC):%Y-%m-%d} from {shown(url)}\n"
    text += f"{sha256_of(path)}  {path.name}\n"
    temporary = path.with_name(f".{_SUMS}.part")  # under the folder's lock
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, sums)


def _published_sums(url: str) -> dict[str, str]:
    """What the publisher says the files of a state have; nothing if it does not say."""
    try:
        text = read_small(url).decode("utf-8", "replace")
    except NotFoundError:
        return {}
    lines = (_SUM_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return {match[2].rsplit("/", 1)[-1]: match[1].lower() for match in lines if match}


def _file_name(url: str) -> str:
    """The last name in the address; never hidden, never SHA256SUMS, and another for another query."""
    check_address(url)
    parts = urlsplit(url)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", unquote(parts.path.rsplit("/", 1)[-1])).lstrip(".") or "file"
    if parts.query or name == _SUMS:
        stem, dot, suffix = name.partition(".")
        name = f"{stem}-{hashlib.sha256(url.encode()).hexdigest()[:12]}{dot}{suffix}"
    return name


def _checked_hash(sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        rule, fix = "this is not a SHA-256", "write its 64 hexadecimal digits"
        raise InputError("sha256", rule, fix=fix)
    return sha256.lower()
