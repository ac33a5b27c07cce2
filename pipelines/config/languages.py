"""Languages that a release can speak to its readers: those that have a folder of templates."""

from __future__ import annotations

from pathlib import Path

ENGLISH = "en"
"""The language of certificates, plans and messages, and of releases that name no other."""

TEMPLATES = Path(__file__).parents[1] / "release" / "templates"
"""Where `pipelines.release.pages` finds a folder for each language."""

LANGUAGES = tuple(sorted(folder.name for folder in TEMPLATES.iterdir() if folder.is_dir()))
