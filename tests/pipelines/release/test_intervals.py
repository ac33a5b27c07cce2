"""Draws that a release carries: what they add up to, what follows from them, and forgeries of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipelines
from helpers import alone, refused, seal_again
from pipelines import Release
from pipelines.plans.measured import TableChoice
from pipelines.release.intervals import AREAS_FILE, DRAWS, FLOWS_FILE, INTERVALS_FILE, interval_tables
from pipelines.views.intervals import carrying

Edit = Callable[[pd.DataFrame], pd.DataFrame]


def test_tables_of_one_release_agree(small_release: Release) -> None:
    """Each is rounded by itself, so that an area of one is off by less than a job for each area added up."""
    tables = dict([*pd.read_parquet(small_release.public / INTERVALS_FILE).groupby("table")])
    assert [*tables] == sorted(table.name for table in interval_tables(small_release.plan))
    of_units = tables["trct to trct"].groupby("home")[[*DRAWS]].sum()
    for name, rows in tables.items():
        if name.startswith(("trct", "residents of trct")):
            of_table = rows.groupby("home")[[*DRAWS]].sum().reindex(of_units.index, fill_value=0)
            assert (of_table - of_units).abs().to_numpy().mean() < 3


def test_csv_files_are_sums_of_the_draws(small_release: Release) -> None:
    draws = pd.read_parquet(small_release.public / INTERVALS_FILE)
    flows = draws[draws["table"] == "trct to trct"]
    areas = pd.read_csv(small_release.public / AREAS_FILE, dtype={"code": str})
    pairs = pd.read_csv(small_release.public / FLOWS_FILE, dtype={"home": str, "work": str})
    assert set(areas["level"]) == set(pairs["level"]) == {"st", "cty", "trct"}
    home = flows["home"].iloc[0]
    living = flows.loc[flows["home"] == home, [*DRAWS]].sum()
    (row,) = areas[(areas["code"] == home) & (areas["count"] == "residents")].itertuples()
    assert (row.estimate, row.low, row.high) == (round(living.mean(), 1), living.min(), living.max())
    county = flows["home"].str[:5] == home[:5]
    inside = flows.loc[county & (flows["work"].str[:5] == home[:5]), [*DRAWS]].sum()
    (row,) = pairs[
        (pairs["level"] == "cty") & (pairs["home"] == home[:5]) & (pairs["work"] == home[:5])
    ].itertuples()
    assert (row.estimate, row.low, row.high) == (round(inside.mean(), 1), inside.min(), inside.max())


def test_a_resumed_or_repeated_release_has_the_same_draws(small_release: Release, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(small_release.public, tmp_path / "public"))
    before = (copy / INTERVALS_FILE).read_bytes()
    (copy / INTERVALS_FILE).unlink()
    carrying.carry_draws(Release.just_made(copy, small_release.plan), tmp_path)
    assert (copy / INTERVALS_FILE).read_bytes() == before


def test_draws_stay_where_recalibration_leaves_nobody(
    small_release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their jobs are public: they went to the last home of any draw."""
    files = []
    for weight in (1, 0):
        copy = Path(shutil.copytree(small_release.public, tmp_path / str(weight)))
        monkeypatch.setattr(carrying, "recalibrated", lambda flows, *_, weight=weight: weight * flows.counts)
        carrying.carry_draws(Release.just_made(copy, small_release.plan), tmp_path)
        files.append((copy / INTERVALS_FILE).read_bytes())
    assert files[0] == files[1]


def moved(rows: pd.DataFrame) -> pd.DataFrame:
    """Move a job of a draw to another workplace."""
    flows = rows.index[rows["table"] == "trct to trct"]
    other = flows[rows.loc[flows, "work"] != rows.loc[flows[0], "work"]][0]
    first = flows[rows.loc[flows, "draw_1"] > 0][0]
    step = pd.Series({first: -1, other: 1}).reindex(rows.index, fill_value=0)
    return rows.assign(draw_1=(rows["draw_1"] + step).astype("int32"))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (moved, "draws do not have the public numbers of jobs"),
        (lambda rows: rows.assign(draw_2=-rows["draw_2"]), "draws are negative"),
        (lambda rows: rows[rows["table"] != "trct to trct"], "not|numbers"),
        (lambda rows: rows.iloc[::-1], "in their order|bytes"),
        (lambda rows: rows.assign(home="99"), "areas that the release does not have"),
        (lambda rows: rows.assign(draw_20=rows["draw_1"]), "columns are not"),
    ],
)
def test_other_draws_are_refused(small_release: Release, tmp_path: Path, edit: Edit, words: str) -> None:
    copy = edited(small_release, tmp_path, edit(pd.read_parquet(small_release.public / INTERVALS_FILE)))
    error = refused(copy)
    assert error.check == "intervals"
    assert pd.Series(str(error)).str.contains(words).all()


