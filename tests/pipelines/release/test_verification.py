"""Verification: what an attacker, a bad disk or a careless colleague may do to a public folder is found."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
import pytest
from pydantic_core import to_jsonable_python

import geo_data
import helpers
import synth
from geo_data.od_files import GZIP_LEVEL
from helpers import alone, edit_json, forge, seal_again, with_values
from pipelines import (
    Certificate,
    Release,
    ReleaseConfig,
    VerificationError,
    load_plan,
    run,
    verify,
)
from pipelines.plans.form import plan_hash
from pipelines.release import byte_check, data_check
from pipelines.release.certificate import guarantee_fields
from pipelines.release.layout import seal
from pipelines.release.signing import PUBLIC_KEY, generate_keys, read_private_key, sign
from pipelines.storage.checksums import sha256_of

from .only_signed import ONLY_SIGNED, Document, Step, leaves

pytestmark = pytest.mark.usefixtures("plans_known")

Configs = Callable[..., ReleaseConfig]
Tables = Callable[[pd.DataFrame], pd.DataFrame]
CHECKS = [
    "files",
    "certificate",
    "plan",
    "guarantee",
    "budget",
    "data",
    "accuracy",
    "texts",
    "verifier",
    "polygons",
    "names",
    "CSV",
    "intervals",
    "bytes",
    "records",
    "for release",
]
PUBLIC = [
    "MANIFEST.json",
    "README.md",
    "SHA256SUMS",
    "accuracy.json",
    "attackers.md",
    "areas.csv",
    "blocks.csv",
    "flows.csv",
    "intervals.parquet",
    "certificate.json",
    "certificate.schema.json",
    "croissant.json",
    "dcat-ap.jsonld",
    "datapackage.json",
    "demo_od_main_JT00_2019.csv.gz",
    "demo_od_main_JT00_2019.parquet",
    "details.md",
    "geo/trct.parquet",
    "names.csv",
    "names.parquet",
    "plan/blocks.parquet",
    "plan/domains.parquet",
    "plan/plan.json",
    "plan/pools.parquet",
    "plan/shares.parquet",
    "plan/slots.parquet",
    "verify.py",
]
OD = [f"demo_od_main_JT00_2019.{end}" for end in ("parquet", "csv.gz")]


@pytest.fixture
def copies(small_release: Release, tmp_path: Path) -> Iterator[Path]:
    """Copies of the public folder to tamper with, one after the other."""
    return helpers.copies(small_release.public, tmp_path)


def passed(folder: Path) -> list[str]:
    """The checks that passed, of those these tests are about."""
    return [check.name for check in verify(folder) if check.name in CHECKS]


# What verify.py, which releases carry, leaves to `odsynth verify` (docs/verification.md); and last digits of
# bounds, of which it proves that they are none too small.
NOT_ALONE = (
    "^(accuracy|polygons|names|bytes): |attackers.md is not the text",
    "the configuration is not one of this program",
    "^commitment: there is no time-stamp",
    r"certificate\.json: (run|record_level|user_level|losses) is not what the plan and its other fields give",
)


BOUNDS_OF_CLASSES = {"epsilon", "delta", "record_delta", "block_loss_U", "pruning_loss_V"}


def refused(folder: Path, key: Path | None = None, path: Step = ()) -> VerificationError:
    """Return why a release does not pass; of all that is refused here, verify.py refuses nearly all, too."""
    error = helpers.refused(folder, key)
    if path[:1] == ("classes",) and path[-1] in BOUNDS_OF_CLASSES:
        return error
    assert alone(folder, key) or any(re.search(words, str(error)) for words in NOT_ALONE), str(error)
    return error


def test_good_release_passes_every_check_in_order(small_release: Release, public_copy: Path) -> None:
    assert passed(small_release.public) == CHECKS
    assert passed(public_copy) == CHECKS
    assert alone(public_copy) is None
    listed = {p.relative_to(public_copy).as_posix() for p in public_copy.rglob("*") if p.is_file()}
    assert listed == set(PUBLIC), "the tests below go through all files"


def test_verification_writes_nothing(public_copy: Path) -> None:
    before = {path: path.read_bytes() for path in public_copy.rglob("*") if path.is_file()}
    list(verify(public_copy))
    assert {path: path.read_bytes() for path in public_copy.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    error = refused(tmp_path / "nowhere")
    assert error.check == "files"
    assert "nowhere is not a folder" in str(error)


def test_the_folder_around_the_public_one(small_release: Release) -> None:
    out = small_release.out
    words = f"files: {out}: there is no SHA256SUMS. Fix: name the public folder of a release (OUT/public)"
    assert str(refused(out)) == words


# --- accidents: one file is not what it was


def accidents(data: bytes) -> Iterator[bytes]:
    """What may become of the bytes of a file: of the first, one bit is another."""
    for at in (0, len(data) // 2, len(data) - 1):
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    yield from (b"", data + b"\n", data[:-1])
    lines = data.replace(b"\n", b"\r\n")
    yield lines if lines != data else data + b"\r\n"


def test_harm_to_any_file_is_found_and_the_file_named(public_copy: Path, tmp_path: Path) -> None:
    """A link would be verified here and point elsewhere, or nowhere, after publishing."""
    same, other = tmp_path / "same", tmp_path / "other"
    other.write_text("other")
    for name in PUBLIC:
        path = public_copy / name
        data = path.read_bytes()
        for number, changed in enumerate(accidents(data)):
            path.write_bytes(changed)
            error = refused(public_copy)
            assert name in str(error), number
            if number < 3:
                assert (error.check, f"{name} has been changed" in str(error)) == ("files", True), number
        path.unlink()
        error = refused(public_copy)
        assert (error.check, f"{name} is missing" in str(error)) == ("files", True), error
        same.write_bytes(data)
        for target in (same, other, tmp_path / "nothing"):
            path.symlink_to(target)
            error = refused(public_copy)
            assert (error.check, name in str(error)) == ("files", True), target
            path.unlink()
        path.mkdir()
        assert f"{name} is missing" in str(refused(public_copy)), "a folder in its place"
        path.rmdir()
        path.write_bytes(data)
    assert passed(public_copy) == CHECKS


def test_a_linked_folder_is_found(public_copy: Path, tmp_path: Path) -> None:
    shutil.move(public_copy / "plan", tmp_path / "plan")
    (public_copy / "plan").symlink_to(tmp_path / "plan")
    assert "plan is a link" in str(refused(public_copy))


def test_an_extra_file_is_found_and_named(public_copy: Path) -> None:
    for name in ("extra.csv", ".hidden", "plan/extra.parquet", "new/folder/run.json"):
        path = public_copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for content in (b"", b"confidential"):
            path.write_bytes(content)
            error = refused(public_copy)
            assert error.check == "files"
            assert f"{name} does not belong to the release" in str(error)
        path.unlink()


def test_two_files_exchanged(public_copy: Path) -> None:
    one, other = public_copy / "plan/pools.parquet", public_copy / "plan/slots.parquet"
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)
    assert "plan/pools.parquet has been changed" in str(refused(public_copy))


# --- attacks: everything that can be made consistent again is made consistent


def read_certificate(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "certificate.json").read_text(encoding="utf-8")))


def forged(folder: Path, change: Callable[[Document], object] = lambda _: None) -> VerificationError:
    """Change the certificate, make everything else consistent with it, and return what `verify` says."""
    document = read_certificate(folder)
    change(document)
    forge(folder, document)
    return refused(folder)


def test_resealing_what_was_not_changed_passes(public_copy: Path) -> None:
    """Otherwise the tests below could fail for another reason than the one they are about."""
    forge(public_copy, read_certificate(public_copy))
    assert passed(public_copy) == CHECKS


def other(value: Document) -> Document:
    """Another value of the same form: the last digit or letter is the next one, the last entry is gone."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return round(value * 0.99, 4)
    if isinstance(value, str):
        at = max((i for i, c in enumerate(value) if c.isdigit()), default=len(value) - 1)
        after = str((int(value[at]) + 1) % 10) if value[at].isdigit() else chr(ord(value[at]) + 1)
        return value[:at] + after + value[at + 1 :]
    if isinstance(value, list):
        return value[:-1] if value else ["approved by the Census Bureau"]
    return "0" * 64  # where there is nothing; a hash has room for it too


