"""Releases with the totals of a public table of workplaces: the file's own totals stand nowhere."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
import synth
from geo_data.pools import PoolFinder
from helpers import Said
from pipelines import Release, ReleaseConfig, plan, run, verify
from pipelines.drawing.sampling import bring_into_range
from pipelines.planning.search import make_plan
from pipelines.release.intervals import AREAS_FILE, FLOWS_FILE, INTERVALS_FILE
from synth.block_sampling import OriginShares
from synth.dirichlet.mechanism import Dirichlet

from .helpers import TABLES, Configs, but_for_the_input, data_of, seeded
from .kinds import DIRICHLET, ONE_TABLE

CODES = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# Files with sizes and sums of the data files.
SUMS = ("SHA256SUMS", "MANIFEST.json", "datapackage.json", "croissant.json", "dcat-ap.jsonld")
EITHER = pytest.mark.parametrize("mechanism", [DIRICHLET, ONE_TABLE], ids=["dirichlet", "geometric"])


@pytest.fixture
def protected(small_config: Configs, blurred: Path) -> Configs:
    return lambda *changes, **named: small_config({"workplaces": {"file": str(blurred)}}, *changes, **named)


@pytest.fixture
def microdata_protected(
    small_config: Configs, microdata: dict[str, Path], microdata_jobs: Callable[..., Any], tmp_path: Path
) -> Callable[..., ReleaseConfig]:
    """Job-level records with two attributes, and a public table with other totals and categories."""
    table = pd.read_csv(microdata["csv"], dtype="str")
    own = table.groupby(["toil", "age", "sector"], as_index=False).size().rename(columns={"size": "jobs"})
    own = own[own["age"] != "old"]  # a category of the file that the table has not, and the other way round
    more = own.head(7).assign(age="ancient")
    public = pd.concat([own.assign(jobs=own["jobs"] + np.arange(len(own)) % 3), more])
    public.to_csv(tmp_path / "public.csv", index=False)
    workplaces = {"workplaces": {"file": str(tmp_path / "public.csv"), "count": "jobs"}}
    return lambda *changes: small_config(microdata_jobs("csv"), workplaces, *changes)


def totals_of(release: Release) -> dict[str, int]:
    level = release.plan.geography.block_level
    flows = pipelines.open_release(release.public).unit_flows(level, level)
    counts = flows.groupby("work")["S000"].sum()
    return {release.plan.geography.blocks[block]: int(jobs) for block, jobs in counts.items()}


@EITHER
def test_the_plan_is_made_from_public_files_alone(
    mechanism: dict[str, Any], protected: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Byte for byte the same plan from no jobs, or a file that is none."""
    name = small_region["od"].name
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / name).write_bytes(b"nobody reads this")
    files = [small_region["od"], tmp_path / "junk" / name, tmp_path / "absent" / name]
    one, of_junk, of_nothing = (plan(protected(mechanism, jobs=file)).sha256 for file in files)
    assert one == of_junk == of_nothing


@EITHER
def test_totals_of_the_file_stand_nowhere(
    mechanism: dict[str, Any],
    protected: Configs,
    small_region: dict[str, Path],
    blurred: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    frozen_day: None,
    clean_source: object,
    said: Said,
) -> None:
    """Files with other numbers of jobs give the same words, and files of the same sizes but for the data."""
    whole = pd.read_csv(small_region["od"], dtype=CODES)
    few, one = (
        whole.iloc[::4],
        whole[whole["w_geocode"].isin(pd.read_csv(blurred, dtype=CODES)["w_geocode"])][:1],
    )
    logged, texts = [], []
    for number, table in enumerate((whole, few, one)):
        folder = tmp_path / f"jobs{number}"
        folder.mkdir()
        table.to_csv(folder / small_region["od"].name, index=False)
        said.clear()
        config = protected(mechanism, jobs=folder / small_region["od"].name)
        release = run(config, key=synth.RunKey.from_seed(3))
        logged.append([re.sub(r"[0-9.]+ s$", "", line) for line in said])
        texts.append(
            {
                path.relative_to(release.public).as_posix(): path.read_bytes()
                for path in release.public.rglob("*")
                if path.is_file()
                and "_od_" not in path.name  # nor in the noisy counts
                and path.parent.name != "measurements"
                and path.name not in {*SUMS, INTERVALS_FILE, AREAS_FILE, FLOWS_FILE}
            }
        )
        texts[-1]["certificate.json"] = but_for_the_input(texts[-1]["certificate.json"])
    assert logged[0] == logged[1] == logged[2]
    assert texts[0] == texts[1] == texts[2]
    assert capsys.readouterr().out == ""


