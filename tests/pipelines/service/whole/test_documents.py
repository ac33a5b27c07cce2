"""docs/service.md and docs/deployment.md say what is so, and the files of examples/deploy are accepted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import pipelines
from helpers import PATIENCE
from pipelines.service import ServiceSettings, create_app, load_settings
from pipelines.service.access.tokens import Role, create_token
from pipelines.service.queue.records import STATES
from pipelines.service.settings import BackdropFiles, Limits, Notices, Oidc

from ..helpers import PLAN, copy_state, serving, settings_of

ROOT = Path(__file__).resolve().parents[4]
SERVICE = (ROOT / "docs" / "service.md").read_text()
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text()
DEPLOY = ROOT / "examples" / "deploy"
LEDGER = '\n[ledger]\nfile = "ledger.sqlite"\ndata_set = "jobs"\nepsilon = "100"\ndelta = "0.5"\n'
# In place of minutes of work: what a worker says of a plan and a release. It publishes as the real one.
WORKER = """\
import hashlib, json, os, shutil, sys
from pathlib import Path
line = sys.stdin.readline()
job = json.loads(line)
made = Path({made!r})
out = Path(job["folder"]) / job["configuration"]["release"]["out"]
if job["task"] == "plan":
    done = {{"plan": {plan!r}}}
elif job["task"] == "release":
    shutil.copytree(made, out)
    content = hashlib.sha256((out / "public" / "SHA256SUMS").read_bytes()).hexdigest()
    done = {{"certificate": (out / "public" / "certificate.json").read_text(), "content": content}}
elif job["task"] == "compare":
    done = {{"comparison": json.dumps({{"rows": [], "recommended": str(job["variation"])}})}}
else:
    import pipelines
    published = pipelines.publish(out, job["releases"], version=job["version"])
    done = {{"published_name": published.name, "published_version": published.version}}
