"""Exports of a public release for the programs of its readers (docs/exports.md)."""

from pipelines.views.exports.exporting import FORMATS, Format, export
from pipelines.views.exports.source import ExportError, Source

__all__ = ["FORMATS", "ExportError", "Format", "Source", "export"]
