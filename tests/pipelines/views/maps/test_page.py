"""The page of a map: nothing external, nothing but the public folder, its policy; the verb `map`."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.cli.main import main
from pipelines.release.promises import odds_in_words
from pipelines.views.maps import page
from pipelines.views.maps.page import build_map
from pipelines.views.release import Release, open_release

NAMESPACE = re.compile(r"https?://www\.w3\.org/(2000/svg|1999/xhtml|1999/xlink|XML/1998/namespace)\b")


@pytest.fixture(scope="module")
def text(bounded_file: Path) -> str:
    return bounded_file.read_text(encoding="utf-8")


def test_no_external_address(text: str) -> None:
    rest = NAMESPACE.sub("", text)
    assert re.findall(r"\b(?:https?|wss?|ftp):/{2}.{0,40}", rest) == []
    # What HTML and CSS load without a scheme, outside the scripts.
    markup = re.sub(r"(?s)(<script\b[^>]*>).*?</script>", r"\1", text)
    loaded = re.findall(r"""\b(?:src|href|action|data|poster)\s*=\s*["']?([^"'\s>]+)""", markup)
    assert set(loaded) <= {"data:,", "#search"}
    assert all(url.startswith("data:") for url in re.findall(r"""url\(\s*["']?([^"')]+)""", markup))
    assert "@import" not in markup
    assert "sourceMappingURL" not in text


def test_the_policy_lets_only_its_own_scripts_run(text: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    scripts = re.findall(r"(?s)<script(?: type=\"module\")?>(.*?)</script>", text)
    assert len(scripts) == 2
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert rules["script-src"] == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    assert all("http" not in rule and "*" not in rule for rule in rules.values())


def test_the_words_of_the_certificate(text: str, mapped: Release) -> None:
    certificate = mapped.certificate
    words = re.sub(r"<[^>]+>|\s+", " ", text[text.index('<section id="certificate">') :])
    assert odds_in_words(certificate).replace("\n", " ") in words
    assert certificate.plan_sha256 in words
    for line in (*certificate.definition.not_covered, *certificate.definition.assumed_public):
        assert line.replace("'", "&#39;") in words


def test_the_licence_is_in_it(text: str, library: Path) -> None:
    first = (library / "LICENSE.txt").read_text(encoding="utf-8").splitlines()[0]
    assert first.strip() in text
    assert "THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS" in text


def test_the_same_release_makes_the_same_map(mapped: Release, text: str) -> None:
    assert build_map(open_release(mapped.public)) == text


def test_only_the_public_folder_is_read(mapped: Release, library: Path, text: str, tmp_path: Path) -> None:
    alone = shutil.copytree(mapped.public, tmp_path / "elsewhere" / "public")
    path = open_release(alone).map()
    assert path == tmp_path / "elsewhere" / "map.html"  # not in the folder whose checksums are sealed
    assert path.read_text(encoding="utf-8") == text


def test_a_name_is_no_markup(mapped: Release, library: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(mapped.public, tmp_path / "public")
    name = "</title><script>alert(1)</script>$finest"
    for path, part in (
        (folder / "certificate.json", ()),
        (folder / "plan" / "plan.json", ("configuration",)),
    ):
        document = json.loads(path.read_text(encoding="utf-8"))
        (document[part[0]] if part else document)["release"]["name"] = name
        path.write_text(json.dumps(document), encoding="utf-8")
    text = build_map(open_release(folder))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;$finest" in text


def test_it_writes_the_map(mapped: Release, bounded_file: Path, tmp_path: Path) -> None:
    # On a site it is the same, as it is small.
    for way, words in (([], "it needs no network"), (["--site"], "For a web server")):
        target = tmp_path / "new" / "folder" / "my map.html"
        result = CliRunner().invoke(main, ["map", str(mapped.public), "--to", str(target), *way])
        assert result.exit_code == 0, result.output
        assert target.read_bytes() == bounded_file.read_bytes()
        assert f"{target}: {target.stat().st_size / 1e6:.1f} MB. " in result.output
        assert words in result.output
        assert [path.name for path in target.parent.iterdir()] == [target.name]
        target.unlink()


def test_it_says_what_is_missing(mapped: Release, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "_HERE", tmp_path)
    result = CliRunner().invoke(main, ["map", str(mapped.public), "--to", str(tmp_path / "map.html")])
    assert result.exit_code == 1
    assert "make library" in result.output
    assert not (tmp_path / "map.html").exists()


def test_a_name_that_browsers_show_as_text(mapped: Release, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["map", str(mapped.public), "--to", str(tmp_path / "map")])
    assert result.exit_code == 2
    assert "let the name end in .html" in result.output
    assert not any(tmp_path.iterdir())


def test_a_map_is_replaced_when_the_new_one_is_complete(
    mapped: Release, library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "map.html"
    target.write_text("before")

    def fail(path: Path, *_: object) -> None:
        assert target.read_text() == "before"
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        page.write_map(mapped, target)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
