"""Posterior implicates: draws of all homes from published and public numbers, as many as wanted.

A place's jobs have homes with a profile that is Dirichlet around what is expected of it, and each of its
groups one around the place's; of the counts of groups there is evidence (`synth.posterior.evidence`). What is
expected is the public model times effects that places, homes and attributes have in common
(`synth.posterior.effects`), drawn anew for each implicate, so that sums over many areas vary as much as they
are uncertain. A group's jobs are then given to its rows (job groups), with odds that vary as measured
profiles do, and that are steered to draws of the tables that cross places.

It costs no privacy: nothing here sees a confidential number. The same numbers and key give the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import offsets_of
from synth.geometric.measured import JobGroups, layouts
from synth.plan import Domains, Table
from synth.posterior.effects import SAME, Effects, Family, Sums, draw_effects, product, spread_of
from synth.posterior.estimation import Prior
from synth.posterior.evidence import URN, Evidence, group_evidence, parameter_of_variance
from synth.posterior.inside import Homes, Inside, Together, strata
from synth.posterior.placing import (
    GROUP,
    ROW,
    STEERED,
    Concentrations,
    Crossing,
    Parts,
    Place,
    draw_place,
    place_of,
)
from synth.posterior.ties import Ties, ties_of
from synth.randomness import WordStream

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_GRID: Float64 = (2.0 ** np.arange(0, 15)).astype(np.float64)  # concentrations that are tried
_FLOORS = (1e-3, 1e-2, 1e-1, 2e-1)  # shares of jobs that follow no place's profile
# A survey asks few people of a zone outside the region, or none: a model has such a zone in few places only.
# Jobs that count beside its own ones there, spread over places as all jobs are; and jobs that it has beside.
_SPREAD_JOBS = (100.0, 1000.0, 10000.0)
_ADDED_JOBS = (3.0, 10.0)
_EQUAL = 0.03  # part of the profile of those that is the same in all cells
_SAMPLE = 100  # groups on which a concentration is measured
_TOLERANCE = 2.0  # how much less likely, in logarithms, a smaller concentration may be
_RARE = 0.2  # groups of a sample that every concentration has beside those that say so
_INFORMATIVE = 16  # jobs of a group whose own counts say something of its concentration
_PART = 0.05  # a part of a place has a profile of its own if it has this part of the concentration in jobs
_TINY = 1e-9  # weight of a block, of those of its unit about 32 together: sums in floats do not lose it
_RUNS = 2  # of draws of a place, side by side
_BURN = 5  # draws of a place of several groups that are thrown away


@dataclass(frozen=True, eq=False)
class Published:
    """What was published of some jobs, and what people will read of them.

    Attributes
    ----------
    tables : sequence of Table
        Of which there is evidence first, then those whose sums people will read. Each group of the first
        table lies in one place, and those of one place have one domain.
    evidence : sequence of Evidence
        Of the first tables; after the first of all, noisy counts.
    groups : JobGroups
        Of all tables.
    """

    tables: Sequence[Table]
    evidence: Sequence[Evidence]
    groups: JobGroups

    def members(self) -> list[Int32]:
        """Return the groups of the first table in each place, rising."""
        groups = self.groups
        return [np.unique(groups.member[0, groups.rows(i)]) for i in range(groups.n_places)]


@dataclass(frozen=True, eq=False)
class Areas:
    """Areas of homes and of places in which homes have something in common.

    Attributes
    ----------
    work_area : ndarray of int64, shape (n_places,)
        A larger area (a county) of each place, numbered as homes' are in the first copy of the blocks.
    home_area : ndarray of int32
        First block of every larger area, rising from 0.
    home_unit : ndarray of int32, optional
        First block of every home area that several cells of the first table may lie in, rising from 0: homes
        are chosen by such areas first. By default cells are no parts of anything.
    work_unit : ndarray of int64, optional, shape (n_places,)
        Area of each place, numbered from 0, where places are parts of areas that were parted for their cells.
    outside : ndarray of int32, optional
        First block of each home area outside the region, of which the prior knows less.
    bands : callable, optional
        Given the number of a place and first blocks of its cells, the band that each cell is in as seen from
        there: of distances, or of homes in the place itself.
    """

    work_area: Int64
    home_area: Int32
    home_unit: Int32 | None = None
    work_unit: Int64 | None = None
    outside: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    bands: Callable[[int, Int32], Int64] | None = None


@dataclass(frozen=True, eq=False)
class Attributes:
    """How homes differ by attribute, or by part of a place, and which groups are alike.

    Attributes
    ----------
    variances : mapping of int to ndarray of float64, shape (n_groups of the table,)
        Of tables, by number, without evidence: the relative variance, by home unit or area, of those jobs of
        a place, or of all places, that are in a group. By default as uncertain as homes are.
    categories : mapping of int to ndarray of int64, shape (n_attributes, n_groups of the table)
        Of tables with evidence that cross places, by number: codes of the attributes of each group. Homes
        differ by attribute, so groups that agree in one are alike.
    labels : ndarray of int64, shape (n_kinds, n_groups of the first table), optional
        What groups of a place may agree in, such as workplaces and categories: then their homes are alike.
    """

    variances: Mapping[int, Float64] = field(default_factory=dict)
    categories: Mapping[int, Int64] = field(default_factory=dict)
    labels: Int64 | None = None


class Implicates:
    """Posterior draws of the home of every job, place by place.

    Parameters
    ----------
    published : Published
    prior : Prior
    areas : Areas
    attributes : Attributes
    draws : int
    stream : WordStream
        The same words give the same draws.
    done : callable, optional
        Told, while effects are drawn, how many turns are done, and how many there are.

    Attributes
    ----------
    draws : int
    k_public, k_place, k_group : float
        Concentrations that were measured: of places around the public model, of places around it with
        effects, and of groups around their place.
    families : list of Family
        Of effects: of homes (of units and, where all places cut some of these alike, of cells), of bands, of
        larger areas of work by larger areas of homes and by homes, of the units of places by the same, and of
        sums.
    failures : int
        Groups whose counts were not drawn but set, because windows left none.
    """

    def __init__(
        self,
        published: Published,
        prior: Prior,
        areas: Areas,
        attributes: Attributes,
        draws: int,
        stream: WordStream,
        done: Callable[[int, int], None] = lambda _, __: None,
    ) -> None:
        tables, evidence, groups = published.tables, published.evidence, published.groups
        self._table, self._evidence, self._groups, self.draws = tables[0], evidence[0], groups, draws
        self._sizes = [table.n for table in tables]
        self._layouts = layouts(tables, groups)
        self._seeds = [int(word) for word in stream.words(groups.n_places + 1)]
        self._members = published.members()
        self._ends = tables[0].domains.ends[[tables[0].domain[member[0]] for member in self._members]]
        self._several = max(member.size for member in self._members) > 1
        self._cell = [layout.cell[layout.which[0, 0]] for layout in self._layouts]
        self._bounds = offsets_of(np.array([cell[-1] + 1 for cell in self._cell], np.int64))
        self.failures, self._drawn = 0, False
        self._areas, self._attributes = areas, attributes
        none = np.zeros((0, tables[0].n.size), np.int64)
        self._labels = none if attributes.labels is None else attributes.labels
        random = np.random.default_rng(self._seeds[-1])
        sums = self._sums_of_places(prior)
        effects = draw_effects(sums, float(_GRID[-1]), self.families, draws, random, done)
        self._factor_of_sums = effects.factor
        scales = [family.scale for family in self.families[: self._everywhere]]
        self._variance = np.prod([1 + scale**2 for scale in scales], axis=0) - 1
        self._measure_concentrations(sums, effects, random)
        # Of products: a product of means may be many times as large, where factors are skewed.
        mean = sums.times(effects.factor.mean(axis=0, dtype=np.float64))
        self._profile = np.split(mean / sums.n, self._bounds[1:-1])
        self._set_crossing(tables, evidence, random)

    def places(self) -> Iterator[Int32]:
        """Yield the home cell of every job of each place in every draw, shape (n_draws, jobs of the place).

        Cells are numbers in the domain of the place in `domains`, row after row, in random order inside each.
        Places take from what steered tables lack, so they come in order, and once.
        """
        if self._drawn:
            raise RuntimeError("the places of these implicates are drawn already; make new implicates")
        self._drawn = True
        with ThreadPoolExecutor(_RUNS) as threads:
            for position in range(self._groups.n_places):
                yield self._draw(position, threads)
                self._expect(position, self._rest, -1.0)

    def _draw(self, position: int, threads: ThreadPoolExecutor) -> Int32:
        """Draw the jobs of a place: the draws in two runs, side by side, whatever processors there are."""
        shares, place = self._drawn_shares(position), self._place(position)
        runs = [run for run in np.array_split(np.arange(self.draws), _RUNS) if run.size]
        randoms = [np.random.default_rng([self._seeds[position], k]) for k in range(len(runs))]
        starts = [(self._concentrations(position, r), self._ties(position, r)) for r in randoms]

        def draw(k: int) -> tuple[Int32, int]:
            """Go through a run of draws."""
            (kappas, ties), run, random = starts[k], slice(int(runs[k][0]), int(runs[k][-1]) + 1), randoms[k]
            concentrations = Concentrations(
                # Beyond the grid nothing is left that a place could differ by from what is drawn of its sums.
                self.k_place if self.k_place < _GRID[-1] else np.inf,
                self.k_public, kappas, _GRID, np.log(self._chances),
            )  # fmt: skip
            layout, (table, use, begin, factor) = self._layouts[position], self._crossing
            crossing = Crossing(
                layout.start[table] + begin[:, np.newaxis], layout.which[table], layout.cell, factor[run],
                self._rest, use,
            )  # fmt: skip
            burn = _BURN if self._members[position].size > 1 else 0
            member = self._groups.member[:, self._groups.rows(position)]
            some, parts = np.ascontiguousarray(shares[run]), self._parts_of(member)
            parts = parts._replace(
                key=parts.key ^ np.uint64(run.start << 48)
            )  # other factors than the other run
            jobs, failures = draw_place(place, some, concentrations, ties, parts, crossing, burn, random)
            return jobs, int(failures)

        jobs, failures = zip(*threads.map(draw, range(len(runs))), strict=True)
        self.failures += sum(failures)
        return np.concatenate(jobs)

    def _place(self, position: int) -> Place:
        """Return what was published of a place."""
        groups, layout, members = self._groups, self._layouts[position], self._members[position]
        rows = groups.rows(position)
        cells = [self._evidence.of(slice(*self._table.offsets[g : g + 2])) for g in members]
        seen, parameter, retention = (np.stack(values) for values in zip(*cells, strict=True))
        guess = seen
        if self._evidence.kind == URN:
            size = self._table.n[members] / seen.sum(axis=1)
            guess = np.rint(seen * size[:, np.newaxis]).astype(np.int64)
        cell = self._cell[position]
        _, area = self._place_sums.cells(position) if self._several else (0, cell.astype(np.int64))
        fine = cell, layout.cuts, self._fine.units(position), area[cell]
        row_group = np.searchsorted(members, groups.member[0, rows]).astype(np.int64)
        evidence = seen, parameter, retention, guess
        return place_of(self._evidence.kind, evidence, fine, groups.n[rows], row_group)

    def domains(self) -> Domains:
        """Return the cells of all places, domain after domain in the order of places."""
        of = self._table.domains
        return Domains.of_cells(of.n_blocks, [layout.cuts for layout in self._layouts], of.policy)

    def _sums_of_places(self, prior: Prior) -> Sums:
        """Add the first table up by place, and set shares, families and the public model's concentration."""
        table, groups = self._table, self._groups
        n_of_place = np.add.reduceat(groups.n, groups.starts[:-1]).astype(np.float64)
        numbers = groups.place[groups.starts[:-1]].tolist()
        all_cuts = np.unique(np.concatenate([layout.cuts for layout in self._layouts]))
        expected = np.zeros(all_cuts.size)
        fine, cuts, stops, bands = [], [], [], []
        estimates: list[tuple[Float32, ...]] = []
        inside: list[Float64] = []
        for number, layout, end, cell, members in zip(
            numbers, self._layouts, self._ends.tolist(), self._cell, self._members, strict=True
        ):
            share = prior(number, layout.cuts)
            fine.append(share / share.sum())
            if self._areas.bands is not None:
                # That of the fine cell of which most is expected.
                order = np.lexsort((-share, cell))
                most = order[np.append(True, np.diff(cell[order]) > 0)]
                bands.append(self._areas.bands(number, layout.cuts)[most])
            cuts.append(layout.cuts[np.flatnonzero(np.append(True, np.diff(cell) > 0))])
            stops.append(np.append(cuts[-1][1:], end))
            np.add.at(expected, np.searchsorted(all_cuts, layout.cuts), table.n[members].sum() * fine[-1])
            value, variance, slope = self._evidence.unbiased(table, members)
            by_size = table.n[members] / table.n[members].sum()
            total = value.sum(axis=0), variance.sum(axis=0), by_size @ slope
            estimates.append(tuple(values.astype(np.float32) for values in total))
        # What jobs that follow no place's profile follow: homes of all places, and a part in equal shares.
        up_to = np.append(0.0, np.cumsum(expected) / expected.sum())
        common = [
            np.diff(up_to[np.searchsorted(all_cuts, np.append(layout.cuts, end))])
            for layout, end in zip(self._layouts, self._ends, strict=True)
        ]
        zone = [np.isin(layout.cuts, self._areas.outside) for layout in self._layouts]
        best, model, all_jobs = -np.inf, np.zeros(0), float(expected.sum())
        chosen = better = [_FLOORS[0], 0.0, 0.0]
        for which, settings in enumerate((_FLOORS, _SPREAD_JOBS, _ADDED_JOBS)):
            if which > 0 and not any(values.any() for values in zone):
                break
            for setting in settings:
                tried = [*chosen[:which], setting, *chosen[which + 1 :]]
                smoothed = [
                    _smoothed(share, of_all, far, all_jobs, *tried)
                    for share, of_all, far in zip(fine, common, zone, strict=True)
                ]
                coarse = np.concatenate(
                    [np.bincount(c, values) for c, values in zip(self._cell, smoothed, strict=True)]
                )
                logs = self._log_likelihoods(coarse).sum(axis=0)
                if logs.max() > best:
                    best, self.k_public, model = logs.max(), _likely(logs.tolist()), coarse
                    inside, better = smoothed, tried
            chosen = better
        del fine, common, smoothed, coarse
        value, variance, slope = (np.concatenate(values) for values in zip(*estimates, strict=True))
        place = np.repeat(np.arange(groups.n_places), np.diff(self._bounds))
        self._model = np.split(model, self._bounds[1:-1])
        for values, share, cell in zip(inside, self._model, self._cell, strict=True):
            values /= share[cell]
        self._inside = inside
        n = n_of_place[place]
        ends = np.concatenate(cuts), np.concatenate(stops)
        of_band = [Family(np.concatenate(bands), np.full(place.size, SAME), areas=True)] if bands else []
        self._set_families(place, *ends, all_cuts, of_band)
        return Sums(value, variance, slope, n * model, n, place)

    def _set_families(
        self, place: Int64, starts: Int32, stops: Int64, all_cuts: Int32, of_band: list[Family]
    ) -> None:
        """Set the families of effects, and what is drawn of fine cells that lie in one cell.

        Places, begins and ends are of the cells of all places; `all_cuts` are the begins of all fine cells.
        """
        work_area, home_area = self._areas.work_area, self._areas.home_area
        home_unit = all_cuts if self._areas.home_unit is None else self._areas.home_unit
        first, last, fine_unit = (
            np.searchsorted(home_unit, label, side="right") - 1 for label in (starts, stops - 1, all_cuts)
        )
        home = _common_homes(starts, stops, first, last, home_unit.size)
        all_homes = home_unit.size + starts.size  # more than their largest number
        self._unit = np.unique(place * home_unit.size + first, return_inverse=True)[1].astype(np.int64)
        area, fine_area = (
            np.searchsorted(home_area, label, side="right") - 1 for label in (starts, all_cuts)
        )
        outside, fine_outside = (np.isin(label, self._areas.outside) for label in (starts, all_cuts))
        all_areas = home_area.size
        homes = Homes(all_cuts, fine_unit, fine_area, fine_outside, all_homes, all_areas)
        all_places = np.arange(self._groups.n_places)
        work_unit = self._areas.work_unit
        self._work_unit = unit_of_place = all_places if work_unit is None else work_unit
        work, owner = work_area[place], unit_of_place[place]
        stratum = strata(outside, work == area)
        units = np.where(first == last, first, home)
        labels = [units] if np.array_equal(units, home) else [units, home]
        everywhere = [Family(label, strata(outside), far=label is labels[-1]) for label in labels]
        of_area = [Family(work * all_areas + area, stratum, areas=True)]
        of_area += [Family(work * all_homes + label, stratum, areas=True) for label in labels]
        of_unit = [Family(owner * all_areas + area, stratum, areas=True)]
        if self._unit[-1] + 1 < self._unit.size:
            of_unit.append(Family(owner * all_homes + units, stratum))
        of_place = [Family(np.arange(starts.size), stratum)]
        self.families = [*everywhere, *of_band, *of_area, *of_unit, *of_place]
        self._everywhere, self._shared = len(everywhere), len(everywhere) + len(of_band) + len(of_area)
        together = (
            Together(np.zeros_like(all_places), [], everywhere, everywhere[-1:], near=False),
            Together(work_area, of_area[:1], of_area[1:], of_area[-1:]),
            Together(unit_of_place, of_unit[:1], of_unit[1:], []),
            Together(all_places, [], of_place, of_place),
        )
        cuts = [layout.cuts for layout in self._layouts]
        self._fine = Inside(homes, cuts, work_area, together, self._seeds[-1], self.draws)

    def _log_likelihoods(self, profile: Float64) -> NDArray[np.float64]:
        """Return how likely every concentration of groups around the profiles of their places is.

        Shape (n_sample, n_concentrations): by group of a sample of these, large ones more often.
        """
        jobs = np.array([self._table.n[members].sum() for members in self._members])
        position = (np.arange(_SAMPLE) + 0.5) / _SAMPLE * jobs.sum()
        parts, logs = np.split(profile, self._bounds[1:-1]), []
        for i in np.unique(np.searchsorted(np.cumsum(jobs), position)).tolist():
            members = self._members[i]
            g = int(members[np.searchsorted(np.cumsum(self._table.n[members]), jobs[i] / 2)])
            logs.append(self._logs_around(g, parts[i]))
        return np.array(logs)

    def _logs_around(self, g: int, profile: Float64) -> Float64:
        """Return how likely every concentration of a group around a profile is."""
        table, seen = self._table, self._evidence
        n = int(table.n[g])
        published = *seen.of(slice(*table.offsets[g : g + 2])), profile * n, n
        return np.array([group_evidence(seen.kind, *published, kappa) for kappa in _GRID.tolist()])

    def _measure_concentrations(self, sums: Sums, effects: Effects, random: np.random.Generator) -> None:
        """Find how far places are from what is expected with effects, and groups from their places."""
        # Around a draw of the effects, not their mean, which has been fitted to the same counts.
        mean = sums.times(product(self.families, effects.last))
        if not self._several:
            alone = self._log_likelihoods(mean / sums.n)
            self.k_place = self.k_group = _likely(alone.sum(axis=0).tolist())
            self._chances = _concentration_chances(alone)
            self._around = np.split(mean / sums.n, self._bounds[1:-1])
            return
        self.k_place = _concentration(sums, mean)
        mean = sums.times(product(self.families[: self._shared], effects.last[: self._shared]))
        self._place_sums = _PlaceSums(sums.by(self._unit, mean), self._unit, self._bounds)
        jobs = np.array([self._table.n[groups].sum() * (groups.size > 1) for groups in self._members])
        position = (np.arange(_SAMPLE) + 0.5) / _SAMPLE * jobs.sum()
        logs = []
        for i in np.searchsorted(np.cumsum(jobs), position).tolist():
            members = self._members[i]
            n = self._table.n[members]
            g = int(random.choice(members, p=n / n.sum()))  # by jobs, as read
            logs.append(self._logs_around_rest(i, g))
        self.k_group = _likely(np.sum(logs, axis=0).tolist())
        self._chances = _concentration_chances(np.array(logs))

    def _logs_around_rest(self, position: int, g: int) -> Float64:
        """Return how likely every concentration of a group around what the others of its place say is.

        Around a profile that was found with its own counts a group would seem nearer to its place than it is.
        Homes are counted by area, where cells are parts of areas: groups are farther from each other there.
        """
        table, seen, members = self._table, self._evidence, self._members[position]
        sums = self._place_sums.sums
        n, jobs = int(table.n[g]), int(table.n[members].sum())
        rest = float(jobs - n)
        place, cell = self._place_sums.cells(position)
        y, v, s = (np.bincount(cell, values) for (values,) in seen.unbiased(table, np.array([g])))
        counts, priors, keep = seen.of(slice(*table.offsets[g : g + 2]))
        share = sums.expected[place] / jobs
        binomial = share * np.maximum(1 - share, 1e-3)
        noise = np.maximum(sums.variance[place] - v, 0)
        noise += np.maximum(sums.slope[place] * jobs - s / np.bincount(cell) * n, 0) * binomial
        prior = binomial / (1 + self._place_sums.k_place)
        size = ((table.n[members] ** 2).sum() - n**2) / rest
        drawn = np.bincount(cell, counts).astype(np.int64)
        parameter: Float64 = np.bincount(cell, priors * keep).astype(np.float64)
        if seen.kind != URN:
            parameter = parameter_of_variance(seen.kind, v.astype(np.float64))
        which = np.arange(v.size)
        if seen.kind == URN and (drawn == 0).any():
            # That none was drawn of several cells is as likely as of all of them as one.
            which = np.where(drawn > 0, np.cumsum(drawn > 0), 0)
            drawn = np.append(0, drawn[drawn > 0])
            parameter = np.bincount(which, parameter, drawn.size).astype(np.float64)
        published = drawn, parameter, np.ones(drawn.size)
        result = np.zeros(_GRID.size)
        for j, concentration in enumerate(_GRID.tolist()):
            chance = (binomial * rest * (size + concentration) / (1 + concentration) + noise) / rest**2
            precise = 1 / (1 / prior + 1 / chance)
            profile = precise * (share / prior + (sums.value[place] - y) / rest / chance)
            profile = np.maximum(profile, 0.01 * share)
            # What is not known of the profile makes the group vary as a smaller concentration does.
            unknown = max(float(binomial.sum() / precise.sum()) - 1, 1e-3)
            combined = 1 / (1 / concentration + 1 / unknown)
            expected = np.bincount(which, profile, drawn.size) / profile.sum() * n
            result[j] = group_evidence(seen.kind, *published, expected, n, combined)
        return result

    def _concentrations(self, position: int, random: np.random.Generator) -> Float64:
        """Draw a concentration for each group of a place in every draw, shape (n_draws, n_groups).

        Most groups are alike, but a few are far from their places: which, their own counts say. Those of
        places of several groups are drawn with their jobs, from these on.
        """
        members = self._members[position]
        if members.size > 1:
            return random.choice(_GRID, (1, members.size), p=self._chances)
        chance = self._chances
        if self._table.n[members[0]] >= _INFORMATIVE and not self._several:
            logs = np.log(chance) + self._logs_around(int(members[0]), self._around[position])
            chance = np.exp(logs - logs.max())
            chance /= chance.sum()
        drawn: Float64 = random.choice(_GRID, (self.draws, 1), p=chance)
        return drawn

    def _ties(self, position: int, random: np.random.Generator) -> Ties:
        """Return the ties of the groups of a place, as they are before anything is known."""
        members = self._members[position]
        areas = int(self._place_sums.cells(position)[1][-1]) + 1 if self._several else 0
        return ties_of(self._labels[:, members], self._table.n[members], areas, random)

    def _expected_inside(self, position: int) -> Float64:
        """Return the jobs of a place that the public model expects in each of its fine cells."""
        share = self._inside[position] * self._model[position][self._cell[position]]
        return np.asarray(share * float(self._table.n[self._members[position]].sum()))

    def _drawn_shares(self, position: int) -> Float64:
        """Return what is expected of a place in every draw, shape (n_draws, n_cells of the layout)."""
        cell = self._cell[position]
        factor = self._factor_of_sums[:, slice(*self._bounds[position : position + 2])]
        drawn: Float64 = self._model[position] * factor
        drawn /= drawn.sum(axis=1, keepdims=True)
        if cell.size == drawn.shape[1]:
            return drawn
        some = np.flatnonzero(_several(cell))
        begin = np.append(np.flatnonzero(np.append(True, np.diff(cell[some]) > 0)), some.size)
        shares: Float64 = drawn[:, cell]
        _divide(
            shares,
            some,
            begin,
            self._inside[position][some],
            self._fine.weights(position, some, self._expected_inside),
        )
        return shares

    def _parts_of(self, member: Int32) -> Parts:
        """Return the parts of a place whose sums people read, as far as they are large."""
        variances, keys = [np.zeros(1)], [np.zeros(1, np.uint64)]
        labels: list[Int64] = []
        parts = [np.zeros((0, member.shape[1]), np.int64)]
        last = 0
        for k in self._parts:
            distinct, label = np.unique(member[k], return_inverse=True)
            if distinct.size == 1 or any(np.array_equal(label, other) for other in labels):
                continue
            labels.append(label)
            large = self._sizes[k][distinct] > _PART * self.k_public
            number = np.where(large, last + np.cumsum(large), 0)
            parts.append(number[np.newaxis, label])
            last = max(last, int(number.max()))
            some = distinct[large]
            of_table = self._attributes.variances.get(k)
            variances.append(np.full(some.size, self._variance[0]) if of_table is None else of_table[some])
            keys.append(np.uint64(self._seeds[-1]) ^ (np.uint64(k << 32) + some.astype(np.uint64)))
        return Parts(np.concatenate(variances), np.concatenate(keys), np.concatenate(parts))

    def _set_crossing(
        self, tables: Sequence[Table], evidence: Sequence[Evidence], random: np.random.Generator
    ) -> None:
        """Draw factors of the tables whose groups lie in several places; note the tables that divide one."""
        groups = self._groups
        member = groups.member
        crossing, self._parts, use = [], [], []
        unit = np.repeat(self._work_unit, np.diff(groups.starts)).astype(np.int32)
        for k in range(1, len(tables)):
            sums = _is_nested(member[k], member[0])  # of groups of the first table
            if not sums and _is_nested(groups.place if k < len(evidence) else unit, member[k]):
                self._parts.append(k)
            elif _is_nested(groups.place, member[k]):
                continue
            elif k < len(evidence):
                crossing.append(k)
                use.append(STEERED)
            elif not any(_is_nested(member[k], member[j]) for j in range(1, len(evidence))):
                crossing.append(k)
                use.append(GROUP if sums else ROW)
        bounds = offsets_of(np.array([tables[k].offsets[-1] for k in crossing], np.int64))
        self._rest = np.zeros(int(bounds[-1]))
        factor = np.ones((self.draws, self._rest.size), np.float32)
        table, uses = np.array(crossing, np.int64), np.array(use, np.int64)
        self._crossing = _CrossingTables(table, uses, bounds[:-1], factor)
        for i in range(groups.n_places):
            self._expect(i, self._rest, 1.0)
        means: list[tuple[int, Float32]] = []
        for i, (k, how) in enumerate(zip(crossing, use, strict=True)):
            part = slice(*bounds[i : i + 2].tolist())
            if how == STEERED:
                # Relative to a Poisson count, sums of groups vary as a group of their mean size does.
                concentration = self.k_group * float(tables[k].n.mean() / self._table.n.mean())
                codes = self._attributes.categories.get(k, np.zeros((0, tables[k].n.size), np.int64))
                expected = np.maximum(self._rest[part], 1e-9)
                prior = evidence[k], expected, concentration, codes
                factor[:, part] = _draw_crossing(tables[k], *prior, self.draws, random)
            elif how == GROUP:
                factor[:, part] = self._effects_of_groups(tables[k], k, means, random)
                means.append((k, factor[:, part].mean(axis=0)))
            else:
                variance = self._attributes.variances.get(k, np.full(tables[k].n.size, self._variance[0]))
                _factors(np.repeat(variance, tables[k].k), random, factor[:, part])

    def _effects_of_groups(
        self, table: Table, k: int, before: list[tuple[int, Float32]], random: np.random.Generator
    ) -> Float32:
        """Draw factors of a table from the first one, whose groups divide its groups.

        The mean factors of tables before it, by number, are taken into account.
        """
        expected, value, variance, slope = (np.zeros(int(table.offsets[-1])) for _ in range(4))
        for i, layout in enumerate(self._layouts):
            rows, cell = self._groups.rows(i), self._cell[i]
            fine = self._profile[i][cell] * self._inside[i]
            member, first = np.unique(self._groups.member[0, rows], return_index=True)
            share = np.tile(fine, (member.size, 1))
            for q, mean in before:
                share *= mean[layout.start[q, first, np.newaxis] + layout.cell[layout.which[q, first]]]
            share *= (self._table.n[member] / share.sum(axis=1))[:, np.newaxis]
            estimates = self._evidence.unbiased(self._table, member)
            for which in np.unique(layout.which[k, first]).tolist():
                alike = layout.which[k, first] == which
                # What a cell tells that lies in several of this table is parted as the model has it.
                target = layout.cell[which]
                begin = np.flatnonzero(np.append(True, (np.diff(cell) > 0) | (np.diff(target) > 0)))
                of_cell, jobs = cell[begin], np.add.reduceat(share[alike], begin, axis=1)
                of_all = np.add.reduceat(jobs, np.searchsorted(of_cell, np.arange(of_cell[-1] + 1)), axis=1)
                part = jobs / np.maximum(of_all[:, of_cell], 1e-300)
                seen, noise, of_job = (values[alike][:, of_cell] for values in estimates)
                into = (layout.start[k, first[alike], np.newaxis] + target[begin]).ravel()
                for total, some in zip(
                    (expected, value, variance, slope),
                    (jobs, part * seen, part * noise, jobs * of_job),
                    strict=True,
                ):
                    np.add.at(total, into, some.ravel())
        owner = np.repeat(np.arange(table.n.size), table.k)
        n = table.n[owner].astype(np.float64)
        expected = np.maximum(expected, 1e-9)
        slope /= expected  # the mean over the parts of a cell, weighted by their jobs, as in `Sums.by`
        expected = expected * n / np.bincount(owner, expected)[owner]
        # A sum of groups has, over its expectation, the variance of a group of their mean size.
        concentration = self.k_group * float(table.n.mean() / self._table.n.mean())
        family = Family(np.arange(expected.size), np.zeros(expected.size, bool))
        sums = Sums(value, variance, slope, expected, n, owner)
        effects = draw_effects(sums, concentration, [family], self.draws, random, burn=_BURN)
        return effects.factor.astype(np.float32)

    def _expect(self, position: int, total: Float64, sign: float) -> None:
        """Add what is expected of the rows of a place to the cells of steered tables."""
        layout, n = self._layouts[position], self._groups.n[self._groups.rows(position)]
        share = self._inside[position] * self._profile[position][self._cell[position]]
        steered = self._crossing.use == STEERED
        tables = zip(self._crossing.table[steered], self._crossing.begin[steered], strict=True)
        for k, begin in tables:
            groups, first = np.unique(layout.start[k], return_index=True)
            jobs = np.bincount(np.searchsorted(groups, layout.start[k]), n)
            for start, row, size in zip(groups.tolist(), first.tolist(), jobs.tolist(), strict=True):
                cells = begin + start + layout.cell[layout.which[k, row]]
                np.add.at(total, cells, sign * size * share)


