"""Whole records are protected: of none is anything read to plan, and none leaves a trace but in the data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
import synth
from geo_data.pools import PoolFinder
from helpers import Said, same_key
from pipelines import plan, resume, run, verify
from pipelines.drawing.workplaces import estimate_again, slots_fit_again
from pipelines.planning import search
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.plans.plan import Choices
from pipelines.plans.workplaces import combination_of, combined
from pipelines.release.intervals import N_DRAWS, interval_tables, read_draws
from pipelines.running import batches as running_batches
from pipelines.running import workplaces as measuring
from pipelines.running.folder import RunFolder
from pipelines.views.intervals.evidence import JobDraws
from pipelines.views.intervals.job_errors import JobErrors
from pipelines.views.intervals.workplaces import WorkplaceIntervals
from synth.geometric.measured import count_cells

from .helpers import Configs, Table, everything
from .kinds import KIND, OF_WORKPLACES, RECORDS
from .test_workplaces import SUMS

SAMPLE = 300  # rows of the jobs that inputs are made of
EACH_MECHANISM = pytest.mark.parametrize("records", ["records", "records resampled"], indirect=True)


@pytest.fixture
def jobs(microdata: dict[str, Path]) -> pd.DataFrame:
    return pd.read_csv(microdata["csv"], dtype="str")


@pytest.fixture
def records(
    request: pytest.FixtureRequest,
    small_config: Configs,
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., pipelines.ReleaseConfig]:
    """Return a configuration of whole records in a file of its own, with the choices of a kind."""
    kind = KIND[getattr(request, "param", "records")]
    kind.choose(monkeypatch)

    def config(jobs: pd.DataFrame, *changes: Table) -> pipelines.ReleaseConfig:
        folder = tmp_path / f"jobs{len(list(tmp_path.glob('jobs*')))}"
        folder.mkdir()
        jobs.to_csv(folder / microdata["csv"].name, index=False)
        (folder / microdata["csv"].name).chmod(0o600)
        changed = {"jobs.file": str(folder / microdata["csv"].name)}
        return small_config(microdata_jobs("csv"), {"run.batch_jobs": 200}, kind.changes, changed, *changes)

    return config


@EACH_MECHANISM
def test_the_plan_is_made_without_the_jobs(
    records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame
) -> None:
    """Byte for byte the same from any jobs, from junk, and from a file that is not there."""
    configs = [records(jobs), records(jobs[:1]), records(jobs)]
    Path(configs[1].jobs.files[0]).write_bytes(b"nobody reads this")
    Path(configs[2].jobs.files[0]).unlink()
    assert len({plan(config).sha256 for config in configs}) == 1


def differing(jobs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Inputs that differ from the first in one record, or in whether it is there; one of few, and of none."""
    other = {name: jobs.copy() for name in ("home", "work", "attribute", "everything")}
    last = jobs.index[-1]
    homes, works = (jobs[column].unique() for column in ("live", "toil"))
    other["home"].loc[last, "live"] = next(h for h in homes if h != jobs.loc[last, "live"])
    other["work"].loc[last, "toil"] = next(w for w in works if w != jobs.loc[last, "toil"])
    other["attribute"].loc[last, "age"] = next(a for a in jobs["age"].unique() if a != jobs.loc[last, "age"])
    other["everything"].loc[last] = jobs.iloc[0]
    return {"first": jobs, **other, "one less": jobs[:-1], "few": jobs[:5], "none": jobs[:0]}


@EACH_MECHANISM
def test_inputs_that_differ_in_a_record_differ_in_the_data_alone(
    records: Callable[..., pipelines.ReleaseConfig],
    jobs: pd.DataFrame,
    capsys: pytest.CaptureFixture[str],
    frozen_day: None,
    clean_source: object,
    said: Said,
) -> None:
    """The same words, files, and bytes of all that is not made of noisy counts."""
    seen: dict[str, Any] = {}
    for name, table in differing(jobs[:SAMPLE]).items():
        said.clear()
        release = run(records(table), key=synth.RunKey.from_seed(3))
        words = [re.sub(r"[0-9.]+ s$|[0-9,]+ synthetic", "", line) for line in said]
        names = sorted(path.relative_to(release.public).as_posix() for path in release.public.rglob("*"))
        fixed = {path: text for path, text in everything(release.public).items() if is_fixed(path)}
        seen[name] = words, names, fixed
    for name, found in seen.items():
        assert found == seen["first"], name
    assert capsys.readouterr().out == ""


