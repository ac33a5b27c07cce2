"""Numbers of cells in a file: read and written in runs, as an array is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.storage import cell_file
from pipelines.storage.cell_file import CellFile, JoinedFiles, keep_numbers, new_numbers

pytestmark = pytest.mark.quick


def test_a_file_is_read_and_written_like_an_array(tmp_path: Path) -> None:
    array, file = np.zeros(10, np.int64), CellFile(tmp_path / "cells", np.int64)
    for part, values in ((slice(0, 4), [1, 2, 3, 4]), (slice(7, 10), [5, 6, 7]), (slice(2, 5), [-8, 9, 10])):
        file[part] = array[part] = np.array(values)
    for part in (slice(None), slice(3, 8), slice(5, 5), slice(8, None)):
        assert file[part].tolist() == array[part].tolist()
    with pytest.raises(FileNotFoundError):
        CellFile(tmp_path / "none", np.int64)[:]


def test_only_many_numbers_are_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_file, "_IN_MEMORY", 3)
    for cells in (3, 4):
        numbers = new_numbers(tmp_path, "numbers", cells)
        numbers[0:cells] = np.arange(cells) / 2
        assert (tmp_path / "numbers").exists() == (cells > 3)
        keep_numbers(numbers, tmp_path / f"kept-{cells}")
        assert CellFile(tmp_path / f"kept-{cells}", np.float64)[:].tolist() == [i / 2 for i in range(cells)]
        assert [path.name for path in tmp_path.iterdir()] == [f"kept-{cells}"]
        (tmp_path / f"kept-{cells}").unlink()


def test_files_are_read_as_one(tmp_path: Path) -> None:
    files = [CellFile(tmp_path / str(i), np.int64) for i in range(3)]
    for file, values in zip(files, ([0, 1, 2], [3], [4, 5]), strict=True):
        file[:] = np.array(values)
    joined = JoinedFiles(files)
    for part in (slice(None), slice(1, 2), slice(2, 5), slice(3, 4), slice(4, 4), slice(5, None)):
        assert joined[part].tolist() == np.arange(6)[part].tolist()
        assert joined[part].dtype == np.int64
    with pytest.raises(TypeError, match="only be read"):
        joined[:] = np.zeros(6, np.int64)
