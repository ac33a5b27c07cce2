"""Configurations: what is accepted, and one clear line with a fix for everything that is not."""

import json
import os
import re
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import with_values
from pipelines.config.loading import ReleaseConfig, check_config, load_config, parse_config
from pipelines.config.sections import (
    AcsTable,
    CtppTable,
    FlowTable,
    LodesTable,
)
from pipelines.config.toml import ConfigError, parse_toml
from synth import MECHANISMS
from synth.rationals import exact

pytestmark = pytest.mark.quick

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

MINIMAL = """\
[release]
name = "Test"
state = "ri"
year = 2019
out = "../out/test"

[privacy]
epsilon = "8.6"
delta = "1e-5"

[jobs]
format = "lodes"
file = "secret place/jobs.csv.gz"
population = "residents"

[geography]
file = "xwalk.csv.gz"
block = "tabblk2010"
levels = ["st", "cty", "trct"]
latitude = "lat"
longitude = "lon"
"""

AUXILIARY = """
[[auxiliary]]
format = "flows"
file = "flows.csv"
origin = "h_county"
origin_level = "cty"
destination = "w_county"
destination_level = "tabblk2010"
flow = "flow"
"""

CTPP = """
[[auxiliary]]
format = "ctpp"
file = "TX_2012thru2016_A302100.csv"
levels = { C43 = "cty", C54 = "trct" }
table = "A302100"
line = 2
"""

ACS = """
[[auxiliary]]
format = "acs"
file = "table1.csv"
level = "cty"
"""

LODES = """
[[auxiliary]]
format = "lodes"
file = "od_2018.csv.gz"
aux = "aux_2018.csv.gz"
origin_level = "trct"
destination_level = "cty"
same_jobs = false
"""

WEIGHTS = """
[weights]
file = "population.csv"
level = "trct"
area = "GEOID"
weight = "POP10"
"""

PLAN = """
[plan]
pool_by = ["age"]
split_threshold = "1/3"
retention_min = "0.5"
prior = "0.01"
"""

MICRODATA = """\
[jobs]
format = "microdata"
file = "jobs.parquet"
home = "home"
work = "work"
worker = "id"
attributes = ["age", "industry"]
records_per_worker = 2
population = "residents"

[geography]"""

JOBS = MINIMAL[MINIMAL.index("[jobs]") : MINIMAL.index("[geography]")]
FULL = MINIMAL.replace(JOBS + "[geography]", MICRODATA) + AUXILIARY + WEIGHTS + PLAN
FULL = FULL.replace("[privacy]\n", '[privacy]\nprotects = "home"\n')


def parse(text: str, folder: Path = Path("/data/configs")) -> ReleaseConfig:
    return parse_config(text, folder, "test.toml")


def problems(written: str | dict[str, Any]) -> tuple[str, ...]:
    check = parse_config if isinstance(written, str) else check_config
    with pytest.raises(ConfigError) as caught:
        check(written, Path("/data/configs"), "test.toml")  # type: ignore[operator]
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert all(line.startswith("test.toml: ") and "\n" not in line for line in caught.value.problems)
    return tuple(line.removeprefix("test.toml: ") for line in caught.value.problems)


def changed(old: str, new: str, text: str = MINIMAL) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


# --- what is accepted


def test_a_mechanism_that_is_not_named_is_any_that_has_what_is_asked_for() -> None:
    config = parse(MINIMAL)
    assert config.release.mechanism is None
    assert config.mechanisms == ("dirichlet", "geometric")


def wide(text: str) -> str:
    """A configuration with external zones, and so with an aux file of the jobs."""
    text = changed('longitude = "lon"\n', 'longitude = "lon"\nexternal_zones = ["us-states"]\n', text)
    return changed('population = "residents"\n', 'aux = "secret place/aux.csv.gz"\n', text)


def test_formats_of_auxiliary_tables() -> None:
    flows, ctpp, lodes, acs = parse(wide(MINIMAL) + AUXILIARY + CTPP + LODES + ACS).auxiliary
    assert isinstance(flows, FlowTable)
    assert (flows.origin, flows.destination) == (("h_county",), ("w_county",))
    assert flows.margin is None
    assert not flows.same_jobs
    assert isinstance(ctpp, CtppTable)
    assert ctpp.levels == {"C43": "cty", "C54": "trct"}
    assert (ctpp.table, ctpp.line) == ("A302100", 2)
    assert isinstance(lodes, LodesTable)
    assert lodes.aux == Path("/data/configs/aux_2018.csv.gz")
    assert (lodes.origin_level, lodes.destination_level, lodes.same_jobs) == ("trct", "cty", False)
    assert isinstance(acs, AcsTable)
    assert (acs.file, acs.level) == (Path("/data/configs/table1.csv"), "cty")


