"""OMX files, opened by openmatrix, which stands on another HDF5 library than the writer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import openmatrix
import pandas as pd
import pytest

from pipelines import open_release
from pipelines.views.exports import matrices
from pipelines.views.exports.matrices import write_omx
from pipelines.views.exports.source import Source
from pipelines.views.pages import phrases

Exporter = Callable[..., tuple[Path, Source]]


def matrix(flows: pd.Series, homes: np.ndarray, works: np.ndarray) -> np.ndarray:
    cells = np.zeros((len(homes), len(works)), int)
    for (work, home), workers in flows.items():
        cells[homes.tolist().index(home), works.tolist().index(work)] = workers
    return cells


def test_a_matrix_for_each_count(exported: Exporter, tract_flows: pd.Series, rows: pd.DataFrame) -> None:
    folder, source = exported("omx")
    codes = source.release.geography.codes("trct")
    expected = matrix(tract_flows, codes, codes)
    with openmatrix.open_file(str(folder / "demo_flows_trct_to_trct_JT00_2019.omx")) as file:
        assert file.version() == b"0.2"
        assert file.shape() == (len(codes), len(codes))
        assert sorted(file.list_matrices()) == sorted(source.counts)
        assert file.list_mappings() == ["zone"]  # ActivitySim takes no two that differ
        assert file.map_entries("zone") == list(range(1, len(codes) + 1))
        zones = pd.read_csv(folder / "demo_zones_trct_JT00_2019.csv", dtype={"code": "str"})
        assert zones["code"].tolist() == codes.tolist()
        assert zones["zone"].tolist() == file.map_entries("zone")
        inside = file.root.zones.zone
        assert [code.decode() for code in inside.code] == codes.tolist()
        assert [name.decode() for name in inside.name] == source.zones["trct"]["name"].tolist()
        np.testing.assert_array_equal(file["S000"][:], expected)
        for name in source.counts:
            assert file[name][:].sum() == rows[name].sum()
        # Homes are rows: a cell found by the lookup alone.
        row = file.mapping("zone")
        number = dict(zip(zones["code"], zones["zone"], strict=True))
        (work, home), workers = next(iter(tract_flows[tract_flows > 1].items()))
        cell = row[number[home]], row[number[work]]
        assert file["S000"][cell] == workers
        outside = [row[number[code]] for code in ("09999999999", "25999999999")]
        assert file["S000"][outside, :].sum() == rows["h_geocode"].str[:2].isin(["09", "25"]).dot(
            rows["S000"]
        )
        assert file["S000"][:, outside].sum() == 0
        for name, text in source.about.items():
            assert file.root._v_attrs[name].decode() == text
        assert b"age 29 or younger" in file["SA01"].attrs["description"]


def test_levels_may_differ(exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported("omx", "cty", "trct")
    by_county = tract_flows.groupby(["work", tract_flows.index.get_level_values("home").str[:5]]).sum()
    expected = matrix(by_county, *(source.release.geography.codes(level) for level in ("cty", "trct")))
    with openmatrix.open_file(str(folder / "demo_flows_cty_to_trct_JT00_2019.omx")) as file:
        assert file.shape() == expected.shape
        assert sorted(file.list_mappings()) == ["home", "work"]
        for side, level in source.levels.items():
            codes = source.release.geography.codes(level)
            assert file.map_entries(side) == list(range(1, len(codes) + 1))
            assert [code.decode() for code in file.root.zones._f_get_child(side).code] == codes.tolist()
        np.testing.assert_array_equal(file["S000"][:], expected)


def test_the_read_me_says_whether_there_is_one_zone_system(exported: Exporter) -> None:
    for levels, words in ((("trct", "trct"), "have one zone system"), (("cty", "trct"), "are not square")):
        readme = (exported("omx", *levels)[0] / "README.txt").read_text(encoding="utf-8")
        assert [text in readme for text in ("have one zone system", "are not square")].count(True) == 1
        assert words in readme
        assert "External zones are zones, too" in readme


def test_only_tiles_with_flows_are_in_the_file(public: Path, rows: pd.DataFrame, tmp_path: Path) -> None:
    """At the level of blocks; the matrix in slices is that of the rows of the release."""
    block = "tabblk2010"
    source = Source(open_release(public), block, block, tmp_path, batch_rows=10)
    codes = source.release.geography.codes(block)
    path = tmp_path / f"demo_flows_{block}_to_{block}_JT00_2019.omx"
    expected = {
        name: matrix(rows.groupby(["w_geocode", "h_geocode"])[name].sum(), codes, codes)
        for name in ("S000", "SE02")
    }
    for side in (1, 4, 7):
        write_omx(source, tmp_path, side)
        for name, cells in expected.items():
            with openmatrix.open_file(str(path)) as file:
                slices = [file[name][first : first + 10, :] for first in range(0, len(codes), 10)]
                np.testing.assert_array_equal(np.vstack(slices), cells)
            homes, works = np.nonzero(cells)
            with h5py.File(path) as file:
                tiles = file["data"][name].id.get_num_chunks()
            assert tiles == len(set(zip(homes // side, works // side, strict=True)))
            assert 0 < tiles < np.ceil(len(codes) / side) ** 2


def source_of(zones: list[str], flows: pd.DataFrame) -> Any:
    """What `write_omx` needs of a `Source` with these codes and flows."""
    codes = np.array(zones, object)
    source: Any = SimpleNamespace(
        release=SimpleNamespace(
            geography=SimpleNamespace(codes=lambda _: codes, external_homes=(), external_workplaces={})
        ),
        say=phrases("en"),
        home_level="block",
        work_level="block",
        levels={"home": "block", "work": "block"},
        counts=[name for name in flows if name not in ("work", "home")],
        about={},
        meanings=defaultdict(str),
        meanings_of=lambda names: dict.fromkeys(names, ""),
        numbers=lambda level: Source.numbers(source, level),
        points=lambda _: pd.DataFrame({"code": codes}),
        flows=lambda: iter([flows[:30], flows[30:]]),
        flows_name="flows",
        name=lambda what, suffix: f"{what}.{suffix}",
    )
    return source


@pytest.mark.filterwarnings("ignore::tables.NaturalNameWarning")
def test_whole_numbers_are_the_lookup_and_every_category_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes come in the order of text: 1, 10, 11, 12, 2."""
    monkeypatch.setattr(matrices, "write_zone_table", lambda *_: None)
    codes = sorted(map(str, range(1, 13)))
    names = {
        "S000": "S000",
        "_i_x": "%5Fi_x",
        "pay_a": "pay_a",
        "pay_a%2Fb": "pay_a%252Fb",
        "pay_a/b": "pay_a%2Fb",
        "pay_n.a.": "pay_n.a%2E",
        "pay_z": "pay_z",
    }
    work, home = np.divmod(np.arange(144), 12)
    jobs = {name: number * np.arange(144) for number, name in enumerate(names, 1)}
    write_omx(source_of(codes, pd.DataFrame({"work": work, "home": home} | jobs)), tmp_path, side=5)
    with openmatrix.open_file(str(tmp_path / "flows.omx")) as file:
        assert file.map_entries("zone") == [*range(1, 13)]
        assert [code.decode() for code in file.root.zones.zone.code] == [*map(str, range(1, 13))]
        assert sorted(file.list_matrices()) == sorted(names.values())
        row, column = (file.mapping("zone")[code] for code in (10, 3))
        for number, name in enumerate(names.values(), 1):
            assert file[name][row, column] == number * (12 * codes.index("3") + codes.index("10"))
            assert file[name][:].sum() == number * np.arange(144).sum()


