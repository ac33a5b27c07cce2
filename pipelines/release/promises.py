"""What a certificate promises about one home or record, in odds; the sentences are in `templates`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipelines.config.languages import ENGLISH
from pipelines.release.certificate import Certificate, population_in_words, secret_in_words
from pipelines.release.pages import points, render
from synth import decimal_up, group_privacy
from synth.concentrated import LARGEST, probabilistic_epsilon_of, rho_of_group
from synth.tails import exp_up


@dataclass(frozen=True)
class Odds:
    """Factors and odds, rounded up, with the probability of an exception; "" where there is none."""

    record: str
    record_delta: str
    worker: str
    worker_delta: str


def short_bound(bound: str) -> str:
    """Return a bound of a certificate rounded up to four digits."""
    return decimal_up(Fraction(bound), 4)


def promised(certificate: Certificate, language: str = ENGLISH) -> dict[str, Any]:
    """Return the context of every page that says what a certificate promises, in a language."""
    epsilon, delta = Fraction(certificate.run.epsilon), Fraction(certificate.run.delta)
    policy = certificate.policy
    return {
        "certificate": certificate,
        "odds": Odds(*_odds(epsilon, delta), *_odds(*_of_person(certificate))),
        "records": certificate.user_level.records,
        "presence": certificate.presence,
        "protected": certificate.presence is not None,
        "record": certificate.protects == "record",
        "policy": policy,
        "tier": certificate.tier,
        "exact": certificate.released_exactly,
        "secret": secret_in_words(policy, language),
        "residents": population_in_words(
            certificate.population, protected=certificate.presence is not None, language=language
        ),
    }


def odds_in_words(certificate: Certificate, language: str = ENGLISH) -> str:
    """Say how much a release can tell about one home, in the same words wherever they stand."""
    return render("odds.md.j2", language, **promised(certificate, language)).rstrip()


def exact_in_words(certificate: Certificate, language: str = ENGLISH) -> str:
    """Say what a release shows of job records without noise."""
    return render("exact.md.j2", language, **promised(certificate, language)).rstrip()


def presence_in_words(certificate: Certificate, language: str = ENGLISH) -> str:
    """Say what a release with public workplaces promises of one record's being there at all; else nothing."""
    if certificate.presence is None:
        return ""
    return render("presence.md.j2", language, **promised(certificate, language)).rstrip()


def policy_in_words(certificate: Certificate, language: str = ENGLISH) -> str:
    """Say who may tell what about whom under another policy than "full"; else nothing."""
    if certificate.policy is None:
        return ""
    if language == ENGLISH:
        return certificate.policy.words
    return " ".join(render("policy.j2", language, **promised(certificate, language)).split())


def limits_in_words(certificate: Certificate, language: str = ENGLISH) -> tuple[list[str], list[str]]:
    """Return the points that a certificate does not cover, and those that it takes to be public."""
    if language == ENGLISH:
        return certificate.definition.not_covered, certificate.definition.assumed_public
    context = promised(certificate, language)
    not_covered, assumed_public = (
        points(render(name, language, **context)) for name in ("not_covered.j2", "assumed_public.j2")
    )
    return not_covered, assumed_public


def _of_person(certificate: Certificate) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of all records of one person, for two given inputs."""
    epsilon, delta = Fraction(certificate.run.epsilon), Fraction(certificate.run.delta)
    records, level = certificate.user_level.records, certificate.record_level
    rho = rho_of_group(Fraction(level.rho or 0), records)
    if records > 1 and 0 < rho <= LARGEST:  # this costs no union over all neighbours
        return probabilistic_epsilon_of(rho, delta), delta
    together, last = group_privacy(epsilon, delta, records), level.curve[-1]
    if together[1] == 1 and last.delta == "0":  # pure differential privacy always promises something
        return records * Fraction(last.epsilon), Fraction(0)
    return together


def _odds(epsilon: Fraction, delta: Fraction) -> tuple[str, str]:
    """Return e^epsilon and delta, rounded up.

    Beyond e^100 a power of ten: Python prints no number of 4,300 digits, and nobody reads one of 40.
    """
    stated = decimal_up(delta) if delta else ""
    if epsilon > 100:
        return f"10^{math.ceil(epsilon / Fraction('2.3025'))}", stated  # which is less than ln 10
    odds = Decimal(decimal_up(exp_up(epsilon), 3))
    return f"{odds:,}" if odds >= 10_000 else str(odds), stated
