"""A run with a plan given: the release of a run that plans itself, byte for byte, or nothing and no debit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import click.testing
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
import pipelines
from pipelines import ConfigError, ReleaseConfig, plan_hash, resume, run
from pipelines.cli.main import main
from pipelines.ledger.ledger import Ledger
from pipelines.planning.form import PLAN_FILES
from pipelines.release.names import NAME_FILE, write_names
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.running.reviewed_plan import refuse_other_slots
from pipelines.running.steps import PLAN_STEPS, REVIEWED_RUN_STEPS, StepBegins
from pipelines.storage.checksums import sha256_of

from .helpers import GEOMETRIC, Configs, Table, everything, interrupted, seeded


def reviewed(config: ReleaseConfig) -> Path:
    """Return the folder of `odsynth plan`, without what people look at."""
    inputs = pipelines.read_public_inputs(config)
    release = pipelines.make_plan(config, inputs)
    folder = config.release.out.with_name("release-plan")
    folder.mkdir()
    write_names(inputs.names, release.geography, folder)
    numbers = {
        "plan_sha256": pipelines.save_plan(release, folder / "plan"),
        "names_sha256": sha256_of(folder / NAME_FILE) if inputs.names else None,
    }
    (folder / "forecast.json").write_text(json.dumps(numbers))
    return folder


@pytest.fixture(scope="module")
def plan_of_jobs(small_toml: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of the small region; copy it before changing it."""
    folder = tmp_path_factory.mktemp("reviewed")
    return reviewed(pipelines.parse_config(small_toml(), folder, "small.toml"))


@pytest.fixture
def given(plan_of_jobs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plan_of_jobs, tmp_path / "given"))


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


FEWER_LEVELS: Table = {"geography": {"levels": ["st", "cty", "trct"]}}
SEVERAL: Table = {"release": {"implicates": 2, "implicate_source": "one-urn"}}
ONE_RECORD: Table = {"privacy": {"guarantee": "dp"}}
STRATA: Table = {"plan": {"pool_by": ["SE"]}}
NO_NAMES: Table = {"geography": {"names": {}}}


@pytest.mark.parametrize("changes", [{}, SEVERAL | STRATA, GEOMETRIC, ONE_RECORD | NO_NAMES])
def test_the_release_is_that_of_a_run_that_plans_itself(
    changes: Table, configure: Configs, frozen_day: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    itself = everything(seeded(configure(**changes)).public)
    config = configure(**changes)
    folder = reviewed(config)
    monkeypatch.setattr(releasing, "read_public_inputs", pytest.fail)  # no public model is built
    said: list[str] = []
    release = seeded(config, plan=folder, report=said.append)
    assert [each.step for each in said if isinstance(each, StepBegins)] == list(REVIEWED_RUN_STEPS)
    assert everything(release.public) == itself
    assert (NAME_FILE in itself) is ("geography" not in changes)
    assert everything(release.public / "plan") == everything(folder / "plan")
    assert release.certificate.plan_sha256 == plan_hash(folder / "plan")


def test_microdata_with_attributes_and_workers_from_outside(
    configure: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Table],
    frozen_day: None,
    tmp_path: Path,
) -> None:
    jobs = pd.read_parquet(microdata["parquet"])
    jobs.loc[::7, "live"] = "09" + jobs["live"].str[2:]
    path = tmp_path / "jobs.parquet"
    jobs.to_parquet(path, index=False)
    changes = {
        "jobs": microdata_jobs(path),
        "plan": {"pool_by": ["age"]},
        "geography": {"external_zones": ["09"]},
    }
    itself, config = (configure(**changes) for _ in range(2))
    expected = everything(seeded(itself).public)
    assert everything(seeded(config, plan=reviewed(config)).public) == expected


