"""Verification: what an attacker, a bad disk or a careless colleague may do to a public folder is found."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import geopandas as gpd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
import pytest
import shapely

import geo_data
import pipelines
import synth
from pipelines import (
    Certificate,
    Release,
    ReleaseConfig,
    ReleasePlan,
    VerificationError,
    load_plan,
    plan_hash,
    run,
    verify,
)
from pipelines.planning.storage import sha256_of
from pipelines.release.layout import file_names, seal
from pipelines.release.names import NAME_FILE
from pipelines.release.readme import release_readme
from pipelines.release.signing import PUBLIC_KEY, generate_keys, read_private_key, sign

Configs = Callable[..., ReleaseConfig]
CHECKS = [
    "files",
    "certificate",
    "plan",
    "guarantee",
    "budget",
    "data",
    "texts",
    "polygons",
    "names",
    "for release",
]
PUBLIC = [
    "MANIFEST.json",
    "README.md",
    "SHA256SUMS",
    "certificate.json",
    "certificate.schema.json",
    "demo_od_main_JT00_2019.csv.gz",
    "demo_od_main_JT00_2019.parquet",
    "geo/trct.parquet",
    "names.parquet",
    "plan/blocks.parquet",
    "plan/domains.parquet",
    "plan/plan.json",
    "plan/pools.parquet",
    "plan/shares.parquet",
    "plan/slots.parquet",
]
every_file = pytest.mark.parametrize("name", PUBLIC)


def passed(folder: Path) -> list[str]:
    """The checks that passed, of those these tests are about."""
    return [check.name for check in verify(folder) if check.name in CHECKS]


def refused(folder: Path) -> VerificationError:
    """The error that verification ends with."""
    with pytest.raises(VerificationError) as caught:
        list(verify(folder))
    assert str(caught.value).startswith(f"{caught.value.check}: ")
    return caught.value


def test_good_release_passes_every_check_in_order(small_release: Release, public_copy: Path) -> None:
    assert passed(small_release.public) == CHECKS
    assert passed(public_copy) == CHECKS
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
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "SHA256SUMS is missing" in str(refused(empty))


# --- accidents: one file is not what it was


@every_file
@pytest.mark.parametrize("place", ["first", "second", "quarter", "middle", "last"])
def test_one_changed_byte_is_found_and_the_file_named(name: str, place: str, public_copy: Path) -> None:
    path = public_copy / name
    data = bytearray(path.read_bytes())
    position = {"first": 0, "second": 1, "quarter": len(data) // 4, "middle": len(data) // 2, "last": -1}[
        place
    ]
    for change in (0x01, 0x80):
        changed = bytearray(data)
        changed[position] ^= change
        path.write_bytes(changed)
        error = refused(public_copy)
        assert error.check == "files"
        assert f"{name} has been changed" in str(error)


@every_file
@pytest.mark.parametrize("harm", ["empty", "byte added", "cut off", "lines in CRLF"])
def test_other_harm_to_a_file_is_found_and_the_file_named(name: str, harm: str, public_copy: Path) -> None:
    path = public_copy / name
    data = path.read_bytes()
    changed = {
        "empty": b"",
        "byte added": data + b"\n",
        "cut off": data[:-1],
        "lines in CRLF": data.replace(b"\n", b"\r\n"),
    }[harm]
    if changed == data:
        changed = data + b"\r\n"
    path.write_bytes(changed)
    assert name in str(refused(public_copy))


@every_file
def test_a_missing_file_is_found_and_named(name: str, public_copy: Path) -> None:
    (public_copy / name).unlink()
    error = refused(public_copy)
    assert error.check == "files"
    assert f"{name} is missing" in str(error)


@every_file
@pytest.mark.parametrize("target", ["same bytes", "other bytes", "nothing"])
def test_a_link_is_found_and_named(name: str, target: str, public_copy: Path, tmp_path: Path) -> None:
    """A link would be verified here and point elsewhere, or nowhere, after publishing."""
    path, elsewhere = public_copy / name, tmp_path / "elsewhere"
    if target == "same bytes":
        shutil.copy(path, elsewhere)
    elif target == "other bytes":
        elsewhere.write_text("other")
    path.unlink()
    path.symlink_to(elsewhere)
    error = refused(public_copy)
    assert error.check == "files"
    assert name in str(error)


def test_a_linked_folder_is_found(public_copy: Path, tmp_path: Path) -> None:
    shutil.move(public_copy / "plan", tmp_path / "plan")
    (public_copy / "plan").symlink_to(tmp_path / "plan")
    assert "plan is a link" in str(refused(public_copy))


@pytest.mark.parametrize("name", ["extra.csv", ".hidden", "plan/extra.parquet", "new/folder/run.json"])
@pytest.mark.parametrize("content", [b"", b"confidential"])
def test_an_extra_file_is_found_and_named(name: str, content: bytes, public_copy: Path) -> None:
    path = public_copy / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    error = refused(public_copy)
    assert error.check == "files"
    assert f"{name} does not belong to the release" in str(error)


@every_file
def test_a_folder_in_the_place_of_a_file_is_found(name: str, public_copy: Path) -> None:
    (public_copy / name).unlink()
    (public_copy / name).mkdir()
    assert f"{name} is missing" in str(refused(public_copy))


def test_two_files_exchanged(public_copy: Path) -> None:
    one, other = public_copy / "plan/pools.parquet", public_copy / "plan/slots.parquet"
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)
    assert "plan/pools.parquet has been changed" in str(refused(public_copy))


# --- attacks: everything that can be made consistent again is made consistent


def read_certificate(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "certificate.json").read_text(encoding="utf-8")))


def reseal(folder: Path, document: dict[str, Any]) -> None:
    """Write the certificate, the read-me and the seals anew, as an attacker who has this program would."""
    certificate = Certificate.model_validate(document)
    (folder / "certificate.json").write_text(certificate.model_dump_json(indent=1) + "\n", encoding="utf-8")
    try:
        release = load_plan(folder / "plan")
    except Exception:
        pass
    else:
        text = release_readme(
            release, certificate, file_names(release.configuration), (folder / NAME_FILE).is_file()
        )
        (folder / "README.md").write_text(text, encoding="utf-8")
    seal(folder, certificate)


def test_resealing_what_was_not_changed_passes(public_copy: Path) -> None:
    """Otherwise the tests below could fail for another reason than the one they are about."""
    reseal(public_copy, read_certificate(public_copy))
    assert passed(public_copy) == CHECKS


Document = Any  # JSON
Step = tuple[str | int, ...]

# What nothing in a release can prove: what only the machine saw that made it, and the public inputs, which
# are not in it. A signature protects them.
ONLY_SIGNED: dict[str, set[Step]] = {
    "certificate.json": {
        ("created",),
        ("software", "version"),
        ("software", "commit"),
        ("software", "dependencies", "click"),  # and all the others
    },
    "plan/plan.json": {
        ("notes",),
        *(("configuration", "jobs", name) for name in ("file", "aux")),
        *(("configuration", "weights", name) for name in ("file", "area", "level", "weight")),
        ("configuration", "auxiliary"),
        *(("configuration", "auxiliary", 0, name) for name in ("file", "flow", "margin", "same_jobs")),
        *(("configuration", "auxiliary", 0, name) for name in ("origin_level", "destination_level")),
        *(("configuration", "auxiliary", 0, name, 0) for name in ("origin", "destination")),
        *(("configuration", "geography", name) for name in ("file", "latitude", "longitude")),
        ("configuration", "geography", "non_nesting_areas"),
        *(("configuration", "geography", "polygons", 0, name) for name in ("file", "code")),
        *(("configuration", "plan", name) for name in ("distance_miles", "retention_min")),
    },
}


def leaves(document: Document, path: Step = ()) -> Iterator[tuple[Step, Document]]:
    """Every value and every list, with its path; of a list of things that are alike the first only."""
    if isinstance(document, dict):
        names = list(document)[:1] if path == ("software", "dependencies") else list(document)
        for name in names:
            yield from leaves(document[name], (*path, name))
        return
    yield path, document
    if isinstance(document, list) and document:
        yield from leaves(document[0], (*path, 0))


def other(value: Document) -> Document:
    """Another value of the same form: the last digit or letter is the next one, the last entry is gone."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        at = max((i for i, c in enumerate(value) if c.isdigit()), default=len(value) - 1)
        after = str((int(value[at]) + 1) % 10) if value[at].isdigit() else chr(ord(value[at]) + 1)
        return value[:at] + after + value[at + 1 :]
    if isinstance(value, list):
        return value[:-1] if value else ["approved by the Census Bureau"]
    return "x"


