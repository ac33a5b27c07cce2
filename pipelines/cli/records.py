"""The verbs around a release: publication, the release calendar, downloads, the ledger."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime, time
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

import geo_data
import pipelines
import synth
from pipelines.cli.common import FILE, FOLDER, PATH, counter, say

_NAME = click.argument("name")
_VERSION = click.argument("version")
_DESTINATION = click.argument("destination")


@click.command(epilog="Example: odsynth publish out/mine site/published")
@click.argument("out", type=PATH)
@_DESTINATION
@click.option("--version", "version", help="Name of the version; by default year, job type and a hash.")
@click.option("--key", type=FILE, help="Public key of the expected signer; others' and unsigned are refused.")
def publish(out: Path, destination: str, version: str | None, key: Path | None) -> None:
    """Verify a release and copy its public folder.

    The release in OUT, to DESTINATION: a folder or an fsspec URL.

    Nothing is ever overwritten. Running it again completes an interrupted publication.
    """
    from pipelines.release.signing import is_signed, signature_in_words
    from pipelines.running.folder import RunFolder

    try:
        done = pipelines.publish(out, destination, version=version, key=key)
    except KeyboardInterrupt:
        say("What was published so far is not complete. The same command completes it.")
        raise
    click.echo(f"{'Published' if done.new else 'Already published'}: {done.location}")
    for note in done.notes:
        click.echo(f"WARNING: {note}", err=True)
    if RunFolder(out).has_key:
        say(f"WARNING: the run key is still there, and can undo the draws. Destroy it: odsynth seal {out}")
    if not is_signed(out / "public"):
        click.echo(f"WARNING: {signature_in_words(signed=False)}", err=True)


@click.command(epilog="Example: odsynth published site/published")
@_DESTINATION
def published(destination: str) -> None:
    """List what is published at DESTINATION.

    With errata and withdrawals.
    """
    for version in pipelines.published(destination):
        click.echo(f"{version.name} {version.version}: {version.status}, begun {version.begun}")
        if version.withdrawn:
            click.echo(f"  withdrawn {version.withdrawn.date}: {version.withdrawn.text}")
        for remark in version.errata:
            click.echo(f"  erratum {remark.date}: {remark.text}")


@click.command(epilog='Example: odsynth withdraw site/published mine 2019-JT00-1a2b "wrong crosswalk"')
@_DESTINATION
@_NAME
@_VERSION
@click.argument("reason")
def withdraw(destination: str, name: str, version: str, reason: str) -> None:
    """Record that a published version is withdrawn.

    VERSION of release NAME at DESTINATION, and the REASON. Nothing is deleted.
    """
    click.echo(f"Withdrawn: {pipelines.withdraw(destination, name, version, reason).location}")


@click.command(epilog='Example: odsynth erratum site/published mine 2019-JT00-1a2b "a name was wrong"')
@_DESTINATION
@_NAME
@_VERSION
@click.argument("text")
def erratum(destination: str, name: str, version: str, text: str) -> None:
    """Record what is wrong with a published version.

    TEXT is in words, and goes beside VERSION of release NAME at DESTINATION.
    """
    click.echo(f"Noted beside {pipelines.erratum(destination, name, version, text).location}")


@click.command(
    epilog='Example: odsynth correct out/mine/public my.toml --out out/right --because "it had no licence"'
)
@click.argument("public", type=PATH)
@click.argument("config", type=FILE)
@click.option("--because", "reason", required=True, help="The reason, in one line for readers.")
@click.option("--names", is_flag=True, help="Take the names of areas anew, too, from the public files.")
@click.option("--out", type=PATH, help="Output folder, instead of the configuration's.")
def correct(public: Path, config: Path, reason: str, names: bool, out: Path | None) -> None:
    """Correct a title, licence, label or name.

    Of the release in the folder PUBLIC, by the words of CONFIG: name, licence, publisher, contact and
    citation of [release], meaning, unit and labels of [[attribute]]. If anything else differs, nothing is
    written. The output folder gets the same data, plan and certificate, and pages that say what was
    corrected, when and why. Nothing is drawn, no budget is spent, no confidential file is read.
    """
    loaded = pipelines.load_config(config)
    loaded = loaded if out is None else loaded.with_out(out)
    release = pipelines.correct(public, loaded, reason, names=names)
    done = release.description.corrections[-1]
    click.echo(f"Corrected   {', '.join(done.changed)}")
    click.echo(f"Public      {release.public}")
    click.echo("Publish it with odsynth publish, and note it beside the former version with odsynth erratum.")


@click.command(epilog="Example: odsynth due releases/ --dry-run")
@click.argument("folder", type=FOLDER)
@click.option("--dry-run", is_flag=True, help="Only say what would be done and cost; writes nothing.")
def due(folder: Path, dry_run: bool) -> None:
    """Make the releases that a calendar says are due.

    FOLDER is the release calendar; each release is made once, and in order.

    Exit code 1: something failed. 75: another call is still at work.
    """
    os.umask(os.umask(0) | 0o007)
    try:
        summary = pipelines.due(folder, dry_run=dry_run, progress=counter())
    except KeyboardInterrupt:
        say(f"What was begun is kept. Continue with: odsynth due {folder}")
        raise
    click.echo(summary.text())
    sys.exit(summary.exit_code)


@click.command(epilog="Example: odsynth series releases/ --years 20 --to series.html")
@click.argument("folder", type=FOLDER)
@click.option("--years", type=click.IntRange(1, 200), default=20, show_default=True, help="How far to look.")
@click.option(
    "--delta", default="1e-5", show_default=True, help="At which the epsilon of all releases is told."
)
@click.option("--plan", is_flag=True, help="Plan a release where none is planned, to tell its error.")
@click.option("--to", type=PATH, help="A picture (.png), or a page for a committee (.html).")
def series(folder: Path, years: int, delta: str, plan: bool, to: Path | None) -> None:
    """Say what a calendar costs over many years.

    For each release of the release calendar FOLDER: its cost, the epsilon of all releases of its data set by
    then, added up in each way that holds, what is left, and, where a plan tells it, its expected error; then
    where each budget ends, and which noise loses less. Nothing is made, and nothing is paid.

    Exit code 1: a file of the calendar, or a ledger, cannot be used.
    """
    if to is not None and to.suffix not in (".png", ".html"):
        raise click.BadParameter(f"{to.name} ends in neither .png nor .html; write one", param_hint="--to")
    told = pipelines.series(folder, years=years, delta=_delta(delta), plan=plan)
    if told.outlook.costs:
        click.echo(told.table().to_string(index=False))
        at_delta = f"at delta {synth.decimal_up(told.delta)}"
        click.echo(f"Together: epsilon of all releases of the data set, {at_delta}")
        if told.forecasts:
            click.echo("Loss: share of jobs that a table is expected to count elsewhere")
        for planned, forecast in told.plans.items():
            click.echo(f"error     as planned for {planned}: {forecast.example or 'see loss'}")
        for gap in told.outlook.gaps:
            click.echo(f"gap       {gap}")
        for end in told.outlook.ends:
            click.echo(f"budget    {end}")
        for noise in told.noises:
            click.echo(f"noise     {noise}")
        if to is not None:
            (told.draw if to.suffix == ".png" else told.write_page)(to)
            click.echo(f"Written   {to}")
    else:
        click.echo("No release is to come.")
    for problem in told.problems:
        click.echo(f"problem   {problem}")
    sys.exit(1 if told.problems else 0)


@click.group(epilog="Example: odsynth fetch lodes --state ri --year 2019 --lodes 7 data/")
def fetch() -> None:
    """Download tables, with checksums. Needs a network."""


_FOLDER = click.option(
    "--to",
    "folder",
    type=PATH,
    default=Path("data"),
    show_default=True,
    help="Folder of the files, made if need be.",
)


@fetch.command(epilog="Example: odsynth fetch lodes --state ri --year 2019 --lodes 7 data/")
@click.option("--state", required=True, help='Two letters, such as "ri".')
@click.option("--year", type=int, required=True, help="Year of the jobs.")
@click.option("--lodes", "version", type=click.Choice(["7", "8"]), required=True)
@click.option("--job-type", default="JT00", show_default=True)
@click.option("--base-url", help="Where the files of LODES are; by default with the Census Bureau.")
@_FOLDER
def lodes(state: str, year: int, version: str, job_type: str, base_url: str | None, folder: Path) -> None:
    """Fetch a LODES release.

    Origin-destination files, main and aux, and the crosswalk.
    """
    from geo_data.fetching import LODES_URL

    files = geo_data.fetch_lodes(
        state,
        year,
        8 if version == "8" else 7,
        folder,
        job_type=job_type,
        base_url=base_url or LODES_URL,
        progress=sys.stderr.isatty(),
    )
    for part, path in files.items():
        click.echo(f"{part:10} {path}")


@fetch.command(epilog="Example: odsynth fetch table https://example.org/flows.csv data/")
@click.argument("url")
@click.option("--sha256", help="What the file must be.")
@click.option(
    "--confidential",
    is_flag=True,
    help="A file of jobs, from a store: into a folder that is closed to others, readable to its owner only.",
)
@_FOLDER
def table(url: str, sha256: str | None, confidential: bool, folder: Path) -> None:
    """Fetch any other table (ACS, CTPP) from URL.

    URL is one of the web, or of a file in a store: s3://, gs://, abfs:// or sftp://.
    """
    path = geo_data.fetch(url, folder, sha256, confidential=confidential, progress=sys.stderr.isatty())
    click.echo(path)


@click.group(epilog="Example: odsynth ledger show ledger.sqlite")
def ledger() -> None:
    """Look at what has been spent on which data set."""


_LEDGER = click.argument("file", type=FILE)


@ledger.command(epilog="Example: odsynth ledger show ledger.sqlite --delta 1e-6 --years 5")
@_LEDGER
@click.option("--delta", help="At which the epsilon of all releases is told; by default that of the budget.")
@click.option(
    "--records",
    type=click.IntRange(1, 1000),
    default=1,
    help="Of a person with up to so many job records, if this is more than the debits are for.",
)
@click.option("--years", type=click.IntRange(1, 1000), help="Only what was debited in the last years.")
def show(file: Path, delta: str | None, records: int, years: int | None) -> None:
    """Show budgets and what is left of them in the ledger FILE.

    Spent is told by plain sums of epsilon and delta, by zCDP, and by Gaussian noise where all debits have it.
    """
    from pipelines.cli.summary import ledger_account
    from pipelines.ledger.budgets import first_day

    chosen = None if delta is None else _delta(delta)
    now = datetime.now(UTC)
    since = None if years is None else datetime.combine(first_day(now.date(), years), time(), UTC)
    words = "" if years is None else f", last {years} year(s)"
    for account in pipelines.Ledger(file).accounts(since, now=now):
        if years is None or account.budget.years is None:  # whose years are others
            click.echo(ledger_account(account, chosen, records, words))


def _delta(text: str) -> Fraction:
    with suppress(ValueError):
        if 0 <= (delta := synth.exact(text, "delta")) < 1:
            return delta
    raise click.BadParameter(f"{text!r} is not in [0, 1); write for example 1e-6", param_hint="--delta")


@ledger.command(name="verify", epilog="Example: odsynth ledger verify ledger.sqlite --release out/mine")
@_LEDGER
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=FOLDER,
    help="Output folder of a release whose debit must be in the ledger; may be given several times.",
)
@click.option("--witness", multiple=True, help="A debit that must be in the ledger, as its run printed it.")
def verify_ledger(file: Path, releases: tuple[Path, ...], witness: tuple[str, ...]) -> None:
    """Check every entry of the ledger FILE.

    And that releases have been paid for in it.
    """
    from pipelines.running.payment import debits_of

    chain = pipelines.Ledger(file).verify([*debits_of(releases), *witness])
    click.echo(f"ok  {chain.entries:,} entries, head {chain.head}")


@ledger.command(epilog="Example: odsynth ledger audit site/published/mine/*/")
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
def audit(folders: tuple[Path, ...]) -> None:
    """Compare what published releases say of their ledger.

    FOLDERS are all releases that were published from one ledger. Their certificates alone show an older copy
    that was put back, a fork, a debit of which nothing was published, and how often a plan was drawn. Verify
    each release too.

    Exit code 1: something is wrong or missing.
    """
    from pipelines.release import audit as auditing

    found = auditing.audit(folders)
    for debit in found.debits:
        click.echo(debit)
    for finding in found.findings:
        click.echo(f"problem   {finding}")
    if not found.findings:
        click.echo(f"ok  {len(found.debits)} debit(s), each after the one before, and all of them are here")
    sys.exit(1 if found.findings else 0)


@ledger.command(epilog="Example: odsynth ledger export ledger.sqlite --format csv")
@_LEDGER
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
def export(file: Path, form: str) -> None:
    """Print every entry of the ledger FILE."""
    click.echo(pipelines.Ledger(file).export("csv" if form == "csv" else "jsonl"), nl=False)


_RATE = click.FloatRange(0, 1)


@click.command(epilog="Example: odsynth simulate out/nation --workers 1000000")
@click.argument("folder", type=FOLDER)
@click.option("--workers", type=click.IntRange(min=1000), help="Of a nation.  [default: 1000000]")
@click.option(
    "--kind",
    type=click.Choice(["nation", "region", "country"]),
    default="nation",
    show_default=True,
    help="A region has blocks and no table of flows; a country has zones and one large city.",
)
@click.option(
    "--years",
    type=click.IntRange(1, 30),
    help="The region in so many years from 2010, with the same workers, and a calendar.",
)
@click.option("--moving", type=_RATE, help="Share of them who move in a year.  [default: 0.04]")
@click.option("--changing", type=_RATE, help="Share of them who change jobs in a year.  [default: 0.06]")
@click.option(
    "--growing", type=_RATE, help="Standard deviation of the yearly growth of tracts.  [default: 0.01]"
)
def simulate(folder: Path, workers: int | None, kind: str, years: int | None, **rates: Any) -> None:
    """Write the files of a generated place.

    Into FOLDER, with a configuration that releases it.

    140,000,000 workers make a nation of the size of the United States.
    """
    chosen = {name: rate for name, rate in rates.items() if rate is not None}
    if years is not None:
        if workers is not None or kind == "country":
            raise click.UsageError("--years is for a region only; leave --workers and --kind out")
        config = geo_data.simulate_panel(folder, years=years, **chosen)
    elif chosen:
        raise click.UsageError(f"--{next(iter(chosen))} is for several years; write --years, or leave it out")
    elif kind == "nation":
        config = geo_data.simulate_nation(folder, workers or 1_000_000)
    elif workers is not None:
        raise click.UsageError("--workers is for a nation only; leave it out, or write --kind nation")
    else:
        of_kind = {"region": geo_data.simulate_region, "country": geo_data.simulate_country}
        config = of_kind[kind](folder)
    click.echo(f"Written {config}. Try: odsynth plan {config}")


RECORDS = (publish, published, correct, withdraw, erratum, due, series, fetch, ledger, simulate)
