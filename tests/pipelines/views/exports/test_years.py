"""Several years in one table of areas and one of flows: rows are those of releases; what mixes is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import geo_data
import pipelines
from helpers import same_key
from pipelines import PublicReleaseError, Release
from pipelines.cli.main import main

CODES = dict.fromkeys(("code", "home", "work"), "str")


@pytest.fixture(scope="module")
def years(
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[int, Release]:
    """Releases of 2018 and 2019; that of 2017 has other blocks."""
    folder = tmp_path_factory.mktemp("years")
    (folder / "other").mkdir()
    geo_data.write_demo_region(folder / "other", counties=2, tracts=6, blocks=126, jobs=600)

    def release(year: int, **more: Any) -> Release:
        region = folder / "other" if year == 2017 else small_region["od"].parent
        jobs = folder / small_region["od"].name.replace("2019", str(year))
        shutil.copyfile(region / small_region["od"].name, jobs)
        jobs.chmod(0o600)
        named = {"release.name": "Small region", "release.year": year, "release.out": f"release-{year}"}
        text = config_text(named, {"jobs.file": str(jobs)}, more)
        text = text.replace(str(small_region["od"].parent), str(region))
        return pipelines.run(pipelines.parse_config(text, folder, "small.toml"), key=same_key())

    return {year: release(year, **{"release.csv": year == 2019}) for year in (2017, 2018, 2019)}


def test_rows_are_those_of_the_releases(years: dict[int, Release], tmp_path: Path) -> None:
    """Also of a release without CSV files; CSV and Parquet have the same rows."""
    files = pipelines.export_years([years[2019], years[2018].public], tmp_path / "years")
    assert [*files] == ["README.txt", "areas.csv", "areas.parquet", "flows.csv", "flows.parquet"]
    for name in ("areas", "flows"):
        rows = pd.read_csv(files[f"{name}.csv"], dtype=CODES, keep_default_na=False)
        assert rows.equals(pd.read_parquet(files[f"{name}.parquet"]).astype(rows.dtypes))
        assert rows["year"].drop_duplicates().to_list() == [2018, 2019]
        of_2019 = rows[rows["year"] == 2019].reset_index(drop=True)
        assert (of_2019["version"] == years[2019].version).all()
        own = pd.read_csv(years[2019].public / f"{name}.csv", dtype=CODES, keep_default_na=False)
        assert of_2019.drop(columns=["year", "version"]).equals(own)
    flows = pd.read_parquet(files["flows.parquet"])
    flows = flows[(flows["year"] == 2018) & (flows["level"] == "cty")].reset_index(drop=True)
    draws = years[2018].draws().flows("cty", "cty").set_index(["home", "work"])
    columns = ["estimate", "low", "high"]
    assert flows.set_index(["home", "work"])[columns].sort_index().equals(draws[columns].sort_index())
    text = files["README.txt"].read_text()
    for year in (2018, 2019):
        assert years[year].version in text
        assert years[year].certificate.run.epsilon in text


def test_what_makes_no_series_is_refused(years: dict[int, Release], tmp_path: Path) -> None:
    for named, words in (
        ((2019,), "1 release makes no series"),
        ((2019, 2019), "are the same release"),
        ((2019, 2017), "different blocks"),
    ):
        publics = [years[year].public for year in named]
        with pytest.raises(PublicReleaseError, match=words) as error:
            pipelines.export_years(publics, tmp_path / "years")
        assert len(named) == 1 or all(str(public) in str(error.value) for public in publics)
        assert not (tmp_path / "years").exists()


def test_the_command(years: dict[int, Release], tmp_path: Path) -> None:
    publics = [str(years[year].public) for year in (2018, 2019)]

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["export", *arguments, "--to", str(tmp_path / "to")])

    assert "several PUBLIC are for --format years" in call(*publics, "--format", "csv").output
    assert "stands alone" in call(*publics, "--format", "years", "--home-level", "cty").output
    assert not (tmp_path / "to").exists()
    done = call(*publics, "--format", "years")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "to" / "years" / "areas.parquet").is_file()
