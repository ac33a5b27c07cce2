"""Malformed inputs, tried as a user would: each refused with one clear message, or equal in content.

Usage: python benchmarks/malformed.py [--every 1] [--processes 2] [--page benchmarks/malformed.md]

Makes a small region with every kind of input file, and damages each file, the configuration, a plan that
was reviewed and a release in every way listed here. Each is given to `odsynth run`, `plan` or `verify`, in a
child with a time limit. Wrong is what is accepted though the plan or the number of jobs is not that of the
whole files, or though it must be refused (`misreadings.py` has such cases). A text file cut off at the end of
a line is not tried: nobody can tell.
"""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from misreadings import misreadings
from report import fill, table, this_machine

import geo_data
import pipelines
from pipelines.cli.main import main as odsynth
from pipelines.release.certificate import Certificate
from pipelines.release.layout import seal
from pipelines.storage.checksums import sha256_of

COMMAND = "python benchmarks/malformed.py"
OUTCOMES = (
    "refused with a message",
    "accepted, equal in content",
    "accepted, rows left out are in the notes",
    "accepted, the operator is warned",
    "refused though right",
    "not foreseen",
    "ended by a signal",
    "accepted and wrong",
    "no answer in 30 s",
)
REFUSED, EQUAL, NOTED, WARNED, WRONGLY, TRACEBACK, SIGNAL, SILENT, HUNG = OUTCOMES
GOOD = REFUSED, EQUAL, NOTED, WARNED
SECONDS = 30
Content = tuple[str, int, list[str]]  # plan, jobs, notes
Case = tuple[str, Callable[[Path], None]]  # kind; what it does to a folder of the files

CONFIG = """
release = {{ name = "Malformed", state = "demo", year = 2019, out = "out", mechanism = "dirichlet" }}
privacy = {{ protects = "home", epsilon = "8", delta = "1e-4" }}
plan = {{ split_threshold = "5", pool_below = 8, pool_by = [], coarsening = "threshold" }}
{jobs}
[geography]
file = "crosswalk"
block = "tabblk2010"
levels = ["st", "cty", "trct", "bgrp"]
latitude = "blklatdd"
longitude = "blklondd"
external_zones = ["25"]
[weights]
file = "weights"
level = "trct"
area = "GEOID"
weight = "POP10"
[[auxiliary]]
format = "flows"
file = "flows"
origin = "h_county"
origin_level = "cty"
destination = "w_county"
destination_level = "cty"
flow = "flow"
margin = "moe"
[[auxiliary]]
format = "ctpp"
file = "ctpp"
levels = {{ C43 = "cty" }}
[[auxiliary]]
format = "acs"
file = "acs"
level = "cty"
[[auxiliary]]
format = "lodes"
file = "earlier"
origin_level = "trct"
destination_level = "trct"
"""
LODES = '[jobs]\nformat = "lodes"\nfile = "od*"\naux = "aux"'
MICRODATA = (
    '[jobs]\nformat = "microdata"\nfile = "jobs*"\nhome = "h"\nwork = "w"\n'
    'worker = "id"\nattributes = ["age"]'
)
# Of each file a column of numbers, and one of codes.
COLUMNS = {
    "od": ("S000", "h_geocode"),
    "aux": ("SE02", "h_geocode"),
    "earlier": ("S000", "w_geocode"),
    "crosswalk": ("blklatdd", "trct"),
    "weights": ("POP10", "GEOID"),
    "flows": ("flow", "h_county"),
    "ctpp": ("EST", "GEOID"),
    "jobs": ("age", "w"),
}
NUMBERS = ("0x1", "1_000_", "1e400", "-1", "", " ", "\u0661x", "NaN", "inf", "1;2", "1e308", "9" * 30)


