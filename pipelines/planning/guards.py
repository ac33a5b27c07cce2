"""What is checked of input files before their content is."""

from __future__ import annotations

import filecmp
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geo_data.distance import distance_km
from geo_data.external_zones import CENSUS_DIGITS, POSTAL_CODES, STATES
from geo_data.geography import Geography
from geo_data.od_files import OdName, od_name
from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import LodesTable, Section
from pipelines.config.toml import ConfigError

_ABROAD_KM = 3000  # from a state: sectors of Brazil have codes like census blocks


def refuse_as_public(config: ReleaseConfig, proxy_truth: Path | None = None) -> None:
    """Refuse confidential files that are named as public ones: the plan would say who lives where.

    A file that was made from the confidential one (a part of it, or the same compressed anew) is not
    recognised.
    """
    confidential = [path for path in config.jobs.files if path.exists()]
    public = [*public_files(config), *([] if proxy_truth is None else [("proxy truth", proxy_truth)])]
    problems = [
        f"{key}: {named.name} is a confidential file of [jobs], or a copy of one, and nothing public may "
        "derive from it; name a table that is public, such as an earlier release"
        for key, named in public
        if any(_same(path, other) for path in expand(named) if path.exists() for other in confidential)
    ]
    if problems:
        raise ConfigError(problems)


def public_files(config: ReleaseConfig) -> Iterator[tuple[str, Path]]:
    """Yield every file that is read as public, with its key, whatever the keys of a table are called."""
    geography = config.geography
    sections: dict[str, Section | None] = {"geography": geography, "weights": config.weights}
    if config.workplaces is not None:
        sections["workplaces"] = config.workplaces
    sections |= {f"geography.polygons #{i}": table for i, table in enumerate(geography.polygons, start=1)}
    sections |= {f"auxiliary #{i}": table for i, table in enumerate(config.auxiliary, start=1)}
    sections |= {f"attribute #{i}.table": of.table for i, of in enumerate(config.attribute, start=1)}
    for where, section in sections.items():
        for key, value in section or ():
            if isinstance(value, Path):
                yield f"{where}.{key}", value


def _same(path: Path, other: Path) -> bool:
    """Say whether two files are one, or have the same bytes; those of different sizes are not read."""
    return path.samefile(other) or filecmp.cmp(path, other, shallow=False)


def refuse_other_names(config: ReleaseConfig) -> None:
    """Refuse files whose names, where they have the form of LODES, contradict the configuration.

    An auxiliary table may be of another year or kind of job; its aux file must be that of its main file.
    """
    problems: dict[str, list[str]] = {}
    for key, path, stated, expected in _named_files(config):
        differences = [
            f"{field.replace('_', ' ')} {has}, not {wanted}"
            for field, has, wanted in zip(OdName._fields, stated, expected, strict=True)
            if has != wanted
        ]
        if differences:
            problems.setdefault(key, []).append(f"{path.name} is by its name of {', '.join(differences)}")
    lines = [
        f"{key}: {first}{f' ({len(more)} more files differ, too)' if more else ''}; name the right files, or "
        "correct the configuration"
        for key, (first, *more) in problems.items()
    ]
    parts = {name.part for key, _, name, _ in _named_files(config) if key == "workplaces.file"}
    whole = {"main"} if config.jobs.population == "residents" else {"aux", "main"}
    if parts and parts != whole:
        lines.append(
            f"workplaces.file: by their names, the files are of part {' and '.join(sorted(parts))}, and the "
            f"jobs of {' and '.join(sorted(whole))}; name the table of the same jobs"
        )
    if lines:
        raise ConfigError(lines)


def _named_files(config: ReleaseConfig) -> Iterator[tuple[str, Path, OdName, OdName]]:
    """Yield the files with names of the form of LODES: what each says, and what it should say."""
    release, jobs = config.release, config.jobs
    keys: dict[str, tuple[Path | None, str]] = {"jobs.file": (jobs.file, "main")}
    keys["jobs.aux"] = getattr(jobs, "aux", None), "aux"
    if config.workplaces:  # of main and aux, and of any one year
        keys["workplaces.file"] = config.workplaces.file, ""
    for key, (named, part) in keys.items():
        paths = [(path, name) for path in (expand(named) if named else ()) if (name := od_name(path))]
        for path, name in paths:
            # Any other text may stand for several states.
            states = {name.state, release.state} <= POSTAL_CODES.keys()
            expected = OdName(
                release.state if states else name.state,
                part or name.part,
                release.job_type,
                release.year if part else paths[0][1].year,
            )
            yield key, path, name, expected
    for i, table in enumerate(config.auxiliary, start=1):
        if isinstance(table, LodesTable):
            main = od_name(table.file)
            if main:
                yield f"auxiliary #{i}.file", table.file, main, main._replace(part="main")
            if table.aux and (name := od_name(table.aux)):
                yield f"auxiliary #{i}.aux", table.aux, name, (main or name)._replace(part="aux")


def refuse_other_states(config: ReleaseConfig, geography: Geography) -> None:
    """Refuse a release, a crosswalk or jobs that are named after a state without a block in the geography."""
    inside = ~geography.is_external(np.arange(geography.n_blocks))
    blocks = geography.block_codes.filter(pa.array(inside))
    states = set(pc.unique(pc.utf8_slice_codeunits(blocks, 0, 2)).to_pylist())
    if not states <= STATES.keys() or pc.any(pc.not_equal(pc.utf8_length(blocks), CENSUS_DIGITS)).as_py():
        return
    middle = [np.median(degrees[inside]) for degrees in (geography.latitude, geography.longitude)]
    centres = np.array([(STATES[state].latitude, STATES[state].longitude) for state in states])
    if distance_km(*middle, *centres.T).min() > _ABROAD_KM:
        return
    named = [("release.state", config.release.state)]
    if crosswalk := re.fullmatch(r"([a-z]{2})_xwalk\..*", config.geography.file.name, re.IGNORECASE):
        named.append(("geography.file", crosswalk[1].lower()))
    named += [(key, name.state) for key, _, name, _ in _named_files(config) if key.startswith("jobs.")]
    lines = [
        f"{key}: {state} is {STATES[code].name}, and the blocks of the crosswalk are of "
        f"{', '.join(STATES[other].name for other in sorted(states))}; correct the name, or name other files"
        for key, state in dict.fromkeys(named)
        if (code := POSTAL_CODES.get(state)) and code not in states
    ]
    if lines:
        raise ConfigError(lines)


def refuse_open_files(config: ReleaseConfig) -> None:
    """Refuse confidential files that everybody on the machine can read."""
    if config.run.world_readable:
        return
    problems = [
        f"{path}: everybody on this machine can read the confidential jobs; chmod o-r the file, "
        "or, if it is public or its folder is closed, write world_readable = true in [run]"
        for path in config.jobs.files
        if path.exists() and path.stat().st_mode & stat.S_IROTH
    ]
    if problems:
        raise ConfigError(problems)


def refuse_one_file_twice(config: ReleaseConfig) -> None:
    """Refuse a file of jobs that is named twice, under one path or several: its jobs would be counted twice.

    Whether contents are alike is not looked at here: they have homes.
    """
    first_path: dict[tuple[int, int], Path] = {}
    for path in config.jobs.files:
        if path.exists():
            info = path.stat()
            if (first := first_path.setdefault((info.st_dev, info.st_ino), path)) is not path:
                raise ConfigError(
                    f"{path}: a file of jobs is named twice, also as {first}. Fix: name each file once "
                    "(check what * and ? in jobs.file and jobs.aux match)"
                )
