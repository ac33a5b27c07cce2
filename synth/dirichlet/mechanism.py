"""Dirichlet resampling with pruning: the mechanism as one object for the pipeline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth.arrays import offsets_of
from synth.dirichlet.calibration import (
    BudgetTooSmallError,
    Goal,
    ProvedLoss,
    alike_classes,
    calibrate_class,
    classes_of_all_sizes,
    group_pools,
    proved_loss,
    smallest_epsilon,
)
from synth.dirichlet.losses import (
    PoolClass,
    empty_threshold,
)
from synth.dirichlet.parameters import (
    DirichletClass,
    DirichletParameters,
    check_membership,
    check_retention,
    class_by_size,
    strata_counts,
)
from synth.dirichlet.record import presence_delta_bound, pure_gain, record_delta_bound
from synth.dirichlet.urn import Urns, sample_cells
from synth.geometric.mechanism import noise_loss
from synth.geometric.workplaces import calibrated_workplaces, epsilon_of_homes, with_workplaces
from synth.mechanism import Guarantee, Mechanism, Presence
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.randomness import WordStream
from synth.rationals import decimal_up, exact
from synth.tails import rigorous, upper_fraction

# Where the curve of a person's (epsilon, delta) is computed, as parts of the requested epsilon.
_CURVE = (Fraction(1, 2), Fraction(3, 4), Fraction(5, 4), Fraction(3, 2))

_Calibrated = Callable[[PoolClass, bool, Fraction], PoolClass | None]


class Dirichlet(Mechanism):
    """Prune, add Dirichlet noise, resample: steps 1 to 3 of "Dirichlet resampling" in docs/privacy.md."""

    name = "dirichlet"
    settings = frozenset(
        {"prior", "retention_min", "implicate_source", "delta", "pure", "workplaces", "record_range"}
    )
    words = "a distribution that the confidential records shaped, with noise"
    delta_sharing = (
        "With a guarantee of the run, a pool with n of the run's N {records} may fail with probability at "
        "most delta n / N; with one of a record, each pool has delta."
    )

    def calibrate(
        self,
        pools: Pools,
        domains: Domains,
        retention: tuple[Fraction, ...],
        target: Target,
        *,
        rough: bool = False,
        count: Callable[[int, int], None] | None = None,
        prior: Fraction | None = None,
        multiple: tuple[int, ...] | None = None,
        workplaces: Sequence[tuple[Table, Fraction]] = (),
        most_pools: int | None = None,
    ) -> Plan:
        """Choose priors so that the certified totals meet the target.

        For "pdp", each pool of n of the run's N {records} may fail with probability delta n / N; for "dp"
        each pool may have delta, because one record is in one pool. With a range of records, a pool counts
        with the fewest that it may have. Parameters and errors are those of `Mechanism.calibrate`; beside
        them, `prior` is that of every cell, by default the smallest that is certified; `multiple` says how
        many times the smallest the cells of each stratum have, by default 1: more noise than is needed, where
        it does no harm. Tables of `workplaces` are measured first, each with its share of epsilon.

        Where whole records are protected, pools follow from noisy counts, and there are at most `most_pools`.
        Classes are then for pools of every size, up to at least four times the largest one of these. A record
        may change two pools: each has half of the epsilon that workplaces leave, and for "dp" half of delta;
        for "pdp" it may fail with probability delta / `most_pools`.
        """
        delta, guarantee, record_range = target.delta, target.guarantee, target.record_range
        retention = tuple(exact(f, "retention") for f in retention)
        prior = None if prior is None else exact(prior, "prior")
        if prior is not None and prior <= 0:
            raise ValueError("prior must be positive")
        check_retention(retention)
        multiple = (1,) * len(retention) if multiple is None else multiple
        if len(multiple) != len(retention) or min(multiple) < 1 or (prior is not None and max(multiple) > 1):
            raise ValueError("every stratum has a multiple of at least 1, and of a prior that is set 1")
        if domains.strata_counts.shape[1] > len(retention):
            raise ValueError("a cell names a retention stratum that was not given")
        cells = strata_counts(domains, retention, pools.domain)
        if (most_pools is None) != (target.protects == "home"):
            raise ValueError("most_pools is given where, and only where, whole records are protected")
        measured = calibrated_workplaces(workplaces, target.epsilon)
        epsilon = epsilon_of_homes(target, measured)
        limits = None if record_range is None else record_range.limits(pools.n)
        if most_pools is None or rough or record_range is None:
            pool_class, classes = group_pools(pools, cells, retention, limits, multiple, rough)
            needed = len(classes)
        else:
            classes, needed = classes_of_all_sizes(int(pools.n.max()), cells, retention, record_range)
            pool_class = class_by_size(DirichletParameters(tuple(classes)), pools)
        alike = _alike(pool_class, pools, classes, record_range)
        records = pools.n_records

        calibrated_classes: list[PoolClass] = []

        def calibrated(c: PoolClass, alike: bool, budget: Fraction) -> PoolClass | None:
            near = empty_threshold(calibrated_classes[-1]) if calibrated_classes else 1
            if guarantee == "dp":
                allowance = delta / target.changed_pools
            else:
                allowance = delta * c.n_min / records if most_pools is None else delta / most_pools
            goal = Goal(budget, allowance, prior, guarantee, record_range is not None, alike, rough, multiple)
            return _calibrated(c, goal, near)

        for c, identical in zip(classes, alike, strict=True):  # neighbours in size follow one another
            calibrated_class = calibrated(c, identical, epsilon)
            if calibrated_class is None and len(calibrated_classes) >= needed:
                break
            if calibrated_class is None:
                of_classes, part = list(zip(classes, alike, strict=True)), epsilon / target.epsilon
                raise _too_small(of_classes, calibrated, target.epsilon, prior, part)
            calibrated_classes.append(calibrated_class)
            if count is not None:
                count(len(calibrated_classes), len(classes))
        parameters = DirichletParameters(tuple(calibrated_classes), most_pools)
        return Plan(self.name, target, pools, domains, pool_class, parameters, workplaces=measured)

    def parameters_from_json(self, data: dict[str, Any]) -> DirichletParameters:
        """Read the parameters of a stored plan."""
        return DirichletParameters.from_json(data)

    def certify(self, plan: Plan) -> Guarantee:
        """Compute the guarantee of a plan from the plan alone, in ball arithmetic, rounded up.

        Checks first that every pool is inside the limits of its class, so that the class's bound is
        the pool's. eps is the maximum over classes of U* + V; delta the sum over pools of F
        (`proved_loss`); the person's delta the smaller of the largest tail and `record_delta_bound`. With a
        range of records the classes' limits are of records, and all numbers hold for one record more or less
        too (`presence_delta_bound`). Where workplaces are measured, their noise is added (`with_workplaces`).

        Raises
        ------
        ValueError
            If a pool is outside its class, an urn's weights do not fit the sampler, or the plan has further
            measured tables.
        """
        parameters = _parameters(plan)
        check_membership(plan, parameters)
        if plan.secondary:
            raise ValueError("this mechanism draws from pools and measures no secondary tables")
        number_of_pools = np.bincount(plan.pool_class, minlength=len(parameters.classes))
        presence = plan.target.record_range is not None
        alike = _alike(plan.pool_class, plan.pools, parameters.classes, plan.target.record_range)
        epsilon = epsilon_of_homes(plan.target, plan.workplaces)
        bounds = [
            _bounds(c, epsilon, presence, is_alike)
            for c, is_alike in zip(parameters.classes, alike, strict=True)
        ]
        rows = [
            DirichletClass(
                pools=count,
                n_min=c.n_min,
                n_max=c.n_max,
                m_max=c.m_max,
                cells=c.cells,
                prior=tuple(Fraction(a, c.denominator) for a in c.prior),
                retention=c.retention,
                block_loss=bound.proved.block_loss,
                pruning_loss=bound.proved.pruning_loss,
                epsilon=bound.proved.loss,
                delta=bound.proved.failure,
                # The tail is a delta at the class's own loss: of use where that is not above.
                record_delta=(
                    min(bound.proved.tail, bound.person)
                    if bound.proved.loss <= epsilon and not presence
                    else bound.person
                ),
            )
            for c, count, bound in zip(parameters.classes, number_of_pools.tolist(), bounds, strict=True)
        ]
        epsilons = [epsilon * part for part in _CURVE]
        curve = [(e, max(bound.curve[i] for bound in bounds)) for i, e in enumerate(epsilons)]
        pure = max(bound.pure for bound in bounds)
        curve = [(e, d) for e, d in curve if e < pure] + [(pure, Fraction(0))]
        total = Guarantee.of_classes(rows, epsilon, curve)
        if parameters.most_pools is not None:
            worst = max(row.delta for row in rows)
            total = replace(total, delta=min(parameters.most_pools * worst, Fraction(1)))
        if presence:
            tight = total.tightened()  # the pure epsilon, too, is for one record more or less
            record_more = Presence(tight.epsilon, tight.delta, tight.record_epsilon, tight.record_delta)
            total = replace(total, presence=record_more)
        return with_workplaces(total, plan) if plan.changes_workplaces else total

    def class_of(self, plan: Plan, pools: Pools) -> NDArray[np.int32]:
        """Return the class of each of other pools by size; where workplaces are public these are the same."""
        if plan.target.protects == "home":
            if not np.array_equal(pools.n, plan.pools.n):
                raise ValueError("where workplaces are public, pools must have their public numbers of slots")
            return plan.pool_class
        return class_by_size(_parameters(plan), pools)

    def noise_share(self, plan: Plan) -> float:
        """Return the expected share of synthetic workers who are drawn as noise (not a bound).

        Per pool, noise mass over urn weight at the expected retained mass, weighted by draws.
        """
        parameters = _parameters(plan)
        prior = parameters.prior / parameters.denominator
        retained = np.array([float(f) for f in parameters.retention])
        strata = strata_counts(plan.domains, parameters.retention, plan.pools.domain)
        mass = (prior[plan.pool_class] * retained * strata).sum(axis=1)
        return float(np.average(mass / (mass + plan.pools.n), weights=plan.pools.m))

    def explain(self, plan: Plan, guarantee: Guarantee) -> tuple[str, str]:
        """Say what priors and retentions cells have, and what epsilon pays for where pruning costs most."""
        rows = [row for row in guarantee.classes if isinstance(row, DirichletClass)]
        worst = max(rows, key=lambda row: (row.pruning_loss, row.epsilon))
        smallest = min(f for f, k in zip(worst.retention, worst.cells, strict=True) if k)
        pruning = math.log(1 / smallest)
        priors = [float(a) for row in rows for a, k in zip(row.prior, row.cells, strict=True) if k]
        cells: Counter[Fraction] = Counter()
        for f, k in zip(worst.retention, plan.domains.strata_counts.sum(axis=0).tolist(), strict=False):
            cells[f] += k
        kept = (f"{decimal_up(f)} ({k:,})" for f, k in cells.items())
        before = ""
        if plan.workplaces:
            lost = sum(float(noise_loss(table.parameters.ratio)) for table in plan.workplaces)
            times = "twice " if plan.target.changed_pools == 2 else ""
            before = f"workplaces {lost:.3f}, and {times}that of a pool: "
        return (
            f"prior {min(priors):.2g} to {max(priors):.2g} fake workers a cell; "
            f"retention (and cells): {', '.join(kept)}",
            f"{before}noise {float(worst.block_loss) - pruning:.3f}, "
            f"retention ln(1/{decimal_up(smallest)}) = {pruning:.3f}, "
            f"pruning V = {float(worst.pruning_loss):.3f}",
        )

    def urns(self, plan: Plan, pools: slice, sizes: NDArray[np.int64] | None = None) -> Urns:
        """Return the urns of a run of consecutive pools, for `synth.dirichlet.urn.sample_cells`."""
        parameters = _parameters(plan)
        # Of a nation's domains a batch has few, and there are many batches.
        domains, domain = np.unique(plan.pools.domain[pools], return_inverse=True)
        inside = strata_counts(plan.domains, parameters.retention, domains).cumsum(axis=1)
        first = plan.domains.offsets[domains, None]
        return Urns(
            denominator=parameters.denominator,
            offsets=offsets_of(plan.pools.n[pools] if sizes is None else sizes),
            draw_offsets=offsets_of(plan.pools.m[pools]),
            prior=parameters.prior[plan.pool_class[pools]],
            coin=np.array([[f.numerator, f.denominator] for f in parameters.retention], np.int64),
            domain=domain.astype(np.int32),
            cells_by_stratum=plan.domains.cells_by_stratum,
            stratum_offsets=np.concatenate([first, first + inside], axis=1),
        )

    def sample(
        self,
        plan: Plan,
        pools: slice,
        cells: NDArray[np.int32],
        stream: WordStream,
        sizes: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Draw synthetic cells (`Mechanism.sample`) from **confidential** ones by `sample_cells`.

        Raises
        ------
        ValueError
            As `Mechanism.sample`; and if a pool has fewer or more workers than the plan's bounds are for:
            `synth.randomness` brings them into the range.
        """
        n, record_range = plan.pools.n[pools], plan.target.record_range
        if sizes is None:
            sizes = n
        elif record_range is None:
            raise ValueError("the plan has no range of records: every pool has a worker for each slot")
        if sizes.shape != n.shape:
            raise ValueError("the number of workers of a batch is not the number of slots of its pools")
        if record_range is not None:
            least, most = record_range.limits(n)
            if np.any((sizes < least) | (sizes > most)):
                raise ValueError("a pool has fewer or more workers than the bounds of the plan are for")
        return sample_cells(self.urns(plan, pools, sizes), cells, stream)


