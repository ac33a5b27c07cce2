"""Two releases: differences as sure as is said, exact where both are, refused where nothing compares."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

import pipelines
import synth
from helpers import freeze
from pipelines import PublicReleaseError, Release
from pipelines.cli.main import main
from pipelines.config.languages import ENGLISH
from pipelines.drawing.job_counts import units_of_blocks
from pipelines.views import download
from pipelines.views.figures.changes import _classes, _edges
from pipelines.views.intervals.workplaces import WorkplaceIntervals
from pipelines.views.pages import phrases

from ...running.helpers import GEOMETRIC
from ...running.kinds import KIND

CODES = dict.fromkeys(("home", "work", "SE"), "str")
BY_INDUSTRY = {"plan.pool_by": ["SI"]}  # by which there are draws of flows
Made = Callable[..., Release]
Truth = Callable[[str], pd.DataFrame]


@pytest.fixture(scope="module")
def made(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, clean_source: object
) -> Made:
    """Make a release of the small region by a name and a seed."""

    def release(seed: int, *changes: Mapping[str, object], jobs: Path | None = None) -> Release:
        name = {"release.name": f"Small region {seed}"}
        folder = tmp_path_factory.mktemp("made")
        config = pipelines.parse_config(config_text(name, *changes, jobs=jobs), folder, "small.toml")
        with pytest.MonkeyPatch.context() as patch:
            freeze(patch)  # draws follow from the bytes of a release
            return pipelines.run(config, key=synth.RunKey(bytes([seed]) * 32, secure=True))

    return release


@pytest.fixture(scope="module")
def jobs(small_region: dict[str, Path]) -> pd.DataFrame:
    return pd.read_csv(
        small_region["od"], dtype=dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
    )


@pytest.fixture(scope="module")
def first(made: Made) -> Release:
    return made(1, BY_INDUSTRY)


@pytest.fixture(scope="module")
def again(made: Made) -> Release:
    """Another release of the same jobs."""
    return made(2, BY_INDUSTRY)


@pytest.fixture(scope="module")
def moved(jobs: pd.DataFrame) -> tuple[str, str]:
    """The tract with most residents, of whom half move to the other one."""
    residents = jobs.groupby(jobs["h_geocode"].str[:11])["S000"].sum().sort_values()
    return str(residents.index[-1]), str(residents.index[0])


@pytest.fixture(scope="module")
def later_jobs(jobs: pd.DataFrame, moved: tuple[str, str]) -> pd.DataFrame:
    """Half of those who lived in the largest tract live in the smallest, and a tenth of all jobs are gone."""
    tract = jobs["h_geocode"].str[:11]
    later, homes = jobs.copy(), jobs["h_geocode"][tract == moved[1]]
    leave = (tract == moved[0]) & (np.arange(len(jobs)) % 2 == 0)
    later.loc[leave, "h_geocode"] = np.resize(homes, leave.sum())
    later = later[np.arange(len(later)) % 10 > 0]
    numbers = later.columns.drop(["w_geocode", "h_geocode", "createdate"]).to_list()
    return later.groupby(["w_geocode", "h_geocode", "createdate"], as_index=False)[numbers].sum()[
        jobs.columns
    ]


@pytest.fixture(scope="module")
def later_file(later_jobs: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("later") / "demo_od_main_JT00_2019.csv.gz"
    later_jobs.to_csv(path, index=False)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def later(made: Made, later_file: Path) -> Release:
    return made(3, BY_INDUSTRY, jobs=later_file)


def tables_of(files: Mapping[str, Path]) -> dict[str, pd.DataFrame]:
    return {words: pd.read_csv(path, dtype=CODES) for words, path in files.items() if path.suffix == ".csv"}


def true_counts(jobs: pd.DataFrame, rows: pd.DataFrame, digits: int = 11) -> np.ndarray:
    """The true count of each row of a table by tract, or by areas of so many digits."""
    sides = [side for side in ("work", "home") if side in rows]
    areas = [jobs[f"{side[0]}_geocode"].str[:digits] for side in sides]
    counts = jobs.groupby(areas)["S000"].sum()
    index = pd.MultiIndex.from_frame(rows[sides]) if len(sides) > 1 else pd.Index(rows[sides[0]])
    return counts.reindex(index).fillna(0).to_numpy().astype(np.int64)


def true_change(jobs: pd.DataFrame, later: pd.DataFrame, words: str, rows: pd.DataFrame) -> np.ndarray:
    """The true change of each row of a table, by tract or by block group, as the words of the table say."""
    digits = 11 if "trct" in words else 12
    return true_counts(later, rows, digits) - true_counts(jobs, rows, digits)


def held(rows: pd.DataFrame, true: np.ndarray | int) -> np.ndarray:
    """Whether the interval of each row holds a number."""
    return ((rows["low"] <= true) & (true <= rows["high"])).to_numpy()


def test_releases_of_the_same_jobs_differ_by_noise(made: Made, first: Release, tmp_path: Path) -> None:
    """Of all pairs of some: rows of one pair go with each other."""
    releases = [first, *map(made, (2, 9, 10))]
    rows = []
    for number, (a, b) in enumerate(itertools.combinations(releases, 2)):
        tables = tables_of(pipelines.compare(a, b, tmp_path / str(number), home="trct"))
        rows += [tables["residents of trct"], tables["trct to trct"]]
    every = pd.concat(rows)
    assert 0.87 < held(every[every["low"] < every["high"]], 0).mean() < 1


def test_rows_and_read_me_say_what_changed(first: Release, again: Release, tmp_path: Path) -> None:
    files = pipelines.compare(first, again, tmp_path / "same")
    tables = tables_of(files)
    assert [*tables] == [
        words.format(level)
        for level in ("trct", "bgrp")
        for words in ("residents of {0}", "jobs of {0}", "{0} to {0}")
    ]
    assert {path.name for path in files.values()} == {path.name for path in (tmp_path / "same").iterdir()}
    said = " ".join(files["read-me"].read_text(encoding="utf-8").split())
    for words, rows in tables.items():
        wide, beyond = rows["low"] < rows["high"], (rows["low"] > 0) | (rows["high"] < 0)
        assert (rows["beyond_noise"] == beyond).all()
        assert held(rows, rows["difference"]).all()
        number = f"{len(rows)} {wide.sum()} {beyond.sum()} up to about {-(-wide.sum() // 10)}"
        assert f"{files[words].name} {number}" in said
    released = first.flows("trct", "trct").merge(
        again.flows("trct", "trct"), "outer", ["work", "home"], suffixes=("_a", "_b")
    )
    flows = tables["trct to trct"]
    flows = flows[(flows["A"] > 0) | (flows["B"] > 0)].sort_values(["work", "home"])
    released = released.fillna(0).sort_values(["work", "home"])
    assert flows[["A", "B"]].to_numpy().tolist() == released[["S000_a", "S000_b"]].to_numpy().tolist()
    jobs = tables["jobs of trct"]
    assert (jobs[["difference", "low", "high"]] == 0).all(axis=None)
    assert (jobs["A"] == jobs["B"]).all()


def test_a_large_change_is_beyond_noise_and_exact_numbers_have_exact_differences(
    first: Release,
    later: Release,
    jobs: pd.DataFrame,
    later_jobs: pd.DataFrame,
    moved: tuple[str, str],
    tmp_path: Path,
) -> None:
    files = pipelines.compare(first.public, str(later.out), tmp_path / "change")
    tables = tables_of(files)
    exact = {words: rows for words, rows in tables.items() if "jobs of" in words}
    assert exact
    for words, rows in exact.items():
        true = true_change(jobs, later_jobs, words, rows)
        assert (rows[["difference", "low", "high"]].to_numpy() == true[:, np.newaxis]).all()
        assert (rows["beyond_noise"] == (true != 0)).all()
        assert (true != 0).any()
    residents = tables["residents of trct"].set_index("home")
    assert residents["beyond_noise"][moved[0]]
    assert residents["high"][moved[0]] < 0 < residents["difference"][moved[1]]
    picture = imread(files["map of trct"])
    assert min(picture.shape[:2]) > 700
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 10


def test_intervals_hold_a_large_change(
    made: Made,
    first: Release,
    later: Release,
    jobs: pd.DataFrame,
    later_jobs: pd.DataFrame,
    later_file: Path,
    tmp_path: Path,
) -> None:
    """Of eight later releases: of one, it depended on how a processor rounds sums."""
    right = []
    for release in (later, *(made(seed, BY_INDUSTRY, jobs=later_file) for seed in range(11, 18))):
        tables = tables_of(
            pipelines.compare(first.public, release.public, tmp_path / release.out.parent.name)
        )
        right += [
            held(rows, true_change(jobs, later_jobs, words, rows))
            for words, rows in tables.items()
            if "jobs of" not in words
        ]
    assert np.concatenate(right).mean() >= 0.85


@pytest.mark.parametrize("most", [0, 1, 2, 4, 10, 501, 99_999])
def test_the_legend_has_every_change_once(most: int) -> None:
    edges = _edges(np.array([most // 2, -most]))
    words = {number: label.replace(",", "") for number, _, label in _classes(edges, phrases(ENGLISH))}
    assert words.pop(0) == "within noise"
    for change in {*range(1, most + 1, max(1, most // 500)), most} - {0}:
        number = int(np.searchsorted(edges, change))
        for sign, side in ((1, "more"), (-1, "fewer")):
            *ends, word = words[sign * number].replace(" to ", " ").split()
            assert word == side
            assert int(ends[0]) <= change <= int(ends[-1])


def test_tables_by_an_attribute_add_up_where_numbers_are_exact(
    first: Release, later: Release, tmp_path: Path
) -> None:
    drawn = (table.attributes[0] for table in first.draws().tables if table.work and table.attributes)
    by = next(drawn)
    files = pipelines.compare(first, later, tmp_path / "by", work="trct", by=by)
    tables = tables_of(files)
    jobs = tables[f"jobs of trct by {by}"].groupby("work")[["A", "B", "difference"]].sum()
    assert (jobs == tables["jobs of trct"].set_index("work")[["A", "B", "difference"]]).all(axis=None)
    flows = tables[f"trct to trct by {by}"].groupby(["work", "home"])[["A", "B"]].sum()
    alone = tables["trct to trct"].set_index(["work", "home"])[["A", "B"]]
    assert (alone == flows.reindex(alone.index, fill_value=0)).all(axis=None)
    assert set(tables[f"residents of trct by {by}"][by]) == {*first.categories[by]}
    (other, *_) = {*first.categories} - {by}
    files = pipelines.compare(first, later, tmp_path / "other", work="trct", by=other)
    assert f"jobs of trct by {other}" in files
    said = " ".join(files["read-me"].read_text(encoding="utf-8").split())
    for words in (f"residents of trct by {other}", f"trct to trct by {other}"):
        assert words not in files
        assert f'{words} is left out. A: Nothing that was published tells homes apart by "{other}"' in said


def test_differences_are_those_of_the_draws_of_both(first: Release, again: Release, tmp_path: Path) -> None:
    files = pipelines.compare(first, again, tmp_path / "one", home="trct")
    other = pipelines.compare(again, first, tmp_path / "other", home="trct")
    one, other = tables_of(files)["trct to trct"], tables_of(other)["trct to trct"]
    assert (one[["low", "high"]].to_numpy() == -other[["high", "low"]].to_numpy()).all()
    drawn = [side.draws().implicates("trct", "trct").set_index(["work", "home"]) for side in (first, again)]
    expected = drawn[1].sub(drawn[0], fill_value=0).reindex(pd.MultiIndex.from_frame(one[["work", "home"]]))
    differences = expected.fillna(0).to_numpy()
    # Moved, but not spread further, or less.
    assert (np.abs(np.ptp(differences, axis=1) - (one["high"] - one["low"])) <= 1).all()
    assert held(one, one["difference"]).all()


def test_levels_above_may_differ(
    made: Made, first: Release, small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Then areas have other numbers in both releases; they are compared by their codes."""
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    crosswalk["zone"] = (99999 - crosswalk["cty"].astype(int)).astype("str")
    crosswalk.to_csv(tmp_path / "xwalk.csv", index=False)
    levels = {"geography.levels": ["st", "zone", "cty", "trct", "bgrp"]}
    other = made(4, levels, {"geography.file": tmp_path / "xwalk.csv"})
    assert not other.geography.block_codes.equals(first.geography.block_codes)
    tables = tables_of(pipelines.compare(first, other, tmp_path / "levels", home="bgrp"))
    assert (tables["jobs of bgrp"]["A"] == tables["jobs of bgrp"]["B"]).all()
    released = other.flows("bgrp", "bgrp").set_index(["work", "home"])["S000"]
    flows = tables["bgrp to bgrp"].set_index(["work", "home"])
    assert (flows["B"] == released.reindex(flows.index, fill_value=0)).all()
    assert held(flows, 0).mean() >= 0.85


