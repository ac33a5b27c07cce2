"""What has its name is whole, on the disk, and never open to more people than it will be."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

import pipelines
from pipelines.storage.durable import (
    erase,
    hold_lock,
    private_folder,
    sync_tree,
    whole_file,
    whole_folder,
    write_whole,
)

pytestmark = pytest.mark.quick

Whole = Callable[..., AbstractContextManager[Path]]
both = pytest.mark.parametrize("whole", [whole_file, whole_folder])


def fill(made: Path) -> None:
    (made / "part" if made.is_dir() else made).write_bytes(b"new")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_this_is_the_only_place() -> None:
    package = Path(pipelines.__path__[0])
    words = re.compile(r"\b(fcntl|locket|os\.(fsync|link|replace)|mkstemp|mkdtemp|NamedTemporaryFile)\b")
    found = {path.stem for path in package.rglob("*.py") if words.search(path.read_text(encoding="utf-8"))}
    assert found == {"durable"}


@both
def test_a_disk_that_is_full_is_named(whole: Whole, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught, whole(tmp_path / "target"):
        raise OSError(errno.ENOSPC, "as of a library that knows no name")
    assert caught.value.filename == str(tmp_path)


def test_a_folder_that_cannot_be_removed_hides_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", refuse)
        with pytest.raises(ValueError, match="first"), private_folder(tmp_path):
            raise ValueError("first")


@both
def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_end(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, done = tmp_path / "target", list[str]()
    synced = set[int]()
    fsync = os.fsync

    def push(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        done.append("name" if os.fstat(descriptor).st_ino == tmp_path.stat().st_ino else "content")
        fsync(descriptor)

    def named(call: Callable[..., None]) -> Callable[..., None]:
        def name(source: Path, path: Path) -> None:
            assert {each.stat().st_ino for each in (source, *source.rglob("*"))} <= synced
            done.append("rename")
            call(source, path)

        return name

    monkeypatch.setattr(os, "fsync", push)
    for name in ("rename", "replace", "link"):
        monkeypatch.setattr(os, name, named(getattr(os, name)))
    with whole(target) as made:
        fill(made)
    assert done[done.index("rename") :] == ["rename", "name"]
    if whole is whole_file:
        done.clear()
        with pytest.raises(FileExistsError):
            write_whole(target, b"other", new=True)
        assert done == ["content", "rename", "name"]  # though another process gave the name


@both
def test_nobody_else_sees_it_before_it_is_whole(whole: Whole, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for given, expected in ((None, 0o666), (0o740, 0o740)):
            with whole(tmp_path / "x", given, **({"check": list} if whole is whole_folder else {})) as made:
                fill(made)
                assert mode(made.parent) == 0o700
                assert made.parent.parent == tmp_path
            folder = 0o111 if whole is whole_folder and given is None else 0
            assert mode(tmp_path / "x") == expected | folder
        with whole(tmp_path / "y") as made:
            fill(made)
        assert mode(tmp_path / "y") == (0o600 if whole is whole_file else 0o700)
    finally:
        os.umask(before)
    assert {path.name for path in tmp_path.iterdir()} == {"x", "y"}


@both
def test_a_failure_leaves_what_was_there(whole: Whole, tmp_path: Path) -> None:
    for there in (False, True):
        if there:
            (tmp_path / "x").write_bytes(b"old")
        with suppress(KeyboardInterrupt), whole(tmp_path / "x") as made:
            fill(made)
            raise KeyboardInterrupt
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"] * there


def test_a_file_replaces_or_needs_a_free_name(tmp_path: Path) -> None:
    path, room = tmp_path / "x", tmp_path / "room"
    room.mkdir()
    write_whole(path, "ä", new=True)
    with pytest.raises(FileExistsError):
        write_whole(path, b"other", new=True, folder=room)
    assert path.read_bytes() == "ä".encode()
    with whole_file(path, folder=room) as made:
        assert made.parent.parent == room
        made.write_bytes(b"new")
    assert path.read_bytes() == b"new"
    assert not [*room.iterdir()]


def test_a_folder_replaces_only_what_its_check_lets_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.mkdir()
    for content, check in ((b"1", None), (b"2", lambda: None)):  # an empty one; a full one
        with whole_folder(path, check=check) as made:
            (made / "part").write_bytes(content)
        assert (path / "part").read_bytes() == content

    def refuse() -> None:
        raise ValueError("mine")

    for check, error in ((None, FileExistsError), (refuse, ValueError)):
        with pytest.raises(error), whole_folder(path, check=check) as made:
            fill(made)
    assert [each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()] == [b"2"]
    assert [*tmp_path.iterdir()] == [path]


def test_a_lock_is_of_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys; from pathlib import Path; from pipelines.storage.durable import hold_lock\n"
        "with hold_lock(Path(sys.argv[1])) as free: print(free, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with hold_lock(path) as free:
            assert not free
        other.kill()
    with hold_lock(path) as free, hold_lock(path) as again:
        assert (free, again) == (True, False)
    assert mode(path) == 0o600


def test_the_lock_of_a_removed_file_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = tmp_path / "lock", os.open

    def slow(*arguments: object) -> int:
        descriptor = opened(*arguments)  # type: ignore[arg-type]
        path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", slow)
    with hold_lock(path) as free:
        assert not free
    monkeypatch.undo()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), hold_lock(path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_erased_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"secret")
    os.link(tmp_path / "key", tmp_path / "other")
    for _ in range(2):  # the second time there is nothing to do
        erase(tmp_path / "key")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("other", bytes(6))]
    sync_tree(tmp_path)
