"""Unfinished runs: the private folders that stopped runs left beside their outputs, and giving them up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from geo_data.arguments import PathLike, check_type, path_of
from pipelines.config.toml import ConfigError
from pipelines.ledger.chain import LedgerError
from pipelines.ledger.ledger import Ledger
from pipelines.running.folder import RunFolder, RunState
from pipelines.running.payment import debit_of, is_finished
from pipelines.storage.checksums import CHECKSUMS
from pipelines.storage.errors import shown_message

_END = ".unfinished"


@dataclass(frozen=True)
class UnfinishedRun:
    """A private folder of a run. Nothing in it is of the confidential data."""

    out: Path  # output folder of the run
    folder: Path  # the private folder beside it
    at_work: bool | None  # whether a process works in it; None if that cannot be told
    begun: bool  # whether it can be resumed. One that cannot was stopped before it was paid for.
    holds: tuple[str, ...]  # what lies in it, for people: plan, homes, key, draws, a checked release
    homes: bool  # whether confidential homes, or the key from which the draws follow, are among that
    paid: str  # what was paid for it, for people; "" if nothing was
    software: str  # version and commit that began it; "" if that is not told
    since: datetime  # when it was begun (UTC)
    problem: str  # why some of this cannot be told; "" if all can

    def __repr__(self) -> str:
        begun = "can be resumed" if self.begun else "was stopped before it was paid for"
        return f"<UnfinishedRun: of {self.out}; {begun}; holds {', '.join(self.holds) or 'nothing'}>"


def unfinished_runs(place: PathLike) -> list[UnfinishedRun]:
    """Return the unfinished runs of an output folder, or of all outputs in a folder and in its folders."""
    place = path_of(place, "place")
    place = place.absolute()
    staging = RunFolder.of(place).folder if place.name else place
    if place.name and staging.is_dir():
        return [_described(staging)]
    if not place.is_dir():
        fix = "name the output folder of a run, or a folder of such folders"
        raise ConfigError(f"{place}: there is no such folder, and no unfinished run of it. Fix: {fix}")
    folders = sorted({*place.glob(f".*{_END}"), *place.glob(f"*/.*{_END}")})
    return [_described(folder) for folder in folders if folder.is_dir() and not folder.is_symlink()]


def wipe_run(run: UnfinishedRun) -> None:
    """Remove a run's private folder with its homes; what it has spent stays spent, and the ledger says so."""
    check_type(run, UnfinishedRun, "run", "unfinished_runs")
    staging = RunFolder(run.folder)
    if _described(run.folder) != run:
        fix = "list the runs again with odsynth runs"
        raise ConfigError(f"{run.folder}: this run was changed meanwhile. Fix: {fix}")
    state = staging.load() if run.begun and not run.problem else None
    staging.wipe(begun=run.begun)
    if state is None or state.config.ledger is None or is_finished(state):
        return
    if debit := state.debit or debit_of(state):
        Ledger(state.config.ledger.file).outcome(debit, "abandoned", "its private folder was wiped")


def _described(folder: Path) -> UnfinishedRun:
    staging = RunFolder(folder)
    out = folder.with_name(folder.name.removeprefix(".").removesuffix(_END))
    software, state, at_work, problems = staging.software(), None, None, []
    since = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    try:
        at_work = staging.at_work
        if staging.begun:
            state = staging.load()
            since = datetime.fromisoformat(state.certificate.created)
    except (OSError, ConfigError) as error:
        problems.append(shown_message(error, one_line=True))
    paid = ""
    if staging.begun:
        try:
            paid = "perhaps: its state cannot be read" if state is None else _paid(state)
        except LedgerError as error:
            paid = "perhaps: the ledger cannot be read"
            problems.append(shown_message(error, one_line=True))
    homes = any(staging.homes.glob("*")) or staging.has_key
    holds = tuple(_holds(staging))
    words = software.words if software else ""
    return UnfinishedRun(
        out, folder, at_work, staging.begun, holds, homes, paid, words, since, "; ".join(problems)
    )


def _holds(staging: RunFolder) -> Iterator[str]:
    if (staging.public / "plan" / "plan.json").is_file():
        yield "plan"
    if any(staging.homes.glob("*")):
        yield "confidential homes"
    if staging.has_key:
        yield "key"
    if draws := sum(1 for _ in staging.parts.glob(f"*/{CHECKSUMS}")):
        yield f"draws of {draws:,} batch{'es' if draws > 1 else ''}"
    if staging.checked:
        yield "checked release"


def _paid(state: RunState) -> str:
    settings = state.config.ledger
    if settings is None or (debit := state.debit or debit_of(state)) is None:
        return ""
    return f"debit {debit} of {settings.data_set!r} in {settings.file}"
