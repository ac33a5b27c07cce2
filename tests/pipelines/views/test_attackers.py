"""What somebody could learn: the page of a plan, its numbers, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import pytest
from click.testing import CliRunner

import pipelines
import synth
from pipelines import PublicReleaseError, Release
from pipelines.cli.main import main
from pipelines.views import attackers as module


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_has_the_bounds_of_the_plan(small_release: Release, tmp_path: Path) -> None:
    report = pipelines.attackers(small_release.public, stubbornness=["5"])
    text, numeric = report.text(), report.plan.numeric
    assert f"{numeric.pools.n_records:,} jobs in {numeric.pools.n_pools:,} pools" in text
    run = small_release.certificate.run
    assert f"epsilon is\n{synth.decimal_up(synth.exact(run.epsilon), 6)}: the odds change" in text
    assert f", except with probability {run.delta}." in text
    assert "A pool is the jobs of a work block, or of several that share an urn;" in text
    pools = report.plan.pools
    by_earnings = replace(pools, pooling=replace(pools.pooling, by=("SE",)))
    told = replace(report, plan=replace(report.plan, pools=by_earnings)).text()
    assert "of several that share an urn, with the same SE;" in told
    odds, shares = (part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE))
    assert len(odds) == 2 + 7 + 1  # heads, all but one, three times two, jobs
    jobs = [int(cell.replace(",", "")) for cell in cells(odds[-1])[2:]]
    assert sum(jobs) == numeric.pools.n_records
    everything = report.odds(numeric.pools.n > 0)
    for row, change in zip(odds[2:-1], everything, strict=True):
        largest = max(float(cell.strip("*").replace(",", "")) for cell in cells(row)[2:])
        assert largest >= change.odds
        assert largest < change.odds * 101 / 100
    for row in shares[2:]:
        numbers = [float(cell) for cell in cells(row)[2:]]
        assert numbers == sorted(numbers, reverse=True)
        assert 0 < numbers[-1] <= numbers[0] <= 1
    assert cells(shares[-1]) == ["sees no release", "", "0.5", "0.1", "0.01", "0.001"]


def test_the_verb_prints_the_page_and_writes_it_with_a_figure(small_release: Release, tmp_path: Path) -> None:
    new = tmp_path / "new" / "folder"
    words = ["attackers", str(small_release.public / "plan"), "--stubbornness", "5", "--to", str(new)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    page = (new / "attackers.md").read_text(encoding="utf-8")
    assert result.stdout.startswith("# What could somebody learn about you?\n")
    assert page == result.stdout + "\n![By size of pool](attackers.png)\n"
    assert {path.name for path in new.iterdir()} == {"attackers.md", "attackers.png"}
    picture = matplotlib.image.imread(new / "attackers.png")[..., :3]
    assert 0.02 < float((picture < 0.99).any(axis=2).mean()) < 0.5
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 1
    assert "is there already" in again.stderr


def test_what_cannot_be_bounded_is_refused(
    small_release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = small_release.public
    with pytest.raises(PublicReleaseError, match="public folder"):
        pipelines.attackers(public, to=public / "attackers")
    with pytest.raises(PublicReleaseError, match=r"no plan can be read there: plan\.json"):
        pipelines.attackers(tmp_path)
    for value, reason in (("many", "is not a number"), ("0", "must be positive")):
        with pytest.raises(PublicReleaseError, match=f"{reason}.* Fix: give positive numbers"):
            pipelines.attackers(public, stubbornness=[value])
    dirichlet = {"mechanism": "dirichlet", "record_range": None}
    for numeric, runs, reason in (
        (dirichlet | {"mechanism": "geometric"}, 1, "measures tables"),
        (dirichlet | {"record_range": synth.RecordRange("1/2", "2")}, 1, "are confidential"),
        (dirichlet, 2, "drawn from several times"),
    ):
        plan = SimpleNamespace(numeric=SimpleNamespace(**numeric), implicates=SimpleNamespace(runs=runs))
        monkeypatch.setattr(module, "load_plan", lambda _, plan=plan: plan)
        with pytest.raises(PublicReleaseError, match=reason):
            pipelines.attackers(public)