def test_columns_to_be_joined() -> None:
    text = changed('origin = "h_county"', 'origin = ["h_state", "h_county"]\nmargin = "moe"', AUXILIARY)
    (flows,) = parse(MINIMAL + text).auxiliary
    assert isinstance(flows, FlowTable)
    assert flows.origin == ("h_state", "h_county")
    assert flows.margin == "moe"
    one, other = (changed('"h_county"', column, AUXILIARY) for column in ('"a"', '["a"]'))
    assert parse(MINIMAL + one).public.quoted() == parse(MINIMAL + other).public.quoted()


def test_paths_are_relative_to_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "release.toml").write_text(MINIMAL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for path in (folder / "release.toml", Path("configs/release.toml")):
        config = load_config(path)
        assert config.release.out == tmp_path / "out" / "test"
        assert config.jobs.file == folder / "secret place" / "jobs.csv.gz"
    assert parse(changed('"xwalk.csv.gz"', '"/srv/x.csv"')).geography.file == Path("/srv/x.csv")


def test_link_keeps_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "2019-secret.csv").touch()
    (tmp_path / "xwalk.csv.gz").symlink_to(tmp_path / "2019-secret.csv")
    assert parse(MINIMAL, tmp_path).geography.file == tmp_path / "xwalk.csv.gz"


def test_configuration_cannot_be_changed() -> None:
    config = parse(MINIMAL)
    with pytest.raises(pydantic.ValidationError):
        config.privacy.epsilon = Fraction(99)  # type: ignore[misc]


def test_another_output_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = parse(MINIMAL)
    other = config.with_out(Path("elsewhere"))
    assert other.release.out == tmp_path / "elsewhere"
    assert other.public.quoted() == config.public.quoted()
    assert config.release.out.name == "test"
    with pytest.raises(ConfigError, match="this is the root folder"):
        config.with_out("/")


# --- the canonical form


def test_canonical_is_json_without_folders() -> None:
    config = parse(FULL)
    text = json.dumps(config.public.quoted())
    assert json.loads(text) == config.public.quoted()
    assert "/" not in text.replace("1/3", "")
    assert "out" not in config.public.quoted()["release"]
    assert "secret place" not in json.dumps(parse(MINIMAL).public.quoted())


def test_canonical_values() -> None:
    canonical = parse(FULL).public.quoted()
    assert canonical["privacy"] == {
        "epsilon": "8.6",
        "delta": "0.00001",
        "guarantee": "pdp",
        "protects": "home",
        "policy": "full",
    }
    assert canonical["plan"] == {
        "preset": "tuned",
        "coarsening": None,
        "split_threshold": "1/3",
        "cell_level": None,
        "distance_miles": "100",
        "share": "0.9",
        "pool_by": ["age"],
        "pool_level": None,
        "pool_below": None,
        "retention_min": "0.5",
        "prior": "0.01",
        "expected_jobs": None,
    }
    assert canonical["geography"]["file"] == "xwalk.csv.gz"
    assert canonical["auxiliary"][0]["file"] == "flows.csv"
    lodes = parse(wide(MINIMAL) + LODES).public.quoted()["auxiliary"][0]
    assert (lodes["file"], lodes["aux"]) == ("od_2018.csv.gz", "aux_2018.csv.gz")
    ctpp = parse(MINIMAL + CTPP).public.quoted()["auxiliary"][0]
    assert ctpp == {
        "format": "ctpp",
        "file": "TX_2012thru2016_A302100.csv",
        "levels": {"C43": "cty", "C54": "trct"},
        "table": "A302100",
        "line": 2,
    }
    assert parse(MINIMAL).public.quoted()["plan"]["prior"] is None


def test_canonical_does_not_depend_on_how_it_was_written() -> None:
    other = changed('"8.6"', '" 43/5"').replace('"1e-5"', '"0.0000100"')
    assert parse(other, Path("/other")).public.quoted() == parse(MINIMAL).public.quoted()


