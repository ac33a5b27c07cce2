"""The OpenAPI document is true: what schemathesis makes of it is answered as it says, and never with a 500.

The service has something of everything and the questions are told some of its names, so that many of them
find something. Schemathesis asks, besides at random, at the boundaries of every rule and with every mistake,
with tokens left out and wrong, with a method that there is not, and in sequences of operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

pytestmark = pytest.mark.slow
CASES = 8  # at random, for each operation; which they are depends on what else is imported
API = "/api/v1/operator"
GONE = 410  # what a withdrawn version answers


def known_names(app: FastAPI) -> dict[str, list[str | int]]:
    """Values of parameters that the service knows."""
    catalog = app.state.catalog
    (version,) = [v for v in catalog.versions() if v.status == "complete"]
    geography = catalog.opened(version).release.geography
    return {
        "path.name": [version.state.name],
        "path.version": ["v0", "v1"],
        "path.path": ["README.md", "SHA256SUMS", "plan.json"],
        "path.run": list(range(1, 9)),
        "path.level": list(geography.levels),
        "path.collection": ["areas_cty", "flows_trct"],
        "path.feature": [str(geography.codes("cty")[0])],
        "path.z": [0],
        "query.level": list(geography.levels),
        "path.token": ["00000000"],
        "body.input": ["small", "other", "broken"],
        "body.content_sha256": ["c" * 64],
        "body.plan_sha256": ["a" * 64],
    }


@pytest.mark.parametrize(
    ("role", "public"),
    [
        ("operator", True),
        *(pytest.param(role, False, marks=pytest.mark.deep) for role in ("operator", "approver")),
    ],
)
def test_every_answer_is_as_the_document_says(
    make_whole: Callable[..., Any], role: str, public: bool
) -> None:
    """To all that there is to ask, or to what is public alone."""
    whole = make_whole()
    names = known_names(whole.app)
    allowed = ["2xx", "3xx", "401", "403", "404", "409", GONE]
    config = {
        "seed": 1,
        "generation": {
            "max-examples": CASES,
            "database": "none",
            "deterministic": True,
            "with-security-parameters": False,
        },
        "auth": {"openapi": {"HTTPBearer": {"bearer": whole.tokens[role]}}},
        "dictionaries": {key: {"values": values} for key, values in names.items()},
        "parameters": {
            key: {"dictionary": key, "probability": 1.0 if key == "path.token" else 0.7} for key in names
        },
        "checks": {
            "positive_data_acceptance": {"expected-statuses": allowed},
            # A run that was just submitted has no certificate, and whether one is found is a matter of time.
            "ensure_resource_availability": {"enabled": False},
        },
        "operations": [
            # What a document cannot say: that one parameter excludes another, what the codes of a version
            # are, how times and boxes are written, and that no version ends in .json.
            {
                "include-path": [path],
                "checks": {"positive_data_acceptance": {"expected-statuses": [*allowed, status]}},
            }
            for path, status in (
                ("/api/v1/releases/{name}/{version}/flows", 422),
                ("/api/v1/releases/{name}/years", 422),
                ("/api/v1/releases/{name}/{version}/areas", 422),
                ("/api/v1/releases/{name}/{version}/ogc/collections/{collection}/items", 400),
                (f"{API}/runs", 422),
            )
        ]
        # Nor which names are no person's.
        + [
            {
                "include-path": f"{API}/sessions/end",
                "checks": {"positive_data_acceptance": {"expected-statuses": [*allowed, 400]}},
            }
        ]
        # The token that asks must not revoke itself, as it would when it has seen the list of tokens.
        + [{"include-path": f"{API}/tokens/{{token}}/revoke", "phases": {"stateful": {"enabled": False}}}],
        "phases": {
            # Of methods that there are not, one: test_every_endpoint.py has all.
            "coverage": {"unexpected-methods": ["DELETE"], "extra-data-sources": {"responses": False}},
            "fuzzing": {"extra-data-sources": {"responses": False}},
        },
    }
    schema = schemathesis.openapi.from_asgi(
        "/api/v1/openapi.json", whole.app, config=SchemathesisConfig.from_dict(config)
    )
    if public:
        schema = schema.exclude(path_regex=f"^{API}/")
    statuses: Counter[int] = Counter()
    phases: Counter[str] = Counter()
    asked: set[str] = set()
    problems = set()
    for event in from_schema(schema).execute():
        if isinstance(event, events.FatalError):
            raise event.exception
        if isinstance(event, events.NonFatalError):
            problems.add(f"{event.label}: {event.value}")
        if isinstance(event, events.ScenarioFinished):
            asked.add(event.recorder.label)
            for each in event.recorder.interactions.values():
                assert each.response is not None
                statuses[each.response.status_code] += 1
                phases[str(event.phase)] += 1
                assert each.response.status_code < 500, each.request.uri
                assert b"CANARY" not in each.response.content
            failed = [c for checks in event.recorder.checks.values() for c in checks if c.failure_info]
            problems |= {f"{event.recorder.label}: {c.failure_info.failure}" for c in failed}  # type: ignore[union-attr]
    print(f"\n{role}: {phases.total()} cases {dict(phases)}, answers {dict(sorted(statuses.items()))}")
    assert not problems, "\n".join(sorted(problems))
    document = whole.app.openapi()["paths"]
    operations = {
        f"{m.upper()} {path}"
        for path, methods in document.items()
        for m in methods
        if not (public and path.startswith(API))
    }
    assert asked >= operations
    assert statuses[200] > 40
