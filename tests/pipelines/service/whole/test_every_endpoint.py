"""Every endpoint, also those that nobody has thought of yet, against everything that somebody may send to it.

What is open to the public is listed here; whatever is not, must refuse whoever has no token. Every answer is
looked at: no error of the server, headers of security, no path of the server, nothing confidential.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines.service.store import Store, list_audit

from ..helpers import NAME, PLAN_SHA256

V1 = "/releases/{name}/{version}"
OIDC = {"/operator/login/oidc", "/operator/login/oidc/callback"}  # this service has no provider
PART = f"{V1}/map/{{part}}"  # nor is there a large map
ITEMS = "/ogc/collections/{collection}/items"
GEO = (
    *("/ogc", "/ogc/conformance", "/ogc/collections", "/ogc/collections/{collection}", ITEMS),
    *(f"{ITEMS}/{{feature:path}}", "/tiles/{level}", "/tiles/{level}/style"),
    "/tiles/{level}/{z}/{x}/{y}.mvt",
)
PUBLIC = OIDC | {
    *("/", "/api", "/api/v1/openapi.json", "/health", "/ready", "/metrics", "/static/{path:path}"),
    *("/releases/{name}", V1, f"{V1}/map", PART, f"{V1}/picture.svg", f"{V1}/columns", f"{V1}/flows"),
    f"{V1}/files/{{path:path}}",
    *(
        "/api/v1/releases",
        "/api/v1/releases.atom",
        "/api/v1/releases.jsonld",
        "/api/v1/releases/{name}/years",
    ),
    *(f"/api/v1{V1}{end}" for end in ("", "/certificate", "/files", "/contents", "/areas", "/flows", *GEO)),
    *("/operator/login",),
}
# What each act needs, in the API and in its form; a new one must be entered here. All else is for viewers.
ACTS = {
    **dict.fromkeys(("/runs", "/comparisons"), "operator"),
    **dict.fromkeys(
        (f"/runs/{{run}}/{act}" for act in ("plans", "queue", "cancel", "retry", "close", "rename")),
        "operator",
    ),
    "/runs/{run}/witness": "witness",
    **dict.fromkeys((f"/runs/{{run}}/{act}" for act in ("approve", "reject")), "approver"),
    **dict.fromkeys((f"{V1}/{act}" for act in ("withdraw", "errata")), "approver"),
    "/sessions/end": "approver",
    "/tokens/{token}/revoke": "viewer",
}
FORMS = ACTS | {"/logout": "viewer"}
NO_TOKENS = ("wrong", "unknown", "expired", "revoked")
ROLES = ("viewer", "operator", "witness", "approver")
API = "/api/v1/operator"
# Of each path parameter, one that is there; of runs, one that is not, so that no test changes anything.
THERE = {"name": NAME, "version": "v1", "run": "999999", "token": "00000000", "part": "draws-0.bin"}
THERE |= {
    "part": "draws-0.bin",
    "level": "cty",
    "collection": "areas_cty",
    "feature": "03001",
    "z": "0",
    "x": "0",
    "y": "0",
}
HEADERS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "same-origin"}
HEADERS |= {"cross-origin-opener-policy": "same-origin"}
# As they are in lower case.
LEAKS = (
    *("canary", f"{tempfile.gettempdir()}/".lower(), "site-packages", "traceback", "sqlalchemy"),
    *("sqlite3", "sqlite:", "root:x:"),
)
LEAKING_FILE = re.compile(r"(?<!verify)\.py\b")  # which every release carries
# Words of ours that only look like it: of the page about the API, and of the metrics about Python.
NO_LEAK = {"/api", "/metrics"}

WAYS_OUT = r"""
  .. ../.. ../../../../etc/passwd ..%2f..%2f..%2fetc%2fpasswd %2e%2e %2e%2e/%2e%2e ..%5c..%5c %252e%252e%252f
  %c0%ae%c0%ae%c0%af ....//....// ..;/ . %2e * ~root /etc/passwd %2fetc%2fpasswd file:%2f%2f%2fetc%2fpasswd
  C:%5Cboot.ini service.sqlite ..%2fservice.sqlite ../session.key v1.publication.json v1%2e v1%20 V1 %00 v1%00
  %0d%0aX-Injected:%20yes %0aSet-Cookie:%20injected=1 %ff%fe % %zz %ed%a0%80 %27%20OR%201=1-- %7B%7B7*7%7D%7D
  %3Cscript%3Ealert(1)%3C/script%3E -1 0 1e9 ١
