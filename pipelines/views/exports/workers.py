"""Synthetic workers one by one, with points of home and workplace drawn inside their areas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyproj
import shapely
from numpy.typing import NDArray

from geo_data.od_files import count_columns
from pipelines.release.description import Attribute, attributes_of
from pipelines.views.accuracy import trusted_level
from pipelines.views.exports.source import ExportError, Source
from pipelines.views.folder import blame_release
from pipelines.views.labels import plural, singular, unit_names

_TURNS = 2_000  # of a draw in the box around a polygon; then the polygon is a sliver

# Streams of random numbers beside those of the turns.
_OF_SAMPLE = 2**32
_OF_ATTRIBUTES = 2**33

_SIDES = {"w_geocode": "work", "h_geocode": "home"}
_ENDS = ("home", "work")


@dataclass
class Workers:
    """The workers of a release, in its order, each with a point of home and one of workplace.

    A point depends on the seed and on the number of the worker alone: neither the size of batches nor a
    sample changes it. Those whose home or workplace has no place are left out, and counted.
    """

    source: Source
    all: int = field(default=0, init=False)  # in `batches`, as far as they were read
    placed: int = field(default=0, init=False)
    drawn: int = field(default=0, init=False)
    at_centroid: int = field(default=0, init=False)  # points, of those drawn
    in_slivers: int = field(default=0, init=False)

    @property
    def seed(self) -> int:
        """Of all points: as asked for, or else from the hash of the plan."""
        given = self.source.seed
        return int(self.source.release.certificate.plan_sha256[:16], 16) if given is None else given

    @cached_property
    def level(self) -> str | None:
        """The finest level that has polygons."""
        levels = reversed(self.source.release.levels)
        return next((level for level in levels if self.source.release.polygons(level) is not None), None)

    @cached_property
    def crs(self) -> pyproj.CRS:
        """The UTM zone in the middle of the region, in metres."""
        placed = np.isfinite(self._degrees).all(axis=1)
        if not placed.any():
            raise ExportError(
                f"{self.source.release.public}: blocks have no coordinates, so that nobody can be placed. "
                "Fix: choose csv or omx"
            )
        longitude, latitude = self._degrees[placed].mean(axis=0)
        middle = gpd.GeoSeries.from_xy([(longitude + 180) % 360 - 180], [latitude], crs="EPSG:4326")
        return middle.estimate_utm_crs()

    @cached_property
    def _degrees(self) -> NDArray[np.float64]:
        places = self.source.release.places(self.source.release.geography.block_level)
        return places[["longitude", "latitude"]].to_numpy()

    @cached_property
    def _centroids(self) -> NDArray[np.float64]:
        to_metres = pyproj.Transformer.from_crs("EPSG:4326", self.crs, always_xy=True)
        metres = np.column_stack(to_metres.transform(*self._degrees.T))
        return np.where(np.isfinite(metres), metres, np.nan)

    @cached_property
    def _shapes(self) -> NDArray[np.object_]:
        """The polygon of each unit of `level`, in metres; None where there is none."""
        level = self.level
        if level is None:
            return np.array([None])
        polygons = self.source.release.polygons(level)
        assert polygons is not None
        polygons = polygons[polygons["unit"] >= 0]
        shapes = np.full(self.source.release.geography.n_units(level), None, object)
        shapes[polygons["unit"]] = polygons.geometry.to_crs(self.crs).to_numpy()
        shapes[~(shapely.area(shapes) > 0)] = None
        shapely.prepare(shapes)
        return shapes

    def batches(self) -> Iterator[tuple[pd.DataFrame, NDArray[np.float64]]]:
        """Yield workers and their points, shape (N, 2, 2): home and workplace, each x and y in `crs`.

        Columns ``worker`` (a number from 1, in the order of the release), ``home`` and ``work`` (codes of
        blocks) and the attributes (codes of categories).
        """
        geography = self.source.release.geography
        codes = pd.Index(geography.blocks, dtype="str")
        places = np.isfinite(self._centroids).all(axis=1) | ~shapely.is_missing(self._shapes)[self._units]
        for numbers, blocks, attributes in self._parts():
            self.all += len(numbers)
            here = places[blocks].all(axis=1)
            here[here] = self._sampled(int(here.sum()))
            points = self._draw(numbers[here], blocks[here])
            self.drawn += len(points)
            ends = {side: codes.take(blocks[here, i]) for i, side in enumerate(_ENDS)}
            names = {
                f"{side}_name": self._names[blocks[here, i]] for i, side in enumerate(_ENDS) if self._named
            }
            table = pd.DataFrame({"worker": numbers[here] + 1, **ends, **names})
            for name, of in attributes.items():
                table[name] = of[here]
                if name in self._labels:
                    table[_label(name)] = table[name].map(self._labels[name])
            yield table, points

    @cached_property
    def _names(self) -> NDArray[np.object_]:
        return unit_names(self.source.release, self.source.release.geography.block_level)

    @cached_property
    def _named(self) -> bool:
        """Whether blocks that have a place have names."""
        return bool((self._names[np.isfinite(self._degrees).all(axis=1)] != "").any())

    @cached_property
    def _labels(self) -> dict[str, dict[str, str]]:
        """The labels of the codes of each attribute that has some, by column."""
        return {
            _column(attribute.name): dict(attribute.labels)
            for attribute in self._attributes
            if any(code != label for code, label in attribute.labels.items())
            and _label(attribute.name) not in self.source.release.categories
        }

    @property
    def _attributes(self) -> tuple[Attribute, ...]:
        release = self.source.release
        return attributes_of(release.categories, release.config.attribute, self.source.language)

    @cached_property
    def _units(self) -> NDArray[np.int32]:
        """The unit of each block in `_shapes`."""
        geography = self.source.release.geography
        return (
            np.zeros(geography.n_blocks, np.int32)
            if self.level is None
            else geography.units_of_blocks(self.level)
        )

    def _sampled(self, workers: int) -> NDArray[np.bool_]:
        """Say which of the next workers with a place are in the sample: one in so many, in their order."""
        share = self.source.sample
        start = self._random(_OF_SAMPLE, 0, 1)[0, 0]
        steps = np.floor(np.arange(self.placed, self.placed + workers + 1) * share + start)
        self.placed += workers
        return np.diff(steps) > 0

    def _random(self, stream: int, first: int, workers: int) -> NDArray[np.float64]:
        """Return four random numbers for each of some workers, counted from the first."""
        philox = np.random.Philox(key=np.array([self.seed, stream], np.uint64), counter=first)
        return np.random.Generator(philox).random((workers, 4))

    def _draw(self, numbers: NDArray[np.int64], blocks: NDArray[np.int32]) -> NDArray[np.float64]:
        shapes = self._shapes[self._units[blocks]]
        points = self._centroids[blocks]
        left = ~shapely.is_missing(shapes)
        self.at_centroid += int((~left).sum())
        low, high = np.split(shapely.bounds(shapes), 2, axis=-1)
        for turn in range(_TURNS):
            if not left.any():
                return points
            first = int(numbers[0])
            random = self._random(turn, first, int(numbers[-1]) - first + 1)[numbers - first]
            tried = low + random.reshape(-1, 2, 2) * (high - low)
            inside = left.copy()
            inside[left] = shapely.contains_xy(shapes[left], tried[left])
            points[inside] = tried[inside]
            left &= ~inside
        self.in_slivers += int(left.sum())
        points[left] = shapely.get_coordinates(shapely.point_on_surface(shapes[left]))
        return points

    def _parts(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], dict[str, NDArray[np.object_]]]]:
        """Yield numbers from 0, blocks of home and workplace, and attributes of workers."""
        release, count = self.source.release, 0
        rows = release.job_rows
        for data in [rows] if rows is not None else release.rows.values():
            for batch in _batches(data, self.source.batch_rows):
                jobs = self._of_jobs(batch) if rows is not None else self._of_counts(batch, count)
                blocks = np.column_stack([jobs.pop("home"), jobs.pop("work")])
                for first in range(0, len(blocks), self.source.batch_rows):
                    part = slice(first, first + self.source.batch_rows)
                    numbers = np.arange(count + first, count + first + len(blocks[part]))
                    yield numbers, blocks[part], {name: column[part] for name, column in jobs.items()}
                count += len(blocks)

    def _blocks(self, batch: pa.RecordBatch) -> dict[str, NDArray[np.int32]]:
        number = self.source.release.geography.number
        blocks = {side: number(pa.chunked_array([batch[name]])) for name, side in _SIDES.items()}
        if any((of_side < 0).any() for of_side in blocks.values()):
            raise ExportError(
                f"{self.source.release.public}: there are blocks that are not in the plan's geography"
            )
        return blocks

    def _of_jobs(self, batch: pa.RecordBatch) -> dict[str, NDArray]:
        names = self.source.release.categories
        return self._blocks(batch) | {
            _column(name): batch[name].cast(pa.string()).to_numpy(zero_copy_only=False) for name in names
        }

    def _of_counts(self, batch: pa.RecordBatch, first: int) -> dict[str, NDArray]:
        """Return a row for each job; categories of a row's jobs are put together at random."""
        categories = self.source.release.categories
        jobs = batch["S000"].to_numpy()
        row = np.repeat(np.arange(len(jobs)), jobs)
        columns: dict[str, NDArray] = {side: blocks[row] for side, blocks in self._blocks(batch).items()}
        for number, (name, counts) in enumerate(count_columns(categories).items()):
            of_row = np.column_stack([batch[count].to_numpy() for count in counts])
            in_order = np.repeat(np.tile(np.array(categories[name], object), len(jobs)), of_row.ravel())
            random = self._random(_OF_ATTRIBUTES + number, first, len(row))[:, 0]
            columns[_column(name)] = in_order[np.lexsort((random, row))]
        return columns

    # --- what is said of them

    @property
    def about(self) -> dict[str, str]:
        """What belongs to a file of them, beside `Source.about`."""
        trusted = trusted_level(self.source.release)
        return self.source.about | {"trusted": trusted, "seed": str(self.seed)}

    @property
    def meanings(self) -> dict[str, str]:
        """The meanings of the columns of `batches`."""
        say, attributes, release = self.source.say, {}, self.source.release
        for attribute in self._attributes:
            attributes[name := _column(attribute.name)] = str(say.coded_attribute(attribute))
            if name in self._labels:
                attributes[_label(name)] = str(say.worker_label(name))
        names = {name: self.source.meanings[name] for name in ("home_name", "work_name") if self._named}
        block = singular(release.geography.block_level, self.source.language)
        return {
            "worker": str(say.worker_number),
            "home": str(say.worker_home(block)),
            "work": str(say.worker_work(block)),
            **names,
            **attributes,
        }

    def remarks(self) -> list[str]:
        """Return what a read-me says of them, when all were read."""
        release, say, language = self.source.release, self.source.say, self.source.language
        remarks = [say.workers_in_file(self.drawn, self.all)]
        if self.placed < self.all:
            remarks.append(say.workers_left_out(self.all - self.placed, self.all))
        if self.drawn < self.placed:
            remarks.append(say.workers_sampled(self.placed))
        if self.level is None:
            remarks.append(say.points_at_centroids)
        else:
            block = release.geography.block_level
            remarks.append(say.points_in_polygons(plural(self.level, language), self.level, self.seed))
            if self.level != block:
                remarks.append(say.points_right(singular(self.level, language), singular(block, language)))
            if self.at_centroid:
                remarks.append(say.points_without_polygon(self.at_centroid))
            if self.in_slivers:
                remarks.append(say.points_in_slivers(self.in_slivers))
        if release.job_rows is None and len(release.categories) > 1:
            remarks.append(say.categories_at_random)
        return [*map(str, remarks), trusted_level(release)]


def _column(attribute: str) -> str:
    """Return the column of an attribute, beside the columns that `Workers.batches` has of its own."""
    return f"{attribute}_category" if attribute.casefold() in ("worker", "home") else attribute


def _label(column: str) -> str:
    """Return the column of the labels of an attribute's codes."""
    return f"{column}_label"


def _batches(data: ds.Dataset, rows: int) -> Iterator[pa.RecordBatch]:
    for fragment in data.get_fragments():
        with blame_release(Path(fragment.path)):
            for group in fragment.split_by_row_group():  # one scan of all would keep what it has read
                yield from group.to_batches(batch_size=rows)
