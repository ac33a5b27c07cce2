"""The command `odsynth`: each verb is a thin layer over the Python function of the same name."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from typing import Any

import click

from pipelines.cli.common import Words, one_clear_error, say
from pipelines.cli.records import RECORDS
from pipelines.cli.releases import RELEASES
from pipelines.cli.service import SERVICE
from pipelines.cli.views import VIEWS
from pipelines.running.process import ending_on_signals, exit_code, forbid_core_dumps, keep_freed_memory
from pipelines.running.steps import logged_to

_GROUPS = {
    "Make a release": (
        *("demo", "simulate", "fetch", "plan", "tune", "run", "resume", "runs", "refine", "due", "series"),
    ),
    "Check it": ("verify", "witness", "seal", "attackers", "evaluate"),
    "Use it": ("map", "figure", "intervals", "compare", "export"),
    "Publish it": ("publish", "published", "correct", "erratum", "withdraw"),
    "Operate": ("keygen", "ledger", "serve", "token"),
}


class _Verbs(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by what they are for, with whole summaries."""
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(1000)) for name in names])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; whatever goes wrong in it is one clear error, and a signal ends it in order."""
        # Libraries that verbs load make many objects that stay: to look for rubbish among them takes time.
        gc.set_threshold(500_000)
        keep_freed_memory()
        atexit.register(_leave_rubbish)
        # The threads that work are our own; those of OpenBLAS would wait beside them at full speed.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # What becomes of a cluster is one clear error of ours; Dask would log it as a traceback, too: the
        # client, and its connection if a message was just being sent.
        for name in ("distributed.client", "distributed.batched"):
            logging.getLogger(name).disabled = True
        with one_clear_error(), logged_to(Words()), ending_on_signals():
            forbid_core_dumps()
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as stop:
                name, code = exit_code(stop)
                say(f"Stopped by {name}.")
                raise click.exceptions.Exit(code) from None


def _leave_rubbish() -> None:
    """Let the interpreter not look through all objects at its end, a tenth of a verification.

    DuckDB, which the service loads, would tell users of what is left.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="certified-commutes")
def main() -> None:
    """Publish synthetic commuting data with a certificate of differential privacy.

    \b
    Start here:
      odsynth demo                      a generated region through the whole pipeline
      odsynth verify out/demo/public    check what it released
    Then copy examples/demo.toml, name your own files in it, and:
      odsynth plan my.toml              what would be released and what it costs
      odsynth run my.toml               make the release
    """  # noqa: D301 - click wants the escape itself


for _command in (*RELEASES, *RECORDS, *VIEWS, *SERVICE):
    main.add_command(_command)
