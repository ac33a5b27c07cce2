"""A run's folder for workers that do not see its disk: objects of a store, while the run draws on a cluster.

    ADDRESS/HASH OF THE RUN'S NAME/
        confidential/state.json, confidential/run.key, homes/*.npy     as in the run's folder
        plan.tar, estimated.tar                                        what workers unpack on their disks
        parts/*.tar                                                    what they measured or drew

The run's folder stays where it is, and all that makes a run safe from crashes with it: locks, renames, the
state that it is resumed from. The store only carries. An object comes whole or not at all. Parts and homes
are removed when they have served, and all is when no more is drawn, however that ends. A process that is
killed leaves it, and a worker that is lost may still put what it was drawing, synthetic workers. So a note
stays in the run's folder, and whoever resumes the run or gives it up removes it. Before a run is paid only
empty objects are put there, to try workers; one may stay where the process is killed then.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.running.folder import RunFolder, RunState
from pipelines.storage.durable import NO_ROOM, private_folder, whole_folder, write_whole

if TYPE_CHECKING:  # whoever lists unfinished runs needs nothing that draws
    from pipelines.running.batches import RunBatches, Task

NOTE = "in_store"
"""The file of `RunFolder.confidential` that says which store may hold something of a run."""

_PLAN, _ESTIMATED = "plan.tar", "estimated.tar"


@dataclass(frozen=True)
class RunStore:
    """A folder of an object store, for one run.

    Attributes
    ----------
    address : str
        Such as ``s3://agency/secret/3f...``.
    """

    address: str

    @classmethod
    def of(cls, state: RunState) -> RunStore | None:
        """Return that of a run; None if its configuration names no store."""
        store = state.config.run.confidential_store
        name = hashlib.sha256(state.name.encode()).hexdigest()[:16]
        return None if store is None else cls(f"{store.rstrip('/')}/{name}")

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, str]]:
        """Give the file system and the path in it; whatever it says no with becomes one error."""
        import fsspec  # type: ignore[import-untyped]  # of all runs only these need it

        try:
            fs, root = fsspec.url_to_fs(self.address)
            yield fs, root
        except Exception as error:  # each store has errors of its own, whose texts may hold what is secret
            if getattr(error, "errno", None) in NO_ROOM:  # of the disk here
                raise
            rule = f"the confidential store of the run cannot be used ({type(error).__name__})"
            fix = "check run.confidential_store and its credentials, here and on the workers; then go on"
            raise ConnectionError(errno.ECONNABORTED, f"{rule}. Fix: {fix}", self.address) from None

    @contextmanager
    def marked(self) -> Iterator[str]:
        """Put an empty object, by which whoever uses this store knows it; give its name."""
        marker = f"marker-{secrets.token_hex(16)}"
        with self._opened() as (fs, root):
            fs.pipe_file(f"{root}/{marker}", b"")
        try:
            yield marker
        finally:
            with suppress(OSError), self._opened() as (fs, root):  # one that stays says nothing
                fs.rm_file(f"{root}/{marker}")

    def check(self, marker: str) -> None:
        """Find an object, and write, read and remove another.

        Parameters
        ----------
        marker : str
            What `marked` gave.

        Raises
        ------
        ConnectionError
            If the store does not let one, as in each method, or is another of the same address; names that.
        """
        content = secrets.token_bytes(16)
        with self._opened() as (fs, root):
            name = f"{root}/check-{content.hex()}"
            fs.pipe_file(name, content)
            if fs.cat_file(name) != content:
                raise ValueError("another content")
            fs.rm_file(name)
            same = False
            with suppress(FileNotFoundError):
                same = fs.cat_file(f"{root}/{marker}") == b""
        if not same:
            rule = "this is another store than that of the process that makes the release"
            fix = "give workers the same endpoint and account; then go on"
            raise ConnectionError(errno.ECONNABORTED, f"{rule}. Fix: {fix}", self.address)

    def lend(self, staging: RunFolder) -> None:
        """Put what every batch needs: the plan, the state and the key, which are confidential."""
        write_whole(staging.confidential / NOTE, self.address)
        self.pack(_PLAN, staging.public / "plan")
        self.put(staging, ["confidential/state.json", "confidential/run.key"])

    def put(self, staging: RunFolder, names: Sequence[str]) -> None:
        """Put files of the run's folder, under the same names."""
        with self._opened() as (fs, root):
            fs.put([str(staging.folder / name) for name in names], [f"{root}/{name}" for name in names])

    def put_for(self, run: RunBatches, task: Task, batches: Sequence[int]) -> None:
        """Put what a task needs of these batches: their homes, or the estimate of all homes."""
        if not batches:
            return
        if task == "draw" and "estimate" in run.tasks:
            self.pack(_ESTIMATED, run.estimated)
        else:
            self.put(run.staging, [_homes(run, batch) for batch in batches])

    def do(self, run: RunBatches, task: Task, batch: int) -> None:
        """Do a task on a worker, whose folder is a `WorkerFolder`, and put what it made."""
        if task == "draw" and "estimate" in run.tasks:
            self.unpack(_ESTIMATED, run.estimated)
        getattr(run, task)(batch)
        made = run.made(task, batch)
        self.pack(_part(made), made)
        shutil.rmtree(made)

    def take(self, run: RunBatches, task: Task, batch: int) -> None:
        """Get what a worker made of a batch, and remove that and its homes.

        Raises
        ------
        ConnectionError
            If it does not come as it was made.
        """
        made = run.made(task, batch)
        self.unpack(_part(made), made)
        if not run.finished(made):
            rule = "what a worker put into the confidential store did not come back as it was"
            raise ConnectionError(errno.EIO, f"{rule}. Fix: resume", self.address)
        with self._opened() as (fs, root):
            for name in (_part(made), _homes(run, batch)):
                with suppress(FileNotFoundError):
                    fs.rm_file(f"{root}/{name}")

    def read(self, name: str) -> bytes:
        """Return an object."""
        with self._opened() as (fs, root):
            return bytes(fs.cat_file(f"{root}/{name}"))

    def pack(self, name: str, folder: Path) -> None:
        """Put a folder as one object."""
        with private_folder(folder.parent, sweep=False) as private:
            packed = private / "packed.tar"
            with tarfile.open(packed, "w") as tar:
                tar.add(folder, "")
            with self._opened() as (fs, root):
                fs.put_file(str(packed), f"{root}/{name}")

    def unpack(self, name: str, folder: Path) -> None:
        """Get a folder that was packed; one that is there stays."""
        if folder.exists():
            return
        with private_folder(folder.parent, sweep=False) as private:
            packed = private / "packed.tar"
            with self._opened() as (fs, root):
                fs.get_file(f"{root}/{name}", str(packed))
            with (
                suppress(FileExistsError),
                tarfile.open(packed) as tar,
                whole_folder(folder, sweep=False) as made,
            ):
                tar.extractall(made, filter="data")

    def clear(self) -> None:
        """Remove everything of the run."""
        with self._opened() as (fs, root):
            fs.invalidate_cache()
            with suppress(FileNotFoundError):
                fs.rm(root, recursive=True)


