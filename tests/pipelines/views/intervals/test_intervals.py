"""Intervals of a release: from its public folder alone, right where nothing is uncertain, refused clearly."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import geo_data
import pipelines
import synth
from geo_data.od_files import count_columns
from helpers import load
from pipelines import PublicReleaseError, Release
from pipelines.cli.main import main
from pipelines.config.languages import ENGLISH
from pipelines.drawing.estimating import PublicModel
from pipelines.release.intervals import N_DRAWS, read_draws
from pipelines.release.pages import phrases
from pipelines.views.intervals import reading
from pipelines.views.intervals.evidence import _drawn, _Prior
from pipelines.views.intervals.reading import Pairs, coverage_words
from pipelines.views.key_figures import Figure, key_figures
from pipelines.views.maps.payload import make_payload
from synth.geometric.measured import JobGroups
from synth.posterior import evidence as of_counts
from synth.posterior.evidence import URN, Evidence
from synth.posterior.implicates import Published

from ...running.helpers import GEOMETRIC

held_by_lot = load("benchmarks/by_lot.py").held_by_lot


@pytest.fixture(scope="module")
def public(industry_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public folder that stands alone."""
    return Path(shutil.copytree(industry_release.public, tmp_path_factory.mktemp("alone") / "public"))


@pytest.fixture(scope="module")
def opened(public: Path) -> pipelines.PosteriorDraws:
    return pipelines.open_release(public).draws()


def test_every_draw_has_the_public_totals(public: Path, opened: pipelines.PosteriorDraws) -> None:
    (by,) = (table.attributes[0] for table in opened.tables if table.work and table.attributes)
    column = count_columns(opened.release.categories)[by][0]
    for names, count, level in (((), "S000", "tabblk2010"), ((by,), column, "trct")):
        rows = pipelines.open_release(public).unit_flows("st", level, [count])
        drawn = opened.implicates("st", level, names)
        if names:
            drawn = drawn[drawn[by] == opened.release.categories[by][0]]
        jobs = drawn.groupby("work")[[str(i + 1) for i in range(N_DRAWS)]].sum()
        public_jobs = rows.groupby(opened.release.geography.codes(level)[rows["work"]])[count].sum()
        expected = public_jobs[public_jobs > 0]
        assert jobs.index.tolist() == expected.index.tolist()
        assert (jobs.to_numpy() == expected.to_numpy()[:, np.newaxis]).all()


