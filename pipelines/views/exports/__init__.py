"""Exports of a public release for the programs of its readers (docs/exports.md)."""
