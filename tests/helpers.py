"""What tests of many rooms do: change configurations, break releases and seal them again."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import synth
from pipelines.plans.form import plan_hash
from pipelines.plans.storage import load_plan
from pipelines.release import verify as verify_alone
from pipelines.release.accuracy import ACCURACY_FILE, read_accuracy
from pipelines.release.certificate import Certificate, certificate_text, parse_certificate
from pipelines.release.csv_tables import NAME_CSV, write_csv_tables
from pipelines.release.intervals import interval_files
from pipelines.release.layout import expected_files, public_files, seal, texts_of, with_sizes
from pipelines.release.names import NAME_FILE
from pipelines.release.readme import DETAILS_FILE, describe_plan
from pipelines.release.records import DATA_PACKAGE, record_texts
from pipelines.release.signing import PUBLIC_KEY
from pipelines.release.verification import VerificationError, verify
from pipelines.release.workplaces import drawn_plan
from pipelines.running import run as runs
from pipelines.running.steps import StepBegins, step_of, words_of
from pipelines.storage.checksums import sha256_of

ROOT = Path(__file__).resolve().parent.parent

PATIENCE = 300.0  # seconds for what takes a few on a machine that does nothing else

# Before a page of a browser: its maps have a pixel for sixteen of the window. Without a graphics card nearly
# all time of a map goes into pixels, and its words, lines and areas are the same.
COARSE_MAPS = "Object.defineProperty(window, 'devicePixelRatio', { value: 0.25 })"

# A schedule of a release calendar, and a time.
NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)  # 2021, 2022 and 2023 are due
SCHEDULE = """\
base = "../base.toml"
start = 2022-01-01
cron = "0 6 1 2 *"
period = "year"

[set]
"release.name" = "Small region {year}"
"release.year" = "{year}"
"release.out" = "out/{year}"
"jobs.file" = "jobs/{year}.csv.gz"
"""


def load(path: str) -> ModuleType:
    """Import a file that is of no package, such as a benchmark, by its path in the repository."""
    name = path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def with_values(tables: Mapping[str, Any], *changes: Mapping[str, object]) -> dict[str, Any]:
    """Return the tables of a configuration with other values of some keys.

    Keys are paths: "plan.prior", "auxiliary.0.file"; a whole table may be a value, also one
    more of a list. None takes a key out.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(tables))
    for key, value in (item for change in changes for item in change.items()):
        *parents, last = (int(part) if part.isdigit() else part for part in key.split("."))
        table: Any = changed
        for part in parents:
            table = table.setdefault(part, {}) if isinstance(table, dict) else table[part]
        if value is None:
            del table[last]
        elif isinstance(table, list) and last == len(table):
            table.append(value)
        else:
            table[last] = str(value) if isinstance(value, Path) else copy.deepcopy(value)
    return changed


# For a script: killed before or after a function, "before:running.run.verify_run".
KILLED = """
import os, pkgutil, signal
from pathlib import Path

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def find(moment):
    when, name = moment.split(":")
    owner, _, attribute = name.rpartition(".")
    target = Path if owner == "Path" else pkgutil.resolve_name("pipelines." + owner)
    return when, target, attribute, getattr(target, attribute)

def arm(moment):
    when, target, attribute, real = find(moment)
    setattr(target, attribute, die if when == "before" else lambda *a, **k: (real(*a, **k), die()))
"""

# For a script that forks for each run: loads once what the first plan of a process loads, which takes longer
# than the run.
LOADED = """
import pipelines, pipelines.running.report, pipelines.running.run
pipelines.make_plan(pipelines.load_config({config}))
"""


def words_of_release(public: Path) -> str:
    """The read-me of a release, and its page of details."""
    return "".join((public / name).read_text(encoding="utf-8") for name in ("README.md", DETAILS_FILE))


def same_key() -> synth.RunKey:
    """The key of fixtures: their releases are fit for publication, and are the same in every test run."""
    return synth.RunKey(bytes(range(32)), secure=True)


def copies(folder: Path, parent: Path) -> Iterator[Path]:
    """Copies of a folder to change, one after the other."""
    return (Path(shutil.copytree(folder, parent / f"copy{number}")) for number in itertools.count())


def freeze(patch: pytest.MonkeyPatch) -> None:
    """Make every release carry the same day, also at midnight."""
    patch.setattr(runs, "time_now", lambda: "2026-01-02T03:04:05Z")


