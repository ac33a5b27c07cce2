"""The verbs that look at a release: maps, figures, exports, evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import geo_data
import pipelines
from pipelines.cli.common import FILE, FOLDER, PATH, LocalPath, counter, implicate_option, say
from pipelines.views.choices import FORMATS, KINDS, YEARS

_MEANINGS = "\n".join(f"  {name:11} {meaning}" for name, (meaning, _) in FORMATS.items())


@click.command("map", epilog="Example: odsynth map out/mine/public")
@click.argument(
    "publics", metavar="PUBLIC...", nargs=-1, required=True, type=LocalPath(exists=True, file_okay=False)
)
@click.option("--to", "target", type=FILE, help="The HTML file; by default map.html beside the newest.")
@click.option("--water", type=FILE, help="File of water to draw: GeoPackage, FlatGeobuf, or what GDAL reads.")
@click.option("--roads", type=FILE, help="The same of main roads.")
@click.option("--attribution", help="Who made these files, as their licence asks; stands on the map.")
@click.option(
    "--site",
    is_flag=True,
    help="For a web server: what is large goes into a folder `map` beside it, to be fetched when opened.",
)
@implicate_option
def map_command(
    publics: tuple[Path, ...],
    target: Path | None,
    water: Path | None,
    roads: Path | None,
    attribution: str | None,
    site: bool,
    implicate: int,
) -> None:
    """Write an offline map of the release in PUBLIC: one HTML file, to be opened by any browser.

    Of several releases of a series, in any order, it opens with the newest, and has a slider over the years.
    """
    drawn = water is not None or roads is not None
    if drawn != bool(attribution and attribution.strip()):
        raise click.UsageError(
            "--water and --roads need --attribution, which is for them only; name both or neither"
        )
    if target is not None and target.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--to {target}: browsers would show this as text; let the name end in .html")
    from pipelines.views.maps.backdrop import Backdrop

    backdrop = Backdrop(str(attribution), water, roads) if drawn else None
    releases = [pipelines.open_release(public, implicate) for public in publics]
    *others, newest = sorted(releases, key=lambda release: release.year)
    path = newest.map(target, backdrop=backdrop, site=site, others=others)
    how = "Open it in a browser; it needs no network."
    if site:
        how = "For a web server; what is large, if anything is, lies in the folder `map` beside it."
    click.echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB. {how}")


@click.command(epilog="Example: odsynth figure out/mine/public --to providence.png --area 44007")
@click.argument("public", type=FOLDER)
@click.option("--to", "target", required=True, type=FILE, help="The figure: FILE.png, FILE.svg or FILE.pdf.")
@click.option("--area", help="Code of an area or work block, at any level; by default the whole release.")
@click.option(
    "--of",
    type=click.Choice(["workers", "residents"]),
    default="workers",
    show_default=True,
    help="Those who work in the area, or those who live there.",
)
@click.option(
    "--level", help="Level of the areas on the maps; by default the finest with polygons, but no noise."
)
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
    release = pipelines.open_release(public, implicate)
    release.figure(target, area=area, of=of, level=level, count=count, kind=kind)
    click.echo(f"Written {target}")


@click.command(
    epilog="Example: odsynth export out/mine/public --format geopackage",
    name="export",
    help=f"""Write the release in the folder PUBLIC in formats of other programs.

\b
Formats, of which several can be named:
{_MEANINGS}

\b
And of several PUBLIC, each of another year of a series:
  {YEARS:11} areas and flows of all years with intervals, CSV and Parquet

