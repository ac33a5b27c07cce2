"""Proxy truth: homes drawn from the public model, on which a plan can be tried without confidential data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import NDArray

from geo_data import _kernels
from geo_data.geography import Geography
from geo_data.gravity import Decay
from geo_data.jobs import AttributeCodes, Slots, count_categories, inside_share, narrow
from geo_data.model import Deviation, PublicModel
from synth.arrays import search_segments
from synth.block_sampling import cumulative_weights
from synth.policy import Policy

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_AT_A_TIME = 64  # destinations whose shares are held at once
_ROUNDS = 10  # of exchanges of homes; more change no table by more than another seed does
_MORE, _POWER = 1.1, 3.6  # of the variance of categories, so that residents of Rhode Island differ as they do
_OF_AREAS = 4.0  # so many times are areas nearer to all jobs than units are to their area, as in Rhode Island
_OF_BLOCKS, _BETWEEN_AREAS = Deviation(0.13, 2500.0), Deviation(0.03, 200.0)
_HALF = 1 / 8  # of the variance of residents: part of a half of an area, of a half of that, and so on
_FEW_TIMES = 8  # so many keys for each entry are looked up in a table of all; of more, entries are sorted
_MANY = 64  # jobs of a group of which the shares are drawn, not only the jobs
_OFF_LISTED, _OFF_UNITS = 0.1, 0.2  # relative errors of public numbers of jobs, in `proxy_workplaces`
_OF_UNKNOWN = 40.0  # `attribute_concentrations` gives 37 for earnings in Rhode Island
_LARGEST = (
    400.0  # concentration: residents differ, also where jobs do not, as those of Rhode Island by industry
)


@dataclass(frozen=True)
class Assumptions:
    """What no public table tells of homes; by default as Rhode Island has it (benchmarks/deviations.py)."""

    blocks: Deviation = _OF_BLOCKS  # of the shares of a work block from those of its unit
    # of the shares of a destination in areas of the level above, from those of the model
    areas: Deviation = _BETWEEN_AREAS
    # C, >= 0: what one year has by itself is a variable of the relative variance C e^-0.75 where e workers
    # are expected, as workers of an employer come from the same place. So the variance of counts is a power
    # of their mean, as Taylor (1961) found of animals.
    clumps: float = 0.6
    # Relative variance, > 0, of the residents of a unit around what the model expects, for all destinations
    # in common. An eighth of it is of the half of the area in which the unit lies, another of the half of
    # that, and so on to the unit, and the rest is the area's: neighbours are alike.
    residents: float = 0.0125
    homes: float = 32.0  # concentration, > 0, of the homes of a unit around the public weights of its blocks
    # the same around those of its units of the next finer level, where one lies between it and the block:
    # they differ more than so many blocks that have nothing in common would
    finer: float = 20.0
    # Share of workers who may live anywhere, by public weight alone: where a model of flows expects next to
    # nobody there are some.
    anywhere: float = 0.01
    # How the shares of a model that knows of no flow fall with distance, and how many times as many live
    # where they work.
    decay: Decay | None = None
    at_home: float = 1.0


_UNTOLD = Assumptions(residents=0.03, decay=Decay(1.6, 4.0), at_home=2.0)
"""Where no table tells of flows: about as Rhode Island and Leeds are."""


def proxy_homes(
    model: PublicModel,
    work: NDArray[np.int32],
    seed: int,
    attributes: Mapping[str, AttributeCodes] | None = None,
    concentrations: Mapping[str, float] | None = None,
    assumed: Assumptions | None = None,
) -> NDArray[np.int32]:
    """Draw a home for every job under the public model, as far from it as destinations are.

    The shares of a destination unit deviate from the model's (`geo_data.model.Deviation`): those of areas
    of the level above, and those of the units in an area as the finest table shows, the less the more
    workers of a pair the table asked; all destinations have in common that some neighbourhoods have more
    residents than the model expects. Shares of a unit's work blocks deviate from the unit's, and homes are
    draws from the block's. Where no table tells of flows, shares fall with distance besides, and more live
    where they work than weights say. Inside a home unit they follow shares of units of the next finer
    level, and of the blocks in these, that are Dirichlet around the public weights, the same for all
    destinations.

    The public model knows nothing of attributes. So that a plan is not tried on homes that have nothing to
    do with them, the jobs of a work block then exchange homes: who lives in unit u and works in unit d has
    category c with odds in proportion to a profile of the pair, drawn from a Dirichlet around one of u,
    which is drawn around one of its area, and this around the shares of all jobs; the larger
    `concentrations`, by attribute, the more alike (`attribute_concentrations`). The tables of homes and
    work blocks stay as they are. Nothing confidential is drawn, so the generator is an ordinary one.
    """
    if assumed is None:
        assumed = Assumptions() if model.tables else _UNTOLD
    generator = np.random.default_rng(seed)
    order = np.argsort(work, kind="stable")
    unit_of_job = model.units(work[order])
    units, first = np.unique(unit_of_job, return_index=True)
    last = np.append(first[1:], work.size)
    begins = np.flatnonzero(np.diff(work[order], prepend=-1))
    ends = np.append(begins[1:], work.size)
    area = model.areas
    residents = _neighbourhoods(area, assumed.residents, generator) * _home_totals(model, assumed)
    # How likely two jobs of a unit are of one block: so much of what blocks deviate is left in the unit.
    alike = np.add.reduceat((ends - begins) ** 2.0, np.searchsorted(begins, first)) / (last - first) ** 2.0
    home_units = np.empty(work.size, np.int64)
    for start in range(0, units.size, _AT_A_TIME):
        batch = slice(start, start + _AT_A_TIME)
        shares, variances = _deviations(model, units[batch], alike[batch], assumed)
        shares *= residents
        factored = (
            shares * _factors(generator, 1 / variances[0])[:, area] * _factors(generator, 1 / variances[1])
        )
        total = factored.sum(axis=1, keepdims=True)
        factored = np.where(total > 0, factored, shares)  # those of tiny shapes may all underflow
        factored /= factored.sum(axis=1, keepdims=True)
        rows = slice(*np.searchsorted(begins, [first[batch][0], last[batch][-1]]))
        _draw_alike(
            factored,
            np.cumsum(factored, axis=1),
            np.stack(
                [np.searchsorted(units[batch], unit_of_job[begins[rows]]), begins[rows], ends[rows]], axis=1
            ),
            assumed.blocks.common,
            1 / assumed.blocks.concentration,
            generator,
            home_units,
        )
    homes = np.empty(work.size, np.int32)
    homes[order] = _blocks(model, home_units, assumed, generator)
    if attributes and concentrations:
        _exchange(model, work, homes, attributes, concentrations, np.random.default_rng([seed, 1]))
    return homes


def _neighbourhoods(area: Int64, variance: float, generator: np.random.Generator) -> Float64:
    """Draw what units have in common with their area, with its half, and so on: a factor of each unit."""
    first = np.flatnonzero(np.diff(area, prepend=-1))
    size = np.diff(np.append(first, area.size))
    place, whole = np.arange(area.size) - np.repeat(first, size), np.repeat(size, size)
    halvings = np.ceil(np.log2(whole))
    result = np.ones(area.size)
    for depth in range(int(halvings.max()) + 1):
        part = _HALF * (depth <= halvings) if depth else np.maximum(1 - _HALF * halvings, 0)
        group = area * area.size * 2 + place * 2**depth // whole
        _, first_of_group, group_of_unit = np.unique(group, return_index=True, return_inverse=True)
        result *= _factors(generator, 1 / np.maximum(variance * part[first_of_group], 1e-12))[group_of_unit]
    return result


def _deviations(
    model: PublicModel, units: NDArray[np.int32], alike: Float64, assumed: Assumptions
) -> tuple[Float64, tuple[Float64, Float64]]:
    """Return shares of the model, and the relative variances of those of areas, and of units in their area.

    `alike` says how likely two jobs of a destination are of one work block. Variances have the shapes (g,
    areas) and (g, n_units), and are infinite where the share is 0.
    """
    shares, sampled, jobs = (
        _shares(model, units, assumed),
        model.sampled(units),
        np.maximum(model.jobs[units, None], 1),
    )
    area = model.areas
    first = np.flatnonzero(np.diff(area, prepend=-1))
    of_area, sampled_in_area = (_kernels.added_up(values, first) for values in (shares, sampled))
    sampled_in_area[np.count_nonzero(sampled_in_area, axis=1) < 2] = (
        0  # a row inside one area says nothing of who lives elsewhere
    )
    of_areas = assumed.areas.left(of_area, sampled_in_area, _clumps(assumed, of_area * jobs))
    with np.errstate(divide="ignore"):
        of_blocks = alike[:, None] / assumed.blocks.shape(shares)
    clumps = np.maximum(_clumps(assumed, shares * jobs) - of_blocks, 0)
    inside = shares / np.maximum(of_area, np.finfo(float).tiny)[:, area]
    return shares, (of_areas, model.deviation.left(inside, sampled, clumps))


def _shares(model: PublicModel, units: NDArray[np.int32], assumed: Assumptions) -> Float64:
    """Return the shares of the model, with what is assumed beside them for all destinations alike."""
    shares = model.shares(units)
    if assumed.decay is not None:
        shares = shares * assumed.decay.pull(model.distance_km(units))
        shares[np.arange(units.size), units] *= assumed.at_home
        shares /= shares.sum(axis=1, keepdims=True)
    weight = np.add.reduceat(model.weights, model.geography.starts(model.level).astype(np.int64))
    return np.asarray((1 - assumed.anywhere) * shares + assumed.anywhere * weight / weight.sum())


def _home_totals(model: PublicModel, assumed: Assumptions) -> Float64:
    """Return factors of units with which about as many live there as the model says, for all its decay.

    Without them, neighbourhoods would be the fuller the nearer they are to jobs, which public weights tell.
    """
    if assumed.decay is None:
        return np.ones(model.n_units)
    expected, drawn = np.zeros(model.n_units), np.zeros(model.n_units)
    for start in range(0, model.n_units, _AT_A_TIME):
        units = np.arange(start, min(start + _AT_A_TIME, model.n_units), dtype=np.int32)
        jobs = model.jobs[units, None]
        expected += (jobs * model.shares(units)).sum(axis=0)
        drawn += (jobs * _shares(model, units, assumed)).sum(axis=0)
    return expected / np.maximum(drawn, np.finfo(float).tiny)


def _clumps(assumed: Assumptions, expected: Float64) -> Float64:
    root = np.sqrt(np.maximum(expected, 1e-9))
    return np.asarray(assumed.clumps / (root * np.sqrt(root)))


def _homes_in_parts(
    model: PublicModel,
    work: NDArray[np.int32],
    homes: NDArray[np.int32],
    part: NDArray[np.int32],
    policy: Policy,
    seed: int,
) -> NDArray[np.int32]:
    """Give every job a home in its part: that of `proxy_homes`, or another one where that is elsewhere.

    It is that of a job of the same destination unit, if one has a home in that part; else of any job; else a
    block by public weight.
    """
    if policy.n_parts == 1:
        return homes
    drawn = policy.part(homes)
    generator, wrong = np.random.default_rng([seed, 2]), np.flatnonzero(drawn != part)
    homes, right = homes.copy(), homes
    for unit in (model.units(work).astype(np.int64), np.zeros(work.size, np.int64)):
        key = unit * policy.n_parts + drawn
        order = np.argsort(key, kind="stable")
        target_key = unit[wrong] * policy.n_parts + part[wrong]
        ordered = key[order]
        low, high = (np.searchsorted(ordered, target_key, side=side) for side in ("left", "right"))
        some = high > low
        homes[wrong[some]] = right[order[generator.integers(low[some], high[some])]]
        wrong = wrong[~some]
    running = cumulative_weights(model.weights)
    ends = policy.ends(model.geography.n_blocks)
    low, high = running[policy.parts[part[wrong]]], running[ends[part[wrong]]]
    homes[wrong] = np.searchsorted(running, generator.integers(low, high), side="right") - 1
    return homes


def proxy_origins(
    model: PublicModel,
    work: NDArray[np.int32],
    part: NDArray[np.int32],
    policy: Policy,
    seed: int,
    attributes: Mapping[str, AttributeCodes],
    concentrations: Mapping[str, float],
) -> NDArray[np.int32]:
    """Draw a home for every job, in the part of homes that a policy makes public."""
    homes = proxy_homes(model, work, seed, attributes, concentrations)
    return _homes_in_parts(model, work, homes, part, policy, seed)


def attribute_concentrations(
    geography: Geography, level: str, slots: Slots, unknown: Iterable[str] = ()
) -> dict[str, float]:
    """Say how much the categories of residents are taken to differ between units, from public slots.

    As much as those of jobs differ between work units, but for what is a matter of the workplace: where all
    jobs of a work block are of one industry, units differ by industry because their work blocks do, which
    says little of where workers live. So deviations count by a power of the part that varies inside work
    blocks (`inside_share`), with which residents of Rhode Island differ as they do. Of a unit's jobs, those
    of a category are taken to be drawn from shares that are Dirichlet around the shares of all jobs.

    The larger the concentration of an attribute, the more alike units are. Of `unknown` attributes slots tell
    nothing: units are taken to differ by them about as residents of Rhode Island do by earnings.
    """
    concentrations = dict.fromkeys(unknown, _OF_UNKNOWN)
    alike, times = slots.counted()
    unit = geography.unit_of(level, alike.work)
    for name in filter(lambda name: name not in concentrations, slots.categories):
        counts, n, share = count_categories(alike, times, name, unit)
        spread = float((share * (1 - share)).sum())
        # Squares of Dirichlet-multinomial counts are sum n p (1 - p) (n + c) / (1 + c), c the concentration.
        square = float(((counts - n[:, None] * share) ** 2).sum())
        least, most = spread * n.sum(), spread * (n**2).sum()
        between = max(0.0, (square - least) / (most - least)) if most > least else 0.0  # 1 / (1 + c)
        between *= _MORE * inside_share(slots, name) ** _POWER
        concentrations[name] = float(np.clip(1 / max(between, 1 / _LARGEST) - 1, 0.1, _LARGEST))
    return concentrations


def proxy_workplaces(
    slots: Slots, unit: NDArray[np.integer], seed: int, *, listed: bool, concentration: float = _OF_UNKNOWN
) -> Slots:
    """Return jobs as they might be where slots are only expected: a Poisson number of each kind.

    Parameters
    ----------
    slots : Slots
    unit : ndarray of int, shape (n_blocks,)
        Unit of each block.
    seed : int
    listed : bool
        Slots are of a public table, which every number is off by about a tenth. Else they are of totals of
        units, which are off by about a fifth, and categories of a unit are Dirichlet around its own.
    concentration : float
        Of that.
    """
    generator = np.random.default_rng([seed, len(slots)])
    alike, times = slots.counted()
    if listed:
        expected = times * generator.gamma(1 / _OFF_LISTED**2, _OFF_LISTED**2, times.size)
    else:
        of_unit = unit[alike.work]
        expected = times * generator.gamma(1 / _OFF_UNITS**2, _OFF_UNITS**2, unit.max() + 1)[of_unit]
        for name, values in slots.categories.items():
            shape = concentration / len(values)
            profile = generator.gamma(shape, 1 / shape, (unit.max() + 1, len(values)))
            expected *= (profile / profile.mean(axis=1, keepdims=True))[of_unit, alike.attributes[name]]
    counts = generator.poisson(expected)
    counts[0] += not counts.any()
    return alike.repeat(counts)


def variance_of_workplaces(widths: Iterable[int], *, listed: bool) -> float:
    """Return the relative variance in `proxy_workplaces` of jobs by attributes of so many categories."""
    return _OFF_LISTED**2 if listed else _OFF_UNITS**2 + sum(widths) / _OF_UNKNOWN


def proxy_categories(
    slots: Slots,
    names: Sequence[str],
    unit: NDArray[np.integer],
    seed: int,
    concentration: float = _OF_UNKNOWN,
) -> Slots:
    """Return the same jobs with other categories of some attributes, drawn from shares of each unit.

    Shares are Dirichlet around those of all jobs. Other parameters are those of `proxy_workplaces`.
    """
    generator = np.random.default_rng([seed, len(slots)])
    of_job = unit[slots.work]
    attributes = dict(slots.attributes)
    for name in names:
        share = np.bincount(attributes[name], minlength=len(slots.categories[name])) / len(slots)
        profile = generator.gamma(concentration * share + 1e-9, size=(unit.max() + 1, share.size))
        ends = np.cumsum(profile, axis=1) / profile.sum(axis=1, keepdims=True)
        place = generator.random(len(slots))[:, np.newaxis]
        codes = np.minimum((place >= ends[of_job]).sum(axis=1), share.size - 1)
        attributes[name] = narrow(codes, share.size)
    return replace(slots, attributes=attributes).sorted()


def _exchange(
    model: PublicModel,
    work: NDArray[np.int32],
    homes: NDArray[np.int32],
    attributes: Mapping[str, AttributeCodes],
    concentrations: Mapping[str, float],
    generator: np.random.Generator,
) -> None:
    """Let pairs of jobs of a work block exchange homes, until homes are as likely as profiles make them.

    Each exchange has the odds of its outcome (Barker 1965), so the homes of a block come to be a draw of all
    ways to give them to its jobs, each as likely as the product of their odds.
    """
    home_unit = model.units(homes).astype(np.int64)
    pairs, unit = _numbered(model.units(work) * np.int64(model.n_units) + home_unit, model.n_units**2)
    odds, columns, wide, area = [], [], 0, model.areas
    for name, codes in attributes.items():
        share = np.maximum(np.bincount(codes) / max(1, codes.size), 1e-9)
        profile = np.broadcast_to(share, (int(area.max()) + 1, share.size))
        profile = _profiles(generator, _OF_AREAS * concentrations[name], profile)
        for index in (area, pairs % model.n_units):
            profile = _profiles(generator, concentrations[name], profile[index])
        odds.append(np.log(profile / share))
        columns.append(codes + np.int64(wide))
        wide += share.size
    order = np.argsort(work, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(work[order])) + 1, work.size)
    _exchange_pairs(np.hstack(odds), np.stack(columns, axis=1), order, ends, unit, homes, generator)


def _numbered(keys: Int64, most: int) -> tuple[Int64, Int64]:
    """Return the keys that occur, all below a number, in order; and the number of each entry's."""
    if most > _FEW_TIMES * keys.size:
        return np.unique(keys, return_inverse=True)
    occurs = np.zeros(most, bool)
    occurs[keys] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1).take(keys)


