"""The certificate of a release: what is guaranteed, for whom, at what cost, by which code.

`certificate_schema` is the JSON Schema of the models below (docs/certificate.schema.json, and a copy in every
release). Exact numbers are decimal texts: bounds are rounded up to twelve significant digits, a mechanism's
numbers are exact ratios.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

import synth
from pipelines.config.fields import JobType, Line, State, Year
from pipelines.config.implicates import ImplicateSource
from pipelines.config.languages import ENGLISH
from pipelines.config.policies import DistancePolicy, PartitionPolicy
from pipelines.config.toml import ConfigError
from pipelines.plans.plan import ReleasePlan
from pipelines.release.pages import phrases, render
from pipelines.release.provenance import dependency_versions, source_state
from pipelines.storage.documents import check_format, parse_json
from synth.policy import FULL
from synth.tails import PRECISION_BITS

# SHA-256 of what releases carry that were made just before certificates had commitments.
SCHEMA_BEFORE = "77944981a7c612c4930bde2fecc4da9de4c3440c777763c3b0a646a8bf963b00"
VERIFIER_BEFORE = "45587c4cefbe57a4f244d636478e970abbac1b2631752324212d442128d0b048"
CERTIFICATE_FORMAT: Literal["odsynth certificate 1.0"] = "odsynth certificate 1.0"

Decimal = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?$")]
Ratio = Annotated[str, StringConstraints(pattern=r"^\d+(/\d+)?$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]+={0,2}$", max_length=2**16)]

_TIME = "%Y-%m-%dT%H:%M:%SZ"


def _utc(text: str) -> str:
    if datetime.strptime(text, _TIME).strftime(_TIME) != text:
        raise ValueError("is not a time in UTC")
    return text


def _like(pattern: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"is not of the form {pattern}")
        return text

    return AfterValidator(check)


# What no plan gives: a form leaves no room for prose. The schema does not have these forms, because a release
# carries the schema that it was made with, and `verify` compares the two.
Time = Annotated[str, AfterValidator(_utc)]
Commit = Annotated[str, _like("[0-9a-f]{7,64}")]
Version = Annotated[str, _like("[0-9][0-9A-Za-z.!+_-]{0,63}")]
Distribution = Annotated[str, _like("[0-9A-Za-z._-]{1,64}")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Subject(_Part):
    """What was released."""

    name: Line
    state: State
    year: Year
    job_type: JobType

    @property
    def title(self) -> str:
        """Its name with its year, which names of a series need not have."""
        return self.name if str(self.year) in self.name else f"{self.name}, {self.year}"


class Definition(_Part):
    """The guarantee in words and symbols, and what it rests on."""

    words: str
    symbols: str
    neighbours: str
    unit: str
    assumed_public: list[str]
    composition: str
    delta_sharing: str
    not_covered: list[str]


class EpsilonDelta(_Part):
    """An epsilon and a delta."""

    epsilon: Decimal
    delta: Decimal


class Requested(EpsilonDelta):
    """What was asked for: which guarantee, at which epsilon and delta."""

    guarantee: Literal["pdp", "dp"]
    words: str


class RecordLevel(EpsilonDelta):
    """The (epsilon, delta)-differential privacy of one job record.

    The curve holds pairs that are true at the same time, this one among them, by rising epsilon; the last
    one, where its delta is 0, is pure differential privacy. `rho` is exact: the release is rho-zCDP for one
    job record. It is null where a mechanism is not certified so.
    """

    curve: list[EpsilonDelta]
    rho: Ratio | None


class UserLevel(EpsilonDelta):
    """The (epsilon, delta)-differential privacy of one person with at most a number of records."""

    records: Annotated[int, Field(ge=1)]
    statement: str


class PresenceLevel(_Part):
    """What is guaranteed between inputs of which one has one job record more, at any work block.

    The run's is probabilistic differential privacy, the others' are differential privacy: of one record, and
    of one person with at most a number of records.
    """

    statement: str
    run: EpsilonDelta
    record_level: EpsilonDelta
    user_level: EpsilonDelta


class Losses(_Part):
    """The largest of each part of the loss of any class, in nats, rounded up; of measured tables, their sum.

    The mechanism names the parts: block_loss_U and pruning_loss_V, or noise_loss. Discrete Gaussian noise has
    none.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Decimal]


class Totals(_Part):
    """Public counts: pools, domains and cells of the plan; jobs of the release, and of each implicate."""

    pools: int
    records: int
    synthetic_workers: int
    domains: int
    cells: int


