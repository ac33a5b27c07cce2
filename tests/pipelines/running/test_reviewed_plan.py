"""A run with a plan given: the release of a run that plans itself, byte for byte, or nothing and no debit."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import click.testing
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes

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
from pipelines.release.polygons import polygon_file, write_polygons
from pipelines.running import report
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.running.preflight import refuse_other_slots, released_beside
from pipelines.running.report import draw_cells
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
    write_polygons(inputs.polygons, folder)
    numbers = {
        "plan_sha256": save_plan(release, folder / "plan"),
        "beside": released_beside(folder),
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
def plan_folder(copies: Iterator[Path]) -> Path:
    return next(copies)


def refused(config: ReleaseConfig, plan: Path, error: type[Exception], words: str) -> None:
    """Nothing is left, nothing is paid, and not one home is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geo_data.LodesJobs, "parts", lambda *_, **__: pytest.fail("homes were read"))
        patch.setattr(releasing, "make_plan", lambda *_: pytest.fail("a plan was made"))
        with pytest.raises(error, match=words) as caught:
            run(config, plan=plan)
    assert re.search("Fix: (plan again|use the version .* make it again)", str(caught.value))
    nothing_done(config)


def nothing_done(config: ReleaseConfig) -> None:
    out = config.release.out
    assert not out.exists()
    assert not RunFolder.of(out).folder.exists()
    if config.ledger is not None:
        assert not config.ledger.file.exists()


# --- the same release


ONE_RECORD: Table = {"privacy.guarantee": "dp"}
NO_NAMES: Table = {"geography.names": {}}


@pytest.mark.parametrize("changes", [{}, GEOMETRIC | ONE_RECORD | NO_NAMES], ids=["usual", "other"])
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
    measured, corrected = ([Step.MEASURE, Step.ESTIMATE], [Step.CORRECT]) if changes else ([], [])
    assert steps == [*REVIEWED_RUN_STEPS[:3], *measured, Step.DRAW, *corrected, *REVIEWED_RUN_STEPS[4:]]
    assert everything(release.public) == itself
    assert (NAME_FILE in itself) is (not changes)
    assert everything(release.public / "plan") == everything(folder / "plan")
    assert release.certificate.plan_sha256 == plan_hash(folder / "plan")


def test_what_does_not_change_a_release_may_differ(
    plan_folder: Path, small_config: Configs, tmp_path: Path
) -> None:
    """The plan may be a link; public files may be gone, as what was planned is in the plan."""
    (link := tmp_path / "approved").symlink_to(plan_folder)
    (plan_folder / "plan" / "elsewhere").symlink_to("slots.parquet")  # no file of a plan
    config = small_config(NO_NAMES, {"run.batch_jobs": 100})
    gone = tmp_path / "gone"
    shapes = tuple(t.model_copy(update={"file": gone / t.file.name}) for t in config.geography.polygons)
    assert shapes
    files = {"file": gone / config.geography.file.name, "polygons": shapes}
    geography = config.geography.model_copy(update=files)
    tables = tuple(t.model_copy(update={"file": gone / t.file.name}) for t in config.auxiliary)
    moved = config.model_copy(update={"geography": geography, "auxiliary": tables})
    assert moved.public == config.public
    release = run(moved.with_out(tmp_path / "other"), plan=link)
    assert release.certificate.plan_sha256 == plan_hash(plan_folder / "plan")
    assert {path.name for path in (release.public / "plan").iterdir()} == set(PLAN_FILES)
    assert not any(path.is_symlink() for path in release.public.rglob("*"))
    assert not (release.public / NAME_FILE).exists()