@pytest.fixture(scope="module")
def kinds(made: Made, microdata_jobs: Callable[..., Any]) -> Callable[[str, int], Release]:
    """A release of the microdata in which "home" or whole "records" are protected."""
    kind = KIND["records"]

    def release(protects: str, seed: int) -> Release:
        with pytest.MonkeyPatch.context() as patch:
            if protects == "home":
                return made(seed, microdata_jobs("csv"), GEOMETRIC)
            kind.choose(patch)
            return made(seed, microdata_jobs("csv"), kind.changes)

    return release


def test_of_whole_records_jobs_by_workplace_are_compared(
    kinds: Callable[[str, int], Release], tmp_path: Path
) -> None:
    """The noise of both is independent, and that of exact numbers is none."""
    one, other, exact = kinds("records", 5), kinds("records", 6), kinds("home", 7)
    files = pipelines.compare(one, other, tmp_path / "records", work="trct", by="age")
    said = files["read-me"].read_text(encoding="utf-8")
    assert said.count("have noise of a known law") == 2
    tables = {words: rows for words, rows in tables_of(files).items() if words.startswith("jobs of ")}
    assert [*tables] == ["jobs of trct", "jobs of trct by age"]
    (mean, variance), (mean_b, variance_b) = (
        (told[0].ravel() for told in WorkplaceIntervals(side).told(units_of_blocks(side.plan, "trct"), ()))
        for side in (one, other)
    )
    rows, side = tables["jobs of trct"], 1.645 * np.sqrt(variance + variance_b)
    assert (rows["low"] == np.floor(mean_b - mean - side)).all()
    assert (rows["high"] == np.ceil(mean_b - mean + side)).all()
    assert held(pd.concat(tables.values()), 0).mean() >= 0.85
    rows = tables_of(pipelines.compare(exact, other, tmp_path / "exact", work="trct"))["jobs of trct"]
    side = 1.645 * np.sqrt(variance_b)
    assert (rows["low"] == np.floor(mean_b - rows["A"] - side)).all()
    assert (rows["high"] == np.ceil(mean_b - rows["A"] + side)).all()
    homes = tables_of(pipelines.compare(one, other, tmp_path / "homes", home="trct"))
    assert {"residents of trct", "trct to trct"} <= {*homes}


