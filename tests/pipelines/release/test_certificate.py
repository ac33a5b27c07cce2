"""The certificate: valid by its schema, rounded against the curator, honest about its use."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pydantic
import pytest
from flint import arb

import pipelines
import synth
from helpers import with_values
from pipelines import Certificate, Release, ReleaseConfig, ReleasePlan, make_plan
from pipelines.plans.form import plan_hash
from pipelines.release import certificate as certificate_form
from pipelines.release.certificate import (
    EpsilonDelta,
    RecordLevel,
    Requested,
    UserLevel,
    certificate_schema,
    guarantee_fields,
    make_certificate,
)
from pipelines.release.promises import odds_in_words
from pipelines.release.provenance import SourceState
from pipelines.running.payment import cost_of
from pipelines.running.run import certify
from synth.concentrated import LARGEST, probabilistic_epsilon_of
from synth.rationals import decimal_up
from synth.tails import PRECISION_BITS, exp_up, rigorous

Configs = Callable[..., ReleaseConfig]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def stored(small_release: Release) -> dict[str, Any]:
    text = (small_release.public / "certificate.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@pytest.fixture(scope="module")
def guarantee(small_release: Release) -> synth.Guarantee:
    return certify(small_release.plan)


def validate(document: object) -> None:
    jsonschema.validate(
        document,
        certificate_schema(),
        cls=jsonschema.Draft202012Validator,
        format_checker=jsonschema.FormatChecker(),
    )


# --- form


def test_schema_is_a_schema() -> None:
    schema = certificate_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_published_schema_is_the_programs() -> None:
    published = json.loads((ROOT / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
    assert published == certificate_schema()


def test_certificate_validates_and_carries_its_schema(small_release: Release, stored: dict[str, Any]) -> None:
    validate(stored)
    beside = json.loads((small_release.public / "certificate.schema.json").read_text(encoding="utf-8"))
    assert beside == certificate_schema()
    assert Certificate.model_validate(stored) == small_release.certificate


def test_other_forms_are_refused_by_schema_and_model(stored: dict[str, Any]) -> None:
    for path, value in [
        ("run.delta", "1e-5"),
        ("run.epsilon", 8.6),
        ("run.epsilon", "-1"),
        ("user_level.records", 0),
        ("plan_sha256", "abc"),
        ("arithmetic.rounding", "nearest"),
        ("for_release", "yes"),
        ("format", "odsynth certificate 1"),
        ("classes.0.prior", ["0.5"]),
        ("extra", 1),
        ("totals.secret_records", 1),
        ("release.state", "/somewhere/else"),
        ("release.state", ""),
        ("release.job_type", "../JT00"),
        ("release.year", 12019),
        ("release.name", "two\nlines"),
    ]:
        changed = with_values(stored, {path: value})
        assert changed != stored
        with pytest.raises(jsonschema.ValidationError):
            validate(changed)
        with pytest.raises(pydantic.ValidationError):
            Certificate.model_validate_json(json.dumps(changed))


def test_no_field_may_be_left_out(stored: dict[str, Any]) -> None:
    validate(with_values(stored, {"commitment": None}))  # as before there were any
    for field in [*Certificate.model_fields.keys() - {"commitment"}]:
        with pytest.raises(jsonschema.ValidationError, match=field):
            validate(with_values(stored, {field: None}))


# --- numbers


def rounded_up(text: str, value: Fraction) -> bool:
    """Whether a decimal text is at least the value, and above it by less than one part in 10^11."""
    return value <= Fraction(text) <= value * (1 + Fraction(1, 10**11))


def test_bounds_are_rounded_up_and_never_printed_as_zero(
    small_release: Release, guarantee: synth.Guarantee
) -> None:
    certificate = small_release.certificate
    pairs = [
        (certificate.run.epsilon, guarantee.epsilon),
        (certificate.run.delta, guarantee.delta),
        (certificate.record_level.epsilon, guarantee.record_epsilon),
        (certificate.record_level.delta, guarantee.record_delta),
    ]
    assert len(certificate.classes) == len(guarantee.classes) > 1
    for row, exact in zip(certificate.classes, guarantee.classes, strict=True):
        pairs += [
            (row.block_loss_U, exact.block_loss),
            (row.pruning_loss_V, exact.pruning_loss),
            (row.epsilon, exact.epsilon),
            (row.delta, exact.delta),
            (row.record_delta, exact.record_delta),
        ]
    assert len(certificate.record_level.curve) == len(guarantee.curve) > 1
    for point, (epsilon, delta) in zip(certificate.record_level.curve, guarantee.curve, strict=True):
        pairs += [(point.epsilon, epsilon), (point.delta, delta)]
    for text, value in pairs:
        assert rounded_up(text, value)
        assert (Fraction(text) == 0) == (value == 0)
    assert guarantee.delta > 0
    assert max(row.delta for row in guarantee.classes) > 0


def test_tiny_bounds_are_not_printed_as_zero(small_release: Release, guarantee: synth.Guarantee) -> None:
    tiny = Fraction(1, 3 * 10**400)
    classes = tuple(replace(c, delta=tiny, record_delta=tiny) for c in guarantee.classes)
    less = replace(
        guarantee, delta=tiny, record_delta=tiny, curve=((guarantee.epsilon, tiny),), classes=classes
    )
    fields = guarantee_fields(small_release.plan, less)
    texts = [fields[name].delta for name in ("run", "record_level", "user_level")]
    texts += [row.delta for row in (*fields["record_level"].curve, *fields["classes"])]
    assert all(Fraction(text) >= tiny for text in texts)
    assert all(Fraction(text) < 2 * tiny for text in texts)


def test_costs_stay_within_the_request(small_release: Release) -> None:
    certificate = small_release.certificate
    assert (certificate.requested.epsilon, certificate.requested.delta) == ("8.6", "0.00001")
    assert Fraction(certificate.run.epsilon) <= Fraction("8.6")
    assert 0 < Fraction(certificate.run.delta) <= Fraction("1e-5")


def test_the_curve_ends_in_pure_differential_privacy(small_release: Release) -> None:
    curve = small_release.certificate.record_level.curve
    epsilons = [Fraction(point.epsilon) for point in curve]
    deltas = [Fraction(point.delta) for point in curve]
    assert epsilons == sorted(set(epsilons))
    assert deltas == sorted(deltas, reverse=True)
    assert curve[-1].delta == "0"
    assert all(delta > 0 for delta in deltas[:-1])


def test_a_guarantee_for_one_record_can_be_asked_for(small_config: Configs, clean_source: object) -> None:
    release = pipelines.run(small_config({"privacy.guarantee": "dp"}))
    certificate = release.certificate
    assert certificate.requested.guarantee == "dp"
    assert Fraction(certificate.record_level.epsilon) <= Fraction("8.6")
    assert Fraction(certificate.record_level.delta) <= Fraction("1e-5")
    # The whole run is not protected as well as one record, and the certificate does not pretend it is.
    assert Fraction(certificate.run.delta) > Fraction(certificate.record_level.delta)
    assert list(pipelines.verify(release.public))
    readme = " ".join((release.public / "README.md").read_text(encoding="utf-8").split())
    assert readme.count(f", except with probability {certificate.run.delta}.") == 2


def test_classes_add_up_to_the_run(small_release: Release, guarantee: synth.Guarantee) -> None:
    certificate, plan = small_release.certificate, small_release.plan.numeric
    totals = certificate.totals
    assert sum(row.pools for row in certificate.classes) == totals.pools == plan.pools.n_pools
    assert totals.records == totals.synthetic_workers == 600
    assert totals.cells == plan.domains.cuts.size
    assert totals.domains == plan.domains.n_domains
    exact = sum((row.pools * row.delta for row in guarantee.classes), Fraction(0))
    assert exact <= guarantee.delta
    assert exact <= Fraction(certificate.run.delta)
    assert Fraction(certificate.run.epsilon) == max(Fraction(row.epsilon) for row in certificate.classes)
    assert Fraction(certificate.losses.block_loss_U) == max(
        Fraction(r.block_loss_U) for r in certificate.classes
    )
    assert Fraction(certificate.losses.pruning_loss_V) == max(
        Fraction(r.pruning_loss_V) for r in certificate.classes
    )


def test_class_rows_bound_their_pools(small_release: Release) -> None:
    """Each pool lies inside its row's limits, so a reader can check which bound is its own."""
    plan = small_release.plan.numeric
    for number, row in enumerate(small_release.certificate.classes):
        members = plan.pool_class == number
        n, m = plan.pools.n[members], plan.pools.m[members]
        assert members.sum() == row.pools
        assert (row.n_min, row.n_max) == (n.min(), n.max())
        assert row.m_max == m.max()
        counts = plan.domains.strata_counts[plan.pools.domain[members]]
        assert row.cells[: counts.shape[1]] == counts.max(axis=0).tolist()
        # delta is shared by size: n of N records, n/N of the run's delta.
        assert Fraction(row.delta) <= Fraction("1e-5") * int(row.n_min) / 600 * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("records", [1, 2, 3])
