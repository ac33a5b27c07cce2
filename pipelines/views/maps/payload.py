"""The data inside a map: flows at the finest level that fits, places, codes and shapes, packed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import geopandas as gpd
import numpy as np
import pandas as pd
from pyproj import CRS

from geo_data.od_files import count_columns
from pipelines.storage.checksums import sha256_of
from pipelines.views.changes.comparable import common_ground
from pipelines.views.flows import PAIR
from pipelines.views.labels import external_zones, level_words, plural, unit_names
from pipelines.views.maps.backdrop import Backdrop, backdrop_shapes
from pipelines.views.maps.draws import all_draws, draws_meta, smallest
from pipelines.views.maps.picture import draw_picture
from pipelines.views.maps.shapes import (
    MOST_CELLS,
    centroid_cells,
    geojson,
    layer_shapes,
    level_shapes,
    ring_places,
)
from pipelines.views.pages import map_phrases
from pipelines.views.release import Release
from pipelines.views.search import WORDS

_LEVEL = 7  # of gzip; 9 is 4 % smaller, and takes twelve times as long
_DEGREE = 1_000_000  # places are whole millionths of a degree, about a tenth of a metre
# A row of flows takes 3.5 to 8 bytes of a map. Where two bytes a row are too much already, not even the table
# of flows is made.
_LEAST_BYTES = 2
_AT_ONCE = 2_000_000  # bytes, packed; of more, finer levels wait until a reader wants them, and so do draws
_MAIN_ZONES = 3  # with most jobs, which a map shows one by one; those elsewhere together
_FOR_DRAWS = 1 / 4  # of the limit, that levels leave to draws; these take what is left

_Borders: TypeAlias = dict[str, gpd.GeoDataFrame]  # by layer


@dataclass(frozen=True)
class Payload:
    """What a page's program reads."""

    # Levels, counts and names, small enough to be read as they stand; ``arrays`` says where each array lies
    # in `arrays`
    meta: dict[str, Any]
    arrays: bytes  # Little-endian arrays one after another, each beginning at a multiple of 4 bytes; gzip
    # JSON with the codes, the names (null where there is none) and the shapes of each level; gzip
    texts: bytes
    # Posterior draws, as `arrays`; ``meta["draws"]`` says which, and where, and whether they are so large
    # that they are read ``later`` than the rest. Empty without them.
    draws: bytes = b""
    backdrop: bytes = b""  # JSON of water and roads; gzip. Empty without them.
    picture: str = ""  # SVG, which stands there until the map is drawn
    # What takes the place of this, once a reader opens one of the levels ``meta["later"]`` or asks for what
    # only they tell; None where all is here
    whole: Payload | None = None

    @property
    def size(self) -> int:
        """Length in a page that holds all of it, as base64, in bytes."""
        packed = len(self.arrays) + len(self.texts) + len(self.draws) + len(self.backdrop)
        return packed * 4 // 3 + len(self.picture) + (self.whole.size if self.whole else 0)


def make_payload(
    release: Release, limit: int, backdrop: Backdrop | None = None, *, compared: bool = False
) -> Payload:
    """Pack a release for a map; one that is `compared` with the draws that differences need."""
    backdrop_content = b""
    if backdrop is not None:
        backdrop_content = _packed(_json(backdrop_shapes(release, backdrop, _bounds(release))))
    rows = sum(part.count_rows() for part in release.rows.values())
    borders, picture = _borders(release), draw_picture(release)
    room = round(limit * (1 - _FOR_DRAWS)) if release.has_draws else limit
    for n in range(len(release.levels), 0, -1):
        finest_of_all = n == len(release.levels)
        if n > 1 and finest_of_all and rows * _LEAST_BYTES > room:
            continue
        payload = _in_parts(release, release.levels[:n], borders)
        payload = replace(payload, backdrop=backdrop_content, picture=picture)
        if payload.size <= room:
            break
    payload = _with_draws(payload, release, limit, compared=compared)
    for part in (payload, payload.whole):
        if part is not None and backdrop is not None:
            part.meta["attribution"] = backdrop.attribution
    return payload


