"""What figures show: units, frame and words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines import PublicReleaseError, Release
from pipelines.views.figures.subject import FigureSubject

pytestmark = pytest.mark.quick


def of_busiest(release: Release, level: str = "trct", **how: object) -> FigureSubject:
    """The subject of the area with the most jobs."""
    flows = release.unit_flows(level, level)
    unit = int(flows.groupby("work")["S000"].sum().idxmax())
    given: dict = {"of": "workers", "count": "S000"} | how
    return FigureSubject(release, release.find_area(release.geography.codes(level)[unit]), **given)


def test_jobs_are_counted_where_the_other_end_is(release: Release) -> None:
    workers, residents = of_busiest(release), of_busiest(release, of="residents")
    flows = release.unit_flows("trct", "trct")
    assert workers.area is not None
    unit = workers.area.unit
    homes = flows[flows["work"] == unit].set_index("home")["S000"]
    works = flows[flows["home"] == unit].set_index("work")["S000"]
    pd.testing.assert_series_equal(workers.jobs, homes, check_names=False, check_index_type=False)
    pd.testing.assert_series_equal(residents.jobs, works, check_names=False, check_index_type=False)
    assert workers.total == homes.sum()
    assert residents.total == works.sum()


def test_the_level_is_the_finest_that_can_be_drawn(release: Release, bare: Release) -> None:
    assert FigureSubject(release, None, "workers", "S000").level == "trct"  # it has polygons
    usual = FigureSubject(bare, None, "workers", "S000")
    assert usual.level == "bgrp"  # 120 points can be told apart, but flows between blocks are noise
    assert "NOISE" not in usual.source
    assert "NOISE" in FigureSubject(bare, None, "workers", "S000", "tabblk2010").source
    assert FigureSubject(release, None, "workers", "S000", "cty").level == "cty"
    with pytest.raises(PublicReleaseError, match="there is no level 'tract'; there are: st"):
        FigureSubject(release, None, "workers", "S000", "tract")


def test_nobody_there_is_an_error(release: Release) -> None:
    flows = release.unit_flows("tabblk2010", "tabblk2010")
    empty = sorted(set(range(120)) - set(flows["work"]))[0]
    code = release.geography.blocks[empty]
    with pytest.raises(PublicReleaseError, match=f"there are no workers of block {code}"):
        FigureSubject(release, release.find_area(code), "workers", "S000")


def test_the_map_is_metric_and_has_nearly_everybody(release: Release, bare: Release) -> None:
    for subject in (of_busiest(release), of_busiest(bare), FigureSubject(release, None, "residents", "S000")):
        west, south, east, north = subject.frame
        assert (east - west) / (north - south) == pytest.approx(1.25)
        assert 3_000 <= east - west < 200_000
        assert 0 <= subject.beyond <= 0.1
        assert subject.crs.axis_info[0].unit_name == "metre"


def test_areas_are_true_to_size(release: Release) -> None:
    subject = of_busiest(release)
    assert subject.shapes is not None
    polygons = release.polygons("trct")
    assert polygons is not None
    expected = polygons.to_crs("EPSG:6933").area
    np.testing.assert_allclose(subject.shapes.area, expected, rtol=1e-6)


def test_an_area_has_an_outline_where_shapes_make_it_up(release: Release) -> None:
    for level in ("st", "cty", "trct"):
        subject = of_busiest(release, level)
        assert subject.outline is not None
        assert subject.shapes is not None
        assert subject.area is not None
        first = release.geography.starts("trct")[subject.shapes.index]
        own = release.geography.unit_of(level, first) == subject.area.unit
        assert subject.outline.area.sum() == pytest.approx(subject.shapes[own].area.sum(), rel=1e-4)


def test_an_area_has_a_centre_where_no_shapes_make_it_up(release: Release, bare: Release) -> None:
    for subject in (of_busiest(release, "tabblk2010"), of_busiest(bare)):
        assert subject.outline is None
        assert subject.centre is not None
        west, south, east, north = subject.frame
        x, y = subject.centre
        assert west < x < east
        assert south < y < north


def test_words(release: Release) -> None:
    subject = of_busiest(release, of="residents", count="SE03")
    assert subject.area is not None
    first, second = subject.title.splitlines()
    name = release.names["trct"][subject.area.unit]
    assert first == f"Where the residents of {name} (tract {subject.area.code}) work"
    assert second == f"{subject.total:,} synthetic workers: earnings of more than 3,333 dollars a month"
    assert "epsilon 8.6, delta 0.0000" in subject.source
    assert release.certificate.release.name in subject.source
    assert "NOT FOR RELEASE" not in subject.source
    assert FigureSubject(release, None, "workers", "S000").title.startswith(
        "Where the workers of the whole region live"
    )


def test_what_is_not_for_release_says_so(release: Release) -> None:
    certificate = release.certificate.model_copy(update={"for_release": False})
    other = Release(release.public)
    vars(other)["certificate"] = certificate
    assert FigureSubject(other, None, "workers", "S000").source.startswith("NOT FOR RELEASE.")