def test_a_person_with_several_records_has_group_privacy(
    records: int, small_config: Configs, microdata_jobs: Callable[..., object]
) -> None:
    plan = make_plan(small_config(microdata_jobs("csv", records_per_worker=records)))
    guarantee = certify(plan)
    user = guarantee_fields(plan, guarantee)["user_level"]
    assert user.records == records
    assert f"at most {records} job record(s)" in user.statement
    assert rounded_up(user.epsilon, records * guarantee.record_epsilon)
    # delta (1 + e^eps + e^(2 eps)), e^eps from above: between e^eps with a lower and an upper rational.
    with rigorous(400):
        base = guarantee.record_epsilon
        epsilon = arb(base.numerator) / arb(base.denominator)
        times = sum(((epsilon * i).exp() for i in range(records)), arb(0))
        exact = times * arb(guarantee.record_delta.numerator) / arb(guarantee.record_delta.denominator)
        if exact > 1:
            assert user.delta == "1"
            return
        printed = Fraction(user.delta)
        ball = arb(printed.numerator) / arb(printed.denominator)
        assert ball >= exact
        assert ball <= exact * (1 + arb(10) ** -10)


def test_lodes_jobs_are_one_record_a_person(small_release: Release) -> None:
    assert small_release.certificate.user_level.records == 1


