"""Atomic writes that outlive a power cut, and locks.

With `whole_file` and `whole_folder` a thing is made in ``.partial-...``, a folder that nobody else can look
into. There it gets its mode and is pushed to the disk (fsync); only then it gets its name, which is pushed to
the disk too. A kill leaves at most that folder behind, and the next process that makes something there
removes it: the folder of a living one is locked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What the system says of a disk that is full."""

_PARTIAL, _LOCK, _REPLACED = ".partial-", ".lock", ".replaced"


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until a folder, with everything below it, is on the disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def set_times(folder: Path, when: str) -> None:
    """Give a folder, and everything below it, one time of last change, so that it tells of no other.

    The time is as a certificate has it.
    """
    seconds = datetime.fromisoformat(when).timestamp()
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (seconds, seconds))


@contextmanager
def private_folder(folder: Path, *, sweep: bool = True) -> Iterator[Path]:
    """Make a folder in another that nobody else can look into, and remove it at the end.

    The error of a disk that is full names the other. `sweep` removes what killed processes left of such
    folders first; not where processes of several machines work, whose locks a file system may keep apart.
    """
    if sweep:
        _sweep(folder)
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
        with ExitStack() as held:
            held.callback(_discard, made)  # TemporaryDirectory tries without end
            try:
                ours = held.enter_context(hold_lock(made / _LOCK))
            except FileNotFoundError:
                ours = False
            except OSError:  # without locks nothing is swept either
                ours = True
            if ours:  # and not taken for a killed one's, in the moment before it was locked
                try:
                    yield made
                except OSError as error:
                    if error.errno not in NO_ROOM or error.filename is not None:
                        raise
                    raise OSError(error.errno, os.strerror(error.errno), str(folder)) from error
                return


def _sweep(folder: Path) -> None:
    """Remove what killed processes of this user left of `private_folder`."""
    with suppress(OSError):
        for path in folder.glob(f"{_PARTIAL}????????"):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    with hold_lock(path / _LOCK) as free:
                        if free:
                            _discard(path)


def _discard(private: Path) -> None:
    """Remove a private folder; what was about to be replaced in the moment of a kill gets its name back."""
    with suppress(FileNotFoundError):  # another process sweeps it, too
        for replaced in (private / _REPLACED).glob("*"):
            if not os.path.lexists(path := private.with_name(replaced.name)):
                with suppress(OSError):
                    os.rename(replaced, path)
    shutil.rmtree(private, ignore_errors=True)


@contextmanager
def scratch_file(path: Path) -> Iterator[Path]:
    """Give a path for a file (or folder) of this name that is tried out beside its place, and removed."""
    with private_folder(path.parent) as private:
        yield private / path.name


@contextmanager
def whole_file(
    path: Path, mode: int | None = 0o600, *, new: bool = False, folder: Path | None = None
) -> Iterator[Path]:
    """Make a file, at the path that this gives, that is there whole or not at all.

    Without a mode, it has what the umask gives. A `new` file is a FileExistsError where the name is
    taken; otherwise it replaces what has the name. It is made in a folder of the same disk, by default
    its own.
    """
    with private_folder(folder or path.parent) as private:
        made = private / path.name
        yield made
        if mode is not None:
            made.chmod(mode)
        sync(made)
        try:
            (os.link if new else os.replace)(made, path)  # unlike a rename, a link never replaces
        finally:  # also where another process was quicker
            sync(path.parent)


def write_whole(
    path: Path,
    content: bytes | str,
    mode: int | None = 0o600,
    *,
    new: bool = False,
    folder: Path | None = None,
) -> None:
    """Write a file that is there whole or not at all; parameters as for `whole_file`."""
    with whole_file(path, mode, new=new, folder=folder) as made:
        made.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_folder(
    path: Path, mode: int | None = 0o700, *, check: Callable[[], None] | None = None, sweep: bool = True
) -> Iterator[Path]:
    """Fill a folder, at the path that this gives, that is there whole or not at all.

    Without a mode, it has what the umask gives; what is in it keeps its modes. `check` is called when the
    name is taken, perhaps only now, and raises unless what has it may be replaced; without it, that is a
    FileExistsError, except for an empty folder.
    """
    with private_folder(path.parent, sweep=sweep) as private:
        made = private / path.name
        made.mkdir()
        yield made
        if mode is not None:
            made.chmod(mode)
        sync_tree(made)
        replaced = private / _REPLACED / path.name
        while True:
            try:
                os.rename(made, path)
                break
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            if check is None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            check()
            if os.path.lexists(replaced):  # another process has put something there since
                os.rename(replaced.parent, tempfile.mkdtemp(dir=private))
            replaced.parent.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # somebody else has moved it
                os.rename(path, replaced)
        sync(path.parent)


def erase(path: Path) -> None:
    """Overwrite a file with zeros, on the disk too, and remove it; do nothing if there is none.

    Of a link only the link is removed: in a folder that somebody else made, it may point to anything.
    """
    with suppress(FileNotFoundError):
        if not path.is_symlink():
            with path.open("r+b") as file:
                file.write(bytes(path.stat().st_size))
                file.flush()
                os.fsync(file.fileno())
        path.unlink()


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, which is made if it is not there; gives False if another process holds it.

    The system releases it when the process ends, however it ends.
    """
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError as error:
            raise OSError(error.errno, _refusal(error), str(path)) from error
        else:
            try:  # the lock of a file that was removed meanwhile locks nothing
                free = os.path.samestat(os.fstat(lock.fileno()), path.stat())
            except FileNotFoundError:
                free = False
        yield free


def locks_refused(folder: Path) -> str | None:
    """Return why files in a folder cannot be locked as SQLite locks them; None unless that is the reason."""
    with suppress(OSError), private_folder(folder) as private, (private / "file").open("wb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return _refusal(error)
    return None


def _refusal(error: OSError) -> str:
    fix = "use a disk that has locks, or a mount option that gives them"
    return f"the file system refuses the lock ({error.strerror}). Fix: {fix}"
