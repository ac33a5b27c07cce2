"""Evaluating a release: against the confidential truth, or against public tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from geo_data.arguments import PathLike, path_of, paths_of
from pipelines.config.toml import ConfigError
from pipelines.storage.durable import whole_folder
from pipelines.views.evaluation.comparison import (
    Comparison,
    compare_with_public,
    compare_with_truth,
    true_jobs,
)
from pipelines.views.evaluation.measuring import compared_levels, measure, measure_implicates, measures_table
from pipelines.views.evaluation.verdict import Verdict, judge
from pipelines.views.evaluation.workload_losses import workload_losses
from pipelines.views.release import Release

REPORT_FILE = "report.html"
MEASURES_FILE = "measures.parquet"
VERDICT_FILES = ("verdict.txt", "verdict.json")  # against the truth only
# Whatever folder holds one of these is a public folder, finished or being made.
_OF_PUBLIC = ("certificate.json", "plan/plan.json")
_MARK = {
    True: b"CONFIDENTIAL: derived from confidential jobs, never publish",
    False: b"PUBLIC: made from the release and public tables only",
}


def evaluate(release: Release, truth: PathLike, to: PathLike | None = None) -> pd.DataFrame:
    """Compare a release with the confidential truth, and write a confidential report (`Release.evaluate`)."""
    truth, target = path_of(truth, "truth"), _target(release, to, confidential=True)
    comparison = compare_with_truth(release, truth)
    lost = workload_losses(release, true_jobs(release, truth))
    measured = {level for _, level, _, _ in lost}
    for table in release.expected_tables:
        if table.workload and table.table in measured:
            lost.append(("workload_forecast", table.table, "all", table.loss))
    return _write(release, [comparison], target, confidential=True, first=measures_table(lost))


def evaluate_public(
    release: Release, tables: PathLike | Iterable[PathLike], to: PathLike | None = None
) -> pd.DataFrame:
    """Compare a release with public tables, and write a public report (`Release.evaluate_public`)."""
    target = _target(release, to, confidential=False)
    compared = compare_with_public(release, paths_of(tables, "tables"))
    return _write(release, compared, target, confidential=False)


def evaluation_folder(release: Release, *, confidential: bool) -> Path:
    """Return the folder of an evaluation where none is named."""
    if confidential:
        return release.public.parent / "confidential" / "evaluation"
    return release.out / "evaluation"


def _target(release: Release, to: PathLike | None, *, confidential: bool) -> Path:
    folder = evaluation_folder(release, confidential=confidential) if to is None else path_of(to, "to")
    target = folder.resolve()  # wherever links lead
    for folder in (target, *target.parents):
        if any((folder / name).exists() for name in _OF_PUBLIC) or folder == release.public.resolve():
            raise ConfigError(
                f"{target}: this is inside the public folder {folder}. Fix: choose another folder with --to"
            )
    _check_replaceable(target, confidential)
    return target


def _check_replaceable(target: Path, confidential: bool) -> None:
    if not _replaceable(target, confidential):
        raise ConfigError(
            f"{target}: this exists and is no {'confidential' if confidential else 'public'} evaluation. "
            "Fix: choose another folder with --to"
        )


def _replaceable(target: Path, confidential: bool) -> bool:
    """Say whether nothing is there, or an evaluation of the same kind: what is public may be published."""
    try:
        files = {path.name for path in target.iterdir()}
        if files <= {REPORT_FILE, MEASURES_FILE, *VERDICT_FILES} and MEASURES_FILE in files:
            return (pq.read_schema(target / MEASURES_FILE).metadata or {}).get(b"odsynth") == _MARK[
                confidential
            ]
        return not files
    except FileNotFoundError:  # or no longer
        return True
    except (NotADirectoryError, pa.ArrowException):  # or damaged: what it was cannot be told
        return False
    except OSError as error:
        if error.errno is None:  # of Parquet, not of the machine
            return False
        raise


def _verdict_texts(release: Release, verdict: Verdict) -> dict[str, str]:
    """Return the files of a verdict on a confidential truth, by name."""
    mark, name = _MARK[True].decode(), release.certificate.release.name
    document = {"status": mark, "release": name, **verdict.document()}
    texts = (
        f"{mark}\n\n{name}\n{verdict.text(release.geography)}",
        json.dumps(document, indent=1, ensure_ascii=False) + "\n",
    )
    return dict(zip(VERDICT_FILES, texts, strict=True))


def _write(
    release: Release,
    comparisons: Sequence[Comparison],
    target: Path,
    *,
    confidential: bool,
    first: pd.DataFrame | None = None,
) -> pd.DataFrame:
    from pipelines.views.evaluation.report import report_html  # matplotlib takes its time

    tables = [
        pd.concat([first, measure(comparison), measure_implicates(release, compared_levels(comparison))])
        for comparison in comparisons
    ]
    verdicts = [
        judge(table, release.expected_tables, float(comparison.release["S000"].sum()))
        for table, comparison in zip(tables, comparisons, strict=True)
    ]
    page = report_html(release, comparisons, tables, verdicts, confidential=confidential)
    named = [
        table.assign(compared_with=comparison.name)
        for table, comparison in zip(tables, comparisons, strict=True)
    ]
    measures = pd.concat(named, ignore_index=True)[["compared_with", "measure", "level", "group", "value"]]
    target.parent.mkdir(mode=0o700 if confidential else 0o777, parents=True, exist_ok=True)
    check = partial(_check_replaceable, target, confidential)  # an earlier one, or a quicker writer's
    with whole_folder(target, 0o700 if confidential else None, check=check) as new_folder:
        (new_folder / REPORT_FILE).write_text(page, encoding="utf-8")
        arrow = pa.Table.from_pandas(measures, preserve_index=False)
        arrow = arrow.replace_schema_metadata({**arrow.schema.metadata, b"odsynth": _MARK[confidential]})
        pq.write_table(arrow, new_folder / MEASURES_FILE)
        if confidential:
            for name, text in _verdict_texts(release, verdicts[0]).items():
                (new_folder / name).write_text(text, encoding="utf-8")
            for file in new_folder.iterdir():
                file.chmod(0o600)
    return measures