class _CrossingTables(NamedTuple):
    """Tables whose groups lie in several places: their numbers, uses, and factors in each draw."""

    table: Int64
    use: Int64
    begin: Int64  # of the cells of each
    factor: Float32


class BlockDraws:
    """Draws of the blocks of homes inside cells of which nothing more is known.

    Homes follow shares that are Dirichlet of a `shape` by block, which holds inside any run of blocks. They
    are drawn once for each draw, the same for all jobs: 8 bytes for each block.
    """

    def __init__(self, shape: Float64, draws: int, stream: WordStream) -> None:
        self._random = np.random.default_rng(int(stream.words(1)[0]))
        self._up_to = np.zeros((draws, shape.size + 1))
        for row in self._up_to:
            np.cumsum(np.maximum(self._random.standard_gamma(shape), _TINY), out=row[1:])

    def draw(self, cuts: Int32, end: int, cells: Int32) -> Int32:
        """Return a block of each cell; cells begin at `cuts`, and the last one stops at `end`."""
        first, stop = cuts[cells], np.append(cuts[1:], end)[cells]
        result = np.empty_like(cells)
        for up_to, low, high, blocks in zip(self._up_to, first, stop, result, strict=True):
            position = up_to[low] + self._random.random(low.size) * (up_to[high] - up_to[low])
            blocks[:] = np.clip(np.searchsorted(up_to, position, side="right") - 1, low, high - 1)
        return result