def edited(release: Release, folder: Path, rows: pd.DataFrame) -> Path:
    """Return a copy of the public folder with other draws, sealed again."""
    copy = Path(shutil.copytree(release.public, folder / "public"))
    path = copy / INTERVALS_FILE
    schema = pq.read_schema(path)
    extra = [pa.field(name, pa.int32()) for name in rows.columns if name not in schema.names]
    pq.write_table(
        pa.Table.from_pandas(
            rows, pa.schema([*schema, *extra]), preserve_index=False
        ).replace_schema_metadata(),
        path,
        compression="zstd",
    )
    seal_again(copy)
    return copy


def test_other_csv_files_are_refused(small_release: Release, tmp_path: Path) -> None:
    for name in (AREAS_FILE, FLOWS_FILE):
        copy = Path(shutil.copytree(small_release.public, tmp_path / name))
        text = (copy / name).read_text(encoding="utf-8")
        (copy / name).write_text(text + text.splitlines(keepends=True)[-1], encoding="utf-8")
        seal_again(copy)
        assert refused(copy).check == "intervals"


def test_the_program_that_travels_sees_a_draw_that_lacks_a_job(
    small_release: Release, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(small_release.public, tmp_path / "public"))
    rows = pq.read_table(copy / INTERVALS_FILE)
    draw = rows["draw_3"].to_numpy().copy()
    draw[np.flatnonzero(draw)[0]] -= 1
    at = rows.schema.get_field_index("draw_3")
    pq.write_table(rows.set_column(at, "draw_3", pa.array(draw)), copy / INTERVALS_FILE, compression="zstd")
    seal_again(copy)
    assert "a draw has not all jobs" in str(alone(copy))


def test_tables_that_nothing_published_tells_of_have_no_draws(small_release: Release, tmp_path: Path) -> None:
    """Its urns tell no attributes apart."""
    rows = pd.read_parquet(small_release.public / INTERVALS_FILE)
    assert rows["table"].unique().tolist() == ["trct to trct", "bgrp to bgrp", "trct to tabblk2010"]
    readme = " ".join((small_release.public / "README.md").read_text(encoding="utf-8").split())
    assert 'tells homes apart by "SA", "SE" and "SI": numbers by these have no interval' in readme
    flows = rows[rows["table"] == "trct to trct"]
    copy = edited(
        small_release, tmp_path, pd.concat([rows, flows.assign(table="trct to trct by SA", SA="SA01")])
    )
    assert "trct to trct by SA: no pool and no measured table" in str(alone(copy))
    error = refused(copy)
    assert error.check == "intervals"
    assert "not those that the release is for" in str(error)


def test_a_combination_is_told_by_a_table_by_all_of_it(small_release: Release) -> None:
    plan = small_release.plan
    tables = [TableChoice(None, by, "trct", Fraction(1, 2)) for by in (("SA", "SE"), ("SI",))]
    plan = replace(plan, choices=replace(plan.choices, tables=tuple(tables)))
    told = [plan.tells_homes_by(by) for by in ((), ("SE",), ("SE", "SA"), ("SI",), ("SA", "SI"))]
    assert told == [True, True, True, True, False]


def test_a_release_of_a_mechanism_of_somebody_else_carries_none(
    small_config: Callable[..., pipelines.ReleaseConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.release.intervals.DirichletParameters", type(None))
    release = pipelines.run(small_config())
    assert not (release.public / INTERVALS_FILE).exists()
    assert not (release.public / FLOWS_FILE).exists()
    readme = (release.public / "README.md").read_text(encoding="utf-8")
    assert "pandas.concat" in readme
    assert INTERVALS_FILE not in readme
