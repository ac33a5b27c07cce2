"""The command line: help, exit codes, one clear error for bad input, and no word of the data."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import click
import click.testing
import pandas as pd
import pytest

import geo_data
import pipelines
import synth
from pipelines.cli.common import counter
from pipelines.cli.main import main
from pipelines.planning import search
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.release import certificate
from pipelines.release.signing import signature_in_words
from pipelines.running import batches
from pipelines.running import run as releasing
from pipelines.storage.progress import EstimatedTotal

Invoke = Callable[..., click.testing.Result]
Refused = Callable[..., str]
VERBS = ["demo", "plan", "run", "tune", "verify"]
CODES = {"w_geocode": "str", "h_geocode": "str"}
OD = "demo_od_main_JT00_2019.csv.gz"
FILES = {
    "od": "jobs.file",
    "crosswalk": "geography.file",
    "county_flows": "auxiliary.0.file",
    "tract_flows": "auxiliary.1.file",
    "population": "weights.file",
    "tracts": "geography.polygons.0.file",
}


@pytest.fixture
def invoke() -> Invoke:
    """Run odsynth inside this process."""
    runner = click.testing.CliRunner(env={"ODSYNTH_DEBUG": ""})
    return lambda *arguments, **more: runner.invoke(main, [str(word) for word in arguments], **more)


def odsynth(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    """Run odsynth as a process of its own."""
    command = [sys.executable, "-m", "pipelines.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]


@pytest.fixture
def write_config(tmp_path: Path, config_text: Callable[..., str]) -> Callable[..., Path]:
    """Write a configuration of the small region to a folder of its own."""

    def write(*change: Mapping[str, object], jobs: Path | None = None) -> Path:
        folder = tmp_path / "config"
        folder.mkdir(exist_ok=True)
        (folder / "small.toml").write_text(config_text(*change, jobs=jobs))
        return folder / "small.toml"

    return write


def tree(folder: Path) -> dict[str, int]:
    """All files and folders, with the time of the last change of the files."""
    return {
        str(path.relative_to(folder)): 0 if path.is_dir() else path.lstat().st_mtime_ns
        for path in folder.rglob("*")
    }


# --- help


def test_help(invoke: Invoke) -> None:
    for verb, option in itertools.product(["", *VERBS], ["-h", "--help"]):
        result = invoke(*([verb] if verb else []), option)
        assert result.exit_code == 0
        assert f"Usage: main {verb}".rstrip() in result.output
        if verb:
            assert len(result.output.split("Options:")[0].splitlines()) > 3, "says what it does"
        else:
            assert all(f"\n  {name}" in result.output for name in VERBS)


def test_version(invoke: Invoke) -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert re.search(r"version \d", result.output)


def test_wrong_usage_is_code_2_with_a_hint(invoke: Invoke) -> None:
    for words in ("frobnicate", "run", "plan", "verify", "run a b", "plan --no-such x"):
        result = invoke(*words.split())
        assert result.exit_code == 2
        assert "Error: " in result.stderr
        assert "--help" in result.stderr


def verbs(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from verbs(command) if isinstance(command, click.Group) else [command]


def test_a_url_in_the_place_of_any_path_is_refused(invoke: Invoke) -> None:
    paths = [p for verb in verbs(main) for p in verb.params if isinstance(p.type, click.Path)]
    assert len(paths) > 40
    for path in paths:
        with pytest.raises(click.BadParameter, match=r"this is a URL; write a path\. ") as refused:
            path.type.convert("s3://CANARY:CANARY@bucket/x", path, None)
        assert "CANARY" not in refused.value.format_message()
    assert invoke("resume", "s3://bucket/x").exit_code == 2
    with pytest.raises(ValueError, match="out: this is a URL"):
        pipelines.resume(Path("s3://bucket/x"))


# --- plan, run, verify


def test_plan_says_what_it_costs_and_reads_no_homes(
    write_config: Callable[..., Path],
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    figure_of_cells: None,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(geo_data.LodesJobs, "parts", pytest.fail)
    account = {"file": "ledger.sqlite", "data_set": "jobs", "epsilon": "5", "delta": "1e-4"}
    config = write_config({"ledger": account})
    before = tree(tmp_path)
    result = invoke("plan", config)
    assert result.exit_code == 0, result.output
    report = config.parent / "release-plan"
    assert {p.name for p in report.iterdir()} == {
        *("plan", "plan.txt", "forecast.json", "cells.png", "names.parquet", "geo")
    }
    assert (report / "cells.png").read_bytes().startswith(b"\x89PNG")
    whole = (report / "plan.txt").read_text()
    assert all(line in whole for line in result.stdout.split("Plan hash")[0].splitlines())
    assert "  domains   " not in result.stdout
    assert "  domains   " in whole
    assert "  domains   " in invoke("plan", config, "--verbose").stdout
    assert re.search(r"  trct to trct +0\.\d{3} +0\.\d{3} +0\.\d{3}\n", result.stdout)
    warned = re.findall(r"Warning     the release will not carry the table (.+?): it", result.stdout)
    forecast = json.loads((report / "forecast.json").read_text())
    assert warned == [one["table"] for one in forecast["workload"] if not one["carried"]]
    assert f"right for {forecast['guess']['public']:.0%} of the jobs from public data alone" in result.stdout
    tables = forecast["accuracy"]["tables"]
    muted = [x["home"] for x in tables if x["table"] == f"{x['home']} to {x['home']}" and x["noise"]]
    assert f"flows between units of {', '.join(muted)}: maps of the release mute them" in result.stdout
    assert [one["loss"] > 0.9 * one["public_model"] for one in forecast["workload"]] == [
        one["table"] in warned for one in forecast["workload"]
    ]
    assert "told apart by one of them at most: here by none. By SA, SE, SI the jobs" in result.stdout
    assert "  cost      noise" in whole
    assert "Budget      jobs: left epsilon 5, delta 0.0001; THIS RELEASE COSTS MORE" in result.stdout
    assert "Run it with" not in result.stdout
    assert "600 jobs in 21 pools" in whole
    assert "requested 8.6 and 0.00001" in result.stdout
    assert re.search(r"epsilon [78]\.\d+, delta 0\.0000\d+ for the run", result.stdout)
    assert "noise" in result.stdout
    assert not (config.parent / "release").exists()
    shutil.rmtree(report)
    assert tree(tmp_path) == before, "plan writes its report and nothing else"


def test_more_weight_is_advice_only_beside_another_table(
    write_config: Callable[..., Path], invoke: Invoke
) -> None:
    alone = {"home": "tabblk2010", "work": "tabblk2010"}
    changes = {"release.mechanism": "geometric", "plan.retention_min": None, "privacy.epsilon": "0.2"}
    for name, tables in (("one", [alone]), ("two", [alone, {"home": "cty", "work": "cty"}])):
        config = write_config({"workload": tables, "release.out": name, **changes})
        result = invoke("plan", config)
        (line,) = re.findall("Warning     the release will not carry the table tabblk.*", result.stdout)
        assert ("more weight" in line) == (name == "two")
        assert f"Run it with: odsynth run {config} --plan {config.parent / f'{name}-plan'}" in result.stdout


def test_tune_compares_and_recommends(
    write_config: Callable[..., Path],
    invoke: Invoke,
    small_region: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = write_config()
    arguments = [
        "tune",
        config,
        "--epsilon",
        "8.6",
        "--split-threshold",
        "1,30",
        "--coarsening",
        "threshold",
        "--mechanism",
        "dirichlet",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(geo_data.LodesJobs, "parts", pytest.fail)
        result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    folder = config.parent / "release-tune"
    assert {p.name for p in folder.iterdir()} == {"tune.parquet", "frontier.png"}
    assert len(pd.read_parquet(folder / "tune.parquet")) == 2
    assert (
        "# Recommended at epsilon 8.6 and delta 0.00001: mechanism dirichlet, split_threshold"
        in result.stdout
    )
    assert 'mechanism = "dirichlet"\n' in result.stdout
    assert 'coarsening = "threshold"\nsplit_threshold = "' in result.stdout
    bad = invoke("tune", config, "--retention-min", "2")
    assert bad.exit_code == 1
    assert "retention_min: '2' cannot be tried" in bad.output
    confidential = invoke("tune", config, "--proxy-truth", small_region["od"])
    assert confidential.exit_code == 1
    assert "is a confidential file of [jobs]" in confidential.output


def test_run_and_verify(write_config: Callable[..., Path], invoke: Invoke, clean_source: object) -> None:
    config = write_config()
    result = invoke("run", config)
    assert result.exit_code == 0, result.output
    public = config.parent / "release" / "public"
    assert "Released    600 synthetic workers: Demo region 2019, all jobs" in result.stdout
    assert str(public) in result.stdout
    assert "never publish" in result.stdout
    assert "Not for release" not in result.output
    assert "Drawing 600 synthetic workers ..." in result.stderr
    certificate = json.loads((public / "certificate.json").read_text())
    assert f"epsilon {certificate['run']['epsilon']}, delta {certificate['run']['delta']}" in result.stdout

    checked = invoke("verify", public)
    assert checked.exit_code == 0, checked.output
    lines = checked.stdout.splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {"ok"}
    assert lines[-2] == "ok  for release: yes"
    assert lines[-1] == f"{public} passes every check; nobody has signed it."
    assert signature_in_words(signed=False) in lines[1], "what that means"
    alone = odsynth("verify", public)
    assert (alone.stdout, alone.stderr) == (checked.stdout, ""), "no library tells what is left at its end"

    (public / "README.md").write_text("other")
    failed = invoke("verify", public)
    assert failed.exit_code == 1
    assert "Error: files: README.md has been changed" in failed.stderr
    assert "passes every check" not in failed.output


def test_run_reports_repairs_and_fall_backs(
    write_config: Callable[..., Path], small_region: dict[str, Path], invoke: Invoke, tmp_path: Path
) -> None:
    """Two rows of a crosswalk that do not nest, and a destination without any flow: repaired, and said so."""
    tables = {
        name: pd.read_csv(small_region[name], dtype="str")
        for name in ("crosswalk", "county_flows", "tract_flows")
    }
    tables["crosswalk"].loc[[3, 9], ["st", "trct"]] = ["25", "25005000100"]
    tables["county_flows"] = tables["county_flows"].query("w_county == '03001'")
    tables["tract_flows"] = tables["tract_flows"][tables["tract_flows"]["w_tract"].str.startswith("03001")]
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    config = write_config({FILES[name]: tmp_path / f"{name}.csv" for name in tables})
    for verb in ("plan", "run"):
        result = invoke(verb, config)
        assert result.exit_code == 0, result.output
        for level in ("st", "trct"):
            assert (
                f"Note        level {level}: 2 of 120 rows disagreed with their block code" in result.stdout
            )
        assert re.search(
            r"Note        \d+ of 6 trct units with jobs have no flow in any auxiliary table", result.stdout
        )


def test_run_says_when_it_is_not_for_release(
    write_config: Callable[..., Path], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = pipelines.release.provenance.SourceState("1", "a" * 40, True)
    monkeypatch.setattr(certificate, "source_state", lambda: state)
    config = write_config()
    result = invoke("run", config)
    assert result.exit_code == 0
    assert "Not for release: the program differs from its commit" in result.stdout
    checked = invoke("verify", config.parent / "release" / "public")
    assert checked.exit_code == 1
    assert "ok  data: " in checked.stdout
    assert "ok  for release" not in checked.stdout
    assert "Error: for release: no: the program differs from its commit" in checked.stderr


def test_output_of_a_run_holds_no_canary(
    write_config: Callable[..., Path], invoke: Invoke, microdata_jobs: Callable[..., object], canary: str
) -> None:
    config = write_config(microdata_jobs("csv"))
    for verb in ("plan", "run"):
        result = invoke(verb, config)
        assert result.exit_code == 0, result.output
        assert canary not in result.output
        shown = re.sub(r"\b[0-9a-f]{64}\b", "", result.output)  # the hash of the plan
        assert not re.search(r"(?<![\d.])\d{11}", shown), "no block code either"


@pytest.mark.slow
def test_real_processes_into_one_folder(write_config: Callable[..., Path], invoke: Invoke) -> None:
    """As installed: exit codes, and messages on standard error only; one of two makes the release."""
    config = write_config()
    command = [sys.executable, "-m", "pipelines.cli", "run", str(config)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    words = [process.communicate() for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 1], words
    assert "Released    600 synthetic workers" in words[codes.index(0)][0]
    said, error = words[codes.index(1)]
    assert said == ""
    assert re.search("output folder exists|another process is making this release", error)
    assert "Traceback" not in error
    assert sorted(path.name for path in config.parent.iterdir()) == ["release", "small.toml"]
    public = config.parent / "release" / "public"
    assert pipelines.load_plan(public / "plan").numeric.pools.n_records == 600
    again = invoke("run", config)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "the output folder exists" in again.stderr
    other = config.parent / "other"
    assert invoke("run", config, "--out", other).exit_code == 0
    first, second = (path.read_bytes() for path in (public / OD, other / "public" / OD))
    assert first != second, "another process draws other workers"
    (public / "README.md").write_text("other")
    checked = invoke("verify", public)
    assert checked.exit_code == 1
    assert "README.md has been changed" in checked.stderr


# --- bad input: one clear error, nothing written, no value shown


def one_clear_error(result: click.testing.Result, *, public: bool = False) -> str:
    """The one line of the error; fails if there is more, or a value of the data that is not public in it."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.count("Error: ") == 1
    message = result.stderr.split("Error: ")[1]
    assert message.endswith("\n")
    assert message.count("\n") == 1, "one line"
    assert "Traceback" not in result.stderr
    # Block codes are 15 digits, tracts 11; the paths of these tests have no such numbers.
    assert public or not re.search(r"(?<![\d.])\d{8}", result.stderr), "shows a value of the data"
    assert "nowhere" not in result.stderr
    return message.strip()


