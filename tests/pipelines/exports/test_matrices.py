"""OMX files, opened by openmatrix, which stands on another HDF5 library than the writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openmatrix
import pandas as pd
import pytest

from pipelines.exports import ExportError, Source, export

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
        assert sorted(file.list_mappings()) == ["home", "work"]
        for side in ("home", "work"):
            assert [code.decode() for code in file.map_entries(side)] == codes.tolist()
        np.testing.assert_array_equal(file["S000"][:], expected)
        for name in source.counts:
            assert file[name][:].sum() == rows[name].sum()
        # Homes are rows: a cell found by the lookups alone.
        (work, home), workers = next(iter(tract_flows[tract_flows > 1].items()))
        cell = file.mapping("home")[home.encode()], file.mapping("work")[work.encode()]
        assert file["S000"][cell] == workers
        outside = [file.mapping("home")[code] for code in (b"09999999999", b"25999999999")]
        assert file["S000"][outside, :].sum() == rows["h_geocode"].str[:2].isin(["09", "25"]).dot(
            rows["S000"]
        )
        assert file["S000"][:, outside].sum() == 0
        assert file.root._v_attrs["plan_sha256"].decode() == source.release.certificate.plan_sha256


def test_levels_may_differ(exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported("omx", "cty", "trct")
    by_county = tract_flows.groupby(["work", tract_flows.index.get_level_values("home").str[:5]]).sum()
    expected = matrix(by_county, *(source.release.geography.codes(level) for level in ("cty", "trct")))
    with openmatrix.open_file(str(folder / "demo_flows_cty_to_trct_JT00_2019.omx")) as file:
        assert file.shape() == expected.shape
        np.testing.assert_array_equal(file["S000"][:], expected)


@pytest.mark.parametrize("cells", [1, 8, 20])
def test_stripes_of_rows_are_the_whole(
    cells: int, exported: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.exports.matrices._CELLS", cells)
    folder, source = exported("omx")
    expected = np.zeros((source.release.geography.n_units("trct"),) * 2, int)
    expected[source.flows["home"], source.flows["work"]] = source.flows["SE02"]
    with openmatrix.open_file(str(folder / "demo_flows_trct_to_trct_JT00_2019.omx")) as file:
        np.testing.assert_array_equal(file["SE02"][:], expected)


def test_too_many_zones(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.exports.matrices.MOST_ZONES", 100)
    with pytest.raises(ExportError, match=r"tabblk2010 has 122 zones, and a matrix at most 100.*coarser"):
        export(public, ["csv", "omx"], tmp_path, home_level="tabblk2010", work_level="trct")
    assert list(tmp_path.iterdir()) == []
