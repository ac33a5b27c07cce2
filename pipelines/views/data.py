"""A release as tables for pandas and GeoPandas, from its folder or from the address of a service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

import geopandas as gpd
import numpy as np
import pandas as pd
import pooch  # type: ignore[import-untyped]
import pyarrow.dataset as ds
import requests

from geo_data.arguments import path_of
from pipelines.config.implicates import Implicates
from pipelines.release.certificate import Certificate
from pipelines.release.layout import file_names
from pipelines.release.reader import PublicRelease, PublicReleaseError, read_public_release
from pipelines.views.exports.source import usual_level
from pipelines.views.labels import unit_names

_ADDRESS = re.compile(r"(?P<service>https?://.+?)(?:/api/v1)?/releases/(?P<name>[^/]+)/(?P<version>[^/]+)/?")
_SHA256 = re.compile("[0-9a-f]{64}")
_SECONDS = 60


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseData:
    """A release, opened by `read`; tables are read when asked for.

    Attributes
    ----------
    release : PublicRelease
    """

    release: PublicRelease

    def __repr__(self) -> str:
        subject, totals = self.certificate.release, self.certificate.totals
        levels = ", ".join(f"{self.release.geography.n_units(level):,} {level}" for level in self.levels)
        return f"<{subject.name}: {totals.synthetic_workers:,} synthetic workers; areas: {levels}>"

    @property
    def certificate(self) -> Certificate:
        """What was promised about privacy."""
        return self.release.certificate

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of areas, coarsest first; the last is the block."""
        return self.release.levels

    @property
    def attributes(self) -> dict[str, str]:
        """Counts of jobs that `flows` gives, each with its meaning; S000, all jobs, is the first."""
        return self.release.counts

    def workers(self) -> pd.DataFrame:
        """Return the synthetic workers, a row for each.

        Returns
        -------
        DataFrame
            ``w_geocode`` and ``h_geocode`` (text): blocks of the workplace and the home. With a column (text)
            for each attribute where the release says which belong to one job; where it counts them apart, as
            those made of LODES files do, only `flows` has them.
        """
        configuration = self.release.plan_document["configuration"]
        names = file_names(configuration)
        if "jobs_parquet" in names:
            below = Implicates.of(configuration).folders[self.release.implicate - 1]
            path = self.release.folder / below / names["jobs_parquet"]
            if not path.exists():
                raise PublicReleaseError(
                    f"{path}: the file is missing. Fix: take a whole copy of the release"
                )
            return ds.dataset(path, format="parquet").to_table().to_pandas()
        ends = ["w_geocode", "h_geocode"]
        tables = [data.to_table(columns=[*ends, "S000"]).to_pandas() for data in self.release.rows.values()]
        pairs = pd.concat(tables, ignore_index=True)
        return pairs[ends].loc[pairs.index.repeat(pairs["S000"])].reset_index(drop=True)

    def flows(
        self,
        home_level: str | None = None,
        work_level: str | None = None,
        attributes: str | Sequence[str] = "S000",
    ) -> pd.DataFrame:
        """Return jobs by home and work area.

        Parameters
        ----------
        home_level, work_level : str, optional
            Of `levels`; one alone stands for both. By default the finest that has shapes, or whose areas have
            1,000 workers on average, and at which flows are more than noise.
        attributes : str or sequence of str
            Of `attributes`.

        Returns
        -------
        DataFrame
            A row for each pair of areas with jobs: ``work`` and ``home`` (text: codes), and the counts
            (int64).
        """
        default = home_level or work_level or usual_level(self.release)
        return self.release.flows(home_level or default, work_level or default, attributes)

    def shapes(self, level: str | None = None) -> gpd.GeoDataFrame:
        """Return the areas of a level.

        Parameters
        ----------
        level : str, optional
            By default as in `flows`.

        Returns
        -------
        GeoDataFrame
            A row for each area: ``code`` and ``name`` (text; "" where the release has no name), ``external``
            (whether it is an external zone), ``longitude`` and ``latitude`` (the mean of its blocks), and
            geometry, EPSG:4326: the polygon where the release has polygons of the level, else that point;
            None for external zones.
        """
        level = usual_level(self.release) if level is None else level
        if level not in self.levels:
            raise PublicReleaseError(f"there is no level {level!r}; there are: {', '.join(self.levels)}")
        places, geography = self.release.places(level), self.release.geography
        table = pd.DataFrame(
            {
                "code": places["code"].astype("str"),
                "name": pd.array(unit_names(self.release, level), dtype="str"),
                "external": geography.is_external(geography.starts(level)),
                "longitude": places["longitude"],
                "latitude": places["latitude"],
            }
        )
        own = self.release.polygons(level)
        points = gpd.GeoSeries.from_xy(places["longitude"], places["latitude"])
        points[places["latitude"].isna()] = None
        geometry = points if own is None else own.set_index("unit").geometry.reindex(places.index)
        return gpd.GeoDataFrame(table, geometry=np.asarray(geometry.array), crs="EPSG:4326")


