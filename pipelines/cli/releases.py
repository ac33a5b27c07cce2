"""The verbs that plan, make and check a release; what only one of them needs it imports when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import pipelines
from pipelines.cli.common import FILE, FOLDER, PATH, counter, kept_for_resume, say
from pipelines.storage.errors import private_message
from synth.errors import ShownError

if TYPE_CHECKING:
    from pipelines.running.unfinished import UnfinishedRun

_CONFIG = click.argument("config", type=FILE)
_OUT = click.option("--out", type=PATH, help="Output folder, instead of the configuration's.")


@click.command(epilog="Example: odsynth demo")
@click.argument("folder", type=FOLDER, required=False)
@click.option(
    "--census", is_flag=True, help="A census of 200,000 persons, of whom whole records are protected."
)
@_OUT
def demo(folder: Path | None, census: bool, out: Path | None) -> None:
    """Generate a region of 65,000 jobs and release it into out/demo.

    Needs no input. Inputs are written to out/demo-inputs, in the formats of real data, so that they can be
    looked at; an earlier demo is replaced. Those of the census are in out/census-demo-inputs, its release is
    out/census-demo. In FOLDER, if it is given, with the configuration in its folder examples; else here. Ends
    with a map of the release.
    """
    from pipelines.cli.summary import comparison, release_summary
    from pipelines.running.demo import CENSUS, REGION, demo, demo_truth

    which = CENSUS if census else REGION
    release = demo(out, which=which, folder=folder, progress=counter())
    click.echo(release_summary(release))
    click.echo(comparison(release, demo_truth(release, which=which, folder=folder)))
    try:
        click.echo(f"Map         {release.map()} (open it in a browser)")
    except FileNotFoundError as error:  # set up without npm: everything else is there
        click.echo(f"Map         none: {error.strerror}")


_SCHEDULER = click.option(
    "--scheduler",
    help="Address of a Dask cluster to work on, such as tls://10.0.0.1:8786: homes are sent to its workers "
    "encrypted only. By default threads or, to draw many jobs on many cores, a cluster of its own.",
)


@click.command(epilog="Example: odsynth plan my.toml")
@_CONFIG
@click.option("--out", type=PATH, help="Folder of the report; by default the release's with -plan.")
@click.option("--verbose", is_flag=True, help="Print pools, cells and tables, too, as plan.txt has them.")
@_SCHEDULER
def plan(config: Path, out: Path | None, verbose: bool, scheduler: str | None) -> None:
    """Show what CONFIG would release, and its cost.

    Also what it is expected to lose.

    Reads public inputs only; of the job file, only work blocks and attributes, unless there is a public table
    of workplaces or whole records are protected; and of homes nothing but in which part each lies, if the
    policy of CONFIG makes that public.
    Checks that the signing key and the ledger can be used, and says what is left of the budget.
    Writes the plan, this report, and a picture of the cells of a few workplaces.
    """
    from pipelines.cli.summary import planned_summary

    loaded = pipelines.load_config(config)
    planned = pipelines.plan(loaded, out, progress=counter(), scheduler=scheduler)
    click.echo(planned_summary(planned, loaded.ledger, config, verbose=verbose))


def _values(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",")) if value else ()


_RULES = "Rules to try: balanced,threshold,distance,share,units; auto is the planner's choice."


@click.command(epilog="Example: odsynth tune my.toml --epsilon 2,4.6,8.6")
@_CONFIG
@click.option("--epsilon", callback=_values, help="Values to try, as in 2,4.6,8.6.")
@click.option("--delta", callback=_values, help="Values to try.")
@click.option("--mechanism", callback=_values, help="Mechanisms to try: dirichlet,geometric,gaussian.")
@click.option("--coarsening", callback=_values, help=_RULES)
@click.option("--split-threshold", callback=_values, help="Values to try; auto is the planner's choice.")
@click.option("--pool-by", callback=_values, help="Attributes to pool by: none,SE,SA+SE.")
@click.option("--pool-level", callback=_values, help="Levels to try; auto is the planner's choice.")
@click.option("--pool-below", callback=_values, help="Values to try; auto is the planner's choice.")
@click.option("--retention-min", callback=_values, help="Values of f_min to try.")
@click.option(
    "--proxy-truth",
    type=FILE,
    help="A published OD file, such as last year's release, in place of homes drawn from the public model.",
)
@click.option("--out", type=PATH, help="Folder; by default the release's with -tune.")
def tune(config: Path, out: Path | None, proxy_truth: Path | None, **values: tuple[str, ...]) -> None:
    """Compare plans for CONFIG, on public data only.

    One is recommended.

    Every combination of the values given is planned, certified and tried; an option left out keeps what
    CONFIG says. Without any, every mechanism is tried, with the strata that suit it and without. Writes the
    measures (tune.parquet) and a figure of what privacy costs (frontier.png).
    """
    from pipelines.planning.sweep import every_mechanism

    loaded = pipelines.load_config(config)
    target = out or loaded.release.out.with_name(f"{loaded.release.out.name}-tune")
    sweep = pipelines.Sweep(**values) if any(values.values()) else every_mechanism(loaded)
    results = pipelines.tune(loaded, sweep, proxy_truth=proxy_truth, progress=counter(), out=target)
    click.echo(results.to_string(index=False, float_format="{:.4g}".format, na_rep="-"))
    click.echo(f"Written     {target}: tune.parquet, frontier.png")
    click.echo(pipelines.recommend(results, loaded))


@click.command(epilog="Example: odsynth attackers out/mine-plan")
@click.argument("plan", type=FOLDER)
@click.option(
    "--stubbornness",
    callback=_values,
    help="How stubborn attackers are: how many homes seen their belief weighs as much as, as in 5,50. By "
    "default as on the page that releases have.",
)
@click.option("--to", type=PATH, help="A new folder for this page and a figure.")
def attackers(plan: Path, stubbornness: tuple[str, ...], to: Path | None) -> None:
    """Say what somebody could learn about a home from a release of PLAN.

    By how much the odds between two homes can change, for classes of attackers who know more or less of the
    other jobs and are more or less sure of what they believe, beside epsilon. PLAN is the folder that odsynth
    plan wrote, or the public folder of a release; nothing else is read.
    """
    options = {"stubbornness": stubbornness} if stubbornness else {}
    click.echo(pipelines.attackers(plan, to, **options).text(), nl=False)
    if to is not None:
        say(f"Written {to}")


@click.command(epilog="Example: odsynth run my.toml --plan out/mine-plan")
@_CONFIG
@_OUT
@click.option(
    "--plan",
    type=PATH,
    help="Folder that odsynth plan wrote for CONFIG: run exactly that plan, instead of planning again.",
)
@_SCHEDULER
def run(config: Path, out: Path | None, plan: Path | None, scheduler: str | None) -> None:
    """Make the release that CONFIG describes.

    Plans, certifies, draws, writes and checks. The output folder must not exist; it appears, complete, when
    everything has succeeded, and not otherwise. What an interruption leaves can be continued with resume.
    With --plan, what odsynth plan wrote is released, and nothing is planned again.
    """
    from pipelines.cli.summary import release_summary

    loaded = pipelines.load_config(config)
    loaded = loaded if out is None else loaded.with_out(out)
    with kept_for_resume(loaded.release.out):
        release = pipelines.run(loaded, plan=plan, progress=counter(), scheduler=scheduler)
        click.echo(release_summary(release))


@click.command(epilog="Example: odsynth resume out/mine")
@click.argument("out", type=PATH)
@_SCHEDULER
def resume(out: Path, scheduler: str | None) -> None:
    """Continue the interrupted run whose output folder is OUT.

    The result is what it would have been, byte for byte, and costs nothing more. No input is read again.
    """
    from pipelines.cli.summary import release_summary

    with kept_for_resume(out.absolute()):
        release = pipelines.resume(out.absolute(), progress=counter(), scheduler=scheduler)
        click.echo(release_summary(release))


@click.command(epilog="Example: odsynth refine out/mine --epsilon 4.6")
@click.argument("release", type=PATH)
@click.option("--epsilon", required=True, help="Of the stronger release, larger than that of RELEASE.")
@click.option("--out", type=PATH, help="Output folder; by default that of RELEASE with -refined.")
@_SCHEDULER
def refine(release: Path, epsilon: str, out: Path | None, scheduler: str | None) -> None:
    """Make a stronger release of the draw of RELEASE, for the difference.

    RELEASE is the output folder of a finished run. The confidential files of its configuration are read anew,
    and must be the same. The ledger is debited what epsilon is above that of RELEASE. A release is refined
    once; what comes out can be refined again.
    """
    from pipelines.cli.summary import release_summary

    to = release.absolute()
    to = to.with_name(f"{to.name}-refined") if out is None else out.absolute()
    with kept_for_resume(to):
        refined = pipelines.refine(release, epsilon, to, progress=counter(), scheduler=scheduler)
        click.echo(release_summary(refined))


@click.command(epilog="Example: odsynth runs out/")
@click.argument("place", type=PATH, default=Path())
@click.option("--wipe", is_flag=True, help="Remove them with their homes; asks before each.")
def runs(place: Path, wipe: bool) -> None:
    """List unfinished runs: what they hold, and whether they are paid.

    PLACE is the output folder of a run, or a folder that outputs lie in, or their folders; by default this
    one. A run at work is shown, and never touched. To remove a run that has been paid for, its name has to be
    typed: what it has spent stays spent.
    """
    from pipelines.cli.summary import unfinished_summary
    from pipelines.running.unfinished import unfinished_runs, wipe_run

    unfinished = unfinished_runs(place)
    for run in unfinished:
        click.echo(unfinished_summary(run))
    if not unfinished:
        click.echo(f"No unfinished run in {place.absolute()}.")
    failed = []
    for run in unfinished if wipe else ():
        if run.at_work is not False:
            say(f"{run.folder} is left alone.")
        elif _given_up(run):
            try:
                wipe_run(run)
            except (ShownError, OSError) as error:  # the others are removed all the same
                failed.append(private_message(error))
            else:
                click.echo(f"Removed {run.folder}")
    if failed:
        raise click.ClickException("\n".join(failed))


def _given_up(run: UnfinishedRun) -> bool:
    """Ask what has to be asked before a run is removed."""
    name = run.out.name
    if not run.paid:
        lost = "It could be resumed. " if run.begun else ""
        return click.confirm(f"{lost}No ledger was debited for it. Remove {run.folder}?", err=True)
    say(f"{name} is paid: {run.paid}.")
    say("Removed, it cannot be resumed. What it has spent stays spent, and a new run pays again.")
    text = f"Type its name, {name}, to remove it, or nothing to keep it"
    return bool(click.prompt(text, default="", show_default=False, err=True) == name)


@click.command(epilog="Example: odsynth verify out/mine/public --key signing-key.pub")
@click.argument("public", type=PATH)
@click.option("--key", type=FILE, help="Public key of the expected signer.")
@click.option("--witness", type=FILE, help="Public key of the expected witness.")
@click.option("--authority", type=FILE, help="Certificates (PEM) of the expected time-stamp authority.")
@click.option("--ledger-head", help="The debit that it must follow on, as the release before has its own.")
def verify(
    public: Path, key: Path | None, witness: Path | None, authority: Path | None, ledger_head: str | None
) -> None:
    """Check the release in the folder PUBLIC.

    Needs nothing but that folder: recomputes checksums, plan hash and certificate, and compares the data with
    the plan. Prints each check and ends with an error at the first that fails.
    """
    from pipelines.release.signing import is_signed
    from pipelines.release.verification import Check

    def show(check: Check) -> None:
        mark = click.style("ok", fg="green") if check.complete else click.style("note", fg="yellow")
        click.echo(f"{mark}  {check.name}: {check.detail}")

    report = pipelines.verify(
        public, key, witness=witness, authority=authority, ledger_head=ledger_head, on_check=show
    )
    rest = "" if all(check.complete for check in report) else " that could be carried out here; see the note"
    click.echo(f"{public} passes every check{rest}{'' if is_signed(public) else '; nobody has signed it'}.")


@click.command(epilog="Example: odsynth witness out/mine --key my-keys/signing-key.pem")
@click.argument("out", type=FOLDER)
@click.option("--key", type=FILE, required=True, help="Private key of the witness (odsynth keygen).")
@click.option("--jobs", type=FOLDER, help="Folder of the confidential files, if they are elsewhere here.")
@click.option("--ledger", type=FILE, help="The ledger or a copy, if it is elsewhere here.")
def witness(out: Path, key: Path, jobs: Path | None, ledger: Path | None) -> None:
    """Make the release of the run OUT again, and sign that it is the same.

    For a second person, with a key of their own: everything is drawn again from the confidential files and
    the run key, which is kept where the configuration names a witness. If what the run committed to or any
    file differs, nothing is signed. The statement goes into the public folder. Costs no budget.
    """
    path = pipelines.witness(out, key, jobs=jobs, ledger=ledger, progress=counter())
    click.echo(f"Witnessed   {path}")
    click.echo(f"When all witnesses have signed, destroy the run key: odsynth seal {out}")


@click.command(epilog="Example: odsynth seal out/mine")
@click.argument("out", type=FOLDER)
def seal(out: Path) -> None:
    """Destroy the key of the run OUT, which was kept for a witness.

    After this nobody can draw from OUT again, nor open its commitment, but with a copy of the key, such as
    that in the folder that the witness was given: delete it, too.
    """
    pipelines.seal(out)
    click.echo(f"Sealed      {out}: the run key in it is destroyed. Delete the witness's copy, too.")


@click.command(epilog="Example: odsynth keygen keys/")
@click.argument("folder", type=FOLDER)
def keygen(folder: Path) -> None:
    """Make a key pair in FOLDER for signing releases.

    Name the private key in a configuration ([signature] key = ...), keep it where only the release's
    operator can read it, and publish the public key where readers can find it without the release. Where the
    private key is already and the public one is not, the public one is derived from it.
    """
    from pipelines.release.signing import generate_keys

    private, public = generate_keys(folder)
    click.echo(f"Private key {private} (keep it), public key {public} (publish it).")


RELEASES = (demo, plan, attackers, tune, run, resume, refine, runs, witness, seal, verify, keygen)
