"""The rules of the house, checked by reading the source: who imports whom, what every module has."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("synth", "geo_data", "pipelines")
GENERATED = "_version.py"
MODULES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name != GENERATED
)

THIRD_PARTY_OF_SYNTH = {"numpy", "numba", "flint", "cryptography"}
FORBIDDEN = {"geo_data": {"pipelines", "dask", "distributed"}, "pipelines": set[str]()}


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


every_module = pytest.mark.parametrize("path", MODULES, ids=label)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[str]:
    """Full names of everything a module imports, wherever in the module it does so."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.parent.relative_to(ROOT).parts
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


def public_names(module: ast.Module) -> list[str] | None:
    """The module's `__all__`, or None if it has none; names added with `+=` count."""
    names: list[str] | None = None
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            names = [*(names or []), *ast.literal_eval(node.value)]
    return names


def test_there_are_modules_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(PACKAGES)


@every_module
def test_imports_respect_the_rooms(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    tops = {name.split(".")[0] for name in imports(path)}
    if package == "synth":
        allowed = THIRD_PARTY_OF_SYNTH | {"synth"} | set(sys.stdlib_module_names)
        assert tops <= allowed, f"synth may import only {sorted(THIRD_PARTY_OF_SYNTH)}"
    else:
        assert not tops & FORBIDDEN[package]


@every_module
def test_randomness_is_cryptographic(path: Path) -> None:
    """Only the demo region and proxy truth may use a seeded generator; what they make is nobody's."""
    if label(path).startswith(("geo_data/demo", "geo_data/proxy_truth")):
        return
    for name in imports(path):
        assert name.split(".")[0] != "random"
        assert not f"{name}.".startswith("numpy.random.")
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) not in {"np.random", "numpy.random"}


@every_module
def test_module_says_what_it_is(path: Path) -> None:
    module = tree(path)
    assert ast.get_docstring(module), "no docstring"
    names = public_names(module)
    assert names is not None, "no __all__"
    assert len(names) == len(set(names))


@every_module
def test_public_objects_have_docstrings(path: Path) -> None:
    module = tree(path)
    public = set(public_names(module) or [])
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in public:
            assert ast.get_docstring(node), f"{node.name} has no docstring"


@every_module
def test_module_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_every_package_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT).as_posix().replace("/", ".") for path in MODULES}
    mapped = set(settings["package-dir"])
    assert set(settings["packages"]) == folders | mapped
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)
