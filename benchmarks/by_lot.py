"""Whether posterior draws of a count are right: the rank of the truth among them, by lot among equals.

Counts are whole numbers, so a closed interval holds more than its level where counts are small. Of a count
whose posterior is right, ranks by lot are uniform whatever its size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.posterior.intervals import LEVEL


def held_by_lot(
    truth: NDArray[np.integer], draws: NDArray[np.integer], random: np.random.Generator
) -> NDArray[np.bool_]:
    """Say of each count whether the truth's rank among the draws is in the middle part of the usual level.

    Where truth and draws come from the same distribution, this is so with the probability of the level, but
    for less than one rank, also of counts that are nearly always 0. Draws have one dimension more, the first.
    """
    below, equal = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    rank = (below + random.random(truth.shape) * (equal + 1)) / (draws.shape[0] + 1)
    tail = float((1 - LEVEL) / 2)
    return np.asarray((tail <= rank) & (rank <= 1 - tail))
