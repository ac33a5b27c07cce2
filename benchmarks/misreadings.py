"""Inputs that could be read in two ways, one of them wrong in silence: cases of `malformed.py`.

The kind of a case says what must become of it: "refused"; "told" (refused, or accepted with a note or a
warning); "right" (nothing is wrong, so it is accepted). Else it may be refused, or accepted with the content
of the whole files.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

Damage = Callable[[Path], object]
Frame = pd.DataFrame
LODES, MICRODATA = ("run", "lodes.toml"), ("run", "microdata.toml")
OUTSIDE = {"flows": "h_county", "ctpp": "GEOID", "weights": "GEOID", "earlier": "w_geocode"}


def frame(name: str, change: Callable[[Frame], Frame | None]) -> Damage:
    """Change a table as text; a change in place returns None."""

    def apply(folder: Path) -> None:
        table = pd.read_csv(folder / name, dtype="str", keep_default_na=False)
        found = change(table)
        (folder / name).write_text((table if found is None else found).to_csv(index=False), encoding="utf-8")

    return apply


def cells(name: str, column: str, change: Callable[[str], str], every: int = 1) -> Damage:
    """Change each so-manieth cell of a column."""

    def apply(table: Frame) -> None:
        table.loc[::every, column] = table.loc[::every, column].map(change)

    return frame(name, apply)


def settings(*changes: tuple[str, str]) -> Damage:
    """Replace expressions in both configurations."""

    def apply(folder: Path) -> None:
        for path in (folder / "lodes.toml", folder / "microdata.toml"):
            text = path.read_text(encoding="utf-8")
            for pattern, new in changes:
                text = re.sub(pattern, new, text, count=1)
            path.write_text(text, encoding="utf-8")

    return apply


def added(text: str) -> Damage:
    """Add tables to both configurations."""

    def apply(folder: Path) -> None:
        for path in (folder / "lodes.toml", folder / "microdata.toml"):
            path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    return apply


def together(*damages: Damage) -> Damage:
    return lambda folder: [damage(folder) for damage in damages]


def moved(old: str, new: str) -> Damage:
    return lambda folder: (folder / old).rename(folder / new)


def parquet(name: str, column: str, make: Callable[[pa.Array], pa.Array], flip: bool = False) -> Damage:
    """Write a table as Parquet with another column, or with a flipped byte in its middle."""

    def apply(folder: Path) -> None:
        table = pa.Table.from_pandas(pd.read_csv(folder / name, dtype="str"), preserve_index=False)
        for number, field in enumerate(table.column_names):
            if re.fullmatch(r"S[0AEI]\d\d", field):
                table = table.set_column(number, field, table[field].cast(pa.int64()))
        place = table.column_names.index(column)
        table = table.set_column(place, column, make(table[column].combine_chunks()))
        pq.write_table(
            table, folder / name, write_page_checksum=True, compression="none", use_dictionary=False
        )
        if flip:
            data = bytearray((folder / name).read_bytes())
            data[len(data) // 3] ^= 1
            (folder / name).write_bytes(bytes(data))

    return apply


def codes() -> Iterator[tuple[str, str, Damage]]:
    """Codes that are not those of the crosswalk, or spelled otherwise."""
    for tail in ("0000", "9999"):
        unknown = cells("od", "h_geocode", lambda code, tail=tail: code[:-4] + tail, 50)
        yield "refused: a home inside the crosswalk that is no block", "od", unknown
        zone = settings((r'\["25"\]', '["25", "03"]'))
        yield "refused: a home inside the crosswalk that is no block", "od", together(unknown, zone)
        jobs = cells("jobs", "h", lambda code, tail=tail: code[:-4] + tail, 50)
        yield "refused: a home inside the crosswalk that is no block", "jobs", jobs
    for name, column in (("od", "h_geocode"), ("jobs", "h"), ("jobs", "w")):
        yield "refused: a code that is the beginning of one", name, cells(name, column, lambda c: c[:12], 50)
    for mark in (" ", "\u00a0", "\u200b", "\t"):
        for name, column in (
            ("od", "h_geocode"),
            ("jobs", "age"),
            ("crosswalk", "trct"),
            ("flows", "h_county"),
        ):
            yield "a blank or invisible character", name, cells(name, column, lambda c, m=mark: c + m, 3)

        def again(table: Frame, mark: str = mark) -> None:
            table.loc[1, "id"] = table.loc[0, "id"] + mark

        yield "refused: one worker in two spellings", "jobs", frame("jobs", again)
    for form in ("NFC", "NFD"):
        first = cells("jobs", "age", lambda c: c + "\u00e9")
        other = cells("jobs", "age", lambda c, f=form: unicodedata.normalize(f, c), 2)
        yield ("told" if form == "NFD" else "right") + ": Unicode forms", "jobs", together(first, other)
    for name, column in (
        ("crosswalk", "trct"),
        ("crosswalk", "cty"),
        ("weights", "GEOID"),
        ("flows", "h_county"),
    ):
        for every in (1, 2):
            yield "told: lost leading zeros", name, cells(name, column, lambda c: c.lstrip("0"), every)
    letters = cells("crosswalk", "cty", lambda c: c.lstrip("0"), 2)
    yield (
        "told: lost leading zeros",
        "crosswalk",
        together(letters, cells("crosswalk", "trct", lambda c: "2A" + c[2:], 7)),
    )
    short = cells("crosswalk", "trct", lambda c: "000100")
    yield "told: units that are merged by their codes", "crosswalk", short
    yield (
        "told: units that are merged by their codes",
        "crosswalk",
        cells("crosswalk", "trct", lambda c: "Springfield"),
    )
    for name, column in OUTSIDE.items():
        gone = cells(name, column, lambda c: c.replace("03001", "03110", 1).replace("03003", "03110"), 1)
        yield "refused: a table of another vintage", name, gone
    yield "refused: a total beside its parts", "flows", totals
    yield "right: codes of natural length", "crosswalk", natural


def totals(folder: Path) -> None:
    with (folder / "flows").open("a", encoding="utf-8") as file:
        file.write("25,03001,50,9\n25005,03001,50,9\n")


def natural(folder: Path) -> None:
    """Number blocks and counties from 1, as some statistical offices do."""
    crosswalk = pd.read_csv(folder / "crosswalk", dtype="str")
    numbers = {code: str(i + 1) for i, code in enumerate(crosswalk["tabblk2010"])}
    counties = {code: str(i + 1) for i, code in enumerate(crosswalk["cty"].unique())}
    columns = ["tabblk2010", "cty", "blklatdd", "blklondd"]
    crosswalk["tabblk2010"], crosswalk["cty"] = (
        crosswalk["tabblk2010"].map(numbers),
        crosswalk["cty"].map(counties),
    )
    crosswalk[columns].to_csv(folder / "crosswalk", index=False)
    jobs = pd.read_csv(folder / "jobs", dtype="str")
    jobs.assign(h=jobs["h"].map(numbers), w=jobs["w"].map(numbers)).to_csv(folder / "jobs", index=False)
    text = (folder / "microdata.toml").read_text(encoding="utf-8")
    text = text[: text.index("[weights]")].replace('["st", "cty", "trct", "bgrp"]', '["cty"]')
    text = text.replace('external_zones = ["25"]\n', "").replace(
        "[geography]", 'population = "residents"\n[geography]'
    )
    (folder / "microdata.toml").write_text(text, encoding="utf-8")


def numbers() -> Iterator[tuple[str, str, Damage]]:
    """Numbers, coordinates and sizes that mean something else than they say."""
    for name, column in (("flows", "flow"), ("ctpp", "EST"), ("weights", "POP10")):
        yield "refused: 1.000 for a thousand", name, cells(name, column, lambda c: f"{int(c)}.000")
    swapped = {"blklatdd": "blklondd", "blklondd": "blklatdd"}
    for every in (1, 9):
        yield (
            "told: coordinates",
            "crosswalk",
            cells("crosswalk", "blklondd", lambda c: c.lstrip("-"), 9 * every),
        )
    zero = together(*(cells("crosswalk", c, lambda _: "0", 9) for c in swapped))
    yield "told: coordinates", "crosswalk", zero
    for name, column in (("od", "createdate"), ("jobs", "age"), ("crosswalk", "stname"), ("flows", "moe")):
        yield "refused: a line that is too long", name, cells(name, column, lambda _: "1" * (2**20 + 9), 1000)
        yield "refused: too many columns", name, widened(name)


def widened(name: str) -> Damage:
    def apply(folder: Path) -> None:
        head, *rows = (folder / name).read_text(encoding="utf-8").splitlines()
        more = "".join(f",x{i}" for i in range(20_000))
        lines = [head + more, *(row + ",1" * 20_000 for row in rows)]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    return apply


def files() -> Iterator[tuple[str, str, Damage]]:
    """Files under names that say something else, or twice."""

    def named(main: str, aux: str = "demo_od_aux_JT00_2019.csv") -> Damage:
        given = settings((r'"od\*"', f'"{main}"'), ('aux = "aux"', f'aux = "{aux}"'))
        return together(moved("od", main), moved("aux", aux), given)

    yield "right: names of files that agree", "od", named("demo_od_main_JT00_2019.csv")
    for main in ("demo_od_main_JT05_2019.csv", "demo_od_main_JT00_2018.csv"):
        yield "refused: names of files that contradict", "od", named(main)
    for aux in ("demo_od_aux_JT00_2018.csv", "demo_od_aux_JT05_2019.csv", "demo_od_main_JT00_2019.csv"):
        yield "refused: names of files that contradict", "od", named("demo_od_aux_JT00_2019.csv", aux)
    for more in ("demo_od_main_JT01_2019.csv", "demo_od_main_JT00_2018.csv"):

        def several(folder: Path, more: str = more) -> None:
            table = pd.read_csv(folder / "od", dtype="str")
            table[::3].to_csv(folder / more, index=False)
            (folder / more).chmod(0o600)
            table.to_csv(folder / "demo_od_main_JT00_2019.csv", index=False)
            (folder / "demo_od_main_JT00_2019.csv").chmod(0o600)
            (folder / "od").unlink()

        wildcard = settings((r'"od\*"', '"demo_od_main_*.csv"'))
        yield "refused: job types or years through one wildcard", "od", together(several, wildcard)
    for level in (1, 9):

        def packed(folder: Path, level: int = level) -> None:
            (folder / "aux").write_bytes(gzip.compress((folder / "od").read_bytes(), level))

        yield "refused: aux is main compressed otherwise", "aux", packed
    yield "refused: aux is main in another order", "aux", reversed_main
    yield "refused: a table of workplaces of other categories", "jobs", workplaces(str.upper)
    yield "right: a table of workplaces", "jobs", workplaces(str)
    for name, column in (
        ("od", "h_geocode"),
        ("jobs", "age"),
        ("crosswalk", "trctname"),
        ("flows", "h_county"),
    ):
        broken = parquet(
            name, column, lambda a: pa.array([b"\xff\xfe"] * len(a), pa.binary()).view(pa.string())
        )
        yield "refused: Parquet text that is not UTF-8", name, broken
        if name != "flows":  # whose pages are too few
            flipped = parquet(name, column, lambda a: a, flip=True)
            yield "refused: Parquet with a flipped byte", name, flipped
        for kind in (pa.binary(), pa.list_(pa.string()), pa.timestamp("s"), pa.float64(), pa.bool_()):
            if name != "flows" or kind != pa.binary():
                nulls = parquet(name, column, lambda a, k=kind: pa.nulls(len(a), k))
                yield "Parquet of other types", name, nulls


def reversed_main(folder: Path) -> None:
    pd.read_csv(folder / "od", dtype="str")[::-1].to_csv(folder / "aux", index=False)


def workplaces(spelled: Callable[[str], str]) -> Damage:
    """Protect numbers of jobs by a table of them, with its own spelling of categories."""

    def apply(folder: Path) -> None:
        jobs = pd.read_csv(folder / "jobs", dtype="str").assign(n=1)
        table = jobs.groupby(["w", "age"], as_index=False)["n"].sum()
        table.assign(age=table["age"].map(spelled)).to_csv(folder / "places", index=False)

    pools = settings((r"pool_by = \[\]", 'pool_by = ["age"]'))
    return together(apply, pools, added('[workplaces]\nfile = "places"\ncount = "n"\n'))


def operations() -> Iterator[tuple[str, str, Damage]]:
    """Settings that nothing could be computed from, output folders and ledgers that are none."""
    huge = ("1e12", "999999999999", "101")
    for value in (*huge, "1." + "3" * 1900, "1" + "0" * 400):
        yield "refused: numbers without bounds", "od", settings((r'epsilon = "8"', f'epsilon = "{value}"'))
    for value in ("1e-99", "0." + "9" * 40, "1/" + "9" * 90):
        yield (
            "refused: numbers without bounds",
            "od",
            settings((r"plan = \{", f'plan = {{ retention_min = "{value}",')),
        )
    for value in ("1001", "2147483647", "1" + "0" * 30):
        many = settings((r'worker = "id"', f'worker = "id"\nrecords_per_worker = {value}'))
        yield "refused: numbers without bounds", "jobs", many
    for value in ("1e-99", "1e12", "1/3"):
        yield "numbers at bounds", "od", settings((r'delta = "1e-4"', f'delta = "{value}"'))
        yield "numbers at bounds", "od", settings((r"plan = \{", f'plan = {{ prior = "{value}",'))
        yield "numbers at bounds", "od", settings((r'split_threshold = "5"', f'split_threshold = "{value}"'))
        yield "numbers at bounds", "od", added(f'[[workload]]\nhome = "cty"\nweight = "{value}"\n')
    for out in ("/", "od", ".", "there", "link", "broken"):

        def place(folder: Path) -> None:
            (folder / "there").mkdir()
            (folder / "there" / "mine").touch()
            (folder / "link").symlink_to(folder / "there")
            (folder / "broken").symlink_to(folder / "nowhere")

        yield (
            "refused: an output folder that is something else",
            "od",
            together(place, settings((r'"out"', f'"{out}"'))),
        )
    for content in (b"", b"garbage" * 99, b"SQLite format 3\0" + b"\0" * 200):

        def book(folder: Path, content: bytes = content) -> None:
            (folder / "ledger").write_bytes(content)
            (folder / "ledger").chmod(0o600)

        yield "refused: a ledger that is none", "od", together(book, ledger())
    yield "refused: a budget that delta exceeds", "od", ledger(delta="1e-9")


def ledger(delta: str = "1e-3") -> Damage:
    return added(f'[ledger]\nfile = "ledger"\ndata_set = "x"\nepsilon = "100"\ndelta = "{delta}"\n')


def misreadings() -> Iterator[tuple[str, tuple[str, Damage], tuple[str, ...]]]:
    """Yield what is damaged, the kind and the damage, and the command."""
    for part in (codes, numbers, files, operations):
        for kind, what, damage in part():
            microdata = what == "jobs" or kind == "right: codes of natural length"
            yield what, (kind, damage), MICRODATA if microdata else LODES
