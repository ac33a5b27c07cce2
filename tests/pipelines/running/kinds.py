"""The kinds of releases that go through the same checks: their settings, and what is special to each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

from pipelines import Release, ReleaseConfig, load_config
from pipelines.planning import search
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices

from .forgeries import (
    AGES,
    GONE,
    Forgery,
    between,
    changed_count,
    changed_part,
    copied,
    cut_elsewhere,
    fewer_jobs,
    fewer_lines,
    in_a_block,
    in_another_order,
    in_one_file,
    in_order,
    job_of_another_kind,
    less_noise_at_its_price,
    many_more,
    measured_file,
    missing,
    more_folders,
    moved_homes,
    moved_to,
    no_part,
    noisy,
    not_of_the_plan_either,
    other_age,
    parts,
    planned,
    policy,
    raised,
    rows,
    stated,
    table_of_counts,
    turned,
    twice,
    without_counts,
    without_file,
    without_measurements,
    without_noise,
    without_paragraph,
)
from .helpers import GEOMETRIC, TABLES, Table

PDP = "(epsilon, delta)-probabilistic differential privacy of the run"
SECTORS = ["field", "office"]
COUNTIES: Table = {"privacy.policy": {"partition": "cty"}}
DIRICHLET: Table = {"plan.retention_min": "0.5"}
ONE_TABLE: Table = TABLES | {"workload": [{"home": "trct", "work": "tabblk2010"}]}  # nothing to search
NOISE: Table = TABLES | {
    "plan.split_threshold": None,
    "plan.coarsening": "units",
    "plan.cell_level": "trct",
    "plan.pool_by": [],
}
RECORDS: Table = NOISE | {
    "privacy.protects": "record",
    "attribute": [{"name": "age", "categories": AGES}, {"name": "sector", "categories": SECTORS}],
}
OF_RECORDS: Table = NOISE | {"privacy.protects": "record", "attribute.1.table": None}
RESAMPLED: Table = {
    "plan.split_threshold": None,
    "plan.coarsening": "units",
    "plan.cell_level": "trct",
    "plan.pool_by": [],
}
GAUSSIAN: Table = GEOMETRIC | {"release.mechanism": "gaussian"}
BLOCKS: Table = NOISE | {"plan.cell_level": "tabblk2010"}


def implicates(number: object, source: str = "independent-runs", epsilon: str = "8.6") -> Table:
    return {"release.implicates": number, "release.implicate_source": source, "privacy.epsilon": epsilon}


def distance(km: object) -> Table:
    return {"privacy.policy": {"distance_km": km}}


def secret(settings: Table = NOISE, **attributes: object) -> Table:
    tables = [{"name": name, "categories": values} for name, values in attributes.items()]
    return settings | {"privacy.protects": ["home", *attributes], "attribute": tables}


def measured(home: str, *by: str) -> TableChoice:
    return TableChoice(None, by, home, Fraction(1, 5))


OF_WORKPLACES = (
    TableChoice(None, ("age", "sector"), None, Fraction(1, 20)),
    TableChoice("tabblk2010", (), None, Fraction(1, 10)),
    TableChoice("trct", ("age", "sector"), None, Fraction(1, 10)),
)

OF_CATEGORIES = (OF_WORKPLACES[0], OF_WORKPLACES[2])


def config_of(release: Release) -> ReleaseConfig:
    """Return the configuration by which the fixture `released` made a release."""
    return load_config(release.out.parent / "kind.toml")


# --- the kinds


@dataclass(frozen=True)
class Kind:
    """A kind of release.

    Attributes
    ----------
    name : str
    inputs : str
        Name of the changes of the configuration that fixtures make: see the fixture `inputs`.
    changes : dict
        Of the configuration.
    chosen : Choices, optional
        What the planner would take its time to find.
    certificate : dict
        What fields of the certificate hold, by path.
    forgeries : tuple of Forgery
        What both verifiers refuse.
    not_for_verify_py : tuple of Forgery
        What `odsynth verify` alone refuses: what verify.py does not compute.
    """

    name: str
    inputs: str
    changes: Table
    chosen: Choices | None = None
    certificate: Table = field(default_factory=dict)
    forgeries: tuple[Forgery, ...] = ()
    not_for_verify_py: tuple[Forgery, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def other_files(self) -> bool:
        """Whether a run keeps and writes other files than those of another kind."""
        return self.name in _OTHER_FILES

    def choose(self, patch: pytest.MonkeyPatch) -> None:
        """Spare the planner its search."""
        if self.chosen is not None:
            patch.setattr(search, "choose", lambda *_: self.chosen)


# Microdata, secret attributes and noise in two tables; homes beyond the region; implicates of each source.
_OTHER_FILES = {"residents", "zones", "workplaces", "workplaces by noise", "independent-runs", "one-urn"}
_OTHER_FILES |= {
    "records",
    "records with a table",
    "records resampled",
    "implicates by noise",
    "counties by noise",
    "secret",
    "parquet alone",
}

CLOSED_AREAS = (
    planned("plan", "configuration.geography.uninhabited", []),
    planned("plan", "configuration.geography.uninhabited", ["nowhere"]),
    planned("plan", "configuration.geography.without_work", ["nowhere"]),
    planned("plan", "configuration.geography.external_workplaces", {}),
    planned("plan", "configuration.geography.external_workplaces.MOON", "on the moon"),
    rows("data", "od", lambda table: moved_to(table, "h_geocode", "HOME99999999999")),
)
TRACT_AGES = measured("trct", "age")
BY_TRACT = {"kind": "partition", "name": "parts st:0", "partition": "trct", "parts": 6}
BY_TRACT |= {"words": "", "symbols": ""}
ONE_POLICY = (
    stated("guarantee", definition__neighbours="Any."),
    stated("guarantee", run__epsilon="4"),
    stated("guarantee", policy=None),
    stated("guarantee", policy=BY_TRACT),
)
IMPLICATES = (
    (more_folders, "texts"),
    stated("guarantee", implicates__number=1),
    *map(changed_count, (1, 2, 3)),
)
CLASS = "parameters.classes.-1"

KINDS = [
    Kind(
        "residents",
        "lodes",
        {},
        certificate={"population": "residents", "mechanism": "dirichlet", "presence": None},
        forgeries=(
            stated("guarantee", population=None),
            stated("guarantee", released_exactly=None),
            stated("guarantee", released_exactly__of_one_job=lambda number: number - 1),
            stated("guarantee", released_exactly__joint=True),
            stated("guarantee", definition__not_covered=fewer_lines),
            stated("guarantee", definition__assumed_public=fewer_lines),
            stated("guarantee", definition__words=lambda words: words[: words.index("The released pop")]),
            (not_of_the_plan_either, "plan"),
            without_paragraph("The released population"),
            planned("plan", "configuration.geography.external_zones", ["25"]),
            *(
                planned("plan", f"configuration.{key}", GONE)
                for key in ("privacy.policy", "jobs.population", "release.language")
            ),
            *(planned("plan", "configuration.release.language", other) for other in ("xx", ["en"], "../de")),
        ),
    ),
    Kind(
        "zones",
        "zones",
        {},
        certificate={"population": None},
        forgeries=(
            stated("guarantee", population="residents"),
            planned("plan", "configuration.jobs.population", "residents"),
            between(lambda main, aux: (in_order(main, aux), aux[:0])),
            between(lambda main, aux: (main[1:], in_order(main[:1], aux))),
            between(lambda main, aux: (main, aux[:0])),
            between(lambda main, aux: (main, aux[::-1])),
            between(in_a_block),
            planned("plan", "configuration.geography.external_zones", ["09"]),
        ),
    ),
    Kind(
        "geometric",
        "lodes",
        GEOMETRIC,
        certificate={
            "mechanism": "geometric",
            "run": {"epsilon": "8.6", "delta": "0"},
            "requested.delta": "0.00001",
            "record_level.curve": [{"epsilon": "8.6", "delta": "0"}],
            "user_level.epsilon": "8.6",
            "losses": {"noise_loss": "8.6"},
        },
        forgeries=(
            stated("guarantee", protects="record"),
            planned("plan", "configuration.privacy.protects", "record"),
            stated("guarantee", losses__noise_loss="1"),
            stated("guarantee", losses__other="1"),
            stated("guarantee", classes__0__ratio=["1/2"]),
            stated("guarantee", classes__0__noise_loss="0.1"),
            stated("guarantee", classes__0__more="0.1"),
            stated("guarantee", definition__delta_sharing="equally"),
            stated("guarantee", run__epsilon="1"),
            planned("guarantee", "parameters.numerator", lambda number: number - 1),
            planned("guarantee", "parameters.numerator", lambda number: number + 1),
            planned("guarantee", "parameters.numerator", lambda number: number - 10**15),
            (less_noise_at_its_price, "budget"),
            table_of_counts(lambda table: table[1:]),
            table_of_counts(lambda table: table.append_column("more", table["pool"])),
            table_of_counts(lambda table: table.set_column(0, "pool", pc.add(table["pool"], 1))),
            table_of_counts(without_counts),
            (without_measurements, "files"),
        ),
        not_for_verify_py=(noisy("data", turned),),
    ),
    Kind(
        "tiers",
        "lodes",
        GEOMETRIC | {"tiers": {"public": "1", "secure": "8.6"}},
        certificate={
            "tier.name": "secure",
            "tier.epsilons": {"public": "1", "secure": "8.6"},
            "tier.coalition": {"epsilon": "8.6", "delta": "0"},
        },
        forgeries=(
            stated("guarantee", tier=None),
            stated("guarantee", tier__name="public"),
            stated("guarantee", tier__epsilons__public="0.1"),
            stated("guarantee", tier__coalition__epsilon="1"),
            stated("guarantee", tier__words="Tiers together tell nothing."),
            planned("guarantee", "configuration.tiers", {}),
            planned("plan", "configuration.tiers.secure", "9"),
            planned("plan", "configuration.tiers", {"secure": "8.6"}),
        ),
    ),
    Kind(
        "gaussian",
        "lodes",
        GAUSSIAN,
        certificate={
            "mechanism": "gaussian",
            "run.delta": "0.00001",
            "requested": {"guarantee": "pdp", "words": PDP, "epsilon": "8.6", "delta": "0.00001"},
            "record_level.epsilon": "8.6",
            "user_level.epsilon": "8.6",
            "losses": {},
        },
        forgeries=(
            planned("plan", "configuration.privacy.protects", "record"),
            stated("guarantee", losses__noise_loss="1"),
            stated("guarantee", classes__0__sigma_squared=["1/2"]),
            stated("guarantee", classes__0__rho=["1/2"]),
            stated("guarantee", classes__0__epsilon="0.1"),
            stated("guarantee", classes__0__record_delta="0"),
            stated("guarantee", run__epsilon="1"),
            stated("guarantee", run__delta="0"),
            stated("guarantee", record_level__rho="1/100"),
            stated("guarantee", record_level__rho=None),
            stated("guarantee", record_level__delta="0"),
            stated("guarantee", record_level__curve__0__delta="0"),
            stated("guarantee", record_level__curve=lambda points: points[1:]),
            stated("guarantee", user_level__delta="0"),
            stated("guarantee", definition__composition="nothing adds up"),
            planned("guarantee", "parameters.numerator", lambda number: number - 1),
            planned("guarantee", "parameters.numerator", lambda number: number + 1),
            planned("guarantee", "parameters.denominator", 2**40),
            planned("plan", "delta", "0"),
            planned("plan", "mechanism", "geometric"),
            (less_noise_at_its_price, "budget"),
            table_of_counts(lambda table: table[1:]),
            (without_measurements, "files"),
        ),
        not_for_verify_py=(noisy("data", turned),),
    ),
    Kind(
        "gaussian for two records",  # in two tables, by part, with record-level epsilon
        "microdata",
        COUNTIES
        | NOISE
        | {
            "release.mechanism": "gaussian",
            "privacy.guarantee": "dp",
            "jobs.records_per_worker": 2,
        },
        Choices("trct", 8, (), cell_level="trct", tables=(TRACT_AGES,)),
        certificate={"user_level.records": 2, "user_level.epsilon": "17.2", "policy.parts": 2},
        forgeries=(
            *ONE_POLICY,
            stated("guarantee", user_level__delta="0.00001"),
            stated("guarantee", user_level__statement="(epsilon, delta)-differential privacy for everybody"),
            planned("guarantee", "parameters.secondary.0.numerator", lambda number: number // 2),
            planned("plan", "parameters.secondary", []),
        ),
    ),
    Kind(
        "implicates by gaussian noise",  # a third of delta is no decimal
        "lodes",
        GAUSSIAN | implicates(3, epsilon="17.2"),
        certificate={"run.delta": "0.00001", "record_level.epsilon": "17.2"},
    ),
    *(
        Kind(
            name,  # in so many groups, at such an epsilon, that noise is seen
            "lodes",
            ONE_TABLE | {"privacy.epsilon": epsilon, "plan.pool_below": 1, "release.mechanism": mechanism},
            forgeries=(
                noisy("measurements", raised(2**62, 0, 1)),
                noisy("measurements", raised(-(10**8), 1)),
                noisy("measurements", raised(30, *range(6))),
                noisy("measurements", without_noise),
            ),
        )
        for name, mechanism, epsilon in (
            ("much noise", "geometric", "2"),
            ("much gaussian noise", "gaussian", "8.6"),
        )
    ),
    Kind(
        "workplaces",
        "workplaces",
        DIRICHLET,
        certificate={"population": "residents", "released_exactly": None},
        forgeries=(
            planned("guarantee", "configuration.workplaces.most", "3"),
            planned("guarantee", f"{CLASS}.n_min", lambda number: number + 1),
            planned("guarantee", f"{CLASS}.n_max", lambda number: number - 1),
            planned("plan", "configuration.workplaces", GONE),
            planned("guarantee", "configuration.workplaces", None),
            planned("plan", "configuration.workplaces.fewest", "0"),
            planned("plan", "configuration.workplaces.most", "0.5"),
            stated("guarantee", presence__run__epsilon="0.1"),
            stated("guarantee", presence__record_level__delta="0"),
            stated("guarantee", presence__user_level__epsilon="1"),
            stated("guarantee", presence__statement="nothing can be seen"),
            stated("guarantee", definition__neighbours="any two inputs"),
            stated("guarantee", definition__assumed_public=[]),
            stated("guarantee", presence=None),
            rows("data", "od", lambda table: table[1:]),
            planned("plan", "configuration.workplaces.more", "1"),
        ),
    ),
    Kind(
        "workplaces by noise",
        "workplaces",
        ONE_TABLE,
        certificate={"presence.run": {"epsilon": "4.3", "delta": "0"}, "run.epsilon": "8.6"},
    ),
    *(
        Kind(
            source,
            "lodes",
            implicates(3, source, "25.8"),
            certificate={"implicates.number": 3, "implicates.source": source, "requested.epsilon": "25.8"},
            forgeries=IMPLICATES,
            not_for_verify_py=((copied, "data"),),
        )
        for source in ("independent-runs", "one-urn")
    ),
    Kind(
        "implicates by noise",
        "lodes",
        GEOMETRIC | implicates(2, epsilon="4"),
        certificate={"run": {"epsilon": "4", "delta": "0"}},
    ),
    Kind(
        "counties",
        "microdata",
        COUNTIES | {"plan.pool_by": ["age"]},
        certificate={"policy.partition": "cty", "policy.parts": 2},
        forgeries=(
            *ONE_POLICY,
            stated("guarantee", released_exactly__numbers=lambda number: number - 1),
            stated("guarantee", released_exactly__attributes=[]),
            stated("guarantee", policy__partition="trct"),
            stated("guarantee", policy__name="parts st:0/cty:1"),
            stated("guarantee", policy__parts=3),
            stated("guarantee", policy__words="Nothing is public."),
            policy("plan", GONE),
            policy("plan", {"partition": "trct"}),
            (cut_elsewhere, "plan"),
            (moved_homes, "data"),
        ),
    ),
    Kind(
        "counties by noise",
        "microdata",
        COUNTIES | NOISE,
        Choices("trct", 8, (), cell_level="trct", tables=(TRACT_AGES,)),  # and some blocks share pools
        certificate={"policy.partition": "cty"},
    ),
    Kind(
        "counties and zones",
        "zones",
        COUNTIES | {"release.implicates": 2},
        certificate={"policy.partition": "cty", "policy.parts": 4},  # an external zone is a part of its own
    ),
    Kind(
        "near",
        "microdata",
        BLOCKS | distance("2"),
        Choices("trct", 8, (), cell_level="tabblk2010", tables=(measured("cty", "age"),)),
        certificate={"policy.distance_km": "2", "policy.most_steps": 4},
        forgeries=(
            *ONE_POLICY,
            stated("guarantee", policy__distance_km="3"),
            stated("guarantee", policy__name="distance 2:0"),
            stated("guarantee", policy__parts=1),
            stated("guarantee", policy__most_steps=2),
            stated("guarantee", policy__words=lambda text: text.replace("most 4 steps", "most 1 steps")),
            policy("guarantee", {"distance_km": "3"}),
            policy("plan", {"distance_km": "2.0"}),
            policy("guarantee", {"partition": "trct"}),
        ),
    ),
    Kind(
        "far",
        "microdata",
        BLOCKS | distance(20),
        Choices("trct", 8, (), cell_level="tabblk2010", tables=(TRACT_AGES,)),
        certificate={"policy.distance_km": "20", "policy.parts": 1},
    ),
    Kind("near zones", "zones", distance("1.5"), certificate={"policy.distance_km": "1.5"}),
    Kind(
        "secret",
        "microdata",
        secret(age=AGES),
        Choices("trct", 8, (), cell_level="trct", tables=(TRACT_AGES,), workplaces=OF_CATEGORIES),
        certificate={"policy.attributes": {"age": AGES}, "released_exactly.attributes": ["sector"]},
        forgeries=(
            *ONE_POLICY,
            planned("plan", "choices.workplaces", []),
            planned("guarantee", "choices.workplaces.1.numerator", lambda number: number - 10**15),
            measured_file("guarantee", "slots.parquet", fewer_jobs),
            measured_file("measurements", "slots.parquet", job_of_another_kind),
            measured_file("measurements", "groups.parquet", lambda table: table[1:]),
            stated("guarantee", policy__name="attribute age:0"),
            stated("guarantee", policy__attributes={"age": AGES[:2]}),
            stated("guarantee", policy__words=lambda text: text.replace("protected too", "public")),
            planned("guarantee", "configuration.attribute.0.categories", AGES[:2]),
            planned("plan", "configuration.attribute.0.categories", AGES[::-1]),
            *(
                planned("plan", "configuration.privacy.protects", protects)
                for protects in (["home", "sector"], ["home", "age", "sector"], "home")
            ),
            planned("guarantee", "configuration.privacy.protects", "record"),
            policy("plan", {"partition": "cty"}),
            rows("data", "jobs", other_age),
        ),
    ),
    Kind(
        "all secret",
        "microdata",
        secret(sector=SECTORS, age=AGES),
        Choices("trct", 8, (), cell_level="trct", workplaces=OF_CATEGORIES),
        certificate={"policy.attributes": {"sector": SECTORS, "age": AGES}},
    ),
    Kind(
        "records",
        "microdata",
        RECORDS,
        Choices("trct", 8, (), cell_level="trct", tables=(TRACT_AGES,), workplaces=OF_WORKPLACES),
        certificate={
            "protects": "record",
            "released_exactly": None,
            "run": {"epsilon": "8.6", "delta": "0"},
            "presence.run": {"epsilon": "4.3", "delta": "0"},
        },
        forgeries=(
            stated("guarantee", protects="home"),
            stated("guarantee", run__epsilon="4.3"),
            stated("guarantee", presence__run__epsilon="1"),
            stated("guarantee", presence=None),
            stated("guarantee", totals__records=lambda number: number + 1),
            stated("guarantee", definition__words=lambda words: words.replace("another workplace", "one")),
            stated("guarantee", classes__2__ratio=["1/2"]),
            planned("plan", "configuration.privacy.protects", "home"),
            planned("guarantee", "choices.workplaces.1.numerator", lambda number: number - 10**15),
            planned("plan", "choices.workplaces.0.by", ["age"]),
            planned("plan", "choices.workplaces", []),
            measured_file("guarantee", "slots.parquet", lambda table: table[1:]),
            measured_file("guarantee", "slots.parquet", fewer_jobs),
            measured_file("measurements", "slots.parquet", job_of_another_kind),
            (without_file("measurements/slots.parquet"), "plan"),
        ),
        not_for_verify_py=(
            measured_file("measurements", "workplaces-2.parquet", lambda table: table[1:]),
            measured_file("measurements", "workplaces-2.parquet", many_more),
            measured_file("measurements", "workplaces-1.parquet", many_more),
        ),
    ),
    Kind(
        "records with a table",
        "last year",
        RECORDS,
        Choices("trct", 8, (), cell_level="trct", workplaces=OF_WORKPLACES),
        certificate={"protects": "record", "released_exactly": None},
    ),
    Kind(
        "records with shares",
        "shares",
        NOISE | {"privacy.protects": "record", "privacy.epsilon": "2"},
        Choices("trct", 8, (), cell_level="trct", workplaces=OF_WORKPLACES),
        certificate={"protects": "record", "released_exactly": None},
        forgeries=(measured_file("guarantee", "slots.parquet", fewer_jobs),),
        not_for_verify_py=(
            planned("measurements", "configuration.attribute", lambda of: [{**a, "table": None} for a in of]),
        ),
    ),
    Kind(
        "records resampled",
        "microdata",
        RECORDS
        | RESAMPLED
        | {"release.mechanism": "dirichlet", "privacy.delta": "1e-4", "plan.pool_by": ["age"]},
        Choices("trct", 8, (), ("age",), "trct", workplaces=OF_WORKPLACES),
        certificate={"mechanism": "dirichlet", "protects": "record", "released_exactly": None},
        forgeries=(
            stated("guarantee", protects="home"),
            stated("guarantee", run__epsilon="4.3"),
            stated("guarantee", run__delta="0"),
            stated("guarantee", record_level__delta="0"),
            stated("guarantee", presence__run__epsilon="1"),
            stated("guarantee", presence=None),
            stated("guarantee", definition__composition=lambda words: words.replace("twice", "")),
            stated("guarantee", losses__noise_loss="0.1"),
            planned("plan", "configuration.privacy.protects", "home"),
            planned("guarantee", "choices.workplaces.1.numerator", lambda number: number - 10**15),
            planned("plan", "choices.workplaces", []),
            planned("plan", "parameters.most_pools", lambda number: number - 1),
            planned("plan", "parameters.most_pools", GONE),
            planned("guarantee", "parameters.classes", lambda classes: [*classes[:3], *classes[4:]]),
            planned("plan", "parameters.classes", lambda classes: classes[:3]),
            planned("guarantee", f"{CLASS}.n_min", lambda number: number + 1),
            planned("guarantee", f"{CLASS}.prior", lambda prior: [a // 2 for a in prior]),
            measured_file("guarantee", "slots.parquet", fewer_jobs),
            measured_file("measurements", "slots.parquet", job_of_another_kind),
            (without_file("measurements/slots.parquet"), "plan"),
        ),
        not_for_verify_py=(measured_file("measurements", "workplaces-2.parquet", many_more),),
    ),
    Kind(
        "records resampled with a table",
        "last year",
        RECORDS
        | RESAMPLED
        | {"release.mechanism": "dirichlet", "privacy.delta": "1e-4", "privacy.guarantee": "dp"},
        Choices("trct", 8, (), cell_level="trct", workplaces=OF_WORKPLACES),
        certificate={"protects": "record", "released_exactly": None, "record_level.epsilon": "8.6"},
    ),
    Kind(
        "secret resampled",
        "microdata",
        secret(NOISE | RESAMPLED, age=AGES) | {"release.mechanism": "dirichlet", "privacy.delta": "1e-4"},
        Choices("trct", 8, (), cell_level="trct", workplaces=OF_CATEGORIES),
        certificate={"policy.attributes": {"age": AGES}, "released_exactly.attributes": ["sector"]},
        forgeries=(
            *ONE_POLICY,
            planned("plan", "choices.workplaces", []),
            planned("plan", "parameters.most_pools", 5),
            measured_file("plan", "slots.parquet", fewer_jobs),
        ),
    ),
    Kind(
        "elsewhere",
        "elsewhere",
        BLOCKS,
        Choices("trct", 8, (), cell_level="tabblk2010", tables=(TRACT_AGES,)),
        certificate={"protects": "home"},
        forgeries=CLOSED_AREAS,
    ),
    Kind(
        "records elsewhere",
        "elsewhere",
        RECORDS,
        Choices("trct", 8, (), cell_level="trct", tables=(TRACT_AGES,), workplaces=OF_WORKPLACES),
        certificate={"protects": "record", "released_exactly": None},
        forgeries=(
            *CLOSED_AREAS,
            measured_file("plan", "groups.parquet", lambda table: table.drop_columns("age")),
            measured_file("plan", "groups.parquet", lambda table: moved_to(table, "work", "nowhere")),
            (without_file("measurements/groups.parquet"), "plan"),
        ),
        not_for_verify_py=(
            measured_file("measurements", "groups.parquet", fewer_jobs),
            measured_file("measurements", "groups.parquet", job_of_another_kind),
            measured_file("measurements", "groups.parquet", lambda table: table[1:]),
        ),
    ),
    Kind(
        "parquet alone",
        "microdata",
        {"release.csv": False},
        forgeries=(
            *(parts("data", missing(kind, number)) for kind in ("od", "jobs") for number in (0, 1, -1)),
            *(parts("data", in_another_order(kind)) for kind in ("od", "jobs")),
            *(parts("data", change) for change in (twice, changed_part, no_part, in_one_file)),
        ),
    ),
]
KIND = {kind.name: kind for kind in KINDS}

# --- settings that are refused: to what they are added, and what is said of them

DECLARE = 'or write population = "residents" in [jobs]'
BOTH = "leave one of the two out"
A_TABLE = {"workplaces": {"file": "w.csv"}}
KEEPS = 'plan.retention_min: the mechanism "geometric" keeps every cell; write retention_min = "1"'


OF_AN_AREA: Table = {"name": "trct", "table": {"file": "s.csv", "category": "trct", "count": "n"}}


def of_policy(value: object) -> Table:
    return {"privacy.policy": value}


REFUSED: list[tuple[str, Table, str]] = [
    # whose jobs
    ("lodes", {"jobs.population": None}, DECLARE),
    ("lodes", {"jobs.population": "all"}, DECLARE),
    ("microdata", {"jobs.population": "all"}, DECLARE),
    ("zones", {"jobs.population": "residents"}, BOTH),
    ("lodes", {"geography.external_zones": ["25"]}, BOTH),
    ("microdata", {"geography.external_zones": ["25"]}, BOTH),
    ("lodes", {"jobs.aux": "aux.csv"}, BOTH),
    ("lodes", {"jobs.population": "resident"}, "should be 'all' or 'residents'"),
    (
        "zones",
        {"jobs.aux": None},
        "geography.external_zones: the LODES main file has no workers who live in these zones",
    ),
    ("zones", {"geography.external_zones": None}, "jobs.aux: the aux file has workers who live outside"),
    ("zones", {"geography.external_zones": ["25", "25"]}, 'geography: "25" is named 2 times'),
    ("zones", {"geography.external_zones": "everywhere"}, "should be a list"),
    # whose totals
    ("workplaces", {"workplaces.count": "jobs"}, "workplaces.count: a table for LODES jobs"),
    ("workplaces", {"workplaces.fewest": "1.1"}, "workplaces.fewest"),
    ("workplaces", {"workplaces.most": "0.9"}, "workplaces.most"),
    ("workplaces", {"workplaces.least": "0.9"}, "unknown key; the keys here are file, count"),
    ("workplaces", TABLES | {"workplaces.fewest": "0.9"}, "takes any number of jobs"),
    ("workplaces", TABLES | {"workplaces.most": "1.1"}, "takes any number of jobs"),
    ("microdata", A_TABLE, "workplaces.count"),
    ("microdata", {"workplaces": {"file": "w.csv", "count": "toil"}}, "workplaces.count"),
    # discrete Gaussian noise
    (
        "lodes",
        GAUSSIAN | {"privacy.delta": "0"},
        'privacy.delta: the mechanism "gaussian" has no guarantee with a delta of 0; write a small number',
    ),
    (
        "workplaces",
        GAUSSIAN,
        'workplaces: the mechanism "gaussian" needs the exact number of jobs; leave this table out',
    ),
    (
        "microdata",
        RECORDS | {"release.mechanism": "gaussian"},
        'privacy.protects: the mechanism "gaussian" has bounds for homes alone; write protects = "home"',
    ),
    (
        "microdata",
        secret(age=AGES) | {"release.mechanism": "gaussian"},
        'privacy.protects: the mechanism "gaussian" has bounds for homes alone; write protects = "home"',
    ),
    (
        "lodes",
        GAUSSIAN | {"plan.prior": "1"},
        'plan.prior: the mechanism "gaussian" has no prior; leave this line out',
    ),
    # whole records
    (
        "lodes",
        GEOMETRIC | {"privacy.protects": "record"},
        "counts each attribute by itself, not whole records",
    ),
    ("microdata", {"privacy.protects": "worker"}, "cannot be protected"),
    (
        "microdata",
        RECORDS | {"attribute": RECORDS["attribute"][:1]},
        'the categories of "sector" may not be read',
    ),
    ("microdata", {"plan.expected_jobs": 5}, "plan.expected_jobs: the number of jobs is public and read"),
    (
        "last year",
        RECORDS | {"plan.expected_jobs": 5},
        "plan.expected_jobs: the number of jobs is read from [workplaces]",
    ),
    ("microdata", RECORDS | {"auxiliary": None}, "plan.expected_jobs: missing"),
    (
        "microdata",
        RECORDS | {"attribute": [{"name": "age", "categories": ["old", "old "]}, RECORDS["attribute"][1]]},
        'attribute.categories: "age": two categories are spellings of the same category',
    ),
    (
        "shares",
        {"attribute.1.table": None},
        "attribute #1.table: the attribute is public, so no prior uses this table",
    ),
    ("shares", OF_RECORDS | {"attribute.0.table.level": "ward"}, '"ward" is not a level of the geography'),
    ("shares", OF_RECORDS | {"attribute.0.table.level": None}, "level: missing beside area; name both"),
    ("shares", OF_RECORDS | {"attribute.0.table.area": None}, "area: missing beside level; name both"),
    ("shares", OF_RECORDS | {"attribute.0.table.area": "age"}, '"age" is named 2 times'),
    ("shares", OF_RECORDS | {"attribute.0.table.count": None}, "attribute #1.table.count: missing"),
    ("shares", OF_RECORDS | {"attribute.0.table.counts": "n"}, "did you mean count?"),
    ("shares", OF_RECORDS | {"plan.category": "n"}, "it belongs to [attribute.table]"),
    ("shares", OF_RECORDS | {"workplaces": {"file": "w.csv", "count": "n"}}, "w.csv of [workplaces] both"),
    ("shares", OF_RECORDS | {"attribute.2": OF_AN_AREA}, '"trct" is a kind of area, which has no table'),
    ("microdata", {"jobs.attributes": ["age", "noisy"]}, '"noisy" is the name of a column'),
    ("microdata", RECORDS | COUNTIES, "a policy of homes cannot protect a whole record"),
    ("microdata", RECORDS | {"release.implicates": 2}, "has one synthetic data set"),
    (
        "microdata",
        secret(age=AGES) | {"release.mechanism": "dirichlet", "plan.pool_by": ["age", "sector"]},
        'needs pools with a public number of jobs; leave "age" out',
    ),
    # how many implicates, by which mechanism
    *(("lodes", {"release.implicates": number}, "release.implicates") for number in (0, 100, "3", 2.5, True)),
    (
        "lodes",
        GEOMETRIC | implicates(2, "one-urn"),
        'release.implicate_source: the mechanism "geometric" has no urn',
    ),
    ("lodes", GEOMETRIC | {"plan.prior": "0.1"}, 'the mechanism "geometric" has no prior; leave this line'),
    ("lodes", GEOMETRIC | {"plan.retention_min": "0.5"}, KEEPS),
    ("lodes", GEOMETRIC | {"plan.preset": "onthemap"}, KEEPS),
    # policies
    ("lodes", of_policy("half"), '"half" is not a policy; write "full", or { partition = "cty" }'),
    ("lodes", of_policy({"partition": "cty", "distance": "3"}), "is not a policy"),
    ("lodes", of_policy({"partition": 3}), "is not a policy"),
    ("lodes", of_policy({"partition": "ward"}), '"ward" is not a level of the geography; use "st" or "cty"'),
    (
        "lodes",
        of_policy({"partition": "tabblk2010"}),
        "is the level of blocks, so every home would be public",
    ),
    ("strips", of_policy({"partition": "stplc"}), "is a column of non-nesting areas"),
    ("lodes", COUNTIES | A_TABLE, "does not tell in which part the homes of jobs are"),
    ("lodes", distance("0"), '"0" is not above 0; write a number above 0'),
    ("lodes", distance(-3), '"-3" is not above 0'),
    ("lodes", distance(1.5), '1.5 is a float; write it as text: "1.5"'),
    ("lodes", distance(True), "is not a number written as text"),
    ("lodes", distance("far"), '"far" is not a number'),
    ("lodes", distance(3) | A_TABLE, "does not cover this together with [workplaces]"),
    (
        "lodes",
        GEOMETRIC | {"privacy.protects": ["home", "age"]},
        "an origin-destination file counts each attribute by itself",
    ),
    ("microdata", NOISE | {"privacy.protects": ["home", "pay"]}, '"pay" is not an attribute of the jobs'),
    (
        "microdata",
        secret(age=AGES) | {"workplaces": {"file": "w.csv", "count": "n"}},
        "does not cover this together with [workplaces]",
    ),
    ("microdata", secret(age=["old"]), "list all that a job may have, at least two different texts"),
    ("microdata", secret(age=["old", "old"]), "at least two different texts"),
    ("microdata", secret(age=["old", "old "]), "two categories are spellings of the same category"),
    ("microdata", secret(age=["old", "\n"]), "is not allowed; write one line of text"),
    ("microdata", secret(), "cannot be protected; write"),
    (
        "microdata",
        NOISE | {"privacy.protects": ["home", "age"]},
        'categories of "age" may not be read from the jobs',
    ),
    ("microdata", {"privacy.protects": ["age"]}, '["age"] cannot be protected'),
    ("microdata", {"privacy.protects": ["home", "record"]}, "cannot be protected"),
    ("microdata", {"privacy.protects": "homes"}, '"homes" cannot be protected'),
    ("microdata", secret(age=AGES) | COUNTIES, "only where any home may replace any other"),
    ("microdata", of_policy({"attribute": "age"}), "is not a policy; write"),
    ("microdata", of_policy({"attribute": {"age": AGES}, "partition": "cty"}), "is not a policy"),
]


def blur(jobs: pd.DataFrame, table: Path) -> None:
    """Write a public table with other totals than the jobs: more, fewer, none, and one block more."""
    names = {group: [f"S{group}0{i}" for i in (1, 2, 3)] for group in "AEI"}
    totals = jobs.groupby("w_geocode", as_index=False)[["S000", *itertools.chain(*names.values())]].sum()
    factor = np.array([0.5, 0.9, 1.2, 1.6, 1.0])[np.arange(len(totals)) % 5]
    for group, columns in names.items():
        totals[columns] = np.floor(totals[columns].to_numpy() * factor[:, None] + 0.5).astype(int)
        if group != "A":  # the groups agree
            totals[columns[2]] += totals[names["A"]].sum(axis=1) - totals[columns].sum(axis=1)
            for column, next_column in ((columns[2], columns[1]), (columns[1], columns[0])):
                short = np.minimum(totals[column], 0)
                totals[column] -= short
                totals[next_column] += short
    totals["S000"] = totals[names["A"]].sum(axis=1)
    totals[totals["S000"] > 0].iloc[1:].to_csv(table, index=False)  # the first has no total at all
