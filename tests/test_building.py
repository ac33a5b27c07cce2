"""Building packages: the same bytes every time, the library that draws maps inside, and our own name."""

import gzip
import importlib
import io
import os
import re
import subprocess
import tarfile
import tomllib
import zipfile
from glob import glob
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipelines.release.provenance import DISTRIBUTION

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *extras["service"], *extras["oidc"], *extras["s3"]]
    names = {canonicalize_name(Requirement(text).name) for text in asked} - {PROJECT["name"]}
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


# "pip install", with options between; in a list of Python, too, whose quotes and commas are taken out before.
INSTALLS = re.compile(r"""(?:\bpipx?|\$\(PIP\))(?:\s+-\S+)*\s+install(?=[\s"'])""")
WORD = re.compile(r"""[^\S\n]+(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"'`;&|#()<>,\\]+))""")
WITH_A_VALUE = {"-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url"}
# Tools, and other programs that benchmarks compare this one with; none of them is a dependency.
TOOLS = {"inf-tda", "mbi", "opendp", "uv"}


def installed_by(text: str) -> list[str]:
    """Return what the text tells pip to install: names and files, without options."""
    found = []
    text = re.sub(r"""["'],\s*["']""", " ", text.replace("\\\n", " "))
    for command in INSTALLS.finditer(text):
        end, skip = command.end(), False
        while word := WORD.match(text, end):
            end, name = word.end(), next(filter(None, word.groups()), "")
            if not skip and name and not name.startswith("-"):
                found.append(name)
            skip = name in WITH_A_VALUE
    return found


def is_ours(name: str, known: set[str]) -> bool:
    if name.endswith(".whl"):
        return name.rpartition("/")[2].startswith(f"{canonicalize_name(DISTRIBUTION).replace('-', '_')}-")
    if name.startswith((".", "/", "$", "{")):  # a folder, or what a script says
        return True
    return canonicalize_name(re.split(r"[\[<>=!~ ]", name)[0]) in known


def test_nobody_is_told_to_install_what_is_not_ours() -> None:
    """On the public index `odsynth` is a stranger's program, which would run beside confidential files."""
    assert PROJECT["name"] == DISTRIBUTION != "odsynth"
    locked = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("requirements*.lock"))
    asked = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
    ]
    known = {canonicalize_name(Requirement(text).name) for text in asked}
    assert "odsynth" not in known
    known |= {DISTRIBUTION, *TOOLS, *re.findall(r"(?m)^([a-z0-9.-]+)==", locked)}
    strange, tried = [], 0
    for path in tracked_texts():
        for name in installed_by(path.read_text(encoding="utf-8")):
            tried += 1
            strange += [] if is_ours(name, known) else [f"{path.relative_to(ROOT)}: pip install {name}"]
    assert not strange
    assert tried > 10


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('for s3://, pip install "odsynth[s3]"', ["odsynth[s3]"]),
        ("`pip install --no-deps odsynth-*.whl`, then", ["odsynth-*.whl"]),
        (".venv/bin/pip install -e '.[service]'  # from a checkout", []),
        ("pip install -r requirements.lock pyarrow && rm it", ["pyarrow"]),
        ('run("-m", "pip", "-qq", "install", "pyarrow")', ["pyarrow"]),
        ("python -m pip install a \\\n    b", ["a", "b"]),
        ("pip installs nothing", []),
    ],
)
def test_what_pip_is_told_is_found(text: str, names: list[str]) -> None:
    assert installed_by(text) == names


def test_metadata_are_asked_for_by_the_name_of_the_package() -> None:
    """The name of the command would find a stranger's package, or none."""
    asks = re.compile(
        r"""(?:\b(?:version|requires|metadata|distribution|files)\(|package_name=)["']odsynth["']"""
    )
    own = Path(__file__).resolve()
    assert not [
        str(path.relative_to(ROOT))
        for path in tracked_texts()
        if path.suffix == ".py" and path != own and asks.search(path.read_text(encoding="utf-8"))
    ]


def tracked_texts() -> list[Path]:
    """The text files of the project; this file, whose examples are wrong on purpose, is left out."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=False)
    names = done.stdout.split("\0")[:-1]
    if done.returncode or not names:  # an unpacked archive
        names = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if not {".venv", "node_modules", "out", "__pycache__"} & {*path.parts}
        ]
    paths = [ROOT / name for name in names if ROOT / name != Path(__file__).resolve()]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8000]]
