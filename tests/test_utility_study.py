"""The utility study: its methods are what they are called, and its page says what its results say."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pipelines
import synth
from pipelines.running.run import certify

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
DRAWN = ("dirichlet", "geometric_before", "model", "for T1", "below_10", "cell_key")


@pytest.fixture(scope="module")
def study() -> Iterator[SimpleNamespace]:
    """The modules of the study, which import each other as scripts do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import study_measures
        import study_methods
        import study_office
        import study_page
        import utility_study

        yield SimpleNamespace(
            measures=study_measures,
            methods=study_methods,
            office=study_office,
            page=study_page,
            command=utility_study,
        )


@pytest.fixture(scope="module")
def subject(
    study: SimpleNamespace,
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> object:
    """The small region, a row a job with an attribute."""
    folder = tmp_path_factory.mktemp("study")
    flows = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    jobs = flows.loc[flows.index.repeat(flows["S000"]), ["h_geocode", "w_geocode"]]
    jobs["age"] = np.where(jobs["h_geocode"].str[-1].astype(int) % 3, "old", "young")
    jobs.to_csv(folder / "jobs.csv", index=False)
    microdata = {"format": "microdata", "file": "jobs.csv", "home": "h_geocode", "work": "w_geocode"}
    text = config_text(
        {
            "jobs": microdata | {"attributes": ["age"], "population": "residents"},
            "plan.retention_min": "1",
            "privacy.protects": "home",
        }
    )
    return study.methods.Subject.of(pipelines.parse_config(text, folder, "small.toml"))


@pytest.fixture(scope="module")
def truth(study: SimpleNamespace, subject: object) -> object:
    return study.measures.Truth(subject.records, subject.workload)


@pytest.fixture(scope="module")
def results(study: SimpleNamespace, subject: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One draw of some methods at one epsilon, and a general tool that is not there."""
    path = tmp_path_factory.mktemp("results") / "study.csv"
    draw_some(study, subject, path)
    return path


def draw_some(study: SimpleNamespace, subject: object, path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("METHODS", "GOALS", "OFFICES"):
            of_all = getattr(study.command, name)
            some = {one: of_all[one] for one in of_all if one in (*DRAWN, "mbi")}
            patch.setattr(study.command, name, some)
        study.command.study(subject, path, ["8.6"], 1, sys.executable)


# --- methods


def test_promises_are_certified_at_the_epsilon_of_the_study(study: SimpleNamespace, subject: object) -> None:
    for method in ("geometric", "dirichlet", "geometric_before", "dirichlet_before", "onthemap"):
        plan = study.methods.METHODS[method].make(subject, "8.6").plan
        guarantee = certify(plan)
        assert guarantee.epsilon <= Fraction("8.6")
        assert guarantee.delta == 0 if method.startswith("geometric") else 0 < guarantee.delta <= 1e-5
        if method.endswith("_before"):  # such plans know flows alone
            assert plan.choices.pool_by == plan.choices.tables == ()
            assert plan.choices.cell_level is None
            assert len(plan.config.workload) == {"geometric_before": 1, "dirichlet_before": 2}[method]


def test_a_plan_that_cannot_be_certified_is_a_note(
    study: SimpleNamespace, subject: object, truth: object
) -> None:
    (row,) = study.command.drawn(subject, truth, "onthemap", "1", 3, None)
    assert row == {"note": "cannot be certified"}


def test_a_goal_plans_for_its_tables(study: SimpleNamespace, subject: object) -> None:
    assert [*study.methods.GOALS] == ["for T1", "for T1, R", "for T1, T2", "for T1, BG, T2"]
    plan = study.methods.GOALS["for T1, T2"].draft(subject, "4").plan
    assert [(table.home, table.work) for table in plan.config.workload] == [
        ("trct", "trct"),
        ("trct", "tabblk2010"),
    ]
    assert {table.weight for table in subject.tables("T1", "BG", "T2", "R")} == {1}
    areas = [(table.home, table.work) for table in subject.tables("T1", "BG", "T2", "R")]
    assert areas == [(table.home, table.work) for table in subject.workload.tables[:-1]]


def test_the_papers_prior_is_in_every_cell_of_a_pool(study: SimpleNamespace, subject: object) -> None:
    own = subject.plan("8.6", "dirichlet")
    plan = study.methods.METHODS["paper"].make(subject, "8.6").plan
    assert plan.pools is own.pools
    numeric = plan.numeric
    for pool in (0, int(np.argmax(plan.pools.n))):
        n, k = int(plan.pools.n[pool]), int(numeric.k[pool])
        delta = own.numeric.target.delta * n / numeric.pools.n_records
        wanted = synth.dirichlet.paper.paper_prior(n, n, k, Fraction(math.exp(8.6)), delta)
        (prior,) = set(numeric.parameters.classes[numeric.pool_class[pool]].prior)
        assert prior / numeric.parameters.denominator == pytest.approx(wanted, rel=1e-6)


def test_the_public_model_alone_looks_at_no_home(study: SimpleNamespace, subject: object) -> None:
    draft = study.methods.METHODS["model"].make(subject, "8.6")
    homes = subject.true_jobs(draft.plan).home
    drawn = draft.draw(draft.plan, homes, 1)
    assert np.array_equal(drawn, draft.draw(draft.plan, np.zeros_like(homes), 1))
    assert not np.array_equal(drawn, draft.draw(draft.plan, homes, 2))


# --- measures


def test_the_truth_loses_nothing(study: SimpleNamespace, truth: object) -> None:
    assert set(truth.losses(truth.jobs).values()) == {0}
    found = truth.figures(truth.jobs)
    assert found == {name: name == "top_tract" for name in study.measures.MEASURES}
    other = truth.losses(
        study.command.CountedJobs(truth.jobs.work, truth.jobs.home[::-1], truth.jobs.attributes)
    )
    assert all(0 < loss < 1 for loss in other.values())
    assert other[study.measures.MEAN] == pytest.approx(truth.workload.objective(list(other.values())[1:]))


def test_a_tool_gets_units_and_its_tables_are_measured(
    study: SimpleNamespace, subject: object, truth: object, tmp_path: Path
) -> None:
    """A tool that returns what it gets loses nothing in tables of units, and has no others."""
    tool = tmp_path / "python"
    tool.write_text('#!/bin/sh\ncp "$3" "$4"\n', encoding="utf-8")
    tool.chmod(0o755)
    (row,) = study.command.drawn(subject, truth, "mbi", "8.6", 1, str(tool))
    losses = {name: row.pop(name) for name in truth.workload.names if name in row}
    assert losses == {"trct to trct": 0, "residents of trct by age": 0, "trct to trct by age": 0}
    assert row == {"top_tract": 1, "residence_tract": 0}


# --- what offices do


def counted(study: SimpleNamespace, *count: int) -> object:
    """A row of numbers, with cell keys that are spread evenly."""
    numbers = np.array([count])
    key = np.linspace(0, 1, numbers.size, endpoint=False).reshape(numbers.shape)
    return study.office.CountedTable(None, 1.0, np.zeros(0), np.zeros(0), numbers, key)


def test_rules_publish_what_they_say_and_tell_what_follows_from_it(study: SimpleNamespace) -> None:
    certain, left_out = study.office.CERTAIN, study.office.LEFT_OUT
    shown = study.office.suppression(10)(counted(study, 0, 9, 10, 11))
    assert shown.count.tolist() == [[left_out, left_out, 10, 11]]
    assert shown.elsewhere.tolist() == [[1, 0, 0, 0]]  # a tenth job would be seen, and any after it
    assert shown.home.tolist() == [[1, 1, certain, certain]]
    shown = study.office.rounding(5)(counted(study, 0, 2, 3, 7, 8))
    assert shown.count.tolist() == [[0, 0, 5, 5, 10]]
    assert shown.elsewhere.tolist() == [[1, 0, 1, 0, 1]]
    assert shown.home.tolist() == [[1, 1, certain, 1, certain]]


def test_noise_of_a_cell_key_has_the_variance_and_takes_no_count_below_0(study: SimpleNamespace) -> None:
    office = study.office
    table, steps = office.perturbation_table(), np.arange(-office.MOST, office.MOST + 1)
    assert table.sum(axis=1) == pytest.approx(1)
    assert table @ steps == pytest.approx(0, abs=1e-9)
    assert (table @ steps**2)[1:] == pytest.approx(office.VARIANCE)
    for count, chance in enumerate(table):
        assert not chance[steps < -count].any()
    many = 10_000
    for count in (0, 1, 3, 40):
        noise = office.cell_key(counted(study, *[count] * many)).count[0] - count
        share = np.bincount(noise + office.MOST, minlength=steps.size) / many
        assert share == pytest.approx(table[min(count, office.MOST)], abs=2 / many)


def test_plain_noise_of_a_small_epsilon_tells_little_and_of_a_large_one_all(study: SimpleNamespace) -> None:
    same = counted(study, *[3] * 1000)
    strong, weak = (study.office.plain_noise(epsilon)(same) for epsilon in ("0.01", "40"))
    assert np.abs(np.log(strong.elsewhere)).max() < 0.006
    assert weak.count.tolist() == same.count.tolist()
    assert np.log(weak.home / weak.elsewhere).min() > 39


def test_whoever_sees_more_tables_guesses_more_homes(
    study: SimpleNamespace, subject: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with every draw of record keys: further tables are taken for independent of the first."""
    monkeypatch.setattr(study.office, "SOME", 1)  # the same homes, so that guesses can be compared
    plan, rule = subject.plan("8.6", "geometric"), study.office.rule_of("cell_key", "8.6")
    draws = pd.DataFrame([study.office.Office(subject, plan).publish(rule) for _ in range(50)])
    more = draws["guess_all"] - draws["guess"]
    assert more.mean() > 0  # it is 0.08, and 0.10 is the standard deviation of one draw
    suppressed = study.office.Office(subject, plan).publish(study.office.suppression(10))
    assert suppressed["guess_all"] >= suppressed["guess"]


# --- results and page


def test_a_row_a_draw_and_what_is_there_is_not_drawn_again(
    study: SimpleNamespace, subject: object, results: Path, tmp_path: Path
) -> None:
    rows = pd.read_csv(results).set_index("method")
    assert {*rows.index} == {*DRAWN, "mbi"}
    assert rows.loc[[*DRAWN], study.measures.MEAN].between(0, 1).all()
    assert rows.loc[["dirichlet", "model"], [*study.measures.MEASURES]].notna().all(axis=None)
    assert (
        rows.loc[["dirichlet", "model", "below_10", "cell_key"], ["guess", "guess_all"]].gt(0).all(axis=None)
    )
    for method in ("dirichlet", "model"):  # all that is published is one release
        assert rows.loc[method, "guess"] == rows.loc[method, "guess_all"]
    # What is published tells more than the model, but in one draw some homes are guessed by chance.
    assert rows.loc["model", "guess"] < rows.loc["dirichlet", "guess"] + 0.05
    assert rows.loc["mbi", "note"].startswith("not run: ")
    text = results.read_text(encoding="utf-8")
    again = tmp_path / "again.csv"
    without = "".join(line for line in text.splitlines(keepends=True) if "model" not in line)
    again.write_text(without, encoding="utf-8")
    draw_some(study, subject, again)
    found = again.read_text(encoding="utf-8")
    assert found.startswith(without)
    assert found.removeprefix(without).startswith("8.6,model,1,")
    assert found.count("\n") == text.count("\n")


def test_tables_and_figure_of_a_small_study(study: SimpleNamespace, results: Path, tmp_path: Path) -> None:
    found = study.page.Results.read(results)
    text = study.page.render(found, "{{ loss_table('8.6') }}\n{{ figure_table('8.6') }}\n{{ goal_table() }}")
    assert text.count("(b) resampling |") == 2
    assert "not run: " in text
    assert "±" not in text  # one draw has no spread
    assert "nan" not in text
    mean = found.mean("for T1", "8.6", "trct to trct")
    assert f"| for T1 | T1 | **{mean:.3f}** (0.003) |" in text
    study.page.draw_losses(found, tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "<date>" not in svg


def test_a_sentence_that_the_results_do_not_support_stops_the_page(
    study: SimpleNamespace, results: Path
) -> None:
    found = study.page.Results.read(results)
    template = "{{ sure(below(%s, MEAN), 'a sentence') }}fine"
    mean = study.measures.MEAN
    better, worse = sorted(("dirichlet", "model"), key=lambda one: found.mean(one, "8.6", mean))
    assert study.page.render(found, template % f"'{better}', '{worse}'") == "fine"
    with pytest.raises(ValueError, match=r"rewrite .*: a sentence"):
        study.page.render(found, template % f"'{worse}', '{better}'")


def test_the_pages_are_what_the_results_give(study: SimpleNamespace, tmp_path: Path) -> None:
    """Words, tables and every number of docs/utility-study.md and its tables, from docs/utility-study.csv."""
    (tmp_path / "utility-study.csv").write_bytes((DOCS / "utility-study.csv").read_bytes())
    tables = tmp_path / "tables.md"
    options = ["--page-only", "--docs", str(tmp_path), "--tables", str(tables)]
    done = CliRunner().invoke(study.command.main, options)
    assert done.exit_code == 0, done.output
    assert tables.read_bytes() == (ROOT / "benchmarks" / "utility_study_tables.md").read_bytes()
    page = (tmp_path / "utility-study.md").read_text(encoding="utf-8")
    assert page == (DOCS / "utility-study.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"\((images/[^)]+)\)", page)
    assert all((folder / shown).is_file() for folder in (DOCS, tmp_path))
