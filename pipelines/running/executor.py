"""The Dask part of a run: its batches drawn with threads, on a cluster of this machine, or on one given.

On one given plans are tried too.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dask
from dask.base import compute
from dask.callbacks import Callback
from dask.delayed import delayed
from dask.diagnostics.progress import ProgressBar
from dask.system import CPU_COUNT
from dask.threaded import get as compute_with_threads
from dask.utils import parse_timedelta

import synth
from pipelines.planning.side_by_side import SideBySide
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_plan
from pipelines.release.layout import Part
from pipelines.release.provenance import code_in_use
from pipelines.running.batches import RunBatches, Task
from pipelines.running.folder import RunFolder, RunState
from pipelines.running.process import forbid_core_dumps
from pipelines.running.steps import Progress, Step
from pipelines.running.store import RunStore, WorkerFolder, take_back
from pipelines.storage.errors import shown_address, shown_message

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

_S = TypeVar("_S")
_T = TypeVar("_T")
_RETRIES = 5  # of a task whose worker died
# Threads share one interpreter; what it does itself of a batch keeps no more than about four of them busy.
_THREADS = 4
_CLUSTER_JOBS = 10_000_000  # below, a cluster has hardly started when threads have finished
_PLAN_SPACE = 4  # a process that reads a plan needs this many times its arrays
# How long a run waits for workers, of Dask's configuration; and unless that says it.
_WAIT, _WAIT_DEFAULT = "distributed.scheduler.no-workers-timeout", "10 minutes"
_SAME_CODE = "install the same version of odsynth and of its dependencies on all workers, start them anew"
_LOOK = 2.0  # seconds between two looks at the cluster
_LOADING = threading.Lock()


def sample_release(
    staging: RunFolder,
    plan: ReleasePlan,
    state: RunState,
    key: synth.RunKey,
    *,
    progress: Progress,
    scheduler: str | None = None,
) -> list[list[Part]]:
    """Sample all pools with Dask; each batch writes its part, and none is drawn twice.

    Where tables are measured, all batches are measured first, and this process estimates homes from what
    they measured.

    Parameters
    ----------
    staging : RunFolder
        Private folder of the run, with the homes of every batch.
    plan : ReleasePlan
    state : RunState
    key : synth.RunKey
    progress : Progress
        Told the steps, and the address of the Dask dashboard, where there is one.
    scheduler : str, optional
        Address of a Dask cluster whose workers see the same files, or use the store that the configuration
        names (`pipelines.running.store`). By default threads of this process, or,
        for many jobs on a machine with many cores, a cluster of its own (`local_workers`); threads too if
        that does not start, as in a script without ``if __name__ == "__main__":``.

    Returns
    -------
    list of list of Part
        For each implicate, in the order of the pools.
    """
    run = RunBatches.of(staging, plan, state, key)
    workers, store = local_workers(plan), RunStore.of(state) if scheduler is not None else None
    with _carried(store, staging), _client(scheduler, workers, staging) as client:
        if client is not None:
            with suppress(KeyError):  # a scheduler without a dashboard
                progress.say(f"Dask dashboard: {client.dashboard_link}")
        steps = {"measure": Step.MEASURE, "estimate": Step.ESTIMATE, "draw": Step.DRAW}
        drawing = f"Drawing {plan.numeric.pools.n_records:,} synthetic workers"
        for task in run.tasks:
            with progress.step(steps[task], drawing if task == "draw" else None):
                if task != "estimate":
                    _each_batch(client, store, run, task, state.name, progress)
                elif not run.finished(run.estimated):
                    getattr(run, task)()
    by_batch = (run.parts_of(run.made("draw", batch)) for batch in range(len(run.slices)))
    return [list(parts) for parts in zip(*by_batch, strict=True)]


@contextmanager
def _carried(store: RunStore | None, staging: RunFolder) -> Iterator[None]:
    """Put into the store, if there is one, what all batches need; nothing of the run is in one at the end."""
    try:
        if store is not None:
            take_back(staging)  # what a killed process left may be in another one
            store.lend(staging)
        yield
    except BaseException:
        # The note stays: a worker that was lost may still put what it was drawing. No other error must hide
        # what went wrong first.
        with suppress(ConnectionError):
            if store is not None:
                store.clear()
        raise
    take_back(staging)


def _each_batch(
    client: Client | None,
    store: RunStore | None,
    run: RunBatches,
    task: Task,
    name: str,
    progress: Progress,
) -> None:
    """Do what is not done yet of every batch."""
    batches = range(len(run.slices))
    todo = [batch for batch in batches if not run.finished(run.made(task, batch))]

    def done(number: int) -> None:
        progress.count(len(batches) - len(todo) + number, len(batches))

    done(0)
    shown = progress.shown and not progress.counted and sys.stderr.isatty()
    if client is not None:
        if store is None:
            _on_cluster(client, run.staging.folder, name, task, todo, done, shown=shown)
        else:
            store.put_for(run, task, todo)
            _on_cluster(
                client, store, name, task, todo, done, shown=shown, take=partial(store.take, run, task)
            )
        return
    work = delayed(getattr(run, task), pure=False, traverse=False)
    numbers = itertools.count(1)
    bar = ProgressBar(out=sys.stderr) if shown else nullcontext()
    with bar, Callback(posttask=lambda *_: done(next(numbers))):
        # By its function: by its name, Dask would load its cluster first, half a second.
        compute(*(work(batch) for batch in todo), scheduler=compute_with_threads)


def local_workers(plan: ReleasePlan, cores: int = CPU_COUNT, memory: int | None = None) -> int:
    """Return how many processes should draw a release on one machine.

    Parameters
    ----------
    plan : ReleasePlan
    cores : int
        Of the machine, or what this process may use of them.
    memory : int, optional
        Bytes; by default those of the machine, or what this process may use of them.

    Returns
    -------
    int
        1, threads of this process, for less than ten million jobs. Above, one process for four cores, as
        far as half of the memory has room for their copies of the plan.
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
    """Connect to a Dask scheduler.

    Parameters
    ----------
    cluster : str or LocalCluster
        Its address, or a cluster of this process.

    Raises
    ------
    ConnectionError
        If none answers within the time of Dask's configuration (``distributed.comm.timeouts.connect``); names
        the address.
    """
    from distributed import Client  # an import of half a second

    code_in_use()  # before files may change
    try:
        return _within(2 * _connect_limit(), lambda: Client(cluster))
    except Exception as error:  # an address that is none, certificates that do not fit, nobody there
        rule = f"no Dask scheduler can be used at the address given ({type(error).__name__})"
        fix = "check the address (scheduler), and that the scheduler runs"
        raise ConnectionError(errno.ECONNREFUSED, f"{rule}. Fix: {fix}", shown_address(cluster)) from None