# The planner tries many plans that share most of their classes.
_calibrated = lru_cache(maxsize=8192)(calibrate_class)


class _Bounds(NamedTuple):
    """What is certified of a class, upper ends."""

    proved: ProvedLoss
    person: Fraction  # delta at the requested epsilon
    curve: tuple[Fraction, ...]  # delta at its parts
    pure: Fraction


@lru_cache(maxsize=8192)  # a run certifies its plan, and then what it wrote
def _bounds(c: PoolClass, epsilon: Fraction, presence: bool, alike: bool) -> _Bounds:
    bound = presence_delta_bound if presence else partial(record_delta_bound, alike=alike)
    proved = proved_loss(c, alike)
    with rigorous() as balls:

        def person(at_epsilon: Fraction) -> Fraction:
            return min(upper_fraction(bound(c, at_epsilon, balls)), Fraction(1))

        return _Bounds(
            proved=proved,
            person=person(epsilon),
            curve=tuple(person(epsilon * part) for part in _CURVE),
            pure=upper_fraction(balls.log(pure_gain(c, balls))),
        )


def _alike(
    pool_class: NDArray[np.int32],
    pools: Pools,
    classes: Sequence[PoolClass],
    record_range: RecordRange | None,
) -> list[bool]:
    """Say of each class whether its pools are alike and their numbers of records public."""
    alike = alike_classes(pool_class, pools.m, classes)
    return alike if record_range is None else [False] * len(alike)


def _parameters(plan: Plan) -> DirichletParameters:
    if not isinstance(plan.parameters, DirichletParameters):
        raise TypeError("the plan is not one of Dirichlet resampling")
    return plan.parameters


def _certifies(calibrated: _Calibrated, c: PoolClass, alike: bool, epsilon: Fraction) -> bool:
    return calibrated(c, alike, epsilon) is not None


def _too_small(
    classes: Iterable[tuple[PoolClass, bool]],
    calibrated: _Calibrated,
    epsilon: Fraction,
    prior: Fraction | None,
    part: Fraction,
) -> BudgetTooSmallError:
    """Say what would do: raise epsilon, of which a pool has a part, until every class is certified."""

    def find() -> Fraction | None:
        smallest: Fraction | None = epsilon * part
        for c, alike in classes:
            if smallest is not None and calibrated(c, alike, smallest) is None:
                certifies = partial(_certifies, calibrated, c, alike)
                smallest = smallest_epsilon(certifies, smallest)
        return None if smallest is None else smallest / part

    rule = "no prior certifies" if prior is None else f"the prior {prior} does not certify"
    return BudgetTooSmallError(f"{rule} epsilon {decimal_up(epsilon)} with this delta and retention", find)
