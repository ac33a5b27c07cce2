"""Arrays that users give as any sequence of whole numbers, and where runs in arrays begin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def integers(values: npt.ArrayLike, kind: npt.DTypeLike, name: str) -> npt.NDArray[np.integer]:
    """Return whole numbers as an array; one of this kind is returned as it is.

    Parameters
    ----------
    values : array_like of int
    kind : dtype
        Of the array.
    name : str
        Of the argument.

    Returns
    -------
    ndarray of `kind`

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