@pytest.fixture
def refused(invoke: Invoke, tmp_path: Path) -> Refused:
    """Return the one line of the error of a verb, which writes nothing."""

    def message_of(*words: object, public: bool = False) -> str:
        before = tree(tmp_path)
        message = one_clear_error(invoke(*words), public=public)
        assert tree(tmp_path) == before, "nothing written"
        return message

    return message_of


BadTable = Callable[[pd.DataFrame], pd.DataFrame]


def cell(column: str, value: str) -> BadTable:
    """The first row has another value."""
    return lambda table: table.assign(**{column: table[column].where(table.index > 0, value)})


def without_zeros(column: str) -> BadTable:
    return lambda table: table.assign(**{column: table[column].str.lstrip("0")})


# Every rule is tested where files are read; here, what reaches the terminal.
BAD_TABLES: list[tuple[str, BadTable, str]] = [
    (
        "od",
        without_zeros("h_geocode"),
        "column h_geocode.* lost their leading zeros.*geocodes as text",
    ),
    ("od", cell("w_geocode", "440070001001000"), "column w_geocode: .*not in the geography.*crosswalk"),
    ("od", cell("h_geocode", "nowhere"), "column h_geocode: 1 row is not in the geography"),
    ("od", cell("h_geocode", ""), "column h_geocode: 1 value is missing or blank.*write"),
    ("od", lambda od: pd.concat([od, od[:3]]), "column h_geocode: 3 rows repeat an origin-destination pair"),
    ("od", cell("SI03", "many"), "column SI03: 1 value is not a whole number.*write each count"),
    ("od", lambda od: od.assign(wage="1"), "unknown columns: wage.*the format has: w_geocode"),
    ("od", lambda od: od[:0], "there is no job.*if the file was cut off, copy it again"),
    (
        "crosswalk",
        lambda table: table.assign(cty=["x" * (i % 2 + 1) for i in range(len(table))]),
        "column trct: .*lie in more than one unit of cty.*levels that nest",
    ),
    ("crosswalk", lambda table: table.assign(blklatdd="91"), "column blklatdd: 120 coordinates are outside"),
    ("tract_flows", cell("jobs", "-3"), "column jobs: 1 flow is negative"),
    (
        "tract_flows",
        lambda table: table.assign(h_tract="44" + table["h_tract"].str[2:]),
        r"no row has origin and destination in the geography \(trct to trct\)",
    ),
    ("population", lambda table: table.assign(POP10="-1"), "column POP10: 6 weights are negative"),
    ("microdata", cell("live", "440070001001000"), "column live: 1 row is not in the geography"),
    ("microdata", cell("person", ""), "column person: 1 value is missing or blank"),
]


