"""Configurations and exact numbers that would take for ever, wrap around or end in a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import synth
from pipelines import ConfigError, ReleaseConfig
from pipelines.config.toml import parse_toml, read_toml

pytestmark = pytest.mark.quick

NUMBERS = ["1e400", "1e99999999", "9" * 5000, "1e-101", "0x1", "1_000", "\u0661", "1/0", "nan", "inf"]


def test_exact_numbers(small_config: Callable[..., ReleaseConfig]) -> None:
    for number in NUMBERS:
        with pytest.raises(ConfigError, match=r"privacy\.epsilon: "):
            small_config({"privacy.epsilon": number})
    for number in ("1e99999999", "1e9999", "9" * 5000, "\u0661"):
        with pytest.raises(ValueError, match="is not a number"):
            synth.exact(number)


def test_whole_numbers(small_config: Callable[..., ReleaseConfig]) -> None:
    for key in ("run.batch_jobs", "plan.pool_below"):
        with pytest.raises(ConfigError, match=f"{key}: .* less than or equal to"):
            small_config({key: 2**31})
    with pytest.raises(ConfigError, match="batch_jobs: 100000000000000000000: Input should be less"):
        small_config({"run": {"batch_jobs": 10**20}})


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "[" * 5000,
        "a = " + "9" * 5000,
        "a = {" * 5000,
        "a." * 5000 + "b = 1",
        "a = " + "[" * 30 + "]" * 30,
    ],
)
def test_nesting_and_digits(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^x\.toml: "):
        parse_toml(text, "x.toml")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "zero.toml"):
        with pytest.raises(ConfigError, match="pipe, socket or device"):
            read_toml(tmp_path / name)