def put(document: Document, path: Step, change: Callable[[Document], Document] = other) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = change(document[path[-1]])


def forge_fields(folder: Path, name: str, *paths: Step) -> None:
    """Change fields of a document of a release, and everything that can be made consistent again."""

    def change(document: Document) -> None:
        for path in paths:
            put(document, path)

    if name == "plan/plan.json":
        replan(folder, change)
    elif name == "accuracy.json":
        edit_json(folder / name, change)
        forge(folder, read_certificate(folder))
    else:
        document = read_certificate(folder)
        change(document)
        forge(folder, document)


@pytest.fixture
def rewritten(small_release: Release, public_copy: Path) -> Callable[[], None]:
    """Return what puts back all that `forge_fields` may have changed in the copy."""
    names = [
        "MANIFEST.json",
        "README.md",
        "SHA256SUMS",
        "croissant.json",
        "datapackage.json",
        "dcat-ap.jsonld",
    ]
    names += ["details.md", *ONLY_SIGNED]
    contents = {name: (small_release.public / name).read_bytes() for name in names}

    def put_back() -> None:
        for name, content in contents.items():
            (public_copy / name).write_bytes(content)

    return put_back


@pytest.mark.parametrize("name", ONLY_SIGNED)
def test_every_field_is_checked_or_only_signed(
    name: str, public_copy: Path, rewritten: Callable[[], None]
) -> None:
    document = json.loads((public_copy / name).read_text(encoding="utf-8"))
    paths = [path for path, _ in leaves(document)]
    assert ONLY_SIGNED[name] <= set(paths)
    for path in paths:
        if path in ONLY_SIGNED[name]:
            continue
        try:
            forge_fields(public_copy, name, path)
        except ValueError:  # not even a certificate
            continue
        error = refused(public_copy, path=path)
        assert error.check in {
            "certificate",
            "plan",
            "guarantee",
            "budget",
            "data",
            "accuracy",
            "texts",
            "polygons",
            "commitment",
            "witnessed",
        }, path
        if error.check == "guarantee" and name == "certificate.json":
            due = "for_release" if path[0] == "software" else path[0]
            assert f"certificate.json: {due} is not what the plan and its other fields give" in str(error)
        rewritten()
    # All at once, so that the list names nothing that is checked.
    forge_fields(public_copy, name, *sorted(ONLY_SIGNED[name], key=len, reverse=True))
    assert passed(public_copy) == CHECKS


