"""The Dask part of a run: its batches drawn with threads, on a cluster of this machine, or on one given.

On one given plans are tried too.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import queue
import re
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dask
from dask.base import compute
from dask.callbacks import Callback
from dask.delayed import delayed
from dask.system import CPU_COUNT
from dask.threaded import get as compute_with_threads
from dask.utils import parse_timedelta

import synth
from pipelines.plans.plan import ReleasePlan
from pipelines.release.layout import Part
from pipelines.release.provenance import code_in_use
from pipelines.running.batches import BatchWork, RunBatches, Task, TaskInputs
from pipelines.running.folder import RunFolder
from pipelines.running.process import forbid_core_dumps
from pipelines.running.steps import Step, StepLog
from pipelines.storage.errors import shown_address
from pipelines.storage.progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

    from pipelines.planning.trials import ParallelMap  # workers need nothing of the planner

_log = logging.getLogger(__name__)

_S = TypeVar("_S")
_T = TypeVar("_T")
_RETRIES = 5  # of a task whose worker died
# Threads share one interpreter; what it does itself of a batch keeps no more than about four of them busy.
_THREADS = 4
_CLUSTER_JOBS = 10_000_000  # below, a cluster has hardly started when threads have finished
_PLAN_SPACE = 4  # a process that reads a plan needs this many times its arrays
# How long a run waits for workers, of Dask's configuration; and unless that says it.
_WAIT, _WAIT_DEFAULT = "distributed.scheduler.no-workers-timeout", "10 minutes"
_SAME_CODE = "install the same versions of odsynth and its dependencies on all workers, restart the workers"
_LOOK = 2.0  # seconds between two looks at the cluster
# Also what does not leave this machine (docs/operations.md says what that means where others use it).
_ENCRYPTED = re.compile(r"tls://|inproc://|tcp://(127(\.\d+){3}|localhost|\[::1\]):\d+\Z")


def sample_release(run: RunBatches, *, steps: StepLog, scheduler: str | None = None) -> list[list[Part]]:
    """Sample all pools with Dask; each batch gets its part, and none is drawn twice.

    Where tables are measured, all batches are measured first, and this process estimates homes from what
    they measured.

    Returned are the parts of each implicate, in the order of the pools. A scheduler is the address of a
    cluster, whose workers need no file. By default it is threads of this process, or, for many jobs on a
    machine with many cores, a cluster of its own (`local_workers`); threads too if that does not start,
    as in a script without ``if __name__ == "__main__":``.
    """
    with _client(scheduler, local_workers(run.plan), run.staging) as client:
        if client is not None:
            with suppress(KeyError):  # a scheduler without a dashboard
                _log.info("Dask dashboard: %s", client.dashboard_link)
        step_of = {"measure": Step.MEASURE, "estimate": Step.ESTIMATE, "draw": Step.DRAW}
        for task in run.tasks:
            drawing = f"Drawing {run.plan.numeric.pools.n_records:,} synthetic workers"
            with steps.step(step_of[task], drawing if task == "draw" else None):
                if task == "estimate":
                    run.estimate()
                else:
                    _do_batches(client, run, task, steps.progress)
    by_batch = (run.work.parts_of(run.made("draw", batch)) for batch in range(len(run)))
    return [list(parts) for parts in zip(*by_batch, strict=True)]


def _do_batches(client: Client | None, run: RunBatches, task: Task, progress: Progress | None) -> None:
    """Do what is not done yet of every batch."""
    todo = run.to_do(task)
    before = len(run) - len(todo)

    def done(number: int) -> None:
        if progress is not None:
            progress(before + number, len(run))

    done(0)
    if client is not None:
        _on_cluster(client, run, task, done)
        return
    work = delayed(run.do, pure=False, traverse=False)
    numbers = itertools.count(1)
    # Leaving it waits for what is still drawn: after an error nothing writes into a folder that is resumed.
    threads = ThreadPoolExecutor(dask.config.get("num_workers", CPU_COUNT))
    with threads as pool, Callback(posttask=lambda *_: done(next(numbers))):
        # By its function: by its name, Dask would load its cluster first, half a second.
        compute(*(work(task, batch) for batch in todo), scheduler=compute_with_threads, pool=pool)


def local_workers(plan: ReleasePlan, cores: int = CPU_COUNT, memory: int | None = None) -> int:
    """Return how many processes should draw a release on one machine.

    1, threads of this process, for less than ten million jobs. Above, one process for four cores, as far
    as half of the memory (bytes) has room for their copies of the plan.
    """
    if plan.numeric.pools.n_records < _CLUSTER_JOBS or cores < 2 * _THREADS:
        return 1
    if memory is None:
        from distributed.system import MEMORY_LIMIT  # an import of half a second

        memory = MEMORY_LIMIT
    numeric = plan.numeric
    arrays = (
        plan.pools.slots.work,
        *plan.pools.slots.attributes.values(),
        numeric.domains.cuts,
        numeric.domains.stratum,
        plan.shares.unit,
        plan.shares.share,
        plan.cumulative_weights,
    )
    size = _PLAN_SPACE * sum(array.nbytes for array in arrays)
    return max(1, min(cores // _THREADS, memory // 2 // size))


@contextmanager
def _client(scheduler: str | None, workers: int, staging: RunFolder) -> Iterator[Client | None]:
    """Connect to the cluster given, or to one of our own; None where threads of this process draw."""
    if scheduler is None and workers == 1:
        yield None
        return
    with ExitStack() as opened:
        cluster = scheduler or _own_cluster(opened, workers, staging)
        yield None if cluster is None else opened.enter_context(connect(cluster))


def connect(cluster: str | LocalCluster) -> Client:
    """Connect to a Dask scheduler."""
    from distributed import Client  # an import of half a second

    code_in_use()  # before files may change
    try:
        return _within(2 * _connect_limit(), lambda: Client(cluster))
    except Exception as error:  # an address that is none, certificates that do not fit, nobody there
        rule = f"no Dask scheduler can be used at the address given ({type(error).__name__})"
        fix = "check the address (scheduler), and that the scheduler runs"
        raise ConnectionError(errno.ECONNREFUSED, f"{rule}. Fix: {fix}", shown_address(cluster)) from None


def try_workers(scheduler: str | None, *, begun: bool = False) -> None:
    """Refuse a cluster that does not answer, where homes would travel unencrypted, or with other code.

    `begun` says that the run has been paid for, for the words of an error.
    """
    if scheduler is None:
        return
    state = ("what was drawn is kept", "resume") if begun else ("nothing was paid", "begin again")
    code = dict(code_in_use())
    with connect(scheduler) as client, _explaining_loss(client, *state):
        _refuse_unencrypted(client)
        try:
            client.run_on_scheduler(forbid_core_dumps)  # homes go through its memory
            answers = _within(_wait_limit(), lambda: client.run(_try, code, on_error="return"))
        except TimeoutError:
            if not _cluster_now(client):
                raise CancelledError from None
            rule = "a worker of the Dask cluster did not answer in time"
            text = f"{rule}; {state[0]}. Fix: restart the workers, and {state[1]}"
            raise ConnectionError(errno.ETIMEDOUT, text, shown_address(scheduler)) from None
    for worker, why in answers.items():
        if isinstance(why, OSError):  # not of the trial, which returns a text: the worker is gone
            continue
        if isinstance(why, Exception):
            rule = f"odsynth cannot be used there ({type(why).__name__})"
            why = f"{rule}. Fix: install the same version there as here"
        if why:
            raise ConnectionError(errno.ECONNABORTED, f"worker {worker} of the Dask cluster: {why}")


async def _try(code: dict[str, str]) -> str:
    """Return why a worker cannot be used; in a thread, so that it goes on answering Dask."""
    try:
        await asyncio.to_thread(_require_code, code)
    except _OtherCodeError as error:
        return f"it {error}. Fix: {_SAME_CODE}"
    return ""


def _refuse_unencrypted(client: Client) -> int:
    """Refuse a cluster to which homes would go unencrypted, unless on this machine; return its threads."""
    look = _Watch(client)
    while (cluster := _cluster_now(client)) is None:
        if client.status != "running":
            raise CancelledError
        look()
    for address in (client.scheduler.address, cluster["address"], *cluster["workers"]):  # type: ignore[union-attr]
        if not _ENCRYPTED.match(address):
            rule = "the homes and the key of a run are only sent encrypted, and this cluster has no TLS"
            fix = "start scheduler and workers with certificates (tls://, docs/operations.md), then go on"
            raise ConnectionError(errno.EPROTONOSUPPORT, f"{rule}. Fix: {fix}", shown_address(address))
    return sum(worker["nthreads"] for worker in cluster["workers"].values())


@contextmanager
def trying_on(scheduler: str | None) -> Iterator[ParallelMap | None]:
    """Have plans tried by the workers of a cluster, for which they need no file.

    Yields what `make_plan` and `simulate_utility` are to be told; without a scheduler, threads of this
    process try plans.
    """
    if scheduler is None:
        yield None
        return
    with connect(scheduler) as client:
        yield _ClusterMap(client)


class _ClusterMap:
    """Calls a function, which may hold much, with each of some items on the workers of a cluster.

    The function goes to a worker once; a task is an item and the name of the function.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sent: tuple[Any, Any] = None, None  # the last function, and what stands for it on the cluster

    def __call__(self, function: Callable[[_S], _T], items: Sequence[_S], /) -> list[_T]:
        return self._called(function, items, _RETRIES)

    def _called(self, function: Callable[[_S], _T], items: Sequence[_S], lives: int) -> list[_T]:
        client = self._client
        with _explaining_loss(client, "nothing was paid", "begin again"):
            if self._sent[0] is not function:
                _wait_for_worker(client)
                # To as many workers as there are items; others get it from these.
                self._sent = function, client.scatter(function, broadcast=len(items), hash=False)
            call = partial(_call, dict(code_in_use()))
            futures = client.map(call, [self._sent[1]] * len(items), items, pure=False, retries=_RETRIES)
            for _ in _finished(client, futures):
                pass
            try:
                return client.gather(futures)
            except CancelledError:
                if lives == 0 or client.status != "running":
                    raise
        self._sent = None, None  # all workers that had it are gone; others may have come
        return self._called(function, items, lives - 1)


