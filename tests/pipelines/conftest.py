"""The small region as microdata, a British region, copies of releases to tamper with, a browser."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import helpers
import pipelines
import synth
from geo_data import polygons
from geo_data.delimited import count_rows, note_rows
from helpers import PATIENCE, Said, freeze, same_key, with_values
from pipelines.config.loading import check_config
from pipelines.planning import search
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.release import verification
from pipelines.release.signing import generate_keys
from pipelines.running import report
from pipelines.running.report import draw_cells
from pipelines.running.steps import logged_to
from pipelines.storage.checksums import sha256_of

# Stands in every row of the confidential side of the microdata, and may stand nowhere else.
CANARY = "CANARYworker"

FLAGS = [
    "--no-sandbox",  # tests may run as root
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu-compositing",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
    # Two pages behind the address bar, which no test sees, take a third of the time in which a map opens.
    # Of two lists the last counts, so what playwright turns off and would reach for a network is here too.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,AimEnabled,DestroyProfileOnBrowserClose,"
    "HttpsUpgrades,LensOverlay,MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,PreconnectToSearch",
]


@pytest.fixture
def said() -> Iterator[Said]:
    """Collect what the command line would print, and the service show."""
    heard = Said()
    with logged_to(heard.handler):
        yield heard


@pytest.fixture(scope="session", autouse=True)
def _each_public_table_once() -> Iterator[None]:
    """Read public files of the same path and content once: half of a small plan is the reading of them."""
    known: dict[tuple[object, ...], tuple[Any, dict[str, int], object]] = {}

    def once(read: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(read)  # tests of docstrings, which run in the same process, look at these functions too
        def reading(path: Path, *geography: geo_data.Geography, **how: object) -> Any:
            if (
                not isinstance(path, str | Path)
                or not (path := Path(path)).is_file()
                or path.stat().st_size > 1_000_000
            ):
                return read(path, *geography, **how)
            content = hashlib.sha256(path.read_bytes()).digest()
            key = read, path, content, *map(id, geography), repr(how)
            if key not in known:
                with count_rows() as rows:
                    known[key] = read(path, *geography, **how), rows, geography  # kept, as its id must be
            value, rows, _ = known[key]
            for file, number in rows.items():
                note_rows(file, number)
            return value

        return reading

    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_crosswalk", "read_flows", "read_weights"):
            patch.setattr(geo_data, name, once(getattr(geo_data, name)))
        patch.setattr(polygons, "read_polygons", once(polygons.read_polygons))
        yield


@pytest.fixture
def figure_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw them in this test, as `odsynth plan` does."""
    monkeypatch.setattr(report, "draw_cells", draw_cells)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return generate_keys(tmp_path_factory.mktemp("keys") / "own")


@pytest.fixture(scope="session")
def signed_release(
    config_tables: dict[str, Any],
    clean_source: object,
    keys: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> pipelines.Release:
    tables = with_values(config_tables, {"signature.key": keys[0]})
    return pipelines.run(
        check_config(tables, tmp_path_factory.mktemp("signed"), "signed.toml"), key=same_key()
    )


@pytest.fixture
def signed(signed_release: pipelines.Release, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed_release.public, tmp_path / "public"))


@pytest.fixture(scope="session")
def canary() -> str:
    return CANARY


@pytest.fixture(scope="session")
def small_geography(small_region: dict[str, Path]) -> geo_data.Geography:
    return geo_data.read_crosswalk(
        small_region["crosswalk"],
        block="tabblk2010",
        levels=("st", "cty", "trct", "bgrp"),
        centroid=("blklatdd", "blklondd"),
    )