def is_fixed(path: str) -> bool:
    """Say whether a file has nothing of noisy counts, of which the number of released jobs is one."""
    of_counts = (
        "_od_",
        "_jobs_",
        "intervals.parquet",
        "areas.csv",
        "flows.csv",
        "measurements/",
        "README.md",
        "details.md",
        "attackers.md",
        "certificate.json",
    )
    return not any(part in path for part in of_counts) and path not in SUMS


@EACH_MECHANISM
def test_records_that_the_configuration_does_not_know_are_left_out(
    records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame, frozen_day: None
) -> None:
    """Of another work block, or another category: told to nobody, and counted for the operator alone."""
    strange = jobs[:SAMPLE].iloc[:4].copy()
    strange.iloc[:2, strange.columns.get_loc("toil")] = "999999999999999"
    strange.iloc[2:, strange.columns.get_loc("age")] = "ancient"
    with_them, without = (
        run(records(table), key=same_key()) for table in (pd.concat([jobs[:SAMPLE], strange]), jobs[:SAMPLE])
    )
    data = [
        {k: v for k, v in everything(release.public).items() if "_od_" in k or "measurements" in k}
        for release in (with_them, without)
    ]
    assert data[0] == data[1]
    kept = json.loads((with_them.out / "confidential" / "totals.json").read_text(encoding="utf-8"))
    assert kept["jobs"] == SAMPLE + 4
    assert kept["jobs_of_no_slot"] >= 4


@pytest.mark.parametrize(
    ("records", "steps"),
    [
        (
            "records",
            {
                measuring: ["write_workplaces", "keep_homes", "write_whole"],
                running_batches: ["write_slots", "sized_plan", "keep_numbers", "draw_homes"],
            },
        ),
        (
            "records resampled",
            {measuring: ["write_workplaces", "write_whole"], running_batches: ["sample_batch"]},
        ),
    ],
    indirect=["records"],
    ids=["records", "records resampled"],
)
def test_a_run_that_is_stopped_at_its_workplaces_goes_on_to_the_same_bytes(
    steps: dict[ModuleType, list[str]],
    records: Callable[..., pipelines.ReleaseConfig],
    jobs: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    frozen_day: None,
    clean_source: object,
) -> None:
    whole = everything(run(records(jobs[:SAMPLE]), key=same_key()).public)

    def failing(*arguments: Any, **named: Any) -> None:
        raise OSError(5, "Input/output error")

    for module, step in ((module, step) for module, names in steps.items() for step in names):
        config = records(jobs[:SAMPLE])
        with monkeypatch.context() as patch:
            patch.setattr(module, step, failing)
            with pytest.raises(OSError, match="Input/output"):
                run(config, key=same_key())
        assert RunFolder.of(config.release.out).begun, step
        resumed = resume(config.release.out)
        assert everything(resumed.public) == whole, step
        assert sorted(path.name for path in resumed.out.iterdir()) == ["confidential", "public"], step


@EACH_MECHANISM
def test_no_home_worker_is_reproduced_but_by_chance(
    records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame, clean_source: object
) -> None:
    """Everybody works at home, alone at the block: what gave their homes away where workplaces are public."""
    blocks = jobs["toil"].unique()
    at_home = jobs[: blocks.size].assign(live=blocks, toil=blocks)
    release = run(records(at_home, {"privacy.epsilon": "4"}))
    assert [check.name for check in verify(release.public)][-1] == "for release"
    drawn = pd.read_parquet(next(release.public.glob("*_jobs_*.parquet")))
    alike = set(zip(drawn["w_geocode"], drawn["h_geocode"], strict=True))
    reproduced = np.mean([(block, block) in alike for block in blocks])
    assert reproduced < 0.3, "of a release of public workplaces all would be"
    assert release.certificate.released_exactly is None