def _wait_for_worker(client: Client) -> None:
    future = client.submit(_here, pure=False)
    for _ in _finished(client, [future]):
        future.result()


def _here() -> None:
    """Do nothing, on a worker."""


def _call(code: dict[str, str], function: Callable[[_S], _T], item: _S) -> _T:
    _require_code(code)
    return function(item)


def _require_code(code: dict[str, str]) -> None:
    """Refuse to work, in each task, as workers may join at any time, for a process that has other code.

    The certificate and the plan say what that process has.
    """
    installed = code_in_use()
    names = [name for name in sorted({*code, *installed}) if code.get(name) != installed.get(name)]
    if names:
        differences = (
            f"{name} {installed.get(name, 'none')} (here {code.get(name, 'none')})" for name in names
        )
        raise _OtherCodeError(f"has other code than this process: {', '.join(differences)}")


class _OtherCodeError(Exception):
    """A worker has other code than the process that it works for; says which, after the worker's name."""


def _connect_limit() -> float:
    return float(parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")))


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    """Call what may never return, as where a scheduler hangs; a TimeoutError after that time."""
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty as error:
        raise TimeoutError from error
    if error is not None:
        raise error
    return answer


def _own_cluster(opened: ExitStack, workers: int, staging: RunFolder) -> LocalCluster | None:
    """Start a cluster of this machine, or say that it does not start: the run has been paid for."""
    from distributed import LocalCluster

    try:
        return opened.enter_context(
            LocalCluster(
                n_workers=workers,
                threads_per_worker=_THREADS,
                local_directory=str(staging.scratch),
                security=True,  # certificates for this run only: no other user can give work or read results
                memory_limit=None,
                # Any free port. Plain HTTP, which other users of the machine can read: numbers of tasks and
                # times, and kinds of errors.
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address="127.0.0.1:0",
            )
        )
    except Exception as error:  # whatever it is, threads need none of it
        print(
            f"A Dask cluster of {workers} processes does not start ({type(error).__name__}): threads of this "
            'process draw, which is slower. A script needs: if __name__ == "__main__":',
            file=sys.stderr,
        )
        return None


def _on_cluster(client: Client, run: RunBatches, task: Task, count: Callable[[int], None]) -> None:
    """Do what is not done yet of every batch on workers; one that dies is replaced, with the same bytes."""
    whole = len(run.to_do(task))
    with _explaining_loss(client, "what was drawn is kept", "resume"):
        for _ in range(_RETRIES + 1):
            todo = run.to_do(task)
            if not todo:
                return
            for left in _sent(client, run, task, todo):
                count(whole - left)
        raise CancelledError


def _sent(client: Client, run: RunBatches, task: Task, todo: list[int]) -> Iterator[int]:
    """Send a few batches at a time, and keep what comes back; yield how many are left.

    Ends early where all workers are gone that had what tasks share; others may have come.
    """
    _wait_for_worker(client)
    shared = client.scatter(run.work, broadcast=True, hash=False)
    code, key = dict(code_in_use()), run.key
    waiting, left = iter(todo), len(todo)
    batch_of: dict[Future, int] = {}

    def send() -> Iterator[Future]:
        while len(batch_of) < 2 * max(_refuse_unencrypted(client), 1):
            if (batch := next(waiting, None)) is None:
                return
            arguments = _Confidential(run.packed(task, batch), key.secret(), key.secure)
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "2GB"}):
                future = client.submit(
                    _work,
                    code,
                    shared,
                    task,
                    batch,
                    arguments,
                    key=f"{task}-{uuid.uuid4()}",
                    retries=_RETRIES,
                )
            batch_of[future] = batch
            yield future

    try:
        for future in _finished(client, [*send()], send):
            batch = batch_of.pop(future)
            try:
                files = _result(client, future)
            except CancelledError:  # nobody can do it again
                if future.status == "cancelled" and client.status == "running":
                    return
                raise
            run.keep(task, batch, files)
            future.release()
            left -= 1
            yield left
    finally:
        if client.status == "running":
            with suppress(Exception):  # whatever becomes of it must not hide what went wrong first
                _within(_connect_limit(), lambda: client.cancel([*batch_of, shared]))


