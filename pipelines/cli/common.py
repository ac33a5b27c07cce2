"""What every verb of the command line shares: one clear error, and words for people on standard error."""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import pipelines
from geo_data.arguments import refuse_url
from pipelines.running.steps import words_of
from pipelines.storage.errors import MEMORY_ERRORS, private_message
from pipelines.storage.progress import EstimatedTotal, Progress
from synth.errors import ShownError


class LocalPath(click.Path):
    """A path; a URL in its place is refused as configurations refuse it."""

    def __init__(self, **options: bool) -> None:
        super().__init__(path_type=Path, **options)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path, or fail."""
        try:
            refuse_url(os.fspath(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


FILE = LocalPath(dir_okay=False)
FOLDER = LocalPath(file_okay=False)
PATH = LocalPath()
implicate_option = click.option(
    "--implicate",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Which of the synthetic data sets, where a release has several.",
)


@contextmanager
def one_clear_error() -> Iterator[None]:
    """Turn errors into one message and exit code 1.

    The message of an unforeseen error may quote data, so it is withheld unless ODSYNTH_DEBUG is set.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except (ShownError, OSError, *MEMORY_ERRORS) as error:
        raise click.ClickException(private_message(error)) from None
    except Exception as error:
        if os.environ.get("ODSYNTH_DEBUG"):
            raise
        raise click.ClickException(
            f"an error that was not foreseen ({type(error).__name__}), whose details could show confidential "
            "values; nothing was released. Fix: set ODSYNTH_DEBUG=1 on a safe terminal to see the details"
        ) from None


@contextmanager
def kept_for_resume(out: Path) -> Iterator[None]:
    """Say how to go on with a run that has been drawing."""
    os.umask(
        os.umask(0) | 0o007
    )  # nothing that a run makes is for everybody, except what it opens in the end
    try:
        yield
    except BaseException as error:
        from pipelines.running.folder import RunFolder

        if not isinstance(error, pipelines.ConfigError) and RunFolder.of(out).begun:
            say(f"What was drawn is kept in {RunFolder.of(out).folder}. Continue with: odsynth resume {out}")
        raise


def say(message: str) -> None:
    """Print words for people, on standard error."""
    click.echo(message, err=True)


class Words(logging.Handler):
    """Prints what is logged, for people."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it."""
        say(words_of(record))


def counter() -> Progress | None:
    """Return what shows how much of a step is done, in one line; None unless a person is looking.

    From a second on it says how much longer the step takes at the pace so far.
    """
    if not sys.stderr.isatty():
        return None
    begin, first, last, whole = time.monotonic(), 0, 0, -1

    def show(done: int, total: int) -> None:
        nonlocal begin, first, last, whole
        about = isinstance(total, EstimatedTotal)
        if done < last or (total != whole and not (about and isinstance(whole, EstimatedTotal))):
            begin, first = time.monotonic(), done
        last, whole = done, total
        took, made = time.monotonic() - begin, done - first
        words = f"{done:,} of {'about ' if about else ''}{total:,}"
        if made and done < total and took > 1:
            words += f", about {math.ceil(took / made * (total - done)):,} s more"
        click.echo(f"\r  {words}\x1b[K", nl=done == total, err=True)

    return show
