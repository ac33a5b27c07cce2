"""What acts of operators ask before they are done: the ledger, what is published, the folder of a run.

A step that costs privacy, or that is the end, is refused while that is still free: a budget that does not
suffice, a version name that is taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy import Row

from pipelines.config.loading import ReleaseConfig
from pipelines.ledger.budgets import Price
from pipelines.ledger.chain import LedgerError
from pipelines.planning.guards import public_files
from pipelines.publishing.destination import PublishError
from pipelines.publishing.publishing import check_free
from pipelines.release.certificate import parse_certificate
from pipelines.release.witness import WitnessError, check_statements
from pipelines.running.payment import most_cost_of
from pipelines.running.preflight import check_affordable, check_ready
from pipelines.service.access.auth import require
from pipelines.service.access.tokens import Principal, Role
from pipelines.service.operators.models import RunEntry
from pipelines.service.public.catalog import Catalog
from pipelines.service.queue import runs
from pipelines.service.queue.runs import NewRun
from pipelines.service.queue.worker_process import without_paths
from pipelines.service.refusals import conflict
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError, Store
from pipelines.storage.checksums import CHECKSUMS, parse_checksums
from pipelines.storage.errors import shown_message
from synth.errors import ShownError


@dataclass(frozen=True)
class Desk:
    """Who is signed in, in a role that the route asks for, with the parts of the service."""

    store: Store
    settings: ServiceSettings
    catalog: Catalog
    who: Principal

    def entry(self, run: int) -> RunEntry:
        """Return a run, with the decision about it."""
        return RunEntry.of(runs.get_run(self.store, run), runs.decision_of(self.store, run))

    def config_of(self, row: Row[Any]) -> ReleaseConfig:
        """Return the configuration that a run keeps."""
        folder = {"folder": self.settings.folder}
        return ReleaseConfig.model_validate(json.loads(row.configuration), context=folder)

    def submit(self, new: NewRun) -> tuple[int, bool]:
        """Submit a run that would not be refused now; its number, and whether it is new."""
        if new.task != "compare":
            try:
                self._check_new(new)
            except ServiceError:
                # What has been submitted with the same key is answered with its run, whatever became of it.
                if not runs.is_submitted(self.store, self.who, new.key):
                    raise
        return runs.submit(
            self.store,
            self.who,
            new,
            outs=self.settings.outs,
            home=self.settings.folder,
            signed=self.settings.signer is not None and new.task != "compare",
        )

    def _check_new(self, new: NewRun) -> None:
        try:
            # As the folder of a run is called.
            check_ready(new.config.with_out(self.settings.outs / "run-000000"))
        except (ShownError, OSError) as error:
            why = self.words_of(error, new.config)
            raise conflict("input", f"{new.input} cannot be run now: {why}") from None
        self.check_payable(new.config, most_cost_of(new.config))
        self.check_free(new.config.release.name, new.version)

    def check_payable(self, config: ReleaseConfig, price: Price) -> None:
        """Refuse what no budget pays for."""
        try:
            check_affordable(config, price)
        except (LedgerError, OSError) as error:
            raise conflict("budget", self.words_of(error, config)) from None

    def check_free(self, title: str, version: str | None, content: str | None = None) -> None:
        """Refuse a version name that is published. That of another run the database refuses."""
        if version is None:
            return
        try:
            check_free(self.settings.releases, title, version, content)
        except PublishError as error:
            raise conflict("version", self.words_of(error)) from None

    def witnesses(self, row: Row[Any], more: str = "") -> str | None:
        """Say who has repeated a finished run, and when; `more` is a statement that is to be added."""
        public = self.config_of(row).release.out / "public"
        seal, certificate = (public / CHECKSUMS).read_bytes(), parse_certificate(row.certificate)
        if hashlib.sha256(seal).hexdigest() != row.content:
            raise conflict("content", "The files are not those that the run made", "put them back")
        try:
            return check_statements(public, certificate, parse_checksums(seal), more=more)
        except WitnessError as error:
            raise conflict("witness", self.words_of(error)) from None

    def why_taken(self, row: Row[Any]) -> str | None:
        """Say why a run cannot be published under its version name, or None."""
        try:
            self.check_free(row.title, row.version, row.content)
        except ServiceError as error:
            return error.detail
        return None

    def words_of(self, error: ShownError | OSError, config: ReleaseConfig | None = None) -> str:
        """Return the message of an error in which files are named without their folders."""
        paths = [self.settings.outs / "x", self.settings.releases / "x"]
        if config is not None:
            paths += [*config.jobs.files, *(path for _, path in public_files(config)), config.release.out]
            paths += [section.file for section in (config.ledger,) if section]
            paths += [
                section.key for section in (config.signature, config.witness) if section and section.key
            ]
        return without_paths(shown_message(error, one_line=True), [str(path) for path in paths])


def _desk(role: Role) -> Callable[..., Awaitable[Desk]]:
    allowed = Depends(require(role))

    async def desk(request: Request, principal: Principal = allowed) -> Desk:
        state = request.app.state
        return Desk(state.store, state.settings, state.catalog, principal)

    return desk


Viewing = Annotated[Desk, Depends(_desk("viewer"))]
Operating = Annotated[Desk, Depends(_desk("operator"))]
Witnessing = Annotated[Desk, Depends(_desk("witness"))]
Approving = Annotated[Desk, Depends(_desk("approver"))]
