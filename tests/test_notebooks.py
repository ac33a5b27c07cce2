"""The notebooks: each .ipynb is its .py, without outputs. That they run is tested by nbmake."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
TEXTS = sorted(NOTEBOOKS.glob("[0-9]*.py"))

every_notebook = pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def pair() -> ModuleType:
    """The script that writes notebooks from texts; notebooks/ is no package."""
    spec = importlib.util.spec_from_file_location("notebooks_pair", NOTEBOOKS / "pair.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_notebook_has_both_files() -> None:
    assert TEXTS
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {path.stem for path in TEXTS}


@every_notebook
def test_pair_is_in_step(text: Path, pair: ModuleType) -> None:
    assert text in pair.TEXTS
    written = text.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert written == pair.notebook_of(text), f"{text.name} and its .ipynb differ: run `make notebooks`"


@every_notebook
def test_notebook_is_valid_and_has_no_outputs(text: Path) -> None:
    notebook = nbformat.read(text.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)
    # How far apart cells are in the .py is all that is noted of them.
    assert all(set(cell.metadata) <= {"lines_to_next_cell"} for cell in notebook.cells)


@every_notebook
def test_no_file_names_a_machine(text: Path) -> None:
    absolute = re.compile(r"""["'(\s](/(app|home|mnt|opt|root|srv|tmp|Users|var|work)/|[A-Za-z]:\\)""")
    assert not absolute.search(text.read_text(encoding="utf-8"))


@every_notebook
def test_a_save_in_jupyter_keeps_the_text(text: Path) -> None:
    """Jupyter's own metadata stay out of the .py, by notebooks/jupytext.toml."""
    config = jupytext.config.load_jupytext_configuration_file(str(NOTEBOOKS / "jupytext.toml"))
    notebook = jupytext.read(text.with_suffix(".ipynb"))
    notebook.metadata["language_info"] = {"name": "python", "version": "3"}
    notebook.cells[-1].metadata["collapsed"] = False
    assert jupytext.writes(notebook, fmt="py:percent", config=config) == text.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [path for path in TEXTS if path.name[:2] in ("02", "03", "04", "06")], ids=lambda p: p.stem
)
def test_notebooks_take_data_of_another_kind(
    text: Path,
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    tmp_path: Path,
    clean_source: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As notebooks/README.md says to: one row a job, and counts with noise."""
    jobs = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    (tmp_path / "jobs.csv").chmod(0o600)
    rows = {"format": "microdata", "file": str(tmp_path / "jobs.csv"), "count": "S000"}
    rows |= {"home": "h_geocode", "work": "w_geocode"}
    config = config_text(
        {"jobs": rows, "release.mechanism": "geometric", "plan.retention_min": "1"},
    )
    (tmp_path / "own.toml").write_text(config, encoding="utf-8")
    code = text.read_text(encoding="utf-8")
    code, changed = re.subn(r"pipelines\.demo_inputs\(folder.*\)", "Path(OWN)", code)
    assert changed == 1
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.delenv("ODSYNTH_REGION", raising=False)
    monkeypatch.setattr(plt, "show", lambda: None)
    names: dict[str, Any] = {"OWN": str(tmp_path / "own.toml")}
    try:
        with mpl.rc_context({"backend": "agg"}):
            exec(code, names)
    finally:
        plt.close("all")
        names["work"].cleanup()


@pytest.mark.deep
@every_notebook
def test_notebook_runs_on_rhode_island(
    text: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second region that each of them names; on the first, `notebooks` are tests themselves."""
    monkeypatch.setenv("ODSYNTH_REGION", "rhode_island")
    with tempfile.TemporaryDirectory(prefix="odsynth-") as folder:  # a short name: sockets lie there
        monkeypatch.setenv("TMPDIR", folder)
        kernel = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
        NotebookClient(
            nbformat.read(text.with_suffix(".ipynb"), as_version=4),
            timeout=1200,
            resources={"metadata": {"path": str(NOTEBOOKS)}},
            config=Config({"KernelManager": kernel}),
        ).execute()


def test_the_kernel_is_this_python() -> None:
    """Wherever other kernels are installed: those of the environment come first."""
    name = json.loads(TEXTS[0].with_suffix(".ipynb").read_text(encoding="utf-8"))["metadata"]["kernelspec"][
        "name"
    ]
    kernel = KernelSpecManager().get_kernel_spec(name)
    assert kernel.argv[0] in ("python", sys.executable)  # jupyter_client takes its own for "python"
    assert kernel.language == "python"
