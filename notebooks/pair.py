"""Writes every notebook (.ipynb) from the text beside it (.py), without outputs: always the same bytes.

Usage: python notebooks/pair.py
"""

from __future__ import annotations

from pathlib import Path

import jupytext

TEXTS = sorted(Path(__file__).parent.glob("[0-9][0-9]_*.py"))
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def notebook_of(text: Path) -> str:
    """Return the notebook of a text in jupytext's percent format."""
    notebook = jupytext.read(text, fmt="py:percent")
    notebook.metadata = {"kernelspec": KERNEL}
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number:02}"  # jupytext would draw one
    return jupytext.writes(notebook, fmt="ipynb") + "\n"


if __name__ == "__main__":
    for text in TEXTS:
        text.with_suffix(".ipynb").write_text(notebook_of(text), encoding="utf-8")
