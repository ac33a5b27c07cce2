"""The parameters of a Dirichlet plan, and the check that they fit its pools and domains."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.dirichlet.calibration import MAX_WEIGHT
from synth.dirichlet.losses import PoolClass
from synth.errors import ShownError
from synth.mechanism import ClassGuarantee
from synth.plan import Domains, Plan, Pools
from synth.rationals import MAX_DENOMINATOR, exact


@dataclass(frozen=True)
class DirichletParameters:
    """The calibrated numbers of a plan.

    Attributes
    ----------
    classes : tuple of PoolClass
        At least one; all have the same denominator and retentions.
    most_pools : int, optional
        Where the pools of a release follow from noisy counts: how many there can be. Classes are then for
        pools of all sizes, by rising size.
    """

    classes: tuple[PoolClass, ...]
    most_pools: int | None = None

    def __post_init__(self) -> None:
        if len({(c.denominator, c.retention) for c in self.classes}) != 1:
            raise ValueError("the classes of a plan have one denominator and one retention for each stratum")

    def __repr__(self) -> str:
        classes, strata = len(self.classes), len(self.retention)
        return f"<DirichletParameters: classes of pools: {classes}, strata of cells: {strata}>"

    @property
    def denominator(self) -> int:
        """q: every prior is an integer over q."""
        return self.classes[0].denominator

    @property
    def retention(self) -> tuple[Fraction, ...]:
        """Retention f of each stratum, the numbers that `Domains.stratum` indexes."""
        return self.classes[0].retention

    @cached_property
    def prior(self) -> NDArray[np.int64]:
        """Prior numerators A of each class and stratum, shape (n_classes, n_strata)."""
        return np.array([c.prior for c in self.classes], np.int64)

    def to_json(self) -> dict[str, Any]:
        """Return integers, texts and lists only."""
        return {
            **({} if self.most_pools is None else {"most_pools": self.most_pools}),
            "denominator": self.denominator,
            "retention": [str(f) for f in self.retention],
            "classes": [
                {
                    "n_min": c.n_min,
                    "n_max": c.n_max,
                    "m_max": c.m_max,
                    "cells": list(c.cells),
                    "cells_min": list(c.cells_min),
                    "kept": list(c.kept),
                    "gain": str(c.gain),
                    "prior": list(c.prior),
                }
                for c in self.classes
            ],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DirichletParameters:
        """Read what `to_json` returned; a float anywhere is a TypeError."""
        denominator = index(data["denominator"])
        retention = tuple(exact(f, "retention") for f in data["retention"])
        classes = (
            PoolClass(
                n_min=index(c["n_min"]),
                n_max=index(c["n_max"]),
                m_max=index(c["m_max"]),
                cells=tuple(map(index, c["cells"])),
                cells_min=tuple(map(index, c["cells_min"])),
                kept=tuple(map(index, c["kept"])),
                gain=exact(c["gain"], "gain"),
                prior=tuple(map(index, c["prior"])),
                retention=retention,
                denominator=denominator,
            )
            for c in data["classes"]
        )
        most = data.get("most_pools")
        return cls(tuple(classes), None if most is None else index(most))


@dataclass(frozen=True, repr=False)
class DirichletClass(ClassGuarantee):
    """The guarantee of every pool of one class; epsilon is U* + V, computed as one logarithm.

    Attributes
    ----------
    prior, retention : tuple of Fraction
        a and f per stratum.
    block_loss, pruning_loss : Fraction
        U* and V.
    """

    prior: tuple[Fraction, ...]
    retention: tuple[Fraction, ...]
    block_loss: Fraction
    pruning_loss: Fraction

    @property
    def numbers(self) -> dict[str, tuple[Fraction, ...]]:
        """Prior and retention per stratum."""
        return {"prior": self.prior, "retention": self.retention}

    @property
    def losses(self) -> dict[str, Fraction]:
        """U* and V."""
        return {"block_loss_U": self.block_loss, "pruning_loss_V": self.pruning_loss}


def strata_counts(
    domains: Domains, retention: tuple[Fraction, ...], some: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return the cells of some domains, by number, in every stratum of retention, shape (n, n_strata)."""
    present = domains.strata_counts[some]
    counts = np.zeros((some.size, len(retention)), np.int64)
    counts[:, : present.shape[1]] = present
    return counts


def check_retention(retention: tuple[Fraction, ...]) -> None:
    """Check that retentions are probabilities that the sampler can throw coins for.

    Raises
    ------
    ValueError
        If one is outside (0, 1], or its denominator is 2^62 or more.
    """
    if not retention or any(not 0 < f <= 1 or f.denominator > MAX_DENOMINATOR for f in retention):
        raise ValueError("every retention must be in (0, 1], with a denominator below 2^62")


