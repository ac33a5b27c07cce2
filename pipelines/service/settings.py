"""The configuration of the service: one TOML file, environment variables over it, defaults under it.

With nothing given, `odsynth serve` answers on this machine only, keeps its state in ``./odsynth-service`` and
publishes below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from pipelines.config.fields import absolute, shown
from pipelines.config.problems import describe
from pipelines.config.toml import ConfigError, read_toml

__all__ = ["Limits", "Oidc", "ServiceSettings", "load_settings", "rate"]

_PREFIX = "ODSYNTH_"
_OTHERS = ("ODSYNTH_DEBUG",)  # of the command line, not of the service


_SECONDS = {"second": 1, "minute": 60, "hour": 3600}


def rate(text: str) -> tuple[int, int]:
    """Return a rate as a number of requests and the seconds of its window.

    Parameters
    ----------
    text : str
        As "600/minute"; also of a second and of an hour.

    Returns
    -------
    tuple of (int, int)

    Raises
    ------
    ValueError
        If it is not of this form.
    """
    found = re.fullmatch(rf"([1-9][0-9]{{0,8}})/({'|'.join(_SECONDS)})", text, re.ASCII)
    if found is None:
        raise ValueError(f'{shown(text)} is not a rate; write for example "600/minute"')
    return int(found[1]), _SECONDS[found[2]]


def _checked_rate(value: str) -> str:
    rate(value)
    return value


_Rate = Annotated[str, AfterValidator(_checked_rate)]
_Role = Literal["viewer", "operator", "approver"]
_Url = Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?$")]


class _Table(BaseModel):
    # Not strict: the values of environment variables are texts.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Limits(_Table):
    """How much one address may ask for.

    Attributes
    ----------
    public, operator, login : str
        Requests to the public side, to the operator's side, and attempts to log in, as in "600/minute".
    body : int
        Largest body of a request, in bytes.
    """

    public: _Rate = "6000/minute"
    operator: _Rate = "1200/minute"
    login: _Rate = "20/minute"
    body: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000


class Oidc(_Table):
    """An OpenID Connect provider that people log in with.

    Attributes
    ----------
    issuer : str
        URL whose ``/.well-known/openid-configuration`` is read.
    client_id, client_secret : str
        The secret is better given as ODSYNTH_OIDC__CLIENT_SECRET than written into the file.
    claim : str
        Claim of the identity that lists groups.
    roles : dict of str to {"viewer", "operator", "approver"}
        Role of each group; who is in none of them may not enter.
    """

    issuer: _Url
    client_id: str
    client_secret: str
    claim: str = "groups"
    roles: dict[str, _Role] = {}


class ServiceSettings(_Table):
    """Everything that the service is told. Made by `load_settings`.

    Attributes
    ----------
    folder : Path
        State of the service; nobody else can look into it.
    host, port : str, int
        Where it listens.
    database : str
        URL of its own records: ``sqlite:///...`` or ``postgresql+psycopg://...``.
    releases : Path
        Where releases are published (`pipelines.publish`); everything in it is public.
    outs : Path
        Where runs write, confidential.
    calendar : Path or None
        Release calendar that the workers keep (`pipelines.due`).
    inputs : dict of str to Path
        Release configurations that operators may run, by the name they use.
    workers : int
        Runs at the same time in this process; 0 for a service whose workers are elsewhere.
    scheduler : str or None
        Address of a Dask cluster to draw on.
    public_url : str or None
        What readers type; begins with https:// where a proxy encrypts.
    proxies : tuple of str
        Addresses of proxies whose word about the client's address is taken.
    cors_origins : tuple of str
        Sites whose scripts may read the public API.
    log : Path or None
        File of the log; by default, standard output.
    limits : Limits
    oidc : Oidc or None
    """

    folder: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    database: str
    releases: Path
    outs: Path
    calendar: Path | None = None
    inputs: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")], Path] = {}
    workers: Annotated[int, Field(ge=0, le=64)] = 1
    scheduler: str | None = None
    public_url: _Url | None = None
    proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ("*",)
    log: Path | None = None
    limits: Limits = Limits()
    oidc: Oidc | None = None

    @property
    def https(self) -> bool:
        """Whether readers come by an encrypted connection."""
        return (self.public_url or "").startswith("https://")

    @property
    def cache(self) -> Path:
        """Where what is made of published releases lies: maps, and the tables that queries read."""
        return self.folder / "cache"

    def make_folders(self) -> None:
        """Make the folders that are not there; those of the state for nobody else to look into."""
        for folder in (self.folder, self.cache, self.outs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self.releases.mkdir(parents=True, exist_ok=True)


# Keys of every table, by its path, for the messages.
_KEYS = {
    (): tuple(ServiceSettings.model_fields),
    ("limits",): tuple(Limits.model_fields),
    ("oidc",): tuple(Oidc.model_fields),
}
_PATHS = ("folder", "releases", "outs", "calendar", "log")


def load_settings(
    path: Path | str | None = None, environment: Mapping[str, str] | None = None
) -> ServiceSettings:
    """Read and check the configuration of the service.

    Parameters
    ----------
    path : Path or str, optional
        The TOML file; paths in it are relative to its folder, those of the environment to the working folder.
    environment : mapping of str to str, optional
        By default this process's. ``ODSYNTH_PORT`` is ``port``, ``ODSYNTH_LIMITS__PUBLIC`` is ``public`` of
        ``[limits]``, ``ODSYNTH_INPUTS__NAME`` an input; lists are separated by commas.

    Returns
    -------
    ServiceSettings
        With absolute paths.

    Raises
    ------
    ConfigError
        If the file cannot be read, or it or the environment says something that cannot be used.
    """
    name = "environment" if path is None else Path(path).name
    data = {} if path is None else _with_absolute_paths(read_toml(Path(path)), Path(path).parent)
    try:
        over = _of_environment(os.environ if environment is None else environment)
        _lay_over(data, _with_absolute_paths(over, Path.cwd()))
        data.setdefault("folder", absolute(Path.cwd(), "odsynth-service"))
        if isinstance(data["folder"], Path):
            folder = data["folder"]
            defaults = {"releases": folder / "published", "outs": folder / "runs"}
            data = {**defaults, "database": f"sqlite:///{folder / 'service.sqlite'}", **data}
        return ServiceSettings.model_validate(data)
    except ValidationError as errors:
        raise ConfigError(f"{name}: {_problem(e)}" for e in errors.errors(include_url=False)) from None


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings among the variables; a misspelt one is refused like a misspelt key."""
    data: dict[str, Any] = {}
    for variable in sorted(name for name in environment if name.startswith(_PREFIX) and name not in _OTHERS):
        table, _, key = variable.removeprefix(_PREFIX).lower().partition("__")
        value: Any = environment[variable]
        if table in ("proxies", "cors_origins"):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if key:
            data.setdefault(table, {})[key] = value
        else:
            data[table] = value
    return data


