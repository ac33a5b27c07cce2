"""Coarsening of the origin domain: which blocks an urn does not tell apart.

Domains depend on public inputs only: the public model, the destination's unit, and the pool's public
size. So do the strata of their cells, which say how likely an empty one is kept and how much noise one has.
Five rules, by name:

- "balanced": a node of the hierarchy is split while at least T workers are expected from it, and
  neighbouring siblings that are not are joined to cells of about T. Most cells then expect about as many
  workers, so that noise that is the same for every cell falls where the public model expects workers.
- "threshold": the same split, without joining: siblings of a split node stay cells, however empty.
- "distance": blocks of units within R km of the destination are cells of their own; beyond, units are joined
  as far as their order and hierarchy allow (the coarsening by distance of OnTheMap's first release).
- "share": the units from which the model expects the largest flows, together 90 % of a destination's, are
  cells of their own; the others are joined.
- "units": the cells are exactly the units of a level, external zones among them, whatever the destination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import repeat
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geo_data import _kernels
from geo_data._model_tables import TRIAL, in_batches
from geo_data.geography import Geography
from geo_data.model import PublicModel
from synth.policy import FULL, Policy
from synth.rationals import exact

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_ROOM = 2**23  # cells of the cuts that a tree keeps


@dataclass(frozen=True, eq=False)
class Measure:
    """What is to be cut: a measure on the model's units, and its sums, which all cuts of it share."""

    of_units: Float64

    @cached_property
    def before(self) -> Float64:
        """The measure of all units before each, shape (n_units + 1,): the last is that of all."""
        return np.asarray(_kernels.running(self.of_units[None])[0])


