"""A run with a plan given: the release of a run that plans itself, byte for byte, or nothing and no debit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import click.testing
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
import helpers
import pipelines
from helpers import Said, edit_json
from pipelines import ConfigError, ReleaseConfig, resume, run
from pipelines.cli.main import main
from pipelines.ledger.ledger import Ledger
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.simulation import simulate_utility
from pipelines.plans.form import PLAN_FILES, plan_hash
from pipelines.plans.storage import save_plan
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.names import NAME_FILE, write_names
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.running.preflight import refuse_other_slots
from pipelines.running.steps import PLAN_STEPS, REVIEWED_RUN_STEPS, Step
from pipelines.storage.checksums import sha256_of

from .helpers import GEOMETRIC, TABLES, Configs, Table, everything, interrupted, seeded


def reviewed(config: ReleaseConfig) -> Path:
    """Return the folder of `odsynth plan`, without what people look at."""
    inputs = read_public_inputs(config)
    release = pipelines.make_plan(config, inputs)
    folder = config.release.out.with_name("release-plan")
    folder.mkdir()
    write_names(inputs.names, release.geography, folder)
    numbers = {
        "plan_sha256": save_plan(release, folder / "plan"),
        "names_sha256": sha256_of(folder / NAME_FILE) if inputs.names else None,
        "accuracy": simulate_utility(release, inputs.model).accuracy.as_dict(),
    }
    (folder / "forecast.json").write_text(json.dumps(numbers))
    return folder


@pytest.fixture(scope="module")
def plan_of_jobs(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of the small region; copy it before changing it."""
    folder = tmp_path_factory.mktemp("reviewed")
    return reviewed(pipelines.parse_config(config_text(), folder, "small.toml"))


@pytest.fixture
def copies(plan_of_jobs: Path, tmp_path: Path) -> Iterator[Path]:
    """Copies of it, one after the other."""
    return helpers.copies(plan_of_jobs, tmp_path)


@pytest.fixture
def given(copies: Iterator[Path]) -> Path:
    return next(copies)


