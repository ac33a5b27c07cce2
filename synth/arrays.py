"""Whole numbers that users give as any sequence, segments of a long array (ragged arrays), sums by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from synth._words import compiled as _compiled


def integers(values: npt.ArrayLike, kind: npt.DTypeLike, name: str) -> npt.NDArray[np.integer]:
    """Return whole numbers as an array; one of this kind is returned as it is.

    Parameters
    ----------
    values : array_like of int
    kind : dtype
        Of the array.
    name : str
        Of the argument.

    Raises
    ------
    TypeError
        If these are no whole numbers; 2.0 is none.
    ValueError
        If one does not fit.
    """
    array = np.asarray(values)
    wanted = np.dtype(kind)
    if array.dtype == wanted:
        return array
    if array.size == 0 and array.dtype == np.float64:  # as of an empty list
        return array.astype(wanted)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: whole numbers are expected, in a sequence or an array, not {array.dtype}")
    limits = np.iinfo(wanted)
    if array.size and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        raise ValueError(f"{name}: numbers from {limits.min} to {limits.max} are expected")
    return array.astype(wanted)


def offsets_of(sizes: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return where each run of `sizes` entries begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def segment_indices(first: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of all entries of some segments, one segment after the other.

    Parameters
    ----------
    first, size : ndarray of int64, shape (n_segments,)
        Where each segment begins, and how many entries it has.

    Returns
    -------
    ndarray of int64, shape (sum of size,)
    """
    return np.repeat(first + size - np.cumsum(size), size) + np.arange(int(size.sum()))


def find_keys(
    keys: NDArray[np.integer], wanted: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where each number stands among rising keys, and whether it is there.

    Parameters
    ----------
    keys : ndarray of int, shape (n_keys,)
        Rising, at least one.
    wanted : ndarray of int, shape (n,)

    Returns
    -------
    position : ndarray of int, shape (n,)
        Of a number that is not there, that of some key.
    there : ndarray of bool, shape (n,)
    """
    position = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return position, keys[position] == wanted


def sums_by(label: NDArray[np.integer], rows: NDArray[np.number]) -> NDArray[np.float64]:
    """Add up each row by label.

    Parameters
    ----------
    label : ndarray of int, shape (n,)
        From 0.
    rows : ndarray of numbers, shape (n_rows, n)

    Returns
    -------
    ndarray of float64, shape (n_rows, n_labels)
    """
    return np.stack([np.bincount(label, row) for row in rows])


def scale_to_sums(rows: NDArray[np.float64], label: NDArray[np.integer], like: NDArray[np.number]) -> None:
    """Scale each row, in place, so that it adds up by label to what others do.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n)
        Not negative.
    label : ndarray of int, shape (n,)
        From 0.
    like : ndarray of numbers, shape (n,) or (n_rows, n)
        With these sums. Where a row is 0 for all of a label, it becomes these numbers.
    """
    for row, other in zip(rows, np.broadcast_to(like, rows.shape), strict=True):
        wanted, now = (np.bincount(label, each)[label] for each in (other, row))
        row[:] = np.divide(row * wanted, now, out=other.astype(np.float64), where=now > 0)


def search_segments(
    values: NDArray[Any], wanted: NDArray[Any], first: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the last place of each segment whose value is at most what is wanted.

    `numpy.searchsorted` looks through all of an array every time, and misses the cache at most steps.

    Parameters
    ----------
    values : ndarray of int, shape (n_values,)
        Rising inside every segment.
    wanted : ndarray of int, shape (n,)
        Not less than the first value of the segment.
    first, stop : ndarray of int64, shape (n,)
        The segment of each entry, ``first:stop``; not empty. The value at `first` is not looked at.

    Returns
    -------
    ndarray of int64, shape (n,)
        In ``first:stop``.
    """
    places = np.empty(wanted.shape, np.int64)
    _search(values, wanted, first, stop, places)
    return places


def segment_order(values: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the places of every segment in the order of their values, the first of equal ones first.

    Parameters
    ----------
    values : ndarray of uint8, shape (n,)
    offsets : ndarray of int64, shape (n_segments + 1,)
        Segment i is ``offsets[i]:offsets[i + 1]``.

    Returns
    -------
    ndarray of int32, shape (n,)
        Counted from the beginning of each segment.
    """
    places = np.empty(values.shape, np.int32)
    _sort(values, offsets, places)
    return places


@_compiled
def _sort(values, offsets, places):  # type: ignore[no-untyped-def]
    # Of a nation's cells, a sort of NumPy would need many times the memory of the places.
    for i in range(offsets.size - 1):
        first = np.zeros(257, np.int64)
        for j in range(offsets[i], offsets[i + 1]):
            first[values[j] + 1] += 1
        for value in range(256):
            first[value + 1] += first[value]
        for j in range(offsets[i], offsets[i + 1]):
            places[offsets[i] + first[values[j]]] = j - offsets[i]
            first[values[j]] += 1


@_compiled
def _search(values, wanted, first, stop, places):  # type: ignore[no-untyped-def]
    for i in range(wanted.size):
        low, high = first[i], stop[i]
        while high - low > 1:
            middle = (low + high) // 2
            if values[middle] <= wanted[i]:
                low = middle
            else:
                high = middle
        places[i] = low