"""
PATHS = [*WAYS_OUT.split(), "a" * 5000, "9" * 50]
ODD_VALUES = ("", "../..", "%00", "%ff%fe", "9" * 50, "<script>alert(1)</script>", "%0d%0aX-Injected:%20yes")
BODIES: list[bytes | list[bytes]] = [
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"NaN", b"1e999", b"\xff\xfe", b"\x00", b"{}", b"[" * 100_000),
    *(b'{"input": ' + b"9" * 5000 + b"}", b'{"a":' * 20_000, b'{"input": "\\ud800"}'),
    *(b'{"input": "small\\u0000"}', b'{"input": {"$ref": "x"}}', b'{"input": "../small"}'),
    *(b'{"input": "' + b"x" * 900_000 + b'"}', b'{"text": "a\\u0000"}', b'{"text": ["x"]}'),
    *(b'{"content_sha256": "../x"}', b'{"content_sha256": true}'),
    *(b'{"input":"small","out":"/tmp","configuration":{}}', b"a=1&a=2", b"%", b"&" * 2000, b"input=small"),
    [b"{", b'"input"', b": tru"],
]
PARTS = ("multipart/form-data", "multipart/form-data; boundary=x")
METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "G\u00cbT")
OF_PAGES = ("area", "side", "level", "next", "page", "run", "state", "csrf")  # in the queries of pages
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
TYPES = (JSON, FORM, f"{JSON}; charset=utf-16", *PARTS, "text/xml", "")
ODD: dict[str, tuple[str | bytes, ...]] = {
    "host": ("[", "a:99999999", "a:b", '"><script>', b"\xff", "a/b?c#d", "injected.example", ""),
    "authorization": (b"Bearer \xff\xfe", "Bearer\x00", "Basic YTpi", "Bearer " + "x" * 100_000),
    "cookie": (b"odsynth=\xff", "odsynth=" + "x" * 50_000, "odsynth=gAAAAA==; odsynth=", "=;;="),
    "if-none-match": ("*", 'W/"x", "', "\x00", b"\xff"),
    "range": ("bytes=-", "bytes=5-1", "bytes=0-" + "9" * 500, "lines=1", "bytes=" + "0-0," * 500, b"\xff"),
    "content-length": ("-1", "1e9", "0x1", "9" * 5000, b"\xb2"),
    "idempotency-key": ("a b", b"a\xff", "x" * 201, "a\r\nX-Injected: yes", ""),
    "content-type": (b"\xff", "multipart/form-data; boundary=" + "x" * 500, 'a/b; c="', ";"),
    "origin": ("null", "https://injected.example", b"\xff"),
    "x-forwarded-host": ("injected.example",),
    "x-http-method-override": ("DELETE",),
    "accept-encoding": ("gzip;q=x", "*;q=" + "1" * 5000),
    "referer": ("https://injected.example/\r\nX-Injected: yes",),
    "x-csrf-token": (b"\xff", "x"),
    "transfer-encoding": ("chunked", "x"),
}
ODD_HEADERS = [(name, value) for name, values in ODD.items() for value in values]


class Route(NamedTuple):
    """A method and an address, with parameters in braces."""

    method: str
    path: str

    @property
    def public(self) -> bool:
        return self.path in PUBLIC and (self.method == "GET" or self.path in OIDC | {"/operator/login"})

    @property
    def needs(self) -> str:
        """The least role that may use it."""
        if self.method == "GET":
            return "viewer"
        return ACTS[self.path.removeprefix(API)] if self.path.startswith(API) else FORMS[self.path[9:]]

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"\{(\w+)[:}]", self.path)

    def filled(self, **given: str) -> str:
        there = {"path": "site.css" if self.path.startswith("/static") else "README.md", **THERE, **given}
        return re.sub(r"\{(\w+)(:path)?\}", lambda found: there[found[1]], self.path)


def routes_of(app: FastAPI) -> list[Route]:
    """Every route of an application, wherever it comes from."""

    def walk(routes: Any, prefix: str = "") -> Iterator[Route]:
        for route in routes:
            if (router := getattr(route, "original_router", None)) is not None:
                yield from walk(router.routes, prefix + route.include_context.prefix)
            elif (methods := getattr(route, "methods", None)) is not None:
                yield from (Route(method, prefix + route.path) for method in sorted(methods - {"HEAD"}))
            else:
                yield Route("GET", f"{route.path}/{{path:path}}")  # a folder of files

    return list(walk(app.routes))


@pytest.fixture
def every(whole: Any) -> list[Route]:
    return routes_of(whole.app)


def soundly(whole: Any, route: Route, target: str = "", *, method: str = "", **how: Any) -> Any:
    """Ask, and look at what every answer must be like."""
    target, method = target or route.filled(), method or route.method
    answer = whole.ask(method, target, **how)
    said = (method, target, how, answer.status, answer.text[:200])
    assert answer.status < 500, said
    sound(answer, said, leaks=route.path not in NO_LEAK)
    return answer


@lru_cache(maxsize=256)  # whole maps are answered hundreds of times
def leaks_of(words: str) -> list[str]:
    """What the words say of the server or its inputs."""
    words = words.lower()
    return [leak for leak in LEAKS if leak in words] + LEAKING_FILE.findall(words)


def sound(answer: Any, said: object, *, leaks: bool = True) -> None:
    names = [name for name, _ in answer.headers]
    assert HEADERS.items() <= dict(answer.headers).items(), said
    for one in ("content-security-policy", "cache-control", "x-request-id"):
        assert names.count(one) == 1, said
    policy = answer.header("content-security-policy")
    assert "unsafe" not in policy, said
    assert re.search("default-src 'none'.*(frame-ancestors|sandbox)|^frame-ancestors 'none'$", policy), said
    assert not {"server", "strict-transport-security"} & set(names), said
    assert "x-injected" not in names, said
    values = "".join(value for _, value in answer.headers)
    assert not re.search("[\r\n\x00]|injected", values), said
    if leaks and not answer.header("content-type", "").startswith("text/css"):
        assert not leaks_of(answer.text), said
        assert not leaks_of(values), said
    if answer.header("content-type") == "application/json" and answer.status >= 400 and answer.body:
        problem = json.loads(answer.text)
        assert problem.keys() in ({"error", "detail"}, {"status", "checks"}), said
        assert all(problem.values()), said


def entitled(route: Route) -> str | None:
    """The name of a token that gets as far as one can get."""
    return None if route.public else "operator" if route.needs == "viewer" else route.needs


def refuses(answer: Any) -> bool:
    """Whether whoever asked was told to say first who he is."""
    if answer.status == 401:
        return bool(answer.header("www-authenticate") == "Bearer")
    return answer.status == 303 and answer.header("location", "").startswith("/operator/login?next=/")


def test_all_routes_are_found(whole: Any, every: list[Route]) -> None:
    documented = {
        (m.upper(), path) for path, methods in whole.app.openapi()["paths"].items() for m in methods
    }
    assert documented <= {(route.method, route.path.replace(":path", "")) for route in every}
    assert {route.path for route in every} >= PUBLIC - OIDC
    assert all(route.public or route.path.startswith(("/operator", API)) for route in every)
    assert len(every) == len(set(every)) > 45
    for prefix, acts in ((API, ACTS), ("/operator", FORMS)):
        posts = {r.path for r in every if r.path.startswith(prefix) and r.method == "POST" and not r.public}
        assert posts == {f"{prefix}{path}" for path in acts}
    for path, methods in whole.app.openapi()["paths"].items():
        for operation in methods.values() if path.startswith(API) else ():
            assert operation["security"] == [{"HTTPBearer": []}]
            assert {"401", "403"} <= set(operation["responses"])


def test_every_role_may_do_what_it_is_for_and_no_more(whole: Any, every: list[Route]) -> None:
    """Operator, witness and approver: each does what the two others must not."""
    for route in every:
        for role in () if route.public else ROLES:
            status = soundly(whole, route, token=role).status
            assert (status == 403) == (route.needs not in ("viewer", role)), (route, role, status)


def test_what_is_public_needs_no_token_and_all_else_does(whole: Any, every: list[Route]) -> None:
    """Nobody without a token; of what is no good token, all on every fourth route."""
    good = whole.tokens["approver"]
    headers = [
        ("cookie", f"odsynth={good}"),
        *(("authorization", v) for v in ("", "Bearer", "Bearer ", f"Basic {good}", good)),
        *(("authorization", f"Bearer {v}") for v in (good[:-1], f"{good}x", f"{good} {good}", "x" * 5000)),
        *(("authorization", f"Bearer {whole.tokens[name]}") for name in NO_TOKENS),
    ]
    for number, route in enumerate(every):
        answer = soundly(whole, route)
        assert refuses(answer) != route.public, (route, answer.status)
        if not route.public and route.method == "GET":
            assert refuses(soundly(whole, route, method="HEAD")), route
        for header in headers[number % 4 :: 4]:
            assert refuses(soundly(whole, route, headers=[header])) != route.public, (route, header)
        if route.public and route.method == "GET":
            areas = route.path == f"/api/v1{V1}/areas"  # which needs a level
            missing, empty = route.path in {PART, *OIDC}, route.path.endswith(".mvt")
            expected = 422 if areas else 404 if missing else 204 if empty else 200
            assert answer.status == expected, (route, answer.text)


def test_forms_of_other_sites_change_nothing(whole: Any, every: list[Route]) -> None:
    """A browser sends the cookie of the session along; the text of our pages it does not know."""
    for role in ROLES:
        form = urlencode({"token": whole.tokens[role]}).encode()
        headers = [("content-type", FORM)]
        entered = whole.ask("POST", "/operator/login", headers=headers, body=form)
        assert entered.status == 303
        cookie = ("cookie", entered.header("set-cookie").partition(";")[0])
        for route in every:
            if route.method == "GET" or route.public or route.needs not in ("viewer", role):
                continue
            for extra, body in (
                ([], None),
                ([("content-type", JSON)], b"{}"),
                (headers, b"csrf=&text=x"),
                (headers, b"csrf=" + b"A" * 43),
                ([("content-type", "text/plain")], b"csrf=x"),
                ([("x-csrf-token", "A" * 43)], b""),
            ):
                answer = soundly(whole, route, headers=[cookie, *extra], body=body)
                assert answer.status == 403, (route, role, extra, answer.text)


@pytest.mark.slow
def test_no_address_leads_out(whole: Any, every: list[Route]) -> None:
    """All ways where files are named; else all of them on every eighth route."""
    for number, route in enumerate(every):
        for parameter in route.parameters:
            for path in PATHS if parameter in ("path", "part") else PATHS[number % 8 :: 8]:
                answer = soundly(whole, route, route.filled(**{parameter: path}), token=entitled(route))
                assert answer.status in (204, 400, 404, 405, 409, 422), (route, path, answer.status)


def parameters_of(app: FastAPI, route: Route) -> set[str]:
    """What the document says that a route takes in its query."""
    operation = app.openapi()["paths"].get(route.path.replace(":path", ""), {}).get(route.method.lower(), {})
    return {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}


@pytest.mark.slow
def test_parameters_of_a_query_may_be_anything(whole: Any, every: list[Route]) -> None:
    """All of them on every third route; one parameter at a time on pages, which do not say what they take.

    Of the API, test_openapi.py asks for each.
    """
    names = {route: parameters_of(whole.app, route) for route in every if route.method == "GET"}
    known = set[str]().union(*names.values(), OF_PAGES)
    for number, (route, documented) in enumerate(names.items()):
        taken = sorted(documented or known)
        alone = () if documented else taken[number % 4 :: 4]
        asked = [f"{name}={value}" for name in alone for value in ODD_VALUES[::4]]
        asked += ["&".join(f"{name}={value}" for name in taken) for value in PATHS[::6]]
        asked += ["&" * 3000, "=", "work=1&work=2", "%", "?" * 100, "a[]=1", "x" * 50_000]
        large = route.path in NO_LEAK | {"/api/v1/openapi.json"}
        for query in asked[number % 3 :: 20 if large else 3]:
            answer = soundly(whole, route, f"{route.filled()}?{query}", token=entitled(route))
            assert answer.status in (200, 204, 400, 404, 409, 422, 503)
            assert "<script>alert" not in answer.text or "json" in answer.header("content-type")


@pytest.mark.slow
def test_bodies_may_be_anything(whole: Any, every: list[Route]) -> None:
    """All of them on every third route."""
    for number, route in enumerate(route for route in every if route.method != "GET"):
        usual = JSON if route.path.startswith(API) else FORM
        bodies = [(body, usual) for body in BODIES] + [(b, k) for b in BODIES[5::6] for k in TYPES]
        for body, kind in bodies[number % 3 :: 3]:
            headers = [("content-type", kind)] if kind else []
            answer = soundly(whole, route, token=entitled(route), headers=headers, body=body)
            if route.path == "/operator/logout":
                assert answer.status == 303
            else:
                assert 400 <= answer.status < 500, (route, kind, answer.text)


def test_large_bodies_are_refused_before_anything_else(whole: Any, every: list[Route]) -> None:
    large = b"x" * 1_000_001
    pieces = [b"x" * 100_000] * 11
    for route in every:
        assert soundly(whole, route, body=large).status == 413, route
        if route.method == "POST" and not route.path.endswith(
            ("cancel", "retry", "api/v1/operator/runs/{run}/close", "revoke", "logout")
        ):
            how = {"headers": [("content-type", JSON if "/api/" in route.path else FORM)], "announced": False}
            answer = soundly(whole, route, token=entitled(route), body=pieces, **how)
            assert answer.status == 413, (route, answer.status)


@pytest.mark.slow
def test_headers_may_be_anything(whole: Any, every: list[Route]) -> None:
    for number, route in enumerate(every):
        for header in ODD_HEADERS[number % 12 :: 12]:  # all of them, on every twelfth route
            token = None if header[0] == "authorization" else entitled(route)
            answer = soundly(whole, route, token=token, headers=[header])
            origin = answer.header("access-control-allow-origin")
            assert origin is None or (origin == "*" and route.public)
            assert answer.header("access-control-allow-credentials") is None


def test_a_host_that_was_made_up_is_only_text(whole: Any, every: list[Route]) -> None:
    for route in every:
        if route.method == "GET" and route.public:
            for name in ("host", "x-forwarded-host", "forwarded"):
                answer = soundly(whole, route, headers=[(name, '"><script>alert(1)')])
                assert "<script>alert(1)" not in answer.text


def test_other_methods_do_nothing(whole: Any, every: list[Route]) -> None:
    there: dict[str, set[str]] = {}
    for route in every:
        there.setdefault(route.path, set()).add(route.method)
    for path, methods in there.items():
        for method in set(METHODS) - methods:
            answer = soundly(whole, Route(method, path), token="approver")
            assert answer.status == 405, (method, path, answer.status)
            assert not path.startswith("/api/") or '"method_not_allowed"' in answer.text
            assert set((answer.header("allow") or "GET").split(", ")) <= methods | {"HEAD"}


class _Broken:
    """In place of a part of the service: whatever is asked of it, it fails with words for nobody."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("CANARY in /srv/secret/service.sqlite: postgresql://user:CANARY@host")


