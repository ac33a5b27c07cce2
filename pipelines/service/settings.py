"""The configuration of the service: one TOML file, environment variables over it, defaults under it.

With nothing given, `odsynth serve` answers on this machine only, keeps its state in ``./odsynth-service`` and
publishes below it.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from pipelines.config.fields import Line, absolute
from pipelines.config.problems import describe
from pipelines.config.toml import ConfigError, read_toml

_PREFIX = "ODSYNTH_"
_OTHERS = ("ODSYNTH_DEBUG",)  # of the command line, not of the service

INPUT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _like(pattern: str, problem: str) -> AfterValidator:
    """Refuse a text that is not of a form."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(problem)
        return value

    return AfterValidator(check)


_INPUT = _like(INPUT_NAME, "not a name of an input; use letters, digits, dots, dashes and underscores")
_Rate = Annotated[
    str,
    _like("[1-9][0-9]{0,8}/(second|minute|hour)", 'this is not a rate; write for example "600/minute"'),
]
_Role = Literal["viewer", "operator", "witness", "approver"]
_Url = Annotated[
    str,
    _like(
        r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?",
        "this is not an address; write one like https://data.example.org",
    ),
]
_Contact = Annotated[
    str,
    _like(
        r"(?=.{,300}$)(https?://[^\s]+|[^\s@/:]+@[^\s@/:]+)",
        "not a mail address nor the address of a page; write one like data@example.org",
    ),
]
_Path = Annotated[Path, AfterValidator(lambda path: absolute(Path.cwd(), path))]


class _Table(BaseModel):
    # Not strict: the values of environment variables are texts.
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Table):
    """How much one address may ask for."""

    # Requests to the public side, to the operator's side, and attempts to log in that failed, as in
    # "600/minute"
    public: _Rate = "6000/minute"
    operator: _Rate = "1200/minute"
    login: _Rate = "20/minute"
    body: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000  # Largest body of a request, in bytes


class BackdropFiles(_Table):
    """Files of water and roads that maps of releases are drawn with (`pipelines.views.maps.Backdrop`)."""

    attribution: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]  # Who made them
    water: _Path | None = None  # At least one of them
    roads: _Path | None = None


class Oidc(_Table):
    """An OpenID Connect provider that people log in with."""

    issuer: _Url  # URL whose ``/.well-known/openid-configuration`` is read
    client_id: str  # The secret is better given as ODSYNTH_OIDC__CLIENT_SECRET than written into the file
    client_secret: str
    claim: str = "groups"  # Claim of the identity that lists groups
    roles: dict[str, _Role] = {}  # Role of each group; who is in none of them may not enter


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by a name or number that needs nobody to be looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parts(value: str, *schemes: str) -> SplitResult | None:
    """The parts of an address, which names a host, perhaps a port, and nobody's password."""
    with suppress(ValueError):
        parts = urlsplit(value)
        plain = value.isascii() and value.isprintable() and " " not in value and "@" not in parts.netloc
        if plain and parts.scheme in schemes and parts.hostname and parts.port != 0:
            return parts
    return None


def _mail_server(value: str) -> str:
    parts = _parts(value, "smtp", "smtps")
    if parts is None or parts.path or parts.query or parts.fragment:
        raise ValueError("this is not a mail server; write smtps://mail.example.org or smtp://HOST:PORT")
    return value


def _webhook(value: str) -> str:
    parts = _parts(value, "https", "http")
    if parts is None or parts.fragment or (parts.scheme == "http" and not is_loopback(parts.hostname or "")):
        raise ValueError(
            "this is not the address of a webhook; write https://..., or http:// to this machine"
        )
    return value


def _webhook_secret(value: str) -> str:
    with suppress(ValueError):
        key = base64.b64decode(value.removeprefix("whsec_"), validate=True)
        if value.startswith("whsec_") and 24 <= len(key) <= 64:
            return value
    raise ValueError(
        "this is not a secret of a webhook; write whsec_ and 24 to 64 random bytes in Base64 "
        "(openssl rand -base64 32)"
    )


