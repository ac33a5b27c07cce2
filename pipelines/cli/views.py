"""The verbs that look at a release: maps, figures, exports, evaluation."""

from __future__ import annotations

from pipelines.cli.evaluate import evaluate
from pipelines.cli.export import export_command
from pipelines.cli.figure import figure
from pipelines.cli.map import map_command

__all__ = ["VIEWS"]

VIEWS = (map_command, figure, export_command, evaluate)