def read(
    source: str | PathLike[str], *, implicate: int = 1, cache: str | PathLike[str] | None = None
) -> ReleaseData:
    """Open a release for pandas and GeoPandas.

    Parameters
    ----------
    source : str or path
        The public folder of a release, the folder around it, or the address of a version at a service, as in
        ``https://data.example.org/releases/NAME/VERSION``; VERSION may be ``latest``.
    implicate : int
        Which of its synthetic data sets, from 1.
    cache : str or path, optional
        Where files of an address are kept, by default in the user's cache. Each is downloaded once and
        compared with the hash that the service gives. `verify` checks such a folder, which is
        ``ReleaseData.release.folder``; csv.gz files are not in it where the same rows are there as Parquet.

    Returns
    -------
    ReleaseData

    Raises
    ------
    PublicReleaseError
        If it is not a release, the service does not answer, or a file is not what was published.

    Examples
    --------
    >>> import pipelines
    >>> data = pipelines.read("out/demo")
    >>> data
    <Demo region 2019, all jobs: 600 synthetic workers; areas: ...>
    >>> data.flows("cty").columns.tolist()
    ['work', 'home', 'S000']
    """
    text = source if isinstance(source, str) else str(path_of(source, "source"))
    if text.startswith(("http://", "https://")):
        folder = _downloaded(text, Path(pooch.os_cache("odsynth") if cache is None else cache))
    else:
        folder = Path(text)
        if not (folder / "certificate.json").is_file() and (folder / "public").is_dir():
            folder = folder / "public"
    return ReleaseData(read_public_release(folder, implicate))


def _downloaded(address: str, cache: Path) -> Path:
    """Download the files of a version that are not here yet, and return their folder."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        example = "https://data.example.org/releases/NAME/VERSION"
        raise PublicReleaseError(f"{address}: this is not the address of a version; write one like {example}")
    try:
        service = found["service"]
        entry = _asked(f"{service}/api/v1/releases/{found['name']}/{found['version']}")
        # From here on the version itself, whatever becomes the latest meanwhile.
        here = f"releases/{quote(str(entry['name']))}/{quote(str(entry['version']))}"
        files = _asked(f"{service}/api/v1/{here}/files")["files"]
        names = {str(file["name"]): str(file["sha256"]) for file in files}
        content = str(entry["sha256"])
        if not all(_SHA256.fullmatch(each) for each in (content, *names.values())):
            raise PublicReleaseError(f"{address}: what it answers are not hashes of files")
        folder = cache / content
        for name, digest in names.items():
            parts = PurePosixPath(name).parts
            if name.startswith("/") or ".." in parts or "\\" in name:
                raise PublicReleaseError(f"{address}: {name!r} is no name of a file of a release")
            if name.removesuffix(".csv.gz") + ".parquet" not in names or not name.endswith(".csv.gz"):
                url, path = f"{service}/{here}/files/{quote(name)}", folder.joinpath(*parts)
                pooch.retrieve(url, f"sha256:{digest}", path.name, path.parent, progressbar=False)
    except requests.RequestException as error:
        where = urlsplit(address).netloc
        raise PublicReleaseError(f"{address}: {where} does not answer: {_reason(error)}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, PublicReleaseError):
            raise
        why = (
            "a file is not what its hash says"
            if "hash" in str(error)
            else "it does not answer as this program does"
        )
        raise PublicReleaseError(f"{address}: {why}. Fix: try again, or tell the publisher") from None
    return folder


def _asked(address: str) -> dict[str, Any]:
    answer = requests.get(address, timeout=_SECONDS)
    if answer.status_code >= 400 and "json" in answer.headers.get("Content-Type", ""):
        raise PublicReleaseError(f"{address}: {answer.json().get('detail', answer.reason)}")
    answer.raise_for_status()
    return dict(answer.json())


def _reason(error: requests.RequestException) -> str:
    return (
        type(error).__name__
        if error.response is None
        else f"{error.response.status_code} {error.response.reason}"
    )
