"""Corrections: other words for the same data, at no cost, or nothing at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pipelines
from helpers import alone, edit_json, refused, seal_again, with_values
from pipelines.config.loading import check_config
from pipelines.publishing import correcting
from pipelines.publishing.correcting import correct
from pipelines.release.certificate import parse_certificate
from pipelines.release.corrections import CORRECTION_FILE
from pipelines.release.csv_tables import NAME_CSV
from pipelines.release.intervals import AREAS_FILE, FLOWS_FILE
from pipelines.release.layout import seal
from pipelines.release.names import NAME_FILE
from pipelines.release.records import DCAT_US
from pipelines.release.signing import SIGNATURES, generate_keys
from pipelines.release.verification import verify
from pipelines.storage.checksums import CHECKSUMS, sha256_of
from pipelines.views.folder import PublicReleaseError

pytestmark = pytest.mark.quick

REASON = "The office was told so on the day of publication."
PAGES = {
    *("README.md", "details.md", "attackers.md", "MANIFEST.json", CHECKSUMS, CORRECTION_FILE),
    *("datapackage.json", "croissant.json", "dcat-ap.jsonld", DCAT_US),
}

Configure = Callable[..., pipelines.ReleaseConfig]


@pytest.fixture
def configured(config_tables: dict[str, Any], tmp_path: Path) -> Configure:
    """Return the configuration of the small release with other words, for a folder that is not there yet.

    Its confidential file is not there either, nor is the ledger that it names.
    """

    def config(words: Mapping[str, object], out: str = "corrected") -> pipelines.ReleaseConfig:
        gone = {"jobs.file": str(tmp_path / "gone" / Path(config_tables["jobs"]["file"]).name)}
        ledger = {"file": "ledger.sqlite", "data_set": "jobs", "epsilon": "10", "delta": "1e-5"}
        tables = with_values(config_tables, gone, {"release.out": out, "ledger": ledger}, words)
        return check_config(tables, tmp_path, "small.toml")

    return config


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def changed(before: Path, after: Path) -> set[str]:
    a, b = contents(before), contents(after)
    return {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


@pytest.mark.parametrize(
    "words",
    [
        {"release.licence": "CC-BY-4.0"},
        {"release.name": "The region in 2019"},
        {"release.publisher": "The office", "release.contact": "data@office.example"},
        {"release.citation": "Cite us so."},
        {"attribute": [{"name": "trct", "meaning": "tract of the last census"}]},
    ],
    ids=lambda words: "+".join(words),
)
def test_words_are_corrected_in_the_same_data(
    small_release: pipelines.Release, configured: Configure, tmp_path: Path, words: dict[str, Any]
) -> None:
    before = contents(small_release.public)
    release = correct(small_release.public, configured(words), REASON)
    assert contents(small_release.public) == before
    assert changed(small_release.public, release.public) <= PAGES
    assert verify(release.public).checks[-1].name == "for release"
    assert alone(release.public) is None
    pages = (release.public / "README.md").read_text() + (release.public / "details.md").read_text()
    for word in words.values():
        assert (word if isinstance(word, str) else word[0]["meaning"]) in pages
    (made,) = release.description.corrections
    assert made.date[:10] in pages
    assert REASON in pages
    assert made.corrects == sha256_of(small_release.public / CHECKSUMS)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "corrected"
    ]  # no ledger, nothing half-written


def test_a_corrected_title_is_the_one_that_readers_see(
    small_release: pipelines.Release, configured: Configure
) -> None:
    release = correct(small_release.public, configured({"release.name": "Right title"}), REASON)
    release = pipelines.open_release(release.public)
    assert release.name == release.plan.config.release.name == "Right title"
    assert release.title == release.description.title == "Right title, 2019"
    assert (release.public / "README.md").read_text().startswith("# Right title, 2019\n")
    assert small_release.name not in (release.public / "attackers.md").read_text()
    assert "Right title" in release.map().read_text()


def test_a_release_and_its_correction_are_not_compared(
    small_release: pipelines.Release, configured: Configure, tmp_path: Path
) -> None:
    """They are one draw, whose changes would all be 0."""
    release = correct(small_release.public, configured({"release.name": "Right title"}), REASON)
    with pytest.raises(PublicReleaseError, match="are the same release"):
        pipelines.compare(small_release.public, release.public, tmp_path / "changes")


def test_labels_are_corrected_where_whole_records_are_protected(
    census_releases: Callable[[str], pipelines.Release], tmp_path: Path
) -> None:
    release = census_releases("work")
    path = release.out.parents[1] / "examples" / "work.toml"
    text = path.read_text()
    meaning = 'meaning = "way to work"\n'
    assert text.count(meaning) == 1
    right = 'meaning = "main way to work"\nlabels = { foot = "on foot" }\n'
    (path.parent / "right.toml").write_text(text.replace(meaning, right))
    config = pipelines.load_config(path.parent / "right.toml").with_out(tmp_path / "right")
    corrected = correct(release.public, config, REASON)
    assert changed(release.public, corrected.public) <= PAGES
    assert alone(corrected.public) is None
    details = (corrected.public / "details.md").read_text()
    assert "main way to work. foot: on foot" in details
    assert corrected.attributes[0].labels["foot"] == "on foot"
    assert corrected.description.corrections[0].changed == ("attribute.mode",)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"privacy.epsilon": "8"}, "privacy.epsilon"),
        ({"release.year": 2020}, "release.year"),
        ({"release.language": "de"}, "release.language"),
        ({"plan.prior": "0.5"}, "plan.prior"),
        ({"weights": None}, "weights"),
        ({"auxiliary": []}, "auxiliary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_data_or_promises_depend_on_is_not_corrected(
    small_release: pipelines.Release,
    configured: Configure,
    tmp_path: Path,
    change: dict[str, Any],
    named: str,
) -> None:
    config = configured({"release.licence": "CC0", **change})
    with pytest.raises(pipelines.PublicReleaseError, match=f"differs in .*{named}"):
        correct(small_release.public, config, REASON)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("reason", ["", " ", "two\nlines"])
def test_there_is_a_reason_in_one_line(
    small_release: pipelines.Release, configured: Configure, reason: str
) -> None:
    with pytest.raises(pipelines.PublicReleaseError, match="reason"):
        correct(small_release.public, configured({"release.licence": "CC0"}), reason)


def test_nothing_is_written_where_nothing_changes_or_something_fails(
    small_release: pipelines.Release, configured: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pipelines.PublicReleaseError, match="nothing else"):
        correct(small_release.public, configured({}), REASON)
    with pytest.raises(pipelines.PublicReleaseError, match="nothing else"):
        correct(small_release.public, configured({}), REASON, names=True)
    config = configured({"release.licence": "CC0"})

    def fail_on_new(folder: Path) -> None:
        if folder != small_release.public:
            raise pipelines.VerificationError("texts", "wrong")

    monkeypatch.setattr(correcting, "verify", fail_on_new)
    with pytest.raises(pipelines.VerificationError):
        correct(small_release.public, config, REASON)
    assert not any(tmp_path.iterdir())
    config.release.out.mkdir()
    with pytest.raises(pipelines.PublicReleaseError, match="is there already"):
        correct(small_release.public, config, REASON)


def test_a_damaged_release_is_not_corrected(public_copy: Path, configured: Configure, tmp_path: Path) -> None:
    with (public_copy / "README.md").open("a") as file:
        file.write("more")
    with pytest.raises(pipelines.VerificationError, match=r"README\.md has been changed"):
        correct(public_copy, configured({"release.licence": "CC0"}), REASON)
    assert not (tmp_path / "corrected").exists()


def test_a_second_correction_may_take_the_first_back(
    small_release: pipelines.Release, configured: Configure
) -> None:
    first = correct(small_release.public, configured({"release.licence": "CC0"}, "first"), REASON)
    both = {"release.contact": "a@b.example"}
    second = correct(first.public, configured(both, "second"), "The first was wrong.")
    made = second.description.corrections
    assert [one.changed for one in made] == [("release.licence",), ("release.licence", "release.contact")]
    assert made[1].corrects == sha256_of(first.public / CHECKSUMS)
    assert second.licence is None
    assert alone(second.public) is None
    document = json.loads((second.public / CORRECTION_FILE).read_text())
    assert document["release"] == {"contact": "a@b.example"}


def test_names_of_areas_are_corrected_by_the_files_of_the_geography(
    small_release: pipelines.Release, small_region: dict[str, Path], configured: Configure, tmp_path: Path
) -> None:
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    wrong = crosswalk["ctyname"].iloc[0]
    folder = tmp_path / "files"
    folder.mkdir()
    file = folder / small_region["crosswalk"].name
    crosswalk.replace({"ctyname": {wrong: "Right County"}}).to_csv(file, index=False)
    config = configured({"geography.file": str(file)})
    with pytest.raises(pipelines.PublicReleaseError, match="ask for the names"):
        correct(small_release.public, config, REASON)
    release = correct(small_release.public, config, REASON, names=True)
    assert (
        NAME_FILE
        in changed(small_release.public, release.public)
        <= PAGES
        | {
            NAME_FILE,
            NAME_CSV,
            AREAS_FILE,
            FLOWS_FILE,
        }
    )
    assert "Right County" in release.areas("cty")["name"].tolist()
    assert wrong not in release.areas("cty")["name"].tolist()
    assert release.description.corrections[0].changed == (NAME_FILE,)
    assert alone(release.public) is None
    crosswalk.iloc[1:].to_csv(file, index=False)
    with pytest.raises(pipelines.PublicReleaseError, match="blocks and areas are not those"):
        correct(small_release.public, configured({"geography.file": str(file)}, "other"), REASON, names=True)
    assert not (tmp_path / "other").exists()


def test_a_signed_release_is_signed_again_by_the_same_key(
    signed_release: pipelines.Release,
    small_release: pipelines.Release,
    keys: tuple[Path, Path],
    configured: Configure,
    tmp_path: Path,
) -> None:
    licence = {"release.licence": "CC0"}
    mine = licence | {"signature": {"key": str(keys[0])}}
    release = correct(signed_release.public, configured(mine), REASON)
    assert verify(release.public, keys[1]).checks[1].detail == "signed by the key given"
    assert alone(release.public, keys[1]) is None
    assert changed(signed_release.public, release.public) <= {*PAGES, SIGNATURES[1]}
    others, _ = generate_keys(tmp_path / "others")
    for public, words, reason in (
        (signed_release.public, licence, "has to be signed again"),
        (signed_release.public, licence | {"signature": {"key": str(others)}}, "another key has signed"),
        (small_release.public, mine, "nobody has signed"),
    ):
        with pytest.raises(pipelines.release.signing.SigningError, match=reason):
            correct(public, configured(words, "refused"), REASON)
        assert not (tmp_path / "refused").exists()


def test_forged_corrections_are_refused(
    small_release: pipelines.Release, configured: Configure, tmp_path: Path
) -> None:
    release = correct(small_release.public, configured({"release.licence": "CC0"}), REASON)

    def year(document: dict[str, Any]) -> None:
        document["release"]["year"] = 2020

    def categories(document: dict[str, Any]) -> None:
        document["attribute"]["trct"] = {"categories": ["a"]}

    def untold(document: dict[str, Any]) -> None:
        document["release"]["contact"] = "a@b.example"

    def needless(document: dict[str, Any]) -> None:
        document["release"]["name"] = small_release.name

    def more(document: dict[str, Any]) -> None:
        document["corrections"][0]["hidden"] = "something"

    def none(document: dict[str, Any]) -> None:
        document["corrections"] = []

    for change in (year, categories, untold, needless, more, none):
        folder = Path(shutil.copytree(release.public, tmp_path / change.__name__))
        edit_json(folder / CORRECTION_FILE, change)
        seal(folder, parse_certificate((folder / "certificate.json").read_bytes()))
        assert refused(folder).check == "corrections"
        assert (alone(folder) is None) == (change in (untold, needless, more, none))

    folder = Path(shutil.copytree(release.public, tmp_path / "without"))
    (folder / CORRECTION_FILE).unlink()
    seal_again(folder)
    assert refused(folder).check == "texts"


def test_a_german_release_is_corrected_in_german(
    small_config: Configure, config_tables: dict[str, Any], clean_source: object, tmp_path: Path
) -> None:
    german = {"release.language": "de"}
    release = pipelines.run(small_config(german))
    corrected = correct(
        release.public, small_config(german, {"release.licence": "CC0", "release.name": "Titel"}), REASON
    )
    text = " ".join((corrected.public / "README.md").read_text().split())
    assert "## Berichtigungen" in text
    assert f": Titel und Lizenz. {REASON}" in text
    assert alone(corrected.public) is None