class Tree:
    """The hierarchy of blocks as arrays, and cuts through it.

    Depth 0 is one node, everything; then come the levels of the geography, and the blocks last. The model's
    units, at `unit_depth`, carry the measures; inside a unit they follow the public weights. `starts` has
    the first block of each node, by depth.

    A cut is a sorted array of first blocks. It descends from everything level by level: nodes that a rule
    wants fine are replaced by their children, down to the deepest level of the rule, where they become
    cells of their own. The others end where they are, and neighbouring siblings that end may be joined to
    one cell, because neighbours are contiguous in the order of the blocks.
    """

    def __init__(self, model: PublicModel) -> None:
        geography = model.geography
        names = [*geography.levels, geography.block_level]
        self.starts = [np.zeros(1, np.int64)] + [geography.starts(name).astype(np.int64) for name in names]
        self.unit_depth = names.index(model.level) + 1
        ends = [np.append(starts[1:], geography.n_blocks) for starts in self.starts]
        # One entry more than nodes at each depth, so that a node's children end where the next one's begin.
        children = [
            np.append(np.searchsorted(finer, coarser), finer.size)
            for coarser, finer in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        padded = [np.append(starts, geography.n_blocks) for starts in self.starts]
        block_of_node = np.concatenate(padded)
        # Where every node begins: the unit, and how much of the unit comes before it.
        units, past = self.starts[self.unit_depth], ends[self.unit_depth]
        running = np.append(0, np.cumsum(model.weights)).astype(np.float64)
        unit = np.searchsorted(units, block_of_node, side="right").astype(np.uint32) - np.uint32(1)
        weight = np.maximum(running[past] - running[units], 1.0)  # 0 where nobody can live
        self._nodes = _kernels.Nodes(
            starts=block_of_node,
            children=np.concatenate(children),
            depth_offset=np.cumsum([0] + [starts.size for starts in padded]),
            longest=max(int(np.diff(first).max()) for first in children),
            unit=unit,
            part=(running[block_of_node] - running[units][unit]) / weight[unit],
        )
        self._kept: dict[tuple[int, float, float, int], tuple[NDArray[np.int32], NDArray[np.uint8]]] = {}
        self._room = _ROOM

    def up_to(self, measure: Measure, blocks: Int64) -> Float64:
        """Return the measure of all blocks before each block given, in [0, n_blocks]."""
        node = self._nodes.depth_offset[-2] + blocks
        unit = self._nodes.unit[node]
        return np.asarray(measure.before[unit] + measure.of_units[unit] * self._nodes.part[node])

    def doublings(self, measure: Measure, cells: NDArray[np.int32], end: int, most: int) -> NDArray[np.uint8]:
        """Return how often the mean of cells must be doubled to give the measure of each.

        Rounded; 0 where it is less than the mean. `end` is the block past the last cell; numbers above
        `most` are it.
        """
        blocks = slice(self._nodes.depth_offset[-2], None)
        arguments = self._nodes.unit[blocks], self._nodes.part[blocks], measure.of_units, measure.before
        return np.asarray(_kernels.doublings(cells, end, *arguments, most))

    def cut(
        self, measure: Measure, least: float, run: float, deepest: int | None = None
    ) -> NDArray[np.int32]:
        """Return the first block of every cell.

        A node is wanted fine where its measure is at least `least` > 0, and becomes cells at the depth
        `deepest`, by default that of the blocks. Siblings in a row that are not are joined to cells of about
        the measure `run`: 0 joins none, and infinity all.
        """
        deepest = len(self.starts) - 1 if deepest is None else deepest
        return self._cuts(measure.of_units[None], np.zeros(1, np.int64), least, run, 0, deepest)[1]

    def cuts(
        self, shares: Float64, row: Int64, least: Float64, run: Float64, most: int
    ) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
        """Return many a `cut`, of rows of shares, and the `doublings` of their cells.

        Cut i is of ``shares[row[i]]``, `row` rising, with ``least[i]`` and ``run[i]``. Returned are how many
        cells each has, the first block of each, cut after cut, and their doublings.
        """
        return self._cuts(shares, row, least, run, most, len(self.starts) - 1)

    def cuts_once(
        self, units: NDArray[np.int32], shares: Float64, row: Int64, least: Float64, run: Float64, most: int
    ) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
        """Return the `cuts` of the model's shares of destinations, whose units are given.

        They are kept where they were asked before: candidate plans have most of their cuts in common.
        """
        keys = [*zip(units[row].tolist(), least.tolist(), run.tolist(), repeat(most), strict=False)]
        new = [i for i, key in enumerate(keys) if key not in self._kept]
        counts, cells, doublings = self.cuts(shares, row[new], least[new], run[new], most)
        ends = np.cumsum(counts)
        pieces = zip(np.split(cells, ends), np.split(doublings, ends), strict=True)
        made = dict(zip((keys[i] for i in new), pieces, strict=False))
        if cells.size <= self._room:
            self._kept |= made
            self._room -= cells.size
        pieces_of_cut = [made.get(key) or self._kept[key] for key in keys]
        return (
            np.array([cells_of_cut.size for cells_of_cut, _ in pieces_of_cut], np.int64),
            np.concatenate([cells_of_cut for cells_of_cut, _ in pieces_of_cut]),
            np.concatenate([doubled for _, doubled in pieces_of_cut]),
        )

    def _cuts(
        self, shares: Float64, row: Int64, least: ArrayLike, run: ArrayLike, most: int, deepest: int
    ) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
        limits = np.full(row.shape, least), np.full(row.shape, run)
        counts, cells, doublings = _kernels.cuts(self._nodes, shares, row, *limits, deepest, most)
        return counts, cells, doublings


Rule = Callable[[Tree, int, Measure, float], NDArray[np.int32]]
"""Turns (tree, destination unit, its shares, pool size) into the first block of each cell."""

SHARE_SCALE = 2**16
"""What the integer shares of a destination add up to, before rounding."""

_SMALLEST = 1e-300  # the least measure that is not nothing
_DOUBLINGS = 8  # a prior is at most 2^8 times another

_trees: WeakKeyDictionary[PublicModel, Tree] = WeakKeyDictionary()  # the planner coarsens again and again

_Listed = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True, eq=False)
class Coarsening:
    """The domains of all pools, in the arrays of `synth.Domains`."""

    offsets: NDArray[np.int64]  # shape (n_domains + 1,)
    cuts: NDArray[np.int32]  # first block of each cell; shape (n_cells,)
    stratum: NDArray[np.uint8]  # index into `retention` and `multiple`; shape (n_cells,)
    # retention of each stratum: falling from 1, and then 1 for each stratum of larger priors
    retention: tuple[Fraction, ...]
    # how many times the smallest prior a cell of each stratum has: 1, or a power of two
    multiple: tuple[int, ...]
    domain: NDArray[np.int32]  # domain of each pool; shape (n_pools,)
    # destination unit of each domain; of a domain that serves all, the first of them; shape (n_domains,)
    unit: NDArray[np.int32]
    # the pool size (a power of two) for which the domain was made; 1 where it serves all sizes; shape
    # (n_domains,)
    size: NDArray[np.int64]
    # row of each domain's destination in the shares, whose rows are the destination units of all pools; shape
    # (n_domains,)
    row: NDArray[np.int32]
    share_offsets: NDArray[np.int64]  # shape (n_rows + 1,)
    # row r stands at ``share_offsets[r]:share_offsets[r + 1]``: the units from which the model expects at
    # least half of one in `SHARE_SCALE` workers, and their number of `SHARE_SCALE`, rounded; shape
    # (n_entries,)
    share_unit: NDArray[np.int32]
    share: NDArray[np.int32]

    def __repr__(self) -> str:
        domains, cells, pools = self.offsets.size - 1, self.cuts.size, self.domain.size
        return f"<Coarsening: {domains:,} domains, {cells:,} cells, {pools:,} pools>"


