"""The verb that measures how close a release is to the truth, or to public tables."""

from __future__ import annotations

from pathlib import Path

import click

import pipelines
from pipelines.cli.common import one_clear_error, say

__all__ = ["evaluate"]

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--truth",
    type=_FILE,
    help="The release's configuration (.toml), which names the confidential jobs, or a LODES file of them.",
)
@click.option(
    "--public",
    "tables",
    type=_FILE,
    multiple=True,
    help="Compare with public data only: a configuration (.toml), for its auxiliary tables, or a published "
    "LODES file, such as last year's. May be given several times.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the report; by default OUT/confidential/evaluation, with --public OUT/evaluation.",
)
def evaluate(out: Path, truth: Path | None, tables: tuple[Path, ...], to: Path | None) -> None:
    """Measure how close a release is to the truth.

    Or to public tables: OUT is the release, and --truth or --public, one of them, what it is compared with.

    Writes report.html, to be opened in a browser, and measures.parquet. With --truth both are confidential:
    no number is printed here, only you can read the folder, and it is never inside a public one.
    """
    if (truth is None) == (not tables):
        raise click.UsageError("Give either --truth or --public.")
    with one_clear_error():
        target = to or pipelines.evaluation_folder(out, confidential=truth is not None)
        if truth is None:
            pipelines.evaluate_public(out, tables, to)
            click.echo(f"Written {target}: report.html, measures.parquet. Made from public data only.")
        else:
            say("Reading the release and the truth ...")
            pipelines.evaluate(out, truth, to)
            click.echo(f"Written {target}: report.html, measures.parquet. CONFIDENTIAL, never publish.")
