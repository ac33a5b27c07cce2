"""Areas by which two releases are compared: those of both, by their codes, or groups of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from geo_data.geography import Codes, Geography
from geo_data.relationship import Links

Int64 = NDArray[np.int64]

JOINED = "*"
"""Behind the code of a group that is not one area, of the same code in A and in B."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of the areas of a kind, each with areas of A and of B.

    Attributes
    ----------
    codes : ndarray of str objects, shape (n_groups,)
        Of the only area, or of the first one of A with `JOINED` behind it.
    of : dict of str to ndarray of int64
        By letter, the group of each area of A, and of B.
    """

    codes: Codes
    of: dict[str, Int64]

    @cached_property
    def several(self) -> NDArray[np.bool_]:
        """Say of each group whether it has more than one area of A or of B."""
        sizes = [np.bincount(groups, minlength=self.codes.size) for groups in self.of.values()]
        return np.asarray(np.max(sizes, axis=0) > 1)

    @property
    def chained(self) -> bool:
        """Whether fewer than half of the areas are left."""
        return 2 * self.codes.size < min(groups.size for groups in self.of.values())


class ComparedAreas:
    """The areas of A and B, by kind: with links, groups of them; else those of A, which B has too.

    Parameters
    ----------
    a, b : Geography
    links : Links, optional
    """

    def __init__(self, a: Geography, b: Geography, links: Links | None = None) -> None:
        self._a, self._b, self.links = a, b, links
        self._groups: dict[str, Groups] = {}

    def cut(self, kind: str) -> bool:
        """Say whether links do not tell of areas of a kind, as units of these lie in several."""
        return self.links is not None and self.links.groups(kind) is None

    def groups(self, kind: str) -> Groups:
        """Return the groups of areas of a kind, which are not cut."""
        if kind not in self._groups:
            self._groups[kind] = self._grouped(kind)
        return self._groups[kind]

    def codes(self, kind: str) -> Codes:
        """Return the codes of the groups of a kind."""
        return self.groups(kind).codes

    def _grouped(self, kind: str) -> Groups:
        codes = self._a.codes(kind), self._b.codes(kind)
        if self.links is None:
            number = self._a.unit_number(kind, codes[1]).astype(np.int64)
            return Groups(codes[0], {"A": np.arange(codes[0].size), "B": number})
        grouped = self.links.groups(kind)
        assert grouped is not None
        groups = Groups(_first(grouped[0], codes[0]), dict(zip("AB", grouped, strict=True)))
        same = ~groups.several & (groups.codes == _first(grouped[1], codes[1]))
        return replace(groups, codes=np.where(same, groups.codes, groups.codes + JOINED))


def _first(groups: Int64, codes: Codes) -> Codes:
    """Return the first code of each group."""
    order = np.lexsort((codes.astype("str"), groups))
    _, begin = np.unique(groups[order], return_index=True)
    return np.asarray(codes[order][begin], object)
