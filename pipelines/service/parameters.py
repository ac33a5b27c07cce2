"""Parameters of addresses, as the API and the pages share them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

__all__ = ["LARGEST", "Before", "Name", "RunNumber", "VersionName"]

LARGEST = 2**31 - 1  # of PostgreSQL's integers

Name = Annotated[str, Path(max_length=200, description="Of the release, as in the list of releases.")]
VersionName = Annotated[str, Path(max_length=200, description="Of the release, as in the list of releases.")]
RunNumber = Annotated[int, Path(ge=1, le=LARGEST, description="Number of the run.")]
Before = Annotated[int | None, Query(ge=1, le=LARGEST, description="Only what is older than this number.")]
