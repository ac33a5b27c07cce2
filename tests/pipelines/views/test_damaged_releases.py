"""A release that is damaged: what is made of it is made, or refused with the file and the reason."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import pipelines
from pipelines.cli.main import main
from pipelines.release.names import NAME_FILE
from pipelines.views.maps import page

pytestmark = pytest.mark.slow
PARTS = 3  # of the damages; `make deep` has the other two


def damages(public: Path) -> Iterator[tuple[str, str]]:
    """Damage every file that is read, one way after the other; it is whole again before the next."""
    read = {"certificate.json", "plan.json", "blocks.parquet", NAME_FILE, "SHA256SUMS"}
    files = sorted(path for path in public.rglob("*") if path.is_file())
    for path in files:
        content, middle = path.read_bytes(), path.stat().st_size // 2
        other = next((each for each in files if each.suffix == path.suffix and each != path), files[0])
        ways = {
            "deleted": None,
            "cut": content[:middle],
            "garbage": b"\x00\xffgarbage\n" * 100,
            "one byte changed": content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :],
            f"is {other.name}": other.read_bytes(),
        }
        if not (path.name in read or path.parent.name == "geo" or "_od_" in path.name):
            ways = {"deleted": None}
        for how, new in ways.items():
            path.unlink()
            if new is not None:
                path.write_bytes(new)
            yield path.relative_to(public).as_posix(), how
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        path.unlink()
        path.mkdir()
        yield path.relative_to(public).as_posix(), "a folder"
        path.rmdir()
        path.write_bytes(content)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.deep) for part in (1, 2))])
def test_every_damage_is_one_clear_error(
    part: int,
    small_release: pipelines.Release,
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = Path(shutil.copytree(small_release.out, tmp_path / "release"))
    public, made = out / "public", tmp_path / "made"
    (tmp_path / "small.toml").write_text(config_text(), encoding="utf-8")
    monkeypatch.setattr(page, "_library", lambda _: "")  # which npm fetches
    formats = [word for name in ("csv", "lodes", "geojson") for word in ("--format", name)]
    commands = itertools.cycle(
        (
            ["map", public, "--to", made / "map.html"],
            ["figure", public, "--kind", "flows", "--to", made / "figure.png"],  # reads all, and draws less
            ["export", public, *formats, "--to", made],
            ["evaluate", out, "--public", tmp_path / "small.toml", "--to", made / "public"],
            ["evaluate", out, "--truth", small_region["od"], "--to", made / "truth"],
        )
    )
    wrong, outcomes = [], {"refused": 0, "made": 0}
    for number, (file, how) in enumerate(damages(public)):
        words = next(commands)
        if number % PARTS != part:
            continue
        shutil.rmtree(made, ignore_errors=True)
        done = CliRunner().invoke(main, [str(word) for word in words])
        outcomes["refused" if done.exit_code else "made"] += 1
        clear = Path(file).name in done.stderr and "not foreseen" not in done.stderr
        if done.exit_code and not (clear and "cannot be used" not in done.stderr):
            wrong.append(f"{words[0]}: {file} {how}: {done.stderr.strip()}")
        wrong += [f"{words[0]} leaves {path}" for path in tmp_path.rglob(".partial-*")]
    assert not wrong, f"{len(wrong)} of {outcomes}\n" + "\n".join(wrong)
    assert min(outcomes.values()) >= 3, outcomes
