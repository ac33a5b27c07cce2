"""What a program that may hold homes sets for its process: its end on a signal, no core dumps, its memory.

Programs call these where they begin: the command line, and the workers of the service. No other function of
this package installs a handler of signals.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_QUICK = 10.0  # seconds in which the first signal's end is being written
_PR_SET_DUMPABLE = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's mallopt
_KEPT, _GIVEN_BACK = 2**27, 2**25  # bytes


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end, as Ctrl-C does."""


class HungUp(KeyboardInterrupt):
    """SIGHUP asked the process to end: its terminal is gone."""


_RAISED: dict[signal.Signals, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise as SIGINT does, so that a run notes how it ended.

    A second signal within ten seconds of one is ignored, so that it does not interrupt what the first makes
    the program write. A signal that the process was told to ignore (``nohup``) or that has a handler already
    is left alone; outside of the main thread nothing is changed.
    """
    last, show = -_QUICK, sys.unraisablehook

    def end(number: int, _: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _QUICK:
            last = now
            raise _RAISED[signal.Signals(number)]

    def again(lost: sys.UnraisableHookArgs) -> None:
        """Send a signal again that came where Python lets no error out, as in a finalizer."""
        if isinstance(lost.exc_value, KeyboardInterrupt):
            threading.Timer(0.05, send, (exit_code(lost.exc_value)[1] - 128,)).start()
        else:
            show(lost)

    def send(number: int) -> None:
        nonlocal last
        last = -_QUICK  # only now: another signal would end the call above
        os.kill(os.getpid(), number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in _RAISED}
        before = {n: f for n, f in handlers.items() if f in (signal.SIG_DFL, signal.default_int_handler)}
    try:
        for number in before:
            signal.signal(number, end)
        if before:
            sys.unraisablehook = again
        yield
    finally:
        sys.unraisablehook = show
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(stop: KeyboardInterrupt) -> tuple[str, int]:
    """Return the name of the signal behind an error, and the exit code that says so: 128 and its number."""
    number = next((n for n, kind in _RAISED.items() if type(stop) is kind), signal.SIGINT)
    return number.name, 128 + number


def forbid_core_dumps() -> None:
    """Forbid this process to dump its memory, which may hold homes and a key.

    The limit, which processes that it starts inherit, keeps a core file from being written. On Linux, where a
    core may be handed to a program whatever the limit is, the process is marked as not dumpable too; each
    process has to mark itself.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            raise OSError(
                ctypes.get_errno(), f"core dumps cannot be forbidden: {os.strerror(ctypes.get_errno())}"
            )


def keep_freed_memory() -> None:
    """Have the C library keep more of what is freed for what is made next, Arrow's columns too.

    Else it gives memory back to the kernel, which clears every page before it gives it again. Arrays of more
    than 32 MB go back at once, so that those of a nation do not linger; of smaller ones what the first thread
    frees goes back where more than 128 MB are free at the end of its memory, and what others free stays.
    There are as many arenas as processors: with one for each thread, a thread would not find what others have
    freed.
    Of C libraries only glibc has these settings; what the environment says of them stays.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # before pyarrow is loaded
    set_limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_limit is not None and not any("MALLOC" in name or "GLIBC" in name for name in os.environ):
        set_limit(_M_MMAP_THRESHOLD, _GIVEN_BACK)
        set_limit(_M_TRIM_THRESHOLD, _KEPT)
        set_limit(_M_ARENA_MAX, os.cpu_count() or 1)


def give_back_memory() -> None:
    """Have the C library (glibc) give back what is free, for a process that waits until it needs it again."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
