"""What the benchmarks measure and report with."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

import pipelines
from helpers import ROOT, load
from pipelines.release.intervals import DRAWS
from pipelines.running.demo import demo_inputs

BENCHMARKS = ROOT / "benchmarks"


processes, report, intervals = (
    load(f"benchmarks/{name}.py") for name in ("processes", "report", "intervals")
)
sys.modules["report"] = report  # by the name that the other programs import it by
sys.modules["processes"] = processes
nation = load("benchmarks/nation.py")
questions = load("benchmarks/questions.py")
comparison, tools = load("benchmarks/comparison.py"), load("benchmarks/comparison_tools.py")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_process_is_measured_alone() -> None:
    ballast = bytearray(400_000_000)  # of this process, which must not count
    usage = processes.measured(python("held = b'x' * 100_000_000"))
    assert 0.1 < usage.gigabytes < len(ballast) / processes.GB
    assert (usage.status, usage.timed_out, usage.errors) == (0, False, "")


def test_a_failing_process_says_why() -> None:
    usage = processes.measured(python("raise SystemExit('this is why')"))
    assert usage.status == 1
    assert usage.errors == "this is why"


def test_limits_hold() -> None:
    late = processes.measured(python("import time; time.sleep(60)"), seconds=0.5)
    assert late.timed_out
    assert late.seconds < 30
    busy = processes.measured(python("while True: pass"), processor=1)
    assert busy.timed_out
    assert busy.processor < 5
    large = processes.measured(python("held = b'x' * 500_000_000"), gigabytes=0.2)
    assert not large.timed_out
    assert large.errors.endswith("MemoryError")


def test_memory_is_that_of_all_processes_together() -> None:
    child = "import time; held = b'x' * 100_000_000; time.sleep(1)"
    code = "import subprocess, sys; held = b'x' * 100_000_000; subprocess.run([sys.executable, '-c', {!r}])"
    took = nation.measured(python(code.format(child)))
    assert took.wall > 1
    assert 0.2 < took.gigabytes < 0.4
    with pytest.raises(click.ClickException, match="ended with status 3"):
        nation.measured(python("raise SystemExit(3)"))


def test_steps_take_the_time_between_their_titles() -> None:
    """Titles are lines that end in dots; what is counted in them is left out, and other lines are none."""
    busy = "end = time.process_time() + 1\nwhile time.process_time() < end: pass"
    lines = ["Reading it ...", "a note", "Drawing 1,400 cells, and pools ..."]
    say = [f"print({line!r}, file=sys.stderr, flush=True)" for line in lines]
    took = nation.measured(
        python("\n".join(["import sys, time", say[0], say[1], busy, say[2], "time.sleep(0.2)"]))
    )
    assert [*took.steps] == ["Reading it", "Drawing cells, and pools"]
    assert took.steps["Reading it"] > 0.5 > took.steps["Drawing cells, and pools"]
    assert took.processors >= sum(took.steps.values()) - 1e-9


def found(**rows: tuple[float, str | None]) -> dict[str, object]:
    """Return what pytest-benchmark stores of rows: their times and what they are compared with."""
    benchmarks = [
        {
            "group": "A table",
            "stats": {"median": median},
            "extra_info": {"row": row, "workers": 1_000_000, "against": against, "figures": {"cells": 7}},
        }
        for row, (median, against) in rows.items()
    ]
    versions = {"numpy": "2"}
    info = {"cpu": {"count": 2, "brand_raw": "X"}, "gigabytes": 8, "load": 0.5, "versions": versions}
    return {
        "benchmarks": benchmarks,
        "datetime": "2019-01-02T03",
        "machine_info": {**info, "python_version": "3.11"},
    }


def test_a_report_compares_rows_of_one_run() -> None:
    text = report.report(found(slow=(5.0, None), fast=(0.02, "slow"), same=(6.0, "slow")))
    lines = text.splitlines()
    assert "| slow | 5 s | 200,000 workers a second | cells 7 |" in lines
    assert "| fast | 20 ms | 50,000,000 workers a second, 250 times faster | cells 7 |" in lines
    assert "| same | 6 s | 167,000 workers a second, 1.20 times the time | cells 7 |" in lines


def test_a_page_is_filled_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin `x` -->\nold\n<!-- end `x` -->\nafter\n", encoding="utf-8")
    for text in ("new", r"newer \1"):
        report.fill(page, "x", text)
        expected = f"before\n<!-- begin `x` -->\n{text}\n<!-- end `x` -->\nafter\n"
        assert page.read_text(encoding="utf-8") == expected
    with pytest.raises(click.ClickException, match="marks"):
        report.fill(page, "y", "text")


def usage(errors: str, *, timed_out: bool = False) -> object:
    return processes.Usage(1.0, 1.0, 0.1, 1, timed_out, errors)


def test_a_peer_that_does_not_finish_says_how_far_it_got() -> None:
    steps = "0 of 8,505 work places\n7 of 8,505 work places"
    assert comparison.how_far(usage(steps, timed_out=True)) == "not in 2 minutes: 7 of 8,505 work places"
    assert comparison.how_far(usage(f"{steps}\nMemoryError")) == "not in 8 GB: 7 of 8,505 work places"
    with pytest.raises(click.ClickException, match="no such thing"):
        comparison.how_far(usage("ImportError: no such thing"))


def test_counts_of_peers_add_up_to_the_public_numbers() -> None:
    noisy = np.array([3, -2, 0, 9, 1])
    counts = tools.fitted(noisy, 11)
    assert counts.sum() == 11
    assert (counts >= 0).all()
    assert counts[1] == counts[2] == 0


def test_peers_draw_each_work_place_by_itself() -> None:
    table = pd.DataFrame({"home": [7, 5, 5, 7, 7], "work": [2, 1, 2, 2, 1]}).astype("category")
    table["home"] = table["home"].cat.set_categories([5, 6, 7])
    seen: list[list[int]] = []

    def draw(counts: np.ndarray) -> np.ndarray:
        seen.append(counts.tolist())
        return counts[::-1]

    drawn = tools.by_work(table, draw)
    assert seen == [[1, 0, 1], [1, 0, 2]]
    assert drawn.to_numpy().tolist() == [[5, 1], [7, 1], [5, 2], [5, 2], [7, 2]]


def test_the_page_of_the_paper_has_the_ratios_to_it() -> None:
    """The paper's own priors are in tests/synth/dirichlet/test_paper.py."""
    module = load("benchmarks/paper.py")
    page = (ROOT / "benchmarks" / "paper.md").read_text(encoding="utf-8").splitlines()
    for cells, delta in module.SETTINGS:
        title = f"Probabilistic, n = m = 10^6, k = {cells:,}, delta = {float(delta):g}, no pruning:"
        rows = page[page.index(title) + 4 :]
        for gain, row in zip(module.GAINS, rows, strict=False):
            epsilon = module.epsilon_of(gain)
            ours, reached = module.certified_prior(10**6, cells, epsilon, delta)
            person, _ = module.certified_prior(10**6, cells, epsilon, delta, "dp")
            stated, paper, *figures = row.strip("| ").split(" | ")
            assert int(stated) == gain
            assert [figures[0], *figures[2:]] == [f"{float(x):.4g}" for x in (ours, reached, person)]
            assert float(figures[1]) == pytest.approx(float(paper) / float(ours), rel=1e-3)


