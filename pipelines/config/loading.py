"""The configuration of a release: TOML, checked strictly before anything else happens.

Every problem of a file is reported at once, each with its fix; unknown keys are refused, because a
misspelt privacy parameter that silently keeps its default is the worst kind of bad input. Whether the data
files exist and what is in them is the readers' business.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, TypeAdapter, ValidationError, model_validator

import synth
from geo_data.arguments import PathLike, path_of, texts_of
from geo_data.od_files import od_name
from pipelines.config.fields import EpsilonNumber, TierName, absolute
from pipelines.config.implicates import Implicates
from pipelines.config.problems import LISTS, describe
from pipelines.config.rules import problems_across, settings_missing
from pipelines.config.sections import (
    ONTHEMAP_PRIVACY,
    AttributeSettings,
    AuxiliaryTable,
    GeographySettings,
    HistorySettings,
    JobsSettings,
    LedgerSettings,
    PlanSettings,
    PrivacySettings,
    PublicGeographySettings,
    PublicReleaseSettings,
    ReleaseSettings,
    RunSettings,
    Section,
    SignatureSettings,
    WeightsSettings,
    WitnessSettings,
    WorkloadTable,
    WorkplaceSettings,
    tables_of,
)
from pipelines.config.toml import ConfigError, parse_toml, read_toml

_Auxiliary = Annotated[AuxiliaryTable, Field(discriminator="format")]


class PublicConfig(Section):
    """What a release is told and a plan quotes: no folder, key or ledger, and of files the names only."""

    release: PublicReleaseSettings
    privacy: PrivacySettings
    jobs: Annotated[JobsSettings, Field(discriminator="format")]
    workplaces: WorkplaceSettings | None = None
    geography: PublicGeographySettings
    auxiliary: Annotated[tuple[_Auxiliary, ...], Field(strict=False)] = ()
    weights: WeightsSettings | None = None
    workload: Annotated[tuple[WorkloadTable, ...], Field(strict=False)] = ()
    attribute: Annotated[tuple[AttributeSettings, ...], Field(strict=False)] = ()
    plan: PlanSettings = PlanSettings()
    tiers: dict[TierName, EpsilonNumber] = Field(default_factory=dict)
    """Readers' names, such as `public` and `registered`, each with the epsilon of the release that they get.

    One run makes a release for each of them, and the ledger is debited the largest epsilon alone, that of
    `[privacy]` (docs/tiers.md).
    """
    history: HistorySettings | None = None

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        plan, privacy = (values.get(name, {}) for name in ("plan", "privacy"))
        if not (isinstance(plan, dict) and isinstance(privacy, dict)) or plan.get("preset") != "onthemap":
            return values
        preset = {} if "retention_min" in plan else ONTHEMAP_PRIVACY
        return values | {"privacy": preset | privacy} if preset | privacy else values

    @model_validator(mode="before")
    @classmethod
    def _protect_records(cls, values: Any) -> Any:
        """Protect whole records of microdata, unless something else is said."""
        if not isinstance(values, dict):
            return values
        privacy, jobs = values.get("privacy"), values.get("jobs")
        if not (isinstance(privacy, dict) and isinstance(jobs, dict) and jobs.get("format") == "microdata"):
            return values
        return values | {"privacy": {"protects": "record"} | privacy}

    @model_validator(mode="before")
    @classmethod
    def _other_jobs(cls, values: Any) -> Any:
        """Take a LODES table whose name is of another job type for one of other jobs, unless it is said."""
        if not isinstance(values, dict):
            return values
        release, tables = values.get("release"), values.get("auxiliary")
        if not (isinstance(release, dict) and isinstance(tables, list)):
            return values
        job_type = release.get("job_type", "JT00")
        return values | {
            "auxiliary": [
                {"same_jobs": False, **table}
                if isinstance(table, dict)
                and table.get("format") == "lodes"
                and (name := od_name(str(table.get("file"))))
                and name.job_type != job_type
                else table
                for table in tables
            ]
        }

    @property
    def has_history(self) -> bool:
        """Whether an earlier release of the series is evidence."""
        return self.history is not None and self.history.first != self.release.year

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanism that is named, or all that may be chosen and have what else is asked for."""
        if self.release.mechanism is not None:
            return (self.release.mechanism,)
        return tuple(
            name
            for name, mechanism in sorted(synth.MECHANISMS.items())
            if mechanism.chosen
            and self.allows(name)
            # Resampling is tried where it is named: trials do not see which records lots leave out.
            and ("tables" in mechanism.settings or not self.measures_workplaces)
        )

    def allows(self, mechanism: str) -> bool:
        """Whether a mechanism has what is asked for."""
        tables = self.release, self.privacy, self.plan, self.workplaces, self.geography, self.tiers
        return not any(settings_missing(synth.MECHANISMS[mechanism], *tables))

    @property
    def protects_records(self) -> bool:
        """Whether nothing of a record is public."""
        return self.privacy.protects == "record"

    @property
    def measures_workplaces(self) -> bool:
        """Whether more than homes is protected, and slots are estimated from tables of workplaces."""
        return self.protects_records or bool(self.secret)

    @property
    def protected(self) -> Literal["home", "record"]:
        """What neighbours differ in; in attributes beside the home by the policy (`policy_of`)."""
        return "record" if self.protects_records else "home"

    @property
    def record_range(self) -> synth.RecordRange | None:
        """The range of the records of a pool, where their number is confidential."""
        if self.workplaces is None and not self.protects_records:
            return None
        return (self.workplaces or WorkplaceSettings.model_construct()).record_range

    @property
    def declared_categories(self) -> dict[str, tuple[str, ...]]:
        """The categories of attributes of the jobs that the configuration lists."""
        listed = {table.name: table.categories for table in self.attribute}
        return {name: values for name, values in sorted(listed.items()) if values}

    @property
    def informs_attributes(self) -> bool:
        """Whether a public table tells how workplaces differ in attributes."""
        return self.workplaces is not None or any(table.table is not None for table in self.attribute)

    @property
    def unknown_attributes(self) -> tuple[str, ...]:
        """Attributes of which nothing public tells how the jobs differ in them."""
        return tuple(self.declared_categories if self.protects_records else self.secret)

    @property
    def secret(self) -> dict[str, tuple[str, ...]]:
        """Attributes that are protected with homes, where workplaces are not, with their categories."""
        return {name: self.declared_categories.get(name, ()) for name in self.privacy.secret}

    @property
    def implicates(self) -> Implicates:
        """The synthetic data sets of the release."""
        return Implicates(self.release.implicates, self.release.implicate_source)

    @property
    def tier(self) -> str | None:
        """The name of the tier that has this epsilon; None without tiers."""
        return next((name for name, epsilon in self.tiers.items() if epsilon == self.privacy.epsilon), None)

    @property
    def weaker_tiers(self) -> dict[str, Self]:
        """The configurations of the tiers that are weaker than this, by name, the strongest first."""
        tiers = sorted(self.tiers.items(), key=lambda tier: tier[1], reverse=True)
        weaker = {name: epsilon for name, epsilon in tiers if epsilon < self.privacy.epsilon}
        return {
            name: self.model_copy(update={"privacy": self.privacy.model_copy(update={"epsilon": epsilon})})
            for name, epsilon in weaker.items()
        }

    def quoted(self) -> dict[str, Any]:
        """Return every key, ready for JSON: exact numbers are text, the same however they were written."""
        return PUBLIC.dump_python(self, mode="json")