def test_a_signature_protects_what_is_only_signed(public_copy: Path, tmp_path: Path) -> None:
    private, public = generate_keys(tmp_path / "keys")
    shutil.copy(public, public_copy / PUBLIC_KEY)
    forge(public_copy, read_certificate(public_copy))
    sign(read_private_key(private), public_copy)
    assert [check.name for check in verify(public_copy, public)][-1] == "for release"
    for name, paths in ONLY_SIGNED.items():  # a signature is over whole files
        forge_fields(public_copy, name, max(paths, key=len))
        with pytest.raises(VerificationError) as caught:
            verify(public_copy, public)
        assert caught.value.check == "signature", name


def test_prose_has_no_room_where_nothing_checks_it(small_release: Release) -> None:
    document = small_release.certificate.model_dump()
    assert Certificate.model_validate(document) == small_release.certificate
    for path, value in [
        ("created", "2026-11-21 true home of worker 7"),
        ("created", "2026-11-21T17:00:00+00:00"),
        ("created", "2026-11-31T17:00:00Z"),
        ("software.version", "the one that was audited"),
        ("software.commit", "audited and approved by the Census Bureau"),
        ("software.commit", ""),
        ("software.dependencies.numpy", "2.4 with patches"),
        ("software.dependencies.audited by", "1.0"),
    ]:
        with pytest.raises(pydantic.ValidationError):
            Certificate.model_validate(with_values(document, {path: value}))


def test_the_certificate_of_another_plan_is_found(
    public_copy: Path, small_config: Configs, clean_source: object
) -> None:
    other = run(small_config({"privacy.epsilon": "9.5"}))
    forge(public_copy, read_certificate(other.public))
    error = refused(public_copy)
    assert error.check == "plan"
    assert "is not the plan that certificate.json names" in str(error)


# --- a changed plan, with every hash made right again


