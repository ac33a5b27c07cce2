"""A release by two-sided geometric noise: run, checked, resumed, and found out when it is changed."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic_core
import pytest
from numpy.typing import NDArray

import pipelines
import synth
from helpers import alone, forge, refused, same_key, with_values
from pipelines import Release, ReleasePlan, resume, run, verify
from pipelines.cli.summary import release_summary
from pipelines.drawing import estimating
from pipelines.drawing.estimating import JobLayout
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.simulation import simulate_utility
from pipelines.planning.sweep import Sweep, tune
from pipelines.plans import plan as planned
from pipelines.plans.form import plan_hash
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.storage import load_plan, save_plan
from pipelines.release.certificate import certificate_schema, guarantee_fields
from pipelines.release.layout import file_names
from pipelines.release.measurements import Measurements, read_measurements, write_measurements
from pipelines.running import batches as drawing
from pipelines.running import run as runs
from pipelines.running.report import plan_summary
from pipelines.storage import cell_file

from .helpers import GEOMETRIC, Configs, everything, seeded

Counts = NDArray[np.int64]
Document = dict[str, Any]


@pytest.fixture
def config(small_config: Configs) -> Configs:
    """The configuration of the small region with this mechanism."""
    return lambda *changes: small_config(GEOMETRIC, *changes)


@pytest.fixture(scope="module")
def made(
    config_text: Callable[..., str], clean_source: object, tmp_path_factory: pytest.TempPathFactory
) -> Release:
    return run(pipelines.parse_config(config_text(GEOMETRIC), tmp_path_factory.mktemp("made"), "small.toml"))


@pytest.fixture(scope="module")
def noisy_release(
    config_text: Callable[..., str], clean_source: object, tmp_path_factory: pytest.TempPathFactory
) -> Release:
    """Of so many groups, at such an epsilon, that noise is seen."""
    tables = [{"home": "trct", "work": "tabblk2010"}]
    text = config_text(GEOMETRIC, {"privacy.epsilon": "2", "workload": tables, "plan.pool_below": 1})
    return run(pipelines.parse_config(text, tmp_path_factory.mktemp("noisy"), "small.toml"), key=same_key())


@pytest.fixture
def release(made: Release, tmp_path: Path) -> Release:
    """A copy, to change."""
    return Release(Path(shutil.copytree(made.out, tmp_path / "release")) / "public")


def test_tune_does_not_try_a_retention_that_the_mechanism_has_not(config: Configs) -> None:
    with pytest.raises(pipelines.ConfigError, match='"geometric" keeps every cell') as caught:
        tune(config(), Sweep(epsilon=("4",), retention_min=("0.5",)))
    assert len(caught.value.problems) == 1
    assert tune(config(), Sweep(epsilon=("8.6",), retention_min=("1.0",)))["certified"].tolist() == [True]


def test_a_release_is_made_and_passes_every_check(release: Release) -> None:
    assert [check.name for check in verify(release.public)][-1] == "for release"
    document = json.loads((release.public / "certificate.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, certificate_schema(), cls=jsonschema.Draft202012Validator)
    assert document["mechanism"] == "geometric"
    assert document["run"] == {"epsilon": "8.6", "delta": "0"}
    assert document["requested"]["delta"] == "0.00001"
    assert document["record_level"]["curve"] == [document["run"]]
    for level in ("record_level", "user_level"):
        assert (document[level]["epsilon"], document[level]["delta"]) == ("8.6", "0")
    assert document["losses"] == {"noise_loss": "8.6"}
    ratios = [Fraction(*map(int, row["ratio"][0].split("/"))) for row in document["classes"]]
    assert len(ratios) == 1 + len(release.plan.choices.tables)
    assert float(np.prod(list(map(float, ratios)))) == pytest.approx(np.exp(-4.3), rel=1e-14)
    assert document["classes"][0]["n_max"] == release.plan.numeric.pools.n.max()
    assert "no pool fails" in document["definition"]["delta_sharing"]
    assert not any("prior" in row for row in document["classes"])


def test_groups_that_are_rounded_as_a_whole_pass_every_check(
    config: Configs, clean_source: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a nation, where there are too many work blocks to round what is expected of each."""
    monkeypatch.setattr(estimating, "_MOST_ROUNDED", 0)
    made = run(config())
    assert JobLayout(made.plan).whole_groups
    assert [check.name for check in verify(made.public)][-1] == "for release"