def test_bad_tables(
    write_config: Callable[..., Path],
    small_region: dict[str, Path],
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Mapping[str, object]],
    refused: Refused,
    canary: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "table.csv"
    for name, change, words in BAD_TABLES:
        of_jobs = name == "microdata"
        table = pd.read_csv(microdata["csv"] if of_jobs else small_region[name], dtype="str")
        change(table).to_csv(path, index=False)
        config = write_config(microdata_jobs(path) if of_jobs else {FILES[name]: path})
        message = refused("run", config, public=name == "crosswalk")
        assert message.startswith(f"{path}: ")
        assert re.search(words, message), message
        assert " Fix: " in message or "the format has" in message
        assert canary not in message
    message = refused("run", write_config(microdata_jobs("parquet", records_per_worker=1)))
    assert "column person: 300 workers have more than 1 row(s)" in message
    assert canary not in message


def test_broken_files(
    write_config: Callable[..., Path], small_region: dict[str, Path], refused: Refused, tmp_path: Path
) -> None:
    packed = small_region["od"].read_bytes()
    path = tmp_path / "broken.csv.gz"
    config = write_config({"jobs.file": path})
    for data, part in (
        (None, "there is no such file"),
        (b"", "the file is empty"),
        (packed[: len(packed) * 2 // 3], "the file is truncated or corrupt"),
    ):
        if data is not None:
            path.write_bytes(data)
        message = refused("run", config)
        assert message.startswith(f"{path}: {part}")
        assert " Fix: " in message


def test_bad_configurations(write_config: Callable[..., Path], refused: Refused, tmp_path: Path) -> None:
    for verb in ("plan", "run"):
        config = write_config({"privacy.epsilon": 8.6})
        assert refused(verb, config).startswith("small.toml: privacy.epsilon")
        config.write_text(config.read_text().replace('delta = "1e-5"', 'delta = "1e-5'))
        assert refused(verb, config).startswith("small.toml: not valid TOML")
        missing = tmp_path / "none.toml"
        assert refused(verb, missing).startswith(f"{missing}: there is no such file")


def test_an_output_folder_that_exists_or_cannot_be_made(
    write_config: Callable[..., Path], refused: Refused
) -> None:
    config = write_config({"release.out": "small.toml/release"})
    assert "small.toml" in refused("run", config)
    config = write_config()
    (config.parent / "release").mkdir()
    message = refused("run", config)
    assert message.startswith(f"{config.parent / 'release'}: the output folder exists")
    assert "--out" in message


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"privacy.epsilon": "0.5"}, marks=pytest.mark.slow),
        pytest.param({"privacy.epsilon": "1", "plan.retention_min": "0.01"}, marks=pytest.mark.deep),
        pytest.param({"privacy.epsilon": "8.6", "plan.prior": "0.001"}, marks=pytest.mark.deep),
    ],
)
def test_a_budget_too_small_names_the_smallest_epsilon_and_that_one_works(
    asked: dict[str, str], write_config: Callable[..., Path], invoke: Invoke, refused: Refused
) -> None:
    config = write_config(asked)
    message = refused("run", config)
    found = re.search(r"the smallest epsilon that would do is (\d+(\.\d+)?)", message)
    assert found, message
    assert float(found[1]) > float(asked["privacy.epsilon"])
    result = invoke("run", write_config(asked, {"privacy.epsilon": found[1]}))
    assert result.exit_code == 0, result.output
    # And it is the smallest: 1 % less does not do. The library says so without searching again.
    less = float(found[1]) * 0.99
    if less > float(asked["privacy.epsilon"]):
        write_config(asked, {"privacy.epsilon": f"{less:.6f}"})
        with pytest.raises(synth.BudgetTooSmallError):
            pipelines.make_plan(pipelines.load_config(config))


