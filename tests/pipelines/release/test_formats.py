"""Releases of every earlier version: verified as they were, read by today's readers, and tampering found."""

from __future__ import annotations

import json
import os
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pipelines
import synth
from helpers import forge, load
from pipelines import PublicReleaseError, VerificationError, open_release, verify
from pipelines.plans.form import read_document
from pipelines.plans.storage import load_plan
from pipelines.release.certificate import CERTIFICATE_FORMAT
from pipelines.release.formats import FIRST_FORMAT, dump_certificate, made_before_first, parse_certificate
from pipelines.release.layout import seal
from pipelines.release.wordings import CERTIFICATE_WORDINGS, in_wording

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
RELEASES = sorted(path.parent for path in GOLDEN.glob("v*/*/certificate.json"))


def certificate_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "certificate.json").read_text(encoding="utf-8")))


def test_there_is_a_release_of_each_kind() -> None:
    assert len(RELEASES) == 6
    assert {certificate_of(folder)["mechanism"] for folder in RELEASES} == {"dirichlet", "geometric"}
    assert {certificate_of(folder)["implicates"]["source"] for folder in RELEASES} == {
        "independent-runs",
        "one-urn",
    }
    assert {certificate_of(folder)["person"]["records"] for folder in RELEASES} == {1, 3}


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_release_is_verified_and_read(folder: Path) -> None:
    signed = (folder / "SHA256SUMS.sig").exists()
    key = folder.parent / "signing-key.pub" if signed else None
    found = {check.name: check.detail for check in verify(folder, key)}
    assert found["for release"] == "yes"
    assert found["certificate"] == "odsynth certificate 1, all fields present"
    assert ("signed by the key given" in found["signature"]) == signed
    for implicate in range(1, certificate_of(folder)["implicates"]["number"] + 1):
        release = open_release(folder, implicate)
        flows = release.unit_flows("trct", "trct")
        assert flows["S000"].sum() == release.certificate.totals.synthetic_workers == 600


def test_a_certificate_of_format_1_is_told_in_todays_words() -> None:
    for folder in RELEASES:
        stated, content = certificate_of(folder), (folder / "certificate.json").read_bytes()
        certificate = parse_certificate(content)
        assert dump_certificate(certificate, FIRST_FORMAT) == stated
        user, record = certificate.user_level, certificate.record_level
        assert user.records == stated["person"]["records"]
        assert Fraction(record.epsilon) * user.records == Fraction(user.epsilon)
        assert Fraction(record.delta) <= Fraction(user.delta)
        largest = max(Fraction(row["person_delta"]) for row in stated["classes"])
        assert Fraction(record.delta) >= largest


