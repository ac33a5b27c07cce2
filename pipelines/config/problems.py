"""What is wrong with a configuration, in words: one line per problem, with the key and the fix."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import ErrorDetails

import synth
from geo_data.od_files import LODES_CATEGORIES
from geo_data.plain_texts import spellings
from pipelines.config.fields import one_of, shown
from pipelines.storage.stored_names import LONGEST_NAME, stored_name

_Table: TypeAlias = dict[str, Any]

_PATTERN_FIXES = {
    "state": 'use lower-case letters, digits and underscores only, such as "ri"',
    "job_type": 'use "JT00" (all jobs) to "JT05"',
}

# Names that are stored, in one Unicode form, with the most characters that each may have. The ledger puts the
# number of the run behind the name of the release.
STORED = {
    ("release", "name"): LONGEST_NAME - len(", run ") - 16,
    ("ledger", "data_set"): LONGEST_NAME,
    ("ledger", "period"): LONGEST_NAME,
}

# Columns that the files of a release have beside those named after attributes and levels. Capitals do not
# tell names apart: not in every program that reads these files, nor on every disk.
_OF_JOBS = ["place", "shared", "pool", "work", "count", "n", "m", "domain", "class", "w_geocode", "h_geocode"]
_OF_AREAS = ["latitude", "longitude", "weight", "geometry"]

_LEVEL_KEYS = ("origin_level", "destination_level", "level", "pool_level", "cell_level", "home", "work")

LISTS = {
    "auxiliary": "[[auxiliary]]",
    "polygons": "[[geography.polygons]]",
    "workload": "[[workload]]",
    "attribute": "[[attribute]]",
}
"""Lists of tables, as they are written."""


def describe(error: ErrorDetails, keys: Mapping[tuple[str, ...], Sequence[str]]) -> str:
    """Return one error of pydantic as one line: key, what is wrong, the fix.

    Parameters
    ----------
    error : ErrorDetails
        The error.
    keys : mapping of tuple of str to sequence of str
        The keys of every table, by the table's path, which ends with the format where there are several.
    """
    loc = error["loc"]
    formats = [table[1] for table in keys if len(table) == 2 and table[0] == loc[0] and table[:1] not in keys]
    # After the name of the table, or its number in a list of tables, pydantic names the format.
    at = 2 if len(loc) > 1 and isinstance(loc[1], int) else 1
    where = [*loc[:at], *loc[at + 1 :]] if formats else list(loc)
    if loc[:2] == ("privacy", "policy"):
        del where[2:3]
    key, value = _key(where), shown(error["input"])
    field = str(where[-1])
    match error["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key; {_suggestion(loc, keys)}"
        case "missing" if len(where) == 1:
            table = LISTS.get(field, f"[{field}]")
            return f"{key}: missing; add a table {table}"
        case "missing":
            return f"{key}: missing; add a line {field} = ..."
        case "union_tag_not_found":
            return f"{key}.format: missing; add a line format = {one_of(formats)}"
        case "union_tag_invalid":
            format_ = error["input"]["format"]
            return f"{key}.format: {shown(format_)} is not a format; use {one_of(formats)}"
        case "policy":
            return f"{key}: {value} is not a policy; {error['msg']}"
        case "value_error":
            return f"{key}: {error['ctx']['error']}"
        case "bool_type":
            return f"{key}: {value} is neither true nor false; write one of them, without quotes"
        case "string_type":
            return f"{key}: {value} is not text; write it in quotes"
        case "string_too_short":
            return f"{key}: the text is empty; write at least one character"
        case "string_pattern_mismatch":
            return f"{key}: {value} is not allowed; {_PATTERN_FIXES.get(field, 'write one line of text')}"
        case "literal_error":
            allowed = str(error["ctx"]["expected"]).replace("'", '"')
            return f"{key}: {value} is not known; use {allowed}"
        case "int_type" | "int_from_float":
            return f"{key}: {value} is not a whole number; write it without quotes and point"
        case "greater_than_equal":
            return f"{key}: {value} is too small; write a number of at least {error['ctx']['ge']}"
        case "less_than_equal":
            return f"{key}: {value} is too large; write a number of at most {error['ctx']['le']}"
        case "tuple_type" if field in LISTS:
            table = LISTS[field]
            return f"{key}: {value} is not a list of tables; write {table} above it, in double brackets"
        case "tuple_type":
            return f'{key}: {value} is not a list; write for example ["a", "b"], or [] for none'
        case "model_type" | "model_attributes_type" | "dict_type":
            if isinstance(where[-1], int):
                return f"{key}: {value} is not a table; write {LISTS[str(where[-2])]} above its keys"
            return f"{key}: {value} is not a table; write [{field}] above its keys, in single brackets"
        case _:  # nothing known gets here; a new version of pydantic may
            return f"{key}: {error['msg']}; see the examples"


def _key(where: Iterable[int | str]) -> str:
    """Return the path of a key; members of a list are counted from 1, as people do: ``auxiliary #1.flow``."""
    return "".join(f" #{part + 1}" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")


def _suggestion(loc: tuple[int | str, ...], keys: Mapping[tuple[str, ...], Sequence[str]]) -> str:
    """Return the key that was probably meant, else the table it belongs to, else the keys there are."""
    *parents, key = (part for part in loc if isinstance(part, str))
    known = keys[tuple(parents)]
    if close := difflib.get_close_matches(key.lower(), known, n=1):
        return f"did you mean {close[0]}?"
    for table, its_keys in sorted(keys.items(), key=lambda entry: entry[0][:1] != tuple(parents[:1])):
        if table and key in its_keys:
            if table[-1] in LISTS and len(table) == 2:
                return f"it belongs to {LISTS[table[-1]]}"
            name = LISTS.get(table[0], f"[{table[0]}]")
            return f"it belongs to {name}" + (f' with format = "{table[1]}"' if len(table) == 2 else "")
    return f"the keys here are {', '.join(known)}"


def problems_across(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems that concern more than one key, as far as the single keys can be understood.

    Parameters
    ----------
    data : mapping
        The tables as they were written, good or bad: one bad value must not hide these problems.

    Yields
    ------
    str
        One line: key, what is wrong, the fix.
    """
    geography, jobs, plan = (_table(data.get(name)) for name in ("geography", "jobs", "plan"))
    flows = _numbered("auxiliary", data.get("auxiliary"))
    shapes = _numbered("geography.polygons", geography.get("polygons"))
    weights = _table(data.get("weights"))
    workload = _numbered("workload", data.get("workload"))
    yield from _level_problems(geography, flows | {"weights": weights, "plan": plan} | shapes | workload)
    yield from _policy_problems(data, geography, jobs)
    yield from _workload_problems(jobs, workload)
    yield from _attribute_problems(jobs, geography, _numbered("attribute", data.get("attribute")))
    if "cell_level" in plan and plan.get("coarsening") != "units":
        fix = 'write coarsening = "units", or leave this line out'
        yield f"plan.cell_level: only cells that are units are of a level; {fix}"
    yield from _geography_problems(geography, shapes)
    yield from _name_problems(data, geography, jobs)
    yield from _job_problems(jobs, plan)
    yield from _workplace_problems(jobs, data.get("workplaces"))
    yield from _mechanism_problems(_table(data.get("release")), plan, data.get("workplaces"))
    yield from _ledger_problems(_table(data.get("ledger")))
    yield from _external_problems(geography, jobs, flows)
    if isinstance(geography.get("external_zones"), list):
        yield from _repeated("geography", geography, ["external_zones"])
    columns = {**geography, "names": [*_table(geography.get("names")).values()]}
    used = ["block", "levels", "non_nesting_areas", "latitude", "longitude", "names"]
    yield from _repeated("geography", columns, used)
    yield from _repeated("jobs", jobs, ["home", "work", "worker", "count", "attributes"])
    yield from _repeated("plan", plan, ["pool_by"])
    for where, table in flows.items():
        yield from _repeated(where, table, ["origin", "destination", "flow", "margin"])
    yield from _repeated("weights", weights, ["area", "weight"])


def _ledger_problems(ledger: _Table) -> Iterator[str]:
    totals = {"total_epsilon", "total_delta"}
    if given := totals & ledger.keys():
        for key in totals - given:
            yield f"ledger.{key}: missing beside {min(given)}; name both or neither"
        if "period" not in ledger:
            rule = "without period, epsilon and delta are the budget over all periods"
            yield f"ledger.{min(given)}: {rule}; leave it out, or name a period"


def _level_problems(geography: _Table, users: Mapping[str, _Table]) -> Iterator[str]:
    """Levels that a table names and the geography does not have."""
    levels, block = geography.get("levels"), geography.get("block")
    if not (isinstance(levels, list) and isinstance(block, str)):
        return
    known = [level for level in [*levels, block] if isinstance(level, str)]
    areas = _texts(geography.get("non_nesting_areas"))
    for where, table in users.items():
        named = [(key, table.get(key)) for key in _LEVEL_KEYS]
        for name, sides in _table(table.get("levels")).items():
            named += [(f"levels.{name}", level) for level in _listed(sides) if name.isalnum()]
        cuts = where.startswith(("auxiliary", "workload"))
        allowed = known + areas if cuts else known
        for key, level in named:
            if isinstance(level, str) and level not in allowed:
                yield (
                    f"{where}.{key}: {shown(level)} is not a level of the geography; "
                    f"use {one_of(allowed)}, or add it to geography.levels"
                    + (" or geography.non_nesting_areas" if cuts else "")
                )


def _policy_problems(data: Mapping[str, Any], geography: _Table, jobs: _Table) -> Iterator[str]:
    """Parts of homes that are no level, or that nothing public tells; what goes with no secret attributes."""
    policy = _table(_table(data.get("privacy")).get("policy"))
    yield from _secret_problems(data, _table(policy.get("attribute")), jobs)
    if "distance_km" in policy and data.get("workplaces") is not None:
        yield (
            "privacy.policy: under a distance, numbers of records that are protected too, as with a public "
            'table of workplaces, have no proof; write policy = "full", or leave [workplaces] out'
        )
    level, levels, block = policy.get("partition"), geography.get("levels"), geography.get("block")
    if not isinstance(level, str) or not isinstance(levels, list):
        return
    allowed = [name for name in levels if isinstance(name, str)]
    where = f"privacy.policy.partition: {shown(level)}"
    if level == block:
        yield f"{where} is the block: every home would be public, nothing protected; use {one_of(allowed)}"
    elif level in _listed(geography.get("non_nesting_areas")):
        yield (
            f"{where} are areas that cut units of levels, and parts of homes are whole units; if each of "
            f"them is, name the column in geography.levels, or use {one_of(allowed)}"
        )
    elif level not in allowed:
        yield (
            f"{where} is not a level of the geography; use {one_of(allowed)}, or add the column to "
            "geography.levels"
        )
    if data.get("workplaces") is not None:
        yield (
            "privacy.policy: a public table of workplaces does not tell in which part homes are; write "
            'policy = "full", or leave [workplaces] out'
        )


def _secret_problems(data: Mapping[str, Any], secret: _Table, jobs: _Table) -> Iterator[str]:
    if not secret:
        return
    where, full = "privacy.policy.attribute", 'or write policy = "full"'
    if jobs.get("format") == "lodes":
        yield (
            f"{where}: an origin-destination file counts each attribute by itself, and a home with its "
            f"category needs jobs one by one; use job-level microdata, {full}"
        )
        return
    if data.get("workplaces") is not None:
        yield (
            f"{where}: numbers of records that are protected too, as with a public table of workplaces, have "
            f"no proof under it; leave [workplaces] out, {full}"
        )
    attributes = _texts(jobs.get("attributes"))
    for name, categories in secret.items():
        if name not in attributes:
            yield f"{where}: {shown(name)} is not an attribute of the jobs; add it to jobs.attributes"
        texts = pa.array(_texts(categories), pa.large_string())
        if pc.count_distinct(spellings(texts)).as_py() < pc.count_distinct(texts).as_py():
            yield f"{where}.{name}: two categories are spellings of one; write each once"
        if name in _listed(_table(data.get("plan")).get("pool_by")):
            yield (
                f"plan.pool_by: {shown(name)} is secret by privacy.policy, and pools are public; leave it "
                "out: every table is measured by it anyway"
            )


def _geography_problems(geography: _Table, shapes: Mapping[str, _Table]) -> Iterator[str]:
    drawn = Counter(shown(table["level"]) for table in shapes.values() if "level" in table)
    for level, times in drawn.items():
        if times > 1:
            yield f"geography.polygons: {level} has {times} tables; name one file for a level"
    if ("latitude" in geography) != ("longitude" in geography):
        given, other = ("latitude", "longitude") if "latitude" in geography else ("longitude", "latitude")
        yield f"geography.{other}: missing beside {given}; name both, or none where the file has polygons"
    levels, groupings = geography.get("levels"), _table(geography.get("groupings"))
    for name in groupings:
        if isinstance(levels, list) and name not in levels:
            yield f"geography.groupings: {shown(name)} is not in geography.levels; add it where it belongs"
    named_with_shapes = [table.get("level") for table in shapes.values() if "name" in table]
    for level in _table(geography.get("names")):
        areas = _listed(geography.get("non_nesting_areas"))
        if isinstance(levels, list) and level not in [*levels, *areas, geography.get("block")]:
            fix = "name its levels and non-nesting areas only"
            yield f"geography.names: {shown(level)} is not a level of the geography; {fix}"
        if level in groupings:
            yield f"geography.names: {shown(level)} is a grouping, whose units have no names; leave it out"
        if level in named_with_shapes:
            yield f"geography.names: {shown(level)} has names in geography.polygons too; leave out one"


def _name_problems(data: Mapping[str, Any], geography: _Table, jobs: _Table) -> Iterator[str]:
    """Names that cannot be stored, or not beside the others."""
    for (table, key), longest in STORED.items():
        name = _table(data.get(table)).get(key)
        if isinstance(name, str) and re.fullmatch(r"(?=.*\S)[^\x00-\x1f\x7f]+", name):  # others are told of
            try:
                stored_name(name, longest)
            except ValueError as error:
                yield f"{table}.{key}: {shown(name)} cannot be stored; {error}"
    attributes = _listed(jobs.get("attributes", []))
    of_areas = [("geography.levels", name) for name in _listed(geography.get("levels", []))]
    of_areas.append(("geography.block", geography.get("block")))
    areas = _listed(geography.get("non_nesting_areas", []))
    of_areas += [("geography.non_nesting_areas", name) for name in areas]
    for names, taken in (
        ([("jobs.attributes", name) for name in attributes], _OF_JOBS),
        (of_areas, _OF_AREAS),
    ):
        seen: dict[str, str] = {}
        for key, name in names:
            if not isinstance(name, str):
                continue
            if (folded := name.casefold()) in taken:
                yield (
                    f"{key}: {shown(name)} is the name of a column that the release has already; rename "
                    "the column, in the file and here"
                )
            elif seen.setdefault(folded, name) != name:
                yield f"{key}: {shown(seen[folded])} and {shown(name)} differ in capitals only; rename one"


def _job_problems(jobs: _Table, plan: _Table) -> Iterator[str]:
    if jobs.get("format") != "microdata":
        return
    if "worker" in jobs and "count" in jobs:
        yield "jobs.count: rows that count several jobs cannot name one worker; leave out one of the two"
    attributes, pool_by = jobs.get("attributes", []), plan.get("pool_by")
    if isinstance(attributes, list) and isinstance(pool_by, list):
        for name in pool_by:
            if isinstance(name, str) and name not in attributes:
                yield f"plan.pool_by: {shown(name)} is not in jobs.attributes; add it there"


def _workload_problems(jobs: _Table, tables: Mapping[str, _Table]) -> Iterator[str]:
    """Attributes that the jobs do not have, tables that come twice, and weights that weigh nothing."""
    lodes = jobs.get("format") == "lodes"
    known = [*LODES_CATEGORIES] if lodes else _texts(jobs.get("attributes"))
    seen: dict[tuple[object, ...], str] = {}
    for where, table in tables.items():
        named = _texts(table.get("attributes"))
        yield from _repeated(where, table, ["attributes"])
        if lodes and len(set(named)) > 1:
            rule = "LODES counts each attribute by itself; name one attribute, and make a table for each"
            yield f"{where}.attributes: {rule}"
        for name in named if jobs.get("format") in ("lodes", "microdata") else ():
            if name not in known:
                fix = f"use {one_of(known)}" if lodes else "add it to jobs.attributes"
                yield f"{where}.attributes: {shown(name)} is not an attribute of the jobs; {fix}"
        sides = [side if isinstance(side := table.get(key), str) else None for key in ("home", "work")]
        if (first := seen.setdefault((*sides, *sorted(named)), where)) != where and sides[0]:
            yield f"{where}: the same table as {first}; leave one out"
    weights = [table.get("weight", "1") for table in tables.values()]
    if weights and all(isinstance(w, str) and _is_zero(w) for w in weights):
        yield 'workload: all weights are 0; write weight = "1" in a table that the release is for'


def _attribute_problems(jobs: _Table, geography: _Table, tables: Mapping[str, _Table]) -> Iterator[str]:
    """Meanings of attributes that the jobs do not have, or have already."""
    seen: dict[str, str] = {}
    kinds = [*_listed(geography.get("levels")), *_listed(geography.get("non_nesting_areas"))]
    areas = {geography.get("block"), *kinds}
    for where, table in tables.items():
        name = table.get("name")
        if not isinstance(name, str):
            continue
        if name in areas:
            for key in ("unit", "labels"):
                if table.get(key):
                    yield f"{where}.{key}: {shown(name)} is a kind of area, with a meaning only; leave it out"
        elif jobs.get("format") == "lodes":
            yield f"{where}: attributes of LODES jobs have their meanings already; leave this table out"
        elif jobs.get("format") == "microdata" and name not in _listed(jobs.get("attributes", [])):
            yield f"{where}.name: {shown(name)} is not an attribute of the jobs; add it to jobs.attributes"
        if (first := seen.setdefault(name, where)) != where:
            yield f"{where}.name: {first} is of the same attribute; leave one out"


def _is_zero(text: str) -> bool:
    try:
        return synth.exact(text) == 0
    except ValueError:
        return False


def _workplace_problems(jobs: _Table, given: object) -> Iterator[str]:
    """Columns of a public table of workplaces."""
    workplaces = _table(given)
    if jobs.get("format") == "lodes" and "count" in workplaces:
        yield "workplaces.count: a table for LODES jobs counts them in S000, SA01, ...; leave this line out"
    if jobs.get("format") == "microdata" and given is not None:
        if "count" not in workplaces:
            yield 'workplaces.count: missing; name the column of the number of jobs: count = "jobs"'
        attributes = _texts(jobs.get("attributes"))
        if workplaces.get("count") in [jobs.get("work"), *attributes]:
            count = shown(workplaces["count"])
            yield f"workplaces.count: {count} has another purpose in [jobs]; name the column of the numbers"


def _mechanism_problems(release: _Table, plan: _Table, workplaces: object) -> Iterator[str]:
    """Settings that the mechanism does not have."""
    named = release.get("mechanism")
    if isinstance(named, str) and (mechanism := synth.MECHANISMS.get(named)) is not None:
        yield from _settings_missing(mechanism, release, plan, workplaces)


def usable_mechanisms(release: _Table, plan: _Table, workplaces: object) -> list[str]:
    """Return the names of the mechanisms that have all settings of these tables, in order."""
    return [
        name
        for name, mechanism in sorted(synth.MECHANISMS.items())
        if not any(_settings_missing(mechanism, release, plan, workplaces))
    ]


def _settings_missing(
    mechanism: synth.Mechanism, release: _Table, plan: _Table, workplaces: object
) -> Iterator[str]:
    if workplaces is not None and "workplaces" not in mechanism.settings:
        yield (
            f"workplaces: the mechanism {shown(mechanism.name)} needs the exact number of jobs; leave this "
            "table out, or choose another mechanism"
        )
    for key in ("fewest", "most"):
        if key in _table(workplaces) and "record_range" not in mechanism.settings:
            yield (
                f"workplaces.{key}: the mechanism {shown(mechanism.name)} takes any number of jobs; leave "
                "this line out"
            )
    if "prior" in plan and "prior" not in mechanism.settings:
        yield f"plan.prior: the mechanism {shown(mechanism.name)} has no prior; leave this line out"
    kept = plan.get("retention_min", "preset" if plan.get("preset") == "onthemap" else "1")
    if kept != "1" and "retention_min" not in mechanism.settings:
        yield (
            f"plan.retention_min: the mechanism {shown(mechanism.name)} keeps every cell; "
            'write retention_min = "1"'
        )
    if release.get("implicate_source") == "one-urn" and "implicate_source" not in mechanism.settings:
        yield (
            f"release.implicate_source: the mechanism {shown(mechanism.name)} has no urn; "
            'write implicate_source = "independent-runs"'
        )


def _external_problems(geography: _Table, jobs: _Table, flows: Mapping[str, _Table]) -> Iterator[str]:
    """Workers who live outside: they need zones, and LODES an aux file, or a word that none are released."""
    zones = bool(geography.get("external_zones"))
    example = 'external_zones = ["us-states"]'
    needs = f"the aux file needs zones to live in; add geography.external_zones, for example {example}"
    lodes, population = jobs.get("format") == "lodes", jobs.get("population", "all")
    outside = lodes and "aux" in jobs
    if population == "residents" and (zones or outside):
        others = "jobs.aux" if outside else "geography.external_zones"
        rule = f"residents live in the geography, and {others} is for workers who do not"
        yield f"jobs.population: {rule}; leave out one of the two"
    elif lodes and outside and not zones:
        yield f"jobs.aux: {needs}"
    elif lodes and zones and not outside:
        rule = "the LODES main file has no such workers; add the aux file as jobs.aux"
        yield f"geography.external_zones: {rule}"
    elif population == "all" and not zones and jobs.get("format") in ("lodes", "microdata"):
        missing = "jobs.aux" if lodes else "geography.external_zones"
        rule = (
            "whether a job is in the main file depends on the home, so that its totals by work block are not "
            f"public; add the aux file, and geography.{example}"
            if lodes
            else "without zones for workers who live elsewhere, whether a job is in the file depends on the "
            f"home, so that its totals by work block are not public; name zones, for example {example}"
        )
        yield (
            f'{missing}: missing; {rule}, or write population = "residents" in [jobs], if all may know of '
            "every job that its home lies inside the geography"
        )
    for where, table in flows.items():
        if table.get("format") == "lodes" and "aux" in table and not zones:
            yield f"{where}.aux: {needs}"


def _numbered(name: str, tables: object) -> dict[str, _Table]:
    """Return the members of a list of tables by what messages call them."""
    listed = tables if isinstance(tables, list) else []
    return {f"{name} #{number}": _table(table) for number, table in enumerate(listed, start=1)}


def _table(value: object) -> _Table:
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _texts(value: object) -> list[str]:
    return [text for text in _listed(value) if isinstance(text, str)]


def _repeated(where: str, table: _Table, keys: list[str]) -> Iterator[str]:
    """Yield the columns that are named for two purposes, which is a slip of the pen."""
    named = [table[key] for key in keys if key in table]
    columns = Counter(column for entry in named for column in _texts(entry))
    for column, times in columns.items():
        if times > 1:
            yield f"{where}: {shown(column)} is named {times} times; name a column for one purpose only"