def test_what_cannot_be_compared_is_refused_and_both_are_named(
    made: Made,
    first: Release,
    again: Release,
    zoned_release: Release,
    british_release: Release,
    small_region: dict[str, Path],
    tmp_path: Path,
) -> None:
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    cut = crosswalk["bgrp"].mode()[0]
    crosswalk["bgrp"] = crosswalk["bgrp"].where(crosswalk["bgrp"] != cut, cut[:-1] + "9")
    crosswalk.to_csv(tmp_path / "xwalk.csv", index=False)
    renamed = made(8, {"geography.file": tmp_path / "xwalk.csv"})
    target = tmp_path / "refused"
    for others, more, said in (
        ((first, first), {}, "the same release"),
        ((first, zoned_release), {}, "different populations .*: A residents, B all"),
        ((first, british_release), {}, "different (populations|blocks)"),
        (
            (first, renamed),
            {"home": "bgrp"},
            "areas 'bgrp' of A and B differ.*choose one of these: st, cty, trct",
        ),
        ((first, again), {"home": "zcta"}, "has no areas 'zcta'"),
        ((first, again), {"home": "tabblk2010"}, "no table has draws of homes by tabblk2010"),
        ((first, again), {"by": "XX"}, "no attribute 'XX'; it has: "),
    ):
        with pytest.raises(PublicReleaseError, match=said) as caught:
            pipelines.compare(*others, target, **more)
        assert not target.exists()
        if others != (first, again):
            assert all(str(release.public) in str(caught.value) for release in others)
    with pytest.raises(PublicReleaseError, match="odsynth verify fail"):
        pipelines.compare(first, again, again.public / "change")
    files = pipelines.compare(first, renamed, tmp_path / "common")
    assert [*tables_of(files)] == ["residents of trct", "jobs of trct", "trct to trct"]
    said = " ".join(files["read-me"].read_text(encoding="utf-8").split())
    assert "bgrp is left out: the areas 'bgrp' of A and B differ" in said
    assert not any(str(release.public) in said for release in (first, renamed))


