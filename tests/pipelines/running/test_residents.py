"""Releases of jobs of residents: what is not protected is said everywhere; it cannot be removed or added."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import geo_data
from helpers import edit_json, forge, plan_again, refused
from pipelines import ConfigError, Release, plan, run, verify
from pipelines.config.sections import MicrodataJobsSettings
from pipelines.ledger.terms import ANYWHERE, Terms
from pipelines.release.certificate import population_in_words
from pipelines.release.layout import seal
from pipelines.running.payment import terms_of
from pipelines.views.maps.page import certificate_words

from .helpers import Configs, left_over

SAID = population_in_words("residents", protected=False)
MEMBERSHIP = "is taken to be public and is not protected"
ZONES = {"geography.external_zones": ["09", "25"], "jobs.population": None}


def one_line(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


# --- what is said


def test_what_is_debited_says_whose_jobs_and_how_many_records(
    small_release: Release, zoned_release: Release
) -> None:
    """Membership of the geography is public, so its blocks are a part of what a debit is a guarantee of."""
    plan, geography = small_release.plan, small_release.plan.geography
    other = replace(geography, block_codes=pa.array([f"{code}0" for code in geography.blocks]))
    terms = terms_of(plan)
    assert re.fullmatch("inside [0-9a-f]{16}", terms.homes or "")
    assert Terms.of_sum([terms, terms_of(replace(plan, geography=other))]) is None
    assert terms_of(zoned_release.plan).homes == ANYWHERE
    jobs = MicrodataJobsSettings(
        format="microdata", file="jobs.csv", home="h", work="w", records_per_worker=3, population="residents"
    )
    several = plan.config.model_copy(update={"jobs": jobs})
    assert terms_of(replace(plan, config=several)).records == 3


def test_everything_that_describes_the_release_says_it(small_release: Release, small_config: Configs) -> None:
    assert MEMBERSHIP in SAID
    certificate = small_release.certificate
    assert certificate.population == "residents"
    definition = certificate.definition
    assert SAID in definition.words
    assert "had another origin inside the geography." in definition.words
    assert "inside the geography" in definition.neighbours
    assert any("membership of it is taken to be public" in line for line in definition.not_covered)
    assert any("the home of each lies inside" in line for line in definition.assumed_public)
    readme = one_line((small_release.public / "README.md").read_text(encoding="utf-8"))
    assert SAID in readme
    assert "another home inside the geography" in readme
    assert SAID in one_line(certificate_words(certificate, signed=False))
    planned = plan(small_config())
    assert SAID in planned.text()
    assert SAID in (planned.folder / "plan.txt").read_text(encoding="utf-8")
    numbers = json.loads((planned.folder / "forecast.json").read_text(encoding="utf-8"))
    assert numbers["population"] == "residents"


def test_a_release_with_external_zones_says_nothing_of_it(zoned_release: Release) -> None:
    public = zoned_release.public
    certificate = zoned_release.certificate
    assert certificate.population is None
    texts = [(public / name).read_text(encoding="utf-8") for name in ("README.md", "certificate.json")]
    for text in (*texts, certificate_words(certificate, signed=False)):
        named = text.replace('"residents"', "").replace("| residents of trct by", "")  # tables
        assert "residents" not in named
        assert "inside the geography" not in text
    assert zoned_release.plan.config.jobs.population == "all"


def test_with_public_workplaces_membership_is_protected_as_presence_is(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path, clean_source: object
) -> None:
    """And nothing says that it is not."""
    table = pd.read_csv(small_region["od"], dtype={"w_geocode": "str"}).drop(
        columns=["h_geocode", "createdate"]
    )
    table.groupby("w_geocode", as_index=False).sum().to_csv(tmp_path / "public.csv", index=False)
    release = run(small_config({"workplaces": {"file": str(tmp_path / "public.csv")}}))
    said = population_in_words("residents", protected=True)
    assert "with the numbers of `presence`" in said
    certificate = release.certificate
    assert certificate.population == "residents"
    assert said in certificate.definition.words
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    for text in (readme, certificate_words(certificate, signed=False)):
        assert said in one_line(text)
    for text in (readme, certificate.model_dump_json()):
        assert MEMBERSHIP not in one_line(text)
    assert [check.name for check in verify(release.public)][-1] == "for release"


# --- what is refused


def test_jobs_of_some_homes_are_refused_unless_it_is_declared(
    small_config: Configs, microdata_jobs: Callable[..., Any], zones: dict[str, Any]
) -> None:
    declaration = 'or write population = "residents" in [jobs]'
    both = "leave out one of the two"
    for change, key, words in (
        ({"jobs.population": None}, "jobs.aux: missing", declaration),
        ({"jobs.population": "all"}, "jobs.aux: missing", declaration),
        (microdata_jobs("csv", population="all"), "geography.external_zones: missing", declaration),
        (zones | {"jobs.population": "residents"}, "jobs.population", both),
        ({"geography.external_zones": ["25"]}, "jobs.population", both),
        (microdata_jobs("csv") | {"geography.external_zones": ["25"]}, "jobs.population", both),
        ({"jobs.aux": "aux.csv"}, "jobs.population", both),
        ({"jobs.population": "resident"}, "jobs.population", "is not known"),
    ):
        with pytest.raises(ConfigError) as caught:
            small_config(change)
        (problem,) = caught.value.problems
        assert problem.startswith(f"small.toml: {key}"), problem
        assert words in problem


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
        assert "all may know so" in error.fix
    assert left_over(config) == []


def test_a_configuration_that_was_not_checked_is_refused_before_it_is_paid(
    paid_config: Configs, book: Path, zones: dict[str, Any]
) -> None:
    """As a job in the queue of a service that an earlier version took on."""
    all_jobs, residents = ({"population": value} for value in ("all", "residents"))
    for config, change in ((paid_config(), all_jobs), (paid_config(zones), residents)):
        config = config.model_copy(update={"jobs": config.jobs.model_copy(update=change)})
        with pytest.raises(ConfigError, match="whose jobs"):
            run(config)
        assert not book.exists()
        assert left_over(config) == []


# --- what is forged


def test_a_declaration_that_was_removed_is_found(small_release: Release, tmp_path: Path) -> None:
    public = Path(shutil.copytree(small_release.public, tmp_path / "public"))
    document = json.loads((public / "certificate.json").read_text(encoding="utf-8"))

    def without(lines: str) -> dict[str, Any]:
        kept = [line for line in document["definition"][lines] if "inside the geography" not in line]
        assert len(kept) == len(document["definition"][lines]) - 1
        return document | {"definition": document["definition"] | {lines: kept}}

    words = {"words": document["definition"]["words"].removesuffix(f" {SAID}")}
    assert words != {"words": document["definition"]["words"]}
    for forged, check in (
        (document | {"population": None}, "plan"),
        (without("not_covered"), "guarantee"),
        (without("assumed_public"), "guarantee"),
        (document | {"definition": document["definition"] | words}, "guarantee"),
    ):
        forge(public, forged)
        assert refused(public).check == check
    forge(public, document)
    assert [check.name for check in verify(public)][-1] == "for release"
    readme = (public / "README.md").read_text(encoding="utf-8")
    start = readme.index("The released population")
    (public / "README.md").write_text(
        readme[:start] + readme[readme.index("\n\n", start) + 2 :], encoding="utf-8"
    )
    seal(public, small_release.certificate)
    assert refused(public).check == "texts"


def test_a_declaration_that_was_removed_from_the_plan_too_is_found(
    small_release: Release, tmp_path: Path
) -> None:
    public = Path(shutil.copytree(small_release.public, tmp_path / "public"))
    edit_json(public / "certificate.json", lambda certificate: certificate.update(population=None))
    plan_again(public, lambda document: document["configuration"]["jobs"].update(population="all"))
    error = refused(public)
    assert error.check == "plan"
    assert "without external zones" in str(error)
    # Nor do zones that only the configuration has make it one of all jobs, or the other way round.
    plan_again(public, lambda document: document["configuration"]["geography"].update(external_zones=["25"]))
    assert refused(public).check == "plan"


def test_a_declaration_that_was_added_is_found(zoned_release: Release, tmp_path: Path) -> None:
    public = Path(shutil.copytree(zoned_release.public, tmp_path / "public"))
    document = json.loads((public / "certificate.json").read_text(encoding="utf-8"))
    forge(public, document | {"population": "residents"})
    assert "whose jobs are released" in str(refused(public))
    plan_again(public, lambda document: document["configuration"]["jobs"].update(population="residents"))
    assert "without external zones" in str(refused(public))


def test_zones_that_the_configuration_does_not_ask_for_are_found(
    zoned_release: Release, tmp_path: Path
) -> None:
    public = Path(shutil.copytree(zoned_release.public, tmp_path / "public"))
    plan_again(public, lambda document: document["configuration"]["geography"].update(external_zones=["09"]))
    assert "external zones: not what its configuration asks for" in str(refused(public))
