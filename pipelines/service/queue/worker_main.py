"""The program that workers start.

A module of its own: of `worker_process`, which the package imports, Python would warn that it runs twice.
"""

from __future__ import annotations

import sys

from pipelines.service.queue.worker_process import main

if __name__ == "__main__":
    sys.exit(main())