def released_files(public: Path) -> list[str]:
    """The files of an unsigned release with names and a forecast, but manifest and checksums."""
    plan = load_plan(public / "plan")
    drawn = interval_files(plan)
    return sorted([*expected_files(plan.config), *drawn, NAME_FILE, NAME_CSV, ACCURACY_FILE])


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON document in its place."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def german_copy(public: Path, folder: Path) -> Path:
    """Copy a public folder; the copy's plan says that it speaks German, for what is made of a release."""
    german = Path(shutil.copytree(public, folder / "public"))

    def say(plan: dict[str, Any]) -> None:
        plan["configuration"]["release"]["language"] = "de"

    edit_json(german / "plan" / "plan.json", say)
    return german


def seal_again(folder: Path) -> None:
    """Write records and digests of a public folder anew, as somebody would who has changed a file of it."""
    certificate = parse_certificate((folder / "certificate.json").read_bytes())
    _write_records(folder, certificate)
    seal(folder, certificate)


def _write_records(folder: Path, certificate: Certificate) -> None:
    """Write the records anew, where there are some and the plan is one."""
    if (folder / DATA_PACKAGE).exists():
        with suppress(Exception):
            plan = load_plan(folder / "plan")
            hashes = {name: sha256_of(folder / name) for name in public_files(folder)}
            about = describe_plan(plan, certificate, named=NAME_FILE in hashes)
            for name, text in record_texts(about, with_sizes(folder, hashes)).items():
                (folder / name).write_text(text, encoding="utf-8")


def forge(folder: Path, document: Any) -> None:
    """Write a certificate, the read-me and the seals anew, as an attacker who has this program would."""
    certificate = parse_certificate(json.dumps(document))
    before = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["plan_sha256"]
    (folder / "certificate.json").write_text(certificate_text(certificate), encoding="utf-8")
    try:
        plan = drawn_plan(folder, load_plan(folder / "plan"))
    except Exception:
        pass
    else:
        sheet = folder / ACCURACY_FILE
        if sheet.is_file() and before in (said := sheet.read_text(encoding="utf-8")):
            sheet.write_text(said.replace(before, certificate.plan_sha256), encoding="utf-8")
        if plan.config.release.csv:
            write_csv_tables(folder)
        with suppress(ValueError):  # of a plan that is refused, or a sheet that is none
            accuracy = read_accuracy(folder, certificate.plan_sha256)
            about = describe_plan(plan, certificate, named=(folder / NAME_FILE).is_file())
            signed = (folder / PUBLIC_KEY).is_file()
            texts = texts_of(plan, certificate, about, signed=signed, accuracy=accuracy)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
    _write_records(folder, certificate)
    seal(folder, certificate)


def plan_again(public: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the plan of a release, and whatever follows from it by its hash."""
    path = public / "plan" / "plan.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    path.write_text(text, encoding="utf-8")
    certificate = json.loads((public / "certificate.json").read_text(encoding="utf-8"))
    forge(public, certificate | {"plan_sha256": plan_hash(path.parent)})


def alone(folder: Path, key: Path | None = None) -> str | None:
    """Return why verify.py, which releases carry, does not pass a release; None if it does."""
    try:
        for _ in verify_alone.verify(folder, key):
            pass
    except Exception as error:
        return str(error)
    return None


def forging(stated: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Return what puts a changed copy of a certificate into a release, and seals it again."""

    def forged(public: Path) -> None:
        document = copy.deepcopy(stated)
        change(document)
        forge(public, document)

    return forged


def refuse_each(
    public: Path,
    scratch: Path,
    forgeries: Sequence[tuple[Callable[[Path], object], str]],
    *,
    alone_too: bool = True,
) -> None:
    """Compare which check of `odsynth verify` refuses each change of a release, as verify.py may too."""
    others = {}
    for number, (change, check) in enumerate(forgeries):
        forged = Path(shutil.copytree(public, scratch / str(number)))
        change(forged)
        error = refused(forged)
        if error.check != check or (alone(forged) is not None) != alone_too:
            others[number] = check, str(error), alone(forged)
    assert not others, others


def refused(folder: Path, key: Path | None = None) -> VerificationError:
    """Return why a release does not pass."""
    with pytest.raises(VerificationError) as caught:
        list(verify(folder, key))
    assert str(caught.value).startswith(f"{caught.value.check}: ")
    return caught.value


class Said(list[str]):
    """What was logged, in words for people, and the steps that began."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[StepBegins] = []
        self.handler = logging.Handler()
        self.handler.emit = self._emit  # type: ignore[method-assign]

    def clear(self) -> None:
        super().clear()
        self.steps.clear()

    def _emit(self, record: logging.LogRecord) -> None:
        self.append(words_of(record))
        self.steps += filter(None, [step_of(record)])