PUBLIC = TypeAdapter(PublicConfig)


class ReleaseConfig(PublicConfig):
    """Everything that a release is told. Made by `load_config` or `parse_config`.

    Attributes
    ----------
    release : ReleaseSettings
        What is released and where it goes.
    privacy : PrivacySettings
        What it may cost.
    jobs : LodesJobsSettings or MicrodataJobsSettings
        The confidential input.
    workplaces : WorkplaceSettings or None
        Public totals of workplaces, where those of the jobs are to be protected.
    geography : GeographySettings
        The public geography.
    auxiliary, weights
        Public flows, and public weights of areas.
    workload, attribute
        The tables that the release is for, and what attributes of the jobs mean.
    plan : PlanSettings
        Choices of the plan.
    tiers : dict of str to Fraction
        Epsilons of the releases that one run makes for several kinds of readers, by their names.
    history : HistorySettings or None
        Earlier releases of the series.
    signature : SignatureSettings or None
        Who signs.
    ledger : LedgerSettings or None
        Which budget pays.
    witness : WitnessSettings or None
        Who repeats the run, and who says when it was committed to.
    run : RunSettings
        How it is done.
    """

    release: ReleaseSettings
    geography: GeographySettings
    signature: SignatureSettings | None = None
    ledger: LedgerSettings | None = None
    witness: WitnessSettings | None = None
    run: RunSettings = RunSettings()

    def __repr__(self) -> str:
        epsilon, delta = (synth.decimal_up(x, 6) for x in (self.privacy.epsilon, self.privacy.delta))
        mechanism = self.release.mechanism or "mechanism left to the planner"
        return (
            f"<ReleaseConfig: {self.release.name}; {mechanism}, "
            f"epsilon {epsilon}, delta {delta}; out {self.release.out}>"
        )

    __str__ = __repr__

    @property
    def public(self) -> PublicConfig:
        """What a plan quotes.

        A folder may say something confidential, and neither keys nor the ledger nor how a run is done change
        what is released. Columns of names are words for maps.
        """
        return PUBLIC.validate_python(PUBLIC.dump_python(self, mode="json"))

    def with_out(self, out: PathLike) -> ReleaseConfig:
        """Return the same configuration with another output folder.

        Parameters
        ----------
        out : str or path
            Relative to the working folder, as on a command line.

        Returns
        -------
        ReleaseConfig

        Raises
        ------
        ConfigError
            If it is the whole file system.
        """
        folder = absolute(Path.cwd(), path_of(out, "out"))
        if not folder.name:
            raise ConfigError(f"{folder}: this is the root folder; choose a folder in it with --out")
        release = self.release.model_copy(update={"out": folder})
        return self.model_copy(update={"release": release})