def _draw_crossing(
    table: Table,
    evidence: Evidence,
    expected: Float64,
    concentration: float,
    categories: Int64,
    draws: int,
    random: np.random.Generator,
) -> Float32:
    """Draw the counts of a table that crosses places, groups adding up to their public sizes."""
    value, variance, slope = evidence.unbiased(table)
    owner = np.repeat(np.arange(table.n.size), table.k)
    n = table.n[owner].astype(np.float64)
    expected = expected * n / np.bincount(owner, expected)[owner]
    none, cell = np.zeros(value.size, bool), np.arange(value.size) - np.repeat(table.offsets[:-1], table.k)
    wide = int(table.k.max())
    families = [Family(codes[owner] * wide + cell, none) for codes in categories]
    families.append(Family(np.arange(value.size), none))
    sums = Sums(value, variance, slope, expected, n, owner)
    effects = draw_effects(sums, concentration, families, draws, random)
    result = np.empty((draws, value.size), np.float32)
    for factor, drawn in zip(effects.factor, result, strict=True):
        about = sums.times(factor)
        spread = spread_of(about, n, concentration)
        x = (value * spread + about * variance) / (spread + variance)
        x += np.sqrt(spread * variance / (spread + variance)) * random.standard_normal(x.size)
        x = np.maximum(x, 0.02 * about)
        drawn[:] = x * n / np.bincount(owner, x)[owner]
    return result


