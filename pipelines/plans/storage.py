"""The plan of a release on disk: five Parquet files and one JSON file (docs/plan-format.md).

`plan.json` holds the SHA-256 of the Parquet files, so the hash of `plan.json` is the hash of the plan.
The same plan gives the same bytes, and loading and storing again does too (with the same Parquet writer).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import synth
from geo_data.arguments import PathLike, check_type, path_of
from geo_data.code_index import in_one_dictionary
from geo_data.geography import Geography, ordered_geography
from geo_data.jobs import Slots
from geo_data.pools import Pooling, PoolTable
from pipelines.config.fields import MOST
from pipelines.plans.form import (
    HISTORY_TABLE,
    PLAN_FORMAT,
    check_tables,
    document_text,
    plan_tables,
    quoted_config,
    read_document,
)
from pipelines.plans.history import History
from pipelines.plans.measured import TableChoice, group_jobs
from pipelines.plans.plan import Choices, ReleasePlan, policy_of
from pipelines.plans.workplaces import measured_workplaces
from pipelines.storage.checksums import sha256_of
from pipelines.storage.parquet_bytes import check_parquet_bytes
from pipelines.storage.parquet_form import read_rows
from synth.block_sampling import OriginShares
from synth.geometric.measured import MeasuredTable
from synth.geometric.parameters import GeometricParameters


def save_plan(plan: ReleasePlan, folder: PathLike) -> str:
    """Write a plan to a folder and return its hash.

    Parameters
    ----------
    plan : ReleasePlan
    folder : str or path
        Made here; must not exist.

    Returns
    -------
    str
        SHA-256 of plan.json, hexadecimal.
    """
    check_type(plan, ReleasePlan, "plan", "make_plan")
    folder = path_of(folder, "folder")
    folder.mkdir()
    names = plan_tables(plan.config)
    for name, table in zip(names, _tables(plan), strict=True):
        _write(table, folder / name)
    files = {name: sha256_of(folder / name) for name in names}
    content = document_text(_document(plan, files)).encode()
    (folder / "plan.json").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def check_plan_bytes(plan: ReleasePlan, folder: Path, files: dict[str, str]) -> list[str]:
    """Refuse a stored plan that is not, byte for byte, what `save_plan` writes of it.

    Gives the tables that another version of pyarrow wrote, which are not compared (`check_parquet_bytes`).
    """
    names = plan_tables(plan.config)
    document = _document(plan, {name: files[name] for name in names})
    if (folder / "plan.json").read_bytes() != document_text(document).encode():
        raise ValueError("plan.json: the bytes are not those that this program writes of it")
    tables = zip(names, _tables(plan), strict=True)
    return [name for name, table in tables if not check_parquet_bytes(folder / name, partial(_write, table))]


def _write(table: pa.Table, target: Any) -> None:
    # Cuts rise slowly: stored as differences they take a sixth of the room.
    packed = "cuts" in table.column_names
    pq.write_table(
        table,
        target,
        compression="zstd",
        use_dictionary=["destination", "stratum.list.element"] if packed else True,
        column_encoding={"cuts.list.element": "DELTA_BINARY_PACKED"} if packed else None,
    )


def _document(plan: ReleasePlan, files: dict[str, str]) -> dict[str, Any]:
    """Return what plan.json holds; `files` are the hashes of the tables."""
    numeric, pools = plan.numeric, plan.pools
    return {
        "format": PLAN_FORMAT,
        "mechanism": numeric.mechanism,
        "epsilon": str(numeric.target.epsilon),
        "delta": str(numeric.target.delta),
        "guarantee": numeric.target.guarantee,
        "geography": {
            "block": plan.geography.block_level,
            "levels": list(plan.geography.levels),
            "external_zones": list(plan.geography.external_homes),
        },
        "model_level": plan.level,
        "pooling": {
            "level": plan.pools.pooling.level,
            "below": plan.pools.pooling.below,
            "by": list(plan.pools.pooling.by),
        },
        "choices": {
            "thresholds": [repr(threshold) for threshold in plan.choices.thresholds],
            "cell_level": plan.choices.cell_level,
            "tables": [table.to_json() for table in plan.choices.tables],
            "workplaces": [
                {**table.to_json(), **measured.parameters.to_json()}
                for table, measured in zip(plan.choices.workplaces, numeric.workplaces, strict=True)
            ],
        },
        "attributes": {name: list(values) for name, values in pools.slots.categories.items()},
        "parameters": numeric.parameters.to_json(),
        "configuration": plan.config.quoted(),
        "notes": list(plan.notes),
        "history": [list(release) for release in plan.history.releases] if plan.history else [],
        "files": files,
    }


def load_plan(
    folder: PathLike, document: dict[str, Any] | None = None, hashes: Mapping[str, str] | None = None
) -> ReleasePlan:
    """Read a plan back.

    Parameters
    ----------
    folder : str or path
        With what `save_plan` wrote.
    document : dict, optional
        Its plan.json, if that has been read (`read_document`).
    hashes : mapping of str to str, optional
        SHA-256 of its files by name, where they have been computed already.

    Returns
    -------
    ReleasePlan

    Raises
    ------
    ValueError
        If a file is missing, altered, or not of this format; the file is named.

    Examples
    --------
    >>> import pipelines
    >>> plan = pipelines.load_plan("out/demo/public/plan")
    >>> plan.attributes, plan.mechanism.name
    ((), 'dirichlet')
    """
    folder = path_of(folder, "folder")
    document = document or read_document(folder)
    check_tables(folder, document, hashes)
    geography = load_geography(folder, document)
    # Columns by kind, in numpy: the files are ours and their hashes have been checked.
    weights = read_rows(folder / "blocks.parquet", ["weight"])["weight"].to_numpy()
    small = weights.dtype == np.int64 and float(weights.sum(dtype=np.float64)) < 2**62
    if not small or not geography.are_weights(weights):
        rule = "whole numbers of at least 1, or 0 where nobody can live, of a sum below 2^62"
        raise ValueError(f"blocks.parquet: weights are not {rule}")
    config, level = quoted_config(document), document["model_level"]
    policy = policy_of(config, geography)
    domains, unit, size = _load_domains(folder / "domains.parquet", geography, level, policy)
    pools, rest = _load_pools(folder, document, geography, domains)
    shares = _load_shares(folder / "shares.parquet", geography, level, unit, pools)
    if not np.array_equal(rest["m"], pools.n * config.implicates.of_run):
        raise ValueError("pools.parquet: m is not n: a slot has one synthetic worker in every implicate")
    mechanism = synth.MECHANISMS[document["mechanism"]]
    tables = tuple(map(TableChoice.from_json, document["choices"]["tables"]))
    secondary = group_jobs(tables, pools.slots, geography, policy)
    of_work, numbers = _load_workplaces(document["choices"]["workplaces"])
    workplaces = measured_workplaces(of_work, pools.slots, geography)
    numeric = synth.Plan(
        document["mechanism"],
        synth.Target(
            document["epsilon"],
            document["delta"],
            document["guarantee"],
            config.record_range,
            config.protected,
        ),
        synth.Pools(pools.n, rest["m"], rest["domain"]),
        domains,
        rest["class"],
        mechanism.parameters_from_json(document["parameters"]),
        tuple(groups.table for groups in secondary),
        tuple(
            MeasuredTable(one.table.n, one.table.domain, one.table.domains, parameters)
            for one, parameters in zip(workplaces, numbers, strict=True)
        ),
    )
    thresholds = tuple(float(text) for text in document["choices"]["thresholds"])
    cell_level = document["choices"]["cell_level"]
    _check_cells(domains, geography, cell_level)
    plan = ReleasePlan(
        config=config,
        geography=geography,
        weights=weights,
        shares=shares,
        pools=pools,
        level=document["model_level"],
        domain_unit=unit,
        domain_size=size,
        numeric=numeric,
        choices=Choices(
            pools.pooling.level,
            pools.pooling.below,
            thresholds,
            pools.pooling.by,
            cell_level,
            tables,
            of_work,
            None if config.release.mechanism else document["mechanism"],
        ),
        notes=tuple(document["notes"]),
        secondary=secondary,
        workplaces=workplaces,
    )
    if config.has_history:
        rows = _read(folder / HISTORY_TABLE)
        history = History.from_table(document["history"], rows, mechanism.tables(numeric))
        if history.years_to(config.release.year) < 1:
            raise ValueError("plan.json: history names a release that is not of an earlier year")
        plan = replace(plan, history=history)
    # Written again it must say the same: nothing is in it that nobody reads, and is published.
    files = {name: document["files"][name] for name in plan_tables(config)}
    if json.loads(json.dumps(_document(plan, files))) != document or not all(
        isinstance(note, str) for note in plan.notes
    ):
        raise ValueError("plan.json: it does not hold exactly what a plan holds")
    return plan


def _load_workplaces(
    entries: list[dict[str, Any]],
) -> tuple[tuple[TableChoice, ...], tuple[GeometricParameters, ...]]:
    """Return the tables of workplaces and the numbers of their noise."""
    numbers = [{name: entry[name] for name in ("numerator", "denominator")} for entry in entries]
    keys = ("work", "by", "home", "share")
    choices = tuple(TableChoice.from_json({name: entry[name] for name in keys}) for entry in entries)
    return choices, tuple(map(GeometricParameters.from_json, numbers))


def load_geography(folder: Path, document: dict[str, Any]) -> Geography:
    """Read the geography of a stored plan, and nothing else of it."""
    names = document["geography"]
    settings = quoted_config(document).geography
    areas = settings.non_nesting_areas
    columns = [names["block"], *names["levels"], *areas, "latitude", "longitude"]
    table = read_rows(folder / "blocks.parquet", columns, names["levels"])
    try:
        return ordered_geography(
            names["block"],
            table[names["block"]],
            {level: table[level] for level in names["levels"]},
            table["latitude"].to_numpy(),
            table["longitude"].to_numpy(),
            {name: table[name] for name in areas},
            external_homes=tuple(names["external_zones"]),
            external_workplaces=settings.external_workplaces,
            uninhabited=settings.uninhabited,
            without_work=settings.without_work,
        )
    except ValueError as error:
        raise ValueError(f"blocks.parquet: {error}") from error


def _tables(plan: ReleasePlan) -> Iterator[pa.Table]:
    """Yield the tables of a plan one by one: those of a nation take gigabytes."""
    geography, numeric, pools = plan.geography, plan.numeric, plan.pools
    blocks = {geography.block_level: geography.block_codes}
    for level in geography.levels:
        blocks[level] = _text(geography.codes(level), geography.units_of_blocks(level))
    for name, part in geography.non_nesting_areas.items():
        blocks[name] = _text(part.codes, part.area)
    blocks |= {
        "latitude": pa.array(geography.latitude),
        "longitude": pa.array(geography.longitude),
        "weight": pa.array(plan.weights),
    }
    yield pa.table(blocks)
    offsets = pa.array(numeric.domains.offsets)
    yield pa.table(
        {
            "destination": _text(geography.codes(plan.level), plan.domain_unit),
            "size": pa.array(plan.domain_size),
            "cuts": pa.LargeListArray.from_arrays(offsets, pa.array(numeric.domains.cuts)),
            "stratum": pa.LargeListArray.from_arrays(offsets, pa.array(numeric.domains.stratum)),
        }
    )
    starts = pa.array(plan.shares.offsets)
    yield pa.table(
        {
            "destination": _text(geography.codes(plan.level), plan.destinations),
            "unit": pa.LargeListArray.from_arrays(starts, pa.array(plan.shares.unit)),
            "share": pa.LargeListArray.from_arrays(starts, pa.array(plan.shares.share)),
        }
    )
    categories = pools.slots.categories
    yield pa.table(
        {
            "place": _block_codes(geography, pools.block),
            "shared": pa.array(pools.shared),
            **{name: _text(categories[name], codes) for name, codes in pools.strata.items()},
            "n": pa.array(pools.n),
            "m": pa.array(numeric.pools.m),
            "domain": pa.array(numeric.pools.domain),
            "class": pa.array(numeric.pool_class),
        }
    )
    alike, times = pools.slots.counted()  # of one pool each, as slots of two pools differ
    pool = np.searchsorted(np.cumsum(pools.n), np.cumsum(times)).astype(np.int32)
    yield pa.table(
        {
            "pool": pa.array(pool),
            "work": _block_codes(geography, alike.work),
            **{name: _text(categories[name], codes) for name, codes in alike.attributes.items()},
            "count": pa.array(times),
        }
    )
    if plan.config.has_history:
        if plan.history is None:
            raise ValueError("a plan whose configuration has a [history] is stored with it (`plan`, `run`)")
        yield plan.history.to_table(plan.mechanism.tables(numeric))


def _text(codes: Any, positions: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(positions, pa.int32()), pa.array(list(codes), pa.string()))


def _block_codes(geography: Geography, blocks: np.ndarray[Any, Any]) -> pa.ChunkedArray:
    """Return block codes as plain text: a dictionary would hold every block, once for each row group."""
    pieces = np.array_split(blocks, blocks.size // 10_000_000 + 1)  # as an array of text holds 2 GB at most
    return pa.chunked_array([geography.block_codes.take(pa.array(piece)) for piece in pieces])


def _load_shares(
    path: Path, geography: Geography, level: str, domain_unit: np.ndarray[Any, Any], pools: PoolTable
) -> OriginShares:
    table = _read(path).combine_chunks()
    unit, share = (_chunk(table[name]) for name in ("unit", "share"))
    row, units = np.full(geography.n_units(level), -1, np.int32), _units(path, geography, level, table)
    row[units] = np.arange(len(table))
    if not np.array_equal(units, np.unique(geography.unit_of(level, pools.block))):
        raise ValueError(f"{path.name}: the destinations are not those of the pools, in their order")
    return OriginShares(
        geography.starts(level).astype(np.int64),
        unit.offsets.to_numpy().astype(np.int64),
        unit.values.to_numpy(),
        share.values.to_numpy(),
        row[domain_unit],
    )


def _load_domains(
    path: Path, geography: Geography, level: str, policy: synth.Policy
) -> tuple[synth.Domains, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    table = _read(path).combine_chunks()
    cuts, stratum = (_chunk(table[name]) for name in ("cuts", "stratum"))
    domains = synth.Domains(
        geography.n_blocks,
        cuts.offsets.to_numpy().astype(np.int64),
        cuts.values.to_numpy(),
        stratum.values.to_numpy(),
        policy,
    )
    size = table["size"].to_numpy()
    if size.min(initial=1) < 1:
        raise ValueError(f"{path.name}: sizes are below 1")
    return domains, _units(path, geography, level, table), size


def _check_cells(domains: synth.Domains, geography: Geography, level: object) -> None:
    """Refuse a plan whose cells are not the units that it says they are."""
    if level is None:
        return
    if level not in (*geography.levels, geography.block_level):
        raise ValueError("plan.json: the cells are of a level that the geography does not have")
    policy = domains.policy
    starts = geography.starts(str(level))
    units = [policy.within(starts, part) for part in range(policy.n_parts)]
    for cells, part in zip(np.split(domains.cuts, domains.offsets[1:-1]), domains.part.tolist(), strict=True):
        if not np.array_equal(cells, units[part]):
            raise ValueError(f"domains.parquet: the cells are not the units of {level}")


def _read(path: Path) -> pa.Table:
    """Read a table, none of whose cells is empty: numpy would make floats of them."""
    table = read_rows(path)
    if any(column.null_count for column in table.columns):
        raise ValueError(f"{path.name}: there are empty cells")
    return table


def _units(path: Path, geography: Geography, level: str, table: pa.Table) -> Any:
    """Return the unit number of each destination of a table; a number of -1 would stand for the last unit."""
    numbers = geography.unit_number(level, table["destination"].to_pandas())
    if len(numbers) and numbers.min() < 0:
        raise ValueError(f"{path.name}: {(numbers < 0).sum():,} destinations are not units of {level}")
    return numbers


def _chunk(column: pa.ChunkedArray) -> Any:
    return column.chunk(0)


def _load_pools(
    folder: Path, document: dict[str, Any], geography: Geography, domains: synth.Domains
) -> tuple[PoolTable, dict[str, np.ndarray[Any, Any]]]:
    table = _read(folder / "pools.parquet")
    slots = _read(folder / "slots.parquet")
    categories = {name: tuple(values) for name, values in document["attributes"].items()}
    count = slots["count"].to_numpy()
    if not (count > 0).all() or count.astype(float).sum() > MOST:
        raise ValueError(f"slots.parquet: counts below 1, or of more than {MOST:,} jobs together")
    place = 2 * _numbers(geography, table["place"]).astype(np.int64) + table["shared"].to_numpy()
    block = _numbers(geography, slots["work"])
    work = np.repeat(block, count)
    n = table["n"].to_numpy()
    stated = document["pooling"]
    pooling = Pooling(stated["level"], stated["below"], tuple(stated["by"]))
    attributes = {name: np.repeat(_codes(slots, name, categories), count) for name in categories}
    row = slots["pool"].to_numpy()
    if min(block.min(), place.min(), row.min()) < 0 or not np.array_equal(np.bincount(row, count, n.size), n):
        raise ValueError("pools.parquet: work blocks or slot counts do not match the rest of the plan")
    _check_fit(geography, pooling, place[row], row, block, count)
    strata = {name: _codes(table, name, categories) for name in pooling.by}
    key = place
    for name, codes in strata.items():
        if not np.array_equal(codes[row], _codes(slots, name, categories)):
            raise ValueError(f"pools.parquet: slots are in a pool of another {name}")
        key = key * len(categories[name]) + codes
    domain = table["domain"].to_numpy()
    if domain.min() < 0 or domain.max() >= domains.n_domains:
        raise ValueError("pools.parquet: a pool names a domain that the plan does not have")
    part = domains.part[domain]
    home_part = np.repeat(part, n) if domains.policy.n_parts > 1 else part[:1]
    if np.any(np.diff(key * domains.policy.n_parts + part) <= 0):
        raise ValueError("pools.parquet: pools are not in order, or a pool is repeated")
    pools = PoolTable(
        pooling=pooling,
        place=place,
        strata=strata,
        n=n,
        slots=Slots(work, attributes, categories, home_part),
        policy=domains.policy,
    )
    return pools, {name: table[name].to_numpy() for name in ("m", "domain", "class")}


def _check_fit(
    geography: Geography,
    pooling: Pooling,
    place: np.ndarray[Any, Any],
    pool: np.ndarray[Any, Any],
    block: np.ndarray[Any, Any],
    count: np.ndarray[Any, Any],
) -> None:
    """Refuse slots in another pool than records of their block are: pools must hold disjoint records."""
    jobs = np.bincount(block, count, geography.n_blocks).astype(np.int64)
    if not np.array_equal(pooling.place(geography, jobs, block), place):
        raise ValueError("pools.parquet: a work block's slots are in a pool of another place")
    if np.any(np.diff(pool.astype(np.int64) * geography.n_blocks + block) < 0):
        raise ValueError("slots.parquet: slots are not in the order of pools and work blocks")


def _numbers(geography: Geography, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return the block numbers of codes, as text or a dictionary of it; -1 where there is no such block."""
    return geography.number(column.cast(pa.string()))


def _codes(table: pa.Table, name: str, categories: dict[str, tuple[str, ...]]) -> np.ndarray[Any, Any]:
    """Return the numbers of the categories of an attribute in a table of slots or pools."""
    try:
        position = {value: i for i, value in enumerate(categories[name])}
        encoded = in_one_dictionary(table[name]).combine_chunks()
        translate = np.array([position[value] for value in encoded.dictionary.to_pylist()])
    except KeyError as error:
        raise ValueError(f"plan.json: {name}, or a category of it, is not as in the tables") from error
    return translate[encoded.indices.to_numpy()].astype(np.uint8 if len(position) <= 256 else np.uint16)
