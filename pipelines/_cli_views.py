"""The verbs that look at a release: maps, figures, exports, evaluation."""

from __future__ import annotations

from pipelines._cli_evaluate import evaluate
from pipelines._cli_figure import figure
from pipelines.exports.command import export_command
from pipelines.maps.command import map_command

__all__ = ["VIEWS"]

VIEWS = (map_command, figure, export_command, evaluate)