@contextmanager
def instead(state: Any, part: str, other: object) -> Iterator[None]:
    """Put something else in the place of a part of the service, for a while."""
    kept = getattr(state, part)
    setattr(state, part, other)
    try:
        yield
    finally:
        setattr(state, part, kept)


def test_what_fails_without_being_foreseen_says_nothing(whole: Any, every: list[Route]) -> None:
    seen = set()
    for part in ("store", "catalog", "settings"):
        with instead(whole.app.state, part, _Broken()):
            for route in every:
                answer = whole.ask(route.method, route.filled(), token="approver")
                sound(answer, (route, part, answer.text[:300]), leaks=route.path not in NO_LEAK)
                seen.add(answer.status)
                if answer.status == 500:
                    assert answer.header("cache-control") == "no-store"
                    assert answer.header("x-request-id") in answer.text
    assert 500 in seen
    assert "CANARY" not in (whole.folder / "service.log").read_text()


def test_a_database_that_is_damaged_says_nothing(whole: Any, every: list[Route]) -> None:
    path = whole.folder / "CANARYaway.sqlite"
    away = Store.open(f"sqlite:///{path}")
    away.close()
    path.write_bytes(b"CANARY" * 5000)
    with instead(whole.app.state, "store", away):
        for route in every:
            answer = whole.ask(route.method, route.filled(), token="approver")
            sound(answer, (route, answer.text[:300]), leaks=route.path not in NO_LEAK)
        assert whole.ask("GET", "/ready").status == 503
        assert whole.ask("GET", "/health").status == 200
    away.close()