def put(document: Document, path: Step, change: Callable[[Document], Document] = other) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = change(document[path[-1]])


def forge(folder: Path, name: str, *paths: Step) -> None:
    """Change fields of a document of a release, and everything that can be made consistent again."""

    def change(document: Document) -> None:
        for path in paths:
            put(document, path)

    if name == "plan/plan.json":
        replan(folder, change)
    else:
        document = read_certificate(folder)
        change(document)
        reseal(folder, document)


@pytest.fixture
def rewritten(small_release: Release, public_copy: Path) -> Callable[[], None]:
    """Return what puts back all that `forge` may have changed in the copy."""
    names = ["MANIFEST.json", "README.md", "SHA256SUMS", *ONLY_SIGNED]
    contents = {name: (small_release.public / name).read_bytes() for name in names}

    def put_back() -> None:
        for name, content in contents.items():
            (public_copy / name).write_bytes(content)

    return put_back


@pytest.fixture
def plans_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a plan once to seal it and to verify it; most of the time goes there."""
    plans: dict[str, ReleasePlan] = {}

    def load(folder: Path, hashes: Mapping[str, str] | None = None) -> ReleasePlan:
        name = plan_hash(folder)
        if name not in plans:
            plans[name] = pipelines.load_plan(folder)
        return plans[name]

    for module in (__name__, "pipelines.release.verification"):
        monkeypatch.setattr(f"{module}.load_plan", load)


@pytest.mark.parametrize("name", ONLY_SIGNED)
def test_every_field_is_checked_or_only_signed(
    name: str, public_copy: Path, rewritten: Callable[[], None], plans_read_once: None
) -> None:
    document = json.loads((public_copy / name).read_text(encoding="utf-8"))
    paths = [path for path, _ in leaves(document)]
    assert ONLY_SIGNED[name] <= set(paths)
    for path in paths:
        if path in ONLY_SIGNED[name]:
            continue
        try:
            forge(public_copy, name, path)
        except pydantic.ValidationError:  # not even a certificate
            continue
        error = refused(public_copy)
        assert error.check in {"certificate", "plan", "guarantee", "budget", "data", "texts", "polygons"}, (
            path
        )
        if error.check == "guarantee" and name == "certificate.json":
            assert f"certificate.json: {path[0]} is not what the plan gives" in str(error)
        rewritten()
    # All at once, so that the list names nothing that is checked.
    forge(public_copy, name, *sorted(ONLY_SIGNED[name], key=len))
    assert passed(public_copy) == CHECKS


def test_a_signature_protects_what_is_only_signed(public_copy: Path, tmp_path: Path) -> None:
    private, public = generate_keys(tmp_path / "keys")
    shutil.copy(public, public_copy / PUBLIC_KEY)
    reseal(public_copy, read_certificate(public_copy))
    sign(read_private_key(private), public_copy)
    assert [check.name for check in verify(public_copy, public)][-1] == "for release"
    for name, paths in ONLY_SIGNED.items():
        for path in paths:
            forge(public_copy, name, path)
            with pytest.raises(VerificationError) as caught:
                list(verify(public_copy, public))
            assert caught.value.check == "signature", path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("created",), "2026-11-21 true home of worker 7"),
        (("created",), "2026-11-21T17:00:00+00:00"),
        (("created",), "2026-11-31T17:00:00Z"),
        (("software", "version"), "the one that was audited"),
        (("software", "commit"), "audited and approved by the Census Bureau"),
        (("software", "commit"), ""),
        (("software", "dependencies", "numpy"), "2.4 with patches"),
        (("software", "dependencies", "audited by"), "1.0"),
    ],
)
def test_prose_has_no_room_where_nothing_checks_it(path: Step, value: str, small_release: Release) -> None:
    document = small_release.certificate.model_dump()
    assert Certificate.model_validate(document) == small_release.certificate
    place: Document = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(pydantic.ValidationError):
        Certificate.model_validate(document)


def test_the_certificate_of_another_plan_is_found(
    public_copy: Path, small_config: Configs, clean_source: object
) -> None:
    other = run(small_config(('epsilon = "8.6"', 'epsilon = "9.5"')))
    reseal(public_copy, read_certificate(other.public))
    error = refused(public_copy)
    assert error.check == "plan"
    assert "is not the plan that certificate.json names" in str(error)


# --- a changed plan, with every hash made right again


def replan(
    folder: Path,
    change: Callable[[dict[str, Any]], None] | None = None,
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
        )
        assert not pq.read_table(target).equals(table)
        plan["files"][name] = sha256_of(target)
    path.write_text(json.dumps(plan, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    document = read_certificate(folder)
    document["plan_sha256"] = plan_hash(folder / "plan")
    reseal(folder, document)


def test_rewriting_the_plan_as_it_was_passes(public_copy: Path) -> None:
    replan(public_copy)
    assert passed(public_copy) == CHECKS


def smaller_prior(plan: dict[str, Any]) -> None:
    for row in plan["parameters"]["classes"]:
        row["prior"] = [max(1, a // 2) for a in row["prior"]]


def larger_gain(plan: dict[str, Any]) -> None:
    for row in plan["parameters"]["classes"]:
        row["gain"] = str(10 * Fraction(row["gain"]))


def smaller_gain(plan: dict[str, Any]) -> None:
    """Claims less epsilon than there is; the failure probability has to show it."""
    for row in plan["parameters"]["classes"]:
        row["gain"] = "2"


def more_retention(plan: dict[str, Any]) -> None:
    plan["parameters"]["retention"] = ["1" for _ in plan["parameters"]["retention"]]


def larger_denominator(plan: dict[str, Any]) -> None:
    plan["parameters"]["denominator"] *= 10


def larger_request(plan: dict[str, Any]) -> None:
    plan["epsilon"] = "100"


def other_request(plan: dict[str, Any]) -> None:
    plan["guarantee"] = "dp"


def more_records_a_person(plan: dict[str, Any]) -> None:
    plan["configuration"]["jobs"]["records_per_worker"] = 2


def fewer_cells(plan: dict[str, Any]) -> None:
    for row in plan["parameters"]["classes"]:
        row["cells"] = [1 for _ in row["cells"]]


def no_priors(plan: dict[str, Any]) -> None:
    for row in plan["parameters"]["classes"]:
        row["prior"] = [0 for _ in row["prior"]]


def no_classes(plan: dict[str, Any]) -> None:
    plan["parameters"]["classes"] = []


def larger_classes(plan: dict[str, Any]) -> None:
    for row in plan["parameters"]["classes"]:
        row["n_min"] = 1


@pytest.mark.parametrize(
    "change",
    [
        *(smaller_prior, larger_gain, smaller_gain, more_retention, larger_denominator, larger_request),
        *(other_request, more_records_a_person, fewer_cells, no_priors, no_classes, larger_classes),
    ],
)
def test_changed_numbers_of_the_plan_are_found(
    change: Callable[[dict[str, Any]], None], public_copy: Path
) -> None:
    replan(public_copy, change)
    assert refused(public_copy).check in {"plan", "guarantee"}


@pytest.mark.parametrize(
    "change", [smaller_prior, larger_gain, smaller_gain, fewer_cells, no_priors], ids=lambda f: f.__name__
)
def test_changed_numbers_are_found_even_with_the_certificate_they_would_give(
    change: Callable[[dict[str, Any]], None], public_copy: Path
) -> None:
    """The attacker also lets the program write the guarantee of the changed plan: now it costs too much."""
    replan(public_copy, change)
    try:
        release = load_plan(public_copy / "plan")
        guarantee = release.mechanism.certify(release.numeric)
    except ValueError:
        assert refused(public_copy).check in {"plan", "guarantee"}
        return
    fields = pipelines.release.certificate.guarantee_fields(release, guarantee)
    document = read_certificate(public_copy)
    document.update(
        {n: [r.model_dump() for r in v] if n == "classes" else v.model_dump() for n, v in fields.items()}
    )
    reseal(public_copy, document)
    assert refused(public_copy).check == "budget"


def test_another_pool_size_is_found(public_copy: Path) -> None:
    def edit(pools: pd.DataFrame) -> pd.DataFrame:
        return pools.assign(n=pools["n"] + (pools.index == 0))

    replan(public_copy, tables={"pools.parquet": edit})
    assert refused(public_copy).check == "plan"


def test_another_pool_size_with_slots_to_match_is_found(public_copy: Path) -> None:
    """Now the plan agrees with itself, but neither with the certificate nor with the data."""
    first = {"changed": False}

    def pools(table: pd.DataFrame) -> pd.DataFrame:
        more = table.index == table["n"].idxmax()
        return table.assign(n=table["n"] + more, m=table["m"] + more)

    def slots(table: pd.DataFrame) -> pd.DataFrame:
        largest = table.groupby("pool")["count"].sum().idxmax()
        row = table.index[table["pool"] == largest][0]
        first["changed"] = True
        return table.assign(count=table["count"] + (table.index == row))

    replan(public_copy, tables={"pools.parquet": pools, "slots.parquet": slots})
    assert first["changed"]
    assert refused(public_copy).check == "guarantee"


def test_more_draws_than_the_class_allows_are_found(public_copy: Path) -> None:
    replan(public_copy, tables={"pools.parquet": lambda pools: pools.assign(m=pools["m"] * 2)})
    assert refused(public_copy).check in {"plan", "guarantee"}


def test_a_pool_moved_to_a_cheaper_class_is_found(public_copy: Path) -> None:
    replan(
        public_copy, tables={"pools.parquet": lambda pools: pools.assign(**{"class": pools["class"].max()})}
    )
    assert refused(public_copy).check == "guarantee"


def test_other_cuts_are_found(public_copy: Path) -> None:
    """Finer domains than were certified: more cells, more failure probability."""

    def finer(domains: pd.DataFrame) -> pd.DataFrame:
        every = list(range(120))
        return domains.assign(cuts=[every] * len(domains), stratum=[[0] * 120] * len(domains))

    replan(public_copy, tables={"domains.parquet": finer})
    assert refused(public_copy).check in {"plan", "guarantee"}


# --- changed data, both files rewritten and sealed


def rewrite(folder: Path, edit: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the OD table, in both files alike."""
    parquet, csv = (folder / f"demo_od_main_JT00_2019.{end}" for end in ("parquet", "csv.gz"))
    table = pq.read_table(parquet)
    edited = edit(table.to_pandas())
    pq.write_table(
        pa.Table.from_pandas(edited, schema=table.schema, preserve_index=False).replace_schema_metadata(),
        parquet,
    )
    csv.write_bytes(gzip.compress(edited.to_csv(index=False).encode()))
    reseal(folder, read_certificate(folder))


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