def test_what_is_said_of_it_is_true_of_it(release: Release) -> None:
    """Nothing that only the other mechanism does is said, and that no output is excepted is."""
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    summary = plan_summary(release.plan, release.plan.mechanism.certify(release.plan.numeric))
    for text in (readme, summary, release_summary(release), json.dumps(release.certificate.model_dump())):
        assert not any(word in text for word in ("prior", "pruning", "retention", "urn", "Dirichlet"))
    assert "to each of which random noise was added" in readme
    assert "except with probability" not in readme
    assert "two-sided geometric noise" in summary
    for text in (summary, release_summary(release)):
        assert "% of what the noisy counts of pools hold is noise" in text
    assert "in `measurements/` where it is there, are for who checks" in " ".join(readme.split())


def test_totals_of_work_blocks_are_exact(release: Release) -> None:
    block = release.plan.geography.block_level
    found = pipelines.open_release(release.public).unit_flows(block, block).groupby("work")["S000"].sum()
    work = np.bincount(release.plan.pools.slots.work)
    assert found.to_dict() == {int(i): int(work[i]) for i in np.flatnonzero(work)}


def of_tables(number: int, config: pipelines.ReleaseConfig, inputs: PublicInputs, **_: object) -> ReleasePlan:
    """Flows between tracts; and, where there are two, residents by earnings with a fifth of epsilon."""
    table = TableChoice(None, ("SE",), "trct", Fraction(1, 5))
    choices = Choices("trct", 10_000, (), cell_level="trct", tables=(table,) * (number - 1))
    return assemble(config, inputs, inputs.slots, choices, config.privacy.delta)


def tables_of(release: Release) -> dict[str, bytes]:
    """The tables of data and measurements."""
    files = everything(release.public).items()
    return {name: content for name, content in files if not name.startswith("plan/") and "parquet" in name}


@pytest.mark.parametrize("tables", [1, 2])
def test_one_key_gives_the_same_bytes_however_it_is_cut_off(
    config: Configs, monkeypatch: pytest.MonkeyPatch, tables: int
) -> None:
    """Cut off while a batch is measured, while homes are estimated, and while a batch is drawn.

    Estimates are of several runs of pools, and kept in files, as those of a nation are.
    """
    monkeypatch.setattr(planned, "_BATCH_JOBS", 100)
    monkeypatch.setattr(cell_file, "_IN_MEMORY", 0)
    changes: Document = {"run.batch_jobs": 50, "plan.split_threshold": None, "plan.pool_below": None}
    changes["release.implicates"] = tables
    monkeypatch.setattr(runs, "make_plan", partial(of_tables, tables))
    whole, again, other = (seeded(config(changes), seed) for seed in (1, 1, 2))
    assert len(planned.batches(whole.plan)) > 2
    assert tables_of(whole) == tables_of(again)
    assert tables_of(whole) != tables_of(other)
    assert len([name for name in tables_of(whole) if name.startswith("measurements/")]) == tables**2
    assert "its randomness is not secret" in str(refused(whole.public))  # after all other checks
    for function in ("measure", "estimate_factors", "draw_homes"):
        real, calls = getattr(drawing, function), itertools.count()

        def failing(*values: Any, real: Any = real, calls: Any = calls, least: int = 1) -> object:
            if next(calls) >= least:
                raise OSError("no power")
            return real(*values)

        broken = config(changes)
        with monkeypatch.context() as patch:
            patch.setattr(drawing, function, partial(failing, least=function != "estimate_factors"))
            with pytest.raises(OSError, match="no power"):
                seeded(broken)
        assert tables_of(resume(broken.release.out)) == tables_of(whole)


def test_a_plan_is_stored_and_read_without_loss(release: Release, tmp_path: Path) -> None:
    plan = load_plan(release.public / "plan")
    assert plan.numeric.parameters == release.plan.numeric.parameters
    assert save_plan(plan, tmp_path / "again") == plan_hash(release.public / "plan")


# --- changes that are made consistent, as far as they can be


def read(path: Path) -> Document:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def change_noise(folder: Path, step: int) -> Document:
    """Return the certificate with the hash of the plan that has another noise."""
    path = folder / "plan" / "plan.json"
    document = read(path)
    document["parameters"]["numerator"] += step
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    return read(folder / "certificate.json") | {"plan_sha256": plan_hash(folder / "plan")}


def test_another_noise_is_found(release: Release) -> None:
    forge(release.public, read(release.public / "certificate.json"))
    assert list(verify(release.public))  # sealing again alone changes nothing
    before = 0
    for step, message in (
        (-1, "certificate.json: run is not what the plan gives"),
        (-(10**15), "certificate.json: run is not what the plan gives"),
        (1, "guarantee: cannot be checked"),
    ):
        document = change_noise(release.public, step - before)
        before = step
        assert "plan/plan.json has been changed" in str(refused(release.public))
        forge(release.public, document)
        assert message in str(refused(release.public))


