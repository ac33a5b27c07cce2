"""What a run must read, hash and certify is read, hashed and certified once; counted, not timed."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import geo_data
import pipelines
import synth
from geo_data import tables
from pipelines import ReleasePlan, resume, run
from pipelines.plans.form import plan_hash
from pipelines.running import run as releasing

from .helpers import Configs, interrupted

_READS: list[Counter[Path]] = []


def _look(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _READS and isinstance(arguments[0], str | Path):
        _READS[-1][Path(arguments[0])] += 1


sys.addaudithook(_look)


@contextmanager
def opened() -> Iterator[Counter[Path]]:
    """Count how often Python opens each file."""
    _READS.append(Counter())
    try:
        yield _READS[-1]
    finally:
        _READS.pop()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count tables of jobs that are read, certifications, and files that are hashed before the check."""
    found: Counter[str] = Counter()
    certify, digest, check = ReleasePlan.certify, hashlib.file_digest, releasing.verify_run
    for module in map(importlib.import_module, ("geo_data.lodes", "geo_data.microdata")):
        monkeypatch.setattr(module, "read_table", _counting(found, tables.read_table))

    def certified(plan: ReleasePlan) -> synth.Guarantee:
        found["certify"] += 1
        return certify(plan)

    def hashed(file: object, name: str) -> object:
        found[f"hash {Path(file.name).name}"] += "checking" not in found  # type: ignore[attr-defined]
        return digest(file, name)  # type: ignore[arg-type]

    def checked(*arguments: object, **named: object) -> object:
        found["checking"] += 1
        return check(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ReleasePlan, "certify", certified)
    monkeypatch.setattr(hashlib, "file_digest", hashed)
    monkeypatch.setattr(releasing, "verify_run", checked)
    return found


def _counting(found: Counter[str], read: Callable[..., object]) -> Callable[..., object]:
    def reading(path: Path, schema: tables.TableSchema, *rest: object) -> object:
        found["homes" if {"h_geocode", "live"} & {*schema.columns} else "slots"] += 1
        return read(path, schema, *rest)

    return reading


def test_a_run_reads_the_jobs_for_slots_and_for_homes_and_certifies_once(
    small_config: Configs, counts: Counter[str], small_region: dict[str, Path], tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs.csv.gz"
    shutil.copy(small_region["od"], jobs)
    release = run(small_config({"jobs.file": str(jobs)}))
    assert (counts["slots"], counts["homes"]) == (1, 1)  # planning may not see homes, so two passes
    assert counts["certify"] == counts["checking"] == 1
    assert counts["hash plan.json"] == 1, "for MANIFEST.json and SHA256SUMS"
    assert counts["hash jobs.csv.gz"] == 0, "hashed as the homes are read"
    log = (release.out / "confidential" / "run.json").read_text()
    assert f'"{jobs}": "{hashlib.sha256(jobs.read_bytes()).hexdigest()}"' in log


def test_a_run_of_a_reviewed_plan_does_too(
    small_config: Configs,
    counts: Counter[str],
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., object],
) -> None:
    for attributes, slots in (
        ([], 0),
        (["age", "sector"], 1),
    ):  # those of the plan are compared, without homes
        config = small_config(microdata_jobs("csv", attributes=attributes))
        planned = pipelines.plan(config)
        counts.clear()
        with opened() as files:
            release = run(config, plan=planned.folder)
        assert (counts["slots"], counts["homes"]) == (slots, 1)
        assert counts["certify"] == counts["checking"] == 1
        assert files[microdata["csv"]] == 3 * (slots + 1), "what it is, its header, its rows: once each"
        assert counts["hash plan.json"] == 1, "for MANIFEST.json and SHA256SUMS"
        shutil.rmtree(release.out)
        shutil.rmtree(planned.folder)


def test_a_plan_is_certified_and_hashed_once(small_config: Configs, counts: Counter[str]) -> None:
    planned = pipelines.plan(small_config())
    assert counts == {
        "slots": 1,
        "certify": 1,
        "hash names.parquet": 1,
        **{f"hash {path.name}": 1 for path in (planned.folder / "geo").glob("*.parquet")},
        # As they are written, and as they are read back before anybody pays.
        **{f"hash {path.name}": 2 for path in (planned.folder / "plan").glob("*.parquet")},
    }
    assert planned.sha256 == plan_hash(planned.folder / "plan")


def test_a_resumed_run_certifies_once_and_reads_no_jobs(
    small_config: Configs, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config()
    interrupted(config)
    counts.clear()
    monkeypatch.setattr(geo_data.LodesJobs, "_read", pytest.fail)
    resume(config.release.out)
    assert counts["certify"] == counts["checking"] == 1


def test_a_check_from_outside_computes_the_guarantee_itself(
    small_release: pipelines.Release, counts: Counter[str]
) -> None:
    list(pipelines.verify(small_release.public))
    assert counts["certify"] == 1
