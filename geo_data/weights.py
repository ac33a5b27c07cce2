"""Public weights per block, by which a synthetic worker of a cell gets a home block inside it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from geo_data.arguments import check_type
from geo_data.auxiliary import locate_units
from geo_data.distance import unit_vectors
from geo_data.errors import InputError, refuse_any, refuse_repeated
from geo_data.geography import Geography, check_table
from geo_data.tables import read_table

# Weights are integers, so that a draw by them is exact: millionths of a person or a housing unit.
_SCALE = 1_000_000
# Keeps the sum of all weights inside int64 with room to spare.
_LARGEST_TOTAL = 10**12
_LARGEST_EXTERNAL = 10**16
# How the weight of external zones falls with distance; chosen where tables tell where the workers live.
_EXTERNAL_EXPONENT = 3


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Public integer weights of all blocks, at least 1 each, whose sum fits int64."""

    weights: npt.NDArray[np.int64]
    report: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<BlockWeights: {len(self.weights):,} blocks; {'; '.join(self.report) or 'all matched'}>"


def read_weights(
    path: str | os.PathLike[str],
    geography: Geography,
    *,
    level: str,
    area: str,
    weight: str,
    decimal_point: bool = False,
) -> BlockWeights:
    """Read a public weight per area, such as population or housing units, and spread it over its blocks.

    Parameters
    ----------
    path : str or path
        CSV, csv.gz or Parquet with one row per area; further columns are ignored.
    geography : Geography
    level : str
        The level of the areas, or the block level for a table of blocks.
    area : str
        Column of the areas' codes, text.
    weight : str
        Column of the weights, finite and not negative, adding up to at most 10^12.
    decimal_point : bool
        A point in a weight is a decimal mark, also where it may be one of thousands (1.000).

    Returns
    -------
    BlockWeights
        An area's weight spread evenly: each of its n blocks has ``max(1, round(10^6 weight / n))``,
        rounded half up in integers. Blocks of areas that the table does not have get the smallest weight, 1;
        those in which nobody can live get 0.
        An external zone whose population is known weighs what all blocks do together,
        times the ratio of populations, times (the blocks' spread / its distance)^3; any other weighs 1.

    Raises
    ------
    InputError
        A file fault; weights missing, negative or no number; an area twice; codes that lost their leading
        zeros; no area in the geography, or none with a weight above 0.
    ValueError
        If there is no such level.
    """
    check_table(path, geography)
    refuse_repeated(path, (area, weight))
    frame = read_table(path, {area: "code", weight: "decimal" if decimal_point else "number"})
    values = frame[weight].to_numpy(dtype=np.float64)
    fix = "correct the table: a weight is 0 or more"
    refuse_any(path, "weights are negative", frame[weight] < 0, column=weight, fix=fix)
    if values.sum() > _LARGEST_TOTAL:
        raise InputError(
            path,
            f"the weights add up to more than {_LARGEST_TOTAL:,}",
            column=weight,
            fix="divide all weights by the same number",
        )
    refuse_any(
        path,
        "rows repeat an area of an earlier row",
        frame[area].duplicated(),
        column=area,
        fix="keep one row per area; the table may hold several years or groups",
    )
    units = locate_units(geography, level, frame[area], path=path, column=area)
    inside = units >= 0
    if not inside.any():
        raise InputError(
            path,
            f"no row has a {level} of the geography",
            column=area,
            fix="name the level of this table, or use the table of your region and vintage",
        )
    if not values[inside].any():
        rule = "all weights in the geography are 0, so the table says nothing"
        fix = "name the column of the weights, or leave the table out"
        raise InputError(path, rule, column=weight, fix=fix)
    n_units = geography.n_units(level)
    per_unit = np.zeros(n_units, dtype=np.int64)
    # 10^6 times a count is exact in float64 up to 9 billion, so only true fractions are rounded here.
    per_unit[units[inside]] = np.rint(values[inside] * _SCALE).astype(np.int64)
    per_unit[geography.unit_of(level, geography.external_blocks)] = 0  # one block: nothing to share
    starts = geography.starts(level).astype(np.int64)
    blocks = np.r_[starts[1:], geography.n_blocks] - starts
    # floor((2w + n) / 2n) is w / n rounded half up.
    share = np.maximum(1, (2 * per_unit + blocks) // (2 * blocks))
    source = os.fspath(path)
    report = []
    if without := n_units - int(inside.sum()) - len(geography.external_zones):
        report.append(f"{source}: {without:,} of {n_units:,} {level} units have no weight: smallest used")
    if outside := int((~inside).sum()):
        report.append(f"{source}: {outside:,} of {len(frame):,} rows are outside the geography: ignored")
    return BlockWeights(_with_external(np.repeat(share, blocks), geography), tuple(report))


def uniform_weights(geography: Geography) -> BlockWeights:
    """Return weight 1 for every block; external zones weigh as `read_weights` says."""
    check_type(geography, Geography, "geography", "read_crosswalk")
    return BlockWeights(_with_external(np.ones(geography.n_blocks, dtype=np.int64), geography))


def _with_external(weights: npt.NDArray[np.int64], geography: Geography) -> npt.NDArray[np.int64]:
    """Weigh the external zones, as `read_weights` says; all blocks together weigh what they did."""
    outside, facts = geography.external_blocks, geography.external_facts
    if not outside.size:
        return weights * ~geography.nobody_lives
    weights[outside] = 0
    total = weights.sum()
    # The mean of points on a sphere lies inside it, by half their mean square distance from the centre.
    points = np.nan_to_num(unit_vectors(geography.latitude, geography.longitude))
    mean = weights.astype(np.float64) @ points / total
    length = np.linalg.norm(mean)
    spread = np.sqrt(2.0 - 2.0 * length)
    distance = np.linalg.norm(unit_vectors(facts.latitude, facts.longitude) - mean / length, axis=1)
    near = np.minimum(spread / distance, 1.0) ** _EXTERNAL_EXPONENT
    weighed = np.clip(np.rint(total * facts.population * near), 1, _LARGEST_EXTERNAL)
    weights[outside] = np.nan_to_num(weighed, nan=1).astype(np.int64)
    return weights * ~geography.nobody_lives