def check_membership(plan: Plan, parameters: DirichletParameters) -> None:
    """Check that every pool is inside the limits of its class, and that the sampler can hold every urn.

    Lemma 9 of docs/privacy.md, and with a range of records, all of which must be inside, Lemma 29.

    Raises
    ------
    ValueError
        If not; a bound of the class is then not a bound of the pool.
    """
    classes, pools = parameters.classes, plan.pools
    if int(plan.pool_class.max()) >= len(classes):
        raise ValueError("a pool names a class that the plan does not have")
    check_retention(parameters.retention)
    if parameters.denominator < 1 or any(c.n_min < 1 for c in classes):
        raise ValueError("the denominator and the sizes of the classes of the plan must be at least 1")
    if plan.domains.strata_counts.shape[1] > len(parameters.retention):
        raise ValueError("a cell names a retention stratum that the plan does not have")
    limits = np.array([(c.n_min, c.n_max, c.m_max) for c in classes], np.int64)[plan.pool_class]
    cells = strata_counts(plan.domains, parameters.retention, pools.domain)
    most, least = (
        np.array([getattr(c, name) for c in classes], np.int64)[plan.pool_class]
        for name in ("cells", "cells_min")
    )
    fewest, largest = (
        (pools.n, pools.n) if plan.target.record_range is None else plan.target.record_range.limits(pools.n)
    )
    outside = (
        (fewest < limits[:, 0])
        | (largest > limits[:, 1])
        | (pools.m > limits[:, 2])
        | (cells > most).any(axis=1)
        | (cells < least).any(axis=1)
    )
    if outside.any():
        raise ValueError(f"{int(outside.sum())} pools are outside the limits of their class")
    if (parameters.most_pools is None) != (plan.target.protects == "home"):
        raise ValueError("most_pools is stated where, and only where, whole records are protected")
    if parameters.most_pools is not None:
        _check_all_sizes(plan, parameters)
    else:  # bounds of larger pools would take for ever
        for number in np.unique(plan.pool_class).tolist():
            members, c = plan.pool_class == number, classes[number]
            if c.n_max > largest[members].max() or c.m_max > pools.m[members].max():
                raise ValueError("the limits of a class of the plan are beyond those of its pools")
    for c in classes:
        if c.gain <= 1 or any(k and a < 1 for k, a in zip(c.cells, c.prior, strict=True)):
            raise ValueError("a class of the plan has a gain of at most 1 or a cell without a prior")
        if any(not 0 <= kept <= k for kept, k in zip(c.kept, c.cells_min, strict=True)):
            raise ValueError("a class of the plan counts on more cells than its pools have")
        weight = parameters.denominator * (c.n_max + c.m_max)
        weight += sum(a * k for a, k in zip(c.prior, c.cells, strict=True))
        if weight > MAX_WEIGHT:
            raise ValueError("the weights of an urn do not fit the sampler's 62 bits")


class PoolTooLargeError(ShownError, ValueError):
    """A pool has more slots than any class of the plan is for."""


def class_by_size(parameters: DirichletParameters, pools: Pools) -> NDArray[np.int32]:
    """Return the class of each pool, where classes are for pools of all sizes.

    Lemma 44 of docs/privacy.md.

    Raises
    ------
    PoolTooLargeError
        If a pool is larger than those of the last class.
    """
    largest = np.array([c.m_max for c in parameters.classes], np.int64)
    if pools.m.max() > largest[-1]:
        raise PoolTooLargeError(
            f"by noisy counts a pool has {pools.m.max():,} jobs, and the plan has room for {largest[-1]:,}, "
            "as it expects far fewer jobs. Fix: plan again with the number of jobs that these counts show"
        )
    return np.searchsorted(largest, pools.m).astype(np.int32)


def _check_all_sizes(plan: Plan, parameters: DirichletParameters) -> None:
    """Check that every pool that there can be is inside the class of its size."""
    classes, record_range = parameters.classes, plan.target.record_range
    assert record_range is not None
    last = np.array([c.m_max for c in classes], np.int64)
    first = np.append(0, last[:-1]) + 1
    if np.any(first > last):
        raise ValueError("classes for all sizes are by rising size")
    fewest, largest = record_range.limits(first)[0], record_range.limits(last)[1]
    cells = strata_counts(plan.domains, parameters.retention, np.arange(plan.domains.n_domains))
    most, least = (np.array([getattr(c, name) for c in classes], np.int64) for name in ("cells", "cells_min"))
    inside = np.all(most >= cells.max(axis=0)) and np.all(least <= cells.min(axis=0))
    inside &= bool(
        np.all(fewest >= [c.n_min for c in classes]) and np.all(largest <= [c.n_max for c in classes])
    )
    if not inside or not np.array_equal(plan.pool_class, class_by_size(parameters, plan.pools)):
        raise ValueError("the classes of the plan are not for pools of every size")
    if int(parameters.most_pools or 0) < plan.pools.n_pools:
        raise ValueError("the plan has more pools than it says that there can be")
