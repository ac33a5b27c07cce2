"""SIGTERM, SIGHUP and Ctrl-C end a verb in order, also when they come many at once; and no core is dumped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers import LOADED
from pipelines import Ledger
from pipelines.running.folder import RunFolder

pytestmark = pytest.mark.slow

# Imports once, and forks for each line that it is told: the signal and the function "at" which it is sent,
# "when" (before or after), how many "times", the signals "ignored", the "arguments" of the command. At
# that function the process says whether its core could be dumped.
SCRIPT = """
import ctypes, json, os, pkgutil, resource, signal, sys, time
import pipelines.publishing.publishing
import pipelines.service.queue.worker_process as worker_process
from pipelines.release import certificate, provenance
from pipelines.cli.main import main
{LOADED}
clean = provenance.SourceState("0.0", "0" * 40, False)
certificate.source_state = lambda: clean

def send(told, shown):
    core, dumpable = resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
    shown.write(json.dumps({"core": core, "dumpable": dumpable}).encode())
    shown.close()
    process = os.getpid()
    if told["signal"] and (sender := os.fork()) == 0:
        for _ in range(told["times"]):
            os.kill(process, told["signal"])
            time.sleep(0.002)
        os._exit(0)
    if told["signal"]:
        os.waitpid(sender, 0)  # which the first ends, unless another thread was given it
        for _ in range(0 if told["signal"] in told["ignored"] else 3000):  # then it is handled here
            time.sleep(0.01)

for line in sys.stdin:
    told = json.loads(line)
    reading, writing = os.pipe()
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # Whatever these tests were started under, as nohup.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for number in told["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        if told["arguments"] == ["worker"]:
            worker_process._TASKS["plan"] = lambda *_: send(told, os.fdopen(saying, "wb"))
            give, take = os.pipe()
            os.write(take, json.dumps(told["job"]).encode() + b"\\n")
            os.dup2(give, 0)
            os._exit(worker_process.main())
        owner, _, name = told["at"].rpartition(".")
        target = pkgutil.resolve_name("pipelines." + owner)
        real = getattr(target, name)
        def armed(*a, **k):
            result = real(*a, **k) if told["when"] == "after" else None
            setattr(target, name, real)
            send(told, os.fdopen(saying, "wb"))
            return real(*a, **k) if told["when"] == "before" else result
        setattr(target, name, armed)
        main(told["arguments"])
    os.close(writing)
    os.close(saying)
    with os.fdopen(said, "rb") as file:
        state = file.read().decode()
    with os.fdopen(reading, "rb") as file:
        words = file.read().decode()
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps({"code": code, "words": words, "state": json.loads(state or "null")}), flush=True)
"""

Start = Callable[..., tuple[int, str]]
CLOSED = {"core": [0, 0], "dumpable": 0 if sys.platform == "linux" else -1}


@pytest.fixture(scope="module")
def start(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Run a verb that is sent a signal before or after a function; return its exit code and what it says."""
    config = tmp_path_factory.mktemp("loaded") / "small.toml"
    config.write_text(config_text(), encoding="utf-8")
    script = SCRIPT.replace("{LOADED}", LOADED.format(config="sys.argv[1]"))
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, config],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def run(at: str, number: int, *arguments: object, times: int = 1, **more: object) -> tuple[int, str]:
        when, _, name = at.partition(":")
        told = {"when": when, "at": name, "signal": number, "times": times, "ignored": []}
        print(json.dumps(told | {"arguments": [str(a) for a in arguments]} | more), file=asked, flush=True)
        answer = json.loads(answers.readline())
        assert answer["state"] == CLOSED, answer
        return answer["code"], answer["words"]

    with process:
        yield run
        asked.close()


@pytest.fixture
def paid(config_text: Callable[..., str], tmp_path: Path) -> Path:
    ledger = {"file": str(tmp_path / "ledger.sqlite"), "data_set": "jobs", "epsilon": "20", "delta": "1e-4"}
    path = tmp_path / "small.toml"
    path.write_text(config_text({"ledger": ledger, "run.batch_jobs": 100}), encoding="utf-8")
    return path


def test_a_signal_ends_a_run_that_is_noted_and_resumed(start: Start, paid: Path) -> None:
    out, kinds = paid.with_name("release"), []
    verb: list[object] = ["run", paid]
    for number, name, kind, times in (
        (signal.SIGTERM, "SIGTERM", "Terminated", 1),
        (signal.SIGHUP, "SIGHUP", "HungUp", 1),
        (signal.SIGINT, "SIGINT", "KeyboardInterrupt", 1),
        (signal.SIGTERM, "SIGTERM", "Terminated", 300),  # again while the first is being written
    ):
        code, words = start("before:running.run.write_public", number, *verb, times=times)
        assert code == 128 + number or (times > 1 and code == -number), words  # when all is written
        assert f"Continue with: odsynth resume {out}" in words
        assert words.endswith(f"Stopped by {name}.\n")
        lines = (RunFolder.of(out).confidential / "log.jsonl").read_text(encoding="utf-8").splitlines()
        kinds.append(json.loads(lines[-1])["error"])
        assert kinds[-1] == kind
        verb = ["resume", out]
    entries = Ledger(paid.with_name("ledger.sqlite")).entries()
    assert [entry.detail for entry in entries if entry.kind == "failed"] == kinds
    assert start("before:running.run.write_public", 0, *verb)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["confidential", "public"]
    assert Ledger(paid.with_name("ledger.sqlite")).accounts()[0].unfinished == 0


def test_a_run_stopped_before_its_state_is_saved_leaves_nothing(start: Start, paid: Path) -> None:
    for at in ("after:running.run.keep_origins", "before:running.folder.write_whole"):
        code, words = start(at, signal.SIGTERM, "run", paid, times=20)
        assert code in (143, -15), words
        assert "resume" not in words
        assert [path.name for path in paid.parent.iterdir()] == ["small.toml"]


def test_a_process_that_ignores_hang_ups_goes_on(start: Start, paid: Path) -> None:
    """As nohup makes it."""
    hup = signal.SIGHUP
    assert start("before:running.run.write_public", hup, "run", paid, ignored=[hup])[0] == 0
    assert paid.with_name("release").is_dir()


def test_plan_and_publish_leave_nothing_or_what_the_next_call_completes(start: Start, paid: Path) -> None:
    code, words = start("before:running.report.draw_cells", signal.SIGTERM, "plan", paid)
    assert (code, words.splitlines()[-1]) == (143, "Stopped by SIGTERM.")
    assert [path.name for path in paid.parent.iterdir()] == ["small.toml"]
    out, site = paid.with_name("release"), paid.with_name("site")
    assert start("before:running.run.write_public", 0, "run", paid)[0] == 0
    code, words = start("after:publishing.destination.Place.copy", signal.SIGHUP, "publish", out, site)
    assert code == 129, words
    assert "The same command completes it." in words
    assert not list(site.rglob(".partial-*"))
    assert start("before:publishing.destination.Place.copy", 0, "publish", out, site)[0] == 0


def test_a_worker_of_the_service_ends_in_order(start: Start, paid: Path) -> None:
    from pipelines import load_config

    whole = json.loads(json.dumps(load_config(paid).model_dump(mode="python"), default=str))
    nothing = dict.fromkeys(("plan", "variation", "content", "version", "signer", "scheduler"))
    folders = ("plan_folder", "comparison_folder", "outs", "releases")
    places = {name: str(paid.parent / name) for name in folders}
    job = {"task": "plan", "configuration": whole, "folder": str(paid.parent), **nothing, **places}
    assert start(":", signal.SIGTERM, "worker", job=job) == (143, "")
