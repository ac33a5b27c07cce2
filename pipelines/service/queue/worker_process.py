"""A process that does one task of one run and ends: ``python -m pipelines.service.queue.worker_main``.

It is told its job in one line of JSON on standard input, and answers in lines of JSON on standard output: the
names of steps as they begin, how many of their parts are done, and last what came of it. It knows no database
and no address; confidential data are read here and nowhere else. It ends with the service: gone, as if
killed, when standard input is closed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import BaseModel

from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.planning.guards import public_files
from pipelines.publishing.publishing import check_free, publish
from pipelines.running.folder import BusyError, RunFolder
from pipelines.running.preflight import plan_numbers
from pipelines.running.process import ending_on_signals, exit_code, forbid_core_dumps, keep_freed_memory
from pipelines.running.report import plan
from pipelines.running.run import make_release
from pipelines.running.steps import logged_to, step_of, words_of
from pipelines.service.queue.comparisons import compare
from pipelines.storage.checksums import CHECKSUMS, sha256_of
from pipelines.storage.errors import private_message, shown_message

EXIT_BUSY = 75  # EX_TEMPFAIL of sysexits.h: another process is making this release

_AGAIN = "Fix: submit the run again, which plans it again"
_COUNT_SECONDS = 0.5  # between two counts of parts, of which there may be thousands

_PATH = re.compile(r"(?<![\w.:/])/(?:[^\s/:;,'\"]+/)*")


class Job(BaseModel):
    """What a worker process is told of a run and of the service."""

    task: Literal["compare", "plan", "release", "publish"]
    configuration: dict[str, Any]
    folder: Path  # of the service, to which paths of the configuration are relative
    plan: dict[str, Any] | None  # what was reviewed
    variation: dict[str, Any] | None
    content: str | None  # what was approved
    version: str | None
    plan_folder: Path
    comparison_folder: Path
    outs: Path
    releases: Path
    signer: Path | None
    scheduler: str | None


def main() -> int:
    """Do the job."""
    forbid_core_dumps()
    keep_freed_memory()
    # What libraries print is not for the service: it goes where errors go, into the private log of the run.
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    with os.fdopen(0, "rb", buffering=0, closefd=False) as source:
        job = Job.model_validate_json(source.readline())
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    config = ReleaseConfig.model_validate(job.configuration, context={"folder": job.folder})
    try:
        reporter = _Reporter(answers)
        with ending_on_signals(), logged_to(reporter):
            result = _TASKS[job.task](config, job, reporter)
    except BusyError:
        return EXIT_BUSY
    except KeyboardInterrupt as stop:  # the outcome is noted; the service gives the run to another worker
        return exit_code(stop)[1]
    except Exception as error:
        if os.environ.get("ODSYNTH_DEBUG"):
            traceback.print_exc()
        whole = json.loads(json.dumps(config.model_dump(mode="python"), default=str))
        paths = [
            *_paths(whole),
            *(str(path / "x") for path in (job.outs, job.releases)),
            *_paths(str(getattr(error, "filename", ""))),
        ]
        message = without_paths(shown_message(error, one_line=True), paths)
        _answer(answers, failed=type(error).__name__, message=message)
        print(private_message(error), file=sys.stderr)  # the private log of the run
        return 1
    _answer(answers, done=result)
    return 0


def without_paths(text: str, paths: list[str]) -> str:
    """Return a message in which files are named without their folders."""
    folders = {str(folder) for path in paths for folder in Path(path).parents if folder != Path("/")}
    for folder in sorted(folders, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return _PATH.sub("", text)


class _Reporter(logging.Handler):
    """Says how far a task is."""

    def __init__(self, answers: TextIO) -> None:
        super().__init__()
        self._answers, self._counted = answers, 0.0

    def step(self, title: str, number: int = 1, of: int | None = 1) -> None:
        """Say that a step begins."""
        _answer(self._answers, step=title, number=number, of=of)
        self._counted = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the steps of a plan or a run; other words may be confidential, as warnings of homes are."""
        if (begun := step_of(record)) is not None:
            self.step(begun.step.value, begun.number, begun.of)
        else:
            print(words_of(record), file=sys.stderr)  # the private log of the run

    def count(self, done: int, total: int) -> None:
        """Say how many parts of the step are done; now and then, and the last."""
        now = time.monotonic()
        if done == total or now - self._counted > _COUNT_SECONDS:
            _answer(self._answers, parts=[done, total])
            self._counted = now