def refused(config: ReleaseConfig, plan: Path, error: type[Exception], words: str) -> None:
    """Nothing is left, nothing is paid, and not one home is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geo_data.LodesJobs, "parts", lambda *_, **__: pytest.fail("homes were read"))
        patch.setattr(releasing, "make_plan", lambda *_: pytest.fail("a plan was made"))
        with pytest.raises(error, match=words) as caught:
            run(config, plan=plan)
    assert "lan again" in str(caught.value) or "not a folder that odsynth plan wrote" in str(caught.value)
    nothing_done(config)


def nothing_done(config: ReleaseConfig) -> None:
    out = config.release.out
    assert not out.exists()
    assert not RunFolder.of(out).folder.exists()
    if config.ledger is not None:
        assert not config.ledger.file.exists()


# --- the same release


FEWER_LEVELS: Table = {"geography.levels": ["st", "cty", "trct"]}
SEVERAL: Table = {"release.implicates": 2, "release.implicate_source": "one-urn"}
ONE_RECORD: Table = {"privacy.guarantee": "dp"}
STRATA: Table = {"plan.pool_by": ["SE"]}
NO_NAMES: Table = {"geography.names": {}}


@pytest.mark.parametrize("changes", [{}, SEVERAL | STRATA, GEOMETRIC, ONE_RECORD | NO_NAMES])
def test_the_release_is_that_of_a_run_that_plans_itself(
    changes: Table, small_config: Configs, frozen_day: None, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    itself = everything(seeded(small_config(changes)).public)
    config = small_config(changes)
    folder = reviewed(config)
    monkeypatch.setattr(releasing, "read_public_inputs", pytest.fail)  # no public model is built
    said.clear()
    release = seeded(config, plan=folder)
    steps = [begun.step for begun in said.steps]
    measured = [Step.MEASURE, Step.ESTIMATE] if changes == GEOMETRIC else []
    assert steps == [*REVIEWED_RUN_STEPS[:3], *measured, *REVIEWED_RUN_STEPS[3:]]
    assert everything(release.public) == itself
    assert (NAME_FILE in itself) is ("geography.names" not in changes)
    assert everything(release.public / "plan") == everything(folder / "plan")
    assert release.certificate.plan_sha256 == plan_hash(folder / "plan")


def test_microdata_with_attributes_and_workers_from_outside(
    small_config: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., object],
    frozen_day: None,
    tmp_path: Path,
) -> None:
    jobs = pd.read_parquet(microdata["parquet"])
    jobs.loc[::7, "live"] = "09" + jobs["live"].str[2:]
    path = tmp_path / "jobs.parquet"
    jobs.to_parquet(path, index=False)
    changes = {"plan.pool_by": ["age"], "geography.external_zones": ["09"], "jobs.population": None}
    itself, config = (small_config(microdata_jobs(path), changes) for _ in range(2))
    expected = everything(seeded(itself).public)
    assert everything(seeded(config, plan=reviewed(config)).public) == expected


def test_public_files_but_polygons_are_not_needed_any_more(
    given: Path, small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """What was planned is in the plan: a crosswalk that changes meanwhile changes nothing."""
    config = small_config()
    gone = tmp_path / "gone"
    geography = config.geography.model_copy(update={"file": gone / config.geography.file.name})
    tables = tuple(t.model_copy(update={"file": gone / t.file.name}) for t in config.auxiliary)
    moved = config.model_copy(update={"geography": geography, "auxiliary": tables})
    assert moved.public == config.public
    assert run(moved, plan=given).certificate.plan_sha256 == plan_hash(given / "plan")


def test_a_plan_with_bytes_of_another_writer_is_refused_before_anything_is_paid(
    given: Path, small_config: Configs
) -> None:
    """The release would have them, and whoever verifies it could not tell what they are for."""
    slots = given / "plan" / "slots.parquet"
    table, whole = pq.read_table(slots), slots.read_bytes()
    version = f"parquet-cpp-arrow version {pa.__version__}".encode()
    for options in ({"compression": "snappy"}, {"compression": "zstd", "row_group_size": 7}):
        pq.write_table(table, slots, **options)
        reseal(given)
        with pytest.raises(ConfigError, match=r"slots\.parquet.*Plan again"):
            run(small_config(), plan=given)
    slots.write_bytes(whole.replace(version, version[:-1] + b"9"))
    reseal(given)
    with pytest.raises(ConfigError, match=r"another version of pyarrow wrote slots\.parquet. Plan again"):
        run(small_config(), plan=given)


def test_a_link_to_the_folder_is_followed_and_not_kept(
    given: Path, small_config: Configs, tmp_path: Path
) -> None:
    link = tmp_path / "approved"
    link.symlink_to(given)
    (given / "plan" / "elsewhere").symlink_to("slots.parquet")  # no file of a plan
    release = run(small_config(), plan=link)
    assert {path.name for path in (release.public / "plan").iterdir()} == set(PLAN_FILES)
    assert not any(path.is_symlink() for path in release.public.rglob("*"))


def test_a_plan_that_changes_during_the_run_does_not_matter(
    given: Path, small_config: Configs, frozen_day: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = everything(seeded(small_config(), plan=given).public)
    read = releasing.take_plan

    def then_it_is_removed(*arguments: object) -> object:
        release = read(*arguments)  # type: ignore[arg-type]
        shutil.rmtree(given)
        return release

    monkeypatch.setattr(releasing, "take_plan", then_it_is_removed)
    release = seeded(small_config(), plan=given)
    assert everything(release.public) == expected


def test_an_interrupted_run_is_resumed_with_its_plan(given: Path, paid_config: Configs, book: Path) -> None:
    config = paid_config()
    interrupted(config, plan=given)
    reported = plan_hash(given / "plan")
    shutil.rmtree(given)
    release = resume(config.release.out)
    assert release.certificate.plan_sha256 == reported
    assert [entry.plan_sha256 for entry in Ledger(book).entries() if entry.kind == "debit"] == [reported]


# --- refusals


def reseal(folder: Path, change: Callable[[Table], object] = lambda _: None) -> None:
    """Make the hashes of a plan right again, as somebody would who changes it by hand."""
    path = folder / "plan" / "plan.json"
    edit_json(path, change)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["files"] = {name: sha256_of(folder / "plan" / name) for name in PLAN_FILES[1:]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    plan = plan_hash(folder / "plan")
    edit_json(folder / "forecast.json", lambda numbers: numbers.update(plan_sha256=plan))


def test_a_plan_of_another_configuration(given: Path, paid_config: Configs) -> None:
    for changes, keys in (
        ({"privacy.epsilon": "8.5"}, "privacy.epsilon"),
        (ONE_RECORD, "privacy.guarantee"),
        ({"plan.retention_min": "0.4", "plan.pool_by": ["SE"]}, "plan.pool_by, plan.retention_min"),
        (FEWER_LEVELS, "geography.levels"),
        ({"release.name": "Another demo"}, "release.name"),
        (SEVERAL, "release.implicates, release.implicate_source"),
        (TABLES, "release.mechanism, plan.retention_min"),
    ):
        refused(paid_config(changes), given, ConfigError, f"they differ in {keys}. Plan again")


def test_what_does_not_change_a_release_may_differ(given: Path, paid_config: Configs) -> None:
    config = paid_config({"run.batch_jobs": 100})
    assert run(config.with_out(config.release.out.with_name("other")), plan=given)


def test_names_of_areas_that_are_not_those_of_the_plan(copies: Iterator[Path], paid_config: Configs) -> None:
    gone, altered, of_no_area = (next(copies) for _ in range(3))
    (gone / NAME_FILE).unlink()
    refused(paid_config(), gone, ConfigError, "not a folder that odsynth plan wrote")
    for given, column in ((altered, "name"), (of_no_area, "code")):
        table = pd.read_parquet(given / NAME_FILE)
        table.loc[0, column] = "Nowhere"
        written = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
        pq.write_table(written, given / NAME_FILE)
        refused(paid_config(), given, ConfigError, "not the one that forecast.json is about")
    edit_json(  # and the report says so
        of_no_area / "forecast.json",
        lambda numbers: numbers.update(names_sha256=sha256_of(of_no_area / NAME_FILE)),
    )
    refused(paid_config(), of_no_area, ConfigError, "codes are not units of")


def test_a_forecast_that_is_not_of_the_plan(copies: Iterator[Path], paid_config: Configs) -> None:
    def say_otherwise(numbers: Table) -> None:
        numbers["accuracy"]["tables"][0]["carried"] ^= True

    def leave_out(numbers: Table) -> None:
        del numbers["accuracy"]["tables"][-1]

    def try_more(numbers: Table) -> None:
        numbers["accuracy"]["jobs"] = 10**9

    wrong = "carried and noise are not"
    words = {say_otherwise: wrong, leave_out: "its tables are not", try_more: "more jobs"}
    for (change, rule), given in zip(words.items(), copies, strict=False):
        edit_json(given / "forecast.json", change)
        refused(paid_config(), given, ConfigError, rule)


def test_a_plan_without_a_forecast(given: Path, paid_config: Configs) -> None:
    edit_json(given / "forecast.json", lambda numbers: numbers.pop("accuracy"))
    release = run(paid_config(), plan=given)
    assert not (release.public / ACCURACY_FILE).exists()
    text = (release.public / "README.md").read_text(encoding="utf-8")
    assert "There is no forecast of how far the numbers of this release are from the truth." in text
    assert "accuracy" not in [check.name for check in pipelines.verify(release.public)]


COLUMNS: list[tuple[str, str, pa.DataType | None]] = [
    ("pools", "m", pa.float64()),
    ("pools", "n", pa.uint64()),
    ("pools", "class", pa.int64()),
    ("domains", "size", pa.float64()),
    ("shares", "share", pa.large_list(pa.float32())),
    ("slots", "count", pa.int32()),
    ("pools", "domain", None),
]


def test_columns_of_other_types(copies: Iterator[Path], paid_config: Configs) -> None:
    """What another type does to the sampler would be found out only when it has been paid for."""
    for (table, column, kind), given in zip(COLUMNS, copies, strict=False):
        path = given / "plan" / f"{table}.parquet"
        read = pq.read_table(path)
        position = read.column_names.index(column)
        if kind is None:
            cells = pa.array([None, *read[column].to_pylist()[1:]], read[column].type)
        else:
            cells = read[column].cast(kind)
        pq.write_table(read.set_column(position, column, cells).replace_schema_metadata(), path)
        reseal(given)
        words = "there are empty cells" if kind is None else f"column {column} is of another type"
        refused(paid_config(), given, ConfigError, f"{table}.parquet: .*{words}")


def test_a_table_that_cannot_be_read_is_the_plans_fault(given: Path, paid_config: Configs) -> None:
    path = given / "plan" / "slots.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    reseal(given)
    refused(paid_config(), given, ConfigError, "the plan cannot be used")


def test_no_names_where_none_are_wanted(given: Path, small_config: Configs) -> None:
    release = run(small_config(NO_NAMES), plan=given)
    assert not (release.public / NAME_FILE).exists()


def test_planning_again_does_not_remove_what_else_is_in_the_folder(
    given: Path, small_config: Configs
) -> None:
    (given / "release").mkdir()
    with pytest.raises(ConfigError, match="or more than that"):
        pipelines.plan(small_config(), given)
    assert (given / "release").is_dir()


def test_planning_again_does_not_replace_another_plan(
    small_config: Configs, tmp_path: Path, said: Said
) -> None:
    """Nobody reviews one plan and runs another: the folder keeps the plan that it has."""
    first = pipelines.plan(small_config(), tmp_path / "plan")
    assert [begun.step for begun in said.steps] == list(PLAN_STEPS)
    assert first.sha256 == plan_hash(first.folder / "plan")
    before = everything(first.folder)
    other = small_config({"privacy.epsilon": "8"})
    with pytest.raises(ConfigError, match="which may have been reviewed") as caught:
        pipelines.plan(other, first.folder)
    elsewhere = pipelines.plan(other)
    assert elsewhere.folder == other.release.out.with_name("release-plan")
    message = str(caught.value)
    assert message.startswith(f"{first.folder}: plan {first.sha256[:12]} is there")
    assert elsewhere.sha256[:12] in message
    assert "--out" in message
    assert everything(first.folder) == before
    assert not list(tmp_path.glob(".*"))
    assert pipelines.plan(small_config(), first.folder).sha256 == first.sha256  # the same one is kept
    assert everything(first.folder / "plan") == {
        name.removeprefix("plan/"): content for name, content in before.items() if name.startswith("plan/")
    }


def test_a_folder_that_is_no_plan(copies: Iterator[Path], paid_config: Configs, tmp_path: Path) -> None:
    whole, no_report, no_numbers, no_table = (next(copies) for _ in range(4))
    (no_report / "forecast.json").unlink()
    (no_numbers / "forecast.json").write_text("[]")
    (no_table / "plan" / "slots.parquet").unlink()
    others = (no_report, no_numbers, no_table)
    for folder in (tmp_path / "nothing", whole / "forecast.json", whole / "plan", *others):
        refused(paid_config(), folder, ConfigError, "not a folder that odsynth plan wrote")
    os.mkfifo(no_table / "plan" / "slots.parquet")
    refused(paid_config(), no_table, ConfigError, "not a folder that odsynth plan wrote")


def test_a_file_that_was_changed(copies: Iterator[Path], paid_config: Configs) -> None:
    for name, given in zip(PLAN_FILES, copies, strict=False):
        path = given / "plan" / name
        words = f"{name}: the file is not the one that plan.json names"
        if name == "plan.json":
            text = path.read_text().replace('"notes": [', '"notes": ["x", ').replace('["x", ]', '["x"]')
            path.write_text(text)
            words = "not the one that forecast.json is about"
        else:
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        refused(paid_config(), given, ConfigError, words)


def drop(document: Table) -> None:  # a key that an earlier version did not have, whose default is none
    assert document["configuration"]["plan"].pop("prior", "") is None


def true_for_one(document: Table) -> None:
    assert document["configuration"]["release"]["implicates"] == 1
    document["configuration"]["release"]["implicates"] = True


OTHER = "or by another version of the program; they differ in |is not one of this program"


def smaller_prior(document: Table) -> None:
    for row in document["parameters"]["classes"]:
        row["prior"] = [prior // 10 for prior in row["prior"]]


BY_HAND: list[tuple[Callable[[Table], object], str]] = [
    (smaller_prior, "the certified totals exceed what was requested; nothing was drawn"),
    (
        lambda document: document.update(epsilon="20"),
        "not what its configuration asks for: epsilon and delta",
    ),
    (lambda document: document.update(guarantee="dp"), "asks for: guarantee"),
    (lambda document: document["parameters"].clear(), "the plan cannot be used"),
    (lambda document: document.pop("notes"), "plan.json: keys are missing"),
    (lambda document: document.update(notes=[{"home": "0"}]), "or says more"),
    (lambda document: document["choices"].update(homes=["0"]), "or says more"),
    (lambda document: document["geography"].update(homes=["0"]), "or says more"),
    (lambda document: document["pooling"].update(homes=["0"]), "or says more"),
    (lambda document: document["parameters"].update(homes=["0"]), "or says more"),
    (lambda document: document["pooling"].update(below=2), "slots are in a pool of another place"),
    (
        lambda document: document.update(format="odsynth plan 0"),
        "its format is odsynth plan 0, and",
    ),
    (lambda document: document.update(configuration={}), OTHER),
    (lambda document: document.update(configuration=[]), OTHER),
    (lambda document: document.update(configuration={"release": 1}), OTHER),
    (drop, OTHER),
    (true_for_one, OTHER),
]


def test_a_plan_that_was_changed_by_hand(copies: Iterator[Path], paid_config: Configs) -> None:
    """With hashes that fit: what it costs is computed from it, and more than was asked for is refused."""
    for (change, words), given in zip(BY_HAND, copies, strict=False):
        reseal(given, change)
        refused(paid_config(), given, ConfigError, words)


def edited(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], target: Path) -> Path:
    """Write jobs, changed."""
    change(pd.read_csv(path, dtype="str")).to_csv(target, index=False)
    return target


def moved(jobs: pd.DataFrame) -> pd.DataFrame:
    """One row's jobs are at the work block of another."""
    work = jobs["w_geocode"].unique()
    jobs = jobs.drop_duplicates(["w_geocode", "h_geocode"])
    row = jobs.index[jobs["w_geocode"] == work[0]][0]
    with_home = set(jobs["w_geocode"][jobs["h_geocode"] == jobs["h_geocode"][row]])
    jobs.loc[row, "w_geocode"] = next(block for block in work if block not in with_home)
    return jobs


