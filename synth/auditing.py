"""A black-box audit: a lower bound on epsilon from what a sampler draws, with a stated confidence.

The auditor is given one pool's urn, two neighbouring inputs and a sampler, by default the compiled one that
ships, and looks at nothing but outputs. On one half of the runs it looks for the event whose probabilities
under the two inputs differ most; on the other half it counts that event and bounds both probabilities with
Clopper-Pearson intervals. If the bound exceeds the certified epsilon then, with the stated confidence, the
sampler does not do what the certificate says. A bound below it proves nothing: the auditor may have missed
the event.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth._events import best_event, observe
from synth.dirichlet.urn import Urns, sample_cells
from synth.randomness import RunKey, WordStream
from synth.rationals import decimal_down, exact
from synth.tails import fraction, rigorous, upper_fraction

Sampler = Callable[[Urns, NDArray[np.int32], WordStream], NDArray[np.int32]]
"""Draws a batch: urns, cells of the real workers, randomness; the cells drawn, or, for several releases of
the same records, an array of shape (n_draws, n_releases)."""

_BITS = 64  # of the balls around tails, which are decided to 20 bits
_BATCH_CELLS = 4_000_000  # workers and draws of the pools that are sampled in one call


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes
    ----------
    epsilon : Fraction
        Lower bound: with the stated confidence the sampler is not (e, delta)-differentially private for any e
        below it. 0 where nothing was found.
    delta, confidence : Fraction
        What the audit was asked for.
    event : str
        The event in words; cell numbers are those of the pool's domain.
    runs : int
        Runs that the event was counted in, for each of the two inputs.
    likely, unlikely : int
        How often it happened under the input that makes it likelier, and under the other.
    """

    epsilon: Fraction
    delta: Fraction
    confidence: Fraction
    event: str
    runs: int
    likely: int
    unlikely: int

    def __repr__(self) -> str:
        # Down, which claims less: of a smaller delta, and with less confidence.
        low, delta, sure = (decimal_down(x, 6) for x in (self.epsilon, self.delta, self.confidence))
        seen = f"{self.likely:,} and {self.unlikely:,} times in {self.runs:,} runs"
        bound = f"epsilon at least {low} at delta {delta} with confidence {sure}; rounded down"
        return f"<AuditResult: {bound}; {self.event}, {seen}>"


