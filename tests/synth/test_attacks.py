"""Samplers broken on purpose are caught by the auditor, the one that ships is not; what a black box misses.

The cases are those of `benchmarks/attacks.py`, whose table is in benchmarks/attacks.md; here with fewer runs.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from helpers import ROOT, load
from synth.dirichlet.urn import sample_cells
from synth.randomness import RunKey

from .dirichlet.test_urn_enumeration import CASES
from .enumeration import replaced

attacks: Any = load("benchmarks/attacks.py")
HONEST = {case.name: case for case in attacks.honest()}
BROKEN = {case.name: case for case in attacks.broken() if not case.name.startswith("(5)")}
OFF_BY_ONE = {case.name: case for case in attacks.broken() if case.name.startswith("(5)")}


def check(case: Any, runs: int) -> None:
    result = case.audited(runs, RunKey.from_seed(20240229))
    epsilon, delta = case.promise
    assert result.delta == delta
    assert (result.epsilon > epsilon) == case.exceeds, (case.name, float(result.epsilon), result.event)


@pytest.mark.parametrize("case", HONEST.values(), ids=HONEST.keys())
def test_the_shipped_sampler_stays_within_its_certificate(case: Any) -> None:
    assert case.sampler is sample_cells
    check(case, 100_000)


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_release_is_caught(case: Any) -> None:
    check(case, 200_000)


@pytest.mark.slow
def test_an_off_by_one_that_shows_is_caught() -> None:
    check(OFF_BY_ONE["(5) noise ends one cell early"], 100_000)  # `make deep` has all


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("case", OFF_BY_ONE.values(), ids=OFF_BY_ONE.keys())
def test_an_off_by_one_is_caught_or_known_to_be_missed(case: Any) -> None:
    check(case, 500_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (1, 2))])
@pytest.mark.parametrize("name", ["as shipped, n = 1, pruning 1/2", "as shipped, n = 2, mixed pruning"])
def test_the_certificate_holds_where_it_is_tight(name: str, seed: int) -> None:
    case = HONEST[name]
    result = case.audited(3_000_000, RunKey.from_seed(seed))
    assert case.promise[0] * 95 / 100 < result.epsilon <= case.promise[0]


@pytest.mark.parametrize("edit", ["NOISE_LATE", "NOISE_EARLY", "COIN_KIND"])
def test_what_a_black_box_misses_exact_enumeration_finds(edit: str) -> None:
    mutant = replaced(getattr(attacks, edit))
    assert any(case.tells(mutant) for case in CASES.values())


def test_an_edit_that_changes_nothing_gives_the_same_bytes() -> None:
    """The edited kernels are the shipped one apart from their edit."""
    same = attacks.edited(("workers = q * n", "workers = n * q"))
    case = HONEST["as shipped, n = 2, mixed pruning"].setting
    first, second = (
        sampler(case.urns, case.before, RunKey.from_seed(5).stream("urn", 0))
        for sampler in (sample_cells, same)
    )
    assert np.array_equal(first, second)
    with pytest.raises(LookupError):
        attacks.edited(("not in the kernel", ""))


def test_a_far_block_without_noise_gives_its_worker_away() -> None:
    """The tutorial's Theorem 2: whoever is drawn from the far block proves that somebody lives there."""
    case = BROKEN["(1) noise only on blocks that occur"]
    result = case.audited(20_000, RunKey.from_seed(1))
    assert result.unlikely == 0
    assert result.likely > 5_000
    assert "cell 7" in result.event or "values of" in result.event


def test_the_page_has_every_case_with_its_verdict() -> None:
    page = (ROOT / "benchmarks" / "attacks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (.+?) \|.*\| (.+?) \|$", page, re.MULTILINE))
    for case in (*HONEST.values(), *BROKEN.values(), *OFF_BY_ONE.values()):
        expected = ("caught" if case.exceeds else "not caught") if case.broken else "within"
        assert rows[case.name] == expected