@dataclass(frozen=True, eq=False)
class _BySize:
    """The rules "threshold" and "balanced": fine where at least T workers are expected."""

    threshold: Callable[[float], float]
    joined: bool

    def limits(self, size: float) -> tuple[float, float]:
        """Return `least` and `run` of `Tree.cut` for shares.

        Sizes are powers of two: to divide by them changes the exponent of a number only.
        """
        least = self.threshold(size) / size
        return least, least if self.joined else 0.0

    def __call__(self, tree: Tree, unit: int, shares: Measure, size: float) -> NDArray[np.int32]:
        return tree.cut(shares, *self.limits(size))


def by_threshold(threshold: Callable[[float], float]) -> Rule:
    """Return the rule "threshold"; `threshold` gives T for a pool size."""
    return _BySize(threshold, joined=False)


def balanced(threshold: Callable[[float], float]) -> Rule:
    """Return the rule "balanced"; `threshold` gives T for a pool size."""
    return _BySize(threshold, joined=True)


def by_distance(model: PublicModel, kilometres: float) -> Rule:
    """Return the rule "distance"."""

    def rule(tree: Tree, unit: int, shares: Measure, size: float) -> NDArray[np.int32]:
        near = model.distance_km(np.array([unit]))[0] <= kilometres
        return tree.cut(Measure(near.astype(np.float64)), _SMALLEST, np.inf)

    return rule


def by_share(share: float) -> Rule:
    """Return the rule "share"."""

    def rule(tree: Tree, unit: int, shares: Measure, size: float) -> NDArray[np.int32]:
        order = np.argsort(-shares.of_units, kind="stable")
        enough = int(np.searchsorted(np.cumsum(shares.of_units[order]), share)) + 1
        kept = np.zeros(order.size)
        kept[order[:enough]] = 1.0
        return tree.cut(Measure(kept), _SMALLEST, np.inf, tree.unit_depth)

    return rule


@dataclass(frozen=True, eq=False)
class _SameCells:
    """The rule "units": the same cells, whatever the pool."""

    cuts: NDArray[np.int32]

    def __call__(self, tree: Tree, unit: int, shares: Measure, size: float) -> NDArray[np.int32]:
        return self.cuts


def by_units(geography: Geography, level: str) -> Rule:
    """Return the rule "units", for a level or the blocks.

    A ValueError if there is no such level, or it is one of non-nesting areas, which are no runs of blocks.
    """
    return _SameCells(geography.starts(level))


