"""Write a public table of workplaces for Rhode Island: its totals times a factor for each work block.

    python examples/workplaces.py        writes out/ri_workplaces_2019.csv, for examples/workplaces.toml

It stands for a table that an agency has published already with its employers protected, as LODES is by noise
infusion: every work block has a factor of its own between 0.85 and 1.15 for all its counts, the same in
every run, and what comes out is rounded to one of the two whole numbers beside it. What a real table tells of
the records that it was once made from is not covered by the certificate.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data" / "ri_2019"
JOBS = [DATA / f"ri_od_{part}_JT00_2019.csv.gz" for part in ("main", "aux")]
GROUPS = {group: [f"{group}0{i}" for i in (1, 2, 3)] for group in ("SA", "SE", "SI")}
COUNTS = [name for names in GROUPS.values() for name in names]
LOW, HIGH = 0.85, 1.15


def public_table(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the table of jobs by work block.

    Parameters
    ----------
    jobs : DataFrame
        ``w_geocode``, ``S000`` and the counts by age, earnings and industry, of LODES files.

    Returns
    -------
    DataFrame
        The same columns, one row a work block; blocks that are rounded to nothing are not in it.
    """
    own = jobs.groupby("w_geocode", as_index=False)[["S000", *COUNTS]].sum()
    codes = own["w_geocode"].to_numpy(dtype=object)
    factor, place = (pd.util.hash_array(codes, hash_key=key) / 2.0**64 for key in ("f" * 16, "r" * 16))
    factor = LOW + (HIGH - LOW) * factor
    total = np.floor(own["S000"] * factor + place).astype(np.int64)
    table = pd.DataFrame({"w_geocode": own["w_geocode"], "S000": total})
    for names in GROUPS.values():
        # Rounded as running totals, so that each group adds up to the total.
        ends = own[names].to_numpy().cumsum(axis=1) / own[["S000"]].to_numpy()
        marks = np.floor(ends * total.to_numpy()[:, None] + 0.5).astype(np.int64)
        table[names] = np.diff(marks, axis=1, prepend=0)
    return table[table["S000"] > 0]


def main(target: Path) -> None:
    """Read the jobs of Rhode Island, and write the table."""
    columns = ["w_geocode", "S000", *COUNTS]
    jobs = pd.concat([pd.read_csv(path, usecols=columns, dtype={"w_geocode": "str"}) for path in JOBS])
    target.parent.mkdir(parents=True, exist_ok=True)
    public_table(jobs).to_csv(target, index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "out" / "ri_workplaces_2019.csv")
