"""What a kill leaves half made is removed by the next call; what a living process makes is not."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pipelines
from pipelines import LedgerError
from pipelines.ledger import chain
from pipelines.storage.durable import hold_lock, locks_refused, private_folder, whole_folder, write_whole

pytestmark = pytest.mark.quick

MAKES = """
import os, signal, sys
from pathlib import Path
from pipelines.storage.durable import whole_folder
with whole_folder(Path(sys.argv[1])) as made:
    (made / "part").write_bytes(b"half")
    print("there", flush=True)
    sys.stdin.read()
"""


def test_only_what_nobody_makes_any_more_is_swept(tmp_path: Path) -> None:
    others = []
    for name in ("killed", "living"):
        command = [sys.executable, "-c", MAKES, str(tmp_path / name)]
        others.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    killed, living = others
    for process in others:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    (tmp_path / ".partial-mine").mkdir()  # somebody's own
    (tmp_path / ".partial-12345678").symlink_to(tmp_path / ".partial-mine")
    assert len(list(tmp_path.glob(".partial-*"))) == 4
    write_whole(tmp_path / "x", b"new")
    assert len(list(tmp_path.glob(".partial-*"))) == 3
    living.communicate()
    assert (tmp_path / "living" / "part").read_bytes() == b"half"
    assert {path.name for path in tmp_path.iterdir()} == {
        ".partial-12345678",
        ".partial-mine",
        "living",
        "x",
    }


REPLACES = """
import os, signal, sys
from pathlib import Path
from pipelines.storage import durable
rename = durable.os.rename
def stop(source, target):
    rename(source, target)
    if Path(target).parent.name == ".replaced":
        if sys.argv[2] == "KILL":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt
durable.os.rename = stop
with durable.whole_folder(Path(sys.argv[1]), check=list) as made:
    (made / "part").write_bytes(b"new")
"""


@pytest.mark.parametrize("how", ["KILL", "INT"])
def test_what_is_being_replaced_outlives_a_stop_between_the_renames(tmp_path: Path, how: str) -> None:
    with whole_folder(tmp_path / "x") as made:
        (made / "part").write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", REPLACES, str(tmp_path / "x"), how], check=False).returncode
    write_whole(tmp_path / "other", b"")  # whoever is next puts it back
    assert (tmp_path / "x" / "part").read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"x", "other"}
    with whole_folder(tmp_path / "x", check=list) as made:
        (made / "part").write_bytes(b"new")
    assert (tmp_path / "x" / "part").read_bytes() == b"new"


def test_a_folder_that_was_swept_in_its_first_moment_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock it looks as a killed process leaves one."""
    opened, taken = os.open, list[Path]()

    def slow(path: Path, *arguments: object, **named: object) -> int:
        if len(taken) < 2 and Path(path).name == ".lock":
            taken.append(Path(path).parent)
            with monkeypatch.context() as patch:
                patch.setattr(os, "open", opened)
                write_whole(tmp_path / "other", b"")  # of another process, which sweeps
        return opened(path, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", slow)
    with private_folder(tmp_path) as made:
        assert made.is_dir()
        assert made not in taken
    assert len(taken) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_lock_that_the_file_system_refuses_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (errno.ENOLCK, errno.EACCES, errno.ENOTSUP, errno.ENOSYS):

        def refuse(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", refuse)
        monkeypatch.setattr(fcntl, "lockf", refuse)
        said = rf"the file system refuses the lock \({os.strerror(number)}\). Fix: use a disk that has locks"
        with pytest.raises(OSError, match=said) as caught, hold_lock(tmp_path / "lock"):
            pass
        assert caught.value.filename == str(tmp_path / "lock")
        with whole_folder(tmp_path / "made", check=list) as made:  # which needs none
            (made / "part").write_bytes(b"")
        assert locks_refused(tmp_path) is not None
    monkeypatch.undo()
    assert locks_refused(tmp_path) is None
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "made"}


def test_a_ledger_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says "busy" where a lock is refused, as where another process holds it."""

    def busy(path: Path) -> None:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorname = "SQLITE_BUSY"
        with chain._clear_errors(path):
            raise error

    with pytest.raises(LedgerError, match="another process has held the ledger"):
        busy(tmp_path / "ledger.sqlite")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite: the file system refuses the lock"):
        busy(tmp_path / "ledger.sqlite")


def test_the_next_plan_export_and_publication_remove_what_killed_ones_left(
    small_config: Callable[..., pipelines.ReleaseConfig], small_release: pipelines.Release, tmp_path: Path
) -> None:
    def left_in(folder: Path) -> Path:
        left = folder / ".partial-a_b2c3d4" / "plan"
        left.mkdir(parents=True)
        (left / "slots.parquet").write_bytes(b"half")
        return left.parent

    config, site = small_config(), tmp_path / "site"
    pipelines.publish(small_release.out, site, version="1")
    (title,) = site.iterdir()
    exports = tmp_path / "exports"
    exports.mkdir()
    left = [left_in(folder) for folder in (config.release.out.parent, title, exports)]
    pipelines.plan(config)
    pipelines.publish(small_release.out, site, version="2")
    small_release.export(["csv"], exports)
    assert [path for path in left if path.exists()] == []