def test_public_files_but_polygons_are_not_needed_any_more(
    given: Path, configure: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """What was planned is in the plan: a crosswalk that changes meanwhile changes nothing."""
    config = configure()
    gone = tmp_path / "gone"
    geography = config.geography.model_copy(update={"file": gone / config.geography.file.name})
    tables = tuple(t.model_copy(update={"file": gone / t.file.name}) for t in config.auxiliary)
    moved = config.model_copy(update={"geography": geography, "auxiliary": tables})
    assert moved.canonical() == config.canonical()
    assert run(moved, plan=given).certificate.plan_sha256 == plan_hash(given / "plan")


def test_another_writer_of_parquet_has_planned(given: Path, configure: Configs) -> None:
    """The plan is kept as it was reviewed: files that this machine would write otherwise."""
    slots = given / "plan" / "slots.parquet"
    pq.write_table(pq.read_table(slots), slots, compression="snappy")
    reseal(given)
    release = run(configure(), plan=given)
    assert everything(release.public / "plan") == everything(given / "plan")


def test_a_link_to_the_folder_is_followed_and_not_kept(
    given: Path, configure: Configs, tmp_path: Path
) -> None:
    link = tmp_path / "approved"
    link.symlink_to(given)
    (given / "plan" / "elsewhere").symlink_to("slots.parquet")  # no file of a plan
    release = run(configure(), plan=link)
    assert {path.name for path in (release.public / "plan").iterdir()} == set(PLAN_FILES)
    assert not any(path.is_symlink() for path in release.public.rglob("*"))


def test_a_plan_that_changes_during_the_run_does_not_matter(
    given: Path, configure: Configs, frozen_day: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = everything(seeded(configure(), plan=given).public)
    read = releasing.take_plan

    def then_it_is_removed(*arguments: object) -> object:
        release = read(*arguments)  # type: ignore[arg-type]
        shutil.rmtree(given)
        return release

    monkeypatch.setattr(releasing, "take_plan", then_it_is_removed)
    release = seeded(configure(), plan=given)
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


def reseal(folder: Path, change: Callable[[dict], object] = lambda _: None) -> None:  # type: ignore[type-arg]
    """Make the hashes of a plan right again, as somebody would who changes it by hand."""
    path = folder / "plan" / "plan.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    document["files"] = {name: sha256_of(folder / "plan" / name) for name in PLAN_FILES[1:]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    numbers = json.loads((folder / "forecast.json").read_text(encoding="utf-8"))
    numbers["plan_sha256"] = plan_hash(folder / "plan")
    (folder / "forecast.json").write_text(json.dumps(numbers))


def test_a_plan_of_another_configuration(given: Path, paid_config: Configs) -> None:
    for changes, keys in (
        ({"privacy": {"epsilon": "8.5"}}, "privacy.epsilon"),
        (ONE_RECORD, "privacy.guarantee"),
        ({"plan": {"retention_min": "0.4", "pool_by": ["SE"]}}, "plan.pool_by, plan.retention_min"),
        (FEWER_LEVELS, "geography.levels"),
        ({"release": {"name": "Another demo"}}, "release.name"),
        (SEVERAL, "release.implicates, release.implicate_source"),
        (GEOMETRIC, "release.mechanism, plan.retention_min"),
    ):
        refused(paid_config(**changes), given, ConfigError, f"they differ in {keys}. Plan again")


def test_what_does_not_change_a_release_may_differ(given: Path, paid_config: Configs) -> None:
    config = paid_config(run={"batch_jobs": 100})
    assert run(config.with_out(config.release.out.with_name("other")), plan=given)


@pytest.mark.parametrize("wrong", ["gone", "altered", "of no area"])
def test_names_of_areas_that_are_not_those_of_the_plan(wrong: str, given: Path, paid_config: Configs) -> None:
    names = given / NAME_FILE
    if wrong == "gone":
        names.unlink()
        words = "not a folder that odsynth plan wrote"
    else:
        table = pd.read_parquet(names)
        table.loc[0, "name" if wrong == "altered" else "code"] = "Nowhere"
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(), names)
        words = "not the one that forecast.json is about"
    if wrong == "of no area":  # and the report says so
        numbers = json.loads((given / "forecast.json").read_text(encoding="utf-8"))
        numbers["names_sha256"] = sha256_of(names)
        (given / "forecast.json").write_text(json.dumps(numbers))
        words = "codes are not units of"
    refused(paid_config(), given, ConfigError, words)


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("pools", "m", pa.float64()),
        ("pools", "n", pa.uint64()),
        ("pools", "class", pa.int64()),
        ("domains", "size", pa.float64()),
        ("shares", "share", pa.large_list(pa.float32())),
        ("slots", "count", pa.int32()),
        ("pools", "domain", None),
    ],
)
def test_columns_of_other_types(
    table: str, column: str, kind: pa.DataType | None, given: Path, paid_config: Configs
) -> None:
    """What another type does to the sampler would be found out only when it has been paid for."""
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