def test_a_database_that_is_away_keeps_nobody_from_what_is_public(whole: Any, every: list[Route]) -> None:
    folder = whole.folder / "CANARYfolder"
    folder.mkdir()
    away = Store.open(f"sqlite:///{folder / 'service.sqlite'}")
    away.close()
    shutil.rmtree(folder)
    with instead(whole.app.state, "store", away):
        for route in every:
            answer = whole.ask(route.method, route.filled(), token=None if route.public else "approver")
            said = (route, answer.status, answer.text[:300])
            sound(answer, said, leaks=route.path not in NO_LEAK)
            assert (answer.status == 503) == (not route.public or route.path == "/ready"), said
            if not route.public:
                assert "does not answer" in answer.text, said
                assert answer.header("retry-after") == "5", said
    assert whole.ask("GET", f"{API}/whoami", token="approver").status == 200


def test_every_page_and_answer_that_is_there_says_nothing_of_the_server(
    whole: Any, every: list[Route]
) -> None:
    """With the runs, releases and tokens that there are, and whoever may see most."""
    found = 0
    numbers = re.compile(r"run=[0-9]")
    for route in every:
        if route.method != "GET":
            continue
        for version in ("v0", "v1"):
            for run in map(str, range(1, 9)):
                for role in ROLES:
                    target = route.filled(version=version, run=run)
                    answer = soundly(whole, route, target, token=role)
                    found += answer.status == 200 and not numbers.search(target)
                if "run" not in route.parameters:
                    break
            if "version" not in route.parameters:
                break
    assert found > 150