def retention_grid(smallest: Fraction) -> tuple[Fraction, ...]:
    """Return the retentions a plan uses: 1, 1/2, 1/4, ... down to `smallest` (f_min).

    A TypeError if `smallest` is a float, a ValueError outside (0, 1] or more than 2^-40 away from use.
    """
    smallest = exact(smallest, "the smallest retention")
    if not Fraction(1, 2**40) <= smallest <= 1:
        raise ValueError("the smallest retention must be in (0, 1] and at least 2^-40")
    grid = [Fraction(1)]
    while grid[-1] / 2 > smallest:
        grid.append(grid[-1] / 2)
    return tuple(grid) if smallest == 1 else (*grid, smallest)


def _tree(model: PublicModel) -> Tree:
    if model not in _trees:
        _trees[model] = Tree(model)
    return _trees[model]


def coarsen(
    model: PublicModel,
    place: NDArray[np.int32],
    n: NDArray[np.int64],
    rule: Rule,
    smallest_retention: Fraction,
    policy: Policy = FULL,
    part: NDArray[np.int32] | None = None,
    *,
    larger_priors: bool = False,
) -> Coarsening:
    """Make the domain of every pool by a rule, from a block of its destination and its public size.

    The rule is told the largest power of two that is at most the size, so that pools of similar size share
    a domain. A cell's retention is its expected count clipped to [smallest_retention, 1], rounded up to
    `retention_grid`. Under a policy of parts a domain is of one part (`part` has that of each pool's
    homes): a rule is told what is expected of a pool whose homes are all there, and what it cuts elsewhere
    is left out. Under a policy of attributes every copy of the blocks has the same cells: those for a pool
    of as many jobs as would be in each copy if all had equally many. Of the rule "units" without pruning a
    domain serves pools of all sizes; and all destinations, too, where no cell holds several units of the
    model, among which the shares of a destination would choose.

    With `larger_priors`, of the rules "balanced" and "threshold", a cell from which more workers are
    expected than from the domain's cells in the mean has a larger prior: as many times, rounded to a power
    of two, and at most 2^8 times. Noise that is the same for every cell takes workers from those that
    cannot be cut, as external zones, and gives them to all others; noise in proportion to what is expected
    does not. A prior must not be below what is certified, so that it is the large ones that grow.
    """
    unit_of_pool = model.units(place)
    retention = grid = retention_grid(smallest_retention)
    multiple = (1,) * len(grid)
    most = _DOUBLINGS if larger_priors and isinstance(rule, _BySize) else 0
    retention += (Fraction(1),) * most
    multiple += tuple(2 ** (i + 1) for i in range(most))
    fixed_cells = rule.cuts if isinstance(rule, _SameCells) and len(grid) == 1 else None
    any_unit = fixed_cells is not None and bool(
        np.isin(model.geography.starts(model.level), fixed_cells).all()
    )
    octave = np.floor(np.log2(n)).astype(np.int64) if fixed_cells is None else np.zeros(n.size, np.int64)
    key, parts = unit_of_pool.astype(np.int64) * 64 + octave, policy.n_parts
    keys, domain = np.unique(key * parts + (0 if part is None else part), return_inverse=True)
    of_part, keys = keys % parts, keys // parts
    unit, size = (keys // 64).astype(np.int32), np.int64(1) << (keys % 64)
    tree = _tree(model)
    falling = -np.array([float(f) for f in grid])
    needed, first, row = np.unique(unit, return_index=True, return_inverse=True)
    last = np.append(first[1:], unit.size)
    if any_unit:  # made for the first destination only
        of_part, same_part = np.unique(of_part, return_inverse=True)
        domain, unit, size = same_part[domain], unit[:1].repeat(of_part.size), size[:1].repeat(of_part.size)
        first, last = (np.full_like(first, of_part.size) for _ in range(2))
        first[0], row = 0, np.zeros(of_part.size, np.int64)
    ends = policy.ends(model.geography.n_blocks)

    def cells_of(rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], _Listed]:
        shares = model.shares(needed[rows])
        listed = _kernels.rounded(shares, SHARE_SCALE)
        domains = slice(int(first[rows][0]), int(last[rows][-1]))
        of_row = row[domains] - rows.start
        at_once: Iterator[tuple[NDArray[np.int32], NDArray[np.uint8]]] | None = None
        if isinstance(rule, _BySize) and parts == 1:
            sizes, place = np.unique(size[domains], return_inverse=True)
            least, run = np.array([rule.limits(s) for s in sizes.tolist()])[place].T
            limits = shares, of_row, least, run, most
            counts, cells_found, doubled = (
                tree.cuts_once(needed[rows], *limits) if needed.size <= TRIAL else tree.cuts(*limits)
            )
            if len(grid) == 1:
                return counts, cells_found, doubled, listed
            ends_of = np.cumsum(counts)[:-1]
            at_once = zip(np.split(cells_found, ends_of), np.split(doubled, ends_of), strict=True)
        cuts: list[NDArray[np.int32]] = []
        strata: list[NDArray[np.uint8]] = []
        measures = [Measure(of_units) for of_units in shares]
        for r, destination, s, p in zip(
            of_row.tolist(), unit[domains], size[domains].tolist(), of_part[domains].tolist(), strict=True
        ):
            measure = measures[r]
            if parts > 1:
                measure = _of_part(tree, measure, int(policy.parts[p]), int(ends[p]))
            if at_once is not None:
                cells, doublings = next(at_once)
            else:
                cells = policy.within(rule(tree, int(destination), measure, float(s)), p)
                doublings = np.zeros(cells.size, np.uint8)
                if most:
                    doublings = tree.doublings(measure, cells, int(ends[p]), most)
            cuts.append(cells)
            stratum = doublings
            if len(grid) > 1:
                bounds = np.append(cells, ends[p]).astype(np.int64)
                expected = s * np.diff(tree.up_to(measure, bounds))
                # The last stratum whose retention is at least the expected count: rounded up.
                at_least = np.searchsorted(falling, -np.minimum(expected, 1.0), side="right") - 1
                stratum = np.minimum(at_least, len(grid) - 1).astype(np.uint8)
                stratum = np.where((stratum == 0) & (doublings > 0), len(grid) - 1 + doublings, stratum)
            strata.append(stratum)
        # As one array, for a nation's domains are many: in small pieces they would be scattered over memory.
        return (
            np.array([c.size for c in cuts], np.int64),
            np.concatenate([np.zeros(0, np.int32), *cuts]),
            np.concatenate([np.zeros(0, np.uint8), *strata]),
            listed,
        )

    made = in_batches(cells_of, needed.size, model.n_units)
    lengths, cuts, strata, listed = map(list, zip(*made, strict=True))
    counts, units, shares = map(list, zip(*listed, strict=True))
    stratum, used = _taken(strata), len(grid)
    if most:
        used = max(used, int(stratum.max()) + 1)
    del made, listed  # so that only one of the arrays of a nation is there twice, while it is put together
    return Coarsening(
        offsets=np.append(0, np.cumsum(np.concatenate(lengths))),
        cuts=_taken(cuts),
        stratum=stratum,
        retention=retention[:used],
        multiple=multiple[:used],
        domain=domain.astype(np.int32),
        unit=unit,
        size=size,
        row=row.astype(np.int32),
        share_offsets=np.append(0, np.cumsum(np.concatenate(counts))),
        share_unit=_taken(units),
        share=_taken(shares),
    )


def _taken(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """Return pieces as one array, and leave none in the list."""
    whole = np.concatenate(pieces)
    pieces.clear()
    return whole


def _of_part(tree: Tree, shares: Measure, first: int, stop: int) -> Measure:
    """Return the shares of the units in a part, such that those of its blocks add up to 1."""
    before, after = tree.up_to(shares, np.array([first, stop], np.int64))
    starts = tree.starts[tree.unit_depth]
    inside = np.zeros(shares.of_units.size, bool)
    inside[np.searchsorted(starts, first, side="right") - 1 : np.searchsorted(starts, stop)] = True
    return Measure(np.where(inside, shares.of_units, 0.0) / (after - before if after > before else 1.0))