@given(
    st.fractions(min_value=Fraction(1, 10**9), max_value=100)
    | st.decimals(min_value="1e-40", max_value=100, allow_nan=False)
)
def test_exact_numbers_survive_the_canonical_form(number: Any) -> None:
    canonical = parse(changed('"8.6"', f'"{number}"')).public.quoted()
    assert exact(canonical["privacy"]["epsilon"]) == Fraction(number)


# --- what is refused


def test_a_number_of_too_many_characters() -> None:
    (said,) = problems(changed('"8.6"', f'"0.{"3" * 119}"'))
    assert said.endswith("has 121 characters; write at most 120")


def assert_said(cases: str, text: str) -> None:
    """Check cases: what is written in, or taken out of, a good text; and, indented, the one problem."""
    each = re.findall(r"(?m)(?:^\S.*\n)+(?:^ .*\n)+", cases)
    assert "\n" + "".join(each) == cases
    for case in each:
        written, said = re.split(r"\n(?= )", case, maxsplit=1)
        changes = {}
        for line in written.splitlines():
            key, given, value = line.partition(" = ")
            changes[key] = parse_toml(f"x = {value}", key)["x"] if given else None
        tables = with_values(parse_toml(text, "test.toml"), changes)
        assert problems(tables) == (" ".join(said.split()),), written


OF_REQUIRED_TABLES = r"""
privacy.epsilon = 8.6
    privacy.epsilon: 8.6 is a float; write it as text: "8.6"
privacy.delta = 1e-5
    privacy.delta: 1e-5 is a float; write it as text: "1e-5"
privacy.epsilon = inf
    privacy.epsilon: inf is a float; write it as text: "inf"
privacy.epsilon = 8
    privacy.epsilon: 8 is a bare number; write it as text: "8"
privacy.epsilon = true
    privacy.epsilon: true is not a number written as text, such as "8.6" or "1/3"
privacy.epsilon = "small"
    privacy.epsilon: "small" is not a number; write for example "8.6", "1e-5" or "1/3"
privacy.epsilon = "1/0"
    privacy.epsilon: "1/0" is not a number; write for example "8.6", "1e-5" or "1/3"
privacy.epsilon = "0"
    privacy.epsilon: "0" is not above 0; write a number above 0
privacy.epsilon = "1e12"
    privacy.epsilon: "1e12" is above 100, the largest epsilon; write a smaller number, such as "8"
privacy.epsilon = "-2"
    privacy.epsilon: "-2" is not above 0; write a number above 0
privacy.delta = "1"
    privacy.delta: "1" is not in [0, 1); write a small probability such as "1e-5"
privacy.delta = "-1e-5"
    privacy.delta: "-1e-5" is not in [0, 1); write a small probability such as "1e-5"
privacy.epsilom = "1"
    privacy.epsilom: unknown key; did you mean epsilon?
release.Year = 1
    release.Year: unknown key; did you mean year?
release.epsilon = "1"
    release.epsilon: unknown key; it belongs to [privacy]
jobs.worker = "id"
    jobs.worker: unknown key; it belongs to [jobs] with format = "microdata"
privacy.zzz = 1
    privacy.zzz: unknown key; the keys here are epsilon, delta, guarantee, protects, policy
release.year
    release.year: missing; add a line year = ...
jobs.format
    jobs.format: missing; add a line format = "..."
jobs.format = "stata"
    jobs.format: "stata": Input tag 'stata' found using 'format' does not match any of the expected
    tags: 'lodes', 'microdata'
jobs.format = [1]
    jobs.format: [1]: Input tag '[1]' found using 'format' does not match any of the expected tags:
    'lodes', 'microdata'
release.name = 7
    release.name: 7: Input should be a valid string; write it in quotes
release.name = ""
    release.name: "": String should have at least 1 character; write at least one character
release.name = "a\nb"
    release.name: "a\nb" is not allowed; write one line of text
release.state = "RI"
    release.state: "RI" is not allowed; use lower-case letters, digits and underscores only, such as "ri"
release.state = "ri\n"
    release.state: "ri\n" is not allowed; use lower-case letters, digits and underscores only, such as
    "ri"
release.state = "../ri"
    release.state: "../ri" is not allowed; use lower-case letters, digits and underscores only, such as
    "ri"
release.job_type = "JT06"
    release.job_type: "JT06" is not allowed; use "JT00" (all jobs) to "JT05"
release.mechanism = "magic"
    release.mechanism: "magic" is not a mechanism; use "dirichlet" or "gaussian" or "geometric"
release.language = "German"
    release.language: "German" is not a language of releases; use "de" or "en"
release.year = "2019"
    release.year: "2019": Input should be a valid integer; write it without quotes and point
release.year = 2019.0
    release.year: 2019.0: Input should be a valid integer; write it without quotes and point
release.year = 2019-01-01
    release.year: 2019-01-01: Input should be a valid integer; write it without quotes and point
release.year = 19
    release.year: 19: Input should be greater than or equal to 1900
release.year = 20190
    release.year: 20190: Input should be less than or equal to 2999
geography.file = 1
    geography.file: 1 is not a path; write a path in quotes
geography.file = " "
    geography.file: " " is not a path; write a path in quotes
geography.file = "~/x.csv"
    geography.file: "~/x.csv": ~ is not expanded here; write the whole path
release.out = "/"
    release.out: "/" is the root folder; name a file or folder in it
geography.levels = "st"
    geography.levels: "st": Input should be a list; write for example ["a", "b"], or [] for none
geography.levels = ["st", 5]
    geography.levels #2: 5: Input should be a valid string; write it in quotes
geography.levels = ["st", "a/../../b"]
    geography.levels #2: "a/../../b" cannot name a level: files are named after levels; leave out "/", "\"
    and a leading "."
geography.levels = ["st", "a\\b"]
    geography.levels #2: "a\\b" cannot name a level: files are named after levels; leave out "/", "\" and
    a leading "."
geography.block = ".block"
    geography.block: ".block" cannot name a level: files are named after levels; leave out "/", "\" and a
    leading "."
geography.levels = ["st", "tabblk2010"]
    geography: "tabblk2010" is named 2 times; name a column for one purpose only
geography.longitude = "lat"
    geography: "lat" is named 2 times; name a column for one purpose only
geography.longitude
    geography.longitude: missing beside latitude; name both, or none where the file has polygons
geography.groupings = { part = 4 }
    geography.groupings: "part" is not in geography.levels; add it there, in its order
geography.groupings = { trct = 1 }
    geography.groupings.trct: 1: Input should be greater than or equal to 2
geography.groupings = { trct = true }
    geography.groupings.trct: true: Input should be a valid integer; write it without quotes and point
geography.groupings = 4
    geography.groupings: 4: Input should be a valid dictionary; write a table, such as { a = ... }
geography.external_zones = "25"
    geography.external_zones: "25": Input should be a list; write for example ["a", "b"], or [] for none
geography.non_nesting_areas = ["trct"]
    geography: "trct" is named 2 times; name a column for one purpose only
"""