def _finished(
    client: Client, futures: list[Future], submit_more: Callable[[], Iterator[Future]] = lambda: iter(())
) -> Iterator[Future]:
    """Yield tasks as they finish, and send more; there must be a scheduler and, but for a while, a worker."""
    from distributed import as_completed

    done, watch = as_completed(futures), _Watch(client)
    while not done.is_empty():
        if not (ready := done.next_batch(block=False)):
            time.sleep(0.05)
            watch()
        for future in ready:
            yield future
            for another in submit_more():
                done.add(another)


def _result(client: Client, future: Future) -> Any:
    """Return what a task gave; if its worker is gone since, another one does it again."""
    look = _Watch(client)
    while True:
        try:
            return future.result(timeout=_LOOK)
        except TimeoutError:
            look()


class _Watch:
    """Looks at a cluster from time to time; an error where it has been without a worker for too long."""

    def __init__(self, client: Client) -> None:
        self._client, self._limit = client, _wait_limit()
        self._looked = self._seen = time.monotonic()  # `seen`: when there was a worker

    def __call__(self) -> None:
        """Look, unless that was done just now."""
        if time.monotonic() - self._looked < min(_LOOK, self._limit):
            return
        cluster = _cluster_now(self._client)
        self._looked = time.monotonic()
        if cluster is not None and cluster["workers"]:
            self._seen = self._looked
        elif self._looked - self._seen >= self._limit:
            raise CancelledError if cluster is None else _NoWorkersError(self._limit)