def test_a_plan_may_have_many_classes_of_pools(public: Path) -> None:
    release = pipelines.open_release(public)
    plan = release.plan
    numeric = plan.numeric
    table = synth.Table(numeric.pools.n, numeric.pools.domain, numeric.domains)
    classes = numeric.parameters.classes
    more = replace(numeric.parameters, classes=(classes[0],) * 300 + classes)
    many = replace(plan, numeric=replace(numeric, parameters=more, pool_class=numeric.pool_class + 300))
    every = slice(0, int(table.offsets[-1]))
    for one, other in zip(*(_drawn(release, each, table).of(every) for each in (plan, many)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", [of_counts.GEOMETRIC, URN])
def test_the_model_of_the_draws_has_learned_who_lives_where_they_work(public: Path, kind: int) -> None:
    """A third of all, and the others are as the public model has them."""
    plan = pipelines.open_release(public).plan
    geography, numeric, public_model = plan.geography, plan.numeric, PublicModel(plan)
    table = synth.Table(numeric.pools.n, numeric.pools.domain, numeric.domains)
    unit = geography.unit_of("trct", plan.pools.slots.work[np.cumsum(table.n) - table.n])
    pairs, place = np.unique(np.stack([unit, table.domain]), axis=1, return_inverse=True)
    starts, counts = geography.starts("trct").astype(np.int32), []
    for domain, tract, n in zip(table.domain.tolist(), unit.tolist(), table.n.tolist(), strict=True):
        cells = slice(*table.domains.offsets[domain : domain + 2])
        share = public_model(tract, table.domains.cuts[cells]) * 2 / 3
        share[np.searchsorted(table.domains.cuts[cells], starts[tract], side="right") - 1] += 1 / 3
        counts.append(n * share)
    jobs, noise, prior = np.concatenate(counts), 0.2, 200.0
    seen = np.rint(1000 * jobs + (prior if kind == URN else 0)).astype(np.int64)
    order = np.argsort(place, kind="stable")
    rows = table.n[order], place[order].astype(np.int32), order[np.newaxis].astype(np.int32)
    parameter = np.array([noise if kind != URN else prior])
    evidence = Evidence(kind, seen, np.zeros(seen.size, np.int64), parameter, np.ones(1))
    published = Published([replace(table, n=1000 * table.n)], [evidence], JobGroups(*rows))
    model = _Prior(plan, "trct", pairs[0], np.zeros(pairs.shape[1], np.int32)).learned(published)
    stay, learned = (
        np.array([shares(i, starts)[tract] for i, tract in enumerate(pairs[0].tolist())])
        for shares in (lambda i, cuts: public_model(int(pairs[0, i]), cuts), model)
    )
    true = (1 / 3 + 2 / 3 * stay).mean()
    assert abs(learned.mean() - true) < 0.4 * abs(stay.mean() - true)


def test_any_sum_of_areas_is_a_sum_in_every_draw(opened: pipelines.PosteriorDraws) -> None:
    numbers = [str(i + 1) for i in range(N_DRAWS)]
    tracts = opened.release.geography.codes("trct")
    towns = {code: f"town {i % 2}" for i, code in enumerate(tracts.tolist())}
    fine = opened.implicates("trct", "trct")
    by_town = fine.groupby([fine["home"].map(towns), fine["work"].map(towns)])[numbers].sum()
    found = opened.implicates(towns, pd.Series(towns)).set_index(["home", "work"])
    pd.testing.assert_frame_equal(found.sort_index(), by_town, check_dtype=False)
    intervals = opened.flows(towns, towns).set_index(["home", "work"]).sort_index()
    drawn = by_town.to_numpy()
    assert (intervals["low"].to_numpy() == drawn.min(axis=1)).all()
    assert (intervals["high"].to_numpy() == drawn.max(axis=1)).all()
    assert np.allclose(intervals["estimate"], drawn.mean(axis=1), atol=0.051)
    half = dict.fromkeys(tracts.tolist()[:2], "one")
    assert opened.flows(half, None)["home"].tolist() == ["one"], "units without an area are left out"


def test_several_questions_read_the_draws_of_a_table_once(
    opened: pipelines.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each has the intervals that it has alone: from a place, to it, in it, and of all together."""
    geography = opened.release.geography
    tracts = geography.units_of_blocks("trct").astype(np.int64)
    flows = opened.release.unit_flows("trct", "trct").head(40)
    homes, works = (flows[side].to_numpy().astype(np.int64) for side in ("home", "work"))
    here, there, none = tracts == 1, tracts == 2, np.zeros(1, np.int64)
    asked = [
        Pairs(homes, works, tracts, tracts, ("S000",)),
        Pairs(homes, works, "trct", "cty", ("S000",)),
        *(
            Pairs(none, none, np.where(home, 0, -1), np.where(work, 0, -1), ("S000",))
            for home, work in ((here, there), (here, here | ~here), (here | ~here, here))
        ),
    ]
    alone = [opened.between_each([pairs])[0]["S000"] for pairs in asked]
    read: list[str] = []
    monkeypatch.setattr(
        reading, "read_draws", lambda *given: read.append(given[1].name) or read_draws(*given)
    )
    for told, expected in zip(opened.between_each(asked), alone, strict=True):
        assert np.array_equal(told["S000"], expected)
    assert read == ["trct to trct"]
    everything = opened.flows("trct", "trct").set_index(["home", "work"])[["estimate", "low", "high"]]
    codes = geography.codes("trct")
    pairs = pd.MultiIndex.from_arrays([codes[homes], codes[works]])
    assert np.array_equal(np.transpose(alone[0]), everything.reindex(pairs, fill_value=0).to_numpy())


def test_tables_of_areas_and_flows_are_those_of_the_draws(
    public: Path, opened: pipelines.PosteriorDraws
) -> None:
    codes = dict.fromkeys(("home", "work", "code"), "str")
    flows, areas = (pd.read_csv(public / name, dtype=codes) for name in ("flows.csv", "areas.csv"))
    ends = ["estimate", "low", "high"]
    for level in ("cty", "trct"):
        here = flows[flows["level"] == level].set_index(["home", "work"])[ends].sort_index()
        found = opened.flows(level, level).set_index(["home", "work"])[ends].sort_index()
        pd.testing.assert_frame_equal(here, found)
        here = areas[(areas["level"] == level) & (areas["count"] == "residents")].set_index("code")[ends]
        found = opened.flows(level, None).set_index("home")[ends]
        pd.testing.assert_frame_equal(here, found, check_names=False)


@pytest.fixture(scope="module")
def cut(cut_release: Release) -> pipelines.PosteriorDraws:
    """Draws of tables of areas that cut tracts, and of home blocks."""
    return pipelines.open_release(cut_release.public).draws()


def test_areas_that_cut_units_have_the_intervals_of_their_own_tables(cut: pipelines.PosteriorDraws) -> None:
    geography = cut.release.geography
    for home, work, attribute in (
        ("stplc", "stplc", None),
        ("stplc", None, "SE"),
        ("tabblk2010", "trct", None),
        ("trct", "stplc", None),
    ):
        found = cut.flows(home, work, attribute or ())
        assert len(found)
        assert (found["high"] > found["low"]).any(), "nothing says where a unit's homes are"
    assert not cut.has("tabblk2010", "stplc"), "no table has parts of both"
    numbers = [str(i + 1) for i in range(N_DRAWS)]
    by_place = cut.implicates("stplc", "stplc").set_index(["home", "work"])[numbers]
    every = cut.implicates(dict.fromkeys(geography.codes("stplc").tolist(), "all"), "stplc")
    sums = by_place.groupby("work").sum()
    assert (every.set_index("work")[numbers] == sums).all(axis=None)
    place = geography.codes("stplc")[geography.non_nesting_areas["stplc"].area]
    jobs = cut.release.unit_flows("st", "tabblk2010")
    public = jobs.groupby(place[jobs["work"]])["S000"].sum()
    assert (sums.to_numpy() == public[sums.index].to_numpy()[:, np.newaxis]).all()
    assert len(sums) == len(public)


def test_counts_without_noise_have_no_width(
    small_config: Callable[..., pipelines.ReleaseConfig],
    small_region: dict[str, Path],
    small_geography: geo_data.Geography,
    clean_source: object,
) -> None:
    """With so large an epsilon what was published says what the truth is; nothing else is asked for here."""
    truth = geo_data.LodesJobs(small_region["od"], small_geography).records()
    geography, n = small_geography, small_geography.n_units("trct")
    pairs = geography.unit_of("trct", truth.work) * n + geography.unit_of("trct", truth.home)
    expected = np.bincount(pairs, minlength=n * n)
    cells = {"plan.coarsening": "units", "plan.cell_level": "trct", "privacy.epsilon": "60"}
    for pools in ({"plan.pool_below": 10_000, "plan.pool_level": "trct"}, {"plan.pool_below": 1}):
        release = pipelines.run(small_config(GEOMETRIC, {"plan.split_threshold": None}, cells, pools))
        found = release.draws().flows("trct", "trct")
        assert (found["low"] == found["high"]).all()
        unit = [geography.unit_number("trct", found[side]) for side in ("work", "home")]
        jobs = np.zeros(n * n, np.int64)
        jobs[unit[0] * n + unit[1]] = found["low"]
        assert np.array_equal(jobs, expected)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["dirichlet", pytest.param("geometric", marks=pytest.mark.deep)])
def test_intervals_of_a_release_hold_the_truth(mechanism: str, tmp_path: Path, clean_source: object) -> None:
    """A region whose jobs follow no model of the program, with such a plan as the planner makes.

    Its towns cut tracts, and blocks of a tract, of which the public weights say nothing, differ much.
    """
    path = pipelines.demo_inputs(tmp_path, jobs=8_000, blocks=1_000, tracts=15)
    file = path.parent.parent / "out" / "demo-inputs" / "demo_xwalk.csv.gz"
    crosswalk = pd.read_csv(file, dtype="str")
    north = crosswalk["blklatdd"].astype(float).rank(pct=True)
    crosswalk.assign(town=np.ceil(8 * north).astype(int).astype("str")).to_csv(file, index=False)
    tables = [("trct", "trct"), ("trct", "tabblk2010"), ("town", "trct"), ("tabblk2010", "trct")]
    text = path.read_text(encoding="utf-8").replace('"dirichlet"', f'"{mechanism}"')
    text = text.replace("[geography]\n", '[geography]\nnon_nesting_areas = ["town"]\n')
    text += "".join(f'[[workload]]\nhome = "{home}"\nwork = "{work}"\n' for home, work in tables)
    plan = 'coarsening = "units"\npool_below = 8\npool_by = []'  # as the search would end, sooner
    text = text.replace('retention_min = "0.5"', f'retention_min = "1"\n{plan}')
    config = pipelines.parse_config(text, path.parent, "demo.toml").with_out(tmp_path / "release")
    release = pipelines.run(config)
    opened = release.draws()
    geography = release.plan.geography
    source = geo_data.LodesJobs(config.jobs.file, geography, config.jobs.aux)
    truth, random = source.records(), np.random.default_rng(1)
    for home, work in tables:
        n = geography.n_units(home)
        unit = geography.unit_of(work, truth.work).astype(np.int64)
        jobs = np.bincount(
            unit * n + geography.unit_of(home, truth.home), minlength=geography.n_units(work) * n
        )
        cells = opened.cells(home, work)
        own = jobs[cells.work * n + cells.home]
        every = held_by_lot(own, cells.counts, random)[cells.counts.mean(axis=0) >= 0.5]
        by_chance = 3 * np.sqrt(0.09 / every.size)
        assert 0.87 - by_chance < every.mean() < 0.98, (home, work, every.mean(), every.size)


def test_what_cannot_be_asked_is_refused(
    public: Path, opened: pipelines.PosteriorDraws, public_copy: Path
) -> None:
    for ask, said in (
        (lambda: opened.flows("tabblk2010", "trct"), "no draws of .* these tables: trct to trct; "),
        (lambda: opened.flows("trct", "moon"), "no workplaces by 'moon'"),
        (lambda: opened.flows("stplc", "trct"), "no homes by 'stplc'"),
        (lambda: opened.flows("trct", "trct", "XX"), "no attribute XX"),
        (lambda: opened.flows({"99": "a"}, "trct"), "not units of one level"),
        (lambda: opened.flows("trct", None, "SA"), 'homes apart by "SA".*Fix: count rows of synthetic'),
        (lambda: pipelines.open_release(public).write_intervals(), "jobs by workplace are exact"),
    ):
        with pytest.raises(PublicReleaseError, match=said):
            ask()
    file = public_copy / "intervals.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(PublicReleaseError, match=r"intervals\.parquet: damaged"):
        pipelines.open_release(public_copy).draws().flows("trct", "trct")
    file.unlink()
    without = pipelines.open_release(public_copy)
    with pytest.raises(PublicReleaseError, match="no such file"):
        without.draws()
    without.export("csv", public_copy.parent / "exports", home_level="trct")
    (flows,) = public_copy.parent.glob("exports/csv/*flows*.csv")
    assert "low" not in pd.read_csv(flows, nrows=1)
    assert "draws" not in make_payload(without, 10**7).meta
    figures = key_figures(without)
    assert figures is not None
    rows = without.unit_flows(figures.level, figures.level)
    crossing = rows.loc[rows["home"] != rows["work"], "S000"].sum()
    assert figures.crossing == Figure(number=crossing / rows["S000"].sum())


def test_exports_have_the_estimates_of_their_flows(
    public: Path, opened: pipelines.PosteriorDraws, tmp_path: Path
) -> None:
    release = pipelines.open_release(public)
    release.export(["csv", "omx"], tmp_path, home_level="trct")
    names = ["estimate", "low", "high"]
    codes = dict.fromkeys(("home", "work"), "str")
    flows = pd.read_csv(next(tmp_path.glob("csv/*flows*.csv")), dtype=codes)
    said = opened.flows("trct", "trct").set_index(["work", "home"])[names]
    own = flows.set_index(["work", "home"])[names]
    pd.testing.assert_frame_equal(own, said.reindex(own.index, fill_value=0))
    assert (own["high"] > 0).any()
    found, untold = 0, []
    for name, columns in count_columns(opened.release.categories).items():
        if not opened.has("trct", "trct", (name,)):
            assert not {f"low_{column}" for column in columns} & {*flows}
            untold.append(name)
            continue
        found += 1
        by = opened.flows("trct", "trct", name).set_index(["work", "home", name])[names]
        for category, column in zip(opened.release.categories[name], columns, strict=True):
            told = flows.set_index(["work", "home"])[[f"{each}_{column}" for each in names]]
            said = by.xs(category, level=name).reindex(told.index, fill_value=0)
            assert told.to_numpy().tolist() == said.to_numpy().tolist(), column
    assert found
    readmes = {name: (tmp_path / name / "README.txt").read_text(encoding="utf-8") for name in ("csv", "omx")}
    assert coverage_words()[0] in readmes["csv"]
    assert phrases(ENGLISH).untold([(name,) for name in untold]) in readmes["csv"]
    assert coverage_words()[0] not in readmes["omx"], "which has no place for intervals"
    release.export("csv", tmp_path / "fine", home_level="tabblk2010", work_level="trct")
    fine = pd.read_csv(next(tmp_path.glob("fine/csv/*flows*.csv")), nrows=1)
    assert "low" not in fine, "of home blocks there are no draws"
    assert coverage_words()[0] not in (tmp_path / "fine" / "csv" / "README.txt").read_text(encoding="utf-8")


def test_the_command_says_where_intervals_are(public: Path) -> None:
    result = CliRunner().invoke(main, ["intervals", str(public)])
    assert result.exit_code != 0
    assert "read intervals.parquet" in result.output
    assert not (public.parent / "intervals").exists()
