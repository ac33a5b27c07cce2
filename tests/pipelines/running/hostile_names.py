"""Small releases with hostile names in every key that takes free text, and what becomes of each.

``python tests/pipelines/running/hostile_names.py 500`` prints how many came to what.
"""

from __future__ import annotations

import collections
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
import tomlkit

import pipelines
from pipelines.ledger.ledger import Ledger
from pipelines.release.signing import generate_keys
from synth import ShownError

# What files of a release and libraries under it call their own.
_OWN = """
place shared pool count n m domain class work home geometry weight latitude longitude w_geocode h_geocode
S000 createdate destination unit share size cuts stratum level code name geo index key names plan README.md
MANIFEST.json names.parquet accuracy.json signing-key.pub certificate.json public implicate-01 SA SA01 SE
SI jobs
__index_level_0__ __null_dask_index__ index_ self from_arrays level_0 number origin flows"""
OWN = _OWN.split()
# fmt: off
HOSTILE = [
    *OWN,
    *(name.upper() for name in OWN[:12]),
    *(name.title() for name in OWN[10:16]),
    "Größe", "Gro\u0308ße", "空港", "🚲", "\u202eevil", "a\u200bb", "\u0301", "a\u00a0b", "\ufeffa", "ﬁ",
    "K", "İ", "a\u2028b", "a\x85b", "\U000e0001", "\ue000",
    *("x" * n for n in (60, 100, 180, 201, 220, 228, 235, 243, 248, 255, 256, 300, 5000)),
    "é" * 100, "é" * 120, "é" * 128, "e\u0301" * 90, "空" * 80,
    "../up", "a/b", "a\\b", ".", "..", ".hidden", "C:\\x", "/abs", "~", "~root", "a.parquet", "NUL", "CON",
    "a:b", 'a"b', "a'b", "a,b", "a\nb", "a\tb", "a\rb", "a\x00b", "a\x1bb", "a;b", "a|b", " a", "a ", "", " ",
    "{}", "{0}", "%s", "%00", "$HOME", "`a`", "<b>", "&amp;", "*", "?", "[x]", "a*b", "#", "--", "-", "=1+1",
    "@x", "a b", "0", "007", "1e5", "NaN", "nan", "null", "NULL", "None", "true", "-1", "NA", "N/A", "inf",
    "1.0", "0x1", "out", ".out.unfinished", "book.sqlite", "jobs.parquet", "out/public", "keys",
    "99999", "b99", "2010-01-01",
]
# fmt: on
NAMES = tuple(dict.fromkeys(HOSTILE))