def try_workers(scheduler: str | None, store: str | None, staging: RunFolder) -> None:
    """Refuse a cluster that does not answer, or workers that have other code, or cannot use what they need.

    That is the store, or the run's folder: each of those that are there now finds what this process put
    there, and writes, reads and removes something; so does this process.

    Parameters
    ----------
    scheduler : str or None
        Its address; without one nothing is tried.
    store : str or None
        The confidential store of the configuration.
    staging : RunFolder
        Private folder of the run.

    Raises
    ------
    OSError
        If something cannot be used; names it, and a worker that cannot.
    """
    if scheduler is None:
        return
    place = staging if store is None else RunStore(store)
    state = ("what was drawn is kept", "resume") if staging.begun else ("nothing was paid", "begin again")
    code = dict(code_in_use())
    with place.marked() as marker:
        place.check(marker)
        with connect(scheduler) as client, _lost_in_words(client, *state):
            try:
                found = _within(
                    _wait_limit(), lambda: client.run(_try, code, place, marker, on_error="return")
                )
            except TimeoutError:
                if _workers_now(client) is None:
                    raise CancelledError from None
                rule = "a worker of the Dask cluster did not use the store, or the run's folder, in time"
                text = f"{rule}; {state[0]}. Fix: see that it can, or restart the workers, and {state[1]}"
                raise ConnectionError(errno.ETIMEDOUT, text, shown_address(scheduler)) from None
    for worker, why in found.items():
        if isinstance(why, OSError):  # not of the trial, which returns a text: the worker is gone
            continue
        if isinstance(why, Exception):
            rule = f"odsynth cannot be used there ({type(why).__name__})"
            why = f"{rule}. Fix: install the version there that is here"
        if why:
            raise ConnectionError(errno.ECONNABORTED, f"worker {worker} of the Dask cluster: {why}")


