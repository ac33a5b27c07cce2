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
from pipelines.release.reader import PublicRelease, read_public_release
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

REPORT_FILE = "report.html"
MEASURES_FILE = "measures.parquet"
VERDICT_FILES = ("verdict.txt", "verdict.json")  # against the truth only
# Whatever folder holds one of these is a public folder, finished or being made.
_OF_PUBLIC = ("certificate.json", "plan/plan.json")
_MARK = {
    True: b"CONFIDENTIAL: derived from confidential jobs, never publish",
    False: b"PUBLIC: made from the release and public tables only",
}


def evaluate(out: PathLike, truth: PathLike, to: PathLike | None = None) -> pd.DataFrame:
    """Measure how far a release is from the confidential truth, and write a confidential report.

    Parameters
    ----------
    out : str or path
        Folder of the release, with ``public``.
    truth : str or path
        The release's configuration (``.toml``), which names its jobs, or a LODES origin-destination file of
        the true jobs.
    to : str or path, optional
        Folder to make (mode 0700, its files 0600); by default ``confidential/evaluation`` in `out`. An
        earlier evaluation there is replaced.

    Returns
    -------
    DataFrame
        **Confidential.** One row a number: ``compared_with``, ``measure``, ``level``, ``group`` (text) and
        ``value`` (float64); `pipelines.views.evaluation.MEASURES` says what each is.

    Raises
    ------
    ConfigError
        If the folder would lie in a public folder, or holds something else.
    PublicReleaseError, geo_data.InputError
        If the release, or the truth, cannot be read.
    """
    out = path_of(out, "out")
    truth = path_of(truth, "truth")
    to = None if to is None else path_of(to, "to")
    release, target = _open(out, to, confidential=True)
    comparison = compare_with_truth(release, truth)
    lost = workload_losses(release, true_jobs(release, truth))
    measured = {level for _, level, _, _ in lost}
    for one in release.accuracy.tables if release.accuracy else ():
        if one.workload and one.table in measured:
            lost.append(("workload_forecast", one.table, "all", one.loss))
    return _write(release, [comparison], target, confidential=True, first=measures_table(lost))


def evaluate_public(
    out: PathLike, tables: PathLike | Iterable[PathLike], to: PathLike | None = None
) -> pd.DataFrame:
    """Measure how far a release is from public tables, and write a report that may be published.

    Parameters
    ----------
    out : str or path
        Folder of the release, or its public folder.
    tables : str, path or sequence of them
        Configurations (``.toml``), of which only the auxiliary tables are read, or LODES origin-destination
        files that are published, such as last year's.
    to : str or path, optional
        Folder to make; by default ``evaluation`` beside the public folder. An earlier evaluation there is
        replaced.

    Returns
    -------
    DataFrame
        As `evaluate`; public.

    Raises
    ------
    ConfigError, PublicReleaseError, geo_data.InputError
        As `evaluate`; also where a table seems to be of the confidential jobs of the release.
    """
    out = path_of(out, "out")
    to = None if to is None else path_of(to, "to")
    release, target = _open(out, to, confidential=False)
    compared = compare_with_public(release, paths_of(tables, "tables"))
    return _write(release, compared, target, confidential=False)


def evaluation_folder(out: PathLike, *, confidential: bool) -> Path:
    """Return the folder of an evaluation where none is named."""
    out = path_of(out, "out")
    if confidential:
        return out / "confidential" / "evaluation"
    return _public_folder(out).resolve().parent / "evaluation"


def _public_folder(out: Path) -> Path:
    return out / "public" if (out / "public").is_dir() else out


def _open(out: Path, to: Path | None, *, confidential: bool) -> tuple[PublicRelease, Path]:
    release = read_public_release(_public_folder(out))
    target = (to or evaluation_folder(out, confidential=confidential)).resolve()  # wherever links lead
    for folder in (target, *target.parents):
        if any((folder / name).exists() for name in _OF_PUBLIC) or folder == release.folder.resolve():
            raise ConfigError(
                f"{target}: this is inside the public folder {folder}. Choose another folder with --to"
            )
    _check_replaceable(target, confidential)
    return release, target


def _check_replaceable(target: Path, confidential: bool) -> None:
    if not _replaceable(target, confidential):
        raise ConfigError(
            f"{target}: this exists and is no {'confidential' if confidential else 'public'} evaluation. "
            "Choose another folder with --to"
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


def _verdict_texts(release: PublicRelease, verdict: Verdict) -> dict[str, str]:
    """Return the files of a verdict on a confidential truth, by name."""
    mark, name = _MARK[True].decode(), release.certificate.release.name
    document = {"status": mark, "release": name, **verdict.document()}
    texts = (
        f"{mark}\n\n{name}\n{verdict.text(release.geography)}",
        json.dumps(document, indent=1, ensure_ascii=False) + "\n",
    )
    return dict(zip(VERDICT_FILES, texts, strict=True))


def _write(
    release: PublicRelease,
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
        judge(table, release.accuracy, float(comparison.release["S000"].sum()))
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
    with whole_folder(target, 0o700 if confidential else None, check=check) as made:
        (made / REPORT_FILE).write_text(page, encoding="utf-8")
        arrow = pa.Table.from_pandas(measures, preserve_index=False)
        arrow = arrow.replace_schema_metadata({**arrow.schema.metadata, b"odsynth": _MARK[confidential]})
        pq.write_table(arrow, made / MEASURES_FILE)
        if confidential:
            for name, text in _verdict_texts(release, verdicts[0]).items():
                (made / name).write_text(text, encoding="utf-8")
            for file in made.iterdir():
                file.chmod(0o600)
    return measures
