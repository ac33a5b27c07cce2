"""The rules of the house, checked by reading the source: what a module has, and that import rules are kept.

Who may import whom stands in pyproject.toml, for import-linter; here is shown that it would notice.
"""

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("synth", "geo_data", "pipelines")
THIRD_PARTY_OF_SYNTH = {"lazy_loader", "numpy", "numba", "flint", "cryptography"}

MODULES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "_version.py" and "node_modules" not in path.parts
}


def imports(name: str) -> Iterator[str]:
    """Full names of everything a module imports, wherever in the module it does so."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = name.split("/")[:-1]
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"importlib.import_module", "import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def test_synth_needs_little() -> None:
    allowed = THIRD_PARTY_OF_SYNTH | {"synth"} | set(sys.stdlib_module_names)
    faults = {
        (name, imported)
        for name in MODULES
        if name.startswith("synth/")
        for imported in imports(name)
        if imported.split(".")[0] not in allowed
    }
    assert not faults


def test_private_modules_stay_in_their_folder_and_those_in_it() -> None:
    faults = set()
    for name in MODULES:
        folder = name.rpartition("/")[0].replace("/", ".")
        for imported in imports(name):
            parts = imported.split(".")
            private = [i for i, part in enumerate(parts) if part.startswith("_") and not part.endswith("__")]
            if (
                parts[0] in PACKAGES
                and private
                and not f"{folder}.".startswith(".".join(parts[: private[0]]) + ".")
            ):
                faults.add((name, imported))
    faults.discard(("pipelines/release/provenance.py", "pipelines._version"))  # written by a build
    assert not faults


def test_few_modules_stand_outside_the_rooms() -> None:
    assert len([name for name in MODULES if name.startswith("pipelines/") and name.count("/") == 1]) <= 3


def test_randomness_is_cryptographic() -> None:
    """Only the demo region, proxy truth and guesses of it may use a seeded generator; they are nobody's.

    And what looks at noisy counts, which are public: estimates of errors, and posterior draws, which only
    views of a release make; and points at which an export places published workers.
    """
    faults = set()
    posterior = (
        "synth.posterior.effects",
        "synth.posterior.implicates",
        "synth.posterior.inside",
        "synth.posterior.intervals",
        "synth.posterior.job_totals",
        "synth.posterior.placing",
        "synth.posterior.ties",
    )
    for name, module in MODULES.items():
        nobodys = "geo_data/demo", "geo_data/proxy_truth", "pipelines/planning/guesses"
        if name.startswith((*nobodys, "pipelines/drawing/risk", "pipelines/views/exports/workers")):
            continue
        used = {i for i in imports(name) if i.startswith(posterior)}
        if used and not name.startswith(("pipelines/views/", *(i.replace(".", "/") for i in posterior))):
            faults |= {(name, what) for what in used}
        if name.removesuffix(".py").replace("/", ".") in posterior:
            continue
        named = {i for i in imports(name) if f"{i}.".startswith(("random.", "numpy.random."))}
        for node in ast.walk(module):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {"np.random", "numpy.random"}:
                named.add(ast.unparse(node))
        faults |= {(name, what) for what in named}
    assert not faults


def test_modules_and_public_objects_say_what_they_are() -> None:
    assert not [name for name, module in MODULES.items() if not ast.get_docstring(module)]
    objects = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    faults = set()
    for package in PACKAGES:
        for node in ast.parse((ROOT / package / "__init__.pyi").read_text(encoding="utf-8")).body:
            assert isinstance(node, ast.ImportFrom), ast.unparse(node)
            path = ROOT / package / (node.module or "").replace(".", "/")
            module = MODULES[
                (path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
                .relative_to(ROOT)
                .as_posix()
            ]
            names = {alias.name for alias in node.names}
            faults |= {
                (path, member.name)
                for member in module.body
                if isinstance(member, objects) and member.name in names and not ast.get_docstring(member)
            }
    assert not faults


def test_internal_modules_have_no_list_of_public_names() -> None:
    """Public is what the stubs of the packages name; `_version` is written by setuptools-scm."""
    named = {
        name
        for name, module in MODULES.items()
        for node in module.body
        if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0])
    }
    assert all(name.endswith("__init__.py") for name in named)


def test_every_package_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {name.rpartition("/")[0].replace("/", ".") for name in MODULES}
    assert set(settings["packages"]) == folders | set(settings["package-dir"])
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_the_quick_loop_has_tests_of_every_room() -> None:
    rooms = {name.split("/")[1] for name in MODULES if name.startswith("pipelines/") and name.count("/") > 1}
    marked = {
        path.relative_to(ROOT / "tests/pipelines").parts[0]
        for path in (ROOT / "tests/pipelines").rglob("test_*.py")
        if "pytest.mark.quick" in path.read_text(encoding="utf-8")
    }
    assert rooms <= marked


def test_import_rules_hold_and_a_planted_import_breaks_each(tmp_path: Path) -> None:
    for name in MODULES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    main = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"

    def lint() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", main, "--no-cache"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    clean = lint()
    assert clean.returncode == 0, clean.stdout
    assert "6 kept, 0 broken" in clean.stdout
    planted = {
        "synth.auditing": "dask",
        "geo_data.acs": "pipelines.config.toml",
        "pipelines.views.labels": "pipelines.running.report",
        "pipelines.release.names": "geo_data.microdata",
        "pipelines.release.layout": "geo_data",
        "pipelines.release.verify": "numpy",
    }
    for importer, imported in planted.items():
        with (tmp_path / f"{importer.replace('.', '/')}.py").open("a") as file:
            file.write(f"\ndef _planted() -> None:\n    import {imported}\n")
    broken = lint()
    assert broken.returncode == 1
    assert "0 kept, 6 broken" in broken.stdout
    for importer, imported in planted.items():
        assert f"{importer} -> {imported}" in broken.stdout


def test_a_process_that_verifies_has_loaded_no_reader_of_confidential_files() -> None:
    """What import-linter reads from the source, seen in a process; nor a slow library that few need."""
    code = (
        "import sys, pipelines; pipelines.verify\n"
        "rooms = ('running', 'planning')\n"
        "readers = ('geo_data.lodes', 'geo_data.microdata', 'geo_data.tables')\n"
        "slow = ('numba', 'geopandas', 'pyproj', 'shapely', 'scipy')\n"
        "bad = (*readers, *slow, *(f'pipelines.{room}' for room in rooms))\n"
        "print([name for name in sys.modules if f'{name}.'.startswith(tuple(f'{each}.' for each in bad))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
