"""What operators do to runs where more than the records is asked: the ledger, what is published, the disk.

A step that costs privacy, or that is the end, is refused while that is still free: a budget that does not
suffice, a version name that is taken.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from sqlalchemy import Row

import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.ledger.chain import LedgerError
from pipelines.planning.guards import public_files
from pipelines.publishing.destination import PublishError
from pipelines.publishing.publishing import check_free, folder_name
from pipelines.running.folder import RunFolder
from pipelines.running.payment import check_affordable, most_cost_of
from pipelines.running.preflight import check_ready
from pipelines.running.unfinished import unfinished_runs, wipe_run
from pipelines.service.access.tokens import Principal
from pipelines.service.operators.operations import usable_config
from pipelines.service.queue import runs
from pipelines.service.queue.comparisons import MOST, Variation, varied
from pipelines.service.queue.worker_process import without_paths
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError, Store
from pipelines.storage.errors import shown_message
from synth.errors import ShownError


def submit_input(
    store: Store,
    settings: ServiceSettings,
    who: Principal,
    name: str,
    *,
    version: str | None = None,
    dry_run: bool = True,
    key: str | None = None,
) -> tuple[int, bool]:
    """Submit a run of a registered input; see `runs.submit`."""
    config = usable_config(settings, name)
    return _submit(store, settings, who, config, input=name, version=version, dry_run=dry_run, key=key)


def submit_comparison(
    store: Store,
    settings: ServiceSettings,
    who: Principal,
    name: str,
    variation: Variation,
    *,
    key: str | None = None,
) -> tuple[int, bool]:
    """Submit a comparison of plans of a registered input, which pays nothing and reads public inputs only."""
    config = usable_config(settings, name)
    try:
        number = len(variation.configurations(config))
    except ConfigError as error:
        raise ServiceError(409, "comparison", shown_message(error, one_line=True)) from None
    if number > MOST:
        rule = f"{number} combinations are more than the {MOST} that are compared at once"
        raise ServiceError(409, "comparison", f"{rule}. Fix: vary fewer values.")
    text = variation.model_dump_json()
    return runs.submit(
        store,
        who,
        config,
        input=name,
        outs=settings.outs,
        home=settings.folder,
        compare=True,
        variation=text,
        key=key,
    )


def submit_row(
    store: Store,
    settings: ServiceSettings,
    who: Principal,
    run: int,
    number: int,
    *,
    version: str | None = None,
    key: str | None = None,
) -> tuple[int, bool]:
    """Submit the dry run of a plan that was compared: with what the configuration said then."""
    compared = runs.get_run(store, run)
    if compared.state != "compared":
        raise ServiceError(409, "state", f"Run {run} is {compared.state}; this needs compared.")
    rows = json.loads(compared.comparison)["rows"]
    if not 1 <= number <= len(rows):
        raise ServiceError(404, "not_found", f"Run {run} has compared no such plan.")
    row = rows[number - 1]
    if not row["certified"]:
        raise ServiceError(409, "comparison", "This plan could not be certified. Fix: choose another.")
    variation = Variation.model_validate_json(compared.variation)
    try:
        config = varied(config_of(settings, compared), variation, row)
    except ConfigError as error:
        raise ServiceError(409, "comparison", shown_message(error, one_line=True)) from None
    said = {
        name: row[name] for name in ("epsilon", "delta", "mechanism", "workload") if getattr(variation, name)
    }
    chosen = json.dumps({"comparison": run, "row": number, "settings": said})
    return _submit(
        store, settings, who, config, input=compared.input, version=version, variation=chosen, key=key
    )


def row_costs(settings: ServiceSettings, row: Row[Any]) -> dict[int, tuple[Fraction, Fraction]]:
    """Return what a ledger is debited at most for the rows of a comparison, by their numbers from 1."""
    if row.task != "compare" or not row.comparison:
        return {}
    config, variation = config_of(settings, row), Variation.model_validate_json(row.variation)
    rows = enumerate(json.loads(row.comparison)["rows"], start=1)
    return {number: most_cost_of(varied(config, variation, each)) for number, each in rows}


def _submit(
    store: Store,
    settings: ServiceSettings,
    who: Principal,
    config: ReleaseConfig,
    *,
    input: str,
    version: str | None,
    dry_run: bool = True,
    variation: str | None = None,
    key: str | None,
) -> tuple[int, bool]:
    """Submit a run that would not be refused now."""
    try:
        check_ready(config.with_out(settings.outs / "run-000000"))  # as the folder of a run is called
    except (ShownError, OSError) as error:
        said = _said(error, config, settings)
        raise ServiceError(409, "input", f"{input} cannot be run now: {said}") from None
    if not runs.is_submitted(store, who, key):  # its version name is taken by itself then
        _must_be_payable(config, settings, most_cost_of(config))
        _must_be_free(store, settings, config.release.name, version)
    return runs.submit(
        store,
        who,
        config,
        input=input,
        version=version,
        outs=settings.outs,
        home=settings.folder,
        signed=settings.signer is not None,
        dry_run=dry_run,
        variation=variation,
        key=key,
    )


def queue_run(
    store: Store, settings: ServiceSettings, who: Principal, run: int, plan_sha256: str
) -> Row[Any]:
    """Let a planned run go on to its release; see `runs.queue`."""
    row = runs.get_run(store, run)
    if row.state == "planned" and row.plan:
        plan = json.loads(row.plan)
        cost = plan.get("debit") or plan
        config = config_of(settings, row)
        _must_be_payable(config, settings, (synth.exact(cost["epsilon"]), synth.exact(cost["delta"])))
        _must_be_free(store, settings, row.title, row.version, run=run)
    return runs.queue(store, who, run, plan_sha256)


def approve(
    store: Store,
    settings: ServiceSettings,
    who: Principal,
    run: int,
    content: str,
    comment: str,
    version: str | None,
) -> Row[Any]:
    """Approve the publication of a run; see `runs.decide`."""
    row = runs.get_run(store, run)
    if row.state == "finished" and content == row.content:
        _must_be_free(store, settings, row.title, row.version, run=run, content=content)
    return runs.decide(store, who, run, "approved", content, comment, version)


def rename_run(
    store: Store, settings: ServiceSettings, who: Principal, run: int, version: str | None
) -> Row[Any]:
    """Give what was made another version name; see `runs.rename`."""
    row = runs.get_run(store, run)
    _must_be_free(store, settings, row.title, version, run=run, content=row.content)
    return runs.rename(store, who, run, version)


def close_run(store: Store, settings: ServiceSettings, who: Principal, run: int) -> Row[Any]:
    """End a failed run for good, and remove what it left: its private folder with the homes.

    What it has spent stays spent; the ledger says that it was abandoned. A release that was made and could
    not be published stays where it is.
    """
    row = runs.close(store, who, run)
    config = config_of(settings, row)
    try:
        staging = RunFolder.of(config.release.out)
        for each in unfinished_runs(config.release.out) if staging.folder.is_dir() else ():
            wipe_run(each)
    except (ShownError, OSError) as error:
        fix = f"Fix: close run {run} again, or use odsynth runs --wipe on the server"
        said = _said(error, config, settings)
        raise ServiceError(
            503, "storage", f"Run {run} is closed, and its folder is there still: {said}. {fix}."
        ) from None
    return row


def config_of(settings: ServiceSettings, row: Row[Any]) -> ReleaseConfig:
    """Return the configuration that a run keeps."""
    return ReleaseConfig.model_validate(json.loads(row.configuration), context={"folder": settings.folder})


def why_taken(store: Store, settings: ServiceSettings, row: Row[Any]) -> str | None:
    """Say why a run cannot be published under its version name, or None."""
    try:
        _must_be_free(store, settings, row.title, row.version, run=row.id, content=row.content)
    except ServiceError as error:
        return error.detail
    return None


def _must_be_payable(
    config: ReleaseConfig, settings: ServiceSettings, cost: tuple[Fraction, Fraction]
) -> None:
    try:
        check_affordable(config, cost)
    except (LedgerError, OSError) as error:
        raise ServiceError(409, "budget", _said(error, config, settings)) from None


def _must_be_free(
    store: Store,
    settings: ServiceSettings,
    title: str,
    version: str | None,
    *,
    run: int | None = None,
    content: str | None = None,
) -> None:
    """Refuse a version name that is published, or that another run may be published under."""
    if version is None:
        return
    try:
        check_free(settings.releases, title, version, content)
    except PublishError as error:
        said = without_paths(shown_message(error, one_line=True), [str(settings.releases / "x")])
        raise ServiceError(409, "version", said) from None
    for other in runs.waiting_for(store, version):
        if other.id != run and folder_name(other.title) == folder_name(title):
            fix = "Fix: choose another name, or cancel, rename or close that run"
            raise ServiceError(409, "version", f"Run {other.id} has the version name {version}. {fix}.")


def _said(error: ShownError | OSError, config: ReleaseConfig, settings: ServiceSettings) -> str:
    """Return a message in which files are named without their folders."""
    paths = [settings.outs / "x", *config.jobs.files, *(path for _, path in public_files(config))]
    paths += [config.release.out]
    paths += [section.file for section in (config.ledger,) if section]
    paths += [section.key for section in (config.signature,) if section]
    return without_paths(shown_message(error, one_line=True), [str(path) for path in paths])
