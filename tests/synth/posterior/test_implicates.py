"""Posterior draws against enumeration, and intervals of them against truths drawn from the model and not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import load
from synth.arrays import offsets_of
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Table
from synth.posterior._gamma import gamma, log_rising
from synth.posterior.effects import (
    _MEANS,
    _SCALES,
    OTHER,
    OUTSIDE,
    SAME,
    Family,
    Likelihood,
    Sums,
    _draw_next,
    _which_given,
    draw_effects,
)
from synth.posterior.evidence import (
    GAUSSIAN,
    GEOMETRIC,
    URN,
    Counts,
    Evidence,
    draw_counts,
    group_evidence,
    scratch_for,
)
from synth.posterior.implicates import Areas, Attributes, BlockDraws, Implicates, Published, _common_homes
from synth.posterior.intervals import quantiles
from synth.posterior.placing import GROUP, Concentrations, Crossing, Parts, draw_place, place_of
from synth.posterior.ties import SHAPES, Ties, draw_factors, ties_of
from synth.randomness import RunKey

from ..measured_reference import measure

held_by_lot: Any = load("benchmarks/by_lot.py").held_by_lot


def log_weight(kind: int, x: int, seen: int, par: float, keep: float, shape: float, z: float) -> float:
    """The logarithm of prior times likelihood, term by term."""
    value = math.lgamma(shape + x) - math.lgamma(shape) - math.lgamma(x + 1) + x * math.log(z)
    if kind == GEOMETRIC:
        return value + abs(seen - x) * math.log(par)
    if kind == GAUSSIAN:
        return value + (seen - x) ** 2 * par
    value += math.lgamma(x + par + seen) - math.lgamma(x + par)
    return value + (math.log(keep) if x == 0 and seen > 0 else 0.0)


CASES = [
    (GEOMETRIC, [3, -1, 0, 2], [0.3] * 4, [1.0] * 4, [0.8, 0.1, 0.02, 2.0], 5),
    (GEOMETRIC, [9, 9, -9], [0.9] * 3, [1.0] * 3, [1e-6, 3.0, 0.5], 6),
    (GAUSSIAN, [3, -1, 0, 2], [-0.5] * 4, [1.0] * 4, [0.8, 0.1, 0.02, 2.0], 5),
    (GAUSSIAN, [9, 9, -9], [-0.02] * 3, [1.0] * 3, [1e-6, 3.0, 0.5], 6),
    (GAUSSIAN, [4, 1], [-40.0] * 2, [1.0] * 2, [1e-6, 3.0], 5),
    (URN, [3, 0, 1, 2], [0.05] * 4, [1.0] * 4, [0.8, 0.1, 0.02, 2.0], 6),
    (URN, [2, 0, 3], [0.4, 0.4, 0.01], [0.5, 0.5, 0.5], [0.8, 1.1, 0.3], 5),
]


@pytest.mark.parametrize("case", CASES)
def test_counts_are_drawn_from_the_posterior_given_their_sum(case: tuple) -> None:
    kind, seen, par, keep, shape, n = case
    k, z = len(seen), 0.4
    exact = {}
    for x in itertools.product(range(n + 1), repeat=k):
        if sum(x) == n:
            cells = zip(x, seen, par, keep, shape, strict=True)
            exact[x] = math.exp(sum(log_weight(kind, *cell, z) for cell in cells))
    total = sum(exact.values())
    arrays = np.array(seen), np.array(par), np.array(keep), np.array(shape)
    cells, room = Counts(kind, *arrays, np.array(seen)), scratch_for(k, n)
    random, counts, tilt = np.random.default_rng(1), np.empty(k, np.int64), 0.0
    draws, found = 10_000, dict.fromkeys(exact, 0)
    for _ in range(draws):
        done, tilt, room = draw_counts(cells, z, n, tilt, room, random, counts)
        assert done
        found[tuple(counts.tolist())] += 1
    for x, weight in exact.items():
        chance = weight / total
        assert abs(found[x] - draws * chance) < 5 * math.sqrt(draws * chance) + 3, x


@pytest.mark.parametrize("case", CASES)
def test_the_evidence_of_a_concentration_is_the_sum_over_all_counts(case: tuple) -> None:
    kind, seen, par, keep, shape, n = case
    expected = np.array(shape) / sum(shape) * n
    weight = n + sum(p * r for p, r in zip(par, keep, strict=True))
    rest = weight / (weight + sum(seen)) if kind == URN else 1.0
    values = []
    for concentration in (1.0, 8.0):
        z, value = n / (n + concentration), 0.0
        for y, p, r, e in zip(seen, par, keep, expected, strict=True):
            a = concentration * max(e / n, 1e-9)
            terms = (math.exp(log_weight(kind, x, y, p, r, a, z * rest)) for x in range(n + 1))
            value += a * math.log(1 - z) + math.log(sum(terms))
        values.append(value)
        arrays = np.array(seen), np.array(par), np.array(keep), expected
        assert group_evidence(kind, *arrays, n, concentration) == pytest.approx(value, abs=1e-8)
    assert values[0] != pytest.approx(values[1], abs=0.01)


def test_effects_are_the_ratios_of_sums_that_are_known() -> None:
    random = np.random.default_rng(2)
    label = np.repeat(np.arange(16), 50)
    stratum = np.where(label >= 8, OUTSIDE, SAME)  # of which less is known beforehand: a scale of its own
    factor = np.exp(np.where(np.arange(16) < 8, 0.1, 0.8) * random.standard_normal(16))[label]
    expected = np.full(800, 50.0)
    n = np.full(800, 800 * 50.0)
    value = expected * factor
    value *= n[0] / value.sum()
    sums = Sums(value, np.full(800, 2.0), np.zeros(800), expected, n, np.zeros(800, np.int64))
    family = Family(label, stratum)
    effects = draw_effects(sums, 1e5, [family, Family(np.arange(800), stratum)], 200, random)
    drawn = np.stack([np.bincount(label, sums.times(one)) for one in effects.factor])
    assert drawn.mean(axis=0) / drawn.mean() == pytest.approx(value[::50] / value.mean(), rel=0.05)
    inside, _, beyond = family.scale
    assert 2 * inside < beyond


BLOCKS, PLACES, AREAS = 40, 30, 5


def domains_of(cuts: NDArray[np.int32]) -> Domains:
    """One domain, for all groups."""
    return Domains(BLOCKS, np.array([0, cuts.size]), cuts, np.zeros(cuts.size, np.uint8))


HOMES = domains_of(np.arange(BLOCKS, dtype=np.int32))


def untied(groups: int) -> Ties:
    """Groups of a place that agree in nothing."""
    none, n = np.zeros((0, groups), np.int64), np.ones(groups, np.int64)
    return ties_of(none, n, 0, np.random.default_rng(0))


def whole(rows: int) -> Parts:
    """Rows of a place that are in no part of it."""
    return Parts(np.zeros(1), np.zeros(1, np.uint64), np.zeros((0, rows), np.int64))


def test_urns_give_cells_that_nothing_was_drawn_of_the_homes_that_enumeration_does() -> None:
    seen, par, keep = np.array([0, 3, 0, 1, 0]), np.array([0.3, 0.3, 0.1, 0.1, 0.5]), np.full(5, 0.8)
    shape, n, draws = np.array([0.4, 0.8, 0.1, 0.3, 1.2]), 4, 20_000
    exact = np.zeros((5, n + 1))
    for x in itertools.product(range(n + 1), repeat=5):
        if sum(x) == n:
            cells = zip(x, seen, par, keep, shape, strict=True)
            chance = math.exp(sum(log_weight(URN, *cell, 0.5) for cell in cells))
            for c, count in enumerate(x):
                exact[c, count] += chance
    exact /= exact.sum(axis=1, keepdims=True)
    kappa = shape.sum()
    parts = np.array([1.0, 0.2, 0.8, 0.5, 0.3, 0.2, 1.0, 1.0])  # of fine cells in theirs
    for cell, inside, crossing, factor in (
        (np.arange(5), np.ones(5), np.zeros((0, 1), np.int64), np.ones(0)),
        # Cells in parts, and a table of which groups have factors, whose cells part one of those too.
        (np.array([0, 1, 1, 2, 2, 2, 3, 4]), parts, np.zeros((1, 1), np.int64), np.array([0.2, 3.0])),
    ):
        maps = (np.arange(cell.size) >= 4).astype(np.int32)[np.newaxis]
        mass = shape[cell] * inside
        shares = mass / kappa / (factor[maps[0]] if factor.size else 1.0)
        evidence = tuple(values[np.newaxis] for values in (seen, par, keep, seen))
        cells = cell.astype(np.int32)
        place = place_of(URN, evidence, (cells, cells, cell, cell), np.array([n]), np.array([0]))
        kappas = np.full((draws, 1), kappa)
        concentrations = Concentrations(kappa, kappa, kappas, np.ones(1), np.zeros(1))
        use = np.full(len(crossing), GROUP)
        factors = np.tile(factor.astype(np.float32), (draws, 1))
        tables = Crossing(crossing, crossing.astype(np.int32), maps, factors, np.zeros(factor.size), use)
        random = np.random.default_rng(5)
        shares = np.tile(shares, (draws, 1))
        homes, failures = draw_place(place, shares, concentrations, untied(1), whole(1), tables, 0, random)
        assert failures == 0
        for c in range(5):
            found = np.bincount((cell[homes] == c).sum(axis=1), minlength=n + 1) / draws
            np.testing.assert_allclose(found, exact[c], atol=0.015)
        jobs = exact @ np.arange(n + 1)
        found = np.bincount(homes.ravel(), minlength=cell.size) / draws
        np.testing.assert_allclose(found, jobs[cell] * inside, atol=0.03)


def test_groups_are_found_to_be_as_far_from_their_place_as_they_were_made() -> None:
    wide, groups, n, draws, p = 60, 40, 200, 40, 0.05
    grid = 2.0 ** np.arange(15)
    for true in (8.0, 64.0):
        random = np.random.default_rng(int(true))
        share = random.dirichlet(np.full(wide, 0.5)) + 1e-4
        share /= share.sum()
        counts = np.array([random.multinomial(n, random.dirichlet(true * share)) for _ in range(groups)])
        seen = counts + random.geometric(1 - p, counts.shape) - random.geometric(1 - p, counts.shape)
        kappas = np.full((1, groups), 512.0)
        sizes, home = np.full(groups, n), np.arange(wide)
        cells = home.astype(np.int32)
        ones, p_of_cells = np.ones(seen.shape), np.full(seen.shape, p)
        evidence = seen, p_of_cells, ones, seen
        place = place_of(GEOMETRIC, evidence, (cells, cells, home, home), sizes, np.arange(groups))
        concentrations = Concentrations(np.inf, 1e4, kappas, grid, np.zeros(grid.size))
        none = np.zeros((0, groups), np.int64)
        factors = np.zeros((draws, 0), np.float32), np.zeros(0), np.zeros(0, np.int64)
        tables = Crossing(none, none.astype(np.int32), np.zeros((0, wide), np.int32), *factors)
        shares = np.tile(share, (draws, 1))
        jobs, failures = draw_place(
            place, shares, concentrations, untied(groups), whole(groups), tables, 8, random
        )
        assert failures == 0
        assert np.log2(kappas).mean() == pytest.approx(math.log2(true), abs=0.5)
        cells = np.arange(groups).repeat(n) * wide
        drawn = np.stack([np.bincount(cells + one, minlength=groups * wide) for one in jobs])
        some = drawn.mean(axis=0) > 1
        held = held_by_lot(counts.ravel()[some], drawn[:, some], random)
        assert held.mean() == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / held.size))


def test_quick_ways_to_draw_have_the_distribution_of_the_slow_ones() -> None:
    random, size = np.random.default_rng(8), 10_000
    for shape in (0.001, 0.02, 0.3, 0.9, 1.0, 2.5):
        drawn = np.array([gamma(shape, random) for _ in range(size)])
        every = random.standard_gamma(shape, size)
        for x in (1e-15, 1e-6, 1e-2, 0.3, 1.0, 3.0):
            assert abs((drawn > x).mean() - (every > x).mean()) < 5 / math.sqrt(2 * size), (shape, x)
    for s, x in ((1e-5, 0.3), (0.2, 1.0), (3.0, 40.5), (1111.0, 2.0), (0.5, 1e6)):
        assert log_rising(s, x) == pytest.approx(math.lgamma(s + x) - math.lgamma(s), rel=1e-7, abs=1e-7)
    kinds, wider = _SCALES.size, 2.0
    chances, likely = random.dirichlet(np.ones(kinds)), np.empty(kinds)
    shapes = 1 / (_SCALES**2 * np.where(_MEANS == 1, wider, 1))
    for x, e in ((0.0, 0.01), (0.0, 0.8), (0.0, 60.0), (0.7, 0.4)):
        logs = [
            math.lgamma(s + x) - math.lgamma(s) - x * math.log(s / m + e) - s * math.log1p(e * m / s)
            for s, m in zip(shapes, _MEANS, strict=True)
        ]
        exact = chances * np.exp(logs)
        drawn = [_which_given(x, e, wider, np.cumsum(chances), likely, random) for _ in range(size)]
        found = np.bincount(drawn, minlength=kinds) / size
        np.testing.assert_allclose(found, exact / exact.sum(), atol=0.024)


def test_a_few_sums_far_from_the_model_are_drawn_where_their_counts_say() -> None:
    random = np.random.default_rng(0)
    owners, cells, draws = 60, 50, 200
    owner, label = np.repeat(np.arange(owners), cells), np.tile(np.arange(cells) // 5, owners)
    label = owner // 10 * 10 + label
    factor = np.where(random.random(60) < 0.1, 12.0, 0.9)[label]
    share = random.gamma(0.5, size=owner.size)
    n = np.full(owner.size, 2000.0)
    share *= 1 / np.bincount(owner, share)[owner]
    true = share * factor
    true *= n / np.bincount(owner, true)[owner]
    rare = random.choice(owner.size, 20, replace=False)
    true[rare] += 150.0
    n = np.bincount(owner, true)[owner]
    value, none = true + 6 * random.standard_normal(true.size), np.zeros(true.size, np.bool_)
    sums = Sums(value, np.full(true.size, 36.0), np.zeros(true.size), n * share, n, owner)
    families = [Family(label, none), Family(np.arange(true.size), none)]
    effects = draw_effects(sums, 1e5, families, draws, random)
    drawn = np.stack([sums.times(one) for one in effects.factor])
    # Draws are of means: counts of so many jobs are not part of them.
    off = (drawn.mean(axis=0) - true)[rare] / np.hypot(6, np.sqrt(true[rare]))
    assert abs(off.mean()) < 1
    assert np.abs(off).max() < 4
    totals = np.stack([np.bincount(label, one) for one in drawn])
    assert np.abs(totals.mean(axis=0) / np.bincount(label, true) - 1).max() < 0.2
    # Labels of which nothing is known are as far from 1, and 1 in the mean.
    unknown = families[0].unknown(np.full(2000, 1000.0), np.zeros(2000, np.bool_), random)
    assert abs(unknown.mean() - 1) < 0.15
    assert unknown.std() > 1


def test_homes_of_other_areas_are_farther_from_the_model_than_those_of_the_own() -> None:
    """Public tables often know who works near home, and little of who works elsewhere."""
    random = np.random.default_rng(4)
    groups, homes, model = region(5, own_model=True)
    place = np.repeat(groups.place, groups.n)
    other = np.arange(BLOCKS) * AREAS // BLOCKS != (np.arange(PLACES) * AREAS // PLACES)[:, np.newaxis]
    factor = np.where(other, random.gamma(0.2, 5, model.shape), 1)
    share = model * factor
    share /= share.sum(axis=1, keepdims=True)
    homes = np.array([random.choice(BLOCKS, p=share[i]) for i in place.tolist()], np.int32)
    families = implicates(groups, homes, model, 40, Fraction(1, 2), measured=1).families
    assert families[-1].scale[OTHER] > 3 * families[-1].scale[SAME]


def test_few_areas_have_nobody() -> None:
    """Where few sums of a family have jobs, factors are about 0, but for sums of areas."""
    random, size, nobody = np.random.default_rng(1), 2000, []
    value = np.where(random.random(size) < 0.03, 3000.0, 0.0)
    n, none = np.full(size, value.sum()), np.zeros(size, np.int64)
    sums = Sums(value, np.ones(size), np.zeros(size), n / size, n, none)
    for areas in (False, True):
        label = np.arange(size)
        family = Family(label, none, areas=areas)
        draw_effects(sums, 2.0**14, [family, Family(label, none)], 40, random)
        unknown = family.unknown(np.full(1000, 100.0), none[:1000], random)
        nobody.append((unknown < 0.002).mean())
    assert nobody[1] < 0.15 < 0.3 < nobody[0]


def test_factors_have_the_posterior_of_a_count_with_a_background() -> None:
    random, wider, draws = np.random.default_rng(9), 1.0, 10_000
    kinds = int((_MEANS == 1).sum())
    chances, likely = np.full(kinds, 1 / kinds), np.empty(_SCALES.size)
    f = np.exp(np.linspace(math.log(1e-4), math.log(200), 4000))
    shape = 1 / _SCALES[:kinds, np.newaxis] ** 2
    lost = np.array([[math.lgamma(s)] for s in shape[:, 0]])
    # Densities of the logarithm of a factor; factors below the least one are as that.
    prior = (chances[:, np.newaxis] * np.exp(shape * np.log(shape * f) - shape * f - lost)).sum(axis=0)
    prior *= math.log(f[1] / f[0])
    prior[0] += 1 - prior.sum()
    # Mean of the count, its estimate, and the variance of the noise: of next to none, little and much.
    for mean, estimate, noise in ((4.0, 9.0, 0.0), (2.0, 3.3, 1.5), (6.0, -4.0, 30.0), (6.0, 12.0, 30.0)):
        # As `_add_up` has them where about is 1.
        weight = mean / (noise + mean)
        told = Likelihood(weight * mean, weight * estimate, weight**2 * noise, 1.0)
        x = max(estimate + noise, 0.0)
        exact = prior * np.exp(x * np.log(mean * f + noise) - mean * f - x * math.log(mean + noise))
        exact /= exact.sum()
        kind, value, found = 2, 1.0, np.empty(draws)
        for i in range(draws):
            kind, value = _draw_next(told, wider, np.cumsum(chances), likely, random, kind, value)
            found[i] = value
        for limit in (0.3, 0.8, 1.2, 2.5):
            held = exact[f < limit].sum()
            assert (found < limit).mean() == pytest.approx(held, abs=0.03), (mean, estimate, noise, limit)


def region(seed: int, *, own_model: bool) -> tuple[JobGroups, NDArray[np.int32], NDArray[np.float64]]:
    """Rows of places by two attributes, a home for each job, and the public model of each place.

    Homes follow the model as `Implicates` has it, or commutes that are shorter than the model says, with an
    attribute that depends on the home, and no profile of Dirichlet's.
    """
    random = np.random.default_rng(seed)
    apart = np.abs(np.arange(PLACES)[:, np.newaxis] * BLOCKS / PLACES - np.arange(BLOCKS))
    model = np.exp(-apart / 8) + 0.01
    model /= model.sum(axis=1, keepdims=True)
    place = np.repeat(np.arange(PLACES, dtype=np.int32), 6)
    n = random.integers(5, 120, place.size)
    block, half = np.arange(place.size) // 2, np.arange(place.size) % 2
    groups = JobGroups(n, place, np.stack([place, half, block]).astype(np.int32))
    homes = []
    common = random.gamma(25, 1 / 25, BLOCKS)
    for d in range(PLACES):
        profile = model[d] * common if own_model else np.exp(-apart[d] / 6) * (1 + np.arange(BLOCKS) % 3)
        profile /= profile.sum()
        if own_model:
            profile = random.dirichlet(200 * profile)
        for r in np.flatnonzero(place == d):
            tilt = np.ones(BLOCKS) if own_model else np.exp((half[r] - 0.5) * np.sin(np.arange(BLOCKS)))
            homes.append(random.choice(BLOCKS, n[r], p=profile * tilt / (profile * tilt).sum()))
    return groups, np.concatenate(homes).astype(np.int32), model


def implicates(
    groups: JobGroups,
    homes: NDArray[np.int32],
    model: NDArray[np.float64],
    draws: int,
    ratio: Fraction,
    measured: int = 2,
    first: Domains = HOMES,
    read: Domains = HOMES,
    areas: dict[str, Any] | None = None,
    **attributes: Any,
) -> Implicates:
    """Measure flows of places, and homes by attribute if two tables are measured."""
    key, row = RunKey.from_seed(3), np.repeat(np.arange(groups.n.size), groups.n)
    p = GeometricParameters(ratio.numerator, ratio.denominator)
    tables: list[Table] = []
    evidence = []
    for k, member in enumerate(groups.member):
        n = np.bincount(member, groups.n).astype(np.int64)
        domain = np.zeros(n.size, np.int32)
        if k < measured:
            one = MeasuredTable(n, domain, HOMES if k else first, p)
            evidence.append(Evidence.noise(one, measure(one, member[row], homes, key.stream("noise", k))))
            tables.append(one)
        else:
            tables.append(Table(n, domain, read))

    def prior(place: int, cuts: NDArray[np.int32]) -> NDArray[np.float64]:
        return np.add.reduceat(model[place], cuts)

    area = np.arange(groups.n_places) * AREAS // groups.n_places
    starts = np.arange(0, BLOCKS, BLOCKS // AREAS, dtype=np.int32)
    areas, attributes = Areas(area, starts, **(areas or {})), Attributes(**attributes)
    published, stream = Published(tables, evidence, groups), key.stream("implicates", 0)
    return Implicates(published, prior, areas, attributes, draws, stream)


def rows_of(groups: JobGroups, drawn: list[NDArray[np.int32]]) -> NDArray[np.int64]:
    """Counts of rows by home, shape (n_draws, n_rows, n_blocks)."""
    every = np.concatenate(drawn, axis=1)
    row = np.repeat(np.arange(groups.n.size), groups.n) * BLOCKS
    size = groups.n.size * BLOCKS
    return np.stack([np.bincount(row + one, minlength=size) for one in every]).reshape(
        -1, groups.n.size, BLOCKS
    )


@pytest.mark.slow
@pytest.mark.parametrize("own_model", [True, False])
@pytest.mark.parametrize("ratio", [Fraction(1, 20), Fraction(3, 5)])
def test_intervals_of_flows_homes_and_sums_hold_the_truth(own_model: bool, ratio: Fraction) -> None:
    held: dict[str, list[NDArray[np.bool_]]] = {}
    random = np.random.default_rng(4)
    for seed in range(2):
        groups, homes, model = region(seed, own_model=own_model)
        drawn = implicates(groups, homes, model, 40, ratio)
        counts = rows_of(groups, list(drawn.places()))
        assert drawn.failures == 0
        truth = rows_of(groups, [homes[np.newaxis]])[0]
        labels = {
            "flows": groups.place,
            "attributes": groups.member[1],
            "areas": groups.place * AREAS // PLACES,
            "all": np.zeros_like(groups.place),
        }
        for name, label in labels.items():
            each = np.eye(int(label.max()) + 1, dtype=np.int64)[label]
            a, b = each.T @ truth, np.einsum("rg,mrc->mgc", each, counts)
            some = (a > 0) | (b.max(axis=0) > 0)
            held.setdefault(name, []).append(held_by_lot(a[some], b[:, some], random))
    for name, every in held.items():
        one = np.concatenate(every)
        off = 4 * math.sqrt(0.09 / one.size)
        assert 0.86 - off < one.mean() < 0.95 + off, (name, one.mean(), one.size)


def test_every_row_has_its_jobs_and_the_same_key_gives_the_same_draws() -> None:
    groups, homes, model = region(1, own_model=True)
    first, second = (implicates(groups, homes, model, 20, Fraction(1, 2)) for _ in range(2))
    for i, (homes_of_place, again) in enumerate(zip(first.places(), second.places(), strict=True)):
        assert homes_of_place.shape == (20, groups.n[groups.rows(i)].sum())
        assert np.array_equal(homes_of_place, again)
        assert np.isin(homes_of_place, np.arange(BLOCKS)).all()
    assert first.domains().n_domains == groups.n_places
    with pytest.raises(RuntimeError, match="are drawn already"):
        next(first.places())


def test_those_who_live_where_they_work_are_as_many_as_all_places_together_say() -> None:
    """Noise hides them in each place, and the model has a tenth of them."""
    random = np.random.default_rng(13)
    groups, homes, model = region(1, own_model=True)
    block = np.arange(PLACES) * BLOCKS // PLACES
    place = np.repeat(groups.place, groups.n)
    homes = np.where(random.random(homes.size) < 0.3, block[place], homes).astype(np.int32)
    true = int((homes == block[place]).sum())

    def bands(place: int, cuts: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.where(cuts == block[place], 2, np.abs(cuts - block[place]) > BLOCKS // 4).astype(np.int64)

    drawn = implicates(groups, homes, model, 40, Fraction(19, 20), measured=1, areas={"bands": bands})
    stay = [(cells == block[i]).sum(axis=1) for i, cells in enumerate(drawn.places())]
    low, high = (int(end[0]) for end in quantiles(np.sum(stay, axis=0)[:, np.newaxis]))
    assert low <= true <= high
    assert high - low < true / 3


def test_blocks_are_drawn_inside_their_cells_and_not_beyond_the_last_one() -> None:
    cells = np.random.default_rng(1).integers(2, size=(3, 200)).astype(np.int32)
    draws = BlockDraws(np.ones(10), 3, RunKey.from_seed(1).stream("blocks", 0))
    blocks = draws.draw(np.array([2, 5], np.int32), 7, cells)
    assert set(blocks[cells == 0]) == {2, 3, 4}
    assert set(blocks[cells == 1]) == {5, 6}


def test_a_table_that_crosses_places_is_as_narrow_as_its_noise() -> None:
    groups, homes, model = region(2, own_model=False)
    drawn = implicates(groups, homes, model, 100, Fraction(1, 20))
    counts = rows_of(groups, list(drawn.places()))
    by_half = np.stack([counts[:, groups.member[1] == h].sum(axis=1) for h in range(2)])
    assert np.sqrt(by_half.var(axis=1).mean()) < 3  # without the table it is 15
    truth = rows_of(groups, [homes[np.newaxis]])[0]
    assert np.abs(by_half[1].mean(axis=0) - truth[groups.member[1] == 1].sum(axis=0)).mean() < 3


def some_rows(
    groups: JobGroups, homes: NDArray[np.int32], n: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the homes of the first n jobs of each row, rows in another order."""
    return np.concatenate(
        [homes[b : b + k] for b, k in zip(offsets_of(groups.n)[order], n[order], strict=True)]
    )


