"""What nothing in a release can prove, so that only a signature protects it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Document = Any  # JSON
Step = tuple[str | int, ...]

# What nothing in a release can prove: what only the machine saw that made it, and the public inputs, which
# are not in it. A signature protects them.
ONLY_SIGNED: dict[str, set[Step]] = {
    "certificate.json": {
        ("created",),
        *(("commitment", name) for name in ("program", "input", "key")),  # a witness opens them
        ("software", "version"),
        ("software", "commit"),
        ("software", "sbom_sha256"),
        ("software", "dependencies", "click"),  # and all the others
    },
    "plan/plan.json": {
        ("notes",),
        ("notes", 0),
        *(("configuration", "jobs", name) for name in ("file", "aux")),
        *(
            ("configuration", "weights", name)
            for name in ("file", "area", "level", "weight", "decimal_point")
        ),
        ("configuration", "auxiliary"),
        *(("configuration", "auxiliary", 0, name) for name in ("file", "flow", "margin", "same_jobs")),
        *(
            ("configuration", "auxiliary", 0, name)
            for name in ("origin_level", "destination_level", "decimal_point")
        ),
        *(("configuration", "auxiliary", 0, name, 0) for name in ("origin", "destination")),
        *(("configuration", "geography", name) for name in ("file", "latitude", "longitude")),
        *(("configuration", "geography", "polygons", 0, name) for name in ("file", "code")),
        *(("configuration", "plan", name) for name in ("distance_miles", "retention_min")),
        *(("configuration", "release", name) for name in ("licence", "publisher", "citation")),
    },
    "accuracy.json": {  # as long as its verdicts follow from them
        *(("tables", 0, name) for name in ("loss", "public_model", "within", "squares", "sizes")),
        *(
            ("tables", 0, "sizes", 0, name)
            for name in ("cells", "error", "error_90", "relative_error", "empty")
        ),
    },
}

# The same of plans of microdata, which name their columns.
OF_MICRODATA: set[Step] = {
    *(("configuration", "jobs", name) for name in ("home", "work", "worker")),
    ("configuration", "jobs", "attributes", 0),
}


def leaves(document: Document, path: Step = ()) -> Iterator[tuple[Step, Document]]:
    """Every value and every list, with its path; of a list of things that are alike the first only."""
    if isinstance(document, dict):
        names = list(document)[:1] if path == ("software", "dependencies") else list(document)
        for name in names:
            yield from leaves(document[name], (*path, name))
        return
    yield path, document
    if isinstance(document, list) and document:
        yield from leaves(document[0], (*path, 0))


def without_only_signed(document: Document, name: str, path: Step = ()) -> Document:
    """Return a document of a release without the values that are only signed."""
    if path in ONLY_SIGNED.get(name, ()) or path in OF_MICRODATA:
        return None
    if isinstance(document, dict):
        any_library = path == ("software", "dependencies")
        return {
            key: without_only_signed(value, name, (*path, "click" if any_library else key))
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [without_only_signed(value, name, (*path, 0)) for value in document]
    return document
