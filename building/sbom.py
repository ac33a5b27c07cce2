"""Say what a package of odsynth consists of: an SBOM (CycloneDX), and the page docs/licences.md.

    python building/sbom.py sbom FILE      write the SBOM
    python building/sbom.py licences       write docs/licences.md

It is told by the environment that runs it: the libraries that odsynth needs, with the extras of the service,
in the versions of requirements.lock, and the parts of the library that draws maps.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from backend import source_date
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from library import MAPS
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "licences.md"
DISTRIBUTION = "certified-commutes"
EXTRAS = {"": "always", "service": "`service`", "oidc": "`oidc`", "s3": "`s3`"}

_HEAD = """\
# Licences

odsynth is Apache-2.0. It installs these libraries, under the licences that they state. `make licences` writes
this page. An SBOM (CycloneDX, with versions) lies beside each package that `make dist` builds.

| library | licence | installed |
| --- | --- | --- |
"""
_NEEDED = """
## What these libraries need

| licence | installed | libraries |
| --- | --- | --- |
"""
_MAPS = """
## Inside the packages: the library that draws maps

Wheel and source archive contain MapLibre GL JS, built from these packages. The licences of the packages are
in `pipelines/views/maps/vendor/`; every map has the licence of MapLibre too.

| licence | packages |
| --- | --- |
"""


def libraries() -> dict[str, str]:
    """Return the distributions that odsynth needs, by name, with the first extra that asks for each."""
    found: dict[str, str] = {}
    for extra in EXTRAS:
        waiting = [(DISTRIBUTION, extra)]
        seen = set()
        while waiting:
            name, wanted = waiting.pop()
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            for text in importlib.metadata.requires(name) or []:
                need = Requirement(text)
                if need.marker is None or need.marker.evaluate({"extra": wanted}):
                    plain = re.sub(r"[-_.]+", "-", need.name).lower()
                    if plain != DISTRIBUTION:
                        found.setdefault(plain, extra)
                    waiting += [(plain, one) for one in ("", *need.extras)]
    return dict(sorted(found.items()))


def licence(name: str) -> str:
    """Return what an installed distribution says of its licence."""
    said = importlib.metadata.metadata(name)
    if expression := said.get("License-Expression"):
        return expression
    classifiers = [c for c in said.get_all("Classifier") or [] if c.startswith("License :: OSI Approved :: ")]
    if classifiers:
        return " AND ".join(sorted(c.rpartition(" :: ")[2] for c in classifiers))
    text = (said.get("License") or "").strip()
    return text.splitlines()[0] if text else "not named"


def parts_of_the_map() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, version, licence and integrity of each package of the library that draws maps."""
    packages = json.loads((MAPS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for path, package in packages.items():
        if path and not package.get("dev"):
            name = path.rpartition("node_modules/")[2]
            yield name, package["version"], package.get("license", "not named"), package["integrity"]


def bill_of_materials() -> str:
    """Return the SBOM of this version, JSON; the same for the same commit and the same lock."""
    version = importlib.metadata.version(DISTRIBUTION)
    licences = LicenseFactory()
    root = Component(
        name=DISTRIBUTION,
        version=version,
        type=ComponentType.APPLICATION,
        purl=PackageURL("pypi", None, DISTRIBUTION, version),
        bom_ref=f"{DISTRIBUTION}=={version}",
        licenses=[licences.make_from_string("Apache-2.0")],
    )
    components = []
    for name, extra in libraries().items():
        number = importlib.metadata.version(name)
        components.append(
            Component(
                name=name,
                version=number,
                type=ComponentType.LIBRARY,
                purl=PackageURL("pypi", None, name, number),
                bom_ref=f"{name}=={number}",
                scope=ComponentScope.OPTIONAL if extra else ComponentScope.REQUIRED,
                licenses=[licences.make_from_string(licence(name))],
            )
        )
    for name, number, said, integrity in parts_of_the_map():
        group, _, last = name.rpartition("/")
        digest = base64.b64decode(integrity.removeprefix("sha512-")).hex()
        components.append(
            Component(
                name=last,
                group=group or None,
                version=number,
                type=ComponentType.LIBRARY,
                purl=PackageURL("npm", group or None, last, number),
                bom_ref=f"npm:{name}@{number}",
                scope=ComponentScope.REQUIRED,
                licenses=[licences.make_from_string(said)],
                hashes=[HashType(alg=HashAlgorithm.SHA_512, content=digest)],
            )
        )
    made = datetime.fromtimestamp(source_date(), UTC)
    serial = uuid5(NAMESPACE_URL, f"{DISTRIBUTION} {version} {made.isoformat()}")
    bom = Bom(components=components, serial_number=serial)
    bom.metadata.timestamp, bom.metadata.component = made, root
    bom.register_dependency(root, components)
    return JsonV1Dot6(bom).output_as_string(indent=1)


def together(rows: Iterable[tuple[str, ...]]) -> str:
    """Return rows of a table whose last cell has all names with the same cells before."""
    names: dict[tuple[str, ...], list[str]] = {}
    for *cells, name in sorted(rows):
        names.setdefault(tuple(cells), []).append(name)
    return "".join(f"| {' | '.join(cells)} | {', '.join(of)} |\n" for cells, of in names.items())


def licence_page() -> str:
    """Return docs/licences.md."""
    asked = {
        re.sub(r"[-_.]+", "-", Requirement(text).name).lower()
        for text in importlib.metadata.requires(DISTRIBUTION) or []
    }
    extras = libraries()
    rows = [
        f"| {name} | {licence(name)} | {EXTRAS[extra]} |\n" for name, extra in extras.items() if name in asked
    ]
    needed = together(
        (licence(name), EXTRAS[extra], name) for name, extra in extras.items() if name not in asked
    )
    parts = together({(said, name) for name, _, said, _ in parts_of_the_map()})
    return _HEAD + "".join(rows) + _NEEDED + needed + _MAPS + parts


def main(what: str, *target: str) -> None:
    """Write one of the two."""
    if what == "licences":
        PAGE.write_text(licence_page(), encoding="utf-8")
        return
    text = bill_of_materials()
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"the SBOM is not valid: {error}")
    Path(*target).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