def test_one_problem() -> None:
    assert_said(OF_REQUIRED_TABLES, MINIMAL)


def test_unknown_table() -> None:
    assert problems(changed("[privacy]", "[privcy]")) == (
        "privacy: missing; add a table [privacy]",
        "privcy: unknown key; did you mean privacy?",
    )


OF_OPTIONAL_TABLES = r"""
auxiliary.0.origin_level = "county"
    auxiliary #1.origin_level: "county" is not a level of the geography; use "st" or "cty" or "trct" or
    "tabblk2010", or add it to geography.levels or geography.non_nesting_areas
weights.level = "tract"
    weights.level: "tract" is not a level of the geography; use "st" or "cty" or "trct" or "tabblk2010",
    or add it to geography.levels
auxiliary.0.flows = "x"
    auxiliary #1.flows: unknown key; did you mean flow?
auxiliary.0.flow
    auxiliary #1.flow: missing; add a line flow = ...
auxiliary.0.flow = "h_county"
    auxiliary #1: "h_county" is named 2 times; name a column for one purpose only
weights.weight = "GEOID"
    weights: "GEOID" is named 2 times; name a column for one purpose only
plan.pool_by = ["sex"]
    plan.pool_by: "sex" is not in jobs.attributes; add it there
plan.pool_by = ["age", "age"]
    plan: "age" is named 2 times; name a column for one purpose only
jobs.attributes = ["age", "home"]
    jobs: "home" is named 2 times; name a column for one purpose only
jobs.count = "n"
    jobs.count: rows that count several jobs cannot name one worker; leave count or worker out
jobs.records_per_worker = 0
    jobs.records_per_worker: 0: Input should be greater than or equal to 1
plan.cell_level = "trct"
    plan.cell_level: only cells that are whole units have a level; write coarsening = "units", or leave this
    line out
plan.split_threshold = "0"
    plan.split_threshold: "0" is not above 0; write a number above 0
plan.split_threshold = 0.3
    plan.split_threshold: 0.3 is a float; write it as text: "0.3"
plan.retention_min = "0"
    plan.retention_min: "0" is not in (0, 1] with a denominator below 2^62; write a number such as "0.5", or
    "1" for no pruning
plan.retention_min = "1e-99"
    plan.retention_min: "1e-99" is not in (0, 1] with a denominator below 2^62; write a number such as "0.5",
    or "1" for no pruning
plan.retention_min = "1.01"
    plan.retention_min: "1.01" is not in (0, 1] with a denominator below 2^62; write a number such as "0.5",
    or "1" for no pruning
plan.prior = "-0.01"
    plan.prior: "-0.01" is not above 0; write a number above 0
"""