def make_region(folder: Path) -> None:
    """Write every kind of input, all as plain CSV, and the two configurations."""
    made = folder / "made"
    files = geo_data.write_demo_region(made, counties=2, tracts=6, blocks=60, jobs=300)
    text = {name: geo_data_text(path) for name, path in files.items()}
    od = pd.read_csv(io.StringIO(text["od"]), dtype="str")
    aux = od[::6].copy()
    aux["h_geocode"] = "25" + aux["h_geocode"].str[2:]
    main = od.drop(aux.index)
    counts = ["280", "30", "310"]
    pairs = [("001", "001"), ("003", "001"), ("003", "003")]
    head = "State FIPS Code,County FIPS Code,State Name,County Name," * 2
    acs = [f'03,{h},D,"C, D",003,{w},D,"C, D","{n}",9\n' for (h, w), n in zip(pairs, counts, strict=True)]
    ctpp = [f'C4300US03{h}03{w},A302100,1,"{n}",+/-9,X\n' for (h, w), n in zip(pairs, counts, strict=True)]
    frame = main[main["S000"] == "1"]
    jobs = pd.DataFrame({"id": [f"w{i}" for i in range(len(frame))], "h": frame["h_geocode"].to_numpy()})
    jobs = jobs.assign(w=frame["w_geocode"].to_numpy(), age=np.where(frame["SA01"] == "1", "young", "old"))
    contents = {
        "od": main.to_csv(index=False),
        "aux": aux.to_csv(index=False),
        "earlier": main[::2].to_csv(index=False),
        "jobs": jobs.to_csv(index=False),
        "crosswalk": text["crosswalk"],
        "weights": text["population"],
        "flows": text["county_flows"],
        "ctpp": "GEOID,TBLID,LINENO,EST,MOE,SOURCE\n" + "".join(ctpp),
        "acs": f'Title\n{head}"Workers in\nCommuting Flow","Margin of Error"\n' + "".join(acs) + "Note,\n",
        "lodes.toml": CONFIG.format(jobs=LODES),
        "microdata.toml": CONFIG.format(jobs=MICRODATA),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
        (folder / name).chmod(0o600)
    shutil.rmtree(made)


def geo_data_text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()


# --- what is done to files


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def cell(column: str, row: int, value: str) -> Callable[[bytes], bytes]:
    """Write another value into one cell, however it looks."""

    def change(data: bytes) -> bytes:
        frame = pd.read_csv(io.BytesIO(data), dtype="str", keep_default_na=False)
        frame.loc[row % len(frame), column] = value
        return frame.to_csv(index=False).encode()

    return change


def marked(column: str, mark: str) -> Callable[[bytes], bytes]:
    """Write a mark behind the text of one cell."""

    def change(data: bytes) -> bytes:
        frame = pd.read_csv(io.BytesIO(data), dtype="str", keep_default_na=False)
        frame.loc[3 % len(frame), column] += mark
        return frame.to_csv(index=False).encode()

    return change


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(80):
            file.write(b"1,2\n" * 2**18)


def text_damages(name: str, rng: random.Random) -> Iterator[Case]:
    """Damage at random bytes of a delimited file, plain and gzipped."""

    def at(data: bytes) -> int:
        return rng.randrange(1, len(data) - 1)

    def cut(data: bytes) -> bytes:
        while True:
            end = at(data)
            if data[end - 1 : end] != b"\n":
                return data[:end]

    def inserted(mark: bytes, width: int = 0) -> Callable[[bytes], bytes]:
        def change(data: bytes) -> bytes:
            i = at(data)
            while width and data[i : i + 1] in (b'"', b"\r"):
                i = at(data)
            return data[:i] + mark + data[i + width :]

        return change

    def packed_cut(data: bytes) -> bytes:
        whole = gzip.compress(data)
        return whole[: at(whole)]

    def packed_flip(data: bytes) -> bytes:
        whole = bytearray(gzip.compress(data, mtime=0))
        whole[rng.randrange(20, len(whole))] ^= 16
        return bytes(whole)

    def row(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def apply(data: bytes) -> bytes:
            lines = data.splitlines(keepends=True)
            i = len(lines) // 2
            return b"".join([*lines[:i], change(lines[i]), *lines[i + 1 :]])

        return apply

    damages = {
        "a quotation mark inserted": inserted(b'"'),
        "a byte replaced by a quotation mark": inserted(b'"', 1),
        "a carriage return": inserted(b"\r"),
        "a NUL": inserted(b"\0"),
        "cut off": cut,
        "gzip cut off": packed_cut,
        "gzip damaged": packed_flip,
    }
    for kind, damage in damages.items():
        for _ in range(5):
            yield kind, changed(name, damage)
    rows = {
        "a field too many": lambda line: line.rstrip(b"\n") + b",1\n",
        "a field too few": lambda line: line[: line.rindex(b",")] + b"\n",
        "a blank line": lambda line: b"\n" + line,
        "a row twice": lambda line: line + line,
    }
    for change in rows.values():
        yield "rows: a row twice, a blank line, fields", changed(name, row(change))
    whole = {
        "utf16": lambda data: data.decode().encode("utf-16"),
        "empty": lambda _: b"",
        "header": lambda data: data[: data.index(b"\n") + 1],
        "no header": lambda data: data[data.index(b"\n") + 1 :],
        "returns": lambda data: data.replace(b"\n", b"\r"),
        "semicolons": lambda data: data.replace(b",", b";"),
        "tabs": lambda data: data.replace(b",", b"\t"),
        "a workbook": lambda data: b"PK\x03\x04" + data,
        "a page": lambda data: b"<!DOCTYPE html>\n" + data,
        "latin": lambda data: data.replace(b"0", b"\xe9"),
        "random": lambda data: rng.randbytes(len(data)),
    }
    for change in whole.values():
        yield "another encoding, separator or content", changed(name, change)
    yield "equal: CR LF, gzip, byte order mark", changed(name, lambda data: data.replace(b"\n", b"\r\n"))
    yield "equal: CR LF, gzip, byte order mark", changed(name, gzip.compress)
    yield "equal: CR LF, gzip, byte order mark", changed(name, lambda data: b"\xef\xbb\xbf" + data)
    for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda _: None, bomb):
        yield "a pipe, folder, device, nothing, a gzip bomb", replaced(name, make)


def value_damages(name: str) -> Iterator[Case]:
    """Values that are none, in text and in Parquet."""
    number, code = COLUMNS[name]
    for row, value in enumerate(NUMBERS if name != "jobs" else NUMBERS[4:6]):
        if value != "-1" or name != "crosswalk":  # a latitude
            yield "a number that is none", changed(name, cell(number, 7 * row, value))
    for value in ("", " ", "1e14", "44.0", "7", "\u0660", "4.4E14", '="44007"', "'44007"):
        yield "a code that is none", changed(name, cell(code, 3, value))
    for mark in (" ", "\u00a0", "\u200b", "\ufeff"):
        yield "a code or category with what nobody sees", changed(name, marked(code, mark))
        if name == "jobs":
            yield "a code or category with what nobody sees", changed(name, marked(number, mark))
            yield "a worker twice, with what nobody sees", changed(name, cell("id", 3, f"w1{mark}"))
    if name in ("weights", "flows", "ctpp"):
        yield "one or a thousand", changed(name, cell(number, 3, "1.000"))

    def parquet(change: Callable[[pd.DataFrame], pd.DataFrame], keep: float = 1) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            frame = pd.read_csv(folder / name, dtype="str")
            numeric = [n for n in frame if n.startswith(("S0", "SA", "SE", "SI")) or n in ("POP10", "LINENO")]
            frame = frame.astype(
                dict.fromkeys(numeric, "int64")
                | ({"blklatdd": float, "blklondd": float} if name == "crosswalk" else {})
            )
            (folder / name).unlink()
            change(frame).to_parquet(folder / name)
            (folder / name).chmod(0o600)
            data = (folder / name).read_bytes()
            (folder / name).write_bytes(data[: int(len(data) * keep)])

        return apply

    for keep in (0.01, 0.3, 0.6, 0.9, 0.999):
        yield "Parquet cut off", parquet(lambda frame: frame, keep)
    yield "Parquet: types, wrapping integers, nulls", parquet(lambda f: f.assign(**{code: range(len(f))}))
    yield "Parquet: types, wrapping integers, nulls", parquet(lambda f: f.assign(**{code: None}))
    yield "Parquet: types, wrapping integers, nulls", parquet(lambda f: f.drop(columns=code))
    if name in ("od", "aux", "earlier"):
        for value in (2**64 - 1, 2**63, 2**62):
            wide = {number: lambda f, v=value: pd.Series([v] * len(f), dtype="uint64").to_numpy()}
            yield "Parquet: types, wrapping integers, nulls", parquet(lambda f, wide=wide: f.assign(**wide))
        zeros = dict.fromkeys(("S000", *(f"S{g}0{i}" for g in "AEI" for i in "123")), 0)
        yield "all jobs zero", parquet(lambda f: f.assign(**zeros))


def twice(name: str) -> Iterator[Case]:
    """The same jobs in a second file."""

    def second(change: Callable[[pd.DataFrame, Path], object]) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            change(pd.read_csv(folder / name, dtype="str"), folder / f"{name}2")
            (folder / f"{name}2").chmod(0o600)

        return apply

    counts = [f"S{g}0{i}" for g in "AEI" for i in "123"] + ["S000"] if name == "od" else []
    for change in (
        lambda f, p: f.to_csv(p, index=False),
        lambda f, p: f[::-1].to_csv(p, index=False),
        lambda f, p: p.write_bytes(gzip.compress(f.to_csv(index=False).encode())),
        lambda f, p: f.astype(dict.fromkeys(counts, "int64")).to_parquet(p),
        lambda f, p: f[:1].to_csv(p, index=False),
    ):
        yield "the same jobs in two files", second(change)


def configurations() -> Iterator[Case]:
    """Configurations that cannot be used."""
    numbers = (
        "1e400",
        "1e99999999",
        "-1",
        "nan",
        "inf",
        "1/0",
        "9" * 5000,
        "0x1",
        "\u0661",
        "",
        "1,5",
        "1e-400",
    )
    texts = [f'"{n}"' for n in numbers] + ["8.6", "1e400", "true", "[]", "9" * 5000, "[" * 5000 + "]" * 5000]
    for value in texts:
        for old in ('epsilon = "8"', 'delta = "1e-4"', 'split_threshold = "5"'):
            key = old.split(" = ")[0]
            yield "configuration: exact numbers", _toml(old, f"{key} = {value}")
    for value in ("1" + "0" * 20, "0", "-5", "1.5", '"8"', "0x8000000000", "9" * 5000, "{}", "1e3"):
        yield "configuration: whole numbers", _toml("pool_below = 8", f"pool_below = {value}")
        yield "configuration: whole numbers", _toml("[weights]", f"[run]\nbatch_jobs = {value}\n[weights]")
        yield "configuration: whole numbers", _toml("year = 2019", f"year = {value}")
    for junk in (
        "[" * 5000,
        "x = " + "[" * 5000 + "]" * 5000,
        "a." * 5000 + "b = 1",
        "x = {" * 5000,
        "\0",
        "\ud800",
        "x = 1\nx = 2",
    ):
        yield "configuration: nesting, bytes", lambda folder, junk=junk: _append(folder / "lodes.toml", junk)
    for make in (os.mkfifo, Path.mkdir, lambda p: p.symlink_to("/dev/zero"), lambda _: None, Path.touch):
        yield "configuration: a pipe, folder, device, nothing", replaced("lodes.toml", make)
    for old, new in (
        ('levels = ["st"', 'levels = ["nowhere"'),
        ('area = "GEOID"', 'area = "none"'),
        ("C43 =", "C99 ="),
        ('level = "trct"', 'level = "x"'),
        ('file = "od*"', 'file = "\\u0000"'),
        ('file = "od*"', "file = 5"),
    ):
        yield "configuration: names", _toml(old, new)


def _toml(old: str, new: str) -> Callable[[Path], None]:
    return changed("lodes.toml", lambda data: data.replace(old.encode(), new.encode(), 1))


def _append(path: Path, text: str) -> None:
    path.write_bytes(text.encode(errors="surrogatepass") + b"\n" + path.read_bytes())


def documents(below: str) -> Iterator[Case]:
    """Changes of a plan.json, sealed again: of a plan that was reviewed, or of a release."""
    values: list[Any] = [
        "1e99999999",
        "1e9999",
        "1e12",
        "nan",
        "1/0",
        "9" * 5000,
        "-1",
        "0x1",
        "",
        None,
        [],
        10**400,
        1e300,
    ]
    for key in ("epsilon", "delta"):
        for value in values:
            yield f"{below}: exact numbers", _edited(below, {key: value})
    for value in ("1e99999999", "nan", "inf", "9" * 400, "x"):
        yield f"{below}: exact numbers", _edited(below, {"choices": {"thresholds": [value]}})
    for key in (
        "format",
        "mechanism",
        "guarantee",
        "geography",
        "pooling",
        "attributes",
        "parameters",
        "configuration",
        "notes",
        "files",
    ):
        for value in ([], "x", {"x": 10**30}):
            yield f"{below}: other values", _edited(below, {key: value})
    for text in ("[" * 100_000, "{}", "", "\0", "[1" + "0" * 5000 + "]", '{"a": NaN}', "\ufeff{}"):
        yield f"{below}: nesting, bytes", _edited(below, text)


def _edited(below: str, change: dict[str, Any] | str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / ("reviewed/plan/plan.json" if below == "plan" else "public/plan/plan.json")
        text = change
        if isinstance(change, dict):
            text = json.dumps(json.loads(path.read_text(encoding="utf-8")) | change)
        path.write_text(str(text), encoding="utf-8")
        if below == "plan":
            numbers = folder / "reviewed" / "forecast.json"
            said = json.loads(numbers.read_text(encoding="utf-8"))
            numbers.write_text(json.dumps(said | {"plan_sha256": sha256_of(path)}), encoding="utf-8")
        else:
            _seal(folder / "public", {"plan_sha256": sha256_of(path)})

    return apply


def _seal(public: Path, change: dict[str, Any]) -> None:
    stated = json.loads((public / "certificate.json").read_text(encoding="utf-8"))
    whole = Certificate.model_validate(stated)
    (public / "certificate.json").write_text(json.dumps(stated | change), encoding="utf-8")
    seal(public, whole)


def releases() -> Iterator[Case]:
    """Changes of a certificate, of data and of seals."""
    values: list[Any] = ["1e99999999", "9" * 5000, "-1", "nan", "\u0661", "", None, 1e300, [], {"x": 1}]
    for key in (
        "run",
        "requested",
        "record_level",
        "user_level",
        "totals",
        "classes",
        "software",
        "release",
        "format",
    ):
        for value in values:
            part = value if key == "format" else {"epsilon": value, "delta": value}
            yield "certificate", lambda folder, key=key, part=part: _seal(folder / "public", {key: part})
    name = "demo_od_main_JT00_2019.csv.gz"

    def data(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            path = folder / "public" / name
            path.write_bytes(change(path.read_bytes()))
            _seal(folder / "public", {})

        return apply

    def text(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
        return data(lambda packed: gzip.compress(change(gzip.decompress(packed))))

    for change in (
        lambda t: t.replace(b"\n0", b'\n"0', 1),
        lambda t: t + b"\n" * 2**28,
        lambda t: t + t,
        lambda t: t[:-1],
        lambda t: t.replace(b"\n", b"\r"),
    ):
        yield "data of a release", text(change)
    yield "data of a release", data(lambda packed: packed[:-9])
    yield "data of a release", data(lambda packed: packed + gzip.compress(b"1,2\n" * 2**26))
    for sealed in ("MANIFEST.json", "SHA256SUMS", "certificate.schema.json"):
        for content in (b"[" * 100_000, b"", b"\0" * 99, b"\xff"):
            yield "seals", lambda folder, s=sealed, c=content: (folder / "public" / s).write_bytes(c) and None
        yield "seals", replaced(f"public/{sealed}", os.mkfifo)


# --- trying


def begun(folder: Path, *arguments: str) -> int:
    """Begin a command in a child, in a folder; what it says goes to a file there."""
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout = sys.stderr = os.fdopen(said, "w", buffering=1, encoding="utf-8")  # pytest has its own
        try:
            odsynth(arguments)
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        finally:  # whatever happened: what this function was called from must not go on in the child
            os._exit(9)
    return child


def ended(child: int) -> int | None:
    """Return the status of a child; None if it was killed after the time limit."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def content(folder: Path) -> Content:
    """What a finished release was made from: its plan, its number of jobs, and the notes of its plan."""
    public = folder / "out" / "public"
    certificate = json.loads((public / "certificate.json").read_text(encoding="utf-8"))
    notes = json.loads((public / "plan" / "plan.json").read_text(encoding="utf-8"))["notes"]
    return certificate["plan_sha256"], certificate["totals"]["records"], notes


def outcome(folder: Path, status: int | None, truth: Content | None, kind: str) -> str:
    """Say what became of a command; the kind may begin with what must (`misreadings`)."""
    said = (folder / "said").read_text(encoding="utf-8", errors="replace")
    if status is None:
        return HUNG
    if status < 0:
        return SIGNAL
    if status == 0:
        if kind.startswith(("right", "numbers")):
            return EQUAL
        if truth is None or kind.startswith("refused"):
            return SILENT
        found = content(folder)
        if found == truth and not kind.startswith("told"):
            return EQUAL
        # Rows of public tables outside the geography are left out, and counted where everybody reads it.
        if found[1] == truth[1] and found[2] != truth[2]:
            return NOTED
        # What depends on homes is not refused.
        return WARNED if "WARNING: " in said else SILENT
    clear = status in (1, 2) and "Error: " in said and "not foreseen" not in said and "Traceback" not in said
    if not clear:
        return TRACEBACK
    return WRONGLY if kind.startswith("right") else REFUSED


def cases() -> Iterator[tuple[str, Case, tuple[str, ...]]]:
    """Yield what is damaged, the damage, and the command."""
    run = {"lodes": ("run", "lodes.toml"), "microdata": ("run", "microdata.toml")}
    for name in (*COLUMNS, "acs"):
        command = run["microdata" if name == "jobs" else "lodes"]
        for case in text_damages(name, random.Random(name)):
            yield name, case, command
        for case in value_damages(name) if name in COLUMNS else ():
            yield name, case, command
        for case in twice(name) if name in ("od", "jobs") else ():
            yield name, case, command
    for case in configurations():
        yield "configuration", case, ("plan", "lodes.toml")
    # A plan may name any zone; the homes are then not there.
    yield "configuration", ("configuration: names", _toml('"25"', '"03"')), run["lodes"]
    for case in documents("plan"):
        yield "plan", case, ("run", "lodes.toml", "--plan", "reviewed")
    for case in (*documents("release"), *releases()):
        yield "release", case, ("verify", "public")
    yield from misreadings()


def try_all(every: int = 1, begin: int = 0, report: Callable[[str], None] = print) -> dict[str, Counter[str]]:
    """Try each so-manieth case, and return how many of each kind had which outcome."""
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        make_region(whole)
        pipelines.make_plan(
            pipelines.load_config(whole / "lodes.toml")
        )  # what it loads, no child has to load
        truth: dict[str, Content] = {}
        for kind in ("microdata", "lodes"):
            shutil.rmtree(whole / "out", ignore_errors=True)
            if ended(begun(whole, "run", f"{kind}.toml")) != 0:
                raise SystemExit((whole / "said").read_text(encoding="utf-8"))
            truth[f"{kind}.toml"] = content(whole)
        if ended(begun(whole, "plan", "lodes.toml", "--out", "reviewed")) != 0:
            raise SystemExit((whole / "said").read_text(encoding="utf-8"))
        shutil.move(whole / "out" / "public", whole / "public")
        shutil.rmtree(whole / "out")
        for number, (what, (kind, damage), command) in islice(enumerate(cases()), begin, None, every):
            folder = Path(name) / "case"
            shutil.copytree(whole, folder)
            damage(folder)
            done = ended(begun(folder, *command))
            became = outcome(folder, done, truth.get(command[1]) if command[0] == "run" else None, kind)
            key = kind if what in ("configuration", "plan", "release") else f"file: {kind}"
            found.setdefault(key, Counter())[became] += 1
            if became not in GOOD:
                said = (folder / "said").read_text(encoding="utf-8", errors="replace")
                report(f"case {number}, {what}, {kind}: {became}: {said[-300:]}")
            shutil.rmtree(folder)
    return found


@click.command()
@click.option("--every", default=1, show_default=True, help="Try each so-manieth case only.")
@click.option("--begin", default=0, show_default=True, help="Number of the first.")
@click.option("--processes", default=1, show_default=True, help="That share them.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(every: int, begin: int, processes: int, page: Path | None) -> None:
    """Try them, and print a table by kind and outcome; an error if any is not as it must be."""
    found: dict[str, Counter[str]] = {}
    steps, first = [processes * every] * processes, range(begin, begin + processes * every, every)
    spawned = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))  # each forks
    with spawned as pool:
        for part in map(try_all, steps, first) if processes == 1 else pool.map(try_all, steps, first):
            for kind, counts in part.items():
                found[kind] = found.get(kind, Counter()) + counts
    rows = [(kind, *(str(counts[o]) for o in OUTCOMES)) for kind, counts in found.items()]
    whole = sum(found.values(), Counter())
    rows.append((f"all {whole.total():,}", *(str(whole[o]) for o in OUTCOMES)))
    text = table(["", *OUTCOMES], rows)
    bad = [name for name in OUTCOMES if name not in GOOD]
    counts = ", ".join(f"{whole[name]:,} {name}" for name in bad)
    text = f"Of {whole.total():,} malformed inputs and settings: {counts}.\n\n{text}"
    print(text)
    if any(whole[name] for name in bad):
        raise SystemExit("some were not refused with a message")
    if page is not None:
        fill(page, COMMAND, f"{this_machine()}\n\n{text}")


if __name__ == "__main__":
    main()