# --- errors that were not foreseen


@pytest.mark.parametrize("verb", ["run", "plan", "verify"])
def test_details_of_unforeseen_errors_are_withheld(
    verb: str,
    write_config: Callable[..., Path],
    invoke: Invoke,
    canary: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        try:
            raise KeyError(f"{canary} lives in 030010001001000")
        except KeyError as error:
            raise RuntimeError(f"row of {canary}") from error

    monkeypatch.setattr(pipelines, verb, fail)
    arguments = [verb, write_config()]
    message = one_clear_error(invoke(*arguments))
    assert "RuntimeError" in message
    assert canary not in message
    assert "ODSYNTH_DEBUG=1" in message

    shown = invoke(*arguments, env={"ODSYNTH_DEBUG": "1"})
    assert shown.exit_code == 1
    assert isinstance(shown.exception, RuntimeError)
    assert canary in str(shown.exception)


def test_unforeseen_errors_in_a_task_are_withheld_too(
    write_config: Callable[..., Path], invoke: Invoke, canary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"worker {canary}")

    monkeypatch.setattr(batches, "sample_batch", fail)
    message = one_clear_error(invoke("run", write_config()))
    assert "ValueError" in message
    assert canary not in message


def test_an_interrupt_is_code_130_without_a_traceback(
    write_config: Callable[..., Path], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    config = write_config()
    with monkeypatch.context() as patch:
        patch.setattr(releasing, "write_public", fail)
        result = invoke("run", config)
    assert result.exit_code == 130
    assert "Stopped by SIGINT." in result.stderr
    assert "Traceback" not in result.stderr
    out = config.parent / "release"
    assert not out.exists()
    assert f"Continue with: odsynth resume {out}" in result.stderr
    again = invoke("run", config)
    assert again.exit_code == 1
    assert "an unfinished run of this release is there, begun by odsynth" in again.stderr
    assert "Released    600 synthetic workers" in invoke("resume", out).stdout
    before = tree(tmp_path)
    assert "Released    600 synthetic workers" in invoke("resume", out).stdout
    assert tree(tmp_path) == before


# --- demo


@pytest.fixture
def small_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which the demo region is small, and its cells and pools are not searched for."""
    small = functools.partial(geo_data.write_demo_region, counties=2, tracts=6, blocks=120, jobs=600)
    monkeypatch.setattr(geo_data, "write_demo_region", small)
    monkeypatch.setattr(search, "choose", lambda *_: Choices("trct", 8, (1.0,)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_twice(small_demo: Path, invoke: Invoke, clean_source: object) -> None:
    public = small_demo / "mine" / "demo" / "public"
    drawn = set()
    for _ in range(2):
        result = invoke("demo", "--out", "mine/demo")
        assert result.exit_code == 0, result.output
        assert "Released    650 synthetic workers" in result.stdout
        assert "Compared    with the generated truth" in result.stdout
        assert [path.name for path in (small_demo / "mine").iterdir()] == ["demo"]
        assert [path.name for path in (small_demo / "out").iterdir()] == ["demo-inputs"]
        drawn.add((public / OD).read_bytes())
        assert invoke("verify", public).exit_code == 0
    assert len(drawn) == 2, "drawn anew"


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "another release", "broken manifest"])
def test_demo_refuses_what_is_not_a_demo(
    kind: str, small_demo: Path, invoke: Invoke, small_release: pipelines.Release
) -> None:
    target = small_demo / "out" / "demo"
    target.parent.mkdir()
    if kind == "file":
        target.write_text("mine")
    else:
        (target / "public").mkdir(parents=True)
        if kind == "folder":
            (target / "thesis.txt").write_text("mine")
        elif kind == "empty folder":
            (target / "public").rmdir()
        elif kind == "broken manifest":
            (target / "public" / "MANIFEST.json").write_text("[]")
        else:
            manifest = json.loads((small_release.public / "MANIFEST.json").read_text())
            manifest["release"]["name"] = "Rhode Island 2019, all jobs"
            (target / "public" / "MANIFEST.json").write_text(json.dumps(manifest))
    before = tree(small_demo)
    message = one_clear_error(invoke("demo"))
    assert message.startswith(f"{target}: the output folder exists and is not an earlier demo")
    assert tree(small_demo) == before


def test_demo_of_a_census_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, clean_source: object
) -> None:
    """With few persons, and tables that are not searched for."""
    few = functools.partial(geo_data.write_demo_census, persons=3000)
    monkeypatch.setattr(geo_data, "write_demo_census", few)
    of_work = (
        TableChoice(None, ("mode", "occupation"), None, Fraction(1, 20)),
        TableChoice("zone", (), None, Fraction(1, 10)),
    )
    chosen = Choices("zone", 8, (), cell_level="zone", workplaces=of_work)
    monkeypatch.setattr(search, "choose", lambda *_: chosen)
    result = invoke("demo", "--census", tmp_path / "mine")
    assert result.exit_code == 0, result.output
    assert "Compared    with the generated truth: flows between zone units" in result.stdout
    assert sorted(path.name for path in (tmp_path / "mine" / "out").iterdir()) == [
        "census-demo",
        "census-demo-inputs",
    ]
    assert pipelines.load_config(tmp_path / "mine" / "examples" / "census_demo.toml").release.year == 2021
    assert invoke("verify", tmp_path / "mine" / "out" / "census-demo" / "public").exit_code == 0


@pytest.mark.deep  # `test_demo_twice` has a small one
def test_the_real_demo(tmp_path: Path) -> None:
    environment = {**os.environ, "ODSYNTH_DEBUG": ""}
    done = odsynth("demo", cwd=tmp_path, env=environment)  # again: test_real_processes_into_one_folder
    assert done.returncode == 0, done.stderr
    assert "Released    65,000 synthetic workers" in done.stdout
    public = tmp_path / "out" / "demo" / "public"
    plan = pipelines.load_plan(public / "plan").numeric
    assert synth.MECHANISMS["dirichlet"].certify(plan).delta <= plan.target.delta


def test_progress_says_how_much_longer_a_step_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert counter() is None  # nobody is looking
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    clock = iter(
        [0, 5, 5, 7, 7, 7, 10, 10, 14, 17]
    )  # when it is made, where a count begins, and at each message
    monkeypatch.setattr("pipelines.cli.common.time", SimpleNamespace(monotonic=lambda: next(clock)))
    show = counter()
    assert show is not None
    for done, of in ((1, EstimatedTotal(3)), (2, EstimatedTotal(4)), (2, 2)):
        show(done, of)
    for done in (1, 3, 4):
        show(done, 4)
    lines = [line.partition("\x1b")[0].strip() for line in capsys.readouterr().err.split("\r")[1:]]
    tried = ["1 of about 3", "2 of about 4, about 4 s more", "2 of 2"]
    assert lines == [*tried, "1 of 4", "3 of 4, about 2 s more", "4 of 4"]


def commands(
    group: click.Group = main, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*above, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))


@pytest.mark.parametrize(("path", "command"), [*commands()])
def test_every_command_has_an_example_that_it_takes(path: tuple[str, ...], command: click.Command) -> None:
    words = shlex.split(str(command.epilog).removeprefix("Example: odsynth "))
    assert words[: len(path)] == [*path]
    chosen: click.Command = main
    for word in words:
        if not isinstance(chosen, click.Group):
            break
        chosen, words = chosen.commands[word], words[1:]
    context = click.Context(chosen, help_option_names=["-h", "--help"])  # click keeps the option
    values, _, _ = chosen.make_parser(context).parse_args(words)
    for parameter in chosen.params:
        given = values.get(parameter.name or "")
        assert not parameter.required or given
        if isinstance(parameter.type, click.Choice):
            for choice in given if isinstance(given, list) else [given] if given else []:
                assert choice in parameter.type.choices


def test_help_lists_every_verb_once_with_a_whole_summary() -> None:
    text = click.testing.CliRunner().invoke(main, ["--help"]).output
    listed = re.findall(r"(?m)^  (\w+)  ", text)
    assert sorted(listed) == sorted(main.commands)
    words = " ".join(text.split())
    assert all(command.get_short_help_str(1000) in words for command in main.commands.values())