def test_a_plan_is_not_needed_once_it_was_read(
    plan_folder: Path, paid_config: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed during the run, which then fails and is resumed."""
    read, reported = releasing.take_plan, plan_hash(plan_folder / "plan")

    def then_it_is_removed(*arguments: object) -> object:
        release = read(*arguments)  # type: ignore[arg-type]
        shutil.rmtree(plan_folder)
        return release

    monkeypatch.setattr(releasing, "take_plan", then_it_is_removed)
    config = paid_config()
    interrupted(config, plan=plan_folder)
    assert resume(config.release.out).certificate.plan_sha256 == reported
    assert [entry.plan_sha256 for entry in Ledger(book).entries() if entry.kind == "debit"] == [reported]


def test_a_plan_without_a_forecast(plan_folder: Path, paid_config: Configs) -> None:
    edit_json(plan_folder / "forecast.json", lambda numbers: numbers.pop("accuracy"))
    release = run(paid_config(), plan=plan_folder)
    assert not (release.public / ACCURACY_FILE).exists()
    text = (release.public / "README.md").read_text(encoding="utf-8")
    assert "There is no forecast of how far the numbers of this release are from the truth." in text
    assert "accuracy" not in [check.name for check in pipelines.verify(release.public)]


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


def test_a_plan_of_another_configuration(plan_folder: Path, paid_config: Configs) -> None:
    several: Table = {"release.implicates": 2, "release.implicate_source": "one-urn"}
    for changes, keys in (
        ({"privacy.epsilon": "8.5"}, "privacy.epsilon"),
        (ONE_RECORD, "privacy.guarantee"),
        ({"plan.retention_min": "0.4", "plan.pool_by": ["SE"]}, "plan.pool_by, plan.retention_min"),
        ({"geography.levels": ["st", "cty", "trct"]}, "geography.levels"),
        ({"release.name": "Another demo"}, "release.name"),
        (several, "release.implicates, release.implicate_source"),
        (TABLES, "release.mechanism, plan.retention_min"),
    ):
        refused(paid_config(changes), plan_folder, ConfigError, f"they differ in {keys}. Fix: plan again")


Change = Callable[[Path], object]
SLOTS, SHAPES = "plan/slots.parquet", polygon_file("trct")


def removed(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def forecast(change: Callable[[Table], object]) -> Change:
    return lambda folder: edit_json(folder / "forecast.json", change)


def carried_or_not(numbers: Table) -> None:
    numbers["accuracy"]["tables"][0]["carried"] ^= True


def by_hand(change: Callable[[Table], object]) -> Change:
    return lambda folder: reseal(folder, change)


def other_name(column: str) -> Change:
    """An area has another name, or a name is of no area."""

    def change(folder: Path) -> None:
        table = pd.read_parquet(folder / NAME_FILE)
        table.loc[0, column] = "Nowhere"
        written = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
        pq.write_table(written, folder / NAME_FILE)

    return change


def name_of_no_area(folder: Path) -> None:
    other_name("code")(folder)
    described_again(folder)


def described_again(folder: Path) -> None:
    """The report says what lies beside the plan now."""
    edit_json(folder / "forecast.json", lambda numbers: numbers.update(beside=released_beside(folder)))


def shapes_cut_off(folder: Path) -> None:
    path = folder / SHAPES
    path.write_bytes(path.read_bytes()[:-9])


def other_shape(folder: Path) -> None:
    table = pq.read_table(folder / SHAPES)
    pq.write_table(table.slice(1), folder / SHAPES, compression="zstd")


def shapes_in_another_order(folder: Path) -> None:
    table = pq.read_table(folder / SHAPES)
    pq.write_table(table.take(list(range(len(table)))[::-1]), folder / SHAPES, compression="zstd")
    described_again(folder)


def no_shapes(folder: Path) -> None:
    (folder / SHAPES).unlink()
    described_again(folder)


def column(table: str, name: str, kind: pa.DataType | None) -> Change:
    """A column has another type, or an empty cell: found out by the sampler, it would have been paid for."""

    def change(folder: Path) -> None:
        path = folder / "plan" / f"{table}.parquet"
        read = pq.read_table(path)
        cells = read[name]
        cells = pa.array([None, *cells.to_pylist()[1:]], cells.type) if kind is None else cells.cast(kind)
        read = read.set_column(read.column_names.index(name), name, cells)
        pq.write_table(read.replace_schema_metadata(), path)
        reseal(folder)

    return change


def written_otherwise(**options: object) -> Change:
    """The release would have such bytes, and whoever verifies it could not tell what they are for."""

    def change(folder: Path) -> None:
        pq.write_table(pq.read_table(folder / SLOTS), folder / SLOTS, **options)
        reseal(folder)

    return change


def by_another_writer(folder: Path) -> None:
    version = f"parquet-cpp-arrow version {pa.__version__}".encode()
    slots = folder / SLOTS
    slots.write_bytes(slots.read_bytes().replace(version, version[:-1] + b"9"))
    reseal(folder)


def zeros_in_the_middle(folder: Path) -> None:
    content = (folder / SLOTS).read_bytes()
    half = len(content) // 2
    (folder / SLOTS).write_bytes(content[:4] + bytes(half) + content[4 + half :])
    reseal(folder)


def pipe(folder: Path) -> None:
    (folder / SLOTS).unlink()
    os.mkfifo(folder / SLOTS)


def last_byte(name: str) -> Change:
    path = f"plan/{name}"
    return lambda folder: (folder / path).write_bytes((folder / path).read_bytes()[:-1] + b"?")


def one_note_more(folder: Path) -> None:
    path = folder / "plan" / "plan.json"
    path.write_text(path.read_text().replace('"notes": [', '"notes": ["x", ').replace('["x", ]', '["x"]'))


def smaller_prior(document: Table) -> None:
    for row in document["parameters"]["classes"]:
        row["prior"] = [prior // 10 for prior in row["prior"]]


def without_prior(document: Table) -> None:  # as of an earlier version; its default is none
    assert document["configuration"]["plan"].pop("prior", "") is None


def true_for_one(document: Table) -> None:
    assert document["configuration"]["release"]["implicates"] == 1
    document["configuration"]["release"]["implicates"] = True


NO_PLAN = "not a folder that odsynth plan wrote"
ANOTHER = "not the plan that forecast.json describes"
OTHER = "or by another version of the program; they differ in |is not one of this program"
PLANS: list[tuple[Change, str]] = [
    (removed(NAME_FILE), NO_PLAN),
    (other_name("name"), ANOTHER),
    (other_name("code"), ANOTHER),
    (name_of_no_area, "codes are not units of"),
    (removed(SHAPES), NO_PLAN),
    (no_shapes, NO_PLAN),
    (shapes_cut_off, ANOTHER),
    (other_shape, ANOTHER),
    (shapes_in_another_order, "codes are not units of trct, each once and in order"),
    (forecast(carried_or_not), "carried and noise are not"),
    (forecast(lambda n: n["accuracy"]["tables"].pop()), "its tables are not"),
    (forecast(lambda n: n["accuracy"].update(jobs=10**9)), "more jobs"),
    (forecast(lambda n: n["accuracy"]["tables"][0].update(planned=0.5)), "but of a release"),
    *(
        (column(table, name, kind), f"{table}.parquet: .*column {name} is of another type")
        for table, name, kind in (
            ("pools", "m", pa.float64()),
            ("pools", "n", pa.uint64()),
            ("pools", "class", pa.int64()),
            ("domains", "size", pa.float64()),
            ("shares", "share", pa.large_list(pa.float32())),
            ("slots", "count", pa.int32()),
        )
    ),
    (column("pools", "domain", None), "pools.parquet: .*there are empty cells"),
    (zeros_in_the_middle, "the plan cannot be used"),
    (written_otherwise(compression="snappy"), r"slots\.parquet.*Fix: plan again"),
    (written_otherwise(compression="zstd", row_group_size=7), r"slots\.parquet.*Fix: plan again"),
    (by_another_writer, r"another version of pyarrow wrote slots\.parquet. Fix: plan again"),
    (removed("forecast.json"), NO_PLAN),
    (lambda folder: (folder / "forecast.json").write_text("[]"), NO_PLAN),
    (removed(SLOTS), NO_PLAN),
    (pipe, NO_PLAN),
    (one_note_more, ANOTHER),
    *((last_byte(name), f"{name}: the file is not the one that plan.json names") for name in PLAN_FILES[1:]),
    # By hand, with hashes that fit: what it costs is computed from it, and more than asked for is refused.
    (by_hand(smaller_prior), "the certified totals exceed what was requested; nothing was drawn"),
    (by_hand(lambda d: d.update(epsilon="20")), "not what its configuration asks for: epsilon and delta"),
    (by_hand(lambda d: d.update(guarantee="dp")), "asks for: guarantee"),
    (by_hand(lambda d: d["parameters"].clear()), "the plan cannot be used"),
    (by_hand(lambda d: d.pop("notes")), "plan.json: keys are missing"),
    (by_hand(lambda d: d.update(notes=[{"home": "0"}])), "does not hold exactly what a plan holds"),
    *(
        (by_hand(lambda d, part=part: d[part].update(homes=["0"])), "does not hold exactly what a plan holds")
        for part in ("choices", "geography", "pooling", "parameters")
    ),
    (by_hand(lambda d: d["pooling"].update(below=2)), "slots are in a pool of another place"),
    (by_hand(lambda d: d.update(format="odsynth plan 0")), "its format is odsynth plan 0, and"),
    *(
        (by_hand(lambda d, value=value: d.update(configuration=value)), OTHER)
        for value in ({}, [], {"release": 1})
    ),
    (by_hand(without_prior), OTHER),
    (by_hand(true_for_one), OTHER),
]


def test_plans_that_cannot_be_used(copies: Iterator[Path], paid_config: Configs, tmp_path: Path) -> None:
    for (change, words), folder in zip(PLANS, copies, strict=False):
        change(folder)
        refused(paid_config(), folder, ConfigError, words)
    whole = next(copies)
    for folder in (tmp_path / "nothing", whole / "forecast.json", whole / "plan"):
        refused(paid_config(), folder, ConfigError, NO_PLAN)


def test_planning_again_replaces_nothing(small_config: Configs, tmp_path: Path, said: Said) -> None:
    """Nobody reviews one plan and runs another: the folder keeps the plan, and what else is in it."""
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
    (first.folder / "release").mkdir()
    with pytest.raises(ConfigError, match="or has other files too"):
        pipelines.plan(small_config(), first.folder)
    assert (first.folder / "release").is_dir()


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
    (lambda jobs: jobs.iloc[1:], "not as in the plan: the number"),
    (lambda jobs: pd.concat([jobs, jobs.tail(1).assign(h_geocode=jobs["h_geocode"].iloc[0])]), "not as in"),
    (moved, "not as in the plan"),
    (other_earnings, "1 job is not as in the plan"),
]


def test_other_jobs(
    plan_folder: Path, paid_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    for change, words in OTHER_JOBS:
        jobs = edited(small_region["od"], change, tmp_path / small_region["od"].name)
        refused(paid_config({"jobs.file": jobs}), plan_folder, geo_data.InputError, words)


def test_other_homes_are_no_other_jobs(
    plan_folder: Path, paid_config: Configs, small_region: dict[str, Path], tmp_path: Path
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
def test_other_microdata(
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
    # The same totals by work block and by attribute, but not together.
    block = jobs[jobs["toil"] == jobs["toil"].mode()[0]]
    kinds = (("young", "office"), ("old", "field"))
    rows = [block.index[(block["age"] == age) & (block["sector"] == sector)][0] for age, sector in kinds]
    swapped = jobs.copy()
    swapped.loc[rows, "age"] = ["old", "young"]
    other_attributes = [jobs.replace({"age": {"old": "older"}}), swapped]
    other_jobs = [
        jobs[1:],
        pd.concat([jobs, jobs[:1].assign(person="another")]),
        jobs.assign(toil=[jobs["toil"].iloc[-1], *jobs["toil"][1:]]),
    ]
    for changed in [*other_jobs, *(other_attributes if attributes else [])]:
        changed.to_parquet(path, index=False)
        with pytest.raises(geo_data.InputError, match="plan again"):
            run(config, plan=folder)
        nothing_done(config)
    if not attributes:
        swapped.to_parquet(path, index=False)
        assert run(config, plan=folder)


def test_a_public_file_that_is_the_confidential_one(
    plan_folder: Path, paid_config: Configs, small_region: dict[str, Path]
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
            run(config, plan=plan_folder)
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


# --- the picture, and the command


def test_of_very_many_blocks_some_are_drawn(
    small_release: pipelines.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 7.7 million blocks of a nation took six minutes."""
    scatter = Axes.scatter
    drawn: list[int] = []
    monkeypatch.setattr(
        Axes, "scatter", lambda axis, x, *a, **k: (drawn.append(len(x)), scatter(axis, x, *a, **k))[1]
    )
    for most, dots in ((120, 120), (50, 40)):
        monkeypatch.setattr(report, "_DOTS", most)
        draw_cells(small_release.plan, tmp_path / "cells.png")
        assert drawn == [dots] * 3
        assert (tmp_path / "cells.png").stat().st_size > 10_000
        drawn.clear()


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
