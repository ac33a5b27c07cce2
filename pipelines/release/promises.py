"""What a certificate promises, in plain words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from pipelines.release.certificate import AttributeField, Certificate
from synth import decimal_up, group_privacy
from synth.tails import exp_up


def short_bound(bound: str) -> str:
    """Return a bound of a certificate rounded up to four digits."""
    return decimal_up(Fraction(bound), 4)


def presence_in_words(certificate: Certificate) -> str:
    """Say what a release with public workplaces promises of one record's being there at all; else nothing."""
    level = certificate.presence
    if level is None:
        return ""
    return (
        "For one job record more or less, at any work block, epsilon is "
        f"{level.run.epsilon} and delta {level.run.delta}; for all records\nof one person, as differential "
        f"privacy, epsilon is {level.user_level.epsilon} and delta {level.user_level.delta}."
    )


def odds_in_words(certificate: Certificate) -> str:
    """Say how much a release can tell about one home, in the same words wherever they stand.

    The first sentence is of one job record; the second of one worker, with as many records as the certificate
    covers.
    """
    run, records = certificate.run, certificate.user_level.records
    several = f" with up to {records} job records" if records > 1 else ""
    inside, both = (
        (" inside the geography", " (both inside the geography)") if certificate.population else ("", "")
    )
    if policy := certificate.policy:
        other = f" {policy.of_another_home}"
        inside = f"{inside}{other}" if isinstance(policy, AttributeField) else f"{other}{inside}"
        inside_too = "; both inside the geography" if both and isinstance(policy, AttributeField) else ""
        both = f" ({policy.of_two_homes}{inside_too})"
    odds, exception = _odds(Fraction(run.epsilon), Fraction(run.delta))
    together = group_privacy(Fraction(run.epsilon), Fraction(run.delta), records)
    if together[1] == 1:  # it promises nothing; pure differential privacy always promises something
        together = records * Fraction(certificate.record_level.curve[-1].epsilon), Fraction(0)
    worker_odds, worker_exception = _odds(*together)
    return (
        f"Whatever can be seen in this release is at most about {odds} times more or less likely than it "
        f"would be if\nany one job record had another home{inside}{exception}. Someone who knows everything "
        f"about\neverybody else and thought two homes{both} of a\nworker{several} equally likely can, after "
        f"seeing everything here, be at most about {worker_odds} to 1 sure of one of them{worker_exception}."
    )


def _odds(epsilon: Fraction, delta: Fraction) -> tuple[str, str]:
    """Return e^epsilon, rounded up, and what is said of delta."""
    odds = Decimal(decimal_up(exp_up(epsilon), 3))
    exception = f", except with probability {decimal_up(delta)}" if delta else ""
    return f"{odds:,}" if odds >= 10_000 else str(odds), exception
