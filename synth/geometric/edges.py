"""Which measured tables one edge of a policy changes at once, and so what two neighbours cost in all of them.

An edge joins two blocks that may stand for each other: without a policy of edges, any two of a part. A table
tells them apart where they lie in different cells of it, and where no edge leaves a cell it tells nothing of
neighbours. docs/privacy.md has the proofs, under "Policies".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from synth.plan import Domains

Sets = frozenset[tuple[bool, ...]]


def changed_tables(tables: Sequence[Domains]) -> Sets:
    """Return the sets of measured tables that some edge of the policy changes together.

    Lemma 40 of docs/privacy.md.

    Parameters
    ----------
    tables : sequence of Domains
        Cells of every measured table, all under one policy. An edge is taken to change a table if it does in
        some domain of it.

    Returns
    -------
    frozenset of tuple of bool
        For each set, whether each table is in it: every set that is in no other, and some that are.
    """
    policy = tables[0].policy
    changed = np.empty((policy.n_parts if policy.reach is None else policy.reach.size, len(tables)), np.bool_)
    for number, domains in enumerate(tables):
        if policy.reach is None:  # the edge between the ends of a part changes all that others in it change
            changed[:, number] = np.bincount(domains.part, domains.n_cells > 1, policy.n_parts) > 0
            continue
        # Of the edges from a block to later ones, that to the last changes all that the others change.
        cuts, blocks = np.unique(domains.cuts), np.arange(policy.reach.size)
        before, after = (np.searchsorted(cuts, ends, side="right") for ends in (blocks, policy.reach))
        changed[:, number] = before < after
    return frozenset(map(tuple, np.unique(changed, axis=0).tolist()))


def joint_loss(sets: Sets, losses: Sequence[Fraction]) -> Fraction:
    """Return the most that the losses of tables that are changed together add up to.

    Lemma 40 of docs/privacy.md.

    Parameters
    ----------
    sets : frozenset of tuple of bool
        Of `changed_tables`.
    losses : sequence of Fraction
        Of every table, where it is changed.
    """
    added = (
        sum((x for x, is_changed in zip(losses, members, strict=True) if is_changed), Fraction(0))
        for members in sets
    )
    return max(added)
