"""Small files in real formats, and a check that an error is one clear sentence without a value."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from geo_data import Geography, InputError, read_crosswalk, write_demo_region

# Codes that stand for confidential places: valid in form, in no geography here.
CANARY = "987654321098765"
LEVELS = ("st", "cty", "trct", "bgrp")


def _read(
    path: Path,
    block: str = "tabblk2010",
    levels: tuple[str, ...] = LEVELS,
    external_zones: tuple[str, ...] = (),
) -> Geography:
    return read_crosswalk(
        path,
        block=block,
        levels=levels,
        centroid=("blklatdd", "blklondd"),
        external_zones=external_zones,
    )


@pytest.fixture(scope="session")
def read_geography() -> Callable[..., Geography]:
    """Read a crosswalk with LODES column names."""
    return _read


@pytest.fixture(scope="session")
def demo_region(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of a small demo region."""
    return write_demo_region(tmp_path_factory.mktemp("demo"), counties=2, tracts=6, blocks=120, jobs=600)


@pytest.fixture(scope="session")
def demo_geography(demo_region: dict[str, Path]) -> Geography:
    return _read(demo_region["crosswalk"])


@pytest.fixture(scope="session")
def canary() -> str:
    return CANARY


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write text to a file of the test's folder; gzipped where the name says so."""

    def writer(text: str | bytes, name: str = "table.csv") -> Path:
        data = text.encode() if isinstance(text, str) else text
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return writer


@pytest.fixture(scope="session")
def refused() -> Callable:
    """Return a context that expects one InputError: it names the file, has a fix, and shows no value."""

    @contextmanager
    def context(
        path: Path, match: str, *, column: str | None = None, count: int | None = None
    ) -> Iterator[None]:
        with pytest.raises(InputError) as caught:
            yield
        error = caught.value
        message = str(error)
        assert match in message or match in error.rule  # which is in the plural
        assert message.startswith(f"{path}: ")
        assert error.fix
        assert message.endswith(f"Fix: {error.fix}.")
        assert error.column == column
        assert error.count == count
        assert "\n" not in message
        chain: BaseException | None = error
        while chain is not None:
            # Neither the message nor an error chained to it may quote a value.
            assert CANARY not in str(chain)
            assert CANARY.lstrip("9") not in str(chain)
            assert "CANARY" not in str(chain)
            chain = chain.__cause__ or chain.__context__

    return context