def make_years(own: Release, page: Payload, others: Sequence[Release], limit: int) -> list[Payload]:
    """Pack releases of other years for the same page.

    Areas have their places, names and shapes from the page. Levels are, of those that it opens with, the
    finest that have room in the limit for all.
    """
    levels = tuple(level["id"] for level in page.meta["levels"])
    share = limit // len(others)
    for n in range(len(levels), 0, -1):
        years = [_year(release, own, page, levels[:n]) for release in others]
        if all(year.size <= share * (1 - _FOR_DRAWS) for year in years):
            break
    return [
        _with_draws(year, release, share, compared=True) for year, release in zip(years, others, strict=True)
    ]


def _year(release: Release, own: Release, page: Payload, levels: tuple[str, ...]) -> Payload:
    finest, geography = levels[-1], own.geography
    layers, _ = _layers(own, finest)
    flows = release.unit_flows(finest, finest, list(release.counts))
    meta, arrays = _numbers(release, levels, flows, own.language)
    arrays |= _places_among(own, levels) | {f"area_of:{name}": layer.area for name, layer in layers.items()}
    units = geography.unit_of(finest, geography.external_blocks).tolist()
    zones = zip(page.meta["external_zones"], units, strict=True)
    meta["external_zones"] = [{**zone, "unit": unit} for zone, unit in zones]
    meta["arrays"], packed = _concatenated(arrays)
    return Payload(meta, _packed(packed), b"")


def _with_draws(payload: Payload, release: Release, limit: int, *, compared: bool) -> Payload:
    """Add the draws of a release, as far as they have room in the limit."""
    if not release.has_draws:
        return payload
    levels = [level["id"] for level in payload.meta["levels"]]
    tables = all_draws(release, levels, max(limit - payload.size, 0), compared=compared)
    arrays = {f"{name}:{i}": values for i, t in enumerate(tables) for name, values in t.arrays.items()}
    layout, packed = _concatenated(arrays)
    payload = replace(payload, draws=_packed(packed))
    meta = {**draws_meta(release, tables), "arrays": layout, "later": len(payload.draws) > _AT_ONCE}
    for part in (payload, payload.whole):
        if part is not None:
            part.meta["draws"] = meta
    return payload


def _in_parts(release: Release, levels: tuple[str, ...], borders: _Borders) -> Payload:
    """Return the payload of levels; where it is large, behind one of the coarser levels that opens sooner."""
    whole = _payload(release, levels, borders)
    if _is_soon_read(whole):
        return whole
    for n in range(len(levels) - 1, 0, -1):
        first = _payload(release, levels[:n], {})
        if _is_soon_read(first):
            break
    else:
        return whole
    first.meta.update(left_out=whole.meta["left_out"], later=whole.meta["levels"][n:])
    return replace(first, whole=whole)


def _is_soon_read(payload: Payload) -> bool:
    return len(payload.arrays) + len(payload.texts) <= _AT_ONCE


def _bounds(release: Release) -> tuple[float, float, float, float]:
    """West, south, east and north of the centroids."""
    longitude, latitude = release.unbroken(release.geography.longitude), release.geography.latitude
    ends = [float(end(values)) for end in (np.nanmin, np.nanmax) for values in (longitude, latitude)]
    return ends[0], ends[1], ends[2], ends[3]


