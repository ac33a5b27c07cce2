"""Numbers of the cells of a table in a file, of which as many are in memory as are looked at."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from synth.posterior.estimation import Cells

_IN_MEMORY = 2**23  # numbers: files of fewer would only take time


class CellFile:
    """A file of numbers that is read and written like an array, in runs; nothing stays in memory."""

    def __init__(self, path: Path, kind: npt.DTypeLike) -> None:
        self._path, self._kind = path, np.dtype(kind)

    def __len__(self) -> int:
        return self._path.stat().st_size // self._kind.itemsize

    def __getitem__(self, cells: slice) -> npt.NDArray[Any]:
        """Read a run of numbers."""
        begin, stop, _ = cells.indices(len(self))
        offset = begin * self._kind.itemsize
        return np.fromfile(self._path, self._kind, max(stop - begin, 0), offset=offset)

    def __setitem__(self, cells: slice, values: npt.NDArray[Any]) -> None:
        """Write a run of numbers, from where the slice begins."""
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            file.seek((cells.start or 0) * self._kind.itemsize)
            file.write(np.ascontiguousarray(values, self._kind).data)


class CellSpan:
    """Some cells of a table in memory, which are read as if all were there."""

    def __init__(self, first: int, values: npt.NDArray[Any]) -> None:
        self._first, self._values = first, values

    def __getitem__(self, cells: slice) -> npt.NDArray[Any]:
        """Read a run of numbers that are there."""
        begin, stop = cells.start - self._first, cells.stop - self._first
        if begin < 0 or stop > len(self._values):
            raise IndexError("there are no such cells")
        return self._values[begin:stop]

    def __setitem__(self, cells: slice, values: npt.NDArray[Any]) -> None:
        """Refuse: they are kept as they are."""
        raise TypeError("a part of a table can only be read")


class JoinedFiles:
    """Files of numbers that are read like one array, in which they stand one after another."""

    def __init__(self, files: Sequence[CellFile]) -> None:
        self._files = files
        self._begins = [0, *itertools.accumulate(map(len, files))]

    def __getitem__(self, cells: slice) -> npt.NDArray[Any]:
        """Read a run of numbers."""
        begin, stop, _ = cells.indices(self._begins[-1])
        pieces = [
            file[max(begin - first, 0) : max(stop - first, 0)]
            for file, first, last in zip(self._files, self._begins, self._begins[1:], strict=False)
            if first < stop and begin < last
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [self._files[0][:0]])

    def __setitem__(self, cells: slice, values: npt.NDArray[Any]) -> None:
        """Refuse: they are kept as they are."""
        raise TypeError("joined files can only be read")


def new_numbers(folder: Path, name: str, cells: int) -> CellFile | npt.NDArray[np.float64]:
    """Return room for a number for each cell: in memory where they are few, else in a file of a folder."""
    return np.empty(cells) if cells <= _IN_MEMORY else CellFile(folder / name, np.float64)


def keep_numbers(numbers: Cells, path: Path) -> None:
    """Keep numbers that `new_numbers` made room for in a file; their own, if they have one, is moved."""
    if isinstance(numbers, CellFile):
        numbers._path.rename(path)
    else:
        CellFile(path, np.float64)[:] = numbers[:]
