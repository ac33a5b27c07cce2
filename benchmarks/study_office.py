"""What statistical offices do instead: rules by which they protect each table that they publish.

An office publishes the tables of the workload. Readers take numbers as they stand. Where some are left out
they spread what the row lacks over these as the public model says: totals of work areas are public here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root
from study_measures import MEAN, guess_figures
from study_methods import Method, Subject

import synth
from pipelines.drawing.estimating import PublicModel
from pipelines.planning.guesses import Guesser
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workload import CountedJobs, Table, Workload
from synth.geometric.noise import two_sided_noise
from synth.noise import Law
from synth.posterior.guesses import CellOdds, noise_odds

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

CERTAIN = 1e9  # factor of the odds of a cell that alone explains what was published
LEFT_OUT = -1
VARIANCE, MOST = 2.0, 5  # of the noise of a cell key: its variance, and how many jobs it adds at most
KEYS = 2**32
NOISE_DENOMINATOR = 2**40
SOME = 10  # of which one home is guessed by those who know all others, who look at every table


@dataclass(frozen=True, eq=False)
class CountedTable:
    """The true numbers of a table.

    Attributes
    ----------
    table : Table
    share : float
        Of the weights of all tables.
    row, area : ndarray of int64, shape (n_jobs,)
        Work area and categories, and home area, of each job.
    count : ndarray of int64, shape (n_rows, n_areas)
    key : ndarray of float64, shape (n_rows, n_areas)
        In [0, 1): made of the record keys of the jobs counted, so that the same jobs have the same anywhere.
    """

    table: Table
    share: float
    row: Int64
    area: Int64
    count: Int64
    key: Float64


@dataclass(frozen=True, eq=False)
class Published:
    """A table as it is published, with LEFT_OUT where there is no number; and odds as of `CellOdds`."""

    count: Int64
    elsewhere: Float64
    home: Float64


Rule = Callable[[CountedTable], Published]


def _told(count: Int64, rule: Callable[[Int64], Int64]) -> Published:
    """Return what a rule tells that gives equal counts equal numbers."""
    shown = rule(count)
    more, less = rule(count + 1) == shown, rule(np.maximum(count - 1, 0)) == shown
    return Published(shown, more.astype(np.float64), np.where(less, 1.0, CERTAIN))


def suppression(below: int) -> Rule:
    """Leave out numbers below a limit, 0 too."""
    return lambda counted: _told(counted.count, lambda n: np.where(n < below, LEFT_OUT, n))


def rounding(base: int) -> Rule:
    """Round to the nearest multiple of an odd base."""
    return lambda counted: _told(counted.count, lambda n: (n + base // 2) // base * base)


def cell_key(counted: CountedTable) -> Published:
    """Add the noise that a cell's key stands at in the table of its count's probabilities."""
    chance, count = perturbation_table(), counted.count
    limit = np.cumsum(chance, axis=1)[:, :-1]
    there = count > 0
    noise = np.zeros(count.shape, np.int64)
    noise[there] = (limit[np.minimum(count[there], MOST)] <= counted.key[there, np.newaxis]).sum(
        axis=1
    ) - MOST
    shown = count + noise

    def likelihood(jobs: Int64) -> Float64:
        added = shown - jobs
        found = chance[jobs.clip(0, MOST), (added + MOST).clip(0, 2 * MOST)]
        return np.where((np.abs(added) <= MOST) & (jobs >= 0), found, 0.0)

    now, more, less = (likelihood(count + step) for step in (0, 1, -1))
    home = np.divide(now, less, out=np.full(now.shape, CERTAIN), where=less > 0)
    return Published(shown, more / now, home)


def perturbation_table() -> Float64:
    """Return the probability of noise from -MOST to MOST, for counts of 0, 1, ... and MOST or more.

    0 stays 0, and no count becomes negative. Otherwise noise has mean 0, the variance, and the largest
    entropy (Giessing 2016, "Computational issues in the design of transition probabilities and disclosure
    risk estimation for additive noise"; the method is that of Fraser and Wooton 2005).
    """
    steps = np.arange(-MOST, MOST + 1)
    table = np.zeros((MOST + 1, steps.size))
    table[0, MOST] = 1
    for count in range(1, MOST + 1):
        allowed = steps[steps >= -count].astype(np.float64)
        solved = root(_missed, (0.0, -0.2), (allowed,), tol=1e-12)
        if not solved.success:
            raise ValueError(f"no noise of variance {VARIANCE} for a count of {count}: {solved.message}")
        table[count, steps >= -count] = _tilted(solved.x, allowed)
    return table


def _tilted(tilt: Float64, steps: Float64) -> Float64:
    weight = np.exp(tilt[0] * steps + tilt[1] * steps**2)
    return np.asarray(weight / weight.sum())


def _missed(tilt: Float64, steps: Float64) -> list[float]:
    chance = _tilted(tilt, steps)
    return [float(chance @ steps), float(chance @ steps**2) - VARIANCE]


def plain_noise(epsilon: str) -> Rule:
    """Add two-sided geometric noise, with the table's share of epsilon, and estimate nothing."""

    def noisy(counted: CountedTable) -> Published:
        numerator = int(np.ceil(np.exp(-float(epsilon) * counted.share / 2) * NOISE_DENOMINATOR))
        stream = synth.RunKey.generate().stream("plain noise", 0)
        size = counted.count.size
        noise = two_sided_noise(size, numerator, NOISE_DENOMINATOR, stream).reshape(counted.count.shape)
        return Published(counted.count + noise, *noise_odds(noise, Law(numerator / NOISE_DENOMINATOR)))

    return noisy


OFFICES = {
    "below_10": Method("(l) suppression below 10", "**none**", "numbers below 10 are left out, 0 too"),
    "below_3": Method("(m) suppression below 3", "**none**", "numbers below 3 are left out, 0 too"),
    "rounding": Method("(n) rounding to 5", "**none**", "every number to the nearest multiple"),
    "cell_key": Method("(o) cell key", "**none**", "noise of variance 2 by secret keys of records"),
    "plain": Method(
        "(p) plain noise", "pure DP", "every number with two-sided geometric noise; nothing is estimated"
    ),
}
"""What an office does instead, as rows of the study."""

DRAWN = ("cell_key", "plain")
"""Those of OFFICES that draw keys or noise."""


def rule_of(method: str, epsilon: str) -> Rule:
    """Return the rule of one of OFFICES."""
    rules = {
        "below_10": suppression(10),
        "below_3": suppression(3),
        "rounding": rounding(5),
        "cell_key": cell_key,
        "plain": plain_noise(epsilon),
    }
    return rules[method]


class Office:
    """An office with the true jobs of a plan, and somebody who guesses homes from what it publishes."""

    def __init__(self, subject: Subject, plan: ReleasePlan) -> None:
        self._workload, self._plan = subject.workload, plan
        self._jobs = subject.true_jobs(plan)
        self._guesser, self._prior = Guesser(plan), PublicModel(plan)
        every = np.arange(len(self._jobs))
        self._place = self._guesser.places(every)
        total = sum(table.weight for table in self._workload.tables)
        words = synth.RunKey.generate().stream("record keys", 0).words(every.size)
        keys = (words % KEYS).astype(np.int64)
        self._tables = [
            _count(self._workload, table, float(table.weight / total), self._jobs, keys)
            for table in self._workload.tables
        ]

    def publish(self, rule: Rule) -> dict[str, float]:
        """Return the losses of what a rule publishes, and how often homes are guessed from it."""
        published = [rule(counted) for counted in self._tables]
        losses = [
            self._loss(counted, shown.count) for counted, shown in zip(self._tables, published, strict=True)
        ]
        block = self._workload.geography.block_level
        of_blocks = [k for k, counted in enumerate(self._tables) if counted.table.work == block][:1]
        size = self._plan.pools.slots.jobs(self._plan.geography.n_blocks)[self._jobs.work]
        every = np.arange(size.size)
        guesses = guess_figures(self.guess(published, of_blocks, every), size)
        guesses["guess_all"] = float(self.guess(published, range(len(published)), every[::SOME]).mean())
        named = dict(zip(self._workload.names, losses, strict=True))
        return {MEAN: self._workload.objective(losses)} | named | guesses

    def guess(self, published: Sequence[Published], tables: Sequence[int], jobs: Int64) -> NDArray[np.bool_]:
        """Say of which jobs the home is guessed right from some of the tables."""
        right, place = np.zeros(jobs.size, np.bool_), self._place[jobs]
        for number in np.unique(place).tolist():
            guessed = np.flatnonzero(place == number)
            evidence, member = [], []
            for k in tables:
                rows, row = np.unique(self._tables[k].row[jobs[guessed]], return_inverse=True)
                evidence.append(self._evidence(k, published[k], rows))
                member.append(row)
            homes = self._jobs.home[jobs[guessed]]
            _, right[guessed] = self._guesser.guess(number, evidence, member, homes)
        return right

    def _evidence(self, k: int, published: Published, rows: Int64) -> CellOdds:
        starts = self._workload.geography.starts(self._tables[k].table.home)
        domains = synth.Domains.of_cells(self._plan.geography.n_blocks, [starts], self._plan.policy)
        table = synth.Table(np.ones(rows.size, np.int64), np.zeros(rows.size, np.int32), domains)
        return CellOdds(table, published.elsewhere[rows].ravel(), published.home[rows].ravel())

    def _loss(self, counted: CountedTable, shown: Int64) -> float:
        """Return the share of jobs that a reader would have to count elsewhere, or that nobody counts."""
        count, released = counted.count, shown.astype(np.float64)
        empty = shown == LEFT_OUT
        if empty.any():
            share = np.where(empty, self._expected(counted), 0.0)
            lacking = count.sum(axis=1) - np.where(empty, 0, shown).sum(axis=1)
            filled = lacking[:, np.newaxis] * share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
            released = np.where(empty, filled, released)
        wrong = released - count
        return float(max(wrong.clip(min=0).sum(), -wrong.clip(max=0).sum()) / count.sum())

    def _expected(self, counted: CountedTable) -> Float64:
        """Return the share of each home area in each row by the public model."""
        starts = self._workload.geography.starts(counted.table.home)
        expected = np.zeros(counted.count.shape)
        for place in np.unique(self._place):
            rows, jobs = np.unique(counted.row[self._place == place], return_counts=True)
            expected[rows] += jobs[:, np.newaxis] * self._prior(int(place), starts)
        return expected


def _count(workload: Workload, table: Table, share: float, jobs: CountedJobs, keys: Int64) -> CountedTable:
    areas = workload.geography.n_units(table.home)
    (cell,) = workload.cells(table, [jobs])
    rows, row = np.unique(cell // areas, return_inverse=True)
    size, at = rows.size * areas, row * areas + cell % areas
    sums = np.zeros(size, np.int64)
    np.add.at(sums, at, keys)
    shape = rows.size, areas
    count = np.bincount(at, minlength=size).reshape(shape)
    return CountedTable(table, share, row, cell % areas, count, (sums % KEYS / KEYS).reshape(shape))
