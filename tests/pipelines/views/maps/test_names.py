"""Names of levels and of external zones."""

from __future__ import annotations

from geo_data.external_zones import STATES, US_STATES
from pipelines.views.labels import level_words


def test_levels_of_lodes() -> None:
    for level, one, length in (
        ("st", "state", 2),
        ("cty", "county", 5),
        ("trct", "tract", 11),
        ("bgrp", "block group", 12),
        ("tabblk2020", "block", 15),
    ):
        words = level_words(level)
        assert words["one"] == one
        assert sum(words["groups"]) == length


def test_another_level_is_called_as_its_column() -> None:
    assert level_words("geo_code") == {"one": "geo code", "many": "geo code areas", "groups": []}


def test_every_state_has_a_name() -> None:
    assert tuple(STATES) == US_STATES
    assert all(state.name for state in STATES.values())