def _common_homes(starts: Int32, stops: Int64, first: Int64, last: Int64, units: int) -> Int64:
    """Return which cells of all places are the same homes, by what they have in common.

    Those of one unit, which is their number, if it is cut in several ways, or not at all; else cells that
    begin and end alike, whose numbers follow those of units. A cell begins in the unit `first` and ends in
    `last`.
    """
    ends, home = np.unique((starts.astype(np.int64) << 32) + stops, return_inverse=True)
    begin, end = ends >> 32, ends & (2**32 - 1)
    unit = np.empty(ends.size, np.int64)
    unit[home] = np.where(first == last, first, -1)
    inside = np.flatnonzero(unit >= 0)
    of = unit[inside]
    cut = np.bincount(of, minlength=units) > 1
    over = (of[1:] == of[:-1]) & (begin[inside][1:] < end[inside][:-1])
    cut[of[1:][over]] = False
    label = units + np.arange(ends.size)
    label[inside] = np.where(cut[of], label[inside], of)
    return np.asarray(label[home])


def _is_nested(label: Int32, of: Int32) -> bool:
    """Say whether rows that agree in `of` agree in `label`."""
    return bool(np.unique(np.stack([of, label]), axis=1).shape[1] == np.unique(of).size)


def _concentration(sums: Sums, mean: Float64) -> float:
    """Return how near places are to these means of their sums."""
    off, noise, logs = (sums.value - mean) ** 2, sums.noise(mean), []
    for concentration in _GRID.tolist():
        spread = spread_of(mean, sums.n, concentration) + noise
        logs.append(float(-0.5 * (np.log(spread) + off / spread).sum()))
    return _likely(logs)