def test_one_problem_of_optional_tables() -> None:
    assert_said(OF_OPTIONAL_TABLES, FULL)


WORKLOAD = """
[[workload]]
home = "trct"
work = "trct"
weight = "1/3"

[[workload]]
home = "trct"
attributes = ["age"]
weight = "2"

[[workload]]
home = "stplc"
work = "tabblk2010"
"""

OF_A_WORKLOAD = r"""
workload.0.home = "tract"
    workload #1.home: "tract" is not a level of the geography; use "st" or "cty" or "trct" or "tabblk2010"
    or "stplc", or add it to geography.levels or geography.non_nesting_areas
workload.0.work = "tract"
    workload #1.work: "tract" is not a level of the geography; use "st" or "cty" or "trct" or "tabblk2010"
    or "stplc", or add it to geography.levels or geography.non_nesting_areas
workload.0.home
    workload #1.home: missing; numbers of jobs by workplace are public and released exactly; name the level
    of the home areas
workload.1.attributes = ["sex"]
    workload #2.attributes: "sex" is not an attribute of the jobs; add it to jobs.attributes
workload.1.attributes = ["age", "age"]
    workload #2: "age" is named 2 times; name a column for one purpose only
workload.1.weight = "-1"
    workload #2.weight: "-1" is below 0; write a number of at least 0, such as "1"
workload.1.weight = 0.5
    workload #2.weight: 0.5 is a float; write it as text: "0.5"
workload.2 = { home = "trct", work = "trct" }
    workload #3: this is the same table as workload #1; leave one of the two out
weights.level = "stplc"
    weights.level: "stplc" is not a level of the geography; use "st" or "cty" or "trct" or "tabblk2010", or
    add it to geography.levels
plan.coarsening = "units"
plan.cell_level = "stplc"
    plan.cell_level: "stplc" is not a level of the geography; use "st" or "cty" or "trct" or "tabblk2010", or
    add it to geography.levels
workload.0.wieght = "1"
    workload #1.wieght: unknown key; did you mean weight?
"""


def test_a_workload() -> None:
    text = (
        changed('block = "tabblk2010"', 'block = "tabblk2010"\nnon_nesting_areas = ["stplc"]', FULL)
        + WORKLOAD
    )
    config = parse(text)
    assert [table.weight for table in config.workload] == [Fraction(1, 3), 2, 1]
    assert config.public.quoted()["workload"][1] == {
        "home": "trct",
        "work": None,
        "attributes": ["age"],
        "weight": "2",
    }
    assert_said(OF_A_WORKLOAD, text)
    nothing = text.replace('weight = "1/3"', 'weight = "0"').replace('weight = "2"', 'weight = "0.0"')
    assert problems(nothing + 'weight = "0e3"\n') == (
        'workload: all weights are 0; write weight = "1" in a table that the release is for',
    )
    assert parse(nothing).workload[0].weight == 0  # the third has its default
    several = (
        text.replace('home = "stplc"', 'home = "x"')
        .replace('weight = "1/3"', 'weight = "-1/3"')
        .replace('["age"]\nweight', '["b"]\nweight')
    )
    assert [line.split(": ")[0] for line in problems(several)] == [
        "workload #1.weight",
        "workload #3.home",
        "workload #2.attributes",
    ]


