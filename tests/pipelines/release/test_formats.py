"""A release of another format is refused by one sentence; so are certificates in words of nobody's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pipelines
from helpers import alone, edit_json, forge, plan_again, refused
from pipelines import PublicReleaseError, open_release
from pipelines.release.layout import seal


@pytest.mark.parametrize("stated", ["odsynth certificate 2", "odsynth certificate 2.0", "<b>", 1, None])
def test_a_certificate_of_another_format_is_refused_by_name(
    stated: object, public_copy: Path, small_release: pipelines.Release
) -> None:
    edit_json(public_copy / "certificate.json", lambda document: document.update(format=stated))
    seal(public_copy, small_release.certificate)
    known = stated if str(stated).startswith("odsynth") else "none of odsynth"
    said = f"certificate.json: its format is {known}, and this version reads odsynth certificate 1.0. Fix: "
    error = refused(public_copy)
    assert (error.check, said in error.reason) == ("certificate", True)
    with pytest.raises(PublicReleaseError, match=said):
        open_release(public_copy)
    assert f"its format is {stated}, and this program reads odsynth certificate 1.0" in str(
        alone(public_copy)
    )


def test_a_plan_of_another_format_is_refused_by_name(public_copy: Path) -> None:
    plan_again(public_copy, lambda document: document.update(format="odsynth plan 4"))
    said = "plan.json: its format is odsynth plan 4, and this version reads odsynth plan 1.0. Fix: "
    error = refused(public_copy)
    assert (error.check, said in error.reason) == ("plan", True)
    with pytest.raises(PublicReleaseError, match=said):
        open_release(public_copy)
    assert "its format is odsynth plan 4, and this program reads odsynth plan 1.0" in str(alone(public_copy))


@pytest.mark.parametrize("content", ['{"format": "odsynth certificate 1.0"}', "[]", "1", "", "[" * 100_000])
def test_what_is_no_certificate_is_refused_by_readers(content: str, public_copy: Path) -> None:
    (public_copy / "certificate.json").write_text(content, encoding="utf-8")
    with pytest.raises(PublicReleaseError, match=r"certificate\.json: "):
        open_release(public_copy)


def test_words_that_this_version_does_not_write_are_refused(public_copy: Path) -> None:
    """Words that were only read could claim anything."""
    stated = json.loads((public_copy / "certificate.json").read_text(encoding="utf-8"))
    for name, words in (("definition", "symbols"), ("requested", "words"), ("user_level", "statement")):
        forge(public_copy, stated | {name: stated[name] | {words: "No one can learn anything."}})
        error = refused(public_copy)
        assert f"guarantee: certificate.json: {name} is not what the plan" in str(error)
        assert f"Fix: use version {stated['software']['version']}" in str(error)
        assert alone(public_copy) is not None
