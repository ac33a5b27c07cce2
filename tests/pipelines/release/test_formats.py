"""Releases of every earlier version: verified as they were, read by today's readers, and tampering found."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines import PublicReleaseError, VerificationError, read_public_release, verify
from pipelines.planning.form import read_document
from pipelines.release.formats import FIRST_FORMAT, dump_certificate, parse_certificate
from pipelines.release.layout import seal

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
        release = read_public_release(folder, implicate)
        flows = release.flows("trct", "trct")
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
            read_public_release(public)
