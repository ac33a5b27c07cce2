"""Shares of a budget: what each release asks for, that all of them fit, and by which noise they lose less."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import tomlkit

from helpers import NOW, SCHEDULE, with_values
from pipelines.config.loading import ReleaseConfig
from pipelines.running.payment import most_cost_of
from pipelines.schedule.calendar import read_calendar
from pipelines.schedule.due import due
from pipelines.schedule.shares import noise_in_words, share_of
from synth.concentrated import epsilon_of, pure_within, rho_of_pure, rho_within
from synth.gaussian.parameters import GaussianParameters

from .helpers import Office, statuses

pytestmark = pytest.mark.quick
DELTA = Fraction("1e-5")
CAP = rho_within(Fraction("8.6"), DELTA)
MEASURED: dict[str, Any] = {"release.mechanism": None, "plan": {"split_threshold": "1", "pool_below": 8}}
CHOICE = "variance of {} on a count, discrete Gaussian noise in all of them {}. So {}"


@pytest.fixture
def shared(small_config: Callable[..., ReleaseConfig]) -> Callable[..., ReleaseConfig]:
    """Return a configuration with a budget for ever."""

    def config(mechanism: str | None = None, own: str = "1e-5", **budget: str) -> ReleaseConfig:
        tables: dict[str, Any] = {
            "ledger": {"file": "x", "data_set": "jobs", "delta": "0", **budget},
            "privacy": {"protects": "home", "epsilon": "1", "delta": own},
        }
        return small_config(tables | MEASURED | ({"release.mechanism": mechanism} if mechanism else {}))

    return config


@pytest.mark.parametrize("rho", ["1/1000", "0.07", "1.388", "40"])
def test_the_largest_pure_epsilon_of_a_rho(rho: str) -> None:
    epsilon = pure_within(Fraction(rho))
    assert rho_of_pure(epsilon) <= Fraction(rho) < rho_of_pure(epsilon * (1 + Fraction(1, 2**38)))
    assert pure_within(Fraction(0)) == 0


@pytest.mark.parametrize("mechanism", [None, "gaussian"])
@pytest.mark.parametrize("releases", [1, 3, 20])
def test_a_share_in_rho_is_gaussian_and_all_fit(
    shared: Callable[..., ReleaseConfig], mechanism: str | None, releases: int
) -> None:
    config = shared(mechanism, rho=str(CAP))
    share = share_of(config, releases)
    assert (share.mechanism, share.privacy.guarantee, share.privacy.delta) == ("gaussian", "dp", DELTA)
    release = config.release.model_copy(update={"mechanism": "gaussian"})
    rho = most_cost_of(config.model_copy(update={"privacy": share.privacy, "release": release})).rho
    assert rho is not None
    assert CAP * (1 - Fraction(1, 10**9)) < releases * rho <= CAP
    if releases == 20:
        assert 14 < GaussianParameters.of_rho(rho).law.variance < 15
    assert ("discrete Gaussian noise has a variance of" in share.note) == (mechanism is None)
    assert share.note.endswith('whatever [privacy] says, and guarantee is "dp"')


def test_other_noise_has_the_pure_epsilon_of_its_rho(shared: Callable[..., ReleaseConfig]) -> None:
    for config in (shared("geometric", rho="1"), shared(own="0", rho="1")):
        share = share_of(config, 5)
        assert share.mechanism == config.release.mechanism
        assert rho_of_pure(share.privacy.epsilon) <= Fraction(1, 5) < rho_of_pure(share.privacy.epsilon * 2)
        assert (share.privacy.delta, share.note) == (0, "")
    both = share_of(shared(epsilon="10", rho="1", delta="1e-4"), 5)  # of both accounts, epsilon is shared
    assert (both.mechanism, both.privacy.epsilon, both.privacy.delta) == (None, 2, Fraction("2e-5"))


@pytest.mark.parametrize(
    ("budget", "releases", "words"),
    [
        ({"epsilon": "8.6", "delta": "1e-5"}, 1, CHOICE.format(0.0279, 0.72, "geometric noise loses less")),
        ({"epsilon": "8.6", "delta": "1e-5"}, 20, CHOICE.format(43.1, 13.5, "Gaussian noise loses less. It")),
        ({"rho": str(CAP)}, 1, "1 release(s) within epsilon 8.6, delta 0.00001: geometric noise"),
        ({"rho": str(CAP)}, 20, CHOICE.format(46.7, 14.4, "Gaussian noise loses less")),
        ({"rho": str(CAP)}, 1, CHOICE.format(0.0279, 0.72, "geometric noise and a budget in epsilon would")),
        ({"epsilon": "8"}, 20, "discrete Gaussian noise is no choice here"),
        ({"rho": "99", "epsilon": "1", "delta": "1e-6"}, 20, "both: noise is not compared"),
        ({"rho": "1", "delta": "1e-5"}, 20, "has no epsilon at delta 0.00001, so noise is not compared"),
        (
            {"epsilon": "1", "delta": "1e-5"},
            20,
            "no release with other noise or with more than an equal share",
        ),
    ],
)
def test_which_noise_loses_less(
    shared: Callable[..., ReleaseConfig], budget: dict[str, str], releases: int, words: str
) -> None:
    assert words in noise_in_words(shared(**budget), releases, DELTA)


def test_a_calendar_with_a_budget_in_rho_asks_for_gaussian_noise(office: Callable[..., Office]) -> None:
    world = office(rho="0.3", delta="0")
    in_rho(world)
    world.write(ri="shares = 3\n" + SCHEDULE)
    (schedule,) = read_calendar(world.calendar).schedules
    config, note = next(schedule.occurrences()).config_and_note()
    assert config.release.mechanism == "gaussian"
    assert note.startswith("one of 3 releases that share a budget in rho")
    asked = epsilon_of(Fraction("0.1"), DELTA)
    assert asked * Fraction("0.9999") < config.privacy.epsilon <= asked
    dry = due(world.calendar, now=NOW, dry_run=True)
    assert dry.outlook is not None
    assert [cost.payable for cost in dry.outlook.costs] == [True, True, True, False]
    assert dry.outlook.costs[2].left is not None
    assert dry.outlook.costs[2].left["rho"] < Fraction(1, 10**9)
    assert set(statuses(dry).values()) == {"due"}


def in_rho(world: Office) -> None:
    """Let noise be added to counts, and only rho limit."""
    tables = tomlkit.parse((world.folder / "base.toml").read_text()).unwrap()
    del tables["ledger"]["epsilon"]
    (world.folder / "base.toml").write_text(tomlkit.dumps(with_values(tables, MEASURED)))
