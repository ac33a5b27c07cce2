"""Tables for ActivitySim: land use, and the flows that the choice of workplaces is calibrated to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.views.accuracy import trusted_level
from pipelines.views.exports.source import Source, describe_csv
from pipelines.views.labels import ends_beyond


def write_activitysim(source: Source, folder: Path) -> list[str]:
    """Write ``land_use.csv`` by zone, and ``workplace_flows.csv`` between zones, without external zones."""
    level, geography = source.work_level, source.release.geography
    meanings = source.meanings | source.say.land_use
    external = np.zeros(geography.n_units(level), bool)
    external[geography.unit_of(level, geography.external_blocks)] = True
    numbers = source.numbers(level)
    beyond = {side: np.zeros(len(numbers), np.int64) for side in ("home", "work")}
    both = inside = 0
    path = folder / "workplace_flows.csv"
    with path.open("wb") as file:
        for number, (flows, words) in enumerate(zip(source.flows(), source.flow_tables(), strict=True)):
            home, work = flows["home"].to_numpy(), flows["work"].to_numpy()
            jobs = flows["S000"].to_numpy()
            np.add.at(beyond["home"], home, jobs * external[work])
            np.add.at(beyond["work"], work, jobs * external[home])
            both += int(jobs[external[home] & external[work]].sum())
            within = ~external[home] & ~external[work]
            inside += int(jobs[within].sum())
            ends = {"home_zone_id": numbers[home[within]], "workplace_zone_id": numbers[work[within]]}
            counts = {name: flows[name].to_numpy()[within] for name in source.counts}
            ends_in_words = words.drop(columns=source.columns)[within].reset_index(drop=True)
            table = pd.concat([pd.DataFrame(ends), ends_in_words, pd.DataFrame(counts)], axis=1)
            table.to_csv(file, header=number == 0, index=False, lineterminator="\n")
    describe_csv(path, table, source, meanings, trusted_level(source.release))
    totals = {side: pd.DataFrame(of_side, columns=source.counts) for side, of_side in source.totals.items()}
    places = source.points(level)
    names = {"name": places["name"]} if "name" in places else {}
    table = pd.DataFrame(
        {
            "zone_id": numbers,
            "code": places["code"],
            **names,
            "TOTEMP": totals["work"]["S000"],
            "from_outside": beyond["work"],
            "share_from_outside": _share(beyond["work"], totals["work"]["S000"]),
            **{f"work_{name}": totals["work"][name] for name in source.counts[1:]},
            "workers": totals["home"]["S000"],
            "to_outside": beyond["home"],
            "share_to_outside": _share(beyond["home"], totals["home"]["S000"]),
            **{f"home_{name}": totals["home"][name] for name in source.counts[1:]},
        }
    )
    table = table[~external].sort_values("zone_id")
    path = folder / "land_use.csv"
    table.to_csv(path, index=False, lineterminator="\n")
    describe_csv(path, table, source, meanings, trusted_level(source.release))
    everyone = int(totals["work"]["S000"].sum())
    into, out = int(table["from_outside"].sum()), int(table["to_outside"].sum())
    numbers_of_zones = int(external.sum()), everyone, inside, into, out, both
    zones = [str(source.say.land_use_zones(*numbers_of_zones))] if ends_beyond(geography) else []
    return [*zones, *source.say.land_use_remarks, trusted_level(source.release)]


def _share(part: np.ndarray, whole: pd.Series) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole.to_numpy() > 0).round(6)
