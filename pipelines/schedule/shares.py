"""Shares: what each of the releases that a calendar announces asks for, and by which noise it loses less.

A budget in epsilon is shared as epsilon, by plain sums; for one release, or few, geometric noise is then the
smaller. A budget in rho is shared as rho; many releases add up better so, and discrete Gaussian noise costs
less of it than geometric noise of the same size. Which account limits is stated in the ledger before the
first release: that a release may take the better of two is no guarantee (docs/privacy.md, after Lemma 53).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import PrivacySettings
from synth.composition import record_share
from synth.concentrated import epsilon_of, pure_within, rho_within
from synth.gaussian.composition import gaussian_epsilon_of, gaussian_rho_within
from synth.gaussian.parameters import GaussianParameters
from synth.geometric.mechanism import calibrated_noise
from synth.rationals import MAX_EPSILON, decimal_down, decimal_up, exact

_LEAST_EPSILON = Fraction(1, 10**6)  # of noise that is only compared: with less, floats say nothing of it


class Share(NamedTuple):
    """What one of several releases asks for."""

    privacy: PrivacySettings
    mechanism: str | None  # None leaves it to the planner
    note: str = ""  # what of [privacy] and the mechanism the calendar chose, and why


def share_of(config: ReleaseConfig, releases: int) -> Share:
    """Return what each of so many releases asks for, which share the budget over all periods equally.

    Raises ValueError if no budget is stated.
    """
    total = None if config.ledger is None else config.ledger.over_all_periods
    if total is None:
        keys = "epsilon or rho and without period, or with total_epsilon or total_rho, and total_delta"
        raise ValueError(f"there is no budget over all periods to share; add [ledger] with {keys}")
    mechanism, records = config.release.mechanism, config.jobs.records_per_worker
    # A certificate rounds up to as many digits, so that no debit is above its share.
    epsilon, delta, rho = (None if x is None else exact(decimal_down(x / releases)) for x in total)
    of_person = pure_within(rho or Fraction(0)) if epsilon is None else epsilon
    of_record = record_share(of_person, delta or Fraction(0), records)
    asked = config.privacy.model_copy(update=dict(zip(("epsilon", "delta"), of_record, strict=True)))
    if epsilon is not None or rho is None or mechanism not in (None, "gaussian"):
        return Share(asked, mechanism)
    geometric, gaussian = _geometric(of_record[0]), _gaussian(rho / records**2)
    if not config.allows("gaussian") or (mechanism is None and geometric <= gaussian):
        return Share(asked, mechanism)
    with_rho = exact(decimal_down(epsilon_of(rho / records**2, config.privacy.delta)))
    changes = {"epsilon": min(with_rho, Fraction(MAX_EPSILON)), "guarantee": "dp"}
    why = (
        f"with one table measured once, discrete Gaussian noise has a variance of {gaussian:.3g} on a count, "
        f"geometric noise {geometric:.3g}, so the calendar asks for Gaussian noise; "
    )
    note = (
        f"one of {releases} releases that share a budget in rho: within its share, rho "
        f"{decimal_down(rho, 6)}, {'' if mechanism else why}the epsilon of a record is that of this rho, "
        'whatever [privacy] says, and guarantee is "dp"'
    )
    return Share(config.privacy.model_copy(update=changes), "gaussian", note)


def noise_in_words(config: ReleaseConfig, releases: int, delta: Fraction) -> str:
    """Say which noise is smaller where so many releases share a budget, and which account that needs.

    `delta` is that at which a budget in rho is told as an epsilon. Empty if no budget is stated.
    """
    total = None if config.ledger is None else config.ledger.over_all_periods
    if total is None:
        return ""
    epsilon, own_delta, rho = total
    if epsilon is not None and rho is not None:
        return "the budget limits both accounts, and releases must fit in both: noise is not compared"
    records, rest = config.jobs.records_per_worker, own_delta if rho is None else delta - own_delta
    if not config.allows("gaussian") or (rho is None and rest == 0):
        return (
            "discrete Gaussian noise is no choice here: it needs a delta above 0, homes alone protected, and "
            "no setting that only resampling has"
        )
    if rest <= 0:
        return (
            f"a budget in rho with a delta of {decimal_up(own_delta)} beside it has no epsilon at delta "
            f"{decimal_up(delta)}, so noise is not compared; choose a larger delta"
        )
    cap = epsilon if epsilon is not None else _epsilon_within(rho or Fraction(0), rest, releases)
    within = _rho_within(cap, rest, releases) if rho is None else rho
    geometric, gaussian = _geometric(cap / releases / records), _gaussian(within / releases / records**2)
    words = (
        f"{releases} release(s) within epsilon {decimal_up(cap, 4)}, delta {decimal_up(rest)}: geometric "
        f"noise, by plain sums, has a variance of {geometric:.3g} on a count, discrete Gaussian noise in "
        f"all of them {gaussian:.3g}"
    )
    if gaussian < geometric and rho is None:
        return (
            f'{words}. So Gaussian noise loses less. It needs a budget of rho = "{decimal_down(within, 6)}" '
            "in place of epsilon, stated before the first release, and no release with other noise or with "
            "more than an equal share"
        )
    if gaussian >= geometric and epsilon is None:
        return f"{words}. So geometric noise and a budget in epsilon would lose less"
    return f"{words}. So {'geometric' if gaussian >= geometric else 'Gaussian'} noise loses less"


def _rho_within(epsilon: Fraction, delta: Fraction, releases: int) -> Fraction:
    """Return the rho that so many releases with Gaussian noise may share, by the better of both bounds."""
    alone = gaussian_rho_within(epsilon, delta, releases) if epsilon <= 100 else Fraction(0)
    return max(rho_within(epsilon, delta), alone)


def _epsilon_within(rho: Fraction, delta: Fraction, releases: int) -> Fraction:
    """Return the epsilon of so many releases with Gaussian noise that share a rho, likewise."""
    alone = gaussian_epsilon_of([rho / releases] * releases, delta)
    return epsilon_of(rho, delta) if alone is None else min(epsilon_of(rho, delta), alone)


def _geometric(epsilon: Fraction) -> float:
    return calibrated_noise(max(epsilon, _LEAST_EPSILON)).law.variance


def _gaussian(rho: Fraction) -> float:
    return float(1 / rho) if rho < 1 else GaussianParameters.of_rho(rho).law.variance
