"""The command `odsynth`: each verb is a thin layer over the Python function of the same name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import geo_data
import pipelines
import synth
from pipelines.staging import Staging
from pipelines.summary import comparison, ledger_account, release_summary

__all__ = ["main"]

_CONFIG = click.Path(path_type=Path, dir_okay=False)
_OUT = click.option(
    "--out", type=click.Path(path_type=Path), help="Output folder, instead of the configuration's."
)
_EXPECTED = (
    pipelines.ConfigError,
    pipelines.LedgerError,
    pipelines.PublishError,
    geo_data.InputError,
    synth.BudgetTooSmallError,
    pipelines.SigningError,
    pipelines.VerificationError,
)


@contextmanager
def _one_clear_error() -> Iterator[None]:
    """Turn errors into one message and exit code 1.

    The message of an unforeseen error may quote data, so it is withheld unless ODSYNTH_DEBUG is set.
    """
    try:
        yield
    except _EXPECTED as error:
        raise click.ClickException(str(error)) from None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except OSError as error:
        # Names of files and the system's reason; no content.
        what = error.strerror or "cannot be used"
        raise click.ClickException(f"{error.filename or 'a file'}: {what}") from None
    except Exception as error:
        if os.environ.get("ODSYNTH_DEBUG"):
            raise
        raise click.ClickException(
            f"an error that was not foreseen ({type(error).__name__}). Its details could show confidential "
            "values and are withheld; set ODSYNTH_DEBUG=1 to see them on a safe terminal. "
            "Nothing was released."
        ) from None


@contextmanager
def _kept_for_resume(out: Path) -> Iterator[None]:
    """Say how to go on with a run that has been drawing."""
    os.umask(
        os.umask(0) | 0o007
    )  # nothing that a run makes is for everybody, except what it opens in the end
    try:
        yield
    except BaseException as error:
        if not isinstance(error, pipelines.ConfigError) and Staging.of(out).begun:
            _say(f"What was drawn is kept in {Staging.of(out).folder}. Continue with: odsynth resume {out}")
        raise


def _say(message: str) -> None:
    click.echo(message, err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="odsynth")
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


@main.command()
@_OUT
def demo(out: Path | None) -> None:
    """Generate a region of 60,000 jobs and release it into out/demo.

    Needs no input. Inputs are written to out/demo-inputs, in the formats of real data, so that they can be
    looked at; an earlier demo is replaced.
    """
    with _one_clear_error():
        release = pipelines.demo(out, report=_say)
        click.echo(release_summary(release))
        click.echo(comparison(release.plan, release.public, pipelines.demo_truth(release)))


@main.command()
@click.argument("config", type=_CONFIG)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the report; by default the release's with -plan.",
)
def plan(config: Path, out: Path | None) -> None:
    """Show what CONFIG would release, what it would cost, and what it is expected to lose.

    Reads public inputs only; of the job file, only work blocks and attributes, never the column of homes.
    Writes the plan, this report, and a picture of the cells of a few workplaces.
    """
    with _one_clear_error():
        loaded = pipelines.load_config(config)
        target = out or loaded.release.out.with_name(f"{loaded.release.out.name}-plan")
        _say("Reading public inputs ...")
        inputs = pipelines.read_public_inputs(loaded)
        _say("Choosing cells and pools, and planning ...")
        release = pipelines.make_plan(loaded, inputs)
        guarantee = pipelines.certified(release)
        _say("Trying the plan on homes drawn from the public model ...")
        report = pipelines.report_plan(release, guarantee, inputs.model)
        pipelines.write_plan_report(report, target)
        click.echo(report.text())
        click.echo(f"Written     {target}: plan, plan.txt, forecast.json, cells.png")


def _values(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",")) if value else ()


@main.command()
@click.argument("config", type=_CONFIG)
@click.option("--epsilon", callback=_values, help="Values to try, as in 2,4.6,8.6.")
@click.option("--delta", callback=_values, help="Values to try.")
@click.option("--coarsening", callback=_values, help="Rules to try: balanced,threshold,distance,share.")
@click.option("--split-threshold", callback=_values, help="Values to try; auto is the planner's choice.")
@click.option("--pool-below", callback=_values, help="Values to try; auto is the planner's choice.")
@click.option("--retention-min", callback=_values, help="Values of f_min to try.")
@click.option(
    "--pseudo-truth",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A published OD file, such as last year's release, in place of homes drawn from the public model.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder; by default the release's with -tune.")
def tune(config: Path, out: Path | None, pseudo_truth: Path | None, **values: tuple[str, ...]) -> None:
    """Compare plans for CONFIG on public data only, and recommend one.

    Every combination of the values given is planned, certified and tried; an option left out keeps what
    CONFIG says. Writes the measures (tune.parquet) and a figure of what privacy costs (frontier.png).
    """
    with _one_clear_error():
        loaded = pipelines.load_config(config)
        target = out or loaded.release.out.with_name(f"{loaded.release.out.name}-tune")
        target.mkdir(parents=True, exist_ok=True)
        results = pipelines.tune(
            loaded, pipelines.Sweep(**values), pseudo_truth=pseudo_truth, progress=sys.stderr.isatty()
        )
        results.to_parquet(target / "tune.parquet", index=False)
        pipelines.draw_frontier(results, loaded.release.name, target / "frontier.png")
        click.echo(results.to_string(index=False, float_format="{:.4g}".format, na_rep="-"))
        click.echo(f"Written     {target}: tune.parquet, frontier.png")
        click.echo("Recommended at the requested epsilon and delta:")
        click.echo(pipelines.recommend(results, loaded))


_SCHEDULER = click.option(
    "--scheduler",
    help="Address of a Dask cluster to draw on, such as tcp://10.0.0.1:8786. Its workers must see the output "
    "folder. By default, threads.",
)


@main.command()
@click.argument("config", type=_CONFIG)
@_OUT
@_SCHEDULER
def run(config: Path, out: Path | None, scheduler: str | None) -> None:
    """Make the release that CONFIG describes.

    Plans, certifies, draws, writes and checks. The output folder must not exist; it appears, complete, when
    everything has succeeded, and not otherwise. What an interruption leaves can be continued with resume.
    """
    with _one_clear_error():
        loaded = pipelines.load_config(config)
        loaded = loaded if out is None else loaded.with_out(out)
        with _kept_for_resume(loaded.release.out):
            click.echo(release_summary(pipelines.run(loaded, report=_say, scheduler=scheduler)))


@main.command()
@click.argument("out", type=click.Path(path_type=Path))
@_SCHEDULER
def resume(out: Path, scheduler: str | None) -> None:
    """Continue the interrupted run whose output folder is OUT.

    The result is what it would have been, byte for byte, and costs nothing more. No input is read again.
    """
    with _one_clear_error(), _kept_for_resume(out.absolute()):
        click.echo(release_summary(pipelines.resume(out.absolute(), report=_say, scheduler=scheduler)))


@main.command()
@click.argument("public", type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), help="Public key of the expected signer."
)
def verify(public: Path, key: Path | None) -> None:
    """Check the release in the folder PUBLIC.

    Needs nothing but that folder: recomputes checksums, plan hash and certificate, and compares the data with
    the plan. Prints each check and ends with an error at the first that fails.
    """
    with _one_clear_error():
        for check in pipelines.verify(public, key):
            click.echo(f"{click.style('ok', fg='green')}  {check.name}: {check.detail}")
    click.echo(f"{public} is what its certificate says.")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def keygen(folder: Path) -> None:
    """Make a key pair in FOLDER for signing releases.

    Name the private key in a configuration ([signature] key = ...), keep it where only the release's
    operator can read it, and publish the public key where readers can find it without the release.
    """
    with _one_clear_error():
        private, public = pipelines.generate_keys(folder)
        click.echo(f"Private key {private} (keep it), public key {public} (publish it).")


_NAME = click.argument("name")
_VERSION = click.argument("version")
_DESTINATION = click.argument("destination")


@main.command()
@click.argument("out", type=click.Path(path_type=Path))
@_DESTINATION
@click.option("--version", "version", help="Name of the version; by default year, job type and a hash.")
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), help="Public key of the expected signer."
)
def publish(out: Path, destination: str, version: str | None, key: Path | None) -> None:
    """Verify the release in OUT and copy its public folder to DESTINATION, a folder or an fsspec URL.

    Nothing is ever overwritten. Running it again completes an interrupted publication.
    """
    with _one_clear_error():
        done = pipelines.publish(out, destination, version=version, key=key)
        click.echo(f"{'Published' if done.new else 'Already published'}: {done.location}")


@main.command()
@_DESTINATION
def published(destination: str) -> None:
    """List what is published at DESTINATION, with errata and withdrawals."""
    with _one_clear_error():
        for version in pipelines.published(destination):
            click.echo(f"{version.name} {version.version}: {version.status}, begun {version.begun}")
            if version.withdrawn:
                click.echo(f"  withdrawn {version.withdrawn.date}: {version.withdrawn.text}")
            for remark in version.errata:
                click.echo(f"  erratum {remark.date}: {remark.text}")


@main.command()
@_DESTINATION
@_NAME
@_VERSION
@click.argument("reason")
def withdraw(destination: str, name: str, version: str, reason: str) -> None:
    """Record beside VERSION of release NAME at DESTINATION that it is withdrawn, and the REASON."""
    with _one_clear_error():
        click.echo(f"Withdrawn: {pipelines.withdraw(destination, name, version, reason).location}")


@main.command()
@_DESTINATION
@_NAME
@_VERSION
@click.argument("text")
def erratum(destination: str, name: str, version: str, text: str) -> None:
    """Record a correction in words (TEXT) beside VERSION of release NAME at DESTINATION."""
    with _one_clear_error():
        click.echo(f"Noted beside {pipelines.erratum(destination, name, version, text).location}")


@main.group()
def fetch() -> None:
    """Download public tables, with checksums. Needs a network."""


_FOLDER = click.option(
    "--to", "folder", type=click.Path(path_type=Path), default=Path("data"), show_default=True
)


@fetch.command()
@click.option("--state", required=True, help='Two letters, such as "ri".')
@click.option("--year", type=int, required=True)
@click.option("--lodes", "version", type=click.Choice(["7", "8"]), required=True)
@click.option("--job-type", default="JT00", show_default=True)
@click.option("--base-url", default=geo_data.LODES_URL, show_default=True)
@_FOLDER
def lodes(state: str, year: int, version: str, job_type: str, base_url: str, folder: Path) -> None:
    """Fetch a LODES release: origin-destination files, main and aux, and the crosswalk."""
    with _one_clear_error():
        files = geo_data.fetch_lodes(
            state,
            year,
            8 if version == "8" else 7,
            folder,
            job_type=job_type,
            base_url=base_url,
            progress=sys.stderr.isatty(),
        )
        for part, path in files.items():
            click.echo(f"{part:10} {path}")


@fetch.command()
@click.argument("url")
@click.option("--sha256", help="What the file must be.")
@_FOLDER
def table(url: str, sha256: str | None, folder: Path) -> None:
    """Fetch any other public table (ACS, CTPP) from URL."""
    with _one_clear_error():
        click.echo(geo_data.fetch(url, folder, sha256, progress=sys.stderr.isatty()))


@main.group()
def ledger() -> None:
    """Look at what has been spent on which data set."""


_LEDGER = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@ledger.command()
@_LEDGER
def show(file: Path) -> None:
    """Show budgets and what is left of them in the ledger FILE."""
    with _one_clear_error():
        for account in pipelines.Ledger(file).accounts():
            click.echo(ledger_account(account))


@ledger.command(name="verify")
@_LEDGER
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Output folder of a release whose debit must be in the ledger; may be given several times.",
)
def verify_ledger(file: Path, releases: tuple[Path, ...]) -> None:
    """Check every entry of the ledger FILE, and that releases have been paid for in it."""
    with _one_clear_error():
        chain = pipelines.Ledger(file).verify(witness=pipelines.debits_of(releases))
        click.echo(f"ok  {chain.entries:,} entries, head {chain.head}")


@ledger.command()
@_LEDGER
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
def export(file: Path, form: str) -> None:
    """Print every entry of the ledger FILE."""
    with _one_clear_error():
        click.echo(pipelines.Ledger(file).export("csv" if form == "csv" else "jsonl"), nl=False)


if __name__ == "__main__":
    sys.exit(main())