def _cluster_now(client: Client) -> dict[str, Any] | None:
    """Return what the scheduler says of the cluster; None where it does not answer, and may only be busy.

    `Client.scheduler_info` would say what it heard last.
    """
    scheduler: Any = client.scheduler
    try:
        return dict(_within(_connect_limit(), lambda: client.sync(scheduler.identity)))
    except OSError:
        return None


class _NoWorkersError(Exception):
    """No worker was there for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def _wait_limit() -> float:
    return float(parse_timedelta(dask.config.get(_WAIT, None) or _WAIT_DEFAULT))


@contextmanager
def _explaining_loss(client: Client, state: str, again: str) -> Iterator[None]:
    """Say of a cluster that cannot be used any more what became of it, how things stand, and what to do."""
    from distributed import KilledWorker
    from distributed.scheduler import NoWorkerError

    def lost(rule: str, fix: str) -> ConnectionError:
        text = f"{rule}; {state}. Fix: {fix}, and {again}"
        # Of `client.scheduler`, which may be gone, nothing can be asked.
        return ConnectionError(errno.ECONNABORTED, text, shown_address(client._start_arg))

    try:
        yield
    except KilledWorker:
        fix = "give the workers more memory, or read their logs"
        raise lost("several workers died on the same task", fix) from None
    except _OtherCodeError as error:
        raise lost(f"a worker of the Dask cluster {error}", _SAME_CODE) from None
    except (NoWorkerError, _NoWorkersError) as error:
        # The limit of the scheduler's own configuration, or of ours.
        seconds = error.timeout if isinstance(error, NoWorkerError) else error.seconds
        rule = (
            f"no worker of the Dask cluster was there for {seconds:.0f} s ({_WAIT} in Dask's configuration)"
        )
        raise lost(rule, "start workers") from None
    except Exception as error:
        if client.status != "running" or isinstance(error, CancelledError):
            raise lost("the Dask scheduler is gone or does not answer", "start a Dask cluster") from None
        raise


@dataclass(frozen=True, repr=False)
class _Confidential:
    """What a task needs that no log may show: Dask writes the arguments of one that fails into its log."""

    inputs: TaskInputs
    key: bytes
    secure: bool

    def __repr__(self) -> str:
        return "<confidential>"


def _work(
    code: dict[str, str], work: BatchWork, task: Task, batch: int, sent: _Confidential
) -> dict[str, bytes]:
    """Measure or draw a batch on a worker, and return the files that this makes."""
    forbid_core_dumps()
    _require_code(code)
    key = synth.RunKey(sent.key, secure=sent.secure)
    try:
        with tempfile.TemporaryDirectory(prefix="odsynth-", dir=_scratch()) as name:
            folder = Path(name)
            work.do(task, batch, sent.inputs, key, folder)
            files = [path for path in folder.rglob("*") if path.is_file()]
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    except OSError:  # names of files and the system's reason
        raise
    except Exception as error:
        kind = type(error).__name__
    finally:
        key.destroy()
    # The dashboard shows texts of errors, which may quote data. Raised here, as Dask sends the context along.
    raise RuntimeError(f"batch {batch}: {task} failed ({kind})")


def _scratch() -> str:
    from distributed import get_worker

    return str(get_worker().local_directory)