class ReleasedExactly(_Part):
    """Numbers of jobs that are released without noise, by work block and public part of the home.

    Jobs are counted by all attributes together where `joint`, else by each, beside all jobs.
    """

    attributes: list[str]
    joint: bool
    numbers: int
    of_one_job: int


class ImplicatesField(_Part):
    """The synthetic data sets of the release, and which of the numbers are of how many of them."""

    number: Annotated[int, Field(ge=1)]
    source: ImplicateSource
    words: str


class TierField(_Part):
    """Which of several releases of one draw this is: each has another epsilon, and is for other readers.

    `epsilons` has what was asked for in each, by rising epsilon. `coalition` is what readers of all of them
    together learn of one job record, as differential privacy.
    """

    name: str
    epsilons: dict[str, Decimal]
    coalition: EpsilonDelta
    words: str


class PoolClassRow(_Part):
    """One class of pools: its limits, the bound of each of its pools, and the mechanism's numbers.

    The mechanism names its own: lists of exact numbers (prior and retention of each stratum; the ratio of
    geometric noise; sigma^2 and rho of discrete Gaussian noise), and the parts of the loss.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Decimal | list[Ratio]]

    pools: int
    n_min: int
    n_max: int
    m_max: int
    cells: list[int]
    epsilon: Decimal
    delta: Decimal
    record_delta: Decimal


class ArithmeticField(_Part):
    """How the bounds were computed."""

    method: str
    precision_bits: int
    rounding: Literal["up"]


class Software(_Part):
    """The code that made the release, and the SBOM of its package; none of a checkout."""

    version: Version
    commit: Commit | None
    modified: bool | None
    sbom_sha256: Sha256 | None
    dependencies: dict[Distribution, Version]

    @property
    def words(self) -> str:
        """The version and the commit, for people."""
        changed = ", modified" if self.modified else ""
        return f"odsynth {self.version}, commit {self.commit or 'unknown'}{changed}"


class Randomness(_Part):
    """Where the randomness came from."""

    secure: bool
    source: str
    derivation: str


class Commitment(_Part):
    """What a run was bound to before its first draw (docs/verification.md, Commitment).

    `input` and `key` are hashed under secrets that only the run key gives. `previous` is the debit before,
    in the same ledger; `draw` says the how-manieth debit of this plan paid for the run. `witness` is the
    Ed25519 key of who must repeat the run before it is published. What came after the commitment: the
    time-stamp of it (RFC 3161), and the debit, whose entry in the ledger names it.
    """

    program: Sha256
    input: Sha256
    key: Sha256
    previous: Sha256 | None
    draw: Annotated[int, Field(ge=1)] | None
    witness: Sha256 | None
    debit: Sha256 | None
    timestamp: Base64 | None


class PartitionField(_Part):
    """Which homes neighbours may differ in, where that is not any.

    Under a policy of parts, units of `partition`, the home of a record has another origin in the same part.
    `name` is that of synth.Policy: two releases have the same neighbours where it is the same.
    """

    kind: Literal["partition"]
    name: str
    partition: str
    parts: Annotated[int, Field(ge=2)]
    words: str
    symbols: str


class DistanceField(_Part):
    """Which homes neighbours may differ in, where these are blocks within a distance of each other.

    `distance_km` is exact. No such step leaves one of `parts`; where there are several, the part of each home
    is public. No two homes that steps connect are more than `most_steps` of them apart.
    """

    kind: Literal["distance"]
    name: str
    distance_km: Ratio | Decimal
    parts: Annotated[int, Field(ge=1)]
    most_steps: Annotated[int, Field(ge=1)]
    words: str
    symbols: str


class AttributeField(_Part):
    """Which origins neighbours may differ in, where these are homes together with secret attributes.

    `attributes` has the categories of each secret attribute: any home with any of them may stand for any
    other.
    """

    kind: Literal["attribute"]
    name: str
    attributes: dict[str, list[str]]
    words: str
    symbols: str

    @property
    def parts(self) -> int:
        """No home is known to be in one part of the blocks."""
        return 1


PolicyField = Annotated[PartitionField | DistanceField | AttributeField, Field(discriminator="kind")]


class Certificate(_Part):
    """The whole certificate."""

    format: Literal["odsynth certificate 1.0"]
    release: Subject
    mechanism: str
    definition: Definition
    requested: Requested
    run: EpsilonDelta
    record_level: RecordLevel
    user_level: UserLevel
    protects: Literal["home", "record"]
    presence: PresenceLevel | None
    population: Literal["residents"] | None
    policy: PolicyField | None
    released_exactly: ReleasedExactly | None
    losses: Losses
    implicates: ImplicatesField
    tier: TierField | None
    totals: Totals
    classes: list[PoolClassRow]
    arithmetic: ArithmeticField
    plan_sha256: Sha256
    software: Software
    randomness: Randomness
    commitment: Commitment | None = None  # versions before it had none
    created: Time
    for_release: bool
    not_for_release_because: list[str]

    def __repr__(self) -> str:
        run, totals = self.run, self.totals
        fit = "for release" if self.for_release else "NOT for release"
        return (
            f"<Certificate: {self.release.name}; epsilon {run.epsilon}, delta {run.delta} for the run; "
            f"{totals.synthetic_workers:,} synthetic workers, {self.mechanism}; {fit}>"
        )

    __str__ = __repr__


def certificate_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of certificates."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Certificate.model_json_schema()}


@cache
def schema_text() -> str:
    """Return the text of the JSON Schema that a release carries."""
    return json.dumps(certificate_schema(), indent=1) + "\n"


def parse_certificate(content: str | bytes) -> Certificate:
    """Read certificate.json; of what is no certificate a `ValueError`, by pydantic where fields are wrong."""
    check_format(parse_json(content, "certificate.json"), "certificate.json", CERTIFICATE_FORMAT)
    return Certificate.model_validate_json(content)


def certificate_text(certificate: Certificate) -> str:
    """Return the text of certificate.json."""
    document = certificate.model_dump(mode="json")
    if not knows_commitments(certificate):
        del document["commitment"]
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def knows_commitments(certificate: Certificate) -> bool:
    """Whether the version that wrote a certificate could have said what the run committed to."""
    return "commitment" in certificate.model_fields_set


_REQUESTED = {
    "pdp": "(epsilon, delta)-probabilistic differential privacy of the run",
    "dp": "(epsilon, delta)-differential privacy of one job record",
}

_USER_STATEMENT = (
    "(epsilon, delta)-differential privacy for a person with at most {records} job record(s); a person with "
    "c records has c times the epsilon of one record, and the delta of one record times 1 + e^epsilon + ... "
    "+ e^((c - 1) epsilon)"
)

_USER_STATEMENT_OF_RHO = (
    "(epsilon, delta)-differential privacy for a person with at most {records} job record(s); a person with "
    "c records has c times the epsilon of one record, and at this epsilon the delta of its rho times the "
    "square of c"
)

_ARITHMETIC = ArithmeticField(
    method="Arb ball arithmetic (python-flint), upper ends",
    precision_bits=PRECISION_BITS,
    rounding="up",
)


def make_certificate(
    plan: ReleasePlan, guarantee: synth.Guarantee, plan_sha256: str, *, secure: bool
) -> Certificate:
    """Write the certificate of a run; `secure`: its key came from the operating system.

    Raises ConfigError if the plan does not say whose jobs are released.
    """
    if not plan.says_whose_jobs:
        raise ConfigError(
            "jobs.population: the plan does not say whose jobs are released; name geography.external_zones, "
            "or "
            'write population = "residents" in [jobs] if everybody may know that all workers live in the '
            "geography, and plan again"
        )
    software = this_software()
    reasons = reasons_against_release(software, randomness_fields(secure))
    return Certificate(
        format=CERTIFICATE_FORMAT,
        release=subject_of(plan),
        mechanism=plan.numeric.mechanism,
        **guarantee_fields(plan, guarantee),
        plan_sha256=plan_sha256,
        software=software,
        randomness=randomness_fields(secure),
        commitment=None,
        created=time_now(),
        for_release=not reasons,
        not_for_release_because=reasons,
    )


def time_now() -> str:
    """Return the time as certificates have it."""
    return datetime.now(UTC).strftime(_TIME)


def certificate_of_draw(certificate: Certificate, drawn: ReleasePlan) -> Certificate:
    """Return the certificate of a release with its numbers of jobs, which a plan may only expect."""
    pools, of_run = drawn.numeric.pools, drawn.implicates.of_run
    jobs = {"records": pools.n_records, "synthetic_workers": int(pools.m.sum()) // of_run}
    return certificate.model_copy(update={"totals": certificate.totals.model_copy(update=jobs)})


def subject_of(plan: ReleasePlan) -> Subject:
    """Return what a plan releases."""
    return Subject(**{name: getattr(plan.config.release, name) for name in Subject.model_fields})


def promise(plan: ReleasePlan, guarantee: synth.Guarantee) -> Certificate:
    """Return what the certificate of a plan promises, without the fields that only a run gives."""
    return Certificate.model_construct(**guarantee_fields(plan, guarantee))


def this_software() -> Software:
    """Return the code that is running."""
    state = source_state()
    return Software(
        version=state.version,
        commit=state.commit,
        modified=state.modified,
        sbom_sha256=state.sbom_sha256,
        dependencies=dict(dependency_versions()),
    )


def randomness_fields(secure: bool) -> Randomness:
    """Return what a certificate says of the randomness of a run with such a key."""
    return Randomness(
        secure=secure,
        source="the operating system's generator" if secure else "a seed (tests only)",
        derivation="HKDF-SHA256 for each stage and batch, ChaCha20 key streams, rejection sampling",
    )


def reasons_against_release(software: Software, randomness: Randomness) -> list[str]:
    """Return why a release may not be published, from other fields of its certificate."""
    reasons = []
    if not randomness.secure:
        reasons.append("the run was seeded: its randomness is not secret")
    if software.commit is None:
        reasons.append("the commit of the program is unknown")
    if software.modified or (software.commit is not None and software.modified is None):
        reasons.append("the program differs from its commit")
    return reasons


def guarantee_fields(plan: ReleasePlan, guarantee: synth.Guarantee) -> dict[str, Any]:
    """Return the part of a certificate that is a function of the plan alone; `verify` recomputes it."""
    numeric, implicates = plan.numeric, plan.implicates
    epsilon, delta = plan.requested
    up = synth.decimal_up
    records = plan.config.jobs.records_per_worker
    user, by_rho = guarantee.of_person(records), guarantee.rho is not None and records > 1
    presence = guarantee.presence
    population, policy = plan.population, _policy_field(plan)
    return {
        "definition": define(
            plan.mechanism,
            population,
            policy,
            protected=presence is not None,
            record=numeric.target.protects == "record",
        ),
        "requested": Requested(
            guarantee=numeric.target.guarantee,
            words=_REQUESTED[numeric.target.guarantee],
            epsilon=up(epsilon),
            delta=up(delta),
        ),
        "run": EpsilonDelta(epsilon=up(guarantee.epsilon), delta=up(guarantee.delta)),
        "record_level": RecordLevel(
            epsilon=up(guarantee.record_epsilon),
            delta=up(guarantee.record_delta),
            curve=[EpsilonDelta(epsilon=up(e), delta=up(d)) for e, d in guarantee.curve],
            rho=None if guarantee.rho is None else str(guarantee.rho),
        ),
        "user_level": UserLevel(
            epsilon=up(user[0]),
            delta=up(user[1]),
            records=records,
            statement=(_USER_STATEMENT_OF_RHO if by_rho else _USER_STATEMENT).format(records=records),
        ),
        "protects": numeric.target.protects,
        "presence": None if presence is None else _presence_level(presence, records),
        "population": population,
        "policy": policy,
        "released_exactly": None
        if plan.exact is None
        else ReleasedExactly.model_validate(plan.exact, from_attributes=True, strict=False),
        "losses": Losses(**_decimals(_losses(guarantee))),
        "implicates": ImplicatesField(
            number=implicates.number, source=implicates.source, words=implicates.words
        ),
        "tier": _tier_field(plan),
        "totals": Totals(
            pools=numeric.pools.n_pools,
            records=numeric.pools.n_records,
            synthetic_workers=int(numeric.pools.m.sum()) // implicates.of_run,
            domains=numeric.domains.n_domains,
            cells=int(numeric.domains.cuts.size),
        ),
        "classes": [_class_row(c) for c in guarantee.classes],
        "arithmetic": _ARITHMETIC,
    }


def define(
    mechanism: synth.Mechanism,
    population: str | None,
    policy: PolicyField | None,
    *,
    protected: bool,
    record: bool = False,
) -> Definition:
    """Return the guarantee in words and symbols; `protected`: also that a record is there at all.

    `record`: and all of it, not its home alone.
    """
    definition = render(
        "definition.json.j2",
        protected=protected,
        record=record,
        by_lot="record_range" in mechanism.settings,
        by_rho="rho" in mechanism.settings,
        by_table="tables" in mechanism.settings,
        residents=population_in_words(population, protected=protected),
        policy=policy,
        secret=secret_in_words(policy),
        delta_sharing=mechanism.delta_sharing.format(records="public slots" if protected else "records"),
    )
    return Definition.model_validate_json(definition)


def secret_in_words(policy: PolicyField | None, language: str = ENGLISH) -> str:
    """Return the attributes that a policy protects with homes, for sentences; nothing where it has none."""
    if not isinstance(policy, AttributeField):
        return ""
    return f" {phrases(language).conjunction} ".join(f'"{name}"' for name in policy.attributes)


def population_in_words(population: str | None, *, protected: bool, language: str = ENGLISH) -> str:
    """Say whose jobs a release is of, where that depends on homes, and what is promised; else nothing."""
    return "" if population is None else phrases(language).residents(protected)


def _policy_field(plan: ReleasePlan) -> PolicyField | None:
    """Return the policy of a plan; None where it is "full"."""
    policy = plan.numeric.domains.policy
    if policy.name == FULL.name:
        return None
    if policy.secret:
        return _attribute_field(policy)
    settings = plan.config.privacy.policy
    if isinstance(settings, DistancePolicy):
        return _distance_field(policy, settings.km)
    assert isinstance(settings, PartitionPolicy)
    return _partition_field(policy, settings.partition)


def _partition_field(policy: synth.Policy, partition: str) -> PartitionField:
    return _with_words(
        PartitionField.model_construct(
            kind="partition", name=policy.name, partition=partition, parts=policy.n_parts
        )
    )


def _distance_field(policy: synth.Policy, km: str) -> DistanceField:
    return _with_words(
        DistanceField.model_construct(
            kind="distance",
            name=policy.name,
            distance_km=km,
            parts=policy.n_parts,
            most_steps=policy.steps,
        )
    )


def _attribute_field(policy: synth.Policy) -> AttributeField:
    attributes = {name: list(values) for name, values in policy.secret.items()}
    return _with_words(
        AttributeField.model_construct(kind="attribute", name=policy.name, attributes=attributes)
    )


_Field = TypeVar("_Field", PartitionField, DistanceField, AttributeField)


def _with_words(field: _Field) -> _Field:
    """Return a field of a policy with what its kind and its numbers mean, in words and symbols."""
    words = json.loads(render("policy.json.j2", policy=field, secret=secret_in_words(field)))
    return field.model_copy(update=words)


_TIER_WORDS = (
    "The noisy counts of a weaker tier are those of the next stronger tier with more noise. So readers of "
    "several tiers together learn no more of the records than readers of the strongest of these do, and the "
    "costs of tiers do not add up."
)


def _tier_field(plan: ReleasePlan) -> TierField | None:
    """Return which tier a plan is of; None where there is one release only."""
    config = plan.config
    if config.tier is None:
        return None
    epsilons = {name: synth.decimal_up(x) for name, x in sorted(config.tiers.items(), key=lambda t: t[1])}
    strongest = EpsilonDelta(epsilon=synth.decimal_up(max(config.tiers.values())), delta="0")
    return TierField(name=config.tier, epsilons=epsilons, coalition=strongest, words=_TIER_WORDS)


def _presence_level(presence: synth.Presence, records: int) -> PresenceLevel:
    """Return the guarantee for one record more or less, and for all records of one person."""

    def pair(epsilon: Fraction, delta: Fraction) -> EpsilonDelta:
        return EpsilonDelta(epsilon=synth.decimal_up(epsilon), delta=synth.decimal_up(delta))

    alone = presence.record_epsilon, presence.record_delta
    return PresenceLevel(
        statement=(
            "the same for two inputs of which one has one job record more, at any work block (add or remove "
            f"one); of one person: at most {records} job record(s) more or less"
        ),
        run=pair(presence.epsilon, presence.delta),
        record_level=pair(*alone),
        user_level=pair(*synth.group_privacy(*alone, records)),
    )


def _losses(guarantee: synth.Guarantee) -> dict[str, Fraction]:
    """Return each part of the loss: the sum of classes that have all records each, the largest of others."""
    losses: dict[str, Fraction] = {}
    for row in guarantee.classes:
        for part, loss in row.losses.items():
            before = losses.get(part, Fraction(0))
            losses[part] = before + loss if row.of_all_records else max(before, loss)
    return losses


def _class_row(row: synth.ClassGuarantee) -> PoolClassRow:
    numbers: dict[str, Any] = {name: [str(x) for x in exact] for name, exact in row.numbers.items()}
    return PoolClassRow(
        pools=row.pools,
        n_min=row.n_min,
        n_max=row.n_max,
        m_max=row.m_max,
        cells=list(row.cells),
        epsilon=synth.decimal_up(row.epsilon),
        delta=synth.decimal_up(row.delta),
        record_delta=synth.decimal_up(row.record_delta),
        **numbers,
        **_decimals(row.losses),
    )


def _decimals(values: dict[str, Fraction]) -> dict[str, Any]:
    return {name: synth.decimal_up(value) for name, value in values.items()}