def test_a_table_that_crosses_places_is_reached_where_workplaces_have_few_of_a_half() -> None:
    groups, homes, model = region(2, own_model=False)
    half, block = groups.member[1:]
    n = np.where(half == block % 2, groups.n, np.maximum(groups.n // 3, 1))
    homes = some_rows(groups, homes, n, np.arange(n.size))
    # Those of one half live more often in cells of odd numbers, wherever they work.
    other = (homes % 2 != np.repeat(half, n)) & (np.random.default_rng(1).random(homes.size) < 0.4)
    homes = np.where(other, homes ^ 1, homes).astype(np.int32)
    groups = JobGroups(n, groups.place, np.stack([block, half]))
    drawn = implicates(groups, homes, model, 20, Fraction(3, 5))
    counts = rows_of(groups, list(drawn.places())).mean(axis=0)
    truth = rows_of(groups, [homes[np.newaxis]])[0]
    true, found = (every[half == 1].sum(axis=0) / every.sum(axis=0) for every in (truth, counts))
    assert 0.92 < np.polyfit(true, found, 1)[0] < 1.02


def test_a_part_of_several_places_has_one_profile_in_all_of_them() -> None:
    """As a workplace has whose jobs are in pools of different cells, by an attribute."""
    groups, homes, model = region(2, own_model=True)
    half, block = groups.member[1:]
    place = groups.place * 2 + half
    order = np.argsort(place, kind="stable")
    homes = some_rows(groups, homes, groups.n, order)
    groups = JobGroups(groups.n[order], place[order], np.stack([place, block])[:, order])
    apart = {1: np.full(block.max() + 1, 0.25)}
    unit = np.arange(PLACES * 2) // 2
    two = domains_of(np.array([0, BLOCKS // 2], np.int32))  # what pools of all places say of the part
    given = {"variances": apart, "areas": {"work_unit": unit}, "read": two}
    drawn = implicates(groups, homes, model.repeat(2, axis=0), 100, Fraction(1, 20), 1, **given)
    counts = rows_of(groups, list(drawn.places()))
    one, other = (counts[:, groups.member[0] % 2 == h] for h in (0, 1))  # rows of the same parts
    often = (one.mean(axis=0) > 2) & (other.mean(axis=0) > 2)
    off = [x[:, often] / x[:, often].mean(axis=0) - 1 for x in (one, other)]
    # Of three parts of a place, a share has a relative variance of two thirds of that of a factor.
    assert 0.8 < (off[0] * off[1]).mean() / (0.25 * 2 / 3) < 1.2


def test_an_attribute_without_evidence_is_as_uncertain_as_is_said() -> None:
    groups, homes, model = region(2, own_model=True)
    half = groups.member[1]
    spread = []
    for variance in (0.01, 0.25):
        apart = {1: np.full(2, variance)}
        drawn = implicates(groups, homes, model, 100, Fraction(1, 20), measured=1, variances=apart)
        counts = rows_of(groups, list(drawn.places()))
        share = counts[:, half == 0].sum(axis=1) / counts.sum(axis=1)
        spread.append(float((share.std(axis=0) / share.mean(axis=0)).mean()))
    # Of two equal halves with factors of this variance, a share has a relative variance of half of it.
    assert 0.8 < spread[1] / math.sqrt(0.25 / 2) < 1.2
    assert spread[0] < spread[1] / 2.5


def test_groups_that_agree_in_an_attribute_tell_of_each_other() -> None:
    groups, homes, model = region(3, own_model=False)
    half, third = groups.member[1].astype(np.int64), groups.member[2].astype(np.int64) % 3
    groups = JobGroups(groups.n, groups.place, np.stack([groups.place, half * 3 + third]).astype(np.int32))
    codes = {1: np.stack([np.arange(6) // 3, np.arange(6) % 3])}
    truth = rows_of(groups, [homes[np.newaxis]])[0]
    slopes = []
    for categories in ({}, codes):
        drawn = implicates(groups, homes, model, 40, Fraction(19, 20), categories=categories)
        counts = rows_of(groups, list(drawn.places())).mean(axis=0)
        true, found = (every[half == 1].sum(axis=0) / every.sum(axis=0) for every in (truth, counts))
        slopes.append(float(np.polyfit(true, found, 1)[0]))
    assert 1.15 * slopes[0] < slopes[1] < 1


def drawn_from_urns_by_halves(
    groups: JobGroups,
    homes: NDArray[np.int32],
    model: NDArray[np.float64],
    a: float,
    outside: Sequence[int] = (),
) -> Implicates:
    """Draw urns by place and half; give posterior draws where residents by half are read."""
    random = np.random.default_rng(6)
    half, place = groups.member[1].astype(np.int64), groups.place.astype(np.int64)
    row = np.repeat(np.arange(groups.n.size), groups.n)
    starts = np.arange(0, BLOCKS, BLOCKS // AREAS, dtype=np.int32)
    urns = place * 2 + half
    groups = JobGroups(groups.n, groups.place, np.stack([urns, half]).astype(np.int32))
    n = np.bincount(urns, groups.n).astype(np.int64)
    read = np.union1d(starts, outside).astype(np.int32)
    first = np.union1d(np.arange(0, BLOCKS, 3), outside).astype(np.int32)  # some cells are in two areas
    found = np.zeros((n.size, first.size), np.int64)
    np.add.at(found, (urns[row], np.searchsorted(first, homes, side="right") - 1), 1)
    drawn = np.concatenate(
        [random.multinomial(k, random.dirichlet(x + a)) for k, x in zip(n, found, strict=True)]
    )
    tables = [
        Table(n, np.zeros(n.size, np.int32), domains_of(first)),
        Table(np.bincount(half, groups.n).astype(np.int64), np.zeros(2, np.int32), domains_of(read)),
    ]
    evidence = Evidence(URN, drawn, np.zeros(drawn.size, np.int64), np.array([a]), np.ones(1))
    stream = RunKey.from_seed(3).stream("implicates", 0)
    areas = Areas(np.arange(PLACES) * AREAS // PLACES, starts, outside=np.array(outside, np.int32))
    return Implicates(
        Published(tables, [evidence], groups), lambda place, cuts: np.add.reduceat(model[place], cuts),
        areas, Attributes(), 40, stream,
    )  # fmt: skip


def test_urns_by_an_attribute_tell_of_residents_by_it() -> None:
    """What all urns of a category say of the homes of an area, which is many of their cells."""
    random = np.random.default_rng(6)
    groups, homes, model = region(5, own_model=False)
    half = groups.member[1].astype(np.int64)
    row = np.repeat(np.arange(groups.n.size), groups.n)
    area = np.arange(BLOCKS) * AREAS // BLOCKS
    # Those of one half live in some areas more often, wherever they work.
    other = (area[homes] % 3 == 0) & (half[row] == 0) & (random.random(homes.size) < 0.6)
    homes = np.where(other, random.integers(0, BLOCKS, homes.size), homes).astype(np.int32)
    result = drawn_from_urns_by_halves(groups, homes, model, 0.05)
    cells = result.domains()
    homes_drawn = [
        cells.cuts[cells.offsets[i] : cells.offsets[i + 1]][homes] for i, homes in enumerate(result.places())
    ]
    counts = rows_of(groups, homes_drawn).mean(axis=0)
    truth = rows_of(groups, [homes[np.newaxis]])[0]
    starts = np.arange(0, BLOCKS, BLOCKS // AREAS)
    true, mean = (
        np.add.reduceat(every[half == 0].sum(axis=0), starts) / np.add.reduceat(every.sum(axis=0), starts)
        for every in (truth, counts)
    )
    assert true.std() > 0.02
    assert 0.85 < np.polyfit(true, mean, 1)[0] < 1.15


def test_factors_of_residents_are_of_the_mean_of_what_is_drawn_of_places() -> None:
    """A product of the means of skewed factors is many times the mean of their product."""
    random = np.random.default_rng(7)
    groups, homes, model = region(5, own_model=False)
    zones = range(BLOCKS - 8, BLOCKS)  # of which the model expects next to nothing
    model[:, zones] = 2e-6
    model /= model.sum(axis=1, keepdims=True)
    far = random.random(homes.size) < 0.005
    homes = np.where(far, random.choice(zones, homes.size), homes).astype(np.int32)
    result = drawn_from_urns_by_halves(groups, homes, model, 0.2, zones)
    for cell, profile, position in zip(result._cell, result._profile, range(groups.n_places), strict=True):
        drawn = np.bincount(cell, result._drawn_shares(position).mean(axis=0))
        np.testing.assert_allclose(profile, drawn, rtol=0.15)


def test_urns_of_a_workplace_tell_of_each_other() -> None:
    """Workers of a workplace live elsewhere than those of the others of its place, whatever they earn."""
    random = np.random.default_rng(10)
    workplaces, categories, wide = 4, 9, 12
    rows = PLACES * workplaces * categories
    workplace, earnings = np.arange(rows) // categories, np.arange(rows) % categories
    place = (workplace // workplaces).astype(np.int32)
    urn = np.arange(rows, dtype=np.int32)
    n = random.integers(20, 60, rows)
    model = random.dirichlet(np.full(wide, 3.0), PLACES)
    share = model[place] * random.gamma(4, 1 / 4, (workplace.max() + 1, wide))[workplace]
    counts = random.multinomial(n, share / share.sum(axis=1, keepdims=True))
    weights = random.standard_gamma(counts + 0.2)
    drawn = random.multinomial(n, weights / weights.sum(axis=1, keepdims=True)).ravel()
    homes = cells_of(wide)
    evidence = Evidence(URN, drawn, np.zeros(drawn.size, np.int64), np.array([0.2]), np.ones(1))
    label = np.eye(workplace.max() + 1, dtype=np.int64)[workplace]
    held, errors = [], []
    table, groups = Table(n, np.zeros(rows, np.int32), homes), JobGroups(n, place, urn[np.newaxis])
    published, areas = Published([table], [evidence], groups), Areas(np.zeros(PLACES, int), np.zeros(1, int))
    for attributes in (Attributes(), Attributes(labels=np.stack([workplace, earnings]))):
        stream = RunKey.from_seed(3).stream("implicates", 0)
        result = Implicates(published, lambda place, cuts: model[place], areas, attributes, 40, stream)
        jobs = np.concatenate(list(result.places()), axis=1)
        assert result.failures == 0
        row = np.repeat(np.arange(rows), n) * wide
        by_row = np.stack([np.bincount(row + one, minlength=rows * wide) for one in jobs])
        by_row = by_row.reshape(-1, rows, wide)
        assert (by_row.sum(axis=2) == n).all()
        found = np.einsum("rg,mrc->mgc", label, by_row)
        truth = label.T @ counts
        held.append(held_by_lot(truth, found, random).mean())
        errors.append(float(np.abs(found.mean(axis=0) - truth).mean()))
    assert held[0] < 0.82 < 0.86 < held[1] < 0.93
    assert errors[1] < 0.9 * errors[0]


def test_ties_vary_as_much_as_they_were_made_to() -> None:
    areas, ties, n = 40, 30, 900
    of = np.arange(ties * 2)[np.newaxis] // 2
    jobs = np.full(ties * 2, n, np.int64)
    for true in (2.0, 32.0):
        random = np.random.default_rng(int(true))
        profile = random.dirichlet(np.full(areas, 3.0)) * random.gamma(true, 1 / true, (ties, areas))
        profile /= profile.sum(axis=1, keepdims=True)
        share = profile.mean(axis=0)  # what homes the place has
        tables = random.multinomial(2 * n, profile)
        tied = ties_of(of, jobs, areas, random)
        assert np.array_equal(tied.member, of)
        tied.tie_jobs[:], tied.group_jobs[:] = tables, n
        found: list[NDArray[np.float64]] = []
        shapes = np.zeros(SHAPES.size)
        for _ in range(60):
            draw_factors(tied, jobs, np.tile(share, (2 * ties, 1)), random)
            found.append(share * tied.level * tied.factor)
            shapes += np.bincount(tied.shape, minlength=SHAPES.size) * (len(found) > 20)
        assert SHAPES[shapes.argmax()] == true
        drawn = np.array(found[20:])
        drawn /= drawn.sum(axis=2, keepdims=True)
        np.testing.assert_allclose(drawn.mean(axis=(0, 1)), share, rtol=0.01)
        off = (drawn.mean(axis=0) - profile) / drawn.std(axis=0)
        assert 0.8 < off.std() < 1.2


def test_ties_are_of_several_groups_that_do_not_make_up_a_place() -> None:
    random, n = np.random.default_rng(1), np.array([9, 9, 40, 7, 7, 30])
    alike = np.array([[5, 5, 8, 3, 3, 8], [1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6]])
    ties = ties_of(alike, n, 3, random)
    # One of too few jobs to say anything is one with the rest; all groups alike, or none, are no ties.
    assert ties.member.tolist() == [[0, 0, 1, 2, 2, 1], [-1] * 6, [-1] * 6]
    assert ties.kind.tolist() == [0, 0, 0]
    assert ties.jobs.tolist() == [18, 70, 14]


def test_zones_outside_of_which_a_survey_asked_few_are_drawn_where_all_jobs_are() -> None:
    """The model has some zones in one place each and others nowhere; people of all come to every place."""
    random = np.random.default_rng(8)
    groups, homes, model = region(6, own_model=True)
    zones = np.arange(BLOCKS - 8, BLOCKS)
    model[:, zones] = 0
    model[2, zones[:4]] = 0.02  # some thirty jobs in all, the others none
    model /= model.sum(axis=1, keepdims=True)
    far = random.random(homes.size) < 0.06
    homes = np.where(far, random.choice(zones, homes.size), homes).astype(np.int32)
    outside = {"outside": zones.astype(np.int32)}
    drawn = implicates(groups, homes, model, 40, Fraction(9, 10), measured=1, areas=outside)
    counts = rows_of(groups, list(drawn.places()))[:, :, zones]
    truth = rows_of(groups, [homes[np.newaxis]])[0][:, zones]
    label = np.eye(PLACES, dtype=np.int64)[groups.place]
    flows, true = np.einsum("rp,mrz->mpz", label, counts), label.T @ truth
    assert 0.84 < held_by_lot(true, flows, random).mean() < 0.98
    others = np.arange(PLACES) != 2
    assert (flows.mean(axis=0).sum(axis=1) > true.sum(axis=1) / 3)[others].all()


def test_nobody_is_sure_that_a_home_without_public_flows_is_empty() -> None:
    groups, homes, model = region(4, own_model=True)
    model[:, ::2] = 0
    model /= model.sum(axis=1, keepdims=True)
    cuts = np.arange(0, BLOCKS, 8, dtype=np.int32)
    coarse = domains_of(cuts)
    drawn = implicates(groups, homes, model, 40, Fraction(1, 20), measured=1, first=coarse)
    counts = rows_of(groups, list(drawn.places()))
    assert counts[:, :, ::2].any()


def test_estimates_from_draws_have_no_bias_and_the_variance_that_is_said() -> None:
    random = np.random.default_rng(9)
    share, size = np.array([0.3, 0.06, 0.64]), 40_000
    for n in (1, 3, 40):
        prior = np.array([0.02, 0.04, 0.02]) * n
        x = random.multinomial(n, share, size)
        weights = random.standard_gamma(x + prior)
        drawn = random.multinomial(n, weights / weights.sum(axis=1, keepdims=True))
        table = Table(np.array([n]), np.zeros(1, np.int32), cells_of(3))
        seen = [Evidence(URN, d, np.arange(3), prior, np.ones(3)) for d in np.unique(drawn, axis=0)]
        value, variance, slope = (
            np.concatenate(estimates)
            for estimates in zip(*(draws.unbiased(table, np.zeros(1, int)) for draws in seen), strict=True)
        )
        which = np.unique(drawn, axis=0, return_inverse=True)[1]
        np.testing.assert_allclose((value[which] - x).mean(axis=0), 0, atol=0.15)
        # Beside how much the counts vary themselves.
        said = variance[0] + (slope[0] + 1) * n * share * (1 - share)
        np.testing.assert_allclose(said, value[which].var(axis=0), rtol=0.07, err_msg=str(n))


def test_cells_that_were_mostly_left_out_of_an_urn_are_empty_and_not_less() -> None:
    random = np.random.default_rng(11)
    jobs, keep, prior = np.zeros(200, np.int64), 0.1, 0.3
    jobs[:5] = 4
    kept = (jobs > 0) | (random.random((4_000, jobs.size)) < keep)
    weights = random.standard_gamma(jobs + prior, kept.shape) * kept
    drawn = random.multinomial(jobs.sum(), weights / weights.sum(axis=1, keepdims=True))
    table = Table(np.array([jobs.sum()]), np.zeros(1, np.int32), cells_of(jobs.size))
    kinds = np.zeros(jobs.size, np.int64), np.array([prior]), np.array([keep])
    group = np.zeros(1, int)
    value = np.concatenate([Evidence(URN, seen, *kinds).unbiased(table, group)[0] for seen in drawn])
    np.testing.assert_allclose(value.sum(axis=1), jobs.sum())
    assert abs(value[:, 5:].mean()) < 0.02


def cells_of(wide: int) -> Domains:
    """One domain of so many blocks."""
    return Domains(wide, np.array([0, wide]), np.arange(wide, dtype=np.int32), np.zeros(wide, np.uint8))


def test_intervals_are_order_statistics() -> None:
    random = np.random.default_rng(6)
    draws = random.integers(0, 50, (100, 7))
    low, high = quantiles(draws)
    ordered = np.sort(draws, axis=0)
    assert np.array_equal(low, ordered[4])
    assert np.array_equal(high, ordered[95])
    with pytest.raises(ValueError, match="at least 19 draws"):
        quantiles(draws[:18])
    many = random.standard_normal((100, 20_000)) * 1e6
    low, high = quantiles(many.astype(np.int64))
    further = random.standard_normal(20_000) * 1e6
    assert ((low <= further) & (further <= high)).mean() == pytest.approx(0.9, abs=0.01)
    with pytest.raises(ValueError, match=r"in \(0, 1\)"):
        quantiles(draws, Fraction(1))


def test_held_by_lot_is_right_for_counts_that_are_nearly_always_zero() -> None:
    random = np.random.default_rng(7)
    draws, truth = random.poisson(0.05, (100, 20_000)), random.poisson(0.05, 20_000)
    low, high = quantiles(draws)
    assert ((low <= truth) & (truth <= high)).mean() > 0.94  # a closed interval holds more
    assert held_by_lot(truth, draws, random).mean() == pytest.approx(0.9, abs=0.01)
    assert held_by_lot(truth + 1, draws, random).mean() < 0.3


def test_cells_are_the_same_homes_if_they_are_alike_or_cut_a_unit_in_several_ways() -> None:
    unit = np.array([0, 4, 8, 12])
    starts = np.array([0, 2, 0, 2, 4, 4, 6, 8, 8, 8, 4, 8], np.int32)
    stops = np.array([2, 4, 2, 4, 6, 8, 8, 12, 12, 16, 12, 16], np.int32)
    ends = (np.searchsorted(unit, one, side="right") - 1 for one in (starts, stops - 1))
    home = _common_homes(starts, stops, *ends, 4).tolist()
    assert home[0] == home[2] >= 4  # the first unit is cut in one way: its cells are themselves
    assert home[1] == home[3] >= 4
    assert home[0] != home[1]
    assert home[4:9] == [1, 1, 1, 2, 2]  # the second in several, and the third is a cell of its own
    assert home[9] == home[11] >= 4  # of several units
    assert home[10] not in {*home[:10], home[11]}
