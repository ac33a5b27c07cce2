"""External zones: coarse public areas beyond the geography in which workers may live or work.

An external zone is named by a prefix of geocodes, such as "25" for the state of Massachusetts. In the
geography it is one block, whose code and whose units' codes are the prefix filled up with 9s, as LODES fills
codes that are missing: block 259999999999999, tract 25999999999, state 25. It has no place in the geography;
what is known of states serves the public model. A kind of work that has no place, such as work at home, is an
external zone in which nobody lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class State(NamedTuple):
    """What the 2010 census says of a state; its centre is that of the people, to a tenth of a degree."""

    name: str
    residents: int
    latitude: float  # of the main island, for the territories
    longitude: float


STATES = {
    "01": State("Alabama", 4_779_736, 33.0, -86.8),
    "02": State("Alaska", 710_231, 61.4, -148.9),
    "04": State("Arizona", 6_392_017, 33.4, -111.9),
    "05": State("Arkansas", 2_915_918, 35.1, -92.7),
    "06": State("California", 37_253_956, 35.5, -119.3),
    "08": State("Colorado", 5_029_196, 39.5, -105.2),
    "09": State("Connecticut", 3_574_097, 41.5, -72.9),
    "10": State("Delaware", 897_934, 39.4, -75.6),
    "11": State("District of Columbia", 601_723, 38.9, -77.0),
    "12": State("Florida", 18_801_310, 27.8, -81.6),
    "13": State("Georgia", 9_687_653, 33.3, -83.9),
    "15": State("Hawaii", 1_360_301, 21.1, -157.5),
    "16": State("Idaho", 1_567_582, 44.2, -115.1),
    "17": State("Illinois", 12_830_632, 41.3, -88.4),
    "18": State("Indiana", 6_483_802, 40.2, -86.3),
    "19": State("Iowa", 3_046_355, 42.0, -93.0),
    "20": State("Kansas", 2_853_118, 38.5, -96.5),
    "21": State("Kentucky", 4_339_367, 37.8, -85.3),
    "22": State("Louisiana", 4_533_372, 30.7, -91.5),
    "23": State("Maine", 1_328_361, 44.3, -69.7),
    "24": State("Maryland", 5_773_552, 39.1, -76.8),
    "25": State("Massachusetts", 6_547_629, 42.3, -71.4),
    "26": State("Michigan", 9_883_640, 42.9, -84.2),
    "27": State("Minnesota", 5_303_925, 45.2, -93.6),
    "28": State("Mississippi", 2_967_297, 32.6, -89.6),
    "29": State("Missouri", 5_988_927, 38.4, -92.2),
    "30": State("Montana", 989_415, 46.8, -111.2),
    "31": State("Nebraska", 1_826_341, 41.2, -97.4),
    "32": State("Nevada", 2_700_551, 37.2, -116.3),
    "33": State("New Hampshire", 1_316_470, 43.2, -71.5),
    "34": State("New Jersey", 8_791_894, 40.4, -74.4),
    "35": State("New Mexico", 2_059_179, 34.6, -106.3),
    "36": State("New York", 19_378_102, 41.5, -74.6),
    "37": State("North Carolina", 9_535_483, 35.6, -79.7),
    "38": State("North Dakota", 672_591, 47.4, -99.3),
    "39": State("Ohio", 11_536_504, 40.5, -82.7),
    "40": State("Oklahoma", 3_751_351, 35.6, -96.8),
    "41": State("Oregon", 3_831_074, 44.7, -122.6),
    "42": State("Pennsylvania", 12_702_379, 40.5, -77.1),
    "44": State("Rhode Island", 1_052_567, 41.8, -71.4),
    "45": State("South Carolina", 4_625_364, 34.0, -81.0),
    "46": State("South Dakota", 814_180, 44.0, -99.0),
    "47": State("Tennessee", 6_346_105, 35.8, -86.4),
    "48": State("Texas", 25_145_561, 30.9, -97.4),
    "49": State("Utah", 2_763_885, 40.4, -111.9),
    "50": State("Vermont", 625_741, 44.1, -72.8),
    "51": State("Virginia", 8_001_024, 37.8, -77.8),
    "53": State("Washington", 6_724_540, 47.3, -121.6),
    "54": State("West Virginia", 1_852_994, 38.8, -80.8),
    "55": State("Wisconsin", 5_686_986, 43.7, -89.0),
    "56": State("Wyoming", 563_626, 42.7, -107.0),
    "60": State("American Samoa", 55_519, -14.3, -170.7),
    "66": State("Guam", 159_358, 13.5, 144.8),
    "69": State("Northern Mariana Islands", 53_883, 15.2, 145.7),
    "72": State("Puerto Rico", 3_725_789, 18.3, -66.3),
    "78": State("Virgin Islands", 106_405, 18.1, -64.8),
}
"""By FIPS code."""

_POSTAL = """
    al ak az ar ca co ct de dc fl ga hi id il in ia ks ky la me md ma mi mn ms mo
    mt ne nv nh nj nm ny nc nd oh ok or pa ri sc sd tn tx ut vt va wa wv wi wy as gu mp pr vi
"""
POSTAL_CODES = dict(zip(_POSTAL.split(), STATES, strict=True))
"""FIPS codes by the two letters with which names of LODES files begin."""


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