def _with_absolute_paths(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    def whole(value: Any) -> Any:
        return absolute(folder, value) if isinstance(value, str) and value else value

    inputs = data.get("inputs")
    if isinstance(inputs, dict):
        data = {**data, "inputs": {name: whole(value) for name, value in inputs.items()}}
    return data | {key: whole(data[key]) for key in _PATHS if key in data}


def _lay_over(data: dict[str, Any], over: dict[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(data.get(key), dict):
            _lay_over(data[key], value)
        else:
            data[key] = value


def _problem(error: ErrorDetails) -> str:
    """One line: the key, what is wrong, the fix. Secrets are not quoted."""
    key = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            return f"{key}: missing; add a line {error['loc'][-1]} = ..."
        case "int_parsing":
            return f"{key}: {shown(error['input'])} is not a whole number"
        case "path_type":
            return f"{key}: this is not a path; write it as text, in quotes"
        case "string_pattern_mismatch" if key.endswith(("public_url", "issuer")):
            return f"{key}: this is not an address; write one like https://data.example.org"
        case "string_pattern_mismatch":
            return f"{key}: not a name of an input; use letters, digits, dots, dashes and underscores"
        case "string_type" if key in ("database", "oidc.client_secret"):
            return f"{key}: this is not text; write it in quotes"
    return describe(error, _KEYS)
