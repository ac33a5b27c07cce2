"""What pages say of how far to trust a number."""

from __future__ import annotations

import re

from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.release.accuracy import read_in_words
from pipelines.release.pages import render
from pipelines.views.accuracy import accuracy_words, table_title


def expected(**changes: object) -> ExpectedAccuracy:
    table = {
        "table": "bgrp to tabblk2010 by <b>",
        "home": "bgrp",
        "work": "tabblk2010",
        "attributes": ["<b>"],
        "workload": True,
        "loss": 0.25,
        "public_model": 0.5,
        "within": 2.0,
        "squares": 1.5,
        "planned": None,
        "carried": True,
        "noise": False,
        "sizes": [
            {
                "external": False,
                "at_least": 1000,
                "at_most": None,
                "cells": 1234,
                "error": 12.34,
                "error_90": 5678,
                "relative_error": 0.0321,
                "empty": 0.0049,
            }
        ],
    }
    return ExpectedAccuracy.model_validate({"jobs": 10_000_000, "tables": [table | changes]})


def in_readme(expected: ExpectedAccuracy) -> str:
    pages = ("accuracy.md.j2", "accuracy_by_size.md.j2")
    return "".join(render(page, accuracy=expected, read=read_in_words(None)) for page in pages)


def test_words() -> None:
    page = accuracy_words(expected())
    assert "10,000,000 jobs" in page
    assert "Block group to block by &lt;b&gt;: 25.0\u00a0% of the jobs" in page
    assert "By public data alone: 50.0\u00a0%." in page
    cells = re.findall(r'role="(?:rowheader|cell)"[^>]*>([^<]*)</t[hd]>', page)
    assert cells == ["1,000 or more", "1,234", "12.3", "5,678", "3.2\u00a0%", "0.5\u00a0%"]
    assert "<b>" not in page
    assert "noise" not in page
    assert "The forecast of the plan: the plan of this release was tried" in page
    assert "public data say nearly as much" not in page


def test_what_noisy_counts_tell_is_beside_what_the_plan_forecast() -> None:
    for words in (accuracy_words, in_readme):
        said = " ".join(words(expected(planned=0.1)).split()).replace("\u00a0", " ").replace("strong>", "**")
        assert "omputed after the draw" in said
        assert "noisy counts" in said
        assert "10.0 %" in said
        assert "which " in said.split("10.0 %")[1][:40]
        assert re.search(r"12\.5 % and\s+50\.0 %", said)
        assert "differs" not in words(expected(planned=0.24)), "less than a fifth"
        assert "noisy counts" not in words(expected()), "a plan's own"


def test_verdicts() -> None:
    noise = accuracy_words(expected(loss=0.6, public_model=0.9, noise=True))
    assert "(<strong>noise</strong>)" in noise
    useless = accuracy_words(expected(loss=0.09, public_model=0.09, carried=False))
    assert "(<strong>noise</strong>)" not in useless
    assert "public data say nearly as much as this release, or more" in useless
    for words in (accuracy_words, in_readme):
        for loss, noise in ((0.25, False), (0.6, True)):
            changes = {"loss": loss, "public_model": 0.9, "noise": noise}
            without = words(expected(sizes=[], **changes))
            assert "too few of the jobs" in without
            assert "look for its" not in without, "where there is nothing to find"
            assert "too few of the jobs" not in words(expected(**changes))
    assert accuracy_words(None).strip().startswith("<p>There is no forecast")


def test_titles_have_words_for_levels() -> None:
    table = expected(table="residents of trct", home="trct", work=None, attributes=[]).tables[0]
    assert table_title(table) == "Residents of tract"


def test_a_loss_that_nothing_tells_is_called_uncertain() -> None:
    for within, uncertain in ((1.25, False), (1.5, False), (2.0, True), (3.0, True)):
        assert ("uncertain" in in_readme(expected(within=within))) == uncertain