# --- what it may be used for


def certificate_of(release: ReleasePlan, *, secure: bool = True) -> Certificate:
    return make_certificate(release, certify(release), "0" * 64, secure=secure)


SEEDED = "the run was seeded: its randomness is not secret"
UNKNOWN, DIFFERS = "the commit of the program is unknown", "the program differs from its commit"


def test_reasons_against_release(small_release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    for commit, modified, secure, reasons in (
        ("a" * 40, False, True, []),
        ("a" * 40, False, False, [SEEDED]),
        ("a" * 40, True, True, [DIFFERS]),
        ("a" * 40, None, True, [DIFFERS]),
        (None, None, True, [UNKNOWN]),
        (None, True, False, [SEEDED, UNKNOWN, DIFFERS]),
    ):
        state = SourceState("1", commit, modified)
        monkeypatch.setattr(certificate_form, "source_state", lambda state=state: state)
        certificate = certificate_of(small_release.plan, secure=secure)
        assert certificate.not_for_release_because == reasons
        assert certificate.for_release == (not reasons)
        assert certificate.randomness.secure == secure
        assert (certificate.software.commit, certificate.software.modified) == (commit, modified)


def test_what_it_says_in_words(small_release: Release) -> None:
    certificate = small_release.certificate
    definition = certificate.definition
    assert "probability at most delta" in definition.words
    assert "P(B | h) <= delta" in definition.symbols
    assert "replace one" in definition.neighbours
    assert any("workplace totals" in line for line in definition.assumed_public)
    assert any("other releases" in line for line in definition.not_covered)
    assert certificate.software.dependencies.keys() >= {"python", "numpy", "python-flint", "cryptography"}
    assert certificate.plan_sha256 == plan_hash(small_release.public / "plan")
    assert certificate.arithmetic.precision_bits == PRECISION_BITS


# --- the odds, in the words of the read-me, the map and the service


def odds_of(
    certificate: Certificate, epsilon: str, delta: str, records: int
) -> list[tuple[Fraction, Fraction]]:
    """Return the odds, and the probability with which they may be exceeded, for a record and for a worker."""
    user = certificate.user_level.model_copy(update={"records": records})
    run = EpsilonDelta(epsilon=epsilon, delta=delta)
    words = odds_in_words(certificate.model_copy(update={"run": run, "user_level": user})).replace("\n", " ")
    assert ("job records equally" in words) == (records > 1)
    said = re.findall(r"at most about ([\d.,]+\d)\b.*?(?:probability ([\d.]+\d))?\.(?= |$)", words)
    return [(Fraction(odds.replace(",", "")), Fraction(failure or 0)) for odds, failure in said]


def test_the_odds_hold_for_a_worker_with_several_jobs(small_release: Release) -> None:
    """One pool of two jobs and two cells of prior 1/2, both jobs of one worker: 35/3, with e^epsilon = 5."""

    def likelihood(h: int) -> Fraction:  # of both draws from the cell of h workers
        return (h + Fraction(1, 2)) * (h + Fraction(3, 2)) / ((2 + 1) * (2 + 2))

    assert likelihood(2) / likelihood(1) <= likelihood(1) / likelihood(0) == 5
    record, worker = odds_of(small_release.certificate, "1.60943791244", "0", 2)
    assert record[0] >= 5
    assert worker[0] >= likelihood(2) / likelihood(0) == Fraction(35, 3)
    assert record[1] == worker[1] == 0


def test_the_odds_name_their_exception(small_release: Release) -> None:
    certificate = small_release.certificate
    e = exp_up(Fraction("8.6"))
    record, worker = odds_of(certificate, "8.6", "0.00001", 1)
    assert record == worker
    assert (record[0] >= e, record[1]) == (True, Fraction("1e-5"))
    worker = odds_of(certificate, "8.6", "0.00001", 2)[1]
    assert worker[0] >= e**2
    assert Fraction("0.054") < Fraction("1e-5") * (1 + e) <= worker[1] < Fraction("0.055")
    # Of three records delta would be 1 and promise nothing; their pure differential privacy is left.
    worker = odds_of(certificate, "8.6", "0.00001", 3)[1]
    assert worker[0] >= exp_up(3 * Fraction(certificate.record_level.curve[-1].epsilon)) > e**3
    assert worker[1] == 0


@pytest.mark.parametrize("rho", [Fraction(1, 2), Fraction(100), None])
def test_odds_that_nobody_can_print_are_a_power_of_ten(small_release: Release, rho: Fraction | None) -> None:
    """A paid run could not write its read-me: Python prints no number of 4,300 digits."""
    certificate, records = small_release.certificate, 1000
    text = None if rho is None else str(rho)
    level = certificate.record_level.model_copy(
        update={"rho": text, "curve": certificate.record_level.curve[:1]}
    )
    certificate = certificate.model_copy(update={"record_level": level})
    user = certificate.user_level.model_copy(update={"records": records})
    run = EpsilonDelta(epsilon="20", delta="0.00001")
    words = odds_in_words(certificate.model_copy(update={"run": run, "user_level": user}))
    power, failure = re.findall(
        r"at most about 10\^(\d+)\s+to\s+1.*?(?:probability\s+([\d.]*\d))?\.\s*$", words, re.DOTALL
    )[0]
    # Lemma 48 of the square of so many records; beyond 10^6, and without rho, Lemma 14.
    by_rho = rho is not None and records**2 * rho <= LARGEST
    epsilon = probabilistic_epsilon_of(records**2 * rho, Fraction("1e-5")) if by_rho and rho else 20 * records
    assert epsilon <= int(power) * Fraction("2.302586") <= epsilon * Fraction("1.001")
    assert failure == ("0.00001" if by_rho else "1")


# --- the pairs that hold at the same time


def pairs_of(guarantee: synth.Guarantee) -> list[tuple[Fraction, Fraction]]:
    return [(guarantee.epsilon, guarantee.delta), (guarantee.record_epsilon, guarantee.record_delta)]


def test_no_epsilon_is_above_the_pure_one() -> None:
    """Many plans of small pools, for both guarantees."""
    domains = synth.Domains(
        6, np.array([0, 2, 5]), np.array([0, 3, 0, 1, 4], np.int32), np.zeros(5, np.uint8)
    )
    sharper = 0
    for name in ("dirichlet", "geometric"):
        for n, epsilon, delta, f, kind in itertools.product(
            (1, 2, 6, 25), ("1", "3", "9"), ("0", "1e-4", "1e-1"), ("1", "1/2"), ("pdp", "dp")
        ):
            pools = synth.Pools(np.array([n, n + 1]), np.array([n, n + 1]), np.array([0, 1], np.int32))
            try:
                plan = synth.MECHANISMS[name].calibrate(
                    pools,
                    domains,
                    (Fraction(f),),
                    synth.Target(Fraction(epsilon), Fraction(delta), guarantee=kind),
                )
            except ValueError:
                continue
            found = plan_guarantee(name, plan)
            tight = found.tightened()
            pure, last = tight.curve[-1]
            assert last == 0
            for (e, d), (old_e, old_d) in zip(pairs_of(tight), pairs_of(found), strict=True):
                assert e <= pure
                assert (e, d) == (old_e, old_d) or ((e, d) == (pure, 0) and old_e >= pure)
            assert (tight.record_epsilon, tight.record_delta) in tight.curve
            assert [e for e, _ in tight.curve] == sorted({e for e, _ in tight.curve})
            assert tight.meets(plan)
            three = tight.repeated(3)
            assert max(e for e, _ in pairs_of(three)) <= three.curve[-1][0] == 3 * pure
            assert (three.record_epsilon, three.record_delta) in three.curve
            for records in (1, 2):
                paid = debit_for(tight, plan, records)
                most = min(records * synth.exact(decimal_up(each)) for each in (pure, plan.target.epsilon))
                assert paid[0] <= synth.exact(decimal_up(most))
                if kind == "dp" or records > 1:  # no pair with such a delta is better but for rounding
                    for e, d in pairs_of(tight):
                        assert d > plan.target.delta or paid[0] <= records * e * (1 + Fraction(1, 10**5))
            sharper += found.epsilon > pure or (found.epsilon == pure and found.delta > 0)
    assert sharper > 10, "the rule has something to do"


def debit_for(guarantee: synth.Guarantee, plan: synth.Plan, records: int) -> tuple[Fraction, Fraction]:
    """What a ledger would be debited for a release of this plan alone."""

    def pair(epsilon: Fraction, delta: Fraction) -> dict[str, str]:
        return {"epsilon": decimal_up(epsilon), "delta": decimal_up(delta)}

    record = guarantee.record_epsilon, guarantee.record_delta
    user = pair(*synth.group_privacy(*record, records))
    paid = cost_of(
        Requested(guarantee=plan.target.guarantee, words="", **pair(plan.target.epsilon, plan.target.delta)),
        EpsilonDelta(**pair(guarantee.epsilon, guarantee.delta)),
        RecordLevel(**pair(*record), curve=[], rho=None),
        UserLevel(**user, records=records, statement=""),
    )
    return paid.price[:2]


def plan_guarantee(name: str, plan: synth.Plan) -> synth.Guarantee:
    return synth.MECHANISMS[name].certify(plan)


def test_a_certificate_has_the_requested_pair_on_its_curve(
    small_config: Configs, clean_source: object
) -> None:
    certificate = pipelines.run(small_config({"privacy.guarantee": "dp"})).certificate
    record = certificate.record_level
    assert (record.epsilon, record.delta) in [(point.epsilon, point.delta) for point in record.curve]
    assert Fraction(certificate.run.epsilon) <= Fraction(record.curve[-1].epsilon)
