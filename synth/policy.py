"""Policies: which home may stand in the place of which other one, and so what neighbours are.

Under "full" any home may. Under a policy of parts a home keeps its part: the blocks are divided into runs,
and the number of records of each part in each pool is public, because no two neighbours differ in it. Proofs
are in docs/privacy.md, under "Policies".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth._arrays import integers

__all__ = ["FULL", "Policy", "implies"]

Int32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Policy:
    """Which homes neighbours may differ in.

    Attributes
    ----------
    name : str
        The policy with what it is about, so that two releases have the same name where, and only where, they
        have the same neighbours: "full", or "partition " with a level and all above it, each with a digest of
        its units.
    parts : ndarray of int32, shape (n_parts,)
        First block of each part, rising from 0. One part is all blocks.
    """

    name: str
    parts: Int32

    def __repr__(self) -> str:
        return f"<Policy: {self.name}; parts: {self.n_parts:,}>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", integers(self.parts, np.int32, "parts"))
        if self.parts.ndim != 1 or self.parts[:1].tolist() != [0] or np.any(np.diff(self.parts) < 1):
            raise ValueError("the parts of a policy are runs of blocks that begin at block 0 and rise")

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.parts.size

    def part(self, blocks: NDArray[np.integer]) -> Int32:
        """Return the part that each block is in.

        Lemma 37 of docs/privacy.md.

        Parameters
        ----------
        blocks : ndarray of int, shape (n,)
            **Confidential** where they are homes; their parts are public under this policy.

        Returns
        -------
        ndarray of int32, shape (n,)
            Where there is one part only, nothing is read, and nothing is held: a view of one zero.
        """
        if self.n_parts == 1:
            return np.broadcast_to(np.int32(0), blocks.shape)
        return (np.searchsorted(self.parts, blocks, side="right") - 1).astype(np.int32)

    def ends(self, n_blocks: int) -> NDArray[np.int64]:
        """Return the block past the last one of each part, int64 of shape (n_parts,)."""
        return np.append(self.parts[1:], n_blocks).astype(np.int64)

    def within(self, cuts: Int32, part: int) -> Int32:
        """Return the first blocks of the cells of one part, from those of all blocks.

        Parameters
        ----------
        cuts : ndarray of int32
            First block of each cell, rising from 0.
        part : int
        """
        if self.n_parts == 1:
            return cuts
        begin, stop = np.searchsorted(cuts, [*self.parts[part : part + 2], np.iinfo(np.int32).max][:2])
        own = cuts[begin:stop]
        first = self.parts[part : part + 1]
        return own if own[:1].tolist() == first.tolist() else np.concatenate([first, own])


FULL = Policy("full", np.zeros(1, np.int32))
"""Any home for any other: what a release has unless its configuration names another policy."""


def implies(policy: str, other: str) -> bool:
    """Say whether what one policy protects is all that another protects, or more.

    Lemma 38 of docs/privacy.md. "full" implies every policy; a partition one whose parts divide its own.

    Parameters
    ----------
    policy, other : str
        `Policy.name` of each.
    """
    return policy in (FULL.name, other) or (
        policy.startswith("partition ") and other.startswith(f"{policy}/")
    )