def replan(
    folder: Path,
    change: Callable[[Document], None] | None = None,
    tables: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] | None = None,
) -> None:
    """Change plan.json or its tables; hashes in plan.json, certificate and seals are made right again."""
    path = folder / "plan" / "plan.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    if change:
        change(plan)
    for name, edit in (tables or {}).items():
        target = folder / "plan" / name
        table = pq.read_table(target)
        edited = edit(table.to_pandas())
        pq.write_table(
            pa.Table.from_pandas(edited, schema=table.schema, preserve_index=False).replace_schema_metadata(),
            target,
            compression="zstd",
        )
        assert not pq.read_table(target).equals(table)
        plan["files"][name] = sha256_of(target)
    path.write_text(json.dumps(plan, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    document = read_certificate(folder)
    document["plan_sha256"] = plan_hash(folder / "plan")
    forge(folder, document)


def test_rewriting_the_plan_as_it_was_passes(public_copy: Path) -> None:
    replan(public_copy)
    assert passed(public_copy) == CHECKS


def test_only_a_signature_protects_what_has_no_source_in_a_release(public_copy: Path) -> None:
    """As docs/verification.md says: title, weights and places, all else made to fit."""

    def change(plan: Document) -> None:
        plan["configuration"]["release"]["name"] = "Another region"

    replan(
        public_copy,
        change,
        {"blocks.parquet": lambda b: b.assign(weight=b["weight"] + 1, latitude=b["latitude"] + 0.001)},
    )
    document = read_certificate(public_copy)
    document["release"]["name"] = "Another region"
    release = load_plan(public_copy / "plan")
    document |= to_jsonable_python(guarantee_fields(release, release.certify()))
    forge(public_copy, document)
    assert passed(public_copy) == CHECKS
    assert alone(public_copy) is None


def of_classes(**fields: Callable[[Any], Any]) -> Callable[[Document], None]:
    """Other values of fields of every class of pools."""

    def change(plan: Document) -> None:
        for row in plan["parameters"]["classes"]:
            row.update({name: new(row[name]) for name, new in fields.items()})

    return change


CLASSES = [
    of_classes(prior=lambda prior: [max(1, a // 2) for a in prior]),
    of_classes(prior=lambda prior: [0 for _ in prior]),
    of_classes(gain=lambda gain: str(10 * Fraction(gain))),
    of_classes(
        gain=lambda _: "2"
    ),  # claims less epsilon than there is: the failure probability has to show it
    of_classes(cells=lambda cells: [1 for _ in cells]),
]
NUMBERS: list[Callable[[Document], None]] = [
    *CLASSES,
    of_classes(n_min=lambda _: 1),
    lambda plan: plan["parameters"].update(classes=[]),
    lambda plan: plan["parameters"].update(retention=["1" for _ in plan["parameters"]["retention"]]),
    lambda plan: plan["parameters"].update(denominator=10 * plan["parameters"]["denominator"]),
    lambda plan: plan.update(epsilon="100"),
    lambda plan: plan.update(guarantee="dp"),
    lambda plan: plan["configuration"]["jobs"].update(records_per_worker=2),
]


def test_changed_numbers_of_the_plan_are_found(copies: Iterator[Path]) -> None:
    for change, folder in zip(NUMBERS, copies, strict=False):
        replan(folder, change)
        assert refused(folder).check in {"plan", "guarantee"}


def test_changed_numbers_are_found_even_with_the_certificate_they_would_give(copies: Iterator[Path]) -> None:
    """The attacker also lets the program write the guarantee of the changed plan: now it costs too much."""
    for change, folder in zip(CLASSES, copies, strict=False):
        replan(folder, change)
        try:
            release = load_plan(folder / "plan")
            guarantee = release.certify()
        except ValueError:
            assert refused(folder).check in {"plan", "guarantee"}
            continue
        new = to_jsonable_python(guarantee_fields(release, guarantee))
        assert forged(folder, lambda document, new=new: document.update(new)).check == "budget"


# Finer domains than were certified mean more cells, more failure probability; and fewer draws cost less: a
# cheap plan must not certify data that were drawn from a dear one.
TABLES: list[tuple[str, str, Tables]] = [
    ("plan", "pools", lambda pools: pools.assign(n=pools["n"] + (pools.index == 0))),
    ("plan guarantee", "pools", lambda pools: pools.assign(m=pools["m"] * 2)),
    ("guarantee", "pools", lambda pools: pools.assign(**{"class": pools["class"].max()})),
    ("plan: m is not n", "pools", lambda pools: pools.assign(m=1)),
    ("plan", "pools", lambda pools: pools.assign(place=pools["place"].iloc[0])),
    ("plan", "pools", lambda pools: pools.assign(shared=~pools["shared"])),
    ("plan", "slots", lambda slots: slots[::-1].reset_index(drop=True)),
    (
        "plan guarantee",
        "domains",
        lambda table: table.assign(cuts=[[*range(120)]] * len(table), stratum=[[0] * 120] * len(table)),
    ),
    ("plan", "blocks", lambda blocks: blocks.assign(weight=-5)),
    ("plan", "blocks", lambda blocks: blocks.assign(latitude=999.0)),
    ("plan", "blocks", lambda blocks: blocks.assign(longitude=float("nan"))),
    ("plan", "blocks", lambda b: b.assign(trct=b["trct"].astype("str").where(b.index > 0, ""))),
]


def test_changed_tables_of_the_plan_are_found(copies: Iterator[Path]) -> None:
    for (expected, name, change), folder in zip(TABLES, copies, strict=False):
        replan(folder, tables={f"{name}.parquet": change})
        checks, _, words = expected.partition(": ")
        error = refused(folder)
        assert error.check in checks.split()
        assert words in str(error)


def test_another_pool_size_with_slots_to_match_is_found(public_copy: Path) -> None:
    """Now the plan agrees with itself, but neither with the certificate nor with the data."""

    def pools(table: pd.DataFrame) -> pd.DataFrame:
        more = table.index == table["n"].idxmax()
        return table.assign(n=table["n"] + more, m=table["m"] + more)

    def slots(table: pd.DataFrame) -> pd.DataFrame:
        largest = table.groupby("pool")["count"].sum().idxmax()
        row = table.index[table["pool"] == largest][0]
        return table.assign(count=table["count"] + (table.index == row))

    replan(public_copy, tables={"pools.parquet": pools, "slots.parquet": slots})
    assert refused(public_copy).check == "guarantee"


# --- changed data, both files rewritten and sealed


def write_data(folder: Path, table: pa.Table) -> None:
    """Write the OD table to both of its files, as a careful forger would, and seal them."""
    parquet, csv = (folder / name for name in OD)
    pq.write_table(table, parquet, compression="zstd")
    csv.write_bytes(gzipped(table.to_pandas(ignore_metadata=True).to_csv(index=False).encode()))
    forge(folder, read_certificate(folder))


def gzipped(text: bytes) -> bytes:
    """Compress as this program does."""
    whole = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=whole, mtime=0) as member:
        member.write(text)
    return whole.getvalue()


def plain(table: pd.DataFrame, schema: pa.Schema | None = None) -> pa.Table:
    """The table without notes."""
    return pa.Table.from_pandas(table, schema=schema, preserve_index=False).replace_schema_metadata()


def rewrite(folder: Path, edit: Tables) -> None:
    """Change the rows of the OD table."""
    table = pq.read_table(folder / OD[0])
    write_data(folder, plain(edit(table.to_pandas()), table.schema))


def test_rewriting_the_data_as_it_was_passes(public_copy: Path) -> None:
    rewrite(public_copy, lambda od: od)
    assert passed(public_copy) == CHECKS


def exchanged_work_blocks(od: pd.DataFrame) -> pd.DataFrame:
    a, b = od["w_geocode"].iloc[0], od["w_geocode"].iloc[-1]
    return od.assign(w_geocode=od["w_geocode"].replace({a: b, b: a})).sort_values(["w_geocode", "h_geocode"])


def one_job_moved(od: pd.DataFrame) -> pd.DataFrame:
    """From one work block to another: S000 and one category of each attribute."""
    counts = od.columns[2:-1]
    row = od[counts].iloc[0]
    other = od.index[od["w_geocode"] != od["w_geocode"].iloc[0]][0]
    step = {
        name: int(row[[n for n in counts if n[:2] == name]].gt(0).idxmax()[-1]) for name in ("SA", "SE", "SI")
    }
    columns = ["S000", *(f"{name}0{k}" for name, k in step.items())]
    moved = od.copy()
    moved.loc[0, columns] -= 1
    moved.loc[other, columns] += 1
    return moved[moved["S000"] > 0]


def one_attribute_changed(od: pd.DataFrame) -> pd.DataFrame:
    row = od.index[od["SA02"] > 0][0]
    changed = od.copy()
    changed.loc[row, ["SA02", "SA03"]] += [-1, 1]
    return changed


def a_negative_count(od: pd.DataFrame) -> pd.DataFrame:
    """Totals agree, no row does."""
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:2]
    changed = od.copy()
    changed.loc[rows[0], ["SA01", "SA02"]] += [-1000, 1000]
    changed.loc[rows[1], ["SA01", "SA02"]] += [1000, -1000]
    return changed


def a_total_that_its_attributes_do_not_give(od: pd.DataFrame) -> pd.DataFrame:
    """S000 moved between two rows of a block, the groups not: all totals by block agree."""
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:2]
    changed = od.copy()
    changed.loc[rows, "S000"] += [1, -1]
    changed.loc[rows[1], "S000"] = max(1, int(changed.loc[rows[1], "S000"]))
    changed.loc[rows[0], "S000"] = int(od.loc[rows, "S000"].sum()) - int(changed.loc[rows[1], "S000"])
    return changed if not changed.equals(od) else changed.assign(SA01=od["SA01"].to_numpy()[::-1])


def counts_that_wrap_around(od: pd.DataFrame) -> pd.DataFrame:
    """Four times 2^62 is nothing in 64 bits."""
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:4]
    changed = od.copy()
    changed.loc[rows, ["S000", "SA01", "SE01", "SI01"]] += 2**62
    return changed


def categories_that_wrap_around(od: pd.DataFrame) -> pd.DataFrame:
    """In each row and in each column 2^64 is added, which is nothing in 64 bits; jobs stay as they are."""
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:3]
    most, rest = 2**63 - 1000, 2000
    changed = od.copy()
    more = np.array([[most, most, rest], [most, rest, most], [rest, most, most]])
    changed.loc[rows, ["SI01", "SI02", "SI03"]] += more
    return changed


