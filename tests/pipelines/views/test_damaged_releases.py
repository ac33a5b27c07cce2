"""A release that is damaged: whatever is made of it is made, or refused with the file and the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import pipelines
from pipelines.cli.main import main
from pipelines.views.maps import page

pytestmark = pytest.mark.slow


def damages(public: Path) -> Iterator[tuple[str, str]]:
    """Damage every file of a release, one way after the other; it is whole again before the next."""
    files = sorted(path for path in public.rglob("*") if path.is_file())
    for path in files:
        content = path.read_bytes()
        others = [other for other in files if other.suffix == path.suffix and other != path]
        middle = len(content) // 2
        changed = {
            "deleted": None,
            "empty": b"",
            "cut": content[:middle],
            "one byte changed": content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :],
            "last byte changed": content[:-1] + bytes([content[-1] ^ 0xFF]),
            "garbage": b"\x00\xffgarbage\n" * 100,
            **{f"is {other.name}": other.read_bytes() for other in others},
        }
        for how, new in changed.items():
            path.unlink()
            if new is not None:
                path.write_bytes(new)
            yield path.relative_to(public).as_posix(), how
            path.write_bytes(content)
        path.unlink()
        path.mkdir()
        yield path.relative_to(public).as_posix(), "a folder"
        path.rmdir()
        path.write_bytes(content)


def test_every_damage_is_one_clear_error(
    small_release: pipelines.Release,
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = Path(shutil.copytree(small_release.out, tmp_path / "release"))
    public, made = out / "public", tmp_path / "made"
    (tmp_path / "small.toml").write_text(config_text(), encoding="utf-8")
    if not (Path(page.__file__).parent / "vendor" / "maplibre-gl.js").is_file():
        monkeypatch.setattr(page, "_library", lambda _: "")
    verbs = {
        "map": ["map", public, "--to", made / "map.html"],
        "figure": ["figure", public, "--to", made / "figure.png"],
        "export": [
            "export",
            public,
            "--format",
            "csv",
            "--format",
            "lodes",
            "--format",
            "geojson",
            "--to",
            made,
        ],
        "evaluate": ["evaluate", out, "--public", tmp_path / "small.toml", "--to", made / "public"],
        "evaluate --truth": ["evaluate", out, "--truth", small_region["od"], "--to", made / "truth"],
        "publish": ["publish", out, made / "site"],
        "verify": ["verify", public],
    }
    wrong, outcomes = [], {"refused": 0, "made": 0}
    for file, how in damages(public):
        for verb, words in verbs.items():
            shutil.rmtree(made, ignore_errors=True)
            done = CliRunner().invoke(main, [str(word) for word in words])
            message = done.stderr.removeprefix("Reading the release and the truth ...\n")
            outcomes["refused" if done.exit_code else "made"] += 1
            if done.exit_code and (
                Path(file).name not in message or "not foreseen" in message or "cannot be used" in message
            ):
                wrong.append(f"{verb}: {file} {how}: {message.strip()}")
            if [*tmp_path.rglob(".partial-*"), *tmp_path.rglob(".unfinished-*")]:
                wrong.append(f"{verb}: {file} {how}: debris")
    print(outcomes)
    assert not wrong, f"{len(wrong)} of {outcomes}\n" + "\n".join(wrong)
    assert min(outcomes.values()) > 100
