"""Releases with the totals of a public table of workplaces: the file's own totals stand nowhere."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

import geo_data
import pipelines
import synth
from geo_data.pools import PoolFinder
from helpers import Said, forge, plan_again, refused, seal_again
from pipelines import Release, ReleaseConfig, plan, resume, run, verify
from pipelines.drawing.sampling import _brought_into_range
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.planning.simulation import simulate_utility
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.certificate import CERTIFICATE_FORMAT, certificate_schema
from pipelines.running import batches as drawing
from pipelines.running.report import plan_summary
from pipelines.service.operators import api as operator_api
from pipelines.service.public import api as public_api
from synth.block_sampling import OriginShares

from .helpers import TABLES, Configs, data_of, seeded

CODES = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
COUNTS = [*(f"S{group}0{i}" for group in "AEI" for i in (1, 2, 3))]
DIRICHLET: dict[str, Any] = {"plan.retention_min": "0.5"}
# Files with sizes and sums of the data files.
SUMS = ("SHA256SUMS", "MANIFEST.json", "datapackage.json", "croissant.json")
ONE_TABLE = TABLES | {"workload": [{"home": "trct", "work": "tabblk2010"}]}  # nothing to search
EITHER = pytest.mark.parametrize("mechanism", [DIRICHLET, ONE_TABLE], ids=["dirichlet", "geometric"])
WITH_TABLES = pytest.mark.parametrize("mechanism", [DIRICHLET, TABLES], ids=["dirichlet", "tables"])


def blur(jobs: pd.DataFrame, table: Path) -> pd.DataFrame:
    """Write a public table with other totals than the jobs: more, fewer, none, and one block more."""
    own = jobs.groupby("w_geocode", as_index=False)[["S000", *COUNTS]].sum()
    factor = np.array([0.5, 0.9, 1.2, 1.6, 1.0])[np.arange(len(own)) % 5]
    for group in "AEI":
        names = [name for name in COUNTS if name[1] == group]
        own[names] = np.floor(own[names].to_numpy() * factor[:, None] + 0.5).astype(int)
        if group != "A":  # the groups agree
            gap = own[[n for n in COUNTS if n[1] == "A"]].sum(axis=1) - own[names].sum(axis=1)
            own[names[2]] += gap
            short = np.minimum(own[names[2]], 0)
            own[names[2]] -= short
            own[names[1]] += short
            short = np.minimum(own[names[1]], 0)
            own[names[1]] -= short
            own[names[0]] += short
    own["S000"] = own[[name for name in COUNTS if name[1] == "A"]].sum(axis=1)
    own = own[own["S000"] > 0].iloc[1:]  # the first has no total at all
    own.to_csv(table, index=False)
    return own


@pytest.fixture(scope="session")
def blurred(small_region: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public table for the LODES jobs of the small region."""
    path = tmp_path_factory.mktemp("workplaces") / "public.csv"
    blur(pd.read_csv(small_region["od"], dtype=CODES), path)
    return path


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


@WITH_TABLES
def test_a_release_has_the_public_totals_and_passes_every_check(
    mechanism: dict[str, Any], protected: Configs, blurred: Path, clean_source: object
) -> None:
    config = protected(mechanism)
    planned = plan(config)
    release = run(config, plan=planned.folder)
    public = pd.read_csv(blurred, dtype=CODES).set_index("w_geocode")["S000"]
    assert totals_of(release) == public.to_dict()
    assert [check.name for check in verify(release.public)][-1] == "for release"
    document = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
    schema = json.loads((release.public / "certificate.schema.json").read_text(encoding="utf-8"))
    assert document["format"] == CERTIFICATE_FORMAT
    assert schema == certificate_schema()
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    presence, level = document["presence"], document["record_level"]
    forecast = json.loads((planned.folder / "forecast.json").read_text(encoding="utf-8"))
    assert {name: forecast[name] for name in ("presence", "record_level", "user_level")} == {
        "presence": presence,
        "record_level": level,
        "user_level": document["user_level"],
    }
    said = (planned.folder / "plan.txt").read_text(encoding="utf-8")
    shown = synth.decimal_up(Fraction(presence["run"]["epsilon"]), 6)
    assert f"presence  epsilon {shown}, delta " in said
    if mechanism is TABLES:  # half, as one cell changes and not two
        assert (presence["run"], document["run"]["epsilon"]) == ({"epsilon": "4.3", "delta": "0"}, "8.6")
    else:
        assert presence["run"] == document["run"]
    assert Fraction(presence["record_level"]["epsilon"]) <= Fraction(level["epsilon"])
    assert "one job record more" in document["definition"]["neighbours"]
    assert ("N public slots" in document["definition"]["delta_sharing"]) == (mechanism is DIRICHLET)
    assert "N records" not in json.dumps(document)
    assert not any("reproduced" in line for line in document["definition"]["not_covered"])
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    assert "For one job record more or less, at any work block" in readme
    assert "a public table" in readme
    assert "the public number of jobs" not in readme
    summary = plan_summary(release.plan, release.plan.certify())
    assert "those of the confidential jobs are protected" in summary
    assert ("certified for 0.8 to 1.25 times" in summary) == (mechanism is DIRICHLET)