@numba.njit(cache=True, nogil=True)
def _exchange_pairs(
    odds: Float64,
    columns: Int64,
    order: Int64,
    ends: Int64,
    unit: Int64,
    homes: NDArray[np.int32],
    generator: np.random.Generator,
) -> None:
    """Exchange homes of pairs of jobs, in rounds in each of which a job is in one pair at most.

    `odds` are logarithms, by pair of units and category; `columns` has the categories of each job. `order`
    has the jobs, group after group, which end at `ends`; it is shuffled inside groups. Exchanged are
    `unit`, the pair of units, and `homes` of each job.
    """
    begin = 0
    for end in ends:
        for _ in range(_ROUNDS if end - begin > 1 else 0):
            for k in range(end - 1, begin, -1):
                other = begin + int(generator.random() * (k - begin + 1))
                order[k], order[other] = order[other], order[k]
            for k in range(begin, end - 1, 2):
                i, j = order[k], order[k + 1]
                gain = 0.0
                for a in range(columns.shape[1]):
                    gain += odds[unit[j], columns[i, a]] + odds[unit[i], columns[j, a]]
                    gain -= odds[unit[i], columns[i, a]] + odds[unit[j], columns[j, a]]
                if generator.random() * (1.0 + np.exp(-min(max(gain, -500.0), 500.0))) < 1.0:
                    homes[i], homes[j] = homes[j], homes[i]
                    unit[i], unit[j] = unit[j], unit[i]
        begin = end