print(json.dumps({{"step": "Working", "number": 1, "of": 1}}), flush=True)
print(json.dumps({{"done": done}}), flush=True)
"""


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    table = text.partition(f"| {heading} |")[2].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_table_of_settings_is_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = load_settings(None, {})
    expected = {}

    def add(model: type[BaseModel], prefix: str, made: BaseModel | None) -> None:
        for name, field in model.model_fields.items():
            value = field.get_default(call_default_factory=True) if made is None else getattr(made, name)
            if name == "limits":
                add(Limits, "limits.", loaded.limits)
            elif name in ("backdrop", "notices", "oidc"):
                add({"backdrop": BackdropFiles, "notices": Notices, "oidc": Oidc}[name], f"{name}.", None)
            else:
                expected[prefix + name] = value

    add(ServiceSettings, "", loaded)
    found = rows(SERVICE, "key")
    assert [re.sub("`", "", key) for key, *_ in found] == list(expected)
    for key, _, default in found:
        value = expected[key.strip("`")]
        if value is PydanticUndefined:
            assert default == "required"
        elif value in (None, (), {}):
            assert default == ("standard output" if key == "`log`" else "none"), key
        elif key == "`folder`":
            assert default == f"`{value.name}`"
        elif key == "`database`":
            assert default == "`service.sqlite` in `folder`"
            assert value.endswith("odsynth-service/service.sqlite")
        elif isinstance(value, Path):
            assert default == f"`{value.relative_to(loaded.folder)}` in `folder`"
        else:
            assert default == f"`{','.join(value) if isinstance(value, tuple) else value}`"


def test_every_state_and_every_role_is_explained() -> None:
    explained = re.findall(r"`(\w+)`", " ".join(row[0] for row in rows(SERVICE, "state")))
    assert sorted(explained) == sorted(STATES)
    assert [row[0] for row in rows(SERVICE, "role")] == [f"`{role}`" for role in get_args(Role)]


def test_every_metric_is_there(whole: Any) -> None:
    assert whole.ask("GET", "/operator", token="viewer").status == 200
    text = whole.ask("GET", "/metrics").text
    for names, labels, _ in rows(SERVICE, "metric"):
        for name in re.findall(r"`(\w+)`", names):
            (line, *_) = [line for line in text.splitlines() if re.match(rf"{name}(_bucket)?[ {{]", line)]
            for label in re.findall(r"`(\w+)`", labels):
                assert f'{label}="' in line, name
    assert 'odsynth_runs{state="failed"} 1.0' in text


@pytest.fixture
def served(
    config_text: Callable[..., str], small_release: pipelines.Release, service_state: Path, tmp_path: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """A real server with a worker; its address, and tokens."""
    folder = tmp_path / "srv"
    copy_state(service_state, folder)
    (folder / "rhode_island.toml").write_text(config_text() + LEDGER)
    plan = json.dumps(PLAN | {"plan_sha256": small_release.certificate.plan_sha256})
    (tmp_path / "worker.py").write_text(WORKER.format(made=str(small_release.out), plan=plan))
    inputs = {"INPUTS__RHODE-ISLAND": folder / "rhode_island.toml"}
    settings = settings_of(FOLDER=folder, LOG=tmp_path / "log", **inputs)
    app = create_app(settings, worker=(sys.executable, str(tmp_path / "worker.py")))
    tokens = {role.upper(): create_token(app.state.store, role, role)[0] for role in ("operator", "approver")}  # type: ignore[arg-type]
    with serving(app) as address:
        yield address, tokens


@pytest.mark.slow
def test_the_commands_of_the_document_work(served: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not on this machine")
    address, tokens = served
    part = SERVICE.partition("<!-- begin commands -->")[2].partition("<!-- end commands -->")[0]
    commands = "".join(re.findall(r"```sh\n(.*?)```", part, re.DOTALL))
    assert commands.count("curl ") == 19
    commands = commands.replace("SERVICE=https://data.example.org", f"SERVICE={address}")
    for role, secret in tokens.items():
        commands = re.sub(rf"(?m)^{role}=\S+", f"{role}={secret}", commands)
    (tmp_path / "here").mkdir()
    command, here = ["bash", "-euo", "pipefail", "-c", commands], tmp_path / "here"
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    assert '"status":"withdrawn"' in done.stdout
    assert "'epsilon': ['4', '8.6'], 'delta': [], 'mechanism': ['geometric']" in done.stdout
    assert (tmp_path / "here" / "part").stat().st_size == 100
    assert (tmp_path / "here" / "README.md").stat().st_size > 100


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    text = (DEPLOY / "odsynth.service").read_text().replace("/opt/odsynth/bin/odsynth", sys.executable)
    (tmp_path / "odsynth.service").write_text(text)
    command = ["systemd-analyze", "verify", str(tmp_path / "odsynth.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "odsynth" not in done.stderr


def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    if (nginx := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")) is None:
        pytest.skip("nginx is not on this machine")
    key, certificate = tmp_path / "key.pem", tmp_path / "fullchain.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=data.example.org"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    site = (DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/odsynth/", f"{tmp_path}/")
    site = site.replace("443 ssl", "8443 ssl").replace("listen 80", "listen 8080").replace("]:80;", "]:8080;")
    (tmp_path / "site.conf").write_text(site)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{ access_log off; include {tmp_path}/site.conf; }}\n"
    )
    command = [nginx, "-t", "-p", str(tmp_path), "-e", "stderr", "-c", str(tmp_path / "nginx.conf")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "syntax is ok" in done.stderr, done.stderr


def test_caddy_accepts_its_file() -> None:
    if (caddy := shutil.which("caddy")) is None:
        pytest.skip("caddy is not on this machine")
    command = [caddy, "adapt", "--validate", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_proxies_and_container_agree_with_the_service(tmp_path: Path) -> None:
    """Ports, sizes, folders; a proxy that sets the client's address; no address of a registry."""
    settings = load_settings(None, {"ODSYNTH_FOLDER": str(tmp_path)})
    for name in ("nginx.conf", "Caddyfile"):
        text = (DEPLOY / name).read_text()
        assert f"{settings.host}:{settings.port}" in text
        assert "metrics" in text
    nginx = (DEPLOY / "nginx.conf").read_text()
    assert "X-Forwarded-For $remote_addr;" in nginx
    assert "proxy_add_x_forwarded_for" not in nginx
    container = (DEPLOY / "Containerfile").read_text()
    assert f"EXPOSE {settings.port}" in container
    assert "--require-hashes" in container
    assert re.search(r"^USER 10001", container, re.MULTILINE)
    assert not re.search(r"https?://(?!127\.0\.0\.1)", container)
    copied = re.search(r"^COPY (.*) ", container, re.MULTILINE)
    assert copied is not None
    assert (ROOT / copied[1].split()[0]).is_file()
    (environment,) = re.findall(r"^ENV (.*)$", container, re.MULTILINE)
    given = dict(pair.split("=", 1) for pair in environment.split())
    ours = {name: value for name, value in given.items() if name.startswith("ODSYNTH_")}
    assert load_settings(None, ours).releases == Path("/data/published")


def test_the_example_of_a_configuration_is_one(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "service.toml", tmp_path)
    settings = load_settings(tmp_path / "service.toml", {})
    assert settings.folder == tmp_path
    assert settings.https
    assert settings.inputs == {"rhode-island": tmp_path / "inputs" / "rhode_island.toml"}
    for text in (SERVICE, DEPLOYMENT):
        for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
            (tmp_path / "block.toml").write_text(block)
            assert tomllib.loads(block).keys() <= ServiceSettings.model_fields.keys()
            load_settings(tmp_path / "block.toml", {})
