"""County-to-county flows of the ACS: the workbook as people save it; each wrong file refused."""

from __future__ import annotations

import numpy as np
import pytest

from geo_data import read_acs

TITLES = """\
"Table 1. Residence County to Workplace County Commuting Flows, 5-Year ACS, 2011-2015",,,,,,,,,
"Universe: Workers 16 years and over.",,,,,,,,,
,,,,,,,,,
Residence,,,,Place of Work,,,,Commuting Flow,
"""
HEADER = (
    "State FIPS Code,County FIPS Code,State Name,County Name," * 2
    + '"Workers in\nCommuting Flow","Margin of Error "\n'
)
NOTES = ',,,,,,,,,\n"Note: a margin of error is, roughly, half of an interval",,,,,,,,,\nSource: ACS\n'
OWN, OTHER = "001", "003"  # counties of the demo region, in state 03
PLACE = "State of D,County"


def row(
    home: str, work: str, flow: object, margin: object = "", states: tuple[str, str] = ("03", "003")
) -> str:
    return f'{states[0]},{home},{PLACE},{states[1]},{work},{PLACE},"{flow}","{margin}"\n'


ABROAD = row(OWN, "", 12, 20, states=("03", "301"))
ROWS = (
    row(OWN, OWN, "12,345", "+/-1,645")
    + row(OWN, OTHER, 0, 16.45)
    + row(OTHER, OWN, " 20 ", "***")
    + ABROAD
    + row(OWN, "000", 9, 9, states=("03", "555"))
    + row(OWN, OWN, 40, 2, states=("03", "025"))
    + row(OWN, OWN, 30, 3.29, states=("25", "003"))
    + row(OTHER, OWN, 10, 6.58, states=("25", "003"))
)


def test_the_workbook_as_it_is_saved(demo_geography, write):
    path = write("\ufeff" + (TITLES + HEADER + ROWS + NOTES).replace("\n", "\r\n"))
    flows = read_acs(path, demo_geography, level="cty")
    assert (flows.origin_level, flows.destination_level, flows.same_jobs) == ("cty", "cty", False)
    assert list(zip(flows.origin, flows.destination, flows.flow, strict=True)) == [
        (0, 0, 12345.0),
        (0, 1, 0.0),
        (1, 0, 20.0),
    ]
    np.testing.assert_allclose(flows.standard_error, [1000.0, 10.0, np.nan])
    assert flows.dropped == {"origin": 2, "destination": 3, "rows": 5}
    assert flows.source == str(path)


def test_titles_and_footnotes_may_be_cut_off(demo_geography, write):
    flows = read_acs(
        write(HEADER.replace(" Name", "").replace("State", "Work State") + ROWS), demo_geography, level="cty"
    )
    assert flows.flow.tolist() == [12345.0, 0.0, 20.0]


def test_homes_in_outside_areas(demo_region, read_geography, write):
    # The second begins as the code of a country does.
    geography = read_geography(demo_region["crosswalk"], external_zones=("25", "30"))
    flows = read_acs(write(TITLES + HEADER + ROWS + NOTES), geography, level="cty")
    assert geography.codes("cty")[flows.origin].tolist() == ["03001", "03001", "03003", "25999"]
    assert flows.flow[-1] == 40
    np.testing.assert_allclose(flows.standard_error[-1], 20**0.5)
    assert flows.dropped == {"origin": 0, "destination": 3, "rows": 3}


@pytest.mark.parametrize(
    ("text", "match", "column", "count"),
    [
        ("", "the file is empty", None, None),
        (b"PK\x03\x04\xff\xfe CANARY", "a workbook (xlsx) or a zip archive", None, None),
        (HEADER + ROWS + '03,"001\n', "the file is not CSV in UTF-8", None, None),
        (HEADER.replace(",", ";") + ROWS.replace(",", ";"), "separated by semicolons", None, None),
        (TITLES + ROWS, "no line is the header of the table with rows below it (State FIPS", None, None),
        (TITLES + HEADER + NOTES, "no line is the header of the table with rows below it", None, None),
        (
            HEADER.replace("State Name", "MCD FIPS Code") + ROWS,
            "no line is the header of the table",
            None,
            None,
        ),
        (HEADER + ROWS + "03,001,D\n", "rows have fewer or more fields than the header", None, 1),
        (HEADER + ROWS + "03,001", "no line break at its end", None, None),
        (HEADER + ROWS + ROWS.replace("12,345", "12\n345"), "line break inside a field", None, 1),
        (HEADER + ROWS.replace("\n", "\r"), "carriage return that does not end its line", None, None),
        (
            HEADER + row("1", OWN, 5) + row(OWN, "3", 5),
            "do not have the codes of the published table with leading zeros",
            None,
            2,
        ),
        (
            HEADER + row(OWN, OWN, 5, states=("3", "003")),
            "do not have the codes of the published table with leading zeros",
            None,
            1,
        ),
        (HEADER + row(OWN, OWN, "CANARY"), "not finite numbers", "Workers in Commuting Flow", 1),
        (HEADER + row(OWN, OWN, -5), "flows are negative", "Workers in Commuting Flow", 1),
        (HEADER + row(OWN, OWN, 5, -5), "margins of error are negative", "Margin of Error", 1),
        (HEADER + row(OWN, OWN, 5) * 2, "rows repeat a pair", None, 1),
        (HEADER + ABROAD, "no row has origin and destination in the geography (cty to cty)", None, None),
    ],
    ids=range(18),
)
def test_bad_tables(demo_geography, write, refused, text, match, column, count):
    path = write(text)
    with refused(path, match, column=column, count=count):
        read_acs(path, demo_geography, level="cty")