def test_no_names_where_none_are_wanted(given: Path, configure: Configs) -> None:
    release = run(configure(**NO_NAMES), plan=given)
    assert not (release.public / NAME_FILE).exists()


def test_planning_again_does_not_remove_what_else_is_in_the_folder(given: Path, configure: Configs) -> None:
    (given / "release").mkdir()
    with pytest.raises(ConfigError, match="or more than that"):
        pipelines.plan(configure(), given)
    assert (given / "release").is_dir()


def test_planning_again_does_not_replace_another_plan(configure: Configs, tmp_path: Path) -> None:
    """Nobody reviews one plan and runs another: the folder keeps the plan that it has."""
    said: list[str] = []
    first = pipelines.plan(configure(), tmp_path / "plan", report=said.append)
    assert [each.step for each in said if isinstance(each, StepBegins)] == list(PLAN_STEPS)
    assert first.sha256 == plan_hash(first.folder / "plan")
    before = everything(first.folder)
    other = configure(privacy={"epsilon": "8"})
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
    assert pipelines.plan(configure(), first.folder).sha256 == first.sha256  # the same one is kept
    assert everything(first.folder / "plan") == {
        name.removeprefix("plan/"): content for name, content in before.items() if name.startswith("plan/")
    }


@pytest.mark.parametrize("quoted", [{}, [], {"release": 1}, "drop", "true for one"])
def test_a_plan_that_quotes_no_configuration_of_this_program(
    quoted: object, given: Path, paid_config: Configs
) -> None:
    def change(document: dict) -> None:  # type: ignore[type-arg]
        configuration = document["configuration"]
        if quoted == "drop":  # a key that an earlier version did not have, whose default is none
            assert configuration["plan"].pop("prior", "") is None
        elif quoted == "true for one":
            assert configuration["release"]["implicates"] == 1
            configuration["release"]["implicates"] = True
        else:
            document["configuration"] = quoted

    reseal(given, change)
    refused(paid_config(), given, ConfigError, "or by another version of the program; they differ in ")


@pytest.mark.parametrize(
    "what", ["nothing", "file", "plan itself", "no report", "no table", "fifo", "report"]
)
def test_a_folder_that_is_no_plan(what: str, given: Path, paid_config: Configs, tmp_path: Path) -> None:
    if what == "nothing":
        given = tmp_path / "nothing"
    elif what == "file":
        given = given / "forecast.json"
    elif what == "plan itself":
        given = given / "plan"
    elif what == "no report":
        (given / "forecast.json").unlink()
    elif what == "report":
        (given / "forecast.json").write_text("[]")
    else:
        (given / "plan" / "slots.parquet").unlink()
        if what == "fifo":
            os.mkfifo(given / "plan" / "slots.parquet")
    refused(paid_config(), given, ConfigError, "not a folder that odsynth plan wrote")


@pytest.mark.parametrize("name", PLAN_FILES)
def test_a_file_that_was_changed(name: str, given: Path, paid_config: Configs) -> None:
    path = given / "plan" / name
    if name == "plan.json":
        path.write_text(path.read_text().replace('"notes": [', '"notes": ["x", ').replace('["x", ]', '["x"]'))
        refused(paid_config(), given, ConfigError, "not the one that forecast.json is about")
        return
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    refused(paid_config(), given, ConfigError, f"{name}: the file is not the one that plan.json names")


