"""An object store for inputs and for the finished release: a server of S3's protocol, on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pipelines
from geo_data import InputError, fetch
from geo_data._download import is_of_a_store
from pipelines import ConfigError
from pipelines.cli import main

from .helpers import BUCKET, SECRETS, Configs, everything, mode, seeded

pytestmark = pytest.mark.slow


def cli(*arguments: object) -> str:
    """What a command says; nothing of it is a secret."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert not any(secret in result.output for secret in SECRETS)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def test_a_release_of_what_a_bucket_holds_is_that_of_local_files(
    bucket: Any, small_config: Configs, small_region: dict[str, Path], tmp_path: Path, frozen_day: None
) -> None:
    keys = {
        "jobs.file": "od",
        "geography.file": "crosswalk",
        "geography.polygons.0.file": "tracts",
        "auxiliary.0.file": "county_flows",
        "auxiliary.1.file": "tract_flows",
        "weights.file": "population",
    }
    local = seeded(small_config())
    fetched = {}
    for key, name in keys.items():
        file = small_region[name]
        bucket.put_file(str(file), f"{BUCKET}/inputs/{file.name}")
        more, folder = (["--confidential"], "jobs") if key == "jobs.file" else ([], "public")
        said = cli("fetch", "table", f"s3://{BUCKET}/inputs/{file.name}", "--to", tmp_path / folder, *more)
        fetched[key] = Path(said.splitlines()[-1])
    assert mode(fetched["jobs.file"]) == 0o600
    assert mode(tmp_path / "jobs") == 0o700
    release = seeded(small_config(fetched))
    assert everything(release.public) == everything(local.public)
    for content in everything(release.out).values():
        assert not any(word.encode() in content for word in (BUCKET, *SECRETS))


def test_a_release_is_published_into_a_bucket(bucket: Any, small_release: pipelines.Release) -> None:
    cli("publish", small_release.out, f"s3://{BUCKET}/data")
    (certificate,) = bucket.glob(f"{BUCKET}/data/*/*/certificate.json")
    assert bucket.cat_file(certificate) == (small_release.public / "certificate.json").read_bytes()
    assert certificate.split("/")[-2] in cli("published", f"s3://{BUCKET}/data")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("s3://no-such-bucket/data", r"no-such-bucket/data: the storage cannot be used \(\w+\)\. Fix: check"),
        (f"s3://{':'.join(SECRETS)}@{BUCKET}/data", r"s3://agency-bucket/data: .* \(ParamValidationError\)"),
        (
            f"sftp://{SECRETS[1]}@127.0.0.1/data",
            "sftp://127.0.0.1/data: a package is missing .*paramiko.*Fix: install it",
        ),
    ],
)
def test_a_storage_that_cannot_be_used_is_one_sentence_without_its_password(
    address: str, says: str, bucket: Any, small_release: pipelines.Release
) -> None:
    result = CliRunner().invoke(main, ["publish", str(small_release.out), address])
    assert result.exit_code == 1
    assert re.search(says, result.stderr)
    assert not any(secret in result.output for secret in SECRETS)
    assert result.stderr.count("\n") == 1


def test_what_a_store_refuses_is_one_clear_error(
    bucket: Any, tmp_path: Path, small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = f"s3://{BUCKET}/jobs.csv", tmp_path / "data"
    bucket.pipe_file(f"{BUCKET}/jobs.csv", b"a,b\n1,2\n")

    def refused(rule: str, *arguments: Any, **how: Any) -> None:
        with pytest.raises(InputError, match=rule) as caught:
            fetch(*arguments, **how)
        assert not any(secret in str(caught.value) for secret in SECRETS)
        assert not [path for path in folder.rglob("*") if path.name != ".lock"]

    refused("the store has no such file", f"{url}.gz", folder)
    refused("and 00000", url, folder, "0" * 64)
    refused("is not fetched from the web", "https://127.0.0.1/jobs.csv", folder, confidential=True)
    folder.chmod(0o755)
    refused("others can look into the folder", url, folder, confidential=True)
    with monkeypatch.context() as patch:
        patch.setattr(bucket, "info", lambda *_, **__: {"size": 3})
        refused("cut off on the way", url, folder)
    refused("a package is missing .*paramiko", "sftp://127.0.0.1/jobs.csv", folder)
    assert not is_of_a_store(f"s3://{':'.join(SECRETS)}@{BUCKET}/jobs.csv")
    assert fetch(url, folder).read_bytes() == b"a,b\n1,2\n"
    for key in ("jobs.file", "release.out"):
        with pytest.raises(
            ConfigError, match=rf"{key}: this is a URL; write a path\. .*odsynth fetch table"
        ) as wrong:
            small_config({key: f"s3://{SECRETS[1]}@{BUCKET}/x"})
        assert SECRETS[1] not in str(wrong.value)