def test_what_cannot_be_done_now_says_nothing_of_the_server(whole: Any, every: list[Route]) -> None:
    """Run 4 is rejected, version v0 is withdrawn, and the configuration of an input is broken."""
    verdict = {"content_sha256": "c" * 64, "comment": ""}
    takes = {"queue": {"plan_sha256": PLAN_SHA256}, "approve": verdict, "reject": verdict}
    takes |= {
        "withdraw": {"text": "x"},
        "runs": {"input": "broken"},
        "comparisons": {"input": "broken"},
        "plans": {"row": 1},
        "rename": {"version": "v9"},
        "witness": {"statement": "x"},
        "close": {},
    }
    asks = dict.fromkeys(("queue", "reject", "withdraw", "close"), ("seen",))
    asks["approve"] = ("certificate", "accuracy", "map", "name")
    refused = 0
    for route in every:
        end = route.path.rpartition("/")[2]
        if route.method != "POST" or not (end in takes or "run" in route.parameters):
            continue
        form = not route.path.startswith(API)
        given = takes.get(end, {}) | (
            {"key": "a"} if form and end in ("runs", "comparisons", "plans") else {}
        )
        given |= dict.fromkeys(asks.get(end, ()), "yes") if form else {}
        content = urlencode(given).encode() if form else json.dumps(given).encode()
        headers = [("content-type", FORM if form else JSON)]
        target = route.filled(run="4", version="v0")
        answer = soundly(whole, route, target, token=entitled(route), headers=headers, body=content)
        assert answer.status == 409, (route, answer.status, answer.text)
        refused += 1
    assert refused == 24


