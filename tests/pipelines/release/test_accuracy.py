"""The accuracy sheet of a release: its form is checked, and the read-me says what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipelines
from helpers import edit_json, refused, seal_again, words_of_release
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.simulation import simulate_utility
from pipelines.release.accuracy import ACCURACY_FILE, check_accuracy, read_accuracy
from pipelines.release.pages import render

Table = dict[str, Any]


def test_a_run_forecasts_from_public_inputs(small_release: pipelines.Release) -> None:
    sheet = json.loads((small_release.public / ACCURACY_FILE).read_text(encoding="utf-8"))
    assert sheet["format"] == "odsynth accuracy 1.0"
    assert sheet["plan_sha256"] == small_release.certificate.plan_sha256
    listed = json.loads((small_release.public / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    assert ACCURACY_FILE in [file["path"] for file in listed]
    [said] = [c.detail for c in pipelines.verify(small_release.public) if c.name == "accuracy"]
    assert said.startswith(f"{len(sheet['tables'])} tables")


def test_it_is_that_of_the_plan(
    small_release: pipelines.Release, small_config: Callable[..., pipelines.ReleaseConfig]
) -> None:
    tried = simulate_utility(small_release.plan, read_public_inputs(small_config()).model).accuracy
    assert small_release.accuracy == tried
    assert not tried.after_draw, "resampling measures nothing that could correct it"


def _last(tables: list[Table]) -> Table:
    return tables[-1]["sizes"][0]


CHANGES: dict[str, Callable[[Table], object]] = {
    "not of odsynth accuracy 1.0": lambda sheet: sheet.update(format="odsynth accuracy 2"),
    "about another plan": lambda sheet: sheet.update(plan_sha256="0" * 64),
    "Extra inputs": lambda sheet: sheet.update(note="all is well"),
    "tables.0.loss": lambda sheet: sheet["tables"][0].update(loss="0.1"),
    "less than or equal to 1": lambda sheet: sheet["tables"][0].update(loss=1.1),
    "carried and noise are not what its losses give": lambda sheet: sheet["tables"][-1].update(noise=False),
    "the name of a table": lambda sheet: sheet["tables"][0].update(table="all is well"),
    "its tables are not those": lambda sheet: sheet["tables"].pop(),
    "sizes are not those of this program": lambda sheet: _last(sheet["tables"]).update(at_least=2),
    "hold more jobs": lambda sheet: _last(sheet["tables"]).update(cells=10**9),
    "it uses noisy counts, and the release has none": lambda sheet: sheet["tables"][0].update(planned=0.5),
    "tables.0.within": lambda sheet: sheet["tables"][0].update(within=0.9),
    "more jobs than the plan": lambda sheet: sheet.update(jobs=10**9),
    "error: Field required": lambda sheet: _last(sheet["tables"]).pop("error"),
    "greater than or equal to 0": lambda sheet: _last(sheet["tables"]).update(error=-1.0),
    "not written as this program": lambda sheet: sheet["tables"][0].update(
        sizes=[dict(reversed(size.items())) for size in sheet["tables"][0]["sizes"]]
    ),
}


def test_a_sheet_of_another_form_is_refused(small_release: pipelines.Release, tmp_path: Path) -> None:
    whole, sha256 = (small_release.public / ACCURACY_FILE).read_bytes(), small_release.certificate.plan_sha256
    for words, change in CHANGES.items():
        (tmp_path / ACCURACY_FILE).write_bytes(whole)
        edit_json(tmp_path / ACCURACY_FILE, change)
        with pytest.raises(ValueError, match=words):
            check_accuracy(read_accuracy(tmp_path, sha256) or pytest.fail(words), small_release.plan)
    for content in (b"", b"[]", b"{", b'{"format": NaN}', b"\xff"):
        (tmp_path / ACCURACY_FILE).write_bytes(content)
        with pytest.raises(ValueError, match="json"):
            read_accuracy(tmp_path, sha256)


def test_the_read_me_follows_from_the_sheet(public_copy: Path) -> None:
    def better(sheet: Table) -> None:
        _last(sheet["tables"])["error"] = 0.0

    edit_json(public_copy / ACCURACY_FILE, better)
    seal_again(public_copy)
    assert (
        "details.md is not the text that the plan, certificate.json and accuracy.json give"
        in refused(public_copy).reason
    )
    (public_copy / ACCURACY_FILE).unlink()
    seal_again(public_copy)
    assert "README.md is not the text" in refused(public_copy).reason


def test_a_map_of_a_damaged_sheet_is_not_drawn(public_copy: Path) -> None:
    (public_copy / ACCURACY_FILE).write_text("{}")
    with pytest.raises(pipelines.PublicReleaseError, match=r"accuracy\.json.*Fix: take a whole copy"):
        _ = pipelines.open_release(public_copy).accuracy


def test_every_number_of_the_sheet_is_in_the_read_me(small_release: pipelines.Release) -> None:
    sheet = json.loads((small_release.public / ACCURACY_FILE).read_text(encoding="utf-8"))
    text = words_of_release(small_release.public)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]
    for table in sheet["tables"]:
        [row] = [r for r in rows if len(r) == 6 and r[0] == table["table"]]
        assert [row[1], row[4]] == [f"{100 * table[key]:.1f} %" for key in ("loss", "public_model")]
        between = table["loss"] / table["within"], min(1, table["loss"] * table["within"])
        assert row[2] == " and ".join(f"{100 * share:.1f} %" for share in between)
        assert row[3] == "the plan" + "; **uncertain**" * (table["within"] > 1.5)
        verdict = (
            "**noise**"
            if table["noise"]
            else ""
            if table["carried"]
            else "public data say nearly as much or more"
        )
        assert row[5] == verdict
        by_size = [r[1:] for r in rows if len(r) == 7 and r[0] == table["table"]]
        assert by_size == [
            [
                f"{size['at_least']:,} to {size['at_most']:,}" if size["at_most"] else "1,000 or more",
                f"{size['cells']:,}",
                f"{size['error']:.1f}",
                f"{size['error_90']:,}",
                f"{100 * size['relative_error']:.1f} %",
                f"{100 * size['empty']:.1f} %",
            ]
            for size in table["sizes"]
        ]
    assert f"tried on {sheet['jobs']:,} jobs" in " ".join(text.split())
    assert ("A table is **noise** where" in text) == any(table["noise"] for table in sheet["tables"])


def test_without_a_sheet_none_is_promised(small_release: pipelines.Release, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_release.public, tmp_path / "public"))
    (folder / ACCURACY_FILE).unlink()
    assert pipelines.open_release(folder).accuracy is None
    assert render("accuracy.md.j2", accuracy=None).startswith("There is no forecast")
