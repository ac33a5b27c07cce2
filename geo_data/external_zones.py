"""External zones: coarse public areas beyond the geography in which workers may live.

An external zone is named by a prefix of geocodes, such as "25" for the state of Massachusetts. In the
geography it is one block, whose code and whose units' codes are the prefix filled up with 9s, as LODES fills
codes that are missing: block 259999999999999, tract 25999999999, state 25. It has no place in the geography;
what is known of states serves the public model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.states import STATES

_EVERY_STATE = "us-states"
CENSUS_DIGITS = 15
"""Of the code of a census block of the United States; the first two are of its state."""

US_STATES = tuple(STATES)
"""FIPS codes of the states, the District of Columbia, and the territories of the United States."""


@dataclass(frozen=True, eq=False)
class ExternalFacts:
    """What is publicly known of external zones; NaN where nothing is."""

    population: NDArray[np.float64]  # as a multiple of that of the geography's own states; shape (n_areas,)
    # centre of population, degrees; shape (n_areas,)
    latitude: NDArray[np.float64]
    longitude: NDArray[np.float64]


def external_facts(areas: Sequence[str], blocks: Iterable[str]) -> ExternalFacts:
    """Return what is known of external zones: of states, where the geography's blocks are of states, too."""
    states = {code[:2] if len(code) == CENSUS_DIGITS else "" for code in blocks}
    facts_of_state = STATES if states <= STATES.keys() else {}
    unknown = (np.nan, np.nan, np.nan)
    facts = np.array(
        [facts_of_state[area][1:] if area in facts_of_state else unknown for area in areas]
    ).reshape(-1, 3)
    residents = sum(facts_of_state[state].residents for state in states if state in facts_of_state)
    return ExternalFacts(facts[:, 0] / max(1, residents), facts[:, 1], facts[:, 2])


def find_external_zones(areas: Sequence[str], blocks: pd.Series) -> tuple[str, ...]:
    """Return the external zones of a geography.

    Sorted; "us-states" stands for all of `US_STATES` of which the geography has no block.
    """
    states = set(US_STATES) - set(blocks.str[:2].unique()) if _EVERY_STATE in areas else ()
    return tuple(sorted([*(area for area in areas if area != _EVERY_STATE), *states]))


def fill(area: str, length: int) -> str:
    """Return the code of an external zone at a level whose codes have a length: cut, or filled up with 9s."""
    return area[:length].ljust(length, "9")


def longest_prefix(codes: pd.Series, areas: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of the longest area that each code begins with, -1 where none does."""
    position = np.full(len(codes), -1, np.int64)
    index = pd.Index(list(areas), dtype="str")
    for length in sorted({len(area) for area in areas}):  # the longest last, so that it stays
        match = index.get_indexer(pd.Index(codes.str[:length]))
        position = np.where(match >= 0, match, position)
    return position