_MailAddress = Annotated[
    str,
    _like(
        r"(?=.{,254}$)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+",
        "this is not a mail address; write one like ann@example.org",
    ),
]


class Notices(_Table):
    """Who is told, by mail or webhook, that a decision waits."""

    # Mail server: ``smtps://HOST`` encrypts from the beginning, ``smtp://HOST:PORT`` by STARTTLS, which
    # only a server on this machine may lack
    smtp: Annotated[str, AfterValidator(_mail_server)] | None = None
    # If the mail server asks who sends. The password is better given as ODSYNTH_NOTICES__PASSWORD
    user: str | None = None
    password: str | None = None
    sender: _MailAddress | None = None  # Address that mails come from
    # Addresses of those who queue plans and look at failures, and of those who approve
    operators: tuple[_MailAddress, ...] = ()
    approvers: tuple[_MailAddress, ...] = ()
    # Address that is told too, in JSON: https, or a server on this machine
    webhook: Annotated[str, AfterValidator(_webhook)] | None = None
    # With which it can check who told it; better given as ODSYNTH_NOTICES__WEBHOOK_SECRET
    webhook_secret: Annotated[str, AfterValidator(_webhook_secret)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.smtp is None and self.webhook is None:
            raise ValueError("names neither smtp nor webhook; name one, or leave the table out")
        if self.smtp is not None and (self.sender is None or not (self.operators or self.approvers)):
            raise ValueError("smtp needs sender, and operators or approvers; name them")
        if self.smtp is None and (self.sender or self.operators or self.approvers or self.user):
            raise ValueError("mail needs a server; name smtp")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together; name both or neither")
        if (self.webhook is None) != (self.webhook_secret is None):
            raise ValueError("webhook and webhook_secret go together; name both or neither")
        return self


class ServiceSettings(BaseSettings):
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
    signer : Path or None
        File of a public key: only releases that it has signed are published. By default unsigned ones are
        too, and their pages say what nobody answers for.
    calendar : Path or None
        Release calendar that the workers keep (`pipelines.due`).
    inputs : dict of str to Path
        Release configurations that operators may run, by the name they use; beside those in `inputs_folder`.
    workers : int
        Runs at the same time in this process; 0 for a service whose workers are elsewhere.
    scheduler : str or None
        Address of a Dask cluster to plan and to draw on.
    public_url : str or None
        What readers type; begins with https:// where a proxy encrypts.
    publisher : str or None
        Who runs the site, as its pages name them; who publishes a release says its configuration.
    contact : str or None
        Where readers ask about the site: a mail address, or the address of a page.
    proxies : tuple of str
        Addresses of proxies whose word about the client's address is taken.
    cors_origins : tuple of str
        Sites whose scripts may read the public API.
    log : Path or None
        File of the log; by default, standard output.
    backdrop : BackdropFiles or None
        Water and roads on maps.
    limits : Limits
    notices : Notices or None
    oidc : Oidc or None
    """

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        env_nested_max_split=1,
    )

    folder: _Path = Path("odsynth-service")
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    database: str = Field(default_factory=lambda values: f"sqlite:///{values['folder'] / 'service.sqlite'}")
    releases: _Path = Field(default_factory=lambda values: values["folder"] / "published")
    outs: _Path = Field(default_factory=lambda values: values["folder"] / "runs")
    signer: _Path | None = None
    calendar: _Path | None = None
    inputs: dict[Annotated[str, _INPUT], _Path] = {}
    workers: Annotated[int, Field(ge=0, le=64)] = 1
    scheduler: str | None = None
    public_url: _Url | None = None
    publisher: Line | None = None
    contact: _Contact | None = None
    proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ("*",)
    log: _Path | None = None
    backdrop: BackdropFiles | None = None
    limits: Limits = Limits()
    notices: Notices | None = None
    oidc: Oidc | None = None

    @property
    def https(self) -> bool:
        """Whether readers come by an encrypted connection."""
        return (self.public_url or "").startswith("https://")

    @property
    def address(self) -> str:
        """What links to the service begin with. Not from the Host header, which anybody writes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url.rstrip("/") if self.public_url else f"http://{host}:{self.port}"

    @property
    def contact_link(self) -> str | None:
        """`contact` as an address that browsers open."""
        mail = self.contact is not None and not self.contact.startswith("http")
        return f"mailto:{self.contact}" if mail else self.contact

    @property
    def inputs_folder(self) -> Path:
        """Where a release configuration NAME.toml may be run as soon as it is put there."""
        return self.folder / "inputs"

    @property
    def cache(self) -> Path:
        """Where what is made of published releases lies: maps, and the tables that queries read."""
        return self.folder / "cache"

    def make_folders(self) -> None:
        """Make the folders that are not there; those of the state for nobody else to look into."""
        for folder in (self.folder, self.cache, self.outs, self.inputs_folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self.releases.mkdir(parents=True, exist_ok=True)


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
    variables = os.environ if environment is None else environment

    class Settings(ServiceSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            *_: PydanticBaseSettingsSource,
            **__: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return _Environment(settings_cls, variables), InitSettingsSource(settings_cls, data)

    try:
        return Settings()  # no keys of the file: BaseSettings takes options of its own by keyword
    except ValidationError as errors:
        problems = [error for error in errors.errors(include_url=False) if error["type"] != _FOLLOWS]
        raise ConfigError(f"{name}: {_problem(error)}" for error in problems) from None


class _Environment(EnvSettingsSource):
    """The settings among the variables; a misspelt one is refused like a misspelt key."""

    def __init__(self, settings: type[BaseSettings], environment: Mapping[str, str]) -> None:
        super().__init__(settings)
        ours = (name for name in environment if name.startswith(_PREFIX) and name not in _OTHERS)
        self.env_vars = {name.lower(): environment[name] for name in ours}

    def __call__(self) -> dict[str, Any]:
        keys = {name.removeprefix(_PREFIX.lower()): value for name, value in self.env_vars.items()}
        accepted = {key for key in keys if key in _KEYS[()] or key.partition("__")[0] in _TABLES}
        return {key: keys[key] for key in keys.keys() - accepted} | super().__call__()

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        if field_name in _LISTS:
            return [part.strip() for part in value.split(",") if part.strip()]
        return value  # refused: a table has a variable for each key


# Keys of every table, by its path, for the messages.
_KEYS = {
    (): tuple(ServiceSettings.model_fields),
    ("backdrop",): tuple(BackdropFiles.model_fields),
    ("limits",): tuple(Limits.model_fields),
    ("notices",): tuple(Notices.model_fields),
    ("oidc",): tuple(Oidc.model_fields),
}
_TABLES = ("backdrop", "limits", "notices", "oidc", "inputs")
_LISTS = ("proxies", "cors_origins", "operators", "approvers")
_PATHS = ("folder", "releases", "outs", "signer", "calendar", "log")
_SECRET = ("database", "oidc.client_secret", "notices.password", "notices.webhook", "notices.webhook_secret")
_FOLLOWS = "default_factory_not_called"  # of a default in a folder that is refused itself


def _with_absolute_paths(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    def whole(value: Any) -> Any:
        return absolute(folder, value) if isinstance(value, str) and value else value

    for table, text in (("inputs", ""), ("backdrop", "attribution")):
        values = data.get(table)
        if isinstance(values, dict):
            paths = {name: value if name == text else whole(value) for name, value in values.items()}
            data = {**data, table: paths}
    return data | {key: whole(data[key]) for key in _PATHS if key in data}


def _problem(error: ErrorDetails) -> str:
    """One line: the key, what is wrong, the fix. Secrets are not quoted."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "string_type" and key in _SECRET:
        return f"{key}: this is not text; write it in quotes"
    return "; ".join(describe(error, _KEYS))
