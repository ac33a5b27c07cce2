"""Releases whose noisy counts are made of those of another: weaker tiers of a run, and refined releases.

A weaker tier is made of nothing but the noisy counts of a stronger one (`pipelines.drawing.sampling.weaken`).
A refined release is made of homes and of the noisy counts of a weaker one (`refine`). All that follows noisy
counts is as in any run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.config.toml import ConfigError
from pipelines.drawing.estimating import JobLayout
from pipelines.drawing.sampling import refine, weaken
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import save_plan
from pipelines.release.accuracy import write_accuracy
from pipelines.release.measurements import read_measurements
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import POLYGON_FOLDER
from pipelines.running.batches import MeasuredBatches, MeasuredWork, RunBatches, Task, TaskInputs
from pipelines.running.folder import RunFolder
from synth.noise import Noise
from synth.posterior.estimation import Cells


def keep_tiers(
    plan: ReleasePlan, staging: RunFolder, forecast: Callable[[ReleasePlan], ExpectedAccuracy | None]
) -> None:
    """Write the plans of the weaker tiers of a run, and what is beside them, before the run pays."""
    stronger = plan
    for name, weaker in plan.weaker():
        refuse_same_noise(stronger, weaker)
        public = staging.tier(name).public
        for folder in (public, staging.tier(name).parts):
            folder.mkdir(parents=True)
        sha256 = save_plan(weaker, public / "plan")
        copy_beside(staging.public, public)
        if (accuracy := forecast(weaker)) is not None:
            write_accuracy(accuracy, sha256, public)
        stronger = weaker


def refuse_same_noise(stronger: ReleasePlan, weaker: ReleasePlan) -> None:
    """Refuse tiers whose epsilons are so close that a table of both gets the same noise."""
    pairs = zip(_noises(weaker), _noises(stronger), strict=True)
    if not all(weak.ratio > strong.ratio for weak, strong in pairs):
        raise ConfigError(
            f"tiers.{weaker.config.tier}: the epsilon is so close to that of the next stronger tier that "
            "both get the same noise. Fix: write epsilons that differ more"
        )


def copy_beside(public: Path, to: Path) -> None:
    """Copy names of areas and shapes, where there are any, into the public folder of another tier."""
    if (names := public / NAME_FILE).is_file():
        shutil.copyfile(names, to / NAME_FILE)
    if (polygons := public / POLYGON_FOLDER).is_dir():
        shutil.copytree(polygons, to / POLYGON_FOLDER)


def _noises(plan: ReleasePlan) -> list[Noise]:
    """Return the noise of each table."""
    return [table.parameters for table in plan.mechanism.tables(plan.numeric)]


class GivenWork(MeasuredWork):
    """What the tasks of a run share whose counts are made of those of another release, with its noises."""

    def __init__(
        self, plan: ReleasePlan, createdate: str, batch_jobs: int | None, given: Sequence[Noise]
    ) -> None:
        super().__init__(plan, createdate, batch_jobs)
        self.given = given


class WeakerWork(GivenWork):
    """That of a weaker tier, which is given the counts of a stronger one."""

    def _measured(self, batch: int, inputs: Any, key: synth.RunKey) -> Iterator[NDArray[np.int64]]:
        for run, (noisy,) in enumerate(inputs):
            yield weaken(noisy, self.given[0], self.layout.tables[0], key, 0, batch, run)


class RefinedWork(GivenWork):
    """That of a refined release, which is given homes, and the counts of the release that it refines."""

    def _measured(self, batch: int, inputs: Any, key: synth.RunKey) -> Iterator[NDArray[np.int64]]:
        homes, others = inputs
        counts = self._counted(batch, homes)
        for run, (noisy,) in enumerate(others):
            yield refine(counts, noisy, self.given[0], self.layout.tables[0], key, 0, batch, run)


class GivenBatches(MeasuredBatches):
    """The batches of a run whose counts are made of those of another release, which are `noisy`."""

    work: GivenWork
    kind: type[GivenWork]

    def __init__(
        self, staging: RunFolder, key: synth.RunKey, work: GivenWork, noisy: list[list[Cells]]
    ) -> None:
        super().__init__(staging, key, work)
        self._noisy = noisy

    @classmethod
    def of_release(cls, begun: RunBatches, plan: ReleasePlan, public: Path) -> Self:
        """Return these in place of batches that were begun; the other release has this plan and folder."""
        layout, work = JobLayout(plan), begun.work
        noises = [table.parameters for table in layout.tables]
        given = cls.kind(work.plan, work.createdate, work.batch_jobs, noises)
        return cls(begun.staging, begun.key, given, read_measurements(public, plan, layout))

    def _given(self, batch: int) -> list[list[Cells]]:
        """Return noisy counts of the other release for a batch, by run."""
        pools, offsets = self.work.slices[batch], self.work.layout.tables[0].offsets
        cells = slice(int(offsets[pools.start]), int(offsets[pools.stop]))
        return [[of_run[0][cells]] for of_run in self._noisy]


class WeakerBatches(GivenBatches):
    """Those of a weaker tier."""

    kind = WeakerWork

    def inputs(self, task: Task, batch: int) -> TaskInputs:
        """Return noisy counts of the stronger tier; to be drawn from, the files of factors."""
        return self._given(batch) if task == "measure" else super().inputs(task, batch)

    def _measure_whole(self, k: int, run: int) -> NDArray[np.int64]:
        table, given = self.work.layout.tables[k], self.work.given[k]
        return weaken(self._noisy[run][k][:], given, table, self.key, k, 0, run)


class RefinedBatches(GivenBatches):
    """Those of a refined release."""

    kind = RefinedWork

    def inputs(self, task: Task, batch: int) -> TaskInputs:
        """Return homes with noisy counts of the release that is refined; or the files of factors."""
        if task != "measure":
            return super().inputs(task, batch)
        return self.staging.read_homes(batch), self._given(batch)

    def _measure_whole(self, k: int, run: int) -> NDArray[np.int64]:
        counts, noisy = self.staging.read_counts(k), self._noisy[run][k][:]
        return refine(counts, noisy, self.work.given[k], self.work.layout.tables[k], self.key, k, 0, run)
