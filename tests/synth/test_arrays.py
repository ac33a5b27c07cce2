"""Sums by label."""

from __future__ import annotations

import numpy as np

from synth.arrays import scale_to_sums, sums_by


def test_rows_are_scaled_to_the_sums_of_others() -> None:
    """Where a row has nothing of a label, it becomes the others."""
    label, like = np.array([0, 1, 0, 1]), np.array([1, 2, 3, 4])
    rows = np.array([[3.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 2.0]])
    scale_to_sums(rows, label, like)
    np.testing.assert_allclose(rows, [[3, 2, 1, 4], [2, 2, 2, 4]])
    assert np.array_equal(sums_by(label, rows), [[4, 6], [4, 6]])
