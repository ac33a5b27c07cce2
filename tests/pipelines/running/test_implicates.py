"""Several synthetic data sets in one release: what they cost, how they are drawn, that all are checked."""

from __future__ import annotations

import shutil
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
from helpers import refused, seal_again
from pipelines import ConfigError, Ledger, PublicReleaseError, make_plan, open_release, resume, run, verify
from pipelines.config.implicates import Implicates
from pipelines.running.batches import BatchWork
from pipelines.running.report import plan_summary
from pipelines.running.run import certify
from synth.block_sampling import OriginShares, block_chance, cumulative_weights

from .helpers import GEOMETRIC, Configs, Table, data_of, seeded


def implicates(number: object, source: str = "independent-runs", epsilon: str = "8.6") -> Table:
    return {"release.implicates": number, "release.implicate_source": source, "privacy.epsilon": epsilon}


def od(public: Path, implicate: int) -> pd.DataFrame:
    return open_release(public, implicate).rows["main"].to_table().to_pandas()


@pytest.fixture(scope="module", params=["independent-runs", "one-urn"])
def three(
    request: pytest.FixtureRequest,
    config_text: Callable[..., str],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> pipelines.Release:
    """A release of three implicates, of either kind. Copy it before changing it."""
    text = config_text(implicates(3, request.param, "25.8"))
    return run(pipelines.parse_config(text, tmp_path_factory.mktemp("three"), "three.toml"))


@pytest.fixture
def copy(three: pipelines.Release, tmp_path: Path) -> Path:
    return Path(shutil.copytree(three.public, tmp_path / "public"))


# --- what they are


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


def test_each_has_the_public_totals_and_homes_of_its_own(three: pipelines.Release) -> None:
    tables = [od(three.public, number) for number in (1, 2, 3)]
    totals = [t.drop(columns=["h_geocode", "createdate"]).groupby("w_geocode").sum() for t in tables]
    for other in totals[1:]:
        pd.testing.assert_frame_equal(totals[0], other)
    homes = [table.set_index(["w_geocode", "h_geocode"])["S000"] for table in tables]
    assert not homes[0].equals(homes[1])
    assert not homes[1].equals(homes[2])
    assert three.certificate.totals.synthetic_workers == totals[0]["S000"].sum() == 600
    checks = {check.name: check.detail for check in verify(three.public)}
    assert checks["data"].startswith("3 implicates")
    assert three.certificate.for_release


def test_an_independent_implicate_is_a_release_at_a_part_of_the_budget(
    small_config: Configs, frozen_day: None
) -> None:
    """Byte for byte: the first run of three has the key streams of the only run of one."""
    several = seeded(small_config(implicates(3, epsilon="25.8"), {"privacy.delta": "3e-5"}))
    one = seeded(small_config())
    assert data_of(several, "implicate-01") == data_of(one)
    assert several.plan.numeric.parameters == one.plan.numeric.parameters


def test_runs_have_streams_of_their_own(small_config: Configs) -> None:
    release = seeded(small_config(implicates(2, epsilon="20")))
    first, second = (od(release.public, number) for number in (1, 2))
    assert not first.equals(second)


# --- what they cost


def test_losses_of_independent_implicates_add_up(small_config: Configs) -> None:
    plan = make_plan(small_config(implicates(3, epsilon="25.8")))
    once, together = plan.mechanism.certify(plan.numeric).tightened(), certify(plan)
    assert plan.numeric.epsilon == Fraction("8.6")
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
    assert plan.numeric.epsilon == Fraction("8.6")
    guarantee = certify(plan)
    assert max(row.m_max for row in guarantee.classes) >= plan.numeric.pools.m.max()
    single = make_plan(small_config())
    prior = [max(p for row in certify(made).classes for p in row.numbers["prior"]) for made in (plan, single)]
    assert prior[0] > prior[1]  # three times the draws need more noise


def test_the_certificate_says_what_its_numbers_are_of(three: pipelines.Release) -> None:
    certificate, up = three.certificate, synth.decimal_up
    guarantee = certify(three.plan)
    assert certificate.implicates.number == 3
    assert certificate.implicates.source == three.plan.config.release.implicate_source
    assert certificate.run.epsilon == up(guarantee.epsilon)
    assert certificate.requested.epsilon == "25.8"
    text = plan_summary(three.plan, guarantee)
    assert certificate.implicates.words in text
    assert "% of the synthetic workers are noise" in text
    text = (three.public / "README.md").read_text(encoding="utf-8")
    assert "3 **implicates**" in text
    assert "`implicate-03/`" in text


@pytest.mark.parametrize("source", ["independent-runs", "one-urn"])
def test_the_ledger_pays_for_all_of_them(paid_config: Configs, book: Path, source: str) -> None:
    release = run(paid_config(implicates(2, source, "18")))
    said = release.certificate.run
    assert Ledger(book).spent("jobs") == (Fraction(said.epsilon), Fraction(said.delta))
    assert [entry.kind for entry in Ledger(book).entries()].count("debit") == 1


def test_geometric_noise_is_added_anew_for_each(small_config: Configs) -> None:
    changes = [implicates(2, epsilon="4"), GEOMETRIC]
    release = run(small_config(*changes))
    assert release.certificate.run.epsilon == "4"
    assert release.certificate.run.delta == "0"
    assert release.plan.numeric.epsilon == 2
    assert not od(release.public, 1).equals(od(release.public, 2))
    with pytest.raises(ConfigError, match=r'release\.implicate_source: the mechanism "geometric" has no urn'):
        small_config(*changes, {"release.implicate_source": "one-urn"})


@pytest.mark.deep
def test_a_budget_that_is_too_small_for_them_says_what_would_do(small_config: Configs) -> None:
    with pytest.raises(synth.BudgetTooSmallError, match="not enough for 3 independent implicates") as caught:
        make_plan(small_config(implicates(3)))
    smallest = caught.value.smallest
    assert smallest is not None
    assert certify(make_plan(small_config(implicates(3, epsilon=synth.decimal_up(smallest, 4)))))


def test_a_number_of_implicates_is_a_whole_number(small_config: Configs) -> None:
    for number in (0, 100, "3", 2.5, True):
        with pytest.raises(ConfigError, match=r"release\.implicates"):
            small_config({"release.implicates": number})


# --- interrupted


@pytest.mark.parametrize("source", ["independent-runs", "one-urn"])
def test_a_run_cut_off_between_implicates_is_continued_to_the_same_bytes(
    small_config: Configs, frozen_day: None, source: str
) -> None:
    write, calls = BatchWork._write, 0

    def fail(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # one implicate of the only batch is written
            raise OSError(5, "Input/output error")
        write(*arguments)  # type: ignore[arg-type]

    whole = seeded(small_config(implicates(3, source, "25.8")))
    config = small_config(implicates(3, source, "25.8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchWork, "_write", fail)
        with pytest.raises(OSError, match="Input/output"):
            seeded(config)
    again = resume(config.release.out)
    for folder in whole.plan.implicates.folders:
        assert data_of(again, folder) == data_of(whole, folder)


# --- checked


def refusal(public: Path) -> str:
    seal_again(public)
    error = refused(public)
    assert error.check != "for release"
    return str(error)


def test_a_missing_or_additional_implicate_is_noticed(copy: Path) -> None:
    shutil.copytree(copy / "implicate-03", copy / "implicate-04")
    assert "texts: a release of this kind has other files: implicate-04/" in refusal(copy)
    shutil.rmtree(copy / "implicate-04")
    shutil.rmtree(copy / "implicate-02")
    assert "implicate-02" in refusal(copy)


def test_a_change_in_any_implicate_is_noticed(copy: Path) -> None:
    for implicate in (1, 2, 3):
        name = f"implicate-{implicate:02}/demo_od_main_JT00_2019.parquet"
        before = (copy / name).read_bytes()
        table = pd.read_parquet(copy / name)
        table.loc[0, "S000"] += 1
        table.to_parquet(copy / name, index=False)
        assert f"data: {name.removesuffix('parquet')}" in refusal(copy)
        (copy / name).write_bytes(before)


def test_a_certificate_of_fewer_implicates_is_noticed(copy: Path) -> None:
    path = copy / "certificate.json"
    text = path.read_text(encoding="utf-8")
    assert text.count('"number": 3') == 1
    path.write_text(text.replace('"number": 3', '"number": 1'), encoding="utf-8")
    assert "guarantee: certificate.json: implicates is not what the plan gives" in refusal(copy)
    with pytest.raises(PublicReleaseError, match="implicates of the release are not those"):
        open_release(copy)


# --- read


def test_an_evaluation_says_how_much_implicates_differ(
    three: pipelines.Release, config_text: Callable[..., str], tmp_path: Path
) -> None:
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


def test_readers_choose_an_implicate(three: pipelines.Release, tmp_path: Path) -> None:
    second = open_release(three.public, 2)
    assert (second.implicate, second.implicates) == (2, 3)
    with pytest.raises(PublicReleaseError, match="there is no implicate 4; there are 3"):
        open_release(three.public, 4)
    with pytest.raises(PublicReleaseError, match="there is no implicate 0"):
        open_release(three.public, 0)
    files = pipelines.open_release(three.public, 2).export(["csv"], tmp_path / "exports")["csv"]
    flows = next(pd.read_csv(path) for path in files if path.suffix != ".txt")
    expected = second.unit_flows("trct", "trct")["S000"]
    assert sorted(flows["S000"]) == sorted(expected)
    assert "Implicate 2 of 3." in (tmp_path / "exports" / "csv" / "README.txt").read_text(encoding="utf-8")


# --- copies


@pytest.mark.parametrize("source", ["independent-runs", "one-urn"])
@pytest.mark.parametrize("by", [[], ["SE"]], ids=str)
def test_implicates_that_are_copies_of_each_other_are_refused(
    source: str, by: list[str], small_config: Configs, clean_source: object
) -> None:
    asked = {"release.implicates": 2, "release.implicate_source": source, "plan.pool_by": by}
    public = pipelines.run(small_config(asked)).public
    assert [check.name for check in pipelines.verify(public)][-1] == "for release"
    for path in (public / "implicate-01").iterdir():
        (public / "implicate-02" / path.name).write_bytes(path.read_bytes())
    seal_again(public)
    assert "implicate-02/ and implicate-01/ are copies of each other" in str(refused(public))


def test_the_chance_of_a_copy_is_that_of_the_draw_of_blocks() -> None:
    domains = synth.Domains(6, np.array([0, 2]), np.array([0, 2], np.int32), np.zeros(2, np.uint8))
    none, row = np.zeros(0, np.int32), np.zeros(1, np.int32)
    shares = OriginShares(np.array([0, 4]), np.array([0, 0]), none, none, row)
    cumulative = cumulative_weights(np.array([1, 3, 1, 1, 5, 5]))
    blocks = np.arange(6, dtype=np.int32)
    first, chance = block_chance(domains, np.zeros(6, np.int32), blocks, cumulative, shares)
    assert first.tolist() == [0, 0, 2, 2, 4, 4]
    assert chance.tolist() == [0.25, 0.75, 0.5, 0.5, 0.5, 0.5]
