"""History: evidence and nothing else, of the same series only, and part of what verification repeats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import pipelines
from geo_data import write_demo_region
from helpers import alone, copies, forge, freeze, plan_again, refused, same_key, with_values
from pipelines.config.loading import check_config
from pipelines.config.toml import ConfigError
from pipelines.drawing.estimating import JobLayout
from pipelines.planning.search import make_plan
from pipelines.release.measurements import read_measurements
from pipelines.release.signing import generate_keys
from pipelines.running.history import carried_over, with_history
from pipelines.storage.checksums import sha256_of

PLAN = {
    "coarsening": "units",
    "cell_level": "trct",
    "pool_level": "trct",
    "pool_below": 1000,
    "pool_by": [],
}
Configured = Callable[..., pipelines.ReleaseConfig]


@pytest.fixture(scope="module")
def configured(config_tables: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Configured:
    """Return the configuration of a year of a series in one folder."""
    folder = tmp_path_factory.mktemp("series")

    def of_year(year: int, **changes: object) -> pipelines.ReleaseConfig:
        source = Path(config_tables["jobs"]["file"])
        jobs = folder / source.name.replace("2019", str(year))
        shutil.copyfile(source, jobs)
        jobs.chmod(0o600)
        tables = with_values(
            config_tables,
            {
                "release.name": f"Small region {year}",
                "release.year": year,
                "release.mechanism": "geometric",
                "privacy.epsilon": "1",
                "release.out": f"release-{year}",
                "jobs.file": jobs,
                "plan": PLAN,
                "history": {"release": f"release-{year - 1}", "first": 2017},
            },
            {key.replace("__", "."): value for key, value in changes.items()},
        )
        return check_config(tables, folder, "small.toml")

    return of_year


@pytest.fixture(scope="module")
def series(configured: Configured, clean_source: object) -> list[pipelines.Release]:
    """Releases of three years, of one day."""
    with pytest.MonkeyPatch.context() as patch:
        freeze(patch)
        return [pipelines.run(configured(year), key=same_key()) for year in (2017, 2018, 2019)]


def test_the_last_year_names_those_before_it_and_verifies(series: list[pipelines.Release]) -> None:
    first, second, third = (release.plan for release in series)
    assert first.history is None
    assert second.history is not None
    assert third.history is not None
    sums = [sha256_of(release.public / "SHA256SUMS") for release in series]
    assert [tuple(release) for release in third.history.releases] == [
        ("Small region 2018", 2018, sums[1]),
        ("Small region 2017", 2017, sums[0]),
    ]
    assert "SHA256SUMS" in third.notes[-1]
    assert series[2].verify()
    assert alone(series[2].public) is None


def test_a_witness_makes_it_again_without_the_earlier_releases(
    series: list[pipelines.Release], configured: Configured, tmp_path: Path
) -> None:
    private, public = generate_keys(tmp_path / "keys")
    earlier = Path(shutil.copytree(series[1].out, tmp_path / "earlier"))
    changes = {"history": {"release": str(earlier), "first": 2017}, "witness": {"key": str(public)}}
    release = pipelines.run(configured(2019, release__out=str(tmp_path / "again"), **changes))
    shutil.rmtree(earlier)
    pipelines.witness(release.out, private)
    details = {check.name: check.detail for check in pipelines.verify(release.public)}
    assert "the run was repeated" in details["witnessed"]


def test_history_changes_neither_tables_nor_noise_nor_cost(
    series: list[pipelines.Release], configured: Configured
) -> None:
    with_it, without = series[2].plan, make_plan(configured(2019, history=None))
    assert with_it.numeric.parameters == without.numeric.parameters
    assert with_it.choices == without.choices
    assert with_it.certify() == without.certify()
    assert np.array_equal(with_it.numeric.domains.cuts, without.numeric.domains.cuts)


def test_variances_fall_from_year_to_year(series: list[pipelines.Release]) -> None:
    means = []
    for release in series:
        layout = JobLayout(release.plan)
        layout, _ = layout.with_history(read_measurements(release.public, release.plan, layout)[0])
        table = layout.tables[0]
        means.append(table.law.variance if table.variances is None else float(table.variances.mean()))
    assert means[2] < means[1] < 0.8 * means[0]


def test_the_same_key_gives_the_same_release(
    series: list[pipelines.Release], configured: Configured, tmp_path: Path, frozen_day: None
) -> None:
    again = pipelines.run(configured(2018).with_out(tmp_path / "again"), key=same_key())
    for name in (
        "plan/plan.json",
        "plan/history.parquet",
        "measurements/table-1.parquet",
        "intervals.parquet",
    ):
        assert (again.public / name).read_bytes() == (series[1].public / name).read_bytes()


def test_a_reviewed_plan_keeps_its_history(
    series: list[pipelines.Release], configured: Configured, tmp_path: Path
) -> None:
    config = configured(2018).with_out(tmp_path / "release")
    planned = pipelines.plan(config, tmp_path / "plan")
    release = pipelines.run(config, plan=planned.folder, key=same_key())
    assert release.plan.history is not None
    assert sha256_of(release.public / "plan" / "plan.json") == planned.sha256


def _other_means(public: Path) -> None:
    """Carry other counts over, in a plan that names them."""
    path = public / "plan" / "history.parquet"
    rows = pq.read_table(path)
    mean = rows["mean"].combine_chunks()
    values = mean.flatten().to_numpy()
    values = values + 300 * (-1) ** np.arange(values.size)  # no jumps
    changed = mean.from_arrays(mean.offsets, values)
    at = rows.column_names.index("mean")
    pq.write_table(rows.set_column(at, rows.schema.field(at), changed), path, compression="zstd")
    plan_again(public, lambda document: document["files"].update({"history.parquet": sha256_of(path)}))


def test_homes_do_not_follow_from_another_history(series: list[pipelines.Release], tmp_path: Path) -> None:
    forged = next(copies(series[2].public, tmp_path))
    _other_means(forged)
    assert refused(forged).check == "data"


def test_a_changed_history_is_not_the_one_of_the_plan(
    series: list[pipelines.Release], tmp_path: Path
) -> None:
    public = next(copies(series[2].public, tmp_path))
    path = public / "plan" / "history.parquet"
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    forge(public, json.loads((public / "certificate.json").read_text()))
    assert "history.parquet" in str(refused(public))
    assert "history.parquet" in str(alone(public))


def test_years_without_a_release_are_said_and_count_as_change(
    series: list[pipelines.Release], configured: Configured
) -> None:
    config = configured(2019, history__release="release-2017")
    plan = with_history(config, make_plan(config))
    assert plan.history is not None
    assert plan.history.years_to(2019) == 2
    assert "2 years before" in plan.notes[-1]


def test_releases_that_cannot_be_history_are_refused(
    series: list[pipelines.Release], configured: Configured, tmp_path: Path, clean_source: object
) -> None:
    plan = make_plan(configured(2019))

    def refusal(config: pipelines.ReleaseConfig, of: Any = plan) -> str:
        with pytest.raises(ConfigError) as error:
            with_history(config, of)
        return str(error.value)

    missing = refusal(configured(2019, history__release="release-2001"))
    assert "release-2001" in missing
    assert "history.first = 2019" in missing
    late = refusal(configured(2019, history__release="release-2019"))
    assert "Small region 2019 (2019) is not before Small region 2019 (2019)" in late
    other = configured(2019, release__state="elsewhere")
    named = refusal(other, make_plan(other))
    assert "Small region 2018 (2018) and Small region 2019 (2019) differ in state" in named
    pools = configured(2019, plan__pool_by=["SE"])
    assert "measured homes in other cells or pools" in refusal(pools, make_plan(pools))


def test_a_tier_as_history_is_said_to_reach_the_readers_of_this_release(
    series: list[pipelines.Release], configured: Configured
) -> None:
    earlier, plan = series[0].plan, make_plan(configured(2018, history=None))
    counts = read_measurements(series[0].public, earlier, JobLayout(earlier))[0]
    tiers = {"public": Fraction(1, 10), "secure": earlier.config.privacy.epsilon}
    tiered = replace(earlier, config=earlier.config.model_copy(update={"tiers": tiers}))
    said = [carried_over(each, counts, "0" * 64, plan).notes[-1] for each in (tiered, earlier)]
    assert ["the history is the tier secure of Small region 2017" in note for note in said] == [True, False]


def test_a_release_with_a_history_is_not_refined(series: list[pipelines.Release]) -> None:
    with pytest.raises(ConfigError, match=r"with a \[history\] .*Fix: make a new release"):
        pipelines.refine(series[1].out, "99")


def test_another_region_is_refused_naming_both(
    series: list[pipelines.Release], configured: Configured, config_tables: dict[str, Any], tmp_path: Path
) -> None:
    paths = write_demo_region(tmp_path / "other", counties=2, tracts=6, blocks=121, jobs=600)
    names = {Path(path).name: str(path) for path in paths.values()}

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [moved(item) for item in value]
        return names.get(Path(value).name, value) if isinstance(value, str) else value

    config = configured(2019)
    elsewhere = with_values(
        moved(config_tables),
        {
            "release.mechanism": "geometric",
            "release.name": "Another region",
            "history": {"release": str(series[1].out)},
            "plan": PLAN,
        },
    )
    other = check_config(elsewhere, config.release.out.parent, "other.toml")
    with pytest.raises(
        ConfigError, match=r"Small region 2018 \(2018\) and Another region \(2019\) are of other regions"
    ):
        with_history(other, make_plan(other))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release__mechanism": None}, 'write release.mechanism = "gaussian" or "geometric"'),
        ({"release__mechanism": "dirichlet"}, "noisy counts of tables are needed"),
        ({"release__implicates": 2}, "one synthetic data set"),
        ({"history__first": 2030}, "the series begins in 2030, after release.year 2019"),
    ],
)
def test_settings_that_go_without_history_are_refused(
    configured: Configured, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError) as error:
        configured(2019, **changes)
    assert words in str(error.value)


def test_releases_of_a_series_are_compared_without_common_noise(
    series: list[pipelines.Release], configured: Configured, tmp_path: Path
) -> None:
    files = pipelines.compare(series[0].public, series[1].public, tmp_path / "change")
    without = pipelines.run(configured(2018, history=None).with_out(tmp_path / "without"), key=same_key())
    alike = pipelines.compare(series[0].public, without.public, tmp_path / "alike")
    assert "without the noisy counts of earlier releases" in files["read-me"].read_text(encoding="utf-8")
    name = next(name for name in files if " to " in name)
    both = pd.read_csv(files[name]).merge(
        pd.read_csv(alike[name]), on=["home", "work"], suffixes=("", "_due")
    )
    assert both["low"].equals(both["low_due"])
    assert both["high"].equals(both["high_due"])