@EITHER
def test_the_plan_is_made_from_public_files_alone(
    mechanism: dict[str, Any], protected: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Byte for byte the same plan from other jobs, no jobs, or a file that is none."""
    other = pd.read_csv(small_region["od"], dtype=CODES).iloc[::3]
    other.to_csv(tmp_path / "demo_od_main_JT00_2019.csv.gz", index=False)
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "demo_od_main_JT00_2019.csv.gz").write_bytes(b"nobody reads this")
    files = [small_region["od"], tmp_path / "demo_od_main_JT00_2019.csv.gz"]
    files += [tmp_path / "junk" / files[0].name, tmp_path / "absent" / files[0].name]
    plans = [plan(protected(mechanism, jobs=file)).sha256 for file in files]
    assert len(set(plans)) == 1
    assert len(plans) == 4


def test_without_a_public_table_nothing_says_that_there_might_be_one(small_release: Release) -> None:
    for path in small_release.public.rglob("*.*"):
        if path.suffix in (".json", ".md") and path.name != "certificate.schema.json":
            text = path.read_text(encoding="utf-8")
            text = text.replace('"workplaces": null', "")  # the key of the configuration
            assert not re.search("workplaces|record_range|one job record more", text), path.name
    document = json.loads((small_release.public / "certificate.json").read_text(encoding="utf-8"))
    assert document["presence"] is None


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
                and path.name not in SUMS
            }
        )
    assert logged[0] == logged[1] == logged[2]
    assert texts[0] == texts[1] == texts[2]
    assert capsys.readouterr().out == ""


@EITHER
def test_jobs_that_no_public_total_is_for_are_left_out(
    mechanism: dict[str, Any], protected: Configs, small_region: dict[str, Path], tmp_path: Path
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
    with pytest.raises(geo_data.InputError, match="no job at all is of a work block and category"):
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
    for part in source.parts(("age",), made.pools.slots.categories, others=True):
        old = part.attributes["age"] == len(made.pools.slots.categories["age"])
        assert old.any()
        found = finder.find(part)
        assert (found[old] == made.pools.n.size).all()
        inside = found < made.pools.n.size
        for name, codes in made.pools.strata.items():
            np.testing.assert_array_equal(codes[found[inside]], part.attributes[name][inside])


@WITH_TABLES
def test_one_key_gives_the_same_bytes_after_a_kill(
    mechanism: dict[str, Any], protected: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "draw_homes" if mechanism == TABLES else "sample_batch"
    draw, calls = getattr(drawing, name), itertools.count()
    small = {"run.batch_jobs": 50}
    whole = seeded(protected(mechanism, small))

    def failing(*arguments: Any) -> object:
        if next(calls) == 1:
            raise OSError("no power")
        return draw(*arguments)

    broken = protected(mechanism, small)
    with monkeypatch.context() as patch:
        patch.setattr(drawing, name, failing)
        with pytest.raises(OSError, match="no power"):
            seeded(broken)
    assert data_of(resume(broken.release.out)) == data_of(whole)


@EITHER
def test_a_reviewed_plan_is_run_and_compared_with_the_public_table(
    mechanism: dict[str, Any], protected: Configs, blurred: Path, tmp_path: Path, clean_source: object
) -> None:
    public = tmp_path / "public.csv"
    shutil.copyfile(blurred, public)
    config = protected(mechanism, {"workplaces.file": public})
    planned = plan(config)
    assert run(config, plan=planned.folder).certificate.plan_sha256 == planned.sha256
    table = pd.read_csv(public, dtype=CODES)
    table.iloc[1:].to_csv(public, index=False)
    with pytest.raises(geo_data.InputError, match=r"public\.csv.*not as in the plan"):
        run(config.with_out(tmp_path / "again"), plan=planned.folder)


def test_every_pool_is_given_a_number_of_homes_in_its_range(protected: Configs) -> None:
    config = protected(DIRICHLET)
    made = make_plan(config)
    n, domains = made.numeric.pools.n, made.numeric.domains
    assert made.numeric.record_range is not None
    least, most = made.numeric.record_range.limits(n)
    rng = np.random.default_rng(4)
    sizes = rng.integers(0, 3 * n + 3)
    homes = rng.integers(0, domains.n_blocks, int(sizes.sum())).astype(np.int32)
    seen = {}

    class Watched(synth.Dirichlet):
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
        synth.Dirichlet().sample(made.numeric, every, cells, key.stream("urn", 1), sizes)


def test_a_plan_is_stored_and_simulated(protected: Configs, tmp_path: Path) -> None:
    config = protected()
    inputs = read_public_inputs(config)
    made = make_plan(config, inputs)
    digest = save_plan(made, tmp_path / "plan")
    again = load_plan(tmp_path / "plan")
    assert again.numeric.record_range == made.numeric.record_range == synth.RecordRange("0.8", "1.25")  # type: ignore[arg-type]
    assert save_plan(again, tmp_path / "again") == digest
    assert 0 < simulate_utility(made, inputs.model).total_variation < 1


# --- forged


def wider(document: dict[str, Any]) -> None:
    document["configuration"]["workplaces"]["most"] = "3"


def fewer_in_a_class(document: dict[str, Any]) -> None:
    one = document["parameters"]["classes"][-1]
    one["n_min"] += 1


def more_in_a_class(document: dict[str, Any]) -> None:
    document["parameters"]["classes"][-1]["n_max"] -= 1


@pytest.fixture(scope="module")
def module_release(
    config_text: Callable[..., str],
    blurred: Path,
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> Release:
    folder = tmp_path_factory.mktemp("protected")
    text = config_text({"workplaces": {"file": str(blurred)}}, DIRICHLET)
    return run(pipelines.parse_config(text, folder, "protected.toml"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (wider, "outside the limits of their class"),
        (fewer_in_a_class, "outside the limits of their class"),
        (more_in_a_class, "outside the limits of their class"),
        (lambda plan: plan["configuration"].pop("workplaces"), "not one of this program"),
        (lambda plan: plan["configuration"].update(workplaces=None), "differ in whose totals"),
        (lambda plan: plan["configuration"]["workplaces"].update(fewest="0"), ""),
        (lambda plan: plan["configuration"]["workplaces"].update(most="0.5"), ""),
        (lambda plan: plan["configuration"]["workplaces"].update(more="1"), "not one of this program"),
    ],
)
def test_a_forged_plan_is_refused(
    change: Callable[[dict[str, Any]], object], why: str, module_release: Release, tmp_path: Path
) -> None:
    public = Path(shutil.copytree(module_release.public, tmp_path / "public"))
    plan_again(public, change)
    error = refused(public)
    assert error.check in ("plan", "guarantee")
    assert why in str(error)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["presence"]["run"].update(epsilon="0.1"),
        lambda c: c["presence"]["record_level"].update(delta="0"),
        lambda c: c["presence"]["user_level"].update(epsilon="1"),
        lambda c: c["presence"].update(statement="nothing can be seen"),
        lambda c: c["definition"].update(neighbours="any two inputs"),
        lambda c: c["definition"].update(assumed_public=[]),
    ],
)
def test_a_forged_certificate_is_refused(
    change: Callable[[dict[str, Any]], object], module_release: Release, tmp_path: Path
) -> None:
    public = Path(shutil.copytree(module_release.public, tmp_path / "public"))
    document = json.loads((public / "certificate.json").read_text(encoding="utf-8"))
    change(document)
    forge(public, document)
    assert refused(public).check == "guarantee"


def test_a_certificate_that_leaves_presence_out_is_refused(module_release: Release, tmp_path: Path) -> None:
    public = Path(shutil.copytree(module_release.public, tmp_path / "public"))
    document = json.loads((public / "certificate.json").read_text(encoding="utf-8"))
    forge(public, document | {"presence": None})
    assert "differ in whose totals" in str(refused(public))


def test_totals_of_the_file_in_place_of_the_public_ones_are_refused(
    module_release: Release, tmp_path: Path
) -> None:
    public = Path(shutil.copytree(module_release.public, tmp_path / "public"))
    (path,) = public.glob("*_od_main_*.parquet")
    pq.write_table(pq.read_table(path).slice(1), path, compression="zstd")
    seal_again(public)
    assert refused(public).check == "data"


# --- configurations


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"workplaces.count": "jobs"}, "workplaces.count: a table for LODES jobs"),
        ({"workplaces.fewest": "1.1"}, "workplaces.fewest"),
        ({"workplaces.most": "0.9"}, "workplaces.most"),
        ({"workplaces.least": "0.9"}, "unknown key; the keys here are file, count"),
        (TABLES | {"workplaces.fewest": "0.9"}, "takes any number of jobs"),
        (TABLES | {"workplaces.most": "1.1"}, "takes any number of jobs"),
    ],
)
def test_what_cannot_be_used_is_said(change: dict[str, Any], problem: str, protected: Configs) -> None:
    with pytest.raises(pipelines.ConfigError, match=re.escape(problem)):
        protected(change)


def test_microdata_need_the_column_of_numbers(
    small_config: Configs, microdata_jobs: Callable[..., Any], blurred: Path
) -> None:
    for workplaces in ({"file": str(blurred)}, {"file": str(blurred), "count": "toil"}):
        with pytest.raises(pipelines.ConfigError, match=r"workplaces\.count"):
            small_config(microdata_jobs("csv"), {"workplaces": workplaces})


def test_the_confidential_file_is_no_public_table(protected: Configs, small_region: dict[str, Path]) -> None:
    config = protected({"workplaces.file": small_region["od"]})
    with pytest.raises(pipelines.ConfigError, match=r"workplaces\.file: .* is a confidential file"):
        plan(config)


# --- readers


def test_every_reader_takes_such_a_release(
    config_text: Callable[..., str], blurred: Path, clean_source: object, tmp_path: Path
) -> None:
    path = tmp_path / "protected.toml"
    path.write_text(config_text({"workplaces": {"file": str(blurred)}}, TABLES), encoding="utf-8")
    release = run(pipelines.load_config(path))
    measures = release.evaluate(path).set_index(["measure", "level", "group"])["value"]
    assert 0 < measures["workplace_variation", "tabblk2010", "all"] < 0.5
    page = release.map().read_text(encoding="utf-8")
    assert "which is not derived from these records" in page
    assert "For one job record more or less, at any work block, epsilon is 4.3" in page
    document = (release.public / "certificate.json").read_text(encoding="utf-8")
    for answer in (public_api, operator_api):  # the service shows all of it
        route = next(r for r in answer.router.routes if r.path.endswith("/certificate"))  # type: ignore[attr-defined]
        stated = TypeAdapter(route.response_model).dump_json(release.certificate)  # type: ignore[attr-defined]
        assert json.loads(stated) == json.loads(document)
    assert release.export(["csv", "lodes"], tmp_path / "exported").keys() == {
        "csv",
        "lodes",
    }


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
    key, nobody = synth.RunKey.from_seed(2), np.zeros(0, np.int32)
    homes, sizes = _brought_into_range(
        replace(made, shares=alone), slice(0, n.size), nobody, np.zeros(n.size, np.int64), key, 0, ""
    )
    assert (sizes > 0).all()
    own = made.geography.unit_of(made.level, made.pools.block)
    np.testing.assert_array_equal(made.geography.unit_of(made.level, homes), np.repeat(own, sizes))
