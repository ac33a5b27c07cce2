"""What is compared: the flows of a release, and a reference: the confidential truth, or a public table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import geo_data
from geo_data.jobs import JobSource
from pipelines.config.loading import load_config
from pipelines.planning.public_inputs import job_source, read_auxiliary
from pipelines.release.certificate import AttributeField
from pipelines.release.description import kinds_of_work
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.views.evaluation.measures import add_distance, side_variation
from pipelines.views.flows import PAIR
from pipelines.views.labels import ends_beyond
from pipelines.views.release import Release

_SAME = 1e-9  # of shares that are equal but for rounding


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two tables of flows between the same areas. Its repr shows nothing, because one may be confidential."""

    name: str  # What the release is compared with, for people
    # Tables of flows: ``work``, ``home`` (unit numbers) and ``S000`` (jobs), sorted. The reference is scaled
    # to the jobs of the release.
    reference: pd.DataFrame
    release: pd.DataFrame
    home_level: str  # Levels of the two sides
    work_level: str
    homes: pd.DataFrame  # Places of the two levels (`Release.places`)
    works: pd.DataFrame
    geography: geo_data.Geography
    notes: tuple[str, ...] = ()  # What a reader has to know about the reference

    @cached_property
    def distances(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The two tables with ``km``, without the rows that have no distance."""
        reference, release = (add_distance(t, self.homes, self.works) for t in (self.reference, self.release))
        return reference, release

    def __repr__(self) -> str:
        return "<Comparison>"


def compare_with_truth(release: Release, truth: Path) -> Comparison:
    """Read the confidential truth of a release."""
    source = true_jobs(release, truth)
    block = release.levels[-1]
    protected = release.certificate.presence is not None
    jobs = _count(source, release.geography, others=protected)
    if jobs.empty:
        raise geo_data.InputError(
            truth,
            "no job has its workplace in the geography of the release",
            fix="name the jobs that the release was made from",
        )
    comparison = _compare(release, "the confidential truth", jobs, (block, block))
    if protected:
        estimated = release.certificate.protects == "record"
        totals = "estimates from noisy counts" if estimated else "those of a public table"
        note = (
            f"Totals at workplaces are {totals} and not of these jobs; shares are compared. Jobs at "
            f"workplaces outside the geography{_but(release.geography)} are left out."
        )
        return replace(comparison, notes=(*comparison.notes, note))
    equal_total = int(jobs["S000"].sum()) == int(comparison.release["S000"].sum())
    if equal_total and side_variation(jobs, comparison.release, "work") < _SAME:
        return comparison
    note = (
        "Totals at workplaces are not those of the release. A release keeps them exactly, so this is not the "
        "truth it was made from, or only a part of it."
    )
    return replace(comparison, notes=(*comparison.notes, note))


def true_jobs(release: Release, truth: Path) -> JobSource:
    """Return where the confidential truth of a release is read from; parameters and errors as above."""
    certificate = release.certificate
    if truth.suffix == ".toml":
        config = load_config(truth)
        secret = certificate.policy.attributes if isinstance(certificate.policy, AttributeField) else {}
        if {name: list(values) for name, values in config.secret.items()} != secret:
            raise geo_data.InputError(
                truth,
                "privacy.protects names other attributes than the release, or other categories",
                fix="name the configuration that the release was made with",
            )
        return job_source(config, release.geography)
    if isinstance(certificate.policy, AttributeField):
        raise geo_data.InputError(
            truth,
            "one file cannot be the truth of a release that protects homes together with attributes",
            fix="name the configuration of the release, which says where its jobs are",
        )
    if "aux" in release.rows:
        raise geo_data.InputError(
            truth,
            "one file cannot be the truth of a release with workers who live in external zones",
            fix="name the configuration of the release, which says where main and aux jobs are",
        )
    return geo_data.LodesJobs(truth, release.geography)


def compare_with_public(release: Release, tables: Sequence[Path]) -> list[Comparison]:
    """Read public tables that a release can be compared with, each at its own levels."""
    all_flows: list[geo_data.Flows] = []
    nested = replace(release.geography, non_nesting_areas={})
    for path in tables:
        _refuse_input(release, path)
        if path.suffix == ".toml":
            config = load_config(path)
            for table in config.auxiliary:
                _refuse_input(release, table.file)
                of_file = read_auxiliary(config.model_copy(update={"auxiliary": (table,)}), nested)
                for flows in of_file:
                    _refuse_jobs(release, table.file, flows, np.equal)
                all_flows += of_file
        else:
            above, block = release.levels[max(len(release.levels) - 2, 0)], release.levels[-1]
            levels = {level: _read_lodes(path, release.geography, above, level) for level in {above, block}}
            # Whether at most as many: the main jobs alone, or one file of several, are confidential, too.
            _refuse_jobs(release, path, levels[block], np.less_equal)
            all_flows.append(levels[above])
    all_flows = [flows for flows in all_flows if flows.flow.sum() > 0]
    if not all_flows:
        raise geo_data.InputError(
            tables[0],
            "no public table has commuters in the geography to compare with",
            fix="name a published origin-destination file, or a configuration with [[auxiliary]] tables",
        )
    return [_compare_table(release, table) for table in all_flows]


def _compare_table(release: Release, table: geo_data.Flows) -> Comparison:
    flows = pd.DataFrame({"work": table.destination, "home": table.origin, "S000": table.flow})
    flows = flows[flows["S000"] > 0].sort_values(PAIR, ignore_index=True)
    levels = (table.origin_level, table.destination_level)
    comparison = _compare(release, _file_name(table.source), flows, levels)
    notes = [*comparison.notes]
    if not table.same_jobs:
        notes.append("The table may count other commuters; only shares are compared.")
    in_table = _shown(comparison)
    if in_table.all():
        return replace(comparison, notes=tuple(notes))
    if not in_table.any():
        raise geo_data.InputError(
            table.source,
            "the table and the release have commuters between no pair of larger areas in common",
            fix="name a table of the region of the release",
        )
    left_out = 1 - comparison.release["S000"][in_table].sum() / comparison.release["S000"].sum()
    notes.append(
        f"The table does not show all pairs: {left_out:.1%} of the release's jobs are between larger areas "
        "between which it shows nobody, and are left out."
    )
    return _scaled(
        replace(comparison, release=comparison.release[in_table].reset_index(drop=True), notes=tuple(notes))
    )


def _shown(comparison: Comparison) -> NDArray[np.bool_]:
    """Say of each flow of the release whether the reference shows any between the next larger areas."""
    geography, levels = comparison.geography, (comparison.home_level, comparison.work_level)
    names = [*geography.levels, geography.block_level]
    above = [name for name in names[: min(map(names.index, levels))] if geography.n_units(name) > 1]
    if not above:
        return np.ones(len(comparison.release), np.bool_)
    pairs = [
        pd.MultiIndex.from_arrays(
            [
                geography.unit_of(above[-1], geography.starts(level)[table[side]])
                for side, level in zip(("home", "work"), levels, strict=True)
            ]
        )
        for table in (comparison.release, comparison.reference)
    ]
    return pairs[0].isin(pairs[1].unique())


def _compare(release: Release, name: str, flows: pd.DataFrame, levels: tuple[str, str]) -> Comparison:
    homes, works = levels
    places = {level: release.places(level) for level in {homes, works}}
    released = release.unit_flows(homes, works)
    verb = ends_beyond(release.geography)
    note = (
        f"Each external zone is one area at every level; workers who {verb} there have no distance, and are "
        "left out of all measures of commutes."
    )
    notes = (note,) if verb else ()
    comparison = Comparison(
        name, flows, released, homes, works, places[homes], places[works], release.geography, notes
    )
    return _scaled(comparison)


def _but(geography: geo_data.Geography) -> str:
    zones = kinds_of_work(geography)
    return f" and its external zones ({zones})" if zones else ""


def _scaled(comparison: Comparison) -> Comparison:
    """Scale the reference to the jobs of the release."""
    flows, jobs = comparison.reference, comparison.release["S000"].sum()
    if flows["S000"].sum() == jobs:
        return comparison
    return replace(comparison, reference=flows.assign(S000=flows["S000"] * (jobs / flows["S000"].sum())))


def _count(source: JobSource, geography: geo_data.Geography, *, others: bool) -> pd.DataFrame:
    """Count jobs by pair of blocks, a file at a time; without `others`, all must be in the geography."""
    counts = pd.Series(dtype=np.int64)
    for part in source.parts(unmatched=others):
        inside = part.work >= 0
        pairs, jobs = np.unique(
            part.work[inside].astype(np.int64) * geography.n_blocks + part.home[inside],
            return_counts=True,
        )
        counts = pd.concat([counts, pd.Series(jobs, pairs)])
    counts = counts.groupby(level=0).sum()
    pair = counts.index.to_numpy(np.int64)
    return pd.DataFrame(
        {
            "work": (pair // geography.n_blocks).astype(np.int32),
            "home": (pair % geography.n_blocks).astype(np.int32),
            "S000": counts.to_numpy(np.int64),
        }
    )


def _read_lodes(path: Path, geography: geo_data.Geography, homes: str, works: str) -> geo_data.Flows:
    return geo_data.read_lodes_flows(path, geography, (homes, works))


def _refuse_jobs(release: Release, path: Path, table: geo_data.Flows, compare: np.ufunc) -> None:
    """Refuse a "public" table whose totals at workplaces say that it is of the confidential jobs.

    A release keeps these totals exactly; an earlier one is known by its public folder.
    """
    if release.certificate.presence is not None:
        return
    level = table.destination_level
    jobs = release.unit_flows(release.levels[0], level)
    totals = [
        np.bincount(work, count, release.geography.n_units(level))
        for work, count in ((table.destination, table.flow), (jobs["work"], jobs["S000"]))
    ]
    if compare(*totals).all() and not _released(path):
        raise geo_data.InputError(
            path,
            "its totals by workplace are nowhere above the totals of the release, so it seems to have "
            "confidential jobs",
            fix="name confidential jobs with --truth; name an earlier release in its public folder, beside "
            "the SHA256SUMS that lists it",
        )


def _released(path: Path) -> bool:
    """Say whether a file is one of a release: listed, as it is, in the checksums of a public folder."""
    path = path.resolve()
    for folder in path.parents:
        sums = folder / CHECKSUMS
        if sums.is_file() and (folder / "certificate.json").is_file() and path.is_file():
            listed = parse_checksums(sums.read_bytes(), strict=False)
            return listed.get(path.relative_to(folder).as_posix()) == sha256_of(path)
    return False


def _refuse_input(release: Release, table: Path) -> None:
    """Refuse a "public" table that is one of the confidential inputs, where the run has left their hashes."""
    log = release.public.parent / "confidential" / "run.json"
    if not (log.is_file() and table.is_file()):
        return
    try:
        inputs = set(json.loads(log.read_text(encoding="utf-8"))["inputs_sha256"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        rule = "the file is damaged and does not say which inputs were confidential"
        raise geo_data.InputError(log, rule, fix="compare a copy of the public folder") from None
    if sha256_of(table) in inputs:
        raise geo_data.InputError(
            table,
            "this is a confidential input of the release, not a public table",
            fix="name it with --truth, and keep the result confidential",
        )


def _file_name(source: str) -> str:
    """Return the name of a table without its folder, which may tell something."""
    path, bracket, part = source.partition(" (")
    return Path(path).name + bracket + part
