"""The numeric part of a public plan: domains of cells, pools, and what the mechanism does to them.

Everything here is computed from public inputs; no function of this module can be handed a
confidential array. Words and symbols are those of docs/privacy.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from synth.arrays import integers, offsets_of, search_segments, segment_order
from synth.policy import FULL, Policy
from synth.rationals import check_budget, decimal_down, decimal_up, exact

if TYPE_CHECKING:
    from synth.geometric.measured import MeasuredTable

GuaranteeName = Literal["pdp", "dp"]


@dataclass(frozen=True, eq=False)
class Domains:
    """Coarsened origin domains, each a partition of the blocks of one part into cells.

    Attributes
    ----------
    n_blocks : int
        Number of blocks of the public geography.
    offsets : ndarray of int64, shape (n_domains + 1,)
        Cells of domain d stand at ``offsets[d]:offsets[d + 1]`` of `cuts` and `stratum`.
    cuts : ndarray of int32, shape (n_cells,)
        First block of each cell; strictly increasing inside a domain, beginning with the first of its part.
    stratum : ndarray of uint8, shape (n_cells,)
        Retention stratum of each cell, an index into the retentions of the mechanism.
    policy : Policy
        Under "full" there is one part, all blocks.
    """

    n_blocks: int
    offsets: NDArray[np.int64]
    cuts: NDArray[np.int32]
    stratum: NDArray[np.uint8]
    policy: Policy = FULL

    def __repr__(self) -> str:
        return f"<Domains: {self.n_domains:,} of {self.n_blocks:,} blocks, {self.cuts.size:,} cells>"

    def __post_init__(self) -> None:
        for name, kind in (("offsets", np.int64), ("cuts", np.int32), ("stratum", np.uint8)):
            object.__setattr__(self, name, integers(getattr(self, name), kind, name))
        if self.n_blocks < 1 or self.offsets.ndim != 1 or self.offsets.size < 2 or self.offsets[0] != 0:
            raise ValueError("there must be at least one block and one domain")
        if self.cuts.shape != (self.offsets[-1],) or self.stratum.shape != self.cuts.shape:
            raise ValueError("cuts and strata do not match the offsets of the domains")
        if self.policy.reach is not None and self.policy.reach.size != self.n_blocks:
            raise ValueError("the edges of the policy are between other blocks")
        first = self.offsets[:-1]
        if np.any(np.diff(self.offsets) < 1) or not np.isin(self.cuts[first], self.policy.parts).all():
            where = "block 0" if self.policy.n_parts == 1 else "the first block of a part"
            raise ValueError(
                f"every domain must have at least one cell, and its first cell must begin at {where}"
            )
        step = np.diff(self.cuts) > 0
        step[first[1:] - 1] = True
        if not step.all() or np.any(self.cuts[self.offsets[1:] - 1] >= self.ends):
            where = "number of blocks" if self.policy.n_parts == 1 else "end of its part"
            raise ValueError(f"cuts must increase inside a domain and stay below the {where}")

    @classmethod
    def of_parts(cls, n_blocks: int, starts: NDArray[np.integer], policy: Policy) -> Domains:
        """Return a domain for each part of a policy, all of one stratum.

        Parameters
        ----------
        n_blocks : int
        starts : ndarray of int
            First block of each cell, rising from 0; a part begins a cell too.
        policy : Policy
        """
        cells = [policy.within(starts.astype(np.int32), part) for part in range(policy.n_parts)]
        return cls.of_cells(n_blocks, cells, policy)

    @classmethod
    def of_cells(cls, n_blocks: int, cells: Sequence[NDArray[np.int32]], policy: Policy) -> Domains:
        """Return domains of these cells, all of one stratum; parameters as for `of_parts`."""
        cuts, offsets = np.concatenate(cells), offsets_of(np.array([starts.size for starts in cells]))
        return cls(n_blocks, offsets, cuts, np.zeros(cuts.size, np.uint8), policy)

    @property
    def n_domains(self) -> int:
        """Number of domains."""
        return self.offsets.size - 1

    @cached_property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of cells k of each domain, shape (n_domains,)."""
        return np.diff(self.offsets)

    @cached_property
    def part(self) -> NDArray[np.int32]:
        """Part that each domain is of, shape (n_domains,)."""
        return self.policy.part(self.cuts[self.offsets[:-1]])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The block past the last one of each domain, shape (n_domains,)."""
        return self.policy.ends(self.n_blocks)[self.part]

    @cached_property
    def strata_counts(self) -> NDArray[np.int64]:
        """Cells of each domain in each stratum, shape (n_domains, n_strata)."""
        strata = range(1, int(self.stratum.max()) + 1)
        first = self.offsets[:-1]  # no domain is empty
        counts = [np.add.reduceat(self.stratum == s, first, dtype=np.int32) for s in strata]
        return np.stack([self.n_cells - sum(counts), *counts], axis=1)

    def locate(self, domain: NDArray[np.int32], blocks: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the cell (number inside its domain) of each block.

        Parameters
        ----------
        domain : ndarray of int32, shape (n,)
            Domain of each entry; long runs of one domain are fastest.
        blocks : ndarray of int32, shape (n,)
            Block numbers.

        Returns
        -------
        ndarray of int32, shape (n,)

        Raises
        ------
        ValueError
            If a block number is out of range, or in another part than its domain.
        """
        if blocks.size and (blocks.min() < 0 or blocks.max() >= self.n_blocks):
            raise ValueError("a block is not in the geography")
        if self.policy.n_parts > 1 and np.any(self.policy.part(blocks) != self.part[domain]):
            raise ValueError("a block is in another part than its domain")
        first = self.offsets.take(domain)
        position = search_segments(self.cuts, blocks, first, self.offsets[1:].take(domain))
        return (position - first).astype(np.int32)

    def bounds(
        self, domain: NDArray[np.int32], cells: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first block of each cell and the block past its last one (int64, shape (n,))."""
        position = self.offsets.take(domain) + cells
        first = self.cuts.take(position).astype(np.int64)
        position += 1
        stop = self.cuts.take(position, mode="clip").astype(np.int64)
        last = np.flatnonzero(position == self.offsets[1:].take(domain))
        stop[last] = self.ends[domain[last]]
        return first, stop

    @cached_property
    def cells_by_stratum(self) -> NDArray[np.int32]:
        """Cell numbers of each domain ordered by stratum, shape (n_cells,), at the same offsets."""
        return segment_order(self.stratum, self.offsets)


@dataclass(frozen=True, eq=False)
class Pools:
    """The urns of a run.

    Attributes
    ----------
    n : ndarray of int64, shape (n_pools,)
        Slots (public number of job records) of each pool, at least 1.
    m : ndarray of int64, shape (n_pools,)
        Synthetic workers drawn from each pool, at least 1.
    domain : ndarray of int32, shape (n_pools,)
        Domain of each pool.
    """

    n: NDArray[np.int64]
    m: NDArray[np.int64]
    domain: NDArray[np.int32]

    def __repr__(self) -> str:
        return f"<Pools: {self.n_pools:,} of {self.n_records:,} records, {int(self.m.sum()):,} draws>"

    def __post_init__(self) -> None:
        for name, kind in (("n", np.int64), ("m", np.int64), ("domain", np.int32)):
            object.__setattr__(self, name, integers(getattr(self, name), kind, name))
        if not (self.n.shape == self.m.shape == self.domain.shape) or self.n.ndim != 1 or self.n.size == 0:
            raise ValueError("every pool needs n, m and a domain, and there must be at least one pool")
        if self.n.min() < 1 or self.m.min() < 1 or self.domain.min() < 0:
            raise ValueError("every pool must have at least one slot and one draw")

    @property
    def n_pools(self) -> int:
        """Number of pools."""
        return self.n.size

    @property
    def n_records(self) -> int:
        """Total number of job records."""
        return int(self.n.sum())


@dataclass(frozen=True, eq=False)
class Table:
    """A table of jobs by group and home cell.

    Attributes
    ----------
    n : ndarray of int64, shape (n_groups,)
        Public number of jobs of each group, at least 1.
    domain : ndarray of int32, shape (n_groups,)
        Domain of each group: its cells.
    domains : Domains
    """

    n: NDArray[np.int64]
    domain: NDArray[np.int32]
    domains: Domains

    def __repr__(self) -> str:
        return f"<Table: {self.n.size:,} groups of {int(self.n.sum()):,} jobs; {self.domains!r}>"

    def __post_init__(self) -> None:
        for name, kind in (("n", np.int64), ("domain", np.int32)):
            object.__setattr__(self, name, integers(getattr(self, name), kind, name))
        if self.n.ndim != 1 or self.n.shape != self.domain.shape or self.n.size == 0 or self.n.min() < 1:
            raise ValueError("every group of a table must have at least one job, and a domain")
        if self.domain.min() < 0 or self.domain.max() >= self.domains.n_domains:
            raise ValueError("a group names an unknown domain")

    @cached_property
    def k(self) -> NDArray[np.int64]:
        """Number of cells of each group, shape (n_groups,)."""
        return self.domains.n_cells[self.domain]

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the counts of each group begin, and the last ones end, shape (n_groups + 1,)."""
        return offsets_of(self.k)


@dataclass(frozen=True)
class RecordRange:
    """How many records a pool may hold where that is confidential, as multiples of its public slots.

    Attributes
    ----------
    fewest, most : Fraction
        0 < fewest <= 1 <= most. A mechanism that needs the range is given no other number of records: of
        more, some are left out by lot; to fewer, homes drawn from the public model are added.
    """

    fewest: Fraction
    most: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "fewest", exact(self.fewest, "fewest"))
        object.__setattr__(self, "most", exact(self.most, "most"))
        if not 0 < self.fewest <= 1 <= self.most:
            raise ValueError("a range of records must satisfy 0 < fewest <= 1 <= most")

    def __repr__(self) -> str:
        return f"<RecordRange: {decimal_down(self.fewest, 6)} to {decimal_up(self.most, 6)} times the slots>"

    def limits(self, n: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the fewest and the most records of pools of n slots, whole numbers of at least 1.

        Parameters
        ----------
        n : ndarray of int64, shape (n_pools,)

        Returns
        -------
        least, most : ndarray of int64, shape (n_pools,)
            The multiples of n, rounded outwards.

        Raises
        ------
        OverflowError
            If a number does not fit 63 bits.
        """
        sizes, position = np.unique(n, return_inverse=True)
        least = [max(1, math.floor(self.fewest * size)) for size in sizes.tolist()]
        most = [math.ceil(self.most * size) for size in sizes.tolist()]
        return np.array(least, np.int64)[position], np.array(most, np.int64)[position]


@dataclass(frozen=True)
class Target:
    """What a plan is to guarantee.

    Attributes
    ----------
    epsilon, delta : Fraction
        The totals of the run, exact (a float is refused): 0 < epsilon <= 100, 0 <= delta < 1. The certificate
        states what is reached.
    guarantee : {"pdp", "dp"}
        Of what these are: probabilistic differential privacy of the run, or differential privacy of one
        record.
    record_range : RecordRange, optional
        Where the number of records of each pool is confidential, and may differ from its public slots: then
        all is for one record more or less too. Otherwise each pool has one record for each slot.
    protects : {"home", "record"}
        What neighbours differ in: the home of one record; or all of it, its workplace and its attributes
        too, for which numbers of records must be confidential.
    """

    epsilon: Fraction
    delta: Fraction
    guarantee: GuaranteeName = "pdp"
    record_range: RecordRange | None = None
    protects: Literal["home", "record"] = "home"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        check_budget(self.epsilon, self.delta)
        if self.guarantee not in ("pdp", "dp"):
            raise ValueError(f'the guarantee must be "pdp" or "dp", not {self.guarantee!r}')
        if self.protects not in ("home", "record"):
            raise ValueError(f'"home" or "record" must be protected, not {self.protects!r}')
        if self.protects == "record" and self.record_range is None:
            raise ValueError("whole records can be protected only where their number is protected")

    @property
    def changed_pools(self) -> int:
        """In how many pools neighbours may differ: a whole record may leave one pool and enter another."""
        return 2 if self.protects == "record" else 1

    def __repr__(self) -> str:
        of = "the run" if self.guarantee == "pdp" else "one record"
        numbers = f"epsilon {decimal_up(self.epsilon, 6)}, delta {decimal_up(self.delta, 6)}"
        return f"<Target: {numbers} of {of}; rounded up, the attributes are exact>"


class Parameters(Protocol):
    """What a mechanism adds to pools and domains; immutable, and JSON-able without loss."""

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary of integers, texts and lists that `from_json` of the mechanism reads."""
        ...


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything the mechanism will do, from public inputs only.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism, a key of `synth.MECHANISMS`.
    target : Target
        What was asked for.
    pools : Pools
    domains : Domains
    pool_class : ndarray of int32, shape (n_pools,)
        Class of each pool: pools of one class share the mechanism's numbers and one bound.
    parameters : Parameters
        The mechanism's own calibrated numbers, one entry a class.
    secondary : tuple of Table
        Secondary tables of the same records, for a mechanism that measures tables: its first
        one is that of the pools and domains.
    workplaces : tuple of MeasuredTable
        Tables of workplaces that are measured before homes are, where more of a record is protected than
        its home: each record is in one cell of each of them, or in none. What `pools` and tables of homes are
        then follows from their noisy counts; here they have the numbers of slots that are expected.
    """

    mechanism: str
    target: Target
    pools: Pools
    domains: Domains
    pool_class: NDArray[np.int32]
    parameters: Parameters
    secondary: tuple[Table, ...] = ()
    workplaces: tuple[MeasuredTable, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pool_class", integers(self.pool_class, np.int32, "pool_class"))
        if int(self.pools.domain.max()) >= self.domains.n_domains:
            raise ValueError("a pool names an unknown domain")
        if self.pool_class.shape != self.pools.n.shape or self.pool_class.min() < 0:
            raise ValueError("every pool needs a class")
        if any(table.n.sum() != self.pools.n.sum() for table in self.secondary):
            raise ValueError("every table must have all slots")
        policy = self.domains.policy
        if self.workplaces and not self.changes_workplaces:
            raise ValueError("workplaces can be measured only where more than homes is protected")
        if policy.secret and not self.workplaces:
            raise ValueError("secret attributes must be measured before homes")
        for other in (table.domains.policy for table in self.secondary):
            if not np.array_equal(other.parts, policy.parts):
                raise ValueError("the cells of every table must be under the policy of the pools")
        if self.target.record_range is not None:
            for forbidden, words in (
                (policy.n_parts > 1, "have no public parts"),
                (policy.reach is not None, "go with no policy of edges"),
                (bool(policy.secret), "go with no secret attributes"),
            ):
                if forbidden:
                    raise ValueError(f"numbers of records that are confidential {words}")

    @property
    def changes_workplaces(self) -> bool:
        """Whether neighbours may differ in more than a home, and so in every measured table."""
        return self.target.protects == "record" or bool(self.domains.policy.secret)

    def __repr__(self) -> str:
        return (
            f"Plan({self.mechanism}: {self.pools.n_pools} pools, {self.pools.n_records} "
            f"{'records' if self.target.record_range is None else 'slots'}, "
            f"{self.domains.n_domains} domains, {self.domains.cuts.size} cells)"
        )

    @property
    def k(self) -> NDArray[np.int64]:
        """Number of cells of each pool, shape (n_pools,)."""
        return self.domains.n_cells[self.pools.domain]
