"""A picture of a plan: the cells of a few workplaces on the map, and how cells grow with distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geo_data.distance import distance_km
from pipelines.plans.plan import ReleasePlan

_WORKPLACES = 3
_DOTS = 100_000  # most blocks that are drawn: millions take minutes and show no more


def draw_cells(plan: ReleasePlan, path: Path) -> None:
    """Draw the cells of the largest pool, of that of a typical job, and of a small one as a PNG.

    A block is a dot at its centroid, coloured by the number of blocks in its cell: blocks that are cells of
    their own are darkest. Of very many blocks, some are drawn, evenly. Nothing but the plan is drawn.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    geography = plan.geography
    placed = np.flatnonzero(np.isfinite(geography.latitude))
    placed = placed[:: -(-placed.size // _DOTS)]
    chosen = _choose(plan)
    fig = Figure(figsize=(4.2 * (len(chosen) + 1), 4.6), layout="constrained")
    axes = fig.subplots(1, len(chosen) + 1, squeeze=False)
    norm = LogNorm(1, max(10, geography.n_blocks))
    shown: Any = None
    for axis, pool in zip(axes[0], chosen, strict=False):
        size, cells = _blocks_per_cell(plan, pool)
        own = placed[size[placed] > 0]  # of the pool's part, where a policy divides homes
        order = own[np.argsort(-size[own], kind="stable")]
        shown = axis.scatter(
            geography.longitude[order],
            geography.latitude[order],
            c=size[order],
            norm=norm,
            cmap="viridis",
            s=max(0.5, min(12, 2e4 / placed.size)),
            linewidths=0,
            rasterized=True,
        )
        block = plan.pools.block[pool]
        axis.plot(
            geography.longitude[block], geography.latitude[block], "*", ms=15, mfc="red", mec="white", mew=1.2
        )
        axis.set_aspect(1 / max(0.1, np.cos(np.radians(np.nanmean(geography.latitude)))))
        axis.set_axis_off()
        what = "small workplaces of an area" if plan.pools.shared[pool] else "one workplace"
        axis.set_title(f"{plan.pools.n[pool]:,} jobs, {what}:\n{cells:,} cells", fontsize=11)
        _curve(axes[0][-1], plan, pool, own, size)
    fig.colorbar(shown, ax=list(axes[0][:-1]), label="blocks in the block's cell", shrink=0.7)
    last = axes[0][-1]
    last.set(
        xlabel="distance of a block from the workplace, km",
        ylabel="blocks in its cell (median)",
        yscale="log",
    )
    last.set_title("Cells by distance from the workplace", fontsize=11)
    last.legend(frameon=False)
    last.spines[["top", "right"]].set_visible(False)
    fig.suptitle(f"{plan.config.release.name}: what the pools tell apart", fontsize=13)
    fig.savefig(path, dpi=110)


def _choose(plan: ReleasePlan) -> list[int]:
    """Return the largest pool, the one that holds the median job, and one at the tenth percentile of jobs."""
    order = np.argsort(plan.pools.n, kind="stable")
    running = np.cumsum(plan.pools.n[order])
    at = np.searchsorted(running, np.array([1.0, 0.5, 0.1]) * running[-1])
    return list(dict.fromkeys(order[np.minimum(at, order.size - 1)].tolist()))[:_WORKPLACES]


def _blocks_per_cell(plan: ReleasePlan, pool: int) -> tuple[NDArray[np.int64], int]:
    """Return how many blocks each block's cell has, 0 outside the pool's part; and the number of cells.

    Under a policy of attributes cells of all categories are counted.
    """
    domains, domain = plan.numeric.domains, int(plan.numeric.pools.domain[pool])
    cells = np.arange(domains.n_cells[domain], dtype=np.int32)
    first, stop = domains.bounds(np.full(cells.size, domain, np.int32), cells)
    size = np.zeros(plan.n_origins, np.int64)
    size[first[0] : stop[-1]] = np.repeat(stop - first, stop - first)
    return size[: plan.geography.n_blocks], cells.size  # which are alike in every copy of the blocks


def _curve(
    axis: Any, plan: ReleasePlan, pool: int, placed: NDArray[np.intp], size: NDArray[np.int64]
) -> None:
    """Draw the median cell size of blocks in twelve distance classes of equally many blocks."""
    geography, block = plan.geography, plan.pools.block[pool]
    km = distance_km(
        geography.latitude[placed],
        geography.longitude[placed],
        geography.latitude[block],
        geography.longitude[block],
    )
    parts = np.array_split(np.argsort(km, kind="stable"), min(12, placed.size))
    axis.plot(
        [np.median(km[part]) for part in parts],
        [np.median(size[placed[part]]) for part in parts],
        "o-",
        ms=4,
        label=f"{plan.pools.n[pool]:,} jobs",
    )