def test_a_workload_of_lodes_jobs_has_one_attribute_a_table() -> None:
    table = '\n[[workload]]\nhome = "trct"\nattributes = {}\n'
    assert parse(MINIMAL + table.format('["SE"]')).workload[0].attributes == ("SE",)
    rule = "LODES counts each attribute by itself; name one attribute in each table"
    assert problems(MINIMAL + table.format('["SE", "SA"]')) == (f"workload #1.attributes: {rule}",)
    assert problems(MINIMAL + table.format('["age"]')) == (
        'workload #1.attributes: "age" is not an attribute of the jobs; use "SA" or "SE" or "SI"',
    )


ATTRIBUTE = """
[[attribute]]
name = "age"
meaning = "age"
unit = "years"
labels = { "1" = "16 to 29" }
"""

OF_AN_ATTRIBUTE = r"""
attribute.0.name = "sex"
    attribute #1.name: "sex" is not an attribute of the jobs; add it to jobs.attributes
attribute.0.name
    attribute #1.name: missing; add a line name = ...
attribute.0.labels = ["young"]
    attribute #1.labels: ["young"]: Input should be a valid dictionary; write a table, such as { a = ... }
attribute.0.labels = { 1 = 29 }
    attribute #1.labels.1: 29: Input should be a valid string; write it in quotes
attribute.0.labels = { 1 = "a\nb" }
    attribute #1.labels.1: "a\nb" is not allowed; write one line of text
attribute.1 = { name = "trct", labels = { "1" = "one" } }
    attribute #2.labels: "trct" is a kind of area, which has no labels; leave it out
attribute.1 = { name = "age" }
    attribute #2.name: attribute #1 describes the same attribute; leave one of the two out
release.contact = "the office"
    release.contact: "the office" is not an e-mail address; write it like "data@example.org"
"""


def test_what_attributes_mean() -> None:
    config = parse(FULL + ATTRIBUTE)
    meant = {
        "name": "age",
        "meaning": "age",
        "unit": "years",
        "labels": {"1": "16 to 29"},
        "categories": None,
        "table": None,
    }
    assert config.public.quoted()["attribute"] == [meant]
    assert_said(OF_AN_ATTRIBUTE, FULL + ATTRIBUTE)
    assert problems(MINIMAL + ATTRIBUTE.replace('"age"', '"SA"', 1)) == (
        "attribute #1: attributes of LODES jobs have their meanings already; leave this table out",
    )


OF_AUXILIARY_TABLES = r"""
auxiliary.0.format
    auxiliary #1.format: missing; add a line format = "..."
auxiliary.0.format = "matrix"
    auxiliary #1.format: "matrix": Input tag 'matrix' found using 'format' does not match any of the
    expected tags: 'flows', 'ctpp', 'acs', 'lodes'
auxiliary.0.aux = "x"
    auxiliary #1.aux: unknown key; it belongs to [[auxiliary]] with format = "lodes"
auxiliary.0.worker = "x"
    auxiliary #1.worker: unknown key; it belongs to [jobs] with format = "microdata"
auxiliary.0.origin = []
    auxiliary #1.origin: [] is not a column; write the name of a column, or the names of columns to join:
    ["state", "county"]
auxiliary.0.destination = 5
    auxiliary #1.destination: 5 is not a column; write the name of a column, or the names of columns to join:
    ["state", "county"]
auxiliary.0.origin = ["h_state", 5]
    auxiliary #1.origin #2: 5: Input should be a valid string; write it in quotes
auxiliary.0.origin = ["state", "w_county"]
    auxiliary #1: "w_county" is named 2 times; name a column for one purpose only
auxiliary.0.margin = "flow"
    auxiliary #1: "flow" is named 2 times; name a column for one purpose only
auxiliary.0.same_jobs = "yes"
    auxiliary #1.same_jobs: "yes": Input should be a valid boolean; write true or false, without quotes
auxiliary.1.levels.C54 = "tract"
    auxiliary #2.levels.C54: "tract" is not a level of the geography; use "st" or "cty" or "trct" or
    "tabblk2010", or add it to geography.levels or geography.non_nesting_areas
auxiliary.1.levels.C54
auxiliary.1.levels.tract = "trct"
    auxiliary #2.levels: "tract" is not a summary level of flows; write the first three characters of the
    GEOID: "C43" for counties, "C54" for tracts
auxiliary.1.levels.C54 = 11
    auxiliary #2.levels: 11 is not a level of the geography; write its name in quotes, or the levels of
    residence and workplace: ["stplc", "cty"]
auxiliary.1.levels = ["cty"]
    auxiliary #2.levels: ["cty"] is not a table of summary levels; write for example { C43 = "cty", C54 =
    "trct" }
auxiliary.1.levels
    auxiliary #2.levels: missing; add a line levels = ...
auxiliary.1.line = 0
    auxiliary #2.line: 0: Input should be greater than or equal to 1
auxiliary.3.level = "county"
    auxiliary #4.level: "county" is not a level of the geography; use "st" or "cty" or "trct" or
    "tabblk2010", or add it to geography.levels or geography.non_nesting_areas
auxiliary.2.destination_level = "county"
    auxiliary #3.destination_level: "county" is not a level of the geography; use "st" or "cty" or "trct"
    or "tabblk2010", or add it to geography.levels or geography.non_nesting_areas
auxiliary.2.flow = "S000"
    auxiliary #3.flow: unknown key; it belongs to [[auxiliary]] with format = "flows"
"""


