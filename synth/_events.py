"""What an audit looks at in an output, and how it chooses the most telling event.

Everything here is a function of outputs and of which two cells differ between the inputs: an event that is
chosen badly makes an audit weak, never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.arrays import find_keys

Observed = dict[str, NDArray[Any]]

_MOST_TOKENS = 4096  # the most frequent outputs of each kind that events are made of
_KINDS = {
    "counts": "the draws from the two cells, in every release",
    "histogram": "the number of draws from every cell",
    "sequence": "the draws in their order",
}


@dataclass(frozen=True, eq=False)
class Event:
    """An event: thresholds for the counts of the two cells, or a set of outputs.

    Attributes
    ----------
    words : str
        What it is.
    first : bool
        Whether it is likelier under the first input.
    kind : str
        ``"thresholds"``, or which tokens (a key of the observations).
    tokens : ndarray
        The sorted tokens of the set; for thresholds (least of the one cell, most of the other).
    """

    words: str
    first: bool
    kind: str
    tokens: NDArray[Any]

    def count(self, observed: Observed) -> int:
        """Return in how many runs the event happened."""
        if self.kind == "thresholds":
            totals = observed["totals"] if self.first else observed["totals"][:, ::-1]
            return int(np.count_nonzero((totals[:, 0] >= self.tokens[0]) & (totals[:, 1] <= self.tokens[1])))
        return int(np.count_nonzero(find_keys(self.tokens, observed[self.kind])[1]))


def observe(drawn: NDArray[np.int32], changed: tuple[int, int]) -> Observed:
    """Reduce outputs to what events are made of.

    Parameters
    ----------
    drawn : ndarray of int32, shape (runs, m, releases)
    changed : (int, int)
        The cells that lose and gain a worker.

    Returns
    -------
    dict of ndarray
        ``totals``, shape (runs, 2): draws from the two cells over all releases. ``counts``, ``histogram`` and
        ``sequence``, shape (runs,): tokens of the outputs; outputs that are equal have equal tokens, and
        others as good as never do (a collision would merge two outputs in an event, no more).
    """
    runs, m, releases = drawn.shape
    totals = np.empty((runs, 2), np.int64)
    counts = np.zeros(runs, np.uint64)
    for column, cell in enumerate(changed):
        here = (drawn == cell).sum(axis=1)
        totals[:, column] = here.sum(axis=1)
        for release in range(releases):
            counts = counts * np.uint64(m + 1) + here[:, release].astype(np.uint64)
    histogram, sequence = np.zeros(runs, np.uint64), np.zeros(runs, np.uint64)
    for release in range(releases):
        for t in range(m):
            cell_numbers = drawn[:, t, release].astype(np.uint64)
            histogram += _mixed(cell_numbers + np.uint64(release << 40))
            sequence += _mixed(cell_numbers + np.uint64((release << 40) + ((t + 1) << 48)))
    return {"totals": totals, "counts": counts, "histogram": histogram, "sequence": sequence}


def best_event(
    first: Observed, second: Observed, changed: tuple[int, int], delta: float, error: float
) -> Event:
    """Choose the event with the highest estimate of the bound, in either direction.

    Candidates: at least t draws from one of the two cells and at most u from the other, for all t and u;
    and, for each kind of token, every frequent token by itself and the sets of tokens above every
    likelihood ratio.

    Parameters
    ----------
    first, second : dict of ndarray
        Observations (`observe`) under the two inputs, equally many.
    changed : (int, int)
    delta, error : float
    """
    runs = first["counts"].size
    deviations = -NormalDist().inv_cdf(error / 2)
    best, event = -np.inf, Event("none", True, "thresholds", np.array([0, runs]))
    for is_first, (p, q) in ((True, (first, second)), (False, (second, first))):
        cells = changed if is_first else changed[::-1]
        p_table, q_table = (
            _threshold_table(o["totals"] if is_first else o["totals"][:, ::-1]) for o in (p, q)
        )
        p_table, q_table = _same_shape(p_table, q_table)
        score = _score(p_table, q_table, runs, delta, deviations)
        t, u = np.unravel_index(score.argmax(), score.shape)
        if score[t, u] > best:
            best = float(score[t, u])
            words = f"at least {t} draws from cell {cells[0]}"
            if u < score.shape[1] - 1:
                words += f" and at most {u} from cell {cells[1]}"
            event = Event(words, is_first, "thresholds", np.array([t, u]))
        for kind, words in _KINDS.items():
            tokens, p_counts, q_counts = _token_counts(p[kind], q[kind])
            order = np.argsort(-(p_counts + 0.5) / (q_counts + 0.5), kind="stable")
            alone = _score(p_counts, q_counts, runs, delta, deviations)
            union = _score(p_counts[order].cumsum(), q_counts[order].cumsum(), runs, delta, deviations)
            if alone.max() > best:
                best = float(alone.max())
                event = Event(f"one value of {words}", is_first, kind, tokens[[alone.argmax()]])
            if union.max() > best:
                best, size = float(union.max()), int(union.argmax()) + 1
                event = Event(f"{size} values of {words}", is_first, kind, np.sort(tokens[order[:size]]))
    return event


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter numbers over 64 bits (the finaliser of SplitMix64)."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _threshold_table(totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return in how many runs the one cell has at least t and the other at most u draws, at [t, u]."""
    t, u = totals[:, 0], totals[:, 1]
    width = int(u.max()) + 1
    joint = np.bincount(t * width + u, minlength=(int(t.max()) + 1) * width).reshape(-1, width)
    return joint[::-1].cumsum(axis=0)[::-1].cumsum(axis=1)


def _same_shape(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Extend two tables: beyond the most draws of the one cell no run, of the other cell every run."""
    rows, columns = max(a.shape[0], b.shape[0]), max(a.shape[1], b.shape[1])

    def extended(x: NDArray[np.int64]) -> NDArray[np.int64]:
        x = np.pad(x, ((0, 0), (0, columns - x.shape[1])), mode="edge")
        return np.pad(x, ((0, rows - x.shape[0]), (0, 0)))

    return extended(a), extended(b)


def _token_counts(
    p: NDArray[np.uint64], q: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the most frequent tokens and how often each came under the two inputs."""
    tokens, inverse = np.unique(np.concatenate([p, q]), return_inverse=True)
    p_counts = np.bincount(inverse[: p.size], minlength=tokens.size)
    q_counts = np.bincount(inverse[p.size :], minlength=tokens.size)
    if tokens.size > _MOST_TOKENS:
        often = np.sort(np.argpartition(-(p_counts + q_counts), _MOST_TOKENS)[:_MOST_TOKENS])
        tokens, p_counts, q_counts = tokens[often], p_counts[often], q_counts[often]
    return tokens, p_counts, q_counts


def _score(
    likely: NDArray[np.int64], unlikely: NDArray[np.int64], runs: int, delta: float, deviations: float
) -> NDArray[np.float64]:
    """Estimate the bound that events would give, with Wilson's intervals in place of exact ones."""
    z = deviations**2
    p, q = likely / runs, unlikely / runs
    lower = (p + z / (2 * runs) - deviations * np.sqrt(p * (1 - p) / runs + z / (4 * runs**2))) / (
        1 + z / runs
    )
    upper = (q + z / (2 * runs) + deviations * np.sqrt(q * (1 - q) / runs + z / (4 * runs**2))) / (
        1 + z / runs
    )
    return np.log(np.maximum(lower - delta, 1e-300) / upper)
