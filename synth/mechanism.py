"""What a mechanism offers to the pipeline, and the guarantee it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synth.composition import compose, group_privacy
from synth.concentrated import LARGEST, delta_of, rho_of_group
from synth.plan import Domains, Parameters, Plan, Pools, Target
from synth.randomness import WordStream
from synth.rationals import decimal_up

if TYPE_CHECKING:
    from synth.geometric.measured import MeasuredTable


def _in_words(epsilon: Fraction, delta: Fraction) -> str:
    """Return an epsilon and a delta for people: six digits, rounded up."""
    return f"epsilon at most {decimal_up(epsilon, 6)}, delta at most {decimal_up(delta, 6)}"


@dataclass(frozen=True)
class ClassGuarantee:
    """The guarantee of every pool of one class; all bounds are upper ends, as exact fractions.

    A mechanism adds its own numbers in a class derived from this one.

    Attributes
    ----------
    pools : int
        Number of pools in the class.
    n_min, n_max, m_max : int
        Sizes of its pools and largest number of draws.
    cells : tuple of int
        Largest number of cells, per retention stratum where there are several.
    epsilon : Fraction
        The loss of one pool.
    delta : Fraction
        The probability that the loss of one pool exceeds epsilon.
    record_delta : Fraction
        The pool is (record_epsilon of the guarantee, record_delta)-differentially private for one record.
    of_all_records : bool
        Whether every record is in each class, as in each measured table, so that losses of classes add up;
        otherwise each is in a pool of one class, and the largest loss counts.
    """

    of_all_records: ClassVar[bool] = False
    pools: int
    n_min: int
    n_max: int
    m_max: int
    cells: tuple[int, ...]
    epsilon: Fraction
    delta: Fraction
    record_delta: Fraction

    def __repr__(self) -> str:
        limits = f"{self.pools:,} of {self.n_min:,} to {self.n_max:,} slots"
        return f"<{type(self).__name__}: pools, {limits}; {_in_words(self.epsilon, self.delta)} each>"

    @property
    def numbers(self) -> dict[str, tuple[Fraction, ...]]:
        """The mechanism's calibrated numbers, exact, under the names that a certificate gives them."""
        return {}

    @property
    def losses(self) -> dict[str, Fraction]:
        """Parts of epsilon, upper ends, under the names that a certificate gives them."""
        return {}


@dataclass(frozen=True)
class Presence:
    """What a plan guarantees between inputs of which one has one record more, at any work block.

    Attributes
    ----------
    epsilon, delta : Fraction
        Probabilistic differential privacy of the run, for every outcome of the lots that leave records out
        or fill pools up.
    record_epsilon, record_delta : Fraction
        Differential privacy of one record.
    """

    epsilon: Fraction
    delta: Fraction
    record_epsilon: Fraction
    record_delta: Fraction

    def __repr__(self) -> str:
        record = _in_words(self.record_epsilon, self.record_delta)
        return f"<Presence: {_in_words(self.epsilon, self.delta)} for the run; {record} for one record>"

    def repeated(self, runs: int) -> Presence:
        """Return that of several independent runs of a plan on the same records.

        Lemma 13 of docs/privacy.md.
        """
        epsilon, delta = compose([(self.epsilon, self.delta)] * runs)
        return Presence(epsilon, delta, *compose([(self.record_epsilon, self.record_delta)] * runs))


