"""Refining: a stronger release of the draw of an earlier one, for the difference, once, of the same files."""

from __future__ import annotations

import math
import shutil
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

import geo_data
import pipelines
import synth
from helpers import alone
from pipelines import ConfigError, LedgerError, PublicReleaseError, Release, resume, verify
from pipelines.cli.main import main
from pipelines.ledger.ledger import Ledger
from pipelines.release import certificate as certifying
from pipelines.running import batches
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from synth.concentrated import rho_of_pure

from .helpers import FULL, GEOMETRIC, Configs, but_for_the_debit, everything, failing, left_over, seeded
from .test_geometric import of_two_tables
from .test_tiers import noisy

ONE: dict[str, Any] = {"privacy.epsilon": "1"}


@pytest.fixture
def config(paid_config: Configs) -> Configs:
    """The configuration of the small region at epsilon 1, which a budget pays for."""
    return lambda *changes: paid_config(GEOMETRIC, ONE, *changes)


def debits(book: Path) -> list[Any]:
    return [entry for entry in Ledger(book).entries() if entry.kind == "debit"]


def test_a_stronger_release_costs_the_difference_and_both_are_whole(
    config: Configs, book: Path, clean_source: object
) -> None:
    earlier = pipelines.run(config())
    before = everything(earlier.public)
    refined = pipelines.refine(earlier.out, "4.6")
    assert refined.out.name == f"{earlier.out.name}-refined"
    assert everything(earlier.public) == before
    assert everything(refined.out / "tiers" / "first" / "public") == before
    assert verify(refined.public).checks[-1].name == "for release"
    assert alone(refined.public) is None
    certificate = refined.certificate
    assert certificate.requested.epsilon == "4.6"
    assert certificate.tier is not None
    assert certificate.tier.name == "refined"
    assert certificate.tier.epsilons == {"first": "1", "refined": "4.6"}
    assert certificate.tier.coalition.epsilon == "4.6"
    first, second = debits(book)
    level = Fraction(certificate.user_level.epsilon), Fraction(earlier.certificate.user_level.epsilon)
    assert second.epsilon == level[0] - level[1]
    assert first.epsilon + second.epsilon == level[0]
    assert second.rho == rho_of_pure(level[0] + level[1])
    assert second.release.endswith(f", refines {first.hash[:16]}")
    assert sorted(path.name for path in refined.out.iterdir()) == ["confidential", "public", "tiers"]
    with pytest.raises(PublicReleaseError, match="same title, year and tiers"):
        pipelines.compare(earlier.public, refined.public, book.with_name("change"))