def _payload(
    release: Release,
    levels: tuple[str, ...],
    borders: _Borders,
) -> Payload:
    geography, finest = release.geography, levels[-1]
    flows = release.unit_flows(finest, finest, list(release.counts))
    meta, arrays = _numbers(release, levels, flows, release.language)
    arrays |= _places_among(release, levels)
    texts: dict[str, Any] = {"codes": {}, "names": {}, "shapes": {}}
    shapes_of = level_shapes(release, levels)
    drawn_around = not shapes_of
    if drawn_around:
        shapes_of = centroid_cells(release, levels)
    layers, layer_meta = _layers(release, finest)
    arrays |= {f"area_of:{name}": layer.area for name, layer in layers.items()}
    for name, layer in layers.items():
        texts["codes"][name] = layer.codes.tolist()
        if layer.names.any():
            texts["names"][name] = [name or None for name in layer.names]
    zones = _zones(release, flows, finest, next(iter(shapes_of.values()), None))
    for level in levels:
        places = release.places(level)
        texts["codes"][level] = places["code"].tolist()
        names, beyond = unit_names(release, level), geography.unit_of(level, geography.external_blocks)
        names[beyond] = ""  # which the page knows for all levels
        if names.any():
            texts["names"][level] = [name or None for name in names]
        for name in ("latitude", "longitude"):
            degrees = places[name].to_numpy(copy=True)
            degrees[beyond] = [zone[name] for zone in zones]
            arrays[f"{name}:{level}"] = np.rint(degrees * _DEGREE).astype(np.int32)
    for level, shapes in shapes_of.items():
        texts["shapes"][level] = geojson(shapes)
        if not drawn_around:
            arrays[f"area:{level}"] = _areas(shapes, geography.n_units(level))
    texts["shapes"] |= {name: geojson(shapes) for name, shapes in borders.items()}
    meta |= {
        "layers": layer_meta,
        "external_zones": [{name: zone[name] for name in ("unit", "name", "code", "main")} for zone in zones],
        "drawn_around_centroids": drawn_around,
        "degree": _DEGREE,
        "search": WORDS,
    }
    meta["arrays"], packed = _concatenated(arrays)
    return Payload(meta, _packed(packed), _packed(_json(texts)))


