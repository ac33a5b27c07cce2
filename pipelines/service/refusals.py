"""Refusals of several modules, each with its status and its word for programs."""

from __future__ import annotations

from pipelines.service.store import ServiceError


def not_found(detail: str) -> ServiceError:
    """Return the error that there is no such thing."""
    return ServiceError(404, "not_found", detail)


def invalid(detail: str) -> ServiceError:
    """Return the error that a parameter says something that cannot be answered."""
    return ServiceError(422, "invalid", detail)


def conflict(error: str, rule: str, fix: str | None = None) -> ServiceError:
    """Return the error that something cannot be done as things are now: the rule, and what to do."""
    rule = rule.removesuffix(".")
    return ServiceError(409, error, f"{rule}." if fix is None else f"{rule}. Fix: {fix}.")


def not_in_state(run: int, state: str, *needed: str) -> ServiceError:
    """Return the error that a run is in a state in which this cannot be done."""
    return conflict("state", f"Run {run} is {state}; this needs {' or '.join(needed)}")


def preparing(part: str) -> ServiceError:
    """Return the error that something is being made of a release, which takes seconds."""
    return ServiceError(503, "preparing", f"Not made yet of this release: {part}. Ask again in a minute.")