def _compare(config: ReleaseConfig, job: Job, reporter: _Reporter) -> dict[str, str]:
    """What `odsynth tune` does; reads no home, and pays nothing."""
    reporter.step("Reading public inputs, and trying plans")
    outcome = compare(config, job.variation or {}, job.comparison_folder, reporter.count)
    return {"comparison": json.dumps(outcome)}


def _plan(config: ReleaseConfig, job: Job, reporter: _Reporter) -> dict[str, str]:
    """What `odsynth plan` does; reads no home."""
    kept = keep_plan(config, job.plan_folder, job.scheduler)
    return {"plan": json.dumps(kept)}


def _release(config: ReleaseConfig, job: Job, reporter: _Reporter) -> dict[str, str]:
    """What `odsynth run --plan` and `odsynth resume` do; a run that is not planned yet is planned first."""
    os.umask(os.umask(0) | 0o007)

    folder, out, scheduler = job.plan_folder, config.release.out, job.scheduler
    if not (RunFolder.of(out).begun or RunFolder(out).checked):  # then it goes on with the plan that it has
        check_plan(config, folder, job.plan or keep_plan(config, folder, scheduler))
        if job.version is not None:  # that it can be published is looked at once more before it is paid for
            check_free(job.releases, config.release.name, job.version)
    make_release(config, plan=folder, progress=reporter.count, scheduler=scheduler)
    public = out / "public"
    certificate = (public / "certificate.json").read_text(encoding="utf-8")
    return {"certificate": certificate, "content": _content(public)}


def _publish(config: ReleaseConfig, job: Job, reporter: _Reporter) -> dict[str, str]:
    """What `odsynth publish` does, with the content that was approved and no other."""
    reporter.step("Verifying and copying the public files")
    done = publish(config.release.out, job.releases, version=job.version, key=job.signer, content=job.content)
    notes = {"message": "; ".join(done.notes)} if done.notes else {}
    return {"published_name": done.name, "published_version": done.version, **notes}


_TASKS = {"compare": _compare, "plan": _plan, "release": _release, "publish": _publish}


def _content(public: Path) -> str:
    return hashlib.sha256((public / CHECKSUMS).read_bytes()).hexdigest()


def _paths(value: Any) -> list[str]:
    """Return the absolute paths in a document."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [path for part in parts for path in _paths(part)]
    return [value] if isinstance(value, str) and value.startswith("/") else []


def _answer(answers: TextIO, **line: object) -> None:
    answers.write(json.dumps(line) + "\n")


def _end_with_the_service() -> None:
    os.read(0, 1)
    os._exit(EXIT_BUSY)


def keep_plan(config: ReleaseConfig, folder: Path, scheduler: str | None = None) -> dict[str, Any]:
    """Plan a release; no home is read."""
    shutil.rmtree(folder, ignore_errors=True)
    inputs = _inputs(config)  # before they are read: what changes from here on is noticed
    written = plan(config, folder, scheduler=scheduler)
    return {**plan_numbers(folder)[0], "report": written.text(), "inputs": inputs}


def check_plan(config: ReleaseConfig, folder: Path, reviewed: Mapping[str, Any]) -> None:
    """Refuse a plan that is not the reviewed one, and public files that it was not made from."""
    try:
        numbers, _ = plan_numbers(folder)
    except ConfigError:
        numbers = {}
    if not numbers or any(reviewed.get(name) != value for name, value in numbers.items()):
        raise ConfigError([f"{folder}: this is not the plan that was reviewed. {_AGAIN}"])
    before, now = reviewed.get("inputs", {}), _inputs(config)
    if changed := [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]:
        raise ConfigError([f"{', '.join(changed)}: changed after the plan was made. {_AGAIN}"])


def _inputs(config: ReleaseConfig) -> dict[str, str]:
    """Return the SHA-256 of every public file, by its key in the configuration and its name."""
    return {
        f"{key} {part.relative_to(path.parent)}": sha256_of(part)
        for key, named in public_files(config)
        for path in expand(named)
        for part in _parts(path)
        if part.is_file()
    }


def _parts(path: Path) -> list[Path]:
    """Return all that is read with a file: the parts of a shapefile, or of a database that is a folder."""
    if path.suffix.lower() == ".shp":
        return sorted(path.parent.glob(f"{path.stem}.*"))
    return sorted(path.rglob("*")) if path.is_dir() else [path]
