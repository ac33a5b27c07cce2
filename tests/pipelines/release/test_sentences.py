"""verify.py knows every sentence of a certificate, and no other: a forged one would be read as a promise."""

from __future__ import annotations

import hashlib
import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import synth
from pipelines.config.implicates import Implicates
from pipelines.config.languages import LANGUAGES
from pipelines.release import certificate as certificates
from pipelines.release import verify as verify_alone
from pipelines.release.pages import render

LEVEL, KM, BLOCKS = "cty", "2", ["1", "2"]
SECRET = {"earnings": ("low", "high")}


def policies() -> list[certificates.PolicyField | None]:
    parts = np.array([0, 1], np.int32)
    return [
        None,
        certificates._partition_field(synth.Policy("parts x", parts), LEVEL),
        certificates._distance_field(synth.Policy("distance x", parts, parts), KM),
        certificates._distance_field(synth.Policy("distance x", parts[:1], parts[::-1] * 0 + 1), KM),
        certificates._attribute_field(synth.Policy("attribute x", parts[:1], secret=SECRET)),
    ]


def as_plan(policy: certificates.PolicyField | None) -> SimpleNamespace:
    """Return what verify.py needs of a plan to know which sentences are due."""
    distance = isinstance(policy, certificates.DistanceField)
    return SimpleNamespace(
        near=SimpleNamespace(km=KM, steps=policy.most_steps) if distance else None,
        secret=SECRET if isinstance(policy, certificates.AttributeField) else {},
        level=LEVEL if isinstance(policy, certificates.PartitionField) else None,
        parts=range(policy.parts) if policy else [0],
        codes=BLOCKS,
        zones=[],
        tables={"blocks": {LEVEL: BLOCKS, "latitude": [0.0, 0.0], "longitude": [0.0, 0.0]}},
        document={"geography": {"levels": [LEVEL]}},
    )


def test_its_digests_are_those_of_todays_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a sentence changes, this fails and shows the digests that WORDS in verify.py must have."""
    met = dict[str, None]()

    class Met:
        def __contains__(self, digest: str) -> bool:
            met[digest] = None
            return True

    due = verify_alone.WORDS.split()
    monkeypatch.setattr(verify_alone, "WORDS", SimpleNamespace(split=Met))
    worded = verify_alone.worded
    for policy, mechanism, residents, protected in itertools.product(
        policies(), synth.MECHANISMS.values(), (None, "residents"), (False, True, "record")
    ):
        secret = isinstance(policy, certificates.AttributeField)
        if (policy and protected) or ((secret or protected) and "workplaces" not in mechanism.settings):
            continue  # which no plan is
        sentences, letters = verify_alone.policy_of(as_plan(policy))  # type: ignore[arg-type]
        case = policy and policy.kind, mechanism.name, protected, residents
        definition = certificates.define(
            mechanism, residents, policy, protected=bool(protected), record=protected == "record"
        )
        assert worded("definition", *case, **letters)(definition.model_dump(mode="json"))
        if policy and sentences:
            assert sentences["words"](policy.words)
            assert sentences["symbols"](policy.symbols)
    for language, policy in itertools.product(LANGUAGES, policies()):
        if policy is None:
            continue
        _, letters = verify_alone.policy_of(as_plan(policy), language)  # type: ignore[arg-type]
        secret = certificates.secret_in_words(policy, language)
        paragraph = " ".join(render("policy.j2", language, policy=policy, secret=secret).split())
        assert worded("README.md", language, "policy", policy.kind, **letters)(paragraph)
    for language, protected in itertools.product(LANGUAGES, (False, True)):
        words = certificates.population_in_words("residents", protected=protected, language=language)
        assert worded("README.md", language, "population", protected)(words)
    records = {"N": r"\b3(?= [a-z])"}
    level = certificates._presence_level(synth.Presence(*[Fraction(1, 2)] * 4), 3)
    assert worded("user_level", **records)(certificates._USER_STATEMENT.format(records=3))
    assert worded("user_level of rho", **records)(certificates._USER_STATEMENT_OF_RHO.format(records=3))
    assert worded("presence", **records)(level.statement)
    for implicates in (Implicates(), Implicates(3), Implicates(3, "one-urn")):
        assert worded(implicates.source if implicates.number > 1 else "one", **records)(implicates.words)
    for kind, words in certificates._REQUESTED.items():
        assert worded(kind)(words)
    assert worded("tier")(certificates._TIER_WORDS)
    assert worded("arithmetic")(certificates._ARITHMETIC.model_dump(mode="json"))
    assert sorted(met) == sorted(due), "WORDS must be " + " ".join(sorted(met))
    assert hashlib.sha256(certificates.schema_text().encode()).hexdigest() == verify_alone.SCHEMA
