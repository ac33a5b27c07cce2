"""The JSON of the public API."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pipelines.publishing.publishing import Remark
from pipelines.release.signing import PUBLIC_KEY
from pipelines.service.public.catalog import Version

__all__ = ["FileEntry", "FileList", "FlowEntry", "FlowList", "ReleaseEntry", "ReleaseList"]

SYNTHETIC = "Synthetic workers: no row is a real person."


class ReleaseEntry(BaseModel):
    """A published version of a release.

    Attributes
    ----------
    name, version : str
        As in addresses.
    status : str
        complete, withdrawn or damaged; only what is complete should be used.
    published : str
        When its publication began, UTC.
    sha256 : str
        Hash of its SHA256SUMS, and so of all its content.
    title, state, year, job_type
        What was released.
    epsilon, delta : str or None
        Of the whole run, exact decimal text.
    workers : int or None
        Synthetic workers, in each implicate.
    implicates : int or None
        Synthetic data sets.
    plan_sha256 : str or None
        Of the public plan, from which the certificate can be computed again.
    signed : bool or None
        Whether it is signed. Without a signature nobody answers for how its data were drawn.
    withdrawn : Remark or None
    errata : list of Remark
        Oldest first.
    """

    name: str
    version: str
    status: str
    published: str
    sha256: str
    title: str | None = None
    state: str | None = None
    year: int | None = None
    job_type: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    workers: int | None = None
    implicates: int | None = None
    plan_sha256: str | None = None
    signed: bool | None = None
    withdrawn: Remark | None
    errata: list[Remark]

    @classmethod
    def of(cls, version: Version) -> ReleaseEntry:
        """Return the entry of a version."""
        state, certificate = version.state, version.certificate
        described: dict[str, Any] = {}
        if certificate is not None:
            described = {
                "title": certificate.release.name,
                "state": certificate.release.state,
                "year": certificate.release.year,
                "job_type": certificate.release.job_type,
                "epsilon": certificate.run.epsilon,
                "delta": certificate.run.delta,
                "workers": certificate.totals.synthetic_workers,
                "implicates": certificate.implicates.number,
                "plan_sha256": certificate.plan_sha256,
                "signed": PUBLIC_KEY in version.files,
            }
        return cls(
            name=state.name,
            version=state.version,
            status=version.status,
            published=state.begun,
            sha256=state.sha256,
            withdrawn=state.withdrawn,
            errata=list(state.errata),
            **described,
        )


class ReleaseList(BaseModel):
    """Published versions, newest first."""

    releases: list[ReleaseEntry]


class FileEntry(BaseModel):
    """A file of a version: name, bytes, hash, and where it is downloaded."""

    name: str
    size: int
    sha256: str
    href: str


class FileList(BaseModel):
    """Files of a version."""

    files: list[FileEntry]


class FlowEntry(BaseModel):
    """Jobs between the area that was asked for and another; external: an external zone.

    low, high: interval of the true number, of 90 % of posterior draws, where the publisher gave draws.
    """

    code: str
    jobs: int
    external: bool
    low: int | None = None
    high: int | None = None


class FlowList(BaseModel):
    """Flows of an area.

    Attributes
    ----------
    note : str
        What the numbers are.
    name, version : str
        Of the release.
    side : str
        home or work: which end of the flows the area is.
    area, level : str
        The area that was asked for.
    other_level : str
        Level of the areas in `flows`.
    attribute, meaning : str
        Which jobs are counted.
    implicate : int
        Of which synthetic data set.
    jobs : int
        Of the area, with all areas together.
    areas : int
        How many areas it has flows with.
    flows : list of FlowEntry
        The largest of them.
    about_intervals : str
        What low and high are, where flows have them.
    """

    note: str = SYNTHETIC
    name: str
    version: str
    side: str
    area: str
    level: str
    other_level: str
    attribute: str
    meaning: str
    implicate: int
    jobs: int
    areas: int
    flows: list[FlowEntry]
    about_intervals: str | None = None
