"""Implicates: several synthetic data sets of the same records in one release, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ImplicateSource = Literal["independent-runs", "one-urn"]


@dataclass(frozen=True)
class Implicates:
    """How many synthetic data sets a release has, and how they are drawn."""

    number: int = 1  # k, at least 1
    # Independent runs: the mechanism is run k times, each with a k-th of epsilon and delta (Lemma 13 of
    # docs/privacy.md). One urn: every urn is drawn from k times as often, and the draws are cut into k
    # (Lemma 15).
    source: ImplicateSource = "independent-runs"

    @property
    def runs(self) -> int:
        """Independent runs of the mechanism on the same records, whose losses add up."""
        return self.number if self.source == "independent-runs" else 1

    @property
    def of_run(self) -> int:
        """Implicates that are cut from one run: each pool's draws are so many times its slots."""
        return self.number // self.runs

    @property
    def folders(self) -> tuple[str, ...]:
        """Where the data files of each are, below the public folder: the folder itself if there is one."""
        if self.number == 1:
            return ("",)
        return tuple(f"implicate-{i:02}/" for i in range(1, self.number + 1))

    @property
    def words(self) -> str:
        """What a certificate says of them."""
        if self.number == 1:
            return "One synthetic data set."
        if self.source == "one-urn":
            return (
                f"{self.number} synthetic data sets, cut from urns that were drawn from {self.number} times "
                "as often; every number here is of all of them together."
            )
        return (
            f"{self.number} synthetic data sets from independent runs of the mechanism. Run and person are "
            "of all of them together; classes and losses are of one, and losses add up."
        )

    def cut(self, drawn: NDArray[np.int32], n: NDArray[np.int64]) -> NDArray[np.int32]:
        """Cut the draws of one run of the mechanism into its implicates.

        Draws are those of consecutive pools, pool after pool, `of_run` times the slots `n` of each;
        returned is a row for each implicate, slot after slot. Draws of an urn are exchangeable, so
        the first n are an implicate like any other n.
        """
        if self.of_run == 1:
            return drawn[np.newaxis]
        position = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        first = np.repeat((np.cumsum(n) - n) * self.of_run, n) + position
        return drawn[first + np.arange(self.of_run)[:, None] * np.repeat(n, n)]
