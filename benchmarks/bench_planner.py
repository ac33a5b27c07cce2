"""The planner on Rhode Island, step by step: nothing here reads a home."""

from __future__ import annotations

from conftest import Measure, Planned

from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import choose

TABLE = "Planner: Rhode Island"


def bench_reading(rhode_island: Planned, measure: Measure) -> None:
    config = rhode_island.config
    measure(
        TABLE,
        "reading geography, work blocks, weights and tables, fitting the public model",
        lambda: read_public_inputs(config),
        rounds=3,
        jobs=f"{rhode_island.plan.numeric.pools.n_records:,}",
    )


def bench_choosing(rhode_island: Planned, measure: Measure) -> None:
    config, inputs = rhode_island.config, rhode_island.inputs
    measure(TABLE, "choosing cells and pools", lambda: choose(config, inputs), rounds=3)


def bench_assembling(rhode_island: Planned, measure: Measure) -> None:
    config, inputs = rhode_island.config, rhode_island.inputs
    choices = choose(config, inputs)
    plan = rhode_island.plan.numeric
    measure(
        TABLE,
        "making the plan: domains, shares, calibration",
        lambda: assemble(config, inputs, inputs.slots, choices, config.privacy.delta),
        rounds=3,
        pools=f"{plan.pools.n_pools:,}",
        domains=f"{plan.domains.n_domains:,}",
    )
