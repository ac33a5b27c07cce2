"""Tables of another vintage than the crosswalk are refused, those of a larger or smaller area are not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from geo_data import Geography, read_crosswalk, read_flows

Refused = Callable[..., AbstractContextManager[None]]

# Three counties each of Connecticut and Rhode Island, with four tracts of two blocks.
COUNTIES = ("09001", "09003", "09005", "44001", "44003", "44005")
TRACTS = tuple(f"{county}{number:06}" for county in COUNTIES for number in range(100, 500, 100))
# Connecticut has planning regions in place of counties since 2022.
REGIONS = dict(zip(COUNTIES, ("09110", "09120", "09130", *COUNTIES[3:]), strict=True))


def _crosswalk(folder: Path, tracts: tuple[str, ...] = TRACTS) -> Geography:
    path = folder / "crosswalk.csv"
    rows = [f"{t}100{i},{t},{t[:5]},{t[:2]},{t[:2]}{i}{t[-5:]},41.5,-71.5" for t in tracts for i in range(2)]
    path.write_text("\n".join(["block,trct,cty,st,place,lat,lon", *rows, ""]))
    levels = ("st", "cty", "trct")
    return read_crosswalk(
        path, block="block", levels=levels, centroid=("lat", "lon"), non_nesting_areas=("place",)
    )


@pytest.fixture
def geography(tmp_path: Path) -> Geography:
    return _crosswalk(tmp_path)


def _flows(folder: Path, codes: list[str]) -> Path:
    path = folder / "flows.csv"
    path.write_text("h,w,n\n" + "".join(f"{code},{COUNTIES[-1]},5\n" for code in codes))
    return path


def _read_flows(path: Path, geography: Geography, level: str = "cty") -> int:
    return len(read_flows(path, geography, (level, "cty"), origin="h", destination="w", flow="n"))


MATCH = "as in a file of another vintage"


class TestOtherVintage:
    def test_flows_of_a_state_that_is_divided_otherwise(
        self, geography: Geography, tmp_path: Path, refused: Refused
    ) -> None:
        path = _flows(tmp_path, [*REGIONS.values()])
        with refused(path, MATCH, column="h", count=3):
            _read_flows(path, geography)

    def test_a_state_that_is_a_small_part_of_the_table(
        self, geography: Geography, tmp_path: Path, refused: Refused
    ) -> None:
        """Three thousand blocks beside it: one state in fifty is lost whole."""
        tracts = (*TRACTS, *(f"25001{number:06}" for number in range(1500)))
        wide = _crosswalk(tmp_path, tracts)
        lost = [f"09{number}{tract[5:]}" for number in (110, 120) for tract in TRACTS[:4]]
        path = _flows(tmp_path, [*lost, *tracts[12:]])
        with refused(path, MATCH, column="h", count=8):
            _read_flows(path, wide, "trct")

    def test_tracts(self, geography: Geography, tmp_path: Path, refused: Refused) -> None:
        """Of two tracts of 24, each has become two."""
        halves = [f"{tract[:-2]}{half}" for tract in TRACTS[:2] for half in ("01", "02")]
        path = _flows(tmp_path, [*halves, *TRACTS[2:]])
        with refused(path, MATCH, column="h", count=4):
            _read_flows(path, geography, "trct")

    def test_places(self, geography: Geography, tmp_path: Path, refused: Refused) -> None:
        codes = [str(code).replace("00100", "00109") for code in geography.codes("place")]
        path = _flows(tmp_path, codes)
        with refused(path, MATCH, column="h", count=4):
            _read_flows(path, geography, "place")


@pytest.mark.parametrize(
    ("codes", "known", "level"),
    [
        ([*COUNTIES, *(f"25{n:03}" for n in range(1, 99, 2))], 6, "cty"),
        ([*COUNTIES, *(f"{st}{n:03}" for st in ("09", "44") for n in range(7, 99, 2))], 6, "cty"),
        ([*COUNTIES[3:], "09001"], 4, "cty"),
        ([*TRACTS, "44001999999"], 24, "trct"),
        ([*TRACTS, *(f"44001{n:06}" for n in range(1000, 1100))], 24, "trct"),
        ([*(f"{t}1000" for t in TRACTS), *(f"44001{n:06}1000" for n in range(1000, 1100))], 24, "block"),
    ],
    ids=[
        "nation",
        "states",
        "fewer",
        "few unknown",
        "part of a county",
        "of which half of the blocks are empty",
    ],
)
def test_tables_of_a_larger_or_smaller_area(
    geography: Geography, tmp_path: Path, codes: list[str], known: int, level: str
) -> None:
    assert _read_flows(_flows(tmp_path, codes), geography, level) == known
