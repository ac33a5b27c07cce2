"""Building packages: the same bytes every time, and none without the library that draws maps."""

import gzip
import importlib
import io
import os
import re
import tarfile
import tomllib
import zipfile
from glob import glob
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build backend, imported as a build does it."""
    monkeypatch.syspath_prepend(str(ROOT / "building"))
    return importlib.import_module("backend")


def archives(folder: Path, date: int, mode: int) -> tuple[Path, Path]:
    """A wheel and a source archive as written on some day, by somebody with some umask, in some order."""
    folder.mkdir()
    names = ["a/two.py", "a/one.py"] if mode & 1 else ["a/one.py", "a/two.py"]
    with zipfile.ZipFile(folder / "w.whl", "w") as wheel:
        for name in ("a/one.py", "a/two.py"):  # the order of a wheel is that of its RECORD
            entry = zipfile.ZipInfo(name, (date, 1, 1, 0, 0, 0))
            entry.external_attr = mode << 16
            wheel.writestr(entry, name)
    with (
        gzip.GzipFile(folder / "s.tar.gz", "wb", mtime=date) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode, entry.uname = len(name), date, mode, f"user{date}"
            tar.addfile(entry, io.BytesIO(name.encode()))
    return folder / "w.whl", folder / "s.tar.gz"


def test_archives_of_one_commit_have_the_same_bytes(backend: ModuleType, tmp_path: Path) -> None:
    built = [
        archives(tmp_path / str(date), date, mode) for date, mode in ((1990, 0o100640), (2020, 0o100645))
    ]
    for wheel, source in built:
        backend.settle_wheel(wheel, 1_700_000_000)
        backend.settle_sdist(source, 1_700_000_000)
    for one, other in zip(*built, strict=True):
        assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(built[0][0]) as wheel:
        assert [(e.filename, e.date_time[0], e.external_attr >> 16) for e in wheel.infolist()] == [
            ("a/one.py", 2023, 0o100644),
            ("a/two.py", 2023, 0o100644),
        ]
        assert wheel.read("a/one.py") == b"a/one.py"
    with tarfile.open(built[0][1]) as source:
        assert [(e.name, e.mtime, e.mode) for e in source] == [
            ("a/one.py", 1_700_000_000, 0o644),
            ("a/two.py", 1_700_000_000, 0o644),
        ]


def test_the_page_of_licences_has_every_library_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["service"], *extras["oidc"], *extras["s3"]]
    names = {canonicalize_name(Requirement(text).name) for text in asked} - {"odsynth"}
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    assert names <= set(re.findall(r"(?m)^\| ([a-z0-9-]+) \| [^|]+ \| [^|]+ \|$", page)), "make licences"


def test_no_package_without_the_library(
    backend: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = importlib.import_module("library")
    monkeypatch.setattr(library, "VENDOR", tmp_path)
    monkeypatch.setenv("PATH", os.devnull)
    for build in (backend.build_wheel, backend.build_sdist):
        with pytest.raises(RuntimeError, match="Fix: install Node"):
            build(str(tmp_path))
    assert not list(tmp_path.iterdir())
    (tmp_path / "maplibre-gl.js").write_text("/* see /v1.2.3/LICENSE.txt */")  # of another version
    for name in library.FILES[1:]:
        (tmp_path / name).write_text("")
    with pytest.raises(RuntimeError, match="it cannot be fetched"):
        library.fetch_library()


def test_templates_are_package_data() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        patterns = tomllib.load(file)["tool"]["setuptools"]["package-data"]
    templates = {*(ROOT / "pipelines").rglob("*.j2"), *(ROOT / "pipelines").rglob("*.html")}
    packaged = {
        ROOT.joinpath(*package.split("."), name)
        for package, names in patterns.items()
        for pattern in names
        for name in glob(pattern, root_dir=ROOT.joinpath(*package.split(".")), recursive=True)
    }
    assert {path for path in templates if "node_modules" not in path.parts} <= packaged
