"""Which blocks lie within a distance of each other: the edges of a policy of distances, and ways along them.

Edges are many, so none is stored: of each block only the last one that it has an edge to. Distances are great
circles between centroids, on a sphere; an external zone has no centroid, and so no edges.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from geo_data.distance import EARTH_RADIUS_KM, unit_vectors

MARGIN = 1e-11
"""What is added to the chord of a distance, in radii of the earth: 0.06 mm. Floats are off by a
ten-thousandth of it, so every pair within the distance has an edge; more edges protect more."""

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]


def distance_graph(latitude: Float64, longitude: Float64, km: Fraction) -> tuple[Int32, int, bool]:
    """Return how far edges between blocks within a distance reach, and how many lead from one to another.

    From places in degrees, NaN for a block without edges. `reach` is the last block that each block has an
    edge to; itself where that is before it, or nowhere. On the shortest way from one block to another,
    wherever there is a way, there are at most `steps` edges: twice as many as lead anywhere from the first
    block of any connected component. Last, whether there is an edge between any two blocks.
    """
    half = min(float(km) / (2 * EARTH_RADIUS_KM), math.pi / 2)
    square = (2 * math.sin(half) + MARGIN) ** 2
    points = unit_vectors(latitude, longitude)
    low, high = _boxes(points)
    reach, complete = _reach(points, low, high, square)
    return reach, 2 * _farthest(points, low, high, square), complete


# A binary tree over the order of blocks: node 1 holds all, node v what 2v and 2v + 1 hold, and node
# `size` + i holds block i. Blocks that stand together lie together, so the boxes of nodes are small.


@njit(cache=True, nogil=True)
def _boxes(points: Float64) -> tuple[Float64, Float64]:
    """Return the box of the points of each node; that of a node without any is inside out."""
    size = 1
    while size < points.shape[0]:
        size *= 2
    low, high = np.full((2 * size, 3), np.inf), np.full((2 * size, 3), -np.inf)
    for i in range(points.shape[0]):
        if not np.isnan(points[i, 0]):
            low[size + i] = high[size + i] = points[i]
    for node in range(size - 1, 0, -1):
        low[node] = np.minimum(low[2 * node], low[2 * node + 1])
        high[node] = np.maximum(high[2 * node], high[2 * node + 1])
    return low, high


@njit(cache=True, nogil=True)
def _nearest_square(point: Float64, low: Float64, high: Float64) -> float:
    total = 0.0
    for axis in range(3):
        beside = max(low[axis] - point[axis], point[axis] - high[axis], 0.0)
        total += beside * beside
    return total


@njit(cache=True, nogil=True)
def _farthest_square(point: Float64, low: Float64, high: Float64) -> float:
    total = 0.0
    for axis in range(3):
        beside = max(high[axis] - point[axis], point[axis] - low[axis])
        total += beside * beside
    return total


@njit(cache=True, nogil=True)
def _reach(points: Float64, low: Float64, high: Float64, square: float) -> tuple[Int32, bool]:
    n, size = points.shape[0], low.shape[0] // 2
    reach, complete, stack = np.arange(n).astype(np.int32), True, np.empty(128, np.int64)
    for i in range(n):
        if np.isnan(points[i, 0]):
            complete = complete and n == 1
            continue
        stack[0], top = 1, 1
        while top:  # the right child first: the first block found is the last of all that are near
            top -= 1
            node = stack[top]
            if _nearest_square(points[i], low[node], high[node]) <= square:
                if node >= size:
                    reach[i] = max(i, node - size)
                    break
                stack[top], stack[top + 1] = 2 * node, 2 * node + 1
                top += 2
        if complete:
            complete = _all_near(points[i], low, high, square, stack)
    return reach, complete


@njit(cache=True, nogil=True)
def _all_near(point: Float64, low: Float64, high: Float64, square: float, stack: NDArray[np.int64]) -> bool:
    size = low.shape[0] // 2
    stack[0], top = 1, 1
    while top:
        top -= 1
        node = stack[top]
        if low[node, 0] <= high[node, 0] and _farthest_square(point, low[node], high[node]) > square:
            if node >= size:
                return False
            stack[top], stack[top + 1] = 2 * node, 2 * node + 1
            top += 2
    return True


@njit(cache=True, nogil=True)
def _farthest(points: Float64, low: Float64, high: Float64, square: float) -> int:
    """Return how many edges lead from the first block of a component to others of it, at most."""
    n, size = points.shape[0], low.shape[0] // 2
    left = np.zeros(2 * size, np.int64)  # blocks of each node that no way has been found to
    for i in range(n):
        left[size + i] = not np.isnan(points[i, 0])
    for node in range(size - 1, 0, -1):
        left[node] = left[2 * node] + left[2 * node + 1]
    queue, depth, stack = np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(128, np.int64)
    most = 0
    for root in range(n):
        if not left[size + root]:
            continue
        queue[0], done, n_found = root, 0, 1
        node = size + root
        while node:
            left[node] -= 1
            node //= 2
        while done < n_found:
            block = queue[done]
            done += 1
            most = max(most, depth[block])
            stack[0], top = 1, 1
            while top:
                top -= 1
                node = stack[top]
                if not left[node] or _nearest_square(points[block], low[node], high[node]) > square:
                    continue
                if node < size:
                    stack[top], stack[top + 1] = 2 * node, 2 * node + 1
                    top += 2
                    continue
                queue[n_found], depth[node - size] = node - size, depth[block] + 1
                n_found += 1
                while node:
                    left[node] -= 1
                    node //= 2
    return most
