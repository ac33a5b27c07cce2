"""The verb that draws figures of a release for reports."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import pipelines
from pipelines.cli.common import implicate_option, one_clear_error
from pipelines.views.figures import KINDS

__all__ = ["figure"]


@click.command()
@click.argument("public", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The figure: FILE.png or FILE.svg.",
)
@click.option("--area", help="Code of an area or work block, at any level; by default the whole release.")
@click.option(
    "--of",
    type=click.Choice(["workers", "residents"]),
    default="workers",
    show_default=True,
    help="Those who work in the area, or those who live there.",
)
@click.option("--level", help="Level of the areas on the maps; by default the finest with polygons.")
@click.option("--count", default="S000", show_default=True, help="Who is counted: a column of the OD file.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="all",
    show_default=True,
    help="All four panels in one figure, or one of them.",
)
@implicate_option
def figure(
    public: Path,
    target: Path,
    area: str | None,
    of: Literal["workers", "residents"],
    level: str | None,
    count: str,
    kind: str,
    implicate: int,
) -> None:
    """Draw maps, rose diagram and distances of an area.

    Where its workers live, or its residents work, in the release in the folder PUBLIC.

    Maps of places and of the largest flows, directions as a rose diagram, distances as a histogram.
    """
    with one_clear_error():
        release = pipelines.read_public_release(public, implicate)
        pipelines.draw_figure(release, target, area=area, of=of, level=level, count=count, kind=kind)
        click.echo(f"Written {target}")
