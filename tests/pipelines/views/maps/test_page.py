"""The page of a map as a file: nothing external, nothing but the public folder, its policy and its words."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from pipelines.release.promises import odds_in_words
from pipelines.views.maps.page import build_map
from pipelines.views.release import Release, open_release

NAMESPACE = re.compile(r"https?://www\.w3\.org/(2000/svg|1999/xhtml|1999/xlink|XML/1998/namespace)\b")


@pytest.fixture(scope="module")
def text(map_file: Path) -> str:
    return map_file.read_text(encoding="utf-8")


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
        assert line.replace("'", "&#x27;") in words


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
