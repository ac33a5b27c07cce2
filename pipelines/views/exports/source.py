"""What every export is made from: a release at a pair of levels, its origin and its meaning in words."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.config.languages import ENGLISH
from pipelines.release.intervals import Estimates
from pipelines.release.pages import phrases as release_phrases
from pipelines.storage.checksums import sha256_of
from pipelines.views.accuracy import noise_warning
from pipelines.views.folder import PublicReleaseError, blame_release
from pipelines.views.labels import ends_beyond, singular, unit_names
from pipelines.views.pages import phrases
from pipelines.views.release import Release

ENDS = [f"{side}_{axis}" for side in ("home", "work") for axis in ("longitude", "latitude")]
"""Columns of `Source.journeys`: where a flow begins and ends."""

DECIMALS = 6
"""Of degrees: 0.1 m."""


class ExportError(PublicReleaseError):
    """An export that cannot be made: an unknown format, a file in its way, too many zones."""


@dataclass(frozen=True, eq=False)
class Source:
    """A release at a pair of levels; what several formats need is made once."""

    release: Release
    home_level: str  # Of ``release.levels``
    work_level: str
    folder: Path  # For a file of flows while the exports are made
    batch_rows: int = 100_000  # Largest number of rows that a format has in memory at once
    intervals: bool = True  # whether flows have those that the draws of the release give
    # Of formats with points of single workers: of their points, by default from the hash of the plan; and
    # the share of the workers that are in the file
    seed: int | None = None
    sample: float = 1.0
    decimal_comma: bool = False  # of tables for spreadsheets

    @property
    def language(self) -> str:
        """Language in which an export speaks: that of the release."""
        return self.release.language

    @property
    def say(self) -> Any:
        """What Python puts together to texts, in this language (`pipelines.views.pages.phrases`)."""
        return phrases(self.language)

    @property
    def ends_beyond(self) -> str:
        """What workers do in external zones, in this language; "" without any."""
        return str(self.say.ends.get(ends_beyond(self.release.geography), ""))

    @property
    def levels(self) -> dict[str, str]:
        """The level of each side, ``home`` and ``work``."""
        return {"home": self.home_level, "work": self.work_level}

    @property
    def counts(self) -> list[str]:
        """Columns that count jobs; S000 is the first."""
        return list(self.release.counts)

    @property
    def columns(self) -> list[str]:
        """Columns of numbers that flows have: the counts, and their estimates with intervals."""
        return [*self.counts, *itertools.chain(*map(estimate_columns, self.with_interval))]

    @cached_property
    def with_interval(self) -> list[str]:
        """Those of the counts that have an estimate and an interval."""
        if not self.intervals or not self.release.has_draws:
            return []
        draws, levels = self.release.draws(), (self.home_level, self.work_level)
        by = {names for name in self.counts if draws.has(*levels, names := draws.attributes_of(name))}
        return [name for name in self.counts if draws.attributes_of(name) in by]

    @property
    def untold(self) -> str:
        """Say by which attributes there are no intervals, as nothing published tells homes apart by them."""
        release = self.release
        untold = [(name,) for name in release.categories if not release.plan.tells_homes_by((name,))]
        return str(release_phrases(self.language).untold(untold)) if untold else ""

    def flows(self) -> Iterator[pd.DataFrame]:
        """Yield all flows, with their estimates, at most `batch_rows` at a time."""
        with pa.OSFile(str(self._added_up[0])) as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                yield batch.to_pandas()

    @property
    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Jobs of all zones, external zones included, by side, ``home`` and ``work``: (zones, counts)."""
        return self._added_up[1]

    @cached_property
    def _added_up(self) -> tuple[Path, dict[str, NDArray[np.int64]]]:
        """The flows, added up once and put into a file, from which all formats read them; the totals."""
        zones = {side: self.release.geography.n_units(level) for side, level in self.levels.items()}
        totals = {side: np.zeros((number, len(self.counts)), np.int64) for side, number in zones.items()}
        batches = self._with_estimates(
            self.release.flow_batches(self.home_level, self.work_level, self.counts)
        )
        first = next(batches)
        schema = pa.Schema.from_pandas(first, preserve_index=False).remove_metadata()
        path = self.folder / "flows.arrow"
        with pa.ipc.new_stream(path, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            for flows in itertools.chain([first], batches):
                for side, total in totals.items():
                    added = flows.groupby(side)[self.counts].sum()
                    total[added.index] += added.to_numpy()
                # A run of work units has few flows or very many; from the file come as many as asked for.
                table = pa.Table.from_pandas(flows, schema, preserve_index=False)
                file.write_table(table, max_chunksize=self.batch_rows)
        return path, totals

    def _with_estimates(self, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        if not self.with_interval:
            yield from batches
            return
        draws, levels = self.release.draws(), (self.home_level, self.work_level)
        for flows in batches:
            columns: dict[str, NDArray[np.number]] = {}
            for name, told in draws.between_counts(flows, *levels, self.with_interval).items():
                columns |= zip(estimate_columns(name), told, strict=True)
            yield flows.assign(**columns)

    @cached_property
    def zones(self) -> dict[str, gpd.GeoDataFrame]:
        """Zones by level, as `Release.shapes`, with totals: ``home_<count>`` and ``work_<count>``."""
        return {level: self._zones(level) for level in dict.fromkeys(self.levels.values())}

    @property
    def placed_zones(self) -> dict[str, gpd.GeoDataFrame]:
        """The same without those that have no geometry."""
        return {level: zones[zones.geometry.notna()] for level, zones in self.zones.items()}

    def _zones(self, level: str) -> gpd.GeoDataFrame:
        named = ["name"] if level in self._names else []
        zones = self.release.shapes(level)[["code", *named, "geometry"]]
        for side, side_level in self.levels.items():
            if level == side_level:
                for i, count in enumerate(self.counts):
                    zones.insert(zones.shape[1] - 1, f"{side}_{count}", self.totals[side][:, i])
        return zones

    def points(self, level: str) -> pd.DataFrame:
        """Return code, name where the level has names, latitude and longitude of each unit of a level."""
        named = ["name"] if level in self._names else []
        return self.release.areas(level)[["code", *named, "latitude", "longitude"]]

    def other_shapes(self) -> Iterator[tuple[str, gpd.GeoDataFrame]]:
        """Yield the units of each further level of which the release has polygons: code, name, geometry."""
        for level in self.release.config.geography.polygon_levels:
            if level not in self.levels.values():
                yield level, self.release.shapes(level)[["code", "name", "geometry"]]

    def numbers(self, level: str) -> NDArray[np.int32]:
        """Return a number for each unit of a level: its code, where all are plain numbers; else from 1."""
        codes = self.release.geography.codes(level)
        if pd.Series(codes).str.fullmatch("0|[1-9][0-9]{0,8}").all():
            return codes.astype(np.int32)
        return np.arange(1, len(codes) + 1, dtype=np.int32)

    @cached_property
    def _names(self) -> dict[str, NDArray[np.object_]]:
        names = {level: unit_names(self.release, level) for level in dict.fromkeys(self.levels.values())}
        return {level: named for level, named in names.items() if (named != "").any()}

    def public_tables(self, *names: str) -> Iterator[tuple[str, Iterator[pd.DataFrame], dict[str, str]]]:
        """Yield tables of the release itself, those it has: name, rows in batches, meanings of columns."""
        about = self.release.description_in(self.language)
        for name in names:
            for table in (table for table in about.tables if table.name == name):
                path = self.release.public / table.files[-1]
                with blame_release(path):
                    file = pq.ParquetFile(path)
                columns = {column.name: column.words for column in table.columns}
                yield name, _plain(file.iter_batches(self.batch_rows)), columns

    def flow_tables(self) -> Iterator[pd.DataFrame]:
        """Yield batches of `flows` with codes instead of numbers, and names where a level has names."""
        for flows in self.flows():
            yield pd.concat([self._in_words(flows), flows[self.columns]], axis=1)

    def _in_words(self, flows: pd.DataFrame) -> pd.DataFrame:
        """Return the codes of both ends of flows between numbers, and their names where there are any."""
        words = {
            name: labels.take(flows[name.removesuffix("_name")].to_numpy())
            for name, labels in self._words.items()
        }
        return pd.DataFrame(words)

    def journeys(self) -> Iterator[pd.DataFrame]:
        """Yield the flows that can be drawn as lines: both ends have a place, and not the same.

        With names, and with the places of both `ENDS` before the counts; where a region crosses 180 degrees,
        longitudes go on beyond.
        """
        points = {
            side: self.release.places(level)[["longitude", "latitude"]].to_numpy()
            for side, level in self.levels.items()
        }
        for flows in self.flows():
            home, work = points["home"][flows["home"]], points["work"][flows["work"]]
            drawn = np.isfinite(home).all(axis=1) & np.isfinite(work).all(axis=1) & (home != work).any(axis=1)
            ends = pd.DataFrame(np.hstack([home, work]), columns=ENDS)
            table = pd.concat([self._in_words(flows), ends, flows[self.columns]], axis=1)
            yield table[drawn].reset_index(drop=True)

    @cached_property
    def _words(self) -> dict[str, pd.Index]:
        """The codes, and the names if there are any, of the units of both sides."""
        codes, sides = self.release.geography.codes, ("work", "home")
        labels = {side: codes(self.levels[side]) for side in sides}
        labels |= {
            f"{side}_name": self._names[self.levels[side]]
            for side in sides
            if self.levels[side] in self._names
        }
        return {name: pd.Index(of_units, dtype="str") for name, of_units in labels.items()}

    def not_drawn(self, drawn: int) -> list[str]:
        """Return a remark on how many workers have no line, if there are any; `drawn` are in `journeys`."""
        total = int(self.totals["work"][:, 0].sum())
        return [self.say.not_drawn(total - drawn, total, self.ends_beyond)] if total > drawn else []

    def without_shape(self, effect: str) -> list[str]:
        """Return a remark for each level with zones without geometry.

        `effect` is what becomes of them, of `effects` of the phrases.
        """
        remarks = []
        for level, zones in self.zones.items():
            bare = zones[zones.geometry.isna()]
            if len(bare):
                workers = {
                    side: int(bare[column].sum()) for side in _SIDES if (column := f"{side}_S000") in bare
                }
                remarks.append(self.say.without_shape(level, effect, len(bare), len(zones), workers))
        return remarks

    def name(self, layer: str, suffix: str) -> str:
        """Return the name of a file in the manner of LODES, such as ``ri_zones_trct_JT00_2019.fgb``."""
        subject = self.release.certificate.release
        return f"{subject.state}_{layer}_{subject.job_type}_{subject.year}.{suffix}"

    @property
    def flows_name(self) -> str:
        """What a file of flows is called: ``flows_<home level>_to_<work level>``."""
        return f"flows_{self.home_level}_to_{self.work_level}"

    @cached_property
    def about(self) -> dict[str, str]:
        """What belongs to every copy of the data (`provenance`), for formats that hold metadata."""
        noise = noise_warning(self.release, self.home_level, self.work_level)
        return provenance(self.release) | ({"noise": noise} if noise else {})

    @cached_property
    def meanings(self) -> dict[str, str]:
        """The meaning of every column of the zones, the flows and the journeys."""
        estimates = {
            column: self.say.of_draws(field, name)
            for name in self.with_interval
            for field, column in zip(Estimates._fields, estimate_columns(name), strict=True)
        }
        return column_meanings(self.release, self.levels, self.language) | estimates

    def meanings_of(self, columns: Iterable[str]) -> dict[str, str]:
        """Return the meanings of some columns, those without one (geometry) left out."""
        return {name: self.meanings[name] for name in columns if name in self.meanings}

    @property
    def sentence(self) -> str:
        """The most important of `about` in one sentence."""
        return self.about["description"]


def _plain(batches: Iterable[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
    """Yield batches with texts in place of numbers of texts."""
    for batch in batches:
        table = batch.to_pandas()
        coded = table.select_dtypes("category").columns
        yield table.astype(dict.fromkeys(coded, "str"))


def provenance(release: Release) -> dict[str, str]:
    """Return what belongs to every copy of the data: what it is, whose, its licence, its plan."""
    certificate, description = release.certificate, release.description
    say = phrases(release.language)
    about = {
        "title": certificate.release.title,
        "description": one_sentence(release),
        "synthetic": say.synthetic,
        "licence": release.licence or say.no_licence,
        "citation": description.citation,
        **{key: text for key in ("publisher", "contact") if (text := getattr(description, key))},
        "version": release.version,
        "created": certificate.created,
        "epsilon": certificate.run.epsilon,
        "delta": certificate.run.delta,
        "plan_sha256": certificate.plan_sha256,
        "certificate_sha256": sha256_of(release.public / "certificate.json"),
    }
    if release.implicates > 1:
        about["implicate"] = say.implicate(release.implicate, release.implicates)
    return about


def one_sentence(release: Release) -> str:
    """Return the most important of `provenance` in one sentence, for formats that have one place for it."""
    return str(phrases(release.language).one_sentence(release.certificate))


def column_meanings(release: Release, levels: Mapping[str, str], language: str = ENGLISH) -> dict[str, str]:
    """Return the meaning of every column that a table of an export, or an answer of the service, can have."""
    say, counts = phrases(language), release.counts_in(language)
    ends = {side: say.end(side, singular(levels[side], language)) for side in _SIDES}
    return {
        **say.columns,
        **{side: say.code_of(end) for side, end in ends.items()},
        **{f"{side}_name": say.name_of(end) for side, end in ends.items()},
        **{
            f"{side}_{axis}": say.point_of(axis, end)
            for side, end in ends.items()
            for axis in ("longitude", "latitude")
        },
        **{name: say.counted(meaning) for name, meaning in counts.items()},
        **{
            f"{side}_{name}": say.counted_at(side, meaning)
            for side in _SIDES
            for name, meaning in counts.items()
        },
    }


def estimate_columns(count: str) -> list[str]:
    """Return the columns of flows that have the `Estimates` of a count."""
    after = "" if count == "S000" else f"_{count}"
    return [f"{field}{after}" for field in Estimates._fields]


_SIDES = ("home", "work")


def describe_csv(
    path: Path,
    head: pd.DataFrame,
    source: Source,
    meanings: Mapping[str, str],
    *notes: str,
) -> None:
    """Write beside a CSV file, which has rows only, what it is: CSV on the Web, and GDAL's types."""
    comma: dict[str, Any] = {"double": {"base": "double", "format": {"decimalChar": ","}}}
    with_comma = comma if source.decimal_comma else {}
    types = {name: column_type(column) for name, column in head.items()}
    columns = [
        {
            "name": name,
            "titles": name,
            "dc:description": meanings[str(name)],
            "datatype": with_comma.get(kind, kind),
        }
        for name, kind in types.items()
    ]
    about = source.about
    document: dict[str, Any] = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": source.language}],
        "url": path.name,
        "dc:title": about["title"],
        "dc:description": about["description"],
        "dc:rights": about["licence"],
        "notes": [dict(about), *notes],
        **({"dialect": {"delimiter": ";"}} if source.decimal_comma else {}),
        "tableSchema": {"columns": columns},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.with_name(f"{path.name}-metadata.json").write_text(f"{text}\n", encoding="utf-8")
    if path.suffix == ".csv":
        path.with_suffix(".csvt").write_text(f"{','.join(_csvt(head))}\n", encoding="utf-8")


def column_type(column: pd.Series) -> str:
    """Return the type of a column of a table: integer, double or string."""
    if pd.api.types.is_integer_dtype(column):
        return "integer"
    return "double" if pd.api.types.is_float_dtype(column) else "string"


def _csvt(head: pd.DataFrame) -> list[str]:
    points = {"longitude": "CoordX", "lon": "CoordX", "latitude": "CoordY", "lat": "CoordY"}
    types = {"string": "String", "integer": "Integer64", "double": "Real"}
    return [points.get(str(name), types[column_type(column)]) for name, column in head.items()]