@EITHER
def test_jobs_that_no_public_total_is_for_are_left_out(
    mechanism: dict[str, Any],
    protected: Configs,
    small_region: dict[str, Path],
    tmp_path: Path,
    frozen_day: None,
) -> None:
    """At a block without a total, at one outside the geography: counted for the operator, in no output."""
    jobs = pd.read_csv(small_region["od"], dtype=CODES)
    first = jobs["w_geocode"].min()
    strange = jobs.head(5).assign(w_geocode="999999999999999")
    path = tmp_path / small_region["od"].name
    pd.concat([jobs, strange]).to_csv(path, index=False)
    with_them, without = (seeded(protected(mechanism, jobs=file)) for file in (path, small_region["od"]))
    assert data_of(with_them) == data_of(without)
    kept = json.loads((with_them.out / "confidential" / "totals.json").read_text(encoding="utf-8"))
    assert kept["jobs"] == jobs["S000"].sum() + strange["S000"].sum()
    at_first = jobs.loc[jobs["w_geocode"] == first, "S000"].sum()
    assert kept["jobs_of_no_slot"] >= at_first + strange["S000"].sum()
    assert (kept.keys() >= {"jobs_left_out", "homes_filled_in"}) == (mechanism is DIRICHLET)
    assert not list(with_them.public.rglob("totals.json"))


def test_a_table_of_which_no_job_is_is_refused(
    microdata_protected: Callable[..., ReleaseConfig], tmp_path: Path
) -> None:
    """A table that spells all categories otherwise: every job was left out, and homes made up."""
    config = microdata_protected({"plan.pool_by": ["age"]} | DIRICHLET)
    table = pd.read_csv(tmp_path / "public.csv", dtype="str")
    table.assign(age=table["age"].str.upper()).to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(geo_data.InputError, match="no job has a work block and category"):
        run(config)


def test_microdata_with_categories_of_its_own(
    microdata_protected: Callable[..., ReleaseConfig], microdata: dict[str, Path], clean_source: object
) -> None:
    jobs = pd.read_csv(microdata["csv"], dtype="str")
    for more in ({"plan.pool_by": ["age"]}, {"plan.pool_by": ["age", "sector"]} | TABLES, {}):
        config = microdata_protected(more)
        release = run(config)
        assert [check.name for check in verify(release.public)][-1] == "for release"
        assert release.plan.pools.slots.categories["age"] == ("ancient", "middle", "young")
        public = pd.read_csv(config.workplaces.file, dtype={"toil": "str"})  # type: ignore[union-attr]
        assert totals_of(release) == public.groupby("toil")["jobs"].sum().to_dict()
        kept = json.loads((release.out / "confidential" / "totals.json").read_text(encoding="utf-8"))
        elsewhere = ~jobs["toil"].isin(public["toil"])
        assert kept["jobs_of_no_slot"] >= elsewhere.sum()
        assert (kept["jobs_of_no_slot"] == elsewhere.sum()) == ("plan.pool_by" not in more)


def test_a_job_of_another_category_is_in_no_other_pool(
    microdata_protected: Callable[..., ReleaseConfig], small_geography: geo_data.Geography
) -> None:
    made = make_plan(config := microdata_protected({"plan.pool_by": ["age"]}))
    finder = PoolFinder(made.pools, made.geography)
    source = pipelines.planning.public_inputs.job_source(config, made.geography)
    for part in source.parts(("age",), made.pools.slots.categories, unmatched=True):
        old = part.attributes["age"] == len(made.pools.slots.categories["age"])
        assert old.any()
        found = finder.find(part)
        assert (found[old] == made.pools.n.size).all()
        inside = found < made.pools.n.size
        for name, codes in made.pools.strata.items():
            np.testing.assert_array_equal(codes[found[inside]], part.attributes[name][inside])


def test_a_reviewed_plan_is_compared_with_the_public_table(
    protected: Configs, blurred: Path, tmp_path: Path
) -> None:
    public = tmp_path / "public.csv"
    shutil.copyfile(blurred, public)
    config = protected(DIRICHLET, {"workplaces.file": public})
    planned = plan(config)
    table = pd.read_csv(public, dtype=CODES)
    table.iloc[1:].to_csv(public, index=False)
    with pytest.raises(geo_data.InputError, match=r"public\.csv.*not as in the plan"):
        run(config.with_out(tmp_path / "again"), plan=planned.folder)