def _part(made: Path) -> str:
    return f"parts/{made.name}.tar"


def _homes(run: RunBatches, batch: int) -> str:
    return run.staging.homes_of(batch).relative_to(run.staging.folder).as_posix()


def kept_in(staging: RunFolder) -> RunStore | None:
    """Return the store in which objects of a run may be, by the note in its folder."""
    note = staging.confidential / NOTE
    return RunStore(note.read_text(encoding="utf-8")) if note.exists() else None


def take_back(staging: RunFolder) -> None:
    """Remove everything of a run from its store, if anything may be there, and the note.

    Raises
    ------
    ConnectionError
        If the store does not let one; the note stays.
    """
    if (store := kept_in(staging)) is not None:
        store.clear()
        (staging.confidential / NOTE).unlink()


class WorkerFolder(RunFolder):
    """A run's folder as a worker has it: plan and what it draws on its disk, homes and key in memory only.

    Parameters
    ----------
    store : RunStore
    place : str
        A folder of the worker; what is put there is removed with this object.
    """

    def __init__(self, store: RunStore, place: str) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="odsynth-", dir=place)
        super().__init__(Path(self._own.name))
        self._store = store
        for folder in (self.public, self.parts):
            folder.mkdir(mode=0o700)
        store.unpack(_PLAN, self.public / "plan")

    def _read(self, path: Path) -> bytes:
        return self._store.read(path.relative_to(self.folder).as_posix())
