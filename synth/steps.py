"""Which measured tables one edge of a policy changes at once, and so what two neighbours cost in all of them.

An edge joins two blocks. A table tells them apart where they lie in different cells of it, and where no edge
leaves a cell it tells nothing of neighbours. docs/privacy.md has the proofs, under "Policies".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from synth.plan import Domains

__all__ = ["changed_together", "largest_sum"]

Sets = frozenset[tuple[bool, ...]]


def changed_together(tables: Sequence[Domains]) -> Sets:
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
        For each set, whether each table is in it: every set that is in no other, and some that are. Without
        a policy of edges, all tables.
    """
    reach = tables[0].policy.reach
    if reach is None:
        return frozenset({(True,) * len(tables)})
    # Of the edges from a block to later ones, that to the last changes all that the others change.
    changed = np.empty((reach.size, len(tables)), np.bool_)
    for number, domains in enumerate(tables):
        cuts = np.unique(domains.cuts)
        before, after = (np.searchsorted(cuts, at, side="right") for at in (np.arange(reach.size), reach))
        changed[:, number] = before < after
    return frozenset(map(tuple, np.unique(changed, axis=0).tolist()))


def largest_sum(sets: Sets, losses: Sequence[Fraction]) -> Fraction:
    """Return the most that the losses of tables that are changed together add up to.

    Lemma 40 of docs/privacy.md.

    Parameters
    ----------
    sets : frozenset of tuple of bool
        Of `changed_together`.
    losses : sequence of Fraction
        Of every table, where it is changed.
    """
    added = (sum((x for x, there in zip(losses, one, strict=True) if there), Fraction(0)) for one in sets)
    return max(added)
