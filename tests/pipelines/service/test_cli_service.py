"""The verbs `serve` and `token`, and that nobody else pays for them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient

from pipelines.cli.main import main
from pipelines.service import ServiceSettings, create_app, load_settings

LIBRARIES = ("fastapi", "starlette", "uvicorn", "sqlalchemy", "duckdb", "prometheus_client")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ODSYNTH_FOLDER", str(tmp_path / "state"))
    return tmp_path / "state"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        (
            "pipelines.cli.main",
            (*LIBRARIES, "pipelines.service", "numpy", "pandas", "requests"),
        ),  # before a verb
        ("pipelines.service.queue.worker_main", LIBRARIES),  # in which a run is at work
    ],
)
def test_other_programs_do_not_load_it(program: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys, {program}; sys.exit(repr([m for m in {unwanted} if m in sys.modules]))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip() == "[]"


@pytest.mark.parametrize(("verb", "library"), [(["serve"], "fastapi"), (["token", "list"], "sqlalchemy")])
def test_a_missing_library_is_named_with_the_cure(
    state: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], library: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("pipelines.service")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    result = invoke(*verb)
    assert result.exit_code == 1
    assert f"{library} is not installed" in result.output
    assert "with the extra [service]" in result.output


def test_a_bad_configuration_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "service.toml").write_text("prot = 1")
    result = invoke("serve", str(tmp_path / "service.toml"))
    assert result.exit_code == 1
    assert result.output == "Error: service.toml: prot: unknown key; did you mean port?\n"
    monkeypatch.setenv("ODSYNTH_DATABASE", "mysql://user:CANARY@host/x")
    monkeypatch.setenv("ODSYNTH_FOLDER", str(tmp_path / "state"))
    result = invoke("serve")
    assert result.exit_code == 1
    assert "neither SQLite nor PostgreSQL" in result.output
    assert "CANARY" not in result.output


def test_tokens(state: Path) -> None:
    made = invoke("token", "create", "Ann Example", "--role", "operator", "--days", "7")
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert secret.startswith("odsynth_")
    listed = invoke("token", "list").output
    number = listed.split()[0]
    assert listed.startswith(f"{number} ann example: operator, until ")
    assert secret not in listed
    assert invoke("token", "revoke", number).output == f"Revoked: {number} of ann example\n"
    assert "revoked" in invoke("token", "list").output
    assert secret.encode() not in (state / "service.sqlite").read_bytes()


def test_only_a_new_token_makes_the_folder(state: Path) -> None:
    for verb in (("list",), ("revoke", "ffffffff")):
        result = invoke("token", *verb)
        assert result.exit_code == 1
        assert f"{state}: there is no folder of a service. Fix: name the configuration" in result.output
        assert not state.exists()
    assert f"Service     {state}" in invoke("token", "create", "Ann", "--role", "viewer").stderr


def test_tokens_that_cannot_be(state: Path) -> None:
    state.mkdir()
    for arguments, message in (
        (("create", "console", "--role", "viewer"), "cannot be a person's name"),
        (("create", "Ann", "--role", "viewer", "--days", "1000"), "at most 366 days"),
        (("revoke", "ffffffff"), "There is no such token"),
    ):
        result = invoke("token", *arguments)
        assert result.exit_code == 1
        assert message in result.output


def test_a_service_begins_with_a_ledger_an_input_and_two_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ServiceSettings] = []
    # Not by its path: a test above takes the modules of the service away, and imports them anew.
    monkeypatch.setattr(sys.modules["pipelines.service"], "serve", started.append)
    monkeypatch.chdir(tmp_path)
    result = invoke("serve", "--init")
    assert result.exit_code == 0, result.output
    (settings,) = started
    assert load_settings(tmp_path / "service.toml").model_dump() == settings.model_dump()
    app = create_app(settings)
    operator, approver = (
        TestClient(app, headers={"Authorization": f"Bearer {secret}"})
        for secret in re.findall("odsynth_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", result.output)
    )
    assert operator.get("/api/v1/operator/whoami").json()["role"] == "operator"
    assert approver.get("/api/v1/operator/whoami").json()["role"] == "approver"
    (found,) = operator.get("/api/v1/operator/inputs").json()["inputs"]
    assert (found["name"], found["usable"]) == ("demo", True)
    assert operator.post("/api/v1/operator/runs", json={"input": "demo"}).status_code == 201
    ours = settings.inputs["demo"].read_text().replace("../out", "../demo/out").replace("../../l", "../l")
    (settings.inputs_folder / "other.toml").write_text(ours)  # while the service is at work
    (settings.inputs_folder / "no name.toml").write_text(ours)
    names = [each["name"] for each in operator.get("/api/v1/operator/inputs").json()["inputs"]]
    assert names == ["demo", "other"]
    assert operator.post("/api/v1/operator/runs", json={"input": "other"}).status_code == 201
    app.state.store.close()
    app.state.log.close()
    again = invoke("serve", "--init")
    assert again.exit_code == 1
    assert "service.toml: it exists already. Fix: start the service without --init" in again.output