def test_less_noise_with_a_true_certificate_costs_more_than_was_asked(release: Release) -> None:
    document = change_noise(release.public, -(10**15))
    plan = load_plan(release.public / "plan")
    guarantee = plan.mechanism.certify(plan.numeric)
    document |= pydantic_core.to_jsonable_python(guarantee_fields(plan, guarantee))
    forge(release.public, document)
    assert "costs more than was requested" in str(refused(release.public))


def test_a_changed_certificate_is_found(release: Release) -> None:
    document = read(release.public / "certificate.json")
    for path, value in {
        "losses.noise_loss": "1",
        "losses.other": "1",
        "classes.0.ratio": ["1/2"],
        "classes.0.noise_loss": "0.1",
        "classes.0.more": "0.1",
        "definition.delta_sharing": "equally",
        "run.epsilon": "1",
    }.items():
        forge(release.public, with_values(document, {path: value}))
        words = f"certificate.json: {path.split('.')[0]} is not what the plan gives"
        assert words in str(refused(release.public))


def with_counts(table: pa.Table, counts: Any) -> pa.Table:
    lists = table["noisy"].combine_chunks()
    changed = pa.LargeListArray.from_arrays(lists.offsets, pa.array(counts, pa.int64()))
    return table.set_column(1, table.schema.field("noisy"), changed)


def test_other_noisy_counts_are_found(release: Release) -> None:
    """They give other estimates, from which the homes cannot have been rounded."""
    plan, layout = release.plan, JobLayout(release.plan)
    ((counts, *secondary),) = read_measurements(release.public, plan, layout)
    secondary = [values[:] for values in secondary]  # the files are written again
    turned = np.concatenate([own[::-1] for own in np.split(counts[:], layout.tables[0].offsets[1:-1])])
    for change, passes in ((counts[:], True), (turned, False)):
        write_measurements(plan, layout, [[change, *secondary]], release.public)
        forge(release.public, read(release.public / "certificate.json"))
        if passes:
            assert list(verify(release.public))[-1].name == "for release"
        else:
            assert "the homes cannot have been rounded from the noisy counts" in str(refused(release.public))


def raised(by: int, *cells: int) -> Callable[[Counts, JobLayout], Counts]:
    """Return what adds a number to some of the first cells."""
    return lambda counts, _: counts + np.isin(np.arange(counts.size), cells) * by


def without_noise(counts: Counts, layout: JobLayout) -> Counts:
    """All homes in the first cell."""
    result = np.zeros_like(counts)
    result[layout.tables[0].offsets[:-1]] = layout.tables[0].n
    return result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (raised(2**62, 0, 1), "so far below 0, or above"),
        (raised(-(10**8), 1), "so far below 0, or above"),
        (raised(30, *range(6)), "add up to so much more or less"),
        (without_noise, "add up to exactly their public sizes"),
    ],
)
def test_counts_that_noise_hardly_gives_are_refused_at_once(
    change: Callable[[Counts, JobLayout], Counts], message: str, noisy_release: Release, tmp_path: Path
) -> None:
    release = Release(Path(shutil.copytree(noisy_release.out, tmp_path / "release")) / "public")
    layout = JobLayout(release.plan)
    ((counts, *secondary),) = read_measurements(release.public, release.plan, layout)
    assert alone(release.public) is None
    changed = change(counts[:], layout)
    write_measurements(
        release.plan, layout, [[changed, *(values[:] for values in secondary)]], release.public
    )
    forge(release.public, read(release.public / "certificate.json"))
    error = refused(release.public)
    assert error.check == "measurements"
    assert message in str(error)
    assert "below 2^-64" in str(alone(release.public))


