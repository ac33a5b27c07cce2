"""Estimates from several measured tables against plain proportional fitting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammaln

from synth.geometric.measured import JobGroups, MeasuredTable, layouts
from synth.geometric.parameters import GeometricParameters
from synth.geometric.projection import project
from synth.plan import Domains, Table
from synth.posterior import estimation
from synth.posterior.counts import expect_anywhere, likeliest_deviations, posterior
from synth.posterior.estimation import Run, estimate, fit_factors
from synth.posterior.rounding import Rounding
from synth.randomness import RunKey

from ..measured_reference import fitted, measure

BLOCKS = 12
SOME = GeometricParameters(1, 4)
SURE = GeometricParameters(1, 2**61)


def domains(*cuts: list[int]) -> Domains:
    """Domains that begin new cells at these blocks."""
    flat = np.array([c for own in cuts for c in own], np.int32)
    offsets = np.cumsum([0, *(len(own) for own in cuts)])
    return Domains(BLOCKS, offsets, flat, np.zeros(flat.size, np.uint8))


def table(groups: JobGroups, k: int, cells: Domains, parameters: GeometricParameters | None = SOME) -> Table:
    n = np.bincount(groups.member[k], groups.n).astype(np.int64)
    domain = np.zeros(n.size, np.int32)
    return Table(n, domain, cells) if parameters is None else MeasuredTable(n, domain, cells, parameters)


def prior(place: int, cuts: NDArray[np.int32]) -> NDArray[np.float64]:
    """More of the blocks near to the place."""
    weight = 1.0 / (1 + np.abs(np.arange(BLOCKS) - 4 * place))
    return np.add.reduceat(weight, cuts) / weight.sum()


@st.composite
def cases(draw: st.DrawFn) -> tuple[JobGroups, list[Table], list[NDArray[np.int64]]]:
    """Two places of a few blocks, two attributes: blocks by home cell, attributes by coarser cell."""
    place = np.repeat(np.arange(2, dtype=np.int32), draw(st.integers(1, 3)) * 2)
    block = np.arange(place.size, dtype=np.int32) // 2
    n = np.array(draw(st.lists(st.integers(1, 9), min_size=place.size, max_size=place.size)))
    groups = JobGroups(n, place, np.stack([block, np.arange(place.size, dtype=np.int32) % 2]), (block,))
    tables = [table(groups, 0, domains([0, 2, 4, 6, 8, 10])), table(groups, 1, domains([0, 4, 8]))]
    seed = draw(st.integers(0, 2**32))
    row = np.repeat(np.arange(n.size), n)
    homes = np.random.default_rng(seed).integers(0, BLOCKS, row.size).astype(np.int32)
    noisy = [
        measure(t, groups.member[k][row], homes, RunKey.from_seed(seed).stream("measure", k))
        for k, t in enumerate(tables)
    ]
    return groups, tables, noisy


def every_row(fit: object, groups: JobGroups) -> NDArray[np.float64]:
    return np.concatenate([fit.rows(i) for i in range(groups.n_places)])  # type: ignore[attr-defined]


@settings(max_examples=30, deadline=None)
@given(cases())
def test_one_table_and_no_prior_are_the_projection(case: tuple) -> None:
    groups, tables, noisy = case
    one = groups.merged(1)
    fit = estimate(tables[:1], noisy[:1], one, None)
    mass, unit = project(noisy[0], tables[0].offsets, tables[0].n)
    assert every_row(fit, one).ravel() == pytest.approx(mass / np.repeat(unit, 6), rel=1e-12, abs=1e-12)


def nbinom_log(count: np.ndarray, shape: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return gammaln(shape + count) - gammaln(shape) + shape * np.log(rest) + count * np.log(1 - rest)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_one_table_with_a_prior_is_its_posterior(case: tuple) -> None:
    """With one block in a place, whose least expected loss is not asked for, of two rows."""
    groups, tables, noisy = case
    attributes = JobGroups(groups.n, np.zeros_like(groups.place), groups.member[1:])
    fit = estimate(tables[1:], noisy[1:], attributes.merged(1), prior)
    (t,), (y,) = tables[1:], noisy[1:]
    cells = prior(0, np.array([0, 4, 8]))
    expected = np.concatenate([n * cells for n in t.n])
    expected = expect_anywhere(expected, t.offsets, t.n)
    deviations = likeliest_deviations(y, t.offsets, expected, t.n, t.law)
    first, _ = posterior(y, t.offsets, expected, t.n, deviations, t.law)
    # What the other group shows, and the prior worth as many jobs as a concentration, are the prior of the
    # second look; which of the two concentrations, the other group tells, too.
    others, m = first.reshape(2, 3)[::-1], t.n[::-1, None]
    whole = np.floor(others + 0.5)
    share = (expected / np.repeat(t.n, 3)).reshape(2, 3)
    near, far = (
        (
            kappa * share,
            np.log(chance) + nbinom_log(whole, kappa * share, kappa / (kappa + m)),
        )
        for kappa, chance in ((deviations.near, 1 - deviations.share), (deviations.far, deviations.share))
    )
    is_far = 1 / (1 + np.exp(near[1] - far[1]))
    rate = (1 - is_far) * (near[0] + others) / (deviations.near + m)
    rate += is_far * (far[0] + others) / (deviations.far + m)
    profile = (t.n[:, None] * rate / rate.sum(axis=1, keepdims=True)).ravel()
    profile = expect_anywhere(profile, t.offsets, t.n)
    deviations = likeliest_deviations(y, t.offsets, profile, t.n, t.law)
    mean, _ = posterior(y, t.offsets, profile, t.n, deviations, t.law)
    assert every_row(fit, attributes.merged(1)).ravel() == pytest.approx(mean, rel=1e-9)


def test_what_counts_show_where_nobody_was_expected_is_believed() -> None:
    """Three jobs in a cell of next to nobody in the prior: noise is that large in one of 8,000 counts."""
    groups = JobGroups(np.array([40]), np.zeros(1, np.int32), np.zeros((1, 1), np.int32))
    one = table(groups, 0, domains([0, 2, 4, 6, 8, 10]), GeometricParameters(1, 20))
    shares = np.array([1e-12, 0.4, 0.3, 0.2, 0.1, 1e-12])
    noisy = np.array([3, 15, 11, 7, 4, 0])
    fit = estimate([one], [noisy], groups.merged(1), lambda _, cuts: shares)
    assert every_row(fit, groups.merged(1)).ravel() == pytest.approx(noisy, abs=0.01)


def test_where_the_prior_has_nobody_nobody_is_expected_whatever_counts_show() -> None:
    groups = JobGroups(np.array([40]), np.zeros(1, np.int32), np.zeros((1, 1), np.int32))
    one = table(groups, 0, domains([0, 2, 4, 6, 8, 10]), GeometricParameters(1, 20))
    shares = np.array([0.0, 0.4, 0.3, 0.2, 0.1, 0.0])
    noisy = np.array([0, 15, 11, 7, 4, 30])
    fit = estimate([one], [noisy], groups.merged(1), lambda _, cuts: shares)
    assert every_row(fit, groups.merged(1)).ravel()[[0, 5]].tolist() == [0, 0]
    stream = RunKey.from_seed(1).stream("rounding", 0)
    for _ in range(200):  # also where floats leave something over
        assert Rounding(fit).place(0, stream)[0, [0, 5]].tolist() == [0, 0]


@settings(max_examples=20, deadline=None)
@given(cases())
def test_two_tables_are_fitted_together(case: tuple) -> None:
    """The rows are those that plain fitting finds from the prior and the margins of the estimate."""
    groups, tables, noisy = case
    fit = estimate(tables, noisy, groups, prior)
    rows = every_row(fit, groups)
    assert rows.min() >= 0
    assert rows.sum(axis=1) == pytest.approx(groups.n)
    cuts = fit.layouts[0].cuts
    seed = [
        (n * prior(place, cuts)).tolist() for n, place in zip(groups.n, groups.place.tolist(), strict=True)
    ]
    labels = [
        [[int(m) * width + int(c) for c in cell] for m in member]
        for member, width, cell in zip(groups.member, (6, 3), (range(6), (0, 0, 1, 1, 2, 2)), strict=True)
    ]
    margins = [
        np.bincount(np.ravel(own), rows.ravel(), int(t.offsets[-1])).tolist()
        for own, t in zip(labels, tables, strict=True)
    ]
    plain = fitted(seed, groups.n.tolist(), list(zip(labels, margins, strict=True)), 500)
    assert rows == pytest.approx(np.array(plain), rel=1e-3, abs=1e-3)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_runs_of_places_are_fitted_as_all_places_are(case: tuple) -> None:
    """Only sums of tables that all runs add to may differ, in the order of their terms."""
    groups, tables, noisy = case
    end = int(groups.member[0, np.searchsorted(groups.place, 1)])
    runs = [Run(slice(0, 1), slice(0, end)), Run(slice(1, 2), slice(end, tables[0].n.size))]
    whole, parts = (fit_factors(tables, noisy, groups, prior, of) for of in (None, runs))
    for one, other in zip(whole, parts, strict=True):
        assert other[:] == pytest.approx(one[:], rel=1e-6, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_places_of_one_table_have_the_same_bits_in_any_runs(case: tuple) -> None:
    groups, tables, noisy = case
    one = groups.merged(1)
    whole = [Run(slice(0, one.n_places), slice(0, one.n.size))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimation, "_FEW_CELLS", 5)
        assert len(estimation._few_at_a_time(tables[:1], one)) == 2
        (few,) = fit_factors(tables[:1], noisy[:1], one, prior)
    (all_at_once,) = fit_factors(tables[:1], noisy[:1], one, prior, whole)
    assert few[:].tobytes() == all_at_once[:].tobytes()


@settings(max_examples=30, deadline=None)
@given(cases(), st.booleans())
def test_rounding_keeps_what_was_measured(case: tuple, kept: bool) -> None:
    groups, tables, noisy = case
    fine = table(groups, 0, domains(list(range(BLOCKS))), None)
    more = JobGroups(groups.n, groups.place, np.concatenate([groups.member, groups.member[:1]]), groups.steps)
    fit = estimate([*tables, fine], noisy, more, prior) if kept else estimate(tables, noisy, groups, prior)
    rounding, stream = Rounding(fit), RunKey.from_seed(1).stream("round", 0)
    for i in range(groups.n_places):
        own, rows = groups.rows(i), fit.rows(i)
        jobs = rounding.place(i, stream)
        assert jobs.shape == rows.shape
        assert jobs.sum(axis=1).tolist() == groups.n[own].tolist()
        first = np.flatnonzero(np.append(True, np.diff(groups.member[0][own]) > 0))
        whole, expected = (np.add.reduceat(values, first, axis=0) for values in (jobs, rows))
        six = np.arange(0, whole.shape[1], 2) if kept else np.arange(6)
        for a, b in ((whole, expected), *(((np.add.reduceat(v, six, axis=1)) for v in (whole, expected)),)):
            assert np.abs(a - b).max() < 1 + 1e-5


@settings(max_examples=30, deadline=None)
@given(cases(), st.integers(0, 5), st.booleans(), st.booleans())
def test_what_was_rounded_is_allowed(case: tuple, seed: int, kept: bool, by_slot: bool) -> None:
    """By an object that knows of no place before, too, as batches may have been others."""
    groups, tables, noisy = case
    every = [*tables, table(groups, 0, domains(list(range(BLOCKS))), None)] if kept else tables
    more = np.concatenate([groups.member, groups.member[:1]]) if kept else groups.member
    fit = estimate(every, noisy, JobGroups(groups.n, groups.place, more, groups.steps), prior)
    rounding, stream = Rounding(fit), RunKey.from_seed(seed).stream("round", 0)
    for i in range(groups.n_places):
        homes = rounding.homes(i, stream)
        assert Rounding(fit).allows(i, homes, by_slot=by_slot)
        far = np.full_like(homes, fit.rows(i).sum(axis=0).argmin())
        assert np.array_equal(far, homes) or not Rounding(fit).allows(i, far) or homes.size < 4


def test_a_crossing_table_is_steered() -> None:
    """Over 60 places, attributes by home stay within a few jobs of what is expected."""
    places, generator = 60, np.random.default_rng(3)
    place = np.repeat(np.arange(places, dtype=np.int32), 2)
    n = generator.integers(3, 8, place.size)
    member = np.stack([place, np.tile(np.arange(2, dtype=np.int32), places)])
    groups = JobGroups(n, place, member)
    cells = domains([0, 2, 4, 6, 8, 10])
    tables = [table(groups, 0, cells), table(groups, 1, cells)]
    row = np.repeat(np.arange(n.size), n)
    homes = generator.integers(0, BLOCKS, row.size).astype(np.int32)
    noisy = [
        measure(t, member[k][row], homes, RunKey.from_seed(k).stream("m", 0)) for k, t in enumerate(tables)
    ]
    fit = estimate(tables, noisy, groups, lambda place, cuts: np.full(cuts.size, 1 / cuts.size))
    rounding, stream = Rounding(fit), RunKey.from_seed(1).stream("round", 0)
    lacking = np.zeros((2, 6))
    for i in range(places):
        lacking += fit.rows(i) - rounding.place(i, stream)
    assert np.abs(lacking - lacking.mean(axis=0)).max() < 3


def test_counts_without_noise_come_back() -> None:
    generator = np.random.default_rng(4)
    groups = JobGroups(np.array([8, 5, 9]), np.array([0, 0, 1], np.int32), np.array([[0, 1, 2]], np.int32))
    t = table(groups, 0, domains([0, 3, 6, 9]), SURE)
    group = np.repeat(np.arange(3, dtype=np.int32), groups.n)
    homes = generator.integers(0, BLOCKS, group.size).astype(np.int32)
    order = generator.permutation(group.size)
    noisy = measure(t, group[order], homes[order], RunKey.from_seed(1).stream("measure", 0))
    assert noisy.tolist() == np.bincount(group * 4 + homes // 3, minlength=12).tolist()
    fit = estimate([t], [noisy], groups, prior)
    jobs = [Rounding(fit).place(i, RunKey.from_seed(2).stream("round", 0)) for i in range(2)]
    assert np.concatenate(jobs).ravel().tolist() == noisy.tolist()
    cells = [Rounding(fit).homes(i, RunKey.from_seed(2).stream("round", 0)) for i in range(2)]
    place = np.repeat(np.arange(2, dtype=np.int32), [13, 9])
    first, _ = fit.domains(BLOCKS).bounds(place, np.concatenate(cells))
    assert np.bincount(group * 4 + first // 3, minlength=12).tolist() == noisy.tolist()


def test_three_tables_with_little_noise_are_all_met() -> None:
    generator = np.random.default_rng(6)
    place = np.repeat(np.arange(3, dtype=np.int32), 4)
    row = np.arange(12, dtype=np.int32)
    n = generator.integers(5, 40, row.size)
    groups = JobGroups(n, place, np.stack([row // 2, place * 2 + row % 2, row % 4]))
    cuts = ([0, 2, 4, 6, 8, 10], [0, 4, 8], [0, 4, 8])
    tables = [table(groups, k, domains(own), GeometricParameters(1, 200)) for k, own in enumerate(cuts)]
    of_job = np.repeat(np.arange(row.size), n)
    homes = generator.integers(0, BLOCKS, of_job.size).astype(np.int32)
    stream = RunKey.from_seed(1).stream("measure", 0)
    noisy = [measure(t, groups.member[k][of_job], homes, stream) for k, t in enumerate(tables)]
    fit = estimate(tables, noisy, groups, prior)
    for margin, counts in zip(fit.margins(), noisy, strict=True):
        assert np.abs(margin - counts).sum() < 0.03 * n.sum()


def test_layouts_have_the_cells_of_all_domains_and_their_areas() -> None:
    groups = JobGroups(np.array([3, 2]), np.zeros(2, np.int32), np.array([[0, 1], [0, 0]], np.int32))
    tables = [table(groups, 0, domains([0, 3, 6])), table(groups, 1, domains([0, 6]), None)]
    (layout,) = layouts(tables, groups)
    assert layout.cuts.tolist() == [0, 3, 6]
    assert layout.start.tolist() == [[0, 3], [0, 0]]
    assert layout.cell.tolist() == [[0, 1, 2], [0, 0, 1]]
    assert [area.tolist() for area in layout.areas()] == [[0, 0, 1]]
    (layout,) = layouts([tables[0], table(groups, 1, domains([0, 6, 7]), None)], groups)
    assert layout.cuts.tolist() == [0, 3, 6, 7]


def test_what_does_not_fit_is_refused() -> None:
    groups = JobGroups(np.array([3, 2]), np.zeros(2, np.int32), np.array([[0, 1]], np.int32))
    one = table(groups, 0, domains([0, 6]))
    kept = table(groups, 0, domains([0, 6]), None)
    other = MeasuredTable(np.array([3, 3]), one.domain, one.domains, SOME)
    for tables, noisy in ([[kept], []], [[one], []], [[other], [np.zeros(4, np.int64)]]):
        with pytest.raises(ValueError, match=r"measured table must come first|job groups do not make up"):
            estimate(tables, noisy, groups, prior)
    with pytest.raises(ValueError, match="nest"):
        JobGroups(groups.n, np.array([0, 1], np.int32), groups.member, (np.zeros(2, np.int32),))
    with pytest.raises(ValueError, match="at least one job"):
        MeasuredTable(np.array([0]), np.zeros(1, np.int32), one.domains, SOME)
    with pytest.raises(ValueError, match="unknown domain"):
        MeasuredTable(np.array([1]), np.ones(1, np.int32), one.domains, SOME)


def test_tables_that_contradict_each_other_have_finite_estimates() -> None:
    """Noise of 570 a cell, of few jobs: what one table says is nothing another has hundreds of."""
    n, random, seldom = np.array([782, 238]), np.random.default_rng(44), GeometricParameters(9975, 10000)
    own, together = np.arange(2, dtype=np.int32), np.zeros(2, np.int32)
    groups = JobGroups(n, own, np.stack([own, own, own, together]))
    tables = [table(groups, k, domains([0, 2, 4, 6, 8, 10]), seldom) for k in range(4)]
    noisy = []
    for of in tables:
        up, down = (random.geometric(0.0025, int(of.offsets[-1])) for _ in range(2))
        noisy.append(up - down)
    fit = estimate(tables, noisy, groups, lambda _, cuts: np.full(cuts.size, 1 / cuts.size))
    for place in range(2):
        assert fit.rows(place)[0].sum() == pytest.approx(n[place])
