"""A population for MATSim: a person for each synthetic worker, with a plan from home to work and back."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.views.exports.source import Source
from pipelines.views.exports.workers import Workers

_HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE population SYSTEM "http://www.matsim.org/files/dtd/population_v6.dtd">
"""

_OF_MATSIM = {"age", "carAvail", "employed", "hasLicense", "sex", "subpopulation", "vehicles", "vehicleTypes"}
"""Attributes of persons to which MATSim gives a meaning, and a type, of its own."""


def write_matsim(source: Source, folder: Path) -> list[str]:
    """Write ``population.xml.gz`` (population_v6), a batch of persons at a time."""
    workers = Workers(source)
    crs = workers.crs.to_string()
    meanings = {_attribute(name): text for name, text in workers.meanings.items() if name != "worker"}
    about = {
        "coordinateReferenceSystem": crs,
        **workers.about,
        "columns": json.dumps(meanings, ensure_ascii=False),
    }
    path = folder / source.name("population", "xml.gz")
    # No time and no name in it: the same content has the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(f"{_HEAD}<population desc={quoteattr(source.sentence)}>\n{_attributes(about)}".encode())
        for table, points in workers.batches():
            packed.write("".join(_persons(table, points)).encode())
        packed.write(b"</population>\n")
    say = source.say
    renamed = [(name, _attribute(name)) for name in workers.meanings if _attribute(name) != name]
    remarks = [say.person_id, say.in_metres(crs, workers.crs.name), say.no_times]
    return [*workers.remarks(), *map(str, remarks), *([str(say.renamed(renamed))] if renamed else [])]


def _attribute(name: str) -> str:
    """Return what an attribute of a worker is called where MATSim does not take it for one of its own."""
    return f"{name}_category" if name in _OF_MATSIM else name


def _attributes(values: dict[str, str]) -> str:
    lines = [
        f'<attribute name={quoteattr(name)} class="java.lang.String">{escape(text)}</attribute>\n'
        for name, text in values.items()
    ]
    return f"<attributes>\n{''.join(lines)}</attributes>\n"


def _persons(table: pd.DataFrame, points: NDArray[np.float64]) -> Iterator[str]:
    names = [_attribute(str(name)) for name in table.columns[1:]]
    columns = [table[name].tolist() for name in table]
    for (number, *values), (home, work) in zip(zip(*columns, strict=True), points.tolist(), strict=True):
        at_home = f'<activity type="home" x="{home[0]:.1f}" y="{home[1]:.1f}"/>\n'
        at_work = f'<activity type="work" x="{work[0]:.1f}" y="{work[1]:.1f}"/>\n'
        leg = '<leg mode="car"/>\n'
        of_worker = _attributes(dict(zip(names, values, strict=True)))
        yield (
            f'<person id="{number}">\n{of_worker}<plan selected="yes">\n'
            f"{at_home}{leg}{at_work}{leg}{at_home}</plan>\n</person>\n"
        )
