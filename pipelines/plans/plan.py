"""The public plan of a release, and the batches in which its pools are drawn and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import synth
from geo_data.geography import Geography
from geo_data.jobs import Slots
from geo_data.pools import PoolTable, build_pools
from pipelines.config.implicates import Implicates
from pipelines.config.loading import PublicConfig
from pipelines.config.policies import DistancePolicy, FullPolicy
from pipelines.ledger.terms import ANYWHERE
from pipelines.plans.exact import ExactNumbers, count_exact
from pipelines.plans.history import History
from pipelines.plans.measured import MeasuredGroups, TableChoice, group_jobs, table_in_words
from pipelines.plans.workplaces import MeasuredWorkplaces
from synth.arrays import find_keys
from synth.block_sampling import OriginShares, cumulative_weights
from synth.policy import FULL, parts_of_reach

_BATCH_JOBS = 100_000
_MOST_BATCHES = 1_500
_HASHED_BLOCKS = 100_000


@dataclass(frozen=True)
class Choices:
    """What the planner chose, from public inputs.

    Attributes
    ----------
    pool_level : str
        Level whose units gather their small blocks.
    pool_below : int
        Blocks with fewer jobs share the urn of their unit.
    thresholds : tuple of float
        Expected workers of a cell, for pools of 1, 2-3, 4-7, ... slots; the last one serves all larger. None
        where cells are units.
    pool_by : tuple of str
        Attributes whose categories have pools of their own.
    cell_level : str or None
        Level whose units are the cells, where the rule is "units".
    tables : tuple of TableChoice
        Secondary tables that are measured, for a mechanism that measures tables.
    workplaces : tuple of TableChoice
        Tables of workplaces that are measured first, where more than homes is protected: all jobs by all
        attributes, and others.
    mechanism : str or None
        The mechanism, where the configuration leaves it open.
    """

    pool_level: str
    pool_below: int
    thresholds: tuple[float, ...]
    pool_by: tuple[str, ...] = ()
    cell_level: str | None = None
    tables: tuple[TableChoice, ...] = ()
    workplaces: tuple[TableChoice, ...] = ()
    mechanism: str | None = None

    def threshold(self, size: float) -> float:
        """Return the expected workers of a cell in a pool of `size` slots."""
        return self.thresholds[min(int(np.log2(size)), len(self.thresholds) - 1)]


def policy_of(config: PublicConfig, geography: Geography) -> synth.Policy:
    """Return the policy of a configuration, for a geography: that which it names, or of secret attributes.

    An external zone is in the part that its code of the level is, which is one of its own as soon as the
    level's codes tell zones apart. Under a distance it is near nothing: where in it homes are is not known.

    Raises
    ------
    ValueError
        If the level is none of the geography's, or divides nothing; if no two blocks lie within the
        distance, or any two; if categories of a secret attribute are not listed.
    """
    if config.secret and isinstance(config.privacy.policy, FullPolicy):
        return _policy_of_attributes(config.secret)
    if config.secret:
        raise ValueError(
            "privacy.policy: attributes are protected only where any home may stand for any other; write "
            'policy = "full", or protects = "home"'
        )
    match policy := config.privacy.policy:
        case FullPolicy():
            return FULL
        case DistancePolicy():
            return _policy_of_distance(policy, geography)
    level = policy.partition
    if level not in geography.levels:
        raise ValueError(
            f"privacy.policy: there is no level {level!r}; write one of {', '.join(geography.levels)}"
        )
    if geography.n_units(level) == 1:
        raise ValueError(f'privacy.policy: there is one {level} only, so one part; write policy = "full"')
    return synth.Policy(partition_name(level, geography), geography.starts(level))


def partition_name(level: str, geography: Geography) -> str:
    """Return the name of the policy whose parts are the units of a level (`synth.Policy`)."""
    above = geography.levels[: geography.levels.index(level) + 1]
    return "parts " + "/".join(f"{name}:{_digest_of_blocks(geography, name)[:16]}" for name in above)


def _digest_of_blocks(geography: Geography, level: str) -> str:
    """Return a digest of all blocks with their units: the same whatever other levels there are."""
    blocks, of_block = geography.block_codes, pa.array(geography.units_of_blocks(level))
    own_unit = level == geography.block_level
    units = blocks if own_unit else pa.array(geography.codes(level), blocks.type)
    digest = hashlib.sha256()
    if not pc.all(pc.less(blocks[:-1], blocks[1:])).as_py():
        order = pc.array_sort_indices(blocks)
        blocks, of_block = blocks.take(order), of_block.take(order)
    for start in range(0, len(blocks), _HASHED_BLOCKS):  # a nation has millions
        chunk = slice(start, start + _HASHED_BLOCKS)
        lines = pc.binary_join_element_wise(blocks[chunk], units.take(of_block[chunk]), "\t")
        text = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
        digest.update(b"\n" if start else b"")
        digest.update(text[0].as_buffer())
    for zone in geography.external_zones:  # the code of its block does not tell how much of it is its own
        digest.update(f"\n{zone}".encode())
    return digest.hexdigest()


def _policy_of_distance(policy: DistancePolicy, geography: Geography) -> synth.Policy:
    where, km, text = "privacy.policy.distance_km", policy.distance_km, policy.km
    # Compiled: it takes longer to load than most plans need it.
    from geo_data.distance_graph import distance_graph

    reach, steps, complete = distance_graph(geography.latitude, geography.longitude, km)
    if complete:
        raise ValueError(f'{where}: all blocks lie within {text} km of each other; write policy = "full"')
    if not steps:
        raise ValueError(
            f"{where}: no block lies within {text} km of another, so nothing would be protected; write a "
            "larger distance"
        )
    places = zip(geography.blocks, geography.latitude.tolist(), geography.longitude.tolist(), strict=True)
    lines = "\n".join(f"{block} {latitude!r} {longitude!r}" for block, latitude, longitude in places)
    digest = hashlib.sha256(lines.encode()).hexdigest()[:16]
    return synth.Policy(f"distance {text}:{digest}", parts_of_reach(reach), reach, steps)


def _policy_of_attributes(secret: dict[str, tuple[str, ...]]) -> synth.Policy:
    if undeclared := [name for name, values in secret.items() if not values]:
        names = ", ".join(undeclared)
        raise ValueError(
            f"privacy.protects: the categories of {names} are not listed; list them in [[attribute]]"
        )
    parts = []
    for name, values in secret.items():
        digest = hashlib.sha256("\n".join((name, *values)).encode()).hexdigest()[:16]
        parts.append(f"{quote(name, safe='')}:{digest}")
    return synth.Policy(f"attribute {'/'.join(parts)}", FULL.parts, secret=secret)


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """Everything that is public about a release before it is drawn, and all that the draw needs.

    Attributes
    ----------
    config : PublicConfig
        What was asked for.
    geography : Geography
    weights : ndarray of int64, shape (n_blocks,)
        Public weights by which a cell is shared among its blocks.
    shares : OriginShares
        Public shares by which a cell is shared among the units in it.
    pools : PoolTable
        Place, stratum and slots of every pool.
    level : str
        Level of the units of the public model.
    domain_unit, domain_size : ndarray, shape (n_domains,)
        Destination unit, and pool size, for which each domain was made: the first unit, and 1, where one
        domain serves all (`geo_data.coarsening.coarsen`).
    numeric : synth.Plan
        The numbers of one run of the mechanism; independent implicates are several.
    choices : Choices
    notes : tuple of str
        What reading and planning had to report: repairs, rows left out, fall-backs.
    secondary : tuple of MeasuredGroups
        Groups of the jobs in each secondary measured table.
    workplaces : tuple of MeasuredWorkplaces
        Tables of workplaces. With any, slots are those that are expected, and a release has those that
        are estimated (`with_slots`).
    history : History, optional
        What noisy counts of earlier releases of the series say of the homes.
    """

    config: PublicConfig
    geography: Geography
    weights: NDArray[np.int64]
    shares: OriginShares
    pools: PoolTable
    level: str
    domain_unit: NDArray[np.int32]
    domain_size: NDArray[np.int64]
    numeric: synth.Plan
    choices: Choices
    notes: tuple[str, ...]
    secondary: tuple[MeasuredGroups, ...] = ()
    workplaces: tuple[MeasuredWorkplaces, ...] = ()
    history: History | None = None

    def __repr__(self) -> str:
        epsilon, delta = (synth.decimal_up(number, 6) for number in self.requested)
        name, numeric = self.config.release.name, self.numeric
        levels = (*self.geography.levels, self.geography.block_level)
        return (
            f"<ReleasePlan: {name}; {numeric.mechanism}, epsilon {epsilon} and delta {delta} requested; "
            f"{numeric.pools.n_records:,} jobs in {numeric.pools.n_pools:,} pools, "
            f"{numeric.domains.cuts.size:,} cells in {numeric.domains.n_domains:,} domains; "
            f"levels {', '.join(levels)}>"
        )

    @cached_property
    def cumulative_weights(self) -> NDArray[np.int64]:
        """Running total of `weights`, from which homes are drawn."""
        return cumulative_weights(self.weights)

    @property
    def fills_slots(self) -> bool:
        """Whether every slot has a confidential record like it, as nothing but its home is protected."""
        return self.numeric.target.record_range is None and not self.workplaces

    @property
    def public_categories(self) -> dict[str, tuple[str, ...]]:
        """Categories of attributes that are public where workplaces are: all but secret ones."""
        categories = self.pools.slots.categories
        return {name: values for name, values in categories.items() if name not in self.policy.secret}

    @cached_property
    def exact(self) -> ExactNumbers | None:
        """What the release shows exactly; None where its numbers of jobs are those of a public table."""
        if self.numeric.target.record_range is not None:
            return None
        names, joint = [*self.public_categories], self.config.jobs.format == "microdata"
        parts = (self.pools.slots.take(slots_of(self, [part]), names) for part in batches(self))
        return count_exact(parts, names, joint=joint)

    @property
    def coarsening(self) -> str:
        """The rule by which the cells were made, asked for or chosen."""
        return "units" if self.choices.cell_level else self.config.plan.coarsening or "balanced"

    @cached_property
    def destinations(self) -> NDArray[np.int32]:
        """Destination units of all pools, rising: one for each row of `shares`."""
        return np.unique(self.geography.unit_of(self.level, self.pools.block))

    @cached_property
    def destination_shares(self) -> OriginShares:
        """The shares by destination unit in place of domain, as one domain may serve several."""
        return self.shares.for_domains(np.arange(self.destinations.size, dtype=np.int32))

    @property
    def mechanism(self) -> synth.Mechanism:
        """The mechanism that the plan names."""
        return synth.MECHANISMS[self.numeric.mechanism]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes of the confidential records that are looked at."""
        tables = (*self.choices.tables, *self.choices.workplaces)
        secondary = (name for table in tables for name in table.by)
        return tuple(dict.fromkeys((*self.pools.pooling.by, *secondary)))

    @property
    def attributes_of_homes(self) -> tuple[str, ...]:
        """Attributes by which homes are measured or resampled."""
        return tuple(dict.fromkeys((*self.pools.pooling.by, *(n for t in self.choices.tables for n in t.by))))

    def tells_homes_by(self, attributes: Iterable[str], *, flows: bool = False) -> bool:
        """Say whether homes are measured or resampled by attributes, and by their combinations.

        Of `flows` only, where it has to be by workplaces, too.
        """
        tables = (table for table in self.choices.tables if table.work is not None or not flows)
        told = (self.pools.pooling.by, *(table.by for table in tables))
        return any({*attributes} <= {*by} for by in told)

    @property
    def most_pools(self) -> int | None:
        """How many pools there can be, where they follow from noisy counts and homes are resampled."""
        if self.measures or self.numeric.target.protects == "home":
            return None
        return self.pools.pooling.most_pools(self.geography, self.pools.slots.categories)

    @property
    def measures(self) -> bool:
        """Whether tables are measured, from whose noisy counts homes are estimated."""
        return "tables" in self.mechanism.settings

    @property
    def tables(self) -> tuple[tuple[str, Fraction], ...]:
        """The tables that are measured, in words, each with its share of epsilon."""
        workplaces = [(table_in_words(None, t.work, t.by), t.share) for t in self.choices.workplaces]
        if not self.measures:
            return tuple(workplaces)
        block, pooling, shared = self.geography.block_level, self.pools.pooling, self.pools.shared
        work = (
            block if not shared.any() else f"{pooling.level} (blocks below {pooling.below:,} jobs) or {block}"
        )
        if shared.all():
            work = pooling.level
        cells = self.choices.cell_level or "groups of blocks"
        first = table_in_words(cells, work, pooling.by)
        secondary = [(table_in_words(t.home, t.work, t.by), t.share) for t in self.choices.tables]
        left = 1 - sum((share for _, share in (*workplaces, *secondary)), Fraction(0))
        return (*workplaces, (first, left), *secondary)

    @property
    def policy(self) -> synth.Policy:
        """Which homes neighbours may differ in."""
        return self.numeric.domains.policy

    @property
    def implicates(self) -> Implicates:
        """The synthetic data sets of the release."""
        return self.config.implicates

    @property
    def population(self) -> Literal["residents"] | None:
        """Whose jobs are released, where that depends on homes: those of residents of the geography."""
        return "residents" if self.config.jobs.population == "residents" else None

    @cached_property
    def homes(self) -> str:
        """Which homes may stand for each other under its policy, in a ledger: "anywhere", or "inside DIGEST".

        Jobs of residents are of this geography's, and that they are is public, but where the number of
        records is protected.
        """
        if self.population is None or self.numeric.target.record_range is not None:
            return ANYWHERE
        return f"inside {_digest_of_blocks(self.geography, self.geography.block_level)[:16]}"

    @property
    def says_whose_jobs(self) -> bool:
        """Whether it says that jobs of residents are released where, and only where, no homes lie outside."""
        return (self.population is not None) == (not self.geography.external_homes)

    @property
    def requested(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that were asked for, for all implicates together."""
        return synth.compose(
            [(self.numeric.target.epsilon, self.numeric.target.delta)] * self.implicates.runs
        )

    def weaker(self) -> Iterator[tuple[str, ReleasePlan]]:
        """Yield the plans of weaker tiers, by name, the strongest first."""
        for name, config in self.config.weaker_tiers.items():
            yield name, self.of_tier(config)

    def of_tier(self, config: PublicConfig) -> ReleasePlan:
        """Return the plan of another tier: the same tables with the noise of its epsilon."""
        pools, domains = self.numeric.pools, self.numeric.domains
        tables = [(groups.table, groups.choice.share) for groups in self.secondary]
        more: dict[str, Any] = {"secondary": tables} if tables else {}
        target = replace(self.numeric.target, epsilon=config.privacy.epsilon / self.implicates.runs)
        numeric = self.mechanism.calibrate(pools, domains, (Fraction(1),), target, **more)
        return replace(self, config=config, numeric=numeric)

    def with_slots(self, slots: Slots) -> ReleasePlan:
        """Return the plan of other slots, with the same cells and numbers: how a release is drawn.

        A pool has the cells that the pool of its work block and categories has here; one that is none here
        has those of the smallest pool of its destination unit.
        """
        pools = build_pools(slots, self.geography, self.pools.pooling, self.policy)
        tables = group_jobs(self.choices.tables, slots, self.geography, self.policy)
        return self._grouped(pools, self._domains_of(pools), tables)

    def with_jobs(self, slots: Slots) -> ReleasePlan:
        """Return the plan of other slots, with the same pools and groups, each of which has one at least."""
        pools = self.pools.sized(slots, self.geography)
        tables = tuple(groups.sized(slots) for groups in self.secondary)
        return self._grouped(pools, self.numeric.pools.domain, tables)

    def _grouped(
        self, pools: PoolTable, domain: NDArray[np.int32], tables: tuple[MeasuredGroups, ...]
    ) -> ReleasePlan:
        """Return the plan of other pools and groups."""
        numbers = synth.Pools(pools.n, pools.n, domain)
        numeric = replace(
            self.numeric,
            pools=numbers,
            pool_class=self.mechanism.class_of(self.numeric, numbers),
            secondary=tuple(groups.table for groups in tables),
        )
        plan = replace(self, pools=pools, secondary=tables, numeric=numeric)
        vars(plan).update(destinations=self.destinations)
        return plan

    def _domains_of(self, pools: PoolTable) -> NDArray[np.int32]:
        """Return the domain of each of other pools."""
        domain, (position, known) = self.numeric.pools.domain, find_keys(self.pools.keys, pools.keys)
        unit, other = (self.geography.unit_of(self.level, table.block) for table in (self.pools, pools))
        if not np.isin(other, self.destinations).all():
            raise ValueError("there are jobs in a unit in which the plan expects none")
        smallest = np.lexsort((self.pools.n, unit))
        first = smallest[np.flatnonzero(np.diff(unit[smallest], prepend=-1))]
        of_unit = domain[first][np.searchsorted(self.destinations, other)]
        return np.where(known, domain[position], of_unit)

    def certify(self) -> synth.Guarantee:
        """Compute the guarantee of the release, all implicates together, from the plan alone."""
        return self.mechanism.certify(self.numeric).tightened().repeated(self.implicates.runs)

    def met_by(self, guarantee: synth.Guarantee) -> bool:
        """Say whether a guarantee is the one that was asked for, or better."""
        return guarantee.meets(self.numeric, self.implicates.runs)


def batches(plan: ReleasePlan, jobs: int | None = None) -> list[slice]:
    """Cut the pools into runs of about so many jobs, never inside a unit whose blocks may share an urn.

    So the jobs of a work block, and all rows between two of its jobs, are in one batch; and, where tables are
    measured, those of a unit of the public model.

    Parameters
    ----------
    plan : ReleasePlan
    jobs : int, optional
        A batch ends at the first unit that reaches it: the memory of a task is bounded by this and by the
        largest unit. By default 100,000; more where there would otherwise be more than 1,500 batches.

    Returns
    -------
    list of slice
        Of consecutive pools, covering all.
    """
    pools = plan.pools
    jobs = max(jobs or _BATCH_JOBS, -(-pools.slots.work.size // _MOST_BATCHES))
    levels = [*plan.geography.levels, plan.geography.block_level]
    level = pools.pooling.level if pools.shared.any() else plan.geography.block_level
    if plan.measures:
        level = min(level, plan.level, key=levels.index)
    unit = plan.geography.unit_of(level, pools.block)
    first = np.flatnonzero(np.append(True, np.diff(unit) != 0))
    before = pools.offsets[first]
    starts = first[np.append(True, np.diff(before // jobs) > 0)]
    stops = [*starts[1:].tolist(), pools.n.size]
    return [slice(a, b) for a, b in zip(starts.tolist(), stops, strict=True)]


def spread(parts: list[slice], part: float) -> list[slice]:
    """Return a part of the batches, evenly spread."""
    wanted = max(1, round(len(parts) * part))
    if wanted >= len(parts):
        return parts
    return [parts[i] for i in np.unique(np.linspace(0, len(parts) - 1, wanted).astype(int))]


def slots_of(plan: ReleasePlan, parts: Sequence[slice]) -> NDArray[np.int64]:
    """Return the numbers of the slots of some batches."""
    offsets = plan.pools.offsets
    return np.concatenate([np.arange(offsets[part.start], offsets[part.stop]) for part in parts])