def test_every_benchmark_is_collected() -> None:
    command = [sys.executable, "-m", "pytest", "-c", "benchmarks/pytest.ini", "--collect-only", "benchmarks"]
    # Of its own, not of the pytest around it: on a worker of xdist, benchmarks refuse to be collected.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(path.name in done.stdout for path in BENCHMARKS.glob("bench_*.py"))


@pytest.fixture(scope="module")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> pipelines.Release:
    """A release of fewer jobs than the demonstration's, with the areas that the ten questions are about."""
    config = demo_inputs(tmp_path_factory.mktemp("questions"), tracts=16, blocks=320, jobs=2400)
    return pipelines.run(pipelines.load_config(config))


def test_ten_questions_to_a_release(small_demo: pipelines.Release, tmp_path: Path) -> None:
    answers = questions.asked_in_pandas(small_demo.public)
    assert answers["question"].nunique() == 10
    assert answers["estimate"].between(answers["low"], answers["high"]).all()
    assert (answers["high"] > answers["low"]).any()
    if shutil.which("Rscript"):
        draws = questions.exported_draws(small_demo, tmp_path)
        questions.compare(answers, questions.asked_in_r(small_demo.public, draws))


def test_ten_questions_to_true_draws(small_demo: pipelines.Release, tmp_path: Path) -> None:
    """Of a folder whose draws are the truth, every answer is what the job files count."""
    inputs = small_demo.out.parent / "demo-inputs"
    jobs = pd.concat([pd.read_csv(path, dtype=str) for path in inputs.glob("demo_od_*.csv.gz")])
    inside = jobs["h_geocode"].str.startswith("03")
    home = jobs["h_geocode"].str[:11].where(inside, jobs["h_geocode"].str[:2] + "999999999")
    ends = {"home": home, "work": jobs["w_geocode"].str[:11], "block": jobs["w_geocode"]}
    counted = [
        ("trct to trct", ["home", "work"], ["S000"]),
        ("trct to tabblk2010", ["home", "block"], ["S000"]),
        ("residents of trct by SI", ["home"], ["SI01", "SI02", "SI03"]),
        ("trct to trct by SI", ["home", "work"], ["SI01", "SI02", "SI03"]),
    ]
    tables = []
    for table, by, counts in counted:
        for count in counts:
            rows = jobs[count].astype(int).groupby([ends[name].rename(name) for name in by]).sum()
            rows = rows.rename("jobs").reset_index().rename(columns={"block": "work"})
            tables.append(rows.assign(table=table, **{count[:2]: count}))
    rows = pd.concat(tables)
    (tmp_path / "plan").mkdir()
    shutil.copy(small_demo.public / "plan" / "blocks.parquet", tmp_path / "plan")
    rows.assign(**dict.fromkeys(DRAWS, rows["jobs"])).to_parquet(tmp_path / "intervals.parquet")
    answers = questions.asked_in_pandas(tmp_path)
    np.testing.assert_allclose(answers["estimate"], [*questions.truths(inputs, answers)])
    assert answers["estimate"].gt(0).sum() > 10


def test_intervals_with_the_samplers_that_ship() -> None:
    """Noise on counts has no bias to speak of; pseudo-workers pull every implicate the same way."""
    held, bias = intervals.simulate("geometric", 2, "8.6", 3, 200)
    assert held == pytest.approx(0.95, abs=0.03)
    assert abs(bias) < 0.003
    held, bias = intervals.simulate("dirichlet", 2, "8.6", 3, 200)
    assert held == pytest.approx(0.95, abs=0.03)
    held, bias = intervals.simulate("dirichlet", 50, "2", 5, 100)
    assert held < 0.01
    assert bias == pytest.approx(-0.27, abs=0.02)


@pytest.mark.deep
@pytest.mark.slow
def test_some_malformed_inputs_of_every_kind() -> None:
    """All of them: python benchmarks/malformed.py. A process of its own: it forks, and pytest has threads."""
    options = ["--every", "48", "--begin", "7", "--processes", "1"]
    command = [sys.executable, BENCHMARKS / "malformed.py", *options]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = re.search(r"all ([0-9,]+)", done.stdout)
    assert tried is not None
    assert int(tried[1].replace(",", "")) >= 10
