"""What somebody could learn: the page of a plan, its numbers, and what it refuses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import pytest
from click.testing import CliRunner

import pipelines
import synth
from helpers import words_of_release
from pipelines import PublicReleaseError, Release, ReleaseConfig
from pipelines.cli.main import main
from pipelines.release.attackers import attackers_of, describe_attackers
from pipelines.release.promises import odds_in_words


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_has_the_bounds_of_the_plan(small_release: Release, tmp_path: Path) -> None:
    report = pipelines.attackers(small_release.public, stubbornness=["5"])
    text, numeric = report.text(), report.plan.numeric
    certificate = small_release.certificate
    assert f"{certificate.totals.synthetic_workers:,} synthetic workers" in text
    said = " ".join(text.split())
    assert " ".join(odds_in_words(certificate).split()) in said
    assert "A pool is the jobs of a work block, or of several that share an urn;" in said
    pools = report.plan.pools
    by_earnings = replace(pools, pooling=replace(pools.pooling, by=("SE",)))
    told = replace(report, plan=replace(report.plan, pools=by_earnings)).text()
    assert "of several that share an urn, with the same SE;" in " ".join(told.split())
    tables = [part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    whoever, odds, shares = tables
    everybody = math.exp(float(certificate.run.epsilon))
    for cell, candidates in zip(cells(whoever[2])[1:], (2, 10, 100, 1_000), strict=True):
        assert 0 <= float(cell) - everybody / (everybody + candidates - 1) < 0.01
    assert len(odds) == 2 + 7 + 1  # heads, all but one, three times two, jobs
    jobs = [int(cell.replace(",", "")) for cell in cells(odds[-1])[2:]]
    assert sum(jobs) == numeric.pools.n_records
    [everything] = report.odds([numeric.pools.n > 0])
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


def test_every_release_has_the_page(
    small_release: Release, zoned_release: Release, small_config: Callable[..., ReleaseConfig]
) -> None:
    """Where people who know less are not bounded, it has what holds for everybody, and says why."""
    for release in (small_release, zoned_release):
        page = (release.public / "attackers.md").read_text(encoding="utf-8")
        assert page == pipelines.attackers(release.public).text()
        assert "The odds change by a factor of" in page
        assert ("inside the geography" in page) == (release.certificate.population is not None)
        readme = words_of_release(release.public)
        assert "`attackers.md`: what somebody could learn" in readme
    measured, several = (
        pipelines.make_plan(small_config(change))
        for change in (
            {"release.mechanism": "geometric", "plan.retention_min": "1"},
            {"release.implicates": 2},
        )
    )
    numeric = small_release.plan.numeric
    protected = replace(
        small_release.plan,
        numeric=replace(numeric, target=replace(numeric.target, record_range=synth.RecordRange("1/2", "2"))),
    )
    certificate = small_release.certificate
    for plan, reason in (
        (measured, "estimated from noisy tables"),
        (several, "drawn several times"),
        (protected, "numbers of records are confidential"),
    ):
        said = " ".join(describe_attackers(plan, certificate, attackers_of()).text().split())
        assert reason in said
        assert "no more often than the table above says" in said
        assert said.count("| sees the release |") == 1
        assert "The odds change by a factor of" not in said


def test_what_cannot_be_read_is_refused(small_release: Release, tmp_path: Path) -> None:
    public = small_release.public
    with pytest.raises(PublicReleaseError, match="public folder"):
        pipelines.attackers(public, to=public / "attackers")
    with pytest.raises(
        PublicReleaseError, match=r"no plan\.json. Fix: name the public folder .*, or a folder that odsynth"
    ):
        pipelines.attackers(small_release.out)
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    with pytest.raises(PublicReleaseError, match=r"no plan can be read there: plan\.json"):
        pipelines.attackers(tmp_path)
    for value, reason in (("many", "is not a number"), ("0", "must be positive")):
        with pytest.raises(PublicReleaseError, match=f"{reason}.* Fix: write positive numbers"):
            pipelines.attackers(public, stubbornness=[value])