def test_a_comparison_is_in_the_language_of_both_releases(
    made: Made, again: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else in English. Names of files and columns are the same, and no sentence is."""
    german = made(1, {"release.language": "de"}), made(2, {"release.language": "de"})
    drawn: list[str] = []
    save = Figure.savefig

    def keep(figure: Figure, *args: Any, **more: Any) -> None:
        save(figure, *args, **more)
        drawn.append(" ".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)))

    monkeypatch.setattr(Figure, "savefig", keep)
    files, said = [], []
    for number, pair in enumerate([german, (german[0], again)]):
        files.append(pipelines.compare(*pair, tmp_path / str(number), home="trct", by="SE"))
        lines = files[-1]["read-me"].read_text(encoding="utf-8").splitlines()
        lines = [line for line in lines if not line.startswith(("A: ", "B: "))]
        picture = drawn[-1]
        for release in pair:
            picture = picture.replace(release.content_sha256[:12], "")  # whose letters are words by chance
        said.append([{*re.findall(r"[^\W\d]{4,}", text)} for text in ("\n".join(lines), picture)])
    assert [*files[0]] == [*files[1]]
    names = {"home", "work", "high", "difference", "beyond_noise", "True", "minus", "trct", "Small", "region"}
    names |= {*re.findall(r"[^\W\d]{4,}", " ".join(path.name for path in files[0].values()))}
    for german_words, english_words in zip(*said, strict=True):
        assert german_words & english_words <= names


def test_the_command_writes_what_its_page_says_and_replaces_nothing(
    first: Release, again: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "compare",
        str(first.public),
        str(again.public),
        "--to",
        str(tmp_path / "change"),
        "--home",
        "trct",
    ]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    names = {"README.txt", "map_trct.png", "residents_trct.csv", "jobs_trct.csv", "flows_trct_to_trct.csv"}
    assert {path.name for path in (tmp_path / "change").iterdir()} == names
    assert all(name in result.output for name in names)
    assert "beyond noise" in result.output
    rows = pd.read_csv(tmp_path / "change" / "flows_trct_to_trct.csv", dtype=CODES)
    columns = ["work", "home", "A", "B", "difference", "low", "high", "beyond_noise"]
    assert rows.columns.to_list() == columns
    said = (tmp_path / "change" / "README.txt").read_text(encoding="utf-8")
    assert str(first.public) not in said
    again_ = CliRunner().invoke(main, words)
    assert again_.exit_code == 1
    assert "is there already" in again_.output
    # Versions at a service are downloaded into folders beside each other.
    contents = {release.content_sha256: release for release in (first, again)}
    for content, release in contents.items():
        shutil.copytree(release.public, tmp_path / "cache" / content)
    monkeypatch.setattr(
        download, "download", lambda address, _: tmp_path / "cache" / address.rsplit("/", 1)[-1]
    )
    addresses = [f"https://data.example.org/releases/small/{content}" for content in contents]
    result = CliRunner().invoke(
        main, ["compare", *addresses, "--to", str(tmp_path / "far"), "--home", "trct"]
    )
    assert result.exit_code == 0, result.output
    for name in names:
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "change" / name).read_bytes()
    missing = CliRunner().invoke(main, [*words[:2], str(tmp_path / "none"), "--to", str(tmp_path / "new")])
    assert missing.exit_code == 1
    assert "certificate.json" in missing.output


@pytest.fixture(scope="module")
def recoded(
    made: Made, jobs: pd.DataFrame, small_region: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Release, Path]:
    """A release of the same jobs by blocks of 2020, and the file that relates them to those of 2010.

    The first tract is split, the second and third are merged, half of the fourth went to the fifth, and the
    sixth is as it was.
    """
    folder = tmp_path_factory.mktemp("recoded")
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    tract = crosswalk["trct"].rank(method="dense").astype(int)
    half, codes = crosswalk.groupby("trct").cumcount() % 2 == 0, sorted(crosswalk["trct"].unique())
    now = crosswalk["trct"].mask((tract == 1) & half, codes[0][:-2] + "50")
    now = now.mask(tract == 3, codes[1]).mask((tract == 4) & half, codes[4])
    number = "1" + now.groupby(now).cumcount().astype("str").str.zfill(3)
    code = dict(zip(crosswalk["tabblk2010"], now + number, strict=True))
    pairs = pd.DataFrame({"blk2010ge": [*code], "blk2020ge": [*code.values()], "weight": "1"})
    pairs.loc[len(pairs)] = pairs["blk2010ge"].iloc[0], pairs["blk2020ge"].iloc[-1], "0.12"  # a strip
    pairs.to_csv(folder / "relationship.csv", index=False)
    later = crosswalk.assign(tabblk2020=now + number, trct=now, cty=now.str[:5], bgrp=now + "1")
    later.drop(columns=["tabblk2010", "trctname", "bgrpname"]).to_csv(folder / "xwalk.csv", index=False)
    sides = {side: jobs[side].map(code) for side in ("w_geocode", "h_geocode")}
    jobs.assign(**sides).to_csv(folder / "od.csv.gz", index=False)
    (folder / "od.csv.gz").chmod(0o600)
    files = {"geography.file": folder / "xwalk.csv", "geography.block": "tabblk2020"}
    without = {"geography.polygons": None, "auxiliary.1": None, "weights": None}
    release = made(21, BY_INDUSTRY, files, without, jobs=folder / "od.csv.gz")
    return release, folder / "relationship.csv"


def test_changed_areas_are_compared_by_groups_and_the_loss_is_said(
    first: Release, recoded: tuple[Release, Path], tmp_path: Path
) -> None:
    """The jobs of both are the same, so whatever a group has, nothing changed in it."""
    later, relationship = recoded
    with pytest.raises(PublicReleaseError, match=r"different blocks \(A tabblk2010, .*--relationship"):
        pipelines.compare(first, later, tmp_path / "refused")
    files = pipelines.compare(first, later, tmp_path / "groups", home="trct", relationship=relationship)
    tables = tables_of(files)
    areas = pd.read_csv(files["groups of trct"], dtype="str")
    groups = {letter: some.groupby("group")["area"].agg(list) for letter, some in areas.groupby("release")}
    one, two, three, four, five, six = sorted(first.geography.codes("trct"))
    assert groups["A"].to_dict() == {
        f"{one}*": [one],
        f"{two}*": [two, three],
        f"{four}*": [four, five],
        six: [six],
    }
    assert groups["B"][f"{one}*"] == [one, one[:-2] + "50"]
    jobs = tables["jobs of trct"]
    assert (jobs[["difference", "low", "high"]] == 0).all(axis=None)
    assert (jobs["A"] == jobs["B"]).all()
    for words in ("residents of trct", "trct to trct"):
        for letter, release in (("A", first), ("B", later)):
            assert tables[words][letter].sum() == release.flows("trct", "trct")["S000"].sum()
    assert held(tables["trct to trct"], 0).mean() >= 0.75
    said = " ".join(files["read-me"].read_text(encoding="utf-8").split())
    residents = tables["residents of trct"].set_index("home")
    changed = residents[residents.index != six].sum()
    for words in (
        "1 pair of areas in the relationship file joins nothing",
        "They have 0.1 % of all that areas share",
        "trct: 6 areas of A and 6 of B are compared as 4 groups",
        "3 groups have several areas of A or of B, in all 5 of A and 5 of B",
        f"residents of trct, as released: {changed['A']} in A, {changed['B']} in B",
    ):
        assert words in said
    assert imread(files["map of trct"]).shape[0] > 700


def test_a_file_that_joins_nearly_all_is_refused_with_the_numbers(
    first: Release, again: Release, recoded: tuple[Release, Path], tmp_path: Path
) -> None:
    later, relationship = recoded
    pairs = pd.read_csv(relationship, dtype="str")
    chain = pairs.assign(blk2020ge=np.roll(pairs["blk2020ge"], 1))
    pd.concat([pairs, chain]).drop_duplicates(["blk2010ge", "blk2020ge"]).to_csv(
        tmp_path / "chain.csv", index=False
    )
    with pytest.raises(PublicReleaseError, match="joins the 6 areas 'trct' of A and 6 of B to 1 group"):
        pipelines.compare(first, later, tmp_path / "no", home="trct", relationship=tmp_path / "chain.csv")
    with pytest.raises(PublicReleaseError, match="without a relationship file"):
        pipelines.compare(first, again, tmp_path / "no", relationship=relationship)
    command = [
        "compare",
        str(first.public),
        str(later.public),
        "--to",
        str(tmp_path / "made"),
        "--home",
        "cty",
    ]
    named = ["--relationship", str(relationship), "--columns", "blk2010ge,blk2020ge"]
    result = CliRunner().invoke(main, [*command, *named])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(main, [*command, *named[2:]]).exit_code == 2
