"""The notebooks: each .ipynb is its .py, without outputs. That they run is tested by nbmake."""

from __future__ import annotations

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

import pipelines
from helpers import load
from pipelines.planning import simulation, trials
from pipelines.release.signing import generate_keys

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
TEXTS = sorted(NOTEBOOKS.glob("[0-9]*.py"))

every_notebook = pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def pair() -> ModuleType:
    """The script that writes notebooks from texts; notebooks/ is no package."""
    return load("notebooks/pair.py")


@every_notebook
def test_pair_is_in_step(text: Path, pair: ModuleType) -> None:
    assert text in pair.TEXTS
    written = text.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert written == pair.notebook_of(text), f"{text.name} and its .ipynb differ: run `make notebooks`"
    assert len(TEXTS) == len([*NOTEBOOKS.glob("*.ipynb")])
    absolute = re.compile(r"""["'(\s](/(app|home|mnt|opt|root|srv|tmp|Users|var|work)/|[A-Za-z]:\\)""")
    assert not absolute.search(text.read_text(encoding="utf-8")), "a file of one machine is named"


@every_notebook
def test_a_save_in_jupyter_keeps_the_text(text: Path) -> None:
    """Jupyter's own metadata stay out of the .py, by notebooks/jupytext.toml."""
    config = jupytext.config.load_jupytext_configuration_file(str(NOTEBOOKS / "jupytext.toml"))
    notebook = jupytext.read(text.with_suffix(".ipynb"))
    notebook.metadata["language_info"] = {"name": "python", "version": "3"}
    notebook.cells[-1].metadata["collapsed"] = False
    assert jupytext.writes(notebook, fmt="py:percent", config=config) == text.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def office(
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """An office's own configuration: one row a job, counts with noise, a signing key, a ledger in use."""
    folder = tmp_path_factory.mktemp("office")
    jobs = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    jobs.to_csv(folder / "jobs.csv", index=False)
    (folder / "jobs.csv").chmod(0o600)
    rows = {"format": "microdata", "file": "jobs.csv", "count": "S000"}
    rows |= {"home": "h_geocode", "work": "w_geocode", "population": "residents"}
    generate_keys(folder / "keys")
    (folder / "ledger").mkdir()
    ledger = {"file": "ledger/agency.sqlite", "data_set": "jobs", "epsilon": "1000", "delta": "1e-3"}
    config = config_text(
        {
            "jobs": rows,
            "privacy.protects": "home",
            "release.mechanism": "geometric",
            "plan.retention_min": "1",
        },
        {"ledger": ledger, "signature": {"key": "keys/signing-key.pem"}},
    )
    path = folder / "own.toml"
    path.write_text(config, encoding="utf-8")
    pipelines.run(pipelines.load_config(path))
    return path


def bytes_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@every_notebook
def test_a_notebook_on_an_offices_data_never_spends(
    text: Path, office: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it sign or write: data of another kind, another mechanism, and the ledger keeps its bytes."""
    before = bytes_below(office.parent)
    assert office.parent / "ledger" / "agency.sqlite" in before
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.syspath_prepend(NOTEBOOKS)
    monkeypatch.setenv("NOTEBOOK_CONFIG", str(office))
    monkeypatch.setattr(plt, "show", lambda: None)
    for module, name in ((simulation, "_MOST_WORLDS"), (trials, "_MOST_DRAWS")):
        monkeypatch.setattr(module, name, 1)  # how good its plans are does not matter here
    names: dict[str, Any] = {}
    try:
        with mpl.rc_context({"backend": "agg"}):
            exec(text.read_text(encoding="utf-8"), names)
        release = names.get("release")  # notebook 2 makes none
        assert release is None or release.certificate.for_release
    finally:
        plt.close("all")
        names["work"].cleanup()
    assert bytes_below(office.parent) == before
    assert (release is None) == text.name.startswith("02")


@pytest.mark.deep
@every_notebook
def test_notebook_runs_on_rhode_island(
    text: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public data of another region; on the generated one, `notebooks` are tests themselves."""
    monkeypatch.setenv("NOTEBOOK_CONFIG", "../examples/rhode_island.toml")
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
