"""The verifier that releases carry, against the program that makes them and against the whole truth.

Usage: python benchmarks/verifier.py [PLANS]

Draws random plans (500 by default) of both mechanisms: pools, cells, retentions, epsilons, deltas, implicates
and confidential totals; makes the certificate of each, and lets verify.py compute every bound again. Prints
the largest factor between the two. Where a plan is tiny, every histogram, coin and output is enumerated in
rational arithmetic, and no bound of verify.py may be below the truth. Last, a number of every certificate is
made a little smaller, which must be refused. Takes a minute and a half.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

import synth
from pipelines.config.implicates import Implicates
from pipelines.plans.exact import ExactNumbers
from pipelines.release.certificate import guarantee_fields

VERIFIER = Path(__file__).resolve().parent.parent / "pipelines" / "release" / "verify.py"
Histogram = tuple[int, ...]
BLOCKS = 100


def load_verifier() -> ModuleType:
    """Import verify.py as a file of its own, as it is in a release."""
    spec = importlib.util.spec_from_file_location("verify_of_a_release", VERIFIER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Case:
    """A plan, as verify.py reads it, and what its certificate says of the guarantee."""

    plan: Any
    certificate: dict[str, Any]
    numeric: synth.Plan


def random_case(seed: int, verify: ModuleType) -> Case:
    """Make a random plan and its certificate; every third has pools so small that they can be
    enumerated, and some have pools of up to a million jobs."""
    chance = random.Random(seed)
    while True:
        made = _numeric(chance, tiny=seed % 3 == 0, large=seed % 25 == 1)
        if made is not None:
            return _case(*made, chance, verify)


def _numeric(chance: random.Random, *, tiny: bool, large: bool) -> tuple[synth.Plan, Implicates] | None:
    geometric = chance.random() < 0.15
    number = chance.choice([1, 1, 1, 2, 3]) if not tiny else 1
    source = "independent-runs" if geometric else chance.choice(["independent-runs", "one-urn"])
    implicates = Implicates(number, source)
    retention = (Fraction(1),)
    if not geometric:
        retention = chance.choice(
            [
                retention,
                retention,
                (Fraction(1), Fraction(1, 2)),
                (Fraction(1, 4), Fraction(1)),
                (Fraction(2, 3),),
            ]
        )
    large = large and not tiny
    most_cells, most_jobs = (3, 3) if tiny else chance.choice([(4, 12), (25, 12), (12, 300)])
    if large:
        most_cells, most_jobs = 25, 10**6
    sizes = [chance.randint(1, most_cells) for _ in range(1 if tiny else chance.randint(1, 3))]
    sizes[0] = max(1 + geometric, sizes[0])  # of noise in one cell, no number of a certificate is above 0
    domains = synth.Domains(
        BLOCKS,
        np.cumsum([0, *sizes]),
        np.concatenate([sorted([0, *chance.sample(range(1, BLOCKS), k - 1)]) for k in sizes]),
        np.array([chance.randrange(len(retention)) for _ in range(sum(sizes))], np.uint8),
    )
    own = [chance.randrange(len(sizes)) for _ in range(1 if tiny else chance.randint(1, 5))]
    # Histograms of few cells are gone through one by one, which takes minutes where jobs are many.
    n = np.array([chance.randint(1, min(most_jobs, 10) if sizes[d] <= 5 else most_jobs) for d in own])
    pools = synth.Pools(n, n * implicates.of_run, np.array(own, np.int32))
    epsilon = Fraction(chance.randint(10, 90), 100 if large else 10)  # small where pools are large
    delta = Fraction(chance.choice([1, 3]), 10 ** chance.randint(1, 8))
    protected = not tiny and chance.random() < 0.2
    record_range = synth.RecordRange(Fraction(4, 5), Fraction(5, 4)) if protected else None
    mechanism = synth.MECHANISMS["geometric" if geometric else "dirichlet"]
    guarantee = chance.choice(["pdp", "pdp", "dp"])
    try:
        plan = mechanism.calibrate(
            pools, domains, retention, synth.Target(epsilon, delta, guarantee, record_range)
        )
    except synth.BudgetTooSmallError:
        return None
    return plan, implicates


def _case(numeric: synth.Plan, implicates: Implicates, chance: random.Random, verify: ModuleType) -> Case:
    records = chance.choice([1, 1, 3])
    presence = numeric.target.record_range is not None
    configuration = {
        "privacy": {"policy": "full", "protects": "home"},
        "geography": {"external_workplaces": {}, "uninhabited": [], "without_work": []},
        "jobs": {"format": "microdata", "records_per_worker": records},
        "release": {
            "implicates": implicates.number,
            "implicate_source": implicates.source,
            "language": "en",
        },
        "workplaces": {"fewest": "0.8", "most": "1.25"} if presence else None,
        "tiers": {},
    }
    runs, n = implicates.runs, numeric.pools.n
    stand_in = SimpleNamespace(
        numeric=numeric,
        implicates=implicates,
        requested=(runs * numeric.target.epsilon, runs * numeric.target.delta),
        config=SimpleNamespace(jobs=SimpleNamespace(records_per_worker=records), tier=None),
        policy=numeric.domains.policy,
        mechanism=synth.MECHANISMS[numeric.mechanism],
        population=None,
        # Each pool is of a work block of its own.
        exact=None if presence else ExactNumbers((), True, n.size, int(np.count_nonzero(n == 1))),
    )
    guarantee = synth.MECHANISMS[numeric.mechanism].certify(numeric).tightened().repeated(runs)
    certificate = json.loads(json.dumps(to_jsonable_python(guarantee_fields(stand_in, guarantee))))  # type: ignore[arg-type]
    domains, pools = numeric.domains, numeric.pools
    cells = list(itertools.pairwise(domains.offsets.tolist()))
    tables = {
        "pools": {
            "n": pools.n.tolist(),
            "m": pools.m.tolist(),
            "domain": pools.domain.tolist(),
            "class": numeric.pool_class.tolist(),
        },
        "domains": {
            "cuts": [domains.cuts[a:b].tolist() for a, b in cells],
            "stratum": [domains.stratum[a:b].tolist() for a, b in cells],
        },
        "blocks": {"block": [*map(str, range(BLOCKS))]},
        "slots": {"pool": [*range(n.size)], "work": [*range(n.size)], "count": n.tolist()},
    }
    document = {
        "format": "odsynth plan 1.0",
        "geography": {"block": "block", "levels": [], "external_zones": ["0"]},
        "attributes": {},
        "mechanism": numeric.mechanism,
        "epsilon": str(numeric.target.epsilon),
        "delta": str(numeric.target.delta),
        "guarantee": numeric.target.guarantee,
        "choices": {"tables": [], "workplaces": []},
        "parameters": numeric.parameters.to_json(),
        "configuration": configuration,
    }
    return Case(verify.Plan(document, tables), {"mechanism": numeric.mechanism, **certificate}, numeric)


def proved(case: Case, certificate: dict[str, Any], verify: ModuleType) -> list[Decimal]:
    """Compare a certificate with what verify.py makes of the plan; return numbers over their bounds."""
    ratios: list[Decimal] = []
    with localcontext(verify.UP):
        due = verify.guarantee(case.plan, certificate, ratios)
        verify.follow("certificate.json", certificate, due, ratios)
    return ratios


def smaller(certificate: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return the certificate with one number of it, of those above 0, a thousandth smaller."""
    forged = json.loads(json.dumps(certificate))
    places = [
        (forged[name], key) for name in ("run", "record_level", "user_level") for key in ("epsilon", "delta")
    ]
    places += [(point, "delta") for point in forged["record_level"]["curve"]]
    places += [(row, key) for row in forged["classes"] for key in ("epsilon", "delta", "record_delta")]
    where, key = chance.choice([(where, key) for where, key in places if Decimal(where[key])])
    where[key] = synth.decimal_up(Fraction(where[key]) * Fraction(999, 1000))
    return forged