def test_one_problem_of_auxiliary_tables() -> None:
    assert_said(OF_AUXILIARY_TABLES, wide(MINIMAL) + AUXILIARY + CTPP + LODES + ACS)


def test_auxiliary_tables_that_are_values() -> None:
    line = "auxiliary #1: 5: Input should be a table; write [[auxiliary]] above its keys, in double brackets"
    assert line in problems("auxiliary = [5]\n" + MINIMAL)


def test_auxiliary_in_single_brackets() -> None:
    (line,) = problems(MINIMAL + AUXILIARY.replace("[[auxiliary]]", "[auxiliary]"))
    assert line.startswith("auxiliary: {")
    assert line.endswith("Input should be a list; write [[auxiliary]] above its keys, in double brackets")


def test_table_that_is_a_value() -> None:
    for table in ("release", "privacy", "jobs", "geography", "weights", "plan"):
        lines = problems(f"{table} = 5\n" + MINIMAL.replace(f"[{table}]", "[unused]"))
        assert (
            f"{table}: 5: Input should be a table; write [{table}] above its keys, in single brackets"
            in lines
        )


def test_everything_wrong_is_said_at_once() -> None:
    text = changed('"8.6"', "8.6", FULL)
    text = changed('"1e-5"', '"2"', text)
    text = changed("year = 2019", "yaer = 2019", text)
    text = changed('origin_level = "cty"', 'origin_level = "county"', text)
    assert [line.split(": ")[0] for line in problems(text)] == [
        "release.year",
        "release.yaer",
        "privacy.epsilon",
        "privacy.delta",
        "auxiliary #1.origin_level",
    ]


def test_text_that_is_no_configuration() -> None:
    assert [line.split(":")[0] for line in problems("")] == ["release", "privacy", "jobs", "geography"]
    for text, end in (("year 2019", ": year 2019"), ("year = 2019\nyear = 2020", "")):
        (line,) = problems(changed("year = 2019", text))
        assert line.startswith("not valid TOML: ")
        assert line.endswith(end)
        assert "line 4" in line or "overwrite" in line


@given(st.text(max_size=200))
def test_any_text_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^test\.toml: "):
        parse(text)


WORDS = st.sampled_from(["", "cty", "8.6", "lodes", "\0", "age"])
JUNK = st.recursive(
    st.just(1.5) | st.booleans() | st.integers(-5, 3000) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)