class _Region:
    """The files of a region of 24 blocks and 120 jobs, with names that are to be written into them."""

    def __init__(self) -> None:
        i = np.arange(24)
        rng = np.random.default_rng(7)
        self.columns = {
            name: name
            for name in ("blk", "trt", "cty", "park", "lat", "lon", "trtname", "h", "w", "who", "k")
        }
        self.columns |= {"sex": "sex", "trade": "trade"}
        self.blocks = [f"11{b // 12:02}{b // 4:02}{b:03}" for b in i]
        self.tracts = [code[:6] for code in self.blocks]
        self.counties = [code[:4] for code in self.blocks]
        self.parks = [f"p{b % 5}" for b in i]
        self.names = {code: f"Tract {code}" for code in self.tracts}
        self.home, self.work = rng.integers(0, 24, 120), rng.integers(0, 6, 120) * 4
        self.sex = [["f", "m"][x] for x in rng.integers(0, 2, 120)]
        self.trade = [["a", "b", "c"][x] for x in rng.integers(0, 3, 120)]
        self.outside: list[str] = []

    def write(self, folder: Path) -> None:
        col, i = self.columns, np.arange(24)
        frame = pd.DataFrame(
            {"blk": self.blocks, "trt": self.tracts, "cty": self.counties, "park": self.parks}
        )
        frame["lat"], frame["lon"] = 41 + (i // 5) / 50, -71 + (i % 5) / 50
        frame["trtname"] = [self.names[t] for t in self.tracts]
        _named(frame, col).to_parquet(folder / "blocks.parquet")
        jobs = pd.DataFrame(
            {
                "h": np.array(self.blocks, object)[self.home],
                "w": np.array(self.blocks, object)[self.work],
                "sex": self.sex,
                "trade": self.trade,
                "who": [str(n) for n in range(120)],
            }
        )
        if self.outside:
            jobs.loc[jobs.index[::6], "h"] = self.outside[0][:9].ljust(max(map(len, self.blocks)), "9")
        _named(jobs, col).to_parquet(folder / "jobs.parquet")
        (folder / "jobs.parquet").chmod(0o600)
        flows = pd.DataFrame(
            {"o": np.array(self.tracts, object)[self.home], "d": np.array(self.tracts, object)[self.work]}
        )
        flows.value_counts().rename("f").reset_index().to_parquet(folder / "flows.parquet")
        boxes = [shapely.box(-71 + t / 10, 41, -70.95 + t / 10, 41.1) for t in range(6)]
        tracts = pd.DataFrame({"k": list(dict.fromkeys(self.tracts)), "trtname": list(self.names.values())})
        shapes = gpd.GeoDataFrame(_named(tracts, col), geometry=boxes[: len(tracts)], crs="EPSG:4326")
        shapes.to_parquet(folder / "tracts.parquet")


def _named(frame: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    return frame.set_axis([columns.get(name, name) for name in frame.columns], axis=1)


class Case:
    """A configuration and its region, before names are put in.

    Parameters
    ----------
    draw : random.Random
        Decides about polygons, implicates, CSV and signature.
    """

    def __init__(self, draw: random.Random, folder: Path) -> None:
        self.region, self.folder = _Region(), folder
        self.tables: dict[str, Any] = {
            "release": {"name": "Names", "state": "xx", "year": 2019, "out": "out", "mechanism": "dirichlet"},
            "privacy": {"protects": "home", "epsilon": "8", "delta": "1e-4"},
            "jobs": {
                "format": "microdata",
                "file": "jobs.parquet",
                "home": "h",
                "work": "w",
                "population": "residents",
            },
            "geography": {
                "file": "blocks.parquet",
                "block": "blk",
                "levels": ["cty", "trt"],
                "latitude": "lat",
                "longitude": "lon",
            },
            "auxiliary": [
                {
                    "format": "flows",
                    "file": "flows.parquet",
                    "origin": "o",
                    "origin_level": "trt",
                    "destination": "d",
                    "destination_level": "trt",
                    "flow": "f",
                }
            ],
            "plan": {"split_threshold": "1", "pool_below": 4},
            "ledger": {"file": "book.sqlite", "data_set": "jobs", "epsilon": "100", "delta": "1e-2"},
        }
        release, geography = self.tables["release"], self.tables["geography"]
        self.tables["jobs"]["attributes"] = ["sex", "trade"][: draw.choice([0, 1, 2, 2])]
        if draw.random() < 0.5:
            geography["polygons"] = [{"level": "trt", "file": "tracts.parquet", "code": "k"}]
        if draw.random() < 0.3:
            release["csv"] = False
        if draw.random() < 0.3:
            release |= {"implicates": 2, "implicate_source": draw.choice(["one-urn", "independent-runs"])}
        if draw.random() < 0.3:
            generate_keys(folder / "keys")
            self.tables["signature"] = {"key": "keys/signing-key.pem"}
        if draw.random() < 0.3 and self.tables["jobs"]["attributes"]:
            self.tables["plan"]["pool_by"] = self.tables["jobs"]["attributes"][:1]
        if draw.random() < 0.2:
            self._let_live_outside("25")

    def _let_live_outside(self, zone: str) -> None:
        self.region.outside = [zone]
        self.tables["geography"]["external_zones"] = [zone]

    @property
    def text(self) -> str:
        return tomlkit.dumps(self.tables)

    def put(self, key: str, name: str) -> None:
        """Write a name where a key takes one, in the configuration and in the files that it is of."""
        region, geography, jobs = self.region, self.tables["geography"], self.tables["jobs"]
        match key.split("."):
            case ["release", part]:
                self.tables["release"][part] = name
            case ["ledger", part]:
                self.tables["ledger"][part] = name
            case ["signature", "key"]:
                generate_keys(self.folder / "made")
                with suppress(OSError, ValueError):
                    (self.folder / "made" / "signing-key.pem").rename(self.folder / name)
                self.tables["signature"] = {"key": name}
            case ["level", level]:
                region.columns[level] = name
                old, tables = geography["levels"], [*self.tables["auxiliary"], *geography.get("polygons", [])]
                geography["levels"] = [name if each == level else each for each in old]
                for table in tables:
                    table |= {k: name for k, value in table.items() if value == level and k.endswith("level")}
            case ["grouping"]:
                geography["levels"] = ["cty", "trt", name]
                geography["groupings"] = {name: 2}
            case ["block" | "latitude" | "longitude" as part]:
                region.columns[{"block": "blk", "latitude": "lat", "longitude": "lon"}[part]] = name
                geography[part] = name
            case ["area"]:
                region.columns["park"] = name
                geography["non_nesting_areas"] = [name]
                self.tables["workload"] = [{"home": name, "work": name}]
            case ["names"]:
                region.columns["trtname"] = name
                geography["names"] = {"trt": name}
            case ["polygons", "code" | "name" as part]:
                region.columns["k" if part == "code" else "trtname"] = name
                tract = geography["levels"][1]
                table = {"level": tract, "file": "tracts.parquet", "code": region.columns["k"]}
                geography["polygons"] = [table | {part: name}]
            case ["zone"]:
                self._let_live_outside(name)
            case ["home" | "work" as part]:
                region.columns[part[0]] = name
                jobs[part] = name
            case ["worker"]:
                region.columns["who"] = name
                jobs["worker"] = name
            case ["attribute", part]:
                region.columns[part] = name
                jobs["attributes"] = [name] if part == "sex" else ["sex", name]
                if "pool_by" in self.tables["plan"]:
                    self.tables["plan"]["pool_by"] = jobs["attributes"][:1]
            case ["category", part]:
                values = getattr(region, part)
                setattr(region, part, [name if value == values[0] else value for value in values])
                jobs["attributes"] = ["sex", "trade"]
            case ["blockcode"]:
                region.blocks[4] = name
            case ["tractcode"]:
                region.tracts[:4] = [name] * 4
                region.names = {code: code for code in region.tracts}
            case ["unitname"]:
                region.names[region.tracts[0]] = name
            case _:
                raise ValueError(key)


KEYS = (
    *(f"release.{part}" for part in ("name", "state", "out")),
    *(f"ledger.{part}" for part in ("data_set", "period", "file")),
    *(
        "signature.key",
        "level.trt",
        "level.cty",
        "grouping",
        "block",
        "latitude",
        "longitude",
        "area",
        "names",
    ),
    *("polygons.code", "polygons.name", "zone", "home", "work", "worker", "attribute.sex", "attribute.trade"),
    *("category.sex", "category.trade", "blockcode", "tractcode", "unitname"),
)


def outcome(case: Case) -> tuple[str, str]:
    """Run a case, and return what became of it and the message of its error.

    finished
        As `run` finishes: verified.
    refused
        With a clear error, before it was paid.
    unforeseen
        With an error that is not one of ours; nothing was paid.
    lost
        Paid, and not finished.
    debris
        Refused, and homes or an unfinished run left behind.
    """
    said, folder = "", case.folder
    book = folder / "book.sqlite"
    try:
        case.region.write(folder)
        text = case.text
    except Exception as error:  # the libraries of the test cannot write such a file either
        return "not written", repr(error)[:100]
    kind = "finished"
    try:
        config = pipelines.parse_config(text, folder, "names.toml")
        book = config.ledger.file if config.ledger else book
        pipelines.run(config)
    except (ShownError, OSError) as error:
        kind, said = "refused", str(error)
        if isinstance(error, OSError) and not isinstance(error, ShownError):
            kind = "unforeseen"
    except Exception as error:
        kind, said = "unforeseen", f"{type(error).__name__}: {error}"
    try:
        with suppress(FileNotFoundError):
            entries = Ledger(book).entries() if book.exists() else []
            debits = sum(entry.kind == "debit" for entry in entries)
            finished = sum(entry.kind == "finished" for entry in entries)
            if debits != finished or debits != (kind == "finished"):
                kind = "lost"
    except Exception as error:
        if kind == "finished":
            kind, said = "lost", str(error)
    if kind == "refused" and [*folder.rglob("*.npy"), *folder.rglob("*.unfinished")]:
        kind = "debris"
    return kind, said


def try_names(seed: int, number: int, tell: Callable[[str], None]) -> collections.Counter[tuple[str, str]]:
    """Try so many cases, and count them by key and by what became of them."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for i in range(number):
        draw = random.Random(f"{seed} {i}")
        with tempfile.TemporaryDirectory() as folder:
            case = Case(draw, Path(folder))
            put = {}
            for key in dict.fromkeys([KEYS[i % len(KEYS)], *draw.sample(KEYS, draw.choice([0, 1, 2]))]):
                put[key] = draw.choice(NAMES)
                case.put(key, put[key])
            kind, said = outcome(case)
            counts[next(iter(put)), kind] += 1
            tell(f"{kind}\t{ {k: v[:40] for k, v in put.items()} }\t{said}")
    return counts


def main() -> None:
    """Print counts."""
    number, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    counts = try_names(seed, number, lambda line: print(line, file=sys.stderr))
    rows = [(key, kind, number) for (key, kind), number in counts.items()]
    table = pd.DataFrame(rows, columns=["key", "outcome", "cases"])
    table = table.pivot_table("cases", "key", "outcome", "sum", fill_value=0, margins=True)
    print(table.to_string())


if __name__ == "__main__":
    main()
