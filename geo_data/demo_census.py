"""A generated census of an island that does not exist: employed residents, their homes, work, and way to it.

Drawn by seeded code from nothing real. The persons are confidential by declaration; the other files are
public.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.arguments import path_of
from geo_data.demo import Floats, Ints, draw_region, draw_rows, to_degrees, write_csv, write_shapes
from geo_data.demo_places import balanced

_MODES = ["car", "train or bus", "bicycle", "foot", "none"]
_OCCUPATIONS = [
    "managers",
    "professionals",
    "technicians",
    "clerks",
    "services and sales",
    "farming",
    "crafts",
    "machines and labour",
]
_AT_HOME, _NO_PLACE, _ABROAD = "W-HOME", "W-NONE", "W-ABRD"
_ELSEWHERE = [_AT_HOME, _NO_PLACE, _ABROAD]
_SHARES_ELSEWHERE = np.array([0.08, 0.04, 0.015])  # of all persons

_TOWNS = [
    "Midhaven",  # the city, in the centre; the others are around it
    "Estermouth",
    "Kestrel",
    "Combeford",
    "Wickley",
    "Norham",
    "Thornby",
    "Westerly",
    "Sallow",
    "Dunmere",
    "Oxley",
    "Brackwater",
]
_ZONES = 100
# The last zone of some towns, their farthest: what it is, whether anybody lives there, and works.
_SPECIAL = {
    "Kestrel": ("port", False, True),
    "Wickley": ("lake", False, False),
    "Thornby": ("forest", True, False),
    "Sallow": ("forest", True, False),
    "Dunmere": ("industrial estate", False, True),
}
_PEOPLE_PER_PERSON = 2.2  # residents for each who is employed
_BEACH_KM = 6.0  # wide, so that no water is left between the towns
_BORDER_KM = 38.0  # where the ferry leaves for abroad, east of the centre
_BEFORE = 0.95  # persons of the census before
_PAIR_SIGMA = 0.5  # how far pairs of zones stray from gravity
_CHANGE_SIGMA = 0.25  # flows between towns of the two censuses differ by about a tenth

# By occupation: a usual workplace, then factors of those who work at home, and who have no fixed place.
_MIX = np.array([0.07, 0.22, 0.16, 0.13, 0.18, 0.03, 0.11, 0.10])
_MIX_ELSEWHERE = np.array(
    [[1.5, 1.9, 1.2, 1.1, 0.3, 1.5, 0.2, 0.05], [0.5, 0.4, 0.7, 0.2, 0.9, 0.8, 3.5, 1.8], np.ones(8)]
)


@dataclass(frozen=True, eq=False)
class _Island:
    zones: pd.DataFrame  # the crosswalk
    town: Ints  # of each zone
    # zone centroids, kilometres east and north of the centre
    x: Floats
    y: Floats
    population: Ints
    inhabited: NDArray[np.bool_]
    working: NDArray[np.bool_]
    urban: Floats  # of each zone, 1 in the centre of the city, 0 in the country


def write_demo_census(
    folder: str | os.PathLike[str], *, persons: int = 200_000, seed: int = 2021
) -> dict[str, Path]:
    """Generate a census of employed residents, and write it with the public tables that an office has of it.

    Parameters
    ----------
    folder : str or path
        Created if absent. Files of the same names are replaced.
    persons : int
        Employed residents, at least 1.
    seed : int
        Seed of the generator, not negative. Equal arguments give equal bytes.

    Returns
    -------
    dict of str to Path
        ``"zones"``       census_zones.csv: 100 zones in 12 towns, their names and centroids.
        ``"persons"``     census_persons.csv.gz: home, work, mode, occupation of each person; work is a zone,
        or W-HOME (at home), W-NONE (no fixed place), W-ABRD (abroad).
        ``"population"``  census_population.csv: zone, population, 0 where nobody lives.
        ``"flows"``       census_town_flows_before.csv: origin, destination, flow between towns, of the census
        before; destinations are the three kinds of work elsewhere, too.
        ``"shapes"``      census_zones.geojson: GEOID and shape of each zone.

    Raises
    ------
    ValueError
        If there is nobody.

    Notes
    -----
    The flows of the census before are drawn from what the persons are drawn from, changed by lognormal
    factors of pairs of towns, and not from the persons. No seed changes where nobody lives, Z00039 (a port),
    Z00056 (a lake) and Z00089 (an industrial estate), and where nobody works, the lake, Z00070 and Z00083
    (forests). Nobody but who works at home has the mode "none".
    """
    if persons < 1:
        raise ValueError("a census must have at least one person")
    folder = path_of(folder, "folder")
    rng = np.random.default_rng(seed)
    island = _draw_island(rng, persons)
    rate = _draw_rates(rng, island)
    # From a generator of its own: what is public does not depend on how many draws the persons took.
    before = _flows_before(np.random.default_rng([seed, 1]), island, persons * _BEFORE * rate)
    census = _draw_persons(rng, island, rate, persons)
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "zones": "census_zones.csv",
        "persons": "census_persons.csv.gz",
        "population": "census_population.csv",
        "flows": "census_town_flows_before.csv",
        "shapes": "census_zones.geojson",
    }
    paths = {kind: folder / name for kind, name in names.items()}
    codes = island.zones["zone"]
    write_csv(island.zones, paths["zones"])
    write_csv(census, paths["persons"])
    write_csv(pd.DataFrame({"zone": codes, "population": island.population}), paths["population"])
    write_csv(before, paths["flows"])
    write_shapes(island.x, island.y, np.arange(_ZONES), codes, paths["shapes"], beach_km=_BEACH_KM)
    return paths


def _draw_island(rng: np.random.Generator, persons: int) -> _Island:
    region = draw_region(rng, counties=len(_TOWNS), tracts=_ZONES, blocks=_ZONES, jobs=1)
    town = pd.factorize(region.crosswalk["cty"])[0].astype(np.int64)
    in_town = np.arange(_ZONES) - np.searchsorted(town, town)
    last = np.append(np.diff(town) > 0, True)
    zones, inhabited, working = [], np.ones(_ZONES, np.bool_), np.ones(_ZONES, np.bool_)
    for zone, of in enumerate(town.tolist()):
        name = f"{_TOWNS[of]} {in_town[zone] + 1}"
        if last[zone] and _TOWNS[of] in _SPECIAL:
            what, inhabited[zone], working[zone] = _SPECIAL[_TOWNS[of]]
            name = f"{_TOWNS[of]} {what}"
        zones.append((f"Z{zone + 1:05}", name, f"T{of + 1:02}", _TOWNS[of]))
    table = pd.DataFrame(zones, columns=["zone", "zonename", "town", "townname"])
    degrees = to_degrees(np.column_stack([region.x, region.y])).round(6)
    table = table.assign(latitude=degrees[:, 1], longitude=degrees[:, 0])
    urban = np.exp(-np.hypot(region.x, region.y) / 7.0)
    weight = rng.lognormal(0, 0.4, _ZONES) * (0.6 + urban + 0.5 * (in_town == 0)) * inhabited
    weight[~working] *= 0.1  # hamlets in a forest
    population = np.rint(persons * _PEOPLE_PER_PERSON * weight / weight.sum()).astype(np.int64)
    population[inhabited] = np.maximum(population[inhabited], 1)
    return _Island(table, town, region.x, region.y, population, inhabited, working, urban)


def _km(island: _Island) -> Floats:
    """Return the kilometres between zones; inside one they are about half a mile."""
    km = np.hypot(island.x[:, None] - island.x, island.y[:, None] - island.y)
    np.fill_diagonal(km, 0.9)
    return np.asarray(km)


def _draw_rates(rng: np.random.Generator, island: _Island) -> Floats:
    """Draw the shares of all persons by home zone and workplace: zones, then the kinds of work elsewhere."""
    live, work = np.flatnonzero(island.inhabited), np.flatnonzero(island.working)
    residents = island.population[live] * rng.lognormal(0, 0.1, live.size)
    # In the centre of the city, of each town, and where nobody lives, there is more work than elsewhere.
    centre = np.append(True, np.diff(island.town) > 0)
    jobs = rng.lognormal(0, 0.5, _ZONES) * (0.5 + 2 * island.urban + 1.5 * centre + 1.5 * ~island.inhabited)
    pull = np.exp(rng.normal(0, _PAIR_SIGMA, (_ZONES, _ZONES))) / (_km(island) + 2.0) ** 2.2
    rate = np.zeros((_ZONES, _ZONES + len(_ELSEWHERE)))
    rate[np.ix_(live, work)] = balanced(pull[np.ix_(work, live)], jobs[work], residents).T
    elsewhere = rng.lognormal(0, 0.25, (live.size, len(_ELSEWHERE)))
    elsewhere[:, -1] *= np.exp((island.x[live] - _BORDER_KM) / 8.0)
    residents = rate[live].sum(axis=1)
    elsewhere *= _SHARES_ELSEWHERE * residents.sum() / (residents @ elsewhere)
    rate[live, :_ZONES] *= 1 - elsewhere.sum(axis=1, keepdims=True)
    rate[live, _ZONES:] = residents[:, None] * elsewhere
    return rate / rate.sum()


def _flows_before(rng: np.random.Generator, island: _Island, expected: Floats) -> pd.DataFrame:
    """Draw the flows of the census before between towns, of which so many persons are expected now."""
    towns = island.zones["town"].unique().tolist()
    places = [*towns, *_ELSEWHERE]
    place = np.append(island.town, len(towns) + np.arange(len(_ELSEWHERE)))
    usual = np.zeros((len(towns), len(places)))
    np.add.at(usual, (island.town[:, None], place), expected)
    flow = rng.poisson(usual * rng.lognormal(0, _CHANGE_SIGMA, usual.shape))
    origin, destination = np.nonzero(flow)
    return pd.DataFrame(
        {
            "origin": np.array(towns, object)[origin],
            "destination": np.array(places, object)[destination],
            "flow": flow[origin, destination],
        }
    )


def _draw_persons(rng: np.random.Generator, island: _Island, rate: Floats, persons: int) -> pd.DataFrame:
    places = rate.shape[1]
    pair = np.repeat(np.arange(rate.size), rng.multinomial(persons, rate.ravel()))
    mode = draw_rows(rng, np.cumsum(_modes(island), axis=1), pair)
    # What a workplace needs, and who lives where: both differ between zones.
    needed = np.vstack([rng.dirichlet(12 * _MIX, _ZONES) + 1e-4, _MIX * _MIX_ELSEWHERE])
    needed[:_ZONES, 1] *= 1 + 0.6 * island.urban
    residents = rng.lognormal(0, 0.25, (_ZONES, len(_OCCUPATIONS)))
    mix = (residents[:, None] * needed).reshape(rate.size, -1)
    occupation = draw_rows(rng, np.cumsum(mix, axis=1), pair)
    codes = np.array([*island.zones["zone"], *_ELSEWHERE], object)
    return pd.DataFrame(
        {
            "home": codes[pair // places],
            "work": codes[pair % places],
            "mode": np.array(_MODES, object)[mode],
            "occupation": np.array(_OCCUPATIONS, object)[occupation],
        }
    )


def _modes(island: _Island) -> Floats:
    """Return weights of modes for each pair of a home and a workplace: far by car, to the centre by train."""
    abroad = _BORDER_KM + 10.0 - island.x
    km = np.column_stack([_km(island), np.zeros((_ZONES, 2)), abroad])
    urban = np.append(island.urban, [0.0, 0.0, 0.3])
    train = (0.15 + 2.5 * urban) * km / (km + 4.0)
    weights = np.stack(
        [np.ones_like(km), train, 0.8 * np.exp(-km / 4.0), 4.0 * np.exp(-km / 1.0), 0 * km], axis=-1
    )
    weights[:, _ZONES + _ELSEWHERE.index(_AT_HOME)] = [0, 0, 0, 0, 1]
    weights[:, _ZONES + _ELSEWHERE.index(_NO_PLACE)] = [0.85, 0.08, 0.05, 0.02, 0]
    return np.asarray(weights.reshape(-1, len(_MODES)))