def _likely(logs: list[float]) -> float:
    """Return the smallest concentration of the grid that is not much less likely than the best."""
    best = max(logs)
    return float(_GRID[next(i for i, log in enumerate(logs) if log > best - _TOLERANCE)])


def _smoothed(
    share: Float64,
    of_all: Float64,
    far: NDArray[np.bool_],
    all_jobs: float,
    floor: float,
    spread: float,
    unasked: float,
) -> Float64:
    """Return the homes of a place as the public model has them, made smoother.

    `share` and `of_all` are of the place's jobs and of all jobs in its cells; `far` are zones outside the
    region; the rest are as of `_FLOORS`, `_SPREAD_JOBS` and `_ADDED_JOBS`.
    """
    local, jobs = share.copy(), of_all[far] * all_jobs
    local[far] = (share[far] * jobs + of_all[far] * spread) / np.maximum(jobs + spread, _TINY)
    local[far] += unasked / all_jobs
    common = of_all / np.maximum(of_all.sum(), _TINY) + _EQUAL / local.size
    mixed: Float64 = (1 - floor) * local / local.sum() + floor * common / common.sum()
    return mixed


def _concentration_chances(logs: Float64) -> Float64:
    """Return the chances of the concentrations of the grid that make a sample of groups likely.

    Each concentration has a small chance, as groups that are far from their place are rare, and read.
    """
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    chances = np.full(_GRID.size, 1 / _GRID.size)
    for _ in range(200):
        part = likely * chances
        total = (part / part.sum(axis=1, keepdims=True)).sum(axis=0) + _RARE
        chances = total / total.sum()
    return chances


