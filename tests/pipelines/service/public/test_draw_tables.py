"""Draws that are ready for questions say what the file of the release says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pipelines
from pipelines.service.public.draw_tables import MappedDraws, write_draw_tables
from pipelines.views.release import Release


@pytest.fixture(scope="module")
def folder(industry_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("prepared") / "draws"
    write_draw_tables(industry_release, made)
    return made


def test_tables_are_those_of_the_release(industry_release: Release, folder: Path) -> None:
    """Of residents, of flows, by an attribute, of all areas and of some on either side."""
    draws, mapped = industry_release.draws(), MappedDraws(industry_release, folder)
    tracts = industry_release.geography.codes("trct")
    few, most = dict.fromkeys(tracts[:2], "few"), dict.fromkeys(tracts[2:], "most")
    for table in draws.tables:
        asked = (table.home, table.work, table.attributes), ("cty", table.work and "cty", table.attributes)
        for ask in asked:
            pd.testing.assert_frame_equal(mapped.flows(*ask), draws.flows(*ask))
    for home, work in ((few, "trct"), ("trct", few), (few, most), (most, few), (most, most)):
        pd.testing.assert_frame_equal(mapped.flows(home, work), draws.flows(home, work))
    nobody = np.zeros(0, np.int64)
    assert mapped.cells("trct", "trct", homes=nobody).counts.shape == (draws.draws, 0)


def test_a_release_without_draws_has_no_tables(public_copy: Path, tmp_path: Path) -> None:
    (public_copy / "intervals.parquet").unlink()
    write_draw_tables(pipelines.open_release(public_copy), tmp_path / "draws")
    assert list((tmp_path / "draws").iterdir()) == []
