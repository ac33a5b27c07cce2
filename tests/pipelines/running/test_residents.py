"""Jobs of residents: whose they are is a part of what is debited, and nobody is led to leave homes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import geo_data
from pipelines import ConfigError, Release, run
from pipelines.config.sections import MicrodataJobsSettings
from pipelines.ledger.terms import ANYWHERE, Terms
from pipelines.running.payment import terms_of

from .helpers import Configs, left_over

ZONES = {"geography.external_zones": ["09", "25"], "jobs.population": None}


def test_what_is_debited_says_whose_jobs_and_how_many_records(
    small_release: Release, zoned_release: Release
) -> None:
    """Membership of the geography is public, so its blocks are a part of what a debit is a guarantee of."""
    plan, geography = small_release.plan, small_release.plan.geography
    other = replace(geography, block_codes=pa.array([f"{code}0" for code in geography.blocks]))
    terms = terms_of(plan)
    assert re.fullmatch("inside [0-9a-f]{16}", terms.homes)
    assert Terms.of_sum([terms, terms_of(replace(plan, geography=other))]) is None
    assert terms_of(zoned_release.plan).homes == ANYWHERE
    jobs = MicrodataJobsSettings(
        format="microdata", file="jobs.csv", home="h", work="w", records_per_worker=3, population="residents"
    )
    several = plan.config.model_copy(update={"jobs": jobs})
    assert terms_of(replace(plan, config=several)).records == 3


def test_it_is_one_problem_among_all_others(small_config: Configs) -> None:
    with pytest.raises(ConfigError) as caught:
        small_config({"jobs.population": None, "release.year": "2019", "plan.pool_level": "ward"})
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "release.year",
        "plan.pool_level",
        "jobs.aux",
    ]


@pytest.mark.parametrize("home", ["250173000000001", ""], ids=["elsewhere", "unknown"])
@pytest.mark.parametrize("change", [{}, ZONES | {"geography.external_zones": ["09"]}], ids=["none", "zones"])
def test_nobody_is_told_to_leave_out_jobs_because_of_their_homes(
    home: str,
    change: dict[str, Any],
    small_config: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Any],
    tmp_path: Path,
) -> None:
    jobs = pd.read_csv(microdata["csv"], dtype="str")
    jobs.loc[5:7, "live"] = home
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    config = small_config(microdata_jobs(tmp_path / "jobs.csv"), change)
    with pytest.raises(geo_data.InputError) as caught:
        run(config)
    error = caught.value
    assert (error.column, error.count) == ("live", 3)
    assert "external" in error.fix
    assert not re.search("leave|remove|drop", error.fix)
    if home and not change:
        assert 'population = "residents"' in error.fix
        assert "must be a resident's" in error.fix
    assert left_over(config) == []


def test_a_configuration_that_was_not_checked_is_refused_before_it_is_paid(
    paid_config: Configs, book: Path, zones: dict[str, Any]
) -> None:
    all_jobs, residents = ({"population": value} for value in ("all", "residents"))
    for config, change in ((paid_config(), all_jobs), (paid_config(zones), residents)):
        config = config.model_copy(update={"jobs": config.jobs.model_copy(update=change)})
        with pytest.raises(ConfigError, match="whose jobs"):
            run(config)
        assert not book.exists()
        assert left_over(config) == []