def _factors(variance: Float64, random: np.random.Generator, result: Float32) -> None:
    """Draw factors of mean 1 and of these relative variances into a result of shape (n_draws, n)."""
    shape = 1 / np.maximum(variance, 1e-6)
    for row in result:
        row[:] = np.maximum(random.standard_gamma(shape) / shape, 1e-3)


def _several(cell: Int32) -> NDArray[np.bool_]:
    """Say of fine cells whether their cell has others."""
    return np.asarray((np.bincount(cell) > 1)[cell])


@_compiled
def _divide(shares, some, begin, inside, weight):  # type: ignore[no-untyped-def]
    """Give fine cells their parts of the share of their cell, which all of them have."""
    for d in range(shares.shape[0]):
        for c in range(begin.size - 1):
            total = 0.0
            for i in range(begin[c], begin[c + 1]):
                total += inside[i] * max(weight[d, i], 1e-30)
            for i in range(begin[c], begin[c + 1]):
                shares[d, some[i]] *= inside[i] * max(weight[d, i], 1e-30) / total


class _PlaceSums:
    """Sums of places by home area, and the concentration of places around what is expected of them."""

    def __init__(self, sums: Sums, unit: Int64, bounds: Int64) -> None:
        self.sums, self._unit, self._bounds = sums, unit, bounds
        self.k_place = _concentration(sums, sums.expected)
        self._first = np.searchsorted(sums.owner, np.arange(bounds.size))

    def cells(self, position: int) -> tuple[slice, Int64]:
        """Return where the sums of a place are, and which of them each of its cells is part of."""
        begin, end = self._first[position : position + 2].tolist()
        return slice(begin, end), self._unit[self._bounds[position] : self._bounds[position + 1]] - begin
