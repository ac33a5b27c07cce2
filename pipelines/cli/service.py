"""The verbs `odsynth serve` and `odsynth token`; what they need is imported when they are called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pipelines.cli.common import FILE, LocalPath, say

if TYPE_CHECKING:
    from pipelines.service import Store

_LIBRARIES = ("duckdb", "fastapi", "prometheus_client", "sqlalchemy", "starlette", "uvicorn")


@contextmanager
def _service_errors() -> Iterator[None]:
    """One clear error, also where the libraries of the service are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        fix = "install odsynth with the extra [service], from its checkout or its wheel"
        raise click.ClickException(f"{error.name} is not installed. Fix: {fix}") from error


@click.command(epilog="Example: odsynth serve service.toml")
@click.argument("config", required=False, type=FILE)
@click.option(
    "--init",
    is_flag=True,
    help="First write CONFIG (by default service.toml), with the built-in region, a ledger, and two tokens.",
)
def serve(config: Path | None, init: bool) -> None:
    """Start the service that CONFIG describes.

    Without CONFIG, on this machine with a folder of its own.

    The public side lists releases, shows and explains them, and answers questions about flows; the operators'
    side plans, runs, approves and publishes. Ends in good order on SIGTERM or Ctrl-C.
    """
    with _service_errors():
        from pipelines.service import ServiceError, begin_service, load_settings, serve

        try:
            settings = begin_service(config or Path("service.toml"), say) if init else load_settings(config)
            serve(settings)
        except ServiceError as error:
            raise click.ClickException(error.detail) from None


_SETTINGS = click.option(
    "--config",
    type=LocalPath(exists=True, dir_okay=False),
    help="Configuration of the service, as for serve.",
)


@click.group(epilog="Example: odsynth token create ada --role approver")
def token() -> None:
    """Tokens of the service's operators. They are made here, on the server, and nowhere else."""


@token.command(epilog="Example: odsynth token create ada --role approver")
@_SETTINGS
@click.argument("owner")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "witness", "approver"]),
    required=True,
    help="What OWNER may do.",
)
@click.option("--days", type=float, default=90, show_default=True, help="Until it expires; at most 366.")
def create(
    config: Path | None, owner: str, role: Literal["viewer", "operator", "witness", "approver"], days: float
) -> None:
    """Make a token for OWNER, a person, and print it. It is not kept, and cannot be shown again."""
    with _store(config, make=True) as store:
        from pipelines.service.access.tokens import create_token

        secret, made = create_token(store, owner, role, days=days)
        say(f"Token {made.id} of {made.owner}, {made.role}, until {made.expires}:")
        click.echo(secret)


@token.command(name="list", epilog="Example: odsynth token list")
@_SETTINGS
def list_all(config: Path | None) -> None:
    """List all tokens, without their secrets."""
    with _store(config) as store:
        from pipelines.service.access.tokens import list_tokens

        for entry in list_tokens(store):
            state = f"revoked {entry.revoked}" if entry.revoked else f"until {entry.expires}"
            click.echo(f"{entry.id} {entry.owner}: {entry.role}, {state}")


@token.command(epilog="Example: odsynth token revoke 3")
@_SETTINGS
@click.argument("token_id")
def revoke(config: Path | None, token_id: str) -> None:
    """Revoke the token TOKEN_ID, as `list` shows it, for good. Sessions that it opened end too."""
    with _store(config) as store:
        from pipelines.service.access.tokens import revoke_token

        revoked = revoke_token(store, token_id)
        click.echo(f"Revoked: {revoked.id} of {revoked.owner}")


@contextmanager
def _store(config: Path | None, *, make: bool = False) -> Iterator[Store]:
    """The database of the service, for the time of a command; its folder is made if that is asked for."""
    with _service_errors():
        from pipelines.service import ServiceError, Store, load_settings

        try:
            settings = load_settings(config)
            if make:
                settings.make_folders()
                say(f"Service     {settings.folder}")
            elif not settings.folder.is_dir():
                fix = "name the configuration of the service with --config"
                raise click.ClickException(f"{settings.folder}: there is no folder of a service. Fix: {fix}")
            store = Store.open(settings.database)
            try:
                yield store
            finally:
                store.close()
        except ServiceError as error:
            raise click.ClickException(error.detail) from None


SERVICE = (serve, token)