def a_row_dropped(od: pd.DataFrame) -> pd.DataFrame:
    return od[1:]


def a_negative_count(od: pd.DataFrame) -> pd.DataFrame:
    """Totals agree, no row does."""
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:2]
    changed = od.copy()
    changed.loc[rows[0], ["SA01", "SA02"]] += [-1000, 1000]
    changed.loc[rows[1], ["SA01", "SA02"]] += [1000, -1000]
    return changed


def an_unknown_home(od: pd.DataFrame) -> pd.DataFrame:
    return od.assign(h_geocode=od["h_geocode"].where(od.index > 0, "999999999999999"))


def another_day(od: pd.DataFrame) -> pd.DataFrame:
    return od.assign(createdate="19990101")


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


@pytest.mark.parametrize(
    "edit",
    [
        *(a_total_that_its_attributes_do_not_give, counts_that_wrap_around),
        *(exchanged_work_blocks, one_job_moved, one_attribute_changed, a_row_dropped, a_negative_count),
        *(an_unknown_home, another_day),
    ],
)
def test_changed_data_is_found(edit: Callable[[pd.DataFrame], pd.DataFrame], public_copy: Path) -> None:
    rewrite(public_copy, edit)
    error = refused(public_copy)
    assert error.check == "data"
    assert "demo_od_main_JT00_2019.csv.gz" in str(error)


