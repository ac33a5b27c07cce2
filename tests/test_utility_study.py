"""The utility study: its methods are what they are called, and its page says what its results say."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pipelines
import synth

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
METHODS_OF_A_PLAN = ("dirichlet", "paper", "geometric_same", "model", "resampling", "cells")


@pytest.fixture(scope="module")
def study() -> Iterator[SimpleNamespace]:
    """The modules of the study, which import each other as scripts do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import study_measures
        import study_methods
        import study_page
        import utility_study

        modules: dict[str, ModuleType] = {
            "measures": study_measures,
            "methods": study_methods,
            "page": study_page,
            "command": utility_study,
        }
        yield SimpleNamespace(**modules)


@pytest.fixture(scope="module")
def subject(
    study: SimpleNamespace, config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> object:
    """The small region, without pruning."""
    text = config_text({"plan.retention_min": "1"})
    config = pipelines.parse_config(text, tmp_path_factory.mktemp("study"), "small.toml")
    return study.methods.Subject.of(config)


@pytest.fixture(scope="module")
def drafts(study: SimpleNamespace, subject: object) -> dict[str, object]:
    return {draft.method: draft for draft in study.methods.drafts(subject, "8.6")}


@pytest.fixture(scope="module")
def results(study: SimpleNamespace, subject: object) -> pd.DataFrame:
    """One draw of everything at one epsilon, and a general tool that is not there."""
    return study.command.study(subject, ["8.6"], 1, sys.executable)


# --- methods


def test_methods_of_one_plan_have_its_pools_and_weights(drafts: dict[str, object]) -> None:
    own = drafts["dirichlet"].plan
    for method in METHODS_OF_A_PLAN:
        plan = drafts[method].plan
        assert plan.pools is own.pools
        assert plan.weights is own.weights
        assert plan.shares is own.shares
        assert np.array_equal(plan.numeric.pools.n, own.numeric.pools.n)
        if method != "model":
            assert np.array_equal(plan.numeric.domains.cuts, own.numeric.domains.cuts)


def test_promises_are_certified_at_the_epsilon_of_the_study(drafts: dict[str, object]) -> None:
    for method in ("dirichlet", "onthemap", "unpruned", "geometric_same", "geometric", "geometric_blocks"):
        guarantee = pipelines.certify(drafts[method].plan)
        assert guarantee.epsilon <= Fraction("8.6")
        assert drafts[method].delta == float(guarantee.delta) <= 1e-5
    assert drafts["geometric"].delta == 0 < drafts["dirichlet"].delta


def test_a_plan_that_cannot_be_certified_is_a_note(
    study: SimpleNamespace, subject: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = study.methods.Subject.plan

    def refuse(self: object, epsilon: str, settings: object, mechanism: str = "dirichlet") -> object:
        if settings.preset == "onthemap" and settings.retention_min < 1:
            raise synth.BudgetTooSmallError("too small", lambda: Fraction("7.3912"))
        return plan(self, epsilon, settings, mechanism)

    monkeypatch.setattr(study.methods.Subject, "plan", refuse)
    found = {draft.method: draft for draft in study.methods.drafts(subject, "8.6")}
    assert found["onthemap"].plan is None
    assert found["onthemap"].note == "cannot be certified below epsilon 7.4"
    assert all(draft.plan is not None for name, draft in found.items() if name != "onthemap")


def test_the_papers_prior_is_in_every_cell_of_a_pool(drafts: dict[str, object]) -> None:
    plan = drafts["paper"].plan.numeric
    delta = drafts["dirichlet"].plan.numeric.delta
    for pool in (0, int(np.argmax(plan.pools.n))):
        n, k = int(plan.pools.n[pool]), int(plan.domains.n_cells[plan.pools.domain[pool]])
        wanted = synth.paper.paper_prior(n, n, k, Fraction(math.exp(8.6)), delta * n / plan.pools.n_records)
        (prior,) = plan.parameters.classes[plan.pool_class[pool]].prior
        assert prior / plan.parameters.denominator == pytest.approx(wanted, rel=1e-6)


def test_cells_alone_keep_workers_in_their_cells(
    study: SimpleNamespace, subject: object, drafts: dict[str, object]
) -> None:
    plan = drafts["cells"].plan
    homes = study.methods.true_homes(subject, plan)
    domain = np.repeat(plan.numeric.pools.domain, plan.numeric.pools.n)
    pool = np.repeat(np.arange(plan.pools.n.size), plan.pools.n)
    counts = []
    for blocks in (homes, study.methods.draw(plan, homes)):
        cells = plan.numeric.domains.locate(domain, blocks)
        counts.append(np.bincount(pool * plan.numeric.domains.n_cells.max() + cells, minlength=2**24))
    moved = np.abs(counts[0] - counts[1]).sum() / 2
    # Where blocks share a pool, its sum is rounded block by block: a job more or less in a cell.
    assert moved <= 0.03 * homes.size
    assert not np.array_equal(homes, study.methods.draw(plan, homes))


def test_the_public_model_alone_looks_at_no_home(
    study: SimpleNamespace, subject: object, drafts: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synth.RunKey, "generate", lambda: synth.RunKey.from_seed(3))
    plan = drafts["model"].plan
    homes = study.methods.true_homes(subject, plan)
    drawn = study.methods.draw(plan, homes)
    assert np.array_equal(drawn, study.methods.draw(plan, np.zeros_like(homes)))
    own = drafts["dirichlet"].plan
    assert not np.array_equal(study.methods.draw(own, homes), study.methods.draw(own, np.zeros_like(homes)))


def test_resampling_alone_has_no_noise(drafts: dict[str, object]) -> None:
    plans = {name: drafts[name].plan for name in ("resampling", "dirichlet")}
    noise = {name: plan.mechanism.noise_share(plan.numeric) for name, plan in plans.items()}
    assert noise["resampling"] < 1e-5 < noise["dirichlet"]


# --- measures


def test_the_truth_loses_nothing(study: SimpleNamespace, subject: object) -> None:
    geography, records = subject.inputs.geography, subject.records
    table = study.methods.flows(geography, records.work, records.home)
    truth = study.measures.Truth(geography, table)
    found = truth.compare(table)
    assert set(found) == set(study.measures.MEASURES)
    none = {n for n in found if n.startswith(("tvd", "js", "residence", "commute", "emd", "large", "destin"))}
    assert all(found[name] == pytest.approx(0, abs=1e-12) or np.isnan(found[name]) for name in none)
    assert all(found[name] == 1 for name in set(found) - none)
    moved = table.assign(home=np.roll(table["home"], 7)).sort_values(["work", "home"], ignore_index=True)
    other = truth.compare(moved)
    assert other["tvd_block"] >= other["tvd_block_group"] >= other["tvd_tract"] >= other["tvd_county"]
    assert other["tvd_tract"] + other["common_tract"] == pytest.approx(1)
    assert 0 < other["tvd_tract_to_block"] <= other["tvd_block"]


# --- results and page


def test_a_row_a_draw(study: SimpleNamespace, results: pd.DataFrame) -> None:
    assert list(results["method"]) == list(study.methods.METHODS)
    drawn = results[results["repetition"] > 0].set_index("method")
    assert set(study.methods.METHODS) - set(drawn.index) == {"mbi"}
    assert drawn["tvd_tract"].between(0, 1).all()
    assert drawn[["pools", "cells"]].ge(1).all(axis=None)
    (note,) = results.loc[results["method"] == "mbi", "note"]
    assert note.startswith("not run: ")
    assert "mbi" in note or "jax" in note


def test_tables_and_figures_of_a_small_study(
    study: SimpleNamespace, results: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "study.csv"
    results.to_csv(path, index=False)
    found = study.page.Results.read(path)
    text = study.page.render(found, "{{ flow_table('8.6') }}\n{{ commute_table('8.6') }}")
    assert text.count("(a) Dirichlet resampling") == 2
    assert "not run: " in text
    assert "±" not in text  # one draw has no spread
    assert "nan" not in text
    for name, draw in (("a.svg", study.page.draw_flows), ("b.svg", study.page.draw_destinations)):
        draw(found, tmp_path / name)
        svg = (tmp_path / name).read_text(encoding="utf-8")
        assert svg.startswith("<svg")
        assert "<date>" not in svg


def test_a_sentence_that_the_results_do_not_support_stops_the_page(
    study: SimpleNamespace, results: pd.DataFrame
) -> None:
    found = study.page.Results(results.fillna({"note": ""}))
    template = "{{ sure(below(%s, 'tvd_tract'), 'a sentence') }}fine"
    better, worse = sorted(("cells", "model"), key=lambda one: found.mean(one, "8.6", "tvd_tract"))
    assert study.page.render(found, template % f"'{better}', '{worse}'") == "fine"
    with pytest.raises(ValueError, match=r"rewrite .*: a sentence"):
        study.page.render(found, template % f"'{worse}', '{better}'")


def test_the_page_is_what_the_results_give(study: SimpleNamespace, tmp_path: Path) -> None:
    """Words, tables and every number of docs/utility-study.md, from docs/utility-study.csv."""
    (tmp_path / "utility-study.csv").write_bytes((DOCS / "utility-study.csv").read_bytes())
    done = CliRunner().invoke(study.command.main, ["--page-only", "--docs", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "utility-study.md").read_text(encoding="utf-8")
    assert page == (DOCS / "utility-study.md").read_text(encoding="utf-8")
    shown = re.findall(r"\((images/[^)]+)\)", page)
    assert len(shown) == 2
    assert all((folder / name).is_file() for folder in (DOCS, tmp_path) for name in shown)


def test_the_tables_of_the_page_hold_the_means_of_the_results() -> None:
    """Computed here again, without the code that made the page."""
    rows = pd.read_csv(DOCS / "utility-study.csv", dtype={"epsilon": "str"})
    drawn = rows[rows["repetition"] > 0]
    assert drawn.groupby(["epsilon", "method"]).size().min() >= 3
    page = (DOCS / "utility-study.md").read_text(encoding="utf-8")
    for epsilon, group in drawn.groupby("epsilon"):
        section = re.search(rf"## Epsilon {re.escape(str(epsilon))}\n(.*?)\n## ", page, re.DOTALL)
        assert section is not None
        cells = [line.split("|")[1:-1] for line in section[1].splitlines() if line.startswith("|")]
        header = [cell.strip() for cell in cells[0]]
        tract = {
            row[0].strip(): row[header.index("tract")].split("±")[0].strip()
            for row in cells[2 : 2 + rows["method"].nunique()]
        }
        found = {value for value in tract.values() if value}
        assert found == {f"{mean:.4f}" for mean in group.groupby("method")["tvd_tract"].mean()}
