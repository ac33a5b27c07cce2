"""Exports of a public release for the programs of its readers (docs/exports.md)."""

from pipelines.exports.exporting import FORMATS, Format, export
from pipelines.exports.source import ExportError, Source

__all__ = ["FORMATS", "ExportError", "Format", "Source", "export"]