def _numbers(
    release: Release, levels: tuple[str, ...], flows: pd.DataFrame, language: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a page has of a release beside its areas: what it says of itself, and its flows."""
    noise, made_by = _noise(release), release.certificate.software.version
    made, finest = map_phrases(language)["data"]["made"], levels[-1]
    meta = {
        "levels": [
            {"id": level} | level_words(level, language) | ({"noise": noise[level]} if level in noise else {})
            for level in levels
        ],
        "later": [],
        "left_out": [plural(level, language) for level in release.levels[len(levels) :]],
        "counts": _count_groups(release, language),
        "release": {
            "name": release.title,
            "year": release.year,
            "version": made.format(created=release.certificate.created, version=made_by),
            "certificate_sha256": sha256_of(release.public / "certificate.json"),
            "common_ground": common_ground(release),
        },
    }
    return meta, _flow_arrays(flows, release.geography.n_units(finest), list(release.counts))


def _places_among(release: Release, levels: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return the units of each level as ranges of those of the finest."""
    geography = release.geography
    return {
        f"starts:{level}": geography.unit_of(levels[-1], geography.starts(level)).astype(np.int32)
        for level in levels
    }


@dataclass(frozen=True)
class _Layer:
    """Areas that cut across the levels: codes, names, and in which of them each unit of a level is, or -1."""

    codes: np.ndarray
    names: np.ndarray
    area: np.ndarray


def _borders(release: Release) -> _Borders:
    """Return the shapes of areas that cut across the levels, from the finest units that are few enough."""
    fine = [level for level in release.levels if release.geography.n_units(level) <= MOST_CELLS]
    if not (release.geography.non_nesting_areas and fine):
        return {}
    layers, _ = _layers(release, fine[-1])
    return layer_shapes(release, fine[-1], {name: layer.area for name, layer in layers.items()})


def _layers(release: Release, finest: str) -> tuple[dict[str, _Layer], list[dict[str, Any]]]:
    """Return the non-nesting areas of a release by units of a level: each is where most of its blocks are."""
    geography = release.geography
    blocks = np.arange(geography.n_blocks)
    unit, inside = geography.unit_of(finest, blocks), ~geography.is_external(blocks)
    layers = {}
    for name, part in geography.non_nesting_areas.items():
        # What is in no area has a code of 9s.
        real = np.array([bool(code.strip("9")) for code in part.codes], bool)
        rows = pd.DataFrame({"unit": unit, "area": part.area})[inside]
        sizes = (
            rows.groupby(["unit", "area"]).size().sort_values(ascending=False, kind="stable").reset_index()
        )
        most = sizes.drop_duplicates("unit").set_index("unit")["area"]
        area = np.full(geography.n_units(finest), -1, np.int32)
        area[most.index] = np.where(real[most], (np.cumsum(real) - 1)[most], -1)
        names = release.names.get(name, np.full(len(real), "", object))
        layers[name] = _Layer(part.codes[real], names[real], area)
    return layers, [{"id": name, **level_words(name, release.language)} for name in layers]


def _zones(
    release: Release, flows: pd.DataFrame, finest: str, shapes: gpd.GeoDataFrame | None
) -> list[dict[str, Any]]:
    """Say of each external zone: its unit and name, whether it is a main one, and where it is drawn."""
    geography, zones = release.geography, external_zones(release)
    if not zones:
        return []
    units = geography.unit_of(finest, list(zones))
    ends = [np.bincount(flows[end], flows["S000"], geography.n_units(finest)) for end in PAIR]
    jobs = np.sum(ends, axis=0)[units]
    if shapes is None:
        shapes = gpd.GeoSeries.from_xy(release.unbroken(geography.longitude), geography.latitude)
    facts = geography.external_facts
    weight, degrees = jobs + 1.0, np.column_stack([facts.latitude, release.unbroken(facts.longitude)])
    is_main = np.ones(len(jobs), bool)
    if len(jobs) > _MAIN_ZONES + 1:
        is_main[np.argsort(-jobs, kind="stable")[_MAIN_ZONES:]] = False
    # Those elsewhere have one place, as if they were one zone in their middle.
    place = np.where(is_main, np.cumsum(is_main) - 1, is_main.sum())
    weights = np.bincount(place, weight).astype(np.float64)
    latitude, longitude = (np.bincount(place, weight * values) / weights for values in degrees.T)
    west, south, east, north = shapes.total_bounds.tolist()
    places = ring_places(latitude, longitude, weights, (west, south, east, north))[place]
    return [
        {
            "unit": int(unit),
            "name": zone.name,
            "code": zone.code,
            "main": main,
            "longitude": x,
            "latitude": y,
        }
        for unit, zone, main, (x, y) in zip(
            units, zones.values(), is_main.tolist(), places.tolist(), strict=True
        )
    ]


def _noise(release: Release) -> dict[str, dict[str, float]]:
    """Say of each level between whose units flows are noise what is expected of them: shares of jobs."""
    return {
        table.flows_of: {"loss": table.loss, "public_model": table.public_model}
        for table in release.expected_tables
        if table.noise and table.flows_of is not None
    }


def _areas(shapes: gpd.GeoDataFrame, n_units: int) -> np.ndarray:
    """Thousandths of a square kilometre of each unit; 0 where it has no shape."""
    west, _, east, _ = shapes.total_bounds
    equal_area = CRS.from_proj4(f"+proj=cea +lon_0={(west + east) / 2:.4f} +datum=WGS84 +units=m")
    areas = np.zeros(n_units)
    areas[shapes["unit"]] = shapes.to_crs(equal_area).area / 1e3
    return np.rint(areas).astype(np.uint32)


def _flow_arrays(flows: pd.DataFrame, n_units: int, counts: list[str]) -> dict[str, np.ndarray]:
    """Rows are sorted by work: how many each work unit has says which they are."""
    arrays = {
        "rows_of_work": np.bincount(flows["work"], minlength=n_units),
        "home": flows["home"].to_numpy(),
        **{f"count:{name}": flows[name].to_numpy() for name in counts},
    }
    return {name: smallest(values) for name, values in arrays.items()}


def _count_groups(release: Release, language: str) -> list[dict[str, Any]]:
    """The counts as a reader chooses among them: all jobs, then attribute by attribute."""
    words = release.counts_in(language)
    attributes = map_phrases(language)["data"]["attributes"]
    groups = {"": ["S000"], **count_columns(release.categories)}
    return [
        {
            "attribute": attributes.get(attribute, attribute),
            "columns": [{"id": column, "words": words[column]} for column in columns],
        }
        for attribute, columns in groups.items()
    ]


def _concatenated(arrays: dict[str, np.ndarray]) -> tuple[dict[str, list[Any]], bytes]:
    """The arrays one after another, and of each: type, first byte, length."""
    layout, pieces, offset = {}, [], 0
    for name, values in arrays.items():
        piece = values.astype(values.dtype.newbyteorder("<")).tobytes()
        layout[name] = [values.dtype.name, offset, len(values)]
        pieces.append(piece + bytes(-len(piece) % 4))
        offset += len(pieces[-1])
    return layout, b"".join(pieces)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _packed(content: bytes) -> bytes:
    # No time stamp: the same release makes the same map.
    return gzip.compress(content, _LEVEL, mtime=0)
