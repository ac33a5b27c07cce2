"""Blocks and names as CSV: the rows of Parquet, for who reads nothing else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import pipelines
from helpers import alone, refused, seal_again
from pipelines.release.csv_tables import BLOCK_CSV, NAME_CSV, check_csv_tables, write_csv_tables

pytestmark = pytest.mark.quick

Change = Callable[[str], str]


@pytest.mark.parametrize("name", [BLOCK_CSV, NAME_CSV])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("01", "1", 1),
        lambda text: text[: text.rindex("\n", 0, -1) + 1],
        lambda text: text + text.splitlines(keepends=True)[-1],
        lambda text: text + "hidden",
        lambda text: text.replace(",", ";"),
        lambda text: text.split("\n", 1)[1],
    ],
    ids=["zero lost", "row lost", "row twice", "more", "other marks", "no head"],
)
def test_other_rows_than_those_of_parquet_are_refused(public_copy: Path, name: str, change: Change) -> None:
    path = public_copy / name
    text = path.read_text(encoding="utf-8")
    assert change(text) != text
    path.write_text(change(text), encoding="utf-8")
    seal_again(public_copy)
    assert refused(public_copy).check == "CSV"
    assert f"{name} and" in str(alone(public_copy))


@pytest.mark.parametrize("name", [BLOCK_CSV, NAME_CSV])
def test_one_that_is_missing_is_missed(public_copy: Path, name: str) -> None:
    (public_copy / name).unlink()
    seal_again(public_copy)
    assert refused(public_copy).check == "texts"
    assert name in str(alone(public_copy))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Names and codes that a careless reader loses."""
    (tmp_path / "plan").mkdir()
    blocks = {
        "zone": ["01", "NA", "1e5", "99"],
        "latitude": [0.1, -1e-05, 1 / 3, None],
        "weight": [1, 2, 3, 2**62],
    }
    names = {
        "level": ["zone"] * 3,
        "code": ["01", "NA", "1e5"],
        "name": ['Côté, "Nord"', "NA", "Łódź; Süd's #1"],
    }
    pd.DataFrame(blocks).to_parquet(tmp_path / "plan" / "blocks.parquet", index=False)
    pd.DataFrame(names).to_parquet(tmp_path / "names.parquet", index=False)
    write_csv_tables(tmp_path)
    return tmp_path


def test_every_code_name_and_number_is_as_in_parquet(folder: Path) -> None:
    check_csv_tables(folder)
    for name, source in {BLOCK_CSV: "plan/blocks.parquet", NAME_CSV: "names.parquet"}.items():
        table = pd.read_parquet(folder / source)
        codes = {column: "str" for column in table if column not in ("latitude", "weight")}
        read = pd.read_csv(folder / name, dtype=codes, na_values="", keep_default_na=False)
        pd.testing.assert_frame_equal(read, table, check_dtype=False, check_exact=True)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not on the PATH")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_base_r_reads_every_code_and_name(folder: Path, locale: str) -> None:
    (folder / "read.R").write_text(
        'table <- function(file) read.csv(file, colClasses = "character", na.strings = "", '
        'encoding = "UTF-8")\n'
        'blocks <- table("blocks.csv")\nareas <- table("names.csv")\n'
        "codes <- match(areas$code, blocks$zone)\n"
        'con <- file("again.txt", "wb")\n'
        "writeLines(c(areas$name, codes, blocks$latitude), con, useBytes = TRUE)\n"
    )
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "LC_ALL": locale}
    done = subprocess.run(
        ["Rscript", "read.R"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names = pd.read_parquet(folder / "names.parquet")["name"].tolist()
    again = (folder / "again.txt").read_text(encoding="utf-8").splitlines()
    assert again == [*names, "1", "2", "3", "0.1", "-1e-05", "0.3333333333333333", "NA"]


def test_a_release_without_csv_has_none(
    small_config: Callable[..., pipelines.ReleaseConfig], clean_source: object
) -> None:
    release = pipelines.run(small_config({"release.csv": False}))
    assert not [*release.public.rglob("*.csv")]
    assert alone(release.public) is None
