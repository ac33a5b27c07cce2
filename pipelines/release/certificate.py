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
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

import synth
from pipelines.config.fields import JobType, Line, State, Year
from pipelines.config.implicates import ImplicateSource
from pipelines.config.policies import DistancePolicy, PartitionPolicy
from pipelines.config.toml import ConfigError
from pipelines.plans.plan import ReleasePlan
from pipelines.release.provenance import dependency_versions, source_state
from pipelines.storage.documents import check_format, parse_json
from synth.policy import FULL
from synth.tails import PRECISION_BITS

CERTIFICATE_FORMAT: Literal["odsynth certificate 1.0"] = "odsynth certificate 1.0"

Decimal = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?$")]
Ratio = Annotated[str, StringConstraints(pattern=r"^\d+(/\d+)?$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

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
    one, of delta 0, is pure differential privacy.
    """

    curve: list[EpsilonDelta]


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

    The mechanism names the parts: block_loss_U and pruning_loss_V, or noise_loss.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Decimal]


class Totals(_Part):
    """Public counts of the plan; synthetic workers of each implicate."""

    pools: int
    records: int
    synthetic_workers: int
    domains: int
    cells: int


class ImplicatesField(_Part):
    """The synthetic data sets of the release, and which of the numbers are of how many of them."""

    number: Annotated[int, Field(ge=1)]
    source: ImplicateSource
    words: str


class PoolClassRow(_Part):
    """One class of pools: its limits, the bound of each of its pools, and the mechanism's numbers.

    The mechanism names its own: lists of exact numbers (prior and retention of each stratum, or the ratio of
    geometric noise), and the parts of the loss.
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

    @property
    def of_another_home(self) -> str:
        """Where the other home of a neighbour is."""
        return f'in the same "{self.partition}"'

    @property
    def of_two_homes(self) -> str:
        """Of which two homes nobody is much surer of one."""
        return self.of_another_home

    @property
    def neighbours(self) -> str:
        """What neighbours have in common, in one sentence."""
        return f'Both origins of that record lie in the same "{self.partition}".'

    @property
    def public(self) -> tuple[str, str] | None:
        """What is public by the policy, and so not covered; None where that is nothing."""
        level = f'"{self.partition}"'
        return (
            f"by policy, in which {level} the home of each job is: the number of homes in each {level}, of "
            "the jobs of each work block, with their attributes",
            f"in which {level} the home of a job is: the numbers of homes are reproduced exactly",
        )


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

    @property
    def of_another_home(self) -> str:
        """Where the other home of a neighbour is."""
        return f"within {self.distance_km} km of its own"

    @property
    def of_two_homes(self) -> str:
        """Of which two homes nobody is much surer of one."""
        return f"within {self.distance_km} km of each other"

    @property
    def neighbours(self) -> str:
        """What neighbours have in common, in one sentence."""
        return f"Both origins of that record lie {self.of_two_homes}."

    @property
    def public(self) -> tuple[str, str] | None:
        """What is public by the policy, and so not covered; None where that is nothing."""
        if self.parts == 1:
            return None
        return (
            "by policy, in which part of the blocks, of those that no step of the policy leaves, the home of "
            "each job is: the number of homes in each part, of the jobs of each work block, with their "
            "attributes",
            "in which of these parts the home of a job is: the numbers of homes are reproduced exactly",
        )


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
    def listed(self) -> str:
        """The secret attributes, for sentences."""
        return " and ".join(f'"{name}"' for name in self.attributes)

    @property
    def of_another_home(self) -> str:
        """What else than the home of a neighbour may be another."""
        return f"or another {self.listed}, or both"

    @property
    def of_two_homes(self) -> str:
        """Of which two homes nobody is much surer of one."""
        return f"each together with some {self.listed}"

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
    presence: PresenceLevel | None
    population: Literal["residents"] | None
    policy: PolicyField | None
    losses: Losses
    implicates: ImplicatesField
    totals: Totals
    classes: list[PoolClassRow]
    arithmetic: ArithmeticField
    plan_sha256: Sha256
    software: Software
    randomness: Randomness
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
    return json.dumps(certificate.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


_REQUESTED = {
    "pdp": "(epsilon, delta)-probabilistic differential privacy of the run",
    "dp": "(epsilon, delta)-differential privacy of one job record",
}

_DEFINITION: dict[str, Any] = {
    "words": (
        "Whatever the confidential origins are, outside a set of outputs of probability at most delta, the "
        "released output is at most e^epsilon times more or less likely than it would be if any one job "
        "record had another origin."
    ),
    "symbols": (
        "(epsilon, delta)-probabilistic differential privacy: for every input h there is a set B of outputs "
        "with P(B | h) <= delta such that for every s outside B and every neighbour h' of h, "
        "|ln P(s | h) / P(s | h')| <= epsilon."
    ),
    "neighbours": "Two inputs with the same slots; the origin of one job record differs (replace one).",
    "unit": "One job record: one worker in one job.",
    "assumed_public": [
        "the slots: how many jobs each work block has, with their attributes (workplace totals)",
        "the geography, the auxiliary flows and the weights; none of them is derived from the same records, "
        "but for releases whose epsilon and delta add to these",
        "the plan, and this program",
    ],
    "composition": (
        "Pools hold disjoint records: epsilon of the run is the largest of any pool, delta is the sum over "
        "pools. Releases of the same records add up their epsilon and their delta, also where one is "
        "planned from another."
    ),
    "not_covered": [
        "what is inferred from the public inputs alone",
        "other releases of the same records: their epsilon and delta add to these",
        "the attributes of jobs and workplace totals, which are reproduced exactly",
        "how the curator keeps the confidential data, and side channels such as timing on that machine",
    ],
}


_PROTECTED: dict[str, Any] = _DEFINITION | {
    "words": (
        _DEFINITION["words"].removesuffix(".")
        + ", or, with the numbers of `presence`, were not there at all."
    ),
    "neighbours": (
        "Two inputs in which the home of one job record differs; and two inputs of which one has one job "
        "record more, at any work block, for which the numbers of `presence` are. A record with another work "
        "block or other attributes is one record less and one more."
    ),
    "assumed_public": [
        "a table of jobs by work block and attributes, which is not derived from these records (the slots)",
        *_DEFINITION["assumed_public"][1:],
    ],
    "not_covered": [
        *(line for line in _DEFINITION["not_covered"] if not line.startswith("the attributes of jobs")),
        "the public table of jobs by work block and attributes, whose totals the release has",
    ],
}

_USER_STATEMENT = (
    "(epsilon, delta)-differential privacy for a person with at most {records} job record(s); a person with "
    "c records has c times the epsilon of one record, and the delta of one record times 1 + e^epsilon + ... "
    "+ e^((c - 1) epsilon)"
)

_ARITHMETIC = ArithmeticField(
    method="Arb ball arithmetic (python-flint), upper ends",
    precision_bits=PRECISION_BITS,
    rounding="up",
)

_RESIDENTS = "The released population is jobs of residents: of workers whose home lies inside the geography. "
_MEMBERSHIP = {
    False: "That a job is one of them, and so that its home lies inside the geography, is taken to be public "
    "and is not protected.",
    True: "Whether a job is one of them, and so whether its home lies inside the geography, is protected "
    "with the numbers of `presence`, not with those of the run.",
}

_BY_LOT = (
    " A pool with more records than its public range goes on with as many as that, chosen by lot, and one "
    "with fewer is filled up with homes from the public model; the statement about the run holds for every "
    "outcome of these lots."
)


def make_certificate(
    plan: ReleasePlan, guarantee: synth.Guarantee, plan_sha256: str, *, secure: bool
) -> Certificate:
    """Write the certificate of a run.

    Parameters
    ----------
    plan : ReleasePlan
    guarantee : synth.Guarantee
        Of the release (`ReleasePlan.certify`).
    plan_sha256 : str
        Hash of the stored plan.
    secure : bool
        Whether the run key came from the operating system.

    Returns
    -------
    Certificate

    Raises
    ------
    ConfigError
        If the plan does not say whose jobs are released: of a configuration that was not checked as a file
        is.
    """
    if not plan.says_whose_jobs:
        raise ConfigError(
            "jobs.population: the plan does not say whose jobs are released, or says otherwise than "
            "geography.external_zones; name zones for workers who live elsewhere, or write "
            'population = "residents" in [jobs], if all may know of every job that its home lies inside the '
            "geography, and plan again"
        )
    software = this_software()
    reasons = reasons_against_release(software, randomness_fields(secure))
    release = plan.config.release
    return Certificate(
        format=CERTIFICATE_FORMAT,
        release=Subject(**{name: getattr(release, name) for name in Subject.model_fields}),
        mechanism=plan.numeric.mechanism,
        **guarantee_fields(plan, guarantee),
        plan_sha256=plan_sha256,
        software=software,
        randomness=randomness_fields(secure),
        created=datetime.now(UTC).strftime(_TIME),
        for_release=not reasons,
        not_for_release_because=reasons,
    )


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
    user = synth.group_privacy(guarantee.record_epsilon, guarantee.record_delta, records)
    presence = guarantee.presence
    population, policy = plan.population, _policy_field(plan)
    return {
        "definition": define(plan.mechanism, population, policy, protected=presence is not None),
        "requested": Requested(
            guarantee=numeric.guarantee,
            words=_REQUESTED[numeric.guarantee],
            epsilon=up(epsilon),
            delta=up(delta),
        ),
        "run": EpsilonDelta(epsilon=up(guarantee.epsilon), delta=up(guarantee.delta)),
        "record_level": RecordLevel(
            epsilon=up(guarantee.record_epsilon),
            delta=up(guarantee.record_delta),
            curve=[EpsilonDelta(epsilon=up(e), delta=up(d)) for e, d in guarantee.curve],
        ),
        "user_level": UserLevel(
            epsilon=up(user[0]),
            delta=up(user[1]),
            records=records,
            statement=_USER_STATEMENT.format(records=records),
        ),
        "presence": None if presence is None else _presence_level(presence, records),
        "population": population,
        "policy": policy,
        "losses": Losses(**_decimals(_losses(guarantee))),
        "implicates": ImplicatesField(
            number=implicates.number, source=implicates.source, words=implicates.words
        ),
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
    mechanism: synth.Mechanism, population: str | None, policy: PolicyField | None, *, protected: bool
) -> Definition:
    """Return the guarantee in words and symbols; `protected`: also that a record is there at all."""
    words: dict[str, Any] = _DEFINITION | {"delta_sharing": mechanism.delta_sharing}
    if protected:
        words |= _PROTECTED
        words["delta_sharing"] = words["delta_sharing"].replace("N records", "N public slots")
        if "record_range" in mechanism.settings:
            words["words"] += _BY_LOT
    if population is not None:
        words |= _of_residents(words, protected=protected)
    if isinstance(policy, AttributeField):
        words |= _with_secrets(words, policy)
    elif policy is not None:
        words |= _under_policy(words, policy)
    return Definition(**words)


def population_in_words(population: str | None, *, protected: bool) -> str:
    """Say whose jobs a release is of, where that depends on homes, and what is promised; else nothing."""
    return "" if population is None else _RESIDENTS + _MEMBERSHIP[protected]


def policy_in_words(certificate: Certificate) -> str:
    """Say who may tell what about whom under another policy than "full"; else nothing."""
    return certificate.policy.words if certificate.policy else ""


def _policy_field(plan: ReleasePlan) -> PolicyField | None:
    """Return the policy of a plan; None where it is "full"."""
    policy = plan.numeric.domains.policy
    if policy.name == FULL.name:
        return None
    asked = plan.config.privacy.policy
    if isinstance(asked, DistancePolicy):
        return _distance_field(policy, asked.km)
    if not isinstance(asked, PartitionPolicy):
        return _attribute_field(policy)
    return _partition_field(policy, asked.partition)


def _partition_field(policy: synth.Policy, partition: str) -> PartitionField:
    level = f'"{partition}"'
    return PartitionField(
        kind="partition",
        name=policy.name,
        partition=partition,
        parts=policy.n_parts,
        words=(
            f"The policy is a partition by {level}. Which home a job has, of two in the same {level}, this "
            f"release tells no better than the guarantee allows. In which {level} the home of a job "
            "lies is public by policy: for each work block, by each attribute of its jobs, the release has "
            f"exactly as many homes in each {level} as the confidential records. So whoever knows that "
            f"somebody works at a work block all of whose workers live in one {level} learns that they do."
        ),
        symbols=(
            "h' is a neighbour of h if the origin of one record is i in h and j in h', part(i) = part(j), "
            f"and nothing else differs; part(b) is the unit of {level} that block b is in."
        ),
    )


def _distance_field(policy: synth.Policy, km: str) -> DistanceField:
    public = (
        ""
        if policy.n_parts == 1
        else f" The blocks fall into {policy.n_parts} parts that no step leaves, and in which of them the "
        "home of a job lies is public by policy: for each work block, by each attribute of its jobs, the "
        "release has exactly as many homes in each part as the confidential records."
    )
    return DistanceField(
        kind="distance",
        name=policy.name,
        distance_km=km,
        parts=policy.n_parts,
        most_steps=policy.steps,
        words=(
            f"The policy is a distance of {km} km. Which home a job has, of two whose blocks lie within {km} "
            "km of each other, this release tells no better than the guarantee allows. Homes further apart "
            f"are protected less: two that are k steps of at most {km} km apart, from block to block, as k "
            "job records of one person are, with k times epsilon and with delta times 1 + e^epsilon + ... + "
            f"e^((k - 1) epsilon). Homes that steps connect are at most {policy.steps} steps apart. Of two "
            f"that no steps connect, and of an external zone and anywhere else, nothing is promised.{public}"
        ),
        symbols=(
            "h' is a neighbour of h if the origin of one record is i in h and j in h', d(i, j) <= "
            f"{km} km, and nothing else differs; d(i, j) is the length of the great circle between the "
            "centroids of blocks i and j, on a sphere of radius 6371.0088 kilometres, and no number where "
            "one of them is an external zone."
        ),
    )


def _attribute_field(policy: synth.Policy) -> AttributeField:
    field = AttributeField(
        kind="attribute",
        name=policy.name,
        attributes={name: list(values) for name, values in policy.secret.items()},
        words="",
        symbols=(
            "h' is a neighbour of h if the origin of one record is (b, c) in h and (b', c') in h', for any "
            "blocks b, b' and any categories c, c' that the policy lists, and nothing else differs."
        ),
    )
    words = (
        f"The policy protects the home of a job together with its {field.listed}. Which home with which "
        f"{field.listed} a job has, of any two such pairs in which neighbours may differ, this release tells "
        f"no better than the guarantee allows. How many jobs of a work block have which {field.listed} is "
        "protected too: the numbers of the release are drawn. The work block of a job and its other "
        "attributes are public, and with them what they tell of it. Beyond that, whoever knows the home of "
        f"somebody learns their {field.listed} no better than the guarantee allows, also where they work "
        "alone."
    )
    return field.model_copy(update={"words": words})


_COMPOSITION = (
    " All of them must have this policy, or one that protects more; the sum is a guarantee of the policy "
    "that protects least."
)


def _with_secrets(words: dict[str, Any], policy: AttributeField) -> dict[str, Any]:
    """Return what a definition says otherwise where attributes are secret together with homes."""
    two, inside = "had another origin", " inside the geography"
    elsewhere = two + inside * (two + inside in words["words"])
    of, kept = "the attributes of jobs", "which are reproduced exactly"
    exact, other = (
        f"{of} and workplace totals, {kept}",
        f"{of} but {policy.listed}, and workplace totals by them, {kept}",
    )
    slots = "with their attributes (workplace totals)"
    return {
        "words": words["words"]
        .replace("the confidential origins are", f"the confidential origins and {policy.listed} are")
        .replace(elsewhere, f"{elsewhere} {policy.of_another_home}"),
        "neighbours": f"{words['neighbours']} An origin is a home with {policy.listed}; both may differ.",
        "assumed_public": [
            *(
                line.replace(slots, f"with their attributes but {policy.listed} (workplace totals)")
                for line in words["assumed_public"]
            ),
            f"which categories of {policy.listed} there can be",
        ],
        "composition": words["composition"] + _COMPOSITION,
        "not_covered": [other if line == exact else line for line in words["not_covered"]],
    }


def _under_policy(words: dict[str, Any], policy: PartitionField | DistanceField) -> dict[str, Any]:
    """Return what a definition says otherwise under a policy."""
    public, not_covered = ([text] for text in policy.public) if policy.public else ([], [])
    return {
        "words": words["words"].replace("had another origin", f"had another origin {policy.of_another_home}"),
        "neighbours": f"{words['neighbours']} {policy.neighbours}",
        "assumed_public": [*words["assumed_public"], *public],
        "composition": words["composition"] + _COMPOSITION,
        "not_covered": [*words["not_covered"], *not_covered],
    }


def _of_residents(words: dict[str, Any], *, protected: bool) -> dict[str, Any]:
    """Return what a definition says otherwise where the released population is jobs of residents."""
    changed = {
        "words": words["words"].replace("had another origin", "had another origin inside the geography")
        + " "
        + population_in_words("residents", protected=protected),
        "neighbours": words["neighbours"] + " Every origin lies inside the geography, in both inputs.",
    }
    if protected:
        return changed
    return changed | {
        "assumed_public": [
            *words["assumed_public"],
            "which jobs belong to the released population, jobs of residents: that the home of each lies "
            "inside the geography",
        ],
        "not_covered": [
            *words["not_covered"],
            "whether the home of a job lies inside the geography: the released population is jobs of "
            "residents, and membership of it is taken to be public",
        ],
    }


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
    """Return each part of the loss: of all classes, where each has all records, otherwise the largest."""
    rows = guarantee.classes
    together = sum if rows[0].of_all_records else max
    return {part: Fraction(together(row.losses[part] for row in rows)) for part in rows[0].losses}


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