async def _try(code: dict[str, str], place: RunStore | RunFolder, marker: str) -> str:
    """Return why a worker cannot be used; in a thread, so that it goes on answering Dask."""
    try:
        _require_code(code)
        await asyncio.to_thread(place.check, marker)
    except _OtherCodeError as error:
        return f"it {error}. Fix: {_SAME_CODE}"
    except OSError as error:
        return shown_message(error)
    return ""


@contextmanager
def trying_on(scheduler: str | None) -> Iterator[SideBySide | None]:
    """Have plans tried by the workers of a cluster, for which they need no file.

    Parameters
    ----------
    scheduler : str or None
        Its address; without one threads of this process try them.

    Yields
    ------
    SideBySide or None
        What `make_plan` and `simulate_utility` are to be told.

    Raises
    ------
    ConnectionError
        As by `connect`; and if the cluster is lost while it is at work.
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
        with _lost_in_words(client, "nothing was paid", "begin again"):
            if self._sent[0] is not function:
                _wait_for_worker(client)
                # To as many workers as there are items; others get it from these.
                self._sent = function, client.scatter(function, broadcast=len(items), hash=False)
            call = partial(_call, dict(code_in_use()))
            futures = client.map(call, [self._sent[1]] * len(items), items, pure=False, retries=_RETRIES)
            for _ in _finished(client, futures):
                pass
            if lives == 0 or "cancelled" not in {future.status for future in futures}:
                return client.gather(futures)
        self._sent = None, None  # all workers that had it are gone; others may have come
        return self._called(function, items, lives - 1)


def _wait_for_worker(client: Client) -> None:
    limit = _wait_limit()
    try:
        client.wait_for_workers(1, timeout=limit)
    except TimeoutError:
        raise _NoWorkersError(limit) from None


def _call(code: dict[str, str], function: Callable[[_S], _T], item: _S) -> _T:
    _require_code(code)
    return function(item)


def _require_code(code: dict[str, str]) -> None:
    """Refuse to work, in each task, as workers may join at any time, for a process that has other code.

    The certificate and the plan say what that process has.
    """
    mine = code_in_use()
    names = [name for name in sorted({*code, *mine}) if code.get(name) != mine.get(name)]
    if names:
        told = (f"{name} {mine.get(name, 'none')} (here {code.get(name, 'none')})" for name in names)
        raise _OtherCodeError(f"has other code than this process: {', '.join(told)}")


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
    except queue.Empty:
        raise TimeoutError from None
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
                # times, what _draw is given (a folder, the name of the run, a number), errors of _draw.
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


def _on_cluster(
    client: Client,
    place: Path | RunStore,
    name: str,
    task: Task,
    todo: list[int],
    count: Callable[[int], None],
    *,
    shown: bool,
    take: Callable[[int], None] = lambda batch: None,
) -> None:
    """Draw batches on the workers of a cluster; one that dies is replaced, and gives the same bytes.

    Parameters
    ----------
    place : Path or RunStore
        The run's folder, where workers see it.
    take : callable
        Told each batch that is done, to get it from where its worker put it.

    Raises
    ------
    ConnectionError
        If the scheduler is gone or does not answer, or no worker is there for too long; names the address.
        What was drawn is kept.
    """
    same: tuple[list[Any], ...] = tuple([each] * len(todo) for each in (place, name, task))
    try:
        with _lost_in_words(client, "what was drawn is kept", "resume"):
            draw = partial(_draw, dict(code_in_use()))
            futures = client.map(draw, *same, todo, pure=False, retries=_RETRIES)
            batch_of = {future.key: batch for future, batch in zip(futures, todo, strict=True)}
            for done, future in enumerate(_finished(client, futures), start=1):
                # What a batch gives is on the disk. A drawn one is asked for nothing: it would be for ever,
                # where the worker that drew it is gone. Nor is it drawn again then.
                if future.status in ("error", "cancelled"):
                    future.result()
                future.release()
                take(batch_of[future.key])
                count(done)
                if shown:
                    end = "" if done < len(todo) else "\n"
                    print(f"\r{done} of {len(todo)} batches", end=end, file=sys.stderr, flush=True)
    finally:
        if client.status == "running":
            with suppress(Exception):  # whatever becomes of it must not hide what went wrong first
                _within(_connect_limit(), lambda: client.run(_forget))


def _finished(client: Client, futures: list[Future]) -> Iterator[Future]:
    """Yield the tasks as they finish; there must be a scheduler and, but for a while, a worker."""
    from distributed import as_completed

    limit = _wait_limit()
    done, looked = as_completed(futures), time.monotonic()
    seen = looked  # when there was a worker
    while not done.is_empty():
        if batch := done.next_batch(block=False):
            yield from batch
            continue
        time.sleep(0.05)
        if time.monotonic() - looked >= min(_LOOK, limit):
            workers = _workers_now(client)
            looked = time.monotonic()
            if workers:
                seen = looked
            elif looked - seen >= limit:
                raise CancelledError if workers is None else _NoWorkersError(limit)


def _workers_now(client: Client) -> int | None:
    """Return how many workers there are; None where the scheduler does not answer, which may only be busy.

    `Client.scheduler_info` would say what it heard last.
    """
    scheduler: Any = client.scheduler
    try:
        return len(_within(_connect_limit(), lambda: client.sync(scheduler.identity))["workers"])
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
def _lost_in_words(client: Client, state: str, again: str) -> Iterator[None]:
    """Say of a cluster that cannot be used any more what became of it, how things stand, and what to do.

    Raises
    ------
    ConnectionError
        If the scheduler is gone or does not answer, no worker is there for too long, one after the other
        dies, or has other code than this process; names the address.
    """
    from distributed import KilledWorker
    from distributed.scheduler import NoWorkerError

    def lost(rule: str, fix: str) -> ConnectionError:
        text = f"{rule}; {state}. Fix: {fix}, and {again}"
        # Of `client.scheduler`, which may be gone, nothing can be asked.
        return ConnectionError(errno.ECONNABORTED, text, shown_address(client._start_arg))

    try:
        yield
    except KilledWorker:
        fix = "give the workers more memory, or see their logs"
        raise lost("task after task, the workers that did it have died", fix) from None
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


def _forget() -> None:
    """Let go of the key of the last run."""
    with _LOADING:
        _run_in.cache_clear()


def _draw(code: dict[str, str], place: Path | RunStore, name: str, task: Task, batch: int) -> None:
    """Measure or draw a batch on a worker, which knows the run by its folder, or store, and its name."""
    forbid_core_dumps()
    _require_code(code)
    with _LOADING:  # threads of a worker share one plan: the first reads it, the others wait
        run = _run_in(place, name)
    try:
        if isinstance(place, RunStore):
            place.do(run, task, batch)
        else:
            getattr(run, task)(batch)
    except OSError:  # names of files and the system's reason
        raise
    except Exception as error:  # the dashboard shows texts of errors, which may quote data
        raise RuntimeError(f"batch {batch}: {task} failed ({type(error).__name__})") from None


@lru_cache(maxsize=1)
def _run_in(place: Path | RunStore, name: str) -> RunBatches:
    """Read a run; another one in the same folder is another run, with another key."""
    staging: RunFolder
    if isinstance(place, RunStore):
        from distributed import get_worker

        staging = WorkerFolder(place, get_worker().local_directory)
    else:
        staging = RunFolder(place)
    state = staging.load()
    if state.name != name:
        raise ValueError("another run has taken the place of this one")
    return RunBatches.of(staging, load_plan(staging.public / "plan"), state, staging.key(state))
