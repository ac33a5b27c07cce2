"""The verb `map` of the command line."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli.common import implicate_option, one_clear_error
from pipelines.views.maps.page import write_map

__all__ = ["map_command"]


@click.command("map")
@click.argument("public", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The HTML file; by default map.html beside PUBLIC.",
)
@implicate_option
def map_command(public: Path, target: Path | None, implicate: int) -> None:
    """Write an offline map of the release in PUBLIC: one HTML file, to be opened by any browser."""
    with one_clear_error():
        path = write_map(public, target, implicate)
        click.echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB. Open it in a browser; it needs no network.")
