"""Several synthetic data sets in one release: how they are cut, what they cost, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipelines
import synth
from pipelines import Ledger, Release, make_plan, open_release, run
from pipelines.config.implicates import Implicates
from pipelines.running.run import certify
from synth.block_sampling import OriginShares, block_chance, cumulative_weights

from .helpers import Configs, data_of, seeded
from .kinds import implicates


def od(public: Path, implicate: int) -> pd.DataFrame:
    return open_release(public, implicate).rows["main"].to_table().to_pandas()


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), number=st.integers(1, 4))
def test_draws_are_cut_into_implicates_pool_by_pool(sizes: list[int], number: int) -> None:
    n = np.array(sizes)
    pool = np.repeat(np.arange(n.size), number * n)
    drawn = np.arange(pool.size, dtype=np.int32)  # each draw tells which it is
    cut = Implicates(number, "one-urn").cut(drawn, n)
    assert cut.shape == (number, n.sum())
    assert sorted(cut.ravel().tolist()) == drawn.tolist()
    for row in cut:
        np.testing.assert_array_equal(pool[row], np.repeat(np.arange(n.size), n))
    assert (np.diff(cut, axis=0) > 0).all()  # in the order in which they were drawn


def test_an_independent_implicate_is_a_release_at_a_part_of_the_budget(
    small_config: Configs, whole: Release, frozen_day: None
) -> None:
    """Byte for byte: the first run of three has the key streams of the only run of one."""
    several = seeded(small_config(implicates(3, epsilon="25.8"), {"privacy.delta": "3e-5"}))
    assert data_of(several, "implicate-01") == data_of(whole)
    assert several.plan.numeric.parameters == whole.plan.numeric.parameters


# --- what they cost


def test_losses_of_independent_implicates_add_up(small_config: Configs) -> None:
    plan = make_plan(small_config(implicates(3, epsilon="25.8")))
    once, together = plan.mechanism.certify(plan.numeric).tightened(), certify(plan)
    assert plan.numeric.target.epsilon == Fraction("8.6")
    assert plan.requested == (Fraction("25.8"), Fraction(1, 100_000))
    assert together.epsilon == 3 * once.epsilon <= Fraction("25.8")
    assert together.delta == 3 * once.delta <= Fraction(1, 100_000)
    assert (together.record_epsilon, together.record_delta) == (
        3 * once.record_epsilon,
        3 * once.record_delta,
    )
    assert together.curve == tuple((3 * e, min(Fraction(1), 3 * d)) for e, d in once.curve)
    assert together.classes == once.classes
    assert plan.met_by(together)
    assert not plan.met_by(once.repeated(4))


def test_no_run_is_no_release(small_release: pipelines.Release) -> None:
    with pytest.raises(ValueError, match="at least one run"):
        certify(small_release.plan).repeated(0)


def test_one_urn_is_certified_for_all_of_its_draws(small_config: Configs) -> None:
    plan = make_plan(small_config(implicates(3, "one-urn")))
    np.testing.assert_array_equal(plan.numeric.pools.m, 3 * plan.numeric.pools.n)
    assert plan.numeric.target.epsilon == Fraction("8.6")
    guarantee = certify(plan)
    assert max(row.m_max for row in guarantee.classes) >= plan.numeric.pools.m.max()
    single = make_plan(small_config())
    prior = [max(p for row in certify(made).classes for p in row.numbers["prior"]) for made in (plan, single)]
    assert prior[0] > prior[1]  # three times the draws need more noise


def test_the_ledger_pays_for_all_of_them(paid_config: Configs, book: Path) -> None:
    release = run(paid_config(implicates(2, epsilon="18")))
    said = release.certificate.run
    assert Ledger(book).spent("jobs")[:2] == (Fraction(said.epsilon), Fraction(said.delta))
    assert [entry.kind for entry in Ledger(book).entries()].count("debit") == 1


@pytest.mark.deep
def test_a_budget_that_is_too_small_for_them_says_what_would_do(small_config: Configs) -> None:
    with pytest.raises(synth.BudgetTooSmallError, match="not enough for 3 independent implicates") as caught:
        make_plan(small_config(implicates(3)))
    smallest = caught.value.smallest
    assert smallest is not None
    assert certify(make_plan(small_config(implicates(3, epsilon=synth.decimal_up(smallest, 4)))))


# --- read


def test_an_evaluation_says_how_much_implicates_differ(
    released: Callable[[str], Release], config_text: Callable[..., str], tmp_path: Path
) -> None:
    three = released("independent-runs")
    (tmp_path / "truth.toml").write_text(config_text(), encoding="utf-8")
    measures = three.evaluate(tmp_path / "truth.toml", tmp_path / "evaluation")
    found = measures[measures["measure"] == "implicate_deviation"].set_index("level")["value"]
    flows = [
        open_release(three.public, number).unit_flows("trct", "trct").set_index(["work", "home"])["S000"]
        for number in (1, 2, 3)
    ]
    variances = pd.concat(flows, axis=1).fillna(0).var(axis=1)
    assert found["trct"] == pytest.approx(np.sqrt(variances.mean()))
    assert found["trct"] > 0
    page = (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "the first of 3 implicates" in page
    assert "Spread between implicates" in page


def test_readers_choose_an_implicate(released: Callable[[str], Release], tmp_path: Path) -> None:
    three = released("independent-runs")
    second = open_release(three.public, 2)
    assert (second.implicate, second.implicates) == (2, 3)
    files = pipelines.open_release(three.public, 2).export(["csv"], tmp_path / "exports")["csv"]
    flows = pd.read_csv(next(path for path in files if path.match("*_flows_*.csv")))
    expected = second.unit_flows("trct", "trct")["S000"]
    assert sorted(flows["S000"]) == sorted(expected)
    assert "Implicate 2 of 3." in (tmp_path / "exports" / "csv" / "README.txt").read_text(encoding="utf-8")


def test_the_chance_of_a_copy_is_that_of_the_draw_of_blocks() -> None:
    domains = synth.Domains(6, np.array([0, 2]), np.array([0, 2], np.int32), np.zeros(2, np.uint8))
    none, row = np.zeros(0, np.int32), np.zeros(1, np.int32)
    shares = OriginShares(np.array([0, 4]), np.array([0, 0]), none, none, row)
    cumulative = cumulative_weights(np.array([1, 3, 1, 1, 5, 5]))
    blocks = np.arange(6, dtype=np.int32)
    first, chance = block_chance(domains, np.zeros(6, np.int32), blocks, cumulative, shares)
    assert first.tolist() == [0, 0, 2, 2, 4, 4]
    assert chance.tolist() == [0.25, 0.75, 0.5, 0.5, 0.5, 0.5]