def test_the_search_shares_epsilon_between_workplaces_and_homes(
    small_config: Configs, microdata_jobs: Callable[..., Table]
) -> None:
    free: Table = {f"plan.{name}": None for name in ("split_threshold", "pool_below", "pool_by")}
    free |= {"release.mechanism": None, "plan.retention_min": None}
    declared = {name: RECORDS[name] for name in ("privacy.protects", "attribute")}
    config = small_config(microdata_jobs("csv"), free, declared)
    inputs = read_public_inputs(config)
    made = make_plan(config, inputs)
    shares = [table.share for table in made.choices.workplaces]
    assert [(t.work, t.by) for t in made.choices.workplaces] == [
        (None, ("age", "sector")),
        ("tabblk2010", ()),
        (inputs.model.level, ("age", "sector")),
    ]
    assert all(share > 0 for share in shares)
    assert sum(shares) < 1
    assert made.met_by(made.certify())
    units = inputs.geography.unit_of(inputs.model.level, inputs.slots.work)
    assert set(units.tolist()) == set(range(inputs.geography.n_units(inputs.model.level)))


@EACH_MECHANISM
def test_noise_may_be_larger_than_all_jobs(
    records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame, clean_source: object
) -> None:
    """Of hundreds of categories, of which few have jobs: what a check finds then has been paid for."""
    ages = sorted({*jobs["age"], *(f"kind {i}" for i in range(300))})
    many: Table = {"attribute": [{"name": "age", "categories": ages}, RECORDS["attribute"][1]]}
    few: Table = {"privacy.epsilon": "0.2", "plan.expected_jobs": 20}
    release = run(records(jobs[:20], many, few), key=same_key())
    assert release.certificate.totals.synthetic_workers > 0
    assert [check.name for check in verify(release.public)][-1] == "for release"


@pytest.mark.parametrize("seed", range(20))
def test_a_record_moves_one_unit_between_two_cells_of_every_table_at_most(
    seed: int, records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame
) -> None:
    """As the program itself counts them, whatever slots were estimated: what Lemma 43 takes for granted."""
    config = records(jobs[:1])
    made = make_plan(config, read_public_inputs(config))
    random = np.random.default_rng(seed)
    wide = [len(values) for values in made.pools.slots.categories.values()]

    def draw(n: int) -> geo_data.JobRecords:
        blocks = random.integers(-1, made.geography.n_blocks, n).astype(np.int32)
        homes = random.integers(0, made.geography.n_blocks, n).astype(np.int32)
        codes = {
            name: random.integers(0, k + 1, n).astype(np.uint8)  # one more stands for none
            for name, k in zip(made.pools.slots.categories, wide, strict=True)
        }
        return geo_data.JobRecords(blocks, homes, codes)

    expected = made.pools.slots
    drawn = made.with_slots(expected.take(np.flatnonzero(random.random(len(expected)) < 0.3)))
    one, other = draw(1), draw(1)
    before, after, neither = (counts_of(drawn, records) for records in (one, other, draw(0)))
    for a, b, nobody in zip(before, after, neither, strict=True):
        assert np.abs(a - b).sum() <= 2
        assert np.abs(a - b).max() <= 1
        assert np.abs(a - nobody).sum() <= 1


@pytest.mark.parametrize("seed", range(12))
def test_slots_that_are_estimated_again_fill_every_group_and_no_other(
    seed: int, records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame
) -> None:
    """Whatever counts say; and jobs of blocks are nearer to the truth where homes are counted well."""
    config = records(jobs[:1])
    made = make_plan(config, read_public_inputs(config))
    random = np.random.default_rng(seed)
    expected = made.pools.slots
    true = expected.take(np.sort(random.integers(0, len(expected), len(expected))))
    grouped = made.with_slots(true.take(np.flatnonzero(random.random(len(true)) < 0.7)))
    homes = random.integers(0, made.geography.n_blocks, len(true)).astype(np.int32)
    counts = counts_of(grouped, geo_data.JobRecords(true.work, homes, true.attributes))
    scale = [1, 30, 1000][seed % 3]
    noisy = [count + random.integers(-scale, scale + 1, count.size) for count in counts]
    of_work, of_homes = noisy[: len(made.workplaces)], noisy[len(made.workplaces) :]
    slots = estimate_again(made, of_work, grouped, of_homes)
    assert slots_fit_again(made, of_work, grouped, of_homes, slots)
    sized = grouped.with_jobs(slots)  # which refuses slots of no pool
    for one, other in zip((grouped, *grouped.secondary), (sized, *sized.secondary), strict=True):
        table, again = (x.table if hasattr(x, "table") else x.pools for x in (one, other))
        assert table.n.shape == again.n.shape
        assert again.n.min() >= 1
        assert again.n.sum() == len(slots)
    assert np.array_equal(sized.pools.keys, grouped.pools.keys)
    assert not slots_fit_again(made, of_work, grouped, of_homes, slots.take(np.arange(len(slots) - 1)))
    if scale == 1:
        off = [np.abs(x.jobs(made.geography.n_blocks) - true.jobs(made.geography.n_blocks)).sum()
               for x in (slots, grouped.pools.slots)]  # fmt: skip
        assert off[0] < 0.8 * off[1]


