"""Runs that are not finished: found, described, and removed when that is asked for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from helpers import KILLED, LOADED
from pipelines import ConfigError, Ledger, resume, run
from pipelines.cli.main import main
from pipelines.release import certificate
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.running.unfinished import unfinished_runs, wipe_run
from pipelines.storage.durable import hold_lock

from .helpers import Configs, interrupted, left_over


def verb(*words: object, answer: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words], input=answer)
    return done.exit_code, done.output


def test_a_paid_run_is_described_and_removed_by_name_only(paid_config: Configs, book: Path) -> None:
    config = paid_config()
    interrupted(config)
    staging, parent = RunFolder.of(config.release.out), config.release.out.parent
    state = staging.load()
    (found,) = unfinished_runs(parent)
    assert found == unfinished_runs(config.release.out)[0] == unfinished_runs(parent.parent)[0]
    assert (found.out, found.folder, found.at_work, found.begun) == (
        config.release.out,
        staging.folder,
        False,
        True,
    )
    assert found.holds == ("plan", "confidential homes", "key", "draws of 1 batch")
    assert (found.homes, found.problem) == (True, "")
    assert state.debit is not None
    assert f"debit {state.debit} of 'jobs' in {book}" in found.paid
    assert found.software == state.certificate.software.words
    assert found.since.isoformat() == state.certificate.created.replace("Z", "+00:00")
    code, words = verb("runs", parent)
    assert (code, staging.begun) == (0, True)
    assert f"odsynth resume {config.release.out}" in words
    for answer in ("", "\n", "y\n", "yes\n", "Release\n"):
        code, words = verb("runs", parent, "--wipe", answer=answer)
        assert "What it has spent stays spent" in words
        assert staging.begun, answer
    code, words = verb("runs", parent, "--wipe", answer="release\n")
    assert (code, f"Removed {staging.folder}" in words, left_over(config)) == (0, True, [])
    assert [entry.kind for entry in Ledger(book).entries()][-1] == "abandoned"
    assert Ledger(book).accounts()[0].debits == 1
    assert verb("runs", parent) == (0, f"No unfinished run in {parent}.\n")


def test_one_that_nothing_was_paid_for_is_removed_when_confirmed(small_config: Configs) -> None:
    config = small_config()
    interrupted(config)
    assert "no ledger was debited" in verb("runs", config.release.out)[1]
    assert verb("runs", config.release.out, "--wipe", answer="n\n")[0] == 0
    assert RunFolder.of(config.release.out).begun
    verb("runs", config.release.out, "--wipe", answer="y\n")
    assert left_over(config) == []
    assert verb("runs", config.release.out / "no" / "such")[0] == 1


def test_one_at_work_is_shown_and_not_touched(small_config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    config, seen = small_config(), list[str]()
    real = releasing.sample_release

    def meanwhile(*arguments: object, **named: object) -> object:
        (found,) = unfinished_runs(config.release.out)
        assert found.at_work is True
        with pytest.raises(ConfigError, match="another process is making this release"):
            wipe_run(found)
        seen.append(verb("runs", config.release.out, "--wipe", answer="y\nrelease\n")[1])
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(releasing, "sample_release", meanwhile)
    run(config)
    assert ": at work\n" in seen[0]
    assert "is left alone" in seen[0]
    assert left_over(config) == ["release"]


def test_what_cannot_be_read_is_taken_for_paid(paid_config: Configs, book: Path) -> None:
    config = paid_config()
    interrupted(config)
    state = RunFolder.of(config.release.out).confidential / "state.json"
    whole = state.read_bytes()
    book.rename(book.with_name("elsewhere"))
    (found,) = unfinished_runs(config.release.out)
    assert found.paid  # the debit is noted with the run
    document = json.loads(whole) | {"debit": None}
    state.write_text(json.dumps(document), encoding="utf-8")
    book.write_bytes(b"no ledger")
    book.chmod(0o600)
    (found,) = unfinished_runs(config.release.out)
    assert found.paid.startswith("perhaps: the ledger")
    state.write_bytes(whole[:-100])
    (found,) = unfinished_runs(config.release.out)
    assert found.paid.startswith("perhaps: its state")
    assert "state.json: damaged, or begun by another version" in found.problem
    assert verb("runs", config.release.out, "--wipe", answer="y\n")[0] == 0
    assert state.exists()
    verb("runs", config.release.out, "--wipe", answer="release\n")
    assert left_over(config) == []


def test_one_that_went_on_meanwhile_is_not_removed(paid_config: Configs) -> None:
    config = paid_config()
    folder = RunFolder.of(config.release.out)
    for path in (folder.folder, folder.confidential, folder.homes):
        path.mkdir(mode=0o700)
    (found,) = unfinished_runs(config.release.out)
    shutil.rmtree(folder.folder)
    interrupted(config)
    with pytest.raises(ConfigError, match="this run was changed meanwhile"):
        wipe_run(found)
    with pytest.raises(ConfigError, match="a run was begun here meanwhile"):
        folder.wipe(begun=False)
    assert folder.begun


# Imports once, and forks for each run: a line of input says where it is killed.
SCRIPT = f"""{KILLED}
import sys, pipelines.running.folder
{LOADED.format(config="sys.argv[1]")}
for line in sys.stdin:
    if os.fork() == 0:
        arm(line.strip())
        pipelines.run(pipelines.load_config(sys.argv[1]))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.mark.slow