def smaller_prior(document: dict) -> None:  # type: ignore[type-arg]
    for row in document["parameters"]["classes"]:
        row["prior"] = [prior // 10 for prior in row["prior"]]


def higher_epsilon(document: dict) -> None:  # type: ignore[type-arg]
    document["epsilon"] = "20"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (smaller_prior, "the certified totals exceed what was requested; nothing was drawn"),
        (higher_epsilon, "not what its configuration asks for: epsilon and delta"),
        (lambda document: document.update(guarantee="dp"), "asks for: guarantee"),
        (lambda document: document["parameters"].clear(), "the plan cannot be used"),
        (lambda document: document.pop("notes"), "plan.json: keys are missing"),
        (lambda document: document.update(notes=[{"home": "0"}]), "or says more"),
        (lambda document: document["choices"].update(homes=["0"]), "or says more"),
        (lambda document: document["geography"].update(homes=["0"]), "or says more"),
        (lambda document: document["pooling"].update(homes=["0"]), "or says more"),
        (lambda document: document["parameters"].update(homes=["0"]), "or says more"),
        (
            lambda document: document["pooling"].update(below=2),
            "slots are in a pool of another place",
        ),
        (lambda document: document.update(format="odsynth plan 0"), "the format is not 'odsynth plan 2'"),
    ],
)
def test_a_plan_that_was_changed_by_hand(
    change: Callable[[dict], object],  # type: ignore[type-arg]
    words: str,
    given: Path,
    paid_config: Configs,
) -> None:
    """With hashes that fit: what it costs is computed from it, and more than was asked for is refused."""
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda jobs: jobs.iloc[1:], "not as in the plan: another number"),
        (
            lambda jobs: pd.concat([jobs, jobs.tail(1).assign(h_geocode=jobs["h_geocode"].iloc[0])]),
            "not as in",
        ),
        (moved, "not as in the plan"),
        (other_earnings, "1 job is not as in the plan"),
    ],
)
def test_other_jobs(
    change: Callable[[pd.DataFrame], pd.DataFrame],
    words: str,
    given: Path,
    paid_config: Configs,
    small_region: dict[str, Path],
    tmp_path: Path,
) -> None:
    jobs = edited(small_region["od"], change, tmp_path / small_region["od"].name)
    refused(paid_config(jobs={"file": str(jobs)}), given, geo_data.InputError, words)


def test_other_homes_are_no_other_jobs(
    given: Path, paid_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    def at_home(jobs: pd.DataFrame) -> pd.DataFrame:
        return jobs.assign(h_geocode=jobs["w_geocode"]).drop_duplicates(["w_geocode"])

    first = edited(small_region["od"], at_home, tmp_path / "own.csv.gz")
    config = paid_config(jobs={"file": str(first)})
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
    microdata_jobs: Callable[..., Table],
    tmp_path: Path,
) -> None:
    jobs = pd.read_parquet(microdata["parquet"]).sort_values("toil", kind="stable", ignore_index=True)
    path = tmp_path / "jobs.parquet"
    jobs.to_parquet(path, index=False)
    config = paid_config(jobs=microdata_jobs(path, attributes=attributes))
    folder = reviewed(config)
    if change == "fewer":
        jobs = jobs[1:]
    elif change == "more":
        jobs = pd.concat([jobs, jobs[:1].assign(person="another")])
    elif change == "moved":
        jobs.loc[0, "toil"] = jobs["toil"].iloc[-1]
    elif change == "renamed":
        jobs["age"] = jobs["age"].replace("old", "older")
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
    configure: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeping the homes counts the jobs of every work block: a nation's are not read once more."""
    config = configure(jobs=microdata_jobs(microdata["csv"], attributes=[]))
    release = pipelines.make_plan(config)
    monkeypatch.setattr(geo_data.MicrodataJobs, "slots", pytest.fail)
    refuse_other_slots(config, release)


# --- the command


def test_the_command_runs_what_odsynth_plan_wrote(
    small_toml: Callable[..., str], tmp_path: Path, frozen_day: None
) -> None:
    config = tmp_path / "small.toml"
    config.write_text(small_toml())
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

    config.write_text(small_toml(privacy={"epsilon": "4"}))
    other = invoke(main, ["run", str(config), "--plan", str(folder), "--out", str(tmp_path / "other")])
    assert other.exit_code == 1
    assert "they differ in privacy.epsilon" in other.output
    assert not (tmp_path / "other").exists()