@dataclass(frozen=True)
class Guarantee:
    """What a plan guarantees, whatever the confidential data.

    Attributes
    ----------
    epsilon, delta : Fraction
        The run is (epsilon, delta)-probabilistically differentially private for one job record.
    record_epsilon, record_delta : Fraction
        The run is (record_epsilon, record_delta)-differentially private for one job record.
    curve : tuple of (Fraction, Fraction)
        Further pairs (epsilon, delta) at which the run is differentially private for one job record, by
        rising epsilon. The last has delta 0, which is pure differential privacy, where there is any.
    classes : tuple of ClassGuarantee
    presence : Presence, optional
        Where the number of records of each pool is confidential, the guarantee for one record more or less;
        all else is for another home of one record.
    rho : Fraction, optional
        The run is rho-zCDP for one job record. None of a mechanism that is not certified so.

    Examples
    --------
    Two pools of three and four workers, whose homes are counted in two cells of five blocks:

    >>> from fractions import Fraction
    >>> import synth
    >>> pools = synth.Pools(n=[3, 4], m=[3, 4], domain=[0, 0])
    >>> domains = synth.Domains(n_blocks=5, offsets=[0, 2], cuts=[0, 3], stratum=[0, 0])
    >>> mechanism = synth.MECHANISMS["geometric"]
    >>> plan = mechanism.calibrate(pools, domains, (Fraction(1),), synth.Target("2", "0"))
    >>> mechanism.certify(plan)
    <Guarantee: epsilon at most 2, delta at most 0 for the run; ...>
    """

    epsilon: Fraction
    delta: Fraction
    record_epsilon: Fraction
    record_delta: Fraction
    curve: tuple[tuple[Fraction, Fraction], ...]
    classes: tuple[ClassGuarantee, ...]
    presence: Presence | None = None
    rho: Fraction | None = None

    def __repr__(self) -> str:
        record = _in_words(self.record_epsilon, self.record_delta)
        more = "" if self.presence is None else f"; one record more or less: {self.presence!r}"
        return (
            f"<Guarantee: {_in_words(self.epsilon, self.delta)} for the run; {record} for one record{more}; "
            "the attributes are exact>"
        )

    @classmethod
    def of_classes(
        cls,
        classes: Iterable[ClassGuarantee],
        record_epsilon: Fraction,
        curve: Iterable[tuple[Fraction, Fraction]],
    ) -> Guarantee:
        """Compose pools of disjoint records and public slots.

        Lemma 8 of docs/privacy.md.

        The largest epsilon, and the sum of delta because the bad set must cover every neighbour of the
        whole input; of the person's delta the largest, because one record is in one pool.
        """
        rows = tuple(classes)
        return cls(
            epsilon=max(row.epsilon for row in rows),
            delta=min(sum((row.pools * row.delta for row in rows), Fraction(0)), Fraction(1)),
            record_epsilon=record_epsilon,
            record_delta=max(row.record_delta for row in rows),
            curve=tuple(curve),
            classes=rows,
        )

    def tightened(self) -> Guarantee:
        """Return the same guarantee with what its pure differential privacy says of the other numbers.

        Lemma 26 of docs/privacy.md.

        Returns
        -------
        Guarantee
            No epsilon is above that of the last point of the curve, and where one was, its delta is 0. The
            run has no delta of 1, which would say nothing. The record-level pair is on the curve. The classes
            are unchanged. Without pure differential privacy, all is unchanged.
        """
        pure = self.curve[-1]
        if pure[1] > 0:
            return self
        run = min((self.epsilon, self.delta), pure, key=lambda pair: pair[0]) if self.delta < 1 else pure
        record = min((self.record_epsilon, self.record_delta), pure, key=lambda pair: pair[0])
        return replace(
            self,
            epsilon=run[0],
            delta=run[1] if run[0] < pure[0] else pure[1],
            record_epsilon=record[0],
            record_delta=record[1] if record[0] < pure[0] else pure[1],
            curve=tuple(sorted({*(pair for pair in self.curve if pair[0] < pure[0]), record, pure})),
        )

    def repeated(self, runs: int) -> Guarantee:
        """Return the guarantee of several independent runs of a plan on the same records.

        Lemma 13 of docs/privacy.md.

        Parameters
        ----------
        runs : int
            At least 1.

        Returns
        -------
        Guarantee
            Every epsilon, delta and rho is `runs` times as large; the classes are still those of one run.
        """
        if runs < 1:
            raise ValueError("there must be at least one run")

        def together(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
            return compose([(epsilon, delta)] * runs)

        epsilon, delta = together(self.epsilon, self.delta)
        record_epsilon, record_delta = together(self.record_epsilon, self.record_delta)
        return replace(
            self,
            epsilon=epsilon,
            delta=delta,
            record_epsilon=record_epsilon,
            record_delta=record_delta,
            curve=tuple(together(*pair) for pair in self.curve),
            presence=None if self.presence is None else self.presence.repeated(runs),
            rho=None if self.rho is None else runs * self.rho,
        )

    def of_person(self, records: int) -> tuple[Fraction, Fraction]:
        """Return the differential privacy of a person with several records: of c, c times the epsilon of one.

        Parameters
        ----------
        records : int
            c, from 1 to 1,000.

        Returns
        -------
        (Fraction, Fraction)
            Epsilon and delta: of `group_privacy`, or by c^2 times rho, where the run has it.
        """
        if self.rho is None or records == 1:
            return group_privacy(self.record_epsilon, self.record_delta, records)
        epsilon, rho = records * self.record_epsilon, rho_of_group(self.rho, records)
        return epsilon, delta_of(rho, epsilon) if rho <= LARGEST else Fraction(1)

    def meets(self, plan: Plan, runs: int = 1) -> bool:
        """Say whether the guarantee that was requested is reached, by this many runs of the plan together.

        Where the numbers of records are confidential, it must be reached for one record more or less too.
        """
        target = plan.target
        epsilon, delta = compose([(target.epsilon, target.delta)] * runs)
        stated: list[Guarantee | Presence] = [self]
        if target.record_range is not None:
            if self.presence is None:
                return False
            stated.append(self.presence)
        if target.guarantee == "dp":
            return all(bound.record_epsilon <= epsilon and bound.record_delta <= delta for bound in stated)
        return all(bound.epsilon <= epsilon and bound.delta <= delta for bound in stated)


class Mechanism(ABC):
    """One way to turn confidential cells of pools into synthetic ones.

    A further mechanism is one module with a class derived from this one and an entry in `synth.MECHANISMS`;
    neither `geo_data` nor `pipelines` changes. It has `sample`, or `tables`.

    Attributes
    ----------
    name : str
    settings : frozenset of str
        What not every mechanism has and this one has. Keys of a configuration: "prior", "retention_min",
        "implicate_source"; "delta", if it may cost any, and "pure", if it need not; "rho", if it is certified
        by zCDP; "workplaces", if it takes
        confidential numbers of records, and "record_range", if its bounds then are for a range of them;
        "tiers", if more noise makes a weaker release of a stronger one;
        "tables", if it measures tables. Tables of areas then lose the noise of every cell that they add up,
        and sharing pools decides how much that is; otherwise they lose what drawing workers anew costs,
        however pools are shared.
    chosen : bool
        Whether a planner may choose it where no mechanism is named.
    words : str
        What homes are drawn at random from.
    delta_sharing : str
        How pools share the delta of the run, in words; ``{records}`` stands for what a pool has.
    """

    name: str
    settings: frozenset[str]
    chosen: bool = True
    words: str
    delta_sharing: str

    @abstractmethod
    def calibrate(
        self,
        pools: Pools,
        domains: Domains,
        retention: tuple[Fraction, ...],
        target: Target,
        *,
        rough: bool = False,
        count: Callable[[int, int], None] | None = None,
    ) -> Plan:
        """Return a plan whose certified totals meet the target.

        A mechanism may take further keywords: those of `settings`.

        Parameters
        ----------
        pools, domains : Pools, Domains
        retention : tuple of Fraction
            f in (0, 1] of each stratum that `domains` names.
        target : Target
        rough : bool
            For trials of plans: numbers may be a little off, and nothing is proved. `certify` says what such
            a plan has, which may be more than was asked for.
        count : callable, optional
            Told how many classes of pools are calibrated, and how many there are.

        Returns
        -------
        Plan

        Raises
        ------
        TypeError
            If a number is a float.
        ValueError
            If a number is outside its domain, or the mechanism does not have what is asked for.
        BudgetTooSmallError
            If nothing certifies the request; it says the smallest epsilon that would do.
        """

    @abstractmethod
    def parameters_from_json(self, data: dict[str, Any]) -> Parameters:
        """Read back what `Parameters.to_json` returned."""

    @abstractmethod
    def certify(self, plan: Plan) -> Guarantee:
        """Compute the guarantee from the plan alone, rounded up."""

    @abstractmethod
    def noise_share(self, plan: Plan) -> float:
        """Return the expected share of synthetic workers that carry no confidential information."""

    @abstractmethod
    def explain(self, plan: Plan, guarantee: Guarantee) -> tuple[str, str]:
        """Say in words what is added to the cells, and what epsilon pays for."""

    def as_of_all(self, plan: Plan, share: float) -> Plan:
        """Return the plan of a sample, a share of all records, with noise as small beside counts as in all.

        For trials, in floats: of tables that count records of many pools, of which the sample has few.
        """
        return plan

    def class_of(self, plan: Plan, pools: Pools) -> NDArray[np.int32]:
        """Return the class of each of other pools, which a release has in place of those of its plan."""
        return np.zeros(pools.n_pools, np.int32)

    def tables(self, plan: Plan) -> tuple[MeasuredTable, ...]:
        """Return the tables of which noisy counts are published, from which homes are estimated.

        None, of a mechanism that draws cells of synthetic workers itself (`sample`).
        """
        return ()

    def sample(
        self,
        plan: Plan,
        pools: slice,
        cells: NDArray[np.int32],
        stream: WordStream,
        sizes: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Draw the synthetic workers' cells of a run of consecutive pools, where the plan has no `tables`.

        Parameters
        ----------
        plan : Plan
        pools : slice
            Consecutive pools of the plan.
        cells : ndarray of int32
            **Confidential**: cell of every real worker, pool after pool.
        stream : WordStream
        sizes : ndarray of int64, optional
            **Confidential**: number of real workers of each of these pools, for a plan with a
            `Plan.record_range`. By default the slots of each.

        Returns
        -------
        ndarray of int32
            Cell of every synthetic worker, pool after pool, in random order inside a pool: the t-th draw may
            be given to the t-th slot.

        Raises
        ------
        ValueError
            If the number of workers is not what the plan says, or a cell is not one of the pool's domain.
        """
        raise NotImplementedError(f"the mechanism {self.name} measures tables")