SUBTLE: list[Tables] = [
    *(exchanged_work_blocks, one_job_moved, one_attribute_changed),
    lambda od: od[1:],
    lambda od: od.assign(createdate="19990101"),
]
CHANGES: list[Tables] = [
    *SUBTLE,
    *(a_total_that_its_attributes_do_not_give, counts_that_wrap_around, categories_that_wrap_around),
    a_negative_count,
    lambda od: od.assign(h_geocode=od["h_geocode"].where(od.index > 0, "999999999999999")),
]


def test_changed_data_is_found(copies: Iterator[Path]) -> None:
    for edit, folder in zip(CHANGES, copies, strict=False):
        rewrite(folder, edit)
        error = refused(folder)
        assert error.check == "data"
        assert OD[0] in str(error)


def test_fractions_of_jobs_are_found(public_copy: Path) -> None:
    od = pq.read_table(public_copy / OD[0]).to_pandas()
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:2]
    names = ["S000", "SA01", "SE01", "SI01"]
    od = od.astype(dict.fromkeys(names, float))
    for name in names:
        od.loc[rows, name] += [0.5, -0.5]
    write_data(public_copy, plain(od))
    assert refused(public_copy).check == "data"


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and compare a few jobs, rows and bytes at a time, so that every boundary is met."""
    for module, name, value in (
        (data_check, "_AT_A_TIME", 25),
        (data_check, "_ROWS", 7),
        (byte_check, "_PIECE", 300),
    ):
        monkeypatch.setattr(module, name, value)


def test_changed_data_are_found_piece_by_piece(copies: Iterator[Path], small_pieces: None) -> None:
    assert passed(next(copies)) == CHECKS
    for edit, folder in zip(SUBTLE, copies, strict=False):
        rewrite(folder, edit)
        assert refused(folder).check == "data"


def test_one_line_of_the_csv_is_found_wherever_it_is(public_copy: Path, small_pieces: None) -> None:
    csv = public_copy / OD[1]
    lines = gzip.decompress(csv.read_bytes()).splitlines(keepends=True)
    for line in (1, 2, 250, -1):
        fields = lines[line].split(b",")
        fields[2] = str(int(fields[2]) + 1).encode()  # S000, whatever was drawn
        changed = lines.copy()
        changed[line] = b",".join(fields)
        csv.write_bytes(gzipped(b"".join(changed)))
        assert "hold different rows" in str(forged(public_copy)), line


def test_a_line_too_many_is_found_and_not_quoted(public_copy: Path) -> None:
    csv = public_copy / OD[1]
    whole = gzip.decompress(csv.read_bytes())
    for more in (b"1,2\n", b'"quoted', b"030010001001001,030010001001001,x\n"):
        csv.write_bytes(gzipped(whole + more))
        error = forged(public_copy)
        assert error.check == "bytes"
        cause: BaseException | None = error
        while cause is not None:
            assert "03001" not in str(cause)
            cause = cause.__cause__ or cause.__context__


def test_changed_microdata_are_found(
    small_config: Configs, microdata_jobs: Callable[..., object], clean_source: object
) -> None:
    release = run(small_config(microdata_jobs("parquet")))
    path = release.public / "demo_jobs_JT00_2019.parquet"
    table = pq.read_table(path)
    jobs = table.to_pandas()

    def first(name: str, value: str) -> pd.DataFrame:
        assert jobs[name][0] != value
        return jobs.assign(**{name: jobs[name].where(jobs.index > 0, value)})

    homes = jobs["h_geocode"]
    for changed in (
        first("h_geocode", homes[homes != homes[0]].iloc[0]),
        first("sector", {"field": "office", "office": "field"}[jobs["sector"][0]]),
        first("w_geocode", jobs["w_geocode"].iloc[-1]),
        jobs[1:],
    ):
        pq.write_table(plain(changed, table.schema), path)
        error = forged(release.public)
        assert error.check == "data"
        assert path.name in str(error)

    # The last category twice: whoever counts by the names of columns does not see it.
    pq.write_table(table, path)
    replan(release.public, lambda plan: plan["attributes"]["sector"].append(plan["attributes"]["sector"][-1]))
    assert refused(release.public).check in {"plan", "data"}


# --- fitness for release and texts


def test_a_seeded_release_is_not_for_release_and_cannot_be_declared_fit(
    small_config: Configs, clean_source: object
) -> None:
    folder = run(small_config(), key=synth.RunKey.from_seed(1)).public
    assert "Not for release" in (folder / "README.md").read_text(encoding="utf-8")
    error = refused(folder)
    assert error.check == "for release"
    assert "the run was seeded" in str(error)
    for more in ({}, {"not_for_release_because": []}):
        error = forged(folder, lambda document, more=more: document.update(for_release=True, **more))
        assert "for_release is not what the plan and its other fields give" in str(error)


def test_modified_or_unknown_code_cannot_be_declared_fit(public_copy: Path) -> None:
    for commit, modified in (("a" * 40, True), ("a" * 40, None), (None, None), (None, True)):
        code = {"commit": commit, "modified": modified}
        error = forged(public_copy, lambda document, code=code: document["software"].update(code))
        assert "for_release is not what the plan and its other fields give" in str(error)


def test_a_seed_cannot_be_called_secure_in_one_place_only(public_copy: Path) -> None:
    error = forged(public_copy, lambda document: document["randomness"].update(source="a seed (tests only)"))
    assert "randomness is not what the plan and its other fields give" in str(error)


def test_an_unfit_release_that_hides_its_reasons_is_found(public_copy: Path) -> None:
    assert forged(public_copy, lambda document: document.update(for_release=False)).check == "guarantee"


def test_other_words_in_the_readme_are_found(public_copy: Path) -> None:
    path = public_copy / "README.md"
    path.write_text(path.read_text(encoding="utf-8").replace("Epsilon 8.", "Epsilon 0."), encoding="utf-8")
    seal_again(public_copy)
    error = refused(public_copy)
    assert "README.md is not the text that the plan, certificate.json and accuracy.json give" in str(error)


def test_other_numbers_in_the_page_about_attackers_are_found(public_copy: Path) -> None:
    path = public_copy / "attackers.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("| sees the release |", "| sees the release  |"), encoding="utf-8")
    seal_again(public_copy)
    assert "attackers.md is not the text that the plan, certificate.json" in str(refused(public_copy))
    path.unlink()
    seal_again(public_copy)
    assert "do not belong to a release of this kind: attackers.md" in str(refused(public_copy))


def test_a_sealed_extra_file_is_found(public_copy: Path) -> None:
    """Somebody copies a confidential file into the folder and seals it."""
    for name in ("run.json", "plan/homes.parquet", "geo/cty.parquet", "geo/notes.txt"):
        (public_copy / name).write_text("{}")
        assert f"do not belong to a release of this kind: {name}" in str(forged(public_copy))
        (public_copy / name).unlink()


def test_a_manifest_of_another_release_is_found(public_copy: Path) -> None:
    path = public_copy / "MANIFEST.json"
    manifest = json.loads(path.read_text())
    manifest["release"]["name"] = "Another"
    path.write_text(json.dumps(manifest, indent=1) + "\n")
    lines = (public_copy / "SHA256SUMS").read_text().splitlines()
    lines = [line if "MANIFEST" not in line else f"{sha256_of(path)}  MANIFEST.json" for line in lines]
    (public_copy / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    assert "MANIFEST.json does not describe this release" in str(refused(public_copy))


def test_another_schema_is_found(public_copy: Path) -> None:
    (public_copy / "certificate.schema.json").write_text('{"type": "object"}\n')
    error = forged(public_copy)
    assert error.check == "certificate"
    assert "certificate.schema.json" in str(error)


def test_a_certificate_of_another_form_names_the_field(public_copy: Path) -> None:
    document = read_certificate(public_copy)
    certificate = Certificate.model_validate(document)
    document["run"]["epsilon"] = 8.6
    del document["totals"]
    (public_copy / "certificate.json").write_text(json.dumps(document))
    seal(public_copy, certificate)
    error = refused(public_copy)
    assert error.check == "certificate"
    assert "run.epsilon" in str(error)
    assert "totals" in str(error)


def test_a_parquet_bomb_of_nonsense_is_a_failure_not_a_crash(public_copy: Path) -> None:
    (public_copy / OD[0]).write_bytes(b"PAR1" + os.urandom(64) + b"PAR1")
    error = forged(public_copy)
    assert error.check == "data"
    assert "cannot be checked" in str(error)


def test_verification_needs_the_folder_only(
    public_copy: Path, small_region: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader of confidential inputs is even asked."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("verification read an input of the run")

    tables = ("read_flows", "read_ctpp", "read_acs", "read_lodes_flows", "read_weights")
    for name in ("LodesJobs", "MicrodataJobs", *tables):
        monkeypatch.setattr(geo_data, name, refuse)
    assert passed(public_copy) == CHECKS


# --- what a file may carry beside what is read of it


def hidden_as_index(table: pd.DataFrame) -> pa.Table:
    """A column that pandas takes for an index, so that whoever reads a DataFrame does not see it."""
    return pa.Table.from_pandas(table.assign(true_home="030010001001000").set_index("true_home"))


def with_notes_on_a_column(**notes: str) -> Callable[[pd.DataFrame], pa.Table]:
    def noted(table: pd.DataFrame) -> pa.Table:
        bare = plain(table)
        return bare.cast(bare.schema.set(0, bare.schema.field(0).with_metadata(notes)))

    return noted


def without_empty_cells(table: pd.DataFrame) -> pa.Table:
    """Whether a column says so is a bit that no row shows."""
    bare = plain(table)
    return bare.cast(bare.schema.set(2, bare.schema.field(2).with_nullable(False)))


FORMS: list[Callable[[pd.DataFrame], pa.Table]] = [
    *(hidden_as_index, without_empty_cells, with_notes_on_a_column(true="homes")),
    with_notes_on_a_column(**{"ARROW:extension:name": "homes", "ARROW:extension:metadata": "true homes"}),
    with_notes_on_a_column(**{"PARQUET:field_id": "440070001"}),
    lambda table: plain(table).replace_schema_metadata({"true": "homes"}),
    lambda table: plain(table.assign(w_geocode=table["w_geocode"].astype("int64"))),
]


def test_more_than_rows_in_the_od_file_is_found(copies: Iterator[Path]) -> None:
    for form, folder in zip(FORMS, copies, strict=False):
        write_data(folder, form(pq.read_table(folder / OD[0]).to_pandas()))
        assert refused(folder).check == "data"


def test_another_column_in_a_table_of_the_plan_is_found(copies: Iterator[Path]) -> None:
    names = ("blocks", "domains", "shares", "pools", "slots")
    for path, folder in (
        (folder / f"plan/{name}.parquet", folder) for name, folder in zip(names, copies, strict=False)
    ):
        table = pq.read_table(path)
        pq.write_table(table.append_column("true_workers", pa.repeat(1, len(table))), path)
        files = {path.name: sha256_of(path)}
        replan(folder, lambda plan, files=files: plan["files"].update(files))
        assert refused(folder).check == "plan"


MORE: list[Callable[[Document], None]] = [
    lambda plan: plan.update(true_homes="somewhere"),
    lambda plan: plan["configuration"]["jobs"].update(true_homes="somewhere"),
    lambda plan: plan["configuration"].update(run={"batch_jobs": 7}),
    lambda plan: plan["configuration"]["jobs"].update(records_per_worker=True),
    lambda plan: plan["configuration"]["release"].update(implicates=1.0),
    lambda plan: plan["configuration"]["privacy"].update(epsilon="8.60"),
    lambda plan: plan["configuration"]["privacy"].update(epsilon="８.6"),
]


def test_more_in_plan_json_is_found(copies: Iterator[Path]) -> None:
    for change, folder in zip(MORE, copies, strict=False):
        replan(folder, change)
        assert refused(folder).check in {"plan", "texts"}


def test_what_is_no_file_is_found(public_copy: Path) -> None:
    target = public_copy / "plan" / "SSN 123-45-6789 lives at block 5"
    for make in (target.mkdir, (target / "more").mkdir, lambda: (shutil.rmtree(target), os.mkfifo(target))):
        make()
        error = refused(public_copy)
        assert error.check == "files"
        assert "neither a file nor a folder" in str(error)


def test_every_file_is_hashed_once(public_copy: Path) -> None:
    """Python opens a file to hash it; what reads Parquet opens files by itself."""
    opened: list[str] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not done and str(arguments[0]).startswith(f"{public_copy}/"):
            opened.append(str(arguments[0]).removeprefix(f"{public_copy}/"))

    done: list[bool] = []
    sys.addaudithook(note)  # for the life of the process: `done` switches it off
    assert passed(public_copy) == CHECKS
    done.append(True)
    times = Counter(opened)
    names = {path.relative_to(public_copy).as_posix() for path in public_copy.rglob("*.parquet")}
    assert {times[name] for name in (*names, OD[1])} == {2}, "its hash, and its bytes"
    json_files = {"accuracy.json", "certificate.json", "MANIFEST.json", "plan/plan.json"}
    assert {name for name, count in times.items() if count > 2} <= json_files
    read_too = {
        "README.md",
        "attackers.md",
        "areas.csv",
        "blocks.csv",
        "flows.csv",
        "certificate.schema.json",
        "croissant.json",
        "datapackage.json",
        "dcat-ap.jsonld",
        "names.csv",
    }
    read_too |= {"details.md"}
    assert {name for name, count in times.items() if count == 2} - json_files - names - {OD[1]} <= read_too