def test_tampering_with_a_certificate_of_format_1_is_found(tmp_path: Path) -> None:
    """Every field, sealed again as a careful forger would."""
    source = GOLDEN / "v0.1.0" / "dirichlet-microdata-implicates"
    public = Path(shutil.copytree(source, tmp_path / "public"))
    stated, genuine = certificate_of(public), parse_certificate((public / "certificate.json").read_bytes())

    def refused(document: dict[str, Any]) -> str:
        (public / "certificate.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        seal(public, genuine)
        with pytest.raises(VerificationError) as error:
            list(verify(public))
        return str(error.value)

    for name in stated:
        assert (
            name in refused({key: value for key, value in stated.items() if key != name}) or name == "format"
        )
    person, row = stated["person"], stated["classes"][0]
    changes: dict[str, Any] = {
        "person": [
            person | {"epsilon": "0.1"},
            person | {"records": 1},
            person | {"curve": []},
            person | {"x": 1},
        ],
        "classes": [[row | {"person_delta": "0.5"}, *stated["classes"][1:]], []],
        "run": [stated["run"] | {"delta": "0"}],
        "record_level": [{"epsilon": "1", "delta": "0", "curve": []}],
        "definition": [stated["definition"] | {"words": "No one can learn anything."}],
        "format": ["odsynth certificate 2", "odsynth certificate 3"],
    }
    for name, values in changes.items():
        for value in values:
            assert refused(stated | {name: value})
    assert "person is not what the plan gives" in refused(stated | {"person": person | {"epsilon": "0.1"}})


def test_a_release_in_a_former_wording_is_verified_and_words_of_nobody_are_not(
    small_release: pipelines.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known wordings are listed, because words that were only read could claim anything."""
    assert CERTIFICATE_WORDINGS[CERTIFICATE_FORMAT] == (2,)  # once there is another, that of before is tried
    monkeypatch.setitem(CERTIFICATE_WORDINGS, CERTIFICATE_FORMAT, (2, 1))
    public = Path(shutil.copytree(small_release.public, tmp_path / "today"))
    today = certificate_of(public)
    former = in_wording(today, 1)
    assert {name for name in today if today[name] != former[name]} == {"definition"}
    golden = GOLDEN / "v0.1.0" / "dirichlet-parquet-only"
    old = certificate_of(golden)
    assert set(old["definition"]["assumed_public"]) < set(former["definition"]["assumed_public"])

    def verified(folder: Path, document: dict[str, Any]) -> str:
        forge(folder, document)
        try:
            return [check.name for check in verify(folder)][-1]
        except VerificationError as error:
            return str(error)

    assert verified(public, today) == verified(public, former) == "for release"
    mixed = former["definition"] | {"composition": today["definition"]["composition"]}
    assert "in any wording" in verified(public, today | {"definition": mixed})
    for name, words in (("definition", "symbols"), ("requested", "words"), ("user_level", "statement")):
        claim = today[name] | {words: "No one can learn anything."}
        said = verified(public, today | {name: claim})
        assert said.startswith(
            f"guarantee: certificate.json: {name} is not what the plan gives, in any wording"
        )
        assert f"Fix: verify it with version {today['software']['version']}" in said
    said = verified(public, today | {"run": today["run"] | {"epsilon": "0.1"}})
    assert said == "guarantee: certificate.json: run is not what the plan gives"
    early = Path(shutil.copytree(golden, tmp_path / "early"))
    later = old | {"definition": old["definition"] | {"composition": today["definition"]["composition"]}}
    (early / "certificate.json").write_text(json.dumps(later, indent=1) + "\n", encoding="utf-8")
    seal(early, parse_certificate((early / "certificate.json").read_bytes()))
    with pytest.raises(VerificationError, match="definition is not what the plan gives, in any wording"):
        list(verify(early))


def test_format_1_states_the_bounds_of_its_time_and_neither_less_nor_more(tmp_path: Path) -> None:
    """Some pools have few cells, whose bounds are smaller today (Lemma 32 of docs/privacy.md)."""
    public = Path(shutil.copytree(GOLDEN / "v0.1.0" / "dirichlet-microdata-implicates", tmp_path / "public"))
    stated, genuine = certificate_of(public), parse_certificate((public / "certificate.json").read_bytes())
    plan = load_plan(public / "plan")
    then, now = plan.certify_as_first().classes, plan.certify().classes
    changed = [i for i, pair in enumerate(zip(then, now, strict=True)) if pair[0] != pair[1]]
    assert changed
    for i in changed:
        assert now[i].delta <= then[i].delta
        assert now[i].record_delta <= then[i].record_delta
        todays = {"delta": now[i].delta, "person_delta": now[i].record_delta}
        for numbers in (todays, {name: min(2 * x, Fraction(1)) for name, x in todays.items()}):
            row = stated["classes"][i] | {name: synth.decimal_up(x) for name, x in numbers.items()}
            assert row != stated["classes"][i]
            rows = [*stated["classes"][:i], row, *stated["classes"][i + 1 :]]
            content = json.dumps(stated | {"classes": rows}, indent=1) + "\n"
            (public / "certificate.json").write_text(content, encoding="utf-8")
            seal(public, genuine)
            with pytest.raises(VerificationError, match="classes is not what the plan gives"):
                list(verify(public))


def test_a_plan_of_format_1_has_the_keys_of_format_1_only(tmp_path: Path) -> None:
    plan = Path(shutil.copytree(GOLDEN / "v0.1.0" / "dirichlet-external" / "plan", tmp_path / "plan"))
    assert read_document(plan)["geography"]["external_zones"] == ["09", "25"]
    stated = json.loads((plan / "plan.json").read_text(encoding="utf-8"))
    quoted = stated["configuration"]
    for change in (
        {"geography": stated["geography"] | {"external_zones": []}},
        {"geography": None},
        {"configuration": quoted | {"geography": quoted["geography"] | {"non_nesting_areas": []}}},
        {"configuration": None},
        {"format": "odsynth plan 3"},
    ):
        (plan / "plan.json").write_text(json.dumps(stated | change), encoding="utf-8")
        with pytest.raises(ValueError, match=r"plan\.json: "):
            read_document(plan)


def test_a_certificate_of_no_format_is_refused_by_readers(tmp_path: Path) -> None:
    public = Path(shutil.copytree(GOLDEN / "v0.1.0" / "dirichlet-external", tmp_path / "public"))
    for content in (
        '{"format": "odsynth certificate 1"}',
        "[]",
        "1",
        "",
        '{"format": "odsynth certificate 3"}',
    ):
        (public / "certificate.json").write_text(content, encoding="utf-8")
        with pytest.raises(PublicReleaseError, match="not a certificate of this program"):
            open_release(public)


# --- every reader, and the days before


def named(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


@pytest.fixture(scope="module")
def golden_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The invented inputs of the golden releases, and a configuration of each as it is written today."""
    folder = tmp_path_factory.mktemp("golden-inputs")
    make = load("tests/golden/make.py")
    previous = os.umask(0o027)
    make.write_inputs(folder)
    os.umask(previous)
    for name, parts in make.RELEASES.items():
        empty = dict.fromkeys(("release", "privacy", "geography", "auxiliary", "plan", "more"), "")
        values = {"epsilon": "8.6", "delta": "1e-5", **empty, **parts, "name": name, "out": name}
        text = make.COMMON.format(**{**values, "more": ""})
        text = text.replace("\noutside =", "\nexternal_zones =").replace(
            "partitions =", "non_nesting_areas ="
        )
        if "external_zones" not in text:
            text = text.replace("[jobs]\n", '[jobs]\npopulation = "residents"\n')
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("folder", RELEASES, ids=named)
def test_every_release_is_read_by_maps_exports_and_evaluation(
    folder: Path, golden_inputs: Path, tmp_path: Path
) -> None:
    certificate = certificate_of(folder)
    page = pipelines.open_release(folder).map(tmp_path / "map.html").read_text(encoding="utf-8")
    assert certificate["plan_sha256"] in page
    assert ("This release is signed." in page) == (folder / "signing-key.pub").exists()
    files = pipelines.open_release(folder).export(["csv", "geoparquet"], tmp_path / "exports")
    assert set(files) == {"csv", "geoparquet"}
    measures = pipelines.open_release(folder).evaluate(
        golden_inputs / f"{folder.name}.toml", tmp_path / "evaluation"
    )
    assert len(measures)
    if certificate["implicates"]["number"] > 1:
        flows = [float(open_release(folder, i).flows("cty", "cty")["S000"].iloc[0]) for i in (1, 2)]
        assert pipelines.combine(flows, [1.0, 1.0], "fully").estimate == sum(flows) / 2


BEFORE = sorted((GOLDEN / "before-0.1.0").iterdir())


@pytest.mark.parametrize("folder", BEFORE, ids=named)
def test_a_release_of_the_days_before_is_told_by_its_commit(folder: Path, tmp_path: Path) -> None:
    assert len(BEFORE) == 3
    commit = certificate_of(folder)["software"]["commit"]
    assert commit.startswith(folder.name)
    with pytest.raises(VerificationError, match=f"before version 0.1.0.*commit {commit}"):
        list(verify(folder))
    with pytest.raises(PublicReleaseError, match=f"before version 0.1.0.*commit {commit}"):
        open_release(folder)
    # Without its commit, the fields that it has not yet say up to which one it can be.
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    document = certificate_of(copy)
    document["software"]["commit"] = None
    (copy / "certificate.json").write_text(json.dumps(document), encoding="utf-8")
    last = "1330e6f" if "curve" in document["person"] else "8be21e7"
    with pytest.raises(PublicReleaseError, match=f"commit one up to {last}, which made it"):
        open_release(copy)


def test_what_is_broken_and_not_early_is_not_called_early(tmp_path: Path) -> None:
    public = Path(shutil.copytree(GOLDEN / "v0.1.0" / "dirichlet-external", tmp_path / "public"))
    document = certificate_of(public)
    del document["implicates"]
    for content in (json.dumps(document), "", "[]", "[" * 100_000, '{"format": 1}'):
        (public / "certificate.json").write_text(content, encoding="utf-8")
        assert made_before_first(public / "certificate.json") is None