def other_earnings(jobs: pd.DataFrame) -> pd.DataFrame:
    """A worker of one row earns otherwise, in the strata of nobody: totals of work blocks are the same."""
    row = jobs.index[jobs["SE01"].astype(int) > 0][0]
    for name, more in (("SE01", -1), ("SE03", 1)):
        jobs.loc[row, name] = str(int(jobs.loc[row, name]) + more)
    return jobs


OTHER_JOBS: list[tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = [
    (lambda jobs: jobs.iloc[1:], "not as in the plan: another number"),
    (lambda jobs: pd.concat([jobs, jobs.tail(1).assign(h_geocode=jobs["h_geocode"].iloc[0])]), "not as in"),
    (moved, "not as in the plan"),
    (other_earnings, "1 job is not as in the plan"),
]


def test_other_jobs(given: Path, paid_config: Configs, small_region: dict[str, Path], tmp_path: Path) -> None:
    for change, words in OTHER_JOBS:
        jobs = edited(small_region["od"], change, tmp_path / small_region["od"].name)
        refused(paid_config({"jobs.file": jobs}), given, geo_data.InputError, words)


def test_other_homes_are_no_other_jobs(
    given: Path, paid_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    def at_home(jobs: pd.DataFrame) -> pd.DataFrame:
        return jobs.assign(h_geocode=jobs["w_geocode"]).drop_duplicates(["w_geocode"])

    first = edited(small_region["od"], at_home, tmp_path / "own.csv.gz")
    config = paid_config({"jobs.file": str(first)})
    folder = reviewed(config)
    homes = lambda jobs: jobs.assign(h_geocode=jobs["h_geocode"].iloc[::-1].to_numpy())  # noqa: E731
    edited(first, homes, first)
    assert run(config, plan=folder).certificate.plan_sha256 == plan_hash(folder / "plan")


@pytest.mark.parametrize("attributes", [["sector", "age"], []])
@pytest.mark.parametrize("change", ["fewer", "more", "moved", "renamed", "swapped"])
def test_other_microdata(
    change: str,
    attributes: list[str],
    paid_config: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., object],
    tmp_path: Path,
) -> None:
    jobs = pd.read_parquet(microdata["parquet"]).sort_values("toil", kind="stable", ignore_index=True)
    path = tmp_path / "jobs.parquet"
    jobs.to_parquet(path, index=False)
    budget = {"ledger.epsilon": "30", "ledger.delta": "0.1"}  # for all records of a person
    config = paid_config(microdata_jobs(path, attributes=attributes), budget)
    folder = reviewed(config)
    changed = {
        "fewer": jobs[1:],
        "more": pd.concat([jobs, jobs[:1].assign(person="another")]),
        "moved": jobs.assign(toil=[jobs["toil"].iloc[-1], *jobs["toil"][1:]]),
        "renamed": jobs.replace({"age": {"old": "older"}}),
    }
    if change in changed:
        jobs = changed[change]
    else:  # the same totals by work block and by attribute, but not together
        first = jobs.index[jobs["toil"] == jobs["toil"].mode()[0]]
        at = jobs.loc[first].drop_duplicates(["age", "sector"])
        a = at.index[(at["age"] == "young") & (at["sector"] == "office")][0]
        b = at.index[(at["age"] == "old") & (at["sector"] == "field")][0]
        jobs.loc[a, "age"], jobs.loc[b, "age"] = "old", "young"
    jobs.to_parquet(path, index=False)
    if not attributes and change in ("renamed", "swapped"):
        assert run(config, plan=folder)
        return
    with pytest.raises(geo_data.InputError, match="plan again"):
        run(config, plan=folder)
    nothing_done(config)


def test_a_public_file_that_is_the_confidential_one(
    given: Path, paid_config: Configs, small_region: dict[str, Path]
) -> None:
    config = paid_config()
    polygons = config.geography.polygons[0]
    copy = polygons.file.with_name("copy") / polygons.file.name
    copy.parent.mkdir()
    try:
        shutil.copy(small_region["od"], copy)
        tables = (polygons.model_copy(update={"file": copy}),)
        geography = config.geography.model_copy(update={"polygons": tables})
        config = config.model_copy(update={"geography": geography})
        with pytest.raises(ConfigError, match="is a confidential file of"):
            run(config, plan=given)
        nothing_done(config)
    finally:
        shutil.rmtree(copy.parent)


def test_nothing_is_compared_where_jobs_have_no_attributes(
    small_config: Configs, microdata_jobs: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeping the homes counts the jobs of every work block: a nation's are not read once more."""
    config = small_config(microdata_jobs("csv", attributes=[]))
    release = pipelines.make_plan(config)
    monkeypatch.setattr(geo_data.MicrodataJobs, "slots", pytest.fail)
    refuse_other_slots(config, release)


# --- the command


def test_the_command_runs_what_odsynth_plan_wrote(
    config_text: Callable[..., str], tmp_path: Path, frozen_day: None
) -> None:
    config = tmp_path / "small.toml"
    config.write_text(config_text())
    invoke = click.testing.CliRunner(env={"ODSYNTH_DEBUG": ""}).invoke
    planned = invoke(main, ["plan", str(config)])
    assert planned.exit_code == 0, planned.output
    folder = tmp_path / "release-plan"
    digest = plan_hash(folder / "plan")
    assert digest in planned.output
    assert digest in (folder / "plan.txt").read_text(encoding="utf-8")
    done = invoke(main, ["run", str(config), "--plan", str(folder)])
    assert done.exit_code == 0, done.output
    assert "Reading the plan ..." in done.output
    assert digest in done.output
    assert plan_hash(tmp_path / "release" / "public" / "plan") == digest

    config.write_text(config_text({"privacy.epsilon": "4"}))
    other = invoke(main, ["run", str(config), "--plan", str(folder), "--out", str(tmp_path / "other")])
    assert other.exit_code == 1
    assert "they differ in privacy.epsilon" in other.output
    assert not (tmp_path / "other").exists()