def test_its_counts_have_less_noise_that_the_earlier_noise_contains(
    config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The true counts are caught where they get noise; both noises have the variances of tiers."""
    true: dict[int, np.ndarray[Any, Any]] = {}
    measure = batches.measure

    def caught(counts: Any, table: Any, key: Any, number: int, batch: int = 0, run: int = 0) -> Any:
        true[batch] = counts
        return measure(counts, table, key, number, batch, run)

    monkeypatch.setattr(batches, "measure", caught)
    earlier = seeded(config())
    refined = pipelines.refine(earlier.out, "4.6", key=synth.RunKey.from_seed(2))
    (weak,), (strong,) = noisy(earlier.public), noisy(refined.public)
    counts = np.concatenate([true[batch] for batch in sorted(true)])
    q, p = (release.plan.numeric.parameters.ratio for release in (earlier, refined))
    variances = float(2 * p / (1 - p) ** 2), float(2 * q / (1 - q) ** 2)
    near = 12 / math.sqrt(counts.size)
    assert np.var(strong - counts) == pytest.approx(variances[0], rel=near)
    assert np.var(weak - counts) == pytest.approx(variances[1], rel=near)
    assert np.var(weak - strong) == pytest.approx(variances[1] - variances[0], rel=near)


def test_two_tables_implicates_and_a_chain(
    config: Configs, monkeypatch: pytest.MonkeyPatch, book: Path, clean_source: object
) -> None:
    monkeypatch.setattr(releasing, "make_plan", of_two_tables)
    changes = {"release.implicates": 2, "plan.split_threshold": None, "plan.pool_below": None}
    first = pipelines.run(config(changes))
    second = pipelines.refine(first.out, "2")
    third = pipelines.refine(second.out, Fraction(4))
    for release in (second, third):
        assert verify(release.public).checks[-1].name == "for release"
        assert release.plan.tables == first.plan.tables
    assert third.certificate.tier is not None
    assert third.certificate.tier.epsilons == {"first": "1", "refined": "2", "refined_2": "4"}
    assert sum(entry.epsilon for entry in debits(book)) == Fraction(third.certificate.user_level.epsilon)


def test_the_strongest_tier_is_refined(config: Configs, clean_source: object) -> None:
    tiers = {"privacy.epsilon": "4", "tiers": {"public": "1", "registered": "4"}}
    refined = pipelines.refine(pipelines.run(config(tiers)).out, "8.6")
    assert (refined.out / "tiers" / "registered" / "public").is_dir()
    assert refined.certificate.tier is not None
    assert [*refined.certificate.tier.epsilons] == ["public", "registered", "refined"]
    assert verify(refined.public).checks[-1].name == "for release"


@pytest.mark.parametrize("at", ["write_public", "carry_draws"])
def test_one_that_is_cut_off_goes_on_with_the_same_bytes(
    at: str, config: Configs, book: Path, tmp_path: Path, frozen_day: object
) -> None:
    earlier = seeded(config())
    copy, kept = tmp_path / "copy", tmp_path / "kept.sqlite"
    shutil.copyfile(book, kept)
    whole = pipelines.refine(earlier.out, "4.6", copy, key=synth.RunKey.from_seed(2))
    shutil.copyfile(kept, book)  # for the test alone: a release is refined once
    with pytest.MonkeyPatch.context() as patch:
        failing(releasing, at, FULL, patch)
        with pytest.raises(OSError, match="No space"):
            pipelines.refine(earlier.out, "4.6", tmp_path / "cut", key=synth.RunKey.from_seed(2))
    assert len(debits(book)) == 2
    assert but_for_the_debit(resume(tmp_path / "cut").public) == but_for_the_debit(whole.public)
    assert len(debits(book)) == 2
    assert not any("homes" in name or name.endswith("run.key") for name in everything(tmp_path / "cut"))


def test_a_release_is_refined_once(config: Configs, book: Path) -> None:
    earlier = seeded(config())
    pipelines.refine(earlier.out, "4.6", key=synth.RunKey.from_seed(2))
    paid = len(debits(book))
    with pytest.raises(
        LedgerError, match=r"paid for refining this release before.*Fix: refine the release of"
    ):
        pipelines.refine(earlier.out, "8", earlier.out.with_name("again"))
    assert len(debits(book)) == paid
    assert not [name for name in left_over(config()) if "again" in name]


def test_a_window_that_counts_the_later_debit_counts_the_earlier_one(config: Configs, book: Path) -> None:
    earlier = seeded(config())
    pipelines.refine(earlier.out, "4.6", key=synth.RunKey.from_seed(2))
    first, second = debits(book)
    assert first.time < second.time
    ledger, since = Ledger(book), datetime.fromisoformat(second.time)
    assert ledger.spent("jobs", since=since).epsilon == first.epsilon + second.epsilon
    assert ledger.spent("jobs", since=since + timedelta(microseconds=1)).epsilon == 0


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        ("1", "the release has epsilon 1. Fix: name a larger one"),
        ("0.5", "name a larger one"),
        ("1e9", "at most"),
    ],
)
def test_an_epsilon_that_is_not_larger_is_refused(
    config: Configs, book: Path, epsilon: str, said: str
) -> None:
    earlier = seeded(config())
    with pytest.raises(ConfigError, match=said):
        pipelines.refine(earlier.out, epsilon)
    with pytest.raises(TypeError, match="float"):
        pipelines.refine(earlier.out, 4.6)  # type: ignore[arg-type]
    assert len(debits(book)) == 1


def test_other_files_are_refused_before_anything_is_paid(config: Configs, book: Path, tmp_path: Path) -> None:
    jobs = tmp_path / config().jobs.file.name
    shutil.copyfile(config().jobs.file, jobs)
    earlier = seeded(config({"jobs.file": str(jobs)}))
    jobs.write_bytes(jobs.read_bytes() + b"\n")
    with pytest.raises(geo_data.InputError, match=r"SHA-256.*Fix: put back"):
        pipelines.refine(earlier.out, "4.6")
    assert len(debits(book)) == 1
    assert not RunFolder.of(earlier.out.with_name(f"{earlier.out.name}-refined")).folder.exists()


def test_what_cannot_be_refined_is_refused_with_the_fix(
    config: Configs, small_config: Configs, small_release: Release, tmp_path: Path
) -> None:
    unpaid = seeded(small_config(GEOMETRIC, ONE))
    for out, said in (
        (small_release.out, "mechanism dirichlet has no noise.*Fix: make a new release"),
        (unpaid.out, "paid from no ledger.*Fix: make a new release"),
        (tmp_path, "no finished release.*Fix: name the output folder"),
    ):
        with pytest.raises(ConfigError, match=said):
            pipelines.refine(out, "9")


def test_a_damaged_release_is_not_refined(config: Configs, book: Path) -> None:
    earlier = seeded(config())
    table = earlier.public / "measurements" / "table-1.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    with pytest.raises(pipelines.VerificationError, match=r"table-1.parquet"):
        pipelines.refine(earlier.out, "4.6")
    assert len(debits(book)) == 1


def test_another_draw_by_the_same_plan_is_not_refined(
    config: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that was put back is of the other run: its own run would refine the same counts again."""
    earlier = seeded(config())
    monkeypatch.setattr(certifying, "_TIME", "2020-02-02T02:02:02Z")
    other = seeded(config({"release.out": "other"}), 3)
    monkeypatch.undo()
    assert earlier.certificate.plan_sha256 == other.certificate.plan_sha256
    shutil.rmtree(earlier.public)
    shutil.copytree(other.public, earlier.public)
    with pytest.raises(ConfigError, match=r"not the release of the run .*Fix: put back"):
        pipelines.refine(earlier.out, "4.6")
    assert len(debits(book)) == 2


def test_another_ledger_does_not_pay(config: Configs, book: Path) -> None:
    earlier = seeded(config())
    book.unlink()
    seeded(config({"release.out": "other"}), 3)
    with pytest.raises(LedgerError, match=r"has no debit .*Fix: put back the ledger"):
        pipelines.refine(earlier.out, "4.6")


def test_the_verb_makes_it_and_says_where_it_is(config: Configs, book: Path) -> None:
    earlier = seeded(config())
    runner = click.testing.CliRunner()
    refused = runner.invoke(main, ["refine", str(earlier.out), "--epsilon", "0.5"])
    assert refused.exit_code == 1
    assert "Fix: name a larger one" in refused.stderr
    made = runner.invoke(main, ["refine", str(earlier.out), "--epsilon", "4.6"])
    assert made.exit_code == 0
    assert f"Public      {earlier.out}-refined/public" in made.stdout
    assert f"Ledger      debit {debits(book)[1].hash}" in made.stdout