def test_every_pool_is_given_a_number_of_homes_in_its_range(protected: Configs) -> None:
    config = protected(DIRICHLET)
    made = make_plan(config)
    n, domains = made.numeric.pools.n, made.numeric.domains
    assert made.numeric.target.record_range is not None
    least, most = made.numeric.target.record_range.limits(n)
    rng = np.random.default_rng(4)
    sizes = rng.integers(0, 3 * n + 3)
    homes = rng.integers(0, domains.n_blocks, int(sizes.sum())).astype(np.int32)
    seen = {}

    class Watched(Dirichlet):
        def sample(self, *arguments: Any) -> Any:
            seen["sizes"], seen["cells"] = arguments[4], arguments[2]
            return super().sample(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synth.MECHANISMS, "dirichlet", Watched())
        key, every = synth.RunKey.from_seed(1), slice(0, n.size)
        drawn = pipelines.drawing.sampling.sample_batch(made, every, homes, key, 0, 0, sizes)
    assert drawn.shape == (1, n.sum())
    np.testing.assert_array_equal(seen["sizes"], np.clip(sizes, least, most))
    # Who stays lives where somebody of the pool lived; nobody stays twice.
    domain = made.numeric.pools.domain
    cells = domains.locate(np.repeat(domain, sizes), homes)
    before, after = np.cumsum(sizes) - sizes, np.cumsum(seen["sizes"]) - seen["sizes"]
    for pool in range(n.size):
        own = np.bincount(cells[before[pool] :][: sizes[pool]], minlength=domains.n_blocks)
        given = np.bincount(seen["cells"][after[pool] :][: seen["sizes"][pool]], minlength=domains.n_blocks)
        if sizes[pool] > most[pool]:
            assert (given <= own).all()
        else:
            assert (given >= own).all()
    with pytest.raises(ValueError, match="fewer or more workers"):
        synth.MECHANISMS["dirichlet"].sample(made.numeric, every, cells, key.stream("urn", 1), sizes)


def test_the_confidential_file_is_no_public_table(protected: Configs, small_region: dict[str, Path]) -> None:
    config = protected({"workplaces.file": small_region["od"]})
    with pytest.raises(pipelines.ConfigError, match=r"workplaces\.file: .* is a confidential file"):
        plan(config)


# --- the example


@pytest.fixture(scope="module")
def example() -> Any:
    return runpy.run_path(str(EXAMPLES / "workplaces.py"))


def test_the_table_of_the_example_has_factors_of_its_own(example: Any, small_region: dict[str, Path]) -> None:
    jobs = pd.read_csv(small_region["od"], dtype=CODES)
    table, again = example["public_table"](jobs), example["public_table"](jobs[::-1])
    pd.testing.assert_frame_equal(table.reset_index(drop=True), again.reset_index(drop=True))
    for names in example["GROUPS"].values():
        assert (table[names].sum(axis=1) == table["S000"]).all()
        assert (table[names] >= 0).all(axis=None)
    own = jobs.groupby("w_geocode")["S000"].sum().reindex(table["w_geocode"]).to_numpy()
    assert (table["S000"] >= np.floor(own * example["LOW"])).all()
    assert (table["S000"] <= np.ceil(own * example["HIGH"])).all()
    assert (table["S000"] != own).mean() > 0.2


@pytest.mark.deep
def test_rhode_island_with_workplaces_of_its_own(
    example: Any, shared_data: Path, tmp_path: Path, clean_source: object
) -> None:
    example["main"](table := tmp_path / "ri_workplaces_2019.csv")
    config = pipelines.load_config(EXAMPLES / "workplaces.toml")
    assert config.workplaces is not None
    own = config.workplaces.model_copy(update={"file": table})
    release = run(config.model_copy(update={"workplaces": own}).with_out(tmp_path / "out"))
    assert [check.name for check in verify(release.public)][-1] == "for release"
    public = pd.read_csv(table, dtype=CODES).set_index("w_geocode")["S000"]
    assert totals_of(release) == public.to_dict()


def test_homes_that_fill_up_are_of_the_pools_own_destination(protected: Configs) -> None:
    """Also where one domain serves all: with shares by which everybody lives where they work, so they do."""
    made = make_plan(protected(DIRICHLET, {"plan.coarsening": "units", "plan.retention_min": "1"}))
    units, n = made.destinations, made.pools.n
    assert made.numeric.domains.n_domains == 1 < units.size
    alone = OriginShares(
        made.shares.starts,
        np.arange(units.size + 1, dtype=np.int64),
        units,
        np.ones(units.size, np.int32),
        made.shares.row,
    )
    key, nobody, every = synth.RunKey.from_seed(2), np.zeros(0, np.int32), slice(0, n.size)
    none = np.zeros(n.size, np.int64)
    homes, sizes = bring_into_range(replace(made, shares=alone), every, nobody, none, (n, n), key, 0)
    assert (sizes > 0).all()
    own = made.geography.unit_of(made.level, made.pools.block)
    np.testing.assert_array_equal(made.geography.unit_of(made.level, homes), np.repeat(own, sizes))
