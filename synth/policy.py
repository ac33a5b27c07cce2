"""Policies: which home may stand in the place of which other one, and so what neighbours are.

Under "full" any home may. Under a policy of parts a home keeps its part: the blocks are divided into runs,
and the number of records of each part in each pool is public, because no two neighbours differ in it. Under a
policy of edges one home may stand for another only if their blocks are joined by an edge, as those are that
lie near each other; no edge leaves a part. Under a policy of attributes the categories of a record are as
secret as its home. Proofs are in docs/privacy.md, under "Policies" and "Whole records".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from synth.arrays import integers

Int32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Policy:
    """Which homes neighbours may differ in.

    Attributes
    ----------
    name : str
        The policy with what it is about, so that two releases have the same name where, and only where, they
        have the same neighbours: "full"; "parts " with a level and all above it, each with a digest of
        every block with its unit, and of the external zones; "distance ", kilometres, a colon and a digest of
        the places of all blocks; or "attribute " with each secret attribute and a digest of its categories.
    parts : ndarray of int32, shape (n_parts,)
        First block of each part, rising from 0. One part is all blocks.
    reach : ndarray of int32, shape (n_blocks,), optional
        Under a policy of edges, the last block that each block has an edge to; itself where that is before
        it, or nowhere. By default there is an edge between any two blocks of a part.
    steps : int
        Under a policy of edges, no more of them lead from one block to another on the shortest way, wherever
        there is a way.
    secret : mapping of str to tuple of str
        The categories of each attribute that is as secret as homes are; the others are public.
    """

    name: str
    parts: Int32
    reach: Int32 | None = None
    steps: int = 1
    secret: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Policy: {self.name}; parts: {self.n_parts:,}>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", integers(self.parts, np.int32, "parts"))
        if self.parts.ndim != 1 or self.parts[:1].tolist() != [0] or np.any(np.diff(self.parts) < 1):
            raise ValueError(
                "the parts of a policy must be runs of blocks that begin at block 0 and increase"
            )
        if self.reach is not None:
            object.__setattr__(self, "reach", integers(self.reach, np.int32, "reach"))
            if not np.array_equal(self.parts, parts_of_reach(self.reach)):
                raise ValueError(
                    "the parts of a policy of edges must be the shortest runs that no edge leaves"
                )

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
        inside, first = cuts[begin:stop], self.parts[part : part + 1]
        return inside if inside[:1].tolist() == first.tolist() else np.concatenate([first, inside])


def parts_of_reach(reach: NDArray[np.integer]) -> Int32:
    """Return the first block of each part: of the shortest runs of blocks that no edge leaves.

    Lemma 39 of docs/privacy.md.

    Parameters
    ----------
    reach : ndarray of int, shape (n_blocks,)
        As for `Policy`.

    Raises
    ------
    ValueError
        If a block reaches one before it, or one that there is not.
    """
    blocks = np.arange(reach.size)
    if reach.ndim != 1 or not reach.size or np.any(reach < blocks) or np.any(reach >= reach.size):
        raise ValueError("the last block that a block reaches must be itself, or come after it")
    return np.flatnonzero(np.append(True, np.maximum.accumulate(reach)[:-1] < blocks[1:])).astype(np.int32)


FULL = Policy("full", np.zeros(1, np.int32))
"""Any home for any other: what a release has unless its configuration names another policy."""
RECORD = "record"
"""What the protection of whole records is called among policies: there is no policy of homes then."""


_KINDS = ("parts ", "distance ", "attribute ")


def implies(policy: str, other: str) -> bool:
    """Say whether what one policy protects is all that another protects, or more.

    Lemma 38, Lemma 41 and Lemma 43 of docs/privacy.md. "full" implies every policy of homes; a partition one
    whose parts divide its own; a distance any that is not longer, between the same places; one of attributes
    every policy of homes, and one of fewer of its attributes; `RECORD`, that of whole records, every one.

    Parameters
    ----------
    policy, other : str
        `Policy.name` of each; a name of no kind that is known implies none, and none implies it.
    """
    if not all(name in (FULL.name, RECORD) or name.startswith(_KINDS) for name in (policy, other)):
        return False
    if RECORD in (policy, other):
        return policy == RECORD
    if policy.startswith("distance ") and other.startswith("distance "):
        (km, places), (other_km, others) = (
            name.removeprefix("distance ").split(":") for name in (policy, other)
        )
        return places == others and Fraction(km) >= Fraction(other_km)
    kind = "attribute "
    if other.startswith(kind):
        secret, fewer = ({*name.removeprefix(kind).split("/")} for name in (policy, other))
        return policy.startswith(kind) and secret >= fewer
    return (
        policy in (FULL.name, other)
        or policy.startswith(kind)
        or (policy.startswith("parts ") and other.startswith(f"{policy}/"))
    )