def audit(
    urns: Urns,
    before: NDArray[np.int32],
    after: NDArray[np.int32],
    *,
    runs: int,
    delta: Fraction,
    confidence: Fraction,
    sampler: Sampler = sample_cells,
    key: RunKey | None = None,
) -> AuditResult:
    """Bound the epsilon of a sampler from below.

    Parameters
    ----------
    urns : Urns
        Of exactly one pool (`Dirichlet.urns` of a plan gives them).
    before, after : ndarray of int32, shape (n,)
        Neighbouring inputs: the cells of the pool's real workers, of which one differs.
    runs : int
        Runs on each input, at least 2; half of them choose the event.
    delta : Fraction
        In [0, 1). A sampler that is (epsilon, delta)-probabilistically differentially private is also
        (epsilon, delta)-differentially private, which is what is tested.
    confidence : Fraction
        In (0, 1): the probability that the bound is true.
    sampler : callable
        What is audited.
    key : RunKey, optional
        For tests. By default a new key, destroyed at the end.

    Raises
    ------
    TypeError
        If delta or confidence is a float.
    ValueError
        If the inputs are not neighbours of the pool, or a number is outside its domain.
    """
    delta, confidence = exact(delta, "delta"), exact(confidence, "confidence")
    if urns.domain.size != 1:
        raise ValueError("an audit takes the urn of exactly one pool")
    if runs < 2 or not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError("runs must be at least 2, delta in [0, 1) and confidence in (0, 1)")
    changed = _changed_cells(before, after)
    error = 1 - confidence
    fresh = key is None
    key = RunKey.generate() if key is None else key
    try:
        halves = []
        for half, number in enumerate((runs // 2, runs - runs // 2)):
            halves.append(
                [
                    _observed(sampler, urns, workers, changed, number, key, f"audit-{half}-{side}")
                    for side, workers in enumerate((before, after))
                ]
            )
    finally:
        if fresh:
            key.destroy()
    event = best_event(halves[0][0], halves[0][1], changed, float(delta), float(error))
    counts = [event.count(table) for table in halves[1]]
    likely, unlikely = counts if event.first else counts[::-1]
    number = runs - runs // 2
    epsilon = _epsilon(number, likely, unlikely, delta, error)
    return AuditResult(epsilon, delta, confidence, event.words, number, likely, unlikely)


def proportion_bounds(runs: int, hits: int, error: Fraction) -> tuple[Fraction, Fraction]:
    """Return the one-sided Clopper-Pearson bounds of a probability.

    Parameters
    ----------
    runs, hits : int
        0 <= hits <= runs, runs at least 1.
    error : Fraction
        Of each bound by itself, in (0, 1).

    Returns
    -------
    lower, upper : Fraction
        The lower one is at most the p with P(Binomial(runs, p) >= hits) = error, the upper one at least the
        p with P(Binomial(runs, p) <= hits) = error, both within 2^-19 of themselves; decided in ball
        arithmetic.
    """
    if not 0 <= hits <= runs or runs < 1 or not 0 < error < 1:
        raise ValueError("hits must be from 0 to runs, and the error in (0, 1)")
    centre = Fraction(hits, runs)
    step = Fraction(4 * (1 + math.isqrt(hits * (runs - hits) // runs)), runs)
    lower, upper = Fraction(0), Fraction(1)
    if hits > 0:
        lower = _boundary(lambda p: _at_least(runs, hits, p) <= error, centre, step, Fraction(0))
    if hits < runs:
        # P(X <= hits) = P(runs - X >= runs - hits), and runs - X is Binomial(runs, 1 - p).
        upper = _boundary(lambda p: _at_least(runs, runs - hits, 1 - p) <= error, centre, step, Fraction(1))
    return lower, upper


def _at_least(runs: int, hits: int, p: Fraction) -> Fraction:
    """Return an upper end of P(Binomial(runs, p) >= hits), the regularised incomplete beta function at p."""
    with rigorous(_BITS) as balls:
        value = balls.number(p).beta_lower(hits, runs - hits + 1, regularized=1)
        return upper_fraction(value) if value.is_finite() else Fraction(1)


def _boundary(holds: Callable[[Fraction], bool], start: Fraction, step: Fraction, end: Fraction) -> Fraction:
    """Return a p, to 20 bits, for which a condition holds that is true from some p on towards `end`.

    The search widens from `start`, because the incomplete beta function is slow far from the mean.
    """
    good, bad = start, start
    if holds(start):
        bad = 1 - end
    else:
        while True:
            good = max(end, good - step) if end == 0 else min(end, good + step)
            if good == end or holds(good):
                break
            bad, step = good, 2 * step
    while good == 0 or abs(bad - good) > max(bad, good) / 2**20:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _epsilon(runs: int, likely: int, unlikely: int, delta: Fraction, error: Fraction) -> Fraction:
    """Return max(0, ln((p - delta) / q)) rounded down; each of the two intervals has half of the error."""
    p, _ = proportion_bounds(runs, likely, error / 2)
    _, q = proportion_bounds(runs, unlikely, error / 2)
    if p - delta <= q:
        return Fraction(0)
    with rigorous() as balls:
        return max(Fraction(0), fraction(balls.lower(balls.log(balls.number((p - delta) / q)))))


def _changed_cells(before: NDArray[np.int32], after: NDArray[np.int32]) -> tuple[int, int]:
    """Return the cells that lose and gain a worker."""
    if before.shape == after.shape and before.ndim == 1 and before.size:
        size = int(max(before.max(), after.max())) + 1
        step = np.bincount(after, minlength=size) - np.bincount(before, minlength=size)
        if np.abs(step).sum() == 2:
            return int(step.argmin()), int(step.argmax())
    raise ValueError("the inputs are not neighbours: the cell of exactly one worker must differ")


def _observed(
    sampler: Sampler,
    urns: Urns,
    workers: NDArray[np.int32],
    changed: tuple[int, int],
    runs: int,
    key: RunKey,
    stage: str,
) -> dict[str, NDArray[Any]]:
    """Run the sampler on batches of copies of the pool, and keep what events are made of."""
    n, m = int(urns.offsets[1]), int(urns.draw_offsets[1])
    most = max(1, _BATCH_CELLS // (n + m))
    parts = []
    for batch in range(math.ceil(runs / most)):
        copies = min(most, runs - batch * most)
        many = urns._replace(
            offsets=np.arange(copies + 1, dtype=np.int64) * n,
            draw_offsets=np.arange(copies + 1, dtype=np.int64) * m,
            prior=np.repeat(urns.prior, copies, axis=0),
            domain=np.repeat(urns.domain, copies),
        )
        drawn = sampler(many, np.tile(workers, copies), key.stream(stage, batch))
        parts.append(observe(drawn.reshape(copies, m, -1), changed))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