# Keys of every table, by its path.
_KEYS = {path: tuple(table.model_fields) for path, table in tables_of(ReleaseConfig)}
_KEYS[()] = tuple(ReleaseConfig.model_fields)


def load_config(path: PathLike) -> ReleaseConfig:
    """Read and check the configuration of a release.

    Parameters
    ----------
    path : str or path
        The TOML file. Paths inside it are relative to its folder.

    Returns
    -------
    ReleaseConfig

    Raises
    ------
    ConfigError
        If the file cannot be read, is not TOML or says something that cannot be used.

    Examples
    --------
    >>> import pipelines
    >>> config = pipelines.load_config("examples/demo.toml")
    >>> config
    <ReleaseConfig: Demo region 2019, all jobs; dirichlet, epsilon 8.6, delta 0.00001; out ...out/demo>
    >>> config.privacy.epsilon
    Fraction(43, 5)
    """
    path = path_of(path, "path")
    return check_config(read_toml(path), path.parent, path.name)


def parse_config(text: str, folder: PathLike, name: str) -> ReleaseConfig:
    """Check the configuration of a release.

    Parameters
    ----------
    text : str
        The TOML text.
    folder : str or path
        What paths in the text are relative to.
    name : str
        What the configuration is called in messages.

    Returns
    -------
    ReleaseConfig

    Raises
    ------
    ConfigError
        If the text is not TOML or says something that cannot be used.
    """
    texts_of(text, "text")
    return check_config(parse_toml(text, name), path_of(folder, "folder"), name)


def check_config(data: dict[str, Any], folder: Path, name: str) -> ReleaseConfig:
    """Check the tables of a configuration."""
    try:
        config = ReleaseConfig.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        problems = [line for detail in error.errors(include_url=False) for line in describe(detail, _KEYS)]
        # One table that is unusable must not hide what is wrong between others.
        problems += problems_across(_usable_tables(data, folder))
        raise ConfigError(f"{name}: {problem}" for problem in problems) from None
    if problems := [*problems_across(dict(config))]:
        raise ConfigError(f"{name}: {problem}" for problem in problems)
    return config


def _usable_tables(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the tables that are usable by themselves, and None for the members of lists that are not."""
    tables: dict[str, Any] = {}
    for key, field in ReleaseConfig.model_fields.items():
        value, kind = data.get(key), Annotated[field.annotation, field]
        if key not in data:
            if not field.is_required():
                tables[key] = field.get_default(call_default_factory=True)
        elif key in LISTS and isinstance(value, list):
            member = get_args(field.annotation)[0]
            tables[key] = tuple(_usable(member, item, folder) for item in value)
        elif (table := _usable(kind, value, folder)) is not None:
            tables[key] = table
    return tables


def _usable(kind: Any, value: Any, folder: Path) -> Any:
    with suppress(ValidationError):
        return TypeAdapter(kind).validate_python(value, context={"folder": folder})
    return None