def test_a_combination_that_is_largest_in_no_group_keeps_its_jobs(
    records: Callable[..., pipelines.ReleaseConfig], jobs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pools of few places, by no attribute: each has jobs of every combination."""
    chosen = Choices("trct", 10**6, (), cell_level="trct", workplaces=OF_WORKPLACES)
    monkeypatch.setattr(search, "choose", lambda *_: chosen)
    config = records(jobs[:1])
    made = make_plan(config, read_public_inputs(config))
    true = made.pools.slots
    grouped = made.with_slots(true)
    homes = np.zeros(len(true), np.int32)
    counts = counts_of(grouped, geo_data.JobRecords(true.work, homes, true.attributes))
    slots = estimate_again(made, counts[: len(made.workplaces)], grouped, counts[len(made.workplaces) :])
    kinds = [np.bincount(combination_of(of, true.categories)[0], minlength=6) for of in (slots, true)]
    assert kinds[0] == pytest.approx(kinds[1], abs=1)


def counts_of(plan: pipelines.ReleasePlan, records: geo_data.JobRecords) -> list[np.ndarray]:
    """Count records in every table of a plan: of workplaces, of pools, and the secondary ones."""
    numeric, pool = plan.numeric, PoolFinder(plan.pools, plan.geography).find(records)
    first = synth.Table(numeric.pools.n, numeric.pools.domain, numeric.domains)
    groups = [(first, pool), *((table.table, table.find(records)) for table in plan.secondary)]
    homes = [
        count_cells(table, group[inside].astype(np.int32), records.home[inside])
        for table, group in groups
        for inside in [group < table.n.size]
    ]
    return [*(table.count(records) for table in plan.workplaces), *homes]


@pytest.mark.parametrize("name", ["records", "records resampled", "secret"])
def test_draws_of_jobs_by_workplace_spread_as_their_noisy_counts_say(
    released: Callable[[str], pipelines.Release], name: str
) -> None:
    """Homes alone would give every workplace the same jobs in every draw, of which hardly any is right."""
    release = released(name)
    geography, categories = release.plan.geography, release.plan.pools.slots.categories
    area, secret = geography.units_of_blocks("trct"), release.plan.policy.secret
    compared = 0
    for table in interval_tables(release.plan):
        if table.work is None or not {*secret} <= {*table.attributes}:
            continue
        drawn = read_draws(release.plan, table, release.public)
        work = geography.unit_of("trct", geography.starts(table.work))[drawn.work]
        kind = combined(dict(zip(table.attributes, drawn.categories, strict=True)), categories, work.size)
        told = WorkplaceIntervals(release).told(area.astype(np.int64), table.attributes)[1]
        jobs = np.stack([np.bincount(kind * told.shape[1] + work, row, told.size) for row in drawn.counts])
        mean, variance = jobs.mean(axis=0), jobs.var(axis=0, ddof=1)
        some = (mean > 0) & np.isfinite(told.ravel())
        if some.any():
            expected = 1 / (1 / told.ravel()[some] + 1 / mean[some] ** 2)
            assert 0.4 < variance[some].sum() / expected.sum() < 2.5
            compared += 1
    assert compared


def test_jobs_that_no_noisy_count_tells_are_the_same_in_every_table(
    released: Callable[[str], pipelines.Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released("records")
    jobs = JobDraws(release, N_DRAWS, same_key(), lambda *_: None)
    monkeypatch.setattr(
        JobErrors, "_told", lambda *asked: (np.zeros(asked[-1].size), np.full(asked[-1].size, np.inf))
    )
    errors, block = JobErrors(release, jobs, same_key()), release.geography.block_level
    first, other, again = (
        errors.factors(block, (name,)).of(jobs.work, [jobs.attributes[name]])
        for name in ("age", "sector", "age")
    )
    assert np.array_equal(first, again)
    assert all(0.1 < each.std() < 1 for each in (first, other))
