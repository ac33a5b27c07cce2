"""Logging in with a provider of identities (OpenID Connect): authorization code flow with PKCE, by Authlib.

Optional: for services whose settings have ``[oidc]``, with the extra ``oidc``. A person has the role
of the first of ``oidc.roles`` that is among their groups; someone in none may not enter. Between the two
halves of a login a sealed cookie keeps what the second must find again (state, nonce, verifier of PKCE): only
the browser that asked can bring it, and nobody can read it, as they could the cookie of Starlette's sessions.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from fastapi import Request
from sqlalchemy import delete, insert
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from pipelines.service.access.auth import OIDC, sealer
from pipelines.service.access.tokens import Principal, person
from pipelines.service.refusals import not_found
from pipelines.service.settings import Oidc
from pipelines.service.store import ServiceError, Store, after, logins, utc_now

CALLBACK = "/operator/login/oidc/callback"
_COOKIE = "odsynth-login"
_SECONDS = 600
_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]


async def begin_login(request: Request) -> RedirectResponse:
    """Send the browser to the provider."""
    oidc, settings = _settings(request), request.app.state.settings
    provider = _provider(oidc)
    request.scope["session"] = {}
    try:
        await _load_metadata(provider, oidc)
        response: RedirectResponse = await provider.authorize_redirect(
            request, f"{settings.address}{CALLBACK}"
        )
    except Exception:
        detail = "The identity provider does not answer as it should. Try again."
        raise ServiceError(503, "oidc", detail) from None
    response.status_code = 303
    response.set_cookie(
        _COOKIE,
        sealer(request.app).encrypt(json.dumps(request.scope["session"]).encode()).decode(),
        max_age=_SECONDS,
        path=CALLBACK,
        secure=settings.https,
        httponly=True,
        samesite="lax",  # the provider's answer comes from another site
    )
    return response


async def finish_login(request: Request) -> Principal:
    """Return who the provider says has come back, at the address `CALLBACK`."""
    oidc = _settings(request)
    provider = _provider(oidc)
    try:
        kept = sealer(request.app).decrypt(request.cookies.get(_COOKIE, ""), ttl=_SECONDS)
        request.scope["session"] = json.loads(kept)
        claims = await _claims(request, provider, oidc)
        verified = claims.get("email_verified") is True and "email" in claims
        name = claims["email"] if verified else claims["sub"]
        if not isinstance(name, str):
            raise ValueError("the name is no text")
        await run_in_threadpool(_use_once, request.app.state.store, request.cookies[_COOKIE])
    except Exception:  # whatever is wrong with what browser and provider say, it lets nobody in
        detail = "This login was not completed. Fix: log in again."
        raise ServiceError(401, "unauthorized", detail) from None
    groups = claims.get(oidc.claim)
    groups = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    role = next((role for group, role in oidc.roles.items() if group in groups), None)
    if role is None:
        detail = "None of your groups has a role here; ask the operator of the service."
        raise ServiceError(403, "forbidden", detail)
    return Principal(person(name), role, OIDC)


def end_login(request: Request, response: Response) -> None:
    """Take the cookie of a login away, which is at its end."""
    https = request.app.state.settings.https
    response.delete_cookie(_COOKIE, path=CALLBACK, secure=https, httponly=True, samesite="lax")


def _use_once(store: Store, cookie: str) -> None:
    """Keep that a login is at its end; an error where it was before, perhaps at another server."""
    with store.write() as connection:
        connection.execute(delete(logins).where(logins.c.ended < after(-_SECONDS)))
        connection.execute(insert(logins).values(id=sha256(cookie.encode()).hexdigest(), ended=utc_now()))


async def _claims(request: Request, provider: Any, oidc: Oidc) -> dict[str, Any]:
    """Exchange the code for an identity token, and check that it is for us and for this login."""
    await _load_metadata(provider, oidc)
    expected = {
        "iss": {"essential": True, "value": oidc.issuer},
        "aud": {"essential": True, "value": oidc.client_id},
        "exp": {"essential": True},
        "sub": {"essential": True},
    }
    answer = await provider.authorize_access_token(
        request, grant_type="authorization_code", claims_options=expected, leeway=0
    )
    if "id_token" not in answer:  # without one, "userinfo" would be what the provider wrote there
        raise ValueError("no identity token")
    claims: dict[str, Any] = answer["userinfo"]
    return claims


def _settings(request: Request) -> Oidc:
    oidc: Oidc | None = request.app.state.settings.oidc
    if oidc is None:
        raise not_found("People log in with tokens here.")
    return oidc


def _provider(oidc: Oidc) -> Any:
    try:
        from authlib.integrations.starlette_client import OAuth
    except ModuleNotFoundError as error:
        fix = "Fix: install odsynth with the extra [oidc], from its checkout or its wheel"
        raise ServiceError(503, "oidc", f"The library for this login is not installed. {fix}.") from error
    return OAuth().register(
        "provider",
        client_id=oidc.client_id,
        client_secret=oidc.client_secret,
        server_metadata_url=f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={"scope": "openid email profile", "code_challenge_method": "S256", "timeout": 10},
    )


async def _load_metadata(provider: Any, oidc: Oidc) -> None:
    metadata = await provider.load_server_metadata()
    if metadata["issuer"] != oidc.issuer:
        raise ValueError("another issuer")
    # Authlib would take what the provider lists, "none" included.
    metadata["id_token_signing_alg_values_supported"] = _ALGORITHMS