@pytest.fixture(scope="session")
def microdata(
    small_region: dict[str, Path],
    small_geography: geo_data.Geography,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """The jobs of the small region, one row a job, in two formats; every worker has two jobs."""
    jobs = geo_data.LodesJobs(small_region["od"], small_geography).records()
    row = np.arange(len(jobs))
    table = pd.DataFrame(
        {
            "note": [f"{CANARY}-note-{i}" for i in row],
            "live": small_geography.blocks[jobs.home],
            "age": np.array(["young", "middle", "old"])[(row * 7 + jobs.work) % 3],
            "toil": small_geography.blocks[jobs.work],
            "sector": np.array(["office", "field"])[(row // 5 + jobs.work) % 2],
            "person": [f"{CANARY}{i // 2:05}" for i in row],
        },
    ).astype("str")
    table = table.iloc[np.random.default_rng(3).permutation(len(table))]
    folder = tmp_path_factory.mktemp("microdata")
    paths = {"csv": folder / "jobs.csv", "parquet": folder / "jobs.parquet"}
    table.to_csv(paths["csv"], index=False)
    table.to_parquet(paths["parquet"], index=False)
    return paths


@pytest.fixture(scope="session")
def microdata_jobs(microdata: dict[str, Path]) -> Callable[..., object]:
    """Return the change of a configuration that reads microdata: "csv", "parquet", or another file."""
    return lambda path, **more: {
        "jobs": {
            "format": "microdata",
            "file": str(microdata.get(path, path)),
            "home": "live",
            "work": "toil",
            "worker": "person",
            "attributes": ["sector", "age"],
            "records_per_worker": 3,
            "population": "residents",
            **more,
        },
        "privacy.protects": "home",
    }


@pytest.fixture(scope="session")
def zones(small_region: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The change of a configuration that lets a fifth of the workers live in two other states."""
    codes = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
    jobs = pd.read_csv(small_region["od"], dtype=codes)
    moved = np.arange(len(jobs)) % 5 == 0
    aux = jobs[moved].copy()
    aux["h_geocode"] = np.where(np.arange(len(aux)) % 3, "25", "09") + aux["h_geocode"].str[2:]
    folder = tmp_path_factory.mktemp("zones")
    jobs[~moved].to_csv(folder / "main.csv.gz", index=False)
    aux.to_csv(folder / "aux.csv.gz", index=False)
    files = {"jobs.file": folder / "main.csv.gz", "jobs.aux": folder / "aux.csv.gz"}
    return files | {"geography.external_zones": ["09", "25"], "jobs.population": None}


@pytest.fixture(scope="session")
def zoned_config(config_text: Callable[..., str], zones: dict[str, Any]) -> Path:
    """A configuration with external zones, in a file beside its jobs."""
    path = Path(zones["jobs.file"]).with_name("zoned.toml")
    text = config_text(zones, {"plan.pool_by": ["SI"]})  # by which there are intervals
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def zoned_release(zoned_config: Path, clean_source: object) -> pipelines.Release:
    """Its release. Copy it before changing it."""
    return pipelines.run(pipelines.load_config(zoned_config), key=same_key())


@pytest.fixture(scope="session")
def census_releases(
    tmp_path_factory: pytest.TempPathFactory, clean_source: object
) -> Callable[[str], pipelines.Release]:
    """Releases of a small census with external zones in which people "work", or "live or work". Read only.

    In that of "live or work" some of those who work abroad, and of those who work in the region, live abroad.
    """
    folder = tmp_path_factory.mktemp("census")
    inputs = folder / "out" / "census-demo-inputs"
    geo_data.write_demo_census(inputs, persons=6000)
    (folder / "examples").mkdir()
    example = (helpers.ROOT / "examples" / "census_demo.toml").read_text(encoding="utf-8")
    persons = pd.read_csv(inputs / "census_persons.csv.gz", dtype="str", keep_default_na=False)
    persons.loc[(persons["work"] == "W-ABRD") & (persons.index % 2 == 0), "home"] = "W-ABRD"
    persons.loc[persons.index % 20 == 0, "home"] = "W-ABRD"
    persons.to_csv(inputs / "census_persons_all.csv", index=False)
    changes = {
        "work": {},
        "live or work": {
            'population = "residents"': 'population = "all"',
            "census_persons.csv.gz": "census_persons_all.csv",
            "external_workplaces =": 'external_zones = ["W-ABRD"]\nexternal_workplaces =',
        },
    }
    of_work = (
        TableChoice(None, ("mode", "occupation"), None, Fraction(1, 20)),
        TableChoice("zone", (), None, Fraction(1, 10)),
    )
    chosen = Choices("zone", 8, (), cell_level="zone", workplaces=of_work)

    @cache
    def release(ends: str) -> pipelines.Release:
        text = example.replace('out/census-demo"', f'out/{ends.replace(" ", "-")}"')
        for before, after in changes[ends].items():
            assert before in text
            text = text.replace(before, after)
        path = folder / "examples" / f"{ends}.toml"
        path.write_text(text, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search, "choose", lambda *_: chosen)
            return pipelines.run(pipelines.load_config(path), key=same_key())

    return release


@pytest.fixture(scope="session")
def strips(small_region: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The change of a configuration that has three places: strips that cut tracts and leave blocks out."""
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    north = crosswalk["blklatdd"].astype(float)
    strip = pd.cut(north.rank(pct=True), [0, 0.2, 0.5, 0.8, 1], labels=False)
    crosswalk["stplc"] = np.array(["0311000", "0312000", "0313000", "9999999"])[strip]
    assert len(crosswalk[["trct", "stplc"]].drop_duplicates()) > len(crosswalk["trct"].unique()) + 3
    path = tmp_path_factory.mktemp("strips") / "xwalk.csv"
    crosswalk.to_csv(path, index=False)
    return {"geography.file": path, "geography.non_nesting_areas": ["stplc"]}


@pytest.fixture(scope="session")
def industry_release(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, clean_source: object
) -> pipelines.Release:
    """A release of the small region with urns by industry, by which it has intervals. Copy it, too."""
    config = pipelines.parse_config(
        config_text({"plan.pool_by": ["SI"]}), tmp_path_factory.mktemp("industry"), "small.toml"
    )
    return pipelines.run(config, key=same_key())


@pytest.fixture(scope="session")
def cut_release(
    config_text: Callable[..., str],
    strips: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    clean_source: object,
) -> pipelines.Release:
    """A release for tables of places, which cut tracts, and of home blocks. Copy it before changing it."""
    tables = [
        {"home": "stplc", "work": "stplc"},
        {"home": "stplc", "attributes": ["SE"]},
        {"home": "tabblk2010", "work": "trct"},
        {"home": "trct", "work": "stplc"},
    ]
    plan = {
        "plan.coarsening": "units",
        "plan.split_threshold": None,
        "plan.pool_below": 8,
        "plan.pool_by": ["SE"],
    }
    text = config_text(strips, plan, {"workload": tables})
    return pipelines.run(
        pipelines.parse_config(text, tmp_path_factory.mktemp("cut"), "cut.toml"), key=same_key()
    )


def british_region(folder: Path) -> Callable[..., pipelines.ReleaseConfig]:
    """Return what makes a configuration with British codes (no code is a prefix of another)."""
    folder.mkdir()
    areas = np.arange(48)
    rng = np.random.default_rng(11)
    shuffled = rng.permutation(48)  # codes say nothing about the place in the hierarchy
    crosswalk = pd.DataFrame(
        {
            "oa": [f"E0001{shuffled[i]:04}" for i in areas],
            "lsoa": [f"E010{99 - i // 4:05}" for i in areas],
            "msoa": [f"E020023{(i // 8 * 5) % 6 + 30}" for i in areas],
            "lad": [f"E080000{35 - i // 24}" for i in areas],
            "north": 53.8 + areas / 100,
            "east": -1.5 + areas / 100,
        }
    )
    homes, works = rng.integers(0, 48, 300), rng.integers(0, 6, 300) * 8
    jobs = pd.DataFrame(
        {"live": crosswalk["oa"][homes].to_numpy(), "toil": crosswalk["oa"][works].to_numpy()}
    )
    flows = pd.DataFrame({"h": crosswalk["msoa"][homes].to_numpy(), "w": crosswalk["msoa"][works].to_numpy()})
    flows = flows.value_counts().rename("n").reset_index()
    for name, table in {
        "oa.csv": crosswalk.sample(frac=1, random_state=5),
        "jobs.csv": jobs,
        "flows.csv": flows,
    }.items():
        table.to_csv(folder / name, index=False)

    def config(
        levels: Sequence[str] = ("lad", "msoa", "lsoa"), tables: bool = True, **plan: str
    ) -> pipelines.ReleaseConfig:
        flows = {"format": "flows", "file": "flows.csv", "origin": "h", "destination": "w", "flow": "n"}
        data = {
            "release": {
                "name": "Leeds",
                "state": "leeds",
                "year": 2021,
                "out": "release",
                "mechanism": "dirichlet",
            },
            "privacy": {"protects": "home", "epsilon": "6", "delta": "1e-4"},
            "jobs": {
                "format": "microdata",
                "file": "jobs.csv",
                "home": "live",
                "work": "toil",
                "population": "residents",
            },
            "geography": {
                "file": "oa.csv",
                "block": "oa",
                "levels": list(levels),
                "latitude": "north",
                "longitude": "east",
            },
            "auxiliary": [flows | {"origin_level": "msoa", "destination_level": "msoa"}] if tables else [],
            "plan": plan,
        }
        return check_config(data, folder, "british.toml")

    return config


@pytest.fixture
def british(tmp_path: Path) -> Callable[..., pipelines.ReleaseConfig]:
    """Return a configuration of a British region, of the levels given."""
    return british_region(tmp_path / "british")


@pytest.fixture(scope="session")
def british_release(tmp_path_factory: pytest.TempPathFactory, clean_source: object) -> pipelines.Release:
    """Its release. Copy it before changing it."""
    return pipelines.run(british_region(tmp_path_factory.mktemp("of") / "british")(), key=same_key())


@pytest.fixture
def public_copy(small_release: pipelines.Release, tmp_path: Path) -> Path:
    """A copy of the public folder of the small release, to tamper with."""
    return Path(shutil.copytree(small_release.public, tmp_path / "public"))


@pytest.fixture(scope="module")
def plans_known() -> Iterator[None]:
    """Load a plan and compute its guarantee once for each content of its folder: the time goes there."""
    plans: dict[str, pipelines.ReleasePlan] = {}
    guarantees: dict[int, synth.Guarantee] = {}  # by `id` of plans that are kept
    certify, load_plan = pipelines.ReleasePlan.certify, helpers.load_plan

    def load(folder: Path, hashes: Mapping[str, str] | None = None) -> pipelines.ReleasePlan:
        files = hashes or {path.name: sha256_of(path) for path in folder.iterdir()}
        content = repr(sorted(files.items()))
        if content not in plans:
            plans[content] = load_plan(folder, hashes=hashes)
        return plans[content]

    def certified(plan: pipelines.ReleasePlan) -> synth.Guarantee:
        if plan not in plans.values():
            return certify(plan)
        if id(plan) not in guarantees:
            guarantees[id(plan)] = certify(plan)
        return guarantees[id(plan)]

    with pytest.MonkeyPatch.context() as patch:
        for module in (helpers, verification):
            patch.setattr(module, "load_plan", load)
        patch.setattr(pipelines.ReleasePlan, "certify", certified)
        yield


@pytest.fixture
def frozen_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every release of a test carry the same day, also at midnight."""
    freeze(monkeypatch)


@pytest.fixture(scope="session")
def library() -> Path:
    """The library that draws maps, fetched by set-up."""
    folder = Path(pipelines.__file__).parent / "views" / "maps" / "vendor"
    if not (folder / "maplibre-gl.js").is_file():
        pytest.skip('the library that draws maps is not set up ("make library", which needs npm)')
    return folder


@pytest.fixture(scope="module")  # no longer: meanwhile nothing else in this process can run an event loop
def browser() -> Iterator[object]:
    """Debian's Chromium, headless."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no chromium (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=FLAGS, timeout=1000 * PATIENCE)
        yield chromium
        chromium.close()