def test_nothing_was_changed_by_all_this(whole: Any) -> None:
    """The tests above run before this one, with every token: what was refused was not done."""
    states = [
        run["state"] for run in json.loads(whole.ask("GET", f"{API}/runs", token="viewer").text)["runs"]
    ]
    expected = ["queued", "cancelled", "planned", "running", "rejected", "published", "failed", "finished"]
    assert states[-8:] == expected
    assert {act.action for act in list_audit(whole.app.state.store, limit=1000)} <= {
        *("submitted", "finished", "planned", "failed", "token created", "token revoked", "logged in")
    }


def test_of_those_who_withdraw_at_once_exactly_one_does(make_whole: Callable[..., Any]) -> None:
    """As of those who approve at once (queue/test_runs.py)."""
    whole = make_whole()
    headers = {"Authorization": f"Bearer {whole.tokens['approver']}"}
    address = f"{API}/releases/{THERE['name']}/v1"
    with ThreadPoolExecutor(6) as pool:

        def act(number: int) -> int:
            client = TestClient(whole.app, headers=headers)
            end = "withdraw" if number % 2 else "errata"
            return client.post(f"{address}/{end}", json={"text": f"by {number}"}).status_code

        answers = list(pool.map(act, range(6)))
    assert answers[0::2] == [200] * 3
    assert sorted(answers[1::2]) == [200, 409, 409]
    (state,) = [s for s in pipelines.published(whole.app.state.settings.releases) if s.version == "v1"]
    assert state.withdrawn is not None
    assert len(state.errata) == 4  # one was there


def test_every_endpoint_has_a_limit_of_requests(make_whole: Callable[..., Any]) -> None:
    whole = make_whole(LIMITS__PUBLIC="1/hour", LIMITS__OPERATOR="1/hour", LIMITS__LOGIN="1/hour")
    for target, method in (("/", "GET"), (f"{API}/whoami", "GET"), ("/operator/login", "POST")):
        whole.ask(method, target)
    for route in routes_of(whole.app):
        for token in (None, "approver"):  # whoever has a token, too: it may be one that was stolen
            answer = whole.ask(route.method, route.filled(), token=token)
            limited = route.path not in ("/health", "/ready", "/metrics")
            assert (answer.status == 429) == limited, route
            if limited:
                sound(answer, route)
                assert 0 < int(answer.header("retry-after")) <= 3600