def test_homes_that_a_kill_left_are_found_and_removed_by_the_next_call(
    config_text: Callable[..., str], tmp_path: Path
) -> None:
    """Killed before the state is saved: nothing is paid, and nothing could go on with them."""
    config, out = tmp_path / "small.toml", tmp_path / "release"
    config.write_text(config_text(), encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, str(config)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def kill(moment: str) -> None:
        print(moment, file=asked, flush=True)
        assert int(answers.readline()) == -signal.SIGKILL
        assert list(RunFolder.of(out).homes.glob("*"))
        assert not RunFolder.of(out).begun

    with process:
        kill("after:running.run.keep_origins")
        (found,) = unfinished_runs(tmp_path)
        assert (found.begun, found.at_work, found.homes, found.paid) == (False, False, True, "")
        assert "stopped before it was paid for" in verb("runs", tmp_path)[1]
        with pytest.raises(ConfigError, match=r"no unfinished run here, and the rest of a run .* is removed"):
            resume(out)
        assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]
        kill("before:running.folder.sync_tree")
        verb("runs", tmp_path, "--wipe", answer="y\n")
        assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]
        kill("after:running.run.keep_origins")
        asked.close()
    assert verb("run", config)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release", "small.toml"]


def test_an_abandoned_folder_of_a_living_process_stays(small_config: Configs) -> None:
    config = small_config()
    folder = RunFolder.of(config.release.out)
    for path in (folder.folder, folder.confidential, folder.homes):
        path.mkdir(mode=0o700)
    with hold_lock(folder.confidential / "lock") as free:
        assert free
        with pytest.raises(ConfigError, match="another process is making this release"):
            resume(config.release.out)
        assert unfinished_runs(config.release.out)[0].at_work
    assert folder.homes.exists()


def test_the_version_that_began_a_run_is_named_wherever_it_is_refused(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config()
    interrupted(config)
    state = RunFolder.of(config.release.out).confidential / "state.json"
    document = json.loads(state.read_text(encoding="utf-8"))
    stated = json.loads(document["certificate"])
    stated["software"] |= {"version": "7.8.9", "commit": "abcdef0123"}
    stated["software"]["dependencies"] |= {"numpy": "0.1"}
    named = r"odsynth 7\.8\.9, commit abcdef0123"
    for changed in ({}, {"format": "odsynth run 3"}, {"config": {"strange": 1}}):
        new = document | changed | {"certificate": json.dumps(stated)}
        state.write_text(json.dumps(new), encoding="utf-8")
        for call in (lambda: resume(config.release.out), lambda: releasing.make_release(config)):
            with pytest.raises(
                ConfigError, match=f"begun by another version .*, {named}.* numpy 0.1 .now"
            ) as e:
                call()
            assert f"this is {certificate.this_software().words}" in str(e.value)
        with pytest.raises(
            ConfigError, match=f"an unfinished run of this release is there, begun by {named}"
        ):
            run(config)
        assert "by odsynth 7.8.9, commit abcdef0123" in verb("runs", config.release.out)[1]
    for changed in ({"config": {"strange": 1}}, {"format": "odsynth run 2"}):
        state.write_text(json.dumps(document | changed), encoding="utf-8")
        with pytest.raises(
            ConfigError, match="damaged, and not what this version wrote when it began the run"
        ):
            resume(config.release.out)


def test_modes_of_others_are_not_touched(small_config: Configs) -> None:
    config = small_config()
    interrupted(config)
    folder = RunFolder.of(config.release.out).folder
    os.chmod(folder, 0o777)
    code, words = verb("runs", config.release.out, "--wipe", answer="y\n")
    assert (code, "must be a folder of yours" in words) == (1, True)
    assert folder.exists()


def test_a_damaged_plan_of_a_run_is_named(small_config: Configs) -> None:
    config = small_config()
    interrupted(config)
    slots = RunFolder.of(config.release.out).public / "plan" / "slots.parquet"
    slots.write_bytes(slots.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=r"plan cannot be used: slots\.parquet: .* give the run up with"):
        resume(config.release.out)