def inline(value: Any) -> str:
    """A value as TOML writes it inside a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {inline(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(part) for part in value) + "]"
    return json.dumps(value)


def outcome(text: str) -> tuple[str, ...]:
    try:
        parse(text)
    except ConfigError as error:
        return error.problems
    return ()


@given(st.data())
def test_no_value_breaks_the_messages(data: st.DataObject) -> None:
    """Whatever stands at a key, the outcome is a configuration or known words that name file and key."""
    flows = changed('flow = "flow"', 'flow = "flow"\nsame_jobs = true\nmargin = "moe"', FULL)
    tables = tomllib.loads(data.draw(st.sampled_from([flows, MINIMAL + CTPP, wide(MINIMAL) + LODES])))
    table = data.draw(st.sampled_from(sorted(tables)))
    if data.draw(st.booleans()):
        tables[table] = data.draw(JUNK)
    else:
        members = tables[table][0] if table == "auxiliary" else tables[table]
        members[data.draw(st.sampled_from([*sorted(members), "zzz", ""]))] = data.draw(JUNK)
    text = "\n".join(f"{name} = {inline(value)}" for name, value in tables.items())
    for line in outcome(text):
        assert line.startswith("test.toml: ")
        assert "see the examples" not in line  # the words for an error that nobody expected


# --- what would take for ever, wrap around or end in a traceback

NUMBERS = ["1e400", "1e99999999", "9" * 5000, "1e-101", "0x1", "1_000", "\u0661", "1/0", "nan", "inf"]


def test_exact_numbers(small_config: Callable[..., ReleaseConfig]) -> None:
    for number in NUMBERS:
        with pytest.raises(ConfigError, match=r"privacy\.epsilon: "):
            small_config({"privacy.epsilon": number})
    for number in ("1e99999999", "1e9999", "9" * 5000, "\u0661"):
        with pytest.raises(ValueError, match="is not a number"):
            exact(number)


def test_whole_numbers(small_config: Callable[..., ReleaseConfig]) -> None:
    for key in ("run.batch_jobs", "plan.pool_below"):
        with pytest.raises(ConfigError, match=f"{key}: .* less than or equal to"):
            small_config({key: 2**31})
    with pytest.raises(ConfigError, match="batch_jobs: 100000000000000000000: Input should be less"):
        small_config({"run": {"batch_jobs": 10**20}})


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "[" * 5000,
        "a = " + "9" * 5000,
        "a = {" * 5000,
        "a." * 5000 + "b = 1",
        "a = " + "[" * 30 + "]" * 30,
    ],
)
def test_nesting_and_digits(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^x\.toml: "):
        parse_toml(text, "x.toml")


# --- files


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes('name = "Orléans"'.encode("latin-1"))
    for file, words in (
        (tmp_path / "nowhere.toml", r"nowhere\.toml: there is no such file; give the path"),
        (tmp_path, "this is a folder"),
        (path, r"latin\.toml: the text is not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_config(file)
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "zero.toml"):
        with pytest.raises(ConfigError, match="pipe, socket or device"):
            load_config(tmp_path / name)
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())  # a byte order mark is harmless
    assert load_config(str(path)).release.name == "Test"


def test_examples_are_valid() -> None:
    for path in EXAMPLES.glob("*.toml"):
        config = load_config(path)
        assert config.release.mechanism in MECHANISMS
        assert config.privacy.epsilon > 0
        if path.stem in ("demo", "rhode_island"):
            assert config.privacy.epsilon == Fraction(43, 5)
            assert config.release.out.parent == EXAMPLES.parent / "out"
            assert len(config.auxiliary) == 2


# --- geographies with few levels, and workers from outside


def with_geography(line: str, levels: str = '["st", "cty", "trct"]') -> str:
    return MINIMAL.replace('["st", "cty", "trct"]', levels) + line + "\n"


def test_groupings_are_levels_with_numbers_of_parts() -> None:
    config = parse(with_geography("groupings = { part = 4 }", '["st", "part"]'))
    assert config.geography.groupings == {"part": 4}
    assert config.public.quoted()["geography"]["groupings"] == {"part": 4}


PLACES = """
[[auxiliary]]
format = "ctpp"
file = "flows.csv"
levels = { C43 = "cty", C45 = "stplc", C50 = ["stplc", "cty"] }
"""


def test_auxiliary_tables_may_be_of_non_nesting_areas() -> None:
    config = parse(with_geography('non_nesting_areas = ["stplc"]') + PLACES)
    assert config.geography.non_nesting_areas == ("stplc",)
    (table,) = config.auxiliary
    assert isinstance(table, CtppTable)
    assert table.levels == {"C43": "cty", "C45": "stplc", "C50": ("stplc", "cty")}
    assert config.public.quoted()["geography"]["non_nesting_areas"] == ["stplc"]
    assert config.public.quoted()["auxiliary"][0]["levels"]["C50"] == ["stplc", "cty"]


def test_what_may_be_left_out() -> None:
    assert parse(MINIMAL.replace('latitude = "lat"\nlongitude = "lon"\n', "")).geography.latitude is None
    assert parse(changed('["st", "cty", "trct"]', "[]")).geography.levels == ()
    assert parse(changed('"1e-5"', '"0.0"')).privacy.delta == 0