def test_a_large_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of 300,000 x 300,000 cells, 360 GB in memory, of which few are not 0."""
    zones = 300_000
    rng = np.random.default_rng(1)
    flows = pd.DataFrame(
        {
            "work": np.sort(rng.integers(0, zones, 100)).astype(np.int32),
            "home": rng.integers(0, zones, 100).astype(np.int32),
            "S000": rng.integers(1, 2**31 - 1, 100),
        }
    )
    monkeypatch.setattr(matrices, "write_zone_table", lambda *_: None)
    remarks = write_omx(source_of([f"{zone:015}" for zone in range(zones)], flows), tmp_path)
    path = tmp_path / "flows.omx"
    assert path.stat().st_size < 2 * zones * 16 + 1e6  # the lookups, and little more
    with openmatrix.open_file(str(path)) as file:
        assert file.shape() == (zones, zones)
        assert file.mapping("zone")[zones] == zones - 1
        total = 0
        for (home, work), jobs in flows.groupby(["home", "work"])["S000"].sum().items():
            part = file["S000"][home : home + 1, max(0, work - 5) : work + 5]
            assert jobs in part
            total += int(jobs)
        assert file["S000"][:0, :].shape == (0, zones)
    assert total == flows["S000"].sum()
    assert any("needs 360 GB" in remark for remark in remarks)


def test_a_small_matrix_needs_no_warning(exported: Exporter) -> None:
    assert " GB " not in (exported("omx")[0] / "README.txt").read_text(encoding="utf-8")
