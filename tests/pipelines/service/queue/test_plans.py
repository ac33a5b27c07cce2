"""The plan that was reviewed, and the public files that it was made from, are those of the release."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pipelines
from pipelines.plans.form import plan_hash
from pipelines.service.queue.worker_process import check_plan, keep_plan


def test_what_changed_since_the_review_is_refused_by_its_name(
    config_text: Callable[..., str], small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Every public file by itself: changed, or gone. The confidential file is another matter."""
    text = config_text()
    for path in small_region.values():
        text = text.replace(str(path), str(shutil.copy(path, tmp_path)))
    config, folder = pipelines.parse_config(text, tmp_path, "small.toml"), tmp_path / "plan"
    reviewed = json.loads(json.dumps(keep_plan(config, folder)))
    assert reviewed["plan_sha256"] == plan_hash(folder / "plan")
    assert reviewed["report"] in (folder / "plan.txt").read_text()
    keys = {
        "geography.file": "crosswalk",
        "geography.polygons #1.file": "tracts",
        "auxiliary #1.file": "county_flows",
        "auxiliary #2.file": "tract_flows",
        "weights.file": "population",
    }
    names = {f"{key} {small_region[kind].name}": kind for key, kind in keys.items()}
    assert reviewed["inputs"].keys() == names.keys()
    assert {"od", "aux", *names.values()} == small_region.keys()
    check_plan(config, folder, reviewed)
    for name, kind in names.items():
        path = tmp_path / small_region[kind].name
        content = path.read_bytes()
        for change in (lambda path=path: path.write_bytes(path.read_bytes() + b"\n"), path.unlink):
            change()
            with pytest.raises(pipelines.ConfigError) as refused:
                check_plan(config, folder, reviewed)
            assert str(refused.value).startswith(f"{name}: changed since the plan was made. Submit"), name
            path.write_bytes(content)
    check_plan(config, folder, reviewed)

    # Another plan in the place of the reviewed one, also where its own numbers agree with it.
    numbers, plan = folder / "forecast.json", folder / "plan" / "plan.json"
    for path, old, new in (
        (numbers, reviewed["plan_sha256"], "0" * 64),
        (numbers, '"epsilon": "', '"epsilon": "0'),
        (numbers, "{", ""),
        (plan, "{", "{ "),
    ):
        content = path.read_text()
        path.write_text(content.replace(old, new, 1))
        with pytest.raises(pipelines.ConfigError, match="this is not the plan that was reviewed"):
            check_plan(config, folder, reviewed)
        path.write_text(content)
    check_plan(config, folder, reviewed)
    shutil.rmtree(folder)
    with pytest.raises(pipelines.ConfigError, match="this is not the plan that was reviewed"):
        check_plan(config, folder, reviewed)


def test_all_parts_of_a_shapefile_count(
    config_text: Callable[..., str], small_region: dict[str, Path], tmp_path: Path
) -> None:
    import geopandas as gpd

    gpd.read_file(small_region["tracts"]).to_file(tmp_path / "tracts.shp")
    text = config_text({"geography.polygons.0.file": tmp_path / "tracts.shp"})
    config, folder = pipelines.parse_config(text, tmp_path, "small.toml"), tmp_path / "plan"
    reviewed = keep_plan(config, folder)
    path = tmp_path / "tracts.dbf"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(pipelines.ConfigError, match=r"^geography.polygons #1.file tracts.dbf: changed"):
        check_plan(config, folder, reviewed)
