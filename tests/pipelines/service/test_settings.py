"""The configuration of the service: defaults, file, environment, and one clear error."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pipelines import ConfigError
from pipelines.service import ServiceSettings, Store, load_settings
from pipelines.service.access.tokens import create_token, revoke_token
from pipelines.service.starting import PEOPLE, cautions

pytestmark = pytest.mark.quick

SECRET = "CANARYsecret"
WEBHOOK = f'webhook = "http://localhost/x"\nwebhook_secret = "whsec_{"YWFh" * 10}"\n'


def test_the_environment_lies_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "service.toml"
    file.write_text(
        'folder = "state"\nport = 1\nreleases = "/srv/published"\npublic_url = "https://data.example.org"\n'
        'cors_origins = ["https://a.example"]\n[inputs]\nri = "ri.toml"\n[limits]\npublic = "5/second"\n'
        '[oidc]\nissuer = "https://login.example.org"\nclient_id = "x"\nclient_secret = "y"\n'
        'roles = { staff = "viewer" }\n'
    )
    settings = load_settings(
        file,
        {
            "ODSYNTH_PORT": "2",
            "ODSYNTH_OUTS": "outs",
            "ODSYNTH_INPUTS__DEMO": "demo.toml",
            "ODSYNTH_LIMITS__LOGIN": "3/hour",
            "ODSYNTH_OIDC__CLIENT_SECRET": SECRET,
            "ODSYNTH_PROXIES": "10.0.0.1, 10.0.0.2",
            "ODSYNTH_DEBUG": "1",
            "OTHER": "nothing of ours",
        },
    )
    assert settings.port == 2
    assert settings.folder == tmp_path / "state"  # beside the file
    assert settings.outs == tmp_path / "here" / "outs"  # where the command was given
    assert settings.releases == Path("/srv/published")
    assert settings.database == f"sqlite:///{tmp_path}/state/service.sqlite"
    assert settings.inputs == {"ri": tmp_path / "ri.toml", "demo": tmp_path / "here" / "demo.toml"}
    assert (settings.limits.public, settings.limits.login) == ("5/second", "3/hour")
    assert settings.proxies == ("10.0.0.1", "10.0.0.2")
    assert settings.cors_origins == ("https://a.example",)
    assert settings.oidc is not None
    assert (settings.oidc.client_secret, settings.oidc.roles) == (SECRET, {"staff": "viewer"})
    assert settings.https


def test_links_to_an_address_of_ipv6_have_brackets() -> None:
    assert load_settings(None, {"ODSYNTH_HOST": "::1"}).address == "http://[::1]:8765"
    assert load_settings(None, {"ODSYNTH_HOST": "127.0.0.1"}).address == "http://127.0.0.1:8765"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "prot: unknown key; did you mean port?"),
        ('port = "x"', 'port: "x": Input should be a valid integer'),
        ("port = 70000", "port: 70000: Input should be less"),
        ("workers = -1", "workers: -1: Input should be greater"),
        ('[limits]\npublic = "often"', "limits.public: this is not a rate"),
        ("[limits]\nbody = 1", "limits.body: 1: Input should be greater"),
        ("[limits]\npubic = 1", "limits.pubic: unknown key; did you mean public?"),
        ("folder = 3", "folder: 3: Input is not a valid path"),
        ("inputs = 3", "inputs"),
        ('[inputs]\n"a/b" = "x.toml"', "not a name of an input"),
        ('public_url = "data.example.org"', "public_url: this is not an address"),
        ('public_url = "https://a.example\\r\\nX: y"', "public_url: this is not an address"),
        ('contact = "javascript:alert(1)"', "contact: not a mail address nor the address of a page"),
        ('contact = "a@b.example?x=y\\r\\nBcc: c"', "contact: not a mail address nor the address of a page"),
        ('[oidc]\nissuer = "https://a.example"\nclient_id = "x"', "oidc.client_secret: missing"),
        ("[oidc]\nclient_secret = 5", "oidc.client_secret: this is not text"),
        ('[backdrop]\nwater = "lakes.gpkg"', "backdrop.attribution: missing"),
        ("cors_origins = 5", "cors_origins"),
        ("[notices]", "notices: names neither smtp nor webhook"),
        ('[notices]\nsmtp = "smtps://a.example"', "notices: smtp needs sender, and operators or approvers"),
        ('[notices]\noperators = ["a@b.example"]\n' + WEBHOOK, "notices: mail needs a server"),
        ('[notices]\nuser = "a"\n' + WEBHOOK, "notices: mail needs a server"),
        ('[notices]\nsmtp = "smtp://a.example/x"', "notices.smtp: this is not a mail server"),
        (
            '[notices]\nsender = "a@b.example\\nBcc: c@d"',
            "notices.sender: this is not a mail address",
        ),
        ('[notices]\nwebhook = "http://a.example"', "notices.webhook: this is not the address of a webhook"),
        ('[notices]\nwebhook = "https://a.example"', "webhook and webhook_secret go together"),
        ('[notices]\nwebhook_secret = "whsec_c2hvcnQ="', "notices.webhook_secret: this is not a secret"),
        ("port = ", "not valid TOML"),
        ("_env_file = 1", "_env_file: unknown key"),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "service.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_settings(file, {})
    assert message in str(error.value)
    assert all(problem.startswith("service.toml: ") for problem in error.value.problems)


def test_a_bad_variable_is_one_clear_error() -> None:
    for variable, value, message in (
        ("ODSYNTH_PRT", "1", "prt: unknown key; did you mean port"),
        ("ODSYNTH_PORT__X", "1", "port__x: unknown key; did you mean port"),
        ("ODSYNTH_LIMITS__PUBIC", "1", "limits.pubic: unknown key; did you mean public"),
        ("ODSYNTH__ENV_FILE", "x", "_env_file: unknown key"),
        ("ODSYNTH_PORT", "eighty", 'port: "eighty": Input should be a valid integer'),
        *(
            ("ODSYNTH_LIMITS__LOGIN", rate, r"limits.login: .* is not a rate; write for example")
            for rate in ("", "5", "5/day", "-1/minute", "1.5/minute", "0/minute", "5/minute\n", "٥/minute")
        ),
        ("ODSYNTH_LIMITS", "{}", "limits: .* should be a"),
        ("ODSYNTH_OIDC__ROLES", "{}", "oidc.roles: .* should be a"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_settings(None, {variable: value})


def test_secrets_are_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(
        f'database = ["{SECRET}"]\n[oidc]\nissuer = "x"\nclient_secret = ["{SECRET}"]\n'
        f'[notices]\nsmtp = "smtp://{SECRET}@a.example"\npassword = ["{SECRET}"]\n'
        f'webhook = "http://a.example/{SECRET}"\nwebhook_secret = "{SECRET}"\n'
    )
    with pytest.raises(ConfigError) as error:
        load_settings(file, {})
    assert len(error.value.problems) == 8
    assert SECRET not in str(error.value)


def test_state_is_for_nobody_else(tmp_path: Path) -> None:
    settings: ServiceSettings = load_settings(None, {"ODSYNTH_FOLDER": str(tmp_path / "state")})
    settings.folder.mkdir(mode=0o755)
    settings.make_folders()
    for folder in (settings.folder, settings.outs, settings.cache):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    settings.make_folders()  # and again, at every start


def test_what_is_unsafe_is_said_in_a_sentence_each(tmp_path: Path) -> None:
    here, there = {}, {"ODSYNTH_HOST": "0.0.0.0"}
    proxied = {"ODSYNTH_PUBLIC_URL": "https://data.example.org", "ODSYNTH_PROXIES": "127.0.0.1"}
    oidc = {"ISSUER": "https://id.example.org", "CLIENT_ID": "odsynth", "CLIENT_SECRET": "odsynth"}
    store = Store.open(f"sqlite:///{tmp_path / 'service.sqlite'}")

    def said(given: dict[str, str]) -> list[str]:
        settings = load_settings(None, {name: v for name, v in given.items() if name != "ODSYNTH_DEBUG"})
        return cautions(settings, store, given)

    for given, words in (
        (here, []),
        ({"ODSYNTH_HOST": "localhost"}, []),
        ({"ODSYNTH_HOST": "::1"}, []),
        (there, ["without encryption"]),
        ({"ODSYNTH_HOST": "::"}, ["without encryption"]),
        (there | proxied, []),
        (proxied | {"ODSYNTH_PROXIES": ""}, ["share one limit"]),
        (proxied | {"ODSYNTH_PROXIES": "*"}, ["believes everybody"]),
        ({"ODSYNTH_DEBUG": "1"}, ["tracebacks"]),
        ({"ODSYNTH_DATABASE": "postgresql+psycopg://ann:Ann@host/d"}, ["password of the database"]),
        ({"ODSYNTH_DATABASE": "postgresql+psycopg://ann:0kcR2@host/d"}, []),
        ({"ODSYNTH_DATABASE": "postgresql+psycopg://ann@host/d"}, []),
        ({f"ODSYNTH_OIDC__{name}": value for name, value in oidc.items()}, ["client_secret"]),
    ):
        found = said(given)
        assert len(found) == len(words), (given, found)
        for sentence, word in zip(found, words, strict=True):
            assert word in sentence
            assert sentence.endswith(".")
    tokens = [create_token(store, owner, role)[1] for owner, role in PEOPLE]
    assert said(here) == []
    assert ["serve --init" in sentence for sentence in said(proxied)] == [True]
    revoke_token(store, tokens[0].id)
    assert said(proxied) == []
    store.close()
