"""Ten questions to a release of commuting data, answered from its public folder alone.

Usage: python questions.py PUBLIC

Prints CSV: the question, the area where a question asks for several, and the answer: its estimate, and the
ends of its interval of 90 %. Needs pandas and pyarrow. Areas are those of `odsynth demo`.
"""

import sys
from pathlib import Path

import numpy
import pandas

CENTRE, SHORE_1, SHORE_2 = "03001", "03003", "03005"
TOWN = ["03001000100", "03001000200", "03001000300"]
OTHER_STATES = ["07", "14"]
STATION = 40.0, -40.0

folder = Path(sys.argv[1])
draws = pandas.read_parquet(folder / "intervals.parquet")
columns = [name for name in draws if name.startswith("draw_")]
flows, residents, industries, to_blocks = (
    draws[draws["table"] == table]
    for table in ("trct to trct", "residents of trct by SI", "trct to trct by SI", "trct to tabblk2010")
)

blocks = pandas.read_parquet(folder / "plan/blocks.parquet")
tracts = blocks.drop_duplicates("trct").set_index("trct")
county, state = tracts["cty"], tracts["st"]
north = 111.2 * (blocks["latitude"] - STATION[0])
east = 111.2 * (blocks["longitude"] - STATION[1]) * numpy.cos(numpy.radians(STATION[0]))
near = blocks["tabblk2010"][numpy.hypot(north, east) <= 2]

answers = []


def total(rows):
    """Add up rows, in each draw."""
    return rows[columns].sum()


def answer(question, draws, area=""):
    """Note the estimate and the interval that draws of a number give."""
    ends = {"estimate": draws.mean(), "low": draws.min(), "high": draws.max()}
    answers.append({"question": question, "area": area, **ends})


home, work = flows["home"].map(county), flows["work"].map(county)

answer("Live in Shore County 1 and work in Centre County", total(flows[(home == SHORE_1) & (work == CENTRE)]))

answer(
    "Live and work in the town of three tracts",
    total(flows[flows["home"].isin(TOWN) & flows["work"].isin(TOWN)]),
)

answer(
    "Percent of those who work in Shore County 1 who live there",
    100 * total(flows[(home == SHORE_1) & (work == SHORE_1)]) / total(flows[work == SHORE_1]),
)

inside = ~flows["home"].map(state).isin(OTHER_STATES)
by_home = flows[inside & (work == SHORE_1)].groupby("home")[columns].sum()
for tract in by_home.mean(axis=1).sort_values(ascending=False, kind="stable").index[:5]:
    answer("The five tracts that send most to Shore County 1", by_home.loc[tract], tract)

answer(
    "Residents of Shore County 1 who work in services (SI03)",
    total(residents[(residents["home"].map(county) == SHORE_1) & (residents["SI"] == "SI03")]),
)

answer(
    "More into Centre County from Shore County 1 than from Shore County 2",
    total(flows[(home == SHORE_1) & (work == CENTRE)]) - total(flows[(home == SHORE_2) & (work == CENTRE)]),
)

answer("Come in from other states", total(flows[flows["home"].map(state).isin(OTHER_STATES)]))

answer("Live and work in the same tract", total(flows[flows["home"] == flows["work"]]))

answer(
    "Live in Shore County 1 and work in services (SI03) in Centre County",
    total(
        industries[
            (industries["home"].map(county) == SHORE_1)
            & (industries["work"].map(county) == CENTRE)
            & (industries["SI"] == "SI03")
        ]
    ),
)

answer(
    "Work within 2 km of the station and live in Shore County 1 or 2",
    total(to_blocks[to_blocks["work"].isin(near) & to_blocks["home"].map(county).isin([SHORE_1, SHORE_2])]),
)

pandas.DataFrame(answers).round(2).to_csv(sys.stdout, index=False)
