"""The command `odsynth export`."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli.common import implicate_option, one_clear_error
from pipelines.views.exports.exporting import FORMATS, export

__all__ = ["export_command"]

_MEANINGS = "\n".join(f"  {name:11} {form.meaning}" for name, form in FORMATS.items())


@click.command(
    name="export",
    help=f"""Write the release in the folder PUBLIC in formats of other programs.

\b
Formats, of which several can be named:
{_MEANINGS}

Each goes into a folder of its own; nothing is overwritten. Only the public folder is read.
""",
)
@click.argument("public", type=click.Path(path_type=Path, file_okay=False))
@click.option("--format", "formats", multiple=True, required=True, type=click.Choice(list(FORMATS)))
@click.option(
    "--to", type=click.Path(path_type=Path), help="Folder; by default `exports` beside the public one."
)
@click.option("--home-level", help="Level of homes, such as trct; by default the finest that has polygons.")
@click.option("--work-level", help="Level of workplaces; by default that of homes.")
@implicate_option
def export_command(
    public: Path,
    formats: tuple[str, ...],
    to: Path | None,
    home_level: str | None,
    work_level: str | None,
    implicate: int,
) -> None:
    """Export a release."""
    with one_clear_error():
        files = export(public, formats, to, home_level=home_level, work_level=work_level, implicate=implicate)
        for name, paths in files.items():
            size = sum(path.stat().st_size for path in paths)
            shown = f"{size / 1e6:8.2f} MB" if size >= 1e5 else f"{size / 1e3:8.2f} kB"
            click.echo(f"{name:11} {shown}  {paths[0].parent}")