# --- the whole truth of a pool, by enumeration


def compositions(total: int, parts: int) -> Iterator[Histogram]:
    """Yield the ways to write a total as a sum of so many whole numbers."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for others in compositions(total - first, parts - 1):
            yield (first, *others)


def outputs(
    h: Histogram, prior: list[Fraction], retention: list[Fraction], m: int
) -> dict[Histogram, Fraction]:
    """Return the probability of every count of draws, from the three steps of docs/privacy.md."""
    k, result = len(h), {}
    coins = [(True,) if h[c] or retention[c] == 1 else (True, False) for c in range(k)]
    for s in compositions(m, k):
        ways = Fraction(math.factorial(m), math.prod(map(math.factorial, s)))
        chance = Fraction(0)
        for kept in itertools.product(*coins):
            if any(x and not keep for x, keep in zip(s, kept, strict=True)):
                continue
            p = ways
            for c in range(k):
                if len(coins[c]) == 2:
                    p *= retention[c] if kept[c] else 1 - retention[c]
                p *= math.prod(h[c] + prior[c] + i for i in range(s[c]))
            weight = sum(h[c] + prior[c] for c in range(k) if kept[c])
            chance += p / math.prod(weight + i for i in range(m))
        result[s] = chance
    return result


def truth(
    n: int, prior: list[Fraction], retention: list[Fraction], m: int, loss: Fraction, odds: Fraction
) -> tuple[Fraction, Fraction, Fraction]:
    """Return what is true of a pool over all histograms.

    Returns
    -------
    failure, delta, ratio : Fraction
        The largest probability of outputs that are more than `loss` times as likely, or less, than for some
        neighbour; the largest divergence at e^epsilon = `odds`; and the largest ratio of all.
    """
    k = len(prior)
    of = {h: outputs(h, prior, retention, m) for h in compositions(n, k)}
    failure = delta = ratio = Fraction(0)
    for h, own in of.items():
        neighbours = [
            tuple(x - (c == i) + (c == j) for c, x in enumerate(h))
            for i, j in itertools.permutations(range(k), 2)
            if h[i]
        ]
        bad = Fraction(0)
        for s, p in own.items():
            ratios = [max(p / of[other][s], of[other][s] / p) for other in neighbours]
            ratio = max([ratio, *ratios])
            bad += p if any(one > loss for one in ratios) else 0
        failure = max(failure, bad)
        for other in neighbours:
            delta = max(delta, sum(max(Fraction(0), p - odds * of[other][s]) for s, p in own.items()))
    return failure, delta, ratio


def below_truth(case: Case, verify: ModuleType) -> list[str]:
    """Name the bounds of verify.py that are below the truth of a tiny plan."""
    with localcontext(verify.UP):
        return _below_truth(case, verify)


def _below_truth(case: Case, verify: ModuleType) -> list[str]:
    parameters = case.plan.document["parameters"]
    retention = [Fraction(f) for f in parameters["retention"]]
    found = []
    domains, pools = case.numeric.domains, case.numeric.pools
    for n, m, d, number in zip(pools.n, pools.m, pools.domain, case.numeric.pool_class, strict=True):
        row = parameters["classes"][number]
        c = verify.PoolClass.of(row, retention, parameters["denominator"])
        strata = domains.stratum[domains.offsets[d] : domains.offsets[d + 1]].tolist()
        prior = [Fraction(row["prior"][s], parameters["denominator"]) for s in strata]
        e_v = verify.pruning(c)
        epsilon = case.numeric.target.epsilon
        odds = Fraction(verify.exp(verify.up(epsilon)))
        loss = c.gain * Fraction(e_v)
        bad, delta, ratio = truth(int(n), prior, [retention[s] for s in strata], int(m), loss, odds)
        worst = max((1 + Fraction(c.m * c.q, s.prior)) / s.retention for s in c.strata)
        bounds = {
            "failure": (bad, [verify.failure(c), *([verify.few_cells(c)] if len(strata) > 1 else [])]),
            "record": (delta, [*verify.record_deltas(c, epsilon, False)]),
            "pure": (ratio, [verify.UP.multiply(e_v, verify.up(worst))]),
        }
        for name, (true, ours) in bounds.items():
            found += [f"{name}: {float(one):g} < {float(true):g}" for one in ours if Fraction(one) < true]
    return found


def main(plans: int) -> None:
    """Check so many random plans and print what was found."""
    verify = load_verifier()
    began, factor, count, enumerated, kinds = (
        time.process_time(),
        Decimal(1),
        0,
        0,
        {"dirichlet": 0, "geometric": 0},
    )
    for seed in range(plans):
        case = random_case(seed, verify)
        ratios = proved(case, case.certificate, verify)
        factor, count = max(factor, *ratios), count + len(ratios)
        kinds[case.numeric.mechanism] += 1
        if seed % 3 == 0 and case.numeric.mechanism == "dirichlet":
            wrong = below_truth(case, verify)
            if wrong:
                raise SystemExit(f"seed {seed}: below the truth: {wrong}")
            enumerated += 1
        try:
            proved(case, smaller(case.certificate, random.Random(seed)), verify)
        except verify.WrongError as error:
            if re.search("the plan gives|not what is due", str(error)):  # and not for its form
                continue
        raise SystemExit(f"seed {seed}: a smaller number was accepted")
    print(
        f"{plans} random plans ({kinds['dirichlet']} of resampling, {kinds['geometric']} of noise), "
        f"{count} numbers of certificates:\neach is at least what verify.py proves, and at most "
        f"{float(factor):.8f} times that"
    )
    print(f"{enumerated} of them enumerated: no bound of verify.py is below the truth")
    print(f"{plans} certificates with one number a thousandth smaller: all refused")
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