@pytest.mark.parametrize("whole", [False, True])
def test_homes_exchanged_among_jobs_are_found(
    whole: bool,
    config: Configs,
    microdata_jobs: Callable[..., Any],
    clean_source: object,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Totals of work blocks are as they were; only jobs that no table tells apart may change homes."""
    if whole:
        monkeypatch.setattr(estimating, "_MOST_ROUNDED", 0)
    tables = [{"home": "trct", "work": "trct"}, {"home": "trct", "attributes": ["age"]}]
    released = run(config(microdata_jobs("csv"), {"workload": tables, "privacy.epsilon": "40"}))
    plan, slots = released.plan, released.plan.pools.slots
    assert plan.secondary
    layout = JobLayout(plan)
    assert layout.whole_groups == whole
    noisy = read_measurements(released.public, plan, layout)
    rounded = Measurements(plan, layout, noisy, scratch=tmp_path).of(0, slice(0, plan.pools.n.size))
    jobs = pq.read_table(released.public / file_names(plan.config)["jobs_parquet"])
    homes = plan.geography.number(jobs["h_geocode"])

    def fits(by: list[Any], *, apart: bool = True) -> bool:
        order = np.lexsort(by[::-1])
        changed = homes.copy()
        changed[order] = changed[np.lexsort([np.arange(homes.size)[::-1], *by[::-1]])]
        return rounded.fits(changed, apart=apart)

    told_apart = [slots.work, *(slots.attributes[name] for name in layout.attributes)]
    assert fits([*told_apart])
    assert not fits([plan.geography.unit_of(plan.level, slots.work)])
    assert not fits([slots.work])
    assert fits([slots.work], apart=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.slice(1), "the rows are not the groups that the plan measures"),
        (lambda t: t.append_column("more", t["pool"]), "columns"),
        (lambda t: t.set_column(0, "pool", pa.array(t["pool"].to_numpy() + 1)), "the rows are not"),
        (lambda t: with_counts(t, [None] * sum(map(len, t["noisy"]))), "the rows are not the groups"),
    ],
)
def test_measurements_of_another_form_are_refused(
    release: Release, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    path = release.public / "measurements" / "table-1.parquet"
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    forge(release.public, read(release.public / "certificate.json"))
    assert message in str(refused(release.public))


def test_a_measurement_file_belongs_to_a_release(release: Release) -> None:
    (release.public / "measurements" / "table-1.parquet").unlink()
    forge(release.public, read(release.public / "certificate.json"))
    assert "measurements" in str(refused(release.public))


# --- planning


def test_settings_of_the_other_mechanism_are_refused(config: Configs) -> None:
    keeps = 'plan.retention_min: the mechanism "geometric" keeps every cell; write retention_min = "1"'
    for setting, fix in (
        ({"plan.prior": "0.1"}, 'plan.prior: the mechanism "geometric" has no prior; leave this line out'),
        ({"plan.retention_min": "0.5"}, keeps),
        ({"plan.preset": "onthemap"}, keeps),
    ):
        with pytest.raises(pipelines.ConfigError) as caught:
            config(setting)
        assert str(caught.value).endswith(fix)


def test_settings_that_change_nothing_are_not(config: Configs) -> None:
    for more in ({}, {"plan.preset": "onthemap"}):
        assert config({"plan.retention_min": "1"}, more).plan.retention_min == 1


@pytest.mark.deep
def test_the_planner_plans_for_the_mechanism(small_config: Configs, config: Configs) -> None:
    """With cells chosen for it, this mechanism loses less than the other, and than with other cells."""
    chosen = {"plan.split_threshold": None, "plan.pool_below": None}
    ours, theirs = config(chosen), small_config(chosen, {"plan.retention_min": None})
    inputs = read_public_inputs(ours)
    coarse = config({"plan.split_threshold": "200"})
    losses = []
    for asked in (ours, theirs, coarse):
        plan = pipelines.make_plan(asked, inputs)
        tried = [simulate_utility(plan, inputs.model, seed=seed).objective for seed in range(5)]
        losses.append(np.mean(tried))
    assert losses[0] < min(losses[1:])


def test_a_forecast_counts_the_noise(config: Configs) -> None:
    inputs = read_public_inputs(config())
    shares = []
    for epsilon in ("8.6", "1"):
        plan = pipelines.make_plan(config({"privacy.epsilon": epsilon}), inputs)
        shares.append(simulate_utility(plan, inputs.model).noise_share)
        assert plan.numeric.epsilon == Fraction(epsilon)
    assert 0 < shares[0] < shares[1] < 1


def test_an_epsilon_that_is_too_small_says_which_is_not(config: Configs) -> None:
    tiny = config({"privacy.epsilon": "1e-6"})
    with pytest.raises(synth.BudgetTooSmallError, match=r"smallest epsilon that would do is 0\.001"):
        pipelines.make_plan(tiny)


def test_rows_of_a_certificate_take_numbers_only(release: Release) -> None:
    row = release.certificate.classes[0]
    for bad in ("x", ["0.5"], 1, None):
        with pytest.raises(ValueError, match="ratio"):
            type(row).model_validate({**row.model_dump(), "ratio": bad})
    assert replace(release.plan).mechanism is synth.MECHANISMS["geometric"]