def test_fractions_of_jobs_are_found(public_copy: Path) -> None:
    parquet, csv = (public_copy / f"demo_od_main_JT00_2019.{end}" for end in ("parquet", "csv.gz"))
    od = pq.read_table(parquet).to_pandas()
    rows = od.index[od["w_geocode"] == od["w_geocode"].value_counts().idxmax()][:2]
    od = od.astype({"S000": float, "SA01": float, "SE01": float, "SI01": float})
    for name in ("S000", "SA01", "SE01", "SI01"):
        od.loc[rows, name] += [0.5, -0.5]
    pq.write_table(pa.Table.from_pandas(od, preserve_index=False).replace_schema_metadata(), parquet)
    csv.write_bytes(gzip.compress(od.to_csv(index=False).encode()))
    reseal(public_copy, read_certificate(public_copy))
    assert refused(public_copy).check == "data"


@pytest.fixture(params=[(25, 7, 300), (40, 100_000, 2_000)], ids=str)
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and compare a few jobs, rows and bytes at a time, so that every boundary is met."""
    for name, value in zip(("_AT_A_TIME", "_ROWS", "_BYTES"), request.param, strict=True):
        monkeypatch.setattr(f"pipelines.release.data_check.{name}", value)


@pytest.mark.parametrize(
    "edit", [exchanged_work_blocks, one_job_moved, one_attribute_changed, a_row_dropped, another_day]
)
def test_changed_data_are_found_piece_by_piece(
    edit: Callable[[pd.DataFrame], pd.DataFrame], public_copy: Path, small_pieces: None
) -> None:
    assert passed(public_copy) == CHECKS
    rewrite(public_copy, edit)
    assert refused(public_copy).check == "data"


@pytest.mark.parametrize("line", [1, 2, 250, -1])
def test_one_line_of_the_csv_is_found_wherever_it_is(
    line: int, public_copy: Path, small_pieces: None
) -> None:
    csv = public_copy / "demo_od_main_JT00_2019.csv.gz"
    lines = gzip.decompress(csv.read_bytes()).splitlines(keepends=True)
    fields = lines[line].split(b",")
    fields[2] = str(int(fields[2]) + 1).encode()  # S000, whatever was drawn
    lines[line] = b",".join(fields)
    csv.write_bytes(gzip.compress(b"".join(lines)))
    reseal(public_copy, read_certificate(public_copy))
    assert "hold different rows" in str(refused(public_copy))


@pytest.mark.parametrize("more", [b"1,2\n", b'"quoted', b"030010001001001,030010001001001,x\n"])
def test_a_line_too_many_is_found_and_not_quoted(more: bytes, public_copy: Path) -> None:
    csv = public_copy / "demo_od_main_JT00_2019.csv.gz"
    csv.write_bytes(gzip.compress(gzip.decompress(csv.read_bytes()) + more))
    reseal(public_copy, read_certificate(public_copy))
    error = refused(public_copy)
    assert "hold different rows" in str(error)
    assert error.__cause__ is None
    assert "03001" not in str(error.__context__)


def test_two_data_files_that_differ_are_found(public_copy: Path) -> None:
    csv = public_copy / "demo_od_main_JT00_2019.csv.gz"
    lines = gzip.decompress(csv.read_bytes()).splitlines(keepends=True)
    csv.write_bytes(gzip.compress(b"".join([lines[0], lines[2], lines[1], *lines[3:]])))
    reseal(public_copy, read_certificate(public_copy))
    error = refused(public_copy)
    assert error.check == "data"
    assert "hold different rows" in str(error)


@pytest.mark.parametrize("harm", ["another home", "another attribute", "another work block", "dropped"])
def test_changed_microdata_are_found(
    harm: str,
    small_config: Configs,
    microdata: dict[str, Path],
    microdata_change: Callable[[Path], tuple[str, str]],
    clean_source: object,
) -> None:
    release = run(small_config(microdata_change(microdata["parquet"])))
    path = release.public / "demo_jobs_main_JT00_2019.parquet"
    table = pq.read_table(path)
    jobs = table.to_pandas()
    last = len(jobs) - 1
    match harm:
        case "another home":
            homes = jobs["h_geocode"]
            jobs.loc[0, "h_geocode"] = homes[homes != homes[0]].iloc[0]
        case "another attribute":
            jobs.loc[0, "sector"] = {"field": "office", "office": "field"}[jobs.loc[0, "sector"]]
        case "another work block":
            jobs.loc[0, "w_geocode"] = jobs.loc[last, "w_geocode"]
        case _:
            jobs = jobs[1:]
    pq.write_table(
        pa.Table.from_pandas(jobs, schema=table.schema, preserve_index=False).replace_schema_metadata(), path
    )
    reseal(release.public, read_certificate(release.public))
    error = refused(release.public)
    assert error.check == "data"
    assert path.name in str(error)


# --- fitness for release and texts


def test_a_seeded_release_is_not_for_release(small_config: Configs, clean_source: object) -> None:
    release = run(small_config(), key=synth.RunKey.from_seed(1))
    assert "Not for release" in (release.public / "README.md").read_text(encoding="utf-8")
    error = refused(release.public)
    assert error.check == "for release"
    assert "the run was seeded" in str(error)


@pytest.mark.parametrize("reasons", ["kept", "emptied"])
def test_a_seeded_release_cannot_be_declared_fit(
    reasons: str, small_config: Configs, clean_source: object
) -> None:
    release = run(small_config(), key=synth.RunKey.from_seed(1))
    document = read_certificate(release.public)
    document["for_release"] = True
    if reasons == "emptied":
        document["not_for_release_because"] = []
    reseal(release.public, document)
    error = refused(release.public)
    assert "for_release is not what its other fields give" in str(error)


@pytest.mark.parametrize(
    ("commit", "modified"), [("a" * 40, True), ("a" * 40, None), (None, None), (None, True)]
)
def test_modified_or_unknown_code_cannot_be_declared_fit(
    commit: str | None, modified: bool | None, public_copy: Path
) -> None:
    document = read_certificate(public_copy)
    document["software"] |= {"commit": commit, "modified": modified}
    reseal(public_copy, document)
    assert "for_release is not what its other fields give" in str(refused(public_copy))


def test_a_seed_cannot_be_called_secure_in_one_place_only(public_copy: Path) -> None:
    document = read_certificate(public_copy)
    document["randomness"]["source"] = "a seed (tests only)"
    reseal(public_copy, document)
    assert "randomness is not what this program writes" in str(refused(public_copy))


def test_an_unfit_release_that_hides_its_reasons_is_found(public_copy: Path) -> None:
    document = read_certificate(public_copy)
    document["for_release"] = False
    reseal(public_copy, document)
    assert refused(public_copy).check == "texts"


def test_other_words_in_the_readme_are_found(public_copy: Path) -> None:
    path = public_copy / "README.md"
    path.write_text(path.read_text(encoding="utf-8").replace("Epsilon 8.", "Epsilon 0."), encoding="utf-8")
    seal(public_copy, Certificate.model_validate(read_certificate(public_copy)))
    error = refused(public_copy)
    assert "README.md is not the text that certificate.json gives" in str(error)


@pytest.mark.parametrize("name", ["run.json", "plan/homes.parquet"])
def test_a_sealed_extra_file_is_found(name: str, public_copy: Path) -> None:
    """Somebody copies a confidential file into the folder and seals it."""
    (public_copy / name).write_text("{}")
    reseal(public_copy, read_certificate(public_copy))
    error = refused(public_copy)
    assert f"has other files: {name}" in str(error)


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
    reseal(public_copy, read_certificate(public_copy))
    error = refused(public_copy)
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
    (public_copy / "demo_od_main_JT00_2019.parquet").write_bytes(b"PAR1" + os.urandom(64) + b"PAR1")
    reseal(public_copy, read_certificate(public_copy))
    error = refused(public_copy)
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


def with_notes(table: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata({"true": "homes"})


def with_notes_on_a_column(table: pd.DataFrame) -> pa.Table:
    plain = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
    return plain.cast(plain.schema.set(0, plain.schema.field(0).with_metadata({"true": "homes"})))


def with_numbers_for_codes(table: pd.DataFrame) -> pa.Table:
    numbers = table.assign(w_geocode=table["w_geocode"].astype("int64"))
    return pa.Table.from_pandas(numbers, preserve_index=False).replace_schema_metadata()


@pytest.mark.parametrize(
    "form", [hidden_as_index, with_notes, with_notes_on_a_column, with_numbers_for_codes]
)
def test_more_than_rows_in_the_od_file_is_found(
    form: Callable[[pd.DataFrame], pa.Table], public_copy: Path
) -> None:
    parquet, csv = (public_copy / f"demo_od_main_JT00_2019.{end}" for end in ("parquet", "csv.gz"))
    written = form(pq.read_table(parquet).to_pandas())
    pq.write_table(written, parquet)
    # The same columns in both, as a careful forger would have it.
    csv.write_bytes(gzip.compress(written.to_pandas(ignore_metadata=True).to_csv(index=False).encode()))
    reseal(public_copy, read_certificate(public_copy))
    assert refused(public_copy).check == "data"


@pytest.mark.parametrize("change", ["index", "height"])
def test_more_than_shapes_in_a_file_of_polygons_is_found(change: str, public_copy: Path) -> None:
    path = public_copy / "geo" / "trct.parquet"
    frame = gpd.read_parquet(path)
    if change == "index":
        frame.assign(secret="lives here").set_index("secret").to_parquet(path)
    else:
        frame.set_geometry(shapely.force_3d(frame.geometry.array, 7.0)).to_parquet(path, index=False)
    reseal(public_copy, read_certificate(public_copy))
    assert refused(public_copy).check == "polygons"


@pytest.mark.parametrize("name", ["blocks", "domains", "shares", "pools", "slots"])
def test_another_column_in_a_table_of_the_plan_is_found(name: str, public_copy: Path) -> None:
    path = public_copy / "plan" / f"{name}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("true_workers", pa.repeat(1, len(table))), path)

    def rehash(plan: dict[str, Any]) -> None:
        plan["files"][path.name] = sha256_of(path)

    replan(public_copy, rehash)
    assert refused(public_copy).check == "plan"


def another_key(plan: dict[str, Any]) -> None:
    plan["true_homes"] = "somewhere"


def another_key_of_the_configuration(plan: dict[str, Any]) -> None:
    plan["configuration"]["jobs"]["true_homes"] = "somewhere"


def another_section(plan: dict[str, Any]) -> None:
    plan["configuration"]["run"] = {"batch_jobs": 7}


@pytest.mark.parametrize("change", [another_key, another_key_of_the_configuration, another_section])
def test_more_in_plan_json_is_found(change: Callable[[dict[str, Any]], None], public_copy: Path) -> None:
    replan(public_copy, change)
    assert refused(public_copy).check in {"plan", "texts"}


@pytest.mark.parametrize("kind", ["folder", "pipe", "folder in a folder"])
def test_what_is_no_file_is_found(kind: str, public_copy: Path) -> None:
    target = public_copy / "plan" / "SSN 123-45-6789 lives at block 5"
    if kind == "pipe":
        os.mkfifo(target)
    else:
        (target / "more" if kind == "folder in a folder" else target).mkdir(parents=True)
    error = refused(public_copy)
    assert error.check == "files"
    assert "neither a file nor a folder" in str(error)


def test_a_plan_of_one_draw_a_pool_cannot_stand_for_data_with_more(public_copy: Path) -> None:
    """Fewer draws cost less: a cheap plan must not certify data that were drawn from a dear one."""
    replan(public_copy, tables={"pools.parquet": lambda table: table.assign(m=1)})
    error = refused(public_copy)
    assert error.check == "plan"
    assert "m is not n" in str(error)


def light(blocks: pd.DataFrame) -> pd.DataFrame:
    return blocks.assign(weight=-5)


def far_away(blocks: pd.DataFrame) -> pd.DataFrame:
    return blocks.assign(latitude=999.0)


def nowhere(blocks: pd.DataFrame) -> pd.DataFrame:
    return blocks.assign(longitude=float("nan"))


def unnamed(blocks: pd.DataFrame) -> pd.DataFrame:
    return blocks.assign(trct=blocks["trct"].astype("str").where(blocks.index > 0, ""))


@pytest.mark.parametrize("change", [light, far_away, nowhere, unnamed])
def test_blocks_that_cannot_be_are_found(
    change: Callable[[pd.DataFrame], pd.DataFrame], public_copy: Path
) -> None:
    replan(public_copy, tables={"blocks.parquet": change})
    assert refused(public_copy).check == "plan"


def all_in_one_place(pools: pd.DataFrame) -> pd.DataFrame:
    return pools.assign(place=pools["place"].iloc[0])


def all_shared(pools: pd.DataFrame) -> pd.DataFrame:
    return pools.assign(shared=~pools["shared"])


@pytest.mark.parametrize("change", [all_in_one_place, all_shared])
def test_pools_that_do_not_fit_their_slots_are_found(
    change: Callable[[pd.DataFrame], pd.DataFrame], public_copy: Path
) -> None:
    replan(public_copy, tables={"pools.parquet": change})
    assert refused(public_copy).check == "plan"


def test_slots_in_another_order_are_found(public_copy: Path) -> None:
    replan(public_copy, tables={"slots.parquet": lambda slots: slots[::-1].reset_index(drop=True)})
    assert refused(public_copy).check == "plan"


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
    assert times["plan/pools.parquet"] == 1
    names = {path.relative_to(public_copy).as_posix() for path in public_copy.rglob("*.parquet")}
    assert {times[name] for name in names} == {1}
    csv = "demo_od_main_JT00_2019.csv.gz"
    read_too = {"README.md", "certificate.schema.json", "plan/plan.json", csv}
    assert {name for name, count in times.items() if count > 2} <= {"certificate.json", "MANIFEST.json"}
    assert {name for name, count in times.items() if count == 2} <= read_too | {
        "demo_od_main_JT00_2019.csv.gz"
    }