def _profiles(generator: np.random.Generator, concentration: float, around: Float64) -> Float64:
    """Draw shares from a Dirichlet around the shares of each row; none is 0."""
    drawn = np.maximum(generator.standard_gamma(concentration * around), 1e-12)
    shares: Float64 = drawn / drawn.sum(axis=1, keepdims=True)
    return shares


def _blocks(
    model: PublicModel, home_units: NDArray[np.int64], assumed: Assumptions, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a block of each unit, by shares that are Dirichlet around those of the public weights."""
    geography, level = model.geography, model.level
    starts = geography.starts(level).astype(np.int64)
    ends = np.append(starts[1:], geography.n_blocks)

    def around(weights: Int64, first: Int64, concentration: float) -> Float64:
        total = np.maximum(np.add.reduceat(weights, first), 1)
        shape = concentration * weights / np.repeat(total, np.diff(np.append(first, weights.size)))
        return np.maximum(generator.standard_gamma(shape), np.finfo(float).tiny) * (weights > 0)

    weight = around(model.weights, starts, assumed.homes)
    levels = [*geography.levels, geography.block_level]
    between = levels[levels.index(level) + 1 : -1]
    if between:
        first = geography.starts(between[0]).astype(np.int64)
        of_finer = around(
            np.add.reduceat(model.weights, first), np.searchsorted(first, starts), assumed.finer
        )
        part = of_finer / np.maximum(np.add.reduceat(weight, first), np.finfo(float).tiny)
        weight *= np.repeat(part, np.diff(np.append(first, weight.size)))
    running = np.append(0, np.cumsum(weight))
    first, stop = starts[home_units], ends[home_units]
    before, after = running[first], running[stop]
    drawn = before + generator.random(home_units.size) * (after - before)
    return search_segments(running, drawn, first, stop).astype(np.int32)


def _factors(generator: np.random.Generator, shape: Float64) -> Float64:
    """Draw lognormal variables of mean 1 and variance 1 / shape; of shape 0, 0."""
    variance = np.log1p(1 / np.where(shape > 0, shape, 1))
    normal = generator.standard_normal(shape.shape)
    return np.where(shape > 0, np.exp(np.sqrt(variance) * normal - variance / 2), 0.0)


@numba.njit(cache=True, nogil=True)
def _draw_alike(
    shares: Float64,
    running: Float64,
    groups: Int64,
    common: float,
    inverse: float,
    generator: np.random.Generator,
    drawn: Int64,
) -> None:
    """Draw origins of the jobs of groups, each from shares of its own that deviate from those of a row.

    A gamma variable of mean 1 and variance v that made x of i s expected jobs has the mean (1 + v x) / (1 +
    v i s): so after i jobs, x of them in u, the next is in u in proportion to s (1 + v x) / (1 + v i s),
    with v s = common s + inverse. With common = 0 that is Polya's urn (Blackwell and MacQueen 1973). An
    origin is proposed by s, or copied from an earlier job by its v s, and taken with the probability (1 + i
    inverse) / (1 + v i s). Of a large group, where that would seldom be, all gamma variables are drawn.

    `shares`, s, and `running`, their sums, have a row for each destination; `groups`, shape (n, 3), has the
    row of each group, its first job, and that after its last. `drawn` is filled for their jobs.
    """
    for row, begin, end in groups:
        row_shares, ladder, size = shares[row], running[row], end - begin
        if size > _MANY:
            ladder = np.empty(row_shares.size)
            total = 0.0
            for u in range(row_shares.size):
                variance = common * row_shares[u] + inverse  # times the share
                if row_shares[u] > 0.0 and variance > 0.0:
                    total += generator.standard_gamma(row_shares[u] / variance) * variance
                elif variance == 0.0:
                    total += row_shares[u]
                ladder[u] = total
            if total > 0.0:
                for i in range(size):
                    index = np.searchsorted(ladder, generator.random() * total, side="right")
                    drawn[begin + i] = min(index, row_shares.size - 1)
                continue
            ladder = running[row]
        weight, most = 0.0, 0.0  # of all earlier jobs together, and the most of one
        for i in range(size):
            while True:
                if generator.random() * (1.0 + weight) < 1.0:
                    proposed = np.searchsorted(ladder, generator.random() * ladder[-1], side="right")
                    u = min(proposed, row_shares.size - 1)
                else:
                    u = drawn[begin + int(generator.random() * i)]
                    while generator.random() * most >= common * row_shares[u] + inverse:
                        u = drawn[begin + int(generator.random() * i)]
                copied = common * row_shares[u] + inverse
                if generator.random() * (1.0 + i * copied) < 1.0 + i * inverse:
                    break
            drawn[begin + i] = u
            weight += copied
            most = max(most, copied)
