"""Count the words of README and pages, beside those of an earlier commit.

Usage: python benchmarks/words.py [--before 21221b0d]

A word is what stands between two spaces, as for `wc -w`: tables and examples count, too.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
from report import table

ROOT = Path(__file__).parent.parent
PAGES = ("*.md", "docs/*.md", "docs/proofs/*.md")


@click.command()
@click.option("--before", default="21221b0d", show_default=True, help="Commit to compare with.")
def main(before: str) -> None:
    """Print a row for each page, and one for all."""
    now = {page: len((ROOT / page).read_text(encoding="utf-8").split()) for page in listed("HEAD")}
    then = {page: len(text(before, page).split()) for page in listed(before)}
    rows = [[page, *(f"{of.get(page, 0):,}" for of in (then, now))] for page in sorted({*now, *then})]
    rows.append(["**all**", *(f"{sum(of.values()):,}" for of in (then, now))])
    click.echo(table(["page", f"words at {before}", "words now"], rows))


def listed(commit: str) -> list[str]:
    """Return the pages of a commit."""
    names = git("ls-tree", "-r", "--name-only", commit).splitlines()
    return [name for name in names if any(fits(name, page) for page in PAGES)]


def fits(name: str, page: str) -> bool:
    """Say whether a name is of a pattern, in the pattern's folder."""
    return Path(name).match(page) and name.count("/") == page.count("/")


def text(commit: str, page: str) -> str:
    """Return a page of a commit."""
    return git("show", f"{commit}:{page}")


def git(*arguments: str) -> str:
    """Return what a command of git prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