Each goes into a folder of its own; nothing is overwritten. Only the public folder is read.
""",
)
@click.argument("publics", metavar="PUBLIC...", nargs=-1, required=True, type=FOLDER)
@click.option("--format", "formats", multiple=True, required=True, type=click.Choice([*FORMATS, YEARS]))
@click.option("--to", type=PATH, help="Folder; by default `exports` beside the public one.")
@click.option("--home-level", help="Level of homes; by default the finest with polygons that is no noise.")
@click.option("--work-level", help="Level of workplaces; by default that of homes.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Of the points of matsim and trips; by default from the hash of the plan.",
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    help="Share of the workers that matsim and trips have; by default all.",
)
@click.option(
    "--decimal-comma",
    is_flag=True,
    help="csv with semicolons and decimal commas, as Excel expects it where decimals have commas.",
)
@implicate_option
def export_command(
    publics: tuple[Path, ...],
    formats: tuple[str, ...],
    to: Path | None,
    home_level: str | None,
    work_level: str | None,
    seed: int | None,
    sample: float,
    decimal_comma: bool,
    implicate: int,
) -> None:
    """Export a release, or the years of a series."""
    if YEARS in formats:
        others = (home_level, work_level, decimal_comma, seed is not None, sample != 1, implicate != 1)
        if len(formats) > 1 or any(others):
            raise click.UsageError(f"--format {YEARS} stands alone; leave out the other options but --to")
        target = (to or pipelines.open_release(publics[0]).out / "exports") / YEARS
        files = {YEARS: [*pipelines.export_years(publics, target).values()]}
    elif len(publics) > 1:
        raise click.UsageError(f"several PUBLIC are for --format {YEARS}; export them one by one")
    else:
        files = pipelines.open_release(publics[0], implicate).export(
            formats,
            to,
            home_level=home_level,
            work_level=work_level,
            seed=seed,
            sample=sample,
            decimal_comma=decimal_comma,
        )
    for name, paths in files.items():
        size = sum(path.stat().st_size for path in paths)
        shown = f"{size / 1e6:8.2f} MB" if size >= 1e5 else f"{size / 1e3:8.2f} kB"
        click.echo(f"{name:11} {shown}  {paths[0].parent}")


@click.command("intervals", epilog="Example: odsynth intervals out/mine/public")
@click.argument("public", type=FOLDER)
@click.option("--to", type=PATH, help="Folder; by default `intervals` beside the public one.")
def intervals_command(public: Path, to: Path | None) -> None:
    """Write intervals of jobs by workplace, of a release in the folder PUBLIC that estimates these.

    They are estimates where whole records or attributes are protected. Intervals of homes and flows are in
    the public folder of every release: areas.csv and flows.csv, and intervals.parquet for any sums.
    """
    made = pipelines.open_release(public).write_intervals(to, progress=counter())
    for kind, path in made.items():
        click.echo(f"{path}: {kind}, {path.stat().st_size / 1e6:.2f} MB")


@click.command("compare", epilog="Example: odsynth compare out/2019/public out/2020/public --to out/change")
@click.argument("a")
@click.argument("b")
@click.option("--to", type=PATH, required=True, help="Folder to make.")
@click.option("--home", help="Kind of home areas; by default the two coarsest of the tables both are for.")
@click.option("--work", help="Kind of work areas; --home or --work alone stands for both.")
@click.option("--by", help="An attribute: each table is written by its categories, too.")
@click.option(
    "--relationship",
    type=FILE,
    help="Where blocks changed: a public file of which blocks, or areas, of A share land with which of B.",
)
@click.option(
    "--columns",
    metavar="A,B[,SHARED]",
    help="Its columns, if they are not those of the Census Bureau, NHGIS or the ONS: codes of A, codes of B, "
    "and land or weight that they share.",
)
def compare_command(
    a: str,
    b: str,
    to: Path,
    home: str | None,
    work: str | None,
    by: str | None,
    relationship: Path | None,
    columns: str | None,
) -> None:
    """Compare two releases: what changed from A to B, and which differences are beyond noise.

    A and B are public folders, or addresses of versions at a service, of the same areas and kinds of jobs.
    Residents, jobs by workplace and flows get the difference B minus A with an interval of 90 %, in a CSV
    file for each table; pictures show the changes by area. Only public folders are read.
    """
    named = columns.split(",") if columns is not None else []
    if named and (relationship is None or len(named) not in (2, 3)):
        raise click.UsageError("--columns names two or three columns of the file of --relationship")
    file = None
    if relationship is not None:
        codes = (named[0], named[1]) if named else None
        file = geo_data.read_relationship(relationship, codes, named[2] if len(named) == 3 else None)
    made = pipelines.compare(a, b, to, home=home, work=work, by=by, relationship=file, progress=counter())
    for kind, path in made.items():
        click.echo(f"{path}: {kind}, {path.stat().st_size / 1e6:.2f} MB")


@click.command(epilog="Example: odsynth evaluate out/mine --truth my.toml")
@click.argument("out", type=FOLDER)
@click.option(
    "--truth",
    type=FILE,
    help="The release's configuration (.toml), which names the confidential jobs, or a LODES file of them.",
)
@click.option(
    "--public",
    "tables",
    type=FILE,
    multiple=True,
    help="Compare with public data only: a configuration (.toml), for its auxiliary tables, or a published "
    "LODES file, such as last year's. May be given several times.",
)
@click.option(
    "--to",
    type=FOLDER,
    help="Folder of the report; by default OUT/confidential/evaluation, with --public OUT/evaluation.",
)
def evaluate(out: Path, truth: Path | None, tables: tuple[Path, ...], to: Path | None) -> None:
    """Measure how close a release is to the truth.

    Or to public tables: OUT is the release, and --truth or --public, one of them, what it is compared with.

    Writes report.html, to be opened in a browser, and measures.parquet. With --truth the report begins with a
    verdict, which verdict.txt and verdict.json have too, and all of it is confidential: no number is printed
    here, only you can read the folder, and it is never inside a public one.
    """
    if (truth is None) == (not tables):
        raise click.UsageError("--truth and --public are both there, or both missing; name one of the two")
    from pipelines.views.evaluation.evaluating import evaluation_folder

    release = pipelines.open_release(out)
    target = to or evaluation_folder(release, confidential=truth is not None)
    if truth is None:
        release.evaluate_public(tables, to)
        click.echo(f"Written {target}: report.html, measures.parquet. Made from public data only.")
    else:
        say("Reading the release and the truth ...")
        release.evaluate(truth, to)
        files = "report.html and verdict.txt (begin there), verdict.json, measures.parquet"
        click.echo(f"Written {target}: {files}. CONFIDENTIAL, never publish.")


VIEWS = (map_command, figure, export_command, intervals_command, compare_command, evaluate)
