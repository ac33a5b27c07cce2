"""Time and peak memory of a whole process, with limits.

The process is started by a small one (this file run as a script, which imports the standard library only):
the kernel counts the memory of whoever starts a process as if the process had used it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

GB = 10**9


@dataclass(frozen=True)
class Usage:
    """What a process took: wall seconds, seconds of processors, peak resident memory in GB; and how it ended.

    The status is negative for a signal, as in `subprocess`; `timed_out` says that the time limit ended it;
    `errors` is the end of what it wrote to standard error.
    """

    seconds: float
    processor: float
    gigabytes: float
    status: int
    timed_out: bool
    errors: str


def measured(
    command: Sequence[str],
    *,
    seconds: float | None = None,
    processor: int | None = None,
    gigabytes: float | None = None,
) -> Usage:
    """Run a command to its end, or to a limit of wall time, processor time or memory; return what it took.

    Processor time and memory are limited for each process that the command starts by itself.
    """
    with_limits = json.dumps([list(command), seconds, processor, gigabytes])
    launcher = [sys.executable, "-I", "-S", __file__, with_limits]
    done = subprocess.run(launcher, check=True, capture_output=True, text=True)
    return Usage(*json.loads(done.stdout), done.stderr[-2000:].strip())


def completed(command: Sequence[str]) -> Usage:
    """Run a command to its end, which must be a good one, and return what it took."""
    usage = measured(command)
    if usage.status:
        import click  # not above: what is launched finds no packages

        raise click.ClickException(usage.errors)
    return usage


def _launch(
    command: list[str], seconds: float | None, processor: int | None, gigabytes: float | None
) -> None:
    def limit() -> None:
        if processor is not None:
            # The system ends it by a signal of its own at the first limit, and counts a little too fast.
            resource.setrlimit(resource.RLIMIT_CPU, (processor, processor + 10))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if gigabytes is not None:
            most = int(gigabytes * GB)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=limit)
    # An alarm rather than a loop that looks: nothing runs beside what is measured.
    signal.signal(signal.SIGALRM, lambda *_: process.send_signal(signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds or 0)
    status, usage = os.wait4(process.pid, 0)[1:]
    took = time.perf_counter() - begin
    used, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / GB
    code = os.waitstatus_to_exitcode(status)
    timed_out = (seconds is not None and took >= seconds) or code == -signal.SIGXCPU
    print(json.dumps([took, used, peak, code, timed_out]))


if __name__ == "__main__":
    _launch(*json.loads(sys.argv[1]))
